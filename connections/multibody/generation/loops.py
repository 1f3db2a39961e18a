"""Loops of a mechanism recorded for C: a prediction, a correction, and the derivatives of the solution.

Kernels of loops decide by numbers how long a step is. What is recorded is what they compute between two
decisions, where no branch depends on a number; the decisions themselves are C (`loop_text`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from connections.checks import ModelError
from connections.engines.inlined.householder import column_length, scaled_length
from connections.engines.inlined.rows import LARGEST
from connections.engines.inlined.simd import sine_cosine, smaller
from connections.engines.inlined.vectors import reduced_angle
from connections.engines.recorded.execution import (
    Interpreter,
    MemoryPointer,
    Table,
    Unbounded,
    Workspace,
    largest,
    sine_cosine_of,
)
from connections.engines.recorded.expressions import Record, applied
from connections.multibody.kernels.elementary_joints import FREE, SPHERICAL
from connections.multibody.kernels.layout import unpack_closure, unpack_loop
from connections.multibody.kernels.loop_continuation import solve_linear, write_derivatives
from connections.multibody.kernels.loop_motion import advance, move_dependent
from connections.multibody.kernels.loop_path import change_of_K, keep, newton, pivot_of, predict
from connections.multibody.kernels.reading import is_unit
from connections.multibody.model import Model
from connections.multibody.tolerances import CLOSED


@dataclass(frozen=True)
class LoopBlock:
    """Recorded operations between two decisions.

    Attributes
    ----------
    given : (array, size) of what it reads.
    record : the operations.
    written : (array, size, {entry: number}) of what it writes.
    """

    given: tuple[tuple[str, int], ...]
    record: Record
    written: tuple[tuple[str, int, dict[int, Any]], ...]


@dataclass(frozen=True)
class RecordedLoop:
    """One loop; x is its configuration, of independent and dependent coordinates.

    Attributes
    ----------
    source : numbers of its coordinates among the spanning coordinates.
    follows : whether each is dependent.
    dependent, rows : numbers of dependent columns and of conditions.
    predict : (base, goal) -> x, whose independent coordinates are those of goal; the largest turn, rad.
    correct : x -> `moved`, one step of Newton's method later; the length of the step, the pivot that shows
        how far K_d is from singular, and by how much conditions are open beyond the tolerance.
    change : (base, x) -> by how much K_d changes.
    derivatives : x -> the entries of a solution that are G and LG.
    """

    source: tuple[int, ...]
    follows: tuple[bool, ...]
    dependent: int
    rows: int
    predict: LoopBlock
    correct: LoopBlock
    change: LoopBlock
    derivatives: LoopBlock


@dataclass(frozen=True)
class RecordedLoops:
    """All loops of a mechanism.

    Attributes
    ----------
    nq, spanning, size : numbers of q, of spanning coordinates, and of a solution [q_s | G | LG].
    start : the solution with the reference configuration; G and LG as far as they are constant.
    linear : q -> the spanning coordinates of independent joints and of linear couplings.
    squares : the squared norms of the quaternions in q, recorded in `linear`.
    loops : those that have to be solved.
    """

    nq: int
    spanning: int
    size: int
    start: tuple[float, ...]
    linear: LoopBlock
    squares: tuple[Any, ...]
    loops: tuple[RecordedLoop, ...]


class _Recording:
    """A record of one block."""

    def __init__(self, model: Model) -> None:
        self.record, self.squares = Record(), list[Any]()
        self.pivot: Any = None  # of K_d, where it was factorized last
        self.interpreter = interpreter(self)
        self.closure = MemoryPointer(Table(model.program.arrays[1]))
        closure = self.run(unpack_closure, self.closure)
        self.parts = closure._replace(work=MemoryPointer(Workspace(self.record.unwritten)))

    def run(self, kernel: Any, *arguments: Any) -> Any:
        """The result of a kernel's Python code."""
        return self.interpreter.function(kernel)(*arguments)

    def given(self, array: str, size: int) -> MemoryPointer:
        """An array of the C function."""
        return MemoryPointer({k: self.record.given(array, k) for k in range(size)}, 0, (size,))

    def loop(self, number: int) -> Any:
        """The parts of a loop."""
        return self.run(unpack_loop, self.parts, number)

    def factorized_at(self, loop: Any, x: MemoryPointer) -> None:
        """Evaluate the conditions at x, and factorize K_d."""
        copy(x, loop.x, loop.coordinates)
        self.length = self.run(newton, loop)[1]


def interpreter(recording: Any, further: dict[Any, Any] | None = None) -> Interpreter:
    """An interpreter for kernels of loops; `recording` has its record's `squares`, `pivot` and `run`.

    `further` are other things in the place of names, as `Interpreter` takes them.
    """
    least = Interpreter({smaller: lambda x, y: -largest(-x, -y)}).function(pivot_of)

    def pivot(loop: Any, A: MemoryPointer) -> float:
        recording.pivot = least(loop, A)
        return 1.0  # C tests it

    def length(A: MemoryPointer, p: int, d: int, x: MemoryPointer) -> Any:
        steps = [x[j] * recording.run(column_length, A, p, d, j) for j in range(d)]
        return applied("sqrt", sum(step * step for step in steps))

    def unit(square: Any) -> bool:
        recording.squares.append(square)
        return True

    return Interpreter(
        {
            sine_cosine: sine_cosine_of,
            reduced_angle: lambda angle: angle,  # C does it before it takes sines
            is_unit: unit,
            LARGEST: Unbounded(),
            pivot_of: pivot,
            scaled_length: length,
            **(further or {}),
        }
    )


def copy(source: MemoryPointer, target: MemoryPointer, count: int) -> None:
    """Copy numbers from one array to another."""
    for k in range(count):
        target.memory[target.at + k] = source[k]


def entries(slots: MemoryPointer, count: int) -> dict[int, Any]:
    """The numbers of an array by entry."""
    return {k: slots[k] for k in range(count)}


def record_loops(model: Model) -> RecordedLoops:
    """Record all loops of a mechanism.

    Raises
    ------
    ModelError : an independent joint of a loop contains a quaternion.
    """
    recording = _Recording(model)
    parts, solution = recording.parts, Workspace(recording.record.unwritten)
    recording.run(
        solve_linear, recording.closure, recording.given("q", parts.nq), parts.nq, MemoryPointer(solution)
    )
    known = {k: solution[k] for k in range(parts.spanning_nq)}
    loops = tuple(_record_loop(model, number) for number in range(parts.loops))
    own = {loop.source[k] for loop in loops for k in range(len(loop.source)) if loop.follows[k]}
    linear = {k: x for k, x in known.items() if k not in own}
    start = [parts.template[k] for k in range(parts.size)]
    start[: parts.spanning_nq] = [parts.reference[k] for k in range(parts.spanning_nq)]
    return RecordedLoops(
        nq=parts.nq,
        spanning=parts.spanning_nq,
        size=parts.size,
        start=tuple(start),
        linear=LoopBlock((("q", parts.nq),), recording.record, (("goal", parts.spanning_nq, linear),)),
        squares=tuple(recording.squares),
        loops=loops,
    )


def _record_loop(model: Model, number: int) -> RecordedLoop:
    loop = _Recording(model).loop(number)
    for link in range(1, loop.links + 1):
        if not loop.follows[loop.coordinate[link]] and loop.kind[link] in (SPHERICAL, FREE):
            raise ModelError(
                "a spherical or free joint is independent in a loop that has to be solved, which has no form "
                "in C; let joints with single coordinates be independent"
            )
    return RecordedLoop(
        source=tuple(loop.source[k] for k in range(loop.coordinates)),
        follows=tuple(bool(loop.follows[k]) for k in range(loop.coordinates)),
        dependent=loop.dependent,
        rows=loop.rows,
        predict=_predict_block(model, number),
        correct=_correct_block(model, number),
        change=_change_block(model, number),
        derivatives=_derivatives_block(model, number),
    )


def _predict_block(model: Model, number: int) -> LoopBlock:
    recording = _Recording(model)
    loop = recording.loop(number)
    count = loop.coordinates
    recording.factorized_at(loop, recording.given("base", count))
    recording.run(keep, loop)
    copy(recording.given("goal", count), loop.goal, count)
    turn = recording.run(advance, loop, 1.0)[0]
    turn = largest(turn, recording.run(predict, loop))
    # `predict` begins at the base, and the independent coordinates stay where `advance` put them.
    written = ("x", count, entries(loop.x, count)), ("turn", 1, {0: turn})
    return LoopBlock((("base", count), ("goal", count)), recording.record, written)


def _correct_block(model: Model, number: int) -> LoopBlock:
    recording = _Recording(model)
    loop = recording.loop(number)
    count = loop.coordinates
    recording.factorized_at(loop, recording.given("x", count))
    recording.run(move_dependent, loop, 1.0)
    gaps = {r: applied("fabs", loop.phi[r]) - loop.sizes[r] * CLOSED for r in range(loop.rows)}
    written = (
        ("moved", count, entries(loop.x, count)),
        ("length", 1, {0: recording.length}),
        ("pivot", 1, {0: recording.pivot}),
        ("gaps", loop.rows, gaps),
    )
    return LoopBlock((("x", count),), recording.record, written)


def _change_block(model: Model, number: int) -> LoopBlock:
    recording = _Recording(model)
    loop = recording.loop(number)
    count = loop.coordinates
    recording.factorized_at(loop, recording.given("base", count))
    recording.run(keep, loop)
    recording.factorized_at(loop, recording.given("x", count))
    change = recording.run(change_of_K, loop)
    return LoopBlock((("base", count), ("x", count)), recording.record, (("change", 1, {0: change}),))


def _derivatives_block(model: Model, number: int) -> LoopBlock:
    recording = _Recording(model)
    loop, size = recording.loop(number), recording.parts.size
    recording.factorized_at(loop, recording.given("x", loop.coordinates))
    solution = Workspace(recording.record.unwritten)
    recording.run(write_derivatives, loop, MemoryPointer(solution), 0, 1)
    return LoopBlock((("x", loop.coordinates),), recording.record, (("loops", size, dict(solution)),))
