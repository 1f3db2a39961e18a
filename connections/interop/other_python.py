"""A library in another interpreter: its functions, as functions of arrays here.

The interpreter runs `adaptors/runner.py` with one adaptor. It needs neither this package nor its
dependencies. If it crashes, hangs or refuses, the error says so in a line.
"""

from __future__ import annotations

import json
import math
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from connections._children import end_of, environment, program
from connections._shown import shown
from connections.checks import as_number, require_path, require_text
from connections.interop.adaptors import ADAPTORS, RUNNER
from connections.interop.libraries import LibraryError
from connections.interop.libraries.library import Array

_MOST_LINE, _MOST_ARRAY, _MOST_ERRORS = 1 << 20, 1 << 30, 1 << 28  # bytes
_MOST_SHOWN = 60  # bytes of something that is no answer
_TO_END = 5.0  # s, for a process that has closed its output


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and size >= 0 for size in value)


def _is_dtype(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[<>|=]?[biuf][1-9][0-9]?", value) is not None


#: What answers have, and whether it is of the right kind.
_ABOUT = {
    "installed": lambda value: isinstance(value, bool),
    "version": _is_text,
    "distribution": _is_text,
    "formats": _are_texts,
    "python": _is_text,
}
_ROBOT = {
    "joints": _are_texts,
    "given": _are_texts,
    "floating": lambda value: isinstance(value, dict),
    "precision": _is_text,
    "functions": lambda value: isinstance(value, dict),
    "notes": _are_texts,
}
_OPTIONAL = ("floating", "precision", "functions", "notes")
_ARRAY = {"shape": _is_shape, "dtype": _is_dtype}

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
        self.timeout = timeout = as_number("timeout", timeout)
        if not timeout > 0.0:
            raise ValueError(f"timeout: expected a positive number, s, got {timeout:g}")
        named = sys.executable if python is None else str(require_path("python", python))
        found = program(named)
        if found is None:
            raise LibraryError(f"there is no interpreter '{shown(named)}'")
        self._who = shown(found)  # in errors, until it has answered
        self._errors = tempfile.TemporaryFile()
        self._folder = tempfile.TemporaryDirectory(prefix="connections_audit_")
        try:
            self._process = subprocess.Popen(
                [found, str(RUNNER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=self._folder.name,  # where libraries read settings, and write logs
                env=environment(),
                bufsize=0,
            )
        except OSError as error:
            self._errors.close()
            self._folder.cleanup()
            raise LibraryError(f"{shown(found)} cannot be started: {error.strerror}") from None
        self._buffer = b""
        try:
            self.about: dict[str, Any] = self._ask({"adaptor": str(adaptor)}, _ABOUT)[0]
            if not self.about["installed"]:
                raise LibraryError(
                    f"{self.name} is not installed in {self._who}: pip install {self.about['distribution']}"
                )
            self._who = self.name
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
        return OtherRobot(self, self._ask({"load": file, "floating": bool(floating)}, _ROBOT)[0])

    def call(self, name: str, *arguments: Array) -> Array:
        """A function of the last loaded robot.

        Raises
        ------
        LibraryError : it raises, or the process ends or takes too long.
        """
        arrays = [np.ascontiguousarray(argument, dtype=np.float64) for argument in arguments]
        request = {"call": name, "sizes": [array.size for array in arrays]}
        answer, data = self._ask(request, _ARRAY, b"".join(array.tobytes() for array in arrays))
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
        self._folder.cleanup()

    def __enter__(self) -> OtherPython:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the line to the process ----------------------------------------------------------------------

    def _ask(
        self, request: dict[str, Any], kinds: Mapping[str, Any], data: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """An answer with entries of these kinds, and the bytes of its array."""
        stdin, until = self._process.stdin, time.monotonic() + self.timeout
        assert stdin is not None
        try:
            rest = memoryview(json.dumps(request).encode() + b"\n" + data)
            while rest:
                rest = rest[stdin.write(rest) or 0 :]
        except OSError:
            raise LibraryError(self._end()) from None
        while b"\n" not in self._buffer:
            if len(self._buffer) > _MOST_LINE:
                raise self._no_answer(self._buffer)
            self._receive(until)
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            raise self._no_answer(line) from None
        if isinstance(answer, dict) and isinstance(answer.get("not given"), str):
            raise NotGivenError(answer["not given"])
        if isinstance(answer, dict) and isinstance(answer.get("error"), str):
            raise LibraryError(f"{self.name} refuses: {answer['error']}")
        size = _size_of(answer, kinds)
        if size is None:
            raise self._no_answer(line)
        while len(self._buffer) < size:
            self._receive(until)
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return answer, found

    def _receive(self, until: float) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        while not select.select([stdout], [], [], min(max(until - time.monotonic(), 0.0), 1.0))[0]:
            if time.monotonic() > until:
                raise self._stopped(f"{self._who} took more than {self.timeout:g} s")
            if os.fstat(self._errors.fileno()).st_size > _MOST_ERRORS:
                raise self._stopped(f"{self._who} wrote more than {_MOST_ERRORS >> 20} MiB to its errors")
        found = os.read(stdout.fileno(), 1 << 16)
        if not found:
            raise LibraryError(self._end())
        self._buffer += found

    def _end(self) -> str:
        """How the process ended, in a line; one that has closed its output and goes on is stopped."""
        try:
            status = self._process.wait(_TO_END)
        except subprocess.TimeoutExpired:
            return str(self._stopped(f"{self._who} closed its output, and did not end"))
        return f"{self._who} {end_of(status, self._errors)}"

    def _no_answer(self, line: bytes) -> LibraryError:
        """The error of a process that answers something else, which is stopped: nothing behind it fits."""
        text = shown(repr(line[:_MOST_SHOWN].decode(errors="replace")))
        return self._stopped(
            f"{self._who} answers {text}, in place of JSON from {RUNNER.name} with the adaptor "
            f"'{self.name}': is it a Python, and does the adaptor give what docs/referee.md says?"
        )

    def _stopped(self, why: str) -> LibraryError:
        self._process.kill()
        self._process.wait()
        return LibraryError(why)


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


def _size_of(answer: Any, kinds: Mapping[str, Any]) -> int | None:
    """The bytes of the array behind an answer; None if it lacks an entry, or has one of another kind."""
    if not isinstance(answer, dict):
        return None
    if not all(kinds[name](answer[name]) if name in answer else name in _OPTIONAL for name in kinds):
        return None
    if "shape" not in kinds:
        return 0
    size = math.prod(answer["shape"]) * np.dtype(answer["dtype"]).itemsize
    return size if size <= _MOST_ARRAY else None


def _adaptor(library: str) -> tuple[str, Path]:
    """The name of a library, and its adaptor."""
    require_text("library", library)
    path = Path(library)
    if path.suffix == ".py":
        if not path.is_file():
            raise LibraryError(f"there is no adaptor {library}")
        return path.stem, path.resolve()
    if library not in ADAPTORS:
        known = ", ".join(ADAPTORS)
        raise LibraryError(f"unknown library '{library}'; there are adaptors for {known}, or name yours")
    return library, ADAPTORS[library]
