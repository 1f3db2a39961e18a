"""The program of another interpreter: it imports one adaptor, and answers calls until its input ends.

Run: PYTHON runner.py ADAPTOR.py. It needs NumPy, and what the adaptor imports. A request is a line of JSON,
with the float64 arguments of a call behind it; so is an answer, with the array that it describes. What the
library prints goes to the standard error.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib import metadata, util
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np


def main() -> None:
    """Answer the requests on the standard input."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    robot: dict[str, Any] = {}
    adaptor: Any = None
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            if "adaptor" in request:
                adaptor = _import(request["adaptor"])
                answer, array = _about(adaptor), None
            elif "load" in request:
                robot = adaptor.load(request["load"], request["floating"])
                answer, array = _described(robot), None
            else:
                array = _called(robot[request["call"]], request["sizes"])
                answer = {"shape": array.shape, "dtype": array.dtype.str}
        except Exception as error:
            text = " ".join(str(error).split())
            if isinstance(error, NotImplementedError):
                answer, array = {"not given": text[:150]}, None
            else:
                answer, array = {"error": type(error).__name__ + (f": {text[:150]}" if text else "")}, None
        answers.write(json.dumps(answer).encode() + b"\n" + (b"" if array is None else array.tobytes()))
        answers.flush()


def _import(path: str) -> Any:
    module = ModuleType("adaptor")
    module.__file__ = path
    with open(path, "rb") as file:
        # Compiled here: bytecode is taken for any file of the same size that was written in the same second.
        exec(compile(file.read(), path, "exec"), module.__dict__)
    return module


def _about(adaptor: Any) -> dict[str, Any]:
    """Whether the library is there, its version, and which files it reads."""
    try:
        there = util.find_spec(adaptor.PACKAGE) is not None
    except ModuleNotFoundError:
        there = False
    try:
        version = metadata.version(adaptor.DISTRIBUTION)
    except metadata.PackageNotFoundError:
        version = ""
    return {
        "installed": there,
        "version": version,
        "distribution": adaptor.DISTRIBUTION,
        "formats": list(adaptor.FORMATS),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _described(robot: dict[str, Any]) -> dict[str, Any]:
    """The entries of a robot that are no functions, and under "given" the names of those that are."""
    plain = {name: value for name, value in robot.items() if not callable(value)}
    return plain | {"given": [name for name, value in robot.items() if callable(value)]}


def _called(function: Any, sizes: list[int]) -> np.ndarray[Any, Any]:
    arguments = [np.frombuffer(_read(sys.stdin.buffer, 8 * size)).copy() for size in sizes]
    return np.ascontiguousarray(function(*arguments))


def _read(stream: BinaryIO, size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        sys.exit()
    return found


main()
