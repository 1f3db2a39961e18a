"""Products, n-fold products and multiples of metrics that have been translated."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from connections.geometry import MatrixMetric, Metric, ProductMetric
from connections.interop.geomstats.charts import Exact
from connections.interop.geomstats.translation import Parametrization


def product(shape: tuple[int, ...], factors: list[Exact]) -> Exact:
    """Block-diagonal metric; coordinates of the factors one after the other.

    Parameters
    ----------
    shape : of the product's points: (sum of the factors' sizes,), or (number of factors, *shape of each).
    factors : the translated factors.
    """
    metric = ProductMetric(*(base for base, _, _ in factors))
    charts = [chart for _, chart, _ in factors]
    ends = np.cumsum([math.prod(chart.shape) for chart in charts])

    def point_at(q: jax.Array) -> jax.Array:
        pieces = zip(charts, metric.frame.split_point(q), strict=True)
        return jnp.concatenate([chart.point_at(p).reshape(-1) for chart, p in pieces]).reshape(shape)

    def coordinates(points: np.ndarray) -> np.ndarray:
        pieces = np.split(points.reshape(len(points), -1), ends[:-1], axis=1)
        return np.concatenate(
            [
                np.asarray(chart.coordinates(piece.reshape(-1, *chart.shape))).reshape(len(points), -1)
                for chart, piece in zip(charts, pieces, strict=True)
            ],
            axis=1,
        )

    chart = Parametrization(
        metric.frame,
        shape,
        point_at,
        coordinates,
        lambda rng: np.concatenate([chart.sample(rng) for chart in charts]),
    )
    routes = list(dict.fromkeys(route for _, _, route in factors))
    return metric, chart, "the product of " + " and ".join(routes)


def multiple(factor: Exact, scale: float) -> Exact:
    """The metric times a positive number."""
    base, chart, route = factor
    if scale == 1.0:
        return factor
    scaled: Metric = MatrixMetric(base.frame, lambda q: scale * base.matrix_at(q))
    return scaled, chart, f"{scale:g} times {route}"
