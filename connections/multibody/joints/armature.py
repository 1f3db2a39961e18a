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
    for group in armature_groups(joint):
        if (components[group] != components[group[0]]).any():
            raise ModelError(
                f"{what}: expected one number for the three angular components, and one for the linear ones "
                f"if there are any, got {components.tolist()}; a rotor that differs between axes is a body"
            )
    return components


def armature_groups(joint: Joint) -> list[np.ndarray]:
    """The numbers of the velocity components that have one armature, of each such group.

    A group is one component, or the three angular or the three linear ones of a joint with a quaternion.
    """
    groups: list[np.ndarray] = []
    start = 0
    for element in joint.chain:
        own = np.arange(start, start + element.nv)
        groups += list(own.reshape(-1, 1 if element.quaternion is None else 3))
        start += element.nv
    return groups
