"""Mechanical systems: H vdot + C v + g = tau + F in a frame, with C of a chosen connection.

Hamel's equations are here as the independent route to the same motion: they use the Lagrangian and the
brackets, never a connection. Sources: [W] eqs. (1), (6), (10).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, Unpack

import jax
import jax.numpy as jnp

from connections._jax import Array, ArrayLike
from connections.affine.connection import AffineConnection
from connections.affine.levi_civita import LeviCivita
from connections.affine.motions.broken_symmetry import broken_symmetry_told
from connections.affine.motions.flow import Flow, State, Trajectories, require_untraced_symmetry
from connections.affine.motions.geodesics import geodesic_flow_of
from connections.affine.motions.host_motions import HostMotion
from connections.affine.motions.motion import Motion
from connections.affine.motions.units import Momenta, energy_of, momenta_of
from connections.affine.symmetry import GroupAction
from connections.checks import as_result, require_function, require_same_frame, require_shape, require_type
from connections.coriolis.matrix import coriolis_matrix_at
from connections.coriolis.variational import DiscreteSystem
from connections.coriolis.variational_motion import (
    DiscreteSteps,
    Steps,
    is_variational,
    require_kept,
    variational_motion,
)
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.describing import Described
from connections.evaluation.parameters import Parametrized, PytreePartial, with_parameters
from connections.geometry.frames import FrameField
from connections.geometry.metrics import Metric, require_definite
from connections.geometry.numerics.definite import solve_definite
from connections.integration.solver import Solver, StepOptions

Potential = Callable[[jax.Array], jax.Array]
Forces = Callable[[Any, jax.Array, jax.Array], jax.Array]
FORCES = "(t, q, v) -> generalized forces (n,)"  # in an error


def controlled_at(control: Forces | None, t: Any, q: jax.Array, v: jax.Array, size: int) -> jax.Array:
    """Values (size,) of a control of the user, whose shape is checked; zero without one."""
    if control is None:
        return jnp.zeros(size)
    return require_shape("control(t, q, v)", control(t, q, v), (size,))


def terms_beside(
    plant: MechanicalSystem, t: Any, state: tuple[Any, ...], rate: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Sums of the sizes of the terms of a rate, for `Flow.terms`: the plant's without a torque, and the rest.

    Parameters
    ----------
    plant : whose (q, v) are the first arrays of the state.
    t, state, rate : the time, the state and its rate.
    """
    q, v = state[:2]
    free = plant.forward_dynamics_at(q, v, jnp.zeros_like(v), t)
    sizes = [jnp.abs(each) for each in rate]
    sizes[1] = jnp.abs(free) + jnp.abs(rate[1] - free)
    return tuple(sizes)


class DiscreteMechanics(DiscreteSystem):
    """A mechanical system under a control, for variational steps."""

    def __init__(self, system: MechanicalSystem, control: Forces | None) -> None:
        self.system, self.control = system, control

    @property
    def metric(self) -> Metric:
        """The system's."""
        return self.system.metric

    def potential_at(self, q: jax.Array) -> jax.Array:
        """The system's."""
        return self.system.potential_at(q)

    def applied_at(self, t: Any, q: jax.Array, v: jax.Array) -> jax.Array:
        """Forces and control, (n,)."""
        return self.system.forces_at(t, q, v) + controlled_at(self.control, t, q, v, v.size)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The metric is valid."""
        return self.metric.valid_at(q)


@dataclass(frozen=True, eq=False, repr=False)
class MechanicalSystem(Described, Parametrized):
    """A mechanical system in a frame: H vdot + C v + g = tau + F.

    Parameters
    ----------
    metric : kinetic energy (1/2) v^T H v [J].
    potential : optional, q (nq,) -> V [J]; JAX-traceable.
    forces : optional, (t, q, v) -> F (n,), generalized forces paired with the frame; JAX-traceable.
    connection : the connection of the Coriolis matrix; the metric's Levi-Civita connection if None. The
        motion is the physical one exactly if the geodesics of this connection are the metric's.
    parameters : optional, the last argument of `potential` and of `forces`; JAX can differentiate by them
        (`ParametricFunction`).

    Raises
    ------
    FrameError : metric and connection are in different frames.

    Examples
    --------
    A pendulum of length 1 m and mass 1 kg, let go at 0.1 rad.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> metric = cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1))
    >>> pendulum = cn.MechanicalSystem(metric, lambda q: 9.81 * (1 - jnp.cos(q[0])))
    >>> pendulum.gravity([0.1]).round(4)
    array([0.9794])
    >>> pendulum.simulate([0.1], [0.0], [0.0, 1.0]).q[-1].round(4)
    array([-0.1])

    Source: [W] eq. (1).
    """

    metric: Metric
    potential: Potential | None = None
    forces: Forces | None = None
    connection: AffineConnection | None = None
    frame: FrameField = field(init=False)
    parameters: InitVar[Any] = None

    def __post_init__(self, parameters: Any) -> None:
        require_definite("metric", self.metric, "write MechanicalSystem(metric, potential)")
        if self.connection is not None:
            require_type("connection", self.connection, AffineConnection)
        for name, form in (("potential", "q -> V"), ("forces", FORCES)):
            if getattr(self, name) is not None:
                require_function(name, getattr(self, name), form, parameters=parameters)
                object.__setattr__(self, name, with_parameters(getattr(self, name), parameters))
        if self.connection is None:
            object.__setattr__(self, "connection", LeviCivita(self.metric))
        require_same_frame(self.metric.frame, "the metric", self._nabla.frame, "the connection")
        object.__setattr__(self, "frame", self.metric.frame)

    # --- the definition at one point ---------------------------------------------------------------------

    def mass_matrix_at(self, q: jax.Array) -> jax.Array:
        """H(q), (n, n)."""
        return self.metric.matrix_at(q)

    def coriolis_matrix_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """C(q, v) of the system's connection, (n, n)."""
        return coriolis_matrix_at(self._nabla, self.metric, q, v)

    def bias_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """C v = H Gamma(v, v), (n,)."""
        return self._nabla.lowered_at(self.metric, q, v, v)

    def potential_at(self, q: jax.Array) -> jax.Array:
        """V(q), a scalar; zero without a potential."""
        return (
            jnp.asarray(0.0) if self.potential is None else require_shape("potential", self.potential(q), ())
        )

    def gravity_at(self, q: jax.Array) -> jax.Array:
        """g_i = L_{X_i} V, (n,)."""
        if self.potential is None:
            return jnp.zeros(self.metric.frame.dim)
        return self.metric.frame.lie_derivative_at(self.potential_at, q)

    def forces_at(self, t: Any, q: jax.Array, v: jax.Array) -> jax.Array:
        """F(t, q, v), (n,); zero without forces."""
        n = self.metric.frame.dim
        if self.forces is None:
            return jnp.zeros(n)
        return require_shape("forces(t, q, v)", self.forces(t, q, v), (n,))

    def inverse_dynamics_at(self, q: jax.Array, v: jax.Array, a: jax.Array, t: Any = 0.0) -> jax.Array:
        """H a + C v + g - F, (n,)."""
        inertial = self.metric.matrix_at(q) @ a + self.bias_at(q, v)
        return inertial + self.gravity_at(q) - self.forces_at(t, q, v)

    def reference_force_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> jax.Array:
        """H a_r + C(q, v) v_r + g, (n,); C is not formed."""
        bias = self._nabla.lowered_at(self.metric, q, v, v_r)
        return self.metric.matrix_at(q) @ a_r + bias + self.gravity_at(q)

    def momentum_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """p = H v, (n,)."""
        return self.metric.matrix_at(q) @ v

    def momentum_rate_at(self, q: jax.Array, v: jax.Array, t: Any = 0.0) -> jax.Array:
        """C(q, v)^T v - g + F, (n,)."""
        return self.coriolis_transpose_product_at(q, v) - self.gravity_at(q) + self.forces_at(t, q, v)

    def coriolis_transpose_product_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """C(q, v)^T v, (n,), as (C^T v)_k = Gamma_ijk v^j v^i; C is not formed."""
        product: jax.Array = jax.vjp(lambda w: self._nabla.apply_at(q, v, w), v)[1](self.momentum_at(q, v))[0]
        return product

    def forward_dynamics_at(self, q: jax.Array, v: jax.Array, tau: jax.Array, t: Any = 0.0) -> jax.Array:
        """H^-1 (tau + F - g - C v), (n,)."""
        generalized = tau + self.forces_at(t, q, v) - self.gravity_at(q) - self.bias_at(q, v)
        return solve_definite(self.metric.matrix_at(q), generalized)

    def terms_at(self, t: Any, q: jax.Array, v: jax.Array, tau: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Sums of the sizes of the terms of qdot and vdot, (nq,) and (n,): forces that cancel are apart."""
        H, forces = self.metric.matrix_at(q), (tau, self.forces_at(t, q, v), self.gravity_at(q))
        own = (jnp.abs(solve_definite(H, force)) for force in forces)
        sizes = sum(own, jnp.abs(self._nabla.apply_at(q, v, v)))
        return jnp.abs(self.metric.frame.matrix_at(q) @ v), sizes

    def energy_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """(1/2) v^T H v + V, a scalar."""
        return 0.5 * v @ self.metric.matrix_at(q) @ v + self.potential_at(q)

    def hamel_at(self, q: jax.Array, v: jax.Array, a: jax.Array) -> jax.Array:
        """d/dt dL/dv^i + s^k_ij dL/dv^k v^j - L_{X_i} L, (n,)."""
        frame = self.metric.frame

        def lagrangian(point: jax.Array, velocity: jax.Array) -> jax.Array:
            return 0.5 * velocity @ self.metric.matrix_at(point) @ velocity - self.potential_at(point)

        momentum = jax.grad(lagrangian, argnums=1)
        rate: jax.Array
        _, rate = jax.jvp(momentum, (q, v), (frame.matrix_at(q) @ v, a))
        turning = jnp.einsum("kij,k,j->i", frame.structure_functions_at(q), momentum(q, v), v)
        return rate + turning - frame.lie_derivative_at(lambda p: lagrangian(p, v), q)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Metric and connection are valid."""
        return self.metric.valid_at(q) & self._nabla.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """The error of the metric or of the connection."""
        self.metric.explain(q)
        self._nabla.explain(q)

    # --- the public functions ----------------------------------------------------------------------------

    def mass_matrix(self, q: ArrayLike) -> Array:
        """H(q), (..., n, n).

        Parameters
        ----------
        q : (..., nq) points.
        """
        return self._evaluate(self.mass_matrix_at, q)

    def coriolis_matrix(self, q: ArrayLike, v: ArrayLike) -> Array:
        """C(q, v) of the system's connection, (..., n, n): C_ik = Gamma_ijk v^j.

        Parameters
        ----------
        q : (..., nq) points.
        v : (..., n) velocities, frame components.

        Source: [W] eq. (10).
        """
        return self._evaluate(self.coriolis_matrix_at, q, v=v)

    def bias(self, q: ArrayLike, v: ArrayLike) -> Array:
        """C(q, v) v, (..., n), generalized force.

        Parameters
        ----------
        q : (..., nq) points.
        v : (..., n) velocities.
        """
        return self._evaluate(self.bias_at, q, v=v)

    def gravity(self, q: ArrayLike) -> Array:
        """g_i = L_{X_i} V, (..., n), generalized force.

        Parameters
        ----------
        q : (..., nq) points.
        """
        return self._evaluate(self.gravity_at, q)

    def inverse_dynamics(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, t: ArrayLike = 0.0) -> Array:
        """tau = H a + C v + g - F(t, q, v), (..., n): the control under which vdot = a.

        It is the inverse of `forward_dynamics`; the system's own forces F do their part.

        Parameters
        ----------
        q : (..., nq) points.
        v, a : (..., n) velocities and their time derivatives, frame components.
        t : (...,) time at which the system's own forces are evaluated [s].

        Source: [W] eq. (1).
        """
        arguments = [*self._arguments(q, v=v, a=a), Argument("t", t, ())]
        return evaluate(self, self.inverse_dynamics_at, *arguments)

    def reference_force(self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike) -> Array:
        """H a_r + C(q, v) v_r + g, (..., n): the force along a reference, linear in the inertias.

        Parameters
        ----------
        q : (..., nq) points.
        v : (..., n) velocities.
        v_r, a_r : (..., n) reference velocities and the rates of their components along the motion.

        Source: [W] eq. (13).
        """
        return self._evaluate(self.reference_force_at, q, v=v, v_r=v_r, a_r=a_r)

    def momentum(self, q: ArrayLike, v: ArrayLike) -> Array:
        """p = H v, (..., n), covector components.

        Parameters
        ----------
        q : (..., nq) points.
        v : (..., n) velocities.
        """
        return self._evaluate(self.momentum_at, q, v=v)

    def momentum_rate(self, q: ArrayLike, v: ArrayLike, t: ArrayLike = 0.0) -> Array:
        """C(q, v)^T v - g + F(t, q, v), (..., n): the rate of H v if there is no control.

        This holds for every connection that is metric compatible and has Riemannian geodesics; for these,
        C^T v = Hdot v - C v is the same.

        Parameters
        ----------
        q : (..., nq) points.
        v : (..., n) velocities.
        t : (...,) time at which the system's own forces are evaluated [s].

        Source: [W] II.
        """
        return evaluate(self, self.momentum_rate_at, *self._arguments(q, v=v), Argument("t", t, ()))

    def forward_dynamics(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, t: ArrayLike = 0.0) -> Array:
        """vdot = H^-1 (tau + F(t, q, v) - C v - g), (..., n).

        Parameters
        ----------
        q : (..., nq) points.
        v, tau : (..., n) velocities and generalized forces.
        t : (...,) time at which the system's own forces are evaluated [s].
        """
        arguments = [*self._arguments(q, v=v, tau=tau), Argument("t", t, ())]
        return evaluate(self, self.forward_dynamics_at, *arguments)

    def energy(self, q: ArrayLike, v: ArrayLike) -> Array:
        """(1/2) v^T H v + V, (...,) [J].

        Parameters
        ----------
        q : (..., nq) points.
        v : (..., n) velocities.
        """
        return self._evaluate(self.energy_at, q, v=v)

    def hamel(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Array:
        """tau by Hamel's equations, (..., n): d/dt dL/dv^i + s^k_ij dL/dv^k v^j - L_{X_i} L.

        Uses the Lagrangian and the brackets only: the independent route to `inverse_dynamics` of a system
        without forces.

        Parameters
        ----------
        q : (..., nq) points.
        v, a : (..., n) velocities and their time derivatives.

        Source: [W] eq. (6).
        """
        return self._evaluate(self.hamel_at, q, v=v, a=a)

    def simulate(
        self,
        q0: ArrayLike,
        v0: ArrayLike,
        times: ArrayLike,
        control: Forces | None = None,
        symmetry: GroupAction | None = None,
        *,
        method: str = "DOP853",
        step: float | None = None,
        order: int | None = None,
        **options: Unpack[StepOptions],
    ) -> Motion:
        """The motion from (q0, v0) under potential, forces and control: ``q, v = system.simulate(...)``.

        Parameters
        ----------
        q0 : (..., nq) initial points, at times[0].
        v0 : (..., n) initial velocities.
        times : (T,) strictly monotone [s].
        control : optional, (t, q, v) -> tau (n,); JAX-traceable.
        symmetry : optional, a group under which metric and potential are invariant: its momenta <v, xi_a>
            (`GroupAction.momenta`) are compared at every requested time, as the energy is.
        method : "DOP853", with tolerances; "Radau", with tolerances, for what is stiff; or "variational",
            structure-preserving steps of one length (the page "Which integrator do I want?").
        step : h [s], the length of variational steps; it divides each interval of `times`.
        order : of variational steps, 2 (by default) or 4.
        options : as for `geodesic`; times in seconds. Variational steps have none.

        Returns
        -------
        Motion : q (..., T, nq) and v (..., T, n). Tolerances are those of `geodesic`. Variational steps keep
            the symplectic form and momenta, not the energy, whose relative change is in ``drift``.

        Raises
        ------
        IntegrationError : the motion leaves the chart or blows up; names the time and the point. A
            variational step is too long: its search does not stay near to where it begins, or a body or the
            angle of a joint turns by half a turn; names a step that would do. A momentum of `symmetry` is
            not kept.
        ValueError : an option is not positive, or no momenta are conserved; the step does not divide the
            times. TypeError : there is no such option.

        Source: [MW] sections 1 and 3, for variational steps.
        """
        if control is not None:
            require_function("control", control, FORCES)
        frame = self.metric.frame
        arguments = (Argument("q0", q0, (frame.ambient_dim,)), Argument("v0", v0, (frame.dim,)))
        if is_variational("simulate", method, step, order, options):
            return self._variational(arguments, times, control, symmetry, step, order)
        solver = Solver.of("simulate", {**options, "method": method})
        recipe = PytreePartial(self._flow, control)
        if symmetry is not None:
            require_untraced_symmetry(q0, v0, times)
            if control is not None or self.forces is not None:
                raise ValueError("symmetry: no momentum is conserved under forces or a control")
            recipe = PytreePartial(self._symmetric_flow, symmetry)
            with broken_symmetry_told("simulate", self.metric, self.potential_at, symmetry, q0):
                return Trajectories.of(self).motion("simulate", recipe, arguments, times, solver)
        return Trajectories.of(self).motion("simulate", recipe, arguments, times, solver)

    def with_connection(self, connection: AffineConnection) -> MechanicalSystem:
        """The system with the Coriolis matrix of another connection.

        Parameters
        ----------
        connection : in the frame of the system.
        """
        require_type("connection", connection, AffineConnection)
        return MechanicalSystem(self.metric, self.potential, self.forces, connection)

    def _momenta_of(self, symmetry: GroupAction) -> Momenta:
        """The momenta of a symmetry, for `Flow.momenta`."""
        return momenta_of(self._nabla, self.metric, symmetry)

    def host_motion(self, control: Forces | None) -> HostMotion | None:
        """The motion under `control` in NumPy, or None if the connection has no ``host``."""
        return None

    # --- private -------------------------------------------------------------------------------------------

    @property
    def _nabla(self) -> AffineConnection:
        assert self.connection is not None  # set in __post_init__
        return self.connection

    def _flow(self, control: Forces | None) -> Flow[State]:
        """The motions under `control`."""

        def acceleration(t: Any, q: jax.Array, v: jax.Array) -> jax.Array:
            tau = self.forces_at(t, q, v) - as_result("the gradient of the potential", self.gravity_at(q))
            tau = tau + controlled_at(control, t, q, v, v.size)
            return solve_definite(self.metric.matrix_at(q), tau)

        def terms(t: Any, state: State, *given: jax.Array) -> State:
            q, v = state
            return self.terms_at(t, q, v, controlled_at(control, t, q, v, v.size))

        timed = control is not None or self.forces is not None
        kept = None if timed else energy_of(self._nabla, self.metric, self.potential_at)
        flow = geodesic_flow_of(self._nabla, acceleration)
        flow = replace(flow, timed=timed, conserved=kept, terms=terms if timed else None)
        host = self.host_motion(control)
        return flow if host is None else replace(flow, host=host)

    def _symmetric_flow(self, symmetry: GroupAction) -> Flow[State]:
        """The motions without control, with the momenta of a symmetry."""
        return replace(self._flow(None), momenta=self._momenta_of(symmetry))

    def _variational(
        self,
        arguments: tuple[Argument, Argument],
        times: Any,
        control: Forces | None,
        symmetry: GroupAction | None,
        step: Any,
        order: int | None,
    ) -> Motion:
        """`simulate` by variational steps, whose motion is that of the metric's Levi-Civita connection."""
        if self._nabla.riemannian is None:
            what = "variational steps follow the metric's geodesics, and the connection's may be others"
            raise ValueError(f"method: {what}; write cn.MechanicalSystem(metric, potential, forces)")
        driven = control is not None or self.forces is not None
        if symmetry is not None:
            require_untraced_symmetry(*(item.value for item in arguments), times)
            if driven:
                raise ValueError("symmetry: no momentum is conserved under forces or a control")
        steps = self._variational_steps(control)
        motion = variational_motion("simulate", self, arguments, times, step, order, steps, not driven)
        if symmetry is not None:
            q0 = arguments[0].value
            with broken_symmetry_told("simulate", self.metric, self.potential_at, symmetry, q0):
                require_kept("simulate", self, self.metric, symmetry, self._nabla, motion)
        return motion

    def _variational_steps(self, control: Forces | None) -> Steps:
        """The variational steps under `control`."""
        return DiscreteSteps(DiscreteMechanics(self, control))

    def _arguments(self, q: Any, **vectors: Any) -> list[Argument]:
        n = (self.metric.frame.dim,)
        return [Argument("q", q, (self.metric.frame.ambient_dim,))] + [
            Argument(k, x, n) for k, x in vectors.items()
        ]

    def _evaluate(self, at: Callable[..., jax.Array], q: Any, **vectors: Any) -> Array:
        return evaluate(self, at, *self._arguments(q, **vectors))
