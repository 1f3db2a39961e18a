"""connections verify: the propositions on built-in systems, a robot or a system with constraints."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connections.cli import arguments
from connections.cli.printing import print_report, status

if TYPE_CHECKING:
    from connections.verify import AnySubject, Row, Subject

DESCRIPTION = """\
Check every proposition on built-in systems (a point mass, the sphere, rigid bodies on SO(3) and SE(3), a
random metric in a random non-coordinate frame, a planar arm), or on a robot read from its URDF; with
--system NAME those about nonholonomic constraints on a system of this library, such as snakeboard or trailer.

Each row compares two routes to the same quantity that share no function, at random points. The residual is
the largest absolute deviation, the scale the largest term before cancellation; a row holds when their ratio
is at most --tol. Each row also has a negative control: the same measurement on something that must fail, by
at least 1e-2. One that is weaker is drawn again, with other random numbers; where none shows the fault, the
row is inconclusive: nothing speaks against the proposition, but the test could not have failed. --controls
shows them.

Exit status: 0 every row holds, 1 one does not hold, 2 bad input, 3 none fails but one is inconclusive.
"""


def add(commands: Any) -> None:
    """Register the command."""
    verify = commands.add_parser(
        "verify",
        help="check every proposition",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
    arguments.add_report_options(verify)
    verify.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Verify, print, and write the rows."""
    subjects = _subjects(options)
    if options.json is not None:
        arguments.require_writable(options.json)
    rows = run_all(subjects, options.tol)
    print_report(rows, subjects, options)
    if options.json is not None:
        report = {
            "tol": options.tol,
            "samples": options.samples,
            "seed": options.seed,
            "rows": [r.to_dict() for r in rows],
        }
        options.json.write_text(json.dumps(report, indent=1, allow_nan=False, default=str) + "\n")
        print(f"written: {options.json}")
    return status(row.verdict for row in rows)


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
    return [robot(options.robot, options.floating_base, options.samples, options.seed)]


def robot(path: Path, floating_base: bool, samples: int, seed: int) -> Subject:
    """A robot read from its URDF as a subject of the propositions."""
    from connections import multibody as mb
    from connections.verify.robots import robot_subject

    model = mb.from_urdf(path, floating_base=floating_base)
    return robot_subject(model, path.stem, samples, seed)


def run_all(subjects: Sequence[AnySubject], tol: float) -> list[Row]:
    """All rows of all subjects, with a progress bar on stderr."""
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
