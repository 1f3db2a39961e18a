"""Motions over time, the components of one or the members of a batch in colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from connections.affine import Motion
from connections.affine.motions.series import Names, Series, Units, require_known
from connections.checks import require_indices, require_names, require_text, require_type
from connections.plots.canvas import (
    BLACK,
    GREY,
    SCREEN,
    color,
    new_figure,
    paper_figure,
    settings_of,
    width_of,
)

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
_MOTIONS: tuple[Any, ...] = ("-", (0, (5, 2)), "-.", (0, (1, 1)), (0, (3, 1, 1, 1, 1, 1)))  # in one figure
_IN_PAPERS = {
    "q": "q",
    "v": "v",
    "error": "e",
    "s": "s",
    "tau": r"\tau",
    "lyapunov": "V",
    "residual": "r",
    "parameters": r"\pi",
    "eta": r"\eta",
    "deta": r"D_t\eta",
}  # TeX
_MARK = "motion"  # in a curve's gid, which SVG has as its id
_NARROW, _TALL = 120.0, 40.0  # mm: a figure with one panel in a row; the height of a row
_COLUMNS = 4  # of a legend above a panel
_FEW = 8  # members that a legend names; for more, a bar shows the colours
_LETTERS = 120  # in a line of a legend below the panels
_LETTER, _HANDLE = 4.2, 9  # width of a letter of a legend, points; letters that a line beside it takes
_WORDS = 18  # letters in a line of words beside a panel
_TICK = 48  # letters below a bar, in three places


def figure_motion(
    motion: Motion,
    panels: Sequence[str] | Mapping[str, Sequence[Any] | None] | None = None,
    *,
    names: Names = None,
    units: Units = None,
    axes: Any = None,
    style: str | float = SCREEN,
    label: str | None = None,
) -> Figure:
    """A panel for each quantity of a motion over time: q and v; for a closed loop q, its error, s, tau and V.

    Parameters
    ----------
    motion : of `geodesic`, a `simulate`, a closed loop or an observer. In a batch, each member has its colour
        and each component its dashes; for one motion, each component has its colour. A sweep's legend has the
        betas. Desired configurations are drawn thin and dotted, in a batch thin and black. States of events
        are points of the curves of q and v, which so reach the event that ends them.
    panels, names, units, axes, style, label : as `Motion.plot`.

    Raises
    ------
    TypeError : no motion, or `axes` are no axes.
    ValueError : as `Motion.plot`; a batch is drawn into panels that have curves of other motions.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import plots, systems
    >>> sleigh = systems.chaplygin_sleigh().numeric()
    >>> motion = sleigh.simulate([0.0, 0.0, 0.0], [0.0, 2.0], np.linspace(0.0, 5.0, 26))
    >>> figure = plots.figure_motion(motion, ["q", "v"])
    >>> figure.savefig("motion.png")
    >>> [axes.get_title() for axes in figure.axes]
    ['configuration q [rad, m]', 'velocity v [rad/s, m/s]']
    """
    require_type("motion", motion, Motion)
    if label is not None:
        require_text("label", label)
    width = width_of(style)
    titled = width is None and axes is None
    shown = _panels(motion, panels, names, units)
    grid = _grid(len(shown), width) if axes is None else given_axes(axes, len(shown))
    figure = grid[0].get_figure(root=True)
    assert figure is not None  # it has not been removed
    number = _drawn_before(grid)
    if number and motion.batch:
        raise ValueError(
            "axes: a batch needs panels of its own; draw one motion, motion.member(k).plot(axes=...)"
        )
    with settings_of(figure):
        for each, panel in zip(grid, shown, strict=True):
            _draw(each, panel, motion, number)
            if number == 0:
                _name(each, panel, motion, str((units or {}).get("times", "s")), titled)
        if motion.batch:
            name_members(figure, grid, motion, label)
        elif label is not None:
            name_motion(figure, label, {"color": GREY, "linestyle": _MOTIONS[number % len(_MOTIONS)]})
    return figure


# --- private: panels ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Panel:
    """A quantity, and those of its components that are drawn (None if it has none)."""

    part: Series
    chosen: list[int] | None

    @property
    def unit(self) -> str:
        """The unit of all components that are drawn, in brackets; empty if there is none."""
        if self.chosen is not None and len(self.chosen) == 1:
            return _unit_of(self.part, self.chosen[0])
        unit = self.part.unit_of(self.chosen[0] if self.chosen else 0)
        return f" [{unit}]" if unit else ""


def component_label(part: Series, k: int, titled: bool) -> str:
    """The text of component k in legends; on the screen as in code, in a paper in italics."""
    if part.components is not None:
        return part.components[k]
    letter = _IN_PAPERS.get(part.name)
    return f"{_SYMBOLS.get(part.name, part.name)}_{k}" if titled or not letter else f"${letter}_{{{k}}}$"


def axis_label(part: Series, k: int, titled: bool) -> str:
    """The text of component k at an axis, with its unit."""
    return component_label(part, k, titled) + _unit_of(part, k)


def _unit_of(part: Series, k: int) -> str:
    """The unit of component k, in brackets; empty if it is one of several, as those of q are by default."""
    unit = part.unit_of(k)
    return f" [{unit}]" if unit and "," not in unit else ""


def _panels(motion: Motion, panels: Any, names: Names, units: Units) -> list[_Panel]:
    known = motion.series(names, units)
    if panels is None:
        panels = [name for name, _ in motion.PANELS if name in known]
    panels = [panels] if isinstance(panels, str) else panels
    if not isinstance(panels, Mapping):
        panels = require_names("panels", panels)
    require_known("panels", panels, tuple(known))
    found = []
    for name in panels:
        part = known[name]
        count = part.values.shape[-1] if part.values.ndim > len(motion.batch) + 1 else None
        every = None if count is None else list(range(count))
        asked = panels[name] if isinstance(panels, Mapping) else None
        several = isinstance(asked, list | tuple) and len(asked) and isinstance(asked[0], list | tuple)
        lists: Any = asked if several else [asked]
        for own in lists:
            chosen = every
            if own is not None:
                chosen = list(require_indices(f"panels[{name!r}]", own))
                if not (every and chosen and set(chosen) <= set(every)):
                    there = f"components 0 to {count - 1}" if count else "no components"
                    raise ValueError(f"panels: {name} has {there}, got {chosen}")
            for unit in dict.fromkeys(map(part.unit_of, chosen or [0])):
                same = None if chosen is None else [k for k in chosen if part.unit_of(k) == unit]
                found.append(_Panel(part, same))
    if not found:
        raise ValueError(f"panels: expected some of {', '.join(known)}; got none")
    return found


def _grid(count: int, width: float | None) -> list[Axes]:
    """New panels: two in a row, or one where the figure is narrow."""
    columns = 1 if width is not None and width < _NARROW else 2
    rows = -(-count // columns)
    if width is None:
        figure = new_figure(10.5, 3.2 * rows)
    else:
        figure = paper_figure(width, 7.0 + _TALL * rows)
    figure.set_layout_engine("constrained")
    with settings_of(figure):
        grid = list(figure.subplots(rows, columns, sharex=True, squeeze=False).flat)
        for axes in grid:
            axes.tick_params(labelbottom=True)
    for axes in grid[count:]:
        axes.remove()
    return grid[:count]


def given_axes(axes: Any, count: int) -> list[Axes]:
    """The axes of a figure, one of them, or several, as a list."""
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    own: Any = axes.axes if isinstance(axes, FigureBase) else axes
    found = list(np.ravel(np.array(own, dtype=object)))
    if not all(isinstance(each, Axes) for each in found):
        kinds = sorted({type(each).__name__ for each in found})
        raise TypeError(f"axes: expected a matplotlib Figure or Axes, got {', '.join(kinds)}")
    if len(found) != count:
        raise ValueError(
            f"axes: expected {count}, one for each panel; got {len(found)}: say which with panels=, "
            "and give the same units="
        )
    return found


def _drawn_before(grid: Sequence[Axes]) -> int:
    """How many motions have been drawn into the panels."""
    marks = [str(line.get_gid()) for axes in grid for line in axes.lines]
    return 1 + max((int(mark.split()[1]) for mark in marks if mark.startswith(f"{_MARK} ")), default=-1)


# --- private: curves ----------------------------------------------------------------------------------------


def _draw(axes: Axes, panel: _Panel, motion: Motion, number: int) -> None:
    """All curves of one quantity (..., T) or (..., T, k); `number` motions have been drawn before."""
    curves = _by_members(panel.part.values, motion)
    for member in range(len(curves)):
        times, curve = with_events(motion, panel.part.name, member)
        for k in panel.chosen or [0]:
            look = {"color": color(k), "linestyle": _MOTIONS[number % len(_MOTIONS)]}
            if motion.batch:
                look = {"color": member_color(member, len(curves)), "linestyle": _DASHES[k % len(_DASHES)]}
            (line,) = axes.plot(times, curve[:, k], **look)
            line.set_gid(f"{_MARK} {number} {panel.part.name} {k}")
    if panel.part.name == "q" and getattr(motion, "q_d", None) is not None:
        _draw_desired(axes, motion, panel.chosen or [])


def _name(axes: Axes, panel: _Panel, motion: Motion, second: str, titled: bool) -> None:
    """The legend of the components, and the words at the axes: a title on the screen, a label in a paper."""
    part = panel.part
    unit = panel.unit
    axes.set_xlabel(f"t [{second}]" if titled else f"$t$ [{second}]")
    axes.grid(alpha=0.25)
    desired = part.name == "q" and getattr(motion, "q_d", None) is not None
    if titled:
        aim = ", q_d thin and black" if motion.batch else ", q_d dotted"
        axes.set_title(f"{part.title}{unit}{aim * desired}", fontsize=10)
    single = panel.chosen is not None and len(panel.chosen) == 1 and not titled
    if not titled:
        letter = _IN_PAPERS.get(part.name)
        words = f"${letter}$" if letter else part.title
        if single and panel.chosen:
            words = component_label(part, panel.chosen[0], titled)
        axes.set_ylabel(fill(f"{words}{unit}", _WORDS) if words == part.title else f"{words}{unit}")
    if panel.chosen is None or single:
        return
    for k in panel.chosen:
        look = (
            {"color": GREY, "linestyle": _DASHES[k % len(_DASHES)]} if motion.batch else {"color": color(k)}
        )
        axes.plot([], [], label=component_label(part, k, titled), **look)
    if titled:
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    else:
        above: Any = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
        spec, names = axes.get_subplotspec(), [component_label(part, k, titled) for k in panel.chosen]
        figure = axes.get_figure(root=True)
        assert figure is not None  # it has not been removed
        columns = min(_columns(figure, names, spec.get_geometry()[1] if spec else 1), _COLUMNS)
        axes.legend(ncols=columns, frameon=False, handlelength=1.4, columnspacing=1.0, **above)


def name_motion(figure: Figure, label: str, look: Mapping[str, Any]) -> None:
    """Add a motion to the legend of motions below the panels; `look` is that of its line."""
    from matplotlib.lines import Line2D

    lines = [handle for legend in figure.legends for handle in legend.legend_handles if handle is not None]
    title = "".join(legend.get_title().get_text() for legend in figure.legends) or None
    for legend in list(figure.legends):
        legend.remove()
    lines.append(Line2D([], [], label=label, **look))
    loc: Any = "outside lower center" if figure.get_layout_engine() is not None else "lower center"
    columns = min(_columns(figure, [str(line.get_label()) for line in lines]), _COLUMNS)
    figure.legend(handles=lines, loc=loc, ncols=columns, frameon=False, title=title)


def _columns(figure: Figure, names: Sequence[str], parts: int = 1) -> int:
    """The number of columns of a legend, within a part of the figure's width, with rows of equal length."""
    width, count = 72.0 * figure.get_size_inches()[0] / parts, len(names)
    most = max(1, min(count, int(width // (_LETTER * (_HANDLE + max(map(len, names)))))))
    return -(-count // -(-count // most))


def _draw_desired(axes: Axes, motion: Any, chosen: Sequence[int]) -> None:
    """Desired configurations of what is drawn; once if all members of a batch have the same."""
    curves = _by_members(np.asarray(motion.q_d), motion)
    same = (curves == curves[:1]).all()
    for member, curve in enumerate(curves[:1] if same else curves):
        times = _times_of(motion, member)
        for k in chosen:
            look = {"color": color(k), "linestyle": ":"}
            if motion.batch:
                look = {"color": BLACK, "linestyle": _DASHES[k % len(_DASHES)]}
            axes.plot(times, curve[:, k], linewidth=0.8, **look)


def with_events(motion: Motion, name: str, member: int) -> tuple[np.ndarray, np.ndarray]:
    """Times (T,) and values (T, k) of a quantity of one member; of q and v with those of events."""
    times = _times_of(motion, member)
    values = _by_members(np.asarray(getattr(motion, name)), motion)[member]
    if name not in ("q", "v") or not motion.event_times:
        return times, values
    instants = (np.reshape(at, (-1, np.shape(at)[-1]))[member] for at in motion.event_times)
    states = (_by_members(np.asarray(pair[name == "v"]), motion)[member] for pair in motion.event_states)
    more = list(zip(instants, states, strict=True))
    joined = np.concatenate([times, *(at for at, _ in more)])
    order = np.argsort(joined if times[-1] >= times[0] else -joined, kind="stable")  # NaN is last
    order = order[np.isfinite(joined[order])]
    return joined[order], np.concatenate([values, *(state for _, state in more)])[order]


def _by_members(values: np.ndarray, motion: Motion) -> np.ndarray:
    """(m, T, k): the members of a quantity (..., T) or (..., T, k)."""
    batch = motion.batch
    size = values.shape[-1] if values.ndim > len(batch) + 1 else 1
    return values.reshape(int(np.prod(batch)), values.shape[len(batch)], size)


def _times_of(motion: Motion, member: int) -> np.ndarray:
    """(T,) the times of a member; `jax.vmap` gives each its own."""
    times: np.ndarray = np.asarray(motion.times)
    return times if times.ndim == 1 else times.reshape(-1, times.shape[-1])[member]


def member_color(number: int, count: int) -> Any:
    """The colour of one of `count` members of a batch."""
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


def name_members(figure: Figure, grid: Sequence[Axes], motion: Motion, label: str | None) -> None:
    """Draw the colours of the members below the panels, under the batch's label."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    names, by_betas = _names_of(motion)
    count = len(names)
    if count > _FEW:
        colors = LinearSegmentedColormap.from_list("members", [member_color(k, 64) for k in range(64)])
        scale = ScalarMappable(Normalize(0, count - 1), colors)
        look: dict[str, Any] = {"location": "bottom", "aspect": 60, "shrink": 0.6}
        look["label"] = "member" if label is None else f"{label}, member"
        bar = figure.colorbar(scale, ax=list(grid), ticks=MaxNLocator(integer=True), **look)
        if by_betas:
            shown = [0, count // 2, count - 1]
            bar.set_ticks(shown, labels=[names[k] for k in shown], fontsize=8)
        return
    lines = [Line2D([], [], color=member_color(k, count), label=name) for k, name in enumerate(names)]
    below: Any = {"loc": "outside lower center", "ncols": _columns(figure, names), "frameon": False}
    figure.legend(handles=lines, fontsize=8, title=label, title_fontsize=8, **below)
