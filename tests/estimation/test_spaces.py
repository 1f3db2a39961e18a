"""Predictions beside the flow of neighbours, a filter in two frames, velocities, points seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

import connections as cn
from connections import affine, estimation
from connections import multibody as mb
from connections.checks import IntegrationError
from connections.estimation.displacements import displacements_of

Q0, P0 = np.array([0.9, 0.3]), np.array([[0.02, 0.005], [0.005, 0.01]])
NOISE = np.array([[0.03, 0.01], [0.01, 0.02]])


def orthonormal(q):
    """Columns: the fields of the second frame in the first one."""
    return np.asarray(systems._orthonormal_change(q))


def wind(q, u, t):
    return jnp.stack([u[0] + 0.3 * jnp.sin(q[1] + t), u[1] + 0.4 * q[0]])


def wind_across(q, u, t):
    """The same in the orthonormal frame."""
    return jnp.linalg.solve(systems._orthonormal_change(q), wind(q, u, t))


SENSOR = estimation.Sensor(systems.sphere_point, 0.02**2 * np.eye(3))
CHART = estimation.Filter(systems.SPHERE_NABLA, wind, NOISE, geodesic_steps=8)
ACROSS = estimation.Filter(
    systems.SPHERE_ORTHONORMAL_NABLA,
    wind_across,
    lambda q, u, t: jnp.linalg.solve(
        systems._orthonormal_change(q),
        jnp.linalg.solve(systems._orthonormal_change(q), jnp.asarray(NOISE)).T,
    ),
    geodesic_steps=8,
)
U = np.array([0.2, -0.5])


def test_a_covariance_spreads_as_neighbours_do():
    """By SciPy: differences of the flow, and the integral of the noise that it carries."""

    def flow(q, begin, end):
        rate = lambda t, y: np.asarray(wind(y, U, t))  # noqa: E731
        return solve_ivp(rate, (begin, end), q, "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]

    def slope(q, begin, end):
        steps = 1e-5 * np.eye(2)
        return np.stack([(flow(q + d, begin, end) - flow(q - d, begin, end)) / 2e-5 for d in steps], axis=1)

    predicted = CHART.predict(estimation.Estimate(Q0, P0, t=0.2), U, 0.3)
    A = np.linalg.inv(orthonormal(Q0))
    across = ACROSS.predict(estimation.Estimate(Q0, A @ P0 @ A.T, t=0.2), U, 0.3)
    Phi, total = slope(Q0, 0.2, 0.3), 0.0
    nodes, weights = np.polynomial.legendre.leggauss(4)
    for x, weight in zip(nodes, weights, strict=True):
        s = 0.25 + 0.05 * x
        carried = slope(flow(Q0, 0.2, s), s, 0.3)
        total = total + 0.05 * weight * carried @ NOISE @ carried.T
    assert np.allclose(predicted.q, flow(Q0, 0.2, 0.3), atol=1e-9)
    assert np.allclose(predicted.P, Phi @ P0 @ Phi.T + total, atol=1e-9)
    assert np.abs(predicted.P - P0 - 0.1 * NOISE).max() > 1e-4
    A = orthonormal(predicted.q)  # the same in a frame with qdot != v, whose fields have brackets
    assert np.allclose(across.q, predicted.q, atol=1e-9)
    assert np.allclose(A @ across.P @ A.T, predicted.P, atol=1e-9)
    assert np.abs(across.P - predicted.P).max() > 1e-3
    once = estimation.Filter(CHART.nabla, wind, NOISE, prediction_steps=1)
    with pytest.raises(IntegrationError, match="prediction_steps=4"):
        once.predict(estimation.Estimate(Q0, 1e-8 * P0), U, 3.0)


@pytest.mark.further
def test_the_filter_is_the_same_in_another_frame():
    """Chart and orthonormal frame of a sphere: P is a tensor. The frame has qdot != v."""
    y = np.stack([np.asarray(systems.sphere_point(Q0 + d)) for d in ([0.05, 0.1], [0.12, -0.05])])
    times, us = [0.1, 0.2], np.stack([U, -U])
    A = np.linalg.inv(orthonormal(Q0))
    first = CHART.run(estimation.Estimate(Q0, P0), times, us, y, SENSOR)
    second = ACROSS.run(estimation.Estimate(Q0, A @ P0 @ A.T), times, us, y, SENSOR)
    assert np.allclose(first.estimate.q, second.estimate.q, atol=1e-7)
    for number in range(2):
        A = orthonormal(first.estimate.q[number])
        P = A @ second.estimate.P[number] @ A.T
        assert np.allclose(first.estimate.P[number], P, rtol=1e-5)
        assert not np.allclose(first.estimate.P[number], second.estimate.P[number], rtol=1e-2)
    assert np.allclose(first.innovation.nis, second.innovation.nis, rtol=1e-5)
    assert (first.innovation.steps > 2).all()


@pytest.mark.further
def test_without_a_reset_the_frame_matters():
    y = np.asarray(systems.sphere_point(Q0 + np.array([0.4, -0.3])))
    A = np.linalg.inv(orthonormal(Q0))
    found = []
    for filter, P in ((CHART, P0), (ACROSS, A @ P0 @ A.T)):
        bare = estimation.Filter(filter.nabla, filter.velocity, filter.noise, reset=None, geodesic_steps=8)
        estimate, innovation = bare.update(estimation.Estimate(Q0, P), y, SENSOR)
        found.append((estimate.q, float(innovation.reset_size)))
    assert np.allclose(found[0][0], found[1][0], atol=1e-6)
    assert found[0][1] > 0.0 and abs(found[0][1] - found[1][1]) > 0.1 * found[0][1]


# --- positions with velocities ----------------------------------------------------------------------------

H, K, TORQUES = np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([[3.0, 0.5], [0.5, 4.0]]), 0.1 * np.eye(2)
SPRINGS = cn.MechanicalSystem(
    cn.ConstantMetric(cn.CoordinateFrame(2), H), lambda q: 0.5 * q @ jnp.asarray(K) @ q
)


def test_springs_are_a_linear_filter():
    springs = estimation.Filter(SPRINGS, noise=TORQUES, prediction_steps=8)
    P = np.diag([0.1, 0.2, 0.3, 0.1]) + 0.02
    x = np.array([0.3, -0.2, 0.5, 0.1])
    inverse = np.linalg.inv(H)
    F = np.block([[np.zeros((2, 2)), np.eye(2)], [-inverse @ K, np.zeros((2, 2))]])
    Q = np.zeros((4, 4))
    Q[2:, 2:] = inverse @ TORQUES @ inverse
    h = 0.2
    block = expm(h * np.block([[-F, Q], [np.zeros((4, 4)), F.T]]))
    Phi = block[4:, 4:].T
    tau = np.array([0.4, -0.1])
    held = expm(h * np.block([[F, np.eye(4)], [np.zeros((4, 8))]]))[:4, 4:]
    mean = Phi @ x + held[:, 2:] @ inverse @ tau
    expected = Phi @ P @ Phi.T + Phi @ block[:4, 4:]
    estimate = springs.predict(estimation.Estimate(x[:2], P, v=x[2:]), tau, h)
    assert np.allclose([*estimate.q, *estimate.v], mean, atol=1e-8)
    assert np.allclose(estimate.P, expected, atol=1e-8)
    C = np.array([[1.0, 0.0, 0.0, 0.5]])
    sensor = estimation.Sensor(lambda q, v: jnp.stack([q[0] + 0.5 * v[1]]), [[0.05]])
    updated, innovation = springs.update(estimate, [0.7], sensor)
    gain = expected @ C.T / (C @ expected @ C.T + 0.05)
    assert np.allclose([*updated.q, *updated.v], mean + gain[:, 0] * (0.7 - (C @ mean)[0]), atol=1e-7)
    assert np.allclose(updated.P, expected - gain @ C @ expected, atol=1e-8)
    assert innovation.converged


@pytest.mark.further
def test_an_arm_spreads_as_its_neighbours_do():
    """(eta, w) by differences of motions from SciPy, in a frame with qdot != v, where w is not dv."""
    change = lambda q: jnp.array([[1.0, 0.3 * q[0]], [0.0, 1.2]])  # noqa: E731

    def metric(q):
        c = jnp.cos(q[1])
        return change(q).T @ jnp.array([[3.0 + 2.0 * c, 1.0 + c], [1.0 + c, 1.0]]) @ change(q)

    frame = cn.CoordinateFrame(2).change(change)
    arm = cn.MechanicalSystem(cn.MatrixMetric(frame, metric), lambda q: jnp.sin(q[0]) + q[1] ** 2)
    x, tau, h = np.array([0.4, 0.9, 0.5, -0.8]), np.array([0.3, -0.2]), 0.02
    acceleration = cn.evaluation.compilation.compiled(arm.forward_dynamics_at)

    def rate(t, y):
        return np.concatenate([np.asarray(change(y[:2])) @ y[2:], acceleration(y[:2], y[2:], tau)])

    def end(y):
        return solve_ivp(rate, (0.0, h), y, "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]

    def to_errors(y):
        """(q, v) -> (eta, w)."""
        D = np.zeros((4, 4))
        D[:2, :2] = np.linalg.inv(change(y[:2]))
        D[2:, 2:] = np.eye(2)
        M = affine.deviation_map(arm.connection, y[:2], y[2:])
        return M @ D

    steps, P = 1e-5 * np.eye(4), np.diag([0.01, 0.02, 0.05, 0.03]) + 0.003
    flow = np.stack([(end(x + d) - end(x - d)) / 2e-5 for d in steps], axis=1)
    Phi = to_errors(end(x)) @ flow @ np.linalg.inv(to_errors(x))
    quiet = estimation.Filter(arm, noise=1e-12 * np.eye(2))
    predicted = quiet.predict(estimation.Estimate(x[:2], P, v=x[2:]), tau, h)
    assert np.allclose([*predicted.q, *predicted.v], end(x), atol=1e-9)
    assert np.allclose(predicted.P, Phi @ P @ Phi.T, atol=1e-8)
    assert np.abs(affine.deviation_map(arm.connection, x[:2], x[2:]) - np.eye(4)).max() > 0.1


# --- measurements on manifolds ------------------------------------------------------------------------------

PRIOR = np.diag([0.3, 0.2, 0.1]) ** 2
UNEVEN = np.diag([0.05, 0.2, 0.1]) ** 2
UP = estimation.Estimate([0.0, 0.0, 0.0, 1.0], PRIOR)
TURNED = Rotation.from_rotvec([0.4, -0.5, 0.3])
ATTITUDE = estimation.Filter(cn.SO3Frame(), noise=np.eye(3))


def right_jacobian(e):
    x, cross = np.linalg.norm(e), np.cross(np.eye(3), e)
    return np.eye(3) - (1 - np.cos(x)) / x**2 * cross + (x - np.sin(x)) / x**3 * cross @ cross


@pytest.mark.parametrize("reported", [pytest.param(False, marks=pytest.mark.further), True])
def test_a_rotation_that_is_measured(reported):
    """e solves P^-1 e = J^T N'^-1 r, r = log(exp(-e) y), N' in axes of the estimate, by SciPy's rotations."""
    sensor = estimation.Sensor(lambda q: q, UNEVEN, connection=cn.SO3Frame(), reported=reported)
    estimate, innovation = ATTITUDE.update(UP, TURNED.as_quat(), sensor)
    e = Rotation.from_quat(estimate.q).as_rotvec()
    r = (Rotation.from_rotvec(-e) * TURNED).as_rotvec()
    N, other = UNEVEN, UNEVEN
    if reported:
        G = np.linalg.inv(right_jacobian(r))
        N = G @ UNEVEN @ G.T
    J = right_jacobian(e)
    assert np.allclose(np.linalg.solve(PRIOR, e), J.T @ np.linalg.solve(N, r), atol=1e-5)
    P = np.linalg.inv(np.linalg.inv(PRIOR) + J.T @ np.linalg.solve(N, J))
    assert np.allclose(estimate.P, J @ P @ J.T, atol=1e-9)
    assert innovation.dimension == 3 and np.allclose(innovation.r, TURNED.as_rotvec())
    if reported:
        assert np.abs(np.linalg.solve(PRIOR, e) - J.T @ np.linalg.solve(other, r)).max() > 0.1
        missing, said = ATTITUDE.update(UP, np.full(4, np.nan), sensor)
        assert np.array_equal(missing.P, UP.P) and said.dimension == 0 and not said.accepted
        with pytest.raises(ValueError, match="some coordinates"):
            ATTITUDE.update(UP, [np.nan, 0.0, 0.0, 1.0], sensor)
        with pytest.raises(ValueError, match="norm"):
            ATTITUDE.update(UP, [0.5, 0.0, 0.0, 1.0], sensor)


def test_states_are_displaced_and_measured_in_a_curved_space():
    """By differences of a measurement at displaced states, in a frame with qdot != v.

    The velocity is carried along the geodesic: one that is along it stays along it, and its length stays.
    """
    ball = cn.MechanicalSystem(systems.SPHERE_ORTHONORMAL)
    space = estimation.Filter(ball, noise=np.eye(2), geodesic_steps=8).space
    x = (np.array([0.9, 0.3]), np.array([0.5, -0.8]))

    def h(q, v):
        return jnp.stack([q[0] * v[1], v[0] + jnp.sin(q[1]) * v[1] ** 2, q[1] - v[0] * q[0], q[0] + v[1]])

    @jax.jit
    @jax.vmap
    def of(e):
        z, slope, _ = space.moved_at(x, e)
        return *z, slope, *space.observed_at(h, z)

    e = np.array([0.2, -0.25, 0.3, 0.4])
    along = np.array([*e[:2], *(2.0 * e[:2] - x[1])])  # v + w = 2 eta
    longer = 1e-4 * np.array([*e[:2], 0.0, 0.0])
    steps = 1e-4 * np.concatenate([np.eye(4), -np.eye(4)])
    rows = np.concatenate([[e], e + steps, [along, along + longer, along - longer]])
    q, v, slopes, y, H = (np.asarray(part) for part in of(rows))
    assert np.allclose(H[0] @ slopes[0], (y[1:5] - y[5:9]).T / 2e-4, atol=1e-6)
    assert np.linalg.cond(H[0]) < 100.0
    assert np.abs(slopes[0][2:, :2]).max() > 1e-3  # of curvature, which parallel transport does not have
    assert np.abs(space._turned_at(q[0], v[0])).max() > 0.1
    velocity = np.asarray(ball.frame.dual_at(q[9])) @ (q[10] - q[11]) / 2e-4
    assert np.allclose(v[9], 2.0 * velocity, atol=1e-6)
    assert np.allclose(np.linalg.norm(v[0]), np.linalg.norm(x[1] + e[2:]), atol=1e-6)
    assert np.abs(velocity - e[:2]).max() > 0.01


def test_states_of_a_robot_are_displaced_by_recursions():
    """A floating robot, whose frame has brackets. The carried velocity has the energy of the start."""
    robot = mb.example("quadruped")
    space = estimation.Filter(robot, noise=np.eye(18)).space
    rng = np.random.default_rng(2)
    q, v = robot.neutral(), 0.5 * rng.normal(size=18)
    e, d, y = 0.1 * rng.normal(size=36), rng.normal(size=36), rng.normal(size=18)

    @jax.jit
    @jax.vmap
    def of(e):
        (p, z), slope, _ = space.moved_at((q, v), e)
        return p, z, slope, space._turned_at(p, z)

    along = np.array([*e[:18], *(2.0 * e[:18] - v)])  # v + w = 2 eta, along the geodesic
    longer = 1e-4 * np.array([*e[:18], *np.zeros(18)])
    rows = np.stack([e, e + 1e-4 * d, e - 1e-4 * d, along, along + longer, along - longer])
    p, z, slope, turned = (np.asarray(a) for a in of(rows))
    xi = np.asarray(robot.frame.dual_at(p[0])) @ (p[1] - p[2]) / 2e-4
    w = (z[1] - z[2]) / 2e-4 + turned[0] @ xi
    assert np.allclose(slope[0] @ d, [*xi, *w], atol=1e-5)
    assert np.abs(xi - d[:18]).max() > 1e-2 and np.abs(z[0] - v - e[18:]).max() > 1e-2
    assert np.allclose(z[3], np.asarray(robot.frame.dual_at(p[3])) @ (p[4] - p[5]) / 1e-4, atol=1e-5)
    before, H = mb.mass_matrix(robot, q), mb.mass_matrix(robot, p[0])
    u = v + e[18:]
    assert z[0] @ H @ z[0] == pytest.approx(u @ before @ u, rel=1e-6)
    assert np.allclose(H @ turned[0] @ y, mb.coriolis_product(robot, p[0], y, z[0]), atol=1e-9)


@pytest.mark.further
def test_points_of_a_robot_are_displaced_by_recursions():
    robot, rng = mb.example("quadruped"), np.random.default_rng(3)
    own = displacements_of(robot.connection, 4)
    q, e, d = robot.neutral(), 0.1 * rng.normal(size=18), rng.normal(size=18)
    p, slope, _ = jax.jit(jax.vmap(lambda e: own.moved_at(q, e)))(np.stack([e, e + 1e-4 * d, e - 1e-4 * d]))
    xi = np.asarray(robot.frame.dual_at(p[0])) @ (p[1] - p[2]) / 2e-4
    assert np.allclose(slope[0] @ d, xi, atol=1e-5)
    assert np.abs(xi - d).max() > 1e-2
