"""Derivatives of a connection from those of Gamma(v, v), which is minus the acceleration of its geodesics.

With S(v) and V(v) the derivatives of Gamma(v, v) along the frame and in v,

    4 L_j Gamma_sym(v, w) = S(v + w) - S(v - w),    4 Gamma_sym(v, .) = V(v + w) + V(v - w).

The part of Gamma that is antisymmetric in v and w is half the frame's brackets, if there is no torsion; they
must be constant. Source: polarization.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.connection import AffineConnection
from connections.geometry.frames import FrameField


def slopes_of(definition: AffineConnection) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """(q, v) -> S and V, (2, n, n), of a connection, by differentiation."""

    def slopes(q: jax.Array, v: jax.Array) -> jax.Array:
        along = definition.frame.lie_derivative_at(lambda p: definition.apply_at(p, v, v), q).T
        return jnp.stack([along, jax.jacfwd(lambda w: definition.apply_at(q, w, w))(v)])

    return slopes


def with_slopes(
    frame: FrameField,
    coefficients: Callable[..., jax.Array],
    apply: Callable[..., jax.Array],
    slopes: Callable[..., jax.Array],
) -> tuple[Callable[..., jax.Array], Callable[..., jax.Array]]:
    """Gamma and Gamma(v, w), with derivatives from `slopes` along tangents of the configuration space."""
    n = frame.dim
    rows, columns = np.triu_indices(n)
    sums = np.eye(n)[rows] + np.eye(n)[columns]

    @jax.custom_jvp
    def product(q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        return apply(q, v, w)

    @product.defjvp
    def product_rule(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        (q, v, w), (q_dot, v_dot, w_dot) = primals, tangents
        plus, minus = slopes(q, v + w), slopes(q, v - w)
        half_bracket = frame.structure_functions_at(q) / 2.0
        of_v = (plus[1] - minus[1]) / 4.0 + jnp.einsum("ijk,k->ij", half_bracket, w)  # Gamma(., w)
        of_w = (plus[1] + minus[1]) / 4.0 + jnp.einsum("ijk,j->ik", half_bracket, v)  # Gamma(v, .)
        along = (plus[0] - minus[0]) @ frame.velocity_at(q, q_dot) / 4.0
        return product(q, v, w), along + of_v @ v_dot + of_w @ w_dot

    @jax.custom_jvp
    def symbols(q: jax.Array) -> jax.Array:
        return coefficients(q)

    @symbols.defjvp
    def symbols_rule(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        (q,), (q_dot,) = primals, tangents
        moved = jax.vmap(slopes, (None, 0))(q, jnp.asarray(sums))[:, 0] @ frame.velocity_at(q, q_dot)
        table = jnp.zeros((n, n, n)).at[rows, columns].set(moved, unique_indices=True)
        table = table.at[columns, rows].set(moved, unique_indices=True)
        squares = jnp.einsum("jji->ji", table) / 4.0  # sums on the diagonal are twice a unit vector
        mixed = (table - squares[:, None] - squares[None]) / 2.0
        return symbols(q), jnp.transpose(mixed, (2, 0, 1))

    return symbols, product
