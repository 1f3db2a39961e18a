"""Which states of xdot = A x + B u an input reaches, and which of the others do not decay by themselves.

The reachable states are the range of [B, A B, A^2 B, ...]; what is orthogonal to them moves by itself, with
eigenvalues of its own (Kalman's decomposition). A gain that stabilizes exists if these decay.
Source: Kalman (1963); Hautus (1969).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.linalg import matrix_balance, null_space, schur
from scipy.sparse.csgraph import connected_components

from connections._jax import ArrayLike
from connections._shown import Shown
from connections.checks import (
    ConvergenceError,
    ShapeError,
    as_array,
    require_finite,
    require_names,
    require_untraced,
)
from connections.evaluation.boundary import returns_input_kind
from connections.geometry.numerics.scales import balance

RANK = 1e-10  # singular values below this, of matrices of norm one, are of directions that are not reached
_NOTHING = 1e-6  # a balanced rate this small beside the others is round-off: the root of two entries' product
_DECAY = 1e-7  # eigenvalues this near to the boundary of stability, relative to |A|, do not count as decaying
_LISTED = 6  # at most so many names, or components, in a message


class StabilizabilityError(Shown, ValueError):
    """Some of what does not decay by itself cannot be reached by the input.

    Parameters
    ----------
    what : what is asked of the pair.
    eigenvalues : (k,) of the modes that are out of reach and do not decay, 1/s (of a discrete pair, none);
        a part that is round-off beside the size of A is zero.
    directions : (n, k) orthonormal: the combinations directions^T x of the state move by themselves.
    names : (n,) of the components of the state.

    Examples
    --------
    >>> from connections import control
    >>> control.lqr([[1.0, 0.0], [0.0, -1.0]], [[0.0], [1.0]], 1.0, 1.0, names=["tilt", "spin"])
    Traceback (most recent call last):
        ...
    connections.control.linear.reachability.StabilizabilityError: no input reaches: 1 of 2 directions
    of the state, with eigenvalues 1: 1 tilt
    """

    def __init__(
        self, what: str, eigenvalues: np.ndarray, directions: np.ndarray, names: Sequence[str]
    ) -> None:
        self.eigenvalues, self.directions = eigenvalues, directions
        counts = Counter(_value(value) for value in eigenvalues)
        listed = [value if times == 1 else f"{value} ({times} times)" for value, times in counts.items()]
        values = ", ".join(listed[:_LISTED])
        combinations = "; ".join(_combination(column, names) for column in directions.T[:_LISTED])
        count = f"{directions.shape[1]} of {directions.shape[0]} directions of the state"
        super().__init__(f"{what}: {count}, with eigenvalues {values}: {combinations}")


@contextmanager
def within_digits() -> Iterator[None]:
    """Raise `ConvergenceError` where linear algebra of a pair has no result, because its numbers overflow."""
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            yield
    except ValueError as error:
        if type(error) not in (ValueError, np.linalg.LinAlgError):
            raise  # ours
        raise ConvergenceError(f"the numbers of A and B are too far from one: {error}") from error


@returns_input_kind
@within_digits()
def reachable_directions(A: ArrayLike, B: ArrayLike) -> np.ndarray:
    """Orthonormal basis (n, r) of the states that an input leads to from zero: the range of [B, A B, ...].

    Parameters
    ----------
    A : (n, n).
    B : (n, m).

    Built step by step from orthonormal blocks, so that no power of A is formed.

    Raises
    ------
    ShapeError, NonFiniteError, TypeError; ConvergenceError: the numbers of the pair overflow.

    Examples
    --------
    >>> from connections import control
    >>> abs(control.reachable_directions([[0.0, 1.0], [0.0, 0.0]], [[1.0], [0.0]]))
    array([[1.],
           [0.]])

    Source: Kalman's decomposition.
    """
    A, B, _ = checked_pair(A, B, None)
    units = state_units(A, B)
    return np.linalg.qr(units[:, None] * _reached(A * units / units[:, None], B / units[:, None]))[0]


def state_units(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Powers of two t (n,): in the units t of the components, x = t y, their rates of change are of one size.

    Components that act on each other are balanced; those on which others act, or inputs, get the unit in
    which these actions are as large as the others. What is round-off beside them counts as no action.

    Parameters
    ----------
    A : (n, n).
    B : (n, m).

    Source: Parlett and Reinsch (1969), by `scipy.linalg.matrix_balance`.
    """
    t, rates, count, group = _balanced(np.abs(A))
    acts, norm = rates > 0.0, float(rates.max()) or 1.0
    pushed = np.stack([np.max(np.abs(B[group == c]) / t[group == c, None], axis=0) for c in range(count)])
    rows, _ = (np.asarray(a) for a in balance(jnp.asarray(pushed)))
    factor = np.where(pushed.any(axis=1), rows, np.nan)  # of every group; NaN if not known yet
    while True:
        known = np.isfinite(factor)[group]
        into = np.where(acts & known[None, :] & ~known[:, None], rates * factor[group], 0.0).max(axis=1)
        fresh = np.array([into[group == c].max() for c in range(count)])
        if not fresh.any():
            break
        factor = np.where(fresh > 0.0, fresh / norm, factor)
    t *= np.where(np.isfinite(factor), factor, 1.0)[group]
    return power_of_two(t)


def _balanced(rates: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """t (n,), the rates (n, n) in these units, and the groups that act on each other: how many, and whose.

    Balanced rates within groups are in 1/s whatever the units were: those that are round-off beside the
    largest are dropped, and must not enter the units.
    """
    while True:
        with np.errstate(invalid="ignore"):  # SciPy casts the units to the places of a permutation
            t = np.diag(matrix_balance(rates, permute=False)[1]).copy()
        seen = rates * t / t[:, None]
        count, group = connected_components(seen > 0.0, connection="strong")
        inside = np.where(group[:, None] == group, seen, 0.0)
        nothing = (inside <= _NOTHING * inside.max()) & (inside > 0.0)
        if not nothing.any():
            return t, seen, count, group
        rates = np.where(nothing, 0.0, rates)


def power_of_two(x: Any) -> np.ndarray:
    """The nearest power of two of positive numbers: a unit that changes no digit."""
    return np.asarray(2.0 ** np.round(np.log2(x)))


def _reached(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """`reachable_directions` in units in which all is of one size."""
    A, B = A / (np.linalg.norm(A, 2) or 1.0), B / np.where(B.any(axis=0), np.linalg.norm(B, axis=0), 1.0)
    basis, block = np.zeros((len(A), 0)), B
    while block.shape[1]:
        for _ in range(2):  # twice is enough
            block = block - basis @ (basis.T @ block)
        left, sizes, _ = np.linalg.svd(block, full_matrices=False)
        new = left[:, sizes > RANK]
        basis = np.concatenate([basis, new], axis=1)
        block = A @ new
    return basis


def require_detectable(A: np.ndarray, Q: np.ndarray, *, discrete: bool, names: Sequence[str]) -> None:
    """Raise `StabilizabilityError` if a mode on the boundary of stability costs nothing: no gain is best.

    Parameters
    ----------
    A, discrete, names : as for `lqr`.
    Q : (n, n), the weight of the state.
    """
    norm = norm_in_units(A, Q)

    def neutral(value: complex) -> bool:
        distance = abs(value) - 1.0 if discrete else value.real
        return abs(distance) <= _DECAY * max(norm, 1.0 if discrete else 0.0)

    found = beyond_reach(A.T, Q, neutral)
    if found is not None:
        raise StabilizabilityError("weight Q: it is without cost to move along", *found, names)


def norm_in_units(A: np.ndarray, B: np.ndarray) -> float:
    """|A| in the units of the state."""
    units = state_units(A, B)
    return float(np.linalg.norm(A * units / units[:, None], 2))


def lasting(value: complex, size: float, discrete: bool) -> bool:
    """Whether a mode with this eigenvalue of a matrix of a size does not decay."""
    return bool(abs(value) >= 1.0 - _DECAY * max(size, 1.0) if discrete else value.real >= -_DECAY * size)


def beyond_reach(
    A: np.ndarray, B: np.ndarray, counts: Callable[[complex], bool]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Eigenvalues (k,) and orthonormal covectors (n, k) of what B does not reach and `counts`; or None."""
    units = state_units(A, B)
    A = A * units / units[:, None]
    basis = _reached(A, B / units[:, None])
    if basis.shape[1] == len(A):
        return None
    rest = null_space(basis.T) if basis.shape[1] else np.eye(len(A))
    T, Z, k = schur((rest.T @ A @ rest).T, sort=lambda re, im: counts(complex(re, im)))
    if not k:
        return None
    values, size = np.linalg.eigvals(T[:k, :k]), float(np.linalg.norm(A, 2))
    real, imag = (np.where(np.abs(x) <= _DECAY * size, 0.0, x) for x in (values.real, values.imag))
    return real + 1j * imag if imag.any() else real, np.linalg.qr(rest @ Z[:, :k] / units[:, None])[0]


def checked_pair(A: Any, B: Any, names: Sequence[str] | None) -> tuple[np.ndarray, np.ndarray, Sequence[str]]:
    """A (n, n), B (n, m) and the names of the components, checked; x[0], x[1], ... if None."""
    require_untraced(A=A, B=B)
    A, B = (np.asarray(as_array(name, value, (None, None))) for name, value in (("A", A), ("B", B)))
    n = len(A)
    if A.shape != (n, n) or not n:
        raise ShapeError("A", ("n", "n"), A.shape)
    if B.ndim != 2 or len(B) != n:
        raise ShapeError("B", (n, "m"), B.shape)
    require_finite("A", A)
    require_finite("B", B)
    names = [f"x[{k}]" for k in range(n)] if names is None else require_names("names", names)
    if len(names) != n:
        raise ShapeError("names", (n,), (len(names),))
    return A, B, names


# --- private ---------------------------------------------------------------------------------------------


def _value(value: complex) -> str:
    """An eigenvalue in four digits."""
    return f"{value.real + 0.0:.4g}" if value.imag == 0.0 else f"{value:.4g}"


def _combination(column: np.ndarray, names: Sequence[str]) -> str:
    """The largest components of a direction, by name."""
    column = column * np.sign(column[np.argmax(np.abs(column))])
    order = [k for k in np.argsort(-np.abs(column), kind="stable") if abs(column[k]) > 1e-3][:_LISTED]
    return " ".join(f"{column[k]:+.3g} {names[k]}" for k in order).removeprefix("+")
