"""Flows: differential equations on a manifold, with their public boundary.

A `Flow` defines the differential equation. `Trajectories` solves it, from public arguments to arrays at the
requested times; an error says when and where a motion leaves its domain. Only one step is compiled. The loop
over steps is `integration.driver`, for one motion and for many; under tracing it is `integration.traced`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NoReturn, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from connections._jax import Value
from connections.affine.motions.jax_motions import HostMotions, JaxMotions, OneMotion, motion_of
from connections.affine.motions.motion import AnyMotion, Motion
from connections.checks import IntegrationError, ShapeError, as_array, is_traced, require_finite
from connections.engines.internals.jax_names import trace_state_clean
from connections.evaluation.boundary import (
    Argument,
    admit_at,
    as_given,
    batch_of,
    require_admissible,
)
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import Bound, Parametrized, derived
from connections.geometry.frames import FrameField
from connections.integration.driver import Stopped, follow
from connections.integration.tolerances import ATOL, MAX_STEPS, RTOL
from connections.integration.traced import Settings, solve

Recipe = Callable[[], Any]  # () -> the flow
State = tuple[jax.Array, jax.Array]  # (q, v)
Record = tuple[Value, jax.Array, jax.Array]  # recorded values, the point, and whether it is admissible


@dataclass(frozen=True, eq=False)
class Flow(Generic[Value]):
    """dy/dt = rate(t, y, *given), with y a tuple of arrays; all functions are JAX-traceable.

    Parameters
    ----------
    start : *given -> y at the first time.
    rate : (t, y, *given) -> a tuple like y.
    record : (t, y, *given) -> (values, q, ok): the values to return for a requested time, the point (nq,) of
        the motion at that time, and whether the state is admissible.
    sizes : (t0, s, y, *given) -> a tuple like y: expected sizes of the components at the time t0 + s of a
        motion from t0 (`motion_sizes`).
    points : which arrays of y are points; their motion is measured from the first point, others from zero.
    project : y -> the nearest valid state.
    rtol, atol : tolerances of a step (`integration.tolerances`).
    max_step : no step is longer; None for no bound. It may be a tracer.
    host : optional, the same motion in NumPy, with the functions of `HostMotion`.
    """

    start: Callable[..., Any]
    rate: Callable[..., Any]
    record: Callable[..., Record[Value]]
    sizes: Callable[..., Any]
    points: tuple[int, ...] = (0,)
    project: Callable[[Any], Any] | None = None
    rtol: Any = RTOL
    atol: Any = ATOL
    max_step: Any = None
    host: Any = None

    def solve_at(self, times: jax.Array, *given: jax.Array) -> Record[Value]:
        """(values, points, ok) at the times of one motion, JAX-traceable; NaN from where it fails."""
        times = jnp.asarray(times)
        y0, origin = self.start_at(*given)
        states = y0[None] * jnp.ones((len(times), 1))
        if len(y0):
            settings = Settings(self.rtol, self.atol, MAX_STEPS, self.max_step)
            rate, sizes = (
                lambda s, y, at=at: at(times[0], s, y, *given) for at in (self.rate_at, self.sizes_at)
            )
            states = solve(rate, sizes, y0, origin, times - times[0], settings)
        return jax.vmap(lambda t, y: self.record(t, self.state_at(y, given), *given))(times, states)

    def start_at(self, *given: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The flat state (k,) at the first time, and the origin from which its components are measured."""
        start = self.start(*given)
        origin = tuple(leaf if i in self.points else jnp.zeros_like(leaf) for i, leaf in enumerate(start))
        return ravel_pytree(start)[0], ravel_pytree(origin)[0]

    def state_at(self, y: jax.Array, given: tuple[Any, ...]) -> Any:
        """The valid state nearest to the flat state y (k,)."""
        shapes = jax.eval_shape(self.start, *given)
        _, unravel = ravel_pytree(jax.tree_util.tree_map(lambda s: jnp.zeros(s.shape), shapes))
        state = unravel(y)
        return state if self.project is None else self.project(state)

    def rate_at(self, t0: jax.Array, s: jax.Array, y: jax.Array, *given: jax.Array) -> jax.Array:
        """Rate of the flat state y (k,) at the time t0 + s."""
        return ravel_pytree(self.rate(t0 + s, self.state_at(y, given), *given))[0]

    def sizes_at(self, t0: jax.Array, s: jax.Array, y: jax.Array, *given: jax.Array) -> jax.Array:
        """Expected sizes of the components of y, (k,)."""
        return ravel_pytree(self.sizes(t0, s, self.state_at(y, given), *given))[0]


class Trajectories(Parametrized):
    """The integrations of one owner (a connection or a system), with its errors.

    Parameters
    ----------
    owner : object with ``frame``, ``valid_at(q)`` and ``explain(q)``.
    """

    begin_at_a_point: ClassVar[bool] = True  # whether the first argument is a point

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    @classmethod
    def of(cls, owner: Any) -> Trajectories:
        """The owner's integrations, cached with it."""
        known: Trajectories = derived(owner).setdefault(cls, cls(owner))
        return known

    @property
    def frame(self) -> FrameField:
        """The owner's."""
        frame: FrameField = self.owner.frame
        return frame

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the owner is defined at the initial point."""
        valid: jax.Array = self.owner.valid_at(q)
        return valid

    def explain(self, q: Any) -> None:
        """The owner's error at the initial point."""
        self.owner.explain(q)

    def run(
        self,
        name: str,
        recipe: Bound[Flow[Value]],
        arguments: tuple[Argument, ...],
        times: Any,
        since: Any = 0.0,
    ) -> Value:
        """The recorded values over all batch axes; an error if a motion leaves the domain.

        Parameters
        ----------
        name : of the motion, for errors, which add its index in a batch.
        recipe : () -> the `Flow`, bound to the objects and functions that it depends on. The public arguments
            are passed to the flow's functions.
        arguments : of the motion; the first is a point if `begin_at_a_point`.
        times : (T,).
        since : subtracted from the times before; errors add it again.

        Raises
        ------
        IntegrationError, ShapeError, NonFiniteError, and the errors of ``owner.explain`` at the first point.
        """
        return self._run(name, recipe, arguments, as_times(times), since)

    @overload
    def motion(
        self, name: str, recipe: Bound[Flow[State]], arguments: tuple[Argument, ...], times: Any
    ) -> Motion: ...
    @overload
    def motion(
        self, name: str, recipe: Bound[Flow[AnyMotion]], arguments: tuple[Argument, ...], times: Any
    ) -> AnyMotion: ...
    def motion(self, name: str, recipe: Any, arguments: tuple[Argument, ...], times: Any) -> Any:
        """The motion whose flow records (q, v), or more: a `Motion` at one instant.

        Parameters and errors are those of `run`.
        """
        times = as_times(times)
        values = self._run(name, recipe, arguments, times)
        own = times if isinstance(times, jax.Array) else np.array(times)  # a copy: the caller may change it
        times = as_given(own, values[0])
        return replace(values, times=times) if isinstance(values, Motion) else Motion(times, *values)

    # --- private -------------------------------------------------------------------------------------------

    def _run(
        self,
        name: str,
        recipe: Bound[Flow[Value]],
        arguments: tuple[Argument, ...],
        times: Any,
        since: Any = 0.0,
    ) -> Value:
        """As `run`, for validated times."""
        arrays = []
        for item in arguments:  # otherwise the solver would spend all of its steps on a NaN
            arrays.append(as_array(item.name, item.value, item.core))
            require_finite(item.name, arrays[-1])
        batch = batch_of(arguments, arrays)
        items = zip(arrays, arguments, strict=True)
        rows = tuple(_as_rows(array, batch, array.ndim - len(item.core)) for array, item in items)
        if not trace_state_clean() or is_traced(times, *arrays):
            values: Value = self._traced(recipe, rows, batch, times)
            return values
        first = arguments[0].name if arguments else ""
        values = self._followed(name, recipe, rows, batch, np.asarray(times), first, since)
        values = jax.tree_util.tree_map(lambda leaf: leaf.reshape(*batch, *leaf.shape[1:]), values)
        return as_given(values, *(item.value for item in arguments))

    def _followed(
        self,
        name: str,
        recipe: Bound[Flow[Any]],
        rows: tuple[np.ndarray, ...],
        batch: tuple[int, ...],
        times: np.ndarray,
        first: str,
        since: Any,
    ) -> Any:
        """The values (m, T, ...) of the m motions of a batch, by `integration.driver`."""
        motions: JaxMotions | HostMotions
        flow, count = recipe(), math.prod(batch)
        if flow.host is None or not count:
            motions = JaxMotions(Bound(motion_of, self, recipe))
            if not count:
                return motions.nothing(rows, times)
        else:
            motions = HostMotions(flow.host)
        started = motions.start(rows, count)
        for row in np.flatnonzero(~started.near):
            require_admissible(self.owner, first, rows[0][row])
        attempts, clock = motions.attempts(float(times[0]), started), times - times[0]
        tolerances = float(flow.rtol), float(flow.atol)
        found = follow(
            attempts, started.y, started.origin, clock, *tolerances, MAX_STEPS, flow.max_step, motions.places
        )
        values, points, good = motions.record(times, found.states, started.given)
        if not good.all():
            row = int(np.argmin(good.all(axis=1)))
            given = tuple(array[row] for array in rows)
            if batch:
                place = [int(i) for i in np.unravel_index(row, batch)]
                name = f"{name} {place} of the batch"
            stop, refused = found.stopped.get(row), motions.refused_at(row)
            self._raise(name, flow, first, given, times, good[row], points[row], stop, refused, since)
        return values

    def _raise(
        self,
        name: str,
        flow: Flow[Any],
        first: str,
        given: tuple[np.ndarray, ...],
        times: np.ndarray,
        good: np.ndarray,
        points: np.ndarray,
        stop: Stopped | None,
        refused: ValueError | None,
        since: Any,
    ) -> NoReturn:
        """Raise the error of one motion.

        Parameters
        ----------
        given : its arguments.
        good, points : (T,) whether recorded states are valid, and (T, nq) their points.
        stop, refused : why the integration stopped early, and the error that refused its last step; or None.
        """
        at = int(np.argmin(good))
        if at == 0 and self.begin_at_a_point:
            require_admissible(self.owner, first, given[0])
        failed = _failed(name, since + times[at])
        if np.isfinite(points[at]).all():
            self._raise_at(failed, points[at])
        known = [(times[at - 1], points[at - 1])] if at else []
        if not at and self.begin_at_a_point:
            known = [(times[0], given[0])]
        where = "".join(f", last seen at t = {since + t:.6g}, q = {_numbers(q)}" for t, q in known)
        if stop is None:
            reason = f": {refused}" if refused else ""
            raise IntegrationError(f"{failed}{where}{reason}") from refused
        refused = refused or self._refused_beyond(flow, stop, times, given)
        reason = f"{stop.why}, because {refused}" if refused else stop.why
        more = f"it cannot be followed beyond t = {since + times[0] + stop.s:.6g}: {reason}"
        raise IntegrationError(f"{failed}{where}; {more}") from refused

    def _refused_beyond(
        self, flow: Flow[Any], stop: Stopped, times: np.ndarray, given: tuple[np.ndarray, ...]
    ) -> ValueError | None:
        """The owner's error at the state extrapolated beyond the stop, or None if it is valid there."""
        try:
            if flow.host is not None:
                q = flow.host.record(times[0] + stop.s, stop.beyond, *flow.host.start(*given)[0])[1]
            else:
                q = OneMotion.of(self, flow).record(times[0] + stop.s, stop.beyond, *given)[1]
            if np.isfinite(q).all():
                require_admissible(self.owner, "q", np.asarray(q))
        except ValueError as error:
            return error
        return None

    def _traced(
        self, recipe: Bound[Flow[Any]], rows: tuple[Any, ...], batch: tuple[int, ...], times: Any
    ) -> Any:
        """The values under tracing; NaN from the first time that a motion does not reach."""
        if not batch:
            return compiled(_traced_at, self, recipe)(times, *(row[0] for row in rows))
        values = compiled(_traced_rows_at, self, recipe)(times, *rows)
        return jax.tree_util.tree_map(lambda leaf: leaf.reshape(*batch, *leaf.shape[1:]), values)

    def _raise_at(self, what: str, q: np.ndarray) -> NoReturn:
        try:
            require_admissible(self.owner, "q", q)
        except ValueError as error:
            raise IntegrationError(f"{what}: {error}") from error
        raise IntegrationError(f"{what}, near q = {_numbers(q)}")


def _traced_at(trajectories: Trajectories, recipe: Recipe, times: jax.Array, *arguments: jax.Array) -> Any:
    """The values (T, ...) of one motion."""
    given, near = list(arguments), jnp.asarray(True)
    if trajectories.begin_at_a_point:
        frame, q = trajectories.frame, given[0]
        given[0], near = frame.project_at(q), frame.near_at(q)  # the point is validated with all others
    values, points, ok = recipe().solve_at(times, *given)
    good = near & ok & jax.vmap(lambda q: admit_at(trajectories.owner, q)[1])(points)
    for leaf in (points, *jax.tree_util.tree_leaves(values)):
        good = good & jnp.all(jnp.isfinite(leaf.reshape(leaf.shape[0], -1)), axis=1)
    alive = jnp.where(jnp.cumprod(good) == 1, 1.0, jnp.nan)
    return jax.tree_util.tree_map(lambda leaf: leaf * alive.reshape(-1, *(1,) * (leaf.ndim - 1)), values)


def _traced_rows_at(trajectories: Trajectories, recipe: Recipe, times: jax.Array, *rows: jax.Array) -> Any:
    return jax.vmap(lambda *row: _traced_at(trajectories, recipe, times, *row))(*rows)


def readings(record: Callable[..., Record[Value]]) -> Flow[Value]:
    """A flow without a state: `record` is evaluated at each time."""

    def nothing(*given: Any) -> tuple[()]:
        return ()

    return Flow(nothing, nothing, record, nothing, points=())


def as_times(times: Any) -> Any:
    """`times` as a (T,) float64 array.

    Raises
    ------
    ShapeError : not one axis, or not strictly monotone.
    NonFiniteError : a time is not finite.
    """
    times = as_array("times", times, (None,))
    if times.ndim != 1 or times.shape[0] == 0:
        raise ShapeError("times", ("T",), times.shape)
    if isinstance(times, jax.core.Tracer):
        return times
    require_finite("times", times)
    steps = np.diff(np.asarray(times))
    if steps.size and not (np.all(steps > 0.0) or np.all(steps < 0.0)):
        raise ShapeError("times", "strictly increasing or strictly decreasing values", "other")
    return times


def as_max_step(max_step: Any) -> float | None:
    """`max_step` as a float, or None.

    Raises
    ------
    ValueError : it is not positive.
    """
    if max_step is None:
        return None
    array = as_array("max_step", max_step, ())
    require_finite("max_step", array)
    if array.ndim or not array > 0.0:
        raise ValueError(f"max_step: expected a positive time, got {max_step}")
    return float(array)


def _as_rows(array: Any, batch: tuple[int, ...], axes: int) -> Any:
    """(m, ...): the array with its first `axes` broadcast to `batch`, and these reshaped to one axis."""
    core, numpy = array.shape[axes:], jnp if isinstance(array, jax.core.Tracer) else np
    return numpy.broadcast_to(numpy.asarray(array), (*batch, *core)).reshape(math.prod(batch), *core)


def _failed(name: str, t: Any) -> str:
    how = f"leaves the domain, blows up or takes more than {MAX_STEPS:,} steps"
    return f"{name}: the curve {how} by t = {float(t):.6g}"


def _numbers(q: np.ndarray) -> str:
    return np.array2string(q, precision=4, threshold=12)
