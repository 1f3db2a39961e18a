"""Assembly of closed chains: which joints are independent, and a configuration in which all loops close.

The reference configuration is the one that the user gives (after Newton's method has closed it), or the
neutral one, or one of those that Newton's method finds from a fixed sequence of starts: the one nearest to
neutral of those about as well conditioned as the best. A given reference must be regular: K = L_X phi must
have the same rank there as at configurations nearby. Source: [W] VI-C.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from connections._shown import Shown
from connections.checks import ModelError, PointError, as_array, require_names
from connections.geometry.rigid.placements import perpendicular
from connections.multibody.assembly.carried_frames import CarriedFrames
from connections.multibody.assembly.mobility import Conditions, rank_of
from connections.multibody.assembly.neighbours import Neighbours, neighbours
from connections.multibody.assembly.whole_joints import Note
from connections.multibody.clusters import LINEAR, Clusters, Rows
from connections.multibody.definition.host_kinematics import moved
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.graph import Tree, cluster_bodies, no_joint
from connections.multibody.joints import Fixed, Helical
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.loops.closures import Coupling, Loop
from connections.multibody.loops.condition_rows import (
    FunctionCondition,
    ends_of,
    gather,
    tied_by_coupling,
    tied_by_loop,
)
from connections.multibody.loops.lengths import cluster_sizes, coordinate_units, velocity_units
from connections.multibody.loops.sides import Sides, are_turned_away, sides_of
from connections.multibody.program.closure_conditions import HostConditions
from connections.multibody.program.loop_solver import Loops
from connections.multibody.tolerances import CLOSED, SINGULAR

_ROUND_OFF = 1e-15  # scaled residuals below this are round-off, which no further step reduces
# A condition x^2 has the slope 2 |x|, whose square is four times its value. Of others the square of the slope
# is more than this times the value, where a loop closes.
_SQUARE = 10.0
_CANCELLED = 1e-12  # derivatives of functions below this, relative to their terms, are round-off
_NEARBY = 1e-8  # units: a derivative that changes by half within this distance jumps
_DEPENDENT = 1e-10  # singular values of K below this, relative to the largest, count as zero in a step
_COMFORTABLE = 1e-2  # `Conditions.quality` above which the neutral configuration is taken as the reference
_APART = 1e-4  # rad, or of the size of a cluster: least difference of another assembly mode
_NAMED = 4  # most joints that a sentence names
_BOUND = 0.3  # of the largest: how much a joint is bound that an error of a singular reference names
#: rad, or of the size of a cluster: how far from a singular reference another one is looked for
_AWAY = np.repeat((0.1, 0.3, 0.6, 1.0), 4)
#: Of frames that are carried: the first step of s, the least one, and the most that a joint moves in one
_FIRST, _LEAST, _LEAP = 0.1, 1e-3, 0.5
_ELSEWHERE = 8  # places from which frames are carried, if they cannot be from the reference
_STARTS = 24  # starts of Newton's method, if no reference is given
_SECONDS = 20.0  # after this time no further starts are tried, if none has closed


class AssemblyWarning(Shown, UserWarning):
    """Loops close in several ways, or no choice of independent joints is good; it says what to write.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> press = mb.Mechanism()
    >>> for name, joint in {"crank": mb.Revolute((0, 0, 1)), "slider": mb.Prismatic((1, 0, 0))}.items():
    ...     press.add_body(name, mass=1.0, inertia=np.eye(3))
    ...     press.add_joint(name, "world", name, joint)
    ...
    >>> press.add_loop("rod", "crank", "slider", mb.Distance(0.5), np.eye(4) + np.eye(4, k=3) * 0.3)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", mb.AssemblyWarning)
    ...     press.build()
    ...
    Traceback (most recent call last):
        ...
    connections.multibody.assembly.assembly.AssemblyWarning: the loops close in more than one way,
    with another C; taken is {'slider': -0.2}, another is {'slider': 0.8}: choose by reference={joint:
    configuration}
    """


def assemble(
    tree: Tree,
    loops: Sequence[Loop] = (),
    couplings: Sequence[Coupling] = (),
    reference: Mapping[str, Any] | None = None,
    say: Callable[[Note], object] | None = None,
    chosen: Any = None,
) -> Kinematics | ClosedKinematics:
    """The kinematics of a tree whose joints are constrained by loops and couplings.

    Parameters
    ----------
    tree : the spanning tree.
    loops, couplings : the constraints; names are unique among both.
    reference : configurations of joints by name, from which Newton's method starts; others start neutral.
    say : called with a warning if a reference was searched for, and the loops also close in another way, or
        if the best choice of independent joints is not a good one.
    chosen : names of independent joints, in place of those that the loops and couplings name in the clusters
        of these joints.

    Raises
    ------
    ModelError : a loop whose ends do not move relative to each other, joints that do not exist, conditions
        that leave nothing to move or contradict each other, independent joints that do not determine the
        others, a reference that does not close or is singular.
    """
    spanning = Kinematics(tree)
    if not loops and not couplings:
        if reference:
            raise ModelError("reference: it chooses the assembly of closed loops, and there are none")
        if chosen is not None:
            _chosen(spanning, chosen)
        return spanning
    ties = _tied(tree, loops, couplings)
    of_body, parents, supports = cluster_bodies(tree.parents, ties)
    items: tuple[Loop | Coupling, ...] = (*loops, *couplings)
    assembler = assembler_of(spanning, of_body, loops, couplings)
    conditions = assembler.conditions
    rows, functions, names, sizes = conditions.rows, conditions.functions, conditions.names, conditions.sizes
    assembler.require_consistent_couplings()
    wanted = _declared(tree, items, ties, of_body)
    if chosen is not None:
        wanted = _preferred(conditions, wanted, _chosen(spanning, chosen))
    q, near, starts = assembler.reference(reference, wanted, chosen is not None)
    _require_slopes(conditions, q)
    notes: list[Note | None] = []
    independent = np.ones(len(tree.joints), dtype=bool)
    for cluster in conditions.tied:
        members = conditions.members(cluster)
        independent[members], note = conditions.choose(cluster, members, wanted, (q, *near))
        notes.append(note)
    other = assembler.other_mode(q, independent, starts)
    notes.append(None if other is None else Note(assembler.choice(q, other, independent)))
    for note in notes:
        if note is not None and say is not None:
            say(note)
    clusters = Clusters(of_body, parents, supports, independent, sizes)
    solver = None if functions else Loops
    return ClosedKinematics(spanning, clusters, rows, functions, names, q, solver, assembler.sides, items)


def _tied(tree: Tree, loops: Sequence[Loop], couplings: Sequence[Coupling]) -> list[list[int]]:
    """The bodies that each loop, and then each coupling, constrains together."""
    return [
        *(tied_by_loop(tree, loop) for loop in loops),
        *(tied_by_coupling(tree, coupling) for coupling in couplings),
    ]


def assembler_of(
    spanning: Kinematics, of_body: np.ndarray, loops: Sequence[Loop], couplings: Sequence[Coupling]
) -> _Assembler:
    """The conditions of loops and couplings, and the search for configurations in which they hold."""
    tree = spanning.tree
    sizes = cluster_sizes(tree, of_body, loops, couplings)
    units = coordinate_units(spanning, of_body, sizes)
    rows, functions = gather(tree, spanning, of_body, loops, couplings, sizes, units)
    if functions:
        functions = _scaled(spanning, rows, functions, velocity_units(spanning, of_body, sizes))
    names = (*(loop.name for loop in loops), *(coupling.name for coupling in couplings))
    conditions = Conditions(spanning, of_body, rows, functions, names, sizes, tuple(loops))
    return _Assembler(conditions, tuple(loops), units)


def _scaled(
    spanning: Kinematics, rows: Rows, functions: Sequence[FunctionCondition], units: np.ndarray
) -> tuple[FunctionCondition, ...]:
    """The functions, scaled such that each changes by about one if the joints move by about one unit.

    A user's function may have any unit. So it is divided by the norm of its derivative, in these units, the
    largest at the neutral configuration and at two near it; derivatives that are not finite are left out. A
    condition whose derivative is round-off there, as that of a planar loop across its plane, is divided by
    the norm of the derivative's terms: divided by round-off, it would constrain the joints.
    """
    conditions, points, result = HostConditions(spanning, rows), _near_neutral(spanning, units), []
    for function in functions:
        with np.errstate(over="ignore"):
            sizes = _largest([conditions.of(function, point)[1] for point in points], units)
            terms = _largest([conditions.terms_of(function, point) for point in points], units)
        sizes = np.where(sizes > _CANCELLED * terms, sizes, terms)
        if not np.isfinite(sizes).all():
            raise ModelError(f"{function.title}: its derivative is too large for float64")
        result.append(replace(function, scale=1.0 / np.where(sizes > 0.0, sizes, 1.0)))
    return tuple(result)


def _near_neutral(spanning: Kinematics, units: np.ndarray) -> list[np.ndarray]:
    """The neutral configuration and two near it."""
    neutral, steps = spanning.neutral(), np.random.default_rng(2).uniform(-0.5, 0.5, (2, spanning.nv))
    return [neutral, *(moved(spanning, neutral, units * step) for step in steps)]


def _largest(derivatives: list[np.ndarray], units: np.ndarray) -> np.ndarray:
    """The largest norm of each row of matrices (k, nv), (k,); what is not finite is left out."""
    finite = np.abs(np.nan_to_num(derivatives, posinf=0.0, neginf=0.0) * units)
    largest = finite.max(axis=2, keepdims=True, initial=0.0)  # squares of numbers above 1e154 overflow
    norms = np.linalg.norm(finite / np.where(largest > 0.0, largest, 1.0), axis=2)
    return np.asarray((largest[..., 0] * norms).max(axis=0))


def _require_slopes(conditions: Conditions, q: np.ndarray) -> None:
    """Raise `ModelError` for a function that does not say at the reference q how the joints move.

    Its derivative vanishes there, as that of a square does where it closes, or jumps, as that of |x| and
    round-off do. A condition that every motion meets is no error, if it is one of the numbers that the
    function is given: its derivative by them does not vanish.
    """
    _require_dependence(conditions, q)
    host, units = conditions.host, conditions.units
    steps = _NEARBY * np.random.default_rng(3).uniform(-1.0, 1.0, (8, conditions.spanning.nv))
    nearby = [moved(conditions.spanning, q, units * step) for step in steps]
    points = _near_neutral(conditions.spanning, units)
    for function in conditions.functions:
        phi, K = host.of(function, q)
        slopes = np.linalg.norm(K * units, axis=1)
        if not np.isfinite(slopes).all():
            component = _component(function, ~np.isfinite(slopes))
            raise ModelError(f"{component}: its derivative is not finite where the loop closes")
        elsewhere = _largest([host.of(function, point)[1] for point in points], units)
        flat = (slopes < SINGULAR) | (slopes**2 < _SQUARE * np.abs(phi))
        flat &= elsewhere > 0.5  # it is 1 unless the derivative vanishes everywhere
        if flat.any():
            raise ModelError(
                f"{_component(function, flat)}: its derivative vanishes where the loop closes, as that of a "
                "square does, so that it says nothing about how the joints move; write it without the square"
            )
        changes = np.linalg.norm([(host.of(function, point)[1] - K) * units for point in nearby], axis=2)
        jumping = (slopes > SINGULAR) & ~(changes.max(axis=0) < 0.5 * slopes)
        if jumping.any():
            raise ModelError(
                f"{_component(function, jumping)}: its derivative jumps where the loop closes, as that of an "
                "absolute value, a corner, or round-off, so that it does not say how the joints move"
            )


def _require_dependence(conditions: Conditions, q: np.ndarray) -> None:
    """Raise `ModelError` for a function that has no derivative at q, nor at the neutral configuration.

    That of a constant, a rounded number or a comparison vanishes exactly.
    """
    host, points = conditions.host, [q, *_near_neutral(conditions.spanning, conditions.units)]
    for function in conditions.functions:
        fixed = np.max([host.slopes_of(function, point) for point in points], axis=0) == 0.0
        if fixed.any():
            raise ModelError(
                f"{_component(function, fixed)} constrains nothing: its derivative vanishes, as that of a "
                "constant, of a rounded number and of a comparison does"
            )


def _component(function: FunctionCondition, which: np.ndarray) -> str:
    """The first of the components `which` (k,) of a function in words."""
    return f"component {np.argmax(which)} of {function.title}" if len(which) > 1 else function.title


def _declared(
    tree: Tree,
    items: Sequence[Loop | Coupling],
    ties: Sequence[Sequence[int]],
    of_body: np.ndarray,
) -> np.ndarray:
    """(N,) 1 for a joint declared independent, 0 for a dependent one, -1 if the choice is free."""
    numbers = {name: number for number, name in enumerate(tree.joint_names)}
    wanted = np.full(len(tree.joints), -1)
    for item, tie in zip(items, ties, strict=True):
        if item.independent is not None:
            wanted[[body for body in tie if wanted[body] < 0]] = 0
    for item, tie in zip(items, ties, strict=True):
        for name in item.independent or ():
            members = np.flatnonzero(of_body == of_body[tie[0]])
            if numbers.get(name) not in members:
                cluster = ", ".join(f"'{tree.joint_names[body]}'" for body in members)
                raise ModelError(f"'{item.name}': the joint '{name}' is none of its cluster: {cluster}")
            wanted[numbers[name]] = 1
    return wanted


def _chosen(spanning: Kinematics, names: Any) -> np.ndarray:
    """The bodies whose joints a user names as independent."""
    found = []
    for name in require_names("independent", names):
        if name not in spanning.joint_names:
            raise ModelError(
                f"independent: {no_joint(spanning.tree, name, spanning.joint_names, 'moving joint')}"
            )
        found.append(spanning.joint_names.index(name))
    return np.array(found, dtype=np.int64)


def _preferred(conditions: Conditions, wanted: np.ndarray, bodies: np.ndarray) -> np.ndarray:
    """`wanted` (N,) with the joints of `bodies` independent, and the others of their clusters dependent."""
    named = np.zeros(len(wanted), dtype=bool)
    named[bodies] = True
    tied = np.isin(conditions.of_body, np.intersect1d(conditions.of_body[bodies], conditions.tied))
    return np.where(tied, named, wanted)


def with_independent(kinematics: ClosedKinematics, names: Any) -> ClosedKinematics:
    """The mechanism at its reference with other independent joints.

    Parameters
    ----------
    kinematics : of closed chains.
    names : of joints. In a cluster of which one is named, all others are dependent.

    Raises
    ------
    ModelError : there is no such joint, or the joints do not determine the others at the reference.
    """
    clusters, q = kinematics.clusters, kinematics.reference
    conditions = Conditions(
        kinematics.spanning,
        clusters.of_body,
        kinematics.rows,
        kinematics.functions,
        kinematics.names,
        clusters.sizes,
    )
    bodies = _chosen(kinematics.spanning, names)
    wanted = _preferred(conditions, clusters.independent.astype(np.int64), bodies)
    independent = clusters.independent.copy()
    for cluster in conditions.tied:
        members = conditions.members(cluster)
        independent[members], _ = conditions.choose(cluster, members, wanted, (q,))
    return replace(kinematics, clusters=replace(clusters, independent=independent))


def assembled_again(kinematics: ClosedKinematics, tree: Tree) -> Kinematics | ClosedKinematics:
    """The mechanism with a tree whose joints are elsewhere; loops close near the reference.

    Raises
    ------
    ModelError : the loops do not close near the reference, or the independent joints do not determine the
        others there.
    """
    spanning = kinematics.spanning
    ends = zip(spanning.q_starts, spanning.q_starts[1:], strict=False)
    reference = {
        name: kinematics.reference[slice(*own)] for name, own in zip(spanning.joint_names, ends, strict=True)
    }
    loops = [tie for tie in kinematics.ties if isinstance(tie, Loop)]
    couplings = [tie for tie in kinematics.ties if isinstance(tie, Coupling)]
    return assemble(tree, loops, couplings, reference, chosen=list(kinematics.joint_names))


def given_configuration(
    spanning: Kinematics, what: str, given: Mapping[str, Any], others: np.ndarray | None = None
) -> np.ndarray:
    """The configuration (nq,) of joints that are given by name; others are neutral, or as in `others` (nq,).

    Parameters
    ----------
    spanning : the tree.
    what : the name of the argument, for messages.
    given : {joint name: (nq of the joint,), or a number}.

    Raises
    ------
    ModelError : there is no such moving joint; not that many finite numbers; a quaternion of another norm.
    """
    q = spanning.neutral() if others is None else others.copy()
    for name, value in given.items():
        if name not in spanning.joint_names:
            raise ModelError(f"{what}: {no_joint(spanning.tree, name, spanning.joint_names, 'moving joint')}")
        number = spanning.joint_names.index(name)
        joint, start = spanning.joints[number], spanning.q_starts[number]
        try:
            numbers = np.atleast_1d(np.asarray(as_array("configuration", value, ())))
        except (TypeError, ValueError) as error:
            raise ModelError(f"{what}: joint '{name}': {error}") from error
        if numbers.shape != (joint.nq,) or not np.isfinite(numbers).all():
            raise ModelError(f"{what}: joint '{name}': expected {joint.nq} finite numbers, got {value!r}")
        q[start : start + joint.nq] = numbers
    try:
        return spanning.frame.require_near(what, q)
    except PointError as error:
        raise ModelError(str(error)) from error


@dataclass(frozen=True, eq=False)
class _Assembler:
    """The search for a configuration in which all conditions hold.

    Distances are measured in `units` (nq_s,), the units of coordinates, and steps in ``conditions.units``
    (nv_s,), the units of velocities (`lengths`).
    """

    conditions: Conditions
    loops: tuple[Loop, ...]
    units: np.ndarray

    @property
    def spanning(self) -> Kinematics:
        return self.conditions.spanning

    def closed(self, q: np.ndarray) -> bool:
        """Whether all conditions hold, and no frame is turned away from its counterpart."""
        return self._holds(q) and not self._reversed(q)

    def _holds(self, q: np.ndarray) -> bool:
        return bool(np.abs(self.conditions.host.at(q)[0]).max(initial=0.0) < CLOSED)

    def close(self, q: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Damped Newton's method: least-norm steps of the spanning velocities `columns`, from q (nq_s,)."""
        (phi, K), units = self.conditions.host.at(q), self.conditions.units
        for _ in range(60):
            size = np.linalg.norm(phi)
            if not (np.isfinite(size) and np.isfinite(K).all()):
                return q
            step = np.zeros(self.spanning.nv)
            step[columns] = -np.linalg.lstsq((K * units)[:, columns], phi, rcond=_DEPENDENT)[0]
            step /= max(1.0, float(np.abs(step).max(initial=0.0)))  # 1 rad, or the size of the cluster
            for halvings in range(8):
                tried = moved(self.spanning, q, units * step * 0.5**halvings)
                phi, K = self.conditions.host.at(tried)
                if np.linalg.norm(phi) < size:
                    break
            if not np.linalg.norm(phi) < size:
                return q
            q = tried
            if size < _ROUND_OFF:
                return q
        return q

    def distance(self, q: np.ndarray, other: np.ndarray) -> float:
        """The largest difference, in units, of coordinates of two configurations (nq_s,) that loops tie."""
        owners = np.repeat(np.arange(len(self.spanning.joints)), np.diff(self.spanning.q_starts))
        tied = np.isin(self.conditions.of_body[owners], self.conditions.tied)
        return float(np.abs((q - other) / self.units)[tied].max(initial=0.0))

    def stuck(self, q: np.ndarray) -> tuple[set[str], int]:
        """The joints of clusters that cannot move at q (nq_s,), and the number of independent velocities."""
        names: set[str] = set()
        mobility = self.spanning.nv
        for cluster in self.conditions.tied:
            members = self.conditions.members(cluster)
            K = self.conditions.scaled(q, cluster, members)
            rank = rank_of(K)
            mobility -= rank
            if rank == K.shape[1]:
                names.update(self.spanning.joint_names[member] for member in members)
        return names, mobility

    def _reversed(self, q: np.ndarray) -> bool:
        """Whether a loop closes with a frame turned away from its counterpart, which the equations allow."""
        sides = self.sides
        return bool(sides) and bool(are_turned_away(sides, self.conditions.host.placed(q).transforms).any())

    @cached_property
    def sides(self) -> tuple[Sides, ...]:
        """The pairs of directions that tell this."""
        return sides_of(self.spanning.tree, self.loops)

    def require_consistent_couplings(self) -> None:
        """Raise `ModelError` if no configuration obeys all linear couplings."""
        linear = self.conditions.rows.kinds == LINEAR
        K = self.conditions.rows.coefficients[linear] * self.conditions.rows.scales[linear, None] * self.units
        right = self.conditions.rows.constants[linear] * self.conditions.rows.scales[linear]
        left = K @ np.linalg.lstsq(K, right, rcond=None)[0] - right
        wrong = np.unique(self.conditions.rows.owners[linear][np.abs(left) > CLOSED * (1.0 + np.abs(right))])
        if len(wrong):
            names = ", ".join(f"'{self.conditions.names[owner]}'" for owner in wrong)
            raise ModelError(
                f"the couplings {names} contradict each other: no configuration obeys all of them"
            )

    # --- the reference -----------------------------------------------------------------------------------

    def reference(
        self, given: Mapping[str, Any] | None, wanted: np.ndarray, chosen: bool
    ) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
        """A regular configuration (nq_s,) in which all loops close, some near it, and what a search found."""
        everything = self.conditions.tied_columns
        if given is not None:
            q = self._screwed(given_configuration(self.spanning, "reference", given), given)
            held = np.flatnonzero(wanted == 1)
            free = np.setdiff1d(everything, self.conditions.columns_of(held)) if len(held) else everything
            start, q = q, self.close(q, free)
            if chosen and not self.closed(q):  # coordinates are chosen apart from the reference
                q, free = self.close(start, everything), everything
            if not self.closed(q):
                carried = self._carried(start, free)
                q = q if carried is None else carried
            self._require_closed(q, "the reference", start)
            near = neighbours(self.conditions, q)
            self._require_regular(q, near)
            return q, near.points, []
        neutral = self.spanning.neutral()
        if self.closed(neutral):
            near = neighbours(self.conditions, neutral)
            ranks = self.conditions.ranks(neutral)
            if not near.stuck and self.conditions.quality(neutral, ranks, wanted) > _COMFORTABLE:
                return neutral, near.points, []
        q, others = self._search(neutral, everything, wanted)
        near = neighbours(self.conditions, q)
        self._require_regular(q, near)
        return q, near.points, others

    def _screwed(self, q: np.ndarray, given: Collection[str] = ()) -> np.ndarray:
        """Q (nq_s,) with the angles of screws behind which a loop is cut, as the other end of the loop says.

        Newton's method turns a screw by 1 rad in a step, and a slide may be hundreds of turns away. The angle
        is that of the other end about the axis, with the whole turns that bring it nearest. Joints in `given`
        stay.
        """
        q, tree = q.copy(), self.spanning.tree
        for loop in self.loops:
            for (body, frame), (other, frame_other) in itertools.permutations(ends_of(tree, loop)):
                screw = tree.joints[body] if body >= 0 else None
                if not isinstance(loop.closure, Fixed) or not isinstance(screw, Helical):
                    continue
                if tree.joint_names[body] in given:
                    continue
                T = self.conditions.host.placed(q).transforms
                at, start = np.asarray(screw.axis), self.spanning.q_starts[body]
                back = np.linalg.inv(T[body] @ np.linalg.inv(screw.pose(q[start : start + 1])))
                pose = back @ T[other] @ frame_other @ np.linalg.inv(frame)
                across = perpendicular(at)[0]
                turned = pose[:3, :3] @ across
                angle = np.arctan2(np.cross(across, turned) @ at, across @ turned)
                out = at @ pose[:3, 3]
                turns = np.round((out / screw.pitch - angle) / (2.0 * np.pi)) if screw.pitch else 0.0
                q[start] = angle + 2.0 * np.pi * turns
        return q

    def _carried(self, start: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
        """The closed configuration to which the frames of loops lead that are carried from `start` (nq_s,).

        None if Newton's method, by the spanning velocities `columns`, loses it.
        """
        conditions, q, s, step = self.conditions, start, 0.0, _FIRST
        transforms = conditions.host.placed(start).transforms
        frames = CarriedFrames(self.spanning.tree, self.loops, conditions.rows, transforms)
        while s < 1.0 and step > _LEAST:
            further = min(1.0, s + step)
            there = replace(self, conditions=replace(conditions, rows=frames.at(further)))
            found = there.close(q, columns)
            if there._holds(found) and np.abs((found - q) / self.units).max() < _LEAP:
                q, s, step = found, further, 1.5 * step
            else:
                step *= 0.5
        return q if s == 1.0 and self.closed(q) else None

    def _elsewhere(self, start: np.ndarray) -> np.ndarray | None:
        """A regular closed configuration (nq_s,) to which frames are carried from somewhere about `start`."""
        rng, columns = np.random.default_rng(5), self.conditions.tied_columns
        tied = np.flatnonzero(np.isin(self.conditions.of_body, self.conditions.tied))
        for size in np.arange(1, _ELSEWHERE + 1) / _ELSEWHERE:
            step = np.zeros(self.spanning.nv)
            step[columns] = size * rng.uniform(-1, 1, len(columns)) * self._spread(columns)
            tried = moved(self.spanning, start, self.conditions.units * step)
            found = self._carried(tried, columns)
            if found is not None:
                found = self.close(
                    given_configuration(self.spanning, "reference", self.conditions.written(found, tied)),
                    columns,
                )
                if self.closed(found) and not neighbours(self.conditions, found).stuck:
                    return found
        return None

    def _require_closed(self, q: np.ndarray, start: str, drawn: np.ndarray | None = None) -> None:
        """Raise `ModelError` if the loops are open at q (nq_s,), with a reference to write, if one is found.

        Parameters
        ----------
        q : where Newton's method ended.
        start : where it began, in words.
        drawn : the reference from which it began, if one was given.
        """
        if self.closed(q):
            return
        phi, K = self.conditions.host.at(q)
        phi = np.where(np.isfinite(K).all(axis=1), np.abs(phi), np.nan)
        owner = self.conditions.owners[0][int(np.argmax(phi))]
        if not np.isfinite(phi).all():
            raise ModelError(
                f"'{self.conditions.names[owner]}' or its derivative is not finite near {start}: its "
                "function is NaN or infinite there; give another reference, or another function"
            )
        _require_dependence(self.conditions, q)
        found = None if drawn is None else self._elsewhere(drawn)
        remedy = "give a reference nearby, reference={joint: configuration}"
        if found is not None:
            tied = np.flatnonzero(np.isin(self.conditions.of_body, self.conditions.tied))
            remedy = f"they close from\n{self.conditions.reference_text(found, tied)}"
        if phi.max() < CLOSED:
            raise ModelError(
                "the loops close with a frame that is turned away from its counterpart, by half a turn or a "
                f"third; {remedy}"
            )
        if found is None:
            remedy = (
                "Either no configuration closes it or another reference is needed, "
                "reference={joint: configuration}"
            )
        raise ModelError(
            f"'{self.conditions.names[owner]}' does not close from {start}: it stays open by {phi.max():.2g} "
            f"(of its length, or rad). {remedy[0].upper()}{remedy[1:]}"
        )

    def _search(
        self, neutral: np.ndarray, columns: np.ndarray, wanted: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """A closed configuration, and all that Newton's method found from starts around the neutral one.

        Of those at least half as good as the best one, it is the one nearest to neutral.
        """
        rng, started = np.random.default_rng(0), time.monotonic()
        found: list[np.ndarray] = []
        q = failed = neutral
        for number in range(_STARTS):
            q = self.close(self._screwed(q), columns)
            if self.closed(q):
                found.append(q)
            else:
                failed = q
            if not found and time.monotonic() - started > _SECONDS:
                break
            step, size = np.zeros(self.spanning.nv), (number + 1) / _STARTS
            step[columns] = rng.uniform(-1, 1, len(columns)) * self._spread(columns) * size
            q = moved(self.spanning, neutral, self.conditions.units * step)
        if not found:
            self._require_closed(failed, f"any of {number + 1} configurations")
        # The rank of regular configurations: a singular one has a lower rank, and at most a few are singular.
        ranks = np.max([self.conditions.ranks(q) for q in found], axis=0)
        qualities = np.array([self.conditions.quality(q, ranks, wanted) for q in found])
        good = np.flatnonzero(qualities >= 0.5 * qualities.max())
        distances = [float(np.linalg.norm((found[number] - neutral) / self.units)) for number in good]
        return found[int(good[np.argmin(distances)])], found

    def other_mode(
        self, q: np.ndarray, independent: np.ndarray, starts: Sequence[np.ndarray]
    ) -> np.ndarray | None:
        """A configuration with the independent coordinates of q in which the loops close in another way.

        None if Newton's method finds none from the starts (nq_s,): there may still be one.
        """
        held = self.conditions.columns_of(np.flatnonzero(independent))
        free = np.setdiff1d(self.conditions.tied_columns, held)
        here = self.conditions.host.placed(q).transforms
        sizes = np.append(self.conditions.sizes[self.conditions.of_body], 1.0)[:, None, None]
        for start in starts:
            tried = start.copy()
            for body in np.flatnonzero(independent):
                part = slice(self.spanning.q_starts[body], self.spanning.q_starts[body + 1])
                tried[part] = q[part]
            tried = self.close(tried, free)
            if not self.closed(tried):
                continue
            moved_by = np.abs(self.conditions.host.placed(tried).transforms - here)
            if moved_by[:, :3, :3].max() > _APART or (moved_by[:, :3, 3:] / sizes).max() > _APART:
                return tried
        return None

    def choice(self, q: np.ndarray, other: np.ndarray, independent: np.ndarray) -> str:
        """A sentence that says which mode was taken, and how to choose the other."""
        tied = [body for cluster in self.conditions.tied for body in self.conditions.members(cluster)]
        dependent = [body for body in tied if not independent[body] and self.spanning.joints[body].nq == 1]

        def text(values: np.ndarray) -> str:
            start = self.spanning.q_starts
            parts = (f"'{self.spanning.joint_names[b]}': {values[start[b]]:.3g}" for b in dependent[:_NAMED])
            return "{" + ", ".join(parts) + "}"

        return (
            f"the loops close in more than one way, with another C; taken is {text(q)}, another is "
            f"{text(other)}: choose by reference={{joint: configuration}}"
        )

    def _spread(self, columns: np.ndarray) -> np.ndarray:
        """The largest distance of a start from neutral: half a turn, or the size of the cluster."""
        K = self.conditions.host.placed(self.spanning.neutral()).columns[columns]
        return np.where(np.linalg.norm(K[:, :3], axis=1) > 0.5, np.pi, 1.0)

    def _require_regular(self, q: np.ndarray, near: Neighbours) -> None:
        """Raise `ModelError` if the reference q is singular."""
        if not near.stuck:
            return
        cluster, bound = next(iter(near.stuck.items()))
        _require_slopes(self.conditions, q)
        joints = np.unique(self.spanning.body_of[bound > _BOUND * bound.max()])
        named = ", ".join(f"'{self.spanning.joint_names[body]}'" for body in joints[:_NAMED])
        named += ", ..." if len(joints) > _NAMED else ""
        which, other = int(np.flatnonzero(self.conditions.tied == cluster)[0]), self._regular_near(q)
        ranks = f"rank {self.conditions.ranks(q)[which]} there"
        remedy = "reference={joint: configuration}; none was found nearby"
        if other is not None:
            ranks += f", {self.conditions.ranks(other)[which]} nearby"
            remedy = f"for example\n{self.conditions.reference_text(other, self.conditions.members(cluster))}"
        raise ModelError(
            f"the reference is singular for {self.conditions.names_of(cluster)}: not all velocities that its "
            "conditions leave there are motions, as where bars are aligned or an arm is stretched out "
            f"({ranks}; joints {named}); give another, {remedy}"
        )

    def _regular_near(self, q: np.ndarray) -> np.ndarray | None:
        """A regular configuration near q (nq_s,), to which the loops close from its digits in an error."""
        rng, columns = np.random.default_rng(1), self.conditions.tied_columns
        tied = np.flatnonzero(np.isin(self.conditions.of_body, self.conditions.tied))
        for size in _AWAY:
            step = np.zeros(self.spanning.nv)
            step[columns] = size * rng.uniform(-1.0, 1.0, len(columns))
            found = self.close(moved(self.spanning, q, self.conditions.units * step), columns)
            if self.closed(found):
                found = self.close(
                    given_configuration(self.spanning, "reference", self.conditions.written(found, tied)),
                    columns,
                )
            if self.closed(found) and not neighbours(self.conditions, found).stuck:
                return found
        return None
