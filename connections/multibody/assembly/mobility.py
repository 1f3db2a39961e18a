"""The rank of the conditions of each cluster, and the choice of independent joints, in NumPy.

The number of independent velocities of a cluster is the number of its joints' velocities minus the rank of K
= L_X phi. The independent joints are those that the user declares, or whole joints that `independence`
chooses such that the columns K_d of the other joints are far from linearly dependent. Source: [W] VI-C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from connections.checks import ModelError
from connections.geometry.numerics.least_squares import RANK, least_sine
from connections.multibody.assembly.independence import MOST, MOST_GAIN, IndependentChoice
from connections.multibody.assembly.ranks import least_size, paths_of, scales_of, terms_of
from connections.multibody.assembly.whole_joints import (
    Note,
    parts_of,
    refuse_part_of_a_joint,
    rod_of,
    split_of,
)
from connections.multibody.clusters import LINEAR, Rows
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.joints import Joint, Spherical
from connections.multibody.loops.closures import Loop
from connections.multibody.loops.condition_rows import FunctionCondition
from connections.multibody.loops.lengths import velocity_units
from connections.multibody.program.closure_conditions import HostConditions
from connections.multibody.tolerances import CLOSED

_WORTH = 0.5  # another one is written if its gain is less than this of the best one's


@dataclass(frozen=True, eq=False)
class Conditions:
    """The conditions of all loops and couplings."""

    spanning: Kinematics  #: the spanning tree
    of_body: np.ndarray  #: (N,) the cluster of each body
    #: the conditions
    rows: Rows
    functions: tuple[FunctionCondition, ...]
    names: tuple[str, ...]  #: of loops and couplings, numbered as ``rows.owners``
    sizes: np.ndarray  #: (M,) m, characteristic lengths of the clusters (`lengths`)
    loops: tuple[Loop, ...] = ()  #: whose owners are the first numbers

    @cached_property
    def units(self) -> np.ndarray:
        """(nv_s,) the unit of each spanning velocity, `velocity_units`."""
        return velocity_units(self.spanning, self.of_body, self.sizes)

    @cached_property
    def host(self) -> HostConditions:
        """The conditions as functions of the spanning configuration."""
        return HostConditions(self.spanning, self.rows, self.functions)

    @cached_property
    def owners(self) -> tuple[np.ndarray, np.ndarray]:
        """The loop or coupling, and the cluster, of each condition."""
        sizes = [function.size(self.spanning) for function in self.functions]
        owners = np.repeat([f.owner for f in self.functions], sizes).astype(np.int64)
        clusters = np.repeat([f.cluster for f in self.functions], sizes).astype(np.int64)
        return np.concatenate([self.rows.owners, owners]), np.concatenate([self.rows.clusters, clusters])

    def columns_of(self, members: Any) -> np.ndarray:
        """The indices of the spanning velocities of the joints that move the bodies `members`."""
        return np.flatnonzero(np.isin(self.spanning.body_of, members))

    @cached_property
    def tied(self) -> np.ndarray:
        """The indices of the clusters that have conditions."""
        return np.unique(self.owners[1])

    @cached_property
    def tied_columns(self) -> np.ndarray:
        """The indices of the spanning velocities of these clusters."""
        return self.columns_of(np.flatnonzero(np.isin(self.of_body, self.tied)))

    @cached_property
    def scales(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`scales_of`: sizes of rows (p,), of columns (nv_s,), and the values (p,) that count as zero.

        A condition holds if phi, relative to its size, is below `CLOSED`, or is round-off.
        """
        paths, terms = self._paths, self._terms
        rows, columns, zero = np.ones(len(terms)), np.ones(self.spanning.nv), np.full(len(terms), CLOSED)
        for cluster in self.tied:
            members = self.members(cluster)
            own, of_joints = self.owners[1] == cluster, self.columns_of(members)
            least = least_size(paths[members], float(self.sizes[cluster]))
            rows[own], columns[of_joints] = scales_of(terms[np.ix_(own, of_joints)], least)
            zero[own] = np.maximum(CLOSED, RANK * least / rows[own])
        return rows, columns, zero

    @cached_property
    def _paths(self) -> np.ndarray:
        """`paths_of`."""
        return paths_of(self.spanning, self.of_body, self.sizes)

    @cached_property
    def _terms(self) -> np.ndarray:
        """`terms_of`."""
        return terms_of(self.spanning, self.rows, self.functions, self._paths, self.sizes, self.units)

    @cached_property
    def _geared(self) -> np.ndarray:
        """(nv_s,) whether a velocity is in linear couplings only, where a large ratio does no harm."""
        linear = np.zeros(len(self._terms), dtype=bool)
        linear[: len(self.rows.kinds)] = self.rows.kinds == LINEAR
        return np.asarray(~self._terms[~linear].any(axis=0))

    def ranks(self, q: np.ndarray) -> np.ndarray:
        """The rank of K of each cluster that has conditions."""
        return np.array([rank_of(self.scaled(q, cluster, self.members(cluster))) for cluster in self.tied])

    def members(self, cluster: int) -> np.ndarray:
        """The bodies of a cluster."""
        return np.flatnonzero(self.of_body == cluster)

    def quality(self, q: np.ndarray, ranks: np.ndarray, wanted: np.ndarray) -> float:
        """How far q is from singular: the least value of the clusters, 0 if one has a rank below `ranks`.

        If all joints of a cluster are declared (`wanted` 0 or 1), its value is `least_sine` of its dependent
        columns; otherwise it is the ratio of the least nonzero to the largest singular value of K.
        """
        worst = np.inf
        for cluster, rank in zip(self.tied, ranks, strict=True):
            members = self.members(cluster)
            K = self.scaled(q, cluster, members)
            if rank_of(K) < rank:
                return 0.0
            if (wanted[members] >= 0).all():
                dependent = self.scaled(q, cluster, members[wanted[members] == 0])
                worst = min(worst, least_sine(dependent, 1.0))
            elif rank:
                singular = np.linalg.svd(K, compute_uv=False)
                worst = min(worst, singular[rank - 1] / singular[0])
        return float(worst)

    def scaled(self, q: np.ndarray, cluster: int, members: np.ndarray) -> np.ndarray:
        """K of a cluster's conditions along the velocities of `members`, in the scales of `scales_of`."""
        K, own, columns = self.in_units(q)[1], self.owners[1] == cluster, self.columns_of(members)
        return np.asarray(K[np.ix_(own, columns)] / self.scales[1][columns])

    def in_units(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Phi (p,) and K (p, nv_s) of all conditions, relative to their sizes, along velocities in units."""
        (phi, K), rows = self.host.at(q), self.scales[0]
        return phi / rows, K * self.units / rows[:, None]

    def split(self, q: np.ndarray, cluster: int) -> tuple[np.ndarray, np.ndarray]:
        """The range (p, rank) of K of a cluster at q, and its kernel (k, nv_s), velocities in units.

        Both are orthonormal in the scales of K, and zero for other conditions and joints.
        """
        members = self.members(cluster)
        K, columns = self.scaled(q, cluster, members), self.columns_of(members)
        U, _, V = np.linalg.svd(K)
        rank = rank_of(K)
        along, across = np.zeros((len(self.owners[1]), rank)), np.zeros((len(V) - rank, self.spanning.nv))
        along[self.owners[1] == cluster] = U[:, :rank]
        across[:, columns] = V[rank:] / self.scales[1][columns]
        return along, across

    def within_a_turn(self, q: np.ndarray) -> np.ndarray:
        """Q with angles within half a turn where loops see their sine and cosine only: steps are not rounded.

        Couplings see turns, and functions may.
        """
        near, coupled = q.copy(), self.rows.coefficients[self.rows.kinds == LINEAR].any(axis=0)
        seen = np.isin(self.of_body, [function.cluster for function in self.functions])
        for body, joint in enumerate(self.spanning.joints):
            start = self.spanning.q_starts[body]
            for element in joint.chain:
                if element.is_angle and not coupled[start] and not seen[body]:
                    near[start] = np.arctan2(np.sin(q[start]), np.cos(q[start]))
                start += element.nq
        return near

    def names_of(self, cluster: int) -> str:
        """The loops and couplings of a cluster in words."""
        owners, clusters = self.owners
        names = ", ".join(f"'{self.names[owner]}'" for owner in np.unique(owners[clusters == cluster]))
        return (
            f"loop or coupling {names}" if "," not in names else f"the system of loops and couplings {names}"
        )

    def choose(
        self, cluster: int, members: np.ndarray, wanted: np.ndarray, points: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, Note | None]:
        """Which joints of a cluster are independent, (len(members),) booleans, and a warning if it is due.

        Parameters
        ----------
        cluster, members : the cluster, and its bodies.
        wanted : (N,) 1 for a joint declared independent, 0 for a dependent one, -1 if the choice is free.
        points : the reference, and closed configurations near it, (nq_s,) each.
        """
        columns = self.columns_of(members)
        K, *near = (self.scaled(point, cluster, members) for point in points)
        rank = rank_of(K)
        mobility = len(columns) - rank
        if mobility == 0:
            bodies = ", ".join(f"'{self.spanning.tree.body_names[body]}'" for body in members)
            raise ModelError(
                f"over-constrained: {self.names_of(cluster)} leaves the bodies {bodies} nothing to move: "
                f"{len(K)} conditions of rank {rank} on {rank} velocities"
            )
        choice = IndependentChoice(
            K,
            np.searchsorted(members, self.spanning.body_of[columns]),
            wanted[members],
            rank,
            near,
            self.scales[1][columns],
            self._geared[columns],
            self.spanning.tree.actuated[members],
        )
        independent = choice.independent()
        if independent is None:
            raise ModelError(self._why_not(cluster, members, choice, mobility, points[0]))
        free = bool((wanted[members] < 0).any())
        return independent, self._advice(cluster, members, choice, independent, points) if free else None

    def _advice(
        self,
        cluster: int,
        members: np.ndarray,
        choice: IndependentChoice,
        independent: np.ndarray,
        points: Sequence[np.ndarray],
    ) -> Note | None:
        """A warning if the best choice lets other joints move more than `MOST_GAIN` times as fast."""
        numbers = np.arange(len(members))
        gain, slow, fast = choice.fastest(numbers[~independent])
        if not gain > MOST_GAIN:
            return None
        names = [f"'{self.spanning.joint_names[members[number]]}'" for number in (fast, slow)]
        reason = (
            f"{self.names_of(cluster)}: near the reference joint {names[0]} moves {gain:.3g} times as fast "
            f"as the independent joint {names[1]} (in rad, and in {self.sizes[cluster]:.3g} m), so that "
            "small steps may lead where the loops do not close; no better whole joints were found"
        )
        best = self._best_split(members, choice, points[0])
        if best is not None and best[0] < _WORTH * gain:
            return Note(reason, split_of(self.spanning, *best[1:]))
        return Note(f"{reason}; give another reference, or independent=[...]")

    def _best_split(
        self, members: np.ndarray, choice: IndependentChoice, q: np.ndarray
    ) -> tuple[float, int, tuple[Joint, ...]] | None:
        """The gain at q with a joint of several velocities written as others, its body, and these joints.

        The joint with the least gain; None if all joints have one velocity.
        """
        wide = np.flatnonzero(choice.sizes > 1)
        split = [(*self._parted(members, choice, int(number), q), int(members[number])) for number in wide]
        gain, parts, body = min(split, key=lambda found: found[0], default=(np.inf, (), -1))
        return (gain, body, parts) if parts else None

    def _parted(
        self, members: np.ndarray, choice: IndependentChoice, number: int, q: np.ndarray
    ) -> tuple[float, tuple[Joint, ...]]:
        """The gain at q if one joint of several velocities is written as others, and these.

        A ball joint that carries a rod, which spins between the balls at its ends, is written as a universal
        joint and a hinge along the rod. The gain is infinite if no choice of whole joints is possible then.
        """
        body, K = int(members[number]), choice.K.copy()
        kind, own, start = self.spanning.joints[body], choice.joints == number, self.spanning.q_starts[body]
        parts = parts_of(kind)
        if isinstance(kind, Spherical):
            left = np.linalg.svd(K[:, own] * choice.widths[own])[2][rank_of(K[:, own]) :]
            if len(left) == 1:
                cross, spin = parts = rod_of(left[0], kind.pose(q[start : start + 4])[:3, :3])
                axes = np.column_stack([cross.axis_1, cross.axis_2, spin.axis])
                K[:, own] = (K[:, own] * choice.widths[own]) @ axes / choice.widths[own]
        sizes = np.insert(np.delete(choice.sizes, number), number, [part.nv for part in parts])
        free, idle = np.full(len(sizes), -1), np.zeros(len(sizes), dtype=bool)
        joints = np.repeat(np.arange(len(sizes)), sizes)
        other = IndependentChoice(K, joints, free, choice.rank, (), choice.widths, choice.geared, idle)
        found = other.independent()
        return (np.inf if found is None else other.gain(np.flatnonzero(~found)), parts)

    def reference_text(self, q: np.ndarray, bodies: np.ndarray) -> str:
        """`written` as the argument of `build`."""
        pairs = (f"'{name}': {value}" for name, value in self.written(q, bodies).items())
        return f"reference={{{', '.join(pairs)}}}"

    def written(self, q: np.ndarray, bodies: np.ndarray) -> dict[str, Any]:
        """The configurations of the joints of `bodies` in q (nq_s,) as a user would write them."""
        written: dict[str, Any] = {}
        for body in bodies:
            own = q[self.spanning.q_starts[body] : self.spanning.q_starts[body + 1]]
            digits = 4 if len(own) == 1 else 9  # the norm of a quaternion is one to a millionth
            values = [0.0 if abs(value) < CLOSED else float(f"{value:.{digits}g}") for value in own]
            written[self.spanning.joint_names[body]] = values[0] if len(own) == 1 else values
        return written

    def _why_not(
        self, cluster: int, members: np.ndarray, choice: IndependentChoice, mobility: int, q: np.ndarray
    ) -> str:
        """Why no choice of independent joints is possible, in words."""
        loops, fixed = self.names_of(cluster), choice.declared
        if choice.limited:
            return (
                f"{loops} leaves {mobility} velocities; none of {MOST} choices of whole joints determines "
                "the others: name the independent joints of each loop and coupling, independent=[...]"
            )
        if (fixed < 0).any() or len(members) == 1:
            reason = (
                f"{loops} leaves {mobility} velocities, but independent velocities are whole joints, and no "
                "whole joints have so many and determine the others"
            )
            owners = np.unique(self.owners[0][self.owners[1] == cluster])
            tying = tuple(self.loops[owner] for owner in owners if owner < len(self.loops))
            best = self._best_split(members, choice, q)
            if best is not None:
                couplings = len(tying) < len(owners)
                refuse_part_of_a_joint(reason, self.spanning, best[1], best[2], tying, couplings)
            if (fixed < 0).any():
                return reason
        declared = members[fixed == 1]
        names = ", ".join(f"'{self.spanning.joint_names[body]}'" for body in declared) or "none"
        count = sum(self.spanning.joints[body].nv for body in declared)
        if count != mobility:
            return (
                f"{loops} leaves {mobility} independent velocities, but the joints declared independent "
                f"({names}) have {count}"
            )
        return (
            f"{loops}: the joints declared independent ({names}) do not determine the others at the "
            "reference; declare other ones, or give another reference"
        )


def rank_of(K: np.ndarray) -> int:
    """The number of singular values of K, in the scales of `scales_of`, that are not zero."""
    return int(np.linalg.matrix_rank(K, tol=RANK))
