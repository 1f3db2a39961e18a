"""Solutions of loops by their definition, in JAX, for closures that are users' functions and for traced code.

A solution is the vector [q_s | G | LG] of `cluster_packing`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from connections.geometry.compilation import compiled

if TYPE_CHECKING:
    from connections.multibody.loops.closed_kinematics import ClosedKinematics


class Refused(Exception):
    """The input was refused. The caller that catches this finds out why."""


class Definition:
    """The results of `loop_continuation` and `loop_bias_rates`, computed by JAX.

    Parameters
    ----------
    closed : the kinematics of the mechanism.
    spans : (nv_s, 4), as `loop_solutions._spans` gives it; only the first two columns are used.

    Attributes
    ----------
    places : flat numbers of the entries of G (nv_s, nv) and of LG (nv_s, nv, nv) that a solution holds.
    """

    def __init__(self, closed: ClosedKinematics, spans: np.ndarray) -> None:
        self._closed, self.places = closed, _places(spans, closed.nv)

    def packed_solution_at(self, q: jax.Array) -> jax.Array:
        """The solution (size,) at q (nq,), NaN where q is off the manifold; JAX-traceable."""
        frame, (in_G, in_LG) = self._closed.joint_frame, self.places
        q_s, G, LG = self._closed.closure_at(frame.project_at(q))
        solution = jnp.concatenate([q_s, G.ravel()[in_G], LG.ravel()[in_LG]])
        return jnp.where(frame.near_at(q), solution, jnp.nan)

    def solve(self, q: np.ndarray) -> np.ndarray:
        """The solutions (size,) or (m, size) at q (nq,) or (m, nq).

        Raises
        ------
        Refused : loops do not close, or are singular.
        """
        if q.ndim == 1:
            solution = np.array(self._one(q))
        elif not len(q):
            return np.zeros((0, self._closed.spanning.nq + sum(map(len, self.places))))
        else:  # JAX compiles for each number of rows; with only powers of two, that is seldom
            count = len(q)
            repeated = q[np.minimum(np.arange(1 << (count - 1).bit_length()), count - 1)]
            solution = np.array(self._many(repeated)[:count])
        if not np.isfinite(solution).all():
            raise Refused
        return solution

    def bias_rates(self, solution: np.ndarray, v: np.ndarray) -> np.ndarray:
        """L_j (L_v G) v for every j, laid out as G in a solution, (k,) or rows (m, k)."""
        q_s, in_G = solution[..., : self._closed.spanning.nq], self.places[0]
        rows = zip(np.atleast_2d(q_s), np.atleast_2d(v), strict=True)
        turned = [np.asarray(self._bias_rates(*row)).ravel()[in_G] for row in rows]
        return np.array(turned).reshape(*v.shape[:-1], len(in_G))

    @cached_property
    def _one(self) -> Callable[[np.ndarray], jax.Array]:
        return compiled(self.packed_solution_at)

    @cached_property
    def _many(self) -> Callable[[np.ndarray], jax.Array]:
        return compiled(jax.vmap(self.packed_solution_at))

    @cached_property
    def _bias_rates(self) -> Callable[[np.ndarray, np.ndarray], jax.Array]:
        """(q_s, v) -> L_j (L_v G) v for every j, (nv_s, nv)."""
        closed = self._closed

        def at(q_s: jax.Array, v: jax.Array) -> jax.Array:
            rate = closed.joint_frame.lie_derivative_at(
                lambda q: closed.closure_at(q)[2] @ v @ v, q_s[closed.q_columns]
            )
            return rate.T

        return compiled(at)


def _places(spans: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    G, LG = [], []
    for s, (first, count, _, _) in enumerate(spans.tolist()):
        columns = range(first, first + count)
        G += [s * n + k for k in columns]
        LG += [(s * n + j) * n + k for j in columns for k in columns]
    return np.array(G, dtype=np.int64), np.array(LG, dtype=np.int64)
