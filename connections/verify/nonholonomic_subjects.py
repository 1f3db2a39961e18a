"""Nonholonomic systems as subjects: the system under test, and its derivatives by differences.

A `StencilValues` holds metric, frame, basis, forms and potential at a point and on the stencil around it. The
quantities that the propositions compare with the library are computed from it in NumPy, by differences and by
the block system with multipliers, without any connection, projection or bracket of the library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import null_space

from connections.affine import ConstrainedConnection, GroupAction, SpannedDistribution
from connections.checks import (
    ShapeError,
    as_array,
    require_finite,
    require_indices,
    require_text,
    require_type,
)
from connections.coriolis import NonholonomicSystem
from connections.evaluation.parameters import PytreePartial
from connections.verify.numerics import (
    Array,
    Batch,
    Numerics,
    differences,
    koszul_by_differences,
    stencil,
)
from connections.verify.subjects import compiled_of, generator, shared


class StencilValues:
    """Values at a point and on the stencil around it, in the frame of the ambient metric.

    Parameters
    ----------
    n : dimension of the configuration manifold.
    values : name -> (1 + 8 n, ...), the point first: H (n, n), the frame's X (nq, n), the basis A (n, m), the
        forms W (p, n), the inputs (a, n), the potential V.
    """

    def __init__(self, n: int, values: dict[str, Array]) -> None:
        self.n, self._values = n, values

    def __getitem__(self, name: str) -> Array:
        """The value at the point."""
        value: Array = self._values[name][0]
        return value

    def values(self, name: str) -> Array:
        """All values, (1 + 8 n, ...)."""
        return self._values[name]

    @property
    def shifts(self) -> Array:
        """The shifts from the point to the places of the values, in the frame, (1 + 8 n, n)."""
        return np.vstack([np.zeros((1, self.n)), stencil(self.n)])

    def slope(self, name: str) -> Array:
        """L_{X_i} of the named quantity, (n, ...), along the ambient frame."""
        return differences(self._values[name][1:], self.n)

    def along(self, vectors: Array, name: str) -> Array:
        """The derivative of the named quantity along the columns of `vectors` (n, k), (k, ...)."""
        return np.tensordot(vectors.T, self.slope(name), axes=1)

    @cached_property
    def orthonormal(self) -> Array:
        """E (n, n) with E^T H E = 1, a frame in which all components have one unit."""
        return np.linalg.inv(np.linalg.cholesky(self["H"])).T

    def in_units(self, vectors: Array) -> Array:
        """Components E^-1 z of vectors (n, ...) in the orthonormal frame."""
        return np.linalg.solve(self.orthonormal, vectors)

    @cached_property
    def s(self) -> Array:
        """Structure functions of the ambient frame, s[k, i, j]."""
        dX = self.slope("X")  # [i, a, j]
        brackets = np.transpose(dX, (1, 0, 2)) - np.transpose(dX, (1, 2, 0))
        return np.tensordot(np.linalg.pinv(self["X"]), brackets, axes=1)

    @cached_property
    def symbols(self) -> Array:
        """Gamma^i_jk of the ambient Levi-Civita connection, (n, n, n)."""
        low = koszul_by_differences(self.slope("H"), np.tensordot(self["H"], self.s, axes=1))
        return np.linalg.solve(self["H"], low.reshape(self.n, -1)).reshape(low.shape)

    def derivative(self, x: Array, name: str) -> Array:
        """nabla_{x_i} Y_j, (n, k, l): x (n, k), and Y the named fields (n, l) with the ambient connection."""
        turned = np.einsum("abc,bi,cj->aij", self.symbols, x, self[name])
        nabla: Array = np.transpose(self.along(x, name), (1, 0, 2)) + turned
        return nabla

    @cached_property
    def brackets(self) -> Array:
        """[X_i, X_j] of the basis fields, (n, m, m)."""
        dA = np.transpose(self.along(self["A"], "A"), (1, 0, 2))
        turned = np.einsum("abc,bi,cj->aij", self.s, self["A"], self["A"])
        brackets: Array = dA - np.swapaxes(dA, 1, 2) + turned
        return brackets

    def block_solve(self, top: Array, bottom: Array) -> tuple[Array, Array]:
        """z (n, ...) and lambda (p, ...) of H z - W^T lambda = top, W z = bottom."""
        W = self["W"]
        matrix = np.block([[self["H"], -W.T], [W, np.zeros((len(W), len(W)))]])
        right = np.concatenate([top, bottom])
        solved = np.linalg.solve(matrix, right.reshape(len(matrix), -1)).reshape(right.shape)
        return solved[: self.n], solved[self.n :]

    def feasible(self, vectors: Array) -> Array:
        """P of vectors (n, ...): the nearest ones on which the forms vanish."""
        zero = np.zeros((len(self["W"]),) + vectors.shape[1:])
        return self.block_solve(np.tensordot(self["H"], vectors, axes=1), zero)[0]

    def components(self, vectors: Array) -> Array:
        """Components (m, ...) of the feasible vectors (n, ...) in the basis."""
        flat = np.linalg.lstsq(self["A"], vectors.reshape(self.n, -1), rcond=None)[0]
        return flat.reshape((-1,) + vectors.shape[1:])

    def acceleration(self, V: Array, F: Array) -> tuple[Array, Array]:
        """dV/dt (n,) and lambda (p,) from H (Vdot + Gamma(V, V)) + dV = F + W^T lambda, W Vdot + Wdot V = 0.

        Source: [Z] eq. (4).
        """
        rate = -np.tensordot(V, self.slope("W"), axes=1) @ V
        return self.block_solve(F - self.bias(V) - self.slope("V"), rate)

    def bias(self, V: Array) -> Array:
        """H Gamma(V, V), (n,)."""
        bias: Array = self["H"] @ np.einsum("ijk,j,k->i", self.symbols, V, V)
        return bias

    @cached_property
    def lemma_3_1(self) -> Array:
        """Gamma~^i_jk of [Z] (6): nabla_j X_k + nabla_j (P_perp X_k) - P_perp nabla_j X_k, (n, n, n)."""
        moved = self.derivative(np.eye(self.n), "P_perp")
        full: Array = self.symbols + moved - np.tensordot(self["P_perp"], self.symbols, axes=1)
        return full

    @cached_property
    def coefficients(self) -> Array:
        """Gamma~^k_ij of P nabla_{X_i} X_j, (m, m, m)."""
        return self.components(self.feasible(self.derivative(self["A"], "A")))

    @cached_property
    def leak(self) -> Array:
        """(1 - P) [X_i, X_j], (n, m, m)."""
        return self.brackets - self.feasible(self.brackets)


@dataclass(frozen=True, eq=False)
class NonholonomicSubject:
    """A nonholonomic system under test, with its sample points.

    Parameters
    ----------
    name : for the report.
    system : its constrained connection, potential, forces and inputs; of n velocities, m are free.
    q, v, a : (samples, nq), (samples, m), (samples, m).
    seed : of the random fields and tensors of the checks.
    action : optional, a group under which the system is invariant.
    drift : optional, the drift of the system on constraints that move, for the rows about it; without one
        they draw one. `system` has none.
    draw : index of the draw of random fields and tensors; `redrawn` gives others.

    Examples
    --------
    >>> from connections import verify
    >>> subject = verify.system_subject("snakeboard", samples=3)
    >>> type(subject).__name__, subject.q.shape, subject.v.shape
    ('NonholonomicSubject', (3, 5), (3, 3))
    """

    name: str
    system: NonholonomicSystem
    q: Array
    v: Array
    a: Array
    seed: int
    action: GroupAction | None = None
    drift: Callable[..., Any] | None = None
    draw: int = 0
    _memory: dict[Any, Any] = field(default_factory=dict)

    @property
    def nabla(self) -> ConstrainedConnection:
        """The connection under test."""
        return self.system.connection

    @property
    def n(self) -> int:
        """Dimension of the configuration manifold."""
        return self.nabla.ambient.frame.dim

    @property
    def m(self) -> int:
        """Rank of the distribution."""
        return self.nabla.frame.dim

    @property
    def pushed(self) -> NonholonomicSystem:
        """The system without its own forces and inputs, on which covectors (n,) act."""
        return shared(_pushed, self.system)

    @property
    def numerics(self) -> Numerics:
        """Differences and flows along the ambient frame."""
        return shared(_ambient_numerics, self.system)

    @property
    def on_distribution(self) -> Numerics:
        """Flows along the basis of the distribution."""
        return shared(_numerics_on_distribution, self.system)

    def rng(self, salt: str) -> np.random.Generator:
        """The generator of one check, the same in every run."""
        return generator(self.seed, salt, self.draw)

    def redrawn(self, draw: int) -> NonholonomicSubject:
        """The subject with other random fields and tensors at its samples."""
        return replace(self, draw=draw, _memory={})

    def compiled(self, function: Callable[..., Any], *things: Any) -> Callable[..., Any]:
        """*arguments -> function(system, *things, *arguments), compiled once for the system."""
        return shared(compiled_of, self.system, function, *things)

    def jet(self, q: Array) -> StencilValues:
        """The jet at a sample, cached."""
        key = np.asarray(q).tobytes()
        if key not in self._memory:
            self._memory[key] = self.fresh_jet(q)
        jet: StencilValues = self._memory[key]
        return jet

    def fresh_jet(self, q: Array) -> StencilValues:
        """The jet at a point (nq,)."""
        points = np.concatenate([np.asarray(q)[None], self.numerics.retract(q, stencil(self.n))])
        flat, values, start = self._values(points), {}, 0
        for name, shape in self._shapes.items():
            size = int(np.prod(shape, dtype=int))
            values[name] = flat[:, start : start + size].reshape((len(points), *shape))
            start += size
        H, A = values["H"], values["A"]
        if "W" not in values:  # compute forms that vanish on the basis, smooth near the point
            values["W"] = null_space(A[0].T).T @ (np.eye(self.n) - A @ np.linalg.pinv(A))
        W, Wt = values["W"], np.swapaxes(values["W"], 1, 2)
        raised = np.linalg.solve(H, Wt)
        values["P_perp"] = raised @ np.linalg.solve(W @ raised, W)
        values["Hbar"] = np.swapaxes(A, 1, 2) @ H @ A
        return StencilValues(self.n, values)

    def derivative_near(self, function: Any, q: Array) -> Array:
        """L_{X_i} of a function of the jet at a point, (n, ...), by differences, which may be nested."""
        points = self.numerics.retract(q, stencil(self.n))
        return differences(np.stack([function(self.fresh_jet(point)) for point in points]), self.n)

    @property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        nq, n, m = self.nabla.ambient.frame.ambient_dim, self.n, self.m
        shapes: dict[str, tuple[int, ...]] = {"H": (n, n), "X": (nq, n), "A": (n, m)}
        shapes |= {"inputs": (self.system.controls, n), "V": ()}
        return shapes | ({"W": (n - m, n)} if _forms_given(self.system) else {})

    @property
    def _values(self) -> Batch:
        return shared(_batch_of_values, self.system)


def _pushed(system: NonholonomicSystem) -> NonholonomicSystem:
    return NonholonomicSystem(system.connection, system.potential)


def _ambient_numerics(system: NonholonomicSystem) -> Numerics:
    return Numerics(system.connection.ambient.frame)


def _numerics_on_distribution(system: NonholonomicSystem) -> Numerics:
    return Numerics(system.connection.frame)


def _forms_given(system: NonholonomicSystem) -> bool:
    feasible = system.connection.distribution
    return not isinstance(feasible, SpannedDistribution) or feasible.forms is not None


def _batch_of_values(system: NonholonomicSystem) -> Batch:
    return Batch(PytreePartial(_values_at, system), 1 + len(stencil(system.connection.ambient.frame.dim)))


def _values_at(system: NonholonomicSystem, q: jax.Array) -> jax.Array:
    """The values of a `StencilValues` at one point, flattened."""
    nabla = system.connection
    parts = [nabla.ambient_metric.matrix_at(q), nabla.ambient.frame.matrix_at(q), nabla.basis_at(q)]
    parts += [system.inputs_at(q), system.potential_at(q)]
    parts += [nabla.forms_at(q)] if _forms_given(system) else []
    return jnp.concatenate([jnp.ravel(part) for part in parts])


def nonholonomic_subject(
    name: str,
    system: NonholonomicSystem | ConstrainedConnection,
    q: Array,
    rng: np.random.Generator,
    *,
    seed: int = 0,
    action: GroupAction | None = None,
) -> NonholonomicSubject:
    """A subject with random velocities at the points q (samples, nq).

    Parameters
    ----------
    name : for the report.
    system : the system, or its connection alone.
    q : (samples, nq), regular points; a neighbourhood of about 0.5 of each has to be regular too.
    rng : NumPy's random generator, of the velocities.
    seed : of the random fields and tensors of the checks.
    action : a group under which metric, basis and inputs are invariant, for the row of Lemma 3.3.

    Raises
    ------
    ShapeError : q is not (samples, nq).
    ValueError : the system has no constraints; `subject` is for those.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import systems, verify
    >>> sleigh = systems.chaplygin_sleigh().numeric()
    >>> rng = np.random.default_rng(0)
    >>> subject = verify.nonholonomic_subject("sleigh", sleigh, rng.normal(size=(2, 3)), rng)
    >>> subject.q.shape, subject.v.shape
    ((2, 3), (2, 2))
    """
    if isinstance(system, ConstrainedConnection):
        system = NonholonomicSystem(system)
    require_text("name", name)
    require_type("system", system, NonholonomicSystem)
    require_type("rng", rng, np.random.Generator, "write numpy.random.default_rng(seed)")
    require_indices("seed", [seed])
    if action is not None:
        require_type("action", action, GroupAction)
    n, m = system.connection.ambient.frame.dim, system.frame.dim
    if m == n:
        raise ValueError(
            f"{name}: there are no constraints (n = m = {n}); connections.verify.subject is for it"
        )
    points = np.asarray(as_array("q", q, (system.frame.ambient_dim,)))
    require_finite("q", points)
    if points.ndim != 2:
        raise ShapeError("q", ("samples", system.frame.ambient_dim), points.shape)
    v, a = rng.normal(size=(2, len(points), m))
    drift, resting = system.drift, system
    if drift is not None:
        resting = NonholonomicSystem(system.connection, system.potential, system.forces, system.inputs)
    return NonholonomicSubject(name, resting, points, v, a, seed, action, drift)
