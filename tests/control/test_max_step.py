"""A force that acts for 20 ms in 10 s on a body at rest is found, with and without `max_step`."""

import jax.numpy as jnp
import numpy as np
import pytest
from cases import further

import connections as cn
from connections.control import (
    AdaptiveController,
    AdaptiveLoop,
    ClosedLoop,
    LinearlyParametrizedSystem,
    MomentumObserver,
    PassivityController,
    trajectory_reference,
)

WIDTH, GAIN = 0.01, 0.4
FRAME = cn.CoordinateFrame(3)
TIMES, REST = np.array([0.0, 10.0]), np.zeros(3)
MOMENTUM = WIDTH * np.sqrt(np.pi)
# Of sdot + GAIN s = pulse (unit mass) at the end: the pulse times the exponential, integrated.
AFTER = MOMENTUM * np.exp(-5.0 * GAIN + (0.5 * WIDTH * GAIN) ** 2)


def pulse(t, q, v):
    return jnp.exp(-(((t - 5.0) / WIDTH) ** 2)) * jnp.eye(3)[0]


def pushed(mass):
    return cn.MechanicalSystem(cn.ConstantMetric(FRAME, mass[0] * jnp.eye(3)), forces=pulse)


PLANT = pushed(np.ones(1))
MODEL = cn.MechanicalSystem(PLANT.metric)
LAW = PassivityController(MODEL, GAIN)
STILL = trajectory_reference(FRAME, lambda t: 0.0 * t * jnp.ones(3), 2.0)
LOOP = ClosedLoop(PLANT, LAW, STILL)
# It learns so slowly that it is the loop without adaptation.
FAMILY = LinearlyParametrizedSystem(pushed, np.ones(1))
ADAPTIVE = AdaptiveLoop(AdaptiveController(FAMILY, GAIN, 1e-12), np.ones(1), STILL)


def observed(**most):
    motion = MomentumObserver(MODEL, GAIN).simulate(PLANT, REST, REST, TIMES, **most)
    assert motion.v[1, 0] == pytest.approx(MOMENTUM, rel=1e-7)
    return motion.residual[1, 0] / GAIN  # rdot = GAIN (f - r)


@pytest.mark.parametrize(
    "motion",
    [
        lambda **most: LOOP.simulate(REST, REST, TIMES, **most).s[1, 0],
        further(lambda **most: LOOP.sweep(np.array([[0.0], [0.3]]), REST, REST, TIMES, **most).s[1, 1, 0]),
        further(lambda **most: ADAPTIVE.simulate(REST, REST, np.ones(1), TIMES, **most).s[1, 0]),
        further(observed),
    ],
    ids=["closed loop", "sweep", "adaptive loop", "observer"],
)
def test_a_pulse_between_steps(motion):
    for most in ({}, {"max_step": 0.02}):
        assert motion(**most) == pytest.approx(AFTER, rel=1e-7)
    for wrong in (0.0, -1.0):
        with pytest.raises(ValueError, match="max_step"):
            motion(max_step=wrong)
