"""The frame field of a chart: the coordinate fields, whose brackets vanish."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.checks import require_finite, require_positive_int
from connections.geometry.frames import FrameField


@dataclass(frozen=True)
class CoordinateFrame(FrameField):
    """The coordinate fields d/dq^1 .. d/dq^n of a chart: X = identity, v = qdot, all brackets zero.

    Examples
    --------
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> plane.matrix([0.3, 0.4])
    array([[1., 0.],
           [0., 1.]])
    >>> plane.bracket(lambda q: q[::-1], lambda q: 0 * q + 1.0, [0.3, 0.4])
    array([-1., -1.])
    """

    dim: int

    def __post_init__(self) -> None:
        require_positive_int("dim", self.dim)

    @property
    def ambient_dim(self) -> int:  # type: ignore[override]
        """nq = n."""
        return self.dim

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """The identity, (n, n)."""
        return jnp.eye(self.dim)

    def dual_at(self, q: jax.Array) -> jax.Array:
        """The identity, (n, n)."""
        return jnp.eye(self.dim)

    def velocity_at(self, q: jax.Array, q_dot: jax.Array) -> jax.Array:
        """q_dot itself."""
        return q_dot

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """Zero: coordinate fields commute."""
        return jnp.zeros((self.dim,) * 3)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Every finite q is a point of the chart."""
        return jnp.asarray(True)

    def require_near(self, name: str, q: ArrayLike) -> np.ndarray:
        """q (nq,): every q is a point of the chart."""
        return np.asarray(q)

    def explain(self, q: ArrayLike) -> None:
        """Raise `NonFiniteError` if q is not finite."""
        require_finite("q", q)
