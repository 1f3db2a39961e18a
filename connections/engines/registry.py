"""Compiled functions by name, each compiled (or read from Numba's cache) at its first use.

If the arguments are not exactly of the types that a function was compiled for, a call raises `OtherTypes`;
the caller then converts them, or raises the error that says what is wrong.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from connections._children import held_by_forks
from connections.engines.arguments import OtherTypes

_lock = held_by_forks(threading.RLock())


class Registry:
    """Compiled functions as attributes.

    Parameters
    ----------
    names : of all functions.
    find : name -> the function, and arguments of the types that it is compiled for.
    announce : called with a name before that function is compiled, but not before it is read from the cache.
    """

    def __init__(
        self,
        names: Iterable[str],
        find: Callable[[str], tuple[Any, Sequence[Any]]],
        announce: Callable[[str], None],
    ) -> None:
        self.names, self._find, self._announce = frozenset(names), find, announce

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.names:
            raise AttributeError(name)
        return self.require(name)

    def require(self, name: str) -> Any:
        """The compiled function `name`."""
        functions = self.__dict__
        if name not in functions:
            with _lock, _without_collection():
                if name not in functions:
                    functions[name] = _compiled_for(*self._find(name), partial(self._announce, name))
        return functions[name]

    def function(self, name: str) -> Any:
        """The function `name`, which need not be compiled."""
        return self._find(name)[0]

    def is_kept(self, name: str) -> bool:
        """Whether machine code of the function `name` from the present sources is in memory or on disk."""
        with _lock, contextlib.suppress(_NotKept):
            if name not in self.__dict__:
                self.__dict__[name] = _compiled_for(*self._find(name), _refuse)
            return True
        return False


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Python's collector does not run while machine code is loaded.

    None of so many new objects is garbage, and a collection would go through all of JAX's, too: 0.1 s.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _NotKept(Exception):
    """A function would have to be compiled."""


def _refuse() -> None:
    raise _NotKept


def _compiled_for(function: Any, arguments: Sequence[Any], on_missing: Callable[[], None]) -> Any:
    """The function, compiled for the types of `arguments`; calls `on_missing` first if it is not cached."""
    from numba import typeof

    from connections.engines.disk_cache import cache_of
    from connections.engines.internals.numba_names import compile_for, refuse_other_types, set_cache

    cache = cache_of(function)
    cache.on_missing = on_missing
    set_cache(function, cache)
    compile_for(function, [typeof(argument) for argument in arguments])
    refuse_other_types(function)
    _show_foreign_arrays(function, len(arguments))
    return function


def is_good(result: bool | int) -> bool:
    """Whether a compiled function accepted its input."""
    return result if isinstance(result, bool) else result == 0


def _show_foreign_arrays(function: Any, count: int) -> None:
    """Call a compiled function once with arrays of the other byte order, which Numba refuses.

    Numba looks up the type of an unusual array by a fingerprint that contains neither byte order nor
    alignment, so the first array with a fingerprint decides for all later ones. After this call they are all
    refused.
    """
    swapped = np.dtype(np.float64).newbyteorder()
    for dimensions in (1, 2, 3):
        foreign = np.zeros((1,) * dimensions, swapped)
        with contextlib.suppress(OtherTypes):
            function(*[foreign] * count)
