"""Motions of controlled systems over time, the components of one or the members of a batch in colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from connections.control import AdaptiveMotion, Motion, ObservedMotion
from connections.plots.canvas import GREY, color, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AnyMotion = Motion | AdaptiveMotion | ObservedMotion

_CONFIGURATION = ("q", "configuration q [rad, m]")
_LAW = (
    _CONFIGURATION,
    ("s", "sliding variable s = v - v_r [rad/s, m/s]"),
    ("tau", "control force tau [N m, N]"),
    ("lyapunov", "Lyapunov function V [J]"),
)
#: What is drawn of each kind of motion: (attribute, title of its panel).
PANELS: dict[type, tuple[tuple[str, str], ...]] = {
    Motion: _LAW,
    AdaptiveMotion: (*_LAW, ("parameters", "estimated parameters pi")),
    ObservedMotion: (
        _CONFIGURATION,
        ("v", "velocity v [rad/s, m/s]"),
        ("residual", "residual r, the estimated force [N m, N]"),
    ),
}
_DASHES: tuple[Any, ...] = (
    "-",
    "--",
    ":",
    "-.",
    (0, (7, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (1, 3)),
)  # of components in a batch
_FEW = 8  # members that a legend names; of more, a bar shows the colours


def figure_motion(motion: AnyMotion) -> Figure:
    """A panel for each quantity of a motion over time: q, s, tau and V of a closed loop.

    Parameters
    ----------
    motion : of a closed loop, adaptive or not, or of an observer. Of a batch, each member has its colour and
        each component its dashes; of one motion, each component has its colour.
    """
    if type(motion) not in PANELS:
        kinds = ", ".join(kind.__name__ for kind in PANELS)
        raise TypeError(f"motion: expected one of {kinds}, got {type(motion).__name__}")
    panels = PANELS[type(motion)]
    batch = np.shape(motion.q)[:-2]
    figure = new_figure(10.5, 3.2 * ((len(panels) + 1) // 2))
    figure.set_layout_engine("constrained")
    grid = figure.subplots((len(panels) + 1) // 2, 2, sharex=True, squeeze=False)
    for axes, (name, title) in zip(grid.flat, panels, strict=False):
        _draw(axes, name, np.asarray(motion.times), np.asarray(getattr(motion, name)), batch)
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.25)
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("t [s]")
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    if batch:
        _name_members(figure, batch)
    return figure


def _draw(axes: Axes, name: str, times: np.ndarray, values: np.ndarray, batch: tuple[int, ...]) -> None:
    """All curves of one quantity (..., T) or (..., T, k), and the legend of its components."""
    components = values.ndim > len(batch) + 1
    curves = values.reshape(-1, len(times), values.shape[-1] if components else 1)
    symbol = {"lyapunov": "V", "residual": "r", "parameters": "pi"}.get(name, name)
    for member, curve in enumerate(curves):
        for k, component in enumerate(curve.T):
            look = {"color": _member_color(member, len(curves)), "linestyle": _DASHES[k % len(_DASHES)]}
            axes.plot(times, component, linewidth=1.3, **(look if batch else {"color": color(k)}))
    if components:
        for k in range(curves.shape[-1]):
            look = {"color": GREY, "linestyle": _DASHES[k % len(_DASHES)]} if batch else {"color": color(k)}
            axes.plot([], [], label=f"{symbol}_{k + 1}", **look)
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _member_color(number: int, count: int) -> Any:
    import matplotlib

    return matplotlib.colormaps["viridis"](0.9 * number / max(count - 1, 1))


def _name_members(figure: Figure, batch: tuple[int, ...]) -> None:
    """Below the panels, the colours of the members."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    count = int(np.prod(batch))
    if count > _FEW:
        colors = LinearSegmentedColormap.from_list("members", [_member_color(k, 64) for k in range(64)])
        scale = ScalarMappable(Normalize(0, count - 1), colors)
        look: dict[str, Any] = {
            "location": "bottom",
            "aspect": 60,
            "shrink": 0.5,
            "ticks": MaxNLocator(integer=True),
        }
        figure.colorbar(scale, ax=figure.axes, label="member", **look)
        return
    names = [", ".join(map(str, index)) for index in np.ndindex(batch)]
    lines = [
        Line2D([], [], color=_member_color(k, count), label=f"member {name}") for k, name in enumerate(names)
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=count, fontsize=8, frameon=False)
