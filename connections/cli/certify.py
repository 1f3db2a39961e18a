"""connections certify: constants of a robot that hold at every posture."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from connections.cli import options as arguments
from connections.cli.printing import cell, console, new_table, print_paragraph, write_output

if TYPE_CHECKING:
    from connections.certified import Constants

_DESCRIPTION = """\
What controllers assume of a robot, at every posture within its limits: ends of
the eigenvalues of H, |g|, |dg/dq|, |dH/dq|, k_C, the reach of a frame. The
lower end of a supremum is attained at a posture, the upper end is proved.

  connections certify ROBOT.urdf
  connections certify ROBOT.urdf --rtol 0.01 --seconds 300 --json constants.json

Joints without limits make whole turns. Ctrl-C prints what is known.
"""


def add(commands: Any) -> None:
    """Register the command."""
    certify = commands.add_parser(
        "certify",
        help="constants of a robot that hold at every posture",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    certify.add_argument(
        "robot", type=arguments.robot, metavar="ROBOT.urdf", help="or the name of an example"
    )
    certify.add_argument("--floating-base", action="store_true", help="give the root link a free joint")
    certify.add_argument(
        "--rtol", type=arguments.tolerance, default=0.02, help="gap of the ends (default 0.02)"
    )
    certify.add_argument(
        "--seconds", type=_SECONDS, default=60.0, metavar="S", help="for all constants (default 60)"
    )
    certify.add_argument("--frame", metavar="NAME", help="whose reach is bounded (default: the last)")
    certify.add_argument("--speed", type=_SIZE, metavar="V", help="|v|, for which torques are bounded")
    certify.add_argument(
        "--acceleration", type=_SIZE, metavar="A", help="|vdot|, for which torques are bounded"
    )
    certify.add_argument(
        "--json", type=arguments.result, metavar="FILE", help="write everything to FILE; - is standard output"
    )
    certify.set_defaults(run=run)


_SECONDS = arguments.checked(float, lambda x: 0.0 < x < float("inf"), "a positive number")
_SIZE = arguments.checked(float, lambda x: 0.0 <= x < float("inf"), "a number that is not negative")


def run(options: argparse.Namespace) -> int:
    """Certify, print, and write; after Ctrl-C, what is known."""
    from connections import multibody as mb
    from connections.certified import constants

    output = arguments.output(options.json)
    robot = mb.from_urdf(options.robot, floating_base=options.floating_base)
    if options.frame is not None and options.frame not in robot.frame_names:
        raise ValueError(f"--frame: there is no frame {options.frame!r}")
    moving = {"speed": options.speed, "acceleration": options.acceleration}
    try:
        found = constants(robot, frame=options.frame, rtol=options.rtol, seconds=options.seconds, **moving)
    except KeyboardInterrupt as error:
        if (known := vars(error).get("constants")) is not None:
            _print(known)
        raise
    _print(found)
    if output is not None:
        write_output(output, json.dumps(found.to_dict(), indent=1, allow_nan=False) + "\n")
    return 0


def _print(found: Constants) -> None:
    """The table, in 80 columns, and why some constants are missing."""
    table = new_table()
    for name in ("constant", "lower", "upper", "unit", "gap", "boxes", "stopped by"):
        right = name in ("lower", "upper", "gap", "boxes")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for name, interval in found.intervals.items():
        ends = f"{interval.lower:.5g}", f"{interval.upper:.5g}"
        rest = f"{100.0 * interval.gap:.1f} %", str(interval.boxes), interval.reached
        table.add_row(cell(name), *ends, interval.unit, *rest)
    console().print(table)
    for name, reason in found.reasons.items():
        print_paragraph(f"{name}: {reason}")
    if found.unaffected:
        print_paragraph(f"H does not depend on {', '.join(found.unaffected)}.")
    print_paragraph(
        f"{found.seconds:.0f} s. Each constant lies between its ends at every posture within limits."
    )
