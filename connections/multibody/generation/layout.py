"""Meanings and units of the components of q and v, by joint: for people who read the C header."""

from __future__ import annotations

from dataclasses import dataclass

from connections.multibody.generation.identifiers import identifiers
from connections.multibody.kernels.elementary_joints import KINDS
from connections.multibody.model import Model

_TURN = ("angle, rad",), ("angular velocity, rad/s",)
_QUATERNION = tuple(f"quaternion {axis}" for axis in "xyzw")
_ANGULAR = tuple(f"angular velocity {axis} in the link's axes, rad/s" for axis in "xyz")
_OF_KIND: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = dict(
    zip(
        KINDS,  # revolute, helical, prismatic, spherical, free
        (
            _TURN,
            _TURN,
            (("displacement, m",), ("velocity, m/s",)),
            (_QUATERNION, _ANGULAR),
            (
                (*(f"position {axis}, m" for axis in "xyz"), *_QUATERNION),
                (*_ANGULAR, *(f"velocity {axis} in the link's axes, m/s" for axis in "xyz")),
            ),
        ),
        strict=True,
    )
)


@dataclass(frozen=True)
class JointLayout:
    """Where a joint's components lie.

    Attributes
    ----------
    name, identifier : in the model, and in C.
    first_q, first_v : the first of its components in q and in v.
    in_q, in_v : what they are, with units.
    """

    name: str
    identifier: str
    first_q: int
    first_v: int
    in_q: tuple[str, ...]
    in_v: tuple[str, ...]


def joint_layouts(model: Model) -> tuple[JointLayout, ...]:
    """The joints that move, in the order of q and v."""
    names = identifiers("joint", model.joint_names)
    found = []
    for name, joint in zip(model.joint_names, model.kinematics.joints, strict=True):
        parts = [_OF_KIND[element.kind] for element in joint.chain]
        in_q, in_v = ([text for part in parts for text in part[side]] for side in (0, 1))
        first_q, first_v = model.configuration_slice(name).start, model.velocity_slice(name).start
        if in_v:
            found.append(JointLayout(name, names[name], first_q, first_v, tuple(in_q), tuple(in_v)))
    return tuple(found)
