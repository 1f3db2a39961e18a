"""What the commands print: reports of the propositions, tables, the files written."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from connections.verify import AnySubject, Row


def print_report(rows: list[Row], subjects: Sequence[AnySubject], options: argparse.Namespace) -> None:
    """Print a table of rows, what fails, what was left out, and the extremes."""
    from connections.verify import summary

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
    failed = [row for row in rows if not row.ok]
    for row in failed:
        reason = (
            f"{row.check}" if not row.check.ok else f"negative control too weak ({row.control.relative:.1e})"
        )
        print(f"FAILS on {row.subject}: {row.key}, {row.statement}. {reason}")
    _print_left_out(rows, subjects)
    largest = max(row.check.relative for row in rows)
    smallest = min(row.control.relative for row in rows)
    print(
        f"{len(rows) - len(failed)} of {len(rows)} checks hold on {len(subjects)} system(s) at "
        f"{options.samples} point(s) each: largest relative residual {largest:.1e} "
        f"(tolerance {options.tol:.0e}); smallest negative control {smallest:.1e} (must be at least 1e-02)."
    )


def _print_left_out(rows: list[Row], subjects: Sequence[AnySubject]) -> None:
    """Name the propositions that say nothing about any of the systems."""
    from connections.verify.propositions import catalogue

    seen = {row.key for row in rows}
    kinds = dict.fromkeys(type(subject) for subject in subjects)
    missing = [item.key for kind in kinds for item in catalogue(kind) if item.key not in seen]
    if missing:
        what = subjects[0].name if len(subjects) == 1 else "any of these systems"
        print(f"Left out, as they say nothing about {what}: {', '.join(missing)}.")


def _print_table(title: str, rows: list[Row], controls: bool, name_system: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=150)
    table = Table(title=title, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("proposition", no_wrap=True)
    table.add_column("what is compared", ratio=1)
    if name_system:
        table.add_column("worst on", no_wrap=True)
    for name in ("residual", "scale", "relative"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if controls:
        table.add_column("control", justify="right", no_wrap=True)
    for row in rows:
        check = row.check
        cells = [row.key, escape(row.statement), *([row.subject] if name_system else [])]
        cells += [f"{check.residual:.1e}", f"{check.scale:.1e}", f"{check.relative:.1e}"]
        cells.append("holds" if row.ok else "[bold red]FAILS[/]")
        cells += [f"{row.control.relative:.1e}"] if controls else []
        table.add_row(*cells)
    console.print(table)


def print_paths(paths: Sequence[Path]) -> None:
    """Name the files written."""
    folder = paths[0].resolve().parent
    print(f"Figures and tables are in {folder}:")
    for path in paths:
        print(f"  {path.name}")
