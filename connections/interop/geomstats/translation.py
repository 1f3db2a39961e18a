"""A metric of geomstats as a metric of this library, with the maps between both kinds of points.

A `Parametrization` writes geomstats' points in coordinates q with a frame. Everything else follows from it:
a vector of components v is the derivative of ``point_at`` along X v, and H_ij is the inner product of two
such vectors, which is compared with geomstats' own before a metric is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.checks import MetricError, PointError, ShapeError, require_finite
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import PytreePartial
from connections.geometry import FrameField, Metric
from connections.geometry.frames import PointFunction
from connections.geometry.numerics.scales import POINT_TOLERANCE, worst
from connections.interop.geomstats.loading import as_backend, as_numpy

AGREEMENT = 1e-9  # largest difference of an inner product of two fields, relative to their lengths
_SAMPLES = 3

InnerProduct = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True, eq=False)
class Parametrization:
    """Coordinates for the points of a geomstats space.

    Parameters
    ----------
    frame : frame of this library over the coordinates q.
    shape : shape of one of geomstats' points.
    point_at : q (nq,) -> point, of that shape; JAX-traceable.
    coordinates : points (m, *shape) -> q (m, nq), on NumPy arrays.
    sample : a generator -> q (nq,), a point at which the metric is compared.
    """

    frame: FrameField
    shape: tuple[int, ...]
    point_at: PointFunction
    coordinates: Callable[[np.ndarray], np.ndarray]
    sample: Callable[[np.random.Generator], np.ndarray]

    def tangent_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """geomstats' tangent vector of components v at q, of the points' shape."""
        tangent: jax.Array = jax.jvp(self.point_at, (q,), (self.frame.matrix_at(q) @ v,))[1]
        return tangent

    def basis_at(self, q: jax.Array) -> jax.Array:
        """geomstats' tangent vectors of the frame fields, (n, *shape)."""
        return jax.vmap(lambda v: self.tangent_at(q, v))(jnp.eye(self.frame.dim))

    def components_at(self, q: jax.Array, vector: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Components v of the tangent `vector`, and the largest entries of the residual and of `vector`."""
        J = self.basis_at(q).reshape(self.frame.dim, -1).T
        orthonormal, R = jnp.linalg.qr(J)
        v = jax.scipy.linalg.solve_triangular(R, orthonormal.T @ vector.reshape(-1))
        return v, jnp.max(jnp.abs(J @ v - vector.reshape(-1))), jnp.max(jnp.abs(vector))


@dataclass(frozen=True, eq=False, repr=False)
class GeomstatsMetric(Metric):
    """The metric of a geomstats space in coordinates and a frame of this library.

    Parameters
    ----------
    base : the metric.
    chart : the coordinates.
    space : geomstats' space.
    route : how H(q) and its derivatives are computed, in words.
    source : the function that has read it, and what was given to it; in another process it reads again.

    Examples
    --------
    >>> from connections import interop
    >>> geomstats = interop.import_geomstats()
    >>> from geomstats.geometry.hypersphere import Hypersphere
    >>> sphere = interop.from_geomstats(Hypersphere(dim=2))
    >>> q, v = sphere.to_ours([0.0, 0.0, 1.0], [2.0, 0.0, 0.0])
    >>> float(sphere.inner(q, v, v))  # the squared length of the vector
    4.0
    >>> point, vector = sphere.to_theirs(q, v)
    >>> vector.round(12)
    array([2., 0., 0.])
    """

    base: Metric
    chart: Parametrization
    space: Any
    route: str
    source: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        read, *given = self.source
        return read, tuple(given)

    @property
    def frame(self) -> FrameField:  # type: ignore[override]
        """Frame of the base."""
        return self.base.frame

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """H of the base, (n, n)."""
        return self.base.matrix_at(q)

    def derivative_at(self, q: jax.Array) -> jax.Array:
        """dH of the base, (n, n, n)."""
        return self.base.derivative_at(q)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The base is valid."""
        return self.base.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """The base's error."""
        self.base.explain(q)

    def to_ours(self, point: ArrayLike, vector: Any = None) -> Any:
        """Coordinates q of geomstats' points, or (q, v) with the components of tangent vectors.

        Parameters
        ----------
        point : (..., *shape) points of the space, in any backend's arrays.
        vector : optional, (..., *shape) tangent vectors at them.

        Returns
        -------
        q (..., nq); with `vector`, also v (..., n). JAX arrays.

        Raises
        ------
        ShapeError : the trailing axes are not the space's.
        PointError : a point off the space, or a vector that is not tangent.
        """
        points = self._shaped("point", point)
        flat = points.reshape(-1, *self.chart.shape)
        q = np.asarray(self.chart.coordinates(flat)).reshape(len(flat), -1)
        there = evaluate(self, PytreePartial(_there_and_back_at, self.chart), self._q(q))
        q, back = (np.asarray(array) for array in there)
        off, size = (_largest(array, len(flat)) for array in (back - flat, flat))
        good = off <= POINT_TOLERANCE * size
        if not good.all():
            row = int(np.argmin(good))
            raise PointError(f"{_name(self.space)}: the point {flat[row].tolist()} is {off[row]:.2e} off it")
        q = q.reshape(*points.shape[: points.ndim - len(self.chart.shape)], -1)
        if vector is None:
            return jnp.asarray(q)
        vectors = self._shaped("vector", vector)
        pair = self._q(q), Argument("vector", vectors, self.chart.shape)
        v, rest, length = evaluate(self, self.chart.components_at, *pair, checked=False)
        if not (np.asarray(rest) <= POINT_TOLERANCE * np.asarray(length)).all():
            largest = float(np.max(rest))
            raise PointError(f"{_name(self.space)}: the vector is not tangent (off by {largest:.2e})")
        return jnp.asarray(q), v

    def to_theirs(self, q: ArrayLike, v: ArrayLike | None = None) -> Any:
        """geomstats' points of coordinates q, or (point, vector) with tangent vectors of components v.

        Parameters
        ----------
        q : (..., nq) coordinates.
        v : optional, (..., n) frame components.

        Returns
        -------
        (..., *shape) arrays of geomstats' backend.
        """
        point = as_backend(evaluate(self, self.chart.point_at, self._q(q)))
        if v is None:
            return point
        components = Argument("v", v, (self.frame.dim,))
        return point, as_backend(evaluate(self, self.chart.tangent_at, self._q(q), components))

    def _q(self, q: Any) -> Argument:
        return Argument("q", q, (self.frame.ambient_dim,))

    def _shaped(self, name: str, value: Any) -> np.ndarray:
        array, shape = as_numpy(value, name), self.chart.shape
        require_finite(name, array)
        if array.ndim < len(shape) or array.shape[array.ndim - len(shape) :] != shape:
            raise ShapeError(f"{name} of {_name(self.space)}", ("...", *shape), array.shape)
        return array


def gram(inner: InnerProduct, point: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """<<X_i, X_j>> by geomstats' inner product, one call per pair, (n, n).

    Parameters
    ----------
    inner : (vector, vector, point) -> number, on the backend's arrays.
    point : (*shape). basis : (n, *shape), tangent vectors.

    Raises
    ------
    MetricError : geomstats fails at points of its own shape, as products of matrix spaces do in 2.8.0.
    """
    at, fields = as_backend(point), [as_backend(vector) for vector in basis]
    try:
        return np.array([[float(as_numpy(inner(a, b, at)).reshape(())) for b in fields] for a in fields])
    except (ValueError, TypeError, IndexError) as error:
        raise MetricError(
            f"geomstats cannot evaluate its own inner product at a point of shape {point.shape}: {error}"
        ) from error


def require_agreement(metric: GeomstatsMetric, inner: InnerProduct) -> None:
    """Raise `MetricError` unless H is geomstats' inner product of the frame's vectors at sampled points."""
    rng, chart = np.random.default_rng(0), metric.chart
    ours = compiled(_metric_point_and_basis_at, metric.base, chart)
    for _ in range(_SAMPLES):
        H, point, basis = (np.asarray(array) for array in ours(chart.sample(rng)))
        theirs = gram(inner, point, basis)
        lengths = np.sqrt(np.abs(np.diag(theirs)))
        gap, size = (
            float(a) for a in worst(jnp.asarray(H - theirs), jnp.asarray(np.outer(lengths, lengths)))
        )
        if not gap <= AGREEMENT * size:
            raise MetricError(
                f"the inner product of {_name(metric.space)} is not the one that {metric.route} gives (they "
                f"differ by {gap / size:.1e}, relative): write its matrix as a MatrixMetric instead"
            )


def _largest(array: np.ndarray, rows: int) -> np.ndarray:
    """The largest entry of each of the rows into which `array` is cut, (rows,)."""
    sizes: np.ndarray = np.abs(array).reshape(rows, -1).max(axis=1, initial=0.0)
    return sizes


def _metric_point_and_basis_at(metric: Metric, chart: Any, q: jax.Array) -> tuple[jax.Array, ...]:
    return metric.matrix_at(q), chart.point_at(q), chart.basis_at(q)


def _there_and_back_at(chart: Any, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The point of the manifold next to q, and geomstats' point."""
    return q, chart.point_at(q)


def _name(space: Any) -> str:
    return type(space).__name__.lstrip("_")
