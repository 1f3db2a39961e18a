"""Spatial algebra against Featherstone's definitions, clouds of mass points and the Koszul formula."""

import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from scipy.spatial.transform import Rotation

import connections as cn
from connections.geometry.rigid import rotations, twists
from connections.multibody.definition import spatial
from connections.multibody.inertia import body_inertia

TOL = 1e-12


def cloud(rng, points=7):
    """Masses and positions of mass points, and the mass, centre and central inertia of the whole."""
    masses, positions = rng.uniform(0.2, 2.0, points), rng.standard_normal((points, 3))
    mass, center = masses.sum(), masses @ positions / masses.sum()
    inertia = -sum(
        m * oracles.hat(p - center) @ oracles.hat(p - center) for m, p in zip(masses, positions, strict=True)
    )
    return masses, positions, mass, center, inertia


def spatial_inertia(mass, center, inertia, rotation=None):
    return body_inertia("body", mass, center, inertia, rotation).matrix


@pytest.fixture
def body(rng):
    _, _, mass, center, inertia = cloud(rng)
    return spatial_inertia(mass, center, inertia)


def close(a, b, tol=TOL):
    return np.max(np.abs(np.asarray(a) - np.asarray(b))) <= tol * (1.0 + np.max(np.abs(b)))


def test_cross_products_have_featherstones_blocks(rng):
    v, w, f = rng.standard_normal((3, 6))
    assert close(rotations.skew(v[:3]) @ w[:3], np.cross(v[:3], w[:3]))
    assert close(twists.motion_cross_matrix(v), oracles.motion_cross_matrix(v))
    assert close(twists.force_cross_matrix(v), -oracles.motion_cross_matrix(v).T)
    assert close(twists.motion_cross(v, w), oracles.motion_cross_matrix(v) @ w)
    assert close(twists.force_cross(v, f), -oracles.motion_cross_matrix(v).T @ f)


def test_force_bar_cross_is_defined_by_swapping(rng):
    v, f = rng.standard_normal((2, 6))
    assert close(twists.force_bar_cross_matrix(f) @ v, twists.force_cross_matrix(v) @ f)
    assert not close(
        twists.force_cross_matrix(f) @ v, twists.force_cross_matrix(v) @ f, 1e-2
    )  # negative control


def test_jacobi_identity_of_twists(rng):
    u, v = rng.standard_normal((2, 6))
    bracket = twists.motion_cross(u, v)
    left = twists.motion_cross_matrix(u) @ twists.motion_cross_matrix(v) - twists.motion_cross_matrix(
        v
    ) @ twists.motion_cross_matrix(u)
    assert close(left, twists.motion_cross_matrix(bracket))
    assert close(
        twists.motion_cross_matrix(v), jnp.einsum("kij,i->kj", cn.SE3Frame().structure_functions_at(None), v)
    )


def test_inertia_is_the_sum_over_mass_points(rng):
    masses, positions, mass, center, inertia = cloud(rng)
    summed = sum(
        m * np.hstack([-oracles.hat(p), np.eye(3)]).T @ np.hstack([-oracles.hat(p), np.eye(3)])
        for m, p in zip(masses, positions, strict=True)
    )
    assert close(spatial_inertia(mass, center, inertia), summed)
    R = Rotation.random(random_state=3).as_matrix()
    assert close(spatial_inertia(mass, center, R.T @ inertia @ R, R), summed)
    assert not close(spatial_inertia(mass, -center, inertia), summed, 1e-2)  # negative control


def test_adjoint_moves_twists_and_inertias(rng):
    _, _, mass, center, inertia = cloud(rng)
    R, p = Rotation.random(random_state=5).as_matrix(), rng.standard_normal(3)
    X = twists.adjoint(R, p)
    v = rng.standard_normal(6)
    moved = np.concatenate([R @ v[:3], R @ v[3:] + np.cross(p, R @ v[:3])])
    assert close(X @ v, moved)
    in_a = spatial_inertia(mass, R @ center + p, R @ inertia @ R.T)
    assert close(X.T @ in_a @ X, spatial_inertia(mass, center, inertia))
    w = rng.standard_normal(6)
    assert close(X @ twists.motion_cross(v, w), twists.motion_cross(X @ v, X @ w))


def test_both_forms_of_the_body_coriolis_matrix_agree(body, rng):
    v = rng.standard_normal(6)
    C = spatial.body_coriolis(body, v)
    assert close(spatial.body_coriolis_blocks(body, v), C)
    assert close(C, -C.T)  # H is constant in the body frame
    assert close(C @ v, twists.force_cross_matrix(v) @ body @ v)
    assert close(spatial.body_factor(body, v) + body @ twists.motion_cross_matrix(v), C)
    unstructured = jnp.asarray(oracles.random_spd(rng, 6))  # negative control: not an inertia
    assert not close(
        spatial.body_coriolis_blocks(unstructured, v), spatial.body_coriolis(unstructured, v), 1e-2
    )


def test_body_factor_is_twelve_numbers(body, rng):
    B = np.asarray(spatial.body_factor(body, rng.standard_normal(6)))
    assert not B[:, 3:].any()
    assert close(B[3:, :3], -B[3:, :3].T)
    assert np.max(np.abs(B[:3, :3] + B[:3, :3].T)) > 1e-2  # negative control: the upper block is not skew


def test_sigma_is_the_second_moment_of_mass(rng):
    masses, positions, mass, center, inertia = cloud(rng)
    second = np.einsum("n,na,nb->ab", masses, positions, positions)
    assert close(spatial.sigma(spatial_inertia(mass, center, inertia)), second)


def test_koszul_on_se3_gives_the_body_coriolis_matrix(body, rng):
    metric = cn.ConstantMetric(cn.SE3Frame(), np.asarray(body))
    q, v = oracles.random_pose(rng), rng.standard_normal(6)
    C = cn.coriolis_matrix(cn.LeviCivita(metric), q, v, metric)
    assert close(C, spatial.body_coriolis(body, v))
    assert not close(
        C, twists.force_cross_matrix(v) @ body, 1e-2
    )  # negative control: the factor with torsion


def test_batch_axes(rng):
    _, _, mass, center, inertia = cloud(rng)
    inertias = np.tile(spatial_inertia(mass, center, inertia), (2, 1, 1, 1))
    v = rng.standard_normal((2, 3, 6))
    for function in (spatial.body_coriolis, spatial.body_coriolis_blocks, spatial.body_factor):
        together = function(inertias, jnp.asarray(v))
        assert together.shape == (2, 3, 6, 6)
        assert close(together[1, 2], function(inertias[1, 0], jnp.asarray(v[1, 2])))


def test_quaternions_against_scipy(rng):
    a, b = oracles.random_quaternion(rng, 2)
    product = (Rotation.from_quat(a) * Rotation.from_quat(b)).as_matrix()
    assert close(rotations.rotation_matrix(rotations.quaternion_product(a, b)), product)
    assert close(rotations.rotation_matrix(a) @ rotations.rotation_matrix(b), product)
    swapped = rotations.rotation_matrix(rotations.quaternion_product(b, a))
    assert not close(swapped, product, 1e-2)  # negative control
