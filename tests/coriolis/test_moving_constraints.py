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
    """The work of a blade that turns velocities a hundredth too slowly."""
    right = cn.ConstrainedConnection.feasible_rate_at
    start = np.array([0.1, -0.2, 0.4]), np.array([0.9, 0.5]), np.linspace(0.0, 1.0, 3)
    cn.NonholonomicSystem(BLADE, drift=lambda q: jnp.array([0.5, 0.2 * q[0], 0.0])).simulate(*start)
    monkeypatch.setattr(
        cn.ConstrainedConnection, "feasible_rate_at", lambda *given, **more: 0.99 * right(*given, **more)
    )
    broken = cn.NonholonomicSystem(BLADE, drift=lambda q: jnp.array([0.5, 0.2 * q[0], 0.0]))
    with pytest.raises(IntegrationError, match="the energy less the work of the constraint"):
        broken.simulate(*start)


@pytest.mark.parametrize(("push", "kept"), [(0.0, False), (0.1, False), (0.0, True)])
def test_a_belt_that_jumps_gives_an_impulse(push, kept):
    """Rails across a belt whose velocity jumps at 0.6 s: A^T H V stays, vbar does not, nor does the energy.

    `kept`: the belt turns round, so that the energy is the same, and tells nothing.
    """
    rails = cn.ConstrainedConnection(
        cn.ConstantMetric(cn.CoordinateFrame(2), 1.7 * np.eye(2)), lambda q: jnp.ones((2, 1))
    )
    before, after = (1.0, -1.0) if kept else (0.0, 1.3)

    def jumping(t, q):
        return jnp.where(t < 0.6, before, after) * jnp.array([1.0, 0.0])

    forces = (lambda t, q, v: jnp.array([push, push])) if push else None
    system = cn.NonholonomicSystem(rails, drift=jumping, forces=forces)
    v0 = 0.0 if kept else 0.2
    times, given = np.array([0.0, 0.5, 1.5]), (np.zeros(2), np.array([v0]))
    expected = v0 + push / 1.7 * times - np.array([0.0, 0.0, 0.5 * (after - before)])
    for options in ({}, {"breakpoints": [0.6]}):
        motion = system.simulate(*given, times, **options)
        np.testing.assert_allclose(motion.v[:, 0], expected, atol=1e-10)
        gained = system.energy(motion.q, motion.v, times) - system.energy(*given, 0.0)
        np.testing.assert_allclose(motion.work, gained - push * motion.q.sum(axis=1), atol=1e-10)
    assert abs(motion.v[-1, 0] - motion.v[1, 0]) > 0.5  # what moves at the old vbar is refused by the force
    assert (abs(motion.work[-1]) > 0.5) != kept


RATE = np.array([0.3, -0.4, 0.0])  # m/s^2, of a belt that starts


def belt(t, q):
    return BELT + t * RATE


def test_a_belt_that_starts_is_a_force_seen_from_the_belt():
    """-H b'(t) on a skate on the ground; the control is a belt of one velocity."""
    started, H = cn.NonholonomicSystem(BLADE, drift=belt), np.diag([2.0, 2.0, 0.3])
    pushed = cn.NonholonomicSystem(BLADE, forces=lambda t, q, v: -H @ RATE)
    times, q0, vbar = np.linspace(0.5, 2.0, 4), np.array([0.1, -0.2, 0.4]), np.array([0.9, 0.5])
    seen, s = pushed.simulate(q0, vbar, times), (times - times[0])[:, None]
    moved = s * BELT + (s * (times[0] + 0.5 * s)) * RATE
    motion = started.simulate(q0, vbar, times)
    np.testing.assert_allclose(motion.q, seen.q + moved, atol=1e-9)
    np.testing.assert_allclose(motion.v, seen.v, atol=1e-9)
    assert np.abs(CARRIED.simulate(q0, vbar, times).v - seen.v).max() > 1e-2
    steps = started.simulate(q0, vbar, times, method="variational", step=0.05)
    ground = pushed.simulate(q0, vbar, times, method="variational", step=0.05)
    np.testing.assert_allclose(steps.q, ground.q + moved, atol=1e-12)  # the midpoint rule is exact here
    np.testing.assert_allclose(steps.v, ground.v, atol=1e-12)
    V = started.velocity(motion.q, motion.v, times)
    np.testing.assert_allclose(started.components(motion.q, V, times), motion.v, atol=1e-12)
    with pytest.raises(ConstraintError, match="violates"):
        started.components(motion.q, V, 0.0)
    q, u = motion.q[2], np.zeros(3)
    on_the_belt = pushed.acceleration_at(q, V[2] - belt(times[2], q), u, times[2])
    np.testing.assert_allclose(started.acceleration_at(q, V[2], u, times[2]), on_the_belt + RATE, atol=1e-12)


@pytest.mark.parametrize("push", [0.0, 3.0])
def test_the_work_of_what_moves(push):
    """A particle on rails that are moved by b(t) = sin t: the work is m b^2 / 2, less that of a push F."""
    rails = cn.ConstrainedConnection(
        cn.ConstantMetric(cn.CoordinateFrame(2), 2.0 * np.eye(2)), forms=lambda q: jnp.array([[1.0, 0.0]])
    )

    def moving(t, q):
        return jnp.stack([jnp.sin(t), 0.0 * t])

    forces = (lambda t, q, v: jnp.array([push, 0.0])) if push else None
    system = cn.NonholonomicSystem(rails, forces=forces, drift=moving)
    times, given = np.linspace(0.4, 2.0, 5), (np.zeros((2, 2)), np.array([0.5]))
    motion = system.simulate(*given, times)
    expected = np.sin(times) ** 2 - np.sin(0.4) ** 2 - push * (np.cos(0.4) - np.cos(times))
    np.testing.assert_allclose(motion.work, [expected] * 2, atol=1e-10)
    np.testing.assert_allclose(motion.q[0, :, 0], np.cos(0.4) - np.cos(times), atol=1e-10)
    power = system.constraint_power(motion.q[0], motion.v[0], np.zeros(2), times)
    np.testing.assert_allclose(power, np.sin(times) * (2.0 * np.cos(times) - push), atol=1e-10)
    gained = system.energy(motion.q, motion.v, times) - system.energy(given[0], given[1], 0.4)[:, None]
    assert np.allclose(gained, motion.work, atol=1e-10) == (not push)  # forces work, too
    assert motion.work.shape == (2, 5) and motion.member(0).work.shape == (5,)
    assert cn.NonholonomicSystem(rails).simulate(*given, times).work is None  # control: what stands still


def test_a_rod_that_turns_at_once_works_on_its_bead():
    """In polar coordinates, whose H changes: r is straight, then hyperbolic; the impulse is no force on r."""
    polar = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: 1.7 * jnp.diag(jnp.stack([1.0, q[0] ** 2])))
    rod = cn.ConstrainedConnection(polar, lambda q: jnp.array([[1.0], [0.0]]))
    system = cn.NonholonomicSystem(
        rod, drift=lambda t, q: jnp.where(t < 0.6, 0.0, 1.3) * jnp.array([0.0, 1.0])
    )
    motion = system.simulate([0.5, 0.0], [0.2], [0.0, 0.5, 1.6], breakpoints=[0.6])
    r, rate = (0.62 * np.cosh(1.3) + 0.2 / 1.3 * np.sinh(1.3)), 0.62 * 1.3 * np.sinh(1.3) + 0.2 * np.cosh(1.3)
    np.testing.assert_allclose(motion.q, [[0.5, 0.0], [0.6, 0.0], [r, 1.3]], atol=1e-9)
    np.testing.assert_allclose(motion.v[:, 0], [0.2, 0.2, rate], atol=1e-9)
    worked = 0.85 * (rate**2 + (1.3 * r) ** 2 - 0.04)
    np.testing.assert_allclose(motion.work, [0.0, 0.0, worked], atol=1e-9)


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
    with pytest.raises(ShapeError, match=r"drift\(t, q\): expected shape \(3,\), got \(2,\)"):
        cn.NonholonomicSystem(BLADE, drift=lambda t, q: q[:2])
    with pytest.raises(TypeError, match=r"drift: expected a function q -> velocity v_0 \(n,\)"):
        cn.NonholonomicSystem(BLADE, drift=BELT)
    with pytest.raises(TypeError, match=r"drift: expected a function"):
        cn.NonholonomicSystem(BLADE, drift=lambda t, q, v: q)


def test_a_drift_of_the_time_needs_the_time():
    moving, q, v = cn.NonholonomicSystem(BLADE, drift=belt), np.zeros(3), np.ones(2)
    for function in (moving.velocity, moving.energy, moving.components):
        with pytest.raises(TypeError, match="t: the drift is a function of the time"):
            function(q, v if function != moving.components else np.zeros(3))
    with pytest.raises(TypeError, match="t: the drift is a function of the time"):
        moving.constraint_power(q, v, np.zeros(3))
    carried = cn.NonholonomicSystem(BLADE, drift=lambda q: belt(0.5, q))
    np.testing.assert_array_equal(carried.velocity(q, v), moving.velocity(q, v, 0.5))


@pytest.mark.further
@pytest.mark.parametrize("moving", [CARRIED, cn.NonholonomicSystem(BLADE, drift=belt)])
def test_a_system_with_a_drift_is_verified_with_it(moving):
    """The rows about moving constraints take the system's own drift."""
    subject = as_subject(moving, "belt", samples=1)
    assert subject.drift is moving.drift and subject.system.drift is None
    rows = {row.key: row for row in verify_subject(subject)}
    assert rows["Z moving"].ok and rows["Z moving power"].check.ok
    assert all(row.check.ok for row in rows.values())
