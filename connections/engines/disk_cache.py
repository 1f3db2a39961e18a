"""Machine code on disk: Numba's cache with hashes of sources and checksums, whose faults make no call fail.

Numba runs machine code after an edit of a function that is compiled into it, and machine code that was
changed on disk; it raises its own errors if no folder can be written or if a file of its cache is damaged.
Here every file contains the name of its function, the hash of all that is compiled into it
(`source_fingerprint`), which is in the file's name, too, and a checksum. So several versions of the sources
share a folder, the user's, and nothing is written where the package is installed. If a file does not match,
is cut off, or belongs to another program, the function is compiled again and the file is overwritten. If no
folder can be written, functions are compiled in each process, and one warning says so. Machine code that came
with the package (`shipped_code`) goes first, by the same name, hash and checksum.
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
    begin_runtime,
    cache_folder_by_variable,
    compiled_from,
    dumps,
    file_name,
    index_key,
    load_by,
    locator,
    stamp,
    unfit_for_linking,
    without_bodies,
    write_by,
)
from connections.engines.shipped_code import read_shipped
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
        cache: Any = _Cache(function, sources)
    except RuntimeError:  # no folder can be written
        cache = _NoCache()
    cache.shipped = _Shipped(function, sources)
    return cache


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
        content = dumps(without_bodies(super().reduce(compiled)))
        return self.filename_base, self.stamp, hashlib.sha256(content).digest(), content

    def rebuild(self, target_context: Any, sealed: Any) -> Any:
        name, sources, seal, content = sealed
        found, expected = (name, sources), (self.filename_base, self.stamp)
        if found != expected or seal != hashlib.sha256(content).digest():
            raise ValueError(f"the machine code of {self.filename_base} is damaged, or another function's")
        return unfit_for_linking(super().rebuild(target_context, pickle.loads(content)))


class _Shipped(_Sealed):
    """The machine code of one function that came with the package."""

    _locator_classes = [locator(lambda: "")]

    def __init__(self, function: Any, sources: str) -> None:
        super().__init__(_python(function))
        self.stamp = sources

    def load(self, sig: Any, target_context: Any) -> Any:
        """The function compiled for the types `sig`; None if there is none, or if it is damaged."""
        content = read_shipped(file_name(self.filename_base, self.stamp))
        if content is None:
            return None
        begin_runtime(target_context)
        try:
            found = self.rebuild(target_context, pickle.loads(content))
        except Exception:  # reading a damaged pickle can raise any error
            return None
        return found if found.signature.args == _types(sig) else None


class _ShippedFirst:
    """A cache that looks at what came with the package before it looks elsewhere.

    Attributes
    ----------
    on_missing : called, if it is given, before a function is compiled because no file holds it.
    """

    shipped: _Shipped
    on_missing: Callable[[], None] | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = self.shipped.load(sig, target_context)
        if found is None:
            found = self._kept(sig, target_context)
        if found is None and self.on_missing is not None:
            self.on_missing()
        return found

    def _kept(self, sig: Any, target_context: Any) -> Any:
        raise NotImplementedError


class _Cache(_ShippedFirst, FunctionCache):
    """Numba's cache of one function, in which a file that cannot be used counts as missing."""

    _impl_class = _Sealed

    def __init__(self, function: Any, sources: str) -> None:
        super().__init__(_python(function))
        stamp(self, sources)
        write_by(self, _writing)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return index_key(sig, codegen)

    def _kept(self, sig: Any, target_context: Any) -> Any:
        try:
            return load_by(self, sig, target_context)
        except Exception:  # reading a damaged pickle can raise any error
            self.flush()
        return None

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


class _NoCache(_ShippedFirst, NullCache):
    """The cache of a function if no folder can be written: every file is missing."""

    def _kept(self, sig: Any, target_context: Any) -> None:
        _warn_once()


def _python(function: Any) -> Any:
    """The Python function that is compiled."""
    return (compiled_from(function) or {"function": function})["function"]


def _types(sig: Any) -> Any:
    """The types of arguments, which stand alone for a function that Python calls, in a signature for C."""
    return sig if isinstance(sig, tuple) else sig.args


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        "compiled functions cannot be kept on disk, so every process compiles those that it calls, which "
        "takes seconds for each: let the variable NUMBA_CACHE_DIR name a folder that can be written",
        RuntimeWarning,
        stacklevel=2,
    )
