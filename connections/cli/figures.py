"""connections figures: figures 3 to 7 of the theory's paper."""

from __future__ import annotations

import argparse
from typing import Any

from connections.cli import options as arguments
from connections.cli.printing import print_paths
from connections.cli.progress import progress


def add(commands: Any) -> None:
    """Register the command."""
    figures = commands.add_parser(
        "figures",
        help="draw figures 3 to 7 of the paper",
        description="Draw figures 3 to 7 of the paper as PNG.",
    )
    figures.add_argument("directory", type=arguments.folder, metavar="DIR", help="where they go")
    figures.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Draw the figures."""
    from connections._figures import leave_out_the_current_folder

    leave_out_the_current_folder()
    from connections.plots import write_figures

    with progress(1, "steps", "figures 3 to 7"):
        paths = write_figures(options.directory)
    print_paths(paths)
    return 0
