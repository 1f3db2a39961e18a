"""SO(3) and SE(3) in NumPy: differences and displacements, for batches, and the frame of SO(3).

    q1 = q0 exp(xi),

with xi a rotation vector, rad, or a twist [omega; v] for a unit of time, in the axes of q0. Rotations repeat
after a full turn; xi is the shortest one, which is unique below half a turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_SMALL = 1e-4  # rad^2; below it, coefficients are computed by series with an error below 1e-16


def rotation_difference(q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
    """The rotation vector of R0^T R1, (..., 3), of unit quaternions (..., 4)."""
    return rotation_logarithm(quaternion_product(_conjugate(q0), q1))


def rotation_difference_slope(q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
    """The derivative (..., 3, 3) of `rotation_difference` along the body angular velocity of q1."""
    return logarithm_slope(rotation_difference(q0, q1))


def logarithm_slope(x: np.ndarray) -> np.ndarray:
    """E (..., 3, 3): the rotation vector x of R changes at E omega while Rdot = R (omega cross).

    E = 1 + (x cross) / 2 + c (x cross)^2, with c of `logarithm_coefficient`.
    """
    c = logarithm_coefficient(np.sum(x * x, axis=-1))[..., None, None]
    X = (x @ _CROSS).reshape(*x.shape, 3)
    return np.asarray(np.eye(3) + 0.5 * X + c * (X @ X))


def logarithm_coefficient(square: Any, numbers: Any = np) -> Any:
    """c = (1 - (a / 2) cot(a / 2)) / a^2 of a^2, rad^2; series near zero; in NumPy or in JAX."""
    small = square < _SMALL
    angle = numbers.sqrt(numbers.where(small, 1.0, square))
    series = 1.0 / 12.0 + square / 720.0 + square**2 / 30240.0
    return numbers.where(small, series, (1.0 - 0.5 * angle / numbers.tan(0.5 * angle)) / angle**2)


def displaced_rotation(q0: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """q0 exp(xi), (..., 4), of norm one."""
    product = quaternion_product(q0, rotation_exponential(xi))
    unit: np.ndarray = product / np.linalg.norm(product, axis=-1, keepdims=True)
    return unit


def pose_difference(q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
    """The logarithm [omega; v] of T0^-1 T1, (..., 6), of poses [p, quaternion], (..., 7)."""
    turn = rotation_difference(q0[..., 3:], q1[..., 3:])
    moved = rotated(_conjugate(q0[..., 3:]), q1[..., :3] - q0[..., :3])
    return np.concatenate([turn, _translation(turn, moved, inverse=True)], axis=-1)


def displaced_pose(q0: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """T0 exp(xi), (..., 7), for twists xi (..., 6)."""
    shift = rotated(q0[..., 3:], _translation(xi[..., :3], xi[..., 3:], inverse=False))
    return np.concatenate([q0[..., :3] + shift, displaced_rotation(q0[..., 3:], xi[..., :3])], axis=-1)


def quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamilton's product a * b of quaternions (x, y, z, w), (..., 4)."""
    vector = a[..., 3:] * b[..., :3] + b[..., 3:] * a[..., :3] + cross(a[..., :3], b[..., :3])
    scalar = a[..., 3:] * b[..., 3:] - np.sum(a[..., :3] * b[..., :3], axis=-1, keepdims=True)
    return np.concatenate([vector, scalar], axis=-1)


def rotated(quaternion: np.ndarray, x: np.ndarray) -> np.ndarray:
    """R x, (..., 3), with R the rotations of unit quaternions (..., 4)."""
    t = 2.0 * cross(quaternion[..., :3], x)
    there: np.ndarray = x + quaternion[..., 3:] * t + cross(quaternion[..., :3], t)
    return there


def rotation_logarithm(quaternion: np.ndarray) -> np.ndarray:
    """Rotation vector (..., 3), rad, of at most half a turn: 2 atan2(|r|, |w|) r / |r|, signed by w."""
    r, w = quaternion[..., :3], quaternion[..., 3:]
    sine = np.linalg.norm(r, axis=-1, keepdims=True)
    # 2 atan(x) / x = 2 - 2 x^2 / 3 + ... with x = |r| / |w|; if x is small, |w| is close to one.
    small = sine < 1e-6
    ratio = np.where(small, 2.0, 2.0 * np.arctan2(sine, np.abs(w)) / np.where(small, 1.0, sine))
    logarithm: np.ndarray = np.where(w < 0.0, -ratio, ratio) * r
    return logarithm


def rotation_exponential(x: np.ndarray) -> np.ndarray:
    """Unit quaternion (..., 4) of rotation vectors (..., 3), rad."""
    angle = np.linalg.norm(x, axis=-1, keepdims=True)
    # The text of `rotations.half_turn`, whose series serve derivatives, takes 1.7 times as long in NumPy.
    return np.concatenate([0.5 * np.sinc(angle / (2.0 * np.pi)) * x, np.cos(0.5 * angle)], axis=-1)


def rotated_back(quaternion: np.ndarray, x: np.ndarray) -> np.ndarray:
    """R^T x, (..., 3), with R the rotations of unit quaternions (..., 4)."""
    once = np.cross(quaternion[..., :3], x)
    there: np.ndarray = x - 2.0 * (quaternion[..., 3:] * once - np.cross(quaternion[..., :3], once))
    return there


def quaternion_frame(quaternion: np.ndarray) -> np.ndarray:
    """X (4, 3) of SO(3) at a unit quaternion: its rate is X omega = quaternion * (omega, 0) / 2."""
    x, y, z, w = quaternion
    return 0.5 * np.array([[w, -z, y], [z, w, -x], [-y, x, w], [-x, -y, -z]])


def quaternion_velocity(quaternion: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """The body angular velocity (..., 3) of unit quaternions (..., 4) that change at `rate` (..., 4)."""
    (r, w), (s, s_w) = ((x[..., :3], x[..., 3:]) for x in (quaternion, rate))
    omega: np.ndarray = 2.0 * (w * s - s_w * r - np.cross(r, s))
    return omega


def rotation_matrix(quaternion: np.ndarray) -> np.ndarray:
    """R (3, 3) of a unit quaternion (4,): from body axes to the axes it is measured in."""
    x, y, z, w = quaternion
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
            [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
            [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )


def random_quaternion(rng: np.random.Generator) -> np.ndarray:
    """A unit quaternion (4,), uniform over rotations."""
    quaternion = rng.standard_normal(4)
    return quaternion / np.linalg.norm(quaternion)


def skew(w: np.ndarray) -> np.ndarray:
    """(w x), (3, 3)."""
    x, y, z = w
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


_CROSS = np.stack([skew(axis).ravel() for axis in np.eye(3)])  # w @ _CROSS is (w x)


def _translation(turn: np.ndarray, x: np.ndarray, inverse: bool) -> np.ndarray:
    """V x or V^-1 x, V = 1 + (1 - cos) / a^2 (turn x) + (a - sin) / a^3 (turn x)^2, a = |turn|; (..., 3)."""
    square = np.sum(turn * turn, axis=-1, keepdims=True)
    if inverse:
        first, second = -0.5, logarithm_coefficient(square)
    else:
        small = square < _SMALL
        angle = np.sqrt(np.where(small, 1.0, square))
        half = np.sinc(np.sqrt(square) / (2.0 * np.pi))
        first = 0.5 * half * half
        series = 1.0 / 6.0 - square / 120.0 + square**2 / 5040.0
        second = np.where(small, series, (angle - np.sin(angle)) / angle**3)
    once = cross(turn, x)
    there: np.ndarray = x + first * once + second * cross(turn, once)
    return there


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a x b, (..., 3); np.cross takes three times as long for one pair."""
    product = np.empty(np.broadcast_shapes(a.shape, b.shape))
    product[..., 0] = a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1]
    product[..., 1] = a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2]
    product[..., 2] = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return product


def _conjugate(quaternion: np.ndarray) -> np.ndarray:
    conjugate: np.ndarray = quaternion * np.array([-1.0, -1.0, -1.0, 1.0])
    return conjugate
