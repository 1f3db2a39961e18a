"""Suprema over all postures of a box: branch and bound with corners, best box first.

Let f be array-valued, |d^2 f / dq_i^2| <= B_i at every posture, entry by entry, and |.| convex. Interpolate f
on a box with the widths w, coordinate by coordinate: the interpolant is a convex combination of the values at
the corners, and what is left out along coordinate i is at most w_i^2 / 8 B_i, whatever the others are. So at
every q of the box

    |f(q)| <= max over corners f_c and errors E of |f_c + E|,    |E| <= sum_i w_i^2 / 8 B_i.

Along an angle that matters little, one value is enough: a function of period 2 pi with |h''| <= B has a slope
of at most pi B / 2 and an oscillation of at most pi^2 B / 4, so min(pi w_i / 4, pi^2 / 4) B_i stands in place
of w_i^2 / 8 B_i, and this coordinate has no corners. Halving a box makes the gap four times smaller.

Where the second derivative in the direction that counts is far below B, as for the smallest eigenvalue of
H, parabolas are better: with a third value in the middle, what is left out along an angle is at most
w_i^3 / 124 times the third derivative, which is at most 2 B_i, as f is of degree 2 at most (Bernstein); along
a slide it is nothing. A parabola through f_a, f_m, f_b is a convex combination of f_a,
2 f_m - (f_a + f_b) / 2 and f_b. Parabolas along one coordinate make what those along others leave out at most
5 / 4 times as large.

Limbs that meet at a trunk only add, f = f_0 + sum_l D_l(q_l). With L limbs and the middle m of the box, f is
the mean of f(m) + L (D_l(q_l) - D_l(m)), so that the mean of their ends is one of f: to first order in w,
nothing is lost, and L 2^k corners take the place of 2^(L k). Trees that stand apart make a matrix of blocks,
whose largest eigenvalue is one of a block: each has a search of its own.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from connections._progress import Ticks
from connections.certified.interval import Interval, judged
from connections.certified.norms import Norm
from connections.certified.postures import Postures

_DRAWN, _STARTS = 1024, 4  # postures that are drawn; the best of them, from which ascents begin
_ROUNDS = 300  # of an ascent, in which a step is taken or halved
_AT_ONCE = 256  # boxes of a step: their corners are evaluated in one call
_LITTLE = 0.5  # of the gap that is asked for, for all angles that have one point


_Ends = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Quantity:
    """An array-valued function of the posture whose norm has a supremum.

    Parameters
    ----------
    function : q (P, nq) -> f (P, ...).
    bends : (m, ...) B, bounds of the second derivatives along the coordinates of the box, entry by entry.
    norm : |.|.
    depends : (m,) whether f depends on a coordinate; on an angle without bends it does not.
    error : how far the ends that `norm` computes may be from those of f: rounding.
    shift : the same of their inverses, for norms of inverse matrices.
    local : lower and upper ends (B, m) of boxes -> bends (B, m, ...) within them, none above `bends`.
    limbs : indices of coordinates, if f is a sum of functions of these alone: corners of limbs are enough.
    curved : whether parabolas stand in place of lines between corners.
    blocks : rows and coordinates of each block, if f consists of blocks and |f| is the largest of theirs.
    turned : q (nq,) -> q with the base that floats, or is on a ball joint, as it is where |f| is attained.
    """

    function: Callable[[np.ndarray], np.ndarray]
    bends: np.ndarray
    norm: Norm
    depends: np.ndarray
    error: float = 0.0
    shift: float = 0.0
    limbs: tuple[tuple[int, ...], ...] = ()
    local: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    curved: bool = False
    blocks: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    turned: Callable[[np.ndarray], np.ndarray] | None = None


def supremum(
    quantity: Quantity,
    postures: Postures,
    *,
    rtol: float = 0.02,
    seconds: float = 10.0,
    unit: str = "",
    name: str = "supremum",
    known: float = -np.inf,
    enough: float = -np.inf,
) -> Interval:
    """The supremum of |f| over the postures, between an end that is attained and one that is proved.

    Parameters
    ----------
    rtol : the gap, relative to the upper end, at which the search stops.
    seconds : the time after which it stops, s.
    unit : of |f|.
    name : of the quantity, beside the bar of progress.
    known : a value that another function attains: only what exceeds it is looked for.
    enough : an upper end at which the search stops, too.

    Raises
    ------
    KeyboardInterrupt : Ctrl-C; its attribute ``interval`` has what is known.
    """
    if len(quantity.blocks) > 1:
        return _of_blocks(quantity, postures, rtol, seconds, unit, name)
    start = time.monotonic()
    search = _BoxSearch(quantity, postures.held(quantity.depends), rtol, start + seconds)
    search.lower = known
    if not np.isfinite(search.postures.upper).all() or not np.isfinite(search.postures.lower).all():
        return search.without_end(unit)
    reached = "gap"
    with Ticks(name) as ticks:
        try:
            search.begin()
            if len(quantity.limbs) > 1 and quantity.norm.grows:
                search.part(start + seconds / 2.0)
            while (gap := search.gap) > rtol and search.top > enough:
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
    return judged(search.interval(unit, reached), rtol)


def _of_blocks(
    quantity: Quantity, postures: Postures, rtol: float, seconds: float, unit: str, name: str
) -> Interval:
    """The supremum over all blocks, one after the other: only what exceeds those before is looked for."""
    start, found = time.monotonic(), Interval(0.0, 0.0, unit)
    for number, (rows, coordinates) in enumerate(quantity.blocks):

        def function(q: np.ndarray, rows: np.ndarray = rows) -> np.ndarray:
            return np.ascontiguousarray(quantity.function(q)[:, rows[:, None], rows])

        def local(low: np.ndarray, high: np.ndarray, rows: np.ndarray = rows) -> np.ndarray:
            assert quantity.local is not None
            return np.ascontiguousarray(quantity.local(low, high)[:, :, rows[:, None], rows])

        block = replace(
            quantity,
            function=function,
            bends=quantity.bends[:, rows[:, None], rows],
            depends=quantity.depends & np.isin(np.arange(len(quantity.depends)), coordinates),
            limbs=tuple(limb for limb in quantity.limbs if set(limb) <= set(coordinates.tolist())),
            local=None if quantity.local is None else local,
            blocks=(),
        )
        left = (seconds - (time.monotonic() - start)) / (len(quantity.blocks) - number)
        known = found.lower if found.posture is not None else -np.inf
        try:
            one = supremum(block, postures, rtol=rtol, seconds=left, unit=unit, name=name, known=known)
        except KeyboardInterrupt as error:
            vars(error)["interval"] = replace(found, upper=np.inf, reached="interrupted")
            raise
        best = one if one.posture is not None else found
        stopped = next((each.reached for each in (found, one) if each.reached not in ("gap", "floor")), "gap")
        upper, boxes = max(found.upper, one.upper), found.boxes + one.boxes
        found = replace(best, upper=upper, boxes=boxes, reached=stopped)
    return judged(found, rtol)


class _BoxSearch:
    """The boxes that are left, best first, and the ends.

    Boxes are in a heap: (-bound, number, lower ends, upper ends, shares of the coordinates).
    """

    def __init__(self, quantity: Quantity, postures: Postures, rtol: float, deadline: float = np.inf) -> None:
        self.quantity, self.postures, self.rtol, self.deadline = quantity, postures, rtol, deadline
        self.lower, self.upper, self.boxes = -np.inf, np.inf, 0
        self.sizes = np.minimum(quantity.norm.sizes(quantity.bends), 1e300)  # no NaN where a box has no width
        self.parts = np.inf
        self.taken = np.inf  # a bound of boxes that are not in the heap, at first of all postures
        self.best: np.ndarray | None = None
        self.heap: list[tuple[float, int, np.ndarray, np.ndarray, np.ndarray]] = []

    def begin(self) -> None:
        """Bound the box of all postures, after ascents from its middle and from the best that are drawn."""
        low, high = self.postures.lower[None], self.postures.upper[None]
        middle = (low + high) / 2.0
        width = np.where(self.quantity.depends, high - low, 0.0)
        drawn = middle + width * (np.random.default_rng(0).random((_DRAWN, low.shape[1])) - 0.5)
        found = self.quantity.norm.attained(self.values(drawn))
        for start in (*middle, *drawn[np.argsort(-found)[:_STARTS]]):
            self.climb(start)
        self.push(low, high, np.array([np.inf]))
        self.taken = -np.inf

    def without_end(self, unit: str) -> Interval:
        """An interval without an upper end: f depends on slides without limits.

        F is a polynomial in them. If a step changes it, the supremum of a norm is infinite.
        """
        middle = self.postures.held(np.zeros(len(self.postures.lower), dtype=bool)).lower
        unlimited = ~np.isfinite(self.postures.upper - self.postures.lower)
        step = np.where(unlimited, np.where(np.isinf(self.postures.upper), 1.0, -1.0), 0.0)
        points = middle + np.vstack([np.zeros_like(middle), np.diag(step)])
        values = self.values(points)
        self.keep(points, values)
        changes = np.abs(values[1:] - values[0]).max(initial=0.0) > 1e-6 * np.abs(values).max(initial=0.0)
        known = self.interval(unit, "unbounded")
        return replace(
            known, lower=np.inf if changes and self.quantity.norm.grows else known.lower, upper=np.inf
        )

    @property
    def top(self) -> float:
        """The proved end."""
        here = max(self.taken, -self.heap[0][0] if self.heap else -np.inf)
        return max(self.lower, min(here, self.upper, self.parts))

    @property
    def gap(self) -> float:
        """The gap relative to the upper end."""
        top = self.top
        if not top > self.lower:
            return 0.0
        return 1.0 if np.isinf(top) else float((top - self.lower) / abs(top)) if top else np.inf

    def interval(self, unit: str, reached: str) -> Interval:
        """The ends that are known."""
        posture = None if self.best is None else self.postures.within_limits(self.best)
        if posture is not None and self.quantity.turned is not None:
            posture = self.quantity.turned(posture)
        error, shift, top = self.quantity.error, self.quantity.shift, self.top
        lower, upper = max(self.lower, 0.0), np.inf
        lower = max(lower / (1.0 + shift * lower) - error, 0.0)
        if shift * top < 0.5:
            upper = top / (1.0 - shift * top) + error
        return Interval(lower, upper, unit, posture, self.boxes, reached)

    def values(self, points: np.ndarray) -> np.ndarray:
        """F at points (P, m)."""
        return self.quantity.function(self.postures.configurations(points))

    def keep(self, points: np.ndarray, values: np.ndarray) -> tuple[float, np.ndarray]:
        """The best of points (P, m) with values F, which stays if none was better: |F|, and the point."""
        found = self.quantity.norm.attained(values)
        at = int(np.argmax(found))
        top, best = float(found[at]), points[at].copy()
        if top > self.lower:
            self.lower, self.best = top, best
        return top, best

    def climb(self, start: np.ndarray) -> None:
        """Ascend from a point (m,), coordinate by coordinate, with steps that shrink."""
        low, high = self.postures.lower, self.postures.upper
        moving = np.flatnonzero(self.quantity.depends & (high > low))
        top, best = self.keep(start[None], self.values(start[None]))
        rows, step = np.arange(len(moving)), 0.25
        for _ in range(_ROUNDS if len(moving) else 0):
            if step < 1e-9 or time.monotonic() > self.deadline:
                break
            points = np.repeat(best[None], 2 * len(moving), axis=0)
            points[rows, moving] -= step * (high - low)[moving]
            points[rows + len(moving), moving] += step * (high - low)[moving]
            turned = (points + np.pi) % (2.0 * np.pi) - np.pi  # beyond the end of a whole turn
            points = np.clip(np.where(self.postures.whole, turned, points), low, high)
            found, at = self.keep(points, self.values(points))
            if found > top + 1e-13 * abs(top):
                top, best = found, at
            else:
                step /= 2.0

    def part(self, deadline: float) -> None:
        """Bound f by limbs, each with all others as they are at the best posture.

        Then f is the mean of f* + L (D_l(q_l) - D_l*), and each limb has few coordinates. What is lost does
        not vanish with the boxes, but is little where a limb hardly turns the eigenvector.
        """
        limbs, best = self.quantity.limbs, self.best
        if best is None:
            return
        tops, fixed, count = [], self.values(best[None]), len(limbs)
        for number, limb in enumerate(limbs):
            moving = np.isin(np.arange(len(best)), limb)
            low, high = (np.where(moving, end, best) for end in (self.postures.lower, self.postures.upper))

            def alone(q: np.ndarray) -> np.ndarray:
                return np.asarray(fixed + count * (self.quantity.function(q) - fixed))

            def within(low: np.ndarray, high: np.ndarray) -> np.ndarray:
                assert self.quantity.local is not None
                return count * self.quantity.local(low, high)

            quantity = replace(
                self.quantity,
                function=alone,
                bends=count * self.quantity.bends,
                depends=self.quantity.depends & moving,
                limbs=(limb,),
                local=None if self.quantity.local is None else within,
            )
            end = time.monotonic() + (deadline - time.monotonic()) / (count - number)
            search = _BoxSearch(quantity, replace(self.postures, lower=low, upper=high), self.rtol / 2.0, end)
            search.begin()
            while search.gap > self.rtol / 2.0 and search.top > self.lower / (1.0 - self.rtol):
                if time.monotonic() > end or not search.cut():
                    break
            tops.append(search.top)
            self.boxes += search.boxes
        self.parts = float(np.mean(tops)) * (1.0 + 1e-12)

    def cut(self) -> bool:
        """Halve the best boxes; False if one of them cannot be halved.

        Along two coordinates at once, if the second would be next: half a width adds a quarter.
        """
        lows: list[np.ndarray] = []
        highs: list[np.ndarray] = []
        ends: list[float] = []
        if self.heap:
            self.taken = -self.heap[0][0]
        while self.heap and len(lows) < _AT_ONCE and -self.heap[0][0] > self.lower:
            low, high, shares = self.heap[0][2:]
            middle = (low + high) / 2.0
            weights = self.weights(low, high, shares)
            order = np.argsort(-weights)[:2]
            if not weights.max(initial=0.0) > 0.0:
                if lows:
                    break  # those that were taken first
                self.taken = -np.inf
                return False
            item = heapq.heappop(self.heap)
            halves = [(low, high)]
            for i in (int(i) for i in order if weights[i] >= weights[order[0]] / 2.0):
                halves = [half for box in halves for half in _halves(*box, i, middle[i])]
            lows += [box[0] for box in halves]
            highs += [box[1] for box in halves]
            ends += [-item[0]] * len(halves)
        before = self.lower
        if lows:
            self.push(np.array(lows), np.array(highs), np.array(ends))
        self.taken = -np.inf
        if self.lower > before and self.best is not None:
            self.climb(self.best)
        return True

    def weights(self, low: np.ndarray, high: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """(m,) what a half of a box (m,) gains, by the coordinate that is cut; 0 where it cannot be.

        Where no coordinate adds to the bound, as at an eigenvector that none of them moves, widths decide.
        """
        middle = (low + high) / 2.0
        able = (low < middle) & (middle < high) & self.quantity.depends
        found = np.where(able, shares, 0.0)
        return found if found.any() else np.where(able, (high - low) ** 2 * self.sizes, 0.0)

    def push(self, low: np.ndarray, high: np.ndarray, known: np.ndarray) -> None:
        """Bound boxes (B, m), and keep those that may have a larger value than the lower end.

        An upper end (B,) of what they were cut from is known.
        """
        bounds, shares = self.bounded(low, high)
        bounds = np.where(np.isnan(bounds), np.inf, bounds)
        best = np.argsort(-bounds)[: 1 + len(bounds) // 8]
        points = (low[best] + high[best]) / 2.0
        self.keep(points, self.values(points))
        for bound, *box in zip(np.minimum(bounds, known), low, high, shares, strict=True):
            self.boxes += 1
            if bound > self.lower:
                heapq.heappush(self.heap, (-float(bound), self.boxes, *box))

    def bounded(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Upper ends (B,) over boxes (B, m), and what coordinates add to them, (B, m)."""
        quantity, width = self.quantity, high - low
        one_point = np.minimum(np.pi * width / 4.0, np.pi**2 / 4.0)
        little = one_point * self.sizes <= _LITTLE * self.rtol * max(self.lower, 0.0) / max(
            1, len(quantity.bends)
        )
        point = (little & ~self.postures.slides) | ~quantity.depends
        # A turn that is not cut begins and ends at the same posture: it has no corners.
        point |= self.postures.whole & (low == self.postures.lower) & (high == self.postures.upper)
        sides = width**2 / 8.0
        if quantity.curved:
            left = width**3 / 62.0 * 1.25 ** max(0, len(self.sizes) - 1)
            sides = np.where(self.postures.slides, 0.0, left)
        factors = np.where(quantity.depends, np.where(point, one_point, sides), 0.0)
        patterns, of_box = np.unique(point, axis=0, return_inverse=True)
        bounds, shares = np.empty(len(low)), np.empty(low.shape)
        for number, pattern in enumerate(patterns):
            rows = np.flatnonzero(of_box.reshape(-1) == number)
            bounds[rows], shares[rows] = self.bounds(low[rows], high[rows], pattern, factors[rows])
        return bounds, shares * factors

    def bounds(
        self, low: np.ndarray, high: np.ndarray, point: np.ndarray, factors: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Upper ends over boxes with corners in the coordinates that are not in `point` (m,), and shares."""
        middle, limbs = (low + high) / 2.0, []
        for limb in self.quantity.limbs or (tuple(range(len(point))),):
            ends = (0.0, 0.5, 1.0) if self.quantity.curved else (0.0, 1.0)
            sides = [(0.5,) if point[i] or i not in limb else ends for i in range(len(point))]
            at = np.array(list(itertools.product(*sides))).reshape(-1 if sides else 1, len(point))
            lows, highs = low[:, None], high[:, None]
            points = np.where(at == 0.0, lows, np.where(at == 1.0, highs, middle[:, None]))
            values = self.values(points.reshape(points.shape[0] * points.shape[1], len(point)))
            corners = values.reshape(*points.shape[:2], *values.shape[1:])
            if self.quantity.curved:
                corners = _control_values(corners, [len(side) for side in sides])
            if len(self.quantity.limbs) > 1:
                rest = self.values(middle)[:, None]
                corners = rest + len(self.quantity.limbs) * (corners - rest)
            limbs.append(corners)
        enough = self.lower * (1.0 + self.rtol / 2.0) if len(limbs) == 1 else -np.inf
        bends = self.quantity.bends[None]
        if self.quantity.local is not None:
            # One point stands for a whole turn.
            bends = self.quantity.local(low, high)
            bends[:, point] = self.quantity.bends[point]
        return self.quantity.norm.above_mean(limbs, factors, bends, enough)


def _halves(low: np.ndarray, high: np.ndarray, i: int, middle: float) -> tuple[_Ends, _Ends]:
    """The ends of both halves of a box along coordinate i."""
    one, other = high.copy(), low.copy()
    one[i] = other[i] = middle
    return (low, one), (other, high)


def _control_values(values: np.ndarray, sizes: list[int]) -> np.ndarray:
    """Control values (B, C, ...) of parabolas through values at the ends and in the middle of each axis."""
    found = values.reshape(len(values), *sizes, *values.shape[2:]).copy()
    for axis, size in enumerate(sizes, 1):
        if size == 3:
            along = np.moveaxis(found, axis, 0)
            along[1] = 2.0 * along[1] - (along[0] + along[2]) / 2.0
    return found.reshape(values.shape)
