"""Twists and wrenches of rigid bodies: the adjoint actions of SE(3) and its Lie algebra on them, in JAX.

Twists are ``[omega; v]``, wrenches ``[n; f]``: angular part first, about one origin, in one set of axes. All
functions take leading batch axes and are JAX-traceable. Source: [W] VI-A and VI-B; Featherstone, Rigid Body
Dynamics Algorithms, chapter 2.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from connections.geometry.rigid.rotations import skew


def motion_cross_matrix(v: jax.Array) -> jax.Array:
    """(v x) = [[w x, 0], [v x, w x]], (..., 6, 6): the rate of a twist that moves with v.

    Parameters
    ----------
    v : (..., 6) twist [omega; v], rad/s and m/s.

    Source: [W] VI-A.
    """
    w, u = skew(v[..., :3]), skew(v[..., 3:])
    return blocks(w, jnp.zeros_like(w), u, w)


def force_cross_matrix(v: jax.Array) -> jax.Array:
    """(v x*) = -(v x)^T, (..., 6, 6): the rate of a wrench that moves with v.

    Parameters
    ----------
    v : (..., 6) twist [omega; v], rad/s and m/s.

    Source: [W] VI-A.
    """
    return -_transpose(motion_cross_matrix(v))


def force_bar_cross_matrix(f: jax.Array) -> jax.Array:
    """(f xbar*) = -[[n x, f x], [f x, 0]], (..., 6, 6), defined by (f xbar*) v = (v x*) f.

    Parameters
    ----------
    f : (..., 6) wrench or momentum [n; f].

    Source: [W] VI-A.
    """
    n, u = skew(f[..., :3]), skew(f[..., 3:])
    return -blocks(n, u, u, jnp.zeros_like(n))


def motion_cross(v: jax.Array, w: jax.Array) -> jax.Array:
    """(v x) w, (..., 6), without forming the matrix; arguments as in `motion_cross_matrix`."""
    return jnp.concatenate(
        [
            jnp.cross(v[..., :3], w[..., :3]),
            jnp.cross(v[..., 3:], w[..., :3]) + jnp.cross(v[..., :3], w[..., 3:]),
        ],
        axis=-1,
    )


def force_cross(v: jax.Array, f: jax.Array) -> jax.Array:
    """(v x*) f, (..., 6), without forming the matrix; arguments as in `force_cross_matrix`."""
    return jnp.concatenate(
        [
            jnp.cross(v[..., :3], f[..., :3]) + jnp.cross(v[..., 3:], f[..., 3:]),
            jnp.cross(v[..., :3], f[..., 3:]),
        ],
        axis=-1,
    )


def adjoint(rotation: jax.Array, position: jax.Array) -> jax.Array:
    """X = [[R, 0], [(p x) R, R]], (..., 6, 6): takes a twist in frame b to frame a.

    Parameters
    ----------
    rotation : (..., 3, 3) R, from the axes of b to those of a.
    position : (..., 3) p, m, origin of b from the origin of a, in axes of a.

    Inertias go the other way: I_b = X^T I_a X. Source: [W] VI-B.
    """
    return blocks(rotation, jnp.zeros_like(rotation), skew(position) @ rotation, rotation)


def _transpose(matrix: jax.Array) -> jax.Array:
    return jnp.swapaxes(matrix, -1, -2)


def blocks(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> jax.Array:
    """[[a, b], [c, d]] with batch axes broadcast together."""
    a, b, c, d = jnp.broadcast_arrays(a, b, c, d)
    return jnp.concatenate([jnp.concatenate([a, b], axis=-1), jnp.concatenate([c, d], axis=-1)], axis=-2)
