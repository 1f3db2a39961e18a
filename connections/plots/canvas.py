"""Parts that all figures share: a figure without a window, and colours."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from matplotlib.figure import Figure

from connections._shown import shown
from connections.checks import require_type

RED, GREEN, BLUE, GREY, BLACK = "#c8102e", "#1b8a3a", "#1f5fbf", "#8a8a8a", "#222222"


SCREEN = "screen"
MILLIMETRES = {"column": 88.0, "page": 180.0}  # widths of a column and of a page of most journals
_INCH = 25.4
_PAPER: Any = {  # sizes in points; text stays text in PDF, PostScript and SVG
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.0,
    "grid.linewidth": 0.4,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "savefig.dpi": 300.0,
}


def new_figure(width: float, height: float) -> Figure:
    """A figure with the Agg canvas, size in inches; it does not use pyplot and its global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=130)
    FigureCanvasAgg(figure)
    return figure


def width_of(style: str | float) -> float | None:
    """The width of a style in mm; None for a figure that is looked at on a screen.

    Parameters
    ----------
    style : "screen", "column", "page", or a width in mm.

    Raises
    ------
    ValueError : none of these.
    """
    if isinstance(style, str) and style == SCREEN:
        return None
    if isinstance(style, str) and style in MILLIMETRES:
        return MILLIMETRES[style]
    if isinstance(style, int | float) and not isinstance(style, bool) and 20.0 <= style <= 2000.0:
        return float(style)
    raise ValueError(
        'style: expected "screen", "column" (88 mm), "page" (180 mm) or a width of 20 to 2000 mm; '
        f"got {shown(repr(style))}"
    )


def require_axes(axes: Any) -> None:
    """Raise `TypeError` unless `axes` are matplotlib's."""
    from matplotlib.axes import Axes

    require_type("axes", axes, Axes)


def paper_figure(width: float, height: float) -> Figure:
    """A figure for a paper, size in mm: small fonts, which stay text in files of vectors.

    The settings hold for this figure alone, whenever it is drawn or saved; others, such as the family of the
    fonts, are those of the caller's matplotlib.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with rc_context(_PAPER):
        figure = _paper_class()(figsize=(width / _INCH, height / _INCH), dpi=200)
        FigureCanvasAgg(figure)
    return figure


@cache
def _paper_class() -> type[Figure]:
    """Made at the first use, because matplotlib is imported then."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    class PaperFigure(Figure):
        """Draws and saves itself with the settings of a paper, which matplotlib reads as late as that."""

        def draw(self, renderer: Any) -> None:
            with rc_context(_PAPER):
                super().draw(renderer)

        def savefig(self, fname: Any, **options: Any) -> None:
            with rc_context(_PAPER):
                super().savefig(fname, **options)

        def __reduce__(self) -> tuple[Any, ...]:  # a module has no local class
            return _new_figure, (), self.__getstate__()

    return PaperFigure


def _new_figure() -> Figure:
    kind = _paper_class()
    return kind.__new__(kind)


def settings_of(figure: Figure) -> AbstractContextManager[None]:
    """The settings with which parts of a figure are made."""
    from matplotlib import rc_context

    return rc_context(_PAPER) if isinstance(figure, _paper_class()) else nullcontext()


def color(number: int) -> Any:
    """The colour of curve or group `number`."""
    import matplotlib

    fixed = (BLUE, RED, GREEN)
    if number < len(fixed):
        return fixed[number]
    others = (1, 4, 5, 6, 7, 8, 9)  # colours of the ten that differ from the three fixed ones
    return matplotlib.colormaps["tab10"](others[(number - len(fixed)) % len(others)])
