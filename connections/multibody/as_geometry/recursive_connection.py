"""The Levi-Civita connection of a robot by recursion: the same as that of `Model.definition`, but faster.

Values and first derivatives come from the recursions inside JAX (`in_jax`), all other derivatives from the
definition. So this connection can be used for any purpose for which the definition can, and agrees with it to
round-off. On a device that is not the processor, the definition is computed instead.
Source: [W] Algorithms 1 and 2; [E] Remark 2 on differentiation; [B] Tables 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import jax

from connections.affine.connection import ConnectionOfMetric
from connections.affine.koszul import raise_first_index
from connections.evaluation.parameters import is_same
from connections.geometry import FrameField, Metric
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.definition.robot_definition import RobotDefinition
from connections.multibody.loops.closed_kinematics import ClosedKinematics

if TYPE_CHECKING:
    from connections.multibody.as_geometry.host_robot import HostRobot
    from connections.multibody.in_jax.recursions import TracedRecursions
    from connections.multibody.program.program import Program


class Definitions(Protocol):
    """The part of a `Model` that is used here: its definitions, and its recursions."""

    @property
    def kinematics(self) -> Kinematics | ClosedKinematics:
        """The layout of q and v."""

    @property
    def closed(self) -> bool:
        """Whether there are loops or couplings."""

    @property
    def frame(self) -> FrameField:
        """The frame of v."""

    @property
    def definition(self) -> RobotDefinition:
        """Metric and connection by their definitions."""

    @property
    def program(self) -> Program:
        """The recursions."""

    @property
    def traced(self) -> TracedRecursions:
        """The recursions inside JAX."""

    @property
    def weightless(self) -> Definitions:
        """The robot without gravity."""


@dataclass(frozen=True, eq=False, repr=False)
class RecursiveMetric(Metric):
    """The kinetic energy metric of a robot; the mass matrix by recursion.

    Parameters
    ----------
    model : the robot.

    Source: [E] Algorithm 1.
    """

    model: Definitions

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", self.model.frame)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """H(q), (nv, nv)."""
        return self.model.traced("mass_matrix", q)


@dataclass(frozen=True, eq=False, repr=False)
class RecursiveConnection(ConnectionOfMetric):
    """The Levi-Civita connection of a robot by recursion.

    Parameters
    ----------
    model : the robot.

    Attributes
    ----------
    metric : its metric, a `RecursiveMetric`.

    Notes
    -----
    ``model.connection`` is cached, and so are its compiled functions.

    Source: [W] Algorithms 1 and 2.
    """

    model: Definitions

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", self.model.frame)
        object.__setattr__(self, "metric", RecursiveMetric(self.model))

    @cached_property
    def host(self) -> HostRobot:
        """The recursions in NumPy, by which motions are integrated."""
        from connections.multibody.as_geometry.host_robot import HostRobot  # imports Numba

        return HostRobot(self.model.kinematics, self.model.weightless.program)

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """H^-1 Gamma_low, (nv, nv, nv)."""
        recursion = self.model.traced
        return raise_first_index(recursion("mass_matrix", q), recursion("christoffel_symbols", q))

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """H^-1 C(q, v) w, (nv,), in O(N)."""
        recursion = self.model.traced.weightless
        return recursion("inverse_mass_product", q, recursion("coriolis_product", q, v, w))

    def lowered_at(self, metric: Metric, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """C(q, v) w, (nv,), by recursion if `metric` is the robot's own."""
        if is_same(metric, self.metric) or metric is self.model.definition.metric:
            return self.model.traced("coriolis_product", q, v, w)
        return super().lowered_at(metric, q, v, w)

    def scale_at(self, q: jax.Array) -> jax.Array:
        """The scale of the definition."""
        return self.model.definition.connection.scale_at(q)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the metric is valid."""
        return self.metric.valid_at(q)

    def explain(self, q: Any) -> None:
        """Raise the metric's error."""
        self.metric.explain(q)
