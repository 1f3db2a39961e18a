"""Coriolis matrices of connections: which index, the induced law (17), the way back, task space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always
from differences import derivative_along, relative
from systems import (
    ADMISSIBLE,
    FRAME,
    GENERAL,
    GEODESICS_ONLY,
    LEVI_CIVITA,
    METRIC,
    METRIC_ONLY,
    SPHERE,
    TOP,
    TOP_NABLA,
    points,
)

import connections as cn
from connections.checks import FrameError, ShapeError, SymmetryError
from connections.coriolis import (
    induced_coriolis_matrix,
    task_space_coriolis_matrix,
    task_space_inclusion,
)

ALL = {
    "riemannian": LEVI_CIVITA,
    "admissible": ADMISSIBLE,
    "metric": METRIC_ONLY,
    "geodesics": GEODESICS_ONLY,
    "none": GENERAL,
}


def quaternion(rng):
    q = rng.standard_normal(4)
    return q / np.linalg.norm(q)


# --- C = Gamma v: the middle index ------------------------------------------------------------------------


@pytest.mark.parametrize("name", always(ALL, "admissible", "none"))
def test_the_velocity_contracts_the_middle_index(name, rng):
    nabla, q, v = ALL[name], points(rng), rng.standard_normal(3)
    low, C = np.asarray(nabla.first_kind(q, METRIC)), np.asarray(cn.coriolis_matrix(nabla, q, v, METRIC))
    expected = np.zeros((3, 3))
    for i, j, k in np.ndindex(3, 3, 3):
        expected[i, k] += low[i, j, k] * v[j]
    np.testing.assert_allclose(C, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("nabla", "skew"),
    [(LEVI_CIVITA, True), (ADMISSIBLE, True), (METRIC_ONLY, True), (GEODESICS_ONLY, False), (GENERAL, False)],
)
def test_mass_rate_is_the_symmetric_part_for_compatible_connections_only(nabla, skew, rng):
    q, v = points(rng), rng.standard_normal(3)
    C = np.asarray(cn.coriolis_matrix(nabla, q, v, METRIC))
    gap = relative(derivative_along(METRIC.matrix, FRAME, q, v), C + C.T)
    assert gap < 1e-9 if skew else gap > 1e-2


@pytest.mark.parametrize(
    ("nabla", "metric", "draw"),
    [(LEVI_CIVITA, METRIC, points), (TOP_NABLA, TOP, quaternion)],
    ids=["frame", "top"],
)
def test_the_last_index_breaks_the_mass_rate_and_not_the_dynamics(nabla, metric, draw, rng):
    q, v = draw(rng), rng.standard_normal(3)
    low, C = np.asarray(nabla.first_kind(q, metric)), np.asarray(cn.coriolis_matrix(nabla, q, v, metric))
    last = np.einsum("ikj,j->ik", low, v)
    H_dot = derivative_along(metric.matrix, metric.frame, q, v)
    scale = np.max(np.abs(C))
    assert np.max(np.abs(H_dot - C - C.T)) < 1e-9 * scale
    assert np.max(np.abs(H_dot - last - last.T)) > 0.1 * scale
    np.testing.assert_allclose(last @ v, C @ v, rtol=0, atol=1e-12)


def test_in_coordinates_both_indices_agree(rng):
    nabla, q, v = cn.LeviCivita(SPHERE), np.array([0.9, 0.4]), rng.standard_normal(2)
    last = np.einsum("ikj,j->ik", np.asarray(nabla.first_kind(q, SPHERE)), v)
    np.testing.assert_allclose(cn.coriolis_matrix(nabla, q, v, SPHERE), last, rtol=0, atol=1e-14)


def test_batch_axes_broadcast(rng):
    q, v = points(rng, 4, 1), rng.standard_normal((2, 3))
    C = cn.coriolis_matrix(ADMISSIBLE, q, v, METRIC)
    assert C.shape == (4, 2, 3, 3)
    np.testing.assert_allclose(
        C[3, 1], cn.coriolis_matrix(ADMISSIBLE, q[3, 0], v[1], METRIC), rtol=0, atol=1e-13
    )


def test_frames_must_agree(rng):
    with pytest.raises(FrameError, match="the connection is in .* the metric in"):
        cn.coriolis_matrix(LEVI_CIVITA, points(rng), np.ones(3), TOP)


# --- the induced law (17) ---------------------------------------------------------------------------------

SURFACE_FRAME = cn.MatrixFrame(lambda x: jnp.array([[1.0, 0.3 * jnp.sin(x[1])], [0.2 * x[0], 1.1]]), 2, 2)


def surface(x):
    """R^2 -> the space of METRIC, curved."""
    return 0.4 * jnp.stack([x[0] + 0.3 * x[1] ** 2, x[1] - 0.2 * x[0] * x[1], jnp.sin(x[0] + x[1])])


def inclusion(x):
    """A(x), (3, 2): frame components of the surface's frame fields."""
    return jnp.linalg.solve(FRAME.matrix_at(surface(x)), jax.jacfwd(surface)(x) @ SURFACE_FRAME.matrix_at(x))


@pytest.mark.further
@pytest.mark.parametrize("name", always(ALL, "admissible"))
def test_induced_law_with_differences(name, rng):
    x, v, nabla = 0.4 * rng.standard_normal(2), rng.standard_normal(2), ALL[name]
    A, A_dot, q = np.asarray(inclusion(x)), derivative_along(inclusion, SURFACE_FRAME, x, v), surface(x)
    C, H = cn.coriolis_matrix(nabla, q, A @ v, METRIC), METRIC.matrix(q)
    induced = cn.InducedConnection(nabla, METRIC, SURFACE_FRAME, inclusion, surface)
    expected = cn.coriolis_matrix(induced, x, v, induced.metric)
    assert relative(induced_coriolis_matrix(C, H, A, A_dot), expected) < 1e-9
    assert relative(induced_coriolis_matrix(C, H, A, 0.0 * A_dot), expected) > 1e-2  # the term forgotten


@pytest.mark.parametrize(
    ("nabla", "skew", "dynamics"),
    [(ADMISSIBLE, True, True), (METRIC_ONLY, True, False), (GEODESICS_ONLY, False, True)],
    ids=["admissible", "metric", "geodesics"],
)
def test_properties_are_inherited(nabla, skew, dynamics, rng):
    x, v = 0.4 * rng.standard_normal(2), rng.standard_normal(2)
    metric = cn.InducedMetric(METRIC, SURFACE_FRAME, inclusion, surface)
    A, A_dot, q = np.asarray(inclusion(x)), derivative_along(inclusion, SURFACE_FRAME, x, v), surface(x)
    C = induced_coriolis_matrix(cn.coriolis_matrix(nabla, q, A @ v, METRIC), METRIC.matrix(q), A, A_dot)
    skew_gap = relative(derivative_along(metric.matrix, SURFACE_FRAME, x, v), C + C.T)
    bias_gap = relative(C @ v, cn.MechanicalSystem(metric).hamel(x, v, np.zeros(2)))
    assert skew_gap < 1e-9 if skew else skew_gap > 1e-2
    assert bias_gap < 1e-9 if dynamics else bias_gap > 1e-2


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"C": np.eye(2)}, "C"),
        ({"H": np.ones(3)}, "H"),
        ({"A": np.ones(3)}, "A"),
        ({"A_dot": np.eye(3)}, "A_dot"),
    ],
)
def test_shapes_of_the_law_are_named(change, name):
    arguments = {"C": np.eye(3), "H": np.eye(3), "A": np.ones((3, 2)), "A_dot": np.ones((3, 2))}
    with pytest.raises(ShapeError, match=f"^{name}: expected shape"):
        induced_coriolis_matrix(**arguments | change)


# --- from a Coriolis matrix back to its connection --------------------------------------------------------


@pytest.mark.parametrize("name", always(ALL, "admissible", "none"))
def test_round_trip(name, rng):
    nabla, q = ALL[name], points(rng, 3)
    back = cn.connection_from_coriolis(
        METRIC, lambda p, v: METRIC.matrix_at(p) @ jnp.tensordot(nabla.coefficients_at(p), v, axes=(1, 0))
    )
    np.testing.assert_allclose(back.coefficients(q), nabla.coefficients(q), rtol=0, atol=1e-12)
    assert back.frame == METRIC.frame and back.metric is METRIC


@pytest.mark.parametrize(
    "coriolis",
    [
        lambda q, v: jnp.eye(3) * (v @ v),
        lambda q, v: jnp.eye(3),
        lambda q, v: jnp.outer(v, v) / jnp.sqrt(v @ v + 1e-30),
        lambda q, v: jnp.eye(3) * jnp.abs(v[1]),
        lambda q, v: jnp.eye(3) * (v[1] + 1e-6 * v[2] ** 2),
    ],
    ids=["quadratic", "constant", "homogeneous", "absolute value", "nearly linear"],
)
def test_a_coriolis_matrix_that_is_not_linear_has_no_connection(coriolis, rng):
    with pytest.raises(SymmetryError, match=r"C\(q, v\) is not linear in v"):
        cn.connection_from_coriolis(METRIC, coriolis).coefficients(points(rng))


def test_a_coriolis_matrix_of_the_wrong_shape(rng):
    nabla = cn.connection_from_coriolis(METRIC, lambda q, v: jnp.ones((2, 2)) * v[0])
    with pytest.raises(ShapeError, match=r"coriolis\(q, v\): expected shape \(3, 3\), got \(2, 2\)"):
        nabla.coefficients(points(rng))


# --- task space -------------------------------------------------------------------------------------------


def task(q):
    """R^3 -> R^2."""
    return jnp.stack([q[0] + 0.3 * jnp.sin(q[1] + q[2]), q[1] - 0.4 * q[0] * q[2]])


@jax.jit
def task_pieces(q):
    """(J, A, Lambda) at one point, J from the chain rule and not from the library's Lie derivative."""
    J = jax.jacfwd(task)(q) @ FRAME.matrix_at(q)
    H_inverse = jnp.linalg.inv(METRIC.matrix_at(q))
    Lambda = jnp.linalg.inv(J @ H_inverse @ J.T)
    return J, H_inverse @ J.T @ Lambda, Lambda


def task_space_state(nabla, q, v):
    J, A, Lambda = (np.asarray(piece) for piece in task_pieces(q))
    Lambda_dot = derivative_along(lambda p: task_pieces(p)[2], FRAME, q, v)
    return J, A, Lambda, Lambda_dot, np.asarray(task_space_coriolis_matrix(nabla, task, q, v, METRIC))


def test_task_space_inclusion(rng):
    q = points(rng)
    J, A, Lambda = task_pieces(q)
    ours = task_space_inclusion(METRIC.matrix(q), J)
    np.testing.assert_allclose(ours[0], A, rtol=0, atol=1e-13)
    np.testing.assert_allclose(ours[1], Lambda, rtol=0, atol=1e-13)
    np.testing.assert_allclose(J @ ours[0], np.eye(2), rtol=0, atol=1e-13)
    np.testing.assert_allclose(ours[0].T @ METRIC.matrix(q) @ ours[0], Lambda, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("nabla", "skew"),
    [(LEVI_CIVITA, True), (ADMISSIBLE, True), (METRIC_ONLY, True), (GENERAL, False)],
    ids=["riemannian", "admissible", "metric", "none"],
)
def test_task_space_mass_rate(nabla, skew, rng):
    *_, Lambda_dot, C = task_space_state(nabla, points(rng), rng.standard_normal(3))
    gap = relative(Lambda_dot, C + C.T)
    assert gap < 1e-9 if skew else gap > 1e-2


def test_task_space_matrix_along_the_task_velocity_only_is_not_skew(rng):
    """C and A_dot along A xdot instead of v: the null motion's share of Lambda_dot is lost."""
    q, v = points(rng), rng.standard_normal(3)
    J, A, _, Lambda_dot, C = task_space_state(LEVI_CIVITA, q, v)
    assert relative(Lambda_dot, C + C.T) < 1e-9
    in_range = A @ (J @ v)
    assert np.linalg.norm(v - in_range) > 0.1
    H = np.asarray(METRIC.matrix(q))
    rows = []
    for C_velocity, A_velocity in ((in_range, in_range), (v, in_range), (in_range, v)):
        A_dot = derivative_along(lambda p: task_pieces(p)[1], FRAME, q, A_velocity)
        wrong = induced_coriolis_matrix(cn.coriolis_matrix(LEVI_CIVITA, q, C_velocity, METRIC), H, A, A_dot)
        rows.append(relative(Lambda_dot, wrong + wrong.T))
    assert min(rows) > 1e-2


def test_task_space_equation_of_motion_holds_in_the_range_of_the_inclusion_only(rng):
    """Lambda xddot + C_task xdot + A^T g = F for tau = J^T F and v = A xdot; not with null motion."""
    q, F, x_dot = points(rng), rng.standard_normal(2), rng.standard_normal(2)
    system = cn.MechanicalSystem(METRIC, lambda p: jnp.sin(p[0]) + p[1] * p[2])
    J, A, Lambda = (np.asarray(piece) for piece in task_pieces(q))
    null = np.linalg.svd(J)[2][2]

    def gap(v):
        a = np.asarray(system.forward_dynamics(q, v, J.T @ F))
        J_dot = derivative_along(lambda p: task_pieces(p)[0], FRAME, q, v)
        C = np.asarray(task_space_coriolis_matrix(LEVI_CIVITA, task, q, v, METRIC))
        return relative(Lambda @ (J @ a + J_dot @ v) + C @ x_dot + A.T @ np.asarray(system.gravity(q)), F)

    assert gap(A @ x_dot) < 1e-9
    assert gap(A @ x_dot + null) > 1e-2


@pytest.mark.further
def test_task_space_of_a_batch_and_in_another_frame(rng):
    q, v = points(rng, 2), rng.standard_normal((2, 3))
    C = task_space_coriolis_matrix(LEVI_CIVITA, task, q, v, METRIC)
    assert C.shape == (2, 2, 2)
    B = jnp.asarray(np.eye(3) + 0.3 * rng.standard_normal((3, 3)))

    def change(p):
        return B * (1.0 + 0.2 * jnp.sin(p[0]))

    metric = METRIC.change(change)
    v_changed = np.stack([np.linalg.solve(change(p), w) for p, w in zip(q, v, strict=True)])
    other = task_space_coriolis_matrix(cn.LeviCivita(metric), task, q, v_changed, metric)
    np.testing.assert_allclose(other, C, rtol=0, atol=1e-11)


def test_a_task_that_a_joint_does_not_move_keeps_its_rank():
    A, Lambda = task_space_inclusion(np.diag([1.0, 2.0, 4.0]), np.eye(3)[:2])
    np.testing.assert_allclose(A, np.eye(3)[:, :2], atol=1e-15)
    np.testing.assert_allclose(Lambda, np.diag([1.0, 2.0]), atol=1e-15)


def test_a_task_without_rank_and_wrong_shapes_are_errors(rng):
    with pytest.raises(ShapeError, match="^H: "):
        task_space_inclusion(np.eye(2), np.ones((2, 3)))
    with pytest.raises(ValueError):
        task_space_coriolis_matrix(
            LEVI_CIVITA, lambda q: jnp.stack([q[0], q[0]]), points(rng), np.ones(3), METRIC
        )


def test_a_task_whose_jacobian_lost_rank_is_refused():
    J = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    with pytest.raises(cn.checks.FrameError, match="lost rank"):
        cn.coriolis.task_space_inclusion(np.eye(3), J)
    metric = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    with pytest.raises(cn.checks.NonFiniteError, match="task_space"):
        cn.coriolis.task_space_coriolis_matrix(
            cn.LeviCivita(metric), lambda q: jnp.asarray(J) @ q, np.zeros(3), np.ones(3)
        )
