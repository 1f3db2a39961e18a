"""Products of small matrices, as sums where that is faster: (A B)_ij = A_ik B_kj.

XLA compiles a sum in place, where a product of matrices is a call: of 6 x 6 it takes 0.14 us instead of 0.44,
of 12 x 12 0.3 instead of 0.6 (`tests/benchmarks/small_products.py`). Under `vmap` the call is faster, twice
to eight times, and is taken.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

_SMALLEST, _LARGEST = 100, 12 * 12 * 18  # multiplications; smaller and larger products are faster as calls


@jax.custom_jvp
def small_product(A: jax.Array, B: jax.Array) -> jax.Array:
    """A B, (k, m).

    Parameters
    ----------
    A : (k, l). B : (l, m).
    """
    if not _SMALLEST <= A.shape[0] * B.shape[0] * B.shape[1] <= _LARGEST:
        return A @ B
    product: jax.Array = _as_sum(A, B)
    return product


@small_product.defjvp
def _change(at: Any, along: Any) -> tuple[jax.Array, jax.Array]:
    (A, B), (dA, dB) = at, along
    return small_product(A, B), dA @ B + A @ dB


@jax.custom_batching.custom_vmap
def _as_sum(A: jax.Array, B: jax.Array) -> jax.Array:
    return jnp.sum(A[:, :, None] * B[None, :, :], axis=1)


@_as_sum.def_vmap
def _as_calls(_: int, batched: list[bool], A: jax.Array, B: jax.Array) -> tuple[jax.Array, bool]:
    return jnp.matmul(A, B), True  # a matrix that is not batched is broadcast
