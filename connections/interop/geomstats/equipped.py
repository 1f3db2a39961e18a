"""The classes of geomstats that `to_geomstats` returns; importing this module imports geomstats."""

from __future__ import annotations

from typing import Any

import geomstats.backend as gs
import jax
import numpy as np
from geomstats.geometry.connection import Connection
from geomstats.geometry.euclidean import Euclidean
from geomstats.geometry.manifold import Manifold
from geomstats.geometry.riemannian_metric import RiemannianMetric
from geomstats.numerics.geodesic import ExpSolver, LogSolver

from connections.affine import AffineConnection, LeviCivita
from connections.checks import FrameError, ShapeError
from connections.evaluation.boundary import Argument, evaluate, projected_point
from connections.evaluation.parameters import PytreePartial, cache_of
from connections.geometry import FrameField, Metric
from connections.interop.geomstats import many_geodesics as flow
from connections.interop.geomstats.loading import as_backend, as_numpy


def space_of(nabla: AffineConnection, metric: Metric | None) -> Any:
    """A new space, equipped."""
    frame = nabla.frame
    same = frame.ambient_dim == frame.dim
    space = Euclidean(frame.dim, equip=False) if same else CoordinateManifold(frame)
    if metric is None:
        space.metric = EquippedConnection(space, nabla)
    else:
        space.metric = EquippedMetric(space, nabla, metric)
    return space


class CoordinateManifold(Manifold):
    """The valid points q (nq,) of a frame with nq > n, tangent vectors X(q) v.

    Parameters
    ----------
    frame : the frame.
    """

    def __init__(self, frame: FrameField) -> None:
        self.frame = frame
        super().__init__(dim=frame.dim, shape=(frame.ambient_dim,), intrinsic=False, equip=False)

    def belongs(self, point: Any, atol: float = 1e-6) -> Any:
        """Whether q is within `atol` times its largest coordinate of the manifold, (...,)."""
        q = as_numpy(point)
        if q.shape[-1:] != self.shape:
            return np.zeros(q.shape[:-1], dtype=bool)
        nearest = _apply(self.frame, "project", q)
        return np.max(np.abs(nearest - q), axis=-1) <= atol * np.max(np.abs(nearest), axis=-1)

    def is_tangent(self, vector: Any, base_point: Any = None, atol: float = 1e-6) -> Any:
        """Whether qdot is in the span of X(q), to `atol` times its largest component, (...,)."""
        rate = as_numpy(vector)
        rest = as_numpy(self.to_tangent(vector, base_point)) - rate
        return np.max(np.abs(rest), axis=-1) <= atol * np.max(np.abs(rate), axis=-1)

    def to_tangent(self, vector: Any, base_point: Any = None) -> Any:
        """X times the left inverse of X, applied to `vector`."""
        return as_backend(push(self.frame, base_point, components(self.frame, base_point, vector)))

    def projection(self, point: Any) -> Any:
        """The nearest point of the manifold."""
        return as_backend(_apply(self.frame, "project", as_numpy(point)))

    def random_point(self, n_samples: int = 1, bound: float = 1.0) -> Any:
        """Projections of points drawn uniformly from [-bound, bound]^nq by geomstats' generator."""
        size = self.shape if n_samples == 1 else (n_samples, *self.shape)
        return self.projection(gs.random.uniform(-bound, bound, size))


class RowsExp(ExpSolver):
    """Exponentials of this library, all rows of a call together (`flow`, 1e-12 of the length per step).

    Parameters
    ----------
    nabla : the connection.
    """

    def __init__(self, nabla: AffineConnection) -> None:
        super().__init__(solves_ivp=False)
        self.nabla = nabla

    def exp(self, tangent_vec: Any, base_point: Any) -> Any:
        """End points of the geodesics after unit time, (..., nq)."""
        q, rate = np.broadcast_arrays(points(self.nabla.frame, base_point), as_numpy(tangent_vec))
        v = components(self.nabla.frame, q, rate)
        ends = flow.exponentials(self.nabla, q.reshape(-1, q.shape[-1]), v.reshape(-1, v.shape[-1]))
        return as_backend(ends.reshape(q.shape))


class RowsLog(LogSolver):
    """Logarithms of this library, all rows of a call together; an error if one is not found.

    Parameters
    ----------
    nabla : the connection.
    """

    def __init__(self, nabla: AffineConnection) -> None:
        super().__init__(solves_bvp=False)
        self.nabla = nabla

    def log(self, point: Any, base_point: Any) -> Any:
        """Initial rates qdot of the geodesics from `base_point` to `point`, (..., nq)."""
        frame = self.nabla.frame
        end, start = np.broadcast_arrays(points(frame, point), points(frame, base_point))
        p, q = (array.reshape(-1, frame.ambient_dim) for array in (start, end))
        v = flow.logarithms(self.nabla, p, q).reshape(*start.shape[:-1], frame.dim)
        return as_backend(push(frame, start, v))


class EquippedConnection(Connection):
    """A connection of this library in geomstats' terms.

    Parameters
    ----------
    space : the space to equip.
    nabla : the connection.
    """

    def __init__(self, space: Any, nabla: AffineConnection) -> None:
        super().__init__(space)
        self.nabla = nabla
        self.exp_solver = RowsExp(nabla)
        self.log_solver = RowsLog(nabla)

    def christoffels(self, base_point: Any = None) -> Any:
        """Gamma[..., k, i, j] of the coordinate fields: i the direction, j the field, as in this library."""
        coordinates, q = self._coordinates("Christoffel symbols"), as_numpy(base_point)
        gamma = flow.symbols(coordinates, q) if q.shape[-1:] == (coordinates.frame.dim,) else None
        if gamma is None:
            gamma = np.asarray(coordinates.coefficients(q))  # or its error
        return as_backend(gamma)

    def riemann_tensor(self, base_point: Any) -> Any:
        """R[..., i, j, k, l] = R_ijk^l of R(X_j, X_k) X_i, with or without torsion."""
        R = self._coordinates("components of the curvature").curvature(as_numpy(base_point))
        return as_backend(_curvature_indices(R))

    def curvature(
        self, tangent_vec_a: Any, tangent_vec_b: Any, tangent_vec_c: Any, base_point: Any = None
    ) -> Any:
        """R(a, b) c, (..., nq), in any frame."""
        frame = self.nabla.frame
        a, b, c = (components(frame, base_point, w) for w in (tangent_vec_a, tangent_vec_b, tangent_vec_c))
        R = np.asarray(self.nabla.curvature(as_numpy(base_point)))
        return as_backend(push(frame, base_point, np.einsum("...lkij,...i,...j,...k->...l", R, a, b, c)))

    def torsion(self, tangent_vec_a: Any, tangent_vec_b: Any, base_point: Any) -> Any:
        """T(a, b), (..., nq), in any frame."""
        frame = self.nabla.frame
        a, b = (components(frame, base_point, w) for w in (tangent_vec_a, tangent_vec_b))
        T = np.asarray(self.nabla.torsion(as_numpy(base_point)))
        return as_backend(push(frame, base_point, np.einsum("...ijk,...j,...k->...i", T, a, b)))

    def parallel_transport(
        self, tangent_vec: Any, base_point: Any, direction: Any = None, end_point: Any = None
    ) -> Any:
        """`tangent_vec` carried along the geodesic of `direction`, or the one to `end_point`; (..., nq)."""
        if (direction is None) == (end_point is None):
            raise ShapeError("parallel_transport", "one of direction and end_point", "both or neither")
        if direction is None:
            direction = self.log(end_point, base_point)
        frame = self.nabla.frame
        given = points(frame, base_point), as_numpy(direction), as_numpy(tangent_vec)
        q, rate, other = np.broadcast_arrays(*given)
        v, z = (components(frame, q, w).reshape(-1, frame.dim) for w in (rate, other))
        carried = flow.transported(self.nabla, q.reshape(-1, q.shape[-1]), v, z)
        return as_backend(push(frame, *carried).reshape(q.shape))

    def _coordinates(self, what: str) -> AffineConnection:
        frame = self.nabla.frame
        if frame.ambient_dim != frame.dim:
            raise FrameError(
                f"{what}: q has {frame.ambient_dim} numbers on a manifold of dimension {frame.dim}, so there "
                "are no coordinate fields; use nabla.coefficients(q) of this library, which is in its frame"
            )
        return _coordinate_symbols(self.nabla)


class EquippedMetric(EquippedConnection, RiemannianMetric):
    """A connection with a metric, as geomstats' statistics need it.

    Parameters
    ----------
    space : the space to equip. nabla : the connection. metric : its metric.
    """

    def __init__(self, space: Any, nabla: AffineConnection, metric: Metric) -> None:
        super().__init__(space, nabla)
        self.signature = (nabla.frame.dim, 0)
        self.metric = metric
        self._own = nabla if flow.has_geodesics_of(nabla, metric) else LeviCivita(metric)

    def metric_matrix(self, base_point: Any = None) -> Any:
        """X^-T H X^-1, (..., nq, nq): of the coordinate fields, or, if nq > n, of the tangent vectors."""
        return as_backend(evaluate(self.metric, self._rates_at, _q(self.nabla.frame, base_point)))

    def inner_product(self, tangent_vec_a: Any, tangent_vec_b: Any, base_point: Any = None) -> Any:
        """<<a, b>>, (...,)."""
        a, b = (components(self.nabla.frame, base_point, w) for w in (tangent_vec_a, tangent_vec_b))
        return as_backend(self.metric.inner(as_numpy(base_point), a, b))

    def squared_dist(self, point_a: Any, point_b: Any) -> Any:
        """Squared length of the metric's geodesic, (...,).

        Raises
        ------
        MetricError : the connection has another geodesic in the same direction.
        """
        frame = self.nabla.frame
        start, end = np.broadcast_arrays(points(frame, point_a), points(frame, point_b))
        p, q = (array.reshape(-1, frame.ambient_dim) for array in (start, end))
        v = flow.logarithms(self._own, p, q)
        if self._own is not self.nabla:
            flow.require_geodesics_of(self.nabla, self.metric, self._own, p, v)
        return as_backend(np.asarray(self.metric.inner(p, v, v)).reshape(start.shape[:-1]))

    def _rates_at(self, q: jax.Array) -> jax.Array:
        dual = self.nabla.frame.dual_at(q)
        return dual.T @ self.metric.matrix_at(q) @ dual


def components(frame: FrameField, q: Any, rate: Any) -> np.ndarray:
    """Frame components v (..., n) of the rates qdot (..., nq)."""
    rates = Argument("tangent vector", as_numpy(rate), (frame.ambient_dim,))
    return np.asarray(evaluate(frame, frame.velocity_at, _q(frame, q), rates))


def push(frame: FrameField, q: Any, v: Any) -> np.ndarray:
    """Rates X v (..., nq)."""
    pair = _q(frame, q), Argument("v", v, (frame.dim,))
    return np.asarray(evaluate(frame, PytreePartial(_pushed_at, frame), *pair))


def _pushed_at(frame: FrameField, q: jax.Array, v: jax.Array) -> jax.Array:
    return frame.matrix_at(q) @ v


def points(frame: FrameField, q: Any) -> np.ndarray:
    """The points of the manifold next to q (..., nq)."""
    return np.asarray(evaluate(frame, projected_point, _q(frame, q)))


def _q(frame: FrameField, q: Any) -> Argument:
    return Argument("q", as_numpy(q), (frame.ambient_dim,))


def _apply(frame: FrameField, name: str, q: np.ndarray) -> np.ndarray:
    function = getattr(frame, f"{name}_at")
    return np.asarray(evaluate(frame, function, Argument("q", q, q.shape[-1:]), checked=False))


def _coordinate_symbols(nabla: AffineConnection) -> AffineConnection:
    """`nabla` in the coordinate fields, X' = X X^-1, for frames with nq = n."""
    frame = nabla.frame
    coordinates = cache_of(nabla).get(CoordinateManifold)
    if coordinates is None:
        coordinates = nabla.change(frame.dual_at)
        cache_of(nabla)[CoordinateManifold] = coordinates
    return coordinates


def _curvature_indices(R: Any) -> np.ndarray:
    """geomstats' riemann[..., k, i, j, l] from R[..., l, k, i, j]: the upper index last."""
    return np.moveaxis(np.asarray(R), -4, -1)
