"""What the commands print: reports of the propositions, tables, the files written."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from connections.cli.arguments import in_columns

if TYPE_CHECKING:
    from connections.verify import AnySubject, Row


_WIDE = 120  # columns of a terminal in which statements, residuals and scales have room
_PIPED = 150  # columns where the output is no terminal


def print_report(rows: list[Row], subjects: Sequence[AnySubject], options: argparse.Namespace) -> None:
    """Print a table of rows, those that do not hold or are inconclusive, what was left out, the extremes."""
    import numpy as np

    from connections.verify import FAILS, HOLDS, INCONCLUSIVE, summary

    if options.by_system or len(subjects) == 1:
        for subject in subjects:
            _print_table(
                subject.name, [row for row in rows if row.subject == subject.name], options.controls, False
            )
    else:
        names = ", ".join(subject.name for subject in subjects)
        _print_table(
            f"The propositions on: {names} (each row: the worst)", summary(rows), options.controls, True
        )
    counts = {verdict: [row for row in rows if row.verdict == verdict] for verdict in (FAILS, INCONCLUSIVE)}
    for verdict, found in counts.items():
        for row in found:
            _print_paragraph(f"{verdict.upper()} on {row.subject}: {row.key}, {row.statement}. {row.reason}")
    _print_left_out(rows, subjects)
    largest = np.max([row.check.relative for row in rows])  # a NaN stays one, which `max` can lose
    smallest = np.min([row.control.relative for row in rows])
    others = "".join(f" ({verdict}: {len(found)})" for verdict, found in counts.items() if found)
    _print_paragraph(
        f"{sum(row.verdict == HOLDS for row in rows)} of {len(rows)} checks hold{others} on {len(subjects)} "
        f"system(s) at {_points(subjects)} each: largest relative residual {largest:.1e} "
        f"(tolerance {options.tol:.0e}); smallest negative control {smallest:.1e} (must be at least 1e-02)."
    )


def status(verdicts: Iterable[str]) -> int:
    """The exit status: 0 where every row holds, 1 where one does not, else 3: some are inconclusive."""
    from connections.verify import FAILS, HOLDS

    found = set(verdicts)
    return 1 if FAILS in found else 0 if found <= {HOLDS} else 3


def _points(subjects: Sequence[AnySubject]) -> str:
    """How many samples there are, such as "2 point(s)"; systems may bring points of their own."""
    counts = sorted({len(subject.q) for subject in subjects})
    return f"{' or '.join(map(str, counts))} point(s)"


def _print_paragraph(text: str) -> None:
    """A paragraph in the columns of a terminal; one line where the output is none."""
    from rich.console import Console

    console = Console()
    print(in_columns(text, later="  ", width=console.width) if console.is_terminal else text)


def _print_left_out(rows: list[Row], subjects: Sequence[AnySubject]) -> None:
    """Name the propositions that say nothing about any of the systems."""
    from connections.verify.propositions import catalogue

    seen = {row.key for row in rows}
    kinds = dict.fromkeys(type(subject) for subject in subjects)
    missing = [item.key for kind in kinds for item in catalogue(kind) if item.key not in seen]
    if missing:
        what = subjects[0].name if len(subjects) == 1 else "any of these systems"
        _print_paragraph(f"Left out, as they say nothing about {what}: {', '.join(missing)}.")


def _print_table(title: str, rows: list[Row], controls: bool, name_system: bool) -> None:
    """A narrow terminal shows verdicts only, and says where the rest is."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPED)
    wide = console.width >= _WIDE
    table = Table(title=title, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("proposition", no_wrap=True)
    if wide:
        table.add_column("what is compared", ratio=1)
    if name_system:
        table.add_column("worst on", no_wrap=True)
    for name in ("residual", "scale", "relative") if wide else ("relative",):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if controls:
        table.add_column("control", justify="right", no_wrap=True)
    for row in rows:
        check = row.check
        numbers = (check.residual, check.scale, check.relative) if wide else (check.relative,)
        cells = [row.key, *([escape(row.statement)] if wide else []), *([row.subject] if name_system else [])]
        cells += [f"{number:.1e}" for number in numbers]
        cells.append(row.verdict if row.check.ok else f"[bold red]{row.verdict}[/]")
        cells += [f"{row.control.relative:.1e}"] if controls else []
        table.add_row(*cells)
    console.print(table)
    if not wide:
        _print_paragraph(
            f"What is compared, residuals and scales are shown in {_WIDE} columns, and written by --json."
        )
        print()


def print_paths(paths: Sequence[Path]) -> None:
    """Name the files written."""
    folder = paths[0].resolve().parent
    print(f"Figures and tables are in {folder}:")
    for path in paths:
        print(f"  {path.name}")
