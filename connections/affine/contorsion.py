"""Connections of a metric with a contorsion, and the family of all admissible connections.

Gamma_ijk = Gamma*_ijk - D_ijk; the family of admissible Coriolis matrices, [W] (12), is
D_ijk = -beta_ijk eps_ijk. Sources: [W] III-C, eq. (12).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike
from connections.affine.combinations import require_cube
from connections.affine.connection import ConnectionOfMetric
from connections.affine.koszul import christoffel_first_kind, christoffel_terms
from connections.affine.levi_civita import LeviCivita
from connections.affine.motions.jax_motions import by_rows
from connections.checks import (
    NonFiniteError,
    ShapeError,
    SymmetryError,
    as_array,
    as_result,
    raise_at,
    require_choice,
    require_finite,
    require_function,
    require_type,
    require_untraced,
)
from connections.engines.internals.jax_names import trace_state_clean
from connections.evaluation.boundary import Argument, as_given, evaluate
from connections.evaluation.compilation import compiled, compiled_for
from connections.evaluation.describing import Described
from connections.evaluation.parameters import (
    Parametrized,
    PytreePartial,
    are_arrays,
    is_same,
    with_parameters,
)
from connections.geometry.frames import FrameField, PointFunction
from connections.geometry.metrics import Metric
from connections.geometry.numerics.scales import FLOOR, lengths_of

MEMBERS = 32  # members of a family that a sweep computes together
SYMMETRY_TOLERANCE = 1e-10  # relative to the largest entry of D with the same indices in any order
CONTORSION_SYMMETRIES = {
    "metric_compatible": ("antisymmetric in indices (1, 3)", ((2, 1, 0),)),
    "same_geodesics": ("antisymmetric in indices (2, 3)", ((0, 2, 1),)),
    "admissible": ("totally antisymmetric", ((2, 1, 0), (0, 2, 1))),
}


class ConnectionWithContorsion(ConnectionOfMetric):
    """A connection that is given by a metric and what it differs from its Levi-Civita connection.

    A subclass has `contorsion_at`.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import affine
    >>> space = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    >>> nabla = cn.ContorsionFamily(space).connection(0.5)
    >>> isinstance(nabla, affine.ConnectionWithContorsion)
    True
    >>> float(nabla.contorsion([0.0, 0.0, 0.0])[0, 1, 2])
    -0.5
    """

    @abc.abstractmethod
    def contorsion_at(self, q: jax.Array) -> jax.Array:
        """D(q), (n, n, n), all indices low."""

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """H^-1 (Gamma*_low - D), (n, n, n)."""
        return self.metric.raised_at(q, self._first_kind_here(q))

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """H^-1 ((Gamma*_ijk - D_ijk) v^j w^k), (n,): one right-hand side to solve for, not n^2."""
        return self.metric.raised_at(q, self.lowered_at(self.metric, q, v, w))

    def lowered_at(self, metric: Metric, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """(Gamma*_ijk - D_ijk) v^j w^k, (n,), without H^-1 if `metric` is the connection's own."""
        if not is_same(metric, self.metric):
            return super().lowered_at(metric, q, v, w)
        return jnp.einsum("ijk,j,k->i", self._first_kind_here(q), v, w)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The metric is valid."""
        return self.metric.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """The metric's error."""
        self.metric.explain(q)

    def _first_kind_here(self, q: jax.Array) -> jax.Array:
        """Gamma*_ijk - D_ijk, (n, n, n)."""
        return christoffel_first_kind(self.metric, q) - self.contorsion_at(q)


@dataclass(frozen=True, eq=False, repr=False)
class ContorsionConnection(ConnectionWithContorsion):
    """The Levi-Civita connection of a metric minus a contorsion: Gamma_ijk = Gamma*_ijk - D_ijk.

    Parameters
    ----------
    metric : the metric.
    contorsion : q (nq,) -> D[i, j, k] (n, n, n), all indices low; JAX-traceable.
    symmetry : the symmetry that D must have, checked at every point: "metric_compatible" (D_ijk = -D_kji),
        "same_geodesics" (D_ijk = -D_ikj), "admissible" (totally antisymmetric), or None for any D.
    parameters : optional, the last argument of `contorsion` (`ParametricFunction`).

    Examples
    --------
    Connections on R^3 with torsion, but with straight geodesics.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> space = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    >>> eps = jnp.cross(jnp.eye(3)[:, None], jnp.eye(3)[None])  # [i, j, k]
    >>> nabla = cn.ContorsionConnection(space, lambda q: q[0] * eps, symmetry="admissible")
    >>> float(nabla.torsion([2.0, 0.0, 0.0])[2, 0, 1])
    -4.0

    Source: [W] III-C1, Props III.1 and III.2.
    """

    metric: Metric
    contorsion_function: PointFunction
    symmetry: str | None = None

    def __init__(
        self,
        metric: Metric,
        contorsion: Callable[..., Any],
        symmetry: str | None = None,
        parameters: Any = None,
    ) -> None:
        require_type("metric", metric, Metric)
        require_function("contorsion", contorsion, "q -> D (n, n, n)", parameters=parameters)
        if symmetry is not None:
            require_choice("symmetry", symmetry, CONTORSION_SYMMETRIES, SymmetryError)
        object.__setattr__(self, "metric", metric)
        object.__setattr__(self, "contorsion_function", with_parameters(contorsion, parameters))
        object.__setattr__(self, "symmetry", symmetry)
        object.__setattr__(self, "frame", metric.frame)

    def contorsion_at(self, q: jax.Array) -> jax.Array:
        """D(q), (n, n, n)."""
        return require_cube("contorsion", self.contorsion_function(q), self.frame.dim)

    @property
    def compatible(self) -> bool:
        """Whether D must be antisymmetric in its first and last index."""
        return self.symmetry in ("metric_compatible", "admissible")

    @property
    def riemannian(self) -> LeviCivita | None:
        """The metric's Levi-Civita connection if D must be antisymmetric in its last two indices."""
        return LeviCivita(self.metric) if self.symmetry in ("same_geodesics", "admissible") else None

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The metric is valid and D has the required symmetry."""
        return self.metric.valid_at(q) & (self._symmetry_gap_at(q) <= SYMMETRY_TOLERANCE)

    def explain(self, q: ArrayLike) -> None:
        """The metric's error, or `SymmetryError`."""
        self.metric.explain(q)
        gap = compiled_for(self, ContorsionConnection._symmetry_gap_at)
        if self.symmetry is not None and not gap(q) <= SYMMETRY_TOLERANCE:
            wanted = CONTORSION_SYMMETRIES[self.symmetry][0]
            raise_at(SymmetryError, f"the contorsion is not {wanted}, which {self.symmetry!r} needs", q)

    def _symmetry_gap_at(self, q: jax.Array) -> jax.Array:
        if self.symmetry is None:
            return jnp.asarray(0.0)
        D = self.contorsion_at(q)
        sizes = contorsion_sizes(D, lengths_of(self.metric.positive_at(q)))
        gaps = jnp.stack([D + jnp.transpose(D, axes) for axes in CONTORSION_SYMMETRIES[self.symmetry][1]])
        return jnp.max(jnp.where(gaps == 0.0, 0.0, jnp.abs(gaps) / sizes[None]))


@dataclass(frozen=True, eq=False, repr=False)
class ContorsionFamily(Described, Parametrized):
    """All connections that are metric compatible and have the metric's geodesics: D_ijk = -beta_ijk eps_ijk.

    The Coriolis matrix of a member is C* + sum_{i<j<k} beta_ijk S^T (S v x) S, S = rows i, j, k of the
    identity. There are C(n, 3) free functions, none for n <= 2.

    Parameters
    ----------
    metric : the metric.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> top = cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 3.0]))
    >>> family = cn.ContorsionFamily(top)
    >>> nabla = family.connection(0.5)
    >>> q, v = [0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 0.0]
    >>> nabla.check_metric_compatible(q).ok, nabla.check_same_geodesics(q).ok
    (True, True)
    >>> np.round(family.beta_of(nabla.contorsion(q)), 6)
    array([0.5])

    Source: [W] eq. (12), Cors III.1 and III.2.
    """

    metric: Metric

    def __post_init__(self) -> None:
        require_type("metric", self.metric, Metric)

    @property
    def frame(self) -> FrameField:
        """The metric's frame."""
        return self.metric.frame

    def _rows(self) -> list[tuple[str, str]]:
        return [("free functions", str(self.dimension)), ("triples i < j < k", str(self.triples))]

    @property
    def dimension(self) -> int:
        """C(n, 3), the number of free functions."""
        return math.comb(self.metric.frame.dim, 3)

    @property
    def triples(self) -> list[tuple[int, int, int]]:
        """The index triples i < j < k, in the (lexicographic) order of beta."""
        return list(combinations(range(self.metric.frame.dim), 3))

    def connection(self, beta: Any, parameters: Any = None) -> ContorsionConnection:
        """The member with the given beta. All members with constant beta share compiled functions.

        Parameters
        ----------
        beta : (C(n, 3),) values, or q -> values (JAX-traceable); i < j < k lexicographic. For n = 3 a number
            is accepted too.
        parameters : optional, the last argument of a function beta (`ParametricFunction`).

        Raises
        ------
        ShapeError, NonFiniteError.
        """
        if callable(beta) and not isinstance(beta, type):
            require_function("beta", beta, "q -> beta (k,)", parameters=parameters)
            beta = with_parameters(beta, parameters)
        else:
            if parameters is not None:
                raise TypeError("parameters: expected None, because beta is no function")
            beta = as_array("beta", beta, ())
            if beta.ndim == 0 and self.dimension == 1:
                beta = beta.reshape(1)
            if beta.shape != (self.dimension,):
                none = "(0,), because with fewer than three velocities there is no torsion to choose"
                raise ShapeError("beta", (self.dimension,) if self.dimension else none, beta.shape)
            require_finite("beta", beta)
        return ContorsionConnection(self.metric, FamilyContorsion(self, beta), "admissible")

    def sweep(self, betas: Any, quantity: Callable[[ContorsionConnection], Any]) -> Any:
        """``quantity(self.connection(beta))`` for every row of `betas`, computed together.

        One compilation serves any betas and any number of them; another `quantity` is compiled anew.

        Parameters
        ----------
        betas : (m, C(n, 3)) values; for n = 3 also (m,).
        quantity : a member -> an array, or arrays in dictionaries, lists and tuples; JAX-traceable. As
            under `jax.jit`, points in it, such as q in ``lambda nabla: nabla.torsion(q)``, are not validated.

        Returns
        -------
        What `quantity` returns, with the leading axis m.

        Raises
        ------
        ShapeError.
        NonFiniteError : a beta, or the quantity of a member, which is named.
        TypeError : `quantity` is no function, or does not return arrays.
        """
        require_function("quantity", quantity, "connection -> array")
        betas = as_array("betas", betas, ())
        if betas.ndim == 1 and self.dimension == 1:
            betas = betas[:, None]
        if betas.ndim != 2 or betas.shape[1] != self.dimension:
            raise ShapeError("betas", ("m", self.dimension), betas.shape)
        together = compiled(_quantities_of, self, quantity)
        if not trace_state_clean():
            return together(betas)
        require_finite("betas", betas)
        rows = np.asarray(betas) if len(betas) else np.zeros((1, self.dimension))
        values = by_rows(lambda i: together(rows[i]), len(rows), MEMBERS)
        values = jax.tree_util.tree_map(lambda leaf: leaf[: len(betas)], values)
        _require_finite_members(rows, values)
        return as_given(values, betas)

    def contorsion_of(self, beta: Any) -> Array:
        """D[..., i, j, k] = -beta_ijk eps_ijk.

        Parameters
        ----------
        beta : (..., C(n, 3)).
        """
        values = as_array("beta", beta, (self.dimension,))
        require_finite("beta", values)
        D: Array = as_given(compiled_for(self, ContorsionFamily.contorsion_of_at)(values), beta)
        return D

    def contorsion_of_at(self, beta: jax.Array) -> jax.Array:
        """-beta_ijk eps_ijk, (..., n, n, n)."""
        return -jnp.tensordot(beta, self._basis(), axes=1)

    def beta_of(self, D: ArrayLike, q: ArrayLike | None = None) -> Array:
        """The beta of a totally antisymmetric contorsion, (..., C(n, 3)).

        Parameters
        ----------
        D : (..., n, n, n).
        q : optional, (..., nq) the points of D. Entries are then compared in units of the lengths of the
            fields there, and may have the round-off of the symbols whose difference D is; without q, as if
            all had one unit.

        Raises
        ------
        SymmetryError : D is not totally antisymmetric to 1e-8. TypeError : JAX traces D or q.
        """
        require_untraced(D=D, q=q)
        given = D, q
        n = self.metric.frame.dim
        D = as_array("D", D, (n, n, n))
        H: Any = np.eye(n)
        terms: Any = np.zeros((n, n, n))
        if q is not None:
            at = Argument("q", q, (self.frame.ambient_dim,))
            H = self.metric.matrix(q)
            terms = evaluate(self.metric, PytreePartial(christoffel_terms, self.metric), at)
        beta: Array
        beta, gap, within = compiled_for(self, ContorsionFamily._nearest_member_at)(D, H, terms)
        if not within:
            what = f"{float(np.max(gap)):.2e} of it lies outside the family of eq. (12)"
            raise SymmetryError(f"D is not totally antisymmetric: {what}")
        return as_given(beta, *given)

    def _nearest_member_at(
        self, D: jax.Array, H: jax.Array, terms: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The beta (..., C(n, 3)) nearest to D, |D - D(beta)|, and whether this is round-off."""
        beta = -jnp.tensordot(D, self._basis(), axes=([-3, -2, -1], [1, 2, 3])) / 6.0
        gap = jnp.abs(D - self.contorsion_of_at(beta))
        lengths = jnp.sqrt(jnp.diagonal(H, axis1=-2, axis2=-1))
        return beta, gap, jnp.all(gap <= 1e-8 * contorsion_sizes(D, lengths) + 1e-12 * terms)

    def _basis(self) -> np.ndarray:
        """One alternating symbol per triple, (C(n, 3), n, n, n)."""
        n = self.metric.frame.dim
        basis = np.zeros((self.dimension, n, n, n))
        for row, (i, j, k) in enumerate(self.triples):
            for a, b, c in ((i, j, k), (j, k, i), (k, i, j)):
                basis[row, a, b, c], basis[row, a, c, b] = 1.0, -1.0
        return basis


@dataclass(frozen=True, eq=False)
class FamilyContorsion(Parametrized):
    """The contorsion of a member of a family as a function, q (nq,) -> D (n, n, n).

    Parameters
    ----------
    family : the family.
    beta : (C(n, 3),) values, or q -> values.
    """

    family: ContorsionFamily
    beta: Any

    def __call__(self, q: jax.Array) -> jax.Array:
        """D(q)."""
        beta = as_result("beta", self.beta(q)) if callable(self.beta) else self.beta
        return self.family.contorsion_of_at(as_array("beta", beta, (self.family.dimension,)))


def _quantities_of(family: ContorsionFamily, quantity: Callable[..., Any], betas: jax.Array) -> Any:
    return jax.vmap(lambda beta: _quantity_of(family, quantity, beta))(betas)


def _quantity_of(family: ContorsionFamily, quantity: Callable[..., Any], beta: jax.Array) -> Any:
    """The quantity of one member; TypeError if it is not made of arrays."""
    value = quantity(family.connection(beta))
    if not jax.tree_util.tree_leaves(value) or not are_arrays(value):
        raise TypeError(f"quantity: it has to return an array, and returned {type(value).__name__}")
    return value


def _require_finite_members(betas: np.ndarray, values: Any) -> None:
    """Raise `NonFiniteError` naming the first member whose quantity is not finite."""
    for leaf in jax.tree_util.tree_leaves(values):
        good = np.isfinite(leaf).all(axis=tuple(range(1, leaf.ndim)))
        if not good.all():
            row = int(np.argmin(good))
            beta = np.array2string(betas[row], precision=4, threshold=12)
            raise NonFiniteError(f"quantity: not finite for member {row}, beta = {beta}")


def contorsion_sizes(D: jax.Array, length: jax.Array) -> jax.Array:
    """The largest entry of D (..., n, n, n) with the same indices in any order, for each entry.

    To each is added FLOOR times the largest entry in a frame of unit fields, converted to this frame.
    """
    size, u = jnp.abs(D), length
    volume = u[..., :, None, None] * u[..., None, :, None] * u[..., None, None, :]
    largest = jnp.max(size / volume, axis=(-3, -2, -1), keepdims=True, initial=0.0)
    for axes in ((-3, -2), (-2, -1), (-3, -2)):  # three exchanges reach all orders
        size = jnp.maximum(size, jnp.swapaxes(size, *axes))
    return size + FLOOR * largest * volume
