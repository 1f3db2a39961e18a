"""Differences and displacements against Pinocchio and matrix logarithms; orders; the discrete pair."""

from functools import partial

import closed_chains
import jax
import numpy as np
import pytest
import robots
from mechanisms import MOVING, configuration_rate, normalized, random_mechanism, sample
from scipy.integrate import solve_ivp
from scipy.linalg import expm, logm
from scipy.spatial.transform import Rotation

import connections as cn
from connections import multibody as mb
from connections import plots


def same(model, p, q, tol=1e-13):
    """Equal up to the sign of quaternions."""
    assert np.abs(mb.difference(model, p, q)).max() < tol


def matrix(twist):
    """The element (4, 4) of se(3) of [omega; v]."""
    X = np.zeros((4, 4))
    X[:3, :3], X[:3, 3] = np.cross(np.eye(3), twist[:3]), twist[3:]
    return X


def pose(q):
    """The transform (4, 4) of a free joint."""
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = Rotation.from_quat(q[3:]).as_matrix(), q[:3]
    return T


def test_every_joint_there_and_back(rng):
    model = random_mechanism(rng, 2 * len(MOVING), MOVING)
    p, _ = sample(model, rng, 7, 3)
    q, _ = sample(model, rng, 3)
    xi = mb.difference(model, p, q)
    assert xi.shape == (7, 3, model.nv)
    end = mb.displace(model, p, xi)
    same(model, end, q)
    np.testing.assert_allclose(normalized(model, end), end, atol=1e-15)
    np.testing.assert_allclose(mb.difference(model, q, p), -xi, atol=1e-13)  # the same way back
    for size in (1e-9, 1e-3, 9.9e-3, 1.01e-2, 0.5):  # on both sides of the switch to series
        small = size * rng.uniform(-1.0, 1.0, (3, model.nv))
        there = mb.difference(model, q, mb.displace(model, q, small))
        np.testing.assert_allclose(there, small, atol=2e-15 + 1e-15 * size, rtol=1e-12)


def test_pinocchio(rng):
    """Its difference and integrate, free joint and arms; they order twists the other way."""
    import pinocchio as pin
    from pinocchio_oracle import PinocchioRobot

    path = robots.robot_path("solo12")
    model, robot = mb.from_urdf(path, floating_base=True), PinocchioRobot(path, True)
    (p, q), xi = sample(model, rng, 2)[0], rng.normal(size=model.nv)
    theirs = pin.difference(robot.model, robot._configuration(p), robot._configuration(q))
    np.testing.assert_allclose(mb.difference(model, p, q), theirs[robot.order], atol=1e-12)
    moved = pin.integrate(robot.model, robot._configuration(p), robot._theirs(xi))
    same(model, moved, mb.displace(model, p, xi), 1e-12)


def test_matrix_exponential_and_logarithm(rng):
    """T1 = T0 expm(xi) of a free joint, also in JAX, at all angles; a product of exponentials is another."""
    model = random_mechanism(rng, 1, (mb.Free,), coincident=1.0)
    q = model.random(rng)
    displace, difference = (jax.jit(partial(of, model)) for of in (mb.displace, mb.difference))
    for size in (1e-3, 9.9e-3, 1.0, 3.1):  # series up to 1e-2
        xi = rng.normal(size=6)
        xi[:3] *= size / np.linalg.norm(xi[:3])
        end = mb.displace(model, q, xi)
        log = logm(np.linalg.solve(pose(q), pose(end))).real
        for moved, way in (
            (end, mb.difference(model, q, end)),
            (np.asarray(displace(q, xi)), difference(q, end)),
        ):
            np.testing.assert_allclose(pose(moved), pose(q) @ expm(matrix(xi)), atol=1e-14)
            np.testing.assert_allclose(matrix(np.asarray(way)), log, atol=1e-10)
    retracted = np.asarray(model.frame.retract_at(q, xi))
    assert np.abs(mb.difference(model, end, retracted)).max() > 0.1


def test_shortest_way_and_half_a_turn(rng):
    model = random_mechanism(rng, 1, (mb.Spherical,))
    q, axis = model.random(rng), np.array([0.6, 0.0, 0.8])
    same(model, q, -q)
    far = mb.difference(model, q, mb.displace(model, q, 4.0 * axis))
    np.testing.assert_allclose(far, (4.0 - 2.0 * np.pi) * axis, atol=1e-14)
    half = mb.difference(model, q, mb.displace(model, q, np.pi * axis))
    np.testing.assert_allclose(np.abs(half), np.pi * np.abs(axis), atol=1e-13)


def test_first_order_is_the_frame(rng):
    """d/dt displace(q, t xi) = X(q) xi; and q1 is reached by the constant velocity xi."""
    model = random_mechanism(rng, 4, (mb.Free, mb.Spherical, mb.Universal))
    q, xi = sample(model, rng)
    steps = np.array([-2.0, -1.0, 1.0, 2.0])[:, None] * 1e-3
    rate = np.array([1.0, -8.0, 8.0, -1.0]) @ mb.displace(model, q, steps * xi) / 12e-3
    np.testing.assert_allclose(rate, configuration_rate(model, q, xi), atol=1e-10)
    path = solve_ivp(
        lambda t, p: configuration_rate(model, p, xi), (0, 1), q, "DOP853", rtol=1e-12, atol=1e-12
    )
    same(model, normalized(model, path.y[:, -1]), mb.displace(model, q, xi), 1e-10)


def test_closed_chains(rng):
    """Independent joints only."""
    model = closed_chains.gear_train().build()
    p, q = sample(model, rng, 2)[0]
    xi = mb.difference(model, p, q)
    assert xi.shape == (model.nv,)
    same(model, mb.displace(model, p, xi), q)


def test_zero_order_hold(rng):
    """Against the integrated linear equation; a batch is its members; the step is the seconds between."""
    model = random_mechanism(rng, 3, (mb.Free, mb.Universal))
    (q, v), h = sample(model, rng, 2), 0.05
    tau = rng.normal(size=(2, model.nv))
    A, B = mb.linearize(model, q, v, tau)
    Ad, Bd = mb.linearize(model, q, v, tau, step=h)
    assert Ad.shape == A.shape and Bd.shape == B.shape
    x, u = rng.normal(size=2 * model.nv), rng.normal(size=model.nv)
    for row in range(2):
        motion = solve_ivp(lambda t, y, r=row: A[r] @ y + B[r] @ u, (0, h), x, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(Ad[row] @ x + Bd[row] @ u, motion.y[:, -1], atol=1e-8)
        one = mb.zero_order_hold(A[row], B[row], h)
        np.testing.assert_allclose(one[0], Ad[row], atol=1e-13 * np.abs(Ad).max())
    assert np.abs(Ad - (np.eye(2 * model.nv) + h * A)).max() > 1e-4  # not Euler's step


def test_one_step_along_a_motion(rng):
    """The held pair predicts what a perturbation becomes; its error falls with the square of the step."""
    model = random_mechanism(rng, 3, (mb.Free, mb.Universal))
    q, v = sample(model, rng)
    tau, x, n = rng.normal(size=model.nv), 1e-6 * rng.normal(size=2 * model.nv), model.nv

    def end(p, w, h):
        def rates(t, y):
            place = normalized(model, y[: model.nq])
            a = mb.forward_dynamics(model, place, y[model.nq :], tau)
            return np.concatenate([configuration_rate(model, place, y[model.nq :]), a])

        y = solve_ivp(rates, (0, h), np.concatenate([p, w]), "DOP853", rtol=1e-13, atol=1e-14).y[:, -1]
        return normalized(model, y[: model.nq]), y[model.nq :]

    errors = []
    for h in (0.02, 0.01, 0.005):
        (p, w), (p_moved, w_moved) = end(q, v, h), end(mb.displace(model, q, x[:n]), v + x[n:], h)
        change = np.concatenate([mb.difference(model, p, p_moved), w_moved - w])
        A, _ = mb.linearize(model, q, v, tau, step=h)
        errors.append(np.linalg.norm(change - A @ x) / np.linalg.norm(x))
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    assert np.all((ratios > 3.5) & (ratios < 4.5)), (errors, ratios)


def test_observed_orders(rng):
    """Finite differences of the inverse dynamics converge with orders 1 and 2 to dtau/dq."""
    model = random_mechanism(rng, 5, (mb.Free, mb.Revolute, mb.Prismatic, mb.Helical, mb.Spherical))
    q, v = sample(model, rng)
    a, steps = rng.normal(size=model.nv), np.logspace(-9.0, -1.0, 17)
    sweep = plots.StepSweep.of(model, q, v, a, steps)
    np.testing.assert_allclose(sweep.orders, [1.0, 2.0], atol=0.05)
    assert sweep.best[0] < 1e-6 and sweep.best[1] < 1e-9
    assert sweep.largest[0, 0] > sweep.best[0] and sweep.largest[1, 0] > 10 * sweep.best[1]  # rounding
    assert len(plots.figure_convergence(sweep, {"again": sweep}).axes) == 2
    wrong = mb.finite_differences(model, lambda p: mb.inverse_dynamics(model, p, 1.001 * v, a), q, 1e-4)
    exact = mb.inverse_dynamics_derivatives(model, q, v, a)[0]
    assert np.abs(wrong - exact).max() > 1e-5 * np.abs(exact).max()
    with pytest.raises(ValueError, match="step"):
        mb.finite_differences(model, lambda p: p, q, 0.0)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda q: q[:-1], cn.checks.ShapeError),
        (lambda q: q * np.nan, cn.checks.NonFiniteError),
        (lambda q: 1.1 * q, cn.checks.PointError),
        (lambda q: q.astype(complex), TypeError),
        (lambda q: np.stack([q] * 3), cn.checks.ShapeError),
    ],
)
def test_bad_input(change, error, rng):
    model = random_mechanism(rng, 2, (mb.Free,))
    p, q = sample(model, rng, 2)[0]
    with pytest.raises(error, match="q"):
        mb.difference(model, np.stack([p, p]), change(q))
    with pytest.raises(error, match="q"):
        mb.displace(model, change(q), np.zeros((2, model.nv)))


@pytest.mark.parametrize("step", [0.0, -1e-3, np.nan, np.inf, "soon"])
def test_bad_step(step, rng):
    model = random_mechanism(rng, 2, (mb.Free,))
    q, v = sample(model, rng)
    with pytest.raises(ValueError, match="step"):
        mb.linearize(model, q, v, v, step=step)
