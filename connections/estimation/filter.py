"""Filters: estimates that go on in time, and are corrected by measurements.

Every public function is pure. Outside of JAX's transformations it checks its arguments and raises errors;
inside it computes the same, with NaN in place of an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike, in_jax
from connections.affine import AffineConnection
from connections.checks import (
    ConvergenceError,
    IntegrationError,
    NonFiniteError,
    ShapeError,
    as_array,
    as_number,
    finite_results,
    is_traced,
    require_choice,
    require_finite,
    require_function,
    require_positive_int,
    require_same_frame,
    require_type,
)
from connections.coriolis import MechanicalSystem
from connections.engines.internals.jax_names import trace_state_clean
from connections.estimation.displacements import MORE, NEGLIGIBLE
from connections.estimation.estimate import Estimate, History, Innovation, require_covariance
from connections.estimation.predictions import MOST, RTOL, predicted_at
from connections.estimation.sensor import Sensor, as_connection, require_angles, turned_at, turns_of
from connections.estimation.spaces import Phase, Points, Space, linearized_at
from connections.estimation.status import Status
from connections.estimation.updates import (
    Updated,
    UpdateSettings,
    difference_at,
    judged,
    smoothed_at,
    updated_at,
)
from connections.evaluation.boundary import as_given, require_admissible
from connections.evaluation.compilation import compiled_for, shape_of
from connections.evaluation.parameters import Parametrized, PytreePartial, kept
from connections.geometry import FrameField
from connections.geometry.restricted_frame import RestrictedFrame
from connections.multibody.linearization import linearize
from connections.multibody.model import Model


@dataclass(frozen=True, eq=False, repr=False)
class Filter(Parametrized):
    """A Kalman filter on a manifold: predictions, iterated updates, and the reset of the covariance.

    Of points, qdot = X(q) v(q, u, t) + noise in the frame; of mechanical systems, (q, v) under forces u and
    noise of forces. The noise is white. An iterated update with the exact reset is consistent; neither does
    it alone (docs/filters.md).

    Parameters
    ----------
    nabla : the connection whose exp and transport say what an error is; a group's frame stands for its
        torsion-free `CartanSchoutenConnection`, a `SphereFrame` for the connection of its round metric. Or a
        `MechanicalSystem` or a robot, for (q, v): the
        connection is the system's.
    velocity : (q, u, t) -> v (n,), JAX-traceable; None if u is v, constant over a step, in closed form on
        groups. None for mechanical systems.
    noise : (n, n) covariance per second of v, or (q, u, t) -> it; of forces for mechanical systems, or
        (q, v, u, t) -> it.
    reset : "exact"; a connection, whose parallel transport moves the covariance instead; or None.
    iterations : of the update, at most; 1 is the extended Kalman filter.
    prediction_steps : of a prediction, as many of one length; None for as many as `rtol` asks for.
    rtol : of predictions: how far P may be off relative to itself, in every direction, and the state in
        standard deviations.
    on_failure : of an update, "raise" an error, inside JAX's transformations NaN; or "keep" the estimate as
        it was. Either way NIS and the likelihood are NaN inside, and `Innovation.status` says what happened.
    geodesic_steps : of a geodesic that is no closed form, an even number; None for as many as its error asks
        for, which is to be below a thousandth of the standard deviations, as that of P relative to itself.
    connection : of a mechanical system's errors, if not its own: any connection of its frame. The frame
        itself, if it is a group's, stands for its torsion-free `CartanSchoutenConnection`: then a robot's
        errors are moved joint by joint in closed form, which is much faster than geodesics.

    Raises
    ------
    TypeError : nabla is no connection or system; velocity is no function; the frame that is given as a
        connection is no group's, as that of closed chains.
    FrameError : the reset or the connection is in another frame.
    ValueError : the noise is not symmetric positive semidefinite.
    ShapeError, NonFiniteError.

    Examples
    --------
    The attitude of a body with a gyroscope and a star.

    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import estimation
    >>> from connections.geometry.rigid.rotations import rotation_matrix
    >>> attitude = estimation.Filter(cn.SO3Frame(), noise=1e-4 * np.eye(3))
    >>> star = estimation.Sensor(lambda q: rotation_matrix(q)[2], 1e-4 * np.eye(3))
    >>> estimate = estimation.Estimate([0.0, 0.0, 0.0, 1.0], 0.1 * np.eye(3))
    >>> estimate = attitude.predict(estimate, [0.0, 0.0, 0.5], t=0.1)
    >>> estimate, _ = attitude.update(estimate, [0.1, 0.0, 0.995], star)
    >>> estimate.deviations.round(2)  # the turn about the star stays unknown
    array([0.03, 0.01, 0.31])

    Source: docs/filters.md.
    """

    nabla: Any
    velocity: Callable[..., Any] | None = None
    noise: Any = None
    reset: Any = "exact"
    iterations: int = 500
    prediction_steps: int | None = None
    geodesic_steps: int | None = None
    connection: Any = None
    rtol: float = RTOL
    on_failure: str = "raise"
    space: Space = field(init=False)

    def __post_init__(self) -> None:
        for name in ("iterations", "prediction_steps", "geodesic_steps"):
            if name == "iterations" or getattr(self, name) is not None:
                require_positive_int(name, getattr(self, name))
        self._set("rtol", as_number("rtol", self.rtol))
        if not 0.0 < self.rtol < 1.0:
            raise ValueError(f"rtol: expected a number between 0 and 1, got {self.rtol:g}")
        if self.geodesic_steps is not None and self.geodesic_steps % 2:
            raise ValueError(f"geodesic_steps: expected an even number, got {self.geodesic_steps}")
        if isinstance(self.nabla, Model | MechanicalSystem):
            self._set("nabla", self.nabla.system() if isinstance(self.nabla, Model) else self.nabla)
            if self.velocity is not None:
                raise TypeError("velocity: that of a mechanical system is a part of its state; leave it out")
            if isinstance(self.connection, RestrictedFrame):
                raise TypeError(
                    "connection: the frame of closed chains is no group; leave it out, for the system's own "
                    "connection"
                )
            if self.connection is not None:
                self._set("connection", as_connection("connection", self.connection))
                require_same_frame(self.nabla.frame, "nabla", self.connection.frame, "connection")
        else:
            if self.connection is not None:
                raise TypeError("connection: of a mechanical system's errors; give it in place of nabla")
            hint = "write Filter(SO3Frame(), noise=Q) or Filter(robot, noise=Q)"
            if not isinstance(self.nabla, FrameField):
                require_type("nabla", self.nabla, AffineConnection, hint)
            self._set("nabla", as_connection("nabla", self.nabla))
            if self.velocity is not None:
                require_function("velocity", self.velocity, "(q, u, t) -> v (n,)")
        self._set("noise", self._checked_noise())
        self._set("space", self._made_space())
        if isinstance(self.reset, AffineConnection):
            require_same_frame(self.space.frame, "the filter", self.reset.frame, "the reset")
        elif not (self.reset is None or (isinstance(self.reset, str) and self.reset == "exact")):
            raise TypeError(f'reset: expected "exact", a connection, or None, got {self.reset!r}')

        require_choice("on_failure", self.on_failure, ("raise", "keep"))

    @property
    def frame(self) -> FrameField:
        """The frame of errors."""
        return self.space.frame

    def __repr__(self) -> str:
        return f"Filter of {self.space.dim} errors in {self.frame}"

    def predict(self, estimate: Estimate, u: ArrayLike, t: Any) -> Estimate:
        """The estimate at a later time: P <- Phi P Phi^T + integral of Phi Q Phi^T.

        Parameters
        ----------
        estimate : at its time.
        u : input, constant meanwhile: what `velocity` takes; v (n,) if there is none; forces (n,) of a
            mechanical system, None for zero.
        t : time, s, not before the estimate's.

        Raises
        ------
        ValueError : t is before the estimate; a function `noise` returns no covariance.
        IntegrationError : the step is too long, by its error in units of the standard deviations.
        NonFiniteError : of the velocity or noise where the step begins, which is named. ShapeError,
        TypeError; PointError of the estimate.

        Source: docs/filters.md.
        """
        if self._traces(estimate, u, t):
            traced: Estimate = _predicted(self, estimate, u, t)[0]
            return traced
        self._require_one(estimate)
        t = as_number("t", t)
        if t < estimate.t:
            raise ValueError(f"t: {t:g} s is before the estimate, which is of {float(estimate.t):g} s")
        u = self._input("u", u, ())
        found, _, off = compiled_for(self, _predicted_at_once)(estimate, u, t)
        if self._may_go_on(off):
            found, _, off = compiled_for(self, _predicted)(estimate, u, t)
        self._require_integrated(float(off), f"to {t:g} s", estimate, u)
        predicted: Estimate = as_given(found, estimate.q, estimate.P)
        return predicted

    def update(
        self,
        estimate: Estimate,
        y: ArrayLike,
        sensor: Sensor,
        gate: float | None = None,
        u: ArrayLike | None = None,
    ) -> tuple[Estimate, Innovation]:
        """The estimate after a measurement, and what the measurement said.

        Parameters
        ----------
        estimate : at the time of the measurement.
        y : (m,) measured numbers, NaN where one is missing; a point (nq,) if the sensor has a connection.
        sensor : what is measured.
        gate : optional, a probability: a measurement whose NIS is beyond this quantile of chi^2 is refused.
        u : input at this time, as of `predict`, for a sensor that takes it.

        Raises
        ------
        ValueError : a measured angle is more than half a turn off, and the sensor's `turns` do not say why;
        a function N returns no covariance; the covariance is lost in round-off.
        ConvergenceError : the iteration does not end. IntegrationError : a geodesic needs more steps.
        ShapeError, NonFiniteError, TypeError; PointError of y and of the estimate.

        Source: docs/filters.md.
        """
        require_type("sensor", sensor, Sensor, "write update(estimate, y, Sensor(h, N))")
        if self._traces(estimate, y, sensor, gate, u):
            return self._update(True, sensor, estimate, jnp.asarray(y), gate, u)[0][:2]
        self._require_one(estimate)
        if u is not None or sensor.takes_inputs(self.space.velocity_count):
            u = self._input("u", u, ())
        y = self._measurement("y", y, sensor, (), u)
        given = estimate, y, _checked_gate(gate), u
        (found, innovation, off), missed = compiled_for(self, _updated_at_once, sensor)(*given)
        if self._may_be_finer(missed):
            (found, innovation, off), _ = compiled_for(self, _updated, sensor)(*given)
        self._require_same_turn(sensor, innovation, estimate, u)
        if self.on_failure == "raise":
            self._require_settled(innovation, off, "", (sensor, estimate, y, u))
        return as_given(found, estimate.q, estimate.P), as_given(innovation, estimate.q)

    def run(
        self, estimate: Estimate, times: Any, u: Any, y: Any, sensor: Sensor, gate: float | None = None
    ) -> History:
        """Predictions to each time, and updates there.

        Parameters
        ----------
        estimate : at its time, not after the first of the times.
        times : (T,) of the measurements, s.
        u : (T, ...) inputs until each of the times; None for none. A sensor that takes them gets that until
            the time of its measurement.
        y : (T, m) measurements; NaN where one is missing.
        sensor, gate : as for `update`.

        Raises
        ------
        As `predict` and `update`; the sample is named.
        """
        require_type("sensor", sensor, Sensor, "write run(estimate, times, u, y, Sensor(h, N))")
        if self._traces(estimate, times, u, y, sensor, gate):
            times, y = jnp.asarray(times), jnp.asarray(y)
            if times.ndim != 1:
                raise ShapeError("times", ("T",), times.shape)
            for name, leaf in (("y", y), *(("u", leaf) for leaf in jax.tree_util.tree_leaves(u))):
                if np.shape(leaf)[:1] != times.shape:
                    raise ShapeError(name, (len(times), "..."), np.shape(leaf))
            traced: History = _run(self, sensor, estimate, times, y, u, gate)[0]
            return traced
        self._require_one(estimate)
        times = as_array("times", times, (None,))
        require_finite("times", times)
        if times.ndim != 1:
            raise ShapeError("times", ("T",), times.shape)
        if (np.diff(np.append(np.asarray(estimate.t), times)) < 0.0).any():
            place = int(np.argmax(np.diff(np.append(np.asarray(estimate.t), times)) < 0.0))
            raise ValueError(f"times[{place}]: {times[place]:g} s is before what precedes it")
        u = self._input("u", u, times.shape)
        y = self._measurement("y", y, sensor, times.shape, u)
        given = estimate, times, y, u, _checked_gate(gate)
        history, gaps, offs, missed = compiled_for(self, _run_at_once, sensor)(*given)
        if self._may_go_on(gaps) or self._may_be_finer(missed):
            history, gaps, offs, _ = compiled_for(self, _run, sensor)(*given)
        self._require_same_turn(sensor, history.innovation, estimate, u)
        self._require_run(estimate, history, np.asarray(gaps), np.asarray(offs), times, (sensor, y, u))
        found: History = as_given(history, estimate.q, estimate.P)
        return found

    def smooth(self, history: History) -> Estimate:
        """The estimates (T, ...) given all measurements, earlier and later ones: Rauch, Tung and Striebel's.

        The covariance of the next time is brought back by the inverse of D exp, and forward by D exp.

        Parameters
        ----------
        history : of `run`.

        Raises
        ------
        ConvergenceError : an estimate is so far from its prediction that no geodesic between them is found.
        IntegrationError : a geodesic needs more steps. ValueError : a covariance is lost in round-off.
        ShapeError, TypeError : the history is of a filter of other states.

        Source: docs/filters.md.
        """
        require_type("history", history, History, "write smooth(filter.run(...))")
        if self._traces(history):
            return _smooth(self, history)[0]
        times = np.shape(history.estimate.t)
        if len(times) != 1:
            raise ShapeError("history.estimate.t, of one run,", ("T",), times)
        self._require("history.estimate", history.estimate, times)
        found, missed = compiled_for(self, _smooth_at_once)(history)
        if self._may_be_finer(missed):
            found, _ = compiled_for(self, _smooth)(history)
        good = np.isfinite(np.asarray(found.P)).all(axis=(-2, -1))
        if not good.all():
            place = int(len(good) - 1 - np.argmin(good[::-1]))
            if found.status[place] == Status.GEODESIC_TOO_COARSE:
                raise IntegrationError(
                    f"smooth: the geodesic from the prediction {place + 1} to its estimate errs by more than "
                    f"{NEGLIGIBLE:g} standard deviations; {self._finer_geodesics}"
                )
            if not np.isfinite(np.asarray(history.estimate.P[place])).all():
                failed = Status(int(found.status[place])).name
                raise ValueError(f"history: estimate {place} is NaN ({failed}), so that none can be smoothed")
            if found.status[place] == Status.ROUND_OFF:
                raise ValueError(
                    f"smooth: the covariance of estimate {place} is lost in round-off: what follows says too "
                    "much about an estimate that vague; begin with a smaller P"
                )
            raise ConvergenceError(
                f"smooth: no geodesic leads from the prediction {place + 1} to its estimate"
            )
        smoothed: Estimate = as_given(found, history.estimate.q, history.estimate.P)
        return smoothed

    def difference(self, estimate: Estimate, q: ArrayLike, v: ArrayLike | None = None) -> Any:
        """The error e (..., k) with which an estimate would be at q, in its frame: log_q_hat(q).

        Parameters
        ----------
        estimate : of any batch axes, such as those of a history.
        q : (..., nq) points. v : (..., n) velocities, for a mechanical system.

        Raises
        ------
        ShapeError, TypeError. ConvergenceError : no geodesic is found.
        """
        require_type("estimate", estimate, Estimate)
        n, nq = self.frame.dim, self.frame.ambient_dim
        state: tuple[Any, ...] = (as_array("q", q, (nq,)),)
        if self.space.velocity_count:
            state += (as_array("v", v, (n,)),)
        elif v is not None:
            raise TypeError("v: expected None, because the system is not mechanical")
        for name, array in zip("qv", state, strict=False):
            require_finite(name, array)
        by: Any = jnp if self._traces(estimate, q, v) else np
        pairs = [by.broadcast_arrays(a, b) for a, b in zip(estimate.state, state, strict=True)]
        batch = pairs[0][0].shape[:-1]
        flat = [[a.reshape(-1, a.shape[-1]) for a in pair] for pair in pairs]
        k = self.space.dim
        P = by.broadcast_to(by.asarray(estimate.P), (*batch, k, k)).reshape(-1, k, k)
        given = tuple(a for a, _ in flat), P, tuple(b for _, b in flat)
        if by is jnp:
            e, _ = _differences(self, *given)
        else:
            e, missed = compiled_for(self, _differences_at_once)(*given)
            if self._may_be_finer(missed):
                e, _ = compiled_for(self, _differences)(*given)
        e = e.reshape(*batch, self.space.dim)
        if not is_traced(e) and not np.isfinite(e).all():
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(np.asarray(e)))[0][:-1])
            raise ConvergenceError(f"difference: no geodesic leads from the estimate {place} to the point")
        return as_given(e, estimate.q, q)

    # --- private -------------------------------------------------------------------------------------------

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _checked_noise(self) -> Any:
        if self.noise is None:
            raise TypeError("noise: give the covariance per second, (n, n)")
        if callable(self.noise):
            mechanical = isinstance(self.nabla, MechanicalSystem)
            require_function("noise", self.noise, "(q, v, u, t) -> Q" if mechanical else "(q, u, t) -> Q")
            return self.noise
        n = self.nabla.frame.dim
        noise = as_array("noise", self.noise, (n, n))
        if noise.ndim != 2:
            raise ShapeError("noise", (n, n), noise.shape)
        require_finite("noise", noise)
        if not is_traced(noise):
            require_covariance("noise", np.asarray(noise), definite=False)
        return noise

    def _made_space(self) -> Space:
        if not isinstance(self.nabla, MechanicalSystem):
            return Points(self.nabla, self.velocity, self.noise)
        model = getattr(self.nabla, "model", None)
        of = PytreePartial(_linearized_robot_at, model) if isinstance(model, Model) else None
        linearized = of or PytreePartial(linearized_at, self.nabla)
        return Phase(self.nabla, linearized, self.noise, nabla=self.connection)

    def _angles_in(self, frame: FrameField) -> tuple[int, ...]:
        """The coordinates that are known to be angles; in the frame of a robot by its joints."""
        model = getattr(self.nabla, "model", None)
        if isinstance(model, Model) and frame == self.frame:
            return () if model.closed else model.kinematics.angles
        return frame.angles

    def _settings(self, goes_on: bool) -> UpdateSettings:
        keeps = self.on_failure == "keep"
        return UpdateSettings(self.reset, self.iterations, keeps, self.geodesic_steps, goes_on)

    def _update(
        self, goes_on: bool, sensor: Sensor, estimate: Estimate, y: Any, gate: Any, u: Any
    ) -> tuple[Updated, jax.Array]:
        sensor = self._seen_with(self._with_angles(sensor), u, estimate.t)
        return updated_at(self.space, self._settings(goes_on), sensor, estimate, y, gate)

    def _with_angles(self, sensor: Sensor) -> Sensor:
        """The sensor that knows the angles of its frame up to full turns."""
        angles = () if sensor.connection is None else self._angles_in(sensor.connection.frame)
        return sensor.with_angles(angles)

    def _seen_with(self, sensor: Sensor, u: Any, t: Any) -> Sensor:
        """The sensor as a function of the state; without an input, forces are zero."""
        if not sensor.takes_inputs(self.space.velocity_count):
            return sensor
        return sensor.seen_with(
            jnp.zeros(self.frame.dim) if u is None and self.space.velocity_count else u, t
        )

    @staticmethod
    def _traces(*things: Any) -> bool:
        return not trace_state_clean() or is_traced(*things)

    def _require_one(self, estimate: Any) -> None:
        """Raise the error that says why this is no estimate of the filter's state."""
        require_type("estimate", estimate, Estimate, "write Estimate(q, P)")
        self._require("estimate", estimate)
        require_admissible(self.nabla, "estimate.q", np.asarray(estimate.q))

    def _require(self, name: str, estimate: Any, batch: tuple[int, ...] = ()) -> None:
        """Raise the error that says why these are no estimates of the filter's state."""
        n, nq = self.frame.dim, self.frame.ambient_dim
        if np.shape(estimate.q) != (*batch, nq):
            raise ShapeError(f"{name}.q", (*batch, nq), np.shape(estimate.q))
        if (estimate.v is None) != (self.space.velocity_count == 0):
            what = "has none" if estimate.v is None else "has one"
            raise TypeError(
                f"{name}.v: the filter's state is {'(q, v)' if estimate.v is None else 'q'}, "
                f"but the estimate {what}"
            )
        if estimate.v is not None and np.shape(estimate.v) != (*batch, n):
            raise ShapeError(f"{name}.v", (*batch, n), np.shape(estimate.v))
        if np.shape(estimate.P) != (*batch, self.space.dim, self.space.dim):
            raise ShapeError(f"{name}.P", (*batch, self.space.dim, self.space.dim), np.shape(estimate.P))

    def _input(self, name: str, u: Any, batch: tuple[int, ...]) -> Any:
        velocity = None if isinstance(self.nabla, MechanicalSystem) else self.velocity
        if u is None:
            if velocity is None and not self.space.velocity_count:
                raise TypeError(f"{name}: without a velocity function it is the velocity itself, (n,)")
            return None
        if velocity is None:
            u = as_array(name, u, (self.frame.dim,))
            if u.shape[:-1] != batch:
                raise ShapeError(name, (*batch, self.frame.dim), u.shape)
        for leaf in jax.tree_util.tree_leaves(u):
            require_finite(name, leaf)
            if np.shape(leaf)[: len(batch)] != batch:
                raise ShapeError(name, (*batch, "..."), np.shape(leaf))
        return jax.tree_util.tree_map(in_jax, u)

    def _measurement(self, name: str, y: Any, sensor: Sensor, batch: tuple[int, ...], u: Any) -> Any:
        """y, or the error that says why it is none of the sensor's."""
        frame = self.frame
        sizes = [(frame.ambient_dim,), (frame.dim,)][: 1 + self.space.velocity_count]
        leaves, tree = jax.tree_util.tree_flatten(u)
        inputs = tuple(np.shape(leaf)[len(batch) :] for leaf in leaves)

        def found() -> tuple[int, ...]:
            one = jax.tree_util.tree_unflatten(tree, [in_jax(np.zeros(shape)) for shape in inputs])
            return shape_of("h(q)", self._seen_with(sensor, one, in_jax(0.0)).h, *sizes)

        of_h = kept(sensor, (shape_of, *sizes, tree, inputs), (), found)
        size = of_h if sensor.connection is None else (sensor.connection.frame.ambient_dim,)
        if len(of_h) != 1 or of_h != size:
            raise ShapeError("h(q)", size if len(size) == 1 else ("m",), of_h)
        m = size[0] if sensor.connection is None else sensor.connection.frame.dim
        if not callable(sensor.N) and np.shape(sensor.N) != (m, m):
            raise ShapeError("N", (m, m), np.shape(sensor.N))
        y = as_array(name, y, size)
        if y.shape[:-1] != batch:
            raise ShapeError(name, (*batch, *size), y.shape)
        if np.isinf(y).any():
            require_finite(name, np.where(np.isnan(y), 0.0, y))
        seen, rows = self._with_angles(sensor), np.asarray(y).reshape(-1, *size)
        for number, row in enumerate(rows if seen.turns else ()):
            require_angles(seen, f"{name}[{number}]" if batch else name, row)
        if sensor.connection is not None:
            for number, row in enumerate(rows):
                where = f"{name}[{number}]" if batch else name
                if np.isnan(row).any() and not np.isnan(row).all():
                    raise ValueError(f"{where}: a point with some coordinates NaN; all, if it is missing")
                if not np.isnan(row).any():
                    require_admissible(sensor.connection, where, row)
        return y

    def _may_go_on(self, offs: Any) -> bool:
        """Whether shorter steps are allowed, and asked for."""
        return self.prediction_steps is None and bool((~(np.asarray(offs) <= self.rtol)).any())

    def _may_be_finer(self, missed: Any) -> bool:
        """Whether geodesics may have more steps, and ask for them."""
        return self.geodesic_steps is None and bool(np.asarray(missed).any())

    @property
    def _finer_geodesics(self) -> str:
        """How geodesics become right."""
        if self.geodesic_steps is None:
            return f"{MORE[-1]} steps are too few; begin with an estimate that is known better"
        return f"give geodesic_steps={4 * self.geodesic_steps}, or None, or a frame that is regular there"

    def _require_same_turn(self, sensor: Sensor, innovation: Innovation, estimate: Estimate, u: Any) -> None:
        """Raise `ValueError` for an angle more than half a turn off, unless the sensor speaks of turns."""
        off = np.abs(np.asarray(innovation.r))
        silent = sensor.turns is None and sensor.connection is None
        if not (silent and (off > np.pi).any() and self._angles_in(self.frame)):
            return
        one = jax.tree_util.tree_map(lambda a: a[0], u) if off.ndim > 1 else u
        turned = compiled_for(self, _turned, sensor)(one, estimate.t, estimate.state)
        turns = turns_of(*map(np.asarray, turned))
        if (off > 0.5 * turns).any():
            *sample, index = map(int, np.argwhere(off > 0.5 * turns)[0])
            where = ", ".join(map(str, (*sample, index)))
            known = f"({index},)" if turns[index] < 7.0 else f"{{{index}: 360.0}}"
            raise ValueError(
                f"y[{where}]: an angle that is {off[(*sample, index)]:.4g} from the expected one, more than "
                f"half a turn; give Sensor(..., turns={known}) if the sensor knows it up to full turns, and "
                "turns=() if it counts them"
            )

    def _require_integrated(self, off: float, where: str, estimate: Estimate, u: Any) -> None:
        """Raise the error of a step from an estimate, if `off` is not small."""
        if off <= self.rtol:
            return
        if np.isnan(off):
            self._require_rates(where, estimate, u)
            raise NonFiniteError(
                f"predict: the step {where} has no result: on the way, the velocity, forces or noise are not "
                "finite or the noise is no covariance, or P is not positive definite up to round-off"
            )
        if self.prediction_steps is None:
            raise IntegrationError(
                f"predict: {MOST} steps {where} are too few for rtol={self.rtol:g}; give times that are "
                "closer together, or prediction_steps= for more steps of one length; if neither helps, "
                "variances of P are too many orders of magnitude apart to be written: begin with a smaller P"
            )
        raise IntegrationError(
            f"predict: the step {where} errs by {off:.1e} standard deviations; give "
            f"prediction_steps={4 * self.prediction_steps}, or None, or times that are closer together"
        )

    def _require_rates(self, where: str, estimate: Estimate, u: Any) -> None:
        """Raise the error of the user's function that has no result where a step begins."""
        state = tuple(jnp.asarray(a) for a in estimate.state)
        try:
            with finite_results():
                self.space.rates_at(state, u, estimate.t)
                if callable(self.noise):
                    Q = np.asarray(self.noise(*state, u, estimate.t))
                    require_covariance("noise", Q, definite=False)
            require_covariance("P", np.asarray(estimate.P))
        except ValueError as error:
            kind = NonFiniteError if isinstance(error, NonFiniteError) else ValueError
            raise kind(f"predict: the step {where} has no result: {error}") from None

    def _require_settled(self, innovation: Innovation, off: Any, where: str, given: tuple[Any, ...]) -> None:
        status = Status(int(innovation.status))
        if status == Status.NOT_SETTLED:
            raise ConvergenceError(
                f"update{where}: {int(innovation.steps)} iterations do not settle: give more "
                "iterations, or look at the sensor and its covariance; "
                'Filter(..., on_failure="keep") goes on without the measurement'
            )
        if status == Status.GEODESIC_TOO_COARSE:
            raise IntegrationError(
                f"update{where}: the geodesic errs by {float(off):.1e} standard deviations; "
                f"{self._finer_geodesics}"
            )
        if status == Status.ROUND_OFF:
            raise ValueError(
                f"update{where}: the covariance is lost in round-off: variances of the prior and the sensor "
                "are too many orders of magnitude apart for directions that are no components of the error; "
                "begin with a smaller P, or measure what it lacks in the same update"
            )
        if status == Status.NOT_FINITE:
            sensor, estimate, y, u = given
            seen = self._seen_with(sensor, u, estimate.t)
            seen.require_noise(f"update{where}", estimate.state, np.asarray(y))
            h = np.asarray(seen.value_at(*estimate.state))
            require_angles(self._with_angles(seen), f"update{where}: h(q)", h)
            raise NonFiniteError(f"update{where}: h, its derivative or N is not finite at the estimate")

    def _require_run(
        self, estimate: Estimate, history: History, gaps: Any, offs: Any, times: Any, given: Any
    ) -> None:
        """Raise the error of the first sample that failed, and was not to be kept."""
        status = np.asarray(history.predicted.status), np.asarray(history.innovation.status)
        if self.on_failure == "keep":
            status = status[0], np.zeros_like(status[1])
        failed = np.maximum(*status) >= Status.NOT_SETTLED
        if not failed.any():
            return
        place = int(np.argmax(failed))
        if status[0][place] >= Status.NOT_SETTLED:
            before = estimate if place == 0 else _part(history.estimate, place - 1)
            self._require_integrated(
                float(gaps[place]), f"to times[{place}] = {times[place]:g} s", before, _part(given[2], place)
            )
            raise NonFiniteError(
                f"predict: the estimate at times[{place}] = {times[place]:g} s is not finite"
            )
        said = history.innovation, history.predicted, *given[1:]
        one, predicted, *seen = _part(said, place)
        where = f" at times[{place}] = {times[place]:g} s"
        self._require_settled(one, offs[place], where, (given[0], predicted, *seen))


def _part(tree: Any, place: int) -> Any:
    return jax.tree_util.tree_map(lambda a: np.asarray(a)[place], tree)


def _checked_gate(gate: Any) -> Any:
    if gate is None:
        return None
    gate = as_number("gate", gate)
    if not 0.0 < gate < 1.0:
        raise ValueError(f"gate: expected a probability between 0 and 1, got {gate:g}")
    return gate


def _turned(filter: Filter, sensor: Sensor, u: Any, t: Any, state: tuple[Any, ...]) -> Any:
    return turned_at(filter._seen_with(sensor, u, t).h, state, filter._angles_in(filter.frame))


def _linearized_robot_at(model: Model, q: jax.Array, v: jax.Array, tau: Any, t: Any) -> Any:
    A, B = linearize(model, q, v, tau)
    return A, B[model.nv :]


def _predicted(filter: Filter, estimate: Estimate, u: Any, t: Any) -> Any:
    return _with_status(filter, True, estimate, u, t)


def _predicted_at_once(filter: Filter, estimate: Estimate, u: Any, t: Any) -> Any:
    return _with_status(filter, False, estimate, u, t)


def _with_status(filter: Filter, goes_on: bool, estimate: Estimate, u: Any, t: Any) -> Any:
    found, *rest = predicted_at(filter.space, estimate, u, t, filter.prediction_steps, filter.rtol, goes_on)
    return judged(found, estimate, rest[-1]), *rest


def _updated(filter: Filter, sensor: Sensor, *given: Any) -> Any:
    return filter._update(True, sensor, *given)


def _updated_at_once(filter: Filter, sensor: Sensor, *given: Any) -> Any:
    return filter._update(False, sensor, *given)


def _run(filter: Filter, sensor: Sensor, *given: Any) -> Any:
    return _run_by(True, filter, sensor, *given)


def _run_at_once(filter: Filter, sensor: Sensor, *given: Any) -> Any:
    return _run_by(False, filter, sensor, *given)


def _run_by(
    goes_on: bool, filter: Filter, sensor: Sensor, estimate: Estimate, times: Any, y: Any, u: Any, gate: Any
) -> Any:
    def step(estimate: Estimate, given: Any) -> Any:
        t, y, u = given
        predicted, Phi, gap = _with_status(filter, goes_on, estimate, u, t)
        (updated, innovation, off), missed = filter._update(goes_on, sensor, predicted, y, gate, u)
        return updated, (History(updated, predicted, Phi, innovation), gap, off, missed)

    begin = jax.tree_util.tree_map(jnp.asarray, estimate)
    return jax.lax.scan(step, begin, (times, y, u))[1]


def _smooth(filter: Filter, history: History) -> tuple[Estimate, jax.Array]:
    return _smooth_by(True, filter, history)


def _smooth_at_once(filter: Filter, history: History) -> tuple[Estimate, jax.Array]:
    return _smooth_by(False, filter, history)


def _smooth_by(goes_on: bool, filter: Filter, history: History) -> tuple[Estimate, jax.Array]:
    settings = filter._settings(goes_on)

    def back(later: Estimate, given: Any) -> Any:
        estimate, predicted, Phi = given
        smoothed, missed = smoothed_at(filter.space, settings, estimate, predicted, Phi, later)
        return smoothed, (smoothed, missed)

    def part(tree: Any, which: Any) -> Any:
        return jax.tree_util.tree_map(lambda a: jnp.asarray(a)[which], tree)

    last = part(history.estimate, -1)
    rows = (
        part(history.estimate, slice(None, -1)),
        *part((history.predicted, history.transition), slice(1, None)),
    )
    _, (before, missed) = jax.lax.scan(back, last, rows, reverse=True)
    smoothed: Estimate = jax.tree_util.tree_map(lambda a, b: jnp.concatenate([a, b[None]]), before, last)
    return smoothed, missed


def _differences(filter: Filter, *given: Any) -> tuple[jax.Array, jax.Array]:
    return _differences_by(True, filter, *given)


def _differences_at_once(filter: Filter, *given: Any) -> tuple[jax.Array, jax.Array]:
    return _differences_by(False, filter, *given)


def _differences_by(goes_on: bool, filter: Filter, *given: Any) -> tuple[jax.Array, jax.Array]:
    settings = filter._settings(goes_on)

    def one(x: Any, P: jax.Array, z: Any) -> tuple[jax.Array, jax.Array]:
        return difference_at(filter.space, settings, x, P, z)

    found: tuple[jax.Array, jax.Array] = jax.vmap(one)(*given)
    return found
