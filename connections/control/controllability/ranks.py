"""The rank of a set of vectors by singular values, with the gap that says how clear it is.

Vectors are compared in direction: columns are normalized first. A column that is round-off, that is, small
beside the terms that were added to make it, counts as zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

TOLERANCE = 1e-7
_BAND = 1e2  # a singular value within this factor of the tolerance is neither zero nor not
_CANCELLED = 1e-2  # times the tolerance: size of a column beside its terms, below which it is round-off


@dataclass(frozen=True, eq=False)
class Rank:
    """A numerical rank.

    Parameters
    ----------
    value : the number of singular values above the tolerance.
    dimension : the largest rank possible.
    singular_values : of the normalized columns, decreasing.
    gap : the last singular value counted over the first not counted, which is taken as no less than 1e-16 of
        the largest; where all are counted, over 1e-16 of the largest.
    clear : whether no singular value is within a factor of 100 of the tolerance, and no column that decides
        the rank is nearly round-off.
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


def numerical_rank(values: Array, sizes: Array, dimension: int, tol: float) -> Rank:
    """The rank of columns.

    Parameters
    ----------
    values : (rows, columns).
    sizes : (rows, columns) sums of the absolute values of the terms behind `values`.
    dimension : the largest rank possible.
    tol : on the singular values of the normalized columns, relative to the largest.
    """
    singular = _singular_values(normalized(values, sizes, tol))
    value = _count(singular, tol)
    top = singular[0] if len(singular) and singular[0] > 0.0 else 1.0
    rest = singular[value] if value < min(len(singular), dimension) else 0.0
    gap = float(singular[value - 1] / max(rest, 1e-16 * top)) if value else 0.0
    near = (singular > tol / _BAND * top) & (singular < tol * _BAND * top)
    strict = _count(_singular_values(normalized(values, sizes, tol * _BAND)), tol)
    loose = _count(_singular_values(normalized(values, sizes, tol / _BAND)), tol)
    clear = not near[:dimension].any() and strict == value == loose
    return Rank(value, dimension, singular, gap, bool(clear))


def normalized(values: Array, sizes: Array, tol: float) -> Array:
    """Columns of unit length, or zero where a column is round-off."""
    lengths, terms = np.linalg.norm(values, axis=0), np.linalg.norm(sizes, axis=0)
    kept = lengths > _CANCELLED * tol * terms
    return np.where(kept, values / np.where(kept, lengths, 1.0), 0.0)


def independent(values: Array, sizes: Array, tol: float) -> list[int]:
    """Places of independent columns that span all; early ones first, unless they are nearly dependent."""
    unit = normalized(values, sizes, tol)
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


def outside(vector: Array, size: Array, values: Array, sizes: Array, tol: float) -> tuple[bool, bool]:
    """Whether a vector has a part outside the span of columns, and whether that is clear.

    Parameters
    ----------
    vector, size : (rows,) the vector and the sum of the absolute values of its terms.
    values, sizes : (rows, columns) the same of the columns.
    tol : on that part, relative to the vector.
    """
    length, terms = float(np.linalg.norm(vector)), float(np.linalg.norm(size))
    if length <= _CANCELLED * tol / _BAND * terms:
        return False, True
    chosen = independent(values, sizes, tol)
    unit = normalized(values, sizes, tol)[:, chosen]
    basis = np.linalg.qr(unit)[0] if chosen else np.zeros((len(vector), 0))
    rest = float(np.linalg.norm(vector - basis @ (basis.T @ vector)))
    bound = tol * length + _CANCELLED * tol * terms
    return rest > bound, not bound / _BAND < rest < bound * _BAND


def _singular_values(unit: Array) -> Array:
    return np.linalg.svd(unit, compute_uv=False) if unit.size else np.zeros(0)


def _count(singular: Array, tol: float) -> int:
    return int(np.sum(singular > tol * singular[0])) if len(singular) and singular[0] > 0.0 else 0
