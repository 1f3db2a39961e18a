"""The body-level Coriolis matrices of rigid bodies.

Twists ``[omega; v]`` and wrenches ``[n; f]``, as in `geometry/rigid/twists.py`, are in body axes, about the
body origin. All functions take leading batch axes and are JAX-traceable. With the spatial inertia I and a
twist v,

    C_body = 1/2 [I (v x) + (v x*) I + (I v) xbar*],     B = C_body - I (v x).

Source: [W] VI-A, eqs. (18), (19), (21).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from connections.geometry.rigid.rotations import skew
from connections.geometry.rigid.twists import (
    blocks,
    force_bar_cross_matrix,
    force_cross_matrix,
    motion_cross_matrix,
)


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
    return (
        inertia @ motion_cross_matrix(v) + force_cross_matrix(v) @ inertia + force_bar_cross_matrix(momentum)
    ) / 2


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
    return blocks(spin, h @ w, -w @ h, mass * w)


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
    return blocks(spin - rotational @ w - h @ u, zero, shift - mass * u, zero)
