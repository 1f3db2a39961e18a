"""A model as the recursions need it: flat arrays, workspaces, calls, batches, and errors for bad input.

A call with float64 arrays of the right shapes goes straight to compiled code. Everything else (lists, other
dtypes, batches, bad input) goes to `Program.evaluate`, which converts, broadcasts, and raises the errors.
Batches are cut into chunks for threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
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
)
from connections.engines.arguments import (
    apart,
    as_rows,
    is_lazy,
    numbers,
    plain,
    require_output,
)
from connections.engines.inlined.simd import LANES
from connections.engines.rendered import execute
from connections.engines.thread_chunks import in_pieces
from connections.engines.workspaces import Workspaces, aligned, with_workspace
from connections.evaluation.boundary import as_given
from connections.evaluation.memory_chunks import piece_size, require_room
from connections.geometry.groups import unit_quaternions
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.kernels.layout import CLUSTERS, TREE
from connections.multibody.loops.closed_kinematics import ClosedKinematics, refuse_useless
from connections.multibody.program.closed_definition import Refused
from connections.multibody.program.cluster_packing import pack_clusters, tied_bodies
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.frames import Frames
from connections.multibody.program.loop_solver import Loops
from connections.multibody.program.polarization import POLARIZED, polarized
from connections.multibody.program.regularity import first_irregular, massive_motions
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
# Errors of the direct call after which `Program.evaluate` looks at the arguments. Numba raises TypeError, but
# ValueError for empty lists; an unknown body factor is a KeyError, an argument without `ndim` AttributeError.
_NOT_AS_THEY_ARE = (TypeError, ValueError, KeyError, AttributeError, Refused)

# The public call of a recursion; `at` is the compiled function for one configuration, which would take a
# masked array for its data.
_CALL = """
def call(q, {vectors}{chosen}out, guess=None):
    refused = False
    try:
        if {exact} and q.ndim == 1:
            result = empty(core) if out is None else out
            {keep}
            {solve}
            if at({given}, {vectors}{bias_rates}{choice}result):
                return result
            refused = out is not None
    except ClosureError:
        require_finite((q, {vectors}))
        raise
    except NOT_AS_THEY_ARE:
        pass
    if refused:
        require_kept(name, names, (q, {vectors}), out)
    {otherwise}
"""
_ELSE = "return evaluate(name, (q, {vectors}), out, ({chosen}), guess)"


class Traced(Protocol):
    """The recursions where JAX traces."""

    def evaluate(self, name: str, given: Sequence[Any], chosen: tuple[Any, ...], guess: Any) -> Any:
        """The recursion `name` of arrays (..., k)."""


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
    functions : name of a recursion -> its call ``(q, vectors..., choice..., out, guess=None)``; see
        `table.Recursion`.
    quiet : the same for one configuration in float64 arrays; if the input is bad, its result is None, without
        the reason, except that loops that do not close are an error.
    arrays : the first arguments of compiled code: the tree's flat array with a workspace, and for closed
        chains the flat arrays of the loops and of the clusters.
    loops : the solver of the loops, None for trees.
    cores : name of a recursion -> the shape of its result for one configuration.
    choices : what a caller can choose -> a mapping from that to what compiled code takes.
    sizes : sizes of the last axes of q and of up to three vectors.
    slots : of a workspace, without results.

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
        self.functions, self.quiet = _Functions(self, _ELSE), _Functions(self, "return None")
        frames = Frames(kinematics.spanning if isinstance(kinematics, ClosedKinematics) else kinematics)
        self.choices: dict[Choice, Any] = {
            BODY_FACTOR: BODY_FACTORS,
            FRAME: frames,
            FRAME_AND_AXES: frames,
        }
        self.sizes = ((kinematics.nq,), *[(n,)] * 3)
        self._batches: dict[str, _Batch] = {}

    @property
    def traced(self) -> Traced:
        """The recursions inside JAX."""
        assert self._traced is not None, "this program has none"
        return self._traced()

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (self._kinematics, self._gravity)

    def evaluate(
        self, name: str, given: tuple[Any, ...], out: Any, chosen: tuple[Any, ...] = (), guess: Any = None
    ) -> np.ndarray:
        """The result of the recursion `name` for any input that can be converted to arrays of numbers.

        Parameters
        ----------
        name : a key of `RECURSIONS`.
        given : q (..., nq) and then vectors (..., nv).
        out : the array to fill, or None.
        chosen : what the caller chooses, if the recursion has a choice, such as a body-level factor.
        guess : (..., nq_s) configurations of all joints in which loops close, near those at q; or None.

        Raises
        ------
        ShapeError, NonFiniteError, PointError, MetricError, ClosureError, TypeError, ValueError : as in
            `functions`.
        MemoryError : the result is larger than the machine's memory.
        """
        row = RECURSIONS[name]
        choice = self.choice(name, chosen)
        names = "q", *row.vectors
        if is_lazy(given, out):
            from connections.engines.dask_arrays import lazy  # imports Dask

            function = partial(_evaluated, self, name, chosen, guess)
            return cast("np.ndarray", lazy(function, names, given, self.sizes, self.cores[name]))
        refuse_useless(guess, self._kinematics)
        if self._traced is not None and is_traced(given, guess):
            if out is not None:
                raise TypeError("out: JAX traces the arguments, and its arrays cannot be filled; leave out")
            return cast("np.ndarray", self._traced().evaluate(name, given, chosen, guess))
        vectors = [numbers(*item) for item in zip(names, given, self.sizes, strict=False)]
        start = None if guess is None else self._guess(guess)
        starts = [] if start is None else [start]
        batch = batch_axes((*names, *["guess"] * len(starts)), [*vectors, *starts])
        core = self.cores[name]
        if out is not None:
            require_output(out, (*batch, *core))
            vectors, starts = apart(vectors, out), apart(starts, out)
            start = None if start is None else starts[0]
        else:
            require_room(8 * math.prod((*batch, *core)), f"{name} of {math.prod(batch)} configurations")
        result = np.empty((*batch, *core)) if out is None else out
        open_loops: dict[int, ClosureError] = {}  # by the row at which the chunk begins
        if self.loops is not None and name in POLARIZED:
            good = self._fill_by_polarization(name, vectors[0], chosen, start, result)
        elif self.loops is not None and row.closed is None:
            good = self._fill_by_definition(name, names, vectors, chosen, start, result)
        elif batch:
            rows = [as_rows(vector, batch) for vector in vectors]
            flat = result.reshape(len(rows[0]), math.prod(core))
            starts = [x.reshape(1, -1) if x.ndim == 1 else as_rows(x, batch) for x in starts]

            def fill(chunk: slice) -> bool:  # may run in several threads
                own = [x if len(x) == 1 else x[chunk] for x in starts]
                try:
                    return self._fill(name, [x[chunk] for x in rows], choice, flat[chunk], own)
                except ClosureError as error:
                    open_loops[chunk.start] = error
                    return False

            good = in_pieces(len(flat), fill)
        else:
            good = self.quiet[name](*map(plain, vectors), *chosen, result, start) is not None
        if open_loops:
            _require_finite(names, vectors)
            raise open_loops[min(open_loops)]
        if not good:
            self._explain(name, names, vectors, result)
        if out is None and {*map(type, given)} != {np.ndarray}:
            result = cast("np.ndarray", as_given(result, *given))
        return result

    @cached_property
    def of_spanning_tree(self) -> Program:
        """The spanning tree of a closed chain, without its loops."""
        assert isinstance(self._kinematics, ClosedKinematics)
        return Program(self._kinematics.spanning, self._gravity)

    def solution(self, q: Any, guess: np.ndarray | None = None) -> Solution:
        """The solution of the loops at q (..., nq), from guess (..., nq_s); for closed chains only.

        Raises
        ------
        ShapeError, NonFiniteError, PointError : as the public functions.
        ClosureError : loops do not close, or are singular.
        """
        assert self.loops is not None  # asked of closed chains only
        q = numbers("q", q, self.sizes[0])
        starts = [] if guess is None else [as_rows(guess, q.shape[:-1])]
        try:
            solved = self.loops.solve(as_rows(q, q.shape[:-1]), *starts)
        except Refused:
            self._explain("mass_matrix", ("q",), [q], q)
        return self.loops.layout.dense(solved.reshape(*q.shape[:-1], self.loops.size))

    def spanning(self, q: Any, guess: Any = None) -> np.ndarray:
        """q_s (..., nq_s) at q (..., nq), followed from `guess` (..., nq_s), or from the reference.

        Raises
        ------
        ShapeError, NonFiniteError, PointError, ClosureError : as `solution`.
        """
        assert self.loops is not None
        loops, q = self.loops, numbers("q", q, self.sizes[0])
        start, batch = None if guess is None else self._guess(guess), q.shape[:-1]
        if start is not None:
            batch = batch_axes(("q", "guess"), (q, start))
            start = as_rows(start, batch)
        rows = as_rows(q, batch)
        q_s = np.empty((len(rows), loops.layout.nq))
        open_loops: dict[int, ClosureError] = {}  # by the row at which the chunk begins

        def fill(chunk: slice) -> bool:  # may run in several threads
            try:
                q_s[chunk] = loops.spanning(rows[chunk], None if start is None else start[chunk])
            except Refused:
                return False
            except ClosureError as error:
                open_loops[chunk.start] = error
            return True

        whole = slice(0, len(rows))
        if not (in_pieces(len(rows), fill) if loops.solvable else fill(whole)):  # JAX compiles for each size
            self._explain("mass_matrix", ("q",), [q], q)
        if open_loops:
            raise open_loops[min(open_loops)]
        return q_s.reshape(*batch, loops.layout.nq)

    def _guess(self, guess: Any) -> np.ndarray:
        """A guess (..., nq_s) of the user, near the manifold.

        Raises
        ------
        ShapeError, NonFiniteError, PointError.
        """
        assert isinstance(self._kinematics, ClosedKinematics)
        spanning = self._kinematics.spanning
        rows = np.array(numbers("guess", guess, (spanning.nq,)))
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
        """What the compiled function `name` takes for what the caller chose.

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

    def _fill(
        self,
        name: str,
        rows: list[np.ndarray],
        choice: tuple[Any, ...],
        out: np.ndarray,
        starts: list[np.ndarray],
    ) -> bool:
        """Fill out (m, k) from rows (m, ...) in this thread. Returns whether the input was good.

        Loops are followed from the only one of `starts` (1 or m, nq_s), or from the reference.
        """
        loops = self.loops
        if loops is None:
            return self._batch(name).fill(self.arrays_of(name), (*rows, *choice, out))
        bias_rates = RECURSIONS[name].bias_rates
        try:
            for first in range(0, len(out), _CHUNK):
                chunk = slice(first, first + _CHUNK)
                q, *others = (row[chunk] for row in rows)
                own = [x if len(x) == 1 else x[chunk] for x in starts]
                given = q if loops.linear else loops.solve(q, *own)
                if bias_rates:
                    others.append(loops.bias_rates(given, others[0]))
                arguments = given, *others, *choice, out[chunk]
                if not self._batch(name).fill((*self.arrays_of(name), not loops.linear), arguments):
                    return False
        except Refused:
            return False
        return True

    def _fill_by_polarization(
        self, name: str, q: np.ndarray, chosen: tuple[Any, ...], start: np.ndarray | None, out: np.ndarray
    ) -> bool:
        """Fill out (..., *core) of a closed chain, in chunks. Returns whether it is finite."""
        batch = out.shape[:-4]
        core = self.cores[name]
        rows, flat = as_rows(q, batch), out.reshape(math.prod(batch), *core)
        starts = None if start is None else as_rows(start, batch)
        size = piece_size(len(rows), math.prod(core)) or max(len(rows), 1)
        for first in range(0, len(rows), size):
            chunk = slice(first, first + size)
            own = None if starts is None else starts[chunk]
            flat[chunk] = polarized(self, name, rows[chunk], own, *chosen)
        return bool(np.isfinite(flat).all())

    def _fill_by_definition(
        self,
        name: str,
        names: tuple[str, ...],
        vectors: list[np.ndarray],
        chosen: tuple[Any, ...],
        start: np.ndarray | None,
        out: np.ndarray,
    ) -> bool:
        """Fill out (..., *core) of a closed chain by the definition, row by row. Returns whether it is good.

        Raises
        ------
        NonFiniteError, PointError, ClosureError, MetricError : as the public functions.
        ModelError : there is no definition in this process.
        """
        _require_finite(names, vectors)
        if self._traced is None:
            raise ModelError(
                f"{name}: closed chains compute it by the model, which this process does not have"
            )
        q_s = self.spanning(vectors[0], start)
        if RECURSIONS[name].inverse:
            self.evaluate("inverse_mass_matrix", (vectors[0],), None, (), start)
        batch = out.shape[: out.ndim - len(self.cores[name])]
        rows = [as_rows(x, batch) for x in (*vectors, q_s)]
        results = out.reshape(len(rows[0]), *self.cores[name])
        with jax.ensure_compile_time_eval():
            for result, *given, solution in zip(results, *rows, strict=True):
                result[...] = self._traced().evaluate(name, given, chosen, solution)
        return bool(np.isfinite(out).all())

    def _batch(self, name: str) -> _Batch:
        """The recursion `name` for rows of configurations, made at the first call."""
        try:
            return self._batches[name]
        except KeyError:
            function = compiled.require(f"{name}_rows" if self.loops is None else f"closed_{name}_rows")
            self._batches[name] = _Batch(function, *self.batch_layout(name))
            return self._batches[name]

    def batch_layout(self, name: str) -> tuple[np.ndarray, int]:
        """What the compiled function for rows takes besides: the result's nonzero blocks, and its slots."""
        slabs = self.loops is None and RECURSIONS[name].mirrored
        blocks = self._slab_blocks(name) if slabs else nonzero_blocks(self._nonzero(name))
        return blocks, self.slots + math.prod(self.cores[name]) + LANES

    def _nonzero(self, name: str) -> np.ndarray:
        """Which entries of the result are not identically zero."""
        return RECURSIONS[name].nonzero(self._kinematics.moves, self._kinematics.body_of)

    def _slab_blocks(self, name: str) -> np.ndarray:
        """The argument `blocks` of `rows.write_slabs`: slots of a slab's entries, and nonzero blocks."""
        n = self._kinematics.nv
        own = np.arange(n * n).reshape(n, n)
        mirrored = np.tril(np.ones((n, n), dtype=bool), -1) & ~self._brackets()
        places = np.where(mirrored, own.T, own)
        firsts = np.maximum(np.minimum(np.arange(0, n * n, LANES), n * n - LANES), 0)
        flat = self._nonzero(name).reshape(n, n * n)
        flags = np.stack([flat[:, first : first + LANES].any(axis=1) for first in firsts], axis=1)
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
        self, name: str, names: tuple[str, ...], vectors: list[np.ndarray], result: np.ndarray
    ) -> NoReturn:
        """Raise the error that says why the recursion `name` refused its input or is not finite."""
        _require_finite(names, vectors)
        configurations = vectors[0].reshape(-1, self._kinematics.nq)
        for q in configurations:  # the loops close: their solver has raised an error otherwise
            self._kinematics.joint_frame.explain(q)
        if RECURSIONS[name].inverse:
            for q in configurations:
                self._require_regular(q)
            if name == "inverse_mass_matrix":
                raise MetricError("the mass matrix is singular, or nearly so")
            self.evaluate("inverse_mass_matrix", (vectors[0],), None)
        if not self._kinematics.tree.inertias[:, 5, 5].any():
            raise ModelError(f"{name}: no body has mass, so there is no centre of mass")
        self._require_finite_result(name, names, vectors, result)
        raise PointError("q is not a configuration of the model")

    def _require_finite_result(
        self, name: str, names: tuple[str, ...], vectors: list[np.ndarray], result: np.ndarray
    ) -> None:
        """Raise `NonFiniteError`, naming the largest number that was given, if a result is not finite."""
        batch = batch_axes(names, vectors)
        rows = [as_rows(vector, batch) for vector in vectors]
        results = result.reshape(len(rows[0]), -1)
        if self.loops is not None and RECURSIONS[name].bias_rates:
            with suppress(Refused), np.errstate(all="ignore"):  # if they are not finite, there is no result
                rates = self.loops.bias_rates(self.loops.solve(rows[0]), rows[1])
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

    def _require_regular(self, q: np.ndarray) -> None:
        """Raise `MetricError` naming the joint along which the mass matrix is singular at q (nq,)."""
        kinematics = self._kinematics
        with np.errstate(all="ignore"):
            if isinstance(kinematics, ClosedKinematics):
                q_s, G, _ = self.solution(q)
                inertias, A, sizes = massive_motions(kinematics.spanning, q_s, G)
            else:
                inertias, A, sizes = massive_motions(kinematics, q)
            H = np.einsum("nai,nab,nbj->ij", A, inertias, A)
        if not np.isfinite(H).all():
            raise_at(NonFiniteError, "the mass matrix is not finite: q is too large for it", q)
        found = first_irregular(inertias, A, sizes)
        if found is not None:
            joint = kinematics.tree.joint_names[kinematics.body_of[found[0]]]
            raise_at(MetricError, f"the mass matrix is singular along joint '{joint}'", q)


def _require_finite(names: Sequence[str], arrays: Sequence[Any]) -> None:
    for name, array in zip(names, arrays, strict=True):
        require_finite(name, array)


def _require_kept(name: str, names: Sequence[str], given: Sequence[Any], out: np.ndarray) -> None:
    """Raise `NonFiniteError` if a result that is not finite has replaced an argument, in whose memory it is.

    Otherwise the recursion would be called again, to say why it refused its input, with other numbers.
    """
    for argument, value in zip(names, given, strict=True):
        if np.may_share_memory(value, out) and not np.isfinite(out).all():
            raise NonFiniteError(
                f"{name} is not finite: the arguments, or the model's numbers, are too large for it; `out` "
                f"shares memory with {argument}, which it has replaced"
            )


def _evaluated(
    program: Program, name: str, chosen: tuple[Any, ...], guess: Any, *given: np.ndarray
) -> np.ndarray:
    """`Program.evaluate`, which Dask calls for the blocks of its arrays."""
    return program.evaluate(name, given, None, chosen, guess)


class _Functions(dict[str, Callable[..., np.ndarray]]):
    """The public calls of a program, each made at its first use."""

    def __init__(self, program: Program, otherwise: str) -> None:
        super().__init__()
        self._program, self._otherwise = program, otherwise

    def __missing__(self, name: str) -> Callable[..., np.ndarray]:
        self[name] = _call(self._program, name, self._otherwise)
        return self[name]


def _call(program: Program, name: str, otherwise: str) -> Callable[..., np.ndarray]:
    """The public call of a recursion, rendered from its row; for a tree it goes straight to compiled code.

    `otherwise` is what follows if compiled code does not take the input as it is.
    """
    row, loops = RECURSIONS[name], program.loops
    vectors = "".join(f"{vector}, " for vector in row.vectors)
    chosen = "".join(f"{argument}, " for argument in row.choice.arguments) if row.choice else ""
    names = {
        "vectors": vectors,
        "exact": " is ".join(f"{x}.__class__" for x in ("q", *row.vectors)) + " is ndarray",
        "chosen": chosen,
        "choice": f"choices[{chosen.rstrip(', ')}], " if row.choice else "",
        "keep": "",
        "solve": "",
        "bias_rates": "",
        "given": "memory, q",
    }
    scope: dict[str, Any] = {
        "name": name,
        "core": program.cores[name],
        "apart": apart,
        "empty": np.empty,
        "ndarray": np.ndarray,
        "evaluate": program.evaluate,
        "choices": program.choices[row.choice] if row.choice else None,
        "ClosureError": ClosureError,
        "names": ("q", *row.vectors),
        "require_kept": _require_kept,
        "require_finite": partial(_require_finite, ("q", *row.vectors)),
        "NOT_AS_THEY_ARE": _NOT_AS_THEY_ARE,
        "memory": program.arrays_of(name)[0],
    }
    if row.inverse:  # if H is singular, `out` is already overwritten when `evaluate` needs the arguments
        names["keep"] = f"if out is not None: q, {vectors}= apart((q, {vectors}), out)"
    if loops is not None:
        names["given"] = "memory, closure, clusters, solved, given"
        names["solve"] = (
            "given = q" if loops.linear else "given = solve(q) if guess is None else solve(q, guess)"
        )
        names["bias_rates"] = f"bias_rates(given, {row.vectors[0]}), " if row.bias_rates else ""
        scope |= {
            "closure": program.arrays[1],
            "clusters": program.arrays_of(name)[2],
            "solved": not loops.linear,
        }
        scope |= {"solve": loops.solve, "bias_rates": loops.bias_rates}
    else:  # `evaluate` refuses a guess
        names["exact"] += " and guess is None"
    at = f"{name}_at" if loops is None else f"closed_{name}_at"

    def first_call(*arguments: Any) -> bool:
        scope["at"] = compiled.require(at)
        return bool(scope["at"](*arguments))

    scope["at"] = first_call
    if loops is not None and row.closed is None:
        names["exact"] = "False"
    names["otherwise"] = otherwise.format(**names)
    execute(_CALL.format(**names), __file__, scope)
    call: Callable[..., np.ndarray] = scope["call"]
    return call
