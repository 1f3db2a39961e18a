"""Spatial algebra of rigid bodies: twists, wrenches, inertias, and the body-level Coriolis matrices.

Twists are ``[omega; v]``, wrenches ``[n; f]``: angular part first, in body axes, about the body origin. Every
function takes leading batch axes and is JAX-traceable. With the spatial inertia I and a twist v,

    C_body = 1/2 [I (v x) + (v x*) I + (I v) xbar*],     B = C_body - I (v x).

Source: [W] VI-A, eqs. (18), (19), (21); Featherstone, Rigid Body Dynamics Algorithms, chapter 2.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from connections.geometry.rotations import skew


def motion_cross(v: jax.Array) -> jax.Array:
    """(v x) = [[w x, 0], [v x, w x]], (..., 6, 6): the rate of a twist that moves with v.

    Parameters
    ----------
    v : (..., 6) twist [omega; v], rad/s and m/s.

    Source: [W] VI-A.
    """
    w, u = skew(v[..., :3]), skew(v[..., 3:])
    return _blocks(w, jnp.zeros_like(w), u, w)


def force_cross(v: jax.Array) -> jax.Array:
    """(v x*) = -(v x)^T, (..., 6, 6): the rate of a wrench that moves with v.

    Parameters
    ----------
    v : (..., 6) twist [omega; v], rad/s and m/s.

    Source: [W] VI-A.
    """
    return -_transpose(motion_cross(v))


def force_bar_cross(f: jax.Array) -> jax.Array:
    """(f xbar*) = -[[n x, f x], [f x, 0]], (..., 6, 6), defined by (f xbar*) v = (v x*) f.

    Parameters
    ----------
    f : (..., 6) wrench or momentum [n; f].

    Source: [W] VI-A.
    """
    n, u = skew(f[..., :3]), skew(f[..., 3:])
    return -_blocks(n, u, u, jnp.zeros_like(n))


def motion_cross_product(v: jax.Array, w: jax.Array) -> jax.Array:
    """(v x) w, (..., 6), without forming the matrix; arguments as in `motion_cross`."""
    return jnp.concatenate(
        [
            jnp.cross(v[..., :3], w[..., :3]),
            jnp.cross(v[..., 3:], w[..., :3]) + jnp.cross(v[..., :3], w[..., 3:]),
        ],
        axis=-1,
    )


def force_cross_product(v: jax.Array, f: jax.Array) -> jax.Array:
    """(v x*) f, (..., 6), without forming the matrix; arguments as in `force_cross`."""
    return jnp.concatenate(
        [
            jnp.cross(v[..., :3], f[..., :3]) + jnp.cross(v[..., 3:], f[..., 3:]),
            jnp.cross(v[..., :3], f[..., 3:]),
        ],
        axis=-1,
    )


def spatial_inertia(
    mass: jax.Array, center_of_mass: jax.Array, inertia: jax.Array, rotation: jax.Array | None = None
) -> jax.Array:
    """I = [[Ibar, h x], [(h x)^T, m 1]], (..., 6, 6), h = m c, Ibar about the body origin.

    Parameters
    ----------
    mass : (...,) kg.
    center_of_mass : (..., 3) c, m, in body axes from the body origin.
    inertia : (..., 3, 3) kg m^2 about the centre of mass, in the axes of `rotation`.
    rotation : (..., 3, 3) from the axes of `inertia` to body axes; the identity if None.

    Source: [W] VI-A.
    """
    mass = jnp.asarray(mass)[..., None, None]
    if rotation is not None:
        inertia = rotation @ inertia @ _transpose(rotation)
    c = skew(center_of_mass)
    return _blocks(inertia - mass * (c @ c), mass * c, -mass * c, mass * jnp.eye(3))


def adjoint(rotation: jax.Array, position: jax.Array) -> jax.Array:
    """X = [[R, 0], [(p x) R, R]], (..., 6, 6): takes a twist in frame b to frame a.

    Parameters
    ----------
    rotation : (..., 3, 3) R, from the axes of b to those of a.
    position : (..., 3) p, m, origin of b from the origin of a, in axes of a.

    Inertias go the other way: I_b = X^T I_a X. Source: [W] VI-B.
    """
    return _blocks(rotation, jnp.zeros_like(rotation), skew(position) @ rotation, rotation)


def sigma(inertia: jax.Array) -> jax.Array:
    """Sigma = tr(Ibar)/2 1 - Ibar, (..., 3, 3): second moments of mass about the body origin, kg m^2.

    Parameters
    ----------
    inertia : (..., 6, 6) spatial inertia.

    Source: [W] eq. (19).
    """
    rotational = inertia[..., :3, :3]
    return jnp.trace(rotational, axis1=-2, axis2=-1)[..., None, None] / 2 * jnp.eye(3) - rotational


def body_coriolis(inertia: jax.Array, v: jax.Array) -> jax.Array:
    """C_body = 1/2 [I (v x) + (v x*) I + (I v) xbar*], (..., 6, 6), Levi-Civita, of one body.

    Parameters
    ----------
    inertia : (..., 6, 6) spatial inertia, kg, kg m, kg m^2.
    v : (..., 6) body twist [omega; v], rad/s and m/s.

    Source: [W] eq. (18).
    """
    momentum = jnp.einsum("...ab,...b->...a", inertia, v)
    return (inertia @ motion_cross(v) + force_cross(v) @ inertia + force_bar_cross(momentum)) / 2


def body_coriolis_blocks(inertia: jax.Array, v: jax.Array) -> jax.Array:
    """C_body = [[(Sigma w) x, (h x)(w x)], [-(w x)(h x), m (w x)]], (..., 6, 6): the closed form.

    Parameters
    ----------
    inertia : (..., 6, 6) spatial inertia with its block structure [[Ibar, h x], [(h x)^T, m 1]].
    v : (..., 6) body twist [omega; v]; its linear part does not enter.

    Source: [W] eq. (19).
    """
    w = skew(v[..., :3])
    h, mass = inertia[..., :3, 3:], inertia[..., 3:4, 3:4]
    spin = skew(jnp.einsum("...ab,...b->...a", sigma(inertia), v[..., :3]))
    return _blocks(spin, h @ w, -w @ h, mass * w)


def body_factor(inertia: jax.Array, v: jax.Array) -> jax.Array:
    """B(I, v) = C_body - I (v x), (..., 6, 6), in the form whose right half is visibly zero.

    [[(Sigma w) x - Ibar (w x) - (h x)(v x), 0], [(h x w) x - m (v x), 0]].

    Parameters
    ----------
    inertia : (..., 6, 6) spatial inertia with its block structure.
    v : (..., 6) body twist [omega; v], rad/s and m/s.

    Source: [W] eq. (21).
    """
    w, u = skew(v[..., :3]), skew(v[..., 3:])
    rotational, h, mass = inertia[..., :3, :3], inertia[..., :3, 3:], inertia[..., 3:4, 3:4]
    spin = skew(jnp.einsum("...ab,...b->...a", sigma(inertia), v[..., :3]))
    shift = skew(jnp.einsum("...ab,...b->...a", h, v[..., :3]))
    zero = jnp.zeros_like(spin)
    return _blocks(spin - rotational @ w - h @ u, zero, shift - mass * u, zero)


# --- rotations --------------------------------------------------------------------------------------------


def _transpose(matrix: jax.Array) -> jax.Array:
    return jnp.swapaxes(matrix, -1, -2)


def _blocks(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> jax.Array:
    """[[a, b], [c, d]] with batch axes broadcast together."""
    a, b, c, d = jnp.broadcast_arrays(a, b, c, d)
    return jnp.concatenate([jnp.concatenate([a, b], axis=-1), jnp.concatenate([c, d], axis=-1)], axis=-2)
