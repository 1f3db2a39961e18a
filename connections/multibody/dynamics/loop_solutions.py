"""The solutions of a closed chain's loops, by compiled code, or by JAX if closures are users' functions.

A solution of one configuration is the vector [q_s | G | LG] of `cluster_packing`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import ClosureError, raise_at
from connections.engines.arguments import plain
from connections.engines.workspaces import Workspaces, with_workspace
from connections.multibody.dynamics.closed_definition import Definition, Refused
from connections.multibody.dynamics.cluster_packing import solution_layout
from connections.multibody.dynamics.compiled import compiled
from connections.multibody.dynamics.loop_packing import pack_closure
from connections.multibody.loops.closed_kinematics import ClosedKinematics

_NO_GUESS, _NO_GUESSES = np.zeros(0), np.zeros((0, 0))


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


class Loops:
    """The solver of the loops of a mechanism.

    Parameters
    ----------
    closed : the kinematics of the mechanism.

    Attributes
    ----------
    closure : the flat array `CLOSURE`, workspace included.
    size, spanning_nq, G_size : how many numbers a solution has, its q_s, and its G.
    definition : the solutions by JAX.
    solvable : whether compiled code can solve the loops: no condition is a user's function.
    linear : whether all conditions are linear couplings, which every recursion solves itself.

    Single calls share a workspace; the interpreter's lock, which they do not release, keeps them apart.
    Pieces of batches have workspaces of their own, kept for later batches.
    """

    def __init__(self, closed: ClosedKinematics) -> None:
        self._closed, self.solvable = closed, not closed.functions
        self.linear = not closed.implicit_clusters.any()
        self.closure = pack_closure(closed)
        spans, self.size = _spans(closed)
        self.definition = Definition(closed, spans)
        self.spanning_nq, self.G_size = closed.spanning.nq, len(self.definition.places[0])
        self._copies = Workspaces(lambda: with_workspace(self.closure))

    def solve(self, q: np.ndarray) -> np.ndarray:
        """The solution (size,) at q (nq,).

        Raises
        ------
        Refused : q has another shape or is not finite, or a loop does not close or is singular.
        TypeError : q has another dtype (raised by Numba).
        """
        if not self.solvable:
            # JAX would accept other shapes and dtypes; the direct call must leave them to `Program.evaluate`.
            _accept(q.shape == (self._closed.nq,) and q.dtype == np.float64)
            return self.definition.solve(q)
        solution = np.empty(self.size)
        _accept(compiled.closure_at(self.closure, q, _NO_GUESS, solution) == 0)
        return solution

    def spanning_rows(self, q: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        """q_s (m, nq_s) at q (m, nq), followed from `start` (nq_s,) or the reference. Raises `Refused`."""
        if not self.solvable:
            start = self._closed.reference if start is None else start
            q_s = np.asarray(self._followed(q, start))
            _accept(bool(np.isfinite(q_s).all()))
            return q_s
        return self._solutions(q, _NO_GUESSES if start is None else plain(start[None]))[:, : self.spanning_nq]

    def solve_rows(self, q: np.ndarray) -> np.ndarray:
        """The solutions (m, size) at q (m, nq). Raises `Refused`."""
        return self._solutions(q, _NO_GUESSES) if self.solvable else self.definition.solve(q)

    def _solutions(self, q: np.ndarray, guesses: np.ndarray) -> np.ndarray:
        """The solutions (m, size) at q (m, nq) by compiled code, from `guesses`, (1, nq_s) or empty."""
        solution = np.empty((len(q), self.size))
        closure = self._copies.take()
        status = compiled.closure_rows(closure, q, guesses, solution)
        self._copies.give_back(closure)
        _accept(status == 0)
        return solution

    def bias_rates(self, solution: np.ndarray, v: np.ndarray) -> np.ndarray:
        """L_j (L_v G) v for every j, laid out as G in a solution, (G_size,). Raises `Refused`."""
        if not self.solvable:
            _accept(v.shape == (self._closed.nv,))
            return self.definition.bias_rates(solution, v)
        result = np.zeros(self.G_size)
        if not self.linear:
            _accept(v.shape == (self._closed.nv,))
            _accept(compiled.bias_rates_at(self.closure, solution, v, result))
        return result

    def bias_rates_rows(self, solution: np.ndarray, v: np.ndarray) -> np.ndarray:
        """`bias_rates` for rows of solutions (m, size) and velocities (m, nv), (m, G_size)."""
        if not self.solvable:
            return self.definition.bias_rates(solution, v)
        result = np.zeros((len(v), self.G_size))
        if not self.linear:
            closure = self._copies.take()
            good = compiled.bias_rates_rows(closure, solution, v, result)
            self._copies.give_back(closure)
            _accept(good)
        return result

    def dense(self, solution: np.ndarray) -> Solution:
        """Solutions (..., size) as full arrays."""
        batch, n, m = solution.shape[:-1], self._closed.nv, self._closed.spanning.nv
        in_G, in_LG = self.definition.places
        G, LG = np.zeros((*batch, m * n)), np.zeros((*batch, m * n**2))
        start = self.spanning_nq + self.G_size
        G[..., in_G], LG[..., in_LG] = solution[..., self.spanning_nq : start], solution[..., start:]
        q_s = solution[..., : self.spanning_nq].copy()
        return Solution(q_s, G.reshape(*batch, m, n), LG.reshape(*batch, m, n, n))

    def explain(self, q: np.ndarray) -> None:
        """Raise `ClosureError` if compiled code refuses loops at q (nq,), which the definition may close."""
        if not self.solvable:
            return
        status = compiled.closure_at(self.closure, plain(q), _NO_GUESS, np.empty(self.size))
        if 0 < abs(status) <= self._closed.clusters.count:
            rows = self._closed.rows
            owners = np.unique(rows.owners[rows.clusters == abs(status) - 1])
            names = ", ".join(f"'{self._closed.names[owner]}'" for owner in owners)
            how = "singular or nearly so" if status < 0 else "open"
            raise_at(ClosureError, f"what {names} ties together is {how}", q)

    @cached_property
    def _followed(self) -> Callable[[np.ndarray, np.ndarray], jax.Array]:
        """(q, start) -> q_s by the definition, for rows of q; NaN if q is off the manifold."""
        closed, frame = self._closed, self._closed.joint_frame

        def at(q: jax.Array, start: jax.Array) -> jax.Array:
            return jnp.where(frame.near_at(q), closed.spanning_from_at(frame.project_at(q), start), jnp.nan)

        return jax.jit(jax.vmap(at, in_axes=(0, None)))


def _spans(closed: ClosedKinematics) -> tuple[np.ndarray, int]:
    """For each spanning velocity: first column and number of columns of its cluster, and slots of G and LG.

    Also the size of a solution.
    """
    layout, starts = solution_layout(closed), np.asarray(closed.column_starts)
    cluster = closed.clusters.of_body[closed.spanning.body_of]
    columns = [starts[cluster], np.diff(starts)[cluster], layout.G, layout.LG]
    return np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.int64), layout.size


def _accept(good: bool) -> None:
    if not good:
        raise Refused
