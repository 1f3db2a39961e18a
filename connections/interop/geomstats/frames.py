"""Orthonormal frames of the sphere and the hyperboloid in R^(n+1), with their brackets in closed form.

Both are conformal to the flat space of the stereographic coordinates w, X_i = (1 / phi) d/dw_i with
phi = 2 / (1 + c |w|^2), c = 1 on the sphere and -1 on the hyperboloid, so [X_i, X_j] = c (w_i X_j - w_j X_i).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import FrameError, raise_at, require_finite
from connections.geometry.frames import FrameField

AT_POLE = 1e-12


@dataclass(frozen=True)
class SphereFrame(FrameField):
    """The unit sphere in R^(n+1) without one point.

    Parameters
    ----------
    pole : that point, (n + 1,), of norm one.
    """

    pole: tuple[float, ...]
    _first: np.ndarray = field(init=False, repr=False, compare=False)
    _rest: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        first = -np.asarray(self.pole)
        basis = np.linalg.svd(first[None, :])[2]  # completes `first` to an orthonormal basis
        object.__setattr__(self, "_first", first)
        object.__setattr__(self, "_rest", basis[1:].T)

    @property
    def dim(self) -> int:  # type: ignore[override]
        """n, one less than the length of the pole."""
        return len(self.pole) - 1

    @property
    def ambient_dim(self) -> int:  # type: ignore[override]
        """n + 1, the length of the pole."""
        return len(self.pole)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """The reflection that takes the pole to q, on the vectors orthogonal to the pole, (n + 1, n)."""
        return jnp.asarray(self._rest) - jnp.outer(q + self._first, self._flat_at(q))

    def dual_at(self, q: jax.Array) -> jax.Array:
        """The transpose, (n, n + 1)."""
        return self.matrix_at(q).T

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """s[k, i, j] = w_i delta_kj - w_j delta_ki."""
        return _conformal(self._flat_at(q), 1.0)

    def project_at(self, q: jax.Array) -> jax.Array:
        """q / |q|."""
        norm: jax.Array = jnp.linalg.norm(q)
        return q / norm

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether q is on the sphere, and not the pole."""
        return self.near_at(q) & (1.0 + q @ self._first > AT_POLE)

    def explain(self, q: Any) -> None:
        """Raise `PointError` off the sphere, `FrameError` at the pole."""
        require_finite("q", q)
        if not 1.0 + self.require_near("q", q) @ self._first > AT_POLE:
            raise_at(FrameError, "the frame of the sphere is singular at its pole: choose another pole", q)

    def _flat_at(self, q: jax.Array) -> jax.Array:
        """Stereographic coordinates w, (n,)."""
        return (q @ self._rest) / (1.0 + q @ self._first)


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
        return jnp.concatenate([q[None, 1:], jnp.eye(self.dim) + jnp.outer(q[1:], q[1:]) / (1.0 + q[0])])

    def dual_at(self, q: jax.Array) -> jax.Array:
        """The transpose, with the sign of the first column changed, (n, n + 1)."""
        return self.matrix_at(q).T * jnp.ones(self.ambient_dim).at[0].set(-1.0)

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """s[k, i, j] = w_j delta_ki - w_i delta_kj."""
        return _conformal(q[1:] / (1.0 + q[0]), -1.0)

    def project_at(self, q: jax.Array) -> jax.Array:
        """The point with the same x_1 .. x_n."""
        return jnp.concatenate([jnp.sqrt(1.0 + q[1:] @ q[1:])[None], q[1:]])

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether q is on the sheet."""
        return self.near_at(q)

    def explain(self, q: Any) -> None:
        """Raise `PointError` off the sheet."""
        require_finite("q", q)
        self.require_near("q", q)


def _conformal(w: jax.Array, sign: float) -> jax.Array:
    """sign (w_i delta_kj - w_j delta_ki), index order [k, i, j]."""
    s = jnp.einsum("i,kj->kij", w, jnp.eye(w.shape[0]))
    return sign * (s - jnp.swapaxes(s, 1, 2))
