"""Exact invariant metrics on matrix groups: constant in a frame of invariant fields.

SO(3) and SE(3) with left-invariant metrics use this library's quaternion frames. For other matrix groups, and
for right-invariant metrics, q is the entries of the matrix, X_i = g E_i or E_i g. The Gram matrix contains
geomstats' inner products at the identity, which do not use ``metric_mat_at_identity``.
"""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import MetricError
from connections.evaluation.compilation import compiled
from connections.geometry import ConstantMetric, FrameField, MatrixFrame, SE3Frame, SO3Frame
from connections.geometry.rigid.host_groups import random_quaternion
from connections.geometry.rigid.rotations import rotation_matrix
from connections.interop.geomstats.charts import Exact
from connections.interop.geomstats.loading import as_numpy
from connections.interop.geomstats.translation import Parametrization, gram


def invariant(space: Any, metric: Any) -> Exact:
    """A left- or right-invariant metric of a group of matrices."""
    if space.lie_algebra is None:
        raise MetricError(f"{type(space).__name__} gives no Lie algebra: its invariant fields are not known")
    chart = _chart(space, bool(getattr(metric, "left", True)))
    identity = chart.coordinates(as_numpy(space.identity)[None])[0]
    point, basis = compiled(_point_and_basis_at, chart)(identity)
    H = gram(metric.inner_product, np.asarray(point), np.asarray(basis))
    _warn_of_ignored_matrix(metric)
    side = "left" if getattr(metric, "left", True) else "right"
    return ConstantMetric(chart.frame, H), chart, f"the {side}-invariant metric of its Gram matrix"


def _point_and_basis_at(chart: Any, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    return chart.point_at(q), chart.basis_at(q)


def _chart(space: Any, left: bool) -> Parametrization:
    size = space.shape[0]
    kind = type(space).__name__
    if left and kind == "_SpecialOrthogonalMatrices" and size == 3:
        return Parametrization(SO3Frame(), (3, 3), rotation_matrix, _quaternions, random_quaternion)
    if left and kind == "_SpecialEuclideanMatrices" and size == 4:
        return Parametrization(SE3Frame(), (4, 4), _homogeneous, _poses, _random_pose)
    basis = as_numpy(space.lie_algebra.basis)
    rotation = {"_SpecialOrthogonalMatrices": size, "_SpecialEuclideanMatrices": size - 1}.get(kind, 0)
    return _entries(basis, size, left, rotation)


def _entries(basis: np.ndarray, size: int, left: bool, rotation: int) -> Parametrization:
    """The entries of the matrix as coordinates; its leading block of size `rotation` is orthogonal."""
    product = "ab,ibc->aci" if left else "iab,bc->aci"

    def fields(q: jax.Array) -> jax.Array:
        g = q.reshape(size, size)
        pair = (g, basis) if left else (basis, g)
        return jnp.einsum(product, *pair).reshape(size * size, -1)

    def project(q: jax.Array) -> jax.Array:
        g = q.reshape(size, size)
        R = g[:rotation, :rotation]
        for _ in range(6):  # Newton-Schulz: converges quadratically, smooth where singular values coincide
            R = 1.5 * R - 0.5 * R @ R.T @ R
        return g.at[:rotation, :rotation].set(R).reshape(-1)

    def sample(rng: np.random.Generator) -> np.ndarray:
        from scipy.linalg import expm

        g: np.ndarray = expm(np.einsum("i,iab->ab", 0.7 * rng.standard_normal(len(basis)), basis))
        return g.reshape(-1)

    frame: FrameField = MatrixFrame(fields, len(basis), size * size, project=project if rotation else None)
    return Parametrization(
        frame,
        (size, size),
        lambda q: q.reshape(size, size),
        lambda points: points.reshape(len(points), -1),
        sample,
    )


def _quaternions(points: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    proper = np.isfinite(points).all(axis=(1, 2)) & (np.linalg.det(points) > 0.0)
    turns = Rotation.from_matrix(np.where(proper[:, None, None], points, np.eye(3)))
    quaternions: np.ndarray = turns.as_quat()
    return quaternions


def _poses(points: np.ndarray) -> np.ndarray:
    return np.concatenate([points[:, :3, 3], _quaternions(points[:, :3, :3])], axis=1)


def _homogeneous(q: jax.Array) -> jax.Array:
    return jnp.eye(4).at[:3, :3].set(rotation_matrix(q[3:])).at[:3, 3].set(q[:3])


def _random_pose(rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([rng.standard_normal(3), random_quaternion(rng)])


def _warn_of_ignored_matrix(metric: Any) -> None:
    matrix = getattr(metric, "metric_mat_at_identity", None)
    if matrix is None:
        return
    matrix = as_numpy(matrix)
    if np.any(matrix != np.diag(np.diagonal(matrix))):
        warnings.warn(
            "geomstats' inner product ignores a metric_mat_at_identity that is not diagonal; what is "
            "translated is that inner product. For the full matrix H write ConstantMetric(SO3Frame(), H)",
            stacklevel=5,
        )
