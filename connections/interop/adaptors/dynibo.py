"""Dynibo: `mass_matrix` and `velocity_product_forces` of `Robot` and `FloatingRobot`."""

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "dynibo", "dynibo", ("urdf",)


def load(path, floating):
    """The functions of the robot in a URDF file."""
    import dynibo

    robot = (dynibo.FloatingRobot if floating else dynibo.Robot).from_urdf(path)
    n = robot.generalized_count

    def base(q, v):
        if not floating:
            return ()
        place = dynibo.Pose(translation=q[:3], rotation_xyzw=q[3:7])
        return (dynibo.BaseState(frame=place, velocity=dynibo.Twist(angular=v[:3], linear=v[3:6])),)

    def mass_matrix(q):
        H = robot.mass_matrix(*base(q, np.zeros(6)), q[7 * floating :])
        return np.reshape(H, (n, n))

    def bias(q, v):
        return np.asarray(robot.velocity_product_forces(*base(q, v), q[7 * floating :], v[6 * floating :]))

    def gravity(q):
        force = robot.gravity(*base(q, np.zeros(6)), q[7 * floating :])
        return np.asarray(force) * (9.81 / 9.80665)  # dynibo's own acceleration

    return {
        "joints": breadth_first(path),
        "floating": {"order": "wv", "axes": "mixed", "point": "frame", "quaternion": "xyzw"},
        "mass_matrix": mass_matrix,
        "bias": bias,
        "gravity": gravity,
        "functions": {
            "mass_matrix": "mass_matrix",
            "bias": "velocity_product_forces",
            "gravity": "gravity",
        },
    }


def breadth_first(path):
    """Names of the joints that move, level by level."""
    from xml.etree import ElementTree

    joints = ElementTree.parse(path).getroot().findall("joint")
    children = {joint.find("child").get("link") for joint in joints}
    level = {joint.find("parent").get("link") for joint in joints} - children
    level, names = sorted(level), []
    while level:
        found = [joint for link in level for joint in joints if joint.find("parent").get("link") == link]
        names += [joint.get("name") for joint in found if joint.get("type") != "fixed"]
        level = [joint.find("child").get("link") for joint in found]
    return names
