"""Linear systems with more equations than unknowns: their least-squares solution, and their conditioning."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@jax.custom_jvp
def least_squares(K: jax.Array, right: jax.Array) -> jax.Array:
    """K^+ right for K (p, n) of full column rank; its derivative is right if `right` is in the range of K."""
    Q, R = jnp.linalg.qr(K)
    return jax.scipy.linalg.solve_triangular(R, Q.T @ right)


@least_squares.defjvp
def _least_squares_and_derivative(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    """The derivative of K x = right along a curve: K x' = right' - K' x, which is also in the range of K."""
    (K, right), (K_dot, right_dot) = primals, tangents
    x = least_squares(K, right)
    return x, least_squares(K, right_dot - K_dot @ x)


RANK = 1e-6  # what is smaller than this, relative to the largest singular value or column, is round-off


def least_sine(K: np.ndarray, size: float | None = None) -> float:
    """The least sine of the angle between a column of K and the span of the columns before it.

    It is 0 if K has more columns than rows, or a column that is round-off: a direction is no angle then.

    Parameters
    ----------
    K : (p, n), whose columns have one unit.
    size : the largest norm of the columns of which K has some; by default of those of K.
    """
    if K.shape[1] == 0:
        return 1.0
    if K.shape[0] < K.shape[1]:
        return 0.0
    R = np.linalg.qr(K, mode="r")
    norms = np.linalg.norm(R, axis=0)
    if not (norms > RANK * (norms.max() if size is None else size)).all():
        return 0.0
    return float(np.min(np.abs(np.diagonal(R)) / norms))
