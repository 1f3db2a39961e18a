"""Arguments of the command line: a parser whose errors are one line, and checked values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print the error and where help is, and exit with status 2."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def checked(
    convert: Callable[[str], Any], accept: Callable[[Any], bool], wanted: str
) -> Callable[[str], Any]:
    """An argument type that converts and refuses: expected WANTED, got the text."""

    def parse(text: str) -> Any:
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not accept(value):
            raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}")
        return value

    return parse


count = checked(int, lambda n: n >= 1, "a positive integer")
seed = checked(int, lambda n: n >= 0, "a non-negative integer")
tolerance = checked(float, lambda x: 0.0 < x < 1.0, "a number between 0 and 1")
number = checked(float, lambda x: abs(x) < float("inf"), "a finite number")


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Add what every report of propositions takes: samples, seed, tolerance, what to show."""
    parser.add_argument("--samples", type=count, default=2, metavar="N", help="points per system (default 2)")
    parser.add_argument("--seed", type=seed, default=0, help="of the random points and fields (default 0)")
    parser.add_argument("--tol", type=tolerance, default=1e-9, help="relative tolerance (default 1e-9)")
    parser.add_argument("--controls", action="store_true", help="show the negative controls")
    parser.add_argument(
        "--by-system", action="store_true", help="a table per system instead of the worst rows"
    )


def require_writable(path: Path) -> None:
    """Raise before the work rather than after it."""
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise OSError(f"cannot write {path}: it is a directory, or its directory does not exist")
