"""The miss: the vector by which a point misses another one, in an orthonormal basis there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.logarithms.shooting import ROUND_OFF, Ground, Shooting


def gap_at(
    shooting: Shooting, q: jax.Array, spread: jax.Array, q1: jax.Array, *measures: jax.Array
) -> tuple[jax.Array, ...]:
    """The gap between q and q1 in an orthonormal basis there, its derivative, and its norm.

    Parameters
    ----------
    measures : the frame field, its left inverse and the root of the Gram matrix at q1.
    """
    frame, (_, dual, root) = shooting.nabla.frame, measures
    gap, along = jax.linearize(lambda p: frame.align_at(frame.project_at(p), q1) - q1, q)
    measure = root @ dual
    return measure @ gap, measure @ jax.vmap(along, 1, 1)(spread), distance(gap, q1, *measures)


def distance(gap: jax.Array, q: jax.Array, frame: jax.Array, dual: jax.Array, root: jax.Array) -> jax.Array:
    """The length of a small difference `gap` (..., nq) of coordinates at q (nq,), with its normal part.

    A normal part within the round-off of q is left out: far out on a hyperboloid it is a large vector.
    """
    tangent = gap @ dual.T
    if dual.shape[0] == dual.shape[1]:
        return jnp.sqrt(jnp.sum((tangent @ root.T) ** 2, axis=-1))
    normal = jnp.abs(gap - tangent @ frame.T)
    round_off = ROUND_OFF * (jnp.abs(q) + jnp.abs(frame) @ (jnp.abs(dual) @ jnp.abs(q)))
    normal = jnp.maximum(normal - jnp.broadcast_to(round_off, normal.shape), 0.0)
    scale = jnp.linalg.norm(root @ dual) / np.sqrt(len(root))
    return jnp.sqrt(jnp.sum((tangent @ root.T) ** 2, axis=-1) + scale**2 * jnp.sum(normal**2, axis=-1))


def position_blur(ground: Ground) -> np.ndarray:
    """Lengths (m,) by which points are blurred: by round-off of coordinates and of entries of H.

    Round-off of H is multiplied by the condition number of H, in units in which its diagonal is one. Infinite
    if anything is not finite.
    """
    with np.errstate(all="ignore"):
        root = ground.root / np.linalg.norm(ground.root, axis=1, keepdims=True)
    finite = np.isfinite(root).all(axis=(1, 2))
    values = np.linalg.svd(np.where(finite[:, None, None], root, np.eye(root.shape[1])), compute_uv=False)
    of_metric = ROUND_OFF * (values[:, 0] / np.maximum(values[:, -1], 1e-300)) ** 2
    blurred: np.ndarray = np.where(finite, np.fmax(ground.round_off, of_metric), np.inf)
    return blurred
