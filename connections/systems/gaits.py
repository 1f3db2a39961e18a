"""Gaits: vehicles that move because their inputs drive the shape around a cycle.

The shape coordinates follow r(t) = offset + amplitude sin(frequency t + phase) exactly; the controls are
computed for that. The rest of the velocity follows from the connection. With V = A v, J = dr . X, rdot = J V
and Vdot = P H^-1 F_a u^a + ..., the controls are u = (J P H^-1 F)^-1 (rddot - Jdot V - J (Vdot at u = 0)). If
the inputs do no work on the other basis fields, as in [Z]'s bases, the velocities along these fields obey
vdot^i = -Gamma^i_jk v^j v^k, in which rdot gives the other velocities. Source: [Z] sections 4, 5; [O] for the
snakeboard's gaits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike, solve
from connections.affine.motions.flow import Flow, Record, State, Trajectories
from connections.affine.motions.motion import Motion
from connections.affine.motions.units import motion_units
from connections.checks import (
    ShapeError,
    as_array,
    as_number,
    batch_axes,
    require_duration,
    require_finite,
    require_indices,
    require_positive_int,
    require_text,
    require_type,
)
from connections.coriolis.nonholonomic import TOLERANCE, NonholonomicSystem, require_no_drift
from connections.coriolis.system import Forces
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.parameters import PytreePartial, WithCache, cache_of
from connections.geometry.frames import FrameField
from connections.integration.solver import Options, Solver


@dataclass(frozen=True, eq=False)
class Gait:
    """Sinusoidal motion of s shape coordinates: offset + amplitude sin(frequency t + phase).

    Parameters
    ----------
    name : for titles.
    amplitude, frequency, phase, offset : (s,) each; amplitude and offset in the units of the coordinates,
        frequency in rad/s, phase in rad.
    period : duration of one cycle [s].

    Examples
    --------
    >>> import numpy as np
    >>> from connections import systems
    >>> swing = systems.Gait("swing", [0.5], [2.0 * np.pi], [0.0], [0.1], period=1.0)
    >>> swing.times(cycles=1, per_cycle=4)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    >>> swing.shape([0.0, 0.25, 0.75])
    array([[ 0.1],
           [ 0.6],
           [-0.4]])
    """

    name: str
    amplitude: Any
    frequency: Any
    phase: Any
    offset: Any
    period: float

    def __post_init__(self) -> None:
        require_text("name", self.name)
        object.__setattr__(self, "period", require_duration("period", self.period))
        s = as_array("amplitude", self.amplitude, (None,)).shape
        for name in ("amplitude", "frequency", "phase", "offset"):
            value = as_array(name, getattr(self, name), (None,))
            require_finite(name, value)
            if value.shape != s:
                raise ShapeError(f"{name} of the gait", s, value.shape)
            object.__setattr__(self, name, value)

    @property
    def parameters(self) -> np.ndarray:
        """Amplitude, frequency, phase and offset, (4, s)."""
        return np.stack([self.amplitude, self.frequency, self.phase, self.offset])

    def times(self, cycles: int, per_cycle: int = 1) -> np.ndarray:
        """Times from 0 to the end of the last cycle, (cycles * per_cycle + 1,) [s]."""
        require_positive_int("cycles", cycles)
        require_positive_int("per_cycle", per_cycle)
        return np.linspace(0.0, cycles * self.period, cycles * per_cycle + 1)

    def shape(self, t: Any) -> np.ndarray:
        """r(t), (..., s), at times (...,)."""
        t = np.asarray(as_array("t", t, ()))[..., None]
        require_finite("t", t[..., 0])
        shape: np.ndarray = self.offset + self.amplitude * np.sin(self.frequency * t + self.phase)
        return shape


@dataclass(frozen=True, eq=False)
class Locomotion(WithCache):
    """A nonholonomic vehicle whose inputs drive some of its coordinates along gaits.

    Parameters
    ----------
    system : the vehicle, with as many inputs as driven coordinates.
    driven : indices in q of the shape coordinates r (s,).

    Raises
    ------
    ShapeError : the numbers of inputs and driven coordinates differ.
    ConstraintError : the system has a drift.

    Examples
    --------
    A roller racer moves because its handlebar swings.

    >>> from connections import systems
    >>> racer = systems.Locomotion(systems.roller_racer().numeric(), driven=(3,))
    >>> gait = systems.roller_racer_gait()
    >>> motion = racer.simulate(gait, gait.times(cycles=2))
    >>> motion.q[:, 0].round(2)  # x [m]: it gains speed in every swing
    array([ 0.  , -0.07, -0.29])
    """

    system: NonholonomicSystem
    driven: tuple[int, ...]

    def __post_init__(self) -> None:
        require_type("system", self.system, NonholonomicSystem)
        require_no_drift("Locomotion", self.system)
        driven = require_indices("driven", self.driven, self.system.frame.ambient_dim)
        object.__setattr__(self, "driven", driven)
        if self.system.controls != len(self.driven):
            raise ShapeError("driven coordinates", (self.system.controls,), (len(self.driven),))

    # --- the definition at one point ---------------------------------------------------------------------

    def control_at(self, t: Any, q: jax.Array, v: jax.Array, gait: jax.Array) -> jax.Array:
        """u (a,) for which rddot is the gait's, gait (4, s) as in `Gait.parameters`."""
        return self._controlled_at(t, q, self.system.velocity_at(q, v), gait)[0]

    def rates_at(self, t: Any, q: jax.Array, v: jax.Array, gait: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(qdot, vdot) under the control of `control_at`, (nq,) and (m,)."""
        u = self.control_at(t, q, v, gait)
        return self.system.frame.matrix_at(q) @ v, self.system.forward_dynamics_at(q, v, u, t)

    def start_at(self, pose: jax.Array, gait: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(q, v), (nq,) and (m,), at t = 0: the gait's shape, set in motion by an impulse of the inputs."""
        q, V = self._driven_at(jnp.asarray(0.0), pose, jnp.zeros(self._base.dim), gait)
        return q, self.system.components_at(q, V)

    @property
    def frame(self) -> FrameField:
        """The frame of v, the system's."""
        return self.system.frame

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the system is valid at q; one boolean."""
        return self.system.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """Raise the error that says why the system is not valid at q (nq,)."""
        self.system.explain(q)

    # --- public functions ----------------------------------------------------------------------------------

    def start(self, gait: Gait, pose: ArrayLike | None = None) -> tuple[Array, Array]:
        """(q, v), (..., nq) and (..., m), at t = 0: the gait's shape and rate, no momenta along other fields.

        Parameters
        ----------
        gait : the gait.
        pose : (..., nq) points, whose driven coordinates are replaced; the origin if None.
        """
        pose = np.zeros(self.system.frame.ambient_dim) if pose is None else pose
        return evaluate(self, self.start_at, *self._arguments(pose=pose), self._gait(gait))

    def rates(self, t: ArrayLike, q: ArrayLike, v: ArrayLike, gait: Gait) -> tuple[Array, Array]:
        """(qdot, vdot), (..., nq) and (..., m), at time t with the shape driven.

        Parameters
        ----------
        t : (...,) times [s].
        q, v : (..., nq) points and (..., m) velocities in the basis.
        gait : the gait.
        """
        arguments = (*self._arguments(q=q, v=v), self._gait(gait), Argument("t", t, ()))
        return evaluate(self, self._rates_of_point_at, *arguments)

    def control(self, gait: Gait) -> Forces:
        """The control (t, q, v) -> u (a,) for ``system.simulate``; the same function for the same gait."""
        require_type("gait", gait, Gait)
        made: dict[Gait, Forces] = cache_of(self).setdefault("_control", {})
        if gait not in made:
            parameters = gait.parameters
            made[gait] = lambda t, q, v: self.control_at(t, q, v, jnp.asarray(parameters))
        return made[gait]

    def simulate(self, gait: Gait, times: ArrayLike, pose: Any = None, **options: Unpack[Options]) -> Motion:
        """The motion from the gait's start, with the shape driven; compiled once for all gaits.

        Parameters
        ----------
        gait : the gait.
        times : (T,) strictly monotone, the first is zero [s].
        pose : as for `start`.
        options : as for the system's `simulate`.

        Returns
        -------
        Motion : q (..., T, nq) and v (..., T, m). Tolerances are those of the system's `simulate`; the shape
            is exact.

        Raises
        ------
        IntegrationError : the constraints lose rank on the way, or the basis is singular at a requested time;
            names the time and the point.
        """
        q0, v0 = self.start(gait, pose)
        arguments = (*self._arguments(q0=q0, v0=v0), self._gait(gait))
        solver = Solver.of("simulate", options, TOLERANCE / 2.0)
        return Trajectories.of(self).motion("gait", PytreePartial(self._flow), arguments, times, solver)

    # --- private -------------------------------------------------------------------------------------------

    @property
    def _base(self) -> FrameField:
        """The ambient frame, in which V = A v is given."""
        return self.system.connection.ambient.frame

    def _flow(self) -> Flow[State]:
        """The equations of motions that a gait drives; the state is (q, V = A v)."""

        def start(q0: jax.Array, v0: jax.Array, parameters: jax.Array) -> tuple[jax.Array, jax.Array]:
            return q0, self.system.velocity_at(q0, v0)

        def rate(t: Any, state: Any, q0: Any, v0: Any, parameters: jax.Array) -> tuple[jax.Array, jax.Array]:
            p, V = self._driven_at(t, state[0], state[1], parameters)
            return self._base.matrix_at(p) @ V, self._controlled_at(t, p, V, parameters)[1]

        def units(t0: Any, s: Any, state: Any, *given: jax.Array) -> tuple[jax.Array, jax.Array]:
            return motion_units(self._base, self.system.connection.ambient_metric, state[0])

        def record(t: Any, state: Any, q0: Any, v0: Any, parameters: jax.Array) -> Record[State]:
            p, V = self._driven_at(t, state[0], state[1], parameters)
            return (p, self.system.components_at(p, V)), p, jnp.asarray(True)

        return Flow(start, rate, record, units, timed=True)

    def _rates_of_point_at(
        self, q: jax.Array, v: jax.Array, gait: jax.Array, t: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        return self.rates_at(t, q, v, gait)

    def _driven_at(self, t: Any, q: jax.Array, V: jax.Array, gait: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(q, V), with the gait's shape and its rate at time t; an impulse of the inputs changes V."""
        places = jnp.array(self.driven)
        r, r_dot, _ = _sinusoids(gait, t)
        q = q.at[places].set(r)
        V = self.system.connection.feasible_at(q, V)
        J, Y = self._base.matrix_at(q)[places], self._inputs_at(q)
        return q, V + Y @ solve(J @ Y, r_dot - J @ V)

    def _controlled_at(
        self, t: Any, q: jax.Array, V: jax.Array, gait: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """(u, Vdot), (a,) and (n,): the controls that give the gait's rddot, and the acceleration."""
        base, places = self._base, jnp.array(self.driven)
        free = self.system.acceleration_at(q, V, jnp.zeros(self.system.controls), t)
        q_dot = base.matrix_at(q) @ V
        J, turned = jax.jvp(lambda p: base.matrix_at(p)[places], (q,), (q_dot,))
        Y = self._inputs_at(q)
        u = solve(J @ Y, _sinusoids(gait, t)[2] - turned @ V - J @ free)
        return u, free + Y @ u

    def _inputs_at(self, q: jax.Array) -> jax.Array:
        """P H^-1 F^T, (n, a): the accelerations that the inputs cause."""
        raised = solve(self.system.connection.ambient_metric.matrix_at(q), self.system.inputs_at(q).T)
        return self.system.connection.feasible_at(q, raised)

    def _arguments(self, **given: Any) -> list[Argument]:
        nq, m = self.system.frame.ambient_dim, self.system.frame.dim
        return [Argument(name, value, (m if name[0] == "v" else nq,)) for name, value in given.items()]

    def _gait(self, gait: Gait) -> Argument:
        require_type("gait", gait, Gait)
        return Argument("gait", gait.parameters, (4, len(self.driven)))


def displacement(start: ArrayLike, end: ArrayLike) -> np.ndarray:
    """(dx, dy, dtheta) of a planar vehicle, (..., 3), in its body axes at the start.

    Parameters
    ----------
    start, end : (..., nq) points (x, y, theta, ...).

    Examples
    --------
    A vehicle that heads along y has moved ahead by 2 m.

    >>> import numpy as np
    >>> from connections import systems
    >>> systems.displacement([1.0, 1.0, np.pi / 2], [1.0, 3.0, np.pi / 2]).round(12)
    array([2., 0., 0.])
    """
    start, end = (np.asarray(as_array(name, x, (None,))) for name, x in (("start", start), ("end", end)))
    for name, points in (("start", start), ("end", end)):
        if points.shape[-1] < 3:
            raise ShapeError(name, ("...", "nq >= 3"), points.shape)
        require_finite(name, points)
    batch_axes(("start", "end"), (start, end))
    c, s = np.cos(start[..., 2]), np.sin(start[..., 2])
    dx, dy = np.moveaxis(end[..., :2] - start[..., :2], -1, 0)
    return np.stack([c * dx + s * dy, c * dy - s * dx, end[..., 2] - start[..., 2]], axis=-1)


def sinusoidal(
    name: str, amplitude: Any, ratio: Any, period: float, phase: Any = None, offset: Any = None
) -> Gait:
    """The gait with the frequencies 2 pi ratio / period [rad/s].

    Parameters
    ----------
    name : for titles.
    amplitude, phase, offset : (s,); phase and offset are zero by default.
    ratio : (s,) integers.
    period : duration of one cycle [s].
    """
    zero = np.zeros(as_array("amplitude", amplitude, (None,)).shape)
    period = require_duration("period", period)
    frequency = 2.0 * np.pi / period * np.asarray(ratio, dtype=np.float64)
    return Gait(
        name,
        amplitude,
        frequency,
        zero if phase is None else phase,
        zero if offset is None else offset,
        period,
    )


def snakeboard_gaits() -> dict[str, Gait]:
    """Gaits of (psi, phi) by name: drive 1:1, rotate 2:1, park 3:2.

    The frequency ratios are those of [O]; amplitudes and phases are chosen here. Drive gains speed in every
    cycle, rotate turns and park moves sideways, both with a momentum that is zero after every cycle.

    Examples
    --------
    >>> from connections import systems
    >>> board = systems.Locomotion(systems.snakeboard().numeric(), driven=(3, 4))
    >>> gait = systems.snakeboard_gaits()["drive"]
    >>> motion = board.simulate(gait, gait.times(cycles=2))
    >>> systems.displacement(motion.q[:-1], motion.q[1:])[:, 0].round(2)  # ahead in each cycle [m]
    array([0.16, 0.47])

    Source: [O].
    """
    quarter = np.pi / 2.0
    return {
        "drive": sinusoidal("drive", (-0.7, 0.4), (1, 1), 2.0, phase=(quarter, quarter)),
        "rotate": sinusoidal("rotate", (0.7, 0.7), (2, 1), 2.0),
        "park": sinusoidal("park", (-1.2, 0.8), (3, 2), 4.0),
    }


def roller_racer_gait(amplitude: float = 0.6, period: float = 1.0) -> Gait:
    """The gait of a handlebar that swings about straight ahead; the racer gains speed in every swing.

    Parameters
    ----------
    amplitude : of psi [rad].
    period : of a swing [s].

    Examples
    --------
    >>> from connections import systems
    >>> gait = systems.roller_racer_gait(amplitude=0.4, period=2.0)
    >>> gait.shape([0.0, 0.5, 1.5]).ravel()  # psi at the beginning, and at its turning points [rad]
    array([ 0. ,  0.4, -0.4])
    """
    return sinusoidal("swing", (as_number("amplitude", amplitude),), (1,), period)


def _sinusoids(gait: jax.Array, t: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """r, rdot and rddot at time t, (s,) each."""
    amplitude, frequency, phase, offset = gait
    s, c = jnp.sin(frequency * t + phase), jnp.cos(frequency * t + phase)
    return offset + amplitude * s, amplitude * frequency * c, -amplitude * frequency**2 * s
