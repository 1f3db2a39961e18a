"""Parameters are data: what is a number in a definition, and what is its structure.

Two members of a family, two masses or two gains are the same definition with other numbers, and one compiled
function serves both. `take_apart` separates any object or function into its `Structure`, which decides what
has to be compiled, and its numbers, which are an argument of what is compiled:

    structure, numbers = take_apart(thing),        structure.made_of(numbers) is like thing.

Numbers are floats and arrays of floats in the attributes of `Parametrized` objects (frames, metrics,
connections, systems, controllers), in what functions close over, in containers, and in arguments of
`functools.partial`. Everything else is structure: integers, names, other objects, the code of functions and
what they find under global names (`dependence`). `ParametricFunction` gives functions parameters.

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

from connections.geometry.dependence import (
    DERIVED,
    contents,
    dependence,
    keeps_state,
    may_change,
    module_of,
    of_class,
    of_value,
)


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
    place: dict[Any, Any] = thing.__dict__.setdefault(DERIVED, {})
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
    return _structure(reader.key_of(thing)), reader.numbers()


def structure_of(thing: Any) -> Structure:
    """The structure of an object or function without numbers."""
    return _structure(_Reader().key_of(thing))


def _structure(key: Any) -> Structure:
    with _LOCK:
        structure = _KNOWN.get(key)
        if structure is None:
            structure = _KNOWN[key] = Structure(key)
    return structure


_KNOWN: weakref.WeakValueDictionary[Any, Structure] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


# --- taking apart ------------------------------------------------------------------------------------------

# A key is one of these, or `_Fixed`.
_NUMBER, _AGAIN, _OBJECT, _FUNCTION, _METHOD, _PARTIAL, _TREE = range(7)
_LEAF: Any = jax.tree_util.tree_structure(0)


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
            return jax.device_put(np.concatenate([np.zeros(0), *flat]))

    def key_of(self, value: Any) -> Any:
        if is_number(value):
            self._found.append(value)
            return _NUMBER, np.shape(value)
        if isinstance(value, Parametrized) or _can_be_made(value):
            if id(value) in self._seen:
                return _AGAIN, self._seen[id(value)][0]
            self._seen[id(value)] = len(self._seen), value
            return self._object(value) if isinstance(value, Parametrized) else self._function(value)
        if isinstance(value, MethodType) and isinstance(value.__self__, Parametrized):
            return _METHOD, value.__func__, self.key_of(value.__self__)
        if isinstance(value, functools.partial):
            return _PARTIAL, *map(self.key_of, (value.func, value.args, value.keywords))
        children, tree = jax.tree_util.tree_flatten(value, is_leaf=lambda part: part is not value)
        if _LEAF == tree:  # {} and () have no children either
            return _Fixed(value)
        return _TREE, tree, tuple(map(self.key_of, children))

    def _object(self, value: Parametrized) -> Any:
        names = tuple(_attributes(value))
        keys = tuple(self.key_of(value.__dict__[name]) for name in names)
        return _OBJECT, type(value), names, keys, of_class(type(value))

    def _function(self, value: FunctionType) -> Any:
        cells = tuple(map(self._cell, contents(value)))
        keywords = value.__kwdefaults__ or {}
        given = *(value.__defaults__ or ()), *keywords.values()
        defaults = tuple(keywords), tuple(map(self._cell, given))
        return _FUNCTION, value.__code__, defaults, cells, _Place.of(value), dependence(value)

    def _cell(self, value: Any) -> Any:
        """What a function closes over, or a default; a list that it may change stays the same object."""
        return _Fixed(value) if isinstance(value, list | dict | set) else self.key_of(value)


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

    def object(self, cls: type, names: tuple[str, ...], keys: tuple[Any, ...], functions: Any) -> Any:
        result: Any = object.__new__(cls)
        self._made.append(result)
        for name, key in zip(names, keys, strict=True):
            result.__dict__[name] = self.build(key)
        return result

    def function(self, code: Any, defaults: Any, cells: Any, place: _Place, names: Any) -> Any:
        closure = tuple(CellType() for _ in cells)
        result = FunctionType(code, place.names, place.name, None, closure)
        self._made.append(result)
        for cell, key in zip(closure, cells, strict=True):
            cell.cell_contents = self.build(key)
        keywords, given = defaults[0], tuple(map(self.build, defaults[1]))
        first = len(given) - len(keywords)
        result.__defaults__, result.__kwdefaults__ = (
            given[:first],
            dict(zip(keywords, given[first:], strict=True)),
        )
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
    """A part of a structure: equal where what it stands for is (`dependence`)."""

    def __init__(self, value: Any) -> None:
        self.value, self._key = value, of_value(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fixed) and bool(self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)


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


def _can_be_made(value: Any) -> bool:
    """Whether a function can be put together from its code: of this library or of a user, without a state."""
    return (
        isinstance(value, FunctionType) and not keeps_state(value.__code__) and may_change(module_of(value))
    )


def _attributes(thing: Any) -> list[str]:
    """The names of what an object was made with."""
    computed = functools.cached_property
    return [
        name
        for name in thing.__dict__
        if name != DERIVED and not isinstance(getattr(type(thing), name, None), computed)
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
    moving = thing.__dict__.get(DERIVED, {}).get(_flatten)
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
    result.__dict__[DERIVED] = {_flatten: names}  # what stands in for a number need not be one
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
        ours, theirs = map(jax.tree_util.tree_leaves, (self.parameters, other.parameters))
        trees: list[Any] = [*map(jax.tree_util.tree_structure, (self.parameters, other.parameters))]
        return bool(trees[0] == trees[1]) and all(map(_equal, ours, theirs))

    def __hash__(self) -> int:
        return hash(self.function)


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, jax.core.Tracer) or isinstance(second, jax.core.Tracer):
        return first is second
    return np.array_equal(first, second)


def with_parameters(function: Any, parameters: Any) -> Any:
    """`function`, or the `ParametricFunction` of it and of `parameters` if they are not None."""
    return function if parameters is None else ParametricFunction(function, parameters)
