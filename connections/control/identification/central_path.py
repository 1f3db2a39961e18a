"""Parameters of bodies that exist, nearest to the data: the point of a central path, by a primal-dual method.

The unknowns x are changes of parameters from a prior, in units: P_b = L_b M_b L_b^T, L_b L_b^T the
pseudo-inertia of the prior, M_b = 1 + sum_k x_bk F_bk. The cost

    |R x - c|^2 / 2 + g sum_b (tr M_b - log det M_b - 4)

is convex, and infinite where an M is singular. Newton's method from the prior runs into that wall and creeps
along it. But the minimum is the point of a semidefinite program's central path whose parameter is g:

    R^T (R x - c) + F*(g 1 - Z) = 0,      M_b Z_b = mu 1,      mu -> g,

so mu may be large at first, and is lowered as in such programs. With the scaling of Nesterov and Todd,
G^-1 M G^-T = G^T Z G = D, diagonal, a step dx solves one problem of least squares,

    [R; G^-1 F G^-T] dx = [c - R x; h - g G^T G],      G^T dZ G = h - D - G^-1 dM G^-T,

with h_ij = mu delta_ij / l_i minus the correction of second order, -2 (dM dZ)_ij / (l_i + l_j), symmetrized,
of the step without it; l are the diagonal entries of D. R^T R, whose condition is that of R squared, is never
formed.

Of 108 recordings of six arms it returns 108 in 17 steps (at most 25); Newton's method returns 54.

Where data alone lead to the boundary of the cone or beyond, Z_b = g M_b^-1 stays as large as the push of the
data, however small g is, and an eigenvalue of M_b is proportional to g. At any g, a single eigenvalue l with
the cost k (l - a)^2 / 2 + g (l - 1 - log l) has d log l / d log g = (1 - l) / (1 + k l^2 / g). Where l is
small, that is 1/2 if the data's own minimum a is on the boundary, up to 1 beyond it, and nearly 0 within.
Source: Nesterov and Todd 1998 for the scaling; Mehrotra 1992 for the correction; Lee, Wensing and Park 2020
for the divergence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular

from connections.checks import ConvergenceError
from connections.multibody.inertia import pseudo_inertia_basis, pseudo_inertias

_TEN = pseudo_inertia_basis()
_DECREMENT = 1e-9  # to which the minimum is found; chi^2 / 2 differs by 1/2 at one standard error
_STEPS = 100
_NEWTON = 0.05  # of g: from a smaller decrement on, Newton's method converges quadratically, without a search
_TO_THE_WALL = 0.98  # the share of the way to a singular M or Z that a step takes
_SMALL = 0.1  # eigenvalues of M, the prior's are 1: below, Z is more than ten times g
_FALLS = 0.4  # d log l / d log g; it is 1/2 on the boundary
_CENTRING = 0.1  # a step that is shorter than this share is replaced by one towards the path


def central_point(
    R: np.ndarray, c: np.ndarray, pi_0: np.ndarray, weight: float, units: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """x (p,) at the minimum, and which bodies data push to the boundary of the cone, (N,) booleans.

    Parameters
    ----------
    R, c : (m, p) and (m,).
    pi_0 : (N, 10) the prior, positive definite.
    weight : g > 0.
    units : (p,) of x; the first 10 N unknowns are those of bodies.
    start : (p,) a point, such as the minimum of |R x - c|^2; its largest eigenvalues of M give the first M.

    Raises
    ------
    ConvergenceError : no minimum was found.
    """
    problem = _Problem(R, c, pi_0, weight, units)
    point = problem.first(start)
    decrement = np.inf
    for _ in range(_STEPS):
        newton, decrement = problem.newton(point.x)
        if decrement <= _DECREMENT:
            return point.x, problem.pushed(point.x)
        if decrement < _NEWTON * weight:
            x = point.x + newton
            point = _Point(x, weight * np.linalg.inv(problem.matrices(x)))
        else:
            point = problem.stepped(point)
    raise ConvergenceError(
        f"identify: no minimum after {_STEPS} steps (decrement {decrement:.1e}); a prior that carries the "
        "payload is nearer to it"
    )


@dataclass(frozen=True)
class _Point:
    """x (p,) and Z (N, 4, 4)."""

    x: np.ndarray
    Z: np.ndarray


class _Problem:
    """What is minimized, and steps towards the minimum."""

    def __init__(
        self, R: np.ndarray, c: np.ndarray, pi_0: np.ndarray, weight: float, units: np.ndarray
    ) -> None:
        inverse = np.linalg.inv(np.linalg.cholesky(pseudo_inertias(pi_0)))
        scales = units[: pi_0.size].reshape(-1, 10, 1, 1)
        self._F = scales * np.einsum("bij,kjl,bml->bkim", inverse, _TEN, inverse)
        self._R, self._c, self._weight = R, c, weight
        self._pi_0, self._units = pi_0, units

    def changes(self, x: np.ndarray) -> np.ndarray:
        """sum_k x_bk F_bk, (N, 4, 4)."""
        return np.asarray(np.einsum("bk,bkij->bij", x[: self._pi_0.size].reshape(-1, 10), self._F))

    def matrices(self, x: np.ndarray) -> np.ndarray:
        """M, (N, 4, 4)."""
        return np.asarray(np.eye(4) + self.changes(x))

    def first(self, start: np.ndarray) -> _Point:
        """M_b = k_b 1, with k_b the largest eigenvalue of M_b at `start`, or 1, and Z_b = mu / k_b 1.

        mu is the cost of the data for each eigenvalue.
        """
        sizes = np.maximum(1.0, np.abs(np.linalg.eigvalsh(self.matrices(start))).max(axis=1))
        x = start.copy()
        x[: self._pi_0.size] = ((sizes - 1.0)[:, None] * self._pi_0).reshape(-1) / self._units[
            : self._pi_0.size
        ]
        cost = 0.5 * float(np.sum((self._R @ x - self._c) ** 2))
        mu = max(self._weight, cost / (4 * len(sizes)))
        return _Point(x, mu * np.eye(4) / sizes[:, None, None])

    def newton(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """Newton's step of the cost, and its decrement.

        The second derivatives of the divergence are tr(S_k S_l), S_k = M^-1/2 F_k M^-1/2.
        """
        equations, eigenvalues, _ = self._second_order(x)
        push = np.sqrt(self._weight) * _diagonal(1.0 - eigenvalues)
        step = equations.solved(self._c - self._R @ x, push)
        return step, float(np.sum((equations.matrix @ step) ** 2))

    def pushed(self, x: np.ndarray) -> np.ndarray:
        """Which bodies have a small eigenvalue l of M that falls with g, (N,).

        dx / d log g is Newton's step without the data's slope.
        """
        equations, eigenvalues, axes = self._second_order(x)
        nothing = np.zeros(len(self._R))
        dx = equations.solved(nothing, np.sqrt(self._weight) * _diagonal(1.0 - eigenvalues))
        rates = np.einsum("bji,bjk,bki->bi", axes, self.changes(dx), axes) / eigenvalues
        return np.asarray(((eigenvalues < _SMALL) & (rates > _FALLS)).any(axis=1))

    def _second_order(self, x: np.ndarray) -> tuple[_Equations, np.ndarray, np.ndarray]:
        """The equations of Newton's method, and the eigenvalues (N, 4) and axes (N, 4, 4) of M."""
        eigenvalues, axes = np.linalg.eigh(self.matrices(x))
        scaling = np.sqrt(np.sqrt(self._weight)) * np.swapaxes(axes, 1, 2) / np.sqrt(eigenvalues)[:, :, None]
        return _Equations(self._R, self._F, scaling), eigenvalues, axes

    def stepped(self, point: _Point) -> _Point:
        """The point behind one step towards the central path's point g."""
        x, Z, weight = point.x, point.Z, self._weight
        G, own = _scaling(self.matrices(x), Z)
        inverse, D = np.linalg.inv(G), _diagonal(own)
        equations, residual = _Equations(self._R, self._F, inverse), self._c - self._R @ x
        floor = weight * np.swapaxes(G, 1, 2) @ G
        mu, count = float(np.mean(own**2)), own.size

        def direction(h: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            dx = equations.solved(residual, h - floor)
            dM = inverse @ self.changes(dx) @ np.swapaxes(inverse, 1, 2)
            return dx, dM, _symmetric(h - D - dM)

        _, dM, dZ = direction(_diagonal(weight / own))
        share = min(1.0, _way_to_the_wall(own, dM, dZ))
        ahead = np.einsum("bij,bji->", D + share * dM, D + share * dZ) / count
        target = max(weight, mu * min(1.0, max(ahead, 0.0) / mu) ** 3)
        second = 2.0 * _symmetric(dM @ dZ) / (own[:, :, None] + own[:, None, :])
        dx, dM, dZ = direction(_diagonal(target / own) - second)
        share = min(1.0, _TO_THE_WALL * _way_to_the_wall(own, dM, dZ))
        if share < _CENTRING:  # far from the path, the correction misleads
            dx, dM, dZ = direction(_diagonal(max(target, 0.5 * mu) / own))
            share = min(1.0, 0.9 * _way_to_the_wall(own, dM, dZ))
        Z = np.swapaxes(inverse, 1, 2) @ (D + share * dZ) @ inverse
        return _Point(x + share * dx, _symmetric(Z))


class _Equations:
    """The problem of least squares [R; T F T^T] dx = [above; below].

    Attributes
    ----------
    matrix : (m + 16 N, p).
    """

    def __init__(self, R: np.ndarray, F: np.ndarray, T: np.ndarray) -> None:
        bodies, own = len(F), np.arange(len(F))
        blocks = np.zeros((bodies, 16, bodies, 10))
        scaled = np.einsum("bij,bkjl,bml->bkim", T, F, T).reshape(bodies, 10, 16)
        blocks[own, :, own] = np.swapaxes(scaled, 1, 2)
        self.matrix = np.zeros((len(R) + 16 * bodies, R.shape[1]))
        self.matrix[: len(R)] = R
        self.matrix[len(R) :, : 10 * bodies] = blocks.reshape(16 * bodies, -1)
        self._Q, self._triangle, self._order = qr(self.matrix, mode="economic", pivoting=True)

    def solved(self, above: np.ndarray, below: np.ndarray) -> np.ndarray:
        """dx for (m,) and (N, 4, 4)."""
        right = self._Q.T @ np.concatenate([above, below.reshape(-1)])
        dx = np.zeros(len(right))
        dx[self._order] = solve_triangular(self._triangle, right)
        return dx


def _scaling(M: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """G (N, 4, 4) with G^-1 M G^-T = G^T Z G, and its diagonal (N, 4)."""
    L, K = np.linalg.cholesky(M), np.linalg.cholesky(Z)
    _, own, turned = np.linalg.svd(np.swapaxes(K, 1, 2) @ L)
    return L @ np.swapaxes(turned, 1, 2) / np.sqrt(own)[:, None, :], own


def _way_to_the_wall(own: np.ndarray, *changes: np.ndarray) -> float:
    """The largest s for which D + s changes is positive semidefinite; infinite if all are."""
    roots = 1.0 / np.sqrt(own)
    least = min(
        np.linalg.eigvalsh(roots[:, :, None] * change * roots[:, None, :]).min() for change in changes
    )
    return float("inf") if least >= 0.0 else float(-1.0 / least)


def _diagonal(entries: np.ndarray) -> np.ndarray:
    return np.asarray(entries[:, :, None] * np.eye(4))


def _symmetric(X: np.ndarray) -> np.ndarray:
    return np.asarray((X + np.swapaxes(X, 1, 2)) / 2.0)
