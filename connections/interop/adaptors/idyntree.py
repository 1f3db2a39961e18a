"""iDynTree: `getFreeFloatingMassMatrix`, `generalizedBiasForces`, `getCoriolisAndMassMatrices`."""

from xml.etree import ElementTree

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "idyntree", "idyntree", ("urdf",)


def load(path, floating):
    """The functions of the robot in a URDF file; of a fixed base, the rows of the joints."""
    import idyntree.bindings as idt

    loader, computations = idt.ModelLoader(), idt.KinDynComputations()
    if not loader.loadModelFromFile(path, "urdf") or not computations.loadRobotModel(loader.model()):
        raise ValueError("iDynTree makes no model of the file")
    model, base = loader.model(), computations.getFloatingBase()
    if floating and base != root_link(path):
        raise NotImplementedError(f"the base there is '{base}': a root link without inertia is left out")
    computations.setFrameVelocityRepresentation(idt.BODY_FIXED_REPRESENTATION)
    n = model.getNrOfDOFs()
    rows = slice(None) if floating else slice(6, None)
    C, H, rate = (idt.MatrixDynSize(6 + n, 6 + n) for _ in range(3))
    forces = idt.FreeFloatingGeneralizedTorques(model)
    joints = [k for k in range(model.getNrOfJoints()) if model.getJoint(k).getNrOfDOFs() == 1]
    joints.sort(key=lambda k: model.getJoint(k).getDOFsOffset())

    def put(q, v, g=0.0):
        place = np.eye(4)
        if floating:
            place[:3, :3], place[:3, 3] = rotation(q[3:7]), q[:3]
        twist, rates = (v[:6], v[6:]) if floating else (np.zeros(6), v)
        if not computations.setRobotState(place, q[7 * floating :], twist, rates, np.array([0.0, 0.0, -g])):
            raise ValueError("iDynTree does not accept a state")

    def mass_matrix(q):
        put(q, np.zeros(n + 6 * floating))
        computations.getFreeFloatingMassMatrix(H)
        return H.toNumPy()[rows, rows].copy()

    def found():
        base, moments = forces.baseWrench().toNumPy(), forces.jointTorques().toNumPy()
        return np.concatenate([base, moments])[rows]

    def bias(q, v):
        put(q, v)
        computations.generalizedBiasForces(forces)
        return found()

    def gravity(q):
        put(q, np.zeros(n + 6 * floating), 9.81)
        computations.generalizedGravityForces(forces)
        return found()

    def coriolis(q, v):
        put(q, v)
        computations.getCoriolisAndMassMatrices(C, H, rate)
        return C.toNumPy()[rows, rows].copy()

    return {
        "joints": [model.getJointName(k) for k in joints],
        "floating": {"order": "vw", "axes": "body", "point": "frame", "quaternion": "xyzw"},
        "mass_matrix": mass_matrix,
        "bias": bias,
        "gravity": gravity,
        "coriolis": coriolis,
        "functions": {
            "mass_matrix": "getFreeFloatingMassMatrix",
            "bias": "generalizedBiasForces",
            "coriolis": "getCoriolisAndMassMatrices",
            "gravity": "generalizedGravityForces",
        },
    }


def rotation(quaternion):
    """The rotation matrix of a quaternion (x, y, z, w)."""
    x, y, z, w = quaternion
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + 2.0 * w * K + 2.0 * K @ K


def root_link(path):
    """The link that is no joint's child."""
    root = ElementTree.parse(path).getroot()
    children = {joint.find("child").get("link") for joint in root.findall("joint")}
    return next(link.get("name") for link in root.findall("link") if link.get("name") not in children)
