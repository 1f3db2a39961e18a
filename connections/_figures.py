"""The figure of an object that knows no room that draws: a function that `connections` registers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

_DRAWN_BY: list[Callable[..., Any]] = []


def register(function: Callable[..., Any]) -> None:
    """Have motions drawn by `function`: motion and options -> a matplotlib Figure."""
    _DRAWN_BY[:] = [function]


def figure_of(motion: Any, **options: Any) -> Any:
    """The figure of a motion or history, with the options of `plots.figure_motion` or `figure_history`.

    With ``kind="phase"`` or ``"path"``, of `plots.figure_phase` or `figure_path`.
    """
    return _DRAWN_BY[0](motion, **options)


def leave_out_the_current_folder() -> None:
    """Import matplotlib from another folder, because it reads settings of the current one.

    These may be a stranger's, a pipe without an end, or nothing that matplotlib can read. To be called by a
    process with one thread, before a room that draws is imported: that imports matplotlib.
    """
    for name in ("MATPLOTLIBRC", "MPLCONFIGDIR"):  # which the user has named
        if os.environ.get(name):
            os.environ[name] = os.path.abspath(os.environ[name])
    here = os.open(os.curdir, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
    try:
        os.chdir(os.sep)
        import matplotlib  # noqa: F401
    finally:
        os.fchdir(here)
        os.close(here)
