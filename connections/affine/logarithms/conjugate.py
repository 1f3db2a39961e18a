"""Proof that a geodesic is free of conjugate points: d exp is invertible at every time, not only at samples.

Within a step the derivative J(t) of the geodesic's point in its initial velocity is a polynomial, and a
polynomial stays in the convex hull of its control points P_i. With the left inverse K of J at the middle,

    ||K P_i - 1|| < 1 for all i    proves that    J(t) is injective during the whole piece,

in every frame and in all units. A piece without proof is halved. A piece that stays without proof has a
conjugate point, of odd or even multiplicity, or is too close to one to decide. At the beginning, where J
vanishes, the proof is about J(t) / t. At the end it covers a further `MARGIN` of the geodesic's length.
K is computed in units in which the rows of J, which belong to the coordinates, are of one size.
Source: convex hulls of Bernstein's polynomials; Neumann's series.
"""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np

from connections.affine.logarithms.shooting import DEGREE, AcceptedSteps

MARGIN = 1e-6  # of the geodesic's length: so close to a conjugate point, the logarithm has no correct digits
SHORTEST = 1e-8  # of the geodesic's length: a shorter piece is not halved
_CLOSE = 0.95  # the bound used in place of 1, because of round-off
_MOST_PIECES = 2_000  # of one geodesic


def free_of_conjugate_points(pieces: AcceptedSteps, count: int, margin: float = MARGIN) -> np.ndarray:
    """Which of `count` geodesics, given by their steps from 0 to 1, are proven free of them; (count,).

    Parameters
    ----------
    margin : how much longer they are followed than to time 1; shorter, if it is negative.
    """
    (P, h), row = _longer(pieces, count, margin), pieces.row
    proven = np.ones(count, dtype=bool)
    while True:
        left, right = _split(P, np.full(len(P), 0.5))
        open_ = ~_injective(P, left[:, -1])
        # In shorter pieces the polynomial's own error decides, which takes even multiplicities away.
        proven[row[open_ & (h < SHORTEST)]] = False
        proven[np.bincount(row[open_], minlength=count) > _MOST_PIECES] = False
        open_ &= proven[row]
        if not open_.any():
            return proven
        row, h = np.repeat(row[open_], 2), np.repeat(h[open_] / 2.0, 2)
        P = np.stack([left[open_], right[open_]], axis=1).reshape(-1, *P.shape[1:])


def unproven_intervals(pieces: AcceptedSteps) -> np.ndarray:
    """(k, 2) intervals outside of which one geodesic, given by its steps, has no conjugate points.

    Pieces without proof are halved to the length `SHORTEST`, or until there are `_MOST_PIECES`; those that
    touch are joined. The geodesic is followed a little longer, so that a conjugate point at 1 lies inside of
    an interval.
    """
    (P, h), t = _longer(pieces, 1, 4.0 * SHORTEST), pieces.t
    found = [np.zeros((0, 2))]
    while len(P):
        left, right = _split(P, np.full(len(P), 0.5))
        open_ = ~_injective(P, left[:, -1])
        short = open_ & ((h < SHORTEST) | (np.count_nonzero(open_) > _MOST_PIECES))
        found.append(np.stack([t, t + h], axis=1)[short])
        open_ &= ~short
        P, h = np.stack([left[open_], right[open_]], axis=1).reshape(-1, *P.shape[1:]), h[open_] / 2.0
        t, h = np.stack([t[open_], t[open_] + h], axis=1).ravel(), np.repeat(h, 2)
    begin, end = np.unique(np.concatenate(found), axis=0).T
    apart = begin[1:] > end[:-1] + SHORTEST  # where a joined interval ends and the next one begins
    whole = np.ones(min(len(begin), 1), dtype=bool)
    return np.stack([begin[np.append(whole, apart)], end[np.append(apart, whole)]], axis=1)


def _longer(pieces: AcceptedSteps, count: int, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Control points (s, 8, nq, n) of J, or of J(t) / t in the first step, and the lengths of the steps (s,).

    The rows of J are brought to one size; the last steps are extended by `margin`.
    """
    P, row, h = _control_points(pieces.spread), pieces.row, pieces.h.copy()
    P = P / _sizes_of_rows(P, row, count)[row][:, None, :, None]
    first, last = pieces.t == 0.0, row != np.append(row[1:], -1)[: len(row)]
    P[first] = _over_time(P[first])
    P[last] = _split(P[last], 1.0 + margin / h[last])[0]
    h[last] += margin
    return P, h


def _injective(P: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """Whether the control points P (s, 8, nq, n) prove injectivity, with K from `middle` (s, nq, n)."""
    good = np.isfinite(P).all(axis=(1, 2, 3))
    inverse = np.linalg.pinv(np.where(good[:, None, None], middle, 0.0))
    gap = inverse[:, None] @ np.where(good[:, None, None, None], P, 0.0) - np.eye(P.shape[-1])
    proven: np.ndarray = good & (np.linalg.norm(gap, axis=(2, 3)) < _CLOSE).all(axis=1)
    return proven


def _sizes_of_rows(P: np.ndarray, row: np.ndarray, count: int) -> np.ndarray:
    """The largest entry of each row of J on a whole geodesic, (count, nq); one where all vanish."""
    sizes = np.zeros((count, P.shape[2]))
    np.maximum.at(sizes, row, np.nan_to_num(np.abs(P).max(axis=(1, 3))))
    return np.where(sizes > 0.0, sizes, 1.0)


def _split(P: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Control points on [0, x] and on [x, 1], (s, 8, ..), from those on [0, 1], by de Casteljau."""
    x = x[:, None, None, None]
    left, right = [P[:, 0]], [P[:, -1]]
    while P.shape[1] > 1:
        P = (1.0 - x) * P[:, :-1] + x * P[:, 1:]
        left.append(P[:, 0])
        right.append(P[:, -1])
    return np.stack(left, axis=1), np.stack(right[::-1], axis=1)


def _over_time(P: np.ndarray) -> np.ndarray:
    """Control points of J(x) / x, for J(0) = 0; of the same degree."""
    order = np.arange(DEGREE + 1).reshape(-1, 1, 1)
    lower = P[:, 1:] * DEGREE / order[1:]
    ends = np.pad(lower, ((0, 0), (1, 1), (0, 0), (0, 0)))
    points: np.ndarray = order / DEGREE * ends[:, :-1] + (1.0 - order / DEGREE) * ends[:, 1:]
    return points


def _control_points(dense: np.ndarray) -> np.ndarray:
    """Control points of y + x (F0 + (1 - x)(F1 + x (F2 + ..))) for x in [0, 1], dense = (y, F0, .., F6)."""
    points: np.ndarray = np.einsum("ij,sj...->si...", _basis_change(), dense)
    return points


@cache
def _basis_change() -> np.ndarray:
    x = np.linspace(0.0, 1.0, DEGREE + 1)
    columns, factor = [np.ones_like(x)], np.ones_like(x)
    for index in range(DEGREE):
        factor = factor * (x if index % 2 == 0 else 1.0 - x)
        columns.append(factor)
    order = np.arange(DEGREE + 1)
    bernstein = (
        np.array([comb(DEGREE, i) for i in order])
        * x[:, None] ** order
        * (1 - x[:, None]) ** (DEGREE - order)
    )
    return np.linalg.solve(bernstein, np.stack(columns, axis=1))
