"""Stationary curves from several starts: each on pieces so short that shorter ones give the same torques.

The error of a curve is found by halving its pieces: torques between the ends of pieces have an error of
O(h^4), so that those of the halves have a fifteenth of the change. Two curves are one if they differ by no
more than their errors. If the second variation of a curve is not positive, the search goes on from both sides
of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from connections._moved import keep_old_names
from connections.control.splines.descent import Quadratic, descend
from connections.control.splines.integrand import Effort, gap_at
from connections.control.splines.pieces import Pieces, in_calls

#: Times (m,) to points and their rates, (m, nq) each.
Start = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

FIRST, _FROM_START, _MOST = 16, 64, 256  # pieces: at first, at most in a start, at most
_LAST = 512  # pieces, if no curve is found with fewer: an arm that is thrown turns often
_RESOLVED = 0.1  # a curve that changes by more when its pieces are halved is none of the system's
_SAME = 4.0  # times the errors of two curves: they are one
_ASIDE = 0.3  # step off a curve that is no minimum, relative to its cost
_MOST_CURVES = 32


class StationaryCurve(NamedTuple):
    """A stationary curve.

    Parameters
    ----------
    found : the curve, and the cost near it.
    error : the estimated error of velocities and torques, root mean square, relative.
    lowest, lowest_error : the lowest eigenvalue of the second variation, and its change with the pieces.
    """

    found: Quadratic
    error: float
    lowest: float
    lowest_error: float


class CurveConditions(NamedTuple):
    """The conditions on a curve: its integrand, points at given times, and velocities at both ends.

    Parameters
    ----------
    effort : the integrand.
    times : (P,) of the given points.
    points : (P, nq).
    velocities : at the first and at the last time, (n,), or None if free.
    tolerance : of `Solution.error`.
    """

    effort: Effort
    times: np.ndarray
    points: np.ndarray
    velocities: tuple[np.ndarray | None, np.ndarray | None]
    tolerance: float

    def pieces(self, start: Start, count: int) -> Pieces:
        """The start in about `count` pieces, through the given points and with the given rates."""
        share = count * np.diff(self.times) / (self.times[-1] - self.times[0])
        shares = np.maximum(2, np.round(share)).astype(int)
        spans = zip(self.times[:-1], self.times[1:], shares, strict=True)
        times = np.concatenate(
            [*(np.linspace(a, b, m, endpoint=False) for a, b, m in spans), self.times[-1:]]
        )
        q, rate = start(times)
        place, frame = np.concatenate([[0], np.cumsum(shares)]), self.effort.system.frame
        held = np.zeros((len(times), 2), dtype=bool)
        held[place, 0] = True
        for k, point in zip(place, self.points, strict=True):  # of q and -q, the one that the start reaches
            q[k] = frame.align_at(jnp.asarray(point), jnp.asarray(q[k]))
        for k, velocity in zip((0, -1), self.velocities, strict=True):
            if velocity is not None:
                rate[k], held[k, 1] = np.asarray(frame.matrix(q[k])) @ velocity, True
        return Pieces.through(self.effort, times, q, rate, np.zeros((len(times) - 1, 2, q.shape[1])), held)


def solutions(task: CurveConditions, starts: list[Start]) -> tuple[list[StationaryCurve], list[str]]:
    """Different stationary curves, the least cost first; and why starts led to none.

    If all starts lead to none, those go on to shorter pieces whose curves lack nothing but accuracy.
    """
    found: list[StationaryCurve] = []
    failed: list[str] = []
    waiting, unresolved = list(starts), list[tuple[str, Quadratic]]()
    while (waiting or (unresolved and not found)) and len(found) < _MOST_CURVES:
        first = bool(waiting)
        if first:
            attempt = _resolved(task, waiting.pop(0))
        else:
            why, last = unresolved.pop(0)
            failed.remove(why)
            attempt, _ = _refined(task, last, 2 * _MOST, _LAST)
        solution = attempt.solution
        if solution is None:
            failed.append(attempt.why)
            if first and attempt.last is not None:
                unresolved.append((attempt.why, attempt.last))
        elif not any(_is_one(task.effort, solution, other) for other in found):
            found.append(solution)
            if solution.lowest < -solution.lowest_error:
                waiting += _beside(task.effort, solution)
    return sorted(found, key=lambda solution: solution.found.cost), failed


# --- private -----------------------------------------------------------------------------------------------


class Attempt(NamedTuple):
    """A stationary curve, or None and why there is none; the last curve, if all that it lacks is accuracy."""

    solution: StationaryCurve | None
    why: str
    last: Quadratic | None = None


def _resolved(task: CurveConditions, start: Start) -> Attempt:
    """The stationary curve near a start, on pieces that are short enough."""
    count, attempt = FIRST, Attempt(None, "")
    while count <= _FROM_START:
        coarse, why = _descended(task.effort, task.pieces(start, count))
        count *= 2
        attempt = Attempt(None, why)
        if coarse is not None:
            attempt, count = _refined(task, coarse, count, _MOST)
            if attempt.solution is not None:
                break
    return attempt


def _refined(task: CurveConditions, coarse: Quadratic, count: int, most: int) -> tuple[Attempt, int]:
    """The curve in `count` pieces, twice as many as `coarse` has, and so on up to `most`; and that number."""
    effort, why = task.effort, ""
    while count <= most:
        fine, why = _descended(effort, coarse.pieces.halved(effort))
        if fine is None:
            return Attempt(None, why), count
        gap = _gap(effort, coarse, fine)
        why = f"its error is {gap / 15.0:.1e} with {len(fine.pieces.lengths)} pieces"
        if gap > _RESOLVED:
            return Attempt(None, why), count
        if gap / 15.0 <= task.tolerance:
            lowest, before = fine.lowest[0], coarse.lowest[0]
            return Attempt(StationaryCurve(fine, gap / 15.0, lowest, abs(lowest - before)), ""), count
        coarse, count = fine, 2 * count
    return Attempt(None, why, coarse), count


def _descended(effort: Effort, start: Pieces) -> tuple[Quadratic | None, str]:
    try:
        return descend(effort, start)
    except np.linalg.LinAlgError:
        return None, "its second variation is singular"


def _gap(effort: Effort, a: Quadratic, b: Quadratic) -> float:
    """The root mean square of the differences in velocity, over the duration, and in torque; relative."""
    times, weights = a.pieces.gauss_times()
    q, v, _, tau = a.pieces.instants(effort, times)
    _, w, _, other = b.pieces.instants(effort, times)
    (square,) = in_calls(gap_at, effort, q, (v - w) / (times[-1] - times[0]), tau - other)
    return float(np.sqrt(weights @ square / (2.0 * a.scale))) if a.scale > 0.0 else 0.0


def _is_one(effort: Effort, a: StationaryCurve, b: StationaryCurve) -> bool:
    """Whether two curves differ by no more than their errors: curves from one point with one velocity."""
    errors = a.error + b.error + np.sqrt(np.finfo(float).eps)
    return bool(_gap(effort, a.found, b.found) <= _SAME * errors)


def _beside(effort: Effort, solution: StationaryCurve) -> list[Start]:
    """The curves on both sides of one that is no minimum, along the lowest eigenvector."""
    size = _ASIDE * np.sqrt(2.0 * solution.found.scale)
    sides = (solution.found.moved(effort, sign * size * solution.found.lowest[1]) for sign in (1.0, -1.0))
    return [partial(side.pieces.points, effort) for side in sides]


keep_old_names(__name__)
