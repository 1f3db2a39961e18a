"""Write the compiled functions of the recursions, a file for each row of the table (`table.RECURSIONS`).

    python tests/support/compiled_entries.py

after an edit of the table or of the templates here. The files are checked in, in the folder
`connections/multibody/program/entries/`, so that a reader, a debugger and the tools that follow imports see
what is compiled; `tests/multibody/test_recursions_table.py` compares them with what would be written.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import subprocess
from pathlib import Path

from connections.multibody.program import entries
from connections.multibody.program.table import BODIES, PARAMETERS, RECURSIONS, TWISTS, N, Recursion

FOLDER = Path(entries.__file__).parent
_MULTIBODY = "connections.multibody"
_NAMES_FROM = (  # modules of the names in the templates
    "connections.engines.inlined.simd",
    "connections.engines.inlined.rows",
    f"{_MULTIBODY}.kernels.layout",
    f"{_MULTIBODY}.kernels.reading",
    f"{_MULTIBODY}.kernels.cluster_reading",
    f"{_MULTIBODY}.tolerances",
)

_FILE = '''"""Entries of `{name}`, written by tests/support/compiled_entries.py."""

{imports}

{functions}'''

_AT = """
@compiled_entry
def {entry}(memory, {loops}q, {arguments}out):
    {room}
    tree, slots = unpack_tree(slots_of(memory)), flat_slots_of(out)
    {reduced}
    if not (out.shape == {shape} and {read}):
        return False
    {clear}
    {kernel}({objects}, tree.work, slots{choices})
    return {finite}
"""

_ROWS = """
@compiled_batch_entry
def {entry}(memory, {loops}work, blocks, q, {arguments}out):
    {room}
    tree, slots, good = unpack_tree(slots_of(memory)), slots_of(work), True
    {reduced}
    result = {of}.result
    for row in range(0, q.shape[0], LANES):
        good &= {read}
        {kernel}({objects}, slots, beyond(slots, result){choices})
        {write}
        good &= {finite}
    return good
"""


def text(name: str, row: Recursion) -> str:
    """The file of the recursion `name`, before ruff breaks its lines."""
    cases = [(closed, rows) for closed in (False, True) for rows in (False, True)]
    cases = [(closed, rows) for closed, rows in cases if not closed or row.closed is not None]
    functions = "\n".join(_function(name, row, closed, rows) for closed, rows in cases)
    lines = [f"from {_MULTIBODY}.kernels.{row.kernel} import {name}"]
    if row.closed is not None:
        lines.append(f"from {_MULTIBODY}.kernels.{row.closed} import {name} as closed_{name}")
    used = {node.id for node in ast.walk(ast.parse(functions)) if isinstance(node, ast.Name)}
    used -= {name, f"closed_{name}", *dir(builtins)}
    for module in _NAMES_FROM:
        here = sorted(used & {*vars(importlib.import_module(module))})
        used -= {*here}
        if here:
            lines.append(f"from {module} import {', '.join(here)}")
    return _FILE.format(name=name, imports="\n".join(sorted(lines)), functions=functions)


def formatted(source: str) -> str:
    """The text as ruff writes it."""
    options = ["--config", str(FOLDER.parents[3] / "pyproject.toml"), "--stdin-filename", "entry.py"]
    for command in (["check", "--fix", "--select", "I"], ["format"]):
        words = ["ruff", *command, "--quiet", *options, "-"]
        source = subprocess.run(words, input=source, capture_output=True, text=True, check=True).stdout
    return source


def _function(name: str, row: Recursion, closed: bool, rows: bool) -> str:
    entry = f"{'closed_' * closed}{name}_{'rows' if rows else 'at'}"
    kernel = f"closed_{name}" if closed else name
    source = (_ROWS if rows else _AT).format(entry=entry, kernel=kernel, **_fields(row, closed, rows))
    return "\n".join(line for line in source.split("\n") if line.strip() or not line)


def _fields(row: Recursion, closed: bool, rows: bool) -> dict[str, str]:
    """The fields of the templates; `of` holds the layout of the vectors and of the result."""
    of = "reduced" if closed else "tree"
    starts = [f"{of}.vectors", f"{of}.vectors + {of}.nv", f"{of}.vectors + 2 * {of}.nv"]
    places = [(f"{start}, {of}.nv", vector) for start, vector in zip(starts, row.vectors, strict=False)]
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
    named: dict[int | str, str] = {
        N: f"{of}.nv",
        PARAMETERS: "10 * tree.bodies",
        BODIES: "tree.bodies",
        TWISTS: "6 * tree.bodies",
    }
    axes = [named.get(axis, str(axis)) for axis in row.shape]
    fields = {
        "of": of,
        "loops": "closure, clusters, solved, " * closed,
        "arguments": "".join(f"{x}, " for _, x in places) + (f"{row.choice.name}, " if row.choice else ""),
        "room": "if not has_room(memory, clusters):\n        return False" * closed,
        "reduced": "reduced = unpack_clusters(slots_of(clusters))" * closed,
        "objects": "tree, reduced" if closed else "tree",
        "shape": f"({', '.join(axes)}{',' * (len(axes) == 1)})",
        "read": read,
        "finite": finite,
        "clear": "out[:] = 0.0" if row.sparse else "",
        "choices": f", {row.choice.given}" if row.choice else "",
        "write": "write_results(work, result, blocks, out, row)",
    }
    if closed and rows:
        fields["reduced"] += "\n    solution = prepare(reduced, slots)"
    if row.mirrored and not closed:  # `write_slabs` takes what the kernel leaves out from its mirror images
        torsion = row.choice.given if row.choice else "False"
        fields["choices"] += f", {torsion}" if rows else ", True"
        fields["write"] = f"write_slabs(work, result, tree.nv, blocks, {torsion}, out, row)"
    return fields


if __name__ == "__main__":
    for path in FOLDER.glob("[!_]*.py"):
        path.unlink()
    for name, row in RECURSIONS.items():
        (FOLDER / f"{name}.py").write_text(formatted(text(name, row)), encoding="utf-8")
