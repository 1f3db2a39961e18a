"""Entries of `forward_dynamics_derivatives`, written by tests/support/compiled_entries.py."""

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
from connections.multibody.kernels.cluster_dynamics import (
    forward_dynamics_derivatives as closed_forward_dynamics_derivatives,
)
from connections.multibody.kernels.cluster_reading import has_room, prepare, read_solution, read_solutions
from connections.multibody.kernels.derivatives import forward_dynamics_derivatives
from connections.multibody.kernels.layout import unpack_clusters, unpack_tree
from connections.multibody.kernels.reading import read_configuration, read_configurations
from connections.multibody.tolerances import SMALLEST_PIVOT


@compiled_entry
def forward_dynamics_derivatives_at(memory, q, v, tau, out):
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    if not (
        out.shape == (3, tree.nv, tree.nv)
        and read_configuration(tree, tree.work, q)
        and read_numbers(tree.work, tree.vectors, tree.nv, v)
        and read_numbers(tree.work, tree.vectors + tree.nv, tree.nv, tau)
    ):
        return False
    forward_dynamics_derivatives(tree, tree.work, slots)
    return are_above(tree.work, tree.pivots, tree.nv, SMALLEST_PIVOT) and are_within(
        slots, 0, out.size, LARGEST
    )


@compiled_batch_entry
def forward_dynamics_derivatives_rows(memory, work, blocks, q, v, tau, out):
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    result = tree.result
    for row in range(0, q.shape[0], LANES):
        good &= (
            read_configurations(tree, work, q, row)
            & read_rows(work, tree.vectors, tree.nv, v, row)
            & read_rows(work, tree.vectors + tree.nv, tree.nv, tau, row)
        )
        forward_dynamics_derivatives(tree, slots, beyond(slots, result))
        write_results(work, result, blocks, out, row)
        good &= rows_are_above(work, tree.pivots, tree.nv, SMALLEST_PIVOT) and are_finite_rows(out, row)
    return good


@compiled_entry
def closed_forward_dynamics_derivatives_at(memory, closure, clusters, solved, q, v, tau, bias_rates, out):
    if not has_room(memory, clusters):
        return False
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    reduced = unpack_clusters(slots_of(clusters))
    if not (
        out.shape == (3, reduced.nv, reduced.nv)
        and read_solution(tree, reduced, closure, solved, q)
        and read_numbers(tree.work, reduced.vectors, reduced.nv, v)
        and read_numbers(tree.work, reduced.vectors + reduced.nv, reduced.nv, tau)
        and read_numbers(tree.work, reduced.bias_rates, reduced.G_size, bias_rates)
    ):
        return False
    closed_forward_dynamics_derivatives(tree, reduced, tree.work, slots)
    return are_above(tree.work, reduced.pivots, reduced.nv, SMALLEST_PIVOT) and are_within(
        slots, 0, out.size, LARGEST
    )


@compiled_batch_entry
def closed_forward_dynamics_derivatives_rows(
    memory, closure, clusters, solved, work, blocks, q, v, tau, bias_rates, out
):
    if not has_room(memory, clusters):
        return False
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    reduced = unpack_clusters(slots_of(clusters))
    solution = prepare(reduced, slots)
    result = reduced.result
    for row in range(0, q.shape[0], LANES):
        good &= (
            read_solutions(tree, reduced, closure, solved, work, solution, q, row)
            & read_rows(work, reduced.vectors, reduced.nv, v, row)
            & read_rows(work, reduced.vectors + reduced.nv, reduced.nv, tau, row)
            & read_rows(work, reduced.bias_rates, reduced.G_size, bias_rates, row)
        )
        closed_forward_dynamics_derivatives(tree, reduced, slots, beyond(slots, result))
        write_results(work, result, blocks, out, row)
        good &= rows_are_above(work, reduced.pivots, reduced.nv, SMALLEST_PIVOT) and are_finite_rows(out, row)
    return good
