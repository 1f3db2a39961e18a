"""Adam, on NumPy: `KinDynComputations.mass_matrix`, `coriolis_term`, `gravity_term`, of a free base."""

from xml.etree import ElementTree

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "adam", "adam-robotics", ("urdf",)


def load(path, floating):
    """The functions of the robot in a URDF file; of a fixed base, the rows of the joints."""
    from adam import Representations
    from adam.numpy import KinDynComputations

    joints = [
        joint.get("name")
        for joint in ElementTree.parse(path).getroot().findall("joint")
        if joint.get("type") in ("revolute", "continuous", "prismatic")
    ]
    computations = KinDynComputations(path, joints, gravity=np.array([0.0, 0.0, -9.81, 0.0, 0.0, 0.0]))
    computations.set_frame_velocity_representation(Representations.MIXED_REPRESENTATION)
    size = 7 if floating else 0
    rows = slice(None) if floating else slice(6, None)

    def placement(q):
        T = np.eye(4)
        if floating:
            T[:3, :3], T[:3, 3] = rotation(q[3:7]), q[:3]
        return T

    def mass_matrix(q):
        return computations.mass_matrix(placement(q), q[size:])[rows, rows]

    def bias(q, v):
        base = v[:6] if floating else np.zeros(6)
        rates = v[6:] if floating else v
        return np.atleast_1d(computations.coriolis_term(placement(q), q[size:], base, rates))[rows]

    def gravity(q):
        return np.atleast_1d(computations.gravity_term(placement(q), q[size:]))[rows]

    return {
        "joints": joints,
        "floating": {"order": "vw", "axes": "mixed", "point": "frame", "quaternion": "xyzw"},
        "mass_matrix": mass_matrix,
        "bias": bias,
        "gravity": gravity,
        "functions": {
            "mass_matrix": "KinDynComputations.mass_matrix",
            "bias": "KinDynComputations.coriolis_term",
            "gravity": "KinDynComputations.gravity_term",
        },
    }


def rotation(quaternion):
    """The rotation matrix of a quaternion (x, y, z, w)."""
    x, y, z, w = quaternion
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + 2.0 * w * K + 2.0 * K @ K
