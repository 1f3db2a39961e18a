"""Spheres and positive definite matrices, whose metrics are those of `geometry`."""

from __future__ import annotations

import numpy as np

from connections.checks import require_positive_int
from connections.geometry.affine_invariant import AffineInvariantMetric
from connections.geometry.closed_forms import ClosedFormMetric
from connections.geometry.sphere import RoundMetric, SphereFrame


def sphere(n: int) -> ClosedFormMetric:
    """The metric of the unit sphere in R^(n+1), in the orthonormal frame that is singular at (0, ..., 0, -1).

    Parameters
    ----------
    n : the dimension; a point q (n + 1,) is a unit vector.

    Examples
    --------
    >>> import connections as cn
    >>> from connections import spaces
    >>> float(cn.distance(spaces.sphere(2), [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]).round(9))
    1.570796327

    Source: `connections/geometry/sphere.py`.
    """
    require_positive_int("n", n)
    return RoundMetric(SphereFrame((*[0.0] * n, -1.0)))


def positive_definite(n: int) -> AffineInvariantMetric:
    """The affine-invariant metric of positive definite matrices, q the entries on and above the diagonal.

    Parameters
    ----------
    n : the number of rows. The coordinates are those of `np.triu_indices(n)`; `coordinates(P)` of the metric
        has them for matrices P (..., n, n), and `matrices(q)` the matrices.

    Examples
    --------
    >>> import connections as cn
    >>> from connections import spaces
    >>> float(cn.distance(spaces.positive_definite(2), [1.0, 0.0, 1.0], [2.0, 0.0, 1.0]).round(9))
    0.693147181

    Source: `connections/geometry/affine_invariant.py`.
    """
    require_positive_int("n", n)
    basis = np.zeros((n * (n + 1) // 2, n, n))
    rows, columns = np.triu_indices(n)
    places = np.arange(len(basis))
    basis[places, rows, columns] = basis[places, columns, rows] = 1.0
    return AffineInvariantMetric(basis)
