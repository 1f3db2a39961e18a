"""Whether a gain can stabilize xdot = A x + B u, whatever the units.

All that does not decay by itself has to be reached by an input. Ranks tell that while the pair is of one size
in some units (`reachability`). Where they say no, although entries differ by many powers of ten, a gain is
looked for: one that stabilizes this pair and all its neighbours proves that they are wrong. Neighbours differ
entry by entry, relative to each entry, which means the same in all units.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from connections.checks import ConvergenceError, require_bool
from connections.control.linear.reachability import (
    RANK,
    StabilizabilityError,
    beyond_reach,
    checked_pair,
    lasting,
    norm_in_units,
    power_of_two,
    within_digits,
)
from connections.control.linear.riccati import solve_riccati

_EFFORT = 1e-12  # of the cost of states beside that of inputs: the gain is the smallest there is
_NEIGHBOURS = 4  # pairs of them, on both sides of the given one


@within_digits()
def require_stabilizable(
    A: Any, B: Any, *, discrete: bool = False, names: Sequence[str] | None = None
) -> None:
    """Raise `StabilizabilityError` unless all that no input reaches decays by itself.

    The pair is constant: that of one moving state does not say what its motion can reach.

    Parameters
    ----------
    A, B, discrete, names : as for `lqr`.

    Raises
    ------
    StabilizabilityError, ShapeError, NonFiniteError, TypeError; ConvergenceError: the numbers of the pair
    overflow.

    Examples
    --------
    >>> from connections import control
    >>> control.require_stabilizable([[0.0, 1.0], [0.0, 0.0]], [[0.0], [1.0]])
    >>> control.require_stabilizable([[1.0, 0.0], [0.0, -1.0]], [[0.0], [1.0]], names=["tilt", "spin"])
    Traceback (most recent call last):
        ...
    connections.control.linear.reachability.StabilizabilityError: no input reaches: 1 of 2 directions
    of the state, with eigenvalues 1: 1 tilt

    Source: Hautus (1969): w^T [A - lambda 1, B] = 0 for no lambda that does not decay.
    """
    require_bool("discrete", discrete)
    A, B, names = checked_pair(A, B, names)
    size = norm_in_units(A, B)
    found = beyond_reach(A, B, lambda value: lasting(value, size, discrete))
    if found is not None and not _is_stabilized(A, B, discrete):
        raise StabilizabilityError("no input reaches", *found, names)


def _is_stabilized(A: np.ndarray, B: np.ndarray, discrete: bool) -> bool:
    """Whether a gain was found that stabilizes the pair and those that differ by 1e-10 of every entry.

    Of a direction that is reached by round-off alone, one of two neighbours on opposite sides grows.
    """
    if not B.shape[1]:
        return False
    x, u, rate = _even_units(A, B, discrete)
    A, B, rng = A * x / x[:, None] / rate, B * u / x[:, None], np.random.default_rng(0)
    try:
        K, _ = solve_riccati(A, B, _EFFORT * np.eye(len(A)), np.eye(B.shape[1]), discrete)
    except ConvergenceError:
        return False
    for _ in range(_NEIGHBOURS):
        changes = [RANK * rng.uniform(-1.0, 1.0, matrix.shape) for matrix in (A, B)]
        for sign in (1.0, -1.0):
            F, G = (matrix * (1.0 + sign * change) for matrix, change in zip((A, B), changes, strict=True))
            values = np.linalg.eigvals(F - G @ K)
            if not (np.abs(values) - 1.0 if discrete else values.real).max() < 0.0:
                return False
    return True


def _even_units(A: np.ndarray, B: np.ndarray, discrete: bool) -> tuple[np.ndarray, np.ndarray, float]:
    """Powers of two x (n,), u (m,), and a rate: A_ij x_j / (x_i rate) and B_ij u_j / x_i are near one.

    Least squares of their logarithms, over all entries that are not zero: other units of the pair lead to the
    same numbers. The rate of a discrete pair is one.
    Source: Curtis and Reid (1972).
    """
    n, m = B.shape
    i, j = np.nonzero(np.hstack([A, B]))
    equations, place = np.zeros((len(i), n + m + 1)), np.arange(len(i))
    np.add.at(equations, (place, j), 1.0)
    np.add.at(equations, (place, i), -1.0)
    equations[:, -1] = -1.0 * ((j < n) & (not discrete))
    logarithms = np.log2(np.abs(np.hstack([A, B])[i, j]))
    units = power_of_two(2.0 ** np.linalg.lstsq(equations, -logarithms, rcond=None)[0])
    return units[:n], units[n : n + m], float(units[-1])
