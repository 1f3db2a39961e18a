"""Closure conditions and their derivatives at one spanning configuration, in NumPy.

Used to assemble loops while a model is built: there, compiling a function would take longer than it saves.
The derivative of a condition along a velocity is a wrench f applied to the relative twist of the two bodies,

    phi' = f . (V_b - V_a),
    POSITION: f = [p_b x u; u],   DIRECTION: f = [w x u; 0],   DISTANCE: f = [p_b x r; r],

with f and the twists at the world origin, u and w in world axes, p_b the point of b, and r the vector from
the point of a to the point of b. Source: [W] VI-C, implicit constraints phi(q) = 0 with K = dphi / dq.
"""

from __future__ import annotations

import numpy as np

from connections.multibody.clusters import DIRECTION, DISTANCE, LINEAR, POSITION, Rows
from connections.multibody.host_kinematics import HostKinematics
from connections.multibody.kinematics import Kinematics
from connections.multibody.loops.constraints import FunctionCondition


def residual_and_derivative(
    kinematics: Kinematics, rows: Rows, functions: tuple[FunctionCondition, ...], q: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """phi (p,) and K = L_X phi (p, nv) at the spanning configuration q (nq,); `functions` come last."""
    host = HostKinematics.at(kinematics, q)
    T, moves = host.transforms, kinematics.moves
    moves = np.concatenate([moves, np.zeros((1, moves.shape[1]), dtype=bool)]).astype(np.float64)
    a, b = rows.bodies_a, rows.bodies_b
    p_a, p_b = _points(T[a], rows.points_a), _points(T[b], rows.points_b)
    u = np.einsum("rab,rb->ra", T[a, :3, :3], rows.u)
    w = np.einsum("rab,rb->ra", T[b, :3, :3], rows.w)
    r, none = p_b - p_a, np.zeros_like(u)
    kind = rows.kinds[:, None]
    moment = np.select(
        [kind == POSITION, kind == DIRECTION, kind == DISTANCE],
        [_cross(p_b, u), _cross(w, u), _cross(p_b, r)],
        none,
    )
    force = np.select([kind == POSITION, kind == DISTANCE], [u, r], none)
    dot = np.einsum
    linear = rows.coefficients @ q
    value = np.select(
        [rows.kinds == POSITION, rows.kinds == DIRECTION, rows.kinds == DISTANCE, rows.kinds == LINEAR],
        [dot("ra,ra->r", u, r), dot("ra,ra->r", u, w), dot("ra,ra->r", r, r), linear],
    )
    half = np.where(rows.kinds == DISTANCE, 0.5, 1.0)
    phi = rows.scales * half * (value - rows.constants)
    wrenches = np.concatenate([moment, force], axis=1)
    K = wrenches @ host.columns.T * (moves[b] - moves[a])
    K += rows.coefficients[:, kinematics.coordinate_of] * np.where(kinematics.coordinate_of < 0, 0.0, 1.0)
    K *= rows.scales[:, None]
    more = [function.residual_and_derivative(kinematics, host, moves, q) for function in functions]
    return (
        np.concatenate([phi, *(value for value, _ in more)]),
        np.concatenate([K, *(derivative for _, derivative in more)]),
    )


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cross product row by row; for a few rows much faster than `np.cross`."""
    (ax, ay, az), (bx, by, bz) = a.T, b.T
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=1)


def _points(transforms: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.einsum("rab,rb->ra", transforms[:, :3, :3], points) + transforms[:, :3, 3]
