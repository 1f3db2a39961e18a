"""Solutions of loops to workspaces, with compiled checks; one solution or LANES.

If `solved`, q is a solution of the loops (`loop_entries`). Otherwise q holds the independent coordinates
(nq,), which is allowed only if all clusters are linear. So the solver of loops is compiled once, and not into
each entry. As in `reading`, the checks only return whether the input is good.
"""

import numpy as np

from connections.engines.inlined.rows import LARGEST, copy_numbers, read_numbers
from connections.engines.inlined.simd import LANES, beyond, flat_slots_of, inlined, slots_of, store
from connections.multibody.kernels.layout import unpack_clusters
from connections.multibody.kernels.loop_continuation import solve_linear
from connections.multibody.kernels.reading import reduce_coordinates, reduce_rows


@inlined
def has_room(memory, clusters):
    """Whether `memory` has room for the workspace."""
    return memory.shape[0] >= unpack_clusters(slots_of(clusters)).memory_size


@inlined
def read_solution(tree, reduced, closure, solved, q):
    """Copy the solution (q or the one at q) and its q_s into the workspace. Returns whether it is good."""
    solution = beyond(tree.work, reduced.solution)
    if solved:
        if not read_numbers(solution, 0, reduced.solution_size, q):
            return False
    elif solve_linear(flat_slots_of(closure), flat_slots_of(q), q.shape[0], solution) != 0:
        return False
    return copy_numbers(tree.work, 0, tree.nq, solution) and reduce_coordinates(tree, tree.work, solution)


@inlined
def prepare(reduced, slots):
    """Write the numbers that all solutions share to the workspace. Returns an array for LANES solutions."""
    for k in range(reduced.constant_count):
        store(slots, reduced.solution + reduced.constant[k], reduced.constants[k])
    return np.empty(LANES * reduced.solution_size)


@inlined
def read_solutions(tree, reduced, closure, solved, work, solution, q, row):
    """Copy LANES solutions, of rows of q from `row` on, the last repeated. Returns whether they are good."""
    good, size, numbers, first, last = True, reduced.solution_size, flat_slots_of(q), row, q.shape[0] - 1
    if not solved:
        own = flat_slots_of(solution)
        for lane in range(LANES):
            one = beyond(numbers, min(row + lane, last) * q.shape[1])
            found = solve_linear(flat_slots_of(closure), one, q.shape[1], beyond(own, lane * size))
            good &= found == 0
        numbers, first, last = own, 0, LANES - 1
    elif q.shape[1] != size:
        return False
    for k in range(tree.nq):
        good &= _copy_number(beyond(numbers, k), size, first, last, work, k)
    for k in range(reduced.varying_count):
        at = reduced.varying[k]
        good &= _copy_number(beyond(numbers, at), size, first, last, work, reduced.solution + at)
    return good & reduce_rows(tree, work)


@inlined
def _copy_number(numbers, size, first, last, work, slot):
    """Copy one number of LANES solutions, which begin `size` numbers apart. Returns whether all are good."""
    good = True
    for lane in range(LANES):
        number = numbers[min(first + lane, last) * size]
        good &= abs(number) <= LARGEST
        work[slot, lane] = number
    return good
