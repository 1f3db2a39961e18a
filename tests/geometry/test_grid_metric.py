"""Metrics from samples on a grid: order, definiteness, units, the border, noise, derivatives by samples."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from cases import further
from scipy.interpolate import RegularGridInterpolator

import connections as cn
from connections.checks import IntegrationError, MetricError, NonFiniteError, PointError, ShapeError
from connections.verify import as_subject, summary, verify_subject


def sheared(q):
    """The half plane in coordinates (u, v), x = u + v^2, y = v: curvature -1. q (..., 2), H (..., 2, 2)."""
    v = q[..., 1]
    one = np.ones_like(v)
    J = np.stack([np.stack([one, 2.0 * v], -1), np.stack([0.0 * v, one], -1)], -2)
    return np.swapaxes(J, -1, -2) @ J / v[..., None, None] ** 2


def points(axes):
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def half_plane(count):
    axes = [np.linspace(0.0, 1.0, 6), np.linspace(1.0, 2.0, count)]
    return cn.GridMetric(axes, sheared(points(axes)))


AXES = [np.linspace(-1.0, 1.0, 6), np.linspace(0.0, 3.0, 7)]


def rough(rng):
    """Samples that are nearly singular in another direction at each point."""
    V = np.linalg.qr(rng.standard_normal((6, 7, 2, 2)))[0]
    return (V * np.array([1.0, 1e-4])) @ np.swapaxes(V, -1, -2)


def test_the_error_falls_with_the_power_of_the_distance(rng):
    """Of H with the sixth, of the curvature with the fourth."""
    q = rng.uniform([0.0, 1.2], [1.0, 1.8], (40, 2))
    u, w = np.eye(2)
    errors = []
    for count in (17, 33):
        metric = half_plane(count)
        K = cn.LeviCivita(metric).sectional(q, u, w)
        errors.append([np.abs(np.asarray(metric.matrix(q)) - sheared(q)).max(), np.abs(K + 1.0).max()])
    orders = np.log2(np.array(errors[0]) / errors[1])
    assert 5.0 < orders[0] < 7.0 and 3.2 < orders[1] < 5.0
    assert errors[1][0] < 3e-9 and errors[1][1] < 1e-6


def test_the_border_is_as_exact_as_the_spacing_allows():
    """The half plane's curvature there; without end derivatives of high degree it was off by 2e-5."""
    x, y = np.linspace(0.0, 1.0, 6), np.linspace(1.0, 2.0, 41)
    metric = cn.GridMetric([x, y], np.eye(2) / y[:, None, None] ** 2 * np.ones((6, 1, 1, 1)))
    ends = np.array([[0.0, 1.0], [0.3, 1.0], [1.0, 2.0], [0.0, 1.5], [0.3, 1.01]])
    np.testing.assert_allclose(cn.LeviCivita(metric).sectional(ends, *np.eye(2)), -1.0, atol=3e-7)
    # Intervals that grow: no polynomial of degree 8 through samples that are close together far away.
    uneven = np.array([0.0, 1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 2.0])
    line = cn.GridMetric([uneven], np.exp(np.sin(3.0 * uneven))[:, None, None])
    t = np.linspace(0.0, 1.0, 50)[:, None]
    assert np.abs(np.log(np.asarray(line.matrix(t))[:, 0, 0])).max() < 5.0


def sphere(q):
    H = np.zeros((*q.shape, 2))
    H[..., 0, 0], H[..., 1, 1] = 1.0, np.sin(q[..., 0]) ** 2
    return H


def disc(q):
    """Poincare's, of curvature -1."""
    return 4.0 * np.eye(2) / (1.0 - np.sum(q**2, -1))[..., None, None] ** 2


NOISY = {
    "sphere": (sphere, [0.5, 0.0], [2.5, 1.0], 1.0),
    "half plane": (sheared, [0.0, 1.0], [1.0, 2.0], -1.0),
    "disc": (disc, [-0.5, -0.5], [0.5, 0.5], -1.0),
}
WHERE = np.random.default_rng(7).uniform(
    0.25, 0.75, (40, 2)
)  # in parts of the axes; the last 20 on the border
WHERE[20::2, 0], WHERE[21::2, 1] = np.arange(10) % 2, np.arange(10) % 2


def noisy(name, count, size, seed):
    """Axes and samples with errors: symmetric, normal, in orthonormal bases of the samples."""
    metric, first, last, _ = NOISY[name]
    axes = [np.linspace(a, b, count) for a, b in zip(first, last, strict=True)]
    H = metric(points(axes))
    L = np.linalg.cholesky(H)
    E = np.random.default_rng(seed).standard_normal(H.shape)
    E = np.tril(E) + np.swapaxes(np.tril(E, -1), -1, -2)
    return axes, H + size * L @ E @ np.swapaxes(L, -1, -2)


def curvature_errors(name, metric):
    """The root mean squares inside and on the border."""
    _, first, last, K = NOISY[name]
    q = np.array(first) + WHERE * (np.array(last) - first)
    squares = (np.asarray(cn.LeviCivita(metric).sectional(q, *np.eye(2))) - K) ** 2
    return np.sqrt(np.mean(squares.reshape(2, 20), axis=1))


@pytest.mark.parametrize("name", ["half plane", further("sphere"), further("disc")])
def test_noise_that_is_smoothed_spoils_no_curvature(name):
    """Of 1e-2 and 1e-4; finer grids are better. Splines through the samples (control) are off by far more."""
    for size, inside, border in ((1e-2, 0.12, 0.8), (1e-4, 4e-3, 0.12)):
        found = []
        for count in (17, 33):
            for choice in ({"smoothing": "gcv"}, {"noise": size}):
                metrics = [cn.GridMetric(*noisy(name, count, size, seed), **choice) for seed in range(3)]
                found.append(np.mean([curvature_errors(name, metric) for metric in metrics], axis=0))
        through = cn.GridMetric(*noisy(name, 17, size, 0))
        assert (curvature_errors(name, through) > 10.0 * found[0]).all()
        assert (np.max(found, axis=0) < [inside, border]).all()
        assert found[2][0] < 1.1 * found[0][0]


def test_pieces_of_a_given_length_and_of_none():
    """Lengths of pieces; 0, and lengths below the samples' distance, are the splines through the samples."""
    axes, H = noisy("sphere", 17, 1e-3, 5)
    exact = [cn.GridMetric(axes, H, smoothing).matrix(points(axes)) for smoothing in (0.0, [0.12, 0.06])]
    np.testing.assert_allclose(exact, [H, H], rtol=1e-12, atol=1e-13)
    metric = cn.GridMetric(axes, H, [0.5, 2.0])
    assert [len(knots) for knots in metric.knots] == [5, 2]
    np.testing.assert_allclose(metric.knots[0], np.linspace(0.5, 2.5, 5))
    np.testing.assert_array_equal(metric.axes, axes)
    assert 1e-5 < np.abs(np.asarray(metric.matrix(points(axes))) - H).max() < 5e-3


def test_smoothing_does_not_depend_on_units_and_triangular_bases():
    axes, H = noisy("half plane", 9, 1e-3, 2)
    T, scale, q = np.array([[1e-2, 0.0], [0.7, 1e3]]), 1e3, np.array([0.21, 1.4])
    for choice in ({"smoothing": "gcv"}, {"noise": 1e-3}):
        here = np.asarray(cn.GridMetric(axes, H, **choice).matrix(q))
        there = cn.GridMetric([scale * axis for axis in axes], T @ H @ T.T, **choice).matrix(scale * q)
        np.testing.assert_allclose(there, T @ here @ T.T, rtol=1e-9)


def test_a_constant_and_exact_samples():
    """Noise alone becomes a constant; of exact samples little is lost, by known noise nothing."""
    rng = np.random.default_rng(3)
    axes = [np.linspace(0.0, 1.0, 12), np.linspace(0.0, 1.0, 9)]
    values = np.eye(2) * np.exp(1e-3 * rng.standard_normal((12, 9)))[..., None, None]
    smooth = cn.GridMetric(axes, values, "gcv")
    assert [len(knots) for knots in smooth.knots] == [2, 2]
    H = np.asarray(smooth.matrix(points(axes))) / smooth.matrix([0.5, 0.5])[0, 0]
    np.testing.assert_allclose(H, np.broadcast_to(np.eye(2), H.shape), atol=2e-4)
    axes, H = noisy("disc", 17, 0.0, 0)
    choices = {}, {"noise": 1e-12}, {"smoothing": "gcv"}
    errors = [curvature_errors("disc", cn.GridMetric(axes, H, **choice)) for choice in choices]
    np.testing.assert_allclose(errors[1], errors[0], rtol=1e-6)
    assert errors[2][0] < 1e-4


def test_grids_of_similar_sizes_share_what_is_compiled():
    """Structure and shapes are equal: other samples, a few more of them, another number of pieces."""

    def kinds(metric):
        leaves, tree = jax.tree_util.tree_flatten(metric)
        return tree, [np.shape(leaf) for leaf in leaves]

    first = kinds(half_plane(21))
    for other in (half_plane(21), half_plane(25), cn.GridMetric(*noisy("sphere", 25, 1e-3, 0))):
        assert (kinds(other) == first) == (other.axes[0].size == 6)  # control: 25 samples of x, not 6
    smooth = [cn.GridMetric(*noisy("sphere", count, 1e-4, count), "gcv") for count in (17, 19)]
    assert len({len(metric.knots[0]) for metric in smooth}) == 2 and kinds(smooth[0]) == kinds(smooth[1])


def test_samples_are_met_and_it_is_positive_between_them(rng):
    """Where splines of the entries of H are not."""
    values = rough(rng)
    metric = cn.GridMetric(AXES, values)
    np.testing.assert_allclose(metric.matrix(points(AXES)), values, rtol=1e-9, atol=1e-12)
    q = rng.uniform([-1.0, 0.0], [1.0, 3.0], (200, 2))
    assert np.linalg.eigvalsh(metric.matrix(q)).min() > 0.0
    entries = RegularGridInterpolator(AXES, values, method="cubic")(q)
    assert np.linalg.eigvalsh(entries).min() < 0.0


def test_other_units_and_lower_triangular_bases(rng):
    """T H T^T sampled is T H T^T of what was sampled; of an upper triangular T it is not."""
    values, q = rough(rng) + 0.1 * np.eye(2), np.array([[0.13, 1.7], [-0.4, 0.2]])
    here = np.asarray(cn.GridMetric(AXES, values).matrix(q))
    for T, same in ((np.array([[1e3, 0.0], [0.7, 1e-3]]), True), (np.array([[1.0, 0.7], [0.0, 1.0]]), False)):
        there = np.asarray(cn.GridMetric(AXES, T @ values @ T.T).matrix(q))
        assert np.allclose(there, T @ here @ T.T, rtol=1e-9) == same


def test_few_samples_and_polynomials_are_exact():
    """One axis: log H is a polynomial of degree 3 from four samples, 4 from five, and 5 from six on."""
    for count, degree in ((4, 3), (5, 4), (6, 5), (9, 5)):
        t = np.array([0.0, 0.4, 0.5, 1.1, 1.3, 1.7, 1.8, 2.2, 2.5])[:count]
        for power in (degree, degree + 1):
            metric = cn.GridMetric([t], np.exp(0.3 * t**power)[:, None, None])
            x = 0.5 * (t[:-1] + t[1:])
            found = np.log(np.asarray(metric.matrix(x[:, None]))[:, 0, 0])
            exact = np.allclose(found, 0.3 * x**power, rtol=1e-10, atol=1e-12)
            assert exact == (power == degree), (count, power)


def test_a_motion_that_leaves_the_grid_says_so():
    nabla = cn.LeviCivita(half_plane(17))
    times = np.linspace(0.0, 4.0, 9)
    with pytest.raises(
        IntegrationError, match=r"q\[0\] = 1\.0+\d* is outside of the metric's grid"
    ) as caught:
        cn.geodesic(nabla, [0.2, 1.2], [0.5, 0.0], times)
    q = caught.value.motion.q
    x, y = q[:, 0] + q[:, 1] ** 2, q[:, 1]
    assert len(q) > 1
    # It leaves along x: in the half plane a half-circle about the point below the first one.
    np.testing.assert_allclose(np.hypot(x - x[0], y), 1.2, atol=1e-5)


def test_samples_that_jax_traces(rng):
    """The same numbers; derivatives by a sample are those of differences; outside is NaN."""
    values, q = rough(rng) + np.eye(2), np.array([0.13, 1.7])
    entry = jax.jit(lambda x, q: cn.GridMetric(AXES, values * x).matrix(q)[0, 1])
    expected = cn.GridMetric(AXES, 1.3 * values).matrix(q)[0, 1]
    np.testing.assert_allclose(entry(1.3, q), expected, rtol=1e-12)
    slope = jax.grad(lambda s: cn.GridMetric(AXES, s).matrix(q)[0, 1])(jnp.asarray(values))
    change = 1e-5 * np.broadcast_to(oracles.random_spd(rng, 2), values.shape)
    ends = [cn.GridMetric(AXES, values + sign * change).matrix(q)[0, 1] for sign in (1.0, -1.0)]
    np.testing.assert_allclose(np.sum(slope * change), (ends[0] - ends[1]) / 2.0, rtol=1e-7)
    assert np.isnan(entry(1.3, np.array([0.13, 3.1])))


@pytest.mark.further
def test_verify_takes_points_of_the_grid():
    """A grid with room for the curves that the rows follow."""
    axes = [np.linspace(-5.0, 5.0, 41)] * 2
    x = points(axes)
    H = np.eye(2) * (1.0 + 0.1 * np.sin(x[..., 0]) * np.cos(x[..., 1]))[..., None, None]
    rows = summary(verify_subject(as_subject(cn.GridMetric(axes, H), "bumps")))
    drift = next(row for row in rows if row.key == "F drift")  # of splines: their third derivatives jump
    assert len(rows) > 30 and all(row.ok for row in rows if row is not drift) and drift.check.residual < 1e-8


@pytest.mark.further
def test_three_coordinates(rng):
    """A product of the half plane and a line."""
    axes = [np.linspace(0.0, 1.0, 6), np.linspace(1.0, 2.0, 21), np.linspace(0.0, 1.0, 4)]
    H = np.zeros((6, 21, 4, 3, 3))
    H[..., :2, :2] = sheared(points(axes[:2]))[:, :, None]
    H[..., 2, 2] = 1.0
    nabla = cn.LeviCivita(cn.GridMetric(axes, H))
    e = np.eye(3)
    q = [0.3, 1.4, 0.6]
    np.testing.assert_allclose(nabla.sectional(q, e[0], e[1]), -1.0, atol=1e-4)
    np.testing.assert_allclose(nabla.sectional(q, e[1], e[2]), 0.0, atol=1e-4)


EYE = np.broadcast_to(np.eye(2), (6, 7, 2, 2))


def changed(place, matrix):
    values = EYE.copy()
    values[place] = matrix
    return values


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cn.GridMetric(AXES[0], EYE), TypeError, r"axes: expected a list .*write \[axis\]"),
        (lambda: cn.GridMetric([], EYE), ShapeError, "axes"),
        (lambda: cn.GridMetric([[0.0, 1.0, 2.0], AXES[1]], EYE), ShapeError, r"axes\[0\]: .*N >= 4"),
        (
            lambda: cn.GridMetric([AXES[0], [0, 1, 2, 2, 3, 4, 5]], EYE),
            ValueError,
            r"axes\[1\] does not increase: axes\[1\]\[3\] = 2 after 2",
        ),
        (
            lambda: cn.GridMetric([AXES[0], [0, 1, 2, np.nan, 3, 4, 5]], EYE),
            NonFiniteError,
            r"axes\[1\]\[3\]",
        ),
        (lambda: cn.GridMetric(AXES, EYE[:5]), ShapeError, r"values: expected shape .*6, 7, 2, 2"),
        (lambda: cn.GridMetric(AXES, EYE[None]), ShapeError, "values: expected shape"),
        (lambda: cn.GridMetric(AXES, changed((2, 3, 0, 0), np.nan)), NonFiniteError, r"values\[2, 3, 0, 0\]"),
        (
            lambda: cn.GridMetric(AXES, changed((2, 3), [[1.0, 2.0], [2.0, 1.0]])),
            MetricError,
            r"values\[2, 3\] is not positive definite \(smallest eigenvalue -1",
        ),
        (
            lambda: cn.GridMetric(AXES, changed((5, 6), [[1.0, 0.5], [0.0, 1.0]])),
            MetricError,
            r"values\[5, 6\] is not symmetric",
        ),
        (lambda: cn.GridMetric(AXES, EYE, -0.1), ValueError, r"smoothing: expected lengths >= 0, got -0\.1"),
        (lambda: cn.GridMetric(AXES, EYE, [0.1] * 3), ShapeError, "smoothing"),
        (lambda: cn.GridMetric(AXES, EYE, np.nan), NonFiniteError, "smoothing is nan"),
        (lambda: cn.GridMetric(AXES, EYE, "aic"), ValueError, "smoothing: expected .gcv."),
        (lambda: cn.GridMetric(AXES, EYE, noise=0.0), ValueError, "noise: expected a positive number"),
        (
            lambda: cn.GridMetric(AXES, EYE, noise=1.0),
            ValueError,
            "noise: expected a positive number",
        ),  # in %
        (lambda: cn.GridMetric(AXES, EYE, noise=np.nan), NonFiniteError, "noise is nan"),
        (lambda: cn.GridMetric(AXES, EYE, noise=[0.1]), TypeError, "noise"),
        (lambda: cn.GridMetric(AXES, EYE, 0.1, 0.1), ValueError, "smoothing or noise"),
        (
            lambda: jax.jit(lambda H: cn.GridMetric(AXES, H, "gcv").matrix([0.0, 1.0]))(jnp.asarray(EYE)),
            TypeError,
            "values",
        ),
        (
            lambda: cn.GridMetric(AXES, EYE).matrix([0.0, 3.1]),
            PointError,
            r"q\[1\] = 3.1 is outside .*\[0, 3\]",
        ),
        (lambda: cn.GridMetric(AXES, EYE).matrix([[0.0, 1.0], [-2.0, 1.0]]), PointError, r"q\[0\] = -2"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def _of_a_skew_torus(q, by=np):
    """H (..., 2, 2), of the periods 2 pi."""
    off = 0.3 * by.cos(q[..., 0])
    diagonal = 1.5 + 0.2 * by.sin(q[..., 1]), (2.0 + by.cos(q[..., 0])) ** 2
    return by.stack([by.stack([diagonal[0], off], -1), by.stack([off, diagonal[1]], -1)], -1)


def test_axes_with_periods(rng):
    """Errors fall with the same powers everywhere, also between the last sample and the first one."""
    turn, q = 2.0 * np.pi, rng.uniform(-9.0, 9.0, (40, 2))
    q[:4] = [[0.01, 0.31], [-0.01, 0.29], [0.0, 0.3], [-0.1, 1.0]]
    frame = cn.CoordinateFrame(2, periods=(turn, turn))
    exact = cn.MatrixMetric(frame, lambda q: _of_a_skew_torus(q, jnp))
    expected = cn.LeviCivita(exact).coefficients(q)
    errors = []
    for count in (16, 32):
        axes = [np.linspace(0.0, turn, count, endpoint=False) + begin for begin in (0.0, 0.3)]
        samples = _of_a_skew_torus(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1))
        metric = cn.GridMetric(axes, samples, periods=(turn, turn))
        H = [np.abs(metric.matrix(p) - _of_a_skew_torus(p)).max() for p in (q, q + turn)]
        assert metric.frame == frame and H[1] == pytest.approx(H[0], rel=1e-6)
        errors.append([H[0], np.abs(cn.LeviCivita(metric).coefficients(q) - expected).max()])
    gains = np.array(errors[0]) / errors[1]
    assert gains[0] > 2.0**5.5 and gains[1] > 2.0**4 and errors[1][1] < 1e-4
    smooth = cn.GridMetric(axes, samples, 1.0, periods=(turn, turn))
    assert [len(knots) for knots in smooth.knots] == [7, 7] and smooth.valid_at(q[0])
    assert not np.isfinite(cn.GridMetric(axes, samples).matrix_at(jnp.array([-0.1, 1.0]))).any()  # control


@pytest.mark.parametrize(
    ("periods", "error", "words"),
    [
        ((2.0, None), ValueError, r"axes\[0\] spans 3, the period is 2"),
        ((3.0, None), ValueError, r"axes\[0\] spans 3, the period is 3: leave out"),
        ((None, 4.01), ValueError, r"axes\[1\] has a gap of 1.01 .* and 1 at most between others"),
        ((360.0, None), ValueError, r"axes\[0\] has a gap of 357 "),
        ((-4.0, None), ValueError, r"periods\[0\]"),
        ((4.0,), ShapeError, "periods"),
    ],
)
def test_periods_of_axes_that_are_none_are_named(periods, error, words):
    axis = np.arange(4.0)
    with pytest.raises(error, match=words):
        cn.GridMetric([axis, axis], np.broadcast_to(np.eye(2), (4, 4, 2, 2)), periods=periods)


@pytest.mark.parametrize("smoothing", [None, "gcv"])
def test_axes_in_other_units(smoothing):
    """To the bit by powers of two, also where fifth powers of lengths are no floats."""
    axis, units = np.arange(5.0), 2.0 ** np.array([-900, 400])
    values = np.eye(2) * (2.0 + np.cos(axis[:, None] * 1.1) * np.sin(0.4 * np.pi * axis))[..., None, None]
    known, other = (
        cn.GridMetric([unit * axis, turn * axis], values, smoothing=smoothing, periods=(None, 5.0 * turn))
        for unit, turn in ([1.0, 1.0], units)
    )
    np.testing.assert_array_equal(other.matrix(units * [1.3, 3.7]), known.matrix([1.3, 3.7]))
    assert np.abs(known.matrix([1.3, 3.2]) - known.matrix([1.3, 3.7])).max() > 0.01


@pytest.mark.parametrize(
    "axis", [[0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 0.5, 1.0, 2.4, 3.0, 3.6], [0.0, 1, 2, 3.999]]
)
def test_axes_that_sample_all_of_a_period(axis):
    """An interval across its end may be as long as another one: of even, uneven and rounded axes."""
    metric = cn.GridMetric([axis], np.ones((len(axis), 1, 1)), periods=(5.0,))
    np.testing.assert_allclose(metric.matrix([-0.5]), [[1.0]], rtol=1e-12)


@pytest.mark.further
def test_logarithms_on_a_grid_with_a_period():
    """A torus of revolution: along the outer equator, the short way."""
    turn = 2.0 * np.pi
    axis = np.linspace(0.0, turn, 24, endpoint=False)
    values = np.zeros((24, 4, 2, 2))
    values[..., 0, 0], values[..., 1, 1] = 1.0, (2.0 + np.cos(axis)[:, None]) ** 2
    metric = cn.GridMetric([axis, axis[::6]], values, periods=(turn, turn))
    v = cn.logarithm(cn.LeviCivita(metric), [0.0, 0.0], [turn, turn - 1.0])
    np.testing.assert_allclose(v, [0.0, -1.0], atol=1e-8)
