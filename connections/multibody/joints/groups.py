"""Joints whose configuration space is a Lie group: SO(3) and SE(3).

Their velocities are components in the left-invariant frame, so Phi is constant. Source: [W] VI-B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from connections.geometry import FrameField, SE3Frame, SO3Frame
from connections.geometry.rigid.host_groups import random_quaternion
from connections.multibody.joints.joint import Joint, Transform


@dataclass(frozen=True)
class Spherical(Joint):
    """Rotation about the joint origin: q = quaternion (x, y, z, w), v = body angular velocity, rad/s."""

    nq: ClassVar[int] = 4
    nv: ClassVar[int] = 3

    @staticmethod
    def transform_with(parameters: jax.Array, q: jax.Array) -> Transform:
        """The configuration itself; no displacement."""
        return q, jnp.zeros(3)

    @staticmethod
    def motion_with(parameters: jax.Array, q: jax.Array) -> jax.Array:
        """Phi = [identity; 0], (6, 3)."""
        return jnp.eye(6, 3)

    @property
    def frame(self) -> FrameField:
        """The left-invariant frame of SO(3)."""
        return SO3Frame()

    def neutral(self) -> np.ndarray:
        """The identity, [0, 0, 0, 1]."""
        return np.array([0.0, 0.0, 0.0, 1.0])

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """A uniform rotation."""
        return random_quaternion(rng)


@dataclass(frozen=True)
class Free(Joint):
    """No constraint: q = [p, quaternion (x, y, z, w)] in the joint frame, v = body twist [omega; v]."""

    nq: ClassVar[int] = 7
    nv: ClassVar[int] = 6

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
        return np.concatenate([rng.uniform(-1.0, 1.0, 3), random_quaternion(rng)])
