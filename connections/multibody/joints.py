"""Joints: where the child frame goes, and which twists move it.

A joint of configuration q_J (nq,) and velocity v_J (nv,) places the child body frame in the joint frame,
``transform_at(q_J)``, and gives the child the twist ``Phi_at(q_J) v_J`` relative to the joint frame, in child
axes about the child origin. v_J are the components in ``joint.frame``, so qdot_J = X(q_J) v_J. Phi may depend
on the configuration; its derivatives are taken by differentiation. Source: [W] VI-B.

Joints of one class are evaluated together: the definitions are the class functions ``transform_with`` and
``motion_with`` of a flat array of parameters, mapped over all joints of that class in a model.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import ModelError
from connections.geometry import CoordinateFrame, FrameField, SE3Frame

Transform = tuple[jax.Array, jax.Array]  # unit quaternion (x, y, z, w) and position (m) of the child frame


class Joint(abc.ABC):
    """A joint type with its parameters; subclasses are final frozen dataclasses.

    Parameters
    ----------
    nq, nv : numbers of configuration coordinates and of velocity components.
    """

    nq: ClassVar[int]
    nv: ClassVar[int]

    @property
    @abc.abstractmethod
    def parameters(self) -> np.ndarray:
        """Flat array (k,) that `transform_with` and `motion_with` take; k is the same for the whole class."""

    @staticmethod
    @abc.abstractmethod
    def transform_with(parameters: jax.Array, q: jax.Array) -> Transform:
        """Quaternion (4,) and position (3,), m, of the child frame in the joint frame at q (nq,)."""

    @staticmethod
    @abc.abstractmethod
    def motion_with(parameters: jax.Array, q: jax.Array) -> jax.Array:
        """Phi (6, nv) at q (nq,): columns are twists [omega; v] of the child, in child axes."""

    @property
    @abc.abstractmethod
    def frame(self) -> FrameField:
        """The frame field in which v_J are components; None of it where nv = 0 (`Fixed` raises)."""

    @abc.abstractmethod
    def neutral(self) -> np.ndarray:
        """The configuration (nq,) at which the child frame coincides with the joint frame."""

    @abc.abstractmethod
    def random(self, rng: np.random.Generator) -> np.ndarray:
        """A configuration (nq,): angles in [-pi, pi), lengths in [-1, 1) m, rotations uniform."""

    def transform_at(self, q: jax.Array) -> Transform:
        """Quaternion (4,) and position (3,), m, of the child frame in the joint frame at q (nq,)."""
        return self.transform_with(jnp.asarray(self.parameters), q)

    def Phi_at(self, q: jax.Array) -> jax.Array:
        """Phi (6, nv) at q (nq,): columns are twists [omega; v] of the child, in child axes."""
        return self.motion_with(jnp.asarray(self.parameters), q)


@dataclass(frozen=True)
class Revolute(Joint):
    """Rotation about an axis through the joint origin; q is the angle in rad, v = qdot.

    Parameters
    ----------
    axis : (3,) direction in the joint frame; any length but zero.

    Raises
    ------
    ModelError : the axis is zero, not finite, or not of three numbers.
    """

    axis: tuple[float, float, float]
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis))

    @property
    def parameters(self) -> np.ndarray:
        """The unit axis (3,)."""
        return np.array(self.axis)

    @staticmethod
    def transform_with(parameters: jax.Array, q: jax.Array) -> Transform:
        """Quaternion (axis sin(q/2), cos(q/2)); no displacement."""
        return jnp.concatenate([parameters * jnp.sin(q / 2), jnp.cos(q / 2)]), jnp.zeros(3)

    @staticmethod
    def motion_with(parameters: jax.Array, q: jax.Array) -> jax.Array:
        """Phi = [axis; 0], (6, 1)."""
        return jnp.concatenate([parameters, jnp.zeros(3)])[:, None]

    @property
    def frame(self) -> FrameField:
        """The coordinate frame of the angle."""
        return CoordinateFrame(1)

    def neutral(self) -> np.ndarray:
        """Angle zero."""
        return np.zeros(1)

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """An angle in [-pi, pi)."""
        return rng.uniform(-np.pi, np.pi, 1)


@dataclass(frozen=True)
class Prismatic(Joint):
    """Translation along an axis; q is the displacement in m, v = qdot.

    Parameters
    ----------
    axis : (3,) direction in the joint frame; any length but zero.

    Raises
    ------
    ModelError : the axis is zero, not finite, or not of three numbers.
    """

    axis: tuple[float, float, float]
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis))

    @property
    def parameters(self) -> np.ndarray:
        """The unit axis (3,)."""
        return np.array(self.axis)

    @staticmethod
    def transform_with(parameters: jax.Array, q: jax.Array) -> Transform:
        """No rotation; displacement q axis."""
        return jnp.array([0.0, 0.0, 0.0, 1.0]), parameters * q

    @staticmethod
    def motion_with(parameters: jax.Array, q: jax.Array) -> jax.Array:
        """Phi = [0; axis], (6, 1)."""
        return jnp.concatenate([jnp.zeros(3), parameters])[:, None]

    @property
    def frame(self) -> FrameField:
        """The coordinate frame of the displacement."""
        return CoordinateFrame(1)

    def neutral(self) -> np.ndarray:
        """Displacement zero."""
        return np.zeros(1)

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """A displacement in [-1, 1) m."""
        return rng.uniform(-1.0, 1.0, 1)


@dataclass(frozen=True)
class Free(Joint):
    """No constraint: q = [p, quaternion (x, y, z, w)] in the joint frame, v = body twist [omega; v]."""

    nq: ClassVar[int] = 7
    nv: ClassVar[int] = 6

    @property
    def parameters(self) -> np.ndarray:
        """None, (0,)."""
        return np.zeros(0)

    @staticmethod
    def transform_with(parameters: jax.Array, q: jax.Array) -> Transform:
        """The configuration itself."""
        return q[3:], q[:3]

    @staticmethod
    def motion_with(parameters: jax.Array, q: jax.Array) -> jax.Array:
        """Phi = identity, (6, 6)."""
        return jnp.eye(6)

    @property
    def frame(self) -> FrameField:
        """The left-invariant frame of SE(3)."""
        return SE3Frame()

    def neutral(self) -> np.ndarray:
        """The identity, [0, 0, 0, 0, 0, 0, 1]."""
        return np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """A position in [-1, 1)^3 m and a uniform rotation."""
        position, quaternion = rng.uniform(-1.0, 1.0, 3), rng.standard_normal(4)
        return np.concatenate([position, quaternion / np.linalg.norm(quaternion)])


@dataclass(frozen=True)
class Fixed(Joint):
    """No motion: the child is part of its parent, and is merged into it when a model is built."""

    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0

    @property
    def parameters(self) -> np.ndarray:
        """None, (0,)."""
        return np.zeros(0)

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

    def neutral(self) -> np.ndarray:
        """The empty configuration, (0,)."""
        return np.zeros(0)

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """The empty configuration, (0,)."""
        return np.zeros(0)


def unit_axis(axis: Sequence[float]) -> tuple[float, float, float]:
    """`axis` (3,) scaled to unit length, as a tuple so that equal joints compare equal.

    Raises
    ------
    ModelError : not three numbers, not finite, or zero.
    """
    vector = np.asarray(axis, dtype=np.float64)
    if vector.shape != (3,):
        raise ModelError(f"axis {axis} must be three numbers")
    if not np.isfinite(vector).all():
        raise ModelError(f"axis {tuple(map(float, vector))} is not finite")
    length = float(np.linalg.norm(vector))
    if length < 1e-12:
        raise ModelError(f"axis {tuple(map(float, vector))} is zero: it gives no direction")
    x, y, z = (float(component) for component in vector / length)
    return x, y, z
