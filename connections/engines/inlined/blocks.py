"""Blocks of LANES rows and LANES columns of an array, filled from slots that are vectors, or with zeros.

A slot holds one quantity of LANES configurations; in the caller's array, these are LANES rows. So a block is
the transpose of LANES slots.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from connections.engines.inlined.simd import INDEX, LANES, VECTOR


@intrinsic
def transpose_block(typing_context: Any, slots: Any, slot: Any, out: Any, row: Any, column: Any) -> Any:
    """Write lane l of slots slot, ..., slot + LANES - 1 to out[row + l, column : column + LANES], for all l.

    out : (m, k) C-contiguous array.
    """

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        first = builder.gep(args[0], [args[1]])
        pointers = [builder.gep(first, [context.get_constant(types.intp, k)]) for k in range(LANES)]
        return _transpose(context, builder, pointers, sig.args[2], args[2:])

    return types.void(slots, types.intp, out, types.intp, types.intp), emit


@intrinsic
def transpose_chosen(typing_context: Any, slots: Any, chosen: Any, out: Any, row: Any, column: Any) -> Any:
    """`transpose_block` for the slots with the numbers chosen[0], ..., chosen[LANES - 1]."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        indices = [builder.gep(args[1], [context.get_constant(types.intp, k)]) for k in range(LANES)]
        pointers = [builder.gep(args[0], [builder.load(index)]) for index in indices]
        return _transpose(context, builder, pointers, sig.args[2], args[2:])

    return types.void(slots, chosen, out, types.intp, types.intp), emit


def _transpose(context: Any, builder: Any, pointers: list[Any], array_type: Any, place: Any) -> Any:
    vectors = [builder.load(pointer, align=8) for pointer in pointers]
    targets = _block_rows(context, builder, array_type, *place)
    for target, vector in zip(targets, _transposed(builder, vectors), strict=True):
        builder.store(vector, target, align=8)
    return context.get_dummy_value()


@intrinsic
def clear_block(typing_context: Any, out: Any, row: Any, column: Any) -> Any:
    """Set out[row : row + LANES, column : column + LANES] to zero."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        for target in _block_rows(context, builder, sig.args[0], *args):
            builder.store(ir.Constant(VECTOR, [0.0] * LANES), target, align=8)
        return context.get_dummy_value()

    return types.void(out, types.intp, types.intp), emit


def _block_rows(context: Any, builder: Any, array_type: Any, out: Any, row: Any, column: Any) -> list[Any]:
    """Pointers to the rows of the (LANES, LANES) block of `out` that begins at (row, column)."""
    array = context.make_array(array_type)(context, builder, out)
    width, pointers = builder.extract_value(array.shape, 1), []
    for lane in range(LANES):
        line = builder.mul(builder.add(row, context.get_constant(types.intp, lane)), width)
        pointer = builder.gep(array.data, [builder.add(line, column)])
        pointers.append(builder.bitcast(pointer, VECTOR.as_pointer()))
    return pointers


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """The columns of the matrix whose rows are LANES vectors, by shuffles of one instruction each.

    From each pair of rows, the entries of even columns are interleaved, and those of odd columns. This gives
    pairs of entries of one column, which are then transposed as units, half a vector at a time first.
    """

    def shuffled(vectors: list[Any], *masks: list[int]) -> list[list[Any]]:
        constants = [ir.Constant(ir.VectorType(INDEX, LANES), mask) for mask in masks]
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
        return [[builder.shuffle_vector(*pair, mask) for pair in pairs] for mask in constants]

    def mask(width: int, second: bool) -> list[int]:
        """Every other group of `width` entries, even or odd (`second`), of one vector, then of the other."""
        return [k for k in range(2 * LANES) if (k // width) % 2 == second]

    interleaved = [
        [k + LANES * other + odd for k in range(0, LANES, 2) for other in (0, 1)] for odd in (0, 1)
    ]
    columns: list[Any] = [None] * LANES
    for odd, vectors in enumerate(shuffled(rows, *interleaved)):
        groups = {0: vectors}
        width = LANES // 2
        while width > 1:
            groups = {
                first + width * second: half
                for first, group in groups.items()
                for second, half in enumerate(shuffled(group, mask(width, False), mask(width, True)))
            }
            width //= 2
        for first, group in groups.items():
            columns[first + odd] = group[0]
    return columns
