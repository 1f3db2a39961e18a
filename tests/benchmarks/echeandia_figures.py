"""Figures 3 to 5 of [E]: time against the number of joints, with fitted exponents beside the theory's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from competitors import binary_tree, built, chain, legs  # noqa: E402
from echeandia_times import Times, christoffel_time, coriolis_time  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

FIGURES = {
    "echeandia_chains.png": "Figure 3 of [E]: serial chains",
    "echeandia_trees.png": "Figure 4 of [E]: binary trees",
    "echeandia_legs.png": "Figure 5 of [E]: bipeds and quadrupeds",
}


@dataclass(frozen=True)
class Plan:
    """Which machines of a family are measured.

    Parameters
    ----------
    sizes : numbers of joints.
    fitted : the smallest and the largest size of the fit.
    theory : how the time grows, N being the number of bodies.
    """

    sizes: tuple[int, ...]
    fitted: tuple[int, int]
    theory: str


@dataclass(frozen=True)
class Family:
    """Machines of one shape and many sizes.

    Parameters
    ----------
    name, figure : what they are, and the file that shows them.
    parents : number of joints -> parents, as in `built`.
    floating : whether the first body floats.
    plans : for C and for Gamma.
    """

    name: str
    figure: str
    parents: Callable[[int], list[int]]
    floating: bool
    plans: dict[str, Plan]


FAMILIES = (
    Family(
        "serial chain",
        "echeandia_chains.png",
        chain,
        floating=False,
        plans={
            "C": Plan((5, 10, 20, 40, 80, 160, 320), (80, 320), "N^2"),
            "Gamma": Plan((5, 10, 15, 20, 30, 40, 50, 80, 120, 160), (15, 50), "N^3"),
        },
    ),
    Family(
        "binary tree",
        "echeandia_trees.png",
        binary_tree,
        floating=False,
        plans={
            "C": Plan((7, 15, 31, 63, 127, 255), (63, 255), "N log N"),
            "Gamma": Plan((7, 15, 31, 63, 127, 255), (31, 127), "N log^2 N"),
        },
    ),
    *(
        Family(
            name,
            "echeandia_legs.png",
            partial(legs, count),
            floating=True,
            plans={
                "C": Plan((8, 20, 40, 80, 160, 320), (80, 320), f"N d, d = N/{count}"),
                "Gamma": Plan((8, 20, 28, 36, 44, 80, 120, 160), (20, 44), f"N d^2, d = N/{count}"),
            },
        )
        for name, count in (("biped", 2), ("quadruped", 4))
    ),
)
NOTE = """
Exponents of nv, fitted over the range given, which is shaded in the figures. *Operations* is the exponent,
over the same range, of the number of pairs (C) and triples (Gamma) of joints on one path to the ground, which
the theory counts. Beside them the recursion does work in proportion to N, so that its own exponent is lower
where paths are short. The fits of Gamma end where nv^3 numbers no longer fit into a cache of 1 MB (those of
chains and legs; a tree writes few of them): beyond, the time is that of writing to memory. A *whole call*
also zeroes the dense result, nv^2 or nv^3 numbers, most of which a branched tree leaves at zero.
"""


@dataclass(frozen=True, eq=False)
class Scaling:
    """What was measured of one family.

    Parameters
    ----------
    family, what : the machines, and "C" or "Gamma".
    velocities : (m,) nv of each.
    operations : (m,) pairs (C) or triples (Gamma) of columns on one path.
    times : (m,) the times.
    """

    family: Family
    what: str
    velocities: np.ndarray
    operations: np.ndarray
    times: Sequence[Times]

    @property
    def plan(self) -> Plan:
        """Which machines, and the theory."""
        return self.family.plans[self.what]

    @property
    def fitted(self) -> np.ndarray:
        """Which of them are fitted, (m,)."""
        least, most = self.plan.fitted
        return np.array([least <= size <= most for size in self.plan.sizes])

    def exponent(self, values: np.ndarray) -> float:
        """Slope of log `values` against log nv over the fitted sizes."""
        x, y = np.log(self.velocities[self.fitted]), np.log(values[self.fitted])
        return float(np.polyfit(x, y, 1)[0])

    def route(self, route: str) -> np.ndarray:
        """Seconds of one route of `Times`, (m,), NaN where it was not measured."""
        return np.array([getattr(times, route) or np.nan for times in self.times])


def measure(family: Family, what: str, repeats: int) -> Scaling:
    """Times of C or Gamma, and numbers of operations, of a family."""
    velocities, operations, times = [], [], []
    for size in family.plans[what].sizes:
        pair = built(f"{family.name} of {size}", "", family.parents(size), floating=family.floating)
        kinematics = pair.model.kinematics
        depth = np.tril(kinematics.moves[kinematics.body_of]).sum(axis=1)  # columns on the path of each
        fewer = repeats if size <= 40 else max(3, repeats // 5)
        if what == "C":
            operations.append(depth.sum())
            times.append(coriolis_time(pair, fewer))
        else:
            operations.append((depth * (depth + 1) // 2).sum())
            times.append(christoffel_time(pair, fewer, definition=False))
        velocities.append(pair.model.nv)
    return Scaling(family, what, np.array(velocities), np.array(operations, dtype=float), times)


def scaling_table(folder: Path, repeats: int) -> list[str]:
    """Draw the figures into `folder`; the table of exponents, line by line."""
    rows = [
        "| machine | of | nv of the fit | recursion alone | operations | theory | whole call | Pinocchio |",
        "|---" * 8 + "|",
    ]
    scalings = [measure(family, what, repeats) for family in FAMILIES for what in family.plans]
    for file, title in FIGURES.items():
        draw(folder / file, title, [scaling for scaling in scalings if scaling.family.figure == file])
    for scaling in scalings:
        fitted = scaling.velocities[scaling.fitted]
        alone, public, pinocchio = (
            f"{scaling.exponent(scaling.route(route)):.2f}" for route in ("alone", "public", "pinocchio")
        )
        theory = f"{scaling.exponent(scaling.operations):.2f} | {scaling.plan.theory}"
        machine = f"{scaling.family.name} | {scaling.what} | {fitted[0]} to {fitted[-1]}"
        rows.append(f"| {machine} | {alone} | {theory} | {public} | {pinocchio} |")
    return ["### Exponents", "", *rows, NOTE.rstrip()]


_ROUTES = (
    ("alone", "recursion alone", "C0", "o-"),
    ("public", "whole call", "C0", ".--"),
    ("pinocchio", "Pinocchio", "C1", "s-"),
    ("autodiff", "autodiff", "C2", "^-"),
)


def draw(path: Path, title: str, scalings: Sequence[Scaling]) -> None:
    """One figure: time against nv, C on the left and Gamma on the right, a row per family."""
    lines = len(scalings) // 2
    figure, axes = plt.subplots(lines, 2, figsize=(9, 4.4 * lines), squeeze=False)
    for axis, scaling in zip(axes.flat, scalings, strict=True):
        _draw_routes(axis, scaling)
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _draw_routes(axis: Axes, scaling: Scaling) -> None:
    x, alone, operations = scaling.velocities, scaling.route("alone"), scaling.operations
    for route, label, color, style in _ROUTES:
        y = scaling.route(route)
        if route != "autodiff":
            label += f", exponent {scaling.exponent(y):.2f}"
        axis.plot(x, 1e6 * y, style, color=color, label=label, linewidth=1.2, markersize=4)
    label = f"theory, {scaling.plan.theory}: {scaling.exponent(operations):.2f}"
    y = 1e6 * alone[scaling.fitted][-1] / operations[scaling.fitted][-1] * operations
    axis.plot(x, y, ":", color="k", label=label)
    axis.axvspan(*x[scaling.fitted][[0, -1]], color="0.93", zorder=0)
    axis.set(xlabel="velocities", ylabel="time [us]", title=f"{scaling.what}, {scaling.family.name}s")
    axis.set(xscale="log", yscale="log")
    axis.set_xticks(x, [str(nv) for nv in x], fontsize=7)
    axis.minorticks_off()
    axis.grid(True, linewidth=0.3)
    axis.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
