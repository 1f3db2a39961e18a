"""Metrics: closed forms, pullback, induced, products, change of frame."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import systems

import connections as cn


def test_sphere_metric_is_the_pullback_of_the_embedding(rng):
    q = np.array([1.1, 0.4]) + 0.3 * rng.standard_normal((5, 2))
    np.testing.assert_allclose(systems.SPHERE_PULLBACK.matrix(q), systems.SPHERE.matrix(q), atol=1e-14)
    np.testing.assert_allclose(systems.SPHERE.matrix(q)[:, 1, 1], np.sin(q[:, 0]) ** 2, atol=1e-14)


def test_pullback_in_a_frame_that_is_no_coordinate_frame(rng):
    """H = (d embedding X)^T (d embedding X)."""
    q = np.array([0.8, -0.2])
    metric = cn.PullbackMetric(systems.SPHERE_ORTHONORMAL.frame, systems.sphere_point)
    np.testing.assert_allclose(metric.matrix(q), np.eye(2), atol=1e-14)
    assert np.abs(np.asarray(systems.SPHERE_PULLBACK.matrix(q)) - np.eye(2)).max() > 0.1


def test_change_of_frame_is_a_congruence(rng):
    q = systems.points(rng)
    A = np.asarray(systems.change_of_frame(jnp.asarray(q)))
    H = np.asarray(systems.METRIC.matrix(q))
    changed = systems.METRIC.change(systems.change_of_frame)
    np.testing.assert_allclose(changed.matrix(q), A.T @ H @ A, atol=1e-13)
    assert np.abs(changed.matrix(q) - A @ H @ A.T).max() > 1e-2  # control: transposed
    assert changed.frame == systems.FRAME.change(systems.change_of_frame)


def test_inner_product(rng):
    """<<v, w>> = v^T H w, at each point by its own H."""
    q, v, w = systems.points(rng, 4), *rng.standard_normal((2, 4, 3))
    expected = np.array([a @ H @ b for a, H, b in zip(v, systems.METRIC.matrix(q), w, strict=True)])
    np.testing.assert_allclose(systems.METRIC.inner(q, v, w), expected, rtol=1e-13)
    assert np.abs(expected - np.sum(v * w, axis=1)).max() > 1e-2  # control: H is not one


def test_terms_of_the_rate_of_a_changed_metric(rng):
    """Of (A^T H A)dot along X A w: the rate of every factor between the absolute values of the others."""
    changed = systems.METRIC.change(systems.change_of_frame)
    q, w = jnp.asarray(systems.points(rng)), rng.uniform(0.5, 1.5, 3)
    X, A, H = (
        np.abs(f(q)) for f in (systems.FRAME.matrix_at, systems.change_of_frame, systems.METRIC.matrix_at)
    )
    A_rate, H_rate = (
        np.abs(jax.jacfwd(f)(q)) @ (X @ A @ w) for f in (systems.change_of_frame, systems.METRIC.matrix_at)
    )
    expected = A_rate.T @ H @ A + A.T @ H @ A_rate + A.T @ H_rate @ A
    np.testing.assert_allclose(changed.rate_terms_at(q, w), expected, rtol=1e-13)


def test_induced_metric(rng):
    """Rigid rotation about an axis: A = axis, H = axis^T I axis."""
    axis = np.array([0.0, 0.6, 0.8])

    def orientation(angle):
        return jnp.concatenate([jnp.asarray(axis) * jnp.sin(angle / 2), jnp.cos(angle / 2)])

    metric = cn.InducedMetric(
        systems.TOP, cn.CoordinateFrame(1), lambda p: jnp.asarray(axis)[:, None], orientation
    )
    q = rng.standard_normal((3, 1))
    expected = axis @ systems.TOP_INERTIA @ axis
    np.testing.assert_allclose(metric.matrix(q), np.full((3, 1, 1), expected), rtol=1e-13)


def test_an_induced_metric_is_that_of_the_ambient_point(rng):
    """A curve r = 1 + x^2, phi = x in polar coordinates: H = rdot^2 + r^2 phidot^2."""
    polar = cn.MatrixMetric(
        cn.CoordinateFrame(2), lambda p: jnp.diag(jnp.array([1.0, 1.0])).at[1, 1].set(p[0] ** 2)
    )
    metric = cn.InducedMetric(
        polar,
        cn.CoordinateFrame(1),
        lambda x: jnp.stack([2.0 * x, jnp.ones(1)]),
        lambda x: jnp.concatenate([1.0 + x**2, x]),
    )
    x = rng.standard_normal((3, 1))
    np.testing.assert_allclose(metric.matrix(x)[:, 0], 4.0 * x**2 + (1.0 + x**2) ** 2, rtol=1e-13)


def test_product_metric_is_block_diagonal(rng):
    product = cn.ProductMetric(systems.TOP, systems.METRIC)
    orientation, p = oracles.random_quaternion(rng), systems.points(rng)
    H = np.asarray(product.matrix(np.concatenate([orientation, p])))
    np.testing.assert_allclose(H[:3, :3], systems.TOP_INERTIA)
    np.testing.assert_allclose(H[3:, 3:], systems.METRIC.matrix(p))
    assert not H[:3, 3:].any() and not H[3:, :3].any()
    assert product.frame == cn.ProductFrame(systems.SO3, systems.FRAME)


def test_the_error_names_the_smallest_eigenvalue():
    """-3 of -3, 2, 7 in a turned basis, for a given matrix and for one of q."""
    Q = np.linalg.qr(np.arange(9.0).reshape(3, 3) ** 2 + np.eye(3))[0]
    H = Q @ np.diag([2.0, -3.0, 7.0]) @ Q.T
    H, frame = (H + H.T) / 2.0, cn.CoordinateFrame(3)
    with pytest.raises(cn.checks.MetricError, match=r"-3\.00"):
        cn.ConstantMetric(frame, H)
    with pytest.raises(cn.checks.MetricError, match=r"-3\.00"):
        cn.MatrixMetric(frame, lambda q: jnp.asarray(H)).matrix(np.zeros(3))
