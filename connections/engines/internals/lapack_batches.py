"""Operations of LAPACK on processors that wait for no other thread.

jaxlib 0.10 and 0.11.0 cut a batch of matrices (`jax.numpy.linalg`, `jax.scipy.linalg`) into parts for the
threads of XLA, and the thread that executes the operation waits for them. With as many such operations at
once as there are threads, all of them wait for ever: two that do not depend on each other, in one compiled
function, on two cores. A batch is not cut if

    (number of matrices) (operations of one matrix) < 200,000,

by an estimate for each operation (`GetLapackBatchChunkSize` in jaxlib/cpu/lapack_kernels.cc). So larger
batches become a loop over smaller ones here, with the same results. Since July 2026 jaxlib cuts no batch,
because threads gain nothing.

OpenBLAS, by which SciPy and jaxlib solve triangular systems, gives those of 1,024 unknowns and more to
threads of its own, which wait for each other in loops. If other work keeps the processor busy, this takes 40
times as long. Systems of few rows are solved for fewer right-hand sides at a time.

This holds for the whole process, because users' functions and JAX's own ones (`jax.scipy.linalg.expm`) are in
our batches, and our functions in theirs. Private are the primitives that `jax.lax.linalg` does not name, the
version of jaxlib, and where `jax.interpreters.mlir` finds how an operation is lowered.

Batches that are cut over explicit axes of a mesh of several devices stay as they are, and may wait for ever.
Over other axes, a larger batch is gathered; inside `jax.shard_map` each device has a loop of its own.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.lax import linalg
from jax._src.lib import version
from jax.interpreters import mlir

WHOLE = (0, 12)  # the first jaxlib of which it is certain that it cuts no batch
_MOST = 199_999  # operations of a batch that is not cut
_COMPLEX = 3  # operations of a complex matrix, in those of a real one

#: Operation -> its cost over m n k, for m and n of the last argument that is a matrix, and the k columns of
#: the first argument. These are bounds of jaxlib's estimates.
FACTORS = {
    linalg.cholesky_p: 1,
    linalg.eig_p: 10,
    linalg.eigh_p: 5,
    linalg.geqp3_p: 2,
    linalg.geqrf_p: 2,
    linalg.hessenberg_p: 2,
    linalg.householder_product_p: 4,
    linalg.lu_p: 1,
    linalg.ormqr_p: 4,
    linalg.schur_p: 5,
    linalg.svd_p: 10,
    linalg.triangular_solve_p: 1,
    linalg.tridiagonal_p: 2,
    linalg.tridiagonal_solve_p: 5,
}
_UNKNOWNS = 1_023  # of a triangular system that OpenBLAS solves in one thread
_FEW_ROWS = 64  # with more, threads may gain something


def most_matrices(primitive: Any, arguments: Any) -> int:
    """The largest batch that is not cut; at least one, which never is.

    Parameters
    ----------
    arguments : with shape and dtype; batch axes do not count.
    """
    each = FACTORS[primitive] * math.prod(_matrix(arguments).shape[-2:]) * arguments[0].shape[-1]
    if arguments[0].dtype.kind == "c":
        each *= _COMPLEX
    most: int = _MOST // max(each, 1)
    return max(most, 1)


def most_columns(rows: int, columns: int) -> int:
    """The number of right-hand sides of a triangular system that are solved at a time."""
    if rows > _FEW_ROWS or rows * columns <= _UNKNOWNS:
        return columns
    return _UNKNOWNS // rows


# --- private -----------------------------------------------------------------------------------------------


def _matrix(arguments: Any) -> Any:
    """The last argument that is a matrix, or a batch of matrices."""
    return max(reversed(arguments), key=lambda argument: len(argument.shape))


def _are_known(arguments: Any) -> bool:
    """Whether all sizes are numbers; where `jax.export` leaves some open, they are symbols."""
    return all(isinstance(size, int) for argument in arguments for size in argument.shape)


def _is_sharded(arguments: Any) -> bool:
    """Whether an axis is cut over explicit axes of a mesh, over which no loop can go."""
    return any(axis is not None for argument in arguments for axis in argument.sharding.spec)


def _in_batches(whole: Any, context: Any, *values: Any, primitive: Any, **parameters: Any) -> Any:
    """`whole`, jaxlib's lowering of the operation, in a loop over batches that are not cut."""
    batch = _matrix(context.avals_in).shape[:-2]
    known = _are_known(context.avals_in)
    most = most_matrices(primitive, context.avals_in) if known else 1
    if not batch or (known and math.prod(batch) <= most) or _is_sharded(context.avals_in):
        return whole(context, *values, **parameters)

    def looped(*arrays: jax.Array) -> Any:
        rows = [array.reshape(-1, *array.shape[len(batch) :]) for array in arrays]
        found = _mapped(lambda row: primitive.bind(*row, **parameters), rows, most)
        return jax.tree.map(lambda array: array.reshape(*batch, *array.shape[1:]), found)

    return mlir.lower_fun(looped, primitive.multiple_results)(context, *values)


def _in_columns(whole: Any, context: Any, *values: Any, left_side: bool, **parameters: Any) -> Any:
    """`whole`, the lowering of a triangular system, in a loop over right-hand sides: columns, or rows."""
    axis = -1 if left_side else -2
    rows, columns = context.avals_in[0].shape[-1], context.avals_in[1].shape[axis]
    known = _are_known(context.avals_in) and not _is_sharded(context.avals_in)
    if not known or columns <= (most := most_columns(rows, columns)):
        return whole(context, *values, left_side=left_side, **parameters)

    def looped(a: jax.Array, b: jax.Array) -> jax.Array:
        def solved(right: jax.Array) -> Any:
            x = linalg.triangular_solve_p.bind(
                a, jnp.expand_dims(right, axis), left_side=left_side, **parameters
            )
            return jnp.squeeze(x, axis)

        return jnp.moveaxis(_mapped(solved, jnp.moveaxis(b, axis, 0), most), 0, axis)

    return mlir.lower_fun(looped, multiple_results=False)(context, *values)


def _mapped(function: Any, rows: Any, most: int) -> Any:
    """`function` of each row, of at most so many at a time. Some come twice, so that all parts are alike."""
    number = jax.tree.leaves(rows)[0].shape[0]
    if most == 1:
        return jax.lax.map(function, rows)
    parts = -(-number // most)
    size = -(-number // parts)
    again = parts * size - number
    if again:
        rows = jax.tree.map(lambda array: jnp.concatenate([array, array[:again]]), rows)
    found = jax.lax.map(function, rows, batch_size=size)
    return jax.tree.map(lambda array: array[:number], found) if again else found


def _lower(primitive: Any, lowering: Any) -> None:
    """Have the operation lowered by `lowering`, which is given the present one first."""
    present = mlir._platform_specific_lowerings["cpu"][primitive].rule
    mlir.register_lowering(primitive, partial(lowering, present), platform="cpu")


_lower(linalg.triangular_solve_p, _in_columns)
if version < WHOLE:
    for _primitive in FACTORS:
        _lower(_primitive, partial(_in_batches, primitive=_primitive))
