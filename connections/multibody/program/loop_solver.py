"""The solutions of a closed chain's loops, by compiled code, or by JAX if closures are users' functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import ClosureError
from connections.engines.arguments import base_ndarray
from connections.engines.platforms import PlatformFunction
from connections.engines.workspaces import Workspaces, with_workspace
from connections.multibody.kernels.layout import BAD_INPUT, CLOSURE, INDIRECT, LOOP, REFINABLE
from connections.multibody.loops.closed_kinematics import ClosedKinematics, Failure
from connections.multibody.loops.conditions import pivots
from connections.multibody.loops.sides import are_turned_away
from connections.multibody.program.closed_definition import ClosedInputRefused, Definition
from connections.multibody.program.closure_conditions import HostConditions
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.loop_packing import pack_closure, slots_of_refinement, slots_of_rows
from connections.multibody.program.solution_layout import SolutionLayout
from connections.multibody.tolerances import NEARLY_SINGULAR

REFERENCE = np.zeros(0)  #: as the start of a path


class Loops:
    """The solver of the loops of a mechanism; a solution is a vector (`SolutionLayout`).

    Parameters
    ----------
    closed : the kinematics of the mechanism.

    Attributes
    ----------
    closed : the same.
    closure : the flat array `CLOSURE`, workspace included.
    layout : of the solutions.
    size : how many numbers a solution has.
    definition : the solutions by JAX.
    solvable : whether compiled code can solve the loops: no condition is a user's function.
    linear : whether all conditions are linear couplings, which every recursion solves itself.
    copies : copies of `closure`, one for each thread.

    Single calls share a workspace; the interpreter's lock, which they do not release, keeps them apart.
    Chunks of batches have workspaces of their own, which later batches use again.
    """

    def __init__(self, closed: ClosedKinematics) -> None:
        self.closed, self.solvable = closed, not closed.functions
        self.linear = not closed.implicit_clusters.any()
        self.closure, self.layout = pack_closure(closed), SolutionLayout(closed)
        self.size, self.definition = self.layout.size, Definition(closed, self.layout)
        self._nothing = np.zeros(self.layout.G_size)
        self.copies = Workspaces(lambda: with_workspace(self.closure, slots_of_rows(self.closure)))

    def solve(
        self, q: np.ndarray, start: np.ndarray = REFERENCE, out: np.ndarray | None = None
    ) -> np.ndarray:
        """The solutions (size,) or (m, size) at q (nq,) or (m, nq), by paths from `start`.

        Parameters
        ----------
        q : (nq,) or (m, nq).
        start : (nq_s,) or, with rows of q, (1 or m, nq_s), configurations of the spanning tree in which loops
            close; if empty, the reference.
        out : the array to fill.

        Raises
        ------
        InputRefused : q has another shape or is not finite.
        ClosureError : a loop does not close or is singular.
        OtherTypes : q has another dtype.
        """
        solution = np.empty((*q.shape[:-1], self.size)) if out is None else out
        if not self.solvable:
            # JAX would accept other shapes and dtypes; the direct call must leave them to `Program.evaluate`.
            _accept(q.shape[-1:] == (self.closed.nq,) and _are_alike(q, start if start.size else q))
            solution[...] = self.definition.solve(q, start if start.size else self.closed.reference)
            return solution
        failed = self._solve(q, start, solution)
        if failed is not None:
            row, failure = failed
            origin = "the guess" if start.size else "the reference configuration"
            self.closed.refuse(np.atleast_2d(q)[row], failure, origin)
        return solution

    def follow(self, q: np.ndarray) -> np.ndarray:
        """q_s (nq_s,) at q (nq,), NaN if loops do not close."""
        try:
            return self.solve(q)[: self.layout.nq]
        except ClosureError:
            return np.full(self.layout.nq, np.nan)

    def derivative(self, q_s: np.ndarray) -> np.ndarray:
        """K (p, nv_s) of the conditions of implicit clusters at q_s (nq_s,)."""
        return self._conditions.at(q_s)[1]

    def bias_rates(self, solution: np.ndarray, v: np.ndarray) -> np.ndarray:
        """L_j (L_v G) v for every j, laid out as G in a solution, (G_size,); or for rows of both.

        Raises
        ------
        InputRefused : a loop is singular, or v has another size.
        """
        _accept(v.shape[-1:] == (self.closed.nv,))
        if self.linear:
            return self._nothing if v.ndim == 1 else np.zeros((len(v), self.layout.G_size))
        if not self.solvable:
            _accept(_are_alike(solution, v) and solution.shape[:-1] == v.shape[:-1])
            return self.definition.bias_rates(solution, v)
        result = np.empty((*v.shape[:-1], self.layout.G_size))
        if v.ndim == 1:
            good = compiled.bias_rates_at(self.closure, solution, v, result)
        else:
            closure = self.copies.take()
            good = compiled.bias_rates_rows(closure, solution, v, result)
            self.copies.give_back(closure)
        _accept(good)
        return result

    @cached_property
    def solving(self) -> PlatformFunction:
        """(q, start) -> the solution, as an operation of JAX, which does not differentiate it."""
        definition = self.definition.packed_solution_at
        return PlatformFunction("close_loops", (self.size,), self.solution_at, definition, _constant)

    def solution_at(self, q: jax.Array, start: jax.Array) -> jax.Array:
        """The solutions (..., size) at q (..., nq), NaN if one is refused; JAX-traceable on the processor.

        They are followed from `start` (..., nq_s).
        """
        if not self.solvable:
            return _mapped(self.definition.packed_solution_at, q, start)
        if q.ndim > 1:
            directly = self._operation("closure_rows", (self.size,), [q, start])
            return self._operation("closure_rest", (self.size,), [q, start, directly])
        nothing = jnp.full((1, self.size), jnp.nan)  # one path is followed without the solver of lanes
        return self._operation("closure_rest", (self.size,), [q[None], start[None], nothing])[0]

    def bias_rates_at(self, solution: jax.Array, v: jax.Array) -> jax.Array:
        """`bias_rates` (..., G_size) of solutions (..., size) and v (..., nv), likewise."""
        if self.linear:
            return jnp.zeros((*v.shape[:-1], self.layout.G_size))
        if not self.solvable:
            return _mapped(self.definition.bias_rates_at, solution, v)
        entry = "bias_rates_rows" if v.ndim > 1 else "bias_rates_at"
        return self._operation(entry, (self.layout.G_size,), [solution, v])

    def _operation(self, entry: str, shape: tuple[int, ...], vectors: list[Any]) -> jax.Array:
        from connections.engines import xla  # imports llvmlite

        work = CLOSURE.read(self.closure, "work")
        slots = len(self.closure)
        if entry == "closure_rows":
            slots += slots_of_rows(self.closure, max(xla.WIDTHS))
        elif entry == "closure_rest":
            slots += slots_of_refinement(self.closure)
        before = [xla.WorkCopy(self.closure[:work].copy(), slots)]
        rows = vectors[0].ndim > 1
        return xla.operation(entry, compiled.require(entry), shape, before, vectors, rows=rows)

    def followed_at(self, q: jax.Array, start: jax.Array) -> jax.Array:
        """The first part of `solution_at`: q_s (..., nq_s) at q (..., nq)."""
        return self.solution_at(q, start)[..., : self.layout.nq]

    def refuse_turned(self, q_s: np.ndarray) -> None:
        """Raise `ClosureError` if frames of a loop are turned away from each other at one of q_s (m, nq_s).

        Only a guess of the user's leads there.
        """
        sides = self.closed.sides
        for row in q_s if sides else ():
            turned = are_turned_away(sides, self._conditions.placed(row).transforms)
            if turned.any():
                name = self.closed.names[sides[int(np.argmax(turned))].owner]
                raise ClosureError(
                    f"guess: the frames of loop '{name}' are turned away from each other there, by which its "
                    "conditions hold, but it is not closed; give a guess with the frames together"
                )

    def failure(self, q: np.ndarray) -> Failure | None:
        """Why the loops do not close at q (nq,); None if they do."""
        failed = self._solve(base_ndarray(q), REFERENCE, np.empty(self.size))
        return failed and failed[1]

    @cached_property
    def _conditions(self) -> HostConditions:
        closed = self.closed
        return HostConditions(closed.spanning, closed.loops.rows, closed.functions)

    def _solve(self, q: np.ndarray, start: np.ndarray, solution: np.ndarray) -> tuple[int, Failure] | None:
        """Fill `solution`. Returns the first row that cannot be solved, if there is one, and why."""
        status = None
        if q.ndim == 1:
            status = compiled.closure_at(self.closure, q, start, solution)
            if status not in (INDIRECT, REFINABLE):
                return self._failed(0, status, self.closure, q, start)
            if status == INDIRECT:
                solution[:] = np.nan
        closure = self.copies.take()
        try:
            rows, starts, solutions = np.atleast_2d(q, start, solution)
            if status is None:
                status = compiled.closure_rows(closure, rows, starts, solutions)
            if status == INDIRECT:
                status = compiled.closure_rest(closure, rows, starts, solutions, solutions)
            if status == REFINABLE or (status == 0 and solutions[:, -1].min(initial=1.0) < NEARLY_SINGULAR):
                status = compiled.closure_fine(closure, solutions, solutions)
            _accept(abs(status) < BAD_INPUT)
            if status == 0:
                return None
            bad = int(np.argmax(np.isnan(solutions[:, 0])))
            own = starts[bad] if len(starts) > 1 else starts[0]
            if len(rows) > 1:  # the workspace holds the path of the last row, not of this one
                again = solutions[bad : bad + 1]
                status = compiled.closure_rest(closure, rows[bad : bad + 1], own[None], again, again)
            return self._failed(bad, status, closure, rows[bad], own)
        finally:
            self.copies.give_back(closure)

    def _failed(
        self, row: int, status: int, closure: np.ndarray, q: np.ndarray, start: np.ndarray
    ) -> tuple[int, Failure] | None:
        """(row, why it failed) by a status of compiled code, or None; `closure` holds its workspace."""
        _accept(abs(status) < BAD_INPUT)
        return None if status == 0 else (row, self._failure(closure, q, start, status))

    def _failure(self, closure: np.ndarray, q: np.ndarray, start: np.ndarray, status: int) -> Failure:
        """The failure that a status means, from the last point of the path, which `closure` holds."""
        closed, cluster = self.closed, abs(status) - 1
        home = start if len(start) else closed.reference
        columns, base = self._paths(closure)[cluster]
        q_s = home.copy()
        q_s[columns] = base
        goal, here, origin = q.copy(), q_s[closed.q_columns], home[closed.q_columns]
        for _, at in closed.quaternions:  # the path of a rotation is the shorter of two
            goal[at] *= np.copysign(1.0, goal[at] @ origin[at])
        own = np.isin(closed.q_columns, columns)
        way, done = (np.linalg.norm((end - origin)[own]) for end in (goal, here))
        loops, of_column = closed.loops, closed.clusters.of_body[closed.spanning.body_of]
        dependent = np.flatnonzero(of_column[loops.dependent] == cluster)
        K = (self.derivative(q_s)[:, loops.dependent] * loops.lengths)[:, dependent]
        least = int(np.argmin(pivots(jnp.asarray(np.linalg.qr(K, mode="r")))))
        body = closed.spanning.body_of[loops.dependent[dependent[least]]]
        reached = float(done / way) if way > 0.0 else 0.0
        return Failure(int(body), reached, np.where(own, here, q), status < 0)

    def _paths(self, closure: np.ndarray) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """{cluster of a loop: (its spanning coordinates, the last point of its path)}."""
        tables, work, first, count = (
            CLOSURE.read(closure, part) for part in ("tables", "work", "loop_starts", "loops")
        )
        found = {}
        for start in closure.view(np.int64)[first : first + count]:
            loop = closure[tables + start :]
            source, base, size = (LOOP.read(loop, part) for part in ("source", "base", "coordinates"))
            base += work
            columns = loop.view(np.int64)[source : source + size]
            found[LOOP.read(loop, "number")] = columns, closure[base : base + size]
        return found


def _accept(good: bool) -> None:
    if not good:
        raise ClosedInputRefused


def _are_alike(*arrays: Any) -> bool:
    """Whether arrays are NumPy's of float64, with as many axes."""
    return all(
        x.__class__ is np.ndarray and x.dtype == np.float64 and x.ndim == arrays[0].ndim for x in arrays
    )


def _constant(at: Any, along: Any) -> jax.Array:
    raise AssertionError("the recursions differentiate by q, and take the solution for a constant")


def _mapped(function: Callable[..., jax.Array], *vectors: jax.Array) -> jax.Array:
    """A function of one configuration, of vectors (..., k)."""
    for _ in range(vectors[0].ndim - 1):
        function = jax.vmap(function)
    return function(*vectors)
