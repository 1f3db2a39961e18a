"""The compiled functions: each recursion for one configuration, and for rows of configurations.

Their source is rendered from a row of the table (`table.RECURSIONS`) and compiled as if it stood in this
file, because Numba keeps machine code on disk by the file of a function. For trees,

    name_at(memory, q, vectors..., out)                    takes one configuration,
    name_rows(memory, work, blocks, q, vectors..., out)    takes (m, ...) arrays, LANES rows at a time,

and a choice of the body factor stands before `out`; `_rows` releases the interpreter's lock. Each returns
whether the input was good; where it was not, `out` holds nothing of use. For closed chains,

    closed_name_at(memory, closure, clusters, solved, q, vectors..., out)
    closed_name_rows(memory, closure, clusters, solved, work, blocks, q, vectors..., out)

return a status (`cluster_boundary`), and have no choice of the body factor.
"""

from __future__ import annotations

import importlib
from typing import Any

from connections.multibody.recursions.table import PARAMETERS, RECURSIONS, SOLVE, N, Recursion

_PACKAGE = __name__.rpartition(".")[0]
_BOUNDARY = "lanes", "layout", "cluster_layout", "boundary", "cluster_boundary"  # what templates call

_AT = """
@one
def {name}_at(memory, q, {arguments}out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (
        is_current(memory)
        and out.shape == {shape}
        and read_configuration(tree, tree.work, q)
        {read_vector}
    ):
        return False
    {clear}
    kernel(tree, tree.work, slots{choices})
    return {regular}
"""

_ROWS = """
@rows
def {name}_rows(memory, work, blocks, q, {arguments}out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        {read_vectors}
        kernel(tree, slots, result{choices})
        good &= {regular}
        {write}
    return good
"""

_CLOSED_AT = """
@one
def closed_{name}_at(memory, closure, clusters, solved, q, {arguments}out):
    if not are_current(memory, closure, clusters):
        return BAD_INPUT
    tree, slots = unpack(memory), flat_slots_of(out)
    reduced = unpack_clusters(clusters, tree)
    status = read_solution(tree, reduced, closure, solved, q)
    {read_vector}
    if status != 0 or out.shape != {shape}:
        return first_of(status, BAD_INPUT)
    {clear}
    kernel(tree, reduced, tree.work, slots)
    return {regular}
"""

_CLOSED_ROWS = """
@rows
def closed_{name}_rows(memory, closure, clusters, solved, work, blocks, q, {arguments}out):
    if not are_current(memory, closure, clusters):
        return BAD_INPUT
    tree, slots, status = unpack(memory), slots_of(work), 0
    reduced = unpack_clusters(clusters, tree)
    solution = prepare(reduced, slots)
    for row in range(0, q.shape[0], LANES):
        status = first_of(status, read_solutions(tree, reduced, closure, solved, work, solution, q, row))
        {read_vectors}
        kernel(tree, reduced, slots, beyond(slots, reduced.result))
        status = first_of(status, {regular})
        write_results(work, reduced.result, blocks, out, row)
    return status
"""


def entry(name: str) -> Any:
    """The function `name`, not compiled yet: a recursion's name, ``closed_`` before it or not, and its kind.

    Parameters
    ----------
    name : such as ``mass_matrix_at`` or ``closed_mass_matrix_rows``.
    """
    recursion, kind = name.removeprefix("closed_").rsplit("_", 1)
    row = (RECURSIONS | SOLVE)[recursion]
    if name.startswith("closed_"):
        template, kernel = _CLOSED_AT if kind == "at" else _CLOSED_ROWS, row.clusters
        names = _closed_names(row, kind)
    else:
        template, kernel = _AT if kind == "at" else _ROWS, row.kernel
        names = _names(row, kind)
    scope: dict[str, Any] = {"__name__": __name__}
    for module in _BOUNDARY:
        scope |= vars(importlib.import_module(f"{_PACKAGE}.{module}"))
    file, function = kernel.split(".")
    scope["kernel"] = getattr(importlib.import_module(f"{_PACKAGE}.{file}"), function)
    exec(compile(template.format(name=recursion, **names), __file__, "exec"), scope)
    return scope[name]


def _names(row: Recursion, kind: str) -> dict[str, str]:
    """What stands in the templates of trees."""
    numbered = list(enumerate(row.vectors))
    choices = ", force_cross" if row.body_factor else ""
    if row.mirrored:  # what the kernel leaves out, `write_slabs` takes from its mirror image
        choices += ", True" if kind == "at" else ", force_cross"
    slabs = "write_slabs(work, tree.result, tree.nv, blocks, force_cross, out, row)"
    plain = "write_results(work, tree.result, blocks, out, row)"
    regular = "regular(tree, tree.work)" if kind == "at" else "all_regular(tree, work)"
    return {
        "arguments": "".join(f"{vector}, " for vector in row.vectors) + "force_cross, " * row.body_factor,
        "shape": _shape(row, "tree.nv", "tree.bodies"),
        "read_vector": " ".join(f"and read_vector(tree, tree.work, {i}, {v})" for i, v in numbered),
        "read_vectors": "; ".join(f"good &= read_vectors(tree, work, {i}, {v}, row)" for i, v in numbered),
        "clear": "out[:] = 0.0" if row.sparse else "",
        "choices": choices,
        "regular": regular if row.inverse else "True",
        "write": slabs if row.mirrored else plain,
    }


def _closed_names(row: Recursion, kind: str) -> dict[str, str]:
    """What stands in the templates of closed chains, which have room for one vector."""
    at, rows = "read_reduced(tree, reduced, {})", "read_reduced_rows(reduced, work, {}, row)"
    regular = "regular_status(reduced, tree.work)" if kind == "at" else "all_regular_status(reduced, work)"
    return {
        "arguments": "".join(f"{vector}, " for vector in row.vectors),
        "shape": _shape(row, "reduced.nv", "tree.bodies"),
        "read_vector": "; ".join(f"status = first_of(status, {at.format(v)})" for v in row.vectors),
        "read_vectors": "; ".join(f"status = first_of(status, {rows.format(v)})" for v in row.vectors),
        "clear": "out[:] = 0.0" if row.sparse else "",
        "regular": regular if row.inverse else "0",
    }


def _shape(row: Recursion, n: str, bodies: str) -> str:
    """The shape of a result as compiled code writes it."""
    axes: dict[int | str, str] = {N: n, PARAMETERS: f"10 * {bodies}"}
    return "(" + "".join(f"{axes.get(axis, str(axis))}, " for axis in row.shape) + ")"
