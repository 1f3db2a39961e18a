"""Parts that all figures share: a figure without a window, and colours."""

from __future__ import annotations

from pathlib import Path
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
    """Draw with matplotlib's own settings, if it has read those of the current folder."""
    import matplotlib

    if Path(matplotlib.matplotlib_fname()).absolute().parent == Path.cwd():
        matplotlib.rcdefaults()


def color(number: int) -> Any:
    """The colour of curve or group `number`."""
    import matplotlib

    fixed = (BLUE, RED, GREEN)
    if number < len(fixed):
        return fixed[number]
    others = (1, 4, 5, 6, 7, 8, 9)  # colours of the ten that differ from the three fixed ones
    return matplotlib.colormaps["tab10"](others[(number - len(fixed)) % len(others)])
