"""Square matrices that are not symmetric: elimination with the largest pivot of each column.

A is (n, n), in slots A[i n + j] of a workspace. P A = L U, with unit diagonal of L, replaces it, and the
slots from `order` on say with which row each row was exchanged. Source: Golub and Van Loan, Matrix
Computations, 3.4.
"""

from connections.engines.inlined.elimination import subtract_row
from connections.engines.inlined.simd import inlined, load, store


@inlined
def factorize_by_rows(n, work, A, order):
    """Replace A by its factors. A singular matrix leaves a pivot of zero."""
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(load(work, A + i * n + k)) > abs(load(work, A + best * n + k)):
                best = i
        store(work, order + k, float(best))
        if best != k:
            for j in range(n):
                _exchange(work, A + k * n + j, A + best * n + j)
        for i in range(k + 1, n):
            ratio = load(work, A + i * n + k) / load(work, A + k * n + k)
            store(work, A + i * n + k, ratio)
            subtract_row(work, ratio, A + i * n + k + 1, A + k * n + k + 1, n - k - 1)


@inlined
def solve_by_rows(n, work, A, order, x):
    """Replace x, in the slots from `x` on, by A^-1 x, after `factorize_by_rows`.

    If A is singular, it becomes infinite or NaN.
    """
    for k in range(n):
        _exchange(work, x + k, x + int(load(work, order + k)))
    for k in range(n):
        for i in range(k + 1, n):
            store(work, x + i, load(work, x + i) - load(work, A + i * n + k) * load(work, x + k))
    for k in range(n - 1, -1, -1):
        store(work, x + k, load(work, x + k) / load(work, A + k * n + k))
        for i in range(k):
            store(work, x + i, load(work, x + i) - load(work, A + i * n + k) * load(work, x + k))


@inlined
def _exchange(work, one, other):
    """Exchange two slots."""
    number = load(work, one)
    store(work, one, load(work, other))
    store(work, other, number)
