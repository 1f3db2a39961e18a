"""Gains of control laws, checked once where they are given.

Every gain becomes an (n, n) float64 matrix; a scalar k means k 1, a vector means a diagonal.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import ShapeError, require_finite


class GainError(ValueError):
    """A gain is not positive definite, or not symmetric where the law needs it."""


def gain_matrix(name: str, gain: Any, dim: int, symmetric: bool = False) -> jax.Array:
    """The gain as a matrix K (dim, dim) with x^T K x > 0 for every x other than zero.

    Parameters
    ----------
    name : how the caller calls the gain.
    gain : scalar k for k 1, (dim,) for a diagonal, or (dim, dim).
    dim : size of the square matrix.
    symmetric : whether K must equal its transpose.

    Raises
    ------
    ShapeError, NonFiniteError, GainError, TypeError (not made of real numbers).
    """
    try:
        array = np.asarray(gain, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected real numbers, got {type(gain).__name__}") from error
    if array.shape not in ((), (dim,), (dim, dim)):
        raise ShapeError(name, f"(), ({dim},) or ({dim}, {dim})", array.shape)
    require_finite(name, array)
    matrix = array if array.ndim == 2 else np.diag(np.broadcast_to(array, (dim,)))
    if symmetric and not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0.0):
        gap = float(np.max(np.abs(matrix - matrix.T)))
        raise GainError(f"{name} must be symmetric: it differs from its transpose by {gap:.2e}")
    smallest = float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])
    if not smallest > 0.0:
        what = f"smallest eigenvalue of its symmetric part {smallest:.3e}"
        raise GainError(f"{name} must be positive definite: {what}")
    return jnp.asarray(matrix)
