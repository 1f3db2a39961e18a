"""Where H and A come from: spatial algebra, joints, trees of bodies, URDF, and `Model`, the definition.

>>> from connections import multibody as mb
>>> model = mb.from_urdf("robot.urdf", floating_base=True)  # doctest: +SKIP
"""

from connections.multibody.inertia import InertiaWarning
from connections.multibody.joints import Fixed, Free, Joint, Prismatic, Revolute
from connections.multibody.model import Model, body_jacobians
from connections.multibody.rigid_bodies import RigidBodySystemConnection, RigidBodySystemMetric
from connections.multibody.urdf import from_urdf

__all__ = [
    "Fixed",
    "Free",
    "InertiaWarning",
    "Joint",
    "Model",
    "Prismatic",
    "Revolute",
    "RigidBodySystemConnection",
    "RigidBodySystemMetric",
    "body_jacobians",
    "from_urdf",
]
