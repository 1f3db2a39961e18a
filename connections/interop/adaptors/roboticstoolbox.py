"""Robotics Toolbox: `Robot.inertia` and `Robot.coriolis`, on a fixed base."""

from xml.etree import ElementTree

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "roboticstoolbox", "roboticstoolbox-python", ("urdf",)


def load(path, floating):
    """The functions of the robot in a URDF file."""
    import roboticstoolbox as rtb

    if floating:
        raise NotImplementedError("no floating bases")
    robot, notes = rtb.Robot.URDF(path), []
    try:
        robot.coriolis(np.zeros(robot.n), np.ones(robot.n))
    except ValueError:
        robot.nofriction = lambda *_: robot  # there is no friction to remove
        notes = ["Robot.coriolis fails on robots read from URDF: nofriction() was put out of action"]
    joints = {
        joint.find("child").get("link"): joint.get("name")
        for joint in ElementTree.parse(path).getroot().findall("joint")
    }
    moving = sorted((link for link in robot.links if link.isjoint), key=lambda link: link.jindex)
    return {
        "joints": [joints[link.name] for link in moving],
        "mass_matrix": lambda q: np.asarray(robot.inertia(q)),
        "coriolis": lambda q, v: np.asarray(robot.coriolis(q, v)),
        "functions": {"mass_matrix": "Robot.inertia", "coriolis": "Robot.coriolis"},
        "notes": notes,
    }
