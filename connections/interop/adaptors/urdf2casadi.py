"""urdf2casadi: `get_inertia_matrix_crba`, `get_coriolis_rnea`, `get_gravity_rnea`, of chains, base fixed."""

from xml.etree import ElementTree

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "urdf2casadi", "urdf2casadi", ("urdf",)


def load(path, floating):
    """The functions of the robot in a URDF file."""
    from urdf2casadi.urdfparser import URDFparser

    if floating:
        raise NotImplementedError("no floating bases")
    root, tip = chain(path)
    parser = URDFparser()
    parser.from_file(path)
    mass_matrix, bias = parser.get_inertia_matrix_crba(root, tip), parser.get_coriolis_rnea(root, tip)
    gravity = parser.get_gravity_rnea(root, tip, [0.0, 0.0, -9.81])
    return {
        "joints": parser.get_joint_info(root, tip)[1],
        "mass_matrix": lambda q: np.array(mass_matrix(q)),
        "bias": lambda q, v: np.array(bias(q, v))[:, 0],
        "gravity": lambda q: np.array(gravity(q))[:, 0],
        "functions": {
            "mass_matrix": "get_inertia_matrix_crba",
            "bias": "get_coriolis_rnea",
            "gravity": "get_gravity_rnea",
        },
    }


def chain(path):
    """The first and the last link of a robot without branches."""
    joints = ElementTree.parse(path).getroot().findall("joint")
    parents = [joint.find("parent").get("link") for joint in joints]
    children = [joint.find("child").get("link") for joint in joints]
    (root,), tips = set(parents) - set(children), sorted(set(children) - set(parents))
    if len(tips) != 1 or len(set(parents)) != len(parents):
        raise NotImplementedError("chains only, and this robot has branches")
    return root, tips[0]
