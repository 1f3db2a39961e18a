"""What the propositions are checked on: built-in systems, and whatever system a reader brings.

A `Subject` is a mechanical system with sample points, the connection under test (which claims to be the
metric's Levi-Civita connection), and, where it consists of rigid bodies, their inertias and Jacobians.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

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
from connections.geometry.compilation import compiled
from connections.geometry.parameters import derived
from connections.verify.numerics import Array, Batch, Numerics, hamel_bias, koszul_by_differences, largest


def shared(system: Any, what: Any, make: Callable[[], Any]) -> Any:
    """What `make` gives, made once and kept with the system: it serves every subject of the system.

    Parameters
    ----------
    system : what is under test; kept on it.
    what : name of the thing, with the functions that it depends on besides the system.
    make : depends on the system only, not on seeds or samples.
    """
    kept = derived(system).setdefault("_verified", {})
    if what not in kept:
        kept[what] = make()
    return kept[what]


def generator(seed: int, salt: str, draw: int) -> np.random.Generator:
    """The random numbers of one check: of a seed, the name of what they are for, and the draw."""
    return np.random.default_rng([seed, *salt.encode(), *([256 + draw] if draw else [])])


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
    seed : of the random fields and contorsions of the checks.
    bodies : where the system consists of rigid bodies.
    room : how far each component of a displacement from a sample may go, where closed loops set limits.
    draw : which of many draws of the random fields and contorsions; `redrawn` gives others.
    """

    name: str
    system: MechanicalSystem
    q: Array
    v: Array
    a: Array
    seed: int
    bodies: Bodies | None = None
    room: float = np.inf
    draw: int = 0
    _memory: dict[Any, Any] = field(default_factory=dict)

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

    @property
    def numerics(self) -> Numerics:
        """Finite differences and flows along the system's frame."""
        return shared(self.system, "numerics", lambda: Numerics(self.metric.frame))

    def rng(self, salt: str) -> np.random.Generator:
        """The generator of one check, the same in every run."""
        return generator(self.seed, salt, self.draw)

    def redrawn(self, draw: int) -> Subject:
        """The same samples with other random fields and contorsions."""
        return replace(self, draw=draw, _memory={})

    def compiled(self, what: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function compiled, once for the system: what changes with the seed is among its arguments."""
        return shared(self.system, what, lambda: compiled(function))

    def batch(self, what: Any, function: Callable[..., jax.Array]) -> Batch:
        """A function of one point (and parameters) on batches of points, compiled once for the system."""
        return shared(self.system, what, lambda: Batch(function, self.numerics.chunk))

    @property
    def masses(self) -> Batch:
        """Mass matrices (k, n, n) at (k, nq) points."""
        return self.batch("masses", self.metric.matrix_at)

    def H(self, q: Array) -> Array:
        """Mass matrix at one point, (n, n)."""
        return self.masses(q[None])[0]

    def first_kind(self, q: Array) -> Array:
        """Gamma_ijk of the connection under test, (n, n, n)."""
        return self._remember("first_kind", q, lambda: np.asarray(self.nabla.first_kind(self.metric, q)))

    def second_kind(self, D: Array | None = None) -> Callable[[Array], Array]:
        """q -> Gamma^i_jk of the connection under test, less the contorsion D (constant in the frame)."""

        def coefficients(q: Any, D: Any) -> jax.Array:
            raised = jnp.linalg.solve(self.metric.matrix_at(q), D.reshape(self.n, -1)).reshape(D.shape)
            return self.nabla.coefficients_at(q) - raised

        compiled = self.compiled("second kind", coefficients)
        shift = np.zeros((self.n,) * 3) if D is None else D
        return lambda q: np.asarray(compiled(q, shift))

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
        """C v by Hamel's equations and differences, (n,): neither a connection nor the library's brackets."""
        return hamel_bias(self.H(q), self.dH(q), self.s(q), v)

    def hamel_acceleration(self, q: Array, v: Array) -> Array:
        """H^-1 C v as `hamel_bias`, at a point on the way: nothing is kept."""
        H, numerics = self.H(q), self.numerics
        bias = hamel_bias(H, numerics.derivative(self.masses, q), numerics.structure_functions(q), v)
        return np.linalg.solve(H, bias)

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
        return largest(self.H(q), self.dH(q), self.s_low(q), self.first_kind(q))

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
    system = MechanicalSystem(metric, potential, connection=connection)
    return subject_of(name, system, q, rng, seed, bodies, room)


def subject_of(
    name: str,
    system: MechanicalSystem,
    q: Array,
    rng: np.random.Generator,
    seed: int,
    bodies: Bodies | None = None,
    room: float = np.inf,
) -> Subject:
    """As `subject`; the same system may serve many subjects, and what it compiled serves them all."""
    v, a = rng.normal(size=(2, len(q), system.metric.frame.dim))
    return Subject(name, system, np.asarray(q, dtype=float), v, a, seed, bodies, room)


def built_in_subjects(samples: int = 2, seed: int = 0) -> list[Subject]:
    """The six systems on which ``connections verify`` runs.

    The paper's point mass, the sphere, rigid bodies on SO(3) and SE(3), a metric in a non-coordinate frame
    (n = 5), both drawn once at random, and a planar arm with three joints.

    Parameters
    ----------
    samples : points per system.
    seed : of points, velocities, fields and contorsions.
    """
    subjects = []
    for index, (name, (make, points)) in enumerate(BUILT_IN.items()):
        rng, (system, bodies) = np.random.default_rng([seed, index]), make()
        subjects.append(subject_of(name, system, points(rng, samples), rng, seed, bodies))
    return subjects


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
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


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
    """A random metric in a random frame, n = 5; others for other numbers."""
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


#: Name of a built-in system -> what makes it, and its random points (samples, nq).
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
