"""Parts that all figures share: a figure without a window, and colours."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RED, GREEN, BLUE, GREY, BLACK = "#c8102e", "#1b8a3a", "#1f5fbf", "#8a8a8a", "#222222"


def new_figure(width: float, height: float) -> Figure:
    """A figure with the Agg canvas, size in inches; it does not use pyplot and its global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=130)
    FigureCanvasAgg(figure)
    return figure


def leave_out_the_current_folder() -> None:
    """Import matplotlib from another folder, because it reads settings of the current one.

    These may be a stranger's, a pipe without an end, or nothing that matplotlib can read. To be called by a
    process with one thread, before anything is drawn.
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


def color(number: int) -> Any:
    """The colour of curve or group `number`."""
    import matplotlib

    fixed = (BLUE, RED, GREEN)
    if number < len(fixed):
        return fixed[number]
    others = (1, 4, 5, 6, 7, 8, 9)  # colours of the ten that differ from the three fixed ones
    return matplotlib.colormaps["tab10"](others[(number - len(fixed)) % len(others)])
