"""Flat arrays that compiled code reads and writes: names, sizes and offsets of their parts.

A flat array holds sizes, tables and the places of a workspace:

    [ sizes | starts of the tables | starts of the workspace's sections | tables ],

float64, with integers stored bit by bit. The start of a table counts from the beginning of the array, the
start of a section from the beginning of the workspace. A `RecordLayout` declares the parts, writes them, and
makes the compiled function that returns them by name: sizes as integers, tables as pointers, sections as
first slots.

Numbers of a table or section that belong to one thing are a `record`, whose fields are offsets: with
``LINK = record("Link", twist=6, inertia=10)``, ``take(work, links + i * LINK.size + LINK.inertia, 10)`` are
ten numbers of link i.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from connections.engines.inlined.simd import as_integers, beyond_each, inlined, take

Section = Callable[[Any], int]  # the sizes of an array by name -> the number of slots of a section


def record(name: str, **parts: int) -> Any:
    """A named tuple of offsets: where each part begins, one after the other, and the `size` of the whole."""
    starts = np.cumsum([0, *parts.values()]).tolist()
    return namedtuple(name, [*parts, "size"])(*starts)


class RecordLayout:
    """The parts of a flat array, in order.

    Parameters
    ----------
    name : name of the named tuple that compiled code gets.
    sizes : names of the single integers.
    integers, numbers : names of the tables of integers and of float64 numbers.
    work : the sections of the workspace, each with the number of its slots as a function of the sizes.

    Attributes
    ----------
    counts : the numbers of sizes, integer tables, number tables, and sections.
    view : the named tuple.
    """

    def __init__(
        self,
        name: str,
        sizes: tuple[str, ...],
        integers: tuple[str, ...],
        numbers: tuple[str, ...],
        work: Mapping[str, Section] | None = None,
    ) -> None:
        self._work = dict(work or {})
        self.sizes, self.integers, self.numbers = sizes, integers, numbers
        self._names = (*sizes, *integers, *numbers, *self._work)
        self.counts = len(sizes), len(integers), len(numbers), len(self._work)
        self.view: Any = namedtuple(name, self._names)  # type: ignore[misc]

    def pack(
        self,
        sizes: Mapping[str, int],
        integers: Mapping[str, Any],
        numbers: Mapping[str, Any],
        begin: int = 0,
    ) -> np.ndarray:
        """The flat array.

        Parameters
        ----------
        sizes : the single integers.
        integers, numbers : the tables, of any shape.
        begin : slot of the workspace at which the first section begins.
        """
        tables = [bits(integers[name]) for name in self.integers]
        tables += [np.asarray(numbers[name], dtype=np.float64).ravel() for name in self.numbers]
        starts = len(self._names) + np.cumsum([0, *map(len, tables)])
        sections = begin + np.cumsum([0, *self._sections(sizes)])
        head = [*(sizes[name] for name in self.sizes), *starts[:-1], *sections[:-1]]
        return np.concatenate([bits(head), *tables])

    def slots(self, sizes: Mapping[str, int]) -> int:
        """The number of slots of the workspace."""
        return int(sum(self._sections(sizes)))

    def empty(self, room: int = 0) -> np.ndarray:
        """The array of nothing: all sizes are zero. Its tables of numbers are `room` zeros each."""
        integers = dict.fromkeys(self.integers, np.zeros(2))  # tables of starts have an entry for the end
        return self.pack(dict.fromkeys(self.sizes, 0), integers, dict.fromkeys(self.numbers, np.zeros(room)))

    def read(self, array: np.ndarray, name: str) -> int:
        """A size, or the start of a table or a section, by its name."""
        return int(array.view(np.int64)[self._names.index(name)])

    def unpacker(self) -> Any:
        """The compiled function that returns the parts by name, from a pointer to the slots of the array."""
        view = self.view
        sizes, integers, numbers, work = self.counts
        tables, sections = sizes + integers, sizes + integers + numbers

        @inlined
        def unpack(slots):
            whole = as_integers(slots)
            return view(
                *take(whole, 0, sizes),
                *beyond_each(whole, whole, sizes, integers),
                *beyond_each(slots, whole, tables, numbers),
                *take(whole, sections, work),
            )

        return unpack

    def _sections(self, sizes: Mapping[str, int]) -> list[int]:
        named = SimpleNamespace(**sizes)
        return [int(slots(named)) for slots in self._work.values()]


def bits(integers: Any) -> np.ndarray:
    """Integers of any shape as float64 numbers (k,) of the same bits."""
    return np.asarray(integers, dtype=np.int64).ravel().view(np.float64)
