"""A motion that fails where JAX traces it is NaN from that time on, and nothing else; never zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections.checks import IntegrationError, NonFiniteError

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
        lambda v: SYSTEM.simulate(np.zeros(1), v, TIMES)[0],
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
