"""The body-level factors of the recursions' kernels, and the identities of [W] (26) to (28)."""

import jax
import numpy as np
import pytest
from mechanisms import assemble, move
from oracles import force_cross_matrix, motion_cross_matrix, rigid_body_coriolis, rigid_body_inertia

from connections import multibody as mb
from connections.engines.inlined import twists
from connections.multibody.kernels import algebra

TOL = 1e-13


@pytest.fixture
def body(rng):
    """A spatial inertia (6, 6) and the ten numbers that the kernels keep of it."""
    moments = np.diag(rng.uniform(0.5, 0.9, 3)) + 0.05
    inertia = rigid_body_inertia(rng.uniform(1.0, 3.0), rng.standard_normal(3), moments)
    rows, columns = np.array([[5, 2, 0, 1, 0, 0, 0, 1, 1, 2], [5, 4, 5, 3, 0, 1, 2, 1, 2, 2]])
    return inertia, tuple(inertia[rows, columns])


def column(function, *arguments):
    """A kernel's result as an array, from arrays; run by Python."""
    return np.array(function.py_func(*(tuple(map(float, argument)) for argument in arguments)))


def factor_matrix(inertia, v):
    """B(I, v) (6, 6) as the kernel applies it to unit twists."""
    B = algebra.body_factor.py_func(inertia, tuple(v))
    return np.column_stack([column(algebra.factor_times, B, e) for e in np.eye(6)])


def test_spatial_products(body, rng):
    matrix, numbers = body
    v, w = rng.standard_normal((2, 6))
    np.testing.assert_allclose(column(twists.motion_cross, v, w), motion_cross_matrix(v) @ w, atol=TOL)
    np.testing.assert_allclose(column(twists.force_cross, v, w), force_cross_matrix(v) @ w, atol=TOL)
    np.testing.assert_allclose(column(algebra.momentum, numbers, v), matrix @ v, atol=TOL)
    assert np.max(np.abs(column(twists.motion_cross, w, v) - motion_cross_matrix(v) @ w)) > 1e-2


def test_body_factor(body, rng):
    """B = C_body - I (v x) with C_body of (19); twelve numbers; its transpose."""
    matrix, numbers = body
    v, w = rng.standard_normal((2, 6))
    B = factor_matrix(numbers, v)
    np.testing.assert_allclose(B, rigid_body_coriolis(matrix, v) - matrix @ motion_cross_matrix(v), atol=TOL)
    np.testing.assert_array_equal(B[:, 3:], 0.0)
    np.testing.assert_allclose(B[3:, :3], -B[3:, :3].T, atol=TOL)
    twelve = algebra.body_factor.py_func(numbers, tuple(v))
    np.testing.assert_allclose(column(algebra.factor_transpose_times, twelve, w), (B.T @ w)[:3], atol=TOL)
    assert np.max(np.abs(B @ w - B.T @ w)) > 1e-2  # negative control


def test_contorsion_of_the_two_factors(body, rng):
    """N = B(I, v) - (v x*) I, skew in the two twists it takes, and totally antisymmetric with v."""
    matrix, numbers = body
    u, v, w = rng.standard_normal((3, 6))

    def N(v):
        factor = algebra.contorsion_factor.py_func(numbers, tuple(v))
        return np.column_stack([column(algebra.contorsion_times, factor, e) for e in np.eye(6)])

    np.testing.assert_allclose(N(v), factor_matrix(numbers, v) - force_cross_matrix(v) @ matrix, atol=TOL)
    np.testing.assert_allclose(N(v), -N(v).T, atol=TOL)
    np.testing.assert_allclose(N(v) @ w, -N(w) @ v, atol=TOL)
    np.testing.assert_allclose(u @ N(v) @ w, w @ N(u) @ v, atol=10 * TOL)
    assert abs(u @ N(v) @ w) > 1e-2  # negative control


def test_identity_27(body, rng):
    """B(I, v)^T w = -B(I, w)^T v."""
    _, numbers = body
    v, w = rng.standard_normal((2, 6))
    left, right = factor_matrix(numbers, v).T @ w, factor_matrix(numbers, w).T @ v
    np.testing.assert_allclose(left, -right, atol=TOL)
    assert np.max(np.abs(left - right)) > 1e-2  # negative control


def test_identity_28(body, rng):
    """B(I, v) w = B(I, w) v + I (w x) v."""
    matrix, numbers = body
    v, w = rng.standard_normal((2, 6))
    left, right = factor_matrix(numbers, v) @ w, factor_matrix(numbers, w) @ v
    turned = matrix @ column(twists.motion_cross, w, v)
    np.testing.assert_allclose(left, right + turned, atol=TOL)
    assert np.max(np.abs(left - right)) > 1e-2  # negative control


def ground_columns(model):
    """q -> all columns Phi (6, nv) in ground axes about the world origin, compiled."""
    body_of = model.kinematics.body_of

    def at(q):
        poses = model.kinematics.world_transforms_at(q)
        columns = model.kinematics.Phi_columns_at(q)
        R, p = poses[body_of, :3, :3], poses[body_of, :3, 3]
        w = jax.numpy.einsum("jab,jb->ja", R, columns[:, :3])
        u = jax.numpy.einsum("jab,jb->ja", R, columns[:, 3:]) + jax.numpy.cross(p, w)
        return jax.numpy.concatenate([w, u], axis=1).T

    return jax.jit(at)


def test_identity_26(rng):
    """Phi_k moves along X_j as (Phi_j x) Phi_k if j moves k, plus D[:, j, k] within a joint with Phi(q).

    D of the universal joint Rx(q1) Ry(q2) is (-sin q2, 0, cos q2) for the field 1 along 2, else zero, in the
    axes of its cross.
    """
    kinds = (mb.Free, mb.Revolute, mb.Spherical, mb.Cylindrical, mb.Helical, mb.Prismatic)
    model = assemble(rng, kinds, (-1, 0, 1, 2, 0, 4))
    q, n, h = model.random(rng), model.nv, 1e-5
    columns = ground_columns(model)
    Phi = np.asarray(columns(q))
    at = model.kinematics.body_of
    for j in range(n):
        ahead, behind = (np.asarray(columns(move(model, q, sign * h * np.eye(n)[j]))) for sign in (1, -1))
        rate = (ahead - behind) / (2.0 * h)
        for k in range(n):
            expected = column(twists.motion_cross, Phi[:, j], Phi[:, k])
            expected *= model.kinematics.moves[at[k], j]
            np.testing.assert_allclose(rate[:, k], expected, atol=1e-8)


def test_identity_26_for_a_universal_joint(rng):
    model = assemble(rng, (mb.Revolute, mb.Universal), (-1, 0))
    universal = model.kinematics.tree.joints[1]
    q, h = model.random(rng), 1e-5
    columns = ground_columns(model)
    rate = np.asarray(columns(q + [0, 0, h]) - columns(q - [0, 0, h]))[:, 1] / (2.0 * h)
    Phi = np.asarray(columns(q))
    ring = np.asarray(universal.Phi_at(q[1:] + [0, h]) - universal.Phi_at(q[1:] - [0, h]))[:, 0] / (2.0 * h)
    pose = np.asarray(model.kinematics.world_transforms_at(q))[1]
    ring_ground = np.concatenate([pose[:3, :3] @ ring[:3], np.cross(pose[:3, 3], pose[:3, :3] @ ring[:3])])
    turned = column(twists.motion_cross, Phi[:, 2], Phi[:, 1])
    np.testing.assert_allclose(rate, turned + ring_ground, atol=1e-8)
    assert np.max(np.abs(rate - turned)) > 1e-2  # negative control: without D
    alone = mb.Universal((1, 0, 0), (0, 1, 0))
    x = rng.uniform(0.2, 1.0, 2)
    D = np.asarray(alone.Phi_at(x + [0, h]) - alone.Phi_at(x - [0, h]))[:, 0] / (2.0 * h)
    np.testing.assert_allclose(D, [-np.sin(x[1]), 0.0, np.cos(x[1]), 0.0, 0.0, 0.0], atol=1e-8)
