"""Geodesics between configurations by recursions: the exponential, derivatives, conjugate points, errors."""

import numpy as np
import pytest
from mechanisms import MOVING, armed, assemble

import connections as cn
from connections import multibody as mb
from connections.affine.logarithms.conjugate import free_of_conjugate_points
from connections.affine.logarithms.shooting import TIGHT
from connections.checks import ConvergenceError, MetricError, ModelError, PointError, ShapeError
from connections.multibody.logarithms import _Shots


def tree(rng):
    """All types of joints, with branches and armature; the first one is free."""
    kinds = (mb.Free, *(kind for kind in MOVING if kind is not mb.Free))
    return armed(assemble(rng, kinds, [-1, 0, 1, 1, 3, 0, 5, 6]), rng)


def away(model, rng, size):
    """Two configurations, `size` apart in the largest component."""
    q0, xi = model.random(rng), rng.uniform(-1.0, 1.0, model.nv)
    return q0, mb.displace(model, q0, size * xi)


def ball(inertia):
    mechanism = mb.Mechanism()
    mechanism.add_body("ball", 1.0, (0, 0, 0), inertia)
    mechanism.add_joint("turns", "world", "ball", mb.Spherical())
    return mechanism.build()


def end_of(model, q0, v):
    """exp_q0(v) by the motion's own steps."""
    return cn.geodesic(model.connection, q0, v, [0.0, 1.0])[0][-1]


def test_the_exponential_takes_it_back(rng):
    model = tree(rng)
    q0, q1 = away(model, rng, 0.4)
    found = mb.logarithm(model, q0, q1)
    np.testing.assert_allclose(mb.difference(model, end_of(model, q0, found.v), q1), 0.0, atol=1e-9)
    H = mb.mass_matrix(model, q0)
    assert found.length == pytest.approx(np.sqrt(found.v @ H @ found.v), rel=1e-12)
    assert found.missed <= 1e-10 * found.length
    line = mb.difference(model, q0, q1)
    assert np.abs(mb.difference(model, end_of(model, q0, line), q1)).max() > 1e-2  # it is another velocity


def test_derivatives_of_the_end_are_differences(rng):
    """Brackets of spherical and free joints, dtau/dq and dtau/dv: one direction for all of them."""
    model = tree(rng)
    q0, q1 = away(model, rng, 0.4)
    search, x, h = _Shots(model, q0, q1), rng.standard_normal(model.nv), 1e-5
    w = search.w
    J = search._shot(w, TIGHT, True).J
    ahead, behind = (search._shot(w + s * x, TIGHT).q for s in (h, -h))
    slope = mb.difference(model, behind, ahead) / (2.0 * h)
    np.testing.assert_allclose(J @ x, slope, atol=1e-7 * np.abs(slope).max())
    assert np.abs(search.basis @ x - slope).max() > 0.01 * np.abs(slope).max()  # not that of a flat space


@pytest.mark.further
def test_it_is_the_logarithm_of_the_connection(rng):
    arm = assemble(rng, (mb.Revolute, mb.Revolute), [-1, 0])
    q0, q1 = np.array([0.2, 0.4]), np.array([1.0, -0.5])
    np.testing.assert_allclose(
        mb.logarithm(arm, q0, q1).v, cn.logarithm(arm.connection, q0, q1), rtol=1e-9, atol=1e-9
    )


def test_neighbouring_curves_have_more_energy(rng):
    """Of a geodesic without conjugate points, in all directions; of the straight line, in some only."""
    model = assemble(rng, (mb.Revolute,) * 3, [-1, 0, 1])
    q0, q1 = away(model, rng, 1.5)
    v = mb.logarithm(model, q0, q1).v
    x, weights = np.polynomial.legendre.leggauss(16)
    s, weights = 0.5 + 0.5 * x, 0.5 * weights
    q, q_dot = cn.geodesic(model.connection, q0, v, np.concatenate([[0.0], s]))
    bends = np.pi * np.array([1.0, 2.0, 3.0])
    waves, rates = np.sin(s[:, None] * bends), bends * np.cos(s[:, None] * bends)

    def energy(q, q_dot):
        return 0.5 * weights @ np.einsum("sij,si,sj->s", mb.mass_matrix(model, q), q_dot, q_dot)

    least = []
    for base, rate in ((q[1:], q_dot[1:]), (q0 + s[:, None] * (q1 - q0), np.tile(q1 - q0, (16, 1)))):
        changes = []
        for a in rng.standard_normal((20, 3, 3)) * 1e-3:
            changes.append(energy(base + waves @ a, rate + rates @ a) - energy(base, rate))
        least.append(min(changes))
    assert least[0] > 0.0 > least[1]


def test_a_conjugate_point_of_even_multiplicity_is_noticed():
    """Of a ball, d exp loses two ranks after a full turn: its determinant does not change its sign."""
    model = ball(np.eye(3) * 0.1)
    search, axis = _Shots(model, model.neutral(), model.random(0)), np.array([0.0, 0.6, 0.8])
    for turn, free in ((1.9 * np.pi, True), (2.1 * np.pi, False)):
        shot = search._shot(search._root @ axis * turn, TIGHT, True, True)
        assert shot.ok and np.linalg.det(shot.J) > 0.0
        assert free_of_conjugate_points(shot.pieces, 1)[0] == free


@pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")
def test_what_passes_a_conjugate_point_is_no_logarithm():
    """Turns about an axis of symmetry: two neighbours meet them after 2 pi I_1 / I_3 rad."""
    model, first = ball(np.diag([0.04, 0.04, 0.1])), 0.8 * np.pi
    turned = [mb.displace(model, model.neutral(), [0.0, 0.0, first + off]) for off in (-0.01, 0.01)]
    v = mb.logarithm(model, model.neutral(), turned[0]).v
    np.testing.assert_allclose(v, [0.0, 0.0, first - 0.01], atol=1e-9)
    with pytest.raises(ConvergenceError, match=r"^logarithm: .* passes a conjugate point"):
        mb.logarithm(model, model.neutral(), turned[1])


def test_what_is_found_from_the_other_end_is_turned_round():
    arm = mb.example("arm")
    q0, q1 = arm.random(94), arm.random(95)
    assert _Shots(arm, q0, q1).run(back=True)  # the way there alone is not found
    v = mb.logarithm(arm, q0, q1).v
    np.testing.assert_allclose(end_of(arm, q0, v), q1, atol=1e-8)


def test_rows_signs_of_quaternions_and_equal_points(rng):
    model = assemble(rng, (mb.Free, mb.Revolute), [-1, 0])
    q0, q1 = away(model, rng, 0.3)
    mirrored = q1.copy()
    mirrored[3:7] *= -1.0
    found = mb.logarithm(model, q0, np.stack([[q1, mirrored], [q0, q1]]))
    assert found.v.shape == (2, 2, model.nv) and found.length.shape == found.missed.shape == (2, 2)
    one = mb.logarithm(model, q0, q1).v
    np.testing.assert_allclose(found.v, [[one, one], [0.0 * one, one]], atol=1e-9)
    assert found.length[1, 0] == found.missed[1, 0] == 0.0
    assert mb.logarithm(model, np.zeros((0, model.nq)), q1).v.shape == (0, model.nv)


def test_what_cannot_be_searched_is_refused(rng):
    arm = mb.example("arm")
    with pytest.raises(ModelError, match="closed loops"):
        mb.logarithm(mb.example("four_bar"), [0.1], [0.2])
    with pytest.raises(ShapeError, match="^q1"):
        mb.logarithm(arm, arm.neutral(), np.zeros(5))
    model = ball(np.eye(3))
    with pytest.raises(PointError, match="^q1: joint 'turns': quaternion"):
        mb.logarithm(model, model.neutral(), [0.0, 0.0, 0.0, 1.1])
    rod = ball(np.diag([0.1, 0.1, 0.0]))
    with pytest.raises(MetricError, match="singular along joint 'turns'"):
        mb.logarithm(rod, rod.neutral(), [0.6, 0.0, 0.0, 0.8])
