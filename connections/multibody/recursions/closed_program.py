"""A closed chain made ready for the recursions: its flat arrays, its workspaces, its batches and its errors.

The role of `Program` for mechanisms with loops: loops are solved, then the recursions over clusters give
matrices, and those of the spanning tree, lifted and projected, give vectors (`composition`). Closures that
are functions of the user's are solved by the definition, in JAX.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import numpy as np

from connections.checks import ClosureError, MetricError, PointError, batch_axes, raise_at, require_finite
from connections.multibody.posture import body_motions
from connections.multibody.recursions.arguments import (
    as_rows,
    in_pieces,
    lazily,
    numbers,
    plain,
    require_output,
)
from connections.multibody.recursions.closed_definition import Definition, Refused
from connections.multibody.recursions.closure_layout import pack_closure
from connections.multibody.recursions.cluster_layout import (
    closed_memory,
    lane_slots,
    pack_clusters,
    solution_layout,
)
from connections.multibody.recursions.compiled import compiled
from connections.multibody.recursions.composition import NO_GUESS, Rows, Single, composed, ready
from connections.multibody.recursions.lanes import LANES
from connections.multibody.recursions.layout import aligned, nonzero_blocks
from connections.multibody.recursions.program import Program
from connections.multibody.recursions.table import RECURSIONS, SOLVE, is_force_cross
from connections.multibody.regularity import first_irregular

if TYPE_CHECKING:
    from connections.multibody.closed_kinematics import ClosedKinematics
    from connections.multibody.model import Model

_CHUNK = 128  # configurations whose intermediate vectors are kept at a time


class Solution(NamedTuple):
    """The loops solved at (...) configurations.

    Parameters
    ----------
    q : (..., nq_s) configurations of the spanning tree.
    G : (..., nv_s, nv) velocities of the spanning tree are G v.
    LG : (..., nv_s, nv, nv) derivatives LG[s, j, k] of G[s, k] along column j.
    """

    q: np.ndarray
    G: np.ndarray
    LG: np.ndarray


class ClosedProgram:
    """The recursions' view of a model with closed loops.

    Parameters
    ----------
    model : the mechanism; ``model.closed``.

    Attributes
    ----------
    tree, weightless : the programs of its spanning tree, with gravity and without.
    memory, closure, clusters : the flat arrays of `layout`, `closure_layout` and `cluster_layout`.
    n, spanning_n, spanning_nq, size : numbers of independent and of spanning velocities, of spanning
        coordinates, and the size of a solution.
    spans : where a solution holds G and LG, as `lift` reads it.
    definition : the solutions by JAX.
    solvable : whether compiled code can solve the loops.
    linear : whether there are no loops but linear couplings.

    Single calls share workspaces; the interpreter's lock, which they do not release, keeps them apart. Pieces
    of batches have workspaces of their own, kept for later batches.
    """

    def __init__(self, model: Model) -> None:
        closed = cast("ClosedKinematics", model.kinematics)
        self._model, self._closed, self.solvable = model, closed, not closed.functions
        self.linear = not closed.implicit_clusters.any()
        spanning, n = model.spanning_tree, model.nv
        self.tree, self.weightless = Program(spanning), Program(spanning.with_gravity((0.0, 0.0, 0.0)))
        self.clusters, self.closure = pack_clusters(closed), pack_closure(closed)
        self.memory = closed_memory(closed, model.gravity, self.clusters)
        self.n, self.spanning_n, self.spanning_nq = n, spanning.nv, spanning.nq
        self.spans, self.size = _spans(closed)
        self.definition = Definition(closed, self.spans)
        self.at_rest = np.zeros(spanning.nv)
        self.vector, self.matrix, self.cube = (n,), (n, n), (n, n, n)
        bodies = len(model.body_names)
        self.cores = {name: row.core(n, bodies) for name, row in (RECURSIONS | SOLVE).items()}
        self.wide, self.three = self.cores["regressor"], (3, n, n)
        self.configuration = (model.nq,)
        self._sizes = (self.configuration, *[(n,)] * 3)
        self._one, self._rows = Single(self), Rows(self)
        self.single = _Singles(self)
        self._workspaces: dict[str, deque[np.ndarray]] = {
            name: deque() for name in ("closure", *SOLVE, *RECURSIONS)
        }

    # --- the recursions ----------------------------------------------------------------------------------

    def general(self, name: str, given: tuple[Any, ...], out: Any, body_factor: Any = None) -> np.ndarray:
        """What the recursion `name` gives for any input that can be read as arrays of numbers.

        Parameters
        ----------
        name : a key of `RECURSIONS`.
        given : q (..., nq) and then vectors (..., nv).
        out : the array to fill, or None.
        body_factor : where the recursion has a choice.

        Raises
        ------
        ShapeError, NonFiniteError, PointError, MetricError, ClosureError, TypeError, ValueError : `calls`.
        """
        choice = (is_force_cross(body_factor),) if RECURSIONS[name].body_factor else ()
        names = ("q", *RECURSIONS[name].vectors)
        if (lazy := lazily(self._model, name, given, out, body_factor)) is not None:
            return lazy
        vectors = [numbers(*item) for item in zip(names, given, self._sizes, strict=False)]
        batch, core = batch_axes(names, vectors), self.cores[name]
        if out is not None:
            require_output(out, (*batch, *core))
        result = np.empty((*batch, *core)) if out is None else out
        try:
            if not batch:
                composed(name)(self._one, *map(plain, vectors), *choice, out=result)
            else:
                rows = [as_rows(vector, batch, out) for vector in vectors]
                self._run(name, rows, choice, result.reshape(len(rows[0]), math.prod(core)))
        except Refused:
            self._explain(name, names, vectors)
        return result

    def _run(self, name: str, rows: list[np.ndarray], choice: tuple[bool, ...], out: np.ndarray) -> None:
        """Fill out (m, k) from rows (m, ...), piece by piece, by as many threads as are worth it."""

        def fill(piece: slice) -> bool:
            for first in range(piece.start, min(piece.stop, len(out)), _CHUNK):
                chunk = slice(first, min(first + _CHUNK, piece.stop))
                composed(name)(self._rows, *[row[chunk] for row in rows], *choice, out=out[chunk])
            return True

        in_pieces(len(out), fill)

    def cluster_rows(self, name: str, solved: bool, vectors: tuple[np.ndarray, ...], out: np.ndarray) -> bool:
        """Fill out (m, k) by the recursion `name` over clusters, in this thread; whether all is well.

        vectors : rows of solutions, or, if they are not `solved`, of q (m, nq); then rows of vectors.
        """
        function = compiled.require(f"closed_{name}_rows")
        size = self._lane_slots + math.prod(self.cores[name]) + LANES
        with self._borrowed(name, lambda: aligned(size, LANES)) as work:
            blocks = self._blocks[name]
            status = function(self.memory, self.closure, self.clusters, solved, work, blocks, *vectors, out)
        return bool(status == 0)

    # --- loops -------------------------------------------------------------------------------------------

    def solution(self, q: Any) -> Solution:
        """The loops solved at q (..., nq).

        Raises
        ------
        ShapeError, NonFiniteError, PointError : as the public functions.
        ClosureError : loops do not close, or are singular.
        """
        q = numbers("q", q, self._sizes[0])
        try:
            solved = self._rows.solve(as_rows(q, q.shape[:-1], None))
        except Refused:
            self._explain("mass_matrix", ("q",), [q])
        batch, (G, LG) = q.shape[:-1], self.dense(solved)
        q_s = solved[:, : self.spanning_nq].copy()
        return Solution(*(part.reshape(*batch, *part.shape[1:]) for part in (q_s, G, LG)))

    def dense(self, solution: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """G (..., nv_s, nv) and LG (..., nv_s, nv, nv) of solutions (..., size)."""
        batch, (in_G, in_LG) = solution.shape[:-1], self.definition.places
        G = np.zeros((*batch, self.spanning_n * self.n))
        LG = np.zeros((*batch, self.spanning_n * self.n**2))
        start = self.spanning_nq + len(in_G)
        G[..., in_G] = solution[..., self.spanning_nq : start]
        LG[..., in_LG] = solution[..., start:]
        shape = (*batch, self.spanning_n, self.n)
        return G.reshape(shape), LG.reshape(*shape, self.n)

    # --- workspaces --------------------------------------------------------------------------------------

    def borrowed_closure(self) -> Any:
        """A copy of `closure`, whose workspace no other thread has; a context manager."""
        return self._borrowed("closure", self._copy_of_closure)

    def _copy_of_closure(self) -> np.ndarray:
        copy = aligned(len(self.closure))
        copy[:] = self.closure
        return copy

    @contextmanager
    def _borrowed(self, name: str, make: Callable[[], np.ndarray]) -> Iterator[np.ndarray]:
        try:
            work = self._workspaces[name].pop()
        except IndexError:
            work = make()
        yield work
        self._workspaces[name].append(work)

    @cached_property
    def _lane_slots(self) -> int:
        """Slots before the result in a workspace of the recursions over clusters."""
        return lane_slots(self._closed, self.clusters)

    @cached_property
    def _blocks(self) -> dict[str, np.ndarray]:
        """For each recursion over clusters, where the blocks of its flat result begin that are not zero."""
        moves, body_of = self._closed.moves, self._closed.body_of
        return {
            name: nonzero_blocks(row.nonzero(moves, body_of))
            for name, row in (RECURSIONS | SOLVE).items()
            if row.clusters
        }

    # --- errors ------------------------------------------------------------------------------------------

    def _explain(self, name: str, names: tuple[str, ...], vectors: list[np.ndarray]) -> NoReturn:
        """Raise the error that says what is wrong with the input of the recursion `name`."""
        for vector_name, vector in zip(names, vectors, strict=True):
            require_finite(vector_name, vector)
        configurations = vectors[0].reshape(-1, self._model.nq)
        for q in configurations:
            self._closed.explain(q)
        for q in configurations:
            self._require_closed(q)
        if RECURSIONS[name].inverse:
            for q in configurations:
                self._require_regular(q)
            raise MetricError("the mass matrix is singular, or nearly so")
        raise PointError("q is not a configuration of the model")

    def _require_closed(self, q: np.ndarray) -> None:
        """Raise `ClosureError` where the recursions refuse loops that the definition closes at q (nq,)."""
        if not self.solvable:
            return
        status = compiled.require("closure_at")(self.closure, plain(q), NO_GUESS, np.empty(self.size))
        if 0 < abs(status) <= self._closed.clusters.count:
            rows = self._closed.rows
            owners = np.unique(rows.owners[rows.clusters == abs(status) - 1])
            names = ", ".join(f"'{self._closed.names[owner]}'" for owner in owners)
            how = "singular or nearly so" if status < 0 else "open"
            raise_at(ClosureError, f"what {names} ties together is {how}", q)

    def _require_regular(self, q: np.ndarray) -> None:
        """Raise `MetricError` naming the joint along which the mass matrix is singular at q (nq,)."""
        q_s, G, _ = self.solution(q)
        A, sizes = body_motions(self._closed.spanning, q_s)
        found = first_irregular(self._closed.tree.inertias, A @ G, sizes @ np.abs(G))
        if found is not None:
            joint = self._closed.tree.joint_names[self._closed.body_of[found[0]]]
            raise_at(MetricError, f"the mass matrix is singular along joint '{joint}'", q)


class _Singles:
    """The recursions at one configuration by name, as `compiled` has them for trees.

    ``name_at(memory, q, vectors..., choice, out)`` returns whether all is well.
    """

    def __init__(self, program: ClosedProgram) -> None:
        self._do = Single(program)
        for name, row in RECURSIONS.items():
            call: Callable[..., bool] = partial(self._call, composed(name))
            if program.linear and row.clusters:
                of_force_cross = call if row.body_factor else None
                call = _direct(f"closed_{name}_at", program, len(row.vectors), of_force_cross)
            setattr(self, f"{name}_at", call)

    def __getattr__(self, name: str) -> Any:  # for type checkers: the functions are set by name
        raise AttributeError(name)

    def _call(self, recursion: Any, memory: np.ndarray, *arguments: Any) -> bool:
        try:
            recursion(self._do, *arguments[:-1], out=arguments[-1])
        except Refused:
            return False
        return True


def _direct(name: str, program: ClosedProgram, count: int, of_force_cross: Any) -> Callable[..., bool]:
    """A recursion over clusters at one configuration, with nothing in between.

    It takes `count` vectors after q; if there is a choice of body factors, `of_force_cross` is for the other.
    """
    closure, clusters = program.closure, program.clusters

    def of_q(memory: np.ndarray, q: np.ndarray, out: np.ndarray) -> bool:
        return bool(ready[name](memory, closure, clusters, False, q, out) == 0)

    def of_q_v(memory: np.ndarray, q: np.ndarray, v: np.ndarray, out: np.ndarray) -> bool:
        return bool(ready[name](memory, closure, clusters, False, q, v, out) == 0)

    def chosen_of_q(memory: np.ndarray, q: np.ndarray, force_cross: bool, out: np.ndarray) -> bool:
        return of_force_cross(memory, q, True, out) if force_cross else of_q(memory, q, out)

    def chosen_of_q_v(memory: np.ndarray, q: Any, v: Any, force_cross: bool, out: np.ndarray) -> bool:
        if force_cross:
            return bool(of_force_cross(memory, q, v, True, out))
        return bool(ready[name](memory, closure, clusters, False, q, v, out) == 0)

    if of_force_cross is None:
        return of_q_v if count else of_q
    return chosen_of_q_v if count else chosen_of_q


def _spans(closed: ClosedKinematics) -> tuple[np.ndarray, int]:
    """For each spanning velocity the first column and the number of columns of its cluster, G and LG."""
    layout, starts = solution_layout(closed), np.asarray(closed.column_starts)
    cluster = closed.clusters.of_body[closed.spanning.body_of]
    columns = [starts[cluster], np.diff(starts)[cluster], layout.G, layout.LG]
    return np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.int64), layout.size
