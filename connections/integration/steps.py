"""A step of the method: for one motion in JAX and in NumPy, for several motions in NumPy."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from connections.integration.dop853 import A, C, E

Array = NDArray[np.float64]
Rate = Callable[[float, Array, Array], None]  # (s, y, out)
# A step. (s, h, y, dy/ds) -> (5, k): y at s + h, dy/ds there, two estimates of the step's error over h, and
# the expected sizes of the components of y.
Attempt = Callable[[float, float, Array, Array], Array]

_ROWS = [A[stage, :stage].copy() for stage in range(len(C))]


def step_at(
    rate: Callable[[jax.Array, jax.Array], jax.Array],
    sizes: Callable[[jax.Array, jax.Array], jax.Array] | None,
    s: jax.Array,
    h: jax.Array,
    y: jax.Array,
    f: jax.Array | None,
) -> jax.Array:
    """A step as of `Attempt`, (5, k), or its first two rows; JAX-traceable.

    Parameters
    ----------
    rate : (s, y) -> dy/ds (k,).
    sizes : (s, y) -> expected sizes of the components, (k,); None if only the step is needed.
    s, h : the time at which the step begins, and its length.
    y, f : (k,) the state there and its rate; None if the rate is to be computed.
    """
    weights, nodes, errors = map(jnp.asarray, (A, C, E))

    def stage(i: jax.Array, K: jax.Array) -> jax.Array:
        return K.at[i].set(rate(s + nodes[i] * h, y + h * (weights[i] @ K)))

    K = jnp.zeros((len(C), len(y)))
    if f is not None:
        K = K.at[0].set(f)
    K = jax.lax.fori_loop(0 if f is None else 1, len(C), stage, K)
    new = y + h * (weights[-1] @ K)
    if sizes is None:
        return jnp.stack([new, K[-1]])
    return jnp.concatenate([jnp.stack([new, K[-1]]), errors @ K, sizes(s + h, new)[None]])


def numpy_attempt(rate: Rate, sizes: Callable[[float, Array], Array]) -> Attempt:
    """A step with NumPy functions.

    Parameters
    ----------
    rate : (s, y, out) writes dy/ds to out (k,).
    sizes : (s, y) -> expected sizes of the components, (k,).
    """

    def attempt(s: float, h: float, y: Array, f: Array) -> Array:
        K, found = np.empty((len(C), len(y))), np.empty((5, len(y)))
        found[:], new = y, y
        if h == 0.0:
            rate(s, y, found[1])
            return found
        K[0] = f
        for stage, row in enumerate(_ROWS[1:], 1):
            new = y + h * row.dot(K[:stage])
            rate(s + C[stage] * h, new, K[stage])
        found[0], found[1], found[4] = new, K[-1], sizes(s + h, new)
        found[2:4] = E @ K
        return found

    return attempt


def numpy_attempts(
    rates: Callable[[NDArray[np.int64], Array, Array], Array],
) -> Callable[[NDArray[np.int64], Array, Array, Array, Array], Array]:
    """Steps of several motions with a NumPy function, as `driver.follow` takes them.

    Parameters
    ----------
    rates : (which motions (w,), s (w,), y (w, k)) -> dy/ds (w, k).
    """

    def attempts(which: NDArray[np.int64], s: Array, h: Array, y: Array, f: Array) -> Array:
        if not h.any():
            return np.stack([y, rates(which, s, y), y, y, y])
        K, new = np.empty((len(C), *y.shape)), y
        K[0] = f
        for stage, row in enumerate(_ROWS[1:], 1):
            new = y + h[:, None] * np.tensordot(row, K[:stage], 1)
            K[stage] = rates(which, s + C[stage] * h, new)
        return np.stack([new, K[-1], *np.tensordot(E, K, 1), np.abs(new)])

    return attempts
