"""Stiff motions: Radau's method, its error, and the options that it shares with the explicit one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import connections as cn
from connections.checks import IntegrationError
from connections.integration.radau import stiff_step_at

LINE = cn.ConstantMetric(cn.CoordinateFrame(1), [[1.0]])
TIMES = np.linspace(0.0, 5.0, 6)


def pendulum(damping):
    return cn.MechanicalSystem(LINE, lambda q: -jnp.cos(q[0]), forces=lambda t, q, v: -damping * v)


def step_of(rate, y, h):
    """y(h) and the estimate of its error."""

    def scales(s, y):
        return jnp.stack([jnp.ones_like(y), jnp.zeros_like(y)])

    s, y = jnp.zeros(()), jnp.asarray(y)
    found = jax.jit(lambda h: stiff_step_at(rate, scales, s, h, y, rate(s, y)))(h)
    return np.asarray(found[0]), np.asarray(found[2] * h)


def test_a_step_is_pades_approximation_of_the_exponential():
    """R(z) = (1 + 2z/5 + z^2/20) / (1 - 3z/5 + 3z^2/20 - z^3/60), which vanishes at infinity."""
    for z in (-0.3, 2.0, -40.0, -1e9):
        expected = (1.0 + 0.4 * z + z**2 / 20.0) / (1.0 - 0.6 * z + 0.15 * z**2 - z**3 / 60.0)
        found, _ = step_of(lambda s, y, z=z: z * y, [1.0], 1.0)
        np.testing.assert_allclose(found, [expected], rtol=1e-9, atol=1e-15)


def test_the_error_is_estimated_and_of_the_order_four():
    """Of an equation with a function of time; the solution itself is of the order six in one step."""

    def rate(s, y):
        return jnp.stack([y[1], -jnp.sin(y[0]) - 0.1 * y[1] ** 2 + jnp.cos(s)])

    def exact(h):
        options = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-14}
        return solve_ivp(lambda s, y: np.asarray(rate(s, y)), (0.0, h), [1.0, 0.5], **options).y[:, -1]

    errors, estimates = zip(*(step_of(rate, [1.0, 0.5], h) for h in (0.4, 0.2)), strict=True)
    errors = [np.abs(end - exact(h)).max() for end, h in zip(errors, (0.4, 0.2), strict=True)]
    sizes = [np.abs(estimate).max() for estimate in estimates]
    assert 5.7 < np.log2(errors[0] / errors[1]) < 7.5 and 3.7 < np.log2(sizes[0] / sizes[1]) < 4.5
    assert errors[0] < 0.01 * sizes[0] < 1e-5


@pytest.mark.parametrize("damping", [1e2, 1e6])
def test_strong_damping_as_by_scipy(damping):
    """In a batch, the second motion the first one's mirror image."""
    rates = lambda t, y: [y[1], -damping * y[1] - np.sin(y[0])]  # noqa: E731
    options = {"method": "Radau", "t_eval": TIMES, "rtol": 1e-12, "atol": 1e-14}
    expected = solve_ivp(rates, (0.0, 5.0), [1.0, 2.0], **options).y
    found = pendulum(damping).simulate([[1.0], [-1.0]], [[2.0], [-2.0]], TIMES, method="Radau")
    for motion, sign in zip(range(2), (1.0, -1.0), strict=True):
        np.testing.assert_allclose(sign * found.q[motion, :, 0], expected[0], atol=1e-12)
        np.testing.assert_allclose(sign * found.v[motion, 1:, 0], expected[1, 1:], atol=1e-13)
    if damping == 1e6:
        with pytest.raises(IntegrationError, match=r"1,000 steps \(method='Radau' takes few"):
            pendulum(damping).simulate([1.0], [2.0], TIMES, max_steps=1000)


def test_events_energy_and_estimate_as_by_the_other_method():
    """A pendulum backwards in time, through the bottom; then a geodesic of a body that turns."""
    system, ways = cn.MechanicalSystem(LINE, lambda q: -jnp.cos(q[0])), {}
    for method in ("DOP853", "Radau"):
        options = {"method": method, "events": lambda t, q, v: q[0]}
        ways[method] = system.simulate([1.0], [0.5], -2.0 * TIMES, **options)
    one, other = ways.values()
    assert len(one.event_times[0]) == 3
    np.testing.assert_allclose(other.event_times[0], one.event_times[0], atol=1e-9)
    np.testing.assert_allclose(other.q, one.q, atol=1e-9)
    assert np.max(other.drift) < 1e-9
    body = cn.LeviCivita(cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 3.0])))
    given = body, [0.0, 0.0, 0.0, 1.0], [0.3, 2.0, 0.1], [0.0, 1.0]
    turned = cn.geodesic(*given, method="Radau", rtol=1e-7, estimate=True)
    off = np.abs(turned.v - cn.geodesic(*given).v).max()
    assert 1e-13 < off < 1e-7 and off < 2.0 * np.abs(turned.estimate[1]).max() < 1e-6


def test_where_the_method_is_refused():
    for call, error, words in (
        (
            lambda: pendulum(1.0).simulate([1.0], [2.0], TIMES, method="RK45"),
            ValueError,
            "'variational', or 'Radau' where",
        ),
        (
            lambda: cn.geodesic(cn.LeviCivita(LINE), [1.0], [2.0], TIMES, method="LSODA"),
            ValueError,
            "or 'Radau'",
        ),
        (
            lambda: jax.jit(lambda q: pendulum(1.0).simulate(q, [2.0], TIMES, method="Radau").q)(np.ones(1)),
            ValueError,
            "method='Radau' works outside of jit, grad and vmap only",
        ),
        (
            lambda: pendulum(1.0).simulate([1.0], [2.0], TIMES, method="Radau", step=0.1),
            TypeError,
            "step is an option of method='variational'",
        ),
    ):
        with pytest.raises(error, match=words):
            call()


def test_a_motion_ends_at_a_pole():
    """q = 1 / (1 - t)^2; and a fall into 1 / q^2 with friction. A step's equations have solutions beyond."""
    explodes = cn.MechanicalSystem(LINE, forces=lambda t, q, v: 6.0 * q**2)
    falls = cn.MechanicalSystem(LINE, forces=lambda t, q, v: -1.0 / q**2 - 0.1 * v)
    for system, start, last, pole in ((explodes, (1.0, 2.0), 1.5, 1.0), (falls, (1.0, 0.0), 2.0, 1.125)):
        q, v = ([x] for x in start)
        with pytest.raises(
            IntegrationError, match=rf"beyond t = {pole:g}|beyond t = 0\.999|beyond t = 1\.12"
        ):
            system.simulate(q, v, [0.0, last], method="Radau")
    found = explodes.simulate([1.0], [2.0], [0.0, 0.9], method="Radau")
    np.testing.assert_allclose(found.q[-1], [100.0], rtol=1e-7)
