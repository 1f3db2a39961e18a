"""The affine-invariant metric of positive definite matrices against its Levi-Civita connection and SciPy."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import eigh, expm, logm, sqrtm

import connections as cn
from connections.checks import MetricError, PointError, ShapeError
from connections.geometry import AffineInvariantMetric
from connections.geometry.numerics.positive_definite import symmetric_exponential, whitened_logarithm

BASIS = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 2.0]]])
METRIC = AffineInvariantMetric(BASIS)


def positive(rng, count, n=2):
    A = rng.standard_normal((count, n, n))
    return A @ A.swapaxes(1, 2) + 0.2 * np.eye(n)


@pytest.fixture
def points(rng):
    return METRIC.coordinates(positive(rng, 5))


def test_coordinates_and_dual(rng):
    """P = q^i B_i and back; tr(S B_i) = a_i. Control: coordinates are not the entries."""
    P, a = positive(rng, 4), rng.standard_normal((4, 3))
    q = METRIC.coordinates(P)
    np.testing.assert_allclose(np.einsum("ki,iab->kab", q, BASIS), P, rtol=1e-13)
    np.testing.assert_allclose(METRIC.matrices(q), P, rtol=1e-13)
    S = METRIC.dual(a)
    np.testing.assert_allclose(np.einsum("kab,iba->ki", S, BASIS), a, atol=1e-13)
    np.testing.assert_allclose(S, S.swapaxes(1, 2), atol=1e-14)
    assert np.abs(q - np.stack([P[:, 0, 0], P[:, 0, 1], P[:, 1, 1]], axis=1)).max() > 0.1


def test_metric_and_connection(points):
    """H by inverses; nabla_A B = -(A P^-1 B + B P^-1 A) / 2 of constant fields, by Levi-Civita's formula."""
    q = points[0]
    P = METRIC.matrices(q)
    M = np.linalg.inv(P) @ BASIS
    np.testing.assert_allclose(METRIC.matrix(q), np.einsum("iab,jba->ij", M, M), rtol=1e-12)
    closed = -(BASIS[:, None] @ M[None] + BASIS[None] @ M[:, None]) / 2.0
    Gamma = np.asarray(cn.LeviCivita(METRIC).coefficients(q))
    found = np.einsum("ijk,iab->jkab", Gamma, BASIS)
    np.testing.assert_allclose(found, closed, atol=1e-11 * np.abs(closed).max())
    assert (
        np.abs(found - 2.0 * closed).max() > 0.1
    )  # of the flat connection whose geodesics are straight in P^-1


def test_geodesics(points):
    """Against the equation of geodesics, and P^1/2 exp(P^-1/2 A P^-1/2) P^1/2 by SciPy. Control: P + A."""
    p, q = points[:2]
    v = METRIC.logarithm(p, q)
    np.testing.assert_allclose(METRIC.exponential(p, v), q, rtol=1e-12)
    np.testing.assert_allclose(cn.exponential(cn.LeviCivita(METRIC), p, v), q, rtol=1e-9)
    P, A = METRIC.matrices(p), METRIC.matrices(v)
    root = sqrtm(P)
    inverse = np.linalg.inv(root)
    np.testing.assert_allclose(root @ logm(inverse @ METRIC.matrices(q) @ inverse) @ root, A, rtol=1e-10)
    half = METRIC.matrices(METRIC.geodesic(p, q, 0.5))
    np.testing.assert_allclose(half, root @ expm(0.5 * inverse @ A @ inverse) @ root, rtol=1e-12)
    assert np.abs(half - (P + 0.5 * A)).max() > 1e-2 * np.abs(half).max()


def test_distance(points):
    """The length of the logarithm; eigenvalues of a pencil by SciPy; no change of basis changes it."""
    p, q = points[:2]
    d, v = METRIC.distance(p, q), METRIC.logarithm(p, q)
    np.testing.assert_allclose(d, np.sqrt(METRIC.inner(p, v, v)), rtol=1e-12)
    P, Q = METRIC.matrices(np.stack([p, q]))
    np.testing.assert_allclose(d, np.linalg.norm(np.log(eigh(Q, P, eigvals_only=True))), rtol=1e-12)
    T = np.array([[1.3, 0.4], [-0.2, 5.0]])
    moved = METRIC.coordinates(T @ np.stack([P, Q]) @ T.T)
    np.testing.assert_allclose(METRIC.distance(*moved), d, rtol=1e-11)
    assert abs(np.linalg.norm(moved[1] - moved[0]) - np.linalg.norm(q - p)) > 0.1


def test_divergence(points):
    """By definition; half the squared distance near; d(P || Q) = d(Q^-1 || P^-1). Control: not symmetric."""
    p, q = points[:2]
    P, Q = METRIC.matrices(points[:2])
    M = np.linalg.solve(Q, P)
    d = METRIC.divergence(p, q)
    np.testing.assert_allclose(d, np.trace(M) - np.log(np.linalg.det(M)) - 2.0, rtol=1e-11)
    inverses = METRIC.coordinates(np.linalg.inv(np.stack([Q, P])))
    np.testing.assert_allclose(METRIC.divergence(*inverses), d, rtol=1e-10)
    assert abs(METRIC.divergence(q, p) - d) > 1e-2 * d
    near = METRIC.geodesic(p, q, 1e-5)
    np.testing.assert_allclose(METRIC.divergence(near, p), METRIC.distance(near, p) ** 2 / 2.0, rtol=1e-4)


def test_derivatives_of_the_mean_with_unequal_weights(points):
    """Of commuting matrices, log M = sum w log P / sum w; of any, by differences of M itself."""
    weights, sizes = np.array([0.3, 2.0, 1.1, 0.6, 1.5]), np.linspace(0.3, 4.0, 10).reshape(5, 2) ** 2
    diagonals = METRIC.coordinates(sizes[:, :, None] * np.eye(2))
    M = np.exp(weights @ np.log(sizes) / weights.sum())
    by_weights = jax.jacobian(lambda w: METRIC.mean(jnp.asarray(diagonals), w))(jnp.asarray(weights))
    expected = M * (np.log(sizes) - np.log(M)) / weights.sum()
    np.testing.assert_allclose(
        METRIC.matrices(np.asarray(by_weights).T), expected[:, :, None] * np.eye(2), atol=1e-11
    )
    change = np.cos(np.arange(10.0)).reshape(5, 2)
    along = METRIC.coordinates(change[:, :, None] * np.eye(2))

    def jvp(points, weights, change, of_weights):
        at, rates = (tuple(map(jnp.asarray, pair)) for pair in ((points, weights), (change, of_weights)))
        return np.asarray(jax.jvp(METRIC.mean, at, rates)[1])

    moved = METRIC.matrices(jvp(diagonals, weights, along, 0.0 * weights))
    np.testing.assert_allclose(moved, np.diag(M * (weights @ (change / sizes)) / weights.sum()), atol=1e-11)
    change, of_weights, h = np.cos(np.arange(15.0)).reshape(5, 3), np.sin(np.arange(5.0)), 1e-5
    ends = [METRIC.mean(points + s * change, weights + s * of_weights) for s in (h, -h)]
    slope = jvp(points, weights, change, of_weights)
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2.0 * h), rtol=1e-6, atol=1e-8)
    equal = jvp(points, np.ones(5), change, of_weights)  # a control: other weights
    assert np.abs(equal - slope).max() > 1e-2 * np.abs(slope).max()


def test_the_mean(points, rng):
    """Two points: the middle of their geodesic; matrices that commute: geometric; the logarithms sum to 0."""
    p, q = points[:2]
    np.testing.assert_allclose(METRIC.mean([p, q]), METRIC.geodesic(p, q, 0.5), rtol=1e-11)
    np.testing.assert_allclose(METRIC.mean([p, q], [1.0, 3.0]), METRIC.geodesic(p, q, 0.75), rtol=1e-11)
    diagonals = np.array([[1.0, 1e4], [100.0, 1.0], [0.01, 1e-2]])
    of_diagonals = METRIC.mean(METRIC.coordinates(diagonals[:, :, None] * np.eye(2)))
    geometric = np.exp(np.log(diagonals).mean(axis=0))
    np.testing.assert_allclose(METRIC.matrices(of_diagonals), np.diag(geometric), rtol=1e-10, atol=1e-10)
    weights = rng.uniform(1.0, 2.0, 5)
    mean = METRIC.mean(points, weights)
    assert np.abs(weights @ METRIC.logarithm(mean, points)).max() < 1e-11 * np.abs(points).max()
    assert np.abs(weights @ METRIC.logarithm(weights @ points / weights.sum(), points)).max() > 1e-2


def test_derivatives_where_eigenvalues_coincide(points):
    """exp and log at the same point; exp against differences. JAX's own rule gives NaN there."""
    one, v, h = jnp.asarray(METRIC.coordinates(np.eye(2))), points[1], 1e-3
    slopes = jax.jit(jax.jacfwd(METRIC.exponential_at, 1))
    np.testing.assert_allclose(slopes(one, jnp.zeros(3)), np.eye(3), atol=1e-14)
    of_logarithm = jax.jit(jax.jacrev(METRIC.logarithm_at, 1))
    np.testing.assert_allclose(of_logarithm(one, one), np.eye(3), atol=1e-14)
    assert not np.isfinite(
        jax.jvp(lambda P: jnp.linalg.eigh(P)[1], (jnp.eye(2),), (jnp.ones((2, 2)),))[1]
    ).all()
    steps = h * np.array([-2.0, -1.0, 1.0, 2.0])[:, None, None] * np.eye(3)
    values = METRIC.exponential(points[0], v + steps)
    differences = np.einsum("s,sij->ji", [1.0, -8.0, 8.0, -1.0], values) / (12.0 * h)
    np.testing.assert_allclose(slopes(points[0], v), differences, atol=1e-8 * np.abs(differences).max())
    back = np.einsum("s,sij->ji", [1.0, -8.0, 8.0, -1.0], METRIC.logarithm(one, points[0] + steps)) / (
        12.0 * h
    )
    np.testing.assert_allclose(of_logarithm(one, points[0]), back, atol=1e-8 * np.abs(back).max())


@pytest.mark.parametrize("eigenvalues", [[2.0, 2.0, 2.0], [1.0, 1.0, 3.0], [1e-3, 1.0, 40.0]])
@pytest.mark.parametrize("name", ["exp", "log"])
def test_second_derivatives_where_eigenvalues_coincide(name, eigenvalues, rng):
    """The corner of f of a block matrix, by SciPy (Higham, theorem 3.6), forwards and in reverse."""
    logarithm = partial(whitened_logarithm, jnp.eye(3))
    f, by = {"exp": (symmetric_exponential, expm), "log": (logarithm, logm)}[name]
    X, nothing = jnp.diag(jnp.array(eigenvalues)), np.zeros((3, 3))
    A, B, C = (M + M.T for M in rng.standard_normal((3, 3, 3)))

    def corner(A, B):
        with warnings.catch_warnings():  # SciPy doubts its logarithms of equal eigenvalues
            warnings.simplefilter("ignore")
            return np.real(by(np.block([[X, A, nothing], [nothing, X, B], [nothing, nothing, X]]))[:3, 6:])

    expected = corner(A, B) + corner(B, A)
    along = lambda Y: jax.jvp(f, (Y,), (jnp.asarray(A),))[1]  # noqa: E731
    found = jax.jvp(along, (X,), (jnp.asarray(B),))[1]
    np.testing.assert_allclose(found, expected, atol=1e-11 * np.abs(expected).max())
    back = jax.grad(lambda Y: jnp.sum(jax.grad(lambda Z: jnp.sum(f(Z) * C))(Y) * A))(X)
    scale = np.abs(expected).max() * np.abs(C).max()
    assert np.sum(back * B) == pytest.approx(np.sum(expected * C), abs=1e-11 * scale)


def test_the_hessian_of_a_squared_distance_is_the_metric():
    """Twice, where the points agree, and where one is a multiple of the other: all eigenvalues are equal."""
    nabla, one = cn.LeviCivita(METRIC), jnp.asarray(METRIC.coordinates(np.eye(2)))

    def squared(q):
        v = cn.logarithm(nabla, one, q)
        return v @ METRIC.matrix_at(one) @ v

    np.testing.assert_allclose(jax.hessian(squared)(one), 2.0 * METRIC.matrix(one), atol=1e-12)
    assert np.isfinite(jax.hessian(squared)(3.0 * one)).all()


def test_errors(points):
    outside = METRIC.coordinates(np.diag([1.0, -2.0]))
    with pytest.raises(PointError, match="-2.00e"):
        METRIC.matrix(outside)
    with pytest.raises(PointError, match=r"q\[1\]: P is not positive definite"):
        METRIC.distance(points[:2], np.stack([points[0], outside]))
    with pytest.raises(PointError, match=r"points\[0, 2\]"):
        METRIC.mean([[points[0], points[1], outside]])
    with pytest.raises(ValueError, match="weights"):
        METRIC.mean(points, [1.0, 1.0, 0.0, 1.0, 1.0])
    for wrong in (BASIS[:2], BASIS[:0], np.zeros((0, 0, 0))):
        with pytest.raises(ShapeError, match="basis"):
            AffineInvariantMetric(wrong)
    with pytest.raises(ShapeError, match="points"):
        METRIC.mean(points[:0])
    with pytest.raises(MetricError, match="independent"):
        AffineInvariantMetric(BASIS[[0, 1, 1]])
    with pytest.raises(MetricError, match=r"basis\[1\] is not symmetric"):
        AffineInvariantMetric(BASIS + [[[0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]], [[0.0] * 2] * 2])
