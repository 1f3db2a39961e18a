"""Elements of a URDF file, parsed by yourdfpy, with checks for errors that its parser ignores."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any
from xml.etree.ElementTree import Element, SubElement

import numpy as np
from scipy.spatial.transform import Rotation

from connections.checks import ModelError
from connections.geometry.rigid.placements import turn_to
from connections.multibody.description.format_table import table_of
from connections.multibody.description.urdf_inventory import name_of

# There is one way to split a word into these parts, or the time for a long one would grow with its square.
_NUMBER = re.compile(r"[+-]?(([0-9]+([.][0-9]*)?|[.][0-9]+)(e[+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE)
_INERTIAL = {"mass": ("value",), "inertia": ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")}
#: The number of values of an attribute, by element.
_NUMBERS = {
    "origin": {"xyz": 3, "rpy": 3, "quat_xyzw": 4},
    "axis": {"xyz": 3},
    "limit": dict.fromkeys(("lower", "upper", "velocity", "effort"), 1),
    "dynamics": {"damping": 1, "friction": 1},
    **{tag: dict.fromkeys(attributes, 1) for tag, attributes in _INERTIAL.items()},
}
_NO_TURN = ("rpy", "0 0 0")  # of an <axis>, as some exporters write it
#: Elements that a link, joint or inertial has at most once.
_ONCE = ("parent", "child", "inertial", "mimic", *_NUMBERS)
#: What yourdfpy's parser is given of a link or joint.
_PARSED = ("inertial", "mass", "inertia", "origin", "parent", "child", "axis", "limit")
_MOST_OFF = 1e-3  # of the norm of a quaternion from one
_VERSIONS = (None, "1", "1.0", "1.1", "1.2")


def require_robot(root: Element) -> None:
    """Raise `ModelError` for a file that is no robot yet, or one of another version.

    Raises
    ------
    ModelError : an element of xacro, or a text that it would replace; an unknown version.
    """
    if root.get("version") not in _VERSIONS:
        raise ModelError(f"version {root.get('version')!r} of URDF is not known, only 1.0 to 1.2")
    for element in root.iter():
        namespace, _, name = element.tag.rpartition("}")
        if "xacro" in namespace:
            raise ModelError(f"<xacro:{name}>: {_EXPAND}")
    for described in root:
        if described.tag in ("link", "joint", "loop", "coupling"):
            for element in described.iter():
                for attribute, value in element.items():
                    if "${" in value or "$(" in value:
                        raise ModelError(f"<{element.tag} {attribute}={value[:80]!r}>: {_EXPAND}")


_EXPAND = "expand it first, by xacro FILE > robot.urdf"


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
    for part in (element, inertial):
        if part is not None:
            _require_spelling(owner, part)
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
    ModelError : as `numbers_of`; two children have the same of the names in `_ONCE`; an attribute is unknown;
        an origin has two rotations, or a quaternion that is not of norm one.
    """
    for tag in _ONCE:
        part = only(owner, element, tag)
        if part is None:
            continue
        known = _attributes_of(tag)
        for attribute, value in part.items():
            if known and attribute not in known and (attribute, value) != _NO_TURN:
                raise ModelError(
                    f"{owner}: <{tag} {attribute[:80]}=...> is not known; <{tag}> has {', '.join(known)}"
                )
        for attribute, count in _NUMBERS.get(tag, {}).items():
            if part.get(attribute) is not None:
                numbers_of(owner, part, attribute, count, finite=tag != "limit")
        if part.get("quat_xyzw") is not None:
            _require_rotation(owner, part)


@cache
def _attributes_of(tag: str) -> tuple[str, ...]:
    """All attributes of an element in which an unknown one would mean another robot; none of others."""
    entries = table_of("urdf").entries.values()
    found = (each.attributes for each in entries if each.strict and each.path.endswith(f"/{tag}"))
    return tuple(dict.fromkeys(name for attributes in found for name in attributes))


@cache
def _parts_of(tag: str) -> tuple[str, ...]:
    """The names of elements in a link, joint or inertial."""
    return table_of("urdf").inside({"inertial": "link/inertial"}.get(tag, tag))


def _require_spelling(owner: str, element: Element) -> None:
    """Raise `ModelError` for a child that is probably one with a misspelt name; others are ignored."""
    names = _parts_of(element.tag)
    for part in element:
        name = name_of(part.tag)
        if name in names:
            continue
        nearest = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.8)
        if nearest:
            raise ModelError(f"{owner}: <{part.tag[:80]}> is not known; did you mean <{nearest[0]}>?")


def _require_rotation(owner: str, origin: Element) -> None:
    """Raise `ModelError` unless an origin's quaternion is of norm one, and its only rotation."""
    if origin.get("rpy") is not None:
        raise ModelError(f"{owner}: its <origin> has both rpy and quat_xyzw")
    norm = float(np.linalg.norm(numbers_of(owner, origin, "quat_xyzw", 4)))
    if not abs(norm - 1.0) <= _MOST_OFF:
        raise ModelError(f"{owner}: <origin quat_xyzw=...> has the norm {norm:.6g}, expected 1")


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


def numbers_of(owner: str, element: Element, attribute: str, count: int, finite: bool = True) -> list[float]:
    """The value of an attribute that is `count` numbers, with spaces between them.

    Parameters
    ----------
    owner : what the element belongs to, for messages.
    element : the element that has the attribute.
    attribute : the attribute's name.
    count : how many numbers it has.
    finite : whether they must be finite.

    Raises
    ------
    ModelError : missing, too few or too many, not numbers, or not finite.
    """
    text = element.get(attribute)
    what = f"{owner}: <{element.tag} {attribute}=...>"
    if text is None:
        raise ModelError(f"{what} is missing")
    return _numbers(what, text, count, finite)


def number_within(owner: str, element: Element) -> float:
    """The finite number that is the text of an element; `ModelError` if it is none."""
    return _numbers(f"{owner}: <{element.tag}>", element.text or "", 1)[0]


def _numbers(what: str, text: str, count: int, finite: bool = True) -> list[float]:
    words = text.split()
    if len(words) != count:
        wanted = "one number" if count == 1 else f"{count} numbers"
        raise ModelError(f"{what}: expected {wanted}, got {text[:80]!r}")
    for word in words:
        if _NUMBER.fullmatch(word) is None:  # Python's `float` accepts 1_0, and digits of other scripts
            raise ModelError(f"{what} is not a number: {word[:80]!r}")
        if finite and not np.isfinite(float(word)):
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
    """The robot that yourdfpy makes of the elements themselves.

    Its public function `load` would read a text again, with another parser, which leaves out what it cannot
    read (lxml with ``recover=True``).
    """
    from yourdfpy import URDF

    robot = Element("robot", name="robot")
    robot.extend(map(_bare, elements))
    return URDF._parse_robot(robot)


def _bare(element: Element) -> Element:
    """The element without what is left out, and with quaternions as roll, pitch and yaw."""
    attributes = dict(element.attrib)
    if element.tag == "origin" and "quat_xyzw" in attributes:
        quaternion = [float(word) for word in attributes.pop("quat_xyzw").split()]
        attributes["rpy"] = " ".join(map(repr, _roll_pitch_yaw(Rotation.from_quat(quaternion).as_matrix())))
    bare = Element(element.tag, attributes)
    bare.extend(_bare(part) for part in element if part.tag in _PARSED)
    return bare


def _roll_pitch_yaw(R: np.ndarray) -> tuple[float, float, float]:
    """Angles with R = Rz(yaw) Ry(pitch) Rx(roll).

    Pitch and roll are those of Rz(yaw)^T R, so that the product is R also where yaw is not determined.
    """
    yaw = math.atan2(R[1, 0], R[0, 0])
    c, s = math.cos(yaw), math.sin(yaw)
    pitch = math.atan2(-R[2, 0], c * R[0, 0] + s * R[1, 0])
    return math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1]), pitch, yaw


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
