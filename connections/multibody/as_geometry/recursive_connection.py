"""The Levi-Civita connection of a robot by recursion: the same as that of `Model.definition`, but faster.

Values and first derivatives come from the recursions inside JAX (`in_jax`), all other derivatives from the
definition. So this connection can be used for any purpose for which the definition can, and agrees with it to
round-off. On a device that is not the processor, the definition is computed instead.
Source: [W] Algorithms 1 and 2; [E] Remark 2 on differentiation; [B] Tables 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from connections._jax import ArrayLike
from connections._words import words_of
from connections.affine.connection import ConnectionOfMetric, spans_a_plane
from connections.affine.koszul import raise_first_index
from connections.evaluation.content import ByContent
from connections.evaluation.parameters import is_same
from connections.geometry import FrameField, Metric
from connections.multibody.as_geometry.host_robot import HostRobot
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.definition.robot_definition import RobotDefinition
from connections.multibody.in_jax.recursions import TracedRecursions
from connections.multibody.loops.closed_kinematics import ClosedKinematics
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


def _require_robot(model: Any) -> None:
    if not isinstance(getattr(model, "kinematics", None), Kinematics | ClosedKinematics):
        raise TypeError(f"model: expected a Model, got {words_of(model)}")


@dataclass(frozen=True, eq=False, repr=False)
class RecursiveMetric(ByContent, Metric):
    """The kinetic energy metric of a robot; the mass matrix by recursion.

    Parameters
    ----------
    model : the robot.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> q = [0.3, -0.8, 1.2, 0.1, 0.5, 0.0]
    >>> metric = mb.RecursiveMetric(robot)
    >>> np.allclose(metric.matrix(q), mb.mass_matrix(robot, q))
    True

    Source: [E] Algorithm 1.
    """

    model: Definitions

    def __post_init__(self) -> None:
        _require_robot(self.model)
        object.__setattr__(self, "frame", self.model.frame)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """H(q), (nv, nv)."""
        return self.model.traced("mass_matrix", q)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The frame is valid and H has an inverse by the recursion, which knows what is round-off."""
        inverse = self.model.traced("inverse_mass_matrix", q)
        return self.frame.valid_at(q) & jnp.all(jnp.isfinite(inverse))

    def explain(self, q: ArrayLike) -> None:
        """Raise the error that says why `q` (nq,) is not valid, with the joint if H is singular there."""
        self.frame.explain(q)
        program = self.model.program
        program.require_regular(program.close(q))
        super().explain(q)


@dataclass(frozen=True, eq=False, repr=False)
class RecursiveConnection(ByContent, ConnectionOfMetric):
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

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> nabla = robot.connection
    >>> nabla == mb.RecursiveConnection(robot)
    True
    >>> bool(nabla.check_torsion_free([0.3, -0.8, 1.2, 0.1, 0.5, 0.0]).ok)
    True

    Source: [W] Algorithms 1 and 2.
    """

    model: Definitions

    def __post_init__(self) -> None:
        _require_robot(self.model)
        object.__setattr__(self, "frame", self.model.frame)
        object.__setattr__(self, "metric", RecursiveMetric(self.model))

    @property
    def riemannian(self) -> RecursiveConnection:
        """Itself."""
        return self

    @cached_property
    def host(self) -> HostRobot:
        """The recursions in NumPy, by which motions are integrated."""
        return HostRobot(self.model.kinematics, self.model.weightless.program)

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """H^-1 Gamma_low, (nv, nv, nv)."""
        recursion = self.model.traced
        return raise_first_index(recursion("mass_matrix", q), recursion("christoffel_symbols", q))

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """H^-1 C(q, v) w, (nv,), in O(N)."""
        recursion = self.model.traced.weightless
        return recursion("inverse_mass_product", q, recursion("coriolis_product", q, v, w))

    def geodesic_slopes_at(self, q: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Derivatives of the accelerations without torques and gravity, along the frame and by v."""
        slopes = self.model.traced.weightless("forward_dynamics_derivatives", q, v, jnp.zeros_like(v))
        return slopes[0], slopes[1]

    def lowered_at(self, metric: Metric, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """C(q, v) w, (nv,), by recursion if `metric` is the robot's own."""
        if is_same(metric, self.metric) or metric is self.model.definition.metric:
            return self.model.traced("coriolis_product", q, v, w)
        return super().lowered_at(metric, q, v, w)

    def curvature_at(self, q: jax.Array) -> jax.Array:
        """R[l, k, i, j], (nv, nv, nv, nv); of a tree by recursion."""
        if self.model.closed:
            return super().curvature_at(q)
        recursion, n = self.model.traced, self.frame.dim
        low: jax.Array = recursion("curvature", q)
        return (recursion("inverse_mass_matrix", q) @ low.reshape(n, -1)).reshape(n, n, n, n)

    def apply_curvature_at(self, q: jax.Array, u: jax.Array, w: jax.Array, z: jax.Array) -> jax.Array:
        """R(u, w) z, (nv,), in O(N d): by polarization of the quadratic form K(v) of `curvature_operator`.

        With the bilinear form K(w, z), R(u, w) z = 2/3 H^-1 (K(w, z) u - K(u, z) w).
        """
        if self.model.closed:
            return super().apply_curvature_at(q, u, w, z)
        low = self._polarized(q, w, z) @ u - self._polarized(q, u, z) @ w
        return self.model.traced.weightless("inverse_mass_product", q, (2.0 / 3.0) * low)

    def curvature_along_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """R(., v) v, (nv, nv), by `curvature_operator`."""
        if self.model.closed:
            return super().curvature_along_at(q, v)
        recursion = self.model.traced
        return recursion("inverse_mass_matrix", q) @ recursion("curvature_operator", q, v)

    def _polarized(self, q: jax.Array, w: jax.Array, z: jax.Array) -> jax.Array:
        """K(w, z), (nv, nv); vectors of one size, so that neither is lost in the other's round-off."""
        sizes = [jnp.linalg.norm(jax.lax.stop_gradient(x)) for x in (w, z)]
        factor = jnp.where((sizes[0] > 0.0) & (sizes[1] > 0.0), jnp.sqrt(sizes[1] / sizes[0]), 1.0)
        w, z = w * factor, z / factor
        recursion = self.model.traced
        K: jax.Array = recursion("curvature_operator", q, w + z) - recursion("curvature_operator", q, w - z)
        return K / 4.0

    def _sectional_at(self, metric: Metric, q: jax.Array, u: jax.Array, w: jax.Array) -> jax.Array:
        """u^T K(w) u over the area, by recursion if `metric` is the robot's own."""
        if self.model.closed or not is_same(metric, self.metric):
            return super()._sectional_at(metric, q, u, w)
        H = metric.matrix_at(q)
        uu, uw, ww = u @ H @ u, u @ H @ w, w @ H @ w
        bent = u @ self.model.traced("curvature_operator", q, w) @ u
        return bent / jnp.where(spans_a_plane(uu, uw, ww), uu * ww - uw**2, jnp.nan)

    def scale_at(self, q: jax.Array) -> jax.Array:
        """The scale of the definition."""
        return self.model.definition.connection.scale_at(q)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the metric is valid."""
        return self.metric.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """Raise the metric's error."""
        self.metric.explain(q)
