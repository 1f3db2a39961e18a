"""Reference velocities: the error they promise to damp, their rate along the motion, their errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from scipy.integrate import solve_ivp

import connections as cn
from connections.checks import FrameError, NonFiniteError, PointError, ShapeError
from connections.control import (
    AccelerationReference,
    ClosedLoop,
    FieldReference,
    PassivityController,
    configuration_error_at,
    submanifold_reference,
    task_reference,
    trajectory_reference,
)
from connections.control.errors import GainError
from connections.geometry.rigid.rotations import quaternion_exponential, quaternion_product

SO3, SE3 = cn.SO3Frame(), cn.SE3Frame()


def curve(t):
    return jnp.stack([jnp.sin(t), 0.5 * t, jnp.cos(2.0 * t)])


def turning(t):
    first = quaternion_exponential(jnp.stack([0.3 * t, jnp.sin(t), 0.2 * t**2]))
    return quaternion_product(first, quaternion_exponential(jnp.array([0.0, 0.4, 1.0]) * t))


def pose(t):
    return jnp.concatenate([curve(t), turning(t)])


def random_quaternion(rng):
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def error_rate(frame, trajectory, reference, t, q):
    """d/dt e(q, q_d(t)) when q moves with the reference velocity."""
    q_dot = frame.matrix(q) @ reference.velocity(t, q)
    error = lambda time, p: configuration_error_at(frame, p, trajectory(time))  # noqa: E731
    return jax.jvp(error, (jnp.asarray(t), jnp.asarray(q)), (1.0, q_dot))


def test_trajectory_in_coordinates_is_the_law_of_the_paper_in_any_frame(curved, rng):
    Lambda, q, t = np.diag([1.0, 2.0, 0.5]) + 0.1, rng.normal(size=3), 0.7
    q_d, q_d_dot = jax.jvp(curve, (t,), (1.0,))
    expected = q_d_dot - Lambda @ (q - q_d)
    for frame in (curved.frame, cn.CoordinateFrame(3)):
        v_r = trajectory_reference(frame, curve, Lambda).velocity(t, q)
        np.testing.assert_allclose(frame.matrix(q) @ v_r, expected, rtol=1e-12)


def test_only_the_minus_sign_converges():
    frame, t = cn.CoordinateFrame(3), np.array([0.0, 8.0])
    minus = trajectory_reference(frame, curve, 1.0)
    plus = FieldReference(frame, lambda t, q: 2.0 * jax.jvp(curve, (t,), (1.0,))[1] - minus.field(t, q))
    ends = []
    for reference in (minus, plus):
        rhs = jax.jit(lambda s, q, r=reference: r.field(jnp.asarray(s), jnp.asarray(q)))
        solution = solve_ivp(rhs, t, np.ones(3), rtol=1e-9, atol=1e-9)
        ends.append(np.linalg.norm(solution.y[:, -1] - curve(t[-1])))
    assert ends[0] < 1e-2 < 1e2 < ends[1]


@pytest.mark.parametrize(
    ("frame", "trajectory"),
    [
        pytest.param(SO3, turning, id="rotations"),
        further(SE3, pose, id="poses"),
        further(
            cn.ProductFrame(SE3, cn.CoordinateFrame(3)),
            lambda t: jnp.concatenate([pose(t), curve(t)]),
            id="product",
        ),
    ],
)
def test_trajectory_on_groups_damps_the_error_exactly(frame, trajectory, rng):
    q = rng.normal(size=frame.ambient_dim)
    q = np.asarray(frame.project_at(jnp.asarray(q)))
    Lambda = np.eye(frame.dim) + 0.2 * np.diag(np.arange(frame.dim))
    reference = trajectory_reference(frame, trajectory, Lambda)
    for t in (0.0, 0.9, 2.3):
        error, rate = error_rate(frame, trajectory, reference, t, q)
        np.testing.assert_allclose(rate, -Lambda @ error, rtol=1e-9, atol=1e-9)
        naive = frame.velocity_at(trajectory(t), jax.jvp(trajectory, (t,), (1.0,))[1]) - Lambda @ error
        assert np.linalg.norm(naive - reference.velocity(t, q)) > 1e-2  # the feedforward is transported


def test_rotation_error_is_the_logarithm_and_ignores_the_sign_of_the_quaternion(rng):
    q_d, turn = random_quaternion(rng), np.array([0.4, -1.2, 0.9])
    q = quaternion_product(jnp.asarray(q_d), quaternion_exponential(jnp.asarray(turn)))
    np.testing.assert_allclose(configuration_error_at(SO3, q, q_d), turn, rtol=1e-12)
    np.testing.assert_allclose(configuration_error_at(SO3, -q, q_d), turn, rtol=1e-12)
    tiny = quaternion_product(jnp.asarray(q_d), quaternion_exponential(1e-5 * jnp.asarray(turn)))
    for q in (tiny, -tiny):
        np.testing.assert_allclose(configuration_error_at(SO3, q, q_d), 1e-5 * turn, rtol=1e-9)
        assert np.max(np.abs(configuration_error_at(SO3, q_d, q) - 1e-5 * turn)) > 1e-6  # control: exchanged


def test_rate_along_the_motion_is_the_derivative_of_the_components(curved, rng):
    reference = trajectory_reference(curved.frame, curve, 1.3)
    q, v, t, h = rng.normal(size=3), rng.normal(size=3), 0.4, 1e-3
    q_dot = np.asarray(curved.frame.matrix(q) @ v)

    def components(step):
        return np.asarray(reference.velocity(t + step, q + step * q_dot))

    difference = (8 * (components(h) - components(-h)) - components(2 * h) + components(-2 * h)) / (12 * h)
    rate = np.asarray(reference.acceleration(t, q, v))
    np.testing.assert_allclose(rate, difference, rtol=1e-8)
    confused = reference.acceleration(
        t, q, np.asarray(curved.frame.velocity_at(jnp.asarray(q), jnp.asarray(v)))
    )
    assert np.linalg.norm(rate - confused) > 1e-2  # v taken for qdot


def test_public_functions_broadcast(curved, rng):
    reference = trajectory_reference(curved.frame, curve, 1.0)
    q, v, t = rng.normal(size=(4, 1, 3)), rng.normal(size=(5, 3)), rng.normal(size=5)
    rates = reference.acceleration(t, q, v)
    assert rates.shape == (4, 5, 3)
    np.testing.assert_allclose(rates[2, 3], reference.acceleration(t[3], q[2, 0], v[3]), rtol=1e-12)


def circle(q):
    return jnp.array([q[0] ** 2 + q[1] ** 2 - 1.0, q[2]])


def swirl(t, q):
    return jnp.array([-q[1], q[0], 0.0])


def test_submanifold_is_attracting_and_the_tangential_part_is_followed(curved_metric, rng):
    frame, q = curved_metric.frame, np.array([0.9, -0.7, 0.3])
    for metric in (None, curved_metric):
        reference = submanifold_reference(frame, circle, [1.0, 3.0], swirl, metric)
        q_dot = frame.matrix(q) @ reference.velocity(0.0, q)
        rate = jax.jvp(circle, (jnp.asarray(q),), (q_dot,))[1]
        np.testing.assert_allclose(rate, -np.array([1.0, 3.0]) * circle(q), rtol=1e-12)
    on_it = np.array([0.6, 0.8, 0.0])
    plain = submanifold_reference(cn.CoordinateFrame(3), circle, 1.0, swirl)
    np.testing.assert_allclose(plain.velocity(0.0, on_it), swirl(0.0, on_it), atol=1e-14)


def test_with_the_metric_the_field_is_the_same_in_every_frame(curved_metric):
    change = lambda q: jnp.array([[2.0, 0.3, 0.0], [0.0, 1.0 + 0.1 * q[0], 0.5], [0.1, 0.0, 0.7]])  # noqa: E731
    other, q = curved_metric.change(change), np.array([0.9, -0.7, 0.3])
    fields = {}
    for weighted in (True, False):
        fields[weighted] = [
            m.frame.matrix(q)
            @ submanifold_reference(m.frame, circle, 1.0, metric=m if weighted else None).velocity(0.0, q)
            for m in (curved_metric, other)
        ]
    np.testing.assert_allclose(*fields[True], rtol=1e-11)
    assert np.linalg.norm(fields[False][0] - fields[False][1]) > 1e-2


def test_task_space_error_decays(curved_metric):
    frame, q, t = curved_metric.frame, np.array([0.9, -0.7, 0.3]), 0.6
    task = lambda q: jnp.array([q[0] * q[1], jnp.sin(q[2])])  # noqa: E731
    goal = lambda t: jnp.array([jnp.sin(t), 0.3])  # noqa: E731
    v_r = task_reference(frame, task, goal, 2.0, metric=curved_metric).velocity(t, q)
    rate = jax.jvp(task, (jnp.asarray(q),), (frame.matrix(q) @ v_r,))[1]
    expected = np.array([np.cos(t), 0.0]) - 2.0 * (task(q) - goal(t))
    np.testing.assert_allclose(rate, expected, rtol=1e-12)
    confused = jax.jvp(task, (jnp.asarray(q),), (v_r,))[1]  # control: v taken for qdot
    assert np.linalg.norm(confused - expected) > 1e-2


def test_acceleration_level_follows_its_equation(curved, rng):
    q, v, v_r = rng.normal(size=(3, 3))
    reference = AccelerationReference(curved.frame, lambda t, q, v: -q - 2.0 * v + t, 1.5, initial=v_r)
    np.testing.assert_array_equal(reference.initial_state(q, v), v_r)
    rate = reference.acceleration_at(0.3, q, v, v_r)
    np.testing.assert_allclose(rate, -1.5 * (v_r - v) - q - 2.0 * v + 0.3, rtol=1e-13)
    later = reference.acceleration_at(0.4, q, v, v_r)  # control
    np.testing.assert_allclose(later - rate, 0.1, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda f: FieldReference(f, lambda t, q: q[:2]), ShapeError, "field"),
        (lambda f: FieldReference(f, 3.0), TypeError, "field"),
        (lambda f: trajectory_reference(f, lambda t: jnp.zeros(4), 1.0), ShapeError, "trajectory"),
        (
            lambda f: trajectory_reference(f, lambda t: jnp.full(3, jnp.nan), 1.0),
            NonFiniteError,
            "trajectory",
        ),
        (lambda f: trajectory_reference(f, curve, -1.0), GainError, "gain"),
        (lambda f: trajectory_reference(f, curve, np.ones(2)), ShapeError, "gain"),
        (lambda f: trajectory_reference(SO3, lambda t: jnp.ones(4), 1.0), PointError, "quaternion|unit|off"),
        (lambda f: submanifold_reference(f, lambda q: jnp.ones(4), 1.0), ShapeError, "constraint"),
        (lambda f: submanifold_reference(f, lambda q: q[0], 1.0), ShapeError, "constraint"),
        (lambda f: submanifold_reference(f, circle, 1.0, lambda t, q: q[:1]), ShapeError, "tangential"),
        (
            lambda f: submanifold_reference(f, circle, 1.0, metric=cn.ConstantMetric(SO3, np.eye(3))),
            FrameError,
            "metric",
        ),
        (lambda f: task_reference(f, circle, lambda t: jnp.zeros(3), 1.0), ShapeError, "trajectory"),
        (lambda f: AccelerationReference(f, lambda t, q, v: v, 0.0), GainError, "gain"),
        (lambda f: AccelerationReference(f, lambda t, q, v: v[:2], 1.0), ShapeError, "acceleration"),
        (lambda f: AccelerationReference(f, lambda t, q, v: v, 1.0, [1.0, 2.0]), ShapeError, "initial"),
        (
            lambda f: AccelerationReference(f, lambda t, q, v: v, 1.0, [1.0, np.nan, 0.0]),
            NonFiniteError,
            "initial",
        ),
    ],
)
def test_bad_references_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make(cn.CoordinateFrame(3))


def test_bad_points_are_named(curved):
    reference = trajectory_reference(SO3, turning, 1.0)
    with pytest.raises(PointError):
        reference.velocity(0.0, np.ones(4))
    with pytest.raises(ShapeError, match="q"):
        reference.velocity(0.0, np.ones(3))
    with pytest.raises(NonFiniteError, match="t"):
        reference.velocity(np.nan, np.array([0.0, 0.0, 0.0, 1.0]))


# --- trajectories that are given by samples -----------------------------------------------------------------

SAMPLE_TIMES = np.linspace(0.0, 2.0, 41)


def samples_of(trajectory, times=SAMPLE_TIMES):
    return times, np.stack([trajectory(t) for t in times])


@pytest.mark.further
@pytest.mark.parametrize(
    ("frame", "trajectory"), [further(cn.CoordinateFrame(3), curve), (SO3, turning), further(SE3, pose)]
)
def test_samples_of_a_trajectory_stand_for_it(frame, trajectory, rng):
    q = np.asarray(frame.project_at(jnp.asarray(rng.normal(size=frame.ambient_dim))))
    v, t = rng.normal(size=frame.dim), np.array([0.31, 1.0, 1.72])
    exact = trajectory_reference(frame, trajectory, 1.3)
    times, points = samples_of(trajectory)
    if frame is SO3:
        points = points * (-1.0) ** np.arange(len(times))[:, None]
    for given in ((times, points), cn.SampledCurve(frame, times, points)):
        reference = trajectory_reference(frame, given, 1.3)
        np.testing.assert_allclose(reference.velocity(t, q), exact.velocity(t, q), atol=1e-5)
        np.testing.assert_allclose(reference.acceleration(t, q, v), exact.acceleration(t, q, v), atol=1e-3)


@pytest.mark.further
def test_samples_of_a_task(curved_metric):
    frame, q = curved_metric.frame, np.array([0.9, -0.7, 0.3])
    task = lambda q: jnp.array([q[0] * q[1], jnp.sin(q[2])])  # noqa: E731
    goal = lambda t: jnp.array([jnp.sin(t), 0.3 + 0.0 * t])  # noqa: E731
    exact, found = (task_reference(frame, task, given, 2.0) for given in (goal, samples_of(goal)))
    np.testing.assert_allclose(found.velocity(0.6, q), exact.velocity(0.6, q), atol=1e-7)
    with pytest.raises(ShapeError, match="trajectory points"):
        task_reference(frame, task, (SAMPLE_TIMES, np.zeros((41, 3))), 2.0)


@pytest.mark.further
def test_a_loop_follows_samples_and_ends_with_them(curved):
    start, law = (np.array([0.4, -0.3, 0.2]), np.zeros(3)), PassivityController(curved, 2.0)
    exact, loop = (
        ClosedLoop(curved, law, trajectory_reference(curved.frame, given, 1.0))
        for given in (curve, samples_of(curve))
    )
    times = np.array([0.0, 0.7, 2.0])
    np.testing.assert_allclose(loop.simulate(*start, times).q, exact.simulate(*start, times).q, atol=1e-6)
    message = r"times: 2.1 is outside the trajectory's samples \[0, 2\]"
    with pytest.raises(PointError, match=message):
        loop.simulate(*start, [0.0, 2.1])
    with pytest.raises(PointError, match="t: 2.1 is outside the trajectory's samples"):
        loop.reference.velocity([0.5, 2.1], start[0])
    beyond = loop.reference.velocity_at(jnp.asarray(2.1), jnp.asarray(start[0]), jnp.zeros(0))
    assert np.isnan(beyond).all()  # where nothing can be raised


def test_bad_trajectories_are_named():
    frame = cn.CoordinateFrame(3)
    with pytest.raises(TypeError, match="trajectory: expected a function of time or samples"):
        trajectory_reference(frame, np.zeros((41, 3)), 1.0)
    with pytest.raises(ShapeError, match="trajectory points"):
        trajectory_reference(frame, (SAMPLE_TIMES, np.zeros((2, 41, 3))), 1.0)
    with pytest.raises(PointError, match="quaternion"):
        trajectory_reference(SO3, (SAMPLE_TIMES, np.ones((41, 4))), 1.0)
