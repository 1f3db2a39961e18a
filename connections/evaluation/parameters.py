"""The contract of `jax.jit` for objects: parameters are data, functions are compared by identity.

Frames, metrics, connections, systems, controllers are `Parametrized`: pytrees of JAX. Floats and arrays of
floats in their attributes, also in nested objects and containers, are leaves: `jax.jit`, `jax.grad` and
`jax.vmap` take them. Everything else is structure: functions, integers, names, other objects. Compiled
functions are cached under a definition and the structure of the objects that it is applied to
(`compilation`), so that two members of a family, two masses or two gains share one.

An object stores copies of the arrays that it is given, and wraps functions of users in `Function`. It does
not change after it was made.
"""

from __future__ import annotations

import abc
import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Value
from connections._words import with_article, words_of
from connections.checks import is_masked, own_function
from connections.engines.internals.jax_names import trace_state_clean
from connections.evaluation.content import ByContent

_T = TypeVar("_T")

_ARRAYS = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)  # leaves that `jax.jit` takes
DERIVED = "_derived"  # the attribute that caches values derived from the others


class Function:
    """A user's function, compared by identity, as under `jax.jit`; methods of equal robots are equal.

    The values of its closures and global names are read when JAX traces the function, once for each shape of
    its arguments, so that all quantities of all objects with this function use the same values. A new
    function object is traced anew, even if it has the same code. Outside of JAX's transformations, if no
    argument is an array of JAX, the user's function itself is called, so it may do what JAX cannot trace.

    Parameters
    ----------
    function : JAX-traceable. A bound method is a new function each time that it is looked up.
    """

    __slots__ = ("_traced", "_with_parts", "function")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        alone = function if isinstance(function, FunctionType) else lambda *args, **kw: function(*args, **kw)
        self._traced = jax.jit(alone)  # JAX caches the traces of this one function object
        self._with_parts = jax.jit(
            lambda *args, **kw: function(*_without_static_parts(args), **_without_static_parts(kw))
        )

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The function's value."""
        parts = jax.tree_util.tree_leaves((arguments, keywords))
        if trace_state_clean() and not any(isinstance(part, jax.Array) for part in parts):
            return self.function(*arguments, **keywords)
        if all(isinstance(part, _ARRAYS) for part in parts):
            try:
                return self._traced(*arguments, **keywords)
            except (TypeError, ValueError) as error:
                refused = error
            # Either it raises an error of its own again, or JAX has refused what it returns.
            result = self.function(*arguments, **keywords)
            if are_arrays(result):
                raise refused
            return result  # for the caller, who names it (`checks.as_result`)
        # Networks of equinox have functions among their leaves, which are structure.
        arguments, keywords = jax.tree_util.tree_map(
            lambda part: part if isinstance(part, _ARRAYS) else Static(part), (arguments, keywords)
        )
        return self._with_parts(*arguments, **keywords)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> Any:
        """The object that is compared: the id is safe, because the function is held."""
        if isinstance(self.function, MethodType) and isinstance(self.function.__self__, ByContent):
            return self.function.__func__, self.function.__self__
        return id(self.function)

    def __reduce__(self) -> tuple[Any, ...]:
        return Function, (self.function,)

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.function


jax.tree_util.register_static(Function)


def are_arrays(result: Any) -> bool:
    """Whether JAX takes what a user's function returns: numbers, in any containers."""
    leaves = jax.tree_util.tree_leaves(result)
    return all(isinstance(leaf, _ARRAYS) and not is_masked(leaf) and _of_numbers(leaf) for leaf in leaves)


def unwrap(function: Any) -> Any:
    """The user's function of a `Function`; anything else is returned as it is."""
    return function.function if isinstance(function, Function) else function


@jax.tree_util.register_pytree_node_class
class PytreePartial(Generic[Value]):
    """*arguments -> function(*things, *arguments): a pytree whose leaves are those of `things`.

    Parameters
    ----------
    function : of the library, compared by identity, of a module or a class; it contains no parameters. If it
        is a bound method, its object becomes the first of the things.
    things : objects, functions of users, containers of them, None.
    """

    __slots__ = ("function", "things")

    def __init__(self, function: Callable[..., Value], *things: Any) -> None:
        if isinstance(function, MethodType):
            method: Any = function
            function, things = method.__func__, (method.__self__, *things)
        self.function, self.things = function, tuple(map(as_attribute, things))

    def __call__(self, *arguments: Any) -> Value:
        """The function's value."""
        return self.function(*self.things, *arguments)

    def tree_flatten(self) -> tuple[Any, Any]:
        """`things`, in which all but the leaves is `Static`; and the function."""
        return _with_static_parts(self.things), self.function

    @classmethod
    def tree_unflatten(cls, function: Any, things: Any) -> PytreePartial[Any]:
        """The partial function of `things` with other leaves."""
        result: PytreePartial[Any] = object.__new__(cls)
        result.function, result.things = function, _without_static_parts(tuple(things))
        return result


def identities(things: Iterable[Any]) -> tuple[Any, ...]:
    """The key of these objects, each by its id, functions of users by theirs: valid while they are held."""
    return tuple(thing if isinstance(thing, Function) else id(thing) for thing in things)


def as_attribute(value: Any) -> Any:
    """The form in which an object stores an argument: arrays are copied, functions become `Function`.

    Bound methods of objects of the library become `PytreePartial`. Array leaves of pytrees are copied.
    """
    if isinstance(value, Parametrized | Function | PytreePartial):
        return value
    if isinstance(value, np.ndarray):
        return _immutable_copy(value)
    if isinstance(value, MethodType) and isinstance(value.__self__, Parametrized):
        return PytreePartial(value.__func__, value.__self__)
    functions = (FunctionType, MethodType, functools.partial)
    if isinstance(value, functions) and not isinstance(value, jax.tree_util.Partial):
        return Function(value)
    if isinstance(value, tuple | list | dict):
        children, tree = jax.tree_util.tree_flatten(value, is_leaf=lambda part: part is not value)
        parts = [as_attribute(child) for child in children]
        same = all(part is child for part, child in zip(parts, children, strict=True))
        return value if same and isinstance(value, tuple) else jax.tree_util.tree_unflatten(tree, parts)
    if value is None or isinstance(value, jax.Array | float | int | str) or jax.tree_util.all_leaves([value]):
        return value
    return jax.tree_util.tree_map(
        lambda leaf: _immutable_copy(leaf) if isinstance(leaf, np.ndarray) else leaf, value
    )


def _immutable_copy(array: np.ndarray) -> np.ndarray:
    """The array, or a copy of it, in the memory of a `bytes`: any other memory can be made writable."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, bytes):
        return array
    if array.dtype.hasobject:  # objects cannot lie in a `bytes`
        copy = np.array(array)
        copy.setflags(write=False)
        return copy
    return np.ndarray(array.shape, array.dtype, array.tobytes())


class _HoldsCopies(abc.ABCMeta):
    """Replace each attribute by `as_attribute` of it, after `__init__`."""

    @property
    def __signature__(cls) -> inspect.Signature:
        """How an object is made, as `__init__` says: help and editors would show that of `__call__`."""
        made_by: Any = cls.__init__  # type: ignore[misc]
        if made_by is object.__init__:  # an abstract class
            return inspect.Signature()
        whole = inspect.signature(made_by)
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    def __call__(cls: type[_T], *args: Any, **kwargs: Any) -> _T:
        thing: _T = super().__call__(*args, **kwargs)  # type: ignore[misc]
        attributes = thing.__dict__
        for name in _attributes(thing):
            attributes[name] = as_attribute(attributes[name])
        return thing


class WithCache:
    """An object with a cache (`cache_of`), which is not pickled."""

    def __getstate__(self) -> dict[str, Any]:
        """The attributes, without cached values."""
        return {name: getattr(self, name) for name in _attributes(self)}


class Parametrized(WithCache, metaclass=_HoldsCopies):
    """An object that is a pytree of JAX. It must not change after it was made.

    A subclass declares nothing: its attributes are the children, without cached values (`cached_property`,
    `cache_of`).
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        jax.tree_util.register_pytree_with_keys(
            cls, _flatten_with_names, functools.partial(_unflatten, cls), _flatten
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the attributes; `as_attribute` makes arrays read-only again, which pickle does not."""
        self.__dict__.update((name, as_attribute(value)) for name, value in state.items())


def cache_of(thing: Any) -> dict[Any, Any]:
    """The cache of an object, for values derived from its attributes."""
    place: dict[Any, Any] = thing.__dict__.setdefault(DERIVED, {})
    return place


def kept(owner: Any, what: Any, things: tuple[Any, ...], make: Callable[[], Value]) -> Value:
    """The value of `make()`, kept in the owner's cache as long as it is asked for with the same things.

    Parameters
    ----------
    what : its name in the cache, compared by value. things : on which it depends, compared by `identities`.
    """
    key, known = identities(things), cache_of(owner)
    found = known.get(what)  # read once: another thread may replace it
    if found is None or found[0] != key:
        found = known[what] = key, make(), things  # which are held, so that no others get their ids
    value: Value = found[1]
    return value


def is_same(first: Any, second: Any) -> bool:
    """Whether two objects are one, also if JAX has unflattened each of them from the same leaves."""
    if first is second:
        return True
    ours: Any
    theirs: Any
    ours, theirs = (jax.tree_util.tree_flatten(thing) for thing in (first, second))
    return bool(ours[1] == theirs[1]) and all(map(operator.is_, ours[0], theirs[0]))


def is_number(value: Any) -> bool:
    """Whether `value` is data: a float, or an array of real or complex numbers that are no integers."""
    if isinstance(value, float):
        return True
    return isinstance(value, np.ndarray | np.inexact | jax.Array) and jnp.issubdtype(value.dtype, np.inexact)


def _attributes(thing: Any) -> list[str]:
    """The names of the attributes that are not cached values."""
    computed = functools.cached_property
    return [
        name
        for name in thing.__dict__
        if name != DERIVED and not isinstance(getattr(type(thing), name, None), computed)
    ]


# --- pytrees of JAX ----------------------------------------------------------------------------------------


class Static:
    """A part of a structure: integers, texts, integer arrays and robots are compared by value.

    Others are compared by identity.
    """

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.key = value, _key_of(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


jax.tree_util.register_static(Static)


def _key_of(value: Any) -> Any:
    """The key by which static values are compared; an id is safe, because `Static` holds the value too."""
    if isinstance(value, bool | int | str | bytes):
        return type(value), value
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        return value.dtype.str, np.shape(value), value.tobytes()
    return value if isinstance(value, ByContent) else id(value)


def _flatten(thing: Any) -> tuple[Any, Any]:
    """The attributes, in which all but the leaves is `Static`; and their names."""
    cached = cache_of(thing).get(_flatten)
    if cached is None:
        names = tuple(_attributes(thing))
        parts = tuple(_with_static_parts(thing.__dict__[name]) for name in names)
        cached = cache_of(thing)[_flatten] = parts, names
    children, fixed = cached
    return children, fixed


def _with_static_parts(value: Any) -> Any:
    """The tree with everything but leaves wrapped in `Static`."""
    return jax.tree_util.tree_map(_mark, value, is_leaf=_flattens_itself)


def _without_static_parts(value: Any) -> Any:
    return jax.tree_util.tree_map(
        lambda part: part.value if isinstance(part, Static) else part, value, is_leaf=_flattens_itself
    )


def _mark(value: Any) -> Any:
    return value if is_number(value) or _flattens_itself(value) else Static(value)


def _flattens_itself(node: Any) -> bool:
    """Whether a node of a tree is a pytree of this library, which flattens itself."""
    return isinstance(node, Parametrized | PytreePartial | Function | Static)


def _flatten_with_names(thing: Any) -> tuple[list[tuple[Any, Any]], Any]:
    parts, names = _flatten(thing)
    return [(jax.tree_util.GetAttrKey(name), part) for name, part in zip(names, parts, strict=True)], names


def _unflatten(cls: type, names: tuple[str, ...], parts: Any) -> Any:
    result: Any = object.__new__(cls)
    for name, part in zip(names, parts, strict=True):
        result.__dict__[name] = _without_static_parts(part)
    result.__dict__[DERIVED] = {_flatten: (tuple(parts), names)}  # JAX also unflattens placeholder leaves
    return result


# --- functions with parameters -----------------------------------------------------------------------------


class ParametricFunction(Parametrized):
    """A function with parameters: q -> function(q, parameters), and the same with more arguments before.

    Connections, metrics and systems of functions that differ only in their parameters share compiled
    functions, and JAX can differentiate by the parameters.

    Parameters
    ----------
    function : JAX-traceable; its last argument is the parameters.
    parameters : a number, an array, or a pytree of them: dictionaries, lists, tuples, a network of equinox or
        flax. Integers become floats. Leaves that are no arrays, such as functions, are structure.

    Raises
    ------
    TypeError : the function cannot be called, a parameter is text, or there is no number among them.

    Examples
    --------
    >>> import connections as cn
    >>> square = cn.ParametricFunction(lambda q, a: a * q**2, 2.0)
    >>> float(square(3.0))
    18.0
    """

    def __init__(self, function: Callable[..., Any], parameters: Any) -> None:
        if not callable(function):
            raise TypeError(f"function: expected a function, got {type(function).__name__}")
        self.function = function
        self.parameters = jax.tree_util.tree_map(_as_number, parameters)
        leaves = jax.tree_util.tree_leaves(self.parameters)
        if leaves and not any(isinstance(leaf, _ARRAYS) for leaf in leaves):
            kind = with_article(type(leaves[0]).__name__)
            raise TypeError(
                f"parameters: {kind} is no pytree of arrays; give its numbers, such as net.init(key, q) of "
                "flax.linen, or nnx.state(net)"
            )

    def __call__(self, *arguments: Any) -> Any:
        """The function's value."""
        return self.function(*arguments, self.parameters)

    def __eq__(self, other: object) -> bool:
        """Whether function and parameters are the same."""
        if not isinstance(other, ParametricFunction) or self.function != other.function:
            return False
        ours, theirs = map(jax.tree_util.tree_leaves, (self.parameters, other.parameters))
        trees: list[Any] = [*map(jax.tree_util.tree_structure, (self.parameters, other.parameters))]
        return bool(trees[0] == trees[1]) and all(map(_equal, ours, theirs))

    def __hash__(self) -> int:
        return hash(self.function)


def _as_number(value: Any) -> Any:
    """A parameter: integers, and arrays of them, as floats."""
    if isinstance(value, str | bytes):
        raise TypeError(f"parameters: expected numbers, got text {value!r}")
    if is_masked(value) or not _of_numbers(value):
        raise TypeError(f"parameters: expected numbers, got {words_of(value)}")
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    array = isinstance(value, np.ndarray | np.integer | jax.Array)  # keys of JAX have no `dtype.kind`
    return value.astype(np.float64) if array and jnp.issubdtype(value.dtype, np.integer) else value


def _of_numbers(value: Any) -> bool:
    """Whether an array or number of NumPy is one that JAX takes; anything else is."""
    if not isinstance(value, np.ndarray | np.generic):
        return True
    numbers = jnp.issubdtype(value.dtype, np.number) and value.dtype.kind != "m"
    return numbers or value.dtype == np.bool_


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, jax.core.Tracer) or isinstance(second, jax.core.Tracer):
        return first is second
    return np.array_equal(first, second)


@own_function.register(Function | ParametricFunction | PytreePartial)
def _own_function(function: Any) -> tuple[Any, int]:
    own, more = own_function(function.function)
    if isinstance(function, PytreePartial):
        return own, more + len(function.things)
    return own, more + isinstance(function, ParametricFunction)


def with_parameters(function: Any, parameters: Any) -> Any:
    """`function`, or the `ParametricFunction` of it and of `parameters` if they are not None."""
    return function if parameters is None else ParametricFunction(function, parameters)
