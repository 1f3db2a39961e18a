"""Chains of a few bodies: a planar arm with a closed form, random ones, and what they are made of."""

import numpy as np

from connections import multibody as mb


def chain(*joints, base=None, rng=None):
    """A chain of bodies: random ones, or links of 1 m with 1 kg at their ends without `rng`."""
    mechanism, before = mb.Mechanism(), "world"
    if base is not None:
        joints = (base, *joints)
    for number, joint in enumerate(joints):
        name, placement = f"body {number}", np.eye(4)
        mass, centre, inertia = 1.0, (1.0, 0.0, 0.0), np.zeros((3, 3))
        placement[0, 3] = 1.0 if number else 0.0
        if rng is not None:
            root = rng.uniform(-0.3, 0.3, (4, 3))
            mass, centre = rng.uniform(0.5, 2.0), rng.uniform(-0.3, 0.3, 3)
            inertia = np.trace(root.T @ root) * np.eye(3) - root.T @ root
            placement[:3, 3] = rng.uniform(-0.4, 0.4, 3)
        mechanism.add_body(name, mass, centre, inertia)
        limits = mb.joints.Limits(lower=-0.4, upper=0.3) if isinstance(joint, mb.Prismatic) else None
        mechanism.add_joint(f"joint {number}", before, name, joint, placement, limits=limits)
        before = name
    return mechanism.build()


def hinge(rng):
    return mb.Revolute(rng.standard_normal(3))


def two_limbs(trunk=3.0):
    """A trunk (kg) that floats, with a limb on each side."""
    mechanism = mb.Mechanism()
    mechanism.add_body("trunk", trunk, inertia=0.1 * np.eye(3))
    mechanism.add_joint("base", "world", "trunk", mb.Free())
    for side in (-1.0, 1.0):
        placement = np.eye(4)
        placement[1, 3] = 0.3 * side
        mechanism.add_body(f"limb {side}", 0.5, (0.3, 0.1, 0.0), 0.01 * np.eye(3))
        mechanism.add_joint(f"hip {side}", "trunk", f"limb {side}", mb.Revolute((0.0, 1.0, 0.5)), placement)
    return mechanism.build()
