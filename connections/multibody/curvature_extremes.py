"""The most negative and most positive sectional curvature of a robot at a configuration, and their planes.

A plane with an orthonormal basis u, w is the bivector u ^ w, and its sectional curvature is B . R B for the
curvature operator R on bivectors, R_(ij)(kl) with i < j, k < l in an orthonormal basis. So over all planes,

    lower = smallest eigenvalue of R <= sectional curvature <= largest eigenvalue of R = upper,

but an eigenvector need not be a plane if there are four velocities or more. What is attained is found by
maximization over planes, which have many local maxima: for a fixed w, the best u is an eigenvector of
R(., w) w, then comes the best w for this u, and so on, from the planes nearest to several eigenvectors
of R. So

    lower <= minimum <= least,    greatest <= maximum <= upper,

where least and greatest are the curvatures of planes that are returned. Where a pair agrees, the extreme is
proven. Source: the usual definition; the eigenvalues of the curvature operator bound its values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from connections._jax import ArrayLike
from connections.checks import require_untraced
from connections.evaluation.content import by_identity
from connections.multibody.functions import curvature, mass_matrix
from connections.multibody.model import Model, require_model, solved
from connections.multibody.program.closed import SolvedLoops, rows_of

_STARTS = 4  # planes from which the maximization begins, each the nearest one to an eigenvector
_TRIED, _STEPS = 8, 200  # steps of all of them, after which the best one goes on alone; and steps in all
_CONVERGED = 1e-12  # of the largest eigenvalue
_MEMORY = 2**25  # bytes of R that are computed together


@by_identity
class CurvatureExtremes(NamedTuple):
    """Extreme sectional curvatures, 1/(kg m^2), at configurations (...,).

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> found = mb.curvatures.extreme_sectional_curvatures(robot, [0.3, -0.8, 1.2, 0.1, 0.5, 0.0])
    >>> bool(found.lower <= found.least <= found.greatest <= found.upper)
    True
    >>> found.greatest_plane.shape
    (6, 2)
    """

    least: np.ndarray
    """(...,) attained by ``least_plane``."""
    greatest: np.ndarray
    """(...,) attained by ``greatest_plane``."""
    least_plane: np.ndarray
    """(..., nv, 2) two columns, orthonormal in the mass matrix, velocities of 1/2 J each."""
    greatest_plane: np.ndarray
    """(..., nv, 2) the same."""
    lower: np.ndarray
    """(...,) no plane has a smaller curvature."""
    upper: np.ndarray
    """(...,) no plane has a larger one."""
    scalar: np.ndarray
    """(...,) the scalar curvature, twice the sum of the curvatures of nv (nv - 1) / 2 orthogonal planes."""


def extreme_sectional_curvatures(model: Model, q: ArrayLike | SolvedLoops) -> CurvatureExtremes:
    """The most negative and most positive sectional curvature over all planes, with proven bounds.

    Parameters
    ----------
    model : the robot, with two velocities or more.
    q : (..., nq) configurations, or `SolvedLoops`.

    Returns
    -------
    CurvatureExtremes : ``lower`` and ``upper`` are proven bounds, up to round-off. ``least`` and ``greatest``
        are the curvatures of the planes that are returned, the best that a maximization from four starts
        found. The true extremes lie between them and the bounds. With three velocities or less, both are
        equal.

    Raises
    ------
    ValueError : there is one velocity, and a plane needs two.
    TypeError : JAX traces.
    MetricError : H is singular.
    ShapeError, NonFiniteError, PointError, ClosureError : as the recursions.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> found = mb.curvatures.extreme_sectional_curvatures(robot, robot.neutral())
    >>> bool(found.lower <= found.least < found.greatest <= found.upper)
    True

    Source: [L] chapter 8; the eigenvalues of the curvature operator.
    """
    require_model("extreme_sectional_curvatures", model)
    require_untraced(q=q)
    if model.nv < 2:
        raise ValueError("extreme_sectional_curvatures: a plane needs two velocities, and the robot has one")
    points = solved(model, q)
    H, n = mass_matrix(model, points), model.nv
    batch, rows, points = H.shape[:-2], H.reshape(-1, n, n), rows_of(points)
    size, parts = max(_MEMORY // (8 * n**4), 1), []
    for first in range(0, max(len(rows), 1), size):
        piece = slice(first, first + size)
        parts.append(_extremes(rows[piece], curvature(model, points[piece])))
    return CurvatureExtremes(
        *(np.concatenate(each).reshape((*batch, *each[0].shape[1:])) for each in zip(*parts, strict=True))
    )


# --- private ---------------------------------------------------------------------------------------------


def _extremes(H: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, ...]:
    """The fields of `CurvatureExtremes` of rows, from H (m, n, n) and R (m, n, n, n, n)."""
    m, n = H.shape[:2]
    basis = np.swapaxes(np.linalg.inv(np.linalg.cholesky(H)), 1, 2)  # columns are orthonormal in H
    for _ in range(4):  # contract the first index, and put it last
        R = np.swapaxes(np.swapaxes(basis, 1, 2) @ R.reshape(m, n, n**3), 1, 2).reshape(m, n, n, n, n)
    i, j = np.triu_indices(n, 1)
    of_bivectors = R[:, i[:, None], j[:, None], i, j]
    values, vectors = np.linalg.eigh((of_bivectors + np.swapaxes(of_bivectors, 1, 2)) / 2.0)
    norm, found = np.abs(values).max(axis=1), []
    for sign, nearest in ((-1.0, slice(None, _STARTS)), (1.0, slice(-_STARTS, None))):
        chosen = np.swapaxes(vectors[:, :, nearest], 1, 2)
        B = np.zeros((*chosen.shape[:2], n, n))
        B[:, :, i, j], B[:, :, j, i] = chosen, -chosen
        starts = np.linalg.svd(B)[0][..., 0]  # a vector of the plane that is nearest to the bivector
        value, plane = _climbed(sign * R, starts, np.max(sign * values, axis=1), norm)
        found.append((sign * value, basis @ plane))
    (least, least_plane), (greatest, greatest_plane) = found
    # A bound that is attained is not to be missed by round-off.
    lower, upper = np.minimum(values[:, 0], least), np.maximum(values[:, -1], greatest)
    return least, greatest, least_plane, greatest_plane, lower, upper, 2.0 * values.sum(axis=1)


def _climbed(
    R: np.ndarray, u: np.ndarray, bound: np.ndarray, norm: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Curvatures (m,) of planes (m, n, 2), none of whose vectors can be replaced by a better one.

    Parameters
    ----------
    R : (m, n, n, n, n) in orthonormal bases.
    u : (m, s, n) unit vectors from which the maximization begins.
    bound, norm : (m,) the largest and the largest absolute eigenvalue on bivectors.
    """
    m, s, n = u.shape
    pairs = np.swapaxes(R, 2, 3).reshape(m, n * n, n * n)  # [i k, j l]
    value, plane = np.zeros(m), np.zeros((m, n, 2))
    rows, old = np.arange(m), np.full((m, s), -np.inf)
    shift = np.where(norm > 0.0, 2.0 * norm, 1.0)[:, None, None, None]  # keeps the eigenvector across u
    for step in range(_STEPS):
        squares = u[..., :, None] * u[..., None, :]
        K = (squares.reshape(*squares.shape[:2], n * n) @ np.swapaxes(pairs, 1, 2)).reshape(squares.shape)
        curvatures, vectors = np.linalg.eigh(K - shift[rows] * squares)
        new, across = curvatures[..., -1], vectors[..., -1]
        best = np.arange(len(rows)), np.argmax(new, axis=1)
        value[rows], plane[rows] = new[best], np.stack([u[best], across[best]], axis=-1)
        close = _CONVERGED * norm[rows]
        going = (new - old > close[:, None]).any(axis=1) & (value[rows] < bound[rows] - close)
        if not going.any():
            break
        if step == _TRIED - 1:
            across, new = across[best][:, None], new[best][:, None]
        rows, u, old, pairs = rows[going], across[going], new[going], pairs[going]
    return value, plane
