"""URDF files, read into a `Model`, with URDF+ and mimic joints (`urdf_plus`).

Joint types: fixed, revolute, continuous, prismatic, planar, floating. Joints are numbered depth first, the
joints of one link in the order of their names, which is also the order of Pinocchio and of urdfdom. Geometry
is ignored; a missing ``<inertial>`` is zero. ``<dynamics>`` is in `Model.passive`. What becomes of every
element and attribute is in ``formats/urdf.toml``: those that are not read are an error, a `LeftOutWarning`
with their lines, or without meaning here (`urdf_inventory`).

The axis of a planar joint is the normal of its plane. The frame of its child link is turned so that z is that
normal, by the smallest rotation; x and y of the joint's configuration are along the turned axes.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from connections._jax import ArrayLike
from connections._words import no_such, words_of
from connections.checks import ModelError, require_bool, require_mapping
from connections.multibody.assembly.assembly import AssemblyWarning, assemble
from connections.multibody.assembly.whole_joints import Note
from connections.multibody.definition.frames import with_frames
from connections.multibody.description.files import Text, description_of, require_few_velocities
from connections.multibody.description.left_out import LeftOut, LeftOutWarning, sentence
from connections.multibody.description.urdf_dynamics import read_dynamics, read_frames
from connections.multibody.description.urdf_elements import (
    JointElement,
    LinkElement,
    joint_element,
    link_element,
    normal_turn,
    require_complete,
    require_robot,
)
from connections.multibody.description.urdf_inventory import left_out_of
from connections.multibody.description.urdf_plus import read_closures
from connections.multibody.description.urdf_transmissions import (
    driven_joints,
    rotor_inertias,
    transmissions_left_out,
)
from connections.multibody.description.xml import read_root
from connections.multibody.graph import GROUND, Edge, Link, build_tree, find_root
from connections.multibody.inertia import NO_INERTIA, InertiaWarning, body_inertia, inertia_flaw
from connections.multibody.joints import Fixed, Free, Joint, Limits, Planar, Prismatic, Revolute
from connections.multibody.joints.armature import armature_of
from connections.multibody.joints.limits import LimitsWarning
from connections.multibody.joints.motors import Passive, passive_of
from connections.multibody.loops.closures import Coupling, Loop
from connections.multibody.model import DEFAULT_GRAVITY, Model

ROOT_JOINT = "root_joint"


class _File(NamedTuple):
    """The contents of a URDF file."""

    links: list[Link]  #: in the file's order
    edges: list[Edge]  #: the joints, sorted by name
    root: str  #: the link that is no joint's child
    #: of URDF+, mimic joints among the couplings
    loops: list[Loop]
    couplings: list[Coupling]
    passive: Passive  #: dampers and friction of its joints
    frames: dict[str, tuple[str, np.ndarray]]  #: Drake's, as for `Model.with_frames`
    left_out: list[LeftOut]
    flaws: list[str]  #: messages about inertias that no distribution of mass has
    odd_limits: list[str]  #: messages about limits in the wrong order


def from_urdf(
    path: Any,
    floating_base: bool = False,
    gravity: ArrayLike = DEFAULT_GRAVITY,
    reference: Any = None,
    independent: Any = None,
    armature: Mapping[str, Any] | str | None = None,
    package_dirs: Any = (),
) -> Model:
    """The model of the robot described in a URDF or URDF+ file.

    Parameters
    ----------
    path : the file; also its text (str or bytes), an open file, or ``package://package/path``.
    floating_base : whether a free joint named ``root_joint`` is added between the world and the root link,
        first in ``joint_names``; otherwise the root link is fixed to the world.
    gravity : (3,) acceleration of free fall in world axes, m/s^2.
    reference : {joint name: configuration}, a guess of the assembly of closed loops, as for
        `Mechanism.build`.
    independent : names of independent joints, in place of those that the file marks, as for
        `Mechanism.build`. Joints of transmissions are preferred if loops leave a choice.
    armature : {joint name: armature}, as for `Model.with_armature`, which URDF has no place for; or
        "transmissions" for that of the rotors behind gears (``<rotor_inertia>`` and ``<gear_ratio>`` of
        ``<actuator>``, as Drake reads them), kg m^2.
    package_dirs : folders in which ROS packages are looked for, before those of the environment.

    Raises
    ------
    ModelError : the file is missing, no regular file, beyond the limits of `description.xml`, malformed or
        not a robot; a name is missing or appears twice; the links do not form a tree; a joint type, loop or
        coupling is not supported; a loop, coupling or mimic joint names a link or joint that does not exist,
        or contradicts others; an element occurs twice, or an attribute of an element with numbers is unknown;
        an element or attribute stands where it has no meaning, or is one that is not read;
        the file is one for xacro, or of an unknown version; an axis or ratio is zero, a number is not finite,
        a mass is negative, an inertia is not symmetric, or a part moves negative inertia; the loops do not
        close near the reference; `armature` names no joint, or does not fit it.
        The message names the file and the link, joint, loop or coupling.

    Warns
    -----
    InertiaWarning : no distribution of mass has the inertia of a link; once, naming all such links.
    AssemblyWarning : a reference was searched for, and the loops close in another way, too; or the best
        choice of independent joints lets others move more than twenty times as fast.
    LimitsWarning : the lower limit of a joint is above the upper one.
    LeftOutWarning : the file has something that is not in the model; once, with the lines of each thing.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> path = mb.example_path("quadruped")
    >>> mb.from_urdf(path).nv, mb.from_urdf(path, floating_base=True).nv
    (12, 18)
    >>> mb.from_urdf("no_such_file.urdf")
    Traceback (most recent call last):
        ...
    connections.checks.ModelError: no_such_file.urdf: there is no such file
    """
    require_bool("floating_base", floating_base)
    if reference is not None:
        require_mapping("reference", reference, "{joint: configuration}")
    path = description_of(path, package_dirs)
    try:
        file = _read(path, armature)
        if floating_base and any(edge.name == ROOT_JOINT for edge in file.edges):
            raise ModelError(
                f"a joint is already named '{ROOT_JOINT}', the name of the floating base's joint"
            )
        require_few_velocities(sum(edge.joint.nv for edge in file.edges))
        base: Joint = Free() if floating_base else Fixed()
        trunk = Edge(
            ROOT_JOINT if floating_base else "ground to root link", GROUND, file.root, base, np.eye(4)
        )
        tree = with_frames(build_tree(file.links, [trunk, *file.edges]), file.frames)
        joints = dict(zip(tree.joint_names, tree.joints, strict=True))
        tree = replace(tree, passive=passive_of(file.passive, joints, file.frames))
        notes: list[Note] = []
        kinematics = assemble(tree, file.loops, file.couplings, reference, notes.append, independent)
        model = Model.of(kinematics, gravity)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    for note in notes:
        warnings.warn(f"{path}: {note}", AssemblyWarning, stacklevel=2)
    if file.left_out:
        warnings.warn(f"{path}: {sentence(file.left_out)}", LeftOutWarning, stacklevel=2)
    if file.flaws:
        warnings.warn(f"{path}: " + "; ".join(file.flaws), InertiaWarning, stacklevel=2)
    if file.odd_limits:
        warnings.warn(f"{path}: " + "; ".join(file.odd_limits), LimitsWarning, stacklevel=2)
    return model


def _read(path: Path | Text, armature: Mapping[str, Any] | str | None) -> _File:
    """The file, with all checks that do not need the model."""
    root = read_root(path, "robot", "a URDF")
    require_robot(root)
    for element in root:
        if element.tag in ("link", "joint"):
            require_complete(element)
    parsed_links = [link_element(each) for each in root.findall("link")]
    parsed_joints = [joint_element(each) for each in root.findall("joint")]
    turns = {
        joint.child: normal_turn(f"joint '{joint.name}'", joint.axis)
        for joint in parsed_joints
        if joint.type == "planar"
    }
    driven, joints = driven_joints(root), [joint.name for joint in parsed_joints]
    rotors = _armatures(root, joints, armature)
    edges = sorted((_edge(joint, turns, driven, rotors) for joint in parsed_joints), key=lambda e: e.name)
    base = find_root([link.name for link in parsed_links], edges)
    loops, couplings = read_closures(root, edges, turns)
    flaws = []
    for link in parsed_links:
        flaw = link.inertial is not None and inertia_flaw(link.inertial.inertia)
        if flaw:
            flaws.append(f"link '{link.name}': inertia {flaw}")
    links = [_link(link, turns) for link in parsed_links]
    disorders = ((edge.name, edge.limits.disorder()) for edge in edges)
    odd_limits = [f"joint '{name}': {disorder}" for name, disorder in disorders if disorder]
    left_out = [*left_out_of(root), *transmissions_left_out(root, joints, armature is None)]
    passive, more = read_dynamics(root)
    left_out += more
    passive = replace(passive, left_out=tuple(each.name for each in left_out if each.passive))
    frames = read_frames(root, turns)
    return _File(links, edges, str(base), loops, couplings, passive, frames, left_out, flaws, odd_limits)


def _link(parsed: LinkElement, turns: dict[str, np.ndarray]) -> Link:
    if parsed.inertial is None:
        return Link(parsed.name, NO_INERTIA)
    pose = parsed.inertial.placement
    inertia = body_inertia(
        parsed.name, parsed.inertial.mass, pose[:3, 3], parsed.inertial.inertia, pose[:3, :3]
    )
    turn = turns.get(parsed.name, np.eye(4))
    return Link(parsed.name, inertia.seen_from(turn[:3, :3].T, np.zeros(3)))


def _armatures(
    root: Element, joints: list[str], armature: Mapping[str, Any] | str | None
) -> Mapping[str, Any]:
    """{joint name: armature} of the joints that have some."""
    if armature is None:
        return {}
    if isinstance(armature, str):
        if armature != "transmissions":
            raise ModelError(f'armature: expected {{joint: value}} or "transmissions", got {armature!r}')
        return rotor_inertias(root, joints)
    if not isinstance(armature, Mapping):
        raise TypeError(f'armature: expected {{joint: value}} or "transmissions", got {words_of(armature)}')
    for name in armature:
        if name not in joints:
            raise ModelError("armature: " + no_such("joint", name, joints))
    return armature


def _edge(
    parsed: JointElement,
    turns: dict[str, np.ndarray],
    driven: Collection[str | None],
    rotors: Mapping[str, Any],
) -> Edge:
    before, after = (turns.get(link, np.eye(4)) for link in (parsed.parent, parsed.child))
    placement = before.T @ parsed.placement @ after
    name, joint = parsed.name, _joint(parsed.name, parsed)
    inertia, actuated = armature_of(name, joint, rotors.get(name, 0.0)), name in driven
    return Edge(
        name, parsed.parent, parsed.child, joint, placement, _limits(parsed), inertia, actuated=actuated
    )


def _limits(parsed: JointElement) -> Limits:
    """The limits of a joint with one coordinate; others' have no meaning that readers share, and are told."""
    limit = parsed.limit
    if limit is None or parsed.type not in ("revolute", "continuous", "prismatic"):
        return Limits()
    sizes = {name: limit.get(name, np.inf) for name in ("velocity", "effort")}
    if parsed.type == "continuous":
        return Limits(**sizes)
    return Limits(limit.get("lower", 0.0), limit.get("upper", 0.0), **sizes)  # as URDF says


def _joint(name: str, parsed: JointElement) -> Joint:
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
