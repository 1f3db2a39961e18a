"""One motion at a time, integrated on the host: nothing but the right-hand side has to be compiled.

Dormand and Prince's method 8(5,3) with SciPy's coefficients. Tolerances are those of `steps`, for every
component by itself, and steps end exactly at the requested times. A step is written in Python, so that
an interrupt ends the integration.
Source: E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, II.10 (DOP853).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rate = Callable[[float, Array], Array]

FIRST_STEP = 0.1  # of the whole time; the error estimate makes it shorter where it has to
SHORTEST = 1e-13  # of the whole time; so short a step means that the motion ends here
_GROWTH, _CUT, _SAFETY = 10.0, 0.2, 0.9
_EXPONENT, _LEAST = -1.0 / 8.0, 1e-12  # by which power of the error a step is changed, and from where on
_NO_LONGER = 1.0 - 1e-12  # a step this near to a requested time ends there


class Stopped(Exception):
    """The integration cannot go on; `t` and `y` are the last state, `why` says what happened in words."""

    def __init__(self, t: float, y: Array, why: str) -> None:
        super().__init__(why)
        self.t, self.y, self.why = t, y, why


def integrate_one(
    rate: Rate,
    sizes: Rate,
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
    rate : (t, y) -> dy/dt, (k,); NaN where y is not in the domain, which makes the step shorter.
    sizes : (t, y) -> what the components can be expected to be, (k,).
    y0 : (k,).
    times : (T,) strictly monotone.
    origin : (k,) from where components are measured.
    rtol, atol : of a step, as in `integrate`.
    max_steps : steps, kept or not, after which the integration stops.

    Raises
    ------
    Stopped : the motion ends before the last time, or takes more steps.
    """
    A, B, C, E3, E5 = _coefficients()
    t, y = float(times[0]), np.array(y0, dtype=np.float64)
    reached(t, y)
    if len(times) == 1:
        return
    whole = float(times[-1]) - t
    shortest, h = SHORTEST * abs(whole), FIRST_STEP * whole
    moved, K, steps = np.abs(y - origin), np.empty((len(B) + 1, len(y))), 0
    K[0] = rate(t, y)
    for target in times[1:]:
        while t != target:
            left = target - t
            last = abs(h) >= _NO_LONGER * abs(left)
            step = left if last else h
            for stage in range(1, len(B)):
                K[stage] = rate(t + C[stage] * step, y + step * (A[stage, :stage] @ K[:stage]))
            new = y + step * (B @ K[:-1])
            K[-1] = rate(t + step, new)
            farther = np.fmax(moved, np.abs(new - origin))
            tolerance = np.fmax(rtol * farther, atol * np.fmax(sizes(t + step, new), np.abs(new)))
            error = _error(abs(step), E5 @ K, E3 @ K, tolerance)
            steps += 1
            factor = float(np.clip(_SAFETY * max(error, _LEAST) ** _EXPONENT, _CUT, _GROWTH))
            if error < 1.0:
                t, y = (target if last else t + step), new
                moved, K[0] = farther, K[-1]
                if not last or abs(step * factor) > abs(h):
                    h = step * factor
            else:
                h = step * min(factor, 1.0)
                if abs(h) < shortest:
                    raise Stopped(t, y, "it would need steps shorter than 1e-13 of the whole time")
            if steps > max_steps:
                raise Stopped(t, y, f"it takes more than {max_steps:,} steps")
        reached(t, y)


def _error(step: float, fifth: Array, third: Array, tolerance: Array) -> float:
    """The largest error of a component over its tolerance; infinite where it is not a number."""
    with np.errstate(all="ignore"):
        sizes = np.abs(fifth) / np.hypot(fifth, 0.1 * third) * np.abs(fifth) * step / tolerance
    sizes[(fifth == 0.0) & (third == 0.0)] = 0.0
    largest = float(np.max(sizes, initial=0.0))
    return largest if np.isfinite(largest) else np.inf


def _coefficients() -> tuple[Array, Array, Array, Array, Array]:
    """A, B, C of the method, and the weights of its two error estimates."""
    from scipy.integrate import DOP853

    return DOP853.A, DOP853.B, DOP853.C, DOP853.E3, DOP853.E5
