"""Variational steps recorded for C: what is computed between the decisions of Newton's method, and these.

The kernel decides by numbers how often Newton's method is repeated. So four blocks without branches are
recorded: the beginning of a step, the solution of Newton's equations, the displacement by it, and the end of
the step. What the first block computes and others read goes through an array ``fixed``. Unlike in the
kernel, each of Newton's steps has a matrix of its own, which C needs no second text for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from connections.checks import ModelError
from connections.engines.inlined.logarithms import TERMS, logarithm_coefficients, logarithm_series
from connections.engines.inlined.vectors import quaternion_of, vector_of
from connections.engines.recorded.c_code import Code, Real, code
from connections.engines.recorded.execution import MemoryPointer, Workspace
from connections.engines.recorded.expressions import Record, applied
from connections.engines.recorded.pieces import statements_in_pieces
from connections.multibody.generation.function_text import (
    FRAMES,
    PIECE,
    WHOLE,
    CFunction,
    Piece,
    declaration_of,
    definition,
    first_tests,
)
from connections.multibody.generation.recording import Exported, RecordedFunction, Recording
from connections.multibody.kernels.elementary_joints import displace_further, put_way
from connections.multibody.kernels.layout import DISPLACEMENT, PARAMETERS
from connections.multibody.kernels.layout import STEP_LINK as LINK
from connections.multibody.kernels.reading import read_configuration
from connections.multibody.kernels.variational import (
    AWAY,
    CLOSE,
    LARGE,
    MOST_ITERATIONS,
    armature_momenta,
    begin_momenta,
    begin_step,
    end_step,
    excess_turn,
    gather,
    move_links,
    newton_step,
    prepare_step,
)
from connections.multibody.model import Model

Statements = tuple[Code, list[str], list[str]]  # the code, and its texts before and behind the turns
_TINY = 1e-300  # added to squares, so that nothing is divided by zero


def record_momentum(model: Model, function: Exported) -> RecordedFunction:
    """Record `discrete_momentum`."""
    recording = _recording(model, function)
    tree, work, h = recording.tree, recording.tree.work, recording.record.given("h", 0)
    recording.read(read_configuration, tree, work, recording.given("q1"))
    target = MemoryPointer({k: work[k] for k in range(tree.nq)})
    recording.work.update({tree.vectors + j: 0.0 for j in range(3 * tree.nv)})
    _begin(recording, 0.0, h)
    for i in range(1, tree.links + 1):
        q, other = (
            MemoryPointer(work.memory, tree.coordinate[i]),
            MemoryPointer(target.memory, tree.coordinate[i]),
        )
        own = MemoryPointer(work.memory, _own(tree, i))
        recording.run(put_way, tree.kind[i], _constants(tree, i), q, other, own)
    recording.run(armature_momenta, tree, work, h)
    recording.run(move_links, tree, work, h, False)
    results = Workspace(recording.record.unwritten)
    excess = recording.run(excess_turn, tree, work)
    recording.run(gather, tree, work, MemoryPointer(results))
    return replace(_recorded(recording, dict(results), tree.nv), excess=excess)


def step_function(model: Model, function: Exported, name: str, real: Real) -> CFunction:
    """The C function of `variational_step`, whose result is q and P, one after the other.

    Raises
    ------
    ModelError : the numbers are floats.
    """
    if real.suffix:
        raise ModelError(f"{function.name}: float has too few digits for variational steps; use double")
    first = _recording(model, function)
    tree, nv = first.tree, first.tree.nv
    h = first.record.given("h", 0)
    _write_vectors(first)
    _begin(first, 0.5 * h, h)
    slots = [_own(tree, i) + k for i in range(1, tree.links + 1) for k in range(DISPLACEMENT.size)]
    moved = _move(model, function, first, slots, {})
    constant = {s: x for s, x in moved.results.items() if isinstance(x, float) and first.work[s] == x}
    varying = {slot: k for k, slot in enumerate(slot for slot in slots if slot not in constant)}
    blocks = [
        _solve(model, function, first, varying, constant),
        _move(model, function, first, varying, constant).written("next", varying),
        _end(model, function, first, varying, constant),
    ]
    codes = [block.code(real) for block in blocks]
    texts = "\n".join(line for found in codes for line in (*found.before, *found.lines))
    used = sorted({int(k) for k in re.findall(r"\bfixed\[(\d+)\]", texts)})
    places = {slot: k for k, slot in enumerate(used)}
    begun = [(f"fixed[{k}]", first.work[slot]) for slot, k in places.items()]
    begun += [(f"own[{k}]", first.work[slot]) for slot, k in varying.items()]
    begin = StepBlock("begin", ("q", "P", "tau", "h"), ("fixed", "own"), first.record, tuple(begun))
    own, opening = f"{name}_{function.name}", begin.code(real)
    parts = _block_texts(own, begin, (opening, [*opening.before], [*opening.lines]), name, real)
    for block, found in zip(blocks, codes, strict=True):
        parts += _block_texts(own, block, _renumbered(found, places), name, real)
    recorded = _recorded(first, dict.fromkeys(range(tree.nq + nv), 0.0), tree.nq + nv)
    body = _BODY.format(
        up=name.upper(),
        own=own,
        name=name,
        fixed=max(1, len(used)),
        state=max(1, len(varying)),
        nv=nv,
        size=tree.nq + nv,
        most=MOST_ITERATIONS,
        close=real.literal(CLOSE),
        away=real.literal(AWAY),
        large=real.literal(LARGE),
    ).splitlines()
    arrays = len(used) + 2 * len(varying) + nv + 8
    return CFunction(
        name=own,
        recorded=recorded,
        real=real,
        declaration=declaration_of(recorded, name, real),
        body=(*first_tests(recorded, name, real), *body),
        pieces=(),
        zeros=(),
        operations=sum((found.counts for found in codes), opening.counts),
        stack=8 * (arrays + max(part.variables for part in parts)) + 3 * FRAMES,
        live=max(found.live for found in codes),
        parts=tuple(parts),
    )


_BODY = """\
double fixed[{fixed}], own[{state}], next[{state}], ways[{nv}], energy, decrement, last = 0.0, excess;
if (h[0] == 0.0) {{
    return {up}_NO_STEP;
}}
{own}_begin(q, P, tau, h, fixed, own);
for (int more = 1, done = 1; more; ++done) {{
    {own}_solve(h, fixed, own, ways, &energy, &decrement);
    {own}_move(own, ways, next);
    memcpy(own, next, sizeof own);
    /* How much of the error is left: at first it is squared, then it falls as before. */
    const double left = decrement > 0.0 ? decrement / (done > 1 ? last : energy) : 0.0;
    last = decrement;
    more = decrement * left > {close} * energy;
    const int away = done > 1 && left > {away} && decrement > {large} * energy;
    if (!(decrement <= DBL_MAX) || (more && done == {most}) || away) {{
        return {up}_NO_STEP;
    }}
}}
{own}_end(q, P, h, fixed, own, out, &excess);
if (!(excess < 0.0)) {{
    return {up}_NO_STEP; /* a body or the angle of a joint turns by half a turn or more */
}}
return {name}_are_within(out, {size}, DBL_MAX) ? {up}_OK : {up}_NOT_FINITE;
"""


@dataclass(frozen=True)
class StepBlock:
    """Recorded operations between two decisions.

    Attributes
    ----------
    name : of the function in C, behind that of the step.
    given, written : names of arrays, in the order of the arguments.
    record : the operations.
    assigned : (what is assigned to, as C; the number).
    """

    name: str
    given: tuple[str, ...]
    written: tuple[str, ...]
    record: Record
    assigned: tuple[tuple[str, Any], ...]

    def code(self, real: Real) -> Code:
        """The statements."""
        return code(self.record, self.assigned, real)


@dataclass(frozen=True)
class _MovedJoints:
    """Displacements of joints after a step of Newton's method, by their slots."""

    record: Record
    results: dict[int, Any]

    def written(self, array: str, varying: dict[int, int]) -> StepBlock:
        """The block that writes them."""
        assigned = tuple((f"{array}[{k}]", self.results[slot]) for slot, k in varying.items())
        return StepBlock("move", ("own", "ways"), (array,), self.record, assigned)


@dataclass(frozen=True)
class _Text:
    """The text of a function in C, and how many numbers its variables are."""

    text: str
    variables: int


def _recording(model: Model, function: Exported) -> Recording:
    """A recording in which no branch depends on a number."""
    if model.closed:
        raise ModelError(f"{function.name}: variational steps are generated for robots without loops")
    numbers = SimpleNamespace(pi=math.pi, **{f: _applied(f) for f in ("sqrt", "atan", "sin", "cos")})
    replaced = {
        math: numbers,
        logarithm_coefficients: lambda s: logarithm_series.py_func(s, TERMS),
        quaternion_of: _turn,
        vector_of: _vector,
    }
    recording = Recording(model, function, replaced)
    recording.round_rotations()
    return recording


def _applied(function: str) -> Any:
    return lambda x: applied(function, x)


def _turn(x: Any) -> tuple[Any, ...]:
    """`vectors.quaternion_of`."""
    angle = applied("sqrt", x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + _TINY)
    scale = applied("sin", 0.5 * angle) / angle
    return x[0] * scale, x[1] * scale, x[2] * scale, applied("cos", 0.5 * angle)


def _vector(q: Any) -> tuple[Any, ...]:
    """`vectors.vector_of`, by the tangent of a quarter of the angle."""
    sine = applied("sqrt", q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + _TINY)
    scale = 4.0 * applied("atan", sine / (1.0 + q[3])) / sine
    return q[0] * scale, q[1] * scale, q[2] * scale


def _own(tree: Any, i: int) -> int:
    """The first slot of the displacement of the joint of link i."""
    return int(tree.per_link + i * LINK.size + LINK.own)


def _constants(tree: Any, i: int) -> MemoryPointer:
    """The numbers of link i."""
    return MemoryPointer(tree.parameters.memory, tree.parameters.at + i * PARAMETERS.size)


def _write_vectors(recording: Recording) -> None:
    """P, and tau at both ends of the step."""
    tree, given = recording.tree, (recording.given("P"), *(recording.given("tau"),) * 2)
    for number, vector in enumerate(given):
        for j in range(tree.nv):
            recording.work[tree.vectors + number * tree.nv + j] = vector[j]


def _begin(recording: Recording, kick: Any, h: Any) -> None:
    """Record the part of a step that depends on its beginning only; displacements of joints are zero."""
    tree, work = recording.tree, recording.tree.work
    recording.read(read_configuration, tree, work, recording.given("q"))
    recording.run(prepare_step, tree, work)
    recording.run(begin_step, tree, work, kick, h, MemoryPointer(dict.fromkeys(range(tree.nv), 0.0)))


def _later(
    model: Model, function: Exported, first: Recording, own: Sequence[int] | dict[int, int], constant: Any
) -> Recording:
    """A recording with the workspace that another one has left, and the displacements of joints."""
    recording = _recording(model, function)

    def found(slot: int) -> Any:
        if slot not in first.work:
            return recording.record.unwritten(slot)
        value = first.work[slot]
        return value if isinstance(value, float | int) else recording.record.given("fixed", slot)

    recording.work = Workspace(found)
    recording.tree = recording.tree._replace(work=MemoryPointer(recording.work))
    for k, slot in enumerate(own):
        recording.work[slot] = recording.record.given("own", k)
    recording.work.update(constant)
    return recording


def _solve(
    model: Model, function: Exported, first: Recording, varying: dict[int, int], constant: Any
) -> StepBlock:
    """Newton's equations: by how much the joints move, the energy of the step, and the decrement."""
    recording = _later(model, function, first, varying, constant)
    recording.replace(displace_further, lambda *_: None)
    tree, work, h = recording.tree, recording.tree.work, recording.record.given("h", 0)
    recording.run(armature_momenta, tree, work, h)
    energy = abs(recording.run(move_links, tree, work, h, True))
    decrement = abs(recording.run(newton_step, tree, work, h, True))
    assigned = [(f"ways[{j}]", recording.work[tree.pivots + j]) for j in range(tree.nv)]
    assigned += [("energy[0]", energy), ("decrement[0]", decrement)]
    written = ("ways", "energy", "decrement")
    return StepBlock("solve", ("h", "fixed", "own"), written, recording.record, tuple(assigned))


def _move(
    model: Model, function: Exported, first: Recording, own: Sequence[int] | dict[int, int], constant: Any
) -> _MovedJoints:
    """The displacements of joints, followed by a small one."""
    recording = _later(model, function, first, own, constant)
    tree = recording.tree
    ways = MemoryPointer({j: recording.record.given("ways", j) for j in range(tree.nv)})
    for i in range(1, tree.links + 1):
        way, own_of_link = (
            MemoryPointer(ways.memory, tree.first[i]),
            MemoryPointer(recording.work, _own(tree, i)),
        )
        recording.run(displace_further, tree.kind[i], _constants(tree, i), way, own_of_link)
    slots = (_own(tree, i) + k for i in range(1, tree.links + 1) for k in range(DISPLACEMENT.size))
    return _MovedJoints(recording.record, {slot: recording.work[slot] for slot in slots})


def _end(
    model: Model, function: Exported, first: Recording, varying: dict[int, int], constant: Any
) -> StepBlock:
    """The state at the end, and what `excess_turn` says."""
    recording = _later(model, function, first, varying, constant)
    tree, work, h = recording.tree, recording.tree.work, recording.record.given("h", 0)
    state, momenta = Workspace(recording.record.unwritten), Workspace(recording.record.unwritten)
    q, P = recording.given("q"), recording.given("P")
    state.update({k: q[k] for k in range(tree.nq)} | {tree.nq + j: P[j] for j in range(tree.nv)})
    recording.run(begin_momenta, tree, MemoryPointer(state), MemoryPointer(momenta), tree.kind)
    recording.run(armature_momenta, tree, work, h)
    recording.run(move_links, tree, work, h, False)
    recording.run(end_step, tree, work, h, MemoryPointer(state), MemoryPointer(momenta), tree.kind)
    excess = recording.run(excess_turn, tree, work)
    assigned = [(f"out[{k}]", state[k]) for k in range(tree.nq + tree.nv)]
    given = ("q", "P", "h", "fixed", "own")
    return StepBlock("end", given, ("out", "excess"), recording.record, (*assigned, ("excess[0]", excess)))


def _recorded(recording: Recording, results: dict[int, Any], size: int) -> RecordedFunction:
    return RecordedFunction(
        function=recording.function,
        sizes=tuple(recording.sizes),
        shape=(size,),
        record=recording.record,
        results=results,
        squares=tuple(recording.squares),
        pivots=(),
        limit=-1.0,
    )


def _renumbered(found: Code, places: dict[int, int]) -> Statements:
    """The statements with the places of ``fixed`` for its slots."""

    def place(match: re.Match[str]) -> str:
        return f"fixed[{places[int(match[1])]}]"

    parts = ([re.sub(r"\bfixed\[(\d+)\]", place, line) for line in x] for x in (found.before, found.lines))
    before, lines = parts
    return found, before, lines


def _block_texts(own: str, block: StepBlock, found: Statements, name: str, real: Real) -> list[_Text]:
    """The function of a block, behind its pieces if it is long."""
    about, before, lines = found
    pieces, kept = list[Piece](), 0
    written = [*block.written]
    if sum(map(len, lines)) > WHOLE:
        (before, *texts), kept = statements_in_pieces(before, lines, PIECE)
        for number, part in enumerate(texts):
            text = "\n".join(part)
            read = [x for x in (*block.given, "sines", "cosines") if re.search(rf"\b{x}\[", text)]
            arrays = [(x, False) for x in read]
            arrays += [(x, True) for x in ("kept", *written) if re.search(rf"\b{x}\[", text)]
            pieces.append(Piece(f"{own}_{block.name}_{number}", tuple(arrays), tuple(part), real))
        lines = [piece.call for piece in pieces]
    r, angles = real.name, about.angles
    statements = [f"{r} kept[{kept}];"] * (kept > 0)
    statements += [f"{r} angles[{angles}], sines[{angles}], cosines[{angles}];"] * (angles > 0)
    statements += [*before, *[f"{name}_turn({angles}, angles, sines, cosines);"] * (angles > 0), *lines]
    unused = [x for x in block.given if not any(re.search(rf"\b{x}\b", line) for line in statements)]
    arguments = [f"const {r} *restrict {x}" for x in block.given]
    arguments += [f"{r} *restrict {x}" for x in written]
    declaration = f"static void {own}_{block.name}({', '.join(arguments)})"
    text = definition(declaration, [*(f"(void){x};" for x in unused), *statements]) + "\n"
    return [
        *(_Text(piece.text, 0) for piece in pieces),
        _Text(text, kept + 3 * angles + about.variables),
    ]
