"""The public boundary: one point in, any batch out, compiled once, validated inside the compiled call.

Every definition is written at one point (``thing_at``). `evaluate` turns it into the public function: leading
batch axes broadcast together, the compiled function is cached on its owner, and validity (finite numbers,
points on their manifold, positive definite metrics, frames of full rank) is one boolean computed beside the
values, because a separate test on the host costs more than the mathematics. When that boolean is false, the
owner's ``explain`` looks for the culprit in plain Python and raises its error.

A point next to its manifold (``near_at``) stands for the nearest point there (``project_at``). It is
projected here, once: definitions see unit quaternions, and none of them normalizes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from functools import partial, wraps
from typing import Any, NamedTuple, NoReturn, ParamSpec, overload

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Value
from connections.checks import NonFiniteError, ShapeError, as_array, raise_at, require_finite
from connections.geometry.compilation import Compiler, called, trace_state_clean
from connections.geometry.parameters import Parametrized, derived
from connections.geometry.pieces import common_count, over_pieces, piece_size, require_room_for_one

_PAUSE = 0.05  # s, after which an interrupt is noticed
MOST_KEPT = 64  # functions of one owner, which are more only where users give many functions

P = ParamSpec("P")


class Argument(NamedTuple):
    """A public argument: its name, its value, the shape of one item, and whether leading axes are batches."""

    name: str
    value: Any
    core: tuple[int | None, ...]
    batched: bool = True


def evaluate(
    owner: Any,
    key: Hashable,
    point_function: Callable[..., Value],
    *arguments: Argument,
    checked: bool = True,
    long: bool = False,
    numbers: int = 0,
) -> Value:
    """`point_function` over all batch axes of `arguments`, compiled once for `owner` and `key`.

    Parameters
    ----------
    owner : object with ``frame``, ``valid_at(q)`` and ``explain(q)``; the compiled function is kept on it.
    key : name of the function, with the user's functions that it closes over.
    point_function : the definition at one point; JAX-traceable.
    arguments : the first is the point q when `checked`, in the coordinates of ``owner.frame``.
    checked : whether the first argument is judged, and projected on the manifold.
    long : whether it may take seconds; an interrupt then ends the call at once.
    numbers : of the largest array made at one point; batches that would need much memory are cut in `pieces`.

    Returns
    -------
    What `point_function` returns, with the broadcast batch shape in front of every array; arrays are NumPy's
    unless one of the arguments is JAX's.

    Raises
    ------
    ShapeError, NonFiniteError, and the errors of ``owner.explain``.
    MemoryError : not even one point fits in the machine's memory, or the result does not.
    """
    arrays = [as_array(item.name, item.value, item.core) for item in arguments]
    pair = kept(owner, key, lambda: _pair(_with_validity(owner, point_function, arguments, checked)))
    try:
        if long:
            values, ok = _interruptible(pair[0 if _is_one(arguments, arrays) else 1], arrays)
        elif not numbers and _is_one(arguments, arrays):
            values, ok = pair[0](*arrays)
        else:
            values, ok = _called(pair, arguments, arrays, numbers, f"{_name(key)} of {type(owner).__name__}")
    except _BatchError:
        _raise_batch_error(arguments, arrays)
    if isinstance(ok, jax.core.Tracer):
        return values
    if not ok:
        _explain(owner, key, values, arguments, arrays, checked)
    return as_given(values, *(item.value for item in arguments))


def _is_one(arguments: Sequence[Argument], arrays: Sequence[Any]) -> bool:
    """Whether no argument has batch axes."""
    return all(array.ndim == len(item.core) for item, array in zip(arguments, arrays, strict=True))


def _interruptible(function: Callable[..., Value], arrays: Sequence[Any]) -> Value:
    """The value of a function that may take long, computed by a thread, so that an interrupt is noticed.

    What was begun is computed to its end then, but nobody waits for it. Settings of JAX that hold only in the
    calling thread, such as a device, do not hold in another: with one, no thread is used.
    """
    config: Any = jax.config
    main = threading.current_thread() is threading.main_thread()
    if not main or not trace_state_clean() or config.jax_default_device is not None:
        return function(*arrays)
    found: list[Any] = []

    def run() -> None:
        try:
            found.append((jax.block_until_ready(function(*arrays)), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_PAUSE)
    value: Value
    value, error = found[0]
    if error is not None:
        raise error
    return value


@overload
def as_given(values: np.ndarray, *given: Any) -> jax.Array: ...
@overload
def as_given(values: Value, *given: Any) -> Value: ...
def as_given(values: Any, *given: Any) -> Any:
    """Arrays of the kind that was given: JAX's if one of `given` is, and NumPy's else.

    What JAX is tracing stays what it is. Annotations say `jax.Array` for both kinds.
    """
    for value in given:
        if isinstance(value, jax.Array):
            return jax.tree_util.tree_map(jnp.asarray, values)
    return jax.tree_util.tree_map(_numpy, values)


def kind_kept(function: Callable[P, Value]) -> Callable[P, Value]:
    """A function that computes with NumPy, whose results are as `as_given` says of its arguments."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Value:
        result = function(*args, **kwargs)
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, jax.Array)]
        return as_given(result, *given) if given else result

    return call


def _numpy(leaf: Any) -> Any:
    """A NumPy array that may be written; one that is put together from pieces is nobody else's."""
    return leaf if isinstance(leaf, jax.core.Tracer | np.ndarray) else np.array(leaf)


def kept(owner: Any, key: Hashable, make: Callable[[], Value]) -> Value:
    """What `make` gives, kept with `owner` under `key`; of more than `MOST_KEPT`, the first is forgotten."""
    known: dict[Hashable, Value] = derived(owner).setdefault(kept, {})
    try:
        return known[key]
    except KeyError:
        if len(known) >= MOST_KEPT:
            known.pop(next(iter(known)), None)
        made = known[key] = make()
        return made


def _pair(function: Callable[..., Value]) -> tuple[Callable[..., Value], Callable[..., Value]]:
    """For one point and for batches."""
    functions = Compiler(function)
    return functions.compiled(called), functions.compiled(called, options=None)


def admit_at(owner: Any, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The point (nq,) that q (nq,) stands for, and whether q is near it and `owner` valid there."""
    p = owner.frame.project_at(q)
    return p, owner.frame.near_at(q) & owner.valid_at(p)


def require_admissible(owner: Any, name: str, q: Any) -> np.ndarray:
    """The point (nq,) that q (nq,) stands for, or the error that says why `owner` is not valid there.

    Parameters
    ----------
    owner : as for `evaluate`. name : how the caller calls q.
    """
    p: np.ndarray = owner.frame.require_near(name, q)
    owner.explain(p)
    return p


class _BatchError(ValueError):
    """Batch axes do not broadcast; translated into a `ShapeError` that names the arguments."""


def _with_validity(
    owner: Any, point_function: Callable[..., Value], arguments: Sequence[Argument], checked: bool
) -> Callable[..., tuple[Value, Any]]:
    cores = tuple(len(item.core) for item in arguments)
    batched = tuple(item.batched for item in arguments)

    def at_point(*arrays: Any) -> tuple[Value, Any]:
        ok: Any = True
        if checked:
            p, ok = admit_at(owner, arrays[0])
            arrays = (p, *arrays[1:])
        values = point_function(*arrays)
        for leaf in (*arrays, *jax.tree_util.tree_leaves(values)):
            ok = ok & jnp.all(jnp.isfinite(leaf))
        return values, ok

    def over_batch(*arrays: Any) -> tuple[Value, Any]:
        shapes = [a.shape[: a.ndim - c] for a, c, b in zip(arrays, cores, batched, strict=True) if b]
        try:
            batch = jnp.broadcast_shapes(*shapes)
        except ValueError as error:
            raise _BatchError from error
        if not batch:
            return at_point(*arrays)
        flat = [
            jnp.broadcast_to(a, batch + a.shape[a.ndim - c :]).reshape((-1,) + a.shape[a.ndim - c :])
            if b
            else a
            for a, c, b in zip(arrays, cores, batched, strict=True)
        ]
        values, ok = jax.vmap(at_point, in_axes=tuple(0 if b else None for b in batched))(*flat)
        return jax.tree_util.tree_map(lambda leaf: leaf.reshape(batch + leaf.shape[1:]), values), jnp.all(ok)

    return over_batch


def _called(
    pair: Sequence[Callable[..., tuple[Value, Any]]],
    arguments: Sequence[Argument],
    arrays: Sequence[Any],
    numbers: int,
    what: str,
) -> tuple[Value, Any]:
    """The values and their validity, by the function for one point, for batches, or for pieces of them."""
    cores = [len(item.core) for item in arguments]
    batches = [array.shape[: array.ndim - core] for array, core in zip(arrays, cores, strict=True)]
    require_room_for_one(numbers, what)
    if not any(batches):
        return _with_room(pair[0], arrays, what)
    if numbers and not any(isinstance(array, jax.core.Tracer) for array in arrays):
        batched = [item.batched for item in arguments]
        count = common_count([batch for batch, b in zip(batches, batched, strict=True) if b])
        size = piece_size(count, numbers)
        if size:
            cut = partial(_with_room, pair[1], what=what)
            return over_pieces(cut, arrays, cores, batched, size, what)
    return _with_room(pair[1], arrays, what)


def _with_room(function: Callable[..., Value], arrays: Sequence[Any], what: str) -> Value:
    """The function of the arrays; MemoryError if XLA finds no room for what it makes."""
    try:
        return function(*arrays)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise MemoryError(f"{what}: the machine has not enough memory for a batch of this size") from error


def _name(key: Hashable) -> Any:
    return key[0] if isinstance(key, tuple) else key


def batch_of(arguments: Sequence[Argument], arrays: Sequence[Any]) -> tuple[int, ...]:
    """The axes before those of one item, to which all arrays broadcast.

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
    key: Hashable,
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
    name = _name(key)
    points = np.asarray(arrays[0]).reshape(-1, np.shape(arrays[0])[-1]) if np.ndim(arrays[0]) else arrays[0]
    for leaf in jax.tree_util.tree_leaves(values):
        flat = np.asarray(leaf).reshape(len(points), -1) if np.size(leaf) % max(len(points), 1) == 0 else None
        if flat is not None and not np.isfinite(flat).all():
            row = int(np.argmin(np.isfinite(flat).all(axis=1)))
            raise_at(NonFiniteError, f"{name} of {type(owner).__name__} is not finite", points[row])
    raise NonFiniteError(f"{name} of {type(owner).__name__} is not finite or not valid for these arguments")


class Pair(Parametrized):
    """Two objects beside each other, as a connection and a metric: where compiled functions of both live."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second

    @classmethod
    def of(cls, first: Any, second: Any) -> Pair:
        """The pair, made once for two objects."""
        known = derived(first).get((cls, id(second)))
        if known is None or known.second is not second:
            known = derived(first)[cls, id(second)] = cls(first, second)
        pair: Pair = known
        return pair

    @property
    def frame(self) -> Any:
        """The frame of both."""
        return self.first.frame

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Both are valid."""
        both: jax.Array = self.first.valid_at(q) & self.second.valid_at(q)
        return both

    def explain(self, q: Any) -> None:
        """The error of the one that is not valid."""
        self.first.explain(q)
        self.second.explain(q)


def batch_shape(array: Any, core_ndim: int) -> Sequence[int]:
    """Leading axes of `array` before its last `core_ndim` axes."""
    return tuple(np.shape(array)[: np.ndim(array) - core_ndim])
