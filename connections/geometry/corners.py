"""Corners and rests of curves through samples: where one spline must not run through.

On each side of a sample, Newton's formula through the nearest samples of that side continues the curve, and
its last terms say how well: the error e. At the sample t_i a component has a corner if

    |slope of the right side - slope of the left side| > 64 (e_left + e_right).

Both numbers have the same unit, so units do not matter. Of a smooth curve by samples h apart, the left number
is O(h^5), and e is O(h^3); at a corner, the left number is the jump. So with h small enough a smooth curve
has no corners, and a corner at a sample is found. Noise makes both numbers large.

Between two samples both sides are continued over the interval. At a corner their difference is linear there,
at a jump it is constant; a kink of a higher derivative makes it neither, and is not looked for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

_CLEAR = 64.0  # so many errors of both sides are no accident
_SIZES = 6, 4  # samples of a side: fewer if others are near an end, or another corner
_ROUND_OFF = 64.0 * np.finfo(np.float64).eps  # of sums of samples, relative to the largest
_SAME = 4.0 * np.finfo(np.float64).eps  # relative to their size, the largest distance of samples that agree


class Breaks(NamedTuple):
    """Where curves through samples are not smooth.

    Parameters
    ----------
    corners : (..., S) samples at which the slope jumps, also to or from a rest.
    between : (..., S - 1) intervals in which the slope or the point jumps, at none of their ends.
    rests : (..., S) first and last samples of three or more that are the same point.
    """

    corners: Any
    between: Any
    rests: Any


def breaks(t: Any, q: Any, numpy: Any = np) -> Breaks:
    """The places where curves are not smooth, as far as samples show them.

    Parameters
    ----------
    t : (S,) increasing.
    q : (..., S, nq) in the ambient coordinates, each in its representative next to the one before.
    numpy : NumPy, or a module with the same functions.
    """
    still = resting(q, numpy)
    noise = _ROUND_OFF * numpy.max(numpy.abs(q), axis=-2, keepdims=True)
    corners, between = numpy.zeros(q.shape[:-1], dtype=bool), numpy.zeros(still.shape, dtype=bool)
    for size in _SIZES:
        if len(t) <= size:
            continue
        left = _left_side(t, q, still, size, numpy)
        mirrored = _left_side(-t[::-1], q[..., ::-1, :], still[..., ::-1], size, numpy)
        right = _Side(*(array[..., ::-1, :] for array in mirrored))
        right = right._replace(slope=-right.slope, next_slope=-right.next_slope)
        corners = corners | _turns(t, left, right, noise, numpy)
        corners = corners | _stops(q, still, left, right, noise, numpy)
        between = between | _turns_between(t, q, left, right, noise, numpy)
    beside = corners[..., 1:] | corners[..., :-1] | still
    return Breaks(corners, between & ~beside, _ends_of_rests(still, numpy))


def resting(q: Any, numpy: Any = np) -> Any:
    """(..., S - 1): whether both ends of an interval are the same point."""
    size = numpy.maximum(numpy.abs(q[..., 1:, :]), numpy.abs(q[..., :-1, :]))
    return numpy.all(numpy.abs(q[..., 1:, :] - q[..., :-1, :]) <= _SAME * size, axis=-1)


# --- private -----------------------------------------------------------------------------------------------


class _Side(NamedTuple):
    """Curves continued from samples on one side of each sample, (..., S, nq) each; errors may be infinite.

    "Next" is at the next sample on the other side.
    """

    slope: Any
    slope_error: Any
    next_point: Any
    next_point_error: Any
    next_slope: Any
    next_slope_error: Any


def _left_side(t: Any, q: Any, still: Any, size: int, numpy: Any) -> _Side:
    """Newton's formula through each sample and the size - 1 before it, with divided differences."""
    count, first = len(t), size - 1
    differences = [q]
    for m in range(1, size):
        last = differences[-1]
        differences.append((last[..., 1:, :] - last[..., :-1, :]) / (t[m:] - t[:-m])[:, None])
    own = [f[..., first - m : count - m, :] for m, f in enumerate(differences)]
    before = differences[size - 2][..., : count - first, :]  # of the next to last order, one sample earlier
    nodes = [t[first - m : count - m] for m in range(size)]
    at = numpy.stack([nodes[0], numpy.concatenate([t[size:], 2.0 * t[-1:] - t[-2:-1]])])  # here, and next
    at = at.reshape(2, *(1,) * (q.ndim - 2), -1, 1)
    product, rate, errors = numpy.ones_like(at), numpy.zeros_like(at), []
    point, slope = own[0] * product, own[0] * rate
    for m in range(1, size):
        apart = at - nodes[m - 1][:, None]
        product, rate = product * apart, rate * apart + product
        point, slope = point + own[m] * product, slope + own[m] * rate
        if m >= size - 2:
            largest = numpy.abs(own[m])
            if m == size - 2:
                largest = numpy.maximum(largest, numpy.abs(before))
            errors.append([largest * numpy.abs(weight) for weight in (product, rate)])
    point_error, slope_error = (numpy.maximum(*of) for of in zip(*errors, strict=True))
    resting = (still[..., first - 1 :] & still[..., first - 2 : -1])[..., None]
    known = slope[0], slope_error[0], point[1], point_error[1], slope[1], slope_error[1]
    side = numpy.where(resting, 0.0, numpy.stack(known))
    missing = numpy.array([0.0, numpy.inf] * 3).reshape(6, *(1,) * q.ndim) + 0.0 * q[..., :first, :]
    side = _Side(*numpy.concatenate([missing, side], axis=-2))
    rest = numpy.concatenate([missing[0], numpy.where(resting, q[..., first:, :], 0.0)], axis=-2)
    return side._replace(next_point=side.next_point + rest)


def _turns(t: Any, left: _Side, right: _Side, noise: Any, numpy: Any) -> Any:
    """(..., S): whether the slope jumps at a sample."""
    h = t[1:] - t[:-1]
    shorter = numpy.minimum(numpy.concatenate([h[:1], h]), numpy.concatenate([h, h[-1:]]))[:, None]
    jump = numpy.abs(right.slope - left.slope)
    return numpy.any(jump > _CLEAR * (left.slope_error + right.slope_error) + noise / shorter, axis=-1)


def _stops(q: Any, still: Any, left: _Side, right: _Side, noise: Any, numpy: Any) -> Any:
    """(..., S): whether a sample is one of two that are the same point, and one side would have gone on."""
    goes_on = numpy.abs(left.next_point[..., :-1, :] - q[..., 1:, :]) > (
        _CLEAR * left.next_point_error[..., :-1, :] + noise
    )
    came = numpy.abs(right.next_point[..., 1:, :] - q[..., :-1, :]) > (
        _CLEAR * right.next_point_error[..., 1:, :] + noise
    )
    pair = still & ~_in_long_rests(still, numpy) & numpy.any(goes_on | came, axis=-1)
    return _ends_of_intervals(pair, numpy)


def _turns_between(t: Any, q: Any, left: _Side, right: _Side, noise: Any, numpy: Any) -> Any:
    """(..., S - 1): whether the sides differ by a linear or constant function in an interval."""
    h = (t[1:] - t[:-1])[:, None]
    before, after = slice(None, -1), slice(1, None)  # the samples at the ends of an interval
    d0, d1 = (
        right.next_point[..., after, :] - q[..., before, :],
        q[..., after, :] - left.next_point[..., before, :],
    )
    s0 = right.next_slope[..., after, :] - left.slope[..., before, :]
    s1 = right.slope[..., after, :] - left.next_slope[..., before, :]
    mean = (d1 - d0) / h
    error = (right.next_point_error[..., after, :] + left.next_point_error[..., before, :]) / h
    error = error + right.next_slope_error[..., after, :] + left.next_slope_error[..., before, :]
    least = _CLEAR * error + noise / h
    corner = (numpy.abs(mean) > least) & (numpy.abs(s0 - mean) + numpy.abs(s1 - mean) < numpy.abs(mean))
    height = numpy.minimum(numpy.abs(d0), numpy.abs(d1)) / h
    jump = (height > least) & (numpy.maximum(numpy.abs(s0), numpy.abs(s1)) < height)
    return numpy.any(corner | jump, axis=-1)


def _ends_of_rests(still: Any, numpy: Any) -> Any:
    """(..., S): whether a sample is the first or the last of three or more that are the same point."""
    long, room = _in_long_rests(still, numpy), [(0, 0)] * (still.ndim - 1)
    return numpy.pad(long, [*room, (1, 0)]) ^ numpy.pad(long, [*room, (0, 1)])


def _in_long_rests(still: Any, numpy: Any) -> Any:
    """(..., S - 1): whether an interval and a neighbour of it are at rest."""
    longer, room = still[..., 1:] & still[..., :-1], [(0, 0)] * (still.ndim - 1)
    return numpy.pad(longer, [*room, (1, 0)]) | numpy.pad(longer, [*room, (0, 1)])


def _ends_of_intervals(intervals: Any, numpy: Any) -> Any:
    """(..., S): whether a sample is an end of one of these intervals (..., S - 1)."""
    room = [(0, 0)] * (intervals.ndim - 1)
    return numpy.pad(intervals, [*room, (1, 0)]) | numpy.pad(intervals, [*room, (0, 1)])
