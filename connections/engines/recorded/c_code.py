"""A record as C99: declarations of constants, one after the other.

Only operations on which a result depends are written, so that few values live at once: either in depth-first
order from one result to the next, where of two operands the one that needs more registers comes first (Sethi
and Ullman), or in the order in which they were recorded, if then fewer values live at once. An operation that
is used once is written where it is used. Sines and cosines of given numbers are entries of two arrays, which
are filled before.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from connections.engines.recorded.expressions import OF_TWO, Number, Record

_LONGEST = 90  # columns of an expression that is written where it is used
_TURNS = ("sin", "cos")


@dataclass(frozen=True)
class Real:
    """A type of real numbers in C.

    Attributes
    ----------
    name : ``"double"`` or ``"float"``.
    """

    name: str

    @property
    def suffix(self) -> str:
        """The end of the names of libm's functions, and of literals, for this type: "f" or nothing."""
        return "f" if self.name == "float" else ""

    def literal(self, x: float) -> str:
        """A constant, with as many digits as tell it from all others."""
        if not math.isfinite(x):
            raise OverflowError("the robot's numbers are too large: a product of them overflows")
        with np.errstate(over="ignore"):
            value = np.float32(x) if self.suffix else x
        if not math.isfinite(value):
            raise OverflowError(f"{x} is no finite {self.name}")
        return str(value) + self.suffix

    def largest(self) -> str:
        """The name of the largest number."""
        return "FLT_MAX" if self.suffix else "DBL_MAX"


@dataclass(frozen=True)
class Code:
    """Results of a record as C.

    Attributes
    ----------
    before : statements that set the entries of an array ``angles``, of which sines and cosines are taken.
    lines : the statements that follow; they read the arrays ``sines`` and ``cosines``.
    angles : how many angles there are.
    counts : operation -> how often it is executed.
    variables : how many variables there are, besides arrays.
    live : how many of them are needed later, at most at once.
    """

    before: tuple[str, ...]
    lines: tuple[str, ...]
    angles: int
    counts: Counter[str]
    variables: int
    live: int


def code(record: Record, results: Sequence[tuple[str, Any]], real: Real) -> Code:
    """The C code that assigns results.

    Parameters
    ----------
    results : what is assigned to, as C, and the number.
    """
    orders = [_Writer(record, results, real).code(as_recorded) for as_recorded in (False, True)]
    return min(orders, key=lambda written: written.live)


class _Writer:
    def __init__(self, record: Record, results: Sequence[tuple[str, Any]], real: Real) -> None:
        self.operations, self.results, self.real = record.operations, results, real
        roots = [value.place for _, value in results if isinstance(value, Number)]
        self.uses = Counter(roots)
        self.reached = self._reachable(roots)
        angles = sorted({operation[1] for operation in self._reached() if operation[0] in _TURNS})
        self.angle_of = {place: k for k, place in enumerate(angles)}
        self.texts: dict[int, str] = {}
        self.lines: list[str] = []
        self.needs = self._registers()

    def code(self, as_recorded: bool) -> Code:
        """Write all results, in the order of the record or from one result to the next."""
        variables: dict[int, str] = {}
        for place, k in self.angle_of.items():
            self._write(place, variables)
            self.lines.append(f"angles[{k}] = {_bare(self.texts[place])};")
        before, self.lines = tuple(self.lines), []
        assigned = defaultdict[int, list[tuple[str, Number]]](list)
        for target, value in self.results:
            if isinstance(value, Number):
                assigned[value.place].append((target, value))
            else:
                self.lines.append(f"{target} = {self.real.literal(value)};")
        for place in self.reached if as_recorded else list(assigned):
            self._write(place, variables)
            text = self.texts[place]
            for target, value in assigned.get(place, ()):
                self.lines.append(f"{target} = {'-' + text if value.negated else _bare(text)};")
        return Code(
            before=before,
            lines=tuple(self.lines),
            angles=len(self.angle_of),
            counts=Counter(name for name, *_ in self._reached() if name not in ("in", "constant")),
            variables=len(variables),
            live=_most_live(self.lines),
        )

    def _reachable(self, roots: Iterable[int]) -> list[int]:
        """The places of operations on which results depend, ascending; counts how often they are used."""
        found, waiting = set[int](), list(roots)
        while waiting:
            place = waiting.pop()
            if place not in found:
                found.add(place)
                for operand in self._operands(place):
                    self.uses[operand] += 1
                    waiting.append(operand)
        return sorted(found)

    def _reached(self) -> Iterable[tuple[Any, ...]]:
        return (self.operations[place] for place in self.reached)

    def _operands(self, place: int) -> tuple[int, ...]:
        name, *operands = self.operations[place]
        if name == "unwritten":
            raise RuntimeError(f"a result depends on slot {operands}, which was not written")
        return () if name in ("in", "constant") else tuple(operands)

    def _registers(self) -> dict[int, int]:
        """How many registers an operation needs, if nothing is shared."""
        needs: dict[int, int] = {}
        for place in self.reached:
            own = sorted((needs[operand] for operand in self._operands(place)), reverse=True)
            if self.operations[place][0] in _TURNS or not own:
                needs[place] = 0
            else:
                needs[place] = max(1, own[0] + (len(own) > 1 and own[0] == own[1]))
        return needs

    def _write(self, root: int, variables: dict[int, str]) -> None:
        """Write everything that a number needs, with a stack of our own, because it can be deep."""
        stack = [(root, False)]
        while stack:
            place, ready = stack.pop()
            if place in self.texts:
                continue
            leaf = self._leaf(place)
            if leaf:
                self.texts[place] = leaf
            elif not ready:
                stack.append((place, True))
                operands = sorted(self._operands(place), key=lambda operand: self.needs[operand])
                stack.extend((operand, False) for operand in operands)
            else:
                self._finish(place, variables)

    def _finish(self, place: int, variables: dict[int, str]) -> None:
        name, *operands = self.operations[place]
        texts = [self.texts[operand] for operand in operands]
        call = len(texts) == 1 or name in OF_TWO
        given = ", ".join(map(_bare, texts))
        text = f"{name}{self.real.suffix}({given})" if call else f"{texts[0]} {name} {texts[1]}"
        if self.uses[place] == 1 and len(text) <= _LONGEST:
            self.texts[place] = text if call else f"({text})"
        else:
            variable = self.texts[place] = variables[place] = f"x{len(variables)}"
            self.lines.append(f"const {self.real.name} {variable} = {text};")

    def _leaf(self, place: int) -> str:
        """The C text of a number that needs no operation; empty for others."""
        name, *operands = self.operations[place]
        if name == "in":
            return f"{operands[0]}[{operands[1]}]"
        if name == "constant":
            return self.real.literal(operands[0])
        if name in _TURNS:
            return f"{'sines' if name == 'sin' else 'cosines'}[{self.angle_of[operands[0]]}]"
        return ""


def _bare(text: str) -> str:
    """A text without the parentheses around all of it."""
    return text[1:-1] if text.startswith("(") else text


def _most_live(lines: Sequence[str]) -> int:
    """How many variables x0, x1, ... are set before a line and used in it or later, at most."""
    last: dict[str, int] = {}
    for number, line in enumerate(lines):
        last.update(dict.fromkeys(re.findall(r"\bx\d+\b", line), number))
    ends, most, now = Counter(last.values()), 0, 0
    for number, line in enumerate(lines):
        now += line.startswith("const ")
        most = max(most, now)
        now -= ends[number]
    return most
