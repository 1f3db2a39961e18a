"""Rotations and quaternions in JAX, for the whole package. Quaternions are (x, y, z, w), of unit norm."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.geometry.rigid.host_groups import logarithm_coefficient

LEVI_CIVITA = np.zeros((3, 3, 3))  # (a x b)_i = LEVI_CIVITA[i, j, k] a_j b_k
LEVI_CIVITA[[0, 1, 2], [1, 2, 0], [2, 0, 1]] = 1.0
LEVI_CIVITA[[0, 1, 2], [2, 0, 1], [1, 2, 0]] = -1.0
# By elements, because compilers join these to what comes next; a product with a constant tensor is a call.
_SKEW = np.moveaxis(-LEVI_CIVITA, -1, 0)


def skew(w: jax.Array) -> jax.Array:
    """(w x), (..., 3, 3), the matrix of u -> w x u.

    Parameters
    ----------
    w : (..., 3), any unit.
    """
    w = jnp.asarray(w)
    x, y, z = (w[..., i, None, None] for i in range(3))
    skewed: jax.Array = x * _over(_SKEW[0], w) + y * _over(_SKEW[1], w) + z * _over(_SKEW[2], w)
    return skewed


def _over(matrix: Any, vectors: jax.Array) -> Any:
    """A matrix with an axis for each batch axis of vectors (..., k): JAX may not be allowed to add them."""
    return matrix.reshape((1,) * (vectors.ndim - 1) + matrix.shape)


# Hamilton's product of quaternions (x, y, z, w): (a b)_i = _QUATERNION[i, j, k] a_j b_k.
_QUATERNION = np.zeros((4, 4, 4))
_QUATERNION[:3, :3, :3] = LEVI_CIVITA
_QUATERNION[[0, 1, 2], [0, 1, 2], 3] = 1.0
_QUATERNION[[0, 1, 2], 3, [0, 1, 2]] = 1.0
_QUATERNION[3, [0, 1, 2], [0, 1, 2]] = -1.0
_QUATERNION[3, 3, 3] = 1.0


def quaternion_product(a: jax.Array, b: jax.Array) -> jax.Array:
    """a b, (..., 4): first b, then a; quaternions are (x, y, z, w).

    Parameters
    ----------
    a, b : (..., 4) quaternions.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    x, y, z, w = (a[..., i, None, None] for i in range(4))
    X, Y, Z, W = (_over(_QUATERNION[:, i], a) for i in range(4))
    matrix = x * X + y * Y + z * Z + w * W
    return jnp.sum(matrix * b[..., None, :], axis=-1)


def rotation_matrix(quaternion: jax.Array) -> jax.Array:
    """R, (..., 3, 3), of a unit quaternion (x, y, z, w): from body axes to the axes it is measured in.

    Parameters
    ----------
    quaternion : (..., 4), unit norm.
    """
    r, w = quaternion[..., :3], quaternion[..., 3, None, None]
    outer = r[..., :, None] * r[..., None, :]  # (r x)^2 = r r^T - |r|^2, so no product of matrices
    square = jnp.sum(r * r, axis=-1)[..., None, None]
    matrix: jax.Array = (1 - 2 * square) * _over(jnp.eye(3), r) + 2 * w * skew(r) + 2 * outer
    return matrix


def quaternion_of(R: jax.Array) -> jax.Array:
    """A unit quaternion (4,) of a rotation matrix (3, 3), smooth wherever the largest component stays so.

    4 q q^T is linear in R; q is its column of the largest component, scaled.
    """
    x, y, z = R[0, 0], R[1, 1], R[2, 2]
    xy, xz, yz = R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1]
    xw, yw, zw = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    rows = [
        [1 + x - y - z, xy, xz, xw],
        [xy, 1 - x + y - z, yz, yw],
        [xz, yz, 1 - x - y + z, zw],
        [xw, yw, zw, 1 + x + y + z],
    ]
    outer = jnp.stack([jnp.stack(row) for row in rows])
    column = outer[jnp.argmax(jnp.diagonal(outer))]
    unit: jax.Array = column / jnp.linalg.norm(column)
    return unit


_SMALL = 4e-3  # rad^2: below this square of an angle, functions of it are series, whose next term is 1e-17


def half_turn(square: jax.Array) -> tuple[jax.Array, jax.Array]:
    """sin(x / 2) / x and cos(x / 2) of x^2; series near zero."""
    small = square < _SMALL
    x = jnp.sqrt(jnp.where(small, 1.0, square))
    sine = 0.5 - square * (1.0 / 48.0 - square * (1.0 / 3840.0 - square / 645120.0))
    cosine = 1.0 - square * (1.0 / 8.0 - square * (1.0 / 384.0 - square / 46080.0))
    return jnp.where(small, sine, jnp.sin(0.5 * x) / x), jnp.where(small, cosine, jnp.cos(0.5 * x))


def turn_coefficients(square: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """sin x / x, (1 - cos x) / x^2 and (x - sin x) / x^3 of x^2; series near zero."""
    (sine, cosine), small = half_turn(square), square < _SMALL
    series = 1.0 / 6.0 - square * (1.0 / 120.0 - square * (1.0 / 5040.0 - square / 362880.0))
    a = 2.0 * sine * cosine
    return a, 2.0 * sine * sine, jnp.where(small, series, (1.0 - a) / jnp.where(small, 1.0, square))


def quaternion_exponential(xi: jax.Array) -> jax.Array:
    """Unit quaternion of the rotation vector `xi` (3,) [rad]; smooth at zero."""
    sinc, cosine = half_turn(xi @ xi)
    return jnp.concatenate([sinc * xi, cosine[None]])


def rotation_difference(q0: jax.Array, q1: jax.Array) -> jax.Array:
    """The rotation vector of R0^T R1, (3,), rad, of unit quaternions (4,): the shortest way, at most pi."""
    return rotation_logarithm(quaternion_product(q0 * jnp.array([-1.0, -1.0, -1.0, 1.0]), q1))


def rotation_logarithm(quaternion: jax.Array) -> jax.Array:
    """Rotation vector (3,), rad, at most half a turn, of a unit quaternion (4,); smooth at the identity."""
    r, w = quaternion[:3], quaternion[3]
    sign = jnp.where(w < 0.0, -1.0, 1.0)
    square = r @ r
    small = square < 1e-6
    sine = jnp.sqrt(jnp.where(small, 1.0, square))
    series = 2.0 + square / 3.0 + 3.0 * square**2 / 20.0  # of 2 asin(x) / x in x^2
    return sign * jnp.where(small, series, 2.0 * jnp.arctan2(sine, sign * w) / sine) * r


def pose_difference(q0: jax.Array, q1: jax.Array) -> jax.Array:
    """The logarithm [omega; v] of T0^-1 T1, (6,), rad and m, of poses [p, quaternion], (7,)."""
    turn = rotation_difference(q0[3:], q1[3:])
    moved = rotation_matrix(q0[3:]).T @ (q1[:3] - q0[:3])
    second = logarithm_coefficient(turn @ turn, jnp)
    once = jnp.cross(turn, moved)
    return jnp.concatenate([turn, moved - 0.5 * once + second * jnp.cross(turn, once)])


def displaced_pose(q: jax.Array, xi: jax.Array) -> jax.Array:
    """T exp(xi), (7,), of a pose [p, quaternion] (7,) and a twist xi (6,) for a unit of time."""
    turn, moved = xi[:3], xi[3:]
    _, first, second = turn_coefficients(turn @ turn)
    once = jnp.cross(turn, moved)
    shift = rotation_matrix(q[3:]) @ (moved + first * once + second * jnp.cross(turn, once))
    return jnp.concatenate([q[:3] + shift, displaced_rotation(q[3:], turn)])


def displaced_rotation(q: jax.Array, xi: jax.Array) -> jax.Array:
    """q exp(xi), (4,), of norm one, of a unit quaternion q (4,) and a rotation vector xi (3,), rad."""
    turned = quaternion_product(q, quaternion_exponential(xi))
    unit: jax.Array = turned / jnp.linalg.norm(turned)
    return unit


def quaternion_about(axis: jax.Array, angle: jax.Array) -> jax.Array:
    """Quaternion (4,) of the rotation by `angle`, rad, about the unit axis (3,)."""
    return jnp.concatenate([axis * jnp.sin(angle / 2), jnp.cos(angle / 2)[None]])


def rigid_or_nan(transform: jax.Array, tolerance: float = 1e-9) -> jax.Array:
    """`transform` (4, 4), or NaN if it is not a proper rigid transform to the tolerance.

    Parameters
    ----------
    transform : (4, 4) homogeneous transform, m.
    tolerance : the largest entry of R^T R - 1, and of what the last row differs by.
    """
    R = transform[:3, :3]
    excess = jnp.max(jnp.abs(R.T @ R - jnp.eye(3))), jnp.max(jnp.abs(transform[3] - jnp.eye(4)[3]))
    good = (excess[0] <= tolerance) & (excess[1] <= tolerance) & (R[:, 0] @ jnp.cross(R[:, 1], R[:, 2]) > 0.0)
    return jnp.where(good, transform, jnp.nan)


def homogeneous(rotations: jax.Array, positions: jax.Array) -> jax.Array:
    """Homogeneous transforms (N, 4, 4) from rotations (N, 3, 3) and positions (N, 3)."""
    upper = jnp.concatenate([rotations, positions[:, :, None]], axis=2)
    last = jnp.broadcast_to(jnp.array([0.0, 0.0, 0.0, 1.0]), (len(positions), 1, 4))
    return jnp.concatenate([upper, last], axis=1)
