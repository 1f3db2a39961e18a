"""Suprema over all postures of a box: branch and bound with corners, best box first.

Let f be array-valued, |.| a norm or the largest eigenvalue of a symmetric matrix, and |-d^2 f / dq_i^2| <= s_i
at every posture. Interpolate f on a box with the widths w, coordinate by coordinate: the interpolant is a convex
combination of the values at the corners, and what is left out along coordinate i is at most w_i^2 / 8 s_i,
whatever the others are. So

    |f(q)| <= max over corners |f| + sum_i w_i^2 / 8 s_i        at every q of the box.

Along an angle that matters little, one value is enough: a function of period 2 pi with |h''| <= s has a slope
of at most pi s / 2 and an oscillation of at most pi^2 s / 4, so min(pi w_i / 4, pi^2 / 4) s_i stands in place
of w_i^2 / 8 s_i, and this coordinate has no corners. Halving a box makes the gap four times smaller.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from connections._progress import Ticks
from connections.certified.interval import Interval
from connections.certified.postures import Postures

_AT_ONCE = 32  # boxes that are cut in a step: their corners are evaluated in one call
_STARTS = 8  # corners from which the attained end is sought


@dataclass(frozen=True, eq=False)
class Quantity:
    """An array-valued function of the posture whose norm has a supremum.

    Parameters
    ----------
    function : q (P, nq) -> f (P, ...).
    bends : (m,) s, bounds of |-d^2 f / dq_i^2| for the coordinates of the box; of angles, both signs.
    above : (f (P, ...), enough) -> (P,) upper ends of |f|; where one is below `enough`, it need not be sharp.
    attained : f (P, ...) -> (P,) lower ends of |f|; `above` where it is sharp.
    depends : (m,) whether f depends on a coordinate; that of an angle without bends does not.
    error : how far `above` and `attained` of the computed f may be from those of f: rounding.
    """

    function: Callable[[np.ndarray], np.ndarray]
    bends: np.ndarray
    above: Callable[[np.ndarray, float], np.ndarray]
    attained: Callable[[np.ndarray], np.ndarray]
    depends: np.ndarray
    error: float = 0.0


def supremum(
    quantity: Quantity,
    postures: Postures,
    *,
    rtol: float = 0.02,
    seconds: float = 10.0,
    unit: str = "",
    name: str = "supremum",
) -> Interval:
    """The supremum of |f| over the postures, between an end that is attained and one that is proved.

    Parameters
    ----------
    rtol : the gap, relative to the upper end, at which the search stops.
    seconds : the time after which it stops, s.
    unit : of |f|.
    name : of the quantity, beside the bar of progress.

    Raises
    ------
    KeyboardInterrupt : Ctrl-C; its attribute ``interval`` has what is known.
    """
    search = _Search(quantity, postures, rtol)
    start, reached = time.monotonic(), "gap"
    with Ticks(name) as ticks:
        try:
            search.begin()
            while (gap := search.gap) > rtol:
                if time.monotonic() - start > seconds:
                    reached = "time"
                    break
                if not search.cut():
                    reached = "floor"
                    break
                ticks(min(1.0, rtol / gap))
        except KeyboardInterrupt as error:
            vars(error)["interval"] = search.interval(unit, "interrupted")
            raise
    return search.interval(unit, reached)


@dataclass(eq=False)
class _Search:
    quantity: Quantity
    postures: Postures
    rtol: float
    lower: float = -np.inf
    best: np.ndarray | None = None
    heap: list[tuple[float, int, np.ndarray, np.ndarray]] = field(default_factory=list)
    boxes: int = 0
    upper: float = np.inf  # before any box is bounded

    def begin(self) -> None:
        """Bound the box of all postures."""
        low, high = self.postures.lower, self.postures.upper
        middle = np.where(np.isfinite(low) & np.isfinite(high), (low + high) / 2, 0.0)
        self.see(middle[None])
        self.climb()
        self.push(low[None], high[None])
        self.climb()

    @property
    def gap(self) -> float:
        """The gap relative to the upper end."""
        top = self.top
        return (top - self.lower) / abs(top) if top > self.lower else 0.0

    @property
    def top(self) -> float:
        """The proved end."""
        if self.upper == np.inf:
            return np.inf
        return max(self.lower, -self.heap[0][0]) if self.heap else self.lower

    def interval(self, unit: str, reached: str) -> Interval:
        """What is known."""
        posture = None if self.best is None else self.postures.configurations(self.best[None])[0]
        error = self.quantity.error
        return Interval(self.lower - error, self.top + error, unit, posture, self.boxes, reached)

    def see(self, points: np.ndarray, values: np.ndarray | None = None) -> np.ndarray:
        """Evaluate f at points (P, m), and keep the best of them."""
        if values is None:
            values = self.quantity.function(self.postures.configurations(points))
        found = self.quantity.attained(values)
        at = int(np.argmax(found))
        if found[at] > self.lower:
            self.lower, self.best = float(found[at]), points[at].copy()
        return found

    def climb(self) -> None:
        """Ascend from the best point, coordinate by coordinate, with steps that shrink."""
        moving = np.flatnonzero(self.quantity.depends)
        low, high = self.postures.lower, self.postures.upper
        if self.best is None or not len(moving):
            return
        span = np.where(np.isfinite(high - low), high - low, 2.0)
        step = 0.25
        while step > 1e-9:
            before = self.lower
            points = np.repeat(self.best[None], 2 * len(moving), axis=0)
            for row, i in enumerate(moving):
                for sign, at in ((-1.0, 2 * row), (1.0, 2 * row + 1)):
                    value = points[at, i] + sign * step * span[i]
                    if self.postures.whole[i]:  # go on beyond the end of the turn
                        value = (value + np.pi) % (2.0 * np.pi) - np.pi
                    points[at, i] = min(max(value, low[i]), high[i])
            self.see(points)
            if not self.lower > before + 1e-13 * abs(before):
                step /= 2.0

    def cut(self) -> bool:
        """Halve the best boxes; False if none can be halved any more."""
        lows, highs = [], []
        while self.heap and len(lows) < 2 * _AT_ONCE:
            if -self.heap[0][0] <= self.lower:
                break
            _, _, low, high = heapq.heappop(self.heap)
            i = int(np.argmax(self.cost(low, high)))
            middle = (low[i] + high[i]) / 2.0
            if not low[i] < middle < high[i]:
                heapq.heappush(self.heap, (-np.inf, 0, low, high))
                return False
            one, other = high.copy(), low.copy()
            one[i] = other[i] = middle
            lows += [low, other]
            highs += [one, high]
        before = self.lower
        if lows:
            self.push(np.array(lows), np.array(highs))
        if self.lower > before:
            self.climb()
        return True

    def cost(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """(..., m) what each coordinate adds to the bounds of boxes, as a size."""
        width = high - low
        return (
            np.where(self.quantity.depends, np.minimum(width**2 / 8, np.pi**2 / 4), 0.0) * self.quantity.bends
        )

    def push(self, low: np.ndarray, high: np.ndarray) -> None:
        """Bound boxes (B, m), and keep those that may have a larger value than the lower end."""
        width = high - low
        one_point = _one_point_factor(width)
        little = one_point * self.quantity.bends <= 0.1 * self.rtol * max(self.lower, 0.0) / max(
            1, len(self.quantity.bends)
        )
        point = (little & ~self.postures.slides) | ~self.quantity.depends
        # An uncut turn begins and ends at the same posture: it has no corners.
        point |= self.postures.whole & (low == self.postures.lower) & (high == self.postures.upper)
        factors = np.where(self.quantity.depends, np.where(point, one_point, width**2 / 8), 0.0)
        rest = factors @ self.quantity.bends
        patterns, of_box = np.unique(point, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            rows = np.flatnonzero(of_box.reshape(-1) == number)
            bounds = self._bounds(low[rows], high[rows], pattern, rest[rows])
            for row, bound in zip(rows, bounds, strict=True):
                self.boxes += 1
                if bound > self.lower:
                    heapq.heappush(self.heap, (-float(bound), self.boxes, low[row], high[row]))
        self.upper = 0.0

    def _bounds(self, low: np.ndarray, high: np.ndarray, pattern: np.ndarray, rest: np.ndarray) -> np.ndarray:
        sides = itertools.product(*[(0.5,) if one else (0.0, 1.0) for one in pattern])
        at = np.array(list(sides)).reshape(-1, len(pattern))  # (corners, m)
        points = np.where(
            at == 0.0, low[:, None], np.where(at == 1.0, high[:, None], (low + high)[:, None] / 2)
        )
        values = self.quantity.function(self.postures.configurations(points.reshape(-1, len(pattern))))
        self.see(points.reshape(-1, len(pattern)), values)
        enough = self.lower * (1.0 + self.rtol / 2.0) - float(rest.max())
        above = self.quantity.above(values, enough).reshape(len(low), -1)
        return above.max(axis=1) + rest


def _one_point_factor(width: np.ndarray) -> Any:
    return np.minimum(np.pi * width / 4.0, np.pi**2 / 4.0)
