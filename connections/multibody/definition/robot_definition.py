"""A robot by its definition: the metric and the connection that its rigid bodies induce, in JAX.

Forward kinematics embeds the configuration space into SE(3)^N, with the differential A = X Phi. So the
robot's metric is A^T diag(I_b) A, and its connection is the one that the connection of N rigid bodies
induces, [W] Thm V.1. If joints have armature, there are more bodies, its `rotors`. Recursions compute the
same quantities faster, and are tested against this. Source: [W] VI-B.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.induced import InducedConnection
from connections.checks import is_traced
from connections.evaluation.content import ByContent
from connections.geometry import FrameField, InducedMetric
from connections.geometry.frames import PointFunction
from connections.multibody.definition.rigid_bodies import RigidBodySystemConnection

if TYPE_CHECKING:
    from connections.coriolis import MechanicalSystem


class Embedded(Protocol):
    """The part of a `Model` that is used here."""

    @property
    def kinematics(self) -> Any:
        """The tree of bodies, its loops, and the layout of its coordinates."""

    @property
    def frame(self) -> FrameField:
        """The frame of v."""

    def embed_at(self, q: jax.Array) -> jax.Array:
        """World poses of all bodies, (7N,)."""

    def body_jacobians_at(self, q: jax.Array) -> jax.Array:
        """A = X Phi, (6N, nv)."""

    def potential_at(self, q: jax.Array) -> jax.Array:
        """Potential energy of gravity, J."""


@dataclass(frozen=True, eq=False)
class RobotDefinition(ByContent):
    """The value of ``model.definition``: metric, connection and system of a robot, by their definitions.

    Parameters
    ----------
    model : the robot.
    """

    model: Embedded

    @property
    def frame(self) -> FrameField:
        """The frame in which v are components."""
        return self.model.frame

    @cached_property
    def connection(self) -> InducedConnection:
        """The Levi-Civita connection, induced by that of N rigid bodies on SE(3).

        Source: [W] Thm V.1 and VI-B.
        """
        bodies = RigidBodySystemConnection(self.inertias)
        return InducedConnection(bodies, bodies.metric, self.model.frame, *self.maps)

    @property
    def maps(self) -> tuple[PointFunction, PointFunction]:
        """The differential and the embedding, of bodies and of rotors if there are any."""
        if len(self.model.kinematics.rotors.inertias):
            return self.jacobians_at, self.embed_at
        return self.model.body_jacobians_at, self.model.embed_at

    @property
    def inertias(self) -> Any:
        """(N + R, 6, 6) of the bodies and of the rotors that armature stands for."""
        kinematics = self.model.kinematics
        parts = [kinematics.tree.inertias, kinematics.rotors.inertias]
        return (jnp if is_traced(parts) else np).concatenate(parts)

    def jacobians_at(self, q: jax.Array) -> jax.Array:
        """The twists of bodies and rotors per unit of v, (6 (N + R), nv), at q (nq,)."""
        turning = self.model.kinematics.rotor_jacobians_at(q).reshape(-1, self.frame.dim)
        return jnp.concatenate([self.model.body_jacobians_at(q), turning])

    def embed_at(self, q: jax.Array) -> jax.Array:
        """Poses of bodies in the world and of rotors, (7 (N + R),), at q (nq,)."""
        turned = self.model.kinematics.rotor_poses_at(q).reshape(-1)
        return jnp.concatenate([self.model.embed_at(q), turned])

    @property
    def metric(self) -> InducedMetric:
        """The kinetic energy metric H = A^T diag(I_b) A; the mass matrix."""
        return self.connection.metric

    @cached_property
    def system(self) -> MechanicalSystem:
        """The robot as a mechanical system under gravity."""
        from connections.coriolis import MechanicalSystem

        potential = self.model.potential_at
        return MechanicalSystem(self.metric, potential=potential, connection=self.connection)
