"""Variational steps of a robot inside JAX, by the derivatives of its discrete action.

    L_d(q0, q1) = (h/2) sum V_b . I_b V_b - (h/2) (U(q0) + U(q1)),     V_b = log(T_b(q0)^-1 T_b(q1)) / h,
    P_k = -D_1 L_d - (h/2) tau_k,    P_{k+1} = D_2 L_d + (h/2) tau_{k+1},

over bodies and the rotors that armature stands for. It is the definition of what `kernels/variational.py`
computes by recursion, takes O(n^3) and is differentiated by the equations that a step solves.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from connections.checks import require_shape
from connections.coriolis.system import Forces, MechanicalSystem
from connections.coriolis.variational import TURNED, UNSOLVED, DiscreteSystem, noise_at, solved_at
from connections.geometry.metrics import Metric
from connections.geometry.numerics.definite import solve_definite
from connections.geometry.rigid.rotations import pose_difference


class DiscreteRobot(DiscreteSystem):
    """A robot without loops under a control, for variational steps inside JAX."""

    def __init__(self, system: MechanicalSystem, model: Any, control: Forces | None) -> None:
        self.system, self.model, self.control = system, model, control

    @property
    def metric(self) -> Metric:
        """The system's."""
        return self.system.metric

    def potential_at(self, q: jax.Array) -> jax.Array:
        """The model's, by its definition."""
        energy: jax.Array = self.model.potential_at(q)
        return energy

    def applied_at(self, t: Any, q: jax.Array, v: jax.Array) -> jax.Array:
        """The control, (n,)."""
        if self.control is None:
            return jnp.zeros(self.model.nv)
        return require_shape("control(t, q, v)", self.control(t, q, v), (self.model.nv,))

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Everywhere."""
        return jnp.asarray(True)

    def inertia_at(self, q: jax.Array) -> jax.Array:
        """H = A^T I A of bodies and rotors, (n, n)."""
        inertias = self._inertias
        A = self.model.definition.maps[0](q).reshape(len(inertias), 6, -1)
        return jnp.einsum("bki,bkl,blj->ij", A, inertias, A)

    def momentum_at(self, q: jax.Array, w: jax.Array) -> jax.Array:
        """H w, (n,)."""
        return self.inertia_at(q) @ w

    def components_at(self, q: jax.Array, P: jax.Array) -> jax.Array:
        """H^-1 P, (n,)."""
        return solve_definite(self.inertia_at(q), P)

    def kinetic_at(self, q: jax.Array, w: jax.Array, P: jax.Array) -> jax.Array:
        """w . P / 2, a scalar."""
        energy: jax.Array = 0.5 * w @ P
        return energy

    def action_at(self, q0: jax.Array, q1: jax.Array, h: Any) -> jax.Array:
        """L_d, a scalar."""
        embed = self.model.definition.maps[1]
        ways = jax.vmap(pose_difference)(embed(q0).reshape(-1, 7), embed(q1).reshape(-1, 7))
        kinetic = 0.5 * jnp.einsum("bi,bij,bj", ways, self._inertias, ways) / h
        action: jax.Array = kinetic - 0.5 * h * (self.potential_at(q0) + self.potential_at(q1))
        return action

    def step_at(
        self, t: Any, h: Any, q: jax.Array, P: jax.Array, differentiable: bool
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(q_{k+1}, P_{k+1}, why), as `DiscreteSystem.step_at`."""
        frame, H = self.metric.frame, self.inertia_at(q)
        X = frame.matrix_at(q)

        def size(u: jax.Array) -> jax.Array:
            return jnp.sqrt(jnp.maximum(u @ H @ u, 0.0))

        def equations(u: jax.Array) -> jax.Array:
            slope: jax.Array = jax.grad(self.action_at)(q, self._displaced_at(q, h * u), h)
            missing: jax.Array = -slope @ X - 0.5 * h * self.applied_at(t, q, u) - P
            return missing

        start, noisy = solve_definite(H, P), noise_at(frame, H, h, q)
        u, good = solved_at(equations, start, size, slice(None), noisy, differentiable)
        end = frame.project_at(self._displaced_at(q, h * u))
        slope = jax.grad(self.action_at, argnums=1)(q, end, h)
        after = slope @ frame.matrix_at(end) + 0.5 * h * self.applied_at(t + h, end, u)
        poses = (self.model.definition.maps[1](p).reshape(-1, 7)[:, 3:] for p in (q, end))
        turned = jnp.any(jnp.sum(jnp.multiply(*poses), axis=1) <= 0.0)
        return end, after, jnp.where(good > 0.0, jnp.where(turned, TURNED, 0), UNSOLVED)

    @property
    def _inertias(self) -> jax.Array:
        return jnp.asarray(self.model.definition.inertias)

    def _displaced_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """q exp(xi), (nq,), joint by joint."""
        for joint, _, at_q, at_v in self.model.kinematics.elements:
            q = q.at[at_q].set(joint.displaced_at(q[at_q], xi[at_v]))
        return q
