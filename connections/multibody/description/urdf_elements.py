"""Elements of a URDF file, parsed by yourdfpy, with checks for errors that its parser ignores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from connections.checks import ModelError
from connections.geometry.rigid.placements import turn_to

# There is one way to split a word into these parts, or the time for a long one would grow with its square.
_NUMBER = re.compile(r"[+-]?(([0-9]+([.][0-9]*)?|[.][0-9]+)(e[+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE)
_INERTIAL = {"mass": ("value",), "inertia": ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")}
#: The number of values of an attribute, by element.
_NUMBERS = {
    "origin": {"xyz": 3, "rpy": 3},
    "axis": {"xyz": 3},
    **{tag: dict.fromkeys(attributes, 1) for tag, attributes in _INERTIAL.items()},
}
#: Elements that a link, joint or inertial has at most once.
_ONCE = ("parent", "child", "inertial", "mimic", *_NUMBERS)
_LEFT_OUT = ("visual", "collision", "mimic")  # `urdf_plus` reads the last


def require_complete(element: Element) -> None:
    """Raise `ModelError` for a link or joint that the parser would silently misread.

    Raises
    ------
    ModelError : a name, a joint's parent or child, or a value of an inertial is missing; an element of
        `_ONCE` occurs twice; an attribute does not have the right number of finite values.
    """
    if not element.get("name"):
        raise ModelError(f"a <{element.tag}> has no name")
    owner = f"{element.tag} '{element.get('name')}'"
    if element.tag == "joint":
        for role in ("parent", "child"):
            link_of(owner, element, role)
    inertial = only(owner, element, "inertial")
    require_numbers(owner, element)
    if element.tag == "link" and inertial is not None:
        for tag, attributes in _INERTIAL.items():
            part = inertial.find(tag)
            for attribute in attributes:
                if part is None or part.get(attribute) is None:
                    raise ModelError(f"{owner}: its <inertial> has no <{tag} {attribute}=...>")
        require_numbers(owner, inertial)


def require_numbers(owner: str, element: Element) -> None:
    """Raise `ModelError` unless the numbers in an element's children are finite, and as many as they must be.

    Parameters
    ----------
    owner : the link, joint or loop, for messages.
    element : it, its inertial, or one side of it.

    Raises
    ------
    ModelError : as `numbers_of`; or two children have the same of the names in `_ONCE`.
    """
    for tag in _ONCE:
        part = only(owner, element, tag)
        for attribute, count in _NUMBERS.get(tag, {}).items():
            if part is not None and part.get(attribute) is not None:
                numbers_of(owner, part, attribute, count)


def only(owner: str, element: Element, tag: str) -> Element | None:
    """The child of this name, None if there is none; `ModelError` if there are several."""
    found = element.findall(tag)
    if len(found) > 1:
        raise ModelError(f"{owner}: it has {len(found)} elements <{tag}>, expected one")
    return found[0] if found else None


def link_of(owner: str, element: Element, role: str) -> str:
    """The link that ``<role link="...">`` names; `ModelError` if it is missing."""
    end = only(owner, element, role)
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
    if element.get(attribute) is None and default is not None:
        return default
    return numbers_of(owner, element, attribute, 1)[0]


def numbers_of(owner: str, element: Element, attribute: str, count: int) -> list[float]:
    """The value of an attribute that is `count` finite numbers, with spaces between them.

    Parameters
    ----------
    owner : what the element belongs to, for messages.
    element : the element that has the attribute.
    attribute : the attribute's name.
    count : how many numbers it has.

    Raises
    ------
    ModelError : missing, too few or too many, not numbers, or not finite.
    """
    text = element.get(attribute)
    what = f"{owner}: <{element.tag} {attribute}=...>"
    if text is None:
        raise ModelError(f"{what} is missing")
    words = text.split()
    if len(words) != count:
        wanted = "one number" if count == 1 else f"{count} numbers"
        raise ModelError(f"{what}: expected {wanted}, got {text[:80]!r}")
    for word in words:
        if _NUMBER.fullmatch(word) is None:  # Python's `float` accepts 1_0, and digits of other scripts
            raise ModelError(f"{what} is not a number: {word[:80]!r}")
        if not np.isfinite(float(word)):
            raise ModelError(f"{what} is not finite: {word[:80]}")
    return [float(word) for word in words]


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
    joint = Element("joint", name="frame", type="continuous")
    for role in ("parent", "child"):
        SubElement(joint, role, link=role)
    joint.extend(element for element in (origin, axis) if element is not None)
    require_numbers(owner, joint)
    try:
        parsed = _parse_robot([joint]).joints[0]
    except Exception as error:
        raise ModelError(f"{owner}: {error}") from error
    return placement_of(parsed.origin), parsed.axis


def _parse_robot(elements: Sequence[Element]) -> Any:
    """What yourdfpy makes of the elements themselves.

    Its public function `load` would read a text again, with another parser, which leaves out what it cannot
    read (lxml with ``recover=True``).
    """
    from yourdfpy import URDF

    robot = Element("robot", name="robot")
    for element in elements:
        bare = Element(element.tag, element.attrib)
        bare.extend(part for part in element if part.tag not in _LEFT_OUT)
        robot.append(bare)
    return URDF._parse_robot(robot)


def placement_of(origin: np.ndarray | None) -> np.ndarray:
    """A parsed ``<origin>`` as a (4, 4) transform; the identity if it is None."""
    return np.eye(4) if origin is None else origin


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
