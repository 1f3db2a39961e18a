"""The fingerprint of what a sweep computes: models, arrays, parameters and functions, by content.

Pickles will not do: equal objects may pickle to different bytes.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import pickle
import platform
import types
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import PurePath
from typing import Any

import numpy as np

from connections._distribution import how_to_install, version

_PACKAGES = ("numpy", "numba", "jax")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide about the last bits of a result."""
    ours = {"python": platform.python_version(), "connections": version()}
    return ours | {name: metadata.version(name) for name in _PACKAGES}


def fingerprint(*values: Any) -> str:
    """SHA-256 of values by content, hexadecimal: equal values give the same in every process.

    Parameters
    ----------
    values : numbers, texts, arrays, dataclasses such as a `Model`, containers of them, and functions, which
        count by their code, defaults and closure.
    """
    digest = hashlib.sha256()
    for part in _parts(values, ()):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _parts(value: Any, above: tuple[int, ...]) -> Iterator[bytes]:
    """Bytes that stand for a value; `above` holds what it lies in, for objects that contain themselves."""
    if id(value) in above:
        yield b"above %d" % above[::-1].index(id(value))
        return
    above = (*above, id(value))
    if value is None or isinstance(value, bool | int | float | complex | str | PurePath):
        yield f"{type(value).__name__} {value!r}".encode()
    elif isinstance(value, bytes):
        yield value
    elif isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        array = np.ascontiguousarray(value)
        yield f"array {array.dtype.str} {np.shape(value)}".encode()
        yield array.tobytes()
    elif isinstance(value, Mapping):
        yield b"mapping %d" % len(value)
        for key in sorted(value, key=repr):
            yield from _parts(key, above)
            yield from _parts(value[key], above)
    elif isinstance(value, set | frozenset):
        yield b"set"
        yield from sorted(fingerprint(item).encode() for item in value)
    elif isinstance(value, list | tuple):
        yield b"sequence %d" % len(value)
        for item in value:
            yield from _parts(item, above)
    else:
        yield from _object_parts(value, above)


def _object_parts(value: Any, above: tuple[int, ...]) -> Iterator[bytes]:
    kind = type(value)
    if isinstance(value, type | types.ModuleType | types.BuiltinFunctionType):
        yield f"name {getattr(value, '__module__', '')} {value.__name__}".encode()
    elif isinstance(value, types.CodeType):
        yield value.co_code
        yield from _parts((value.co_consts, value.co_names, value.co_varnames), above)
    elif isinstance(value, types.FunctionType):
        yield f"function {value.__qualname__}".encode()
        yield from _parts(value.__code__, above)
        cells = [_content(cell) for cell in value.__closure__ or ()]
        yield from _parts((value.__defaults__, value.__kwdefaults__, cells), above)
    elif isinstance(value, types.MethodType):
        yield from _parts((value.__func__, value.__self__), above)
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, value.keywords), above)
    elif dataclasses.is_dataclass(value):
        yield f"dataclass {kind.__module__} {kind.__qualname__}".encode()
        yield from _parts({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, above)
    elif hasattr(value, "__wrapped__"):
        yield from _parts(value.__wrapped__, above)
    else:
        yield f"object {kind.__module__} {kind.__qualname__}".encode()
        yield pickle.dumps(value)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def require_installed() -> None:
    """Raise `ModuleNotFoundError` saying how to get Dask and Zarr unless they are installed."""
    for name in ("dask.array", "distributed", "zarr"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ModuleNotFoundError(
                f"sweeps use Dask and Zarr, and {name} cannot be imported: {how_to_install('sweeps')}"
            ) from error
