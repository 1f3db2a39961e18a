"""Straight lines in the coordinates from q0 to q1, projected: the first guesses of a logarithm."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.logarithms.shooting import Ground, Shooting, on

_FINE = np.linspace(0.0, 1.0, 129)


class Chords:
    """The straight lines of pairs of points.

    Parameters
    ----------
    shooting : the connection's geodesics.
    start, end : the points q0 (m, nq) and q1 (m, nq).

    Attributes
    ----------
    aim : (m, nq) the representatives of q1 that are nearest to q0.
    length : (m,) lengths of the lines, up to where they leave the domain; no shortest geodesic is longer.
    velocity : (m, n) vectors at q0 with the lines' directions and lengths, in the orthonormal basis there.
    """

    def __init__(self, shooting: Shooting, start: Ground, end: Ground) -> None:
        self.shooting, self.start, self.end = shooting, start, end
        self.aim, pieces = shooting.mapped(_chord_at, start.q, end.q)
        # From q0 to the parameters `_FINE`, (m, 129).
        self._travelled = np.pad(np.cumsum(np.nan_to_num(pieces), axis=1), ((0, 0), (1, 0)))
        self.length = self._travelled[:, -1]
        towards = on(start.root, on(start.dual, self.aim - start.q))
        size = np.linalg.norm(towards, axis=1)
        self.velocity = towards * (self.length / np.where(size > 0.0, size, 1.0))[:, None]

    def nodes(self, pair: int, count: int) -> Ground:
        """Frame and metric at `count` points on one line at equal distances."""
        travelled = self._travelled[pair]
        s = np.interp(np.linspace(0.0, travelled[-1], count), travelled, _FINE)
        line = self.start.q[pair] + s[:, None] * (self.aim - self.start.q)[pair]
        return self.shooting.ground(line)


def _chord_at(shooting: Shooting, q0: jax.Array, q1: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The representative of q1 that is nearest to q0, and the lengths of the line's pieces (128,)."""
    nabla, frame = shooting.nabla, shooting.nabla.frame
    aim = frame.align_at(q1, q0)

    def point(s: jax.Array) -> jax.Array:
        return frame.project_at(q0 + s * (aim - q0))

    def length(middle: jax.Array, step: jax.Array) -> jax.Array:
        v = frame.dual_at(middle) @ step
        return jnp.sqrt(v @ nabla.gram_at(middle) @ v)

    ends, middles = (
        jax.vmap(point)(s) for s in (jnp.asarray(_FINE), jnp.asarray(_FINE[1:] + _FINE[:-1]) / 2.0)
    )
    return aim, jax.vmap(length)(middles, jnp.diff(ends, axis=0))
