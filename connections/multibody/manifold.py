"""Differences of configurations in frame components, and the configurations at given differences.

    q1 = q0 exp(xi),    joint by joint:

| joint | xi | exp |
|---|---|---|
| v = qdot | q1 - q0; angles are not wrapped | q0 + xi |
| spherical | rotation vector of R0^T R1 by the shortest way, rad | q0 * exp(xi) |
| free | logarithm in SE(3) of T0^-1 T1, [omega; v] | T0 exp(xi): the constant twist xi for a unit of time |

To first order xi is the eta of `linearize`, the perturbation along the frame fields. Rotations repeat after a
full turn; xi is the shortest way, which is unique for less than half a turn, and jumps at half a turn. All
functions take NumPy arrays, and nothing is compiled.
Source: [B], left-trivialized differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from connections.checks import (
    ShapeError,
    as_array,
    batch_axes,
    finite_result,
    require_finite,
    require_function,
)
from connections.multibody.host_kinematics import configuration, joint_slices
from connections.multibody.joints import Free, Spherical
from connections.multibody.wrong_arguments import require_model

if TYPE_CHECKING:
    from connections.multibody.model import Model

_SMALL = 1e-4  # rad^2 below which coefficients are series, whose first neglected term is then below 1e-16


def difference(model: Model, q0: Any, q1: Any) -> np.ndarray:
    """xi (..., nv) with q1 = q0 exp(xi), joint by joint; rad and m.

    Parameters
    ----------
    model : the robot; for closed chains, the differences are those of the independent joints.
    q0, q1 : (..., nq) configurations; leading axes broadcast. q and -q of a quaternion are one rotation.

    Raises
    ------
    ShapeError, NonFiniteError, PointError (a quaternion of norm other than one), TypeError.

    Source: [B]; the left-trivialized difference.
    """
    require_model("difference", model)
    start, end = configuration(model.kinematics, "q0", q0), configuration(model.kinematics, "q1", q1)
    batch = batch_axes(("q0", "q1"), (start, end))
    xi = np.empty((*batch, model.nv))
    for joint, at_q, at_v in joint_slices(model.kinematics):
        a, b = start[..., at_q], end[..., at_q]
        if isinstance(joint, Spherical):
            xi[..., at_v] = rotation_logarithm(quaternion_product(_conjugate(a), b))
        elif isinstance(joint, Free):
            turn = rotation_logarithm(quaternion_product(_conjugate(a[..., 3:]), b[..., 3:]))
            moved = rotated(_conjugate(a[..., 3:]), b[..., :3] - a[..., :3])
            xi[..., at_v] = np.concatenate([turn, _translation(turn, moved, inverse=True)], axis=-1)
        else:
            xi[..., at_v] = b - a
    return xi


def displace(model: Model, q: Any, xi: Any) -> np.ndarray:
    """q exp(xi), (..., nq), joint by joint: the inverse of `difference` up to half a turn.

    Parameters
    ----------
    model : the robot; for closed chains, the independent joints are displaced, and loops are not checked.
    q : (..., nq) configurations.
    xi : (..., nv) displacements in the model's frame, rad and m; leading axes broadcast.

    Raises
    ------
    ShapeError, NonFiniteError, PointError (a quaternion of norm other than one), TypeError.

    Source: [B].
    """
    require_model("displace", model)
    start, step = configuration(model.kinematics, "q", q), np.asarray(as_array("xi", xi, (model.nv,)))
    require_finite("xi", step)
    batch = batch_axes(("q", "xi"), (start, step))
    moved = np.empty((*batch, model.nq))
    for joint, at_q, at_v in joint_slices(model.kinematics):
        a, b = start[..., at_q], step[..., at_v]
        if isinstance(joint, Spherical):
            moved[..., at_q] = _turned(a, b)
        elif isinstance(joint, Free):
            shift = rotated(a[..., 3:], _translation(b[..., :3], b[..., 3:], inverse=False))
            parts = np.broadcast_arrays(a[..., :3] + shift)[0], _turned(a[..., 3:], b[..., :3])
            moved[..., at_q] = np.concatenate(parts, axis=-1)
        else:
            moved[..., at_q] = a + b
    finite_result("q exp(xi)", moved)
    return moved


def finite_differences(
    model: Model, function: Callable[[np.ndarray], Any], q: Any, step: float, *, central: bool = True
) -> np.ndarray:
    """Geometric finite differences of `function` along the frame fields, (..., nv), the direction last.

    (f(q exp(h e_j)) - f(q exp(-h e_j))) / 2h, or (f(q exp(h e_j)) - f(q)) / h: errors of the order h^2 and h.

    Parameters
    ----------
    model : the robot.
    function : (k, nq) configurations -> (k, ...).
    q : (nq,) a configuration.
    step : h, rad and m.
    central : whether to step both ways.

    Raises
    ------
    ShapeError, NonFiniteError, PointError; ValueError : the step is not a positive number.

    Source: [B], numerical validation.
    """
    require_model("finite_differences", model)
    require_function("function", function, "q (k, nq) -> (k, ...)")
    h = positive_step(step, "rad and m")
    q = np.asarray(as_array("q", q, (model.nq,)))
    if q.ndim != 1:
        raise ShapeError("q", (model.nq,), q.shape)
    forward = h * np.eye(model.nv)
    points = [displace(model, q, forward), displace(model, q, -forward if central else 0.0 * forward[:1])]
    ahead, behind = (np.asarray(as_array("function(q)", function(point), ())) for point in points)
    for value, point in ((ahead, points[0]), (behind, points[1])):
        if value.shape[:1] != (len(point),) or value.shape[1:] != ahead.shape[1:]:
            raise ShapeError("function(q)", (len(point), "..."), value.shape)
    return np.moveaxis((ahead - behind) / (2.0 * h if central else h), 0, -1)


def positive_step(step: Any, unit: str) -> float:
    """`step` as a positive finite number.

    Raises
    ------
    ValueError : it is not a positive finite number; the message says in which unit it is expected.
    """
    try:
        h = float(step)
    except (TypeError, ValueError) as error:
        raise ValueError(f"step: expected a number, {unit}, got {step!r}") from error
    if not 0.0 < h < np.inf:
        raise ValueError(f"step: expected a positive number, {unit}, got {h:g}")
    return h


# --- batches of rotations --------------------------------------------------------------------------------


def quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamilton's product a * b of quaternions (x, y, z, w), (..., 4)."""
    vector = a[..., 3:] * b[..., :3] + b[..., 3:] * a[..., :3] + _cross(a[..., :3], b[..., :3])
    scalar = a[..., 3:] * b[..., 3:] - np.sum(a[..., :3] * b[..., :3], axis=-1, keepdims=True)
    return np.concatenate([vector, scalar], axis=-1)


def rotated(quaternion: np.ndarray, x: np.ndarray) -> np.ndarray:
    """R x, (..., 3), with R the rotations of unit quaternions (..., 4)."""
    t = 2.0 * _cross(quaternion[..., :3], x)
    return x + quaternion[..., 3:] * t + _cross(quaternion[..., :3], t)


def rotation_logarithm(quaternion: np.ndarray) -> np.ndarray:
    """Rotation vector (..., 3), rad, of at most half a turn: 2 atan2(|r|, |w|) r / |r|, signed by w."""
    r, w = quaternion[..., :3], quaternion[..., 3:]
    sine = np.linalg.norm(r, axis=-1, keepdims=True)
    # 2 atan(x) / x = 2 - 2 x^2 / 3 + ... with x = |r| / |w|; if x is small, |w| is close to one.
    small = sine < 1e-6
    ratio = np.where(small, 2.0, 2.0 * np.arctan2(sine, np.abs(w)) / np.where(small, 1.0, sine))
    return np.where(w < 0.0, -ratio, ratio) * r


def rotation_exponential(x: np.ndarray) -> np.ndarray:
    """Unit quaternion (..., 4) of rotation vectors (..., 3), rad."""
    angle = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.concatenate([0.5 * np.sinc(angle / (2.0 * np.pi)) * x, np.cos(0.5 * angle)], axis=-1)


# --- private ---------------------------------------------------------------------------------------------


def _translation(turn: np.ndarray, x: np.ndarray, inverse: bool) -> np.ndarray:
    """V x or V^-1 x, V = 1 + (1 - cos) / a^2 (turn x) + (a - sin) / a^3 (turn x)^2, a = |turn|; (..., 3)."""
    square = np.sum(turn * turn, axis=-1, keepdims=True)
    small = square < _SMALL
    angle = np.sqrt(np.where(small, 1.0, square))
    if inverse:
        first = -0.5
        series = 1.0 / 12.0 + square / 720.0 + square**2 / 30240.0
        second = np.where(small, series, (1.0 - 0.5 * angle / np.tan(0.5 * angle)) / angle**2)
    else:
        half = np.sinc(np.sqrt(square) / (2.0 * np.pi))
        first = 0.5 * half * half
        series = 1.0 / 6.0 - square / 120.0 + square**2 / 5040.0
        second = np.where(small, series, (angle - np.sin(angle)) / angle**3)
    once = _cross(turn, x)
    return x + first * once + second * _cross(turn, once)


def _turned(quaternion: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """quaternion * exp(turn), of norm one."""
    product = quaternion_product(quaternion, rotation_exponential(turn))
    return product / np.linalg.norm(product, axis=-1, keepdims=True)


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a x b, (..., 3); np.cross takes three times as long for one pair."""
    product = np.empty(np.broadcast_shapes(a.shape, b.shape))
    product[..., 0] = a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1]
    product[..., 1] = a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2]
    product[..., 2] = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return product


def _conjugate(quaternion: np.ndarray) -> np.ndarray:
    return quaternion * np.array([-1.0, -1.0, -1.0, 1.0])
