"""A robot's parts, as a text that a person reads: `Model.describe`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from connections._shown import shown
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.graph import GROUND
from connections.multibody.joints.motors import Motor
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.loops.closures import Coupling, Loop

_WIDTH, _NAME = 80, 20  # columns of the table, and of a name
_LONGEST = 10_000  # characters of a name that are looked at


def inventory(kinematics: Kinematics | ClosedKinematics, gravity: Sequence[float]) -> str:
    """The joints of a robot with their limits, its loops and couplings, at most 80 columns wide."""
    tree, mass = kinematics.tree, float(kinematics.tree.mass)
    frames = sum(isinstance(name, str) for name in tree.placements)
    sizes = f"nq = {kinematics.nq}, nv = {kinematics.nv}"
    head = f"{len(tree.joints)} bodies of {mass:.4g} kg, {frames} frames; {sizes}"
    lines = [head, f"gravity {' '.join(f'{g:g}' for g in gravity)} m/s^2", "", *_table(kinematics)]
    if isinstance(kinematics, ClosedKinematics):
        lines += ["", "Joints without q depend on the others, by"]
        lines += [_cut(f"  {_tie(tie)}") for tie in kinematics.ties]
    if tree.motors:
        lines += ["", "Motors"]
        lines += [_cut(f"  {_motor(motor)}") for motor in tree.motors]
    if tree.passive.left_out:
        lines += ["", "Left out of the passive forces"]
        lines += [_cut(f"  {shown(what)}") for what in tree.passive.left_out]
    return "\n".join(line.rstrip() for line in lines)


def _table(kinematics: Kinematics | ClosedKinematics) -> list[str]:
    """A row for each joint, in the order of the tree; columns that would be empty are left out."""
    tree = kinematics.tree
    starts = np.concatenate([[0], np.cumsum([joint.nv for joint in tree.joints])])
    rows = []
    for number, name in enumerate(tree.joint_names):
        parent, limits = int(tree.parents[number]), tree.limits[number]
        armature = tree.armature[starts[number] : starts[number + 1]]
        row = {
            "joint": _short(name),
            "type": type(tree.joints[number]).__name__.lower(),
            "on": "world" if parent < 0 else _short(tree.body_names[parent]),
            "q": "",
            "v": "",
            "lower": _numbers(limits.lower),
            "upper": _numbers(limits.upper),
            "angle": _numbers(limits.angle),
            "effort": _numbers(limits.effort),
            "armature": _numbers(armature) if armature.any() else "",
            "motor": "yes" if tree.actuated[number] else "",
        }
        if name in kinematics.joint_names:
            own = kinematics.joint_names.index(name)
            row["q"] = _range(kinematics.q_starts, own)
            row["v"] = _range(kinematics.v_starts, own)
        rows.append(row)
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}
    table = [{name: name for name in columns}, *rows]
    return [_cut("  ".join(row[name].ljust(widths[name]) for name in columns)) for row in table]


def _tie(tie: Loop | Coupling) -> str:
    """A loop or coupling in words."""
    if isinstance(tie, Loop):
        closure = tie.closure
        kind = "a function" if _is_function(closure) else type(closure).__name__.lower()
        return f"loop '{_short(tie.name)}': {kind}, from {_link(tie.link_a)} to {_link(tie.link_b)}"
    what = f"coupling '{_short(tie.name)}'"
    if tie.function is not None:
        return f"{what}: a function of {', '.join(map(_short, tie.joints))} = {tie.offset:g}"
    terms = [f"{c:+.4g} {_short(joint)}" for joint, c in zip(tie.joints, tie.coefficients, strict=True)]
    return f"{what}: {' '.join(terms)} = {tie.offset:g}"


def _motor(motor: Motor) -> str:
    """A motor, what it acts on, and its largest force."""
    on = [f"{np.atleast_1d(ratio)[0]:.4g} {_short(name)}" for name, ratio in motor.joints.items()]
    on += [f"frame '{_short(motor.frame)}'"] if motor.frame is not None else []
    lower, upper = motor.force
    limits = f"; {lower:.4g} to {upper:.4g}" if np.isfinite([lower, upper]).any() else ""
    return f"{_short(motor.name)}: {', '.join(on)}{limits}"


def _is_function(closure: Any) -> bool:
    return callable(closure) and not isinstance(closure, type)


def _link(name: Hashable) -> str:
    return "world" if name == GROUND else f"'{_short(name)}'"


def _short(name: Any) -> str:
    """A name as a person is shown it, cut in the middle."""
    text = shown(name, _LONGEST)
    return text if len(text) <= _NAME else f"{text[: _NAME - 9]}..{text[-7:]}"


def _numbers(values: Any) -> str:
    """The number of an array, if all are the same, or nothing if none is finite."""
    found = np.atleast_1d(values)
    if not np.isfinite(found).any():
        return ""
    return f"{found[0]:.4g}" if (found == found[0]).all() else "various"


def _range(starts: np.ndarray, number: int) -> str:
    first, stop = int(starts[number]), int(starts[number + 1])
    return str(first) if stop == first + 1 else f"{first}:{stop}"


def _cut(line: str) -> str:
    return line if len(line.rstrip()) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
