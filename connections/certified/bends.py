"""Second derivatives of trigonometric polynomials from their values, and how far they bend at every posture.

A function of degree d <= 2 in an angle is given by its values at five equidistant angles, a polynomial of degree
2 by three, so that -d^2 f / dq_i^2 is a combination of values of f, exactly. Its supremum is found as that of f
itself, by boxes, and with bounds of fourth derivatives, entry by entry, by Bernstein's inequality
|h''| <= d^2 sup |h| for h of degree d. These may be crude: they enter with the fourth power of the width.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from connections.certified.boxes import Quantity, supremum
from connections.certified.postures import Postures

_SHIFTS = 2.0 * np.pi * np.arange(5) / 5.0
_WEIGHTS = 0.4 * (np.cos(_SHIFTS) + 4.0 * np.cos(2.0 * _SHIFTS))  # of -f'' from f at these shifts


def bent(function: Callable[[np.ndarray], np.ndarray], place: int, slides: bool) -> Callable:
    """q (P, nq) -> -d^2 f / dq_i^2 (P, ...), of f of degree at most 2 in the coordinate q[place].

    Parameters
    ----------
    function : q (P, nq) -> f (P, ...).
    slides : whether the coordinate is a length, in which f is a polynomial, not an angle.
    """
    shifts, weights = ((-1.0, 0.0, 1.0), (-1.0, 2.0, -1.0)) if slides else (_SHIFTS, _WEIGHTS)

    def bend(q: np.ndarray) -> np.ndarray:
        total = 0.0
        moved = np.array(q)
        for shift, weight in zip(shifts, weights, strict=True):
            moved[:, place] = q[:, place] + shift
            total = total + weight * function(moved)
        return np.asarray(total)

    return bend


def sharpened(
    quantity: Quantity, postures: Postures, bends: np.ndarray, degrees: np.ndarray, seconds: float
) -> Quantity:
    """The quantity with smaller bends, each the proved end of a supremum.

    Parameters
    ----------
    quantity : whose ``bends`` (m,) are those of the entries' bounds.
    bends : (m, ...) bounds of the second derivatives, entry by entry.
    degrees : (m, ...) of the entries in each coordinate, 0, 1 or 2.
    seconds : for each coordinate.
    """
    found = np.array(quantity.bends)
    order = np.argsort(-found)
    for i in order:
        if not found[i] or postures.slides[i]:
            continue
        fourth = np.minimum(degrees**2 * bends[i], degrees[i] ** 2 * bends)
        fourth[postures.slides] = (degrees[i] ** 2 * bends)[postures.slides]
        rest = dataclasses.replace(
            quantity,
            function=bent(quantity.function, int(postures.places[i]), bool(postures.slides[i])),
            bends=quantity.above(fourth, -np.inf),
            error=4.0 * quantity.error,
        )
        one = supremum(rest, postures, rtol=0.25, seconds=seconds, name="second derivatives")
        found[i] = min(found[i], max(0.0, one.upper))
    return dataclasses.replace(quantity, bends=found)
