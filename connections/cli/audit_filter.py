"""connections audit-filter: a filter of somebody else, as two functions of a Python file."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from connections.checks import SubjectError
from connections.cli import options as arguments
from connections.cli.printing import WIDE, cell, console, new_table, print_paragraph, write_output

if TYPE_CHECKING:
    from connections.referee import RefereeReport

_DESCRIPTION = """\
Is a filter on a manifold right? Its predict(x, P, u, dt) and update(x, P, z)
are judged as black boxes, by derivatives of what they return.

  connections audit-filter my_filter.py:attitude

Here attitude is a referee.BlackBoxFilter, or a function without arguments that
returns one: the two functions, what the sensor would measure, its covariance,
how states are written, and an example of all arguments (docs/filters.md).

It finds covariances that are not symmetric or not positive, a transposed
Jacobian, degrees for radians, axes of the world for those of the body, a reset
that is missing or transposed, and whether a turned world gives a turned result.

Exit status: 0 every row holds, 1 one fails, 2 bad input, 3 none fails but one
could not be judged.
"""


def add(commands: Any) -> None:
    """Register the command."""
    audit = commands.add_parser(
        "audit-filter",
        help="whether a filter's covariances are those of its states",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    audit.add_argument(
        "file",
        type=arguments.file_name,
        metavar="FILE.py:NAME",
        help="a BlackBoxFilter that Python code defines",
    )
    audit.add_argument(
        "--tol",
        type=arguments.tolerance,
        default=1e-6,
        help="relative to standard deviations (default 1e-6)",
    )
    audit.add_argument(
        "--json", type=arguments.result, metavar="FILE", help="write everything to FILE; - is standard output"
    )
    audit.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Audit, print, and write."""
    from connections.referee import BlackBoxFilter, audit_filter
    from connections.verify.python_files import Wanted, explained, object_from_file

    reference = arguments.python_reference(options.file)
    if reference is None:
        raise SubjectError(f"{options.file} names no Python code: write my_filter.py:attitude")
    output = arguments.output(options.json)
    wanted = Wanted(
        lambda thing: isinstance(thing, BlackBoxFilter),
        "audit",
        "Expected a referee.BlackBoxFilter, or a function without arguments that returns one.",
    )
    found = object_from_file(*reference, wanted)
    with explained(reference[0], f"{found.name} cannot be judged"):
        report = audit_filter(found.thing, options.tol, found.name)
    _print(report)
    if output is not None:
        write_output(output, json.dumps(report.to_dict(), indent=1, allow_nan=False) + "\n")
    if report.failing:
        return 1
    return 3 if {"unknown", "empty"} & set(report.verdicts.values()) else 0


def _print(report: RefereeReport) -> None:
    """A row for each property; in many columns with the tolerance, too."""
    output = console()
    numbers = ("residual", "tolerance", "control") if output.width >= WIDE else ("residual",)
    table = new_table()
    for name in ("row", "verdict"):
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("meaning")
    for row in report.rows:
        if not row.given:
            continue
        values = (getattr(row, name) for name in numbers)
        texts = ["-" if value != value else f"{value:.1e}" for value in values]
        verdict = row.verdict if row.verdict != "fails" else f"[bold red]{row.verdict}[/]"
        table.add_row(row.name, verdict, *texts, cell(row.meaning))
    output.print(table)
    print()
    for note in report.notes:
        print_paragraph(f"note: {note}", "", "  ")
    left = [row.name for row in report.rows if not row.given]
    if left:
        print_paragraph(f"Not given, or not applicable: {', '.join(left)}.")
    print_paragraph(report.summary)
