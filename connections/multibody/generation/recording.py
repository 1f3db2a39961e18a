"""A recursion recorded for one model: what its kernel computes, as operations on the numbers that are given.

The kernel's text runs on recorded numbers (`engines/recorded`), with the model's tables as constants. The
metric of a tree that one joint carries does not depend on the configuration of that joint, and the results
are components in the links' own frames. So the kernel runs at the neutral configuration of that joint, in
axes of the first link, and only free fall is turned into them. Then the columns of a floating base are unit
vectors, and nothing but gravity depends on its quaternion.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from connections._words import no_such
from connections.checks import ModelError
from connections.engines.inlined.vectors import transpose_times
from connections.engines.recorded.execution import (
    MemoryPointer,
    Table,
    Workspace,
)
from connections.engines.recorded.expressions import Record
from connections.multibody.generation.identifiers import identifier
from connections.multibody.generation.loops import interpreter
from connections.multibody.generation.passive import RecordedPassive, add_to_results
from connections.multibody.kernels.cluster_reading import read_solution
from connections.multibody.kernels.elementary_joints import FREE, SPHERICAL
from connections.multibody.kernels.layout import (
    IDENTITY,
    PARAMETERS,
    POSE,
    unpack_closure,
    unpack_clusters,
    unpack_loop,
    unpack_tree,
)
from connections.multibody.kernels.loop_bias_rates import rates_of_loop
from connections.multibody.kernels.poses import place_links
from connections.multibody.kernels.reading import read_configuration
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.model import Model
from connections.multibody.program.table import (
    BODY_FACTOR,
    BODY_FACTORS,
    FRAME,
    FRAME_AND_AXES,
    RECURSIONS,
    Recursion,
)

_KERNELS = "connections.multibody.kernels"
_ROUND_OFF = 2.0**-52  # entries of rotations are rounded to -1, 0 and 1 if they differ by at most this


#: Functions of steps, which are no recursions of the table: their arguments behind q.
STEPS = {
    "variational_step": Recursion("variational", None, ("P", "tau", "h")),
    "discrete_momentum": Recursion("variational", None, ("q1", "h")),
}


@dataclass(frozen=True)
class Exported:
    """A function that can be exported.

    Attributes
    ----------
    name : of the C function: that of the recursion, followed by what is chosen if it is not the usual.
    recursion : its key in the table.
    chosen : the body-level factor, or the frame and the axes, as the function in Python takes them.
    passive : whether passive forces act in it.
    """

    name: str
    recursion: str
    chosen: tuple[str, ...]
    passive: bool = False

    @property
    def row(self) -> Recursion:
        """The function's row of the table of recursions."""
        return STEPS[self.recursion] if self.is_step else RECURSIONS[self.recursion]

    @property
    def is_step(self) -> bool:
        """Whether it is a function of `STEPS`."""
        return self.recursion in STEPS

    def sizes(self, model: Model) -> list[tuple[str, int]]:
        """(argument, size) of what it takes, in order."""
        of = {"q1": model.nq, "h": 1}
        return [("q", model.nq), *((vector, of.get(vector, model.nv)) for vector in self.row.vectors)]

    def shape(self, model: Model) -> tuple[int, ...]:
        """The shape of its result."""
        if self.is_step:
            return (model.nq + model.nv if self.recursion == "variational_step" else model.nv,)
        return model.program.cores[self.recursion]


def exported() -> dict[str, Exported]:
    """All recursions that can be exported, by name, except those of frames."""
    found = {}
    for recursion, row in RECURSIONS.items():
        if row.choice is None:
            found[recursion] = Exported(recursion, recursion, ())
        elif row.choice is BODY_FACTOR:
            for factor, chosen in BODY_FACTORS.items():
                name = recursion if not chosen else f"{recursion}_{factor}"
                found[name] = Exported(name, recursion, (factor,))
    return found


def of_frames() -> list[str]:
    """The recursions of frames."""
    return [name for name, row in RECURSIONS.items() if row.choice in (FRAME, FRAME_AND_AXES)]


def exported_function(name: str) -> Exported:
    """The function of this name; ``RECURSION:FRAME`` or ``RECURSION:FRAME:world`` for one of a frame.

    Raises
    ------
    ValueError : there is none.
    """
    recursion, colon, frame = name.partition(":") if isinstance(name, str) else ("", "", "")
    if colon and recursion in of_frames():
        if RECURSIONS[recursion].choice is FRAME:
            return Exported(f"{recursion}_{identifier(frame)}", recursion, (frame,))
        axes = "world" if frame.endswith(":world") else "body"
        frame = frame.removesuffix(f":{axes}")
        end = "_world" if axes == "world" else ""
        return Exported(f"{recursion}_{identifier(frame)}{end}", recursion, (frame, axes))
    if name in STEPS:
        return Exported(name, name, ())
    try:
        return exported()[name]
    except (KeyError, TypeError):
        known = [*exported(), *STEPS, *(f"{recursion}:FRAME" for recursion in of_frames())]
        raise ValueError(f"functions: {no_such('function', name, known)}") from None


@dataclass(frozen=True)
class RecordedFunction:
    """A function as operations on given numbers.

    Attributes
    ----------
    function : which one.
    sizes : (argument, size) of what is given, in order.
    shape : of the result.
    record : the operations.
    results : entry of the flat result -> its number, in the order of the kernel; other entries are zero.
    squares : the squared norms of the quaternions in q.
    pivots : of the mass matrix, relative to the terms before cancellation; empty if it is not inverted.
    limit : if no given number is larger, the result is finite, or it has pivots.
    excess : of turns over half a turn, as `variational.excess_turn`; None if nothing turns.
    """

    function: Exported
    sizes: tuple[tuple[str, int], ...]
    shape: tuple[int, ...]
    record: Record
    results: dict[int, Any]
    squares: tuple[Any, ...]
    pivots: tuple[Any, ...]
    limit: float
    excess: Any = None

    @property
    def size(self) -> int:
        """How many numbers the result has."""
        return math.prod(self.shape)


def record(model: Model, function: Exported) -> RecordedFunction:
    """Record a function for a model.

    Raises
    ------
    ModelError : it cannot be exported for this model.
    """
    recording = Recording(model, function)
    return recording.of_closed_chain() if model.closed else recording.of_tree()


class Recording:
    """A recursion of a model while it is recorded."""

    def __init__(
        self,
        model: Model,
        function: Exported,
        replaced: dict[Any, Any] | None = None,
        at_rest_in: Record | None = None,
    ) -> None:
        self.model, self.function, self.row = model, function, function.row
        self.still, self.record, self.squares = at_rest_in is not None, at_rest_in or Record(), list[Any]()
        arrays = model.program.arrays if function.is_step else model.program.arrays_of(function.recursion)
        self.table = Table(arrays[0])
        self.pivot: Any = None  # of loops, which C tests when it closes them
        self.passive: RecordedPassive | None = None
        self.interpreter = interpreter(self, replaced)
        self.work = Workspace(self.record.unwritten)
        tree = self.run(unpack_tree, MemoryPointer(self.table))
        self.tree = tree._replace(work=MemoryPointer(self.work))
        self.sizes = function.sizes(model)

    def run(self, kernel: Any, *arguments: Any) -> Any:
        """The result of a kernel's Python code."""
        return self.interpreter.function(kernel)(*arguments)

    def read(self, kernel: Any, *arguments: Any) -> None:
        """Run a kernel that reads what is given, and accepts it where numbers are recorded."""
        if not self.run(kernel, *arguments):
            raise RuntimeError(f"{self.function.name}: what is recorded was refused")

    def replace(self, kernel: Any, function: Any) -> None:
        """Put a function of Python in the place of a kernel that has not run yet."""
        self.interpreter.replace(kernel, function)

    def of_tree(self) -> RecordedFunction:
        """The recursion of a tree."""
        self.round_rotations()
        self.read(read_configuration, self.tree, self.tree.work, self.given("q"))
        if self.function.passive:
            self._add_passive([*map(self.given("q").__getitem__, range(self.tree.nq))], self.tree.nv)
        self._write_vectors(self.tree.vectors, self.tree.nv)
        roots = [link for link in range(1, self.tree.links + 1) if self.tree.parent[link] == 0]
        if len(roots) == 1 and self.row.kernel != "kinematics":
            self._begin_at_first_link()
        return self._recorded(self.row.kernel, (self.tree,), self.tree)

    def of_closed_chain(self) -> RecordedFunction:
        """The recursion of a closed chain with constant G."""
        file = self._file_of_closed_chain()
        self.round_rotations()
        _, closure, clusters = self.model.program.arrays_of(self.function.recursion)
        reduced = self.run(unpack_clusters, MemoryPointer(Table(clusters)))
        parts = self.run(unpack_closure, MemoryPointer(Table(closure)))
        if parts.loops:
            self.sizes[0] = ("loops", reduced.solution_size)
            given = MemoryPointer(Table(closure)), True, self._solution(reduced, parts)
        else:
            given = MemoryPointer(Table(closure)), False, self.given("q")
        self.read(read_solution, self.tree, reduced, *given)
        # Quaternions are tested once, not again in q_s, and not where loops are closed before.
        del self.squares[0 if parts.loops else parts.quaternions :]
        if self.function.passive:
            solution = range(reduced.solution, reduced.solution + reduced.solution_size)
            self._add_passive([self.work[k] for k in solution], reduced.nv)
        self._write_vectors(reduced.vectors, reduced.nv)
        if self.row.bias_rates:
            self._write_bias_rates(reduced, parts)
        return self._recorded(file, (self.tree, reduced), reduced)

    def _solution(self, reduced: Any, parts: Any) -> MemoryPointer:
        """A solution of loops that is given; entries of G and LG that do not vary are constants."""
        numbers = {k: parts.template[k] for k in range(reduced.solution_size)}
        varying = [*range(self.tree.nq), *(reduced.varying[k] for k in range(reduced.varying_count))]
        numbers.update((k, self.record.given("loops", k)) for k in varying)
        return MemoryPointer(numbers, 0, (reduced.solution_size,))

    def _write_bias_rates(self, reduced: Any, parts: Any) -> None:
        """L_j (L_v G) v of all loops, as the program gives them to the kernel."""
        rates = MemoryPointer(self.work, reduced.bias_rates)
        for k in range(reduced.G_size):
            self.work[reduced.bias_rates + k] = 0.0
        solution = MemoryPointer(self.work, reduced.solution)
        parts = parts._replace(work=MemoryPointer(Workspace(self.record.unwritten)))
        for number in range(parts.loops):
            loop = self.run(unpack_loop, parts, number)
            v = MemoryPointer(self.work, reduced.vectors + loop.velocity)
            self.run(rates_of_loop, loop, solution, v, parts.spanning_nq, rates)

    def _file_of_closed_chain(self) -> str:
        """The file of the kernel for closed chains; raises the error that says why there is none."""
        kinematics, name = self.model.kinematics, self.function.name
        assert isinstance(kinematics, ClosedKinematics)
        for condition in kinematics.functions:
            owner = kinematics.names[condition.owner]
            raise ModelError(f"{name}: '{owner}' is closed by a Python function, which has no form in C")
        if self.row.closed is None:
            raise ModelError(f"{name}: it is no recursion for mechanisms with loops or couplings")
        return self.row.closed

    def given(self, name: str) -> MemoryPointer:
        """An argument of the C function."""
        size = dict(self.sizes)[name]
        if self.still and name in self.row.vectors:
            return MemoryPointer(dict.fromkeys(range(size), 0.0), 0, (size,))
        numbers = {k: self.record.given(name, k) for k in range(size)}
        return MemoryPointer(numbers, 0, (size,))

    def _write_vectors(self, first: int, nv: int) -> None:
        for number, vector in enumerate(self.row.vectors):
            given = self.given(vector)
            more = self.passive.forces() if self.passive and vector == "tau" else [0.0] * nv
            for k in range(nv):
                self.work[first + number * nv + k] = given[k] + more[k]

    def _add_passive(self, q: list[Any], nv: int) -> None:
        """Make the passive forces at q, of a closed chain the solution of its loops."""

        def lift(recursion: str) -> dict[int, Any]:
            assert self.model.lifted is not None
            lifted = Recording(self.model.lifted, Exported(recursion, recursion, ()), at_rest_in=self.record)
            return (lifted.of_closed_chain() if self.model.closed else lifted.of_tree()).results

        v = [*map(self.given("v").__getitem__, range(nv))]
        self.passive = RecordedPassive(self.model, q, v, cache(lift))

    def round_rotations(self) -> None:
        """Round what is zero or one but for round-off, such as the cosine of a right angle."""
        for link in range(1, self.tree.links + 1):
            for part in (PARAMETERS.rotation, PARAMETERS.axes):
                for k in range(link * PARAMETERS.size + part, link * PARAMETERS.size + part + 9):
                    entry = self.tree.parameters[k]
                    if abs(entry - round(entry)) <= _ROUND_OFF:
                        self.table.changed[self.tree.parameters.at + k] = float(round(entry))

    def _begin_at_first_link(self) -> None:
        """Turn free fall into axes of the first link, and put its joint into its neutral configuration."""
        tree, work, parameters = self.tree, self.work, self.tree.parameters
        self.run(place_links, tree, tree.work)
        R = tuple(work[tree.poses + POSE.size + POSE.rotation + k] for k in range(9))
        fall = self.run(transpose_times, R, tuple(parameters[k] for k in range(3)))
        changed = self.table.changed
        changed.update((parameters.at + k, number) for k, number in enumerate(fall))
        placement = parameters.at + PARAMETERS.size + PARAMETERS.rotation
        changed.update((placement + k, IDENTITY[k]) for k in range(9))
        neutral = {SPHERICAL: (0.0,) * 3 + (1.0,), FREE: (0.0,) * 6 + (1.0,)}.get(tree.kind[1], (0.0,))
        for k, number in enumerate(neutral, start=tree.coordinate[1]):
            work[k] = work[tree.angles + k] = number

    def _recorded(self, file: str, objects: tuple[Any, ...], of: Any) -> RecordedFunction:
        kernel = getattr(importlib.import_module(f"{_KERNELS}.{file}"), self.function.recursion)
        given = self.model.program.choice(self.function.recursion, self.function.chosen)
        chosen = [x if isinstance(x, int) else MemoryPointer(Table(x)) for x in given]
        chosen += [True] * (self.row.mirrored and not self.model.closed)
        results = Workspace((lambda slot: 0.0) if self.row.sparse else self.record.unwritten)
        self.run(kernel, *objects, self.tree.work, MemoryPointer(results), *chosen)
        if self.passive is not None:
            add_to_results(self.function.recursion, self.passive, results)
        pivots = range(of.pivots, of.pivots + of.nv) if self.row.inverse else ()
        return RecordedFunction(
            function=self.function,
            sizes=tuple(self.sizes),
            shape=self.model.program.cores[self.function.recursion],
            record=self.record,
            results=dict(results),
            squares=tuple(self.squares),
            pivots=tuple(self.work[k] for k in pivots),
            # G would count, too, and so would springs.
            limit=-1.0 if self.model.closed or self.passive else self.tree.limit[0],
        )
