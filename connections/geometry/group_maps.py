"""Lie groups in their invariant frames: exponential, logarithm, and the derivative of the exponential.

With (ad_e)^k_j = s^k_ij e^i, in left-invariant and in right-invariant frames alike,

    D exp(e) = (1 - exp(-ad_e)) / ad_e = 1 - ad_e / 2 + ad_e^2 / 6 - ...,

in components of the frame at both ends; exp(-ad_e) takes components of the left-invariant frame at q to those
of the field that the right-invariant frame carries to q exp(e). Both are closed forms for rotations and rigid
motions. Those of SE(3) are the ones of SO(3) on dual numbers: se(3) is so(3) with omega + eps v for omega.

Source: V. S. Varadarajan, Lie Groups, Lie Algebras, and Their Representations (1984), theorem 2.14.3.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from connections._jax import solve
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.frames import FrameField
from connections.geometry.groups import SE2Frame, SE3Frame, SO3Frame
from connections.geometry.matrix_group import MatrixLieGroup
from connections.geometry.products import ProductFrame, block_diagonal
from connections.geometry.rigid.rotations import (
    displaced_pose,
    displaced_rotation,
    half_turn,
    pose_difference,
    quaternion_product,
    rotation_difference,
    rotation_matrix,
    skew,
    turn_coefficients,
)
from connections.geometry.rigid.twists import blocks

_STEPS = 12  # of Newton's method for the logarithm of a matrix


def require_group(name: str, frame: Any) -> None:
    """Raise `TypeError` unless the frame is an invariant frame of a Lie group, or a product of such."""
    if isinstance(frame, ProductFrame):
        for number, factor in enumerate(frame.frames):
            require_group(f"{name}.frames[{number}]", factor)
    elif not isinstance(frame, SO3Frame | SE2Frame | SE3Frame | CoordinateFrame | MatrixLieGroup):
        raise TypeError(
            f"{name}: expected the frame of a Lie group, got {type(frame).__name__}; "
            "write MatrixLieGroup(basis)"
        )


def exponential_at(group: FrameField, q: jax.Array, e: jax.Array) -> jax.Array:
    """q exp(e), (nq,); exp(e) q in a right-invariant frame.

    Parameters
    ----------
    group : a frame that `require_group` accepts. q : (nq,). e : (n,) components.
    """
    if isinstance(group, ProductFrame):
        parts = zip(group.frames, group.split_point(q), group.split_vector(e), strict=True)
        return jnp.concatenate([exponential_at(*part) for part in parts])
    if isinstance(group, SO3Frame):
        return displaced_rotation(q, e)
    if isinstance(group, SE3Frame):
        return displaced_pose(q, e)
    return group.retract_at(q, e)


def logarithm_at(group: FrameField, q: jax.Array, p: jax.Array) -> jax.Array:
    """e (n,) with q exp(e) = p, the shortest turn; of matrices the one that Newton's method finds, or NaN.

    Parameters
    ----------
    group, q : as for `exponential_at`. p : (nq,).
    """
    if isinstance(group, ProductFrame):
        parts = zip(group.frames, group.split_point(q), group.split_point(p), strict=True)
        return jnp.concatenate([logarithm_at(*part) for part in parts])
    if isinstance(group, SO3Frame):
        return rotation_difference(q, p)
    if isinstance(group, SE3Frame):
        return pose_difference(q, p)
    if isinstance(group, SE2Frame):
        return _plane_difference(q, p)
    if isinstance(group, CoordinateFrame):
        return group.align_at(p, q) - q
    return _by_newton(group, q, p)


def exponential_with_slope_at(group: FrameField, q: jax.Array, e: jax.Array) -> tuple[jax.Array, jax.Array]:
    """q exp(e) and D exp(e), which have sine and cosine in common.

    Parameters
    ----------
    group, q, e : as for `exponential_at`.
    """
    if isinstance(group, ProductFrame):
        parts = zip(group.frames, group.split_point(q), group.split_vector(e), strict=True)
        points, slopes = zip(*(exponential_with_slope_at(*part) for part in parts), strict=True)
        return jnp.concatenate(points), block_diagonal(list(slopes))
    if isinstance(group, SO3Frame):
        turn, slope = _turned(e)
        return _turned_on(q, turn), slope
    if isinstance(group, SE3Frame):
        (turn, slope), (_, along) = jax.jvp(_turned, (e[:3],), (e[3:],))
        # The translation of exp is D exp of the turn from the other side, the transpose, times v.
        moved = q[:3] + rotation_matrix(q[3:]) @ (slope.T @ e[3:])
        whole = blocks(slope, jnp.zeros((3, 3)), along, slope)
        return jnp.concatenate([moved, _turned_on(q[3:], turn)]), whole
    return exponential_at(group, q, e), exponential_slope_at(group, e)


def exponential_slope_at(group: FrameField, e: jax.Array) -> jax.Array:
    """D exp(e) = (1 - exp(-ad_e)) / ad_e, (n, n).

    Parameters
    ----------
    group, e : as for `exponential_at`.
    """
    if isinstance(group, ProductFrame):
        parts = zip(group.frames, group.split_vector(e), strict=True)
        return block_diagonal([exponential_slope_at(*part) for part in parts])
    if isinstance(group, SO3Frame):
        return _turned(e)[1]
    if isinstance(group, SE3Frame):
        (_, of_turn), (_, along) = jax.jvp(_turned, (e[:3],), (e[3:],))
        return blocks(of_turn, jnp.zeros((3, 3)), along, of_turn)
    if isinstance(group, CoordinateFrame):
        return jnp.eye(group.dim)
    ad = little_adjoint_at(group, e)
    if isinstance(group, SE2Frame):
        _, b, c = turn_coefficients(e[0] ** 2)
        return jnp.eye(3) - b * ad + c * ad @ ad
    n = group.dim
    whole = blocks(-ad, jnp.eye(n), jnp.zeros((n, n)), jnp.zeros((n, n)))
    slope: jax.Array = jax.scipy.linalg.expm(whole)[:n, n:]
    return slope


def adjoint_of_exponential_at(group: FrameField, e: jax.Array) -> jax.Array:
    """exp(ad_e), (n, n).

    Parameters
    ----------
    group, e : as for `exponential_at`.
    """
    if isinstance(group, ProductFrame):
        parts = zip(group.frames, group.split_vector(e), strict=True)
        return block_diagonal([adjoint_of_exponential_at(*part) for part in parts])
    if isinstance(group, SO3Frame):
        return _rotation_of(e)
    if isinstance(group, SE3Frame):
        R, along = jax.jvp(_rotation_of, (e[:3],), (e[3:],))
        return blocks(R, jnp.zeros((3, 3)), along, R)
    if isinstance(group, CoordinateFrame):
        return jnp.eye(group.dim)
    ad = little_adjoint_at(group, e)
    if isinstance(group, SE2Frame):
        a, b, _ = turn_coefficients(e[0] ** 2)
        return jnp.eye(3) + a * ad + b * ad @ ad
    whole: jax.Array = jax.scipy.linalg.expm(ad)
    return whole


def little_adjoint_at(group: FrameField, e: jax.Array) -> jax.Array:
    """(ad_e)^k_j = s^k_ij e^i, (n, n); the structure functions of a group are constant."""
    s = group.structure_functions_at(jnp.zeros(group.ambient_dim))
    return jnp.einsum("kij,i->kj", s, e)


# --- private -----------------------------------------------------------------------------------------------


def _turned(e: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The quaternion of exp(e), and D exp(e) = 1 - b (e x) + c (e x)^2 = a 1 - b (e x) + c e e^T, (3, 3).

    a = sin|e| / |e|, b = (1 - cos|e|) / |e|^2, c = (|e| - sin|e|) / |e|^3, so 1 - c |e|^2 = a.
    """
    (a, b, c), (sine, cosine) = turn_coefficients(e @ e), half_turn(e @ e)
    slope = a * jnp.eye(3) - b * skew(e) + c * e[:, None] * e[None, :]
    return jnp.concatenate([sine * e, cosine[None]]), slope


def _turned_on(q: jax.Array, turn: jax.Array) -> jax.Array:
    """The product of two quaternions, of norm one."""
    turned = quaternion_product(q, turn)
    return turned * jax.lax.rsqrt(turned @ turned)


def _rotation_of(e: jax.Array) -> jax.Array:
    """exp(e x) = cos|e| 1 + a (e x) + b e e^T, (3, 3)."""
    square = e @ e
    a, b, _ = turn_coefficients(square)
    return (1.0 - b * square) * jnp.eye(3) + a * skew(e) + b * e[:, None] * e[None, :]


def _plane_difference(q: jax.Array, p: jax.Array) -> jax.Array:
    """The logarithm of SE(2); the chord of an arc is at half of its angle."""
    turn = p[2] - q[2]
    c, s = jnp.cos(q[2] + 0.5 * turn), jnp.sin(q[2] + 0.5 * turn)
    moved = (p[:2] - q[:2]) / jnp.sinc(turn / (2.0 * jnp.pi))
    return jnp.stack([turn, c * moved[0] + s * moved[1], c * moved[1] - s * moved[0]])


def _by_newton(group: FrameField, q: jax.Array, p: jax.Array) -> jax.Array:
    """Newton's method from the difference of the entries; NaN if it does not end at p."""

    def step(_: Any, carried: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        e, _ = carried
        end = exponential_at(group, q, e)
        change = solve(exponential_slope_at(group, e), group.dual_at(end) @ (p - end))
        return e + change, jnp.max(jnp.abs(change))

    e, last = jax.lax.fori_loop(0, _STEPS, step, (jnp.zeros(group.dim), jnp.asarray(jnp.inf)))
    return jnp.where(last <= 1e-9 * (1.0 + jnp.max(jnp.abs(e))), e, jnp.nan)
