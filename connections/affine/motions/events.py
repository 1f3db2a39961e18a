"""Events of motions: times at which a function of (t, q, v) crosses zero, as in SciPy's `solve_ivp`.

After every step the function's sign is compared with that before. Where it differs, the time of the crossing
is found by Brent's method on steps from the same beginning that are shorter, so that an event is as accurate
as the motion. Two crossings within one step are not seen, as in SciPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connections.affine.motions.host_motions import on_host
from connections.checks import NonFiniteError

Array = NDArray[np.float64]
ROOT = 1e-13  # of the whole time, to which the time of an event is found


class Events:
    """The events of m motions; an instance watches the steps of `integration.driver.follow`.

    Parameters
    ----------
    functions : (t, q, v) -> number, with SciPy's attributes ``terminal`` and ``direction``, both optional.
    attempts : steps of the motions, as `follow` takes them.
    state_of : (motion, t, y (k,)) -> (q, v).
    t0, whole : the first time, and the whole time.
    count : m.
    """

    def __init__(
        self,
        functions: tuple[Callable[..., Any], ...],
        attempts: Callable[..., Array],
        state_of: Callable[[int, float, Array], tuple[Array, Array]],
        t0: float,
        whole: float,
        count: int,
    ) -> None:
        self._functions = [on_host(f, (), f"events[{i}](t, q, v)") for i, f in enumerate(functions)]
        self._directions = [float(getattr(f, "direction", 0.0) or 0.0) for f in functions]
        self._left = [[_most(f) for f in functions] for _ in range(count)]  # events until the motion ends
        self._attempts, self._state_of = attempts, state_of
        self._t0, self._whole = t0, whole
        self._values: dict[int, Array] = {}
        self._found: list[list[list[tuple[float, Array, Array]]]]
        self._found = [[[] for _ in functions] for _ in range(count)]

    def __call__(
        self, motion: int, s: float, later: float, before: Array, after: Array
    ) -> tuple[float, Array] | None:
        """The time and state at which an event ends the motion in this step, or None."""
        if motion not in self._values:
            self._values[motion] = self._values_at(motion, s, before[0])
        old, new = self._values[motion], self._values_at(motion, later, after[0])
        self._values[motion] = new
        crossings = []
        for i, direction in enumerate(self._directions):
            up, down = old[i] <= 0.0 <= new[i], old[i] >= 0.0 >= new[i]
            if (up and direction >= 0.0) or (down and direction <= 0.0):
                crossings.append((abs(self._root(motion, i, s, later, before, (old[i], new[i])) - s), i))
        for distance, i in sorted(crossings):
            at = s + np.copysign(distance, later - s)
            y = self._between(motion, s, at, before)
            self._found[motion][i].append((self._t0 + at, *self._state_of(motion, self._t0 + at, y)))
            self._left[motion][i] -= 1.0
            if self._left[motion][i] <= 0.0:
                return at, y
        return None

    def results(self) -> tuple[tuple[Array, ...], tuple[tuple[Array, Array], ...]]:
        """Of each function the times (m, K), and q (m, K, nq) and v (m, K, n); NaN where there are fewer."""
        times, states = [], []
        for i in range(len(self._functions)):
            rows = [found[i] for found in self._found]
            most = max(map(len, rows), default=0)
            points = next(((q, v) for row in rows for _, q, v in row), (np.zeros(0), np.zeros(0)))
            arrays = [np.full((len(rows), most, *np.shape(part)), np.nan) for part in (0.0, *points)]
            for motion, row in enumerate(rows):
                for place, event in enumerate(row):
                    for array, part in zip(arrays, event, strict=True):
                        array[motion, place] = part
            times.append(arrays[0])
            states.append((arrays[1], arrays[2]))
        return tuple(times), tuple(states)

    # --- private -------------------------------------------------------------------------------------------

    def _between(self, motion: int, s: float, at: float, before: Array) -> Array:
        """The state y (k,) at a time within a step."""
        if at == s:
            start: Array = before[0]
            return start
        times = np.array([s]), np.array([at - s])
        y: Array = self._attempts(np.array([motion]), *times, before[:, None], np.zeros(1))[0, 0]
        return y

    def _values_at(self, motion: int, s: float, y: Array) -> Array:
        t = self._t0 + s
        q, v = self._state_of(motion, t, y)
        values = np.array([float(function(t, q, v)) for function in self._functions])
        if not np.isfinite(values).all():
            i = int(np.argmin(np.isfinite(values)))
            raise NonFiniteError(f"events[{i}](t, q, v) is {values[i]} at t = {t:.6g}")
        return values

    def _root(
        self, motion: int, i: int, s: float, later: float, before: Array, values: tuple[float, float]
    ) -> float:
        if values[0] == 0.0:
            return s
        if values[1] == 0.0:
            return later
        from scipy.optimize import brentq  # takes a tenth of a second to import

        def value(at: float) -> float:
            if at in (s, later):
                return values[0] if at == s else values[1]
            return float(self._values_at(motion, at, self._between(motion, s, at, before))[i])

        ends = (s, later) if s < later else (later, s)
        root: float = brentq(value, *ends, xtol=ROOT * self._whole, rtol=4.0 * np.finfo(float).eps)
        return root


def _most(function: Any) -> float:
    """How many events of this function end a motion: SciPy's ``terminal`` is a truth value or a number."""
    terminal = getattr(function, "terminal", False)
    return float(terminal) if terminal else np.inf
