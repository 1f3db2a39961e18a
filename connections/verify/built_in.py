"""The six systems on which ``connections verify`` runs by default; `named` lists all names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import require_draws
from connections.coriolis import MechanicalSystem
from connections.geometry import (
    ConstantMetric,
    CoordinateFrame,
    MatrixFrame,
    MatrixMetric,
    PullbackMetric,
    SE3Frame,
    SO3Frame,
)
from connections.verify.numerics import Array
from connections.verify.subjects import Bodies, Subject, subject_of


def built_in_subjects(samples: int = 2, seed: int = 0) -> list[Subject]:
    """The six systems on which ``connections verify`` runs.

    The paper's point mass, the sphere, rigid bodies on SO(3) and SE(3), a metric in a non-coordinate frame
    (n = 5), both drawn once at random, and a planar arm with three joints.

    Parameters
    ----------
    samples : points per system.
    seed : of points, velocities, fields and contorsions.

    Examples
    --------
    >>> from connections import verify
    >>> [subject.name for subject in verify.built_in_subjects(samples=1)]
    ['point mass', 'sphere', 'spinning body', 'rigid body', 'random frame', 'planar arm']
    """
    require_draws(samples, seed)
    return [built_in_subject(name, samples, seed) for name in BUILT_IN]


def built_in_subject(name: str, samples: int = 2, seed: int = 0) -> Subject:
    """One of them.

    Parameters
    ----------
    name : a key of `BUILT_IN`.
    samples : points.
    seed : of points, velocities, fields and contorsions.
    """
    (make, points), index = BUILT_IN[name], list(BUILT_IN).index(name)
    rng, (system, bodies) = np.random.default_rng([seed, index]), make()
    return subject_of(name, system, points(rng, samples), rng, seed, bodies)


System = tuple[MechanicalSystem, Bodies | None]


@cache
def _point_mass() -> System:
    metric = ConstantMetric(CoordinateFrame(3), np.eye(3))
    return MechanicalSystem(metric, lambda q: 9.81 * q[2]), None


@cache
def _sphere() -> System:
    def embedding(q: jax.Array) -> jax.Array:
        theta, phi = q
        return jnp.stack([jnp.sin(theta) * jnp.cos(phi), jnp.sin(theta) * jnp.sin(phi), jnp.cos(theta)])

    metric = PullbackMetric(CoordinateFrame(2), embedding)
    return MechanicalSystem(metric, lambda p: 9.81 * jnp.cos(p[0])), None


def _unit(q: Array) -> Array:
    unit: Array = q / np.linalg.norm(q, axis=-1, keepdims=True)
    return unit


def _spatial_inertia(mass: float, center: Array, about_center: Array) -> Array:
    cx = np.cross(np.eye(3), center) * -1.0
    return np.block([[about_center + mass * cx @ cx.T, mass * cx], [mass * cx.T, mass * np.eye(3)]])


@cache
def _spinning_body() -> System:
    inertia = _spatial_inertia(2.0, np.array([0.1, -0.2, 0.3]), np.diag([0.5, 0.7, 1.0]))
    Phi = np.vstack([np.eye(3), np.zeros((3, 3))])
    axes = [(slice(0, 3), Phi, np.zeros((6, 3, 3)))]
    bodies = Bodies(inertia[None], lambda q: jnp.asarray(Phi), lambda q: axes)
    return MechanicalSystem(ConstantMetric(SO3Frame(), inertia[:3, :3])), bodies


@cache
def _rigid_body() -> System:
    inertia = _spatial_inertia(1.5, np.array([0.2, 0.1, -0.3]), np.diag([0.4, 0.6, 0.8]))
    axes = [(slice(0, 6), np.eye(6), np.zeros((6, 6, 6)))]
    bodies = Bodies(inertia[None], lambda q: jnp.eye(6), lambda q: axes)
    return MechanicalSystem(ConstantMetric(SE3Frame(), inertia), lambda p: 1.5 * 9.81 * p[2]), bodies


@cache
def _random_frame(number: int = 0) -> System:
    """A random metric in a random frame, n = 5, drawn with `rng`."""
    n, rng = 5, np.random.default_rng([number, *b"metric"])
    L, W, B, V = rng.normal(size=(4, n, n, n)) * np.array([0.12, 0.4, 0.1, 0.4])[:, None, None, None]

    def root(q: jax.Array) -> jax.Array:
        return jnp.eye(n) + jnp.einsum("ijk,k->ij", L, jnp.sin(W[0] @ q))

    def fields(q: jax.Array) -> jax.Array:
        return jnp.eye(n) + jnp.einsum("ijk,k->ij", B, jnp.cos(V[0] @ q))

    metric = MatrixMetric(MatrixFrame(fields, n, n), lambda q: root(q) @ root(q).T + 0.5 * jnp.eye(n))
    return MechanicalSystem(metric, lambda p: jnp.sum(jnp.sin(p))), None


@cache
def _planar_arm() -> System:
    lengths, masses = jnp.array([1.0, 0.8, 0.6]), jnp.array([2.0, 1.5, 1.0])

    def positions(q: jax.Array) -> jax.Array:
        angles = jnp.cumsum(q)
        return jnp.stack([jnp.cumsum(lengths * jnp.cos(angles)), jnp.cumsum(lengths * jnp.sin(angles))])

    metric = PullbackMetric(CoordinateFrame(3), lambda q: (jnp.sqrt(masses) * positions(q)).ravel())
    return MechanicalSystem(metric, lambda p: 9.81 * masses @ positions(p)[1]), None


#: Name of a built-in system -> the function that makes it, and its random points (samples, nq).
BUILT_IN: dict[str, tuple[Callable[[], System], Callable[[np.random.Generator, int], Array]]] = {
    "point mass": (_point_mass, lambda rng, k: rng.normal(size=(k, 3))),
    "sphere": (
        _sphere,
        lambda rng, k: np.column_stack([rng.uniform(0.8, 2.2, k), rng.uniform(-2.0, 2.0, k)]),
    ),
    "spinning body": (_spinning_body, lambda rng, k: _unit(rng.normal(size=(k, 4)))),
    "rigid body": (
        _rigid_body,
        lambda rng, k: np.concatenate([rng.normal(size=(k, 3)), _unit(rng.normal(size=(k, 4)))], axis=1),
    ),
    "random frame": (_random_frame, lambda rng, k: 0.5 * rng.normal(size=(k, 5))),
    "planar arm": (_planar_arm, lambda rng, k: rng.uniform(0.4, 1.4, size=(k, 3))),
}
