"""What is compiled into kernels, by itself: linear algebra, rotations, sine and cosine, layouts, rows."""

import mpmath as mp
import numpy as np
import pytest
from numba import njit
from scipy.spatial.transform import Rotation

from connections.engines.inlined import elimination, vectors
from connections.engines.inlined import householder as least_squares
from connections.engines.inlined.records import RecordLayout, bits, record
from connections.engines.inlined.rows import are_above, read_numbers, read_rows, rows_are_above
from connections.engines.inlined.simd import (
    LANES,
    absolute,
    copied_sign,
    flat_slots_of,
    put,
    root,
    sine_cosine,
    slots_of,
)
from connections.engines.inlined.twofold import as_twofold, twofold_of

compiled = njit(error_model="numpy")


# --- linear algebra ----------------------------------------------------------------------------------------


@compiled
def least(A, b, x, p, d, stairs):
    A, b, x, stairs = flat_slots_of(A), flat_slots_of(b), flat_slots_of(x), flat_slots_of(stairs)
    least_squares.factorize(A, p, d, stairs)
    least_squares.solve_least(A, p, d, stairs, b, x)
    return least_squares.least_pivot(A, p, d), least_squares.scaled_length(A, p, d, x)


@compiled
def least_of_column(A, c, b, x, p, d, stairs, j):
    A, c, b, x, stairs = (
        flat_slots_of(A),
        flat_slots_of(c),
        flat_slots_of(b),
        flat_slots_of(x),
        flat_slots_of(stairs),
    )
    least_squares.factorize(A, p, d, stairs)
    return least_squares.solve_column(A, p, d, stairs, c, j, b, x)


def factorized(A):
    """A and its zeros, as the compiled functions read them, and a place for x."""
    p, d = A.shape
    room = np.zeros(least_squares.factorization_slots(p, d))
    room[: p * d] = A.T.ravel()
    return room, least_squares.staircase(A != 0.0), np.full(d, np.nan)


def solve_least(A, b):
    """Pivot, |D x| and x, D the lengths of the columns of A."""
    room, stairs, x = factorized(A)
    return *least(room, b.copy(), x, *A.shape, stairs), x


def test_least_squares_are_those_of_numpy(rng):
    for p, d in ((3, 3), (7, 4), (12, 5), (4, 1)):
        A, b = rng.standard_normal((p, d)) * 10.0 ** rng.uniform(-3, 3, d), rng.standard_normal(p)
        pivot, length, x = solve_least(A, b)
        expected = np.linalg.lstsq(A, b, rcond=None)[0]
        np.testing.assert_allclose(x, expected, rtol=1e-9)
        np.testing.assert_allclose(length, np.linalg.norm(np.linalg.norm(A, axis=0) * x), rtol=1e-12)
        R = np.linalg.qr(A / np.linalg.norm(A, axis=0), mode="r")
        np.testing.assert_allclose(pivot, np.abs(np.diag(R)).min(), rtol=1e-9)
        assert np.linalg.norm(A @ (1.01 * x) - b) > np.linalg.norm(A @ x - b)  # negative control


def with_zeros(rng, kind):
    """A matrix of full column rank with zeros: blocks, blocks and columns beside them, in any order."""
    p, d = 12, 8
    A = np.zeros((p, d))
    for block in range(3):
        A[4 * block : 4 * block + 4, 2 * block : 2 * block + 2] = rng.standard_normal((4, 2))
    if kind != "blocks":
        A[:, 6:] = rng.standard_normal((p, 2))
    if kind == "any":
        A = A[rng.permutation(p)][:, rng.permutation(d)]
    return A if kind != "blocks" else A[:, :6]


@pytest.mark.parametrize("kind", ["blocks", "border", "any"])
def test_known_zeros_change_nothing(kind, rng):
    """Solutions for any vector, and for one with zeros as a column, are those of NumPy."""
    for _ in range(5):
        A = with_zeros(rng, kind)
        p, d = A.shape
        b = rng.standard_normal(p)
        np.testing.assert_allclose(solve_least(A, b)[2], np.linalg.lstsq(A, b, rcond=None)[0], rtol=1e-9)
        for j in range(d):
            room, stairs, x = factorized(A)
            b = np.where(A[:, j] != 0.0, rng.standard_normal(p), 0.0)
            first, stop = least_of_column(room, b, np.full(p, np.nan), x, p, d, stairs, j)
            assert np.isnan(x[:first]).all() and np.isnan(x[stop:]).all() and first <= j < stop
            x[:first] = x[stop:] = 0.0
            expected = np.linalg.lstsq(A, b, rcond=None)[0] * np.linalg.norm(A, axis=0)
            np.testing.assert_allclose(x, expected, rtol=1e-9, atol=1e-12)
    stairs = least_squares.staircase(with_zeros(rng, "blocks") != 0.0).reshape(-1, 3)
    np.testing.assert_array_equal(
        stairs, [[0, 4, 0], [0, 4, 0], [4, 8, 2], [4, 8, 2], [8, 12, 4], [8, 12, 4]]
    )
    A = with_zeros(rng, "border")
    wrong = np.array([0, 4, 0] * 8)  # negative control: the zeros of another matrix
    x = np.full(8, np.nan)
    least(np.concatenate([A.T.ravel(), np.zeros(24)]), b.copy(), x, 12, 8, wrong)
    assert not np.allclose(x, np.linalg.lstsq(A, b, rcond=None)[0], rtol=1e-2)


def test_a_matrix_without_full_rank_has_a_small_pivot(rng):
    A = rng.standard_normal((6, 3))
    A[:, 2] = A[:, 0] - 2.0 * A[:, 1]
    assert solve_least(A, np.ones(6))[0] < 1e-14
    A[:, 2] += 1e-4 * rng.standard_normal(6)
    assert 1e-6 < solve_least(A, np.ones(6))[0] < 1e-3
    assert solve_least(np.zeros((3, 2)), np.ones(3))[0] == 0.0


@compiled
def invert(n, up, run, work, pivots, inverse):
    elimination.invert_by_elimination(n, up, run, slots_of(work), 0, pivots, slots_of(inverse))


@compiled
def solve(n, up, run, work, pivots, x):
    elimination.solve_by_elimination(n, up, run, slots_of(work), 0, pivots, x)


def forest(rng, n):
    """The column before each column, the first of its run, and a matrix of that sparsity."""
    up = np.array([int(rng.integers(-1, k)) for k in range(n)])
    up[1::3] = np.arange(n)[1::3] - 1
    run = np.arange(n)
    for k in range(1, n):
        run[k] = run[k - 1] if up[k] == k - 1 else k
    L = np.eye(n)
    for k in range(n):
        i = up[k]
        while i >= 0:
            L[k, i], i = rng.standard_normal(), up[i]
    return up, run, L.T @ np.diag(rng.uniform(0.5, 2.0, n)) @ L


def test_elimination_along_a_forest(rng):
    for n in (1, 2, 7, 12):
        up, run, H = forest(rng, n)
        scales, inverse = rng.uniform(1.0, 2.0, n), np.full(n * n, np.nan)
        work = np.concatenate([H.ravel(), scales, rng.standard_normal(n)])
        b = work[-n:].copy()
        invert(n, up, run, work.copy(), n * n, inverse)
        np.testing.assert_allclose(inverse.reshape(n, n) @ H, np.eye(n), atol=1e-9)
        solve(n, up, run, work, n * n, n * n + n)
        np.testing.assert_allclose(H @ work[-n:], b, atol=1e-9)
        assert (work[n * n : n * n + n] * scales > 0.0).all()  # the pivots of a positive definite matrix
    wrong = work.copy()
    wrong[: n * n] = H.ravel()
    invert(n, np.full(n, -1), np.arange(n), wrong, n * n, inverse)  # negative control: no column before
    assert np.abs(inverse.reshape(n, n) @ H - np.eye(n)).max() > 1e-2


# --- rotations, sine and cosine ----------------------------------------------------------------------------


@compiled
def rotations(q, p):
    axes = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
    return (
        vectors.quaternion_product(q, p),
        vectors.matrix_of(*vectors.turned_by_quaternion(*axes, q)),
        vectors.turned(axes[0], axes[1], *sine_cosine(p[0])),
        vectors.unit_quaternion((2.0 * q[0], 2.0 * q[1], 2.0 * q[2], 2.0 * q[3])),
    )


def test_rotations_are_those_of_scipy(rng):
    first, second = Rotation.random(2, rng=rng)
    q, p = tuple(first.as_quat()), tuple(second.as_quat())
    product, matrix, (x, y), unit = rotations(q, p)
    np.testing.assert_allclose(
        Rotation.from_quat(product).as_matrix(), (first * second).as_matrix(), atol=1e-14
    )
    assert np.abs(Rotation.from_quat(product).as_matrix() - (second * first).as_matrix()).max() > 1e-2
    np.testing.assert_allclose(np.reshape(matrix, (3, 3)), first.as_matrix(), atol=1e-14)
    turn = Rotation.from_rotvec([0.0, 0.0, p[0]]).as_matrix()
    np.testing.assert_allclose(np.stack([x, y], axis=1), turn[:, :2], atol=1e-15)
    np.testing.assert_allclose(unit, q, rtol=1e-14)


@compiled
def sines(angles, out):
    for i in range(len(angles)):
        out[0, i], out[1, i] = sine_cosine(angles[i])


def test_sine_and_cosine(rng):
    angles = np.concatenate([rng.uniform(-1e6, 1e6, 1000), np.arange(-40, 40) * np.pi / 4, [0.0, -0.0]])
    out = np.empty((2, len(angles)))
    sines(angles, out)
    np.testing.assert_allclose(out, [np.sin(angles), np.cos(angles)], atol=4e-16)


@compiled
def in_twofold(x, y, out):
    """Results of (high, low) x and y, each with its own rounding error."""
    x, y = twofold_of(x[0], x[1]), twofold_of(y[0], y[1])
    results = as_twofold(flat_slots_of(out))
    sine, cosine = sine_cosine(x)
    sums = x + y, x - y, 2.0 * x - y, -x + 0.5
    put(results, 0, (*sums, x * y, x / y, root(absolute(y)), copied_sign(x, y), sine, cosine))


def test_twofold_numbers_have_32_digits(rng):
    mp.mp.dps = 50
    for _ in range(300):
        high = rng.standard_normal(2) * 10.0 ** rng.uniform(-6, 3, 2)
        given = np.stack([high, np.spacing(high) * rng.uniform(-0.5, 0.5, 2)], axis=1)
        out = np.zeros((10, 2))
        in_twofold(given[0], given[1], out)
        x, y = (mp.mpf(a) + mp.mpf(b) for a, b in given)
        sums = x + y, x - y, 2 * x - y, mp.mpf(0.5) - x
        sizes = [abs(x) + abs(y) + 1] * 4 + [0, 0, 0, 0, 1, 1]
        others = x * y, x / y, mp.sqrt(abs(y)), abs(x) * mp.sign(y), mp.sin(x), mp.cos(x)
        for found, exact, size in zip(out, [*sums, *others], sizes, strict=True):
            assert abs(mp.mpf(found[0]) + mp.mpf(found[1]) - exact) <= 4e-32 * max(size, abs(exact))
            assert abs(found[1]) <= 0.5001 * np.spacing(abs(found[0]))  # the high part is the nearest float64


# --- layouts and rows --------------------------------------------------------------------------------------

PAIR = record("Pair", left=2, right=3)
LAYOUT = RecordLayout(
    "Things",
    sizes=("count", "width"),
    integers=("starts",),
    numbers=("values", "work"),
    work={"pairs": lambda n: PAIR.size * n.count, "rest": lambda n: n.width},
)
unpack = LAYOUT.unpacker()


@compiled
def parts(array):
    things = unpack(slots_of(array))
    return things.count, things.starts[1], things.values[2], things.pairs, things.rest


def test_a_layout_is_written_and_read():
    assert (PAIR.left, PAIR.right, PAIR.size) == (0, 2, 5)
    sizes, values = {"count": 4, "width": 7}, np.array([[0.5, 1.5], [2.5, 3.5]])
    array = LAYOUT.pack(sizes, {"starts": [3, 9]}, {"values": values, "work": ()}, begin=100)
    assert parts(array) == (4, 9, 2.5, 100, 120)
    assert LAYOUT.slots(sizes) == 27
    assert [LAYOUT.read(array, name) for name in ("width", "pairs", "rest")] == [7, 100, 120]
    assert parts(LAYOUT.empty(3))[:2] == (0, 0)
    assert bits([1, -2]).view(np.int64).tolist() == [1, -2]


@compiled
def copied(work, x, size, least):
    return read_numbers(slots_of(work), 1, size, x), are_above(slots_of(work), 1, size, least)


@compiled
def copied_rows(work, x, row, least):
    return read_rows(work, 1, x.shape[1], x, row), rows_are_above(work, 1, x.shape[1], least)


def test_numbers_are_read_and_judged(rng):
    x, work = rng.uniform(1.0, 2.0, 5), np.zeros(7)
    assert copied(work, x, 5, 0.5) == (True, True)
    np.testing.assert_array_equal(work, [0.0, *x, 0.0])
    assert copied(work, x, 4, 0.5)[0] is False  # another size
    assert copied(work, x, 5, 1.5)[1] == (x > 1.5).all()
    for bad in (np.nan, np.inf, -np.inf):
        assert copied(work, np.where(np.arange(5) == 4, bad, x), 5, 0.5)[0] is False
    rows, lanes = rng.uniform(1.0, 2.0, (LANES + 2, 3)), np.zeros((5, LANES))
    for row in (0, LANES):
        assert copied_rows(lanes, rows, row, 0.5) == (True, True)
        chosen = np.minimum(row + np.arange(LANES), LANES + 1)  # the last row is repeated
        np.testing.assert_array_equal(lanes[1:4], rows[chosen].T)
    rows[1, 2] = np.nan
    assert copied_rows(lanes, rows, 0, 0.5) == (False, False)
    assert copied_rows(lanes, rows, 2, 0.5) == (True, True)
