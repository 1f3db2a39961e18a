"""The error if loops bind some velocities of a joint and leave others, with the lines to write instead.

Independent velocities are whole joints. A free body that is pinned to the world has three velocities of six,
so its joint is neither independent nor dependent. If a loop alone binds a free body to the body that carries
it, the closure is a joint, and can be written as one. Otherwise a joint of several velocities can be written
as a chain of joints of one velocity, with bodies without mass between them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from connections.checks import ModelError
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.graph import GROUND
from connections.multibody.joints import Fixed, Free, Joint, Prismatic, Revolute, Spherical, Universal
from connections.multibody.joints.joint import ElementaryJoint
from connections.multibody.loops.closures import Coincident, Loop
from connections.multibody.loops.condition_rows import tied_by_loop

# Joints with a quaternion have velocities of the body; angles of hinges have others.
_LOST = ("# without its armature, which belongs to the velocities of this joint",)


class WholeJointError(ModelError):
    """No whole joints have as many velocities as the loops leave.

    Parameters
    ----------
    reason : which loops leave how many velocities.
    lines : Python statements to write in place of others, one a line.
    joint : name of the joint that they replace.
    pin : the loop that they replace, too, and whether the body moved by the joint is its link b; or None.
    """

    def __init__(self, reason: str, lines: str, joint: str, pin: tuple[Loop, bool] | None) -> None:
        self.reason, self.lines, self.joint, self.pin = reason, lines, joint, pin
        if pin is None:
            old = f'add_joint("{joint}", ..., placement)'
        else:
            loop = f'add_loop("{pin[0].name}", ..., placement_a, placement_b)'
            old = f'add_joint("{joint}", ..., placement) and {loop}'
        super().__init__(f"{reason}. In place of {old} write\n{lines}")


def refuse_part_of_a_joint(
    reason: str, spanning: Kinematics, members: np.ndarray, loops: tuple[Loop, ...], couplings: bool
) -> None:
    """Raise `WholeJointError` if a joint of the cluster `members` has several velocities.

    Parameters
    ----------
    reason : which loops leave how many velocities.
    loops : those of the cluster.
    couplings : whether couplings constrain it, too.
    """
    wide = [int(body) for body in members if spanning.joints[body].nv > 1]
    if not wide:
        return
    body = wide[0]
    name, moved = spanning.joint_names[body], spanning.tree.body_names[body]
    parent = int(spanning.tree.parents[body])
    above = "world" if parent < 0 else spanning.tree.body_names[parent]
    kind = spanning.joints[body]
    pins = (
        [] if couplings or not isinstance(kind, Free) else [_as_joint(spanning, body, loop) for loop in loops]
    )
    armature = spanning.tree.armature[spanning.body_of == body]
    if len(pins) == 1 and pins[0] is not None:
        joint, outward = pins[0]
        ends = ("placement_a", "placement_b") if outward else ("placement_b", "placement_a")
        carrier = loops[0].link_a if outward else loops[0].link_b
        lines = [
            f'add_body("{name} pin")',
            f'add_joint("{name}", "{_link(carrier)}", "{name} pin", {_text(joint)}, {ends[0]})',
            f'add_joint("{name} pin", "{name} pin", "{moved}", mb.Fixed(), np.linalg.inv({ends[1]}))',
            *(_LOST if armature.any() else ()),
        ]
        raise WholeJointError(reason, "\n".join(lines), name, (loops[0], outward))
    raise WholeJointError(reason, "\n".join(_chain(name, above, moved, kind, armature)), name, None)


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


def _chain(name: str, above: str, moved: str, kind: Joint, armature: np.ndarray) -> list[str]:
    """Statements that replace a joint of this armature (nv,) by joints of one velocity."""
    joints = [single for element in kind.chain for single in _singles(element)]
    bodies = [above, *(f"{name} {number}" for number in range(1, len(joints))), moved]
    lines = [f'add_body("{body}")' for body in bodies[1:-1]]
    for number, joint in enumerate(joints):
        place = ", placement" if number == 0 else ""
        if armature[number] and len(joints) == len(kind.chain):  # the same velocities
            place += f", armature={float(armature[number])!r}"
        own = f"{name} {number + 1}"
        lines.append(f'add_joint("{own}", "{bodies[number]}", "{bodies[number + 1]}", {_text(joint)}{place})')
    return [*lines, *_LOST] if armature.any() and len(joints) > len(kind.chain) else lines


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
