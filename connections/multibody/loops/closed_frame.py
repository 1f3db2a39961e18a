"""The frame of a mechanism with closed chains: its independent joints' frame, valid if the loops close."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.geometry import FrameField


@dataclass(frozen=True)
class ClosedChainFrame(FrameField):
    """The product of the independent joints' frames, on the configurations in which all loops close.

    Parameters
    ----------
    joints : the product frame.
    spanning_at : q -> q_s, NaN if loops do not close; two frames are equal only if they share this function.
    explain_loops : raises the error that says which loop does not close at q.
    """

    joints: FrameField
    spanning_at: Callable[[jax.Array], jax.Array]
    explain_loops: Callable[[np.ndarray], None]

    @property
    def dim(self) -> int:  # type: ignore[override]
        """nv."""
        return self.joints.dim

    @property
    def ambient_dim(self) -> int:  # type: ignore[override]
        """nq."""
        return self.joints.ambient_dim

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """X (nq, nv) of the independent joints' frame."""
        return self.joints.matrix_at(q)

    def dual_at(self, q: jax.Array) -> jax.Array:
        """The dual basis (nv, nq) of the independent joints' frame."""
        return self.joints.dual_at(q)

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """The structure functions (nv, nv, nv) of the independent joints' frame."""
        return self.joints.structure_functions_at(q)

    def project_at(self, q: jax.Array) -> jax.Array:
        """q with each quaternion normalized."""
        return self.joints.project_at(q)

    def near_at(self, q: jax.Array) -> jax.Array:
        """Whether each quaternion is nearly of norm one; one boolean."""
        return self.joints.near_at(q)

    def require_near(self, name: str, q: Any) -> np.ndarray:
        """q with each quaternion normalized, or `PointError` that names the joint."""
        return self.joints.require_near(name, q)

    def align_at(self, q: jax.Array, reference: jax.Array) -> jax.Array:
        """q with each quaternion of the sign that is nearer to the reference."""
        return self.joints.align_at(q, reference)

    def retract_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """Each joint moved by its components of xi."""
        return self.joints.retract_at(q, xi)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether quaternions have norm one and all loops close; one boolean."""
        return self.joints.valid_at(q) & jnp.all(jnp.isfinite(self.spanning_at(q)))

    def explain(self, q: Any) -> None:
        """Raise the joints' error, or `ClosureError` naming the loop."""
        self.joints.explain(q)
        self.explain_loops(self.joints.require_near("q", q))

    def __repr__(self) -> str:
        return f"ClosedChainFrame({self.joints})"
