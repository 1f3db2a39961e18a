"""Arguments of the command line: a parser whose errors are one line, and checked values."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from connections._shown import MOST_OF_MESSAGE, shown
from connections._system_names import SYSTEM_NAMES, no_system
from connections._written import OutputPath
from connections.checks import SubjectError, require_writable

SAMPLES, SEED = 2, 0  # defaults of reports
STDOUT = Path("/dev/fd/1")  # where a result goes that is written to -
COLUMNS = 80  # of printed text, unless the terminal has more


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line.

    Attributes
    ----------
    ending : returns the end of the help; called only for the help, because it may import much.
    """

    ending: Callable[[], str] | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._negative_number_matcher: Any = _NegativeNumber

    def format_help(self) -> str:
        """The help, with its end."""
        if self.ending is not None:
            self.epilog = self.ending()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Print the error and how to get help, and exit with status 2."""
        self.exit(2, f"{self.prog}: error: {shown(message, MOST_OF_MESSAGE)} (see {self.prog} --help)\n")


class _NegativeNumber:
    """Which words with a hyphen are numbers and no options: argparse's own pattern has no exponents."""

    @staticmethod
    def match(text: str) -> bool:
        """Whether `float` takes it."""
        try:
            float(text)
        except ValueError:
            return False
        return True


def checked(
    convert: Callable[[str], Any], accept: Callable[[Any], bool], wanted: str
) -> Callable[[str], Any]:
    """An argument type that converts, or refuses with "expected WANTED, got TEXT"."""

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
folder = checked(lambda text: Path(text) if text else None, lambda path: True, "the name of a folder")
file = checked(lambda text: Path(text) if text else None, lambda path: True, "the name of a file")
result = checked(  # a file, or - for standard output
    lambda text: STDOUT if text == "-" else Path(text) if text else None,
    lambda path: True,
    "the name of a file",
)
file_name = checked(str, lambda text: text != "", "the name of a file")  # as text, which may go on with :NAME
number = checked(float, lambda x: abs(x) < float("inf"), "a finite number")


def robot(text: str) -> Path:
    """A robot's URDF file: the path that is given, or the name of one of `multibody.examples`."""
    path: Path = file(text)
    if path.exists():
        return path
    from connections import multibody as mb

    return mb.example_path(text) if text in mb.examples() else path


def python_reference(text: str) -> tuple[Path, str] | None:
    """File and attribute of ``my_system.py:top``; None if something else is meant."""
    if text.endswith(".py"):
        return Path(text), ""
    path, colon, attribute = text.rpartition(":")
    if not colon or Path(text).exists() or (attribute and not attribute.isidentifier()):
        return None
    return Path(path), attribute


def add_samples(parser: argparse.ArgumentParser) -> None:
    """Add the options of every measurement of propositions: samples, seed, tolerance."""
    parser.add_argument("--samples", type=count, metavar="N", help=f"points per system (default {SAMPLES})")
    parser.add_argument("--seed", type=seed, help=f"of the random points and fields (default {SEED})")
    parser.add_argument("--tol", type=tolerance, default=1e-9, help="relative tolerance (default 1e-9)")


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a report of propositions: those of `add_samples`, and what to show."""
    add_samples(parser)
    parser.add_argument("--controls", action="store_true", help="show the negative controls")
    parser.add_argument(
        "--by-system", action="store_true", help="a table per system instead of the worst rows"
    )


def fill_report_options(options: argparse.Namespace) -> list[str]:
    """Set samples and seed to their defaults if they were not given; returns the options that were given."""
    given = [name for name in ("samples", "seed") if getattr(options, name) is not None]
    defaults = {"samples": SAMPLES, "seed": SEED}
    vars(options).update({name: value for name, value in defaults.items() if name not in given})
    return [f"--{name}" for name in given]


def require_systems(names: Sequence[str]) -> None:
    """Raise `SubjectError` if there is no system of one of these names, before anything is imported."""
    for name in names:
        if fault := no_system(name):
            raise SubjectError(fault)


def list_of_systems() -> str:
    """The names that ``--system`` takes, for the end of the help, in 80 columns."""
    names = in_columns(", ".join(SYSTEM_NAMES), "  ")
    return f"the systems that NAME may be:\n{names}"


def in_columns(text: str, indent: str = "", later: str | None = None, width: int = COLUMNS) -> str:
    """A paragraph in lines of at most `width` columns, broken at spaces only.

    Parameters
    ----------
    text : the paragraph. indent : of the first line. later : of the other lines, the same if None.
    """
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def output(path: Path | None) -> OutputPath | None:
    """The place of a result; an error if it cannot be written, before the work rather than after it."""
    if path is None:
        return None
    found = OutputPath(path)
    if found.is_file:
        if not path.resolve().parent.is_dir():
            raise OSError(f"cannot write {path}: its directory does not exist")
        require_writable(path.resolve().parent)
    return found
