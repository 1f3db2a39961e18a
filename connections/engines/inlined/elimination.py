"""Sparse symmetric positive definite matrices, factorized without fill-in: H = L^T d L.

H is (n, n), and H[k, i] with i < k is nonzero only if column i is before column k: on the way along ``up``,
the column before each column or -1, from k to a root. The columns form a forest whose parents come first, and
L has the same sparsity. Among the columns before k some are consecutive; ``run`` has the first column of the
consecutive ones, each before the next, that end at k. Source: Featherstone, Rigid Body Dynamics Algorithms,
chapter 6.
"""

from connections.engines.inlined.simd import inlined, load, store


@inlined
def eliminate(n, up, run, work, L, pivots):
    """Factorize H = L^T d L, in place: H is in slots L[i n + j] of `work`, 1 / d replaces the diagonal.

    L is lower triangular with unit diagonal. The slots from `pivots` on hold the scale of each pivot; d_k
    divided by its scale replaces it.
    """
    for k in range(n - 1, -1, -1):
        pivot = load(work, L + k * n + k)
        store(work, pivots + k, pivot / load(work, pivots + k))
        d = 1.0 / pivot
        i = up[k]
        while i >= 0:
            ratio = load(work, L + k * n + i) * d
            j = i
            while j >= 0:
                start = run[j]
                subtract_row(work, ratio, L + i * n + start, L + k * n + start, j + 1 - start)
                j = up[start]
            store(work, L + k * n + i, ratio)
            i = up[i]
        store(work, L + k * n + k, d)


@inlined
def solve_by_elimination(n, up, run, work, L, pivots, x):
    """Replace x, in the slots of `work` from `x` on, by H^-1 x; L and `pivots` are as for `eliminate`."""
    eliminate(n, up, run, work, L, pivots)
    for k in range(n - 1, -1, -1):
        i = up[k]
        while i >= 0:
            store(work, x + i, load(work, x + i) - load(work, L + k * n + i) * load(work, x + k))
            i = up[i]
    for k in range(n):
        total = load(work, x + k) * load(work, L + k * n + k)
        i = up[k]
        while i >= 0:
            total = total - load(work, L + k * n + i) * load(work, x + i)
            i = up[i]
        store(work, x + k, total)


@inlined
def invert_by_elimination(n, up, run, work, L, pivots, inverse):
    """H^-1, slots inverse[i n + j]; L (which holds H) and `pivots` are as for `eliminate`.

    Row by row, with sums over the columns a before k,

        (H^-1)_ki = -sum_a L_ka (H^-1)_ai for i < k,    (H^-1)_kk = 1 / d_k - sum_a L_ka (H^-1)_ak.
    """
    eliminate(n, up, run, work, L, pivots)
    for k in range(n):
        for i in range(k + 1):
            store(inverse, k * n + i, 0.0)
        a = up[k]
        while a >= 0:
            b, factor = up[a], load(work, L + k * n + a)
            if b >= 0:
                subtract_rows(inverse, (factor, load(work, L + k * n + b)), k * n, (a * n, b * n), k)
                a = up[b]
            else:
                subtract_row(inverse, factor, k * n, a * n, k)
                a = b
        total = load(work, L + k * n + k)
        a = up[k]
        while a >= 0:
            total = total - load(work, L + k * n + a) * load(inverse, k * n + a)
            a = up[a]
        for i in range(k):
            store(inverse, i * n + k, load(inverse, k * n + i))
        store(inverse, k * n + k, total)


@inlined
def solve_rows(n, width, up, work, L, rows):
    """Replace the (n, width) matrix in slots rows[i width + j] by -H^-1 times it.

    Slots L are as `eliminate` left them.
    """
    for k in range(n - 1, -1, -1):
        i = up[k]
        while i >= 0:
            subtract_row(rows, load(work, L + k * n + i), i * width, k * width, width)
            i = up[i]
    for k in range(n):
        scale = -load(work, L + k * n + k)
        for j in range(k * width, (k + 1) * width):
            store(rows, j, load(rows, j) * scale)
        i = up[k]
        while i >= 0:
            subtract_row(rows, load(work, L + k * n + i), k * width, i * width, width)
            i = up[i]


@inlined
def half_solve_rows(n, up, work, L, rows, width):
    """Replace the matrix (n, width) in slots rows[i width + j] by L^-T times it; L is as `eliminate` left it.

    So if Y is the result for a matrix M, M^T H^-1 M = Y^T d^-1 Y.
    """
    for k in range(n - 1, -1, -1):
        i = up[k]
        while i >= 0:
            subtract_row(rows, load(work, L + k * n + i), i * width, k * width, width)
            i = up[i]


@inlined
def subtract_row(matrix, factor, row, other, count):
    """Subtract `factor` times the first `count` entries of another row of a matrix from those of `row`."""
    for i in range(count):
        store(matrix, row + i, load(matrix, row + i) - factor * load(matrix, other + i))


@inlined
def subtract_rows(matrix, factors, row, others, count):
    """`subtract_row` for two other rows at once, which loads and stores every entry once instead of twice."""
    for i in range(count):
        value = load(matrix, row + i) - factors[0] * load(matrix, others[0] + i)
        store(matrix, row + i, value - factors[1] * load(matrix, others[1] + i))
