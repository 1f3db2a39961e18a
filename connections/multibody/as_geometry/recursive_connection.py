"""The Levi-Civita connection of a robot by recursion: the same as that of `Model.definition`, but faster.

Values come from the recursions, as operations inside JAX's compiled functions. For a tree, the first
derivatives of the coefficients along tangents of the configuration space do, too (`polarization.py`): the
derivatives of Gamma(v, v), along the frame and in v, are minus those of the forward dynamics without forces.
All other derivatives come from the definition: the derivative along a curve is the jvp of the definition. So
this connection can be used for any purpose for which the definition can, and agrees with it to round-off.
On a device that is not the processor, the definition is computed instead.
Source: [W] Algorithms 1 and 2; [E] Remark 2 on differentiation; [B] Tables 5 and 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.connection import ConnectionOfMetric
from connections.affine.koszul import raise_first_index
from connections.engines.platforms import with_derivatives
from connections.evaluation.parameters import is_same
from connections.geometry import FrameField, Metric
from connections.multibody.as_geometry.polarization import slopes_of, with_slopes
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.definition.robot_definition import RobotDefinition
from connections.multibody.loops.closed_kinematics import ClosedKinematics

if TYPE_CHECKING:
    from connections.multibody.as_geometry.host_robot import HostRobot
    from connections.multibody.program.program import Program

_WEIGHTLESS = (0.0, 0.0, 0.0)


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
        matrix = _Operations(self.model).mass_matrix
        object.__setattr__(self, "frame", self.model.frame)
        object.__setattr__(self, "_matrix", with_derivatives(matrix, self.model.definition.metric.matrix_at))

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """H(q), (nv, nv)."""
        H: jax.Array = self._matrix(q)  # type: ignore[attr-defined]
        return H


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
        model, recursion = self.model, _Operations(self.model)
        definition = model.definition.connection
        coefficients = with_derivatives(recursion.coefficients, definition.coefficients_at)
        apply = with_derivatives(recursion.apply, definition.apply_at)
        if not model.closed:
            slopes = with_derivatives(recursion.slopes, slopes_of(definition))
            coefficients, apply = with_slopes(model.frame, coefficients, apply, slopes)
        operations = {
            "frame": model.frame,
            "metric": RecursiveMetric(model),
            "_coefficients": coefficients,
            "_apply": apply,
            "_lowered": with_derivatives(
                recursion.lowered, lambda q, v, w: definition.lowered_at(model.definition.metric, q, v, w)
            ),
        }
        for name, value in operations.items():
            object.__setattr__(self, name, value)

    @cached_property
    def host(self) -> HostRobot:
        """The recursions in NumPy, by which motions are integrated."""
        from connections.multibody.as_geometry.host_robot import HostRobot  # imports Numba

        return HostRobot(self.model.kinematics, self.model.weightless.program)

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """H^-1 Gamma_low, (nv, nv, nv)."""
        Gamma: jax.Array = self._coefficients(q)  # type: ignore[attr-defined]
        return Gamma

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """H^-1 C(q, v) w, (nv,); in O(N) for a tree, where neither C nor H is formed."""
        acceleration: jax.Array = self._apply(q, v, w)  # type: ignore[attr-defined]
        return acceleration

    def lowered_at(self, metric: Metric, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """C(q, v) w, (nv,), by recursion if `metric` is the robot's own."""
        if is_same(metric, self.metric) or metric is self.model.definition.metric:
            force: jax.Array = self._lowered(q, v, w)  # type: ignore[attr-defined]
            return force
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


def forward_dynamics_of(
    model: Definitions, gravity: Any, definition: Callable[..., jax.Array]
) -> Callable[..., jax.Array]:
    """(q, v, tau) -> vdot (nv,) of a tree, with its first derivatives by recursion; JAX-traceable.

    Parameters
    ----------
    model : the robot.
    gravity : (3,) m/s^2.
    definition : the same function by its definition: for other derivatives, and for other devices.
    """
    recursion, frame = _Operations(model, gravity), model.frame

    def defined_slopes(q: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
        along = frame.lie_derivative_at(lambda p: definition(p, v, tau), q).T
        return jnp.stack([along, *jax.jacfwd(partial(definition, q), (0, 1))(v, tau)])

    acceleration = with_derivatives(recursion.forward_dynamics, definition)
    slopes = with_derivatives(recursion.forward_dynamics_slopes, defined_slopes)

    @jax.custom_jvp
    def forward_dynamics(q: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
        return acceleration(q, v, tau)

    @forward_dynamics.defjvp
    def rule(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        (q, v, tau), (q_dot, v_dot, tau_dot) = primals, tangents
        along, of_v, inverse = slopes(q, v, tau)
        change = along @ frame.velocity_at(q, q_dot) + of_v @ v_dot + inverse @ tau_dot
        return forward_dynamics(q, v, tau), change

    return forward_dynamics


class _Operations:
    """The recursions as traced functions of one configuration, for trees also under gravity (3,)."""

    def __init__(self, model: Definitions, gravity: Any = _WEIGHTLESS) -> None:
        self._kinematics, self._program, self._gravity = model.kinematics, model.program, gravity

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, int, tuple[np.ndarray, ...]]:
        """The tree's array, its size with workspace, and if there are any, arrays of loops and clusters."""
        from connections.multibody.program.tree_packing import pack  # imports Numba

        program, kinematics = self._program, self._kinematics
        if isinstance(kinematics, ClosedKinematics):
            _, closure, clusters = program.arrays
            return pack(kinematics.spanning, _WEIGHTLESS), len(program.memory), (closure.copy(), clusters)
        return pack(kinematics, self._gravity), len(program.memory), ()

    def mass_matrix(self, q: jax.Array) -> jax.Array:
        """H(q)."""
        return self._call("mass_matrix", self._argument(q))

    def coefficients(self, q: jax.Array) -> jax.Array:
        """H^-1 Gamma_low."""
        given = self._argument(q)
        return raise_first_index(self._call("mass_matrix", given), self._call("christoffel_symbols", given))

    def lowered(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """C(q, v) w."""
        return self._call("coriolis_product", self._argument(q), v, w)

    def apply(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """The acceleration that the force C(q, v) w causes at rest and without gravity."""
        given = self._argument(q)
        force = self._call("coriolis_product", given, v, w)
        return self._call("forward_dynamics", given, jnp.zeros_like(v), force)

    def slopes(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """S and V, (2, nv, nv): derivatives of Gamma^i(v, v) along field j and in v^j; for trees only.

        They are minus the derivatives of the acceleration of the free motion.
        """
        return -self._call("forward_dynamics_derivatives", q, v, jnp.zeros_like(v))[:2]

    def forward_dynamics(self, q: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
        """vdot = H^-1 (tau - C v - g)."""
        return self._call("forward_dynamics", q, v, tau)

    def forward_dynamics_slopes(self, q: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
        """Its derivatives along the frame, in v and in tau, (3, nv, nv)."""
        return self._call("forward_dynamics_derivatives", q, v, tau)

    def _argument(self, q: jax.Array) -> jax.Array:
        """q, or the loops' solution at q, by the definition if compiled code cannot solve the loops."""
        loops = self._program.loops
        if loops is None or loops.linear:
            return q
        if not loops.solvable:
            return loops.definition.packed_solution_at(q)
        return loops.solution_at(q)

    def _call(self, name: str, *vectors: jax.Array) -> jax.Array:
        """The result of a recursion; the first vector is the result of `_argument`."""
        from connections.multibody.as_geometry.jax_ffi import operation  # imports Numba

        numbers = tuple(jnp.asarray(vector, dtype=jnp.float64) for vector in vectors)
        loops, shape = self._program.loops, self._program.cores[name]
        if loops is None:
            return operation(name, shape, numbers, *self._arrays)
        solved = not loops.linear
        return operation(f"closed_{name}", shape, numbers, *self._arrays, solved=solved)
