"""connections sweep: tables, torsion, propositions, or a sweep of yours, on many processes or machines."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connections.cli import options as arguments
from connections.cli.printing import WIDE, cell, console, new_table, print_paragraph, status
from connections.cli.progress import progress

if TYPE_CHECKING:
    from connections.sweeps import Done, Store, Summary, Sweep

DESCRIPTION = """\
Compute chunk by chunk on a local cluster, or on one that runs already, and
write the results to a Zarr store. The same command resumes a sweep that was
interrupted; complete chunks with their checksums are not computed again.
Results do not depend on the number of workers.

  connections sweep table ROBOT.urdf --rows 1000000 --output bounds.zarr
  connections sweep contorsion ROBOT.urdf --gamma 0 5 --output torsion.zarr
  connections sweep propositions --system sphere --output sphere.zarr
  connections sweep python my_sweep.py:motions --output motions.zarr

with --scheduler tls://10.0.0.1:8786 on a Dask cluster that runs already, to a
folder that all its machines share.
"""
_PROPOSITIONS = """\
Every proposition at random points with random fields. Exit status: 0 all hold,
1 one does not hold, 3 none fails but one is inconclusive: at no point could its
test have failed.
"""
_PYTHON = """\
A sweep that a Python file makes, such as

  import numpy as np
  from connections.sweeps import Output, Sweep

  def values(chunk):
      return {"x": chunk.rng().standard_normal(chunk.rows)}

  def motions(rows=1000):
      return Sweep("motions", values, rows=rows, outputs={"x": Output()})

for  connections sweep python my_sweep.py:motions --rows 50 --output x.zarr
"""
_TABLES = (
    "christoffel_bounds",
    "christoffel_symbols",
    "coriolis_matrix",
    "curvatures",
    "gravity",
    "inverse_mass_matrix",
    "mass_matrix",
    "mass_matrix_rate",
)


def add(commands: Any) -> None:
    """Register the command."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(
        "sweep",
        help="tables, torsion, propositions or a sweep of yours, on many processes",
        description=DESCRIPTION,
        formatter_class=plain,
    )
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    _add_table(kinds)
    _add_contorsion(kinds)
    _add_propositions(kinds)
    _add_python(kinds)


def _add_table(kinds: Any) -> None:
    table = kinds.add_parser(
        "table",
        help="H, C, Christoffel symbols, bounds of them, or curvatures, over a robot's configurations",
        description="Quantities of a robot at random configurations, or at those of a Zarr array.",
    )
    table.add_argument("robot", type=arguments.robot, metavar="ROBOT.urdf")
    table.add_argument("--floating-base", action="store_true", help="give the root link a free joint")
    table.add_argument(
        "--quantity",
        action="append",
        choices=_TABLES,
        metavar="NAME",
        help=f"what to tabulate: {', '.join(_TABLES)}; may be repeated (default christoffel_bounds)",
    )
    table.add_argument("--rows", type=arguments.count, metavar="N", help="random configurations")
    table.add_argument(
        "--configurations", type=arguments.folder, metavar="Q.zarr", help="a Zarr array (rows, nq) instead"
    )
    table.add_argument(
        "--velocities", type=arguments.folder, metavar="V.zarr", help="a Zarr array (rows, nv)"
    )
    table.add_argument(
        "--body-factor", choices=("christoffel", "force_cross", "least"), default="christoffel"
    )
    _add_common(table)
    table.set_defaults(run=run, sweep=_table, report=_report_table)


def _add_contorsion(kinds: Any) -> None:
    contorsion = kinds.add_parser(
        "contorsion",
        help="what torsion does to tracking: gammas x initial states x robots",
        description="Tracking error, effort and frequencies of robots, or of the paper's point mass.",
    )
    contorsion.add_argument("robots", nargs="*", type=arguments.robot, metavar="ROBOT.urdf")
    contorsion.add_argument(
        "--gamma",
        type=arguments.number,
        nargs="+",
        default=[0.0, -5.0, -10.0],
        help="gamma of robots; beta of the point mass [kg/m] (default 0 -5 -10)",
    )
    contorsion.add_argument(
        "--starts", type=arguments.count, default=10, metavar="N", help="initial states (default 10)"
    )
    contorsion.add_argument(
        "--family",
        default="contorsion",
        choices=("contorsion", "weyl", "statistical"),
        help="of the point mass's connections (default contorsion)",
    )
    _add_common(contorsion)
    contorsion.set_defaults(run=run, sweep=_contorsion, report=_report_contorsion)


def _add_propositions(kinds: Any) -> None:
    propositions = kinds.add_parser(
        "propositions",
        help="the propositions at many random points of a system",
        description=_PROPOSITIONS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    propositions.ending = arguments.list_of_systems
    propositions.add_argument("robot", nargs="?", type=arguments.robot, metavar="ROBOT.urdf")
    propositions.add_argument("--floating-base", action="store_true", help="give the root link a free joint")
    propositions.add_argument("--system", metavar="NAME", help="a built-in system; the names are below")
    propositions.add_argument(
        "--points", type=arguments.count, default=20, metavar="N", help="random points (default 20)"
    )
    propositions.add_argument("--only", action="append", metavar="KEY", help="a proposition; may be repeated")
    propositions.add_argument("--tol", type=arguments.tolerance, default=1e-9, help="default 1e-9")
    _add_common(propositions)
    propositions.set_defaults(run=run, sweep=_propositions, report=_report_propositions)


def _add_python(kinds: Any) -> None:
    python = kinds.add_parser(
        "python",
        help="a sweep that a Python file makes",
        description=_PYTHON,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    python.add_argument(
        "file",
        type=arguments.file_name,
        metavar="FILE.py:NAME",
        help="a Sweep, or a function that returns one",
    )
    python.add_argument("--rows", type=arguments.count, metavar="N", help="given to the function, as rows")
    python.add_argument(
        "--other-sources",
        action="store_true",
        help="continue a store after edits of your modules on which no number depends",
    )
    _add_common(python, seed=None)
    python.set_defaults(run=run, sweep=_python, report=_report_table)


def _add_common(parser: argparse.ArgumentParser, seed: int | None = 0) -> None:
    parser.add_argument(
        "--output", type=arguments.folder, required=True, metavar="STORE", help="the Zarr store's folder"
    )
    parser.add_argument(
        "--workers",
        type=_workers,
        metavar="N",
        help="local processes; 0: this process alone (default one per processor)",
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="of a running Dask scheduler, tls://10.0.0.1:8786"
    )
    usual = "the sweep's own" if seed is None else seed
    parser.add_argument(
        "--seed", type=arguments.seed, default=seed, help=f"of all random numbers (default {usual})"
    )
    parser.add_argument("--chunk", type=arguments.count, metavar="ROWS", help="rows per chunk")
    parser.add_argument("--compress", action="store_true", help="compress the store's chunks")
    parser.add_argument(
        "--other-versions",
        action="store_true",
        help="continue a store that was created with other versions of the packages",
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=10.0, metavar="S", help="for the scheduler to answer (default 10)"
    )
    parser.set_defaults(other_sources=False)


_workers = arguments.checked(int, lambda n: n >= 0, "a number of processes")
_seconds = arguments.checked(float, lambda x: 0.0 < x < float("inf"), "a positive number of seconds")


def run(options: argparse.Namespace) -> int:
    """Run the sweep, and print what is in the store."""
    if options.workers is not None and options.scheduler is not None:
        raise ValueError("give --workers, for a local cluster, or --scheduler, not both")
    try:
        summary = _with_progress(options.sweep(options), options)
    except ModuleNotFoundError as error:
        raise ValueError(str(error)) from error
    from connections.sweeps import Store

    status: int = options.report(Store(summary.path))
    for line in str(summary).splitlines():
        print_paragraph(line.strip(), "  " * line.startswith(" "), "    ")
    return status


def _with_progress(sweep: Sweep, options: argparse.Namespace) -> Summary:
    from connections.sweeps import run_sweep

    with (
        _errors_in_words(options),
        progress(sweep.chunks, f"chunks of {sweep.chunk} rows", sweep.name) as steps,
    ):

        def advance(done: Done, chunks: int) -> None:
            steps.advance()
            if done.flaw:
                steps.note(f"chunk {done.number} computed again: {done.flaw}")

        return run_sweep(
            sweep,
            options.output,
            workers=options.workers,
            scheduler=options.scheduler,
            progress=advance,
            compress=options.compress,
            other_versions=options.other_versions,
            other_sources=options.other_sources,
            timeout=options.timeout,
        )


@contextmanager
def _errors_in_words(options: argparse.Namespace) -> Iterator[None]:
    """Errors of a user's function are one of bad input, with the line of the file."""
    from connections.sweeps import SchedulerError, StoreError, SweepError
    from connections.verify.python_files import explained

    if options.sweep is not _python:
        yield
        return
    path, name = _reference(options.file)
    ours = SchedulerError, StoreError, SweepError, BrokenPipeError
    with explained(path, f"{path.name}:{name} cannot be computed", but=ours):
        yield


# --- the kinds -----------------------------------------------------------------------------------


def _table(options: argparse.Namespace) -> Sweep:
    from connections import multibody as mb
    from connections.sweeps import table_sweep

    return table_sweep(
        mb.from_urdf(options.robot, floating_base=options.floating_base),
        options.quantity or ["christoffel_bounds"],
        options.rows,
        chunk=options.chunk,
        seed=options.seed,
        body_factor=options.body_factor,
        configurations=options.configurations,
        velocities=options.velocities,
    )


def _contorsion(options: argparse.Namespace) -> Sweep:
    from connections import multibody as mb
    from connections.sweeps import contorsion_sweep

    return contorsion_sweep(
        options.gamma,
        options.starts,
        robots=[mb.from_urdf(path) for path in options.robots],
        names=[path.stem for path in options.robots],
        chunk=options.chunk,
        seed=options.seed,
        family=options.family,
    )


def _propositions(options: argparse.Namespace) -> Sweep:
    if (options.robot is None) == (options.system is None):
        raise ValueError("give a robot, or a system: connections sweep propositions --system sphere ...")
    if options.robot is None and options.floating_base:
        raise ValueError("--floating-base needs a robot")
    arguments.require_systems([] if options.system is None else [options.system])
    from connections import multibody as mb
    from connections.sweeps import proposition_sweep

    return proposition_sweep(
        mb.from_urdf(options.robot, floating_base=options.floating_base) if options.robot else options.system,
        options.points,
        propositions=options.only,
        chunk=options.chunk or 1,
        seed=options.seed,
        tol=options.tol,
        name=options.robot.stem if options.robot else "",
    )


def _python(options: argparse.Namespace) -> Sweep:
    from connections.sweeps.sweeps_from_files import sweep_from_file

    path, name = _reference(options.file)
    return sweep_from_file(path, name, options.rows, options.chunk, options.seed)


def _reference(text: str) -> tuple[Path, str]:
    return arguments.python_reference(text) or (Path(text), "")


def _report_table(store: Store) -> int:
    """Print the arrays, and the extremes of those with one real number per row."""
    import numpy as np

    for name, array in store.arrays.items():
        print_paragraph(f"{name}: {array.shape} {array.dtype}, {array.nbytes / 1e6:.4g} MB")
        if array.ndim > 1 or array.dtype.kind not in "iuf":
            continue
        values = np.asarray(array[:])
        there = np.flatnonzero(~np.isnan(values))
        text = f"{len(values) - len(there)} are NaN" if len(there) < len(values) else ""
        if len(there):
            least, most = there[values[there].argmin()], there[values[there].argmax()]
            extremes = f"from {values[least]:.6g} (row {least}) to {values[most]:.6g} (row {most})"
            text = f"{extremes}, mean {values[there].mean():.6g}{text and '; '}{text}"
        print_paragraph(text, "  ", "    ")
    return 0


def _report_contorsion(store: Store) -> int:
    from connections.sweeps import contorsion_summary

    rows = contorsion_summary(store)
    wide = console().width >= WIDE
    few = ("robot", "gamma", "lost", "rms_error", "effort", "peak_force", "rms_frequency")
    head = [name for name in rows[0] if wide or name in few]
    _print_columns(head, [[_text(row[name]) for name in head] for row in rows])
    if not wide:
        print_paragraph(
            f"All measures: in {WIDE} columns, COLUMNS={WIDE} in the environment, or in the store."
        )
    return 0


def _report_propositions(store: Store) -> int:
    from connections.sweeps import proposition_summary

    rows = proposition_summary(store)
    head = ["proposition", "points", "worst", "at row", "median", "control", "verdict"]
    lines = []
    for row in rows:
        parts = [f"{row.failed} points"] if row.failed else []
        parts += [f"{row.weak} inconclusive"] if row.weak else []
        holds = row.verdict + (f" ({', '.join(parts)})" if parts else "")
        numbers = [f"{row.worst:.1e}", str(row.row), f"{row.median:.1e}", f"{row.control:.1e}"]
        lines.append([row.key, str(row.points), *numbers, holds])
    _print_columns(head, lines)
    return status(row.verdict for row in rows)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _print_columns(head: list[str], lines: list[list[str]]) -> None:
    """Print a table; if there are too few columns, names and verdicts are broken."""
    table = new_table()
    for name in head:
        table.add_column(name, no_wrap=name not in ("robot", "verdict"), overflow="fold")
    for line in lines:
        table.add_row(*map(cell, line))
    console().print(table)
    print()
