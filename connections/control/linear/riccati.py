"""Algebraic Riccati equations of badly scaled problems: balanced, corrected, with an error.

    0 = A^T P + P A + Q - K^T R K,  K = R^-1 B^T P;   discrete: P = F^T P F + Q + K^T R K,  F = A - B K

SciPy solves the equation in units in which all costs are about one. That is not enough if the cost to go
differs by many powers of ten from component to component: its errors are relative to the largest entry. So
every solution is corrected by Newton's method in units x_i = P_ii^(-1/2), in which the cost to go has a unit
diagonal; the correction P' - P solves the Lyapunov equation

    F^T (P' - P) + (P' - P) F = -(F^T P + P F + Q + K^T R K)      for any gain K that stabilizes

whose right side, the residual, is added in the longest floating-point numbers that NumPy has. Newton's method
converges quadratically, so the last correction bounds the error that is left, in P and in K = R^-1 B^T P.

Where SciPy finds no gain, the weights are led from a well scaled problem of the same pair to those given. In
units in which A and B are of size one, Q_ij = q_i Qhat_ij q_j with Qhat_ii = 1 is replaced by
q_i^t Qhat_ij q_j^t, R likewise, and t goes from 0 to 1; every solution gives a gain that stabilizes, from
which Newton's method for the next weights starts.

Source: Kleinman (1968); Hewer (1971) for discrete pairs.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import (
    LinAlgWarning,
    solve_continuous_are,
    solve_continuous_lyapunov,
    solve_discrete_are,
    solve_discrete_lyapunov,
)

from connections.checks import ConvergenceError
from connections.control.laws.gains import unit_diagonal
from connections.control.linear.reachability import power_of_two, state_units

Array = np.ndarray
_ERROR = 1e-6  # of K and P, in units of the cost to go: solutions known less well are not returned
_ROUND_OFF = 1e-14  # smaller corrections change nothing
_QUADRATIC = 1e-3  # corrections below this shrink fast, or are round-off
_ROUGH = 1e-2  # the last correction to a solution that is only the start of another
_REPEATED = 2  # solutions for the first gain: their units come from each other
_LATE = 4  # steps without a better solution: the rest is round-off
_STEPS = 80  # of Newton's method; far away a step halves the cost
_SHORTEST = 1e-3  # step of t
_IDLE = 1e-12  # of the largest cost to go, in state units: less, of a component that costs nothing, is none


@dataclass(frozen=True, eq=False)
class _RiccatiProblem:
    """A pair and its weights.

    Parameters
    ----------
    A (n, n), B (n, m), Q (n, n), R (m, m) : as for `lqr`.
    discrete : whether the pair is that of a step.
    units : (n,) those of the state in which A and B are of one size.
    idle : (n,) the components that lead to no cost.
    """

    A: Array
    B: Array
    Q: Array
    R: Array
    discrete: bool
    units: Array
    idle: Array

    def weighted(self, Q: Array, R: Array) -> _RiccatiProblem:
        """The pair (A, B) with other weights."""
        return _RiccatiProblem(self.A, self.B, Q, R, self.discrete, self.units, self.idle)


def solve_riccati(A: Array, B: Array, Q: Array, R: Array, discrete: bool) -> tuple[Array, Array]:
    """K (m, n) and P (n, n) of a pair that can be stabilized, with weights that see what does not decay.

    Parameters
    ----------
    A (n, n), B (n, m), Q (n, n), R (m, m), discrete : as for `lqr`, checked by the caller.

    Raises
    ------
    ConvergenceError : no gain was found whose error, relative to the units of the cost to go, is below 1e-6.

    Source: Kleinman (1968); Hewer (1971).
    """
    problem = _RiccatiProblem(A, B, Q, R, discrete, state_units(A, B), _idle(A, Q))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # errors are measured
        warnings.filterwarnings("ignore", "Input .a. has an eigenvalue pair", RuntimeWarning)
        try:
            return _corrected(problem, *_by_scipy(problem))
        except ConvergenceError:
            return _along_path(problem)


# --- private ---------------------------------------------------------------------------------------------


def _idle(A: Array, Q: Array) -> Array:
    """The components (n,) that neither cost anything nor act, by way of others, on one that does."""
    seen = Q.any(axis=1)
    while True:
        more = seen | (A[seen] != 0.0).any(axis=0)
        if (more == seen).all():
            return np.asarray(~seen)
        seen = more


def _by_scipy(problem: _RiccatiProblem) -> tuple[Array, Array]:
    """A gain (m, n) by `scipy.linalg`, and units (n,) of its cost.

    SciPy's equation is in units in which what costs anything costs one. With rate the unit of 1/time and
    rate push^2 that of P, it is that of A / rate, push B, R and Q / (rate push)^2, whose quadratic and
    constant terms are of one size.
    """
    x, u = _cost_units(problem.A, problem.B, problem.Q), power_of_two(np.diag(problem.R) ** -0.5)
    A, B = problem.A * x / x[:, None], problem.B * u / x[:, None]
    Q, R = problem.Q * np.outer(x, x), problem.R * np.outer(u, u)
    rate = 1.0 if problem.discrete else float(power_of_two(np.linalg.norm(A, 2) or 1.0))
    quadratic = np.linalg.norm(B @ np.linalg.solve(R, B.T), 2) or 1.0
    constant = np.linalg.norm(Q, 2) or 1.0
    push = float(power_of_two((constant / quadratic) ** 0.25 * rate**-0.5))
    A, B, Q = A / rate, push * B, Q / (rate * push) ** 2
    try:
        P = (solve_discrete_are if problem.discrete else solve_continuous_are)(A, B, Q, R)
        weight, pull = (R + B.T @ P @ B, B.T @ P @ A) if problem.discrete else (R, B.T @ P)
        K = np.linalg.solve(weight, pull)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise _unsolved(problem, str(error)) from error
    _require_decay(problem, A - B @ K)
    d = np.where(np.diag(P) > 0.0, np.diag(P), 1.0)
    return np.asarray(K * (rate * push) * u[:, None] / x), x * power_of_two(d**-0.5)


def _along_path(problem: _RiccatiProblem) -> tuple[Array, Array]:
    """`solve_riccati` from a well scaled problem of the same pair, by way of weights between."""
    x = problem.units
    A = problem.A * x / x[:, None]
    rate = 1.0 if problem.discrete else float(power_of_two(np.linalg.norm(A, 2) or 1.0))
    A, B = A / rate, problem.B / x[:, None] / rate
    reach = np.linalg.norm(B, axis=0)
    u = power_of_two(1.0 / np.where(reach > 0.0, reach, 1.0))
    Q, R = problem.Q * np.outer(x, x) / rate, problem.R * np.outer(u, u) / rate
    end = _RiccatiProblem(A, B * u, Q, R, problem.discrete, np.ones(len(A)), problem.idle)
    q, r = (np.sqrt(np.diag(weight)) for weight in (Q, R))
    q = np.where(q > 0.0, q, 1.0)
    shape_q, shape_r = unit_diagonal(Q), unit_diagonal(R)
    start = end.weighted(shape_q, shape_r)
    (K, unit), done, step = _by_scipy(start), 0.0, 0.125
    while done < 1.0:
        t = min(1.0, done + step)
        between = end.weighted(shape_q * np.outer(q**t, q**t), shape_r * np.outer(r**t, r**t))
        try:
            K, P = _corrected(end, K, unit) if t == 1.0 else _corrected(between, K, unit, rough=True)
            unit = _balanced(end, P)[1]
            done, step = t, 1.5 * step
        except ConvergenceError:
            step /= 2.0
            if step < _SHORTEST:
                raise
    return K * u[:, None] / x, P / np.outer(x, x)


def _corrected(problem: _RiccatiProblem, K: Array, x: Array, rough: bool = False) -> tuple[Array, Array]:
    """K (m, n) and P (n, n) by Newton's method from a gain that stabilizes, with an error below `_ERROR`.

    x (n,) are units in which its cost has a diagonal of about one. The error is the last correction, or, if
    round-off keeps the corrections from becoming smaller, the largest one since then. With `rough`, that of P
    may be `_ROUGH`: another problem starts from it.
    """
    n = len(problem.A)
    P, best, known, late = np.zeros((n, n), dtype=np.longdouble), np.inf, np.inf, 0
    K = K.astype(np.longdouble)
    found = K, P
    for count in range(_STEPS):
        change = _lyapunov(problem.A - problem.B @ K, _residual(problem, K, P), x, problem.discrete)
        before, (P, x) = P, _balanced(problem, P + change)
        if count < _REPEATED:
            continue
        gain = _gain(problem, P, K)
        error = float(np.abs((P - before) * np.outer(x, x)).max())
        worst, K = max(error, _difference(gain, K, x)), gain
        late = 0 if worst < best / 2.0 else late + 1
        known = max(known, worst) if late else worst  # how much the best ones differ from each other
        if worst < best:
            best, found = worst, (K, P)
        if best < _ROUND_OFF or (best < _QUADRATIC and late == _LATE) or (rough and error < _ROUGH):
            break
    if not (rough and error < _ROUGH or known < _ERROR):
        raise _unsolved(problem, f"the gain and the cost to go are known to {known:.1e} only")
    K, P = found
    _require_decay(problem, ((problem.A - problem.B @ K) * x / x[:, None]).astype(float))
    return K.astype(float), P.astype(float)


def _residual(problem: _RiccatiProblem, K: Array, P: Array) -> Array:
    """F^T P + P F + Q + K^T R K, or F^T P F - P + Q + K^T R K, (n, n) in long numbers."""
    A, B, Q, R = (a.astype(np.longdouble) for a in (problem.A, problem.B, problem.Q, problem.R))
    F = A - B @ K
    cost = Q + K.T @ R @ K
    if problem.discrete:
        return np.asarray(F.T @ P @ F - P + cost)
    return np.asarray(F.T @ P + P @ F + cost)


def _lyapunov(F: Array, W: Array, x: Array, discrete: bool) -> Array:
    """X (n, n) with F^T X + X F = -W, or F^T X F - X = -W, solved in units x (n,).

    Components are sorted by rate, the fastest first: the rotations of a Schur decomposition keep such a
    grading, and with it the digits of slow components.
    """
    F, W = ((a * b).astype(float) for a, b in ((F, x / x[:, None]), (W, np.outer(x, x))))
    order = np.argsort(-np.abs(np.diag(F)), kind="stable")
    places = np.ix_(order, order)
    X = np.empty_like(F)
    try:
        if discrete:
            X[places] = solve_discrete_lyapunov(F[places].T, W[places])
        else:
            X[places] = solve_continuous_lyapunov(F[places].T, -W[places])
    except (np.linalg.LinAlgError, ValueError) as error:
        raise ConvergenceError(f"the cost of a gain of {len(F)} states was not found: {error}") from error
    return np.asarray(X / np.outer(x, x))


def _balanced(problem: _RiccatiProblem, P: Array) -> tuple[Array, Array]:
    """P (n, n) made symmetric, and the units (n,) in which its diagonal is one, to powers of two.

    The rows of components that lead to no cost are zero if they are round-off.
    """
    P = (P + P.T) / 2.0
    d = np.diag(P).astype(float)
    known = d * problem.units**2
    nothing = problem.idle & (known <= _IDLE * known.max())
    P = np.where(nothing[:, None] | nothing, 0.0, P)
    if not np.isfinite(P).all() or not (d[~nothing] > 0.0).all():
        raise _unsolved(problem, "a cost to go is not positive")
    return P, power_of_two(np.where(nothing, problem.units**-2.0, d) ** -0.5)


def _gain(problem: _RiccatiProblem, P: Array, K: Array) -> Array:
    """K (m, n) of a cost to go, from another gain: K + M^-1 (B^T P F - R K), M = R + B^T P B if discrete.

    Of a continuous pair, M = R and the bracket is B^T P - R K. M is scaled to a unit diagonal, and may be
    nearly singular even so; then the bracket, in long numbers, repairs from call to call what solving loses.
    """
    A, B, R = (a.astype(np.longdouble) for a in (problem.A, problem.B, problem.R))
    pull = B.T @ P
    weight = R + pull @ B if problem.discrete else R
    rest = (pull @ (A - B @ K) if problem.discrete else pull) - R @ K
    size = np.sqrt(np.diag(weight))
    scaled = (weight / np.outer(size, size)).astype(float)
    try:
        step = np.linalg.solve(scaled, (rest / size[:, None]).astype(float))
    except np.linalg.LinAlgError as error:
        raise _unsolved(problem, f"the gain was not found: {error}") from error
    return np.asarray(K + step / size[:, None])


def _difference(gain: Array, other: Array, x: Array) -> float:
    """The largest difference of two gains (m, n), relative to the row, the state in units x (n,)."""
    change, size = np.abs((gain - other) * x).max(axis=1), np.abs(gain * x).max(axis=1)
    return float((change / np.where(size > 0.0, size, np.inf)).max())


def _require_decay(problem: _RiccatiProblem, loop: Array) -> None:
    """Raise `ConvergenceError` unless the closed loop (n, n) decays."""
    values = np.linalg.eigvals(loop) if np.isfinite(loop).all() else np.array([np.inf])
    margin = (np.abs(values) - 1.0).max() if problem.discrete else values.real.max()
    if not margin < 0.0:
        n = len(problem.A)
        raise ConvergenceError(f"the Riccati equation of {n} states left a closed loop that does not decay")


def _unsolved(problem: _RiccatiProblem, why: str) -> ConvergenceError:
    """The error that says why."""
    return ConvergenceError(f"the Riccati equation of {len(problem.A)} states was not solved: {why}")


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
