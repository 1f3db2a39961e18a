"""Names of JAX that are private, or of its modules for extensions, which may change in any version.

`trace_state_clean`, of `jax._src`: whether no transformation of JAX is running in this thread, so that arrays
have values. JAX has no public name for it; `jax.core.Tracer` only says whether one array is traced, and a
function of constants has no traced array. Without this name, everything would count as traced: slower, with
the same results.

`Primitive`, `ad`, `batching`, `mlir` (`jax.extend`, `jax.interpreters`): a new operation with its own rules
for derivatives, for `vmap`, and for lowering for each kind of device. `jax.custom_jvp`,
`jax.custom_batching.custom_vmap` and `jax.lax.platform_dependent` would replace them; the latter traces the
functions for all devices, and a loop that is differentiated backwards forgets the rule of a `custom_jvp`, so
that it cannot be differentiated again.

`mat`, of an argument's type: the axes of a mesh over which it varies inside `jax.shard_map`. By them JAX sums
derivatives over devices; the result of an operation that does not say over which ones it varies is taken for
the same on all devices, and derivatives lose the other devices' parts. With `check_vma=False`, which sums
nothing, nothing depends on it.

The parameters of the equations of a trace have no promised names. JAX 0.11 has renamed those of ``scan``;
`scan_counts` finds what it needs in the equation's shapes.

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
from jax.interpreters import ad, batching, mlir
from jax.sharding import PartitionSpec

__all__ = ["Literal", "eval_jaxpr", "new_operation", "scan_counts", "trace_state_clean"]


def scan_counts(equation: Any) -> tuple[int, int]:
    """How many arguments of a ``scan`` of a trace are the same in each step, and how many are carried on.

    What it goes through, before or after, has one axis more than what a step gets or gives.
    """
    step = equation.params["jaxpr"]

    def whole(variables: Any, inside: Any) -> int:
        pairs = zip(variables, inside, strict=True)
        return sum(len(variable.aval.shape) == len(aval.shape) for variable, aval in pairs)

    carried = whole(equation.outvars, step.out_avals)
    return whole(equation.invars, step.in_avals) - carried, carried


def new_operation(
    name: str,
    value: Callable[..., Any],
    shape: Callable[..., jax.ShapeDtypeStruct],
    batched: Callable[..., tuple[Any, Any]],
    lowered: Callable[..., Any],
    on_processor: Callable[..., Any] | None = None,
    change: Callable[..., Any] | None = None,
    transposed: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """A function that JAX treats as one operation with one result.

    Parameters
    ----------
    name : in the text of traces.
    value : the function outside of transformations. Parameters of all functions are given by name.
    shape : of arguments with shape and dtype.
    batched : (arguments, their batch axes, or None) -> (the result, its batch axis, or None).
    lowered : JAX-traceable; it is compiled for a device.
    on_processor : the same for processors, if it is another function.
    change : (arguments, their tangents, None for zero) -> the tangent of the result, which JAX can
        differentiate and transpose; if None, the operation has no derivative.
    transposed : of an operation that is linear in one of its arguments: (a covector of the result, the
        arguments, None in place of that one) -> its covector. It raises the error if another argument is
        None, in which JAX takes the operation for linear.
    """
    primitive = Primitive(name)

    def abstract(*arguments: Any, **parameters: Any) -> Any:
        result = shape(*arguments, **parameters)
        given = arguments[0]
        if not given.mat.varying:
            return ShapedArray(result.shape, result.dtype)
        nowhere = given.sharding.update(spec=PartitionSpec(*[None] * len(result.shape)))
        return given.update(shape=result.shape, dtype=result.dtype, sharding=nowhere)

    primitive.def_impl(value)
    primitive.def_abstract_eval(abstract)
    batching.primitive_batchers[primitive] = batched
    mlir.register_lowering(primitive, mlir.lower_fun(lowered, multiple_results=False))
    if on_processor is not None:
        compiled = mlir.lower_fun(on_processor, multiple_results=False)
        mlir.register_lowering(primitive, compiled, platform="cpu")
    if change is not None:

        def derivative(primals: Any, tangents: Any, **parameters: Any) -> tuple[Any, Any]:
            given = [None if isinstance(tangent, ad.Zero) else tangent for tangent in tangents]
            result, slope = _varying_alike(
                primitive.bind(*primals, **parameters), change(primals, given, **parameters)
            )
            return result, slope

        ad.primitive_jvps[primitive] = derivative
    if transposed is not None:

        def transpose(covector: Any, *arguments: Any, **parameters: Any) -> list[Any]:
            unknown = [ad.is_undefined_primal(argument) for argument in arguments]
            if isinstance(covector, ad.Zero):
                return [
                    ad.Zero(x.aval) if wanted else None for x, wanted in zip(arguments, unknown, strict=True)
                ]
            given = [None if wanted else x for x, wanted in zip(arguments, unknown, strict=True)]
            slope = transposed(covector, *given, **parameters)
            return [slope if wanted else None for wanted in unknown]

        ad.primitive_transposes[primitive] = transpose

    def bind(*arguments: Any, **parameters: Any) -> Any:
        return primitive.bind(*_varying_alike(*arguments), **parameters)

    return bind


def _varying_alike(*arrays: Any) -> list[Any]:
    """The arrays; inside `jax.shard_map`, all of them vary over the axes over which one of them does."""
    own = [jax.typeof(array).mat.varying for array in arrays]
    everything = frozenset().union(*own)
    return [
        jax.lax.pcast(array, tuple(everything - axes), to="varying") if axes != everything else array
        for array, axes in zip(arrays, own, strict=True)
    ]
