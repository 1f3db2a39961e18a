"""Errors of rotations and poses as matrices: logarithms, and how they change with the velocity.

    X = X_d^-1 X_now,      e = log X,      edot = E(e) xi,      xi = u - Ad_X^-1 u_d,

with the velocities u and u_d in the axes of the body and of its target: X moves with xi, Xdot = X xi. The
matrix is that of the derivative of the logarithm; E(e) e = e, and with the matrix ad of [e, .]

    E = 1 + ad / 2 + c_2 ad^2 + c_4 ad^4.

With e = [w; p], twists [omega; v], W = (w x), P = (p x), s = |w|^2, these are blocks of three,

    E = [[R, 0], [Q, R]],    R = 1 + W / 2 + c W^2,    Q = P / 2 + c (W P + P W) - 2 c_4 (w . p) W^2,
    c = c_2 - s c_4,    W^2 = w w^T - s,    W P + P W = w p^T + p w^T - 2 (w . p),

the first of which is that of rotations.

A rotation of half a turn has two logarithms, between which the error jumps.
Source: Bullo and Murray, Proportional derivative control on the Euclidean group, 1995.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import atan2, sin, sqrt, tan

import numpy as np

from connections.geometry.rigid.host_groups import skew

_NONE = [0.0, 0.0, 0.0]
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
    (a, b, c), (x, y, z) = rotation_logarithm(T[:3, :3]).tolist(), T[:3, 3].tolist()
    square, along = a * a + b * b + c * c, a * x + b * y + c * z
    if square < _SMALL:
        second = 1.0 / 12.0 + square / 720.0 + square * square / 30240.0
    else:
        half = 0.5 * sqrt(square)
        second = (1.0 - half / tan(half)) / square
    # p - w x p / 2 + second w x (w x p)
    own, shared = 1.0 - second * square, second * along
    return np.array(
        [
            *(a, b, c),
            own * x - 0.5 * (b * z - c * y) + shared * a,
            own * y - 0.5 * (c * x - a * z) + shared * b,
            own * z - 0.5 * (a * y - b * x) + shared * c,
        ]
    )


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
    x, y, z, *p = e.tolist()
    square = x * x + y * y + z * z
    if square < _SMALL:
        c_2, c_4 = 1.0 / 12.0 - square * square / 30240.0, -1.0 / 720.0 - square / 15120.0
    else:
        half = 0.5 * sqrt(square)
        alpha, beta = half / tan(half), (half / sin(half)) ** 2
        c_2 = (2.0 * (1.0 - alpha) + 0.5 * (alpha - beta)) / square
        c_4 = ((1.0 - alpha) + 0.5 * (alpha - beta)) / square**2
    c, halves = c_2 - square * c_4, (0.5 * x, 0.5 * y, 0.5 * z)
    pairs = (x, x), (y, y), (z, z), (x, y), (y, z), (x, z)
    R = _block(1.0 - c * square, halves, [c * u * v for u, v in pairs])
    if not p:
        return np.array(R)
    f, g, h = p
    along = x * f + y * g + z * h
    t, halves = 2.0 * c_4 * along, (0.5 * f, 0.5 * g, 0.5 * h)
    mixed = (f, f), (g, g), (h, h), (f, g), (g, h), (f, h)
    entries = [c * (u * s + v * r) - t * u * v for (u, v), (r, s) in zip(pairs, mixed, strict=True)]
    Q = _block(t * square - 2.0 * c * along, halves, entries)
    return np.array([*(row + _NONE for row in R), *(q + r for q, r in zip(Q, R, strict=True))])


def seen_from(X: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Ad_X^-1 u: the velocity u, in the axes of the target, in those of the body that X leads to."""
    R = X[:3, :3]
    if len(u) == 3:
        return np.asarray(u @ R)
    (wx, wy, wz), (px, py, pz) = u[:3].tolist(), X[:3, 3].tolist()
    turning = np.array([wy * pz - wz * py, wz * px - wx * pz, wx * py - wy * px])
    return np.concatenate([u[:3] @ R, (u[3:] + turning) @ R])


# --- private -----------------------------------------------------------------------------------------------


def _block(own: float, turn: Sequence[float], entries: Sequence[float]) -> list[list[float]]:
    """own + (turn x) + the symmetric matrix with the entries xx, yy, zz, xy, yz and xz."""
    (x, y, z), (xx, yy, zz, xy, yz, xz) = turn, entries
    return [[own + xx, xy - z, xz + y], [xy + z, own + yy, yz - x], [xz - y, yz + x, own + zz]]
