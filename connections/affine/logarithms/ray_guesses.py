"""Guesses for a logarithm: geodesics in all directions from q0, where they come near q1.

No shortest geodesic is longer than the straight line in the coordinates, so a fan of that radius is enough.
Pairs of points that share q0 share the fan. Each pair adds a ray in the direction of its straight line.
"""

from __future__ import annotations

from functools import cache
from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.logarithms.chord_guesses import Chords
from connections.affine.logarithms.misses import distance
from connections.affine.logarithms.shooting import ROUGH, Shooting, on

_TIMES = np.linspace(0.0, 1.0, 65)  # at which rays are compared with q1
_BEYOND = 1.05  # radius of the fan over the length of the longest straight line
_APART = 0.3  # guesses that differ by less, relative to the longer one, count as one


def by_fan(
    chords: Chords, pairs: np.ndarray, rays: int, most: int | None, length: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Initial velocities of geodesics that pass near q1.

    Parameters
    ----------
    chords : the pairs of points.
    pairs : (p,) indices of the pairs that are searched.
    rays : number of directions.
    most : the largest number of guesses for one pair; None for all.
    length : the least radius of the fans, if it is longer than the straight lines.

    Returns
    -------
    (c,) the pair of each guess, and (c, n) its components in the orthonormal basis at q0.
    """
    _, first, group = np.unique(chords.start.q[pairs], axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    radius = np.full(len(first), length)
    np.maximum.at(radius, group, chords.length[pairs])
    fans = _BEYOND * radius[:, None, None] * directions(chords.shooting.n, rays)
    own = _BEYOND * chords.velocity[pairs]
    sources = np.concatenate([np.repeat(pairs[first], fans.shape[1]), pairs])
    velocities = np.concatenate([fans.reshape(-1, own.shape[1]), own])
    paths = _paths(chords, sources, velocities)
    grams = chords.shooting.mapped(_gram_of_rates_at, paths.reshape(-1, paths.shape[2]))
    grams = grams.reshape(*paths.shape, -1)
    found = []
    for index, (pair, here) in enumerate(zip(pairs, group, strict=True)):
        rays_of_pair = np.append(here * fans.shape[1] + np.arange(fans.shape[1]), index - len(pairs))
        found.append(_nearest(chords, pair, *(a[rays_of_pair] for a in (velocities, paths, grams)))[:most])
    return np.repeat(pairs, [len(w) for w in found]), np.concatenate(found)


@cache
def directions(n: int, count: int) -> np.ndarray:
    """Unit vectors (count, n) in all directions, evenly, each with its opposite; always the same.

    In more than two dimensions: points that fill a cube evenly, as a normal distribution scatters them.
    """
    if n <= 2:
        around = count if n == 2 else 2
        angle = 2.0 * np.pi * np.arange(around) / around
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)[:, :n]
    normal = np.vectorize(NormalDist().inv_cdf)(_even_points(n, count // 2))
    unit = normal / np.linalg.norm(normal, axis=1)[:, None]
    return np.concatenate([unit, -unit])


def _even_points(n: int, count: int) -> np.ndarray:
    """Points (count, n) of the unit cube: 1/2 + k (x^-1, .., x^-n) modulo 1, with x^(n + 1) = x + 1.

    For n = 1, x is the golden ratio, and no multiples of a number fill the interval more evenly.
    Source: M. Roberts, The unreasonable effectiveness of quasirandom sequences (2018).
    """
    x = 2.0
    for _ in range(64):
        x = (1.0 + x) ** (1.0 / (n + 1))
    return (0.5 + np.arange(1, count + 1)[:, None] * x ** -np.arange(1.0, n + 1)) % 1.0


# --- private -----------------------------------------------------------------------------------------------


def _gram_of_rates_at(shooting: Shooting, q: jax.Array) -> jax.Array:
    nabla = shooting.nabla
    p = nabla.frame.project_at(q)
    dual = nabla.frame.dual_at(p)
    return dual.T @ nabla.gram_at(p) @ dual


def _paths(chords: Chords, pairs: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Points (c, 65, nq) of geodesics at equal times, by cubic interpolation; NaN where one has failed."""
    start = chords.start.take(pairs)
    pieces = chords.shooting.geodesics(start, on(start.basis, w), ROUGH, keep=True).pieces
    if not len(pieces.row):
        return np.full((len(w), len(_TIMES), chords.shooting.nq), np.nan)
    ray = np.arange(len(w))[:, None]
    at = np.searchsorted(2.0 * pieces.row + pieces.t, 2.0 * ray + _TIMES, side="right") - 1
    h = pieces.h[at][..., None]
    x = (_TIMES - pieces.t[at])[..., None] / h
    x = np.where((pieces.row[at] != ray)[..., None] | (x > 1.0 + 1e-9), np.nan, x)
    (a, b), (da, db) = (np.moveaxis(ends[at], 2, 0) for ends in (pieces.q, pieces.q_dot))
    bend = (1.0 - x) * (h * da - (b - a)) + x * ((b - a) - h * db)
    points: np.ndarray = a + x * (b - a) + x * (1.0 - x) * bend
    return points


def _nearest(chords: Chords, pair: int, w: np.ndarray, paths: np.ndarray, grams: np.ndarray) -> np.ndarray:
    """Velocities of the rays w (r, n), scaled to end at the ray's point nearest to q1; the nearest first."""
    measures = (array[pair] for array in chords.end[:4])
    miss = chords.shooting.compiled(_misses_at)(paths, grams, *measures)
    miss = np.nan_to_num(np.asarray(miss), nan=np.inf)
    after = np.pad(miss[:, 2:], ((0, 0), (0, 1)), constant_values=np.inf)
    here = miss[:, 1:]
    rays, times = np.nonzero((here <= miss[:, :-1]) & (here <= after) & np.isfinite(here))
    order = np.argsort(here[rays, times])
    velocity = (w[rays] * _TIMES[times + 1, None])[order]
    size, chosen = np.linalg.norm(velocity, axis=1), []
    free = np.ones(len(size), dtype=bool)
    while free.any():
        chosen.append(int(np.argmax(free)))
        gap = np.linalg.norm(velocity - velocity[chosen[-1]], axis=1)
        free &= gap > _APART * np.maximum(size, size[chosen[-1]])
    return velocity[chosen]


def _misses_at(
    shooting: Shooting, points: jax.Array, grams: jax.Array, q1: jax.Array, *measures: jax.Array
) -> jax.Array:
    """The larger of the distances measured at q1 and at the rays' points (r, 65, nq)."""
    align = shooting.nabla.frame.align_at
    gap = jax.vmap(jax.vmap(align, (0, None)), (0, None))(points, q1) - q1[None, None]
    there = jnp.sqrt(jnp.einsum("rta,rtab,rtb->rt", gap, grams, gap))
    return jnp.maximum(distance(gap, q1, *measures), there)
