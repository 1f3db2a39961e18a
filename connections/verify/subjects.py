"""What the propositions are checked on: built-in systems, and whatever system a reader brings.

A `Subject` is a mechanical system with sample points, the connection under test (which claims to be the
metric's Levi-Civita connection), and, where it consists of rigid bodies, their inertias and Jacobians.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine import AffineConnection
from connections.coriolis import MechanicalSystem
from connections.geometry import (
    ConstantMetric,
    CoordinateFrame,
    MatrixFrame,
    MatrixMetric,
    Metric,
    PullbackMetric,
    SE3Frame,
    SO3Frame,
)
from connections.verify.numerics import Array, Batch, Numerics, koszul_by_differences


@dataclass(frozen=True, eq=False)
class Bodies:
    """The rigid bodies that a system consists of.

    Parameters
    ----------
    inertias : (N, 6, 6) spatial inertias, body frames.
    jacobians : q (nq,) -> A (6 N, n), body twists [omega; v]; JAX-traceable.
    axes : q -> block diagonal motion of every joint in its own frame, per joint (slice of v, Phi (6, nv),
        D (6, nv, nv)) with D[:, j, k] = L_{X_j} Phi[:, k].
    """

    inertias: Array
    jacobians: Callable[[jax.Array], jax.Array]
    axes: Callable[[Array], list[tuple[slice, Array, Array]]]


@dataclass(frozen=True, eq=False)
class Subject:
    """A system under test, with its sample points.

    Parameters
    ----------
    name : for the report.
    system : metric, potential, and the connection that claims to be Riemannian.
    q, v, a : (m, nq), (m, n), (m, n) samples.
    rng : source of the random fields and contorsions of the checks.
    bodies : where the system consists of rigid bodies.
    room : how far each component of a displacement from a sample may go, where closed loops set limits.
    """

    name: str
    system: MechanicalSystem
    q: Array
    v: Array
    a: Array
    seed: int
    bodies: Bodies | None = None
    room: float = np.inf
    _memory: dict = field(default_factory=dict)

    @property
    def metric(self) -> Metric:
        """The kinetic-energy metric."""
        return self.system.metric

    @property
    def nabla(self) -> AffineConnection:
        """The connection under test."""
        assert self.system.connection is not None
        return self.system.connection

    @property
    def n(self) -> int:
        """Dimension of the configuration manifold."""
        return self.metric.frame.dim

    @cached_property
    def numerics(self) -> Numerics:
        """Finite differences and flows along the system's frame."""
        return Numerics(self.metric.frame)

    def rng(self, salt: str) -> np.random.Generator:
        """The generator of one check, the same in every run."""
        return np.random.default_rng([self.seed, *salt.encode()])

    def batch(self, function: Callable[[jax.Array], jax.Array]) -> Batch:
        """A function of one point on batches of points."""
        return Batch(function, self.numerics.chunk)

    @cached_property
    def masses(self) -> Batch:
        """Mass matrices (k, n, n) at (k, nq) points."""
        return self.batch(self.metric.matrix_at)

    def H(self, q: Array) -> Array:
        """Mass matrix at one point, (n, n)."""
        return self.masses(q[None])[0]

    def first_kind(self, q: Array) -> Array:
        """Gamma_ijk of the connection under test, (n, n, n)."""
        return self._remember("first_kind", q, lambda: np.asarray(self.nabla.first_kind(self.metric, q)))

    def second_kind(self, D: Array | None = None) -> Callable[[Array], Array]:
        """q -> Gamma^i_jk of the connection under test, less the contorsion D (constant in the frame)."""
        shift = 0.0 if D is None else D

        def Gamma(q: Array) -> Array:
            low = np.asarray(self.nabla.first_kind(self.metric, q)) - shift
            return np.linalg.solve(self.H(q), low.reshape(self.n, -1)).reshape(low.shape)

        return Gamma

    def dH(self, q: Array) -> Array:
        """L_{X_k} H_ij by differences, dH[k, i, j]."""
        return self._remember("dH", q, lambda: self.numerics.derivative(self.masses, q))

    def s(self, q: Array) -> Array:
        """Structure functions by differences, s[k, i, j]."""
        return self._remember("s", q, lambda: self.numerics.structure_functions(q))

    def s_low(self, q: Array) -> Array:
        """H_kl s^l_ij by differences."""
        return np.tensordot(self.H(q), self.s(q), axes=1)

    def koszul(self, q: Array) -> Array:
        """Gamma*_ijk of the metric by differences: no function of the library's connections enters."""
        return self._remember("koszul", q, lambda: koszul_by_differences(self.dH(q), self.s_low(q)))

    def hamel_bias(self, q: Array, v: Array) -> Array:
        """C v by Hamel's equations (no connection): tau(q, v, 0) - tau(q, 0, 0), (n,)."""
        zero = np.zeros(self.n)
        return np.asarray(self.system.hamel(q, v, zero)) - np.asarray(self.system.hamel(q, zero, zero))

    def hamel_symbols(self, q: Array) -> Array:
        """Gamma_i(jk), the symmetric part, by polarizing Hamel's quadratic bias, (n, n, n)."""

        def polarize() -> Array:
            e, symbols = np.eye(self.n), np.empty((self.n,) * 3)
            single = [self.hamel_bias(q, column) for column in e]
            for j, k in combinations_with_replacement(range(self.n), 2):
                mixed = self.hamel_bias(q, e[j] + e[k]) - single[j] - single[k]
                symbols[:, j, k] = symbols[:, k, j] = 0.5 * mixed
            return symbols

        return self._remember("hamel", q, polarize)

    def scale(self, q: Array) -> float:
        """Largest term that enters Gamma_ijk before cancellation."""
        terms = (self.H(q), self.dH(q), self.s_low(q), self.first_kind(q))
        return float(max(np.max(np.abs(term)) for term in terms))

    def _remember(self, what: str, q: Array, compute: Callable[[], Array]) -> Array:
        key = (what, np.asarray(q).tobytes())
        if key not in self._memory:
            self._memory[key] = compute()
        return self._memory[key]


def subject(
    name: str,
    metric: Metric,
    q: Array,
    rng: np.random.Generator,
    *,
    seed: int = 0,
    potential: Callable[[jax.Array], jax.Array] | None = None,
    connection: AffineConnection | None = None,
    bodies: Bodies | None = None,
    room: float = np.inf,
) -> Subject:
    """A subject with random velocities and accelerations at the points q (m, nq)."""
    v, a = rng.normal(size=(2, len(q), metric.frame.dim))
    system = MechanicalSystem(metric, potential, connection=connection)
    return Subject(name, system, np.asarray(q, dtype=float), v, a, seed, bodies, room)


def built_in_subjects(samples: int = 2, seed: int = 0) -> list[Subject]:
    """The six systems on which ``connections verify`` runs.

    The paper's point mass, the sphere, rigid bodies on SO(3) and SE(3), a random metric in a random
    non-coordinate frame (n = 5), and a planar arm with three joints.

    Parameters
    ----------
    samples : points per system.
    seed : of all random numbers.
    """
    makers = (_point_mass, _sphere, _spinning_body, _rigid_body, _random_frame, _planar_arm)
    return [make(np.random.default_rng([seed, index]), samples, seed) for index, make in enumerate(makers)]


def _point_mass(rng: np.random.Generator, samples: int, seed: int) -> Subject:
    metric = ConstantMetric(CoordinateFrame(3), np.eye(3))
    return subject(
        "point mass", metric, rng.normal(size=(samples, 3)), rng, seed=seed, potential=lambda q: 9.81 * q[2]
    )


def _sphere(rng: np.random.Generator, samples: int, seed: int) -> Subject:
    def embedding(q: jax.Array) -> jax.Array:
        theta, phi = q
        return jnp.stack([jnp.sin(theta) * jnp.cos(phi), jnp.sin(theta) * jnp.sin(phi), jnp.cos(theta)])

    q = np.column_stack([rng.uniform(0.8, 2.2, samples), rng.uniform(-2.0, 2.0, samples)])
    metric = PullbackMetric(CoordinateFrame(2), embedding)
    return subject("sphere", metric, q, rng, seed=seed, potential=lambda p: 9.81 * jnp.cos(p[0]))


def _unit(q: Array) -> Array:
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def _spatial_inertia(mass: float, center: Array, about_center: Array) -> Array:
    cx = np.cross(np.eye(3), center) * -1.0
    return np.block([[about_center + mass * cx @ cx.T, mass * cx], [mass * cx.T, mass * np.eye(3)]])


def _spinning_body(rng: np.random.Generator, samples: int, seed: int) -> Subject:
    inertia = _spatial_inertia(2.0, np.array([0.1, -0.2, 0.3]), np.diag([0.5, 0.7, 1.0]))
    Phi = np.vstack([np.eye(3), np.zeros((3, 3))])
    axes = [(slice(0, 3), Phi, np.zeros((6, 3, 3)))]
    bodies = Bodies(inertia[None], lambda q: jnp.asarray(Phi), lambda q: axes)
    metric = ConstantMetric(SO3Frame(), inertia[:3, :3])
    return subject(
        "spinning body", metric, _unit(rng.normal(size=(samples, 4))), rng, seed=seed, bodies=bodies
    )


def _rigid_body(rng: np.random.Generator, samples: int, seed: int) -> Subject:
    inertia = _spatial_inertia(1.5, np.array([0.2, 0.1, -0.3]), np.diag([0.4, 0.6, 0.8]))
    q = np.concatenate([rng.normal(size=(samples, 3)), _unit(rng.normal(size=(samples, 4)))], axis=1)
    axes = [(slice(0, 6), np.eye(6), np.zeros((6, 6, 6)))]
    bodies = Bodies(inertia[None], lambda q: jnp.eye(6), lambda q: axes)
    metric = ConstantMetric(SE3Frame(), inertia)
    return subject(
        "rigid body", metric, q, rng, seed=seed, potential=lambda p: 1.5 * 9.81 * p[2], bodies=bodies
    )


def _random_frame(rng: np.random.Generator, samples: int, seed: int) -> Subject:
    n = 5
    L, W, B, V = rng.normal(size=(4, n, n, n)) * np.array([0.12, 0.4, 0.1, 0.4])[:, None, None, None]

    def root(q: jax.Array) -> jax.Array:
        return jnp.eye(n) + jnp.einsum("ijk,k->ij", L, jnp.sin(W[0] @ q))

    def fields(q: jax.Array) -> jax.Array:
        return jnp.eye(n) + jnp.einsum("ijk,k->ij", B, jnp.cos(V[0] @ q))

    metric = MatrixMetric(MatrixFrame(fields, n, n), lambda q: root(q) @ root(q).T + 0.5 * jnp.eye(n))
    q = 0.5 * rng.normal(size=(samples, n))
    return subject("random frame", metric, q, rng, seed=seed, potential=lambda p: jnp.sum(jnp.sin(p)))


def _planar_arm(rng: np.random.Generator, samples: int, seed: int) -> Subject:
    lengths, masses = jnp.array([1.0, 0.8, 0.6]), jnp.array([2.0, 1.5, 1.0])

    def positions(q: jax.Array) -> jax.Array:
        angles = jnp.cumsum(q)
        return jnp.stack([jnp.cumsum(lengths * jnp.cos(angles)), jnp.cumsum(lengths * jnp.sin(angles))])

    metric = PullbackMetric(CoordinateFrame(3), lambda q: (jnp.sqrt(masses) * positions(q)).ravel())
    q = rng.uniform(0.4, 1.4, size=(samples, 3))
    return subject(
        "planar arm", metric, q, rng, seed=seed, potential=lambda p: 9.81 * masses @ positions(p)[1]
    )
