"""Splines through samples, as coefficients between knots: by SciPy, and in JAX for traced samples.

A spline may be cut at samples into parts, which are splines of their own and only meet there. The
knots of a part are its samples except (k - 1) / 2 samples beside each end ("not a knot"), k the degree. In
B-splines the conditions are a linear system of bandwidth k. It is totally positive, so it is solved without
pivoting. Source: C. de Boor, A Practical Guide to Splines (2001), chapters IX, X and XIII.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SPLINE_DEGREE = 5
CAPACITY = 64  # up to so many samples share compiled functions
_NEVER = np.finfo(np.float64).max  # the time at which unused pieces begin


def capacity(count: int) -> int:
    """The number of samples to which `count` is padded for compilation: 64, 256, 1024, ..."""
    room = CAPACITY
    while room < count:
        room *= 4
    return room


def degree_of(count: int) -> int:
    """The degree of the spline through so many samples: 5, less for fewer than six, always odd."""
    return min(SPLINE_DEGREE, (count - 2) // 2 * 2 + 1)


def spline(t: np.ndarray, q: np.ndarray, cuts: Sequence[int] = ()) -> tuple[np.ndarray, np.ndarray]:
    """The spline through samples t (S,), q (..., S, nq).

    Parameters
    ----------
    cuts : indices of samples at which it is cut, increasing, without the first and the last.

    Returns
    -------
    knots : (m + 1,) times at which pieces begin, and at which the last one ends.
    pieces : (..., 6, m, nq) coefficients, of the highest power first.
    """
    found = [_part(t[part], q[..., part, :]) for part in parts(len(t), cuts)]
    return np.concatenate([*(knots[:-1] for knots, _ in found), t[-1:]]), np.concatenate(
        [pieces for _, pieces in found], axis=-2
    )


def padded(knots: np.ndarray, pieces: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """A spline through `count` samples, in as many pieces as their `capacity`."""
    room = capacity(count) - pieces.shape[-2]
    padding = [(0, 0)] * (pieces.ndim - 2) + [(0, room), (0, 0)]
    return np.concatenate([knots[:-1], np.full(room, _NEVER), knots[-1:]]), np.pad(pieces, padding)


def traced_spline(t: Any, q: Any, cuts: Sequence[int] = ()) -> tuple[jax.Array, jax.Array]:
    """Knots and pieces of `spline`, JAX-traceable; NaN unless t increases."""
    t, q = jnp.asarray(t, dtype=jnp.float64), jnp.asarray(q, dtype=jnp.float64)
    found = [_traced_part(t[part], q[..., part, :]) for part in parts(len(t), cuts)]
    knots = jnp.concatenate([*(knots[:-1] for knots, _ in found), t[-1:]])
    return knots, _sound(t) * jnp.concatenate([pieces for _, pieces in found], axis=-2)


def polyline(t: Any, q: Any, numpy: Any = np) -> tuple[Any, Any]:
    """Straight lines from sample to sample, as knots and pieces of `spline`; NaN unless t increases."""
    slopes = (q[..., 1:, :] - q[..., :-1, :]) / (t[1:] - t[:-1])[:, None]
    nothing = [numpy.zeros_like(slopes)] * (SPLINE_DEGREE - 1)
    pieces = numpy.stack([*nothing, slopes, q[..., :-1, :]], axis=-3)
    return t, pieces if numpy is np else _sound(t) * pieces


def parts(count: int, cuts: Sequence[int]) -> list[slice]:
    """The samples of each part of a spline through `count` samples that is cut."""
    ends = [0, *map(int, cuts), count - 1]
    return [slice(first, last + 1) for first, last in zip(ends[:-1], ends[1:], strict=True)]


def on_knots(knots: np.ndarray, pieces: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """The pieces (6, m, nq) of a spline, as pieces that begin at other knots, among which are its own."""
    index = np.maximum(np.searchsorted(knots[:-1], begins, side="right") - 1, 0)
    moved, offset = pieces[:, index].copy(), (begins - knots[index])[:, None]
    for last in range(len(moved) - 1, 0, -1):  # Horner's scheme divides by t - offset again and again
        for power in range(1, last + 1):
            moved[power] += offset * moved[power - 1]
    return moved


def _part(t: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The spline through all samples of a part."""
    from scipy.interpolate import make_interp_spline

    degree = degree_of(len(t))
    found = make_interp_spline(t, np.moveaxis(q, -2, 0), k=degree)
    knots = np.unique(found.t)
    rows = [found.derivative(m)(knots[:-1]) / math.factorial(m) for m in range(degree, 0, -1)]
    pieces = np.moveaxis(np.stack([*rows, found(knots[:-1])]), (0, 1), (-3, -2))
    padding = [(0, 0)] * (pieces.ndim - 3) + [(SPLINE_DEGREE - degree, 0), (0, 0), (0, 0)]
    return knots, np.pad(pieces, padding)


def _sound(t: jax.Array) -> jax.Array:
    """One; NaN unless t increases."""
    return jnp.where(jnp.all(jnp.diff(t) > 0.0), 1.0, jnp.nan)


def _traced_part(t: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The spline through all samples of a part, JAX-traceable."""
    count, k = len(t), degree_of(len(t))
    half = (k + 1) // 2
    T = jnp.concatenate([jnp.repeat(t[:1], k + 1), t[half : count - half], jnp.repeat(t[-1:], k + 1)])
    numbers = np.arange(count)
    interval = k + np.clip(numbers - half + 1, 0, count - 2 * half)  # of a sample: T[interval] <= t
    columns = (interval - numbers)[:, None] + np.arange(k + 1)
    rows = jnp.zeros((count, 2 * k + 1)).at[numbers[:, None], columns].set(_basis(T, interval, t, k))
    samples = jnp.moveaxis(q, -2, 0)
    c = _banded_solution(rows, samples.reshape(count, -1), k)

    begins = np.arange(k, count)
    powers = []
    for m in range(k + 1):  # c are the coefficients of the m-th derivative, from its m-th B-spline on
        weights = _basis(T, begins, T[begins], k - m)
        places = begins[:, None] - k + np.arange(k - m + 1)
        powers.append(jnp.einsum("ps,psd->pd", weights, c[places]) / math.factorial(m))
        if m < k:
            j = np.arange(m + 1, count)
            c = (k - m) * (c[1:] - c[:-1]) / (T[j + k - m] - T[j])[:, None]
    powers += [jnp.zeros_like(powers[0])] * (SPLINE_DEGREE - k)
    found = jnp.stack(powers[::-1]).reshape(SPLINE_DEGREE + 1, len(begins), *samples.shape[1:])
    return T[k : count + 1], jnp.moveaxis(found, (0, 1), (-3, -2))


def _basis(T: jax.Array, interval: np.ndarray, x: jax.Array, degree: int) -> jax.Array:
    """The B-splines that are not zero at x (N,), (N, degree + 1): those up to number `interval` (N,)."""
    values = [jnp.ones_like(x)]
    for r in range(1, degree + 1):
        raised = [jnp.zeros_like(x)] * (r + 1)
        for s, value in enumerate(values):
            left, right = T[interval + 1 - r + s], T[interval + s + 1]
            share = value / (right - left)
            raised[s] = raised[s] + (right - x) * share
            raised[s + 1] = (x - left) * share
        values = raised
    return jnp.stack(values, axis=1)


def _banded_solution(rows: jax.Array, b: jax.Array, k: int) -> jax.Array:
    """x (S, d) with A x = b; row i of `rows` (S, 2k + 1) are the columns i - k to i + k of A."""

    def eliminated(before: Any, row: Any) -> Any:
        """Eliminate in one row by the k rows before it, which begin at their pivots."""
        upper, sides = before
        a, side = row
        for j in range(k):
            share = a[j] / upper[j, 0]
            a = a.at[j : j + k + 1].add(-share * upper[j])
            side = side - share * sides[j]
        new = a[k:], side
        return (jnp.concatenate([upper[1:], new[0][None]]), jnp.concatenate([sides[1:], side[None]])), new

    def solved(after: jax.Array, row: Any) -> tuple[jax.Array, jax.Array]:
        upper, side = row
        x = (side - upper[1:] @ after) / upper[0]
        return jnp.concatenate([x[None], after[:-1]]), x

    nothing = jnp.zeros((k, b.shape[1]))
    ones = jnp.zeros((k, k + 1)).at[:, 0].set(1.0)
    _, triangular = jax.lax.scan(eliminated, (ones, nothing), (rows, b))
    x: jax.Array = jax.lax.scan(solved, nothing, triangular, reverse=True)[1]
    return x
