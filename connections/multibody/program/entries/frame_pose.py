"""Entries of `frame_pose`, written by tests/support/compiled_entries.py."""

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
from connections.multibody.kernels.cluster_kinematics import frame_pose as closed_frame_pose
from connections.multibody.kernels.cluster_reading import has_room, prepare, read_solution, read_solutions
from connections.multibody.kernels.kinematics import frame_pose
from connections.multibody.kernels.layout import unpack_clusters, unpack_tree
from connections.multibody.kernels.reading import read_configuration, read_configurations


@compiled_entry
def frame_pose_at(memory, q, frame, out):
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    if not (out.shape == (4, 4) and read_configuration(tree, tree.work, q)):
        return False
    frame_pose(tree, tree.work, slots, flat_slots_of(frame))
    return are_within(tree.work, 0, tree.nq, tree.limit[0]) or are_within(slots, 0, out.size, LARGEST)


@compiled_batch_entry
def frame_pose_rows(memory, work, blocks, q, frame, out):
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    result = tree.result
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        frame_pose(tree, slots, beyond(slots, result), flat_slots_of(frame))
        write_results(work, result, blocks, out, row)
        good &= rows_are_within(work, 0, tree.nq, tree.limit[0]) or are_finite_rows(out, row)
    return good


@compiled_entry
def closed_frame_pose_at(memory, closure, clusters, solved, q, frame, out):
    if not has_room(memory, clusters):
        return False
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    reduced = unpack_clusters(slots_of(clusters))
    if not (out.shape == (4, 4) and read_solution(tree, reduced, closure, solved, q)):
        return False
    closed_frame_pose(tree, reduced, tree.work, slots, flat_slots_of(frame))
    return (
        are_within(tree.work, 0, tree.nq, tree.limit[0])
        and are_within(tree.work, reduced.solution, reduced.solution_size, tree.limit[0])
        or are_within(slots, 0, out.size, LARGEST)
    )


@compiled_batch_entry
def closed_frame_pose_rows(memory, closure, clusters, solved, work, blocks, q, frame, out):
    if not has_room(memory, clusters):
        return False
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    reduced = unpack_clusters(slots_of(clusters))
    solution = prepare(reduced, slots)
    result = reduced.result
    for row in range(0, q.shape[0], LANES):
        good &= read_solutions(tree, reduced, closure, solved, work, solution, q, row)
        closed_frame_pose(tree, reduced, slots, beyond(slots, result), flat_slots_of(frame))
        write_results(work, result, blocks, out, row)
        good &= (
            rows_are_within(work, 0, tree.nq, tree.limit[0])
            and rows_are_within(work, reduced.solution, reduced.solution_size, tree.limit[0])
            or are_finite_rows(out, row)
        )
    return good
