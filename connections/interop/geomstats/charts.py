"""Exact metrics of flat space, spheres and hyperbolic spaces, in geomstats' own coordinates.

Spheres and hyperboloids stay in R^(n+1): q is geomstats' point, and the frame is orthonormal, so H = 1 and
all of the geometry is in the brackets.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import MetricError, PointError
from connections.geometry import (
    ConstantMetric,
    CoordinateFrame,
    Metric,
    PullbackMetric,
    SphereFrame,
)
from connections.geometry.numerics.scales import POINT_TOLERANCE
from connections.interop.geomstats.loading import as_numpy
from connections.interop.geomstats.translation import Parametrization
from connections.spaces import hyperbolic

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
    frame = SphereFrame(_unit(pole, space.dim))

    def sample(rng: np.random.Generator) -> np.ndarray:
        x = rng.standard_normal(space.dim + 1) - 2.0 * np.asarray(frame.pole)
        unit: np.ndarray = x / np.linalg.norm(x)
        return unit

    return (
        ConstantMetric(frame, np.eye(space.dim)),
        same_coordinates(frame, sample),
        "the unit sphere's embedding",
    )


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
    """-x_0^2 + |x|^2 = -1 in R^(n+1), q = x, in the orthonormal frame that boosts carry from (1, 0)."""
    metric = hyperbolic(space.dim, "hyperboloid")

    def sample(rng: np.random.Generator) -> np.ndarray:
        return np.asarray(metric.frame.project_at(jnp.asarray(rng.standard_normal(space.dim + 1))))

    return metric, same_coordinates(metric.frame, sample), "the hyperboloid's embedding"


def half_space(space: Any) -> Exact:
    """delta_ij / y^2 with y the last coordinate."""

    def sample(rng: np.random.Generator) -> np.ndarray:
        return np.append(rng.uniform(-1.0, 1.0, space.dim - 1), rng.uniform(0.5, 2.0))

    metric = hyperbolic(space.dim, "half_space")
    return metric, same_coordinates(metric.frame, sample), "the Poincare half space"


def ball(space: Any) -> Exact:
    """4 delta_ij / (1 - |q|^2)^2."""

    def sample(rng: np.random.Generator) -> np.ndarray:
        q: np.ndarray = rng.uniform(-0.6, 0.6, space.dim) / np.sqrt(space.dim)
        return q

    metric = hyperbolic(space.dim, "ball")
    return metric, same_coordinates(metric.frame, sample), "the Poincare ball"


def _unit(pole: Any, n: int) -> tuple[float, ...]:
    away = -np.eye(n + 1)[-1] if pole is None else pole
    if away.shape != (n + 1,) or not abs(np.linalg.norm(away) - 1.0) <= POINT_TOLERANCE:
        raise PointError(
            f"pole: expected a point of the sphere, {n + 1} numbers of norm 1, got {away.tolist()}"
        )
    return tuple((away / np.linalg.norm(away)).tolist())
