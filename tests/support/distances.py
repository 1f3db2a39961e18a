"""Spaces whose distances are known independently: what a logarithm must give, for tests and benchmarks.

A `Space` holds a connection, random pairs of points, and their distances by another route: closed forms, or
for the ellipsoid geodesics in R^3 by SciPy in all directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import oracles

import connections as cn


@dataclass(frozen=True)
class Space:
    """A connection, (generator, count) -> pairs (2, count, nq), and (q0, q1) -> distances (count,)."""

    nabla: Any
    pairs: Callable[[np.random.Generator, int], np.ndarray]
    distance: Callable[[np.ndarray, np.ndarray], np.ndarray]


# --- spheres in stereographic coordinates: all but one point -----------------------------------------------


def sphere_metric(n: int, radius: float = 1.0) -> Any:
    return cn.MatrixMetric(cn.CoordinateFrame(n), lambda q: 4.0 * radius**2 / (1.0 + q @ q) ** 2 * jnp.eye(n))


def on_sphere(q: np.ndarray) -> np.ndarray:
    """Points of the unit sphere in R^(n+1) of stereographic coordinates q (..., n)."""
    square = np.sum(q**2, axis=-1, keepdims=True)
    return np.concatenate([2.0 * q, square - 1.0], axis=-1) / (1.0 + square)


def sphere_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The angle between the points, accurate at 0 and at pi."""
    x, y = on_sphere(a), on_sphere(b)
    return 2.0 * np.arctan2(np.linalg.norm(x - y, axis=-1), np.linalg.norm(x + y, axis=-1))


def sphere_pairs(rng: np.random.Generator, count: int, n: int) -> np.ndarray:
    x = rng.standard_normal((2, count, n + 1))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    return x[..., :-1] / (1.0 - x[..., -1:])


def sphere(n: int) -> Space:
    return Space(
        cn.LeviCivita(sphere_metric(n)), lambda rng, count: sphere_pairs(rng, count, n), sphere_distance
    )


RADII = 1.0, 1.005


def two_spheres() -> Space:
    """S^2 x S^2: a conjugate point of one factor is one of the product, of multiplicity one."""
    metric = cn.ProductMetric(*(sphere_metric(2, radius) for radius in RADII))

    def pairs(rng: np.random.Generator, count: int) -> np.ndarray:
        return np.concatenate([sphere_pairs(rng, count, 2) for _ in RADII], axis=-1)

    def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        angles = (sphere_distance(a[..., i : i + 2], b[..., i : i + 2]) for i in (0, 2))
        return np.hypot(*(radius * angle for radius, angle in zip(RADII, angles, strict=True)))

    return Space(cn.LeviCivita(metric), pairs, distance)


# --- rotations ---------------------------------------------------------------------------------------------


def rotations() -> Space:
    """The bi-invariant metric: the angle of the rotation between."""

    def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        near = np.minimum(np.linalg.norm(a - b, axis=-1), np.linalg.norm(a + b, axis=-1))
        return 4.0 * np.arctan2(near, np.sqrt(4.0 - near**2))

    nabla = cn.LeviCivita(cn.ConstantMetric(cn.SO3Frame(), np.eye(3)))
    return Space(nabla, lambda rng, count: oracles.random_quaternion(rng, 2, count), distance)


# --- an ellipsoid ------------------------------------------------------------------------------------------

AXES = np.array([1.0, 1.3, 1.7])


def ellipsoid() -> Space:
    """Stereographic coordinates of the sphere, stretched: geodesics cross before they are conjugate."""

    def embedding(q: Any) -> Any:
        square = q @ q
        return AXES * jnp.concatenate([2.0 * q, square[None] - 1.0]) / (1.0 + square)

    def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        pairs = zip(AXES * on_sphere(a), AXES * on_sphere(b), strict=True)
        return np.array([oracles.ellipsoid_distance(AXES, x, y) for x, y in pairs])

    nabla = cn.LeviCivita(cn.PullbackMetric(cn.CoordinateFrame(2), embedding))
    return Space(nabla, lambda rng, count: sphere_pairs(rng, count, 2), distance)


SPACES = {
    "S^3": lambda: sphere(3),
    "S^5": lambda: sphere(5),
    "S^2 x S^2": two_spheres,
    "SO(3)": rotations,
    "ellipsoid": ellipsoid,
}
