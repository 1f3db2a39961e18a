"""Functions of sweeps under test: a module that workers can import."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from connections.sweeps import Chunk, Output, Sweep

OUTPUTS = {"x": Output((3,), dims=("component",)), "row": Output(dtype="int64")}


@dataclass(frozen=True)
class Noise:
    """Random numbers of the chunk, after a while."""

    seconds: float = 0.0

    def __call__(self, chunk: Chunk) -> dict[str, np.ndarray]:
        time.sleep(self.seconds)
        return {"x": chunk.rng().normal(size=(chunk.rows, 3)), "row": np.arange(chunk.start, chunk.stop)}


@dataclass(frozen=True)
class FailsWhile:
    """Random numbers, but an error at one chunk while a file exists."""

    number: int
    path: Path

    def __call__(self, chunk: Chunk) -> dict[str, np.ndarray]:
        if chunk.number == self.number and self.path.exists():
            raise FloatingPointError("no luck")
        return Noise()(chunk)


def ends_its_process(chunk: Chunk) -> dict[str, np.ndarray]:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def twice_the_input(chunk: Chunk) -> dict[str, np.ndarray]:
    return {"x": 2.0 * chunk.inputs["q"], "row": np.arange(chunk.start, chunk.stop)}


def sweep(rows: int = 25, chunk: int = 10, seconds: float = 0.0, **options: object) -> Sweep:
    """A sweep of `Noise`."""
    given = {"name": "noise", "function": Noise(seconds), "rows": rows, "chunk": chunk, "outputs": OUTPUTS}
    return Sweep(**(given | options))  # type: ignore[arg-type]
