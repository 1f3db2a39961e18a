"""Corners and rests of samples: found where they are, refused between samples, and nowhere else."""

import jax
import numpy as np
import pytest
import systems

import connections as cn
from connections.checks import NonFiniteError, PointError, ShapeError
from connections.geometry.corners import breaks

PLANE, SPACE = cn.CoordinateFrame(2), cn.CoordinateFrame(3)


def triangle(count, corners=(1.0, 2.0), end=3.0):
    """An octant's boundary on the unit sphere, by `count` samples of [0, 3]."""
    t = np.linspace(0.0, end, count)
    axes, side = np.eye(3), np.searchsorted(corners, t, side="right")
    u = 0.5 * np.pi * (t - side)
    first, second = axes[side % 3], axes[(side + 1) % 3]
    return t, np.cos(u)[:, None] * first + np.sin(u)[:, None] * second


def waves(t, rng, count, highest=6):
    """Smooth curves (count, S, 2): trigonometric polynomials of random coefficients."""
    a = rng.standard_normal((2, highest, count, 1, 2))
    k = np.arange(1, highest + 1)[:, None, None, None]
    return np.sum(a[0] * np.cos(k * t[:, None]) + a[1] * np.sin(k * t[:, None]), axis=0)


def joined_smoothly(t, power):
    """A curve whose derivative of this order jumps at 0.437; 0 is the curve itself."""
    late = t > 0.437
    return np.stack([np.sin(3.0 * t), np.cos(2.0 * t) + late * np.maximum(t - 0.437, 0.0) ** power], axis=1)


@pytest.mark.parametrize("unit", [(1.0, 1.0), (1e-6, 1.0), (1.0, 1e9)])
@pytest.mark.parametrize("side", [5, 10, 40])
def test_corners_are_found_in_any_units(side, unit):
    t, q = triangle(3 * side + 1)
    curve = cn.SampledCurve(SPACE, unit[0] * t, unit[1] * q)
    np.testing.assert_allclose(curve.breakpoints, unit[0] * np.array([1.0, 2.0]), rtol=1e-14)
    between = unit[0] * np.linspace(0.0, 3.0, 301)
    exact = triangle(301)[1]
    assert np.abs(curve(between) / unit[1] - exact).max() < 0.3 / side**6 + 1e-13
    smooth = cn.SampledCurve(SPACE, unit[0] * t, unit[1] * q, breakpoints=[])
    assert np.abs(smooth(between) / unit[1] - exact).max() > 0.01 / side  # the negative control


def test_samples_at_uneven_times(rng):
    t = np.sort(np.concatenate([[0.0, 0.4, 1.0], rng.uniform(0.0, 1.0, 40)]))
    q = np.stack([np.sin(t), np.abs(t - 0.4) * np.cos(t)], axis=1)
    np.testing.assert_allclose(cn.SampledCurve(PLANE, t, q).breakpoints, [0.4])


def test_what_is_smooth_or_noise_has_no_corners(rng):
    """Resolved or not; quadratic and straight; kinks of higher derivatives are left to the estimate."""
    t = np.linspace(0.0, 2.0, 60)
    for q in (waves(t, rng, 300), waves(t, rng, 300, 40), rng.standard_normal((300, 60, 2))):
        found = breaks(t, q)
        assert found.corners.sum() <= 1 and not found.between.any()
    for q in (np.stack([t, 1.0 - 2.0 * t], axis=1), np.stack([1e6 + t**2, t**4], axis=1)):
        assert not breaks(t, q).corners.any() and not breaks(t, q).between.any()
    dense = np.linspace(0.0, 2.0, 401)
    for power in (2, 3, 4):
        found = breaks(dense, joined_smoothly(dense, power))
        assert not found.corners.any() and not found.between.any()


@pytest.mark.parametrize("power", [1, 0])
def test_corners_and_jumps_between_samples_are_refused(power):
    t = np.linspace(0.0, 1.0, 41)
    q = joined_smoothly(t, power)
    with pytest.raises(
        PointError, match=r"between t = 0\.425 and t = 0\.45, at no sample; .*breakpoints=\[\]"
    ):
        cn.SampledCurve(PLANE, t, q)
    with pytest.raises(PointError, match=r"curve points \(1,\) of the batch"):
        cn.SampledCurve(PLANE, t, np.stack([joined_smoothly(t, 3), q]))
    assert not cn.SampledCurve(PLANE, t, q, breakpoints=[]).breakpoints.size


def test_angles_that_wrap_are_refused():
    t = np.linspace(0.0, 1.0, 41)
    wrapped = (7.0 * t + np.pi) % (2.0 * np.pi) - np.pi
    with pytest.raises(PointError, match="corner or a jump between t = 0.425 and t = 0.45"):
        cn.SampledCurve(cn.CoordinateFrame(1), t, wrapped[:, None])


def paused(first, length):
    """A circle at an even pace, which stops for `length` steps after `first` ones."""
    steps = np.clip(np.arange(60), 0, first) + np.maximum(np.arange(60) - first - length, 0)
    angle = 0.1 * steps
    return np.linspace(0.0, 1.0, 60), np.stack([np.cos(angle), np.sin(angle)], axis=1)


@pytest.mark.parametrize("length", [1, 2, 7])
def test_rests_are_found(length):
    """Also a rest of two samples, if the curve would have gone on."""
    t, q = paused(25, length)
    curve = cn.SampledCurve(PLANE, t, q)
    np.testing.assert_allclose(curve.breakpoints, t[[25, 25 + length]])
    np.testing.assert_allclose(np.linalg.norm(curve(np.linspace(0.0, 1.0, 400)), axis=1), 1.0, atol=1e-8)
    smooth = cn.SampledCurve(PLANE, t, q, breakpoints=[])
    assert np.abs(np.linalg.norm(smooth(np.linspace(0.0, 1.0, 400)), axis=1) - 1.0).max() > 1e-6


def test_a_curve_that_turns_back_does_not_rest():
    """Two samples beside the turning point are the same point."""
    t = np.linspace(-1.0, 1.0, 20)
    q = np.stack([np.cos(2.0 * t), np.cos(3.0 * t)], axis=1)
    assert np.abs(q[9] - q[10]).max() < 1e-15
    assert not cn.SampledCurve(PLANE, t, q).breakpoints.size
    still = cn.SampledCurve(PLANE, t, np.ones((20, 2)))
    assert not still.breakpoints.size and np.abs(still(t) - 1.0).max() < 1e-15


def test_each_curve_of_a_batch_has_its_own_breakpoints():
    """They are those that it has alone, and it is the same curve."""
    t = np.linspace(0.0, 1.0, 41)
    rows = np.stack([np.stack([t, np.abs(t - at) + t**3], axis=1) for at in (0.25, 0.5, 7.0)])
    together, x = cn.SampledCurve(PLANE, t, rows), np.linspace(0.0, 1.0, 173)
    np.testing.assert_allclose(together.breakpoints, [0.25, 0.5])
    for row, alone in zip(together(x), rows, strict=True):
        np.testing.assert_allclose(row, cn.SampledCurve(PLANE, t, alone)(x), rtol=0, atol=1e-14)
    np.testing.assert_allclose(together(x)[2, :, 1], 7.0 - x + x**3, atol=1e-13)


def test_velocities_at_a_breakpoint_are_those_of_the_later_piece():
    t = np.linspace(0.0, 1.0, 21)
    curve = cn.SampledCurve(PLANE, t, np.stack([t, np.abs(t - 0.5)], axis=1))
    rate = jax.jvp(lambda s: curve(s), (0.5,), (1.0,))[1]
    np.testing.assert_allclose(rate, [1.0, 1.0], atol=1e-10)
    np.testing.assert_allclose(jax.jvp(lambda s: curve(s), (0.4999,), (1.0,))[1], [1.0, -1.0], atol=1e-10)


def test_traced_samples():
    """Given breakpoints cut; a corner that samples show makes the curve NaN; a smooth curve is itself."""
    t, q = triangle(31)
    x = np.linspace(0.0, 3.0, 50)
    cut = jax.jit(lambda q: cn.SampledCurve(SPACE, t, q, breakpoints=[1.0, 2.0])(x))
    np.testing.assert_allclose(cut(q), cn.SampledCurve(SPACE, t, q)(x), rtol=0, atol=1e-13)
    found = jax.jit(lambda q: cn.SampledCurve(SPACE, t, q)(x))
    assert np.isnan(found(q)).all()
    assert np.isfinite(found(np.sin(q + t[:, None] - q))).all()
    lines = jax.jit(lambda t, q: cn.SampledCurve(SPACE, t, q, kind="linear")(x))
    np.testing.assert_allclose(lines(t, q), cn.SampledCurve(SPACE, t, q, kind="linear")(x), rtol=1e-15)
    with pytest.raises(ValueError, match="breakpoints: they are some of the curve times"):
        jax.jit(lambda t: cn.SampledCurve(SPACE, t, q, breakpoints=[1.0])(x))(t)


# --- polylines ---------------------------------------------------------------------------------------------


def test_polylines_are_straight_in_coordinates_and_great_circles_on_manifolds():
    t, q = np.array([0.0, 0.5, 2.0]), np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 4.0]])
    lines, x = cn.SampledCurve(PLANE, t, q, kind="linear"), np.linspace(0.0, 2.0, 33)
    expected = np.stack([np.interp(x, t, q[:, i]) for i in (0, 1)], axis=1)
    np.testing.assert_allclose(lines(x), expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(lines.breakpoints, [0.5])
    turns = np.array([[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, -np.sin(0.6), -np.cos(0.6)]])
    curve = cn.SampledCurve(cn.SO3Frame(), [0.0, 1.0], turns, kind="linear")
    np.testing.assert_allclose(curve(0.5), [0.0, 0.0, np.sin(0.3), np.cos(0.3)], atol=1e-15)


def test_lines_between_opposite_points_are_refused():
    ends = np.array([[0.6, 0.8, 0.0], [-0.6, -0.8, 0.0]])
    with pytest.raises(PointError, match="t = 0 and t = 1 are on opposite sides"):
        cn.SampledCurve(systems.SPHERE_EMBEDDED_FRAME, [0.0, 1.0], ends, kind="linear")


# --- what is refused ---------------------------------------------------------------------------------------

TIMES = np.linspace(0.0, 1.0, 11)
POINTS = np.stack([TIMES, TIMES**2], axis=1)


@pytest.mark.parametrize(
    ("breakpoints", "error", "message"),
    [
        ([0.55], ValueError, r"breakpoints: 0\.55 is no time of a sample; the nearest is 0\.[56]"),
        ([0.5, 1.5], PointError, r"breakpoints: 1\.5 is outside the curve's samples \[0, 1\]"),
        ([np.nan], NonFiniteError, "breakpoints"),
        ([[0.5]], ShapeError, "breakpoints"),
        ("0.5", TypeError, "breakpoints"),
    ],
)
def test_bad_breakpoints_are_named(breakpoints, error, message):
    with pytest.raises(error, match=message):
        cn.SampledCurve(PLANE, TIMES, POINTS, breakpoints=breakpoints)


def test_breakpoints_in_any_order_and_at_the_ends():
    for breakpoints in ([0.7, 0.3], [0.3, 0.7, 0.7, 0.0, 1.0], np.array([0.7, 0.3 + 1e-16])):
        curve = cn.SampledCurve(PLANE, TIMES, POINTS, breakpoints=breakpoints)
        np.testing.assert_allclose(curve.breakpoints, [0.3, 0.7])
        np.testing.assert_allclose(curve(0.43), [0.43, 0.43**2], atol=1e-14)
    two = cn.SampledCurve(PLANE, TIMES, POINTS, breakpoints=[0.3, 0.4])  # a piece of two samples is straight
    np.testing.assert_allclose(two(0.35), [0.35, 0.125], atol=1e-14)


@pytest.mark.parametrize(
    ("times", "error", "message"),
    [
        ([0.0, 0.2, 0.1, 0.3], ShapeError, r"t\[2\] = 0\.1 after t\[1\] = 0\.2"),
        ([0.0, 0.1, 0.1, 0.3], ShapeError, r"t\[2\] = 0\.1 after t\[1\] = 0\.1"),
        ([0.0, 0.1, np.nan, 0.3], NonFiniteError, "curve times"),
    ],
)
def test_bad_times_are_named(times, error, message):
    with pytest.raises(error, match=message):
        cn.SampledCurve(PLANE, times, np.zeros((4, 2)))


def test_kinds_are_named():
    with pytest.raises(ValueError, match="kind: expected 'spline' or 'linear', got 'lines'"):
        cn.SampledCurve(PLANE, TIMES, POINTS, kind="lines")
