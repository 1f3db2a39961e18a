"""Entries of `curvature`, written by tests/support/compiled_entries.py."""

from connections.engines.inlined.rows import (
    LARGEST,
    are_above,
    are_finite_rows,
    are_within,
    rows_are_above,
    write_results,
)
from connections.engines.inlined.simd import (
    LANES,
    beyond,
    compiled_batch_entry,
    compiled_entry,
    flat_slots_of,
    slots_of,
)
from connections.multibody.kernels.curvature import curvature
from connections.multibody.kernels.layout import unpack_tree
from connections.multibody.kernels.reading import read_configuration, read_configurations
from connections.multibody.tolerances import SMALLEST_PIVOT


@compiled_entry
def curvature_at(memory, q, out):
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    if not (out.shape == (tree.nv, tree.nv, tree.nv, tree.nv) and read_configuration(tree, tree.work, q)):
        return False
    curvature(tree, tree.work, slots)
    return are_above(tree.work, tree.pivots, tree.nv, SMALLEST_PIVOT) and are_within(
        slots, 0, out.size, LARGEST
    )


@compiled_batch_entry
def curvature_rows(memory, work, blocks, q, out):
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    result = tree.result
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        curvature(tree, slots, beyond(slots, result))
        write_results(work, result, blocks, out, row)
        good &= rows_are_above(work, tree.pivots, tree.nv, SMALLEST_PIVOT) and are_finite_rows(out, row)
    return good
