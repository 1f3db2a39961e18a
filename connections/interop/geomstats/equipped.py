"""The classes of geomstats that `to_geomstats` hands out; importing this module imports geomstats."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from geomstats.geometry.connection import Connection
from geomstats.geometry.euclidean import Euclidean
from geomstats.geometry.manifold import Manifold
from geomstats.geometry.riemannian_metric import RiemannianMetric
from geomstats.numerics.geodesic import ExpSolver, LogSolver

from connections.affine.connection import AffineConnection
from connections.affine.geodesics import exponential, geodesic, logarithm
from connections.affine.integrate import Trajectories, integrate
from connections.checks import FrameError, IntegrationError, ShapeError
from connections.geometry.evaluation import Argument, evaluate
from connections.geometry.frames import FrameField
from connections.geometry.metrics import Metric
from connections.interop.geomstats.loading import as_backend, as_numpy
from connections.interop.geomstats.writing import coordinate_symbols, curvature_indices, require_distances


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
        """Whether q is within `atol` of the manifold, (...,)."""
        q = as_numpy(point)
        if q.shape[-1:] != self.shape:
            return np.zeros(q.shape[:-1], dtype=bool)
        return np.max(np.abs(_apply(self.frame, "project", q) - q), axis=-1) <= atol

    def is_tangent(self, vector: Any, base_point: Any = None, atol: float = 1e-6) -> Any:
        """Whether qdot is in the span of X(q), (...,)."""
        rest = as_numpy(self.to_tangent(vector, base_point)) - as_numpy(vector)
        return np.max(np.abs(rest), axis=-1) <= atol

    def to_tangent(self, vector: Any, base_point: Any = None) -> Any:
        """X times the left inverse of X, applied to `vector`."""
        return as_backend(push(self.frame, base_point, components(self.frame, base_point, vector)))

    def projection(self, point: Any) -> Any:
        """The nearest point of the manifold."""
        return as_backend(_apply(self.frame, "project", as_numpy(point)))

    def random_point(self, n_samples: int = 1, bound: float = 1.0) -> Any:
        """Projections of points drawn uniformly from [-bound, bound]^nq with NumPy's global generator."""
        size = self.shape if n_samples == 1 else (n_samples, *self.shape)
        return self.projection(np.random.uniform(-bound, bound, size))


class CompiledExp(ExpSolver):
    """Exponential and geodesics by this library's integrator (rtol = atol = 1e-10)."""

    def __init__(self, nabla: AffineConnection) -> None:
        super().__init__(solves_ivp=True)
        self.nabla = nabla

    def exp(self, tangent_vec: Any, base_point: Any) -> Any:
        """End points of the geodesics after unit time, (..., nq)."""
        q, v = self._initial(tangent_vec, base_point)
        return as_backend(exponential(self.nabla, q, v))

    def geodesic_ivp(self, tangent_vec: Any, base_point: Any) -> Any:
        """t -> points (..., T, nq) of the geodesics."""
        q, v = self._initial(tangent_vec, base_point)

        def path(t: Any) -> Any:
            times = np.atleast_1d(as_numpy(t))
            order, inverse = np.unique(np.append(times, 0.0), return_inverse=True)
            zero = int(inverse[-1])
            ahead = np.asarray(geodesic(self.nabla, q, v, order[zero:])[0])
            behind = np.asarray(geodesic(self.nabla, q, v, order[zero::-1])[0])[..., :0:-1, :]
            return as_backend(np.concatenate([behind, ahead], axis=-2)[..., inverse[:-1], :])

        return path

    def _initial(self, tangent_vec: Any, base_point: Any) -> tuple[np.ndarray, np.ndarray]:
        return as_numpy(base_point), components(self.nabla.frame, base_point, tangent_vec)


class CompiledLog(LogSolver):
    """Logarithm by this library's shooting: an error, never a wrong answer."""

    def __init__(self, nabla: AffineConnection) -> None:
        super().__init__(solves_bvp=False)
        self.nabla = nabla

    def log(self, point: Any, base_point: Any) -> Any:
        """Initial rates qdot of the geodesics from `base_point` to `point`, (..., nq)."""
        q = as_numpy(base_point)
        v = np.asarray(logarithm(self.nabla, q, as_numpy(point)))
        return as_backend(push(self.nabla.frame, q, v))


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
        self.exp_solver = CompiledExp(nabla)
        self.log_solver = CompiledLog(nabla)

    def christoffels(self, base_point: Any = None) -> Any:
        """Gamma[..., k, i, j] of the coordinate fields: i the direction, j the field, as in this library."""
        return as_backend(self._coordinates("Christoffel symbols").coefficients(as_numpy(base_point)))

    def riemann_tensor(self, base_point: Any) -> Any:
        """R[..., i, j, k, l] = R_ijk^l of R(X_j, X_k) X_i, torsion or not."""
        R = self._coordinates("components of the curvature").curvature(as_numpy(base_point))
        return as_backend(curvature_indices(R))

    def curvature(self, tangent_vec_a: Any, tangent_vec_b: Any, tangent_vec_c: Any, base_point: Any = None) -> Any:
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
        frame, q = self.nabla.frame, as_numpy(base_point)
        v, z = (components(frame, q, w) for w in (direction, tangent_vec))
        end, carried = transported(self.nabla, q, v, z)
        return as_backend(push(frame, end, carried))

    def _coordinates(self, what: str) -> AffineConnection:
        frame = self.nabla.frame
        if frame.ambient_dim != frame.dim:
            raise FrameError(
                f"{what}: q has {frame.ambient_dim} numbers on a manifold of dimension {frame.dim}, so there are "
                "no coordinate fields; use nabla.coefficients(q) of this library, which is in its frame"
            )
        return coordinate_symbols(self.nabla)


class EquippedMetric(EquippedConnection, RiemannianMetric):
    """A connection beside a metric: what geomstats' statistics take.

    Parameters
    ----------
    space : the space to equip. nabla : the connection. metric : its metric.
    """

    def __init__(self, space: Any, nabla: AffineConnection, metric: Metric) -> None:
        super().__init__(space, nabla)
        self.signature = (nabla.frame.dim, 0)
        self.metric = metric

    def metric_matrix(self, base_point: Any = None) -> Any:
        """X^-T H X^-1, (..., nq, nq): of the coordinate fields, or, where nq > n, of the tangent vectors."""
        return as_backend(evaluate(self.metric, "rates", self._rates_at, _q(self.nabla.frame, base_point)))

    def inner_product(self, tangent_vec_a: Any, tangent_vec_b: Any, base_point: Any = None) -> Any:
        """<<a, b>>, (...,)."""
        a, b = (components(self.nabla.frame, base_point, w) for w in (tangent_vec_a, tangent_vec_b))
        return as_backend(self.metric.inner(as_numpy(base_point), a, b))

    def squared_dist(self, point_a: Any, point_b: Any) -> Any:
        """Squared length of the geodesic, (...,).

        Raises
        ------
        MetricError : the connection's geodesics are not the metric's.
        """
        require_distances(self.nabla, self.metric, as_numpy(point_a))
        return super().squared_dist(point_a, point_b)

    def _rates_at(self, q: jax.Array) -> jax.Array:
        dual = self.nabla.frame.dual_at(q)
        return dual.T @ self.metric.matrix_at(q) @ dual


def components(frame: FrameField, q: Any, rate: Any) -> np.ndarray:
    """Frame components v (..., n) of the rates qdot (..., nq)."""
    rates = Argument("tangent vector", as_numpy(rate), (frame.ambient_dim,))
    return np.asarray(evaluate(frame, "components", frame.velocity_at, _q(frame, q), rates))


def push(frame: FrameField, q: Any, v: Any) -> np.ndarray:
    """Rates X v (..., nq)."""
    velocities = Argument("v", v, (frame.dim,))
    return np.asarray(evaluate(frame, "push", lambda p, w: frame.matrix_at(p) @ w, _q(frame, q), velocities))


def transported(nabla: AffineConnection, q: Any, v: Any, z: Any) -> tuple[np.ndarray, np.ndarray]:
    """End point and transported components of z along the geodesic of (q, v) after unit time."""
    frame = nabla.frame

    def rhs(t: jax.Array, y: Any, args: Any) -> Any:
        p, w, carried = y
        return frame.matrix_at(p) @ w, -nabla.apply_at(p, w, w), -nabla.apply_at(p, w, carried)

    def solve(p: jax.Array, w: jax.Array, carried: jax.Array) -> tuple[jax.Array, jax.Array]:
        states = integrate(
            rhs, (p, w, carried), jnp.array([0.0, 1.0]), lambda y: (frame.project_at(y[0]), y[1], y[2])
        )
        return states[0][-1], states[2][-1]

    size = (frame.dim,)
    arguments = (_q(frame, q), Argument("direction", v, size), Argument("tangent vector", z, size))
    end, carried = evaluate(Trajectories.of(nabla), "geodesic transport", solve, *arguments)
    if not np.isfinite(end).all():
        raise IntegrationError("parallel_transport: the geodesic does not reach unit time")
    return np.asarray(end), np.asarray(carried)


def _q(frame: FrameField, q: Any) -> Argument:
    return Argument("q", as_numpy(q), (frame.ambient_dim,))


def _apply(frame: FrameField, name: str, q: np.ndarray) -> np.ndarray:
    function = getattr(frame, f"{name}_at")
    return np.asarray(evaluate(frame, name, function, Argument("q", q, q.shape[-1:]), checked=False))
