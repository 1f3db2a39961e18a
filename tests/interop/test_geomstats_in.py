"""geomstats' metrics become metrics of this library: there and back, closed forms, and what is refused."""

from __future__ import annotations

import re

import geomstats_spaces as spaces
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always

import connections as cn
from connections import multibody as mb
from connections.checks import MetricError, PointError, ShapeError
from connections.geometry.frames import FrameField
from connections.interop.geomstats import from_geomstats, to_geomstats
from connections.interop.geomstats.equipped import components, push
from connections.interop.geomstats.sampled import ORDER_6, ORDER_8, differences, sampled, units_near
from connections.interop.geomstats.translation import GeomstatsMetric

SIX = {
    "sphere": spaces.sphere,
    "half_plane": spaces.half_plane,
    "ball": spaces.ball,
    "hyperboloid": spaces.hyperboloid,
    "positive_definite": spaces.spd,
    "rotations": spaces.rotations,
}
CLOSED_TRANSPORT = ("sphere", "hyperboloid", "positive_definite")


@pytest.mark.parametrize("name", always(SIX, "sphere"))
def test_round_trip_gives_the_same_exp_log_and_transport(name: str, rng: np.random.Generator) -> None:
    space = SIX[name]()
    metric = from_geomstats(space)
    nabla = cn.LeviCivita(metric)
    ours = to_geomstats(nabla).metric
    q = np.array([metric.chart.sample(rng) for _ in range(3)])
    v, z = rng.standard_normal((2, 3, metric.frame.dim))
    v *= 0.7 / np.sqrt(np.asarray(metric.inner(q, v, v)))[:, None]  # geodesics of length 0.7
    point, vector = metric.to_theirs(q, v)
    end = space.metric.exp(vector, point)
    end_ours = ours.exp(push(metric.frame, q, v), q)
    assert np.max(np.abs(metric.to_theirs(end_ours) - end)) < 1e-8
    log = metric.to_ours(point, space.metric.log(end, point))[1]
    log_ours = components(metric.frame, q, ours.log(end_ours, q))
    assert np.max(np.abs(log_ours - log)) < 1e-8
    assert np.max(np.abs(log_ours - v)) < 1e-8
    if name in CLOSED_TRANSPORT:
        other = metric.to_theirs(q, z)[1]
        theirs = space.metric.parallel_transport(other, point, direction=vector)
        carried = ours.parallel_transport(push(metric.frame, q, z), q, direction=push(metric.frame, q, v))
        w = components(metric.frame, end_ours, carried)
        assert np.max(np.abs(metric.to_theirs(end_ours, w)[1] - theirs)) < 1e-8


def test_statistics_of_inertias_of_robots() -> None:
    """geomstats on pseudo-inertias of an arm: dist, exp, log, Frechet mean. Control: the mean of entries."""
    from geomstats.geometry.spd_matrices import SPDMatrices
    from geomstats.learning.frechet_mean import FrechetMean

    space, metric = SPDMatrices(4), mb.inertia_metric()
    bodies = mb.inertial_parameters(mb.example("arm"))
    P = metric.matrices(bodies)
    np.testing.assert_allclose(metric.distance(bodies[0], bodies), space.metric.dist(P[0], P), atol=1e-11)
    v = metric.logarithm(bodies[0], bodies[1:])
    np.testing.assert_allclose(metric.matrices(v), space.metric.log(P[1:], P[0]), atol=1e-10)
    ends = metric.matrices(metric.exponential(bodies[0], 0.3 * v))
    np.testing.assert_allclose(ends, space.metric.exp(0.3 * metric.matrices(v), P[0]), atol=1e-11)
    translated = from_geomstats(space)
    np.testing.assert_allclose(
        translated.inner(translated.to_ours(P[0]), *(translated.to_ours(P[0], metric.matrices(v[:2]))[1])),
        metric.inner(bodies[0], v[0], v[1]),
        rtol=1e-10,
    )
    mean = FrechetMean(space).set(epsilon=1e-12, max_iter=200).fit(P)
    found = metric.matrices(metric.mean(bodies))
    assert space.metric.dist(found, mean.estimate_) < 1e-5
    assert np.abs(space.metric.log(P, found).mean(axis=0)).max() < 1e-11
    assert space.metric.dist(P.mean(axis=0), found) > 0.1


@pytest.mark.further
def test_other_spaces_agree_pointwise(rng: np.random.Generator) -> None:
    """`from_geomstats` compares inner products before it returns; here the coordinates, there and back."""
    from geomstats.geometry.product_manifold import ProductManifold

    product = ProductManifold([spaces.half_plane(), spaces.rotations()], point_ndim=1)
    log_euclidean = spaces.spd("SPDLogEuclideanMetric")
    bures = spaces.spd("SPDBuresWassersteinMetric")
    for space in (spaces.motions(), spaces.rotations(left=False), product, log_euclidean, bures):
        metric = from_geomstats(space)
        q = metric.chart.sample(rng)
        point = np.asarray(jax.jit(metric.chart.point_at)(q))
        back = metric.chart.coordinates(point[None])[0]
        np.testing.assert_allclose(metric.frame.align_at(back, q), q, atol=1e-12)
        assert bool(space.belongs(point))
    doubled = from_geomstats(2.0 * spaces.half_plane().metric)
    np.testing.assert_allclose(doubled.matrix([0.3, 0.5]), 8.0 * np.eye(2), rtol=1e-14)


def test_frames_of_embedded_spaces_have_these_brackets(rng: np.random.Generator) -> None:
    for space in (spaces.sphere(), spaces.hyperboloid()):
        frame = from_geomstats(space).frame
        q = jnp.asarray(from_geomstats(space).chart.sample(rng))
        by_derivatives = jax.jit(lambda p, f=frame: FrameField.structure_functions_at(f, p))(q)
        np.testing.assert_allclose(frame.structure_functions_at(q), by_derivatives, atol=1e-14)
        np.testing.assert_allclose(frame.dual_at(q) @ frame.matrix_at(q), np.eye(2), atol=1e-14)
        assert np.max(np.abs(by_derivatives)) > 0.1


def test_symbols_are_the_closed_forms(rng: np.random.Generator) -> None:
    half = cn.LeviCivita(from_geomstats(spaces.half_plane()))
    x, y = 0.3, 0.7
    expected = np.zeros((2, 2, 2))
    expected[0, 0, 1] = expected[0, 1, 0] = expected[1, 1, 1] = -1.0 / y
    expected[1, 0, 0] = 1.0 / y
    np.testing.assert_allclose(half.coefficients([x, y]), expected, atol=1e-14)

    q = rng.uniform(-0.4, 0.4, 3)
    one, slope = np.eye(3), 2.0 * q / (1.0 - q @ q)
    closed = (
        np.einsum("ij,k->ijk", one, slope)
        + np.einsum("ik,j->ijk", one, slope)
        - np.einsum("jk,i->ijk", one, slope)
    )
    np.testing.assert_allclose(
        cn.LeviCivita(from_geomstats(spaces.ball())).coefficients(q), closed, atol=1e-13
    )


def test_sphere_in_angles_has_the_right_symbols_where_geomstats_has_a_wrong_metric() -> None:
    from geomstats.geometry.hypersphere import Hypersphere

    space = Hypersphere(2, intrinsic=True)
    q = np.array([0.9, 0.4])
    metric = from_geomstats(space)
    np.testing.assert_allclose(metric.matrix(q), np.diag([1.0, np.sin(0.9) ** 2]), atol=1e-15)
    np.testing.assert_allclose(
        cn.LeviCivita(metric).coefficients(q), space.metric.christoffels(q), atol=1e-14
    )
    assert space.metric.metric_matrix(q).shape != (2, 2)


def test_sampled_metrics_have_two_derivatives(rng: np.random.Generator) -> None:
    from geomstats.information_geometry.beta import BetaDistributions

    space = spaces.ball()
    exact = from_geomstats(space)
    base, chart, route = sampled(space, space.metric)
    q = rng.uniform(-0.3, 0.3, 3)
    a, b = (
        cn.LeviCivita(exact),
        cn.LeviCivita(GeomstatsMetric(base, chart, space, route, (from_geomstats, space))),
    )
    np.testing.assert_allclose(b.coefficients(q), a.coefficients(q), rtol=0, atol=1e-11)
    np.testing.assert_allclose(b.curvature(q), a.curvature(q), rtol=0, atol=1e-7)
    beta = BetaDistributions()
    q = np.array([1.3, 2.1])
    symbols = cn.LeviCivita(from_geomstats(beta)).coefficients(q)
    np.testing.assert_allclose(symbols, beta.metric.christoffels(q), atol=1e-10)


@pytest.mark.parametrize("s", [(1.0, 1.0), (1e-9, 1e9), (1e6, 1e-6)])
def test_sampled_metrics_are_differentiated_in_any_units(s: tuple[float, float]) -> None:
    """H of coordinates x = q / s: dH / dx = (cos x_1, 1, -sin x_2) in its three entries."""
    units = np.array(s)

    def numbers(q: np.ndarray) -> np.ndarray:
        x = q / units
        a, b = 3.0 + np.sin(x[:, 0]), 2.0 + np.cos(x[:, 1])
        H = np.stack([np.stack([a, 0.1 * x[:, 0]], -1), np.stack([0.1 * x[:, 0], b], -1)], -2)
        return H / np.outer(units, units)

    x = np.array([[0.3, -0.7], [0.0, 0.2]])
    found = differences(numbers, units_near(1.7 * x * units))(x * units)
    found = found * np.outer(units, units)[..., None] * units
    expected = np.zeros((2, 2, 2, 2))
    expected[:, 0, 0, 0], expected[:, 1, 1, 1] = np.cos(x[:, 0]), -np.sin(x[:, 1])
    expected[:, 0, 1, 0] = expected[:, 1, 0, 0] = 0.1
    np.testing.assert_allclose(found, expected, atol=1e-11)


def test_differences_are_of_order_eight() -> None:
    """Of sin 4 q with steps of a hundredth; weights of order six would leave 1e-10."""
    q = np.array([[0.9], [1.1]])
    found = differences(lambda x: np.sin(4.0 * x))(q)[:, 0]
    np.testing.assert_allclose(found, 4.0 * np.cos(4.0 * q), rtol=0.0, atol=5e-13)


def test_difference_weights_are_exact_on_polynomials() -> None:
    m = np.arange(1.0, 5.0)
    for weights, order in ((ORDER_8, 8), (ORDER_6, 6)):
        for power in range(1, order + 2, 2):
            value = 2.0 * weights @ m**power  # the derivative at 0 of x^power, step 1
            assert abs(value - (power == 1)) < 1e-12 or power > order
        assert abs(2.0 * weights @ m ** (order + 1)) > 0.1


def test_the_gram_matrix_is_that_of_the_inner_product() -> None:
    full = ((1.0, 0.2, -0.1), (0.2, 2.0, 0.3), (-0.1, 0.3, 2.5))
    with pytest.warns(UserWarning, match="ignores a metric_mat_at_identity that is not diagonal"):
        ignored = from_geomstats(spaces.rotations(full))
    np.testing.assert_allclose(ignored.base.H, 2.0 * np.eye(3), atol=1e-14)
    canonical = from_geomstats(spaces.motions())
    np.testing.assert_allclose(canonical.base.H, np.diag([2.0, 2, 2, 1, 1, 1]), atol=1e-14)


def test_the_pole_can_be_put_elsewhere() -> None:
    south = np.array([0.0, 0.0, -1.0])
    assert not np.isfinite(
        np.asarray(from_geomstats(spaces.sphere()).frame.matrix_at(jnp.asarray(south)))
    ).all()
    elsewhere = from_geomstats(spaces.sphere(), pole=[1.0, 0.0, 0.0])
    X = np.asarray(elsewhere.frame.matrix(south))
    np.testing.assert_allclose(X.T @ X, np.eye(2), atol=1e-15)
    np.testing.assert_allclose(X.T @ south, 0.0, atol=1e-15)
    with pytest.raises(PointError, match="pole: expected a point of the sphere, 3 numbers of norm 1"):
        from_geomstats(spaces.sphere(), pole=[1.0, 1.0, 0.0])


def test_the_global_generators_are_left_alone() -> None:
    from geomstats.information_geometry.gamma import GammaDistributions

    np.random.seed(5)  # noqa: NPY002
    first = np.random.rand()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    from_geomstats(GammaDistributions())
    assert np.random.rand() == first  # noqa: NPY002


# --- bad input ---------------------------------------------------------------------------------------------


def unequipped():
    from geomstats.geometry.hypersphere import Hypersphere

    return Hypersphere(2, equip=False)


def the_class():
    from geomstats.geometry.hypersphere import Hypersphere

    return Hypersphere


def minkowski():
    from geomstats.geometry.minkowski import Minkowski

    return Minkowski(3)


def stiefel():
    from geomstats.geometry.stiefel import Stiefel

    return Stiefel(3, 2)


def renamed():
    """A metric with the name of the ball's, and another inner product."""
    from geomstats.geometry import poincare_ball

    class PoincareBallMetric(poincare_ball.PoincareBallMetric):
        def inner_product(self, a, b, base_point=None):
            return 2.0 * super().inner_product(a, b, base_point)

    space = poincare_ball.PoincareBall(2, equip=False)
    return space.equip_with_metric(PoincareBallMetric)


def needs_autodiff():
    import geomstats.backend as gs

    return spaces.chart_with(lambda q: gs.autodiff.jacobian(lambda p: p)(q))


def noisy():
    return spaces.chart_with(lambda q: np.eye(2) * (2.0 + 1e-3 * np.sin(1e9 * q[0])))


def indefinite():
    return spaces.chart_with(lambda q: np.diag([1.0, -1.0]))


def misshapen():
    return spaces.chart_with(lambda q: np.eye(3))


def unequal_matrices():
    """geomstats 2.8.0 cuts the points of such a product by the dimensions of its factors."""
    from geomstats.geometry.product_manifold import ProductManifold
    from geomstats.geometry.spd_matrices import SPDMatrices

    return ProductManifold([SPDMatrices(2), SPDMatrices(3)])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (unequipped, MetricError, "Hypersphere has no metric: call its equip_with_metric() first"),
        (the_class, TypeError, "got the class Hypersphere: make an instance of it"),
        (lambda: {"metric": 1}, TypeError, "expected a geomstats space or metric, got dict"),
        (minkowski, MetricError, "only positive definite metrics can be translated"),
        (stiefel, MetricError, "Stiefel is neither a chart nor an open set of a vector space"),
        (renamed, MetricError, "is not the one that the Poincare ball gives"),
        (
            needs_autodiff,
            MetricError,
            "AutodiffNotImplementedError: Automatic differentiation is not supported",
        ),
        (noisy, MetricError, "the metric of Euclidean cannot be differentiated at q ="),
        (indefinite, MetricError, "the metric of Euclidean is not positive definite at q ="),
        (unequal_matrices, MetricError, "geomstats cannot evaluate its own inner product at a point of"),
        (misshapen, MetricError, "metric matrix has shape (3, 3), expected (2, 2)"),
    ],
)
def test_what_cannot_be_translated_is_refused(make, error, message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        from_geomstats(make())


def test_a_kink_is_found_where_it_is() -> None:
    metric = from_geomstats(spaces.chart_with(lambda q: np.eye(2) * (2.0 + abs(q[0] - 7.0))))
    nabla = cn.LeviCivita(metric)
    assert np.isfinite(nabla.coefficients([0.5, 0.5])).all()
    with pytest.raises(MetricError, match="cannot be differentiated"):
        nabla.coefficients([7.0, 0.5])


def test_points_and_vectors_of_other_places_are_refused() -> None:
    metric = from_geomstats(spaces.sphere())
    with pytest.raises(PointError, match=r"Hypersphere: the vector is not tangent \(off by 1.00e\+00\)"):
        metric.to_ours([0.0, 0.0, 1.0], [0.0, 0.0, 1.0])
    with pytest.raises(ShapeError, match=r"point of Hypersphere: expected shape \(..., 3\), got \(2,\)"):
        metric.to_ours([0.0, 1.0])
    with pytest.raises(PointError, match="off"):
        metric.to_ours([0.0, 0.0, 2.0])
    with pytest.raises(TypeError, match="got lists of different lengths"):
        metric.to_ours([[0.0, 0.0, 1.0], [1.0]])
