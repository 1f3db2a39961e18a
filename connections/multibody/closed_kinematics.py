"""Kinematics of a mechanism with closed chains: the spanning tree, and how its configuration follows from q.

Loops and couplings are conditions phi(q_s) = 0 on the spanning configuration. With K = L_X phi split into
dependent and independent velocities, K_d v_d + K_i v_i = 0, spanning velocities are

    v_s = G v,   G_d = -K_d^+ K_i,   G_i = 1,   A = A_s(q_s(q)) G(q_s(q)).

q_s(q) is found by continuation along the path from the reference configuration, which so chooses the way in
which loops are assembled; it is a function of q alone, and is differentiated implicitly. Clusters with
nothing but linear couplings have constant G. Everything here is JAX-traceable; the algorithm is in
`recursions`. Source: [W] VI-C.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import ClosureError, raise_at
from connections.geometry import FrameField
from connections.multibody.closed_frame import ClosedChainFrame
from connections.multibody.clusters import DISTANCE, LINEAR, POSITION, Clusters, Rows
from connections.multibody.conditions import FunctionCondition, cluster_size
from connections.multibody.graph import ClusterTree, Tree, cluster_tree
from connections.multibody.joints import Joint
from connections.multibody.kinematics import Kinematics, product_of_frames
from connections.multibody.posture import elementary_motion

SINGULAR = 1e-6  # sine of the angle between a column of K_d and those before it, below which G is undefined
_COMFORTABLE = 0.05  # the same for configurations that `random` returns
_FIRST_CORRECTION = 0.2  # rad, or lengths relative to the cluster, after which a step is taken for too long
_SMALLEST_STEP = 1e-6  # of the path
_CORRECTIONS = 12
_CONVERGED = 1e-12


class Solution(NamedTuple):
    """What the continuation comes to.

    Parameters
    ----------
    q : (nq_s,) the spanning configuration; of no use unless `reached` is 1.
    reached : fraction of the path.
    pivot : (n_d,) for each implicit dependent velocity, the sine of the angle of its column of K_d.
    residual : (p,) phi of the implicit conditions.
    """

    q: jax.Array
    reached: jax.Array
    pivot: jax.Array
    residual: jax.Array


@dataclass(frozen=True, eq=False)
class ClosedKinematics:
    """The layout of a closed chain's configuration, and its kinematics at one configuration.

    Parameters
    ----------
    spanning : the spanning tree, all joints free.
    clusters, rows, functions : the cluster tree, and the conditions.
    names : of loops and couplings, numbered as ``rows.owners``.
    reference : (nq_s,) a regular spanning configuration in which all loops close.
    """

    spanning: Kinematics
    clusters: Clusters
    rows: Rows
    functions: tuple[FunctionCondition, ...]
    names: tuple[str, ...]
    reference: np.ndarray

    # --- layout ------------------------------------------------------------------------------------------

    @property
    def tree(self) -> Tree:
        """The spanning tree of bodies."""
        return self.spanning.tree

    @cached_property
    def independent_bodies(self) -> np.ndarray:
        """The bodies whose joints are independent, cluster by cluster."""
        bodies = np.flatnonzero(self.clusters.independent)
        return bodies[np.argsort(self.clusters.of_body[bodies], kind="stable")]

    @cached_property
    def joints(self) -> tuple[Joint, ...]:
        """The independent joints, in the order of their slices of q and v."""
        return tuple(self.tree.joints[body] for body in self.independent_bodies)

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """The names of `joints`."""
        return tuple(self.tree.joint_names[body] for body in self.independent_bodies)

    @cached_property
    def q_starts(self) -> np.ndarray:
        """Where the slice of q of each independent joint begins; the last entry is nq."""
        return np.cumsum([0, *(joint.nq for joint in self.joints)])

    @cached_property
    def v_starts(self) -> np.ndarray:
        """Where the slice of v of each independent joint begins; the last entry is nv."""
        return np.cumsum([0, *(joint.nv for joint in self.joints)])

    @property
    def nq(self) -> int:
        """Number of independent coordinates."""
        return int(self.q_starts[-1])

    @property
    def nv(self) -> int:
        """Number of independent velocity components."""
        return int(self.v_starts[-1])

    @cached_property
    def q_columns(self) -> np.ndarray:
        """(nq,) the spanning coordinate that each independent one is."""
        return _ranges(self.spanning.q_starts, self.independent_bodies)

    @cached_property
    def v_columns(self) -> np.ndarray:
        """(nv,) the spanning velocity that each independent one is."""
        return _ranges(self.spanning.v_starts, self.independent_bodies)

    @cached_property
    def body_of(self) -> np.ndarray:
        """(nv,) the body whose joint has this velocity component."""
        return self.spanning.body_of[self.v_columns]

    @cached_property
    def cluster_of_column(self) -> np.ndarray:
        """(nv,) the cluster that each independent velocity belongs to."""
        return self.clusters.of_body[self.body_of]

    @cached_property
    def column_starts(self) -> np.ndarray:
        """(M + 1,) the first independent velocity of each cluster."""
        return np.searchsorted(self.cluster_of_column, np.arange(self.clusters.count + 1))

    @cached_property
    def moves(self) -> np.ndarray:
        """(N, nv) whether a velocity component may move a body: of its own cluster, or of one before it."""
        moves = np.zeros((len(self.tree.joints), self.nv), dtype=bool)
        for body in range(len(moves)):
            support = self.clusters.supports[body]
            own = self.cluster_of_column == self.clusters.of_body[body]
            moves[body] = own | (moves[support] if support >= 0 else False)
        return moves

    @cached_property
    def joint_frame(self) -> FrameField:
        """The product of the independent joints' frames."""
        return product_of_frames(self.joints)

    @cached_property
    def frame(self) -> FrameField:
        """The frame in which v are components: `joint_frame`, where the loops close."""
        if not self.implicit_clusters.any():
            return self.joint_frame
        return ClosedChainFrame(self.joint_frame, self)

    @cached_property
    def cluster_tree(self) -> ClusterTree:
        """The arborescence of clusters."""
        return cluster_tree(
            self.tree, self.clusters.of_body, self.clusters.parents, self.clusters.independent
        )

    @cached_property
    def lengths(self) -> np.ndarray:
        """(nv_s,) what one unit of each spanning velocity is compared with: 1 rad, or the cluster's size."""
        of_velocity = self.clusters.of_body[self.spanning.body_of]
        elements = [element for joint in self.tree.joints for element in joint.chain]
        angular = [elementary_motion(element)[:3].any(axis=0) for element in elements]
        sizes = np.array([cluster_size(self.rows, cluster) for cluster in range(self.clusters.count)])
        return np.where(np.concatenate(angular), 1.0, sizes[of_velocity])

    # --- the split into constant and implicit clusters ---------------------------------------------------

    @cached_property
    def implicit_clusters(self) -> np.ndarray:
        """(M,) whether a cluster has a condition that is not a linear coupling."""
        implicit = np.zeros(self.clusters.count, dtype=bool)
        implicit[self.rows.clusters[self.rows.kinds != LINEAR]] = True
        implicit[[function.cluster for function in self.functions]] = True
        return implicit

    @cached_property
    def implicit_rows(self) -> np.ndarray:
        """Numbers of the rows of implicit clusters."""
        return np.flatnonzero(self.implicit_clusters[self.rows.clusters])

    @cached_property
    def row_owners(self) -> np.ndarray:
        """(p,) the loop or coupling of each implicit condition, those of functions last."""
        sizes = [function.size(self.spanning) for function in self.functions]
        owners = np.repeat([function.owner for function in self.functions], sizes).astype(np.int64)
        return np.concatenate([self.rows.owners[self.implicit_rows], owners])

    @cached_property
    def dependent_columns(self) -> np.ndarray:
        """(n_d,) the spanning velocities that implicit conditions determine."""
        of_velocity = self.spanning.body_of
        implicit = self.implicit_clusters[self.clusters.of_body[of_velocity]]
        return np.flatnonzero(implicit & ~self.clusters.independent[of_velocity])

    @cached_property
    def independent_columns(self) -> np.ndarray:
        """(n_i,) the independent velocities of implicit clusters, as components of v."""
        return np.flatnonzero(self.implicit_clusters[self.cluster_of_column])

    @cached_property
    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        """G (nv_s, nv) of the independent joints and the linear clusters, and q_s (nq_s,) where q is zero.

        In linear clusters q_d = G q + offset, as their dependent joints have v = qdot.
        """
        G, offset = np.zeros((self.spanning.nv, self.nv)), np.zeros(self.spanning.nq)
        G[self.v_columns, np.arange(self.nv)] = 1.0
        coordinate = self.spanning.coordinate_of
        for cluster in np.flatnonzero(~self.implicit_clusters):
            rows = self.rows.clusters == cluster
            if not rows.any():
                continue
            members = self.clusters.of_body[self.spanning.body_of] == cluster
            dependent = np.flatnonzero(members & ~self.clusters.independent[self.spanning.body_of])
            free = np.flatnonzero(self.cluster_of_column == cluster)
            K = self.rows.coefficients[rows]
            K_free = np.where(
                coordinate[self.v_columns[free]] >= 0, K[:, coordinate[self.v_columns[free]]], 0
            )
            inverse = np.linalg.pinv(K[:, coordinate[dependent]])
            G[np.ix_(dependent, free)] = -inverse @ K_free
            offset[coordinate[dependent]] = inverse @ self.rows.constants[rows]
        return G, offset

    # --- configurations ----------------------------------------------------------------------------------

    def neutral(self) -> np.ndarray:
        """The configuration (nq,) of zero angles and displacements; that of the reference in closed loops."""
        q = np.concatenate([joint.neutral() for joint in self.joints])
        closed = self._implicit_coordinates
        q[closed] = self.reference[self.q_columns[closed]]
        return q

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """A configuration (nq,) in which loops close and are regular, near the reference where needed."""
        closed = self._implicit_coordinates
        home = jnp.asarray(self.reference[self.q_columns])
        while True:
            drawn = np.concatenate([joint.random(rng) for joint in self.joints])
            if not closed.any():
                return drawn
            for halvings in range(12):
                line = home + (self.joint_frame.align_at(jnp.asarray(drawn), home) - home) * 0.5**halvings
                q = np.where(closed, np.asarray(self.joint_frame.project_at(line)), drawn)
                solution = self.solve(q)
                if solution.reached == 1.0 and np.min(solution.pivot, initial=1.0) > _COMFORTABLE:
                    return q

    @cached_property
    def _implicit_coordinates(self) -> np.ndarray:
        """(nq,) whether a coordinate belongs to an implicit cluster."""
        owners = np.repeat(self.independent_bodies, np.diff(self.q_starts))
        return self.implicit_clusters[self.clusters.of_body[owners]]

    # --- definitions -------------------------------------------------------------------------------------

    def spanning_at(self, q: jax.Array) -> jax.Array:
        """q_s (nq_s,) at q (nq,); NaN where loops do not close or are singular."""
        if not self.implicit_clusters.any():
            return self._explicit_at(q)
        return self._spanning(q)

    def spanning_from_at(self, q: jax.Array, start: jax.Array) -> jax.Array:
        """q_s (nq_s,) by continuation from the spanning configuration `start` instead of the reference."""
        if not self.implicit_clusters.any():
            return self._explicit_at(q)
        return _where_good(self.solution_at(q, start))

    @cached_property
    def _spanning(self) -> Any:
        @jax.custom_jvp
        def spanning(q: jax.Array) -> jax.Array:
            return _where_good(self.solution_at(q, jnp.asarray(self.reference)))

        @spanning.defjvp
        def value_and_derivative(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
            (q,), (q_dot,) = primals, tangents
            q_s = spanning(q)
            v_s = self.G_at(q_s) @ self.joint_frame.velocity_at(q, q_dot)
            rate = self.spanning.frame.matrix_at(q_s) @ v_s
            return q_s, rate.at[self.q_columns].set(q_dot)

        return spanning

    def G_at(self, q_s: jax.Array) -> jax.Array:
        """G (nv_s, nv) at a spanning configuration (nq_s,): v_s = G v."""
        G = jnp.asarray(self.linear[0])
        if not self.implicit_clusters.any():
            return G
        K_d, K_i = self._K_at(q_s, self.dependent_columns), self._K_at(q_s, self._moving_columns)
        return G.at[np.ix_(self.dependent_columns, self.independent_columns)].set(-_least_squares(K_d, K_i))

    def closure_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """q_s (nq_s,), G (nv_s, nv) and LG[s, j, k] = L_{X_j} G[s, k], (nv_s, nv, nv)."""
        q_s = self.spanning_at(q)
        G, LG = self.joint_frame.value_and_lie_derivative_at(lambda q: self.G_at(self.spanning_at(q)), q)
        return q_s, G, jnp.swapaxes(LG, 0, 1)

    def residual_at(self, q_s: jax.Array) -> jax.Array:
        """phi (p,) of the implicit conditions, those of functions last, at q_s (nq_s,).

        They depend on the joints of their clusters alone; the other joints are put to neutral, so that
        nothing is lost to cancellation where a robot is far from the origin.
        """
        q_local = jnp.where(self._local, q_s, jnp.asarray(self.spanning.neutral()))
        T = jnp.concatenate([self.spanning.world_transforms_at(q_local), jnp.eye(4)[None]])
        values = [_row_values(self._implicit, T, q_s)]
        values += [function.residual_at(T, q_s) for function in self.functions]
        return jnp.concatenate(values)

    def solution_at(self, q: jax.Array, start: jax.Array) -> Solution:
        """Follow the independent configuration from that of `start` (nq_s,) to q (nq,).

        A step is a prediction along G and Newton corrections of the dependent joints. It is accepted if the
        first correction is small and each is at most half as long as the one before; otherwise it is halved.
        So a step stays where Newton's method contracts, and does not pass to another way of assembly unless
        both come close together, where the loop is nearly singular.
        """
        home = start[self.q_columns]
        goal = self.joint_frame.align_at(q, home)

        def along(t: jax.Array) -> jax.Array:
            return jnp.where(t == 1.0, goal, self.joint_frame.project_at(home + t * (goal - home)))

        def advance(state: Any) -> Any:
            t, step, q_s = state
            t_next = jnp.minimum(t + step, 1.0)
            here, there = along(t), along(t_next)
            v = self.joint_frame.velocity_at(here, there - here)
            tried, accepted = self._step(q_s, v, there)
            return (
                jnp.where(accepted, t_next, t),
                jnp.where(accepted, 2.0, 0.5) * step,
                jnp.where(accepted, tried, q_s),
            )

        first = self._with_independent(start, home)
        first, closes = self._corrected(first)
        t, _, q_s = jax.lax.while_loop(
            lambda state: (state[0] < 1.0) & (state[1] > _SMALLEST_STEP) & closes,
            advance,
            (jnp.zeros(()), jnp.ones(()), first),
        )
        q_s = self._newton(self._newton(q_s)[0])[0]
        pivot = _sines(self._scaled_K_d(q_s))
        return Solution(self._with_independent(q_s, along(t)), t, pivot, self.residual_at(q_s))

    def world_transforms_at(self, q: jax.Array) -> jax.Array:
        """Homogeneous transforms (N, 4, 4), m, of the bodies in the world, at q (nq,)."""
        return self.spanning.world_transforms_at(self.spanning_at(q))

    def world_quaternions_at(self, q: jax.Array) -> jax.Array:
        """Orientations (N, 4) of the bodies in the world, at q (nq,)."""
        return self.spanning.world_quaternions_at(self.spanning_at(q))

    def body_jacobians_at(self, q: jax.Array) -> jax.Array:
        """A = A_s G, (N, 6, nv), at q (nq,): body twists [omega; v] = A v, in body axes.

        Source: [W] VI-C.
        """
        q_s = self.spanning_at(q)
        return self.spanning.body_jacobians_at(q_s) @ self.G_at(q_s)

    # --- validity ----------------------------------------------------------------------------------------

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether quaternions have norm one and all loops close; one boolean."""
        return self.frame.valid_at(q)

    def explain(self, q: Any) -> None:
        """Raise the error that says why q (nq,) is not a configuration, in particular which loop is open."""
        self.frame.explain(q)

    def explain_loops(self, q: Any, start: Any = None) -> None:
        """Raise `ClosureError` where a loop does not close at q (nq,) or is singular; quiet where all do."""
        solution = self.solve(q, start)
        weakest = int(np.argmin(solution.pivot)) if len(solution.pivot) else 0
        cluster = self.clusters.of_body[self.spanning.body_of[self.dependent_columns[weakest]]]
        names = self._names_of(cluster)
        if solution.reached < 1.0:
            raise_at(
                ClosureError,
                f"{names} cannot close: from the reference configuration the loops could be followed over "
                f"{100 * float(solution.reached):.3g} % of the way. Either no configuration closes them, or "
                "one on the way is singular; a reference (or a guess) nearer to q avoids the latter",
                q,
            )
        if not solution.pivot[weakest] >= SINGULAR:
            raise_at(
                ClosureError,
                f"{names} is singular: the dependent joint '{self._joint_of(weakest)}' is not determined by "
                "the independent ones, as where bars are aligned. Choose other independent joints, or a "
                "configuration away from this one",
                q,
            )

    def solve(self, q: Any, start: Any = None) -> Solution:
        """`solution_at`, compiled; from the reference where `start` is None."""
        start = self.reference if start is None else start
        solution: Solution = self._compiled_solution(jnp.asarray(q), jnp.asarray(start))
        return solution

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: not what was derived from it."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    # --- parts of the above ------------------------------------------------------------------------------

    @cached_property
    def _compiled_solution(self) -> Any:
        return jax.jit(self.solution_at)

    @cached_property
    def _implicit(self) -> Rows:
        """The rows of implicit clusters."""
        names = self.rows.__dataclass_fields__
        return Rows(**{name: getattr(self.rows, name)[self.implicit_rows] for name in names})

    @cached_property
    def _local(self) -> np.ndarray:
        """(nq_s,) whether a spanning coordinate belongs to an implicit cluster."""
        owners = np.repeat(np.arange(len(self.tree.joints)), np.diff(self.spanning.q_starts))
        return self.implicit_clusters[self.clusters.of_body[owners]]

    @cached_property
    def _moving_columns(self) -> np.ndarray:
        """(n_i,) `independent_columns` as spanning velocities."""
        return self.v_columns[self.independent_columns]

    def _explicit_at(self, q: jax.Array) -> jax.Array:
        """q_s (nq_s,) with the dependent joints of linear clusters; those of implicit ones are zero."""
        return jnp.asarray(self._affine) @ q + self.linear[1]

    @cached_property
    def _affine(self) -> np.ndarray:
        """dq_s / dq (nq_s, nq) of the independent joints and the linear clusters."""
        affine = np.zeros((self.spanning.nq, self.nq))
        affine[self.q_columns, np.arange(self.nq)] = 1.0
        coordinate, G = self.spanning.coordinate_of, self.linear[0]
        place = {column: number for number, column in enumerate(self.q_columns)}
        for velocity, column in zip(*np.nonzero(G), strict=True):
            if not self.clusters.independent[self.spanning.body_of[velocity]]:
                affine[coordinate[velocity], place[coordinate[self.v_columns[column]]]] = G[velocity, column]
        return affine

    def _with_independent(self, q_s: jax.Array, q: jax.Array) -> jax.Array:
        """q_s with the independent and the linearly dependent joints at q; the implicit ones as they are."""
        linear = ~(self._local & ~np.isin(np.arange(self.spanning.nq), self.q_columns))
        return jnp.where(linear, self._explicit_at(q), q_s)

    def _step(self, q_s: jax.Array, v: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The spanning configuration at q, from that where q was v away, and whether it is accepted."""
        forward = (
            jnp.zeros(self.spanning.nv)
            .at[self.dependent_columns]
            .set((self.G_at(q_s) @ v)[self.dependent_columns])
        )
        predicted = self.spanning.frame.retract_at(q_s, forward)
        return self._corrected(self._with_independent(predicted, q))

    def _corrected(self, q_s: jax.Array) -> tuple[jax.Array, jax.Array]:
        """q_s after Newton's method on the dependent joints, and whether it contracted from the start."""

        def correct(state: Any) -> Any:
            count, q_s, before, _ = state
            q_s, size = self._newton(q_s)
            limit = jnp.where(count == 0, _FIRST_CORRECTION, jnp.maximum(0.5 * before, _CONVERGED))
            return count + 1, q_s, size, size <= limit

        _, q_s, size, good = jax.lax.while_loop(
            lambda state: (state[0] < _CORRECTIONS) & (state[2] > _CONVERGED) & state[3],
            correct,
            (0, q_s, jnp.asarray(jnp.inf), jnp.asarray(True)),
        )
        closed = jnp.max(jnp.abs(self.residual_at(q_s)), initial=0.0) < 1e-10
        return q_s, good & (size <= _CONVERGED) & closed

    def _newton(self, q_s: jax.Array) -> tuple[jax.Array, jax.Array]:
        """q_s after one correction of the dependent joints, and its length relative to `lengths`."""
        K_d = self._K_at(q_s, self.dependent_columns)
        correction = -_least_squares(K_d, self.residual_at(q_s)[:, None])[:, 0]
        step = jnp.zeros(self.spanning.nv).at[self.dependent_columns].set(correction)
        size = jnp.linalg.norm(correction / self.lengths[self.dependent_columns])
        return self.spanning.frame.project_at(self.spanning.frame.retract_at(q_s, step)), size

    def _K_at(self, q_s: jax.Array, columns: np.ndarray) -> jax.Array:
        """K[:, columns], the derivative of phi along those spanning velocities."""
        X = self.spanning.frame.matrix_at(q_s)[:, columns]
        along = lambda direction: jax.jvp(self.residual_at, (q_s,), (direction,))[1]  # noqa: E731
        return jax.vmap(along, in_axes=1, out_axes=1)(X)

    def _scaled_K_d(self, q_s: jax.Array) -> jax.Array:
        return self._K_at(q_s, self.dependent_columns) * self.lengths[self.dependent_columns]

    def _names_of(self, cluster: int) -> str:
        """The loops and couplings of a cluster in words."""
        owners = set(self.rows.owners[self.rows.clusters == cluster].tolist())
        owners |= {function.owner for function in self.functions if function.cluster == cluster}
        names = ", ".join(f"'{self.names[owner]}'" for owner in sorted(owners))
        return f"loop {names}" if len(owners) == 1 else f"the system of loops {names}"

    def _joint_of(self, dependent: int) -> str:
        return self.tree.joint_names[self.spanning.body_of[self.dependent_columns[dependent]]]


def _where_good(solution: Solution) -> jax.Array:
    """The configuration where all loops close and are regular, else NaN."""
    good = (solution.reached == 1.0) & jnp.all(solution.pivot >= SINGULAR)
    return jnp.where(good, solution.q, jnp.nan)


def _least_squares(K: jax.Array, right: jax.Array) -> jax.Array:
    """K^+ right for K (p, n) of full column rank."""
    Q, R = jnp.linalg.qr(K)
    return jax.scipy.linalg.solve_triangular(R, Q.T @ right)


def _sines(K: jax.Array) -> jax.Array:
    """For each column of K, the sine of its angle with the span of those before it, (n,)."""
    R = jnp.linalg.qr(K, mode="r")
    return jnp.abs(jnp.diagonal(R)) / jnp.maximum(jnp.linalg.norm(R, axis=0), 1e-300)


def _row_values(rows: Rows, T: jax.Array, q_s: jax.Array) -> jax.Array:
    """phi of each row of `Rows`, from transforms (N + 1, 4, 4) with the ground last, and q_s."""
    a, b = T[rows.bodies_a], T[rows.bodies_b]
    r = jnp.einsum("rab,rb->ra", b[:, :3, :3], rows.points_b) + b[:, :3, 3] - a[:, :3, 3]
    r = jnp.einsum("rba,rb->ra", a[:, :3, :3], r) - rows.points_a
    w = jnp.einsum("rba,rbc,rc->ra", a[:, :3, :3], b[:, :3, :3], rows.w)
    values = jnp.select(
        [rows.kinds == POSITION, rows.kinds == DISTANCE, rows.kinds == LINEAR],
        [jnp.sum(rows.u * r, axis=1), jnp.sum(r * r, axis=1), jnp.asarray(rows.coefficients) @ q_s],
        jnp.sum(rows.u * w, axis=1),
    )
    return rows.scales * np.where(rows.kinds == DISTANCE, 0.5, 1.0) * (values - rows.constants)


def _ranges(starts: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The entries of the slices with these numbers, one after the other."""
    return np.concatenate([np.arange(starts[number], starts[number + 1]) for number in numbers])
