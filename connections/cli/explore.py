"""connections explore: figures of torsion's effects on a controlled point mass, or the page in a browser."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from pathlib import Path
from typing import Any

from connections.cli import options as arguments
from connections.cli.printing import print_paths, print_tracking
from connections.cli.progress import progress

_PORT = arguments.checked(int, lambda n: 0 <= n <= 65535, "a port, from 0 to 65535")
_DESCRIPTION = """\
Track a point moving on a line with the passivity-based law, C = beta (v x):
figures, and a table of tracking error, control effort and frequency content.

With --web, a page to look at in a browser: beta on a slider, frames carried
along geodesics, a parallelogram that torsion keeps open, the controlled point
mass; with a robot its free motion, its cluster tree, and what two connections
carry along it; with my_system.py:NAME, as verify reads it, a metric of two or
three coordinates: geodesics, balls, carried frames, torsion. The page is
served to this machine alone unless --host says otherwise; Ctrl-C ends it.
"""


def add(commands: Any) -> None:
    """Register the command."""
    explore = commands.add_parser(
        "explore",
        help="sweep the contorsion family of the tracking example; --web: look at torsion in a browser",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    explore.add_argument(
        "robot",
        nargs="?",
        type=arguments.file_name,
        metavar="ROBOT.urdf",
        help="with --web, to be shown; or my_system.py:NAME",
    )
    explore.add_argument(
        "--beta",
        type=arguments.number,
        nargs="+",
        metavar="BETA",
        help="values of beta [kg/m] (default 0 -5 -10); with --web one, where the slider begins (default 1)",
    )
    explore.add_argument(
        "--output",
        dest="directory",
        type=arguments.folder,
        metavar="DIR",
        help="where the figures go (default ./connections-figures)",
    )
    web = explore.add_argument_group("in a browser")
    web.add_argument("--web", action="store_true", help="serve a page")
    web.add_argument("--open", action="store_true", help="open the page in this machine's browser")
    web.add_argument("--floating-base", action="store_true", help="give the robot's root link a free joint")
    web.add_argument("--port", type=_PORT, metavar="N", help="port (default 8080; 0: any that is free)")
    web.add_argument(
        "--host", metavar="ADDRESS", help="address to serve on (default 127.0.0.1: this machine only)"
    )
    explore.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the figures and print the table, or serve the page until interrupted; the exit status."""
    if options.web:
        return _serve(options)
    for name in ("robot", "open", "port", "host", "floating_base"):
        if getattr(options, name) not in (None, False):
            what = "a robot" if name == "robot" else f"--{name.replace('_', '-')}"
            raise ValueError(f"{what} needs --web: connections explore --web [ROBOT.urdf]")
    from connections._figures import leave_out_the_current_folder

    leave_out_the_current_folder()
    from connections.control.tracking_example import PAPER_BETAS
    from connections.plots import write_exploration

    directory = options.directory if options.directory is not None else Path("connections-figures")
    betas = options.beta if options.beta is not None else PAPER_BETAS
    with progress(1, "steps", "tracking, and the figures"):
        paths, results = write_exploration(directory, betas)
    print_tracking(results)
    print_paths(paths)
    return 0


def _serve(options: argparse.Namespace) -> int:
    from connections._figures import leave_out_the_current_folder

    leave_out_the_current_folder()  # before matplotlib, which draws the page's pictures, is imported
    from connections import explorer

    if options.directory is not None:
        raise ValueError("--output writes figures, --web serves a page: leave one out")
    if options.beta is not None and len(options.beta) != 1:
        raise ValueError(f"--beta: with --web one value, where the slider begins; got {len(options.beta)}")
    shown = _shown(options)
    host = options.host if options.host is not None else explorer.LOOPBACK
    port = options.port if options.port is not None else explorer.PORT
    beta = options.beta[0] if options.beta is not None else 1.0
    from connections.explorer.invitation import invitation

    with (
        explorer.serve(beta=beta, host=host, port=port, **shown) as server,
        invitation(server.url) as page,
    ):
        try:
            print(f"The explorer is at {server.url}")
            if not server.local:
                text = (
                    f"connections: note: served on {host}: whoever reaches this machine's port {server.port} "
                    "and has the address with its token can look at it and use it; nothing is encrypted"
                )
                print(arguments.in_columns(text, later="  "), file=sys.stderr)
            print("Ctrl-C ends it.", flush=True)
            if options.open and not webbrowser.open(page):
                print("connections: note: no browser was found; open the address above", file=sys.stderr)
            server.wait()
        except KeyboardInterrupt:
            print("\nThe explorer has ended.")
    return 0


def _shown(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `explorer.serve`: the robot or system that is shown beside the views of R^3."""
    python = None if options.robot is None else arguments.python_reference(options.robot)
    if options.floating_base and (options.robot is None or python is not None):
        raise ValueError(
            "--floating-base needs a robot: connections explore --web ROBOT.urdf --floating-base"
        )
    if options.robot is None:
        return {}
    if python is not None:
        from connections.verify import Subject, subject_from_file

        path, attribute = python
        subject = subject_from_file(path, attribute)
        bodies = subject.bodies if isinstance(subject, Subject) else None
        if bodies is not None and bodies.robot is not None:
            return {"model": bodies.robot, "name": attribute}
        return {"system": subject, "name": attribute}
    from connections import multibody as mb

    path = arguments.robot(options.robot)
    model = mb.from_urdf(path, floating_base=options.floating_base)
    return {"model": model, "name": path.stem, "urdf": path}
