"""Subjects of the propositions: mechanical systems with sample points.

A `Subject` is a mechanical system with sample points, the connection under test (which should be the metric's
Levi-Civita connection, unless it was made with a contorsion), and, if it consists of rigid bodies, their
inertias and Jacobians.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Value, solve
from connections.affine import AffineConnection, ChangedConnection, ContorsionConnection
from connections.checks import (
    ShapeError,
    as_array,
    as_scalar,
    require_finite,
    require_indices,
    require_text,
    require_type,
)
from connections.coriolis import MechanicalSystem
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import PytreePartial, cache_of
from connections.geometry import Metric
from connections.multibody import Model
from connections.verify.numerics import Array, Batch, Numerics, hamel_bias, koszul_by_differences, largest


def shared(make: Callable[..., Value], system: Any, *things: Any) -> Value:
    """make(system, *things), cached with the system for all of its subjects.

    Parameters
    ----------
    make : of a module or a class, so that it is the same at every call.
    system : the system under test, which holds the cache.
    things : texts, functions and objects, compared by identity; neither seeds nor samples.
    """
    kept: dict[Any, Value] = cache_of(system).setdefault(shared, {})
    key = make, *things
    if key not in kept:
        kept[key] = make(system, *things)
    return kept[key]


def compiled_of(system: Any, function: Callable[..., Any], *things: Any) -> Callable[..., Any]:
    """*arguments -> function(system, *things, *arguments), compiled."""
    return compiled(function, system, *things)


def batch_of(system: Any, function: Callable[..., jax.Array], *things: Any) -> Batch:
    """(points (k, ...), ...) -> values of function(system, *things, point, ...), compiled."""
    return Batch(PytreePartial(function, system, *things), shared(numerics_of, system).chunk)


def numerics_of(system: MechanicalSystem) -> Numerics:
    """Finite differences and flows along the frame of a system's metric."""
    return Numerics(system.metric.frame)


def generator(seed: int, salt: str, draw: int) -> np.random.Generator:
    """The random generator of one check, given a seed, the name of their purpose, and the draw."""
    return np.random.default_rng([seed, *salt.encode(), *([256 + draw] if draw else [])])


@dataclass(frozen=True, eq=False)
class Bodies:
    """The rigid bodies of a system.

    Parameters
    ----------
    inertias : (N, 6, 6) spatial inertias, body frames.
    jacobians : q (nq,) -> A (6 N, n), body twists [omega; v]; JAX-traceable.
    axes : q -> block diagonal motion of every joint in its own frame, per joint (slice of v, Phi (6, nv),
        D (6, nv, nv)) with D[:, j, k] = L_{X_j} Phi[:, k].
    curvature_operator : (q, v) -> K (n, n), a^T K b = <<R(a, v) v, b>>, by recursion; None if there is none.
    center_jacobian : q -> J (3, n), velocity of the centre of mass, if it moves freely; else None.
    robot : the robot, whose recursions move it; None if there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> from connections import verify
    >>> bodies = verify.as_subject(mb.example("arm"), "arm").bodies
    >>> bodies.inertias.shape, bodies.jacobians(np.zeros(6)).shape
    ((6, 6, 6), (36, 6))
    """

    inertias: Array
    jacobians: Callable[[jax.Array], jax.Array]
    axes: Callable[[Array], list[tuple[slice, Array, Array]]]
    curvature_operator: Callable[[Array, Array], Array] | None = None
    center_jacobian: Callable[[Array], Any] | None = None
    robot: Model | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """A system under test, with its sample points.

    Parameters
    ----------
    name : for the report.
    system : metric, potential, and the connection that should be Riemannian.
    q, v, a : (m, nq), (m, n), (m, n) samples.
    seed : of the random fields and contorsions of the checks.
    bodies : of a system of rigid bodies, else None.
    room : largest displacement from a sample in each component, if closed loops set limits.
    draw : index of the draw of random fields and contorsions; `redrawn` gives others.

    Examples
    --------
    >>> from connections import verify
    >>> subject = verify.system_subject("sphere", samples=3)
    >>> subject.name, subject.q.shape, subject.v.shape
    ('sphere', (3, 2), (3, 2))
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

    def __post_init__(self) -> None:
        require_type("system", self.system, MechanicalSystem)
        frame, count = self.system.frame, len(self.q)
        shapes = {"q": (count, frame.ambient_dim), "v": (count, frame.dim), "a": (count, frame.dim)}
        for name, shape in shapes.items():
            if np.shape(getattr(self, name)) != shape:
                expected = ("samples", shape[1]) if name == "q" else shape
                raise ShapeError(name, expected, np.shape(getattr(self, name)))

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
    def has_torsion(self) -> bool:
        """Whether the connection was made with a contorsion that gives it torsion at a sample.

        Its definition decides, not its coefficients: if a connection should have no torsion and its
        coefficients do, the propositions must fail.
        """
        base = self.nabla
        while isinstance(base, ChangedConnection):
            base = base.base
        if not isinstance(base, ContorsionConnection):
            return False
        D = [np.asarray(base.contorsion_at(jnp.asarray(q))) for q in self.q]
        return any(bool((part != np.swapaxes(part, 1, 2)).any()) for part in D)

    @property
    def n(self) -> int:
        """Dimension of the configuration manifold."""
        return self.metric.frame.dim

    @property
    def numerics(self) -> Numerics:
        """Finite differences and flows along the system's frame."""
        return shared(numerics_of, self.system)

    def rng(self, salt: str) -> np.random.Generator:
        """The generator of one check, the same in every run."""
        return generator(self.seed, salt, self.draw)

    def redrawn(self, draw: int) -> Subject:
        """The subject with other random fields and contorsions at its samples."""
        return replace(self, draw=draw, _memory={})

    def compiled(self, function: Callable[..., Any], *things: Any) -> Callable[..., Any]:
        """*arguments -> function(system, *things, *arguments), compiled once for the system.

        The function is of a module; values that change with the seed are among its arguments.
        """
        return shared(compiled_of, self.system, function, *things)

    def batch(self, function: Callable[..., jax.Array], *things: Any) -> Batch:
        """(points (k, ...), ...) -> values of function(system, *things, point, ...), compiled once."""
        return shared(batch_of, self.system, function, *things)

    @property
    def masses(self) -> Batch:
        """Mass matrices (k, n, n) at (k, nq) points."""
        return self.batch(MechanicalSystem.mass_matrix_at)

    def H(self, q: Array) -> Array:
        """Mass matrix at one point, (n, n)."""
        H: Array = self.masses(q[None])[0]
        return H

    def first_kind(self, q: Array) -> Array:
        """Gamma_ijk of the connection under test, (n, n, n)."""
        return self._remember("first_kind", q, lambda: np.asarray(self.nabla.first_kind(q, self.metric)))

    def second_kind(self, D: Array | None = None) -> Callable[[Array], Array]:
        """q -> Gamma^i_jk of the connection under test, minus the contorsion D (constant in the frame)."""
        compiled = self.compiled(_coefficients_at)
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
        """Gamma*_ijk of the metric by differences, without the library's connections."""
        return self._remember("koszul", q, lambda: koszul_by_differences(self.dH(q), self.s_low(q)))

    def hamel_bias(self, q: Array, v: Array) -> Array:
        """C v by Hamel's equations and differences, (n,), without connections and the library's brackets."""
        return hamel_bias(self.H(q), self.dH(q), self.s(q), v)

    def hamel_acceleration(self, q: Array, v: Array) -> Array:
        """H^-1 C v by `hamel_bias`, at a point of a motion, without caching."""
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
        """The largest term of Gamma_ijk before cancellation."""
        return largest(self.H(q), self.dH(q), self.s_low(q), self.first_kind(q))

    def _remember(self, what: str, q: Array, compute: Callable[[], Array]) -> Array:
        key = (what, np.asarray(q).tobytes())
        if key not in self._memory:
            self._memory[key] = compute()
        known: Array = self._memory[key]
        return known


def _coefficients_at(system: MechanicalSystem, q: jax.Array, D: jax.Array) -> jax.Array:
    """Gamma^i_jk of the connection under test, minus the contorsion D, (n, n, n)."""
    assert system.connection is not None
    raised = solve(system.metric.matrix_at(q), D.reshape(len(D), -1)).reshape(D.shape)
    return system.connection.coefficients_at(q) - raised


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
    """A subject with random velocities and accelerations at the points q (m, nq).

    Raises
    ------
    TypeError : no metric, or no random generator of NumPy. ShapeError : q is not (m, nq).

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import verify
    >>> metric = cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 3.0]))
    >>> q = [[0.0, 0.0, 0.0, 1.0], [0.6, 0.0, 0.0, 0.8]]
    >>> body = verify.subject("spinning body", metric, np.array(q), np.random.default_rng(0))
    >>> body.v.shape, body.a.shape
    ((2, 3), (2, 3))
    """
    require_type("metric", metric, Metric)
    require_type("rng", rng, np.random.Generator, "write numpy.random.default_rng(seed)")
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
    """A subject of a given system at the points q (m, nq); all its subjects share compiled functions."""
    require_text("name", name)
    require_indices("seed", [seed])
    if bodies is not None:
        require_type("bodies", bodies, Bodies)
    if not as_scalar("room", room) > 0.0:
        raise ValueError(f"room: expected a positive number, or infinity, got {room}")
    q = np.asarray(as_array("q", q, (system.metric.frame.ambient_dim,)))
    require_finite("q", q)
    if q.ndim != 2:
        raise ShapeError("q", ("samples", system.metric.frame.ambient_dim), q.shape)
    v, a = rng.normal(size=(2, len(q), system.metric.frame.dim))
    return Subject(name, system, q, v, a, seed, bodies, room)
