"""Ranks, symmetry and membership do not depend on the units of rows, columns and components."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from cases import further

import connections as cn
from connections.affine.koszul import bound_by_lengths, christoffel_terms
from connections.checks import Check, ConstraintError, FrameError, MetricError, PointError
from connections.geometry.numerics.scales import (
    balance,
    full_rank,
    independent,
    lengths_of,
    row_units,
    sizes_of_array,
    worst,
    worst_check,
)

Q = np.array([0.2, -0.3, 0.4])
PLANE = cn.CoordinateFrame(2)


def powers(rng, count):
    return 10.0 ** rng.integers(-9, 10, count)


def test_a_frame_keeps_its_rank_in_any_units(rng):
    """Rows and columns scaled by 1e-9 to 1e9: the rank of X is that of the frame."""
    for _ in range(20):
        c, a = powers(rng, 3), powers(rng, 3)
        frame = cn.MatrixFrame(lambda p, c=c, a=a: c[:, None] * systems.FRAME.matrix_at(p / c) * a, 3, 3)
        X = frame.matrix(Q * c) / (c[:, None] * a)
        np.testing.assert_allclose(X, systems.FRAME.matrix(Q), rtol=1e-13)


def test_a_column_next_to_its_pole_is_not_finite():
    """1 / x at x: a billionth of the coordinate changes it by half where the pole is two billionths away."""

    def fields(q):
        return jnp.array([[1.0, 0.0], [0.0, 1.0 / (q[0] - 1.0)]])

    for distance, regular in ((1e-10, False), (1e-9, False), (4e-9, True), (1e-6, True)):
        assert bool(independent(fields, jnp.array([1.0 + distance, 0.3]))) is regular, distance


def test_dependent_columns_stay_dependent_in_any_units(rng):
    M = rng.standard_normal((4, 3))
    M[:, 2] = M[:, 0] - 2.0 * M[:, 1]
    for _ in range(10):
        scaled = powers(rng, 4)[:, None] * M * powers(rng, 3)
        assert not full_rank(lambda q, S=scaled: jnp.asarray(S), jnp.zeros(1))
        assert full_rank(lambda q, S=scaled: jnp.asarray(S[:, :2]), jnp.zeros(1))


@pytest.mark.parametrize("small", [1.0, 1e-9, 1e9])
def test_round_off_in_place_of_a_zero_is_no_rank(small):
    """The second row is cos(pi/2) of its unit: its size does not say so, its change with q does."""
    frame = cn.MatrixFrame(lambda q: jnp.array([[1.0, 1.0], [0.0, small * jnp.cos(q[0])]]), 2, 2)
    frame.matrix([0.3, 0.0])
    with pytest.raises(FrameError, match="lost rank"):
        frame.matrix([np.pi / 2, 0.0])


def test_balancing_undoes_units(rng):
    M, c, a = rng.standard_normal((4, 3)), powers(rng, 4), powers(rng, 3)
    r, s = (np.asarray(x) for x in balance(jnp.asarray(M)))
    r_scaled, s_scaled = (np.asarray(x) for x in balance(jnp.asarray(c[:, None] * M * a)))
    expected, found = M / (r[:, None] * s), c[:, None] * M * a / (r_scaled[:, None] * s_scaled)
    assert np.abs(np.log2(found / expected)).max() < 1.0  # ranks are decided at 1e-7: a factor of two is near


def test_the_light_entries_of_a_metric_are_symmetric_too():
    """H_12 - H_21 beside (H_11 H_22)^(1/2): 1e-7 of it, and 1e-17 of the largest entry."""
    light = np.array([[1e-20, 3e-11], [3.0000003e-11, 1.0]])
    cn.ConstantMetric(PLANE, (light + light.T) / 2)
    with pytest.raises(MetricError, match="not symmetric"):
        cn.ConstantMetric(PLANE, light)
    with pytest.raises(MetricError, match="not symmetric"):
        cn.MatrixMetric(PLANE, lambda q: jnp.asarray(light)).matrix(np.zeros(2))


def test_a_positive_definite_matrix_of_bad_units_is_a_metric(rng):
    """cond(H) is 1e36 by units alone: its smallest eigenvalue is round-off of the largest, or negative."""
    root = rng.standard_normal((4, 4))
    H = root @ root.T + np.eye(4)
    a = np.array([1e-9, 1.0, 1e9, 1e3])
    scaled = cn.ConstantMetric(cn.CoordinateFrame(4), H * np.outer(a, a))
    np.testing.assert_allclose(scaled.matrix(np.zeros(4)) / np.outer(a, a), H, rtol=1e-14)
    indefinite = H - 1.01 * np.linalg.eigvalsh(H)[0] * np.eye(4)
    with pytest.raises(MetricError, match="positive definite"):
        cn.ConstantMetric(cn.CoordinateFrame(4), indefinite * np.outer(a, a))


def test_a_constant_metric_may_be_made_by_a_traced_function():
    def square(v):
        return cn.ConstantMetric(PLANE, np.diag([2.0, 3.0])).inner_at(v, v, v)

    v = jnp.array([0.3, -0.4])
    assert jax.jit(square)(v) == pytest.approx(0.66)
    with pytest.raises(MetricError, match="positive definite"):
        jax.jit(lambda v: cn.ConstantMetric(PLANE, np.diag([2.0, -3.0])).inner_at(v, v, v))(v)


@pytest.mark.parametrize("radius", [1e-9, 1.0, 1e9])
def test_a_point_of_a_sphere_of_any_radius(radius):
    def tangent(x):
        return systems._tangent_frame(x / radius)

    sphere = cn.MatrixFrame(tangent, 2, 3, project=lambda x: radius * x / jnp.linalg.norm(x))
    x = radius * np.array([0.48, 0.6, 0.64])
    sphere.matrix(x * (1.0 + 1e-8))
    with pytest.raises(PointError, match="off the manifold"):
        sphere.matrix(x * (1.0 + 1e-3))


def test_an_entry_below_a_trillionth_of_the_largest_has_no_size_of_its_own():
    x = 4.0 * np.array([1.0, -1.1e-12, 0.9e-12, 0.0])
    np.testing.assert_array_equal(sizes_of_array(x), [4.0, 4.4e-12, 4.0, 4.0])


@pytest.mark.further
@pytest.mark.parametrize("unit", [1e-9, *map(further, (1.0, 1e9))])
def test_brackets_that_leave_the_span_do_so_in_any_unit(unit):
    """d_x, d_y + x d_z, z in other units: [X, Y] = d_z."""

    def contact(q):
        return jnp.zeros((3, 2)).at[0, 0].set(1.0).at[1, 1].set(1.0).at[2, 1].set(unit * q[0])

    with pytest.raises(FrameError, match="leave its span"):
        cn.MatrixFrame(contact, 2, 3).structure_functions([0.5, 0.0, 0.0])


def test_an_inclusion_that_is_wrong_in_a_light_component_is_refused():
    """By a thousandth of the finger's velocity, in units in which that is 1e-12."""
    space = cn.ConstantMetric(PLANE, np.diag([40.0, 1e6]))
    line, embedding = cn.CoordinateFrame(1), lambda r: jnp.stack([r[0], 1e-9 * r[0]])
    cn.InducedMetric(space, line, lambda r: jnp.array([[1.0], [1e-9]]), embedding).matrix([0.1])
    with pytest.raises(FrameError, match="not the derivative"):
        cn.InducedMetric(space, line, lambda r: jnp.array([[1.0], [1.001e-9]]), embedding).matrix([0.1])


@pytest.mark.further
@pytest.mark.parametrize("unit", [further(1e-9), further(1.0), 1e9])
def test_constraints_in_any_units(unit):
    """A blade, the angle in other units: forms keep their rank, bases satisfy them or do not."""
    metric = cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([2.0, 2.0, 0.5 / unit**2]))
    s, c = lambda q: jnp.sin(q[2] / unit), lambda q: jnp.cos(q[2] / unit)
    forms = lambda q: jnp.stack([s(q), -c(q), 0.0 * q[2]])[None]  # noqa: E731
    good = lambda q: jnp.stack([jnp.stack([c(q), s(q), 0.0 * q[2]]), jnp.array([0.0, 0.0, unit])], axis=1)  # noqa: E731
    bad = lambda q: good(q).at[0, 1].set(1e-3)  # noqa: E731
    q = np.array([0.2, 0.1, 0.6 * unit])
    cn.ConstrainedConnection(metric, good, forms=forms).coefficients(q)
    basis = cn.ConstrainedConnection(metric, forms=forms).basis(q)
    plain = cn.ConstrainedConnection(
        cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([2.0, 2.0, 0.5])),
        forms=lambda q: jnp.stack([jnp.sin(q[2]), -jnp.cos(q[2]), 0.0 * q[2]])[None],
    )
    np.testing.assert_allclose(
        basis / np.array([[1.0], [1.0], [unit]]), plain.basis([0.2, 0.1, 0.6]), rtol=1e-9, atol=1e-12
    )
    with pytest.raises(ConstraintError, match="does not satisfy"):
        cn.ConstrainedConnection(metric, bad, forms=forms).coefficients(q)


# --- measurements -----------------------------------------------------------------------------------------

POLAR = cn.MatrixMetric(PLANE, lambda q: jnp.diag(jnp.stack([jnp.ones(()), q[0] ** 2])))  # q = (r, theta)


@pytest.mark.parametrize("scale", [2.0**-60, 1.0, 2.0**60])
def test_a_check_holds_up_to_its_tolerance_of_its_scale(scale):
    for tol in (2.0**-30, 0.5):
        for residual, ok in ((tol * scale, True), (np.nextafter(tol * scale, np.inf), False)):
            check = Check("a", float(residual), scale, tol)
            assert check.ok is ok and check.relative == residual / scale
            assert check.to_dict()["ok"] is ok


def test_a_check_of_nothing():
    assert Check("a", 0.0, 0.0, 1e-9).ok and Check("a", 0.0, 0.0, 1e-9).relative == 0.0
    assert not Check("a", 1e-300, 0.0, 1e-9).ok and Check("a", 1e-300, 0.0, 1e-9).relative == np.inf
    for residual, scale in ((np.nan, 1.0), (0.0, np.nan), (np.nan, 0.0)):
        check = Check("a", residual, scale, 1e-9)
        assert not check.ok and np.isnan(check.relative)


def test_the_worst_entry_is_the_one_that_is_off_most_beside_its_own_terms():
    residual, terms = jnp.array([[-3.0, 2e-6], [0.0, 5.0]]), jnp.array([[10.0, 4e-6], [1e3, 20.0]])
    assert worst(residual, terms) == (2e-6, 4e-6)
    assert worst(residual, jnp.asarray(10.0)) == (5.0, 10.0)
    assert worst(0.0 * residual, terms) == (0.0, 1e3)
    assert np.isnan(worst(residual.at[1, 0].set(jnp.nan), terms)[0])
    assert worst(jnp.array([1.0, 1e-30]), jnp.array([1.0, 0.0])) == (1e-30, 0.0)  # beside nothing at all
    assert worst_check("a", (residual, terms), 0.6) == Check("a", 2e-6, 4e-6, 0.6)


@pytest.mark.parametrize("r", [1e-3, 0.7, 1e3])
def test_terms_of_the_polar_plane_and_what_is_allowed_where_there_are_none(r):
    """L_r H_tt = 2 r is the only derivative; rho_r = 1 / r and rho_t = 1, so all is 3 u_i u_j u_k / (2 r)."""
    u = np.array([1.0, r])
    expected = 1e-4 * 1.5 / r * np.einsum("i,j,k->ijk", u, u, u)
    for entry in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        expected[entry] += r
    np.testing.assert_allclose(christoffel_terms(POLAR, jnp.array([r, 0.3])), expected, rtol=1e-13)


@pytest.mark.parametrize(("part", "ok"), [(0.8, True), (1.25, False)])
@pytest.mark.parametrize("r", [further(1e-3), further(0.7), 1e3])
def test_checks_turn_where_a_residual_is_the_tolerance_of_its_terms(r, part, ok):
    """One entry of Gamma is off, by a part of tol times the terms that are subtracted there."""
    q, tol = np.array([r, 0.3]), 1e-7

    def off(entry, by):
        exact = cn.LeviCivita(POLAR).coefficients_at
        return cn.CoefficientConnection(PLANE, lambda p: exact(p).at[entry].add(part * tol * by))

    # T^t_rt = 1 / r - 1 / r
    assert off((1, 0, 1), 2.0 / r).check_torsion_free(q, tol).ok is ok
    # D_rtt: r of this connection less r of the metric's
    assert off((0, 1, 1), 2.0 * r).check_same_geodesics(q, POLAR, tol).ok is ok
    # Q_ttr = L_r H_tt - 2 Gamma_trt = 2 r - 2 r, and the terms of the metric have 2 r
    assert off((1, 0, 1), 2.0 / r).check_metric_compatible(q, POLAR, tol).ok is ok
    # Gamma_rrr has no terms: 1e-4 of what the lengths allow, 3 / (2 r) of this connection and of the metric
    assert off((0, 0, 0), 1e-4 * 3.0 / r).check_metric_compatible(q, POLAR, tol).ok is ok


def test_row_units_are_the_nearest_powers_of_a_million():
    """Rows 1 to 1e-13 times as large, each its own column: only what differs by a thousand or more counts."""
    sizes = np.array([1.0, 1e-2, 10.0**-2.9, 10.0**-3.1, 1e-7, 10.0**-8.9, 10.0**-9.1, 1e-13])
    found = np.asarray(row_units(jnp.asarray(sizes[:, None] * np.array([[1.0, 1.0]]))))
    np.testing.assert_allclose(found, [1, 1, 1, 1e-6, 1e-6, 1e-6, 1e-12, 1e-12], rtol=1e-12)


def test_what_lengths_allow_by_loops(rng):
    """Three directions with rates of their own: each entry is half the sum of three products."""
    terms, u = rng.uniform(0.1, 1.0, (3, 3, 3)), np.array([2.0, 0.5, 3.0])
    terms *= np.array([1.0, 10.0, 0.1])[None, :, None]
    rates = [max(terms[i, k, j] / (u[i] * u[j]) for i in range(3) for j in range(3)) for k in range(3)]
    expected = np.zeros((3, 3, 3))
    for i, j, k in np.ndindex(3, 3, 3):
        parts = rates[k] * u[i] * u[j], rates[j] * u[i] * u[k], rates[i] * u[j] * u[k]
        expected[i, j, k] = sum(parts) / 2.0
    np.testing.assert_allclose(bound_by_lengths(jnp.asarray(terms), jnp.asarray(u)), expected, rtol=1e-13)
    nothing = bound_by_lengths(jnp.asarray(terms), jnp.array([2.0, 0.0, 3.0]))
    assert np.isfinite(nothing).all() and np.all(nothing[1, 1] == 0.0)


def test_the_terms_of_christoffel_symbols_have_a_floor():
    """In a frame that turns, with a metric that changes: all six terms, and 1e-4 of what lengths allow."""

    def matrix(q):
        return jnp.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 4.0]]) * jnp.exp(q[0])

    def fields(q):
        return jnp.eye(3).at[2, 1].set(q[0])

    metric = cn.MatrixMetric(cn.MatrixFrame(fields, 3, 3), matrix)
    q = jnp.array([0.3, -0.4, 0.2])
    H, s = np.abs(metric.matrix_at(q)), np.asarray(jax.jit(metric.frame.structure_terms_at)(q))
    dH, low = np.asarray(jax.jit(metric.derivative_terms_at)(q)), np.einsum("kl,lij->kij", H, s)
    sums = np.zeros((3, 3, 3))
    for i, j, k in np.ndindex(3, 3, 3):
        sums[i, j, k] = (
            dH[k, i, j] + dH[j, i, k] + dH[i, j, k] + low[k, i, j] + low[j, i, k] + low[i, j, k]
        ) / 2.0
    found = np.asarray(jax.jit(lambda q: christoffel_terms(metric, q))(q))
    allowed = np.asarray(bound_by_lengths(jnp.asarray(found), lengths_of(jnp.asarray(H))))
    np.testing.assert_allclose(found - sums, 1e-4 * allowed, rtol=2e-3, atol=1e-14)
    assert np.min(found) > 0.0 and np.min(sums) == 0.0


@pytest.mark.further
def test_the_terms_of_a_metric_that_is_constant_but_for_round_off():
    """A cylinder in space: its H does not change, but the factors of which H is made do."""

    def cylinder(q):
        return jnp.stack([jnp.cos(q[0] + 0.3 * q[1]), jnp.sin(q[0] + 0.3 * q[1]), q[1]])

    space = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 2))
    flat = cn.CoefficientConnection(PLANE, lambda q: jnp.zeros((2, 2, 2)))
    for metric in (
        cn.PullbackMetric(PLANE, cylinder),
        cn.InducedMetric(space, PLANE, jax.jacfwd(cylinder), cylinder),
    ):
        slopes = np.abs([jax.jacfwd(metric.matrix_at)(q) for q in points[:5]])
        assert 0.0 < slopes.max() < 1e-15
        assert flat.check_metric_compatible(points, metric).ok
