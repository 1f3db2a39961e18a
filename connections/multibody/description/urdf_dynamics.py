"""Friction of joints, ``<dynamics>``, and Drake's frames, ``<frame>``, of URDF files.

``<dynamics damping="d" friction="f"/>`` of a joint of one velocity v is the force -d v, and the largest dry
friction f, as ``damping`` and ``frictionloss`` of MJCF. Source: ROS's specification of URDF; Drake's of tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element

import numpy as np

from connections.checks import ModelError
from connections.multibody.description.left_out import LeftOut
from connections.multibody.description.urdf_elements import number_of, parse_frame
from connections.multibody.description.xml import line_of
from connections.multibody.joints.motors import Passive

_OF_ONE = ("revolute", "continuous", "prismatic")
_SEVERAL = (
    "one number for velocities of several units, which is not read; "
    "write model.with_passive(mb.joints.Passive(damping={joint: [...]}))"
)


def read_dynamics(root: Element) -> tuple[Passive, list[LeftOut]]:
    """Dampers and friction of the joints, and what is left out of them.

    Parameters
    ----------
    root : the ``<robot>``, whose joints are complete.

    Raises
    ------
    ModelError : a number is not finite or negative; the message names the joint and the line.
    """
    found: dict[str, dict[str, float]] = {"damping": {}, "friction": {}}
    left_out = []
    for joint in root.findall("joint"):
        part, name, kind = joint.find("dynamics"), str(joint.get("name")), joint.get("type")
        if part is None or kind == "fixed":  # what does not move has no friction
            continue
        owner = f"joint '{name}'"
        for word, values in found.items():
            value = number_of(owner, part, word, 0.0)
            if value < 0.0:
                raise ModelError(
                    f"{owner}, line {line_of(part)}: <dynamics {word}=...> is negative, {value:g}; a drive "
                    "is written by model.with_passive"
                )
            if value and kind in _OF_ONE:
                values[name] = value
            elif value:
                where = f"<dynamics {word}=...>"
                left_out.append(LeftOut(owner, _SEVERAL, (line_of(part),), where, word == "damping"))
    return Passive((), found["damping"], found["friction"]), left_out


def read_frames(root: Element, turns: Mapping[str, np.ndarray]) -> dict[str, tuple[str, np.ndarray]]:
    """Drake's frames, {name: (link, placement in our frame of it)}.

    Parameters
    ----------
    turns : link -> (4, 4), our frame of the link in the file's frame, for links for which they differ.

    Raises
    ------
    ModelError : a name or a link is missing, a name is there twice, or numbers are not finite.
    """
    found: dict[str, tuple[str, np.ndarray]] = {}
    for element in root.findall("frame"):
        name, owner = element.get("name") or "", f"frame '{element.get('name')}', line {line_of(element)}"
        link = element.get("link")
        if not name or not link:
            raise ModelError(f'{owner}: expected <frame name="..." link="..." xyz="..." rpy="..."/>')
        if name in found:
            raise ModelError(f"{owner}: there is one of this name already")
        given = {word: element.get(word, "") for word in ("xyz", "rpy") if element.get(word) is not None}
        placement, _ = parse_frame(owner, Element("origin", given), None)
        found[name] = link, turns.get(link, np.eye(4)).T @ placement
    return found
