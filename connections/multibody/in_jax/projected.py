"""The dynamics of a closed chain by the recursions of its spanning tree, for derivatives of second order.

With spanning velocities v_s = G v, whose rate is G a + Gdot v,

    tau = G^T tau_s(q_s, G v, G a + Gdot v),    H = G^T H_s G.

JAX differentiates q_s and G, whose program is small, and the derivatives of tau_s are recursions of trees.
The definition by rigid bodies takes twice as long to compile. Source: [W] VI-C1.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from connections.geometry import FrameField
from connections.geometry.numerics.definite import solve_definite
from connections.multibody.loops.closed_kinematics import ClosedKinematics


class ProjectedDynamics:
    """A closed chain, as far as definitions of the derivatives of its dynamics use it.

    Parameters
    ----------
    kinematics : of the closed chain.
    tree : the recursions of the spanning tree, (name, q_s, vectors...) -> the result; JAX-traceable.
    """

    def __init__(self, kinematics: ClosedKinematics, tree: Callable[..., jax.Array]) -> None:
        self._kinematics, self._tree = kinematics, tree

    @property
    def frame(self) -> FrameField:
        """The frame in which v are components."""
        return self._kinematics.joint_frame

    @property
    def definition(self) -> ProjectedDynamics:
        """Itself."""
        return self

    @property
    def system(self) -> ProjectedDynamics:
        """Itself."""
        return self

    def inverse_dynamics_at(self, q: jax.Array, v: jax.Array, a: jax.Array) -> jax.Array:
        """tau (nv,) at q (nq,), v and a (nv,)."""
        kinematics = self._kinematics
        q_s = kinematics.spanning_at(q)
        G = kinematics.G_at(q_s)
        v_s, bias = jax.jvp(
            lambda q: kinematics.G_at(kinematics.spanning_at(q)) @ v, (q,), (self.frame.matrix_at(q) @ v,)
        )
        return G.T @ self._tree("inverse_dynamics", q_s, v_s, G @ a + bias)

    def forward_dynamics_at(self, q: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
        """a (nv,) at q (nq,), v and tau (nv,)."""
        q_s = self._kinematics.spanning_at(q)
        G = self._kinematics.G_at(q_s)
        H = G.T @ self._tree("mass_matrix", q_s) @ G
        return solve_definite(H, tau - self.inverse_dynamics_at(q, v, jnp.zeros_like(v)))
