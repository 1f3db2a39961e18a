"""Numbers that record how they are computed.

Arithmetic on a `Number` adds operations to a `Record`, at most one for each value: an operation on the same
operands is the same number, so common subexpressions are shared. Results that are constants are floats:
constants are folded, products with 0 and 1 and sums with 0 disappear. A sign belongs to a number, not to an
operation, so that x - y and y - x are one operation, and so are the products of x and -x with y.

This changes results by round-off, as Numba's flags do for compiled kernels (`inlined.simd`). As there, no
number is assumed to be finite, except that 0 x = 0 and x - x = 0.
"""

from __future__ import annotations

import math
from typing import Any

# An operation: its name and its operands, which are places in `Record.operations`, constants or names.
Operation = tuple[Any, ...]

SYMMETRIC = ("+", "*")
FUNCTIONS = ("sin", "cos", "atan", "sqrt", "floor", "fabs", "tanh")
OF_TWO = ("fmax", "copysign")


class Record:
    """Operations in the order of their execution, each once.

    Attributes
    ----------
    operations : ``("in", array, k)``, ``("unwritten", slot)``, ``("constant", x)``, ``(operator, i, j)``
        with operators ``+ - * /``, ``(function, i)`` with one of `FUNCTIONS`, or ``(function, i, j)`` with
        one of `OF_TWO`; i and j are places of operands in this list.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._places: dict[Operation, int] = {}

    def place(self, *operation: Any) -> int:
        """The place of an operation, which is added if it is not there."""
        found = self._places.get(operation)
        if found is None:
            found = self._places[operation] = len(self.operations)
            self.operations.append(operation)
        return found

    def given(self, array: str, k: int) -> Number:
        """Number k of an array that is given."""
        return Number(self, self.place("in", array, k), False)

    def unwritten(self, slot: int) -> Number:
        """The content of an unwritten slot: a kernel may copy it, but no result may depend on it."""
        return Number(self, self.place("unwritten", slot), False)

    def operand(self, value: Any) -> tuple[int, bool]:
        """The place of a number or a constant, and whether it has to be negated."""
        if isinstance(value, Number):
            return value.place, value.negated
        negated = math.copysign(1.0, value) < 0.0
        return self.place("constant", -float(value) if negated else float(value)), negated

    def constant(self, place: int) -> float | None:
        """The constant at a place, None if there is another operation."""
        operation = self.operations[place]
        return float(operation[1]) if operation[0] == "constant" else None


class Number:
    """A number of a record, or the negative of one."""

    __slots__ = ("negated", "place", "record")
    __array_ufunc__ = None  # so that NumPy's scalars leave arithmetic to this class

    def __init__(self, record: Record, place: int, negated: bool) -> None:
        self.record, self.place, self.negated = record, place, negated

    def __neg__(self) -> Number:
        return Number(self.record, self.place, not self.negated)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Number) and other == 0.0:
            return self
        record = self.record
        (i, minus_i), (j, minus_j) = (self.place, self.negated), record.operand(other)
        if minus_i == minus_j:
            if i == j:
                return self * 2.0
            return Number(record, record.place("+", *sorted((i, j))), minus_i)
        if i == j:
            return 0.0
        if i < j:
            return Number(record, record.place("-", i, j), minus_i)
        return Number(record, record.place("-", j, i), minus_j)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        record = self.record
        if not isinstance(other, Number):
            other = float(other)
            if other == 0.0:
                return 0.0
            if abs(other) == 1.0:
                return self if other > 0.0 else -self
            operation = record.operations[self.place]
            factor = record.constant(operation[1]) if operation[0] == "*" else None
            if factor is not None:  # (x c) d = x (c d)
                inner = Number(record, operation[2], self.negated)
                return inner * (factor * other)
            j, minus = record.operand(other)
            return Number(record, record.place("*", j, self.place), self.negated != minus)
        product = record.place("*", *sorted((self.place, other.place)))
        return Number(record, product, self.negated != other.negated)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, Number):
            return self * (1.0 / other)
        quotient = self.record.place("/", self.place, other.place)
        return Number(self.record, quotient, self.negated != other.negated)

    def __rtruediv__(self, other: Any) -> Any:
        if other == 0.0:
            return 0.0
        i, minus = self.record.operand(other)
        return Number(self.record, self.record.place("/", i, self.place), self.negated != minus)

    def __abs__(self) -> Number:
        return Number(self.record, self.record.place("fabs", self.place), False)

    def __bool__(self) -> bool:
        raise TypeError("a kernel that is recorded must not branch on numbers")


def applied(function: str, x: Any) -> Any:
    """A function of `FUNCTIONS` of a number or a constant."""
    if not isinstance(x, Number):
        return float(getattr(math, function)(x))
    if function in ("cos", "fabs"):
        return Number(x.record, x.record.place(function, x.place), False)
    if function in ("sin", "atan", "tanh"):
        return Number(x.record, x.record.place(function, x.place), x.negated)
    return Number(x.record, x.record.place(function, _itself(x.record, x)), False)


def applied_to_two(function: str, x: Any, y: Any) -> Any:
    """A function of `OF_TWO`; of constants only `fmax`."""
    if not isinstance(x, Number) and not isinstance(y, Number):
        if function != "fmax":
            raise NotImplementedError(f"{function} of constants")
        return max(x, y)
    record = x.record if isinstance(x, Number) else y.record
    return Number(record, record.place(function, _itself(record, x), _itself(record, y)), False)


def _itself(record: Record, x: Any) -> int:
    """The place of a number whose sign is not apart from it."""
    place, negated = record.operand(x)
    return record.place("-", record.place("constant", 0.0), place) if negated else place
