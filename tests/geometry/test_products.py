"""Products of small matrices: values, derivatives and batches, of sizes that are sums and that are calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from connections.geometry.numerics.products import small_product


@pytest.mark.parametrize("sizes", [(2, 3, 4), (6, 5, 7), (20, 18, 17)])
def test_products_of_any_size(sizes):
    k, m, n = sizes
    rng = np.random.default_rng(1)
    A, B, W = rng.normal(size=(4, k, m)), rng.normal(size=(4, m, n)), rng.normal(size=(k, n))
    expected = np.einsum("bij,bjk->bik", A, B)

    @jax.jit
    def of(A, B):
        slope = jax.grad(lambda A, B: jnp.sum(W * small_product(A, B)), (0, 1))
        return (
            small_product(A[0], B[0]),
            jax.vmap(small_product)(A, B),
            jax.vmap(small_product, (None, 0))(A[0], B),
            jax.vmap(jax.vmap(small_product, (0, None)), (None, 0))(A, B),
            slope(A[0], B[0]),
            jax.vmap(slope)(A, B),
            jax.jvp(small_product, (A[0], B[0]), (A[1], B[1]))[1],
        )

    one, batch, shared, pairs, (of_A, of_B), slopes, along = of(A, B)
    assert np.allclose(one, expected[0]) and np.allclose(batch, expected)
    assert np.allclose(shared, A[0] @ B) and np.allclose(pairs, np.einsum("aij,bjk->baik", A, B))
    assert np.allclose(of_A, W @ B[0].T) and np.allclose(of_B, A[0].T @ W)
    assert np.allclose(slopes[0], W @ np.swapaxes(B, 1, 2)) and np.allclose(slopes[1][2], A[2].T @ W)
    assert np.allclose(along, A[1] @ B[0] + A[0] @ B[1])
