"""The law (13), its closed loop, the Lyapunov function (14) and the covariant form of Remark 5."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections.checks import FrameError, NonFiniteError, PointError, ShapeError
from connections.control import (
    AccelerationReference,
    ClosedLoop,
    FieldReference,
    PassivityController,
    submanifold_reference,
    trajectory_reference,
)
from connections.control.errors import GainError
from connections.geometry.rigid.rotations import quaternion_exponential, quaternion_product

TIMES, SPIN_TIMES = np.linspace(0.0, 6.0, 121), np.linspace(0.0, 12.0, 61)
GAIN = np.array([[2.0, 0.3, 0.0], [0.3, 1.5, 0.1], [0.0, 0.1, 2.5]])
START, START_VELOCITY = np.array([0.4, -0.3, 0.2]), np.array([0.5, -1.0, 0.8])
UPRIGHT = np.array([0.0, 0.0, 0.0, 1.0])


def curve(t):
    return 0.6 * jnp.stack([jnp.sin(t), jnp.cos(0.7 * t), jnp.sin(0.5 * t)])


def turning(t):
    first = quaternion_exponential(jnp.stack([0.8 * jnp.sin(t), 0.0 * t, 0.3 * t]))
    return quaternion_product(first, quaternion_exponential(jnp.array([0.0, 0.4, 0.3]) * t))


def wrong_model(metric, connection=None):
    """An estimate with 20 % less mass and a different potential."""
    lighter = cn.MatrixMetric(metric.frame, lambda q: 0.8 * metric.matrix_at(q))
    return cn.MechanicalSystem(lighter, lambda q: jnp.cos(q[0]), connection=connection)


@pytest.fixture(scope="module")
def exact_loop(curved):
    return ClosedLoop(
        curved, PassivityController(curved, GAIN), trajectory_reference(curved.frame, curve, 1.0)
    )


@pytest.fixture(scope="module")
def exact_motion(exact_loop):
    return exact_loop.simulate(START, START_VELOCITY, TIMES)


def test_a_traced_motion_is_a_motion(exact_loop):
    found = jax.eval_shape(exact_loop.simulate_at, START, START_VELOCITY, TIMES)
    assert found.q.shape == found.tau.shape == (len(TIMES), 3)


@pytest.fixture(scope="module")
def torsion_loop(curved_with_torsion):
    """A plant in an unknown wind, a wrong model, and torsion."""
    plant = cn.MechanicalSystem(
        curved_with_torsion.metric,
        curved_with_torsion.potential,
        lambda t, q, v: -0.2 * v + jnp.sin(t),
        curved_with_torsion.connection,
    )
    controller = PassivityController(wrong_model(plant.metric, plant.connection), GAIN)
    return ClosedLoop(plant, controller, trajectory_reference(plant.frame, curve, 1.0))


@pytest.fixture(scope="module")
def torsion_motion(torsion_loop):
    return torsion_loop.simulate(START, START_VELOCITY, TIMES)


def test_law_with_the_coriolis_matrix_formed(curved_with_torsion, rng):
    q, v, v_r, a_r = rng.normal(size=(4, 7, 3))
    system = curved_with_torsion
    tau = PassivityController(system, GAIN).torque(q, v, v_r, a_r)
    H, C, g = system.mass_matrix(q), system.coriolis_matrix(q, v), system.gravity(q)
    apply = lambda A, x: np.einsum("...ij,...j->...i", A, x)  # noqa: E731
    np.testing.assert_allclose(tau, apply(H, a_r) + apply(C, v_r) + g - (v - v_r) @ GAIN.T, rtol=1e-11)
    swapped = apply(H, a_r) + apply(system.coriolis_matrix(q, v_r), v) + g - (v - v_r) @ GAIN.T
    assert np.linalg.norm(tau - swapped) > 1e-2  # with torsion C(q, v) v_r is not C(q, v_r) v


@pytest.mark.further
def test_connection_of_the_law_can_be_chosen(curved, curved_with_torsion, rng):
    q, v, v_r, a_r = rng.normal(size=(4, 3))
    chosen = PassivityController(curved, 1.0, curved_with_torsion.connection).torque(q, v, v_r, a_r)
    direct = PassivityController(curved_with_torsion, 1.0).torque(q, v, v_r, a_r)
    np.testing.assert_allclose(chosen, direct, rtol=1e-13)
    assert np.linalg.norm(chosen - PassivityController(curved, 1.0).torque(q, v, v_r, a_r)) > 1e-2


def test_a_perfect_model_converges_and_the_lyapunov_function_falls(exact_loop, exact_motion):
    V = np.asarray(exact_motion.lyapunov)
    assert (np.diff(V) < 0.0).all()
    s = np.asarray(exact_motion.s)
    np.testing.assert_allclose(exact_motion.lyapunov_rate, -np.einsum("ti,ij,tj->t", s, GAIN, s), atol=1e-10)
    error = np.asarray(exact_motion.q) - np.asarray(jax.vmap(curve)(jnp.asarray(TIMES)))
    assert np.linalg.norm(error[-1]) < 0.02 * np.linalg.norm(error[0])


@pytest.mark.parametrize("name", ["exact_motion", "torsion_motion"])
def test_lyapunov_rate_is_the_derivative_along_the_motion(name, request):
    motion = request.getfixturevalue(name)
    V, rate, h = np.asarray(motion.lyapunov), np.asarray(motion.lyapunov_rate), TIMES[1]
    weights = np.array([-1.0, 9.0, -45.0, 0.0, 45.0, -9.0, 1.0]) / (60.0 * h)
    difference = np.convolve(V, weights[::-1], mode="valid")
    np.testing.assert_allclose(rate[3:-3], difference, atol=2e-5 * np.max(np.abs(rate)))


def rate_along_the_motion(loop, t, q, v):
    """dV/dt by the chain rule, with the plant's forward dynamics."""
    field = loop.reference.field

    def energy(time, point, velocity):
        return loop.lyapunov_at(point, velocity - field(time, point))

    tau = loop.torque_at(t, q, v, jnp.zeros(0))
    v_dot = loop.plant.forward_dynamics_at(q, v, tau, t)
    return jax.jvp(energy, (t, q, v), (1.0, loop.plant.frame.matrix_at(q) @ v, v_dot))[1]


def test_lyapunov_rate_needs_a_compatible_connection(torsion_loop, curved, curved_inadmissible, rng):
    t, q, v = jnp.asarray(0.8), jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.normal(size=3))
    stated = torsion_loop.lyapunov_rate_at(t, q, v, jnp.zeros(0))
    np.testing.assert_allclose(stated, rate_along_the_motion(torsion_loop, t, q, v), rtol=1e-10)
    bad = ClosedLoop(curved, PassivityController(curved_inadmissible, GAIN), torsion_loop.reference)
    s = v - torsion_loop.reference.velocity(t, q)
    assert abs(rate_along_the_motion(bad, t, q, v) + s @ GAIN @ s) > 1e-2


def test_covariant_form_holds_for_every_admissible_connection(exact_loop, torsion_loop, rng):
    for loop in (exact_loop, torsion_loop):
        for q, v in rng.normal(size=(3, 2, 3)):
            residual = loop.covariant_residual_at(jnp.asarray(0.6), jnp.asarray(q), jnp.asarray(v))
            np.testing.assert_allclose(residual, np.zeros(3), atol=1e-10)


def test_covariant_form_fails_for_a_connection_with_other_geodesics(
    exact_loop, curved_inadmissible, curved, rng
):
    loop = ClosedLoop(
        curved_inadmissible, PassivityController(curved_inadmissible, GAIN), exact_loop.reference
    )
    q, v = jnp.asarray(rng.normal(size=(2, 3)))
    assert np.linalg.norm(loop.covariant_residual_at(jnp.asarray(0.6), q, v)) > 1e-2


@pytest.fixture(scope="module")
def spin_loop(body):
    return ClosedLoop(body, PassivityController(body, 2.0), trajectory_reference(body.frame, turning, 1.5))


@pytest.mark.further
def test_spinning_body_tracks_a_rotation_and_keeps_its_quaternion(spin_loop):
    start = np.array([[0.6, 0.0, 0.0, 0.8], [0.0, -0.6, 0.8, 0.0]])
    motion = spin_loop.simulate(start, [0.5, -1.0, 0.3], SPIN_TIMES)
    assert motion.q.shape == (2, 61, 4) and motion.lyapunov.shape == (2, 61) and motion.times.shape == (61,)
    np.testing.assert_allclose(np.linalg.norm(motion.q, axis=-1), 1.0, atol=1e-12)
    assert np.all(np.diff(motion.lyapunov[:, :30], axis=-1) < 0.0)
    goal = np.asarray(turning(jnp.asarray(12.0)))
    np.testing.assert_allclose(np.abs(np.asarray(motion.q)[:, -1] @ goal), 1.0, atol=1e-7)
    swapped = spin_loop.simulate(start[::-1], [0.5, -1.0, 0.3], SPIN_TIMES)
    np.testing.assert_allclose(motion.q, swapped.q[::-1], atol=1e-8)


@pytest.mark.further
def test_limit_cycle_on_a_submanifold():
    circle = lambda q: jnp.array([q[0] ** 2 + q[1] ** 2 - 0.25, q[2]])  # noqa: E731
    swirl = lambda t, q: jnp.array([-q[1], q[0], 0.0])  # noqa: E731
    metric = cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([1.0, 2.0, 1.5]))
    system = cn.MechanicalSystem(metric)
    reference = submanifold_reference(metric.frame, circle, 1.0, swirl, metric)
    loop = ClosedLoop(system, PassivityController(system, 4.0), reference)
    motion = loop.simulate([0.4, -0.1, 0.2], np.zeros(3), np.linspace(0.0, 20.0, 81))
    assert np.linalg.norm(circle(motion.q[-1])) < 1e-4
    turned = np.unwrap(np.arctan2(motion.q[:, 1], motion.q[:, 0]))
    assert turned[-1] - turned[0] > 2.0 * np.pi


def test_reference_at_the_acceleration_level(curved):
    desired = lambda t, q, v: -4.0 * (q - curve(t)) - 4.0 * v  # noqa: E731
    reference = AccelerationReference(curved.frame, desired, 2.0, initial=np.zeros(3))
    motion = ClosedLoop(curved, PassivityController(curved, GAIN), reference).simulate(
        START, START_VELOCITY, TIMES
    )
    V = np.asarray(motion.lyapunov)
    assert (np.diff(V) < 0.0).all() and V[-1] < 1e-4 * V[0]
    v_dot = np.gradient(np.asarray(motion.v), TIMES, axis=0)[-2]
    wanted = desired(TIMES[-2], motion.q[-2], motion.v[-2])
    np.testing.assert_allclose(v_dot, wanted, atol=0.05)  # once s has vanished
    with pytest.raises(TypeError, match="FieldReference"):
        ClosedLoop(curved, PassivityController(curved, 1.0), reference).covariant_residual_at(
            jnp.asarray(0.0), jnp.asarray(START), jnp.asarray(START_VELOCITY)
        )


def test_bad_input_is_named(curved, body, exact_loop):
    controller, reference = exact_loop.controller, exact_loop.reference
    with pytest.raises(GainError, match="K_D"):
        PassivityController(curved, -1.0)
    with pytest.raises(ShapeError, match="K_D"):
        PassivityController(curved, np.ones(2))
    with pytest.raises(FrameError, match="connection"):
        PassivityController(curved, 1.0, body.connection)
    with pytest.raises(FrameError, match="plant"):
        ClosedLoop(body, controller, reference)
    with pytest.raises(FrameError, match="reference"):
        ClosedLoop(curved, controller, FieldReference(cn.CoordinateFrame(3), lambda t, q: q))
    with pytest.raises(ShapeError, match="v_r"):
        controller.torque(START, START, np.ones(2), START)
    with pytest.raises(NonFiniteError, match="a_r"):
        controller.torque(START, START, START, [0.0, np.nan, 0.0])
    with pytest.raises(PointError):
        PassivityController(body, 1.0).torque(np.ones(4), START, START, START)


def test_bad_starts_are_named(exact_loop, spin_loop):
    with pytest.raises(ShapeError, match="q0"):
        exact_loop.simulate(np.zeros(2), np.zeros(3), TIMES)
    with pytest.raises(NonFiniteError, match="v0"):
        exact_loop.simulate(START, [0.0, np.inf, 0.0], TIMES)
    with pytest.raises(ShapeError, match="times"):
        exact_loop.simulate(START, START, TIMES[::-1].repeat(2))
    with pytest.raises(PointError):
        spin_loop.simulate(np.tile(2.0 * UPRIGHT, (2, 1)), np.zeros(3), SPIN_TIMES)
