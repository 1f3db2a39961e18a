"""Elements of a URDF file, parsed by yourdfpy, with checks for errors that its parser ignores."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

import numpy as np

from connections.checks import ModelError
from connections.geometry.placements import turn_to

Element = ElementTree.Element
_INERTIAL = {"mass": ("value",), "inertia": ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")}
_LEFT_OUT = ("visual", "collision", "mimic")  # `urdf_plus` reads the last


def require_complete(element: Element) -> None:
    """Raise `ModelError` for a link or joint in which the parser would replace a missing part by a default.

    Raises
    ------
    ModelError : a name, a joint's parent or child, or a number of an inertial is missing.
    """
    if not element.get("name"):
        raise ModelError(f"a <{element.tag}> has no name")
    owner = f"{element.tag} '{element.get('name')}'"
    if element.tag == "joint":
        for role in ("parent", "child"):
            link_of(owner, element, role)
    inertial = element.find("inertial")
    if element.tag == "link" and inertial is not None:
        for tag, attributes in _INERTIAL.items():
            part = inertial.find(tag)
            for attribute in attributes:
                if part is None or part.get(attribute) is None:
                    raise ModelError(f"{owner}: its <inertial> has no <{tag} {attribute}=...>")


def link_of(owner: str, element: Element, role: str) -> str:
    """The link that ``<role link="...">`` names; `ModelError` if it is missing."""
    end = element.find(role)
    name = None if end is None else end.get("link")
    if not name:
        raise ModelError(f"{owner}: its <{role}> link is missing")
    return name


def number_of(owner: str, element: Element, attribute: str, default: float | None = None) -> float:
    """The value of an attribute that is a finite number.

    Parameters
    ----------
    owner : the joint or coupling, for messages.
    element : the element that has the attribute.
    attribute : the attribute's name.
    default : the value if the attribute is missing; None if it must not be missing.

    Raises
    ------
    ModelError : missing, not a number, or not finite.
    """
    text = element.get(attribute)
    if text is None and default is not None:
        return default
    what = f"{owner}: <{element.tag} {attribute}=...>"
    if text is None:
        raise ModelError(f"{what} is missing")
    try:
        number = float(text)
    except ValueError as error:
        raise ModelError(f"{what} is not a number: '{text}'") from error
    if not np.isfinite(number):
        raise ModelError(f"{what} is not finite: {text}")
    return number


def parse(elements: Sequence[Element]) -> Any:
    """yourdfpy's robot of the given links and joints, without their geometry.

    Raises
    ------
    ModelError : the parser refuses an element; the message names it.
    """
    try:
        return _parse_robot(elements)
    except Exception as error:
        for element in elements:
            try:
                _parse_robot([element])
            except Exception as culprit:
                raise ModelError(f"{element.tag} '{element.get('name')}': {culprit}") from culprit
        raise ModelError(f"yourdfpy cannot parse it: {error}") from error


def parse_frame(owner: str, origin: Element | None, axis: Element | None) -> tuple[np.ndarray, Any]:
    """The placement (4, 4), m, that an ``<origin>`` gives, and the direction that an ``<axis>`` gives.

    They are read as in a joint: if they are missing, they are the identity and (1, 0, 0).

    Raises
    ------
    ModelError : not numbers, too few or too many, or not finite; the message names the owner.
    """
    joint = ElementTree.Element("joint", name="frame", type="continuous")
    for role in ("parent", "child"):
        ElementTree.SubElement(joint, role, link=role)
    joint.extend(element for element in (origin, axis) if element is not None)
    try:
        parsed = _parse_robot([joint]).joints[0]
    except Exception as error:
        raise ModelError(f"{owner}: {error}") from error
    return placement_of(owner, parsed.origin), parsed.axis


def _parse_robot(elements: Sequence[Element]) -> Any:
    from yourdfpy import URDF

    robot = ElementTree.Element("robot", name="robot")
    for element in elements:
        bare = deepcopy(element)
        for tag in _LEFT_OUT:
            for part in bare.findall(tag):
                bare.remove(part)
        robot.append(bare)
    file = BytesIO(ElementTree.tostring(robot))
    with np.errstate(invalid="ignore"):  # numbers that are not finite raise errors later
        return URDF.load(file, build_scene_graph=False, load_meshes=False).robot


def placement_of(owner: str, origin: np.ndarray | None) -> np.ndarray:
    """A parsed ``<origin>`` as a (4, 4) transform; the identity if it is None.

    Raises
    ------
    ModelError : it is not finite.
    """
    if origin is None:
        return np.eye(4)
    if not np.isfinite(origin).all():
        raise ModelError(f"{owner}: its <origin> is not finite")
    return origin


def normal_turn(owner: str, axis: Any) -> np.ndarray:
    """`placements.turn_to` for the axis (3,) of a plane; errors name the owner.

    Raises
    ------
    ModelError : the axis is zero, not finite, or not of three numbers.
    """
    try:
        return turn_to(axis)
    except ModelError as error:
        raise ModelError(f"{owner}: {error}") from error
