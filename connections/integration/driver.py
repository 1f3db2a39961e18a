"""From step to step, for any number of motions of one kind: one motion is a batch of one.

Every motion has its own time and its own step; one that has ended makes room for the next. Time is counted
from the first requested time, so that clocks far from zero cost no accuracy, and steps end exactly at the
requested times. The loop is written in Python, so that an interrupt ends it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from connections.integration.tolerances import (
    CUT,
    EXPONENT,
    FIRST_STEP,
    GROWTH,
    LEAST,
    NO_LONGER,
    SAFETY,
    SHORTEST,
    clock_errors,
    errors_of,
    is_taken,
)

Array = NDArray[np.float64]
#: (which motions (w,), s (w,), h (w,), y (w, k), dy/ds (w, k)) -> (5, w, k), a step of each as of `Attempt`.
Attempts = Callable[[NDArray[np.int64], Array, Array, Array, Array], Array]

PLACES = 32  # motions whose next step is tried together
_TOO_SHORT = "it would need steps shorter than 1e-13 of the whole time"
_BEYOND = 1e-9  # of the whole time, after which that becomes visible which stops a motion


class Stopped(NamedTuple):
    """A motion that ends too early.

    Parameters
    ----------
    s, y : its last time and state (k,).
    why : what happened, in words.
    beyond : the state (k,) in which it would be a little later.
    """

    s: float
    y: Array
    why: str
    beyond: Array


class Followed(NamedTuple):
    """What m motions did at T times.

    Parameters
    ----------
    states : (m, T, k); NaN where a motion did not get to.
    last : (m,) the last time that each reached.
    stopped : those that end too early.
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
    y0, origin : (m, k) where they begin, and from where components are measured.
    clock : (T,) the requested times, strictly monotone from zero.
    rtol, atol : of a step (`tolerances`).
    max_steps : of a motion, kept or not, after which it ends.
    max_step : no step is longer; None for any.
    places : how many motions are tried together.
    """
    m, k = y0.shape
    states = np.full((m, len(clock), k), np.nan)
    states[:, 0] = y0
    found = Followed(states, np.zeros(m), {})
    if len(clock) == 1 or m == 0:
        return found
    times, whole = clock.tolist(), abs(float(clock[-1]))
    waiting = iter(range(m))
    lanes = [_Lane(next(waiting), times, max_step) for _ in range(min(places, m))]
    _run(lanes, waiting, attempts, (y0, origin), times, whole, (rtol, atol), max_steps, max_step, found)
    return found


def _run(
    lanes: list[_Lane],
    waiting: Any,
    attempts: Attempts,
    start: tuple[Array, Array],
    times: list[float],
    whole: float,
    tolerances: tuple[float, float],
    max_steps: int,
    max_step: float | None,
    found: Followed,
) -> None:
    which = np.array([lane.motion for lane in lanes])
    y, origin = start[0][which], start[1][which]
    f, moved = np.zeros_like(y), np.abs(y - origin)
    with np.errstate(all="ignore"):  # what is not finite makes a step shorter
        while lanes:
            s = np.array([lane.s for lane in lanes])
            h = np.array([lane.length() for lane in lanes])
            tried = attempts(which, s, h, y, f)
            new, rates = tried[0], tried[1]
            farther = np.fmax(moved, np.abs(new - origin))
            least: Any = 0.0
            if any(lane.leaves_rest for lane in lanes):
                rest = np.array([[lane.leaves_rest] for lane in lanes])
                least = rest * clock_errors(f, rates, whole)
            errors = errors_of(np.abs(h)[:, None], tried, farther, least, *tolerances)
            largest, left = errors.max(axis=-1, initial=0.0).tolist(), []
            for i, (lane, step, error) in enumerate(zip(lanes, h.tolist(), largest, strict=True)):
                if lane.fresh:
                    f[i], lane.fresh = rates[i], False
                    continue
                at = lane.target
                taken = error >= 1.0 and abs(step) <= lane.shortest
                taken = taken and bool(is_taken(abs(step), errors[i], tried[:, i], moved[i], f[i]))
                if lane.keeps(step, error, taken):
                    if lane.leaves_rest:
                        allowed = clock_errors(f[i], rates[i], whole)
                        lane.leaves_rest = taken or bool(np.any(allowed > tolerances[0] * farther[i]))
                    y[i], f[i], moved[i] = new[i], rates[i], farther[i]
                    if lane.target > at:
                        found.states[lane.motion, at], found.last[lane.motion] = y[i], times[at]
                if lane.target == len(times):
                    left.append(i)
                elif lane.why or lane.steps > max_steps:
                    why = lane.why or f"it takes more than {max_steps:,} steps"
                    beyond = y[i] + math.copysign(_BEYOND * whole, step) * f[i]
                    found.stopped[lane.motion] = Stopped(lane.s, y[i].copy(), why, beyond)
                    left.append(i)
            for i in reversed(left):  # the next motion, or none
                one = next(waiting, None)
                if one is None:
                    del lanes[i]
                    which, y, f, moved, origin = (np.delete(a, i, 0) for a in (which, y, f, moved, origin))
                    continue
                lanes[i], which[i] = _Lane(one, times, max_step), one
                y[i], origin[i], f[i] = start[0][one], start[1][one], 0.0
                moved[i] = np.abs(y[i] - origin[i])


class _Lane:
    """The time of one motion, its next step, and the requested time that it goes to."""

    __slots__ = (
        "motion", "s", "target", "fresh", "steps", "why", "leaves_rest", "shortest",
        "_h", "_ends", "_times", "_most",
    )  # fmt: skip

    def __init__(self, motion: int, times: list[float], max_step: float | None) -> None:
        self.motion, self.s, self.target, self.fresh = motion, 0.0, 1, True
        self.steps, self.why, self.leaves_rest = 0, "", False
        self.shortest, self._times, self._ends = SHORTEST * abs(times[-1]), times, False
        self._most = abs(times[-1]) if max_step is None else max_step
        self._h = math.copysign(min(FIRST_STEP * abs(times[-1]), self._most), times[-1])

    def length(self) -> float:
        """Of the next step; zero for the first rate."""
        if self.fresh:
            return 0.0
        left = self._times[self.target] - self.s
        self._ends = abs(self._h) >= NO_LONGER * abs(left)
        return left if self._ends else self._h

    def keeps(self, step: float, error: float, taken: bool) -> bool:
        """Whether the step is kept; makes the next one longer or shorter.

        Parameters
        ----------
        step, error : its length, and the largest error over what is allowed.
        taken : whether it is kept whatever its error.
        """
        self.steps += 1
        kept = error < 1.0 or taken
        self.leaves_rest |= taken
        if not kept and abs(step) <= self.shortest:
            self.why = _TOO_SHORT
        longer = abs(step) * min(max(SAFETY * max(error, LEAST) ** EXPONENT, CUT), GROWTH)
        if kept:
            if self._ends:
                self.s, self.target = self._times[self.target], self.target + 1
                longer = max(longer, abs(self._h))
            else:
                self.s += step
        else:
            longer = min(longer, abs(step))
        self._h = math.copysign(min(max(longer, self.shortest), self._most), step)
        return kept
