"""A frame on a part of its manifold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from connections.geometry.frames import FrameOnPoints


@dataclass(frozen=True)
class RestrictedFrame(FrameOnPoints):
    """The fields of `base` at those points where a condition holds.

    Parameters
    ----------
    base : the frame on the whole manifold.
    inside_at : q (nq,) -> whether the condition holds, one boolean; JAX-traceable. Two frames are equal only
        if they share this function.
    explain_outside : q (nq,) -> None; raises the error that says why the condition does not hold.
    """

    inside_at: Callable[[jax.Array], jax.Array]
    explain_outside: Callable[[np.ndarray], None]

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """X of the base, (nq, n)."""
        return self.base.matrix_at(q)

    def dual_at(self, q: jax.Array) -> jax.Array:
        """The base's dual, (n, nq)."""
        return self.base.dual_at(q)

    def velocity_at(self, q: jax.Array, q_dot: jax.Array) -> jax.Array:
        """The base's components, (n,)."""
        return self.base.velocity_at(q, q_dot)

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """The base's, (n, n, n)."""
        return self.base.structure_functions_at(q)

    def retract_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """The base's retraction."""
        return self.base.retract_at(q, xi)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the base is valid and the condition holds; one boolean."""
        return self.base.valid_at(q) & self.inside_at(q)

    def explain(self, q: Any) -> None:
        """Raise the base's error, or that of the condition."""
        self.base.explain(q)
        self.explain_outside(self.base.require_near("q", q))
