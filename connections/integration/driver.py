"""The loop over steps, for any number of motions of one kind: one motion is a batch of one.

Every motion has its own time and step length; when one has ended, the next one takes its place. Time is
counted from the first requested time, so that clocks far from zero cost no accuracy. Steps end exactly at the
requested times. The loop is written in Python, so that an interrupt ends it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from connections.integration.tolerances import (
    FIRST_STEP,
    NO_LONGER,
    SHORTEST,
    clock_errors,
    errors_of,
    is_taken,
    next_length,
)

Array = NDArray[np.float64]
#: (which motions (w,), s (w,), h (w,), y (w, k), dy/ds (w, k)) -> (5, w, k), a step of each as in `Attempt`.
Attempts = Callable[[NDArray[np.int64], Array, Array, Array, Array], Array]

PLACES = 32  # motions that take their steps together
_TOO_SHORT = "it would need steps shorter than 1e-13 of the whole time"
_BEYOND = 1e-9  # of the whole time: so far ahead the owner is asked why a motion cannot go on


class Stopped(NamedTuple):
    """A motion that ends too early.

    Parameters
    ----------
    s, y : its last time and state (k,).
    why : what happened, in words.
    beyond : the state (k,) extrapolated to a little later.
    """

    s: float
    y: Array
    why: str
    beyond: Array


class Followed(NamedTuple):
    """The states of m motions at T times.

    Parameters
    ----------
    states : (m, T, k); NaN at times that a motion did not reach.
    last : (m,) the last requested time that each reached.
    stopped : the motions that end too early.
    """

    states: Array
    last: Array
    stopped: dict[int, Stopped]


def follow(
    attempts: Attempts,
    y0: Array,
    origin: Array,
    clock: Array,
    rtol: float,
    atol: float,
    max_steps: int,
    max_step: float | None = None,
    places: int = PLACES,
) -> Followed:
    """Solve dy/ds = f(s, y) with y(0) = y0 for m motions.

    Parameters
    ----------
    attempts : a step of some of the motions; NaN where it leaves the domain, so that the next is shorter.
    y0, origin : (m, k) initial states, and the points from which the motion of components is measured.
    clock : (T,) the requested times, strictly monotone from zero.
    rtol, atol : of a step (`tolerances`).
    max_steps : steps of a motion, accepted or not, after which it ends.
    max_step : no step is longer; None for no bound.
    places : how many motions take their steps together.
    """
    m, k = y0.shape
    states = np.full((m, len(clock), k), np.nan)
    states[:, 0] = y0
    found = Followed(states, np.zeros(m), {})
    if len(clock) == 1 or m == 0:
        return found
    whole, places = abs(float(clock[-1])), min(places, m)
    run = _Run(clock, whole, whole if max_step is None else max_step, (rtol, atol), max_steps, found)
    with np.errstate(all="ignore"):  # a state that is not finite only makes the next step shorter
        starts = y0, _first_rates(attempts, y0, places), np.abs(y0 - origin), origin
        _follow(attempts, starts, places, run, _Number if m == 1 else _Row)
    return found


class _Run(NamedTuple):
    """The settings that all motions share, and the result, which is filled in."""

    clock: Array
    whole: float
    longest: float
    tolerances: tuple[float, float]
    max_steps: int
    found: Followed


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
    y, f, moved, origin : (w, k) state, rate, largest distance from the origin so far, and the origin.
    """

    s: Any
    h: Any
    goal: Any
    target: Any
    before: Any
    rest: Any
    which: NDArray[np.int64]
    y: Array
    f: Array
    moved: Array
    origin: Array


class _Row:
    """Arithmetic for several motions: rows (w,), one entry for each motion."""

    minimum, maximum, fmin, where, any = np.minimum, np.maximum, np.fmin, np.where, np.any

    @staticmethod
    def row(numbers: Any) -> Any:
        """As a row."""
        return numbers

    numbers = row

    @staticmethod
    def column(numbers: Any) -> Any:
        """As a column."""
        return numbers[:, None]


class _Number:
    """The same arithmetic for one motion, on floats: they are ten times as fast as arrays of one entry."""

    minimum, maximum, any = min, max, bool

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
        """As a row."""
        return np.array([number])

    @staticmethod
    def numbers(row: Any) -> Any:
        """Of a row."""
        return row.tolist()[0]

    @staticmethod
    def column(number: Any) -> Any:
        """As a column."""
        return number


def _first_rates(attempts: Attempts, y0: Array, places: int) -> Array:
    """dy/ds of all motions at their beginning, (m, k)."""
    parts = []
    for first in range(0, len(y0), places):
        which = np.arange(first, min(first + places, len(y0)))
        nothing, y = np.zeros(len(which)), y0[which]
        parts.append(attempts(which, nothing, nothing, y, np.zeros_like(y))[1])
    return np.concatenate(parts)


def _at_start(starts: tuple[Array, ...], which: NDArray[np.int64], count: int, run: _Run) -> _Lanes:
    """Some of the motions at their beginning, after `count` steps of others."""
    w = len(which)
    h, goal = np.full(w, min(FIRST_STEP * run.whole, run.longest)), np.full(w, abs(run.clock[1]))
    ones, before, rest = np.ones(w, dtype=int), np.full(w, count), np.zeros(w, dtype=bool)
    return _Lanes(np.zeros(w), h, goal, ones, before, rest, which, *(array[which] for array in starts))


def _follow(attempts: Attempts, starts: tuple[Array, ...], places: int, run: _Run, of: Any) -> None:
    """All steps of all motions.

    Parameters
    ----------
    starts : initial states, rates, distances from the origins, and the origins, (m, k) each.
    places : how many motions take their steps together.
    of : `_Row`, or `_Number` if there is one motion.
    """
    sign, shortest, following, count = math.copysign(1.0, run.clock[-1]), SHORTEST * run.whole, places, 0
    lanes = _at_start(starts, np.arange(places), 0, run)
    lanes = _Lanes._make([*map(of.numbers, lanes[:6]), *lanes[6:]])
    reach, (states, last, stopped) = np.append(np.abs(run.clock), math.inf), run.found
    resting = False  # whether any motion leaves a state of rest
    while len(lanes.which):
        s, h, goal, target, before, rest, which, y, f, moved, origin = lanes
        # Try a step. One that would pass the next requested time, or end just before it, ends there.
        left = goal - s
        ends = h >= NO_LONGER * left
        length = of.where(ends, left, h)
        tried = attempts(which, of.row(sign * s), of.row(sign * length), y, f)
        new, rates = tried[0], tried[1]
        # Its largest error over the tolerance; infinite instead of NaN, so that the step is rejected.
        farther, least, step = np.fmax(moved, np.abs(new - origin)), 0.0, of.column(length)
        if resting:
            least = of.column(rest) * clock_errors(f, rates, run.whole)
        errors = errors_of(step, tried, farther, least, *run.tolerances)
        error = of.fmin(of.numbers(np.maximum.reduce(errors, axis=-1, initial=0.0)), math.inf)
        # A step of the shortest length cannot be shortened. It is accepted only if it leaves a state of rest.
        short, taken = length <= shortest, False
        if of.any(short):
            leaving = least > run.tolerances[0] * moved
            taken = of.numbers(is_taken(step, errors, tried, moved, f, leaving))
            taken = short & (error >= 1.0) & taken
        kept, h = next_length(length, h, ends, error, taken, (shortest, run.longest), of)
        if resting or of.any(taken):  # the state of rest ends when the motion exceeds the clock's errors
            at_rest = clock_errors(f, rates, run.whole) > run.tolerances[0] * farther
            rest = of.where(kept, taken | (rest & of.numbers(at_rest.any(axis=-1))), rest)
            resting = of.any(rest)
        # Accepted steps move on, to exactly the requested time if they end there; rejected ones stay.
        s, wide = of.where(kept, of.where(ends, goal, s + length), s), of.column(kept)
        y, f, moved = of.where(wide, new, y), of.where(wide, rates, f), of.where(wide, farther, moved)
        count, arrived = count + 1, kept & ends
        if of.any(arrived):  # at a requested time: record the state, and aim at the next time
            rows, at = np.flatnonzero(arrived), of.row(target)
            states[which[rows], at[rows]] = y[rows]
            last[which[rows]] = run.clock[at[rows]]
            target = target + arrived
            goal = of.numbers(reach[of.row(target)])
        # Motions end at the last time, at a rejected step of the shortest length, or after `max_steps`.
        lost, late = short > kept, count - before > run.max_steps  # of booleans: short and not kept
        gone = lost | late | (target == len(run.clock))
        lanes = _Lanes(s, h, goal, target, before, rest, which, y, f, moved, origin)
        if of.any(gone):
            rows = np.flatnonzero(gone)
            for i in rows[of.row(target)[rows] < len(run.clock)]:
                why = _TOO_SHORT if of.row(lost)[i] else f"it takes more than {run.max_steps:,} steps"
                beyond = y[i] + sign * _BEYOND * run.whole * f[i]
                stopped[int(which[i])] = Stopped(sign * float(of.row(s)[i]), y[i].copy(), why, beyond)
            if len(rows) == len(starts[0]):
                return
            stays = ~gone  # motions that wait take the places of those that have ended
            new = np.arange(following, min(following + len(rows), len(starts[0])))
            following += len(new)
            begin = _at_start(starts, new, count, run)
            lanes = _Lanes(
                *(np.concatenate([old[stays], own]) for old, own in zip(lanes, begin, strict=True))
            )
