"""Sensitivities of a robot's free motions and of transport along them, against motions that SciPy integrates.

A ball and a hinge: qdot != v, brackets. The connection is by recursion, its first derivatives too.
"""

from operator import attrgetter

import numpy as np
import pytest
from cases import always
from mechanisms import configuration_rate, move, normalized, random_body, random_placement
from scipy.integrate import solve_ivp

import connections as cn
from connections import multibody as mb

DURATION, STEP = 0.6, 1e-2
OFFSETS, WEIGHTS = (-2.0, -1.0, 1.0, 2.0), np.array([1.0, -8.0, 8.0, -1.0]) / 12.0


@pytest.fixture(scope="module")
def arm():
    rng = np.random.default_rng(3)
    mechanism = mb.Mechanism()
    for name in ("upper", "lower"):
        mechanism.add_body(name, **random_body(rng))
    mechanism.add_joint("shoulder", "world", "upper", mb.Spherical())
    mechanism.add_joint("elbow", "upper", "lower", mb.Revolute((0.2, 1, 0)), random_placement(rng))
    return mechanism.build(gravity=(0.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def start(arm):
    """q, v and a vector to transport."""
    rng = np.random.default_rng(4)
    return arm.random(rng), *rng.standard_normal((2, arm.nv))


def motion(arm, q, v, z):
    """(q, v, z) after a free motion: qdot = X v, vdot = -H^-1 C v, zdot = -H^-1 C z."""

    def rate(t, state):
        q, v, z = normalized(arm, state[: arm.nq]), *np.split(state[arm.nq :], 2)
        turned = np.linalg.solve(mb.mass_matrix(arm, q), mb.coriolis_product(arm, q, v, z))
        return np.concatenate(
            [configuration_rate(arm, q, v), mb.forward_dynamics(arm, q, v, 0.0 * v), -turned]
        )

    state = solve_ivp(rate, (0.0, DURATION), np.concatenate([q, v, z]), "DOP853", rtol=1e-12, atol=1e-12)
    end = state.y[:, -1]
    return end[: arm.nq], *np.split(end[arm.nq :], 2)


@pytest.fixture(scope="module")
def differences(arm, start):
    """Fourth-order differences (3 n, 2 n) of where the motion ends: along the frame, of v and of z."""
    q, v, z = start
    end, n, columns = motion(arm, q, v, z), arm.nv, []
    for direction in np.eye(2 * n):
        changes = []
        for size in STEP * np.array(OFFSETS):
            moved = motion(arm, move(arm, q, size * direction[:n]), v + size * direction[n:], z)
            away = mb.difference(arm, end[0], moved[0])
            changes.append(np.concatenate([away, moved[1] - end[1], moved[2] - end[2]]))
        columns.append(WEIGHTS @ np.array(changes) / STEP)
    return np.array(columns).T


@pytest.mark.further
def test_flow_and_logarithm(arm, start, differences):
    """Phi; the volume that Liouville's theorem keeps; the way back from the end point to v."""
    q, v, _ = start
    n, nabla = arm.nv, arm.connection
    points, _, Phi = map(np.asarray, cn.geodesic_flow(nabla, q, v, np.array([0.0, DURATION])))
    assert np.max(np.abs(Phi[-1] - differences[: 2 * n])) < 1e-7 * np.max(np.abs(differences))
    H = np.linalg.det(mb.mass_matrix(arm, points))
    assert np.linalg.det(Phi[-1]) == pytest.approx(H[0] / H[1], rel=1e-8)
    assert abs(H[0] / H[1] - 1.0) > 1e-2  # control: a determinant of one is not the theorem
    np.testing.assert_allclose(cn.logarithm(nabla, q, points[-1]), DURATION * v, atol=1e-8)


@pytest.mark.further
def test_jacobi_field(arm, start, differences):
    """The same differences in a direction (eta, dv); without torsion, D_t eta = dv + Gamma(eta, v)."""
    q, v, eta = start
    deta = np.array([0.3, -0.2, 0.5, 0.4])
    turned = np.linalg.solve(mb.mass_matrix(arm, q), mb.coriolis_product(arm, q, eta, v))
    field = cn.jacobi_field(arm.connection, q, v, eta, deta, np.array([0.0, DURATION]))
    change = differences[: 2 * arm.nv] @ np.concatenate([eta, deta - turned])
    np.testing.assert_allclose(field.eta[-1], change[: arm.nv], atol=1e-6)
    carried = np.linalg.solve(
        mb.mass_matrix(arm, field.q[-1]), mb.coriolis_product(arm, field.q[-1], field.eta[-1], field.v[-1])
    )
    np.testing.assert_allclose(field.deta[-1], change[arm.nv :] + carried, atol=1e-6)
    assert np.abs(turned).max() > 1e-2  # a control: dv is not D_t eta


@pytest.fixture(scope="module")
def ball():
    """H = 0.8: all rotations by 2 pi end at one point, and every plane has the curvature 1 / (4 * 0.8)."""
    mechanism = mb.Mechanism()
    mechanism.add_body("ball", mass=1.0, center_of_mass=np.zeros(3), inertia=0.8 * np.eye(3))
    mechanism.add_joint("joint", "world", "ball", mb.Spherical())
    return mechanism.build()


@pytest.mark.further
@pytest.mark.parametrize("which", always(("connection", "definition.connection"), "connection"))
def test_conjugate_times_of_a_ball(ball, which):
    nabla, q, v = attrgetter(which)(ball), np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.6, 0.0, 0.8])
    found = cn.conjugate_times(nabla, q, v, 7.0)
    np.testing.assert_allclose(found.times, [2.0 * np.pi], rtol=1e-9)
    assert found.multiplicities.tolist() == [2] and found.index == 2


@pytest.mark.further
def test_stability_of_a_ball(ball):
    """eta = 2 sin(t / 2) D_t eta(0), so the stretch is sin(t / 2) / (t / 2)."""
    times = np.linspace(0.0, 3.0, 4)
    found = cn.geodesic_stability(ball.connection, [0.0, 0.0, 0.0, 1.0], [0.6, 0.0, 0.8], times)
    np.testing.assert_allclose(found.curvature, 1.0 / 3.2, rtol=1e-9)
    np.testing.assert_allclose(found.stretch[:, 0], np.sinc(times / 2.0 / np.pi), rtol=1e-9)


def test_transport_flow(arm, start, differences):
    q, v, z = start
    points, vectors, Z = map(
        np.asarray, cn.transport_flow(arm.connection, q, v, z, np.array([0.0, DURATION]))
    )
    end = motion(arm, q, v, z)
    np.testing.assert_allclose(points[-1], end[0], atol=1e-9)
    np.testing.assert_allclose(vectors[-1], end[2], atol=1e-9)
    expected = differences[2 * arm.nv :]
    assert np.max(np.abs(Z[-1] - expected)) < 1e-7 * np.max(np.abs(differences))
    assert np.max(np.abs(Z[0] - expected)) > 1e-2  # control: as if the vector had not moved
    assert np.max(np.abs(expected)) > 1e-2 * np.max(np.abs(differences))  # not because it is small
