"""Flows: differential equations on a manifold, solved on the host, and where JAX traces them by diffrax.

A `Flow` says what is integrated. `Trajectories` solves it, from public arguments to arrays at the requested
times, with an error that says when and where a motion leaves its domain. One motion needs its right-hand side
compiled, nothing else (`host_integration`), and so do some (`host_batch`). Many, and what JAX is tracing, are
compiled as a whole (`integrate`). The requested times are data: another number of them compiles nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.core import trace_state_clean  # which JAX has under no public name

from connections._jax import Value
from connections.affine.host_batch import Batch
from connections.affine.host_integration import Attempt, Stopped, integrate_one
from connections.affine.integrate import ATOL, MAX_STEPS, RTOL, integrate
from connections.affine.one_motion import OneMotion
from connections.checks import IntegrationError, ShapeError, as_array, require_finite
from connections.geometry.evaluation import (
    Argument,
    admit_at,
    as_given,
    batch_of,
    evaluate,
    kept,
    require_admissible,
)
from connections.geometry.frames import FrameField
from connections.geometry.parameters import Parametrized, derived

BY_STEPS, ONE_BY_ONE = 2000, 500  # motions of one kind followed on the host, by JAX and by NumPy
_FEWEST_TIMES = 8  # whole integrations are compiled for 8, 16, 32, ... requested times

Record = tuple[Value, jax.Array, jax.Array]  # what is asked for, the point, and whether it is admissible


@dataclass(frozen=True, eq=False)
class Flow(Parametrized, Generic[Value]):
    """dy/dt = rate(t, y, *given), with y a tuple of arrays; all functions are JAX-traceable.

    Parameters
    ----------
    start : *given -> y at the first time.
    rate : (t, y, *given) -> a tuple like y.
    record : (t, y, *given) -> (values, q, ok): what is asked for at a requested time, the point (nq,) where
        the motion is then, and whether the state is admissible.
    sizes : (t0, t, y, *given) -> a tuple like y: what the components can be expected to be at the time t of a
        motion from t0 (`motion_sizes`).
    points : which arrays of y are points, measured from the first ones; others are measured from zero.
    project : y -> the nearest valid state.
    rtol, atol : tolerances of a step, as in `integrate`.
    host : the same for one motion in NumPy, with the functions of `OneMotion`, if there is such a way.
    """

    start: Callable[..., Any]
    rate: Callable[..., Any]
    record: Callable[..., Record[Value]]
    sizes: Callable[..., Any]
    points: tuple[int, ...] = (0,)
    project: Callable[[Any], Any] | None = None
    rtol: Any = RTOL
    atol: Any = ATOL
    host: Any = None

    def solve_at(self, times: jax.Array, *given: jax.Array, max_steps: int = MAX_STEPS) -> Record[Value]:
        """(values, points, ok) at the times of one motion, JAX-traceable; NaN from where it fails."""
        start = self.start(*given)
        if not start:
            return jax.vmap(lambda t: self.record(t, (), *given))(times)
        states = integrate(
            lambda t, y, args: self.rate(t, y, *args),
            start,
            times,
            self.project,
            given,
            self.rtol,
            self.atol,
            max_steps,
            sizes=self._sizes_from(times, given),
            origin=self.origin(start),
        )
        return jax.vmap(lambda t, *y: self.record(t, y, *given))(times, *states)

    def origin(self, start: tuple[Any, ...]) -> tuple[Any, ...]:
        """From where components are measured."""
        return tuple(leaf if i in self.points else jnp.zeros_like(leaf) for i, leaf in enumerate(start))

    def _sizes_from(self, times: jax.Array, given: tuple[Any, ...]) -> Callable[[jax.Array, Any], Any]:
        forward = jnp.sign(times[-1] - times[0])
        return lambda elapsed, y: self.sizes(times[0], times[0] + forward * elapsed, y, *given)


class Trajectories(Parametrized):
    """The integrations of one owner (a connection or a system), with its errors.

    Parameters
    ----------
    owner : object with ``frame``, ``valid_at(q)`` and ``explain(q)``.
    """

    begin_at_a_point: ClassVar[bool] = True  # whether the first argument is one

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    @classmethod
    def of(cls, owner: Any) -> Trajectories:
        """The owner's integrations, made once."""
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

    def run(self, key: Any, flow: Flow[Value], arguments: tuple[Argument, ...], times: Any) -> Value:
        """The values that the flow records over all batch axes, with an error where it leaves the domain.

        Parameters
        ----------
        key : name of the motion, with the functions of users that the flow closes over.
        flow : what is integrated; the public arguments are given to its functions.
        arguments : of the motion; the first is a point if `begin_at_a_point`.
        times : (T,).

        Raises
        ------
        IntegrationError, ShapeError, NonFiniteError, and the errors of ``owner.explain`` at the first point.
        """
        times = as_times(times)
        arrays = []
        for item in arguments:  # before the solver spends its whole budget of steps on a NaN
            arrays.append(as_array(item.name, item.value, item.core))
            if not isinstance(arrays[-1], jax.core.Tracer):
                require_finite(item.name, arrays[-1])
        batch = batch_of(arguments, arrays)
        if not trace_state_clean() or (batch and not self._pays(key, flow, math.prod(batch))):
            return self._whole(key, flow, arguments, times)
        times, first = np.asarray(times), arguments[0].name if arguments else ""
        if batch:
            items = zip(arrays, arguments, strict=True)
            rows = tuple(_as_rows(array, batch, array.ndim - len(item.core)) for array, item in items)
            follow = self._many if flow.host is None else self._one_by_one
            values: Value = follow(key, flow, rows, times, first)
            values = jax.tree_util.tree_map(lambda leaf: leaf.reshape(*batch, *leaf.shape[1:]), values)
        else:
            values = self._one(key, flow, arrays, times, first)
        return as_given(values, *(item.value for item in arguments))

    # --- private -------------------------------------------------------------------------------------------

    def _one(self, key: Any, flow: Flow[Any], arrays: list[Any], times: np.ndarray, first: str) -> Any:
        """The values of one motion, integrated on the host."""
        functions = flow.host
        if functions is None:
            functions = kept(self, (key, "one"), lambda: OneMotion.of(self, flow))
        given, start, origin, near = functions.start(*arrays)
        t0, y0 = np.float64(times[0]), np.asarray(start)
        if not near:
            require_admissible(self.owner, first, arrays[0])
        values: list[Any] = []
        seen = [(float(t0), np.asarray(given[0]))] if self.begin_at_a_point else []
        refused: ValueError | None = None
        attempt: Attempt = functions.attempt(t0, y0, given)

        def guarded(t: float, h: float, y: np.ndarray, f: np.ndarray) -> np.ndarray:
            nonlocal refused
            try:
                return attempt(t, h, y, f)
            except ValueError as error:  # the motion meets a singularity, or leaves the domain
                if h == 0.0:
                    raise
                refused = error
                return np.full((5, len(y)), np.nan)

        def reached(t: float, y: np.ndarray) -> None:
            nonlocal refused
            try:
                found, q, good = functions.record(np.float64(t), y, *given)
            except ValueError as error:
                refused = error
                raise Stopped(t, y, "it leaves the domain") from error
            seen.append((t, np.asarray(q)))
            if not good:
                raise Stopped(t, y, "")
            values.append(found)

        tolerances = float(flow.rtol), float(flow.atol)
        try:
            integrate_one(guarded, y0, times, np.asarray(origin), *tolerances, MAX_STEPS, reached)
        except Stopped as stop:
            if not values and self.begin_at_a_point:
                require_admissible(self.owner, first, seen[-1][1])
            refused = refused or self._refused_beyond(stop, functions.record, given)
            self._raise_stopped(key, stop, float(times[len(values)]), seen[-1:], refused)
        return jax.tree_util.tree_map(lambda *leaves: np.stack(leaves), *values)

    def _pays(self, key: Any, flow: Flow[Any], count: int) -> bool:
        """Whether to follow so many motions step by step, and not to compile their integration as a whole."""
        followed = kept(self, (key, "followed"), lambda: [0])
        followed[0] += count
        return 0 < count and followed[0] <= (BY_STEPS if flow.host is None else ONE_BY_ONE)

    def _one_by_one(
        self, key: Any, flow: Flow[Any], rows: tuple[Any, ...], times: np.ndarray, first: str
    ) -> Any:
        """The values of many motions (m, T, ...), each integrated by itself."""
        values = [self._one(key, flow, list(row), times, first) for row in zip(*rows, strict=True)]
        return jax.tree_util.tree_map(lambda *leaves: np.stack(leaves), *values)

    def _many(self, key: Any, flow: Flow[Any], rows: tuple[Any, ...], times: np.ndarray, first: str) -> Any:
        """The values of many motions (m, T, ...), integrated together on the host."""
        motions = kept(self, (key, "many"), lambda: Batch(*OneMotion.traceable(self, flow)))
        found = motions.run(rows, times, (float(flow.rtol), float(flow.atol)), MAX_STEPS)
        for row in np.flatnonzero(~found.near):
            require_admissible(self.owner, first, rows[0][row])
        if not found.good.all():
            row = np.argwhere(~found.good)[0]
            if row[-1] == 0 and self.begin_at_a_point:
                require_admissible(self.owner, first, found.points[tuple(row)])
            self._one(key, flow, [array[row[0]] for array in rows], times, first)  # it says more
            self._raise(key, times, found.good, found.points, np.all(np.isfinite(found.points), axis=-1))
        return found.values

    def _refused_beyond(
        self, stop: Stopped, record: Callable[..., Any], given: tuple[Any, ...]
    ) -> ValueError | None:
        """The owner's error where the motion would have been next, if that is what stopped it."""
        if stop.beyond is None:
            return None
        try:
            q = np.asarray(record(np.float64(stop.beyond[0]), stop.beyond[1], *given)[1])
            if np.isfinite(q).all():
                require_admissible(self.owner, "q", q)
        except ValueError as error:
            return error
        return None

    def _raise_stopped(
        self, key: Any, stop: Stopped, target: float, seen: list[tuple[float, np.ndarray]], refused: Any
    ) -> NoReturn:
        if not stop.why:
            self._raise_at(_failed(key, stop.t), seen[0][1])
        where = "".join(f", last seen at t = {t:.6g}, q = {_numbers(q)}" for t, q in seen)
        reason = f"{stop.why}, because {refused}" if refused else stop.why
        more = f"it cannot be followed beyond t = {stop.t:.6g}: {reason}"
        raise IntegrationError(f"{_failed(key, target)}{where}; {more}") from refused

    def _whole(self, key: Any, flow: Flow[Value], arguments: tuple[Argument, ...], times: Any) -> Value:
        """The values of all motions, integrated inside one compiled function."""
        count, clock, flow = len(times), times, replace(flow, host=None)
        if not isinstance(times, jax.core.Tracer):
            more = max(_FEWEST_TIMES, 1 << (count - 1).bit_length()) - count
            clock = np.concatenate([times, np.full(more, times[-1])])

        def at(*arrays: jax.Array) -> tuple[Value, jax.Array, jax.Array, jax.Array]:
            *given, instants = arrays
            values, points, ok = flow.solve_at(instants, *given)
            inside = jax.vmap(lambda q: admit_at(self.owner, q)[1])(points)
            known = jnp.all(jnp.isfinite(points), axis=-1)
            finite = known
            for leaf in jax.tree_util.tree_leaves(values):
                finite = finite & jnp.all(jnp.isfinite(leaf.reshape(leaf.shape[0], -1)), axis=1)
            clean = jax.tree_util.tree_map(lambda leaf: jnp.where(jnp.isfinite(leaf), leaf, 0.0), values)
            good = ok & inside & finite
            return clean, good.astype(jnp.float64), jnp.nan_to_num(points), known.astype(jnp.float64)

        last = Argument("times", clock, (len(clock),), batched=False)
        found = evaluate(self, key, at, *arguments, last, checked=self.begin_at_a_point, long=True)
        axes = found[1].ndim - 1
        values: Value
        found = jax.tree_util.tree_map(lambda leaf: leaf[(slice(None),) * axes + (slice(count),)], found)
        values, good, points, known = found
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(found)):
            values = _nan_from_the_first_failure(values, good)
        elif not np.asarray(good).all():
            self._raise(key, times, *map(np.asarray, (good, points, known)))
        return values

    def _raise(self, key: Any, times: Any, good: np.ndarray, points: np.ndarray, known: np.ndarray) -> None:
        row = tuple(np.argwhere(good == 0.0)[0])
        what = _failed(key, times[row[-1]])
        if not known[row]:
            last = (*row[:-1], max(row[-1] - 1, 0))
            where = f"last seen at t = {float(times[last[-1]]):.6g}, q = {_numbers(points[last])}"
            raise IntegrationError(f"{what}, {where}")
        self._raise_at(what, points[row])

    def _raise_at(self, what: str, q: np.ndarray) -> NoReturn:
        try:
            require_admissible(self.owner, "q", q)
        except ValueError as error:
            raise IntegrationError(f"{what}: {error}") from error
        raise IntegrationError(f"{what}, near q = {_numbers(q)}")


def readings(record: Callable[..., Record[Value]]) -> Flow[Value]:
    """What `record` reads at each time, as a flow without a state."""

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


def _nan_from_the_first_failure(values: Any, good: jax.Array) -> Any:
    """Values with the leading axes of good (..., T), ones and zeros; NaN from the first zero on."""
    alive = jnp.where(jnp.cumprod(good, axis=-1) == 1.0, 1.0, jnp.nan)
    return jax.tree_util.tree_map(
        lambda leaf: leaf * alive.reshape(alive.shape + (1,) * (leaf.ndim - alive.ndim)), values
    )


def _as_rows(array: Any, batch: tuple[int, ...], axes: int) -> np.ndarray:
    """(m, ...): the array with its first `axes` broadcast to `batch`, and these made one."""
    core = array.shape[axes:]
    return np.broadcast_to(np.asarray(array), (*batch, *core)).reshape(-1, *core)


def _failed(key: Any, t: Any) -> str:
    name = key[0] if isinstance(key, tuple) else key
    how = f"leaves the domain, blows up or takes more than {MAX_STEPS:,} steps"
    return f"{name}: the curve {how} by t = {float(t):.6g}"


def _numbers(q: np.ndarray) -> str:
    return np.array2string(q, precision=4, threshold=12)
