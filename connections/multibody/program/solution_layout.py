"""Solutions of the loops at one configuration as vectors [ q_s | G | LG | pivot ]. Source: [W] VI-C.

A solution holds the spanning configuration; then for each spanning column s its row of G over the n columns
of its cluster; then for each s LG[s, j, k], (n, n), the derivative of G[s, k] along column j; then the least
pivot of K_d, which says how near the loops are to singular, and how many digits are lost (`tolerances`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from connections.multibody.loops.closed_kinematics import ClosedKinematics


class Solution(NamedTuple):
    """The solution of the loops at (...) configurations.

    Parameters
    ----------
    q : (..., nq_s) configurations of the spanning tree.
    G : (..., nv_s, nv); the velocities of the spanning tree are G v.
    LG : (..., nv_s, nv, nv); LG[s, j, k] is the derivative of G[s, k] along column j.
    """

    q: np.ndarray
    G: np.ndarray
    LG: np.ndarray


class SolutionLayout:
    """Where a solution holds its numbers.

    Parameters
    ----------
    closed : the kinematics of the mechanism.

    Attributes
    ----------
    G, LG : (nv_s,) the first slots of G and of LG, for every spanning column.
    widths : (nv_s,) n, the numbers of columns.
    nq, G_size, size : how many numbers are q_s, are G, and are in a solution.
    in_G, in_LG : flat numbers of the entries of G (nv_s, nv) and LG (nv_s, nv, nv) that a solution holds.
    """

    def __init__(self, closed: ClosedKinematics) -> None:
        cluster, n = closed.clusters.of_body[closed.spanning.body_of], closed.nv
        self.widths = np.diff(closed.column_starts)[cluster]
        self.nq, self._shape = closed.spanning.nq, (closed.spanning.nv, n)
        G = self.nq + np.cumsum([0, *self.widths])
        LG = G[-1] + np.cumsum([0, *self.widths**2])
        self.G, self.LG, self.G_size, self.size = G[:-1], LG[:-1], int(G[-1]) - self.nq, int(LG[-1]) + 1
        columns = [
            first + np.arange(width)
            for first, width in zip(closed.column_starts[cluster], self.widths, strict=True)
        ]
        rows = list(enumerate(columns))
        self.in_G = np.concatenate([s * n + k for s, k in rows])
        self.in_LG = np.concatenate([((s * n + k[:, None]) * n + k).ravel() for s, k in rows])

    def pack(self, q_s: Any, G: Any, LG: Any, pivot: Any) -> list[Any]:
        """The parts of the solution of one configuration, of NumPy's or JAX's arrays."""
        return [q_s, G.ravel()[self.in_G], LG.ravel()[self.in_LG], pivot.reshape(1)]

    def dense(self, solution: np.ndarray) -> Solution:
        """Solutions (..., size) as full arrays."""
        batch, (m, n) = solution.shape[:-1], self._shape
        G, LG = (np.zeros((*batch, size), dtype=solution.dtype) for size in (m * n, m * n**2))
        q_s, G[..., self.in_G], LG[..., self.in_LG], _ = np.split(
            solution, [self.nq, self.nq + self.G_size, self.size - 1], axis=-1
        )
        return Solution(q_s.copy(), G.reshape(*batch, m, n), LG.reshape(*batch, m, n, n))
