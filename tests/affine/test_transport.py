"""Parallel transport and holonomy: closed forms, isometry, composition, any curve, any connection."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import systems
from cases import further

import connections as cn
from connections.affine.motions.transport import _transport_flow
from connections.checks import IntegrationError, PointError

TURN = np.array([0.0, 2 * np.pi])


def turned(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


@pytest.mark.parametrize("theta", [further(0.3), 2.2])
def test_latitude_circle_turns_vectors_by_the_solid_angle(theta):
    """Rotation by 2 pi (1 - cos theta) in the orthonormal frame (Foucault)."""

    def latitude(t):
        return jnp.stack([theta + 0.0 * t, t])

    nabla = systems.SPHERE_ORTHONORMAL_NABLA
    P = np.asarray(cn.parallel_transport(nabla, latitude, np.eye(2), TURN))[:, -1].T
    expected = turned(2 * np.pi * (1 - np.cos(theta)))
    np.testing.assert_allclose(P, expected, atol=1e-9)
    if abs(np.cos(theta)) > 1e-6:  # the opposite sense is another rotation
        assert np.abs(P - expected.T).max() > 1e-2
    scale = np.diag([1.0, np.sin(theta)])  # coordinate components: zdot phi carries 1 / sin(theta)
    Q = np.asarray(cn.parallel_transport(systems.SPHERE_NABLA, latitude, np.eye(2), TURN))[:, -1].T
    np.testing.assert_allclose(Q, np.linalg.inv(scale) @ expected @ scale, atol=1e-8)


@pytest.mark.further
def test_transport_is_linear():
    """A vector is turned by 2 pi (1 - cos theta), however short it is."""
    theta, z = 0.8, np.array([0.3, -1.0])

    def latitude(t):
        return jnp.stack([theta + 0.0 * t, t])

    expected = turned(2 * np.pi * (1 - np.cos(theta))) @ z
    for size in (1.0, 1e9, 1e-6, 1e-9, 1e-11):
        moved = cn.parallel_transport(systems.SPHERE_ORTHONORMAL_NABLA, latitude, size * z, TURN)[-1]
        np.testing.assert_allclose(moved / size, expected, atol=1e-9)


@pytest.mark.further
def test_transport_to_one_time_and_in_one_dimension():
    """At the first time nothing has moved; where Gamma = 0, nothing changes."""
    P = cn.parallel_transport(systems.SPHERE_NABLA, ([0.0, 1.0], [[1.0, 0.0], [1.0, 1.0]]), np.eye(2), [0.0])
    np.testing.assert_array_equal(P, np.eye(2)[:, None])
    line = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1)))
    z = cn.parallel_transport(line, ([0.0, 1.0], [[0.0], [1.0]]), [2.0], [0.0, 1.0])
    np.testing.assert_allclose(z, [[2.0], [2.0]], atol=1e-12)


@pytest.mark.further
def test_holonomy_of_a_closed_curve_on_the_embedded_sphere():
    theta = 0.8

    def latitude(t):
        return jnp.stack([jnp.sin(theta) * jnp.cos(t), jnp.sin(theta) * jnp.sin(t), jnp.cos(theta) + 0.0 * t])

    P = cn.holonomy(systems.SPHERE_EMBEDDED_NABLA, latitude, 0.0, 2 * np.pi)
    np.testing.assert_allclose(P, turned(2 * np.pi * (1 - np.cos(theta))), atol=1e-8)


def test_small_loop_holonomy_is_the_curvature(rng):
    """P - 1 = -R(X_i, X_j) area + O(area^(3/2)) around a small square of coordinate lines."""
    nabla = systems.LEVI_CIVITA.change(lambda p: jnp.linalg.inv(systems.FRAME.matrix_at(p)))
    q = np.array([0.1, -0.2, 0.3])
    R = np.asarray(nabla.curvature(q))[:, :, 0, 1]
    errors = []
    for side in (2e-2, 1e-2):

        def circle(t, r=side):
            return jnp.asarray(q) + r * jnp.stack([jnp.cos(t), jnp.sin(t), 0.0 * t])

        P = np.asarray(cn.holonomy(nabla, circle, 0.0, 2 * np.pi))
        errors.append(np.abs((np.eye(3) - P) / (np.pi * side**2) - R).max())
    assert errors[1] < 0.7 * errors[0] < 0.1
    assert np.abs(R).max() > 0.1


def test_open_curve_has_no_holonomy():
    with pytest.raises(PointError, match="not closed"):
        cn.holonomy(systems.SPHERE_NABLA, lambda t: jnp.stack([1.0 + t, t]), 0.0, 1.0)


def path(t):
    return 0.3 * jnp.stack([jnp.sin(t), jnp.cos(2 * t), t - 0.5])


@pytest.mark.parametrize(
    ("nabla", "isometry"),
    [
        further(systems.LEVI_CIVITA, True),
        (systems.ADMISSIBLE, True),
        further(systems.METRIC_ONLY, True),
        further(systems.GEODESICS_ONLY, False),
        (systems.GENERAL, False),
    ],
    ids=["levi_civita", "admissible", "metric_only", "geodesics_only", "general"],
)
def test_transport_is_an_isometry_for_metric_connections_only(nabla, isometry):
    times = np.array([0.0, 0.4, 1.0])
    P = np.swapaxes(np.asarray(cn.parallel_transport(nabla, path, np.eye(3), times)), 0, 1)  # [T, column, :]
    H = np.asarray(systems.METRIC.matrix(np.stack([path(t) for t in times])))
    gap = np.abs(np.einsum("tai,tij,tbj->tab", P, H, P) - H[0]).max()
    assert gap < 1e-9 if isometry else gap > 1e-2


def test_torsion_changes_transport_but_not_geodesics():
    times = np.array([0.0, 1.0])
    z = [
        np.asarray(cn.parallel_transport(nabla, path, [1.0, 0.0, 0.0], times))[-1]
        for nabla in (systems.LEVI_CIVITA, systems.ADMISSIBLE)
    ]
    assert np.abs(z[0] - z[1]).max() > 1e-2


def test_sizes_of_what_is_carried_are_those_of_an_isometry():
    """|P_ij| <= |X_j| at the start over |X_i| now, and not the other way round: H = exp(8 x) 1 along x."""
    metric = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.exp(8.0 * q[0]) * jnp.eye(2))
    nabla = cn.LeviCivita(metric)

    def line(t):
        return jnp.stack([t, 0.3 * jnp.sin(t)])

    P = np.asarray(cn.parallel_transport(nabla, line, np.eye(2), [0.0, 1.0]))[:, -1].T
    (sizes,) = _transport_flow(nabla, line).units(0.0, jnp.asarray(1.0), (jnp.eye(2),))
    np.testing.assert_allclose(sizes, np.exp(-4.0), rtol=1e-12)
    assert (np.abs(P) <= sizes * (1.0 + 1e-8)).all() and np.abs(P).max() > 0.5 * sizes.max()


def test_an_inner_product_that_is_not_kept_is_refused():
    """A metric whose derivatives JAX is not told: Gamma is zero, and carried vectors change their lengths."""
    for told in (True, False):

        def matrix(q, told=told):
            x = q[0] if told else jax.lax.stop_gradient(q[0])
            return jnp.diag(jnp.array([1.0, 1.0])) * jnp.exp(1e-4 * x)

        nabla = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), matrix))
        curve = lambda t: jnp.stack([t, 0.0 * t])  # noqa: E731
        if told:
            z = cn.parallel_transport(nabla, curve, [1.0, 0.0], [0.0, 1.0])[-1]
            np.testing.assert_allclose(z, [np.exp(-0.5e-4), 0.0], atol=1e-9)
        else:
            with pytest.raises(IntegrationError, match="the inner product of carried vectors"):
                cn.parallel_transport(nabla, curve, [1.0, 0.0], [0.0, 1.0])


def test_transport_there_and_back_and_in_pieces():
    nabla = systems.GENERAL
    z0 = np.array([0.3, -1.0, 0.5])
    whole = np.asarray(cn.parallel_transport(nabla, path, z0, np.array([0.0, 0.6, 1.0])))
    second = np.asarray(cn.parallel_transport(nabla, path, whole[1], np.array([0.6, 1.0])))
    np.testing.assert_allclose(second[-1], whole[-1], atol=1e-9)
    back = np.asarray(cn.parallel_transport(nabla, path, whole[-1], np.array([1.0, 0.0])))
    np.testing.assert_allclose(back[-1], z0, atol=1e-9)


@pytest.mark.further
def test_transport_does_not_depend_on_the_speed_along_the_curve():
    nabla, z0, times = systems.GENERAL, np.array([0.3, -1.0, 0.5]), np.array([0.0, 1.0])
    slow = cn.parallel_transport(nabla, lambda t: path(t**2 * (3 - 2 * t)), z0, times)[-1]
    np.testing.assert_allclose(slow, cn.parallel_transport(nabla, path, z0, times)[-1], atol=1e-9)


def test_derivative_of_transport_is_the_connection():
    """Pulling a field back by transport and differentiating gives nabla (the meaning of A1, A2)."""
    nabla, field = systems.GENERAL, (lambda p: jnp.stack([jnp.sin(p[0]), p[1] * p[2], jnp.cos(p[1])]))
    times = np.array([0.0, 0.5, 1.0])
    along = np.asarray(cn.covariant_derivative_along(nabla, path, lambda t: field(path(t)), times))
    t, h = 0.5, 1e-3
    pulled = []
    for step in (-2 * h, -h, h, 2 * h):
        z = field(path(t + step))
        pulled.append(np.asarray(cn.parallel_transport(nabla, path, z, np.array([t + step, t])))[-1])
    numeric = (8 * (pulled[2] - pulled[1]) - (pulled[3] - pulled[0])) / (12 * h)
    np.testing.assert_allclose(along[1], numeric, atol=1e-7)


@pytest.mark.further
def test_geodesics_transport_their_own_velocity():
    times = np.linspace(0, 1, 21)
    for nabla in (systems.ADMISSIBLE, systems.GENERAL):
        q, v = cn.geodesic(nabla, [0.1, -0.2, 0.3], [0.5, -0.4, 0.3], times)
        z = cn.parallel_transport(nabla, (times, q), v[0], times[[0, 10, 20]])
        np.testing.assert_allclose(z, np.asarray(v)[[0, 10, 20]], atol=1e-7)


def test_cartan_plus_keeps_right_invariant_fields(rng):
    """z(t) = R(t)^T R(0) z(0) for (+), z constant for (-), on any curve."""
    a, b = rng.standard_normal((2, 3))

    def curve(t):
        q = jnp.concatenate([jnp.sin(t * a + b), jnp.ones(1)])
        return q / jnp.linalg.norm(q)

    z0, times = rng.standard_normal(3), np.array([0.0, 0.7, 1.5])
    R = oracles.rotation(np.stack([curve(t) for t in times]))
    plus = cn.parallel_transport(systems.CARTAN_PLUS, curve, z0, times)
    np.testing.assert_allclose(plus, np.einsum("tji,jk,k->ti", R, R[0], z0), atol=1e-9)
    minus = cn.parallel_transport(systems.CARTAN_MINUS, curve, z0, times)
    np.testing.assert_allclose(minus, np.broadcast_to(z0, (3, 3)), atol=1e-10)
    assert np.abs(plus - minus).max() > 1e-2


def test_samples_stand_for_the_curve():
    times = np.linspace(0, 1, 41)
    samples = np.stack([path(t) for t in times])
    z0 = np.eye(3)
    exact = cn.parallel_transport(systems.GENERAL, path, z0, times[[0, -1]])
    found = cn.parallel_transport(systems.GENERAL, (times, samples), z0, times[[0, -1]])
    np.testing.assert_allclose(found, exact, atol=1e-8)


@pytest.mark.further
def test_two_samples_stand_for_a_straight_line():
    ends, times, z0 = np.stack([path(0.0), path(1.0)]), [0.0, 1.0], np.eye(3)
    exact = cn.parallel_transport(systems.GENERAL, lambda t: ends[0] + t * (ends[1] - ends[0]), z0, times)
    found = cn.parallel_transport(systems.GENERAL, (times, ends), z0, times)
    np.testing.assert_allclose(found, exact, atol=1e-12)
    with pytest.raises(cn.checks.ShapeError, match="S >= 2"):
        cn.parallel_transport(systems.GENERAL, (times[:1], ends[:1]), z0, times[:1])


def embedded_latitude(theta, count):
    """(times, points): once around the sphere, the last point that of the first."""
    t = np.linspace(0.0, 2.0 * np.pi, count)
    return t, np.stack(
        [np.sin(theta) * np.cos(t), np.sin(theta) * np.sin(t), np.full(count, np.cos(theta))], 1
    )


@pytest.mark.further
def test_holonomy_of_samples_is_of_order_six():
    """Foucault's angle, and how it is approached."""
    theta, counts = 0.8, np.array([17, 25, 33])
    expected = turned(2 * np.pi * (1 - np.cos(theta)))
    errors = [
        np.abs(cn.holonomy(systems.SPHERE_EMBEDDED_NABLA, embedded_latitude(theta, n)) - expected).max()
        for n in counts
    ]
    assert 5.5 < np.polyfit(np.log(1.0 / (counts - 1)), np.log(errors), 1)[0] < 7.5
    assert 1e-9 < errors[-1] < 1e-4


@pytest.mark.further
def test_transport_along_samples_of_rotations_is_of_order_six():
    """R(1)^T R(0) for the (+) connection of Cartan, whose derivative would see an error of the curve."""

    def curve(t):
        q = jnp.stack([jnp.sin(2 * t), jnp.cos(3 * t), 0.5 * t, 1.0 + t])
        return q / jnp.linalg.norm(q)

    times = np.array([0.0, 1.0])
    exact = cn.parallel_transport(systems.TOP_NABLA, curve, np.eye(3), times)[:, -1]
    counts, errors = np.array([13, 17, 25]), []
    for count in counts:
        t = np.linspace(0.0, 1.0, count)
        samples = t, np.stack([curve(s) for s in t]) * (-1.0) ** np.arange(count)[:, None]
        found = cn.parallel_transport(systems.TOP_NABLA, samples, np.eye(3), times)[:, -1]
        errors.append(np.abs(found - exact).max())
    assert 5.5 < np.polyfit(np.log(1.0 / (counts - 1)), np.log(errors), 1)[0] < 7.5
    assert errors[0] > 1e-8


@pytest.mark.further
def test_holonomy_of_samples_asks_for_a_closed_curve():
    t, q = embedded_latitude(0.8, 33)
    with pytest.raises(PointError, match="not closed"):
        cn.holonomy(systems.SPHERE_EMBEDDED_NABLA, (t[:-1], q[:-1]))
    with pytest.raises(PointError, match="outside the curve's samples"):
        cn.holonomy(systems.SPHERE_EMBEDDED_NABLA, (t, q), 0.0, 7.0)
    with pytest.raises(TypeError, match="t0 and t1"):
        cn.holonomy(systems.SPHERE_NABLA, lambda s: jnp.stack([1.0 + 0.0 * s, s]))
    both = np.stack([q, embedded_latitude(1.1, 33)[1]])
    P = cn.holonomy(systems.SPHERE_EMBEDDED_NABLA, (t, both))
    assert P.shape == (2, 2, 2)
    np.testing.assert_allclose(P[0], cn.holonomy(systems.SPHERE_EMBEDDED_NABLA, (t, q)), atol=1e-9)


def field(t):
    return jnp.stack([jnp.sin(2 * t), 1.0 - t, jnp.cos(t)])


def test_covariant_derivative_of_samples_is_of_order_five():
    nabla, times = systems.GENERAL, np.array([0.03, 0.21, 0.5, 0.77, 0.98])
    exact = np.asarray(cn.covariant_derivative_along(nabla, path, field, times))
    counts, errors = np.array([11, 15, 21, 29]), []
    for count in counts:
        t = np.linspace(0.0, 1.0, count)
        curve, z = (t, np.stack([path(s) for s in t])), (t, np.stack([field(s) for s in t]))
        errors.append(np.abs(cn.covariant_derivative_along(nabla, curve, z, times) - exact).max())
    assert 4.3 < np.polyfit(np.log(1.0 / (counts - 1)), np.log(errors), 1)[0] < 6.5
    for pair in ((path, z), (curve, field), (cn.SampledCurve(nabla.frame, *curve), z)):
        np.testing.assert_allclose(
            cn.covariant_derivative_along(nabla, *pair, times), exact, atol=2 * errors[-1]
        )
    assert errors[0] > 1e-7


def test_fields_of_samples_are_checked():
    nabla, t = systems.GENERAL, np.linspace(0.0, 1.0, 9)
    with pytest.raises(PointError, match=r"times: 1 is outside the curve's samples \[0, 0.5\]"):
        cn.covariant_derivative_along(nabla, path, (t / 2, np.zeros((9, 3))), [0.0, 1.0])
    with pytest.raises(cn.checks.ShapeError, match="field points"):
        cn.covariant_derivative_along(nabla, path, (t, np.zeros((9, 2))), [0.0, 1.0])
    with pytest.raises(TypeError, match="field: expected a function"):
        cn.covariant_derivative_along(nabla, path, np.zeros((9, 3)), [0.0, 1.0])
    several = np.stack([np.stack([field(s) for s in t]) * a for a in (1.0, 2.0)])
    found = cn.covariant_derivative_along(nabla, path, (t, several), [0.2, 0.5, 0.9])
    np.testing.assert_allclose(2.0 * found[0], found[1], rtol=1e-12)
