"""A step of the method, judged: for one motion in JAX and in NumPy, for several motions in NumPy."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from connections.integration.dop853 import A_DENSE, C_DENSE, A, C, E
from connections.integration.tolerances import StateLayout, with_error_ratios

Array = NDArray[np.float64]
Rate = Callable[[float, Array, Array], None]  # (s, y, out)
# A step. (s, h, y, dy/ds) -> (6, k): y at s + h, dy/ds there, two estimates of the step's error over h, the
# units of the components of y, and what is conserved: its value first, its scale last, zeros if nothing is.
Attempt = Callable[[float, float, Array, Array], Array]

_ROWS = [A[stage, :stage].copy() for stage in range(len(C))]


def step_at(
    rate: Callable[[jax.Array, jax.Array], jax.Array],
    scales: Callable[[jax.Array, jax.Array], jax.Array] | None,
    s: jax.Array,
    h: jax.Array,
    y: jax.Array,
    f: jax.Array | None,
) -> jax.Array:
    """A step as of `Attempt`, (6, k), or its first two rows; JAX-traceable.

    Parameters
    ----------
    rate : (s, y) -> dy/ds (k,).
    scales : (s, y) -> units of the components and what is conserved, (2, k); None if only the step is needed.
    s, h : the time at which the step begins, and its length.
    y, f : (k,) the state there and its rate; None if the rate is to be computed.
    """
    K = stages_at(rate, s, h, y, f)
    new = y + h * (jnp.asarray(A[-1]) @ K)
    if scales is None:
        return jnp.stack([new, K[-1]])
    return jnp.concatenate([jnp.stack([new, K[-1]]), jnp.asarray(E) @ K, scales(s + h, new)])


def stages_at(
    rate: Callable[[jax.Array, jax.Array], jax.Array],
    s: jax.Array,
    h: jax.Array,
    y: jax.Array,
    f: jax.Array | None,
    dense: bool = False,
) -> jax.Array:
    """The rates at the stages of a step, (13, k), or (16, k) for dense output; arguments as of `step_at`."""
    weights, nodes = (A_DENSE, C_DENSE) if dense else (A, C)

    def stage(K: jax.Array, own: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        i, row, node = own
        f = rate(s + node * h, y + (h * row) @ K)
        return jax.lax.dynamic_update_index_in_dim(K, f.astype(K.dtype), i, 0), None

    K, first = jnp.zeros((len(nodes), len(y))), 0 if f is None else 1
    if f is not None:
        K = K.at[0].set(f)
    rows = jnp.arange(first, len(nodes)), jnp.asarray(weights[first:]), jnp.asarray(nodes[first:])
    return jax.lax.scan(stage, K, rows)[0]


def numpy_attempt(rate: Rate, scales: Callable[[float, Array], Array]) -> Attempt:
    """A step with NumPy functions.

    Parameters
    ----------
    rate : (s, y, out) writes dy/ds to out (k,).
    scales : (s, y) -> units of the components, and what is conserved, (2, k).
    """

    def attempt(s: float, h: float, y: Array, f: Array) -> Array:
        K, found = np.empty((len(C), len(y))), np.zeros((6, len(y)))
        found[0], new = y, y
        if h == 0.0:
            rate(s, y, found[1])
            found[4:] = scales(s, y)
            return found
        K[0] = f
        for stage, row in enumerate(_ROWS[1:], 1):
            new = y + h * row.dot(K[:stage])
            rate(s + C[stage] * h, new, K[stage])
        found[0], found[1], found[4:] = new, K[-1], scales(s + h, new)
        found[2:4] = E @ K
        return found

    return attempt


def numpy_attempts(
    rates: Callable[[NDArray[np.int64], Array, Array], Array],
) -> Callable[[NDArray[np.int64], Array, Array, Array, Array], Array]:
    """Steps of several motions with a NumPy function, (6, w, k); every component has the unit one.

    Parameters
    ----------
    rates : (which motions (w,), s (w,), y (w, k)) -> dy/ds (w, k).
    """

    def attempts(which: NDArray[np.int64], s: Array, h: Array, y: Array, f: Array) -> Array:
        if not h.any():
            nothing = np.zeros_like(y)
            return np.stack([y, rates(which, s, y), nothing, nothing, np.ones_like(y), nothing])
        K, new = np.empty((len(C), *y.shape)), y
        K[0] = f
        for stage, row in enumerate(_ROWS[1:], 1):
            new = y + h[:, None] * np.tensordot(row, K[:stage], 1)
            K[stage] = rates(which, s + C[stage] * h, new)
        return np.stack([new, K[-1], *np.tensordot(E, K, 1), np.ones_like(y), np.zeros_like(y)])

    return attempts


def judging(
    attempts: Callable[[NDArray[np.int64], Array, Array, Array, Array], Array],
    scales: Array,
    layout: StateLayout,
    tolerances: tuple[float, float],
) -> Callable[[NDArray[np.int64], Array, Array, Array, Array], Array]:
    """Steps of several motions, judged in NumPy, as `driver.follow` takes them.

    Parameters
    ----------
    attempts : (which motions (w,), s (w,), h (w,), y (w, k), dy/ds (w, k)) -> (6, w, k), as of `Attempt`.
    scales, layout, tolerances : as of `tolerances.with_error_ratios`; scales (2, m, k) of all motions.
    """

    def attempt(which: NDArray[np.int64], s: Array, h: Array, state: Array, clock_error: Array) -> Array:
        y, f = np.ascontiguousarray(state[:2])  # compiled code is typed for such arrays
        found = attempts(which, s, h, y, f)
        elapsed, step = np.abs(s + h)[:, None], np.abs(h)[:, None]
        judgement: Array = with_error_ratios(
            found, state, scales[:, which], layout, elapsed, step, clock_error[:, None], tolerances
        )
        return judgement

    return attempt


def plain_layout(k: int) -> StateLayout:
    """A layout of k components that are no coordinates of a point, in one group."""
    return StateLayout(np.zeros(k, dtype=bool), (slice(0, k),))
