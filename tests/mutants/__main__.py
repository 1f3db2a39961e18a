"""Run mutants: `python -m tests.mutants`, in the folder of the checkout."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from tests.mutants.mutant import Mutant, MutantError
from tests.mutants.operators import drawn
from tests.mutants.planted import MUTANTS
from tests.mutants.trials import Compiled, Verdict, trials, unharmed

ROOT = Path(__file__).parents[2]
DAILY = 12


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen mutants; 1 if one survives without a written reason, 2 if one cannot be run."""
    chosen = _parser().parse_args(arguments)
    try:
        return _report(chosen)
    except MutantError as error:
        print(error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Plant faults in copies of this checkout, one at a time, and run the tests for them.",
        epilog="Exits 1 if a mutant survives that has no written reason, 2 if one cannot be run.",
    )
    parser.add_argument(
        "names", nargs="*", help="names or rooms of planted mutants; all of them if none is given"
    )
    parser.add_argument(
        "--daily", action="store_true", help=f"{DAILY} planted ones, chosen by the commit's hash"
    )
    parser.add_argument(
        "--changed",
        nargs="?",
        const="main",
        metavar="BASE",
        help="mutants by rules on lines that differ from BASE (main)",
    )
    parser.add_argument("--count", type=int, default=DAILY, help="how many of --changed (%(default)s)")
    parser.add_argument("--seed", help="of the choice; the commit's hash if none is given")
    parser.add_argument("--unharmed", action="store_true", help="run the same tests without any fault first")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="at the same time (%(default)s)"
    )
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    return parser


def _report(chosen: argparse.Namespace) -> int:
    mutants = choose(chosen.names, chosen.daily, chosen.changed, chosen.count, chosen.seed)
    if not mutants:
        print("no lines differ that a rule could change")
        return 0
    if chosen.list:
        for mutant in mutants:
            print(f"{mutant.name:<32} {mutant.file}\n    {mutant.breaks}")
        return 0
    kept, tested = compiled(), [mutant for mutant in mutants if mutant.tests]
    if chosen.unharmed or chosen.changed:
        for verdict in unharmed(dict.fromkeys(mutant.tests for mutant in tested), ROOT, chosen.jobs, kept):
            if verdict.killed:
                raise MutantError(f"without any fault, {verdict.by} fails:\n{verdict.output[-2000:]}")
    start, verdicts = time.monotonic(), []
    untested = (Verdict(each, "", 0.0, "no verdict: no test names it") for each in mutants if not each.tests)
    for verdict in chain(untested, trials(tested, ROOT, chosen.jobs, kept)):
        verdicts.append(verdict)
        print(row(verdict), flush=True)
    print(f"\n{table(verdicts)}\n{time.monotonic() - start:.0f} s in all")
    return 1 if any(not each.killed and not each.mutant.survives for each in verdicts if each.mutant) else 0


def choose(
    names: Sequence[str] = (),
    daily: bool = False,
    changed: str | None = None,
    count: int = DAILY,
    seed: str | None = None,
) -> list[Mutant]:
    """The mutants of a command line."""
    if changed is not None:
        return drawn(ROOT, changed, count, seed or _commit())
    if unknown := set(names) - {each.name for each in MUTANTS} - {each.room for each in MUTANTS}:
        raise MutantError(f"no mutant and no room is called {', '.join(sorted(unknown))}; --list prints them")
    mutants = [each for each in MUTANTS if not names or each.name in names or each.room in names]
    if daily:
        numbers = random.Random(seed or _commit()).sample(range(len(mutants)), min(DAILY, len(mutants)))
        mutants = [mutants[number] for number in sorted(numbers)]
    return mutants


def row(verdict: Verdict) -> str:
    """One mutant in 80 columns, and below it what a survivor breaks."""
    mutant = verdict.mutant
    assert mutant is not None
    word = "killed" if verdict.killed else "SURVIVED" if not mutant.survives else "survived"
    by = verdict.by.partition("::")[2].partition("[")[0] or verdict.by
    line = f"{_cut(mutant.name, 34):<34} {word:<8} {verdict.seconds:4.0f} s {_cut(by, 29)}".rstrip()
    if verdict.killed:
        return line
    more = f"reason: {mutant.survives}" if mutant.survives else f"{mutant.file}: {mutant.breaks}"
    more += f"; {verdict.output}" if verdict.output.startswith("no verdict") else ""
    return "\n".join([line, *textwrap.wrap(more, 80, initial_indent="    ", subsequent_indent="    ")])


def table(verdicts: Sequence[Verdict]) -> str:
    """Killed and survived by room."""
    lines = [f"{'room':<14} {'killed':>6} {'survived':>8} {'seconds':>8}"]
    of_rooms: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        assert verdict.mutant is not None
        of_rooms.setdefault(verdict.mutant.room, []).append(verdict)
    for room, those in [*sorted(of_rooms.items()), ("all", list(verdicts))]:
        killed = sum(each.killed for each in those)
        seconds = sum(each.seconds for each in those)
        lines.append(f"{room:<14} {killed:6} {len(those) - killed:8} {seconds:8.0f}")
    return "\n".join(lines)


def compiled() -> Compiled:
    """The folders of compiled code of this environment."""
    from connections._jax import compiled_folder
    from connections.engines.disk_cache import machine_code_folder

    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    return Compiled(Path(chosen) if chosen else compiled_folder(), machine_code_folder())


def _commit() -> str:
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True)
    if done.returncode:
        raise MutantError(f"the commit is not known, give a --seed: {done.stderr.strip()}")
    return done.stdout.strip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


if __name__ == "__main__":
    sys.exit(main())
