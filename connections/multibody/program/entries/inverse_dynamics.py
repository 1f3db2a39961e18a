"""Entries of `inverse_dynamics`, written by tests/support/compiled_entries.py."""

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
from connections.multibody.kernels.cluster_dynamics import inverse_dynamics as closed_inverse_dynamics
from connections.multibody.kernels.cluster_reading import has_room, prepare, read_solution, read_solutions
from connections.multibody.kernels.layout import unpack_clusters, unpack_tree
from connections.multibody.kernels.newton_euler import inverse_dynamics
from connections.multibody.kernels.reading import read_configuration, read_configurations


@compiled_entry
def inverse_dynamics_at(memory, q, v, a, out):
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    if not (
        out.shape == (tree.nv,)
        and read_configuration(tree, tree.work, q)
        and read_numbers(tree.work, tree.vectors, tree.nv, v)
        and read_numbers(tree.work, tree.vectors + tree.nv, tree.nv, a)
    ):
        return False
    inverse_dynamics(tree, tree.work, slots)
    return (
        are_within(tree.work, 0, tree.nq, tree.limit[0])
        and are_within(tree.work, tree.vectors, 2 * tree.nv, tree.limit[0])
        or are_within(slots, 0, out.size, LARGEST)
    )


@compiled_batch_entry
def inverse_dynamics_rows(memory, work, blocks, q, v, a, out):
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    result = tree.result
    for row in range(0, q.shape[0], LANES):
        good &= (
            read_configurations(tree, work, q, row)
            & read_rows(work, tree.vectors, tree.nv, v, row)
            & read_rows(work, tree.vectors + tree.nv, tree.nv, a, row)
        )
        inverse_dynamics(tree, slots, beyond(slots, result))
        write_results(work, result, blocks, out, row)
        good &= (
            rows_are_within(work, 0, tree.nq, tree.limit[0])
            and rows_are_within(work, tree.vectors, 2 * tree.nv, tree.limit[0])
            or are_finite_rows(out, row)
        )
    return good


@compiled_entry
def closed_inverse_dynamics_at(memory, closure, clusters, solved, q, v, a, out):
    if not has_room(memory, clusters):
        return False
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    reduced = unpack_clusters(slots_of(clusters))
    if not (
        out.shape == (reduced.nv,)
        and read_solution(tree, reduced, closure, solved, q)
        and read_numbers(tree.work, reduced.vectors, reduced.nv, v)
        and read_numbers(tree.work, reduced.vectors + reduced.nv, reduced.nv, a)
    ):
        return False
    closed_inverse_dynamics(tree, reduced, tree.work, slots)
    return (
        are_within(tree.work, 0, tree.nq, tree.limit[0])
        and are_within(tree.work, reduced.vectors, 2 * reduced.nv, tree.limit[0])
        and are_within(tree.work, reduced.solution, reduced.solution_size, tree.limit[0])
        or are_within(slots, 0, out.size, LARGEST)
    )


@compiled_batch_entry
def closed_inverse_dynamics_rows(memory, closure, clusters, solved, work, blocks, q, v, a, out):
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
            & read_rows(work, reduced.vectors + reduced.nv, reduced.nv, a, row)
        )
        closed_inverse_dynamics(tree, reduced, slots, beyond(slots, result))
        write_results(work, result, blocks, out, row)
        good &= (
            rows_are_within(work, 0, tree.nq, tree.limit[0])
            and rows_are_within(work, reduced.vectors, 2 * reduced.nv, tree.limit[0])
            and rows_are_within(work, reduced.solution, reduced.solution_size, tree.limit[0])
            or are_finite_rows(out, row)
        )
    return good
