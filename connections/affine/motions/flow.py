"""Flows: differential equations on a manifold, with their public boundary.

A `Flow` defines the differential equation. `Trajectories` solves it, from public arguments to arrays at the
requested times; an error says when and where a motion leaves its domain. The loop over steps is
`integration.driver`, for one motion of JAX `integration.one_motion`, under tracing `integration.traced`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, NoReturn, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from connections._jax import Value
from connections._progress import Ticks
from connections.affine.motions.broken_symmetry import MOMENTUM
from connections.affine.motions.events import Events
from connections.affine.motions.jax_motions import (
    FEW,
    ROWS,
    HostMotions,
    JaxMotions,
    OneMotion,
    by_rows,
    motion_of,
    no_values,
    position_and_velocity,
)
from connections.affine.motions.motion import AnyMotion, Motion, followed_by
from connections.checks import (
    IntegrationError,
    NonFiniteError,
    ShapeError,
    as_array,
    finite_results,
    is_traced,
    keep_motion,
    kept_as,
    kept_motion,
    require_finite,
)
from connections.engines.internals.jax_names import trace_state_clean
from connections.evaluation.boundary import (
    Argument,
    admit_at,
    as_given,
    batch_of,
    require_admissible,
)
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import Parametrized, PytreePartial, cache_of, identities
from connections.geometry.frames import FrameField
from connections.integration.driver import (
    TOO_SHORT,
    Attempts,
    Followed,
    Stopped,
    follow,
    stop_at_drifts,
    too_many,
    unknown_in_words,
)
from connections.integration.one_motion import follow_one
from connections.integration.solver import Settings, Solver
from connections.integration.tolerances import LONGEST, StateLayout, expected_rates, is_held, uncertainties
from connections.integration.traced import solve

#: Of the whole time: how far beyond its stop a motion's rate is looked at. Steps that short were refused.
_BEYOND = (1e-13, 1e-12, 1e-11, 1e-10, 1e-9)
_BESIDE = 2.0 * float(np.finfo(float).eps)  # relative: beside a breakpoint, whatever is rounded
_ROUND_OFF = 64.0 * float(np.finfo(float).eps)  # relative, by which a state is moved to see it
LOOKS = 65  # times at which the rate of a motion at rest is looked at
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
    units : (t0, s, y, *given) -> a tuple like y: the units of the components at the time t0 + s of a motion
        from t0 (`motion_units`); of a point, those of its rate.
    points : which arrays of y are points; their motion is measured from the first point, others from zero.
        The points and the first array that is none, their velocity, are one group of a `StateLayout`.
    project : y -> the nearest valid state.
    timed : whether a function of time enters, so that steps must not pass over what it does.
    conserved : optional, what the motion conserves: its name, and (t0, s, y, *given) -> its value and scale.
    momenta : optional, y -> the momenta of a symmetry and the lengths of its generators, (p,) each. They are
        compared at requested times, except under tracing. The scale of `conserved` is at least <v, v> / 2.
    terms : optional, (t, y, *given) -> a tuple like y: the sums of the sizes of the terms that make up the
        rate, which may cancel (`tolerances.expected_rates`); by default the sizes of the rate itself.
    host : optional, the same motion in NumPy, with the functions of `HostMotion`.
    """

    start: Callable[..., Any]
    rate: Callable[..., Any]
    record: Callable[..., Record[Value]]
    units: Callable[..., Any]
    points: tuple[int, ...] = (0,)
    project: Callable[[Any], Any] | None = None
    timed: bool = False
    conserved: tuple[str, Callable[..., tuple[Any, Any]]] | None = None
    momenta: Callable[[Any], tuple[Any, Any]] | None = None
    terms: Callable[..., Any] | None = None
    host: Any = None

    def solve_at(
        self, times: jax.Array, *given: jax.Array, settings: Settings | None = None, breakpoints: Any = ()
    ) -> tuple[Value, jax.Array, jax.Array, Any]:
        """(values, points, ok, drift) at the times of one motion, JAX-traceable; NaN from where it fails.

        The drift is that of what is conserved; None if nothing is.
        """
        times = jnp.asarray(times)
        y0, origin = self.start_at(*given)
        states, drift = y0[None] * jnp.ones((len(times), 1)), jnp.zeros(len(times))
        if len(y0):

            def rate(s: jax.Array, y: jax.Array) -> jax.Array:
                return self.rate_at(times[0], s, y, *given)

            def scales_at(s: jax.Array, y: jax.Array) -> jax.Array:
                return self.scales_at(times[0], s, y, *given)

            clock, places = times - times[0], slice(None)
            if np.size(breakpoints) and len(times) > 1:
                clock, places, gap = _with_breakpoints(clock, jnp.asarray(breakpoints), times[0], self.points)
                settings = (settings or Settings())._replace(gap=gap)
            layout, expected = self.layout(*given), jnp.zeros_like(origin)
            if self.timed and self.points:
                instants = jnp.linspace(0.0, 1.0, LOOKS) * clock[-1]
                terms = jax.vmap(lambda s: self.terms_at(times[0], s, y0, *given))(instants)
                expected = expected_rates(terms, scales_at(jnp.zeros(()), y0)[0], layout, jnp)
            scales = jax.lax.stop_gradient(jnp.stack([origin, expected]))
            found = solve(rate, scales_at, y0, scales, layout, clock, self.settings(settings))
            states, drift = (array[places] for array in found)
        values, points, ok = jax.vmap(lambda t, y: self.record(t, self.state_at(y, given), *given))(
            times, states
        )
        return values, points, ok, None if self.conserved is None else drift

    def settings(self, settings: Settings | None = None) -> Settings:
        """Settings whose longest step is that of functions of time, if such enter and no bound is given."""
        settings = settings or Settings()
        if not self.timed:
            return settings
        numpy: Any = np if isinstance(settings.max_step, float) else jnp
        return settings._replace(share=numpy.where(numpy.isinf(settings.max_step), LONGEST, numpy.inf))

    def layout(self, *given: Any) -> StateLayout:
        """The layout of the flat state: which components are coordinates of a point, and in which groups."""
        sizes = [math.prod(leaf.shape) for leaf in jax.eval_shape(self.start, *given)]
        points = np.repeat([i in self.points for i in range(len(sizes))], sizes)
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        first = next((i for i in range(len(sizes)) if i not in self.points), len(sizes))
        together = set(self.points) | {first}
        groups: list[slice] = []
        for i, (begin, end) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
            joins = i > 0 and i in together and i - 1 in together
            groups[-1:] = [slice(groups[-1].start, end)] if joins else [*groups[-1:], slice(begin, end)]
        return StateLayout(points, tuple(group for group in groups if group.stop > group.start))

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

    def projects_nothing(self, *given: Any) -> bool:
        """Whether every state is valid as it is, as in a chart: `project` is the identity, by its trace."""
        if self.project is None:
            return True
        traced = jax.make_jaxpr(self.project)(jax.eval_shape(self.start, *given)).jaxpr
        return bool(traced.outvars == traced.invars)

    def rate_at(self, t0: jax.Array, s: jax.Array, y: jax.Array, *given: jax.Array) -> jax.Array:
        """Rate of the flat state y (k,) at the time t0 + s."""
        return ravel_pytree(self.rate(t0 + s, self.state_at(y, given), *given))[0]

    def terms_at(self, t0: jax.Array, s: jax.Array, y: jax.Array, *given: jax.Array) -> jax.Array:
        """Sums of the sizes of the terms of the rate of the flat state y (k,) at the time t0 + s."""
        if self.terms is None:
            return jnp.abs(self.rate_at(t0, s, y, *given))
        return ravel_pytree(self.terms(t0 + s, self.state_at(y, given), *given))[0]

    def scales_at(self, t0: jax.Array, s: jax.Array, y: jax.Array, *given: jax.Array) -> jax.Array:
        """Units of the components of y, and what is conserved as of `steps.Attempt`, (2, k)."""
        state, nothing = self.state_at(y, given), jnp.zeros_like(y)
        units = ravel_pytree(self.units(t0, s, state, *given))[0]
        if self.conserved is None:
            return jnp.stack([units, nothing])
        value, scale = self.conserved[1](t0, s, state, *given)
        return jnp.stack([units, nothing.at[0].set(value).at[-1].set(scale)])


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
        known: Trajectories | None = cache_of(owner).get(cls)
        return cache_of(owner).setdefault(cls, cls(owner)) if known is None else known

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
        recipe: PytreePartial[Flow[Value]],
        arguments: tuple[Argument, ...],
        times: Any,
        solver: Solver | None = None,
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
        solver : the options of the call; None for the defaults.
        since : subtracted from the times before; errors add it again.

        Raises
        ------
        IntegrationError, ShapeError, NonFiniteError, and the errors of ``owner.explain`` at the first point.
        """
        with kept_as(lambda kept: None):  # there are only values, and they have other meanings
            return self._run(name, recipe, arguments, as_times(times), solver or Solver(), since)[0]

    @overload
    def motion(
        self,
        name: str,
        recipe: PytreePartial[Flow[State]],
        arguments: tuple[Argument, ...],
        times: Any,
        solver: Solver | None = None,
    ) -> Motion: ...
    @overload
    def motion(
        self,
        name: str,
        recipe: PytreePartial[Flow[AnyMotion]],
        arguments: tuple[Argument, ...],
        times: Any,
        solver: Solver | None = None,
    ) -> AnyMotion: ...
    def motion(
        self,
        name: str,
        recipe: Any,
        arguments: tuple[Argument, ...],
        times: Any,
        solver: Solver | None = None,
    ) -> Any:
        """The motion whose flow records (q, v), or more: a `Motion` at one instant.

        Parameters and errors are those of `run`.
        """
        times, solver = as_times(times), solver or Solver()
        with kept_as(lambda kept: self._as_motion(times, *kept)):
            values, more = self._run(name, recipe, arguments, times, solver)
        motion = self._as_motion(times, values, more)
        kept = tuple(
            item._replace(value=item.value if is_traced(item.value) else deepcopy(item.value))
            for item in arguments  # the caller's may change
        )
        follow = partial(self._values, name, recipe, kept, solver)
        if not solver.estimate:
            return followed_by(motion, times, follow)
        with kept_as(lambda kept: motion):  # which is complete; only its estimate is not
            closer, _ = self._run(name, recipe, arguments, times, solver.closer())
        estimated = replace(motion, estimate=_differences(motion, self._as_motion(times, closer, {})))
        return followed_by(estimated, times, follow)

    def _as_motion(self, times: Any, values: Any, more: dict[str, Any]) -> Any:
        """The motion of recorded values, at as many of the times as they have."""
        reached = np.shape(values[0])[-2]
        times = times if reached == len(times) else times[:reached]
        own = times if isinstance(times, jax.Array) else np.array(times)  # a copy: the caller may change it
        times = as_given(own, values[0])
        motion = replace(values, times=times) if isinstance(values, Motion) else Motion(times, *values)
        return replace(motion, **more) if more else motion

    # --- private -------------------------------------------------------------------------------------------

    def _values(
        self, name: str, recipe: Any, arguments: tuple[Argument, ...], solver: Solver, times: Any
    ) -> Any:
        return self._run(name, recipe, arguments, times, solver)[0]

    def _run(
        self,
        name: str,
        recipe: PytreePartial[Flow[Value]],
        arguments: tuple[Argument, ...],
        times: Any,
        solver: Solver,
        since: Any = 0.0,
    ) -> tuple[Value, dict[str, Any]]:
        """The result of `run`, for times that are validated, and further fields of a `Motion`."""
        arrays = []
        for item in arguments:  # otherwise the solver would spend all of its steps on a NaN
            arrays.append(as_array(item.name, item.value, item.core))
            require_finite(item.name, arrays[-1])
        batch = batch_of(arguments, arrays)
        items = zip(arrays, arguments, strict=True)
        rows = tuple(as_rows(array, batch, array.ndim - len(item.core)) for array, item in items)
        if is_traced_now(times, *arrays):
            if solver.events or solver.stiff:
                what = "events are found" if solver.events else "method='Radau' works"
                raise ValueError(f"{name}: {what} outside of jit, grad and vmap only")
            if not is_traced(times, since):
                solver.require_within(np.asarray(times) + since)
            traced: tuple[Value, Any] = self._traced(recipe, rows, batch, times, solver, since)
            more = {} if traced[1] is None else {"drift": traced[1]}
            return traced[0], more | _no_events(solver)
        first = arguments[0].name if arguments else ""
        solver.require_within(np.asarray(times) + since)
        given = tuple(item.value for item in arguments)
        with kept_as(lambda kept: _in_batch(kept, batch, given)):
            found = self._followed(name, recipe, rows, batch, np.asarray(times), first, solver, since)
        values: tuple[Value, dict[str, Any]] = _in_batch(found, batch, given)
        return values

    def _followed(
        self,
        name: str,
        recipe: PytreePartial[Flow[Any]],
        rows: tuple[np.ndarray, ...],
        batch: tuple[int, ...],
        times: np.ndarray,
        first: str,
        solver: Solver,
        since: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """The values (m, T, ...) of m motions by `integration.driver`, and further fields of a `Motion`."""
        count = math.prod(batch)
        if not count:
            values = no_values(PytreePartial(motion_of, self, recipe), rows, times)
            if not solver.events:
                return values, _no_events(solver)
            came = Events.of_no_motion(len(solver.events), *position_and_velocity(values))
            return values, dict(zip(("event_times", "event_states"), came, strict=True))
        flow, motions = self._equation(recipe, rows, solver.stiff)
        settings = flow.settings(solver.settings)
        started = motions.start(rows, count)
        for far in np.flatnonzero(~started.near):
            require_admissible(self.owner, first, rows[0][far])
        scales = np.stack([started.origin, np.zeros_like(started.origin)])
        attempts = motions.attempts(float(times[0]), started, scales, (settings.rtol, settings.atol))
        clock, places = times - times[0], slice(None)
        if len(solver.breakpoints) and len(times) > 1:
            clock, places, gap = _with_breakpoints(clock, solver.breakpoints - since, times[0], flow.points)
            settings = settings._replace(gap=float(gap))
        look = None
        if flow.timed and flow.points:
            terms_of = motions.terms(float(times[0]), started)
            own = scales, flow.layout(*(row[0] for row in rows))
            look = partial(_look_ahead, attempts, terms_of, *own, clock[-1])
        name_of = flow.conserved[0] if flow.conserved else ""
        events = None
        if solver.events:
            states_of, whole = _states_of(motions, started.given, flow, recipe), abs(float(clock[-1]))
            points = flow.layout(*(row[0] for row in rows)).points
            error_of = partial(uncertainties, points=points, tolerances=settings[:2])
            seen = attempts, states_of, error_of
            events = Events(solver.events, *seen, float(times[0]) + since, whole, started.y)
        falls = isinstance(motions, HostMotions) and motions.falls
        equation = attempts, started.y, started.origin, clock, settings
        options = motions.width, events, look, name_of
        following = partial(follow, *equation, *options, looked_at=not falls)
        alone = started.y.size and count == 1 and events is None
        if isinstance(motions, JaxMotions) and alone and not solver.stiff:
            beginning = motions.alone(float(times[0]), started, scales, float(clock[-1]), settings)
            following = partial(follow_one, *beginning, clock, settings, look, name_of)
        found, interrupt = motions_with_progress(name, following)
        if name_of and isinstance(motions, HostMotions) and falls:
            energies = motions.energies(found.states, found.conserved)
            stop_at_drifts(found, clock, name_of, energies, settings.drift)
        if flow.momenta is not None:
            at = compiled(_momenta_rows_at, recipe)
            speeds = np.sqrt(2.0 * found.conserved[1])  # the largest until then
            for generator, J, length in _momenta(at, found.states, started.given):
                stop_at_drifts(found, clock, generator, (J, speeds * length), settings.drift)
        reached = int(np.count_nonzero(np.abs(times - times[0]) <= np.abs(found.last).max()))
        values, points, good = _recorded(motions, times, found.states[:, places], started.given, reached)
        kept = flow.conserved is not None or flow.momenta is not None
        more: dict[str, Any] = {"drift": found.drift[:, places]} if kept else {}
        more |= _no_events(solver)
        if events is not None:
            more["event_times"], more["event_states"] = events.results()
            for ended, end in found.ended.items():
                good[ended] |= np.abs(times - times[0]) > abs(end)
        if good.all() and interrupt is None:
            return values, more
        alive = np.where(np.cumprod(good, axis=1) == 1, 1.0, np.nan)
        partial_values = jax.tree_util.tree_map(
            lambda leaf: np.asarray(leaf) * alive.reshape(*alive.shape, *(1,) * (np.ndim(leaf) - 2)), values
        )
        if interrupt is not None:
            keep_motion(interrupt, _until_stopped(good, partial_values, more, batch))
            raise interrupt
        if solver.allow_partial and good[:, 0].all():
            return partial_values, more
        row = int(np.argmin(good.all(axis=1)))
        given = tuple(array[row] for array in rows)
        failed = [
            tuple(int(i) for i in np.unravel_index(k, batch)) for k in np.flatnonzero(~good.all(axis=1))
        ]
        if batch:
            name = f"{name} {list(failed[0])} of the batch"
        stop, refused = found.stopped.get(row), motions.refused_at(row)
        if stop is not None and not solver.stiff and stop.why == too_many(settings.max_steps):
            stop = stop._replace(why=f"{stop.why} (method='Radau' takes few, if the motion is stiff)")
        try:
            self._raise(name, flow, first, given, times, good[row], points[row], stop, refused, since)
        except IntegrationError as error:
            error.failed = tuple(failed)
            error.motion = _until_stopped(good, partial_values, more, batch)
            raise

    def _equation(
        self, recipe: PytreePartial[Flow[Any]], rows: tuple[np.ndarray, ...], stiff: bool
    ) -> tuple[Flow[Any], JaxMotions | HostMotions]:
        """The flow, and its functions of many motions.

        The last ones that JAX has compiled are kept: to find them anew takes as long as a short motion.
        """
        key = recipe.function, identities(recipe.things), stiff, tuple(row.shape[1:] for row in rows)
        last = cache_of(self).get(Flow)
        if last is not None and last[0] == key:
            found: tuple[Flow[Any], JaxMotions] = last[1]
            return found
        flow = recipe()
        if stiff:
            flow = replace(flow, host=None)  # of which there are no derivatives
        if flow.host is not None:
            return flow, HostMotions(flow.host)
        layout = flow.layout(*(row[0] for row in rows))
        motions = JaxMotions(PytreePartial(motion_of, self, recipe), layout, stiff)
        # With the recipe, which holds the things, so that no others get their ids.
        cache_of(self)[Flow] = key, (flow, motions), recipe
        return flow, motions

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
        if np.isfinite(points[at]).all() and (at or stop is None):  # at first, what is recorded is not finite
            self._raise_at(failed, points[at])
        known = [(times[at - 1], points[at - 1])] if at else []
        if not at and self.begin_at_a_point:
            known = [(times[0], given[0])]
        where = "".join(f", last seen at t = {since + t:.6g}, q = {_numbers(q)}" for t, q in known)
        if stop is None:
            reason = f": {refused}" if refused else ""
            raise IntegrationError(f"{failed}{where}{reason}") from refused
        reason, refused = self._why(flow, stop, refused, (times[0], times[at], times[-1]), given, since)
        more = f"it cannot be followed beyond t = {since + times[0] + stop.s:.6g}: {reason}"
        error = IntegrationError(f"{failed}{where}; {more}")
        vars(error)["stopped"] = stop.y  # where `broken_symmetry` looks
        raise error from refused

    def _why(
        self,
        flow: Flow[Any],
        stop: Stopped,
        refused: ValueError | None,
        times: tuple[float, float, float],
        given: tuple[np.ndarray, ...],
        since: Any,
    ) -> tuple[str, ValueError | None]:
        """Why the integration of one motion stopped early, and the error that says it, or None.

        What a user's function returns at the last state comes first, then what the point there is, then what
        such a function returns a little later, where the state may be none.

        Parameters
        ----------
        refused : the error that refused its last step, or None.
        times : the first, the one that was not reached, and the last.
        """
        first, t, last = times
        if flow.conserved is not None and stop.why == unknown_in_words(flow.conserved[0]):
            unknown = _conserved_refused(flow, first, stop, given, since)
            return f"{stop.why}, because {unknown}" if unknown else stop.why, unknown
        refused_at = partial(_rate_refused, flow, first, stop, given, since)
        here = refused_at(0.0, True) if stop.why == TOO_SHORT else None
        if here is not None:
            return str(here), here
        refused_there = None if refused else self._refused_beyond(flow, stop, t, given)
        if refused_there is None and stop.why == TOO_SHORT:
            rates = (refused_at(share * (last - first), refused is None) for share in _BEYOND)
            beyond = next((error for error in rates if error is not None), None)
            if beyond is not None:
                return str(beyond), beyond
        refused = refused or refused_there
        return f"{stop.why}, because {refused}" if refused else stop.why, refused

    def _refused_beyond(
        self, flow: Flow[Any], stop: Stopped, t: float, given: tuple[np.ndarray, ...]
    ) -> ValueError | None:
        """The owner's error at the state extrapolated beyond the stop, or None if it is valid there.

        Along a given curve it is that at the requested time t, which was not reached.
        """
        try:
            if flow.host is not None:
                q = flow.host.record(t, stop.beyond, *flow.host.start(*given)[0])[1]
            else:
                q = OneMotion.of(self, flow).record(t, stop.beyond, *given)[1]
            if np.isfinite(q).all():
                require_admissible(self.owner, "q", np.asarray(q))
        except ValueError as error:
            return error
        return None

    def _traced(
        self,
        recipe: PytreePartial[Flow[Any]],
        rows: tuple[Any, ...],
        batch: tuple[int, ...],
        times: Any,
        solver: Solver,
        since: Any,
    ) -> Any:
        """The values under tracing; NaN from the first time that a motion does not reach."""
        chosen = solver.settings, solver.breakpoints - since
        if not batch:
            return compiled(_traced_at, self, recipe)(chosen, times, *(row[0] for row in rows))
        values = compiled(_traced_rows_at, self, recipe)(chosen, times, *rows)
        return jax.tree_util.tree_map(lambda leaf: leaf.reshape(*batch, *leaf.shape[1:]), values)

    def _raise_at(self, what: str, q: np.ndarray) -> NoReturn:
        try:
            require_admissible(self.owner, "q", q)
        except ValueError as error:
            raise IntegrationError(f"{what}: {error}") from error
        raise IntegrationError(f"{what}, near q = {_numbers(q)}")


def _traced_at(
    trajectories: Trajectories, recipe: Recipe, chosen: Any, times: jax.Array, *arguments: jax.Array
) -> Any:
    """The values (T, ...) of one motion, and their drift (T,) or None."""
    given, near = list(arguments), jnp.asarray(True)
    if trajectories.begin_at_a_point:
        frame, q = trajectories.frame, given[0]
        given[0], near = frame.project_at(q), frame.near_at(q)  # the point is validated with all others
    settings, breakpoints = chosen
    values, points, ok, drift = recipe().solve_at(times, *given, settings=settings, breakpoints=breakpoints)
    good = near & ok & jax.vmap(lambda q: admit_at(trajectories.owner, q)[1])(points)
    for leaf in (points, *jax.tree_util.tree_leaves(values)):
        good = good & jnp.all(jnp.isfinite(leaf.reshape(leaf.shape[0], -1)), axis=1)
    alive = jnp.where(jnp.cumprod(good) == 1, 1.0, jnp.nan)
    return jax.tree_util.tree_map(
        lambda leaf: leaf * alive.reshape(-1, *(1,) * (leaf.ndim - 1)), (values, drift)
    )


def _traced_rows_at(
    trajectories: Trajectories, recipe: Recipe, chosen: Any, times: jax.Array, *rows: jax.Array
) -> Any:
    return jax.vmap(lambda *row: _traced_at(trajectories, recipe, chosen, times, *row))(*rows)


def _rate_refused(
    flow: Flow[Any],
    t0: float,
    stop: Stopped,
    given: tuple[np.ndarray, ...],
    since: Any,
    step: float,
    whole: bool,
) -> NonFiniteError | None:
    """The error of the first user's function that is not finite a step after the stop, or None.

    Parameters
    ----------
    whole : whether it is also an error if only the rate is not finite, as with an infinite derivative.
    """
    y, t = stop.later(step), t0 + stop.s + step
    state = flow.state_at(jnp.asarray(y), given)
    if flow.host is not None:  # whose functions need not know JAX's arrays
        state = jax.tree_util.tree_map(np.array, state)
    try:
        with finite_results():
            rate = ravel_pytree(flow.rate(t, state, *given))[0]
        if whole:
            require_finite("rate", rate)
    except NonFiniteError as error:
        return _at_time(error, since + t)
    except (ArithmeticError, TypeError, ValueError):  # the state a step later may be none
        return None
    return None


def _conserved_refused(
    flow: Flow[Any], t0: float, stop: Stopped, given: tuple[np.ndarray, ...], since: Any
) -> NonFiniteError | None:
    """The error of the first user's function that makes what is conserved not finite at the stop, or before.

    Its value at the beginning is as good a reason: nothing can be compared with it.
    """
    assert flow.conserved is not None
    for s, y in ((0.0, flow.start_at(*map(jnp.asarray, given))[0]), (stop.s, jnp.asarray(stop.y))):
        try:
            with finite_results():
                flow.conserved[1](t0, s, flow.state_at(y, given), *given)
        except NonFiniteError as error:
            return _at_time(error, since + t0 + s)
    return None


def _at_time(error: NonFiniteError, t: float) -> NonFiniteError:
    """The error of a function that is not finite, with the time."""
    what = str(error).removesuffix(": every number must be finite")
    return NonFiniteError(f"{what} at t = {t:.6g}")


def motions_with_progress(
    name: str, following: Callable[..., Followed]
) -> tuple[Followed, KeyboardInterrupt | None]:
    """The motions, with progress; if Ctrl-C ends them, what was found before, and the exception.

    Parameters
    ----------
    name : of the motion.
    following : `follow` with its arguments but the last.
    """
    try:
        with Ticks(name) as tick:
            return following(tick=tick), None
    except KeyboardInterrupt as interrupt:
        found = kept_motion(interrupt)
        if found is None:
            raise
        return found, interrupt


def _look_ahead(
    attempts: Attempts,
    terms_of: Callable[[int, float, np.ndarray], np.ndarray],
    scales: np.ndarray,
    layout: StateLayout,
    end: float,
    motion: int,
    s: float,
    state: np.ndarray,
    only_held: bool,
) -> bool:
    """Whether rates that a motion at rest can be expected to have are written into its scales.

    Parameters
    ----------
    terms_of : (motion, time, state) -> the sums of the sizes of the terms of its rate, (k,).
    only_held : whether they are only written if forces cancel there.
    """
    nothing, which = np.zeros(1), np.array([motion])
    units = attempts(which, np.array([s]), nothing, state[:, None], nothing)[-1, 0]
    terms = terms_of(motion, s, state[0])
    terms = np.maximum(terms, _sizes_within(attempts, which, s, state))
    if only_held and not is_held(state[1], terms, units, layout):
        return False
    later = [] if only_held else [terms_of(motion, at, state[0]) for at in np.linspace(s, end, LOOKS)]
    scales[1, motion] = expected_rates(np.stack([terms, *later]), units, layout)
    return True


def _sizes_within(attempts: Attempts, which: np.ndarray, s: float, state: np.ndarray) -> np.ndarray:
    """Sizes of terms that may cancel within one user's function: the rate's change with round-off, (k,).

    The rate is compared with those at each component, and at the time, larger and smaller by a part
    `_ROUND_OFF`. The lesser of both changes counts, because a jump is on one side; they are added, and
    divided by this part.
    """
    nothing, total = np.zeros(1), np.zeros(state.shape[1])

    def change(part: int, by: float) -> np.ndarray:
        at, other = np.array([s]), state.copy()
        if part < 0:
            at *= 1.0 + by
        else:
            other[0, part] *= 1.0 + by
        moved: np.ndarray = np.abs(attempts(which, at, nothing, other[:, None], nothing)[1, 0] - state[1])
        return moved

    for part in (-1, *np.flatnonzero(state[0]).tolist()):
        lesser = np.minimum(change(part, _ROUND_OFF), change(part, -_ROUND_OFF))
        total += np.where(np.isfinite(lesser), lesser, 0.0)
    return total / _ROUND_OFF


def _states_of(
    motions: JaxMotions | HostMotions, given: tuple[Any, ...], flow: Flow[Any], recipe: Any
) -> Callable[[int, list[float], np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(motion, times (w,), y (w, k)) -> q (w, nq), v (w, n) of a motion in these flat states."""
    if flow.host is None and flow.record is recorded:
        parts = jax.eval_shape(flow.start, *(part[0] for part in given))
        nq, n = (math.prod(part.shape) for part in parts[:2])
        if flow.projects_nothing(*(part[0] for part in given)):
            return lambda motion, times, y: (y[:, :nq].copy(), y[:, nq : nq + n].copy())
        project = compiled(_projected_rows_at, recipe)
        return lambda motion, times, y: by_rows(
            lambda i: project(y[i], *(part[motion] for part in given)), len(y), FEW
        )
    own: dict[int, tuple[Any, ...]] = {}

    def states_of(motion: int, times: list[float], y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if motion not in own:
            own[motion] = tuple(array[motion : motion + 1] for array in given)
        return motions.instants(times, y, own[motion])

    return states_of


def _projected_rows_at(recipe: Recipe, y: jax.Array, *given: jax.Array) -> Any:
    """q (rows, nq) and v (rows, n) of the valid states nearest to those of one motion, y (rows, k)."""
    flow = recipe()
    q, v = jax.vmap(lambda y: flow.state_at(y, given)[:2])(y)
    return q, v


def _no_events(solver: Solver) -> dict[str, Any]:
    """The fields of a motion whose list of events is empty; none if there is no such list."""
    return {} if solver.events is None else {"event_times": (), "event_states": ()}


def _recorded(
    motions: JaxMotions | HostMotions, times: np.ndarray, states: np.ndarray, given: Any, reached: int
) -> Any:
    """`record` of the first times, which some motion reached; at the others all is NaN, and not good."""
    values, points, good = motions.record(times[:reached], states[:, :reached], given)
    if reached == len(times):
        return values, points, good

    def padded(leaf: Any, filled: Any = np.nan) -> Any:
        leaf = np.asarray(leaf)
        more = np.full((leaf.shape[0], len(times) - reached, *leaf.shape[2:]), filled)
        return np.concatenate([leaf, more], axis=1)

    return jax.tree_util.tree_map(padded, (values, points)) + (padded(good, False),)


def _momenta_rows_at(recipe: Recipe, y: jax.Array, *given: jax.Array) -> Any:
    """Momenta of states (rows, k), and lengths of the generators there."""
    flow = recipe()
    return jax.vmap(lambda y, *own: flow.momenta(flow.state_at(y, own)))(y, *given)


def _momenta(
    function: Callable[..., Any], states: np.ndarray, given: tuple[Any, ...]
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(name, momentum (m, T), length (m, T)) of each generator at states (m, T, k)."""
    m, count = states.shape[:2]

    def at(i: np.ndarray) -> Any:
        return function(states[i // count, i % count], *(np.asarray(array)[i // count] for array in given))

    J, lengths = (array.reshape(m, count, -1) for array in by_rows(at, m * count, ROWS))
    for i in range(J.shape[-1]):
        yield f"{MOMENTUM} {i} of the symmetry", J[..., i], lengths[..., i]


def _until_stopped(good: np.ndarray, values: Any, more: dict[str, Any], batch: tuple[int, ...]) -> Any:
    """The values of motions (m, T, ...) that ended early, and further fields; of one motion what is good."""
    if not jax.tree_util.tree_leaves(values):
        return None  # nothing is recorded of motions that fail
    if batch:
        return values, more
    until = int(np.argmin(np.append(good[0], False)))
    kept = values, {name: more[name] for name in more if name == "drift"}
    values, kept_more = jax.tree_util.tree_map(lambda leaf: leaf[:, :until], kept)
    return values, more | kept_more


def _in_batch(found: Any, batch: tuple[int, ...], given: tuple[Any, ...]) -> Any:
    """Values and further fields (m, ...) with the axes of the batch instead, as JAX's arrays if such came."""
    return as_given(jax.tree_util.tree_map(lambda leaf: leaf.reshape(*batch, *leaf.shape[1:]), found), *given)


def _differences(motion: Motion, closer: Motion) -> Any:
    """|q - q'| and |v - v'| of a motion and a more accurate one."""
    numpy: Any = jnp if isinstance(motion.q, jax.Array) else np
    return tuple(numpy.abs(a - b) for a, b in zip(motion, closer, strict=True))


def _with_breakpoints(clock: Any, breakpoints: Any, t0: Any, moves: Any) -> tuple[Any, Any, Any]:
    """Clock times together with breakpoints, the places of the clock times among them, and `Settings.gap`.

    A rate may jump at a breakpoint, or have no value there, and t0 + s is the breakpoint but for round-off.
    So the steps of a motion (`moves`) end two units of the last place before it, and begin again as far
    behind it: the time between is a step of its own, also if the breakpoint is the first or the last time.
    What is carried along a curve begins at a size, and such an error is nothing to it.
    """
    numpy: Any = np if isinstance(clock, np.ndarray) else jnp
    sign, at = numpy.sign(clock[-1]), breakpoints - t0
    off, around = _BESIDE * (abs(t0) + numpy.abs(at)), sign * at
    off = numpy.where(at == 0.0, numpy.maximum(off, _BESIDE * numpy.abs(clock[-1])), off)
    if moves:
        around = numpy.concatenate([around - off, around + off])
        around = numpy.clip(around, 0.0, numpy.abs(clock[-1]))
    together = numpy.sort(numpy.concatenate([sign * clock, around]))
    if numpy is np:
        together = np.unique(together)
    return sign * together, numpy.searchsorted(together, sign * clock), 2.5 * numpy.max(off) if moves else 0.0


def recorded(t: jax.Array, state: Any, *given: jax.Array) -> Record[Any]:
    """The state itself; its first arrays are q and v."""
    return state, state[0], jnp.asarray(True)


def readings(record: Callable[..., Record[Value]]) -> Flow[Value]:
    """A flow without a state: `record` is evaluated at each time."""

    def nothing(*given: Any) -> tuple[()]:
        return ()

    return Flow(nothing, nothing, record, nothing, points=())


def is_traced_now(*arrays: Any) -> bool:
    """Whether JAX traces these arrays, or anything."""
    return not trace_state_clean() or is_traced(*arrays)


def require_untraced_symmetry(*arrays: Any) -> None:
    """Raise `ValueError` if JAX traces: momenta are compared with the largest speed of all steps."""
    if is_traced_now(*arrays):
        raise ValueError("symmetry: momenta are compared outside of jit, grad and vmap only")


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
        at = int(np.argmin(np.sign(steps) == (np.sign(steps[0]) or 1.0)))
        pair = f"times[{at}] = {times[at]:.17g} before times[{at + 1}] = {times[at + 1]:.17g}"
        raise ShapeError("times", "(T,) of strictly increasing or strictly decreasing values", pair)
    return times


def as_rows(array: Any, batch: tuple[int, ...], axes: int) -> Any:
    """(m, ...): the array with its first `axes` broadcast to `batch`, and these reshaped to one axis."""
    core, numpy = array.shape[axes:], jnp if isinstance(array, jax.core.Tracer) else np
    return numpy.broadcast_to(numpy.asarray(array), (*batch, *core)).reshape(math.prod(batch), *core)


def _failed(name: str, t: Any) -> str:
    how = "leaves the domain, blows up or takes too many steps"
    return f"{name}: the curve {how} by t = {float(t):.6g}"


def _numbers(q: np.ndarray) -> str:
    return np.array2string(q, precision=4, threshold=12)
