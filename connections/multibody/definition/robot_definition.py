"""A robot by its definition: the metric and the connection that its rigid bodies induce, in JAX.

Forward kinematics embeds the configuration space into SE(3)^N, with the differential A = X Phi. So the
robot's metric is A^T diag(I_b) A, and its connection is the one that the connection of N rigid bodies
induces, [W] Thm V.1. Recursions compute the same quantities faster, and are tested against this.
Source: [W] VI-B.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import jax

from connections.affine.induced import InducedConnection
from connections.geometry import FrameField, InducedMetric
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
class RobotDefinition:
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
        bodies = RigidBodySystemConnection(self.model.kinematics.tree.inertias)
        model = self.model
        return InducedConnection(bodies, bodies.metric, model.frame, model.body_jacobians_at, model.embed_at)

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
