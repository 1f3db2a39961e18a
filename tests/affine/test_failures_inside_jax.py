"""A motion that fails where JAX traces it is NaN from that time on, and nothing else; never zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from scipy.integrate import solve_ivp

import connections as cn
from connections.checks import IntegrationError, NonFiniteError
from connections.control import ClosedLoop, FieldReference, PassivityController

LINE = cn.CoordinateFrame(1)
#: vdot = v^2: from v = 1, q = -log(1 - t) and v = 1 / (1 - t), until t = 1.
BLOW_UP = cn.CoefficientConnection(LINE, lambda q: -jnp.ones((1, 1, 1)))
TIMES = np.array([0.0, 0.25, 0.5, 1.5, 2.0])
SYSTEM = cn.MechanicalSystem(cn.ConstantMetric(LINE, np.eye(1)), forces=lambda t, q, v: v**2)


def expected(speed):
    """q until the motion ends, NaN after."""
    with np.errstate(invalid="ignore"):
        return np.where(TIMES * speed < 1.0, -np.log(1.0 - TIMES * speed), np.nan)


@pytest.mark.parametrize(
    "motion",
    [
        lambda v: cn.geodesic(BLOW_UP, np.zeros(1), v, TIMES)[0],
        further(lambda v: SYSTEM.simulate(np.zeros(1), v, TIMES)[0]),
    ],
    ids=["geodesic", "simulate"],
)
def test_until_it_ends_and_nan_after(motion):
    """By `jit`, `vmap` and both; other members of a batch go on."""
    for function in (motion, jax.jit(motion)):
        if function is motion:
            with pytest.raises(IntegrationError, match="t = 1.5"):  # where values are concrete
                function(np.ones(1))
        else:
            np.testing.assert_allclose(function(np.ones(1))[:, 0], expected(1.0), rtol=1e-9)
        speeds = np.array([1.0, 0.1, 3.0])
        together = jax.vmap(function)(speeds[:, None])
        np.testing.assert_allclose(together[..., 0], [expected(speed) for speed in speeds], rtol=1e-9)


def test_exponential():
    exponential = jax.jit(lambda v: cn.exponential(BLOW_UP, np.zeros(1), v))
    assert np.isnan(exponential(np.array([2.0]))).all()
    np.testing.assert_allclose(exponential(np.array([0.5])), np.log(2.0), rtol=1e-9)


@pytest.mark.further
def test_transport_beyond_the_samples_and_beyond_the_chart():
    """A curve through samples is NaN outside of them; the metric 1 - q ends where the curve gets to 1."""
    t = np.linspace(0.0, 1.0, 11)
    curve = cn.SampledCurve(LINE, t, t[:, None] ** 2)
    np.testing.assert_array_equal(np.isnan(jax.jit(curve)(np.array([0.5, 1.5]))[:, 0]), [False, True])

    half_line = cn.LeviCivita(cn.MatrixMetric(LINE, lambda q: (1.0 - q)[:, None]))

    @jax.jit
    def carried(times):
        return cn.parallel_transport(BLOW_UP, curve, np.ones(1), times)[:, 0]

    @jax.jit
    def read(times):
        return cn.covariant_derivative_along(BLOW_UP, curve, lambda s: jnp.stack([s]), times)[:, 0]

    @jax.jit
    def to_the_end(times):
        return cn.parallel_transport(half_line, lambda s: jnp.stack([s]), np.ones(1), times)[:, 0]

    times = np.array([0.0, 0.5, 1.0, 1.5])
    np.testing.assert_allclose(carried(times), [1.0, np.exp(0.25), np.exp(1.0), np.nan], rtol=1e-9)
    np.testing.assert_allclose(read(times), [1.0, 1.0 - 0.5, 1.0 - 2.0, np.nan], rtol=1e-9)
    np.testing.assert_allclose(
        to_the_end(np.array([0.0, 0.5, 0.75, 1.5])), [1.0, 2.0**0.5, 2.0, np.nan], rtol=1e-9
    )


@pytest.mark.further
def test_a_sweep_names_the_member():
    """Both members of one sweep, the first of which goes on."""
    family = cn.ContorsionFamily(cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3)))

    def motion(nabla):
        return cn.geodesic(nabla, np.zeros(3), np.ones(3), [0.0, 2.0], lambda t, q, v: pulled(nabla, v))

    def pulled(nabla, v):
        return nabla.contorsion_at(jnp.zeros(3))[0, 1, 2] * v**2

    with pytest.raises(NonFiniteError, match="member 1"):
        family.sweep(np.array([[0.1], [-1.0]]), motion)
    points, _ = family.sweep(np.array([[0.1], [0.2]]), motion)
    np.testing.assert_allclose(points[1, -1], np.log(1.0 + 0.4) / 0.2, rtol=1e-9)


@pytest.mark.further
def test_a_closed_loop():
    """The plant pushes with v^2 where the law adds nothing to speak of: v' = v^2 - K v."""
    law = PassivityController(cn.MechanicalSystem(SYSTEM.metric), 1e-3 * np.eye(1))
    at_rest = FieldReference(LINE, lambda t, q: jnp.zeros(1))
    loop = ClosedLoop(SYSTEM, law, at_rest)

    def speed(v):
        return loop.simulate(np.zeros(1), v, TIMES).v[:, 0]

    def closed_form(v):
        end = np.log(v / (v - 1e-3)) / 1e-3
        grown = 1e-3 / (1.0 - (1.0 - 1e-3 / v) * np.exp(1e-3 * TIMES))
        return np.where(TIMES < end, grown, np.nan)

    with pytest.raises(IntegrationError, match="t = 1.5"):
        speed(np.ones(1))
    np.testing.assert_allclose(jax.jit(speed)(np.ones(1)), closed_form(1.0), rtol=1e-8)
    speeds = np.array([1.0, 0.1, 3.0])
    together = jax.jit(jax.vmap(speed))(speeds[:, None])
    np.testing.assert_allclose(together, [closed_form(v) for v in speeds], rtol=1e-8)
    assert np.isnan(jax.grad(lambda v: speed(v)[-1])(np.ones(1))).all()


@pytest.mark.further
def test_a_kink_from_exact_rest():
    """A thrust max(t - 0.3, 0): on the host, inside `jit` and `vmap`. SciPy begins at the kink."""
    times = np.array([0.0, 0.1, 0.3, 1.0, 1.4])

    def thrust(t):
        return jnp.maximum(t - 0.3, 0.0)

    system = cn.MechanicalSystem(
        cn.MatrixMetric(LINE, lambda q: (1.0 + q**2)[:, None]),
        forces=lambda t, q, v: thrust(t) * jnp.ones(1),
    )

    def motion(v):
        return system.simulate(np.zeros(1), v, times)[0][:, 0]

    def rate(t, y):
        """d/dt of q and v, where (1 + q^2) vdot + q v^2 is the thrust."""
        return [y[1], (max(t - 0.3, 0.0) - y[0] * y[1] ** 2) / (1.0 + y[0] ** 2)]

    after = solve_ivp(rate, (0.3, 1.4), [0.0, 0.0], "DOP853", times[2:], rtol=1e-12, atol=1e-14).y[0]
    expected = np.concatenate([np.zeros(2), after])
    assert expected[-1] > 0.1
    for found in (motion(np.zeros(1)), jax.jit(motion)(np.zeros(1))):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)
    together = jax.jit(jax.vmap(motion))(np.array([[0.0], [0.5], [0.0]]))
    np.testing.assert_allclose(together[::2], [expected, expected], rtol=1e-8, atol=1e-12)
    moving = solve_ivp(rate, (0.0, 1.4), [0.0, 0.5], "DOP853", times, max_step=1e-2, rtol=1e-12, atol=1e-14).y
    np.testing.assert_allclose(together[1], moving[0], rtol=1e-8)
