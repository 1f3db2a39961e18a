"""Armature: the inertia that a joint's own velocity meets, such as that of a geared motor's rotor.

A joint with armature a has the kinetic energy a |v_J|^2 / 2, v_J its own velocity, besides that of the
bodies. Source: MuJoCo's documentation, XML reference, joint armature.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.checks import ModelError, ShapeError, as_array, require_finite
from connections.multibody.joints.joint import ElementaryJoint, Joint


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
    for element, own in _elements(joint, components):
        parts = own.reshape(-1, 3) if element.quaternion is not None else own[:, None]
        if (parts != parts[:, :1]).any():
            raise ModelError(
                f"{what}: expected one number for the three angular components, and one for the linear ones "
                f"if there are any, got {own.tolist()}; a rotor that differs between axes is a body"
            )
    return components


def _elements(joint: Joint, components: np.ndarray) -> list[tuple[ElementaryJoint, np.ndarray]]:
    """The elementary joints of a chain with their components."""
    ends = np.cumsum([element.nv for element in joint.chain])
    return list(zip(joint.chain, np.split(components, ends[:-1]), strict=True)) if len(ends) else []
