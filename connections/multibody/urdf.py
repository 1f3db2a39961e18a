"""URDF files, read through yourdfpy's parser, into a `Model`.

Joint types: fixed, revolute, continuous, prismatic, planar, floating. Joints are numbered depth first, the
joints of one link in the order of their names, which is also the order of Pinocchio and of urdfdom. Geometry
is ignored; a missing ``<inertial>`` is zero. What is not supported is refused by name, never skipped.

The axis of a planar joint is the normal of its plane. The frame of its child link is turned so that z is that
normal, by the smallest rotation; x and y of the joint's configuration are along the turned axes.
"""

from __future__ import annotations

import os
import warnings
from copy import deepcopy
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from scipy.spatial.transform import Rotation

from connections.checks import ModelError
from connections.multibody.graph import GROUND, Edge, Link, build_tree, find_root
from connections.multibody.inertia import NO_INERTIA, InertiaWarning, body_inertia, inertia_flaw
from connections.multibody.joints import Fixed, Free, Joint, Planar, Prismatic, Revolute, unit_axis
from connections.multibody.model import DEFAULT_GRAVITY, Model
from connections.multibody.xmlfile import read_root, require_file

ROOT_JOINT = "root_joint"
INERTIAL_ATTRIBUTES = {"mass": ("value",), "inertia": ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")}


def from_urdf(
    path: str | os.PathLike[str], floating_base: bool = False, gravity: Any = DEFAULT_GRAVITY
) -> Model:
    """The model of the robot described in a URDF file.

    Parameters
    ----------
    path : the file.
    floating_base : put a free joint named ``root_joint`` between the world and the root link, first in
        ``joint_names``; otherwise the root link is fixed to the world.
    gravity : (3,) acceleration of free fall in world axes, m/s^2.

    Raises
    ------
    ModelError : the file is missing, malformed or not a robot; a name is missing or appears twice; the links
        do not form a tree; a joint type, mimic joint, loop or coupling is not supported; an axis is zero, a
        number is not finite, a mass is negative, an inertia is not symmetric, or a moving part has no
        inertia. The message names the file and the link or joint.

    Warns
    -----
    InertiaWarning : no distribution of mass has the inertia of a link; once, naming all such links.
    """
    path = Path(path)
    require_file(path)
    try:
        links, edges, flaws = _read(path)
        root = find_root([link.name for link in links], edges)
        if floating_base and any(edge.name == ROOT_JOINT for edge in edges):
            raise ModelError(
                f"a joint is already named '{ROOT_JOINT}', the name of the floating base's joint"
            )
        base: Joint = Free() if floating_base else Fixed()
        trunk = Edge(
            ROOT_JOINT if floating_base else "ground to root link", GROUND, str(root), base, np.eye(4)
        )
        model = Model.of(build_tree(links, [trunk, *edges]), gravity)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    if flaws:
        warnings.warn(f"{path}: " + "; ".join(flaws), InertiaWarning, stacklevel=2)
    return model


def _read(path: Path) -> tuple[list[Link], list[Edge], list[str]]:
    """The links in the file's order, the joints sorted by name, and what is wrong with inertias."""
    root = read_root(path, "robot", "a URDF")
    elements = [element for element in root if element.tag in ("link", "joint")]
    for element in root:
        if element.tag in ("loop", "coupling", "constraint"):
            raise ModelError(f"<{element.tag}> '{element.get('name')}': closed loops are not yet supported")
    for element in elements:
        _require_complete(element)
    robot = _parse(elements)
    turns = {joint.child: _plane(joint) for joint in robot.joints if joint.type == "planar"}
    edges = [_edge(joint, turns) for joint in robot.joints]
    flaws = []
    for link in robot.links:
        flaw = link.inertial is not None and inertia_flaw(link.inertial.inertia)
        if flaw:
            flaws.append(f"link '{link.name}': inertia {flaw}")
    return [_link(link, turns) for link in robot.links], sorted(edges, key=lambda edge: edge.name), flaws


def _require_complete(element: Any) -> None:
    """Refuse what the parser would fill in with a default, and what is not supported."""
    if not element.get("name"):
        raise ModelError(f"a <{element.tag}> has no name")
    owner = f"{element.tag} '{element.get('name')}'"
    if element.tag == "joint":
        for role in ("parent", "child"):
            if element.find(role) is None or not element.find(role).get("link"):
                raise ModelError(f"{owner}: its <{role}> link is missing")
        mimic = element.find("mimic")
        if mimic is not None:
            raise ModelError(f"{owner} mimics '{mimic.get('joint')}': mimic joints are not yet supported")
    inertial = element.find("inertial")
    if element.tag == "link" and inertial is not None:
        for tag, attributes in INERTIAL_ATTRIBUTES.items():
            for attribute in attributes:
                if inertial.find(tag) is None or inertial.find(tag).get(attribute) is None:
                    raise ModelError(f"{owner}: its <inertial> has no <{tag} {attribute}=...>")


def _parse(elements: list[Any]) -> Any:
    """yourdfpy's robot of the given links and joints, without their geometry."""
    try:
        return _parse_robot(elements)
    except Exception as error:
        for element in elements:
            try:
                _parse_robot([element])
            except Exception as culprit:
                raise ModelError(f"{element.tag} '{element.get('name')}': {culprit}") from culprit
        raise ModelError(f"yourdfpy cannot parse it: {error}") from error


def _parse_robot(elements: list[Any]) -> Any:
    from yourdfpy import URDF

    robot = ElementTree.Element("robot", name="robot")
    for element in elements:
        bare = deepcopy(element)
        for geometry in bare.findall("visual") + bare.findall("collision"):
            bare.remove(geometry)
        robot.append(bare)
    file = BytesIO(ElementTree.tostring(robot))
    with np.errstate(invalid="ignore"):  # numbers that are not finite are refused below, by name
        return URDF.load(file, build_scene_graph=False, load_meshes=False).robot


def _link(parsed: Any, turns: dict[str, np.ndarray]) -> Link:
    if parsed.inertial is None:
        return Link(parsed.name, NO_INERTIA)
    pose = _placement(f"link '{parsed.name}'", parsed.inertial.origin)
    inertia = body_inertia(
        parsed.name, parsed.inertial.mass, pose[:3, 3], parsed.inertial.inertia, pose[:3, :3]
    )
    turn = turns.get(parsed.name, np.eye(4))
    return Link(parsed.name, inertia.seen_from(turn[:3, :3].T, np.zeros(3)))


def _edge(parsed: Any, turns: dict[str, np.ndarray]) -> Edge:
    before, after = (turns.get(link, np.eye(4)) for link in (parsed.parent, parsed.child))
    placement = before.T @ _placement(f"joint '{parsed.name}'", parsed.origin) @ after
    return Edge(parsed.name, parsed.parent, parsed.child, _joint(parsed.name, parsed), placement)


def _joint(name: str, parsed: Any) -> Joint:
    try:
        match parsed.type:
            case "revolute" | "continuous":
                return Revolute(parsed.axis)
            case "prismatic":
                return Prismatic(parsed.axis)
            case "floating":
                return Free()
            case "fixed":
                return Fixed()
            case "planar":
                return Planar()
    except ModelError as error:
        raise ModelError(f"joint '{name}': {error}") from error
    raise ModelError(f"joint '{name}': unknown type '{parsed.type}'")


def _plane(parsed: Any) -> np.ndarray:
    """The smallest rotation (4, 4) that takes z to the axis of a planar joint; of two, the one about x."""
    try:
        x, y, z = unit_axis(parsed.axis)
    except ModelError as error:
        raise ModelError(f"joint '{parsed.name}': {error}") from error
    tilt = np.hypot(x, y)
    about = np.array([-y, x, 0.0]) / tilt if tilt > 0.0 else np.array([1.0, 0.0, 0.0])
    turn = np.eye(4)
    turn[:3, :3] = Rotation.from_rotvec(np.arctan2(tilt, z) * about).as_matrix()
    return turn


def _placement(owner: str, origin: np.ndarray | None) -> np.ndarray:
    """The <origin> as a (4, 4) transform; the identity where there is none."""
    if origin is None:
        return np.eye(4)
    if not np.isfinite(origin).all():
        raise ModelError(f"{owner}: its <origin> is not finite")
    return origin
