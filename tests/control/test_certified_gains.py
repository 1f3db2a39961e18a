"""Gains with a proof: at 1.05 of their bounds what is proved happens, and at 0.95 it does not."""

import jax.numpy as jnp
import numpy as np
import pytest
from cases import further

import connections as cn
from connections import certified, control
from connections import multibody as mb
from connections.checks import NonFiniteError
from connections.control.errors import GainError

TIMES = np.linspace(0.0, 6.0, 61)


def planar(*rods):
    """A chain of rods (mass, length) that swing in a vertical plane."""
    mechanism, above = mb.Mechanism(), "world"
    for number, (mass, length) in enumerate(rods):
        name, at = f"rod{number}", np.eye(4)
        at[2, 3] = -rods[number - 1][1] if number else 0.0
        inertia = mass * length**2 / 12.0 * np.eye(3)
        mechanism.add_body(name, mass=mass, center_of_mass=(0, 0, -length / 2), inertia=inertia)
        mechanism.add_joint(f"hinge{number}", above, name, mb.Revolute((0, 1, 0)), placement=at)
        above = name
    return mechanism.build()


@pytest.fixture(scope="module")
def rod():
    """One rod, whose H is a number: bounds are sharp for it."""
    return planar((2.0, 1.0))


@pytest.fixture(scope="module")
def rod_gains(rod):
    return control.gains_from(certified.constants(rod, rtol=1e-4))


@pytest.fixture(scope="module")
def chain():
    return planar((2.0, 1.0), (1.0, 0.8))


@pytest.fixture(scope="module")
def gains(chain):
    return control.gains_from(certified.constants(chain, rtol=0.01))


# --- regulator -----------------------------------------------------------------------------------------


def regulated(robot, target, K_P, K_D, q0, duration, step=0.02):
    """Ends of motions from rest under tau = g(q_d) - K_P (q - q_d) - K_D v, all at once, by RK4."""
    hold, q, v = mb.gravity(robot, target), np.array(q0), np.zeros_like(q0)

    def rates(q, v):
        return v, mb.forward_dynamics(robot, q, v, hold - K_P * (q - target) - K_D * v)

    for _ in range(round(duration / step)):
        k1 = rates(q, v)
        k2 = rates(q + 0.5 * step * k1[0], v + 0.5 * step * k1[1])
        k3 = rates(q + 0.5 * step * k2[0], v + 0.5 * step * k2[1])
        k4 = rates(q + step * k3[0], v + step * k3[1])
        dq, dv = (a + 2.0 * b + 2.0 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True))
        q, v = q + step / 6.0 * dq, v + step / 6.0 * dv
    return q


@pytest.mark.parametrize("count", [6, further(1000)])
def test_a_regulator_reaches_an_upright_target_from_everywhere(chain, gains, rng, count):
    target, starts = np.array([np.pi, 0.0]), rng.uniform(-6.0, 6.0, (count, 2))
    ends = regulated(chain, target, float(gains.regulator()), 4.0, starts, 30.0)
    assert np.abs(ends - target).max() < 1e-3


def test_at_less_than_k_g_an_upright_target_is_left(chain, gains):
    """The bound is sharp: upright, dg/dq has the eigenvalue -k_g."""
    target = np.array([np.pi, 0.0])
    ends = regulated(chain, target, 0.95 * gains.constants["k_g"].lower, 4.0, target + [[1e-3, 1e-3]], 60.0)
    assert np.abs(ends - target).max() > 0.1


# --- tracking ------------------------------------------------------------------------------------------


def tracked(robot, gain, forces=None, start=(0.5, -0.4), times=TIMES):
    system = robot.system()
    plant = cn.MechanicalSystem(system.metric, system.potential, forces)
    n = robot.nv
    reference = control.trajectory_reference(
        system.frame, lambda t: 0.7 * jnp.sin(t + jnp.arange(n)), gain=2.0
    )
    law = control.PassivityController(cn.MechanicalSystem(system.metric, system.potential), gain)
    return control.ClosedLoop(plant, law, reference).simulate(np.array(start[:n]), np.zeros(n), times)


def test_tracking_has_the_rate_that_is_proved(chain, gains, rod, rod_gains):
    rate = 1.5
    motion = tracked(chain, gains.tracking(rate=rate))
    assert (motion.lyapunov <= motion.lyapunov[0] * np.exp(-2.0 * rate * TIMES) * (1.0 + 1e-6) + 1e-12).all()
    slow = tracked(rod, 0.95 * rate * rod_gains.constants["lambda_max"].lower)  # of one mass, it is sharp
    assert slow.lyapunov[20] > slow.lyapunov[0] * np.exp(-2.0 * rate * TIMES[20]) * 1.05


def test_tracking_has_the_error_that_is_proved(chain, gains, rod, rod_gains):
    push, error = 3.0, 0.05
    along = jnp.array([push, 0.0])
    gain = gains.tracking(disturbance=push, error=error)
    s = tracked(chain, gain, lambda t, q, v: along * jnp.sin(5.0 * t) + 0.0 * q).s
    assert np.linalg.norm(s[-30:], axis=-1).max() <= error
    bound = float(rod_gains.tracking(disturbance=push, error=error, margin=1.0 + 1e-12))
    s = tracked(rod, 0.95 * bound, lambda t, q, v: push + 0.0 * q).s  # of one mass, it is sharp
    assert np.abs(s[-1]).max() > error


# --- observer ------------------------------------------------------------------------------------------


def largest_residual(observer, positions, velocities, measured, tau, dt):
    """max |r| along a sampled motion whose velocities are measured with errors, by Euler's steps."""
    z, most = observer.momentum(positions[0], measured[0]), 0.0
    for q, w, force in zip(positions, measured, tau, strict=True):
        most = max(most, float(np.linalg.norm(observer.residual(q, w, z))))
        z = z + dt * observer.state_rate(q, w, force, z)
    return most


def test_errors_of_velocities_do_not_reach_the_threshold(rod, rod_gains):
    """An error that jumps from -d to d after a long time attains the factor 2 of one mass."""
    threshold, error, dt = 0.5, 0.02, 5e-4
    gain = rod_gains.observer(threshold=threshold, velocity_error=error, speed=1e-3)
    count = 800
    still = np.zeros((count, 1))
    jump = np.where(np.arange(count)[:, None] < count - 2, -error, error)
    for factor, reported in ((1.0, False), (1.15, True)):
        observer = control.MomentumObserver(rod.system(), factor * float(gain))
        # The observer has long had the error -d: z of the exact momentum.
        z, most = np.array([0.0]), 0.0
        for measured in jump:
            most = max(most, abs(float(observer.residual(still[0], measured, z)[0])) if measured > 0 else 0.0)
            z = z + dt * observer.state_rate(still[0], measured, still[0], z)
        assert (most > threshold) is reported


def test_velocity_products_count_in_the_threshold(chain, gains, rng):
    """Of a fast robot with errors of any direction, along a motion without forces."""
    system, error, dt = chain.system(), 0.01, 1e-3
    times = np.arange(0.0, 0.6, dt)
    motion = system.simulate([0.4, -0.3], [6.0, -8.0], times)
    speed = float(np.linalg.norm(motion.v, axis=-1).max())
    products = gains.constants["k_C:christoffel"].upper * 2.0 * speed * error
    gain = gains.observer(threshold=3.0 * products, velocity_error=error, speed=speed)
    noise = rng.normal(size=motion.v.shape)
    noise *= error / np.linalg.norm(noise, axis=-1, keepdims=True)
    observer = control.MomentumObserver(system, gain)
    zero = np.zeros_like(motion.v)
    assert largest_residual(observer, motion.q, motion.v, motion.v + noise, zero, dt) < 3.0 * products
    with pytest.raises(GainError, match="velocity products alone"):
        gains.observer(threshold=0.5 * products, velocity_error=error, speed=speed)


# --- adaptation ----------------------------------------------------------------------------------------


def test_a_law_that_learns_stays_within_the_error(rod_gains):
    """Attained by one mass as K_D goes to zero: d = |pi~|^2 / 2 of a constant gain."""
    frame, mass, first, error = cn.CoordinateFrame(1), rod_gains.constants["lambda_max"].upper, 0.2, 0.05

    def make(pi):
        return cn.MechanicalSystem(cn.ConstantMetric(frame, pi[None]))

    family = control.LinearlyParametrizedSystem(make, nominal=[mass])
    reference = control.trajectory_reference(frame, lambda t: jnp.stack([2.0 * t**2]), gain=1e-6)
    bound = float(rod_gains.adaptation(divergence=0.5 * (mass - first) ** 2, error=error, margin=1.0 + 1e-12))
    for factor, within in ((1.05, True), (0.95, False)):
        law = control.AdaptiveController(family, gain=1e-3, adaptation=factor * bound)
        loop = control.AdaptiveLoop(law, [mass], reference)
        motion = loop.simulate([0.0], [0.0], [first], np.linspace(0.0, 4.0, 4001))
        assert (float(np.abs(motion.s).max()) <= error) is within


# --- what is refused, and what is printed --------------------------------------------------------------


def test_a_law_prints_what_its_gain_is_proved_for(rod, rod_gains):
    law = control.PassivityController(rod.system(), rod_gains.tracking(rate=3.0))
    assert "since K_D >= rho lambda_max(H)" in str(law)
    assert "lambda_max(H) = 0.6667" in law.certificate
    np.testing.assert_allclose(law.gain, [[1.05 * 3.0 * 2.0 / 3.0]], rtol=1e-6)
    plain = control.PassivityController(rod.system(), 2.0)
    assert plain.certificate == ""
    assert str(plain) == repr(plain)


def test_a_gain_of_another_law_is_refused(rod, rod_gains):
    with pytest.raises(GainError, match="gain: expected a K_D, got a certified K_P"):
        control.PassivityController(rod.system(), rod_gains.regulator())


def test_bad_wishes_are_named(gains):
    with pytest.raises(GainError, match="K_D would be inf"):
        gains.tracking(rate=1e308)
    with pytest.raises(GainError, match="margin must be more than 1: 0.9"):
        gains.regulator(margin=0.9)
    with pytest.raises(GainError, match="rate, error: neither is given"):
        gains.tracking()
    with pytest.raises(GainError, match="disturbance, error: they are given together"):
        gains.tracking(rate=1.0, error=0.1)
    with pytest.raises(GainError, match="rate must be positive: -1"):
        gains.tracking(rate=-1.0)
    with pytest.raises(NonFiniteError, match="rate is nan"):
        gains.tracking(rate=float("nan"))
    with pytest.raises(GainError, match=r"start: \|s\| = 1 may grow to"):
        gains.adaptation(divergence=1.0, error=0.5, start=1.0)
    with pytest.raises(TypeError, match="constants"):
        control.gains_from({"k_g": 3.0})


def test_constants_that_are_not_known_are_named(chain):
    few = control.gains_from(certified.constants(chain, only=["lambda_max"], rtol=0.1))
    with pytest.raises(GainError, match="k_g is not among the constants"):
        few.regulator()
    floating = certified.constants(mb.example("quadruped"), only=["k_g"], seconds=1.0)
    with pytest.raises(GainError, match="no rates of coordinates"):
        control.gains_from(floating).regulator()
