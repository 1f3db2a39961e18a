"""Jacobi fields and conjugate times, with torsion, without a metric, in frames with qdot != v."""

import distances
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from cases import further
from pages import run_page
from scipy.integrate import solve_ivp

import connections as cn
from connections.affine import ConjugateTimes, GeodesicStability, JacobiField
from connections.affine.conjugate_times import _grouped
from connections.affine.motions import lagrangian_plane
from connections.affine.motions.flow import Trajectories
from connections.checks import IntegrationError, PointError, ShapeError
from connections.evaluation.boundary import Argument
from connections.evaluation.parameters import PytreePartial

GENERAL = systems.GENERAL  # torsion, no metric, a frame with qdot != v
TIMES = np.linspace(0.0, 0.9, 4)
S3 = distances.sphere(3).nabla
TWO_SPHERES = distances.two_spheres().nabla


@pytest.fixture
def start(rng):
    """q, v, eta and D_t eta."""
    return 0.2 * rng.normal(size=3), *rng.normal(size=(3, 3))


# --- the fields --------------------------------------------------------------------------------------------


def covariant(nabla, q, v, eta, deta, times, torsion=1.0):
    """eta and D_t eta of D_t^2 eta + D_t (T(eta, v)) + R(eta, v) v = 0 by SciPy, from the tensors T and R."""

    def of(q):
        X, Gamma = nabla.frame.matrix_at(q), nabla.coefficients_at(q)
        return X, Gamma, torsion * nabla.torsion_at(q), nabla.curvature_at(q)

    tensors = jax.jit(of)

    def twist(T, a, b):
        return np.einsum("ijk,j,k->i", T, a, b)

    def rate(t, y):
        q, v, eta, w = np.split(y, 4)
        X, Gamma, T, R = map(np.asarray, tensors(q))
        bent = np.einsum("lkij,k,i,j->l", R, v, eta, v)
        eta_dot = w + twist(T, v, eta) - twist(Gamma, v, eta)
        return np.concatenate([X @ v, -twist(Gamma, v, v), eta_dot, -bent - twist(Gamma, v, w)])

    w = deta + twist(torsion * np.asarray(nabla.torsion(q)), eta, v)
    y0 = np.concatenate([q, v, eta, w])
    solved = solve_ivp(rate, (times[0], times[-1]), y0, "DOP853", times, rtol=1e-11, atol=1e-12).y.T
    T = torsion * np.asarray(nabla.torsion(solved[:, :3]))
    return solved[:, 6:9], solved[:, 9:] + np.einsum("tijk,tj,tk->ti", T, solved[:, 3:6], solved[:, 6:9])


def test_the_equation_with_torsion_and_curvature(start):
    """Integrated as the derivative of geodesics; here from T and R. Control: without T."""
    field = cn.jacobi_field(GENERAL, *start, TIMES)
    eta, deta = covariant(GENERAL, *start, TIMES)
    np.testing.assert_allclose(field.eta, eta, atol=1e-9)
    np.testing.assert_allclose(field.deta, deta, atol=1e-9)
    wrong, _ = covariant(GENERAL, *start, TIMES, torsion=0.0)
    assert np.max(np.abs(wrong[-1] - eta[-1])) > 1e-2


@pytest.mark.further
def test_neighbouring_geodesics(start):
    """Fourth-order differences of geodesics whose first velocities are carried by parallel transport."""
    q, v, eta, deta = start
    frame, h = GENERAL.frame, 4e-3
    w = deta + np.einsum("ijk,j,k->i", GENERAL.torsion(q), eta, v)
    instants = TIMES[-1] + 2e-3 * np.array([0.0, -2.0, -1.0, 1.0, 2.0])[1:]
    times = np.sort(np.append(instants, [0.0, TIMES[-1]]))

    def line(s):
        return q + s * (frame.matrix_at(q) @ eta)  # any curve through q with the velocity eta

    offsets, weights = h * np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, -8.0, 8.0, -1.0]) / (12.0 * h)
    carried = [
        np.asarray(cn.parallel_transport(GENERAL, line, np.stack([v, w]), np.array([0.0, s])))[:, -1]
        for s in offsets
    ]
    points = np.stack([np.asarray(line(s)) for s in offsets])
    starts = np.stack([a + s * b for s, (a, b) in zip(offsets, carried, strict=True)])
    ends = np.asarray(cn.geodesic(GENERAL, points, starts, times).q)
    centre = cn.geodesic(GENERAL, q, v, times)
    X = np.asarray(frame.matrix(centre.q))
    found = np.linalg.solve(X, np.einsum("s,stq->tq", weights, ends)[..., None])[..., 0]
    field = cn.jacobi_field(GENERAL, *start, times)
    np.testing.assert_allclose(found[1:], field.eta[1:], atol=2e-8)
    # D_t eta at the last requested time, by differences of eta in time
    middle, step = 3, 2e-3
    eta_dot = np.array([1.0, -8.0, 0.0, 8.0, -1.0]) @ field.eta[1:] / (12.0 * step)
    carried_eta = GENERAL.apply(centre.q[middle], centre.v[middle], field.eta[middle])
    np.testing.assert_allclose(field.deta[middle], eta_dot + carried_eta, atol=1e-8)


@pytest.mark.further
def test_torsion_changes_the_derivative_and_not_the_field(start):
    """A member with torsion of a metric: D_t eta = D*_t eta + T(v, eta) / 2 for the same field."""
    q, v, eta, deta = start
    member, own = systems.ADMISSIBLE, systems.LEVI_CIVITA
    riemannian = cn.jacobi_field(own, q, v, eta, deta, TIMES)

    def half(q, v, eta):
        return np.einsum("...ijk,...j,...k->...i", member.torsion(q), v, eta) / 2.0

    field = cn.jacobi_field(member, q, v, eta, deta + half(q, v, eta), TIMES)
    np.testing.assert_allclose(field.eta, riemannian.eta, atol=1e-9)
    expected = riemannian.deta + half(field.q, field.v, field.eta)
    np.testing.assert_allclose(field.deta, expected, atol=1e-9)
    assert np.max(np.abs(field.deta - riemannian.deta)) > 1e-2


@pytest.mark.further
def test_closed_forms():
    """sin on the sphere, sinh in the hyperbolic plane; a batch of fields is one call."""
    q, v = np.array([np.pi / 2, 0.2]), np.array([0.0, 1.0])
    field = cn.jacobi_field(systems.SPHERE_ORTHONORMAL_NABLA, q, v, np.zeros(2), np.eye(2), TIMES)
    assert isinstance(field, JacobiField) and field.eta.shape == (2, 4, 2)
    np.testing.assert_allclose(field.eta[0], np.stack([np.sin(TIMES), 0.0 * TIMES], axis=1), atol=1e-9)
    np.testing.assert_allclose(field.eta[1], np.stack([0.0 * TIMES, TIMES], axis=1), atol=1e-9)
    np.testing.assert_allclose(field.deta[0, :, 0], np.cos(TIMES), atol=1e-9)
    # Along the half plane's vertical geodesic (0, e^t), e_x is e^t times a parallel unit vector.
    up = cn.jacobi_field(systems.HALF_PLANE_NABLA, [0.0, 1.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0], TIMES)
    np.testing.assert_allclose(up.eta[:, 0], np.exp(TIMES) * np.sinh(TIMES), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(up.deta[:, 0], np.exp(TIMES) * np.cosh(TIMES), rtol=1e-9)
    assert "eta" in repr(up) and len(up.plot().axes) == 5  # with the drift of <v, v>


def test_constrained_motions_are_refused():
    """Their neighbours leave the distribution, which no field in its frame can say."""
    constrained = cn.ConstrainedConnection(systems.METRIC, lambda q: jnp.eye(3)[:, :2])
    for call in (
        lambda: cn.jacobi_field(constrained, [0.0] * 3, [1.0, 0.0], [0.0] * 2, [1.0, 0.0], TIMES),
        lambda: cn.conjugate_times(constrained, [0.0] * 3, [1.0, 0.0], 1.0),
        lambda: cn.geodesic_stability(constrained, [0.0] * 3, [1.0, 0.0], TIMES),
        lambda: cn.geodesic_flow(constrained, [0.0] * 3, [1.0, 0.0], TIMES),
        lambda: cn.transport_flow(constrained, [0.0] * 3, [1.0, 0.0], [1.0, 0.0], TIMES),
        lambda: cn.linearize(constrained, [0.0] * 3, [1.0, 0.0]),
        lambda: cn.affine.covariant_linearization(constrained, [0.0] * 3, [1.0, 0.0]),
    ):
        with pytest.raises(TypeError, match="full"):
            call()


# --- conjugate times of metrics ----------------------------------------------------------------------------


def unit(nabla, q, v):
    """v of unit length."""
    return v / np.sqrt(v @ np.asarray(nabla.metric.matrix(q)) @ v)


def test_the_three_sphere(rng):
    """At pi, 2 pi, 3 pi, each twice, where no determinant changes its sign; at any speed; at the very end."""
    q = np.array([0.5, 0.0, 0.0])
    v = unit(S3, q, rng.normal(size=3))
    found = cn.conjugate_times(S3, q, v, 10.0)
    assert isinstance(found, ConjugateTimes) and found.proven.all()
    np.testing.assert_allclose(found.times, np.pi * np.arange(1.0, 4.0), rtol=1e-9)
    assert found.multiplicities.tolist() == [2, 2, 2] and (found.index, found.nullity) == (6, 0)
    np.testing.assert_allclose(cn.conjugate_times(S3, q, 40.0 * v, 0.25).times, found.times / 40.0, rtol=1e-9)
    for end, index, nullity in ((np.pi, 0, 2), (np.pi * (1.0 - 1e-6), 0, 0), (np.pi * (1.0 + 1e-6), 2, 0)):
        found = cn.conjugate_times(S3, q, v, end)
        assert (found.index, found.nullity) == (index, nullity)
    resting = cn.conjugate_times(S3, q, 0.0 * v, 5.0)  # eta = t D_t eta(0)
    assert not len(resting.times) and "none" in repr(resting)


def test_the_plane_of_fields_stays_unitary(rng):
    """U U^* = 1 and U = U^T to round-off after five turns; integration alone errs a thousand times more."""
    q = np.array([0.5, 0.0, 0.0])
    v = unit(S3, q, rng.normal(size=3))
    arguments = Argument("q", q, (3,)), Argument("v", v, (3,)), Argument("omega", 1.0, ())
    flow = PytreePartial(lagrangian_plane._turning_flow, S3)
    real, imaginary, _ = Trajectories.of(S3).run("plane", flow, arguments, np.linspace(0.0, 30.0, 4))
    U = np.asarray(real) + 1j * np.asarray(imaginary)
    np.testing.assert_allclose(U @ np.conj(np.swapaxes(U, 1, 2)), [np.eye(3)] * 4, atol=1e-14)
    np.testing.assert_allclose(U, np.swapaxes(U, 1, 2), atol=1e-14)


def test_a_count_that_is_no_integer_is_refused(monkeypatch):
    """The integral of the angles and the angles themselves, off by a thousandth of a turn."""
    angles = np.array([[0.0, 0.0], [0.4, 3.0]])
    U = np.exp(1j * angles)[:, :, None] * np.eye(2)
    for error in (0.0, 1e-3):
        total = angles.sum(axis=1) + 2.0 * np.pi * (np.array([0.0, 3.0]) + error)
        monkeypatch.setattr(Trajectories, "run", lambda *_, t=total: (U.real, U.imag, t))
        if error:
            with pytest.raises(IntegrationError, match="no integer"):
                lagrangian_plane.turns(S3, np.zeros(3), np.ones(3), 1.0, np.array([0.0, 1.0]))
        else:
            found = lagrangian_plane.turns(S3, np.zeros(3), np.ones(3), 1.0, np.array([0.0, 1.0]))
            assert found.full.tolist() == [0, 3]


def test_conjugate_times_that_differ_are_told_apart():
    """Closer than 1e-8 of the whole time they are one, with both multiplicities; the last is the end."""
    found = _grouped(np.array([1.0, 1.0 + 1e-9, 1.0 + 1e-6, 2.0 - 1e-9]), 2.0)
    np.testing.assert_allclose(found.times, [1.0, 1.0 + 1e-6, 2.0], atol=1e-8)
    assert found.multiplicities.tolist() == [2, 1, 1] and (found.index, found.nullity) == (3, 1)


@pytest.mark.further
def test_two_close_conjugate_points():
    """On S^2 x S^2 with radii 1 and 1.005 they are 0.5 percent apart, and not taken for one."""
    q, v = np.array([0.5, 0.0, 0.1, 0.0]), np.array([1.0, 1.0, 1.0, 1.0])
    sizes = [2.0 * r * np.sqrt(2.0) / (1.0 + x**2) for r, x in zip(distances.RADII, (0.5, 0.1), strict=True)]
    v /= np.repeat(sizes, 2)  # unit speed in both factors
    found = cn.conjugate_times(TWO_SPHERES, q, v, 6.3)
    np.testing.assert_allclose(found.times, [np.pi, np.pi * 1.005, 2.0 * np.pi], rtol=1e-9)
    assert found.index == 3 and found.multiplicities.tolist() == [1, 1, 1]


def test_rotations_with_torsion_and_without():
    """At 2 pi, twice, for every member of the family, because their geodesics are the same; none if flat."""
    q, v = np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.6, 0.0, 0.8])
    found = [
        cn.conjugate_times(nabla, q, v, 7.0) for nabla in (systems.BI_INVARIANT_NABLA, systems.CARTAN_PLUS)
    ]
    for each in found:
        np.testing.assert_allclose(each.times, [2.0 * np.pi], rtol=1e-9)
        assert each.multiplicities.tolist() == [2]
    assert np.abs(systems.CARTAN_PLUS.curvature(q)).max() < 1e-14  # a control: its own R would say none


def ellipsoid_oracle(x, u, t_end):
    """Zeros of y'' + K y = 0, K the Gaussian curvature along a geodesic in R^3, by SciPy."""
    inverse = 1.0 / distances.AXES**2

    def rate(t, state):
        x, u, y, z = state[:3], state[3:6], state[6], state[7]
        normal = inverse * x
        K = np.prod(inverse) / (normal @ normal) ** 2
        return np.concatenate([u, -(u @ (inverse * u)) / (normal @ normal) * normal, [z, -K * y]])

    def zero(t, state):
        return state[6]

    state = np.concatenate([x, u, [0.0, 1.0]])
    solved = solve_ivp(rate, (0.0, t_end), state, "DOP853", events=zero, rtol=1e-12, atol=1e-12)
    return solved.t_events[0][solved.t_events[0] > 1e-3]


@pytest.mark.further
def test_an_ellipsoid(rng):
    space = distances.SPACES["ellipsoid"]().nabla
    q = np.array([0.4, -0.3])
    v = unit(space, q, rng.normal(size=2))
    x, u = jax.jvp(space.metric.embedding, (q,), (v,))
    expected = ellipsoid_oracle(np.asarray(x), np.asarray(u), 14.0)
    found = cn.conjugate_times(space, q, v, 14.0)
    assert len(expected) > 1 and found.index == len(expected)
    np.testing.assert_allclose(found.times, expected, rtol=1e-8)


@pytest.mark.further
def test_where_neighbours_separate_for_ever():
    """Fields that grow like exp(30) hide nothing: the plane is bounded."""
    assert cn.conjugate_times(systems.HALF_PLANE_NABLA, [0.0, 1.0], [1.0, 0.2], 30.0).index == 0


@pytest.mark.further
def test_one_factor_grows_while_another_turns():
    """The hyperbolic plane times a sphere: conjugate points of the sphere behind a growth by exp(20)."""
    nabla = cn.ProductConnection(systems.HALF_PLANE_NABLA, distances.sphere(2).nabla)
    v = np.array([1.5, 0.5, 0.0, 0.5 / 0.8])  # speeds sqrt(2.5) and 1
    v[3] = (1.0 + 0.25) / 2.0
    found = cn.conjugate_times(nabla, [0.0, 1.0, 0.5, 0.0], v, 13.0)
    np.testing.assert_allclose(found.times, np.pi * np.arange(1.0, 5.0), rtol=1e-8)


# --- conjugate times without a metric ----------------------------------------------------------------------


def oscillators(coupling):
    """qdot = v; x'' = 0, y'' = -x'^2 y, z'' = -x'^2 (z + coupling y): no metric is told."""

    def coefficients(q):
        return jnp.zeros((3, 3, 3)).at[1, 0, 0].set(q[1]).at[2, 0, 0].set(q[2] + coupling * q[1])

    return cn.CoefficientConnection(cn.CoordinateFrame(3), coefficients)


@pytest.mark.further
def test_without_a_metric():
    """A zero of even order is found, not taken for proven; its multiplicity is one if the factors couple."""
    q, v = np.array([0.3, 0.0, 0.0]), np.array([2.0, 0.0, 0.0])
    for coupling, multiplicity in ((0.0, 2), (1.0, 1)):
        found = cn.conjugate_times(oscillators(coupling), q, v, 2.0)
        assert np.abs(found.times[0] - np.pi / 2.0) <= found.errors[0] <= (1e-2 if coupling else 1e-7)
        assert found.multiplicities.tolist() == [multiplicity]
        assert not found.proven.any() and found.index is None


@pytest.mark.further
def test_an_odd_zero_is_proven():
    """The sphere's connection without its metric; at the end, too."""
    sphere = systems.SPHERE_ORTHONORMAL_NABLA
    bare = cn.CoefficientConnection(sphere.frame, sphere.coefficients_at)
    q, v = np.array([np.pi / 2.0, 0.2]), np.array([0.0, 1.0])
    found = cn.conjugate_times(bare, q, v, 7.0)
    np.testing.assert_allclose(found.times, [np.pi, 2.0 * np.pi], atol=3e-7)
    assert found.proven.all() and found.multiplicities.tolist() == [1, 1]
    assert cn.conjugate_times(bare, q, v, np.pi).nullity == 1
    assert not len(cn.conjugate_times(bare, q, v, 3.1).times)
    with pytest.raises(IntegrationError):
        cn.conjugate_times(bare, q, [1.0, 0.0], 2.0)  # through the pole


UNDECLARED = cn.ContorsionConnection(systems.METRIC, systems.ADMISSIBLE.contorsion_function)
PRODUCT = cn.ProductConnection(systems.LEVI_CIVITA, systems.GEODESICS_ONLY)


@pytest.mark.parametrize(
    ("nabla", "known"),
    [
        further(systems.ADMISSIBLE, True, id="member"),
        pytest.param(systems.METRIC_ONLY, False, id="other geodesics"),
        pytest.param(UNDECLARED, False, id="a symmetry that is not declared"),
        pytest.param(systems.METRIC_ONLY.change(systems.change_of_frame), False, id="changed, other"),
        pytest.param(cn.ProductConnection(systems.LEVI_CIVITA, GENERAL), False, id="one factor"),
        further(systems.GEODESICS_ONLY, True, id="same geodesics"),
        further(systems.LEVI_CIVITA.change(systems.change_of_frame), True, id="changed"),
        further(systems.ADMISSIBLE.change(systems.change_of_frame), True, id="changed member"),
        further(cn.torsion_free_part(systems.ADMISSIBLE), True, id="torsion-free part"),
        further(PRODUCT, True, id="product"),
    ],
)
def test_whose_geodesics_are_a_metrics(nabla, known):
    """By construction: then the Levi-Civita connection that is used has the same geodesics."""
    own = nabla.riemannian
    assert (own is not None) is known
    if known:
        q = np.full(own.frame.ambient_dim, 0.1)
        v = np.linspace(0.5, 1.0, own.frame.dim)
        np.testing.assert_allclose(own.apply(q, v, v), nabla.apply(q, v, v), atol=1e-12)
        assert own.check_torsion_free(q).ok and own.check_metric_compatible(q).ok


def test_bad_arguments():
    q, v = np.array([0.5, 0.0, 0.0]), np.array([1.0, 0.0, 0.0])
    with pytest.raises(ShapeError, match="q"):
        cn.conjugate_times(S3, np.stack([q, q]), v, 1.0)
    for end in (0.0, -1.0):
        with pytest.raises(ValueError, match="t_end"):
            cn.conjugate_times(S3, q, v, end)
    with pytest.raises(TypeError, match="JAX traces"):
        jax.jit(lambda p: cn.conjugate_times(S3, p, v, 1.0).times)(q)
    with pytest.raises(PointError, match="v"):
        cn.geodesic_stability(S3, q, 0.0 * v, TIMES)
    with pytest.raises(TypeError, match="metric"):
        cn.geodesic_stability(GENERAL, q, v, TIMES)
    line = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1)))
    with pytest.raises(ValueError, match="^geodesic_stability: a plane needs two dimensions"):
        cn.geodesic_stability(line, [0.0], [1.0], TIMES)


# --- stability ---------------------------------------------------------------------------------------------


def test_stability_in_the_half_plane():
    """Curvature -1; across, neighbours part by sinh(d) / d of the length d, along they do not."""
    q, v = np.array([0.2, 1.0]), np.array([0.4, 1.1])
    found = cn.geodesic_stability(systems.HALF_PLANE_NABLA, q, v, TIMES)
    d = np.linalg.norm(v) * TIMES[1:]
    np.testing.assert_allclose(found.curvature, -1.0, rtol=1e-9)
    np.testing.assert_allclose(found.stretch[0], 1.0)
    np.testing.assert_allclose(found.stretch[1:], np.stack([np.ones(3), np.sinh(d) / d], axis=1), rtol=1e-8)


@pytest.mark.further
def test_stability_of_closed_forms():
    q, v = np.array([[np.pi / 2, 0.2]] * 2), np.array([[0.0, 1.0], [0.6, 0.8]])
    found = cn.geodesic_stability(systems.SPHERE_ORTHONORMAL_NABLA, q, v, TIMES)
    assert isinstance(found, GeodesicStability) and found.stretch.shape == (2, 4, 2)
    np.testing.assert_allclose(found.curvature, 1.0, rtol=1e-9)
    np.testing.assert_allclose(found.stretch[:, :, 0], np.sinc(TIMES / np.pi)[None].repeat(2, 0), rtol=1e-9)
    np.testing.assert_allclose(found.stretch[:, :, 1], 1.0, rtol=1e-9)
    assert "curvature" in repr(found.member(0))


@pytest.mark.further
def test_stability_against_single_planes(start):
    """The extremes of the planes that contain v, one by one; a member has the metric's."""
    q, v, *_ = start
    metric, turns = systems.METRIC, np.linspace(0.0, np.pi, 241)
    found = cn.geodesic_stability(systems.ADMISSIBLE, q, v, TIMES)
    for row in (0, 3):
        at, speed = found.q[row], found.v[row]
        H = np.asarray(metric.matrix(at))
        across = np.linalg.svd((H @ speed)[None])[2][1:]  # orthogonal to v in the metric
        u = np.cos(turns)[:, None] * across[0] + np.sin(turns)[:, None] * across[1]
        planes = np.asarray(systems.LEVI_CIVITA.sectional(at, u, speed))
        np.testing.assert_allclose([planes.min(), planes.max()], found.curvature[row], rtol=2e-4)
    assert np.ptp(found.curvature[0]) > 1e-2
    # The stretch is that of Jacobi fields that begin at zero, in orthonormal components.
    field = cn.jacobi_field(systems.LEVI_CIVITA, q, v, np.zeros(3), np.eye(3), TIMES)
    roots = np.linalg.cholesky(np.asarray(metric.matrix(field.q[0][[0, -1]])))
    moved = roots[1].T @ np.asarray(field.eta[:, -1]).T @ np.linalg.inv(roots[0].T)
    sizes = np.linalg.svd(moved, compute_uv=False) / TIMES[-1]
    np.testing.assert_allclose(found.stretch[-1], sizes[[-1, 0]], rtol=1e-8)
    assert len(found.plot().axes) >= 4


@pytest.mark.further
def test_the_page():
    run_page("jacobi_fields.md", blocks=7)
