"""Drake: `MultibodyPlant.CalcMassMatrix`, `CalcBiasTerm`, `CalcGravityGeneralizedForces`."""

from xml.etree import ElementTree

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "pydrake", "drake", ("urdf",)


def load(path, floating):
    """The functions of the robot in a URDF file."""
    from pydrake.multibody.parsing import Parser
    from pydrake.multibody.plant import MultibodyPlant

    plant = MultibodyPlant(0.0)
    Parser(plant).AddModels(path)
    if not floating:
        plant.WeldFrames(plant.world_frame(), plant.GetBodyByName(root_link(path)).body_frame())
    plant.Finalize()
    context = plant.CreateDefaultContext()
    joints = [plant.get_joint(index) for index in plant.GetJointIndices()]
    joints = sorted(
        (joint for joint in joints if joint.num_velocities() == 1), key=lambda joint: joint.velocity_start()
    )

    def positions(q):
        """Positions with the quaternion (w, x, y, z) before the position of the base."""
        return np.concatenate([q[3:7], q[:3], q[7:]]) if floating else q

    def mass_matrix(q):
        plant.SetPositions(context, positions(q))
        return plant.CalcMassMatrix(context)

    def bias(q, v):
        plant.SetPositions(context, positions(q))
        plant.SetVelocities(context, v)
        return plant.CalcBiasTerm(context)

    def gravity(q):
        plant.SetPositions(context, positions(q))
        return -plant.CalcGravityGeneralizedForces(context)

    return {
        "joints": [joint.name() for joint in joints],
        "floating": {"order": "wv", "axes": "mixed", "point": "frame", "quaternion": "wxyz"},
        "mass_matrix": mass_matrix,
        "bias": bias,
        "gravity": gravity,
        "functions": {
            "mass_matrix": "CalcMassMatrix",
            "bias": "CalcBiasTerm",
            "gravity": "CalcGravityGeneralizedForces",
        },
    }


def root_link(path):
    """The link that is no joint's child."""
    root = ElementTree.parse(path).getroot()
    children = {joint.find("child").get("link") for joint in root.findall("joint")}
    return next(link.get("name") for link in root.findall("link") if link.get("name") not in children)
