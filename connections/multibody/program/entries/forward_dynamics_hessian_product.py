"""Entries of `forward_dynamics_hessian_product`, written by tests/support/compiled_entries.py."""

from connections.engines.inlined.rows import (
    LARGEST,
    are_above,
    are_finite_rows,
    are_within,
    read_numbers,
    read_rows,
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
from connections.multibody.kernels.hessian_products import forward_dynamics_hessian_product
from connections.multibody.kernels.layout import unpack_tree
from connections.multibody.kernels.reading import read_configuration, read_configurations
from connections.multibody.tolerances import SMALLEST_PIVOT


@compiled_entry
def forward_dynamics_hessian_product_at(memory, q, v, tau, w, out):
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    if not (
        out.shape == (4, tree.nv, tree.nv)
        and read_configuration(tree, tree.work, q)
        and read_numbers(tree.work, tree.vectors, tree.nv, v)
        and read_numbers(tree.work, tree.vectors + tree.nv, tree.nv, tau)
        and read_numbers(tree.work, tree.vectors + 2 * tree.nv, tree.nv, w)
    ):
        return False
    forward_dynamics_hessian_product(tree, tree.work, slots)
    return are_above(tree.work, tree.pivots, tree.nv, SMALLEST_PIVOT) and are_within(
        slots, 0, out.size, LARGEST
    )


@compiled_batch_entry
def forward_dynamics_hessian_product_rows(memory, work, blocks, q, v, tau, w, out):
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    result = tree.result
    for row in range(0, q.shape[0], LANES):
        good &= (
            read_configurations(tree, work, q, row)
            & read_rows(work, tree.vectors, tree.nv, v, row)
            & read_rows(work, tree.vectors + tree.nv, tree.nv, tau, row)
            & read_rows(work, tree.vectors + 2 * tree.nv, tree.nv, w, row)
        )
        forward_dynamics_hessian_product(tree, slots, beyond(slots, result))
        write_results(work, result, blocks, out, row)
        good &= rows_are_above(work, tree.pivots, tree.nv, SMALLEST_PIVOT) and are_finite_rows(out, row)
    return good
