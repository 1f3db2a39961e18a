"""Small mechanisms, one per joint type; joints that URDF does not have are built in a library joint by joint.

Each is a chain of bodies with generic placements and inertias: base, the joint of this type, a body, a hinge,
a body. The hinge makes H depend on the joint's configuration for every type. For types that this library does
not have, our model is a chain of elementary joints with massless bodies, which has the same coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

import numpy as np
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections._words import no_such
from connections.checks import require_bool, require_text
from connections.interop.libraries.library import ROOT_JOINT, Array, LibraryError

X: Any
Y: Any
Z: Any
X, Y, Z = np.eye(3)
_OBLIQUE = np.array([0.6, 0.0, 0.8])
_PITCH = 0.1  # m/rad

#: The types of joints, and a description of each.
KINDS: Mapping[str, str] = MappingProxyType(
    {
        "revolute": "an angle about a fixed axis",
        "continuous": "an angle without limits",
        "prismatic": "a displacement along a fixed axis",
        "helical": "a screw",
        "cylindrical": "an angle about and a displacement along one axis, as one joint",
        "planar": "x, y and an angle in a plane, as one joint",
        "translation": "three displacements, as one joint",
        "spherical": "a ball, quaternion and body angular velocity",
        "spherical-zyx": "three angles about z, y, x, as one joint",
        "universal": "two angles about perpendicular axes, as one joint",
        "composite": "two angles about oblique axes apart from each other, as one joint",
        "free": "six degrees of freedom, body twist",
        "mimic": "a hinge that follows another one",
    }
)
URDF_TYPES = MappingProxyType(
    {
        "revolute": "revolute",
        "continuous": "continuous",
        "prismatic": "prismatic",
        "planar": "planar",
        "free": "floating",
        "mimic": "revolute",
        "fixed": "fixed",
    }
)


@dataclass(frozen=True, eq=False)
class ExampleBody:
    """A body and the joint that moves it.

    Parameters
    ----------
    name : of the joint; the body is named ``name_link``.
    parent : name of the parent part, None for the world.
    kind : a key of `KINDS`, or "fixed".
    placement : (4, 4) joint frame in the parent's frame, m.
    chain : elementary joints in series with the same motion, each with its (4, 4) placement.
    center, inertia : (3,) m and (3, 3) kg m^2 about it, of a body of `mass` kg.
    mimics : (name of another part, multiplier, offset), or None.
    """

    name: str
    parent: str | None
    kind: str
    placement: Array
    chain: tuple[tuple[mb.Joint, Array], ...]
    mass: float
    center: Array
    inertia: Array
    mimics: tuple[str, float, float] | None = None

    @property
    def body(self) -> str:
        """Name of the body."""
        return f"{self.name}_link"

    @property
    def joint_names(self) -> list[str]:
        """Names of our joints: the part's; for a chain, with /1, /2, ... appended."""
        count = len(self.chain)
        return [self.name] if count == 1 else [f"{self.name}/{number}" for number in range(1, count + 1)]


@dataclass(frozen=True, eq=False)
class JointExample:
    """The mechanism for one type of joint.

    Parameters
    ----------
    kind : a key of `KINDS`.
    parts : in order; the first is the base.
    """

    kind: str
    parts: tuple[ExampleBody, ...]

    @property
    def floating_base(self) -> bool:
        """Whether the base moves freely."""
        return self.parts[0].kind == "free"

    @property
    def model(self) -> mb.Model:
        """Our model of it."""
        mechanism = mb.Mechanism()
        for part in self.parts:
            above = "world" if part.parent is None else f"{part.parent}_link"
            for number, (name, (joint, placement)) in enumerate(
                zip(part.joint_names, part.chain, strict=True)
            ):
                last = number == len(part.chain) - 1
                body = part.body if last else f"{name}_link"
                if last:
                    mechanism.add_body(body, part.mass, part.center, part.inertia)
                else:
                    mechanism.add_body(body)
                start = part.placement @ placement if number == 0 else placement
                mechanism.add_joint(name, above, body, joint, start)
                above = body
            if part.mimics is not None:
                leader, multiplier, offset = part.mimics
                mechanism.add_coupling(f"mimic {part.name}", {part.name: 1.0, leader: -multiplier}, offset)
        return mechanism.build()

    @property
    def kinds(self) -> dict[str, str]:
        """{our joint: the type of its part}; hinges that others mimic have a type of their own."""
        found = {name: part.kind for part in self.parts for name in part.joint_names}
        for part in self.parts:
            if part.mimics is not None:
                found[part.mimics[0]] = "mimicked revolute"
        return found

    def urdf(self, library: str) -> str:
        """The mechanism as a URDF, without the joint of a free base, which the reader of the file adds.

        Raises
        ------
        LibraryError : URDF has no joint of this type.
        """
        robot = ElementTree.Element("robot", name=f"{self.kind} joint")
        for part in self.parts:
            if part.kind not in URDF_TYPES and part.parent is not None:
                raise LibraryError(f"{library} reads URDF, which has no {part.kind} joints")
            _add_link(robot, part)
            if part.parent is not None:
                _add_joint(robot, part)
        return ElementTree.tostring(robot, encoding="unicode")


def joint_example(kind: str, floating_base: bool = False) -> JointExample:
    """The mechanism for a type of joint.

    Parameters
    ----------
    kind : a key of `KINDS`.
    floating_base : whether the base moves freely; otherwise it is fixed to the world.

    Raises
    ------
    LibraryError : there is no such type.

    Examples
    --------
    >>> from connections import interop
    >>> from connections import multibody as mb
    >>> mechanism = interop.joint_example("spherical")
    >>> mechanism.kind, mechanism.floating_base
    ('spherical', False)
    >>> robot = mechanism.model
    >>> robot.joint_names, robot.nv
    (('spherical', 'hinge'), 4)
    """
    require_text("kind", kind)
    require_bool("floating_base", floating_base)
    if kind not in KINDS:
        raise LibraryError(no_such("joint type", kind, list(KINDS)))
    rng = np.random.default_rng(2026)
    base = "free" if floating_base else "fixed"
    parts = [_part(rng, ROOT_JOINT, None, base, np.eye(4))]
    if kind == "mimic":
        parts.append(_part(rng, "leader", ROOT_JOINT, "revolute"))
        parts.append(_part(rng, "mimic", "leader", "mimic", mimics=("leader", 1.5, 0.2)))
    else:
        parts.append(_part(rng, kind, ROOT_JOINT, kind))
    parts.append(_part(rng, "hinge", parts[-1].name, "revolute", axis=Y))
    return JointExample(kind, tuple(parts))


def _part(
    rng: np.random.Generator,
    name: str,
    parent: str | None,
    kind: str,
    placement: Array | None = None,
    axis: Array = _OBLIQUE,
    mimics: tuple[str, float, float] | None = None,
) -> ExampleBody:
    """A part with random placement and inertia."""
    masses, points = rng.uniform(0.2, 0.6, 5), 0.25 * rng.standard_normal((5, 3))
    center = masses @ points / masses.sum()
    arms = points - center
    moments = np.einsum("n,na,nb->ab", masses, arms, arms)
    inertia = np.trace(moments) * np.eye(3) - moments
    placed = random_placement(rng) if placement is None else placement
    return ExampleBody(
        name, parent, kind, placed, _chain(kind, axis), float(masses.sum()), center, inertia, mimics
    )


def random_placement(rng: np.random.Generator) -> Array:
    """A rigid transform (4, 4) by about 0.3 m."""
    placement = np.eye(4)
    placement[:3, :3] = Rotation.random(rng=rng).as_matrix()
    placement[:3, 3] = 0.3 * rng.standard_normal(3)
    return placement


def composite_step() -> Array:
    """The placement (4, 4) of the second axis of the composite joint after the first."""
    step = np.eye(4)
    step[:3, :3] = Rotation.from_euler("xyz", [0.4, -0.3, 0.2]).as_matrix()
    step[:3, 3] = 0.2, 0.1, -0.15
    return step


def _chain(kind: str, axis: Any) -> tuple[tuple[mb.Joint, Array], ...]:
    here = np.eye(4)
    single: dict[str, mb.Joint] = {
        "fixed": mb.Fixed(),
        "free": mb.Free(),
        "revolute": mb.Revolute(axis),
        "mimic": mb.Revolute(axis),
        "continuous": mb.Revolute(Z),
        "prismatic": mb.Prismatic(axis),
        "helical": mb.Helical(axis, _PITCH),
        "cylindrical": mb.Cylindrical(Z),
        "planar": mb.Planar(),
        "spherical": mb.Spherical(),
        "universal": mb.Universal(X, Y),
    }
    if kind in single:
        return ((single[kind], here),)
    if kind == "composite":
        return (mb.Revolute(X), here), (mb.Revolute(Y), composite_step())
    if kind == "translation":
        return tuple((mb.Prismatic(axis), here) for axis in (X, Y, Z))
    return tuple((mb.Revolute(axis), here) for axis in (Z, Y, X))


# --- as URDF --------------------------------------------------------------------------------------


def _add_link(robot: ElementTree.Element, part: ExampleBody) -> None:
    link = ElementTree.SubElement(robot, "link", name=part.body)
    inertial = ElementTree.SubElement(link, "inertial")
    ElementTree.SubElement(inertial, "origin", xyz=_text(part.center), rpy="0 0 0")
    ElementTree.SubElement(inertial, "mass", value=repr(part.mass))
    entries = {
        f"i{'xyz'[a]}{'xyz'[b]}": repr(float(part.inertia[a, b])) for a in range(3) for b in range(a, 3)
    }
    ElementTree.SubElement(inertial, "inertia", entries)


def _add_joint(robot: ElementTree.Element, part: ExampleBody) -> None:
    kind = URDF_TYPES[part.kind]
    joint = ElementTree.SubElement(robot, "joint", name=part.name, type=kind)
    ElementTree.SubElement(joint, "parent", link=f"{part.parent}_link")
    ElementTree.SubElement(joint, "child", link=part.body)
    angles = Rotation.from_matrix(part.placement[:3, :3]).as_euler("xyz")
    ElementTree.SubElement(joint, "origin", xyz=_text(part.placement[:3, 3]), rpy=_text(angles))
    axis = getattr(part.chain[0][0], "axis", Z)
    if kind not in ("fixed", "floating"):
        ElementTree.SubElement(joint, "axis", xyz=_text(axis))
    if kind in ("revolute", "prismatic"):
        ElementTree.SubElement(joint, "limit", lower="-9", upper="9", effort="1e9", velocity="1e9")
    if part.mimics is not None:
        leader, multiplier, offset = part.mimics
        ElementTree.SubElement(joint, "mimic", joint=leader, multiplier=repr(multiplier), offset=repr(offset))


def _text(values: Array) -> str:
    return " ".join(repr(float(value)) for value in values)
