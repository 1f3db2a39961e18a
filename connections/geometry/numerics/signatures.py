"""Signatures of symmetric matrices, the numbers of positive and of negative eigenvalues, in any units.

By Sylvester's law, D H D has the signature of H. D is the diagonal matrix that makes all rows of |D H D|
about equally long, so that no entry counts as round-off because of its unit. Source: R. A. Horn and C. R.
Johnson, Matrix Analysis (2013), theorem 4.5.8.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from connections.geometry.numerics.scales import balance

_EPS = float(np.finfo(float).eps)
_ZERO = 8.0 * _EPS  # times n and the largest eigenvalue: smaller ones count as zero


def unsigned_lengths(H: jax.Array) -> jax.Array:
    """Lengths d_i (n,) with |H_ij| at most about d_i d_j, also of vectors X_i with <X_i, X_i> = 0.

    They scale with the vectors, and are |H_ii|^(1/2) if H is diagonal.
    """
    r, c = balance(H)
    return jnp.sqrt(r * c)


def signature_counts(H: jax.Array) -> jax.Array:
    """The numbers (2,) of positive and of negative eigenvalues of a symmetric H (n, n), beyond round-off."""
    length = unsigned_lengths(H)
    values = jnp.linalg.eigvalsh(H / jnp.outer(length, length))
    least = _ZERO * len(H) * jnp.max(jnp.abs(values))
    return jnp.stack([jnp.sum(values > least), jnp.sum(values < -least)])


def is_of_signature(H: jax.Array, signature: tuple[int, int]) -> jax.Array:
    """Whether a symmetric H (n, n) is finite and has the signature (p, q), p + q = n; one boolean."""
    return jnp.all(signature_counts(H) == jnp.asarray(signature))
