"""Kinematics of a mechanism with closed chains: its spanning tree, and the spanning configuration q_s(q).

Loops and couplings are conditions phi(q_s) = 0 on the spanning configuration. With K = L_X phi split into
dependent and independent velocities, K_d v_d + K_i v_i = 0, spanning velocities are

    v_s = G v,   G_d = -K_d^+ K_i,   G_i = 1,   A = A_s(q_s(q)) G(q_s(q)).

q_s(q) is defined by phi(q_s) = 0 and differentiated implicitly. Loops may close in several ways; the path of
the independent joints from the reference to q chooses one of them, so q_s is a function of q alone. A solver
follows this path (`LoopSolver`), and phi and K of its result prove it. There is no solver if a closure is a
user's function, and none on devices other than the processor; then `continuation.follow` follows the path. A
cluster with only linear couplings has constant G. The functions named `_at` are JAX-traceable definitions;
the fast algorithm is in `kernels`. Source: [W] VI-C.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, NoReturn, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import in_jax
from connections.checks import ClosureError, raise_at, text_of_point
from connections.engines.platforms import PlatformFunction
from connections.evaluation.compilation import compiled
from connections.geometry import FrameField
from connections.geometry.numerics.least_squares import least_sine
from connections.geometry.restricted_frame import RestrictedFrame
from connections.multibody.clusters import LINEAR, Clusters, Rows, make_read_only
from connections.multibody.definition.kinematics import Coordinates, Kinematics
from connections.multibody.definition.rotors import Rotors
from connections.multibody.graph import ClusterTree, Tree, cluster_tree
from connections.multibody.joints import Joint
from connections.multibody.loops.closures import Coupling, Loop
from connections.multibody.loops.condition_rows import FunctionCondition
from connections.multibody.loops.conditions import LoopClosure
from connections.multibody.loops.continuation import follow
from connections.multibody.loops.lengths import coordinate_units, velocity_units
from connections.multibody.loops.sides import Sides, are_turned_away
from connections.multibody.tolerances import SINGULAR

_COMFORTABLE = 0.05  # least `_least_sine` of configurations of `random`, or half the reference's
_NOTHING = 1e-14  # entries of constant G below this, relative to the terms of their sums, are round-off


class Failure(NamedTuple):
    """Why loops could not be followed to a configuration."""

    body: int  #: the body, of the cluster whose loops failed, whose dependent joint is determined least
    reached: float  #: the fraction of the path up to the last point at which the loops closed
    q: np.ndarray  #: (nq,) the configuration there, as far as it belongs to these loops
    singular: bool  #: whether the loops are singular at the end of the path; otherwise they are open beyond


class LoopSolver(Protocol):
    """A solver that follows loops from one configuration to another, such as the compiled one."""

    def followed_at(self, q: jax.Array, start: jax.Array) -> jax.Array:
        """q_s (..., nq_s) at q (..., nq) from `start` (..., nq_s), not finite if loops do not close.

        JAX-traceable on the processor.
        """

    def failure(self, q: np.ndarray) -> Failure | None:
        """Why the loops do not close at q (nq,); None if they do."""


@dataclass(frozen=True, eq=False)
class ClosedKinematics(Coordinates):
    """The layout of a closed chain's configuration, and its kinematics at one configuration."""

    spanning: Kinematics  #: the spanning tree, without loops and couplings
    #: the cluster tree, and the conditions
    clusters: Clusters
    rows: Rows
    functions: tuple[FunctionCondition, ...]
    names: tuple[str, ...]  #: of loops and couplings, numbered as ``rows.owners``
    reference: np.ndarray  #: (nq_s,) a regular spanning configuration in which all loops close
    #: makes the solver of these kinematics; None if only JAX can evaluate the conditions
    make_solver: Callable[[ClosedKinematics], LoopSolver] | None = None
    sides: tuple[Sides, ...] = ()  #: by which a guess of the user's is refused whose frames are turned away
    ties: tuple[Loop | Coupling, ...] = ()  #: what the conditions are made of, by links and joints

    def __post_init__(self) -> None:
        make_read_only(self)

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
    def q_columns(self) -> np.ndarray:
        """(nq,) the index among the spanning coordinates of each independent coordinate."""
        return _ranges(self.spanning.q_starts, self.independent_bodies)

    @cached_property
    def v_columns(self) -> np.ndarray:
        """(nv,) the index among the spanning velocities of each independent velocity."""
        return _ranges(self.spanning.v_starts, self.independent_bodies)

    @cached_property
    def body_of(self) -> np.ndarray:
        """(nv,) the body whose joint has this velocity component."""
        return self.spanning.body_of.take(self.v_columns)

    @cached_property
    def cluster_of_column(self) -> np.ndarray:
        """(nv,) the cluster of each independent velocity."""
        return self.clusters.of_body.take(self.body_of)

    @cached_property
    def column_starts(self) -> np.ndarray:
        """(M + 1,) the first independent velocity of each cluster."""
        return np.searchsorted(self.cluster_of_column, np.arange(self.clusters.count + 1))

    @cached_property
    def moves(self) -> np.ndarray:
        """(N, nv) whether a velocity may move a body, as those of its own cluster and of ancestors may."""
        moves = np.zeros((len(self.tree.joints), self.nv), dtype=bool)
        for body in range(len(moves)):
            support = self.clusters.supports[body]
            own = self.cluster_of_column == self.clusters.of_body[body]
            moves[body] = own | (moves[support] if support >= 0 else False)
        return moves

    @cached_property
    def frame(self) -> FrameField:
        """The frame in which v are components: `joint_frame`, at configurations in which the loops close."""
        if not self.implicit_clusters.any():
            return self.joint_frame
        return RestrictedFrame(self.joint_frame, self._closes_at, self.explain_loops)

    @cached_property
    def cluster_tree(self) -> ClusterTree:
        """The arborescence of clusters."""
        return cluster_tree(
            self.tree, self.clusters.of_body, self.clusters.parents, self.clusters.independent
        )

    # --- the split into linear and implicit clusters -----------------------------------------------------

    @cached_property
    def implicit_clusters(self) -> np.ndarray:
        """(M,) whether a cluster has a condition that is not a linear coupling."""
        implicit = np.zeros(self.clusters.count, dtype=bool)
        implicit[self.rows.clusters[self.rows.kinds != LINEAR]] = True
        implicit[[function.cluster for function in self.functions]] = True
        return implicit

    @cached_property
    def loops(self) -> LoopClosure:
        """The conditions of implicit clusters."""
        of_velocity = self.clusters.of_body[self.spanning.body_of]
        of_coordinate = self.clusters.of_body[_owners(self.spanning.q_starts)]
        independent = self.clusters.independent
        dependent = np.flatnonzero(self.implicit_clusters[of_velocity] & ~independent[self.spanning.body_of])
        free = np.flatnonzero(self.implicit_clusters[self.cluster_of_column])
        local = self.implicit_clusters[of_coordinate]
        rows = np.flatnonzero(self.implicit_clusters[self.rows.clusters])
        return LoopClosure(
            spanning=self.spanning,
            joint_frame=self.joint_frame,
            rows=Rows(**{name: getattr(self.rows, name)[rows] for name in Rows.__dataclass_fields__}),
            functions=self.functions,
            dependent=dependent,
            free=free,
            independent=self.v_columns[free],
            local=local,
            unknown=local & ~independent[_owners(self.spanning.q_starts)],
            q_columns=self.q_columns,
            affine=self._affine,
            offset=self.linear[1],
            lengths=self._units[dependent],
            free_lengths=self._units[self.v_columns[free]],
        )

    @cached_property
    def _units(self) -> np.ndarray:
        """(nv_s,) the unit of each spanning velocity, `velocity_units`."""
        return velocity_units(self.spanning, self.clusters.of_body, self.clusters.sizes)

    @cached_property
    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        """G (nv_s, nv) of the independent joints and the linear clusters, and q_s (nq_s,) at q = 0.

        In linear clusters q_d = G q + offset, because their dependent joints have v = qdot.
        """
        G, offset = np.zeros((self.spanning.nv, self.nv)), np.zeros(self.spanning.nq)
        G[self.v_columns, np.arange(self.nv)] = 1.0
        coordinate = self.spanning.coordinate_of
        for cluster in np.flatnonzero(~self.implicit_clusters):
            rows, members = self.rows.clusters == cluster, self.clusters.of_body == cluster
            dependent = np.flatnonzero((members & ~self.clusters.independent)[self.spanning.body_of])
            free = np.flatnonzero(self.cluster_of_column == cluster)
            K, scales, units = self.rows.coefficients[rows], self.rows.scales[rows], self._units[dependent]
            of_free = coordinate[self.v_columns[free]]
            K_free = np.where(of_free >= 0, K[:, of_free], 0.0)
            scaled = scales[:, None] * K[:, coordinate[dependent]] * units
            inverse = np.linalg.pinv(scaled)
            inverse = units[:, None] * (2.0 * inverse - inverse @ scaled @ inverse) * scales  # refined
            solved = -inverse @ K_free
            solved[np.abs(solved) < _NOTHING * (np.abs(inverse) @ np.abs(K_free))] = 0.0
            G[np.ix_(dependent, free)] = solved
            offset[coordinate[dependent]] = inverse @ self.rows.constants[rows]
        return G, offset

    # --- configurations ----------------------------------------------------------------------------------

    def neutral(self) -> np.ndarray:
        """The configuration (nq,) of zero angles and displacements; implicit clusters as in `reference`."""
        q, closed = super().neutral(), self._implicit_coordinates
        q[closed] = self.reference[self.q_columns[closed]]
        return q

    def random_regular(
        self,
        rng: np.random.Generator,
        follow: Callable[[np.ndarray], np.ndarray],
        derivative: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """A configuration (nq,) in which loops close and are regular.

        Joints of implicit clusters lie between random values (lengths: up to the cluster's size) and the
        reference: the distance is halved until the loops close.

        Parameters
        ----------
        rng : NumPy's random generator.
        follow : q (nq,) -> q_s (nq_s,), not finite if loops do not close.
        derivative : q_s (nq_s,) -> K (p, nv_s) of the conditions of implicit clusters.
        """
        closed = self._implicit_coordinates
        drawn = self.random(rng)
        if not closed.any():
            return drawn
        units = coordinate_units(self.spanning, self.clusters.of_body, self.clusters.sizes)
        drawn = np.where(closed, units[self.q_columns], 1.0) * drawn
        home: np.ndarray = self.reference[self.q_columns]
        far = np.asarray(self.joint_frame.align_at(in_jax(drawn), in_jax(home)))
        least = min(_COMFORTABLE, 0.5 * self._least_sine(derivative(self.reference)))
        for halvings in range(20):
            line = home + (far - home) * 0.5**halvings
            q: np.ndarray = np.where(closed, np.asarray(self.joint_frame.project_at(in_jax(line))), drawn)
            q_s = follow(q)
            if np.isfinite(q_s).all() and self._least_sine(derivative(q_s)) > least:
                return q
        return np.where(closed, home, drawn)

    @cached_property
    def _implicit_coordinates(self) -> np.ndarray:
        """(nq,) whether a coordinate belongs to an implicit cluster."""
        bodies = self.independent_bodies[_owners(self.q_starts)]
        implicit: np.ndarray = self.implicit_clusters[self.clusters.of_body[bodies]]
        return implicit

    # --- definitions -------------------------------------------------------------------------------------

    def near(self, start: Any) -> ClosedKinematics:
        """Kinematics whose loops are followed from the spanning configuration `start` (nq_s,)."""
        near = copy(self)
        for cached in ("frame", "_hash"):  # the frame asks whether loops close
            near.__dict__.pop(cached, None)
        near.__dict__["_start"] = start
        near.__dict__["_content"] = object()  # it is like no other
        return near

    def at_solution(self, q_s: jax.Array) -> ClosedKinematics:
        """Kinematics at the one configuration whose solution is q_s (nq_s,); no loop is solved again."""

        @jax.custom_jvp
        def solved(q: jax.Array, q_s: jax.Array) -> jax.Array:
            return q_s

        @solved.defjvp
        def value_and_derivative(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
            q_s = solved(*primals)
            return q_s, self.spanning_rate_at(primals[0], q_s, tangents[0])

        at = self.near(q_s)
        at.__dict__["_spanning"] = solved
        return at

    def spanning_at(self, q: jax.Array) -> jax.Array:
        """q_s (nq_s,) at q (nq,); NaN if loops do not close or are singular."""
        if not self.implicit_clusters.any():
            return self._explicit_at(q)
        return self._spanning(q, jnp.asarray(self._start))

    @cached_property
    def _start(self) -> Any:
        return self.reference

    def spanning_rate_at(self, q: jax.Array, q_s: jax.Array, q_dot: jax.Array) -> jax.Array:
        """The rate of q_s (nq_s,) where q (nq,) moves at the rate q_dot (nq,)."""
        v_s = self.G_at(q_s) @ self.joint_frame.velocity_at(q, q_dot)
        rate = self.spanning.frame.matrix_at(q_s) @ v_s
        return rate.at[self.q_columns].set(q_dot, unique_indices=True)

    def followed_at(self, q: jax.Array, start: jax.Array) -> jax.Array:
        """q_s (nq_s,) at q (nq,), by continuation in JAX from the spanning configuration `start` (nq_s,)."""
        solution = follow(self.loops, q, start)
        good = (solution.reached == 1.0) & jnp.all(solution.pivot >= SINGULAR)
        return jnp.where(good, solution.q, jnp.nan)

    @cached_property
    def _spanning(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        """`spanning_at` of a configuration and a start, compiled: outside of JAX, too, it is compiled once.

        JAX keeps the trace of a compiled function as long as that function lives. If the trace held this
        object, which has the function, neither would ever go: it holds another one.
        """
        apart = copy(self)
        for name in ("frame", "_spanning", "_solver"):
            apart.__dict__.pop(name, None)
        solution = apart._with_rate
        return jax.jit(lambda q, start: solution(q, start))

    @cached_property
    def _with_rate(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        """`spanning_at` of a configuration and a start, with its derivative."""
        solver = self._solver

        @jax.custom_jvp
        def spanning(q: jax.Array, start: jax.Array) -> jax.Array:
            if solver is None:
                return self.followed_at(q, start)
            return self.loops.proved_at(q, solution(q, start))

        @spanning.defjvp
        def value_and_derivative(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
            (q, start), (q_dot, _) = primals, tangents
            q_s = spanning(q, start)
            return q_s, self.spanning_rate_at(q, q_s, q_dot)

        def change(at: Any, along: Any) -> jax.Array:
            (q, start), (q_dot, _) = at, along
            if q_dot is None:  # another start changes nothing
                return jnp.zeros(self.spanning.nq)
            return self.spanning_rate_at(q, spanning(q, start), q_dot)

        if solver is not None:
            nq = self.spanning.nq
            solution = PlatformFunction("loops", (nq,), solver.followed_at, self.followed_at, change)
        return spanning

    @cached_property
    def following(self) -> PlatformFunction:
        """(q, q_s) -> q_s, where loops have been solved at q; its derivatives are those by q."""

        def change(at: Any, along: Any) -> jax.Array:
            (q, q_s), (q_dot, _) = at, along
            return jnp.zeros(self.spanning.nq) if q_dot is None else self.spanning_rate_at(q, q_s, q_dot)

        return PlatformFunction("loops", (self.spanning.nq,), _second, _second, change)

    def turned_at(self, q_s: jax.Array) -> jax.Array:
        """Whether a loop that closes at q_s (nq_s,) has frames that are turned away from each other."""
        transforms = jnp.concatenate([self.spanning.world_transforms_at(q_s), jnp.eye(4)[None]])
        return jnp.any(are_turned_away(self.sides, transforms, jnp))

    def G_at(self, q_s: jax.Array) -> jax.Array:
        """G (nv_s, nv) at a spanning configuration (nq_s,): v_s = G v."""
        G = jnp.asarray(self.linear[0])
        if not self.implicit_clusters.any():
            return G
        columns = np.ix_(self.loops.dependent, self.loops.free)
        return G.at[columns].set(self.loops.G_at(q_s), unique_indices=True)

    def closure_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """q_s (nq_s,), G (nv_s, nv) and LG[s, j, k] = L_{X_j} G[s, k], (nv_s, nv, nv)."""
        q_s = self.spanning_at(q)
        G, LG = self.joint_frame.value_and_lie_derivative_at(lambda q: self.G_at(self.spanning_at(q)), q)
        return q_s, G, jnp.swapaxes(LG, 0, 1)

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

    @property
    def rotors(self) -> Rotors:
        """The armature of all joints of the spanning tree as rigid bodies."""
        return self.spanning.rotors

    def rotor_jacobians_at(self, q: jax.Array) -> jax.Array:
        """S G, (R, 6, nv): the twists of the rotors, in their axes, are S G v, at q (nq,)."""
        return jnp.asarray(self.rotors.twists) @ self.G_at(self.spanning_at(q))

    def rotor_poses_at(self, q: jax.Array) -> jax.Array:
        """(R, 7) [position, m, quaternion] of the rotors, at q (nq,)."""
        return self.rotors.poses_at(self.spanning_at(q))

    def explain_loops(self, q: np.ndarray) -> None:
        """Raise `ClosureError` if a loop is open or singular at q (nq,)."""
        failure = self.failure_from(q) if self._solver is None else self._solver.failure(q)
        if failure is not None:
            self.refuse(q, failure, "the reference configuration")

    def failure_from(
        self, q: np.ndarray, start: np.ndarray | None = None, enough: float = SINGULAR
    ) -> Failure | None:
        """Why the continuation in JAX from `start`, or the reference, misses q (nq,); None if it does not.

        It does, too, if a pivot of K_d is not `enough`.
        """
        start = self.reference if start is None else start
        q_s, reached, pivot = self._compiled_solution(jnp.asarray(q), jnp.asarray(start))
        least, arrived = int(np.argmin(pivot)), bool(reached == 1.0)
        if arrived and pivot[least] >= enough:
            return None
        body = int(self.spanning.body_of[self.loops.dependent[least]])
        return Failure(body, float(reached), np.asarray(q_s)[self.q_columns], arrived)

    def refuse(self, q: np.ndarray, failure: Failure, origin: str) -> NoReturn:
        """Raise `ClosureError` at q (nq,), naming the loops, and where the path to it began: the `origin`."""
        cluster = self.clusters.of_body[failure.body]
        owners = set(self.rows.owners[self.rows.clusters == cluster].tolist())
        owners |= {function.owner for function in self.functions if function.cluster == cluster}
        names = ", ".join(f"'{self.names[owner]}'" for owner in sorted(owners))
        names = f"loop {names}" if len(owners) == 1 else f"the system of loops {names}"
        if failure.singular:
            nearly = ", or so nearly that float64 has less than 6 digits left" if self.functions else ""
            joint = self.tree.joint_names[failure.body]
            why = (
                f"{names} is singular{nearly}: the dependent joint '{joint}' is not determined by the "
                "independent ones, as where bars are aligned. Choose other independent joints, or a "
                "configuration away from this one"
            )
            raise_at(ClosureError, why, q)
        raise ClosureError(
            f"{names} cannot close at q = {text_of_point(q)}: from {origin}, it could be followed over "
            f"{100 * failure.reached:.3g} % of the way, to q = {text_of_point(failure.q)}. No configuration "
            "beyond closes it, or branches meet there and none goes on smoothly, or the way is too long; "
            "in the last two cases, give a reference (or a guess) nearer to q"
        )

    # --- parts of the above ------------------------------------------------------------------------------

    def _closes_at(self, q: jax.Array) -> jax.Array:
        """Whether all loops close at q (nq,); one boolean."""
        return jnp.all(jnp.isfinite(self.spanning_at(q)))

    @cached_property
    def _solver(self) -> LoopSolver | None:
        return None if self.make_solver is None else self.make_solver(self)

    def _least_sine(self, K: np.ndarray) -> float:
        """`least_sine` of the dependent columns of K."""
        return least_sine(K[:, self.loops.dependent] * self.loops.lengths)

    @cached_property
    def _compiled_solution(self) -> Any:
        return compiled(partial(follow, self.loops))

    def _explicit_at(self, q: jax.Array) -> jax.Array:
        """q_s (nq_s,) at q (nq,), except that dependent joints of implicit clusters are zero."""
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


def _second(_: jax.Array, q_s: jax.Array) -> jax.Array:
    return q_s


def _ranges(starts: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The entries of the slices with the indices `numbers`, one after the other."""
    return np.concatenate([np.arange(starts[number], starts[number + 1]) for number in numbers])


def _owners(starts: np.ndarray) -> np.ndarray:
    """The index of the slice of each entry of consecutive slices."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))
