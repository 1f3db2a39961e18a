"""Riccati gains against closed forms, Lyapunov equations, least squares; what cannot be reached is named."""

import numpy as np
import pytest
from scipy.linalg import block_diag, expm, solve_continuous_lyapunov

import connections as cn
from connections import control
from connections import multibody as mb

DOUBLE = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0], [1.0]])


def craft(gravity=(0.0, 0.0, 0.0), joint=None):
    """A floating base with one limb."""
    mechanism, up = mb.Mechanism(), np.eye(4)
    up[2, 3] = 0.1
    mechanism.add_body("base", 2.0, (0.01, 0.0, 0.0), np.diag([0.02, 0.03, 0.025]))
    mechanism.add_body("limb", 0.5, (0, 0, 0.2), np.diag([0.01, 0.01, 0.004]))
    mechanism.add_joint("float", "world", "base", mb.Free())
    mechanism.add_joint("shoulder", "base", "limb", joint or mb.Revolute((0, 1, 0)), up)
    return mechanism.build(gravity=gravity)


@pytest.fixture(scope="module")
def flyer():
    return craft()


def random_weight(rng, n):
    root = rng.normal(size=(n, n))
    return root @ root.T + np.eye(n)


def test_double_integrator():
    """Q = 1, R = 1: K = [1, sqrt 3], P = [[sqrt 3, 1], [1, sqrt 3]]."""
    K, P = control.lqr(*DOUBLE, 1.0, 1.0)
    root = np.sqrt(3.0)
    np.testing.assert_allclose(K, [[1.0, root]], atol=1e-12)
    np.testing.assert_allclose(P, [[root, 1.0], [1.0, root]], atol=1e-12)


def test_integrators_without_drift():
    """A = 0 in a diagonal problem: K = (Q / R)^(1/2), P = (Q R)^(1/2)."""
    Q, R = np.array([4.0, 1e-6]), np.array([0.25, 9.0])
    K, P = control.lqr(np.zeros((2, 2)), np.eye(2), np.diag(Q), np.diag(R))
    np.testing.assert_allclose(K, np.diag(np.sqrt(Q / R)), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(P, np.diag(np.sqrt(Q * R)), rtol=1e-12, atol=1e-12)


def test_cost_of_the_closed_loop(rng):
    """P by the Lyapunov equation of the closed loop; any other gain costs more."""
    A, B = rng.normal(size=(6, 6)), rng.normal(size=(6, 2))
    Q, R = random_weight(rng, 6), random_weight(rng, 2)
    K, P = control.lqr(A, B, Q, R)

    def cost(gain):
        return solve_continuous_lyapunov((A - B @ gain).T, -(Q + gain.T @ R @ gain))

    np.testing.assert_allclose(P, cost(K), rtol=1e-9, atol=1e-9 * np.abs(P).max())
    for _ in range(3):
        extra = np.linalg.eigvalsh(cost(K + 1e-3 * rng.normal(size=K.shape)) - P)
        assert extra[-1] > 1e-7 and extra[0] > -1e-9


def test_discrete_is_the_limit_of_finite_horizons(rng):
    A, B = rng.normal(size=(4, 4)), rng.normal(size=(4, 2))
    A *= 1.2 / np.abs(np.linalg.eigvals(A)).max()
    Q, R = random_weight(rng, 4), random_weight(rng, 2)
    K, P = control.lqr(A, B, Q, R, discrete=True)
    gains, costs = control.time_varying_lqr(np.stack([A] * 80), np.stack([B] * 80), Q, R, 0.0)
    np.testing.assert_allclose(gains[0], K, rtol=1e-9)
    np.testing.assert_allclose(costs[0], P, rtol=1e-9)
    assert np.abs(gains[-1]).max() == 0.0  # the last input changes nothing that costs
    assert np.abs(np.linalg.eigvals(A - B @ K)).max() < 1.0


def test_time_varying_against_least_squares(rng):
    """The inputs of least cost of a short horizon, all at once."""
    count, n, m = 5, 3, 2
    A, B = rng.normal(size=(count, n, n)), rng.normal(size=(count, n, m))
    Q, final, R = np.stack([random_weight(rng, n) for _ in range(count)]), 2.0, random_weight(rng, m)
    K, P = control.time_varying_lqr(A, B, Q, R, final)
    x0 = rng.normal(size=n)
    free, forced = np.zeros(((count + 1) * n, n)), np.zeros(((count + 1) * n, count * m))
    free[:n] = np.eye(n)
    for k in range(count):
        now, then = slice(k * n, (k + 1) * n), slice((k + 1) * n, (k + 2) * n)
        free[then], forced[then] = A[k] @ free[now], A[k] @ forced[now]
        forced[then, k * m : (k + 1) * m] += B[k]
    weight, effort = block_diag(*Q, final * np.eye(n)), np.kron(np.eye(count), R)
    u = -np.linalg.solve(forced.T @ weight @ forced + effort, forced.T @ weight @ free @ x0)
    x = free @ x0 + forced @ u
    np.testing.assert_allclose(x0 @ P[0] @ x0, x @ weight @ x + u @ effort @ u, rtol=1e-10)
    np.testing.assert_allclose(-K[0] @ x0, u[:m], rtol=1e-9)
    np.testing.assert_allclose(-K[3] @ x[3 * n : 4 * n], u[3 * m : 4 * m], rtol=1e-9, atol=1e-12)


def test_what_cannot_be_reached(rng):
    """Two modes of a rotated system: one grows and is named, one decays and is no obstacle."""
    A = np.diag([0.5, -1.0, 2.0, 0.3])
    B = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    names = ["a", "b", "c", "d"]
    for discrete, pair in ((False, (A, B)), (True, (expm(A), B))):
        with pytest.raises(control.errors.StabilizabilityError, match=r"1 of 4 .*: 1 c$") as caught:
            control.lqr(*pair, 1.0, 1.0, discrete=discrete, names=names)
        assert np.isclose(caught.value.eigenvalues, np.exp(2.0) if discrete else 2.0).all()
    control.lqr(np.diag([0.5, -1.0, -2.0, 0.3]), B, 1.0, 1.0)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    with pytest.raises(control.errors.StabilizabilityError) as caught:
        control.require_stabilizable(turn @ A @ turn.T, turn @ B)
    found = caught.value.directions[:, 0]
    np.testing.assert_allclose(np.abs(found @ turn), [0, 0, 1, 0], atol=1e-9)
    assert control.reachable_directions(turn @ A @ turn.T, turn @ B).shape == (4, 2)


def test_a_double_zero_out_of_reach():
    """Eigenvalues at zero in a Jordan block, computed as +-1e-8 or so, are seen as not decaying."""
    A, B = block_diag(DOUBLE[0], DOUBLE[0], -np.eye(2)), np.zeros((6, 1))
    B[1] = 1.0
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    with pytest.raises(control.errors.StabilizabilityError, match="2 of 6 directions"):
        control.lqr(turn @ A @ turn.T, turn @ B, 1.0, 1.0)


def test_underactuated_robots(flyer):
    """Without thrusters the momentum is out of reach; a limb needs gravity to be reached from the base."""
    q, nothing = flyer.neutral(), np.zeros(flyer.nv)
    A, B = mb.linearize(flyer, q, nothing, nothing)
    names = control.state_names(flyer)
    assert names[0] == "eta[float, 0]" and names[6] == "eta[shoulder]" and names[-1] == "dv[shoulder]"
    with pytest.raises(
        control.errors.StabilizabilityError, match=r"12 of 14 .*0 \(12 times\).*dv\[float, "
    ) as caught:
        control.lqr(A, B[:, 6:], 1.0, 1.0, names=names)
    # The momentum p = (H v)[:6] is the combination that moves by itself.
    H = mb.mass_matrix(flyer, q)
    rows = np.concatenate([np.zeros((6, flyer.nv)), H[:6]], axis=1).T
    basis = caught.value.directions
    np.testing.assert_allclose(basis @ (basis.T @ rows), rows, atol=1e-9)
    with pytest.raises(control.errors.StabilizabilityError, match=r"2 of 14 .*dv\[shoulder"):
        control.lqr(A, B[:, :6], 1.0, 1.0, names=names)  # at rest, one input too few to the first order
    heavy = flyer.with_gravity((0.0, 0.0, -9.81))
    A, B = mb.linearize(heavy, q, nothing, mb.gravity(heavy, q))
    K, _ = control.lqr(A, B[:, :6], 1.0, 1.0, names=names)
    assert np.linalg.eigvals(A - B[:, :6] @ K).real.max() < 0.0


def test_directions_without_cost():
    with pytest.raises(control.errors.StabilizabilityError, match=r"weight Q.*x\[0\]"):
        control.lqr(*DOUBLE, np.array([0.0, 1.0]), 1.0)
    K, _ = control.lqr(np.diag([1.0, -1.0]), np.eye(2), 0.0, 1.0)  # what grows is stopped even so
    np.testing.assert_allclose(K, np.diag([2.0, 0.0]), atol=1e-12)


def test_regulator_brings_a_floating_robot_home(flyer):
    """From 118 degrees away; the sign of the quaternion does not matter; that of the error does."""
    rng = np.random.default_rng(3)
    q_r, nothing, h = flyer.random(rng), np.zeros(flyer.nv), 0.02
    A, B = mb.linearize(flyer, q_r, nothing, nothing, step=h)
    K, _ = control.lqr(A, B, 1.0, 0.1, discrete=True)
    regulator = control.Regulator(flyer, q_r, nothing, nothing, K)
    start = mb.displace(flyer, q_r, np.array([1.5, -1.0, 1.0, 0.3, -0.3, 0.2, 0.4]))
    np.testing.assert_allclose(regulator.torque(q_r, nothing), 0.0, atol=1e-12)
    other = start.copy()
    other[3:7] *= -1.0
    np.testing.assert_allclose(regulator.torque(other, nothing), regulator.torque(start, nothing))

    def end(sign):
        q, v = start, nothing
        for _ in range(600):
            tau = sign * regulator.torque(q, v)
            a = mb.forward_dynamics(flyer, q, v, tau)
            middle = mb.forward_dynamics(flyer, mb.displace(flyer, q, h / 2 * v), v + h / 2 * a, tau)
            q, v = mb.displace(flyer, q, h * v + h**2 / 2 * a), v + h * middle
            if np.abs(v).max() > 1e3:
                break
        return np.abs(regulator.error(q, v)).max()

    assert end(1.0) < 1e-3
    assert end(-1.0) > 1.0


def test_samples_and_inputs(flyer, rng):
    """Sample k of a motion is the regulator of that state alone; tau = tau_r + S u."""
    q = np.stack([flyer.random(rng) for _ in range(4)])
    v, tau = rng.normal(size=(2, 4, flyer.nv))
    K, S = rng.normal(size=(4, 3, 2 * flyer.nv)), rng.normal(size=(flyer.nv, 3))
    motion = control.Regulator(flyer, q, v, tau, K, S)
    p, w = np.stack([flyer.random(rng) for _ in range(5)]), rng.normal(size=(5, flyer.nv))
    for k in (0, 3):
        alone = control.Regulator(flyer, q[k], v[k], tau[k], K[k], S)
        np.testing.assert_array_equal(motion.torque(p, w, k), alone.torque(p, w))
        error = np.concatenate([mb.difference(flyer, q[k], p[1]), w[1] - v[k]])
        np.testing.assert_allclose(motion.torque(p, w, k)[1], tau[k] - S @ K[k] @ error, atol=1e-12)
    for sample, regulator in ((None, motion), (4, motion), (0, alone)):
        with pytest.raises(IndexError, match="sample"):
            regulator.torque(p, w, sample)


@pytest.mark.parametrize(
    ("arguments", "error", "word"),
    [
        ((np.eye(3), np.eye(2), 1.0, 1.0), cn.checks.ShapeError, "B"),
        ((np.ones((2, 3)), np.eye(2), 1.0, 1.0), cn.checks.ShapeError, "A"),
        ((np.eye(2) * np.nan, np.eye(2), 1.0, 1.0), cn.checks.NonFiniteError, "A"),
        ((np.eye(2), np.eye(2), np.ones(3), 1.0), cn.checks.ShapeError, "weight Q"),
        ((np.eye(2), np.eye(2), np.diag([1.0, -1.0]), 1.0), control.errors.GainError, "semidefinite"),
        ((np.eye(2), np.eye(2), [[1.0, 0.5], [0.0, 1.0]], 1.0), control.errors.GainError, "symmetric"),
        ((np.eye(2), np.eye(2), 1.0, 0.0), control.errors.GainError, "weight R"),
        ((np.eye(2), np.eye(2), 1.0, [[1.0, 0.5], [0.0, 1.0]]), control.errors.GainError, "weight R"),
        ((np.eye(2), np.eye(2), "much", 1.0), TypeError, "weight Q"),
    ],
)
def test_bad_input(arguments, error, word):
    with pytest.raises(error, match=word):
        control.lqr(*arguments)
    A, B, Q, R = arguments
    with pytest.raises(error, match=word):
        control.time_varying_lqr(np.asarray(A)[None], np.asarray(B)[None], Q, R, 1.0)


def test_bad_references(flyer):
    q, v, K = flyer.neutral(), np.zeros(flyer.nv), np.zeros((2, 2 * flyer.nv))
    with pytest.raises(cn.checks.ShapeError, match="inputs"):
        control.Regulator(flyer, q, v, v, K)
    with pytest.raises(cn.checks.ShapeError, match="reference"):
        control.Regulator(flyer, np.stack([q, q]), np.zeros((3, flyer.nv)), v, K[:, None] * np.ones((7, 1)))
    with pytest.raises(cn.checks.PointError):
        control.Regulator(flyer, 2.0 * q, v, v, np.zeros((flyer.nv, 2 * flyer.nv)))
    with pytest.raises(cn.checks.NonFiniteError, match="tau"):
        control.Regulator(flyer, q, v, v * np.nan, np.zeros((flyer.nv, 2 * flyer.nv)))
