"""The connection that a connection on an ambient manifold induces on a submanifold.

Gammabar_ijk = <<Xbar_i, nabla_{Xbar_j} Xbar_k>> with Xbar_j = A^i_j X_i, so with A_k the columns of A
Gammabar_low[:, j, k] = A^T H (L_{Xbar_j} A_k + Gamma(A_j, A_k)). Source: [W] V, Thm V.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from connections._jax import ArrayLike
from connections.affine.connection import AffineConnection, ConnectionOfMetric
from connections.affine.koszul import bound_by_lengths, raise_first_index, raised_terms
from connections.affine.levi_civita import LeviCivita
from connections.checks import require_same_frame, require_type
from connections.evaluation.parameters import is_same
from connections.geometry.frames import FrameField, PointFunction
from connections.geometry.metrics import InducedMetric, Metric
from connections.geometry.numerics.definite import solve_definite
from connections.geometry.numerics.scales import FLOOR, lengths_of


@dataclass(frozen=True, eq=False, repr=False)
class InducedConnection(ConnectionOfMetric):
    """nablabar_X Y = proj nabla_X Y, the projection orthogonal in the ambient metric.

    Parameters
    ----------
    ambient : connection on the ambient manifold.
    ambient_metric : metric of the orthogonal projection.
    frame : frame of the submanifold.
    inclusion : qbar -> A (n, m), v = A vbar; JAX-traceable.
    embedding : qbar -> q; the identity if None.

    Attributes
    ----------
    metric : the induced metric A^T H A.

    Raises
    ------
    FrameError : `ambient` and `ambient_metric` are in different frames, or, at a point, A is not the
        derivative of the embedding.

    Examples
    --------
    A circle of radius 2 in the plane with the flat connection.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> plane, line = cn.CoordinateFrame(2), cn.CoordinateFrame(1)
    >>> flat = cn.ConstantMetric(plane, np.eye(2))
    >>> circle = lambda a: 2 * jnp.array([jnp.cos(a[0]), jnp.sin(a[0])])
    >>> tangent = lambda a: 2 * jnp.array([[-jnp.sin(a[0])], [jnp.cos(a[0])]])
    >>> nabla = cn.InducedConnection(cn.LeviCivita(flat), flat, line, tangent, circle)
    >>> nabla.metric.matrix([0.3]).round(6)
    array([[4.]])

    Source: [W] V-A, eq. (17).
    """

    ambient: AffineConnection
    metric: InducedMetric

    def __init__(
        self,
        ambient: AffineConnection,
        ambient_metric: Metric,
        frame: FrameField,
        inclusion: PointFunction,
        embedding: PointFunction | None = None,
    ) -> None:
        require_type("ambient", ambient, AffineConnection)
        require_type("ambient_metric", ambient_metric, Metric)
        require_same_frame(
            ambient.frame, "the ambient connection", ambient_metric.frame, "the ambient metric"
        )
        object.__setattr__(self, "ambient", ambient)
        object.__setattr__(self, "metric", InducedMetric(ambient_metric, frame, inclusion, embedding))
        object.__setattr__(self, "frame", frame)

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """Hbar^-1 A^T H (L_{Xbar_j} A_k + Gamma(A_j, A_k)), (m, m, m)."""
        A, weighted, dA = self._pieces_at(q)
        turning = self._turning_at(q, A)
        low = jnp.einsum("ni,njk->ijk", weighted, dA) + jnp.einsum("ni,njk->ijk", A, turning)
        return raise_first_index(weighted.T @ A, low)

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """Hbar^-1 A^T H (A_dot(v) w + Gamma(A v, A w)), (m,)."""
        return solve_definite(self.metric.matrix_at(q), self.lowered_at(self.metric, q, v, w))

    def lowered_at(self, metric: Metric, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """A^T H (A_dot(v) w + Gamma(A v, A w)), (m,), without Hbar^-1 if `metric` is the induced one."""
        if not is_same(metric, self.metric):
            return super().lowered_at(metric, q, v, w)
        A, A_dot = jax.jvp(self.metric.inclusion_at, (q,), (self.frame.matrix_at(q) @ v,))
        ambient, p = self.metric.ambient_metric, self.metric.embed_at(q)
        carried = self.ambient.lowered_at(ambient, p, A @ v, A @ w)
        low: jax.Array = A.T @ (ambient.matrix_at(p) @ (A_dot @ w) + carried)
        return low

    @property
    def compatible(self) -> bool:
        """Whether the ambient connection is compatible with the ambient metric of the induced one."""
        return self.ambient.compatible and is_same(self.ambient.known_metric, self.metric.ambient_metric)

    @property
    def riemannian(self) -> InducedConnection | LeviCivita | None:
        """Itself or that of the induced metric, if the ambient geodesics are those of the ambient metric."""
        ambient = self.ambient.riemannian
        if ambient is None or not is_same(ambient.known_metric, self.metric.ambient_metric):
            return None
        return self if ambient is self.ambient else LeviCivita(self.metric)

    def scale_at(self, q: jax.Array) -> jax.Array:
        """|Hbar^-1| times |A^T H| |dA|, |A^T| |H Gamma(A, A)|, and `bound_by_lengths`, (m, m, m)."""
        A, weighted, dA = self._pieces_at(q)
        H_bar = weighted.T @ A
        terms = jnp.einsum("ni,njk->ijk", jnp.abs(weighted), jnp.abs(dA))
        terms += jnp.einsum("ni,njk->ijk", jnp.abs(A), jnp.abs(self._turning_at(q, A)))
        return raised_terms(H_bar, terms + FLOOR * bound_by_lengths(terms, lengths_of(H_bar)))

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The induced metric is valid, and so is the ambient connection."""
        return self.metric.valid_at(q) & self.ambient.valid_at(self.metric.embed_at(q))

    def explain(self, q: ArrayLike) -> None:
        """The induced metric's error, or the ambient connection's."""
        self.metric.explain(q)
        self.ambient.explain(self.metric.embed_at(jnp.asarray(q)))

    def _pieces_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """A (n, m), H A (n, m) and dA[:, j, k] = L_{Xbar_j} A_k (n, m, m)."""
        metric = self.metric
        A = metric.inclusion_at(q)
        dA = jnp.swapaxes(self.frame.lie_derivative_at(metric.inclusion_at, q), 0, 1)
        return A, metric.ambient_metric.matrix_at(metric.embed_at(q)) @ A, dA

    def _turning_at(self, q: jax.Array, A: jax.Array) -> jax.Array:
        """H Gamma(A_j, A_k), (n, m, m), by pairs of columns, so that no (n, n, n) tensor is formed."""
        p, metric = self.metric.embed_at(q), self.metric.ambient_metric

        def lowered(v: jax.Array, w: jax.Array) -> jax.Array:
            return self.ambient.lowered_at(metric, p, v, w)

        return jax.vmap(jax.vmap(lowered, (None, 1), 1), (1, None), 1)(A, A)
