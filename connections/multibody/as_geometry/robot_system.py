"""A robot as a mechanical system whose functions are the recursions, so that JAX compiles nothing.

Under tracing, the recursions are operations inside JAX's compiled functions. The first derivatives of a
tree's accelerations are computed by recursion, all other derivatives by the definition
(`recursive_connection.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.motions.flow import Flow, State
from connections.affine.motions.host_motions import HostMotion, on_host
from connections.checks import is_traced, require_shape
from connections.coriolis import MechanicalSystem
from connections.evaluation.boundary import as_given
from connections.multibody.as_geometry.host_robot import HostRobot
from connections.multibody.as_geometry.recursive_connection import Definitions, forward_dynamics_of

if TYPE_CHECKING:
    from connections.coriolis.system import Forces
    from connections.multibody.as_geometry.recursive_connection import RecursiveConnection


class Robot(Definitions, Protocol):
    """The part of a `Model` that is used here."""

    @property
    def connection(self) -> RecursiveConnection:
        """The connection by recursion."""

    @property
    def gravity(self) -> tuple[float, float, float]:
        """(3,) m/s^2."""

    def potential_at(self, q: jax.Array) -> jax.Array:
        """Potential energy of gravity."""


class RobotSystem(MechanicalSystem):
    """A robot under gravity: H vdot + C v + g = tau, with the Levi-Civita connection.

    Parameters
    ----------
    model : the robot.
    """

    model: Robot

    def __init__(self, model: Robot) -> None:
        object.__setattr__(self, "model", model)
        nabla = model.connection
        super().__init__(nabla.metric, potential=model.potential_at, connection=nabla)

    def mass_matrix(self, q: Any) -> Any:
        """H(q), (..., n, n); see `MechanicalSystem`."""
        return self._recursion("mass_matrix", super().mass_matrix, q)

    def coriolis_matrix(self, q: Any, v: Any) -> Any:
        """C(q, v) without torsion, (..., n, n); see `MechanicalSystem`."""
        return self._recursion("coriolis_matrix", super().coriolis_matrix, q, v, chosen=("christoffel",))

    def bias(self, q: Any, v: Any) -> Any:
        """C(q, v) v, (..., n); see `MechanicalSystem`."""
        if is_traced(q, v):
            return super().bias(q, v)
        return self._call("coriolis_product", (q, v, v), ("christoffel",))

    def gravity(self, q: Any) -> Any:
        """g(q), (..., n); see `MechanicalSystem`."""
        return self._recursion("gravity", super().gravity, q)

    def inverse_dynamics(self, q: Any, v: Any, a: Any) -> Any:
        """tau = H a + C v + g, (..., n); see `MechanicalSystem`."""
        return self._recursion("inverse_dynamics", super().inverse_dynamics, q, v, a)

    def forward_dynamics(self, q: Any, v: Any, tau: Any, t: float = 0.0) -> Any:
        """vdot = H^-1 (tau - C v - g), (..., n); see `MechanicalSystem`. It does not depend on time."""
        if is_traced(q, v, tau, t):
            return super().forward_dynamics(q, v, tau, t)
        return self._recursion("forward_dynamics", super().forward_dynamics, q, v, tau)

    def forward_dynamics_at(self, q: jax.Array, v: jax.Array, tau: jax.Array, t: Any = 0.0) -> jax.Array:
        """vdot (n,) under generalized forces tau; for a tree by one recursion. It does not depend on time."""
        if self.model.closed:
            return super().forward_dynamics_at(q, v, tau, t)
        acceleration: jax.Array = self._accelerated(q, v, tau)
        return acceleration

    def host_motion(self, control: Forces | None) -> HostMotion:
        """The motion under gravity and control by the recursions."""
        host = self._host
        if control is None:
            return host.free_motion()
        force = on_host(control, (self.model.kinematics.nv,), "control(t, q, v)")
        return HostMotion(host, lambda t, q, v, out: host.acceleration(q, v, force(t, q, v), out))

    def _flow(self, control: Forces | None, max_step: Any) -> Flow[State]:
        """The motions under `control`; the rates of a tree are those of `forward_dynamics_at`."""
        flow = super()._flow(control, max_step)
        if self.model.closed:
            return flow

        def rate(t: jax.Array, state: State, *given: jax.Array) -> State:
            q, v = state
            tau = jnp.zeros_like(v)
            if control is not None:
                tau = require_shape("control(t, q, v)", control(t, q, v), v.shape)
            return self.metric.frame.matrix_at(q) @ v, self.forward_dynamics_at(q, v, tau)

        return replace(flow, rate=rate)

    @cached_property
    def _accelerated(self) -> Callable[..., jax.Array]:
        definition = self.model.definition.system.forward_dynamics_at
        return forward_dynamics_of(self.model, self.model.gravity, definition)

    @cached_property
    def _host(self) -> HostRobot:
        return HostRobot(self.model.kinematics, self.model.program)

    def _recursion(self, name: str, definition: Any, *given: Any, chosen: tuple[Any, ...] = ()) -> Any:
        """A recursion for arrays with values, and the definition for tracers."""
        return definition(*given) if is_traced(*given) else self._call(name, given, chosen)

    def _call(self, name: str, given: tuple[Any, ...], chosen: tuple[Any, ...]) -> Any:
        return as_given(self.model.program.functions[name](*map(_plain, given), *chosen, None), *given)


def _plain(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, jax.Array) else value
