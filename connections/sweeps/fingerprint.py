"""The fingerprint of a sweep's computation: models, arrays, parameters and functions, by content.

A hash of pickles would not do, because equal objects may pickle to different bytes. Besides the fingerprint,
a store contains the hashes of the user's modules (`sources`).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import platform
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from connections._distribution import how_to_install, version
from connections.sweeps.sources import is_users, version_of

_PACKAGES = ("numpy", "numba", "jax", "jaxlib", "scipy")
_ALONE = (type, types.ModuleType, types.BuiltinFunctionType)


def versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Versions of Python and of the packages that affect the last bits of a result.

    Parameters
    ----------
    packages : others, by the names under which they are imported.
    """
    ours = {"python": platform.python_version(), "connections": version()}
    others = sorted({*packages, *_PACKAGES} - set(ours))
    return ours | {name: version_of(name) for name in others}


def fingerprint(*values: Any) -> str:
    """SHA-256 of values by content, hexadecimal: equal values have the same fingerprint in every process.

    Parameters
    ----------
    values : numbers, texts, arrays, dataclasses such as a `Model`, containers of them, and functions.
        Functions count by their code, defaults, closure, and the globals that their code names, functions
        included. Definitions of installed packages and of the standard library count by name.
    """
    return identity(*values)[0]


def identity(*values: Any) -> tuple[str, set[str]]:
    """The `fingerprint` of values, and the modules of the user that define functions and classes in them."""
    contents = _Contents()
    digest = hashlib.sha256()
    for part in contents.of(values, ()):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest(), contents.modules


class _Contents:
    """Values as bytes, for hashing."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self._seen: dict[int, tuple[int, Any]] = {}  # functions and classes of the user

    def of(self, value: Any, above: tuple[int, ...]) -> Iterator[bytes]:
        """The bytes of a value; `above` are ids of its containers, for objects that contain themselves."""
        if id(value) in above:
            yield b"above %d" % above[::-1].index(id(value))
            return
        above = (*above, id(value))
        if value is None or isinstance(value, bool | int | float | complex | str | PurePath):
            yield f"{type(value).__name__} {value!r}".encode()
        elif isinstance(value, bytes):
            yield value
        elif isinstance(value, np.ndarray | np.generic) or _is_array(value):
            array = np.ascontiguousarray(value)
            yield f"array {array.dtype.str} {np.shape(value)}".encode()
            yield from self._of_objects(array, above) if array.dtype.hasobject else (array.tobytes(),)
        elif isinstance(value, Mapping):
            yield b"mapping %d" % len(value)
            for key in sorted(value, key=repr):
                yield from self.of(key, above)
                yield from self.of(value[key], above)
        elif isinstance(value, set | frozenset):
            yield b"set"
            yield from sorted(self._alone(item) for item in value)
        elif isinstance(value, list | tuple):
            yield b"sequence %d" % len(value)
            for item in value:
                yield from self.of(item, above)
        else:
            yield from self._of_object(value, above)

    def _alone(self, item: Any) -> bytes:
        """The fingerprint of an item of a set, whose order is not the same in every process."""
        found, modules = identity(item)
        self.modules |= modules
        return found.encode()

    def _of_objects(self, array: np.ndarray, above: tuple[int, ...]) -> Iterator[bytes]:
        for item in array.ravel().tolist():
            yield from self.of(item, above)

    def _of_object(self, value: Any, above: tuple[int, ...]) -> Iterator[bytes]:
        kind = type(value)
        if isinstance(value, (types.FunctionType, *_ALONE)):
            yield from self._of_definition(value, above)
        elif isinstance(value, types.CodeType):
            yield value.co_code
            yield from self.of((value.co_consts, value.co_names, value.co_varnames), above)
        elif isinstance(value, types.MethodType):
            yield from self.of((value.__func__, value.__self__), above)
        elif isinstance(value, functools.partial):
            yield from self.of((value.func, value.args, value.keywords), above)
        elif dataclasses.is_dataclass(value):
            yield from self.of(kind, above)
            yield from self.of({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, above)
        elif hasattr(value, "__wrapped__"):
            yield from self.of(value.__wrapped__, above)
        else:
            yield from self.of(kind, above)
            yield from self.of(_pickled(value), above)

    def _of_definition(self, value: Any, above: tuple[int, ...]) -> Iterator[bytes]:
        """A function, a class or a module."""
        is_module = isinstance(value, types.ModuleType)
        module = value.__name__ if is_module else getattr(value, "__module__", None)
        name = getattr(value, "__qualname__", "")
        yield f"{type(value).__name__} {module} {name}".encode()
        if id(value) in self._seen:
            yield b"seen %d" % self._seen[id(value)][0]
            return
        self._seen[id(value)] = len(self._seen), value
        users = is_users(module)
        if users:
            self.modules.add(str(module))
        if isinstance(value, types.FunctionType):
            cells = [_content(cell) for cell in value.__closure__ or ()]
            yield from self.of((value.__defaults__, value.__kwdefaults__, cells), above)
            if users:
                yield from self.of((value.__code__, _globals_of(value)), above)
        elif users and isinstance(value, type):
            yield from self.of((value.__bases__, _own_attributes(value)), above)


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") and not isinstance(value, type)


def _globals_of(function: types.FunctionType) -> dict[str, Any]:
    """The global names in a function's code, and in the functions that it defines, with what they are."""
    names: set[str] = set()
    waiting = [function.__code__]
    while waiting:
        code = waiting.pop()
        names.update(code.co_names)
        waiting += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    found = function.__globals__
    return {name: found[name] for name in names if name in found}


def _own_attributes(kind: type) -> dict[str, Any]:
    """The attributes that a user's class defines, without those that Python adds."""
    found: dict[str, Any] = {}
    for name, value in vars(kind).items():
        for inner in ("__func__", "fget", "func"):  # of static methods, of properties, of cached ones
            value = getattr(value, inner, value)
        special = name.startswith("__") and name.endswith("__")
        own = not special and not hasattr(value, "__get__") and not name.startswith("_abc_")
        if own or isinstance(value, types.FunctionType):
            found[name] = value
    return found


def _pickled(value: Any) -> Any:
    """The parts of an object by its pickle protocol: constructor, state, items; its type if it has none."""
    try:
        said = value.__reduce_ex__(4)
    except Exception:  # any error of an object that cannot be pickled, such as a lock or an open file
        return None
    return said if isinstance(said, str) else [list(p) if isinstance(p, Iterator) else p for p in said]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def require_installed() -> None:
    """Raise `ModuleNotFoundError`, which says how to install Dask and Zarr, if one is missing."""
    for name in ("dask.array", "distributed", "zarr"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ModuleNotFoundError(
                f"sweeps use Dask and Zarr, and {name} cannot be imported: {how_to_install('sweeps')}"
            ) from error
