"""Loops and couplings, which constrain the joints of the tree, and the conditions that they impose.

A loop is a closure between frame a of one body and frame b of another: it constrains the pose of b in a.

A closure is `Coincident`, `Distance`, `ConstantVelocity`, a joint (whose motion stays free), or a user's
function. Each but the last is a set of scalar conditions of four kinds (`clusters.Rows`) on the rotation R
and position r of frame b in frame a: u . r = 0, u . R w = constant, |r|^2 = constant, x . R y = y . R x. A
revolute joint about z, for example, is r = 0, x . R z = 0, y . R z = 0. These also hold if the two z axes
point in opposite directions. So a closure also has `sides`, k pairs (u, w) whose u . R w add up to more than
k - 1, by which the assembly rejects that. They add up to k, of a `ConstantVelocity` to 1 + cos(bend); where
the conditions hold otherwise, to k - 2 or less (`_equal_rotations` has the other solutions).
Source: [W] VI-C, implicit constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from connections.checks import ModelError, as_number
from connections.geometry.rigid.placements import perpendicular, unit_axis
from connections.multibody.clusters import DIRECTION, DISTANCE, POSITION, TWIST
from connections.multibody.joints import (
    Cylindrical,
    Fixed,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)

_AXES = np.eye(3)
_NONE = np.zeros(3)
_ALIKE = tuple(zip(_AXES, _AXES, strict=True))  # sides of frames whose axes are parallel


@dataclass(frozen=True)
class Coincident:
    """The origins of the two frames coincide; three conditions, of which a planar loop needs two.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> yoke = mb.Mechanism()
    >>> for name in ("crank", "carriage", "pin"):
    ...     yoke.add_body(name, mass=1.0, inertia=np.eye(3))
    ...
    >>> yoke.add_joint("motor", "world", "crank", mb.Revolute((0, 0, 1)), actuated=True)
    >>> yoke.add_joint("x", "world", "carriage", mb.Prismatic((1, 0, 0)))
    >>> yoke.add_joint("y", "carriage", "pin", mb.Prismatic((0, 1, 0)))
    >>> yoke.add_loop("end", "crank", "pin", mb.Coincident(), np.eye(4) + np.eye(4, k=3) * 0.3)
    >>> robot = yoke.build()
    >>> robot.spanning_configuration([np.pi / 2])["y"].round(6)
    array([0.3])
    """


@dataclass(frozen=True)
class Distance:
    """The origins of the two frames are `length` apart: a massless rod with ball joints at its ends.

    Parameters
    ----------
    length : m, positive.

    Raises
    ------
    ModelError : the length is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> press = mb.Mechanism()
    >>> for name, joint in {"crank": mb.Revolute((0, 0, 1)), "slider": mb.Prismatic((1, 0, 0))}.items():
    ...     press.add_body(name, mass=1.0, inertia=np.eye(3))
    ...     press.add_joint(name, "world", name, joint)
    ...
    >>> press.add_loop("rod", "crank", "slider", mb.Distance(0.5), np.eye(4) + np.eye(4, k=3) * 0.3)
    >>> robot = press.build(independent=["crank"], reference={"slider": 0.7})
    >>> robot.spanning_configuration([0.0])["slider"].round(6)
    array([0.8])
    """

    length: float

    def __post_init__(self) -> None:
        try:
            length = as_number("length", self.length)
        except (TypeError, ValueError) as error:
            raise ModelError(f"Distance: {error}") from error
        if not length > 0.0:
            raise ModelError(f"Distance: the length must be positive, got {length} m")
        object.__setattr__(self, "length", length)


@dataclass(frozen=True)
class ConstantVelocity:
    """A homokinetic joint of two shafts: b bends in any direction against a, and turns as a does.

    The origins coincide, and R is a rotation about an axis perpendicular to `axis`. So if both shafts turn in
    fixed bearings, their angles are the same, whatever the bend (a universal joint's differ twice a turn). In
    the reference, b is bent by less than a right angle.

    Parameters
    ----------
    axis : (3,) direction of the shaft, in frame a and in frame b; any length but zero.

    Raises
    ------
    ModelError : the axis is zero or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> shafts = mb.Mechanism()
    >>> tilted = np.eye(4)
    >>> tilted[:2, :2] = [[0.8, -0.6], [0.6, 0.8]]
    >>> for name, place in {"in": np.eye(4), "out": tilted}.items():
    ...     shafts.add_body(name, mass=1.0, inertia=np.eye(3))
    ...     shafts.add_joint(name, "world", name, mb.Revolute((1, 0, 0)), place)
    ...
    >>> shafts.add_loop("bend", "in", "out", mb.ConstantVelocity((1, 0, 0)))
    >>> robot = shafts.build(independent=["in"])
    >>> float(np.round(robot.spanning_configuration([0.5])["out"], 6)[0])
    0.5

    Source: Hunt, Constant-velocity shaft couplings, 1973: the axis of the bend lies in the bisecting plane.
    """

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis))


ClosureFunction: TypeAlias = Callable[[Any], Any]  # (4, 4) transform of frame b in frame a -> (k,), JAX
Closure: TypeAlias = Coincident | Distance | ConstantVelocity | Joint | ClosureFunction


@dataclass(frozen=True, eq=False)
class Condition:
    """One scalar condition in the frames a and b of a closure; see `clusters.Rows`."""

    kind: int
    u: np.ndarray
    w: np.ndarray
    constant: float
    #: for TWIST, the second pair of directions, in a and in b
    x: np.ndarray | None = None
    y: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class ClosureConditions:
    """The conditions of a closure: equations, and k pairs (u, w) whose u . R w add up to more than k - 1."""

    rows: tuple[Condition, ...]
    sides: tuple[tuple[np.ndarray, np.ndarray], ...] = ()


def conditions_of(closure: Closure) -> ClosureConditions:
    """The conditions of a closure that is not a function.

    Raises
    ------
    ModelError : the closure is a joint that these conditions cannot describe.
    """
    match closure:
        case Coincident() | Spherical():
            return ClosureConditions(_orthogonality(*_AXES))
        case Distance(length):
            return ClosureConditions((Condition(DISTANCE, _NONE, _NONE, length**2),))
        case ConstantVelocity():
            x, y = perpendicular(np.array(closure.axis))
            return ClosureConditions(
                (*_orthogonality(*_AXES), Condition(TWIST, x, y, 0.0, y, x)), ((x, x), (y, y))
            )
        case Fixed():
            return ClosureConditions(_orthogonality(*_AXES) + _equal_rotations(), _ALIKE)
        case Revolute():
            z = np.array(closure.axis)
            return ClosureConditions(_orthogonality(*_AXES) + _parallel(z), ((z, z),))
        case Prismatic():
            z = np.array(closure.axis)
            return ClosureConditions(_orthogonality(*perpendicular(z)) + _equal_rotations(), _ALIKE)
        case Cylindrical():
            z = np.array(closure.axis)
            return ClosureConditions(_orthogonality(*perpendicular(z)) + _parallel(z), ((z, z),))
        case Planar():
            z = _AXES[2]
            return ClosureConditions(_orthogonality(z) + _parallel(z), ((z, z),))
        case Universal():
            first, second = np.array(closure.axis_1), np.array(closure.axis_2)
            return ClosureConditions(
                _orthogonality(*_AXES) + (Condition(DIRECTION, first, second, float(first @ second)),)
            )
    raise ModelError(
        f"no closure for {closure!r}: expected Coincident, Distance, ConstantVelocity, a revolute, "
        "prismatic, helical, cylindrical, universal, planar, spherical or fixed joint, or a function; "
        "cut the loop at another joint"
    )


def _orthogonality(*directions: np.ndarray) -> tuple[Condition, ...]:
    """u . r = 0 for each direction u."""
    return tuple(Condition(POSITION, u, _NONE, 0.0) for u in directions)


def _parallel(z: np.ndarray) -> tuple[Condition, ...]:
    """The axis z of b is along the axis z of a."""
    return tuple(Condition(DIRECTION, u, z, 0.0) for u in perpendicular(z))


def _equal_rotations() -> tuple[Condition, ...]:
    """R = 1, or one of seven others: x . R y = y . R z = z . R x = 0.

    The others are half turns about an axis, and thirds of a turn, which permute the axes: traces -1 and 0.
    """
    x, y, z = _AXES
    return tuple(Condition(DIRECTION, u, w, 0.0) for u, w in ((x, y), (y, z), (z, x)))


@dataclass(frozen=True, eq=False)
class Loop:
    """A closed loop: a closure between a frame of link a and a frame of link b."""

    name: str  #: unique among loops and couplings
    #: links, or the ground
    link_a: Hashable
    link_b: Hashable
    closure: Closure  #: the constraint on the pose of frame b in frame a
    #: (4, 4) homogeneous transforms, m: the frames in their links
    placement_a: np.ndarray
    placement_b: np.ndarray
    #: names of the independent joints of its cluster. The other joints in the loop are then dependent, unless
    #: another loop or coupling names them. None leaves the choice to the assembly
    independent: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class Coupling:
    """A coupling of joints: sum of coefficient * position = offset, or function(*positions) = offset."""

    name: str  #: unique among loops and couplings
    joints: tuple[str, ...]  #: names
    coefficients: tuple[float, ...]  #: one per joint; empty if there is a function
    offset: float = 0.0  #: in the unit of the sum, rad or m
    #: JAX-traceable; one argument per joint, its configuration (a number if it has one coordinate)
    function: Callable[..., Any] | None = None
    independent: tuple[str, ...] | None = None  #: as for `Loop`
