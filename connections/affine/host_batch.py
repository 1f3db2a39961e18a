"""Many motions of one kind at a time, integrated on the host: a step of all of them is one compiled call.

Every motion has its own time and its own step, by the method and the rules of `host_integration`; a motion
that has ended makes room for the next. The compiled step has a fixed number of places, so it serves any
number of motions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from connections.affine.host_integration import FIRST_STEP, NO_LONGER, SHORTEST, factors_of, largest_error
from connections.geometry.compilation import compiled

Array = NDArray[np.float64]
PLACES = 8, 32  # motions that a step takes together: few, and more
ROWS = 256  # states that are recorded together

#: ((W, 3) of t0, t, h, (W, 2, k) of y and dy/dt, what tells the motions apart (W, ...)) -> (W, 5, k).
Attempts = Callable[..., Any]


class Recorded(NamedTuple):
    """What m motions left at T times.

    Parameters
    ----------
    values : arrays (m, T, ...), what was asked for.
    points : (m, T, nq) where the motions were.
    good : (m, T) whether they were there, and all is admissible and finite.
    last : (m,) the last time that each reached.
    near : (m,) whether the first point is near its manifold.
    """

    values: Any
    points: Array
    good: NDArray[np.bool_]
    last: Array
    near: NDArray[np.bool_]


class Batch:
    """Motions that differ in the arguments of three functions of one motion, as those of `OneMotion`.

    Parameters
    ----------
    start, step, record : as there; JAX-traceable.
    """

    def __init__(
        self, start: Callable[..., Any], step: Callable[..., Any], record: Callable[..., Any]
    ) -> None:
        self._start, self._step, self._record = (compiled(_together(f)) for f in (start, step, record))

    def run(
        self, rows: tuple[Array, ...], times: Array, tolerances: tuple[float, float], max_steps: int
    ) -> Recorded:
        """What the motions record.

        Parameters
        ----------
        rows : (m, ...) the arguments of each motion.
        times : (T,) strictly monotone.
        tolerances : relative and absolute, of a step, as in `integrate`.
        max_steps : of a motion, kept or not, after which it ends.
        """
        m, count = len(rows[0]), len(times)
        given, y0, origin, near = by_rows(lambda i: self._start(*(array[i] for array in rows)), m)
        states, last = integrate_many(self._step, y0, given, times, origin, *tolerances, max_steps)

        def recorded(i: NDArray[np.int64]) -> Any:
            one, at = np.divmod(i, count)
            return self._record(times[at], states[one, at], *(array[one] for array in given))

        found = by_rows(recorded, m * count)
        values, q, good = jax.tree_util.tree_map(lambda leaf: leaf.reshape(m, count, *leaf.shape[1:]), found)
        return Recorded(values, q, good, last, near)


def _together(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *rows: jax.vmap(function)(*rows)


def integrate_many(
    attempts: Attempts,
    y0: Array,
    members: tuple[Array, ...],
    times: Array,
    origin: Array,
    rtol: float,
    atol: float,
    max_steps: int,
) -> tuple[Array, Array]:
    """The states (m, T, k) of m motions, and the last time that each reached (m,).

    Parameters
    ----------
    attempts : a step of as many motions as there are places, each as `Attempt`.
    y0 : (m, k) where they begin.
    members : (m, ...) what tells the motions apart.
    times : (T,) strictly monotone.
    origin : (m, k) from where components are measured.
    rtol, atol : of a step, as in `integrate`.
    max_steps : of a motion, kept or not, after which it ends.

    States are NaN from where a motion cannot be followed.
    """
    lanes = _Lanes(y0, members, times, origin)
    with np.errstate(all="ignore"):  # what is not finite makes a step shorter
        while lanes.busy.any():
            _step(lanes, attempts, times, (rtol, atol), max_steps)
    return lanes.states, lanes.last


class _Lanes:
    """The places of the compiled step, and the motion in each."""

    def __init__(self, y0: Array, members: tuple[Array, ...], times: Array, origin: Array) -> None:
        count, k = y0.shape
        places = PLACES[count > PLACES[0]]
        self.states = np.full((count, len(times), k), np.nan)
        self.states[:, 0], self.last = y0, np.full(count, times[0])
        self.members, self.waiting = members, count if len(times) == 1 else 0
        self.y0, self.origin0 = y0, origin
        self.t0, self.whole = times[0], times[-1] - times[0]
        self.member = np.zeros(places, dtype=int)
        self.busy, self.fresh = np.zeros(places, dtype=bool), np.zeros(places, dtype=bool)
        self.t, self.h, self.target = (np.full(places, x) for x in (self.t0, 0.0, 1))
        self.steps = np.zeros(places, dtype=int)
        self.y, self.origin = np.tile(y0[0], (places, 1)), np.tile(origin[0], (places, 1))
        self.f, self.moved = np.zeros((places, k)), np.abs(self.y - self.origin)
        self.fill()

    def fill(self) -> None:
        """Give free places to motions that wait."""
        for place in np.flatnonzero(~self.busy):
            if self.waiting == len(self.y0):
                return
            one = self.member[place] = self.waiting
            self.waiting += 1
            self.t[place], self.h[place], self.target[place] = self.t0, FIRST_STEP * self.whole, 1
            self.y[place], self.f[place], self.origin[place] = self.y0[one], 0.0, self.origin0[one]
            self.moved[place] = np.abs(self.y0[one] - self.origin0[one])
            self.steps[place], self.busy[place], self.fresh[place] = 0, True, True


def _step(
    lanes: _Lanes, attempts: Attempts, times: Array, tolerances: tuple[float, float], max_steps: int
) -> None:
    """One attempt of each motion; of a new one, its first rate."""
    goal = times[lanes.target]
    ends = np.abs(lanes.h) >= NO_LONGER * np.abs(goal - lanes.t)
    step = np.where(lanes.fresh | ~lanes.busy, 0.0, np.where(ends, goal - lanes.t, lanes.h))
    instants = np.stack([np.full_like(step, lanes.t0), lanes.t, step], axis=1)
    members = (array[lanes.member] for array in lanes.members)
    found = np.asarray(attempts(instants, np.stack([lanes.y, lanes.f], axis=1), *members))
    found = np.moveaxis(found, 1, 0)
    new, f_new, sizes = found[0], found[1], found[4]
    farther = np.fmax(lanes.moved, np.abs(new - lanes.origin))
    tolerance = np.fmax(tolerances[0] * farther, tolerances[1] * np.fmax(sizes, np.abs(new)))
    error = largest_error(np.abs(step)[:, None], found[2:4], tolerance)
    factor = factors_of(error)

    moving = lanes.busy & ~lanes.fresh
    kept = moving & (error < 1.0)
    lanes.f[lanes.fresh] = f_new[lanes.fresh]
    lanes.t[kept] = np.where(ends, goal, lanes.t + step)[kept]
    for old, now in ((lanes.y, new), (lanes.f, f_new), (lanes.moved, farther)):
        old[kept] = now[kept]
    longer = np.abs(step * factor) > np.abs(lanes.h)
    change = kept & (~ends | longer)
    lanes.h[change] = (step * factor)[change]
    refused = moving & ~kept
    lanes.h[refused] = (step * np.fmin(factor, 1.0))[refused]
    lanes.fresh[:] = False
    lanes.steps += moving

    arrived = kept & ends
    at = lanes.member[arrived], lanes.target[arrived]
    lanes.states[at], lanes.last[at[0]] = lanes.y[arrived], times[at[1]]
    lanes.target += arrived
    done = lanes.target == len(times)
    lanes.target[done] = len(times) - 1
    stopped = refused & (np.abs(lanes.h) < SHORTEST * abs(lanes.whole))
    lanes.busy &= ~(done & arrived) & ~stopped & ~(lanes.steps > max_steps)
    lanes.fill()


def by_rows(function: Callable[[NDArray[np.int64]], Any], count: int, size: int = ROWS) -> Any:
    """`function` of the rows 0, ..., count - 1, of `size` at a time, so that it is compiled for one shape."""
    parts = [
        function(np.minimum(np.arange(begin, begin + size), count - 1)) for begin in range(0, count, size)
    ]
    return jax.tree_util.tree_map(lambda *leaves: np.concatenate(leaves)[:count], *parts)
