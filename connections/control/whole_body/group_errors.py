"""Errors of rotations and poses as matrices: logarithms, and how they change with the velocity.

    X = X_d^-1 X_now,      e = log X,      edot = E(e) xi,      xi = u - Ad_X^-1 u_d,

with the velocities u and u_d in the axes of the body and of its target: X moves with xi, Xdot = X xi. The
matrix is that of the derivative of the logarithm; E(e) e = e, and with the matrix ad of [e, .]

    E = 1 + ad / 2 + c_2 ad^2 + c_4 ad^4.

A rotation of half a turn has two logarithms, between which the error jumps.
Source: Bullo and Murray, Proportional derivative control on the Euclidean group, 1995.
"""

from __future__ import annotations

from math import atan2, sin, sqrt, tan

import numpy as np

from connections.geometry.rigid.host_groups import skew

_SIX = np.eye(6)
_SMALL = 1e-4  # rad^2; below it the coefficients are series


def rotation_logarithm(R: np.ndarray) -> np.ndarray:
    """The rotation vector (3,), rad, of at most half a turn, of a rotation matrix (3, 3)."""
    (a, b, c), (d, e, f), (g, h, i) = R.tolist()
    x, y, z = 0.5 * (h - f), 0.5 * (c - g), 0.5 * (d - b)  # the sine times the axis
    sine, cosine = sqrt(x * x + y * y + z * z), 0.5 * (a + e + i - 1.0)
    if cosine > -0.9:
        ratio = atan2(sine, cosine) / sine if sine > 1e-8 else 1.0
        return np.array([ratio * x, ratio * y, ratio * z])
    square = 0.5 * (R + R.T) - cosine * np.eye(3)  # (1 - cosine) times the axis times itself
    axis = square[:, np.argmax(np.diag(square))]
    axis = axis / np.linalg.norm(axis)
    if axis @ (x, y, z) < 0.0:
        axis = -axis
    return np.asarray(atan2(sine, cosine) * axis)


def pose_logarithm(T: np.ndarray) -> np.ndarray:
    """The twist [omega; v] (6,) that leads in a unit of time to the pose T (4, 4)."""
    turn, p = rotation_logarithm(T[:3, :3]), T[:3, 3]
    w, square = skew(turn), float(turn @ turn)
    if square < _SMALL:
        second = 1.0 / 12.0 + square / 720.0 + square * square / 30240.0
    else:
        half = 0.5 * sqrt(square)
        second = (1.0 - half / tan(half)) / square
    return np.concatenate([turn, p - 0.5 * (w @ p) + second * (w @ (w @ p))])


def bracket_matrix(e: np.ndarray) -> np.ndarray:
    """The matrix ad of [e, .], (m, m): (e x) of rotation vectors, [[w x, 0], [v x, w x]] of twists."""
    w = skew(e[:3])
    if len(e) == 3:
        return w
    ad = np.zeros((6, 6))
    ad[:3, :3] = ad[3:, 3:] = w
    ad[3:, :3] = skew(e[3:])
    return ad


def logarithm_rate(e: np.ndarray) -> np.ndarray:
    """E (m, m): the logarithm e of X changes at E xi while Xdot = X xi."""
    square = float(e[:3] @ e[:3])
    if square < _SMALL:
        c_2, c_4 = 1.0 / 12.0 - square * square / 30240.0, -1.0 / 720.0 - square / 15120.0
    else:
        half = 0.5 * sqrt(square)
        alpha, beta = half / tan(half), (half / sin(half)) ** 2
        c_2 = (2.0 * (1.0 - alpha) + 0.5 * (alpha - beta)) / square
        c_4 = ((1.0 - alpha) + 0.5 * (alpha - beta)) / square**2
    if len(e) == 3:  # ad^4 = -|e|^2 ad^2, and ad^2 = e e^T - |e|^2
        x, y, z = e.tolist()
        c = c_2 - square * c_4
        own, (a, b, d) = 1.0 - c * square, (c * x * y, c * y * z, c * x * z)
        x, y, z = 0.5 * x, 0.5 * y, 0.5 * z
        return np.array(
            [
                [own + 4.0 * c * x * x, a - z, d + y],
                [a + z, own + 4.0 * c * y * y, b - x],
                [d - y, b + x, own + 4.0 * c * z * z],
            ]
        )
    ad = bracket_matrix(e)
    twice = ad @ ad
    return np.asarray(_SIX + 0.5 * ad + twice @ (c_2 * _SIX + c_4 * twice))


def seen_from(X: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Ad_X^-1 u: the velocity u, in the axes of the target, in those of the body that X leads to."""
    R = X[:3, :3]
    if len(u) == 3:
        return np.asarray(u @ R)
    (wx, wy, wz), (px, py, pz) = u[:3].tolist(), X[:3, 3].tolist()
    turning = np.array([wy * pz - wz * py, wz * px - wx * pz, wx * py - wy * px])
    return np.concatenate([u[:3] @ R, (u[3:] + turning) @ R])
