"""Progress of a command on stderr: a bar on a terminal, elsewhere a line every few seconds.

The environment variable ``CONNECTIONS_QUIET=1`` silences both. Results are on stdout.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from connections._progress import bar, is_quiet, terminal
from connections._shown import MOST_OF_MESSAGE, shown
from connections.cli.options import COLUMNS, in_columns

EVERY = 5.0  # s between two lines


class Progress:
    """The progress of a command.

    Parameters
    ----------
    total : number of steps; a single step is not counted in the text.
    unit : name of the steps, such as "checks".
    """

    def __init__(self, total: int, unit: str) -> None:
        self.total, self.unit = total, unit
        self.done, self.text, self._start = 0, "", time.monotonic()

    def now(self, text: str) -> None:
        """Set the text that says what is computed now."""
        self.text = shown(text)

    def advance(self) -> None:
        """Count a finished step."""
        self.done += 1

    def note(self, text: str) -> None:
        """Print a line that stays."""
        print(in_columns(f"connections: note: {shown(text, MOST_OF_MESSAGE)}", later="  "), file=sys.stderr)

    def line(self, width: int) -> str:
        """The line of progress, such as "sphere: Prop V.1: 49 of 238 checks, 12 s"; a long text is cut."""
        count = f": {self.done} of {self.total} {self.unit}" if self.total > 1 else ""
        end = f"{count}, {time.monotonic() - self._start:.0f} s"
        return self.text[: width - len(end)] + end


@contextmanager
def progress(total: int, unit: str, text: str) -> Iterator[Progress]:
    """Show on stderr the progress of the work in the block.

    Parameters
    ----------
    total : number of steps.
    unit : name of the steps.
    text : the first step, in words.
    """
    steps = Progress(total, unit)
    steps.now(text)
    if is_quiet():
        yield steps
    elif (console := terminal()) is not None:
        with bar(console, steps.total, lambda: steps.done, steps.line):
            yield steps
    else:
        with _lines(steps):
            yield steps


@contextmanager
def _lines(steps: Progress) -> Iterator[None]:
    """A line every few seconds, printed by a thread, because a single step may take minutes."""
    ended, head = threading.Event(), "connections: "

    def write() -> None:
        with suppress(OSError, ValueError):  # the reader of stderr has ended, or stderr is closed
            while not ended.wait(EVERY):
                print(head + steps.line(COLUMNS - len(head)), file=sys.stderr, flush=True)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()
