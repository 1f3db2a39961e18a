"""A library in another interpreter: its functions, as functions of arrays here.

The interpreter runs `adaptors/runner.py` with one adaptor. It needs neither this package nor its
dependencies. If it crashes, hangs or refuses, the error says so in a line.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from connections._children import environment, program
from connections.interop.adaptors import ADAPTORS, RUNNER
from connections.interop.libraries import LibraryError
from connections.interop.libraries.library import Array

#: Seconds after which a call is given up; libraries compile at their first.
TIMEOUT = 600.0


class NotGivenError(LibraryError):
    """A library does not model what is asked for, as its adaptor says."""


class OtherPython:
    """A library in another interpreter, started at once and stopped by `close`.

    Parameters
    ----------
    library : a name of `ADAPTORS`, or the path of an adaptor (``*.py``).
    python : the interpreter; this one by default.
    timeout : seconds for a call.

    Raises
    ------
    LibraryError : there is no such adaptor or interpreter, or the library is not installed there.
    """

    def __init__(
        self, library: str, python: str | os.PathLike[str] | None = None, timeout: float = TIMEOUT
    ) -> None:
        self.name, adaptor = _adaptor(library)
        self.timeout = timeout
        found = sys.executable if python is None else program(os.fspath(python))
        if found is None:
            raise LibraryError(f"there is no interpreter '{python}'")
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [found, str(RUNNER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(),
            bufsize=0,
        )
        self._buffer = b""
        try:
            self.about: dict[str, Any] = self._ask({"adaptor": str(adaptor)})[0]
            if not self.about["installed"]:
                raise LibraryError(
                    f"{self.name} is not installed in {found}: pip install {self.about['distribution']}"
                )
        except BaseException:
            self.close()
            raise

    def load(self, path: str | os.PathLike[str], floating: bool = False) -> OtherRobot:
        """The robot of a file, with the base free or fixed.

        Raises
        ------
        LibraryError : the library refuses the file. NotGivenError : it has no such robots.
        """
        file = os.path.abspath(path)
        return OtherRobot(self, self._ask({"load": file, "floating": bool(floating)})[0])

    def call(self, name: str, *arguments: Array) -> Array:
        """A function of the last loaded robot.

        Raises
        ------
        LibraryError : it raises, or the process ends or takes too long.
        """
        arrays = [np.ascontiguousarray(argument, dtype=np.float64) for argument in arguments]
        request = {"call": name, "sizes": [array.size for array in arrays]}
        answer, data = self._ask(request, b"".join(array.tobytes() for array in arrays))
        return np.frombuffer(data, np.dtype(answer["dtype"])).reshape(answer["shape"])

    @property
    def alive(self) -> bool:
        """Whether it still answers."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def __enter__(self) -> OtherPython:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the line to the process ----------------------------------------------------------------------

    def _ask(self, request: dict[str, Any], data: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """An answer, and the bytes of its array."""
        stdin, until = self._process.stdin, time.monotonic() + self.timeout
        assert stdin is not None
        try:
            rest = memoryview(json.dumps(request).encode() + b"\n" + data)
            while rest:
                rest = rest[stdin.write(rest) or 0 :]
        except OSError:
            raise LibraryError(self._end()) from None
        while b"\n" not in self._buffer:
            self._receive(until)
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer = json.loads(line)
        if "not given" in answer:
            raise NotGivenError(answer["not given"])
        if "error" in answer:
            raise LibraryError(f"{self.name} refuses: {answer['error']}")
        size = 0
        if "shape" in answer:
            size = int(np.prod(answer["shape"], dtype=int)) * np.dtype(answer["dtype"]).itemsize
        while len(self._buffer) < size:
            self._receive(until)
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return answer, found

    def _receive(self, until: float) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], max(until - time.monotonic(), 0.0))[0]:
            self._process.kill()
            raise LibraryError(f"{self.name} took more than {self.timeout:g} s")
        found = os.read(stdout.fileno(), 1 << 16)
        if not found:
            raise LibraryError(self._end())
        self._buffer += found

    def _end(self) -> str:
        """How the process ended, in a line."""
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        last = (lines or ["no message"])[-1][:200]
        how = f"crashed ({signal.Signals(-status).name})" if status < 0 else "ended"
        return f"{self.name} {how}: {last}"


class OtherRobot:
    """A robot in another interpreter; valid until the next one is loaded there.

    Parameters
    ----------
    python : where it is.
    description : what the adaptor says of it.
    """

    def __init__(self, python: OtherPython, description: dict[str, Any]) -> None:
        self._python = python
        self.joints: tuple[str, ...] = tuple(description["joints"])
        self.floating: dict[str, Any] = description.get("floating", {})
        self.precision: str = description.get("precision", "float64")
        self.functions: dict[str, str] = description.get("functions", {})
        self.notes: tuple[str, ...] = tuple(description.get("notes", ()))
        self.given: tuple[str, ...] = tuple(description["given"])

    def function(self, name: str) -> Callable[..., Array] | None:
        """A function of the library's own q, or q and v; None if it has none of this name."""
        if name not in self.given:
            return None
        return lambda *arguments: self._python.call(name, *arguments)


def _adaptor(library: str) -> tuple[str, Path]:
    """The name of a library, and its adaptor."""
    path = Path(library)
    if path.suffix == ".py":
        if not path.is_file():
            raise LibraryError(f"there is no adaptor {library}")
        return path.stem, path.resolve()
    if library not in ADAPTORS:
        known = ", ".join(ADAPTORS)
        raise LibraryError(f"unknown library '{library}'; there are adaptors for {known}, or name yours")
    return library, ADAPTORS[library]
