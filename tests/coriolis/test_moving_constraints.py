"""Constraints that move, V = A vbar + v_0: a turntable, a conveyor, their power, and what refuses them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections import systems
from connections.checks import ConstraintError, IntegrationError, ShapeError
from connections.verify import as_subject, verify_subject

MASS, RADIUS, INERTIA, TURNING = 1.3, 0.2, 0.4 * 1.3 * 0.2**2, 0.9  # kg, m, kg m^2, rad/s
PLACE = cn.ProductFrame(cn.CoordinateFrame(2), cn.SO3Frame())  # v = [velocity, body angular velocity]
SPACE = cn.ConstantMetric(PLACE, np.diag([MASS, MASS, INERTIA, INERTIA, INERTIA]))


def rolling(q):
    """The centre moves by R omega x (r e_z), (5, 3)."""
    x, y, z, w = q[2:]
    u, cross = q[2:5], jnp.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    R = jnp.eye(3) + 2 * w * cross + 2 * (jnp.outer(u, u) - (u @ u) * jnp.eye(3))
    return jnp.concatenate([RADIUS * jnp.stack([R[1], -R[0]]), jnp.eye(3)])


def turntable(q):
    """What lies on the table, and does not turn, (5,)."""
    return jnp.array([-TURNING * q[1], TURNING * q[0], 0.0, 0.0, 0.0])


BALL = cn.NonholonomicSystem(cn.ConstrainedConnection(SPACE, rolling), drift=turntable)
Q0, V0 = np.array([0.3, -0.1, 0.0, 0.0, 0.0, 1.0]), np.array([0.4, -1.0, 2.0])

SKATE_SPACE = cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([2.0, 2.0, 0.3]))
BELT = np.array([0.5, 0.2, 0.0])  # m/s


def blade(q):
    """A skate with its centre of mass 0.25 m ahead of the blade, (1, 3)."""
    return jnp.stack([-jnp.sin(q[2]), jnp.cos(q[2]), -0.25 + 0.0 * q[2]])[None]


BLADE = cn.ConstrainedConnection(SKATE_SPACE, forms=blade)
CARRIED = cn.NonholonomicSystem(BLADE, drift=lambda q: jnp.asarray(BELT))


def test_a_ball_on_a_turntable_moves_on_a_circle():
    """xddot = w e_z x xdot with w = TURNING / (1 + m r^2 / I), two sevenths of a homogeneous ball's table."""
    times = np.linspace(0.0, 12.0, 13)
    motion = BALL.simulate(Q0, V0, times)
    rate = TURNING / (1.0 + MASS * RADIUS**2 / INERTIA)
    assert rate == pytest.approx(2.0 / 7.0 * TURNING)
    velocity = np.asarray(BALL.velocity(Q0, V0))[:2]
    center = Q0[:2] + np.array([-velocity[1], velocity[0]]) / rate
    angle, (x, y) = rate * times, Q0[:2] - center
    circle = np.stack([np.cos(angle) * x - np.sin(angle) * y, np.sin(angle) * x + np.cos(angle) * y], axis=1)
    np.testing.assert_allclose(motion.q[:, :2], center + circle, atol=1e-10)
    energy = np.asarray(BALL.energy(motion.q, motion.v))
    assert np.ptp(energy) > 0.01  # the table works; the energy less <V, v_0> stays, [FS]
    V = np.asarray(BALL.velocity(motion.q, motion.v))
    drifts = np.stack([-motion.q[:, 1], motion.q[:, 0]], axis=1) * TURNING
    moving = energy - MASS * np.einsum("ti,ti->t", V[:, :2], drifts)
    np.testing.assert_allclose(moving, moving[0], atol=1e-10)


def test_a_skate_on_a_conveyor_moves_as_on_the_ground_from_the_belt():
    """Galilei's principle; the control is a skate on the ground with the same velocity."""
    times, q0, vbar = np.linspace(0.0, 2.0, 5), np.array([0.1, -0.2, 0.4]), np.array([0.9, 0.5])
    ground = cn.NonholonomicSystem(BLADE)
    carried, still = CARRIED.simulate(q0, vbar, times), ground.simulate(q0, vbar, times)
    np.testing.assert_allclose(carried.q, still.q + times[:, None] * BELT, atol=1e-9)
    np.testing.assert_allclose(carried.v, still.v, atol=1e-9)
    V = np.asarray(CARRIED.velocity(carried.q, carried.v))
    np.testing.assert_allclose(CARRIED.components(carried.q, V), carried.v, atol=1e-12)
    with pytest.raises(ConstraintError, match="violates"):  # control: without the belt's velocity
        ground.components(carried.q, V)


def test_the_force_is_of_the_multipliers_and_needs_no_basis(rng):
    """R = W^T lambda, against the equations with multipliers, for constraints that move and turn."""
    moving = cn.NonholonomicSystem(BLADE, drift=lambda q: jnp.stack([jnp.sin(q[1]), q[0] * q[2], q[0]]))
    q, v, u = rng.normal(size=3), rng.normal(size=2), rng.normal(size=3)
    V, H, W = np.asarray(moving.velocity(q, v)), np.diag([2.0, 2.0, 0.3]), np.asarray(blade(q))
    W_dot = np.array([[-np.cos(q[2]), -np.sin(q[2]), 0.0]]) * V[2]
    v_0 = np.array([np.sin(q[1]), q[0] * q[2], q[0]])
    v_0_dot = np.array([np.cos(q[1]) * V[1], V[0] * q[2] + q[0] * V[2], V[0]])
    matrix = np.block([[H, -W.T], [W, np.zeros((1, 1))]])
    solved = np.linalg.solve(matrix, np.concatenate([u, W_dot @ (v_0 - V) + W @ v_0_dot]))
    acceleration = jax.jit(moving.acceleration_at)(q, V, u)
    np.testing.assert_allclose(acceleration, solved[:3], atol=1e-12)
    np.testing.assert_allclose(moving.multipliers(q, v, u), solved[3:], atol=1e-12)
    power = v_0 @ W.T @ solved[3:]
    assert moving.constraint_power(q, v, u) == pytest.approx(power, abs=1e-12) and abs(power) > 1e-2


def test_a_motion_is_refused_where_its_energy_and_the_work_differ(monkeypatch):
    """The work of a force that is a hundredth too large."""
    right = cn.NonholonomicSystem._free_at

    def wrong(self, q, V, v, u, t):
        return 1.01 * right(self, q, V, v, u, t) + 0.01

    refused = cn.NonholonomicSystem(BLADE, drift=lambda q: jnp.array([0.5, 0.2 * q[0], 0.0]))
    start = np.array([0.1, -0.2, 0.4]), np.array([0.9, 0.5]), np.linspace(0.0, 1.0, 3)
    refused.simulate(*start)
    broken = cn.NonholonomicSystem(BLADE, drift=lambda q: jnp.array([0.5, 0.2 * q[0], 0.0]))
    monkeypatch.setattr(cn.NonholonomicSystem, "_free_at", wrong)
    monkeypatch.setattr(cn.NonholonomicSystem, "acceleration_at", _unmoved(right))
    with pytest.raises(IntegrationError, match="the energy less the work of the constraint"):
        broken.simulate(*start)


def _unmoved(free):
    def acceleration_at(self, q, V, u, t=0.0):
        drift, rate = jax.jvp(self.drift_at, (q,), (V,))
        return rate + self.connection.feasible_rate_at(
            q, V - drift, free(self, q, V, self.components_at(q, V), u, t) - rate, along=V
        )

    return acceleration_at


def test_what_needs_the_velocities_of_a_distribution_refuses_a_drift():
    for refused in (
        lambda: CARRIED.reduced,
        lambda: cn.ReducedSystem(
            CARRIED, systems.planar_motions(), lambda q: q[2:], lambda r: jnp.pad(r, (2, 0))
        ),
        lambda: systems.Locomotion(CARRIED, (0, 1, 2)),
    ):
        with pytest.raises(ConstraintError, match="the system has a drift"):
            refused()
    assert isinstance(cn.NonholonomicSystem(BLADE).reduced, cn.MechanicalSystem)  # control


def test_a_drift_of_another_kind_is_named():
    with pytest.raises(ShapeError, match=r"drift\(q\): expected shape \(3,\), got \(2,\)"):
        cn.NonholonomicSystem(BLADE, drift=lambda q: q[:2])
    with pytest.raises(TypeError, match=r"drift: expected a function q -> velocity v_0 \(n,\)"):
        cn.NonholonomicSystem(BLADE, drift=BELT)
    with pytest.raises(TypeError, match=r"drift: expected a function"):
        cn.NonholonomicSystem(BLADE, drift=lambda t, q, v: q)


@pytest.mark.further
def test_a_system_with_a_drift_is_verified_with_it():
    """The rows about moving constraints take the system's own drift."""
    subject = as_subject(CARRIED, "belt", samples=1)
    assert subject.drift is CARRIED.drift and subject.system.drift is None
    rows = {row.key: row for row in verify_subject(subject)}
    assert rows["Z moving"].ok and rows["Z moving power"].check.ok
    assert all(row.check.ok for row in rows.values())
