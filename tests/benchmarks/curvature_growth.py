"""How the times of curvature and of second derivatives grow with the number of joints.

    python tests/benchmarks/curvature_growth.py [--markdown docs/benchmarks_recursions.md]

Chains and binary trees of revolute joints, in one process on one core. The table is printed, and with
--markdown written into the page; the figure is drawn into docs/figures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core import ROOT  # first: it pins the process before NumPy is imported  # isort: skip

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from alone import alone  # noqa: E402
from competitors import binary_tree, built, chain, medians  # noqa: E402
from recursions_page import GROWTH, heading, write_part  # noqa: E402

from connections.multibody import functions  # noqa: E402
from connections.multibody.program.table import RECURSIONS  # noqa: E402

FIGURE = "curvature_growth.png"
CACHE = 2**20  # bytes of a core's own cache
ALONE = 5e-4  # seconds: the recursion alone runs about so long in one compiled call
MACHINES: dict[str, Callable[[int], list[int]]] = {"chain": chain, "tree": binary_tree}

TEXT = """
`python tests/benchmarks/curvature_growth.py --markdown docs/benchmarks_recursions.md` writes this part.
Chains and binary trees have revolute joints at random placements between random bodies.
"""
NOTE = """
Exponents of nv, fitted over the range given, whose points the figure joins. *Recursion alone*: within
compiled code, without the entrance from Python and the zeroing of the result. *Theory*: of columns on one
path to the ground, N d counts pairs, N d^2 triples and N d^3 quadruples; d is the depth. N^3 and N^4 are
products of dense matrices and tensors. The sum over p for R multiplies the symbols Gamma_pki and Gamma_pmj,
whose columns are on one path, for each p: N^5 for a chain. *Its exponent* is that of the number of these
operations, counted for the machines of the fit. Beside them a recursion does work in proportion to N, so that
its own exponent is lower. The fits end where workspace and result, less the zeros of branches, no longer fit
into a core's cache of 1 MB; beyond, the time is that of memory. A *whole call* also zeroes the dense result.

![Time against the number of joints, with the fitted exponents](figures/curvature_growth.png)
"""


Count = Callable[[np.ndarray], float]


def paths(columns: int) -> Count:
    """Of (nv, nv), which columns are on one path: sum_c d_c^(columns - 1), d_c the depth of column c."""
    return lambda related: float(np.sum(np.tril(related).sum(axis=1, dtype=float) ** (columns - 1)))


def dense(power: int) -> Count:
    """nv^power."""
    return lambda related: float(len(related)) ** power


def products(related: np.ndarray) -> float:
    """nv^4 numbers, and for each p the square of the number of pairs k, i with p, k, i on one path."""
    x = related.astype(float)
    pairs = np.einsum("pk,pi,ki->p", x, x, x, optimize=True)
    return float(np.sum(pairs**2)) + dense(4)(related)


@dataclass(frozen=True)
class Plan:
    """How the time of a recursion should grow, and for which machines it is measured.

    Parameters
    ----------
    theory : the number of operations, in words.
    count : the same, a function of which columns are on one path.
    sizes : numbers of joints that are measured, for each machine.
    """

    theory: str
    count: Count
    sizes: dict[str, tuple[int, ...]]


MATRICES = {"chain": (10, 20, 38, 75, 130), "tree": (7, 15, 31, 63, 127, 255)}
TENSORS = {"chain": (8, 12, 18, 23, 30, 44), "tree": (7, 10, 15, 22, 31, 63)}
LARGE = {"chain": (6, 8, 10, 12, 15, 18, 26), "tree": (5, 7, 10, 15, 18, 31)}
SPARSE = LARGE | {"tree": (5, 7, 10, 15, 31, 63)}
PLANS = {
    "coriolis_matrix_rate": Plan("N d", paths(2), MATRICES),
    "curvature_operator": Plan("N d + N^3", dense(3), MATRICES),
    "inverse_dynamics_hessian_product": Plan("N d", paths(2), MATRICES),
    "forward_dynamics_hessian_product": Plan("N d + N^3", dense(3), MATRICES),
    "inverse_dynamics_second_derivatives": Plan("N d^2", paths(3), TENSORS),
    "forward_dynamics_second_derivatives": Plan("N^4", dense(4), TENSORS),
    "christoffel_derivatives": Plan("N d^3", paths(4), SPARSE),
    "curvature": Plan("N^4 + sum over p", products, LARGE),
}


@dataclass(frozen=True, eq=False)
class Curve:
    """What was measured of one recursion on one kind of machine.

    Parameters
    ----------
    recursion, machine : their names.
    nv, operations, cached : (m,) velocities, what the theory counts, whether the cache holds all numbers.
    alone, public : (m,) seconds without and with the entrance and the zeroing.
    """

    recursion: str
    machine: str
    nv: np.ndarray
    operations: np.ndarray
    cached: np.ndarray
    alone: np.ndarray
    public: np.ndarray

    def exponent(self, values: np.ndarray) -> float:
        """Slope of log `values` against log nv over the sizes that the cache holds."""
        return float(np.polyfit(np.log(self.nv[self.cached]), np.log(values[self.cached]), 1)[0])

    @property
    def row(self) -> str:
        """Its line of the table."""
        name, plan = f"`{self.recursion}` | {self.machine}", PLANS[self.recursion]
        first, *_, last = self.nv[self.cached]
        cells = [self.exponent(x) for x in (self.alone, self.operations, self.public)]
        alone_, theory, public = (f"{cell:.2f}" for cell in cells)
        return f"| {name} | {first} to {last} | {alone_} | {plan.theory} | {theory} | {public} |"


def measure(recursion: str, machine: str, repeats: int) -> Curve:
    """Times of a recursion on machines of all sizes."""
    plan, columns, rng = PLANS[recursion], [], np.random.default_rng(0)
    for size in plan.sizes[machine]:
        model = built(f"{machine} of {size}", "", MACHINES[machine](size)).model
        row, moves = RECURSIONS[recursion], model.kinematics.moves[model.kinematics.body_of]
        q, vectors = model.random(rng), rng.standard_normal((len(row.vectors), model.nv))
        out = np.empty(row.core(model.nv, size))
        loop = partial(alone(recursion), model.program.memory, q, vectors.ravel(), out)
        if not loop(1):
            raise SystemExit("the recursion refuses its input")
        times = max(1, round(ALONE / medians([partial(loop, 1)], 3)[0]))
        calls = [
            partial(loop, times),
            partial(
                getattr(functions, recursion),
                model,
                q,
                *vectors,
                out=out,
            ),
        ]
        inner, public = medians(calls, repeats)
        written = row.nonzero(model.kinematics.moves, model.kinematics.body_of).sum()
        cached = model.program.memory.nbytes + 8 * written <= CACHE
        columns.append((model.nv, plan.count(moves | moves.T), cached, inner / times, public))
        print(
            f"  {recursion}, {machine} of {size}: {1e6 * inner / times:.1f}, {1e6 * public:.1f} us",
            flush=True,
        )
    return Curve(recursion, machine, *map(np.array, zip(*columns, strict=True)))


def draw(path: Path, curves: list[Curve]) -> None:
    """Time of the recursion alone against nv, a panel for each, and what the theory counts beside it."""
    figure, axes = plt.subplots(2, 4, figsize=(14, 7.2), layout="constrained")
    for axis, recursion in zip(axes.flat, PLANS, strict=True):
        for curve in (curve for curve in curves if curve.recursion == recursion):
            color = {"chain": "#1f5fbf", "tree": "#c8102e"}[curve.machine]
            label = f"{curve.machine}, {curve.exponent(curve.alone):.2f}"
            axis.plot(curve.nv, 1e6 * curve.alone, "o", color=color, markersize=4, label=label)
            shown, last = curve.cached, np.flatnonzero(curve.cached)[-1]
            axis.plot(curve.nv[shown], 1e6 * curve.alone[shown], "-", color=color, linewidth=1.2)
            theory = 1e6 * curve.alone[last] / curve.operations[last] * curve.operations
            label = f"theory, {curve.exponent(curve.operations):.2f}"
            axis.plot(curve.nv[shown], theory[shown], ":", color=color, label=label)
        axis.set(xscale="log", yscale="log", xlabel="velocities", ylabel="time [us]")
        ticks = [nv for nv in (5, 10, 20, 50, 100, 200) if axis.get_xlim()[0] <= nv <= axis.get_xlim()[1]]
        axis.set_xticks(ticks, [str(nv) for nv in ticks])
        axis.xaxis.minorticks_off()
        axis.set_title(f"{recursion}\n{PLANS[recursion].theory}", fontsize=8.5)
        axis.grid(True, linewidth=0.3)
        axis.legend(fontsize=7, loc="lower right")
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main() -> int:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=15, help="blocks of calls per median")
    parser.add_argument("--figures", type=Path, default=ROOT / "docs" / "figures", help="where it is drawn")
    parser.add_argument("--all-cores", action="store_true", help="do not pin the process to one core")
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="also write into this page")
    options = parser.parse_args()
    lines = [*heading(), TEXT]
    curves = [measure(recursion, machine, options.repeats) for recursion in PLANS for machine in MACHINES]
    lines.append(
        "| recursion | machine | nv of the fit | recursion alone | theory | its exponent | whole call |"
    )
    lines += ["|---" * 7 + "|", *(curve.row for curve in curves), NOTE]
    print("\n".join(lines))
    draw(options.figures / FIGURE, curves)
    if options.markdown:
        write_part(options.markdown, GROWTH, "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
