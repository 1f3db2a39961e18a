"""JaxSim: `free_floating_mass_matrix`, `free_floating_bias_forces`, `free_floating_coriolis_matrix`.

It reads SDF, and converts URDF by Gazebo's tool gz, which is seldom installed: so the SDF is written here.
"""

from xml.etree import ElementTree

import numpy as np

PACKAGE, DISTRIBUTION, FORMATS = "jaxsim", "jaxsim", ("urdf",)


def load(path, floating):
    """The functions of the robot in a URDF file; of a fixed base, the rows of the joints."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jaxsim.api as js

    model = js.model.JaxSimModel.build_from_model_description(sdf(path, floating), is_urdf=False)
    model = model.replace(gravity=0.0, validate=False) if hasattr(model, "gravity") else model
    base, rows = 6 * floating, slice(None) if floating else slice(6, None)

    @jax.jit
    def everything(place, s, twist, rates):
        data = js.data.JaxSimModelData.build(
            model,
            place[:3],
            place[3:],
            s,
            twist[:3],
            twist[3:],
            rates,
            velocity_representation=js.common.VelRepr.Mixed,
        )
        return (
            js.model.free_floating_mass_matrix(model, data),
            js.model.free_floating_bias_forces(model, data),
            js.model.free_floating_coriolis_matrix(model, data),
        )

    def at(q, v, which):
        place, twist = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), np.zeros(6)
        if floating:
            place, twist = q[:7], v[:6]
        return np.asarray(everything(place, q[7 * floating :], twist, v[base:])[which])

    def mass_matrix(q):
        return at(q, np.zeros(len(q) - floating), 0)[rows, rows]

    return {
        "joints": list(model.joint_names()),
        "floating": {"order": "vw", "axes": "mixed", "point": "frame", "quaternion": "wxyz"},
        "mass_matrix": mass_matrix,
        "bias": lambda q, v: at(q, v, 1)[rows],
        "coriolis": lambda q, v: at(q, v, 2)[rows, rows],
        "functions": {
            "mass_matrix": "free_floating_mass_matrix",
            "bias": "free_floating_bias_forces",
            "coriolis": "free_floating_coriolis_matrix",
        },
    }


def sdf(path, floating):
    """The links and joints of a URDF file as SDF."""
    urdf = ElementTree.parse(path).getroot()
    fixed = any(joint.get("type") == "fixed" for joint in urdf.findall("joint"))
    if fixed or any(link.find("inertial") is None for link in urdf.findall("link")):
        raise NotImplementedError("gz merges links that do not move by themselves, and is not used here")
    root = ElementTree.Element("sdf", version="1.7")
    robot = ElementTree.SubElement(root, "model", name="robot")
    joints = {joint.find("child").get("link"): joint for joint in urdf.findall("joint")}
    for link in urdf.findall("link"):
        name, inertial = link.get("name"), link.find("inertial")
        out = ElementTree.SubElement(robot, "link", name=name)
        if name in joints:
            pose(out, None, joints[name].get("name"))
        if inertial is not None:
            body = ElementTree.SubElement(out, "inertial")
            pose(body, inertial.find("origin"))
            ElementTree.SubElement(body, "mass").text = inertial.find("mass").get("value")
            moments = ElementTree.SubElement(body, "inertia")
            for key, value in inertial.find("inertia").items():
                ElementTree.SubElement(moments, key).text = value
    for child, joint in joints.items():
        kind = joint.get("type")
        out = ElementTree.SubElement(robot, "joint", name=joint.get("name"), type=kind)
        pose(out, joint.find("origin"), joint.find("parent").get("link"))
        ElementTree.SubElement(out, "parent").text = joint.find("parent").get("link")
        ElementTree.SubElement(out, "child").text = child
        if kind != "fixed":
            axis, given = ElementTree.SubElement(out, "axis"), joint.find("axis")
            vector = "1 0 0" if given is None else given.get("xyz")
            ElementTree.SubElement(axis, "xyz").text = vector
            limit = ElementTree.SubElement(axis, "limit")
            for side, value in (("lower", "-9"), ("upper", "9")):
                ElementTree.SubElement(limit, side).text = value
    if not floating:
        (first,) = {link.get("name") for link in urdf.findall("link")} - set(joints)
        fixed = ElementTree.SubElement(robot, "joint", name="to the world", type="fixed")
        ElementTree.SubElement(fixed, "parent").text = "world"
        ElementTree.SubElement(fixed, "child").text = first
    return ElementTree.tostring(root, encoding="unicode")


def pose(element, origin, relative_to=None):
    """A pose under an element."""
    xyz, rpy = ("0 0 0", "0 0 0")
    if origin is not None:
        xyz, rpy = origin.get("xyz", xyz), origin.get("rpy", rpy)
    given = {} if relative_to is None else {"relative_to": relative_to}
    ElementTree.SubElement(element, "pose", given).text = f"{xyz} {rpy}"
