"""Verdicts of `connections verify` over many seeds: no seed may deny a proposition that holds.

    python tests/benchmarks/verify_seeds.py --seeds 200

prints, for every built-in system, how many rows hold, are inconclusive, and do not hold; the largest residual
and the most draws of a control; and each row that does not hold. Every seed has its own points, velocities,
fields and contorsions; what is compiled for a system serves all seeds. ``--metrics N`` adds N more random
metrics in random frames, each compiled anew.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from dataclasses import dataclass, field

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np  # noqa: E402

from connections._jax import unoptimized  # noqa: E402
from connections.verify import Row, Subject, built_in_subjects, verify_subject  # noqa: E402
from connections.verify.built_in import _random_frame  # noqa: E402
from connections.verify.subjects import subject_of  # noqa: E402

os.environ.setdefault("XLA_FLAGS", unoptimized())


@dataclass
class Tally:
    """What many seeds said about one system."""

    verdicts: Counter[str] = field(default_factory=Counter)
    redrawn: Counter[str] = field(default_factory=Counter)
    worst: Row | None = None
    draws: int = 0
    seconds: float = 0.0

    def add(self, row: Row, samples: int) -> None:
        """Count a row."""
        self.verdicts[row.verdict] += 1
        self.draws = max(self.draws, row.draws)
        self.seconds += row.seconds
        if row.draws > samples:
            self.redrawn[row.key] += 1
        if self.worst is None or not row.check.relative <= self.worst.check.relative:
            self.worst = row

    def __str__(self) -> str:
        counts = ", ".join(
            f"{self.verdicts[verdict]} {verdict}" for verdict in ("holds", "inconclusive", "does not hold")
        )
        assert self.worst is not None
        redrawn = ", ".join(f"{key} {count}" for key, count in self.redrawn.most_common(4)) or "none"
        return (
            f"{counts}; largest residual {self.worst.check.relative:.1e} ({self.worst.key}); "
            f"redrawn: {redrawn}; most draws {self.draws}; {self.seconds:.0f} s"
        )


def tally(
    seeds: range, samples: int = 1, names: tuple[str, ...] = (), loud: bool = False
) -> dict[str, Tally]:
    """Tallies by system."""
    tallies: dict[str, Tally] = {}
    for seed in seeds:
        for subject in built_in_subjects(samples, seed):
            if not names or subject.name in names:
                count(tallies, subject, samples, loud)
        if loud and (seed + 1 - seeds.start) % 20 == 0:
            print(f"  {seed + 1 - seeds.start} seeds", flush=True)
    return tallies


def count(tallies: dict[str, Tally], subject: Subject, samples: int, loud: bool) -> None:
    """Verify a subject and count its rows."""
    for row in verify_subject(subject):
        tallies.setdefault(subject.name, Tally()).add(row, samples)
        if loud and not row.ok:
            print(
                f"  {subject.name}, seed {subject.seed}: {row.key} {row.verdict}: residual "
                f"{row.check.relative:.1e}, control {row.control.relative:.1e} in {row.draws} draws",
                flush=True,
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--metrics", type=int, default=0)
    parser.add_argument("--system", action="append", default=[])
    options = parser.parse_args()
    start = time.perf_counter()
    seeds = range(options.first, options.first + options.seeds)
    tallies = tally(seeds, options.samples, tuple(options.system), loud=True)
    for number in range(1, options.metrics + 1):
        rng, (system, _) = np.random.default_rng([number, 4]), _random_frame(number)
        subject = subject_of(
            "other random frames", system, 0.5 * rng.normal(size=(options.samples, 5)), rng, number
        )
        count(tallies, subject, options.samples, True)
    for name, found in tallies.items():
        print(f"{name}: {found}")
    print(f"{options.seeds} seeds, {options.samples} points each, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
