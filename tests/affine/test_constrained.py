"""Constrained connections: Theorem 3.2 against Lemma 3.1 and Koszul's formula; curvatures; bad input."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from cases import further

import connections as cn

TOL = 1e-9


class Random:
    """A random metric in a random frame with qdot != v, and a random distribution, oblique or by forms."""

    def __init__(self, n, m, by_forms):
        rng = np.random.default_rng([n, m, by_forms])
        self.n, self.m = n, m
        X, G = 0.3 * rng.normal(size=(2, n, n, n)) / n
        A = rng.normal(size=(n, n, m)) / n
        A_0, W_0 = rng.normal(size=(n, m)), rng.normal(size=(n - m, n))
        W = rng.normal(size=(n, n - m, n)) / n

        def wave(q):
            return jnp.sin(q + jnp.arange(float(n)))

        frame = cn.MatrixFrame(lambda q: jnp.eye(n) + jnp.tensordot(wave(q), X, 1), n, n)

        def H(q):
            root = jnp.eye(n) + jnp.tensordot(wave(q), G, 1)
            return root @ root.T

        self.metric = cn.MatrixMetric(frame, H)
        if by_forms:
            self.nabla = cn.ConstrainedConnection(
                self.metric, forms=lambda q: W_0 + jnp.tensordot(wave(q), W, 1)
            )
        else:
            self.nabla = cn.ConstrainedConnection(self.metric, lambda q: A_0 + jnp.tensordot(wave(q), A, 1))
        self.q = rng.normal(size=(3, n))
        self.rng = rng

    @classmethod
    @cache
    def of(cls, n, m, by_forms):
        """The system, made once."""
        return cls(n, m, by_forms)

    def derivatives_of_basis_at(self, connection, q):
        """connection's nabla_{X_j} X_k of the basis fields, (n, m, m), in the metric's frame."""
        A = self.nabla.basis_at(q)
        dA = connection.frame.lie_derivative_at(self.nabla.basis_at, q)  # [b, a, k]
        turned = jnp.einsum("abc,bj,ck->ajk", connection.coefficients_at(q), A, A)
        return jnp.einsum("bj,bak->ajk", A, dA) + turned


@pytest.fixture(
    params=[
        (3, 2, False),
        (4, 2, True),
        further((8, 5, False)),
        further((8, 3, True)),
        further((4, 1, True)),
    ],
    ids=lambda p: f"n{p[0]}m{p[1]}{'forms' if p[2] else 'basis'}",
)
def random(request):
    return Random.of(*request.param)


@pytest.fixture(params=[(3, 2, False), (4, 2, True)], ids=["basis", "forms"])
def small(request):
    return Random.of(*request.param)


def test_theorem_3_2_agrees_with_lemma_3_1_and_with_koszul(random):
    nabla = random.nabla

    @jax.jit
    @jax.vmap
    def at(q):
        found = [random.derivatives_of_basis_at(connection, q) for connection in (nabla.full, nabla.ambient)]
        koszul = cn.LeviCivita(nabla.metric).coefficients_at(q)
        return nabla.coefficients_at(q), koszul, nabla.basis_at(q), *found

    Gamma, koszul, A, full, unprojected = at(random.q)
    expected = jnp.einsum("nai,nijk->najk", A, Gamma)
    np.testing.assert_allclose(full, expected, atol=TOL)
    np.testing.assert_allclose(koszul, Gamma, atol=TOL)
    assert np.max(np.abs(unprojected - expected)) > 1e-2  # control: leaves the distribution


def test_basis_from_forms_is_feasible_and_orthonormal(random):
    nabla, q = random.nabla, random.q
    A, W, P = nabla.basis(q), nabla.forms(q), nabla.projection(q)
    np.testing.assert_allclose(W @ A, 0.0, atol=1e-13)
    assert np.max(np.abs(W @ np.roll(A, 1, axis=1))) > 1e-2  # control: components in another order
    np.testing.assert_allclose(P @ A, A, atol=1e-12)
    np.testing.assert_allclose(P @ P, P, atol=1e-12)
    if random.nabla.distribution.__class__ is cn.affine.AnnihilatedDistribution:
        np.testing.assert_allclose(
            nabla.metric.matrix(q), np.broadcast_to(np.eye(random.m), (3,) + (random.m,) * 2), atol=1e-12
        )


def test_a_feasible_velocity_stays_feasible(small):
    """d/dt (W V) = 0 along qdot = X V, whatever the acceleration without constraints is; it is projected."""
    nabla, q = small.nabla, jnp.asarray(small.q[0])
    V, free = nabla.basis_at(q) @ jnp.array([0.7, -1.1]), jnp.cos(jnp.arange(float(small.n)))
    rate = nabla.feasible_rate_at(q, V, free)
    turned = jax.jvp(nabla.forms_at, (q,), (nabla.ambient.frame.matrix_at(q) @ V,))[1]
    np.testing.assert_allclose(nabla.forms_at(q) @ rate + turned @ V, 0.0, atol=1e-12)
    assert np.abs(turned @ V).max() > 1e-2  # control: the forms do turn
    free_part = nabla.feasible_rate_at(q, V, free) - nabla.feasible_rate_at(q, V, 0.0 * free)
    np.testing.assert_allclose(free_part, nabla.projection_at(q) @ free, atol=1e-12)


@pytest.mark.further
def test_orthogonal_bases_divide_by_the_norms():
    """Gamma~^k_ij = <<X_k, nabla_{X_i} X_j>> / |X_k|^2, Theorem 3.2 as printed; norms 2 and 3."""
    small = Random.of(3, 2, False)
    unit, q = small.nabla.orthonormalized(), small.q
    np.testing.assert_allclose(unit.metric.matrix(q), np.broadcast_to(np.eye(2), (3, 2, 2)), atol=1e-12)
    np.testing.assert_allclose(unit.projection(q), small.nabla.projection(q), atol=1e-12)
    scaled = cn.ConstrainedConnection(small.metric, lambda p: unit.basis_at(p) * jnp.array([2.0, 3.0]))
    A, H = scaled.basis(q), small.metric.matrix(q)
    dA = jax.vmap(lambda p: scaled.frame.lie_derivative_at(scaled.basis_at, p))(q)  # [n, i, a, j]
    turned = jnp.einsum("nabc,nbi,ncj->niaj", scaled.ambient.coefficients(q), A, A)
    inner = jnp.einsum("nak,nab,nibj->nkij", A, H, dA + turned)
    np.testing.assert_allclose(scaled.coefficients(q), inner / np.array([4.0, 9.0])[:, None, None], atol=TOL)


@pytest.mark.further
def test_the_computed_basis_is_smooth():
    """Its exact derivative is that of differences across the point."""
    nabla = Random.of(4, 2, True).nabla
    q, step = Random.of(4, 2, True).q[0], 1e-4
    exact = jax.jacfwd(nabla.basis_at)(q)
    for axis in range(4):
        e = step * np.eye(4)[axis]
        difference = (nabla.basis(q + e) - nabla.basis(q - e)) / (2 * step)
        np.testing.assert_allclose(exact[..., axis], difference, atol=1e-6)


@pytest.mark.further
def test_metric_compatible_and_torsion_free_on_the_distribution():
    nabla, q = Random.of(3, 2, False).nabla, Random.of(3, 2, False).q
    nabla.check_metric_compatible(q, nabla.metric).require()
    nabla.check_torsion_free(q).require()


@pytest.mark.further
def test_the_full_connection_on_and_off_the_distribution():
    small = Random.of(4, 2, True)
    nabla, q = small.nabla, small.q
    A = nabla.basis(q)
    torsion = jnp.einsum("nabc,nbj,nck->najk", nabla.full.torsion(q), A, A)
    np.testing.assert_allclose(torsion, -nabla.nonintegrability(q), atol=TOL)
    Q = nabla.full.nonmetricity(q, small.metric)  # Q[direction, :, :]
    np.testing.assert_allclose(jnp.einsum("nabc,nbj,nck->najk", Q, A, A), 0.0, atol=TOL)
    assert np.max(np.abs(Q)) > 1e-2  # control: not compatible off the distribution
    assert np.max(np.abs(torsion)) > 1e-2


def test_curvatures_are_tensors_and_differ_as_they_should():
    """A change of basis X' = X B(q) transforms both; K - R = P nabla_Z (1 - P)[X, Y]."""
    small = Random.of(3, 2, False)
    nabla, q, m = small.nabla, small.q, small.m
    S = 0.3 * small.rng.normal(size=(small.n, m, m))

    def B(p):
        return jnp.eye(m) + jnp.tensordot(jnp.cos(p), S, 1)

    other = cn.ConstrainedConnection(small.metric, lambda p: nabla.basis_at(p) @ B(p))

    def difference(p):
        """P nabla_{X_k} (1 - P)[X_i, X_j]."""
        leak = nabla.nonintegrability_at(p)
        slope = nabla.frame.lie_derivative_at(nabla.nonintegrability_at, p)  # [k, a, i, j]
        turn = jnp.einsum("abc,bk,cij->kaij", nabla.ambient.coefficients_at(p), nabla.basis_at(p), leak)
        return jnp.einsum("la,kaij->lkij", nabla.frame.components_at(p), slope + turn)

    @jax.jit
    @jax.vmap
    def at(p):
        tensors = [(c.curvature_at(p), c.schouten_curvature_at(p)) for c in (nabla, other)]
        truncated = [super(cn.ConstrainedConnection, c).curvature_at(p) for c in (nabla, other)]
        return tensors, truncated, difference(p), B(p)

    ((R, K), (other_R, other_K)), truncated, expected, b = at(q)

    def pulled(R):
        return jnp.einsum("nlL,nLKIJ,nKk,nIi,nJj->nlkij", jnp.linalg.inv(b), R, b, b, b)

    np.testing.assert_allclose(other_R, pulled(R), atol=TOL)
    np.testing.assert_allclose(other_K, pulled(K), atol=TOL)
    assert np.max(np.abs(truncated[1] - pulled(truncated[0]))) > 1e-2  # control: last term forgotten
    np.testing.assert_allclose(K - R, expected, atol=TOL)
    assert np.max(np.abs(K - R)) > 1e-2


@pytest.mark.further
def test_leaves_of_an_integrable_distribution_are_spheres():
    """D orthogonal to the radius in Euclidean space: both curvatures are those of spheres, 1 / r^2."""
    space = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    nabla = cn.ConstrainedConnection(space, forms=lambda q: q[None])
    q = np.array([0.3, -0.8, 1.1])
    parts = (nabla.nonintegrability_at, nabla.curvature_at, nabla.schouten_curvature_at)
    leak, *curvatures = jax.jit(lambda p: [part(p) for part in parts])(q)
    np.testing.assert_allclose(leak, 0.0, atol=1e-12)
    u, w = np.eye(2)
    for R in curvatures:
        sectional = jnp.einsum("lkij,l,k,i,j->", R, u, w, u, w)  # the basis is orthonormal
        np.testing.assert_allclose(sectional, 1.0 / (q @ q), rtol=1e-10)


def test_without_constraints_on_a_group_it_is_euler_poincare(rng):
    """omegadot = I^-1 (I omega x omega) on SO(3)."""
    nabla = cn.ConstrainedConnection(systems.TOP, lambda q: jnp.eye(3))
    q, w = np.array([0.5, -0.5, 0.1, 0.7]), rng.normal(size=3)
    q /= np.linalg.norm(q)
    expected = np.linalg.solve(systems.TOP_INERTIA, np.cross(systems.TOP_INERTIA @ w, w))
    np.testing.assert_allclose(-nabla.apply(q, w, w), expected, atol=1e-12)


@pytest.mark.further
def test_another_ambient_connection_with_the_same_geodesics(rng):
    """Of rank two D has no 3-forms: torsion of the ambient connection is seen off D only."""
    small = Random.of(3, 2, False)
    twisted = cn.ContorsionFamily(small.metric).connection([0.7])
    nabla = cn.ConstrainedConnection(small.metric, small.nabla.basis_at, ambient=twisted)
    v, q = rng.normal(size=(3, 2)), small.q
    np.testing.assert_allclose(
        nabla.coefficients(q), small.nabla.coefficients(q), atol=1e-12
    )  # no 3-form on D
    V = jnp.einsum("nai,ni->na", nabla.basis(q), v)
    np.testing.assert_allclose(nabla.full.apply(q, V, V), small.nabla.full.apply(q, V, V), atol=1e-12)
    assert np.max(np.abs(nabla.full.coefficients(q) - small.nabla.full.coefficients(q))) > 1e-2
    with pytest.raises(cn.checks.FrameError):
        cn.ConstrainedConnection(small.metric, small.nabla.basis_at, ambient=cn.LeviCivita(PLANE))


def test_input_coefficients(small, rng):
    """Against H^-1 F projected; and F = d phi against the gradient's covector."""
    nabla, q = small.nabla, small.q
    F = rng.normal(size=(2, small.n))
    Y = nabla.input_coefficients(lambda p: jnp.asarray(F) * jnp.cos(p[0]), q)
    raised = np.linalg.solve(small.metric.matrix(q), F.T * np.cos(q[:, 0])[:, None, None])
    np.testing.assert_allclose(nabla.basis(q) @ Y, nabla.projection(q) @ raised, atol=1e-11)
    assert np.max(np.abs(nabla.basis(q) @ Y - raised)) > 1e-2  # control: not projected

    def phi(p):
        return jnp.stack([jnp.sin(p @ p), p[0] * p[1]])

    d_phi = nabla.input_coefficients(lambda p: small.metric.frame.lie_derivative_at(phi, p).T, q)
    np.testing.assert_allclose(nabla.input_coefficients_of_functions(phi, q), d_phi, atol=1e-12)


@pytest.mark.further
def test_geodesics_do_not_depend_on_the_basis(rng):
    """In an oblique basis of D, and of the full connection in the metric's frame."""
    small = Random.of(4, 2, True)
    nabla, q0, times = small.nabla, 0.3 * small.q[0], [0.0, 0.7]
    B = np.eye(small.m) + 0.3 * rng.normal(size=(small.m,) * 2)
    other = cn.ConstrainedConnection(
        small.metric, lambda p: nabla.basis_at(p) @ (B + 0.1 * jnp.outer(jnp.sin(p[: small.m]), B[0]))
    )
    v0 = rng.normal(size=small.m)
    V0 = nabla.basis(q0) @ v0
    w0 = np.linalg.lstsq(other.basis(q0), V0, rcond=None)[0]
    found = [cn.geodesic(nabla.full, q0, V0, times)[0], cn.geodesic(other, q0, w0, times)[0]]
    np.testing.assert_allclose(*found, atol=1e-8)


# --- bad input -------------------------------------------------------------------------------------------

PLANE = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))


def sleigh_forms(q):
    """The blade's direction, which vanishes nowhere."""
    return jnp.stack([jnp.sin(q[2]), -jnp.cos(q[2]), 0.0 * q[2]])[None]


def tangent_basis(q):
    """Two feasible fields of the blade; the first is infinite where cos(q[2]) = 0."""
    return jnp.array([[1.0, 0.0], [jnp.tan(q[2]), 0.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: cn.ConstrainedConnection(PLANE), TypeError, "give a basis"),
        (
            lambda: cn.ConstrainedConnection(PLANE, lambda q: jnp.eye(4)),
            cn.checks.ShapeError,
            "basis of the distrib",
        ),
        (lambda: cn.ConstrainedConnection(PLANE, forms=lambda q: q[:2][None]), cn.checks.ShapeError, "forms"),
        (lambda: cn.ConstrainedConnection(PLANE, forms=lambda q: jnp.eye(3)), cn.checks.ShapeError, "forms"),
        (
            lambda: cn.ConstrainedConnection(PLANE, lambda q: jnp.eye(3)[:, :1], forms=sleigh_forms),
            cn.checks.ShapeError,
            r"forms: expected shape \(2, 3\)",
        ),
        (
            lambda: cn.ConstrainedConnection(PLANE, forms=lambda q: q[None]).coefficients(np.zeros(3)),
            cn.checks.ConstraintError,
            r"lost rank \(0 of 1 are independent\) at q = \[0. 0. 0.\]",
        ),
        (
            lambda: cn.ConstrainedConnection(PLANE, forms=lambda q: jnp.ones((2, 3))).full.coefficients(
                np.ones(3)
            ),
            cn.checks.ConstraintError,
            r"lost rank \(1 of 2",
        ),
        (
            lambda: cn.ConstrainedConnection(PLANE, lambda q: jnp.ones((3, 2))).coefficients(np.ones(3)),
            cn.checks.FrameError,
            "basis of the distribution has rank 1 of 2 at",
        ),
        (
            lambda: cn.ConstrainedConnection(
                PLANE, lambda q: jnp.eye(3)[:, :2], forms=sleigh_forms
            ).coefficients(np.ones(3)),
            cn.checks.ConstraintError,
            r"does not satisfy the constraints \(form 0 on field 0 is 8.41e-01",
        ),
        (
            lambda: cn.ConstrainedConnection(
                PLANE, lambda q: tangent_basis(q) * jnp.sin(q[0]), forms=sleigh_forms
            ).coefficients(np.zeros(3)),
            cn.checks.FrameError,
            "constraints keep rank 1: the basis is singular, not the system",
        ),
        (
            lambda: cn.ConstrainedConnection(PLANE, tangent_basis, forms=sleigh_forms).coefficients(
                np.array([0.0, 0.0, np.pi / 2])
            ),
            cn.checks.FrameError,
            r"all but infinite \(field 0, where q changes by round-off\); the constraints keep rank 1",
        ),
    ],
)
def test_bad_constraints(build, error, message):
    with pytest.raises(error, match=message):
        build()
