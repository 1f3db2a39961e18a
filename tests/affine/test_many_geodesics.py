"""All geodesics between two points, distances and means, beside closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import connections as cn
from connections.checks import ShapeError

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
        (lambda: cn.logarithms(cn.LeviCivita(TORUS), [[0.0, 0.0]], [0.0, 1.0], 1.0), ShapeError, "q0"),
        (lambda: cn.logarithms(TORUS, [0.0, 0.0], [0.0, 1.0], 1.0), TypeError, "nabla"),
        (lambda: cn.distance(cn.LeviCivita(TORUS), [0.0, 0.0], [0.0, 1.0]), TypeError, "metric"),
        (lambda: cn.mean(TORUS, [0.0, 0.0]), ShapeError, "points"),
        (lambda: cn.mean(TORUS, [[0.0, 0.0]], [-1.0]), ValueError, "weights: expected positive"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
