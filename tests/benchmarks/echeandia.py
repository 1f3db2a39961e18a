"""Tables 1 and 2 and Figures 3 to 5 of [E], measured: `python tests/benchmarks/echeandia.py`.

Table 1 is about validity, Table 2 and the figures about time: of this library, of Pinocchio and of automatic
differentiation, in the same run on one core (--all-cores: not pinned), beside the numbers of the paper and
the exponents of its theory. The figures are drawn into docs/figures; --markdown PATH writes the tables into
the page that recursions.py writes, below its own.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from core import ROOT  # first: it pins the process before NumPy is imported  # isort: skip

import jax
import numpy as np
import pinocchio as pin
from competitors import Pair, binary_tree, built, chain, legs
from echeandia_figures import FIGURES, scaling_table
from echeandia_times import christoffel_time, coriolis_time
from recursions_page import REPRODUCTION, heading, write_part

from connections import multibody as mb

SAMPLES = 100
VALIDITY = {  # [E] Table 1
    "C v - tau (RNEA)": (5.7e-14, 7.3e-12, 2.9e-11),
    "Hdot - (C + C^T)": (3.6e-15, 5.7e-14, 2.3e-13),
    "sum_k Gamma_11k v_k - C_11": (1.1e-13, 7.3e-12, 1.0e-12),
}
SYSTEMS = {  # [E] Table 2: parents, floating base, us for C, us for Gamma
    "serial chain, 20": (chain(20), False, 18, 122),
    "binary tree, 20": (binary_tree(20), False, 10, 33),
    "biped, 6 + 20": (legs(2, 20), True, 13, 64),
    "quadruped, 6 + 20": (legs(4, 20), True, 10, 37),
}

TEXT = """
`python tests/benchmarks/echeandia.py --markdown docs/benchmarks_recursions.md` writes this part. Chains,
trees and legs have revolute joints at random placements between random bodies; the numbers of joints are
those of the paper, its masses and lengths are not known. The paper's times are of its C++ code on its own
machine.
"""
VALIDITY_NOTE = """
Over {samples} random q, v; tau of Pinocchio, Hdot by differentiating the definition of H.
"""
TIMES_NOTE = """
Microseconds. *Recursion alone*: within compiled code, without the entrance from Python and the zeroing of the
result. *Pinocchio*: its Python call; for Gamma, one for each unit velocity. *Autodiff*: JAX, C of the
definition A = X Phi, Gamma from derivatives of H; *definition*: JAX, Gamma of the induced connection.
"""


def residuals(count: int) -> tuple[list[float], float]:
    """The three residuals of Table 1 for a chain of `count` bodies, and the last one over all i and j."""
    pair, rng = built("chain", "chain", chain(count)), np.random.default_rng(4)
    model = pair.model
    pair.other.model.gravity = pin.Motion.Zero()
    rate = jax.jit(lambda q, v: jax.jvp(model.definition.metric.matrix_at, (q,), (v,))[1])
    worst = np.zeros(4)
    for _ in range(SAMPLES):
        q, v = model.random(rng), rng.standard_normal(count)
        C, Gamma = mb.coriolis_matrix(model, q, v), mb.christoffel_symbols(model, q)
        tau = pair.other.inverse_dynamics(q, v, np.zeros(count))
        gaps = [C @ v - tau, rate(q, v) - (C + C.T), Gamma[0, 0] @ v - C[0, 0], Gamma @ v - C]
        worst = np.maximum(worst, [np.max(np.abs(gap)) for gap in gaps])
    return list(worst[:3]), float(worst[3])


def validity() -> list[str]:
    """Table 1."""
    counts = (5, 10, 15)
    found = {count: residuals(count) for count in counts}
    rows = ["| largest of | " + " | ".join(f"N = {n} | [E]" for n in counts) + " |", "|---" * 7 + "|"]
    for row, (what, theirs) in enumerate(VALIDITY.items()):
        cells = [f"{found[n][0][row]:.1e} | {paper:.1e}" for n, paper in zip(counts, theirs, strict=True)]
        rows.append(f"| {what} | {' | '.join(cells)} |")
    cells = [f"{found[n][1]:.1e} | " for n in counts]
    rows.append(f"| sum_k Gamma_ijk v_k - C_ij, all i, j | {' | '.join(cells)} |")
    return ["### Table 1", "", *rows, VALIDITY_NOTE.rstrip().format(samples=SAMPLES)]


def times(repeats: int) -> list[str]:
    """Table 2, microseconds."""
    columns = ("here", "recursion alone", "Pinocchio", "autodiff", "definition", "[E]")
    names = [f"C, {column}" for column in columns if column != "definition"]
    names += [f"Gamma, {column}" for column in columns]
    rows = [f"| system | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|"]
    for name, (parents, floating, C_paper, Gamma_paper) in SYSTEMS.items():
        pair: Pair = built(name, "", parents, floating=floating)
        C, Gamma = coriolis_time(pair, repeats), christoffel_time(pair, repeats, definition=True)
        found = [C.public, C.alone, C.pinocchio, C.autodiff]
        cells = [_microseconds(seconds) for seconds in found] + [str(C_paper)]
        found = [Gamma.public, Gamma.alone, Gamma.pinocchio, Gamma.autodiff, Gamma.definition]
        cells += [_microseconds(seconds) for seconds in found] + [str(Gamma_paper)]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return ["### Table 2", "", *rows, TIMES_NOTE.rstrip()]


def _microseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e6 * seconds:.3g}" if seconds < 1e-3 else f"{1e6 * seconds:.0f}"


def main() -> int:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=30, help="blocks of calls per median")
    parser.add_argument("--no-figures", action="store_true", help="tables only")
    parser.add_argument("--figures", type=Path, default=ROOT / "docs" / "figures", help="where they go")
    parser.add_argument("--all-cores", action="store_true", help="do not pin the process to one core")
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="also write into this page")
    options = parser.parse_args()
    lines = ["\n".join(heading()), TEXT.strip(), "\n".join(validity()), "\n".join(times(options.repeats))]
    print("\n\n".join(lines), flush=True)
    if not options.no_figures:
        options.figures.mkdir(parents=True, exist_ok=True)
        table = scaling_table(options.figures, options.repeats)
        pictures = [f"![{caption}](figures/{file})" for file, caption in FIGURES.items()]
        lines += ["\n".join(table), "\n\n".join(pictures)]
        print("\n" + "\n".join(table))
    if options.markdown:
        write_part(options.markdown, REPRODUCTION, "\n\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
