"""The public boundary: one point in, any batch out, compiled once, validated inside the compiled call.

Every definition is written at one point (``thing_at``). `evaluate` turns it into the public function: leading
batch axes broadcast together. The compiled function is cached under the definition and the pytree structure
of the objects that it is bound to. Validity (finite values, points on their manifold, positive definite
metrics, frames of full rank) is one boolean that is computed together with the values, because a separate
test in NumPy costs more than the mathematics. If the boolean is false, the owner's ``explain`` looks for the
culprit in plain Python and raises its error.

A point that is close to its manifold (``near_at``) is replaced by the nearest point on it (``project_at``).
This happens here, once: definitions get unit quaternions, and none of them normalizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from types import MethodType
from typing import Any, NamedTuple, NoReturn, ParamSpec, overload

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, Value
from connections.checks import NonFiniteError, ShapeError, as_array, is_traced, raise_at, require_finite
from connections.engines.internals.jax_names import trace_state_clean
from connections.evaluation.compilation import OPTIONS, compiled
from connections.evaluation.memory_chunks import (
    common_count,
    is_small,
    over_pieces,
    piece_size,
    require_room_for_one,
)
from connections.evaluation.parameters import Parametrized, PytreePartial, cache_of, identities

MOST_KEPT = 64  # compiled definitions cached per owner; only owners with many functions of users have more

P = ParamSpec("P")


class Argument(NamedTuple):
    """A public argument: its name, its value, the shape of one item, and whether leading axes are batches."""

    name: str
    value: Any
    core: tuple[int | None, ...]
    batched: bool = True


def evaluate(
    owner: Any,
    definition: Callable[..., Value],
    *arguments: Argument,
    checked: bool = True,
    largest_array_size: int = 0,
) -> Value:
    """A definition at one point over all batch axes of `arguments`, compiled once for its structure.

    Parameters
    ----------
    owner : object with ``frame``, ``valid_at(q)`` and ``explain(q)``.
    definition : JAX-traceable, of one point: a method of the owner, or a `PytreePartial`.
    arguments : the first is the point q when `checked`, in the coordinates of ``owner.frame``.
    checked : whether the first argument is validated as a point, and projected on the manifold.
    largest_array_size : at one point, numbers; batches that would need much memory are cut in chunks.

    Returns
    -------
    What `definition` returns, with the broadcast batch shape in front of every array; arrays are NumPy's
    unless one of the arguments is JAX's.

    Raises
    ------
    ShapeError, NonFiniteError, and the errors of ``owner.explain``.
    MemoryError : not even one point fits in the machine's memory, or the result does not.
    """
    arrays = [as_array(item.name, item.value, item.core) for item in arguments]
    pair = _pair_of(owner, definition, arguments, checked)
    values: Value
    one = _is_one(arguments, arrays)
    try:
        if one and is_small(largest_array_size):
            values, ok = pair[0](*arrays)
        else:
            what = f"{_name(definition)} of {type(owner).__name__}"
            require_room_for_one(largest_array_size, what)
            values, ok = (
                pair[0](*arrays)
                if one
                else _batch_values(pair[1], arguments, arrays, largest_array_size, what)
            )
    except _BatchError:
        _raise_batch_error(arguments, arrays)
    if isinstance(ok, jax.core.Tracer):
        return values
    if not (ok and (not one or _is_finite(values))):
        _explain(owner, _name(definition), values, arguments, arrays, checked)
    return as_given(values, *(item.value for item in arguments))


def _is_one(arguments: Sequence[Argument], arrays: Sequence[Any]) -> bool:
    """Whether no argument has batch axes."""
    return all(array.ndim == len(item.core) for item, array in zip(arguments, arrays, strict=True))


def _is_finite(values: Any) -> bool:
    """Whether all values at one point are finite; values that JAX traces count as finite.

    The test is NumPy's: if it were compiled together with the values, XLA would compute small arrays twice.
    """
    for leaf in jax.tree_util.tree_leaves(values):
        ok: Any
        if isinstance(leaf, jax.core.Tracer):  # under `grad` the test gives a value, under `vmap` a tracer
            ok = jnp.isfinite(leaf).all()
        else:
            ok = np.isfinite(np.asarray(leaf)).all()
        if not isinstance(ok, jax.core.Tracer) and not ok:
            return False
    return True


@overload
def as_given(values: np.ndarray, *given: Any) -> Array: ...
@overload
def as_given(values: Value, *given: Any) -> Value: ...
def as_given(values: Any, *given: Any) -> Any:
    """The values as arrays of JAX if one of `given` is an array of JAX, otherwise as NumPy arrays.

    Tracers stay tracers.
    """
    for value in given:
        if isinstance(value, jax.Array):
            return jax.tree_util.tree_map(jnp.asarray, values)
    return jax.tree_util.tree_map(_numpy, values)


def returns_input_kind(function: Callable[P, Value]) -> Callable[P, Value]:
    """Convert the results of a NumPy function to the kind of its arguments, as `as_given` does."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Value:
        result = function(*args, **kwargs)
        arrays = map(_array_of, (*args, *kwargs.values()))
        given = [array for array in arrays if isinstance(array, jax.Array)]
        return as_given(result, *given) if given else result

    return call


def _array_of(value: Any) -> Any:
    """The value; of a pytree that stands for an array, the first of its arrays."""
    if isinstance(value, Parametrized | list | tuple | dict):
        return value
    return next(iter(jax.tree_util.tree_leaves(value)), value)


def float_of(*given: Any) -> Any:
    """The dtype of what is computed from arrays where JAX traces: float32 if all of them are."""
    kinds = {getattr(array, "dtype", None) for array in given}
    return np.float32 if kinds == {np.dtype(np.float32)} else jax.dtypes.canonicalize_dtype(np.float64)


def _numpy(leaf: Any) -> Any:
    """A writable NumPy array; the chunks of a batch were already joined into one."""
    return leaf if isinstance(leaf, jax.core.Tracer | np.ndarray) else np.array(leaf)


Compiled = Callable[..., Any]


def _pair_of(
    owner: Any, definition: Any, arguments: Sequence[Argument], checked: bool
) -> tuple[Compiled, Compiled]:
    """The compiled definition, of one point and of batches, cached with the owner."""
    function, things = _function_and_owners(definition)
    shape = tuple((item.core, item.batched) for item in arguments)
    key = function, identities(things), shape, checked
    known = cache_of(owner).setdefault(_pair_of, {})
    found = known.get(key)
    if found is None:
        if len(known) >= MOST_KEPT:
            known.pop(next(iter(known)), None)
        at = PytreePartial(function, *things)
        cores = tuple(len(core) for core, _ in shape)
        call = _Boundary(cores, tuple(batched for _, batched in shape), checked, _name(definition))
        made = tuple(compiled(call, owner, at, options=options) for options in (OPTIONS, None))
        found = *made, things  # the cache holds the things, so that no other object can get their ids
        if not is_traced(owner, at):
            known[key] = found
    return found[0], found[1]


def _function_and_owners(definition: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function of a definition, and the things that it is bound to."""
    if isinstance(definition, MethodType):
        return definition.__func__, (definition.__self__,)
    if isinstance(definition, PytreePartial):
        return definition.function, definition.things
    return definition, ()


def admit_at(owner: Any, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The point (nq,) of the manifold next to q (nq,), whether q is close to it, and `owner` valid there."""
    p = owner.frame.project_at(q)
    return p, owner.frame.near_at(q) & owner.valid_at(p)


def require_admissible(owner: Any, name: str, q: Any) -> np.ndarray:
    """The point (nq,) of the manifold next to q (nq,), or the error that says why `owner` is not valid there.

    Parameters
    ----------
    owner : as for `evaluate`. name : the name of q in errors.
    """
    p: np.ndarray = owner.frame.require_near(name, q)
    owner.explain(p)
    return p


class _BatchError(ValueError):
    """Batch axes do not broadcast; translated into a `ShapeError` that names the arguments."""


@dataclass(frozen=True)
class _Boundary:
    """(owner, definition, *arrays) -> the values over the batch, and one boolean: whether all is valid.

    The boolean includes that the arguments are finite, and for a batch that the values are.

    Parameters
    ----------
    cores : axes of one item of each argument. batched : whether batch axes precede them. checked : whether
        the first is a point. __name__ : of the definition.
    """

    cores: tuple[int, ...]
    batched: tuple[bool, ...]
    checked: bool
    __name__: str

    def __call__(self, owner: Any, definition: Callable[..., Any], *arrays: Any) -> tuple[Any, Any]:
        triples = list(zip(arrays, self.cores, self.batched, strict=True))
        shapes = [a.shape[: a.ndim - c] for a, c, b in triples if b]
        try:
            batch = jnp.broadcast_shapes(*shapes)
        except ValueError as error:
            raise _BatchError from error
        if not batch:
            return self._at_point(owner, definition, *arrays)
        flat = [
            jnp.broadcast_to(a, batch + a.shape[a.ndim - c :]).reshape((-1,) + a.shape[a.ndim - c :])
            if b
            else a
            for a, c, b in triples
        ]

        def at_point(*point: Any) -> tuple[Any, Any]:
            values, ok = self._at_point(owner, definition, *point)
            return values, _finite_at(ok, *jax.tree_util.tree_leaves(values))

        values, ok = jax.vmap(at_point, in_axes=tuple(0 if b else None for b in self.batched))(*flat)
        return jax.tree_util.tree_map(lambda leaf: leaf.reshape(batch + leaf.shape[1:]), values), jnp.all(ok)

    def _at_point(self, owner: Any, definition: Callable[..., Any], *arrays: Any) -> tuple[Any, Any]:
        ok: Any = True
        if self.checked:
            p, ok = admit_at(owner, arrays[0])
            arrays = (p, *arrays[1:])
        return definition(*arrays), _finite_at(ok, *arrays)


def _finite_at(ok: Any, *numbers: Any) -> Any:
    """Whether `ok` and all numbers are finite."""
    for leaf in numbers:
        ok = ok & jnp.all(jnp.isfinite(leaf))
    return ok


def _batch_values(
    function: Compiled, arguments: Sequence[Argument], arrays: Sequence[Any], numbers: int, what: str
) -> tuple[Any, Any]:
    """The values of a batch and their validity, in chunks if it is large."""
    cores = [len(item.core) for item in arguments]
    batches = [array.shape[: array.ndim - core] for array, core in zip(arrays, cores, strict=True)]
    if trace_state_clean() and not is_traced(arrays):
        batched = [item.batched for item in arguments]
        count = common_count([batch for batch, b in zip(batches, batched, strict=True) if b])
        size = piece_size(count, numbers)
        if size:
            cut = partial(_with_room, function, what=what)
            return over_pieces(cut, arrays, cores, batched, size, what)
    found: tuple[Any, Any] = _with_room(function, arrays, what)
    return found


def _with_room(function: Callable[..., Value], arrays: Sequence[Any], what: str) -> Value:
    """The function's value at the arrays; MemoryError if XLA cannot allocate what it needs."""
    try:
        return function(*arrays)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise MemoryError(f"{what}: the machine has not enough memory for a batch of this size") from error


def _name(definition: Any) -> str:
    """The public name of a definition: ``torsion`` for ``torsion_at``; a called object has its kind's."""
    function = _function_and_owners(definition)[0]
    name: str = getattr(function, "__name__", type(function).__name__)
    return name.removesuffix("_at").lstrip("_")


def projected_point(q: jax.Array) -> jax.Array:
    """The identity as a definition: `evaluate` of it gives the projected point."""
    return q


def batch_of(arguments: Sequence[Argument], arrays: Sequence[Any]) -> tuple[int, ...]:
    """The batch axes, which precede those of one item; all arrays broadcast to them.

    Raises
    ------
    ShapeError : they do not; the message gives all shapes.
    """
    shapes = [
        array.shape[: array.ndim - len(item.core)] for item, array in zip(arguments, arrays, strict=True)
    ]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return _raise_batch_error(arguments, arrays)


def _raise_batch_error(arguments: Sequence[Argument], arrays: Sequence[Any]) -> NoReturn:
    shapes = {item.name: a.shape for item, a in zip(arguments, arrays, strict=True) if item.batched}
    text = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    raise ShapeError("batch axes", "shapes that broadcast together", text)


def _explain(
    owner: Any,
    name: str,
    values: Any,
    arguments: Sequence[Argument],
    arrays: Sequence[Any],
    checked: bool,
) -> None:
    for item, array in zip(arguments, arrays, strict=True):
        require_finite(item.name, array)
    if checked:
        for q in np.asarray(arrays[0]).reshape((-1,) + np.shape(arrays[0])[-1:]):
            require_admissible(owner, arguments[0].name, q)
    points = np.asarray(arrays[0]).reshape(-1, np.shape(arrays[0])[-1]) if np.ndim(arrays[0]) else arrays[0]
    for leaf in jax.tree_util.tree_leaves(values):
        flat = np.asarray(leaf).reshape(len(points), -1) if np.size(leaf) % max(len(points), 1) == 0 else None
        if flat is not None and not np.isfinite(flat).all():
            row = int(np.argmin(np.isfinite(flat).all(axis=1)))
            raise_at(NonFiniteError, f"{name} of {type(owner).__name__} is not finite", points[row])
    raise NonFiniteError(f"{name} of {type(owner).__name__} is not finite or not valid for these arguments")


class InCommonFrame(Parametrized):
    """Two objects in one frame, such as a connection and a metric; both must be valid."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second

    @classmethod
    def of(cls, first: Any, second: Any) -> InCommonFrame:
        """The pair, cached with the first object, so that its compiled functions are found again."""
        known = cache_of(first).get(cls)
        if known is None or known.second is not second:
            known = cache_of(first)[cls] = cls(first, second)
        pair: InCommonFrame = known
        return pair

    @property
    def frame(self) -> Any:
        """The frame of both."""
        return self.first.frame

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether both are valid."""
        both: jax.Array = self.first.valid_at(q) & self.second.valid_at(q)
        return both

    def explain(self, q: Any) -> None:
        """The error of the one that is not valid."""
        self.first.explain(q)
        self.second.explain(q)


def batch_shape(array: Any, core_ndim: int) -> Sequence[int]:
    """Leading axes of `array` before its last `core_ndim` axes."""
    return tuple(np.shape(array)[: np.ndim(array) - core_ndim])
