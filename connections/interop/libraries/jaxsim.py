"""JaxSim: `free_floating_coriolis_matrix` and `free_floating_mass_matrix`, in each velocity representation.

JaxSim reads SDF, and converts a URDF by Gazebo's tool gz, which is seldom installed. So the SDF is written
here, from our model of the file: one link per moving body, with all links that are fixed to it.
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.interop.libraries.free_bodies import Change, FreeBody, hat, pulled_matrix, widened
from connections.interop.libraries.joint_examples import JointExample
from connections.interop.libraries.library import Array, Description, LibraryError, LibraryRobot, slots

VARIANTS = {
    "body": "VelRepr.Body of the base's velocity",
    "mixed": "VelRepr.Mixed of the base's velocity",
    "inertial": "VelRepr.Inertial of the base's velocity",
}
_TYPES: dict[type[mb.Joint], str] = {mb.Revolute: "revolute", mb.Prismatic: "prismatic"}
_BASE = "base of the world"


def read(description: Description, variant: str) -> LibraryRobot:
    """The robot of a URDF file."""
    notes = ("joints that mimic move on their own",) if description.leaders else ()
    return _robot(description.untied, variant, {}, notes)


def build(example: JointExample, variant: str) -> LibraryRobot:
    """The robot of a mechanism, as SDF."""
    if example.kind not in ("revolute", "continuous", "prismatic", "free"):
        raise LibraryError(f"JaxSim has no {example.kind} joints")
    return _robot(example.model, variant, example.kinds, ())


def _robot(ours: mb.Model, variant: str, kinds: dict[str, str], notes: tuple[str, ...]) -> LibraryRobot:
    import jax
    import jaxsim.api as js

    description, base = sdf(ours)
    theirs = js.model.JaxSimModel.build_from_model_description(description, is_urdf=False)
    representation = getattr(js.common.VelRepr, variant.capitalize())
    named = {slot.name: slot.v.start for slot in slots(ours)}
    joints = np.array([named[name] for name in theirs.joint_names()], dtype=int)
    at_q = joints + bool(base)  # the base's quaternion has one more entry than its angular velocity
    rows = np.concatenate([np.arange(base), 6 + np.argsort(joints)]).astype(int)
    body = FreeBody()

    @jax.jit
    def evaluated(place: Any, s: Any, twist: Any, s_dot: Any) -> tuple[Any, Any]:
        data = js.data.JaxSimModelData.build(
            theirs,
            place[:3],
            place[3:],
            s,
            twist[:3],
            twist[3:],
            s_dot,
            velocity_representation=representation,
        )
        C = js.model.free_floating_coriolis_matrix(theirs, data)
        return C, js.model.free_floating_mass_matrix(theirs, data)

    def both(q: Array, v: Array) -> tuple[Array, Array, Change]:
        place, twist, parts = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), np.zeros(6), []
        if base:
            place = np.concatenate([q[:3], q[6:7], q[3:6]])
            change = body.change(variant, q, v[:6])
            twist, parts = change.T @ v[:6], [(slice(0, 6), change)]
        C, H = (np.asarray(matrix) for matrix in evaluated(place, q[at_q], twist, v[joints]))
        at = np.ix_(rows, rows)
        return C[at], H[at], widened(parts, len(v))

    def mass_matrix(q: Array) -> Array:
        _, H, change = both(q, np.zeros(ours.nv))
        return change.T.T @ H @ change.T

    def coriolis(q: Array, v: Array) -> Array:
        return pulled_matrix(*both(q, v))

    return LibraryRobot(
        ours, "free_floating_coriolis_matrix", mass_matrix, coriolis, kinds=kinds, notes=notes
    )


# --- our model as SDF -----------------------------------------------------------------------------


def sdf(model: mb.Model) -> tuple[str, int]:
    """SDF of a model, and the degrees of freedom of its base: 6 if it is free, 0 if it is fixed.

    A fixed base is a link of its own; its velocity has to be set to zero.

    Raises
    ------
    LibraryError : a joint is of another type than revolute and prismatic, or has armature, or a body has no
        mass.
    """
    tree = model.kinematics.tree
    armed = [name for name, armature in model.armature.items() if armature.any()]
    if armed:
        raise LibraryError(f"armature is not written to SDF (joint '{armed[0]}')")
    root = ElementTree.Element("sdf", version="1.7")
    robot = ElementTree.SubElement(root, "model", name="robot")
    free = isinstance(tree.joints[0], mb.Free) and tree.parents[0] < 0
    if not free:
        _add_link(robot, _BASE, np.diag([1.0] * 6), None)
    for body, (name, joint) in enumerate(zip(tree.body_names, tree.joints, strict=True)):
        if not tree.inertias[body, 5, 5] > 0.0:
            raise LibraryError(f"JaxSim leaves out links without mass ('{name}')")
        _add_link(robot, name, tree.inertias[body], None if body == 0 and free else tree.joint_names[body])
        if body == 0 and free:
            continue
        if type(joint) not in _TYPES:
            raise LibraryError(
                f"JaxSim has no {type(joint).__name__.lower()} joints (joint '{tree.joint_names[body]}')"
            )
        parent = tree.body_names[tree.parents[body]] if tree.parents[body] >= 0 else _BASE
        _add_joint(
            robot, tree.joint_names[body], joint, parent, name, (tree.positions[body], tree.quaternions[body])
        )
    return ElementTree.tostring(root, encoding="unicode"), 6 * free


def _add_link(robot: ElementTree.Element, name: str, inertia: Array, joint: str | None) -> None:
    link = ElementTree.SubElement(robot, "link", name=name)
    if joint is not None:
        ElementTree.SubElement(link, "pose", relative_to=joint).text = "0 0 0 0 0 0"
    mass = inertia[5, 5]
    center = inertia[[2, 0, 1], [4, 5, 3]] / mass
    moments = inertia[:3, :3] + mass * hat(center) @ hat(center)
    inertial = ElementTree.SubElement(link, "inertial")
    ElementTree.SubElement(inertial, "pose").text = f"{_text(center)} 0 0 0"
    ElementTree.SubElement(inertial, "mass").text = repr(float(mass))
    entries = ElementTree.SubElement(inertial, "inertia")
    for a in range(3):
        for b in range(a, 3):
            ElementTree.SubElement(entries, f"i{'xyz'[a]}{'xyz'[b]}").text = repr(float(moments[a, b]))


def _add_joint(
    robot: ElementTree.Element,
    name: str,
    joint: Any,
    parent: str,
    child: str,
    placement: tuple[Array, Array],
) -> None:
    element = ElementTree.SubElement(robot, "joint", name=name, type=_TYPES[type(joint)])
    angles = Rotation.from_quat(placement[1]).as_euler("xyz")
    ElementTree.SubElement(
        element, "pose", relative_to=parent
    ).text = f"{_text(placement[0])} {_text(angles)}"
    ElementTree.SubElement(element, "parent").text = parent
    ElementTree.SubElement(element, "child").text = child
    axis = ElementTree.SubElement(element, "axis")
    ElementTree.SubElement(axis, "xyz").text = _text(np.asarray(joint.axis))
    limit = ElementTree.SubElement(axis, "limit")
    for side, value in (("lower", "-9"), ("upper", "9")):
        ElementTree.SubElement(limit, side).text = value


def _text(values: Array) -> str:
    return " ".join(repr(float(value)) for value in values)
