"""The Grassmann manifold of the p-dimensional subspaces of R^n, in the chart of graphs.

A subspace is the graph {(x, Z x)} of a matrix Z (n - p, p) over the first p coordinates. With

    L L^T = 1 + Z^T Z,   K K^T = 1 + Z Z^T,   B = K^-1 dZ L^-T,

the columns of Y = (1; Z) L^-T and of N = (-Z^T; 1) K^-T are orthonormal bases of the subspace and of its
complement, and the metric is tr(B^T B), the sum of the squared rates of the principal angles. A geodesic is
(Y, N) exp(t (0, -B^T; B, 0)) (1; 0) = Y cos(t R) + N B sin(t R) / R with R^2 = B^T B.
Source: A. Edelman, T. A. Arias and S. T. Smith, The geometry of algorithms with orthogonality constraints
(1998), section 2.5; Y.-C. Wong, Differential geometry of Grassmann manifolds (1967), for curvature and cuts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike, solve
from connections.checks import MetricError, raise_at, require_positive_int
from connections.geometry.closed_forms import ClosedFormMetric
from connections.geometry.coordinate_frame import CoordinateFrame


def grassmann(n: int, p: int) -> ClosedFormMetric:
    """The metric of the subspaces of p dimensions in R^n, ds^2 the sum of squared principal angles.

    Parameters
    ----------
    n, p : dimensions, 0 < p < n. A point q (p (n - p),) has the rows of Z (n - p, p), whose graph {(x, Z x)}
        is the subspace: of a basis Y (n, p), Z = Y[p:] Y[:p]^-1. Subspaces that contain a vector orthogonal
        to all x are not in the chart.

    Raises
    ------
    ValueError : p is not less than n, or there is no such dimension.

    Examples
    --------
    Lines in the plane: the angle between the first axis and the diagonal.

    >>> import connections as cn
    >>> from connections import spaces
    >>> float(cn.distance(spaces.grassmann(2, 1), [0.0], [1.0]).round(9))
    0.785398163

    Source: the text of the module.
    """
    require_positive_int("n", n)
    require_positive_int("p", p)
    if not p < n:
        raise ValueError(f"p: expected less than n = {n}, got {p}")
    return GrassmannMetric(n, p)


_STEEPEST = 1e9  # Z of points at which something begins
_DOUBLINGS, _TERMS, _LONGEST = 12, 11, 4096.0  # the series' first term that is left out is below 1e-21


@dataclass(frozen=True, eq=False, repr=False)
class GrassmannMetric(ClosedFormMetric):
    """tr(B^T B) of subspaces of p dimensions in R^n."""

    n: int
    p: int
    frame: CoordinateFrame = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", CoordinateFrame(self.p * (self.n - self.p)))

    @property
    def curvatures(self) -> tuple[float, float]:
        """0 and 2; of lines and of hyperplanes 1, as on the sphere."""
        if self.frame.dim == 1:
            return 0.0, 0.0
        return (1.0, 1.0) if min(self.p, self.n - self.p) == 1 else (0.0, 2.0)

    @property
    def injectivity_radius(self) -> float:
        """A right angle."""
        return float(np.pi / 2)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """(1 + Z Z^T)^-1 times (1 + Z^T Z)^-1, Kronecker's product, (p (n - p), p (n - p))."""
        Z = self._matrix(q)
        roots = [solve(_factor(A), jnp.eye(A.shape[1])) for A in (Z.T, Z)]
        return jnp.kron(*(root.T @ root for root in roots))

    def inner_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """tr(A^T B) of K^-1 V L^-T, a scalar."""
        L, K, _, _ = self._bases_at(q)
        A, B = (solve(K, solve(L, self._matrix(velocity).T).T) for velocity in (v, w))
        return jnp.sum(A * B)

    def exponential_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """Z of the geodesic at time 1; NaN where it is not in the chart, or longer than `_LONGEST`."""
        L, K, Y, N = self._bases_at(q)
        B = solve(K, solve(L, self._matrix(v).T).T)
        cosine, ratio = _cosine_and_ratio(B.T @ B)
        span = Y @ cosine + N @ B @ ratio
        return solve(span[: self.p].T, span[self.p :].T).T.reshape(-1)

    def logarithm_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """K U arctan(s) V^T L^T, with U s V^T = N^T S (Y^T S)^-1, S = (1; Z) at q."""
        return _logarithm_at(self, p, q)

    def distance_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """The root of the sum of the squared angles, from the point where Z is smaller, a scalar."""
        swapped = jnp.max(jnp.abs(p)) > jnp.max(jnp.abs(q))
        p, q = jnp.where(swapped, q, p), jnp.where(swapped, p, q)
        return jnp.where(jnp.max(jnp.abs(p)) <= _STEEPEST, super().distance_at(p, q), jnp.nan)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether Z and H have digits: K errs by eps |Z|."""
        return super().valid_at(q) & (jnp.max(jnp.abs(q)) <= _STEEPEST)

    def reached_at(self, q: jax.Array) -> jax.Array:
        """Whether Z is finite."""
        return jnp.all(jnp.isfinite(q))

    def explain_end(self, q: ArrayLike) -> None:
        """Raise `NonFiniteError` unless Z is finite."""
        self.frame.explain(q)

    def explain(self, q: ArrayLike) -> None:
        """Raise `MetricError` where floats have lost the digits of H."""
        self.frame.explain(q)
        if not bool(self.valid_at(jnp.asarray(q))):
            angle = 1.0 / np.linalg.norm(np.asarray(self._matrix(jnp.asarray(q))), 2)
            why = f"the subspace is within {angle:.1e} rad of a right angle to the first {self.p} axes"
            advice = "where floats have lost the digits of H; let other coordinates be the first"
            raise_at(MetricError, f"{why}, {advice}", q)

    # --- private -------------------------------------------------------------------------------------------

    def _matrix(self, q: jax.Array) -> jax.Array:
        return q.reshape(self.n - self.p, self.p)

    def _bases_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """L, K, Y (n, p) and N (n, n - p)."""
        Z = self._matrix(q)
        L, K = _factor(Z), _factor(Z.T)
        Y = solve(L, jnp.concatenate([jnp.eye(self.p), Z]).T).T
        N = solve(K, jnp.concatenate([-Z.T, jnp.eye(self.n - self.p)]).T).T
        return L, K, Y, N


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _logarithm_at(metric: GrassmannMetric, p: jax.Array, q: jax.Array) -> jax.Array:
    """The logarithm, whose derivatives are those of the equation exp_p(v) = q.

    Those of singular values do not exist where they coincide.
    """
    L, K, Y, _ = metric._bases_at(p)
    S = jnp.concatenate([jnp.eye(metric.p), metric._matrix(q)])
    away = solve(K, metric._matrix(q) - metric._matrix(p))  # N^T S
    U, s, V = jnp.linalg.svd(solve((Y.T @ S).T, away.T).T, full_matrices=False)
    return (K @ (U * jnp.arctan(s)[None]) @ V @ L.T).reshape(-1)


@_logarithm_at.defjvp
def _differentiated(metric: GrassmannMetric, points: Any, changes: Any) -> tuple[jax.Array, jax.Array]:
    (p, q), (dp, dq) = points, changes
    v = _logarithm_at(metric, p, q)
    _, moved = jax.jvp(lambda p: metric.exponential_at(p, v), (p,), (dp,))
    return v, solve(jax.jacfwd(lambda v: metric.exponential_at(p, v))(v), dq - moved)


def _cosine_and_ratio(M: jax.Array) -> tuple[jax.Array, jax.Array]:
    """cos R and sin(R) / R, (p, p), of M = R^2, by their series at R / 2^k, and k doublings of the angle."""
    small = jnp.where(jnp.trace(M) <= _LONGEST**2, M, jnp.nan) / 4.0**_DOUBLINGS
    versed, ratio, power = jnp.zeros_like(M), jnp.eye(len(M)), jnp.eye(len(M))
    for k in range(1, _TERMS):
        power = -power @ small / (2 * k * (2 * k - 1))
        versed, ratio = versed - power, ratio + power / (2 * k + 1)

    def doubled(state: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, jax.Array], None]:
        versed, ratio = state  # 1 - cos R, which keeps the digits of a small angle
        return (2.0 * (2.0 * versed - versed @ versed), ratio - ratio @ versed), None

    (versed, ratio), _ = jax.lax.scan(doubled, (versed, ratio), None, length=_DOUBLINGS)
    return jnp.eye(len(M)) - versed, ratio


def _factor(Z: jax.Array) -> jax.Array:
    """L (p, p) with L L^T = 1 + Z^T Z, of Z (m, p), without the squares: R^T of (Z; 1) = Q R."""
    return jnp.linalg.qr(jnp.concatenate([Z, jnp.eye(Z.shape[1])]))[1].T
