"""Parameters are data: what is a number in a definition, and what is its structure.

Two members of a family, two masses or two gains are the same definition with other numbers, and one compiled
function serves both. `take_apart` separates any object or function into its `Structure`, which decides what
has to be compiled, and its numbers, which are an argument of what is compiled:

    structure, numbers = take_apart(thing),        structure.made_of(numbers) is like thing.

Numbers are floats and arrays of floats in the attributes of `Parametrized` objects (frames, metrics,
connections, systems, controllers), in containers, in arguments of `functools.partial`, and in what functions
of this library close over. Everything else is structure: integers, names, other objects, and the functions of
users, each of which is a structure of its own; `ParametricFunction` gives them parameters.

Objects that are `Parametrized` are pytrees of JAX, so that `jax.grad` and `jax.vmap` take them.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CellType, FunctionType, MethodType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_LIBRARY = __name__.partition(".")[0]
_DERIVED = "_derived"


class Parametrized:
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


def derived(thing: Any) -> dict[Any, Any]:
    """Where an object keeps what was derived from it."""
    place: dict[Any, Any] = thing.__dict__.setdefault(_DERIVED, {})
    return place


class Structure:
    """How an object or a function is put together from numbers; there is one object for equal structures.

    Attributes
    ----------
    opaque : whether the definition turned out to need its numbers while it is traced, as NumPy does.
    """

    def __init__(self, key: Any) -> None:
        self._key, self.opaque = key, False

    def made_of(self, numbers: Any) -> Any:
        """The object with these numbers (k,), which JAX may be tracing."""
        return _Builder(numbers).build(self._key)


def take_apart(thing: Any) -> tuple[Structure, Any]:
    """The structure of an object or function, and its numbers (k,)."""
    reader = _Reader()
    key = reader.key_of(thing)
    with _LOCK:
        structure = _KNOWN.get(key)
        if structure is None:
            structure = _KNOWN[key] = Structure(key)
    return structure, reader.numbers()


_KNOWN: weakref.WeakValueDictionary[Any, Structure] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


# --- taking apart ------------------------------------------------------------------------------------------

# A key is one of these, or `_Fixed`.
_NUMBER, _AGAIN, _OBJECT, _FUNCTION, _METHOD, _PARTIAL, _TREE = range(7)


class _Reader:
    """Reads an object once through; what occurs twice is the same object after it is put together, too."""

    def __init__(self) -> None:
        self._found: list[Any] = []
        self._seen: dict[int, tuple[int, Any]] = {}

    def numbers(self) -> Any:
        """All numbers that were found, (k,)."""
        if any(isinstance(number, jax.core.Tracer) for number in self._found):
            return jnp.concatenate([jnp.ravel(jnp.asarray(x, jnp.float64)) for x in self._found])
        flat = [np.ravel(np.asarray(number, np.float64)) for number in self._found]
        with jax.ensure_compile_time_eval():
            return jnp.asarray(np.concatenate([np.zeros(0), *flat]))

    def key_of(self, value: Any) -> Any:
        if is_number(value):
            self._found.append(value)
            return _NUMBER, np.shape(value)
        if isinstance(value, Parametrized) or _is_closure(value):
            if id(value) in self._seen:
                return _AGAIN, self._seen[id(value)][0]
            self._seen[id(value)] = len(self._seen), value
            return self._object(value) if isinstance(value, Parametrized) else self._function(value)
        if isinstance(value, MethodType) and isinstance(value.__self__, Parametrized):
            return _METHOD, value.__func__, self.key_of(value.__self__)
        if isinstance(value, functools.partial):
            return _PARTIAL, *map(self.key_of, (value.func, value.args, value.keywords))
        children, tree = jax.tree_util.tree_flatten(value, is_leaf=lambda part: part is not value)
        if jax.tree_util.treedef_is_leaf(tree):
            return _Fixed(value)
        return _TREE, tree, tuple(map(self.key_of, children))

    def _object(self, value: Parametrized) -> Any:
        names = tuple(_attributes(value))
        return _OBJECT, type(value), names, tuple(self.key_of(value.__dict__[name]) for name in names)

    def _function(self, value: FunctionType) -> Any:
        cells = tuple(map(self.key_of, (cell.cell_contents for cell in value.__closure__ or ())))
        defaults = self.key_of((value.__defaults__, value.__kwdefaults__))
        return _FUNCTION, value.__code__, defaults, cells, _Place.of(value)


class _Builder:
    """Puts an object together again."""

    def __init__(self, numbers: Any) -> None:
        self._numbers, self._at = numbers, 0
        self._made: list[Any] = []

    def build(self, key: Any) -> Any:
        if isinstance(key, _Fixed):
            return key.value
        kind, *parts = key
        return _BUILD[kind](self, *parts)

    def number(self, shape: tuple[int, ...]) -> Any:
        begin, self._at = self._at, self._at + int(np.prod(shape, dtype=int))
        return self._numbers[begin : self._at].reshape(shape)

    def again(self, place: int) -> Any:
        return self._made[place]

    def object(self, cls: type, names: tuple[str, ...], keys: tuple[Any, ...]) -> Any:
        result: Any = object.__new__(cls)
        self._made.append(result)
        for name, key in zip(names, keys, strict=True):
            result.__dict__[name] = self.build(key)
        return result

    def function(self, code: Any, defaults: Any, cells: Any, place: _Place) -> Any:
        closure = tuple(CellType() for _ in cells)
        result = FunctionType(code, place.names, place.name, None, closure)
        self._made.append(result)
        for cell, key in zip(closure, cells, strict=True):
            cell.cell_contents = self.build(key)
        result.__defaults__, result.__kwdefaults__ = self.build(defaults)
        return result

    def method(self, function: Any, key: Any) -> Any:
        return MethodType(function, self.build(key))

    def partial(self, *keys: Any) -> Any:
        function, arguments, keywords = map(self.build, keys)
        return functools.partial(function, *arguments, **keywords)

    def tree(self, tree: Any, keys: tuple[Any, ...]) -> Any:
        return jax.tree_util.tree_unflatten(tree, list(map(self.build, keys)))


_BUILD: dict[int, Callable[..., Any]] = {
    _NUMBER: _Builder.number,
    _AGAIN: _Builder.again,
    _OBJECT: _Builder.object,
    _FUNCTION: _Builder.function,
    _METHOD: _Builder.method,
    _PARTIAL: _Builder.partial,
    _TREE: _Builder.tree,
}


class _Fixed:
    """A part of a structure: equal where type and value are, or where it is the same object."""

    def __init__(self, value: Any) -> None:
        self.value = value
        if isinstance(value, np.ndarray | jax.Array) and not isinstance(value, jax.core.Tracer):
            value = np.asarray(value)
            self._token: Any = (value.dtype.str, value.shape, value.tobytes())
        else:
            self._token = (type(value), value)
            try:
                hash(self._token)
            except TypeError:
                self._token = id(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fixed) and bool(self._token == other._token)

    def __hash__(self) -> int:
        return hash(self._token)


@dataclass(frozen=True)
class _Place:
    """Where a function was written: its module, in whose names it looks, and its own name."""

    module: str
    name: str
    names: dict[str, Any] = field(compare=False)

    @classmethod
    def of(cls, function: FunctionType) -> _Place:
        """That of a function, which is not kept: what it closes over would be kept with it."""
        names = function.__globals__
        return cls(str(names.get("__name__")), function.__name__, names)


def is_number(value: Any) -> bool:
    """Whether `value` is a float or an array of floats."""
    if isinstance(value, float):
        return True
    return isinstance(value, np.ndarray | np.floating | jax.Array) and jnp.issubdtype(
        value.dtype, np.floating
    )


def _is_closure(value: Any) -> bool:
    """Whether this library's code made the function, and it closes over something or has defaults."""
    return (
        isinstance(value, FunctionType)
        and str(value.__globals__.get("__name__")).partition(".")[0] == _LIBRARY
        and "<locals>" in value.__qualname__
    )


def _attributes(thing: Any) -> list[str]:
    """The names of what an object was made with."""
    computed = functools.cached_property
    return [
        name
        for name in thing.__dict__
        if name != _DERIVED and not isinstance(getattr(type(thing), name, None), computed)
    ]


def _as_number(value: Any) -> Any:
    """A parameter: integers, and arrays of them, as floats."""
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    integers = isinstance(value, np.ndarray | np.integer | jax.Array) and value.dtype.kind in "iu"
    return value.astype(np.float64) if integers else value


# --- pytrees of JAX ----------------------------------------------------------------------------------------


def _flatten(thing: Any) -> tuple[list[Any], Any]:
    """Attributes with numbers, and (their names, the others with their names)."""
    names = _attributes(thing)
    moving = thing.__dict__.get(_DERIVED, {}).get(_flatten)
    if moving is None:
        moving = tuple(name for name in names if _has_numbers(thing.__dict__[name]))
    others = tuple((name, _Fixed(thing.__dict__[name])) for name in names if name not in moving)
    return [thing.__dict__[name] for name in moving], (moving, others)


def _flatten_with_names(thing: Any) -> tuple[list[tuple[Any, Any]], Any]:
    children, fixed = _flatten(thing)
    names = [jax.tree_util.GetAttrKey(name) for name in fixed[0]]
    return list(zip(names, children, strict=True)), fixed


def _unflatten(cls: type, fixed: Any, children: Any) -> Any:
    names, others = fixed
    result: Any = object.__new__(cls)
    result.__dict__.update(zip(names, children, strict=True))
    result.__dict__.update((name, part.value) for name, part in others)
    result.__dict__[_DERIVED] = {_flatten: names}  # what stands in for a number need not be one
    return result


def _has_numbers(value: Any) -> bool:
    leaves = jax.tree_util.tree_leaves(value)
    return isinstance(value, Parametrized) or (bool(leaves) and all(map(is_number, leaves)))


# --- functions with parameters -----------------------------------------------------------------------------


class ParametricFunction(Parametrized):
    """A function with parameters: q -> function(q, parameters), and the same with more arguments before.

    Connections, metrics and systems of functions that differ only in their parameters share what is compiled,
    and JAX can differentiate by the parameters.

    Parameters
    ----------
    function : JAX-traceable; its last argument are the parameters.
    parameters : a number, an array, or dictionaries, lists and tuples of them; integers become floats.
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
        (ours, tree), (theirs, same) = map(jax.tree_util.tree_flatten, (self.parameters, other.parameters))
        return bool(tree == same) and all(map(_equal, ours, theirs))

    def __hash__(self) -> int:
        return hash(self.function)


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, jax.core.Tracer) or isinstance(second, jax.core.Tracer):
        return first is second
    return np.array_equal(first, second)


def with_parameters(function: Any, parameters: Any) -> Any:
    """`function`, or the `ParametricFunction` of it and of `parameters` if they are not None."""
    return function if parameters is None else ParametricFunction(function, parameters)
