"""The compiled functions: each recursion for one configuration, and for rows of configurations.

Their source is rendered from a row of the table (`table.RECURSIONS`) and compiled as if it were in this file,
because Numba keeps machine code on disk by the file of a function. For trees,

    name_at(memory, q, vectors..., out)                    takes one configuration,
    name_rows(memory, work, blocks, q, vectors..., out)    takes (m, ...) arrays, LANES rows at a time,

with the choice of the body-level factor, if there is one, before `out`; `_rows` releases the interpreter's
lock. For closed chains, ``closed_name_at`` and ``closed_name_rows`` take ``closure, clusters, solved`` after
`memory` (`cluster_reading`). Each returns whether the input was good; if not, the content of `out` is
undefined.
"""

from __future__ import annotations

import importlib
from typing import Any

from connections.engines.rendered import execute
from connections.multibody.program.table import BODIES, PARAMETERS, RECURSIONS, TWISTS, N, Recursion

_KERNELS = "connections.multibody.kernels"
_NAMES_FROM = (  # modules of the names in the templates
    "connections.engines.inlined.simd",
    "connections.engines.inlined.rows",
    f"{_KERNELS}.layout",
    f"{_KERNELS}.reading",
    f"{_KERNELS}.cluster_reading",
    "connections.multibody.tolerances",
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
    return {finite}
"""

_ROWS = """
@rows
def {entry}(memory, {loops}work, blocks, q, {arguments}out):
    if not {current}:
        return False
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    {reduced}
    result = {of}.result
    for row in range(0, q.shape[0], LANES):
        good &= {read}
        kernel({objects}, slots, beyond(slots, result){choices})
        {write}
        good &= {finite}
    return good
"""


def entry(name: str) -> Any:
    """The function `name`, to be compiled by its first call.

    Parameters
    ----------
    name : such as ``mass_matrix_at`` or ``closed_mass_matrix_rows``.
    """
    recursion, kind = name.removeprefix("closed_").rsplit("_", 1)
    row, closed = RECURSIONS[recursion], name.startswith("closed_")
    source, scope = rendered(name, row, closed, kind == "rows")
    file = importlib.import_module(f"{_KERNELS}.{row.closed if closed else row.kernel}")
    scope["kernel"] = getattr(file, recursion)
    execute(source, __file__, scope)
    return scope[name]


def rendered(name: str, row: Recursion, closed: bool, rows: bool) -> tuple[str, dict[str, Any]]:
    """The source of the function `name` of a row, and the names that it uses, but for its ``kernel``."""
    scope: dict[str, Any] = {"__name__": __name__, "kernel": None}
    for module in _NAMES_FROM:
        scope |= vars(importlib.import_module(module))
    return (_ROWS if rows else _AT).format(entry=name, **_fields(row, closed, rows)), scope


def _fields(row: Recursion, closed: bool, rows: bool) -> dict[str, str]:
    """The fields of the templates; `of` holds the layout of the vectors and of the result."""
    of = "reduced" if closed else "tree"
    places = [(f"{of}.vectors + {i} * {of}.nv, {of}.nv", vector) for i, vector in enumerate(row.vectors)]
    if closed and row.bias_rates:
        places.append(("reduced.bias_rates, reduced.G_size", "bias_rates"))
    if rows:  # all of them are read, whatever the first ones say
        read_q = "read_configurations(tree, work, q, row)"
        if closed:
            read_q = "read_solutions(tree, reduced, closure, solved, work, solution, q, row)"
        read = " & ".join([read_q, *(f"read_rows(work, {place}, {x}, row)" for place, x in places)])
    else:
        read_q = "read_configuration(tree, tree.work, q)"
        if closed:
            read_q = "read_solution(tree, reduced, closure, solved, q)"
        read = " and ".join([read_q, *(f"read_numbers(tree.work, {place}, {x})" for place, x in places)])
    work, rows_ = "work" if rows else "tree.work", "rows_" * rows
    # Results are read again only if numbers that were given are large, or if the kernel divides.
    finite = "are_finite_rows(out, row)" if rows else "are_within(slots, 0, out.size, LARGEST)"
    if row.inverse:
        finite = f"{rows_}are_above({work}, {of}.pivots, {of}.nv, SMALLEST_PIVOT) and {finite}"
    else:
        given = ["0, tree.nq"] + [f"{of}.vectors, {len(row.vectors)} * {of}.nv"] * bool(row.vectors)
        given += ["reduced.solution, reduced.solution_size"] * closed
        given += ["reduced.bias_rates, reduced.G_size"] * (closed and row.bias_rates)
        small = " and ".join(f"{rows_}are_within({work}, {place}, tree.limit[0])" for place in given)
        finite = f"({small} or {finite})"
    axes: dict[int | str, str] = {
        N: f"{of}.nv",
        PARAMETERS: "10 * tree.bodies",
        BODIES: "tree.bodies",
        TWISTS: "6 * tree.bodies",
    }
    fields = {
        "of": of,
        "loops": "closure, clusters, solved, " * closed,
        "arguments": "".join(f"{x}, " for _, x in places) + (f"{row.choice.name}, " if row.choice else ""),
        "current": "are_current(memory, closure, clusters)" if closed else "is_current(memory)",
        "reduced": "reduced = unpack_clusters(slots_of(clusters))" * closed,
        "objects": "tree, reduced" if closed else "tree",
        "shape": "(" + "".join(f"{axes.get(axis, str(axis))}, " for axis in row.shape) + ")",
        "read": read,
        "finite": finite,
        "clear": "out[:] = 0.0" if row.sparse else "",
        "choices": f", {row.choice.given}" if row.choice else "",
        "write": "write_results(work, result, blocks, out, row)",
    }
    if closed and rows:
        fields["reduced"] += "; solution = prepare(reduced, slots)"
    if row.mirrored and not closed:  # `write_slabs` takes what the kernel leaves out from its mirror images
        torsion = row.choice.given if row.choice else "False"
        fields["choices"] += f", {torsion}" if rows else ", True"
        fields["write"] = f"write_slabs(work, result, tree.nv, blocks, {torsion}, out, row)"
    return fields
