"""Validation of a symbolic system: symmetric metric, independent fields, and forms that fit them.

Ranks are those at a generic point: random numbers are substituted for all symbols. At special points ranks
may be lower; the numeric classes check them there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import sympy

from connections._words import words_of
from connections.checks import ConstraintError, FrameError, MetricError, as_number
from connections.symbolic.expressions import tidy, vanishes


def as_coordinates(value: Any) -> tuple[sympy.Symbol, ...]:
    """The coordinates as a tuple of different symbols.

    Raises
    ------
    TypeError : not symbols.
    ValueError : a symbol occurs twice.
    """
    coordinates = tuple(value) if isinstance(value, Iterable) else (value,)
    if not coordinates or not all(isinstance(symbol, sympy.Symbol) for symbol in coordinates):
        raise TypeError(f"coordinates: expected SymPy symbols, got {value!r}")
    if len({symbol.name for symbol in coordinates}) < len(coordinates):
        raise ValueError(f"coordinates: {', '.join(map(str, coordinates))} are not all different")
    return coordinates


def as_parameters(
    given: Mapping[Any, Any] | None, arrays: Iterable[np.ndarray | None], coordinates: Iterable[sympy.Symbol]
) -> dict[sympy.Symbol, float | None]:
    """{symbol: default, or None}: the given ones, and all other symbols of the arrays except coordinates.

    Raises
    ------
    TypeError : a key is no symbol.
    ValueError : a coordinate is among the parameters, or two symbols share a name.
    """
    parameters: dict[sympy.Symbol, float | None] = {}
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"parameters: expected {{symbol: value}}, got {words_of(given)}")
    for symbol, value in (given or {}).items():
        if not isinstance(symbol, sympy.Symbol):
            raise TypeError(f"parameters: expected SymPy symbols as keys, got {symbol!r}")
        parameters[symbol] = None if value is None else as_number(f"parameters[{symbol}]", value)
    names = set(coordinates)
    if names & set(parameters):
        raise ValueError(f"parameters: {min(map(str, names & set(parameters)))} is a coordinate")
    found = {
        symbol for array in arrays if array is not None for entry in array.flat for symbol in _free(entry)
    }
    for symbol in sorted(found - names - set(parameters), key=str):
        parameters[symbol] = None
    clash = {symbol.name for symbol in names} & {symbol.name for symbol in parameters}
    if clash or len({symbol.name for symbol in parameters}) < len(parameters):
        what = "two different symbols have the same name (their assumptions differ)"
        raise ValueError(f"{what}: {', '.join(sorted(clash)) or ', '.join(map(str, parameters))}")
    return parameters


def generic_rank(matrix: np.ndarray) -> int:
    """Rank of a matrix of expressions for generic values of all symbols, in any units of rows and columns."""
    symbols = sorted({symbol for entry in matrix.flat for symbol in _free(entry)}, key=str)
    numbers = np.random.default_rng(7).uniform(0.4, 1.4, size=len(symbols))
    values = {symbol: sympy.Float(number) for symbol, number in zip(symbols, numbers, strict=True)}
    found = np.reshape([complex(sympy.N(entry.xreplace(values))) for entry in matrix.flat], matrix.shape)
    for axis in (1, 0):
        sizes = np.linalg.norm(found, axis=axis, keepdims=True)
        found = found / np.where(sizes > 0.0, sizes, 1.0)
    return int(np.linalg.matrix_rank(found, tol=1e-9))


def require_symmetric(H: np.ndarray) -> None:
    """Raise `MetricError` naming the entry unless H (n, n) equals its transpose."""
    for (i, j), entry in np.ndenumerate(H):
        if i < j and not vanishes(entry - H[j, i]):
            raise MetricError(f"the metric is not symmetric: H[{i}, {j}] = {entry}, H[{j}, {i}] = {H[j, i]}")


def require_frame(X: np.ndarray) -> None:
    """Raise `FrameError` unless the frame X (nq, n) has rank n at a generic point."""
    rank = generic_rank(X)
    if rank < X.shape[1]:
        raise FrameError(f"the frame has rank {rank} of {X.shape[1]} at a generic point")


def require_distribution(A: np.ndarray | None, W: np.ndarray | None) -> None:
    """Check the basis A (n, m) and the forms W (p, n) of a distribution; each may be absent.

    Raises
    ------
    FrameError : the basis lost rank.
    ConstraintError : the forms lost rank, the basis does not satisfy them, or the numbers do not fit.
    """
    if W is not None and generic_rank(W) < len(W):
        raise ConstraintError(f"the constraints have rank {generic_rank(W)} of {len(W)} at a generic point")
    if W is not None and len(W) == W.shape[1]:
        raise ConstraintError(f"{len(W)} constraints leave no motion: there are {W.shape[1]} velocities")
    if A is None:
        return
    n, m = A.shape
    if generic_rank(A) < m:
        raise FrameError(f"the basis has rank {generic_rank(A)} of {m} at a generic point")
    if W is None:
        return
    if m + len(W) != n:
        raise ConstraintError(f"the basis has {m} fields, {len(W)} constraints leave {n - len(W)} of {n}")
    for (i, j), value in np.ndenumerate(W @ A):
        if not vanishes(value):
            raise ConstraintError(
                f"the basis does not satisfy the constraints: form {i} of field {j} is {tidy(value)}"
            )


def _free(entry: Any) -> set[sympy.Symbol]:
    symbols: set[sympy.Symbol] = sympy.sympify(entry).free_symbols
    return symbols
