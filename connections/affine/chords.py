"""Straight lines in the coordinates from q0 to q1, projected: what a logarithm starts from."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from connections.affine.shooting import Ground, Shooting, on

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
    """

    def __init__(self, shooting: Shooting, start: Ground, end: Ground) -> None:
        self.shooting, self.start, self.end = shooting, start, end
        self.aim = shooting.mapped("align", shooting.nabla.frame.align_at, end.q, start.q)

    @cached_property
    def length(self) -> np.ndarray:
        """Lengths (m,), as far as the lines lie in the domain: no shortest geodesic is longer."""
        return self._travelled[:, -1]

    @cached_property
    def velocity(self) -> np.ndarray:
        """Velocities (m, n) at q0 with the lines' directions and lengths, in the orthonormal basis there."""
        towards = on(self.start.root, on(self.start.dual, self.aim - self.start.q))
        size = np.linalg.norm(towards, axis=1)
        velocity: np.ndarray = towards * (self.length / np.where(size > 0.0, size, 1.0))[:, None]
        return velocity

    def nodes(self, pair: int, count: int) -> np.ndarray:
        """Points (count, nq) on one line at equal distances."""
        travelled = self._travelled[pair]
        s = np.interp(np.linspace(0.0, travelled[-1], count), travelled, _FINE)
        points: np.ndarray = self._points(np.array([pair]), s)[0]
        return points

    # --- private -----------------------------------------------------------------------------------------

    def _points(self, pairs: np.ndarray, s: np.ndarray) -> np.ndarray:
        """At the parameters s (k,) from 0 to 1, (p, k, nq)."""
        points = self.start.q[pairs, None] + s[:, None] * (self.aim - self.start.q)[pairs, None]
        flat = points.reshape(-1, self.shooting.nq)
        nearest: np.ndarray = self.shooting.mapped("project", self.shooting.nabla.frame.project_at, flat)
        return nearest.reshape(points.shape)

    @cached_property
    def _travelled(self) -> np.ndarray:
        """Length of the lines from q0 to the parameters `_FINE`, (m, 129)."""
        everything = np.arange(len(self.aim))
        ends, middle = (self._points(everything, s) for s in (_FINE, (_FINE[1:] + _FINE[:-1]) / 2.0))
        ground = self.shooting.ground(middle.reshape(-1, self.shooting.nq))
        steps = np.diff(ends, axis=1).reshape(-1, self.shooting.nq)
        pieces = np.nan_to_num(np.linalg.norm(on(ground.root, on(ground.dual, steps)), axis=1))
        return np.pad(np.cumsum(pieces.reshape(len(ends), -1), axis=1), ((0, 0), (1, 0)))
