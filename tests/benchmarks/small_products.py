"""Products of small matrices as sums, beside calls, us: `python tests/benchmarks/small_products.py`."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from connections.geometry.numerics.products import small_product

SIZES = ((3, 3, 3), (6, 6, 6), (9, 9, 6), (12, 12, 12), (12, 12, 18), (18, 18, 18))
TIMES = 100


def best(product, A, B):
    """One product of a scan, each of which depends on the one before."""

    def step(B, _):
        return B + 1e-9 * product(A, B), None

    run = jax.jit(lambda B: jax.lax.scan(step, B, None, length=TIMES)[0]).lower(B).compile()
    least = np.inf
    for _ in range(50):
        begin = time.perf_counter()
        jax.block_until_ready(run(B))
        least = min(least, time.perf_counter() - begin)
    return 1e6 * least / TIMES


rng = np.random.default_rng(0)
for k, m, n in SIZES:
    A, B = rng.normal(size=(k, m)), rng.normal(size=(m, n))
    as_sum = best(lambda A, B: jnp.sum(A[:, :, None] * B[None], axis=1), A, B)
    call = best(lambda A, B: A @ B, A, B)
    print(f"{k} x {m} x {n}: sum {as_sum:.2f}, call {call:.2f}, chosen {best(small_product, A, B):.2f}")
