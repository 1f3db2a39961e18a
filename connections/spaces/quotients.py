"""Spheres and positive definite matrices, whose metrics are those of `geometry`."""

from __future__ import annotations

import numpy as np

from connections._jax import ArrayLike
from connections.checks import as_array, require_positive_int, require_untraced
from connections.geometry.affine_invariant import AffineInvariantMetric
from connections.geometry.closed_forms import ClosedFormMetric
from connections.geometry.sphere import RoundMetric, SphereFrame


def sphere(n: int, pole: ArrayLike | None = None) -> ClosedFormMetric:
    """The metric of the unit sphere in R^(n+1), in an orthonormal frame that is singular at its pole.

    Logarithms lead to the pole, too, and distances are those of all points. No components exist at the pole:
    nothing begins there.

    Parameters
    ----------
    n : the dimension; a point q (n + 1,) is a unit vector.
    pole : (n + 1,) unit vector; by default (0, ..., 0, -1).

    Raises
    ------
    PointError : the pole is not of norm one. ShapeError, NonFiniteError; ValueError : there is no such
        dimension.

    Examples
    --------
    >>> import connections as cn
    >>> from connections import spaces
    >>> float(cn.distance(spaces.sphere(2), [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]).round(9))
    1.570796327

    The mean of points around the default pole:

    >>> points = [[0.6, 0.0, -0.8], [-0.6, 0.0, -0.8], [0.0, 0.6, -0.8], [0.0, -0.6, -0.8]]
    >>> cn.mean(spaces.sphere(2, pole=[1.0, 0.0, 0.0]), points).q.round(9) + 0.0
    array([ 0.,  0., -1.])

    Source: `connections/geometry/sphere.py`.
    """
    require_positive_int("n", n)
    require_untraced(pole=pole)
    place = as_array("pole", [*[0.0] * n, -1.0] if pole is None else pole, (n + 1,))
    return RoundMetric(SphereFrame(tuple(np.asarray(place).tolist())))


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
