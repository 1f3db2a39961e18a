"""Systems linear in their parameters, the regressor, and the adaptation law.

    H vdot_r + C v_r + g = Y(q, v, v_r, vdot_r) pi,     pihat_dot = -P Y^T s,
    V = (1/2) s^T H s + (1/2) pi~^T P^-1 pi~,           Vdot = -s^T K_D s.

The regressor is the Jacobian in pi, exact because the force is linear in pi.
Source: Slotine and Li (1987); [W] IV-A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, solve
from connections.affine.motions.flow import Flow, Trajectories, as_max_step
from connections.affine.motions.sizes import motion_sizes
from connections.checks import (
    Check,
    ShapeError,
    as_array,
    require_finite,
    require_function,
    require_same_frame,
    require_type,
)
from connections.control.laws.gains import gain_matrix
from connections.control.laws.passivity import reference_force_at
from connections.control.laws.references import Reference
from connections.control.laws.results import AdaptiveMotion
from connections.coriolis import MechanicalSystem
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.parameters import Bound, Parametrized, plain
from connections.geometry import FrameField
from connections.geometry.numerics.scales import (
    FLOOR,
    inverse_lengths_of,
    lengths_of,
    worst,
    worst_check,
)
from connections.integration.tolerances import ATOL, RTOL


@dataclass(frozen=True, eq=False)
class LinearlyParametrizedSystem(Parametrized):
    """A family of mechanical systems whose H, C and g are linear in p parameters.

    Parameters
    ----------
    make_system : pi (p,) -> MechanicalSystem, always in the same frame; JAX-traceable in pi.
    nominal : (p,) parameters at which the system is valid; the regressor does not depend on them.

    Raises
    ------
    ShapeError, NonFiniteError.
    """

    make_system: Callable[[jax.Array], MechanicalSystem]
    nominal: Any
    _nominal_system: MechanicalSystem = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_function("make_system", self.make_system, "parameters (p,) -> MechanicalSystem")
        nominal = np.asarray(as_array("nominal", self.nominal, (None,)))
        if nominal.ndim != 1 or nominal.size == 0:
            raise ShapeError("nominal", "(p,) with p >= 1", nominal.shape)
        require_finite("nominal", nominal)
        object.__setattr__(self, "nominal", jnp.asarray(nominal))
        object.__setattr__(self, "_nominal_system", plain(self.make_system)(self.nominal))

    @property
    def frame(self) -> FrameField:
        """The frame of every member."""
        return self._nominal_system.metric.frame

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
        return reference_force_at(plain(self.make_system)(pi), q, v, v_r, a_r)

    def _arguments(self, q: Any, v: Any, v_r: Any, a_r: Any) -> list[Argument]:
        n = self.frame.dim
        vectors = [Argument(name, x, (n,)) for name, x in (("v", v), ("v_r", v_r), ("a_r", a_r))]
        return [Argument("q", q, (self.frame.ambient_dim,)), *vectors]


@dataclass(frozen=True, eq=False)
class AdaptiveLoop(Parametrized):
    """A plant under tau = Y pihat - K_D s with pihat_dot = -P Y^T s.

    Parameters
    ----------
    family : the systems among which the controller looks.
    parameters : (p,) those of the plant; the plant is ``family.make_system(parameters)``.
    gain : K_D, scalar, (n,) or (n, n), positive definite.
    adaptation : P, scalar, (p,) or (p, p), symmetric positive definite.
    reference : what to follow.

    Raises
    ------
    ShapeError, NonFiniteError, GainError, FrameError.

    Source: Slotine and Li (1987); [W] IV-A.
    """

    family: LinearlyParametrizedSystem
    parameters: Any
    gain: Any
    adaptation: Any
    reference: Reference
    plant: MechanicalSystem = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_type("family", self.family, LinearlyParametrizedSystem)
        require_type("reference", self.reference, Reference)
        n, p = self.family.frame.dim, self.family.nominal.size
        require_same_frame(self.family.frame, "the family", self.reference.frame, "the reference")
        object.__setattr__(self, "parameters", _parameter_vector("parameters", self.parameters, p))
        object.__setattr__(self, "gain", gain_matrix("gain K_D", self.gain, n))
        object.__setattr__(
            self, "adaptation", gain_matrix("adaptation P", self.adaptation, p, symmetric=True)
        )
        object.__setattr__(self, "plant", plain(self.family.make_system)(self.parameters))

    def lyapunov_at(self, q: jax.Array, s: jax.Array, parameters: jax.Array) -> jax.Array:
        """V = (1/2) s^T H s + (1/2) pi~^T P^-1 pi~, pi~ the error of `parameters` (p,)."""
        error = parameters - self.parameters
        kinetic = s @ self.plant.metric.matrix_at(q) @ s
        V: jax.Array = 0.5 * (kinetic + error @ solve(self.adaptation, error))
        return V

    def simulate(
        self,
        q0: Any,
        v0: Any,
        initial: Any,
        times: Any,
        rtol: float = RTOL,
        atol: float = ATOL,
        max_step: float | None = None,
    ) -> AdaptiveMotion:
        """The motion from (q0, v0) with the estimate starting at `initial`.

        Parameters
        ----------
        q0, v0 : (..., nq) and (..., n) start, v0 in frame components.
        initial : (..., p) first estimate.
        times : (T,) increasing, s.
        rtol, atol : tolerances of a step, as in `ClosedLoop.simulate`.
        max_step : optional, no step is longer, s. What acts for less than a step may be missed without it.

        Raises
        ------
        ShapeError, NonFiniteError, the errors of frame and metric at q0, IntegrationError; PointError
        for a time outside of the samples of the reference's trajectory; ValueError if `max_step` is not
        positive.
        """
        size = self.family.nominal.size
        start = [
            Argument(name, value, (length,))
            for name, value, length in (
                ("q0", q0, self.frame.ambient_dim),
                ("v0", v0, self.frame.dim),
                ("initial", initial, size),
            )
        ]

        self.reference.require_times("times", times)
        recipe = Bound(self._flow, float(rtol), float(atol), as_max_step(max_step))
        return Trajectories.of(self).motion("simulate", recipe, tuple(start), times)

    @property
    def frame(self) -> FrameField:
        """The frame of plant and reference."""
        return self.family.frame

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the plant's frame and metric are valid at q; one boolean."""
        return self.plant.valid_at(q)

    def explain(self, q: Any) -> None:
        """Raise the error of the plant's frame or metric for a point that is not valid."""
        self.plant.explain(q)

    def _flow(self, rtol: Any, atol: Any, max_step: Any) -> Flow[AdaptiveMotion]:
        return Flow(
            self._start_at,
            self._rate_at,
            self._entry_at,
            self._sizes_at,
            project=self._projected,
            rtol=rtol,
            atol=atol,
            max_step=max_step,
        )

    def _start_at(self, q0: jax.Array, v0: jax.Array, initial: jax.Array) -> tuple[Any, ...]:
        return q0, v0, initial, self.reference.initial_state(q0, v0)

    def _rate_at(self, t: jax.Array, y: tuple[Any, ...], *given: jax.Array) -> tuple[Any, ...]:
        q, v, parameters, state = y
        v_r, a_r = self.reference.pair_at(t, q, v, state)
        Y, s = self.family.regressor_at(q, v, v_r, a_r), v - v_r
        tau = Y @ parameters - self.gain @ s
        v_dot = self.plant.forward_dynamics_at(q, v, tau, t)
        rates = -self.adaptation @ (Y.T @ s), self.reference.state_rate_at(t, q, v, state)
        return self.plant.metric.frame.matrix_at(q) @ v, v_dot, *rates

    def _entry_at(
        self, t: jax.Array, y: tuple[Any, ...], *given: jax.Array
    ) -> tuple[AdaptiveMotion, jax.Array, jax.Array]:
        q, v, parameters, state = y
        v_r, a_r = self.reference.pair_at(t, q, v, state)
        s, damping = v - v_r, self.gain @ (v - v_r)
        motion = AdaptiveMotion(
            t,
            q,
            v,
            v_r,
            a_r,
            self.family.regressor_at(q, v, v_r, a_r) @ parameters - damping,
            self.lyapunov_at(q, s, parameters),
            s @ (self.plant.forces_at(t, q, v) - damping),
            self.reference.desired_at(t),
            self.reference.error_at(t, q),
            parameters=parameters,
        )
        return motion, q, jnp.asarray(True)

    def _sizes_at(
        self, t0: jax.Array, s: jax.Array, y: tuple[Any, ...], *given: jax.Array
    ) -> tuple[Any, ...]:
        q, v, parameters, state = y
        metric = self.plant.metric
        known = jnp.abs(self.parameters) + jnp.abs(parameters)  # each has a unit of its own
        motion = motion_sizes(self.frame, metric, jnp.abs(s), q, v)
        return *motion, known, self.reference.state_sizes_at(metric, q, state)

    def _projected(self, y: tuple[Any, ...]) -> tuple[Any, ...]:
        return self.family.frame.project_at(y[0]), *y[1:]


def _parameter_vector(name: str, value: Any, size: int) -> jax.Array:
    array = np.asarray(as_array(name, value, (size,)))
    if array.ndim != 1:
        raise ShapeError(name, (size,), array.shape)
    require_finite(name, array)
    return jnp.asarray(array)
