"""All geodesics between two points, distances and means, beside closed forms."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import connections as cn
from connections import spaces
from connections.checks import ConvergenceError, ShapeError

PLANE = cn.CoordinateFrame(2)
HALF_PLANE = cn.MatrixMetric(PLANE, lambda q: jnp.eye(2) / q[1] ** 2)
TORUS = cn.MatrixMetric(PLANE, lambda q: jnp.diag(jnp.array([1.0, (2.0 + jnp.cos(q[0])) ** 2])))
IDENTITY, QUARTER = [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)]


def distance(p, q):
    """Of the half plane."""
    return np.arccosh(1.0 + np.sum((p - q) ** 2, axis=-1) / (2.0 * p[..., 1] * q[..., 1]))


def test_geodesics_of_a_torus_beside_its_outer_equator():
    """The equator has the length 3 * 2.5, and K = 1/3, so that a conjugate point comes after sqrt(3) pi."""
    nabla = cn.LeviCivita(TORUS)
    found = cn.logarithms(nabla, [0.0, 0.0], [0.0, 2.5], 9.0)
    assert found.ties == 2 and "3 geodesics, 2 of them equally short" in repr(found)
    np.testing.assert_array_equal(found.indices, [0, 0, 1])
    assert found.lengths[2] == pytest.approx(7.5, rel=1e-12)
    np.testing.assert_allclose(found.v[0], found.v[1] * [-1.0, 1.0], rtol=1e-8)  # mirror images
    np.testing.assert_allclose(cn.exponential(nabla, [0.0, 0.0], found.v), [[0.0, 2.5]] * 3, atol=1e-9)
    assert cn.distance(TORUS, [0.0, 0.0], [0.0, 2.5]) == pytest.approx(found.lengths[0], rel=1e-9)
    assert len(cn.logarithms(nabla, [0.0, 0.0], [0.0, 2.5], 7.0)) == 2  # control


def test_no_geodesic_of_an_embedded_torus_is_missed():
    """Nine, of which two leave within eight degrees of each other; 20,000 directions find the same.

    The lengths are those of cells of a polar grid that contain an image of q1 (Runge-Kutta, steps of 0.025).
    """

    def H(q):
        return jnp.diag(jnp.stack([0.64 * jnp.ones(()), (2.0 + 0.8 * jnp.cos(q[0])) ** 2]))

    frame = cn.CoordinateFrame(2, periods=(2.0 * np.pi, 2.0 * np.pi))
    nabla = cn.LeviCivita(cn.MatrixMetric(frame, H))
    expected = [4.638, 5.538, 6.238, 7.012, 7.638, 9.038, 9.612, 9.788, 9.812]
    found = cn.logarithms(nabla, [0.5, 0.0], [2.0, 2.5], 10.0)
    np.testing.assert_allclose(found.lengths, expected, rtol=0.0, atol=0.025)  # of a cell
    assert found.indices.tolist() == [0] * 7 + [1, 0]
    close = found.v[6:8] * [0.8, 2.0 + 0.8 * np.cos(0.5)]
    assert np.linalg.norm(close[0] - close[1]) < 0.2 * found.lengths[6]  # control: they are hard to tell


@pytest.mark.further
def test_lengths_on_a_rough_surface():
    """21, six of them by SciPy's DOP853 and Newton's method; steps of 0.02 err by up to 0.3 in a length."""
    rng = np.random.default_rng(1)
    places, heights = rng.uniform(-2.0, 2.0, (7, 2)), rng.choice([-1, 1], 7) * rng.uniform(1.0, 2.5, 7)
    widths, *q = rng.uniform(0.35, 0.7, 7), rng.uniform(-2.0, 2.0, 2), rng.uniform(-2.0, 2.0, 2)

    def H(x):
        z = jax.grad(lambda x: heights @ jnp.exp(-0.5 * jnp.sum((x - places) ** 2, axis=1) / widths**2))
        return jnp.eye(2) + jnp.outer(z(x), z(x))

    found = cn.logarithms(cn.LeviCivita(cn.MatrixMetric(PLANE, H)), *q, 8.0)
    assert len(found) == 21
    for length in (5.74114, 5.92652, 7.50919, 7.66641, 7.71565, 7.72776):
        assert np.abs(found.lengths - length).min() < 1e-5


@pytest.mark.further
def test_all_images_in_a_skew_lattice_are_found():
    """All translations up to a length; a longer search finds more."""
    H, q = np.array([[1.0, 0.85], [0.85, 1.0]]), np.array([[0.64, 0.27], [0.04, 0.02]])
    nabla = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2, periods=(1.0, 1.0)), H))
    turns = np.stack(np.meshgrid(*[np.arange(-30, 31)] * 2), axis=-1).reshape(-1, 2) + q[1] - q[0]
    lengths = np.sort(np.sqrt(np.einsum("ni,ij,nj->n", turns, H, turns)))
    found = cn.logarithms(nabla, *q, 4.0)
    np.testing.assert_allclose(found.lengths, lengths[lengths <= 4.0], rtol=1e-10)
    assert len(found) > len(lengths[lengths <= 3.5]) > 50


def test_the_geodesic_that_stays_is_one():
    flat = cn.LeviCivita(cn.ConstantMetric(PLANE, np.eye(2)))
    found = cn.logarithms(flat, [0.0, 1.0], [0.0, 1.0], 3.0, rays=8)
    assert found.lengths.tolist() == [0.0] and found.ties == 1 and found.indices.tolist() == [0]


def test_geodesics_of_rotations_the_long_way_round():
    """A quarter turn, and turns more or less; a full turn passes a double conjugate point."""
    rotations = cn.LeviCivita(cn.ConstantMetric(cn.SO3Frame(), np.eye(3)))
    found = cn.logarithms(rotations, IDENTITY, QUARTER, 9.0, rays=256)
    np.testing.assert_allclose(found.v, np.pi * np.array([[0, 0, 0.5], [0, 0, -1.5], [0, 0, 2.5]]), atol=1e-8)
    np.testing.assert_array_equal(found.indices, [0, 0, 2])


def test_a_mean_of_the_half_plane_as_by_scipy():
    rng = np.random.default_rng(3)
    points, weights = rng.uniform([-2.0, 0.3], [2.0, 3.0], (6, 2)), rng.uniform(0.5, 2.0, 6)
    found = cn.mean(HALF_PLANE, points, weights)

    def cost(x):
        q = np.array([x[0], np.exp(x[1])])
        return weights @ distance(points, q) ** 2

    best = minimize(cost, [0.0, 0.0], method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(found.q, [best[0], np.exp(best[1])], atol=1e-6)
    np.testing.assert_allclose(found.distances, distance(points, found.q), rtol=1e-9)
    np.testing.assert_allclose(cn.distance(HALF_PLANE, points, found.q), found.distances, rtol=1e-9)
    assert np.abs(found.q - cn.mean(HALF_PLANE, points).q).max() > 0.01  # control: weights count


@pytest.mark.parametrize("gap", [1e-8, 1e-12])
def test_a_mean_of_near_points(gap: float):
    """Where 1e-10 of their distance is less than the round-off of the coordinates."""
    plane, points = cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2)), np.full((3, 2), 0.3)
    points[1, 1] += gap
    points[2, 0] += gap
    found = cn.mean(plane, points)
    np.testing.assert_allclose(found.q - 0.3, [gap / 3.0] * 2, rtol=0.0, atol=2e-16)
    assert found.steps <= 2


def test_a_mean_is_no_saddle():
    """Three points round an equator have the poles as means, and one of them is a critical point."""
    sphere, turn = cn.ConstantMetric(cn.SphereFrame(), np.eye(2)), 2.0 * np.pi / 3.0
    points = [[np.cos(k * turn), np.sin(k * turn), 0.0] for k in (0, 1, -1)]
    found = cn.mean(sphere, points)
    np.testing.assert_allclose(np.abs(found.q), [0.0, 0.0, 1.0], atol=1e-8)
    np.testing.assert_allclose(found.distances, np.pi / 2.0, rtol=1e-9)


@pytest.mark.further
def test_a_distance_has_a_derivative():
    there = jnp.array([0.0, 2.0])
    slope = jax.jit(jax.grad(lambda p: cn.distance(HALF_PLANE, p, there)))(jnp.array([0.0, 1.0]))
    np.testing.assert_allclose(slope, [0.0, -1.0], atol=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: cn.logarithms(cn.LeviCivita(TORUS), [0.0, 0.0], [0.0, 1.0], 0.0), ValueError, "length: exp"),
        (lambda: cn.logarithms(cn.LeviCivita(TORUS), [0.0], [0.0, 1.0], 1.0), ShapeError, "q0"),
        (lambda: cn.logarithms(TORUS, [0.0, 0.0], [0.0, 1.0], 1.0), TypeError, "nabla"),
        (lambda: cn.distance(cn.LeviCivita(TORUS), [0.0, 0.0], [0.0, 1.0]), TypeError, "metric"),
        (lambda: cn.mean(TORUS, [0.0, 0.0]), ShapeError, "points"),
        (lambda: cn.mean(TORUS, [[0.0, 0.0]], [-1.0]), ValueError, "weights: expected positive"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


# --- cut points, conjugate points, batches ------------------------------------------------------------------

ROUND = cn.ConstantMetric(cn.SphereFrame(), np.eye(2))
EAST, WEST = [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]
CIRCLE = cn.ConstantMetric(cn.CoordinateFrame(1, periods=(2.0,)), [[9.0]])


def test_opposite_points_of_a_sphere_are_conjugate():
    """All great circles lead there: the distance is pi, each is as short, and no logarithm is the one."""
    nabla = cn.LeviCivita(ROUND)
    far = [0.6, -0.8, 0.0]
    np.testing.assert_allclose(cn.distance(ROUND, EAST, [WEST, far]), [np.pi, np.arccos(0.6)], rtol=1e-9)
    with pytest.raises(ConvergenceError, match="q1 is conjugate to q0"):
        cn.logarithm(nabla, EAST, WEST)
    found = cn.logarithms(nabla, EAST, [WEST, far], 4.0, rays=16)
    assert found.is_cut.tolist() == [True, False] and found.counts[0] > found.counts[1] == found.ties[1] == 1
    one, other = found.member(0), found.member(1)
    np.testing.assert_allclose(one.lengths, np.pi, rtol=1e-9)
    assert (one.nullities == 1).all() and (one.indices == 0).all() and one.ties == len(one) > 8
    assert "to a conjugate point" in repr(one) and other.nullities.tolist() == [0]
    assert np.isinf(found.lengths[1, 1:]).all() and np.isnan(found.v[1, 1:]).all()
    assert repr(found).startswith("Logarithms: 1 to ") and "2 pairs, 1 cut" in repr(found)


def test_a_cut_point_that_is_not_conjugate():
    """Half way round a circle of length 6; beside it, one way is shorter."""
    nabla = cn.LeviCivita(CIRCLE)
    with pytest.warns(cn.CutPointWarning, match="another geodesic is as short"):
        v = cn.logarithm(nabla, [0.0], [[0.4], [1.0]])
    np.testing.assert_allclose(np.abs(v), [[0.4], [1.0]], atol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cn.logarithm(nabla, [0.0], [1.0 - 1e-6]) > 0.0 > cn.logarithm(nabla, [0.0], [1.0 + 1e-6])
        np.testing.assert_allclose(
            cn.distance(CIRCLE, [0.0], [[0.4], [1.0], [1.9]]), [1.2, 3.0, 0.3], rtol=1e-12
        )
    found = cn.logarithms(nabla, [0.0], [1.0], 4.0)
    assert found.is_cut and found.ties == 2 and not found.nullities.any()
    assert sorted(found.shifts[:, 0].tolist()) == [-1, 0]
    assert not cn.logarithms(nabla, [0.0], [0.9], 4.0).is_cut


# --- means --------------------------------------------------------------------------------------------------


def test_means_in_batches_as_one_by_one(rng):
    points = rng.uniform([-1.0, 0.5], [1.0, 2.0], (2, 3, 2))
    weights = rng.uniform(0.5, 2.0, (2, 3))
    found = cn.mean(HALF_PLANE, points, weights, points[:, 1])
    for k in range(2):
        one = cn.mean(HALF_PLANE, points[k], weights[k], points[k, 1])
        np.testing.assert_array_equal(found.q[k], one.q)
        np.testing.assert_array_equal(found.distances[k], one.distances)
        assert found.steps[k] == one.steps > 0
    assert found.is_unique.tolist() == [False, False] and found.radius is None
    assert repr(found).startswith("Mean: 2 means")
    none = cn.mean(HALF_PLANE, np.zeros((0, 3, 2)))
    assert none.q.shape == (0, 2) and none.distances.shape == (0, 3) and none.steps.shape == (0,)


def test_the_radius_within_which_a_mean_is_the_only_one():
    """Of a flat torus with a skew lattice, of a sphere, of bounds that are given, and where none are."""
    skew = cn.ConstantMetric(cn.CoordinateFrame(2, periods=(1.0, 1.0)), [[1.0, 0.9], [0.9, 1.0]])
    found = cn.mean(skew, [[0.0, 0.0], [0.02, 0.98]])
    shortest = np.sqrt(2.0 - 1.8)  # (1, -1)
    assert found.radius == pytest.approx(shortest / 4.0, rel=1e-12) and found.is_unique
    ball = cn.ConstantMetric(cn.SphereFrame(), 4.0 * np.eye(2))
    found = cn.mean(ball, [EAST, [0.6, 0.8, 0.0]])
    assert found.radius == pytest.approx(np.pi, rel=1e-12) and "the only one" in repr(found)
    points = [[-1.0, 1.0], [1.0, 1.0]]
    assert cn.mean(HALF_PLANE, points, curvature=-1.0, injectivity_radius=np.inf).radius == np.inf
    bounded = cn.mean(HALF_PLANE, points, curvature=4.0, injectivity_radius=9.0)
    assert (
        bounded.radius == pytest.approx(np.pi / 4.0) and not bounded.is_unique
    )  # control: they are 0.88 away
    plane = spaces.hyperbolic(2)
    assert cn.mean(plane, points).is_unique and cn.mean(plane, points).radius == np.inf
    with pytest.raises(TypeError, match="give both"):
        cn.mean(HALF_PLANE, points, curvature=1.0)
    with pytest.raises(ValueError, match="injectivity_radius"):
        cn.mean(HALF_PLANE, points, curvature=1.0, injectivity_radius=0.0)


# --- borders ------------------------------------------------------------------------------------------------


def test_logarithms_to_a_corner_of_a_grid():
    """Of |dz^2 e^z|, flat in the plane of w = e^(z / 2): lengths are twice those of straight lines there."""
    axis = np.linspace(0.0, 1.0, 9)
    x, y = np.meshgrid(axis, axis - 0.5, indexing="ij")
    nabla = cn.LeviCivita(cn.GridMetric([axis, axis - 0.5], np.exp(x)[..., None, None] * np.eye(2)))
    start, corner = np.array([0.0, 0.0]), np.array([1.0, 0.5])
    w = np.exp(np.array([start, corner]) @ [0.5, 0.5j])
    v = cn.logarithm(nabla, start, corner)
    assert np.linalg.norm(v) == pytest.approx(2.0 * abs(w[1] - w[0]), rel=1e-5)  # the splines' error
    np.testing.assert_allclose(cn.exponential(nabla, start, v), corner, atol=1e-9)
    back = cn.logarithm(nabla, corner, start)
    np.testing.assert_allclose(cn.exponential(nabla, corner, back), start, atol=1e-9)


@pytest.mark.further
def test_a_geodesic_beyond_the_border_of_a_grid_is_said_to_leave():
    axis = np.linspace(0.0, 1.0, 9)
    values = np.exp(axis)[:, None, None, None] * np.eye(2) * np.ones((9, 1, 1))
    nabla = cn.LeviCivita(cn.GridMetric([axis, axis], values))
    with pytest.raises(ConvergenceError, match="leaves the domain"):
        cn.logarithm(nabla, [0.0, 0.0], [0.0, 1.0])


@pytest.mark.further
def test_a_distance_of_a_closed_form_to_a_cut_point():
    found = cn.distance(spaces.sphere(2), EAST, [WEST, [0.6, 0.8, 0.0]])
    np.testing.assert_allclose(found, [np.pi, np.arccos(0.6)], rtol=1e-9)
