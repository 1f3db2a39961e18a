"""Entries of `christoffel_symbols`, written by tests/support/compiled_entries.py."""

from connections.engines.inlined.rows import (
    LARGEST,
    are_finite_rows,
    are_within,
    rows_are_within,
    write_results,
    write_slabs,
)
from connections.engines.inlined.simd import (
    LANES,
    beyond,
    compiled_batch_entry,
    compiled_entry,
    flat_slots_of,
    slots_of,
)
from connections.multibody.kernels.christoffel import christoffel_symbols
from connections.multibody.kernels.cluster_christoffel import (
    christoffel_symbols as closed_christoffel_symbols,
)
from connections.multibody.kernels.cluster_reading import has_room, prepare, read_solution, read_solutions
from connections.multibody.kernels.layout import unpack_clusters, unpack_tree
from connections.multibody.kernels.reading import read_configuration, read_configurations


@compiled_entry
def christoffel_symbols_at(memory, q, force_cross, out):
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    if not (out.shape == (tree.nv, tree.nv, tree.nv) and read_configuration(tree, tree.work, q)):
        return False
    out[:] = 0.0
    christoffel_symbols(tree, tree.work, slots, force_cross, True)
    return are_within(tree.work, 0, tree.nq, tree.limit[0]) or are_within(slots, 0, out.size, LARGEST)


@compiled_batch_entry
def christoffel_symbols_rows(memory, work, blocks, q, force_cross, out):
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    result = tree.result
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        christoffel_symbols(tree, slots, beyond(slots, result), force_cross, force_cross)
        write_slabs(work, result, tree.nv, blocks, force_cross, out, row)
        good &= rows_are_within(work, 0, tree.nq, tree.limit[0]) or are_finite_rows(out, row)
    return good


@compiled_entry
def closed_christoffel_symbols_at(memory, closure, clusters, solved, q, force_cross, out):
    if not has_room(memory, clusters):
        return False
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    reduced = unpack_clusters(slots_of(clusters))
    if not (
        out.shape == (reduced.nv, reduced.nv, reduced.nv) and read_solution(tree, reduced, closure, solved, q)
    ):
        return False
    out[:] = 0.0
    closed_christoffel_symbols(tree, reduced, tree.work, slots, force_cross)
    return (
        are_within(tree.work, 0, tree.nq, tree.limit[0])
        and are_within(tree.work, reduced.solution, reduced.solution_size, tree.limit[0])
        or are_within(slots, 0, out.size, LARGEST)
    )


@compiled_batch_entry
def closed_christoffel_symbols_rows(memory, closure, clusters, solved, work, blocks, q, force_cross, out):
    if not has_room(memory, clusters):
        return False
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    reduced = unpack_clusters(slots_of(clusters))
    solution = prepare(reduced, slots)
    result = reduced.result
    for row in range(0, q.shape[0], LANES):
        good &= read_solutions(tree, reduced, closure, solved, work, solution, q, row)
        closed_christoffel_symbols(tree, reduced, slots, beyond(slots, result), force_cross)
        write_results(work, result, blocks, out, row)
        good &= (
            rows_are_within(work, 0, tree.nq, tree.limit[0])
            and rows_are_within(work, reduced.solution, reduced.solution_size, tree.limit[0])
            or are_finite_rows(out, row)
        )
    return good
