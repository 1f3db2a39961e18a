"""Frame fields: n vector fields X_1 .. X_n that span the tangent space, in ambient coordinates.

``qdot = X(q) v``: X is (nq, n) of full column rank, nq >= n. The Lie derivative along a frame field is
``df[i, ...] = L_{X_i} f``, the bracket ``[X_i, X_j] = s^k_ij X_k``, stored as ``s[k, i, j]``.
Source: [W] III-A; docs/conventions.md.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike, solve
from connections.checks import (
    FrameError,
    NonFiniteError,
    PointError,
    ShapeError,
    as_result,
    html_table,
    raise_at,
    require_finite,
    require_function,
    require_shape,
    require_type,
)
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.compilation import compiled_for
from connections.evaluation.describing import IN_TABLE, heading_of, parts_of
from connections.evaluation.parameters import Parametrized, PytreePartial
from connections.geometry.numerics.scales import full_rank, is_near, rank_of, row_units

PointFunction = Callable[[jax.Array], jax.Array]
FIELD = "q -> components (n,)"  # a vector field, in an error


class FrameField(Parametrized, abc.ABC):
    """n pointwise independent vector fields on an n-dimensional manifold described by nq coordinates.

    Subclasses are frozen dataclasses that give `dim`, `ambient_dim` and `matrix_at`; equal frames compare
    equal, and only objects of equal frames may be combined.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> frame = cn.SO3Frame()
    >>> isinstance(frame, cn.FrameField), frame.dim, frame.ambient_dim
    (True, 3, 4)
    >>> frame.structure_functions([0.0, 0.0, 0.0, 1.0])[2, 0, 1]  # [X_0, X_1] = X_2
    np.float64(1.0)
    """

    dim: int
    ambient_dim: int

    @property
    def frame(self) -> FrameField:
        """The frame itself, so that a frame can own definitions, as metrics and connections do."""
        return self

    @property
    def angles(self) -> tuple[int, ...]:
        """Indices of the coordinates that are angles, rad: a full turn of one leads back to the same place.

        Others may be, too: what a coordinate of a chart means is not known.
        """
        return ()

    @property
    def periods(self) -> tuple[float | None, ...]:
        """nq periods, None for coordinates without one: points that differ by whole periods are one."""
        return (None,) * self.ambient_dim

    def _repr_html_(self) -> str:
        return html_table(heading_of(self), parts_of(self, IN_TABLE))

    # --- the definition at one point -------------------------------------------------------------------

    @abc.abstractmethod
    def matrix_at(self, q: jax.Array) -> jax.Array:
        """X(q), (nq, n): column j is the frame field X_j in ambient coordinates."""

    def dual_at(self, q: jax.Array) -> jax.Array:
        """Left inverse of X(q), (n, nq): turns an ambient tangent vector into frame components."""
        X = self.matrix_at(q)
        if self.dim == self.ambient_dim:
            inverse: jax.Array = jnp.linalg.inv(X)
            return inverse
        rows = row_units(jax.lax.stop_gradient(X))[:, None]  # any weights give the same on tangent vectors
        return solve((X / rows).T @ (X / rows), (X / rows**2).T)

    def velocity_at(self, q: jax.Array, q_dot: jax.Array) -> jax.Array:
        """Frame components v (n,) of the tangent vector `q_dot` (nq,)."""
        return self.dual_at(q) @ q_dot

    def lie_derivative_at(self, f: PointFunction, q: jax.Array) -> jax.Array:
        """L_{X_i} f, (n, ...): derivative index first."""
        return self.value_and_lie_derivative_at(f, q)[1]

    def value_and_lie_derivative_at(self, f: PointFunction, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """f(q) and L_{X_i} f by one forward pass, so that a factorization in f is computed once."""
        X = self.matrix_at(q)

        def along(direction: jax.Array) -> tuple[jax.Array, jax.Array]:
            value, rate = jax.jvp(lambda p: as_result("f(q)", f(p)), (q,), (direction,))
            return value, rate

        value, rates = jax.vmap(along, in_axes=1, out_axes=(None, 0))(X)
        return value, rates

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """s[k, i, j] of [X_i, X_j] = s^k_ij X_k, (n, n, n)."""
        return jnp.einsum("ka,aij->kij", self.dual_at(q), self._ambient_brackets_at(q))

    def structure_terms_at(self, q: jax.Array) -> jax.Array:
        """The sum of absolute values of the terms of s[k, i, j], (n, n, n), the scale of its round-off."""
        return jnp.einsum("ka,aij->kij", jnp.abs(self.dual_at(q)), self._ambient_bracket_terms_at(q))

    def bracket_at(self, X: PointFunction, Y: PointFunction, q: jax.Array) -> jax.Array:
        """Components of [X, Y], (n,): X^i L_i Y^k - Y^i L_i X^k + s^k_ij X^i Y^j."""
        x, y = (require_shape(name, field(q), (self.dim,)) for name, field in (("X(q)", X), ("Y(q)", Y)))
        along = x @ self.lie_derivative_at(Y, q) - y @ self.lie_derivative_at(X, q)
        return along + jnp.einsum("kij,i,j->k", self.structure_functions_at(q), x, y)

    def bracket_of_constants_at(self, q: jax.Array, u: jax.Array, w: jax.Array) -> jax.Array:
        """s^k_ij u^i w^j, (n,), from derivatives of X along u and w only, so that no (n, n, n) is formed."""
        X = self.matrix_at(q)

        def along(a: jax.Array, b: jax.Array) -> jax.Array:
            rate: jax.Array = jax.jvp(lambda p: self.matrix_at(p) @ b, (q,), (X @ a,))[1]
            return rate

        rates = jax.vmap(along)(jnp.stack([u, w]), jnp.stack([w, u]))
        return self.velocity_at(q, rates[0] - rates[1])

    def project_at(self, q: jax.Array) -> jax.Array:
        """The point of the manifold nearest to `q` (nq,); the identity where coordinates are independent."""
        return q

    def near_at(self, q: jax.Array) -> jax.Array:
        """Whether `q` is within `POINT_TOLERANCE` of the manifold; one boolean.

        Every public function replaces such a q by `project_at` of it.
        """
        p = self.project_at(q)
        return jnp.asarray(True) if p is q else is_near(p, q)

    def sample_at(self, x: jax.Array) -> jax.Array:
        """A point of the manifold made of numbers x (nq,) between -1 and 1, for points at random."""
        return self.project_at(x)

    def align_at(self, q: jax.Array, reference: jax.Array) -> jax.Array:
        """The representative of `q` nearest to `reference`: q or -q for unit quaternions, else q."""
        return q

    def retract_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """A point of a smooth curve t -> retract(q, t xi) in the manifold that leaves q along X xi."""
        if self.dim == self.ambient_dim:
            return q + self.matrix_at(q) @ xi
        k1 = self.matrix_at(q) @ xi
        k2 = self.matrix_at(q + k1 / 2) @ xi
        k3 = self.matrix_at(q + k2 / 2) @ xi
        k4 = self.matrix_at(q + k3) @ xi
        return self.project_at(q + (k1 + 2 * k2 + 2 * k3 + k4) / 6)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether q is a point of the manifold at which the frame has full rank; one boolean."""
        return full_rank(self.matrix_at, q)

    def require_near(self, name: str, q: ArrayLike) -> np.ndarray:
        """The point (nq,) of the manifold next to `q` (nq,).

        Parameters
        ----------
        name : the name of q in errors.
        q : finite.

        Raises
        ------
        PointError : q is farther off than `POINT_TOLERANCE`.
        """
        q = np.asarray(q)
        p, near = map(np.asarray, compiled_for(self, FrameField._nearest_at)(q))
        if not near:
            gap, size = float(np.max(np.abs(p - q))), float(np.max(np.abs(p)))
            what = f"the point is {gap:.2e} off the manifold of {self}, its largest coordinate {size:.2e}"
            raise_at(PointError, f"{name}: {what},", q)
        return p

    def _nearest_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The point (nq,) of the manifold next to q (nq,), and whether q is near it."""
        return self.project_at(q), self.near_at(q)

    def explain(self, q: ArrayLike) -> None:
        """Raise the error that says why `q` (nq,) is not valid; do nothing if it is valid."""
        require_finite("q", q)
        q = self.require_near("q", q)
        X, independent = map(np.asarray, compiled_for(self, FrameField._rank_judged_at)(q))
        if X.shape != (self.ambient_dim, self.dim):
            raise ShapeError(f"matrix of {self}", (self.ambient_dim, self.dim), X.shape)
        if not np.isfinite(X).all():
            raise_at(NonFiniteError, f"{self} is not finite", q)
        if not independent:
            raise_at(FrameError, f"{self} lost rank ({rank_of(X)} of {self.dim} fields are independent)", q)

    def _rank_judged_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """X (nq, n), and whether it has full rank: not with another shape."""
        X = self.matrix_at(q)
        right = X.shape == (self.ambient_dim, self.dim)
        return X, full_rank(self.matrix_at, q) if right else jnp.asarray(False)

    # --- the public functions ----------------------------------------------------------------------------

    def matrix(self, q: ArrayLike) -> Array:
        """X(q), (..., nq, n), with qdot = X(q) v.

        Parameters
        ----------
        q : (..., nq) points in ambient coordinates.

        Raises
        ------
        ShapeError, NonFiniteError, PointError (q off the manifold), FrameError (rank lost).
        """
        return evaluate(self, self.matrix_at, self._point(q))

    def structure_functions(self, q: ArrayLike) -> Array:
        """s[..., k, i, j] of [X_i, X_j] = s^k_ij X_k.

        Parameters
        ----------
        q : (..., nq) points.

        Raises
        ------
        FrameError : the frame lost rank, or its brackets leave its span (nq > n).

        Source: [W] III-A, below eq. (6).
        """
        return evaluate(self, self.structure_functions_at, self._point(q))

    def lie_derivative(self, f: PointFunction, q: ArrayLike) -> Array:
        """L_{X_i} f, (..., n, *shape of f): the derivative index comes first.

        Parameters
        ----------
        f : one point (nq,) to an array; JAX-traceable.
        q : (..., nq) points.
        """
        require_function("f", f, "q -> array")
        return evaluate(self, PytreePartial(self.lie_derivative_at, f), self._point(q))

    def bracket(self, X: PointFunction, Y: PointFunction, q: ArrayLike) -> Array:
        """Frame components of the Lie bracket [X, Y], (..., n).

        Parameters
        ----------
        X, Y : vector fields, q -> (n,) frame components; JAX-traceable.
        q : (..., nq) points.
        """
        require_function("X", X, FIELD)
        require_function("Y", Y, FIELD)
        return evaluate(self, PytreePartial(self.bracket_at, X, Y), self._point(q))

    def change(self, matrix: PointFunction) -> ChangedFrame:
        """The frame X' = X A(q).

        Parameters
        ----------
        matrix : q -> A (n, n), invertible; JAX-traceable. Column j holds X'_j in the old frame.
        """
        return ChangedFrame(self, matrix)

    # --- private -------------------------------------------------------------------------------------------

    def _point(self, q: Any) -> Argument:
        return Argument("q", q, (self.ambient_dim,))

    def _ambient_brackets_at(self, q: jax.Array) -> jax.Array:
        """[X_i, X_j] in ambient coordinates, (nq, n, n)."""
        dX = self.lie_derivative_at(self.matrix_at, q)  # dX[i, a, j] = L_{X_i} X_j^a
        return jnp.transpose(dX, (1, 0, 2)) - jnp.transpose(dX, (1, 2, 0))

    def _ambient_bracket_terms_at(self, q: jax.Array) -> jax.Array:
        """Sum of the absolute values of all terms of [X_i, X_j], (nq, n, n)."""
        slopes = jax.jacfwd(self.matrix_at)(q)  # [component, field, coordinate]
        along = jnp.einsum("ajb,bi->aij", jnp.abs(slopes), jnp.abs(self.matrix_at(q)))
        return along + jnp.swapaxes(along, 1, 2)


@dataclass(frozen=True)
class FrameOnPoints(FrameField, abc.ABC):
    """A frame on the points of another frame, with as many fields.

    Parameters
    ----------
    base : the other frame.
    """

    base: FrameField

    def __post_init__(self) -> None:
        require_type("base", self.base, FrameField)

    @property
    def dim(self) -> int:  # type: ignore[override]
        """n of the base."""
        return self.base.dim

    @property
    def ambient_dim(self) -> int:  # type: ignore[override]
        """nq of the base."""
        return self.base.ambient_dim

    @property
    def angles(self) -> tuple[int, ...]:
        """The base's."""
        return self.base.angles

    @property
    def periods(self) -> tuple[float | None, ...]:
        """The base's."""
        return self.base.periods

    def project_at(self, q: jax.Array) -> jax.Array:
        """The base's projection."""
        return self.base.project_at(q)

    def near_at(self, q: jax.Array) -> jax.Array:
        """The base's manifold."""
        return self.base.near_at(q)

    def require_near(self, name: str, q: ArrayLike) -> np.ndarray:
        """The base's point."""
        return self.base.require_near(name, q)

    def sample_at(self, x: jax.Array) -> jax.Array:
        """The base's point."""
        return self.base.sample_at(x)

    def align_at(self, q: jax.Array, reference: jax.Array) -> jax.Array:
        """The base's representative."""
        return self.base.align_at(q, reference)


@dataclass(frozen=True)
class ChangedFrame(FrameOnPoints):
    """The frame X' = X A(q): X'_j = A^i_j X_i.

    Parameters
    ----------
    base : the old frame X.
    change_matrix : q -> A (n, n), invertible; JAX-traceable.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections import geometry
    >>> polar = lambda q: jnp.diag(jnp.array([1.0, 1 / q[0]]))
    >>> frame = geometry.ChangedFrame(cn.CoordinateFrame(2), polar)  # d/dr, (1/r) d/dphi
    >>> frame.matrix([2.0, 0.3])
    array([[1. , 0. ],
           [0. , 0.5]])
    >>> frame == cn.CoordinateFrame(2).change(polar)
    True
    """

    change_matrix: PointFunction

    def __post_init__(self) -> None:
        super().__post_init__()
        require_function("matrix", self.change_matrix, "q -> A (n, n)", "write lambda q: A")

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """X A, (nq, n)."""
        return self.base.matrix_at(q) @ self.change_at(q)

    def dual_at(self, q: jax.Array) -> jax.Array:
        """A^-1 times the base's dual, (n, nq)."""
        return solve(self.change_at(q), self.base.dual_at(q))

    def change_at(self, q: jax.Array) -> jax.Array:
        """A(q), (n, n)."""
        return require_shape("matrix of the change of frame", self.change_matrix(q), (self.dim, self.dim))

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """A^-1 (L_{X'_i} A_j - L_{X'_j} A_i + s(A_i, A_j))."""
        A = self.change_at(q)
        dA = jnp.einsum("mi,mkj->kij", A, self.base.lie_derivative_at(self.change_at, q))
        s = jnp.einsum("kab,ai,bj->kij", self.base.structure_functions_at(q), A, A)
        brackets = dA - jnp.swapaxes(dA, 1, 2) + s
        return solve(A, brackets.reshape(self.dim, -1)).reshape(brackets.shape)

    def structure_terms_at(self, q: jax.Array) -> jax.Array:
        """The sum of the absolute values of those terms."""
        A = jnp.abs(self.change_at(q))
        along = jnp.einsum("mi,mkj->kij", A, jnp.abs(self.base.lie_derivative_at(self.change_at, q)))
        s = jnp.einsum("kab,ai,bj->kij", self.base.structure_terms_at(q), A, A)
        terms = along + jnp.swapaxes(along, 1, 2) + s
        return jnp.einsum("kl,lij->kij", jnp.abs(jnp.linalg.inv(self.change_at(q))), terms)

    def retract_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """The base's retraction along A xi."""
        return self.base.retract_at(q, self.change_at(q) @ xi)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The base is valid and A invertible."""
        return self.base.valid_at(q) & full_rank(self.change_at, q)

    def explain(self, q: ArrayLike) -> None:
        """The base's error, or `FrameError` where A is singular."""
        self.base.explain(q)
        A, independent = map(np.asarray, compiled_for(self, ChangedFrame._change_judged_at)(q))
        if not np.isfinite(A).all() or not independent:
            raise_at(FrameError, "the change of frame is not invertible", q)

    def _change_judged_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """A (n, n) at the point of the manifold next to q, and whether it is invertible."""
        p = self.base.project_at(q)
        return self.change_at(p), full_rank(self.change_at, p)
