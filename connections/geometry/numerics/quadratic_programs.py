"""Quadratic programs, solved by DAQP, an active-set method.

    minimize x P x / 2 + c x    with    lower <= G x <= upper.

Source: Arnstrom, Bemporad and Axehill, A dual active-set solver for embedded quadratic programming using
recursive LDL' updates, 2022.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from connections._distribution import how_to_install
from connections.checks import ConvergenceError

_BEYOND = 1e-8  # by which a result may be beyond a bound
# Weight of a step in DAQP's outer iterations, where it cannot solve a program at once: that of a task's row.
# They end at the same point: with 1e-2, 0.1 and 1, torques at 1,800 states agree to 3e-5 of their limits.
_PROXIMAL = 1.0
_OPTIMAL, _INFEASIBLE = 1, -1  # exit flags of DAQP


class Program(NamedTuple):
    """Minimize x P x / 2 + c x with lower <= G x <= upper."""

    P: np.ndarray  #: (n, n) symmetric, positive definite
    c: np.ndarray  #: (n,)
    G: np.ndarray  #: (k, n)
    upper: np.ndarray  #: (k,)
    lower: np.ndarray  #: (k,)


def solved(
    program: Program, what: str, guess: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray] | None:
    """The least x (n,), and the multipliers (k,) of the bounds; None if no x keeps them.

    Parameters
    ----------
    program : whose unknowns are of the size of one, because DAQP's tolerances are absolute.
    what : needs this, for errors.
    guess : the multipliers of a similar program, whose active bounds are tried first.

    Raises
    ------
    ConvergenceError : DAQP fails. ImportError : it is not installed.
    """
    solve, flag = solver(what), 0
    program = Program(*map(np.ascontiguousarray, program))  # DAQP reads other arrays as if they were
    if guess is not None and len(guess) == len(program.G):
        x, _, flag, info = solve(*program, dual_start=guess, primal_tol=_BEYOND)
    if flag != _OPTIMAL:  # also after a guess that leads astray
        x, _, flag, info = solve(*program, primal_tol=_BEYOND)
    if flag != _OPTIMAL:  # DAQP takes round-off in directions that matter little for a contradiction
        x, _, flag, info = solve(*program, primal_tol=_BEYOND, eps_prox=_PROXIMAL)
    if flag == _INFEASIBLE:
        return None
    if flag != _OPTIMAL:
        raise ConvergenceError(f"{what}: DAQP ended with its flag {flag}")
    return np.array(x), np.array(info["lam"])


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
