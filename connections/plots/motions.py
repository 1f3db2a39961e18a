"""Motions over time, the components of one or the members of a batch in colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from connections.affine import Motion
from connections.plots.canvas import BLACK, GREY, color, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SYMBOLS = {"lyapunov": "V", "residual": "r", "parameters": "pi", "error": "e"}
_DASHES: tuple[Any, ...] = (
    "-",
    "--",
    ":",
    "-.",
    (0, (7, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (1, 3)),
)  # of components in a batch
_FEW = 8  # members that a legend names; for more, a bar shows the colours
_LETTERS = 120  # in a line of a legend below the panels
_TICK = 48  # letters below a bar, in three places


def figure_motion(motion: Motion) -> Figure:
    """A panel for each quantity of a motion over time: q and v; for a closed loop q, its error, s, tau and V.

    Parameters
    ----------
    motion : of `geodesic`, a `simulate`, a closed loop or an observer. In a batch, each member has its colour
        and each component its dashes; for one motion, each component has its colour. A sweep's legend has the
        betas. Desired configurations are drawn thin and dotted, in a batch thin and black.
    """
    if not isinstance(motion, Motion):
        raise TypeError(f"motion: expected a Motion, got {type(motion).__name__}")
    panels = [panel for panel in motion.PANELS if getattr(motion, panel[0]) is not None]
    figure = new_figure(10.5, 3.2 * ((len(panels) + 1) // 2))
    figure.set_layout_engine("constrained")
    grid = figure.subplots((len(panels) + 1) // 2, 2, sharex=True, squeeze=False)
    for axes, (name, title) in zip(grid.flat, panels, strict=False):
        _draw(axes, name, motion)
        if name == "q" and getattr(motion, "q_d", None) is not None:
            _draw_desired(axes, motion)
            title += ", q_d thin and black" if motion.batch else ", q_d dotted"
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.25)
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("t [s]")
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    if motion.batch:
        _name_members(figure, motion)
    return figure


def _draw(axes: Axes, name: str, motion: Motion) -> None:
    """All curves of one quantity (..., T) or (..., T, k), and the legend of its components."""
    batch, values = motion.batch, np.asarray(getattr(motion, name))
    components = values.ndim > len(batch) + 1
    curves = _by_members(values, motion)
    for member, curve in enumerate(curves):
        times = _times_of(motion, member)
        for k, component in enumerate(curve.T):
            look = {"color": _member_color(member, len(curves)), "linestyle": _DASHES[k % len(_DASHES)]}
            axes.plot(times, component, linewidth=1.3, **(look if batch else {"color": color(k)}))
    if components:
        for k in range(curves.shape[-1]):
            look = {"color": GREY, "linestyle": _DASHES[k % len(_DASHES)]} if batch else {"color": color(k)}
            axes.plot([], [], label=f"{_SYMBOLS.get(name, name)}_{k}", **look)
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _draw_desired(axes: Axes, motion: Any) -> None:
    """The desired configurations; once if all members of a batch have the same."""
    curves = _by_members(np.asarray(motion.q_d), motion)
    same = (curves == curves[:1]).all()
    for member, curve in enumerate(curves[:1] if same else curves):
        times = _times_of(motion, member)
        for k, component in enumerate(curve.T):
            look = {"color": color(k), "linestyle": ":"}
            if motion.batch:
                look = {"color": BLACK, "linestyle": _DASHES[k % len(_DASHES)]}
            axes.plot(times, component, linewidth=0.8, **look)


def _by_members(values: np.ndarray, motion: Motion) -> np.ndarray:
    """(m, T, k): the members of a quantity (..., T) or (..., T, k)."""
    batch = motion.batch
    size = values.shape[-1] if values.ndim > len(batch) + 1 else 1
    return values.reshape(int(np.prod(batch)), values.shape[len(batch)], size)


def _times_of(motion: Motion, member: int) -> np.ndarray:
    """(T,) the times of a member; `jax.vmap` gives each its own."""
    times: np.ndarray = np.asarray(motion.times)
    return times if times.ndim == 1 else times.reshape(-1, times.shape[-1])[member]


def _member_color(number: int, count: int) -> Any:
    import matplotlib

    return matplotlib.colormaps["viridis"](0.9 * number / max(count - 1, 1))


def _names_of(motion: Motion) -> tuple[list[str], bool]:
    """Names of the members of a batch in the legend, and whether these are betas, which may be too long."""
    betas = getattr(motion, "betas", None)
    if betas is not None:
        rows = [[f"{beta:.3g}" for beta in row] for row in np.asarray(betas)]
        names = [f"beta = {row[0]}" if len(row) == 1 else f"beta = ({', '.join(row)})" for row in rows]
        if max(map(len, names), default=0) <= (_TICK if len(names) > _FEW else _LETTERS):
            return names, True
    return [f"member {', '.join(map(str, index))}" for index in np.ndindex(motion.batch)], False


def _name_members(figure: Figure, motion: Motion) -> None:
    """Draw the colours of the members below the panels."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    names, by_betas = _names_of(motion)
    count = len(names)
    if count > _FEW:
        colors = LinearSegmentedColormap.from_list("members", [_member_color(k, 64) for k in range(64)])
        scale = ScalarMappable(Normalize(0, count - 1), colors)
        look: dict[str, Any] = {"location": "bottom", "aspect": 60, "shrink": 0.6}
        bar = figure.colorbar(scale, ax=figure.axes, label="member", ticks=MaxNLocator(integer=True), **look)
        if by_betas:
            shown = [0, count // 2, count - 1]
            bar.set_ticks(shown, labels=[names[k] for k in shown], fontsize=8)
        return
    lines = [Line2D([], [], color=_member_color(k, count), label=name) for k, name in enumerate(names)]
    columns = max(1, min(count, _LETTERS // (4 + max(map(len, names)))))
    figure.legend(handles=lines, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)
