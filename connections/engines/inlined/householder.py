"""Least squares by Householder's reflections with column pivoting, for small matrices of full column rank.

A is (p, d), stored column by column; if p < d it has not full rank. With D the diagonal matrix of the lengths
of its columns and P the permutation in which they are taken,

    A D^-1 P = Q R,    |R_00| >= |R_11| >= ...

The pivots |R_kk| show how far A is from losing rank, whatever the units of the columns. Source: Golub and
Van Loan, Matrix Computations, sections 5.2 and 5.4.

A factorization takes d (p + 4) slots: the vectors x of the reflections and R replace A; then follow the
factors 2 / |x|^2 of the reflections, the diagonal of R, D, and P as integers.
"""

import math

from connections.engines.inlined.simd import as_integers, beyond, copied_sign, exact, root, routine, store


def factorization_slots(p: int, d: int) -> int:
    """Number of slots of a factorization."""
    return d * (p + 4)


@exact
def factorize(A, p, d, least):
    """Factorize A in place. Returns the last pivot, zero if a column is zero or d > p.

    It stops at a pivot below `least`; the factorization is then of no use.
    """
    factors, diagonal = beyond(A, d * p), beyond(A, d * p + d)
    lengths, order = beyond(diagonal, d), as_integers(beyond(diagonal, 2 * d))
    for j in range(d):
        length = math.sqrt(_square(beyond(A, j * p), 0, p))
        store(lengths, j, length)
        store(order, j, j)
        if not length > 0.0:
            return 0.0
        for r in range(p):
            store(A, j * p + r, A[j * p + r] / length)
    pivot = 1.0
    for k in range(d):
        largest, chosen = -1.0, k
        for j in range(k, d):
            square = _square(beyond(A, j * p), k, p)
            if square > largest:
                largest, chosen = square, j
        pivot = math.sqrt(max(largest, 0.0))
        if k >= p or not pivot >= least:
            return 0.0 if k >= p else pivot
        if chosen != k:
            _exchange(A, order, p, k, chosen)
        x = beyond(A, k * p)
        alpha = -pivot if x[k] > 0.0 else pivot
        store(x, k, x[k] - alpha)
        store(diagonal, k, alpha)
        store(factors, k, 2.0 / _square(x, k, p))
        for j in range(k + 1, d):
            _reflect(x, factors[k], beyond(A, j * p), k, p)
    return pivot


@routine
def solve_least(A, p, d, b, x):
    """Write to x (d,) the minimizer of |A x - b|, with A factorized; b (p,) is overwritten. Returns |D x|."""
    factors, diagonal = beyond(A, d * p), beyond(A, d * p + d)
    lengths, order = beyond(diagonal, d), as_integers(beyond(diagonal, 2 * d))
    for k in range(d):
        _reflect(beyond(A, k * p), factors[k], b, k, p)
    square = 0.0
    for k in range(d - 1, -1, -1):
        y = b[k] / diagonal[k]
        for j in range(k):
            store(b, j, b[j] - A[k * p + j] * y)
        square += y * y
        store(x, order[k], y / lengths[order[k]])
    return math.sqrt(square)


@routine
def factorize_lanes(A, p, d):
    """`factorize` for several matrices, in the lanes of A, without an exchange of columns; p >= d.

    Each |R_kk| is the sine of the angle between a column and the span of those before it. Nothing is tested.
    """
    factors, diagonal = beyond(A, d * p), beyond(A, d * p + d)
    lengths = beyond(diagonal, d)
    for j in range(d):
        x = beyond(A, j * p)
        store(lengths, j, root(_product(x, x, 0, p)))
        for r in range(p):
            store(x, r, x[r] / lengths[j])
    for k in range(d):
        x = beyond(A, k * p)
        alpha = -copied_sign(root(_product(x, x, k, p)), x[k])
        store(x, k, x[k] - alpha)
        store(diagonal, k, alpha)
        store(factors, k, 2.0 / _product(x, x, k, p))
        for j in range(k + 1, d):
            _reflect(x, factors[k], beyond(A, j * p), k, p)


@routine
def solve_least_lanes(A, p, d, b, x):
    """`solve_least` after `factorize_lanes`."""
    factors, diagonal = beyond(A, d * p), beyond(A, d * p + d)
    lengths = beyond(diagonal, d)
    for k in range(d):
        _reflect(beyond(A, k * p), factors[k], b, k, p)
    for k in range(d - 1, -1, -1):
        y = b[k] / diagonal[k]
        for j in range(k):
            store(b, j, b[j] - A[k * p + j] * y)
        store(x, k, y / lengths[k])


@exact
def column_length(A, p, d, j):
    """D_j, the length that column j of a factorized A had."""
    return A[d * (p + 2) + j]


@exact
def _square(x, start, stop):
    total = 0.0
    for r in range(start, stop):
        total += x[r] * x[r]
    return total


@exact
def _product(x, y, start, stop):
    """The sum of x[r] y[r], not empty."""
    total = x[start] * y[start]
    for r in range(start + 1, stop):
        total = total + x[r] * y[r]  # lanes know no +=
    return total


@exact
def _reflect(x, factor, b, start, stop):
    """Replace b by b - factor x (x . b), with entries start, ..., stop - 1 of x and b only."""
    total = factor * _product(x, b, start, stop)
    for r in range(start, stop):
        store(b, r, b[r] - x[r] * total)


@exact
def _exchange(A, order, p, k, j):
    """Exchange columns k and j of A, and their entries in `order`."""
    for r in range(p):
        first, second = A[k * p + r], A[j * p + r]
        store(A, k * p + r, second)
        store(A, j * p + r, first)
    first, second = order[k], order[j]
    store(order, k, second)
    store(order, j, first)
