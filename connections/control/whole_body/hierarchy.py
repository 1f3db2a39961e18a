"""Least squares by priorities, with linear bounds: the program behind the whole-body law.

    level by level:  minimize sum_t w_t |A_t y - b_t|^2  over what the levels before left open,

with E y = e and lower <= G y <= upper at every level. Without bounds the levels are solved by nullspaces, to
round-off; if the result keeps the bounds, it is the solution. Otherwise each level is a quadratic program,
solved by DAQP, an active-set method: of the points that are equally good for the tasks, it is the one closest
to the result without bounds.
Source: Escande, Mansard and Wieber, Hierarchical quadratic programming, 2014; Arnstrom, Bemporad and Axehill,
A dual active-set solver for embedded quadratic programming using recursive LDL' updates, 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dgeqp3, dorgqr, dposv, dtrtrs

from connections._distribution import how_to_install
from connections.checks import ConvergenceError

_RANK = 1e-9  # of rows of unit length: the least part that counts as a direction of its own
_CLOSENESS = 1e-8  # the weight of the distance from the result without bounds
_LARGE = 1e2  # of unknowns; DAQP's tolerances are absolute, so larger ones are scaled to this
_PROXIMAL = 1e-3  # weight of the step in DAQP's outer iterations, which end at the same point
_OPTIMAL, _INFEASIBLE = 1, -1  # exit flags of DAQP


class InfeasibleError(RuntimeError):
    """No torques keep the contacts within all bounds; the message names bounds that stand against it."""


class Level(NamedTuple):
    """Rows that are to be met as well as possible: A y = b."""

    A: np.ndarray  #: (m, n)
    b: np.ndarray  #: (m,)


class Split(NamedTuple):
    """Rows B (m, d) as Q R P^T of B^T: what they determine, and what they leave open."""

    Q: np.ndarray  #: (d, d), orthogonal
    R: np.ndarray  #: (min(d, m), m), upper trapezoidal
    pivots: np.ndarray  #: (m,)
    rank: int

    @property
    def open(self) -> np.ndarray:
        """(d, d - rank), an orthonormal basis of the vectors z with B z = 0."""
        return self.Q[:, self.rank :]

    def least_squares(self, r: np.ndarray) -> np.ndarray:
        """The shortest z (d,) that minimizes |B z - r|."""
        R, r, k = self.R[: self.rank], r[self.pivots], self.rank
        if k == 0:
            return np.zeros(len(self.Q))
        if k == len(r):
            x = dtrtrs(R, r, trans=1)[0]  # which reads the upper triangle only
        else:
            R = np.triu(R)
            x = dposv(R @ R.T, R @ r)[1]
        return np.asarray(self.Q[:, :k] @ x)


def split(B: np.ndarray, size: float | None = 1.0) -> Split:
    """The factorization of rows B (m, d), parts of rows that are `size` long; of the longest one if None."""
    m, d = B.shape
    if m == 0 or d == 0:
        return Split(np.eye(d), np.zeros((0, m)), np.arange(m), 0)
    qr, pivots, tau, _, _ = dgeqp3(B.T)
    k = min(m, d)
    rank = int(np.count_nonzero(np.abs(qr.diagonal()) > _RANK * (size or abs(qr[0, 0]))))
    square = np.zeros((d, d), order="F")
    square[:, :k] = qr[:, :k]
    Q = dorgqr(square, tau, overwrite_a=1)[0]
    return Split(Q, qr[:k], pivots - 1, rank)


def by_nullspaces(levels: Sequence[Level], y: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best y + Z z without bounds, and a basis of what the levels leave open."""
    for level in levels:
        if Z.shape[1] == 0:
            break
        parts = split(level.A @ Z)
        y = y + Z @ parts.least_squares(level.b - level.A @ y)
        Z = Z @ parts.open
    return y, Z


def by_programs(
    levels: Sequence[Level],
    G: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    guess: Sequence[np.ndarray] | None,
    y: np.ndarray,
    Z: np.ndarray,
) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """The best y + Z z within the bounds, close to y; multipliers of each level; None if there is none.

    Parameters
    ----------
    levels : in the order of their priorities.
    G, lower, upper : (k, n), (k,), (k,) bounds of G y.
    guess : the multipliers of a similar program, whose active bounds are tried first.
    y : (n,) the result without bounds.
    Z : (n, d) an orthonormal basis of the directions in which y may change.
    """
    scale = max(1.0, float(np.abs(y).max()) / _LARGE)
    y, lower, upper = y / scale, lower / scale, upper / scale
    levels = [Level(level.A, level.b / scale) for level in levels]
    z, N, multipliers = np.zeros(Z.shape[1]), np.eye(Z.shape[1]), list[np.ndarray]()
    G_z, at = G @ Z, G @ y
    for number, level in enumerate(levels or [Level(np.zeros((0, len(y))), np.zeros(0))]):
        A_z, G_n = level.A @ Z, np.ascontiguousarray(G_z @ N)
        B, now = A_z @ N, at + G_z @ z
        P = B.T @ B
        P.flat[:: len(P) + 1] += _CLOSENESS
        pull = B.T @ (level.b - level.A @ y - A_z @ z)
        room = upper - now, lower - now
        if number:  # what the levels before left is within the bounds, up to round-off
            room = np.maximum(room[0], 0.0), np.minimum(room[1], 0.0)
        active = guess[number] if guess is not None and number < len(guess) else None
        solved = _solved((P, _CLOSENESS * (N.T @ z) - pull, G_n, *room), active)
        if solved is not None:  # close to that result instead, so that closeness costs the level nothing
            solved = _solved((P, -_CLOSENESS * solved[0] - pull, G_n, *room), solved[1])
        if solved is None and number:  # zero keeps the bounds, so this is the solver's failure
            raise ConvergenceError("the whole-body program: DAQP calls a program infeasible that is not")
        if solved is None:
            return None
        z = z + N @ solved[0]
        multipliers.append(solved[1])
        if number + 1 < len(levels):
            N = N @ split(B).open
            if N.shape[1] == 0:
                break
    return scale * (y + Z @ z), multipliers


def _solved(
    program: tuple[np.ndarray, ...], guess: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """The least x P x / 2 + c x with lower <= G x <= upper, and its multipliers; None if there is none."""
    try:
        import daqp
    except ImportError as error:
        raise ImportError(
            f"whole-body control within bounds needs DAQP: {how_to_install('whole-body')}"
        ) from error
    flag = 0
    if guess is not None and len(guess) == len(program[2]):
        x, _, flag, info = daqp.solve(*program, dual_start=guess)
    if flag != _OPTIMAL:  # also after a guess that leads astray
        x, _, flag, info = daqp.solve(*program)
    if (
        flag != _OPTIMAL
    ):  # in directions that only closeness weighs, DAQP may take round-off for a contradiction
        x, _, flag, info = daqp.solve(*program, eps_prox=_PROXIMAL)
    if flag == _INFEASIBLE:
        return None
    if flag != _OPTIMAL:
        raise ConvergenceError(f"the whole-body program: DAQP ended with its flag {flag}")
    return np.array(x), np.array(info["lam"])
