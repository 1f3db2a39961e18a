"""Linear-quadratic regulators: gains and costs to go by Riccati equations, constant and along a motion.

    u = -K x minimizes the integral of x^T Q x + u^T R u  along  xdot = A x + B u.

A gain exists where everything that does not decay by itself can be reached through B;
`StabilizabilityError` says what cannot. For a robot the pair is that of `multibody.linearize`, the law is
`Regulator`. Source: [B]; Kalman (1960).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import solve_continuous_are, solve_discrete_are

from connections.checks import ConvergenceError, ShapeError, as_array, require_finite
from connections.control.gains import GainError, gain_matrix, require_symmetric, unit_diagonal
from connections.control.reachability import (
    checked_pair,
    power_of_two,
    require_detectable,
    require_stabilizable,
    state_units,
)

_SEMIDEFINITE = 1e-12  # below zero, of the eigenvalues of a weight with a unit diagonal


def lqr(
    A: Any, B: Any, Q: Any, R: Any, *, discrete: bool = False, names: Sequence[str] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Gain K (m, n) and cost to go P (n, n): u = -K x costs x0^T P x0, the least there is.

    K = R^-1 B^T P with A^T P + P A - P B R^-1 B^T P + Q = 0; for a discrete pair
    K = (R + B^T P B)^-1 B^T P A with P = Q + A^T P (A - B K).

    Parameters
    ----------
    A : (n, n) of xdot = A x + B u, or of x_{k+1} = A x_k + B u_k.
    B : (n, m).
    Q : scalar, (n,) or (n, n), symmetric positive semidefinite: the cost x^T Q x, per second or per step.
    R : scalar, (m,) or (m, m), symmetric positive definite: the cost u^T R u.
    discrete : whether the pair is that of a step.
    names : (n,) of the components of x, for messages; `state_names` of a robot.

    Raises
    ------
    StabilizabilityError : directions that do not decay are out of reach, or neither decay nor cost anything.
    ConvergenceError : the equation was not solved.
    ShapeError, NonFiniteError, GainError, TypeError.

    Source: Kalman (1960); solved by `scipy.linalg`.
    """
    A, B, names = checked_pair(A, B, names)
    n, m = B.shape
    Q = _weight("weight Q", Q, n)
    R = np.asarray(gain_matrix("weight R", R, m, symmetric=True))
    require_stabilizable(A, B, discrete=discrete, names=names)
    require_detectable(A, Q, discrete=discrete, names=names)
    x, u = _cost_units(A, B, Q), power_of_two(np.diag(R) ** -0.5)
    K, P = _regulator(
        A * x / x[:, None], B * u / x[:, None], Q * np.outer(x, x), R * np.outer(u, u), discrete
    )
    return K * u[:, None] / x, P / np.outer(x, x)


def time_varying_lqr(A: Any, B: Any, Q: Any, R: Any, Q_final: Any) -> tuple[np.ndarray, np.ndarray]:
    """Gains K (N, m, n) and costs to go P (N + 1, n, n) of x_{k+1} = A_k x_k + B_k u_k, u_k = -K_k x_k.

    Backward from P_N = Q_final: K = (R + B^T P B)^-1 B^T P A, P <- Q + K^T R K + (A - B K)^T P (A - B K).

    Parameters
    ----------
    A : (N, n, n), pairs of steps as `multibody.linearize` gives them with `step`.
    B : (N, n, m).
    Q : scalar, (n,), (n, n) or (N, n, n), symmetric positive semidefinite: the cost of a step.
    R : scalar, (m,) or (m, m), symmetric positive definite.
    Q_final : scalar, (n,) or (n, n), symmetric positive semidefinite: the cost of the last state.

    Nothing is asked of the pair: within finite time the cost is finite, whatever can be reached.

    Raises
    ------
    ShapeError, NonFiniteError, GainError, TypeError; ConvergenceError naming the step whose cost to go is not
    finite.

    Source: Kalman (1960).
    """
    A = np.asarray(as_array("A", A, (None, None, None)))
    count, n = A.shape[0], A.shape[-1]
    if A.ndim != 3 or A.shape[1] != n or not count:
        raise ShapeError("A", ("N", "n", "n"), A.shape)
    B = np.asarray(as_array("B", B, (count, n, None)))
    require_finite("A", A)
    require_finite("B", B)
    stacked = np.ndim(Q) == 3
    if stacked and len(Q) != count:
        raise ShapeError("weight Q", (count, n, n), np.shape(Q))
    costs = [_weight("weight Q", each, n) for each in (Q if stacked else [Q])]
    R = np.asarray(gain_matrix("weight R", R, B.shape[-1], symmetric=True))
    P = np.empty((count + 1, n, n))
    K = np.empty((count, B.shape[-1], n))
    P[count] = _weight("weight Q_final", Q_final, n)
    for k in range(count - 1, -1, -1):
        carried = B[k].T @ P[k + 1]
        K[k] = np.linalg.solve(R + carried @ B[k], carried @ A[k])
        loop = A[k] - B[k] @ K[k]
        cost = costs[k if stacked else 0] + K[k].T @ R @ K[k] + loop.T @ P[k + 1] @ loop
        if not np.isfinite(cost).all():
            raise ConvergenceError(f"the cost to go is not finite at step {k} of {count}")
        P[k] = (cost + cost.T) / 2.0
    return K, P


# --- private ---------------------------------------------------------------------------------------------


def _regulator(
    A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray, discrete: bool
) -> tuple[np.ndarray, np.ndarray]:
    """`lqr` in units in which states and inputs are of one size; here the same is done to time and cost.

    With rate the unit of 1/time and rate push^2 that of P, the equation is that of A / rate, push B, R and
    Q / (rate push)^2, whose quadratic and constant terms are of one size.
    """
    rate = 1.0 if discrete else float(power_of_two(np.linalg.norm(A, 2) or 1.0))
    quadratic = np.linalg.norm(B @ np.linalg.solve(R, B.T), 2) or 1.0
    constant = np.linalg.norm(Q, 2) or 1.0
    push = float(power_of_two((constant / quadratic) ** 0.25 * rate**-0.5))
    A, B, Q = A / rate, push * B, Q / (rate * push) ** 2
    try:
        P = (solve_discrete_are if discrete else solve_continuous_are)(A, B, Q, R)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise ConvergenceError(f"the Riccati equation of {len(A)} states was not solved: {error}") from error
    K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A) if discrete else np.linalg.solve(R, B.T @ P)
    values = np.linalg.eigvals(A - B @ K)
    margin = (np.abs(values) - 1.0).max() if discrete else values.real.max()
    if not margin < 0.0:
        raise ConvergenceError(
            f"the Riccati equation of {len(A)} states left a closed loop that does not decay"
        )
    return K * rate * push, rate * push**2 * (P + P.T) / 2.0


def _cost_units(A: np.ndarray, B: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Powers of two (n,): the units of the state in which what costs anything costs one.

    A component without cost gets the unit in which it acts on the others, or they on it, at the largest rate.
    """
    costs = np.diag(Q)
    if not costs.any():
        return state_units(A, B)
    x = np.where(costs > 0.0, np.where(costs > 0.0, costs, 1.0) ** -0.5, np.nan)
    size = np.abs(A - np.diag(np.diag(A)))
    rate = float(np.nanmax(size * x / x[:, None], initial=0.0)) or float(np.abs(np.diag(A)).max()) or 1.0
    while np.isnan(x).any():
        known = np.where(np.isnan(x), 0.0, x)
        into, out = size @ known / rate, size.T @ np.where(np.isnan(x), 0.0, 1.0 / x) / rate
        fresh = np.where(into > 0.0, into, np.where(out > 0.0, 1.0 / np.where(out > 0.0, out, 1.0), np.nan))
        fresh = np.where(np.isnan(x), fresh, np.nan)
        if np.isnan(fresh).all():
            return power_of_two(np.where(np.isnan(x), 1.0, x))
        x = np.where(np.isnan(fresh), x, fresh)
    return power_of_two(x)


def _weight(name: str, weight: Any, dim: int) -> np.ndarray:
    """A symmetric positive semidefinite matrix (dim, dim) from a scalar, a diagonal or itself."""
    try:
        array = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected real numbers, got {type(weight).__name__}") from error
    if array.shape not in ((), (dim,), (dim, dim)):
        raise ShapeError(name, f"(), ({dim},) or ({dim}, {dim})", array.shape)
    require_finite(name, array)
    matrix = array if array.ndim == 2 else np.diag(np.broadcast_to(array, (dim,)))
    require_symmetric(name, matrix)
    matrix = (matrix + matrix.T) / 2.0
    diagonal = np.diag(matrix)
    empty = (diagonal == 0.0) & matrix.any(axis=1)
    if empty.any() or (diagonal < 0.0).any() or np.linalg.eigvalsh(unit_diagonal(matrix))[0] < -_SEMIDEFINITE:
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        raise GainError(f"{name} must be positive semidefinite: smallest eigenvalue {smallest:.3e}")
    return matrix
