"""The contract of `jax.jit` for objects: numbers are data, functions are known by identity.

Frames, metrics, connections, systems, controllers are `Parametrized`: pytrees of JAX. Floats and arrays of
floats in their attributes are leaves, which `jax.jit`, `jax.grad` and `jax.vmap` take; so are those of
objects and containers there. Everything else is structure: functions, integers, names, other objects. What is
compiled is found by a definition and the structure of what it is applied to (`compilation`), so that two
members of a family, two masses or two gains share it.

An object keeps copies of the arrays that it is given, and `Function` for functions of users. It does not
change after it was made.
"""

from __future__ import annotations

import abc
import functools
import operator
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Generic

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.core import trace_state_clean as trace_state_clean  # which JAX has under no public name

from connections._jax import Value

DERIVED = "_derived"  # the attribute in which objects keep what was derived from the others


class Function:
    """A function of a user, known by identity, as under `jax.jit`.

    What it reads from closures and from global names is read when JAX traces it, once for each shape of its
    arguments; all quantities of all objects that are made with this function agree on it. Another function
    object is read anew, even of the same code. Outside of JAX's transformations, with no array of JAX among
    the arguments, the function is called as it is: it may do what JAX does not trace.

    Parameters
    ----------
    function : JAX-traceable. A bound method is a new function each time that it is looked up.
    """

    __slots__ = ("_traced", "function")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        alone = function if isinstance(function, FunctionType) else lambda *args, **kw: function(*args, **kw)
        self._traced = jax.jit(alone)  # of one function, JAX keeps what it has traced

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The function's value."""
        parts = jax.tree_util.tree_leaves((arguments, keywords))
        if trace_state_clean() and not any(isinstance(part, jax.Array) for part in parts):
            return self.function(*arguments, **keywords)
        return self._traced(*arguments, **keywords)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and self.function is other.function

    def __hash__(self) -> int:
        return hash(id(self.function))

    def __reduce__(self) -> tuple[Any, ...]:
        return Function, (self.function,)

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.function


jax.tree_util.register_static(Function)


def plain(function: Any) -> Any:
    """The function itself, also for arrays of JAX: a `Function` is its user's."""
    return function.function if isinstance(function, Function) else function


@jax.tree_util.register_pytree_node_class
class Bound(Generic[Value]):
    """*arguments -> function(*things, *arguments): a pytree whose leaves are the numbers of `things`.

    Parameters
    ----------
    function : of the library, known by identity, without numbers in it: of a module or a class. The object of
        a bound method is the first of the things.
    things : objects, functions of users, containers of them, None.
    """

    __slots__ = ("function", "things")

    def __init__(self, function: Callable[..., Value], *things: Any) -> None:
        if isinstance(function, MethodType):
            method: Any = function
            function, things = method.__func__, (method.__self__, *things)
        self.function, self.things = function, tuple(map(owned, things))

    def __call__(self, *arguments: Any) -> Value:
        """The function's value."""
        return self.function(*self.things, *arguments)

    def tree_flatten(self) -> tuple[Any, Any]:
        """What is a number in `things`, and what is not."""
        return _marked(self.things), self.function

    @classmethod
    def tree_unflatten(cls, function: Any, things: Any) -> Bound[Any]:
        """The same of other numbers."""
        result: Bound[Any] = object.__new__(cls)
        result.function, result.things = function, _unmarked(tuple(things))
        return result


def owned(value: Any) -> Any:
    """What an object keeps of what it is given: copies of arrays, and functions by identity.

    Bound methods of objects of the library are `Bound`. Of objects that are pytrees, leaves are copied.
    """
    if isinstance(value, Parametrized | Function | Bound):
        return value
    if isinstance(value, np.ndarray):
        return _copied(value)
    if isinstance(value, MethodType) and isinstance(value.__self__, Parametrized):
        return Bound(value.__func__, value.__self__)
    functions = (FunctionType, MethodType, functools.partial)
    if isinstance(value, functions) and not isinstance(value, jax.tree_util.Partial):
        return Function(value)
    if isinstance(value, tuple | list | dict):
        children, tree = jax.tree_util.tree_flatten(value, is_leaf=lambda part: part is not value)
        parts = [owned(child) for child in children]
        same = all(part is child for part, child in zip(parts, children, strict=True))
        return value if same and isinstance(value, tuple) else jax.tree_util.tree_unflatten(tree, parts)
    if value is None or isinstance(value, jax.Array | float | int | str) or jax.tree_util.all_leaves([value]):
        return value
    return jax.tree_util.tree_map(lambda leaf: _copied(leaf) if isinstance(leaf, np.ndarray) else leaf, value)


def _copied(array: np.ndarray) -> np.ndarray:
    """The array, or a copy of it, in the memory of a `bytes`: of all others the owner can allow writing."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, bytes):
        return array
    if array.dtype.hasobject:  # which cannot lie in a `bytes`
        copy = np.array(array)
        copy.setflags(write=False)
        return copy
    return np.ndarray(array.shape, array.dtype, array.tobytes())


class _Owning(abc.ABCMeta):
    """Objects keep what is their own: `owned` of each attribute, after `__init__`."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        thing = super().__call__(*args, **kwargs)
        attributes = thing.__dict__
        for name in _attributes(thing):
            attributes[name] = owned(attributes[name])
        return thing


class Parametrized(metaclass=_Owning):
    """An object that is made of numbers and structure. It must not change after it was made.

    A subclass needs nothing: its attributes are read. What is derived from them, as `cached_property`
    and `derived` do, is left out.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        jax.tree_util.register_pytree_with_keys(
            cls, _flatten_with_names, functools.partial(_unflatten, cls), _flatten
        )

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the attributes, without what is derived from them."""
        return {name: getattr(self, name) for name in _attributes(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled; whether an array may be written to is not."""
        self.__dict__.update((name, owned(value)) for name, value in state.items())


def derived(thing: Any) -> dict[Any, Any]:
    """Where an object keeps what was derived from it."""
    place: dict[Any, Any] = thing.__dict__.setdefault(DERIVED, {})
    return place


def is_same(first: Any, second: Any) -> bool:
    """Whether two objects are one, also where JAX has put each of them together from the same numbers."""
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
    """The names of what an object was made with."""
    computed = functools.cached_property
    return [
        name
        for name in thing.__dict__
        if name != DERIVED and not isinstance(getattr(type(thing), name, None), computed)
    ]


# --- pytrees of JAX ----------------------------------------------------------------------------------------


class Static:
    """A part of a structure: integers, texts and arrays are compared by value, other things by identity."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.key = value, _key_of(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


jax.tree_util.register_static(Static)


def _key_of(value: Any) -> Any:
    """What tells a static value from others; it does not outlive the value, which stands beside it."""
    if isinstance(value, bool | int | str | bytes):
        return type(value), value
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        return value.dtype.str, np.shape(value), value.tobytes()
    return id(value)


def _flatten(thing: Any) -> tuple[Any, Any]:
    """The attributes, in which all but numbers is `Static`; and their names."""
    known = derived(thing).get(_flatten)
    if known is None:
        names = tuple(_attributes(thing))
        parts = tuple(_marked(thing.__dict__[name]) for name in names)
        known = derived(thing)[_flatten] = parts, names
    children, fixed = known
    return children, fixed


def _marked(value: Any) -> Any:
    """A tree in which all that is no number is `Static`."""
    return jax.tree_util.tree_map(_mark, value, is_leaf=_says_itself)


def _unmarked(value: Any) -> Any:
    return jax.tree_util.tree_map(
        lambda part: part.value if isinstance(part, Static) else part, value, is_leaf=_says_itself
    )


def _mark(value: Any) -> Any:
    return value if is_number(value) or _says_itself(value) else Static(value)


def _says_itself(node: Any) -> bool:
    """Whether a node of a tree says itself what its numbers are."""
    return isinstance(node, Parametrized | Bound | Function | Static)


def _flatten_with_names(thing: Any) -> tuple[list[tuple[Any, Any]], Any]:
    parts, names = _flatten(thing)
    return [(jax.tree_util.GetAttrKey(name), part) for name, part in zip(names, parts, strict=True)], names


def _unflatten(cls: type, names: tuple[str, ...], parts: Any) -> Any:
    result: Any = object.__new__(cls)
    for name, part in zip(names, parts, strict=True):
        result.__dict__[name] = _unmarked(part)
    result.__dict__[DERIVED] = {_flatten: (tuple(parts), names)}  # placeholders need not be numbers
    return result


# --- functions with parameters -----------------------------------------------------------------------------


class ParametricFunction(Parametrized):
    """A function with parameters: q -> function(q, parameters), and the same with more arguments before.

    Connections, metrics and systems of functions that differ only in their parameters share what is compiled,
    and JAX can differentiate by the parameters.

    Parameters
    ----------
    function : JAX-traceable; its last argument are the parameters.
    parameters : a number, an array, or dictionaries, lists and tuples of them; integers become floats.

    Raises
    ------
    TypeError : the function cannot be called, or a parameter is text.
    """

    def __init__(self, function: Callable[..., Any], parameters: Any) -> None:
        if not callable(function):
            raise TypeError(f"function: expected a function, got {type(function).__name__}")
        self.function = function
        self.parameters = jax.tree_util.tree_map(_as_number, parameters)

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
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    integers = isinstance(value, np.ndarray | np.integer | jax.Array) and value.dtype.kind in "iu"
    return value.astype(np.float64) if integers else value


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, jax.core.Tracer) or isinstance(second, jax.core.Tracer):
        return first is second
    return np.array_equal(first, second)


def with_parameters(function: Any, parameters: Any) -> Any:
    """`function`, or the `ParametricFunction` of it and of `parameters` if they are not None."""
    return function if parameters is None else ParametricFunction(function, parameters)
