"""One function for the processor and another for other devices; only the one that is used is traced.

`jax.lax.platform_dependent` traces both. Tracing the definition of a robot takes seconds, which are wasted on
the processor, because compiled code replaces the definition there. Here a function is traced when JAX lowers
it for a device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import jax

from connections.engines.internals.jax_names import new_operation

Function = Callable[..., jax.Array]


def by_platform(*arguments: Any, processor: Function, others: Function) -> jax.Array:
    """`processor` of the arguments on the processor, `others` of them on any other device; no derivatives.

    Parameters
    ----------
    arguments : arrays.
    processor, others : JAX-traceable functions of these arrays to one array, of the same shape and dtype.
    """
    return _by_platform(*arguments, processor=processor, others=others)


def with_derivatives(fast: Function, definition: Function) -> Function:
    """A function with the derivatives of `definition`, and on the processor the values of `fast`."""

    @jax.custom_jvp
    def value(*arguments: jax.Array) -> jax.Array:
        return by_platform(*arguments, processor=fast, others=definition)

    @value.defjvp
    def value_and_derivative(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        return value(*primals), jax.jvp(definition, primals, tangents)[1]

    return value


def _shape(*arguments: Any, processor: Function, others: Function) -> jax.ShapeDtypeStruct:
    given = [jax.ShapeDtypeStruct(argument.shape, argument.dtype) for argument in arguments]
    result: jax.ShapeDtypeStruct = jax.eval_shape(processor, *given)
    return result


def _value(*arguments: Any, processor: Function, others: Function) -> jax.Array:
    """Outside of `jit`."""
    return _compiled(processor, others)(*arguments)


@lru_cache(maxsize=64)
def _compiled(processor: Function, others: Function) -> Function:
    return jax.jit(partial(by_platform, processor=processor, others=others))


def _batched(
    arguments: Sequence[Any], axes: Sequence[Any], processor: Function, others: Function
) -> tuple[jax.Array, int]:
    chosen = tuple(axes)
    return by_platform(*arguments, processor=jax.vmap(processor, chosen), others=jax.vmap(others, chosen)), 0


def _on_processor(*arguments: Any, processor: Function, others: Function) -> jax.Array:
    return processor(*arguments)


def _elsewhere(*arguments: Any, processor: Function, others: Function) -> jax.Array:
    return others(*arguments)


_by_platform: Function = new_operation(
    "connections_by_platform", _value, _shape, _batched, _elsewhere, _on_processor
)
