"""Numbers of the caller's arrays to workspaces, with compiled checks, and workspaces to results.

Rows of arrays are read and written LANES at a time. Checks only return whether numbers are good; if not, the
caller finds out what is wrong. Every number x is tested by ``abs(x) <= LARGEST``, which is false for infinity
and for NaN.
"""

import numpy as np

from connections.engines.inlined.blocks import clear_block, transpose_block, transpose_chosen
from connections.engines.inlined.simd import (
    LANES,
    beyond,
    flat_slots_of,
    inlined,
    load,
    slots_of,
    store,
)

LARGEST = np.finfo(np.float64).max


@inlined
def clear(slots, first, count):
    """Set `count` slots, from `first` on, to zero."""
    for slot in range(first, first + count):
        store(slots, slot, 0.0)


@inlined
def accumulate(work, into, source, count):
    """Add the `count` numbers that begin at slot `source` to those that begin at slot `into`."""
    for k in range(count):
        store(work, into + k, load(work, into + k) + load(work, source + k))


@inlined
def copy_numbers(work, slot, size, x):
    """Copy the first `size` numbers of x, an array or slots, into a workspace, from `slot` on.

    Returns whether all are finite.
    """
    good = True
    for k in range(size):
        good &= abs(x[k]) <= LARGEST
        store(work, slot + k, x[k])
    return good


@inlined
def read_numbers(work, slot, size, x):
    """`copy_numbers` for an array x, which must be of shape (size,). Returns whether it is good."""
    return x.shape[0] == size and copy_numbers(work, slot, size, x)


@inlined
def read_rows(work, slot, size, x, row):
    """Copy LANES rows of x (m, size), from `row` on, the last repeated. Returns whether all are finite."""
    good = True
    for lane in range(LANES):
        r = min(row + lane, x.shape[0] - 1)
        for k in range(size):
            good &= abs(x[r, k]) <= LARGEST
            work[slot + k, lane] = x[r, k]
    return good


@inlined
def are_above(work, slot, size, least):
    """Whether `size` numbers of a workspace of one configuration, from `slot` on, are above `least`."""
    good = True
    for k in range(slot, slot + size):
        good &= load(work, k) > least
    return good


@inlined
def rows_are_above(work, slot, size, least):
    """`are_above` for all lanes of a workspace (slots, LANES)."""
    good = True
    for k in range(slot, slot + size):
        for lane in range(LANES):
            good &= work[k, lane] > least
    return good


@inlined
def are_within(slots, first, count, limit):
    """Whether `count` numbers, from slot `first` on, are at most `limit` in size; NaN is not."""
    good = True
    for k in range(first, first + count):
        good &= abs(slots[k]) <= limit
    return good


@inlined
def rows_are_within(work, first, count, limit):
    """`are_within` for all lanes of a workspace (slots, LANES)."""
    good = True
    for k in range(first, first + count):
        for lane in range(LANES):
            good &= abs(work[k, lane]) <= limit
    return good


@inlined
def are_finite_rows(out, row):
    """Whether LANES rows of out (m, k), from `row` on, or as many as there are, have finite numbers only."""
    size = out.shape[1]
    return are_within(flat_slots_of(out), row * size, min(LANES, out.shape[0] - row) * size, LARGEST)


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
