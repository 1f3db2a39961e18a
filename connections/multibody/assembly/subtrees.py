"""The part of a mechanism that a link carries, with its loops and couplings: a mechanism of its own."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from connections.checks import ModelError
from connections.multibody.assembly.assembly import assemble
from connections.multibody.definition.frames import frame_of
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.graph import GROUND, Tree, subtree
from connections.multibody.joints.keyframes import keyframes_with
from connections.multibody.joints.motors import motors_without, passive_without
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.loops.closures import Coupling, Loop
from connections.multibody.loops.condition_rows import bodies_between


def carried(kinematics: Kinematics | ClosedKinematics, link: str) -> Kinematics | ClosedKinematics:
    """The kinematics of what a link carries, on the ground in place of the link.

    Parameters
    ----------
    kinematics : of a tree or of closed chains.
    link : a link or frame.

    Raises
    ------
    ModelError : there is no such link, it carries nothing that moves, or a loop, coupling or spring ties
        what it carries to the rest. TypeError : `link` is no text.
    """
    whole = kinematics.tree
    frame_of(whole, link)
    tree = _with_forces(whole, subtree(whole, link), link)
    if not isinstance(kinematics, ClosedKinematics):
        return Kinematics(tree)
    ties = [replace(tie, independent=None) for tie in kinematics.ties if _within(whole, tree, tie, link)]
    if not ties:
        return Kinematics(tree)
    starts = itertools.pairwise(kinematics.spanning.q_starts.tolist())
    reference = {
        name: kinematics.reference[slice(*ends)]
        for name, ends in zip(whole.joint_names, starts, strict=True)
        if name in tree.joint_names
    }
    return assemble(
        tree,
        [tie for tie in ties if isinstance(tie, Loop)],
        [tie for tie in ties if isinstance(tie, Coupling)],
        reference,
        chosen=[name for name in kinematics.joint_names if name in tree.joint_names],
    )


def _with_forces(whole: Tree, part: Tree, link: str) -> Tree:
    """The part with the motors, springs and dampers of the whole that act on it.

    Of a motor on joints of both, the share that acts on the part is left; the length of a spring on joints of
    both is not known.
    """
    outside = {name: np.zeros(0) for name in whole.joint_names if name not in part.joint_names}
    motors = motors_without([m for m in whole.motors if m.frame in (None, *part.placements)], outside)
    springs = [spring for spring in whole.passive.springs if set(spring.joints) - set(outside)]
    for spring in springs:
        if set(spring.joints) & set(outside):
            raise _tied("spring", spring.name, link)
    lift = {frame: value for frame, value in whole.passive.lift.items() if frame in part.placements}
    passive = passive_without(replace(whole.passive, springs=tuple(springs), lift=lift), outside)
    keyframes = keyframes_with(whole.keyframes, part.joint_names)
    return replace(part, motors=motors, passive=passive, keyframes=keyframes)


def _within(whole: Tree, part: Tree, tie: Loop | Coupling, link: str) -> bool:
    """Whether a loop or coupling is one of the part; `ModelError` if it ties the part to the rest."""
    if isinstance(tie, Loop):
        joints = {whole.joint_names[body] for body in bodies_between(whole, tie)}
        ends = {tie.link_a, tie.link_b} - {GROUND}
        inside = joints & set(part.joint_names)
        if inside and (inside != joints or not ends <= set(part.placements)):
            raise _tied("loop", tie.name, link)
        return bool(inside)
    inside = set(tie.joints) & set(part.joint_names)
    if inside and inside != set(tie.joints):
        raise _tied("coupling", tie.name, link)
    return bool(inside)


def _tied(kind: str, name: str, link: str) -> ModelError:
    return ModelError(
        f"{kind} '{name}' ties what '{link}' carries to the rest; name a link that carries both"
    )
