"""All geodesics between two points up to a length; distances, and means, of any metric.

`logarithms` searches in many directions for geodesics that meet q1, also behind conjugate points, with the
fan and Newton's method of `logarithm` (`logarithms/search.py`). A mean is a zero of the gradient

    grad F(x) = -sum_i w_i log_x(q_i),   F(x) = sum_i w_i d(x, q_i)^2 / 2.

Source: H. Karcher, Riemannian center of mass and mollifier smoothing, Comm. Pure Appl. Math. 30 (1977).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike
from connections.affine.conjugate_times import conjugate_times
from connections.affine.connection import AffineConnection
from connections.affine.levi_civita import LeviCivita
from connections.affine.logarithms.logarithm import logarithm
from connections.affine.logarithms.search import geodesics_between
from connections.affine.motions.geodesics import exponential
from connections.checks import (
    ConvergenceError,
    ShapeError,
    as_array,
    as_number,
    require_finite,
    require_positive_int,
    require_type,
    require_untraced,
)
from connections.evaluation.boundary import require_admissible
from connections.geometry.metrics import Metric, require_definite

TIED = 1e-8  # relative: lengths that differ by less are equal
_RAYS = {1: 2, 2: 256}  # directions; of more dimensions 1,024
_MEAN_STEPS, _MEAN_TOLERANCE = 200, 1e-10  # of the gradient, relative to the points' spread
_STAYS = 1e-12  # of the length that is searched: a shorter geodesic stays at the point
_HALVINGS, _ROUND_OFF = 30, 1e-13  # of the cost
_ESCAPES = 10  # critical points that are looked at
_DIFFERENCE, _AWAY, _FLAT = 1e-4, 0.1, 1e-3  # of the points' spread; the last one of second derivatives


@dataclass(frozen=True, eq=False)
class Logarithms:
    """The geodesics that were found between two points, the shortest first.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> def H(q):  # colatitude and longitude
    ...     return jnp.diag(jnp.array([1.0, jnp.sin(q[0]) ** 2]))
    >>> sphere = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), H))
    >>> found = cn.logarithms(sphere, [jnp.pi / 2, 0.0], [jnp.pi / 2, 1.0], 7.0)
    >>> found.lengths.round(6), found.indices
    (array([1.]), array([0]))
    """

    v: np.ndarray
    """(k, n) initial velocities, frame components at q0, each of which leads to q1 in unit time."""
    lengths: np.ndarray
    """(k,), increasing; of a connection without a metric, by the frame's own measure of vectors."""
    indices: np.ndarray
    """(k,) numbers of conjugate points before q1, with multiplicities, which is the Morse index."""
    length: float
    """The length up to which was searched."""
    rays: int
    """The number of directions in which geodesics left q0."""

    @property
    def ties(self) -> int:
        """The number of geodesics that are as short as the first one."""
        return int(np.count_nonzero(self.lengths <= self.lengths[:1] * (1.0 + TIED)))

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        each = [f"{a:.7g} (index {i})" for a, i in zip(self.lengths, self.indices, strict=True)]
        tied = f", {self.ties} of them equally short" if self.ties > 1 else ""
        searched = f"searched to the length {self.length:.6g} in {self.rays} directions"
        return f"Logarithms: {len(self)} geodesics{tied}: {', '.join(each) or 'none'}; {searched}"


def logarithms(
    nabla: AffineConnection, q0: ArrayLike, q1: ArrayLike, length: float, rays: int | None = None
) -> Logarithms:
    """The geodesics from q0 to q1 that are not longer than `length`, as many as are found.

    Geodesics leave q0 in all directions; where one comes near q1, Newton's method leads it there. One that
    is met by no ray is not found; more rays find more. Geodesics may pass conjugate points. If q1 itself is
    conjugate to q0, infinitely many may lead there, of which some are found, or none. Coordinates of a chart
    are taken as they are: a geodesic that goes once round an angle ends at another point of the chart.

    Parameters
    ----------
    nabla : the connection.
    q0, q1 : (nq,) points; unit quaternions q1 and -q1 are one point.
    length : of the longest geodesic, positive, in the metric of `nabla`.
    rays : the number of directions; by default 256 in two dimensions, and 1,024 in more.

    Returns
    -------
    Logarithms. Each geodesic ends at q1 within 1e-10 of its length. If `logarithm` finds a geodesic, the
    first one is as long, unless it is longer than `length`.

    Raises
    ------
    ValueError : length is not positive. ShapeError : rays is none. TypeError : where JAX traces.
    ShapeError (also for a batch), NonFiniteError, PointError, FrameError, MetricError.

    Examples
    --------
    From a point of the rotation group to one a quarter of a turn away, and the long way round:

    >>> import numpy as np
    >>> import connections as cn
    >>> rotations = cn.LeviCivita(cn.ConstantMetric(cn.SO3Frame(), np.eye(3)))
    >>> quarter = [0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)]
    >>> found = cn.logarithms(rotations, [0.0, 0.0, 0.0, 1.0], quarter, 5.0, rays=64)
    >>> (found.lengths / np.pi).round(6), found.indices
    (array([0.5, 1.5]), array([0, 0]))

    Source: [MT] section 15 for the index.
    """
    require_type("nabla", nabla, AffineConnection)
    require_untraced(q0=q0, q1=q1, length=length)
    points = []
    for name, value in (("q0", q0), ("q1", q1)):
        size = (nabla.frame.ambient_dim,)
        q = np.asarray(as_array(name, value, size))
        if q.ndim != 1:
            raise ShapeError(name, size, q.shape)
        require_finite(name, q)
        points.append(require_admissible(nabla, name, q))
    longest = as_number("length", length)
    if not 0.0 < longest < np.inf:
        raise ValueError(f"length: expected a positive length, got {longest:g}")
    count = _RAYS.get(nabla.frame.dim, 1024) if rays is None else rays
    require_positive_int("rays", count)
    start, end = points
    v, lengths = geodesics_between(nabla, start, end, longest, count)
    if not np.any(start != end) and not (lengths <= _STAYS * longest).any():
        v, lengths = np.concatenate([np.zeros((1, nabla.frame.dim)), v]), np.append(0.0, lengths)
    passed = [conjugate_times(nabla, start, w, 1.0) if w.any() else None for w in v]
    indices = [0 if p is None else int(p.multiplicities.sum()) - p.nullity for p in passed]
    return Logarithms(v, lengths, np.array(indices, dtype=int), longest, count)


def distance(metric: Metric, q0: ArrayLike, q1: ArrayLike) -> Array:
    """The length (...,) of the shortest geodesic that is found between two points.

    JAX can differentiate it where the points are apart.

    Parameters
    ----------
    metric : the metric.
    q0, q1 : (..., nq) points.

    Raises
    ------
    The errors of `logarithm`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> half_plane = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
    >>> float(cn.distance(half_plane, [0.0, 1.0], [0.0, jnp.e]).round(9))
    1.0
    """
    require_definite("metric", metric)
    v = logarithm(LeviCivita(metric), q0, q1)
    by: Any = jnp if isinstance(v, jax.Array) else np
    length: Array = by.sqrt(metric.inner(q0, v, v))
    return length


@dataclass(frozen=True, eq=False)
class Mean:
    """A mean of points.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> half_plane = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
    >>> cn.mean(half_plane, [[0.0, 1.0], [0.0, 4.0]])
    Mean: q = [0. 2.], the points 0.693147 to 0.693147 away; steps: 1
    """

    q: np.ndarray
    """(nq,) the mean."""
    distances: np.ndarray
    """(N,) of the points from it."""
    steps: int
    """The number of steps."""

    def __repr__(self) -> str:
        q = np.array2string(np.round(self.q, 6) + 0.0, threshold=8)
        least, most = self.distances.min(), self.distances.max()
        return f"Mean: q = {q}, the points {least:.6g} to {most:.6g} away; steps: {self.steps}"


def mean(
    metric: Metric, points: ArrayLike, weights: ArrayLike | None = None, start: ArrayLike | None = None
) -> Mean:
    """Frechet's mean: the point with the least sum of squared distances, near where the search begins.

    Where all points are in a ball of the radius r, the mean in the ball is the only one there if curvatures
    are at most K, r < pi / (4 sqrt(K)), and no point of the ball has a cut point in it (Karcher). Without
    such a bound, another start may have another mean.

    Parameters
    ----------
    metric : the metric.
    points : (N, nq).
    weights : (N,), positive; by default all equal.
    start : (nq,) where the search begins; by default the first point.

    Returns
    -------
    Mean. The mean of log_x(q_i) is less than 1e-10 of the root mean square of their lengths, and the cost
    bends upwards there in all directions (or not at all, where minima are not isolated).

    Raises
    ------
    ConvergenceError : the search does not end, or a logarithm is not found.
    ValueError : a weight is not positive. TypeError : where JAX traces.
    ShapeError, NonFiniteError, PointError, FrameError, MetricError.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> half_plane = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
    >>> float(cn.mean(half_plane, [[-1.0, 1.0], [1.0, 1.0]]).q[1].round(6))  # on the circle through both
    1.414214
    """
    require_definite("metric", metric)
    require_untraced(points=points, weights=weights, start=start)
    size = (metric.frame.ambient_dim,)
    q = np.asarray(as_array("points", points, size))
    if q.ndim != 2 or not len(q):
        raise ShapeError("points", ("N", *size), q.shape)
    require_finite("points", q)
    w = np.ones(len(q)) if weights is None else np.asarray(as_array("weights", weights, (len(q),)))
    if w.shape != (len(q),):
        raise ShapeError("weights", (len(q),), w.shape)
    require_finite("weights", w)
    if not (w > 0.0).all():
        raise ValueError(f"weights: expected positive numbers, got {w.min():g}")
    w = w / w.sum()
    x = np.asarray(as_array("start", q[0] if start is None else start, size))
    if x.ndim != 1:
        raise ShapeError("start", size, x.shape)
    require_finite("start", x)
    nabla = LeviCivita(metric)
    x = np.asarray(require_admissible(nabla, "start", x))
    search = _MeanSearch(metric, nabla, q, w)
    for _ in range(_ESCAPES):
        x = search.descended(x)
        lower = search.lower(x)
        if lower is None:
            return Mean(x, np.sqrt(search.squares(x)[0]), search.steps)
        x = lower
    raise ConvergenceError(f"mean: {_ESCAPES} critical points are no minima; begin nearer to one, by start=")


class _MeanSearch:
    """A search for a minimum of F(x) = sum_i w_i d(x, q_i)^2 / 2.

    Parameters
    ----------
    metric, nabla : the metric and its Levi-Civita connection. q, w : (N, nq) and (N,), which add up to one.
    """

    def __init__(self, metric: Metric, nabla: AffineConnection, q: np.ndarray, w: np.ndarray) -> None:
        self._metric, self._nabla, self._q, self._w, self.steps = metric, nabla, q, w, 0

    def squares(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """d(x, q_i)^2 (..., N) and -grad F (..., n) at points x (..., nq)."""
        v = np.asarray(logarithm(self._nabla, x[..., None, :], self._q))
        return np.asarray(self._metric.inner(x[..., None, :], v, v)), np.einsum("i,...ij->...j", self._w, v)

    def descended(self, x: np.ndarray) -> np.ndarray:
        """The critical point to which steps along -grad F lead, each of them downhill (Armijo's rule).

        The first trial of a step has the length of Barzilai and Borwein, <d, d> / <d, y>, d the last step and
        y the change of the gradient, both in components.
        """
        squares, ahead = self.squares(x)
        cost, length = self._w @ squares / 2.0, 1.0
        for _ in range(_MEAN_STEPS):
            slope = float(self._metric.inner(x, ahead, ahead))
            if slope <= _MEAN_TOLERANCE**2 * 2.0 * cost:
                return x
            for _ in range(_HALVINGS):
                new = np.asarray(exponential(self._nabla, x, length * ahead))
                squares, onward = self.squares(new)
                now = self._w @ squares / 2.0
                if now <= cost - 0.1 * length * slope + _ROUND_OFF * cost:
                    break
                length /= 3.0
            else:
                break
            step, change = length * ahead, ahead - onward
            H = np.asarray(self._metric.matrix(new))
            bend = step @ H @ change
            length = float(np.clip(step @ H @ step / bend, 0.1, 10.0)) if bend > 0.0 else 1.0
            x, cost, ahead, self.steps = new, now, onward, self.steps + 1
        raise ConvergenceError(f"mean: no mean after {_MEAN_STEPS} steps; begin nearer to one, by start=")

    def lower(self, x: np.ndarray) -> np.ndarray | None:
        """A point below a critical one x that is no minimum; None if F bends upwards there in all directions.

        The Hessian is that of differences of the gradient, which vanishes at x.
        """
        squares, _ = self.squares(x)
        spread = float(np.sqrt(self._w @ squares))
        if spread == 0.0:
            return None
        basis = np.linalg.inv(np.linalg.cholesky(np.asarray(self._metric.matrix(x)))).T  # columns
        steps = _DIFFERENCE * spread * np.concatenate([basis.T, -basis.T])
        _, ahead = self.squares(np.asarray(exponential(self._nabla, x, steps)))
        after, before = np.split(ahead, 2)
        hessian = -np.linalg.inv(basis) @ ((after - before) / (2.0 * _DIFFERENCE * spread)).T
        values, vectors = np.linalg.eigh((hessian + hessian.T) / 2.0)
        if values[0] > -_FLAT:
            return None
        away = np.stack([1.0, -1.0])[:, None] * (_AWAY * spread * basis @ vectors[:, 0])
        tried = np.asarray(exponential(self._nabla, x, away))
        return np.asarray(tried[int(np.argmin(self.squares(tried)[0] @ self._w))])
