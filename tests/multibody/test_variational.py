"""Variational steps of trees by recursion: against the discrete action, momenta, order, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from discrete_action import inertias, potential, slopes
from mechanisms import MOVING, armed, assemble
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.checks import IntegrationError, NonFiniteError, PointError, ShapeError
from connections.multibody.definition.discrete_robot import DiscreteRobot
from connections.multibody.definition.host_kinematics import body_motions
from connections.multibody.program.stepping import stepped

H = 0.05


def robot(rng, kinds=MOVING):
    """All types of joints, in a tree with branches; the first one is free."""
    kinds = (mb.Free, *(kind for kind in kinds if kind is not mb.Free))
    return assemble(rng, kinds, [-1, 0, 1, 1, 3, 0, 5, 6][: len(kinds)])


@pytest.fixture(scope="module")
def floating():
    return robot(np.random.default_rng(3), (mb.Free, mb.Revolute, mb.Spherical))


def test_a_step_is_stationary_for_the_discrete_action(rng):
    """P_k = -D_1 L_d - (h/2) tau and P_{k+1} = D_2 L_d + (h/2) tau, with armature."""
    model = armed(robot(rng), rng)
    q0, v, tau = model.random(rng), rng.normal(size=model.nv), rng.normal(size=model.nv)
    P0 = mb.discrete_momentum(model, q0, mb.displace(model, q0, H * v), H)
    q1, P1 = mb.variational_step(model, q0, P0, H, tau)
    before, after = slopes(model, q0, q1, H)
    scale = np.abs(P0).max()
    np.testing.assert_allclose(before - 0.5 * H * tau, P0, atol=1e-8 * scale)
    np.testing.assert_allclose(after + 0.5 * H * tau, P1, atol=1e-8 * scale)
    assert np.abs(after - before).max() > 1e-3 * scale and np.abs(tau).max() * H > 1e-3
    g = mb.finite_differences(model, lambda q: np.array([potential(model, x) for x in q]), q0, 1e-5)
    found = mb.discrete_momentum(model, q0, q1, H)
    np.testing.assert_allclose(found, P0 + 0.5 * H * (tau - g), atol=1e-8 * scale)


def test_backwards_a_step_returns(floating, rng):
    q0, P0 = floating.random(rng), rng.normal(size=floating.nv)
    q1, P1 = mb.variational_step(floating, q0, P0, H)
    q, P = mb.variational_step(floating, q1, P1, -H)
    np.testing.assert_allclose(mb.difference(floating, q0, q), 0.0, atol=1e-13)
    np.testing.assert_allclose(P, P0, atol=1e-13)


def momentum(model, q, v):
    """H v, (nv,), by the bodies' Jacobians in NumPy."""
    A = body_motions(model.kinematics, q)[0]
    return np.einsum("bij,bik,bkl,l->j", A, inertias(model), A, v)


def spatial_momentum(model, q, v):
    """(R n + p x R f, R f) of the base's rows (n, f) of H v."""
    P = momentum(model, q, v)[:6]
    R = Rotation.from_quat(q[3:7]).as_matrix()
    return np.concatenate([R @ P[:3] + np.cross(q[:3], R @ P[3:]), R @ P[3:]])


def test_spatial_momentum_of_a_free_base_is_round_off(rng):
    """Over 2e4 steps, at every distance that the robot travels."""
    model = assemble(rng, (mb.Free, mb.Revolute, mb.Spherical), [-1, 0, 1], gravity=(0.0, 0.0, 0.0))
    q0, v0 = model.random(rng), rng.normal(size=model.nv)
    motion = model.system().simulate(q0, v0, np.linspace(0.0, 400.0, 5), method="variational", step=0.02)
    found = np.array([spatial_momentum(model, q, v) for q, v in zip(motion.q, motion.v, strict=True)])
    lengths = np.maximum(np.linalg.norm(motion.q[:, :3], axis=1), 1.0)[:, None]  # the arm of p x R f
    assert lengths.max() > 100.0
    np.testing.assert_array_less(np.abs(found - found[0]) / lengths, 1e-12 * np.abs(found[0]).max())
    assert np.ptp(motion.v[:, :6], axis=0).min() > 1e-2  # control: the base's own velocities are not constant


def test_a_control_that_is_not_finite_is_named(floating, rng):
    """Written in NumPy, which traces nothing."""

    def late(t, q, v):
        return np.where(t > 0.12, np.nan, 0.1) * v

    q0, v0, keep = floating.random(rng), rng.normal(size=floating.nv), {"method": "variational", "step": H}
    with pytest.raises(IntegrationError, match=r"control\(t, q, v\)\[0\] is nan at t = 0.125"):
        floating.system().simulate(q0, v0, [0.0, 0.3], late, **keep)


def test_orders_of_trees(floating, rng):
    """Differences between steps of h, h/2, h/4 fall by 4, and by 16 with Suzuki's composition."""
    q0, v0 = floating.random(rng), rng.normal(size=floating.nv)
    for order, expected in ((2, 2.0), (4, 4.0)):
        ends = [
            floating.system().simulate(q0, v0, [0.0, 0.2], method="variational", step=h, order=order)
            for h in (0.02, 0.01, 0.005)
        ]
        gaps = [
            np.abs(np.append(mb.difference(floating, a.q[-1], b.q[-1]), a.v[-1] - b.v[-1])).max()
            for a, b in zip(ends[:-1], ends[1:], strict=True)
        ]
        assert np.log2(gaps[0] / gaps[1]) == pytest.approx(expected, abs=0.15)


def test_simulate_makes_these_steps(floating, rng):
    """One call of compiled code for many steps, and loops of one's own; batches are single motions."""
    q0, v0 = floating.random(rng), rng.normal(size=(2, floating.nv))
    motion = floating.system().simulate(q0, v0, [0.0, 0.05, 0.2], method="variational", step=0.01)
    q, P = np.stack([q0, q0]), np.stack([momentum(floating, q0, v) for v in v0])
    for _ in range(20):
        q, P = mb.variational_step(floating, q, P, 0.01)
    np.testing.assert_allclose(mb.difference(floating, motion.q[:, -1], q), 0.0, atol=1e-12)
    one = floating.system().simulate(q0, v0[1], [0.0, 0.05, 0.2], method="variational", step=0.01)
    np.testing.assert_allclose(motion.q[1], one.q, rtol=0.0, atol=1e-13)
    none = floating.system().simulate(q0, v0[:0], [0.0, 0.05], method="variational", step=0.01)
    assert none.q.shape == (0, 2, floating.nq)
    assert motion.q.shape == (2, 3, floating.nq) and (motion.drift < 1e-3).all() and motion.drift.max() > 0.0


def test_newtons_method_takes_two_steps(floating, rng):
    """At 5 ms: at most 2.5 on average, of a matrix that is Newton's; one that is not takes many."""
    q0 = floating.random(rng)
    y = np.append(q0, momentum(floating, q0, rng.normal(size=floating.nv)))[None]
    found = stepped(floating, y, np.zeros((1, 2 * floating.nv)), np.ones(1), 0.005, 200)
    assert found.why[0] == 0 and found.steps[0] == 200
    assert found.last[0] <= 1.3 * 200  # the first steps, of which no velocities are known, take four


@pytest.mark.further
def test_a_falling_arm_takes_few_newton_steps():
    """In 1.5 s of its fall, to 50 rad/s, at 5 ms: 3.9 a step by a line through the last two velocities."""
    arm, rng = mb.example("arm"), np.random.default_rng(3)
    q0, v0 = arm.random(rng), rng.normal(size=arm.nv)
    y = np.append(q0, momentum(arm, q0, v0))[None]
    found = stepped(arm, y, np.zeros((1, 2 * arm.nv)), np.ones(1), 0.005, 300)
    assert found.why[0] == 0 and np.abs(found.guess[0, : arm.nv]).max() > 20.0
    assert found.last[0] <= 2.5 * 300


@pytest.mark.parametrize("kind", [mb.Revolute, mb.Prismatic])
def test_a_force_that_changes_with_the_velocity(kind):
    """xddot = -2 d x' + 1 about one axis, by hand: x_{k+1} - x_k = h u with the damping at u; order 2."""
    mechanism = mb.Mechanism()
    mechanism.add_body("a", 1.0, (0.0, 0.0, 0.0), np.eye(3))
    mechanism.add_joint("j", "world", "a", kind((0.0, 0.0, 1.0)))
    model, d, h, x, P = mechanism.build(gravity=(0.0, 0.0, 0.0)), 30.0, 0.1, 0.0, 1.0
    motion = model.system().simulate(
        [0.0], [1.0], [0.0, h, 2 * h], lambda t, q, v: 1.0 + 0.0 * t - d * v, method="variational", step=h
    )
    for _ in range(2):  # u = P + (h/2) (1 - d u), P' = u + (h/2) (1 - d u)
        u = (P + 0.5 * h) / (1.0 + 0.5 * h * d)
        x, P = x + h * u, u + 0.5 * h * (1.0 - d * u)
    np.testing.assert_allclose([motion.q[-1, 0], motion.v[-1, 0]], [x, P], rtol=1e-12)


@pytest.mark.parametrize("order", [2, 4])
def test_forces_of_time_are_those_of_the_parts_of_a_step(order):
    """2 qddot = sin 3t by hand; of order two and four, for a clock at each part's ends."""
    exact, errors = [2.0 * (1.0 + 1.0 / 6.0) - np.sin(6.0) / 18.0, 1.0 + (1.0 - np.cos(6.0)) / 6.0], []
    for h in (0.1, 0.05):
        steps = {"method": "variational", "step": h, "order": order}
        motion = (
            hinge()
            .system()
            .simulate([0.0], [1.0], [0.0, 2.0], lambda t, q, v: np.sin(3.0 * t) + 0.0 * v, **steps)
        )
        errors.append(np.abs([motion.q[-1, 0] - exact[0], motion.v[-1, 0] - exact[1]]).max())
    assert errors[0] < {2: 1e-2, 4: 1e-4}[order]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.2)


def test_forces_inside_jit_are_those_of_both_ends():
    """By the derivatives of the action; by hand: 2 u = P + (h/2) F(t, u), P' = 2 u + (h/2) F(t + h, u)."""
    robot, t, h = hinge(), 1.0, 0.25
    traced = DiscreteRobot(robot.definition.system, robot, lambda t, q, v: jnp.array([1.0]) * t**2 - 0.1 * v)
    q, P, why = jax.jit(lambda P: traced.step_at(t, h, jnp.zeros(1), P, False))(jnp.ones(1))
    u = (1.0 + 0.5 * h * t**2) / (2.0 + 0.5 * h * 0.1)
    assert why == 0
    np.testing.assert_allclose(
        [q[0], P[0]], [h * u, 2.0 * u + 0.5 * h * ((t + h) ** 2 - 0.1 * u)], rtol=1e-12
    )


@pytest.mark.parametrize("count", [4096, 4097, 9000])
def test_as_many_steps_as_there_are_between_two_times(count):
    """Free, q = v t: one step more or less would be 1e-3 off; more than 4,096 are made in several calls."""
    times = np.array([0.0, 1.0, 1.0 + count, 2.0 + count]) * 1e-3
    motion = hinge().system().simulate([0.0], [1.0], times, method="variational", step=1e-3)
    np.testing.assert_allclose(motion.q[:, 0], times, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(motion.v, 1.0, rtol=1e-12)


@pytest.mark.further
def test_the_energy_of_a_regular_motion_has_no_trend():
    """A line through 2e5 steps of a double pendulum: under a thousandth of the band; Euler leaves it.

    Of a chaotic motion such a line has a standard error of two thousandths, however exact the steps are.
    """
    mechanism, below = mb.Mechanism(), np.eye(4)
    below[2, 3] = -1.0
    for name, above, place in (("a", "world", np.eye(4)), ("b", "a", below)):
        mechanism.add_body(name, 1.0, (0.0, 0.0, -0.5), np.diag([0.08, 0.08, 0.001]))
        mechanism.add_joint(f"to {name}", above, name, mb.Revolute((0.0, 1.0, 0.0)), place)
    system, h = mechanism.build().system(), 0.01
    times = np.arange(0, 200_001, 50) * h
    motion = system.simulate([1.0, -0.5], [0.0, 0.0], times, method="variational", step=h)
    energy = np.asarray(system.energy(motion.q, motion.v))
    assert 1e-3 < np.ptp(energy) < 1e-2
    assert abs(np.polyfit(times, energy, 1)[0] * times[-1]) < 1e-3 * np.ptp(energy)
    q, v = np.array([1.0, -0.5]), np.zeros(2)
    for _ in range(100):
        q, v = q + h * v, v + h * np.asarray(system.forward_dynamics(q, v, np.zeros(2)))
    assert float(system.energy(q, v)) > energy[0] + 10.0 * np.ptp(energy)


@pytest.mark.further
def test_motions_are_those_of_dop853(rng):
    """All types of joints, armature, a control: order 2 and 4 beside the other method."""
    for model, control in (
        (armed(robot(rng), rng), None),
        (robot(rng), lambda t, q, v: -0.3 * v + np.sin(3.0 * t)),
    ):
        q0, v0 = model.random(rng), 0.5 * rng.normal(size=model.nv)
        exact = model.system().simulate(q0, v0, [0.0, 0.1], control)
        for order in (2, 4) if control is None else (2,):
            errors = []
            for h in (0.01, 0.005):
                steps = {"method": "variational", "step": h, "order": order}
                found = model.system().simulate(q0, v0, [0.0, 0.1], control, **steps)
                gap = mb.difference(model, exact.q[-1], found.q[-1]), exact.v[-1] - found.v[-1]
                errors.append(np.abs(np.append(*gap)).max())
            assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.3)


def test_bad_input_of_steps_is_named(floating, rng):
    q, P = floating.random(rng), np.zeros((3, floating.nv))
    with pytest.raises(ValueError, match="h: expected the length of a step"):
        mb.variational_step(floating, q, P, 0.0)
    with pytest.raises(NonFiniteError, match="P"):
        mb.variational_step(floating, q, np.nan * P, 0.1)
    with pytest.raises(ShapeError, match="P"):
        mb.variational_step(floating, q, P[:, 1:], 0.1)
    P[1, 0] = 1e3
    with pytest.raises(IntegrationError, match=r"variational_step \[1\]: .* in a step of h = 0\.1 from q"):
        mb.variational_step(floating, q, P, 0.1)
    fast = np.zeros(floating.nv)
    fast[0] = 12.0
    with pytest.raises(
        IntegrationError, match=r"(?s)no step of 0\.5 from t = 0, q = .*there step=.* would do"
    ):
        floating.system().simulate(q, fast, [0.0, 0.5], method="variational", step=0.5)


def pendulums(count):
    """Equal rods that hang on one another."""
    mechanism, below = mb.Mechanism(), np.eye(4)
    for k in range(count):
        mechanism.add_body(f"b{k}", 1.0, (0.0, 0.0, -0.5), np.eye(3))
        above = f"b{k - 1}" if k else "world"
        mechanism.add_joint(f"j{k}", above, f"b{k}", mb.Revolute((0.0, 1.0, 0.0)), below.copy())
        below[2, 3] = -1.0
    return mechanism.build()


def until_refused(system, q, v, times, **options):
    """A motion, or what there is of it, and whether it is whole."""
    try:
        return system.simulate(q, v, times, method="variational", **options), True
    except IntegrationError as error:
        assert "step=" in str(error) and "would do" in str(error)
        return error.motion, False


def gaps_to_dop853(system, motion, h):
    """By how much each step ends elsewhere than DOP853 does from its beginning, rad."""
    q, v = np.asarray(motion.q), np.asarray(motion.v)
    return np.abs(q[1:] - system.simulate(q[:-1], v[:-1], [0.0, h]).q[:, 1]).max(axis=1)


def test_no_step_moves_a_joint_by_whole_turns():
    """Two and three rods at coarse steps, beside DOP853, step by step: the same turn, or an error."""
    system, h = pendulums(2).system(), 0.2
    motion, _ = until_refused(system, [3.0, -1.0], [0.0, 0.0], np.arange(0.0, 20.0, h), step=h)
    assert len(motion.times) > 10
    gaps, ways = gaps_to_dop853(system, motion, h), np.abs(np.diff(motion.q, axis=0)).max(axis=1)
    assert gaps.max() < 1.0 and ways.max() < np.pi
    system, h = pendulums(3).system(), 0.1
    q, v = np.random.default_rng(13).uniform(-3.0, 3.0, 3), 3.0 * np.random.default_rng(13).normal(size=3)
    motion, _ = until_refused(system, q, v, np.arange(51) * h, step=h)
    assert len(motion.times) > 10 and gaps_to_dop853(system, motion, h).max() < 1.0


@pytest.mark.parametrize("h", [0.1, 0.05])
def test_random_motions_of_an_arm_are_right_or_refused(h):
    """Twenty, until a step is too long for them: no step ends a turn away from DOP853's."""
    arm = mb.example("arm")
    system, steps, refused = arm.system(), 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        q, v = rng.uniform(-3.0, 3.0, arm.nq), (0.3 if seed % 2 else 3.0) * rng.normal(size=arm.nv)
        motion, whole = until_refused(system, q, v, np.arange(31) * h, step=h)
        refused += not whole
        if motion is not None and len(motion.times) > 1:
            steps += len(motion.times) - 1
            assert gaps_to_dop853(system, motion, h).max() < 2.5, seed
    assert steps > 50 and refused > 5


def test_under_a_control_no_step_moves_a_joint_by_whole_turns():
    """Two rods with damping and a torque of time, at 0.2 s: beside DOP853, until a step is refused."""
    system, h = pendulums(2).system(), 0.2

    def torque(t, q, v):
        return -0.1 * v + np.sin(t)

    for seed in range(6):
        rng = np.random.default_rng(seed)
        q, v = rng.uniform(-3.0, 3.0, 2), 4.0 * rng.normal(size=2)
        motion, _ = until_refused(system, q, v, np.arange(21) * h, control=torque, step=h)
        for k in range(len(motion.times) - 1 if motion is not None else 0):
            times = motion.times[k : k + 2]
            assert (
                np.abs(system.simulate(motion.q[k], motion.v[k], times, torque).q[1] - motion.q[k + 1]).max()
                < 1.5
            )


def test_a_joint_that_turns_against_its_parent_is_seen():
    """Two bodies on one axis turn by 2 rad there and back: by less than half a turn, but their joint."""
    mechanism = mb.Mechanism()
    for name, above in (("a", "world"), ("b", "a")):
        mechanism.add_body(name, 1.0, (0.0, 0.0, 0.0), np.eye(3))
        mechanism.add_joint(f"to {name}", above, name, mb.Revolute((0.0, 0.0, 1.0)))
    robot, q, h = mechanism.build(gravity=(0.0, 0.0, 0.0)), np.zeros(2), 0.1
    H = np.array([[2.0, 1.0], [1.0, 1.0]])
    end, _ = mb.variational_step(robot, q, H @ [-15.0, 30.0], h)
    np.testing.assert_allclose(end, [-1.5, 3.0], rtol=1e-12)
    with pytest.raises(IntegrationError, match="the angle of a joint turns by half a turn or more"):
        mb.variational_step(robot, q, H @ [-20.0, 40.0], h)
    end, _ = jax.jit(lambda P: mb.variational_step(robot, q, P, h))(H @ [-20.0, 40.0])
    assert np.isnan(end).all()


def hinge(kind=mb.Revolute):
    """A body of inertia 2 kg m^2 about its axis."""
    mechanism = mb.Mechanism()
    mechanism.add_body("a", 1.0, (0.0, 0.0, 0.0), 2.0 * np.eye(3))
    mechanism.add_joint("j", "world", "a", kind((0.0, 0.0, 1.0)))
    return mechanism.build(gravity=(0.0, 0.0, 0.0))


@pytest.mark.parametrize("way", [3.1, -3.1, 3.2, 7.0, -7.0, 13.0, 6.0 * np.pi])
def test_the_discrete_momentum_of_a_hinge(way):
    """I (q1 - q0) / h by hand for less than half a turn; beyond, an error outside of JAX and NaN inside."""
    robot, q0, h = hinge(), np.array([0.3]), 0.5
    inside = jax.jit(lambda q1: mb.discrete_momentum(robot, q0, q1, h))
    slope = jax.jit(jax.jacfwd(lambda q1: mb.discrete_momentum(robot, q0, q1, h)))
    if abs(way) < np.pi:
        for momentum in (inside(q0 + way), mb.discrete_momentum(robot, q0, q0 + way, h)):
            np.testing.assert_allclose(momentum, 2.0 * way / h, rtol=1e-13)
        np.testing.assert_allclose(slope(q0 + way), [[2.0 / h]], rtol=1e-13)
    else:
        with pytest.raises(
            PointError, match="q1: a body or the angle of a joint turns by half a turn or more"
        ):
            mb.discrete_momentum(robot, q0, q0 + way, h)
        assert np.isnan(inside(q0 + way)).all() and np.isnan(slope(q0 + way)).all()


def test_the_discrete_momentum_of_ways_that_are_too_long_names_the_row():
    robot, q0 = hinge(), np.zeros((3, 1))
    with pytest.raises(PointError, match=r"q1 \[1\]"):
        mb.discrete_momentum(robot, q0, [[1.0], [13.0], [7.0]], 0.5)
    inside = jax.jit(lambda q1: mb.discrete_momentum(robot, q0, q1, 0.5))(jnp.array([[1.0], [13.0], [-1.0]]))
    np.testing.assert_allclose(inside, [[4.0], [np.nan], [-4.0]], rtol=1e-13)


def test_the_discrete_momentum_of_a_ball_is_that_of_the_shorter_way():
    """A quaternion does not count turns; the axis is fixed, so that the momentum is I angle / h."""
    mechanism = mb.Mechanism()
    mechanism.add_body("a", 1.0, (0.0, 0.0, 0.0), 2.0 * np.eye(3))
    mechanism.add_joint("ball", "world", "a", mb.Spherical())
    robot, q0 = mechanism.build(gravity=(0.0, 0.0, 0.0)), np.array([0.0, 0.0, 0.0, 1.0])
    for angle, way in ((3.0, 3.0), (4.0, 4.0 - 2.0 * np.pi)):
        q1 = np.array([np.sin(angle / 2), 0.0, 0.0, np.cos(angle / 2)])
        for momentum in (
            mb.discrete_momentum(robot, q0, q1, 0.5),
            jax.jit(lambda q1: mb.discrete_momentum(robot, q0, q1, 0.5))(q1),
        ):
            np.testing.assert_allclose(momentum, [2.0 * way / 0.5, 0.0, 0.0], atol=1e-13)


@pytest.mark.further
def test_inside_jit_steps_are_those_of_the_recursion():
    """With a control, which is by the derivatives of the action, too; gradients are those of the motion."""
    mechanism = mb.Mechanism()
    mechanism.add_body("a", 1.0, (0.1, 0.0, -0.5), np.eye(3))
    mechanism.add_body("b", 0.7, (0.0, 0.2, 0.1), 0.5 * np.eye(3))
    mechanism.add_joint("ball", "world", "a", mb.Spherical())
    mechanism.add_joint("hinge", "a", "b", mb.Revolute((0.0, 1.0, 0.0)))
    system = armed(mechanism.build(), np.random.default_rng(1), 1.0).system()
    q0, v0, times = np.array([0.0, 0.6, 0.0, 0.8, 0.3]), np.array([0.5, -0.4, 1.0, 2.0]), [0.0, 0.1, 0.2]

    def motion(v, control=None):
        return system.simulate(q0, v, times, control, method="variational", step=0.05)

    def damped(v):
        return motion(v, lambda t, q, v: -0.5 * v).q

    np.testing.assert_allclose(jax.jit(damped)(jnp.asarray(v0)), damped(v0), atol=1e-12)
    here, inside = motion(v0), jax.jit(motion)(jnp.asarray(v0))
    np.testing.assert_allclose(inside.q, here.q, atol=1e-12)
    np.testing.assert_allclose(inside.v, here.v, atol=1e-11)
    np.testing.assert_allclose(inside.drift, here.drift, atol=1e-11)
    _, slope = jax.jit(lambda v: jax.jvp(lambda v: motion(v).v[-1], (v,), (jnp.eye(4)[2],)))(jnp.asarray(v0))
    e = 1e-5 * np.eye(4)[2]
    np.testing.assert_allclose(slope, (motion(v0 + e).v[-1] - motion(v0 - e).v[-1]) / 2e-5, atol=1e-8)
