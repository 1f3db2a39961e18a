"""The output of the commands: reports of the propositions, tables, the files written.

A line has at most as many columns as the terminal, or 80 if the output is not a terminal. The environment
variable COLUMNS sets another number.
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from connections._shown import MOST_OF_MESSAGE, shown, shown_lines
from connections._written import OutputPath, write_file
from connections.cli.options import COLUMNS, in_columns

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from connections.control.tracking_example import TrackingResult
    from connections.verify import AnySubject, MotionRates, Row


WIDE = 120  # columns in which statements, residuals and scales have room
FULL = 150  # columns of a table in a file


def console(file: IO[str] | None = None) -> Console:
    """Standard output, or a file of 150 columns."""
    from rich.console import Console

    if file is not None:
        return Console(file=file, highlight=False, width=FULL)
    output = Console(highlight=False)
    piped = not output.is_terminal and not os.environ.get("COLUMNS")
    return Console(highlight=False, width=COLUMNS) if piped else output


def new_table(title: str = "") -> Table:
    """An empty table in the common style: columns are two spaces apart."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    return Table(
        title=Text(shown(title), style="italic") if title else None,
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


def print_paragraph(text: str, indent: str = "", later: str | None = "  ") -> None:
    """Print a paragraph in the available columns; its later lines are indented."""
    print(in_columns(shown_lines(text, len(text)), indent, later, console().width))


def cell(text: object) -> str:
    """Text of a file, such as a name, in a table or a title of rich, which reads brackets as commands."""
    from rich.markup import escape

    return escape(shown(text))


def print_report(rows: list[Row], subjects: Sequence[AnySubject], options: argparse.Namespace) -> None:
    """Print a table of rows, rows that fail or are inconclusive, omitted propositions, and the extremes."""
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
    print_verdicts(rows, subjects, options.tol)


def print_verdicts(rows: Sequence[Row], subjects: Sequence[AnySubject], tol: float) -> None:
    """Print the rows that fail or are inconclusive, the omitted propositions, and the extremes."""
    import numpy as np

    from connections.verify import FAILS, HOLDS, INCONCLUSIVE

    counts = {verdict: [row for row in rows if row.verdict == verdict] for verdict in (FAILS, INCONCLUSIVE)}
    for verdict, found in counts.items():
        for row in found:
            print_paragraph(f"{verdict.upper()} on {row.subject}: {row.key}, {row.statement}. {row.reason}")
    _print_left_out(rows, subjects)
    largest = np.max([row.check.relative for row in rows])  # a NaN stays one, which `max` can lose
    smallest = np.min([row.control.relative for row in rows])
    others = "".join(f" ({verdict}: {len(found)})" for verdict, found in counts.items() if found)
    print_paragraph(
        f"{sum(row.verdict == HOLDS for row in rows)} of {len(rows)} checks hold{others} on {len(subjects)} "
        f"system(s) at {_points(subjects)} each: largest relative residual {largest:.1e} "
        f"(tolerance {tol:.0e}); smallest negative control {smallest:.1e} (must be at least 1e-02)."
    )


def print_rates(rates: MotionRates) -> None:
    """Print contraction rates along a motion, and how its neighbours come together, at some times."""
    table = new_table(f"{rates.subject}: contraction along a motion")
    for head in (
        "time\n\\[s]",
        "bound\n\\[1/s]",
        "indicator\n\\[1/s]",
        "ln sqrt V\nallowed",
        "ln sqrt V\nneighbours",
    ):
        table.add_column(head, justify="right", overflow="fold")
    columns = rates.times, rates.bound, rates.indicator, rates.allowed, rates.neighbours
    for index in range(0, len(rates.times), (len(rates.times) - 1) // 5):
        table.add_row(*(f"{column[index]:.2f}" for column in columns))
    console().print(table)
    holds = "Neighbours are as close as the bound says; the indicator is neither a bound nor an estimate."
    print_paragraph(holds if rates.holds else "DOES NOT HOLD: neighbours are farther than the bound says.")


def print_groups(rows: Sequence[Row]) -> None:
    """Print a line for each group of propositions: verdict, number of systems, residual and control."""
    from connections.verify import HOLDS, by_group

    table = new_table()
    table.add_column("what is checked", overflow="fold")
    for name in ("systems", "residual", "control"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for group in by_group(rows):
        verdict = group.verdict if group.verdict == HOLDS else f"[bold red]{group.verdict}[/]"
        numbers = (str(group.systems), f"{group.residual:.1e}", f"{group.control:.1e}")
        table.add_row(group.statement, *numbers, verdict)
    console().print(table)
    print()


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """Write a table of all rows, system by system, with the controls, in 150 columns."""
    stream = io.StringIO()
    for name in dict.fromkeys(row.subject for row in rows):
        here = [row for row in rows if row.subject == name]
        console(stream).print(_table_of_rows(name, here, controls=True, name_system=False, wide=True))
        stream.write("\n")
    return write_file(path, stream.getvalue())


def write_output(output: OutputPath, text: str) -> None:
    """Write a result to its place, and say so."""
    print(end="", flush=True)  # its place may be this output
    output.write(text)
    print(f"written: {shown(output.path)}")


def print_tracking(results: Sequence[TrackingResult]) -> None:
    """Print the measures of the tracking example, a line for each beta."""
    table = new_table()
    heads = ("beta\n\\[kg/m]", "rms error\n\\[m]", "end error\n\\[m]", "effort\n\\[N^2 s]", "peak\n\\[N]")
    for head in (*heads, "crossings\nof v_z", "rms freq.\n\\[Hz]", "energy\n>1 Hz"):
        table.add_column(head, justify="right", overflow="fold")
    for r in results:
        numbers = (f"{r.beta:g}", f"{r.rms_error:.3f}", f"{r.final_error:.3f}", f"{r.effort:.1f}")
        others = (f"{r.peak_force:.2f}", str(r.zero_crossings), f"{r.rms_frequency:.2f}")
        table.add_row(*numbers, *others, f"{100 * r.high_frequency:.0f} %")
    console().print(table)


def status(verdicts: Iterable[str]) -> int:
    """The exit status: 0 if every row holds, 1 if one fails, 3 if none fails but some are inconclusive."""
    from connections.verify import FAILS, HOLDS

    found = set(verdicts)
    return 1 if FAILS in found else 0 if found <= {HOLDS} else 3


def _points(subjects: Sequence[AnySubject]) -> str:
    """The number of samples, such as "2 point(s)"; systems may have points of their own."""
    counts = sorted({len(subject.q) for subject in subjects})
    return f"{' or '.join(map(str, counts))} point(s)"


def _print_left_out(rows: Sequence[Row], subjects: Sequence[AnySubject]) -> None:
    """Name the propositions that do not apply to any of the systems."""
    from connections.verify.propositions import catalogue
    from connections.verify.report import excluded_by_torsion

    seen = {row.key for row in rows}
    kinds = dict.fromkeys(type(subject) for subject in subjects)
    torsion = {item.key: subject.name for subject in subjects for item in excluded_by_torsion(subject)}
    about = [key for key in torsion if key not in seen]
    if about:
        what = ", ".join(dict.fromkeys(torsion.values()))
        print_paragraph(f"Not applicable to {what}, which has torsion: {', '.join(about)}.")
    missing = [
        item.key for kind in kinds for item in catalogue(kind) if item.key not in seen | torsion.keys()
    ]
    if missing:
        what = subjects[0].name if len(subjects) == 1 else "any of these systems"
        print_paragraph(f"Left out, as they say nothing about {what}: {', '.join(missing)}.")


def _print_table(title: str, rows: Sequence[Row], controls: bool, name_system: bool) -> None:
    """Print a table; with few columns, verdicts only, and where to find the rest."""
    output = console()
    wide = output.width >= WIDE
    output.print(_table_of_rows(title, rows, controls, name_system, wide))
    print()
    if not wide:
        print_paragraph(
            f"What is compared, residuals and scales: in a terminal of {WIDE} columns, with COLUMNS={WIDE} "
            "in the environment, or in the file that --json writes."
        )
        print()


def _table_of_rows(title: str, rows: Sequence[Row], controls: bool, name_system: bool, wide: bool) -> Table:
    table = new_table(title)
    table.add_column("proposition", no_wrap=True)
    if wide:
        table.add_column("what is compared", ratio=1)
    if name_system:
        table.add_column("worst on", overflow="fold")
    for name in ("residual", "scale", "relative") if wide else ("relative",):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if controls:
        table.add_column("control", justify="right", no_wrap=True)
    for row in rows:
        check = row.check
        numbers = (check.residual, check.scale, check.relative) if wide else (check.relative,)
        cells = [
            row.key,
            *([cell(row.statement)] if wide else []),
            *([cell(row.subject)] if name_system else []),
        ]
        cells += [f"{number:.1e}" for number in numbers]
        cells.append(row.verdict if row.check.ok else f"[bold red]{row.verdict}[/]")
        cells += [f"{row.control.relative:.1e}"] if controls else []
        table.add_row(*cells)
    return table


def print_paths(paths: Sequence[Path]) -> None:
    """Name the files written."""
    print(f"Written to {shown(paths[0].resolve().parent, MOST_OF_MESSAGE)}:")
    for path in paths:
        print(f"  {shown(path.name)}")
