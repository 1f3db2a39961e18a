"""One point of a chart with three coordinates: `python tests/benchmarks/one_point.py`.

Microseconds of a public call, which checks its argument and its result, beside `jax.jit` of its definition,
with the result as a NumPy array in both; the least of five rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import connections as cn

Q = np.array([0.1, 0.2, 0.3])
CALLS = 3000


def matrix(q: jax.Array) -> jax.Array:
    """A metric that is neither diagonal nor constant."""
    a, b = 0.3 * jnp.sin(q[0]), 0.1
    return jnp.array([[2.0 + jnp.cos(q[1]), a, 0.0], [a, 1.5, b], [0.0, b, 1.0 + q[2] ** 2]])


def microseconds(function: Callable[[], Any]) -> float:
    """Of one call, in the quickest round."""
    function()
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(CALLS):
            function()
        rounds.append((time.perf_counter() - start) / CALLS)
    return 1e6 * min(rounds)


def main() -> None:
    """Print the table."""
    metric = cn.MatrixMetric(cn.CoordinateFrame(3), matrix)
    nabla = cn.LeviCivita(metric)
    print(f"{'':16s}{'public':>10s}{'jax.jit':>10s}  us")
    for owner, name in (
        (metric, "matrix"),
        (nabla, "coefficients"),
        (nabla, "torsion"),
        (nabla, "curvature"),
    ):
        public, definition = getattr(owner, name), jax.jit(getattr(owner, f"{name}_at"))
        ours = microseconds(lambda call=public: call(Q))
        plain = microseconds(lambda call=definition: np.asarray(call(Q)))
        print(f"{name:16s}{ours:10.1f}{plain:10.1f}")


if __name__ == "__main__":
    main()
