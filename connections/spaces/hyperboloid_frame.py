"""The orthonormal frame of the hyperboloid in R^(n+1), with its brackets in closed form.

It is conformal to the flat space of the stereographic coordinates w, X_i = (1 / phi) d/dw_i with
phi = 2 / (1 - |w|^2), so [X_i, X_j] = -(w_i X_j - w_j X_i).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from connections.checks import require_finite
from connections.geometry.closed_forms import norm_of
from connections.geometry.frames import FrameField
from connections.geometry.sphere import conformal_brackets


@dataclass(frozen=True)
class HyperboloidFrame(FrameField):
    """The sheet x_0 > 0 of -x_0^2 + |x|^2 = -1 in R^(n+1), in the frame that boosts carry from (1, 0).

    Parameters
    ----------
    dim : n.
    """

    dim: int

    @property
    def ambient_dim(self) -> int:  # type: ignore[override]
        """One more than n."""
        return self.dim + 1

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """The boost that takes (1, 0) to q, without its first column, (n + 1, n)."""
        return jnp.concatenate([q[None, 1:], jnp.eye(self.dim) + jnp.outer(q[1:] / (1.0 + q[0]), q[1:])])

    def dual_at(self, q: jax.Array) -> jax.Array:
        """The transpose, with the sign of the first column changed, (n, n + 1)."""
        return self.matrix_at(q).T * jnp.ones(self.ambient_dim).at[0].set(-1.0)

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """s[k, i, j] = w_j delta_ki - w_i delta_kj."""
        return conformal_brackets(q[1:] / (1.0 + q[0]), -1.0)

    def project_at(self, q: jax.Array) -> jax.Array:
        """The point with the same x_1 .. x_n."""
        return jnp.concatenate([norm_of(q.at[0].set(1.0))[None], q[1:]])

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether q is on the sheet."""
        return self.near_at(q)

    def explain(self, q: Any) -> None:
        """Raise `PointError` off the sheet."""
        require_finite("q", q)
        self.require_near("q", q)
