"""Metrics whose exponential and logarithm are known in closed form.

`cn.exponential`, `cn.logarithm`, `cn.distance` and `cn.mean` use them for the Levi-Civita connection.
"""

from __future__ import annotations

import abc

import jax
import jax.numpy as jnp

from connections._jax import ArrayLike
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

    def distance_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """The length of that geodesic, |log_p q|, a scalar; NaN where it is not known.

        Where p = q its derivative is 0, and its second ones are NaN.
        """
        v = self.logarithm_at(p, q)
        scale = _scale_of(v)
        length = scale * root_of(self.inner_at(p, v / scale, v / scale))
        # Where H is not a float any more, a length of zero would be no error.
        return jnp.where((length > 0.0) | jnp.all(v == 0.0), length, jnp.nan)

    def end_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """The point (nq,) of `exponential_at`; NaN unless it is one of the space."""
        end = self.exponential_at(q, v)
        return jnp.where(self.reached_at(end), end, jnp.nan)

    def reached_at(self, q: jax.Array) -> jax.Array:
        """Whether logarithms and distances lead to q (nq,), one boolean; the frame may be singular there."""
        return self.valid_at(q)

    def explain_end(self, q: ArrayLike) -> None:
        """Raise the error that says why `q` (nq,) is not reached."""
        self.explain(q)


def norm_of(v: jax.Array) -> jax.Array:
    """|v| of a vector (n,), whose squares need not be floats."""
    scale = _scale_of(v)
    length: jax.Array = scale * root_of(jnp.sum((v / scale) ** 2))
    return length


def root_of(square: jax.Array) -> jax.Array:
    """The root of the square of a length, whose derivatives at zero are 0 and, from the second on, NaN.

    A length has no derivative there. Zero is the least of its subgradients, as `jnp.abs` has, so that the
    gradient of a squared length is right; no second derivative would make that of the square right.
    """
    none = square == 0.0
    return jnp.where(none, square**1.5, jnp.sqrt(jnp.where(none, 1.0, square)))


def _scale_of(v: jax.Array) -> jax.Array:
    """The largest entry, as a constant, or one."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(v), initial=0.0))
    return jnp.where(largest > 0.0, largest, 1.0)
