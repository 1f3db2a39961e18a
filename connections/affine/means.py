"""Means of points, for any metric, and the radius of balls whose points have one mean only.

A mean is a zero of the gradient

    grad F(x) = -sum_i w_i log_x(q_i),   F(x) = sum_i w_i d(x, q_i)^2 / 2.

Source: H. Karcher, Riemannian center of mass and mollifier smoothing, Comm. Pure Appl. Math. 30 (1977); B.
Afsari, Riemannian L^p center of mass: existence, uniqueness, and convexity, Proc. AMS 139 (2011).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.affine.connection import AffineConnection
from connections.affine.levi_civita import LeviCivita
from connections.affine.logarithms.logarithm import velocities_between
from connections.affine.motions.geodesics import exponential
from connections.checks import (
    ConvergenceError,
    MetricError,
    ShapeError,
    as_array,
    as_number,
    raise_at,
    require_finite,
    require_untraced,
)
from connections.evaluation.boundary import require_admissible
from connections.evaluation.compilation import compiled
from connections.geometry.closed_forms import ClosedFormMetric
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.lattices import nearby
from connections.geometry.metrics import ConstantMetric, Metric, require_definite
from connections.geometry.sphere import SphereFrame

_MEAN_STEPS, _MEAN_TOLERANCE = 200, 1e-10  # of the gradient, relative to the points' spread
_HALVINGS, _ROUND_OFF = 30, 1e-13  # of the cost
_ESCAPES = 10  # critical points that are looked at
_DIFFERENCE, _AWAY, _FLAT = 1e-4, 0.1, 1e-3  # of the points' spread; the last one of second derivatives
_LAST_PLACES = 16.0  # of coordinates, below which no difference means anything


@dataclass(frozen=True, eq=False)
class Mean:
    """A mean of points, or the means of several sets of points.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> half_plane = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
    >>> cn.mean(half_plane, [[0.0, 1.0], [0.0, 4.0]])
    Mean: q = [0. 2.], the points 0.693147 to 0.693147 away; steps: 1
    """

    q: np.ndarray
    """(..., nq) the mean."""
    distances: np.ndarray
    """(..., N) of the points from it."""
    steps: np.ndarray
    """(...,) numbers of steps."""
    radius: float | None
    """Points in a ball of a smaller radius have one mean only; None if no bounds of curvature are known."""

    @property
    def is_unique(self) -> np.ndarray:
        """(...,) whether the ball of `radius` about the mean holds all points, so that it is the only mean.

        False does not say that there is another one.
        """
        return np.asarray(self.distances.max(axis=-1) < (0.0 if self.radius is None else self.radius))

    def __repr__(self) -> str:
        least, most = self.distances.min(), self.distances.max()
        away = f"the points {least:.6g} to {most:.6g} away"
        if self.q.ndim > 1:
            return f"Mean: {self.q[..., 0].size} means, {away}; steps: up to {self.steps.max()}"
        q = np.array2string(np.round(self.q, 6) + 0.0, threshold=8)
        only = "; the only one" if self.is_unique else ""
        return f"Mean: q = {q}, {away}; steps: {self.steps}{only}"


def mean(
    metric: Metric,
    points: ArrayLike,
    weights: ArrayLike | None = None,
    start: ArrayLike | None = None,
    *,
    curvature: float | None = None,
    injectivity_radius: float | None = None,
) -> Mean:
    """Frechet's mean: the point with the least sum of squared distances, near where the search begins.

    Where all points are in a ball of the radius

        r < min(inj, pi / sqrt(K)) / 2,

    K a bound of all sectional curvatures (without the second term if K <= 0) and inj the injectivity radius
    of the complete space, there is one mean only, and it is in the ball (Afsari). Otherwise another start
    may have another mean.

    Parameters
    ----------
    metric : the metric.
    points : (..., N, nq).
    weights : (..., N), positive; by default all equal.
    start : (..., nq) where the search begins; by default the first point.
    curvature, injectivity_radius : K and inj, both or none; inj may be infinite. They are known of metrics
        with closed forms (`ClosedFormMetric`), of constant ones on coordinates, with periods and without, and
        of round spheres.

    Returns
    -------
    Mean. The mean of log_x(q_i) is less than 1e-10 of the root mean square of their lengths, or than the
    round-off of the coordinates, and the cost bends upwards there in all directions (or not at all, where
    minima are not isolated). This is not looked at where all points are within some 3e-8 of the coordinates.

    Raises
    ------
    ConvergenceError : the search does not end, or a logarithm is not found.
    ValueError : a weight or the injectivity radius is not positive. TypeError : where JAX traces, or one of
        the bounds is missing.
    ShapeError, NonFiniteError, PointError, FrameError, MetricError.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> half_plane = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
    >>> points = [[-1.0, 1.0], [1.0, 1.0]]
    >>> found = cn.mean(half_plane, points, curvature=-1.0, injectivity_radius=np.inf)
    >>> float(found.q[1].round(6)), bool(found.is_unique)  # on the circle through both
    (1.414214, True)

    Source: B. Afsari, Riemannian L^p center of mass, Proc. AMS 139 (2011), theorem 2.1.
    """
    require_definite("metric", metric)
    require_untraced(points=points, weights=weights, start=start)
    size = (metric.frame.ambient_dim,)
    q = np.asarray(as_array("points", points, size))
    if q.ndim < 2 or not q.shape[-2]:
        raise ShapeError("points", ("...", "N", *size), q.shape)
    require_finite("points", q)
    count = q.shape[-2]
    w = np.ones(count) if weights is None else np.asarray(as_array("weights", weights, (count,)))
    require_finite("weights", w)
    if not (w > 0.0).all():
        raise ValueError(f"weights: expected positive numbers, got {w.min():g}")
    x = np.asarray(as_array("start", q[..., 0, :] if start is None else start, size))
    require_finite("start", x)
    radius = _radius_of_one_mean(metric, curvature, injectivity_radius)
    batch = np.broadcast_shapes(q.shape[:-2], w.shape[:-1], x.shape[:-1])
    sets = np.broadcast_to(q, (*batch, count, *size)).reshape(-1, count, *size)
    shares = np.broadcast_to(w / w.sum(axis=-1, keepdims=True), (*batch, count)).reshape(-1, count)
    begins = np.broadcast_to(x, batch + size).reshape(-1, *size)
    nabla = LeviCivita(metric)
    where, far, steps = np.empty(begins.shape), np.empty(shares.shape), np.empty(len(sets), dtype=int)
    for row, given in enumerate(zip(sets, shares, begins, strict=True)):
        where[row], far[row], steps[row] = _one_mean(metric, nabla, *given)
    return Mean(where.reshape(batch + size), far.reshape(*batch, count), steps.reshape(batch)[()], radius)


def _one_mean(
    metric: Metric, nabla: AffineConnection, q: np.ndarray, w: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """The mean (nq,) of points (N, nq), their distances (N,), and the number of steps."""
    x = np.asarray(require_admissible(nabla, "start", x))
    search = _MeanSearch(metric, nabla, q, w)
    for _ in range(_ESCAPES):
        x = search.descended(x)
        lower = search.lower(x)
        if lower is None:
            return x, np.sqrt(search.squares(x)[0]), search.steps
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
        lengths = np.asarray(compiled(_lengths_of_digits, metric)(q))
        self._given = float(np.max(lengths, where=np.isfinite(lengths), initial=0.0))

    def squares(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """d(x, q_i)^2 (..., N) and -grad F (..., n) at points x (..., nq)."""
        v = self._velocities(x)
        squares = np.einsum("...ij,...jk,...ik->...i", v, self._matrix(x), v, optimize=True)
        return squares, self._downhill(v)

    def _velocities(self, x: np.ndarray) -> np.ndarray:
        """log_x(q_i), (..., N, n)."""
        return np.asarray(velocities_between(self._nabla, x[..., None, :], self._q, name="mean"))

    def _matrix(self, x: np.ndarray) -> np.ndarray:
        """H (..., n, n) at x (..., nq); where floats have no digits for it, all lengths would be zero."""
        H = np.asarray(self._metric.matrix(x))
        least = np.diagonal(H, axis1=-2, axis2=-1).min(axis=-1)
        if not (least >= np.finfo(float).tiny).all():
            row = np.unravel_index(np.argmin(least), least.shape)
            what = f"the metric has an entry of {least[row]:.3g}, below the range of floats: take other units"
            raise_at(MetricError, f"mean: {what},", x[row])
        return H

    def _downhill(self, v: np.ndarray) -> np.ndarray:
        """-grad F (..., n), the mean of log_x(q_i)."""
        mean: np.ndarray = np.einsum("i,...ij->...j", self._w, v)
        return mean

    def _round_off(self, x: np.ndarray) -> float:
        """The length of some last places of the coordinates of x or of a point, each measured where it is.

        The logarithm of a point is as wrong as the point, and not as its coordinates would be at x. The frame
        may be singular at points.
        """
        own = float(np.asarray(compiled(_lengths_of_digits, self._metric)(x[None]))[0])
        return max(own, self._given)

    def descended(self, x: np.ndarray) -> np.ndarray:
        """The critical point to which steps along -grad F lead, each of them downhill (Armijo's rule).

        The first trial of a step has the length of Barzilai and Borwein, <d, d> / <d, y>, d the last step and
        y the change of the gradient, both in components. Below the round-off of coordinates, which not all
        points need have, steps go on as long as they halve the gradient.
        """
        squares, ahead = self.squares(x)
        cost, length, best, least = self._w @ squares / 2.0, 1.0, x, np.inf
        for _ in range(_MEAN_STEPS):
            slope = float(self._metric.inner(x, ahead, ahead))
            if slope <= _MEAN_TOLERANCE**2 * 2.0 * cost:
                return x
            if slope > 0.25 * least:  # the last one was in round-off
                return best
            if slope <= self._round_off(x) ** 2:
                best, least = x, slope
            for _ in range(_HALVINGS):
                try:
                    new = np.asarray(exponential(self._nabla, x, length * ahead))
                    squares, onward = self.squares(new)
                except ConvergenceError:  # a search for logarithms of points that differ in their last places
                    if least == np.inf:
                        raise
                    return best
                now = self._w @ squares / 2.0
                if now <= cost - 0.1 * length * slope + _ROUND_OFF * cost:
                    break
                length /= 3.0
            else:
                if least < np.inf:
                    return best
                break
            step, change = length * ahead, ahead - onward
            H = self._matrix(new)
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
        if _FLAT * _DIFFERENCE * spread <= self._round_off(x):
            return None  # differences are round-off
        basis = np.linalg.inv(np.linalg.cholesky(self._matrix(x))).T  # columns
        steps = _DIFFERENCE * spread * np.concatenate([basis.T, -basis.T])
        ahead = self._downhill(self._velocities(np.asarray(exponential(self._nabla, x, steps))))
        after, before = np.split(ahead, 2)
        hessian = -np.linalg.inv(basis) @ ((after - before) / (2.0 * _DIFFERENCE * spread)).T
        values, vectors = np.linalg.eigh((hessian + hessian.T) / 2.0)
        if values[0] > -_FLAT:
            return None
        away = np.stack([1.0, -1.0])[:, None] * (_AWAY * spread * basis @ vectors[:, 0])
        tried = np.asarray(exponential(self._nabla, x, away))
        return np.asarray(tried[int(np.argmin(self.squares(tried)[0] @ self._w))])


def _lengths_of_digits(metric: Metric, q: jax.Array) -> jax.Array:
    """The lengths (k,) of a few units in the last place of the coordinates of points (k, nq).

    Points of manifolds in more coordinates have the units of the largest one: directions mix them.
    """
    mixed = metric.frame.ambient_dim > metric.frame.dim

    def at(q: jax.Array) -> jax.Array:
        sizes = jnp.full_like(q, jnp.max(jnp.abs(q))) if mixed else jnp.abs(q)
        moved = jnp.linalg.pinv(metric.frame.matrix_at(q)) * (
            _LAST_PLACES * np.finfo(float).eps * sizes[None]
        )
        squares = jax.vmap(lambda v: metric.inner_at(q, v, v), in_axes=1)(moved)
        return jnp.sqrt(jnp.sum(squares))

    return jax.vmap(at)(q)


# --- bounds ------------------------------------------------------------------------------------------------


def _radius_of_one_mean(metric: Metric, curvature: float | None, inj: float | None) -> float | None:
    """min(inj, pi / sqrt(K)) / 2, by given bounds or by those that are known; None without any."""
    if (curvature is None) != (inj is None):
        raise TypeError("curvature, injectivity_radius: give both, or none")
    if curvature is None or inj is None:
        known = _known_bounds(metric)
        if known is None:
            return None
        K, reach = known
    else:
        K = as_number("curvature", curvature)
        reach = np.inf if isinstance(inj, float) and inj == np.inf else as_number("injectivity_radius", inj)
        if not reach > 0.0:
            raise ValueError(f"injectivity_radius: expected a positive length, got {reach:g}")
    return float(min(reach, np.pi / np.sqrt(K) if K > 0.0 else np.inf) / 2.0)


def _known_bounds(metric: Metric) -> tuple[float, float] | None:
    """The largest sectional curvature and the injectivity radius, where they are known."""
    if isinstance(metric, ClosedFormMetric):
        return metric.curvatures[1], metric.injectivity_radius
    if not isinstance(metric, ConstantMetric):
        return None
    frame, H = metric.frame, np.asarray(metric.H)
    if isinstance(frame, CoordinateFrame):
        shortest = _shortest_round(H, frame.periods)
        return None if shortest is None else (0.0, 0.5 * shortest)
    if isinstance(frame, SphereFrame) and (H == H[0, 0] * np.eye(len(H))).all():
        return (1.0 / float(H[0, 0]) if frame.dim > 1 else 0.0), np.pi * float(np.sqrt(H[0, 0]))
    return None


def _shortest_round(H: np.ndarray, periods: tuple[float | None, ...]) -> float | None:
    """The length of the shortest closed geodesic of a flat space with periods; None if there are too many."""
    turning = [index for index, period in enumerate(periods) if period is not None]
    if not turning:
        return np.inf
    vectors = np.linalg.cholesky(H).T @ np.diag([period or 0.0 for period in periods])[:, turning]
    turns = nearby(vectors, np.zeros(len(H)), float(np.linalg.norm(vectors, axis=0).min()))
    if turns is None:
        return None
    return float(np.linalg.norm(turns[turns.any(axis=1)] @ vectors.T, axis=1).min())
