"""Curves of least energy from q0 to q1: guesses with which a logarithm begins, in any dimension.

A curve is the straight line in the coordinates, at constant speed, plus a sine series in an orthonormal
basis,

    x(s) = chord(s) + length E(s) sum_k y_k sin(k pi s) / (k pi).

Its energy is the mean of |xdot|^2 / 2. In a flat space the energy is a constant plus a multiple of ||y||^2.
In a curved space it is close to that, so L-BFGS needs few steps. A curve of least energy is a geodesic of the
metric up to the truncation of the series, and its initial velocity is accurate enough for Newton's method.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.logarithms.chord_guesses import Chords
from connections.affine.logarithms.shooting import Shooting

_MODES, _PIECES, _STEPS = 16, 32, 100
_ONE = 0.02  # curves count as equal if their initial velocities differ by less, relative to their size
_BEND = 1.0  # norm of the random series of bent starts


class Curves(NamedTuple):
    """Curves of least energy.

    Parameters
    ----------
    pair : (c,) index of each curve's pair of points.
    w : (c, n) initial velocities in the orthonormal basis at q0.
    points : (c, 33, nq) points at equal times.
    """

    pair: np.ndarray
    w: np.ndarray
    points: np.ndarray


def by_relaxation(chords: Chords, pairs: np.ndarray, starts: int) -> Curves:
    """Distinct curves of least energy.

    Parameters
    ----------
    chords : the pairs of points.
    pairs : (p,) indices of the pairs that are searched.
    starts : number of curves from which the minimization starts: the straight one, and others bent at random.
    """
    n, nq = chords.shooting.n, chords.shooting.nq
    rng, found = np.random.default_rng(0), []
    # Random series: mode k has size 1 / k, so that bent starts are smooth. The first start stays straight.
    bends = rng.standard_normal((starts, _MODES, n)) / np.arange(1, _MODES + 1)[:, None]
    bends *= _BEND / np.sqrt(n) * (np.arange(starts) > 0)[:, None, None]
    for pair in pairs:
        # Nodes on the chord, and length E there, which maps a series to displacements in coordinates.
        ground = chords.nodes(pair, np.linspace(0.0, 1.0, _PIECES + 1))
        points, along = ground.q, chords.length[pair] * (ground.frame @ ground.basis)
        mine: list[tuple[int, np.ndarray, np.ndarray]] = []
        for bend in bends:
            y = _least_energy_series(chords, points, along, bend, chords.length[pair] ** 2)
            # At s = 0 the derivative of sin(k pi s) / (k pi) is 1: every mode adds its y_k to the velocity.
            w = chords.velocity[pair] + chords.length[pair] * y.sum(axis=0)
            # Several starts may end in one minimum, which is kept once.
            if all(np.linalg.norm(w - other) > _ONE * np.linalg.norm(other) for _, other, _ in mine):
                mine.append((pair, w, points + np.einsum("sqn,sk,kn->sq", along, _sines(), y)))
        found += mine
    if not found:
        return Curves(np.zeros(0, dtype=int), np.zeros((0, n)), np.zeros((0, _PIECES + 1, nq)))
    return Curves(*map(np.array, zip(*found, strict=True)))


# --- private -----------------------------------------------------------------------------------------------


def _least_energy_series(
    chords: Chords, points: np.ndarray, along: np.ndarray, bend: np.ndarray, size: float
) -> np.ndarray:
    """The series (modes, n) of least energy by L-BFGS, starting with `bend`."""
    from scipy.optimize import minimize

    energy = chords.shooting.compiled(_energy_and_slope_at)

    def value_and_slope(y: np.ndarray) -> tuple[float, np.ndarray]:
        # Over the squared length of the chord, so that L-BFGS's tolerance does not depend on units.
        value, slope = energy(y.reshape(bend.shape), points, along)
        return float(value) / size, np.asarray(slope).ravel() / size

    options = {"maxiter": _STEPS, "maxcor": 20, "gtol": 1e-5}
    y: np.ndarray = minimize(value_and_slope, bend.ravel(), jac=True, method="L-BFGS-B", options=options).x
    return y.reshape(bend.shape)


def _energy_and_slope_at(
    shooting: Shooting, y: jax.Array, points: jax.Array, along: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The energy of the curve with the series y (modes, n), and its gradient in y (modes, n)."""
    nabla = shooting.nabla
    frame = nabla.frame

    def piece(a: jax.Array, b: jax.Array) -> jax.Array:
        # |b - a|^2 by the midpoint rule: the metric is evaluated once per piece, halfway between its ends.
        middle = frame.project_at((a + b) / 2.0)
        v = frame.dual_at(middle) @ (b - a)
        return v @ nabla.gram_at(middle) @ v

    def energy(y: jax.Array, points: jax.Array, along: jax.Array) -> jax.Array:
        curve = points + jnp.einsum("sqn,sk,kn->sq", along, _sines(), y)
        curve = jax.vmap(frame.project_at)(curve)  # displacements in coordinates leave the manifold
        # Each piece lasts 1 / _PIECES, so the mean of |xdot|^2 is _PIECES times the sum of |b - a|^2.
        return 0.5 * _PIECES * jnp.sum(jax.vmap(piece)(curve[:-1], curve[1:]))

    return jax.value_and_grad(energy)(y, points, along)


@cache
def _sines() -> np.ndarray:
    """sin(k pi s) / (k pi) at the nodes, (nodes, modes)."""
    s, k = np.linspace(0.0, 1.0, _PIECES + 1)[:, None], np.arange(1, _MODES + 1)
    sines: np.ndarray = np.sin(np.pi * k * s) / (np.pi * k)
    return sines
