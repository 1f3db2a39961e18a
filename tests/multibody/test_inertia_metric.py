"""Pseudo-inertias as a manifold: neither the body's frame nor the unit of length changes its geometry."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.checks import PointError
from connections.control import with_payload
from connections.multibody.inertia import inertia_of

METRIC = mb.inertia_metric()
TO_CENTIMETRES = np.array([1.0, *[1e2] * 3, *[1e4] * 6])  # of the parameters


def moved(parameters, rotation, position):
    """The bodies about another frame, by the parallel axis theorem; rows (N, 10)."""
    bodies = [inertia_of(row).seen_from(rotation, position) for row in parameters]
    entries = np.tril_indices(3)
    return np.stack([[body.mass, *body.first_moment, *body.rotational[entries]] for body in bodies])


@pytest.fixture(scope="module")
def arm():
    return mb.inertial_parameters(mb.example("arm"))


@pytest.fixture(scope="module")
def loaded():
    return mb.inertial_parameters(with_payload(mb.example("arm"), "tool", 2.0, (0.05, 0.0, 0.1)))


def test_second_moment_of_point_masses(rng):
    """P = sum m (x, 1) (x, 1)^T, and back to the parameters of the masses. Control: without the ones."""
    m, x = rng.uniform(0.5, 2.0, 6), rng.standard_normal((6, 3))
    ones = np.hstack([x, np.ones((6, 1))])
    P = np.einsum("k,ka,kb->ab", m, ones, ones)
    inertia = np.einsum(
        "k,kab->ab", m, (x**2).sum(axis=1)[:, None, None] * np.eye(3) - x[:, :, None] * x[:, None]
    )
    expected = np.array([m.sum(), *(m @ x), *inertia[np.tril_indices(3)]])
    np.testing.assert_allclose(METRIC.coordinates(P), expected, rtol=1e-12)
    np.testing.assert_allclose(METRIC.matrices(expected), P, rtol=1e-12)
    ones[:, 3] = 0.0
    assert np.abs(METRIC.coordinates(np.einsum("k,ka,kb->ab", m, ones, ones)) - expected).max() > 0.1


def test_neither_frame_nor_unit_changes_the_geometry(arm, loaded):
    """Distance, divergence, mean and geodesic in a turned and moved frame, and in centimetres."""
    rotation, position = Rotation.from_rotvec([0.4, -1.1, 0.3]).as_matrix(), np.array([0.3, -0.5, 0.2])
    points = np.stack([arm[-1], loaded[-1], arm[-2]])
    for other in (moved(points, rotation, position), points * TO_CENTIMETRES):
        np.testing.assert_allclose(METRIC.distance(*other[:2]), METRIC.distance(*points[:2]), rtol=1e-9)
        np.testing.assert_allclose(METRIC.divergence(*other[:2]), METRIC.divergence(*points[:2]), rtol=1e-9)
        gap = np.linalg.norm(other[1] - other[0]) / np.linalg.norm(points[1] - points[0])
        assert abs(gap - 1.0) > 0.05  # negative control: the distance of parameters does change
    there = moved(METRIC.mean(points)[None], rotation, position)[0]
    np.testing.assert_allclose(
        METRIC.mean(moved(points, rotation, position)), there, atol=1e-10 * np.abs(there).max()
    )
    middle = METRIC.geodesic(*points[:2], 0.4) * TO_CENTIMETRES
    np.testing.assert_allclose(
        METRIC.geodesic(*(points[:2] * TO_CENTIMETRES), 0.4), middle, atol=1e-10 * np.abs(middle).max()
    )


def test_dual_of_the_regressor(rng):
    """S entry by entry, and tr(S dP) = a . dpi. Control: without the halves off the diagonal."""
    a = rng.standard_normal(10)
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = a
    S = np.array(
        [
            [yy + zz, -xy / 2, -xz / 2, hx / 2],
            [-xy / 2, xx + zz, -yz / 2, hy / 2],
            [-xz / 2, -yz / 2, xx + yy, hz / 2],
            [hx / 2, hy / 2, hz / 2, m],
        ]
    )
    np.testing.assert_allclose(METRIC.dual(a), S, atol=1e-14)
    change = rng.standard_normal(10)
    np.testing.assert_allclose(np.sum(S * METRIC.matrices(change)), a @ change, rtol=1e-12)
    assert np.abs(2.0 * S - np.diag(np.diag(S)) - METRIC.dual(a)).max() > 0.1


def test_bodies_with_a_singular_inertia_are_no_points(arm):
    """A point mass away from the origin, and a rod; the error says which row."""
    point = np.array([2.0, 0.1, 0.0, 0.2, 0.02, 0.0, 0.025, -0.01, 0.0, 0.005])
    assert np.linalg.matrix_rank(METRIC.matrices(point)) == 1
    rod = np.array([1.0, 0.0, 0.0, 0.0, 0.02, 0.0, 0.02, 0.0, 0.0, 0.0])
    for singular in (point, rod):
        with pytest.raises(PointError, match=r"q\[1\]: P is not positive definite"):
            METRIC.distance(arm[0], np.stack([arm[1], singular]))
