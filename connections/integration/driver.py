"""The loop over steps, for any number of motions of one kind: one motion is a batch of one.

Every motion has its own time and step length; when one has ended, the next one takes its place. Time is
counted from the first requested time, so that clocks far from zero cost no accuracy. Steps end exactly at the
requested times. The loop is written in Python, so that Ctrl-C ends it; what was found until then is kept.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from connections.checks import keep_motion
from connections.integration.solver import Settings
from connections.integration.tolerances import (
    CLOCK,
    FIRST_STEP,
    LOOK,
    LOOK_AGAIN,
    NO_LONGER,
    SHORTEST,
    SUSPECT,
    across,
    at_beginning,
    clock_counts,
    is_taken,
    next_length,
    other_side,
    relative_drift,
)

Array = NDArray[np.float64]
#: (which motions (w,), s (w,), h (w,), state (STATE, w, k), clock_error (w,)) -> (STATE + 1, w, k): a step
#: of each, judged (`tolerances.with_error_ratios`).
Attempts = Callable[[NDArray[np.int64], Array, Array, Array, Array], Array]
#: Called after every accepted step, (motion, s before, s after, state before, state after), (STATE, k)
#: each; the time at which the motion ends, or None if it goes on.
Watch = Callable[[int, float, float, Array, Array], float | None]

#: Called with a motion that needs too short steps, (motion, s, state (STATE, k), whether it only counts if
#: terms of the rate cancel): whether it changes the tolerances of the motion.
LookAhead = Callable[[int, float, Array, bool], bool]
Tick = Callable[[float], None]  # called with the share of the work that is done

WIDTH = 32  # motions that take their steps together
TOO_SHORT = (
    "it would need steps shorter than 1e-13 of the whole time; follow what is so brief in a motion of its "
    "own, over a shorter time"
)
_BEYOND = 1e-9  # of the whole time: so far ahead the owner is asked why a motion cannot go on


def too_many(most: float) -> str:
    """Why a motion ends that takes more than so many steps."""
    return f"it takes more than {most:,.0f} steps"


def unknown_in_words(name: str) -> str:
    """Why a motion ends whose conserved quantity, of this name, is not finite where its state is."""
    return f"{name}, which is conserved, is not finite"


def drift_in_words(name: str, before: float, now: float, drift: float, most: float) -> str:
    """Why a motion ends whose conserved quantity, of this name, has drifted by more than `most`."""
    if not math.isfinite(now - before):
        return unknown_in_words(name)
    return (
        f"{name} is conserved, and has changed from {before:.6g} to {now:.6g}, by {drift:.2g} of "
        f"its scale where {most:.2g} is allowed, as happens where a chart or a frame is singular; "
        "use another chart, or a smaller rtol"
    )


class Stopped(NamedTuple):
    """A motion that ends too early.

    Parameters
    ----------
    s, y : its last time and state (k,).
    why : what happened, in words.
    rate : (k,) of the last state; zero if it is not known.
    whole : how long the motion was to last, with its sign.
    """

    s: float
    y: Array
    why: str
    rate: Array
    whole: float

    @classmethod
    def at(cls, s: float, state: Array, why: str, whole: float) -> Stopped:
        """The end of a motion at the time s in the state (STATE, k); it was to last for `whole`."""
        return cls(s, state[0].copy(), why, state[1].copy(), whole)

    def later(self, step: float) -> Array:
        """The state (k,) extrapolated over a step."""
        if not np.isfinite(self.rate).all():
            return self.y
        return self.y + step * self.rate

    @property
    def beyond(self) -> Array:
        """The state (k,) extrapolated to a little later."""
        return self.y + _BEYOND * self.whole * self.rate


class Followed(NamedTuple):
    """The states of m motions at T times.

    Parameters
    ----------
    states : (m, T, k); NaN at times that a motion did not reach.
    last : (m,) the last requested time that each reached.
    steps : (m,) steps that each took, accepted or not.
    drift : (m, T) the relative change of what is conserved; zero if nothing is.
    conserved : (2, m, T) what steps compute of what is conserved, and the largest of its scales until then.
    stopped : the motions that end too early.
    ended : the motions that an event has ended, and when.
    """

    states: Array
    last: Array
    steps: NDArray[np.int64]
    drift: Array
    conserved: Array
    stopped: dict[int, Stopped]
    ended: dict[int, float]

    @classmethod
    def at_beginning(cls, y0: Array, count: int) -> Followed:
        """Motions at y0 (m, k), the first of `count` requested times."""
        m, k = y0.shape
        states, drift = np.full((m, count, k), np.nan), np.full((m, count), np.nan)
        states[:, 0], drift[:, 0] = y0, 0.0
        kept = np.full((2, m, count), np.nan)
        return cls(states, np.zeros(m), np.zeros(m, dtype=int), drift, kept, {}, {})


def follow(
    attempts: Attempts,
    y0: Array,
    origin: Array,
    clock: Array,
    settings: Settings,
    width: int = WIDTH,
    watch: Watch | None = None,
    look_ahead: LookAhead | None = None,
    conserved: str = "",
    tick: Tick | None = None,
    looked_at: bool = True,
) -> Followed:
    """Solve dy/ds = f(s, y) with y(0) = y0 for m motions.

    Parameters
    ----------
    attempts : a step of some of the motions; NaN where it leaves the domain, so that the next is shorter.
    y0, origin : (m, k) initial states, and the points from which the motion of components is measured.
    clock : (T,) the requested times, strictly monotone from zero.
    settings : the lengths of steps, and how many there may be.
    width : how many motions take their steps together.
    watch : called after every accepted step.
    look_ahead : changes the tolerances of a motion that needs too short steps, or None. It is called once
        where the motion would end, and not more than every 1,024 steps where a short step has a large error.
    conserved : the name of what is conserved, for errors; empty if nothing is.
    tick : called with the share of the work that is done, after every step.
    looked_at : whether what steps compute is all of what is conserved; if not, the caller adds the rest, and
        calls `stop_at_drifts`.

    Raises
    ------
    KeyboardInterrupt : and it has what was found (`checks.keep_motion`), `Followed`.
    """
    m, found = len(y0), Followed.at_beginning(y0, len(clock))
    if len(clock) == 1 or m == 0:
        return found
    whole, width = abs(float(clock[-1])), min(width, m)
    lengths = settings.lengths(whole, FIRST_STEP)
    most = settings.max_steps, settings.drift if looked_at else math.inf
    run = _Run(clock, whole, *lengths, *most, watch, look_ahead, conserved, tick, found, settings.gap)
    with (
        kept_on_interrupt(found),
        np.errstate(all="ignore"),
    ):  # what is not finite only makes the next step shorter
        at_breakpoint = settings.gap and abs(float(clock[1])) <= settings.gap
        first = math.copysign(settings.gap, clock[1]) if at_breakpoint else 0.0
        start = _first_states(attempts, at_beginning(y0, origin), width, first)
        _follow(attempts, start, width, run, _Number if m == 1 else _Row)
    return found


@contextmanager
def kept_on_interrupt(found: Followed) -> Iterator[None]:
    """A block that Ctrl-C ends with what was found until then."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        keep_motion(interrupt, found)
        raise


class _Run(NamedTuple):
    """The settings that all motions share, and the result, which is filled in."""

    clock: Array
    whole: float
    first: float
    longest: float
    max_steps: float
    most_drift: float
    watch: Watch | None
    look_ahead: LookAhead | None
    conserved: str
    tick: Tick | None
    found: Followed
    gap: float


class _Lanes(NamedTuple):
    """The motions that take their steps together: rows (w,), or floats if there is one motion.

    Times and lengths of steps are counted in the direction of time, so they are positive.

    Parameters
    ----------
    s, h, goal : the time, the planned length of the next step, and the next requested time.
    target : the index of the next requested time.
    before : the count of steps when the motion began.
    rest : whether the motion is leaving a state of rest (`tolerances`).
    which : (w,) indices of the motions.
    state : (STATE, w, k) their states (`tolerances.STATE`).
    """

    s: Any
    h: Any
    goal: Any
    target: Any
    before: Any
    rest: Any
    which: NDArray[np.int64]
    state: Array


class _Row:
    """Arithmetic for several motions: rows (w,), one entry for each motion."""

    minimum, maximum, fmin, where, sum = np.minimum, np.maximum, np.fmin, np.where, np.sum

    @staticmethod
    def any(flags: Any) -> bool:
        """Whether one is set; by the array's method, which takes half the time of `numpy.any`."""
        return bool(flags.any()) if isinstance(flags, np.ndarray) else bool(flags)

    @staticmethod
    def row(numbers: Any) -> Any:
        """The numbers (w,), which are a row."""
        return numbers

    numbers = row

    @staticmethod
    def column(numbers: Any) -> Any:
        """The numbers as a column (w, 1)."""
        return numbers[:, None]


class _Number:
    """Arithmetic for one motion, on floats, which are ten times as fast as arrays of one entry."""

    minimum, maximum, any, sum = min, max, bool, float

    @staticmethod
    def fmin(first: float, second: float) -> float:
        """The smaller number; the second if the first is NaN."""
        return first if first < second else second

    @staticmethod
    def where(condition: bool, first: Any, second: Any) -> Any:
        """One of two numbers."""
        return first if condition else second

    @staticmethod
    def row(number: Any) -> Any:
        """The number as a row (1,)."""
        return np.array([number])

    @staticmethod
    def numbers(row: Any) -> Any:
        """The number of a row (1,)."""
        return row.tolist()[0]

    @staticmethod
    def column(number: Any) -> Any:
        """The number itself, which needs no column."""
        return number


def _first_states(attempts: Attempts, start: Array, width: int, s: float) -> Array:
    """The states of all motions at their beginning with their rates, those at s, (STATE, m, k)."""
    parts, m = [], start.shape[1]
    for first in range(0, m, width):
        which = np.arange(first, min(first + width, m))
        nothing = np.zeros(len(which))
        parts.append(attempts(which, nothing + s, nothing, start[:, which], nothing)[:-1])
    return np.concatenate(parts, axis=1)


def _at_start(start: Array, which: NDArray[np.int64], count: int, run: _Run) -> _Lanes:
    """Some of the motions at their beginning, after `count` steps of others."""
    w = len(which)
    h, goal = np.full(w, run.first), np.full(w, abs(run.clock[1]))
    ones, before, rest = np.ones(w, dtype=int), np.full(w, count), np.zeros(w, dtype=bool)
    return _Lanes(np.zeros(w), h, goal, ones, before, rest, which, start[:, which])


def _follow(attempts: Attempts, start: Array, width: int, run: _Run, of: Any) -> None:
    """All steps of all motions.

    Parameters
    ----------
    start : initial states, (STATE, m, k).
    width : how many motions take their steps together.
    of : `_Row`, or `_Number` if there is one motion.
    """
    sign, shortest, following, count = math.copysign(1.0, run.clock[-1]), SHORTEST * run.whole, width, 0
    lanes = _at_start(start, np.arange(width), 0, run)
    lanes = _Lanes._make([*map(of.numbers, lanes[:6]), *lanes[6:]])
    reach, found, m = np.append(np.abs(run.clock), math.inf), run.found, start.shape[1]
    kept_by = _Conserved(start[5], run.conserved, run.most_drift < math.inf)
    kept_by.record(found, start, np.arange(m), np.arange(m), np.zeros(m, dtype=int))
    suspect = SUSPECT * run.whole
    resting, nothing = False, np.zeros(width)  # whether any motion leaves a state of rest
    looked: dict[tuple[int, bool], int] = {}  # when motions may look ahead, and whether they were lost then
    while len(lanes.which):
        s, h, goal, target, before, rest, which, state = lanes
        # Try a step. One that would pass the next requested time, or end just before it, ends there.
        left = goal - s
        ends, crosses = h >= NO_LONGER * left, False
        if run.gap:
            crosses = left <= run.gap
            ends = ends | crosses
        length = of.where(ends, left, h)
        clock_error = of.row(rest) * (CLOCK * run.whole) if resting else nothing[: len(which)]
        begin, step, crossing = s, length, run.gap and of.any(crosses)
        if crossing:
            begin = of.where(crosses, other_side(s, run.gap, run.whole), s)
            step = of.where(crosses, 0.0, length)
        tried = attempts(which, of.row(sign * begin), of.row(sign * step), state, clock_error)
        if crossing:
            moved = across(tried, state, sign * of.column(length))
            tried = np.where(of.column(crosses), moved, tried)
        # Its largest error over the tolerance; infinite instead of NaN, so that the step is rejected.
        error = of.fmin(of.numbers(np.maximum.reduce(tried[-1], axis=-1, initial=0.0)), math.inf)
        if crossing:
            sound = of.numbers(np.isfinite(tried[:2]).all(axis=(0, -1)))
            error = of.where(crosses, of.where(sound, 0.0, math.inf), error)
        # A step of the shortest length cannot be shortened. It is accepted only if it leaves a state of rest.
        short, taken, again = length <= shortest, False, None
        if of.any(length <= suspect):
            large = (length <= suspect) & (error >= 1.0)
            if of.any(short):
                leaving = of.column(rest) & clock_counts(tried, state, run.whole)
                taken = short & large & of.numbers(is_taken(of.column(length), tried, state, leaving))
            lost = (short & large) > taken  # of booleans: and not
            again = _on_other_tolerances(run, of, large, lost, which, sign * s, state, (looked, count))
            if again is not None:
                taken, error = of.where(again, False, taken), of.where(again, math.inf, error)
        kept, h = next_length(length, h, ends, error, taken, (shortest, run.longest), of)
        if again is not None:
            short, h = of.where(again, False, short), of.where(again, run.longest, h)
        if resting or of.any(taken):  # the state of rest ends when the motion exceeds the clock's errors
            still = of.numbers(clock_counts(tried, state, run.whole).any(axis=-1))
            rest = of.where(kept, taken | (rest & still), rest)
            resting = of.any(rest)
        kept_by.see(tried, which, of.row(kept))
        # Accepted steps move on, to exactly the requested time if they end there; rejected ones stay.
        later = of.where(kept, of.where(ends, goal, s + length), s)
        seen = kept > crosses if run.gap else kept  # what comes to zero across a breakpoint is seen beside it
        over = _event_in_step(run, of, seen, which, sign, (s, later), (state, tried))
        s, state = later, _accepted_states(of, kept, tried, state)
        count, arrived = count + 1, kept & ends
        drifted, drift = False, nothing
        if count % LOOK == 0 or of.any(arrived):
            drift = kept_by.relative_drift(state, which)
            beyond = ~(drift <= run.most_drift)  # or unknown; without a rate there is no state, either
            drifted = of.numbers(beyond & np.isfinite(state[1]).all(axis=-1) if beyond.any() else beyond)
            arrived = arrived > drifted  # of booleans: and not
        if over is not None:  # an event at the requested time itself is on time
            arrived = arrived > (over & of.numbers(_ended_by_event(run, which, sign * later)))
        if of.any(arrived):  # at a requested time: record the state, and aim at the next time
            rows, at = np.flatnonzero(arrived), of.row(target)
            found.states[which[rows], at[rows]] = state[0, rows]
            found.last[which[rows]] = run.clock[at[rows]]
            found.drift[which[rows], at[rows]] = drift[rows]
            kept_by.record(found, state, which, rows, at)
            target = target + arrived
            goal = of.numbers(reach[of.row(target)])
        # Motions end at the last time, at a rejected step of the shortest length, or after `max_steps`.
        lost, late = short > kept, count - before > run.max_steps  # of booleans: short and not kept
        gone = lost | late | drifted | (target == len(run.clock))
        if over is not None:
            gone = gone | over
        lanes = _Lanes(s, h, goal, target, before, rest, which, state)
        if run.tick is not None:
            run.tick((following - len(which) + of.sum(s) / run.whole) / m)
        if of.any(gone):
            rows = np.flatnonzero(gone)
            found.steps[which[rows]] = count - of.row(before)[rows]
            for i in rows:
                if int(which[i]) in found.ended or of.row(target)[i] == len(run.clock):
                    continue
                why = TOO_SHORT if of.row(lost)[i] else too_many(run.max_steps)
                if of.any(drifted) and of.row(drifted)[i]:
                    before, now = found.conserved[0, which[i], 0], state[5, i, 0]
                    why = drift_in_words(run.conserved, before, now, drift[i], run.most_drift)
                stop = Stopped.at(sign * float(of.row(s)[i]), state[:, i], why, sign * run.whole)
                found.stopped[int(which[i])] = stop
            if len(rows) == m:
                return
            stays = ~gone  # motions that wait take the lanes of those that have ended
            new = np.arange(following, min(following + len(rows), m))
            following += len(new)
            begin = _at_start(start, new, count, run)
            joined = [np.concatenate([a[stays], b]) for a, b in zip(lanes[:7], begin[:7], strict=True)]
            state = np.concatenate([lanes.state[:, stays], begin.state], axis=1)
            lanes = _Lanes._make([*joined, state])


class _Conserved:
    """The conserved number of each motion: its first value, and the largest of its scales so far.

    Parameters
    ----------
    first : (m, k) the row of the state at the beginning: the value first, its scale last.
    name : of what is conserved; empty if nothing is.
    looked_at : whether it is compared.
    """

    def __init__(self, first: Array, name: str, looked_at: bool) -> None:
        self._looked_at = looked_at
        self._empty = first.shape[1] == 0 or not name
        self._first = np.zeros(len(first)) if self._empty else first[:, 0].copy()
        self._scale = np.zeros(len(first)) if self._empty else first[:, -1].copy()

    def relative_drift(self, state: Array, which: NDArray[np.int64]) -> Array:
        """The relative change (w,) of these motions."""
        if self._empty or not self._looked_at:
            return np.zeros(len(which))
        if len(which) == 1:  # numbers are several times as fast
            value, at = float(state[5, 0, 0]), which[0]
            change = abs(value - self._first[at])
            return np.array([change / (self._scale[at] or 1.0)])
        return np.asarray(relative_drift(state[5, :, 0], self._scale[which], self._first[which]))

    def record(self, found: Followed, state: Array, which: NDArray[np.int64], rows: Any, at: Any) -> None:
        """Write what these rows have at requested times, with these indices."""
        if not self._empty:
            found.conserved[0, which[rows], at[rows]] = state[5, rows, 0]
            found.conserved[1, which[rows], at[rows]] = self._scale[which[rows]]

    def see(self, tried: Array, which: NDArray[np.int64], kept: NDArray[np.bool_]) -> None:
        """Look at the scale after steps, where they are accepted."""
        if self._empty:
            return
        if len(which) == 1:  # numbers are several times as fast
            if kept[0] and tried[5, 0, -1] > self._scale[which[0]]:
                self._scale[which[0]] = tried[5, 0, -1]
            return
        seen = self._scale[which]
        np.fmax(seen, tried[5, :, -1], out=seen, where=kept)
        self._scale[which] = seen


def stop_at_drifts(
    found: Followed, clock: Array, name: str, conserved: tuple[Array, Array], most: float
) -> None:
    """Stop motions at the first requested time at which what they conserve has drifted, or is not finite.

    Parameters
    ----------
    found : the motions, which are changed.
    clock : (T,) the requested times.
    name : of what is conserved.
    conserved : (m, T) its values and the scales; NaN at times that a motion has not reached.
    most : the largest drift.
    """
    value, scale = conserved
    largest = np.maximum.accumulate(np.nan_to_num(scale), axis=1)
    drift = relative_drift(value, largest, value[:, :1])
    found.drift[:] = np.fmax(found.drift, drift)
    beyond = ~(drift <= most) & np.isfinite(found.states).all(axis=-1)
    for row in np.flatnonzero(beyond.any(axis=1)):
        at = max(int(np.argmax(beyond[row])), 1)
        why = drift_in_words(name, value[row, 0], value[row, at], drift[row, at], most)
        y = found.states[row, at].copy()
        found.stopped[int(row)] = Stopped(float(clock[at]), y, why, np.zeros_like(y), 0.0)
        found.last[row] = clock[at - 1]
        found.states[row, at:] = found.drift[row, at:] = np.nan


def _accepted_states(of: Any, kept: Any, tried: Array, state: Array) -> Array:
    """The states after a step, where it is accepted."""
    if of is _Number:
        return tried[:-1] if kept else state
    moved: Array = np.where(kept[:, None], tried[:-1], state)
    return moved


def _on_other_tolerances(
    run: _Run,
    of: Any,
    large: Any,
    lost: Any,
    which: NDArray[np.int64],
    s: Any,
    state: Array,
    looked: tuple[dict[tuple[int, bool], int], int],
) -> Any:
    """Which of the motions whose short step has a large error go on with other tolerances; None if none.

    Parameters
    ----------
    large, lost : whether it has, and whether the motion ends there otherwise.
    looked : from which count of steps on motions may look ahead again, which is changed; and the count.
    """
    if run.look_ahead is None or not of.any(large):
        return None
    again, (after, count) = np.zeros(len(which), dtype=bool), looked
    for i in np.flatnonzero(of.row(large)):
        key = int(which[i]), bool(of.row(lost)[i])
        if count >= after.get(key, 0):
            after[key] = sys.maxsize if key[1] else count + LOOK_AGAIN
            again[i] = run.look_ahead(key[0], float(of.row(s)[i]), state[:, i], not key[1])
    return of.numbers(again)


def _ended_by_event(run: _Run, which: NDArray[np.int64], s: Any) -> NDArray[np.bool_]:
    """Whether events end motions before the time s, the end of their steps."""
    ends = [run.found.ended.get(int(motion), math.inf) for motion in which]
    early: NDArray[np.bool_] = np.array(ends) != s
    return early


def _event_in_step(
    run: _Run,
    of: Any,
    kept: Any,
    which: NDArray[np.int64],
    sign: float,
    times: tuple[Any, Any],
    states: tuple[Array, Array],
) -> Any:
    """Whether an event ends each motion in this step; None if nobody watches."""
    if run.watch is None:
        return None
    over = np.zeros(len(which), dtype=bool)
    for i in np.flatnonzero(kept):
        before, after = (float(of.row(s)[i]) for s in times)
        ended = run.watch(int(which[i]), sign * before, sign * after, states[0][:, i], states[1][:-1, i])
        if ended is not None:
            over[i] = True
            run.found.ended[int(which[i])] = ended
    return of.numbers(over)
