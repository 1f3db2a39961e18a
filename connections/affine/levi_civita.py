"""The Riemannian (Levi-Civita) connection of a metric, in any frame.

The unique connection that is metric compatible and torsion free. Source: [W] Thm III.1, eq. (8).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax

from connections._jax import Array, ArrayLike
from connections.affine.connection import ConnectionOfMetric
from connections.affine.koszul import christoffel_along, christoffel_first_kind
from connections.checks import require_type
from connections.evaluation.parameters import is_same
from connections.geometry.closed_forms import ClosedFormMetric
from connections.geometry.metrics import Metric


@dataclass(frozen=True, eq=False, repr=False)
class LeviCivita(ConnectionOfMetric):
    """The Riemannian connection of a metric: generalized Christoffel symbols by the Koszul formula.

    The metric may have any signature; what needs lengths or minima refuses one that is not definite.

    Parameters
    ----------
    metric : the metric; its frame may be any.

    Examples
    --------
    The hyperbolic half plane: its curvature is -1.

    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> nabla.christoffel_symbols([0.0, 2.0])[0, 0, 1]
    np.float64(-0.125)
    >>> nabla.sectional([0.0, 2.0], [1.0, 0.0], [0.0, 1.0]).round(12)
    np.float64(-1.0)

    Source: [W] eq. (8).
    """

    metric: Metric

    def __post_init__(self) -> None:
        require_type("metric", self.metric, Metric)
        object.__setattr__(self, "frame", self.metric.frame)

    def christoffel_symbols(self, q: ArrayLike) -> Array:
        """Christoffel symbols of the first kind, Gamma*_ijk = <<X_i, nabla_{X_j} X_k>>, (..., n, n, n).

        The symbols of the second kind are `coefficients`. In a frame that is not a coordinate frame they are
        generalized: the last two indices are symmetric only up to the frame's brackets.

        Parameters
        ----------
        q : (..., nq) points.

        Raises
        ------
        ShapeError, NonFiniteError, PointError, FrameError, MetricError.

        Source: [W] eq. (8).
        """
        return self.first_kind(q)

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """H^-1 Gamma*_low, (n, n, n)."""
        return self.metric.raised_at(q, christoffel_first_kind(self.metric, q))

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """H^-1 (Gamma*_ijk v^j w^k), (n,): one right-hand side to solve for, not n^2."""
        return self.metric.raised_at(q, self.lowered_at(self.metric, q, v, w))

    def lowered_at(self, metric: Metric, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """Gamma*_ijk v^j w^k, (n,), without H^-1 if `metric` is the connection's own."""
        if not is_same(metric, self.metric):
            return super().lowered_at(metric, q, v, w)
        return christoffel_along(self.metric, q, v, w)

    @property
    def closed_form(self) -> ClosedFormMetric | None:
        """The metric, if its exponential and logarithm are known in closed form."""
        return self.metric if isinstance(self.metric, ClosedFormMetric) else None

    @property
    def riemannian(self) -> LeviCivita:
        """Itself."""
        return self

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The metric is valid."""
        return self.metric.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """The metric's error."""
        self.metric.explain(q)
