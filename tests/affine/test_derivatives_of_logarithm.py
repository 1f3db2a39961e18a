"""Derivatives of the logarithm by points and parameters: closed forms, first variation, differences."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import systems
from cases import further

import connections as cn
from connections.checks import ShapeError
from connections.spaces.hyperboloid_frame import HyperboloidFrame

CHART = cn.CoordinateFrame(2)
START, END = np.array([0.1, -0.2, 0.3]), np.array([0.3, 0.1, 0.2])


def ball_matrix(q, k):
    return 4.0 / (1.0 + k * q @ q) ** 2 * jnp.eye(2)


def ball(k):
    """Of curvature k: a sphere without a point, the plane, the Poincare disc."""
    return cn.LeviCivita(cn.MatrixMetric(CHART, ball_matrix, k))


def log_at_centre(k, q):
    """Radial lines have length 2 atan(sqrt(k) r) / sqrt(k), and H = 4 at the centre."""
    root = jnp.sqrt(jnp.abs(k))
    x = root * jnp.linalg.norm(q)
    return q * jnp.where(k > 0.0, jnp.arctan(x), jnp.arctanh(x)) / x


def differences(function, x, step=1e-4):
    """Central differences of order four, (..., len(x))."""
    columns = []
    for h in step * np.eye(len(x)):
        near, far = (function(x + k * h) - function(x - k * h) for k in (1.0, 2.0))
        columns.append((8.0 * np.asarray(near) - np.asarray(far)) / (12.0 * step))
    return np.stack(columns, axis=-1)


def log_from_centre(k, q):
    return cn.logarithm(ball(k), np.zeros(2), q)


@pytest.mark.parametrize("k", [1.3, further(-0.8)])
def test_by_the_curvature_and_the_end(k):
    """In closed form."""
    q1 = np.array([0.5, -0.3])
    found, expected = (jax.jacrev(f, (0, 1))(k, q1) for f in (log_from_centre, log_at_centre))
    for ours, closed in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, closed, atol=1e-8)
    assert np.abs(expected[1] - np.eye(2)).max() > 0.03  # which it would be in the plane
    assert np.abs(expected[0]).max() > 0.01


@pytest.mark.further
@pytest.mark.parametrize("k", [1.3, -0.8])
def test_the_other_mode_and_second_derivatives(k):
    """By `jvp` inside `jit`, and by both modes, one after the other."""
    q1 = np.array([0.5, -0.3])
    found, expected = (jax.jit(jax.jacfwd(f, (0, 1)))(k, q1) for f in (log_from_centre, log_at_centre))
    for ours, closed in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, closed, atol=1e-8)
    second, closed = (
        jax.jit(jax.jacfwd(jax.grad(lambda k, q, f=f: f(k, q)[0], 1)))(k, q1)
        for f in (log_from_centre, log_at_centre)
    )
    np.testing.assert_allclose(second, closed, atol=1e-7)


@pytest.mark.further
def test_batches_and_jit():
    """The search is called back from compiled functions; members and points are searched together."""
    ks, ends = np.array([1.3, -0.8]), np.array([[0.5, -0.3], [0.2, 0.4], [-0.1, 0.6]])
    every = jax.jit(
        jax.vmap(jax.vmap(lambda k, q: cn.logarithm(ball(k), np.zeros(2), q), (None, 0)), (0, None))
    )
    found = every(ks, ends)
    assert found.shape == (2, 3, 2)
    for i, k in enumerate(ks):
        np.testing.assert_allclose(found[i], cn.logarithm(ball(k), np.zeros(2), ends), rtol=1e-12)
        inside = jax.jit(lambda q, k=k: cn.logarithm(ball(k), np.zeros(2), q))(ends)  # batch axes of its own
        np.testing.assert_allclose(inside, found[i], rtol=1e-12)
    slopes = jax.jit(jax.vmap(jax.grad(lambda k, q: cn.logarithm(ball(k), np.zeros(2), q)[1]), (0, None)))
    expected = [jax.grad(lambda k: log_at_centre(k, ends[0])[1])(k) for k in ks]
    np.testing.assert_allclose(slopes(ks, ends[0]), expected, atol=1e-8)


@pytest.mark.further
def test_on_the_hyperboloid():
    """Points in R^3: log = d / sinh(d) (q1 - cosh(d) q0)."""
    frame = HyperboloidFrame(2)
    nabla = cn.LeviCivita(cn.ConstantMetric(frame, np.eye(2)))

    def point(x):
        return jnp.concatenate([jnp.sqrt(1.0 + x @ x)[None], x])

    def closed(x, y):
        q0, q1 = point(x), point(y)
        cosh = q0[0] * q1[0] - q0[1:] @ q1[1:]
        d = jnp.arccosh(cosh)
        return frame.dual_at(q0) @ (q1 - cosh * q0) * d / jnp.sinh(d)

    def found(x, y):
        return cn.logarithm(nabla, point(x), point(y))

    x, y = np.array([0.2, -0.4]), np.array([-0.9, 0.7])
    for which in (0, 1):
        ours, expected = (jax.jit(jax.jacrev(f, which))(x, y) for f in (found, closed))
        np.testing.assert_allclose(ours, expected, atol=1e-7)
    assert np.abs(expected - frame.dual_at(point(x)) @ jax.jacobian(point)(y)).max() > 0.1  # no geodesic


@pytest.mark.further
def test_first_and_second_variation_of_the_energy():
    """On the unit sphere: d(d^2/2) is -log back, and the covariant Hessian's eigenvalues are 1, d cot d."""
    nabla, metric = systems.SPHERE_NABLA, systems.SPHERE_NABLA.metric
    q0, q1 = np.array([1.2, 0.3]), np.array([0.9, 1.4])

    def energy(q0, q1):
        v = cn.logarithm(nabla, q0, q1)
        return v @ metric.matrix_at(q0) @ v / 2.0

    d = np.sqrt(2.0 * energy(q0, q1))
    slopes = jax.grad(energy, (0, 1))(q0, q1)
    back = np.asarray(cn.logarithm(nabla, q1, q0))
    np.testing.assert_allclose(
        slopes[0], -metric.matrix(q0) @ np.asarray(cn.logarithm(nabla, q0, q1)), atol=1e-8
    )
    np.testing.assert_allclose(slopes[1], -metric.matrix(q1) @ back, atol=1e-8)
    hessian = jax.jit(jax.hessian(energy, 1))(q0, q1) - np.einsum(
        "kij,k->ij", nabla.coefficients(q1), slopes[1]
    )
    eigenvalues = np.linalg.eigvals(np.linalg.solve(metric.matrix(q1), hessian))
    np.testing.assert_allclose(np.sort(eigenvalues), [d / np.tan(d), 1.0], atol=1e-7)
    assert d / np.tan(d) < 0.8


@pytest.mark.further
def test_with_torsion_in_a_frame_that_turns():
    """Against differences of the search itself; and where q1 = q0, the derivative is that of coordinates."""
    nabla = systems.GENERAL
    assert np.abs(nabla.torsion(START)).max() > 0.01
    assert np.abs(nabla.frame.matrix(START) - np.eye(3)).max() > 0.01

    def log(q0, q1):
        return cn.logarithm(nabla, q0, q1)

    by_both = jax.jit(jax.jacrev(log, (0, 1)))
    found = by_both(START, END)
    expected = differences(lambda q: log(q, END), START), differences(lambda q: log(START, q), END)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-7)
    assert np.abs(expected[0] + expected[1]).max() > 0.01  # as in a flat space
    still = by_both(START, START)
    dual = np.linalg.inv(nabla.frame.matrix(START))
    np.testing.assert_allclose(still[1], dual, atol=1e-8)
    np.testing.assert_allclose(still[0], -dual, atol=1e-8)


@pytest.mark.further
def test_of_rotations(rng):
    """Unit quaternions, of either sign: along body axes it is the inverse of the right Jacobian."""
    nabla, frame = systems.BI_INVARIANT_NABLA, systems.SO3
    q0, w = oracles.random_quaternion(rng), np.array([0.5, -0.8, 0.6])
    q1 = np.asarray(cn.exponential(nabla, q0, w))
    size, W = np.linalg.norm(w), np.stack([np.cross(w, e) for e in np.eye(3)], axis=1)
    share = 1.0 / size**2 - (1.0 + np.cos(size)) / (2.0 * size * np.sin(size))
    expected = np.eye(3) + W / 2.0 + share * W @ W
    for end in (q1, -q1):
        slope = jax.jacfwd(lambda q: cn.logarithm(nabla, q0, q))(end)
        np.testing.assert_allclose(slope @ frame.matrix(end), expected, atol=1e-8)


@pytest.mark.further
def test_what_has_no_logarithm_is_no_number():
    """Opposite points of the sphere, and the end of the chart; nothing else in the batch is touched."""
    nabla, q0 = systems.SPHERE_NABLA, np.array([1.2, 0.3])
    ends = np.array([[0.9, 1.4], [np.pi - 1.2, 0.3 + np.pi], [0.0, 0.0]])
    value, slope = jax.jit(
        jax.vmap(lambda q: (cn.logarithm(nabla, q0, q), jax.jacfwd(lambda p: cn.logarithm(nabla, q0, p))(q)))
    )(ends)
    np.testing.assert_allclose(value[0], cn.logarithm(nabla, q0, ends[0]), rtol=1e-12)
    assert np.isfinite(slope[0]).all()
    assert np.isnan(value[1:]).all()
    assert np.isnan(slope[1:]).all()
    with pytest.raises(ShapeError, match="q1"):
        jax.jit(lambda q: cn.logarithm(nabla, q0, q))(np.zeros(3))


@pytest.mark.further
def test_threads_do_not_wait_for_each_other():
    """Each calls back from compiled code, and what it calls is compiled code again."""
    nabla, q0 = systems.SPHERE_NABLA, np.array([1.2, 0.3])
    log = jax.jit(lambda q: cn.logarithm(nabla, q0, q))
    ends = np.array([0.9, 1.4]) + np.linspace(0.0, 0.2, 16)[:, None]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(log, ends))
    for end, v in zip(ends, found, strict=True):
        np.testing.assert_allclose(v, cn.logarithm(nabla, q0, end), rtol=1e-12)
