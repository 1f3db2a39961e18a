"""Figures 4 to 7 of the paper and the sweep over beta, drawn from the library's own computations.

The tracking example: states, paths, Lyapunov functions, spectra; tracking error, effort and frequency content
against beta. Every function returns a matplotlib Figure without a window; matplotlib is imported when the
first figure is drawn. `write_figures`, `write_exploration` and `write_all` write them to files.
Source: [W] Figs 4 to 7.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from connections._written import make_folder, write_file
from connections.checks import (
    require_bool,
    require_items,
    require_path,
    require_text,
    require_type,
    require_writable,
)
from connections.control.tracking_example import (
    HIGH_FREQUENCY,
    MEASURES,
    PAPER_BETAS,
    TrackingResult,
    beta_values,
    desired_position,
    energy_spectrum,
    explore,
    table,
)
from connections.plots.canvas import BLACK, BLUE, GREEN, GREY, RED, color, new_figure
from connections.plots.transport import figure_transport

STYLES = ("-", "--", ":", "-.")
FIRST_MOMENTS = 3.0  # s, shown enlarged in Fig. 6
MEMBERS = 41  # values of beta in a sweep
BOX = (2.0, 1.2, 0.85)  # lengths of the axes of Fig. 6, whose scales differ


def figure_states(result: TrackingResult, title: str) -> Figure:
    """Position and velocity components against time, desired ones dashed. Source: [W] Figs 4 and 5.

    Parameters
    ----------
    result : one motion of the tracking example.
    title : heading of the figure.

    Examples
    --------
    >>> from connections import plots
    >>> from connections.control import tracking_example
    >>> result = tracking_example.explore([-5.0])[0]
    >>> figure = plots.figure_states(result, "C = -5 (v x)")
    >>> figure.savefig("states.png")
    >>> len(figure.axes)
    4
    """
    require_type("result", result, TrackingResult)
    require_text("title", title)
    figure = new_figure(10.0, 5.6)
    t, q, v = (np.asarray(x) for x in (result.motion.times, result.motion.q, result.motion.v))
    desired = np.asarray(t + np.sin(t)), 1.0 + np.cos(t)
    looks = (("x", RED, "-", 1.8), ("y", GREEN, "-", 1.8), ("z", BLUE, (0, (5, 2)), 1.8))
    grid = figure.subplots(2, 2, sharex=True)
    for (along, across), values, aim, symbol in zip(grid, (q, v), desired, ("q", "\\dot q"), strict=True):
        for k, (name, shade, dashes, width) in enumerate(looks):
            axes = along if k == 0 else across
            axes.plot(t, values[:, k], color=shade, lw=width, ls=dashes, label=f"${symbol}_{name}$")
        along.plot(t, aim, color=BLACK, lw=1.2, ls="--", label=f"${symbol}_{{d,x}}$, desired")
        across.axhline(0.0, color=BLACK, lw=1.2, ls="--", zorder=1, label="desired")
    for axes in grid.flat:
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    grid[1, 0].legend(frameon=False, loc="upper center", bbox_to_anchor=(0.34, 1.0))  # between two peaks
    for axes, words in zip(grid[:, 0], ("position [m]", "velocity [m/s]"), strict=True):
        axes.set_ylabel(words)
    for axes, words in zip(grid[0], ("along the path", "across the path, another scale"), strict=True):
        axes.set_title(words, fontsize=11)
    for axes in grid[1]:
        axes.set_xlabel("time [s]")
    grid[0, 0].set_xlim(t[0], t[-1])
    figure.suptitle(title, fontsize=13)
    figure.tight_layout()
    return figure


def figure_trajectories(results: Sequence[TrackingResult]) -> Figure:
    """Trajectories in space for several beta; the first moments on the right. Source: [W] Fig. 6.

    Parameters
    ----------
    results : motions of the tracking example.

    Examples
    --------
    >>> from connections import plots
    >>> from connections.control import tracking_example
    >>> figure = plots.figure_trajectories(tracking_example.explore([0.0, -5.0]))
    >>> figure.savefig("trajectories.png")
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['C = 0 (torsion-free)', 'C = -5 (v x)', 'desired', 'start']
    """
    results = _results(results)
    figure = new_figure(12.0, 5.0)
    for place, last, title in (
        ((0.0, 0.10, 0.47, 0.88), np.inf, "whole motion"),
        ((0.5, 0.10, 0.47, 0.88), FIRST_MOMENTS, f"first {FIRST_MOMENTS:g} s"),
    ):
        axes: Any = figure.add_axes(place, projection="3d")
        for number, result in enumerate(results):
            t, q = np.asarray(result.motion.times), np.asarray(result.motion.q)
            x, y, z = q[t <= last].T
            axes.plot(x, y, z, color=color(number), ls=_style(number), lw=1.8, label=_beta_label(result.beta))
        t = np.asarray(results[0].motion.times)
        line = np.asarray([desired_position(time) for time in t[t <= last][::20]])
        axes.plot(*line.T, color=BLACK, ls=(0, (4, 3)), lw=1.0, label="desired")
        axes.scatter(*np.asarray(results[0].motion.q)[0], color=BLACK, s=22, zorder=5, label="start")
        _name_scales(axes, title)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=min(len(labels), 6), frameon=False, fontsize=11)
    return figure


def figure_lyapunov(results: Sequence[TrackingResult]) -> Figure:
    """Lyapunov functions for several beta. Source: [W] Fig. 7.

    Parameters
    ----------
    results : motions of the tracking example.

    Examples
    --------
    >>> from connections import plots
    >>> from connections.control import tracking_example
    >>> figure = plots.figure_lyapunov(tracking_example.explore([0.0, -5.0]))
    >>> figure.savefig("lyapunov.png")
    >>> [axes.get_yscale() for axes in figure.axes]
    ['linear', 'log']
    """
    results = _results(results)
    figure = new_figure(9.0, 4.6)
    linear, logarithmic = figure.subplots(1, 2)
    for axes in (linear, logarithmic):
        for number, result in enumerate(results):
            t, V = np.asarray(result.motion.times), np.asarray(result.motion.lyapunov)
            width = 1.4 + 2.4 * (1.0 - number / len(results))  # so that curves that coincide are all visible
            axes.plot(t, V, color=color(number), ls=_style(number), lw=width, label=_beta_label(result.beta))
        axes.set_xlabel("time [s]")
        axes.set_xlim(t[0], t[-1])
        axes.set_ylabel(r"$V = \frac{1}{2}\, s^{\top} H s$  [J]")
        axes.grid(alpha=0.3)
    linear.set_ylim(bottom=0.0)
    linear.legend(frameon=False)
    logarithmic.set_yscale("log")
    logarithmic.set_title("the same on a logarithmic axis")
    linear.set_title("Lyapunov function")
    figure.tight_layout()
    return figure


def figure_sweep(results: Sequence[TrackingResult], marked: Sequence[TrackingResult] = ()) -> Figure:
    """Tracking error, effort and frequency content against beta.

    Parameters
    ----------
    results : motions of the tracking example, any order of beta.
    marked : motions that get a dot and a legend, such as those of the other figures.

    Examples
    --------
    >>> from connections import plots
    >>> from connections.control import tracking_example
    >>> results = tracking_example.explore([0.0, -5.0, -10.0])
    >>> figure = plots.figure_sweep(results, marked=results[:1])
    >>> figure.savefig("sweep.png")
    >>> figure.axes[0].get_ylabel()
    'rms tracking error [m]'
    """
    marked = require_items("marked", marked, TrackingResult, "tracking results")
    figure = new_figure(9.0, 6.6)
    ordered = sorted(_results(results), key=lambda result: result.beta)
    beta = [result.beta for result in ordered]
    panels = (
        ("rms_error", "rms tracking error [m]", 1.0),
        ("effort", r"effort $\int |\tau|^2 dt$ [N$^2$ s]", 1.0),
        ("rms_frequency", "rms frequency across the path [Hz]", 1.0),
        ("high_frequency", f"energy across the path\nabove {HIGH_FREQUENCY:g} Hz [%]", 100.0),
    )
    for axes, (name, label, factor) in zip(figure.subplots(2, 2, sharex=True).flat, panels, strict=True):
        values = [factor * getattr(r, name) for r in ordered]
        axes.plot(beta, values, "-", color=GREY, lw=1.6, marker=".", ms=4, zorder=1)
        for number, result in enumerate(marked):
            value = factor * getattr(result, name)
            label_of = _beta_label(result.beta)
            axes.plot([result.beta], [value], "o", color=color(number), ms=8, label=label_of, clip_on=False)
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        if name != "rms_error":
            axes.set_ylim(bottom=0.0)
    for axes in figure.axes[2:]:
        axes.set_xlabel(r"$\beta$ [kg/m] in $C = \beta\,(v\times)$")
    figure.axes[0].set_title("axis does not begin at zero", fontsize=9, color=GREY, loc="left")
    figure.tight_layout(rect=(0.0, 0.06 if marked else 0.0, 1.0, 1.0))
    if marked:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncol=min(len(labels), 5), frameon=False)
    return figure


def figure_spectra(results: Sequence[TrackingResult]) -> Figure:
    """Amplitude of the transverse velocity (v_y, v_z) against frequency.

    Parameters
    ----------
    results : motions of the tracking example.

    Examples
    --------
    >>> from connections import plots
    >>> from connections.control import tracking_example
    >>> figure = plots.figure_spectra(tracking_example.explore([0.0, -5.0]))
    >>> figure.savefig("spectra.png")
    >>> figure.axes[0].get_xlabel()
    'frequency [Hz]'
    """
    results = _results(results)
    figure = new_figure(8.0, 4.6)
    axes = figure.subplots()
    for number, result in enumerate(results):
        energy, frequency = _transverse_spectrum(result)
        axes.plot(
            frequency,
            np.sqrt(energy),
            color=color(number),
            ls=_style(number),
            lw=1.8,
            label=_beta_label(result.beta),
        )
    axes.set_xlim(0.0, 1.2 * max(_band(results), 2.0))
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("frequency [Hz]")
    axes.set_ylabel(r"$|\hat v|$ across the path [m/s per Hz]")
    axes.set_title("Spectrum of the velocity across the path")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.tight_layout()
    return figure


def write_figures(directory: str | Path, pdf: bool = False) -> list[Path]:
    """Write Figs 3 to 7 as PNG files.

    Parameters
    ----------
    directory : folder of the files; made if it is missing.
    pdf : whether to write PDF files as well.

    Returns
    -------
    list of Path, in the order of the figures.

    Raises
    ------
    OSError : the directory cannot be written; nothing was computed.

    Examples
    --------
    >>> from connections import plots
    >>> [path.name for path in plots.write_figures("figures")]
    ['figure_3_four_connections.png', 'figure_4_torsion_free.png', 'figure_5_torsion.png',
     'figure_6_trajectories.png', 'figure_7_lyapunov.png']
    """
    _require_place(directory, pdf)
    return _write(directory, _paper_figures(explore(PAPER_BETAS)), pdf)


def write_exploration(
    directory: str | Path, betas: Sequence[float] = PAPER_BETAS, pdf: bool = False
) -> tuple[list[Path], list[TrackingResult]]:
    """Sweep beta in the tracking example; write figures, a Markdown and a CSV table.

    The figure of the sweep also has `MEMBERS` values of beta from the smallest to the largest of `betas`.

    Parameters
    ----------
    directory : folder of the files; made if it is missing.
    betas : factors of (v x), kg/m.
    pdf : whether to write PDF files as well.

    Returns
    -------
    (paths, results) : the files, and the measures for each of the given betas, as in the tables.

    Raises
    ------
    ShapeError, NonFiniteError : betas is empty or not a list of finite numbers.
    OSError : the directory cannot be written; nothing was computed.

    Examples
    --------
    >>> from connections import plots
    >>> paths, results = plots.write_exploration("exploration", betas=[-5.0])
    >>> [path.name for path in paths]
    ['exploration_trajectories.png', 'exploration_lyapunov.png', 'exploration_spectra.png',
     'exploration.md', 'exploration.csv']
    >>> round(results[0].rms_error, 2)  # m
    0.33
    """
    _require_place(directory, pdf)
    results, sweep = _explored(betas)
    figures = {
        "exploration_trajectories": figure_trajectories(results),
        "exploration_lyapunov": figure_lyapunov(results),
        **_sweep_figures(results, sweep),
    }
    return [*_write(directory, figures, pdf), *_write_tables(directory, results)], results


def write_all(directory: str | Path, pdf: bool = False) -> tuple[list[Path], list[TrackingResult]]:
    """Write Figs 3 to 7, spectra and the sweep over the paper's beta, with both tables.

    Parameters
    ----------
    directory : folder of the files; made if it is missing.
    pdf : whether to write PDF files as well.

    Returns
    -------
    (paths, sweep) : the files, and the measures for all `MEMBERS` values of beta, increasing.

    Raises
    ------
    OSError : the directory cannot be written; nothing was computed.

    Examples
    --------
    >>> from connections import plots
    >>> paths, sweep = plots.write_all("figures")
    >>> len(paths), len(sweep)
    (9, 41)
    """
    _require_place(directory, pdf)
    results, sweep = _explored(PAPER_BETAS)
    figures = _paper_figures(results) | _sweep_figures(results, sweep)
    return [*_write(directory, figures, pdf), *_write_tables(directory, results)], sweep


def _results(results: Any) -> list[TrackingResult]:
    listed = [*require_items("results", results, TrackingResult, "tracking results")]
    if not listed:
        raise ValueError("results: expected at least one motion")
    return listed


def _require_place(directory: Any, pdf: Any) -> None:
    """Raise an error, before anything is computed, unless files can be written."""
    require_bool("pdf", pdf)
    require_writable(require_path("directory", directory))


def _explored(betas: Sequence[float]) -> tuple[list[TrackingResult], list[TrackingResult]]:
    """The results for `betas`, and for `betas` with `MEMBERS` values over their range; all in one run."""
    values = beta_values(betas)
    between = np.linspace(values.min(), values.max(), MEMBERS) if len(set(values)) > 1 else values
    members = np.union1d(values, between)
    results = dict(zip(members, explore([*members]), strict=True))
    return [results[beta] for beta in values], [results[beta] for beta in members]


def _paper_figures(results: Sequence[TrackingResult]) -> dict[str, Figure]:
    """Figs 3 to 7 from the results for the paper's beta."""
    free, torsion = results[0], results[1]
    return {
        "figure_3_four_connections": figure_transport(),
        "figure_4_torsion_free": figure_states(free, "Torsion-free: C = 0"),
        "figure_5_torsion": figure_states(torsion, f"With torsion: C = {torsion.beta:g} (v x)"),
        "figure_6_trajectories": figure_trajectories(results),
        "figure_7_lyapunov": figure_lyapunov(results),
    }


def _sweep_figures(results: Sequence[TrackingResult], sweep: Sequence[TrackingResult]) -> dict[str, Figure]:
    figures = {"exploration_spectra": figure_spectra(results)}
    if len(sweep) > 1:
        figures["exploration_sweep"] = figure_sweep(sweep, results)
    return figures


def _write_tables(directory: str | Path, results: Sequence[TrackingResult]) -> list[Path]:
    markdown, comma = Path(directory) / "exploration.md", Path(directory) / "exploration.csv"
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, MEASURES)
    writer.writeheader()
    writer.writerows(result.to_dict() for result in results)
    return [write_file(markdown, table(results) + "\n"), write_file(comma, stream.getvalue())]


def _write(directory: str | Path, figures: dict[str, Figure], pdf: bool) -> list[Path]:
    folder = make_folder(Path(directory))
    paths = []
    for name, figure in figures.items():
        for suffix in (".png", ".pdf") if pdf else (".png",):
            stream = io.BytesIO()
            figure.savefig(stream, format=suffix[1:])
            paths.append(write_file(folder / f"{name}{suffix}", stream.getvalue()))
    return paths


def _name_scales(axes: Any, title: str) -> None:
    """Set the labels, and a title with the scales of y and z relative to x."""
    axes.set_box_aspect(BOX, zoom=1.1)
    for name, setter in zip("xyz", (axes.set_xlabel, axes.set_ylabel, axes.set_zlabel), strict=True):
        setter(f"{name} [m]", labelpad=1 if name == "z" else 5)
    axes.view_init(elev=20, azim=-62)
    axes.locator_params(nbins=5)
    for artist in (*axes.lines, *axes.collections):
        artist.set_clip_on(False)  # the box reaches beyond the rectangle to which curves are clipped
    lengths = [high - low for low, high in (axes.get_xlim(), axes.get_ylim(), axes.get_zlim())]
    scales = [size / length for size, length in zip(BOX, lengths, strict=True)]
    y, z = (f"{scale / scales[0]:.2g}" for scale in scales[1:])
    axes.text2D(0.5, 0.95, title, transform=axes.transAxes, ha="center", fontsize=13)
    words = f"unequal axes: y is drawn {y} and z {z} times larger than x"
    axes.text2D(0.5, 0.90, words, transform=axes.transAxes, ha="center", fontsize=10, color=BLACK)


def _style(number: int) -> str:
    return STYLES[number % len(STYLES)]


def _beta_label(beta: float) -> str:
    return f"C = {beta:g} (v x)" if beta else "C = 0 (torsion-free)"


def _transverse_spectrum(result: TrackingResult) -> tuple[np.ndarray, np.ndarray]:
    t, v = np.asarray(result.motion.times), np.asarray(result.motion.v)
    return energy_spectrum(v[:, 1:], t[1] - t[0])


def _band(results: Sequence[TrackingResult]) -> float:
    """Frequency below which 95 % of the transverse energy of every motion lies, Hz."""
    edges = []
    for result in results:
        energy, frequency = _transverse_spectrum(result)
        total = np.cumsum(energy)
        edges.append(frequency[np.searchsorted(total, 0.95 * total[-1])])
    return float(max(edges))
