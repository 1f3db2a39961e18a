"""Closed loops of all members of a family at once, against one after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections._progress import Ticks
from connections.affine.motions import flow
from connections.control import ClosedLoop, PassivityController, trajectory_reference
from connections.control.laws.closed_loop import simulate_members

FRAME = cn.CoordinateFrame(4)
METRIC = cn.MatrixMetric(FRAME, lambda q: jnp.diag(2.0 + jnp.sin(q)) + 0.1)
PLANT = cn.MechanicalSystem(METRIC, potential=lambda q: jnp.cos(q[0]))
REFERENCE = trajectory_reference(FRAME, lambda t: jnp.sin(t + jnp.arange(4.0)), 2.0)
LOOP = ClosedLoop(PLANT, PassivityController(PLANT, 5.0), REFERENCE)
BETAS = np.random.default_rng(0).normal(size=(35, 4))
START = np.full(4, 0.3), np.full(4, 0.5)
TIMES = np.linspace(0.0, 2.0, 7)


def test_members_together_and_alone():
    """More members than places in the compiled step; the law's connection decides, not the plant's."""
    together = LOOP.sweep(BETAS, *START, TIMES)
    assert together.q.shape == (35, 7, 4) and together.lyapunov.shape == (35, 7)
    for k in (0, 31, 32, 34):
        alone = LOOP.member(BETAS[k]).simulate(*START, TIMES)
        for name in ("q", "v", "v_r", "tau", "lyapunov", "lyapunov_rate"):
            np.testing.assert_allclose(
                getattr(together, name)[k], getattr(alone, name), rtol=1e-8, atol=1e-10
            )
    assert np.max(np.abs(together.tau[0] - together.tau[1])) > 1e-3
    np.testing.assert_array_equal(together.times, TIMES)


@pytest.mark.further
def test_member_of_zero_is_the_loop_itself():
    alone, member = LOOP.simulate(*START, TIMES), LOOP.sweep(np.zeros((1, 4)), *START, TIMES)
    np.testing.assert_allclose(member.q[0], alone.q, atol=1e-11)


@pytest.mark.further
def test_other_members_of_the_same_loop():
    """What is compiled for one family of loops is not used for another."""

    def other(gain):
        law = PassivityController(PLANT, jnp.exp(gain[0]) * jnp.eye(4))
        return ClosedLoop(PLANT, law, REFERENCE)

    gains = np.zeros((2, 4))
    first = simulate_members(LOOP, other, gains, START, TIMES)
    second = LOOP.sweep(gains, *START, TIMES)
    np.testing.assert_allclose(second.q[0], LOOP.simulate(*START, TIMES).q, atol=1e-10)
    assert np.abs(first.q - second.q).max() > 1e-3


def test_what_cannot_be_swept_is_named():
    with pytest.raises(cn.checks.ShapeError, match="betas"):
        LOOP.sweep(np.zeros((3, 2)), *START, TIMES)
    with pytest.raises(cn.checks.ShapeError, match="betas"):
        LOOP.sweep(np.zeros(4), *START, TIMES)
    with pytest.raises(cn.checks.NonFiniteError, match="betas"):
        LOOP.sweep(np.full((2, 4), np.nan), *START, TIMES)
    with pytest.raises(cn.checks.IntegrationError, match="member 1, "):
        LOOP.sweep(np.array([[0.0] * 4, [1e200] * 4]), *START, TIMES)


def test_a_sweep_keeps_what_it_has():
    """When one member fails, and when Ctrl-C ends it; a loop alone likewise."""
    with pytest.raises(cn.checks.IntegrationError) as caught:
        LOOP.sweep(np.array([[0.0] * 4, [1e200] * 4]), *START, TIMES)
    assert caught.value.failed == ((1,),)
    kept = caught.value.motion
    np.testing.assert_array_equal(kept.times, TIMES)
    np.testing.assert_allclose(kept.q[0], LOOP.simulate(*START, TIMES).q, atol=1e-11)
    assert np.isnan(kept.q[1, 1:]).all() and kept.betas.shape == (2, 4)


def test_ctrl_c_in_loops(monkeypatch):
    """After half of the time, between two steps."""

    class CtrlC(Ticks):
        def __call__(self, fraction):
            if fraction > 0.5:
                raise KeyboardInterrupt

    monkeypatch.setattr(flow, "Ticks", CtrlC)
    with pytest.raises(KeyboardInterrupt) as caught:
        LOOP.simulate(*START, np.linspace(0.0, 2.0, 101))  # more times than one compiled call takes
    alone = caught.value.motion
    np.testing.assert_array_equal(alone.times, np.linspace(0.0, 2.0, 101)[: len(alone.q)])
    assert 50 < len(alone.q) < 101 and alone.lyapunov.shape == alone.times.shape
    with pytest.raises(KeyboardInterrupt) as caught:
        LOOP.sweep(BETAS[:2], *START, TIMES)
    swept = caught.value.motion
    reached = np.isfinite(swept.q).all(axis=-1).sum(axis=-1)
    assert (2 < reached).all() and (reached < 7).all()
    np.testing.assert_array_equal(swept.times, TIMES)
    np.testing.assert_array_equal(swept.betas, BETAS[:2])


@pytest.mark.further
def test_derivative_of_a_tracking_cost_by_beta():
    """Through the closed loop as a whole, against differences."""
    frame = cn.CoordinateFrame(3)
    metric = cn.MatrixMetric(frame, lambda q: jnp.diag(2.0 + jnp.sin(q)))
    plant = cn.MechanicalSystem(metric)
    reference = trajectory_reference(frame, lambda t: jnp.sin(t + jnp.arange(3.0)), 2.0)
    family, times = cn.ContorsionFamily(metric), np.linspace(0.0, 0.5, 3)

    def cost(beta):
        law = PassivityController(plant, 5.0, family.connection(jnp.reshape(beta, (1,))))
        return jnp.sum(ClosedLoop(plant, law, reference).simulate(np.zeros(3), np.ones(3), times).s ** 2)

    exact, h = float(jax.grad(cost)(1.0)), 1e-4
    assert exact == pytest.approx(float(cost(1.0 + h) - cost(1.0 - h)) / (2.0 * h), rel=1e-6)
    assert abs(exact) > 1e-6
