"""`load_c`: the C functions of a folder, compiled by the system's compiler and called from Python."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from connections._children import end_of, environment, program
from connections._words import no_such
from connections.checks import (
    ClosureError,
    IntegrationError,
    MetricError,
    NonFiniteError,
    PointError,
    batch_axes,
    require_names,
    require_path,
    require_text,
)
from connections.engines.arguments import as_float64, as_rows, require_output
from connections.multibody.generation.function_text import STATUSES
from connections.multibody.generation.project_files import FLAGS

_COMPILERS = ("cc", "gcc", "clang")
_SECONDS, _SAID = 3600.0, 2000  # for a compiler; characters of its errors that are shown
#: Types of the entries of a description; (type,) is a list of them.
_ABOUT = {"name": str, "dtype": str, "digest": str, "loops": int, "functions": dict}
_FUNCTION = {"arguments": (str,), "sizes": (int,), "shape": (int,), "stacked": bool}
_RAISED = {
    "NOT_FINITE": NonFiniteError,
    "NOT_UNIT": PointError,
    "SINGULAR": MetricError,
    "NO_STEP": IntegrationError,
    "NOT_CLOSED": ClosureError,
    "SINGULAR_LOOP": ClosureError,
}
_ROWS = """\
int rows_{function}(long count, {given}, {real} *out);
int rows_{function}(long count, {given}, {real} *out)
{{
    for (long row = 0; row < count; ++row) {{
{steps}
        if (status != 0) {{
            return status;
        }}
    }}
    return 0;
}}

"""


class CFunctions:
    """Generated functions as Python functions, by name: ``robot.coriolis_matrix(q, v)``.

    They have the signatures of the functions of `connections.multibody` without the model: arrays with
    leading batch axes that broadcast together, and, of `load_c`, ``out=``. What the functions take and return
    is converted if they compute in ``float``.

    Attributes
    ----------
    name : with which all names in C begin.
    dtype : ``"double"`` or ``"float"``.
    digest : SHA-256 of the model, the options and the library's version, as in the header.
    functions : their names.
    """

    def __init__(self, about: Mapping[str, Any], calls: Mapping[str, Any]) -> None:
        self.name, self.dtype, self.digest = about["name"], about["dtype"], about["digest"]
        self.functions, self._calls = tuple(calls), dict(calls)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._calls:
            raise AttributeError(no_such("function", name, self.functions))
        return self._calls[name]

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "CFunctions cannot be pickled or copied: a process loads them, by load_c or load_cuda"
        )

    def __repr__(self) -> str:
        return f"CFunctions({self.name}, {self.dtype}: {', '.join(self.functions)})"


class _CFunction:
    """One C function."""

    def __init__(self, name: str, about: Mapping[str, Any], dtype: str, function: Any) -> None:
        self.__name__, self._arguments = name, about["arguments"]
        self._sizes, self._shape = [(size,) for size in about["sizes"]], tuple(about["shape"])
        self._stacked = bool(about["stacked"])
        self._dtype = np.float32 if dtype == "float" else np.float64
        pointer = np.ctypeslib.ndpointer(self._dtype, flags="C_CONTIGUOUS")
        self._function = function
        function.argtypes = [ctypes.c_long, *[pointer] * len(self._arguments), pointer]
        function.restype = ctypes.c_int

    def __call__(self, *given: Any, out: Any = None) -> Any:
        require_count(self.__name__, self._arguments, given)
        arrays = [as_float64(*item) for item in zip(self._arguments, given, self._sizes, strict=True)]
        batch = batch_axes(self._arguments, arrays)
        if out is not None:
            require_output(out, (*batch, *self._shape))
        rows = [np.ascontiguousarray(as_rows(array, batch), dtype=self._dtype) for array in arrays]
        result = np.empty((*batch, *self._shape), dtype=self._dtype)
        status = self._function(len(rows[0]), *rows, result)
        if status:
            raise status_error(self.__name__, status)
        if out is None:
            out = result.astype(np.float64, copy=False)
        else:
            out[...] = result
        if self._stacked:  # several arrays, one by one
            return tuple(np.moveaxis(out, len(batch), 0))
        return out


def require_count(function: str, names: Sequence[str], given: Sequence[Any]) -> None:
    """Raise `TypeError` unless a function gets as many arguments as it has."""
    if len(given) != len(names):
        raise TypeError(f"{function}: expected {', '.join(names)}, got {len(given)} arguments")


def status_error(function: str, code: int) -> Exception:
    """The error that a status of a function means, other than 0."""
    status = [*STATUSES][code]
    return _RAISED[status](f"{function}: {STATUSES[status]}")


def load_c(folder: Any, *, compiler: str | None = None, flags: Sequence[str] = ("-O2",)) -> CFunctions:
    """Compile the C functions that `generate_c` wrote to a folder, and load them.

    The shared library is written to a temporary folder and removed after it is loaded.

    Parameters
    ----------
    folder : the argument of `generate_c`.
    compiler : the command of a C compiler; by default what the environment variable ``CC`` says, or the first
        of cc, gcc and clang that is installed.
    flags : options of the compiler.

    Returns
    -------
    An object whose attributes are the functions: ``load_c(folder).coriolis_matrix(q, v)``. They raise the
    errors of the functions of `connections.multibody` for bad input.

    Raises
    ------
    TypeError, ValueError : an argument of another kind; the description in the folder has been changed.
    FileNotFoundError : the folder was not written by `generate_c`, or there is no compiler.
    RuntimeError : the compiler fails, makes no library, or takes too long; the message ends with its words.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("four_bar")
    >>> mb.codegen.generate_c(robot, ["mass_matrix"], "generated")  # doctest: +SKIP
    >>> mb.codegen.load_c("generated").mass_matrix([0.4])  # doctest: +SKIP
    >>> mb.codegen.load_c("no_such_folder")
    Traceback (most recent call last):
        ...
    FileNotFoundError: no_such_folder: expected a folder that generate_c wrote
    """
    path = require_path("folder", folder).absolute()  # a relative one may look like an option
    flags, about = require_names("flags", flags), description_of(folder)
    command = _compiler(None if compiler is None else require_text("compiler", compiler))
    with tempfile.TemporaryDirectory(prefix="connections-c-") as build:
        rows, library = Path(build) / "rows.c", Path(build) / "functions.so"
        rows.write_text(_rows(about), encoding="utf-8")
        units = ["close"] * bool(about["loops"]) + [*about["functions"]]
        sources = [path / f"{about['name']}_{unit}.c" for unit in units]
        options = [*FLAGS.split(), *flags, "-fPIC", "-shared", f"-I{path}", "-o", str(library)]
        _compile([command, *options, str(rows), *map(str, sources), "-lm"], build, path)
        try:
            compiled = ctypes.CDLL(str(library))
        except OSError as error:
            raise RuntimeError(f"{command} made no library of {path}: {error}") from None
    calls = {
        function: _CFunction(function, row, about["dtype"], getattr(compiled, f"rows_{function}"))
        for function, row in about["functions"].items()
    }
    return CFunctions(about, calls)


def _compile(command: list[str], build: str, path: Path) -> None:
    """Run a compiler. Raises `RuntimeError` if it fails, or takes too long."""
    what = f"{command[0]} cannot compile {path}:"
    with tempfile.TemporaryFile() as errors:
        try:
            status = subprocess.run(
                command,
                cwd=build,  # where no file of others can be meant
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                check=False,
                timeout=_SECONDS,
            ).returncode
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{what} it took more than {_SECONDS:g} s") from None
        except OSError as error:
            raise RuntimeError(f"{what} it cannot be started: {error.strerror}") from None
        if status:
            raise RuntimeError(f"{what} it {end_of(status, errors, _SAID)}")


def description_of(folder: Any) -> dict[str, Any]:
    """The description that `generate_c` wrote of the functions in a folder.

    Raises
    ------
    FileNotFoundError : `generate_c` did not write the folder. TypeError, ValueError : it is no path, or the
    description is not as `generate_c` wrote it.
    """
    path = require_path("folder", folder)
    found = [file for file in sorted(path.glob("*.json")) if (path / f"{file.stem}_support.h").exists()]
    if len(found) != 1:
        raise FileNotFoundError(f"{path}: expected a folder that generate_c wrote")
    try:
        about = json.loads(found[0].read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        about = None
    if not _has(about, _ABOUT) or not all(map(_is_function, about["functions"].values())):
        raise ValueError(f"{path}: {found[0].name} is not as generate_c wrote it; generate the folder again")
    return dict(about)


def _is_function(row: Any) -> bool:
    return _has(row, _FUNCTION) and len(row["arguments"]) == len(row["sizes"])


def _has(about: Any, kinds: Mapping[str, Any]) -> bool:
    """Whether a part of a description has all entries, of their kinds."""
    return isinstance(about, dict) and all(_is(about.get(name), kind) for name, kind in kinds.items())


def _is(value: Any, kind: Any) -> bool:
    if isinstance(kind, tuple):
        return isinstance(value, list) and all(type(each) is kind[0] for each in value)
    return type(value) is kind


def _compiler(given: str | None) -> str:
    """The path of the C compiler."""
    named = given or os.environ.get("CC")
    for command in [named] if named else _COMPILERS:
        found = program(command)
        if found:
            return found
    if named:
        raise FileNotFoundError(f"there is no C compiler '{named}'")
    raise FileNotFoundError(f"there is no C compiler: none of {', '.join(_COMPILERS)} is installed")


def _rows(about: Mapping[str, Any]) -> str:
    """Functions in C that call those of the folder for rows of arguments, until a status is not 0."""
    name, real, texts = about["name"], about["dtype"], [f'#include "{about["name"]}.h"\n\n']
    for function, row in about["functions"].items():
        size = int(np.prod(row["shape"]))
        arguments = list(zip(row["arguments"], row["sizes"], strict=True))
        each = [f"{argument} + {n} * row" for argument, n in arguments]
        if about["loops"]:  # followed from the reference, as in the library
            each[0] = "loops"
        call = f"{name}_{function}({', '.join(each)}, out + {size} * row)"
        steps = [f"const int status = {call};"]
        if about["loops"]:
            steps = [f"double loops[{about['loops']}];", f"{name}_start(loops);"]
            steps += [f"int status = {name}_close(q + {arguments[0][1]} * row, loops);"]
            steps += [f"status = status != 0 ? status : {call};"]
        texts.append(
            _ROWS.format(
                function=function,
                real=real,
                given=", ".join(f"const {real} *{argument}" for argument, _ in arguments),
                steps="\n".join(f"        {step}" for step in steps),
            )
        )
    return "".join(texts)
