"""Events of motions: times at which a function of (t, q, v) comes to zero, in the words of SciPy.

After every step a function g and its rate along the motion are known at both ends of the step. They show

- that g has changed its sign: it has come to zero once;
- that g has the same sign at both ends, goes towards zero at the first, and away from it at the last: it may
  have come to zero twice, or touched zero. The minimum of |g| is searched between, unless the tangents of g
  at both ends meet far from zero;
- that g begins at zero, and on which side it leaves: it has come back if it ends on the other one.

So everything is found if the rate of g changes its sign at most once within a step, and if g is convex
towards zero where it does. Between the ends g is computed at the ends of shorter steps from the same
beginning, so that an event is as accurate as the motion. A zero at the end of a step belongs to this step,
and the next one begins at zero. That is no event, and neither is the first time.

A value is zero if it cannot be told from zero by the function's round-off at that place, whatever its values
elsewhere. A function that has been zero comes to zero again only if it was farther away meanwhile than its
round-off, and than errors within the motion's tolerances change it: what has come to rest makes no events of
its own noise. A place from which a function is not finite matters only if no event ends the motion before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from connections.affine.motions.bracketing import (
    BracketSample,
    lowest_between,
    root_between,
    sign,
    stays_above,
)
from connections.affine.motions.host_motions import numbers_on_host
from connections.checks import NonFiniteError
from connections.integration.solver import EventRequest as Asked

Array = NDArray[np.float64]
#: (motion, w times, states (w, k)) -> q (w, nq), v (w, n)
StatesOf = Callable[[int, list[float], Array], tuple[Array, Array]]
EPS = float(np.finfo(float).eps)
SIMULTANEOUS = (
    1e-13  # of the whole time: events so near are simultaneous, and one so near to the start is there
)
NEAR = math.sqrt(EPS)  # of a step: how far its rate is looked for from its end
LATER = 1e-3  # of a step: how far the side is looked for on which g leaves zero with its rate zero
ROUND_OFF = 64.0 * EPS  # relative, of times and states
SHARES = np.array([-0.25, -0.13, 0.17, 0.25])  # of it, by which t and states are changed
FAR = 16.0  # errors of a state, which change a function by more than its error, wherever it is smooth
WIDER = 4.0  # by this factor distances grow at which a function is looked for that is not zero
SHORTER = 16.0  # by this factor distances shrink at which that side is looked for
SMALLEST = 1e-300  # distance
#: Of the larger value at the ends of a step: of a smaller one it is asked whether its rate is round-off.
LOW = 0.1
CLOSE = 1e-4  # of the larger value at the ends of a step: whether a smaller one is round-off is asked


class Look(NamedTuple):
    """Functions at an end of a step: their values, and their rates along the motion, in its direction."""

    values: list[float]
    rates: list[float]


class Watched(NamedTuple):
    """A motion at the beginning of a step.

    Parameters
    ----------
    look : the functions there.
    zeros : which of them are zero there.
    first : whether it is the first step.
    """

    look: Look
    zeros: frozenset[int]
    first: bool


class Came(NamedTuple):
    """A function that comes to zero at a distance from the beginning of a step.

    Parameters
    ----------
    distance : the distance.
    side : the sign that it had before.
    round_off : of the function there, if it may have been zero before and after; None of a simple root.
    """

    distance: float
    side: int
    round_off: float | None = None


class Zero(NamedTuple):
    """The last zero of a function that has not been away from zero since.

    Parameters
    ----------
    at : its time.
    counts : whether it was an event.
    error : of the function afterwards.
    """

    at: float
    counts: bool
    error: float = 0.0


class Event(NamedTuple):
    """An event in a step: its time, the number of its function, and the round-off of a touch (`Came`)."""

    at: float
    i: int
    round_off: float | None


class Hole(Exception):  # noqa: N818 - it is no error before the motion is known to come there
    """A function that is not finite at a distance from the beginning of a step."""

    def __init__(self, distance: float, value: float) -> None:
        super().__init__(distance, value)
        self.distance, self.value = distance, value


class Step(NamedTuple):
    """A step of a motion: its number, the times at both ends, and the states (STATE, k) there."""

    motion: int
    s: float
    later: float
    before: Array
    after: Array

    @property
    def length(self) -> float:
        """The time from its beginning to its end, with its sign."""
        return self.later - self.s

    @property
    def size(self) -> float:
        """The step's length, which is positive."""
        return abs(self.length)

    def time(self, distance: float) -> float:
        """The time at a distance from the beginning."""
        if distance >= self.size:
            return self.later
        return self.s + math.copysign(distance, self.length)

    def resolution(self, distance: float) -> float:
        """The distance of two times that are told apart, near a distance from the beginning."""
        return max(4.0 * EPS * (abs(self.s) + distance), SMALLEST)


class Events:
    """The events of m motions; an instance watches the steps of `integration.driver.follow`.

    Parameters
    ----------
    events : functions (t, q, v) -> number, with what is asked of them.
    attempts : steps of the motions, as `follow` takes them.
    states_of : (motion, times (w,), y (w, k)) -> (q, v).
    error_of : (state (STATE, k), units (k,), elapsed=) -> errors of the components within tolerances, (k,).
    t0, whole : the first time, and the whole time.
    y0 : (m, k) first states.
    """

    def __init__(
        self,
        events: tuple[Asked, ...],
        attempts: Callable[..., Array],
        states_of: StatesOf,
        error_of: Callable[..., Array],
        t0: float,
        whole: float,
        y0: Array,
    ) -> None:
        self._functions = [numbers_on_host(e.function, _name(i)) for i, e in enumerate(events)]
        self._events, self._y0 = events, y0
        self._left = [[event.most for event in events] for _ in y0]  # events until the motion ends
        self._attempts, self._states_of, self._error_of = attempts, states_of, error_of
        self._t0, self._whole = t0, whole
        self._watched: dict[int, Watched] = {}
        self._since: dict[tuple[int, int], Zero] = {}  # of each motion and function that has not gone away
        self._found: list[list[list[tuple[float, Array, Array]]]] = [[[] for _ in events] for _ in y0]

    def __call__(self, motion: int, s: float, later: float, before: Array, after: Array) -> float | None:
        """The time at which an event ends the motion in this step, or None."""
        step = Step(motion, s, later, before, after)
        watched = self._watched.get(motion) or self._at_start(step)
        look, zeros = self._look(step, later, after, -NEAR), []
        came: list[Event] = []
        holes: list[tuple[int, Hole]] = []
        for i, (a, b) in enumerate(zip(watched.look.values, look.values, strict=True)):
            rates = watched.look.rates[i], look.rates[i]
            if abs(b) <= CLOSE * abs(a) and self._is_zero(step, i, (a, b), True):
                zeros.append(i)
            elif 0.0 < a * b < math.inf and i not in watched.zeros:
                rates = self._resolved(step, i, (a, b), rates)
                if not _turns(a, *rates):
                    continue
            ends = BracketSample(0.0, a, rates[0]), BracketSample(step.size, b, rates[1])
            found, hole = self._until_hole(step, i, ends, (i in watched.zeros, i in zeros), watched.first)
            came += [event for event in found if self._counts(step, event)]
            holes += [] if hole is None else [(i, hole)]
        self._watched[motion] = Watched(look, frozenset(zeros), False)
        for i, value in enumerate(look.values):
            since = self._since.get((motion, i))
            if since and abs(value) > since.error:
                self._see_away(step, i, step.size, value)
        return self._recorded(step, came, holes) if came or holes else None

    def results(self) -> tuple[tuple[Array, ...], tuple[tuple[Array, Array], ...]]:
        """Times (m, K) and states (q (m, K, nq), v (m, K, n)) of each function's events; NaN after them."""
        times, states = [], []
        points = self._states_of(0, [self._t0], self._y0[:1])
        for i in range(len(self._functions)):
            rows = [found[i] for found in self._found]
            most = max(map(len, rows))
            arrays = [
                np.full((len(rows), most, *shape), np.nan) for shape in ((), *(p[0].shape for p in points))
            ]
            for motion, row in enumerate(rows):
                for place, event in enumerate(row):
                    for array, part in zip(arrays, event, strict=True):
                        array[motion, place] = part
            times.append(arrays[0])
            states.append((arrays[1], arrays[2]))
        return tuple(times), tuple(states)

    @staticmethod
    def of_no_motion(count: int, q: Array, v: Array) -> Any:
        """The results of `count` events of an empty batch; q (0, T, nq) and v (0, T, n) are its motions."""
        parts = tuple(np.zeros((0, 0, array.shape[-1])) for array in (q, v))
        return (np.zeros((0, 0)),) * count, (parts,) * count

    # --- values of the functions ----------------------------------------------------------------------------

    def _values(
        self, motion: int, times: list[float], states: Array, only: int | None = None
    ) -> list[list[float]]:
        """Values of each function, or of one, at w times and states (w, k) of a motion."""
        times = [self._t0 + s for s in times]
        q, v = self._states_of(motion, times, states)
        functions = self._functions if only is None else [self._functions[only]]
        return [function(times, q, v) for function in functions]

    def _look(self, step: Step, s: float, state: Array, share: float) -> Look:
        """All functions in a state (STATE, k), and their rates, over a share of a step from there."""
        ahead = share * (step.later - step.s)
        pairs = self._values(step.motion, [s, s + ahead], _moved(state, ahead))
        distance, look = math.copysign(ahead, share), Look([], [])
        for here, then in pairs:
            look.values.append(here)
            look.rates.append((then - here) / distance)
        return look

    def _resolved(self, step: Step, i: int, values: tuple[float, float], rates: tuple[float, float]) -> Any:
        """Rates at both ends of a step; over longer parts of it where the differences are round-off.

        There a function is close to zero, and flat: x^4, written in other terms, has no rate near zero.
        """
        found, low = list(rates), LOW * max(map(abs, values))
        for late, value in enumerate(values):
            distance, back = (step.size, -LATER) if late else (0.0, LATER)
            if abs(value) > low or abs(rates[late]) * step.size > low:
                continue
            if abs(rates[late]) * NEAR * step.size <= 2.0 * self._round_off(step, i, distance):
                at = distance + back * step.size
                found[late] = (self._value(step, i, at) - value) / (back * step.size)
        return found[0], found[1]

    def _value(self, step: Step, i: int, distance: float) -> float:
        """A function at a distance from the beginning of a step."""
        at = step.time(distance)
        value = self._values(step.motion, [at], self._state(step, at)[:1], i)[0][0]
        if not math.isfinite(value):
            raise Hole(distance, value)
        return value

    def _sample(self, step: Step, i: int, side: int, distance: float, back: float) -> BracketSample:
        """A function, positive where it was at first, with its rate, at a distance from the beginning."""
        at, behind = step.time(distance), -math.copysign(back, step.length)
        states = _moved(self._state(step, at), behind)
        here, then = self._values(step.motion, [at, at + behind], states, i)[0]
        if not math.isfinite(here):
            raise Hole(distance, here)
        return BracketSample(distance, side * here, side * (here - then) / back)

    def _state(self, step: Step, at: float) -> Array:
        """The state (STATE, k) at a time within a step."""
        if at in (step.s, step.later):
            return step.before if at == step.s else step.after
        times = np.array([step.s]), np.array([at - step.s])
        state: Array = self._attempts(np.array([step.motion]), *times, step.before[:, None], np.zeros(1))
        return state[:-1, 0]

    def _round_off(self, step: Step, i: int, distance: float, sizes: Array | None = None) -> float:
        """The round-off of a function in a step: its change with that of t and of the state's components.

        Parameters
        ----------
        step, i, distance : the step, the function, and where.
        sizes : (1 + k,) of which t and the components have round-off; by default their own values there.
        """
        at = step.time(distance)
        y = self._state(step, at)[0]
        sizes = np.concatenate([[self._t0 + at], y]) if sizes is None else sizes
        changes = np.multiply.outer(SHARES * ROUND_OFF, np.diag(sizes)).reshape(-1, len(sizes))
        changes = np.concatenate([np.zeros_like(changes[:1]), changes])
        values = np.array(self._values(step.motion, list(at + changes[:, 0]), y + changes[:, 1:], i)[0])
        apart = np.abs(values[1:] - values[0]).reshape(len(SHARES), -1)
        return float(np.max(np.where(np.isfinite(apart), apart, 0.0), axis=0).sum() / SHARES.max())

    def _error(self, step: Step, i: int, steepest: float, distance: float) -> float:
        """The round-off of a function in a step, whose state may have come there from larger numbers.

        Where its rate is zero the values have to tell it: their third differences over lengths of NEAR do,
        because those of a smooth function are still smaller. At a kink they are not, and do not count.

        Parameters
        ----------
        step, i, distance : the step, the function, and where.
        steepest : the function's rate elsewhere in the step.
        """
        ends = np.array([[self._t0 + step.s, *step.before[0]], [self._t0 + step.later, *step.after[0]]])
        error, apart = self._round_off(step, i, distance, np.abs(ends).max(axis=0)), NEAR * step.size
        middle = min(max(distance, 3.0 * apart), step.size - 3.0 * apart)
        times = [step.time(middle + place * apart) for place in range(-3, 4)]
        states = np.array([self._state(step, at)[0] for at in times])
        values = np.array(self._values(step.motion, times, states, i)[0])
        is_flat = np.abs(np.diff(values)).max() <= CLOSE * steepest * apart
        return error + float(np.abs(np.diff(values, 3)).max()) if is_flat else error

    def _is_zero(self, step: Step, i: int, values: tuple[float, float], late: bool) -> bool:
        """Whether a function cannot be told from zero at an end of a step, of its values at both."""
        value, other = (abs(value) for value in (values[::-1] if late else values))
        if value > CLOSE * other:
            return False
        return value <= self._error(step, i, other / step.size, step.size if late else 0.0)

    # --- whether a function was away from zero --------------------------------------------------------------

    def _counts(self, step: Step, event: Event) -> bool:
        """Whether a function comes to zero from away, and not from noise; from then on it has been zero.

        Of two zeros within a step the second one counts as the first does: a step is one smooth curve.
        """
        key = step.motion, event.i
        last = self._since.get(key)
        if last is None or abs(last.at) <= abs(step.s):
            if last:
                distance = 0.5 * abs(event.at - step.s)
                at = step.time(distance)
                value = self._values(step.motion, [at], self._state(step, at)[:1], event.i)[0][0]
                self._see_away(step, event.i, distance, value)
            last = Zero(event.at, key not in self._since)
        self._since[key] = last._replace(at=event.at)
        return last.counts

    def _see_away(self, step: Step, i: int, distance: float, value: float) -> None:
        """Look whether a function is away from zero in a step, farther than the motion's errors change it.

        Of its values where components are changed by `FAR` times their errors one each is enough, mostly.
        """
        at, which, nothing = step.time(distance), np.array([step.motion]), np.zeros(1)
        state, last = self._state(step, at), self._since.pop((step.motion, i))

        def sizes(units: Any) -> Array:
            errors = self._error_of(state, units, elapsed=abs(at))
            return np.concatenate([[self._t0 + at], np.abs(state[0]) + errors / ROUND_OFF])

        largest = sizes(np.inf)  # they are at most that, in any unit
        changes = np.diag(FAR * ROUND_OFF * largest)
        places = list(at + changes[:, 0]), state[0] + changes[:, 1:]
        apart = np.abs(np.array(self._values(step.motion, *places, i)[0]) - value).sum()
        if abs(value) > apart or abs(value) > self._round_off(step, i, distance, largest):
            return
        units = self._attempts(which, np.array([at]), nothing, state[:, None], nothing)[-1, 0]
        near = self._round_off(step, i, distance, sizes(units))
        if not abs(value) > near:
            self._since[step.motion, i] = last._replace(error=near)

    # --- events in a step -----------------------------------------------------------------------------------

    def _at_start(self, step: Step) -> Watched:
        """A motion before its first step."""
        look = self._look(step, step.s, step.before, NEAR)
        for i, value in enumerate(look.values):
            if not math.isfinite(value):
                raise self._not_finite(i, step.s, value)
        ends = self._values(step.motion, [step.later], step.after[:1])
        zeros = [
            i
            for i, (a, (b,)) in enumerate(zip(look.values, ends, strict=True))
            if self._is_zero(step, i, (a, b), False)
        ]
        self._since.update({(step.motion, i): Zero(step.s, False) for i in zeros})
        return Watched(look, frozenset(zeros), True)

    def _until_hole(
        self,
        step: Step,
        i: int,
        ends: tuple[BracketSample, BracketSample],
        zero: tuple[bool, bool],
        first: bool,
    ) -> tuple[list[Event], Hole | None]:
        """The events of a function in a step, or until a place from which it is not finite; and that place.

        Parameters
        ----------
        step, i : the step and the function.
        ends : the function at both ends.
        zero : whether it is zero there.
        first : whether it is the first step.
        """
        hole = None
        while True:
            try:
                if not math.isfinite(ends[1].value):
                    raise Hole(step.size, ends[1].value)
                return self._events_of(step, i, ends, zero, first), hole
            except Hole as met:
                last, hole = self._last_finite(step, i, met)
            if last == 0.0:
                return [], hole
            at = step.time(last)
            step = step._replace(later=at, after=self._state(step, at))
            end = self._sample(step, i, 1, step.size, NEAR * step.size)
            ends = ends[0], end
            zero = zero[0], self._is_zero(step, i, (ends[0].value, end.value), True)

    def _last_finite(self, step: Step, i: int, hole: Hole) -> tuple[float, Hole]:
        """A distance where a function is finite, and the next one, where it is not; `hole` is after both."""
        last = 0.0
        while hole.distance - last > step.resolution(hole.distance):
            x = 0.5 * (last + hole.distance)
            try:
                self._value(step, i, x)
                last = x
            except Hole as met:
                hole = met
        return last, hole

    def _events_of(
        self,
        step: Step,
        i: int,
        ends: tuple[BracketSample, BracketSample],
        zero: tuple[bool, bool],
        first: bool,
    ) -> list[Event]:
        """The events of a function in a step, in the direction that is asked for."""
        if zero[0] and ends[1].value == ends[1].rate == 0.0:  # it stays there
            return []
        nearest = SIMULTANEOUS * self._whole if first and not zero[0] else -1.0
        direction, found = self._events[i].direction, []
        for distance, side, round_off in self._coming_to_zero(step, i, ends, zero):
            at = step.time(distance)
            if side * direction <= 0.0 and abs(at - step.s) > nearest:
                found.append(Event(at, i, round_off))
        return found

    def _coming_to_zero(
        self, step: Step, i: int, ends: tuple[BracketSample, BracketSample], zero: tuple[bool, bool]
    ) -> list[Came]:
        """Places in a step at which a function comes to zero.

        Parameters
        ----------
        step, i : the step and the function.
        ends : the function at both ends.
        zero : whether it is zero there.
        """
        start, end = ends
        level = start.value if zero[0] else 0.0  # zero, but for round-off
        begin = self._leaving(step, i, level) if zero[0] else (0.0, start.value)
        side, last = sign(begin[1]), self._last_side(step, i, end, zero[1])
        if side == last != 0 and not zero[1]:
            return [] if zero[0] else self._dip(step, i, ends, side)
        if side in (0, last) and (zero[0] or sign(end.value) != -side):
            return [self._at_end(step, i, ends, last)] if zero[1] and last else []
        stop, twice = (end.x, end.value - level), zero[1] and last == -side
        if twice:  # it comes to zero, and again at the end
            stop = (1.0 - NEAR) * end.x, self._value(step, i, (1.0 - NEAR) * end.x) - level
        if sign(stop[1]) == side:
            return [self._at_end(step, i, ends, side)]
        came = [Came(self._root(step, i, level, begin, stop), side)]
        return [*came, self._at_end(step, i, ends, last)] if twice else came

    def _at_end(self, step: Step, i: int, ends: tuple[BracketSample, BracketSample], side: int) -> Came:
        """A function that is zero at the end of a step, and has had a sign before."""
        error = self._error(step, i, abs(ends[0].value) / step.size, step.size)
        return Came(step.size, side, error)

    def _leaving(self, step: Step, i: int, level: float) -> tuple[float, float]:
        """A distance soon after the beginning, where a function is `level`, and its value there minus that.

        The value is 0 if the function stays there, as far as can be seen.
        """
        s, (y, rate) = step.s, step.before[:2]
        error, size = self._round_off(step, i, 0.0), step.size
        for share in (NEAR, LATER):
            ahead = share * step.length
            change = self._values(step.motion, [s + ahead], (y + ahead * rate)[None], i)[0][0] - level
            distance = share * size
            while (
                abs(change) > error and step.time(distance) != s
            ):  # the sign of its rate; it may come back at once
                value = self._value(step, i, distance) - level
                if sign(value) == sign(change) and abs(value) > error:
                    return distance, value
                distance /= SHORTER
        value = self._value(step, i, LATER * size) - level  # its rate is zero
        return LATER * size, value if abs(value) > error else 0.0

    def _last_side(self, step: Step, i: int, end: BracketSample, zero: bool) -> int:
        """The sign of a function just before the end of a step; 0 if it has none."""
        if not zero:
            return sign(end.value)
        before = -NEAR * step.size * end.rate
        return sign(before) if abs(before) > self._round_off(step, i, step.size) else 0

    def _root(
        self, step: Step, i: int, level: float, begin: tuple[float, float], stop: tuple[float, float]
    ) -> float:
        """The distance between two, with their values, at which a function is equal to `level`."""
        (lo, at_lo), (hi, at_hi) = begin, stop
        return root_between(
            lambda distance: self._value(step, i, distance) - level, (lo, hi), (at_lo, at_hi), step.resolution
        )

    def _dip(self, step: Step, i: int, ends: tuple[BracketSample, BracketSample], side: int) -> list[Came]:
        """Zeros in a step of a function that has the same sign at both ends, and may touch zero between."""
        a, b = (BracketSample(end.x, side * end.value, side * end.rate) for end in ends)
        if stays_above(a, b):
            return []
        steepest = max(abs(a.rate), abs(b.rate))
        sample, error = partial(self._sample, step, i, side), partial(self._error, step, i, steepest)
        most = 2.0 * max(self._round_off(step, i, distance) for distance in (0.0, step.size))

        def lost(distance: float, change: float) -> bool:
            return change <= most and change <= 2.0 * self._round_off(step, i, distance)

        low = lowest_between(sample, a, b, error, NEAR * step.size, step.resolution, lost)
        if low is None:
            return []
        round_off = error(low.x)
        if abs(low.value) <= round_off:
            return [Came(low.x, side, round_off)]
        places = [(p.x, side * p.value) for p in (a, low, b)]
        return [
            Came(self._root(step, i, 0.0, *places[:2]), side),
            Came(self._root(step, i, 0.0, *places[1:]), -side),
        ]

    # --- the end of a motion --------------------------------------------------------------------------------

    def _recorded(self, step: Step, came: list[Event], holes: list[tuple[int, Hole]]) -> float | None:
        """Record the events of a step; the time at which one ends the motion, or None.

        Raises
        ------
        NonFiniteError : a function is not finite before.
        """
        end: Event | None = None
        for event in sorted(came, key=lambda event: (abs(event.at - step.s), event.i)):
            if end is not None and not self._together(step, end, event):
                continue
            at, i, _ = event
            q, v = self._states_of(step.motion, [self._t0 + at], self._state(step, at)[:1])
            self._found[step.motion][i].append((self._t0 + at, q[0], v[0]))
            self._left[step.motion][i] -= 1.0
            if self._left[step.motion][i] <= 0.0 and end is None:
                end = event
        for i, hole in sorted(holes, key=lambda hole: hole[1].distance):
            if end is None or hole.distance < abs(end.at - step.s) - SIMULTANEOUS * self._whole:
                raise self._not_finite(i, step.time(hole.distance), hole.value)
        return None if end is None else end.at

    def _together(self, step: Step, end: Event, later: Event) -> bool:
        """Whether an event that is found after the end of a motion cannot be told from being there."""
        apart = abs(later.at - end.at)
        return apart <= SIMULTANEOUS * self._whole or any(
            apart <= self._width(step, *event) for event in (end, later)
        )

    def _width(self, step: Step, at: float, i: int, round_off: float | None) -> float:
        """The distance from an event at which its function is not zero on either side; 0 of a simple root."""
        if round_off is None:
            return 0.0
        x = abs(at - step.s)
        reach = step.resolution(x)
        while reach < step.size:
            around = [step.time(place) for place in (x - reach, x + reach) if 0.0 <= place <= step.size]
            states = [self._state(step, at)[0] for at in around]
            values = self._values(step.motion, around, np.array(states), i)[0] if around else []
            if not any(abs(value) <= round_off for value in values):
                break
            reach *= WIDER
        return reach

    def _not_finite(self, i: int, s: float, value: float) -> NonFiniteError:
        return NonFiniteError(f"{_name(i)} is {value} at t = {self._t0 + s:.6g}")


def _moved(state: Array, by: float) -> Array:
    """The state y of (STATE, k), and where its rate carries it in a time, (2, k)."""
    states = np.empty((2, state.shape[1]))
    states[0] = state[0]
    np.multiply(state[1], by, out=states[1])
    states[1] += state[0]
    return states


def _turns(value: float, at_start: float, at_end: float) -> bool:
    """Whether a function on one side of zero may go towards it and away again, by its rates at both ends."""
    side = sign(value)
    return not (side * at_start > 0.0 or side * at_end < 0.0)


def _name(i: int) -> str:
    return f"events[{i}](t, q, v)"
