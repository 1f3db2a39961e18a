"""A recursion without anything around it, many times over in one compiled call.

A public call also enters compiled code and zeroes the dense result, n^2 or n^3 numbers of which a branched
tree leaves most at zero: here only the arguments are read and the recursion itself is executed, whose
operations the theory counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

from numba import njit

from connections.engines.inlined.rows import read_numbers
from connections.engines.inlined.simd import flat_slots_of, slots_of
from connections.multibody.kernels.layout import unpack_tree
from connections.multibody.kernels.reading import read_configuration
from connections.multibody.program.table import RECURSIONS

compiled = njit(fastmath={"contract", "nsz", "arcp", "reassoc"}, error_model="numpy")  # as the library's


@cache
def alone(name: str) -> Callable[..., bool]:
    """A compiled function of (memory, q, vectors, out, times), which executes a recursion `times` times.

    Parameters
    ----------
    name : of the recursion; it is that of the metric's connection.

    `vectors` are all that follow q, (count * nv,), joined.
    """
    row = RECURSIONS[name]
    kernel = getattr(import_module(f"connections.multibody.kernels.{row.kernel}"), name)
    choices = (False,) * (row.choice is not None) + (True,) * row.mirrored

    @compiled
    def repeated(memory, q, vectors, out, times):
        tree, slots, good = unpack_tree(slots_of(memory)), flat_slots_of(out), True
        for _ in range(times):  # some recursions replace their vectors
            good &= read_configuration(tree, tree.work, q)
            good &= read_numbers(tree.work, tree.vectors, vectors.size, vectors)
            kernel(tree, tree.work, slots, *choices)
        return good

    return repeated
