"""Adaptive control of systems that are linear in their parameters, and its closed loop.

    H vdot_r + C v_r + g = known force + Y(q, v, v_r, vdot_r) pi,     tau = known force + Y pihat - K_D s,
    V = (1/2) s^T H s + what the error of pihat costs,                Vdot = -s^T K_D s.

The law asks for the known force and the regressor of a `ParametrizedPlant`, and for the rate of the estimates
and their part of V of an `Adaptation`.
Source: Slotine and Li (1987); [W] IV-A; [LKP].
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike
from connections.affine.motions.units import motion_units
from connections.checks import (
    as_array,
    as_number,
    is_traced,
    require_finite,
    require_same_frame,
    require_type,
)
from connections.control.laws.adaptation import Adaptation, ConstantAdaptation
from connections.control.laws.gains import Certifiable, GainError, finite, gain_matrix, one_vector, sliding
from connections.control.laws.loop_base import ControlLoop
from connections.control.laws.natural import OPTIONS, natural_adaptation
from connections.control.laws.parametrization import ParametrizedPlant
from connections.control.laws.references import Reference
from connections.control.laws.results import AdaptiveMotion
from connections.coriolis import MechanicalSystem
from connections.evaluation.boundary import Argument, as_given
from connections.evaluation.parameters import Parametrized
from connections.integration.solver import Options


@dataclass(frozen=True, eq=False)
class AdaptiveController(Certifiable, Parametrized):
    """tau = known force + Y pihat - K_D s; pihat_dot = -P Y^T s, or the natural gradient -gamma G^-1 Y^T s.

    Parameters
    ----------
    family : what is known and what is not: a `LinearlyParametrizedSystem`, or `UnknownInertia` of a robot.
    gain : K_D, scalar, (n,) or (n, n), positive definite; it, a scalar `adaptation` and `rate` may be those
        of `gains_from`, and are printed with their proofs.
    adaptation : P, scalar, (p,) or (p, p), symmetric positive definite; or ``"natural"``, for
        `UnknownInertia`: Phat' = -gamma Phat S Phat of the total pseudo-inertia Phat of each body, S the dual
        of Y^T s. Phat stays positive definite, and neither the body's frame nor the unit of length changes
        the torque.
    rate : gamma, 1/J, of natural adaptation.
    mass_bound : kg, scalar or (B,), the largest total mass of each unknown body; ``np.inf`` for no bound,
        without which estimates may grow a hundredfold for some milliseconds.
    leakage : sigma, 1/s; estimates leak to `prior`, so that a disturbance cannot move them without bound.
    prior : (p,) estimates to which natural adaptation leaks.
    dead_zone : scalar or (n,), rad/s and m/s; learning is weighted by max(0, 1 - 1 / |s / zone|).

    Raises
    ------
    ShapeError, NonFiniteError, GainError; TypeError : an option of natural adaptation is missing, or is given
        with a constant gain; PointError : the prior's total inertia is not positive definite.

    Examples
    --------
    >>> import connections as cn
    >>> from connections import control
    >>> frame = cn.CoordinateFrame(1)
    >>> make = lambda pi: cn.MechanicalSystem(cn.ConstantMetric(frame, pi[None]))
    >>> family = control.LinearlyParametrizedSystem(make, nominal=[1.0])
    >>> law = control.AdaptiveController(family, gain=5.0, adaptation=2.0)
    >>> law.torque([0.0], [1.0], [0.5], [3.0], parameters=[1.2])  # 1.2 * 3 - 5 * 0.5
    array([1.1])
    >>> law.parameters_rate([0.0], [1.0], [0.5], [3.0])  # -2 * 3 * 0.5
    array([-3.])

    Source: Slotine and Li (1987); [W] IV-A; [LKP] for natural adaptation.
    """

    family: ParametrizedPlant
    gain: Any
    adaptation: Any
    rate: Any = field(default=None, kw_only=True)
    mass_bound: Any = field(default=None, kw_only=True)
    leakage: Any = field(default=None, kw_only=True)
    prior: Any = field(default=None, kw_only=True)
    dead_zone: Any = field(default=None, kw_only=True)
    _rule: Adaptation = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_type(
            "family", self.family, ParametrizedPlant, "write AdaptiveController(family, gain, adaptation)"
        )
        self._keep_certificates(gain="K_D", adaptation="gamma", rate="gamma")
        object.__setattr__(self, "gain", gain_matrix("gain K_D", self.gain, self.family.frame.dim))
        options = {name: getattr(self, name) for name in OPTIONS}
        if isinstance(self.adaptation, str):
            rule: Adaptation = natural_adaptation(self.family, self.adaptation, options)
        else:
            given = [name for name, value in options.items() if value is not None]
            if given:
                raise TypeError(f'{given[0]}: only adaptation="natural" has it')
            P = gain_matrix("adaptation P", self.adaptation, self.family.size, symmetric=True)
            object.__setattr__(self, "adaptation", P)
            rule = ConstantAdaptation(P)
        object.__setattr__(self, "_rule", rule)

    def learned(self, Y: Any, s: Any, parameters: Any) -> Any:
        """Y pihat - K_D s, (..., n), of arrays of NumPy or JAX: Y (..., n, p), s, pihat."""
        return (Y @ parameters[..., None])[..., 0] - s @ self.gain.T

    def torque(
        self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike, parameters: ArrayLike
    ) -> Array:
        """The forces tau = known force + Y pihat - K_D s, (..., n).

        Parameters
        ----------
        q : (..., nq) configurations.
        v, v_r, a_r : (..., n) velocity, reference velocity and its rate.
        parameters : (..., p) estimates pihat.

        Raises
        ------
        ShapeError, NonFiniteError, and the errors of the family at q.

        Source: Slotine and Li (1987); [W] IV-A.
        """
        parameters = as_array("parameters", parameters, (self.family.size,))
        Y, known = self.family.regressor(q, v, v_r, a_r), self.family.known_force(q, v, v_r, a_r)
        tau = known + self.learned(Y, sliding(v, v_r), parameters)
        return finite("tau", tau, parameters=parameters)

    def parameters_rate(
        self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike, parameters: ArrayLike | None = None
    ) -> Array:
        """pihat_dot, (..., p): how the estimates change.

        Parameters
        ----------
        q : (..., nq) configurations.
        v, v_r, a_r : (..., n) velocity, reference velocity and its rate.
        parameters : (..., p) estimates pihat, on which natural adaptation depends; a constant gain does not.

        Raises
        ------
        ShapeError, NonFiniteError, and the errors of the family at q; PointError : the estimates are those of
        no body.

        Source: Slotine and Li (1987); [LKP].
        """
        estimates = self._estimates(parameters)
        rate: Array = self._rule.rate(self.family.regressor(q, v, v_r, a_r), sliding(v, v_r), estimates)
        return finite("pihat_dot", rate)

    def next_parameters(
        self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike, parameters: ArrayLike, period: float
    ) -> Array:
        """The estimates, (..., p), after one period of a loop, in which q, v, v_r and a_r are held.

        Natural adaptation goes along the geodesic: Phat_+ = A A^T with A = L exp(-gamma h L^T S L / 2) and
        Phat = L L^T, positive definite for any period, but not farther than a distance of 1; then it is
        projected on the bound of the mass. In a slice (`UnknownInertia.basis`), it is the damped step
        u / (1 + |u|_G). For a constant gain it is Euler's step.

        Parameters
        ----------
        q : (..., nq) configurations.
        v, v_r, a_r : (..., n) velocity, reference velocity and its rate.
        parameters : (..., p) estimates pihat.
        period : h, s.

        Raises
        ------
        ShapeError, NonFiniteError, and the errors of the family at q; GainError : the period is not positive;
        PointError : the estimates are those of no body.

        Source: [LKP] for the flow; the step is derived here.
        """
        if type(period) is not float and not is_traced(period):
            period = as_number("period", period)
        if type(period) is float and not 0.0 < period < inf:
            raise GainError(f"period must be positive: {period}")
        estimates = as_array("parameters", parameters, (self.family.size,))
        Y, s = self.family.regressor(q, v, v_r, a_r), sliding(v, v_r)
        try:
            after: Array = self._rule.stepped(Y, s, estimates, period)
        except np.linalg.LinAlgError:
            self._estimates(parameters)
            raise
        return as_given(finite("parameters", after, parameters=estimates), Y, estimates)

    def lyapunov(
        self, plant: MechanicalSystem, q: Any, s: Any, error: ArrayLike, parameters: ArrayLike | None = None
    ) -> Array:
        """V, (...,), J: (1/2) s^T H s + (1/2) pi~^T P^-1 pi~, or + (1/gamma) sum of d(P || Phat).

        Its rate is -s^T K_D s.

        Parameters
        ----------
        plant : the system as it is; H is its mass matrix.
        q : (..., nq) configurations.
        s : (..., n) v - v_r.
        error : (..., p) pi~ = pihat - pi.
        parameters : (..., p) estimates pihat, for natural adaptation.

        Raises
        ------
        ShapeError, NonFiniteError, and the errors of the plant at q; PointError : the estimates, or the
        parameters of the plant, are not those of bodies, for which d is infinite.
        """
        require_type("plant", plant, MechanicalSystem)
        s, error = (
            as_array(*given) for given in (("s", s, (len(self.gain),)), ("error", error, (self.family.size,)))
        )
        require_finite("s", s)
        estimates = self._estimates(parameters)
        if estimates is None:
            estimates = error
        self._rule.require_truth(estimates - error)
        kinetic = 0.5 * (s * plant.momentum(q, s)).sum(-1)
        return finite("V", kinetic + self._rule.error_energy(estimates - error, estimates), s=s, error=error)

    def _estimates(self, parameters: Any) -> Any:
        """The estimates as an array, required to be those of bodies by natural adaptation."""
        if parameters is None:
            if isinstance(self.adaptation, str):
                raise TypeError("parameters: natural adaptation depends on the estimates; give them")
            return None
        estimates = as_array("parameters", parameters, (self.family.size,))
        require_finite("parameters", estimates)
        self._rule.require("parameters", estimates)
        return estimates


@dataclass(frozen=True, eq=False)
class AdaptiveLoop(ControlLoop):
    """A plant, an adaptive controller and the reference that it follows.

    Parameters
    ----------
    controller : the law.
    parameters : (p,) parameters of the plant, which is the member of the law's family with these.
    reference : what to follow.

    Raises
    ------
    ShapeError, NonFiniteError, FrameError, TypeError; ModelError : no robot has these parameters;
    PointError : the law adapts naturally, and a body of the plant has a singular inertia: V is infinite.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import control
    >>> frame = cn.CoordinateFrame(1)
    >>> make = lambda pi: cn.MechanicalSystem(cn.ConstantMetric(frame, pi[None]))
    >>> family = control.LinearlyParametrizedSystem(make, nominal=[1.0])
    >>> law = control.AdaptiveController(family, gain=5.0, adaptation=2.0)
    >>> reference = control.trajectory_reference(frame, lambda t: jnp.stack([jnp.sin(t)]), gain=2.0)
    >>> loop = control.AdaptiveLoop(law, [3.0], reference)
    >>> motion = loop.simulate([0.0], [0.0], [1.0], np.linspace(0.0, 60.0, 7))
    >>> motion.parameters[-1].round(2)  # the mass, which the law did not know
    array([3.])

    Source: Slotine and Li (1987); [W] IV-A.
    """

    controller: AdaptiveController
    parameters: Any
    reference: Reference
    plant: MechanicalSystem = field(init=False, repr=False)

    def __post_init__(self) -> None:
        call = "write AdaptiveLoop(controller, parameters, reference)"
        require_type("controller", self.controller, AdaptiveController, call)
        require_type("reference", self.reference, Reference, call)
        require_same_frame(self.family.frame, "the family", self.reference.frame, "the reference")
        parameters = one_vector("parameters", self.parameters, self.family.size)
        object.__setattr__(self, "parameters", parameters)
        self._rule.require_truth(parameters)
        object.__setattr__(self, "plant", self.family.plant(parameters))

    @property
    def family(self) -> ParametrizedPlant:
        """The systems among which the controller looks."""
        return self.controller.family

    @property
    def _rule(self) -> Adaptation:
        return self.controller._rule

    def lyapunov_at(self, q: jax.Array, s: jax.Array, parameters: jax.Array) -> jax.Array:
        """V = (1/2) s^T H s + (1/2) pi~^T P^-1 pi~, or + (1/gamma) sum of d(P || Phat), of estimates (p,)."""
        kinetic = 0.5 * s @ self.plant.momentum_at(q, s)
        V: jax.Array = kinetic + self._rule.error_energy(self.parameters, parameters)
        return V

    def simulate(
        self,
        q0: ArrayLike,
        v0: ArrayLike,
        initial: ArrayLike,
        times: ArrayLike,
        **options: Unpack[Options],
    ) -> AdaptiveMotion:
        """The motion from (q0, v0) with the estimate starting at `initial`.

        Parameters
        ----------
        initial : (..., p) first estimate.
        q0, v0, times, options : as for `ClosedLoop.simulate`.

        Raises
        ------
        As `ClosedLoop.simulate`; PointError : the law adapts naturally, and `initial` is not that of bodies.
        """
        self._rule.require("initial", as_array("initial", initial, (self.family.size,)))
        first = Argument("initial", initial, (self.family.size,))
        motion: AdaptiveMotion = self._motion(q0, v0, times, options, first)
        return motion

    def _start_at(self, *given: jax.Array) -> tuple[Any, ...]:
        return *given, self.reference.initial_state(*given[:2])

    def _rate_at(self, t: jax.Array, y: tuple[Any, ...], *given: jax.Array) -> tuple[Any, ...]:
        q, v, parameters, state = y
        v_r, a_r = self.reference.pair_at(t, q, v, state)
        Y, s, tau = self._torque_at(q, v, v_r, a_r, parameters)
        v_dot = self.plant.forward_dynamics_at(q, v, tau, t)
        rate = self._rule.rate(Y, s, parameters)
        return self.frame.matrix_at(q) @ v, v_dot, rate, self.reference.state_rate_at(t, q, v, state)

    def _torque_at(
        self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array, parameters: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Y, s and tau."""
        Y, s = self.family.regressor_at(q, v, v_r, a_r), v - v_r
        known = self.family.known_force_at(q, v, v_r, a_r)
        return Y, s, known + self.controller.learned(Y, s, parameters)

    def _entry_at(
        self, t: jax.Array, y: tuple[Any, ...], *given: jax.Array
    ) -> tuple[AdaptiveMotion, jax.Array, jax.Array]:
        q, v, parameters, state = y
        v_r, a_r = self.reference.pair_at(t, q, v, state)
        Y, s, tau = self._torque_at(q, v, v_r, a_r, parameters)
        power = s @ (self.plant.forces_at(t, q, v) - self.controller.gain @ s)
        motion = AdaptiveMotion(
            t,
            q,
            v,
            v_r,
            a_r,
            tau,
            self.lyapunov_at(q, s, parameters),
            power + self._rule.added_power(Y, s, self.parameters, parameters),
            self.reference.desired_at(t),
            self.reference.error_at(t, q),
            parameters=parameters,
        )
        return motion, q, jnp.asarray(True)

    def _units_at(
        self, t0: jax.Array, s: jax.Array, y: tuple[Any, ...], *given: jax.Array
    ) -> tuple[Any, ...]:
        q, _, parameters, state = y
        metric = self.plant.metric
        known = self._rule.units(self.parameters, parameters)
        return *motion_units(self.frame, metric, q), known, self.reference.state_units_at(metric, q, state)
