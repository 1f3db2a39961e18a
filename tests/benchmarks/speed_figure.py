"""The figure of speed in README.md: `python tests/benchmarks/speed_figure.py docs/figures/speed.png`.

Medians of warm calls of the public functions of this library and of Pinocchio's Python package, validation
included, on one core and with one thread, all in one run. The calls take turns, on values first compared to
1e-9 of their size. `recursions.py` measures more robots and more functions.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import core  # noqa: F401  (first: it pins the process before NumPy is imported)  # isort: skip

import numpy as np
import pinocchio as pin
from competitors import Call, Pair, medians
from matplotlib.ticker import FormatStrFormatter
from recursions import require_equal, robots
from recursions_page import heading

from connections import multibody as mb
from connections.plots.canvas import BLUE, RED, new_figure

BATCH = 256  # whose results stay in the processor's cache
ROBOTS = {"UR5": "UR5, an arm", "ANYmal": "ANYmal, a quadruped on a floating base"}


def calls(pair: Pair) -> dict[str, tuple[Call, Call, int]]:
    """(ours, Pinocchio's, how many configurations ours computes) by what is computed."""
    model, q, v, a = pair.model, pair.q, pair.v, pair.a
    rng = np.random.default_rng(3)
    many_q = np.stack([model.random(rng) for _ in range(BATCH)])
    many_v = rng.standard_normal((BATCH, model.nv))
    out = np.empty((BATCH, model.nv, model.nv))
    batch = partial(mb.coriolis_matrix, model, many_q, many_v, out=out)
    batch()
    require_equal(pair, out[-1], mb.coriolis_matrix(model, many_q[-1], many_v[-1]))
    coriolis = pair.theirs(pin.computeCoriolisMatrix, pair.v_other)
    columns = [pair.theirs(pin.computeCoriolisMatrix, e) for e in np.eye(model.nv)]

    def christoffel() -> None:
        for column in columns:
            column()

    def one(function: Any, *arguments: np.ndarray) -> Call:
        return partial(function, model, *arguments)

    va_other = (pair.v_other, pair.a_other)
    return {
        "mass matrix": (one(mb.mass_matrix, q), pair.theirs(pin.crba), 1),
        "inverse dynamics": (one(mb.inverse_dynamics, q, v, a), pair.theirs(pin.rnea, *va_other), 1),
        "forward dynamics": (one(mb.forward_dynamics, q, v, a), pair.theirs(pin.aba, *va_other), 1),
        "Coriolis matrix": (one(mb.coriolis_matrix, q, v), coriolis, 1),
        f"the same, each of {BATCH}": (batch, coriolis, BATCH),
        "all Christoffel symbols": (one(mb.christoffel_symbols, q), christoffel, 1),
    }


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("path", type=Path, help="the PNG file")
    parser.add_argument("--repeats", type=int, default=200, help="blocks of calls per median")
    options = parser.parse_args()
    mb.set_num_threads(1)
    print(*heading(), sep="\n")
    figure = new_figure(8.4, 2.9)
    figure.set_layout_engine("constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (name, title) in zip(panels, ROBOTS.items(), strict=True):
        pair = robots()[name]()
        pair.require_agreement()
        rows = calls(pair)
        times = [call for ours, theirs, _ in rows.values() for call in (ours, theirs)]
        found = 1e6 * np.reshape(medians(times, options.repeats), (-1, 2))
        found[:, 0] /= [count for _, _, count in rows.values()]
        print(f"\n{title}, {pair.model.nv} velocities [us]", f"{'':28}  here  Pinocchio", sep="\n")
        for what, (here, there) in zip(rows, found, strict=True):
            print(f"{what:<28}{here:6.2f}{there:11.2f}  ({there / here:.2f} times)")
        draw(axes, list(rows), found)
        axes.set_title(title, fontsize=10)
    panels[0].invert_yaxis()
    panels[0].legend(frameon=False, fontsize=9, loc="upper right")
    figure.savefig(options.path)


def draw(axes: Any, names: list[str], times: np.ndarray) -> None:
    """Two dots a row at times (m, 2), us, on a logarithmic axis."""
    rows = np.arange(len(names))
    axes.hlines(rows, times.min(axis=1), times.max(axis=1), color="#c8c8c8", lw=2.5, zorder=1)
    for column, (label, color, marker) in enumerate((("this library", BLUE, "o"), ("Pinocchio", RED, "D"))):
        axes.plot(times[:, column], rows, marker, color=color, ms=6, label=label)
        for row, time in enumerate(times[:, column]):
            last = time == times[row].max()
            place = {"xytext": (7 if last else -7, 0), "ha": "left" if last else "right"}
            text = f"{time:.2f}" if time < 10.0 else f"{time:.0f}"
            offset = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": color}
            axes.annotate(text, (time, row), **place, **offset)
    axes.set_xscale("log")
    axes.set_xlim(0.04, 250.0)
    axes.set_yticks(rows, names, fontsize=9)
    axes.set_xlabel("time of a call from Python [µs]", fontsize=9)
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
