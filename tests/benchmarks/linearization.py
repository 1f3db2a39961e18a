"""How fast the derivatives are, against Pinocchio: `python tests/benchmarks/linearization.py`.

Medians of warm calls through the public functions of both libraries in Python, validation included, on one
core and with one thread (--all-cores: not pinned). Calls that are compared take turns in the same run, on
values first compared to 1e-8 of their size. A missed target is printed as MISSED; the exit status is 0 all
the same. --markdown PATH writes the page docs/benchmarks_linearization.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from core import CORES  # first: it pins the process before NumPy is imported  # isort: skip

import numpy as np
import pinocchio as pin
from competitors import Pair, medians
from recursions import SHORT, robots
from recursions_page import Entry, heading

from connections import multibody as mb

AGREEMENT, CONFIGURATIONS = 1e-8, 1024
BUSY = 0.6  # load from which the page says that the machine was busy, this process itself not counted

INTRODUCTION = """# Benchmarks of the derivatives

Microseconds, medians of warm calls through the public functions in Python, validation included, on one core
and with one thread. In brackets: how many times faster than Pinocchio's Python call, timed by turns in the
same run on values that were compared to 1e-8 first; **missed** stands beside a target that was missed.

- *Derivatives of the inverse dynamics*: `inverse_dynamics_derivatives` against `computeRNEADerivatives`;
  *of the forward dynamics*: `forward_dynamics_derivatives` against `computeABADerivatives`; *inverse of H*:
  `inverse_mass_matrix` against `computeMinverse`. Target 1 from 12 velocities on, 1 / 1.5 below.
- *Batch*: each of 1024 configurations, `out=` given, against Pinocchio's call for one, which has no batches
  in Python; target 4. In square brackets, against our own single call with `out=`; no target.

Pinocchio fills one triangle of H and of its inverse, our functions both.

The page is written by

```bash
python tests/benchmarks/linearization.py --markdown docs/benchmarks_linearization.md  # this page; minutes
python tests/benchmarks/linearization.py --robots UR5                                 # one robot; seconds
```
"""

FUNCTIONS = {
    "inverse dynamics": (mb.inverse_dynamics_derivatives, pin.computeRNEADerivatives, 3),
    "forward dynamics": (mb.forward_dynamics_derivatives, pin.computeABADerivatives, 3),
    "inverse of H": (mb.inverse_mass_matrix, pin.computeMinverse, 1),
}


def require_agreement(pair: Pair) -> None:
    """Stop unless all values that are timed agree."""
    order = np.ix_(pair.other.order, pair.other.order)
    for what, (function, peer, parts) in FUNCTIONS.items():
        vectors, others = ((pair.v, pair.a), (pair.v_other, pair.a_other)) if parts == 3 else ((), ())
        theirs = pair.theirs(peer, *others)()
        theirs = [part.copy() for part in theirs] if parts == 3 else [theirs.copy()]
        theirs[-1] = np.triu(theirs[-1]) + np.triu(theirs[-1], 1).T
        ours = function(pair.model, pair.q, *vectors)
        for one, other in zip(ours if parts == 3 else [ours], theirs, strict=True):
            gap = np.max(np.abs(one - other[order])) / np.max(np.abs(other))
            if not gap <= AGREEMENT:
                raise SystemExit(f"{pair.name}: {what} differs by {gap:.1e}: nothing is timed")


def measure(pair: Pair, repeats: int) -> Iterator[tuple[Entry, float | None]]:
    """Entries, and for batches how many times faster than our own call for one."""
    model, rng = pair.model, np.random.default_rng(4)
    goal = 1.0 if model.nv >= SHORT else 1.0 / 1.5
    q = np.stack([model.random(rng) for _ in range(CONFIGURATIONS)])
    v, a = rng.standard_normal((2, CONFIGURATIONS, model.nv))
    for what, (function, peer, parts) in FUNCTIONS.items():
        vectors, rows, others = (
            ((pair.v, pair.a), (v, a), (pair.v_other, pair.a_other)) if parts == 3 else ((), (), ())
        )
        shape = (3, model.nv, model.nv) if parts == 3 else (model.nv, model.nv)
        one, many = np.empty(shape), np.empty((CONFIGURATIONS, *shape))
        batch = partial(function, model, q, *rows, out=many)
        batch()
        function(model, q[-1], *(row[-1] for row in rows), out=one)
        if not np.allclose(many[-1], one, rtol=0.0, atol=1e-9 * np.max(np.abs(one))):
            raise SystemExit(f"{pair.name}: a batch gives other values than its configurations one by one")
        ours, theirs, single, each = medians(
            [
                partial(function, model, pair.q, *vectors),
                pair.theirs(peer, *others),
                partial(function, model, pair.q, *vectors, out=one),
                batch,
            ],
            repeats,
        )
        each /= CONFIGURATIONS
        yield Entry(pair.name, what, ours, theirs / ours, least=goal), None
        yield Entry(pair.name, f"{what}, batch", each, theirs / each, least=4.0), single / each


def page(lines: list[str], rows: dict[str, tuple[int, dict[str, str]]], verdicts: list[bool]) -> str:
    """The Markdown page."""
    names = [name for what in FUNCTIONS for name in (what, f"{what}, batch")]
    table = [f"| robot | nv | {' | '.join(names)} |", "|---|---" + "|---" * len(names) + "|"]
    for robot, (nv, cells) in rows.items():
        table.append(f"| {robot} | {nv} | {' | '.join(cells.get(name, '') for name in names)} |")
    missed = f"Missed: {verdicts.count(False)} of {len(verdicts)} targets."
    return "\n".join([INTRODUCTION, "## Measured\n", *lines, missed, "", *table, ""])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=40, help="blocks of calls per median")
    parser.add_argument("--robots", nargs="+", choices=list(robots()), help="only these")
    parser.add_argument("--all-cores", action="store_true", help="do not pin the process to one core")
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="also write the page")
    options = parser.parse_args()
    mb.set_num_threads(1)
    lines = heading()
    if os.getloadavg()[0] > BUSY * len(CORES or (0,)):
        lines.append(
            "**The machine was busy with other work: ratios are of one run by turns, times are too long.**"
        )
    print(*lines, sep="\n")
    rows: dict[str, tuple[int, dict[str, str]]] = {}
    verdicts: list[bool] = []
    for name in options.robots or robots():
        pair = robots()[name]()
        require_agreement(pair)
        print(f"\n{name}, nv = {pair.model.nv}")
        cells: dict[str, str] = {}
        for entry, beside in measure(pair, options.repeats):
            more = "" if beside is None else f" [{beside:.1f}]"
            print(f"  {entry}{more}", flush=True)
            cells[entry.quantity] = entry.cell + more
            verdicts.append(entry.met)
        rows[name] = (pair.model.nv, cells)
    print(f"\nMISSED: {verdicts.count(False)} of {len(verdicts)} targets")
    if options.markdown:
        options.markdown.write_text(page(lines, rows, verdicts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
