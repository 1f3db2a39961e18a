"""The momentum observer: an estimate of the forces that nobody measured.

    p = H v,     pdot = tau + C^T v - g + f,     r = K (p - p_0 - int (tau + C^T v - g + r) dt)

gives ``rdot = K (f - r)``: each component of r follows the unknown force f with time constant 1/K. It needs
C^T v = Hdot v - C v, the same for every connection compatible with the metric that has Riemannian geodesics;
with another one r is biased by the difference.
Source: [W] II; De Luca, Albu-Schaeffer, Haddadin and Hirzinger (2006).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import jax
import jax.numpy as jnp

from connections._jax import Array, ArrayLike
from connections.affine import AffineConnection
from connections.affine.motions.flow import Flow, Record, Trajectories
from connections.affine.motions.units import motion_units
from connections.checks import as_array, require_function, require_same_frame, require_shape, require_type
from connections.control.laws.gains import Certifiable, finite, gain_matrix
from connections.control.laws.results import ObservedMotion
from connections.coriolis import MechanicalSystem
from connections.coriolis.system import FORCES, terms_beside
from connections.evaluation.boundary import Argument
from connections.evaluation.parameters import Parametrized, PytreePartial
from connections.geometry import FrameField
from connections.geometry.numerics.scales import lengths_of
from connections.integration.solver import Options, Solver


@dataclass(frozen=True, eq=False)
class MomentumObserver(Certifiable, Parametrized):
    """r = K (p - z), zdot = tau + C^T v - g + r, with z starting at p.

    Parameters
    ----------
    model : the observer's estimate of the plant, such as ``robot.system()``; its `forces` are known.
    gain : K, scalar, (n,) or (n, n), positive definite, 1/s; one of `gains_from` is printed with its proof.
    connection : the connection whose C^T v is used; None takes the model's.

    Raises
    ------
    ShapeError, NonFiniteError, GainError; FrameError if model and connection are in different frames.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import control
    >>> metric = cn.ConstantMetric(cn.CoordinateFrame(1), [[2.0]])
    >>> pushed = cn.MechanicalSystem(metric, forces=lambda t, q, v: 3.0 + 0.0 * q)  # N
    >>> observer = control.MomentumObserver(cn.MechanicalSystem(metric), gain=5.0)
    >>> motion = observer.simulate(pushed, [0.0], [0.0], [0.0, 0.2, 4.0])
    >>> motion.residual.round(3)  # 3 (1 - exp(-5 t))
    array([[0.   ],
           [1.896],
           [3.   ]])

    Source: [W] II.
    """

    model: MechanicalSystem
    gain: Any
    connection: AffineConnection | None = None

    def __post_init__(self) -> None:
        require_type("model", self.model, MechanicalSystem, "write MomentumObserver(system, gain)")
        if self.connection is not None:
            object.__setattr__(self, "model", self.model.with_connection(self.connection))
        self._keep_certificates(gain="K")
        object.__setattr__(self, "gain", gain_matrix("gain K", self.gain, self.model.frame.dim))
        object.__setattr__(self, "connection", self.model.connection)

    def residual_at(self, q: jax.Array, v: jax.Array, z: jax.Array) -> jax.Array:
        """The estimate r = K (p - z), (n,)."""
        r: jax.Array = self.gain @ (self.model.momentum_at(q, v) - z)
        return r

    def state_rate_at(
        self, t: jax.Array, q: jax.Array, v: jax.Array, tau: jax.Array, z: jax.Array
    ) -> jax.Array:
        """Rate of z: tau + C^T v - g + known forces + r, (n,)."""
        return tau + self.model.momentum_rate_at(q, v, t) + self.residual_at(q, v, z)

    def momentum(self, q: ArrayLike, v: ArrayLike) -> Array:
        """The momentum p = H v, (..., n) covector components; the observer's first state.

        Parameters
        ----------
        q : (..., nq) configurations.
        v : (..., n) velocities, frame components.
        """
        return self.model.momentum(q, v)

    def residual(self, q: Any, v: Any, z: Any) -> Array:
        """The estimate r = K (H v - z), (..., n), covector components.

        Parameters
        ----------
        q, v : (..., nq), (..., n) measured state.
        z : (..., n) state of the observer.
        """
        z = as_array("z", z, (len(self.gain),))
        return finite("the residual", (self.model.momentum(q, v) - z) @ self.gain.T, z=z)

    def state_rate(self, q: Any, v: Any, tau: Any, z: Any, t: float = 0.0) -> Array:
        """Rate of z: tau + C^T v - g + known forces + r, (..., n), covector components.

        Parameters
        ----------
        q, v : (..., nq), (..., n) measured state.
        tau : (..., n) control.
        z : (..., n) state of the observer.
        t : (...,) time at which the known forces are evaluated, s.

        Source: [W] II.
        """
        tau, z = (as_array(name, x, (len(self.gain),)) for name, x in (("tau", tau), ("z", z)))
        r = (self.model.momentum(q, v) - z) @ self.gain.T
        return finite("the rate of z", tau + self.model.momentum_rate(q, v, t) + r, tau=tau, z=z)

    def simulate(
        self,
        plant: MechanicalSystem,
        q0: ArrayLike,
        v0: ArrayLike,
        times: ArrayLike,
        control: Any = None,
        **options: Unpack[Options],
    ) -> ObservedMotion:
        """The plant under `control`, its forces unknown to the observer, and the observer's residual.

        Parameters
        ----------
        plant : the true system; what its `forces` exceed the model's is what the residual estimates.
        q0, v0 : (..., nq) and (..., n) start, v0 in frame components.
        times : (T,) increasing, s.
        control : (t, q, v) -> tau (n,), known to the observer; None is zero. JAX-traceable.
        options : ``rtol``, ``max_step`` and others (`Options`, docs/motions.md).

        Raises
        ------
        ShapeError, NonFiniteError, FrameError, the errors of frame and metric at q0, IntegrationError;
        ValueError if an option is not positive, TypeError if there is no such option.
        """
        require_type("plant", plant, MechanicalSystem)
        if control is not None:
            require_function("control", control, FORCES)
        require_same_frame(self.frame, "the observer's model", plant.metric.frame, "the plant")
        n, frame = plant.metric.frame.dim, plant.metric.frame
        start = Argument("q0", q0, (frame.ambient_dim,)), Argument("v0", v0, (n,))

        solver = Solver.of("simulate", options)
        return Trajectories.of(self).motion(
            "simulate", PytreePartial(self._flow, plant, control), start, times, solver
        )

    @property
    def frame(self) -> FrameField:
        """The frame of the model."""
        return self.model.metric.frame

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the model is defined at q; one boolean."""
        return self.model.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """Raise the model's error for a point that is not valid."""
        self.model.explain(q)

    def _flow(self, plant: MechanicalSystem, control: Any) -> Flow[ObservedMotion]:
        """The plant and the observer, together."""
        n, frame = plant.metric.frame.dim, plant.metric.frame

        def begin(q0: jax.Array, v0: jax.Array) -> tuple[Any, ...]:
            return q0, v0, self.model.momentum_at(q0, v0)

        def control_at(t: jax.Array, q: jax.Array, v: jax.Array) -> jax.Array:
            if control is None:
                return jnp.zeros(n)
            return require_shape("control(t, q, v)", control(t, q, v), (n,))

        def rate(t: jax.Array, y: tuple[Any, ...], *given: jax.Array) -> tuple[Any, ...]:
            q, v, z = y
            tau = control_at(t, q, v)
            v_dot = plant.forward_dynamics_at(q, v, tau, t)
            return frame.matrix_at(q) @ v, v_dot, self.state_rate_at(t, q, v, tau, z)

        def terms(t: jax.Array, y: tuple[Any, ...], *given: jax.Array) -> tuple[Any, ...]:
            return terms_beside(plant, t, y, rate(t, y, *given))

        def project(y: tuple[Any, ...]) -> tuple[Any, ...]:
            return frame.project_at(y[0]), *y[1:]

        def units(t0: jax.Array, s: jax.Array, y: tuple[Any, ...], *given: jax.Array) -> tuple[Any, ...]:
            return *motion_units(frame, plant.metric, y[0]), lengths_of(plant.metric.matrix_at(y[0]))

        def record(t: jax.Array, y: tuple[Any, ...], *given: jax.Array) -> Record[ObservedMotion]:
            q, v, z = y
            p, r = self.model.momentum_at(q, v), self.residual_at(q, v, z)
            return ObservedMotion(t, q, v, control_at(t, q, v), p, r), q, jnp.asarray(True)

        return Flow(begin, rate, record, units, project=project, timed=True, terms=terms)
