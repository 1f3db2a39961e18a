"""Input arrays to workspaces, with compiled checks, and workspaces to results; one configuration or LANES.

The checks only return whether the input is good; if it is not, `Program` finds out in Python what is wrong.
Every number x is tested by ``abs(x) <= LARGEST``, which is false for infinity and for NaN.
Quaternions are normalized on their way into the workspace; the caller's array is not changed.
"""

import math

import numpy as np

from connections.engines.inlined.simd import (
    LANES,
    beyond,
    clear_block,
    exact,
    flat_slots_of,
    inlined,
    load,
    put,
    slots_of,
    store,
    take,
    transpose_block,
    transpose_chosen,
)
from connections.geometry.scales import POINT_TOLERANCE
from connections.multibody.kernels.layout import FREE, HELICAL, SPHERICAL
from connections.multibody.tolerances import SMALLEST_PIVOT

FARTHEST_ANGLE = 1e5  # a larger angle is reduced before it is passed to `sine_cosine`
LARGEST = np.finfo(np.float64).max


@exact
def reduced_angle(angle):
    """The angle itself, or if it is large, the angle in [-pi, pi] with the same sine and cosine."""
    if abs(angle) <= FARTHEST_ANGLE:
        return angle
    return math.atan2(math.sin(angle), math.cos(angle))


@inlined
def is_unit(square):
    """Whether a quaternion q of this squared norm counts as of norm one: | |q|^2 - 1 | <= 2 tolerances."""
    return abs(square - 1.0) <= 2.0 * POINT_TOLERANCE


@inlined
def unit_factor(square):
    """1 / |q| for a squared norm close to one, by its series; the next term would be at most 3e-18."""
    off = square - 1.0
    return off * (off * 0.375 - 0.5) + 1.0


@inlined
def normalize(work, at):
    """Normalize the quaternion in the four slots that begin at `at`. Returns its squared norm before."""
    a, b, c, d = take(work, at, 4)
    square = a * a + b * b + c * c + d * d
    scale = unit_factor(square)
    put(work, at, (a * scale, b * scale, c * scale, d * scale))
    return square


@inlined
def read_configuration(tree, work, q):
    """Copy q (nq,) into a workspace of one configuration. Returns whether it is good, its size included."""
    return q.shape[0] == tree.nq and read_coordinates(tree, work, q)


@inlined
def read_coordinates(tree, work, q):
    """Copy the first nq numbers of q, an array or slots, into a workspace of one configuration.

    Returns whether all numbers are finite and all quaternions of norm one.
    """
    good = True
    for k in range(tree.nq):
        good &= abs(q[k]) <= LARGEST
        store(work, k, q[k])
    for i in range(1, tree.links + 1):
        at, kind = tree.coordinate[i], tree.kind[i]
        if kind <= HELICAL:
            store(work, tree.angles + at, reduced_angle(q[at]))
        elif kind == SPHERICAL or kind == FREE:
            at += 3 if kind == FREE else 0
            good &= is_unit(normalize(work, at))
    return good


@inlined
def read_vector(tree, work, number, v):
    """Copy v (nv,) into vector `number` of a workspace. Returns whether its size and numbers are good."""
    if v.shape[0] != tree.nv:
        return False
    good = True
    start = tree.vectors + number * tree.nv
    for k in range(tree.nv):
        good &= abs(v[k]) <= LARGEST
        store(work, start + k, v[k])
    return good


@inlined
def regular(tree, work):
    """Whether H is regular: every pivot (an elimination left them in the third vector) is well above zero."""
    good = True
    for k in range(tree.vectors + 2 * tree.nv, tree.vectors + 3 * tree.nv):
        good &= load(work, k) > SMALLEST_PIVOT
    return good


@inlined
def all_regular(tree, work):
    """`regular` for all lanes of a workspace (slots, LANES)."""
    good = True
    for k in range(tree.vectors + 2 * tree.nv, tree.vectors + 3 * tree.nv):
        for lane in range(LANES):
            good &= work[k, lane] > SMALLEST_PIVOT
    return good


@inlined
def read_configurations(tree, work, q, row):
    """Copy LANES rows of q (m, nq), from `row` on, into the workspace; the last row is repeated.

    Returns whether all numbers are finite and all quaternions of norm one.
    """
    good = True
    for lane in range(LANES):
        r = min(row + lane, q.shape[0] - 1)
        for k in range(tree.nq):
            good &= abs(q[r, k]) <= LARGEST
            work[k, lane] = q[r, k]
    for i in range(1, tree.links + 1):
        at, kind = tree.coordinate[i], tree.kind[i]
        if kind <= HELICAL:
            for lane in range(LANES):
                work[tree.angles + at, lane] = reduced_angle(work[at, lane])
        elif kind == SPHERICAL or kind == FREE:
            at += 3 if kind == FREE else 0
            for lane in range(LANES):
                square = work[at, lane] * work[at, lane] + work[at + 1, lane] * work[at + 1, lane]
                square += work[at + 2, lane] * work[at + 2, lane] + work[at + 3, lane] * work[at + 3, lane]
                good &= is_unit(square)
            normalize(slots_of(work), at)
    return good


@inlined
def read_vectors(tree, work, number, v, row):
    """Copy LANES rows of v (m, nv), from `row` on, into vector `number`; the last row is repeated.

    Returns whether all numbers are finite.
    """
    good = True
    start = tree.vectors + number * tree.nv
    for lane in range(LANES):
        r = min(row + lane, v.shape[0] - 1)
        for k in range(tree.nv):
            good &= abs(v[r, k]) <= LARGEST
            work[start + k, lane] = v[r, k]
    return good


@inlined
def write_results(work, start, blocks, out, row):
    """Copy the lanes of the result to rows of out (m, k), from `row` on.

    work : (slots, LANES), the result from slot `start` on.
    blocks : first entries of the blocks of LANES entries that are not identically zero, ascending.
    """
    size, rows, slots = out.shape[1], min(LANES, out.shape[0] - row), slots_of(work)
    b = 0
    for column in range(0, size, LANES):
        stop = min(column + LANES, size)
        filled = b < blocks.shape[0] and blocks[b] == column
        if filled:
            b += 1
        if rows == LANES and stop == column + LANES:
            if filled:
                transpose_block(slots, start + column, out, row, column)
            else:
                clear_block(out, row, column)
        else:
            for lane in range(rows):
                for k in range(column, stop):
                    out[row + lane, k] = work[start + k, lane] if filled else 0.0


@inlined
def write_slabs(work, start, nv, blocks, plain, out, row):
    """Copy the lanes of symbols Gamma_ijk to rows of out (m, nv^3), by slabs; a slab is one first index i.

    work : (slots, LANES), the symbols from slot `start` on.
    blocks : nv^2 numbers, the slot of each entry (j, k) of a slab in its own place, used if `plain`. Then
        nv^2 numbers again, but for an entry that equals its mirror image (k, j) and was not written, the
        slot of that. Then, for each slab and each of its blocks of LANES entries, whether the block is not
        identically zero. The last block of a slab ends with the slab, so it may overlap the block before.
    """
    size, rows = nv * nv, min(LANES, out.shape[0] - row)
    places, flag = (0 if plain else size), 2 * size
    for i in range(nv):
        slab = start + i * size
        slots = beyond(slots_of(work), slab)
        for block in range(0, size, LANES):
            first = max(0, min(block, size - LANES))
            if rows < LANES or size < LANES:
                for lane in range(rows):
                    for k in range(first, min(first + LANES, size)):
                        out[row + lane, i * size + k] = work[slab + blocks[places + k], lane]
            elif blocks[flag]:
                chosen = beyond(flat_slots_of(blocks), places + first)
                transpose_chosen(slots, chosen, out, row, i * size + first)
            else:
                clear_block(out, row, i * size + first)
            flag += 1
