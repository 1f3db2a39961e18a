"""Least squares by Householder's reflections, for small matrices of full column rank whose zeros are known.

A is (p, d), p >= d, stored column by column. With D the diagonal matrix of the lengths of its columns,

    A D^-1 = Q R,

and the pivot |R_kk| is the sine of the angle between column k and the span of the columns before it. Source:
Golub and Van Loan, Matrix Computations, sections 5.2 and 5.3.

Reflection k acts on rows k, ..., end_k - 1, if no column up to k has an entry in row end_k or below. So it
does not change a column whose entries are all in row end_k or below, and with `head_j` the first reflection
that changes column j, R has zeros above row head_j there. `staircase` finds these numbers. For a matrix of
diagonal blocks they are the bounds of the blocks, which are then factorized each for itself.

A factorization takes d (p + 3) slots: the vectors x of the reflections and R replace A; then follow the
factors 2 / |x|^2 of the reflections, the diagonal of R, and D. The same source runs for one matrix and for
several, in the lanes of A. Nothing is tested: a column of length zero makes pivots that are NaN.
"""

import numpy as np

from connections.engines.inlined.simd import (
    absolute,
    alike,
    beyond,
    copied_sign,
    root,
    routine,
    smaller,
    store,
    without_reassociation,
)


def factorization_slots(p: int, d: int) -> int:
    """Number of slots of a factorization."""
    return d * (p + 3)


def staircase(pattern: np.ndarray) -> np.ndarray:
    """The row in which each column of a matrix begins, `end` and `head` of all columns; (3 d,) integers.

    Parameters
    ----------
    pattern : (p, d) whether an entry may differ from zero.
    """
    p, d = pattern.shape
    if d == 0:
        return np.zeros(0, dtype=np.int64)
    top = np.where(pattern.any(axis=0), np.argmax(pattern, axis=0), 0)
    bottom = np.where(pattern.any(axis=0), p - np.argmax(pattern[::-1], axis=0), p)
    end = np.maximum.accumulate(np.maximum(bottom, np.minimum(np.arange(d) + 1, p)))
    head = np.minimum(np.searchsorted(end, top, side="right"), np.arange(d))
    return np.stack([top, end, head], axis=1).ravel()


@routine
def factorize(A, p, d, stairs):
    """Factorize A in place, with `stairs` from `staircase`."""
    factors, diagonal = beyond(A, d * p), beyond(A, d * p + d)
    lengths = beyond(diagonal, d)
    for j in range(d):
        x, top, end = beyond(A, j * p), stairs[3 * j], stairs[3 * j + 1]
        store(lengths, j, root(_product(x, x, top, end)))
        for r in range(top, end):
            store(x, r, x[r] / lengths[j])
    for k in range(d):
        x, end = beyond(A, k * p), stairs[3 * k + 1]
        alpha = -copied_sign(root(_product(x, x, k, end)), x[k])
        store(x, k, x[k] - alpha)
        store(diagonal, k, alpha)
        store(factors, k, 2.0 / _product(x, x, k, end))
        for j in range(k + 1, d):
            if k >= stairs[3 * j + 2]:
                _reflect(x, factors[k], beyond(A, j * p), k, end)


@routine
def solve_least(A, p, d, stairs, b, x):
    """Write to x (d,) the minimizer of |A x - b|, with A factorized; b (p,) is overwritten."""
    _solve(A, p, d, stairs, b, x, 0, p)
    for k in range(d):
        store(x, k, x[k] / column_length(A, p, d, k))


@routine
def solve_column(A, p, d, stairs, c, j, b, x):
    """Write D A^+ c to x, for a vector c with zeros where column j of A is known to have zeros.

    Returns (first, stop): entries of x before `first` and from `stop` on are zero, and are not written. b
    (p,) is for numbers on the way.
    """
    first, end = stairs[3 * j + 2], stairs[3 * j + 1]
    for r in range(first, end):
        store(b, r, c[r])
    return _solve(A, p, d, stairs, b, x, first, end)


@without_reassociation
def _solve(A, p, d, stairs, b, x, first, end):
    """Write D A^+ b to x, and return the bounds of entries that may differ from zero; others are not written.

    b is zero outside of rows first, ..., end - 1, and no reflection before `first` changes it.
    """
    factors, diagonal = beyond(A, d * p), beyond(A, d * p + d)
    stop = first
    while stop < d and stop < end:
        for r in range(end, stairs[3 * stop + 1]):
            store(b, r, 0.0)
        end = max(end, stairs[3 * stop + 1])
        _reflect(beyond(A, stop * p), factors[stop], b, stop, stairs[3 * stop + 1])
        stop += 1
    k = stop - 1
    while k >= first:
        for r in range(stairs[3 * k + 2], first):
            store(b, r, 0.0)
        first = min(first, stairs[3 * k + 2])
        y = b[k] / diagonal[k]
        for r in range(stairs[3 * k + 2], k):
            store(b, r, b[r] - A[k * p + r] * y)
        store(x, k, y)
        k -= 1
    return first, stop


@without_reassociation
def least_pivot(A, p, d):
    """The least pivot of a factorized matrix; zero if any is NaN."""
    diagonal = beyond(A, d * p + d)
    pivot = alike(1.0, diagonal[0])
    for k in range(d):
        pivot = smaller(pivot, absolute(diagonal[k]))
    return pivot


@without_reassociation
def scaled_length(A, p, d, x):
    """|D x|, with D the lengths of the columns of a factorized matrix."""
    lengths = beyond(A, d * p + 2 * d)
    first = lengths[0] * x[0]
    square = first * first
    for k in range(1, d):
        entry = lengths[k] * x[k]
        square = square + entry * entry
    return root(square)


@without_reassociation
def column_length(A, p, d, j):
    """D_j, the length that column j of a factorized A had."""
    return A[d * (p + 2) + j]


@without_reassociation
def _product(x, y, start, stop):
    """The sum of x[r] y[r], not empty."""
    total = x[start] * y[start]
    for r in range(start + 1, stop):
        total = total + x[r] * y[r]  # lanes know no +=
    return total


@without_reassociation
def _reflect(x, factor, b, start, stop):
    """Replace b by b - factor x (x . b), with entries start, ..., stop - 1 of x and b only."""
    total = factor * _product(x, b, start, stop)
    for r in range(start, stop):
        store(b, r, b[r] - x[r] * total)
