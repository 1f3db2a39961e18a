"""Entries of `inverse_dynamics_second_derivatives`, written by tests/support/compiled_entries.py."""

from connections.engines.inlined.rows import (
    LARGEST,
    are_finite_rows,
    are_within,
    read_numbers,
    read_rows,
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
from connections.multibody.kernels.layout import unpack_tree
from connections.multibody.kernels.reading import read_configuration, read_configurations
from connections.multibody.kernels.second_derivatives import inverse_dynamics_second_derivatives


@compiled_entry
def inverse_dynamics_second_derivatives_at(memory, q, v, a, out):
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    if not (
        out.shape == (4, tree.nv, tree.nv, tree.nv)
        and read_configuration(tree, tree.work, q)
        and read_numbers(tree.work, tree.vectors, tree.nv, v)
        and read_numbers(tree.work, tree.vectors + tree.nv, tree.nv, a)
    ):
        return False
    out[:] = 0.0
    inverse_dynamics_second_derivatives(tree, tree.work, slots)
    return (
        are_within(tree.work, 0, tree.nq, tree.limit[0])
        and are_within(tree.work, tree.vectors, 2 * tree.nv, tree.limit[0])
        or are_within(slots, 0, out.size, LARGEST)
    )


@compiled_batch_entry
def inverse_dynamics_second_derivatives_rows(memory, work, blocks, q, v, a, out):
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    result = tree.result
    for row in range(0, q.shape[0], LANES):
        good &= (
            read_configurations(tree, work, q, row)
            & read_rows(work, tree.vectors, tree.nv, v, row)
            & read_rows(work, tree.vectors + tree.nv, tree.nv, a, row)
        )
        inverse_dynamics_second_derivatives(tree, slots, beyond(slots, result))
        write_results(work, result, blocks, out, row)
        good &= (
            rows_are_within(work, 0, tree.nq, tree.limit[0])
            and rows_are_within(work, tree.vectors, 2 * tree.nv, tree.limit[0])
            or are_finite_rows(out, row)
        )
    return good
