"""The text of a C function, from a recorded recursion.

A function first tests the numbers that are given, then takes the sines and cosines of all angles together,
in a loop that a compiler can turn into vector instructions, and then computes the results.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

from connections.engines.inlined.simd import polynomial_sine_cosine
from connections.engines.inlined.vectors import FARTHEST_ANGLE
from connections.engines.recorded.c_code import Code, Real, code
from connections.engines.recorded.execution import Interpreter
from connections.engines.recorded.expressions import Number, Record
from connections.engines.recorded.pieces import statements_in_pieces
from connections.geometry.numerics.scales import POINT_TOLERANCE
from connections.multibody.generation.recording import RecordedFunction
from connections.multibody.loops.lost_digits import least_pivot
from connections.multibody.tolerances import SMALLEST_PIVOT

STATUSES = {  # name -> what it means
    "OK": "the result is good",
    "NOT_FINITE": "a number is not finite, in an argument or in the result",
    "NOT_UNIT": "the norm of a quaternion in q is not one",
    "SINGULAR": "the mass matrix is singular, or nearly so",
    "NO_STEP": "a variational step is not found, or a body or the angle of a joint turns by half a turn or "
    "more in it",
    "NOT_CLOSED": "a loop does not close",
    "SINGULAR_LOOP": "a loop is singular, or so near to it that less than 6 digits are left, or the way to q "
    "leads through a singular configuration",
}
_OF_LOOPS = ("NOT_CLOSED", "SINGULAR_LOOP")
_UNIT_FLOAT = 1e-5  # float: the norm of a quaternion is one up to this
_PIVOT_FLOAT = 1e-6  # float: the mass matrix is singular below this
FRAMES = 384  # bytes: arguments, what a compiler adds, and the functions of the support header
WHOLE = 30_000  # bytes of the statements of a function; if it has more, it is written in pieces
PIECE = 10_000  # bytes of a piece, about
LARGEST = 8_000_000  # bytes of the text of a function with its pieces


def statuses(loops: bool) -> list[tuple[str, str]]:
    """Statuses and what they mean, in the order of their values; those of loops only if there are any."""
    return [(name, meaning) for name, meaning in STATUSES.items() if loops or name not in _OF_LOOPS]


class CalledFunction(Protocol):
    """A function that a C function calls."""

    @property
    def text(self) -> str:
        """The function's definition in C."""


@dataclass(frozen=True)
class CFunction:
    """A C function.

    Attributes
    ----------
    name : in C.
    recorded : what it computes.
    real : the type of numbers.
    declaration : its declaration, without the semicolon.
    body : the statements of its definition.
    pieces : functions that it calls one after the other, if it is long.
    zeros : (first, end) of the parts of the result that a function of its own, NAME_clear, sets to zero.
    operations : name -> how often it is executed, of ``+ - * /`` and functions.
    stack : bytes of its variables: an upper bound of its part of the stack, without optimization.
    live : how many variables are needed at once.
    parts : further functions that it calls.
    """

    name: str
    recorded: RecordedFunction
    real: Real
    declaration: str
    body: tuple[str, ...]
    pieces: tuple[Piece, ...]
    zeros: tuple[tuple[int, int], ...]
    operations: Counter[str]
    stack: int
    live: int
    parts: tuple[CalledFunction, ...] = ()

    @cached_property
    def text(self) -> str:
        """The function's definition in C, behind those of its pieces."""
        own = definition(self.declaration, self.body)
        return "".join([self._clear, *(part.text for part in (*self.parts, *self.pieces)), own])

    @property
    def is_always_tested(self) -> bool:
        """Whether it looks at all results, however small the given numbers are."""
        return not _asks_results(self.recorded, self.real)

    @property
    def _clear(self) -> str:
        """A function in C that sets all entries to zero, in a loop that becomes vector instructions."""
        if not self.zeros:
            return ""
        size, r = self.recorded.size, self.real
        loop = [f"for (int k = 0; k < {size}; ++k) {{", f"    out[k] = {r.literal(0.0)};", "}"]
        return definition(f"static void {self.name}_clear({r.name} *restrict out)", loop) + "\n"


@dataclass(frozen=True)
class Piece:
    """A part of a C function.

    Attributes
    ----------
    name : of the function that it is.
    arrays : (name, whether it is written) of the arrays that it reads and writes.
    lines : its statements.
    real : the type of numbers.
    """

    name: str
    arrays: tuple[tuple[str, bool], ...]
    lines: tuple[str, ...]
    real: Real

    @property
    def call(self) -> str:
        """The statement that calls it."""
        return f"{self.name}({', '.join(array for array, _ in self.arrays)});"

    @property
    def text(self) -> str:
        """The piece's definition in C."""
        r = self.real.name
        given = ", ".join(f"{'' if is_set else 'const '}{r} *restrict {x}" for x, is_set in self.arrays)
        return definition(f"NOT_INLINED static void {self.name}({given})", self.lines) + "\n"


def definition(declaration: str, statements: Sequence[str]) -> str:
    """The text of a function."""
    return declaration + "\n{\n" + "".join(f"    {line}\n" for line in statements) + "}\n"


def c_function(recorded: RecordedFunction, name: str, real: Real) -> CFunction:
    """The C function of a recorded recursion.

    Parameters
    ----------
    recorded : the operations.
    name : the robot's, with which names of functions begin.
    real : the type of numbers.
    """
    own = f"{name}_{recorded.function.name}"
    zeros = [k for k in range(recorded.size) if _is_zero(recorded.results.get(k, 0.0))]
    clear = len(zeros) > recorded.size // 8
    results = [(f"out[{k}]", x) for k, x in recorded.results.items() if not (clear and _is_zero(x))]
    if not clear:
        results += [(f"out[{k}]", 0.0) for k in range(recorded.size) if k not in recorded.results]
    pivots = [(f"pivots[{k}]", x) for k, x in enumerate(recorded.pivots)]
    pivots += [("excess[0]", recorded.excess)] * (recorded.excess is not None)
    body = code(recorded.record, pivots + results, real)
    before, pieces, kept = _pieces(recorded, body, name, real)
    statements = (
        *_declared(recorded, body, kept, real),
        *first_tests(recorded, name, real),
        *before,
        *([f"{name}_turn({body.angles}, angles, sines, cosines);"] if body.angles else []),
        *([f"{own}_clear(out);"] if clear else []),
        *([piece.call for piece in pieces] if pieces else body.lines),
        *_ending(recorded, name, real),
    )
    arrays = 3 * body.angles + len(pivots) + kept
    variables = max((_variables(piece.lines) for piece in pieces), default=body.variables)
    stack = (4 if real.suffix else 8) * (arrays + variables) + FRAMES * (2 if pieces else 1)
    declaration = declaration_of(recorded, name, real)
    return CFunction(
        name=own,
        recorded=recorded,
        real=real,
        declaration=declaration,
        body=statements,
        pieces=pieces,
        zeros=_runs(zeros) if clear else (),
        operations=body.counts,
        stack=stack,
        live=body.live,
    )


def _runs(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """(first, end) of the runs of ascending whole numbers."""
    begins = [k for before, k in pairwise([-2, *numbers]) if k != before + 1]
    ends = [k + 1 for k, after in pairwise([*numbers, -2]) if after != k + 1]
    return tuple(zip(begins, ends, strict=True))


def _pieces(
    recorded: RecordedFunction, body: Code, name: str, real: Real
) -> tuple[Sequence[str], tuple[Piece, ...], int]:
    """(lines for the angles, the pieces of a long function, the count of numbers that the pieces share)."""
    if sum(map(len, body.lines)) <= WHOLE:
        return body.before, (), 0
    (before, *texts), kept = statements_in_pieces(body.before, body.lines, PIECE)
    read = [*(argument for argument, _ in recorded.sizes), "sines", "cosines"]
    found = []
    for number, lines in enumerate(texts):
        text = "\n".join(lines)
        arrays = [(array, False) for array in read if re.search(rf"\b{array}\[", text)]
        arrays += [(array, True) for array in ("pivots", "excess", "kept", "out") if f"{array}[" in text]
        own = f"{name}_{recorded.function.name}_piece_{number}"
        found.append(Piece(own, tuple(arrays), tuple(lines), real))
    return before, tuple(found), kept


def _variables(lines: Sequence[str]) -> int:
    return sum(line.startswith("const ") for line in lines)


def declaration_of(recorded: RecordedFunction, name: str, real: Real) -> str:
    """The declaration of a C function, without the semicolon."""
    given = ", ".join(f"const {real.name} *restrict {argument}" for argument, _ in recorded.sizes)
    return f"int {name}_{recorded.function.name}({given}, {real.name} *restrict out)"


def support_header(name: str, real: Real, licence: str) -> str:
    """The text of the header that only the robot's own C files include."""
    guard, functions = f"{name.upper()}_SUPPORT_H", support_functions(name, real)
    return _SUPPORT.format(licence=licence, guard=guard, functions=functions)


def support_functions(name: str, real: Real, *, cuda: bool = False) -> str:
    """The functions that a robot's functions call; in CUDA for all arguments that have an index."""
    record = Record()
    x = record.given("angles", 0)
    values = Interpreter().function(polynomial_sine_cosine)(x)
    own = code(record, list(zip(("sines[i]", "cosines[i]"), values, strict=True)), real)
    r, f = real.name, real.suffix
    if f:
        loop = [f"sines[i] = sin{f}(angles[i]);", f"cosines[i] = cos{f}(angles[i]);"]
        reduce = ""
    else:
        loop = [line.replace("angles[0]", "angles[i]") for line in own.lines]
        reduce = _REDUCE.format(real=r, name=name, farthest=real.literal(FARTHEST_ANGLE))
    static = "static __device__ inline" if cuda else "static inline"
    return _FUNCTIONS.format(
        static=static,
        test=f"template <class Numbers>\n{static}" if cuda else static,
        numbers="const Numbers " if cuda else f"const {r} *",
        restrict="__restrict__" if cuda else "restrict",
        real=r,
        name=name,
        fabs=f"fabs{f}",
        reduce=reduce,
        loop="".join(f"        {line}\n" for line in loop),
    )


_REDUCE = """\
    if (!{name}_are_within(angles, count, {farthest})) {{
        for (int i = 0; i < count; ++i) {{
            angles[i] = atan2(sin(angles[i]), cos(angles[i]));
        }}
    }}
"""
_SUPPORT = """\
{licence}
#ifndef {guard}
#define {guard}

#include <float.h>
#include <math.h>
#include <string.h>

/* A compiler would take minutes for a function with its pieces inlined. */
#if defined(__GNUC__)
#define NOT_INLINED __attribute__((noinline))
#elif defined(_MSC_VER)
#define NOT_INLINED __declspec(noinline)
#else
#define NOT_INLINED
#endif

{functions}
#endif
"""
_FUNCTIONS = """\
/* Whether all numbers are at most `limit` in size; NaN is not. */
{test} int {name}_are_within({numbers}x, int count, {real} limit)
{{
    int good = 1;
    for (int i = 0; i < count; ++i) {{
        good &= {fabs}(x[i]) <= limit;
    }}
    return good;
}}

/* Whether all numbers are above `least`; NaN is not. */
{test} int {name}_are_above({numbers}x, int count, {real} least)
{{
    int good = 1;
    for (int i = 0; i < count; ++i) {{
        good &= x[i] > least;
    }}
    return good;
}}

/* Sines and cosines of angles. */
{static} void {name}_turn(
    int count, {real} *{restrict} angles, {real} *{restrict} sines, {real} *{restrict} cosines)
{{
{reduce}    for (int i = 0; i < count; ++i) {{
{loop}    }}
}}
"""


def _is_zero(x: object) -> bool:
    return not isinstance(x, Number) and x == 0.0


def _declared(recorded: RecordedFunction, body: Code, kept: int, real: Real) -> list[str]:
    lines = [f"{real.name} kept[{kept}];"] if kept else []
    if body.angles:
        lines.append(f"{real.name} angles[{body.angles}], sines[{body.angles}], cosines[{body.angles}];")
    if recorded.pivots:
        lines.append(f"{real.name} pivots[{len(recorded.pivots)}];")
    if recorded.excess is not None:
        lines.append(f"{real.name} excess[1];")
    return lines


def _within(name: str, recorded: RecordedFunction, limit: str) -> str:
    tests = [f"{name}_are_within({argument}, {size}, {limit})" for argument, size in recorded.sizes]
    return " && ".join(tests)


def first_tests(recorded: RecordedFunction, name: str, real: Real) -> list[str]:
    """Statements that refuse what is given if it is bad."""
    lines = []
    status = name.upper()
    largest = real.largest()
    if _asks_results(recorded, real):
        lines += [f"const int small = {_within(name, recorded, real.literal(recorded.limit))};"]
        lines += [f"if (!small && !({_within(name, recorded, largest)})) {{"]
    else:
        lines += [f"if (!({_within(name, recorded, largest)})) {{"]
    lines += [f"    return {status}_NOT_FINITE;", "}"]
    for argument, size in recorded.sizes:
        if argument == "loops":  # float64 has lost the digits of this quantity
            least = real.literal(least_pivot(recorded.function.recursion))
            lines += [f"if (!(loops[{size - 1}] >= {least})) {{", f"    return {status}_SINGULAR_LOOP;", "}"]
    return lines + quaternion_tests(recorded.record, recorded.squares, name, real)


def quaternion_tests(record: Record, squares: Sequence[Any], name: str, real: Real) -> list[str]:
    """Statements that refuse quaternions of these squared norms unless they are one."""
    lines = []
    tolerance = real.literal(2.0 * (_UNIT_FLOAT if real.suffix else POINT_TOLERANCE))
    for square in squares:
        lines += ["{"]
        lines += [f"    {line}" for line in code(record, [(f"const {real.name} square", square)], real).lines]
        lines.append(f"    if (!(fabs{real.suffix}(square - {real.literal(1.0)}) <= {tolerance})) {{")
        lines += [f"        return {name.upper()}_NOT_UNIT;", "    }", "}"]
    return lines


def _asks_results(recorded: RecordedFunction, real: Real) -> bool:
    """Whether results are looked at only if what is given is large; with a pivot, they always are."""
    return not recorded.pivots and not real.suffix and recorded.limit > 0.0


def _ending(recorded: RecordedFunction, name: str, real: Real) -> list[str]:
    """Statements that return the status."""
    lines, status = [], name.upper()
    if recorded.pivots:
        least = real.literal(_PIVOT_FLOAT if real.suffix else SMALLEST_PIVOT)
        lines += [f"if (!{name}_are_above(pivots, {len(recorded.pivots)}, {least})) {{"]
        lines += [f"    return {status}_SINGULAR;", "}"]
    if recorded.excess is not None:
        lines += [f"if (!(excess[0] < {real.literal(0.0)})) {{", f"    return {status}_NO_STEP;", "}"]
    finite = f"{name}_are_within(out, {recorded.size}, {real.largest()})"
    if _asks_results(recorded, real):
        finite = f"small || {finite}"
    return [*lines, f"return {finite} ? {status}_OK : {status}_NOT_FINITE;"]
