"""Motors of URDF files: which joints ``<transmission>`` drives, and the inertia of the rotors behind gears.

    <transmission name="t">
      <joint name="shoulder"/>
      <actuator name="m"><rotor_inertia value="1e-5"/><gear_ratio value="50"/></actuator>
    </transmission>

A rotor of inertia J (kg m^2) that turns r times as fast as the joint has the energy J (r v)^2 / 2, so that
the joint's armature is r^2 J. The two elements are Drake's, with any prefix of a namespace (``drake:``).
Without ``<gear_ratio>``, r is ROS's ``<mechanicalReduction>50</mechanicalReduction>`` of the actuator, the
joint or the transmission, and 1 if there is none. Source: Drake's documentation of the parsed tags; ROS's
specification of transmissions.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from connections._words import no_such
from connections.checks import ModelError
from connections.multibody.description.left_out import LeftOut
from connections.multibody.description.urdf_elements import number_of, number_within
from connections.multibody.description.xml import line_of

_ROTOR = (
    "without the rotor its joint has no armature, which is part of H; "
    'from_urdf(path, armature="transmissions") reads it'
)
_INSTEAD = "; give armature={joint: value} instead"


def driven_joints(root: Element) -> set[str | None]:
    """The names of joints that have a motor."""
    return {joint.get("name") for joint in root.findall("transmission/joint")}


def rotor_inertias(root: Element, joints: list[str]) -> dict[str, float]:
    """The armature of each joint whose transmission has a rotor, kg m^2, by the name of the joint.

    Parameters
    ----------
    root : the ``<robot>``.
    joints : the names of its joints.

    Raises
    ------
    ModelError : there is no rotor; a transmission has a rotor and not one joint and one actuator, or names a
        joint that does not exist; a number is missing, not finite, or negative; there are two gear ratios.
    """
    found: dict[str, float] = {}
    for transmission in root.findall("transmission"):
        owner = f"transmission '{(transmission.get('name') or '')[:80]}'"
        actuators, ends = transmission.findall("actuator"), transmission.findall("joint")
        inertias = [_value(owner, actuator, "rotor_inertia") for actuator in actuators]
        if not any(inertias):
            continue
        if len(actuators) != 1 or len(ends) != 1:
            raise ModelError(
                f"{owner} has {len(ends)} joints and {len(actuators)} actuators, whose rotors may couple "
                f"joints; one of each is read{_INSTEAD}"
            )
        joint = ends[0].get("name") or ""
        if joint not in joints:
            raise ModelError(f"{owner}: {no_such('joint', joint, joints)}")
        ratio = _gear_ratio(owner, (actuators[0], ends[0], transmission))
        found[joint] = found.get(joint, 0.0) + ratio**2 * (inertias[0] or 0.0)
    if not found:
        raise ModelError(f"armature: no <transmission> has an <actuator> with <rotor_inertia>{_INSTEAD}")
    return found


def transmissions_left_out(root: Element, joints: list[str], unread: bool) -> list[LeftOut]:
    """Transmissions' joints that do not exist, and their rotors if these are not read."""
    found = []
    for transmission in root.findall("transmission"):
        owner = f"transmission '{(transmission.get('name') or '')[:80]}'"
        for joint in transmission.findall("joint"):
            if joint.get("name") not in joints:
                words = f"its joint '{(joint.get('name') or '')[:80]}' does not exist, nothing is made of it"
                found.append(LeftOut(owner, words, (line_of(joint),)))
        for actuator in transmission.findall("actuator") if unread else ():
            if _value(owner, actuator, "rotor_inertia"):
                found.append(LeftOut(owner, _ROTOR, (line_of(actuator),), "<rotor_inertia>"))
    return found


def _gear_ratio(owner: str, parts: tuple[Element, ...]) -> float:
    """Turns of the rotor for one of the joint."""
    ratios = {_value(owner, part, "gear_ratio") for part in parts[:1]}
    for part in parts:
        ratios |= {number_within(owner, element) for element in part.findall("mechanicalReduction")}
    given = sorted(ratio for ratio in ratios if ratio is not None)
    if len(given) > 1:
        raise ModelError(f"{owner}: it has different gear ratios: {', '.join(f'{r:g}' for r in given)}")
    if given == [0.0]:
        raise ModelError(f"{owner}: its gear ratio is zero")
    return given[0] if given else 1.0


def _value(owner: str, element: Element, name: str) -> float | None:
    """The number that the child `name` has as its value, whatever its namespace; None without a child."""
    parts = [part for part in element if part.tag.rpartition("}")[2] == name]
    if len(parts) > 1:
        raise ModelError(f"{owner}: an <actuator> has {len(parts)} elements <{name}>, expected one")
    if not parts:
        return None
    value = number_of(owner, parts[0], "value")
    if value < 0.0 and name == "rotor_inertia":
        raise ModelError(f"{owner}: <{name} value=...> is negative: {value:g}")
    return value
