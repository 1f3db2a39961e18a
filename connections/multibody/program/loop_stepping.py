"""Calls of the kernel of variational steps of closed chains, `kernels/loop_variational.py`, for rows.

The loops are followed along the motion, from iterate to iterate. At requested times they have to close as on
the path from the reference, by which every other function solves them. Where the kernel cannot follow a path,
or it loses digits, or conditions are users' functions, it asks: the path is followed here, by the solver that
can, and the kernel goes on with the solution.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from connections.checks import ClosureError
from connections.coriolis.variational import OPEN, UNSOLVED
from connections.engines.thread_chunks import fill_chunks
from connections.multibody.joints import Revolute
from connections.multibody.program.closed_definition import ClosedInputRefused
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.stepping import Stepped, history_size, stepped

Array = np.ndarray
SAME = 1e-6  # a difference of two solutions of the loops, relative to them, that is none
ASKED = -1.0  # as in the kernel


def stepping_of(model: Any) -> Callable[..., Stepped]:
    """`stepping.stepped` of a robot, with loops or without, without its first argument."""
    return LoopSteps(model) if model.closed else partial(stepped, model)


class LoopSteps:
    """The steps of a closed chain, in several threads if that pays.

    Parameters
    ----------
    model : the robot, with loops.
    """

    def __init__(self, model: Any) -> None:
        self._model, self._program, self._loops = model, model.program, model.program.loops
        self._function = compiled.loop_steps_rows
        self._last: dict[bytes, Array] = {}  # solutions that were followed from the reference, by q
        spanning = model.kinematics.spanning
        self._turns = [e.q.start for e in spanning.elements if isinstance(e.joint, Revolute)]

    def __call__(
        self, y: Array, forces: Array, shares: Array, h: float, count: int, guess: Array | None = None
    ) -> Stepped:
        """The steps of rows, with the arguments of `stepping.stepped`.

        Raises
        ------
        ClosureError : loops do not close at a q.
        """
        nq, nv, m, size = self._model.nq, self._model.nv, len(y), history_size(self._model.nv)
        before = np.zeros((m, size)) if guess is None else np.ascontiguousarray(guess)
        known = np.zeros((0, nq + self._loops.size))
        if count == -1:
            q1 = np.ascontiguousarray(before[:, :nq])
            known, before = np.hstack([q1, self._solutions(q1)]), np.zeros((m, size))
        rows = [np.ascontiguousarray(y), np.ascontiguousarray(forces), before, np.full((m, 1), float(h))]
        rows.insert(0, self._solutions(rows[0][:, :nq]))
        asked = np.empty((m, nq + self._loops.layout.nq))
        out = np.empty((m, nq + nv + size + 3))
        plan = np.concatenate([[float(count), 0.0], shares])

        def fill(chunk: slice) -> bool:
            own = known[chunk] if count == -1 else known
            self._fill([row[chunk] for row in rows], plan, own, asked[chunk], out[chunk])
            return True

        fill_chunks(m, fill)
        for row in np.flatnonzero(out[:, -2] == ASKED):
            at = slice(row, row + 1)
            self._help([part[at] for part in rows], plan, asked[at], out[at])
        out[:, -3] //= len(shares)
        if count > 0:
            self._check(out, rows[0])
        return Stepped(self._model, out, True)

    # --- private -------------------------------------------------------------------------------------------

    def _fill(self, rows: list[Array], plan: Array, known: Array, asked: Array, out: Array) -> None:
        """Call the kernel; the first of rows, solutions where steps begin, becomes those where they end."""
        memory, closure = self._program.memories.take(), self._loops.copies.take()
        self._function(memory, closure, self._program.arrays[2], *rows, plan, known, asked, out)
        self._program.memories.give_back(memory)
        self._loops.copies.give_back(closure)

    def _help(self, rows: list[Array], plan: Array, asked: Array, out: Array) -> None:
        """Finish one row whose loops the kernel does not follow, with solutions for one part of a step."""
        nq, k, iterations = self._model.nq, self._model.nq + self._model.nv, 0.0
        known: list[Array] = []
        while out[0, -2] == ASKED:
            q, start = asked[0, :nq], asked[0, nq:]
            try:
                solution = self._loops.solve(q.copy(), start.copy()) if np.isfinite(q).all() else None
            except ClosureError:
                out[0, -2] = OPEN
                break
            except ClosedInputRefused:
                solution = None
            if solution is None:
                out[0, -2] = UNSOLVED
                break
            iterations += out[0, -1]
            known = known if out[0, -3] == plan[1] else []
            known.append(np.append(q, solution))
            plan = np.array([plan[0], out[0, -3], *plan[2:]])
            rows[1], rows[3] = out[:, :k].copy(), out[:, k:-3].copy()
            self._fill(rows, plan, np.array(known), asked, out)
        out[0, -1] += iterations

    def _check(self, out: Array, ends: Array) -> None:
        """Write `OPEN` to rows that end where the loops do not close as on the path from the reference."""
        good, q, size = np.flatnonzero(out[:, -2] == 0.0), out[:, : self._model.nq], self._loops.layout.nq
        try:
            found = self._solutions(q[good])
        except ClosureError:  # of one of them
            found = np.array([self._loops.follow(row.copy()) for row in q[good]])
        for row, own in zip(good, found, strict=True):
            if not self._are_same(own[:size], ends[row, :size]):
                out[row, -2] = OPEN

    def _are_same(self, q_s: Array, other: Array) -> bool:
        """Whether two configurations (nq_s,) are the same place, from which only revolute joints may turn."""
        way = q_s - other
        for _, at in self._model.kinematics.spanning.quaternions:
            sign = np.sign(other[at] @ q_s[at])
            way[at] += (1.0 - sign) * other[at]
        way[self._turns] -= 2.0 * np.pi * np.rint(way[self._turns] / (2.0 * np.pi))
        return bool(np.max(np.abs(way)) < SAME * (1.0 + np.max(np.abs(other))))

    def _solutions(self, q: Array) -> Array:
        """The solutions (m, size) of the loops at rows of q (m, nq), from the reference.

        Those of the last call are kept: a motion goes on where it ended, and these paths take longest.
        """
        found = np.empty((len(q), self._loops.size))
        for row, own in zip(found, q, strict=True):
            before = self._last.get(own.tobytes())
            row[:] = self._loops.solve(own.copy()) if before is None else before
        self._last = {own.tobytes(): row.copy() for own, row in zip(q, found, strict=True)}
        return found
