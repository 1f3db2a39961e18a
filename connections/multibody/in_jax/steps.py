"""Variational steps of a robot inside JAX: values by compiled code, derivatives of the equations they solve.

With the discrete momentum m(q0, q1) = J(q0)^T p, whose derivatives M (along the frame at q0) and N (at q1)
are a recursion, and the gradient G of gravity, a step from (q, P) to (q1, P1) is

    P = m(q, q1) - (h/2) (tau - g(q)),      P1 = -m(q1, q) + (h/2) (tau - g(q1)),

because the kinetic action does not change if its ends are exchanged. So

    N xi1 = dP + (h/2) dtau - (M + (h/2) G) xi + (P/h + tau - g) dh,
    dP1 = -(M1 + (h/2) G1) xi1 - N^T xi + (h/2) dtau + (tau - g1 - P1/h) dh,

M1 that of (q1, q), N the exact matrix of Newton's method, and xi, xi1 the changes of q, q1 in the frame: the
derivative is that of the root, however Newton's method found it. m is of degree -1 in h. Second derivatives
are those of the definition of M and N.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.coriolis.variational import UNSOLVED
from connections.engines import xla
from connections.engines.platforms import PlatformFunction
from connections.multibody.definition.discrete_robot import DiscreteRobot
from connections.multibody.in_jax.tangents import Recursions
from connections.multibody.kernels.layout import TREE
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.stepping import history_size
from connections.multibody.program.tree_packing import pack, pack_with_one_origin

Vectors = Sequence[jax.Array]
Tangents = Sequence[jax.Array | None]


class TracedSteps:
    """Variational steps and discrete momenta of a robot as functions of JAX; with loops, by the definition.

    Parameters
    ----------
    recursions : of the robot.
    """

    def __init__(self, recursions: Recursions) -> None:
        self._recursions, self._robot = recursions, recursions.robot
        self._nq, self._nv = self._robot.nq, self._robot.nv

    def step_at(
        self, q: jax.Array, P: jax.Array, tau: jax.Array, h: Any
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(q, P, why) after a step of the length h, which may be traced, from (nq,) and (nv,).

        why : 0, or why there is none; then q and P are NaN.
        """
        if self._robot.closed:
            q1, P1, why = self._definition.defined_step_at(0.0, h, q, P, lambda *_: tau, True)
            why = why.astype(P1.dtype)
        else:
            found = self._step(q, P, tau, jnp.reshape(h, 1))
            q1, P1 = found[: self._nq], found[self._nq : -1]
            why = jax.lax.stop_gradient(found[-1])
        alive = jnp.where(why == 0.0, 1.0, jnp.nan)
        return q1 * alive, P1 * alive, jnp.where(why >= 0.0, why, UNSOLVED).astype(int)

    def momentum_at(self, q0: jax.Array, q1: jax.Array, h: Any) -> jax.Array:
        """J(q0)^T p, (nv,), of the way from q0 to q1 (nq,); NaN for half a turn or more."""
        momentum = self._definition.checked_momentum_at if self._robot.closed else self._momentum
        found = momentum(q0, q1, jnp.reshape(h, 1))
        why = jax.lax.stop_gradient(found[-1])
        return found[:-1] * jnp.where(why == 0.0, 1.0, jnp.nan)

    @cached_property
    def _definition(self) -> DiscreteRobot:
        return DiscreteRobot(self._robot.definition.system, self._robot, None)

    @cached_property
    def _step(self) -> PlatformFunction:
        """(q, P, tau, h) -> (q1, P1, why), in one vector."""

        def processor(q: jax.Array, P: jax.Array, tau: jax.Array, h: jax.Array) -> jax.Array:
            y, forces = jnp.concatenate([q, P], axis=-1), jnp.concatenate([tau, tau], axis=-1)
            found = self._rows(1, y, forces, jnp.zeros((*h.shape[:-1], history_size(self._nv))), h)
            return jnp.concatenate([found[..., : self._nq + self._nv], found[..., -2:-1]], axis=-1)

        def definition(q: jax.Array, P: jax.Array, tau: jax.Array, h: jax.Array) -> jax.Array:
            q1, P1, why = self._definition.defined_step_at(0.0, h[0], q, P, lambda *_: tau, False)
            return jnp.concatenate([q1, P1, why[None].astype(P1.dtype)])

        return PlatformFunction(
            "variational_step", (self._nq + self._nv + 1,), processor, definition, self._change_of_step
        )

    def _change_of_step(self, at: Vectors, along: Tangents) -> jax.Array:
        q, P, tau, h = at
        q_dot, P_dot, tau_dot, h_dot = along
        frame, half, (h_,) = self._robot.frame, 0.5 * h, h
        q1, P1, _ = jnp.split(self._step(q, P, tau, h), [self._nq, self._nq + self._nv])
        M, N = self._slopes(q, q1, h)
        right = jnp.zeros(self._nv)
        after = jnp.zeros(self._nv)
        if P_dot is not None:
            right = right + P_dot
        if tau_dot is not None:
            right, after = right + half * tau_dot, after + half * tau_dot
        if h_dot is not None:
            right = right + (P / h_ + tau - self._gravity(q)) * h_dot
            after = after + (tau - self._gravity(q1) - P1 / h_) * h_dot
        if q_dot is not None:
            xi = frame.velocity_at(q, q_dot)
            right = right - (M + half * self._slope_of_gravity(q)) @ xi
            after = after - N.T @ xi
        xi1 = jnp.linalg.solve(N, right)
        M1, _ = self._slopes(q1, q, h)
        after = after - (M1 + half * self._slope_of_gravity(q1)) @ xi1
        return jnp.concatenate([frame.matrix_at(q1) @ xi1, after, jnp.zeros(1)])

    @cached_property
    def _momentum(self) -> PlatformFunction:
        """(q0, q1, h) -> m, and why there is none, in one vector."""

        def processor(q0: jax.Array, q1: jax.Array, h: jax.Array) -> jax.Array:
            batch, nv = h.shape[:-1], self._nv
            y = jnp.concatenate([q0, jnp.zeros((*batch, nv))], axis=-1)
            way = jnp.concatenate([q1, jnp.zeros((*batch, history_size(nv) - self._nq))], axis=-1)
            found = self._rows(-1, y, jnp.zeros((*batch, 2 * nv)), way, h)
            return jnp.concatenate([found[..., self._nq : self._nq + nv], found[..., -2:-1]], axis=-1)

        def change(at: Vectors, along: Tangents) -> jax.Array:
            (q0, q1, h), (q0_dot, q1_dot, h_dot) = at, along
            total, frame = jnp.zeros(self._nv), self._robot.frame
            M, N = self._slopes(*at)
            if q0_dot is not None:
                total = total + M @ frame.velocity_at(q0, q0_dot)
            if q1_dot is not None:
                total = total + N @ frame.velocity_at(q1, q1_dot)
            if h_dot is not None:
                total = total - self._momentum(*at)[:-1] * h_dot / h
            return jnp.append(total, 0.0)

        return PlatformFunction(
            "discrete_momentum", (self._nv + 1,), processor, self._definition.checked_momentum_at, change
        )

    @cached_property
    def _slopes(self) -> PlatformFunction:
        """(q0, q1, h) -> M and N, (2, nv, nv)."""
        nv, frame, definition = self._nv, self._robot.frame, self._definition

        def processor(q0: jax.Array, q1: jax.Array, h: jax.Array) -> jax.Array:
            name, memory = "momentum_derivatives_rows", self._tree_with_one_origin
            found = _of_rows(name, 2 * nv * nv, memory, (q0, q1, h), ())
            return found.reshape(*h.shape[:-1], 2, nv, nv)

        def defined(q0: jax.Array, q1: jax.Array, h: jax.Array) -> jax.Array:
            momentum = definition.momentum_of_way_at
            M = frame.lie_derivative_at(lambda q: momentum(q, q1, h), q0).T
            N = frame.lie_derivative_at(lambda q: momentum(q0, q, h), q1).T
            return jnp.stack([M, N])

        def change(at: Vectors, along: Tangents) -> jax.Array:
            dots = [jnp.zeros_like(x) if dot is None else dot for x, dot in zip(at, along, strict=True)]
            slope: jax.Array
            _, slope = jax.jvp(defined, tuple(at), tuple(dots))
            return slope

        return PlatformFunction("momentum_derivatives", (2, nv, nv), processor, defined, change)

    def _gravity(self, q: jax.Array) -> jax.Array:
        return self._recursions("gravity", q)

    def _slope_of_gravity(self, q: jax.Array) -> jax.Array | float:
        """The derivative of g along the frame, (nv, nv)."""
        if not any(self._robot.gravity):
            return 0.0
        nothing = jnp.zeros(self._nv)
        return self._recursions("inverse_dynamics_derivatives", q, nothing, nothing)[0]

    def _rows(self, count: int, *vectors: jax.Array) -> jax.Array:
        """The kernel `variational_rows`, of one share."""
        size, plan = self._nq + self._nv + history_size(self._nv) + 3, np.array([float(count), 1.0])
        return _of_rows("variational_rows", size, self._tree, vectors, [xla.ReadArray(plan)])

    @cached_property
    def _tree(self) -> np.ndarray:
        return pack(self._robot.kinematics, self._robot.gravity)

    @cached_property
    def _tree_with_one_origin(self) -> np.ndarray:
        return pack_with_one_origin(self._robot.kinematics, self._robot.gravity)


def _of_rows(
    name: str, size: int, tree: np.ndarray, vectors: Vectors, after: Sequence[xla.Constant]
) -> jax.Array:
    """A compiled function of rows, (..., size), at vectors (..., k); NaN where it refuses its input."""
    batch = vectors[0].shape[:-1]
    given = vectors if batch else [vector[None] for vector in vectors]
    memory = xla.WorkCopy(tree, len(tree) + TREE.read(tree, "result"))
    found = xla.operation(name, compiled.require(name), (size,), [memory], given, after, rows=True)
    return found if batch else found[0]
