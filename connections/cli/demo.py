"""connections demo: the propositions on built-in systems and on a real robot, and the figures."""

from __future__ import annotations

import argparse
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connections._distribution import how_to_install
from connections.checks import require_writable
from connections.cli import arguments
from connections.cli.printing import print_paths, print_report, status
from connections.cli.verify import robot, run_all

if TYPE_CHECKING:
    from connections.verify import AnySubject

DEMO_ROBOT = "ur_description/urdf/ur5_robot.urdf"


def add(commands: Any) -> None:
    """Register the command."""
    demo = commands.add_parser(
        "demo",
        help="all of it: built-in systems, a real robot, the figures",
        description="Verify the propositions on the built-in systems and on a robot (UR5 unless --robot), "
        "then draw the figures.",
    )
    demo.add_argument("--robot", type=Path, metavar="ROBOT.urdf", help="another robot, on a fixed base")
    demo.add_argument(
        "directory", nargs="?", type=arguments.folder, default=Path("connections-figures"), metavar="DIR"
    )
    arguments.add_report_options(demo)
    demo.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Verify on the built-in systems and a robot, then draw the figures."""
    from connections.plots import write_exploration, write_figures
    from connections.verify import built_in_subjects

    arguments.fill_report_options(options)
    require_writable(options.directory)
    path = options.robot if options.robot is not None else _example_robot()
    subjects: list[AnySubject] = [*built_in_subjects(options.samples, options.seed)]
    subjects.append(robot(path, False, options.samples, options.seed))
    rows = run_all(subjects, options.tol)
    print_report(rows, subjects, options)
    paths, table = write_exploration(options.directory)
    print("\nWhat torsion does to a controlled point mass, C = beta (v x):\n" + table)
    print_paths([*write_figures(options.directory), *paths])
    return status(row.verdict for row in rows)


def _example_robot() -> Path:
    try:
        package = metadata.distribution("example-robot-data")
    except metadata.PackageNotFoundError:
        raise ValueError(
            f"the demo reads UR5 from the package example-robot-data: {how_to_install('robots')}, "
            "or name a robot: connections demo --robot ROBOT.urdf"
        ) from None
    for file in package.files or []:
        if str(file).endswith(DEMO_ROBOT):
            return Path(str(package.locate_file(file))).resolve()
    raise FileNotFoundError(f"example-robot-data {package.version} has no {DEMO_ROBOT}")
