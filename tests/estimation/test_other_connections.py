"""Errors of mechanical systems by a connection that is not their own: of groups in closed form, or any."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems

import connections as cn
from connections import affine, estimation
from connections import multibody as mb
from connections.checks import FrameError
from connections.estimation.displacements import transport_along_at
from connections.geometry.rigid.rotations import rotation_matrix

BODY = cn.MechanicalSystem(cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 2.5])))
MEMBER = affine.CartanSchoutenConnection(cn.SO3Frame(), 0.2)
BY_GROUP = estimation.Filter(BODY, noise=0.01 * np.eye(3), connection=MEMBER)
STATE = np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.8, -0.5, 0.3])


def test_velocities_are_carried_in_closed_form():
    """Beside transport by its differential equation, and differences of states that are displaced."""
    space, e, d = BY_GROUP.space, np.array([0.5, -0.4, 0.6, 0.3, 0.4, -0.2]), np.linspace(-1.0, 0.7, 6)

    @jax.jit
    def of(e):
        rows = jnp.stack([e, e + 1e-4 * d, e - 1e-4 * d])
        moved = jax.vmap(lambda e: space.moved_at(STATE, e)[:2])(rows)
        (p, z), J = moved
        again = space.difference_at(STATE, (p[0], z[0]))
        return p, z, J[0], transport_along_at(MEMBER, MEMBER, STATE[0], e[:3], 20)[0], again

    p, z, slope, Pi, again = (np.asarray(a) for a in of(e))
    assert np.allclose(z[0], Pi @ (STATE[1] + e[3:]), atol=1e-7)
    assert np.abs(Pi - np.eye(3)).max() > 0.1
    xi = np.asarray(BODY.frame.dual_at(p[0])) @ (p[1] - p[2]) / 2e-4
    w = (z[1] - z[2]) / 2e-4 + 0.7 * np.cross(xi, z[0])
    assert np.allclose(slope @ d, [*xi, *w], atol=1e-6)
    assert np.abs(w - Pi @ d[3:]).max() > 0.05  # of curvature
    assert np.allclose(again, e, atol=1e-12)


def test_an_update_is_consistent():
    """Attitude and velocity at once: two directions, and the velocity in axes of the world."""
    P = np.diag([0.4, 0.3, 0.2, 0.5, 0.6, 0.4]) ** 2
    directions = np.array([[0.0, 0.0, 1.0], [0.8, 0.0, 0.6]])

    def h(q, v):
        return jnp.concatenate([(directions @ rotation_matrix(q)).ravel(), rotation_matrix(q) @ v])

    runs, deviations = 1000, np.repeat([0.02, 0.05], [6, 3])
    sensor = estimation.Sensor(h, np.diag(deviations**2))

    @jax.jit
    @jax.vmap
    def run(key):
        drawn, read = jax.random.split(key)
        e = jnp.sqrt(jnp.diagonal(P)) * jax.random.normal(drawn, (6,))
        x = BY_GROUP.space.moved_at(STATE, e)[0]
        prior = estimation.Estimate(jnp.asarray(STATE[0]), jnp.asarray(P), v=jnp.asarray(STATE[1]))
        found, said = BY_GROUP.update(prior, h(*x) + deviations * jax.random.normal(read, (9,)), sensor)
        e = BY_GROUP.space.difference_at(found.state, x)
        return e @ jnp.linalg.solve(found.P, e) / 6, said.nis / 9

    for found in run(jax.random.split(jax.random.PRNGKey(3), runs)):
        assert abs(float(found.mean()) - 1.0) < 4.0 * np.sqrt(2.0 / (6 * runs)), found.mean()


def test_predictions_differ_by_the_velocity_that_is_an_error():
    """(eta, w) by two connections: P_2 = M P_1 M^T, M = [[1, 0], [Gamma_2 - Gamma_1, 1]]."""
    robot, rng = mb.example("quadruped"), np.random.default_rng(2)
    group = affine.CartanSchoutenConnection(robot.frame, 0.2)
    own, other = (estimation.Filter(robot, noise=np.eye(18), connection=nabla) for nabla in (None, group))
    q, v, tau = robot.neutral(), 0.5 * rng.normal(size=18), rng.normal(size=18)
    A = rng.normal(size=(36, 36))
    P = 0.01 * (A @ A.T / 36 + np.eye(36))

    def change(q, v):
        M = np.eye(36)
        M[18:, :18] = own.space._turned_at(q, v) - other.space._turned_at(q, v)
        return M

    M = change(q, v)
    first = other.predict(estimation.Estimate(q, P, v=v), tau, 0.002)
    second = own.predict(estimation.Estimate(q, M @ P @ M.T, v=v), tau, 0.002)
    M = change(first.q, first.v)
    assert np.array_equal(first.q, second.q) and np.array_equal(first.v, second.v)
    assert np.allclose(second.P, M @ first.P @ M.T, rtol=1e-9, atol=1e-12)
    assert np.abs(M - np.eye(36)).max() > 0.1


def test_joints_of_a_chain_are_moved_as_numbers():
    """Encoders: one step of a linear filter, and its covariance as the inverse of information."""
    arm = mb.example("arm")
    filter = estimation.Filter(arm, noise=np.eye(6), connection=arm.frame)
    rng = np.random.default_rng(4)
    A = rng.normal(size=(12, 12))
    P, q, v = A @ A.T / 12 + np.eye(12), rng.normal(size=6), rng.normal(size=6)
    sensor = estimation.Sensor(lambda q, v: q + 0.1 * v, 0.04 * np.eye(6))
    y = q + rng.normal(size=6)
    found, said = filter.update(estimation.Estimate(q, P, v=v), y, sensor)
    H = np.concatenate([np.eye(6), 0.1 * np.eye(6)], axis=1)
    expected = np.linalg.inv(np.linalg.inv(P) + H.T @ H / 0.04)
    x = np.array([*q, *v]) + expected @ H.T @ (y - q - 0.1 * v) / 0.04
    assert np.allclose([*found.q, *found.v], x, atol=1e-9) and np.allclose(found.P, expected, atol=1e-9)
    assert said.steps == 2  # the second one finds nothing to do


@pytest.mark.further
def test_any_connection_of_the_frame():
    """One with torsion, which is not the system's: the velocity that is carried, along the geodesic."""
    metric = systems.SPHERE_ORTHONORMAL
    own, other = cn.LeviCivita(metric), cn.CoefficientConnection(metric.frame, lambda q: TWIST)
    space = estimation.Filter(
        cn.MechanicalSystem(metric), noise=np.eye(2), connection=other, geodesic_steps=8
    ).space
    x, e = (np.array([0.9, 0.3]), np.array([0.5, -0.8])), np.array([0.2, -0.25, 0.3, 0.4])
    (q, v), _, _ = jax.jit(lambda e: space.moved_at(x, e))(e)
    p, z, _ = cn.transport_flow(other, x[0], e[:2], x[1] + e[2:], [0.0, 1.0])
    assert np.allclose(q, p[-1], atol=1e-6) and np.allclose(v, z[-1], atol=1e-6)
    _, z, _ = cn.transport_flow(own, x[0], e[:2], x[1] + e[2:], [0.0, 1.0])
    assert np.abs(v - z[-1]).max() > 1e-2


TWIST = jnp.array([[[0.0, 0.3], [-0.1, 0.2]], [[0.4, 0.0], [0.1, -0.2]]])


def test_what_is_no_connection_of_the_system_is_named():
    with pytest.raises(FrameError, match="connection"):
        estimation.Filter(BODY, noise=np.eye(3), connection=cn.SE3Frame())
    with pytest.raises(TypeError, match="connection"):
        estimation.Filter(cn.SO3Frame(), noise=np.eye(3), connection=MEMBER)
    with pytest.raises(TypeError, match="connection"):
        estimation.Filter(BODY, noise=np.eye(3), connection=0.5)
