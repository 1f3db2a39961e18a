"""What all figures share: a figure that belongs to no window, and colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RED, GREEN, BLUE, GREY, BLACK = "#c8102e", "#1b8a3a", "#1f5fbf", "#8a8a8a", "#222222"


def new_figure(width: float, height: float) -> Figure:
    """A figure with the Agg canvas, in inches; pyplot and its global state stay out."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=130)
    FigureCanvasAgg(figure)
    return figure


def color(number: int) -> Any:
    """The colour of curve or group `number`."""
    import matplotlib

    fixed = (BLUE, RED, GREEN)
    if number < len(fixed):
        return fixed[number]
    others = (1, 4, 5, 6, 7, 8, 9)  # of the ten, those unlike the fixed three
    return matplotlib.colormaps["tab10"](others[(number - len(fixed)) % len(others)])
