"""Long geodesics of hyperbolic space in eight models: coordinates that become small, or reach a boundary.

On the hyperboloid X0^2 - X1^2 - ... = 1, a geodesic of unit speed is X cosh(s) + U sinh(s); every model has
its coordinates as functions of X, which mpmath evaluates with 60 digits. Claims: the half plane from (0, 1)
along (L, 0) has y = sech(L) to 1e-5 of itself for L up to 60, and so has its velocity; logarithmic, polar and
Fermi's coordinates, and those of the hyperboloid along an axis, are right to 1e-8. In a disc a point at the
distance L is 2 exp(-L) from the boundary (Klein: 2 exp(-2 L)), so that float64 has this distance with a
relative error of 1e-16 exp(L), or 1e-16 exp(2 L): geodesics are right to 1e-5 and to this, or refused; and
not refused up to the length at which steps of a relative error of 1e-10 are this accurate.
Source: J. W. Cannon, W. J. Floyd, R. Kenyon, W. R. Parry, Hyperbolic Geometry (1997), sections 7 and 9.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always, further
from hyperbolic import MODELS, closed_form, connection, start

import connections as cn
from connections.checks import IntegrationError

EPS = np.finfo(float).eps
LONG = (10.0, 30.0, 40.0, 60.0)


def require_right(name, angle, lengths, q, v, digits=1e-8):
    """To `digits` of 1 and of themselves; small ones, and their velocities, to 1e-5 of themselves."""
    expected, rates = closed_form(name, angle, lengths)
    np.testing.assert_allclose(q, expected, rtol=digits, atol=digits)
    for k in MODELS[name].small:
        np.testing.assert_allclose(np.asarray(q)[:, k], expected[:, k], rtol=1e-5)
        np.testing.assert_allclose(np.asarray(v)[:, k], rates[:, k], rtol=1e-5)


def test_closed_forms():
    """Of the half plane; and every model has unit speed where it begins, and at a distance of 3."""
    q, v = closed_form("half plane", 0.0, [2.0, 60.0])
    np.testing.assert_allclose(q, [[np.tanh(L), 1.0 / np.cosh(L)] for L in (2.0, 60.0)], rtol=1e-14)
    np.testing.assert_allclose(v[:, 1], -q[:, 1] * np.tanh([2.0, 60.0]), rtol=1e-14)
    for name, model in MODELS.items():
        for angle in (0.0, 0.7):
            q, v = closed_form(name, angle, [0.0, 3.0])
            np.testing.assert_allclose(q[0], model.q0, atol=1e-15)
            np.testing.assert_allclose(v[0], start(name, angle)[1], atol=1e-15)
            for point, rate in zip(q, v, strict=True):
                np.testing.assert_allclose(rate @ model.matrix(jnp.asarray(point)) @ rate, 1.0, rtol=1e-11)


# --- coordinates that have all digits ----------------------------------------------------------------------


@pytest.mark.parametrize("length", LONG)
def test_the_half_plane(length):
    """From (0, 1) along (L, 0) for unit time; as exponential; with many times; backwards."""
    nabla = connection("half plane")
    for times in (np.array([0.0, 1.0]), np.linspace(0.0, 1.0, 40), np.array([0.0, -1.0])):
        q, v = cn.geodesic(nabla, [0.0, 1.0], [times[-1] * length, 0.0], times)
        require_right("half plane", 0.0, np.abs(times) * length, q, v * times[-1] / length)
    q = cn.exponential(nabla, [0.0, 1.0], [length, 0.0])
    np.testing.assert_allclose(q, [np.tanh(length), 1.0 / np.cosh(length)], rtol=1e-5)


@pytest.mark.parametrize("angle", [0.0, *map(further, (-1.2, 0.7, 1.5))])
@pytest.mark.parametrize(
    "name",
    always(["half plane", "half space", "horocyclic", "polar", "fermi"], "half space"),
)
def test_coordinates_that_keep_their_digits(name, angle):
    """At unit speed, to the length 60, where float64 has every coordinate, also where it is small."""
    q0, v0 = start(name, angle)
    for times in (np.array([0.0, *LONG]), np.array([0.0, 60.0])):
        q, v = cn.geodesic(connection(name), q0, v0, times)
        require_right(name, angle, times, q, v)


def test_the_hyperboloid_along_an_axis():
    """To sinh(60). Off the axes, entries of H are differences that lose the digits of their determinant."""
    q0, v0 = start("hyperboloid", 0.0)
    times = np.array([0.0, *LONG])
    q, _ = cn.geodesic(connection("hyperboloid"), q0, v0, times)
    np.testing.assert_allclose(q, np.stack([np.sinh(times), 0.0 * times], axis=1), rtol=1e-8)


@pytest.mark.further
def test_inside_jit_and_in_a_batch():
    lengths = np.array(LONG)
    v0 = np.stack([lengths, 0.0 * lengths], axis=1)

    def end(v0):
        return cn.geodesic(connection("half plane"), jnp.array([0.0, 1.0]), v0, np.array([0.0, 1.0]))[0][
            ..., -1, :
        ]

    expected, _ = closed_form("half plane", 0.0, lengths)
    for found in (end(v0), jax.jit(jax.vmap(end))(v0)):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


# --- coordinates that have not -----------------------------------------------------------------------------


def distance(name, q):
    """From the first point; infinite, or NaN, where q is not in the model."""
    r = np.hypot(*q)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "poincare": lambda: 2.0 * np.arctanh(r),
            "klein": lambda: np.arctanh(r),
            "hyperboloid": lambda: np.arcsinh(r),
        }[name]()


#: How fast exp(rate L) an error of a coordinate, relative to it, becomes one of the metric.
RATE = {"poincare": 1.0, "klein": 2.0, "hyperboloid": 2.0}


@pytest.mark.parametrize("angle", [0.3, further(0.0), further(2.0)])
@pytest.mark.parametrize("name", always(RATE, "poincare"))
def test_not_refused(name, angle):
    """As long as errors of 1e-10 relative to coordinates are no more than 1e-5 in the metric."""
    q0, v0 = start(name, angle)
    lengths = np.array([0.0, 1.0, 3.0, 10.0]) / RATE[name]
    q, _ = cn.geodesic(connection(name), q0, v0, lengths)
    require_right(name, angle, lengths, q, None)
    np.testing.assert_allclose([distance(name, point) for point in np.asarray(q)], lengths, atol=1e-5)


@pytest.mark.parametrize("angle", [0.3, further(0.0), further(2.0)])
@pytest.mark.parametrize("name", ["poincare", "klein"])
@pytest.mark.parametrize("length", [further(16.0), 24.0, further(30.0), further(36.0), 45.0, further(80.0)])
def test_right_or_refused(name, angle, length):
    """To 1e-5, or to what the coordinates' last bit changes in the distance."""
    q0, v0 = start(name, angle)
    length = length / RATE[name]
    for times in (np.array([0.0, length]), np.linspace(0.0, length, 30)):
        try:
            q, _ = cn.geodesic(connection(name), q0, v0, times)
        except IntegrationError:
            continue
        require_right(name, angle, times, q, None)
        last_bit = EPS * np.exp(RATE[name] * length)
        assert last_bit < 1.0  # or the boundary itself is as near, and nothing is right
        assert abs(distance(name, np.asarray(q)[-1]) - length) < 1e-5 + last_bit
