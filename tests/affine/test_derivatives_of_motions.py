"""Derivatives of motions in both modes and of second order, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always

import connections as cn
from connections.control import ClosedLoop, PassivityController, trajectory_reference
from connections.integration import traced

LINE = cn.CoordinateFrame(1)
T = 0.6
TIMES = np.array([0.0, 0.2, T])
FLAT = cn.ConstantMetric(LINE, np.eye(1))
REFERENCE = trajectory_reference(LINE, lambda t: jnp.zeros(1), 1.0)


def line(a):
    """vdot = a v^2: q = -log(1 - a v t) / a; and what is carried along q is exp(a (q - q0)) z."""
    return cn.CoefficientConnection(LINE, lambda q, b: -b * jnp.ones((1, 1, 1)), parameters=a)


def geodesic(a):
    return cn.geodesic(line(a), np.zeros(1), np.ones(1), TIMES)[0][-1, 0]


def exponential(a):
    return cn.exponential(line(1.0), np.zeros(1), jnp.stack([a * T]))[0]


def simulate(a):
    system = cn.MechanicalSystem(FLAT, forces=lambda t, q, v: a * v**2)
    return system.simulate(np.zeros(1), np.ones(1), TIMES)[0][-1, 0]


def transport(a):
    return cn.parallel_transport(line(a), lambda t: jnp.stack([jnp.sin(t)]), np.ones(1), TIMES)[-1, 0]


def closed_loop(a):
    """H sdot = -K s with s = v - v_r, v_r = -q: v(T) of qdot = v, vdot = -v - K (v + q)."""
    plant = cn.MechanicalSystem(FLAT)
    law = PassivityController(plant, a * jnp.eye(1))
    return ClosedLoop(plant, law, REFERENCE).simulate(np.ones(1), np.zeros(1), TIMES).v[-1, 0]


def log_of(a):
    return -jnp.log(1.0 - a * T) / a


def law_of(a):
    """The eigenvalues of that loop are -1 and -a."""
    return a * (jnp.exp(-a * T) - jnp.exp(-T)) / (a - 1.0)


#: function, what it is in closed form, where
MOTIONS = {
    "geodesic": (geodesic, log_of, 1.0),
    "exponential": (exponential, lambda a: -jnp.log(1.0 - a * T), 1.0),
    "simulate": (simulate, log_of, 1.0),
    "transport": (transport, lambda a: jnp.exp(a * jnp.sin(T)), 1.3),
    "closed loop": (closed_loop, lambda a: -law_of(a) * -1.0, 3.0),
}


@pytest.mark.parametrize("name", always(MOTIONS, "geodesic"))
def test_first_and_second(name):
    """Forward, reverse, and reverse over forward, which is inside of `jit`."""
    motion, closed, a = MOTIONS[name]
    assert float(motion(a)) == pytest.approx(float(closed(a)), rel=1e-9)
    for derivative in (jax.jacfwd, jax.grad):
        assert float(derivative(motion)(a)) == pytest.approx(float(jax.grad(closed)(a)), rel=1e-8)
    found = jax.jit(jax.grad(jax.jacfwd(motion)))(a)
    assert float(found) == pytest.approx(float(jax.hessian(closed)(a)), rel=1e-7)


@pytest.mark.further
def test_other_orders_and_batches():
    """Forward over reverse, reverse over reverse, and `vmap` of both, by the initial velocity."""

    def end(v):
        return cn.geodesic(line(1.0), np.zeros(1), v[None], TIMES)[0][-1, 0]

    speeds = np.array([0.5, 1.0, 1.2])
    expected = T**2 / (1.0 - speeds * T) ** 2
    for second in (jax.hessian(end), jax.grad(jax.grad(end))):
        np.testing.assert_allclose(jax.jit(jax.vmap(second))(speeds), expected, rtol=1e-7)


def test_by_the_requested_times():
    """The velocity at the last time; at the first, where the motion begins, minus that."""

    def end(times):
        return cn.geodesic(line(1.0), np.zeros(1), np.ones(1), times)[0][-1, 0]

    slope = jax.jit(jax.grad(end))(TIMES)
    np.testing.assert_allclose(slope, [-1.0 / (1.0 - T), 0.0, 1.0 / (1.0 - T)], rtol=1e-8, atol=1e-8)


@pytest.mark.further
def test_of_a_motion_that_fails():
    """No number: a derivative of zero would be taken for one."""

    def end(v):
        return cn.geodesic(line(1.0), np.zeros(1), v, [0.0, 0.5, 2.0])[0][-1, 0]

    assert np.isnan(jax.grad(end)(np.ones(1))).all()
    assert np.isnan(jax.jacfwd(end)(np.ones(1))).all()


@pytest.mark.further
def test_beyond_the_steps_that_are_kept(monkeypatch):
    """No number in either mode."""
    monkeypatch.setattr(traced, "MOST", traced.BLOCK)
    system = cn.MechanicalSystem(FLAT, forces=lambda t, q, v: -q)

    def end(v, last):
        return system.simulate(np.zeros(1), v, [0.0, last])[0][-1, 0]

    for derivative in (jax.jacfwd, jax.grad):
        assert float(derivative(end)(np.ones(1), 1.0)[0]) == pytest.approx(np.sin(1.0), rel=1e-8)
        assert np.isnan(derivative(end)(np.ones(1), 60.0)).all()


@pytest.mark.further
def test_rates_are_read_only_where_the_motion_is():
    """vdot = a (0.5 + t - q)^(1/2), which is no number at the first time and the last point."""

    def end(a):
        system = cn.MechanicalSystem(FLAT, forces=lambda t, q, v: a * jnp.sqrt(0.5 + t - q) * jnp.ones(1))
        return system.simulate(np.zeros(1), np.ones(1), [0.0, 1.5])[0][-1, 0]

    h = 1e-3
    near, far = (float(end(0.1 + k * h) - end(0.1 - k * h)) / (2.0 * k * h) for k in (1, 2))
    for derivative in (jax.jacfwd, jax.grad):
        assert float(derivative(end)(0.1)) == pytest.approx((4.0 * near - far) / 3.0, rel=1e-8)
