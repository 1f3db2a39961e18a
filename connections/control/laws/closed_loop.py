"""A plant under a law: simulation, Lyapunov function, and for the passivity-based law, the covariant form.

    H sdot + C s = tau + f - (H vdot_r + C v_r + g),
    V = (1/2) s^T H s,        Vdot = s^T (tau + f - (H vdot_r + C v_r + g)),

f the plant's forces, which the law does not know. With the passivity-based law, all but f is Y pi~ - K_D s,
``Y pi~ = (Hhat - H) vdot_r + (Chat - C) v_r + (ghat - g)``, and Vdot is [W] (14). The Lyapunov function does
not depend on the connection; the motion does.
Source: [W] IV-A, (14) and Remark 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Unpack, cast

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.affine import ContorsionFamily, LeviCivita
from connections.affine.motions.flow import Flow, as_times
from connections.affine.motions.sweeping import sweep_motions
from connections.affine.motions.units import motion_units
from connections.checks import (
    ShapeError,
    as_array,
    kept_as,
    require_finite,
    require_same_frame,
    require_type,
)
from connections.control.laws.law import ControlLaw
from connections.control.laws.loop_base import ControlLoop
from connections.control.laws.passivity import PassivityController
from connections.control.laws.references import FieldReference, Reference
from connections.control.laws.results import ClosedLoopMotion
from connections.coriolis import MechanicalSystem
from connections.evaluation.boundary import as_given
from connections.evaluation.describing import Described
from connections.evaluation.parameters import Parametrized, unwrap
from connections.integration.solver import Options, Settings, Solver
from connections.integration.tolerances import ATOL, RTOL

NOT_OF_SWEEPS = "method", "breakpoints", "events", "allow_partial", "estimate"  # options


@dataclass(frozen=True, eq=False, repr=False)
class ClosedLoop(Described, ControlLoop):
    """A plant, a controller and the reference that it follows.

    Parameters
    ----------
    plant : the true system; its `forces` act on it and are unknown to the controller.
    controller : the law, such as a `PassivityController` with its own model of the plant, a `FunctionLaw`, or
        a `ControlLaw` of your own.
    reference : what to follow.

    Raises
    ------
    FrameError : the three are not in the same frame.
    ShapeError : the law does not give n components. TypeError.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import control
    >>> plant = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), [[2.0]]))
    >>> reference = control.trajectory_reference(plant.frame, lambda t: jnp.stack([jnp.sin(t)]), gain=2.0)
    >>> loop = control.ClosedLoop(plant, control.PassivityController(plant, gain=5.0), reference)
    >>> motion = loop.simulate([1.0], [0.0], np.linspace(0.0, 10.0, 11))
    >>> np.allclose(motion.q[-1], np.sin(10.0), atol=1e-6)
    True

    Source: [W] IV-A.
    """

    plant: MechanicalSystem
    controller: ControlLaw
    reference: Reference

    def __post_init__(self) -> None:
        call = "write ClosedLoop(plant, controller, reference)"
        require_type("plant", self.plant, MechanicalSystem, call)
        require_type("controller", self.controller, ControlLaw, call)
        require_type("reference", self.reference, Reference, call)
        frame = self.plant.metric.frame
        require_same_frame(frame, "the plant", self.controller.frame, "the controller")
        require_same_frame(frame, "the plant", self.reference.frame, "the reference")
        self.controller.require_torques()

    def torque_at(self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array) -> jax.Array:
        """Tau (n,) at one instant."""
        v_r, a_r = self.reference.pair_at(t, q, v, state)
        return self.controller.torque_at(q, v, v_r, a_r)

    def mismatch_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> jax.Array:
        """Y pi~ (n,): the model's force along the reference minus the plant's, each with its connection.

        The law must be a `PassivityController`, as for `covariant_residual_at`, `member` and `sweep`.
        """
        model = self._law_with_a_model().model.reference_force_at(q, v, v_r, a_r)
        return model - self.plant.reference_force_at(q, v, v_r, a_r)

    def lyapunov_at(self, q: jax.Array, s: jax.Array) -> jax.Array:
        """V = (1/2) s^T H s, H the plant's."""
        return 0.5 * s @ self.plant.metric.matrix_at(q) @ s

    def lyapunov_rate_at(self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array) -> jax.Array:
        """Vdot = s^T (tau + f - (H vdot_r + C v_r + g)), for a plant connection that is metric compatible.

        Source: [W] (14), with the plant's unmodelled forces f, and with any law in the place of (13).
        """
        v_r, a_r = self.reference.pair_at(t, q, v, state)
        tau = self.controller.torque_at(q, v, v_r, a_r)
        rate: jax.Array = (v - v_r) @ self._excess_at(t, q, v, v_r, a_r, tau)
        return rate

    def covariant_residual_at(self, t: jax.Array, q: jax.Array, v: jax.Array) -> jax.Array:
        """H nabla_qdot s + K_D s - Y pi~ - f (n,), zero along the closed loop, by covariant derivatives.

        vdot comes from Newton's law with the Levi-Civita connection, nabla_qdot v_r from the plant's
        connection applied to the vector field v_r(t, .) plus its partial time derivative: no derivative of
        components along the motion. Zero if the plant's connection has Riemannian geodesics; the reference
        must be a `FieldReference`, the law a `PassivityController`.
        Source: [W] Remark 5.
        """
        law = self._law_with_a_model()
        field, frame, nothing = _field_of(self.reference), self.plant.metric.frame, jnp.zeros(0)
        v_r, a_r = self.reference.pair_at(t, q, v, nothing)
        H, f = self.plant.metric.matrix_at(q), self.plant.forces_at(t, q, v)
        tau = law.torque_at(q, v, v_r, a_r)
        drift = jax.jvp(lambda time: field(time, q), (t,), (jnp.ones_like(t),))[1]
        along = v @ frame.lie_derivative_at(lambda p: field(t, p), q)
        nabla = self.plant.connection
        assert nabla is not None  # every constructed system has one
        twist = nabla.apply_at(q, v, v) - LeviCivita(self.plant.metric).apply_at(q, v, v)
        H_nabla_v = tau + f - self.plant.gravity_at(q) + H @ twist
        s = v - v_r
        H_nabla_s: jax.Array = H_nabla_v - H @ (drift + along + nabla.apply_at(q, v, v_r))
        damping: jax.Array = law.gain @ s
        return H_nabla_s + damping - self.mismatch_at(q, v, v_r, a_r) - f

    def simulate_at(
        self, q0: jax.Array, v0: jax.Array, times: jax.Array, rtol: float = RTOL, atol: float = ATOL
    ) -> ClosedLoopMotion:
        """One motion from (q0, v0), JAX-traceable; a failed integration gives NaN."""
        settings = Settings(rtol, atol)
        motion: ClosedLoopMotion = self._flow().solve_at(times, q0, v0, settings=settings)[0]
        return motion

    def simulate(
        self,
        q0: ArrayLike,
        v0: ArrayLike,
        times: ArrayLike,
        **options: Unpack[Options],
    ) -> ClosedLoopMotion:
        """The motion from (q0, v0) at the given times, with the law's quantities; it unpacks as (q, v).

        Parameters
        ----------
        q0 : (..., nq) start.
        v0 : (..., n) velocities at the start, frame components.
        times : (T,) increasing, s; the motion starts at times[0].
        options : ``rtol``, ``max_step``, ``events`` and others (`Options`, docs/motions.md); times in s.

        Raises
        ------
        ShapeError, NonFiniteError, the errors of frame and metric at q0, IntegrationError; PointError
        for a time outside of the samples of the reference's trajectory; ValueError if an option is not
        positive, TypeError if there is no such option.
        """
        motion: ClosedLoopMotion = self._motion(q0, v0, times, options)
        return motion

    def member(self, beta: Any) -> ClosedLoop:
        """The loop with another connection in the controller's law, of the family of the model's metric.

        Parameters
        ----------
        beta : (C(n, 3),) values, or q -> values, as for `ContorsionFamily.connection`.

        Source: [W] eq. (12).
        """
        law = self._law_with_a_model()
        connection = ContorsionFamily(law.model.metric).connection(beta)
        controller = PassivityController(law.model, law.gain, connection)
        return ClosedLoop(self.plant, controller, self.reference)

    def sweep(
        self,
        betas: ArrayLike,
        q0: ArrayLike,
        v0: ArrayLike,
        times: ArrayLike,
        **options: Unpack[Options],
    ) -> ClosedLoopMotion:
        """The motions from (q0, v0) with each connection of a family in the controller's law.

        The plant stays. All members are integrated together, each with its own steps; what is compiled serves
        any number of members, of times, and any values.

        Parameters
        ----------
        betas : (m, C(n, 3)) members of the `ContorsionFamily` of the controller's metric.
        q0 : (nq,) start.
        v0 : (n,) velocity at the start, frame components.
        times, options : as for `simulate`, without events.

        Returns
        -------
        ClosedLoopMotion whose arrays have the leading axis m, with the betas.

        Raises
        ------
        As `simulate`; IntegrationError names the member that cannot be followed.

        Source: [W] IV-A2, eq. (12).
        """
        frame = self.frame
        metric = self._law_with_a_model().model.metric
        family, clock = ContorsionFamily(metric), np.asarray(as_times(times))
        given, betas = betas, np.array(as_array("betas", betas, (None, family.dimension)))
        start = (
            np.asarray(as_array("q0", q0, (frame.ambient_dim,))),
            np.asarray(as_array("v0", v0, (frame.dim,))),
        )
        for name, array, axes in (("betas", betas, 2), ("q0", start[0], 1), ("v0", start[1], 1)):
            require_finite(name, array)
            if array.ndim != axes:
                raise ShapeError(name, array.shape[-axes:], array.shape)
        self.reference.require_times("times", clock)
        solver = Solver.of("sweep", options, without=NOT_OF_SWEEPS)

        def with_betas(motions: ClosedLoopMotion) -> ClosedLoopMotion:
            return as_given(replace(motions, betas=betas), q0, v0, given)

        with kept_as(with_betas):
            return with_betas(simulate_members(self, self.member, betas, start, clock, solver))

    def _start_at(self, *given: jax.Array) -> tuple[Any, ...]:
        return *given, self.reference.initial_state(*given)

    def _rate_at(self, t: jax.Array, y: tuple[Any, ...], *given: jax.Array) -> tuple[Any, ...]:
        q, v, state = y
        tau = self.torque_at(t, q, v, state)
        v_dot = self.plant.forward_dynamics_at(q, v, tau, t)
        return self.frame.matrix_at(q) @ v, v_dot, self.reference.state_rate_at(t, q, v, state)

    def _entry_at(
        self, t: jax.Array, y: tuple[Any, ...], *given: jax.Array
    ) -> tuple[ClosedLoopMotion, jax.Array, jax.Array]:
        q, v, state = y
        v_r, a_r = self.reference.pair_at(t, q, v, state)
        tau, s = self.controller.torque_at(q, v, v_r, a_r), v - v_r
        motion = ClosedLoopMotion(
            t,
            q,
            v,
            v_r,
            a_r,
            tau,
            self.lyapunov_at(q, s),
            s @ self._excess_at(t, q, v, v_r, a_r, tau),
            self.reference.desired_at(t),
            self.reference.error_at(t, q),
        )
        return motion, q, jnp.asarray(True)

    def _excess_at(
        self, t: jax.Array, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array, tau: jax.Array
    ) -> jax.Array:
        """H sdot + C s (n,): all forces minus the force with which v would stay v_r."""
        force = tau + self.plant.forces_at(t, q, v)
        return force - self.plant.reference_force_at(q, v, v_r, a_r)

    def _law_with_a_model(self) -> PassivityController:
        require_type("controller", self.controller, PassivityController)
        law: Any = self.controller
        return cast("PassivityController", law)

    def _units_at(
        self, t0: jax.Array, s: jax.Array, y: tuple[Any, ...], *given: jax.Array
    ) -> tuple[Any, ...]:
        q, _, state = y
        metric = self.plant.metric
        return *motion_units(self.frame, metric, q), self.reference.state_units_at(metric, q, state)


def simulate_members(
    owner: ClosedLoop,
    member: Callable[[jax.Array], ClosedLoop],
    numbers: np.ndarray,
    start: tuple[np.ndarray, np.ndarray],
    times: np.ndarray,
    solver: Solver | None = None,
) -> ClosedLoopMotion:
    """The motions of loops that differ in numbers; arrays of the result have the leading axis m.

    Parameters
    ----------
    owner : one of the loops, whose plant validates the first point.
    member : numbers (p,) -> the loop; JAX-traceable.
    numbers : (m, p).
    start : q0 (nq,), v0 (n,).
    times : (T,) increasing, s.
    solver : the options, as of `ClosedLoop.simulate`; None for the defaults.

    Raises
    ------
    As `ClosedLoop.sweep`.
    """

    def at_times(motions: Any) -> ClosedLoopMotion:
        found: ClosedLoopMotion = replace(motions, times=np.array(times))
        return found

    with kept_as(at_times):
        return at_times(sweep_motions(owner, _FlowOf(member), numbers, start, times, solver or Solver()))


class _FlowOf(Parametrized):
    """The numbers of a loop -> the loop, and its flow."""

    def __init__(self, member: Callable[[jax.Array], ClosedLoop]) -> None:
        self.member = member

    def __call__(self, numbers: jax.Array) -> tuple[ClosedLoop, Flow[ClosedLoopMotion]]:
        loop = unwrap(self.member)(numbers)
        return loop, loop._flow()


def _field_of(reference: Reference) -> Any:
    if not isinstance(reference, FieldReference):
        raise TypeError(
            f"the covariant form needs a FieldReference: {type(reference).__name__} is not a vector field"
        )
    return reference.field
