"""Quadratic programs, by active sets: a result keeps its bounds and is optimal, or there is none.

    minimize x P x / 2 + c x    with    lower <= G x <= upper.

DAQP [1] is fast, and sometimes wrong: where many bounds meet it may call a program infeasible that is not, or
return a point beyond bounds. So the bounds that it calls active are solved as equations, and the result is
accepted only if it satisfies the conditions of optimality. Otherwise the program is solved as a least
distance to a polyhedron, by non-negative least squares [2], which ends with a result, or with multipliers
that prove that there is none.

Source: [1] Arnstrom, Bemporad and Axehill, A dual active-set solver for embedded quadratic programming using
recursive LDL' updates, 2022. [2] Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from connections._distribution import how_to_install
from connections.checks import ConvergenceError

_BEYOND = 1e-11  # by which a result may be beyond a bound, of rows whose length is at most about one
_ENOUGH = 1e-8  # the same of DAQP, whose result says which bounds are active
_PULLS = 1e-8  # a multiplier of the wrong sign, of the largest one or of c, that is round-off
_SUMMED = 4.0 * np.finfo(float).eps  # the same, of the largest sum of the terms of P x
_FARTHEST = (
    1e6  # a program without a point within this distance has none: its unknowns are of the size of one
)
_DEPENDENT = 1e-9  # a row of active bounds that the others determine but for this
_ROUNDS = 20  # of exchanging bounds until the conditions of optimality hold
_OPTIMAL = 1  # exit flag of DAQP


class QuadraticProgram(NamedTuple):
    """Minimize x P x / 2 + c x with lower <= G x <= upper."""

    P: np.ndarray  #: (n, n) symmetric, positive definite
    c: np.ndarray  #: (n,)
    G: np.ndarray  #: (k, n)
    upper: np.ndarray  #: (k,)
    lower: np.ndarray  #: (k,)


def solved(
    program: QuadraticProgram, what: str, guess: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray] | None:
    """The least x (n,) and multipliers (k,), which are positive at upper bounds; None if no x keeps them all.

    Parameters
    ----------
    program : whose unknowns are of the size of one, because tolerances are absolute.
    what : needs this, for errors.
    guess : the multipliers of a similar program, whose active bounds are tried first; whether they are given
        changes x by round-off.

    Raises
    ------
    ConvergenceError : no method finds a result that satisfies the conditions of optimality, nor a proof that
        there is none. ImportError : DAQP is not installed.
    """
    solve = solver(what)
    program = QuadraticProgram(*map(np.ascontiguousarray, program))  # DAQP reads other arrays as if they were
    for start in [guess] * (guess is not None and len(guess) == len(program.G)) + [None]:
        _, _, flag, info = solve(*program, dual_start=start, primal_tol=_ENOUGH)
        found = optimal(program, info["lam"]) if flag == _OPTIMAL and np.isfinite(info["lam"]).all() else None
        if found is not None:
            return found
    multipliers, proven = least_distance(program)
    if proven:
        return None
    found = optimal(program, multipliers)
    if found is None:
        raise ConvergenceError(f"{what}: no active set satisfies the conditions of optimality")
    return found


def optimal(program: QuadraticProgram, multipliers: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """x (n,) and multipliers (k,) that satisfy the conditions of optimality; None if there are none nearby.

    Bounds that are active are equations; one that pulls is given up, one that is violated is taken in.

    Parameters
    ----------
    program : the program.
    multipliers : (k,) finite; a positive one says that an upper bound may be active, a negative one a lower.
    """
    side = np.where(
        np.isfinite(np.where(multipliers > 0.0, program.upper, program.lower)), np.sign(multipliers), 0.0
    )
    for _ in range(_ROUNDS):
        active = np.flatnonzero(side)
        values = np.where(side > 0.0, program.upper, program.lower)[active]
        x, own, independent = _on_bounds(program, active, values)
        side[active[~independent]] = 0.0
        size = _PULLS * max(np.abs(program.c).max(initial=0.0), np.abs(own).max(initial=0.0))
        size = max(size, _SUMMED * (np.abs(program.P) @ np.abs(x)).max(initial=0.0))
        pulls, at = own * side[active], program.G @ x
        beyond = np.maximum(at - program.upper, program.lower - at)
        if len(active) and pulls.min() < -size:
            side[active[np.argmin(pulls)]] = 0.0
        elif beyond.max(initial=0.0) > _BEYOND:
            worst = int(np.argmax(beyond))
            if side[worst] != 0.0:  # it is active, so its equation could not be met
                return None
            side[worst] = 1.0 if at[worst] > program.upper[worst] else -1.0
        else:
            found = np.zeros(len(side))
            found[active] = own
            return x, found
    return None


def _on_bounds(
    program: QuadraticProgram, active: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The least x (n,) with G x = values on the active rows, their multipliers, and which are independent."""
    from scipy.linalg.lapack import dgeqp3, dorgqr, dtrtrs

    P, c, rows = program.P, program.c, program.G[active]
    n, m = len(c), len(active)
    if m == 0:
        return -np.linalg.solve(P, c), np.zeros(0), np.zeros(0, dtype=bool)
    R, order, tau, _, _ = dgeqp3(rows.T)
    sizes = np.abs(np.diag(R))
    rank = int(np.count_nonzero(sizes > _DEPENDENT * sizes[0]))
    reflections = np.zeros((n, n))
    reflections[:, : min(n, m)] = R[:, :n]
    Q, kept = dorgqr(reflections, np.concatenate([tau, np.zeros(n - len(tau))]))[0], order[:rank] - 1
    R, Q1, Q2 = R[:rank, :rank], Q[:, :rank], Q[:, rank:]
    x = Q1 @ dtrtrs(R, values[kept], trans=1)[0]
    x = x - Q2 @ np.linalg.solve(Q2.T @ P @ Q2, Q2.T @ (c + P @ x))
    own, independent = np.zeros(m), np.zeros(m, dtype=bool)
    own[kept], independent[kept] = dtrtrs(R, -Q1.T @ (c + P @ x))[0], True
    return x, own, independent


def least_distance(program: QuadraticProgram) -> tuple[np.ndarray, bool]:
    """Multipliers (k,) of the bounds, and whether they prove that no x of the size of one keeps the bounds.

    With P = L L^T and y = L^T x + L^-1 c, the program asks for the least |y| with F y <= f. The least
    u >= 0 in |(F^T u, 1 + f u)| has the residual (-y, 1) / (1 + |y|^2); if it is zero, u is Farkas'
    certificate: u F = 0 and u f < 0.

    Source: Lawson and Hanson, problem LDP.
    """
    from scipy.optimize import nnls

    L = np.linalg.cholesky(program.P)
    G = np.vstack([program.G, -program.G])
    F = np.linalg.solve(L, G.T).T
    f = np.concatenate([program.upper, -program.lower]) + F @ np.linalg.solve(L, program.c)
    real = np.isfinite(f)
    rows = np.vstack([F[real].T, -f[real]])
    u = np.zeros(len(f))
    u[real], _ = nnls(rows, np.concatenate([np.zeros(len(L)), [1.0]]), maxiter=50 * rows.shape[1])
    u_upper, u_lower = np.split(u, 2)
    multipliers = u_upper - u_lower
    # Any x within the bounds has (u G) x <= u bounds, so that |x| >= -u bounds / |u G|.
    bounds = u[real] @ np.concatenate([program.upper, -program.lower])[real]
    return multipliers, bool(-bounds > _FARTHEST * np.linalg.norm(multipliers @ program.G))


def solver(what: str) -> Any:
    """The function `daqp.solve`.

    Raises
    ------
    ImportError : DAQP is not installed; the message says what needs it, and how to install it.
    """
    found = _daqp()
    if found is None:
        raise ImportError(f"{what} needs DAQP: {how_to_install('whole-body')}")
    return found


@cache
def _daqp() -> Any:
    try:
        import daqp
    except ImportError:
        return None
    return daqp.solve
