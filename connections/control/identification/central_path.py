"""Parameters of bodies that exist, nearest to the data: the point of a central path, by a primal-dual method.

The unknowns x are changes of parameters from a start, in units. Some of them have to make positive definite
matrices M_b = O_b + sum_k x_bk F_bk: of a body, P_b = L_b M_b L_b^T, L_b L_b^T the pseudo-inertia of the
prior; of a coefficient that has a sign, such as friction, M_b is one number, its ratio to a size. The cost

    |R x - c|^2 / 2 + sum_b g_b (tr M_b - log det M_b - size of M_b)

is convex, and infinite where an M is singular. Newton's method from the prior runs into that wall and creeps
along it. But the minimum is the point of a semidefinite program's central path whose parameters are g_b:

    R^T (R x - c) + F*(g_b 1 - Z) = 0,      M_b Z_b = max(mu, g_b) 1,      mu -> 0,

so mu may be large at first, and is lowered as in such programs. With the scaling of Nesterov and Todd,
G^-1 M G^-T = G^T Z G = D, diagonal, a step dx solves one problem of least squares,

    [R; G^-1 F G^-T] dx = [c - R x; h - g G^T G],      G^T dZ G = h - D - G^-1 dM G^-T,

with h_ij = max(mu, g) delta_ij / l_i minus the correction of second order, -2 (dM dZ)_ij / (l_i + l_j),
symmetrized, of the step without it; l are the diagonal entries of D. R^T R, whose condition is that of R
squared, is never formed. Numbers with smaller g_b follow bodies down to g, and go on while those stay.

Of 108 recordings of six arms it returns 108 in 17 steps (at most 25); Newton's method returns 54.

Where data alone lead to the boundary of the cone or beyond, Z_b = g M_b^-1 stays as large as the push of the
data, however small g is, and an eigenvalue of M_b is proportional to g. At any g, a single eigenvalue l with
the cost k (l - a)^2 / 2 + g (l - 1 - log l) has d log l / d log g = (1 - l) / (1 + k l^2 / g). Where l is
small, that is 1/2 if the data's own minimum a is on the boundary, up to 1 beyond it, and nearly 0 within. The
same single number has its minimum at l - a = (g / k) (1 / l - 1), k^(-1/2) being the standard error of l: a
small g leaves it where the data have it, and, of a = 0, g^(1/2) of a standard error above zero.
Source: Nesterov and Todd 1998 for the scaling; Mehrotra 1992 for the correction; Lee, Wensing and Park 2020
for the divergence.
"""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True)
class Cones:
    """Positive definite matrices M_b = O_b + sum_k x_bk F_bk of one size, n of them.

    Parameters
    ----------
    columns : (n, u) numbers of the unknowns x_bk.
    F : (n, u, m, m).
    origin : (n, m, m) O.
    prior : (n, u) parameters at which M = 1; M is linear in the parameters.
    units : (n, u) of x.
    centre : (n, u) x of the prior.
    share : g_b / g, at most 1.
    """

    columns: np.ndarray
    F: np.ndarray
    origin: np.ndarray
    prior: np.ndarray
    units: np.ndarray
    centre: np.ndarray
    share: float

    @classmethod
    def of_bodies(cls, pi_0: np.ndarray, units: np.ndarray) -> Cones:
        """The pseudo-inertias of bodies over those of a prior pi_0 (N, 10), from where x begins.

        units : (p,) of x; the first 10 N unknowns are those of the bodies.
        """
        inverse = np.linalg.inv(np.linalg.cholesky(pseudo_inertias(pi_0)))
        own = units[: pi_0.size].reshape(-1, 10)
        return cls(
            columns=np.arange(pi_0.size).reshape(-1, 10),
            F=own[:, :, None, None] * np.einsum("bij,kjl,bml->bkim", inverse, _TEN, inverse),
            origin=np.tile(np.eye(4), (len(pi_0), 1, 1)),
            prior=pi_0,
            units=own,
            centre=np.zeros(pi_0.shape),
            share=1.0,
        )

    @classmethod
    def of_numbers(
        cls, columns: np.ndarray, start: np.ndarray, sizes: np.ndarray, units: np.ndarray, share: float
    ) -> Cones:
        """Numbers that are to be positive, start + units x, over their sizes; all (n,)."""
        return cls(
            columns=columns[:, None],
            F=(units / sizes)[:, None, None, None],
            origin=(start / sizes)[:, None, None],
            prior=sizes[:, None],
            units=units[:, None],
            centre=((sizes - start) / units)[:, None],
            share=share,
        )

    def changes(self, x: np.ndarray) -> np.ndarray:
        """sum_k x_bk F_bk, (n, m, m)."""
        return np.asarray(np.einsum("bk,bkij->bij", x[self.columns], self.F))

    def matrices(self, x: np.ndarray) -> np.ndarray:
        """M, (n, m, m)."""
        return np.asarray(self.origin + self.changes(x))


def central_point(
    R: np.ndarray, c: np.ndarray, cones: Sequence[Cones], weight: float, start: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """x (p,) at the minimum, and which matrices data push to the boundary, (n,) booleans of each `Cones`.

    Parameters
    ----------
    R, c : (m, p) and (m,).
    cones : what has to be positive definite, none of them empty. R has to determine all other unknowns.
    weight : g > 0.
    start : (p,) a point, such as the minimum of |R x - c|^2; its largest eigenvalues of M give the first M.

    Raises
    ------
    ConvergenceError : no minimum was found.
    """
    problem = _ConeProblem(R, c, cones, weight)
    point = problem.first(start)
    decrement, smallest = np.inf, min(problem.weights)
    for _ in range(_STEPS):
        newton, decrement = problem.newton(point.x)
        if decrement <= _DECREMENT:
            return point.x, problem.pushed(point.x)
        if decrement < _NEWTON * smallest:
            point = problem.at(point.x + newton)
        else:
            point = problem.stepped(point)
    raise ConvergenceError(
        f"identify: no minimum after {_STEPS} steps (decrement {decrement:.1e}); a prior that is nearer to "
        "what the robot is and carries, or another prior_weight, may help"
    )


@dataclass(frozen=True)
class _PathPoint:
    """x (p,), and Z (n, m, m) of each `Cones`."""

    x: np.ndarray
    Z: list[np.ndarray]


class _ConeProblem:
    """A cost of least squares on cones of positive matrices, and steps towards its minimum.

    Attributes
    ----------
    weights : g_b of each `Cones`.
    """

    def __init__(self, R: np.ndarray, c: np.ndarray, cones: Sequence[Cones], weight: float) -> None:
        self._R, self._c, self._weight, self._cones = R, c, weight, cones
        self.weights = [weight * each.share for each in cones]

    def first(self, start: np.ndarray) -> _PathPoint:
        """M_b = k_b 1, with k_b the largest eigenvalue of M_b at `start`, or 1, and Z_b = mu / k_b 1.

        mu is the cost of the data for each eigenvalue, or g.
        """
        x, sizes = start.copy(), []
        for each in self._cones:
            sizes.append(np.maximum(1.0, np.abs(np.linalg.eigvalsh(each.matrices(start))).max(axis=1)))
            x[each.columns] = each.centre + (sizes[-1] - 1.0)[:, None] * each.prior / each.units
        cost = 0.5 * float(np.sum((self._R @ x - self._c) ** 2))
        count = sum(each.origin.shape[0] * each.origin.shape[1] for each in self._cones)
        mu = max(self._weight, cost / count)
        return _PathPoint(
            x,
            [
                (mu / size)[:, None, None] * np.eye(each.origin.shape[1])
                for each, size in zip(self._cones, sizes, strict=True)
            ],
        )

    def at(self, x: np.ndarray) -> _PathPoint:
        """The point with Z_b = g_b M_b^-1."""
        pairs = zip(self._cones, self.weights, strict=True)
        return _PathPoint(x, [w * np.linalg.inv(each.matrices(x)) for each, w in pairs])

    def newton(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """Newton's step of the cost, and its decrement.

        The second derivatives of the divergence are tr(S_k S_l), S_k = M^-1/2 F_k M^-1/2.
        """
        equations, eigenvalues, _ = self._second_order(x)
        step = equations.solved(self._c - self._R @ x, self._push(eigenvalues))
        return step, float(np.sum((equations.matrix @ step) ** 2))

    def pushed(self, x: np.ndarray) -> list[np.ndarray]:
        """Which matrices have a small eigenvalue l of M that falls with g, (n,) of each `Cones`.

        dx / d log g is Newton's step without the data's slope.
        """
        equations, eigenvalues, axes = self._second_order(x)
        dx = equations.solved(np.zeros(len(self._R)), self._push(eigenvalues))
        found = []
        for each, values, own in zip(self._cones, eigenvalues, axes, strict=True):
            rates = np.einsum("bji,bjk,bki->bi", own, each.changes(dx), own) / values
            found.append(np.asarray(((values < _SMALL) & (rates > _FALLS)).any(axis=1)))
        return found

    def _push(self, eigenvalues: list[np.ndarray]) -> list[np.ndarray]:
        pairs = zip(self.weights, eigenvalues, strict=True)
        return [np.sqrt(w) * _diagonal(1.0 - values) for w, values in pairs]

    def _second_order(self, x: np.ndarray) -> tuple[_Equations, list[np.ndarray], list[np.ndarray]]:
        """The equations of Newton's method, and the eigenvalues (n, m) and axes (n, m, m) of each M."""
        pairs = [np.linalg.eigh(each.matrices(x)) for each in self._cones]
        eigenvalues, axes = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        scaling = [
            np.sqrt(np.sqrt(w)) * np.swapaxes(own, 1, 2) / np.sqrt(values)[:, :, None]
            for w, values, own in zip(self.weights, eigenvalues, axes, strict=True)
        ]
        return _Equations(self._R, self._cones, scaling), eigenvalues, axes

    def stepped(self, point: _PathPoint) -> _PathPoint:
        """The point behind one step towards the central path's point g."""
        x, cones = point.x, self._cones
        pairs = [_scaling(each.matrices(x), Z) for each, Z in zip(cones, point.Z, strict=True)]
        G, own = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        inverse, D = [np.linalg.inv(each) for each in G], [_diagonal(each) for each in own]
        equations, residual = _Equations(self._R, cones, inverse), self._c - self._R @ x
        floor = [w * np.swapaxes(g, 1, 2) @ g for w, g in zip(self.weights, G, strict=True)]

        def direction(h: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
            dx = equations.solved(residual, [a - b for a, b in zip(h, floor, strict=True)])
            dM = [g @ each.changes(dx) @ np.swapaxes(g, 1, 2) for g, each in zip(inverse, cones, strict=True)]
            return dx, dM, [_symmetric(a - b - c) for a, b, c in zip(h, D, dM, strict=True)]

        def towards(mu: float) -> list[np.ndarray]:
            return [_diagonal(max(w, mu) / values) for w, values in zip(self.weights, own, strict=True)]

        counted = self._counted(own)
        mu, count = _mean(own, counted), sum(own[k].size for k in counted)
        least = self._weight if 0 in counted else 0.0
        _, dM, dZ = direction(towards(least))
        share = min(1.0, _way_to_the_wall(own, dM, dZ))
        ahead = sum(np.einsum("bij,bji->", D[k] + share * dM[k], D[k] + share * dZ[k]) for k in counted)
        target = max(least, mu * min(1.0, max(ahead / count, 0.0) / mu) ** 3)
        second = [
            2.0 * _symmetric(m @ z) / (values[:, :, None] + values[:, None, :])
            for m, z, values in zip(dM, dZ, own, strict=True)
        ]
        dx, dM, dZ = direction([a - b for a, b in zip(towards(target), second, strict=True)])
        share = min(1.0, _TO_THE_WALL * _way_to_the_wall(own, dM, dZ))
        if share < _CENTRING:  # far from the path, the correction misleads
            dx, dM, dZ = direction(towards(max(target, 0.5 * mu)))
            share = min(1.0, 0.9 * _way_to_the_wall(own, dM, dZ))
        Z = [
            _symmetric(np.swapaxes(g, 1, 2) @ (d + share * z) @ g)
            for g, d, z in zip(inverse, D, dZ, strict=True)
        ]
        return _PathPoint(x + share * dx, Z)

    def _counted(self, own: list[np.ndarray]) -> list[int]:
        """The `Cones` whose products M Z are lowered: all, and near g only those of smaller weights."""
        every = list(range(len(own)))
        lighter = [k for k in every if self.weights[k] < self._weight]
        return lighter if lighter and _mean(own, every) < 2.0 * self._weight else every


class _Equations:
    """The problem of least squares [R; T F T^T] dx = [above; below].

    Parameters
    ----------
    scaling : T (n, m, m) of each `Cones`.

    Attributes
    ----------
    matrix : R, and a row for each entry of every M.
    """

    def __init__(self, R: np.ndarray, cones: Sequence[Cones], scaling: list[np.ndarray]) -> None:
        rows = [R]
        for each, T in zip(cones, scaling, strict=True):
            n, unknowns, m, _ = each.F.shape
            scaled = np.einsum("bij,bkjl,bml->bkim", T, each.F, T).reshape(n, unknowns, m * m)
            block = np.zeros((n, m * m, R.shape[1]))
            block[np.arange(n)[:, None], :, each.columns] = scaled
            rows.append(block.reshape(n * m * m, -1))
        self.matrix = np.concatenate(rows)
        self._Q, self._triangle, self._order = qr(self.matrix, mode="economic", pivoting=True)

    def solved(self, above: np.ndarray, below: list[np.ndarray]) -> np.ndarray:
        """dx for (m,) and (n, m, m) of each `Cones`."""
        right = self._Q.T @ np.concatenate([above, *(each.reshape(-1) for each in below)])
        dx = np.zeros(len(right))
        dx[self._order] = solve_triangular(self._triangle, right)
        return dx


def _scaling(M: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """G (n, m, m) with G^-1 M G^-T = G^T Z G, and its diagonal (n, m)."""
    L, K = np.linalg.cholesky(M), np.linalg.cholesky(Z)
    _, own, turned = np.linalg.svd(np.swapaxes(K, 1, 2) @ L)
    return L @ np.swapaxes(turned, 1, 2) / np.sqrt(own)[:, None, :], own


def _mean(own: list[np.ndarray], counted: list[int]) -> float:
    """mu: the mean of l^2 over the eigenvalues of some `Cones`."""
    return float(np.mean(np.concatenate([(own[k] ** 2).ravel() for k in counted])))


def _way_to_the_wall(own: list[np.ndarray], *changes: list[np.ndarray]) -> float:
    """The largest s for which D + s changes is positive semidefinite; infinite if all are."""
    least = np.inf
    for change in changes:
        for values, each in zip(own, change, strict=True):
            roots = 1.0 / np.sqrt(values)
            scaled = roots[:, :, None] * each * roots[:, None, :]
            least = min(least, np.linalg.eigvalsh(scaled).min())
    return float("inf") if least >= 0.0 else float(-1.0 / least)


def _diagonal(entries: np.ndarray) -> np.ndarray:
    return np.asarray(entries[:, :, None] * np.eye(entries.shape[1]))


def _symmetric(X: np.ndarray) -> np.ndarray:
    return np.asarray((X + np.swapaxes(X, 1, 2)) / 2.0)
