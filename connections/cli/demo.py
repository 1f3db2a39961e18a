"""connections demo: the propositions on built-in systems and on a real robot, and the figures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connections._distribution import how_to_install
from connections._written import require_no_link
from connections.checks import require_writable
from connections.cli import options as arguments
from connections.cli.printing import (
    print_groups,
    print_paragraph,
    print_paths,
    print_verdicts,
    status,
    write_rows,
)
from connections.cli.progress import progress
from connections.cli.verify import robot, run_all

if TYPE_CHECKING:
    from connections.control.tracking_example import TrackingResult
    from connections.verify import AnySubject

DEMO_ROBOT = "ur_description/urdf/ur5_robot.urdf"
ROWS = "propositions.txt"

#: Commands to try next, and what they do.
NEXT = (
    ("connections verify ROBOT.urdf", "the same checks on it"),
    ("connections audit ROBOT.urdf", "which C other libraries compute for it"),
    ("connections explore --web ROBOT.urdf", "its motions with torsion, in a browser"),
    ("connections verify my_system.py:NAME", "a metric or a system of your own"),
    ("connections --help", "everything else"),
)


def add(commands: Any) -> None:
    """Register the command."""
    demo = commands.add_parser(
        "demo",
        help="all of it: built-in systems, a real robot, the figures",
        description="Verify the propositions on the built-in systems and on a robot (UR5 unless --robot), "
        "say what torsion does to a controlled mass, and draw the figures.",
    )
    demo.add_argument(
        "directory",
        nargs="?",
        type=arguments.folder,
        default=Path("connections-figures"),
        metavar="DIR",
        help="where figures and tables go (default ./connections-figures)",
    )
    demo.add_argument(
        "--robot", type=arguments.robot, metavar="ROBOT.urdf", help="another robot, on a fixed base"
    )
    arguments.add_samples(demo)
    demo.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Verify on the built-in systems and a robot, then draw the figures."""
    arguments.fill_report_options(options)
    require_no_link(options.directory)
    require_writable(options.directory)
    path = options.robot if options.robot is not None else _example_robot()
    _announce(path.stem, options.robot is None)
    from connections._figures import leave_out_the_current_folder

    leave_out_the_current_folder()
    from connections.plots import write_all
    from connections.verify import built_in_subjects

    subjects: list[AnySubject] = [*built_in_subjects(options.samples, options.seed)]
    subjects.append(robot(path, False, options.samples, options.seed))
    rows = run_all(subjects, options.tol)
    print_groups(rows)
    print_verdicts(rows, subjects, options.tol)
    with progress(1, "steps", "a controlled mass, and the figures"):
        paths, results = write_all(options.directory)
    print()
    for number, text in enumerate(conclusion(results)):
        print_paragraph(text, "  " if number else "", "    " if number else "")
    print()
    print_paths([write_rows(options.directory / ROWS, rows), *paths])
    print("\nNext, on your own robot:")
    for command, purpose in NEXT:
        print(f"  {command:<38}{purpose}")
    return status(row.verdict for row in rows)


def conclusion(results: Sequence[TrackingResult]) -> list[str]:
    """The effect of torsion on the controlled mass: a heading, and five sentences.

    Parameters
    ----------
    results : of the tracking example; those of the least and of the largest |beta| are compared.
    """
    import numpy as np

    ordered = sorted(results, key=lambda result: abs(result.beta))
    free, twisted = ordered[0], ordered[-1]
    energies = np.stack([result.motion.lyapunov for result in ordered])
    apart = np.max(np.abs(energies - energies[0])) / energies[0, 0]
    return [
        f"A controlled mass with {len(results)} Coriolis matrices C = beta (v x), each with Hdot - 2C skew "
        f"and the right motions. At beta = {free.beta:g} it has no torsion. "
        f"With beta = {twisted.beta:g} kg/m:",
        f"Tracking error {free.rms_error:.3f} m rms without torsion, {twisted.rms_error:.3f} m with it: "
        f"{_compared(free.rms_error, twisted.rms_error)}.",
        f"Effort {free.effort:.1f} N^2 s without torsion, {twisted.effort:.1f} N^2 s with it: "
        f"{_compared(free.effort, twisted.effort)}.",
        f"Largest force {free.peak_force:.1f} N without torsion, {twisted.peak_force:.1f} N with it: "
        f"{_compared(free.peak_force, twisted.peak_force)}.",
        f"Oscillation {free.rms_frequency:.2f} Hz without torsion, {twisted.rms_frequency:.2f} Hz with it: "
        f"{_compared(free.rms_frequency, twisted.rms_frequency)}.",
        f"From one beta to the next the error {_trend([r.rms_error for r in ordered])}, the effort "
        f"{_trend([r.effort for r in ordered])}; "
        f"the Lyapunov functions differ by {100 * apart:.1f} % of V(0).",
    ]


def _compared(before: float, after: float) -> str:
    """A comparison in words, such as "5 % less" or "19.7 times as much"."""
    if before <= 0.0:
        return "nothing before" if after > 0.0 else "the same"
    ratio = after / before
    if ratio >= 2.0:
        return f"{ratio:.1f} times as much"
    percent = round(100.0 * (ratio - 1.0))
    if percent == 0:
        return "the same within 1 %"
    return f"{abs(percent)} % {'more' if percent > 0 else 'less'}"


def _trend(values: Sequence[float]) -> str:
    """Whether the values, in order of |beta|, always rise, always fall, or neither."""
    steps = [after - before for before, after in zip(values, values[1:], strict=False)]
    if all(step > 0.0 for step in steps):
        return "always rises"
    if all(step < 0.0 for step in steps):
        return "always falls"
    return "rises and falls"


def _announce(robot_name: str, usual: bool) -> None:
    """Print what the demo does and how long it takes, before the slow imports."""
    more = "" if usual else ", and minutes with a robot of many joints"
    print_paragraph(
        f"The propositions of the theory on built-in systems and on the robot {robot_name}, a mass that is "
        f"controlled with and without torsion, and figures. This takes 30 to 40 s on two cores{more}.",
        later="",
    )
    print(flush=True)


def _example_robot() -> Path:
    try:
        package = metadata.distribution("example-robot-data")
    except metadata.PackageNotFoundError:
        raise ValueError(
            f"the demo reads UR5 from the package example-robot-data: {how_to_install('robots')}, "
            "or name a robot: connections demo --robot ROBOT.urdf, or --robot arm"
        ) from None
    for file in package.files or []:
        if str(file).endswith(DEMO_ROBOT):
            return Path(str(package.locate_file(file))).resolve()
    raise FileNotFoundError(f"example-robot-data {package.version} has no {DEMO_ROBOT}")
