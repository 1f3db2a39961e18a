"""The page docs/benchmarks_closed_chains.md, made of what `closed_chains.py` measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from closed_growth import Curve
from recursions_page import Entry

QUANTITIES = ("C", "Gamma", "H", "inverse dynamics", "forward dynamics")

INTRODUCTION = """# Benchmarks of closed chains

Times are microseconds, medians of warm calls through the public functions in Python, validation and the
solution of the loops included, on one core and with one thread. Calls that are compared took turns in the
same run, on values that were compared to 1e-9 first. The number in brackets is the time of that
way over ours; **missed** stands beside a target that was missed.

- *Spanning tree*: the same function of this library on the robot cut at its loops, which has as many bodies
  and more velocities. Target for C of the two robots with floating base and rotors: 0.77 in brackets, so that
  ours takes at most 1.3 times as long.
- *Pinocchio*: its function of the spanning tree, from Python, and the projection in NumPy: `G^T H G`,
  `G^T C G`, for Gamma one C for each unit velocity, for forward dynamics a linear solve. G is constant in
  these robots, so that nothing has to be solved; where G depends on q there is no such column. Target for
  C: 3.
- *Loops alone*: the compiled solver from the reference configuration, which all times of ours contain.
- *1024 C, 64 Gamma*: the time of each in a batch; in brackets, the time of a single call over it. Beside it
  the batch of the spanning tree; in brackets, its time over ours.
- *From guesses, and solved*: 16 random configurations, one call after the other, by paths from the
  reference, from guesses 0.005 rad or m away (`close_loops` and C), and with loops that have been solved, a
  `mb.SolvedLoops`; the ratio to the first is in brackets. And many in a batch, with the time of one after the
  other over it. For the first column the batch in brackets begins at the reference. Target in brackets: 4.
  A processor that takes an instruction on eight numbers in two halves, as AMD's Zen 4 does, gains 4 times
  where such instructions follow each other without a gap (measured: fused products 4.2, loads 3.9, stores
  4.0, divisions 4.2), and more only where single calls wait, for results, for branches or for Python.
- *Other routes*: to the same C in this library.

The page is written by

```bash
python tests/benchmarks/closed_chains.py --markdown docs/benchmarks_closed_chains.md  # this page
python tests/benchmarks/closed_chains.py --robots mini_cheetah --no-growth            # one robot; seconds
```
"""

GROWTH = """## Growth

Chains and binary trees of N equal clusters: a joint with a geared rotor (constant G), a four-bar of unequal
bars (its loop is solved in every call). The exponent of N is fitted to the largest three sizes. Beside it
is the exponent of the number of steps, the sum over the clusters of their depth d for C and of d^2 for Gamma.
All N^3 entries of Gamma are written, zero or not: in trees of 64 clusters that is most of the time.
"""


def write_page(
    path: Path, lines: Sequence[str], sizes: dict[str, str], entries: Sequence[Entry], curves: Sequence[Curve]
) -> None:
    """Write the page.

    Parameters
    ----------
    path : the file.
    lines : when, where and with what.
    sizes : of each robot: bodies, velocities of the spanning tree, velocities; cells of a table.
    entries, curves : what was measured.
    """
    verdicts = [row.met for row in entries if row.judged]
    missed = f"Missed: {verdicts.count(False)} of {len(verdicts)} targets.\n"
    parts = [INTRODUCTION, "## Measured\n", "\n".join(lines), missed]
    shown = {what: [what, f"{what}, spanning tree", f"{what}, Pinocchio"] for what in QUANTITIES}
    for what, columns in shown.items():
        parts += [f"### {what}\n", _table(columns, ["ours", "spanning tree", "Pinocchio"], sizes, entries)]
    rest = dict.fromkeys(row.quantity for row in entries if row.quantity not in sum(shown.values(), []))
    routes = [name for name in rest if name.startswith("C by ")]
    near = [name for name in rest if "of 16" in name or "guesses" in name or "solved" in name]
    loops = [name for name in rest if name not in [*routes, *near]]
    tables = {
        "Loops alone, and many configurations": loops,
        "From guesses, and solved": near,
        "Other routes to C": routes,
    }
    for title, columns in tables.items():
        if columns:
            parts += [f"### {title}\n", _table(columns, columns, sizes, entries)]
    if curves:
        parts += [GROWTH, _growth(curves)]
    path.write_text("\n".join(parts))


def _table(
    quantities: Sequence[str], titles: Sequence[str], sizes: dict[str, str], entries: Sequence[Entry]
) -> str:
    cells = {(entry.robot, entry.quantity): entry.cell for entry in entries}
    rows = [f"| robot | bodies | nv of the tree | nv | {' | '.join(titles)} |"]
    rows.append("|---" * (4 + len(titles)) + "|")
    for robot, size in sizes.items():
        words = " | ".join(cells.get((robot, quantity), "") for quantity in quantities)
        rows.append(f"| {robot} | {size} | {words} |")
    return "\n".join(rows) + "\n"


def _growth(curves: Sequence[Curve]) -> str:
    counts = curves[0].counts
    rows = [f"| clusters | | exponent | of the steps | {' | '.join(f'N = {n}' for n in counts)} |"]
    rows.append("|---" * (4 + len(counts)) + "|")
    for curve in curves:
        time, steps = curve.exponents
        words = " | ".join(f"{1e6 * seconds:.3g}" for seconds in curve.seconds)
        rows.append(f"| {curve.library} | {curve.quantity} | {time:.2f} | {steps:.2f} | {words} |")
    return "\n".join(rows) + "\n"
