"""Variational steps of a robot inside JAX, by the derivatives of its discrete action.

    L_d(q0, q1) = (h/2) sum V_b . I_b V_b - (h/2) (U(q0) + U(q1)),     V_b = log(T_b(q0)^-1 T_b(q1)) / h,
    P_k = -D_1 L_d - (h/2) tau_k,    P_{k+1} = D_2 L_d + (h/2) tau_{k+1},

over bodies and the rotors that armature stands for. It is the definition of what `kernels/variational.py`
computes by recursion (`in_jax/steps.py`), takes O(n^3), is for forces that change with the velocity, and is
differentiated by the equations that a step solves.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import require_shape
from connections.coriolis.system import Forces, MechanicalSystem
from connections.coriolis.variational import TURNED, UNSOLVED, DiscreteSystem, Search, noise_at, solved_at
from connections.engines.inlined.logarithms import TERMS, F
from connections.geometry.metrics import Metric
from connections.geometry.numerics.definite import solve_definite
from connections.geometry.rigid.rotations import pose_difference
from connections.geometry.rigid.twists import force_cross


class DiscreteRobot(DiscreteSystem):
    """A robot under a control, for variational steps inside JAX; loops are closed at every point."""

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
        ways = self._ways_at(q0, q1)
        kinetic = 0.5 * jnp.einsum("bi,bij,bj", ways, self._inertias, ways) / h
        action: jax.Array = kinetic - 0.5 * h * (self.potential_at(q0) + self.potential_at(q1))
        return action

    def momentum_of_way_at(self, q0: jax.Array, q1: jax.Array, h: jax.Array) -> jax.Array:
        """J(q0)^T p, (n,), of the way to q1 in the time h (1,): -D_1 of the kinetic action, written out."""
        ways = self._ways_at(q0, q1)
        momenta = jax.vmap(discrete_momentum_of_way)(ways, jnp.einsum("bij,bj->bi", self._inertias, ways))
        A: jax.Array = self.model.definition.maps[0](q0)
        return momenta.reshape(-1) @ A / h

    def checked_momentum_at(self, q0: jax.Array, q1: jax.Array, h: jax.Array) -> jax.Array:
        """`momentum_of_way_at`, and behind it why there is none, `TURNED` or 0, (n + 1,)."""
        why = jnp.where(self.turns_at(q0, q1), float(TURNED), 0.0)
        return jnp.append(self.momentum_of_way_at(q0, q1, h), why)

    def _ways_at(self, q0: jax.Array, q1: jax.Array) -> jax.Array:
        """log(T_b(q0)^-1 T_b(q1)) of bodies and rotors, (N + R, 6)."""
        embed = self.model.definition.maps[1]
        return jax.vmap(pose_difference)(embed(q0).reshape(-1, 7), embed(q1).reshape(-1, 7))

    def step_at(
        self, t: Any, h: Any, q: jax.Array, P: jax.Array, differentiable: bool
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(q_{k+1}, P_{k+1}, why), as `DiscreteSystem.step_at`; by the recursion if there is no control."""
        if self.control is None:
            found: tuple[jax.Array, jax.Array, jax.Array]
            found = self.model.traced.steps.step_at(q, P, jnp.zeros(self.model.nv), h)
            return found
        return self.defined_step_at(t, h, q, P, self.applied_at, differentiable)

    def defined_step_at(
        self, t: Any, h: Any, q: jax.Array, P: jax.Array, applied: Any, differentiable: bool
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(q_{k+1}, P_{k+1}, why): one step of order 2, by the derivatives of the action.

        Parameters
        ----------
        applied : (t, q, v) -> (n,), the forces.
        """
        frame, H = self.metric.frame, self.inertia_at(q)
        X = frame.matrix_at(q)

        def size(u: jax.Array) -> jax.Array:
            return jnp.sqrt(jnp.maximum(u @ H @ u, 0.0))

        def equations(u: jax.Array) -> jax.Array:
            slope: jax.Array = jax.grad(self.action_at)(q, self._displaced_at(q, h * u), h)
            missing: jax.Array = -slope @ X - 0.5 * h * applied(t, q, u) - P
            return missing

        start, noisy = solve_definite(H, P), noise_at(frame, H, h, q)
        search = Search(start, size, size, slice(None), noisy, 1.0)
        u, good = solved_at(equations, search, differentiable)
        end = frame.project_at(self._displaced_at(q, h * u))
        slope = jax.grad(self.action_at, argnums=1)(q, end, h)
        after = slope @ frame.matrix_at(end) + 0.5 * h * applied(t + h, end, u)
        return end, after, jnp.where(good > 0.0, jnp.where(self.turns_at(q, end), TURNED, 0), UNSOLVED)

    def turns_at(self, q0: jax.Array, q1: jax.Array) -> jax.Array:
        """Whether a body, or the angle of a joint, turns by half a turn or more from q0 to q1, (nq,) each."""
        q1, kinematics = self.metric.frame.align_at(q1, q0), self.model.kinematics
        poses = (self.model.definition.maps[1](q).reshape(-1, 7)[:, 3:] for q in (q0, q1))
        bodies = jnp.any(jnp.sum(jnp.multiply(*poses), axis=1) <= 0.0)
        if self.model.closed:
            q0, q1, kinematics = *(kinematics.spanning_at(q) for q in (q0, q1)), kinematics.spanning
        angles = np.array(
            [e.q.start for e in kinematics.elements if e.joint.nq == 1 and e.joint.turns[0]], int
        )
        return bodies | jnp.any(jnp.abs(q1[angles] - q0[angles]) >= jnp.pi)

    @property
    def _inertias(self) -> jax.Array:
        return jnp.asarray(self.model.definition.inertias)

    def _displaced_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """q exp(xi), (nq,), joint by joint."""
        for joint, _, at_q, at_v in self.model.kinematics.elements:
            q = q.at[at_q].set(joint.displaced_at(q[at_q], xi[at_v]))
        return q


def discrete_momentum_of_way(x: jax.Array, y: jax.Array) -> jax.Array:
    """(dtau^-1_x)^T y, (6,), as `kernels.variational.discrete_momentum_of`."""
    square = x[:3] @ x[:3]
    once = force_cross(x, y)
    twice = force_cross(x, once)
    fourth = force_cross(x, force_cross(x, twice))
    return y + 0.5 * once + _series(_SECOND, square) * twice + _series(_FOURTH, square) * fourth


#: Coefficients of a and b of dtau^-1 as series in the squared angle, the highest power first.
_SECOND = tuple((2 - n) * F[n] for n in range(TERMS, 0, -1))
_FOURTH = tuple((1 - n) * F[n] for n in range(TERMS, 1, -1))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _series(coefficients: tuple[float, ...], x: jax.Array) -> jax.Array:
    """A polynomial, whose derivative is another one: so it is not unrolled for each order of derivatives."""
    return jnp.polyval(jnp.array(coefficients), x)


@_series.defjvp
def _series_change(coefficients: tuple[float, ...], at: Any, along: Any) -> tuple[jax.Array, jax.Array]:
    powers = range(len(coefficients) - 1, 0, -1)
    slope = tuple(k * c for k, c in zip(powers, coefficients, strict=False))
    return _series(coefficients, at[0]), _series(slope, at[0]) * along[0]
