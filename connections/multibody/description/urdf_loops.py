"""Loops that a URDF file states in elements of Drake and Gazebo, in place of URDF+'s ``<loop>``.

- ``<loop_joint type=...>``: ``<link1>`` and ``<link2>`` name a link, and the frame on it by xyz and rpy; the
  ``<axis>`` is in the frame of link1.
- ``<gazebo><joint type=...>``: as in SDF, ``<pose>`` is the frame on the child, and the frame on the parent
  is there when all joints of the file are at zero; the ``<axis>`` is in this frame.
- ``<drake:ball_constraint>``: two points coincide.

A revolute or continuous joint turns about its axis, a prismatic one slides along it, a fixed one does not
move, and of a ball the origins coincide: in space, too, unlike a ``<loop type="revolute">``, of which points
coincide. What says less is an error, with the lines to write. Source: SDF's specification; Drake's
documentation of tags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

import numpy as np

from connections._shown import shown
from connections.checks import ModelError
from connections.multibody.description.format_table import table_of
from connections.multibody.description.urdf_elements import link_of, numbers_of, only, parse_frame
from connections.multibody.description.urdf_inventory import name_of
from connections.multibody.description.xml import line_of
from connections.multibody.graph import Edge
from connections.multibody.joints import Fixed, Prismatic, Revolute
from connections.multibody.loops.closures import Closure, Coincident, Loop

_BALL = "drake:ball_constraint"
_AXES = {"revolute": Revolute, "continuous": Revolute, "prismatic": Prismatic}


def read_loops(root: Element, edges: Sequence[Edge], turns: Mapping[str, np.ndarray]) -> list[Loop]:
    """The loops of these elements, whose links exist.

    Parameters
    ----------
    root : the ``<robot>``.
    edges : the joints; a tree.
    turns : link -> (4, 4), our frame of the link in the file's frame, for links for which they differ.

    Raises
    ------
    ModelError : a link does not exist, or both are the same; the type is not read; an axis or a point is
        missing, or not three finite numbers. The message names the element and its line.
    """
    links = [str(link.get("name")) for link in root.findall("link")]
    places = _Places(links, edges, turns)
    found: list[Loop] = []
    for element in root:
        if element.tag == "loop_joint":
            found.append(_loop_joint(element, places))
        elif element.tag == "gazebo":
            joints = [joint for joint in element.findall("joint") if not _holds_root(joint, places)]
            found += [_of_gazebo(joint, places) for joint in joints]
        elif name_of(element.tag) == _BALL:
            found.append(_ball(element, places, f"{_BALL} {len(found)}"))
    return found


class _Places:
    """The links of a file, and where they are while all joints are at zero."""

    def __init__(self, links: Sequence[str], edges: Sequence[Edge], turns: Mapping[str, np.ndarray]) -> None:
        self._links, self._turns = links, turns
        self._above = {edge.child: edge for edge in edges}

    def require(self, owner: str, names: tuple[str, str]) -> None:
        """Raise `ModelError` unless these are two links."""
        for name in names:
            if name not in self._links:
                raise ModelError(f"{owner}: its link '{name}' does not exist")
        if names[0] == names[1]:
            raise ModelError(f"{owner}: it is from link '{names[0]}' to itself")

    def is_root(self, link: str) -> bool:
        """Whether a link is no joint's child."""
        return link in self._links and link not in self._above

    def own(self, link: str, placement: np.ndarray) -> np.ndarray:
        """A placement (4, 4), m, in the file's frame of a link, in our frame."""
        own: np.ndarray = self._turns.get(link, np.eye(4)).T @ placement
        return own

    def seen_from(self, link: str, other: str) -> np.ndarray:
        """Our frame of `other` in our frame of `link`, (4, 4), m, while all joints are at zero."""
        seen: np.ndarray = np.linalg.inv(self._in_root(link)) @ self._in_root(other)
        return seen

    def _in_root(self, link: str) -> np.ndarray:
        pose = np.eye(4)
        while link in self._above:
            pose = self._above[link].placement @ pose
            link = str(self._above[link].parent)
        return pose


def _owner(element: Element, word: str) -> str:
    return f"{word} '{shown(element.get('name') or '')}', line {line_of(element)}"


def _loop_joint(element: Element, places: _Places) -> Loop:
    owner = _owner(element, "loop_joint")
    names = (link_of(owner, element, "link1"), link_of(owner, element, "link2"))
    places.require(owner, names)
    sides = []
    for role, link in zip(("link1", "link2"), names, strict=True):
        end = only(owner, element, role)
        assert end is not None  # `link_of` has read it
        if end.get("xyz") is None:
            raise ModelError(f"{owner}: its <{role}> has no point xyz. {_instead(names)}")
        origin = Element("origin", {name: end.get(name, "") for name in ("xyz", "rpy") if end.get(name)})
        sides.append(places.own(link, parse_frame(owner, origin, None)[0]))
    axis = only(owner, element, "axis")
    direction = None if axis is None else numbers_of(owner, axis, "xyz", 3)
    closure = _closure(owner, element, direction, names)
    return Loop(_name(owner, element), *names, closure, sides[0], sides[1])


def _of_gazebo(element: Element, places: _Places) -> Loop:
    owner = _owner(element, "gazebo joint")
    parent, child = (_text(owner, element, role) for role in ("parent", "child"))
    places.require(owner, (parent, child))
    if element.find("axis[@xyz]") is not None:
        remedy = table_of("urdf").row("gazebo/joint/axis", "xyz").words
        raise ModelError(f"{owner}: <axis xyz=...> is not read: {remedy}")
    pose, axis = only(owner, element, "pose"), element.find("axis/xyz")
    words = ((pose.text or "").split() if pose is not None else []) or ["0"] * 6
    origin = Element("origin", xyz=" ".join(words[:3]), rpy=" ".join(words[3:]))
    at_child = places.own(child, parse_frame(f"{owner}: its pose", origin, None)[0])
    given = None if axis is None else Element("axis", xyz=axis.text or "")
    direction = None if given is None else numbers_of(owner, given, "xyz", 3)
    closure = _closure(owner, element, direction, (parent, child))
    return Loop(
        _name(owner, element), parent, child, closure, places.seen_from(parent, child) @ at_child, at_child
    )


def _holds_root(element: Element, places: _Places) -> bool:
    """Whether a joint fixes the root link to the world, as it is without it."""
    ends = [(end.text or "").strip() for role in ("parent", "child") for end in element.findall(role)]
    return (
        len(ends) == 2 and ends[0] == "world" and element.get("type") == "fixed" and places.is_root(ends[1])
    )


def _ball(element: Element, places: _Places, name: str) -> Loop:
    owner = f"<{_BALL}>, line {line_of(element)}"
    values = {}
    for part, attribute in (("body_A", "name"), ("body_B", "name"), ("p_AP", "value"), ("p_BQ", "value")):
        ends = [each for each in element if name_of(each.tag) == f"{_BALL}_{part}"]
        if len(ends) != 1 or ends[0].get(attribute) is None:
            raise ModelError(f'{owner}: expected one <{_BALL}_{part} {attribute}="...">')
        values[part] = ends[0]
    names = (values["body_A"].get("name", ""), values["body_B"].get("name", ""))
    places.require(owner, names)
    frames = []
    for link, part in zip(names, ("p_AP", "p_BQ"), strict=True):
        frame = np.eye(4)
        frame[:3, 3] = numbers_of(owner, values[part], "value", 3)
        frames.append(places.own(link, frame))
    return Loop(name, *names, Coincident(), frames[0], frames[1])


def _closure(owner: str, element: Element, axis: Sequence[float] | None, names: tuple[str, str]) -> Closure:
    kind = element.get("type")
    if kind in ("ball", "spherical"):
        return Coincident()
    if kind == "fixed":
        return Fixed()
    if kind not in _AXES:
        said = "its type is missing" if kind is None else f"its type '{shown(kind)}' is not read"
        raise ModelError(f"{owner}: {said}. {_instead(names)}")
    if axis is None:
        raise ModelError(f"{owner}: it has no axis. {_instead(names)}")
    try:
        return _AXES[kind]((axis[0], axis[1], axis[2]))
    except ModelError as error:
        raise ModelError(f"{owner}: {error}") from error


def _name(owner: str, element: Element) -> str:
    name = element.get("name")
    if not name:
        raise ModelError(f"{owner}: it has no name")
    return name


def _text(owner: str, element: Element, role: str) -> str:
    end = only(owner, element, role)
    name = "" if end is None else (end.get("link") or end.text or "").strip()
    if not name:
        raise ModelError(f"{owner}: its <{role}> link is missing")
    return name


def _instead(names: tuple[str, str]) -> str:
    """The lines of URDF+ that say what is needed."""
    sides = "".join(
        f'\n  <{role} link="{shown(name)}"><origin xyz="..." rpy="..."/></{role}>'
        for role, name in zip(("predecessor", "successor"), names, strict=True)
    )
    return f'In place of it write\n<loop name="..." type="revolute">{sides}\n  <axis xyz="..."/>\n</loop>'
