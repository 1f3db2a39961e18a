"""Transport along samples with corners and rests, and the estimate of the interpolation's error.

Independent routes: the area inside a triangle of the sphere and a rectangle of the half plane, times the
curvature; Milnor's coefficients and a matrix exponential for turns about fixed axes of a rigid body. Negative
controls: the same samples taken as those of a smooth curve, `breakpoints=[]`, are off by much more.
"""

import jax
import numpy as np
import oracles
import pytest
import systems
from cases import further
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

import connections as cn
from connections import control
from connections.checks import PointError
from connections.geometry.curves import coarser_curves

SPHERE, HALF_PLANE, TOP = systems.SPHERE_EMBEDDED_NABLA, systems.HALF_PLANE_NABLA, systems.TOP_NABLA
VERTICES = Rotation.from_rotvec([0.9, 0.4, 0.2]).as_matrix()[[0, 1, 2, 0]]
TAKEN_AS_SMOOTH = {"breakpoints": []}


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def octant(count):
    """An octant's boundary, at an even pace in [0, 3]: its area and its angle of holonomy are pi / 2."""
    t = np.linspace(0.0, 3.0, count)
    side = np.minimum(t.astype(int), 2)
    u = 0.5 * np.pi * (t - side)[:, None]
    return t, np.cos(u) * VERTICES[side] + np.sin(u) * VERTICES[side + 1]


def around_the_octant():
    orientation = np.linalg.det(VERTICES[:3])
    return rotation(orientation * 0.5 * np.pi)


def rectangle(count, corner=(0.0, 1.0), width=1.0, height=1.0):
    """[x, x + width] x [y, y + height] in the half plane, and its holonomy, minus its area."""
    (x, y), t = corner, np.linspace(0.0, 4.0, count)
    xs, ys = [x, x + width, x + width, x, x], [y, y, y + height, y + height, y]
    q = np.stack([np.interp(t, np.arange(5.0), values) for values in (xs, ys)], axis=1)
    return (t, q), rotation(-width * (1.0 / y - 1.0 / (y + height)))


def slow_circle(count, rest=0, first=None):
    """A hyperbolic circle of area pi / 2, at an even pace but for `rest` steps after `first` ones."""
    first = count // 3 if first is None else first
    steps = np.arange(count + rest)
    u = 2.0 * np.pi * (np.minimum(steps, first) + np.maximum(steps - first - rest, 0)) / (count - 1)
    return np.linspace(0.0, 1.0, count + rest), np.stack([0.9 * np.sin(u), 1.5 - 0.9 * np.cos(u)], axis=1)


AROUND_THE_CIRCLE = rotation(-0.5 * np.pi)


def off(P, expected):
    return np.abs(np.asarray(P) - expected).max()


# --- corners and rests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [10, further(20), further(40)])
def test_a_triangle_on_the_sphere(side):
    """Corners found, given, or given among others; the estimate says so; taken as smooth, it says so, too."""
    samples, expected = octant(3 * side + 1), around_the_octant()
    for options in ({}, {"breakpoints": [2.0, 1.0]}, {"breakpoints": [0.0, 1.0, 2.0]}):
        P, error = cn.holonomy(SPHERE, samples, estimate=True, **options)
        assert off(P, expected) < 1e-11 and error.max() < 1e-10
    P, error = cn.holonomy(SPHERE, samples, estimate=True, **TAKEN_AS_SMOOTH)
    assert 0.3 / side**2 < off(P, expected) < error.max() < 20.0 * off(P, expected)


def test_a_triangle_by_its_vertices():
    """A polyline of great circles, forwards, backwards and in between; no estimate of interpolation."""
    lines, expected = (
        cn.SampledCurve(SPHERE.frame, np.arange(4.0), VERTICES, kind="linear"),
        around_the_octant(),
    )
    P, error = cn.holonomy(SPHERE, lines, estimate=True)
    assert off(P, expected) < 1e-11 and error.max() < 1e-11
    times = np.array([0.0, 0.4, 1.0, 2.5, 3.0])
    z = cn.parallel_transport(SPHERE, lines, np.eye(2), times)
    assert off(z[:, -1].T, expected) < 1e-11
    back = cn.parallel_transport(SPHERE, lines, np.eye(2), times[::-1])
    np.testing.assert_allclose(back[:, -1], expected, atol=1e-11)
    for at, t in ((1, 0.4), (3, 2.5)):
        alone = cn.parallel_transport(SPHERE, lines, np.eye(2), [0.0, t])
        np.testing.assert_allclose(z[:, at], alone[:, -1], atol=1e-11)


def test_a_rectangle_in_a_chart():
    """Coordinates; by vertices, and by samples, of which the estimate is far below their error if smooth."""
    samples, expected = rectangle(41)
    P, error = cn.holonomy(HALF_PLANE, samples, estimate=True)
    assert off(P, expected) < 1e-10 and error.max() < 1e-9
    vertices = samples[0][::10], samples[1][::10]
    lines = cn.SampledCurve(HALF_PLANE.frame, *vertices, kind="linear")
    assert off(cn.holonomy(HALF_PLANE, lines), expected) < 1e-10
    assert off(cn.holonomy(HALF_PLANE, samples, **TAKEN_AS_SMOOTH), expected) > 1e-4


@pytest.mark.parametrize("rest", [5, further(1), further(2)])
def test_a_rest(rest):
    samples = slow_circle(61, rest)
    P, error = cn.holonomy(HALF_PLANE, samples, estimate=True)
    assert off(P, AROUND_THE_CIRCLE) < error.max() < 1e-4 and off(P, AROUND_THE_CIRCLE) < 1e-7
    P, error = cn.holonomy(HALF_PLANE, samples, estimate=True, **TAKEN_AS_SMOOTH)
    assert 2e-6 < off(P, AROUND_THE_CIRCLE) < error.max()


def test_turns_about_two_axes_of_a_rigid_body():
    """Milnor's coefficients, Pdot = -Gamma(omega, .) P with a constant body velocity on each side."""
    Gamma = oracles.left_invariant_coefficients(systems.TOP_INERTIA, oracles.EPSILON)
    axes = np.array([[0.8, 0.3, -0.2], [-0.4, 0.9, 0.5]])
    first = Rotation.from_rotvec([0.2, -0.3, 0.1])
    middle = first * Rotation.from_rotvec(axes[0])
    vertices = np.stack([r.as_quat() for r in (first, middle, middle * Rotation.from_rotvec(axes[1]))])
    expected = np.eye(3)
    for axis in axes:
        expected = expm(-np.einsum("ijk,j->ik", Gamma, axis)) @ expected
    t = np.linspace(0.0, 2.0, 25)
    many = [first * Rotation.from_rotvec(s * axes[0]) for s in t[:13]]
    many += [middle * Rotation.from_rotvec((s - 1.0) * axes[1]) for s in t[13:]]
    many = np.stack([r.as_quat() for r in many]) * np.where(np.arange(25) % 3, 1.0, -1.0)[:, None]
    lines = cn.SampledCurve(TOP.frame, np.arange(3.0), vertices, kind="linear")
    for curve, near in ((lines, 1e-11), ((t, many), 1e-9)):
        z = cn.parallel_transport(TOP, curve, np.eye(3), [0.0, 2.0])
        np.testing.assert_allclose(z[:, -1].T, expected, atol=near)
    smooth = cn.parallel_transport(TOP, (t, many), np.eye(3), [0.0, 2.0], **TAKEN_AS_SMOOTH)
    assert off(smooth[:, -1].T, expected) > 1e-6


def test_curves_of_a_batch_have_corners_at_different_times():
    times = rectangle(41)[0][0]
    rows = [rectangle(41, width=0.5), rectangle(41, (0.3, 2.0)), (slow_circle(41), AROUND_THE_CIRCLE)]
    q = np.stack([row[0][1] for row in rows])
    P = cn.holonomy(HALF_PLANE, (times, q))
    for found, (_, expected) in zip(P, rows, strict=True):
        assert off(found, expected) < 2e-6
    assert off(P[2], cn.holonomy(HALF_PLANE, (times, q[2]))) < 1e-10


def test_inside_jit():
    """Values and slopes with breakpoints that are numbers; NaN where a corner shows; also the estimate."""
    (t, q), expected = rectangle(41)
    corners = [1.0, 2.0, 3.0]

    def around(q):
        return cn.holonomy(HALF_PLANE, (t, q), breakpoints=corners)

    P, slope = jax.jit(lambda q: jax.jvp(around, (q,), (q * np.array([1.0, 0.0]),)))(q)
    np.testing.assert_allclose(P, expected, atol=1e-10)
    angle = -0.5  # the area, whose derivative by the width is itself
    np.testing.assert_allclose(slope, angle * rotation(angle + 0.5 * np.pi), atol=1e-8)
    assert np.isnan(jax.jit(lambda q: cn.holonomy(HALF_PLANE, (t, q)))(q)).all()


@pytest.mark.further
def test_what_is_traced_with_corners():
    """Requested times, points in a batch, and the estimate."""
    (t, q), expected = rectangle(41)
    corners = [1.0, 2.0, 3.0]
    times = np.array([0.0, 1.0, 2.3, 4.0])
    host = cn.parallel_transport(HALF_PLANE, (t, q), np.eye(2), times)
    traced = jax.jit(
        lambda s, q: cn.parallel_transport(HALF_PLANE, (t, q), np.eye(2), s, breakpoints=corners)
    )
    np.testing.assert_allclose(traced(times, q), host, atol=1e-10)
    np.testing.assert_allclose(traced(times[::-1], q)[:, -1], expected, atol=1e-10)
    both = jax.jit(jax.vmap(lambda q: cn.holonomy(HALF_PLANE, (t, q), breakpoints=corners, estimate=True)))
    P, error = both(np.stack([q, q + [0.4, 0.0]]))
    np.testing.assert_allclose(P, np.stack([expected] * 2), atol=1e-10)
    assert error.max() < 1e-9
    lines = jax.jit(
        lambda t, q: cn.holonomy(HALF_PLANE, cn.SampledCurve(HALF_PLANE.frame, t, q, kind="linear"))
    )
    np.testing.assert_allclose(lines(t, q), expected, atol=1e-10)


# --- the estimate ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [17, 29, further(23), further(41)])
def test_the_estimate_for_a_smooth_curve(count):
    """Between the error and five hundred times as much; without the samples it would be round-off."""
    P, error = cn.holonomy(HALF_PLANE, slow_circle(count), estimate=True)
    assert off(P, AROUND_THE_CIRCLE) > 1e-9
    assert off(P, AROUND_THE_CIRCLE) < error.max() < 500.0 * off(P, AROUND_THE_CIRCLE)


@pytest.mark.parametrize("count", [62, 122, 123, *map(further, [x for x in range(32, 130, 5) if x % 3 != 1])])
def test_the_estimate_for_corners_between_samples(count):
    """62, 122, 123: the errors at both corners cancel if every second or every third sample is left out."""
    samples = octant(count)
    with pytest.raises(PointError, match="corner or a jump between"):
        cn.holonomy(SPHERE, samples)
    P, error = cn.holonomy(SPHERE, samples, estimate=True, **TAKEN_AS_SMOOTH)
    assert off(P, around_the_octant()) > 1e-6
    assert off(P, around_the_octant()) < error.max() < 50.0 * off(P, around_the_octant())


def area(curve, span=1.0):
    """The area that a plane spline encloses with its chord, by Gauss's rule between knots."""
    knots, pieces = np.asarray(curve.knots), np.asarray(curve.pieces)
    ends = np.append(knots[: np.searchsorted(knots[:-1], span)], span)
    x, weights = np.polynomial.legendre.leggauss(6)
    half = 0.5 * np.diff(ends)[:, None]
    q, rate = curve.path.values_and_rates((ends[:-1, None] + half * (x + 1.0)).ravel(), pieces, knots)
    return 0.5 * np.sum((half * weights).ravel() * (q[:, 0] * rate[:, 1] - q[:, 1] * rate[:, 0]))


def random_polygon(rng, count):
    """Samples (count, 2) of a polygon with two to four corners at random times, and its area."""
    corners = rng.integers(2, 5)
    t, vertices = np.sort(rng.uniform(0.15, 0.85, corners)), rng.standard_normal((corners + 2, 2))
    q = [np.interp(np.linspace(0.0, 1.0, count), [0.0, *t, 1.0], x) for x in vertices.T]
    return np.stack(q, axis=1), 0.5 * np.sum(vertices[:-1] * vertices[1:, ::-1] * [1.0, -1.0])


def random_wave(rng, count):
    """Samples (count, 2) of a trigonometric polynomial with five frequencies, and its area."""
    k, a = 2.0 * np.arange(1.0, 6.0), rng.standard_normal((2, 5, 2))

    def at(t):
        c, s = np.cos(k * t[:, None]), np.sin(k * t[:, None])
        return c @ a[0] + s @ a[1], (k * c) @ a[1] - (k * s) @ a[0]

    x, weights = np.polynomial.legendre.leggauss(60)
    q, rate = at(0.5 * (x + 1.0))
    exact = 0.25 * np.sum(weights * (q[:, 0] * rate[:, 1] - q[:, 1] * rate[:, 0]))
    return at(np.linspace(0.0, 1.0, count))[0], exact


@pytest.mark.parametrize(
    ("draw", "trials", "largest"),
    [
        (random_polygon, 30, 25.0),
        (random_wave, 30, 150.0),
        further(random_polygon, 1000, 16.0),
        further(random_wave, 500, 100.0),
    ],
)
def test_the_estimate_is_not_below_the_error(draw, trials, largest, rng):
    """Of areas in the plane: hardly ever below it, and by a median factor that is not larger."""
    ratios = []
    for _ in range(trials):
        count = rng.integers(25, 160)
        q, exact = draw(rng, count)
        curve = cn.SampledCurve(cn.CoordinateFrame(2), np.linspace(0.0, 1.0, count), q, breakpoints=[])
        value = area(curve)
        estimate = sum(abs(value - area(other)) for other in coarser_curves(curve))
        if abs(value - exact) > 1e-13:
            ratios.append(estimate / abs(value - exact))
    assert len(ratios) > 0.6 * trials
    assert np.mean(np.array(ratios) < 1.0) <= 0.005 and min(ratios) > 0.1 and np.median(ratios) < largest


def test_two_samples_allow_no_estimate():
    """Also between breakpoints; a polyline and a rest are exact."""
    t, q = (
        np.linspace(0.0, 1.0, 9),
        np.stack([np.linspace(0.0, 1.0, 9), 1.0 + np.linspace(0.0, 1.0, 9) ** 2], 1),
    )
    for samples, breakpoints in (((t[:2], q[:2]), None), ((t, q), [0.25, 0.375])):
        with pytest.raises(ValueError, match="estimate: two samples at t = .*kind='linear'"):
            cn.parallel_transport(
                HALF_PLANE, samples, [1.0, 0.0], samples[0][[0, -1]], estimate=True, breakpoints=breakpoints
            )
    lines = cn.SampledCurve(HALF_PLANE.frame, t, q, kind="linear")
    found = cn.parallel_transport(HALF_PLANE, lines, [1.0, 0.0], [0.0, 1.0], estimate=True)
    assert found.error.max() < 1e-9


# --- options and other functions ---------------------------------------------------------------------------


def test_breakpoints_of_a_call():
    """They replace those of a `SampledCurve`; they are times of samples, requested or not."""
    samples, expected = rectangle(41)
    smooth = cn.SampledCurve(HALF_PLANE.frame, *samples, breakpoints=[])
    assert off(cn.holonomy(HALF_PLANE, smooth), expected) > 1e-4
    assert off(cn.holonomy(HALF_PLANE, smooth, breakpoints=[1.0, 2.0, 3.0]), expected) < 1e-10
    early = cn.parallel_transport(HALF_PLANE, samples, [1.0, 0.0], [0.0, 0.5], breakpoints=[1.0, 2.0, 3.0])
    np.testing.assert_allclose(np.linalg.norm(early, axis=1), 1.0, atol=1e-10)
    with pytest.raises(ValueError, match=r"breakpoints: 1\.03 is no time of a sample"):
        cn.holonomy(HALF_PLANE, samples, breakpoints=[1.03])
    with pytest.raises(PointError, match=r"breakpoints: 5 is outside the curve's samples"):
        cn.holonomy(HALF_PLANE, samples, breakpoints=[5.0])


def test_a_curve_that_leaves_its_chart_behind_a_corner():
    """The error names the time of the curve, not that of a piece."""
    lines = cn.SampledCurve(
        HALF_PLANE.frame, [0.0, 1.0, 2.0], np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1e-200]]), kind="linear"
    )
    with pytest.raises(cn.checks.IntegrationError, match=r"beyond t = 1\.9|t = 2"):
        cn.parallel_transport(HALF_PLANE, lines, [1.0, 0.0], [0.0, 2.0])


def test_covariant_derivatives_beside_a_corner():
    """In the plane, of a field with a corner, at which the later piece counts."""
    flat, t = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2))), np.linspace(0.0, 2.0, 41)
    field = np.stack([1.0 - np.abs(t - 1.0), t], axis=1)
    found = cn.covariant_derivative_along(
        flat, (t, np.stack([t, t**2], axis=1)), (t, field), [0.3, 0.99, 1.0, 1.7]
    )
    np.testing.assert_allclose(found, [[1.0, 1.0], [1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0]], atol=1e-9)


def test_a_reference_with_a_corner():
    """Its velocity jumps there, and nowhere else: v_r = qdot_d on the reference."""
    t = np.linspace(0.0, 2.0, 41)
    samples = t, np.stack([np.abs(t - 1.0), t], axis=1)
    reference = control.trajectory_reference(cn.CoordinateFrame(2), samples, 1.0)
    for s, slope in ((0.4, -1.0), (0.999, -1.0), (1.001, 1.0)):
        v = reference.field(s, np.array([abs(s - 1.0), s]))
        np.testing.assert_allclose(v, [slope, 1.0], atol=1e-9)
