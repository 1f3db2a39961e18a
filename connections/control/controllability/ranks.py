"""The rank of a set of vectors by singular values, with the gap that says how clear it is.

Each component of a vector comes with its size, the sum of the absolute values of the terms that were added to
make it. A component below 1e-13 of its size is round-off, that is, zero; one above 1e-7 is certain; between
them it is in doubt. Components are compared with their own terms alone. Then rows and columns are scaled such
that the logarithms of the components that are left are as near zero as possible (least squares), so that a
rank does not depend on the units of components and vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from connections._moved import keep_old_names

Array = np.ndarray[Any, Any]

TOLERANCE = 1e-7
ROUND_OFF = 1e-13  # of the terms of a component: what rounding leaves of them
_BAND = 1e2  # a singular value within this factor of the tolerance is neither zero nor not
_CANCELLED = 1e-2  # times the tolerance: a component below it, beside its terms, is taken as zero


@dataclass(frozen=True, eq=False)
class NumericalRank:
    """A numerical rank.

    Parameters
    ----------
    value : the number of singular values above the tolerance.
    dimension : the largest rank possible.
    singular_values : of the scaled columns, decreasing.
    gap : the last singular value counted over the first not counted, which is taken as no less than 1e-16 of
        the largest; where all are counted, over 1e-16 of the largest.
    clear : whether every singular value is either round-off or 100 times the tolerance, and no component that
        decides the rank is in doubt.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections.control import controllability
    >>> nabla = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(3), jnp.eye(3)))
    >>> rank = controllability.symmetric_closure(nabla, lambda q: jnp.eye(3)[:, :2], [0.0, 0.0, 0.0]).rank
    >>> rank.value, rank.dimension, rank.clear
    (2, 3, True)
    """

    value: int
    dimension: int
    singular_values: Array
    gap: float
    clear: bool

    @property
    def full(self) -> bool:
        """Whether the rank is the largest possible."""
        return self.value >= self.dimension

    def __str__(self) -> str:
        doubt = "" if self.clear else ", not clear"
        return f"{self.value} of {self.dimension} (gap {self.gap:.1e}{doubt})"


@dataclass(frozen=True, eq=False)
class Scaled:
    """Vectors in units in which their components are of size one.

    Parameters
    ----------
    columns : (rows, columns) of unit length, or zero.
    noise : (rows, columns) what round-off may be of each component.
    rows : (rows,) the factors of the rows.
    """

    columns: Array
    noise: Array
    rows: Array


def numerical_rank(values: Array, sizes: Array, dimension: int, tol: float) -> NumericalRank:
    """The rank of columns.

    Parameters
    ----------
    values : (rows, columns).
    sizes : (rows, columns) sums of the absolute values of the terms behind `values`.
    dimension : the largest rank possible.
    tol : on the singular values of the scaled columns, relative to the largest.
    """
    found = [_spectrum(values, sizes, zero) for zero in _zeros(tol)]
    singular, noise = found[1]
    strict, value, loose = (_count(s, tol) for s, _ in found)
    top = singular[0] if len(singular) and singular[0] > 0.0 else 1.0
    rest = singular[value] if value < min(len(singular), dimension) else 0.0
    gap = float(singular[value - 1] / max(rest, 1e-16 * top)) if value else 0.0
    certain = (singular <= min(tol * top, noise)) | (singular >= _BAND * max(tol * top, noise))
    clear = certain[:dimension].all() and strict == value == loose
    return NumericalRank(value, dimension, singular, gap, bool(clear))


def scaled(values: Array, sizes: Array, zero: float) -> Scaled:
    """Vectors in units of their own; components below `zero` times their size are zero."""
    kept = np.abs(values) > zero * sizes
    rows = _row_factors(np.where(kept, values, 0.0))
    columns = rows[:, None] * np.where(kept, values, 0.0)
    lengths = np.linalg.norm(columns, axis=0)
    used = lengths > 0.0
    factors = np.where(used, 1.0 / np.where(used, lengths, 1.0), 0.0)
    return Scaled(columns * factors, ROUND_OFF * rows[:, None] * sizes * factors, rows)


def normalized(values: Array, sizes: Array, tol: float) -> Array:
    """Columns of unit length in the units given; components that are round-off are zero."""
    kept = np.where(np.abs(values) > _CANCELLED * tol * sizes, values, 0.0)
    lengths = np.linalg.norm(kept, axis=0)
    return np.where(lengths > 0.0, kept / np.where(lengths > 0.0, lengths, 1.0), 0.0)


def independent(values: Array, sizes: Array, tol: float) -> list[int]:
    """Places of independent columns that span all; early ones first, unless they are nearly dependent."""
    return _independent(scaled(values, sizes, _CANCELLED * tol).columns, tol)


def outside(vector: Array, size: Array, values: Array, sizes: Array, tol: float) -> tuple[bool, bool]:
    """Whether a vector has a part outside the span of columns, and whether that is clear.

    Parameters
    ----------
    vector, size : (rows,) the vector and the sum of the absolute values of its terms.
    values, sizes : (rows, columns) the same of the columns.
    tol : on that part, relative to the vector.
    """
    together = np.column_stack([values, vector]), np.column_stack([sizes, size])
    found = [_beside(scaled(*together, zero), tol) for zero in _zeros(tol)]
    beside, _ = found[1]
    return beside, all(each == (beside, True) for each in found)


def _beside(vectors: Scaled, tol: float) -> tuple[bool, bool]:
    """Whether the last of the vectors is outside the span of the others, and whether that is certain."""
    *_, vector = vectors.columns.T
    unit = vectors.columns[:, :-1]
    chosen = _independent(unit, tol)
    basis = np.linalg.qr(unit[:, chosen])[0] if chosen else np.zeros((len(vector), 0))
    rest = float(np.linalg.norm(vector - basis @ (basis.T @ vector)))
    noise = float(np.linalg.norm(vectors.noise))
    return rest > tol, rest <= min(tol, noise) or rest >= _BAND * max(tol, noise)


def _independent(unit: Array, tol: float) -> list[int]:
    chosen: list[int] = []
    basis = np.zeros((len(unit), 0))
    for threshold in (1e-2, tol):
        for place in range(unit.shape[1]):
            rest = unit[:, place] - basis @ (basis.T @ unit[:, place])
            rest = rest - basis @ (basis.T @ rest)
            length = np.linalg.norm(rest)
            if place not in chosen and length > threshold:
                chosen.append(place)
                basis = np.column_stack([basis, rest / length])
    return sorted(chosen)


def _zeros(tol: float) -> tuple[float, float, float]:
    """Thresholds of zero beside a number's terms: of doubt, the one in use, and of round-off alone."""
    return _BAND * _CANCELLED * tol, _CANCELLED * tol, min(ROUND_OFF, _CANCELLED * tol)


def _spectrum(values: Array, sizes: Array, zero: float) -> tuple[Array, float]:
    """Singular values of the scaled columns, and what round-off may be of one."""
    if not values.size:
        return np.zeros(0), 0.0
    vectors = scaled(values, sizes, zero)
    return np.linalg.svd(vectors.columns, compute_uv=False), float(np.linalg.norm(vectors.noise))


def _count(singular: Array, tol: float) -> int:
    return int(np.sum(singular > tol * singular[0])) if len(singular) and singular[0] > 0.0 else 0


def _row_factors(values: Array) -> Array:
    """f (rows,) of the scaling |f_i c_j values_ij| that is nearest to one in logarithms, zeros left out."""
    kept = values != 0.0
    logarithms = np.log(np.abs(np.where(kept, values, 1.0)))
    counts = np.maximum(kept.sum(axis=0), 1)
    normal = np.diag(kept.sum(axis=1).astype(float)) - (kept / counts) @ kept.T
    right = logarithms.sum(axis=1) - (kept / counts) @ logarithms.sum(axis=0)
    return np.asarray(np.exp(-np.linalg.lstsq(normal, right, rcond=1e-10)[0]))


keep_old_names(__name__)
