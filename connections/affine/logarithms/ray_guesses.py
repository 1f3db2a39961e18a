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
_SLACK = 1.5  # times the distance to the next ray: q1 may be between them, in a cell that is not quite flat
_WIDE = 0.5  # times half a piece of a ray: rays that are farther apart have others put between them
_HALVINGS = 4  # of the angle between two rays between which q1 may be, in two dimensions
_ONE_OF_ALL = 1e-3  # as `_APART`, where all geodesics are sought, relative to the longest


def by_fan(chords: Chords, pairs: np.ndarray, rays: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Initial velocities of geodesics that pass near q1.

    Parameters
    ----------
    chords : the pairs of points.
    pairs : (p,) indices of the pairs that are searched.
    rays : number of directions.
    most : the largest number of guesses for one pair.

    Returns
    -------
    (c,) the pair of each guess, and (c, n) its components in the orthonormal basis at q0.
    """
    _, first, group = np.unique(chords.start.q[pairs], axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    radius = np.zeros(len(first))
    np.maximum.at(radius, group, chords.length[pairs])
    fans = _BEYOND * radius[:, None, None] * directions(chords.shooting.n, rays)
    own = _BEYOND * chords.velocity[pairs]
    sources = np.concatenate([np.repeat(pairs[first], fans.shape[1]), pairs])
    velocities = np.concatenate([fans.reshape(-1, own.shape[1]), own])
    paths, grams = _measured_paths(chords, sources, velocities)
    found = []
    for index, (pair, here) in enumerate(zip(pairs, group, strict=True)):
        rays_of_pair = np.append(here * fans.shape[1] + np.arange(fans.shape[1]), index - len(pairs))
        found.append(_nearest(chords, pair, *(a[rays_of_pair] for a in (velocities, paths, grams)))[:most])
    return np.repeat(pairs, [len(w) for w in found]), np.concatenate(found)


def in_cells(chords: Chords, rays: int, radius: float) -> np.ndarray:
    """Initial velocities (c, n) of rays that end where q1 of the first pair may be between them and the next.

    That is so where a ray's point nearest to q1 is not farther from it than from the next rays' points. Two
    geodesics have different guesses, however near to each other they leave. In two dimensions the angles
    between such rays are halved, several times, because rays part where geodesics diverge.

    Parameters
    ----------
    rays : number of even directions. radius : the length of the rays.
    """
    n, radius = chords.shooting.n, _BEYOND * radius
    first, unit = np.zeros(rays, dtype=int), directions(n, rays)
    paths, grams = _measured_paths(chords, first[: len(unit)], radius * unit)
    if n != 2:
        rows, times, _ = _near_points(chords, paths, grams, _neighbours(n, rays))
        return _distinct(radius * unit[rows] * _TIMES[times, None], radius)
    angle = 2.0 * np.pi * np.arange(rays) / rays
    for left in reversed(range(_HALVINGS + 1)):
        place = np.arange(len(angle))
        beside = np.stack([np.roll(place, 1), np.roll(place, -1)], axis=1)
        rows, times, wide = _near_points(chords, paths, grams, beside)
        if not left or not wide.any():
            break
        near = np.zeros(len(angle), dtype=bool)
        near[rows[wide]] = True
        open_ = np.flatnonzero(near | np.roll(near, -1))
        halves = angle[open_] + np.diff(angle, append=angle[0] + 2.0 * np.pi)[open_] / 2.0
        unit = np.stack([np.cos(halves), np.sin(halves)], axis=1)
        added = _measured_paths(chords, np.zeros(len(halves), dtype=int), radius * unit)
        order = np.argsort(np.append(angle, halves))
        angle = np.append(angle, halves)[order]
        paths, grams = (np.concatenate(both)[order] for both in zip((paths, grams), added, strict=True))
    unit = np.stack([np.cos(angle[rows]), np.sin(angle[rows])], axis=1)
    return _distinct(radius * unit * _TIMES[times, None], radius)


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


def _measured_paths(chords: Chords, pairs: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`_paths`, and the Gram matrices of rates qdot there, (c, 65, nq, nq)."""
    paths = _paths(chords, pairs, w)
    grams = chords.shooting.mapped(_gram_of_rates_at, paths.reshape(-1, paths.shape[2]))
    return paths, grams.reshape(*paths.shape, paths.shape[2])


def _neighbours(n: int, count: int) -> np.ndarray:
    """The 2 n directions next to each of `directions`, (count, k); none on a line."""
    from scipy.spatial import KDTree

    unit = directions(n, count)
    found = KDTree(unit).query(unit, min(2 * n + 1, len(unit)))[1] if n > 1 else np.arange(len(unit))
    beside: np.ndarray = np.asarray(found).reshape(len(unit), -1)[:, 1:]
    return beside


def _near_points(
    chords: Chords, paths: np.ndarray, grams: np.ndarray, beside: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points that are as near to q1 as to the rays `beside` (r, k).

    (c,) each: which ray, the place in `_TIMES`, and whether the next ray is far for the length of a piece.
    """
    rays, times, miss = _minima(chords, 0, paths, grams)
    here = paths[rays, times][:, None]
    across = paths[beside[rays], times[:, None]] - here
    along = 0.5 * (here - paths[rays, times - 1][:, None])
    gaps = np.concatenate([across, along], axis=1)
    lengths = np.sqrt(np.einsum("cka,cab,ckb->ck", gaps, grams[rays, times], gaps))
    across, along = lengths[:, :-1].max(axis=1, initial=0.0), lengths[:, -1]
    near = ~(miss > _SLACK * np.hypot(across, along))  # also beside a ray that has ended
    return rays[near], times[near], ~(across < _WIDE * along)[near]


def _distinct(w: np.ndarray, radius: float) -> np.ndarray:
    """Velocities (c, n), one of each cell of the size `_ONE_OF_ALL` of the radius."""
    first = np.unique(np.round(w / (_ONE_OF_ALL * radius)), axis=0, return_index=True)[1]
    distinct: np.ndarray = w[first]
    return distinct


def _minima(
    chords: Chords, pair: int, paths: np.ndarray, grams: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where rays are nearest to q1: which ray, the place in `_TIMES`, and the distance; (c,) each."""
    measures = (array[pair] for array in chords.end[:4])
    miss = chords.shooting.compiled(_misses_at)(paths, grams, *measures)
    miss = np.nan_to_num(np.asarray(miss), nan=np.inf)
    after = np.pad(miss[:, 2:], ((0, 0), (0, 1)), constant_values=np.inf)
    here = miss[:, 1:]
    rays, times = np.nonzero((here <= miss[:, :-1]) & (here <= after) & np.isfinite(here))
    return rays, times + 1, here[rays, times]


def _nearest(chords: Chords, pair: int, w: np.ndarray, paths: np.ndarray, grams: np.ndarray) -> np.ndarray:
    """Velocities of the rays w (r, n), scaled to end at the ray's point nearest to q1; the nearest first."""
    rays, times, miss = _minima(chords, pair, paths, grams)
    order = np.argsort(miss)
    velocity: np.ndarray = (w[rays] * _TIMES[times, None])[order]
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
