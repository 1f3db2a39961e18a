"""The command line: verify the propositions, explore the contorsion family, draw the figures.

``connections demo`` does all of it on built-in systems and on a real robot. Exit status: 0 if everything
holds, 1 if a check fails, 2 for a wrong argument or a file that cannot be read or written (one line says why,
or a few lines of at most 80 columns), 130 for Ctrl-C, 141 if the program that reads the output has ended.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from importlib import metadata
from typing import Any

from connections import _interrupt, checks
from connections._children import kept_from_the_current_folder
from connections._distribution import version
from connections._jax import unoptimized
from connections._shown import shown_lines
from connections.cli import (
    audit,
    audit_filter,
    certify,
    demo,
    explore,
    figures,
    generate,
    sweep,
    verify,
    warm_up,
)
from connections.cli.options import STDOUT, Parser, in_columns

_PIPE_CLOSED = 141  # as if by the signal SIGPIPE
COMMANDS = (
    verify,
    audit,
    audit_filter,
    certify,
    explore,
    figures,
    sweep,
    generate,
    warm_up,
    demo,
)  # in the order of the help

_DESCRIPTION = """\
Geometric mechanics of robots: every Coriolis matrix is an affine connection.

  connections demo
      the propositions on built-in systems and on UR5, and the figures
  connections verify
      every proposition of the theory on six built-in systems
  connections verify ROBOT.urdf --floating-base
      ... and on your robot
  connections verify my_system.py:top
      ... and on a system that you define in Python
  connections verify --system snakeboard
      the propositions on constraints, on a nonholonomic system
  connections audit ROBOT.urdf
      which Coriolis matrix other libraries compute
  connections audit-filter my_filter.py:attitude
      whether a filter's covariances are those of its states
  connections certify ROBOT.urdf
      constants that controllers assume, at every posture
  connections explore --beta 0 -5 -10
      what torsion does to a controlled point mass
  connections explore --web ROBOT.urdf
      torsion, and your robot's free motion, to look at in a browser
  connections sweep KIND
      a job over many configurations, interrupted and resumed at will
  connections generate ROBOT.urdf --functions coriolis_matrix --out DIR
      standalone C for your robot
  connections figures DIR
      figures 3 to 7 of the theory's paper
  connections warm-up
      everything compiled now, so that no first call has to
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : the words after ``connections``; those of the process if None.

    Returns
    -------
    The exit status: 0 all holds, 1 a check fails, 2 bad input, 3 no check fails, but one is inconclusive; 130
    for Ctrl-C, 141 if the program that read the output has ended.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell
            setattr(sys, name, open(os.devnull, "w"))
    try:
        try:
            _interrupt.handled_by_python()
            return _run(arguments)
        finally:
            sys.stdout.flush()  # here, because Python would print an error about it at the end of the process
    except KeyboardInterrupt:
        print("connections: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # such as `connections ... | head -1`
        _discard_output()
        return _PIPE_CLOSED
    except OSError as error:
        _discard_output()
        print(_text(error), file=sys.stderr)
        return 2
    except SystemExit as end:  # rich exits with 1 at a closed pipe
        if isinstance(end.__context__, BrokenPipeError):
            return _PIPE_CLOSED
        raise


def _run(arguments: Sequence[str] | None) -> int:
    """Run a command; its exit status, without errors of standard output, which `main` handles."""
    options = _parser().parse_args(arguments)
    from connections.engines.internals import numba_import  # noqa: F401  (before a user's file imports Numba)

    _compile_quickly()
    try:
        with warnings.catch_warnings(), kept_from_the_current_folder(), _printed(options):
            warnings.showwarning = _print_warning
            status: int = options.run(options)
            return status
    except (ValueError, OSError, metadata.PackageNotFoundError, checks.IntegrationError) as error:
        if isinstance(error, BrokenPipeError) and _reader_has_ended():
            raise
        print(_text(error), file=sys.stderr)
        return 2


def _printed(options: argparse.Namespace) -> AbstractContextManager[Any]:
    """Standard error for all that a command prints, if it writes its result to standard output."""
    written = [vars(options).get(name) for name in ("json", "markdown")]
    return redirect_stdout(sys.stderr) if STDOUT in written else nullcontext()


def _reader_has_ended() -> bool:
    """Whether standard output is a pipe whose reader has ended."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))  # only errors and the end of the reader are reported


def _discard_output() -> None:
    """Redirect standard output to nowhere, so that Python does not report unwritten output at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _text(error: Exception) -> str:
    """One line; for a `SubjectError`, which contains lists, its lines in 80 columns, indented."""
    text = shown_lines(error)
    if not isinstance(error, checks.SubjectError):
        return f"connections: error: {' '.join(text.split())}"
    first, *others = text.split("\n")
    lines = [in_columns(f"connections: error: {first}", later="  ")]
    return "\n".join([*lines, *(in_columns(line.strip(), "  ", "    ") for line in others)])


def _compile_quickly() -> None:
    """Compile without optimization, because commands run each function only a few times.

    This changes results by round-off only. It has no effect if the caller set XLA_FLAGS or already used JAX.
    """
    os.environ.setdefault("XLA_FLAGS", unoptimized())


def _print_warning(message: Any, *_: Any, **__: Any) -> None:
    print(f"connections: note: {' '.join(shown_lines(message).split())}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="connections", description=_DESCRIPTION, formatter_class=plain)
    parser.add_argument("--version", action="version", version=f"connections {version()}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return parser
