"""A measured number beside its target, and the page docs/benchmarks_recursions.md made of such numbers."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core import CORES, commit, processor, version

COLD, CACHED = 20.0, 1.0  # seconds that a first call may take

SECTIONS = {
    "One configuration": (
        "C",
        "empty compiled call",
        "Pinocchio's C",
        "the same without its entrance",
        "Gamma",
    ),
    "Many configurations, time of each": (
        "Gamma, one, out=",
        "Gamma, 64 of them, out=",
        "64 Gamma of zeros",
        "C, 4096, out=",
        "4096 C of zeros",
        "C, 4096, allocated",
        "C, 4096, out=, two threads",
    ),
    "The other recursions": (
        "H",
        "inverse dynamics",
        "forward dynamics",
        "inverse of H",
        "gravity",
        "regressor",
        "C w",
        "C^T w",
    ),
}

INTRODUCTION = """# Benchmarks of the recursions

Times are microseconds, medians of warm calls through the public functions in Python, validation included, on
one core and with one thread unless a column says otherwise. The number in brackets is Pinocchio's time
over ours, for its Python call, timed by turns in the same run on values that were compared to 1e-9 first. A
target is a least number in brackets; **missed** stands beside one that was missed.

- *C*: target 2 (arms 1.3). *Empty compiled call* takes the same arguments and does nothing: what it costs to
  call a function of Numba. *Without its entrance* is Pinocchio's call less its call for a model of one joint,
  an estimate of its time in C++.
- *Gamma*: against one call of Pinocchio's `computeCoriolisMatrix` for each unit velocity, whose results are
  not even gathered; target 15 (arms 5), and 9 us for the chain, 5 us for the tree.
- *Gamma, 64 of them*: against our own single call, `out=` given to both; target 3.
- *C, 4096*: each of 4096 configurations against Pinocchio's call for one, which has no batches in Python;
  target 8 for arms and quadrupeds, 6 for the others. *Two threads*: against one thread, both free to run on
  all cores; target 1.7. *Zeros*: the time of `out.fill(0.0)`; no function that writes as much is faster.
- *H* against `crba`, *inverse dynamics* `rnea`, *forward dynamics* `aba`, *inverse of H* `computeMinverse`
  (`crba` and `computeMinverse` fill one triangle): target 1 from 12 velocities on, 1 / 1.5 below.
- *Gravity* against `computeGeneralizedGravity`, *regressor* against `computeJointTorqueRegressor` (which has
  no reference velocity), *C w* and *C^T w* against `computeCoriolisMatrix` and a NumPy product: no targets.

Chain and tree have revolute joints about the local z axis. Pinocchio has code of its own for this axis, this
library has not.

The page is written by

```bash
python tests/benchmarks/recursions.py --markdown docs/benchmarks_recursions.md  # this page; ten minutes
python tests/benchmarks/recursions.py --robots UR5 --no-first-calls             # one robot; seconds
python tests/benchmarks/echeandia.py                                            # tables and figures of [E]
python tests/benchmarks/curvature_growth.py                                     # the last part
```
"""

FIRST = """### First calls

Seconds of the first call in a new process, for one configuration and for a batch, the import of Numba
included: nothing compiled before (target 20), and with the machine code in Numba's cache (target 1).
"""


# The other parts of the page, in their order
REPRODUCTION = "## Tables and figures of [E]\n"
GROWTH = "## Growth of curvature and of second derivatives\n"


@dataclass(frozen=True)
class Entry:
    """A time, a ratio, and their targets.

    Parameters
    ----------
    robot, quantity : what was timed.
    seconds : per configuration.
    ratio : how many times faster than what it is compared with, or None.
    least : target of the ratio, or None.
    most : target of the time, seconds, or None.
    """

    robot: str
    quantity: str
    seconds: float
    ratio: float | None = None
    least: float | None = None
    most: float | None = None

    @property
    def judged(self) -> bool:
        """Whether there is a target."""
        return self.least is not None or self.most is not None

    @property
    def met(self) -> bool:
        """Whether no target is missed."""
        slow = self.least is not None and (self.ratio is None or self.ratio < self.least)
        return not slow and (self.most is None or self.seconds <= self.most)

    @property
    def cell(self) -> str:
        """The entry in a table of the page."""
        ratio = "" if self.ratio is None else f" ({_digits(self.ratio)})"
        return f"{_digits(1e6 * self.seconds)}{ratio}{'' if self.met else ' **missed**'}"

    def __str__(self) -> str:
        ratio = "" if self.ratio is None else f"{self.ratio:.2f} x"
        bounds = [] if self.least is None else [f">= {self.least:.3g} x"]
        bounds += [] if self.most is None else [f"<= {1e6 * self.most:g} us"]
        verdict = ("met" if self.met else "MISSED") if self.judged else ""
        time_and_ratio = f"{1e6 * self.seconds:>10.2f} us{ratio:>11}"
        return f"{self.quantity:<32}{time_and_ratio}   {', '.join(bounds):<18} {verdict}".rstrip()


@dataclass(frozen=True)
class FirstCall:
    """The first call of a recursion in a new process.

    Parameters
    ----------
    recursion : its name.
    kind : "one" configuration, or "batch".
    cold, cached : seconds, with an empty cache and from the cache.
    """

    recursion: str
    kind: str
    cold: float
    cached: float

    @property
    def met(self) -> bool:
        """Whether both targets are met."""
        return self.cold < COLD and self.cached < CACHED

    @property
    def cell(self) -> str:
        """The two times in a table of the page."""
        return f"{self.cold:.1f} | {self.cached:.2f}{'' if self.met else ' **missed**'}"

    def __str__(self) -> str:
        times = f"{self.cold:5.1f} s cold, {self.cached:5.2f} s from the cache"
        verdict = "met" if self.met else "MISSED"
        return f"{self.recursion:<28}{self.kind:<6}{times}   < {COLD:g} s, < {CACHED:g} s   {verdict}"


def heading() -> list[str]:
    """When, where, and with what."""
    cores = len(os.sched_getaffinity(0)) if CORES else os.cpu_count()
    packages = ("numba", "numpy", "pin")
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    return [
        f"{time.strftime('%Y-%m-%d')}, {processor()}, load {os.getloadavg()[0]:.1f}, on {cores} core(s),",
        f"Python {platform.python_version()}, {versions}, library at commit {commit()}.",
    ]


def write_page(
    path: Path,
    lines: Sequence[str],
    velocities: dict[str, int],
    entries: Sequence[Entry],
    calls: Sequence[FirstCall],
) -> None:
    """Write the page.

    Parameters
    ----------
    path : the file.
    lines : `heading` at the start of the run.
    velocities : nv of each robot, in the order of the rows.
    entries, calls : what was measured.
    """
    verdicts = [row.met for row in entries if row.judged] + [call.met for call in calls]
    missed = f"Missed: {verdicts.count(False)} of {len(verdicts)} targets.\n"
    parts = [INTRODUCTION, "## Measured\n", "\n".join(lines), missed]
    for title, quantities in SECTIONS.items():
        parts += [f"### {title}\n", _table(quantities, velocities, entries)]
    if calls:
        parts += [FIRST, _first_calls(calls)]
    _, mark, rest = _read(path).partition(REPRODUCTION)
    path.write_text("\n".join(parts) + (f"\n{mark}{rest}" if mark else ""))


def write_part(path: Path, title: str, text: str) -> None:
    """Write a part of the page in place of what it says under this title, or at its end.

    Parameters
    ----------
    path : the file.
    title : `REPRODUCTION` or `GROWTH`.
    text : that part without its title; its own titles are of lower ranks.
    """
    before, _, old = _read(path).partition(title)
    _, mark, after = old.partition("\n## ")
    path.write_text(f"{before.rstrip()}\n\n{title}\n{text.strip()}\n{mark}{after}".lstrip())


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _table(quantities: Sequence[str], velocities: dict[str, int], entries: Sequence[Entry]) -> str:
    cells = {(entry.robot, entry.quantity): entry.cell for entry in entries}
    rows = [f"| robot | nv | {' | '.join(quantities)} |", "|---|---" + "|---" * len(quantities) + "|"]
    for robot, nv in velocities.items():
        words = " | ".join(cells.get((robot, quantity), "") for quantity in quantities)
        rows.append(f"| {robot} | {nv} | {words} |")
    return "\n".join(rows) + "\n"


def _first_calls(calls: Sequence[FirstCall]) -> str:
    cells = {(call.recursion, call.kind): call.cell for call in calls}
    rows = ["| recursion | one, cold | one, cached | batch, cold | batch, cached |", "|---|---|---|---|---|"]
    for recursion in dict.fromkeys(call.recursion for call in calls):
        words = " | ".join(cells.get((recursion, kind), " | ") for kind in ("one", "batch"))
        rows.append(f"| `{recursion}` | {words} |")
    return "\n".join(rows) + "\n"


def _digits(number: float) -> str:
    """Three digits or so."""
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"
