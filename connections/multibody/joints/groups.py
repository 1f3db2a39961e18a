"""Joints whose configuration space is a Lie group: SO(3) and SE(3).

Their velocities are components in the left-invariant frame, so Phi is constant. Source: [W] VI-B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

from connections.geometry import FrameField, SE3Frame, SO3Frame
from connections.geometry.rigid import rotations
from connections.geometry.rigid.host_groups import (
    displaced_pose,
    displaced_rotation,
    pose_difference,
    quaternion_frame,
    quaternion_velocity,
    random_quaternion,
    rotated_back,
    rotation_difference,
    rotation_matrix,
)
from connections.multibody.joints.joint import ElementaryJoint, Transform


@dataclass(frozen=True)
class Spherical(ElementaryJoint):
    """Rotation about the joint origin: q = quaternion (x, y, z, w), v = body angular velocity, rad/s.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> ball = mb.Mechanism()
    >>> ball.add_body("rod", mass=1.0, center_of_mass=(0, 0, -1), inertia=np.eye(3))
    >>> ball.add_joint("socket", "world", "rod", mb.Spherical())
    >>> robot = ball.build()
    >>> robot.neutral(), robot.nv
    (array([0., 0., 0., 1.]), 3)
    """

    nq: ClassVar[int] = 4
    nv: ClassVar[int] = 3
    kind = "spherical"
    lengths = (False,) * 4
    quaternion = 0

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

    @property
    def motion(self) -> np.ndarray:
        """Phi = [identity; 0], (6, 3)."""
        return np.eye(6, 3)

    def pose(self, q: np.ndarray) -> np.ndarray:
        """The rotation of the quaternion q (4,), as a transform (4, 4)."""
        pose = np.eye(4)
        pose[:3, :3] = Rotation.from_quat(q).as_matrix()
        return pose

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """The rotation vector of R0^T R1, (..., 3), rad."""
        return rotation_difference(q0, q1)

    def displaced(self, q: np.ndarray, xi: np.ndarray) -> np.ndarray:
        """The quaternions (..., 4) of R exp(xi)."""
        return displaced_rotation(q, xi)

    def difference_at(self, q0: jax.Array, q1: jax.Array) -> jax.Array:
        """The rotation vector of R0^T R1, (3,), rad."""
        return rotations.rotation_difference(q0, q1)

    def displaced_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """The quaternion (4,) of R exp(xi)."""
        return rotations.displaced_rotation(q, xi)

    def retracted(self, q: np.ndarray, xi: np.ndarray) -> np.ndarray:
        """The quaternion (4,) of R exp(xi), of the sign that is nearer to q."""
        return _turned(q, xi)

    def frame_matrix(self, q: np.ndarray) -> np.ndarray:
        """X (4, 3) of SO(3)."""
        return quaternion_frame(q)

    def velocity(self, q: np.ndarray, rate: np.ndarray) -> np.ndarray:
        """The body angular velocity, (s, 3), rad/s."""
        return quaternion_velocity(q, rate)


@dataclass(frozen=True)
class Free(ElementaryJoint):
    """No constraint: q = [p, quaternion (x, y, z, w)] in the joint frame, v = body twist [omega; v].

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> satellite = mb.Mechanism()
    >>> satellite.add_body("bus", mass=100.0, inertia=np.diag([20.0, 30.0, 40.0]))
    >>> satellite.add_joint("orbit", "world", "bus", mb.Free())
    >>> robot = satellite.build(gravity=(0.0, 0.0, 0.0))
    >>> robot.neutral()
    array([0., 0., 0., 0., 0., 0., 1.])
    >>> mb.mass_matrix(robot, robot.neutral()).diagonal()
    array([ 20.,  30.,  40., 100., 100., 100.])
    """

    nq: ClassVar[int] = 7
    nv: ClassVar[int] = 6
    kind = "free"
    lengths = (True,) * 3 + (False,) * 4
    quaternion = 3

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

    @property
    def motion(self) -> np.ndarray:
        """Phi = identity, (6, 6)."""
        return np.eye(6)

    def pose(self, q: np.ndarray) -> np.ndarray:
        """q = [p, quaternion], (7,), as a transform (4, 4)."""
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = Rotation.from_quat(q[3:]).as_matrix(), q[:3]
        return pose

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """The logarithm [omega; v] of T0^-1 T1, (..., 6), rad and m."""
        return pose_difference(q0, q1)

    def displaced(self, q: np.ndarray, xi: np.ndarray) -> np.ndarray:
        """T exp(xi), (..., 7): the constant twist xi for a unit of time."""
        return displaced_pose(q, xi)

    def difference_at(self, q0: jax.Array, q1: jax.Array) -> jax.Array:
        """The logarithm [omega; v] of T0^-1 T1, (6,), rad and m."""
        return rotations.pose_difference(q0, q1)

    def displaced_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """T exp(xi), (7,)."""
        return rotations.displaced_pose(q, xi)

    def retracted(self, q: np.ndarray, xi: np.ndarray) -> np.ndarray:
        """p + R v and the quaternion of R exp(omega), (7,), of the sign that is nearer to q's."""
        shift = Rotation.from_quat(q[3:]).apply(xi[3:])
        return np.concatenate([q[:3] + shift, _turned(q[3:], xi[:3])])

    def frame_matrix(self, q: np.ndarray) -> np.ndarray:
        """X (7, 6): pdot = R v, and the quaternion changes as that of a spherical joint."""
        X = np.zeros((7, 6))
        X[:3, 3:], X[3:, :3] = rotation_matrix(q[3:]), quaternion_frame(q[3:])
        return X

    def velocity(self, q: np.ndarray, rate: np.ndarray) -> np.ndarray:
        """The body twist [omega; v], (s, 6), rad/s and m/s."""
        omega = quaternion_velocity(q[:, 3:], rate[:, 3:])
        return np.concatenate([omega, rotated_back(q[:, 3:], rate[:, :3])], axis=1)


def _turned(quaternion: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """The quaternion (4,) of R exp(turn) that is nearer to `quaternion` (4,) than its negative."""
    turned: np.ndarray = (Rotation.from_quat(quaternion) * Rotation.from_rotvec(turn)).as_quat()
    return turned if turned @ quaternion >= 0.0 else -turned
