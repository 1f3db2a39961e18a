"""connections explore: what torsion does to a controlled point mass."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from connections.cli import arguments
from connections.cli.printing import print_paths


def add(commands: Any) -> None:
    """Register the command."""
    explore = commands.add_parser(
        "explore",
        help="sweep the contorsion family of the tracking example",
        description="Track a point moving on a line with the passivity-based law, C = beta (v x): figures, "
        "and a table of tracking error, control effort and frequency content.",
    )
    explore.add_argument(
        "--beta", type=arguments.number, nargs="+", default=[0.0, -5.0, -10.0], help="values of beta [kg]"
    )
    explore.add_argument(
        "--output",
        dest="directory",
        type=Path,
        default=Path("connections-figures"),
        metavar="DIR",
        help="where the figures go (default ./connections-figures)",
    )
    explore.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the figures and print the table."""
    from connections.plots import write_exploration

    paths, table = write_exploration(options.directory, options.beta)
    print(table)
    print_paths(paths)
    return 0
