"""Distributions: the feasible velocities of a constrained system, and their frame.

A distribution D of rank m is given by a basis, the columns of A(q) (n, m) in a metric's frame, or by the
one-forms that annihilate it, the rows of W(q) (p, n), m = n - p. The frame of a distribution is X A. Brackets
of its fields leave D, so its structure functions are those of the projected brackets P [X_i, X_j], P the
orthogonal projection. Source: [Z] section 3.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike, solve
from connections.checks import (
    ConstraintError,
    FrameError,
    ShapeError,
    as_result,
    raise_at,
    require_function,
    require_text,
    require_type,
)
from connections.evaluation.compilation import shape_of
from connections.evaluation.parameters import Parametrized
from connections.geometry.frames import FrameField, PointFunction
from connections.geometry.metrics import Metric, require_definite
from connections.geometry.numerics.definite import solve_definite
from connections.geometry.numerics.scales import independent, inverse_lengths_of, lengths_of, rank_of

_FEASIBLE = 1e-8  # the largest value of a form on a basis field, relative to the sizes of both
_CLEAR = 1e-4  # the least clearance of `null_basis`: below it, the fields lose more than 4 digits

FORMS = "q -> components (p, n)"  # in an error


class Distribution(Parametrized, abc.ABC):
    """A field of m-dimensional subspaces of the tangent spaces, in the frame of a metric.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import affine
    >>> space = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    >>> plane = affine.SpannedDistribution(space, lambda q: jnp.eye(3)[:, :2])
    >>> isinstance(plane, affine.Distribution)
    True
    """

    metric: Metric
    rank: int

    @abc.abstractmethod
    def basis_at(self, q: jax.Array) -> jax.Array:
        """A(q), (n, m): column j holds basis field j in the metric's frame."""

    @abc.abstractmethod
    def forms_at(self, q: jax.Array) -> jax.Array:
        """W(q), (n - m, n): independent one-forms that vanish on the distribution."""

    @abc.abstractmethod
    def complement_at(self, q: jax.Array) -> jax.Array:
        """P_perp(q), (n, n): the projection onto the orthogonal complement."""

    def fields_at(self, q: jax.Array) -> jax.Array:
        """A(q) in units of the frame's lengths, (n, m): |X_i| A^i_j."""
        return lengths_of(self.metric.matrix_at(q))[:, None] * self.basis_at(q)

    def covectors_at(self, q: jax.Array) -> jax.Array:
        """W(q) in units of the frame's lengths, as columns (n, n - m): w_a(X_i) / |X_i|."""
        return inverse_lengths_of(self.metric.matrix_at(q))[:, None] * self.forms_at(q).T

    @abc.abstractmethod
    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the distribution and its basis are regular at q; one boolean."""

    @abc.abstractmethod
    def regular_at(self, q: jax.Array) -> jax.Array:
        """Whether the distribution is regular at q, even if its basis is not; one boolean."""

    @abc.abstractmethod
    def explain(self, q: ArrayLike) -> None:
        """Raise the error that says why `q` (nq,) is not valid; do nothing if it is valid."""


@dataclass(frozen=True, eq=False)
class SpannedDistribution(Distribution):
    """The span of given fields.

    Parameters
    ----------
    metric : metric in whose frame the fields are given.
    basis : q (nq,) -> A (n, m); JAX-traceable.
    forms : optional, q -> W (n - m, n), the constraints that the basis has to satisfy; checked at every
        point.
    remedy : advice in the error where the basis is singular and the forms are not.

    Raises
    ------
    ShapeError : A does not have n rows and 1 to n columns, or W not n - m rows and n columns.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import affine
    >>> space = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    >>> fields = lambda q: jnp.array([[1.0, 0.0], [0.0, 1.0], [q[1], 0.0]])
    >>> contact = affine.SpannedDistribution(space, fields)
    >>> cn.ConstrainedConnection(space, contact).frame.dim
    2
    """

    metric: Metric
    basis: PointFunction
    forms: PointFunction | None = None
    remedy: str = "give another basis, or the forms alone"
    rank: int = field(init=False)

    def __post_init__(self) -> None:
        require_definite("metric", self.metric)
        require_function("basis", self.basis, "q -> A (n, m)")
        require_text("remedy", self.remedy)
        if self.forms is not None:
            require_function("forms", self.forms, FORMS)
        n = self.metric.frame.dim
        shape = _shape_of("basis of the distribution", self.basis, self.metric)
        if len(shape) != 2 or shape[0] != n or not 1 <= shape[1] <= n:
            forms = len(shape) == 2 and shape[1] == n and shape[0] < n
            hint = f"; constraint forms (p, {n}) are given as forms=" if forms else ""
            raise ShapeError("basis of the distribution", f"({n}, 1 to {n}){hint}", shape)
        object.__setattr__(self, "rank", shape[1])
        if self.forms is not None:
            got = _shape_of("constraint forms", self.forms, self.metric)
            if got != (n - shape[1], n):
                raise ShapeError("constraint forms", (n - shape[1], n), got)

    def basis_at(self, q: jax.Array) -> jax.Array:
        """The user's A(q), (n, m)."""
        return as_result("basis of the distribution", self.basis(q))

    def forms_at(self, q: jax.Array) -> jax.Array:
        """The user's W(q), or rows that annihilate the basis, (n - m, n)."""
        if self.forms is not None:
            return as_result("constraint forms", self.forms(q))
        if self.rank == self.metric.frame.dim:
            return jnp.zeros((0, self.rank))
        return null_basis(self.fields_at(q).T)[0].T * lengths_of(self.metric.matrix_at(q))

    def complement_at(self, q: jax.Array) -> jax.Array:
        """1 - A (A^T H A)^-1 A^T H, (n, n)."""
        A = self.basis_at(q)
        weighted = A.T @ self.metric.matrix_at(q)
        return jnp.eye(len(A)) - A @ solve_definite(weighted @ A, weighted)

    def regular_at(self, q: jax.Array) -> jax.Array:
        """The boolean `valid_at`, because the distribution is given by its basis."""
        return self.valid_at(q)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The metric is valid, the basis has rank m, the forms have rank n - m and vanish on the basis."""
        ok = self.metric.valid_at(q) & independent(self.fields_at, q)
        if self.forms is None or self.rank == self.metric.frame.dim:
            return ok
        return ok & independent(self.covectors_at, q) & (jnp.max(self._work_at(q)) <= _FEASIBLE)

    def explain(self, q: ArrayLike) -> None:
        """The metric's error, `ConstraintError` for the forms, or `FrameError` for the basis."""
        self.metric.explain(q)
        constrained = self.forms is not None and self.rank < self.metric.frame.dim
        if constrained:
            explain_forms(self, q)
        what = _fault(self, q)
        if what:
            if constrained:
                what += f"; {basis_alone(self.metric.frame.dim - self.rank)}, so {self.remedy}"
            raise_at(FrameError, f"the basis of the distribution {what}", q)
        if constrained:
            work = np.asarray(self._work_at(jnp.asarray(q)))
            a, j = np.unravel_index(np.argmax(work), work.shape)
            if not work[a, j] <= _FEASIBLE:
                value = f"(form {a} on field {j} is {work[a, j]:.2e} of their sizes)"
                raise_at(ConstraintError, f"the basis does not satisfy the constraints {value}", q)

    def _work_at(self, q: jax.Array) -> jax.Array:
        """|w_a(X_j)| / (|w_a| |X_j|), (n - m, m), components in units of the frame's lengths."""
        covectors, fields = self.covectors_at(q), self.fields_at(q)
        sizes = jnp.outer(jnp.linalg.norm(covectors, axis=0), jnp.linalg.norm(fields, axis=0))
        return jnp.abs(covectors.T @ fields) / sizes


@dataclass(frozen=True, eq=False)
class AnnihilatedDistribution(Distribution):
    """The vectors on which given one-forms vanish; its basis is computed and orthonormal in the metric.

    The basis is a smooth function of q wherever the forms have rank p, except on a set of codimension m (a
    basis that is smooth everywhere need not exist). `ConstrainedConnection.full` needs no basis.

    Parameters
    ----------
    metric : metric in whose frame the forms are given.
    forms : q (nq,) -> W (p, n), components w_a(X_i), 1 <= p < n; JAX-traceable.

    Raises
    ------
    ShapeError : W does not have n columns and 1 to n - 1 rows.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import affine
    >>> space = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    >>> form = lambda q: jnp.array([[-q[1], 0.0, 1.0]])  # dz = y dx
    >>> contact = affine.AnnihilatedDistribution(space, form)
    >>> nabla = cn.ConstrainedConnection(space, contact)
    >>> nabla.basis([0.0, 0.5, 0.0]).shape
    (3, 2)
    """

    metric: Metric
    forms: PointFunction
    rank: int = field(init=False)

    def __post_init__(self) -> None:
        require_definite("metric", self.metric)
        require_function("forms", self.forms, FORMS)
        n = self.metric.frame.dim
        shape = _shape_of("constraint forms", self.forms, self.metric)
        if len(shape) != 2 or shape[1] != n or not 1 <= shape[0] < n:
            raise ShapeError("constraint forms", (f"1 to {n - 1}", n), shape)
        object.__setattr__(self, "rank", n - shape[0])

    def forms_at(self, q: jax.Array) -> jax.Array:
        """The user's W(q), (p, n)."""
        return as_result("constraint forms", self.forms(q))

    def basis_at(self, q: jax.Array) -> jax.Array:
        """Null basis of the forms, orthonormal in the metric, (n, m)."""
        return self._basis_and_clearance_at(q)[0]

    def complement_at(self, q: jax.Array) -> jax.Array:
        """H^-1 W^T (W H^-1 W^T)^-1 W, (n, n): of the forms alone."""
        W = self.forms_at(q)
        raised = solve_definite(self.metric.matrix_at(q), W.T)
        return raised @ solve_definite(W @ raised, W)

    def regular_at(self, q: jax.Array) -> jax.Array:
        """The metric is valid and the forms have rank p."""
        return self.metric.valid_at(q) & independent(self.covectors_at, q)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The distribution and the computed basis are regular."""
        return self.regular_at(q) & (self._basis_and_clearance_at(q)[1] > _CLEAR)

    def explain(self, q: ArrayLike) -> None:
        """The metric's error, `ConstraintError` for the forms, `FrameError` for the computed basis."""
        self.explain_regular(q)
        if not self._basis_and_clearance_at(jnp.asarray(q))[1] > _CLEAR:
            what = (
                "the computed basis of the distribution is singular (the constraints are not): give a basis"
            )
            raise_at(FrameError, what, q)

    def explain_regular(self, q: ArrayLike) -> None:
        """The metric's error, or `ConstraintError` for the forms, where `regular_at` is false."""
        self.metric.explain(q)
        explain_forms(self, q)

    def _basis_and_clearance_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        H = self.metric.matrix_at(q)
        N, clearance = null_basis(self.covectors_at(q).T)  # so that the basis does not depend on units
        return orthonormal(inverse_lengths_of(H)[:, None] * N, H), clearance


@dataclass(frozen=True)
class DistributionFrame(FrameField):
    """The basis of a distribution as a frame: X A, with the structure functions of the projected brackets.

    Parameters
    ----------
    distribution : the distribution.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import affine
    >>> space = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    >>> fields = lambda q: jnp.array([[1.0, 0.0], [0.0, 1.0], [q[1], 0.0]])
    >>> contact = affine.SpannedDistribution(space, fields)
    >>> frame = affine.DistributionFrame(contact)
    >>> frame.dim, frame.ambient_dim
    (2, 3)
    >>> frame.matrix([0.0, 0.5, 0.0])
    array([[1. , 0. ],
           [0. , 1. ],
           [0.5, 0. ]])
    """

    distribution: Distribution

    def __post_init__(self) -> None:
        require_type("distribution", self.distribution, Distribution)

    @property
    def dim(self) -> int:  # type: ignore[override]
        """m, the rank of the distribution."""
        return self.distribution.rank

    @property
    def ambient_dim(self) -> int:  # type: ignore[override]
        """nq of the metric's frame."""
        return self._base.ambient_dim

    @property
    def periods(self) -> tuple[float | None, ...]:
        """The periods of the coordinates of the metric's frame."""
        return self._base.periods

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """X A, (nq, m)."""
        return self._base.matrix_at(q) @ self.distribution.basis_at(q)

    def dual_at(self, q: jax.Array) -> jax.Array:
        """(A^T H A)^-1 A^T H X^+, (m, nq): components of the orthogonal projection of an ambient vector."""
        return self.components_at(q) @ self._base.dual_at(q)

    def components_at(self, q: jax.Array) -> jax.Array:
        """(A^T H A)^-1 A^T H, (m, n): a vector in the metric's frame to components of its projection."""
        A = self.distribution.basis_at(q)
        weighted = A.T @ self.distribution.metric.matrix_at(q)
        return solve_definite(weighted @ A, weighted)

    def project_at(self, q: jax.Array) -> jax.Array:
        """The point (nq,) of the manifold next to q, by the metric's frame."""
        return self._base.project_at(q)

    def near_at(self, q: jax.Array) -> jax.Array:
        """Whether q is close to the manifold, by the metric's frame; one boolean."""
        return self._base.near_at(q)

    def require_near(self, name: str, q: ArrayLike) -> np.ndarray:
        """The point (nq,) of the manifold next to q, by the metric's frame; an error if q is not near."""
        return self._base.require_near(name, q)

    def sample_at(self, x: jax.Array) -> jax.Array:
        """The base's point."""
        return self._base.sample_at(x)

    def align_at(self, q: jax.Array, reference: jax.Array) -> jax.Array:
        """The coordinates (nq,) of the point q that are nearest to the reference's, by the metric's frame."""
        return self._base.align_at(q, reference)

    def retract_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """The retraction of the metric's frame along A xi."""
        return self._base.retract_at(q, self.distribution.basis_at(q) @ xi)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The distribution and its basis are regular."""
        return self.distribution.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """The distribution's error."""
        self.distribution.explain(q)

    @property
    def _base(self) -> FrameField:
        return self.distribution.metric.frame


def null_basis(W: jax.Array) -> tuple[jax.Array, jax.Array]:
    """N (n, n - p) with W N = 0 and N^T N = 1, a smooth function of W, and its clearance, a scalar.

    In a fixed generic frame orthonormal rows are [S, T], S (p, p). N = [0; 1] - [1 + S^T; T^T] (1 + S)^-1 T
    is orthonormal and they annihilate it; it is singular where S has the eigenvalue -1. The clearance is
    det(1 + S) >= 0. A single field is a quarter turn of the last row in the null space of the others.

    Parameters
    ----------
    W : (p, n) of rank p, p < n.
    """
    p, n = W.shape
    if p == n - 1:
        N, clearance = null_basis(W[:-1]) if p > 1 else (jnp.eye(2), jnp.asarray(1.0))
        x = W[-1] @ N
        return N @ jnp.stack([-x[1], x[0]])[:, None] / jnp.linalg.norm(x), clearance
    G = jnp.asarray(_generic_rotation(n))
    rows = W / jnp.linalg.norm(W) if p == 1 else orthonormal(W.T).T
    turned = rows @ G
    S, T = turned[:, :p], turned[:, p:]
    tilted = jnp.eye(p) + S
    KT = T / tilted if p == 1 else solve(tilted, T)
    N = jnp.concatenate([-tilted.T @ KT, jnp.eye(n - p) - T.T @ KT])
    return G @ N, tilted[0, 0] if p == 1 else jnp.linalg.det(tilted)


def orthonormal(A: jax.Array, H: jax.Array | None = None) -> jax.Array:
    """A B (n, m), B upper triangular, columns orthonormal in the metric H: Gram-Schmidt, [Z] (9)."""
    gram = A.T @ A if H is None else A.T @ H @ A
    return jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(gram), A.T, lower=True).T


def basis_alone(p: int) -> str:
    """Text of an error: the basis is singular although the p forms are independent."""
    return f"the constraints keep rank {p}: the basis is singular, not the system"


def explain_forms(distribution: Distribution, q: Any) -> None:
    """Raise `ConstraintError` where the forms (p, n) are not finite or not independent."""
    W = np.asarray(distribution.covectors_at(jnp.asarray(q))).T
    if not np.isfinite(W).all():
        raise_at(ConstraintError, "the constraint forms are not finite", q)
    if not independent(distribution.covectors_at, jnp.asarray(q)):
        raise_at(
            ConstraintError, f"the constraints lost rank ({rank_of(W.T)} of {len(W)} are independent)", q
        )


@lru_cache
def _generic_rotation(n: int) -> np.ndarray:
    """A fixed orthogonal matrix, (n, n). No usual form, with its many zeros, lies along one of its axes."""
    return np.linalg.qr(np.random.default_rng(n).normal(size=(n, n)))[0]


def _fault(distribution: Distribution, q: Any) -> str:
    """Text of an error: how the basis is singular; empty if it is regular."""
    A = np.asarray(distribution.fields_at(jnp.asarray(q)))
    if not np.isfinite(A).all():
        return "is not finite"
    if independent(distribution.fields_at, jnp.asarray(q)):
        return ""
    if rank_of(A) < A.shape[1]:
        return f"has rank {rank_of(A)} of {A.shape[1]}"
    longest = int(np.argmax(np.linalg.norm(A, axis=0)))
    return f"is all but infinite (field {longest}, where q changes by round-off)"


def _shape_of(name: str, function: PointFunction, metric: Metric) -> tuple[int, ...]:
    return shape_of(name, function, (metric.frame.ambient_dim,))
