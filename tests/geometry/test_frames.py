"""Frames: brackets, structure functions, changes of frame, against closed forms and each other."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import systems
from cases import further
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

import connections as cn
from connections.checks import PointError
from connections.geometry.restricted_frame import RestrictedFrame
from connections.geometry.rigid import host_groups
from connections.geometry.rigid.rotations import quaternion_exponential

SE3 = cn.SE3Frame()
NUMBERS = st.floats(-2, 2, allow_nan=False)


def hat_basis():
    return np.eye(3)


# --- structure functions ------------------------------------------------------------------------------


def test_coordinate_fields_commute(rng):
    s = cn.CoordinateFrame(4).structure_functions(rng.standard_normal((3, 4)))
    assert s.shape == (3, 4, 4, 4) and not np.any(s)


def test_so3_structure_functions_are_the_alternating_symbol(rng):
    q = oracles.random_quaternion(rng, 5)
    np.testing.assert_allclose(
        systems.SO3.structure_functions(q), np.broadcast_to(oracles.EPSILON, (5, 3, 3, 3))
    )


def test_se3_structure_functions_are_the_motion_cross_product(rng):
    """s[:, i, j] = e_i x e_j for left-invariant fields."""
    s = SE3.structure_functions(oracles.random_pose(rng))
    expected = np.stack([oracles.motion_cross_matrix(e) for e in np.eye(6)], axis=1)
    np.testing.assert_allclose(s, expected, atol=1e-15)


@pytest.mark.parametrize(
    ("frame", "sample"), [(systems.SO3, oracles.random_quaternion), (SE3, oracles.random_pose)]
)
def test_closed_form_agrees_with_the_bracket_of_the_frame_matrix(frame, sample, rng):
    """The generic route differentiates X(q) in ambient coordinates, nq > n."""
    q = sample(rng, 4)
    generic = cn.MatrixFrame(frame.matrix_at, frame.dim, frame.ambient_dim)
    np.testing.assert_allclose(generic.structure_functions(q), frame.structure_functions(q), atol=1e-13)
    # The opposite sign (right-invariant fields) is no match.
    assert np.abs(generic.structure_functions(q) + frame.structure_functions(q)).max() > 1


def test_so3_frame_moves_the_rotation_matrix_by_body_angular_velocity(rng):
    """d/dt R = R (omega x), R by SciPy's convention (x, y, z, w)."""
    q, omega = oracles.random_quaternion(rng), rng.standard_normal(3)
    q_dot = np.asarray(systems.SO3.matrix(q)) @ omega
    h = 1e-6
    numeric = (oracles.rotation(q + h * q_dot) - oracles.rotation(q - h * q_dot)) / (2 * h)
    np.testing.assert_allclose(numeric, oracles.rotation(q) @ oracles.hat(omega), atol=1e-8)
    assert np.abs(numeric - oracles.hat(omega) @ oracles.rotation(q)).max() > 1e-2


def test_se3_frame_moves_the_origin_by_the_body_velocity(rng):
    q, twist = oracles.random_pose(rng), rng.standard_normal(6)
    q_dot = np.asarray(SE3.matrix(q)) @ twist
    np.testing.assert_allclose(q_dot[:3], oracles.rotation(q[3:]) @ twist[3:], atol=1e-14)
    np.testing.assert_allclose(q_dot[3:], systems.SO3.matrix(q[3:]) @ twist[:3], atol=1e-14)


def test_orthonormal_frame_on_the_sphere():
    """[e_theta, e_phi] = -cot(theta) e_phi."""
    q = np.array([0.7, 0.3])
    s = np.asarray(systems.SPHERE_ORTHONORMAL.frame.structure_functions(q))
    expected = np.zeros((2, 2, 2))
    expected[1, 0, 1], expected[1, 1, 0] = -1 / np.tan(0.7), 1 / np.tan(0.7)
    np.testing.assert_allclose(s, expected, atol=1e-14)
    embedded = systems.SPHERE_EMBEDDED_FRAME.structure_functions(systems.sphere_point(q))
    np.testing.assert_allclose(embedded, expected, atol=1e-13)


def test_structure_functions_by_finite_differences_of_the_frame(rng):
    q = systems.points(rng)
    X = lambda p: np.asarray(systems.FRAME.matrix(p))  # noqa: E731
    h = 1e-5
    dX = np.stack([(X(q + h * e) - X(q - h * e)) / (2 * h) for e in np.eye(3)])  # dX[b, a, j]
    along = np.einsum("bi,baj->iaj", X(q), dX)
    brackets = np.einsum("iaj->aij", along) - np.einsum("jai->aij", along)
    expected = np.einsum("ka,aij->kij", np.linalg.inv(X(q)), brackets)
    found = np.asarray(systems.FRAME.structure_functions(q))
    np.testing.assert_allclose(found, expected, atol=1e-8)
    assert np.abs(found).max() > 1e-2  # the frame is not a coordinate frame


# --- brackets -------------------------------------------------------------------------------------------


def field(coefficients):
    return lambda q: jnp.sin(jnp.asarray(coefficients) @ q[:3])


def test_bracket_is_antisymmetric_and_satisfies_jacobi(rng):
    X, Y, Z = (field(rng.standard_normal((3, 3))) for _ in range(3))
    frame, q = systems.FRAME, systems.points(rng, 2)
    bracket = frame.bracket_at
    np.testing.assert_allclose(frame.bracket(X, Y, q), -frame.bracket(Y, X, q), atol=1e-13)

    def nested(A, B, C):
        return np.asarray(frame.bracket(A, lambda p: bracket(B, C, p), q))

    terms = nested(X, Y, Z), nested(Y, Z, X), nested(Z, X, Y)
    np.testing.assert_allclose(sum(terms), 0, atol=1e-12)
    assert np.abs(terms[0]).max() > 1e-2


@pytest.mark.parametrize(("frame", "sample"), [(systems.SO3, oracles.random_quaternion)])
def test_jacobi_on_the_rotation_group(frame, sample, rng):
    X, Y, Z = (field(rng.standard_normal((3, 3))) for _ in range(3))
    q = sample(rng)
    nested = [
        np.asarray(frame.bracket(A, lambda p, B=B, C=C: frame.bracket_at(B, C, p), q))
        for A, B, C in ((X, Y, Z), (Y, Z, X), (Z, X, Y))
    ]
    np.testing.assert_allclose(sum(nested), 0, atol=1e-12)
    assert np.abs(nested[0]).max() > 1e-3


def test_bracket_of_fields_is_their_commutator_on_functions(rng):
    """[X, Y] f = X(Y f) - Y(X f)."""
    X, Y = (field(rng.standard_normal((3, 3))) for _ in range(2))
    f = lambda q: jnp.cos(q[0] + 2 * q[1] * q[2])  # noqa: E731
    frame, q = systems.FRAME, systems.points(rng)

    def along(V, g):
        return lambda p: V(p) @ frame.lie_derivative_at(g, p)

    commutator = along(X, along(Y, f))(q) - along(Y, along(X, f))(q)
    np.testing.assert_allclose(frame.bracket(X, Y, q) @ frame.lie_derivative(f, q), commutator, rtol=1e-11)


def test_bracket_of_right_invariant_fields_is_minus_that_of_left_invariant_ones(rng):
    """[R^T a, R^T b] = -R^T (a x b), and right-invariant fields commute with left-invariant ones."""
    q, a, b = oracles.random_quaternion(rng), *rng.standard_normal((2, 3))

    def right(c):
        def components(p):
            r, w = p[:3], p[3]
            r, w = -r, w  # the inverse rotation
            return jnp.asarray(c) + 2 * jnp.cross(r, jnp.cross(r, jnp.asarray(c)) + w * jnp.asarray(c))

        return components

    R = oracles.rotation(q)
    np.testing.assert_allclose(right(a)(jnp.asarray(q)), R.T @ a, atol=1e-14)
    found = systems.SO3.bracket(right(a), right(b), q)
    np.testing.assert_allclose(found, -R.T @ np.cross(a, b), atol=1e-13)
    np.testing.assert_allclose(systems.SO3.bracket(right(a), lambda p: jnp.asarray(b), q), 0, atol=1e-13)


def test_lie_derivative_puts_the_derivative_index_first(rng):
    q = systems.points(rng)
    f = lambda p: jnp.stack([p[0] * p[1], p[2] ** 2])  # noqa: E731
    jacobian = np.array([[q[1], q[0], 0], [0, 0, 2 * q[2]]])
    found = systems.FRAME.lie_derivative(f, q)
    assert found.shape == (3, 2)
    np.testing.assert_allclose(found, (jacobian @ systems.FRAME.matrix(q)).T, atol=1e-14)
    assert np.abs(found - jacobian.T).max() > 1e-2  # control: along the coordinates


# --- change of frame -----------------------------------------------------------------------------------


def test_changed_frame(rng):
    q = systems.points(rng)
    changed = systems.FRAME.change(systems.change_of_frame)
    expected = np.asarray(systems.FRAME.matrix(q)) @ systems.change_of_frame(jnp.asarray(q))
    np.testing.assert_allclose(changed.matrix(q), expected, atol=1e-14)
    direct = cn.MatrixFrame(lambda p: systems.FRAME.matrix_at(p) @ systems.change_of_frame(p), 3, 3)
    np.testing.assert_allclose(changed.structure_functions(q), direct.structure_functions(q), atol=1e-12)
    # Structure functions are no tensor: rotating their indices is not enough.
    A = np.asarray(systems.change_of_frame(jnp.asarray(q)))
    s = np.asarray(systems.FRAME.structure_functions(q))
    tensorial = np.einsum("lk,kij,ia,jb->lab", np.linalg.inv(A), s, A, A)
    assert np.abs(tensorial - direct.structure_functions(q)).max() > 1e-2


def test_terms_bound_the_structure_functions(rng):
    """|s| <= the sum of the terms' sizes, which is no larger than it must be: [d_x, e^x d_y] = e^x d_y."""
    q = jnp.asarray(systems.points(rng))
    for frame in (systems.FRAME, systems.FRAME.change(systems.change_of_frame)):
        s, terms = frame.structure_functions_at(q), frame.structure_terms_at(q)
        assert (jnp.abs(s) <= terms * (1.0 + 1e-12)).all()
        assert terms.max() < 30.0 * jnp.abs(s).max()
    frame = cn.CoordinateFrame(2).change(lambda q: jnp.diag(jnp.array([1.0, jnp.exp(q[0])])))
    terms = frame.structure_terms_at(jnp.array([0.3, -0.4]))
    np.testing.assert_allclose(terms, [np.zeros((2, 2)), [[0.0, 1.0], [1.0, 0.0]]], atol=1e-15)


@pytest.mark.further
def test_bracket_does_not_depend_on_the_frame(rng):
    q = systems.points(rng)
    A = systems.change_of_frame
    changed = systems.FRAME.change(A)
    X, Y = (field(rng.standard_normal((3, 3))) for _ in range(2))
    primed = [lambda p, V=V: jnp.linalg.solve(A(p), V(p)) for V in (X, Y)]
    back = np.asarray(A(jnp.asarray(q))) @ changed.bracket(*primed, q)
    np.testing.assert_allclose(back, systems.FRAME.bracket(X, Y, q), atol=1e-12)


def test_equality_of_frames_is_structural():
    assert cn.CoordinateFrame(3) == cn.CoordinateFrame(3) != cn.CoordinateFrame(2)
    assert cn.SO3Frame() == cn.SO3Frame() != cn.SE3Frame()
    product = cn.ProductFrame(cn.SE3Frame(), cn.CoordinateFrame(2))
    assert product == cn.ProductFrame(cn.SE3Frame(), cn.CoordinateFrame(2))
    assert product != cn.ProductFrame(cn.CoordinateFrame(2), cn.SE3Frame())


# --- products ---------------------------------------------------------------------------------------------


def test_product_frame_is_block_diagonal(rng):
    product = cn.ProductFrame(SE3, systems.FRAME, cn.CoordinateFrame(2))
    assert (product.dim, product.ambient_dim) == (11, 12)
    pose, p, x = oracles.random_pose(rng), systems.points(rng), rng.standard_normal(2)
    q = np.concatenate([pose, p, x])
    X = np.asarray(product.matrix(q))
    np.testing.assert_allclose(X[:7, :6], SE3.matrix(pose))
    np.testing.assert_allclose(X[7:10, 6:9], systems.FRAME.matrix(p))
    np.testing.assert_allclose(X[10:, 9:], np.eye(2))
    assert not X[:7, 6:].any() and not X[7:, :6].any()
    direct = cn.MatrixFrame(product.matrix_at, 11, 12)
    np.testing.assert_allclose(product.structure_functions(q), direct.structure_functions(q), atol=1e-12)


# --- points on the manifold ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "sample"),
    [
        further(systems.SO3, oracles.random_quaternion),
        (SE3, oracles.random_pose),
        (systems.FRAME, systems.points),
        further(
            systems.SPHERE_EMBEDDED_FRAME, lambda rng: np.asarray(systems.sphere_point(np.array([1.0, 0.4])))
        ),
    ],
)
def test_retraction_leaves_with_the_right_velocity_and_stays_on_the_manifold(frame, sample, rng):
    q, xi = jnp.asarray(sample(rng)), jnp.asarray(0.1 * rng.standard_normal(frame.dim))
    velocity = jax.jvp(lambda t: frame.retract_at(q, t * xi), (0.0,), (1.0,))[1]
    np.testing.assert_allclose(velocity, frame.matrix_at(q) @ xi, atol=1e-12)
    there = frame.retract_at(q, xi)
    np.testing.assert_allclose(frame.project_at(there), there, atol=1e-14)
    assert np.abs(there - q).max() > 1e-3


@pytest.mark.parametrize("angle", [0.0, 1e-9, 3e-4, 0.999e-3, 1.001e-3, 0.1, 3.0])
def test_quaternion_of_a_rotation_vector(angle, rng):
    """Next to zero, where it is a series, and beyond."""
    axis = rng.standard_normal(3)
    xi = angle * axis / np.linalg.norm(axis)
    expected = Rotation.from_rotvec(xi).as_quat()
    np.testing.assert_allclose(quaternion_exponential(xi), expected, rtol=1e-14, atol=1e-300)


def test_dual_is_a_left_inverse(rng):
    for frame, q in (
        (systems.SO3, oracles.random_quaternion(rng)),
        (SE3, oracles.random_pose(rng)),
        (systems.FRAME, systems.points(rng)),
    ):
        q = jnp.asarray(q)
        np.testing.assert_allclose(frame.dual_at(q) @ frame.matrix_at(q), np.eye(frame.dim), atol=1e-13)


def test_align_takes_the_nearer_quaternion(rng):
    q = jnp.asarray(oracles.random_quaternion(rng))
    np.testing.assert_array_equal(systems.SO3.align_at(-q, q), q)
    np.testing.assert_array_equal(systems.SO3.align_at(q, q), q)


@pytest.mark.further
@given(st.lists(NUMBERS, min_size=4, max_size=4).filter(lambda x: sum(t * t for t in x) > 0.1))
def test_every_quaternion_has_orthogonal_fields_of_length_one_half(x):
    q = np.array(x) / np.linalg.norm(x)
    X = np.asarray(systems.SO3.matrix(q))
    np.testing.assert_allclose(4 * X.T @ X, np.eye(3), atol=1e-13)
    np.testing.assert_allclose(q @ X, 0, atol=1e-14)


# --- a part of a manifold ------------------------------------------------------------------------------


def test_a_restricted_frame_is_its_base_where_the_condition_holds(rng):
    def above(q):
        return q[2] > 0.0

    def explain(q):
        if not q[2] > 0.0:
            raise PointError(f"below the plane: {q[2]}")

    frame, q, xi = RestrictedFrame(SE3, above, explain), oracles.random_pose(rng), rng.standard_normal(6)
    q[2] = 0.7
    for method in ("matrix_at", "dual_at", "structure_functions_at", "project_at", "near_at", "valid_at"):
        np.testing.assert_array_equal(getattr(frame, method)(q), getattr(SE3, method)(q))
    np.testing.assert_array_equal(frame.retract_at(q, xi), SE3.retract_at(q, xi))
    np.testing.assert_array_equal(frame.align_at(-q, q), SE3.align_at(-q, q))
    frame.explain(q)
    below, wrong = q * np.array([1, 1, -1, 1, 1, 1, 1]), q * np.array([1, 1, 1, 2, 2, 2, 2])
    assert not frame.valid_at(below) and SE3.valid_at(below)
    assert not frame.valid_at(wrong)
    with pytest.raises(PointError, match="below the plane: -0.7"):
        frame.structure_functions(below)
    with pytest.raises(PointError, match="norm"):
        frame.structure_functions(wrong)
    assert frame == RestrictedFrame(SE3, above, explain)
    assert frame != RestrictedFrame(SE3, lambda q: q[2] > 0.0, explain)


# --- groups in NumPy -----------------------------------------------------------------------------------


def test_displacements_in_numpy_are_the_exponentials_of_the_frames(rng):
    """Against the frames' retractions at small steps, and the exponentials of 4x4 matrices at large ones."""
    q, xi = oracles.random_pose(rng), rng.standard_normal(6)
    moved = host_groups.displaced_pose(q, xi)
    pose, twist = np.eye(4), np.zeros((4, 4))
    pose[:3, :3], pose[:3, 3] = Rotation.from_quat(q[3:]).as_matrix(), q[:3]
    twist[:3, :3], twist[:3, 3] = np.cross(xi[:3], np.eye(3)).T, xi[3:]
    expected = pose @ expm(twist)
    np.testing.assert_allclose(moved[:3], expected[:3, 3], atol=1e-14)
    np.testing.assert_allclose(Rotation.from_quat(moved[3:]).as_matrix(), expected[:3, :3], atol=1e-14)
    np.testing.assert_allclose(host_groups.pose_difference(q, moved), xi, atol=1e-13)
    assert np.abs(host_groups.pose_difference(moved, q) - xi).max() > 0.1  # negative control: the other way
    turned = host_groups.displaced_rotation(q[3:], xi[:3])
    np.testing.assert_allclose(turned, moved[3:], atol=1e-15)
    np.testing.assert_allclose(host_groups.rotation_difference(q[3:], turned), xi[:3], atol=1e-14)
    h = 1e-6
    small = (host_groups.displaced_pose(q, h * xi) - q) / h
    np.testing.assert_allclose(small, SE3.matrix_at(q) @ xi, atol=1e-5)
