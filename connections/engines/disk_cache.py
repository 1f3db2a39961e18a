"""Machine code on disk: Numba's cache, with a seal, and never the reason why a call fails.

Numba raises its own errors if no folder can be written or if a file of its cache is damaged, and it runs
machine code that was changed on disk. Here every file holds the name of its function and a checksum. A file
that does not fit, is cut off, or is another program's is overwritten by what is compiled again. Without a
folder that can be written, functions are compiled in each process, and one warning says so.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import warnings
from collections.abc import Callable
from typing import Any

from connections.engines.internals.numba_names import (
    CompileResultCacheImpl,
    FunctionCache,
    NullCache,
    dumps,
)


def cache_of(function: Any) -> Any:
    """The cache of a Python function, to be given to what Numba makes of it (`numba_names.set_cache`)."""
    try:
        return _Cache(function)
    except RuntimeError:  # none of Numba's folders can be written
        _warn_once()
        return _NoCache()


class _Sealed(CompileResultCacheImpl):
    """What is written: the name of the file that the code is for, a checksum, and the code."""

    def reduce(self, compiled: Any) -> tuple[str, bytes, bytes]:
        content = dumps(super().reduce(compiled))
        return self.filename_base, hashlib.sha256(content).digest(), content

    def rebuild(self, target_context: Any, sealed: Any) -> Any:
        name, seal, content = sealed
        if name != self.filename_base or seal != hashlib.sha256(content).digest():
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
    """What a function has instead if no folder can be written: every file is missing."""

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
