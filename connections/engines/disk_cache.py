"""Machine code on disk: Numba's cache with hashes of sources and checksums, whose faults make no call fail.

Numba runs machine code after an edit of a function that is compiled into it, and machine code that was
changed on disk; it raises its own errors if no folder can be written or if a file of its cache is damaged.
Here every file contains the name of its function, the hash of all that is compiled into it
(`source_fingerprint`), which is in the file's name, too, and a checksum. So several versions of the sources
share a folder, the user's, and nothing is written where the package is installed. If a file does not match,
is cut off, or belongs to another program, the function is compiled again and the file is overwritten. If no
folder can be written, functions are compiled in each process, and one warning says so.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import io
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from connections._cache_folder import cache_folder, remove_oldest
from connections._written import write_file
from connections.engines.internals.numba_names import (
    VERSION,
    CompileResultCacheImpl,
    FunctionCache,
    NullCache,
    cache_folder_by_variable,
    compiled_from,
    dumps,
    index_key,
    locator,
    stamp,
    write_by,
)
from connections.engines.source_fingerprint import fingerprint

_NUMBERED = 2  # how names in machine code are: those of 1 may be those of another process, too


def cache_of(function: Any) -> Any:
    """The cache of a function, for what Numba compiles from it (`numba_names.set_cache`).

    Parameters
    ----------
    function : of `numba.njit`, or a Python function. All that it refers to has to be defined.
    """
    sources = hashlib.sha256(f"{_NUMBERED} {fingerprint(function)}".encode()).hexdigest()
    try:
        return _Cache(function, sources)
    except RuntimeError:  # no folder can be written
        _warn_once()
        return _NoCache()


def machine_code_folder() -> Path | None:
    """The folder of machine code, of this user alone; None if there is none that can be written."""
    chosen = cache_folder_by_variable()
    return cache_folder(f"numba-{VERSION}", os.path.abspath(chosen) if chosen else "")


def _folder() -> str | None:
    path = machine_code_folder()
    if path is None:
        return None
    _remove_at_exit(path)
    return str(path)


@functools.cache
def _remove_at_exit(path: Path) -> None:
    atexit.register(remove_oldest, path)


@contextlib.contextmanager
def _writing(path: str) -> Iterator[io.BytesIO]:
    """Write a file of this user alone."""
    stream = io.BytesIO()
    yield stream
    write_file(Path(path), stream.getvalue())


class _Sealed(CompileResultCacheImpl):
    """The content of a file: the file's own name, the hash of the sources, a checksum, and the code."""

    _locator_classes = [locator(_folder)]
    stamp: str

    def reduce(self, compiled: Any) -> tuple[str, str, bytes, bytes]:
        content = dumps(super().reduce(compiled))
        return self.filename_base, self.stamp, hashlib.sha256(content).digest(), content

    def rebuild(self, target_context: Any, sealed: Any) -> Any:
        name, sources, seal, content = sealed
        found, expected = (name, sources), (self.filename_base, self.stamp)
        if found != expected or seal != hashlib.sha256(content).digest():
            raise ValueError(f"the machine code of {self.filename_base} is damaged, or another function's")
        return super().rebuild(target_context, pickle.loads(content))


class _Cache(FunctionCache):
    """Numba's cache of one function, in which a file that cannot be used counts as missing.

    Attributes
    ----------
    on_missing : called, if it is given, before a function is compiled because no file holds it.
    """

    _impl_class = _Sealed
    on_missing: Callable[[], None] | None = None

    def __init__(self, function: Any, sources: str) -> None:
        super().__init__((compiled_from(function) or {"function": function})["function"])
        stamp(self, sources)
        write_by(self, _writing)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return index_key(sig, codegen)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = None
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # reading a damaged pickle can raise any error
            self.flush()
        if found is None and self.on_missing is not None:
            self.on_missing()
        return found

    def save_overload(self, sig: Any, compiled: Any) -> None:
        try:
            super().save_overload(sig, compiled)
        except OSError:  # a full disk, or a folder that was removed or closed
            _warn_once()

    def flush(self) -> None:
        try:
            super().flush()  # writes an empty index
        except OSError:
            self.disable()
            _warn_once()


class _NoCache(NullCache):
    """The cache of a function if no folder can be written: every file is missing."""

    on_missing: Callable[[], None] | None = None

    def load_overload(self, sig: Any, target_context: Any) -> None:
        if self.on_missing is not None:
            self.on_missing()


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        "compiled functions cannot be kept on disk, so every process compiles those that it calls, which "
        "takes seconds for each: let the variable NUMBA_CACHE_DIR name a folder that can be written",
        RuntimeWarning,
        stacklevel=2,
    )
