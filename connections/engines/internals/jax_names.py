"""Names of JAX that are private, or of its modules for extensions, which may change in any version.

`trace_state_clean`, of `jax._src`: whether no transformation of JAX is running in this thread, so that arrays
have values. JAX has no public name for it; `jax.core.Tracer` only says whether one array is traced, and a
function of constants has no traced array. Without this name, everything would count as traced: slower, with
the same results.

`Primitive`, `batching`, `mlir` (`jax.extend`, `jax.interpreters`): a new operation with its own rules for
lowering for each kind of device, and for `vmap`. `jax.custom_batching.custom_vmap` and
`jax.lax.platform_dependent` would replace them; the latter traces the functions for all devices.

`Literal`, of `jax.extend`: a constant in the trace of a function, with its number in `val`. `eval_jaxpr`, of
`jax.core`: a trace applied to arrays; `jax.extend.core.jaxpr_as_fun` would replace it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax._src.core import trace_state_clean
from jax.core import ShapedArray, eval_jaxpr
from jax.extend.core import Literal, Primitive
from jax.interpreters import batching, mlir

__all__ = ["Literal", "eval_jaxpr", "new_operation", "trace_state_clean"]


def new_operation(
    name: str,
    value: Callable[..., Any],
    shape: Callable[..., jax.ShapeDtypeStruct],
    batched: Callable[..., tuple[Any, Any]],
    lowered: Callable[..., Any],
    on_processor: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """A function that JAX treats as one operation with one result; it has no derivatives.

    Parameters
    ----------
    name : in the text of traces.
    value : the function outside of transformations. Parameters of all functions are given by name.
    shape : of arguments with shape and dtype.
    batched : (arguments, their batch axes, or None) -> (the result, its batch axis, or None).
    lowered : JAX-traceable; it is compiled for a device.
    on_processor : the same for processors, if it is another function.
    """
    primitive = Primitive(name)

    def abstract(*arguments: Any, **parameters: Any) -> Any:
        result = shape(*arguments, **parameters)
        return ShapedArray(result.shape, result.dtype)

    primitive.def_impl(value)
    primitive.def_abstract_eval(abstract)
    batching.primitive_batchers[primitive] = batched
    mlir.register_lowering(primitive, mlir.lower_fun(lowered, multiple_results=False))
    if on_processor is not None:
        compiled = mlir.lower_fun(on_processor, multiple_results=False)
        mlir.register_lowering(primitive, compiled, platform="cpu")
    return primitive.bind
