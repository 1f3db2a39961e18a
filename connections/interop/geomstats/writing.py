"""Connections of this library for geomstats' solvers and statistics.

geomstats' points are the coordinates q and its tangent vectors are the rates qdot, in every frame: v is
converted to X v and back. If nq = n, the space is R^n and the symbols are those of the coordinate fields. If
nq > n (quaternions, embeddings), the space is the set of valid q, without symbols.
"""

from __future__ import annotations

from typing import Any

from connections.affine import AffineConnection
from connections.checks import MetricError, require_same_frame, require_type
from connections.geometry import Metric
from connections.interop.geomstats.loading import backend


def to_geomstats(nabla: AffineConnection, metric: Metric | None = None) -> Any:
    """A geomstats space equipped with `nabla`: ``space.metric`` is the connection.

    Parameters
    ----------
    nabla : any connection, also a robot's.
    metric : its metric, in the same frame; if None, ``nabla.metric`` if there is one. With a metric,
        ``space.metric`` is a geomstats ``RiemannianMetric`` (inner products, norms, distances), which the
        Frechet mean, the geodesic regression and k-means need; without a metric it is a ``Connection``.

    Returns
    -------
    The space: ``Euclidean(n)`` if nq = n, a ``CoordinateManifold`` if nq > n. Exponential, logarithm,
    geodesics and transport are this library's, for all rows of a call together (`flow`);
    ``space.metric.exp_solver`` and ``log_solver`` may be replaced by geomstats' own.

    Raises
    ------
    TypeError : not a connection. FrameError : the metric is in another frame.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections import interop
    >>> half_plane = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
    >>> space = interop.to_geomstats(cn.LeviCivita(half_plane))
    >>> float(space.metric.dist([0.0, 1.0], [0.0, 2.0]).round(6))  # log 2
    0.693147
    """
    require_type("nabla", nabla, AffineConnection)
    if metric is None:
        metric = getattr(nabla, "metric", None)
    if metric is not None:
        require_type("metric", metric, Metric)
        if metric.signature is not None:
            raise MetricError(
                f"metric: expected a positive definite one, got the signature {metric.signature}"
            )
        require_same_frame(nabla.frame, "the connection", metric.frame, "the metric")
    backend()
    from connections.interop.geomstats import equipped

    return equipped.space_of(nabla, metric)
