"""The Grassmann manifold of the p-dimensional subspaces of R^n, in the chart of graphs.

A subspace is the graph {(x, Z x)} of a matrix Z (n - p, p) over the first p coordinates. With

    L L^T = 1 + Z^T Z,   K K^T = 1 + Z Z^T,   B = K^-1 dZ L^-T,

the columns of Y = (1; Z) L^-T and of N = (-Z^T; 1) K^-T are orthonormal bases of the subspace and of its
complement, and the metric is tr(B^T B), the sum of the squared rates of the principal angles. A geodesic is
(Y, N) exp(t (0, -B^T; B, 0)) (1; 0).
Source: A. Edelman, T. A. Arias and S. T. Smith, The geometry of algorithms with orthogonality constraints
(1998), section 2.5; Y.-C. Wong, Differential geometry of Grassmann manifolds (1967), for curvature and cuts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import solve
from connections.checks import require_positive_int
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
        inverses = [solve(jnp.eye(len(A)) + A @ A.T, jnp.eye(len(A))) for A in (Z, Z.T)]
        return jnp.kron(*inverses)

    def inner_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """tr(A^T B) of K^-1 V L^-T, a scalar."""
        L, K, _, _ = self._bases_at(q)
        A, B = (solve(K, solve(L, self._matrix(velocity).T).T) for velocity in (v, w))
        return jnp.sum(A * B)

    def exponential_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """Z of the geodesic at time 1; NaN where it is not in the chart."""
        L, K, Y, N = self._bases_at(q)
        B = solve(K, solve(L, self._matrix(v).T).T)
        nothing = jnp.zeros((self.p, self.p)), jnp.zeros((self.n - self.p,) * 2)
        turned = jax.scipy.linalg.expm(jnp.block([[nothing[0], -B.T], [B, nothing[1]]]))[:, : self.p]
        span = jnp.concatenate([Y, N], axis=1) @ turned
        return solve(span[: self.p].T, span[self.p :].T).T.reshape(-1)

    def logarithm_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """K U arctan(s) V^T L^T, with U s V^T = N^T S (Y^T S)^-1, S = (1; Z) at q.

        Its derivatives are those of the equation exp_p(v) = q, because those of singular values do not exist
        where they coincide.
        """

        def tangent(linear: object, y: jax.Array) -> jax.Array:
            return solve(jax.jacfwd(linear)(y), y)  # type: ignore[arg-type]

        found: jax.Array = jax.lax.custom_root(
            lambda v: self.exponential_at(p, v) - q,
            jnp.zeros_like(q),
            lambda *_: self._found_at(p, q),
            tangent,
        )
        return found

    # --- private -------------------------------------------------------------------------------------------

    def _matrix(self, q: jax.Array) -> jax.Array:
        return q.reshape(self.n - self.p, self.p)

    def _bases_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """L, K, Y (n, p) and N (n, n - p)."""
        Z = self._matrix(q)
        L, K = (jnp.linalg.cholesky(jnp.eye(len(A)) + A @ A.T) for A in (Z.T, Z))
        Y = solve(L, jnp.concatenate([jnp.eye(self.p), Z]).T).T
        N = solve(K, jnp.concatenate([-Z.T, jnp.eye(self.n - self.p)]).T).T
        return L, K, Y, N

    def _found_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        L, K, Y, N = self._bases_at(p)
        S = jnp.concatenate([jnp.eye(self.p), self._matrix(q)])
        tangents = solve((Y.T @ S).T, (N.T @ S).T).T
        U, s, V = jnp.linalg.svd(tangents, full_matrices=False)
        return (K @ (U * jnp.arctan(s)[None]) @ V @ L.T).reshape(-1)
