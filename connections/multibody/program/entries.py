"""The compiled functions: each recursion for one configuration, and for rows of configurations.

There is one text for each of the four kinds, in which a row of the table (`table.RECURSIONS`) and its kernel
are constants. For trees,

    name_at(memory, q, given..., out)                    takes one configuration,
    name_rows(memory, work, blocks, q, given..., out)    takes (m, ...) arrays, LANES rows at a time,

where what is given are the vectors, and what the caller chose, if there is a choice; `_rows` releases the
interpreter's lock. For closed chains, ``closed_name_at`` and ``closed_name_rows`` take ``closure, clusters,
solved`` after `memory` (`cluster_reading`), and bias rates behind the vectors, if the kernel reads them. Each
returns whether the input was good; if not, the content of `out` is undefined.

The texts take all that may be given, or None. Numba puts them into functions that take what there is. (It
recognizes a tuple of arrays too slowly, and counts references to what is in it.)
"""

from typing import Any

from connections.engines.inlined.rows import (
    LARGEST,
    are_above,
    are_finite_rows,
    are_within,
    read_numbers,
    read_rows,
    rows_are_above,
    rows_are_within,
    write_results,
    write_slabs,
)
from connections.engines.inlined.simd import (
    LANES,
    beyond,
    compiled_batch_entry,
    compiled_entry,
    flat_slots_of,
    inline_section,
    inlined,
    slots_of,
)
from connections.multibody.kernels.cluster_reading import has_room, prepare, read_solution, read_solutions
from connections.multibody.kernels.layout import unpack_clusters, unpack_tree
from connections.multibody.kernels.reading import read_configuration, read_configurations
from connections.multibody.program.table import Recursion
from connections.multibody.tolerances import SMALLEST_PIVOT


def entry(name: str, row: Recursion, kernel: Any) -> Any:
    """The function of this name, to be compiled.

    Parameters
    ----------
    name : of a recursion, with ``closed_`` before it or not, and ``_at`` or ``_rows`` behind it.
    row : of the recursion, in the table.
    kernel : of the recursion, for trees or for closed chains.
    """
    closed, rows = name.startswith("closed_"), name.endswith("_rows")
    texts, functions = (_loops, _LOOPS) if closed else (_tree, _TREE)
    given = len(row.vectors) + (closed and row.bias_rates) + (row.choice is not None)
    function = functions[rows](inline_section(texts(row, kernel)[rows]))[given]
    function.__name__ = function.__qualname__ = name
    return (compiled_batch_entry if rows else compiled_entry)(function)


# --- trees --------------------------------------------------------------------------------------------------


def _tree(recursion, kernel):
    """The texts for trees. If symbols are mirrored, `write_slabs` writes those that the kernel leaves out."""
    count, choosing = len(recursion.vectors), recursion.choice is not None
    axes, chosen, mirrored = _axes(recursion), _chosen(recursion, count), recursion.mirrored
    inverse, sparse = recursion.inverse, recursion.sparse

    def tree_at(memory, q, x, y, z, out):
        tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
        work, nv, vectors = tree.work, tree.nv, tree.vectors
        if not (
            has_shape(out, axes, nv, tree.bodies)
            and read_configuration(tree, work, q)
            and (count < 1 or read_numbers(work, vectors, nv, x))
            and (count < 2 or read_numbers(work, vectors + nv, nv, y))
            and (count < 3 or read_numbers(work, vectors + 2 * nv, nv, z))
        ):
            return False
        if sparse:
            out[:] = 0.0
        if mirrored:
            kernel(tree, work, slots, *chosen(x, y, z, None), True)
        else:
            kernel(tree, work, slots, *chosen(x, y, z, None))
        if inverse:
            regular = are_above(work, tree.pivots, nv, SMALLEST_PIVOT)
            return regular and are_within(slots, 0, out.size, LARGEST)
        return (
            are_within(work, 0, tree.nq, tree.limit[0])
            and are_within(work, vectors, count * nv, tree.limit[0])
            or are_within(slots, 0, out.size, LARGEST)
        )

    def tree_rows(memory, work, blocks, q, x, y, z, out):
        tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
        nv, vectors, result = tree.nv, tree.vectors, tree.result
        for row in range(0, q.shape[0], LANES):
            good &= read_configurations(tree, work, q, row)
            if count > 0:
                good &= read_rows(work, vectors, nv, x, row)
            if count > 1:
                good &= read_rows(work, vectors + nv, nv, y, row)
            if count > 2:
                good &= read_rows(work, vectors + 2 * nv, nv, z, row)
            if mirrored:
                torsion = choosing and chosen(x, y, z, None)[0] != 0
                kernel(tree, slots, beyond(slots, result), *chosen(x, y, z, None), torsion)
                write_slabs(work, result, nv, blocks, torsion, out, row)
            else:
                kernel(tree, slots, beyond(slots, result), *chosen(x, y, z, None))
                write_results(work, result, blocks, out, row)
            if inverse:
                good &= rows_are_above(work, tree.pivots, nv, SMALLEST_PIVOT) and are_finite_rows(out, row)
            else:
                good &= (
                    rows_are_within(work, 0, tree.nq, tree.limit[0])
                    and rows_are_within(work, vectors, count * nv, tree.limit[0])
                    or are_finite_rows(out, row)
                )
        return good

    return tree_at, tree_rows


_TREE = (
    lambda text: (
        lambda memory, q, out: text(memory, q, None, None, None, out),
        lambda memory, q, x, out: text(memory, q, x, None, None, out),
        lambda memory, q, x, y, out: text(memory, q, x, y, None, out),
        lambda memory, q, x, y, z, out: text(memory, q, x, y, z, out),
    ),
    lambda text: (
        lambda memory, work, blocks, q, out: text(memory, work, blocks, q, None, None, None, out),
        lambda memory, work, blocks, q, x, out: text(memory, work, blocks, q, x, None, None, out),
        lambda memory, work, blocks, q, x, y, out: text(memory, work, blocks, q, x, y, None, out),
        lambda memory, work, blocks, q, x, y, z, out: text(memory, work, blocks, q, x, y, z, out),
    ),
)


# --- closed chains ------------------------------------------------------------------------------------------


def _loops(recursion, kernel):
    """The texts for closed chains."""
    count, rates = len(recursion.vectors), recursion.bias_rates
    axes, chosen = _axes(recursion), _chosen(recursion, count + rates)
    inverse, sparse = recursion.inverse, recursion.sparse

    def loops_at(memory, closure, clusters, solved, q, x, y, z, w, out):
        tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
        reduced = unpack_clusters(slots_of(clusters))
        work, nv, vectors = tree.work, reduced.nv, reduced.vectors
        if not (
            has_room(memory, clusters)
            and has_shape(out, axes, nv, tree.bodies)
            and read_solution(tree, reduced, closure, solved, q)
            and (count < 1 or read_numbers(work, vectors, nv, x))
            and (count < 2 or read_numbers(work, vectors + nv, nv, y))
            and (count < 3 or read_numbers(work, vectors + 2 * nv, nv, z))
            and (not rates or read_numbers(work, reduced.bias_rates, reduced.G_size, z))
        ):
            return False
        if sparse:
            out[:] = 0.0
        kernel(tree, reduced, work, slots, *chosen(x, y, z, w))
        if inverse:
            regular = are_above(work, reduced.pivots, nv, SMALLEST_PIVOT)
            return regular and are_within(slots, 0, out.size, LARGEST)
        return (
            are_within(work, 0, tree.nq, tree.limit[0])
            and are_within(work, vectors, count * nv, tree.limit[0])
            and are_within(work, reduced.solution, reduced.solution_size, tree.limit[0])
            and (not rates or are_within(work, reduced.bias_rates, reduced.G_size, tree.limit[0]))
            or are_within(slots, 0, out.size, LARGEST)
        )

    def loops_rows(memory, closure, clusters, solved, work, blocks, q, x, y, z, w, out):
        if not has_room(memory, clusters):
            return False
        tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
        reduced = unpack_clusters(slots_of(clusters))
        solution = prepare(reduced, slots)
        nv, vectors, result = reduced.nv, reduced.vectors, reduced.result
        for row in range(0, q.shape[0], LANES):
            good &= read_solutions(tree, reduced, closure, solved, work, solution, q, row)
            if count > 0:
                good &= read_rows(work, vectors, nv, x, row)
            if count > 1:
                good &= read_rows(work, vectors + nv, nv, y, row)
            if count > 2:
                good &= read_rows(work, vectors + 2 * nv, nv, z, row)
            if rates:
                good &= read_rows(work, reduced.bias_rates, reduced.G_size, z, row)
            kernel(tree, reduced, slots, beyond(slots, result), *chosen(x, y, z, w))
            write_results(work, result, blocks, out, row)
            if inverse:
                good &= rows_are_above(work, reduced.pivots, nv, SMALLEST_PIVOT) and are_finite_rows(out, row)
            else:
                good &= (
                    rows_are_within(work, 0, tree.nq, tree.limit[0])
                    and rows_are_within(work, vectors, count * nv, tree.limit[0])
                    and rows_are_within(work, reduced.solution, reduced.solution_size, tree.limit[0])
                    and (
                        not rates or rows_are_within(work, reduced.bias_rates, reduced.G_size, tree.limit[0])
                    )
                    or are_finite_rows(out, row)
                )
        return good

    return loops_at, loops_rows


# memory, closure, clusters, solved, work, blocks, in short.
_LOOPS = (
    lambda text: (
        lambda m, k, c, s, q, out: text(m, k, c, s, q, None, None, None, None, out),
        lambda m, k, c, s, q, x, out: text(m, k, c, s, q, x, None, None, None, out),
        lambda m, k, c, s, q, x, y, out: text(m, k, c, s, q, x, y, None, None, out),
        lambda m, k, c, s, q, x, y, z, out: text(m, k, c, s, q, x, y, z, None, out),
        lambda m, k, c, s, q, x, y, z, w, out: text(m, k, c, s, q, x, y, z, w, out),
    ),
    lambda text: (
        lambda m, k, c, s, a, b, q, out: text(m, k, c, s, a, b, q, None, None, None, None, out),
        lambda m, k, c, s, a, b, q, x, out: text(m, k, c, s, a, b, q, x, None, None, None, out),
        lambda m, k, c, s, a, b, q, x, y, out: text(m, k, c, s, a, b, q, x, y, None, None, out),
        lambda m, k, c, s, a, b, q, x, y, z, out: text(m, k, c, s, a, b, q, x, y, z, None, out),
        lambda m, k, c, s, a, b, q, x, y, z, w, out: text(m, k, c, s, a, b, q, x, y, z, w, out),
    ),
)


# --- of all kinds -------------------------------------------------------------------------------------------


@inlined
def has_shape(out, axes, nv, bodies):
    """Whether a result has the shape with these `_axes`."""
    good = True
    for axis in range(out.ndim):
        fixed, of_velocity, of_body = axes[axis]
        good &= out.shape[axis] == fixed + of_velocity * nv + of_body * bodies
    return good


def _axes(recursion):
    """The size of each axis of the result: a number, and what each velocity and each body add to it."""
    cores = zip(recursion.core(0, 0), recursion.core(1, 0), recursion.core(0, 1), strict=True)
    return tuple((fixed, more - fixed, bodily - fixed) for fixed, more, bodily in cores)


def _chosen(recursion, place):
    """The value at a place, as the kernel takes it: a tuple, empty if there is no choice."""
    if recursion.choice is None:
        return inline_section(lambda x, y, z, w: ())
    of = flat_slots_of if recursion.choice.kind == "frame" else inline_section(lambda flag: flag)
    at_place = (
        lambda x, y, z, w: (of(x),),
        lambda x, y, z, w: (of(y),),
        lambda x, y, z, w: (of(z),),
        lambda x, y, z, w: (of(w),),
    )
    return inline_section(at_place[place])
