"""A metric without an exact translation: geomstats' values, and differences of order eight.

A callback computes the matrix by geomstats, with any backend. First and second derivatives are central
differences, all points of a stencil in one call. The same points also give differences of order six. If the
two orders differ by more than 1e-6, the metric is not smooth there, and the derivative is NaN, which becomes
a `MetricError`. There is no third derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import MetricError, raise_at
from connections.geometry import FrameField, Metric
from connections.geometry.frames import PointFunction
from connections.interop.geomstats.charts import Exact
from connections.interop.geomstats.loading import as_backend, as_numpy, backend
from connections.interop.geomstats.matrices import linear_chart

# Central differences: weights of f(q + m h) - f(q - m h), m = 1 .. 4, of order eight and of order six.
ORDER_8 = np.array([4 / 5, -1 / 5, 4 / 105, -1 / 280])
ORDER_6 = np.array([3 / 4, -3 / 20, 1 / 60, 0.0])
# Order eight minus order six of the second derivative, weights of f(q + m h) + f(q - m h) - 2 f(q): finds
# kinks.
BEND = np.array([8 / 5 - 3 / 2, -1 / 5 + 3 / 20, 8 / 315 - 1 / 90, -1 / 560])
STEP = 1e-2  # of a difference, relative to the coordinate's size, which is at least LEAST of its unit
LEAST = 0.3
PREFIX = 1e3  # units are its powers
SMOOTHNESS = 1e-6

Host = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False, repr=False)
class SampledMetric(Metric):
    """A metric of which only values are known.

    Parameters
    ----------
    frame : a coordinate frame.
    numbers : q (m, nq) -> H (m, n, n), on NumPy arrays.
    units : typical sizes of the coordinates, scalar or (n,).
    """

    frame: FrameField
    numbers: Host
    units: np.ndarray | float = 1.0

    def __post_init__(self) -> None:
        first = differences(self.numbers, self.units)
        second = _with_derivative(differences(first, self.units), 4, _no_third)
        function = _with_derivative(self.numbers, 2, _with_derivative(first, 3, second))
        object.__setattr__(self, "_function", function)
        object.__setattr__(self, "_first", first)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """geomstats' H(q), (n, n)."""
        H: jax.Array = self.__dict__["_function"](q)
        return H

    def explain(self, q: Any) -> None:
        """Raise the error of an invalid point, such as `MetricError` where the values are not smooth."""
        super().explain(q)
        if not np.isfinite(self.__dict__["_first"](np.asarray(q, dtype=float)[None])).all():
            raise_at(
                MetricError, "geomstats' metric cannot be differentiated (its numbers are not smooth)", q
            )


def sampled(space: Any, metric: Any) -> Exact:
    """(metric, chart, the method in words) of a chart's metric, or of one on an open set of a vector space.

    Raises
    ------
    MetricError : the space is neither, or geomstats cannot evaluate the metric, or it is not smooth.
    """
    basis, points = _basis(space), _random_points(space)
    inverse = np.linalg.pinv(basis.reshape(len(basis), -1))
    q = points.reshape(len(points), -1) @ inverse
    chart = linear_chart(basis, lambda rng: q[rng.integers(len(q))])
    ours = SampledMetric(chart.frame, _numbers(space, metric, basis, points), units_near(q))
    for point in q:
        H = ours.numbers(point[None])[0]
        if not np.linalg.eigvalsh(0.5 * (H + H.T))[0] > 0.0:
            raise_at(
                MetricError,
                f"the metric of {type(space).__name__.lstrip('_')} is not positive definite",
                point,
            )
        if not np.isfinite(ours.__dict__["_first"](point[None])).all():
            raise_at(
                MetricError,
                f"the metric of {type(space).__name__.lstrip('_')} cannot be differentiated",
                point,
            )
    return ours, chart, "geomstats' numbers and differences of order eight"


def differences(function: Host, units: np.ndarray | float = 1.0) -> Host:
    """The function (m, n) -> (m, ..., n) of derivatives d f / d q for f: (m, n) -> (m, ...).

    A derivative is NaN if orders eight and six differ by more than `SMOOTHNESS` with each of two steps.

    Parameters
    ----------
    function : f.
    units : typical sizes of the coordinates, scalar or (n,).
    """
    moves = np.concatenate([np.arange(1, 5), -np.arange(1, 5)])

    def derivative(q: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            result = with_step(q, STEP)
            rough = ~np.isfinite(result).reshape(len(q), -1).all(axis=1)
            if rough.any():  # close to the edge of the chart, a shorter stencil may be inside
                result[rough] = with_step(q[rough], STEP / 8)
        return result

    def with_step(q: np.ndarray, step: float) -> np.ndarray:
        count, n = q.shape
        h = step * np.maximum(np.abs(q), LEAST * units)
        shift = moves[:, None, None] * np.eye(n)  # (8, n, n): move, direction, coordinate
        stencil = q[:, None, None, :] + shift * h[:, None, None, :]
        values = function(np.concatenate([stencil.reshape(-1, n), q]))
        middle, values = values[-count:, None, None], values[:-count].reshape(count, 8, n, *values.shape[1:])
        length = (h / units).reshape(count, 1, n, *(1,) * (values.ndim - 3))
        odd = (values[:, :4] - values[:, 4:]) / length
        even = (values[:, :4] + values[:, 4:] - 2.0 * middle) / length
        exact, coarse = (np.tensordot(w, odd, axes=([0], [1])) for w in (ORDER_8, ORDER_6))
        bend = np.tensordot(BEND, even, axes=([0], [1]))
        size = np.max(np.abs(exact)) + np.max(np.abs(values))
        smooth = np.maximum(np.abs(exact - coarse), np.abs(bend)) <= SMOOTHNESS * size
        return np.moveaxis(np.where(smooth, exact, np.nan), 1, -1) / units

    return derivative


def units_near(q: np.ndarray) -> np.ndarray:
    """Powers of a thousand (n,) next to the largest coordinates of points (m, n); one where they vanish."""
    size = np.abs(q).max(axis=0)
    return np.asarray(PREFIX ** np.round(np.log(np.where(size > 0.0, size, 1.0)) / np.log(PREFIX)))


def _with_derivative(host: Host, rank: int, derivative: PointFunction) -> PointFunction:
    """A JAX function of q (n,), with `rank` axes of n, that calls `host` and has the given derivative."""

    def call(q: Any) -> np.ndarray:
        array = np.asarray(q, dtype=np.float64)
        n = array.shape[-1]
        return host(array.reshape(-1, n)).reshape(*array.shape[:-1], *(n,) * rank)

    @jax.custom_jvp
    def function(q: jax.Array) -> jax.Array:
        out = jax.ShapeDtypeStruct((q.shape[-1],) * rank, jnp.float64)
        value: jax.Array = jax.pure_callback(call, out, q, vmap_method="expand_dims")
        return value

    @function.defjvp
    def jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
        return function(primals[0]), derivative(primals[0]) @ tangents[0]

    return function


def _no_third(q: jax.Array) -> jax.Array:
    raise MetricError("a metric sampled from geomstats has two derivatives; this computation needs a third")


def _numbers(space: Any, metric: Any, basis: np.ndarray, points: np.ndarray) -> Host:
    """The function q (m, n) -> H (m, n, n) by ``metric_matrix``, or else ``inner_product`` of the basis."""
    n, flat = len(basis), basis.reshape(len(basis), -1)
    upper = np.triu_indices(n)

    def by_matrix(q: np.ndarray) -> np.ndarray:
        return as_numpy(metric.metric_matrix(as_backend((q @ flat).reshape(len(q), *basis.shape[1:]))))

    def by_products(q: np.ndarray) -> np.ndarray:
        at = np.repeat((q @ flat).reshape(len(q), *basis.shape[1:]), len(upper[0]), axis=0)
        a, b = (np.concatenate([basis[index]] * len(q)) for index in upper)
        values = as_numpy(metric.inner_product(as_backend(a), as_backend(b), as_backend(at)))
        H = np.zeros((len(q), n, n))
        H[:, upper[0], upper[1]] = H[:, upper[1], upper[0]] = values.reshape(len(q), -1)
        return H

    q = points.reshape(len(points), -1) @ np.linalg.pinv(flat)
    name = type(space).__name__.lstrip("_")
    for numbers in (by_matrix, by_products) if basis.ndim == 2 else (by_products,):
        try:
            H = numbers(q)
        except NotImplementedError:
            continue
        except Exception as error:
            raise MetricError(
                f"{name}: geomstats cannot evaluate this metric ({type(error).__name__}: {error})"
            ) from error
        if H.shape != (len(q), n, n):
            raise MetricError(f"{name}: geomstats' metric matrix has shape {H.shape[1:]}, expected {(n, n)}")
        return partial(_square, numbers)
    raise MetricError(f"{name}: geomstats implements neither metric_matrix nor inner_product for this metric")


def _square(numbers: Host, q: np.ndarray) -> np.ndarray:
    """H (m, n, n), also for a batch of one, for which geomstats drops the axis."""
    return numbers(q).reshape(len(q), q.shape[1], q.shape[1])


def _basis(space: Any) -> np.ndarray:
    if tuple(space.shape) == (space.dim,):
        return np.eye(space.dim)
    ambient = getattr(space, "embedding_space", space)
    try:
        basis = as_numpy(ambient.basis)
    except (AttributeError, NotImplementedError):
        basis = np.empty(0)
    if basis.shape != (space.dim, *space.shape):
        raise MetricError(
            f"{type(space).__name__.lstrip('_')} is neither a chart nor an open set of a vector space, and "
            "no exact translation of it is known: give coordinates and write its matrix as a MatrixMetric"
        )
    return basis


def _random_points(space: Any, count: int = 3) -> np.ndarray:
    """Points of the space, the same at every call; the state of global generators is restored."""
    gs, state = backend(), np.random.get_state()  # noqa: NPY002  (the generator that geomstats uses)
    torch = __import__("torch") if gs.__name__.endswith("pytorch") else None
    torch_state = torch.random.get_rng_state() if torch else None
    try:
        gs.random.seed(0)
        return as_numpy(space.random_point(count)).reshape(count, *space.shape)
    finally:
        np.random.set_state(state)  # noqa: NPY002
        if torch:
            torch.random.set_rng_state(torch_state)
