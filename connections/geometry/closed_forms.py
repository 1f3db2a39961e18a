"""Metrics whose exponential and logarithm are known in closed form.

`cn.exponential`, `cn.logarithm`, `cn.distance` and `cn.mean` use them for the Levi-Civita connection.
"""

from __future__ import annotations

import abc

import jax

from connections.geometry.metrics import Metric


class ClosedFormMetric(Metric):
    """A metric with its exponential and logarithm in closed form.

    Examples
    --------
    >>> import connections as cn
    >>> from connections import geometry, spaces
    >>> plane = spaces.hyperbolic(2)
    >>> isinstance(plane, geometry.ClosedFormMetric), plane.curvatures, plane.injectivity_radius
    (True, (-1.0, -1.0), inf)
    >>> float(cn.distance(plane, [0.0, 1.0], [0.0, 2.0]).round(9))
    0.693147181
    """

    @property
    @abc.abstractmethod
    def curvatures(self) -> tuple[float, float]:
        """The least and the largest sectional curvature; 0, 0 in one dimension."""

    @property
    @abc.abstractmethod
    def injectivity_radius(self) -> float:
        """The distance below which there is one shortest geodesic, from any point to any in the space."""

    @abc.abstractmethod
    def exponential_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """Where the geodesic from q (nq,) with the velocity v (n,) is at time 1; NaN outside of the space."""

    @abc.abstractmethod
    def logarithm_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """The velocity (n,) at p (nq,) of the shortest geodesic that is at q at time 1; NaN if none is."""
