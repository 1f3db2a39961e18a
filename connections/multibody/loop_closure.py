"""The implicit conditions of closed chains, and the dependent joints that obey them. JAX-traceable.

phi(q_s) = 0 is solved for the dependent joints by continuation along the path of the independent ones from a
configuration in which the loops close, K_d v_d + K_i v_i = 0 by least squares: conditions may repeat one
another (a position in a planar loop), but K_d has full column rank. Source: [W] VI-C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.geometry import FrameField
from connections.multibody.clusters import DIRECTION, DISTANCE, LINEAR, POSITION, Rows
from connections.multibody.conditions import FunctionCondition
from connections.multibody.kinematics import Kinematics

_FIRST_CORRECTION = 0.2  # rad, or lengths relative to the cluster, after which a step is taken for too long
_LARGEST_CHANGE = 0.6  # of K_d relative to itself, over a step
_SMALLEST_STEP = 1e-6  # of the path
_CORRECTIONS = 12
_CONVERGED, _POLISHING = 1e-12, 3  # corrections smaller than this, and how many of them there are
_CLOSED = 1e-10  # residual, relative to the cluster's size, of loops that are closed


class Solution(NamedTuple):
    """What the continuation comes to.

    Parameters
    ----------
    q : (nq_s,) the spanning configuration as far as it was followed.
    reached : fraction of the path.
    pivot : (n_d,) for each dependent velocity, the sine of the angle of its column of K_d with those before.
    """

    q: jax.Array
    reached: jax.Array
    pivot: jax.Array


@dataclass(frozen=True, eq=False)
class LoopClosure:
    """The implicit conditions of a mechanism.

    Parameters
    ----------
    spanning : the spanning tree.
    joint_frame : the product of the independent joints' frames.
    rows, functions : the conditions.
    dependent : (n_d,) the spanning velocities that they determine.
    free : (n_i,) the independent velocities of the same clusters, as components of v.
    independent : (n_i,) the same as spanning velocities.
    local : (nq_s,) whether a spanning coordinate belongs to these clusters.
    unknown : (nq_s,) whether it belongs to a dependent joint of these clusters.
    q_columns : (nq,) the spanning coordinate that each independent one is.
    affine, offset : q_s = affine q + offset for all coordinates but the unknown ones.
    lengths : (n_d,) what one unit of each dependent velocity is compared with: 1 rad, or the cluster's size.
    """

    spanning: Kinematics
    joint_frame: FrameField
    rows: Rows
    functions: tuple[FunctionCondition, ...]
    dependent: np.ndarray
    free: np.ndarray
    independent: np.ndarray
    local: np.ndarray
    unknown: np.ndarray
    q_columns: np.ndarray
    affine: np.ndarray
    offset: np.ndarray
    lengths: np.ndarray

    def residual_at(self, q_s: jax.Array) -> jax.Array:
        """phi (p,) at q_s (nq_s,), the conditions of functions last."""
        T = self._transforms_at(q_s)
        return jnp.concatenate([_values(self.rows, T, q_s), *(f.residual_at(T, q_s) for f in self.functions)])

    def derivative_at(self, q_s: jax.Array) -> jax.Array:
        """K = L_X phi, (p, n_d + n_i), along the dependent and then the independent spanning velocities.

        A row is a wrench on the relative twist of its two bodies (`posture`); functions are differentiated.
        """
        columns = np.concatenate([self.dependent, self.independent])
        T = self._transforms_at(q_s)
        at = T[self.spanning.body_of[columns]]
        Phi = self.spanning.Phi_columns_at(q_s)[columns]
        w, u = (jnp.einsum("jab,jb->ja", at[:, :3, :3], part) for part in (Phi[:, :3], Phi[:, 3:]))
        twists = jnp.concatenate([w, u + jnp.cross(at[:, :3, 3], w)], axis=1)
        moves = np.concatenate([self.spanning.moves, np.zeros((1, self.spanning.nv), dtype=bool)])[:, columns]
        relative = moves[self.rows.bodies_b].astype(float) - moves[self.rows.bodies_a]
        coordinate = self.spanning.coordinate_of[columns]
        linear = np.where(coordinate < 0, 0.0, self.rows.coefficients[:, coordinate])
        rows = self.rows.scales[:, None] * (_wrenches(self.rows, T) @ twists.T * relative + linear)
        if not self.functions:
            return rows
        X = self.spanning.frame.matrix_at(q_s)[:, columns]

        def along(direction: jax.Array) -> jax.Array:
            """The derivative of the functions along one velocity."""
            values = lambda q: [f.residual_at(self._transforms_at(q), q) for f in self.functions]  # noqa: E731
            return jnp.concatenate(jax.jvp(values, (q_s,), (direction,))[1])

        return jnp.concatenate([rows, jax.vmap(along, in_axes=1, out_axes=1)(X)])

    def G_at(self, q_s: jax.Array) -> jax.Array:
        """G_d = -K_d^+ K_i, (n_d, n_i)."""
        K = self.derivative_at(q_s)
        return -_least_squares(K[:, : len(self.dependent)], K[:, len(self.dependent) :])

    def sines_at(self, q_s: jax.Array) -> jax.Array:
        """For each dependent velocity, the sine of the angle of its column of K_d with those before."""
        return _sines(self._K_d_at(q_s) * self.lengths)

    def solution_at(self, q: jax.Array, start: jax.Array) -> Solution:
        """Follow the independent configuration from that of `start` (nq_s,) to q (nq,).

        A step is a prediction along G and Newton corrections of the dependent joints. It is accepted if the
        first correction is small, each is at most half as long as the one before, and K_d has changed so
        little that |K_d(old)^+ K_d(new) - 1| <= 0.6; otherwise it is halved. So a step stays where Newton's
        method contracts; between two ways of assembly K_d is singular, and a step does not pass over that.
        """
        home = start[self.q_columns]
        goal = self.joint_frame.align_at(q, home)

        def along(t: jax.Array) -> jax.Array:
            return jnp.where(t == 1.0, goal, self.joint_frame.project_at(home + t * (goal - home)))

        def advance(state: Any) -> Any:
            t, step, q_s, began = state
            t_next = jnp.where(began, jnp.minimum(t + step, 1.0), 0.0)  # first, close the loops at the start
            tried, accepted = self._step(q_s, along(t), along(t_next))
            shorter = jnp.where(began, 0.5 * step, 0.0)
            return (
                jnp.where(accepted, t_next, t),
                jnp.where(accepted, jnp.where(began, 2.0 * step, step), shorter),
                jnp.where(accepted, tried, q_s),
                began | accepted,
            )

        t, _, q_s, _ = jax.lax.while_loop(
            lambda state: ((state[0] < 1.0) | ~state[3]) & (state[1] > _SMALLEST_STEP),
            advance,
            (jnp.zeros(()), jnp.ones(()), start, jnp.asarray(False)),
        )
        at_goal = self._with_independent(q_s, q)
        return Solution(jnp.where(t == 1.0, at_goal, q_s), t, self.sines_at(q_s))

    def _transforms_at(self, q_s: jax.Array) -> jax.Array:
        """Transforms (N + 1, 4, 4) of the bodies, the ground last, at q_s (nq_s,).

        Conditions depend on the joints of their clusters alone; the others are put to neutral, so that
        nothing is lost to cancellation where a robot is far from the origin.
        """
        q_local = jnp.where(self.local, q_s, jnp.asarray(self.spanning.neutral()))
        return jnp.concatenate([self.spanning.world_transforms_at(q_local), jnp.eye(4)[None]])

    def _K_d_at(self, q_s: jax.Array) -> jax.Array:
        return self.derivative_at(q_s)[:, : len(self.dependent)]

    def _step(self, q_s: jax.Array, here: jax.Array, there: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The spanning configuration where q is `there`, from that where it is `here`; whether it is good."""
        v = self.joint_frame.velocity_at(here, there - here)
        forward = jnp.zeros(self.spanning.nv).at[self.dependent].set(self.G_at(q_s) @ v[self.free])
        predicted = self.spanning.frame.retract_at(q_s, forward)
        found, converged = self._corrected(self._with_independent(predicted, there))
        old, new = (self._K_d_at(point) * self.lengths for point in (q_s, found))
        change = _least_squares(old, new) - jnp.eye(len(self.dependent))
        return found, converged & (jnp.linalg.norm(change) <= _LARGEST_CHANGE)

    def _with_independent(self, q_s: jax.Array, q: jax.Array) -> jax.Array:
        """q_s with all joints but the unknown ones where q (nq,) puts them."""
        return jnp.where(self.unknown, q_s, jnp.asarray(self.affine) @ q + self.offset)

    def _corrected(self, q_s: jax.Array) -> tuple[jax.Array, jax.Array]:
        """q_s after Newton's method on the dependent joints, and whether it contracted from the start."""

        def correct(state: Any) -> Any:
            count, q_s, before, _, polished = state
            q_s, size = self._newton(q_s)
            limit = jnp.where(count == 0, _FIRST_CORRECTION, jnp.maximum(0.5 * before, _CONVERGED))
            return count + 1, q_s, size, size <= limit, polished + (size <= _CONVERGED)

        _, q_s, _, good, polished = jax.lax.while_loop(
            lambda state: (state[0] < _CORRECTIONS) & state[3] & (state[4] < _POLISHING),
            correct,
            (0, q_s, jnp.asarray(jnp.inf), jnp.asarray(True), 0),
        )
        closed = jnp.max(jnp.abs(self.residual_at(q_s)), initial=0.0) < _CLOSED
        return q_s, good & (polished == _POLISHING) & closed

    def _newton(self, q_s: jax.Array) -> tuple[jax.Array, jax.Array]:
        """q_s after one correction of the dependent joints, and its length relative to `lengths`."""
        correction = -_least_squares(self._K_d_at(q_s), self.residual_at(q_s)[:, None])[:, 0]
        step = jnp.zeros(self.spanning.nv).at[self.dependent].set(correction)
        moved = self.spanning.frame.project_at(self.spanning.frame.retract_at(q_s, step))
        return jnp.where(self.unknown, moved, q_s), jnp.linalg.norm(correction / self.lengths)


def _points(rows: Rows, T: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Points a and b, and vectors u and w, of every row, (p, 3) each, in world axes."""
    a, b = T[rows.bodies_a], T[rows.bodies_b]
    turned = [jnp.einsum("rab,rb->ra", a[:, :3, :3], vector) for vector in (rows.points_a, rows.u)]
    turned += [jnp.einsum("rab,rb->ra", b[:, :3, :3], vector) for vector in (rows.points_b, rows.w)]
    return turned[0] + a[:, :3, 3], turned[2] + b[:, :3, 3], turned[1], turned[3]


def _values(rows: Rows, T: jax.Array, q_s: jax.Array) -> jax.Array:
    """phi of each row of `Rows`, from transforms (N + 1, 4, 4) with the ground last, and q_s."""
    p_a, p_b, u, w = _points(rows, T)
    r = p_b - p_a
    values = jnp.select(
        [rows.kinds == POSITION, rows.kinds == DISTANCE, rows.kinds == LINEAR],
        [jnp.sum(u * r, axis=1), jnp.sum(r * r, axis=1), jnp.asarray(rows.coefficients) @ q_s],
        jnp.sum(u * w, axis=1),
    )
    return rows.scales * np.where(rows.kinds == DISTANCE, 0.5, 1.0) * (values - rows.constants)


def _wrenches(rows: Rows, T: jax.Array) -> jax.Array:
    """f (p, 6) of each row: phi' = f . (V_b - V_a), V twists in world axes at the world origin."""
    p_a, p_b, u, w = _points(rows, T)
    kind = rows.kinds[:, None]
    force = jnp.where(kind == POSITION, u, jnp.where(kind == DISTANCE, p_b - p_a, 0.0))
    moment = jnp.where(kind == DIRECTION, jnp.cross(w, u), jnp.cross(p_b, force))
    return jnp.concatenate([moment, force], axis=1)


@jax.custom_jvp
def _least_squares(K: jax.Array, right: jax.Array) -> jax.Array:
    """K^+ right for K (p, n) of full column rank; its derivative holds for `right` in the range of K."""
    Q, R = jnp.linalg.qr(K)
    return jax.scipy.linalg.solve_triangular(R, Q.T @ right)


@_least_squares.defjvp
def _least_squares_and_derivative(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    """K x = right along a curve: K x' = right' - K' x, in the range of K again."""
    (K, right), (K_dot, right_dot) = primals, tangents
    x = _least_squares(K, right)
    return x, _least_squares(K, right_dot - K_dot @ x)


def _sines(K: jax.Array) -> jax.Array:
    """For each column of K, the sine of its angle with the span of those before it, (n,)."""
    R = jnp.linalg.qr(K, mode="r")
    return jnp.abs(jnp.diagonal(R)) / jnp.maximum(jnp.linalg.norm(R, axis=0), 1e-300)
