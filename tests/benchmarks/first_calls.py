"""The first call of every recursion in a new process: nothing compiled before, and from Numba's cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from core import CORES, ROOT
from recursions_page import FirstCall

from connections.multibody.program.table import RECURSIONS

PROGRAM = """
import sys, time
import numpy as np
from connections import multibody as mb
name, batch, vectors = sys.argv[1], tuple(map(int, sys.argv[2].split())), int(sys.argv[3])
mechanism = mb.Mechanism()
for body in range(7):
    mechanism.add_body(f"body {body}", 1.0, (0.1, 0.0, 0.2), np.eye(3))
    parent = f"body {body - 1}" if body else "world"
    mechanism.add_joint(f"joint {body}", parent, f"body {body}", mb.Revolute((0, body % 2, 1)))
model = mechanism.build()
arguments = [np.full((*batch, 7), 0.5) for _ in range(1 + vectors)]
start = time.perf_counter()
getattr(mb.curvatures if "curvature" in name else mb, name)(model, *arguments)
print(time.perf_counter() - start)
"""


def first_calls(batch: tuple[int, ...]) -> Iterator[FirstCall]:
    """The first call of each recursion; Numba's import is part of it.

    Parameters
    ----------
    batch : batch axes of the arguments; () for the function of one configuration.
    """
    kind = "batch" if batch else "one"
    for name, row in RECURSIONS.items():
        with tempfile.TemporaryDirectory() as cache:
            cold, cached = (_first_call(name, batch, len(row.vectors), cache) for _ in range(2))
        yield FirstCall(name, kind, cold, cached)


def _first_call(name: str, batch: tuple[int, ...], vectors: int, cache: str) -> float:
    own = os.sched_getaffinity(0) if CORES else set()
    if CORES:
        os.sched_setaffinity(0, CORES)  # inherited: a new process has all cores, as a user's has
    words = [sys.executable, "-c", PROGRAM, name, " ".join(map(str, batch)), str(vectors)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(words, check=True, cwd=ROOT, env=environment, capture_output=True, text=True)
    if CORES:
        os.sched_setaffinity(0, own)
    return float(done.stdout)
