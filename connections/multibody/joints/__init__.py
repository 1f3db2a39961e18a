"""Joints: the pose of the child frame, and the twists that move it.

A joint with configuration q_J (nq,) and velocity v_J (nv,) has the child body frame at the pose
``transform_at(q_J)`` in the joint frame, and gives the child the twist ``Phi_at(q_J) v_J`` relative to the
joint frame, in child axes about the child origin. v_J are components in ``joint.frame``, so
qdot_J = X(q_J) v_J. Phi may depend on the configuration; JAX differentiates it. Source: [W] VI-B.

Joints of one class are evaluated together: the definitions are the class functions ``transform_with`` and
``motion_with`` of a flat array of parameters, mapped over all joints of that class in a model. Recursions
read a joint as its `chain` of elementary joints instead.
"""

from connections.multibody.joints.coordinates import (
    Cylindrical,
    Fixed,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Universal,
)
from connections.multibody.joints.groups import Free, Spherical
from connections.multibody.joints.joint import ElementaryJoint as ElementaryJoint
from connections.multibody.joints.joint import Joint
from connections.multibody.joints.joint import Transform as Transform
from connections.multibody.joints.keyframes import Keyframe
from connections.multibody.joints.limits import Limits, LimitsWarning
from connections.multibody.joints.motors import Motor, Passive, Spring

__all__ = [
    "Cylindrical",
    "Fixed",
    "Free",
    "Helical",
    "Joint",
    "Keyframe",
    "Limits",
    "LimitsWarning",
    "Motor",
    "Passive",
    "Planar",
    "Prismatic",
    "Revolute",
    "Spherical",
    "Spring",
    "Universal",
]
