"""Many motions of one kind at a time, integrated on the host: a step of all of them is one compiled call.

Every motion has its own time and its own step, by the method and the rules of `host_integration`; a motion
that has ended makes room for the next. The compiled step has a fixed number of places, so it serves any
number of motions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from connections.affine.host_integration import FIRST_STEP, SHORTEST, factor_of, largest_error

Array = NDArray[np.float64]
PLACES = 32  # motions that a step takes together
ROWS = 256  # states that are recorded together
_NO_LONGER = 1.0 - 1e-12

#: ((W, 3) of t0, t, h, (W, 2, k) of y and dy/dt, (W, p) what tells the motions apart) -> (W, 5, k).
Attempts = Callable[[Array, Array, Array], Any]


def integrate_many(
    attempts: Attempts,
    y0: Array,
    members: Array,
    times: Array,
    origin: Array,
    rtol: float,
    atol: float,
    max_steps: int,
) -> tuple[Array, Array]:
    """The states (m, T, k) of m motions from one start, and the last time that each reached (m,).

    Parameters
    ----------
    attempts : a step of `PLACES` motions, each as `Attempt`.
    y0 : (k,) where all begin.
    members : (m, p) what tells the motions apart.
    times : (T,) strictly monotone.
    origin : (k,) from where components are measured.
    rtol, atol : of a step, as in `integrate`.
    max_steps : of a motion, kept or not, after which it ends.

    States are NaN from where a motion cannot be followed.
    """
    lanes = _Lanes(y0, members, times, origin)
    with np.errstate(all="ignore"):  # what is not finite makes a step shorter
        while lanes.busy.any():
            _step(lanes, attempts, times, origin, (rtol, atol), max_steps)
    return lanes.states, lanes.last


class _Lanes:
    """The places of the compiled step, and the motion in each."""

    def __init__(self, y0: Array, members: Array, times: Array, origin: Array) -> None:
        count = len(members)
        self.states = np.full((count, len(times), len(y0)), np.nan)
        self.states[:, 0], self.last = y0, np.full(count, times[0])
        self.members, self.waiting = members, count if len(times) == 1 else 0
        self.y0, self.moved0 = y0, np.abs(y0 - origin)
        self.t0, self.whole = times[0], times[-1] - times[0]
        self.member = np.zeros(PLACES, dtype=int)
        self.busy, self.fresh = np.zeros(PLACES, dtype=bool), np.zeros(PLACES, dtype=bool)
        self.t, self.h, self.target = (np.full(PLACES, x) for x in (self.t0, 0.0, 1))
        self.steps = np.zeros(PLACES, dtype=int)
        self.y, self.f, self.moved = (np.tile(x, (PLACES, 1)) for x in (y0, 0.0 * y0, self.moved0))
        self.fill()

    def fill(self) -> None:
        """Give free places to motions that wait."""
        for place in np.flatnonzero(~self.busy):
            if self.waiting == len(self.members):
                return
            self.member[place], self.waiting = self.waiting, self.waiting + 1
            self.t[place], self.h[place], self.target[place] = self.t0, FIRST_STEP * self.whole, 1
            self.y[place], self.f[place], self.moved[place] = self.y0, 0.0, self.moved0
            self.steps[place], self.busy[place], self.fresh[place] = 0, True, True


def _step(
    lanes: _Lanes,
    attempts: Attempts,
    times: Array,
    origin: Array,
    tolerances: tuple[float, float],
    max_steps: int,
) -> None:
    """One attempt of each motion; of a new one, its first rate."""
    goal = times[lanes.target]
    ends = np.abs(lanes.h) >= _NO_LONGER * np.abs(goal - lanes.t)
    step = np.where(lanes.fresh | ~lanes.busy, 0.0, np.where(ends, goal - lanes.t, lanes.h))
    instants = np.stack([np.full(PLACES, lanes.t0), lanes.t, step], axis=1)
    found = np.asarray(attempts(instants, np.stack([lanes.y, lanes.f], axis=1), lanes.members[lanes.member]))
    new, f_new, fifth, third, sizes = np.moveaxis(found, 1, 0)
    farther = np.fmax(lanes.moved, np.abs(new - origin))
    tolerance = np.fmax(tolerances[0] * farther, tolerances[1] * np.fmax(sizes, np.abs(new)))
    error = largest_error(np.abs(step)[:, None], fifth, third, tolerance)
    factor = factor_of(error)

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


def by_rows(function: Callable[..., Any], *arrays: Array, size: int = ROWS) -> Any:
    """`function` over the rows of arrays (N, ...), `size` at a time, so that it is compiled for one shape."""
    count, parts = len(arrays[0]), []
    for begin in range(0, count, size):
        chosen = np.minimum(np.arange(begin, begin + size), count - 1)
        parts.append(function(*(array[chosen] for array in arrays)))
    return jax.tree_util.tree_map(lambda *leaves: np.concatenate(leaves)[:count], *parts)
