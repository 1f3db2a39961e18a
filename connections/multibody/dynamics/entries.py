"""The compiled functions: each recursion for one configuration, and for rows of configurations.

Their source is rendered from a row of the table (`table.RECURSIONS`) and compiled as if it were in this file,
because Numba keeps machine code on disk by the file of a function. For trees,

    name_at(memory, q, vectors..., out)                    takes one configuration,
    name_rows(memory, work, blocks, q, vectors..., out)    takes (m, ...) arrays, LANES rows at a time,

with the choice of the body-level factor, if there is one, before `out`; `_rows` releases the interpreter's
lock. For closed chains, ``closed_name_at`` and ``closed_name_rows`` take ``closure, clusters, solved`` after
`memory` (`cluster_boundary`). Each returns whether the input was good; if not, the content of `out` is
undefined.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from connections.multibody.dynamics.table import PARAMETERS, RECURSIONS, N, Recursion

_KERNELS = "connections.multibody.kernels"
# Modules of the names in the templates.
_BOUNDARY = (
    "connections.engines.inlined.simd",
    *(f"{_KERNELS}.{name}" for name in ("layout", "boundary", "cluster_boundary")),
)

_AT = """
@one
def {entry}(memory, {loops}q, {arguments}out):
    if not {current}:
        return False
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    {reduced}
    if not (out.shape == {shape} and {read}):
        return False
    {clear}
    kernel({objects}, tree.work, slots{choices})
    return {regular}
"""

_ROWS = """
@rows
def {entry}(memory, {loops}work, blocks, q, {arguments}out):
    if not {current}:
        return False
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    {reduced}
    result = {result}
    for row in range(0, q.shape[0], LANES):
        good &= {read}
        kernel({objects}, slots, beyond(slots, result){choices})
        good &= {regular}
        {write}
    return good
"""


def entry(name: str) -> Any:
    """The function `name`, to be compiled by its first call.

    Parameters
    ----------
    name : such as ``mass_matrix_at`` or ``closed_mass_matrix_rows``.
    """
    recursion, kind = name.removeprefix("closed_").rsplit("_", 1)
    row, closed, rows = RECURSIONS[recursion], name.startswith("closed_"), kind == "rows"
    names = _names(row) | (_of_closed_chains(row, rows) if closed else _of_trees(row, rows))
    scope: dict[str, Any] = {"__name__": __name__}
    for module in _BOUNDARY:
        scope |= vars(importlib.import_module(module))
    file, function = (row.closed if closed else row.kernel).split(".")
    scope["kernel"] = getattr(importlib.import_module(f"{_KERNELS}.{file}"), function)
    exec(compile((_ROWS if rows else _AT).format(entry=name, **names), __file__, "exec"), scope)
    return scope[name]


def _names(row: Recursion) -> dict[str, str]:
    """The fields of the templates that trees and closed chains share."""
    return {
        "clear": "out[:] = 0.0" if row.sparse else "",
        "choices": ", force_cross" * row.body_factor,
        "write": "write_results(work, result, blocks, out, row)",
    }


def _of_trees(row: Recursion, rows: bool) -> dict[str, str]:
    """The fields of the templates for trees."""
    names = {
        "loops": "",
        "arguments": _arguments(row.vectors, row),
        "current": "is_current(memory)",
        "reduced": "",
        "shape": _shape(row, "tree.nv"),
        "objects": "tree",
        "result": "tree.result",
    }
    if rows:
        read = ["read_configurations(tree, work, q, row)"]
        read += [f"read_vectors(tree, work, {i}, {v}, row)" for i, v in enumerate(row.vectors)]
        names["regular"] = "all_regular(tree, work)"
    else:
        read = ["read_configuration(tree, tree.work, q)"]
        read += [f"read_vector(tree, tree.work, {i}, {v})" for i, v in enumerate(row.vectors)]
        names["regular"] = "regular(tree, tree.work)"
    if not row.inverse:
        names["regular"] = "True"
    if row.mirrored:  # entries that the kernel leaves out are taken from their mirror images by `write_slabs`
        names["choices"] = ", force_cross, " + ("force_cross" if rows else "True")
        names["write"] = "write_slabs(work, result, tree.nv, blocks, force_cross, out, row)"
    return names | {"read": _all(read, rows)}


def _of_closed_chains(row: Recursion, rows: bool) -> dict[str, str]:
    """The fields of the templates for closed chains."""
    places = [(f"reduced.vector + {i} * reduced.nv, reduced.nv", v) for i, v in enumerate(row.vectors)]
    places += [("reduced.bias_rates, reduced.G_size", "bias_rates")] * row.bias_rates
    names = {
        "loops": "closure, clusters, solved, ",
        "arguments": _arguments([vector for _, vector in places], row),
        "current": "are_current(memory, closure, clusters)",
        "reduced": "reduced = unpack_clusters(slots_of(clusters))",
        "shape": _shape(row, "reduced.nv"),
        "objects": "tree, reduced",
        "result": "reduced.result",
    }
    if rows:
        names["reduced"] += "; solution = prepare(reduced, slots)"
        read = ["read_solutions(tree, reduced, closure, solved, work, solution, q, row)"]
        read += [f"read_rows(work, {place}, {vector}, row)" for place, vector in places]
        names["regular"] = "all_regular_pivots(reduced, work)"
    else:
        read = ["read_solution(tree, reduced, closure, solved, q)"]
        read += [f"read_numbers(tree.work, {place}, {vector})" for place, vector in places]
        names["regular"] = "regular_pivots(reduced, tree.work)"
    if not row.inverse:
        names["regular"] = "True"
    return names | {"read": _all(read, rows)}


def _arguments(vectors: Sequence[str], row: Recursion) -> str:
    return "".join(f"{vector}, " for vector in vectors) + "force_cross, " * row.body_factor


def _all(conditions: list[str], rows: bool) -> str:
    """All conditions joined; for rows, without short-circuit, because each of them reads its array."""
    return (" & " if rows else " and ").join(conditions)


def _shape(row: Recursion, n: str) -> str:
    """The shape of a result as compiled code writes it."""
    axes: dict[int | str, str] = {N: n, PARAMETERS: "10 * tree.bodies"}
    return "(" + "".join(f"{axes.get(axis, str(axis))}, " for axis in row.shape) + ")"
