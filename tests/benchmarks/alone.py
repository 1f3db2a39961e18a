"""The recursions for C and Gamma without anything around them, many times over in one compiled call.

A public call also enters compiled code, reads its arguments and zeroes the dense result, n^2 or n^3 numbers
of which a branched tree leaves most at zero: here only the recursion itself is left, whose operations the
theory counts.
"""

from __future__ import annotations

from numba import njit

from connections.engines.inlined.rows import read_numbers
from connections.engines.inlined.simd import flat_slots_of, slots_of
from connections.multibody.kernels import christoffel, coriolis
from connections.multibody.kernels.layout import unpack_tree
from connections.multibody.kernels.reading import read_configuration

compiled = njit(fastmath={"contract", "nsz", "arcp", "reassoc"}, error_model="numpy")  # as the library's


@compiled
def coriolis_times(memory, q, v, out, times):
    """C(q, v) into `out` (nv, nv), `times` times."""
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    good = read_configuration(tree, tree.work, q) and read_numbers(tree.work, tree.vectors, tree.nv, v)
    for _ in range(times):
        coriolis.coriolis_matrix(tree, tree.work, slots, False)
    return good


@compiled
def christoffel_times(memory, q, out, times):
    """Gamma_low(q) into `out` (nv, nv, nv), `times` times."""
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    good = read_configuration(tree, tree.work, q)
    for _ in range(times):
        christoffel.christoffel_symbols(tree, tree.work, slots, False, True)
    return good
