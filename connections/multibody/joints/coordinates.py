"""Joints whose velocities are the rates of their coordinates, v = qdot; `Fixed` has none.

Revolute, prismatic, helical and cylindrical joints move along one axis; universal and planar joints are two
and three such motions in series, and their Phi depends on the configuration. Source: [W] VI-B.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import ModelError, as_number
from connections.geometry import CoordinateFrame, FrameField
from connections.geometry.rigid.host_groups import skew
from connections.geometry.rigid.placements import Axis, perpendicular, unit_axis
from connections.geometry.rigid.rotations import quaternion_about, quaternion_product, rotation_matrix
from connections.multibody.joints.joint import ElementaryJoint, Joint, Transform

_ANGLE, _LENGTH = np.pi, 1.0  # random coordinates lie within plus and minus these: rad, m
_PARALLEL = 1e-6  # sine of the angle between the axes below which a universal joint has lost one direction


class CoordinateJoint(Joint):
    """A joint with v = qdot; its coordinates are angles and lengths, which are zero if it is neutral.

    Parameters
    ----------
    ranges : (nq,) bounds of random coordinates, rad or m.
    """

    ranges: ClassVar[tuple[float, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.nq = cls.nv = len(cls.ranges)

    @property
    def frame(self) -> FrameField:
        """The coordinate frame."""
        return CoordinateFrame(self.nq)

    def neutral(self) -> np.ndarray:
        """All coordinates zero, (nq,)."""
        return np.zeros(self.nq)

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Coordinates (nq,): angles in [-pi, pi), lengths in [-1, 1) m."""
        return rng.uniform(np.negative(self.ranges), self.ranges)


@dataclass(frozen=True)
class Fixed(CoordinateJoint):
    """No motion: the child moves with its parent, and is merged with it when a model is built.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> flagpole = mb.Mechanism()
    >>> flagpole.add_body("pole", mass=5.0, inertia=np.eye(3))
    >>> flagpole.add_body("flag", mass=0.2, inertia=0.01 * np.eye(3))
    >>> flagpole.add_joint("bearing", "world", "pole", mb.Revolute((0, 0, 1)))
    >>> flagpole.add_joint("seam", "pole", "flag", mb.Fixed())
    >>> flagpole.build()
    Model(1 bodies, nq=1, nv=1)
    """

    @staticmethod
    def transform_with(parameters: jax.Array, q: jax.Array) -> Transform:
        """The identity."""
        return jnp.array([0.0, 0.0, 0.0, 1.0]), jnp.zeros(3)

    @staticmethod
    def motion_with(parameters: jax.Array, q: jax.Array) -> jax.Array:
        """No columns, (6, 0)."""
        return jnp.zeros((6, 0))

    @property
    def frame(self) -> FrameField:
        """There is none: a point has no directions.

        Raises
        ------
        ModelError : always.
        """
        raise ModelError("a fixed joint has no velocities, hence no frame")

    @property
    def chain(self) -> tuple[ElementaryJoint, ...]:
        """No joints."""
        return ()


@dataclass(frozen=True)
class AxialJoint(CoordinateJoint, abc.ABC):
    """A joint that turns about one axis through the joint origin, or slides along it, or both.

    Parameters
    ----------
    axis : (3,) direction in the joint frame; any length but zero.

    Raises
    ------
    ModelError : the axis is zero, not finite, or not of three numbers.
    """

    axis: Axis

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis))

    @property
    def parameters(self) -> np.ndarray:
        """The unit axis (3,)."""
        return np.array(self.axis)


class AxialElement(AxialJoint, ElementaryJoint):
    """An axial joint with one coordinate; the kernels' link has the axis as its z axis."""

    @property
    def axes(self) -> np.ndarray:
        """E (3, 3), a rotation whose third column is the axis."""
        z = np.array(self.axis)
        return np.column_stack([*perpendicular(z), z])


@dataclass(frozen=True)
class Revolute(AxialElement):
    """Rotation about an axis through the joint origin; q is the angle in rad.

    Parameters
    ----------
    axis : (3,) direction in the joint frame; any length but zero.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> joint = mb.Revolute((0, 0, 2))
    >>> joint.axis
    (0.0, 0.0, 1.0)
    >>> mb.Revolute((0, 0, 0))
    Traceback (most recent call last):
        ...
    connections.checks.ModelError: axis (0.0, 0.0, 0.0) is zero: it gives no direction
    """

    ranges = (_ANGLE,)
    kind = "revolute"
    lengths = (False,)

    @staticmethod
    def transform_with(parameters: jax.Array, q: jax.Array) -> Transform:
        """Quaternion (axis sin(q/2), cos(q/2)); no displacement."""
        return quaternion_about(parameters, q[0]), jnp.zeros(3)

    @staticmethod
    def motion_with(parameters: jax.Array, q: jax.Array) -> jax.Array:
        """Phi = [axis; 0], (6, 1)."""
        return jnp.concatenate([parameters, jnp.zeros(3)])[:, None]

    @property
    def motion(self) -> np.ndarray:
        """Phi = [axis; 0], (6, 1)."""
        return np.array([*self.axis, 0.0, 0.0, 0.0])[:, None]

    def pose(self, q: np.ndarray) -> np.ndarray:
        """Rotation by q; no displacement."""
        return _turn_and_slide(np.array(self.axis), q[0], 0.0)


@dataclass(frozen=True)
class Prismatic(AxialElement):
    """Translation along an axis; q is the displacement in m.

    Parameters
    ----------
    axis : (3,) direction in the joint frame; any length but zero.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> lift = mb.Mechanism()
    >>> lift.add_body("cabin", mass=500.0, inertia=np.eye(3))
    >>> lift.add_joint("shaft", "world", "cabin", mb.Prismatic((0, 0, 1)))
    >>> mb.gravity(lift.build(), [0.0])
    array([4905.])
    """

    ranges = (_LENGTH,)
    kind = "prismatic"
    lengths = (True,)

    @staticmethod
    def transform_with(parameters: jax.Array, q: jax.Array) -> Transform:
        """No rotation; displacement q axis."""
        return jnp.array([0.0, 0.0, 0.0, 1.0]), parameters * q

    @staticmethod
    def motion_with(parameters: jax.Array, q: jax.Array) -> jax.Array:
        """Phi = [0; axis], (6, 1)."""
        return jnp.concatenate([jnp.zeros(3), parameters])[:, None]

    @property
    def motion(self) -> np.ndarray:
        """Phi = [0; axis], (6, 1)."""
        return np.array([0.0, 0.0, 0.0, *self.axis])[:, None]

    def pose(self, q: np.ndarray) -> np.ndarray:
        """No rotation; displacement q axis."""
        return _turn_and_slide(np.array(self.axis), 0.0, q[0])


@dataclass(frozen=True)
class Helical(AxialElement):
    """A screw: rotation about an axis with a proportional translation along it; q is the angle in rad.

    Parameters
    ----------
    axis : (3,) direction in the joint frame; any length but zero.
    pitch : advance along the axis per angle, m/rad; a negative pitch is a left-handed screw.

    Raises
    ------
    ModelError : the pitch is not a finite number.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> jack = mb.Mechanism()
    >>> jack.add_body("screw", mass=2.0, inertia=0.01 * np.eye(3))
    >>> jack.add_joint("turn", "world", "screw", mb.Helical((0, 0, 1), pitch=0.005))
    >>> robot = jack.build()
    >>> mb.gravity(robot, [0.0])
    array([0.0981])
    >>> mb.frame_pose(robot, [2.0], "screw")[:3, 3]
    array([0.  , 0.  , 0.01])
    """

    pitch: float
    ranges = (_ANGLE,)
    kind = "helical"
    lengths = (False,)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pitch", _finite_number("pitch", self.pitch))

    @property
    def parameters(self) -> np.ndarray:
        """The unit axis and the pitch, (4,)."""
        return np.array([*self.axis, self.pitch])

    @staticmethod
    def transform_with(parameters: jax.Array, q: jax.Array) -> Transform:
        """Quaternion (axis sin(q/2), cos(q/2)); displacement pitch q axis."""
        axis, pitch = parameters[:3], parameters[3]
        return quaternion_about(axis, q[0]), pitch * q[0] * axis

    @staticmethod
    def motion_with(parameters: jax.Array, q: jax.Array) -> jax.Array:
        """Phi = [axis; pitch axis], (6, 1)."""
        axis, pitch = parameters[:3], parameters[3]
        return jnp.concatenate([axis, pitch * axis])[:, None]

    @property
    def pitch_of_link(self) -> float:
        """The pitch, m/rad."""
        return self.pitch

    @property
    def motion(self) -> np.ndarray:
        """Phi = [axis; pitch axis], (6, 1)."""
        axis = np.array(self.axis)
        twist: np.ndarray = np.concatenate([axis, self.pitch * axis])
        return twist[:, None]

    def pose(self, q: np.ndarray) -> np.ndarray:
        """Rotation by q; displacement pitch q axis."""
        return _turn_and_slide(np.array(self.axis), q[0], self.pitch * q[0])


@dataclass(frozen=True)
class Cylindrical(AxialJoint):
    """Rotation about an axis and translation along it; q = [angle (rad), displacement (m)].

    Parameters
    ----------
    axis : (3,) direction in the joint frame; any length but zero.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> joint = mb.Cylindrical((0, 0, 1))
    >>> joint.nq, joint.nv
    (2, 2)
    """

    ranges = (_ANGLE, _LENGTH)

    @staticmethod
    def transform_with(parameters: jax.Array, q: jax.Array) -> Transform:
        """Quaternion (axis sin(q1/2), cos(q1/2)); displacement q2 axis."""
        return quaternion_about(parameters, q[0]), q[1] * parameters

    @staticmethod
    def motion_with(parameters: jax.Array, q: jax.Array) -> jax.Array:
        """Phi = [[axis, 0], [0, axis]], (6, 2)."""
        return _columns([parameters, jnp.zeros(3)], [jnp.zeros(3), parameters])

    @property
    def chain(self) -> tuple[ElementaryJoint, ...]:
        """Revolute, then prismatic, on the same axis."""
        return Revolute(self.axis), Prismatic(self.axis)


@dataclass(frozen=True)
class Universal(CoordinateJoint):
    """Two rotations in series about axes that intersect at the joint origin; q = [q1, q2] in rad.

    Parameters
    ----------
    axis_1 : (3,) direction in the joint frame; any length but zero.
    axis_2 : (3,) direction in the frame that the first rotation moves; not parallel to `axis_1`.

    The placement is R = Rot(axis_1, q1) Rot(axis_2, q2).

    Raises
    ------
    ModelError : an axis is zero, not finite, or not of three numbers; the axes are parallel.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> joint = mb.Universal((1, 0, 0), (0, 1, 0))
    >>> joint.nq, joint.nv
    (2, 2)
    >>> mb.Universal((1, 0, 0), (2, 0, 0))
    Traceback (most recent call last):
        ...
    connections.checks.ModelError: axes (1.0, 0.0, 0.0) and (1.0, 0.0, 0.0) are parallel: two
    rotations about them are one
    """

    axis_1: Axis
    axis_2: Axis
    ranges = (_ANGLE, _ANGLE)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis_1", unit_axis(self.axis_1, "axis_1"))
        object.__setattr__(self, "axis_2", unit_axis(self.axis_2, "axis_2"))
        if np.linalg.norm(np.cross(self.axis_1, self.axis_2)) < _PARALLEL:
            raise ModelError(
                f"axes {self.axis_1} and {self.axis_2} are parallel: two rotations about them are one"
            )

    @property
    def parameters(self) -> np.ndarray:
        """The two unit axes, (6,)."""
        return np.array([*self.axis_1, *self.axis_2])

    @staticmethod
    def transform_with(parameters: jax.Array, q: jax.Array) -> Transform:
        """Quaternion of Rot(axis_1, q1) Rot(axis_2, q2); no displacement."""
        first, second = quaternion_about(parameters[:3], q[0]), quaternion_about(parameters[3:], q[1])
        return quaternion_product(first, second), jnp.zeros(3)

    @staticmethod
    def motion_with(parameters: jax.Array, q: jax.Array) -> jax.Array:
        """Phi = [[Rot(axis_2, -q2) axis_1, axis_2], [0, 0]], (6, 2)."""
        axis_1, axis_2, none = parameters[:3], parameters[3:], jnp.zeros(3)
        seen = rotation_matrix(quaternion_about(axis_2, -q[1])) @ axis_1
        return _columns([seen, none], [axis_2, none])

    @property
    def chain(self) -> tuple[ElementaryJoint, ...]:
        """Two revolute joints."""
        return Revolute(self.axis_1), Revolute(self.axis_2)


@dataclass(frozen=True)
class Planar(CoordinateJoint):
    """Motion in the xy plane of the joint frame; q = [x, y (m, joint axes), angle about z (rad)].

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> puck = mb.Mechanism()
    >>> puck.add_body("puck", mass=0.17, inertia=1e-4 * np.eye(3))
    >>> puck.add_joint("ice", "world", "puck", mb.Planar())
    >>> robot = puck.build()
    >>> mb.frame_pose(robot, [1.0, 2.0, 0.0], "puck")[:3, 3]
    array([1., 2., 0.])
    """

    ranges = (_LENGTH, _LENGTH, _ANGLE)

    @staticmethod
    def transform_with(parameters: jax.Array, q: jax.Array) -> Transform:
        """Quaternion (0, 0, sin(q3/2), cos(q3/2)); displacement (x, y, 0)."""
        return quaternion_about(jnp.array([0.0, 0.0, 1.0]), q[2]), jnp.stack(
            [q[0], q[1], jnp.zeros_like(q[0])]
        )

    @staticmethod
    def motion_with(parameters: jax.Array, q: jax.Array) -> jax.Array:
        """Columns of Phi: [0; (cos, -sin, 0)], [0; (sin, cos, 0)], [z; 0] at the angle, (6, 3)."""
        c, s, zero, none = jnp.cos(q[2]), jnp.sin(q[2]), jnp.zeros_like(q[2]), jnp.zeros(3)
        along_x, along_y = jnp.stack([c, -s, zero]), jnp.stack([s, c, zero])
        return _columns([none, along_x], [none, along_y], [jnp.array([0.0, 0.0, 1.0]), none])

    @property
    def chain(self) -> tuple[ElementaryJoint, ...]:
        """Prismatic along x, prismatic along y, revolute about z."""
        return Prismatic((1.0, 0.0, 0.0)), Prismatic((0.0, 1.0, 0.0)), Revolute((0.0, 0.0, 1.0))


def _turn_and_slide(axis: np.ndarray, angle: float, displacement: float) -> np.ndarray:
    """(4, 4): rotation by an angle, rad, about the axis (3,), and a displacement, m, along it."""
    pose, across = np.eye(4), skew(axis)
    pose[:3, :3] += np.sin(angle) * across + (1.0 - np.cos(angle)) * across @ across
    pose[:3, 3] = displacement * axis
    return pose


def _finite_number(name: str, value: float) -> float:
    try:
        return as_number(name, value)
    except (TypeError, ValueError) as error:
        raise ModelError(str(error)) from error


def _columns(*twists: list[jax.Array]) -> jax.Array:
    """Columns (6, k) from k pairs of an angular and a linear part, (3,) each."""
    return jnp.stack([jnp.concatenate(twist) for twist in twists], axis=1)
