"""The text of kernels, executed by Python on numbers that record (`expressions`).

A kernel is a function that Numba compiles. Here its Python code runs, with other things in the place of the
names that it uses: functions that Numba compiles become their Python code in the same way, and the
instructions of `inlined.simd` become functions on `MemoryPointer` of Python. Integers, loops and branches on
the tree are executed; what remains is arithmetic on recorded numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from types import CellType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from connections.engines.inlined import simd
from connections.engines.recorded.expressions import applied, applied_to_two

_COMPILED = type(simd.polynomial_sine_cosine)  # Numba's class of compiled functions


class Table:
    """Memory that is known: a flat array of float64 numbers, or of integers.

    Attributes
    ----------
    changed : slot -> another number in its place, such as one that is recorded.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.changed: dict[int, Any] = {}

    def __getitem__(self, slot: int) -> Any:
        return self.changed[slot] if slot in self.changed else self.array[slot].item()

    def integers(self) -> Table:
        """The table with its 64 bits read as integers."""
        return Table(self.array.view(np.int64))


class Workspace(dict[int, Any]):
    """Memory that a kernel writes.

    Parameters
    ----------
    unwritten : slot -> what it holds before it is written.
    """

    def __init__(self, unwritten: Callable[[int], Any]) -> None:
        super().__init__()
        self._unwritten = unwritten

    def __missing__(self, slot: int) -> Any:
        return self._unwritten(slot)


class MemoryPointer:
    """A pointer into memory; as an array that is given, it has a shape."""

    __slots__ = ("at", "memory", "shape")

    def __init__(self, memory: Any, at: int = 0, shape: tuple[int, ...] = ()) -> None:
        self.memory, self.at, self.shape = memory, at, shape

    def __getitem__(self, slot: int) -> Any:
        return self.memory[self.at + slot]


def _beyond(slots: MemoryPointer, count: int) -> MemoryPointer:
    return MemoryPointer(slots.memory, slots.at + count)


def _beyond_each(
    slots: MemoryPointer, counts: MemoryPointer, first: int, count: int
) -> tuple[MemoryPointer, ...]:
    return tuple(_beyond(slots, counts[first + k]) for k in range(count))


def _as_integers(slots: MemoryPointer) -> MemoryPointer:
    return MemoryPointer(slots.memory.integers(), slots.at)


def _load(slots: MemoryPointer, slot: int) -> Any:
    return slots[slot]


def _store(slots: MemoryPointer, slot: int, number: Any) -> None:
    slots.memory[slots.at + slot] = number


def _take(slots: MemoryPointer, slot: int, count: int) -> tuple[Any, ...]:
    return tuple(slots[slot + k] for k in range(count))


def _put(slots: MemoryPointer, slot: int, numbers: tuple[Any, ...]) -> None:
    for k, number in enumerate(numbers):
        _store(slots, slot + k, number)


def sine_cosine_of(x: Any) -> tuple[Any, Any]:
    """sin x and cos x as two functions, in the place of `simd.sine_cosine`."""
    return applied("sin", x), applied("cos", x)


def _function(name: str) -> Any:
    return lambda x: applied(name, x)


def _copied_sign(number: Any, sign: Any) -> Any:
    return applied_to_two("copysign", number, sign)


def largest(*numbers: Any) -> Any:
    """The largest number, in the place of `max`."""
    return reduce(partial(applied_to_two, "fmax"), numbers)


def _same(slots: MemoryPointer) -> MemoryPointer:
    return slots


_INSTRUCTIONS: dict[Any, Any] = {
    simd.slots_of: _same,  # of an array, which is a pointer here
    simd.flat_slots_of: _same,
    simd.beyond: _beyond,
    simd.beyond_each: _beyond_each,
    simd.as_integers: _as_integers,
    simd.load: _load,
    simd.store: _store,
    simd.take: _take,
    simd.put: _put,
    simd.root: _function("sqrt"),
    simd.load_lane: lambda slots, slot, lane: slots[slot],
    simd.chosen: lambda flag, yes, no: yes if flag > 0.0 else no,
    simd.alike: lambda number, other: number,
    simd.absolute: _function("fabs"),
    simd.floor: _function("floor"),
    simd.copied_sign: _copied_sign,
    math: SimpleNamespace(sqrt=_function("sqrt"), atan=_function("atan"), pi=math.pi),
}


class Unbounded:
    """A bound that every number keeps, recorded or not, in the place of one that was tested before."""

    def __ge__(self, other: Any) -> bool:
        return True


class Interpreter:
    """Kernels as Python functions on `MemoryPointer`, each translated once.

    Parameters
    ----------
    replaced : other things for names of kernels' modules, by what they stand for.
    """

    def __init__(self, replaced: dict[Any, Any] | None = None) -> None:
        self._translated: dict[Any, Any] = {**_INSTRUCTIONS, **(replaced or {})}

    def replace(self, kernel: Any, function: Any) -> None:
        """Put a function of Python in the place of a kernel; functions that are translated keep theirs."""
        self._translated[kernel] = function

    def function(self, kernel: Any) -> Any:
        """The Python function of a kernel."""
        if kernel not in self._translated:
            text, scope = kernel.py_func, {"__builtins__": __builtins__, "max": largest}
            closure = tuple(CellType(self._value(cell.cell_contents)) for cell in text.__closure__ or ())
            # The function is known before the names that it uses, because its own name may be among them.
            self._translated[kernel] = FunctionType(
                text.__code__, scope, text.__name__, text.__defaults__, closure
            )
            for name in _names(text.__code__) & text.__globals__.keys():
                scope[name] = self._value(text.__globals__[name])
        return self._translated[kernel]

    def _value(self, value: Any) -> Any:
        if isinstance(value, _COMPILED):
            return self.function(value)
        try:
            if value in self._translated:
                return self._translated[value]
        except TypeError:  # not hashable
            pass
        return _TranslatedModule(self, value) if isinstance(value, ModuleType) else value


class _TranslatedModule:
    """A module whose functions are translated."""

    def __init__(self, interpreter: Interpreter, module: ModuleType) -> None:
        self._interpreter, self._module = interpreter, module

    def __getattr__(self, name: str) -> Any:
        return self._interpreter._value(getattr(self._module, name))


def _names(code: CodeType) -> set[str]:
    """The names that code uses, also in functions within it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))
