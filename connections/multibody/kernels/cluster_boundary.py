"""Input arrays to workspaces of the recursions for closed chains, with compiled checks.

If `solved`, q is a solution of the loops (`loop_entries`). Otherwise q holds the independent coordinates
(nq,), which is allowed only if all clusters are linear. So the solver of loops is compiled once, and not into
each entry. As in `boundary`, the checks only return whether the input is good.
"""

import numpy as np

from connections.engines.inlined.simd import (
    LANES,
    beyond,
    flat_slots_of,
    inlined,
    load,
    slots_of,
    store,
)
from connections.multibody.kernels.boundary import (
    LARGEST,
    is_unit,
    read_coordinates,
    reduced_angle,
    unit_factor,
)
from connections.multibody.kernels.layout import FREE, HELICAL, SPHERICAL, is_current, unpack_clusters
from connections.multibody.kernels.loop_continuation import solve_linear
from connections.multibody.tolerances import SMALLEST_PIVOT


@inlined
def are_current(memory, closure, clusters):
    """Whether all arrays come from these sources, and `memory` has room for the workspace."""
    if not (is_current(memory) and is_current(closure) and is_current(clusters)):
        return False
    return memory.shape[0] >= unpack_clusters(slots_of(clusters)).memory_size


@inlined
def read_solution(tree, reduced, closure, solved, q):
    """Copy the solution (q or the one at q) and its q_s into the workspace. Returns whether it is good."""
    solution = beyond(tree.work, reduced.solution)
    if solved:
        good = q.shape[0] == reduced.solution_size
        if good:
            for k in range(reduced.solution_size):
                good &= abs(q[k]) <= LARGEST
                store(solution, k, q[k])
        if not good:
            return False
    elif solve_linear(flat_slots_of(closure), flat_slots_of(q), q.shape[0], solution) != 0:
        return False
    return read_coordinates(tree, tree.work, solution)


@inlined
def read_numbers(work, slot, size, x):
    """Copy x (size,) into a workspace of one configuration, from `slot` on. Returns whether x is good."""
    good = x.shape[0] == size
    if good:
        for k in range(size):
            good &= abs(x[k]) <= LARGEST
            store(work, slot + k, x[k])
    return good


@inlined
def prepare(reduced, slots):
    """Write the numbers that all solutions share to the workspace. Returns an array for one solution."""
    for k in range(reduced.constant_count):
        store(slots, reduced.solution + reduced.constant[k], reduced.constants[k])
    return np.empty(reduced.solution_size)


@inlined
def read_solutions(tree, reduced, closure, solved, work, solution, q, row):
    """Copy LANES solutions, of rows of q from `row` on, the last repeated. Returns whether they are good."""
    good, size, source = True, reduced.solution_size, slots_of(solution)
    if solved and q.shape[1] != size:
        return False
    for lane in range(LANES):
        r = row + lane
        if r < q.shape[0]:
            if solved:
                source = beyond(flat_slots_of(q), r * size)
            else:
                numbers = beyond(flat_slots_of(q), r * q.shape[1])
                good &= solve_linear(flat_slots_of(closure), numbers, q.shape[1], source) == 0
        for k in range(tree.nq):
            good &= abs(source[k]) <= LARGEST
            work[k, lane] = source[k]
        for i in range(1, tree.links + 1):
            at, kind = tree.coordinate[i], tree.kind[i]
            if kind <= HELICAL:
                work[tree.angles + at, lane] = reduced_angle(source[at])
            elif kind == SPHERICAL or kind == FREE:
                at += 3 if kind == FREE else 0
                square = source[at] * source[at] + source[at + 1] * source[at + 1]
                square += source[at + 2] * source[at + 2] + source[at + 3] * source[at + 3]
                good &= is_unit(square)
                scale = unit_factor(square)
                for k in range(at, at + 4):
                    work[k, lane] *= scale
        for k in range(reduced.varying_count):
            at = reduced.varying[k]
            good &= abs(source[at]) <= LARGEST
            work[reduced.solution + at, lane] = source[at]
    return good


@inlined
def read_rows(work, slot, size, x, row):
    """Copy LANES rows of x (m, size), from `row` on, the last one repeated. Returns whether they are good."""
    good = True
    for lane in range(LANES):
        r = min(row + lane, x.shape[0] - 1)
        for k in range(size):
            good &= abs(x[r, k]) <= LARGEST
            work[slot + k, lane] = x[r, k]
    return good


@inlined
def regular_pivots(reduced, work):
    """Whether H is regular: every pivot that a kernel left in the workspace is well above zero."""
    good = True
    for k in range(reduced.nv):
        good &= load(work, reduced.pivots + k) > SMALLEST_PIVOT
    return good


@inlined
def all_regular_pivots(reduced, work):
    """`regular_pivots` for all lanes of a workspace (slots, LANES)."""
    good = True
    for k in range(reduced.nv):
        for lane in range(LANES):
            good &= work[reduced.pivots + k, lane] > SMALLEST_PIVOT
    return good
