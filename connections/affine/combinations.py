"""Connections made from coefficients, from contorsion, from other connections, and in other frames.

Gamma_ijk = Gamma*_ijk - D_ijk; the family of admissible Coriolis matrices, [W] (12), is
D_ijk = -beta_ijk eps_ijk. Sources: [W] III-C, Thm III.2, eq. (12).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.connection import AffineConnection, ConnectionOfMetric
from connections.affine.koszul import christoffel_first_kind, christoffel_terms
from connections.affine.levi_civita import raise_first_index, raised_terms
from connections.checks import (
    ShapeError,
    SymmetryError,
    as_array,
    raise_at,
    require_finite,
)
from connections.geometry.frames import ChangedFrame, FrameField, PointFunction
from connections.geometry.metrics import Metric
from connections.geometry.products import ProductFrame, ProductMetric

SYMMETRY_TOLERANCE = 1e-10
CONTORSION_SYMMETRIES = {
    "metric_compatible": ("antisymmetric in indices (1, 3)", ((2, 1, 0),)),
    "same_geodesics": ("antisymmetric in indices (2, 3)", ((0, 2, 1),)),
    "admissible": ("totally antisymmetric", ((2, 1, 0), (0, 2, 1))),
}


@dataclass(frozen=True, eq=False)
class CoefficientConnection(AffineConnection):
    """A connection given by its coefficients.

    Parameters
    ----------
    frame : the frame.
    coefficients : q (nq,) -> Gamma[i, j, k] (n, n, n), second kind; JAX-traceable.
    """

    frame: FrameField
    coefficient_function: PointFunction

    def __init__(self, frame: FrameField, coefficients: PointFunction) -> None:
        object.__setattr__(self, "frame", frame)
        object.__setattr__(self, "coefficient_function", coefficients)

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """The user's Gamma, (n, n, n)."""
        return _shaped("coefficients", self.coefficient_function(q), self.frame.dim)


@dataclass(frozen=True, eq=False)
class ContorsionConnection(ConnectionOfMetric):
    """The Levi-Civita connection of a metric minus a contorsion: Gamma_ijk = Gamma*_ijk - D_ijk.

    Parameters
    ----------
    metric : the metric.
    contorsion : q (nq,) -> D[i, j, k] (n, n, n), all indices low; JAX-traceable.
    symmetry : what D must be, checked at every point: "metric_compatible" (D_ijk = -D_kji),
        "same_geodesics" (D_ijk = -D_ikj), "admissible" (totally antisymmetric), or None for any D.

    Source: [W] III-C1, Props III.1 and III.2.
    """

    metric: Metric
    contorsion_function: PointFunction
    symmetry: str | None = None

    def __init__(self, metric: Metric, contorsion: PointFunction, symmetry: str | None = None) -> None:
        if symmetry is not None and symmetry not in CONTORSION_SYMMETRIES:
            raise SymmetryError(
                f"symmetry: expected one of {sorted(CONTORSION_SYMMETRIES)}, got {symmetry!r}"
            )
        object.__setattr__(self, "metric", metric)
        object.__setattr__(self, "contorsion_function", contorsion)
        object.__setattr__(self, "symmetry", symmetry)
        object.__setattr__(self, "frame", metric.frame)

    def contorsion_at(self, q: jax.Array) -> jax.Array:
        """D(q), (n, n, n)."""
        return _shaped("contorsion", self.contorsion_function(q), self.frame.dim)

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """H^-1 (Gamma*_low - D), (n, n, n)."""
        low = christoffel_first_kind(self.metric, q) - self.contorsion_at(q)
        return raise_first_index(self.metric.matrix_at(q), low)

    def scale_at(self, q: jax.Array) -> jax.Array:
        """|H^-1| times the terms of Gamma*_low and |D|, (n, n, n)."""
        low = christoffel_terms(self.metric, q) + jnp.abs(self.contorsion_at(q))
        return raised_terms(self.metric.matrix_at(q), low)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The metric is valid and D has the symmetry asked for."""
        return self.metric.valid_at(q) & (self._symmetry_gap_at(q) <= SYMMETRY_TOLERANCE)

    def explain(self, q: Any) -> None:
        """The metric's error, or `SymmetryError`."""
        self.metric.explain(q)
        if self.symmetry is not None and not self._symmetry_gap_at(jnp.asarray(q)) <= SYMMETRY_TOLERANCE:
            wanted = CONTORSION_SYMMETRIES[self.symmetry][0]
            raise_at(SymmetryError, f"the contorsion is not {wanted}, which {self.symmetry!r} needs", q)

    def _symmetry_gap_at(self, q: jax.Array) -> jax.Array:
        if self.symmetry is None:
            return jnp.asarray(0.0)
        D = self.contorsion_at(q)
        gaps = [
            jnp.max(jnp.abs(D + jnp.transpose(D, axes))) for axes in CONTORSION_SYMMETRIES[self.symmetry][1]
        ]
        return jnp.max(jnp.stack(gaps)) / jnp.maximum(jnp.max(jnp.abs(D)), 1e-300)


@dataclass(frozen=True, eq=False)
class ContorsionFamily:
    """All connections that are metric compatible and have the metric's geodesics: D_ijk = -beta_ijk eps_ijk.

    The Coriolis matrix of a member is C* + sum_{i<j<k} beta_ijk S^T (S v x) S, S = rows i, j, k of the
    identity. There are C(n, 3) free functions, none for n <= 2.

    Parameters
    ----------
    metric : the metric.

    Source: [W] eq. (12), Cors III.1 and III.2.
    """

    metric: Metric

    @property
    def dimension(self) -> int:
        """C(n, 3), the number of free functions."""
        return math.comb(self.metric.frame.dim, 3)

    @property
    def triples(self) -> list[tuple[int, int, int]]:
        """The index triples i < j < k, in the (lexicographic) order of beta."""
        return list(combinations(range(self.metric.frame.dim), 3))

    def connection(self, beta: Any) -> ContorsionConnection:
        """The member with the given beta.

        Parameters
        ----------
        beta : (C(n, 3),) values, or q -> values (JAX-traceable); i < j < k lexicographic.

        Raises
        ------
        ShapeError, NonFiniteError.
        """
        if callable(beta):
            function: Callable[[jax.Array], Any] = beta
        else:
            values = as_array("beta", beta, (self.dimension,))
            if values.ndim != 1:
                raise ShapeError("beta", (self.dimension,), values.shape)
            if not isinstance(values, jax.core.Tracer):
                require_finite("beta", values)

            def function(q: jax.Array) -> Any:
                return values

        return ContorsionConnection(self.metric, lambda q: self.contorsion_of(function(q)), "admissible")

    def contorsion_of(self, beta: Any) -> jax.Array:
        """D[..., i, j, k] = -beta_ijk eps_ijk.

        Parameters
        ----------
        beta : (..., C(n, 3)).
        """
        beta = as_array("beta", beta, (self.dimension,))
        return -jnp.tensordot(beta, self._basis(), axes=1)

    def beta_of(self, D: Any) -> jax.Array:
        """The beta of a totally antisymmetric contorsion, (..., C(n, 3)).

        Parameters
        ----------
        D : (..., n, n, n).

        Raises
        ------
        SymmetryError : D is not totally antisymmetric to 1e-8 of its largest entry.
        """
        n = self.metric.frame.dim
        D = as_array("D", D, (n, n, n))
        basis = self._basis()
        beta = -jnp.tensordot(jnp.asarray(D), basis, axes=([-3, -2, -1], [1, 2, 3])) / 6.0
        gap = float(np.max(np.abs(D - self.contorsion_of(beta)))) if np.size(D) else 0.0
        if not gap <= 1e-8 * np.max(np.abs(D)):
            raise SymmetryError(
                f"D is not totally antisymmetric: {gap:.2e} of it lies outside the family of eq. (12)"
            )
        return beta

    def _basis(self) -> np.ndarray:
        """One alternating symbol per triple, (C(n, 3), n, n, n)."""
        n = self.metric.frame.dim
        basis = np.zeros((self.dimension, n, n, n))
        for row, (i, j, k) in enumerate(self.triples):
            for a, b, c in ((i, j, k), (j, k, i), (k, i, j)):
                basis[row, a, b, c], basis[row, a, c, b] = 1.0, -1.0
        return basis


@dataclass(frozen=True, eq=False)
class TorsionFreePart(AffineConnection):
    """The torsion-free connection with the same geodesics: Gamma^i_(jk) + s^i_jk / 2.

    Parameters
    ----------
    base : any connection.

    Source: [W] Thm III.2.
    """

    base: AffineConnection

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", self.base.frame)

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """Gamma^i_(jk) + s^i_jk / 2, (n, n, n)."""
        Gamma = self.base.coefficients_at(q)
        return 0.5 * (Gamma + jnp.swapaxes(Gamma, 1, 2) + self.frame.structure_functions_at(q))

    def scale_at(self, q: jax.Array) -> jax.Array:
        """The base's scale, in both orders, and the terms of s, (n, n, n)."""
        scale = self.base.scale_at(q)
        return 0.5 * (scale + jnp.swapaxes(scale, 1, 2) + self.frame.structure_terms_at(q))

    @property
    def known_metric(self) -> Metric | None:
        """The base's."""
        return self.base.known_metric

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The base is valid."""
        return self.base.valid_at(q)

    def explain(self, q: Any) -> None:
        """The base's error."""
        self.base.explain(q)


def torsion_free_part(nabla: AffineConnection) -> TorsionFreePart:
    """The unique torsion-free connection with the geodesics of `nabla`.

    Parameters
    ----------
    nabla : any connection.

    Source: [W] Thm III.2.
    """
    return TorsionFreePart(nabla)


@dataclass(frozen=True, eq=False)
class ChangedConnection(AffineConnection):
    """A connection in the frame X' = X A: Gamma'^i_jk = (A^-1)^i_l (L_{X'_j} A^l_k + Gamma^l(A_j, A_k)).

    Parameters
    ----------
    base : the connection in the frame X.
    change_matrix : q -> A (n, n), invertible.
    """

    base: AffineConnection
    change_matrix: PointFunction
    frame: ChangedFrame = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", self.base.frame.change(self.change_matrix))

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """The transformed coefficients, (n, n, n)."""
        A = self.frame.change_at(q)
        dA = jnp.einsum("mj,mlk->ljk", A, self.base.frame.lie_derivative_at(self.frame.change_at, q))
        pulled = dA + jnp.einsum("lab,aj,bk->ljk", self.base.coefficients_at(q), A, A)
        return raise_first_index(A, pulled)

    def scale_at(self, q: jax.Array) -> jax.Array:
        """The sum of the absolute values of the terms, (n, n, n)."""
        A = jnp.abs(self.frame.change_at(q))
        dA = jnp.abs(self.base.frame.lie_derivative_at(self.frame.change_at, q))
        terms = jnp.einsum("mj,mlk->ljk", A, dA)
        terms += jnp.einsum("lab,aj,bk->ljk", self.base.scale_at(q), A, A)
        return raised_terms(self.frame.change_at(q), terms)

    @cached_property
    def known_metric(self) -> Metric | None:
        """The base's, in the frame X'."""
        metric = self.base.known_metric
        return None if metric is None else metric.change(self.change_matrix)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The base is valid and A invertible."""
        return self.base.valid_at(q) & self.frame.valid_at(q)

    def explain(self, q: Any) -> None:
        """The base's error, or the frame's."""
        self.base.explain(q)
        self.frame.explain(q)


@dataclass(frozen=True, eq=False)
class ProductConnection(AffineConnection):
    """The product of connections: every factor differentiates its own vectors; no cross terms.

    Parameters
    ----------
    connections : the factors. `apply` never forms the (sum n)^3 tensor.
    """

    connections: tuple[AffineConnection, ...]
    frame: ProductFrame

    def __init__(self, *connections: AffineConnection) -> None:
        object.__setattr__(self, "connections", connections)
        object.__setattr__(self, "frame", ProductFrame(*(nabla.frame for nabla in connections)))

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """Block diagonal in all three indices, (n, n, n)."""
        points = self.frame.split_point(q)
        return self._blocks(
            [nabla.coefficients_at(p) for nabla, p in zip(self.connections, points, strict=True)]
        )

    def scale_at(self, q: jax.Array) -> jax.Array:
        """Block diagonal in all three indices, (n, n, n)."""
        points = self.frame.split_point(q)
        return self._blocks([nabla.scale_at(p) for nabla, p in zip(self.connections, points, strict=True)])

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """Factor by factor, (n,)."""
        parts = zip(self.connections, *map(self._split, (v, w)), self.frame.split_point(q), strict=True)
        return jnp.concatenate([nabla.apply_at(p, a, b) for nabla, a, b, p in parts])

    @cached_property
    def known_metric(self) -> Metric | None:
        """The product of the factors' metrics, if all are known."""
        metrics = [nabla.known_metric for nabla in self.connections]
        known = [metric for metric in metrics if metric is not None]
        return ProductMetric(*known) if len(known) == len(metrics) else None

    def valid_at(self, q: jax.Array) -> jax.Array:
        """All factors are valid."""
        ok = jnp.asarray(True)
        for nabla, p in zip(self.connections, self.frame.split_point(q), strict=True):
            ok = ok & nabla.valid_at(p)
        return ok

    def explain(self, q: Any) -> None:
        """The error of the first factor that is not valid."""
        for nabla, p in zip(self.connections, self.frame.split_point(jnp.asarray(q)), strict=True):
            nabla.explain(p)

    def _blocks(self, parts: list[jax.Array]) -> jax.Array:
        whole, start = jnp.zeros((self.frame.dim,) * 3), 0
        for part in parts:
            block = slice(start, start + len(part))
            whole = whole.at[block, block, block].set(part)
            start += len(part)
        return whole

    def _split(self, v: jax.Array) -> list[jax.Array]:
        return self.frame.split_vector(v)


def _shaped(name: str, value: Any, n: int) -> jax.Array:
    value = jnp.asarray(value)
    if value.shape != (n, n, n):
        raise ShapeError(name, (n, n, n), value.shape)
    return value
