"""Functions of vectors that are computed in one way on the processor, and in another on other devices.

`jax.lax.platform_dependent` would trace both ways. Tracing the definition of a robot takes seconds, which are
wasted on the processor, because compiled code replaces the definition there. Here a function is traced when
JAX lowers it for a device. `vmap` adds a batch axis, so that the processor gets all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.engines.internals.jax_names import new_operation
from connections.engines.notices import announce_device

Function = Callable[..., jax.Array]


Change = Callable[[Sequence[jax.Array], Sequence[jax.Array | None]], jax.Array]


@dataclass(frozen=True, eq=False)
class PlatformFunction:
    """A function of vectors (k,) to one array, an operation of JAX's functions.

    Parameters
    ----------
    name : in errors.
    shape : of the result.
    processor : JAX-traceable, of vectors (..., k) with the same leading axes to (..., *shape), for the
        processor.
    others : JAX-traceable, of vectors (k,), for any other device.
    change : (vectors (k,), their tangents, None for zero) -> the tangent of the result; JAX-traceable, and
        linear in the tangents.
    transposed : if the function is linear in its last vector (before those that may be shared), makes the
        function of the other vectors and a covector of the result whose result is the covector of that one.
    shared : how many of the last vectors need no batch axes: where `vmap` maps over none of them, `processor`
        gets them as (k,), the same for all rows.
    """

    name: str
    shape: tuple[int, ...]
    processor: Function
    others: Function
    change: Change
    transposed: Callable[[], PlatformFunction] | None = None
    shared: int = 0

    def __call__(self, *vectors: Any) -> jax.Array:
        """The result at one point, in the widest float of JAX."""
        double = jax.dtypes.canonicalize_dtype(np.float64)
        return _bind(*(jnp.asarray(vector, double) for vector in vectors), function=self, batch=0)

    @cached_property
    def compiled(self) -> dict[Hashable, Function]:
        """Shapes and devices of vectors -> the operation, compiled for them.

        These are machine code without their traces, which JAX would keep as long as the function that was
        traced: they hold this object, so that it would never go.
        """
        return {}


def _shape(*vectors: Any, function: PlatformFunction, batch: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((*vectors[0].shape[:batch], *function.shape), vectors[0].dtype)


def _value(*vectors: Any, function: PlatformFunction, batch: int) -> jax.Array:
    """Outside of `jit`."""
    vectors = tuple(map(jnp.asarray, vectors))
    kind = tuple((vector.shape, vector.sharding, vector.committed) for vector in vectors)
    if kind not in function.compiled:
        operation = jax.jit(partial(_bind, function=function, batch=batch))
        function.compiled[kind] = operation.lower(*vectors).compile()
    return function.compiled[kind](*vectors)


def _batched(
    vectors: Sequence[Any], axes: Sequence[Any], function: PlatformFunction, batch: int
) -> tuple[jax.Array, int]:
    size = next(x.shape[axis] for x, axis in zip(vectors, axes, strict=True) if axis is not None)
    own = len(vectors) - function.shared
    rows = [
        jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(vectors, axes, strict=True)
    ]
    if all(axis is None and x.ndim == 1 for x, axis in zip(vectors[own:], axes[own:], strict=True)):
        rows[own:] = vectors[own:]
    else:  # all of them vary, over all axes
        within = rows[0].shape[1:-1]
        rows[own:] = [
            jnp.broadcast_to(
                x.reshape(size, *x.shape[1:-1] or (1,) * batch, x.shape[-1]), (size, *within, x.shape[-1])
            )
            for x in rows[own:]
        ]
    return _bind(*rows, function=function, batch=batch + 1), 0


def _on_processor(*vectors: Any, function: PlatformFunction, batch: int) -> jax.Array:
    return function.processor(*vectors)


def _elsewhere(*vectors: Any, function: PlatformFunction, batch: int) -> jax.Array:
    announce_device()
    others = function.others
    for _ in range(batch):
        others = jax.vmap(others, _axes(vectors, function))
    return others(*vectors)


def _axes(vectors: Sequence[Any], function: PlatformFunction) -> tuple[int | None, ...]:
    """The axes of vectors over which rows are mapped, None for those that are shared."""
    own = len(vectors) - function.shared
    return tuple(None if place >= own and x.ndim == 1 else 0 for place, x in enumerate(vectors))


def _change(
    vectors: Sequence[Any], tangents: Sequence[Any], function: PlatformFunction, batch: int
) -> jax.Array:
    places = [place for place, tangent in enumerate(tangents) if tangent is not None]

    def at(vectors: Sequence[jax.Array], given: Sequence[jax.Array]) -> jax.Array:
        known = dict(zip(places, given, strict=True))
        return function.change(vectors, [known.get(place) for place in range(len(vectors))])

    axes = _axes(vectors, function)
    for _ in range(batch):
        at = jax.vmap(at, (axes, tuple(axes[place] for place in places)))
    return at(tuple(vectors), tuple(tangents[place] for place in places))


def _transposed(covector: Any, *vectors: Any, function: PlatformFunction, batch: int) -> jax.Array:
    last = len(vectors) - function.shared - 1
    if function.transposed is None or [k for k, x in enumerate(vectors) if x is None] != [last]:
        raise TypeError(
            f"{function.name}: it has no transpose as a function of this argument; `jax.vjp(f, x)[1]` is the "
            "transpose of the derivative of f at x, which of a linear f is that of f"
        )
    vectors = *vectors[:last], covector, *vectors[last + 1 :]
    return _bind(*vectors, function=function.transposed(), batch=batch)


_bind: Function = new_operation(
    "connections_platform_function",
    _value,
    _shape,
    _batched,
    _elsewhere,
    _on_processor,
    _change,
    _transposed,
)
