"""Assembly of closed chains: which joints are independent, and a configuration in which all loops close.

The reference configuration is the one given, the neutral one, or the best conditioned of those that Newton's
method finds from a fixed sequence of starts; of configurations about equally good, that nearest to neutral.
It must be regular: the rank of K = dphi / dq there is that of configurations nearby. Each cluster has as many
independent velocities as its joints have beyond the rank. Source: [W] VI-C.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from connections.checks import ModelError
from connections.multibody.closed_kinematics import SINGULAR, ClosedKinematics
from connections.multibody.clusters import LINEAR, Clusters, Rows
from connections.multibody.conditions import (
    FunctionCondition,
    cluster_size,
    gather,
    tied_by_coupling,
    tied_by_loop,
)
from connections.multibody.graph import Tree, cluster_bodies
from connections.multibody.kinematics import Kinematics
from connections.multibody.loops import Coupling, Loop, conditions_of
from connections.multibody.posture import Posture, moved, residual_and_derivative

_CLOSED = 1e-9  # residuals of loops that count as closed, relative to lengths
_RANK = 1e-6  # singular values below this, relative to the largest, are zero
_COMFORTABLE = 1e-2  # sine of the angle of a dependent column beyond which a choice is good
_STARTS = 24  # of Newton's method, where no reference is given
_CHOICES = 2000  # sets of independent joints that are compared


def assemble(
    tree: Tree,
    loops: Sequence[Loop] = (),
    couplings: Sequence[Coupling] = (),
    reference: Mapping[str, Any] | None = None,
    dependent: frozenset[str] = frozenset(),
) -> Kinematics | ClosedKinematics:
    """The kinematics of a tree whose joints are tied by loops and couplings.

    Parameters
    ----------
    tree : the spanning tree.
    loops, couplings : what closes it; names are unique among both.
    reference : configurations of joints by name, from which Newton's method starts; others start neutral.
    dependent : names of joints that are dependent; then all others of their clusters are independent.

    Raises
    ------
    ModelError : a loop whose ends do not move relative to each other, joints that do not exist, conditions
        that leave nothing to move or contradict each other, independent joints that do not determine the
        others, a reference that does not close or is singular.
    """
    spanning = Kinematics.of(tree)
    if not loops and not couplings:
        if reference:
            raise ModelError("reference: it chooses the assembly of closed loops, and there are none")
        return spanning
    ties = [tied_by_loop(tree, loop) for loop in loops]
    ties += [tied_by_coupling(tree, coupling) for coupling in couplings]
    of_body, parents, supports = cluster_bodies(tree.parents, ties)
    rows, functions = gather(tree, spanning, of_body, loops, couplings)
    items: tuple[Loop | Coupling, ...] = (*loops, *couplings)
    names = tuple(item.name for item in items)
    assembler = _Assembler(spanning, of_body, rows, functions, tuple(loops), names, [])
    assembler.require_consistent_couplings()
    wanted = _declared(tree, items, ties, dependent, of_body)
    q = assembler.reference(reference, wanted)
    independent = np.ones(len(tree.joints), dtype=bool)
    for cluster in range(len(parents)):
        members = np.flatnonzero(of_body == cluster)
        if assembler.rows_of(cluster).any():
            independent[members] = assembler.choose(cluster, members, wanted, q)
    return ClosedKinematics(
        spanning, Clusters(of_body, parents, supports, independent), rows, functions, names, q
    )


def _declared(
    tree: Tree,
    items: Sequence[Loop | Coupling],
    ties: Sequence[Sequence[int]],
    dependent: frozenset[str],
    of_body: np.ndarray,
) -> np.ndarray:
    """(N,) 1 where a joint was declared independent, 0 where dependent, -1 where the choice is free."""
    numbers = {name: number for number, name in enumerate(tree.joint_names)}
    wanted = np.full(len(tree.joints), -1)
    for name in dependent:
        if name not in numbers:
            raise ModelError(f"joint '{name}' cannot be dependent: there is no such moving joint")
        wanted[of_body == of_body[numbers[name]]] = 1
    for name in dependent:
        wanted[numbers[name]] = 0
    for item, tie in zip(items, ties, strict=True):
        if item.independent is not None:
            wanted[[body for body in tie if wanted[body] < 0]] = 0
    for item, tie in zip(items, ties, strict=True):
        for name in item.independent or ():
            if numbers.get(name) not in tie:
                tied = ", ".join(f"'{tree.joint_names[body]}'" for body in tie)
                raise ModelError(
                    f"'{item.name}': independent joint '{name}' is none of those it ties: {tied}"
                )
            wanted[numbers[name]] = 1
    return wanted


@dataclass(frozen=True, eq=False)
class _Assembler:
    """The conditions of a mechanism on the host."""

    spanning: Kinematics
    of_body: np.ndarray
    rows: Rows
    functions: tuple[FunctionCondition, ...]
    loops: tuple[Loop, ...]
    names: tuple[str, ...]
    sizes: list[int]  # number of conditions of each function, once known

    @property
    def tree(self) -> Tree:
        return self.spanning.tree

    # --- conditions at a configuration -------------------------------------------------------------------

    def at(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """phi (p,) and K (p, nv_s)."""
        return residual_and_derivative(self.spanning, self.rows, self.functions, q)

    def owners(self) -> tuple[np.ndarray, np.ndarray]:
        """The loop or coupling, and the cluster, of each condition."""
        if self.functions and not self.sizes:
            self.sizes.extend(function.size(self.spanning) for function in self.functions)
        owners = np.repeat([f.owner for f in self.functions], self.sizes).astype(np.int64)
        clusters = np.repeat([f.cluster for f in self.functions], self.sizes).astype(np.int64)
        return np.concatenate([self.rows.owners, owners]), np.concatenate([self.rows.clusters, clusters])

    def rows_of(self, cluster: int) -> np.ndarray:
        """Whether a condition belongs to a cluster."""
        return self.owners()[1] == cluster

    def columns_of(self, members: Any) -> np.ndarray:
        """The spanning velocities of the joints of bodies."""
        return np.flatnonzero(np.isin(self.spanning.body_of, members))

    def closed(self, q: np.ndarray) -> bool:
        """Whether all conditions hold, and no axis points the wrong way."""
        return bool(np.abs(self.at(q)[0]).max(initial=0.0) < _CLOSED) and not self._reversed(q)

    def close(self, q: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Newton's method (of least norm, damped) on the spanning velocities `columns`, from q (nq_s,)."""
        phi, K = self.at(q)
        for _ in range(60):
            size = np.linalg.norm(phi)
            step = np.zeros(self.spanning.nv)
            step[columns] = -np.linalg.lstsq(K[:, columns], phi, rcond=1e-10)[0]
            step /= max(1.0, float(np.abs(step).max(initial=0.0)))
            for halvings in range(8):
                tried = moved(self.spanning, q, step * 0.5**halvings)
                phi, K = self.at(tried)
                if np.linalg.norm(phi) < size:
                    break
            if not np.linalg.norm(phi) < size:
                return q
            q = tried
            if size < 1e-15:
                return q
        return q

    def _reversed(self, q: np.ndarray) -> bool:
        """Whether a loop closes with an axis against its counterpart, which its conditions also allow."""
        T = Posture.at(self.spanning, q).transforms
        for loop in self.loops:
            if callable(loop.closure):
                continue
            sides = conditions_of(loop.closure).sides
            (a, pose_a), (b, pose_b) = (self.tree.placements[link] for link in (loop.link_a, loop.link_b))
            R_a, R_b = T[a] @ pose_a @ loop.placement_a, T[b] @ pose_b @ loop.placement_b
            if any((R_a[:3, :3] @ u) @ (R_b[:3, :3] @ w) < 0.0 for u, w in sides):
                return True
        return False

    def require_consistent_couplings(self) -> None:
        """Refuse linear couplings of which no configuration obeys all."""
        linear = self.rows.kinds == LINEAR
        K = self.rows.coefficients[linear] * self.rows.scales[linear, None]
        right = self.rows.constants[linear] * self.rows.scales[linear]
        left = K @ np.linalg.lstsq(K, right, rcond=None)[0] - right
        wrong = np.unique(self.rows.owners[linear][np.abs(left) > _CLOSED * (1.0 + np.abs(right))])
        if len(wrong):
            names = ", ".join(f"'{self.names[owner]}'" for owner in wrong)
            raise ModelError(
                f"the couplings {names} contradict each other: no configuration obeys all of them"
            )

    # --- the reference -----------------------------------------------------------------------------------

    def reference(self, given: Mapping[str, Any] | None, wanted: np.ndarray) -> np.ndarray:
        """A regular spanning configuration (nq_s,) in which all loops close."""
        everything = self.columns_of(np.flatnonzero(np.isin(self.of_body, self.owners()[1])))
        if given is not None:
            q = self._given(given)
            held = np.flatnonzero(wanted == 1)
            free = np.setdiff1d(everything, self.columns_of(held)) if len(held) else everything
            q = self.close(q, free)
            self._require_closed(q, given)
            self._require_rank(q)
            return q
        neutral = self.spanning.neutral()
        if self.closed(neutral):
            if self._quality(neutral, self._generic_ranks(neutral), wanted) > _COMFORTABLE:
                return neutral
        return self._search(neutral, everything, wanted)

    def _given(self, given: Mapping[str, Any]) -> np.ndarray:
        q = self.spanning.neutral()
        for name, value in given.items():
            if name not in self.tree.joint_names:
                raise ModelError(f"reference: there is no moving joint '{name}'")
            number = self.tree.joint_names.index(name)
            joint, start = self.tree.joints[number], self.spanning.q_starts[number]
            try:
                numbers = np.atleast_1d(np.asarray(value, dtype=np.float64))
            except (TypeError, ValueError) as error:
                raise ModelError(f"reference: joint '{name}': expected numbers, got {value!r}") from error
            if numbers.shape != (joint.nq,) or not np.isfinite(numbers).all():
                raise ModelError(
                    f"reference: joint '{name}': expected {joint.nq} finite numbers, got {value!r}"
                )
            q[start : start + joint.nq] = numbers
        self._require_quaternions(q)
        return q

    def _require_quaternions(self, q: np.ndarray) -> None:
        try:
            self.spanning.frame.explain(q)
        except ValueError as error:
            raise ModelError(f"reference: {error}") from error

    def _require_closed(self, q: np.ndarray, given: Mapping[str, Any] | None) -> None:
        if self.closed(q):
            return
        phi = np.abs(self.at(q)[0])
        owner = self.owners()[0][int(np.argmax(phi))]
        if phi.max() < _CLOSED:
            raise ModelError(
                "the loops close with an axis that points against its counterpart; give a reference nearby"
            )
        start = "from the reference" if given is not None else f"from any of {_STARTS} configurations"
        raise ModelError(
            f"'{self.names[owner]}' does not close {start}: it stays open by {phi.max():.2g} (of its "
            "length, or rad). Either no configuration closes it or another reference is needed"
        )

    def _search(self, neutral: np.ndarray, columns: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """The best of the configurations found by Newton's method from starts about the neutral one."""
        rng = np.random.default_rng(0)
        found: list[np.ndarray] = []
        q = failed = self.close(neutral, columns)
        for number in range(_STARTS):
            if self.closed(q):
                found.append(q)
            else:
                failed = q
            step = np.zeros(self.spanning.nv)
            step[columns] = rng.uniform(-1, 1, len(columns)) * self._spread(columns) * (number + 1) / _STARTS
            q = self.close(moved(self.spanning, neutral, step), columns)
        if not found:
            self._require_closed(failed, None)
        ranks = np.max([self._ranks(q) for q in found], axis=0)  # few of them are singular, if any
        qualities = np.array([self._quality(q, ranks, wanted) for q in found])
        good = np.flatnonzero(qualities >= 0.5 * qualities.max())
        distances = [float(np.linalg.norm(found[number] - neutral)) for number in good]
        return found[good[int(np.argmin(distances))]]

    def _spread(self, columns: np.ndarray) -> np.ndarray:
        """How far starts reach: half a turn, or the size of the mechanism."""
        size = max(float(np.linalg.norm(self.tree.positions, axis=1).max()), 1e-3)
        K = Posture.at(self.spanning, self.spanning.neutral()).columns[columns]
        return np.where(np.linalg.norm(K[:, :3], axis=1) > 0.5, np.pi, size)

    # --- rank and independence ---------------------------------------------------------------------------

    @property
    def tied(self) -> np.ndarray:
        """The clusters that have conditions."""
        return np.unique(self.owners()[1])

    def _ranks(self, q: np.ndarray) -> np.ndarray:
        """The rank of K of each cluster that has conditions."""
        return np.array([_rank(self._scaled(q, cluster, self._members(cluster))) for cluster in self.tied])

    def _members(self, cluster: int) -> np.ndarray:
        return np.flatnonzero(self.of_body == cluster)

    def _quality(self, q: np.ndarray, ranks: np.ndarray, wanted: np.ndarray) -> float:
        """The least sine of a dependent column, or ratio of singular values, over clusters of these ranks."""
        worst = np.inf
        for cluster, rank in zip(self.tied, ranks, strict=True):
            members = self._members(cluster)
            if (wanted[members] >= 0).all():
                worst = min(worst, _least_sine(self._scaled(q, cluster, members[wanted[members] == 0])))
            elif rank:
                singular = np.linalg.svd(self._scaled(q, cluster, members), compute_uv=False)
                worst = min(worst, singular[rank - 1] / singular[0])
        return float(worst)

    def _scaled(self, q: np.ndarray, cluster: int, members: np.ndarray) -> np.ndarray:
        """K of a cluster's conditions and of the joints of `members`, lengths relative to its scale."""
        K = self.at(q)[1][np.ix_(self.rows_of(cluster), self.columns_of(members))]
        columns = Posture.at(self.spanning, q).columns[self.columns_of(members), :3]
        sliding = np.linalg.norm(columns, axis=1) < 0.5
        return np.asarray(K * np.where(sliding, cluster_size(self.rows, cluster), 1.0))

    def _generic_ranks(self, q: np.ndarray) -> np.ndarray:
        """The largest ranks of K among configurations near q in which the loops close."""
        rng, ranks = np.random.default_rng(1), [self._ranks(q)]
        columns = self.columns_of(np.flatnonzero(np.isin(self.of_body, self.tied)))
        for size in (0.05, 0.1, 0.1):
            step = np.zeros(self.spanning.nv)
            step[columns] = rng.uniform(-size, size, len(columns))
            nearby = self.close(moved(self.spanning, q, step), columns)
            if np.abs(self.at(nearby)[0]).max(initial=0.0) < _CLOSED:
                ranks.append(self._ranks(nearby))
        return np.asarray(np.max(ranks, axis=0))

    def _require_rank(self, q: np.ndarray) -> None:
        """Refuse a singular reference."""
        for cluster, rank, nearby in zip(self.tied, self._ranks(q), self._generic_ranks(q), strict=True):
            if rank < nearby:
                raise ModelError(
                    f"the reference is singular for {self._names_of(cluster)}: its conditions have rank "
                    f"{rank} there and {nearby} nearby, as where bars are aligned; give another reference"
                )

    def choose(self, cluster: int, members: np.ndarray, wanted: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Which joints of a cluster are independent, (len(members),) booleans; q is the reference."""
        K = self._scaled(q, cluster, members)
        rank = _rank(K)
        widths = np.array([self.tree.joints[body].nv for body in members])
        mobility = int(widths.sum()) - rank
        bodies = ", ".join(f"'{self.tree.body_names[body]}'" for body in members)
        if mobility == 0:
            raise ModelError(
                f"over-constrained: {self._names_of(cluster)} leaves the bodies {bodies} nothing to move: "
                f"{len(K)} conditions of rank {rank} on {rank} velocities"
            )
        fixed = wanted[members]
        free = np.flatnonzero(fixed < 0)
        missing = mobility - int(widths[fixed == 1].sum())
        scored = []
        for chosen in _subsets(free, widths, missing):
            independent = fixed == 1
            independent[list(chosen)] = True
            scored.append((_least_sine(self._scaled(q, cluster, members[~independent])), independent))
        best = max(scored, key=lambda item: item[0], default=None)
        if best is None or best[0] < SINGULAR:
            raise ModelError(self._why_not(cluster, members, fixed, mobility))
        return next(independent for sine, independent in scored if sine >= min(0.1, 0.5 * best[0]))

    def _why_not(self, cluster: int, members: np.ndarray, fixed: np.ndarray, mobility: int) -> str:
        """Why no choice of independent joints will do."""
        loops = self._names_of(cluster)
        if (fixed < 0).any():
            return (
                f"{loops} leaves {mobility} velocities, but no set of whole joints has so many and "
                "determines the others; replace joints of several velocities by joints of one"
            )
        declared = members[fixed == 1]
        names = ", ".join(f"'{self.tree.joint_names[body]}'" for body in declared) or "none"
        count = sum(self.tree.joints[body].nv for body in declared)
        if count != mobility:
            return (
                f"{loops} leaves {mobility} independent velocities, but the joints declared independent "
                f"({names}) have {count}"
            )
        return (
            f"{loops}: the joints declared independent ({names}) do not determine the others at the "
            "reference; declare other ones, or give another reference"
        )

    def _names_of(self, cluster: int) -> str:
        owners, clusters = self.owners()
        names = ", ".join(f"'{self.names[owner]}'" for owner in np.unique(owners[clusters == cluster]))
        return (
            f"loop or coupling {names}" if "," not in names else f"the system of loops and couplings {names}"
        )


def _subsets(free: np.ndarray, widths: np.ndarray, missing: int) -> list[tuple[int, ...]]:
    """Sets of the joints `free` with `missing` velocities in all, earlier joints first, but not too many."""
    if missing < 0:
        return []
    chosen: list[tuple[int, ...]] = []
    for count in range(len(free) + 1):
        for subset in combinations(free, count):
            if int(widths[list(subset)].sum()) == missing:
                chosen.append(subset)
                if len(chosen) == _CHOICES:
                    return chosen
    return chosen


def _rank(K: np.ndarray) -> int:
    """Number of singular values that count."""
    return int(np.linalg.matrix_rank(K, rtol=_RANK))


def _least_sine(K: np.ndarray) -> float:
    """The least sine of the angle between a column of K and those before it; 0 where there are too many."""
    if K.shape[1] == 0:
        return 1.0
    if K.shape[0] < K.shape[1]:
        return 0.0
    R = np.linalg.qr(K, mode="r")
    norms = np.linalg.norm(R, axis=0)
    if not (norms > 0.0).all():
        return 0.0
    return float(np.min(np.abs(np.diagonal(R)) / norms))
