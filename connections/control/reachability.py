"""Which states of xdot = A x + B u an input reaches, and whether the rest decays by itself.

The reachable states are the range of [B, A B, A^2 B, ...]; what is orthogonal to them moves by itself, with
eigenvalues of its own (Kalman's decomposition). A gain that stabilizes exists where these decay.
Source: Kalman (1963); Hautus (1969).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.linalg import null_space, schur

from connections.checks import ShapeError, as_array, require_finite

_RANK = (
    1e-10  # singular values below this, of matrices of norm one, belong to directions that are not reached
)
_DECAY = 1e-7  # eigenvalues this near to the boundary of stability, relative to |A|, do not count as decaying
_LISTED = 6  # at most so many names, or components, in a message


class StabilizabilityError(ValueError):
    """Some of what does not decay by itself cannot be reached by the input.

    Parameters
    ----------
    what : what is asked of the pair.
    eigenvalues : (k,) of the modes that are out of reach and do not decay, 1/s (of a discrete pair, none).
    directions : (n, k) orthonormal: the combinations directions^T x of the state move by themselves.
    names : (n,) of the components of the state.
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


def reachable_directions(A: Any, B: Any) -> np.ndarray:
    """Orthonormal basis (n, r) of the states that an input leads to from zero: the range of [B, A B, ...].

    Parameters
    ----------
    A : (n, n).
    B : (n, m).

    Built step by step from orthonormal blocks, so that no power of A is formed.

    Raises
    ------
    ShapeError, NonFiniteError, TypeError.

    Source: Kalman's decomposition.
    """
    A, B, _ = checked_pair(A, B, None)
    A, B = A / max(np.linalg.norm(A, 2), 1e-300), B / max(np.linalg.norm(B, 2), 1e-300)
    basis, block = np.zeros((len(A), 0)), B
    while block.shape[1]:
        for _ in range(2):  # twice is enough
            block = block - basis @ (basis.T @ block)
        left, sizes, _ = np.linalg.svd(block, full_matrices=False)
        new = left[:, sizes > _RANK]
        basis = np.concatenate([basis, new], axis=1)
        block = A @ new
    return basis


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
    StabilizabilityError, ShapeError, NonFiniteError, TypeError.

    Source: Hautus (1969): w^T [A - lambda 1, B] = 0 for no lambda that does not decay.
    """
    A, B, names = checked_pair(A, B, names)
    found = _beyond_reach(A, B, lambda value: _lasting(value, A, discrete))
    if found is not None:
        raise StabilizabilityError("no input reaches", *found, names)


def require_detectable(A: np.ndarray, Q: np.ndarray, *, discrete: bool, names: Sequence[str]) -> None:
    """Raise `StabilizabilityError` if a mode on the boundary of stability costs nothing: no gain is best.

    Parameters
    ----------
    A, discrete, names : as for `require_stabilizable`.
    Q : (n, n), the weight of the state.
    """
    size = float(np.linalg.norm(A, 2))

    def neutral(value: complex) -> bool:
        distance = abs(value) - 1.0 if discrete else value.real
        return abs(distance) <= _DECAY * max(size, 1.0 if discrete else 0.0)

    found = _beyond_reach(A.T, Q, neutral)
    if found is not None:
        raise StabilizabilityError("weight Q: it is without cost to move along", *found, names)


def checked_pair(A: Any, B: Any, names: Sequence[str] | None) -> tuple[np.ndarray, np.ndarray, Sequence[str]]:
    """A (n, n), B (n, m) and the names of the components, checked; x[0], x[1], ... if None."""
    A, B = (np.asarray(as_array(name, value, (None, None))) for name, value in (("A", A), ("B", B)))
    n = len(A)
    if A.shape != (n, n) or not n:
        raise ShapeError("A", ("n", "n"), A.shape)
    if B.ndim != 2 or len(B) != n:
        raise ShapeError("B", (n, "m"), B.shape)
    require_finite("A", A)
    require_finite("B", B)
    if names is None:
        names = [f"x[{k}]" for k in range(n)]
    if len(names) != n:
        raise ShapeError("names", (n,), (len(names),))
    return A, B, names


# --- private ---------------------------------------------------------------------------------------------


def _lasting(value: complex, A: np.ndarray, discrete: bool) -> bool:
    """Whether a mode with this eigenvalue of A does not decay."""
    size = float(np.linalg.norm(A, 2))
    return bool(abs(value) >= 1.0 - _DECAY * max(size, 1.0) if discrete else value.real >= -_DECAY * size)


def _beyond_reach(
    A: np.ndarray, B: np.ndarray, counts: Callable[[complex], bool]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Eigenvalues (k,) and orthonormal covectors (n, k) of what B does not reach and `counts`; or None."""
    basis = reachable_directions(A, B)
    if basis.shape[1] == len(A):
        return None
    rest = null_space(basis.T) if basis.shape[1] else np.eye(len(A))
    T, Z, k = schur((rest.T @ A @ rest).T, sort=lambda re, im: counts(complex(re, im)))
    return (np.linalg.eigvals(T[:k, :k]), rest @ Z[:, :k]) if k else None


def _value(value: complex) -> str:
    """An eigenvalue in four digits; round-off of zero is zero."""
    value = complex(round(value.real, 7), round(value.imag, 7))
    return f"{value.real + 0.0:.4g}" if value.imag == 0.0 else f"{value:.4g}"


def _combination(column: np.ndarray, names: Sequence[str]) -> str:
    """The largest components of a direction, by name."""
    column = column * np.sign(column[np.argmax(np.abs(column))])
    order = [k for k in np.argsort(-np.abs(column), kind="stable") if abs(column[k]) > 1e-3][:_LISTED]
    return " ".join(f"{column[k]:+.3g} {names[k]}" for k in order).removeprefix("+")
