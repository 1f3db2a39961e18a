"""Robotics Toolbox for Python: `Robot.coriolis` and `Robot.inertia` of a URDF file, on a fixed base."""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.interop.libraries.library import (
    Array,
    Description,
    LibraryError,
    LibraryRobot,
    named_by,
    slots,
)

VARIANTS: dict[str, str] = {"": "Robot.URDF"}
_NOTE = (
    "Robot.coriolis itself fails on robots read from URDF (nofriction() copies links but not their parents); "
    "audited with nofriction() put out of action"
)


def read(description: Description, variant: str) -> LibraryRobot:
    """The robot of a URDF file."""
    import roboticstoolbox as rtb

    if description.floating_base:
        raise LibraryError("Robotics Toolbox has no floating bases")
    description.refuse(("planar", "floating"), "Robotics Toolbox")
    theirs, ours = rtb.Robot.URDF(str(description.file())), description.untied
    named = {slot.name: slot.v.start for slot in slots(ours)}
    joints = _joint_names(theirs, description)
    order = np.array([named[name] for name in joints], dtype=int)  # theirs[i] = ours[order[i]]
    if len(order) != ours.nv:
        raise LibraryError(f"Robotics Toolbox finds {len(order)} joints that move, there are {ours.nv}")
    back = np.argsort(order)

    def mass_matrix(q: Array) -> Array:
        return np.asarray(theirs.inertia(q[order]))[np.ix_(back, back)]

    def coriolis(q: Array, v: Array) -> Array:
        return np.asarray(theirs.coriolis(q[order], v[order]))[np.ix_(back, back)]

    notes = ["joints that mimic move on their own"] if description.leaders else []
    if not _works(theirs):
        theirs.nofriction = lambda *_: theirs  # there is no friction to remove
        notes.append(_NOTE)
    return LibraryRobot(ours, "Robot.coriolis", mass_matrix, coriolis, notes=tuple(notes))


def _works(theirs: Any) -> bool:
    """Whether `coriolis` returns at all."""
    try:
        theirs.coriolis(np.zeros(theirs.n), np.ones(theirs.n))
    except ValueError:
        return False
    return True


def _joint_names(theirs: Any, description: Description) -> list[str]:
    """Names of the moving joints in its order, by the links that they move."""
    joint_of = {named_by(joint, "child"): str(joint.get("name")) for joint in description.joints}
    moving = sorted((link for link in theirs.links if link.isjoint), key=lambda link: link.jindex)
    return [joint_of[link.name] for link in moving]
