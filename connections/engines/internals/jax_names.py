"""Names of JAX that are private, or of its modules for extensions, which may change in any version.

`trace_state_clean`, of `jax._src`: whether no transformation of JAX is running in this thread, so that arrays
have values. JAX has no public name for it; `jax.core.Tracer` only says whether one array is traced, and a
function of constants has no traced array. Without this name, everything would count as traced: slower, with
the same results.

`Primitive`, `ad`, `batching`, `mlir` (`jax.extend`, `jax.interpreters`): a new operation with its own rules
for derivatives, for `vmap`, and for lowering for each kind of device. `jax.custom_jvp`,
`jax.custom_batching.custom_vmap` and `jax.lax.platform_dependent` would replace them; the latter traces the
functions for all devices, and a loop that is differentiated backwards forgets the rule of a `custom_jvp`, so
that it cannot be differentiated again. `jax.experimental.hijax` (JAX 0.10.2) has operations with rules, too:
`grad` does not use the rule of `jvp`, but needs a second one, and what replaces the operation is asked for
before the device is known, so that the definition would be traced for processors, too.

`mat`, of an argument's type: the axes of a mesh over which it varies inside `jax.shard_map`. By them JAX sums
derivatives over devices; the result of an operation that does not say over which ones it varies is taken for
the same on all devices, and derivatives lose the other devices' parts. With `check_vma=False`, which sums
nothing, nothing depends on it. Its `sharding` says over which axes of a mesh of explicit axes an array is
cut.

`lowering_parameters.for_export` of a lowering's context: whether the text is for `jax.export`, and executed
by another process. `sdy.sharding_rule`, an attribute of a custom call: which axes of its arguments and
results belong together, by which Shardy cuts it over devices. JAX's own custom calls (`jax.lax.linalg`)
have it, and `jax.ffi.ffi_call` takes none. `jax.experimental.custom_partitioning` would replace it; but it
calls Python while XLA compiles, and cannot be exported.

The parameters of the equations of a trace have no promised names. JAX 0.11 has renamed those of ``scan``;
`scan_counts` finds what it needs in the equation's shapes.

`Literal`, of `jax.extend`: a constant in the trace of a function, with its number in `val`. `eval_jaxpr`, of
`jax.core`: a trace applied to arrays; `jax.extend.core.jaxpr_as_fun` would replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.core import trace_state_clean
from jax.core import ShapedArray, eval_jaxpr
from jax.extend.core import Literal, Primitive
from jax.extend.mlir.dialects import sdy
from jax.interpreters import ad, batching, mlir
from jax.sharding import PartitionSpec

__all__ = [
    "ForeignCall",
    "Literal",
    "eval_jaxpr",
    "foreign_call",
    "new_operation",
    "scan_counts",
    "trace_state_clean",
]


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
    value : the function outside of transformations. Parameters of all functions are given by name; `batch`,
        if there is one, is how many first axes of the arguments and of the result belong together.
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
        return _type_of_result(arguments, shape(*arguments, **parameters), parameters.get("batch", 0))

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


def _type_of_result(arguments: Sequence[Any], result: jax.ShapeDtypeStruct, batch: int) -> Any:
    """The type of a result whose first `batch` axes are those of the arguments, on devices as they are."""
    given = arguments[0]
    rows = [argument for argument in arguments if len(argument.shape) > batch]  # others are for all rows
    specs = [argument.sharding.spec for argument in rows]
    over = [next((spec[axis] for spec in specs if spec[axis] is not None), None) for axis in range(batch)]
    if not given.mat.varying and all(axis is None for axis in over):
        return ShapedArray(result.shape, result.dtype)
    cut = next((x.sharding for x in rows if any(x.sharding.spec[:batch])), given.sharding)
    spec = PartitionSpec(*over, *[None] * (len(result.shape) - batch))
    return given.update(shape=result.shape, dtype=result.dtype, sharding=cut.update(spec=spec))


@dataclass(frozen=True, eq=False)
class ForeignCall:
    """A call of a function that is registered with `jax.ffi.register_ffi_target` for processors.

    Its rows, the first axes of all arguments but those that are for all rows, do not depend on each other.

    Parameters
    ----------
    target : the name by which it is registered.
    core : shape of the result for vectors (k,).
    attributes : name -> array, integer, or text.
    exported : makes the target and the attributes of a call that another process executes.
    """

    target: str
    core: tuple[int, ...]
    attributes: Mapping[str, Any]
    exported: Callable[[], tuple[str, Mapping[str, Any]]]

    def __repr__(self) -> str:
        return self.target


def foreign_call(call: ForeignCall, *vectors: Any) -> Any:
    """The result (..., *core) of vectors (..., k), or (k,) for all rows, but for the first; float64."""
    return _foreign_call.bind(*vectors, call=call)


_foreign_call = Primitive("foreign_call")


def _foreign_result(*vectors: Any, call: ForeignCall) -> Any:
    rows = vectors[0].shape[:-1]
    return _type_of_result(vectors, jax.ShapeDtypeStruct((*rows, *call.core), vectors[0].dtype), len(rows))


def _foreign_batch(vectors: Sequence[Any], axes: Sequence[Any], call: ForeignCall) -> tuple[Any, int]:
    size = next(x.shape[axis] for x, axis in zip(vectors, axes, strict=True) if axis is not None)
    rows = [
        jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(vectors, axes, strict=True)
    ]
    return foreign_call(call, *rows), 0


def _foreign_lowering(context: Any, *vectors: Any, call: ForeignCall) -> Any:
    exporting = context.module_context.lowering_parameters.for_export
    target, attributes = call.exported() if exporting else (call.target, call.attributes)
    types = *context.avals_in, *context.avals_out
    batch = len(context.avals_in[0].shape) - 1
    cut = {}
    if batch and all(isinstance(size, int) for kind in types for size in kind.shape):
        # For the propagation of Shardy, and for XLA, which then cuts the operation.
        if getattr(jax.config, "jax_use_shardy_partitioner", True):
            cut["sdy.sharding_rule"] = _rows_apart([kind.shape for kind in types], batch)
        cut["mhlo.frontend_attributes"] = mlir.ir_attribute({"num_batch_dims": str(batch)})
    lowering = jax.ffi.ffi_lowering(target, extra_attributes=cut)
    return lowering(context, *vectors, **attributes)


def _rows_apart(shapes: Sequence[tuple[int, ...]], batch: int) -> Any:
    """Shardy's rule for arguments and, last, a result: first axes go together, others stay whole."""
    sizes, mappings = list(shapes[0][:batch]), []
    for shape in shapes:
        first = batch if len(shape) > batch else 0  # others are for all rows
        own = range(len(sizes), len(sizes) + len(shape) - first)
        axes = [sdy.DimMappingAttr.get(factor_indices=[factor]) for factor in (*range(first), *own)]
        mappings.append(sdy.TensorMappingAttr.get(dim_mappings=axes))
        sizes += shape[first:]
    return sdy.OpShardingRuleAttr.get(
        factor_sizes=sizes,
        operand_mappings=mappings[:-1],
        result_mappings=mappings[-1:],
        need_replication_factors=list(range(batch, len(sizes))),
        is_custom=True,
    )


_foreign_call.def_abstract_eval(_foreign_result)
batching.primitive_batchers[_foreign_call] = _foreign_batch
mlir.register_lowering(_foreign_call, _foreign_lowering, platform="cpu")


def _varying_alike(*arrays: Any) -> list[Any]:
    """The arrays; inside `jax.shard_map`, all of them vary over the axes over which one of them does."""
    own = [jax.typeof(array).mat.varying for array in arrays]
    everything = frozenset().union(*own)
    return [
        jax.lax.pcast(array, tuple(everything - axes), to="varying") if axes != everything else array
        for array, axes in zip(arrays, own, strict=True)
    ]
