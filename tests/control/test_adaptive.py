"""The regressor against closed forms and members of the family; adaptation against its Lyapunov function."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import simpson

import connections as cn
from connections.checks import FrameError, NonFiniteError, ShapeError
from connections.control import (
    AdaptiveController,
    AdaptiveLoop,
    LinearlyParametrizedSystem,
    trajectory_reference,
)
from connections.control.errors import GainError

TRUE = np.array([3.2, 0.9, 1.1, 14.0, 6.0])
GUESS = np.array([2.0, 0.3, 0.8, 8.0, 9.0])
TIMES = np.linspace(0.0, 8.0, 641)


def arm(pi):
    """Planar two-joint arm: pi = (a1, a2, a3, b1, b2) in H and in the potential."""

    def mass(q):
        coupling = pi[1] * jnp.cos(q[1])
        return jnp.array([[pi[0] + 2.0 * coupling, pi[2] + coupling], [pi[2] + coupling, pi[2]]])

    def potential(q):
        return pi[3] * jnp.sin(q[0]) + pi[4] * jnp.sin(q[0] + q[1])

    return cn.MechanicalSystem(cn.MatrixMetric(cn.CoordinateFrame(2), mass), potential)


def arm_regressor(q, v, w, a):
    """Slotine and Li's regressor of the arm, by hand."""
    (v1, v2), (w1, w2), (a1, a2) = v, w, a
    c, s = np.cos(q[1]), np.sin(q[1])
    first = [a1, 2 * c * a1 + c * a2 - s * (v2 * w1 + (v1 + v2) * w2), a2, np.cos(q[0]), np.cos(q[0] + q[1])]
    second = [0.0, c * a1 + s * v1 * w1, a1 + a2, 0.0, np.cos(q[0] + q[1])]
    return np.array([first, second])


def spinning(pi):
    """A rigid body about a fixed point: the six entries of its inertia."""
    rows = jnp.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])
    return cn.MechanicalSystem(cn.ConstantMetric(cn.SO3Frame(), pi[rows]))


@pytest.fixture(scope="module")
def family():
    return LinearlyParametrizedSystem(arm, TRUE)


@pytest.fixture(scope="module")
def loop(family):
    goal = lambda t: jnp.stack([jnp.sin(t), 0.5 * jnp.cos(2.0 * t)])  # noqa: E731
    reference = trajectory_reference(family.frame, goal, 2.0)
    controller = AdaptiveController(family, 5.0, [1.0, 1.0, 1.0, 20.0, 20.0])
    return AdaptiveLoop(controller, TRUE, reference)


def test_regressor_equals_the_one_by_hand(family, rng):
    q, v, w, a = rng.normal(size=(4, 6, 2))
    Y = np.asarray(family.regressor(q, v, w, a))
    assert Y.shape == (6, 2, 5)
    for k in range(6):
        np.testing.assert_allclose(Y[k], arm_regressor(q[k], v[k], w[k], a[k]), rtol=1e-10, atol=1e-10)
    assert np.linalg.norm(Y - np.asarray(family.regressor(q, v, a, w))) > 1e-2


def test_regressor_predicts_other_members_and_does_not_depend_on_the_nominal_one(family, rng):
    q, v, w, a = rng.normal(size=(4, 2))
    Y = family.regressor(q, v, w, a)
    other = arm(GUESS)
    force = other.mass_matrix(q) @ a + other.coriolis_matrix(q, v) @ w + other.gravity(q)
    np.testing.assert_allclose(Y @ GUESS, force, rtol=1e-11)
    np.testing.assert_allclose(LinearlyParametrizedSystem(arm, GUESS).regressor(q, v, w, a), Y, atol=1e-10)


def test_linearity_is_checked_and_a_quadratic_family_fails(family, rng):
    arguments = rng.normal(size=(4, 5, 2))
    family.check_linear(*arguments).require()
    assert not LinearlyParametrizedSystem(lambda pi: arm(pi**2), TRUE).check_linear(*arguments).ok


def test_adaptation_never_raises_the_lyapunov_function_and_tracks(loop):
    motion = loop.simulate([0.5, -0.8], [0.0, 1.0], GUESS, TIMES)
    V, s = np.asarray(motion.lyapunov), np.asarray(motion.s)
    assert (np.diff(V) <= 1e-9 * V[0]).all()
    assert np.linalg.norm(s[-1]) < 0.1 * np.linalg.norm(s[0])
    dissipated = np.trapezoid(5.0 * (s**2).sum(axis=1), TIMES)
    np.testing.assert_allclose(V[0] - V[-1], dissipated, rtol=5e-3)
    assert motion.parameters.shape == (641, 5) and motion.tau.shape == (641, 2)


def test_the_recorded_rate_counts_the_forces_of_the_plant(loop):
    """V(t) - V(0) = int Vdot, with a force that no parameter explains. Control: without it, by -s^T K_D s."""

    def pushed(pi):
        system = arm(pi)
        push = lambda t, q, v: jnp.stack([3.0 * jnp.sin(5.0 * t), -0.7 * v[1]])  # noqa: E731
        return cn.MechanicalSystem(system.metric, system.potential, push)

    family = LinearlyParametrizedSystem(pushed, TRUE)
    times = np.linspace(0.0, 1.0, 201)
    controller = AdaptiveController(family, 5.0, [1.0, 1.0, 1.0, 20.0, 20.0])
    motion = AdaptiveLoop(controller, TRUE, loop.reference).simulate([0.5, -0.8], [0.0, 1.0], GUESS, times)
    change = np.asarray(motion.lyapunov) - motion.lyapunov[0]
    rate, damped = np.asarray(motion.lyapunov_rate), -5.0 * np.sum(np.asarray(motion.s) ** 2, axis=1)
    np.testing.assert_allclose(simpson(rate, x=times), change[-1], rtol=1e-6)
    assert abs(simpson(damped, x=times) - change[-1]) > 1e-2 * abs(change[-1])


def test_the_law_of_a_family_is_that_of_its_loop(loop, rng):
    """tau and pihat_dot of points against the regressor by hand; V against H; a batch against its rows."""
    law, (q, v, w, a), pi = loop.controller, rng.normal(size=(4, 6, 2)), rng.normal(size=(6, 5))
    tau, rate = law.torque(q, v, w, a, pi), law.parameters_rate(q, v, w, a)
    V = law.lyapunov(loop.plant, q, v - w, pi - TRUE)
    for k in range(6):
        Y, s = arm_regressor(q[k], v[k], w[k], a[k]), v[k] - w[k]
        np.testing.assert_allclose(tau[k], Y @ pi[k] - 5.0 * s, atol=1e-10)
        np.testing.assert_allclose(rate[k], [-1.0, -1.0, -1.0, -20.0, -20.0] * (Y.T @ s), atol=1e-10)
        np.testing.assert_allclose(V[k], loop.lyapunov_at(q[k], s, pi[k]), rtol=1e-12)
    assert np.abs(tau - law.torque(q, v, w, a, 0.0 * pi)).max() > 1.0  # negative control


def test_without_adaptation_the_error_stays(family, loop):
    frozen = AdaptiveLoop(AdaptiveController(family, 5.0, 1e-9), TRUE, loop.reference)
    late = slice(480, None)
    with_it = np.asarray(loop.simulate([0.5, -0.8], [0.0, 1.0], GUESS, TIMES).s)[late]
    without = np.asarray(frozen.simulate([0.5, -0.8], [0.0, 1.0], GUESS, TIMES).s)[late]
    assert np.linalg.norm(with_it) < 0.2 * np.linalg.norm(without)


@pytest.mark.further
def test_adaptation_on_the_rotation_group(rng):
    inertia = np.array([1.0, 0.1, 0.0, 1.6, 0.2, 2.1])
    family = LinearlyParametrizedSystem(spinning, inertia)
    q = rng.normal(size=4)
    arguments = (q / np.linalg.norm(q), *rng.normal(size=(3, 3)))
    family.check_linear(*arguments).require()
    goal = lambda t: jnp.stack([jnp.sin(0.3 * t), 0.0 * t, 0.0 * t, jnp.cos(0.3 * t)])  # noqa: E731
    reference = trajectory_reference(family.frame, goal, 1.0)
    loop = AdaptiveLoop(AdaptiveController(family, 2.0, 0.5), inertia, reference)
    start = np.tile([0.0, 0.6, 0.0, 0.8], (2, 1))
    motion = loop.simulate(
        start, [1.0, -1.0, 0.5], [[1.0, 0, 0, 1.0, 0, 1.0], inertia], np.linspace(0, 8, 41)
    )
    assert motion.q.shape == (2, 41, 4)
    assert (np.diff(motion.lyapunov, axis=1) <= 1e-9 * motion.lyapunov[:, :1]).all()
    np.testing.assert_allclose(motion.parameters[1], np.tile(inertia, (41, 1)), atol=1.0)
    assert np.linalg.norm(motion.s[0, -1]) < 0.1 * np.linalg.norm(motion.s[0, 0])


def test_bad_input_is_named(family, loop, body):
    with pytest.raises(ShapeError, match="nominal"):
        LinearlyParametrizedSystem(arm, np.ones((2, 5)))
    with pytest.raises(NonFiniteError, match="nominal"):
        LinearlyParametrizedSystem(arm, [1.0, np.nan, 1.0, 1.0, 1.0])
    with pytest.raises(ShapeError, match="parameters"):
        AdaptiveLoop(loop.controller, TRUE[:4], loop.reference)
    with pytest.raises(GainError, match="adaptation P must be symmetric"):
        AdaptiveController(family, 1.0, np.eye(5) + np.eye(5, k=1))
    with pytest.raises(GainError, match="K_D"):
        AdaptiveController(family, 0.0, 1.0)
    with pytest.raises(FrameError, match="family"):
        goal = lambda t: jnp.array([0.0, 0.0, 0.0, 1.0])  # noqa: E731
        AdaptiveLoop(loop.controller, TRUE, trajectory_reference(body.frame, goal, 1.0))
    with pytest.raises(ShapeError, match="initial"):
        loop.simulate([0.0, 0.0], [0.0, 0.0], TRUE[:3], TIMES)
    with pytest.raises(ShapeError, match="v_r"):
        family.regressor([0.0, 0.0], [0.0, 0.0], [0.0], [0.0, 0.0])
    estimates, still = 1e308 * np.ones(5), np.ones((3, 2))
    # Each is finite, and their products with the regressor are not.
    with np.errstate(all="ignore"), pytest.raises(NonFiniteError, match="tau is not finite"):
        loop.controller.torque([0.1, 0.2], *still, estimates)
