"""The implicit conditions of closed chains, and the dependent joints that satisfy them. JAX-traceable.

phi(q_s) = 0 is solved for the dependent joints by continuation: the independent joints move along a path that
begins at a configuration in which the loops close. K_d v_d + K_i v_i = 0 is solved by least squares, because
conditions may be redundant (three of a position in a planar loop); K_d has full column rank.
Source: [W] VI-C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.evaluation.compilation import traced_once
from connections.geometry import FrameField
from connections.geometry.numerics.least_squares import least_squares
from connections.multibody.clusters import DIRECTION, DISTANCE, LINEAR, POSITION, TWIST, Rows
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.loops.condition_rows import FunctionCondition
from connections.multibody.tolerances import (
    CLOSED,
    LARGEST_CHANGE,
    LARGEST_CORRECTION,
    LARGEST_TURN,
    SINGULAR,
)

_STEPS = 2  # of Newton's method from a solution, of which the first leaves only round-off
_SMALLEST_STEP = 1e-6  # as a fraction of the path; the continuation gives up below it
_CORRECTIONS = 12
_CONVERGED, _POLISHING = 1e-12, 3  # a step ends after so many corrections that are smaller than the first


class Continuation(NamedTuple):
    """The result of a continuation."""

    q: jax.Array  #: (nq_s,) the spanning configuration at the last point of the path that was reached
    reached: jax.Array  #: the fraction of the path up to that point; 1 is success
    #: (n_d,) for each dependent velocity, the sine of the angle between its column of K_d and the span of the
    #: columns before it
    pivot: jax.Array


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
        wrench applied to the relative twist of two bodies (`_wrenches`); functions are differentiated by JAX.
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
        K = self.rows.scales[:, None] * (_wrenches(self.rows, T) @ twists.T * relative + linear)
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

    def solution_at(self, q: jax.Array, start: jax.Array) -> Continuation:
        """Follow the loops from the spanning configuration `start` (nq_s,) to the configuration q (nq,).

        A step is a prediction along G and Newton corrections of the dependent joints. It is accepted on the
        conditions that `kernels/loop_path.py` states and explains; otherwise it is halved. The first
        step has length zero: it closes the loops at the start.
        """
        home = start[self.q_columns]
        goal = self.joint_frame.align_at(q, home)
        columns = len(self.dependent) + len(self.independent)
        count = len(self.rows.kinds) + sum(function.size(self.spanning) for function in self.functions)

        def along(t: jax.Array) -> jax.Array:
            return jnp.where(t == 1.0, goal, self.joint_frame.project_at(home + t * (goal - home)))

        def advance(path: _Path) -> _Path:
            """A correction, or the end of a step and the next prediction."""
            phi, K = self.conditions_at(path.tried)
            correction = -least_squares(self._dependent(K), phi[:, None])[:, 0]
            size = jnp.linalg.norm(correction / self.lengths)
            settled = path.settled + (size <= _CONVERGED)
            limit = jnp.where(
                path.corrections == 0, LARGEST_CORRECTION, jnp.maximum(0.5 * path.before, _CONVERGED)
            )
            contracts = path.within & (size <= limit) & (path.corrections < _CORRECTIONS)
            ended = settled == _POLISHING
            good = (jnp.max(jnp.abs(phi), initial=0.0) < CLOSED) & (~path.began | self._near(path.K, K))
            accepted, failed = contracts & ended & good, ~contracts | (ended & ~good)
            anew = accepted | failed
            t = jnp.where(accepted, path.aim, path.t)
            step = jnp.where(accepted & path.began, 2.0, jnp.where(failed, 0.5, 1.0)) * path.step
            step = jnp.where(failed & ~path.began, 0.0, step)
            q_s = jnp.where(accepted, path.tried, path.q)
            K_here = jnp.where(accepted, K, path.K)
            aim = jnp.where(anew, jnp.minimum(t + step, 1.0), path.aim)
            here, there = along(t), along(aim)
            v = self.joint_frame.velocity_at(here, there - here)
            predicted = self._rates(K_here) @ v[self.free]
            velocity = jnp.where(anew, predicted, correction)
            turns = jnp.concatenate([predicted / self.lengths, v[self.free] / self.free_lengths])
            moved = self._moved(jnp.where(anew, q_s, path.tried), velocity)
            return _Path(
                t=t,
                step=step,
                q=q_s,
                K=K_here,
                began=path.began | accepted,
                aim=aim,
                tried=self._with_independent(moved, there),
                corrections=jnp.where(anew, 0, path.corrections + 1),
                before=size,
                settled=jnp.where(anew, 0, settled),
                within=jnp.where(anew, jnp.max(jnp.abs(turns), initial=0.0) <= LARGEST_TURN, path.within),
            )

        no, zero, one = jnp.asarray(False), jnp.zeros(()), jnp.ones(())
        path = jax.lax.while_loop(
            lambda path: ((path.t < 1.0) | ~path.began) & (path.step > _SMALLEST_STEP),
            advance,
            _Path(
                t=zero,
                step=one,
                q=start,
                K=jnp.zeros((count, columns)),
                began=no,
                aim=zero,
                tried=self._with_independent(start, home),
                corrections=jnp.zeros((), dtype=int),
                before=zero,
                settled=jnp.zeros((), dtype=int),
                within=~no,
            ),
        )
        at_goal = self._with_independent(path.q, q)
        return Continuation(jnp.where(path.t == 1.0, at_goal, path.q), path.t, self._sines(path.K))

    def corrected_at(self, q: jax.Array, start: jax.Array) -> jax.Array:
        """q_s (nq_s,) at q (nq,) by Newton's method from a solution `start` (nq_s,); NaN if it is none."""

        def corrected(_: int, q_s: jax.Array) -> jax.Array:
            phi, K = self.conditions_at(q_s)
            return self._moved(q_s, -least_squares(self._dependent(K), phi[:, None])[:, 0])

        q_s = jax.lax.fori_loop(0, _STEPS, corrected, self._with_independent(start, q))
        phi, K = self.conditions_at(q_s)
        good = jnp.all(jnp.abs(phi) < CLOSED) & jnp.all(self._sines(K) >= SINGULAR)
        return jnp.where(good, q_s, jnp.nan)

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

    def _sines(self, K: jax.Array) -> jax.Array:
        """For each column of K_d, the sine of its angle with the span of the columns before it, (n_d,)."""
        R = jnp.linalg.qr(self._dependent(K) * self.lengths, mode="r")
        return jnp.abs(jnp.diagonal(R)) / jnp.maximum(jnp.linalg.norm(R, axis=0), 1e-300)

    def _near(self, old: jax.Array, new: jax.Array) -> jax.Array:
        """Whether K_d has changed so little that Newton's method contracts between the two configurations."""
        change = least_squares(self._dependent(old) * self.lengths, self._dependent(new) * self.lengths)
        distance: jax.Array = jnp.linalg.norm(change - jnp.eye(len(self.dependent)))
        return distance <= LARGEST_CHANGE

    def _with_independent(self, q_s: jax.Array, q: jax.Array) -> jax.Array:
        """q_s with all coordinates except the unknown ones set from q (nq,)."""
        return jnp.where(self.unknown, q_s, jnp.asarray(self.affine) @ q + self.offset)

    def _moved(self, q_s: jax.Array, v_d: jax.Array) -> jax.Array:
        """q_s after one unit of time at the dependent velocities v_d (n_d,); only the unknown joints move."""
        step = jnp.zeros(self.spanning.nv).at[self.dependent].set(v_d)
        moved = self.spanning.frame.project_at(self.spanning.frame.retract_at(q_s, step))
        return jnp.where(self.unknown, moved, q_s)


class _Path(NamedTuple):
    """The state of a continuation; the current step is the one that is being corrected."""

    #: the fraction of the path that was followed, and the length of a step as such a fraction
    t: jax.Array
    step: jax.Array
    #: (nq_s,) the spanning configuration at t, and K there
    q: jax.Array
    K: jax.Array
    began: jax.Array  #: whether the loops have been closed at the start
    #: the fraction at which the current step ends, and q_s there as corrected so far
    aim: jax.Array
    tried: jax.Array
    #: the number of corrections in the current step, the length of the last correction, and the number of
    #: small ones
    corrections: jax.Array
    before: jax.Array
    settled: jax.Array
    within: jax.Array  #: whether the current step turns no joint too far


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
    phi: jax.Array = rows.scales * np.where(rows.kinds == DISTANCE, 0.5, 1.0) * (values - rows.constants)
    return phi


def _wrenches(rows: Rows, T: jax.Array) -> jax.Array:
    """f (p, 6) of each row: phi' = f . (V_b - V_a), V twists in world axes at the world origin."""
    p_a, p_b, u, w = _points(rows, T)
    kind = rows.kinds[:, None]
    force = jnp.where(kind == POSITION, u, jnp.where(kind == DISTANCE, p_b - p_a, 0.0))
    moment = jnp.where(kind == DIRECTION, jnp.cross(w, u), jnp.cross(p_b, force))
    moment = jnp.where(kind == TWIST, jnp.cross(w, u) - jnp.cross(p_b, p_a), moment)
    return jnp.concatenate([moment, force], axis=1)
