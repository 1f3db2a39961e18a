"""The result of an adaptor of another library: its C, H and C v as functions of our q and v.

Adaptors translate layouts only: the order of joints and of twists, quaternions, (cos, sin) of continuous
joints, and the velocity of a floating base, which is the body twist [omega; v] here. If a library has another
velocity ``nu = T(q) v``, it uses another frame. Its matrix is transformed to ours by the law of induced
Coriolis matrices with a square T, ``C = T^T C' T + T^T H' T_dot``, which changes the frame and not the
connection.

Source: [W] eq. (17).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections._shown import Shown
from connections.multibody.description.xml import read_root

Array = NDArray[np.float64]

#: The name of a floating base's joint in our models.
ROOT_JOINT = "root_joint"
#: Drake and JaxSim take a link named "world" for the ground, even of a floating base.
_WORLD_LINK = "world_link"
_DYNAMICS = ("inertial", "parent", "child", "origin", "axis", "limit", "mimic", "dynamics")


class LibraryError(Shown, ValueError):
    """A library is unknown, not installed, or cannot read a robot; the message says which and why.

    Examples
    --------
    >>> from connections import interop
    >>> interop.audit_library(interop.joint_example("revolute"), "spreadsheet")
    Traceback (most recent call last):
        ...
    connections.interop.libraries.library.LibraryError: unknown library 'spreadsheet'; there are adaptors...
    """


@dataclass(frozen=True, eq=False)
class LibraryRobot:
    """A robot in another library, in our layout of q (nq,) and v (nv,).

    Parameters
    ----------
    model : our model of the same robot; all components are in its frame.
    function : the name of the audited function of the library.
    mass_matrix : q -> H (nv, nv).
    coriolis : (q, v) -> C (nv, nv), if the library has a matrix.
    bias : (q, v) -> C v (nv,) without gravity; audited if the library has no matrix.
    kinds : {joint: the library's name of its type}; other joints have our names.
    notes : differences between the library's model and the description.
    """

    model: mb.Model
    function: str
    mass_matrix: Callable[[Array], Array]
    coriolis: Callable[[Array, Array], Array] | None = None
    bias: Callable[[Array, Array], Array] | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Description:
    """A robot's URDF for the adaptors, without geometry and other elements that do not affect the dynamics.

    Parameters
    ----------
    path : the file.
    root : its XML, links and joints only.
    floating_base : whether the root link is free; otherwise it is fixed to the world.
    folder : where adaptors may write files.
    """

    path: Path
    root: ElementTree.Element
    floating_base: bool
    folder: Path

    @classmethod
    def read(cls, path: Path, floating_base: bool, folder: Path) -> Description:
        """The description in a file.

        Raises
        ------
        ModelError : as by `multibody.from_urdf`.
        """
        mb.from_urdf(path, floating_base)
        robot = read_root(path, "robot", "a URDF")
        for element in list(robot):
            if element.tag not in ("link", "joint"):
                robot.remove(element)
                continue
            for part in list(element):
                if part.tag not in _DYNAMICS:
                    element.remove(part)
        for tag in ("limit", "dynamics"):
            for joint in robot.findall("joint"):
                for part in joint.findall(tag):
                    joint.remove(part)
        for joint in robot.findall("joint"):  # set limits that all parsers accept
            if joint.get("type") in ("revolute", "prismatic"):
                ElementTree.SubElement(joint, "limit", lower="-9", upper="9", effort="1e9", velocity="1e9")
        _rename(robot, "world", _WORLD_LINK)
        return cls(Path(path), robot, floating_base, folder)

    @property
    def name(self) -> str:
        """The robot's name in the file."""
        return self.root.get("name") or self.path.stem

    @property
    def root_link(self) -> str:
        """The link that is no joint's child."""
        children = {named_by(joint, "child") for joint in self.joints}
        return next(
            link.get("name", "") for link in self.root.findall("link") if link.get("name") not in children
        )

    @property
    def joints(self) -> list[ElementTree.Element]:
        """The <joint> elements, in the file's order."""
        return self.root.findall("joint")

    @cached_property
    def leaders(self) -> dict[str, str]:
        """{joint that mimics: the independent joint at the end of the chain of mimics}."""
        above = {
            str(joint.get("name")): named_by(joint, "mimic", "joint")
            for joint in self.joints
            if joint.find("mimic") is not None and joint.get("type") != "fixed"
        }
        found = {}
        for joint, leader in above.items():
            while leader in above:
                leader = above[leader]
            found[joint] = leader
        return found

    @cached_property
    def model(self) -> mb.Model:
        """Our model of it, in which mimic joints follow their leaders."""
        return mb.from_urdf(self.file(), self.floating_base)

    @cached_property
    def untied(self) -> mb.Model:
        """Our model of it without <mimic>: every joint moves independently."""
        return mb.from_urdf(self.file(mimic=False), self.floating_base) if self.leaders else self.model

    def offset_of(self, link: str) -> Array:
        """The frame (4, 4) of a link that is fixed to the root link, in the root link's frame."""
        above = {named_by(joint, "child"): joint for joint in self.joints}
        offset = np.eye(4)
        while link in above:
            joint = above[link]
            if joint.get("type") != "fixed":
                raise LibraryError(f"the base link is '{link}', which moves against the root link")
            offset = _placement(joint) @ offset
            link = named_by(joint, "parent")
        return offset

    def text(self, mimic: bool = True, extra: ElementTree.Element | None = None) -> str:
        """The URDF as a string, with or without <mimic>, with one more element under <robot>."""
        root = copy.deepcopy(self.root)
        if not mimic:
            for joint in root.findall("joint"):
                for part in joint.findall("mimic"):
                    joint.remove(part)
        if extra is not None:
            root.append(extra)
        return ElementTree.tostring(root, encoding="unicode")

    def file(self, mimic: bool = True) -> Path:
        """The URDF as a file in `folder`."""
        path = self.folder / f"{self.path.stem}{'' if mimic else '_untied'}.urdf"
        if not path.exists():
            path.write_text(self.text(mimic))
        return path

    def refuse(self, types: tuple[str, ...], library: str) -> None:
        """Raise `LibraryError` if a joint has one of these URDF types, which the library does not have."""
        for joint in self.joints:
            if joint.get("type") in types:
                raise LibraryError(
                    f"{library} has no {joint.get('type')} joints (joint '{joint.get('name')}')"
                )


def named_by(joint: ElementTree.Element, tag: str, key: str = "link") -> str:
    """The name in a child element of a joint."""
    element = joint.find(tag)
    return "" if element is None else element.get(key, "")


def _rename(robot: ElementTree.Element, link: str, name: str) -> None:
    for element in robot.iter():
        for key in ("name", "link"):
            if element.tag in ("link", "parent", "child") and element.get(key) == link:
                element.set(key, name)


def _placement(joint: ElementTree.Element) -> Array:
    """The transform (4, 4) of a joint's <origin>."""
    out, origin = np.eye(4), joint.find("origin")
    if origin is not None:
        x, angles = (np.array(origin.get(key, "0 0 0").split(), dtype=float) for key in ("xyz", "rpy"))
        out[:3, :3], out[:3, 3] = Rotation.from_euler("xyz", angles).as_matrix(), x
    return out


class JointSlices(NamedTuple):
    """The slices of a joint in our q and v."""

    name: str
    kind: str
    q: slice
    v: slice


def slots(model: mb.Model) -> list[JointSlices]:
    """The independent joints of a model in order, with the class names of their types."""
    tree = model.kinematics.tree
    types = {name: type(joint).__name__ for name, joint in zip(tree.joint_names, tree.joints, strict=True)}
    return [
        JointSlices(name, types[name], model.configuration_slice(name), model.velocity_slice(name))
        for name in model.joint_names
    ]
