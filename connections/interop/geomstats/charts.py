"""Exact metrics of flat space, spheres and hyperbolic spaces, in geomstats' own coordinates.

Spheres and hyperboloids stay in R^(n+1): q is geomstats' point, and the frame is orthonormal, so H = 1 and
all of the geometry is in the brackets. Sources: the reflection that takes one unit vector to another; the
Lorentz boost that takes the base point of the hyperboloid to a point.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import MetricError, PointError
from connections.geometry.frames import CoordinateFrame, MatrixFrame
from connections.geometry.metrics import ConstantMetric, MatrixMetric, Metric, PullbackMetric
from connections.interop.geomstats.loading import as_numpy
from connections.interop.geomstats.translation import Parametrization

Exact = tuple[Metric, Parametrization, str]


def same_coordinates(frame: Any, sample: Any) -> Parametrization:
    """q is geomstats' point."""
    return Parametrization(frame, (frame.ambient_dim,), lambda q: q, lambda points: points, sample)


def euclidean(space: Any, metric: Any) -> Exact:
    """R^n with a constant matrix."""
    H = as_numpy(metric.metric_matrix(None))
    if not np.linalg.eigvalsh(H)[0] > 0.0:
        raise MetricError(
            f"{type(space).__name__}: the signature is {tuple(metric.signature)}; only positive definite "
            "metrics can be translated"
        )
    frame = CoordinateFrame(space.dim)
    chart = same_coordinates(frame, lambda rng: rng.uniform(-1.0, 1.0, space.dim))
    return ConstantMetric(frame, H), chart, "a constant matrix"


def sphere(space: Any, pole: Any) -> Exact:
    """The unit sphere in R^(n+1), q = x, in an orthonormal frame that is regular away from `pole`."""
    n = space.dim
    away = _unit(pole, n)
    first = -away
    rest = np.linalg.svd(first[None, :])[2][1:].T  # columns complete `first` to an orthonormal basis

    def matrix(x: jax.Array) -> jax.Array:
        return rest - jnp.outer(x + first, x @ rest) / (1.0 + x @ first)

    def sample(rng: np.random.Generator) -> np.ndarray:
        x = rng.standard_normal(n + 1) + 2.0 * first
        return x / np.linalg.norm(x)

    frame = MatrixFrame(matrix, n, n + 1, project=lambda x: x / jnp.linalg.norm(x))
    return ConstantMetric(frame, np.eye(n)), same_coordinates(frame, sample), "the unit sphere's embedding"


def sphere_angles(space: Any) -> Exact:
    """The circle by its angle, or the 2-sphere by (theta, phi), theta from the north pole."""
    frame = CoordinateFrame(space.dim)

    def embedding(q: jax.Array) -> jax.Array:
        if space.dim == 1:
            return jnp.stack([jnp.cos(q[0]), jnp.sin(q[0])])
        around = jnp.stack([jnp.cos(q[1]), jnp.sin(q[1])])
        return jnp.concatenate([jnp.sin(q[0]) * around, jnp.cos(q[:1])])

    chart = same_coordinates(frame, lambda rng: rng.uniform(0.5, 2.5, space.dim))
    return PullbackMetric(frame, embedding), chart, "the unit sphere's embedding"


def hyperboloid(space: Any) -> Exact:
    """-x_0^2 + |x|^2 = -1 in R^(n+1), q = x, in the orthonormal frame that a boost carries everywhere."""
    n = space.dim

    def matrix(x: jax.Array) -> jax.Array:
        return jnp.concatenate([x[None, 1:], jnp.eye(n) + jnp.outer(x[1:], x[1:]) / (1.0 + x[0])])

    def project(x: jax.Array) -> jax.Array:
        return jnp.concatenate([jnp.sqrt(1.0 + x[1:] @ x[1:])[None], x[1:]])

    def sample(rng: np.random.Generator) -> np.ndarray:
        return np.asarray(project(jnp.asarray(rng.standard_normal(n + 1))))

    frame = MatrixFrame(matrix, n, n + 1, project=project)
    return ConstantMetric(frame, np.eye(n)), same_coordinates(frame, sample), "the hyperboloid's embedding"


def half_space(space: Any) -> Exact:
    """delta_ij / y^2 with y the last coordinate."""
    frame = CoordinateFrame(space.dim)
    identity = jnp.eye(space.dim)

    def sample(rng: np.random.Generator) -> np.ndarray:
        return np.append(rng.uniform(-1.0, 1.0, space.dim - 1), rng.uniform(0.5, 2.0))

    metric = MatrixMetric(frame, lambda q: identity / jnp.where(q[-1] > 0.0, q[-1], jnp.nan) ** 2)
    return metric, same_coordinates(frame, sample), "the Poincare half space"


def ball(space: Any) -> Exact:
    """4 delta_ij / (1 - |q|^2)^2."""
    frame = CoordinateFrame(space.dim)
    identity = jnp.eye(space.dim)

    def matrix(q: jax.Array) -> jax.Array:
        rest = 1.0 - q @ q
        return 4.0 * identity / jnp.where(rest > 0.0, rest, jnp.nan) ** 2

    def sample(rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-0.6, 0.6, space.dim) / np.sqrt(space.dim)

    return MatrixMetric(frame, matrix), same_coordinates(frame, sample), "the Poincare ball"


def _unit(pole: Any, n: int) -> np.ndarray:
    if pole is None:
        return -np.eye(n + 1)[-1]
    away = as_numpy(pole)
    if away.shape != (n + 1,) or not abs(np.linalg.norm(away) - 1.0) <= 1e-6:
        raise PointError(
            f"pole: expected a point of the sphere, {n + 1} numbers of norm 1, got {away.tolist()}"
        )
    return away / np.linalg.norm(away)
