"""Closed forms between points of very different sizes, and at the pole of a sphere's frame."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from cases import always
from closed_spaces import CLOSED
from scipy.linalg import subspace_angles

import connections as cn
from connections import geometry, spaces
from connections.affine.logarithms import closed
from connections.checks import (
    ConvergenceError,
    FrameError,
    IntegrationError,
    MetricError,
    NonFiniteError,
    PointError,
    ShapeError,
)

SIZES = 1e-200, 3e-13, 1.0, 2.0, 1e9, 1e200
POLE = np.array([0.0, 0.0, -1.0])


def of_half_plane(p, q):
    """The distance, and the velocity at p by the circle through both points, in sixty digits."""
    with mp.workdps(60):
        (a, b), (c, d) = ([mp.mpf(float(x)) for x in point] for point in (p, q))
        h = ((c - a) ** 2 + (d - b) ** 2) / (4 * b * d)
        length = 2 * mp.asinh(mp.sqrt(h))
        if a == c:
            return length, [mp.mpf(0), length * b * mp.sign(d - b)]
        center = ((c**2 - a**2) + (d**2 - b**2)) / (2 * (c - a))
        radius = mp.hypot(a - center, b)
        way = mp.sign(c - a)
        return length, [length * b * way * b / radius, length * b * way * (center - a) / radius]


def test_the_half_plane_at_all_sizes(monkeypatch):
    """In sixty digits, on both sides of h = 1, without a search; and derivatives of distances."""
    monkeypatch.setattr(closed, "logarithms", None)
    plane = spaces.hyperbolic(2)
    pairs = [((0.3, b), (0.3 + x, d)) for b in SIZES for d in SIZES for x in (0.0, 1e-13, -3.0, 1e150)]
    pairs += [((0.0, 1.0), (x, 1.0)) for x in (1e-300, 1e-9, 1.999999, 2.0, 2.000001)]
    p, q = np.array(pairs).swapaxes(0, 1)
    apart = (p != q).any(axis=1)
    p, q = p[apart], q[apart]
    lengths, v = cn.distance(plane, p, q), cn.logarithm(cn.LeviCivita(plane), p, q)
    back = cn.logarithm(cn.LeviCivita(plane), q, p)
    slopes = jax.vmap(jax.grad(lambda q, p: cn.distance(plane, p, q)))(jnp.array(q), jnp.array(p))
    for start, end, length, u, w, slope in zip(p, q, lengths, v, back, np.asarray(slopes), strict=True):
        known, velocity = of_half_plane(start, end)
        assert abs(length / known - 1) < 1e-14
        error = [
            float((mp.mpf(float(x)) - y) / mp.mpf(float(start[1]))) for x, y in zip(u, velocity, strict=True)
        ]
        assert np.abs(error).max() < 1e-13 * length
        turned = [
            float((mp.mpf(float(x)) + y) / mp.mpf(float(start[1]))) for x, y in zip(u, velocity, strict=True)
        ]
        assert np.abs(turned).max() > 0.1 * length
        np.testing.assert_allclose(slope * end[1], -w / end[1] / length, atol=1e-12)
    np.testing.assert_allclose(plane.inner(p, v, v), lengths**2, rtol=1e-13)
    assert not np.isfinite(np.asarray(jax.vmap(plane.matrix_at)(jnp.array(p)))).all()


@pytest.mark.parametrize("size", [1e-200, 1e-160, 1e160, 1e200])
def test_densities_and_matrices_at_all_sizes(size, monkeypatch):
    """In both directions; H overflows, or vanishes, so that v^T H v would be wrong."""
    monkeypatch.setattr(closed, "logarithms", None)
    normal, matrices, far = spaces.normal(), spaces.positive_definite(2), abs(np.log(size))
    for pair in ([[0.0, 1.0], [0.0, size]], [[0.0, size], [0.0, 1.0]]):
        np.testing.assert_allclose(cn.distance(normal, *pair), 2.0**0.5 * far, rtol=1e-14)
    one, other = [1.0, 0.0, 1.0], [size, 0.0, 2.0 * size]
    length = np.hypot(np.log(size), np.log(2.0 * size))
    np.testing.assert_allclose(cn.distance(matrices, one, other), length, rtol=1e-14)
    np.testing.assert_allclose(cn.distance(matrices, other, one), length, rtol=1e-14)
    v = cn.logarithm(cn.LeviCivita(matrices), other, one)
    np.testing.assert_allclose(matrices.inner(other, v, v), length**2, rtol=1e-13)
    H = np.asarray(matrices.matrix_at(jnp.array(other)))
    assert not (np.isfinite(H).all() and np.diagonal(H).all())


def test_what_is_no_float_is_refused_at_once(monkeypatch):
    """No search follows, and no mean is the first point."""
    monkeypatch.setattr(closed, "logarithms", None)
    matrices, plane = spaces.positive_definite(2), spaces.hyperbolic(2)
    ends = [1e-200, 0.0, 1e-200], [1e200, 0.0, 1e200]
    for call in (cn.distance, lambda metric, *pair: cn.logarithm(cn.LeviCivita(metric), *pair)):
        with pytest.raises(ConvergenceError, match=r"range of floats \(coordinates of 1e-200 to 1e\+200\)"):
            call(matrices, *ends)
    assert np.isnan(jax.jit(lambda p, q: cn.distance(matrices, p, q))(*map(jnp.array, ends)))
    with pytest.raises(MetricError, match="mean: .* below the range"):
        cn.mean(matrices, [[1e200, 0.0, 1e200], [4e200, 0.0, 4e200]])
    with pytest.raises(NonFiniteError, match="matrix"):
        cn.mean(plane, [[0.0, 1e-200], [0.0, 4e-200]])


# --- lengths that overflow, probabilities next to one, points that coincide ---------------------------------


def end_of_half_plane(q, v):
    """The end of a geodesic by Moebius' maps of the upper half plane, in 400 digits."""
    with mp.workdps(700):
        height = mp.mpf(float(q[1]))
        across, up = (mp.mpf(float(x)) / height for x in v)
        d = mp.hypot(across, up)
        half = -mp.atan2(across, up) / 2
        z, c, s = mp.mpc(0, mp.exp(d)), mp.cos(half), mp.sin(half)
        end = (z * c + s) / (c - z * s)
        return [mp.mpf(float(q[0])) + height * end.real, height * end.imag], d


@pytest.mark.parametrize("size", [1.0, 1e-200, 1e300])
def test_long_geodesics_of_the_half_plane(size):
    """All directions, lengths on both sides of where squares and exponentials overflow; digits of ends."""
    plane = cn.LeviCivita(spaces.hyperbolic(2))
    lost, found = 0, 0
    for length in (1.001, 30.0, 354.0, 400.0, 705.0, 1100.0):
        for angle in (0.0, 1e-300, 1e-152, 1e-20, 0.3, np.pi / 2, 2.0, np.pi - 1e-9, np.pi, -1e-9):
            v = size * length * np.array([np.sin(angle), np.cos(angle)])
            known, d = end_of_half_plane([0.5 * size, size], v)
            if not all(abs(x) < 1e308 for x in known) or not known[1] > 1e-307:
                lost += 1
                with pytest.raises(
                    IntegrationError, match=f"of length {length:.6g} from .* beyond the length"
                ):
                    cn.exponential(plane, [0.5 * size, size], v)
                continue
            found += 1
            end = cn.exponential(plane, [0.5 * size, size], v)
            # the direction and the length have their rounding, which grow with the length and the angle
            error = [float(abs(mp.mpf(float(x)) - y)) for x, y in zip(end, known, strict=True)]
            assert error[1] <= 4e-16 * (2.0 + length) * known[1] and error[0] <= 4e-16 * (2.0 + length) * max(
                abs(known[0]), known[1]
            )
    assert found > 20 and lost > 5


@pytest.mark.parametrize(
    ("space", "q", "v", "length"),
    [
        (spaces.hyperbolic(2, "ball"), [0.3, 0.0], [40.0, 0.0], 80.0 / 0.91),
        (spaces.hyperbolic(2, "ball"), [0.0, 0.3], [350.0, 350.0], 700.0 * 2.0**0.5 / 0.91),
        (spaces.hyperbolic(2, "hyperboloid"), [1.0, 0.0, 0.0], [0.0, 720.0], 720.0),
        (spaces.normal(), [0.0, 1.0], [0.0, -720.0], 720.0 * 2.0**0.5),
        (spaces.positive_definite(2), [1.0, 0.0, 1.0], [0.0, 0.0, -720.0], 720.0),
        (spaces.sphere(2), [0.0, 0.0, 1.0], [1e17, 0.0], 1e17),
        (spaces.categorical(1), [0.5], [2.0], 4.0),
    ],
)
def test_lengths_beyond_the_space_are_named(space, q, v, length):
    """Of an end that is no point of the space, or none that floats tell; inside jit it is NaN."""
    nabla = cn.LeviCivita(space)
    with pytest.raises(IntegrationError, match="beyond the length") as caught:
        cn.exponential(nabla, q, [0.0 * np.array(v), v])
    assert f"length {length:.6g} from" in str(caught.value) and caught.value.failed == ((1,),)
    end = jax.jit(lambda v: cn.exponential(nabla, jnp.array(q), v))(jnp.array(v))
    assert np.isnan(np.asarray(end)).all()
    near = 0.1 / length * np.array(v)
    np.testing.assert_allclose(cn.distance(space, q, cn.exponential(nabla, q, near)), 0.1, rtol=1e-9)


def test_long_geodesics_of_the_hyperboloid():
    """cosh and sinh of 700: squares of the coordinates overflow."""
    nabla = cn.LeviCivita(spaces.hyperbolic(2, "hyperboloid"))
    end = cn.exponential(nabla, [1.0, 0.0, 0.0], [420.0, 560.0])
    np.testing.assert_allclose(end / np.cosh(700.0), [1.0, 0.6, 0.8], rtol=1e-12)


NEXT = 2.0**-53


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([1.0 - NEXT], [0.5]),
        ([1.0 - NEXT], [1.0 - 2.0 * NEXT]),
        ([1.0 - NEXT], [1e-300]),
        ([0.3], [0.3 + 1e-12]),
        ([0.3, 0.7 - 2.0 * NEXT], [0.7, 0.3 - 1e-9]),
        ([0.2, 0.3, 0.5 - 1e-15], [0.2, 0.3 + 1e-15, 0.5 - 3e-15]),
    ],
)
def test_distributions_next_to_the_border(p, q):
    """In sixty digits: half of them were lost, with those of the rare outcome."""
    metric = spaces.categorical(len(p))
    nabla = cn.LeviCivita(metric)
    with mp.workdps(60):
        P, Q = ([1 - sum(map(mp.mpf, x)), *map(mp.mpf, x)] for x in (p, q))
        x, y = ([mp.sqrt(z) for z in each] for each in (P, Q))
        half = mp.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True))) / 2
        angle = 2 * mp.asin(half)
        u = [angle / mp.sin(angle) * (b - mp.cos(angle) * a) for a, b in zip(x, y, strict=True)]
        v = [2 * a * b for a, b in zip(x, u, strict=True)][1:]
    np.testing.assert_allclose(cn.distance(metric, p, q), float(2 * angle), rtol=1e-15)
    found = cn.logarithm(nabla, p, q)
    scales = [float(mp.sqrt(z)) for z in P[1:]]
    np.testing.assert_allclose(
        found / scales, np.array(v, float) / scales, rtol=0.0, atol=1e-15 * float(angle)
    )
    known = [mp.cos(angle * 3 / 4) * a + mp.sin(angle * 3 / 4) / angle * b for a, b in zip(x, u, strict=True)]
    end = cn.exponential(nabla, p, 0.75 * found)
    # Of several components their sum, the rate of the rare outcome, has only the digits that they have.
    np.testing.assert_allclose(end, [float(z**2) for z in known[1:]], rtol=1e-15 if len(p) == 1 else 2e-13)
    H = [[(i == j) / P[1 + i] + 1 / P[0] for j in range(len(p))] for i in range(len(p))]
    np.testing.assert_allclose(metric.matrix(p), np.array(H, float), rtol=1e-15)


@pytest.mark.parametrize("size", [1e-17, 1e-10, 0.3, 2.0])
def test_dirichlets_metric_next_to_the_border(size):
    """Differences of trigamma functions in sixty digits; the least one was 0 beside another of 1."""
    with mp.workdps(60):
        drop = float(mp.polygamma(1, 1) - mp.polygamma(1, 1 + mp.mpf(size)))
        other = float(mp.polygamma(1, mp.mpf(size)) - mp.polygamma(1, 1 + mp.mpf(size)))
    H = spaces.dirichlet(2).matrix([size, 1.0])
    np.testing.assert_allclose(np.diag(H), [other, drop], rtol=1e-14)


def test_logarithms_of_points_that_are_close_by():
    """By differences of points: relative to the length, not to the coordinates."""
    e = 2.0**-40
    sphere, matrices = spaces.sphere(2), spaces.positive_definite(2)
    q, near = np.array([0.6, 0.0, 0.8]), np.array([0.6, e, 0.8])
    for end, length in ((near, e), (-near, np.pi - e)):
        v = cn.logarithm(cn.LeviCivita(sphere), q, end)
        turned = sphere.frame.matrix(q) @ v
        np.testing.assert_allclose(
            turned, length * np.sign(end[1]) * np.array([0.0, 1.0, 0.0]), atol=1e-15 * length
        )
    sheet, angle = spaces.hyperbolic(2, "hyperboloid"), 2.0**-0.5 * e
    v = cn.logarithm(cn.LeviCivita(sheet), [3.0, 2.0, 2.0], [3.0, 2.0 + e, 2.0 - e])
    np.testing.assert_allclose(v, [2.0 * angle, -2.0 * angle] * np.array(2.0**-0.5), rtol=1e-14)
    P, Q = np.array([2.0, 0.5, 1.0]), np.array([2.0 + e, 0.5, 1.0])
    x = e * np.linalg.inv([[2.0, 0.5], [0.5, 1.0]])[0, 0]
    np.testing.assert_allclose(cn.distance(matrices, P, Q), np.log1p(x), rtol=1e-14)
    np.testing.assert_allclose(
        cn.distance(matrices, [P, P], [Q, 9.0 * P]), [np.log1p(x), 2.0**0.5 * np.log(9.0)]
    )


@pytest.mark.parametrize("name", always(CLOSED, "half_space", "positive_definite"))
def test_derivatives_of_distances_where_points_coincide(name):
    """The gradient of d is 0, and no Hessian of it a number; the square by logarithms has the Hessian 2 H."""
    metric, (p, q) = CLOSED[name]
    p, nabla, X = jnp.array(p), cn.LeviCivita(metric), metric.frame.matrix(p)

    def length(p, q):
        return cn.distance(metric, p, q)

    def square(q):
        v = cn.logarithm(nabla, p, q)
        return metric.inner(p, v, v)

    value, slopes = jax.jit(jax.value_and_grad(length, argnums=(0, 1)))(p, p)
    assert value == 0.0 and not np.asarray(slopes).any()
    assert np.isnan(np.asarray(jax.jit(jax.hessian(lambda q: length(p, q) ** 2))(p))).any()
    assert not np.asarray(jax.jit(jax.grad(square))(p)).any()
    Hessian = X.T @ np.asarray(jax.jit(jax.hessian(square))(p)) @ X
    np.testing.assert_allclose(Hessian, 2.0 * metric.matrix(p), rtol=1e-12, atol=1e-13)
    assert np.abs(np.asarray(jax.jit(jax.grad(square))(jnp.array(q)))).max() > 0.01


@pytest.mark.further
@pytest.mark.parametrize("name", CLOSED)
def test_gradients_of_distances_in_both_modes(name):
    metric, pair = CLOSED[name]
    p, q = map(jnp.array, pair)
    for at in (lambda q: cn.distance(metric, p, q), lambda q: cn.distance(metric, q, p)):
        forward, backward = jax.jit(jax.jacfwd(at)), jax.jit(jax.jacrev(at))
        np.testing.assert_allclose(forward(q), backward(q), atol=1e-13)
        assert not np.asarray(forward(p)).any() and not np.asarray(backward(p)).any()
        assert np.abs(np.asarray(forward(q))).max() > 0.01


def test_gradients_of_searched_distances_where_points_coincide():
    chart = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
    p = jnp.array([0.3, 1.0])
    assert not np.asarray(jax.grad(lambda q: cn.distance(chart, p, q))(p)).any()


@pytest.mark.parametrize("size", [1e8, 1e100, 1e200])
def test_subspaces_next_to_a_right_angle(size):
    """Principal angles of steep graphs; nothing begins there once H is lost, and the error says why."""
    metric, flat = spaces.grassmann(5, 2), np.array([0.3, -0.2, 0.1, 0.5, -0.7, 0.4])
    steep = size * np.array([1.0, 0.3, -0.2, 2.0, 0.5, -1.0])
    spans = [
        np.vstack([np.eye(2) / scale, Z.reshape(3, 2) / scale]) for Z, scale in ((flat, 1.0), (steep, size))
    ]
    angles = np.linalg.norm(subspace_angles(*spans))
    np.testing.assert_allclose(cn.distance(metric, flat, steep), angles, rtol=1e-14)
    np.testing.assert_allclose(cn.distance(metric, steep, flat), angles, rtol=1e-14)
    v = cn.logarithm(cn.LeviCivita(metric), flat, steep)
    np.testing.assert_allclose(metric.inner(flat, v, v), angles**2, rtol=1e-13)
    if size > 1e50:
        with pytest.raises(MetricError, match="of a right angle to the first 2 axes, where floats have lost"):
            cn.logarithm(cn.LeviCivita(metric), steep, flat)


class HalfLine(geometry.ClosedFormMetric):
    """1 / q^2 where q > 0, as somebody writes it, with a formula that ends at 1e100."""

    frame = cn.CoordinateFrame(1)
    curvatures, injectivity_radius = (0.0, 0.0), np.inf

    def matrix_at(self, q):
        return 1.0 / q[:, None] ** 2

    def exponential_at(self, q, v):
        return q * jnp.exp(v / q)

    def logarithm_at(self, p, q):
        return jnp.where(q < 1e100, p * jnp.log(q / p), jnp.nan)

    def valid_at(self, q):
        return q[0] > 0.0


def test_a_space_of_ones_own_at_all_sizes(monkeypatch):
    """Distances are |v| by H, and not zero because H is; no search begins, as there are no cut points."""
    monkeypatch.setattr(closed, "logarithms", None)
    metric = HalfLine()
    np.testing.assert_allclose(cn.distance(metric, [[1.0], [1e150]], [[1e99], [1.0]]), np.log([1e99, 1e150]))
    np.testing.assert_array_equal(cn.distance(metric, [3.0], [3.0]), 0.0)
    for pair in ([[1e200], [1.0]], [[1.0], [1e101]]):
        with pytest.raises(ConvergenceError, match="range of floats"):
            cn.distance(metric, *pair)


@pytest.mark.parametrize("size", [1e6, 1e10, 1e100])
def test_means_of_points_of_different_sizes(size):
    """The geometric mean, and neither of the points, whatever the last digits of one were at the other."""
    found = cn.mean(spaces.hyperbolic(2), [[0.0, 1.0 / size], [0.0, 4.0 * size]])
    np.testing.assert_allclose(found.q, [0.0, 2.0], rtol=1e-9)
    np.testing.assert_allclose(found.distances, np.log(2.0 * size), rtol=1e-9)


# --- the pole of a sphere's frame -------------------------------------------------------------------------


def test_geodesics_lead_to_the_pole():
    """Logarithms, exponentials, distances and their derivatives, as from the frame of another pole."""
    sphere, other = spaces.sphere(2), spaces.sphere(2, pole=[1.0, 0.0, 0.0])
    q = np.array([0.6, 0.48, -0.64])
    ways = []
    for metric in (sphere, other):
        nabla = cn.LeviCivita(metric)
        v = cn.logarithm(nabla, q, POLE)
        np.testing.assert_allclose(cn.exponential(nabla, q, v), POLE, atol=1e-15)
        ways.append(metric.frame.matrix(q) @ v)
        traced = jax.jit(lambda p, q, nabla=nabla: cn.logarithm(nabla, p, q))(jnp.array(q), jnp.array(POLE))
        np.testing.assert_allclose(traced, v, rtol=1e-14)
        lengths = cn.distance(metric, [q, POLE, POLE, POLE], [POLE, q, -POLE, POLE])
        np.testing.assert_allclose(lengths, [np.arccos(0.64)] * 2 + [np.pi, 0.0], rtol=1e-14)
        slope = jax.grad(lambda p, metric=metric: cn.distance(metric, p, POLE))(jnp.array(q))
        np.testing.assert_allclose(slope, -ways[-1] / lengths[0], atol=1e-14)
    np.testing.assert_allclose(*ways, atol=1e-14)
    near = [1e-200, 0.0, 1.0]
    np.testing.assert_allclose(cn.distance(sphere, near, [0.0, 0.0, 1.0]), 1e-200, rtol=1e-14)
    for end in (POLE, -2.0 * POLE):
        with pytest.raises(PointError, match="q1"):
            cn.logarithm(cn.LeviCivita(sphere), q, 1.1 * end)


def test_nothing_begins_at_the_pole_and_another_one_can_be_given():
    """The advice of the error is what helps; the search of a cut pair does not begin."""
    sphere, x = spaces.sphere(2), np.array([1.0, 0.0, 0.0])
    with pytest.raises(FrameError, match=r"pole=.*spaces\.sphere"):
        cn.logarithm(cn.LeviCivita(sphere), POLE, x)
    with pytest.raises(FrameError, match="pole="):
        cn.mean(sphere, [-POLE, POLE])
    given = cn.LeviCivita(spaces.sphere(2, pole=np.array([0.0, 1.0, 0.0])))
    v = cn.logarithm(given, POLE, x)
    np.testing.assert_allclose(given.metric.frame.matrix(POLE) @ v, np.pi / 2 * x, atol=1e-15)
    times = np.linspace(0.0, 1.0, 3)
    moved = cn.parallel_transport(given, lambda t: jnp.stack([jnp.sin(t), 0.0 * t, -jnp.cos(t)]), v, times)
    end = given.metric.frame.matrix([np.sin(1.0), 0.0, -np.cos(1.0)]) @ np.asarray(moved)[-1]
    np.testing.assert_allclose(end, np.pi / 2 * np.array([np.cos(1.0), 0.0, np.sin(1.0)]), atol=1e-8)


def test_means_of_points_around_the_pole():
    """In the frames of two other poles; from the default one a mean at the pole itself is an error."""
    angles = np.linspace(0.0, 2.0 * np.pi, 5, endpoint=False)
    ring = np.stack([0.6 * np.cos(angles), 0.6 * np.sin(angles), 0.0 * angles - 0.8], axis=-1)
    ring = np.concatenate([ring, [POLE]])
    for pole in ([0.0, 0.0, 1.0], [0.6, 0.8, 0.0]):
        found = cn.mean(spaces.sphere(2, pole=pole), ring)
        np.testing.assert_allclose(found.q, POLE, atol=1e-9)
        np.testing.assert_allclose(found.distances, [np.arccos(0.8)] * 5 + [0.0], atol=1e-7)
    with pytest.raises(FrameError, match="pole="):
        cn.mean(spaces.sphere(2), ring)


@pytest.mark.parametrize(
    ("pole", "error"),
    [
        ([0.0, 1.0], ShapeError),
        ([0.0, 1.0, 0.0, 0.0], ShapeError),
        ([[0.0, 0.0, 1.0]], PointError),
        ([0.0, 0.0, 0.9], PointError),
        ([0.0, 0.0, np.nan], NonFiniteError),
        ("north", TypeError),
    ],
)
def test_poles_that_are_no_points(pole, error):
    with pytest.raises(error, match="pole"):
        spaces.sphere(2, pole)
    assert spaces.sphere(2).frame == spaces.sphere(2, POLE).frame


@pytest.mark.parametrize(
    ("points", "middle"),
    [
        ([[1e15, 1.0], [1e15, 3.0]], [1e15, np.sqrt(3.0)]),
        ([[1.0, 1e-15], [1.0, 3e-15]], [1.0, np.sqrt(3.0) * 1e-15]),
        ([[-1e50, 1.0], [1e50, 1.0]], [0.0, 1e50]),
        ([[0.0, 1e-10], [0.0, 1e10]], [0.0, 1.0]),
    ],
)
def test_a_mean_of_coordinates_of_very_different_sizes(points, middle):
    """The round-off of one coordinate is not that of the other: the first point was called the mean."""
    found = cn.mean(spaces.hyperbolic(2), points).q
    np.testing.assert_allclose(found[1], middle[1], rtol=1e-9)
    assert abs(found[0] - middle[0]) <= 1e-12 * middle[1] + 1e-15 * abs(middle[0])


@pytest.mark.parametrize("d", [1e-4, 1e-6, 1e-8, 1e-12, 1e-15, 0.0])
def test_means_of_points_that_are_close_by(d):
    """On a sphere no mean was found: a point of it has the round-off of its largest coordinate."""
    third = d / 3.0
    points = np.array([[1.0, 0.0, 0.0], [np.cos(d), np.sin(d), 0.0], [np.cos(d), 0.0, np.sin(d)]])
    found = cn.mean(spaces.sphere(2), points)
    np.testing.assert_allclose(found.q[1:], [third, third], rtol=1e-7 + d, atol=1e-30)
    chart = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
    flat = np.array([[1.0, 2.0], [1.0 + d, 2.0], [1.0, 2.0 + d]])
    np.testing.assert_allclose(cn.mean(chart, flat).q, [1.0 + third, 2.0 + third], rtol=d**2 + 4e-15)


def test_distances_of_no_points():
    for metric, size in ((spaces.hyperbolic(2), 2), (spaces.sphere(2), 3)):
        assert cn.distance(metric, np.zeros((0, size)), np.ones((0, size))).shape == (0,)
    with pytest.raises(ValueError, match="q0: expected shape"):
        cn.distance(spaces.sphere(2), np.zeros((0, 2)), np.ones((0, 3)))
