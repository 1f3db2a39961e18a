"""`Joint`, the abstract class of all joint types, and `ElementaryJoint`, of those that chains consist of.

Source: [W] VI-B.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from connections.geometry import FrameField
from connections.geometry.rigid.host_groups import cross

Transform = tuple[jax.Array, jax.Array]  # unit quaternion (x, y, z, w) and position (m) of the child frame


class Joint(abc.ABC):
    """A joint type with its parameters; subclasses are final frozen dataclasses.

    Parameters
    ----------
    nq, nv : numbers of configuration coordinates and of velocity components.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> joints = [mb.Revolute((0, 0, 1)), mb.Planar(), mb.Spherical(), mb.Free()]
    >>> [(type(joint).__name__, joint.nq, joint.nv) for joint in joints]
    [('Revolute', 1, 1), ('Planar', 3, 3), ('Spherical', 4, 3), ('Free', 7, 6)]
    """

    nq: ClassVar[int]
    nv: ClassVar[int]

    @property
    def parameters(self) -> np.ndarray:
        """Flat array (k,) that `transform_with` and `motion_with` take; k is the same for the whole class."""
        return np.zeros(0)

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
        """The frame field in which v_J are components; `ModelError` if nv = 0 (`Fixed`)."""

    @abc.abstractmethod
    def neutral(self) -> np.ndarray:
        """The configuration (nq,) at which the child frame coincides with the joint frame."""

    @abc.abstractmethod
    def random(self, rng: np.random.Generator) -> np.ndarray:
        """A configuration (nq,): angles in [-pi, pi), lengths in [-1, 1) m, rotations uniform."""

    @property
    @abc.abstractmethod
    def chain(self) -> tuple[ElementaryJoint, ...]:
        """Elementary joints in series, from the parent out, that move the child in the same way.

        q and v are the configurations and velocities of these joints, one after the other. The bodies between
        them have no mass, and all joint frames coincide at zero. An elementary joint is its own chain.
        """

    def transform_at(self, q: jax.Array) -> Transform:
        """Quaternion (4,) and position (3,), m, of the child frame in the joint frame at q (nq,)."""
        return self.transform_with(jnp.asarray(self.parameters), q)

    def Phi_at(self, q: jax.Array) -> jax.Array:
        """Phi (6, nv) at q (nq,): columns are twists [omega; v] of the child, in child axes."""
        return self.motion_with(jnp.asarray(self.parameters), q)


class ElementaryJoint(Joint):
    """A joint with a constant Phi. Its attributes are all that packings, kernels and NumPy code read.

    Arrays are NumPy's; the functions named `_at` are JAX-traceable. The defaults are those of
    coordinates with v = qdot; a joint whose q contains a unit quaternion gives all of them.

    Parameters
    ----------
    kind : its name in the kernels, one of ``kernels.elementary_joints.KINDS``.
    lengths : (nq,) whether a coordinate is a length, not an angle or part of a quaternion.
    quaternion : where in q a unit quaternion (x, y, z, w) begins; None if v = qdot.
    """

    kind: ClassVar[str]
    lengths: ClassVar[tuple[bool, ...]]
    quaternion: ClassVar[int | None] = None

    @property
    @abc.abstractmethod
    def motion(self) -> np.ndarray:
        """Phi (6, nv), constant; its columns are twists [omega; v] of the child, in child axes."""

    @abc.abstractmethod
    def pose(self, q: np.ndarray) -> np.ndarray:
        """(4, 4), m: the child frame in the joint frame at q (nq,)."""

    @property
    def chain(self) -> tuple[ElementaryJoint, ...]:
        """The joint itself."""
        return (self,)

    @property
    def axes(self) -> np.ndarray:
        """E (3, 3), the axes of the kernels' link in those of the child: the third is the joint's axis."""
        return np.eye(3)

    @property
    def pitch_of_link(self) -> float:
        """The advance along the axis per angle that the kernels read, m/rad."""
        return 0.0

    @property
    def turns(self) -> np.ndarray:
        """(nv,) whether each velocity component turns the child."""
        return np.asarray(self.motion[:3].any(axis=0))

    @property
    def is_angle(self) -> bool:
        """Whether q is one angle of which a full turn brings the child back; that of a screw moves it on."""
        return self.nq == 1 and bool(self.turns[0]) and not self.pitch_of_link

    @property
    def brackets(self) -> np.ndarray:
        """(nv, nv) whether the bracket Phi_i x Phi_j of two columns is not zero."""
        w, u = self.motion[:3].T, self.motion[3:].T
        angular, linear = cross(w[:, None], w), cross(w[:, None], u) + cross(u[:, None], w)
        return np.asarray((angular != 0.0).any(axis=2) | (linear != 0.0).any(axis=2))

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """xi (..., nv) with q1 = q0 exp(xi), of q0 and q1 (..., nq); the shortest way."""
        xi: np.ndarray = q1 - q0
        return xi

    def displaced(self, q: np.ndarray, xi: np.ndarray) -> np.ndarray:
        """q exp(xi), (..., nq), of q (..., nq) and xi (..., nv)."""
        there: np.ndarray = q + xi
        return there

    def difference_at(self, q0: jax.Array, q1: jax.Array) -> jax.Array:
        """`difference` of one pair (nq,), JAX-traceable."""
        return q1 - q0

    def displaced_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """`displaced` of one pair (nq,) and (nv,), JAX-traceable."""
        return q + xi

    def retracted(self, q: np.ndarray, xi: np.ndarray) -> np.ndarray:
        """q exp(xi) up to terms of second order, (nq,), of q (nq,) and xi (nv,); cheaper, for iterations."""
        there: np.ndarray = q + xi
        return there

    def frame_matrix(self, q: np.ndarray) -> np.ndarray:
        """X (nq, nv) at q (nq,): qdot = X v."""
        return np.eye(self.nv)

    def velocity(self, q: np.ndarray, rate: np.ndarray) -> np.ndarray:
        """v (s, nv) with X v = rate, of q and rate (s, nq)."""
        return rate
