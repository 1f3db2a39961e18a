"""`jax.jit` for functions that run up to a few thousand times: it compiles in half the time.

XLA's fusion emitters for CPUs take half of the time of compilation. Splitting a function into parts that
several threads compile takes another tenth. Both are switched off for functions of one point, which are as
fast without them: measured for Christoffel symbols and curvature of a chart, and for mass matrices of trees.
Batches may lose a quarter of their speed, so `evaluate` compiles them with plain `jax.jit`. Options hold for
functions called from outside of `jit`; inside, the caller's options hold.

The cache key of a compiled function is the library's function and the pytree structure of the objects that it
is applied to (`parameters`). The floats and arrays in these objects are arguments.
"""

from __future__ import annotations

import linecache
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from textwrap import shorten
from typing import Any, Generic

import jax
import jax.numpy as jnp

from connections._children import held_by_forks
from connections._jax import QUICK_OPTIONS, Value, in_jax
from connections.checks import as_result
from connections.engines.internals.jax_names import trace_state_clean
from connections.evaluation.parameters import PytreePartial, as_attribute, kept

OPTIONS = QUICK_OPTIONS
RECENT = 64  # unused compiled functions that stay cached, 2.5 MB each; the oldest is dropped first

#: Errors of JAX where a definition needs a concrete value while it is traced, as `float`, `if` and NumPy do.
NEEDS_NUMBERS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
_IN_ITS_PLACE = "use jax.numpy instead of numpy, math and float, and jnp.where instead of if"
_UNNAMED = {f"<{kind}comp>": "a comprehension" for kind in ("list", "dict", "set")} | {
    "<lambda>": "a lambda function",
    "<genexpr>": "a generator",
}
_LONGEST = 80  # characters of a user's line in an error
_INSIDE = ("inside of jit",)
_LIBRARY = __name__.partition(".")[0]


class TreeKey:
    """The structure of a pytree: two objects with equal structures share compiled functions.

    What is compiled for a structure is found in it: a table of all structures would hold the objects in
    their treedefs, and what these have compiled, for ever.

    Parameters
    ----------
    tree : the treedef. places : for each leaf, its index among the distinct leaves.

    Attributes
    ----------
    in_use : (function, options) -> what is compiled and still used.
    """

    def __init__(self, tree: Any, places: tuple[int, ...]) -> None:
        self._tree, self._places = tree, places
        self.in_use: weakref.WeakValueDictionary[Any, Callable[..., Any]] = weakref.WeakValueDictionary()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeKey) and (self._tree, self._places) == (other._tree, other._places)

    def __hash__(self) -> int:
        return hash((self._tree, self._places))

    def made_of(self, leaves: Sequence[Any]) -> Any:
        """The object with these distinct leaves, which may be tracers."""
        return jax.tree_util.tree_unflatten(self._tree, [leaves[place] for place in self._places])


#: Each structure by those that are equal to it.
_STRUCTURES: weakref.WeakKeyDictionary[TreeKey, weakref.ref[TreeKey]] = weakref.WeakKeyDictionary()
_LOCK = held_by_forks(threading.RLock())


def flattened(thing: Any) -> tuple[TreeKey, list[Any]]:
    """The structure of a pytree and its distinct leaves: a leaf of a shared part, such as a frame, is one."""
    leaves, tree = jax.tree_util.tree_flatten(thing)
    distinct: dict[Any, Any] = {}
    for at, leaf in enumerate(leaves):
        distinct.setdefault(at if isinstance(leaf, float) else id(leaf), leaf)
    order = {name: place for place, name in enumerate(distinct)}
    places = tuple(order[at if isinstance(leaf, float) else id(leaf)] for at, leaf in enumerate(leaves))
    structure = TreeKey(tree, places)
    with _LOCK:
        structure = _STRUCTURES.setdefault(structure, weakref.ref(structure))() or structure
    with jax.ensure_compile_time_eval():
        return structure, [*map(in_jax, distinct.values())]


def compiled(
    function: Callable[..., Any], *things: Any, options: dict[str, Any] | None = OPTIONS
) -> Callable[..., Any]:
    """*arguments -> function(*things, *arguments), compiled at the first call with each shape of arguments.

    Calls with the same `function` and the same structure of `things` share one compiled function: the leaves
    of `things` are arguments of it.

    Parameters
    ----------
    function : JAX-traceable; of a module or a class, or a bound method of an object of the library. Anything
        else, such as a lambda function, is compiled for itself.
    things : objects, functions of users, containers of them.
    options : of the compiler, if the function is called from outside of `jit`.
    """
    whole = PytreePartial(function, *things) if things else as_attribute(function)
    if not isinstance(whole, PytreePartial) and not jax.tree_util.all_leaves([whole]):
        whole = PytreePartial(called, whole)  # a callable object: its leaves are data
    if isinstance(whole, PytreePartial):
        use, (structure, leaves) = whole.function, flattened(whole)
    else:
        use, (structure, leaves) = function, flattened(())
    choice = None if options is None else tuple(options.items())
    found: dict[Any, Callable[..., Any]] = {}  # holds functions in use, so that `RECENT` does not drop them

    def call(*arguments: Any) -> Any:
        outside = choice if trace_state_clean() else _INSIDE
        if outside not in found:
            found[outside] = _shared(use, structure, outside)
        try:
            return found[outside](leaves, *arguments)
        except (*NEEDS_NUMBERS, ValueError) as error:
            if outside is not _INSIDE:
                raise_in_words(error)
            raise

    return call


def compiled_for(owner: Any, function: Callable[..., Any], *things: Any) -> Callable[..., Any]:
    """The function of `compiled(function, owner, *things)`, kept with the owner while the things are these.

    To find it anew by the structure of all of them takes longer than a small function itself.
    """
    return kept(owner, function, things, lambda: compiled(function, owner, *things))


def forget() -> None:
    """Clear the cache of compiled definitions; for tests that replace a definition."""
    _shared.cache_clear()
    for structure in [*_STRUCTURES]:
        structure.in_use.clear()


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's value."""
    return function(*arguments)


@contextmanager
def tracing() -> Iterator[None]:
    """Translate errors of JAX in functions of users that are traced other than by `compiled`."""
    try:
        yield
    except (*NEEDS_NUMBERS, ValueError) as error:
        if trace_state_clean():
            raise_in_words(error)
        raise


def shape_of(name: str, function: Callable[..., Any], *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a user's function's result for float64 arrays of these shapes; nothing is computed.

    Parameters
    ----------
    name : the function in errors about its result.
    """
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float64) for shape in shapes]
    with tracing():
        return tuple(jax.eval_shape(lambda *x: as_result(name, function(*x)), *arguments).shape)


def raise_in_words(error: Exception) -> None:
    """Raise `TypeError` with the user's line if it needed concrete values under tracing; else do nothing."""
    if isinstance(error, ValueError) and not isinstance(error.__cause__ or error.__context__, NEEDS_NUMBERS):
        return
    if isinstance(error, ValueError) and "array element" not in str(error):  # not NumPy's, but a user's
        return
    place = _place_of(error)
    if place is None:
        what = "a function that JAX traces needs the numbers in an array"
        raise TypeError(f"{what}: {_IN_ITS_PLACE}") from error
    what = "needs the numbers in an array while JAX traces it"
    raise TypeError(f"{place} {what}: {_IN_ITS_PLACE}") from None


def _place_of(error: BaseException) -> str | None:
    """The innermost function of a user in the traceback, with file and line."""
    place = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if not is_installed(str(frame.f_globals.get("__name__"))):
            file, name = frame.f_code.co_filename, frame.f_code.co_name
            text = shorten(linecache.getline(file, number), _LONGEST, placeholder=" ...")
            called = _UNNAMED.get(name, f"the function {name!r}")
            place = f"{called} ({Path(file).name}, line {number}{text and ': '}{text})"
    return place


@lru_cache(maxsize=RECENT)
def _shared(
    use: Callable[..., Any], structure: TreeKey, options: tuple[Any, ...] | None
) -> Callable[..., Any]:
    """The compiled function of (leaves, *arguments), use(*things, *arguments)."""
    cached = structure.in_use.get((use, options))
    if cached is None:

        def function(leaves: Any, *arguments: Any) -> Any:
            made = structure.made_of(leaves)
            return made(*arguments) if isinstance(made, PytreePartial) else use(*arguments)

        function.__name__ = getattr(use, "__name__", type(use).__name__)  # for logs and profiles of JAX
        cached = structure.in_use[use, options] = _jitted(function, options)
    return cached


def _jitted(function: Callable[..., Any], options: tuple[Any, ...] | None) -> Callable[..., Any]:
    chosen = None if options is None or options == _INSIDE else dict(options)
    return jax.jit(function, compiler_options=chosen)


@lru_cache(maxsize=4096)
def is_installed(module: str) -> bool:
    """Whether a module belongs to a library, this one included, and not to a user's program."""
    root = module.partition(".")[0]
    if root in ("__main__", "builtins"):
        return False
    if root in sys.stdlib_module_names:
        return True
    file = str(getattr(sys.modules.get(root), "__file__", None) or "")
    return root == _LIBRARY or "site-packages" in file or "dist-packages" in file


class traced_once(Generic[Value]):  # noqa: N801 - a decorator
    """A method of arrays that JAX traces once per object, not once per use.

    JAX runs a definition in Python each time that a function containing it is compiled, vectorized or
    differentiated. The trace of a function under `jax.jit` is cached. The object must not change.
    """

    def __init__(self, method: Callable[..., Value]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Callable[..., Value]:
        if instance is None:
            return self._method
        function = jax.jit(partial(self._method, instance))
        cached: Callable[..., Value] = instance.__dict__.setdefault(self._name, function)
        return cached
