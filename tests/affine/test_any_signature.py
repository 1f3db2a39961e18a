"""Metrics of any signature: symbols, curvature, geodesics; what needs a definite metric refuses them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pages import run_page
from scipy.linalg import expm
from scipy.special import ellipk, ellipkinc

import connections as cn
from connections import affine, control, interop
from connections.checks import MetricError, NonFiniteError

FOUR = cn.CoordinateFrame(4)
MINKOWSKI = cn.ConstantMetric(FOUR, np.diag([-1.0, 1.0, 1.0, 1.0]), (3, 1))
OUTSIDE = np.array([0.4, 6.0, 1.1, 0.3])


def schwarzschild(sign=1.0):
    """A black hole of mass one in t, r, colatitude and longitude; g_rr of a wrong sign is no solution."""

    def H(q):
        f, g = 1.0 - 2.0 / q[1], 1.0 - sign * 2.0 / q[1]
        return jnp.diag(jnp.array([-f, 1.0 / g, q[1] ** 2, (q[1] * jnp.sin(q[2])) ** 2]))

    return cn.LeviCivita(cn.MatrixMetric(FOUR, H, signature=(3, 1)))


HOLE = schwarzschild()


def in_the_plane(r, rates):
    """q and v in the plane of the equator, at the radius r, with the rates of t, r and longitude."""
    return np.array([0.0, r, np.pi / 2, 0.0]), np.array([rates[0], rates[1], 0.0, rates[2]])


def conserved(q, v):
    """Energy and angular momentum of a geodesic around the hole."""
    return (1.0 - 2.0 / q[..., 1]) * v[..., 0], (q[..., 1] * np.sin(q[..., 2])) ** 2 * v[..., 3]


# --- a black hole ------------------------------------------------------------------------------------------


def test_symbols_and_curvature_of_a_black_hole():
    """Symbols by hand; Ric = 0; R_abcd R^abcd = 48 / r^6."""
    r, theta = OUTSIDE[1:3]
    f, Gamma = 1.0 - 2.0 / r, np.zeros((4, 4, 4))
    Gamma[0, 0, 1] = Gamma[0, 1, 0] = 1.0 / (r * r * f)
    Gamma[1, 0, 0], Gamma[1, 1, 1], Gamma[1, 2, 2] = f / r**2, -1.0 / (r * r * f), -r * f
    Gamma[1, 3, 3] = -r * f * np.sin(theta) ** 2
    Gamma[2, 1, 2] = Gamma[2, 2, 1] = Gamma[3, 1, 3] = Gamma[3, 3, 1] = 1.0 / r
    Gamma[2, 3, 3], Gamma[3, 2, 3] = -np.sin(theta) * np.cos(theta), 1.0 / np.tan(theta)
    Gamma[3, 3, 2] = Gamma[3, 2, 3]
    np.testing.assert_allclose(HOLE.coefficients(OUTSIDE), Gamma, atol=1e-14)
    assert np.abs(HOLE.ricci(OUTSIDE)).max() < 1e-9
    assert abs(HOLE.scalar_curvature(OUTSIDE)) < 1e-12
    H, R = HOLE.metric.matrix(OUTSIDE), HOLE.curvature(OUTSIDE)
    low, high = np.einsum("al,lkij->akij", H, R), np.linalg.inv(H)
    square = np.einsum("lkij,kb,ic,jd,lbcd->", R, high, high, high, low)
    np.testing.assert_allclose(square, 48.0 / r**6, rtol=1e-12)
    assert np.abs(schwarzschild(-1.0).ricci(OUTSIDE)).max() > 1e-2
    assert HOLE.check_torsion_free(OUTSIDE).ok
    assert HOLE.check_metric_compatible(OUTSIDE).ok
    assert not HOLE.check_metric_compatible(OUTSIDE, MINKOWSKI).ok


def test_curvature_of_a_black_hole_does_not_depend_on_the_frame():
    """In a tetrad, whose matrix is constant and whose fields do not commute; and in kilometres."""

    def tetrad(q):
        root = jnp.sqrt(1.0 - 2.0 / q[1])
        return jnp.diag(jnp.array([1.0 / root, root, 1.0 / q[1], 1.0 / (q[1] * jnp.sin(q[2]))]))

    changed = HOLE.metric.change(tetrad)
    np.testing.assert_allclose(changed.matrix(OUTSIDE), MINKOWSKI.H, atol=1e-15)
    nabla = cn.LeviCivita(changed)
    other = cn.LeviCivita(cn.ConstantMetric(FOUR.change(tetrad), MINKOWSKI.H, (3, 1)))
    Gamma = HOLE.change(tetrad).coefficients(OUTSIDE)
    for each in (nabla, other):
        np.testing.assert_allclose(each.coefficients(OUTSIDE), Gamma, atol=1e-14)
        assert np.abs(each.ricci(OUTSIDE)).max() < 1e-9
    # <R(e_0, e_1) e_1, e_0> over the area -1: tides stretch by 2 / r^3, and compress by half as much.
    K = [nabla.sectional(OUTSIDE, np.eye(4)[i], np.eye(4)[j]) for i, j in ((0, 1), (0, 2), (1, 2), (2, 3))]
    np.testing.assert_allclose(np.array(K) * OUTSIDE[1] ** 3, [2.0, -1.0, -1.0, 2.0], rtol=1e-12)


def test_light_stays_at_its_circle_and_matter_conserves_energy_and_spin():
    """r = 3 is the circle of light, on which <v, v> = 0; the drift is a part of its terms."""
    q, v = in_the_plane(3.0, (np.sqrt(3.0), 0.0, 1.0 / 3.0))
    motion = cn.geodesic(HOLE, q, v, np.linspace(0.0, 6.0, 4))
    assert np.abs(motion.q[:, 1] - 3.0).max() < 1e-9
    np.testing.assert_allclose(motion.q[:, 3], np.linspace(0.0, 2.0, 4), rtol=1e-9, atol=1e-12)
    assert motion.drift.max() < 1e-10
    assert np.abs(HOLE.metric.inner(motion.q, motion.v, motion.v)).max() < 1e-9
    # A circle of light at another radius is none.
    q, v = in_the_plane(4.0, (np.sqrt(2.0), 0.0, 1.0 / 4.0))
    assert abs(HOLE.metric.inner(q, v, v)) < 1e-15
    assert cn.exponential(HOLE, q, v)[1] > 4.01
    # Out of the plane of the equator.
    q, v = np.array([0.0, 12.0, 1.2, 0.0]), np.array([1.2, -0.1, 0.02, 0.025])
    motion = cn.geodesic(HOLE, q, v, [0.0, 40.0, 80.0])
    for value in conserved(motion.q, motion.v):
        np.testing.assert_allclose(value, value[0], rtol=1e-9)


def roots_of(L, E, mass=1.0):
    """u_1 < u_2 < u_3 with (du / dphi)^2 = 2 (u - u_1) (u - u_2) (u - u_3), u = 1 / r; mass 0 is light."""
    return np.sort(np.roots([2.0, -1.0, 2.0 * mass / L**2, (E**2 - mass) / L**2]).real)


def test_the_perihelion_turns_by_an_elliptic_integral():
    """One turn is 4 K(m) / (2 (u_3 - u_1))^(1/2), m = (u_2 - u_1) / (u_3 - u_1), not 2 pi."""
    r, L = 10.0, 4.2
    E = np.sqrt((1.0 - 2.0 / r) * (1.0 + (L / r) ** 2))
    a, b, c = roots_of(L, E)
    whole = 4.0 * ellipk((b - a) / (c - a)) / np.sqrt(2.0 * (c - a))
    assert abs(1.0 / b - r) < 1e-9  # it begins in the perihelion
    q, v = in_the_plane(r, (E / (1.0 - 2.0 / r), 0.0, L / r**2))

    def back(t, q, v):
        return v[1]

    back.terminal, back.direction = True, 1.0
    motion = cn.geodesic(HOLE, q, v, [0.0, 2000.0], events=back)
    (turned,) = motion.event_states[0][0][:, 3]
    assert abs(turned - whole) < 1e-8
    assert whole - 2.0 * np.pi > 1.0


def test_light_is_bent_by_an_elliptic_integral():
    """From the least radius to r = 60; without the mass, light goes straight."""
    r, end = 8.0, 60.0
    q, v = in_the_plane(r, (1.0 / (1.0 - 2.0 / r), 0.0, 1.0 / (r * np.sqrt(1.0 - 2.0 / r))))
    E, L = conserved(q, v)
    a, b, c = roots_of(L, E, 0.0)
    m, reached = (b - a) / (c - a), np.arcsin(np.sqrt((1.0 / end - a) / (b - a)))
    angle = 2.0 * (ellipk(m) - ellipkinc(reached, m)) / np.sqrt(2.0 * (c - a))

    def far(t, q, v):
        return q[1] - end

    far.terminal = True
    motion = cn.geodesic(HOLE, q, v, [0.0, 200.0], events=far)
    (turned,) = motion.event_states[0][0][:, 3]
    assert abs(turned - angle) < 1e-9
    assert angle - np.arccos(r / end) > 0.2


# --- constant curvature -----------------------------------------------------------------------------------


def de_sitter(q):
    """The expanding flat slices of the pseudosphere -x_0^2 + x_1^2 + ... = 1."""
    return jnp.diag(jnp.array([-1.0, *[jnp.exp(2.0 * q[0])] * 3]))


def anti_de_sitter(q):
    """t and rho of -x_0^2 - x_1^2 + x_2^2 = -1."""
    return jnp.diag(jnp.array([-(jnp.cosh(q[1]) ** 2), 1.0]))


def test_de_sitter_has_constant_curvature(rng):
    """R(X, Y) Z = <Y, Z> X - <X, Z> Y, also where <X, X> = 0; its negative for anti-de Sitter."""
    q, points = rng.standard_normal(4), rng.standard_normal((3, 4))
    for nabla, K, at in (
        (cn.LeviCivita(cn.MatrixMetric(FOUR, de_sitter, signature=(3, 1))), 1.0, q),
        (
            cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), anti_de_sitter, signature=(1, 1))),
            -1.0,
            q[:2],
        ),
    ):
        n = nabla.frame.dim
        X, Y, Z = points[:, :n]
        H = np.asarray(nabla.metric.matrix(at))
        expected = K * ((Y @ H @ Z) * X - (X @ H @ Z) * Y)
        np.testing.assert_allclose(nabla.apply_curvature(at, X, Y, Z), expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(nabla.ricci(at), K * (n - 1) * H, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(nabla.scalar_curvature(at), K * n * (n - 1), rtol=1e-10)
        np.testing.assert_allclose(nabla.sectional(at, X, Y), K, rtol=1e-9)
        null = np.eye(n)[0] * np.sqrt(H[1, 1]) + np.eye(n)[1] * np.sqrt(-H[0, 0])
        np.testing.assert_allclose(nabla.sectional(at, null, Y), K, rtol=1e-9)
    with pytest.raises(ValueError, match="degenerate"):
        cn.LeviCivita(MINKOWSKI).sectional(q, [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0])


def test_geodesics_of_the_pseudosphere_are_plane_sections(rng):
    """x(s) = x cosh s + x' sinh s along time, cos and sin along space, a straight line if <v, v> = 0."""

    def place(q):
        t, rest = q[0], q[1:]
        square = jnp.exp(t) * (rest @ rest) / 2.0
        return jnp.concatenate([jnp.array([jnp.sinh(t) + square, jnp.cosh(t) - square]), jnp.exp(t) * rest])

    metric = cn.MatrixMetric(FOUR, de_sitter, signature=(3, 1))
    flat = np.diag([-1.0, 1.0, 1.0, 1.0, 1.0])
    q = jnp.asarray(0.2 * rng.standard_normal(4))
    J = jax.jacfwd(place)(q)
    np.testing.assert_allclose(J.T @ flat @ J, metric.matrix(q), atol=1e-14)
    times = np.linspace(0.0, 0.6, 3)
    for v, even, odd in (
        (np.eye(4)[0], np.cosh, np.sinh),
        (np.exp(-q[0]) * np.eye(4)[1], np.cos, np.sin),
        (np.array([1.0, 0.0, np.exp(-q[0]), 0.0]), np.ones_like, lambda s: s),
    ):
        motion = cn.geodesic(cn.LeviCivita(metric), q, v, times)
        found, start = jax.vmap(place)(motion.q), place(q)
        expected = np.outer(even(times), start) + np.outer(odd(times), J @ v)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert np.max(motion.drift) < 1e-11


def test_conjugate_times_without_a_definite_metric():
    """Particles in anti-de Sitter's space meet after pi; no Morse index, because lengths are no minimum."""
    nabla = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), anti_de_sitter, signature=(1, 1)))
    found = cn.conjugate_times(nabla, [0.0, 0.0], [1.0, 0.0], 4.0)
    np.testing.assert_allclose(found.times, np.pi, atol=1e-7)
    assert found.index is None and found.proven.all()
    assert not len(cn.conjugate_times(nabla, [0.0, 0.0], [0.0, 1.0], 4.0).times)


def test_a_definite_space_in_an_indefinite_one():
    """The hyperboloid in Minkowski's space is the hyperbolic plane, by its metric and by Gauss's formula."""
    flat = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([-1.0, 1.0, 1.0]), (2, 1)))

    def place(q):
        return jnp.array([jnp.cosh(q[0]), jnp.sinh(q[0]) * jnp.cos(q[1]), jnp.sinh(q[0]) * jnp.sin(q[1])])

    plane, q = cn.CoordinateFrame(2), np.array([0.7, 0.4])
    nabla = cn.InducedConnection(flat, flat.metric, plane, jax.jacfwd(place), place)
    np.testing.assert_allclose(nabla.metric.matrix(q), np.diag([1.0, np.sinh(0.7) ** 2]), atol=1e-15)
    np.testing.assert_allclose(nabla.sectional(q, [1.0, 0.0], [0.3, 1.0]), -1.0, rtol=1e-12)
    np.testing.assert_allclose(nabla.coefficients(q), cn.LeviCivita(nabla.metric).coefficients(q), atol=1e-14)


# --- groups, products, frames of null vectors -------------------------------------------------------------


def test_killings_form_of_a_group():
    """On SL(2), (2, 1); nabla_X Y = [X, Y] / 2, Ric = -K / 4, and subgroups are geodesics."""
    basis = np.array([[[1.0, 0.0], [0.0, -1.0]], [[0.0, 1.0], [1.0, 0.0]], [[0.0, -1.0], [1.0, 0.0]]]) / 2.0
    group = cn.MatrixLieGroup(basis)
    K = np.diag([2.0, 2.0, -2.0])  # 4 tr(X Y)
    nabla, e = cn.LeviCivita(cn.ConstantMetric(group, K, (2, 1))), np.eye(2).ravel()
    s = np.asarray(group.structure_functions(e))
    np.testing.assert_allclose(np.einsum("kil,ljk->ij", s, s), K, atol=1e-14)  # tr(ad_X ad_Y)
    np.testing.assert_allclose(nabla.coefficients(e), s / 2.0, atol=1e-15)
    np.testing.assert_allclose(nabla.ricci(e), -K / 4.0, atol=1e-14)
    v = np.array([0.4, 0.3, 0.5])  # <v, v> = 0
    end = cn.geodesic(nabla, e, v, [0.0, 1.5]).q[-1].reshape(2, 2)
    np.testing.assert_allclose(end, expm(1.5 * np.tensordot(v, basis, 1)), atol=1e-10)


def test_products_and_frames_of_null_vectors():
    """dt^2 and a sphere; du dv, whose diagonal is zero; in units that differ by 1e9."""
    sphere = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.diag(jnp.array([1.0, jnp.sin(q[0]) ** 2])))
    time = cn.ConstantMetric(cn.CoordinateFrame(1), [[-1.0]], (0, 1))
    static = cn.ProductMetric(time, sphere)
    assert static.signature == (2, 1) and cn.ProductMetric(sphere, sphere).signature is None
    nabla, q = cn.LeviCivita(static), np.array([0.0, np.pi / 2, 0.0])
    motion = cn.geodesic(nabla, q, [1.0, 0.0, 1.0], [0.0, 1.0, 2.0])  # light round the equator
    np.testing.assert_allclose(motion.q[-1], [2.0, np.pi / 2, 2.0], atol=1e-10)
    np.testing.assert_allclose(nabla.scalar_curvature(q), 2.0, rtol=1e-12)
    # -dt^2 + dx^2 over x^2, with u = t - x, v = (t + x) / unit
    plane, unit = cn.CoordinateFrame(2), 1e9

    def H(q):
        return -2.0 * unit / (unit * q[1] - q[0]) ** 2 * jnp.array([[0.0, 1.0], [1.0, 0.0]])

    null, at = cn.LeviCivita(cn.MatrixMetric(plane, H, signature=(1, 1))), np.array([-1.0, 1.0 / unit])
    np.testing.assert_allclose(null.sectional(at, [1.0, 0.0], [0.0, 1.0]), -1.0, rtol=1e-12)
    motion = cn.geodesic(null, at, [[0.3, 0.0], [1.0, 1.0 / unit]], [0.0, 0.5])
    assert motion.q[0, -1, 1] == at[1] and motion.q[0, -1, 0] > at[0]  # light, to one side
    # A particle at rest at x = 1, when t = 0, falls along x^2 - t^2 = 1.
    t, x = (unit * motion.q[1, -1, 1] + np.array([1.0, -1.0]) * motion.q[1, -1, 0]) / 2.0
    assert t > 0.4
    np.testing.assert_allclose(x * x - t * t, 1.0, rtol=1e-9)


def test_transport_and_fields_along_geodesics_keep_products():
    """Inner products of carried vectors stay; torsion changes neither them nor the geodesics."""
    q, v = in_the_plane(8.0, (1.3, -0.1, 0.04))
    u, w = np.array([[0.3, 0.1, 0.02, 0.05], [1.0, 0.4, 0.0, -0.02]])
    eps = np.zeros((4, 4, 4))
    for sign, (i, j, k) in ((1, (0, 1, 3)), (-1, (0, 3, 1))):
        for turned in ((i, j, k), (j, k, i), (k, i, j)):
            eps[turned] = sign
    twisted = cn.ContorsionConnection(HOLE.metric, lambda q: q[1] * jnp.asarray(eps), "admissible")

    def line(t):
        return jnp.stack([t, 8.0 - 0.1 * t, 1.3 + 0.0 * t, 0.05 * t])

    ends = []
    for nabla in (HOLE, twisted):
        a, b = np.swapaxes(cn.parallel_transport(nabla, line, np.stack([u, w]), [0.0, 20.0]), 0, 1)[-1]
        product = HOLE.metric.inner(line(20.0), a, b)
        np.testing.assert_allclose(product, HOLE.metric.inner(line(0.0), u, w), rtol=1e-9)
        ends.append(cn.geodesic(nabla, q, v, [0.0, 20.0]).q[-1])
    assert np.abs(a - u).max() > 1e-3
    np.testing.assert_allclose(*ends, rtol=1e-9)


def test_geodesics_inside_jit_are_the_same():
    q, v = in_the_plane(3.0, (np.sqrt(3.0), 0.0, 1.0 / 3.0))
    end = jax.jit(lambda v: cn.exponential(HOLE, q, v))(v)
    np.testing.assert_allclose(end, [np.sqrt(3.0), 3.0, np.pi / 2, 1.0 / 3.0], rtol=1e-10)


# --- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda g, q: cn.distance(g, q, q),
        lambda g, q: cn.mean(g, [q, q]),
        lambda g, q: cn.MechanicalSystem(g),
        lambda g, q: cn.decompose(cn.LeviCivita(g), g, q),
        lambda g, q: cn.ConstrainedConnection(g, lambda q: jnp.eye(4)[:, :2]),
        lambda g, q: cn.connection_from_coriolis(g, lambda q, v: jnp.eye(4)),
        lambda g, q: affine.SpannedDistribution(g, lambda q: jnp.eye(4)[:, :2]),
        lambda g, q: cn.geodesic_stability(cn.LeviCivita(g), q, np.eye(4)[0], [0.0, 1.0]),
        lambda g, q: interop.to_geomstats(cn.LeviCivita(g)),
        lambda g, q: control.submanifold_reference(g.frame, lambda q: q[:1], 1.0, metric=g),
    ],
)
def test_what_needs_a_definite_metric_refuses_another(call):
    with pytest.raises(MetricError, match=r"definite.*\(3, 1\)"):
        call(MINKOWSKI, OUTSIDE)


def test_a_wrong_signature_names_the_point():
    turns = cn.MatrixMetric(
        cn.CoordinateFrame(2), lambda q: jnp.diag(jnp.array([-1.0, q[0]])), signature=(1, 1)
    )
    np.testing.assert_allclose(turns.matrix([2.0, 0.0]), np.diag([-1.0, 2.0]))
    np.testing.assert_allclose(turns.matrix([1e-30, 0.0]), np.diag([-1.0, 1e-30]))  # a unit, not degenerate
    for x, words in ((-1.0, r"\(0, 2\)"), (0.0, "1 eigenvalues of zero")):
        with pytest.raises(MetricError, match=words + r".*not \(1, 1\).*q = \["):
            turns.matrix([[2.0, 0.0], [x, 0.3]])
    with pytest.raises(NonFiniteError, match="q = "):
        HOLE.coefficients([0.0, 2.0, 1.0, 0.0])
    with pytest.raises(MetricError, match="symmetric"):
        cn.MatrixMetric(turns.frame, lambda q: jnp.array([[0.0, 1.0], [1.1, 0.0]]), signature=(1, 1)).matrix(
            [0.0, 0.0]
        )
    with pytest.raises(MetricError, match=r"\(3, 1\), not \(1, 3\)"):
        cn.ConstantMetric(FOUR, MINKOWSKI.H, (1, 3))
    assert cn.ConstantMetric(FOUR, np.eye(4), (4, 0)).signature is None


@pytest.mark.parametrize("signature", [(3, 2), (4, 1), (-1, 5), (5, -1)])
def test_counts_that_do_not_add_up_are_no_signature(signature):
    with pytest.raises(ValueError, match="signature"):
        cn.MatrixMetric(FOUR, lambda q: jnp.eye(4), signature=signature)


@pytest.mark.parametrize("signature", ["lorentzian", 1, (3.0, 1.0), (4,), (True, 3), -1])
def test_other_objects_are_no_signature(signature):
    with pytest.raises(TypeError, match="signature"):
        cn.ConstantMetric(FOUR, MINKOWSKI.H, signature)


@pytest.mark.further
def test_the_page():
    run_page("spacetimes.md", blocks=2)
