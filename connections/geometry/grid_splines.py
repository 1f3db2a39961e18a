"""Splines of degree 5 along an axis of samples: through all of them, or with fewer pieces by least squares.

Between samples x_1 < ... < x_N, a spline through all of them has all of them as knots, and at each end the
first two derivatives of the polynomial of degree 8 through the nine samples there. So errors at the border
are those of the one-sided polynomial, O(h^7) of second derivatives, where nine samples resolve the metric.

Noise of samples is removed by least squares with fewer coefficients, which, unlike a penalty of roughness,
says nothing about derivatives at the border. M coefficients are a polynomial of degree M - 1, or, from M = 6
on, a spline with M - 5 pieces that have equally many samples. How many there are along each axis minimizes

    mean(r^2) / (1 - 1.4 t)^2,   or, for noise of a known standard deviation s,   mean(r^2) + 4 s^2 t,

with the residuals r and t = (M_1 ... M_n) / (N_1 ... N_n). Source: P. Craven, G. Wahba, Smoothing noisy data
with spline functions, Numer. Math. 31 (1979); Y.-J. Kim, C. Gu, Smoothing spline Gaussian regression, J. R.
Stat. Soc. B 66 (2004), for the factor 1.4, without which some choices follow the noise; C. L. Mallows,
Some comments on C_p, Technometrics 15 (1973), whose factor is 2: it is doubled here for the same reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

DEGREE = 5
_END_DEGREE = 8  # of the polynomials that give derivatives at both ends
_STEEPEST = 400.0  # their largest sum of weights, in units of the first interval; 358 for equal intervals
_COST, _COST_OF_KNOWN_NOISE = 1.4, 4.0  # of a coefficient
_SWEEPS = 40  # over the axes, to choose numbers of coefficients
_NEAR, _MANY = 4, 20  # so many more and less are tried at once; many candidates
_NEVER = np.finfo(np.float64).max  # the coordinate at which unused pieces begin


class Along(NamedTuple):
    """The splines along an axis of N samples, in P pieces, with P + 5 coefficients.

    Parameters
    ----------
    begins, lengths : (P,) where pieces begin, and how long they are.
    pieces : (P, 6, 6) coefficients by rising powers of u, from 0 to 1 over a piece, of the B-splines that are
        not zero there; those of piece p are number p, ..., p + 5.
    operator : (P + 5, N) the B-splines' coefficients of a unit at each sample.
    """

    begins: np.ndarray
    lengths: np.ndarray
    pieces: np.ndarray
    operator: np.ndarray


def interpolating(t: np.ndarray) -> Along:
    """The splines through samples at t (N,)."""
    from scipy.interpolate import make_interp_spline

    unit, ends = np.eye(len(t)), []
    for step in (1, -1):
        weights = _end_weights(t[::step])
        ends.append([(order, weights[order - 1, ::step]) for order in (1, 2)])
    return _along(t, make_interp_spline(t, unit, k=DEGREE, bc_type=tuple(ends)).c)


def fitted(t: np.ndarray, count: int) -> Along:
    """The splines with `count` coefficients, by least squares of samples at t (N,)."""
    from scipy.interpolate import BSpline

    knots = _quantiles(t, max(count - DEGREE, 1))
    whole = np.pad(knots, DEGREE, mode="edge")
    if count > DEGREE:
        return _along(knots, np.linalg.pinv(BSpline.design_matrix(t, whole, DEGREE).toarray()))
    # A polynomial of lower degree, as a spline in one piece, from its values at as many points.
    places = np.cos(np.linspace(0.0, np.pi, DEGREE + 1))[::-1]
    x = 2.0 * (t - t[0]) / (t[-1] - t[0]) - 1.0
    values = np.polynomial.legendre.legvander(places, count - 1) @ _least_squares(x, count)
    at = np.clip(t[0] + 0.5 * (places + 1.0) * (t[-1] - t[0]), t[0], t[-1])
    return _along(knots, np.linalg.solve(BSpline.design_matrix(at, whole, DEGREE).toarray(), values))


def periodic(t: np.ndarray, period: float, count: int) -> Along:
    """The splines with `count` pieces and coefficients in a period, by least squares of samples at t (N,)."""
    knots, closed, values = _closed(t, period, count)
    return _along(knots, closed @ np.linalg.pinv(values))


def counts_of(t: np.ndarray, distance: float, period: float | None = None) -> int:
    """The number of coefficients of pieces about as long as `distance`; N if samples are as far apart."""
    if period is not None:
        return len(t) if distance * len(t) <= period else max(round(period / distance), 1)
    pieces = (t[-1] - t[0]) / distance if distance > 0.0 else np.inf
    return len(t) if pieces > len(t) - DEGREE - 1 else max(round(pieces), 1) + DEGREE


def of_counts(
    axes: Sequence[np.ndarray], counts: Sequence[int], periods: Sequence[float | None]
) -> list[Along]:
    """The splines along each axis: through all samples where there are as many coefficients."""
    found = []
    for unit, t, period, count in zip(*_in_units(axes, periods), counts, strict=True):
        if period is not None:
            along = periodic(t, period, count)
        else:
            along = fitted(t, count) if count < len(t) else interpolating(t)
        found.append(along._replace(begins=along.begins * unit, lengths=along.lengths * unit))
    return found


def chosen_counts(
    axes: Sequence[np.ndarray],
    periods: Sequence[float | None],
    samples: np.ndarray,
    whitened: Callable[[np.ndarray], np.ndarray],
    noise: float | None,
) -> tuple[int, ...]:
    """The numbers of coefficients along each axis, by generalized cross-validation, or for known noise.

    Parameters
    ----------
    axes : n arrays (N_i,). periods : n of them, or None. samples : (N_1, ..., N_n, k).
    whitened : residuals of the samples -> numbers of one standard deviation.
    noise : their standard deviation, or None if it is not known.
    """
    sizes = [len(t) for t in axes]
    _, axes, periods = _in_units(axes, periods)
    candidates = [_candidates(size, noise) for size in sizes]
    bases: dict[tuple[int, int], np.ndarray] = {}
    known: dict[tuple[int, ...], float] = {}

    def smoothed(counts: tuple[int, ...]) -> np.ndarray:
        smooth = samples
        for pair in enumerate(counts):
            if pair not in bases:
                bases[pair] = _basis(axes[pair[0]], pair[1], periods[pair[0]])
            smooth = applied(bases[pair].T, smooth, pair[0])
        for pair in enumerate(counts):
            smooth = applied(bases[pair], smooth, pair[0])
        return smooth

    def cost(counts: tuple[int, ...]) -> float:
        if counts not in known:
            share = math.prod(counts) / math.prod(sizes)
            if noise is None and _COST * share >= 1.0:
                return np.inf
            size = float(np.mean(whitened(samples - smoothed(counts)) ** 2))
            if noise is None:
                known[counts] = size / (1.0 - _COST * share) ** 2
            else:
                known[counts] = size + _COST_OF_KNOWN_NOISE * noise**2 * share
        return known[counts]

    def descended(places: tuple[int, ...]) -> tuple[int, ...]:
        """The numbers of coefficients that are better than those nearby along each axis."""
        for _ in range(_SWEEPS):
            before = places
            for axis, base in enumerate(candidates):
                near = range(max(places[axis] - _NEAR, 0), min(places[axis] + _NEAR + 1, len(base)))
                tried = [(*places[:axis], place, *places[axis + 1 :]) for place in near]
                places = min(tried, key=lambda each: cost(counts_at(each)))
            if places == before:
                break
        return counts_at(places)

    def counts_at(places: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(base[place] for base, place in zip(candidates, places, strict=True))

    # From a few coefficients, and from many, because there may be several minima.
    starts = [tuple(min(len(base) - 1, most) for base in candidates) for most in (DEGREE, _MANY)]
    return min(map(descended, starts), key=cost)


def padded(along: Along) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Begins, lengths and pieces for as many pieces as `room` has."""
    more = room(len(along.begins)) - len(along.begins)
    return (
        np.pad(along.begins, (0, more), constant_values=_NEVER),
        np.pad(along.lengths, (0, more), constant_values=1.0),
        np.pad(along.pieces, [(0, more), (0, 0), (0, 0)]),
    )


def room(count: int) -> int:
    """The length to which `count` numbers are padded for compilation: 8, 12, 16, 24, 32, 48, ..."""
    size = 8
    while size < count:
        size += size // 2 if size & (size - 1) == 0 else size // 3
    return size


def applied(matrix: Any, array: Any, axis: int, by: Any = np) -> Any:
    """`matrix` (m, N) applied along an axis of N entries."""
    return by.moveaxis(by.tensordot(matrix, array, (1, axis)), 0, axis)


# --- private -----------------------------------------------------------------------------------------------


def _in_units(axes: Sequence[np.ndarray], periods: Sequence[float | None]) -> tuple[list[Any], ...]:
    """Powers of two, and axes and periods in these units, in which the fifth powers of lengths are floats."""
    units = [2.0 ** np.frexp(t[-1] - t[0])[1] for t in axes]
    scaled = [t / unit for t, unit in zip(axes, units, strict=True)]
    turns = [None if turn is None else turn / unit for turn, unit in zip(periods, units, strict=True)]
    return units, scaled, turns


def _along(knots: np.ndarray, operator: np.ndarray) -> Along:
    """The splines of B-splines' coefficients, for breakpoints (P + 1,)."""
    from scipy.interpolate import BSpline

    lengths, numbers = np.diff(knots), np.arange(len(knots) - 1)[:, None] + np.arange(DEGREE + 1)
    each = BSpline(np.pad(knots, DEGREE, mode="edge"), np.eye(len(operator)), DEGREE)
    pieces = np.empty((len(lengths), DEGREE + 1, DEGREE + 1))
    for power in range(DEGREE + 1):
        derivatives = each.derivative(power)(knots[:-1]) if power else each(knots[:-1])
        scaled = derivatives * (lengths**power / math.factorial(power))[:, None]
        pieces[:, :, power] = np.take_along_axis(scaled, numbers, axis=1)
    return Along(knots[:-1], lengths, pieces, operator)


def _closed(t: np.ndarray, period: float, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Breakpoints (P + 1,), coefficients (P + 5, P) of periodic splines, and their values at t, (N, P)."""
    from scipy.interpolate import BSpline
    from scipy.linalg import null_space

    knots = _quantiles(np.append(t, t[0] + period), count)
    whole = np.pad(knots, DEGREE, mode="edge")
    each = BSpline(whole, np.eye(count + DEGREE), DEGREE)
    length = period / count
    jumps = [each(knots[[0, -1]])] + [
        each.derivative(order)(knots[[0, -1]]) * length**order for order in range(1, DEGREE)
    ]
    closed = null_space(np.array([end - begin for begin, end in jumps]))
    return knots, closed, BSpline.design_matrix(t, whole, DEGREE).toarray() @ closed


def _end_weights(t: np.ndarray) -> np.ndarray:
    """Weights (2, N) of the first and the second derivative at t[0] of the polynomial through samples there.

    Its degree is 8, or lower where intervals grow so much that it would oscillate.
    """
    from scipy.interpolate import KroghInterpolator

    weights, first = np.zeros((2, len(t))), t[1] - t[0]
    for degree in range(min(_END_DEGREE, len(t) - 1), 2, -1):
        count = degree + 1
        found = KroghInterpolator((t[:count] - t[0]) / first, np.eye(count)).derivatives(0.0, 3)[1:]
        if np.abs(found[1]).sum() <= _STEEPEST or degree == 3:
            weights[:, :count] = found / [[first], [first**2]]
            return weights
    raise AssertionError(f"{len(t)} samples")


def _quantiles(t: np.ndarray, pieces: int) -> np.ndarray:
    """Breakpoints (P + 1,) of pieces with equally many samples."""
    knots: np.ndarray = np.interp(np.linspace(0.0, len(t) - 1.0, pieces + 1), np.arange(len(t)), t)
    return knots


def _least_squares(x: np.ndarray, count: int) -> np.ndarray:
    """Coefficients of Legendre's polynomials, of a unit at each of x (N,), from -1 to 1; (count, N)."""
    return np.linalg.pinv(np.polynomial.legendre.legvander(x, count - 1))


def _candidates(size: int, noise: float | None) -> list[int]:
    """Numbers of coefficients that are tried: all up to 12, then about seven for each power of two."""
    counts = [count for count in range(1, size) if count <= 12 or count % (count // 6) == 0]
    return counts if noise is None else [*counts, size]


def _basis(t: np.ndarray, count: int, period: float | None) -> np.ndarray:
    """Orthonormal columns (N, count) that span the values of the splines at t (N,)."""
    from scipy.interpolate import BSpline

    if count == len(t):
        return np.eye(count)
    if period is not None:
        columns = _closed(t, period, count)[2]
    elif count <= DEGREE:
        columns = np.polynomial.legendre.legvander(2.0 * (t - t[0]) / (t[-1] - t[0]) - 1.0, count - 1)
    else:
        knots = np.pad(_quantiles(t, count - DEGREE), DEGREE, mode="edge")
        columns = BSpline.design_matrix(t, knots, DEGREE).toarray()
    return np.linalg.qr(columns)[0]
