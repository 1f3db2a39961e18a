"""Roots and extrema of functions of one number, between two places, by methods that cannot fail.

Both shrink a bracket, and at least halve it in a bounded number of evaluations, whatever the function is. So
a root of any multiplicity, a kink or a jump takes longer than a simple root, and is found. Source: I. F. D.
Oliveira, R. H. C. Takahashi, An enhancement of the bisection method average performance preserving minmax
optimality, ACM Transactions on Mathematical Software 47 (2020), 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

_INWARDS = 0.2  # the paper's kappa_1, over the first bracket; its kappa_2 is two
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_SMALL = 1e-4  # of the larger value at the ends of a bracket: whether a smaller one is round-off is asked


def sign(x: float) -> int:
    """The sign of a number, -1, 0 or 1; 0 of NaN."""
    return int(x > 0.0) - int(x < 0.0)


def root_between(
    value: Callable[[float], float],
    ends: tuple[float, float],
    values: tuple[float, float],
    resolution: Callable[[float], float],
) -> float:
    """The place where a function loses the sign that it has at the first end.

    Of several such places it is one; if the function is zero from there on, it is the first one.

    Parameters
    ----------
    value : the function.
    ends, values : (a, b) with a < b, and the values there; that at b does not have the sign of that at a.
    resolution : x -> the distance of neighbouring places that are told apart, near x.
    """
    (lo, hi), (at_lo, at_hi) = ends, values
    side, apart = sign(at_lo), math.inf
    while hi - lo > resolution(hi):
        if hi - lo <= apart:  # begin, or begin again, where numbers lie closer
            apart, first = resolution(hi), hi - lo
            radius = apart * 2.0 ** math.ceil(math.log2(first / apart))  # halved in each evaluation
        x = _estimate((lo, hi), (at_lo, at_hi), first, radius - 0.5 * (hi - lo))
        if not lo < x < hi:
            x = 0.5 * (lo + hi)
        radius *= 0.5
        at = value(x)
        if at == 0.0 and sign(value(max(lo, x - apart))) == side:
            return x
        if sign(at) == side:
            lo, at_lo = x, at
        else:
            hi, at_hi = x, at
    return hi if abs(at_hi) <= abs(at_lo) else lo


def _estimate(ends: tuple[float, float], values: tuple[float, float], first: float, radius: float) -> float:
    """The secant's root, moved towards the middle, and at most `radius` away from it."""
    (lo, hi), (at_lo, at_hi) = ends, values
    middle = 0.5 * (lo + hi)
    share = at_lo / (at_lo - at_hi)
    secant = lo + (hi - lo) * (share if 0.0 <= share <= 1.0 else 0.5)
    towards = math.copysign(1.0, middle - secant)
    moved = _INWARDS * (hi - lo) ** 2 / first
    x = secant + towards * moved if moved <= abs(middle - secant) else middle
    return x if abs(x - middle) <= radius else middle - towards * max(radius, 0.0)


class BracketSample(NamedTuple):
    """A function at a place: its value and its rate."""

    x: float
    value: float
    rate: float


def meeting(a: BracketSample, b: BracketSample) -> tuple[float, float]:
    """Where two tangents meet, and at which value; NaN if they are parallel.

    A convex function that falls at a and rises at b is nowhere below this value between them.
    """
    bend = b.rate - a.rate
    if bend == 0.0:
        return math.nan, math.nan
    x = (a.value - a.rate * a.x - b.value + b.rate * b.x) / bend
    return x, a.value + a.rate * (x - a.x)


def stays_above(a: BracketSample, b: BracketSample) -> bool:
    """Whether a function that is positive at a and b, where it falls and rises, is positive between.

    That is proved if it is convex: it is above its tangents, which meet above half of the lesser value.
    """
    if a.rate == 0.0 == b.rate:
        return True
    x, value = meeting(a, b)
    return a.x <= x <= b.x and value >= 0.5 * min(a.value, b.value)


def lowest_between(
    sample: Callable[[float, float], BracketSample],
    a: BracketSample,
    b: BracketSample,
    error: Callable[[float], float],
    near: float,
    resolution: Callable[[float], float],
    lost: Callable[[float, float], bool],
) -> BracketSample | None:
    """The place between a and b where a function of one minimum is below zero, or where it touches zero.

    None if it stays above. The secant of the rates, the meeting of the tangents, and the middle are tried in
    turn, so that three evaluations take a quarter off the bracket, or more. Where round-off hides rates,
    values are compared.

    Parameters
    ----------
    sample : (x, back) -> the function at x, with its mean rate from x - back to x.
    a, b : where it is positive and falls, and where it is positive and rises.
    error : x -> the round-off of the function at x: a value that is not larger is zero.
    near : how far back rates are looked for; in shorter brackets a quarter of them, so that kinks are found.
    resolution : as of `root_between`.
    lost : (x, change) -> whether so small a change of the function near x is round-off.
    """
    touch, turn, steepest = None, 0, max(abs(a.rate), abs(b.rate))
    small, compared = _SMALL * max(a.value, b.value), False
    while b.x - a.x > (near if touch else resolution(b.x)):
        if min(a.value, b.value) > 4.0 * near * steepest and stays_above(a, b):
            return None
        back = min(near, 0.25 * (b.x - a.x))
        x = (a.x - a.rate * (b.x - a.x) / (b.rate - a.rate or math.nan), meeting(a, b)[0], math.nan)[turn]
        turn = (turn + 1) % 3
        if not a.x + back < x < b.x:
            x = 0.5 * (a.x + b.x)
        here = sample(x, back)
        if here.value <= small and abs(here.value) <= error(here.x):
            touch = here
        elif here.value < 0.0:
            return here
        if not (touch or compared) and lost(x, abs(here.rate) * back):
            low, compared = _lowest_by_values(sample, (a.x, b.x), near), True
            if low.value < 0.0 or low.value <= error(low.x):
                return low
        if here.rate < 0.0:  # the minimum may be between the two places of this rate
            a = BracketSample(x - back, here.value - back * here.rate, here.rate)
        else:
            b = here
    return touch


def _lowest_by_values(
    sample: Callable[[float, float], BracketSample], ends: tuple[float, float], near: float
) -> BracketSample:
    """The lowest of the places that golden sections try, where rates are lost in round-off, as at x^4.

    Values are compared instead: they are flat only where they are round-off themselves.
    """
    (lo, hi), tried = ends, []

    def at(x: float) -> BracketSample:
        tried.append(sample(x, near))
        return tried[-1]

    left, right = (at(lo + share * (hi - lo)) for share in (1.0 - _GOLDEN, _GOLDEN))
    while hi - lo > near:
        if left.value < right.value:
            hi, right = right.x, left
            left = at(lo + (1.0 - _GOLDEN) * (hi - lo))
        else:
            lo, left = left.x, right
            right = at(lo + _GOLDEN * (hi - lo))
    return min(tried, key=lambda place: place.value)
