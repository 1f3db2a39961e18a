"""Systems linear in their parameters, the regressor, and the adaptation law.

    H vdot_r + C v_r + g = known force + Y(q, v, v_r, vdot_r) pi,     pihat_dot = -P Y^T s,
    V = (1/2) s^T H s + (1/2) pi~^T P^-1 pi~,                         Vdot = -s^T K_D s.

The law asks for the known force and the regressor of a `Parametrization`: of a family of systems, whose
regressor is the Jacobian in pi, exact because the force is linear in pi; or of a robot with `UnknownInertia`
(`payload.py`).
Source: Slotine and Li (1987); [W] IV-A.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Unpack, cast

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, solve
from connections.affine.motions.units import motion_units
from connections.checks import (
    Check,
    ShapeError,
    as_array,
    require_function,
    require_same_frame,
    require_type,
)
from connections.control.laws.gains import finite, gain_matrix, one_vector, sliding
from connections.control.laws.loop_base import Loop
from connections.control.laws.references import Reference
from connections.control.laws.results import AdaptiveMotion
from connections.coriolis import MechanicalSystem
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.parameters import Parametrized, unwrap
from connections.geometry import FrameField
from connections.geometry.numerics.scales import (
    FLOOR,
    inverse_lengths_of,
    lengths_of,
    worst,
    worst_check,
)
from connections.integration.solver import Options


class Parametrization(abc.ABC):
    """What a law asks of a plant with p unknown parameters pi: its frame, p, known force and regressor."""

    @property
    @abc.abstractmethod
    def frame(self) -> FrameField:
        """The frame of velocities and forces."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number p of parameters."""

    @abc.abstractmethod
    def regressor(self, q: Any, v: Any, v_r: Any, a_r: Any) -> Any:
        """Y, (..., n, p)."""

    def known_force(self, q: Any, v: Any, v_r: Any, a_r: Any) -> Any:
        """The part of the force that does not depend on pi, (..., n); here the whole force does."""
        return 0.0


@dataclass(frozen=True, eq=False)
class LinearlyParametrizedSystem(Parametrization, Parametrized):
    """A family of mechanical systems whose H, C and g are linear in p parameters.

    Parameters
    ----------
    make_system : pi (p,) -> MechanicalSystem, always in the same frame; JAX-traceable in pi.
    nominal : (p,) parameters at which the system is valid; the regressor does not depend on them.

    Raises
    ------
    ShapeError, NonFiniteError.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections import control
    >>> frame = cn.CoordinateFrame(2)
    >>> family = control.LinearlyParametrizedSystem(
    ...     lambda pi: cn.MechanicalSystem(cn.ConstantMetric(frame, jnp.diag(pi))), nominal=[1.0, 2.0]
    ... )
    >>> family.regressor([0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.5, 3.0])  # H = diag(pi)
    array([[0.5, 0. ],
           [0. , 3. ]])
    """

    make_system: Callable[[jax.Array], MechanicalSystem]
    nominal: Any
    _nominal_system: MechanicalSystem = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_function("make_system", self.make_system, "parameters (p,) -> MechanicalSystem")
        nominal = one_vector("nominal", self.nominal)
        if nominal.size == 0:
            raise ShapeError("nominal", "(p,) with p >= 1", nominal.shape)
        object.__setattr__(self, "nominal", nominal)
        object.__setattr__(self, "_nominal_system", unwrap(self.make_system)(self.nominal))

    @property
    def frame(self) -> FrameField:
        """The frame of every member."""
        return self._nominal_system.metric.frame

    @property
    def size(self) -> int:
        """The number p of parameters."""
        return int(self.nominal.size)

    def regressor_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> jax.Array:
        """Y (n, p) at one point: d/d pi of H a_r + C v_r + g."""
        Y: jax.Array = jax.jacfwd(self._force_at)(self.nominal, q, v, v_r, a_r)
        return Y

    def regressor(self, q: Any, v: Any, v_r: Any, a_r: Any) -> Array:
        """Y, (..., n, p), with H a_r + C(q, v) v_r + g = Y pi.

        Parameters
        ----------
        q : (..., nq) configurations.
        v, v_r, a_r : (..., n) velocity, reference velocity and its rate, frame components.

        Raises
        ------
        ShapeError, NonFiniteError, and the errors of frame and metric at q.

        Source: [W] IV-A, Slotine-Li regressor.
        """
        return evaluate(self, self.regressor_at, *self._arguments(q, v, v_r, a_r))

    def check_linear(self, q: Any, v: Any, v_r: Any, a_r: Any, tol: float = 1e-9) -> Check:
        """Whether Y pi equals the force at the nominal parameters and at three times them.

        A force with a part that is constant in pi, or not linear, fails.
        """
        measured = evaluate(self, self._nonlinear_part_at, *self._arguments(q, v, v_r, a_r))
        return worst_check("linear in the parameters", measured, tol)

    def _nonlinear_part_at(self, q: jax.Array, *rest: jax.Array) -> tuple[jax.Array, jax.Array]:
        Y = self.regressor_at(q, *rest)
        scaled = [factor * self.nominal for factor in (1.0, 3.0)]
        gaps = jnp.stack([self._force_at(pi, q, *rest) - Y @ pi for pi in scaled])
        terms = jnp.abs(Y) @ jnp.abs(scaled[1])
        H = self._nominal_system.metric.matrix_at(q)
        allowed = lengths_of(H) * jnp.max(inverse_lengths_of(H) * terms)
        return worst(gaps, terms + FLOOR * allowed)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether frame and metric of the nominal system are valid at q; one boolean."""
        return self._nominal_system.valid_at(q)

    def explain(self, q: Any) -> None:
        """Raise the error of the frame or the metric for a point that is not valid."""
        self._nominal_system.explain(q)

    def _force_at(
        self, pi: jax.Array, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array
    ) -> jax.Array:
        force: jax.Array = unwrap(self.make_system)(pi).reference_force_at(q, v, v_r, a_r)
        return force

    def _arguments(self, q: Any, v: Any, v_r: Any, a_r: Any) -> list[Argument]:
        n = self.frame.dim
        vectors = [Argument(name, x, (n,)) for name, x in (("v", v), ("v_r", v_r), ("a_r", a_r))]
        return [Argument("q", q, (self.frame.ambient_dim,)), *vectors]


@dataclass(frozen=True, eq=False)
class AdaptiveController(Parametrized):
    """tau = known force + Y pihat - K_D s, pihat_dot = -P Y^T s.

    Parameters
    ----------
    family : what is known and what is not: a `LinearlyParametrizedSystem`, or `UnknownInertia` of a robot.
    gain : K_D, scalar, (n,) or (n, n), positive definite.
    adaptation : P, scalar, (p,) or (p, p), symmetric positive definite.

    Raises
    ------
    ShapeError, NonFiniteError, GainError.

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

    Source: Slotine and Li (1987); [W] IV-A.
    """

    family: Parametrization
    gain: Any
    adaptation: Any

    def __post_init__(self) -> None:
        require_type(
            "family", self.family, Parametrization, "write AdaptiveController(family, gain, adaptation)"
        )
        P = gain_matrix("adaptation P", self.adaptation, self.family.size, symmetric=True)
        object.__setattr__(self, "gain", gain_matrix("gain K_D", self.gain, self.family.frame.dim))
        object.__setattr__(self, "adaptation", P)

    def learned(self, Y: Any, s: Any, parameters: Any) -> Any:
        """Y pihat - K_D s, (..., n), of arrays of NumPy or JAX: Y (..., n, p), s, pihat."""
        return (Y @ parameters[..., None])[..., 0] - s @ self.gain.T

    def learning(self, Y: Any, s: Any) -> Any:
        """-P Y^T s, (..., p), of arrays of NumPy or JAX: Y (..., n, p), s."""
        return (s[..., None, :] @ Y)[..., 0, :] @ -self.adaptation.T

    def torque(self, q: Any, v: Any, v_r: Any, a_r: Any, parameters: Any) -> Array:
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

    def parameters_rate(self, q: Any, v: Any, v_r: Any, a_r: Any) -> Array:
        """pihat_dot = -P Y^T s, (..., p): how the estimates change.

        Parameters
        ----------
        q : (..., nq) configurations.
        v, v_r, a_r : (..., n) velocity, reference velocity and its rate.

        Raises
        ------
        ShapeError, NonFiniteError, and the errors of the family at q.

        Source: Slotine and Li (1987).
        """
        rate: Array = self.learning(self.family.regressor(q, v, v_r, a_r), sliding(v, v_r))
        return rate

    def lyapunov(self, plant: MechanicalSystem, q: Any, s: Any, error: Any) -> Array:
        """V = (1/2) s^T H s + (1/2) pi~^T P^-1 pi~, (...,), J; its rate is -s^T K_D s.

        Parameters
        ----------
        plant : the system as it is; H is its mass matrix.
        q : (..., nq) configurations.
        s : (..., n) v - v_r.
        error : (..., p) pi~ = pihat - pi.
        """
        s, error = (
            as_array(*given)
            for given in (("s", s, (len(self.gain),)), ("error", error, (len(self.adaptation),)))
        )
        rest = (error * (error @ np.linalg.inv(self.adaptation))).sum(-1)
        return finite("V", 0.5 * ((s * plant.momentum(q, s)).sum(-1) + rest), s=s, error=error)


@dataclass(frozen=True, eq=False)
class AdaptiveLoop(Loop):
    """A plant, an adaptive controller and the reference that it follows.

    Parameters
    ----------
    controller : the law, whose family is a `LinearlyParametrizedSystem`.
    parameters : (p,) parameters of the plant, which is ``family.make_system(parameters)``.
    reference : what to follow.

    Raises
    ------
    ShapeError, NonFiniteError, FrameError, TypeError.

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
        require_type("family", self.controller.family, LinearlyParametrizedSystem)
        require_type("reference", self.reference, Reference, call)
        require_same_frame(self.family.frame, "the family", self.reference.frame, "the reference")
        parameters = one_vector("parameters", self.parameters, self.family.size)
        object.__setattr__(self, "parameters", parameters)
        object.__setattr__(self, "plant", unwrap(self.family.make_system)(self.parameters))

    @property
    def family(self) -> LinearlyParametrizedSystem:
        """The systems among which the controller looks."""
        family: Any = self.controller.family
        return cast("LinearlyParametrizedSystem", family)

    def lyapunov_at(self, q: jax.Array, s: jax.Array, parameters: jax.Array) -> jax.Array:
        """V = (1/2) s^T H s + (1/2) pi~^T P^-1 pi~, pi~ the error of `parameters` (p,)."""
        error = parameters - self.parameters
        kinetic = s @ self.plant.metric.matrix_at(q) @ s
        V: jax.Array = 0.5 * (kinetic + error @ solve(self.controller.adaptation, error))
        return V

    def simulate(
        self,
        q0: Any,
        v0: Any,
        initial: Any,
        times: Any,
        **options: Unpack[Options],
    ) -> AdaptiveMotion:
        """The motion from (q0, v0) with the estimate starting at `initial`.

        Parameters
        ----------
        initial : (..., p) first estimate.
        q0, v0, times, options : as for `ClosedLoop.simulate`.

        Raises
        ------
        As `ClosedLoop.simulate`.
        """
        first = Argument("initial", initial, (self.family.size,))
        motion: AdaptiveMotion = self._motion(q0, v0, times, options, first)
        return motion

    def _start_at(self, *given: jax.Array) -> tuple[Any, ...]:
        return *given, self.reference.initial_state(*given[:2])

    def _rate_at(self, t: jax.Array, y: tuple[Any, ...], *given: jax.Array) -> tuple[Any, ...]:
        q, v, parameters, state = y
        v_r, a_r = self.reference.pair_at(t, q, v, state)
        Y, s = self.family.regressor_at(q, v, v_r, a_r), v - v_r
        v_dot = self.plant.forward_dynamics_at(q, v, self.controller.learned(Y, s, parameters), t)
        rate = self.controller.learning(Y, s)
        return self.frame.matrix_at(q) @ v, v_dot, rate, self.reference.state_rate_at(t, q, v, state)

    def _entry_at(
        self, t: jax.Array, y: tuple[Any, ...], *given: jax.Array
    ) -> tuple[AdaptiveMotion, jax.Array, jax.Array]:
        q, v, parameters, state = y
        v_r, a_r = self.reference.pair_at(t, q, v, state)
        s = v - v_r
        motion = AdaptiveMotion(
            t,
            q,
            v,
            v_r,
            a_r,
            self.controller.learned(self.family.regressor_at(q, v, v_r, a_r), s, parameters),
            self.lyapunov_at(q, s, parameters),
            s @ (self.plant.forces_at(t, q, v) - self.controller.gain @ s),
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
        known = jnp.abs(self.parameters) + jnp.abs(parameters)  # each has a unit of its own
        return *motion_units(self.frame, metric, q), known, self.reference.state_units_at(metric, q, state)
