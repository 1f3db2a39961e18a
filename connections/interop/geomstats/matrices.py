"""Exact metrics on symmetric positive definite matrices.

Coordinates are the coefficients in the basis of symmetric matrices that geomstats gives (the entries on and
above the diagonal), of P itself or, for the log-Euclidean metric, of log P, in which that metric is constant.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import solve
from connections.geometry import AffineInvariantMetric, ConstantMetric, CoordinateFrame, MatrixMetric
from connections.interop.geomstats.charts import Exact
from connections.interop.geomstats.loading import as_numpy
from connections.interop.geomstats.translation import Parametrization


def affine_invariant(space: Any) -> Exact:
    """H_ij = tr(P^-1 B_i P^-1 B_j), P = q^i B_i."""
    _, chart, basis = entries(space)
    return AffineInvariantMetric(basis), chart, "the affine-invariant metric"


def bures_wasserstein(space: Any) -> Exact:
    """H_ij = tr(B_i L_j) / 2 with P L_j + L_j P = B_j."""
    frame, chart, basis = entries(space)
    n = space.shape[0]

    def matrix(q: jax.Array) -> jax.Array:
        P = jnp.einsum("i,iab->ab", q, basis)
        sylvester = jnp.kron(P, jnp.eye(n)) + jnp.kron(jnp.eye(n), P)
        flat = basis.reshape(len(basis), -1)
        return _where_positive(P, jnp.matmul(0.5 * flat, solve(sylvester, flat.T)))

    return MatrixMetric(frame, matrix), chart, "the Bures-Wasserstein metric"


def frobenius(space: Any) -> Exact:
    """H_ij = tr(B_i B_j), constant."""
    frame, chart, basis = entries(space)
    return ConstantMetric(frame, np.einsum("iab,jab->ij", basis, basis)), chart, "the Frobenius product"


def log_euclidean(space: Any) -> Exact:
    """H_ij = tr(B_i B_j), constant, in the coefficients of log P."""
    frame, _, basis = entries(space)

    def logarithms(points: np.ndarray) -> np.ndarray:
        values, vectors = np.linalg.eigh(points)
        with np.errstate(invalid="ignore", divide="ignore"):
            logs = np.einsum("mab,mb,mcb->mac", vectors, np.log(values), vectors)
        return coefficients(basis, logs)

    chart = Parametrization(
        frame,
        tuple(space.shape),
        lambda q: jax.scipy.linalg.expm(jnp.einsum("i,iab->ab", q, basis)),
        logarithms,
        lambda rng: rng.uniform(-0.5, 0.5, frame.dim),
    )
    return ConstantMetric(frame, np.einsum("iab,jab->ij", basis, basis)), chart, "the log-Euclidean metric"


def entries(space: Any) -> tuple[CoordinateFrame, Parametrization, np.ndarray]:
    """Coordinates of positive definite matrices: coefficients in geomstats' basis of symmetric matrices."""
    basis = as_numpy(space.embedding_space.basis)

    def sample(rng: np.random.Generator) -> np.ndarray:
        root = np.eye(space.shape[0]) + 0.2 * rng.standard_normal(space.shape)
        q: np.ndarray = coefficients(basis, (root @ root.T)[None])[0]
        return q

    return CoordinateFrame(len(basis)), linear_chart(basis, sample), basis


def linear_chart(basis: np.ndarray, sample: Any) -> Parametrization:
    """Coordinates of an open set of a vector space: coefficients in `basis` (n, *shape)."""
    return Parametrization(
        CoordinateFrame(len(basis)),
        basis.shape[1:],
        lambda q: jnp.tensordot(q, jnp.asarray(basis), axes=1),
        lambda points: coefficients(basis, points),
        sample,
    )


def coefficients(basis: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Least-squares coefficients of points (m, *shape) in the basis (n, *shape), (m, n)."""
    flat = basis.reshape(len(basis), -1)
    found: np.ndarray = np.linalg.lstsq(flat.T, points.reshape(len(points), -1).T, rcond=None)[0]
    return found.T


def _where_positive(P: jax.Array, H: jax.Array) -> jax.Array:
    """H where P is positive definite, NaN elsewhere, because the formula may be definite there too."""
    return jnp.where(jnp.all(jnp.isfinite(jnp.linalg.cholesky(P))), H, jnp.nan)
