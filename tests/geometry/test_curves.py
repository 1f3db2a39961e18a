"""Curves through samples: order of the error, signs of quaternions, what is refused, what is compiled."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always

import connections as cn
from connections.checks import NonFiniteError, PointError, ShapeError
from connections.evaluation.compilation import compiled, flattened
from connections.geometry.curves import SPLINE_DEGREE, kinks
from connections.geometry.rigid.rotations import quaternion_exponential, quaternion_product

CHART, SO3 = cn.CoordinateFrame(2), cn.SO3Frame()


def chart_curve(t):
    return jnp.stack([jnp.sin(3.0 * t), jnp.exp(t) * jnp.cos(2.0 * t)])


def turning(t):
    first = quaternion_exponential(jnp.stack([2.0 * jnp.sin(t), 0.0 * t, 0.9 * t]))
    return quaternion_product(first, quaternion_exponential(jnp.array([0.0, 0.7, 1.3]) * t))


CURVES = {"chart": (CHART, chart_curve), "rotations": (SO3, turning)}


def sampled(frame, curve, count, end=2.0):
    times = np.linspace(0.0, end, count)
    return cn.SampledCurve(frame, times, np.asarray(jax.vmap(curve)(jnp.asarray(times))))


def slope(sizes, errors):
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_kinks_are_knots_where_a_curve_bends_suddenly_in_any_units(unit):
    """A curve that breaks at t = 1 has kinks near it; a smooth one, of as many samples, has none."""
    t = np.linspace(0.0, 2.0, 201)
    for power, broken in ((3, True), (0, False)):
        q = np.stack([np.sin(t), np.cos(t) + np.maximum(t - 1.0, 0.0) ** power * (power > 0)], axis=1)
        found = kinks(cn.SampledCurve(CHART, unit * t, unit**2 * q)) / unit
        assert (len(found) > 0) is broken
        assert (np.abs(found - 1.0) < 0.15).all()


@pytest.mark.parametrize("name", always(CURVES, "rotations"))
def test_order_of_the_error(name):
    """Six for points, five for velocities, four for second derivatives."""
    frame, curve = CURVES[name]
    instants = jnp.linspace(0.0, 2.0, 401)
    rate = lambda f: lambda t: jax.jvp(f, (t,), (jnp.ones_like(t),))[1]  # noqa: E731
    counts = np.array([21, 29, 41, 57])

    def values(make, function):
        return compiled(lambda t: jax.vmap(make(function))(t))(instants)

    for order, make in ((6, lambda f: f), (5, rate), (4, lambda f: rate(rate(f)))):
        exact = values(make, curve)
        errors = [np.abs(values(make, sampled(frame, curve, count)) - exact).max() for count in counts]
        assert order - 0.4 < slope(2.0 / (counts - 1), errors) < order + 0.8
    assert max(errors) > 1e-7  # far from round-off


@pytest.mark.further
def test_the_stated_error_in_a_chart():
    """At most h^6 / 73 times the sixth derivative, and h^6 / 8000 six samples from the ends."""
    counts, w = (16, 33, 70), 7.0
    for count in counts:
        h = 1.0 / (count - 1)
        x = np.linspace(0.0, 1.0, 40 * (count - 1) + 1)
        for phase in (0.0, 1.0, 2.0):
            wave = lambda t, p=phase: jnp.stack([jnp.sin(w * t + p), t])  # noqa: E731
            error = np.abs(sampled(CHART, wave, count, 1.0)(x) - jax.vmap(wave)(x))[:, 0]
            inner = (x > 5.99 * h) & (x < 1.0 - 5.99 * h)
            assert error.max() < (w * h) ** 6 / 73
            assert np.max(error[inner], initial=0.0) < (w * h) ** 6 / 8000


@pytest.mark.parametrize(("count", "order"), [(2, 2), (3, 2), (4, 4), (5, 4), (6, 6), (7, 6)])
def test_few_samples_are_a_polynomial_of_lower_degree(count, order):
    assert SPLINE_DEGREE == 5
    line = lambda t: jnp.stack([t ** (order - 1), 1.0 - 2.0 * t])  # noqa: E731
    x = jnp.linspace(0.0, 2.0, 33)
    np.testing.assert_allclose(sampled(CHART, line, count)(x), jax.vmap(line)(x), atol=1e-12)
    beyond = lambda t: jnp.stack([t**order, t])  # noqa: E731
    assert float(jnp.abs(sampled(CHART, beyond, count)(x) - jax.vmap(beyond)(x)).max()) > 1e-3


def test_signs_of_quaternions_do_not_matter(rng):
    times = np.linspace(0.0, 2.0, 31)
    q = np.asarray(jax.vmap(turning)(jnp.asarray(times)))
    flipped = q * rng.choice([-1.0, 1.0], size=(31, 1))
    x = jnp.linspace(0.0, 2.0, 57)
    ours, theirs = cn.SampledCurve(SO3, times, q)(x), cn.SampledCurve(SO3, times, flipped)(x)
    sign = np.sign(ours[0] @ theirs[0])
    np.testing.assert_allclose(sign * ours, theirs, atol=1e-13)
    np.testing.assert_allclose(jnp.linalg.norm(ours, axis=1), 1.0, atol=1e-15)


@pytest.mark.further
def test_several_curves_at_once():
    times = np.linspace(0.0, 1.0, 9)
    points = np.stack([np.sin(times), times**2], axis=-1) * np.array([1.0, 2.0, -1.0])[:, None, None]
    together = cn.SampledCurve(CHART, times, points)
    x = np.linspace(0.1, 0.9, 5)
    assert together(0.3).shape == (3, 2) and together(x).shape == (3, 5, 2)
    np.testing.assert_allclose(together(x)[1], cn.SampledCurve(CHART, times, points[1])(x), rtol=1e-14)


def test_outside_of_the_samples_there_is_no_curve():
    curve = sampled(CHART, chart_curve, 9)
    assert np.isfinite(curve(np.array([0.0, 2.0, 2.0 + 1e-15]))).all()
    assert np.isnan(curve(np.array([-1e-9, 2.0 + 1e-9]))).all()
    with pytest.raises(PointError, match=r"times: 2\.5 is outside the curve's samples \[0, 2\]"):
        curve.require_times("times", [0.0, 2.5])


TIMES = np.linspace(0.0, 1.0, 7)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: cn.SampledCurve(CHART, TIMES[::-1], np.zeros((7, 2))), ShapeError, "increasing"),
        (lambda: cn.SampledCurve(CHART, TIMES[:6], np.zeros((7, 2))), ShapeError, "samples"),
        (lambda: cn.SampledCurve(CHART, TIMES[:1], np.zeros((1, 2))), ShapeError, "S >= 2"),
        (lambda: cn.SampledCurve(CHART, TIMES, np.zeros((7, 3))), ShapeError, "curve points"),
        (lambda: cn.SampledCurve(CHART, TIMES, np.full((7, 2), np.nan)), NonFiniteError, "curve points"),
        (lambda: cn.SampledCurve(SO3, TIMES, np.ones((7, 4))), PointError, "quaternion"),
        (lambda: cn.SampledCurve.through(CHART, 3.0), TypeError, "curve: expected a function of time"),
        (lambda: cn.SampledCurve.through(SO3, sampled(CHART, chart_curve, 7)), ShapeError, "curve points"),
    ],
)
def test_bad_samples_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_samples_are_numbers():
    """Other samples are the same structure."""
    make = lambda scale, count: sampled(CHART, lambda t: scale * chart_curve(t), count)  # noqa: E731
    assert flattened(make(1.0, 9))[0] is flattened(make(2.0, 9))[0]


COUNT = """
import numpy as np
import jax
import connections as cn
from connections.control import PassivityController, ClosedLoop, trajectory_reference

compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *rest, **more: compiled.append(name) if "backend_compile_duration" in name else None
)
times, ends = np.linspace(0.0, 1.0, 13), np.array([0.0, 0.5, 1.0])
SO3 = cn.SO3Frame()
metric = cn.ConstantMetric(SO3, np.diag([1.0, 2.0, 3.0]))

def run(a):
    angle = a * np.sin(np.pi * times) ** 2
    q = np.stack([np.sin(angle), 0 * times, 0 * times, np.cos(angle)], axis=1)
    z = a * np.stack([times, times**2, 1 + times], axis=1)
    nabla = cn.LeviCivita(metric)
    cn.parallel_transport(nabla, (times, q), np.eye(3), ends)
    cn.holonomy(nabla, (times, q))
    cn.covariant_derivative_along(nabla, (times, q), (times, z), ends)
    body = cn.MechanicalSystem(metric)
    reference = trajectory_reference(SO3, (times, q), 1.0)
    ClosedLoop(body, PassivityController(body, 2.0), reference).simulate(q[0], z[0], ends)

run(0.3)
first = len(compiled)
run(0.4)
print(first, len(compiled) - first)
"""


@pytest.mark.further
def test_other_samples_compile_nothing():
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    first, again = map(int, done.stdout.split())
    assert first > 0 and again == 0
