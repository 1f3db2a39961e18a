"""`Plan`: the drawing of a mechanism, which `mb.Mechanism` builds and the oracles read."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
from mechanisms import random_body
from scipy.spatial.transform import Rotation

from connections import multibody as mb


def at(x=0.0, y=0.0, z=0.0, rpy=(0.0, 0.0, 0.0)):
    """The placement (4, 4) of a frame at (x, y, z)."""
    placement = np.eye(4)
    placement[:3, :3], placement[:3, 3] = Rotation.from_euler("xyz", rpy).as_matrix(), (x, y, z)
    return placement


class Plan:
    """The drawing of a mechanism.

    Parameters
    ----------
    seed : of the inertias that `body` makes up.
    gravity : (3,) m/s^2.
    """

    def __init__(self, seed=0, gravity=(0.3, -9.0, 1.0)):
        self.rng, self.gravity = np.random.default_rng(seed), gravity
        self.bodies, self.joints, self.loops, self.couplings = {}, {}, {}, {}
        self.reference, self.nv = {}, None

    def add(self, joint, parent, body, kind, placement=None, start=None, **inertia):
        """A body on a joint; `start` is the joint's configuration in the reference assembly."""
        self.bodies[body] = inertia or random_body(self.rng)
        self.joints[joint] = (parent, body, kind, np.eye(4) if placement is None else placement)
        self.reference[joint] = np.atleast_1d(kind.neutral() if start is None else start).astype(float)

    def loop(self, name, body_a, body_b, closure=None, placement_a=None, placement_b=None, independent=None):
        """A loop closed between two frames."""
        closure = mb.Coincident() if closure is None else closure
        ends = [np.eye(4) if end is None else end for end in (placement_a, placement_b)]
        self.loops[name] = (body_a, body_b, closure, *ends, independent)

    def couple(self, name, coefficients, offset=0.0, function=None, independent=None):
        """A coupling of joints of one coordinate."""
        self.couplings[name] = (coefficients, offset, function, independent)

    def mechanism(self):
        """The same as a `mb.Mechanism`."""
        made = mb.Mechanism()
        for name, inertia in self.bodies.items():
            made.add_body(name, **inertia)
        for name, (parent, body, kind, placement) in self.joints.items():
            made.add_joint(name, parent, body, kind, placement)
        for name, (a, b, closure, at_a, at_b, independent) in self.loops.items():
            made.add_loop(name, a, b, closure, at_a, at_b, independent=independent)
        for name, (coefficients, offset, function, independent) in self.couplings.items():
            joints = coefficients if function is None else [*coefficients]
            made.add_coupling(name, joints, offset, function=function, independent=independent)
        return made

    def build(self):
        """Its model, assembled near the reference."""
        return self.mechanism().build(gravity=self.gravity, reference=self.reference)


def plan_of_urdf(path, reference):
    """The plan of a URDF+ file of revolute joints and loops, placed without rotations.

    Parameters
    ----------
    reference : {joint: angle}.
    """
    root, plan = ElementTree.parse(path).getroot(), Plan(gravity=(0.0, 0.0, -9.81))
    inertias = {link.get("name"): _inertia(link) for link in root.iter("link")}
    children = {joint.find("child").get("link") for joint in root.iter("joint")}
    (base,) = set(inertias) - children
    free = []
    for joint in root.iter("joint"):
        name, parent = joint.get("name"), joint.find("parent").get("link")
        body = joint.find("child").get("link")
        kind = mb.Revolute(_numbers(joint.find("axis").get("xyz")))
        parent = "world" if parent == base else parent
        plan.add(name, parent, body, kind, at(*_origin(joint)), reference[name], **inertias[body])
        free += [name] if joint.get("independent", "true") == "true" else []
    for loop in root.iter("loop"):
        ends = [loop.find(role) for role in ("predecessor", "successor")]
        bodies, places = [end.get("link") for end in ends], [at(*_origin(end)) for end in ends]
        plan.loop(loop.get("name"), *bodies, None, *places, independent=free)
    plan.nv = len(free)
    return plan


def _numbers(text):
    return np.array(text.split(), dtype=float)


def _origin(element):
    origin = element.find("origin")
    return np.zeros(3) if origin is None else _numbers(origin.get("xyz"))


def _inertia(link):
    inertial = link.find("inertial")
    if inertial is None:
        return {}
    xx, xy, xz, yy, yz, zz = (
        float(inertial.find("inertia").get(f"i{key}")) for key in "xx xy xz yy yz zz".split()
    )
    return {
        "mass": float(inertial.find("mass").get("value")),
        "center_of_mass": _origin(inertial),
        "inertia": np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]),
    }
