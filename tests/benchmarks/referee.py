"""How many planted mistakes the referee names, and how many false alarms it gives on robots that are right.

    python tests/benchmarks/referee.py [number of robots]

Mistakes are those of `tests/support/referee_mistakes.py`, on the robots of the corpus: a mistake is named if
exactly the rows fail that it concerns. Random robots are right dynamics in NumPy; every second has a floating
base, in a layout drawn at random. Both in float64 and in float32.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from referee_library import audit_of_random
from referee_mistakes import MISTAKES, judged

PRECISIONS = np.float64, np.float32


def mistakes():
    """Prints those that are not named."""
    for precision in PRECISIONS:
        named = 0
        for mistake in MISTAKES:
            report, expected = judged(mistake, precision)
            named += set(report.failing) == expected
            if set(report.failing) != expected:
                print(f"  {mistake}: {sorted(report.failing)} instead of {sorted(expected)}")
        print(f"{precision.__name__}: {named} of {len(MISTAKES)} mistakes named", flush=True)


def false_alarms(count):
    """Prints the rows that fail or are unknown."""
    for precision in PRECISIONS:
        alarms = unknown = 0
        largest = dict[str, float]()
        for seed in range(count):
            report = audit_of_random(seed, precision)
            doubtful = [name for name, verdict in report.verdicts.items() if verdict == "unknown"]
            alarms += bool(report.failing)
            unknown += bool(doubtful)
            if report.failing or doubtful:
                print(f"  seed {seed}: fails {report.failing}, unknown {doubtful}")
            for row in report.rows:
                if row.verdict == "holds":
                    largest[row.name] = max(largest.get(row.name, 0.0), row.residual / row.tolerance)
        print(
            f"{precision.__name__}: {alarms} false alarms, {unknown} in doubt, of {count} robots", flush=True
        )
        print("  largest residual over tolerance: ", {n: float(f"{x:.1e}") for n, x in largest.items()})


if __name__ == "__main__":
    mistakes()
    false_alarms(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
