"""connections generate: standalone C for one robot."""

from __future__ import annotations

import argparse
from typing import Any

from connections.cli import options as arguments
from connections.cli.printing import print_paths

DESCRIPTION = """\
Write C99 that computes recursions for one robot: a header, a file for each
function, a CMake project, an example, a test with expected numbers, and a
README with the layout of q and v. It allocates nothing and needs only libm.

  connections generate ROBOT.urdf --functions coriolis_matrix,gravity --out DIR
  cmake -S DIR -B DIR/build && cmake --build DIR/build
  ctest --test-dir DIR/build
"""
_ENDING = "the functions that NAME may be, with _force_cross or _least for another C:\n"
_FRAMES = "and for a frame of the robot, in its axes or in those of the world:\n"


def add(commands: Any) -> None:
    """Register the command."""
    generate = commands.add_parser(
        "generate",
        help="standalone C for one robot",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    generate.add_argument(
        "robot", type=arguments.robot, metavar="ROBOT.urdf", help="or the name of an example"
    )
    generate.add_argument(
        "--functions", required=True, metavar="NAME,...", help="names of recursions, separated by commas"
    )
    generate.add_argument(
        "--out", required=True, type=arguments.folder, metavar="DIR", help="where the files go"
    )
    generate.add_argument(
        "--name", metavar="NAME", help="with which names in C begin (default: that of the robot's file)"
    )
    generate.add_argument("--float", action="store_true", help="numbers are float, not double")
    generate.add_argument("--cuda", action="store_true", help="NAME.cuh, too: the functions on a GPU")
    generate.add_argument("--passive", action="store_true", help="dampers, springs and friction act, too")
    generate.add_argument("--floating-base", action="store_true", help="give the root link a free joint")
    generate.ending = _ending
    generate.set_defaults(run=run)


def _ending() -> str:
    from connections.multibody.generation.recording import STEPS, exported, of_frames

    frames = ", ".join(f"{name}:FRAME, {name}:FRAME:world" for name in of_frames() if name != "frame_pose")
    return "".join(
        [
            _ENDING + arguments.in_columns(", ".join([*exported(), *STEPS]), "  ") + "\n",
            _FRAMES + arguments.in_columns(f"frame_pose:FRAME, {frames}", "  "),
        ]
    )


def run(options: argparse.Namespace) -> int:
    """Write the folder, and print what is in it."""
    from connections import multibody as mb
    from connections.multibody.generation.identifiers import identifier

    model = mb.from_urdf(options.robot, floating_base=options.floating_base)
    name = options.name if options.name is not None else identifier(options.robot.stem)
    functions = [text.strip() for text in options.functions.split(",") if text.strip()]
    dtype = "float" if options.float else "double"
    made = mb.codegen.generate_c(
        model, functions, options.out, name=name, dtype=dtype, cuda=options.cuda, passive=options.passive
    )
    for function, about in made.functions.items():
        pieces = f", in {about['pieces']} pieces" if about["pieces"] > 1 else ""
        print(
            f"{function}: {about['operations']} operations, at most {about['stack']} bytes of stack{pieces}"
        )
    print_paths(sorted(path for path in made.folder.iterdir() if path.is_file()))
    return 0
