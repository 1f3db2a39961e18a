"""The error if loops bind some velocities of a joint and leave others, with the lines to write instead.

Independent velocities are whole joints. A free body that is pinned to the world has three velocities of six,
so its joint is neither independent nor dependent. If a loop alone binds a free body to the body that carries
it, the closure is a joint, and can be written as one. Otherwise a joint of several velocities can be written
as a chain of joints of one velocity, with bodies without mass between them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from connections.checks import ModelError
from connections.geometry.rigid.placements import perpendicular
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.graph import GROUND
from connections.multibody.joints import Fixed, Free, Joint, Prismatic, Revolute, Spherical, Universal
from connections.multibody.joints.joint import ElementaryJoint
from connections.multibody.loops.closures import Coincident, Loop
from connections.multibody.loops.condition_rows import tied_by_loop

# Joints with a quaternion have velocities of the body; angles of hinges have others.
_LOST = ("# without its armature, which belongs to the velocities of this joint",)


@dataclass(frozen=True, eq=False)
class Split:
    """Joints to write in place of one of several velocities.

    Parameters
    ----------
    joint : name of the joint that they replace.
    parts : the joints, from the parent out; a closure as a joint, if `pin` is given.
    pin : the loop that they replace, too, and whether the body moved by the joint is its link b; or None.
    lines : Python statements, one a line.
    """

    joint: str
    parts: tuple[Joint, ...]
    pin: tuple[Loop, bool] | None
    lines: str

    def __str__(self) -> str:
        if self.pin is None:
            old = f'add_joint("{self.joint}", ..., placement)'
        else:
            loop = f'add_loop("{self.pin[0].name}", ..., placement_a, placement_b)'
            old = f'add_joint("{self.joint}", ..., placement) and {loop}'
        return f"In place of {old} write\n{self.lines}"


@dataclass(frozen=True, eq=False)
class Note:
    """A warning of the assembly: the reason, and joints to write instead, if that is the remedy."""

    reason: str
    split: Split | None = None

    def __str__(self) -> str:
        return self.reason if self.split is None else f"{self.reason}. {self.split}"


class WholeJointError(ModelError):
    """No whole joints have as many velocities as the loops leave.

    Parameters
    ----------
    reason : which loops leave how many velocities.
    split : what to write instead.
    """

    def __init__(self, reason: str, split: Split) -> None:
        self.reason, self.split = reason, split
        super().__init__(f"{reason}. {split}")


def refuse_part_of_a_joint(
    reason: str,
    spanning: Kinematics,
    body: int,
    parts: tuple[Joint, ...],
    loops: tuple[Loop, ...],
    couplings: bool,
) -> NoReturn:
    """Raise `WholeJointError` for the joint of several velocities that moves `body`.

    Parameters
    ----------
    reason : which loops leave how many velocities.
    parts : the joints to write in its place, unless one of the loops is a joint.
    loops : those of the cluster.
    couplings : whether couplings constrain it, too.
    """
    name, moved, kind = spanning.joint_names[body], spanning.tree.body_names[body], spanning.joints[body]
    pins = (
        [] if couplings or not isinstance(kind, Free) else [_as_joint(spanning, body, loop) for loop in loops]
    )
    if len(pins) != 1 or pins[0] is None:
        raise WholeJointError(reason, split_of(spanning, body, parts))
    joint, outward = pins[0]
    ends = ("placement_a", "placement_b") if outward else ("placement_b", "placement_a")
    carrier = loops[0].link_a if outward else loops[0].link_b
    lines = [
        f'add_body("{name} pin")',
        f'add_joint("{name}", "{_link(carrier)}", "{name} pin", {_text(joint)}, {ends[0]})',
        f'add_joint("{name} pin", "{name} pin", "{moved}", mb.Fixed(), np.linalg.inv({ends[1]}))',
        *(_LOST if spanning.tree.armature[spanning.body_of == body].any() else ()),
    ]
    raise WholeJointError(reason, Split(name, (joint,), (loops[0], outward), "\n".join(lines)))


def parts_of(kind: Joint) -> tuple[Joint, ...]:
    """Joints of one velocity that move as a joint does; rotations of a ball are about x, y and z."""
    return tuple(single for element in kind.chain for single in _singles(element))


def rod_of(spin: np.ndarray, pose: np.ndarray) -> tuple[Universal, Revolute]:
    """A universal joint and a hinge about the axis `spin` (3,), which move as a ball joint does.

    The second axis of the universal joint is not turned where the ball is at `pose` (3, 3), so that the
    three axes are perpendicular there.
    """
    spin = spin * np.sign(spin[np.argmax(np.abs(spin))])
    first = np.cross(spin, pose @ spin)
    first = first / np.linalg.norm(first) if np.linalg.norm(first) > 1e-6 else perpendicular(spin)[0]
    return Universal(_tidy(first), _tidy(np.cross(spin, first))), Revolute(_tidy(spin))


def _tidy(axis: np.ndarray) -> tuple[float, float, float]:
    """An axis without round-off, for a text."""
    x, y, z = (np.round(axis, 12) + 0.0).tolist()
    return x, y, z


def split_of(spanning: Kinematics, body: int, parts: tuple[Joint, ...]) -> Split:
    """The statements that make a chain of `parts` of the joint that moves `body`."""
    name, tree = spanning.joint_names[body], spanning.tree
    parent, armature = int(tree.parents[body]), tree.armature[spanning.body_of == body]
    above = "world" if parent < 0 else tree.body_names[parent]
    lines = _chain(name, above, tree.body_names[body], spanning.joints[body], parts, armature)
    return Split(name, parts, None, "\n".join(lines))


def _link(link: Hashable) -> str:
    """The name of a link of a loop."""
    return "world" if link == GROUND else str(link)


def _as_joint(spanning: Kinematics, body: int, loop: Loop) -> tuple[Joint, bool] | None:
    """The joint, from the body that carries `body` to it, that the loop is; and whether link b is there."""
    tree, closure = spanning.tree, loop.closure
    if tied_by_loop(tree, loop) != [body]:
        return None
    outward = tree.placements[loop.link_b][0] == body
    if (loop.link_b if outward else loop.link_a) != tree.body_names[body]:  # a link fixed to it
        return None
    match closure:
        case Coincident():
            return Spherical(), outward
        case Fixed():
            return None
        case Universal() if not outward:
            return replace(closure, axis_1=closure.axis_2, axis_2=closure.axis_1), outward
        case Joint():
            return closure, outward
    return None


def _chain(
    name: str, above: str, moved: str, kind: Joint, parts: tuple[Joint, ...], armature: np.ndarray
) -> list[str]:
    """Statements that make a chain of `parts` of a joint of this armature (nv,)."""
    bodies = [above, *(f"{name} {number}" for number in range(1, len(parts))), moved]
    lines = [f'add_body("{body}")' for body in bodies[1:-1]]
    same = len(parts) == len(kind.chain)  # the velocities
    for number, joint in enumerate(parts):
        place = ", placement" if number == 0 else ""
        if same and armature[number]:
            place += f", armature={float(armature[number])!r}"
        own = f"{name} {number + 1}"
        lines.append(f'add_joint("{own}", "{bodies[number]}", "{bodies[number + 1]}", {_text(joint)}{place})')
    return [*lines, *_LOST] if armature.any() and not same else lines


def _singles(element: ElementaryJoint) -> list[Joint]:
    """Joints of one velocity that move as an elementary joint does; rotations are about x, y and z."""
    axes = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]
    turns: list[Joint] = [Revolute(axis) for axis in axes]
    if isinstance(element, Spherical):
        return turns
    if isinstance(element, Free):
        return [*(Prismatic(axis) for axis in axes), *turns]
    return [element]


def _text(joint: Joint) -> str:
    """The expression that makes a joint."""
    return f"mb.{joint!r}"
