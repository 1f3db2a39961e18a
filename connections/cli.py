"""The command line: verify the propositions, explore the contorsion family, draw the figures.

``connections demo`` does all of it on built-in systems and on a real robot. Exit status: 0 if everything
holds, 1 if a check fails, 2 for a wrong argument or a file that cannot be read (one line says why).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from connections import checks

if TYPE_CHECKING:
    from connections.verify import AnySubject, Row, Subject

DEMO_ROBOT = "ur_description/urdf/ur5_robot.urdf"

_DESCRIPTION = """\
Geometric mechanics of robots: every Coriolis matrix is an affine connection.

  connections demo                          the propositions on built-in systems and on UR5, and the figures
  connections verify                        every proposition of the theory on six built-in systems
  connections verify ROBOT.urdf --floating-base      ... and on your robot
  connections verify --system snakeboard    the propositions on constraints, on a nonholonomic system
  connections explore --beta 0 -5 -10       what torsion does to a controlled point mass
  connections figures DIR                   figures 3 to 7 of the theory's paper
"""

_VERIFY = """\
Check every proposition on built-in systems (a point mass, the sphere, rigid bodies on SO(3) and SE(3), a
random metric in a random non-coordinate frame, a planar arm), or on a robot read from its URDF; with
--system NAME those about nonholonomic constraints on a system of this library, such as snakeboard or trailer.

Each row compares two routes to the same quantity that share no function, at random points. The residual is
the largest absolute deviation, the scale the largest term before cancellation; a row holds when their ratio
is at most --tol. Each row also has a negative control: the same measurement on something that must fail. It
has to fail by at least 1e-2, or the row is not counted as holding. --controls shows them.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : the words after ``connections``; those of the process if None.

    Returns
    -------
    The exit status: 0 all holds, 1 a check fails, 2 bad input.
    """
    options = _parser().parse_args(arguments)
    _compile_quickly()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            return options.run(options)
    except (ValueError, OSError, metadata.PackageNotFoundError, checks.IntegrationError) as error:
        text = " ".join(str(error).split())
        print(f"connections: error: {text}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("connections: interrupted", file=sys.stderr)
        return 130


def _compile_quickly() -> None:
    """Compile without optimization: here every function runs a few times only.

    No effect beyond round-off, and none at all if the caller set XLA_FLAGS or already used JAX.
    """
    fast = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    os.environ.setdefault("XLA_FLAGS", fast)


def _print_warning(message: Any, *_: Any, **__: Any) -> None:
    print(f"connections: note: {message}", file=sys.stderr)


# --- the commands --------------------------------------------------------------------------------


def _verify(options: argparse.Namespace) -> int:
    subjects = _subjects(options)
    if options.json is not None:
        _require_writable(options.json)
    rows = _run(subjects, options.tol)
    _print_report(rows, subjects, options)
    if options.json is not None:
        report = {
            "tol": options.tol,
            "samples": options.samples,
            "seed": options.seed,
            "rows": [r.to_dict() for r in rows],
        }
        options.json.write_text(json.dumps(report, indent=1, allow_nan=False, default=str) + "\n")
        print(f"written: {options.json}")
    return 0 if all(row.ok for row in rows) else 1


def _explore(options: argparse.Namespace) -> int:
    from connections.plots import write_exploration

    paths, table = write_exploration(options.directory, options.beta)
    print(table)
    _print_paths(paths)
    return 0


def _figures(options: argparse.Namespace) -> int:
    from connections.plots import write_figures

    _print_paths(write_figures(options.directory))
    return 0


def _demo(options: argparse.Namespace) -> int:
    from connections.plots import write_exploration, write_figures
    from connections.verify import built_in_subjects

    robot = options.robot if options.robot is not None else _example_robot()
    subjects: list[AnySubject] = [*built_in_subjects(options.samples, options.seed)]
    subjects.append(_robot(robot, False, options.samples, options.seed))
    rows = _run(subjects, options.tol)
    _print_report(rows, subjects, options)
    paths, table = write_exploration(options.directory)
    print("\nWhat torsion does to a controlled point mass, C = beta (v x):\n" + table)
    _print_paths([*write_figures(options.directory), *paths])
    return 0 if all(row.ok for row in rows) else 1


# --- reading and printing ----------------------------------------------------------------------


def _subjects(options: argparse.Namespace) -> list[AnySubject]:
    """What `verify` is to run on."""
    from connections.verify import built_in_subjects, system_subject

    if options.robot is None and options.floating_base:
        raise ValueError("--floating-base needs a robot: connections verify ROBOT.urdf --floating-base")
    if options.robot is not None and options.system:
        raise ValueError("give a robot or --system, not both")
    if options.system:
        return [system_subject(name, options.samples, options.seed) for name in options.system]
    if options.robot is None:
        return [*built_in_subjects(options.samples, options.seed)]
    return [_robot(options.robot, options.floating_base, options.samples, options.seed)]


def _robot(path: Path, floating_base: bool, samples: int, seed: int) -> Subject:
    from connections import multibody as mb
    from connections.verify.robots import robot_subject

    model = mb.from_urdf(path, floating_base=floating_base)
    return robot_subject(model, path.stem, samples, seed)


def _example_robot() -> Path:
    try:
        package = metadata.distribution("example-robot-data")
    except metadata.PackageNotFoundError:
        raise ValueError(
            'the demo reads UR5 from the package example-robot-data: pip install "connections[robots]", '
            "or name a robot: connections demo --robot ROBOT.urdf"
        ) from None
    for file in package.files or []:
        if str(file).endswith(DEMO_ROBOT):
            return Path(str(package.locate_file(file))).resolve()
    raise FileNotFoundError(f"example-robot-data {package.version} has no {DEMO_ROBOT}")


def _run(subjects: Sequence[AnySubject], tol: float) -> list[Row]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from connections.verify import applicable, verify_subject

    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    rows: list[Row] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("verify", total=sum(len(applicable(subject)) for subject in subjects))
        for subject in subjects:

            def advance(row: Row, name: str = subject.name) -> None:
                progress.update(task, advance=1, description=f"{name}: {row.key}")

            rows += verify_subject(subject, tol, advance)
    return rows


def _print_report(rows: list[Row], subjects: Sequence[AnySubject], options: argparse.Namespace) -> None:
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


def _print_paths(paths: Sequence[Path]) -> None:
    folder = paths[0].resolve().parent
    print(f"Figures and tables are in {folder}:")
    for path in paths:
        print(f"  {path.name}")


# --- arguments --------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print the error and where help is, and exit with status 2."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="connections", description=_DESCRIPTION, formatter_class=plain)
    parser.add_argument(
        "--version", action="version", version=f"connections {metadata.version('connections')}"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    verify = commands.add_parser(
        "verify", help="check every proposition", description=_VERIFY, formatter_class=plain
    )
    verify.add_argument(
        "robot", nargs="?", type=Path, metavar="ROBOT.urdf", help="a robot; built-in systems if absent"
    )
    verify.add_argument(
        "--floating-base", action="store_true", help="give the robot's root link a free joint"
    )
    verify.add_argument(
        "--system",
        action="append",
        metavar="NAME",
        help="a system with constraints, such as snakeboard, roller-racer, trailer; may be repeated",
    )
    verify.add_argument(
        "--json", type=Path, metavar="FILE", help="write all rows, controls included, to FILE"
    )
    _add_report_options(verify)
    verify.set_defaults(run=_verify)

    explore = commands.add_parser(
        "explore",
        help="sweep the contorsion family of the tracking example",
        description="Track a point moving on a line with the passivity-based law, C = beta (v x): figures, "
        "and a table of tracking error, control effort and frequency content.",
    )
    explore.add_argument(
        "--beta", type=_number, nargs="+", default=[0.0, -5.0, -10.0], help="values of beta [kg]"
    )
    explore.add_argument(
        "--output",
        dest="directory",
        type=Path,
        default=Path("connections-figures"),
        metavar="DIR",
        help="where the figures go (default ./connections-figures)",
    )
    explore.set_defaults(run=_explore)

    figures = commands.add_parser(
        "figures", help="draw figures 3 to 7", description="Draw figures 3 to 7 as PNG."
    )
    figures.add_argument("directory", type=Path, metavar="DIR")
    figures.set_defaults(run=_figures)

    demo = commands.add_parser(
        "demo",
        help="all of it: built-in systems, a real robot, the figures",
        description="Verify the propositions on the built-in systems and on a robot (UR5 unless --robot), "
        "then draw the figures.",
    )
    demo.add_argument("--robot", type=Path, metavar="ROBOT.urdf", help="another robot, on a fixed base")
    demo.add_argument("directory", nargs="?", type=Path, default=Path("connections-figures"), metavar="DIR")
    _add_report_options(demo)
    demo.set_defaults(run=_demo)
    return parser


def _add_report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--samples", type=_count, default=2, metavar="N", help="points per system (default 2)"
    )
    parser.add_argument("--seed", type=_seed, default=0, help="of the random points and fields (default 0)")
    parser.add_argument("--tol", type=_tolerance, default=1e-9, help="relative tolerance (default 1e-9)")
    parser.add_argument("--controls", action="store_true", help="show the negative controls")
    parser.add_argument(
        "--by-system", action="store_true", help="a table per system instead of the worst rows"
    )


def _checked(
    convert: Callable[[str], Any], accept: Callable[[Any], bool], wanted: str
) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not accept(value):
            raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}")
        return value

    return parse


_count = _checked(int, lambda n: n >= 1, "a positive integer")
_seed = _checked(int, lambda n: n >= 0, "a non-negative integer")
_tolerance = _checked(float, lambda x: 0.0 < x < 1.0, "a number between 0 and 1")
_number = _checked(float, lambda x: abs(x) < float("inf"), "a finite number")


def _require_writable(path: Path) -> None:
    """Raise before the work rather than after it."""
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise OSError(f"cannot write {path}: it is a directory, or its directory does not exist")


if __name__ == "__main__":
    sys.exit(main())
