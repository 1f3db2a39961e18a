"""One motion at a time, integrated on the host: nothing but a step of it has to be compiled.

Dormand and Prince's method 8(5,3). Tolerances are those of `steps`, for every
component by itself, and steps end exactly at the requested times. The loop over steps is written in Python,
so that an interrupt ends it.
Source: E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, II.10 (DOP853).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connections.affine.dop853 import A, C, E

Array = NDArray[np.float64]
Rate = Callable[[float, Array, Array], None]  # (t, y, out)
#: (t, h, y, dy/dt) -> (5, k): y at t + h, dy/dt there, two estimates of its error over h, and what its
#: components can be expected to be.
Attempt = Callable[[float, float, Array, Array], Array]

FIRST_STEP = 0.1  # of the whole time; the error estimate makes it shorter where it has to
SHORTEST = 1e-13  # of the whole time; so short a step means that the motion ends here
_TOO_SHORT = "it would need steps shorter than 1e-13 of the whole time"
_BEYOND = 1e-9  # of the whole time: a step that far fails
NO_LONGER = 1.0 - 1e-12  # a step this near to a requested time ends there
_GROWTH, _CUT, _SAFETY = 10.0, 0.2, 0.9
_EXPONENT, _LEAST = -1.0 / 8.0, 1e-12  # by which power of the error a step is changed, and from where on
_TINY = np.finfo(np.float64).tiny  # in place of zero, where it would divide zero


class Stopped(Exception):
    """The integration cannot go on; `t` and `y` are the last state, `why` says what happened in words.

    `beyond`, if it is known, are the time and the state a little later: what stopped the motion is there.
    """

    def __init__(self, t: float, y: Array, why: str, beyond: tuple[float, Array] | None = None) -> None:
        super().__init__(why)
        self.t, self.y, self.why, self.beyond = t, y, why, beyond


def integrate_one(
    attempt: Attempt,
    y0: Array,
    times: Array,
    origin: Array,
    rtol: float,
    atol: float,
    max_steps: int,
    reached: Callable[[float, Array], None],
) -> None:
    """Solve dy/dt = rate(t, y) with y(times[0]) = y0, and call `reached(t, y)` at every requested time.

    Parameters
    ----------
    attempt : a step of the method; NaN where it leaves the domain, which makes the next one shorter.
    y0 : (k,).
    times : (T,) strictly monotone.
    origin : (k,) from where components are measured.
    rtol, atol : of a step, as in `integrate`.
    max_steps : steps, kept or not, after which the integration stops.
    reached : may raise `Stopped`.

    Raises
    ------
    Stopped : the motion ends before the last time, or takes more steps.
    """
    with np.errstate(all="ignore"):  # what is not finite makes a step shorter
        _steps(
            attempt,
            np.array(y0, dtype=np.float64),
            list(map(float, times)),
            origin,
            rtol,
            atol,
            max_steps,
            reached,
        )


def _steps(
    attempt: Attempt,
    y: Array,
    times: list[float],
    origin: Array,
    rtol: float,
    atol: float,
    max_steps: int,
    reached: Callable[[float, Array], None],
) -> None:
    t = times[0]
    reached(t, y)
    if len(times) == 1:
        return
    whole = times[-1] - t
    shortest, h, steps = SHORTEST * abs(whole), FIRST_STEP * whole, 0
    moved, f = np.abs(y - origin), attempt(t, 0.0, y, np.zeros_like(y))[1]
    for target in times[1:]:
        while t != target:
            last = abs(h) >= NO_LONGER * abs(target - t)
            step = target - t if last else h
            found = attempt(t, step, y, f)
            new, f_new = found[0], found[1]
            farther = np.fmax(moved, np.abs(new - origin))
            tolerance = np.fmax(rtol * farther, atol * np.fmax(found[4], np.abs(new)))
            error = float(largest_error(abs(step), found[2:4], tolerance))
            factor = min(max(_SAFETY * max(error, _LEAST) ** _EXPONENT, _CUT), _GROWTH)
            if error < 1.0:
                t, y, f, moved = (target if last else t + step), new, f_new, farther
                if not last or abs(step * factor) > abs(h):
                    h = step * factor
            else:
                h = step * min(factor, 1.0)
                if abs(h) < shortest:
                    later = _BEYOND * whole
                    raise Stopped(t, y, _TOO_SHORT, (t + later, y + later * f))
            steps += 1
            if steps > max_steps:
                raise Stopped(t, y, f"it takes more than {max_steps:,} steps")
        reached(t, y)


def numpy_attempt(rate: Rate, sizes: Callable[[float, Array], Array]) -> Attempt:
    """A step with functions of NumPy.

    Parameters
    ----------
    rate : (t, y, out) writes dy/dt to out (k,).
    sizes : (t, y) -> what the components can be expected to be, (k,).
    """
    rows = [A[stage, :stage].copy() for stage in range(len(C))]

    def attempt(t: float, h: float, y: Array, f: Array) -> Array:
        K, found = np.empty((len(C), len(y))), np.empty((5, len(y)))
        found[:], new = y, y
        if h == 0.0:
            rate(t, y, found[1])
            return found
        K[0] = f
        for stage, row in enumerate(rows[1:], 1):
            new = y + h * row.dot(K[:stage])
            rate(t + C[stage] * h, new, K[stage])
        found[0], found[1], found[4] = new, K[-1], sizes(t + h, new)
        found[2:4] = E @ K
        return found

    return attempt


def factors_of(error: Array) -> Array:
    """By how much steps of these errors (m,) are changed."""
    return np.clip(_SAFETY * np.maximum(error, _LEAST) ** _EXPONENT, _CUT, _GROWTH)


def largest_error(step: Any, estimates: Array, tolerance: Array) -> Any:
    """The largest error of a component over its tolerance, (...,); infinite where it is not a number.

    Parameters
    ----------
    step : how long the step is, (..., 1) or a number.
    estimates : (2, ..., k), of fifth and of third order, over a unit of time; the error is made of both.
    tolerance : (..., k).
    """
    # Over the tolerance first: in other units, their squares are infinite, or nothing.
    fifth, third = estimates / np.maximum(tolerance, _TINY)
    sizes = step * fifth * (fifth / np.maximum(np.hypot(fifth, 0.1 * third), _TINY))
    return np.fmin(sizes.max(axis=-1, initial=0.0), np.inf)
