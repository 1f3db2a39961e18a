"""Geodesics, exponential, logarithm against closed forms, conservation laws, an independent integration."""

import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import systems
from cases import further

import connections as cn
from connections.affine.motions.units import motion_units
from connections.checks import IntegrationError

#: Irregular on purpose: accuracy must hold where it is asked for, not only at the steps.
TIMES = np.array([0.0, 0.13, 0.5, 0.51, 1.7, 2.0, 3.3, 5.0])


def energy(metric, q, v):
    return 0.5 * np.einsum("...i,...ij,...j->...", v, np.asarray(metric.matrix(q)), v)


# --- closed forms ------------------------------------------------------------------------------------------


def test_half_plane_geodesic_is_a_semicircle():
    """From (0, 1) with unit horizontal velocity: (tanh t, sech t)."""
    q, v = cn.geodesic(systems.HALF_PLANE_NABLA, [0.0, 1.0], [1.0, 0.0], TIMES)
    expected = np.stack([np.tanh(TIMES), 1 / np.cosh(TIMES)], axis=1)
    np.testing.assert_allclose(q, expected, atol=1e-9)
    np.testing.assert_allclose(np.sum(np.square(q), axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(v[:, 0], 1 / np.cosh(TIMES) ** 2, atol=1e-9)


def test_half_plane_speed_is_distance():
    q, _ = cn.geodesic(systems.HALF_PLANE_NABLA, [0.3, 0.8], [0.4, -0.2], TIMES)
    q = np.asarray(q)
    speed = np.hypot(0.4, 0.2) / 0.8
    np.testing.assert_allclose(oracles.half_plane_distance(q[1:], q[:1]), speed * TIMES[1:], rtol=1e-8)


def great_circle(x0, u, t):
    speed = np.linalg.norm(u)
    return np.cos(speed * t)[:, None] * x0 + np.sin(speed * t)[:, None] * u / speed


@pytest.mark.parametrize("chart", ["coordinates", further("orthonormal"), "embedded"])
def test_sphere_geodesic_is_a_great_circle(chart):
    q0, qdot = np.array([1.2, 0.3]), np.array([0.4, 0.5])
    jacobian = np.array(
        [
            [np.cos(1.2) * np.cos(0.3), -np.sin(1.2) * np.sin(0.3)],
            [np.cos(1.2) * np.sin(0.3), np.sin(1.2) * np.cos(0.3)],
            [-np.sin(1.2), 0.0],
        ]
    )
    x0 = np.asarray(systems.sphere_point(q0))
    expected = great_circle(x0, jacobian @ qdot, TIMES)
    frame_velocity = qdot * [1.0, np.sin(1.2)]
    nabla, start, v0 = {
        "coordinates": (systems.SPHERE_NABLA, q0, qdot),
        "orthonormal": (systems.SPHERE_ORTHONORMAL_NABLA, q0, frame_velocity),
        "embedded": (systems.SPHERE_EMBEDDED_NABLA, x0, frame_velocity),
    }[chart]
    q, _ = cn.geodesic(nabla, start, v0, TIMES)
    found = q if chart == "embedded" else np.stack([systems.sphere_point(p) for p in q])
    np.testing.assert_allclose(found, expected, atol=1e-8)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-12)


def test_bi_invariant_geodesics_are_one_parameter_subgroups(rng):
    """Of all connections of the family: torsion does not bend geodesics."""
    q0, omega = oracles.random_quaternion(rng), rng.standard_normal(3)
    from scipy.spatial.transform import Rotation

    expected = oracles.rotation(q0) @ Rotation.from_rotvec(TIMES[:, None] * omega).as_matrix()
    for nabla in (systems.BI_INVARIANT_NABLA, systems.CARTAN_PLUS, systems.CARTAN_MINUS):
        q, v = cn.geodesic(nabla, q0, omega, TIMES)
        np.testing.assert_allclose(oracles.rotation(q), expected, atol=1e-9)
        np.testing.assert_allclose(v, np.broadcast_to(omega, v.shape), atol=1e-10)


def test_eulers_top(rng):
    """Against Euler's equations and quaternion kinematics by SciPy's DOP853."""
    q0, omega = oracles.random_quaternion(rng), np.array([0.3, 1.5, -0.4])
    q, v = cn.geodesic(systems.TOP_NABLA, q0, omega, TIMES)
    q_ref, v_ref = oracles.euler_top(systems.TOP_INERTIA, q0, omega, TIMES)
    np.testing.assert_allclose(q, q_ref, atol=1e-9)
    np.testing.assert_allclose(v, v_ref, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(q, axis=1), 1.0, atol=1e-14)
    np.testing.assert_allclose(energy(systems.TOP, q, v), energy(systems.TOP, q[0], v[0]), rtol=1e-9)
    momentum = np.einsum("tij,jk,tk->ti", oracles.rotation(q), systems.TOP_INERTIA, v)
    np.testing.assert_allclose(momentum, np.broadcast_to(momentum[0], momentum.shape), atol=1e-9)
    assert np.abs(v - v[0]).max() > 0.1  # a bi-invariant metric would keep omega


def test_force_enters_as_acceleration():
    """Flat line in the half plane's chart with constant acceleration; and time-dependent force."""
    flat = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2)))
    force = lambda t, q, v: jnp.stack([jnp.cos(t), -2.0 + 0.0 * t])  # noqa: E731
    q, v = cn.geodesic(flat, [1.0, 0.0], [0.0, 3.0], TIMES, force)
    np.testing.assert_allclose(q, np.stack([2 - np.cos(TIMES), 3 * TIMES - TIMES**2], 1), atol=1e-9)
    np.testing.assert_allclose(v, np.stack([np.sin(TIMES), 3 - 2 * TIMES], 1), atol=1e-9)


# --- laws --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nabla", "metric", "kept"),
    [
        (systems.ADMISSIBLE, systems.METRIC, True),
        further(systems.METRIC_ONLY, systems.METRIC, True),
        (systems.GENERAL, systems.METRIC, False),
    ],
    ids=["admissible", "metric_only", "general"],
)
def test_metric_connections_keep_energy_along_their_geodesics(nabla, metric, kept):
    q, v = cn.geodesic(nabla, [0.1, -0.2, 0.3], [0.5, -0.4, 0.3], np.linspace(0, 1, 5))
    E = energy(metric, q, v)
    change = np.abs(E / E[0] - 1).max()
    assert change < 1e-9 if kept else change > 1e-2


def test_only_the_symmetric_part_bends_geodesics():
    start, velocity, times = [0.1, -0.2, 0.3], [0.5, -0.4, 0.3], np.linspace(0, 1, 4)
    q = {
        name: np.asarray(cn.geodesic(nabla, start, velocity, times)[0])
        for name, nabla in {
            "levi_civita": systems.LEVI_CIVITA,
            "admissible": systems.ADMISSIBLE,
            "geodesics_only": systems.GEODESICS_ONLY,
            "metric_only": systems.METRIC_ONLY,
            "general": systems.GENERAL,
            "general, torsion-free": cn.torsion_free_part(systems.GENERAL),
        }.items()
    }
    np.testing.assert_allclose(q["admissible"], q["levi_civita"], atol=1e-9)
    np.testing.assert_allclose(q["geodesics_only"], q["levi_civita"], atol=1e-9)
    np.testing.assert_allclose(q["general, torsion-free"], q["general"], atol=1e-9)
    assert np.abs(q["metric_only"] - q["levi_civita"]).max() > 1e-3
    assert np.abs(q["general"] - q["levi_civita"]).max() > 1e-3


def test_backwards_is_the_way_back():
    q, v = cn.geodesic(systems.TOP_NABLA, [0, 0, 0, 1.0], [0.3, 1.5, -0.4], np.array([0.0, 2.0]))
    back, w = cn.geodesic(systems.TOP_NABLA, q[-1], v[-1], np.array([2.0, 0.0]))
    np.testing.assert_allclose(back[-1], [0, 0, 0, 1], atol=1e-9)
    np.testing.assert_allclose(w[-1], [0.3, 1.5, -0.4], atol=1e-9)


@pytest.mark.further
def test_geodesic_does_not_depend_on_the_frame():
    times = np.linspace(0, 1, 4)
    q0, v0 = np.array([0.1, -0.2, 0.3]), np.array([0.5, -0.4, 0.3])
    A = np.asarray(systems.change_of_frame(jnp.asarray(q0)))
    direct, _ = cn.geodesic(systems.LEVI_CIVITA, q0, v0, times)
    changed = cn.LeviCivita(systems.METRIC.change(systems.change_of_frame))
    q, v = cn.geodesic(changed, q0, np.linalg.solve(A, v0), times)
    np.testing.assert_allclose(q, direct, atol=1e-9)
    assert np.abs(np.asarray(v)[0] - v0).max() > 1e-2


def test_geodesic_that_leaves_the_chart_is_an_error():
    """Gamma = -1 on the line: q = -log(1 - t v) ends at t = 1 / v."""
    line = cn.CoefficientConnection(cn.CoordinateFrame(1), lambda q: -jnp.ones((1, 1, 1)))
    q, _ = cn.geodesic(line, [0.0], [1.0], np.array([0.0, 0.5, 0.9]))
    np.testing.assert_allclose(np.ravel(q), -np.log(1 - np.array([0.0, 0.5, 0.9])), atol=1e-9)
    with pytest.raises(IntegrationError, match=r"by t = 1\.5, last seen at t = 0\.5, q = \[0\.6931\]"):
        cn.geodesic(line, [0.0], [1.0], np.array([0.0, 0.5, 1.5]))


# --- exponential and logarithm ---------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [further(0.05), further(0.5), 0.95])
def test_logarithm_inverts_the_exponential_on_the_sphere(fraction):
    """Within half the injectivity radius pi."""
    q0 = np.array([[1.2, 0.3], [1.5, -1.0]])
    direction = np.array([[0.6, 0.8 / np.sin(1.2)], [-0.8, 0.6 / np.sin(1.5)]])  # unit length
    v0 = fraction * np.pi / 2 * direction
    v = cn.logarithm(systems.SPHERE_NABLA, q0, cn.exponential(systems.SPHERE_NABLA, q0, v0))
    np.testing.assert_allclose(v, v0, atol=1e-8)


def test_logarithm_on_the_rotation_group(rng):
    """Against SciPy's rotation vector; q1 and -q1 are the same rotation."""
    from scipy.spatial.transform import Rotation

    q0, w = oracles.random_quaternion(rng), rng.standard_normal(3)
    w *= 0.45 * np.pi / np.linalg.norm(w)
    q1 = (Rotation.from_quat(q0) * Rotation.from_rotvec(w)).as_quat()
    for end in (q1, -q1):
        np.testing.assert_allclose(cn.logarithm(systems.BI_INVARIANT_NABLA, q0, end), w, atol=1e-8)


def test_logarithm_of_eulers_top(rng):
    q0, w = oracles.random_quaternion(rng), np.array([0.3, -0.5, 0.4])
    q1 = cn.exponential(systems.TOP_NABLA, q0, w)
    np.testing.assert_allclose(cn.logarithm(systems.TOP_NABLA, q0, q1), w, atol=1e-8)


def test_logarithm_in_the_half_plane_is_the_distance():
    """No cut locus: any two points."""
    q0, q1 = np.array([0.0, 1.0]), np.array([4.0, 0.7])
    v = np.asarray(cn.logarithm(systems.HALF_PLANE_NABLA, q0, q1))
    np.testing.assert_allclose(np.linalg.norm(v), oracles.half_plane_distance(q0, q1), rtol=1e-8)
    np.testing.assert_allclose(cn.exponential(systems.HALF_PLANE_NABLA, q0, v), q1, atol=1e-8)
    assert np.abs(cn.exponential(systems.HALF_PLANE_NABLA, q0, 0.9 * v) - q1).max() > 0.1  # control


def test_logarithm_of_the_point_itself_is_zero():
    q = np.array([1.0, 0.2])
    np.testing.assert_allclose(cn.logarithm(systems.SPHERE_NABLA, q, q), 0, atol=1e-10)


def test_units_of_a_motion_are_those_of_lengths():
    """1 / |X_i|; without a metric one, or the largest component of the velocity of a free motion."""
    metric = cn.ConstantMetric(cn.CoordinateFrame(2), np.diag([4.0, 0.25]))
    q, v = motion_units(metric.frame, metric, jnp.zeros(2))
    np.testing.assert_allclose([q, v], [[0.5, 2.0], [0.5, 2.0]])
    np.testing.assert_array_equal(motion_units(metric.frame, None, jnp.zeros(2))[1], 1.0)
    np.testing.assert_array_equal(
        motion_units(metric.frame, None, jnp.zeros(2), jnp.array([3.0, -4.0]))[1], 4.0
    )
