"""Closed loops of laws of one's own: a subclass of `ControlLaw`, and functions."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import connections as cn
from connections.checks import FrameError, ShapeError
from connections.control import (
    ClosedLoop,
    ControlLaw,
    FunctionLaw,
    PassivityController,
    trajectory_reference,
)

K = np.array([[1.5, 0.4, 0.0], [-0.2, 1.0, 0.3], [0.1, 0.0, 2.0]])
START, VELOCITY = np.array([0.4, -0.3, 0.2]), np.array([0.5, -1.0, 0.8])
TIMES = np.linspace(0.0, 3.0, 61)


@dataclass(frozen=True, eq=False, repr=False)
class ComputedTorque(ControlLaw):
    """H (vdot_r - K s) + C v + g: the sliding variable obeys sdot = -K s, whatever the plant."""

    model: cn.MechanicalSystem
    rates: Any

    @property
    def frame(self):
        return self.model.frame

    def torque_at(self, q, v, v_r, a_r):
        return self.model.inverse_dynamics_at(q, v, a_r - self.rates @ (v - v_r))


def curve(t):
    return 0.6 * jnp.stack([jnp.sin(t), jnp.cos(0.7 * t), jnp.sin(0.5 * t)])


@pytest.fixture(scope="module")
def reference(curved):
    return trajectory_reference(curved.frame, curve, 1.0)


@pytest.fixture(scope="module")
def computed(curved, reference):
    return ClosedLoop(curved, ComputedTorque(curved, K), reference)


def test_a_law_of_ones_own_has_the_motion_of_its_equation(computed):
    motion = computed.simulate(START, VELOCITY, TIMES)
    expected = np.stack([expm(-K * t) @ motion.s[0] for t in TIMES])
    np.testing.assert_allclose(motion.s, expected, atol=1e-8)
    assert np.abs(np.stack([expm(-K.T * t) @ motion.s[0] for t in TIMES]) - motion.s).max() > 0.05


def test_the_rate_of_v_is_that_of_any_law(curved, computed):
    """V = (1/2) s^T H s along s = exp(-K t) s_0, and by differences of the recorded V."""
    motion = computed.simulate(START, VELOCITY, TIMES)
    H = curved.mass_matrix(motion.q)
    np.testing.assert_allclose(motion.lyapunov, 0.5 * np.einsum("ti,tij,tj->t", motion.s, H, motion.s))
    h = TIMES[1] - TIMES[0]
    of_v = (
        motion.lyapunov[:-4] - 8 * motion.lyapunov[1:-3] + 8 * motion.lyapunov[3:-1] - motion.lyapunov[4:]
    ) / (12 * h)
    np.testing.assert_allclose(motion.lyapunov_rate[2:-2], of_v, atol=2e-4)
    falls = -np.einsum("ti,tij,tj->t", motion.s, H @ K, motion.s)
    assert np.abs(motion.lyapunov_rate - falls).max() > 0.05  # H changes, so this is not the rate


def test_the_rate_of_the_passivity_based_law_is_equation_14(curved_with_torsion, rng):
    plant = cn.MechanicalSystem(
        curved_with_torsion.metric,
        curved_with_torsion.potential,
        lambda t, q, v: jnp.sin(t) - 0.2 * v,
        curved_with_torsion.connection,
    )
    lighter = cn.MatrixMetric(plant.frame, lambda q: 0.8 * curved_with_torsion.metric.matrix_at(q))
    law = PassivityController(cn.MechanicalSystem(lighter), np.diag([2.0, 1.5, 2.5]))
    loop = ClosedLoop(plant, law, trajectory_reference(plant.frame, curve, 1.0))
    t, nothing, (q, v) = jnp.asarray(0.7), jnp.zeros(0), rng.normal(size=(2, 3))
    v_r, a_r = loop.reference.pair_at(t, jnp.asarray(q), jnp.asarray(v), nothing)
    s = v - v_r
    push = loop.mismatch_at(q, v, v_r, a_r) + plant.forces_at(t, q, v)
    expected = s @ (push - law.gain @ s)
    np.testing.assert_allclose(loop.lyapunov_rate_at(t, q, v, nothing), expected, rtol=1e-12)


def test_a_function_is_a_law(curved, reference):
    law = PassivityController(curved, 2.0)
    as_function = FunctionLaw(curved.frame, lambda q, v, v_r, a_r: law.torque_at(q, v, v_r, a_r))
    loops = [ClosedLoop(curved, each, reference) for each in (law, as_function)]
    one, other = (loop.simulate(START, VELOCITY, TIMES) for loop in loops)
    np.testing.assert_allclose(one.q, other.q, atol=1e-9)
    np.testing.assert_allclose(one.lyapunov_rate, other.lyapunov_rate, atol=1e-8)


def test_parameters_of_a_function_are_data(curved, reference):
    def pull(q, v, v_r, a_r, gain):
        return curved.reference_force_at(q, v, v_r, a_r) - gain * (v - v_r)

    def last(gain):
        loop = ClosedLoop(curved, FunctionLaw(curved.frame, pull, gain), reference)
        return loop.simulate(START, VELOCITY, [0.0, 0.5]).lyapunov[-1]

    steps = 2.0 + 1e-4 * np.array([-1.0, 1.0])
    difference = (last(steps[1]) - last(steps[0])) / 2e-4
    np.testing.assert_allclose(jax.grad(last)(2.0), difference, rtol=1e-5)


def test_torques_of_batches(curved, rng):
    q, v, v_r, a_r = rng.normal(size=(4, 5, 3))
    law = ComputedTorque(curved, K)
    tau = law.torque(q, v, v_r, a_r)
    np.testing.assert_allclose(tau, curved.inverse_dynamics(q, v, a_r - (v - v_r) @ K.T), rtol=1e-11)
    with pytest.raises(ShapeError, match="v_r"):
        law.torque(q[0], v[0], v_r[0, :2], a_r[0])
    assert "ComputedTorque" in repr(law) and "rates" in repr(law)


@dataclass(frozen=True, eq=False, repr=False)
class Short(ControlLaw):
    frame: Any

    def torque_at(self, q, v, v_r, a_r):
        return v[:2]


def test_bad_laws_are_named(curved, reference, computed):
    frame = curved.frame
    with pytest.raises(ShapeError, match=r"torque_at\(q, v, v_r, a_r\) of Short.*\(3,\).*\(2,\)"):
        ClosedLoop(curved, Short(frame), reference)
    with pytest.raises(ShapeError, match=r"function\(q, v, v_r, a_r\).*\(3,\)"):
        FunctionLaw(frame, lambda q, v, v_r, a_r: q @ v)
    with pytest.raises(TypeError, match="function: expected a function"):
        FunctionLaw(frame, np.eye(3))
    with pytest.raises(TypeError, match="frame: expected a FrameField"):
        FunctionLaw(curved, lambda q, v, v_r, a_r: v)
    with pytest.raises(FrameError, match="controller"):
        ClosedLoop(curved, FunctionLaw(cn.CoordinateFrame(3), lambda q, v, v_r, a_r: v), reference)
    with pytest.raises(TypeError, match="ControlLaw, got a function; write FunctionLaw"):
        ClosedLoop(curved, lambda q, v, v_r, a_r: v, reference)
    for needs_a_connection in (
        lambda: computed.member([0.5]),
        lambda: computed.sweep([[0.5]], START, VELOCITY, TIMES),
        lambda: computed.covariant_residual_at(jnp.asarray(0.0), START, VELOCITY),
    ):
        with pytest.raises(TypeError, match="controller: expected a PassivityController"):
            needs_a_connection()
