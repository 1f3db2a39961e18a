"""Metrics from geomstats: those with exact translations, and the choice of the route for a metric."""

from __future__ import annotations

from typing import Any

from connections.checks import MetricError
from connections.interop.geomstats import charts, groups, matrices, products
from connections.interop.geomstats.charts import Exact
from connections.interop.geomstats.loading import as_numpy, backend
from connections.interop.geomstats.sampled import sampled
from connections.interop.geomstats.translation import GeomstatsMetric, require_agreement

# By the name of the metric's class, because a subclass may have another metric than its parent.
_BY_NAME = {
    "HyperboloidMetric": charts.hyperboloid,
    "PoincareBallMetric": charts.ball,
    "PoincareHalfSpaceMetric": charts.half_space,
    "SPDAffineMetric": matrices.affine_invariant,
    "SPDBuresWassersteinMetric": matrices.bures_wasserstein,
    "SPDEuclideanMetric": matrices.frobenius,
    "SPDLogEuclideanMetric": matrices.log_euclidean,
}
_INVARIANT = {"BiInvariantMetric", "_InvariantMetricMatrix", "SpecialEuclideanMatricesCanonicalLeftMetric"}


def from_geomstats(space: Any, pole: Any = None) -> GeomstatsMetric:
    """The metric of a geomstats space as a metric H(q) of this library.

    Parameters
    ----------
    space : a geomstats space that has a metric, or the metric. Spheres, hyperbolic spaces, positive definite
        matrices, matrix groups with invariant metrics, products and multiples of these are exact; any other
        chart is sampled (`GeomstatsMetric.route` says which).
    pole : for a sphere in R^(n+1), the one point at which its frame is singular; (0, .., 0, -1) if None.

    Returns
    -------
    `GeomstatsMetric`, with ``to_ours`` and ``to_theirs`` for points and tangent vectors.

    Raises
    ------
    TypeError : not a geomstats space or metric.
    MetricError : the space has no metric, or its metric is not positive definite, cannot be differentiated,
        or differs from the exact one of its class at points where the two were compared.

    Examples
    --------
    >>> from connections import interop
    >>> geomstats = interop.import_geomstats()
    >>> from geomstats.geometry.poincare_half_space import PoincareHalfSpace
    >>> metric = interop.from_geomstats(PoincareHalfSpace(dim=2))
    >>> metric.matrix([0.0, 2.0])
    array([[0.25, 0.  ],
           [0.  , 0.25]])
    >>> metric.route
    'the Poincare half space'
    """
    source = from_geomstats, space, pole
    space, metric = _space_and_metric(space)
    pole = None if pole is None else as_numpy(pole, "pole")
    base, chart, route = _read(space, metric, pole)
    result = GeomstatsMetric(base, chart, space, route, source)
    require_agreement(result, _inner_product(space, metric))
    return result


def _space_and_metric(thing: Any) -> tuple[Any, Any]:
    backend()
    from geomstats.geometry.manifold import Manifold
    from geomstats.geometry.scalar_product_metric import ScalarProductMetric

    if isinstance(thing, type):
        raise TypeError(f"expected a geomstats space, got the class {thing.__name__}: make an instance of it")
    if isinstance(thing, Manifold):
        metric = getattr(thing, "metric", None)
        if metric is None:
            raise MetricError(f"{_name(thing)} has no metric: call its equip_with_metric() first")
    elif hasattr(thing, "inner_product") and hasattr(thing, "_space"):
        thing, metric = thing._space, thing
    else:
        raise TypeError(f"expected a geomstats space or metric, got {type(thing).__name__}")
    if not isinstance(metric, ScalarProductMetric) and not hasattr(metric, "inner_product"):
        raise MetricError(f"{_name(thing)}: its {_name(metric)} is a connection without an inner product")
    return thing, metric


def _read(space: Any, metric: Any, pole: Any = None) -> Exact:
    kind = type(metric).__name__
    if kind == "ScalarProductMetric":
        return products.multiple(_read(space, metric.underlying_metric, pole), float(metric.scale))
    if kind in ("EuclideanMetric", "CanonicalEuclideanMetric", "MinkowskiMetric"):
        return charts.euclidean(space, metric)
    if kind == "HypersphereMetric":
        return charts.sphere_angles(space) if space.intrinsic else charts.sphere(space, pole)
    if kind in _BY_NAME:
        return _BY_NAME[kind](space)
    if kind in _INVARIANT and space.point_ndim == 2:
        return groups.invariant(space, metric)
    if kind == "ProductRiemannianMetric":
        return products.product(tuple(space.shape), [_read(f, f.metric, pole) for f in space.factors])
    if kind in ("NFoldMetric", "PoincarePolydiskMetric"):
        factor = _read(space.base_manifold, space.base_manifold.metric, pole)
        scales = [1.0] * space.n_copies if metric.scales is None else [float(s) for s in metric.scales]
        return products.product(tuple(space.shape), [products.multiple(factor, scale) for scale in scales])
    return sampled(space, metric)


def _inner_product(space: Any, metric: Any) -> Any:
    """geomstats' inner product; for angles on a sphere, the inner product of the vectors in R^(n+1).

    geomstats 2.8 applies the formulas for vectors of R^(n+1) to pairs of angles.
    """
    if type(metric).__name__ != "HypersphereMetric" or not space.intrinsic:
        return metric.inner_product
    if space.dim == 1:
        return lambda a, b, point: (a * b).sum()

    def inner(a: Any, b: Any, point: Any) -> Any:
        return (
            space.tangent_spherical_to_extrinsic(a, point) * space.tangent_spherical_to_extrinsic(b, point)
        ).sum()

    return inner


def _name(thing: Any) -> str:
    return type(thing).__name__.lstrip("_")
