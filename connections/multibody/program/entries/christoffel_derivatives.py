"""Entries of `christoffel_derivatives`, written by tests/support/compiled_entries.py."""

from connections.engines.inlined.rows import (
    LARGEST,
    are_finite_rows,
    are_within,
    rows_are_within,
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
from connections.multibody.kernels.christoffel_derivatives import christoffel_derivatives
from connections.multibody.kernels.layout import unpack_tree
from connections.multibody.kernels.reading import read_configuration, read_configurations


@compiled_entry
def christoffel_derivatives_at(memory, q, force_cross, out):
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    if not (out.shape == (tree.nv, tree.nv, tree.nv, tree.nv) and read_configuration(tree, tree.work, q)):
        return False
    out[:] = 0.0
    christoffel_derivatives(tree, tree.work, slots, force_cross)
    return are_within(tree.work, 0, tree.nq, tree.limit[0]) or are_within(slots, 0, out.size, LARGEST)


@compiled_batch_entry
def christoffel_derivatives_rows(memory, work, blocks, q, force_cross, out):
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    result = tree.result
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        christoffel_derivatives(tree, slots, beyond(slots, result), force_cross)
        write_results(work, result, blocks, out, row)
        good &= rows_are_within(work, 0, tree.nq, tree.limit[0]) or are_finite_rows(out, row)
    return good
