"""Figures of the paper, drawn from the library's own computations.

Figure 3: three vectors carried along a geodesic by four connections on R^3. Figures 4 to 7: the tracking
example. The sweep: tracking error, effort and frequency content against beta. Every function returns a
matplotlib Figure that belongs to no window; matplotlib is imported when the first figure is drawn.
Source: [W] Figs 3 to 7.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.integrate import solve_ivp

from connections.affine import ContorsionConnection
from connections.checks import require_writable
from connections.control.tracking_example import (
    MEASURES,
    PAPER_BETAS,
    TrackingResult,
    desired_position,
    energy_spectrum,
    explore,
    table,
)
from connections.geometry import ConstantMetric, CoordinateFrame
from connections.plots.canvas import BLACK, BLUE, GREEN, GREY, RED, color, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = ("-", "--", ":", "-.")
FIRST_MOMENTS = 3.0  # s shown enlarged in Fig. 6


def four_contorsions() -> dict[tuple[bool, bool], np.ndarray]:
    """Constant contorsions D[i, j, k] on R^3, by (metric compatible, Riemannian geodesics).

    Totally antisymmetric; antisymmetric in (1, 3) only; in (2, 3) only; in neither pair.
    Source: [W] Fig. 3, Props III.1 and III.2.
    """
    volume = np.zeros((3, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        volume[i, j, k], volume[i, k, j] = 1.0, -1.0
    axis = np.array([1.0, 0.0, 1.0]) / np.sqrt(2.0)
    helix = np.einsum("iak,a,j->ijk", volume, axis, axis)  # D(v, z) = (a.v) a x z: rotation about a
    stretch = np.zeros((3, 3, 3))
    for i, k, size in ((1, 1, 0.22), (2, 2, -0.22), (2, 1, 0.2)):  # green grows and leans, blue shrinks
        stretch[i, 0, k] += size
        stretch[i, k, 0] -= size
    both = stretch.copy()
    both[1, 0, 0] += 0.25  # the geodesic bends
    both[2, 0, 0] += 0.12
    return {
        (True, True): 0.55 * volume,
        (True, False): 1.0 * helix,
        (False, True): stretch,
        (False, False): both,
    }


def transported_frames(contorsions: Any, times: Any) -> tuple[np.ndarray, np.ndarray]:
    """Geodesics along e_1 from the origin of Euclidean R^3, and the unit triad transported along them.

    Parameters
    ----------
    contorsions : (m, 3, 3, 3) constant D[i, j, k], one connection each.
    times : (T,) increasing, s.

    Returns
    -------
    q (m, T, 3), z (m, T, 3, 3) with z[a, t, b] the b-th transported vector.
    """
    metric = ConstantMetric(CoordinateFrame(3), np.eye(3))

    def one(D: np.ndarray) -> np.ndarray:
        Gamma = np.asarray(ContorsionConnection(metric, lambda q: D).coefficients(np.zeros(3)))  # everywhere

        def rate(t: float, y: np.ndarray) -> np.ndarray:
            z = y[3:].reshape(3, 3)  # the first transported vector is the geodesic's velocity
            return np.concatenate([z[0], -np.einsum("ijk,j,ak->ai", Gamma, z[0], z).ravel()])

        start = np.concatenate([np.zeros(3), np.eye(3).ravel()])
        ends = float(times[0]), float(times[-1])
        states: np.ndarray = solve_ivp(rate, ends, start, "DOP853", times, rtol=1e-10, atol=1e-12).y
        return states.T

    y = np.stack([one(D) for D in np.asarray(contorsions)])
    return y[..., :3], y[..., 3:].reshape(*y.shape[:2], 3, 3)


def figure_3() -> Figure:
    """Four connections on R^3: three vectors transported along a geodesic each. Source: [W] Fig. 3."""
    figure = new_figure(10.0, 8.0)
    kinds = {
        (True, True): "D totally antisymmetric",
        (False, True): "D antisymmetric in (2, 3) only",
        (True, False): "D antisymmetric in (1, 3) only",
        (False, False): "D antisymmetric in neither",
    }  # row by row
    contorsions = four_contorsions()
    q, z = transported_frames(np.stack([contorsions[kind] for kind in kinds]), np.linspace(0.0, 4.0, 61))
    for number, words in enumerate(kinds.values()):
        axes = figure.add_subplot(2, 2, number + 1, projection="3d")
        _draw_transport(axes, q[number], z[number], every=6)
        axes.set_title(words, fontsize=11, y=1.02)
    for x, answer in ((0.28, "yes"), (0.76, "no")):
        figure.text(x, 0.965, f"metric compatible: {answer}", ha="center", fontsize=13, weight="bold")
    for y, answer in ((0.70, "yes"), (0.25, "no")):
        words = f"Riemannian geodesics: {answer}"
        figure.text(0.015, y, words, rotation=90, va="center", fontsize=13, weight="bold")
    caption = "three vectors, orthonormal at the start, transported along the geodesic of the red one"
    figure.text(0.52, 0.02, caption, ha="center", fontsize=10)
    figure.subplots_adjust(left=0.05, right=0.98, bottom=0.05, top=0.90, wspace=0.02, hspace=0.10)
    return figure


def figure_states(result: TrackingResult, title: str) -> Figure:
    """Position and velocity components against time, desired ones dashed. Source: [W] Figs 4 and 5.

    Parameters
    ----------
    result : one motion of the tracking example.
    title : heading of the figure.
    """
    figure = new_figure(8.0, 6.0)
    t, q, v = (np.asarray(x) for x in (result.motion.times, result.motion.q, result.motion.v))
    upper, lower = figure.subplots(2, 1, sharex=True)
    q_d, v_d = np.asarray(t + np.sin(t)), 1.0 + np.cos(t)
    for axes, values, desired, symbol in ((upper, q, q_d, "q"), (lower, v, v_d, "\\dot q")):
        axes.plot(t, desired, color=BLACK, lw=1.2, ls="--", label=f"${symbol}_{{d,x}}$")
        for k, (name, shade) in enumerate(zip("xyz", (RED, GREEN, BLUE), strict=True)):
            axes.plot(t, values[:, k], color=shade, lw=1.6, label=f"${symbol}_{name}$")
        axes.grid(alpha=0.3)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    upper.set_ylabel("position [m]")
    lower.set_ylabel("velocity [m/s]")
    lower.set_xlabel("time [s]")
    lower.set_xlim(t[0], t[-1])
    upper.set_title(title)
    figure.tight_layout()
    return figure


def figure_6(results: Sequence[TrackingResult]) -> Figure:
    """Trajectories in space for several beta; the first moments on the right. Source: [W] Fig. 6.

    Parameters
    ----------
    results : motions of the tracking example.
    """
    figure = new_figure(11.0, 5.2)
    whole, detail = (figure.add_subplot(1, 2, k, projection="3d") for k in (1, 2))
    for axes, last in ((whole, np.inf), (detail, FIRST_MOMENTS)):
        for number, result in enumerate(results):
            t, q = np.asarray(result.motion.times), np.asarray(result.motion.q)
            x, y, z = q[t <= last].T
            axes.plot(x, y, z, color=color(number), ls=_style(number), lw=1.8, label=_beta_label(result.beta))
        t = np.asarray(results[0].motion.times)
        line = np.asarray([desired_position(time) for time in t[t <= last][::20]])
        axes.plot(*line.T, color=BLACK, ls=(0, (4, 3)), lw=1.0, label="desired")
        axes.scatter(*np.asarray(results[0].motion.q)[0], color=BLACK, s=22, zorder=5)
        for name, setter in zip("xyz", (axes.set_xlabel, axes.set_ylabel, axes.set_zlabel), strict=True):
            setter(f"{name} [m]")
        axes.view_init(elev=22, azim=-60)
        axes.locator_params(nbins=5)
    whole.set_title("whole motion")
    detail.set_title(f"first {FIRST_MOMENTS:g} s")
    handles, labels = whole.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=len(labels), frameon=False)
    figure.subplots_adjust(left=0.02, right=0.95, bottom=0.14, top=0.93, wspace=0.08)
    return figure


def figure_7(results: Sequence[TrackingResult]) -> Figure:
    """Lyapunov functions for several beta. Source: [W] Fig. 7.

    Parameters
    ----------
    results : motions of the tracking example.
    """
    figure = new_figure(8.0, 4.6)
    linear, logarithmic = figure.subplots(1, 2)
    for axes in (linear, logarithmic):
        for number, result in enumerate(results):
            t, V = np.asarray(result.motion.times), np.asarray(result.motion.lyapunov)
            axes.plot(t, V, color=color(number), ls=_style(number), lw=1.8, label=_beta_label(result.beta))
        axes.set_xlabel("time [s]")
        axes.set_xlim(t[0], t[-1])
        axes.grid(alpha=0.3)
    linear.set_ylabel(r"$V = \frac{1}{2} s^{\top} H s$ [J]")
    linear.legend(frameon=False)
    logarithmic.set_yscale("log")
    logarithmic.set_title("logarithmic scale")
    linear.set_title("Lyapunov function")
    figure.tight_layout()
    return figure


def figure_sweep(results: Sequence[TrackingResult]) -> Figure:
    """Tracking error, effort and frequency content against beta.

    Parameters
    ----------
    results : motions of the tracking example, any order of beta.
    """
    figure = new_figure(9.0, 6.4)
    ordered = sorted(results, key=lambda result: result.beta)
    beta = [result.beta for result in ordered]
    panels = (
        ("rms_error", "rms tracking error [m]"),
        ("effort", r"effort $\int |\tau|^2 dt$ [N$^2$ s]"),
        ("zero_crossings", r"zero crossings of $v_z$"),
        ("rms_frequency", "rms frequency [Hz]"),
    )
    for axes, (name, label) in zip(figure.subplots(2, 2, sharex=True).flat, panels, strict=True):
        axes.plot(beta, [getattr(r, name) for r in ordered], "o-", color=BLUE, lw=1.4, ms=5)
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        if name != "rms_error":
            axes.set_ylim(bottom=0.0)
    for axes in figure.axes[2:]:
        axes.set_xlabel(r"$\beta$ [kg/m] in $C = \beta\,(v\times)$")
    figure.tight_layout()
    return figure


def figure_spectra(results: Sequence[TrackingResult]) -> Figure:
    """Amplitude of the transverse velocity (v_y, v_z) against frequency.

    Parameters
    ----------
    results : motions of the tracking example.
    """
    figure = new_figure(8.0, 4.6)
    axes = figure.subplots()
    for number, result in enumerate(results):
        energy, frequency = _transverse_spectrum(result)
        axes.plot(
            frequency,
            np.sqrt(energy),
            color=color(number),
            ls=_style(number),
            label=_beta_label(result.beta),
        )
    axes.set_xlim(0.0, 1.2 * max(_band(results), 2.0))
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("frequency [Hz]")
    axes.set_ylabel("amplitude density of the transverse velocity [m]")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.tight_layout()
    return figure


def write_figures(directory: str | Path, pdf: bool = False) -> list[Path]:
    """Write Figs 3 to 7 as PNG files.

    Parameters
    ----------
    directory : where; made if it is missing.
    pdf : whether to write PDF files as well.

    Returns
    -------
    list of Path, in the order of the figures.

    Raises
    ------
    OSError : the directory cannot be written; nothing was computed.
    """
    require_writable(Path(directory))
    results = explore(PAPER_BETAS)
    free, torsion = results[0], results[1]
    figures = {
        "figure_3_four_connections": figure_3(),
        "figure_4_torsion_free": figure_states(free, "Torsion-free: C = 0"),
        "figure_5_torsion": figure_states(torsion, f"With torsion: C = {torsion.beta:g} (v x)"),
        "figure_6_trajectories": figure_6(results),
        "figure_7_lyapunov": figure_7(results),
    }
    return _write(directory, figures, pdf)


def write_exploration(
    directory: str | Path, betas: Sequence[float] = PAPER_BETAS, pdf: bool = False
) -> tuple[list[Path], str]:
    """Sweep beta in the tracking example; write figures, a Markdown and a CSV table.

    Parameters
    ----------
    directory : where; made if it is missing.
    betas : factors of (v x), kg/m.
    pdf : whether to write PDF files as well.

    Returns
    -------
    (paths, text) : the files and the table that they hold.

    Raises
    ------
    ShapeError, NonFiniteError : betas is empty or not a list of finite numbers.
    OSError : the directory cannot be written; nothing was computed.
    """
    require_writable(Path(directory))
    results = explore(betas)
    figures = {
        "exploration_trajectories": figure_6(results),
        "exploration_lyapunov": figure_7(results),
        "exploration_spectra": figure_spectra(results),
    }
    if len(results) > 1:
        figures["exploration_sweep"] = figure_sweep(results)
    paths = _write(directory, figures, pdf)
    text = table(results)
    markdown, comma = Path(directory) / "exploration.md", Path(directory) / "exploration.csv"
    markdown.write_text(text + "\n", encoding="utf-8")
    with comma.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, MEASURES)
        writer.writeheader()
        writer.writerows(result.to_dict() for result in results)
    return [*paths, markdown, comma], text


def _write(directory: str | Path, figures: dict[str, Figure], pdf: bool) -> list[Path]:
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in figures.items():
        for suffix in (".png", ".pdf") if pdf else (".png",):
            paths.append(folder / f"{name}{suffix}")
            figure.savefig(paths[-1])
    return paths


def _draw_transport(axes: Any, q: np.ndarray, z: np.ndarray, every: int) -> None:
    """The geodesic, and the transported triads z (T, 3 vectors, 3) along it."""
    axes.plot(*q.T, color=GREY, lw=1.4)
    for k in range(0, len(q), every):
        for vector, shade in zip(z[k], (RED, GREEN, BLUE), strict=True):
            axes.quiver(*q[k], *(0.6 * vector), color=shade, lw=1.5, arrow_length_ratio=0.25)
    points = np.concatenate([q[:, None], q[:, None] + 0.6 * z], axis=1).reshape(-1, 3)
    low, high = points.min(axis=0), points.max(axis=0)
    centre, half = (low + high) / 2, np.maximum((high - low) / 2, 0.55) + 0.15
    for setter, c, h in zip((axes.set_xlim, axes.set_ylim, axes.set_zlim), centre, half, strict=True):
        setter(c - h, c + h)
    axes.set_box_aspect(half, zoom=1.02 if half.max() > 2.0 * half.min() else 0.95)
    axes.view_init(elev=24, azim=-62)
    axes.locator_params(nbins=4)
    axes.tick_params(labelsize=7, pad=-2)


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
