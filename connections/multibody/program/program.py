"""A model as the recursions need it: flat arrays, workspaces, calls, batches, and errors for bad input.

A call with float64 arrays of the right shapes goes straight to compiled code. Everything else (lists, other
dtypes, batches, bad input) goes to `Program.evaluate`, which converts, broadcasts, and raises the errors.
Batches are cut into chunks for threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property, partial
from typing import Any, NoReturn, Protocol, cast

import jax
import numpy as np

from connections.checks import (
    ClosureError,
    MetricError,
    ModelError,
    NonFiniteError,
    PointError,
    batch_axes,
    is_traced,
    raise_at,
    require_finite,
    text_of_point,
)
from connections.engines.arguments import (
    OtherTypes,
    as_float64,
    as_rows,
    base_ndarray,
    copied_if_overlapping,
    is_lazy,
    require_output,
)
from connections.engines.inlined.simd import LANES
from connections.engines.internals.jax_names import trace_state_clean
from connections.engines.thread_chunks import ONE_PIECE, fill_chunks
from connections.engines.workspaces import Workspaces, aligned, with_workspace
from connections.evaluation.boundary import as_given
from connections.evaluation.memory_chunks import piece_size, require_room
from connections.geometry.groups import unit_quaternions
from connections.multibody.definition.host_kinematics import configuration
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.kernels.layout import CLUSTERS, TREE
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.program.calls import (
    Call,
    Direct,
    direct_call,
    plain_copies,
    require_finite_each,
    require_kept,
)
from connections.multibody.program.closed import (
    SolvedLoops,
    coordinates_of,
    rows_of,
    solution_of,
    with_numpy_arrays,
)
from connections.multibody.program.closed_calls import OfLoops, closed_call
from connections.multibody.program.closed_definition import ClosedInputRefused
from connections.multibody.program.cluster_packing import pack_clusters, tied_bodies
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.frames import Frames
from connections.multibody.program.loop_solver import REFERENCE, Loops
from connections.multibody.program.polarization import POLARIZED, polarized
from connections.multibody.program.regularity import induced_matrix, irregular, massive_motions, remedy
from connections.multibody.program.solution_layout import Solution
from connections.multibody.program.table import (
    BODY_FACTOR,
    BODY_FACTORS,
    FRAME,
    FRAME_AND_AXES,
    RECURSIONS,
    Choice,
)
from connections.multibody.program.tree_packing import nonzero_blocks, pack, pack_with_one_origin

Gravity = tuple[float, float, float]
_CHUNK = 128  # closed chains: configurations whose solutions are in memory at the same time


class Traced(Protocol):
    """The recursions where JAX traces."""

    def evaluate(self, name: str, given: Sequence[Any], chosen: tuple[Any, ...]) -> Any:
        """The recursion `name` of q and vectors (..., k)."""


class _Batch:
    """A recursion for rows of configurations: compiled function, nonzero blocks of the result, workspaces."""

    def __init__(self, function: Any, blocks: np.ndarray, slots: int) -> None:
        self._function, self._blocks = function, blocks
        self._workspaces = Workspaces(lambda: aligned(slots, LANES))

    def fill(self, arrays: tuple[Any, ...], arguments: tuple[Any, ...]) -> bool:
        """Fill the last argument. Returns whether the input was good.

        Workspaces are made of zeros, because kernels do not write entries that are identically zero.
        """
        work = self._workspaces.take()
        good: bool = self._function(*arrays, work, self._blocks, *arguments)
        self._workspaces.give_back(work)
        return good


class Program:
    """A mechanism, a tree or a closed chain, as the recursions need it.

    Parameters
    ----------
    kinematics : of the tree or the closed chain.
    gravity : (3,) acceleration of free fall in world axes, m/s^2.
    traced : the recursions inside JAX; None if there are none.

    Attributes
    ----------
    functions : name of a recursion -> its call ``(q, vectors..., choice, out)``; see `calls`.
    or_none : the same for one configuration in float64 arrays; if the input is bad, its result is None,
        without the reason, except that loops that do not close are an error.
    arrays : the first arguments of compiled code: the tree's flat array with a workspace, and for closed
        chains the flat arrays of the loops and of the clusters.
    loops : the solver of the loops, None for trees.
    cores : name of a recursion -> the shape of its result for one configuration.
    choices : what a caller can choose -> a mapping from that to what compiled code takes.
    sizes : sizes of the last axes of q and of up to three vectors.
    slots : of a workspace, without results.
    memories : copies of `memory`, one for each thread, for functions of rows of one configuration each.

    Single calls share the workspace in `memory`; the interpreter's lock, which they do not release, keeps
    them apart. Chunks of batches have workspaces of their own, which later batches use again.
    """

    def __init__(
        self,
        kinematics: Kinematics | ClosedKinematics,
        gravity: Gravity,
        traced: Callable[[], Traced] | None = None,
    ) -> None:
        self._kinematics, self._gravity, self._traced = kinematics, gravity, traced
        self.loops: Loops | None = None
        if isinstance(kinematics, ClosedKinematics):
            tree, self.loops = pack(kinematics.spanning, gravity, tied_bodies(kinematics)), Loops(kinematics)
            clusters = pack_clusters(kinematics, tree)
            self.slots = CLUSTERS.read(clusters, "result")
            self.memory = with_workspace(tree, self.slots)
            self.arrays: tuple[np.ndarray, ...] = (self.memory, self.loops.closure, clusters)
        else:
            tree = pack(kinematics, gravity)
            self.slots = TREE.read(tree, "result")
            self.memory = with_workspace(tree, self.slots)
            self.arrays = (self.memory,)
        n, bodies = kinematics.nv, len(kinematics.tree.joints)
        self.cores = {name: row.core(n, bodies) for name, row in RECURSIONS.items()}
        self.functions, self.or_none = _Calls(self, _completely), _Calls(self, _or_none)
        frames = Frames(kinematics.spanning if isinstance(kinematics, ClosedKinematics) else kinematics)
        self.choices: dict[Choice, Any] = {
            BODY_FACTOR: BODY_FACTORS,
            FRAME: frames,
            FRAME_AND_AXES: frames,
        }
        self.sizes = ((kinematics.nq,), *[(n,)] * 3)
        self._batches: dict[str, _Batch] = {}
        self.memories = Workspaces(lambda: with_workspace(self.memory))

    @property
    def traced(self) -> Traced:
        """The recursions inside JAX."""
        assert self._traced is not None, "this program has none"
        return self._traced()

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (self._kinematics, self._gravity)

    def evaluate(
        self, name: str, given: tuple[Any, ...], out: Any, chosen: tuple[Any, ...] = ()
    ) -> np.ndarray:
        """The result of the recursion `name` for any input that can be converted to arrays of numbers.

        Parameters
        ----------
        name : a key of `RECURSIONS`.
        given : q (..., nq), or `SolvedLoops` in its place, and then vectors (..., nv).
        out : the array to fill, or None.
        chosen : what the caller chooses, if the recursion has a choice, such as a body-level factor.

        Raises
        ------
        ShapeError, NonFiniteError, PointError, MetricError, ClosureError, TypeError, ValueError : as in
            `functions`.
        MemoryError : the result is larger than the machine's memory.
        """
        row = RECURSIONS[name]
        choice = self.choice(name, chosen)
        names = "q", *row.vectors
        closed = given[0] if isinstance(given[0], SolvedLoops) else None
        given = coordinates_of(given[0], self._kinematics), *given[1:]
        if is_lazy(given, out):
            if closed is not None:
                raise TypeError(
                    "q: SolvedLoops are not cut into blocks as Dask arrays are; give q as such an array"
                )
            from connections.engines.dask_arrays import lazy  # imports Dask

            function = partial(_evaluated, self, name, chosen)
            return cast("np.ndarray", lazy(function, names, given, self.sizes, self.cores[name]))
        if self._traced is not None and is_traced(closed, given):
            if out is not None:
                raise TypeError("out: JAX traces the arguments, and its arrays cannot be filled; leave out")
            point = given[0] if closed is None else closed
            return cast("np.ndarray", self._traced().evaluate(name, (point, *given[1:]), chosen))
        vectors = [as_float64(*item) for item in zip(names, given, self.sizes, strict=False)]
        batch = batch_axes(names, vectors)
        core = self.cores[name]
        if out is not None:
            require_output(out, (*batch, *core))
            vectors = copied_if_overlapping(vectors, out)
        else:
            require_room(8 * math.prod((*batch, *core)), f"{name} of {math.prod(batch)} configurations")
        result = np.empty((*batch, *core)) if out is None else out
        if closed is not None:
            closed = with_numpy_arrays(closed)
        if self.loops is not None and row.closed is None:
            require_finite_each(names, vectors)
            points = self.close(vectors[0]) if closed is None else closed
            by = self._fill_by_polarization if name in POLARIZED else self._fill_by_definition
            good = by(name, points, vectors[1:], chosen, result)
        elif batch:
            try:
                good = self._fill_rows(name, vectors, closed, choice, batch, result)
            except ClosureError:  # also where a closure is a function of a number that is not finite
                require_finite_each(names, vectors)
                raise
        else:
            point = base_ndarray(vectors[0]) if closed is None or self.loops is None else closed
            one = chosen[0] if len(chosen) == 1 else chosen
            good = self.or_none[name](point, *map(base_ndarray, vectors[1:]), one, result) is not None
        if not good:
            self._explain(name, names, vectors, closed, result)
        if out is None and {*map(type, given)} != {np.ndarray}:
            result = cast("np.ndarray", as_given(result, *given))
        return result

    def evaluate_rows(self, name: str, given: tuple[Any, ...], chosen: tuple[Any, ...]) -> np.ndarray | None:
        """`evaluate` for a few rows that are as compiled code takes them; None for all else.

        None also if the input is refused. What looks at arguments of other kinds takes three microseconds,
        a quarter of such a call.
        """
        count, sizes = len(given[0]), self.sizes
        by_loops = self.loops is not None and (not self.loops.linear or RECURSIONS[name].closed is None)
        if by_loops or not 0 < count <= ONE_PIECE:
            return None
        for value, (size,) in zip(given, sizes, strict=False):
            if value.__class__ is not np.ndarray or value.shape != (count, size):
                return None
        core = self.cores[name]
        result = np.empty((count, *core))
        choice = self.choice(name, chosen)
        try:
            good = self._fill(name, [*given], choice, result.reshape(count, math.prod(core)), None)
        except (OtherTypes, ClosedInputRefused):
            return None
        return result if good else None

    @cached_property
    def of_spanning_tree(self) -> Program:
        """The spanning tree of a closed chain, without its loops."""
        assert isinstance(self._kinematics, ClosedKinematics)
        return Program(self._kinematics.spanning, self._gravity)

    def close_directly(self, q: Any, guess: Any) -> SolvedLoops | None:
        """`close` for one configuration in a float64 array; None if q, or the guess, is anything else."""
        loops, kinematics = self.loops, self._kinematics
        if loops is None or q.__class__ is not np.ndarray or q.ndim != 1:
            return None
        start = REFERENCE
        if guess is not None:
            if guess.__class__ is not SolvedLoops:
                return None
            coordinates_of(guess, kinematics, "guess")  # of this robot
            start = solution_of(guess, kinematics)[..., : loops.layout.nq]
        try:
            return SolvedLoops(kinematics, q.copy(), loops.solve(q, start))
        except (OtherTypes, ClosedInputRefused):
            return None

    def close(self, q: Any, guess: Any = None) -> SolvedLoops:
        """The loops solved at q (..., nq), followed from `guess`, or from the reference; in NumPy.

        Parameters
        ----------
        q : (..., nq) configurations.
        guess : `SolvedLoops`, or (..., nq_s) configurations of all joints; of closed chains only.

        Raises
        ------
        ShapeError, NonFiniteError, PointError : as the public functions.
        ClosureError : loops do not close, or are singular.
        MemoryError : the solutions are larger than the machine's memory.
        """
        kinematics, loops = self._kinematics, self.loops
        if loops is None:
            return SolvedLoops(kinematics, configuration(kinematics, "q", q), None)
        q, starts = as_float64("q", q, self.sizes[0]), np.zeros((1, 0))  # the reference
        batch = q.shape[:-1]
        if guess is not None:
            start = self._guess(guess)
            batch = batch_axes(("q", "guess"), (q, start))
            starts = start[None] if start.ndim == 1 else as_rows(start, batch)
        require_room(8 * math.prod((*batch, loops.size)), f"close_loops of {math.prod(batch)} configurations")
        rows, solutions = as_rows(q, batch), np.empty((math.prod(batch), loops.size))

        def fill(chunk: slice) -> bool:
            if batch:
                loops.solve(rows[chunk], starts if len(starts) == 1 else starts[chunk], solutions[chunk])
            else:  # not in lanes, as in the direct call
                loops.solve(rows[0], starts[0], solutions[0])
            return True

        try:
            good = _in_chunks(len(rows), fill, whole=not loops.solvable)  # JAX compiles for each size
        except ClosureError:  # likewise
            require_finite("q", q)
            raise
        if not good:
            self._explain_point(q)
        if guess is not None and not isinstance(guess, SolvedLoops):
            loops.refuse_turned(solutions[:, : loops.layout.nq])
        q = np.array(np.broadcast_to(q, (*batch, q.shape[-1])))
        return SolvedLoops(kinematics, q, solutions.reshape(*batch, loops.size))

    def solved_once(self, q: Any) -> Any:
        """q for several recursions; with its loops solved, if it has any, and compiled code takes q."""
        if self.loops is None or self.loops.linear:
            return q
        closed = self.close_directly(q, None)
        return q if closed is None else closed

    def solution(self, q: Any) -> Solution:
        """The solution of the loops at q (..., nq), or of `SolvedLoops`; for closed chains only.

        Raises
        ------
        As `close`.
        """
        assert self.loops is not None  # asked of closed chains only
        closed = q if isinstance(q, SolvedLoops) else self.close(q)
        return self.loops.layout.dense(solution_of(closed, self._kinematics))

    def _guess(self, guess: Any) -> np.ndarray:
        """A guess (..., nq_s) of the user, near the manifold.

        Raises
        ------
        ShapeError, NonFiniteError, PointError.
        """
        assert isinstance(self._kinematics, ClosedKinematics)
        spanning = self._kinematics.spanning
        if isinstance(guess, SolvedLoops):
            coordinates_of(guess, self._kinematics, "guess")
            return np.array(guess.spanning)
        rows = np.array(as_float64("guess", guess, (spanning.nq,)))
        require_finite("guess", rows)
        for name, at in spanning.quaternions:
            rows[..., at] = unit_quaternions(f"guess: joint '{name}'", rows[..., at])
        return rows

    def arrays_of(self, name: str) -> tuple[np.ndarray, ...]:
        """`arrays` for the recursion `name`, whose kernel may need one origin for each subtree."""
        one = RECURSIONS[name].one_origin and TREE.read(self.memory, "leaping")
        return self._arrays_with_one_origin if one else self.arrays

    @cached_property
    def _arrays_with_one_origin(self) -> tuple[np.ndarray, ...]:
        if isinstance(self._kinematics, ClosedKinematics):
            tree = pack_with_one_origin(self._kinematics.spanning, self._gravity)
            clusters = pack_clusters(self._kinematics, tree)
            return with_workspace(tree, self.slots), self.arrays[1], clusters
        return (with_workspace(pack_with_one_origin(self._kinematics, self._gravity), self.slots),)

    def choice(self, name: str, chosen: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of the compiled function `name` for the caller's choice, such as a frame.

        Raises
        ------
        The errors of a wrong choice.
        """
        choice = RECURSIONS[name].choice
        if choice is None:
            return ()
        key = chosen if len(chosen) > 1 else chosen[0]
        try:
            return (self.choices[choice][key],)
        except TypeError:  # not hashable
            return (self.choices[choice].__missing__(key),)

    # --- rows of configurations ----------------------------------------------------------------------------

    def _fill_rows(
        self,
        name: str,
        vectors: list[np.ndarray],
        closed: SolvedLoops | None,
        choice: tuple[Any, ...],
        batch: tuple[int, ...],
        out: np.ndarray,
    ) -> bool:
        """Fill out (*batch, *core), in chunks. Returns whether the input was good.

        Raises
        ------
        ClosureError : loops do not close, or are singular.
        """
        rows, solutions, own = [as_rows(vector, batch) for vector in vectors], None, vectors[0].shape[:-1]
        with_solutions = self.loops is not None and not self.loops.linear
        if with_solutions and closed is None and own != batch:  # each configuration is solved once
            closed = self.close(vectors[0])
        if with_solutions and closed is not None:
            solutions = solution_of(rows_of(closed), self._kinematics)
            places = np.broadcast_to(np.arange(len(solutions)).reshape(own), batch)
            rows[0] = solutions if own == batch else places.reshape(-1)
        flat = out.reshape(len(rows[0]), math.prod(self.cores[name]))

        def fill(chunk: slice) -> bool:
            return self._fill(name, [x[chunk] for x in rows], choice, flat[chunk], solutions)

        return _in_chunks(len(flat), fill)

    def _fill(
        self,
        name: str,
        rows: list[np.ndarray],
        choice: tuple[Any, ...],
        out: np.ndarray,
        solutions: np.ndarray | None,
    ) -> bool:
        """Fill out (m, k) from rows (m, ...) in this thread. Returns whether the input was good.

        The first rows are configurations, or some of the solutions of loops, or their numbers.
        """
        loops = self.loops
        if loops is None:
            return self._batch(name).fill(self.arrays_of(name), (*rows, *choice, out))
        bias_rates = RECURSIONS[name].bias_rates
        for first in range(0, len(out), _CHUNK):
            chunk = slice(first, first + _CHUNK)
            given, *others = (row[chunk] for row in rows)
            if solutions is not None:
                given = given if given.ndim == 2 else solutions[given]
            elif not loops.linear:
                given = loops.solve(given)
            if bias_rates:
                others.append(loops.bias_rates(given, others[0]))
            arguments = given, *others, *choice, out[chunk]
            if not self._batch(name).fill((*self.arrays_of(name), not loops.linear), arguments):
                return False
        return True

    def _fill_by_polarization(
        self, name: str, points: SolvedLoops, _: list[np.ndarray], chosen: tuple[Any, ...], out: np.ndarray
    ) -> bool:
        """Fill out (..., *core) of a closed chain, in chunks. Returns whether it is finite."""
        core = self.cores[name]
        rows, flat = rows_of(points), out.reshape(-1, *core)
        size = piece_size(len(rows), math.prod(core)) or max(len(rows), 1)
        for first in range(0, len(rows), size):
            chunk = slice(first, first + size)
            flat[chunk] = polarized(self, name, rows[chunk], *chosen)
        return bool(np.isfinite(flat).all())

    def _fill_by_definition(
        self,
        name: str,
        points: SolvedLoops,
        vectors: list[np.ndarray],
        chosen: tuple[Any, ...],
        out: np.ndarray,
    ) -> bool:
        """Fill out (..., *core) of a closed chain by the definition, row by row. Returns whether it is good.

        Raises
        ------
        MetricError : H is singular.
        ModelError : there is no definition in this process.
        """
        if self._traced is None:
            raise ModelError(
                f"{name}: closed chains compute it by the model, which this process does not have"
            )
        if RECURSIONS[name].inverse:
            self.evaluate("inverse_mass_matrix", (points,), None)
        batch = out.shape[: out.ndim - len(self.cores[name])]
        rows: list[Any] = [rows_of(points, batch), *(as_rows(x, batch) for x in vectors)]
        results = out.reshape(-1, *self.cores[name])
        # Where nothing is traced, that context would compile each constant of the program on its own.
        with nullcontext() if trace_state_clean() else jax.ensure_compile_time_eval():
            for result, *given in zip(results, *rows, strict=True):
                result[...] = self._traced().evaluate(name, given, chosen)
        return bool(np.isfinite(out).all())

    def _batch(self, name: str) -> _Batch:
        """The recursion `name` for rows of configurations, made at the first call."""
        if name not in self._batches:
            function = compiled.require(f"{name}_rows" if self.loops is None else f"closed_{name}_rows")
            self._batches[name] = _Batch(function, *self.batch_layout(name))
        return self._batches[name]

    def batch_layout(self, name: str, lanes: int = LANES) -> tuple[np.ndarray, int]:
        """Arguments of the compiled function for rows: nonzero blocks of the result, slots of the workspace.

        Parameters
        ----------
        name : a key of `RECURSIONS`.
        lanes : of a register, on another machine perhaps.
        """
        slabs = self.loops is None and RECURSIONS[name].mirrored
        blocks = self._slab_blocks(name, lanes) if slabs else nonzero_blocks(self._nonzero(name), lanes)
        return blocks, self.slots + math.prod(self.cores[name]) + lanes

    def _nonzero(self, name: str) -> np.ndarray:
        """Which entries of the result are not identically zero."""
        return RECURSIONS[name].nonzero(self._kinematics.moves, self._kinematics.body_of)

    def _slab_blocks(self, name: str, lanes: int) -> np.ndarray:
        """The argument `blocks` of `rows.write_slabs`: slots of a slab's entries, and nonzero blocks."""
        n = self._kinematics.nv
        own = np.arange(n * n).reshape(n, n)
        mirrored = np.tril(np.ones((n, n), dtype=bool), -1) & ~self._brackets()
        places = np.where(mirrored, own.T, own)
        firsts = np.maximum(np.minimum(np.arange(0, n * n, lanes), n * n - lanes), 0)
        flat = self._nonzero(name).reshape(n, n * n)
        flags = np.stack([flat[:, first : first + lanes].any(axis=1) for first in firsts], axis=1)
        flags[:, -1] = True  # if the last block were cleared, it could clear a part of the block before
        return np.concatenate([own.ravel(), places.ravel(), flags.ravel()])

    def _brackets(self) -> np.ndarray:
        """Which pairs of columns have a nonzero bracket, (n, n) booleans.

        They are columns of one elementary joint, spherical or free.
        """
        kinematics = self._kinematics
        pairs = np.zeros((kinematics.nv,) * 2, dtype=bool)
        for joint, _, _, own in kinematics.elements:
            pairs[own, own] = joint.brackets
        return pairs

    # --- errors --------------------------------------------------------------------------------------------

    def _explain(
        self,
        name: str,
        names: tuple[str, ...],
        vectors: list[np.ndarray],
        closed: SolvedLoops | None,
        result: np.ndarray,
    ) -> NoReturn:
        """Raise the error that says why the recursion `name` refused its input or is not finite."""
        require_finite_each(names, vectors)
        points = closed
        if points is None or not np.isfinite(jax.tree.leaves(points)[-1]).all():
            points = self.close(vectors[0])
        if RECURSIONS[name].inverse:
            for point in rows_of(points):
                self.require_regular(point)
            if name == "inverse_mass_matrix":
                raise MetricError("the mass matrix is singular, or nearly so")
            self.evaluate("inverse_mass_matrix", (points,), None)
        if not self._kinematics.tree.inertias[:, 5, 5].any():
            raise ModelError(f"{name}: no body has mass, so there is no centre of mass")
        self._require_finite_result(name, names, vectors, points, result)
        raise PointError("q is not a configuration of the model, or SolvedLoops whose loops are open")

    def _explain_point(self, q: np.ndarray) -> NoReturn:
        """Raise the error that says why the solver of loops refused q (..., nq)."""
        require_finite("q", q)
        for point in q.reshape(-1, self._kinematics.nq):
            self._kinematics.joint_frame.explain(point)
        raise PointError("q is not a configuration of the model")

    def _require_finite_result(
        self,
        name: str,
        names: tuple[str, ...],
        vectors: list[np.ndarray],
        points: SolvedLoops,
        result: np.ndarray,
    ) -> None:
        """Raise `NonFiniteError`, naming the largest number that was given, if a result is not finite."""
        batch = batch_axes(names, vectors)
        rows = [as_rows(vector, batch) for vector in vectors]
        results = result.reshape(len(rows[0]), -1)
        if self.loops is not None and RECURSIONS[name].bias_rates:
            with (
                suppress(ClosedInputRefused),
                np.errstate(all="ignore"),
            ):  # if they are not finite, there is no result
                rates = self.loops.bias_rates(solution_of(rows_of(points, batch), self._kinematics), rows[1])
                results = np.where(np.isfinite(rates).all(axis=1, keepdims=True), results, np.nan)
        bad = ~np.isfinite(results).all(axis=1)
        if not bad.any():
            return
        sizes = [np.where(bad[:, None], np.abs(x), 0.0) for x in rows]
        argument = max(range(len(rows)), key=lambda k: sizes[k].max())
        row, entry = np.unravel_index(np.argmax(sizes[argument]), sizes[argument].shape)
        largest = f"{names[argument]}[{entry}] = {rows[argument][row, entry]:.6g}"
        what = f"{name} is not finite: the arguments, or the model's numbers, are too large for it"
        raise_at(NonFiniteError, f"{what}; the largest argument is {largest}", rows[0][row])

    def require_regular(self, point: SolvedLoops) -> None:
        """Raise `MetricError` naming the joint along which the mass matrix is singular at a configuration."""
        kinematics, q = self._kinematics, point.q
        with np.errstate(all="ignore"):
            if isinstance(kinematics, ClosedKinematics):
                q_s, G, _ = self.solution(point)
                at: tuple[Any, ...] = kinematics.spanning, q_s, G
            else:
                at = kinematics, q
            finite = all(
                np.isfinite(induced_matrix(inertias, A)).all() for _, (inertias, A, _) in massive_motions(*at)
            )
        if not finite:
            raise_at(NonFiniteError, "the mass matrix is not finite: q is too large for it", q)
        found = irregular(*at)
        if found is not None:
            joint = kinematics.tree.joint_names[kinematics.body_of[found[0]]]
            place = f"joint '{joint}' at q = {text_of_point(q)}"
            raise MetricError(f"the mass matrix is singular along {place}: {remedy(kinematics, found[0])}")


def _in_chunks(count: int, fill: Callable[[slice], bool], whole: bool = False) -> bool:
    """Call `fill` on chunks of rows, in several threads if that pays, or on the whole; whether all was good.

    Raises
    ------
    ClosureError : that of the first chunk that has one, if no row was refused for another reason.
    """
    open_loops: dict[int, ClosureError] = {}  # by the row at which the chunk begins

    def tried(chunk: slice) -> bool:
        try:
            return fill(chunk)
        except ClosedInputRefused:
            return False
        except ClosureError as error:
            open_loops[chunk.start] = error
            return True

    good = tried(slice(0, count)) if whole else fill_chunks(count, tried)
    if good and open_loops:
        raise open_loops[min(open_loops)]
    return good


def _evaluated(program: Program, name: str, chosen: tuple[Any, ...], *given: np.ndarray) -> np.ndarray:
    """`Program.evaluate`, which Dask calls for the blocks of its arrays."""
    return program.evaluate(name, given, None, chosen)


class _Calls(dict[str, Call]):
    """The calls of a program, each made at its first use.

    Parameters
    ----------
    program : whose recursions they are.
    fallback : (program, name) -> `Direct.fallback`.
    """

    def __init__(self, program: Program, fallback: Callable[[Program, str], Any]) -> None:
        super().__init__()
        self._program, self._fallback = program, fallback

    def __missing__(self, name: str) -> Call:
        """The call until compiled code is called for the first time, which may never be."""
        program, row = self._program, RECURSIONS[name]
        fallback = self._fallback(program, name)
        by_definition = program.loops is not None and row.closed is None

        def first_call(*given: Any) -> Any:
            if by_definition or not _is_one(*given[:-2]):
                return fallback(given[:-2], *given[-2:], False)
            self[name] = self._made(name, fallback)  # compiles, where errors are none of the arguments
            return self[name](*given)

        self[name] = first_call
        return first_call

    def _made(self, name: str, fallback: Callable[..., Any]) -> Call:
        program, row = self._program, RECURSIONS[name]
        loops, arrays, names = program.loops, program.arrays_of(name), ("q", *row.vectors)
        at = compiled.require(f"{name}_at" if loops is None else f"closed_{name}_at")
        choices = program.choices[row.choice] if row.choice else None
        direct = Direct(at, arrays[0], program.cores[name], choices, row.inverse, fallback, names)
        if loops is None:
            return direct_call(len(row.vectors), direct)
        of_loops = OfLoops(
            arrays[1],
            arrays[2],
            not loops.linear,
            loops.solve,
            coordinates_of if loops.linear else solution_of,
            loops.bias_rates if row.bias_rates else None,
            loops.closed,
        )
        return closed_call(len(row.vectors), direct, of_loops)


def _is_one(q: Any, *vectors: Any) -> bool:
    """Whether this may be one configuration and vectors as compiled code takes them."""
    arrays = vectors if q.__class__ is SolvedLoops else (q, *vectors)
    return all(x.__class__ is np.ndarray and x.ndim == 1 for x in arrays)


def _completely(program: Program, name: str) -> Call:
    """The call for arguments that compiled code does not take as they are."""
    row = RECURSIONS[name]
    names = "q", *row.vectors

    def fallback(given: tuple[Any, ...], choice: Any, out: Any, refused: bool) -> Any:
        if refused:
            require_kept(name, names, given, out)
        chosen = row.chosen(choice)
        if out is None and given[0].__class__ is np.ndarray and given[0].ndim == 2:
            result: Any = program.evaluate_rows(name, given, chosen)
            if result is not None:
                return result
        copies = plain_copies(given)
        if copies is not None:
            result = program.or_none[name](*copies, choice, out)
            if result is not None:
                return result
            given = tuple(copies)
        return program.evaluate(name, given, out, chosen)

    return fallback


def _or_none(program: Program, name: str) -> Callable[..., Any]:
    """The call for arguments that compiled code does not take, for a caller that finds the reason itself."""
    names = ("q", *RECURSIONS[name].vectors)

    def fallback(given: tuple[Any, ...], choice: Any, out: Any, refused: bool) -> None:
        if refused:
            require_kept(name, names, given, out)

    return fallback
