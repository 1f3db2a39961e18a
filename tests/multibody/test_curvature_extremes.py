"""Extreme sectional curvatures: attained by planes, within proven bounds, equal to closed forms."""

import jax
import numpy as np
import pytest
import zarr
from cases import further

from connections import multibody as mb
from connections.sweeps import run_sweep, table_sweep


@pytest.fixture(scope="module")
def arm():
    return mb.example("arm")


@pytest.fixture(scope="module")
def found(arm):
    q = arm.random(np.random.default_rng(2))
    return q, mb.curvatures.extreme_sectional_curvatures(arm, np.stack([q, q + 0.3]))


def random_planes(H, rng, count):
    """(count, n, 2), orthonormal in H."""
    planes = rng.standard_normal((count, len(H), 2))
    root = np.linalg.cholesky(H)
    return np.linalg.solve(root.T, np.linalg.qr(root.T @ planes)[0])


def test_the_planes_attain_the_curvatures(arm, found):
    """`sectional_curvature` of the planes that are returned, which are orthonormal in H."""
    q, extremes = found
    points = np.stack([q, q + 0.3])
    H = mb.mass_matrix(arm, points)
    for plane, value in (
        (extremes.least_plane, extremes.least),
        (extremes.greatest_plane, extremes.greatest),
    ):
        np.testing.assert_allclose(np.swapaxes(plane, 1, 2) @ H @ plane, [np.eye(2)] * 2, atol=1e-12)
        own = mb.curvatures.sectional_curvature(arm, points, plane[..., 0], plane[..., 1])
        np.testing.assert_allclose(own, value, rtol=1e-10)
    np.testing.assert_allclose(extremes.scalar, mb.curvatures.scalar_curvature(arm, points), rtol=1e-9)


def test_all_other_planes_are_within(arm, found, rng):
    """Planes at random, and planes next to the best ones; control: another posture's are not."""
    q, extremes = found
    H, (least, greatest) = mb.mass_matrix(arm, q), (extremes.least[0], extremes.greatest[0])
    planes = random_planes(H, rng, 400)
    values = mb.curvatures.sectional_curvature(arm, q, planes[..., 0], planes[..., 1])
    assert least < values.min() and values.max() < greatest
    assert extremes.lower[0] <= least and greatest <= extremes.upper[0]
    for plane, value, sign in (
        (extremes.least_plane[0], least, -1.0),
        (extremes.greatest_plane[0], greatest, 1.0),
    ):
        near = plane + 1e-3 * planes
        beside = mb.curvatures.sectional_curvature(arm, q, near[..., 0], near[..., 1])
        assert np.all(sign * beside < sign * value) and np.abs(beside - value).max() < 0.01 * abs(value)
    elsewhere = mb.curvatures.extreme_sectional_curvatures(arm, q + np.array([0.0, 0.0, 1.2, 0.0, 0.0, 0.0]))
    assert not (elsewhere.lower <= least and greatest <= elsewhere.upper)


@pytest.mark.parametrize("moments", [(0.5, 0.7, 0.9), (1.0, 1.1, 1.2)], ids=["of both signs", "positive"])
def test_three_moments_of_inertia(moments):
    """Milnor's principal curvatures; with three velocities every bivector is a plane: bounds are attained."""
    mechanism, moments = mb.Mechanism(), np.array(moments)
    mechanism.add_body("body", mass=1.0, center_of_mass=np.zeros(3), inertia=np.diag(moments))
    mechanism.add_joint("joint", "world", "body", mb.Spherical())
    body = mechanism.build()
    lengths = moments / np.sqrt(np.prod(moments))
    mu = lengths.sum() / 2.0 - lengths
    planes = [lengths[k] * mu[k] - mu[i] * mu[j] for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1))]
    found = mb.curvatures.extreme_sectional_curvatures(body, [0.0, 0.0, 0.0, 1.0])
    for value, expected in zip(found[:2] + found[4:6], (min(planes), max(planes)) * 2, strict=True):
        assert value == pytest.approx(expected, rel=1e-12)
    assert found.scalar == pytest.approx(2.0 * sum(planes), rel=1e-12)
    assert found.least_plane.shape == (3, 2)


@pytest.mark.parametrize("starts", [60, further(400)])
def test_more_starts_find_nothing_better(arm, found, rng, starts):
    """Alternating eigenvectors from planes at random, from R itself."""
    q, extremes = found
    H, R = mb.mass_matrix(arm, q), mb.curvatures.curvature(arm, q)
    for sign, best in ((-1.0, extremes.least[0]), (1.0, extremes.greatest[0])):
        found_values = []
        for u, _ in np.moveaxis(random_planes(H, rng, starts), 2, 1):
            for _ in range(40):
                K = sign * np.einsum("ijkl,j,l->ik", R, u, u)
                root = np.linalg.cholesky(H)
                inverse = np.linalg.inv(root)
                x = root.T @ u
                values, vectors = np.linalg.eigh(inverse @ K @ inverse.T - 1e3 * np.outer(x, x))
                u = inverse.T @ vectors[:, -1]
            found_values.append(sign * values[-1])
        assert sign * best >= np.max(sign * np.array(found_values)) - 1e-9 * abs(best)


def test_shapes_and_bad_arguments(arm):
    q = arm.neutral()
    many = mb.curvatures.extreme_sectional_curvatures(arm, np.broadcast_to(q, (2, 3, 6)))
    assert many.least.shape == (2, 3) and many.greatest_plane.shape == (2, 3, 6, 2)
    assert mb.curvatures.extreme_sectional_curvatures(arm, np.zeros((0, 6))).least_plane.shape == (0, 6, 2)
    with pytest.raises(TypeError, match="JAX traces"):
        jax.jit(lambda p: mb.curvatures.extreme_sectional_curvatures(arm, p).least)(q)
    mechanism = mb.Mechanism()
    mechanism.add_body("body", mass=1.0, center_of_mass=(0.1, 0.0, 0.0), inertia=np.eye(3))
    mechanism.add_joint("joint", "world", "body", mb.Revolute((0.0, 0.0, 1.0)))
    with pytest.raises(ValueError, match="^extreme_sectional_curvatures: a plane needs two velocities"):
        mb.curvatures.extreme_sectional_curvatures(mechanism.build(), [0.1])


def test_a_sweep(arm, tmp_path):
    sweep = table_sweep(arm, ["curvatures"], rows=5, chunk=3, seed=1)
    run_sweep(sweep, tmp_path / "curved.zarr", workers=0)
    store = zarr.open_group(tmp_path / "curved.zarr", mode="r")
    expected = mb.curvatures.extreme_sectional_curvatures(arm, store["q"][:3])
    np.testing.assert_array_equal(store["sectional_greatest_plane"][:3], expected.greatest_plane)
    np.testing.assert_array_equal(store["scalar_curvature"][:3], expected.scalar)
