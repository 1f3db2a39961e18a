"""Bad input to connections, geodesics and transport: a clear error, never a wrong number."""

import jax.numpy as jnp
import numpy as np
import pytest
import systems

import connections as cn
from connections.checks import (
    FrameError,
    IntegrationError,
    MetricError,
    NonFiniteError,
    PointError,
    ShapeError,
    SymmetryError,
)

ORIGIN = np.zeros(3)
OTHER = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
NO_METRIC = cn.CoefficientConnection(cn.CoordinateFrame(3), lambda q: jnp.zeros((3, 3, 3)))
FAMILY = cn.ContorsionFamily(OTHER)


def into_the_boundary(t):
    """A curve of the half plane that reaches y = 0 at t = 1."""
    return jnp.stack([t, 1.0 - t])


def contorsion(symmetry):
    lopsided = np.arange(27.0).reshape(3, 3, 3)
    return cn.ContorsionConnection(OTHER, lambda q: jnp.asarray(lopsided), symmetry)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        # shapes
        (lambda: systems.LEVI_CIVITA.coefficients(np.zeros(4)), ShapeError, "q: expected"),
        (lambda: systems.LEVI_CIVITA.apply(ORIGIN, np.zeros(3), np.zeros(2)), ShapeError, "w: expected"),
        (
            lambda: systems.LEVI_CIVITA.apply(np.zeros((2, 3)), np.zeros((5, 3)), np.zeros(3)),
            ShapeError,
            "q|v",
        ),
        (
            lambda: cn.CoefficientConnection(systems.FRAME, lambda q: jnp.zeros((3, 3))).coefficients(ORIGIN),
            ShapeError,
            "coefficients",
        ),
        (lambda: contorsion(None) and FAMILY.connection([1.0, 2.0]), ShapeError, "beta"),
        (lambda: FAMILY.connection([np.nan]), NonFiniteError, "beta"),
        (lambda: FAMILY.connection(lambda q: jnp.zeros(2)).coefficients(ORIGIN), ShapeError, "beta"),
        (
            lambda: cn.geodesic(systems.LEVI_CIVITA, ORIGIN, np.zeros(2), [0.0, 1.0]),
            ShapeError,
            "v0: expected",
        ),
        (lambda: cn.geodesic(systems.LEVI_CIVITA, ORIGIN, ORIGIN, [0.0, 1.0, 0.5]), ShapeError, "times"),
        # numbers
        (lambda: systems.LEVI_CIVITA.curvature([0, np.nan, 0]), NonFiniteError, "q"),
        (lambda: cn.geodesic(systems.LEVI_CIVITA, ORIGIN, [np.inf, 0, 0], [0, 1.0]), NonFiniteError, "v0"),
        (lambda: cn.geodesic(systems.LEVI_CIVITA, ORIGIN, ORIGIN, [0, np.nan]), NonFiniteError, "times"),
        # points, metrics
        (lambda: systems.TOP_NABLA.coefficients([0, 0, 0, 1.2]), PointError, "quaternion"),
        (lambda: cn.geodesic(systems.TOP_NABLA, [0, 0, 0, 1.2], ORIGIN, [0, 1.0]), PointError, "quaternion"),
        (lambda: systems.SPHERE_NABLA.coefficients([0.0, 0.0]), MetricError, "positive definite"),
        (
            lambda: systems.SPHERE_NABLA.change(lambda q: jnp.eye(2)).coefficients([0.0, 0.0]),
            MetricError,
            "positive definite",
        ),
        # contorsion of the wrong symmetry for its use
        (lambda: contorsion("admissible").coefficients(ORIGIN), SymmetryError, "admissible"),
        (lambda: contorsion("metric_compatible").coefficients(ORIGIN), SymmetryError, "metric_compatible"),
        (lambda: contorsion("same_geodesics").coefficients(ORIGIN), SymmetryError, "same_geodesics"),
        (lambda: contorsion("nonsense"), SymmetryError, "nonsense"),
        (lambda: FAMILY.beta_of(np.arange(27.0).reshape(3, 3, 3)), SymmetryError, "antisymmetric"),
        # no metric at all
        (lambda: NO_METRIC.sectional(ORIGIN, *np.eye(3)[:2]), TypeError, "CoefficientConnection .* metric="),
        (lambda: NO_METRIC.contorsion(ORIGIN), TypeError, "metric="),
        (lambda: NO_METRIC.check_same_geodesics(ORIGIN), TypeError, "metric="),
        (lambda: cn.coriolis_matrix(NO_METRIC, ORIGIN, ORIGIN), TypeError, "metric="),
        # different frames combined
        (lambda: systems.LEVI_CIVITA.first_kind(ORIGIN, OTHER), FrameError, "frame"),
        (lambda: systems.LEVI_CIVITA.contorsion(ORIGIN, OTHER), FrameError, "frame"),
        (lambda: systems.LEVI_CIVITA.nonmetricity(ORIGIN, OTHER), FrameError, "frame"),
        (lambda: systems.LEVI_CIVITA.scalar_curvature(ORIGIN, OTHER), FrameError, "frame"),
        (lambda: systems.LEVI_CIVITA.check_metric_compatible(ORIGIN, OTHER), FrameError, "frame"),
        (lambda: systems.LEVI_CIVITA.check_same_geodesics(ORIGIN, OTHER), FrameError, "frame"),
        (lambda: cn.coriolis_matrix(systems.LEVI_CIVITA, ORIGIN, ORIGIN, OTHER), FrameError, "frame"),
        (
            lambda: cn.InducedConnection(
                systems.LEVI_CIVITA, OTHER, cn.CoordinateFrame(1), lambda q: jnp.ones((3, 1))
            ),
            FrameError,
            "frame",
        ),
        (lambda: cn.MechanicalSystem(OTHER, connection=systems.LEVI_CIVITA), FrameError, "frame"),
        (
            lambda: cn.ContorsionFamily(cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2))).connection(
                [0.5]
            ),
            ShapeError,
            "fewer than three velocities",
        ),
        # curves
        (
            lambda: cn.parallel_transport(systems.HALF_PLANE_NABLA, into_the_boundary, [1.0, 0], [0, 1.0]),
            IntegrationError,
            "parallel_transport: .*t = 1",
        ),
        (
            lambda: cn.parallel_transport(
                systems.TOP_NABLA, (np.linspace(0, 1, 7), np.ones((7, 4))), ORIGIN, [0.0, 1.0]
            ),
            PointError,
            "quaternion",
        ),
        (
            lambda: cn.parallel_transport(
                systems.LEVI_CIVITA, (np.linspace(0, 1, 7), np.zeros((7, 3))), ORIGIN, [0.0, 2.0]
            ),
            PointError,
            "outside",
        ),
    ],
)
def test_error_names_the_culprit(call, error, message):
    with pytest.raises(error, match=message):
        call()


FLAT = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2)))
TIMES = np.linspace(0.0, 1.0, 5)


def test_plane_that_is_no_plane():
    """Sectional curvature of parallel vectors is 0/0: an error or nothing, never a number."""
    u = np.array([1.0, 2.0])
    for q in ([1.0, 0.0], [[1.1, 0.0], [1.0, 0.0]]):
        with pytest.raises(ValueError, match=r"u and w .*no plane.* q = \[1\.\d* *0") as caught:
            systems.SPHERE_NABLA.sectional(q, u, 2 * u, systems.SPHERE)
        assert caught.type is ValueError
    with pytest.raises(NonFiniteError, match="w"):
        systems.SPHERE_NABLA.sectional([1.0, 0.0], u, [np.nan, 1.0], systems.SPHERE)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda f: cn.parallel_transport(FLAT, f, [1.0, 0.0], TIMES),
            r"curve\(t\) is \[0\.50\d* +nan\] at t = 0\.50",
        ),
        (lambda f: cn.holonomy(FLAT, f, 0.0, 1.0), r"holonomy: curve\(t\) is .*nan.* at t = 0\.50"),
        (
            lambda f: cn.covariant_derivative_along(FLAT, lambda t: jnp.stack([t, t]), f, TIMES),
            r"field\(t\) is .*nan.* at t = 0\.50",
        ),
        (
            lambda f: cn.parallel_transport(FLAT, lambda t: f(t - 0.5), [1.0, 0.0], TIMES[::-1]),
            r"the derivative of curve\(t\) is .*inf.* at t = 1$",
        ),
    ],
    ids=["transport", "holonomy", "field", "derivative"],
)
def test_a_function_that_is_not_finite_is_named_with_the_time(call, message):
    with pytest.raises(NonFiniteError, match=message):
        call(lambda t: jnp.stack([t, jnp.sqrt(0.5 - t)]))


def test_a_chart_that_ends_is_not_the_fault_of_the_curve():
    half_plane = cn.LeviCivita(
        cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) * jnp.sqrt(q[1]))  # NaN below
    )
    with pytest.raises(IntegrationError, match="metric"):
        cn.parallel_transport(half_plane, lambda t: jnp.stack([t, 0.5 - t]), [1.0, 0.0], TIMES)
