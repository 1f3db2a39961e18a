"""Histories of filters: deviations of each error over time, and NIS beside its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from connections.checks import (
    ShapeError,
    as_array,
    require_finite,
    require_indices,
    require_names,
    require_type,
    require_untraced,
)
from connections.estimation import History
from connections.plots.canvas import BLUE, GREY, RED, new_figure

_TAILS = 0.025, 0.975  # of chi^2, between which 95 of 100 are


def figure_history(
    history: History,
    errors: Any = None,
    components: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    """+-3 deviations of each error over time, before and after each measurement, and NIS with its bounds.

    Parameters
    ----------
    history : of `Filter.run`, one run.
    errors, components, names : as `History.plot`.

    Raises
    ------
    ValueError, ShapeError, TypeError : as `History.plot`.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import estimation, plots
    >>> line = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]])
    >>> start, sensor = estimation.Estimate([0.0], [[3.0]]), estimation.Sensor(lambda q: q, [[1.0]])
    >>> history = line.run(start, [1.0, 2.0], np.zeros((2, 1)), [[2.0], [2.5]], sensor)
    >>> figure = plots.figure_history(history, errors=line.difference(history.estimate, [[1.5], [1.8]]))
    >>> figure.axes[0].lines[0].get_label()
    'error'
    """
    require_type("history", history, History)
    require_untraced(history=history)
    t = np.asarray(history.estimate.t)
    if t.ndim != 1:
        raise ValueError(
            f"history: expected one run, got a batch {t.shape[:-1]}; write "
            "jax.tree_util.tree_map(lambda a: a[0], history)"
        )
    k = np.shape(history.estimate.P)[-1]
    chosen = tuple(range(k)) if components is None else require_indices("components", components, k)
    if not chosen:
        raise ValueError("components: none are given; leave them out for all")
    titles = tuple(f"error {k}" for k in chosen) if names is None else require_names("names", names)
    if len(titles) != len(chosen):
        raise ValueError(f"names: got {len(titles)} for {len(chosen)} components")
    if errors is not None:
        errors = as_array("errors", errors, (k,))
        if errors.shape != (len(t), k):
            raise ShapeError("errors", (len(t), k), errors.shape)
        require_finite("errors", errors)
    rows = (len(chosen) + 2) // 2
    figure = new_figure(10.5, 2.8 * rows)
    figure.set_layout_engine("constrained")
    grid = list(figure.subplots(rows, 2, sharex=True, squeeze=False).flat)
    for axes in grid[len(chosen) + 1 :]:
        axes.remove()
    times = np.repeat(t, 2)
    each = np.stack([history.predicted.deviations, history.estimate.deviations], axis=1).reshape(-1, k)
    for axes, component, title in zip(grid, chosen, titles, strict=False):
        band = 3.0 * each[:, component]
        if errors is not None:
            axes.plot(t, errors[:, component], color=BLUE, label="error")
        axes.fill_between(times, -band, band, color=GREY, alpha=0.3, linewidth=0.0, label="3 deviations")
        # The first prediction, from what was known before all measurements, may be far outside.
        seen = [band[1:], [] if errors is None else errors[:, component]]
        size = 1.1 * np.fmax.reduce(np.abs(np.concatenate(seen)), initial=0.0)
        axes.set_ylim(-size, size) if size > 0.0 else None
        _name(axes, title)
    _draw_nis(grid[len(chosen)], t, history.innovation)
    return figure


def _draw_nis(axes: Axes, t: np.ndarray, innovation: Any) -> None:
    """NIS of the samples with measurements, and the bounds of chi^2 with as many degrees of freedom."""
    from scipy.stats import chi2

    nis, count, accepted = (
        np.asarray(a) for a in (innovation.nis, innovation.dimension, innovation.accepted)
    )
    some = count > 0
    low, high = (chi2.ppf(tail, count[some]) for tail in _TAILS)
    axes.fill_between(t[some], low, high, color=GREY, alpha=0.3, linewidth=0.0, step="mid", label="95 of 100")
    for own, color, label in ((some & accepted, BLUE, "NIS"), (some & ~accepted, RED, "refused")):
        if own.any():
            axes.plot(t[own], nis[own], ".", color=color, label=label)
    if some.any():
        axes.set_yscale("symlog", linthresh=float(np.max(high)))
    sizes = np.unique(count[some])
    number = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}" if len(sizes) else "no"
    _name(axes, f"NIS of {number} component{'s' * (number != '1')}")


def _name(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("t [s]")
    axes.tick_params(labelbottom=True)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, loc="upper right", frameon=False)
