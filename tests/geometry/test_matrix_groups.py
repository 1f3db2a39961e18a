"""Groups of matrices: fields, brackets, exponentials, the projection; Arnold's and Milnor's curvatures."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import systems
from cases import always
from pages import run_page
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

import connections as cn
from connections.checks import FrameError, MetricError, NonFiniteError, PointError, ShapeError
from connections.geometry.group_maps import logarithm_at
from connections.geometry.numerics.matrix_exponential import matrix_exponential
from connections.verify import as_subject, summary, verify_subject


def unit(m, *places):
    """The matrix (m, m) of zeros with values (row, column, value)."""
    matrix = np.zeros((m, m))
    for row, column, value in places:
        matrix[row, column] = value
    return matrix


def hats():
    return [oracles.hat(e) for e in np.eye(3)]


def twists():
    """Of SE(3), [omega; v]."""
    return [
        *(np.pad(hat, ((0, 1), (0, 1))) for hat in hats()),
        *(unit(4, (i, 3, 1.0)) for i in range(3)),
    ]


BASES = {
    "heisenberg": [unit(3, (0, 1, 1.0)), unit(3, (1, 2, 1.0)), unit(3, (0, 2, 1.0))],
    "sl2": [  # lambda = (1, 1, -1) of Milnor
        0.5 * unit(2, (0, 0, 1.0), (1, 1, -1.0)),
        0.5 * unit(2, (0, 1, 1.0), (1, 0, 1.0)),
        0.5 * unit(2, (0, 1, 1.0), (1, 0, -1.0)),
    ],
    "affine": [unit(2, (0, 0, 1.0)), unit(2, (0, 1, 1.0))],
    "se2": [unit(3, (0, 1, -1.0), (1, 0, 1.0)), unit(3, (0, 2, 1.0)), unit(3, (1, 2, 1.0))],
    "so3": hats(),
    "se3": twists(),
    "sol": [unit(3, (0, 0, 1.0), (1, 1, -1.0)), unit(3, (0, 2, 1.0)), unit(3, (1, 2, 1.0))],
    "so4": [unit(4, (i, j, 1.0), (j, i, -1.0)) for i in range(4) for j in range(i)],
    "sl3": [unit(3, (i, j, 1.0)) for i in range(3) for j in range(3) if i != j]
    + [unit(3, (i, i, 1.0), (i + 1, i + 1, -1.0)) for i in range(2)],
    "gl2": [unit(2, (i, j, 1.0)) for i in range(2) for j in range(2)],
}
GROUPS = {name: cn.MatrixLieGroup(basis) for name, basis in BASES.items()}
SL2, SE3 = GROUPS["sl2"], GROUPS["se3"]


@pytest.mark.parametrize("name", ["sl2", "se3"])
def test_a_singular_matrix_is_in_no_group(name):
    """The determinant of what it is projected to is round-off, of either sign."""
    group = GROUPS[name]
    m = group.basis.shape[1]
    for matrix in (np.ones((m, m)), np.outer(np.arange(1.0, m + 1.0), [0.1] * m), 1e-9 * np.ones((m, m))):
        assert not group.valid_at(jnp.asarray(matrix.reshape(-1)))
    moved = np.eye(m)
    moved[0, -1] = 1e9
    assert group.valid_at(jnp.asarray(moved.reshape(-1)))


def element(group, rng, size=0.7):
    """Components xi and the entries of exp(xi), by SciPy."""
    xi = size * rng.standard_normal(group.dim)
    return xi, expm(np.einsum("i,iab->ab", xi, group.basis)).reshape(-1)


# --- fields and brackets --------------------------------------------------------------------------------


@pytest.mark.parametrize("invariant", ["left", "right"])
@pytest.mark.parametrize("name", always(BASES, "sl2"))
def test_brackets_of_the_fields(name, invariant, rng):
    """Of g E_i and E_i g, by derivatives of X(q); components of tangent vectors."""
    group = cn.MatrixLieGroup(BASES[name], invariant)
    _, q = element(group, rng)
    g, m = q.reshape(-1, int(group.ambient_dim**0.5)), group.dim
    X = np.asarray(group.matrix(q))
    fields = [g @ E if invariant == "left" else E @ g for E in BASES[name]]
    np.testing.assert_allclose(X, np.stack([field.reshape(-1) for field in fields], axis=1), atol=1e-14)
    generic = cn.MatrixFrame(group.matrix_at, m, group.ambient_dim)
    s = np.asarray(group.structure_functions(q))
    np.testing.assert_allclose(generic.structure_functions(q), s, atol=1e-12)
    assert name == "affine" or not np.allclose(s, -s)
    v = rng.standard_normal(m)
    np.testing.assert_allclose(group.dual_at(q) @ (X @ v), v, atol=1e-12)


def test_structure_constants_are_commutators():
    for name, group in GROUPS.items():
        c, E = group.structure_constants, group.basis
        commutators = np.einsum("iab,jbc->ijac", E, E) - np.einsum("jab,ibc->ijac", E, E)
        np.testing.assert_allclose(np.einsum("kij,kab->ijab", c, E), commutators, atol=1e-14, err_msg=name)
        assert group.codimension == 0, name
    np.testing.assert_array_equal(GROUPS["so3"].structure_constants, oracles.EPSILON)


def test_rigid_motions_are_those_of_the_quaternion_frame(rng):
    """The same twist moves the homogeneous matrix as it moves position and quaternion."""
    pose, twist = oracles.random_pose(rng), rng.standard_normal(6)
    h = 1e-6
    rate = np.asarray(cn.SE3Frame().matrix(pose)) @ twist

    def homogeneous(p):
        return np.block([[oracles.rotation(p[3:]), p[:3, None]], [np.zeros((1, 3)), np.ones((1, 1))]])

    numeric = (homogeneous(pose + h * rate) - homogeneous(pose - h * rate)) / (2 * h)
    g = homogeneous(pose)
    found = np.asarray(SE3.matrix(g.reshape(-1))) @ twist
    np.testing.assert_allclose(found.reshape(4, 4), numeric, atol=1e-8)
    right = cn.MatrixLieGroup(twists(), invariant="right")
    assert np.abs(np.asarray(right.matrix(g.reshape(-1))) @ twist - numeric.reshape(-1)).max() > 1e-2
    np.testing.assert_allclose(
        SE3.structure_constants, cn.SE3Frame().structure_functions_at(None), atol=1e-15
    )


def test_motions_of_a_plane(rng):
    """SE2Frame against the matrices: X, brackets, the exponential; a full turn is another point."""
    frame, group = cn.SE2Frame(), GROUPS["se2"]
    q, v = rng.standard_normal(3), rng.standard_normal(3)

    def homogeneous(p):
        c, s = np.cos(p[2]), np.sin(p[2])
        return np.array([[c, -s, p[0]], [s, c, p[1]], [0.0, 0.0, 1.0]])

    h, rate = 1e-6, np.asarray(frame.matrix(q)) @ v
    numeric = (homogeneous(q + h * rate) - homogeneous(q - h * rate)) / (2 * h)
    E = np.einsum("i,iab->ab", v, group.basis)
    np.testing.assert_allclose(homogeneous(q) @ E, numeric, atol=1e-9)
    np.testing.assert_array_equal(frame.structure_functions(q), group.structure_constants)
    generic = cn.MatrixFrame(frame.matrix_at, 3, 3)
    np.testing.assert_allclose(generic.structure_functions(q), group.structure_constants, atol=1e-14)
    moved = frame.retract_at(jnp.asarray(q), jnp.asarray(v))
    np.testing.assert_allclose(homogeneous(np.asarray(moved)), homogeneous(q) @ expm(E), atol=1e-14)
    still = np.asarray(frame.retract_at(jnp.asarray(q), jnp.asarray([0.0, 1.0, 2.0])))
    assert np.isfinite(still).all() and still[2] == q[2]
    assert cn.SE2Frame() == cn.SE2Frame() != cn.CoordinateFrame(3)


def test_the_circle(rng):
    """SO2Frame against the rotations of a plane: the shortest way from one to another, also in a product."""
    frame, q = cn.SO2Frame(), 20.0 * rng.standard_normal((7, 2, 1))
    turns = np.exp(1j * q[..., 0])
    shortest = np.angle(turns[:, 1] / turns[:, 0])
    found = jax.vmap(lambda a, b: logarithm_at(frame, a, b))(*np.moveaxis(q, 1, 0))[:, 0]
    np.testing.assert_allclose(found, shortest, atol=1e-13)
    np.testing.assert_allclose(np.exp(1j * (q[:, 0, 0] + found)), turns[:, 1], atol=1e-13)
    assert np.abs(q[:, 1, 0] - q[:, 0, 0] - found).max() > 6.0
    product = cn.ProductFrame(cn.SE2Frame(), frame, cn.SO3Frame(), frame)
    assert product.angles == (2, 3, 8) and product.change(lambda q: jnp.eye(8)).angles == (2, 3, 8)
    nabla = cn.LeviCivita(cn.LeftInvariantMetric(cn.ProductFrame(cn.CoordinateFrame(1), frame), np.eye(2)))
    ends = np.array([[0.0, 3.0], [0.5, -3.0]])
    np.testing.assert_allclose(cn.logarithm(nabla, *ends), [0.5, 2.0 * np.pi - 6.0], atol=1e-12)
    slope = jax.jacfwd(lambda p: logarithm_at(frame, jnp.array([3.0]), p))(jnp.array([-3.0]))
    np.testing.assert_array_equal(slope, [[1.0]])


# --- exponential, logarithm, product -------------------------------------------------------------------


@pytest.mark.parametrize("name", always(BASES, "heisenberg", "se2"))
def test_exponential_and_logarithm(name, rng):
    """Against SciPy's; the logarithm takes it back; g exp(t xi) leaves g along the field."""
    group = GROUPS[name]
    xi, expected = element(group, rng)
    found = group.exponential(xi)
    np.testing.assert_allclose(found, expected, atol=1e-13)
    np.testing.assert_allclose(group.logarithm(found), xi, atol=1e-11)
    _, q = element(group, rng)
    step = 1e-6 * xi
    moved = np.asarray(group.retract_at(q, step)) - np.asarray(group.retract_at(q, -step))
    np.testing.assert_allclose(moved / 2e-6, np.asarray(group.matrix(q)) @ xi, atol=1e-8)


@pytest.mark.parametrize("s", [-9.0, -1e-9, 0.0, 0.3, 0.7, 30.0])
def test_exponential_of_two_rows(s, rng):
    """Turning, shearing and stretching matrices, also where the two forms meet; with its derivative."""
    T = np.array([[1.0, 0.4], [-0.2, 1.3]])
    A = 0.3 * np.eye(2) + T @ np.array([[0.0, 1.0], [s, 0.0]]) @ np.linalg.inv(T)
    E = rng.standard_normal((2, 2))
    value, rate = jax.jit(lambda A, E: jax.jvp(matrix_exponential, (A,), (E,)))(A, E)
    block = expm(np.block([[A, E], [np.zeros((2, 2)), A]]))  # Van Loan (1978)
    np.testing.assert_allclose(value, block[:2, :2], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rate, block[:2, 2:], rtol=1e-11, atol=1e-11)


def test_product_inverse_adjoint(rng):
    (xi, p), (_, q) = element(SL2, rng), element(SL2, rng)
    g, h = q.reshape(2, 2), p.reshape(2, 2)
    np.testing.assert_allclose(SL2.product(q, p).reshape(2, 2), g @ h, atol=1e-14)
    np.testing.assert_allclose(SL2.inverse(q).reshape(2, 2), np.linalg.inv(g), atol=1e-13)
    turned = g @ np.einsum("i,iab->ab", xi, SL2.basis) @ np.linalg.inv(g)
    Ad = np.asarray(SL2.adjoint(q))
    np.testing.assert_allclose(np.einsum("i,iab->ab", Ad @ xi, SL2.basis), turned, atol=1e-13)
    assert np.abs(SL2.adjoint(SL2.inverse(q)) @ xi - Ad @ xi).max() > 1e-2
    np.testing.assert_array_equal(SL2.product(q, SL2.identity()), SL2.product(SL2.identity(), q))


# --- points on the group ---------------------------------------------------------------------------------


#: Further kinds of equations and tangents: of a form that is not definite, and forms beside dual forms.
KINDS = {
    "lorentz": [unit(3, (0, 1, 1.0), (1, 0, -1.0)), unit(3, (0, 2, 1.0), (2, 0, 1.0))]
    + [unit(3, (1, 2, 1.0), (2, 1, 1.0))],
    "se2, both ways": [
        *(np.pad(E, (0, 3)) for E in BASES["se2"]),
        *(np.pad(E.T, ((3, 0), (3, 0))) for E in BASES["se2"]),
    ],
}


@pytest.mark.parametrize("name", always([*BASES, *KINDS], "sl2", "so3", "se3", "sol", *KINDS))
def test_the_projection_is_the_nearest_element(name, rng):
    """It moves a matrix along normals only, onto the set of the equations; SO(3): the polar factor."""
    group = GROUPS.get(name) or cn.MatrixLieGroup(KINDS[name])
    _, q = element(group, rng)
    near, project = q + 1e-7 * rng.standard_normal(len(q)), jax.jit(group.project_at)
    X, p = np.asarray(group.matrix_at(near)), np.asarray(project(near))
    if group.dim < group.ambient_dim:
        assert 1e-8 < np.abs(p - near).max() < 1e-6
    assert np.abs(X.T @ (p - near)).max() < 1e-12
    np.testing.assert_allclose(project(p), p, rtol=0, atol=2e-15 * np.abs(p).max())
    if name in BASES:
        np.testing.assert_allclose(group.exponential(group.logarithm(p)), p, atol=1e-13)
    if name == "so3":
        U, _, Vt = np.linalg.svd(near.reshape(3, 3))
        np.testing.assert_allclose(p.reshape(3, 3), U @ Vt, atol=1e-13)
    if name == "se3":
        far = q.reshape(4, 4) + 3e-6 * rng.standard_normal((4, 4))
        turned = np.asarray(project(far.reshape(-1))).reshape(4, 4)
        np.testing.assert_allclose(turned[:3, 3], far[:3, 3], rtol=0, atol=1e-14)  # all are places


@pytest.mark.parametrize("name", [name for name in [*BASES, *KINDS] if name != "se2, both ways"])
def test_projections_of_a_batch_call_no_operation_of_lapack(name):
    """Each motion projects in every stage of every step. Forms beside dual forms need an inverse."""
    group = GROUPS.get(name) or cn.MatrixLieGroup(KINDS[name])
    text = jax.jit(jax.vmap(group.project_at)).lower(np.zeros((9, group.ambient_dim))).as_text()
    assert "lapack" not in text
    assert "lapack" in jax.jit(jax.vmap(jnp.linalg.inv)).lower(np.zeros((9, 4, 4))).as_text()


def test_large_elements_are_points(rng):
    """diag(1e4, 1e-4) of SL(2) and a pose at 1e6 m, rounded; the same entries changed are refused."""
    boost = SL2.exponential([2.0 * np.log(1e4), 0.0, 0.0])
    turned = np.asarray(SL2.product(SL2.exponential([0.1, 0.2, 0.8]), boost))
    SL2.matrix(turned)
    far = np.eye(4)
    far[:3, :3], far[:3, 3] = expm(oracles.hat(rng.standard_normal(3))), 1e6
    SE3.matrix(far.reshape(-1))
    far[0, 0] += 1e-4
    with pytest.raises(PointError, match="off MatrixLieGroup"):
        SE3.matrix(far.reshape(-1))


def test_a_line_on_a_torus_has_no_equation():
    """exp(t diag(J, 2^(1/2) J)) comes back to none of its points: one equation is missing."""
    J = np.array([[0.0, -1.0], [1.0, 0.0]])
    winding = cn.MatrixLieGroup([np.kron(np.diag([1.0, np.sqrt(2.0)]), J)])
    assert winding.codimension == 1
    assert cn.MatrixLieGroup([np.kron(np.eye(2), J)]).codimension == 0


# --- metrics -----------------------------------------------------------------------------------------------


def arnold_sectional(c, H, u, w):
    """Arnold (1989), appendix 2, section L: from B, <B(c, a), b> = <[a, b], c>, alone."""
    inner = lambda a, b: a @ H @ b  # noqa: E731
    bracket = lambda a, b: np.einsum("kij,i,j->k", c, a, b)  # noqa: E731
    B = lambda z, a: np.linalg.solve(H, np.einsum("kij,i,k->j", c, a, H @ z))  # noqa: E731
    delta, beta = 0.5 * (B(u, w) + B(w, u)), 0.5 * (B(u, w) - B(w, u))
    alpha, B_u, B_w = 0.5 * bracket(u, w), 0.5 * B(u, u), 0.5 * B(w, w)
    K = inner(delta, delta) + 2 * inner(alpha, beta) - 3 * inner(alpha, alpha) - 4 * inner(B_u, B_w)
    return K / (inner(u, u) * inner(w, w) - inner(u, w) ** 2)


@pytest.mark.parametrize("name", always(BASES, "sl2"))
def test_sectional_curvature_is_arnold_s(name, rng):
    group = GROUPS[name]
    H, (u, w) = oracles.random_spd(rng, group.dim), rng.standard_normal((2, group.dim))
    nabla = cn.LeviCivita(cn.LeftInvariantMetric(group, H))
    _, q = element(group, rng)
    expected = arnold_sectional(group.structure_constants, H, u, w)
    np.testing.assert_allclose(nabla.sectional(q, u, w), expected, rtol=1e-9, atol=1e-11)
    assert abs(expected - arnold_sectional(0.9 * group.structure_constants, H, u, w)) > 1e-3


def test_milnor_s_signs_of_ricci():
    """Unimodular: Ric(e_1) = 2 mu_2 mu_3, mu_i = (lambda_1 + lambda_2 + lambda_3) / 2 - lambda_i."""
    for name, constants in (("heisenberg", (0.0, 0.0, 1.0)), ("sl2", (1.0, 1.0, -1.0))):
        group = GROUPS[name]
        c = group.structure_constants
        lambdas = np.array([c[0, 1, 2], c[1, 2, 0], c[2, 0, 1]])
        assert sorted(np.abs(lambdas)) == sorted(np.abs(constants))
        mu = lambdas.sum() / 2 - lambdas
        ricci = cn.LeviCivita(cn.LeftInvariantMetric(group, np.eye(3))).ricci(group.identity())
        expected = 2 * np.diag([mu[1] * mu[2], mu[2] * mu[0], mu[0] * mu[1]])
        np.testing.assert_allclose(ricci, expected, atol=1e-14)


def test_a_motion_of_euler_and_poincare(rng):
    """On SL(2): the equations by SciPy, the momentum in space is conserved, det g = 1 to round-off."""
    H = np.diag([1.0, 2.0, 3.5])
    nabla = cn.LeviCivita(cn.LeftInvariantMetric(SL2, H))
    v0, times = np.array([0.3, -0.5, 1.2]), np.linspace(0.0, 2.0, 5)
    q, v = cn.geodesic(nabla, SL2.identity(), v0, times)
    g, c = q.reshape(-1, 2, 2), SL2.structure_constants

    def rate(t, state):
        moved, w = state[:4].reshape(2, 2), state[4:]
        acceleration = np.linalg.solve(H, np.einsum("kij,i,k->j", c, w, H @ w))
        return np.concatenate([(moved @ np.einsum("i,iab->ab", w, SL2.basis)).reshape(-1), acceleration])

    by_scipy = solve_ivp(rate, (0.0, 2.0), np.concatenate([SL2.identity(), v0]), rtol=1e-12, atol=1e-13).y[
        :, -1
    ]
    np.testing.assert_allclose(np.concatenate([q[-1], v[-1]]), by_scipy, atol=1e-9)
    momenta = [np.linalg.solve(SL2.adjoint(p).T, H @ w) for p, w in zip(q, v, strict=True)]
    np.testing.assert_allclose(momenta, np.broadcast_to(H @ v0, (5, 3)), atol=1e-9)
    assert np.abs(v[-1] - v0).max() > 0.1
    assert np.abs(np.linalg.det(g) - 1.0).max() < 1e-14


def beside(first, second):
    """Block-diagonal matrices of two algebras."""
    m, k = len(first[0]), len(second[0])
    return [*(np.pad(E, (0, k)) for E in first), *(np.pad(E, ((m, 0), (m, 0))) for E in second)]


CIRCLE = [unit(2, (0, 1, -1.0), (1, 0, 1.0))]
SHEAR = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
#: With entries that are constant in all elements; in the last ones because terms cancel.
SPARSE = {
    "so3 x so3": beside(hats(), hats()),
    "torus": beside(CIRCLE, CIRCLE),
    "so3 x sl2": beside(hats(), BASES["sl2"]),
    "sol": BASES["sol"],
    "borel": [unit(3, (i, i, 1.0), (i + 1, i + 1, -1.0)) for i in range(2)] + BASES["heisenberg"],
    "sol, mixed": [SHEAR @ E @ np.linalg.inv(SHEAR) for E in BASES["sol"]],
    "two turned so3": [np.kron(np.array([[1.0, s], [s, 1.0]]) / 2.0, E) for s in (1.0, -1.0) for E in hats()],
}


def of_euler_and_poincare(basis, side, H, q0, v0, t):
    """q and v at t by SciPy: gdot = g xi or xi g, d/dt <H xi, eta> = +- <H xi, [xi, eta]>, by commutators."""
    E, sign = np.asarray(basis), 1.0 if side == "left" else -1.0
    m, n = E.shape[1], len(E)
    dual = np.linalg.pinv(E.reshape(n, -1).T)

    def rate(_, y):
        g, v = y[: m * m].reshape(m, m), y[m * m :]
        xi = np.einsum("i,iab->ab", v, E)
        brackets = dual @ np.stack([(xi @ e - e @ xi).reshape(-1) for e in E], axis=1)
        moved = g @ xi if side == "left" else xi @ g
        return np.concatenate([moved.reshape(-1), sign * np.linalg.solve(H, brackets.T @ (H @ v))])

    end = solve_ivp(rate, (0.0, t), np.concatenate([q0, v0]), method="DOP853", rtol=1e-12, atol=1e-13).y[
        :, -1
    ]
    return end[: m * m], end[m * m :]


@pytest.mark.parametrize(
    "name", always([f"{n}, {s}" for n in SPARSE for s in ("left", "right")], "borel, left")
)
def test_motions_where_entries_are_constant(name, rng):
    """From the identity, beside SciPy on matrices; such entries keep their value exactly."""
    name, side = name.rsplit(", ", 1)
    group = cn.MatrixLieGroup(SPARSE[name], side)
    n = group.dim
    A = rng.normal(size=(n, n))
    H, v = A @ A.T + n * np.eye(n), rng.normal(size=n)
    q0 = group.identity()
    found = cn.geodesic(cn.LeviCivita(cn.ConstantMetric(group, H)), q0, v, [0.0, 1.0, 2.0])
    for k, t in ((1, 1.0), (2, 2.0)):
        q, end = of_euler_and_poincare(SPARSE[name], side, H, q0, v, t)
        np.testing.assert_allclose(found.q[k], q, atol=1e-8 * np.abs(q).max())
        np.testing.assert_allclose(found.v[k], end, atol=1e-8 * np.abs(end).max())
    still = np.max([np.abs(E) for E in SPARSE[name]], axis=0).reshape(-1) == 0.0
    still &= np.abs(of_euler_and_poincare(SPARSE[name], side, H, q0, v, 1.3)[0] - q0) == 0.0
    np.testing.assert_array_equal(found.q[:, still], np.broadcast_to(q0[still], (3, still.sum())))


@pytest.mark.further
def test_motions_of_two_rotations_are_those_of_the_factors(rng):
    """Of blocks (6, 6), in a batch and inside jit, beside SO(3) twice, of which each moves by itself."""
    group, so3 = cn.MatrixLieGroup(SPARSE["so3 x so3"]), cn.SO3Frame()
    inertias = np.diag([1.0, 2.0, 3.0]), np.diag([2.0, 0.7, 1.5])
    H = np.zeros((6, 6))
    H[:3, :3], H[3:, 3:] = inertias
    both = cn.LeviCivita(cn.ConstantMetric(group, H))
    v, times = rng.normal(size=(2, 6)), np.array([0.0, 1.5])
    found = cn.geodesic(both, group.identity(), v, times)
    for number, inertia in enumerate(inertias):
        own, nabla = slice(3 * number, 3 * number + 3), cn.LeviCivita(cn.ConstantMetric(so3, inertia))
        parts = cn.geodesic(nabla, np.array([0.0, 0.0, 0.0, 1.0]), v[:, own], times)
        matrices = Rotation.from_quat(parts.q[:, -1]).as_matrix()
        np.testing.assert_allclose(found.q[:, -1].reshape(2, 6, 6)[:, own, own], matrices, atol=1e-8)
        np.testing.assert_allclose(found.v[:, -1, own], parts.v[:, -1], atol=1e-8)
    assert np.abs(found.q[:, -1].reshape(2, 6, 6)[:, :3, 3:]).max() == 0.0
    inside = jax.jit(lambda v: cn.geodesic(both, jnp.asarray(group.identity()), v, times).q[-1])(v[0])
    np.testing.assert_allclose(inside, found.q[0, -1], atol=1e-9)


@pytest.mark.further
def test_a_torus_under_a_force_that_begins_later():
    """From rest; angles are those of quadrature: a ramp from t = 1 on is (t - 1)^3 / 6."""
    group = cn.MatrixLieGroup(SPARSE["torus"])
    system = cn.MechanicalSystem(cn.ConstantMetric(group, np.diag([1.0, 2.0])))

    def push(t, q, v):
        return jnp.array([1.0, 3.0]) * jnp.where(t > 1.0, t - 1.0, 0.0)

    motion = system.simulate(group.identity(), [0.0, 0.0], [0.0, 0.5, 3.0], push, breakpoints=[1.0])
    q = motion.q[-1].reshape(4, 4)
    angles = np.arctan2(q[[1, 3], [0, 2]], q[[0, 2], [0, 2]])
    np.testing.assert_allclose(angles, np.array([1.0, 1.5]) * 8.0 / 6.0, atol=1e-9)
    np.testing.assert_allclose(motion.v[-1], np.array([1.0, 1.5]) * 2.0, atol=1e-9)


@pytest.mark.further
def test_derivatives_inside_jit_and_products(rng):
    """d curvature / d inertia of a product with SO(3), against differences."""
    affine = GROUPS["affine"]
    group = cn.ProductFrame(affine, affine, systems.SO3)
    q = np.concatenate([affine.identity(), affine.identity(), oracles.random_quaternion(rng)])

    def scalar(x):
        metric = cn.LeftInvariantMetric(group, jnp.diag(jnp.stack([1.0, x, 1.0, x**2, 2.0, 1.0, x])))
        return cn.LeviCivita(metric).scalar_curvature(q)

    slope = jax.jit(jax.grad(scalar))(1.3)
    np.testing.assert_allclose(slope, (scalar(1.3001) - scalar(1.2999)) / 2e-4, rtol=1e-6)


# --- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cn.MatrixLieGroup(np.eye(2)), ShapeError, "basis"),
        (lambda: cn.MatrixLieGroup(np.zeros((1, 2, 3))), ShapeError, "basis"),
        (lambda: cn.MatrixLieGroup([[[1.0, np.nan], [0.0, 0.0]]]), NonFiniteError, r"basis\[0, 0, 1\]"),
        (lambda: cn.MatrixLieGroup([np.eye(2), np.zeros((2, 2))]), FrameError, r"basis\[1\] is zero"),
        (lambda: cn.MatrixLieGroup([*hats(), hats()[0]]), FrameError, "only 3 of the 4"),
        (lambda: cn.MatrixLieGroup(hats()[:2]), FrameError, "commutator of matrices 0 and 1"),
        (lambda: cn.MatrixLieGroup(hats(), invariant="both"), ValueError, "invariant: expected 'left'"),
        (lambda: jax.jit(cn.MatrixLieGroup)(jnp.asarray(hats())), TypeError, "basis: JAX traces it"),
        (lambda: SL2.matrix([1.0, 0.0, 0.0, 1.1]), PointError, "q: the matrix is .* off MatrixLieGroup"),
        (lambda: SL2.matrix([-1.0, 0.0, 0.0, 1.0]), PointError, "determinant -1"),
        (lambda: SL2.product(SL2.identity(), np.ones(4)), PointError, "p: the matrix has determinant"),
        (lambda: SL2.logarithm([-2.0, 0.0, 0.0, -0.5]), PointError, "no logarithm .*eigenvalue -"),
        (lambda: SL2.exponential([1.0, 2.0]), ShapeError, "xi"),
        (lambda: cn.LeftInvariantMetric(np.eye(3), np.eye(3)), TypeError, "group: expected a FrameField"),
        (
            lambda: cn.LeftInvariantMetric(cn.MatrixLieGroup(hats(), "right"), np.eye(3)),
            TypeError,
            r"right-invariant; write MatrixLieGroup\(basis\)",
        ),
        (
            lambda: cn.LeftInvariantMetric(cn.ProductFrame(systems.SO3, systems.FRAME), np.eye(6)),
            TypeError,
            r"group.frames\[1\]: expected the frame of a Lie group",
        ),
        (lambda: cn.LeftInvariantMetric(SL2, -np.eye(3)), MetricError, "positive definite"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_equal_groups_are_equal():
    assert cn.MatrixLieGroup(hats()) == cn.MatrixLieGroup(hats())
    assert hash(cn.MatrixLieGroup(hats())) == hash(cn.MatrixLieGroup(hats()))
    assert cn.MatrixLieGroup(hats()) != cn.MatrixLieGroup(hats(), "right")
    assert cn.MatrixLieGroup(hats()) != cn.MatrixLieGroup(2.0 * np.array(hats()))
    assert repr(cn.MatrixLieGroup(hats(), "right")) == "MatrixLieGroup(3 matrices of 3 x 3, right-invariant)"


@pytest.mark.further
def test_verify_takes_elements_of_the_group():
    rows = summary(verify_subject(as_subject(cn.LeftInvariantMetric(SL2, np.diag([1.0, 2.0, 3.5])), "SL(2)")))
    assert len(rows) > 30 and all(row.ok for row in rows)


@pytest.mark.further
def test_the_page_of_groups():
    run_page("groups.md", blocks=7)
