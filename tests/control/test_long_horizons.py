"""A thousand seconds: what is conserved, what is known in closed form, and what cannot be reached."""

import jax.numpy as jnp
import numpy as np
import pytest
import systems
from oracles import rotation

import connections as cn
from connections.checks import IntegrationError
from connections.control import MomentumObserver

TIMES = np.linspace(0.0, 1000.0, 11)
START, VELOCITY = np.array([0.0, 0.6, 0.0, 0.8]), np.array([0.5, -1.0, 0.8])


def weight(q):
    """3 J times the cosine of the body's z axis to the vertical."""
    return 3.0 * (1.0 - 2.0 * (q[0] ** 2 + q[1] ** 2))


@pytest.mark.further
def test_a_heavy_top_keeps_its_energy_and_momentum():
    """The centre of mass is on its z axis: energy and vertical momentum stay, another momentum does not."""
    top = cn.MechanicalSystem(systems.TOP, weight)
    q, v = top.simulate(START, VELOCITY, TIMES)
    momentum = np.einsum("tab,bc,tc->ta", rotation(q), systems.TOP_INERTIA, v)
    energy = 0.5 * np.einsum("ti,ij,tj->t", v, systems.TOP_INERTIA, v) + 3.0 * rotation(q)[:, 2, 2]
    for kept in (energy, momentum[:, 2]):
        np.testing.assert_allclose(kept, kept[0], rtol=1e-6)
    assert np.ptp(momentum[:, 0]) > 0.1
    assert np.max(np.abs(np.linalg.norm(q, axis=1) - 1.0)) < 1e-15


@pytest.mark.further
def test_the_residual_of_an_observer_stays_with_its_closed_form():
    """rdot = K (f - r) from r = 0, f three sinusoids, for a damped top under gravity."""
    gains, rates, sizes = np.array([2.0, 3.0, 5.0]), np.array([0.7, 1.3, 0.2]), np.array([1.0, 0.5, 0.3])

    def damping(t, q, v):
        return -0.3 * v

    def forces(t, q, v):
        return sizes * jnp.sin(rates * t) - 0.3 * v

    model, plant = (cn.MechanicalSystem(systems.TOP, weight, f) for f in (damping, forces))
    motion = MomentumObserver(model, gains).simulate(plant, START, VELOCITY, TIMES)
    phases, size = rates * TIMES[:, None], sizes * gains / (gains**2 + rates**2)
    expected = size * (gains * np.sin(phases) - rates * np.cos(phases))
    expected += size * rates * np.exp(-gains * TIMES[:, None])
    np.testing.assert_allclose(motion.residual, expected, atol=1e-8)
    assert np.max(np.abs(np.linalg.norm(motion.q, axis=1) - 1.0)) < 1e-15


def test_a_motion_of_too_many_steps_says_so():
    line = cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1))
    stiff = cn.MechanicalSystem(line, lambda q: 0.5e12 * q[0] ** 2)  # 1e6 rad/s
    with pytest.raises(IntegrationError, match="by t = 1, last seen at t = 0.* more than 10,000 steps"):
        stiff.simulate(np.ones(1), np.zeros(1), [0.0, 1.0], max_steps=10_000)
