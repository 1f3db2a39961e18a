"""The compiled recursions over clusters: for one configuration, and for rows of configurations.

``closed_*_at(memory, closure, clusters, solved, q, v, out)`` takes one configuration; ``closed_*_rows(memory,
closure, clusters, solved, work, blocks, q, v, out)`` takes (m, ...) arrays, LANES rows at a time, and
releases the interpreter's lock. `memory` is the spanning tree's, from `cluster_layout.closed_memory`.
`solved` says what q is: a solution (`closure_entries`), or independent coordinates (nq,), which is legal
where there are no loops but linear couplings: the solver of loops is compiled once, not into each entry.
Each returns a status: 0, or BAD_INPUT, or SINGULAR where the mass matrix cannot be inverted; of several rows,
the first that is not 0.
"""

import numpy as np
from numba import njit

from connections.multibody.recursions import cluster_christoffel
from connections.multibody.recursions import clusters as kernels
from connections.multibody.recursions.boundary import (
    LARGEST,
    is_unit,
    read_coordinates,
    reduced_angle,
    unit_factor,
    write_results,
)
from connections.multibody.recursions.closure import solve_linear
from connections.multibody.recursions.cluster_layout import BAD_INPUT, unpack_clusters
from connections.multibody.recursions.lanes import (
    FASTMATH,
    LANES,
    beyond,
    flat_slots_of,
    inlined,
    load,
    slots_of,
    store,
)
from connections.multibody.recursions.layout import FREE, HELICAL, SPHERICAL, is_current, unpack
from connections.multibody.regularity import SMALLEST_PIVOT

one = njit(cache=True, fastmath=FASTMATH, error_model="numpy")
rows = njit(cache=True, nogil=True, fastmath=FASTMATH, error_model="numpy")
SINGULAR = BAD_INPUT + 1


@one
def closed_mass_matrix_at(memory, closure, clusters, solved, q, out):
    if not _fits(memory, closure, clusters):
        return BAD_INPUT
    tree, slots = unpack(memory), flat_slots_of(out)
    reduced = unpack_clusters(clusters, tree)
    status = _read(tree, reduced, closure, solved, q)
    if status != 0 or out.shape != (reduced.nv, reduced.nv):
        return status if status != 0 else BAD_INPUT
    out[:] = 0.0
    kernels.mass_matrix(tree, reduced, tree.work, slots)
    return 0


@rows
def closed_mass_matrix_rows(memory, closure, clusters, solved, work, blocks, q, out):
    if not _fits(memory, closure, clusters):
        return BAD_INPUT
    tree, slots, status = unpack(memory), slots_of(work), 0
    reduced = unpack_clusters(clusters, tree)
    solution = _prepare(reduced, slots)
    for row in range(0, q.shape[0], LANES):
        status = _first(status, _read_rows(tree, reduced, closure, solved, work, solution, q, row))
        kernels.mass_matrix(tree, reduced, slots, beyond(slots, reduced.result))
        write_results(work, reduced.result, blocks, out, row)
    return status


@one
def closed_coriolis_matrix_at(memory, closure, clusters, solved, q, v, out):
    if not _fits(memory, closure, clusters):
        return BAD_INPUT
    tree, slots = unpack(memory), flat_slots_of(out)
    reduced = unpack_clusters(clusters, tree)
    status = _first(_read(tree, reduced, closure, solved, q), _read_velocity(tree, reduced, v))
    if status != 0 or out.shape != (reduced.nv, reduced.nv):
        return status if status != 0 else BAD_INPUT
    out[:] = 0.0
    kernels.coriolis_matrix(tree, reduced, tree.work, slots)
    return 0


@rows
def closed_coriolis_matrix_rows(memory, closure, clusters, solved, work, blocks, q, v, out):
    if not _fits(memory, closure, clusters):
        return BAD_INPUT
    tree, slots, status = unpack(memory), slots_of(work), 0
    reduced = unpack_clusters(clusters, tree)
    solution = _prepare(reduced, slots)
    for row in range(0, q.shape[0], LANES):
        status = _first(status, _read_rows(tree, reduced, closure, solved, work, solution, q, row))
        status = _first(status, _read_velocities(reduced, work, v, row))
        kernels.coriolis_matrix(tree, reduced, slots, beyond(slots, reduced.result))
        write_results(work, reduced.result, blocks, out, row)
    return status


@one
def closed_mass_matrix_rate_at(memory, closure, clusters, solved, q, v, out):
    if not _fits(memory, closure, clusters):
        return BAD_INPUT
    tree, slots = unpack(memory), flat_slots_of(out)
    reduced = unpack_clusters(clusters, tree)
    status = _first(_read(tree, reduced, closure, solved, q), _read_velocity(tree, reduced, v))
    if status != 0 or out.shape != (reduced.nv, reduced.nv):
        return status if status != 0 else BAD_INPUT
    out[:] = 0.0
    kernels.mass_matrix_rate(tree, reduced, tree.work, slots)
    return 0


@rows
def closed_mass_matrix_rate_rows(memory, closure, clusters, solved, work, blocks, q, v, out):
    if not _fits(memory, closure, clusters):
        return BAD_INPUT
    tree, slots, status = unpack(memory), slots_of(work), 0
    reduced = unpack_clusters(clusters, tree)
    solution = _prepare(reduced, slots)
    for row in range(0, q.shape[0], LANES):
        status = _first(status, _read_rows(tree, reduced, closure, solved, work, solution, q, row))
        status = _first(status, _read_velocities(reduced, work, v, row))
        kernels.mass_matrix_rate(tree, reduced, slots, beyond(slots, reduced.result))
        write_results(work, reduced.result, blocks, out, row)
    return status


@one
def closed_christoffel_symbols_at(memory, closure, clusters, solved, q, out):
    if not _fits(memory, closure, clusters):
        return BAD_INPUT
    tree, slots = unpack(memory), flat_slots_of(out)
    reduced = unpack_clusters(clusters, tree)
    status = _read(tree, reduced, closure, solved, q)
    if status != 0 or out.shape != (reduced.nv, reduced.nv, reduced.nv):
        return status if status != 0 else BAD_INPUT
    out[:] = 0.0
    cluster_christoffel.christoffel_symbols(tree, reduced, tree.work, slots)
    return 0


@rows
def closed_christoffel_symbols_rows(memory, closure, clusters, solved, work, blocks, q, out):
    if not _fits(memory, closure, clusters):
        return BAD_INPUT
    tree, slots, status = unpack(memory), slots_of(work), 0
    reduced = unpack_clusters(clusters, tree)
    solution = _prepare(reduced, slots)
    for row in range(0, q.shape[0], LANES):
        status = _first(status, _read_rows(tree, reduced, closure, solved, work, solution, q, row))
        cluster_christoffel.christoffel_symbols(tree, reduced, slots, beyond(slots, reduced.result))
        write_results(work, reduced.result, blocks, out, row)
    return status


@one
def closed_inverse_mass_matrix_at(memory, closure, clusters, solved, q, out):
    if not _fits(memory, closure, clusters):
        return BAD_INPUT
    tree, slots, good = unpack(memory), flat_slots_of(out), True
    reduced = unpack_clusters(clusters, tree)
    status = _read(tree, reduced, closure, solved, q)
    if status != 0 or out.shape != (reduced.nv, reduced.nv):
        return status if status != 0 else BAD_INPUT
    kernels.inverse_mass_matrix(tree, reduced, tree.work, slots)
    for k in range(reduced.nv):
        good &= load(tree.work, reduced.pivots + k) > SMALLEST_PIVOT
    return 0 if good else SINGULAR


@rows
def closed_inverse_mass_matrix_rows(memory, closure, clusters, solved, work, blocks, q, out):
    if not _fits(memory, closure, clusters):
        return BAD_INPUT
    tree, slots, status, good = unpack(memory), slots_of(work), 0, True
    reduced = unpack_clusters(clusters, tree)
    solution = _prepare(reduced, slots)
    for row in range(0, q.shape[0], LANES):
        status = _first(status, _read_rows(tree, reduced, closure, solved, work, solution, q, row))
        kernels.inverse_mass_matrix(tree, reduced, slots, beyond(slots, reduced.result))
        for k in range(reduced.nv):
            for lane in range(LANES):
                good &= work[reduced.pivots + k, lane] > SMALLEST_PIVOT
        write_results(work, reduced.result, blocks, out, row)
    return _first(status, 0 if good else SINGULAR)


@one
def closed_solve_at(memory, closure, clusters, solved, q, tau, f, out):
    if not _fits(memory, closure, clusters):
        return BAD_INPUT
    tree, slots, good = unpack(memory), flat_slots_of(out), True
    reduced = unpack_clusters(clusters, tree)
    status = _first(_read(tree, reduced, closure, solved, q), _read_velocity(tree, reduced, tau))
    if status != 0 or out.shape[0] != reduced.nv:
        return status if status != 0 else BAD_INPUT
    for k in range(reduced.nv):
        store(tree.work, reduced.vector + k, load(tree.work, reduced.vector + k) - f[k])
    kernels.solve_mass_matrix(tree, reduced, tree.work)
    for k in range(reduced.nv):
        good &= load(tree.work, reduced.pivots + k) > SMALLEST_PIVOT
        store(slots, k, load(tree.work, reduced.vector + k))
    return 0 if good else SINGULAR


@rows
def closed_solve_rows(memory, closure, clusters, solved, work, blocks, q, tau, f, out):
    if not _fits(memory, closure, clusters):
        return BAD_INPUT
    tree, slots, status, good = unpack(memory), slots_of(work), 0, True
    reduced = unpack_clusters(clusters, tree)
    solution = _prepare(reduced, slots)
    for row in range(0, q.shape[0], LANES):
        status = _first(status, _read_rows(tree, reduced, closure, solved, work, solution, q, row))
        status = _first(status, _read_velocities(reduced, work, tau, row))
        for lane in range(LANES):
            r = min(row + lane, f.shape[0] - 1)
            for k in range(reduced.nv):
                work[reduced.vector + k, lane] -= f[r, k]
        kernels.solve_mass_matrix(tree, reduced, slots)
        for k in range(reduced.nv):
            for lane in range(LANES):
                good &= work[reduced.pivots + k, lane] > SMALLEST_PIVOT
        write_results(work, reduced.vector, blocks, out, row)
    return _first(status, 0 if good else SINGULAR)


@inlined
def _fits(memory, closure, clusters):
    """Whether all arrays come from these sources and there is room for the workspace."""
    if not (is_current(memory) and is_current(closure) and is_current(clusters)):
        return False
    return memory.shape[0] >= unpack_clusters(clusters, unpack(memory)).memory_size


@inlined
def _first(status, other):
    return status if status != 0 else other


@inlined
def _read(tree, reduced, closure, solved, q):
    """The solution, q itself or that at q, and what the tree needs of it, into the workspace; the status."""
    solution = beyond(tree.work, reduced.solution)
    if solved:
        good = q.shape[0] == reduced.solution_size
        if good:
            for k in range(reduced.solution_size):
                good &= abs(q[k]) <= LARGEST
                store(solution, k, q[k])
        if not good:
            return BAD_INPUT
    elif solve_linear(flat_slots_of(closure), flat_slots_of(q), q.shape[0], solution) != 0:
        return BAD_INPUT
    return 0 if read_coordinates(tree, tree.work, solution) else BAD_INPUT


@inlined
def _read_velocity(tree, reduced, v):
    """v (nv,) into the workspace of one configuration; the status."""
    good = v.shape[0] == reduced.nv
    if good:
        for k in range(reduced.nv):
            good &= abs(v[k]) <= LARGEST
            store(tree.work, reduced.vector + k, v[k])
    return 0 if good else BAD_INPUT


@inlined
def _prepare(reduced, slots):
    """Put what is the same in all solutions into the workspace; an array for one solution."""
    for k in range(reduced.constant_count):
        store(slots, reduced.solution + reduced.constant[k], reduced.constants[k])
    return np.empty(reduced.solution_size)


@inlined
def _read_rows(tree, reduced, closure, solved, work, solution, q, row):
    """LANES solutions, of rows of q from `row` on, the last one repeated; the first status that is not 0."""
    status, size, source = 0, reduced.solution_size, slots_of(solution)
    if solved and q.shape[1] != size:
        return BAD_INPUT
    for lane in range(LANES):
        r = row + lane
        if r < q.shape[0]:
            if solved:
                source = beyond(flat_slots_of(q), r * size)
            else:
                numbers = beyond(flat_slots_of(q), r * q.shape[1])
                solved = solve_linear(flat_slots_of(closure), numbers, q.shape[1], source)
                status = _first(status, 0 if solved == 0 else BAD_INPUT)
        good = True
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
        status = _first(status, 0 if good else BAD_INPUT)
    return status


@inlined
def _read_velocities(reduced, work, v, row):
    """LANES rows of v (m, nv) from `row` on, the last one repeated; the status."""
    good = True
    for lane in range(LANES):
        r = min(row + lane, v.shape[0] - 1)
        for k in range(reduced.nv):
            good &= abs(v[r, k]) <= LARGEST
            work[reduced.vector + k, lane] = v[r, k]
    return 0 if good else BAD_INPUT
