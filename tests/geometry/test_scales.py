"""Ranks, symmetry and membership do not depend on the units of rows, columns and components."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems

import connections as cn
from connections.checks import ConstraintError, FrameError, MetricError, PointError
from connections.geometry.scales import balance, full_rank

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


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
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


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
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
