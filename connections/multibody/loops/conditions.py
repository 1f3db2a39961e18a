"""The implicit conditions of closed chains, and the dependent joints that satisfy them. JAX-traceable.

phi(q_s) = 0 is solved by following a path (`continuation`, or compiled code). K_d v_d +
K_i v_i = 0 is solved by least squares, because conditions may be redundant (three of a position in a planar
loop); K_d has full column rank.
Source: [W] VI-C.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from connections.evaluation.compilation import traced_once
from connections.geometry import FrameField
from connections.geometry.numerics.least_squares import least_squares
from connections.multibody.clusters import DIRECTION, DISTANCE, LINEAR, POSITION, TWIST, Rows
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.loops.condition_rows import FunctionCondition
from connections.multibody.tolerances import CLOSED, SINGULAR


@dataclass(frozen=True, eq=False)
class LoopClosure:
    """The implicit conditions of a mechanism."""

    spanning: Kinematics  #: the spanning tree
    joint_frame: FrameField  #: the product of the independent joints' frames
    #: the conditions
    rows: Rows
    functions: tuple[FunctionCondition, ...]
    dependent: np.ndarray  #: (n_d,) indices of the spanning velocities that the conditions determine
    free: np.ndarray  #: (n_i,) indices in v of the independent velocities of the same clusters
    independent: np.ndarray  #: (n_i,) indices of these independent velocities among the spanning velocities
    local: np.ndarray  #: (nq_s,) whether a spanning coordinate belongs to these clusters
    #: (nq_s,) whether a spanning coordinate belongs to a dependent joint of these clusters
    unknown: np.ndarray
    q_columns: np.ndarray  #: (nq,) the index among the spanning coordinates of each independent coordinate
    #: q_s = affine q + offset for all coordinates except the unknown ones
    affine: np.ndarray
    offset: np.ndarray
    #: (n_d,) and (n_i,) units of the dependent and of the independent velocities (`lengths.velocity_units`):
    #: 1, or the cluster's size in m
    lengths: np.ndarray
    free_lengths: np.ndarray

    @traced_once
    def conditions_at(self, q_s: jax.Array) -> tuple[jax.Array, jax.Array]:
        """phi (p,), the conditions of functions last, and K = L_X phi, (p, n_d + n_i), at q_s (nq_s,).

        The columns of K are the dependent and then the independent spanning velocities. A row of K is a
        wrench applied to the relative twist of two bodies (`wrenches_of`); JAX differentiates functions.
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
        phi = _values(self.rows, T, q_s)
        K = self.rows.scales[:, None] * (wrenches_of(self.rows, T) @ twists.T * relative + linear)
        if not self.functions:
            return phi, K

        def along(direction: jax.Array) -> tuple[jax.Array, jax.Array]:
            """The functions, and their derivative along one velocity."""
            values = lambda q: jnp.concatenate(  # noqa: E731
                [function.residual_at(self._transforms_at(q), q) for function in self.functions]
            )
            value, rate = jax.jvp(values, (q_s,), (direction,))
            return value, rate

        X = self.spanning.frame.matrix_at(q_s)[:, columns]
        values, rates = jax.vmap(along, in_axes=1, out_axes=(None, 1))(X)
        return jnp.concatenate([phi, values]), jnp.concatenate([K, rates])

    def G_at(self, q_s: jax.Array) -> jax.Array:
        """G_d = -K_d^+ K_i, (n_d, n_i)."""
        return self._rates(self.conditions_at(q_s)[1])

    def closing_at(self, q_s: jax.Array, opening: jax.Array) -> jax.Array:
        """Spanning velocities (nv_s,) that close what opens at the rate (p,), -K_d^+ opening."""
        v_d = -least_squares(self._dependent(self.conditions_at(q_s)[1]), opening[:, None])[:, 0]
        return jnp.zeros(self.spanning.nv).at[self.dependent].set(v_d, unique_indices=True)

    def proved_at(self, q: jax.Array, solution: jax.Array) -> jax.Array:
        """The solution q_s (nq_s,) at q (nq,); NaN if it is none, or singular.

        It is not corrected: where it is nearly singular, it was found with more digits than phi has here.
        """
        q_s = self.with_independent(solution, q)
        phi, K = self.conditions_at(q_s)
        good = jnp.all(jnp.abs(phi) < CLOSED) & jnp.all(self._pivots(K) >= SINGULAR)
        return jnp.where(good, q_s, jnp.nan)

    def pivot_at(self, q_s: jax.Array) -> jax.Array:
        """The least of `pivots` of K_d at q_s (nq_s,)."""
        return jnp.min(self._pivots(self.conditions_at(q_s)[1]), initial=1.0)

    def _transforms_at(self, q_s: jax.Array) -> jax.Array:
        """Transforms (N + 1, 4, 4) of the bodies, the ground last, at q_s (nq_s,).

        Conditions depend only on the joints of their own clusters. All other joints are set to neutral, so
        that no digits are lost to cancellation if the robot is far from the origin.
        """
        q_local = jnp.where(self.local, q_s, jnp.asarray(self.spanning.neutral()))
        return jnp.concatenate([self.spanning.world_transforms_at(q_local), jnp.eye(4)[None]])

    def _dependent(self, K: jax.Array) -> jax.Array:
        return K[:, : len(self.dependent)]

    def _rates(self, K: jax.Array) -> jax.Array:
        """G_d = -K_d^+ K_i, (n_d, n_i)."""
        return -least_squares(self._dependent(K), K[:, len(self.dependent) :])

    def _pivots(self, K: jax.Array) -> jax.Array:
        """`pivots` of K_d, (n_d,)."""
        return pivots(jnp.linalg.qr(self._dependent(K) * self.lengths[None], mode="r"))

    def with_independent(self, q_s: jax.Array, q: jax.Array) -> jax.Array:
        """q_s with all coordinates except the unknown ones set from q (nq,)."""
        return jnp.where(self.unknown, q_s, jnp.asarray(self.affine) @ q + self.offset)

    def projected(self, q_s: jax.Array) -> jax.Array:
        """q_s with quaternions of length one."""
        return self.spanning.frame.project_at(q_s)

    def moved(self, q_s: jax.Array, v_d: jax.Array) -> jax.Array:
        """q_s after one unit of time at the dependent velocities v_d (n_d,); only the unknown joints move."""
        step = jnp.zeros(self.spanning.nv).at[self.dependent].set(v_d, unique_indices=True)
        moved = self.projected(self.spanning.frame.retract_at(q_s, step))
        return jnp.where(self.unknown, moved, q_s)


def pivots(R: jax.Array) -> jax.Array:
    """The distance (n_d,) of each column of K_d = Q R, in units, from the span of those before it.

    If the column is longer than one, this is the sine of its angle with the span; of a column of zeros it is
    zero.
    """
    return jnp.abs(jnp.diagonal(R)) / jnp.maximum(jnp.linalg.norm(R, axis=0), 1.0)


def _points(rows: Rows, T: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Points a and b (for TWIST directions) and vectors u and w of every row, (p, 3) each, in world axes."""
    a, b = T[rows.bodies_a], T[rows.bodies_b]
    turned = [jnp.einsum("rab,rb->ra", a[:, :3, :3], vector) for vector in (rows.points_a, rows.u)]
    turned += [jnp.einsum("rab,rb->ra", b[:, :3, :3], vector) for vector in (rows.points_b, rows.w)]
    at = [jnp.where((rows.kinds == TWIST)[:, None], 0.0, T[:, :3, 3]) for T in (a, b)]
    return turned[0] + at[0], turned[2] + at[1], turned[1], turned[3]


def _values(rows: Rows, T: jax.Array, q_s: jax.Array) -> jax.Array:
    """phi of each row of `Rows`, from transforms (N + 1, 4, 4) with the ground last, and q_s."""
    p_a, p_b, u, w = _points(rows, T)
    r = p_b - p_a
    turn = jnp.sum(u * w, axis=1)
    values = jnp.select(
        [rows.kinds == POSITION, rows.kinds == DISTANCE, rows.kinds == LINEAR, rows.kinds == TWIST],
        [
            jnp.sum(u * r, axis=1),
            jnp.sum(r * r, axis=1),
            jnp.asarray(rows.coefficients) @ q_s,
            turn - jnp.sum(p_a * p_b, axis=1),
        ],
        turn,
    )
    return jnp.asarray(rows.scales * np.where(rows.kinds == DISTANCE, 0.5, 1.0)) * (values - rows.constants)


def wrenches_of(rows: Rows, T: jax.Array) -> jax.Array:
    """f (p, 6) of each row: phi' = f . (V_b - V_a), V twists in world axes at the world origin."""
    p_a, p_b, u, w = _points(rows, T)
    kind = rows.kinds[:, None]
    force = jnp.where(kind == POSITION, u, jnp.where(kind == DISTANCE, p_b - p_a, 0.0))
    moment = jnp.where(kind == DIRECTION, jnp.cross(w, u), jnp.cross(p_b, force))
    moment = jnp.where(kind == TWIST, jnp.cross(w, u) - jnp.cross(p_b, p_a), moment)
    return jnp.concatenate([moment, force], axis=1)
