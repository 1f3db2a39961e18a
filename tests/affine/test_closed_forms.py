"""Connections with known answers: spheres, the half plane, the rotation group, a rigid body."""

import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import systems
from hypothesis import given
from hypothesis import strategies as st

import connections as cn

TIGHT = 1e-12


# --- surfaces ---------------------------------------------------------------------------------------------


def sphere_coefficients(theta):
    Gamma = np.zeros((2, 2, 2))
    Gamma[0, 1, 1] = -np.sin(theta) * np.cos(theta)
    Gamma[1, 0, 1] = Gamma[1, 1, 0] = 1 / np.tan(theta)
    return Gamma


def test_sphere_in_coordinates():
    q = np.array([[0.7, 0.3], [2.0, -1.0]])
    expected = np.stack([sphere_coefficients(theta) for theta in q[:, 0]])
    for metric in (systems.SPHERE, systems.SPHERE_PULLBACK):
        np.testing.assert_allclose(cn.LeviCivita(metric).coefficients(q), expected, atol=TIGHT)


@pytest.mark.parametrize("embedded", [False, True])
def test_sphere_in_an_orthonormal_frame(embedded):
    """nabla_phi e_theta = cot e_phi, nabla_phi e_phi = -cot e_theta."""
    q = np.array([0.7, 0.3])
    nabla = systems.SPHERE_EMBEDDED_NABLA if embedded else systems.SPHERE_ORTHONORMAL_NABLA
    point = systems.sphere_point(q) if embedded else q
    expected = np.zeros((2, 2, 2))
    expected[1, 1, 0], expected[0, 1, 1] = 1 / np.tan(0.7), -1 / np.tan(0.7)
    Gamma = np.asarray(nabla.coefficients(point))
    np.testing.assert_allclose(Gamma, expected, atol=TIGHT)
    # The direction of differentiation is the middle index: the transposed tensor is another one.
    assert np.abs(np.swapaxes(Gamma, 1, 2) - expected).max() > 0.5


def test_sphere_has_curvature_one_in_every_frame(rng):
    q, u, w = np.array([0.7, 0.3]), *rng.standard_normal((2, 2))
    cases = (
        (systems.SPHERE_NABLA, systems.SPHERE, q),
        (systems.SPHERE_ORTHONORMAL_NABLA, systems.SPHERE_ORTHONORMAL, q),
        (systems.SPHERE_EMBEDDED_NABLA, systems.SPHERE_EMBEDDED, systems.sphere_point(q)),
    )
    for nabla, metric, point in cases:
        H = metric.matrix(point)
        for size in (1.0, 1e-9):  # the plane is the same, however short its vectors are
            K = nabla.sectional(point, size * u, size * w, metric)
            np.testing.assert_allclose(K, 1.0, rtol=1e-11)
        np.testing.assert_allclose(nabla.ricci(point), H, atol=1e-11)
        np.testing.assert_allclose(nabla.scalar_curvature(point, metric), 2.0, rtol=1e-11)
        # R(u, w) w = |w|^2 u - <u, w> w
        R = np.asarray(nabla.curvature(point))
        found = np.einsum("lkij,k,i,j->l", R, w, u, w)
        np.testing.assert_allclose(found, (w @ H @ w) * u - (u @ H @ w) * w, atol=1e-10)


@given(
    st.floats(0.3, 2.8),
    st.lists(st.floats(-2, 2), min_size=4, max_size=4).filter(lambda x: abs(x[0] * x[3] - x[1] * x[2]) > 0.1),
)
def test_sectional_curvature_does_not_depend_on_point_or_plane(theta, x):
    K = systems.SPHERE_NABLA.sectional(
        np.array([theta, 0.0]), np.array(x[:2]), np.array(x[2:]), systems.SPHERE
    )
    np.testing.assert_allclose(K, 1.0, rtol=1e-8)


def test_half_plane(rng):
    q = np.array([0.4, 1.7])
    y = q[1]
    expected = np.zeros((2, 2, 2))
    expected[0, 0, 1] = expected[0, 1, 0] = -1 / y
    expected[1, 0, 0], expected[1, 1, 1] = 1 / y, -1 / y
    nabla, metric = systems.HALF_PLANE_NABLA, systems.HALF_PLANE
    np.testing.assert_allclose(nabla.coefficients(q), expected, atol=TIGHT)
    np.testing.assert_allclose(nabla.ricci(q), -np.eye(2) / y**2, atol=TIGHT)
    np.testing.assert_allclose(nabla.scalar_curvature(q, metric), -2.0, rtol=TIGHT)
    np.testing.assert_allclose(nabla.sectional(q, *rng.standard_normal((2, 2))), -1.0, rtol=1e-11)


def test_flat_plane_in_curved_coordinates_has_no_curvature():
    q = np.array([0.3, 1.0])
    assert np.abs(systems.UNROLLED_PLANE_NABLA.coefficients(q)).max() > 0.5
    np.testing.assert_allclose(systems.UNROLLED_PLANE_NABLA.curvature(q), 0, atol=TIGHT)


# --- the rotation group -----------------------------------------------------------------------------------


def test_bi_invariant_connection_is_half_the_bracket(rng):
    q = oracles.random_quaternion(rng, 3)
    Gamma = systems.BI_INVARIANT_NABLA.coefficients(q)
    np.testing.assert_allclose(Gamma, np.broadcast_to(oracles.EPSILON / 2, (3, 3, 3, 3)), atol=TIGHT)
    K = systems.BI_INVARIANT_NABLA.sectional(q, [1.0, 2, 3], [-1.0, 0, 1], systems.BI_INVARIANT)
    np.testing.assert_allclose(K, 0.25, rtol=TIGHT)


@pytest.mark.parametrize(("nabla", "sign"), [(systems.CARTAN_PLUS, 1.0), (systems.CARTAN_MINUS, -1.0)])
def test_cartan_schouten_connections_are_flat_with_torsion(nabla, sign, rng):
    q = oracles.random_quaternion(rng, 2)
    np.testing.assert_allclose(nabla.curvature(q), 0, atol=TIGHT)
    expected = np.broadcast_to(sign * oracles.EPSILON, (2, 3, 3, 3))
    np.testing.assert_allclose(nabla.torsion(q), expected, atol=TIGHT)
    assert nabla.check_metric_compatible(q, systems.BI_INVARIANT).ok
    assert nabla.check_same_geodesics(q, systems.BI_INVARIANT).ok
    assert not nabla.check_torsion_free(q).ok


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_no_other_member_of_the_family_is_flat(beta, rng):
    """R(X, Y) Z = (beta^2 - 1/4) [[X, Y], Z] on the bi-invariant rotation group."""
    q = oracles.random_quaternion(rng)
    nabla = cn.ContorsionFamily(systems.BI_INVARIANT).connection([beta])
    double = np.einsum("mij,lmk->lkij", oracles.EPSILON, oracles.EPSILON)
    np.testing.assert_allclose(nabla.curvature(q), (beta**2 - 0.25) * double, atol=TIGHT)
    assert np.abs(nabla.curvature(q)).max() > 0.1


def right_invariant(a):
    """R(q)^T a, the components of a right-invariant field."""

    def components(p):
        r, w = -p[:3], p[3]
        return jnp.asarray(a) + 2 * jnp.cross(r, jnp.cross(r, jnp.asarray(a)) + w * jnp.asarray(a))

    return components


def test_parallel_fields_of_the_cartan_schouten_connections(rng):
    q, (a, b) = oracles.random_quaternion(rng), rng.standard_normal((2, 3))
    right, left = right_invariant(a), lambda p: jnp.asarray(a)
    direction = lambda p: jnp.asarray(b)  # noqa: E731
    plus, minus = systems.CARTAN_PLUS, systems.CARTAN_MINUS
    np.testing.assert_allclose(plus.covariant_derivative(direction, right, q), 0, atol=TIGHT)
    np.testing.assert_allclose(minus.covariant_derivative(direction, left, q), 0, atol=TIGHT)
    assert np.abs(plus.covariant_derivative(direction, left, q)).max() > 0.1
    assert np.abs(minus.covariant_derivative(direction, right, q)).max() > 0.1


@pytest.mark.parametrize("lengths", [(1.0, 1.0, 1.0), (0.5, 1.3, 2.2), (3.0, 0.4, 1.0)])
def test_milnor_curvature_of_left_invariant_metrics(lengths, rng):
    metric = cn.ConstantMetric(systems.SO3, np.diag(lengths))
    nabla, q = cn.LeviCivita(metric), oracles.random_quaternion(rng)
    ricci = oracles.milnor_ricci(*lengths)
    np.testing.assert_allclose(nabla.ricci(q), ricci, atol=TIGHT)
    scalar = np.sum(np.diag(ricci) / lengths)
    np.testing.assert_allclose(nabla.scalar_curvature(q, metric), scalar, rtol=1e-11)
    K = nabla.sectional(q, np.eye(3)[0], np.eye(3)[1], metric)
    np.testing.assert_allclose(K, oracles.milnor_sectional(*lengths), rtol=1e-11)


def test_left_invariant_coefficients(rng):
    """Against Koszul written with brackets and inner products only, on SO(3) and SE(3)."""
    q = oracles.random_quaternion(rng)
    expected = oracles.left_invariant_coefficients(systems.TOP_INERTIA, oracles.EPSILON)
    np.testing.assert_allclose(systems.TOP_NABLA.coefficients(q), expected, atol=TIGHT)
    H = oracles.random_spd(rng, 6)
    nabla = cn.LeviCivita(cn.ConstantMetric(cn.SE3Frame(), H))
    s = np.stack([oracles.motion_cross_matrix(e) for e in np.eye(6)], axis=1)
    found = nabla.coefficients(oracles.random_pose(rng))
    np.testing.assert_allclose(found, oracles.left_invariant_coefficients(H, s), atol=1e-11)


# --- a rigid body -------------------------------------------------------------------------------------


def test_rigid_body_coriolis_matrix_is_equation_19(rng):
    inertia = oracles.rigid_body_inertia(2.3, np.array([0.1, -0.4, 0.2]), np.diag([0.3, 0.5, 0.6]))
    metric = cn.ConstantMetric(cn.SE3Frame(), inertia)
    nabla = cn.LeviCivita(metric)
    q, v = oracles.random_pose(rng, 4), rng.standard_normal((4, 6))
    C = np.asarray(cn.coriolis_matrix(nabla, q, v, metric))
    expected = np.stack([oracles.rigid_body_coriolis(inertia, x) for x in v])
    np.testing.assert_allclose(C, expected, atol=TIGHT)
    newton_euler = np.stack([oracles.force_cross_matrix(x) @ inertia @ x for x in v])
    np.testing.assert_allclose(np.einsum("aik,ak->ai", C, v), newton_euler, atol=1e-11)
    np.testing.assert_allclose(C, -np.swapaxes(C, 1, 2), atol=TIGHT)
    # (v x*) I + I (v x) has the same dynamics and is not this matrix.
    other = np.stack(
        [oracles.force_cross_matrix(x) @ inertia + inertia @ oracles.motion_cross_matrix(x) for x in v]
    )
    np.testing.assert_allclose(np.einsum("aik,ak->ai", other, v), newton_euler, atol=1e-11)
    assert np.abs(other - C).max() > 0.1


def test_left_invariant_curvature_is_constant_over_the_group(rng):
    R = np.asarray(systems.TOP_NABLA.curvature(oracles.random_quaternion(rng, 2)))
    np.testing.assert_allclose(R[0], R[1], atol=TIGHT)
    assert np.abs(R).max() > 0.1


# --- submanifolds ------------------------------------------------------------------------------------------


def _sphere_in_space(ambient):
    def inclusion(q):
        import jax

        return jax.jacfwd(systems.sphere_point)(q)

    flat = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    nabla = cn.LeviCivita(flat) if ambient is None else ambient(flat)
    return cn.InducedConnection(nabla, flat, systems.CHART, inclusion, systems.sphere_point)


def test_connection_induced_on_the_sphere_is_its_levi_civita_connection():
    induced, q = _sphere_in_space(None), np.array([[0.7, 0.3], [1.9, 2.0]])
    expected = np.stack([sphere_coefficients(theta) for theta in q[:, 0]])
    np.testing.assert_allclose(induced.coefficients(q), expected, atol=TIGHT)
    np.testing.assert_allclose(induced.metric.matrix(q), systems.SPHERE.matrix(q), atol=TIGHT)
    np.testing.assert_allclose(induced.curvature(q), systems.SPHERE_NABLA.curvature(q), atol=1e-11)


def test_a_three_form_vanishes_on_a_surface():
    """An admissible ambient contorsion leaves nothing behind on a surface (Cor. III.2: none for n = 2)."""
    induced = _sphere_in_space(lambda flat: cn.ContorsionFamily(flat).connection([2.0]))
    q = np.array([0.7, 0.3])
    np.testing.assert_allclose(induced.coefficients(q), sphere_coefficients(0.7), atol=TIGHT)


def test_other_ambient_contorsion_is_inherited():
    D = np.zeros((3, 3, 3))
    D[0, 0, 1], D[1, 0, 0] = 1.0, -1.0  # antisymmetric in (1, 3): metric compatible, other geodesics
    induced = _sphere_in_space(lambda flat: cn.ContorsionConnection(flat, lambda q: jnp.asarray(D)))
    q = np.array([0.7, 0.3])
    assert induced.check_metric_compatible(q, induced.metric).ok  # Prop. V.1
    assert not induced.check_same_geodesics(q, induced.metric).ok
    assert np.abs(induced.coefficients(q) - sphere_coefficients(0.7)).max() > 0.1


def test_great_circle_with_a_constant_rotation_axis_induces_a_line(rng):
    """One-parameter subgroup in the body frame: A is constant, the induced coefficient is zero."""
    axis = np.array([0.0, 0.6, 0.8])

    def orientation(angle):
        return jnp.concatenate([jnp.asarray(axis) * jnp.sin(angle / 2), jnp.cos(angle / 2)])

    induced = cn.InducedConnection(
        systems.TOP_NABLA,
        systems.TOP,
        cn.CoordinateFrame(1),
        lambda p: jnp.asarray(axis)[:, None],
        orientation,
    )
    np.testing.assert_allclose(induced.coefficients(rng.standard_normal((2, 1))), 0, atol=TIGHT)
