"""Progress on a terminal: a bar on stderr that vanishes at the end.

`bar` shows one, `Ticks` shows one for work that takes more than two seconds. Where one is shown, no second
one is. The environment variable ``CONNECTIONS_QUIET=1`` silences all that is shown on stderr.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

AFTER = 2.0  # s, of work without a bar
_BAR = 20  # columns
_ONE_AT_A_TIME = threading.Lock()  # two bars would overwrite each other


def is_quiet() -> bool:
    """Whether the user wants to see nothing on stderr."""
    return os.environ.get("CONNECTIONS_QUIET", "0") not in ("", "0")


def terminal() -> Console | None:
    """The console of stderr, if it can show a bar."""
    from rich.console import Console  # takes some time to import

    console = Console(stderr=True)
    return console if console.is_terminal and not console.is_dumb_terminal else None


@contextmanager
def bar(
    console: Console, total: int, done: Callable[[], float], line: Callable[[int], str]
) -> Iterator[None]:
    """Show a bar while the block runs, unless there is one.

    Parameters
    ----------
    console : where.
    total : number of steps; of a single step without parts, the bar only says that work goes on.
    done : how many of them are done.
    line : width -> the text beside the bar, at most so long.
    """
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def view() -> Table:
        grid, now = Table.grid(padding=(0, 1)), done()
        shown = ProgressBar(total, now, width=_BAR, pulse=total == 1 and now == 0.0)
        grid.add_row(shown, Text(line(console.width - _BAR - 1), no_wrap=True))
        return grid

    if not _ONE_AT_A_TIME.acquire(blocking=False):
        yield
        return
    try:
        # rich must not redirect stdout: results go there, also if only stderr is a terminal.
        with Live(
            get_renderable=view, console=console, transient=True, refresh_per_second=4, redirect_stdout=False
        ):
            yield
    finally:
        _ONE_AT_A_TIME.release()


class Ticks:
    """A bar for work in a ``with`` block, once it has taken `AFTER` seconds: call it with what is done.

    The seconds count from the first call, so that what is compiled before the first step shows none. Only
    the main thread of a program that the user has started shows a bar, on a terminal.

    Parameters
    ----------
    name : what is computed.
    """

    def __init__(self, name: str) -> None:
        self._name, self._done, self._start, self._due = name, 0.0, 0.0, -math.inf
        self._bar = ExitStack()

    def __enter__(self) -> Ticks:
        return self

    def __exit__(self, *error: object) -> None:
        self._due = math.inf
        self._bar.close()

    def __call__(self, fraction: float) -> None:
        """Say which share of the work is done, from 0 to 1."""
        self._done, now = fraction, time.monotonic()
        if now < self._due:
            return
        if self._due == -math.inf:
            self._start, self._due = now, now + AFTER
            return
        self._due = math.inf
        if _is_seen():
            console = terminal()
            if console is not None:
                self._bar.enter_context(bar(console, 1, lambda: self._done, self._line))

    def _line(self, width: int) -> str:
        """The line of progress, such as "geodesic: 42 %, 12 s"; a long name is cut."""
        end = f": {100.0 * self._done:.0f} %, {time.monotonic() - self._start:.0f} s"
        return self._name[: max(width - len(end), 0)] + end


def _is_seen() -> bool:
    """Whether a person looks at this process's stderr."""
    if is_quiet() or threading.current_thread() is not threading.main_thread():
        return False
    if multiprocessing.parent_process() is not None:  # several of them write to the same terminal
        return False
    with suppress(AttributeError, ValueError):  # there is no stderr, or it is closed
        return sys.stderr.isatty()
    return False
