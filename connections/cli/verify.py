"""connections verify: the propositions on built-in systems, a robot, or a system defined in a Python file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connections._shown import shown
from connections._system_names import hyphened, no_system
from connections.checks import SubjectError
from connections.cli import options as arguments
from connections.cli.printing import print_rates, print_report, status, write_output
from connections.cli.progress import progress

if TYPE_CHECKING:
    from connections.verify import AnySubject, MotionRates, Row, Subject

DESCRIPTION = """\
Check every proposition on six built-in systems, or on others:

  connections verify                                 the six
  connections verify --system snakeboard             a built-in system by name
  connections verify ROBOT.urdf --floating-base      a robot
  connections verify arm                             an example of the package
  connections verify my_system.py:top                what Python code defines

In the last case top is a subject, metric, connection, mechanical system or
robot of this library, or a function without arguments that returns one. A
system with nonholonomic constraints gets the propositions on constraints.

Each row compares two routes to the same quantity that share no function, at
random points. The residual is the largest absolute deviation, the scale the
largest term before cancellation; a row holds when their ratio is at most --tol.
Each row also has a negative control: the same measurement on something that
must fail, by at least 1e-2. One that is weaker is drawn again, with other
random numbers; where none shows the fault, the row is inconclusive: nothing
speaks against the proposition, but the test could not have failed. --controls
shows them. --rates adds contraction rates along a motion: their bound has to
hold.

Exit status: 0 every row holds, 1 one does not hold, 2 bad input, 3 none fails
but one is inconclusive.
"""


def add(commands: Any) -> None:
    """Register the command."""
    verify = commands.add_parser(
        "verify",
        help="check every proposition",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verify.ending = arguments.list_of_systems
    verify.add_argument(
        "file",
        nargs="?",
        type=arguments.file_name,
        metavar="FILE",
        help="ROBOT.urdf or my_system.py:NAME; six systems if absent",
    )
    verify.add_argument(
        "--floating-base", action="store_true", help="give the robot's root link a free joint"
    )
    verify.add_argument(
        "--system",
        action="append",
        metavar="NAME",
        help="a built-in system; may be repeated; the names are below",
    )
    verify.add_argument(
        "--rates", action="store_true", help="also show contraction rates along a motion of each system"
    )
    verify.add_argument(
        "--json",
        type=arguments.result,
        metavar="FILE",
        help="write all rows, controls and rates included, to FILE; - is standard output",
    )
    arguments.add_report_options(verify)
    verify.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Verify, print, and write the rows."""
    given = arguments.fill_report_options(options)
    output = arguments.output(options.json)
    subjects, python = _subjects(options)
    if python is None:
        rows = run_all(subjects, options.tol)
    else:
        from connections.verify.python_files import explained

        _print_ignored(given, options, subjects[0])
        with explained(python, f"{subjects[0].name} cannot be verified"):
            rows = run_all(subjects, options.tol)
    print_report(rows, subjects, options)
    found = _rates(subjects) if options.rates else []
    verdicts = [row.verdict for row in rows] + [rates.verdict for rates in found]
    if output is not None:
        report = {
            "tol": options.tol,
            "samples": max(len(subject.q) for subject in subjects),
            "seed": options.seed,
            "rows": [r.to_dict() for r in rows],
        }
        if options.rates:
            report["rates"] = [rates.to_dict() for rates in found]
        write_output(output, json.dumps(report, indent=1, allow_nan=False, default=str) + "\n")
    return status(verdicts)


def _rates(subjects: Sequence[AnySubject]) -> list[MotionRates]:
    """Print contraction rates along a motion of each system without constraints, and return them."""
    from connections.verify import Subject, rates_along_a_motion

    found = []
    for subject in subjects:
        print()
        if isinstance(subject, Subject):
            found.append(rates_along_a_motion(subject))
            print_rates(found[-1])
        else:
            print(f"{shown(subject.name)}: contraction rates are of systems without constraints only")
    return found


def _subjects(options: argparse.Namespace) -> tuple[list[AnySubject], Path | None]:
    """The subjects of `verify`, and the Python file that defines them, or None."""
    python = None if options.file is None else arguments.python_reference(options.file)
    if options.floating_base and (options.file is None or python is not None):
        raise ValueError("--floating-base needs a robot: connections verify ROBOT.urdf --floating-base")
    if options.file is not None and options.system:
        raise ValueError("give a file or --system, not both")
    arguments.require_systems(options.system or [])
    from connections.verify import built_in_subjects, subject_from_file, system_subject

    if options.system:
        return [system_subject(name, options.samples, options.seed) for name in options.system], None
    if options.file is None:
        return [*built_in_subjects(options.samples, options.seed)], None
    if python is not None:
        path, attribute = python
        return [subject_from_file(path, attribute, options.samples, options.seed)], path
    path = arguments.robot(options.file)
    if not path.exists():
        _require_no_system(options.file)
    return [robot(path, options.floating_base, options.samples, options.seed)], None


def _require_no_system(name: str) -> None:
    """Raise the error that says how to name a built-in system, if `name` is one."""
    if not no_system(name):
        system = f"connections verify --system {hyphened(name)}"
        raise SubjectError(f"there is no file {name}\nThe system is: {system}")


def _print_ignored(given: Sequence[str], options: argparse.Namespace, subject: AnySubject) -> None:
    """Name the given options that have no effect on a subject with samples and a seed of its own."""
    own = {"--samples": len(subject.q) != options.samples, "--seed": subject.seed != options.seed}
    for option in given:
        if own[option]:
            text = f"{shown(subject.name)} has samples and a seed of its own, {option} has no effect"
            print(f"connections: note: {text}", file=sys.stderr)


def robot(path: Path, floating_base: bool, samples: int, seed: int) -> Subject:
    """A robot read from its URDF as a subject of the propositions."""
    from connections import multibody as mb
    from connections.verify.robots import robot_subject

    model = mb.from_urdf(path, floating_base=floating_base)
    return robot_subject(model, path.stem, samples, seed)


def run_all(subjects: Sequence[AnySubject], tol: float) -> list[Row]:
    """All rows of all subjects, with progress on stderr."""
    from connections.verify import applicable, verify_subject

    coming = [(subject, [item.key for item in applicable(subject)]) for subject in subjects]
    rows: list[Row] = []
    with progress(sum(len(keys) for _, keys in coming), "checks", "verify") as steps:
        for subject, keys in coming:
            names = iter([f"{subject.name}: {key}" for key in keys])

            def advance(_: Row, names: Iterator[str] = names) -> None:
                steps.advance()
                steps.now(next(names, ""))

            steps.now(next(names, ""))
            rows += verify_subject(subject, tol, advance)
    return rows
