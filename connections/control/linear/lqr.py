"""Linear-quadratic regulators: gains and costs to go by Riccati equations, constant and along a motion.

    u = -K x minimizes the integral of x^T Q x + u^T R u  along  xdot = A x + B u.

A gain exists if everything that does not decay by itself can be reached through B;
`StabilizabilityError` says what cannot. For a robot the pair is that of `multibody.linearize`, the law is
`Regulator`. Source: [B]; Kalman (1960).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from connections._jax import ArrayLike
from connections.checks import (
    ConvergenceError,
    ShapeError,
    as_array,
    require_bool,
    require_finite,
    require_untraced,
)
from connections.control.laws.gains import GainError, gain_matrix, require_symmetric, unit_diagonal
from connections.control.linear.reachability import checked_pair, require_detectable, within_digits
from connections.control.linear.riccati import solve_riccati
from connections.control.linear.stabilizability import require_stabilizable
from connections.evaluation.boundary import returns_input_kind

_SEMIDEFINITE = 1e-12  # below zero, of the eigenvalues of a weight with a unit diagonal


@returns_input_kind
@within_digits()
def lqr(
    A: ArrayLike, B: ArrayLike, Q: Any, R: Any, *, discrete: bool = False, names: Sequence[str] | None = None
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
    ConvergenceError : no gain and cost to go were found that are known to 1e-6: relative to a row of K and to
        (P_ii P_jj)^(1/2), the state in units in which P has a unit diagonal. A closed loop with rates that
        differ by 1e15 and more is beyond the digits of numbers.
    ShapeError, NonFiniteError, GainError, TypeError.

    Examples
    --------
    >>> from connections import control
    >>> K, P = control.lqr([[0.0, 1.0], [0.0, 0.0]], [[0.0], [1.0]], 1.0, 1.0)  # a mass on a line
    >>> K.round(4)
    array([[1.    , 1.7321]])

    Source: Kalman (1960); solved as `riccati.py` says.
    """
    require_untraced(A=A, B=B, Q=Q, R=R)
    require_bool("discrete", discrete)
    A, B, names = checked_pair(A, B, names)
    n, m = B.shape
    if not m:
        raise ShapeError("B", (n, "m >= 1"), B.shape)
    Q = _weight("weight Q", Q, n)
    R = np.asarray(gain_matrix("weight R", R, m, symmetric=True))
    require_stabilizable(A, B, discrete=discrete, names=names)
    require_detectable(A, Q, discrete=discrete, names=names)
    return solve_riccati(A, B, Q, R, discrete)


@returns_input_kind
@within_digits()
def time_varying_lqr(
    A: ArrayLike, B: ArrayLike, Q: Any, R: Any, Q_final: Any
) -> tuple[np.ndarray, np.ndarray]:
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

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> A, B = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.005], [0.1]])
    >>> K, P = control.time_varying_lqr([A] * 50, [B] * 50, 1.0, 1.0, 10.0)
    >>> K.shape, P.shape
    ((50, 1, 2), (51, 2, 2))

    Source: Kalman (1960).
    """
    require_untraced(A=A, B=B, Q=Q, R=R, Q_final=Q_final)
    A = np.asarray(as_array("A", A, (None, None, None)))
    count, n = A.shape[0], A.shape[-1]
    if A.ndim != 3 or A.shape[1] != n or not count:
        raise ShapeError("A", ("N", "n", "n"), A.shape)
    B = np.asarray(as_array("B", B, (count, n, None)))
    if not B.shape[-1]:
        raise ShapeError("B", (count, n, "m >= 1"), B.shape)
    require_finite("A", A)
    require_finite("B", B)
    Q = np.asarray(as_array("weight Q", Q, ()))
    stacked = Q.ndim == 3
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


def _weight(name: str, weight: Any, dim: int) -> np.ndarray:
    """A symmetric positive semidefinite matrix (dim, dim) from a scalar, a diagonal or itself."""
    array = np.asarray(as_array(name, weight, ()))
    if array.shape not in ((), (dim,), (dim, dim)):
        raise ShapeError(name, f"(), ({dim},) or ({dim}, {dim})", array.shape)
    require_finite(name, array)
    matrix: np.ndarray = array if array.ndim == 2 else np.diag(np.broadcast_to(array, (dim,)))
    require_symmetric(name, matrix)
    matrix = (matrix + matrix.T) / 2.0
    diagonal = np.diag(matrix)
    empty = (diagonal == 0.0) & matrix.any(axis=1)
    if empty.any() or (diagonal < 0.0).any() or np.linalg.eigvalsh(unit_diagonal(matrix))[0] < -_SEMIDEFINITE:
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        raise GainError(f"{name} must be positive semidefinite: smallest eigenvalue {smallest:.3e}")
    return matrix
