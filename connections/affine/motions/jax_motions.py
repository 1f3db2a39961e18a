"""Motions for `integration.driver`: flows compiled by JAX (`JaxMotions`), and flows in NumPy (`HostMotions`).

Both have the same three functions of many motions: the initial states, a step of some of them, and the values
recorded at given states. JAX compiles each function for one row, a few, and many. Batches are padded to these
sizes, so that three compilations serve any number of motions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from connections.affine.motions.host_motions import HostMotion
from connections.affine.motions.motion import Motion
from connections.evaluation.boundary import admit_at
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import PytreePartial
from connections.integration.driver import WIDTH, Attempts
from connections.integration.one_motion import GOALS, Advance
from connections.integration.radau import judged_stiff_step_at
from connections.integration.solver import Settings
from connections.integration.steps import step_at
from connections.integration.tolerances import FIRST_STEP, LayoutKey, StateLayout, with_error_ratios
from connections.integration.traced import MotionInProgress, StepControl, after_steps, beginning

Array = NDArray[np.float64]
FEW = 8  # rows of a compiled step for two to eight motions
WIDTH_OF_ROWS = 512  # motions that take their steps together, if all their steps are one compiled call
ROWS = 256  # states that are recorded together, if there is more than one motion


class InitialStates(NamedTuple):
    """The initial states of m motions.

    Parameters
    ----------
    given : arrays (m, ...), the arguments of each; the first is projected on the manifold if it is a point.
    y, origin : (m, k) flat states, and the points from which the motion of components is measured.
    near : (m,) whether the first point is near its manifold.
    """

    given: tuple[Any, ...]
    y: Array
    origin: Array
    near: NDArray[np.bool_]


class OneMotion(NamedTuple):
    """A flow as functions of one flat state y (k,); JAX-traceable.

    Parameters
    ----------
    start : *given -> (given, its point projected; y (k,); origin (k,); whether the point was near).
    rate : (t0, s, y, *given) -> dy/dt (k,) at the time t0 + s.
    scales : (t0, s, y, *given) -> units of the components there, and what is conserved, (2, k).
    terms : (t0, s, y, *given) -> the sums of the sizes of the terms of the rate, (k,).
    record : (t, y, *given) -> (values, q, whether all is admissible and finite).
    """

    start: Callable[..., Any]
    rate: Callable[..., jax.Array]
    scales: Callable[..., jax.Array]
    terms: Callable[..., jax.Array]
    record: Callable[..., Any]

    @classmethod
    def of(cls, owner: Any, flow: Any) -> OneMotion:
        """The functions of a flow.

        Parameters
        ----------
        owner : the `Trajectories` of the flow.
        flow : the `Flow`.
        """

        def start(*given: jax.Array) -> tuple[Any, jax.Array, jax.Array, jax.Array]:
            near = jnp.asarray(True)
            if owner.begin_at_a_point:
                frame, q, rest = owner.frame, given[0], given[1:]
                given, near = (frame.project_at(q), *rest), frame.near_at(q)
            return given, *flow.start_at(*given), near

        def record(t: jax.Array, y: jax.Array, *given: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
            # Valid are a state that the flow admits, a point where the owner is defined, and finite values.
            values, q, ok = flow.record(t, flow.state_at(y, given), *given)
            ok = ok & admit_at(owner.owner, q)[1]
            for leaf in (q, *jax.tree_util.tree_leaves(values)):
                ok = ok & jnp.all(jnp.isfinite(leaf))
            return values, q, ok

        return cls(start, flow.rate_at, flow.scales_at, flow.terms_at, record)

    def step(
        self, layout: StateLayout, instants: jax.Array, state: jax.Array, scales: jax.Array, *given: jax.Array
    ) -> jax.Array:
        """A step of the method (STATE + 1, k), judged (`tolerances.with_error_ratios`).

        Parameters
        ----------
        layout : of the components.
        instants : (6,) t0, s, h, by how much the clock may be wrong, and the tolerances.
        state, scales : (STATE, k) and (2, k).
        given : arguments of the motion.
        """
        t0, s, h, clock_error, rtol, atol = instants
        rate, units = self._from(t0, given)
        found = step_at(rate, units, s, h, state[0], state[1])
        lengths = jnp.abs(s + h), jnp.abs(h), clock_error
        step: jax.Array = with_error_ratios(found, state, scales, layout, *lengths, (rtol, atol), jnp)
        return step

    def stiff_step(
        self, layout: StateLayout, instants: jax.Array, state: jax.Array, scales: jax.Array, *given: jax.Array
    ) -> jax.Array:
        """A step of Radau's method, with the arguments of `step`."""
        rate, units = self._from(instants[0], given)
        return judged_stiff_step_at(rate, units, layout, instants[1:], state, scales)

    def _from(self, t0: jax.Array, given: tuple[jax.Array, ...]) -> Any:
        """The rate and the scales as functions of (s, y)."""
        return (lambda s, y, at=at: at(t0, s, y, *given) for at in (self.rate, self.scales))


def motion_of(owner: Any, recipe: Callable[[], Any]) -> OneMotion:
    """The functions of the flow that `recipe` makes; `owner` as for `OneMotion.of`."""
    return OneMotion.of(owner, recipe())


class JaxMotions:
    """Motions by compiled functions.

    Parameters
    ----------
    make : () -> the functions of one motion, bound to the objects that it depends on.
    layout : of the flat state.
    stiff : whether steps are those of Radau's method.
    """

    def __init__(self, make: PytreePartial[OneMotion], layout: StateLayout, stiff: bool = False) -> None:
        self.width = WIDTH
        self._start, self._record, self._terms = (
            compiled(at, make) for at in (_initial_states, _records_of_rows, _terms_of_one)
        )
        self._step, self._stretch = (
            compiled(at, make, LayoutKey.of(layout))
            for at in (_stiff_step_of_rows if stiff else _step_of_rows, _several_steps)
        )

    def start(self, rows: tuple[Array, ...], count: int) -> InitialStates:
        """The initial states of m = `count` motions with the arguments `rows`, each (m, ...)."""
        return InitialStates(
            *by_rows(lambda i: self._start(i, *(array[i] for array in rows)), count, _size(count))
        )

    def attempts(
        self, t0: float, started: InitialStates, scales: Array, tolerances: tuple[float, float]
    ) -> Attempts:
        """Steps of these motions, for `driver.follow`; scales (2, m, k) are those of `with_error_ratios`."""
        count = len(started.y)
        width = next(size for size in (1, FEW, WIDTH) if count <= size or size == WIDTH)
        given, scales = started.given, scales.swapaxes(0, 1)

        def attempt(which: NDArray[np.int64], s: Array, h: Array, state: Array, clock_error: Array) -> Array:
            # Pad to `width` rows by repeating row 0, because XLA compiles for one size; drop them after.
            full, real = np.zeros(width, dtype=int), len(which)
            full[:real] = np.arange(real)
            instants = np.empty((real, 6))
            instants[:, 0], instants[:, 1], instants[:, 2], instants[:, 3] = t0, s, h, clock_error
            instants[:, 4:] = tolerances
            states, which = state.swapaxes(0, 1), which[full]
            own = (array[which] for array in (scales, *given))
            found = np.asarray(self._step(instants[full], states[full], *own))
            result: Array = found.swapaxes(0, 1)[:, :real]
            return result

        return attempt

    def alone(
        self, t0: float, started: InitialStates, scales: Array, whole: float, settings: Settings
    ) -> tuple[Advance, MotionInProgress]:
        """The steps of the only motion for `follow_one`, and its beginning; `whole` has a sign."""
        given, span = [array[0] for array in started.given], abs(whole)
        lengths = settings.lengths(span, FIRST_STEP)
        sign = math.copysign(1.0, whole)
        course = StepControl(scales[:, 0], np.zeros(GOALS), GOALS, span, sign, *lengths, settings)

        def advance(at: MotionInProgress, goals: Array, count: int, until: int) -> MotionInProgress:
            own = course._replace(clock=goals, count=count)
            further: MotionInProgress = self._stretch(t0, own, at, until, *given)
            return further

        return advance, beginning(started.y[0], course)

    def terms(self, t0: float, started: InitialStates) -> Callable[[int, float, Array], Array]:
        """(motion, time, state (k,)) -> the sums of the sizes of the terms of its rate, (k,)."""
        return lambda motion, s, y: np.asarray(
            self._terms(t0, s, y, *(array[motion] for array in started.given))
        )

    def record(self, times: Array, states: Array, given: tuple[Any, ...]) -> Any:
        """Values (m, T, ...), points (m, T, nq), and whether all is admissible there (m, T)."""
        m, count = states.shape[:2]

        def recorded(i: NDArray[np.int64]) -> Any:
            one, at = np.divmod(i, count)  # row i is motion `one` at time `at`
            return self._record(times[at], states[one, at], *(array[one] for array in given))

        found = by_rows(recorded, m * count, _size(m))
        return jax.tree_util.tree_map(lambda leaf: leaf.reshape(m, count, *leaf.shape[1:]), found)

    def instants(self, times: list[float], states: Array, own: tuple[Any, ...]) -> tuple[Array, Array]:
        """q (w, nq) and v (w, n) of one motion, with the arguments `own` (1, ...), in states (w, k)."""
        found = [
            position_and_velocity(self._record(np.array(times[i : i + 1]), states[i : i + 1], *own)[0])
            for i in range(len(times))
        ]
        if len(found) == 1:
            return found[0]
        q, v = (np.concatenate(part) for part in zip(*found, strict=True))
        return q, v

    def refused_at(self, motion: int) -> None:
        """No step raises errors."""


class HostMotions:
    """Motions by NumPy functions.

    Parameters
    ----------
    functions : of one motion, such as `HostMotion`.
    """

    def __init__(self, functions: Any) -> None:
        self._one, self._refused = functions, dict[int, ValueError]()
        self._rows = functions if isinstance(functions, HostMotion) else None
        self.width = WIDTH_OF_ROWS if self._rows and self._rows.steps else WIDTH

    @property
    def falls(self) -> bool:
        """Whether what is conserved has a potential besides what steps compute."""
        return self._rows is not None and self._rows.falls

    def energies(self, states: Array, squares: Array) -> tuple[Array, Array]:
        """The energies of states (..., k) and their scales (...,), as of `HostMotion`."""
        assert self._rows is not None
        return self._rows.energies(states, squares)

    def start(self, rows: tuple[Array, ...], count: int) -> InitialStates:
        """The initial states of `count` motions with the arguments `rows`; an error if a point is invalid."""
        if self._rows:
            return InitialStates(*self._rows.start_rows(*rows))
        started = [self._one.start(*(array[i] for array in rows)) for i in range(count)]
        given, y, origin, near = zip(*started, strict=True)
        return InitialStates(given, np.stack(y), np.stack(origin), np.array(near))

    def attempts(
        self, t0: float, started: InitialStates, scales: Array, tolerances: tuple[float, float]
    ) -> Attempts:
        """Steps of these motions; NaN where one raises a `ValueError`, because it meets a singularity."""
        steps, host = self._attempts(t0, started), self._one.host
        points = int(self._one.layout(started.y.shape[1]).points.sum())
        all_scales = np.ascontiguousarray(scales)

        def attempt(which: NDArray[np.int64], s: Array, h: Array, state: Array, clock_error: Array) -> Array:
            y, f = np.ascontiguousarray(state[:2])  # compiled code is typed for such arrays
            found = steps(which, s, h, y, f)
            own = all_scales if len(which) == all_scales.shape[1] else scales[:, which]
            lengths = np.empty((len(s), 3))
            lengths[:, 0], lengths[:, 1], lengths[:, 2] = np.abs(s + h), np.abs(h), clock_error
            judgement: Array = host.judged(found, state, own, points, lengths, tolerances)
            return judgement

        return attempt

    def terms(self, t0: float, started: InitialStates) -> Callable[[int, float, Array], Array]:
        """(motion, time, state (k,)) -> the sums of the sizes of the terms of its rate, (k,)."""
        given = list(zip(*started.given, strict=True)) if self._rows else started.given
        return lambda motion, s, y: self._one.terms(t0 + s, y, *given[motion])

    def _attempts(self, t0: float, started: InitialStates) -> Any:
        """The steps of these motions, as of `Attempt`, (6, w, k)."""
        given = zip(*started.given, strict=True) if self._rows else started.given
        steps = [self._one.attempt(t0, y, own) for y, own in zip(started.y, given, strict=True)]

        def each(which: NDArray[np.int64], s: Array, h: Array, y: Array, f: Array) -> Array:
            found = []
            for i, one in enumerate(which.tolist()):
                try:
                    found.append(steps[one](float(s[i]), float(h[i]), y[i], f[i]))
                except ValueError as error:
                    if h[i] == 0.0:  # the initial rate: a shorter step cannot help
                        raise
                    self._refused[one] = error
                    found.append(np.full((6, y.shape[1]), np.nan))
            return found[0][:, None] if len(found) == 1 else np.stack(found, axis=1)

        together = self._rows.steps if self._rows and len(steps) > 1 else None
        if together is None:
            return each

        def attempt(which: NDArray[np.int64], s: Array, h: Array, y: Array, f: Array) -> Array:
            found: Array = together(h, y, f)
            bad = np.flatnonzero(~np.isfinite(found[1]).all(axis=-1))
            if len(bad):  # repeat failed rows one by one, because only single steps say why they failed
                found[:, bad] = each(which[bad], s[bad], h[bad], y[bad], f[bad])
            return found

        return attempt

    def record(self, times: Array, states: Array, given: tuple[Any, ...]) -> Any:
        """Values (m, T, ...), none if a motion fails; points (m, T, nq); whether all is right (m, T)."""
        if self._rows:
            return self._rows.record(0.0, states, *given)
        m, count = states.shape[:2]
        values, points, good = [], [], np.zeros((m, count), dtype=bool)
        for i in range(m):
            row: list[Any] = []
            where: list[Any] = []
            for j in range(count):
                if not np.isfinite(states[i, j]).all():  # the motion ended before this time
                    break
                try:
                    found, q, good[i, j] = self._one.record(np.float64(times[j]), states[i, j], *given[i])
                except ValueError as error:
                    self._refused[i] = error
                    break
                row.append(found)
                where.append(q)
            # Points beyond a failure are NaN.
            where += [np.full_like(where[-1] if where else np.zeros(1), np.nan)] * (count - len(where))
            values.append(row)
            points.append(np.stack(where))
        if not good.all():
            return (), points, good
        stacked = [jax.tree_util.tree_map(lambda *leaves: np.stack(leaves), *row) for row in values]
        return jax.tree_util.tree_map(lambda *leaves: np.stack(leaves), *stacked), points, good

    def instants(self, times: list[float], states: Array, own: tuple[Any, ...]) -> tuple[Array, Array]:
        """q (w, nq) and v (w, n) of one motion, with the arguments `own` (1, ...), in states (w, k)."""
        assert self._rows is not None
        return self._rows.instants(states, *own)

    def refused_at(self, motion: int) -> ValueError | None:
        """The error that the last refused step of a motion raised, or None."""
        return self._refused.get(motion)


def position_and_velocity(values: Any) -> tuple[Array, Array]:
    """The positions and velocities in recorded values, as NumPy arrays."""
    q, v = (values.q, values.v) if isinstance(values, Motion) else values[:2]
    return np.asarray(q), np.asarray(v)


def by_rows(function: Callable[[NDArray[np.int64]], Any], count: int, size: int) -> Any:
    """`function` of the rows 0, ..., count - 1, in chunks of `size`, so that it is compiled for one shape."""
    # The last chunk repeats the last row to reach this size; the repetitions are cut off.
    parts = [
        function(np.minimum(np.arange(begin, begin + size), count - 1)) for begin in range(0, count, size)
    ]
    return jax.tree_util.tree_map(lambda *leaves: np.concatenate(leaves)[:count], *parts)


def no_values(make: Callable[[], OneMotion], rows: tuple[Array, ...], times: Array) -> Any:
    """The values (0, T, ...) of an empty batch: shapes are traced, nothing is computed.

    Parameters
    ----------
    make, rows : as of `JaxMotions`, and its `start`.
    """

    def recorded(*own: jax.Array) -> Any:
        motion = make()
        given, y, _, _ = motion.start(*own)
        return motion.record(jnp.zeros(()), y, *given)[0]

    shapes = jax.eval_shape(recorded, *(jax.ShapeDtypeStruct(row.shape[1:], row.dtype) for row in rows))
    return jax.tree_util.tree_map(lambda leaf: np.zeros((0, len(times), *leaf.shape)), shapes)


# --- private ---------------------------------------------------------------------------------------------


def _size(count: int) -> int:
    return 1 if count == 1 else ROWS


def _rows(function: Callable[..., Any], rows: tuple[jax.Array, ...]) -> Any:
    """`function` of every row; one row is not vectorized, which compiles faster."""
    if len(rows[0]) > 1:
        return jax.vmap(function)(*rows)
    return jax.tree_util.tree_map(lambda leaf: jnp.asarray(leaf)[None], function(*(row[0] for row in rows)))


def _initial_states(make: Callable[[], OneMotion], index: jax.Array, *rows: jax.Array) -> Any:
    """`OneMotion.start` of every row; `index` (w,) gives the number of rows if there are no arguments."""
    motion = make()
    return _rows(lambda _, *given: motion.start(*given), (index, *rows))


def _step_of_rows(make: Callable[[], OneMotion], key: LayoutKey, *rows: jax.Array) -> Any:
    return _rows(partial(make().step, key.layout), rows)


def _stiff_step_of_rows(make: Callable[[], OneMotion], key: LayoutKey, *rows: jax.Array) -> Any:
    return _rows(partial(make().stiff_step, key.layout), rows)


def _several_steps(
    make: Callable[[], OneMotion],
    key: LayoutKey,
    t0: jax.Array,
    course: StepControl,
    at: MotionInProgress,
    until: jax.Array,
    *given: jax.Array,
) -> MotionInProgress:
    """`traced.after_steps`, with its functions from outside."""
    motion = make()
    rate, scales_at = (lambda s, y, f=f: f(t0, s, y, *given) for f in (motion.rate, motion.scales))
    return after_steps(rate, scales_at, key.layout, course, at, until)


def _terms_of_one(make: Callable[[], OneMotion], *arguments: jax.Array) -> jax.Array:
    return make().terms(*arguments)


def _records_of_rows(make: Callable[[], OneMotion], *rows: jax.Array) -> Any:
    return _rows(make().record, rows)
