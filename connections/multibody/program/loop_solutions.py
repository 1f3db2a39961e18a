"""The solutions of a closed chain's loops, by compiled code, or by JAX if closures are users' functions."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from connections.checks import ClosureError, raise_at
from connections.engines.arguments import plain
from connections.engines.workspaces import Workspaces, with_workspace
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.program.closed_definition import Definition, Refused
from connections.multibody.program.closure_conditions import HostConditions
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.loop_packing import pack_closure
from connections.multibody.program.solutions import SolutionLayout

_REFERENCE = np.zeros(0)  # as the start of a path


class Loops:
    """The solver of the loops of a mechanism; a solution is a vector (`SolutionLayout`).

    Parameters
    ----------
    closed : the kinematics of the mechanism.

    Attributes
    ----------
    closure : the flat array `CLOSURE`, workspace included.
    layout : of the solutions.
    size : how many numbers a solution has.
    definition : the solutions by JAX.
    solvable : whether compiled code can solve the loops: no condition is a user's function.
    linear : whether all conditions are linear couplings, which every recursion solves itself.

    Single calls share a workspace; the interpreter's lock, which they do not release, keeps them apart.
    Pieces of batches have workspaces of their own, kept for later batches.
    """

    def __init__(self, closed: ClosedKinematics) -> None:
        self._closed, self.solvable = closed, not closed.functions
        self.linear = not closed.implicit_clusters.any()
        self.closure, self.layout = pack_closure(closed), SolutionLayout(closed)
        self.size, self.definition = self.layout.size, Definition(closed, self.layout)
        self._nothing = np.zeros(self.layout.G_size)
        self._copies = Workspaces(lambda: with_workspace(self.closure))

    def solve(self, q: np.ndarray) -> np.ndarray:
        """The solutions (size,) or (m, size) at q (nq,) or (m, nq).

        Raises
        ------
        Refused : q has another shape or is not finite, or a loop does not close or is singular.
        TypeError : q has another dtype (raised by Numba).
        """
        if self.solvable:
            return self._solutions(q, _REFERENCE)
        # JAX would accept other shapes and dtypes; the direct call must leave them to `Program.evaluate`.
        _accept(q.shape[-1:] == (self._closed.nq,) and q.dtype == np.float64)
        return self.definition.solve(q)

    def spanning(self, q: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        """q_s (m, nq_s) at q (m, nq), followed from `start` (nq_s,) or the reference. Raises `Refused`."""
        if not self.solvable:
            return self.definition.spanning(q, self._closed.reference if start is None else start)
        return self._solutions(q, _REFERENCE if start is None else plain(start))[:, : self.layout.nq]

    def follow(self, q: np.ndarray) -> np.ndarray:
        """q_s (nq_s,) at q (nq,), NaN if loops do not close."""
        try:
            return self.spanning(q[None], None).reshape(-1)
        except Refused:
            return np.full(self.layout.nq, np.nan)

    def derivative(self, q_s: np.ndarray) -> np.ndarray:
        """K (p, nv_s) of the conditions of implicit clusters at q_s (nq_s,)."""
        return self._conditions.at(q_s)[1]

    def bias_rates(self, solution: np.ndarray, v: np.ndarray) -> np.ndarray:
        """L_j (L_v G) v for every j, laid out as G in a solution, (G_size,); or for rows of both.

        Raises
        ------
        Refused : a loop is singular, or v has another size.
        """
        if self.linear:
            return self._nothing if v.ndim == 1 else np.zeros((len(v), self.layout.G_size))
        _accept(v.shape[-1:] == (self._closed.nv,))
        if not self.solvable:
            return self.definition.bias_rates(solution, v)
        result = np.empty((*v.shape[:-1], self.layout.G_size))
        if v.ndim == 1:
            good = compiled.bias_rates_at(self.closure, solution, v, result)
        else:
            closure = self._copies.take()
            good = compiled.bias_rates_rows(closure, solution, v, result)
            self._copies.give_back(closure)
        _accept(good)
        return result

    def refused(self, q: np.ndarray) -> np.ndarray:
        """Those of the rows of q (m, nq) that compiled code refuses; all of them if it solves no loops."""
        return q if not self.solvable else q[[self._status(row) != 0 for row in q]]

    def explain(self, q: np.ndarray) -> None:
        """Raise `ClosureError` if compiled code refuses loops at q (nq,), which the definition may close."""
        if not self.solvable:
            return
        status = self._status(q)
        if 0 < abs(status) <= self._closed.clusters.count:
            rows = self._closed.rows
            owners = np.unique(rows.owners[rows.clusters == abs(status) - 1])
            names = ", ".join(f"'{self._closed.names[owner]}'" for owner in owners)
            how = "singular or nearly so" if status < 0 else "open"
            raise_at(ClosureError, f"what {names} ties together is {how}", q)

    @cached_property
    def _conditions(self) -> HostConditions:
        closed = self._closed
        return HostConditions(closed.spanning, closed.loops.rows, closed.functions)

    def _status(self, q: np.ndarray) -> int:
        """0 if the loops are closed at q (nq,)."""
        status: int = compiled.closure_at(self.closure, plain(q), _REFERENCE, np.empty(self.size))
        return status

    def _solutions(self, q: np.ndarray, start: np.ndarray) -> np.ndarray:
        """The solutions by compiled code, along paths from `start` (nq_s,)."""
        solution = np.empty((*q.shape[:-1], self.size))
        if q.ndim == 1:
            status = compiled.closure_at(self.closure, q, start, solution)
        else:
            closure = self._copies.take()
            status = compiled.closure_rows(closure, q, start, solution)
            self._copies.give_back(closure)
        _accept(status == 0)
        return solution


def _accept(good: bool) -> None:
    if not good:
        raise Refused
