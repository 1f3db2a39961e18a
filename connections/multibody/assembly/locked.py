"""A mechanism some of whose joints are locked: a mechanism of its own, with fewer bodies.

A locked joint is a fixed one, so the bodies behind it are merged with those that carry them
(`graph.with_locked`). Loops and couplings are written by the names of links and joints: of a loop, all stays
but the frames of its links, and a locked joint is a constant of its couplings. First the loops are closed
with the locked joints where they shall be, followed from the reference. What cannot move then is locked
there, too: the members of each cluster whose conditions K have as many independent rows as columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from connections._words import words_of
from connections.checks import ModelError
from connections.multibody.assembly.assembly import assemble, assembler_of, given_configuration
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.graph import Tree, cluster_bodies, with_locked
from connections.multibody.joints.keyframes import keyframes_with
from connections.multibody.joints.motors import motors_without, passive_without
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.loops.closures import Coupling, Loop
from connections.multibody.loops.condition_rows import bodies_between, tied_by_coupling, tied_by_loop

#: Of loops that are followed to the locked joints: the first step, the least one, and the most that a joint
#: moves in one, rad, or of the size of its cluster
_FIRST, _LEAST, _LEAP = 0.1, 1e-4, 0.5


def locked(
    kinematics: Kinematics | ClosedKinematics, given: Mapping[str, Any]
) -> Kinematics | ClosedKinematics:
    """The kinematics of the same mechanism with joints that do not move.

    Parameters
    ----------
    kinematics : of a tree or of closed chains.
    given : {joint name: configuration}, of joints of the spanning tree.

    Raises
    ------
    ModelError : there is no such joint, or a configuration does not fit it; the loops do not close with the
        joints there; nothing is left to move.
    TypeError : `given` is no mapping.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"joints: expected {{joint name: configuration}}, got {words_of(given)}")
    if not isinstance(kinematics, ClosedKinematics):
        q = given_configuration(kinematics, "joints", given)
        return Kinematics(_tree(kinematics, set(given), q)) if given else kinematics
    q = given_configuration(kinematics.spanning, "joints", given, kinematics.reference)
    return (
        _Locked(kinematics, set(given), _closed(kinematics, given, q)).kinematics() if given else kinematics
    )


class _Locked:
    """A closed chain while joints are locked.

    Parameters
    ----------
    kinematics : of the chain.
    names : of the joints that are locked; more are added.
    q : (nq_s,) the spanning configuration, in which loops close and the joints are where they are locked.
    """

    def __init__(self, kinematics: ClosedKinematics, names: set[str], q: np.ndarray) -> None:
        self._closed, self._names, self._q = kinematics, names, q

    def kinematics(self) -> Kinematics | ClosedKinematics:
        """The kinematics of the joints that are not locked; joints that cannot move then are locked, too."""
        spanning = self._closed.spanning
        while True:
            tree = _tree(spanning, self._names, self._q)
            loops, couplings = self._ties(tree)
            if not loops and not couplings:
                return Kinematics(tree)
            left = Kinematics(tree)
            reference = {name: self._of(name) for name in tree.joint_names}
            ties = [tied_by_loop(tree, loop) for loop in loops]
            ties += [tied_by_coupling(tree, coupling) for coupling in couplings]
            assembler = assembler_of(left, cluster_bodies(tree.parents, ties)[0], loops, couplings)
            stuck, mobility = assembler.stuck(np.concatenate(list(reference.values())))
            if not stuck:
                chosen = [name for name in self._closed.joint_names if name not in self._names]
                enough = sum(left.joints[left.joint_names.index(name)].nv for name in chosen) == mobility
                return assemble(tree, loops, couplings, reference, chosen=chosen if enough else None)
            self._names |= stuck

    def _of(self, joint: str) -> np.ndarray:
        """The configuration of a joint."""
        spanning = self._closed.spanning
        number = spanning.joint_names.index(joint)
        return self._q[spanning.q_starts[number] : spanning.q_starts[number + 1]]

    def _ties(self, tree: Tree) -> tuple[list[Loop], list[Coupling]]:
        """The loops whose ends still move relative to each other, and the couplings with joints that move."""
        free = [replace(tie, independent=None) for tie in self._closed.ties]
        loops = [tie for tie in free if isinstance(tie, Loop) and bodies_between(tree, tie)]
        couplings = [self._coupling(tie) for tie in free if isinstance(tie, Coupling)]
        return loops, [coupling for coupling in couplings if coupling.joints]

    def _coupling(self, coupling: Coupling) -> Coupling:
        """The coupling of the joints that move."""
        moving = [name not in self._names for name in coupling.joints]
        joints = tuple(name for name, moves in zip(coupling.joints, moving, strict=True) if moves)
        if coupling.function is not None:
            positions = tuple(
                None if moves else _argument(self._of(name))
                for name, moves in zip(coupling.joints, moving, strict=True)
            )
            function = coupling.function if all(moving) else _Held(coupling.function, positions)
            return replace(coupling, joints=joints, function=function)
        offset, coefficients = coupling.offset, []
        for name, coefficient, moves in zip(coupling.joints, coupling.coefficients, moving, strict=True):
            if moves:
                coefficients.append(coefficient)
            else:
                offset -= coefficient * float(self._of(name)[0])
        return replace(coupling, joints=joints, coefficients=tuple(coefficients), offset=offset)


@dataclass(frozen=True, eq=False)
class _Held:
    """A function of joints some of which are locked: of the others alone."""

    function: Callable[..., Any]
    positions: tuple[Any, ...]  #: one for each joint, None for those that move

    def __call__(self, *moving: Any) -> Any:
        given = iter(moving)
        return self.function(*(next(given) if held is None else held for held in self.positions))


def _argument(q: np.ndarray) -> Any:
    """The configuration of a joint as a user's function takes it."""
    return q if len(q) > 1 else float(q[0])


def _tree(spanning: Kinematics, names: set[str], q: np.ndarray) -> Tree:
    """The tree with the joints of these names locked at q (nq,)."""
    poses, positions = {}, {}
    for number, chain in enumerate(spanning.chains):
        if spanning.joint_names[number] in names:
            pose = np.eye(4)
            for joint, _, at, _ in chain:
                pose = pose @ joint.pose(q[at])
            poses[number] = pose
            at_q = slice(spanning.q_starts[number], spanning.q_starts[number + 1])
            positions[spanning.joint_names[number]] = q[at_q]
    tree = spanning.tree
    motors, passive = motors_without(tree.motors, positions), passive_without(tree.passive, positions)
    part = with_locked(tree, poses)
    keyframes = keyframes_with(tree.keyframes, part.joint_names)
    return replace(part, motors=motors, passive=passive, keyframes=keyframes)


def _closed(kinematics: ClosedKinematics, given: Mapping[str, Any], goal: np.ndarray) -> np.ndarray:
    """The configuration (nq_s,) in which loops close and the joints `given` are as in `goal` (nq_s,).

    Raises
    ------
    ModelError : there is none to which the loops can be followed from the reference.
    """
    spanning, start = kinematics.spanning, kinematics.reference
    loops = [tie for tie in kinematics.ties if isinstance(tie, Loop)]
    couplings = [tie for tie in kinematics.ties if isinstance(tie, Coupling)]
    assembler = assembler_of(spanning, kinematics.clusters.of_body, loops, couplings)
    held = [spanning.joint_names.index(name) for name in given]
    moving = [element for element in spanning.elements if element.name in given]
    free = np.setdiff1d(assembler.conditions.tied_columns, assembler.conditions.columns_of(held))

    def at(s: float, q: np.ndarray) -> np.ndarray:
        q = q.copy()
        for joint, _, own, _ in moving:
            way = joint.difference(start[own], goal[own])
            q[own] = goal[own] if s == 1.0 else joint.displaced(start[own], s * way)
        return assembler.close(q, free)

    q, s, step = start, 0.0, _FIRST
    while s < 1.0 and step > _LEAST:
        further = min(1.0, s + step)
        found = at(further, q)
        if assembler.closed(found) and assembler.distance(found, q) < _LEAP:
            q, s, step = found, further, 1.5 * step
        else:
            step *= 0.5
    # Velocities that are locked together may agree at the end of the way only.
    together = sum(spanning.joints[number].nv for number in held) > 1
    if s < 1.0 and together:
        q = at(1.0, q)
    if not (assembler.closed(q) and (s == 1.0 or together)):
        names = ", ".join(f"'{name}'" for name in given)
        raise ModelError(
            f"joints: the loops do not close with {names} there; from the reference they could be followed "
            f"over {100.0 * s:.3g} % of the way"
        )
    return q
