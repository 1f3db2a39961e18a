"""Stationary curves near a given one: Newton's method, with steps that lower the cost.

The unknowns are the changes z of points, velocities and bumps of all pieces, in this order, so that the
Hessian A is banded. B is that of the integral of (|H D_t^2 eta|^2 + |D_eta tau|^2) / 2, |x|^2 = x^T W x,
which equals A in flat space without a potential, and is positive definite if two points are given. Steps
solve (A + mu B) z = -slope, or (1 + mu) B z = -slope if A + mu B is not positive definite; mu goes to zero.

The second variation is positive if all eigenvalues of A z = lambda B z are.
Source: Levenberg (1944); Nielsen (1999) for mu; Sylvester's law of inertia.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_solve_banded, cholesky_banded, eig_banded, solve_banded

from connections.control.splines.integrand import Effort
from connections.control.splines.pieces import PARTS, Pieces

_STEPS = 150
_SETTLED = 1e-11  # of cost and size: the expected fall at which costs do not decide any longer
_EXACT = 1e-18  # the same, at which a curve is stationary
_LEAST, _LARGEST = 1e-3, 1e8  # mu that is not zero
_ENOUGH = 0.1  # of the slope along a step: the fall that is asked of it


@dataclass(frozen=True)
class Quadratic:
    """The cost near a curve: cost + slope . z + z^T A z / 2, of the changes z (m,) that are free.

    Parameters
    ----------
    pieces : the curve.
    cost : the integral of L.
    size : half the integral of (H v)^T W (H v) / T^2, the scale of a cost that vanishes; T the duration.
    slope : (m,).
    A, B : (u, m) upper bands, the diagonal last.
    free : (N + 1, 4, n) the place of each change in z; -1 if it is not free.
    by_parts : (N, 6, nq) the slope of the cost of each piece by its ambient parts.
    """

    pieces: Pieces
    cost: float
    size: float
    slope: np.ndarray
    A: np.ndarray
    B: np.ndarray
    free: np.ndarray
    by_parts: np.ndarray

    @classmethod
    def at(cls, effort: Effort, pieces: Pieces) -> Quadratic:
        """The cost near a curve; NaN if the curve leaves the domain."""
        values, by_parts, hessian, reference, square = pieces.model(effort)
        free, n = _free(pieces), pieces.X.shape[-1]
        own = _of_piece(free).reshape(len(values), -1)
        X = _of_piece(np.broadcast_to(pieces.X[:, None], (len(free), 4, *pieces.X.shape[1:])))
        slopes = np.einsum("kpan,kpa->kpn", X, by_parts).reshape(own.shape)
        count = int(free.max()) + 1
        slope = np.bincount(own[own >= 0], slopes[own >= 0], minlength=count)
        A, B = (
            _band(own, np.einsum("kpan,kpaqb,kqbm->kpnqm", X, M, X, optimize=True), PARTS * n, count)
            for M in (hessian, reference)
        )
        size = 0.5 * square / (pieces.times[-1] - pieces.times[0]) ** 2
        cost = float(np.sum(values)) if np.isfinite(A).all() and np.isfinite(slope).all() else np.nan
        return cls(pieces, cost, float(size), slope, A, B, free, by_parts)

    @property
    def scale(self) -> float:
        """The size of cost with which a decrease of it is compared."""
        return self.cost + self.size

    def step(self, mu: float) -> tuple[np.ndarray, bool]:
        """The step (m,) and whether A + mu B is positive definite; if not, the step is of (1 + mu) B."""
        try:
            factor, convex = cholesky_banded(self.A + mu * self.B), True
        except LinAlgError:
            factor, convex = cholesky_banded((1.0 + mu) * self.B), False
        return -cho_solve_banded((factor, False), self.slope), convex

    def newton_step(self) -> np.ndarray:
        """-A^-1 slope, (m,), also if A is not positive definite."""
        width, count = self.A.shape
        full = np.zeros((2 * width - 1, count))
        full[:width] = self.A
        for k in range(1, width):
            full[width - 1 + k, : count - k] = self.A[-1 - k, k:]
        z: np.ndarray = solve_banded((width - 1, width - 1), full, -self.slope)
        return z

    def moved(self, effort: Effort, z: np.ndarray) -> Quadratic:
        """The cost near the curve after the change z (m,)."""
        change = np.where(self.free >= 0, z[self.free], 0.0)
        return Quadratic.at(effort, self.pieces.moved(effort, change))

    @cached_property
    def index(self) -> int:
        """The number of directions in which the cost falls to second order."""
        units = 1.0 / np.sqrt(self.B[-1])
        scaled = _congruent(self.A, units)
        negative = eig_banded(scaled, eigvals_only=True, select="v", select_range=(-np.inf, 0.0))
        return len(negative)

    @cached_property
    def lowest(self) -> tuple[float, np.ndarray]:
        """The lowest eigenvalue of A z = lambda B z and its z (m,), z^T B z = 1.

        It is the one next to -mu, below all others, at which A + mu B is positive definite: a tension spreads
        the others over more than can be searched from above.
        """
        from scipy.sparse.linalg import LinearOperator, eigsh

        m, mu, factor = len(self.slope), 0.0, None
        while factor is None:
            try:
                factor = cholesky_banded(self.A + mu * self.B)
            except LinAlgError:
                mu = max(4.0 * mu, _LEAST)
        A, B = (
            LinearOperator((m, m), matvec=lambda x, band=band: _times(band, x), dtype=float)
            for band in (self.A, self.B)
        )
        inverse = LinearOperator((m, m), matvec=lambda x: cho_solve_banded((factor, False), x), dtype=float)
        start = np.random.default_rng(0).standard_normal(m)
        # Eigenvalues gather at 1, where a lowest one is hard to tell from its neighbours, and need not be.
        value, z = eigsh(
            A, k=1, M=B, sigma=-mu, OPinv=inverse, which="LM", v0=start, tol=1e-5, ncv=min(m - 1, 40)
        )
        return float(value[0]), z[:, 0]


def descend(effort: Effort, start: Pieces) -> tuple[Quadratic | None, str]:
    """A stationary curve near `start`, or None and why there is none."""
    here, mu, raise_by = Quadratic.at(effort, start), 0.0, 2.0
    if not np.isfinite(here.cost):
        return None, "its start leaves the domain"
    for _ in range(_STEPS):
        z, convex = here.step(mu)
        fall = -float(here.slope @ z)
        if fall * (1.0 + mu) <= _SETTLED * here.scale:
            return _settled(effort, here)
        there = here.moved(effort, z)
        if not here.cost - there.cost >= _ENOUGH * fall:  # also if the cost is NaN
            mu, raise_by = max(raise_by * mu, _LEAST), 2.0 * raise_by
            if mu > _LARGEST:
                return None, "no step lowers the cost"
            continue
        expected = max(fall - 0.5 * float(z @ _times(here.A, z)), 0.5 * fall)
        ratio = min((here.cost - there.cost) / expected, 1.0)
        mu *= max(0.2, 1.0 - (2.0 * ratio - 1.0) ** 3)
        mu, raise_by, here = 0.0 if mu < _LEAST else mu, 2.0, there
    return None, f"{_STEPS} steps of Newton's method do not end"


# --- private -----------------------------------------------------------------------------------------------


def _settled(effort: Effort, here: Quadratic) -> tuple[Quadratic | None, str]:
    """The stationary curve, a minimum or not, that Newton's steps find from a curve next to it."""
    last = np.inf
    while True:
        z = here.newton_step()
        change = abs(float(here.slope @ z))
        if not _EXACT * here.scale < change < last:  # exact, round-off, or NaN
            break
        here, last = here.moved(effort, z), change
    return (here, "") if change <= _SETTLED**1.5 * here.scale else (None, "Newton's method leads away")


def _free(pieces: Pieces) -> np.ndarray:
    """The place of every change in z, (N + 1, 4, n), -1 if it is held."""
    n = pieces.X.shape[-1]
    free = np.ones((len(pieces.q), 4, n), dtype=bool)
    free[:, :2] = ~pieces.held[:, :, None]
    free[-1, 2:] = False
    return np.where(free, np.cumsum(free).reshape(free.shape) - 1, -1)


def _of_piece(places: np.ndarray) -> np.ndarray:
    """Rows (N, 6, ...) of the six parts of each piece, from those of its ends and bumps (N + 1, 4, ...)."""
    return np.concatenate([places[:-1, :2], places[1:, :2], places[:-1, 2:]], axis=1)


def _band(own: np.ndarray, blocks: np.ndarray, width: int, count: int) -> np.ndarray:
    """The upper band (width, count) of the sum of blocks (N, ..) at the rows and columns `own` (N, 6 n)."""
    row, column = np.broadcast_arrays(own[:, :, None], own[:, None, :])
    upper = (row >= 0) & (row <= column)
    place = (width - 1 + row - column)[upper] * count + column[upper]
    band = np.bincount(place, blocks.reshape(row.shape)[upper], minlength=width * count)
    return band.reshape(width, count)


def _congruent(band: np.ndarray, units: np.ndarray) -> np.ndarray:
    """The band of u_i A_ij u_j."""
    width, count = band.shape
    rows = np.arange(count) + np.arange(1 - width, 1)[:, None]
    scaled: np.ndarray = band * units[np.clip(rows, 0, None)] * units
    return scaled


def _times(band: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A x for the upper band of a symmetric A."""
    width, count = band.shape
    result: np.ndarray = band[-1] * x
    for k in range(1, width):
        above = band[-1 - k, k:]
        result[: count - k] += above * x[k:]
        result[k:] += above * x[: count - k]
    return result
