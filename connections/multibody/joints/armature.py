"""Armature: the inertia that a joint's own velocity meets, such as that of a geared motor's rotor.

A joint with armature a has the kinetic energy a |v_J|^2 / 2, v_J its own velocity, besides that of the
bodies. Source: MuJoCo's documentation, XML reference, joint armature.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.checks import ModelError, ShapeError, as_array, require_finite
from connections.multibody.joints.joint import Joint


def armature_of(name: str, joint: Joint, armature: Any) -> np.ndarray:
    """The armature of each velocity component of a joint, (nv,), kg m^2 for angles and kg for lengths.

    Parameters
    ----------
    name : of the joint.
    joint : its type.
    armature : a number for all components, or (nv,).

    Raises
    ------
    ModelError : it is of another shape, not finite or negative; a joint that does not move has some; the
        angular components of a spherical or free joint have different ones, or the linear ones of a free
        joint. The message names the joint.
    """
    what = f"joint '{name}': armature"
    try:
        given = np.asarray(as_array("armature", armature, ()), dtype=np.float64)
        if given.shape not in ((), (joint.nv,)):
            raise ShapeError("armature", (joint.nv,), given.shape)
        require_finite("armature", given)
    except (TypeError, ValueError) as error:
        raise ModelError(f"joint '{name}': {error}") from error
    if (given < 0.0).any():
        raise ModelError(f"{what} is negative: {given.min():g}")
    if joint.nv == 0 and given.any():
        raise ModelError(f"{what}: the joint does not move")
    components = np.array(np.broadcast_to(given, (joint.nv,)))
    for alike in rotor_axes(joint):
        own = components[alike]
        if (own != own[0]).any():
            raise ModelError(
                f"{what}: expected one number for the three angular components, and one for the linear ones "
                f"if there are any, got {own.tolist()}; a rotor that differs between axes is a body"
            )
    return components


def rotor_axes(joint: Joint) -> list[list[int]]:
    """The velocity components of a joint in groups that have one armature each.

    The three angular components of a spherical or free joint are a group, and so are the three linear ones.
    """
    groups: list[list[int]] = []
    for element in joint.chain:
        size = 3 if element.quaternion is not None else 1
        for _ in range(element.nv // size):
            start = len(groups) and groups[-1][-1] + 1
            groups.append(list(range(start, start + size)))
    return groups
