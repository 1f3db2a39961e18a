"""The Koszul formula in any frame: generalized Christoffel symbols from L_X H and the brackets.

2 Gamma*_ijk = L_k H_ij + L_j H_ik - L_i H_jk + s_kij + s_jik + s_ijk, with s_kij = H_kl s^l_ij;
raising its first index gives the coefficients of the second kind. Source: [W] eq. (8).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import SameArray
from connections.geometry.metrics import Metric
from connections.geometry.numerics.definite import inverse_of_definite, solve_definite
from connections.geometry.numerics.scales import FLOOR, lengths_of


def koszul(dH: SameArray, s_low: SameArray) -> SameArray:
    """Gamma*_ijk, (n, n, n), from arrays of NumPy or JAX.

    Parameters
    ----------
    dH : dH[k, i, j] = L_{X_k} H_ij.
    s_low : s_low[k, i, j] = H_kl s^l_ij.

    Source: [W] eq. (8).
    """
    first, last = (1, 2, 0), (1, 0, 2)  # t[k, i, j] -> out[i, j, k];  t[j, i, k] -> out[i, j, k]
    xp: Any = jnp if isinstance(dH, jax.Array) else np
    metric_part = xp.transpose(dH, first) + xp.transpose(dH, last) - dH
    bracket_part = xp.transpose(s_low, first) + xp.transpose(s_low, last) + s_low
    symbols: SameArray = 0.5 * (metric_part + bracket_part)
    return symbols


def christoffel_terms(metric: Metric, q: jax.Array) -> jax.Array:
    """Sum of absolute values of the terms of Gamma*_ijk, (n, n, n), plus FLOOR times `bound_by_lengths`.

    The second part stands for terms that cancelled within the derivative of H: rho_k |X_i| |X_j| bounds the
    rate of H_ij along X_k.
    """
    H, s = jnp.abs(metric.matrix_at(q)), metric.frame.structure_terms_at(q)
    dH, s_low = metric.derivative_terms_at(q), jnp.einsum("kl,lij->kij", H, s)
    terms = koszul(dH, s_low) + dH  # all six terms with the sign plus
    return terms + FLOOR * bound_by_lengths(terms, lengths_of(metric.positive_at(q)))


def bound_by_lengths(terms: jax.Array, length: jax.Array) -> jax.Array:
    """The bound (rho_k u_i u_j + rho_j u_i u_k + rho_i u_j u_k) / 2, rho_k = max_ij terms[i, k, j] / u_i u_j.

    Parameters
    ----------
    terms : (n, n, n) of lower components, the middle index the direction.
    length : u (n,), the lengths of the fields.
    """
    area = jnp.outer(length, length)
    rates = jnp.max(jnp.where(area[:, None, :] > 0.0, terms / area[:, None, :], 0.0), axis=(0, 2))
    part = rates[None, None, :] * area[:, :, None]  # rho_k u_i u_j
    return 0.5 * (part + jnp.swapaxes(part, 1, 2) + jnp.swapaxes(part, 0, 2))


def christoffel_first_kind(metric: Metric, q: jax.Array) -> jax.Array:
    """Gamma*_ijk = <<X_i, nabla*_{X_j} X_k>> of a metric at one point, (n, n, n).

    Source: [W] eq. (8).
    """
    s_low = jnp.einsum("kl,lij->kij", metric.matrix_at(q), metric.frame.structure_functions_at(q))
    return koszul(metric.derivative_at(q), s_low)


def christoffel_along(metric: Metric, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
    """Gamma*_ijk v^j w^k of a metric at one point, (n,)."""
    along = metric.symbols_along_at(q, v, w)
    if along is None:
        return jnp.einsum("ijk,j,k->i", christoffel_first_kind(metric, q), v, w)
    return along


def raised_terms(H: jax.Array, terms: jax.Array) -> jax.Array:
    """|H^-1| applied to the first index of `terms` (n, ...) >= 0; H is the matrix of a metric."""
    return jnp.einsum("il,l...->i...", jnp.abs(inverse_of_definite(H)), terms)


def raise_first_index(H: jax.Array, tensor: jax.Array) -> jax.Array:
    """H^-1 applied to the first index of `tensor` (n, ...); H is the matrix of a metric."""
    return solve_definite(H, tensor)
