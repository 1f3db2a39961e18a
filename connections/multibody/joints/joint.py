"""`Joint`, the abstract class of all joint types. Source: [W] VI-B."""

from __future__ import annotations

import abc
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from connections.geometry import FrameField

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
    def chain(self) -> tuple[Joint, ...]:
        """Elementary joints in series, from the parent out, that move the child in the same way.

        q and v are the configurations and velocities of these joints, one after the other. The bodies between
        them have no mass, and all joint frames coincide at zero. An elementary joint is its own chain; its
        Phi is constant.
        """
        return (self,)

    def transform_at(self, q: jax.Array) -> Transform:
        """Quaternion (4,) and position (3,), m, of the child frame in the joint frame at q (nq,)."""
        return self.transform_with(jnp.asarray(self.parameters), q)

    def Phi_at(self, q: jax.Array) -> jax.Array:
        """Phi (6, nv) at q (nq,): columns are twists [omega; v] of the child, in child axes."""
        return self.motion_with(jnp.asarray(self.parameters), q)
