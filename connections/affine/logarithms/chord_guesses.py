"""Straight lines in the coordinates from q0 to q1, projected: the first guesses of a logarithm."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.logarithms.shooting import Ground, Shooting, on
from connections.geometry.lattices import nearby

_PIECES = 128
_NORMAL = 1e-9  # the tangent part of a line over its length: a smaller one is none
_ROUNDS = 10  # in each, pieces of equal length by the lengths measured before: a scale of 1e40 is resolved


class Chords:
    """The straight lines of pairs of points.

    Parameters
    ----------
    shooting : the connection's geodesics.
    start, end : the points q0 (m, nq) and q1 (m, nq).

    Attributes
    ----------
    aim : (m, nq) the representatives of q1 that are nearest to q0, in the metric there.
    length : (m,) lengths of the lines, up to where they leave the domain; no shortest geodesic is longer.
    velocity : (m, n) vectors at q0 with the lines' directions and lengths, in the orthonormal basis there.
    """

    def __init__(self, shooting: Shooting, start: Ground, end: Ground) -> None:
        self.shooting, self.start, self.end = shooting, start, end
        aim = shooting.mapped(_aligned_at, start.q, end.q)
        aim = aim + _turns_to_nearest(shooting.nabla.frame.periods, start, aim)
        self.aim, self._bend, self._places, pieces = shooting.mapped(_chord_at, start.q, aim)
        # From q0 to the parameters `_places`, (m, 129).
        self._travelled = np.pad(np.cumsum(np.nan_to_num(pieces), axis=1), ((0, 0), (1, 0)))
        self.length = self._travelled[:, -1]
        towards = on(start.root, on(start.dual, self.aim - start.q + self._bend))
        size = np.linalg.norm(towards, axis=1)
        self.velocity = towards * (self.length / np.where(size > 0.0, size, 1.0))[:, None]

    def nodes(self, pair: int, parts: np.ndarray) -> Ground:
        """Frame and metric at points on one line, at these parts (k,) of its length."""
        travelled = self._travelled[pair]
        s = np.interp(travelled[-1] * parts, travelled, self._places[pair])
        ahead, bend = (self.aim - self.start.q)[pair], self._bend[pair]
        return self.shooting.ground(self.start.q[pair] + s[:, None] * (ahead + (1.0 - s)[:, None] * bend))


def _aligned_at(shooting: Shooting, q0: jax.Array, q1: jax.Array) -> jax.Array:
    """The representative of q1 (nq,) whose coordinates are nearest to those of q0."""
    return shooting.nabla.frame.align_at(q1, q0)


def _chord_at(shooting: Shooting, q0: jax.Array, aim: jax.Array) -> tuple[jax.Array, ...]:
    """The line's end, its bend, parameters (129,), and lengths between them (128,).

    The line is straight, q0 + s d, unless d is normal to the manifold: projected, it would not lead from a
    point of a sphere to the opposite one. With the bend b it is q0 + s d + s (1 - s) b, b tangent at q0.

    Even pieces do not resolve a line along which lengths change by orders of magnitude, such as that
    from 1 to e^20 in the half plane. So the pieces are made equally long by the lengths found before.
    """
    nabla, frame = shooting.nabla, shooting.nabla.frame
    bend = jnp.zeros_like(q0)
    if frame.dim < frame.ambient_dim:
        X, ahead = frame.matrix_at(q0), aim - q0
        size, tangent = jnp.linalg.norm(ahead), X @ frame.dual_at(q0) @ ahead
        aside = size * X[:, 0] / jnp.linalg.norm(X[:, 0])
        bend = jnp.where(jnp.linalg.norm(tangent) < _NORMAL * size, aside, bend)

    def point(s: jax.Array) -> jax.Array:
        return frame.project_at(q0 + s * (aim - q0 + (1.0 - s) * bend))

    def length(middle: jax.Array, step: jax.Array) -> jax.Array:
        v = frame.dual_at(middle) @ step
        return jnp.sqrt(v @ nabla.gram_at(middle) @ v)

    def lengths(s: jax.Array) -> jax.Array:
        ends, middles = jax.vmap(point)(s), jax.vmap(point)((s[1:] + s[:-1]) / 2.0)
        return jax.vmap(length)(middles, jnp.diff(ends, axis=0))

    def evened(_: int, s: jax.Array) -> jax.Array:
        travelled = jnp.concatenate([jnp.zeros(1), jnp.cumsum(jnp.nan_to_num(lengths(s)))])
        return jnp.interp(travelled[-1] * jnp.asarray(_EVEN), travelled, s)

    s = jax.lax.fori_loop(0, _ROUNDS, evened, jnp.asarray(_EVEN))
    return aim, bend, s, lengths(s)


def _turns_to_nearest(periods: tuple[float | None, ...], start: Ground, aim: np.ndarray) -> np.ndarray:
    """Whole periods (m, nq) that lead from these representatives to those nearest to q0 in the metric there.

    They are none where the periods are orthogonal, and where too many images would have to be tried
    (`MOST_IMAGES`, after the lattice is reduced). Of a constant metric, the nearest one is the end of the
    shortest geodesic.
    """
    turning = [index for index, period in enumerate(periods) if period is not None]
    added = np.zeros_like(aim)
    if len(turning) < 2:
        return added
    lengths = np.array([period or 0.0 for period in periods])
    for row, (q0, q1) in enumerate(zip(start.q, aim, strict=True)):
        to_orthonormal = start.root[row] @ start.dual[row]
        vectors, ahead = (to_orthonormal * lengths)[:, turning], to_orthonormal @ (q1 - q0)
        products = np.abs(vectors.T @ vectors)
        if not (np.isfinite(ahead).all() and np.isfinite(vectors).all()):
            continue
        if (products - np.diag(np.diag(products)) <= _NORMAL * np.diag(products).min()).all():
            continue
        turns = nearby(vectors, ahead, float(np.linalg.norm(ahead)))
        if turns is None or not len(turns):
            continue
        nearest = turns[np.argmin(np.linalg.norm(turns @ vectors.T + ahead, axis=1))]
        added[row, turning] = nearest * lengths[turning]
    return added


_EVEN = np.linspace(0.0, 1.0, _PIECES + 1)
