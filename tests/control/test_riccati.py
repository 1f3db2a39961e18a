"""Gains of badly scaled pairs against closed forms and many digits; what is not known is not returned."""

import mpmath
import numpy as np
import pytest
from cases import further

from connections import control
from connections.checks import ConvergenceError
from connections.control.linear import riccati

REFERENCE_DIGITS = 160


def double_integrator(push, near, slow, effort):
    """xdot = v, vdot = push u, cost near x^2 + slow v^2 + effort u^2: pair, weights, K in closed form."""
    A, B = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0], [push]])
    coupling = np.sqrt(near * effort) / push  # P_12
    gain = push / effort * np.array([[coupling, np.sqrt(effort * (slow + 2.0 * coupling)) / push]])
    return A, B, np.array([near, slow]), effort, gain


@pytest.mark.parametrize(
    "numbers",
    [
        (1.0, 1.0, 1.0, 1.0),
        (1e5, 1e-3, 1e3, 1e-6),
        (1e7, 1.0, 10.0, 1e-5),
        (1e5, 1e-9, 1e3, 1e4),
        (0.1, 100.0, 1e9, 1e-8),
        (1.0, 1e-7, 1e4, 1e-6),
        (1e9, 0.1, 100.0, 1e4),
    ],
)
def test_double_integrators(numbers):
    """All but the first have closed loops of two rates that differ by nine powers of ten and more."""
    A, B, Q, R, expected = double_integrator(*numbers)
    K, P = control.lqr(A, B, Q, R)
    np.testing.assert_allclose(K, expected, rtol=1e-12)
    np.testing.assert_allclose(B.T @ P / R, expected, rtol=1e-12)


def to_mpmath(*arrays):
    return [mpmath.matrix(np.asarray(a, dtype=float).tolist()) for a in arrays]


def to_numpy(matrix):
    return np.array([[float(matrix[i, j]) for j in range(matrix.cols)] for i in range(matrix.rows)])


def continuous_reference(A, B, Q, R):
    """K and P from the sign of the Hamiltonian matrix, in 160 digits: the stable subspace is its -1."""
    n = len(A)
    with mpmath.workdps(REFERENCE_DIGITS):
        A, B, Q, R = to_mpmath(A, B, Q, R)
        sign, G = mpmath.zeros(2 * n), B * mpmath.inverse(R) * B.T
        sign[:n, :n], sign[:n, n:], sign[n:, :n], sign[n:, n:] = A, -G, -Q, -A.T
        for _ in range(300):
            scale = abs(mpmath.det(sign)) ** (-mpmath.mpf(1) / (2 * n))
            scale = mpmath.mpf(1) if abs(scale - 1) < 1e-3 else scale
            before, sign = sign, (scale * sign + mpmath.inverse(sign) / scale) / 2
            if scale == 1 and mpmath.mnorm(sign - before, 1) < mpmath.mpf(10) ** -90 * mpmath.mnorm(sign, 1):
                break
        W = sign + mpmath.eye(2 * n)
        left, right = W[:, n:], -W[:, :n]
        P = mpmath.inverse(left.T * left) * (left.T * right)
        return to_numpy(mpmath.inverse(R) * B.T * P), to_numpy(P)


def discrete_reference(A, B, Q, R):
    """K and P by doubling the horizon, in 160 digits."""
    n = len(A)
    with mpmath.workdps(REFERENCE_DIGITS):
        step, B, P, R = to_mpmath(A, B, Q, R)
        A, G = step, B * mpmath.inverse(R) * B.T
        for _ in range(60):
            moved = step * mpmath.inverse(mpmath.eye(n) + G * P)
            more = step.T * P * mpmath.inverse(mpmath.eye(n) + G * P) * step
            G, step, P = G + moved * G * step.T, moved * step, P + more
            if mpmath.mnorm(more, 1) < mpmath.mpf(10) ** -100 * mpmath.mnorm(P, 1):
                break
        return to_numpy(mpmath.inverse(R + B.T * P * B) * B.T * P * A), to_numpy(P)


def badly_scaled(seed, kind):
    """A pair and its weights: powers of ten in weights, in units, or in couplings to stable parts."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    A, B, Q, R = rng.normal(size=(n, n)), rng.normal(size=(n, m)), np.ones(n), np.ones(m)
    if kind == "discrete":
        A, B = np.eye(n) + 0.1 * A, 0.1 * B
    if kind == "weights":
        return A, B, 10.0 ** rng.uniform(-9, 9, n), 10.0 ** rng.uniform(-9, 9, m)
    if kind == "stable part":
        k = n // 2
        A[:k, k:] *= 10.0 ** rng.uniform(-14, -3)
        A[k:, :k] *= 10.0 ** rng.uniform(-14, -3)
        A[k:, k:] -= (np.linalg.eigvals(A[k:, k:]).real.max() + 0.1) * np.eye(n - k)
        B[k:] *= 10.0 ** rng.uniform(-12, 0)
    x, u = 10.0 ** rng.uniform(-9, 9, n), 10.0 ** rng.uniform(-9, 9, m)
    return A * x[:, None] / x, B * x[:, None] / u, Q, R


def errors(found, expected):
    """Of K, relative to its rows, and of P, in units in which the cost to go has a unit diagonal."""
    (K, P), (gain, cost) = found, expected
    x = np.diag(cost) ** -0.5
    rows = np.abs((K - gain) * x).max(axis=1) / np.abs(gain * x).max(axis=1)
    return max(rows.max(), np.abs((P - cost) * np.outer(x, x)).max())


def residual_and_sizes(A, B, Q, R, K, P, discrete):
    """What is zero of K and P, with F = A - B K, and the sum of its terms by absolute values."""
    F, cost = A - B @ K, [Q, K.T @ R @ K]
    f, p = np.abs(F), np.abs(P)
    terms, sizes = ([F.T @ P @ F, -P], [f.T @ p @ f, p]) if discrete else ([F.T @ P, P @ F], [f.T @ p, p @ f])
    return sum([*terms, *cost]), sum([*sizes, *(np.abs(a) for a in cost)])


@pytest.mark.parametrize("kind", ["weights", further("units"), further("stable part"), "discrete"])
def test_against_many_digits(kind):
    """Nearly all are solved; no gain is wrong, and the residual is small beside its own terms."""
    discrete, solved, total = kind == "discrete", 0, 16
    reference = discrete_reference if discrete else continuous_reference
    for seed in range(total):
        A, B, Q, R = badly_scaled(seed, kind)
        try:
            K, P = control.lqr(A, B, Q, R, discrete=discrete)
        except ConvergenceError:
            continue
        solved += 1
        assert errors((K, P), reference(A, B, np.diag(Q), np.diag(R))) < 1e-6
        residual, sizes = residual_and_sizes(A, B, np.diag(Q), np.diag(R), K, P, discrete)
        assert (np.abs(residual) <= 1e-9 * np.sqrt(np.outer(np.diag(sizes), np.diag(sizes)))).all()
    assert solved >= total - 2


@pytest.mark.parametrize("discrete", [False, True])
def test_a_path_of_weights_leads_to_the_same_gain(discrete, monkeypatch):
    """Where SciPy refuses the weights themselves; in units of state, input and time that differ."""
    rng = np.random.default_rng(3)
    A, B = 300.0 * rng.normal(size=(4, 4)), rng.normal(size=(4, 2))
    if discrete:
        A, B = np.eye(4) + A / 3000.0, 0.1 * B
    x, u = np.array([1e-3, 1.0, 1e4, 10.0]), np.array([1e3, 0.1])
    A, B = A * x / x[:, None], B * u / x[:, None]
    Q, R = np.diag([1.0, 1e-4, 3.0, 1e3]), np.array([[2.0, 0.5], [0.5, 40.0]])
    expected = control.lqr(A, B, Q, R, discrete=discrete)
    by_scipy, calls = riccati._by_scipy, []

    def refused_once(problem):
        calls.append(problem)
        if len(calls) == 1:
            raise ConvergenceError("refused")
        return by_scipy(problem)

    monkeypatch.setattr(riccati, "_by_scipy", refused_once)
    assert errors(control.lqr(A, B, Q, R, discrete=discrete), expected) < 1e-9
    assert len(calls) == 2
    assert errors(control.lqr(A, B, Q, 2.0 * R, discrete=discrete), expected) > 1e-2  # a control


def test_units_do_not_matter():
    """x = S y, u = T w in units from 1e-9 to 1e9: K' = T^-1 K S, P' = S P S."""
    rng = np.random.default_rng(5)
    A, B, Q, R = (
        rng.normal(size=(4, 4)),
        rng.normal(size=(4, 2)),
        np.diag([1.0, 1e-6, 0.0, 1e5]),
        np.diag([1.0, 1e4]),
    )
    K, P = control.lqr(A, B, Q, R)
    for _ in range(10):
        s, t = 10.0 ** rng.integers(-9, 10, 4), 10.0 ** rng.integers(-9, 10, 2)
        gain, cost = control.lqr(
            A * s / s[:, None], B * t / s[:, None], Q * np.outer(s, s), R * np.outer(t, t)
        )
        assert errors((gain * t[:, None] / s, cost / np.outer(s, s)), (K, P)) < 1e-9


def test_what_costs_nothing_costs_nothing_in_any_units():
    """A stable state without cost, on which the others act: it has no part in K and P."""
    A = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, -1.0]])
    B = np.array([[0.0], [1.0], [0.0]])
    for unit in (1e-9, 1.0, 1e9):
        x = np.array([1.0, 1.0, unit])
        K, P = control.lqr(A * x[:, None] / x, B * x[:, None], np.array([1.0, 1.0, 0.0]), 1.0)
        root = np.sqrt(3.0)
        np.testing.assert_allclose(K, [[1.0, root, 0.0]], rtol=1e-12, atol=0.0)
        np.testing.assert_allclose(
            P, [[root, 1.0, 0.0], [1.0, root, 0.0], [0.0, 0.0, 0.0]], rtol=1e-12, atol=0.0
        )


def test_what_cannot_be_reached_is_named_in_any_units():
    A, B = np.diag([0.5, -1.0, 2.0]), np.array([[1.0], [1.0], [0.0]])
    for seed in range(8):
        x = 10.0 ** np.random.default_rng(seed).integers(-9, 10, 3)
        with pytest.raises(control.errors.StabilizabilityError, match=r"1 of 3 .* 2: 1 x\[2\]$"):
            control.lqr(A * x[:, None] / x, B * x[:, None], 1.0, 1.0)


def test_a_gain_that_is_not_known_is_not_returned():
    """Rates 1e17 apart are more than a number has digits."""
    A, B, Q, R, expected = double_integrator(1e4, 1e-9, 1e8, 0.1)
    rates = np.abs(np.roots([1.0, *(1e4 * expected[0, ::-1])]))
    assert rates.max() / rates.min() > 1e16
    with pytest.raises(ConvergenceError, match="2 states"):
        control.lqr(A, B, Q, R)


def test_a_closed_loop_that_is_not_finite_is_not_returned():
    """A gain of infinite entries; the weights between led there from a pair that no gain stabilizes."""
    problem = riccati._RiccatiProblem(
        np.eye(2), np.eye(2), np.eye(2), np.eye(2), False, np.ones(2), np.zeros(2, bool)
    )
    riccati._require_decay(problem, -np.eye(2))
    for loop in (np.eye(2), np.full((2, 2), np.nan), np.diag([-1.0, -np.inf])):
        with pytest.raises(ConvergenceError, match="does not decay"):
            riccati._require_decay(problem, loop)
