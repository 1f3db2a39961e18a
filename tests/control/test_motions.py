"""What closed loops and observers say of a motion besides q and v: each quantity by another route."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pages import run_page
from scipy.spatial.transform import Rotation

import connections as cn
from connections.control import (
    AccelerationReference,
    AdaptiveController,
    AdaptiveLoop,
    ClosedLoop,
    FieldReference,
    LinearlyParametrizedSystem,
    MomentumObserver,
    PassivityController,
    submanifold_reference,
    task_reference,
    trajectory_reference,
)
from connections.geometry.rigid.rotations import quaternion_exponential

FRAME, SO3 = cn.CoordinateFrame(2), cn.SO3Frame()
METRIC = cn.MatrixMetric(FRAME, lambda q: jnp.array([[3.0 + jnp.cos(q[1]), 0.4], [0.4, 1.0]]))
PLANT = cn.MechanicalSystem(METRIC, potential=lambda q: jnp.sin(q[0]))
START, TIMES = (np.array([0.5, -0.8]), np.array([0.2, 1.0])), np.linspace(0.0, 2.0, 41)


def goal(t):
    return jnp.stack([jnp.sin(t), 0.5 * jnp.cos(2.0 * t)])


def follow(reference, plant=PLANT, start=START, **options):
    return ClosedLoop(plant, PassivityController(plant, 5.0), reference).simulate(*start, TIMES, **options)


def test_error_in_coordinates():
    motion = follow(trajectory_reference(FRAME, goal, 2.0))
    q_d = np.stack([np.sin(TIMES), 0.5 * np.cos(2.0 * TIMES)], axis=1)
    np.testing.assert_allclose(motion.q_d, q_d, atol=1e-14)
    np.testing.assert_allclose(motion.error, motion.q - q_d, atol=1e-14)
    assert np.abs(motion.error - (motion.q - np.roll(q_d, 1, axis=0))).max() > 1e-2  # negative control
    assert np.abs(motion.error[-1]).max() < 0.1 < np.abs(motion.error[0]).max()


def test_error_of_a_rotation_is_that_of_scipy():
    """The rotation vector of R_d^T R, in desired body axes; R R_d^T is the negative control."""
    body = cn.MechanicalSystem(cn.ConstantMetric(SO3, np.diag([1.0, 1.6, 2.1])))
    turning = lambda t: quaternion_exponential(jnp.stack([0.3 * t, jnp.sin(t), 0.2 * t**2]))  # noqa: E731
    motion = follow(trajectory_reference(SO3, turning, 1.5), body, ([0.0, 0.6, 0.0, 0.8], [0.5, -1.0, 0.3]))
    R, R_d = (Rotation.from_quat(x) for x in (motion.q, motion.q_d))
    np.testing.assert_allclose(motion.error, (R_d.inv() * R).as_rotvec(), atol=1e-12)
    assert np.abs(motion.error - (R * R_d.inv()).as_rotvec()).max() > 1e-2
    wanted = np.stack([0.3 * TIMES, np.sin(TIMES), 0.2 * TIMES**2], axis=1)
    np.testing.assert_allclose(R_d.as_matrix(), Rotation.from_rotvec(wanted).as_matrix(), atol=1e-12)


@pytest.mark.further
def test_errors_of_tasks_and_submanifolds():
    """In the components of the task; there is no desired configuration."""
    tip = lambda q: jnp.stack([jnp.cos(q[0]) + jnp.cos(q[0] + q[1])])  # noqa: E731
    motion = follow(task_reference(FRAME, tip, lambda t: jnp.stack([1.5 + 0.1 * jnp.sin(t)]), 2.0))
    a, b = motion.q.T
    expected = np.cos(a) + np.cos(a + b) - 1.5 - 0.1 * np.sin(TIMES)
    np.testing.assert_allclose(motion.error, expected[:, None], atol=1e-13)
    assert motion.q_d is None
    circle = follow(submanifold_reference(FRAME, lambda q: jnp.stack([q @ q - 1.0]), 2.0))
    np.testing.assert_allclose(circle.error[:, 0], np.sum(circle.q**2, axis=1) - 1.0, atol=1e-13)
    assert circle.q_d is None and np.abs(circle.error[-1]) < 0.3 * np.abs(circle.error[0])


@pytest.mark.further
def test_errors_of_samples():
    samples = np.linspace(0.0, 2.0, 81)
    points = np.asarray(jax.vmap(goal)(samples))
    motion = follow(trajectory_reference(FRAME, (samples, points), 2.0))
    np.testing.assert_allclose(motion.q_d, points[::2], atol=1e-12)
    np.testing.assert_allclose(motion.error, motion.q - points[::2], atol=1e-12)


@pytest.mark.further
def test_what_no_reference_says():
    pulled = AccelerationReference(FRAME, lambda t, q, v: -q, 2.0)
    field = FieldReference(FRAME, lambda t, q: -q)
    for reference in (pulled, field):
        motion = follow(reference)
        assert motion.q_d is None and motion.error is None
        assert "error" not in repr(motion) and len(motion.plot().axes) == 4


def test_a_field_may_say_it():
    desired, error = lambda t: jnp.zeros(2), lambda t, q: 3.0 * q[:1]
    motion = follow(FieldReference(FRAME, lambda t, q: -q, desired=desired, error=error))
    np.testing.assert_array_equal(motion.q_d, np.zeros((41, 2)))
    np.testing.assert_allclose(motion.error, 3.0 * motion.q[:, :1], rtol=1e-14)
    for wrong in ({"desired": lambda t: jnp.zeros(3)}, {"error": lambda t, q: 1.0}):
        with pytest.raises(cn.checks.ShapeError, match=next(iter(wrong))):
            FieldReference(FRAME, lambda t, q: -q, **wrong)
    with pytest.raises(TypeError, match="desired"):
        FieldReference(FRAME, lambda t, q: -q, desired=np.zeros(2))


@pytest.mark.further
def test_a_sweep_has_its_betas_errors_and_goals(rng):
    frame = cn.CoordinateFrame(3)
    plant = cn.MechanicalSystem(cn.ConstantMetric(frame, np.eye(3)))
    reference = trajectory_reference(frame, lambda t: jnp.sin(t + jnp.arange(3.0)), 2.0)
    loop = ClosedLoop(plant, PassivityController(plant, 5.0), reference)
    betas, start = np.array([[0.0], [-4.0]]), (0.3 * rng.normal(size=3), rng.normal(size=3))
    motion = loop.sweep(betas, *start, TIMES)
    np.testing.assert_array_equal(motion.betas, betas)
    betas[:] = 7.0  # which the motion does not see
    np.testing.assert_allclose(motion.error, motion.q - np.sin(TIMES[:, None] + np.arange(3.0)), atol=1e-13)
    for k, beta in enumerate((0.0, -4.0)):
        one, alone = motion.member(k), loop.member([beta]).simulate(*start, TIMES)
        np.testing.assert_array_equal(one.betas, [beta])
        np.testing.assert_allclose(one.error, alone.error, atol=1e-9)
    assert np.abs(motion.error[0] - motion.error[1]).max() > 1e-2
    assert loop.simulate(*start, TIMES).betas is None


def adaptive_loop(forces=None):
    def arm(pi):
        coupling = lambda q: pi[1] * jnp.cos(q[1])  # noqa: E731
        mass = lambda q: jnp.array(  # noqa: E731
            [[pi[0] + 2.0 * coupling(q), pi[2] + coupling(q)], [pi[2] + coupling(q), pi[2]]]
        )
        return cn.MechanicalSystem(cn.MatrixMetric(FRAME, mass), lambda q: pi[1] * jnp.sin(q[0]), forces)

    family = LinearlyParametrizedSystem(arm, [3.2, 0.9, 1.1])
    controller = AdaptiveController(family, 5.0, 0.7)
    return AdaptiveLoop(controller, [3.0, 0.8, 1.0], trajectory_reference(FRAME, goal, 2.0))


@pytest.mark.further
@pytest.mark.parametrize("forces", [None, lambda t, q, v: jnp.stack([jnp.cos(t), -0.5 * v[1]])])
def test_the_rate_of_the_adaptive_lyapunov_function(forces):
    """Against differences of V along the motion, of fourth order; without the forces' power it is off."""
    loop, times = adaptive_loop(forces), np.linspace(0.0, 2.0, 2001)
    motion = loop.simulate(*START, [2.0, 0.5, 1.5], times)
    V, h = motion.lyapunov, times[1]
    slopes = (V[:-4] - 8.0 * V[1:-3] + 8.0 * V[3:-1] - V[4:]) / (12.0 * h)
    np.testing.assert_allclose(motion.lyapunov_rate[2:-2], slopes, atol=1e-6 * np.abs(slopes).max())
    damping = -5.0 * np.sum(motion.s**2, axis=1)[2:-2]
    if forces is not None:
        assert np.abs(damping - slopes).max() > 1e-2 * np.abs(slopes).max()
    np.testing.assert_allclose(motion.error, motion.q - motion.q_d, atol=1e-14)


@pytest.mark.further
def test_v_r_and_its_rate_in_an_adaptive_motion():
    motion = adaptive_loop().simulate(*START, [2.0, 0.5, 1.5], TIMES)
    speed = np.stack([np.cos(TIMES), -np.sin(2.0 * TIMES)], axis=1)
    np.testing.assert_allclose(motion.v_r, speed - 2.0 * motion.error, atol=1e-12)
    np.testing.assert_array_equal(motion.s, motion.v - motion.v_r)


def test_what_an_observer_says():
    """p = H v, and the control that it knows, by hand."""
    model = cn.MechanicalSystem(METRIC)
    push = lambda t, q, v: jnp.stack([jnp.sin(t), -v[0]])  # noqa: E731
    motion = MomentumObserver(model, 5.0).simulate(PLANT, *START, TIMES, push)
    H = np.array([[[3.0 + np.cos(b), 0.4], [0.4, 1.0]] for b in motion.q[:, 1]])
    np.testing.assert_allclose(motion.momentum, np.einsum("tij,tj->ti", H, motion.v), atol=1e-12)
    assert np.abs(motion.momentum - motion.v).max() > 0.1  # control: H counts
    np.testing.assert_allclose(motion.tau, np.stack([np.sin(TIMES), -motion.v[:, 0]], axis=1), atol=1e-12)
    assert np.abs(motion.residual[-1, 0] + np.cos(motion.q[-1, 0])) < 0.3  # the potential it does not know


@pytest.mark.further
def test_the_page() -> None:
    run_page("control.md", blocks=2, assertions=4)
