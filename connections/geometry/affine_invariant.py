"""The manifold of symmetric positive definite matrices with the metric that no change of basis changes.

    H_ij = tr(P^-1 B_i P^-1 B_j),      P = q^i B_i,      B_i a basis of the symmetric matrices.

P' = T P T^T is an isometry for each invertible T. The Levi-Civita connection is

    nabla_A B = dB(A) - (A P^-1 B + B P^-1 A) / 2,

the mean of two that are flat: dB(A), whose geodesics are straight in P, and dB(A) - A P^-1 B - B P^-1 A,
whose geodesics are straight in P^-1. The divergence of this pair is d(P || Q) = tr(Q^-1 P) - log det(Q^-1 P)
- n, half the squared distance to leading order. No sectional curvature is positive: there is one geodesic
between two matrices, and one mean.
Source: [Pe]; [Bh], chapter 6; [BI] for the steps of the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike, solve
from connections.checks import MetricError, PointError, ShapeError, as_array, raise_at, require_finite
from connections.evaluation.boundary import Argument, as_given, evaluate
from connections.geometry.closed_forms import ClosedFormMetric, norm_of
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.numerics.definite import is_definite
from connections.geometry.numerics.positive_definite import (
    divergence,
    exponential,
    exponential_in_factor,
    inner_products,
    logarithm,
    whitened,
    whitened_logarithm,
)

_STEPS = 1000  # of the mean; of matrices with eig(P^-1 Q) up to 1e6 it takes about a hundred
_CONVERGED = 1e-13  # the last step, relative to the root mean square distance, or to 1 if that is less


@dataclass(frozen=True, eq=False, repr=False)
class AffineInvariantMetric(ClosedFormMetric):
    """The affine-invariant metric of positive definite matrices, H_ij = tr(P^-1 B_i P^-1 B_j), P = q^i B_i.

    Parameters
    ----------
    basis : (p, n, n) basis B of the symmetric matrices, p = n (n + 1) / 2; its coefficients are coordinates.

    Attributes
    ----------
    dual_basis : (p, n, n) symmetric matrices with the traces tr(D^i B_j) = 1 for i = j, 0 otherwise.

    Raises
    ------
    ShapeError, NonFiniteError; MetricError : a matrix of the basis is not symmetric, or they depend on each
        other.

    Examples
    --------
    >>> import numpy as np
    >>> from connections.geometry import AffineInvariantMetric
    >>> metric = AffineInvariantMetric([np.diag([1.0, 0.0]), 1.0 - np.eye(2), np.diag([0.0, 1.0])])
    >>> one, other = metric.coordinates(np.eye(2)), metric.coordinates(np.diag([np.e, np.e**2]))
    >>> float(metric.distance(one, other).round(9)) == round(5.0**0.5, 9)
    True
    >>> np.log(metric.matrices(metric.geodesic(one, other, 0.5)).diagonal()).round(9)
    array([0.5, 1. ])

    Source: the text of the module.
    """

    basis: Any
    frame: CoordinateFrame = field(init=False)
    dual_basis: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        basis = np.array(as_array("basis", self.basis, (None, None, None)))
        require_finite("basis", basis)
        if basis.ndim != 3 or basis.shape[1] != basis.shape[2] or not basis.size:
            raise ShapeError("basis", "(n (n + 1) / 2, n, n)", basis.shape)
        p, n = len(basis), basis.shape[1]
        if p != n * (n + 1) // 2:
            raise ShapeError("basis", (n * (n + 1) // 2, n, n), basis.shape)
        gaps = np.abs(basis - basis.swapaxes(1, 2)).max(axis=(1, 2))
        if gaps.any():
            raise MetricError(f"basis[{int(np.argmax(gaps))}] is not symmetric (by {gaps.max():.2e})")
        flat = basis.reshape(p, -1)
        singular = np.linalg.svd(flat / np.maximum(np.linalg.norm(flat, axis=1), 1e-300)[:, None])[1]
        if not singular[-1] > p * np.finfo(float).eps * singular[0]:
            raise MetricError("basis: its matrices are not linearly independent")
        object.__setattr__(self, "basis", basis)
        object.__setattr__(self, "frame", CoordinateFrame(p))
        object.__setattr__(self, "dual_basis", np.linalg.pinv(flat).T.reshape(basis.shape))

    @property
    def curvatures(self) -> tuple[float, float]:
        """-1/2 and 0; of numbers 0."""
        return (-0.5, 0.0) if self.frame.dim > 1 else (0.0, 0.0)

    @property
    def injectivity_radius(self) -> float:
        """Infinite: there is one geodesic between two matrices."""
        return float(np.inf)

    # --- definitions at one point ---------------------------------------------------------------------------

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """H(q), (p, p); NaN where P is not positive definite."""
        H: jax.Array = inner_products(self.matrices_at(q), self.basis)
        return H

    def inner_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """tr(P^-1 A P^-1 B), a scalar, also where entries of H are no floats."""
        P = self.matrices_at(q)
        A, B = (whitened(P, self.matrices_at(velocity)) for velocity in (v, w))
        return jnp.sum(A * B)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether P is positive definite, one boolean."""
        return is_definite(self.matrices_at(q))

    def explain(self, q: ArrayLike) -> None:
        """Raise `PointError` with the smallest eigenvalue if P of `q` (p,) is not positive definite."""
        P = np.asarray(self.matrices_at(jnp.asarray(q)))
        if not np.isfinite(P).all() or not jax.jit(is_definite)(P):
            smallest = float(np.linalg.eigvalsh(P)[0]) if np.isfinite(P).all() else np.nan
            raise_at(PointError, f"P is not positive definite (smallest eigenvalue {smallest:.2e})", q)

    def matrices_at(self, q: jax.Array) -> jax.Array:
        """P (n, n)."""
        return jnp.tensordot(q, jnp.asarray(self.basis), axes=1)

    def coordinates_at(self, P: jax.Array) -> jax.Array:
        """The coefficients q (p,) of a symmetric P (n, n)."""
        return jnp.tensordot(jnp.asarray(self.dual_basis), P, axes=2)

    def dual_at(self, covector: jax.Array) -> jax.Array:
        """The symmetric S (n, n) with tr(S B_i) = a_i, of a covector a (p,)."""
        return jnp.tensordot(covector, jnp.asarray(self.dual_basis), axes=1)

    def distance_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """|log eig(P^-1 Q)|, a scalar."""
        X = whitened_logarithm(self.matrices_at(p), self.matrices_at(q))
        return norm_of(X.reshape(-1))

    def exponential_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """Where the geodesic from q with velocity v (p,) is at time 1, (p,)."""
        return self.coordinates_at(exponential(self.matrices_at(q), self.matrices_at(v)))

    def logarithm_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """The velocity v (p,) at p of the geodesic that is at q at time 1."""
        return self.coordinates_at(logarithm(self.matrices_at(p), self.matrices_at(q)))

    def geodesic_at(self, p: jax.Array, q: jax.Array, t: jax.Array) -> jax.Array:
        """The geodesic (p,) that is at p at time 0 and at q at time 1."""
        return self.exponential_at(p, t * self.logarithm_at(p, q))

    def divergence_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """d(P || Q) = tr(Q^-1 P) - log det(Q^-1 P) - n, a scalar."""
        d: jax.Array = divergence(self.matrices_at(p), self.matrices_at(q))
        return d

    def mean_at(self, points: jax.Array, weights: jax.Array) -> jax.Array:
        """The point (p,) from which the logarithms of points (k, p), times weights (k,), sum up to zero.

        NaN if it is not found. Its derivatives are those of the equation that it solves.
        """
        shares = weights / jnp.sum(weights)

        def pull(q: jax.Array) -> jax.Array:
            return jnp.matmul(shares, jax.vmap(lambda point: self.logarithm_at(q, point))(points))

        def tangent(linear: Any, y: jax.Array) -> jax.Array:
            return solve(jax.jacfwd(linear)(y), y)

        found: jax.Array = jax.lax.custom_root(
            pull, points[0], lambda _, start: self._descended(start, points, shares), tangent
        )
        return found

    def _descended(self, start: jax.Array, points: jax.Array, shares: jax.Array) -> jax.Array:
        """The mean, from `start`, by steps 2 / (1 + b) of the weighted logarithm.

        The second derivatives of half the squared distances lie between 1 and b, the mean of x coth x with
        x = log(l_max / l_min) / 2.
        """
        P = jax.vmap(self.matrices_at)(points)
        sizes = jnp.sum(jnp.log(jnp.linalg.eigvalsh(whitened(P[0], P))) ** 2, axis=-1)
        enough = _CONVERGED * jnp.maximum(1.0, jnp.sqrt(shares @ sizes))

        def stepped(state: tuple[Any, jax.Array, jax.Array]) -> tuple[Any, jax.Array, jax.Array]:
            count, X, _ = state
            eigenvalues, U = jnp.linalg.eigh(whitened(X, P))
            x = jnp.log(eigenvalues[:, -1] / eigenvalues[:, 0]) / 2.0
            apart = jnp.where(x > 0.0, x, 1.0)
            bound = shares @ jnp.where(x > 0.0, x / jnp.tanh(apart), 1.0)
            logs = (U * jnp.log(eigenvalues)[:, None, :]) @ U.swapaxes(1, 2)
            step = jnp.tensordot(shares, logs, axes=1)
            X = exponential_in_factor(jnp.linalg.cholesky(X), 2.0 / (1.0 + bound) * step)
            return count + 1, X, jnp.linalg.norm(step)

        state = (0, self.matrices_at(start), jnp.asarray(jnp.inf, P.dtype))
        _, X, rest = jax.lax.while_loop(lambda s: (s[2] > enough) & (s[0] < _STEPS), stepped, state)
        return jnp.where(rest <= enough, self.coordinates_at(X), jnp.nan)

    # --- public ---------------------------------------------------------------------------------------------

    def matrices(self, q: ArrayLike) -> Array:
        """P = q^i B_i, (..., n, n), of coordinates or of velocities (..., p)."""
        return self._linear(self.matrices_at, Argument("q", q, (self.frame.dim,)))

    def coordinates(self, P: Any) -> Array:
        """The coordinates, (..., p), of the symmetric parts of matrices P (..., n, n)."""
        return self._linear(self.coordinates_at, Argument("P", P, self.basis.shape[1:]))

    def dual(self, covector: Any) -> Array:
        """The symmetric S, (..., n, n), with tr(S dP) = a . dq for each dP, of covectors a (..., p)."""
        return self._linear(self.dual_at, Argument("covector", covector, (self.frame.dim,)))

    def distance(self, p: Any, q: ArrayLike) -> Array:
        """|log eig(P^-1 Q)|, (...,), the length of the geodesic between points (..., p).

        Raises
        ------
        ShapeError, NonFiniteError; PointError : a matrix is not positive definite.
        """
        return self._of_two(self.distance_at, p, q)

    def exponential(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Where the geodesics from q (..., p) with velocities v (..., p) are at time 1, (..., p).

        Raises
        ------
        ShapeError, NonFiniteError; PointError : a matrix is not positive definite.
        """
        n = (self.frame.dim,)
        return evaluate(self, self.exponential_at, Argument("q", q, n), Argument("v", v, n))

    def logarithm(self, p: Any, q: ArrayLike) -> Array:
        """The velocities (..., p) at p of the geodesics that are at q (..., p) at time 1.

        Raises
        ------
        ShapeError, NonFiniteError; PointError : a matrix is not positive definite.
        """
        return self._of_two(self.logarithm_at, p, q)

    def geodesic(self, p: Any, q: ArrayLike, t: Any) -> Array:
        """The geodesics that are at p (..., p) at time 0 and at q at time 1, at times t (...,).

        Raises
        ------
        ShapeError, NonFiniteError; PointError : a matrix is not positive definite.
        """
        return self._of_two(self.geodesic_at, p, q, Argument("t", t, ()))

    def divergence(self, p: Any, q: ArrayLike) -> Array:
        """d(P || Q) = tr(Q^-1 P) - log det(Q^-1 P) - n, (...,), of points (..., p); not symmetric in them.

        Raises
        ------
        ShapeError, NonFiniteError; PointError : a matrix is not positive definite.
        """
        return self._of_two(self.divergence_at, p, q)

    def mean(self, points: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """The mean (..., p) of points (..., k, p): it minimizes the weighted sum of squared distances.

        Parameters
        ----------
        points : (..., k, p).
        weights : (..., k), positive; equal ones if None.

        Raises
        ------
        ShapeError, NonFiniteError; PointError : a matrix is not positive definite; ValueError : a weight is
            not positive.
        """
        array = as_array("points", points, (None, self.frame.dim))
        if not array.shape[-2]:
            raise ShapeError("points", "(..., k, p) with k >= 1", array.shape)
        given = np.ones(array.shape[-2]) if weights is None else weights
        weights_array = as_array("weights", given, (array.shape[-2],))
        if not isinstance(weights_array, jax.core.Tracer) and not (np.asarray(weights_array) > 0.0).all():
            raise ValueError("weights: expected positive numbers")
        self._require_points("points", array)
        points_argument = Argument("points", array, (array.shape[-2], self.frame.dim))
        weights_argument = Argument("weights", weights_array, (array.shape[-2],))
        found = evaluate(self, self.mean_at, points_argument, weights_argument, checked=False)
        return as_given(found, points)

    def _linear(self, definition: Any, argument: Argument) -> Array:
        found: Array = evaluate(self, definition, argument, checked=False)
        return found

    def _of_two(self, definition: Any, p: Any, q: Any, *more: Argument) -> Array:
        n = (self.frame.dim,)
        self._require_points("q", as_array("q", q, n))
        found: Array = evaluate(self, definition, Argument("p", p, n), Argument("q", q, n), *more)
        return found

    def _require_points(self, name: str, points: Any) -> None:
        """Raise `PointError` that names the first row of `points` whose P is not positive definite."""
        if isinstance(points, jax.core.Tracer):
            return
        require_finite(name, points)
        array = np.asarray(points)
        smallest = np.linalg.eigvalsh(np.tensordot(array, self.basis, axes=1))[..., 0]
        if not (smallest > 0.0).all():
            where = tuple(map(int, np.argwhere(~(smallest > 0.0))[0]))
            at = f"{name}[{', '.join(map(str, where))}]" if where else name
            raise_at(
                PointError,
                f"{at}: P is not positive definite (smallest eigenvalue {smallest[where]:.2e})",
                array[where],
            )
