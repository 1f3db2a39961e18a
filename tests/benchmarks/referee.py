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

from plain_dynamics import Plain
from referee_corpus import free_joints, samples
from referee_library import InLayout
from referee_mistakes import MISTAKES, judged
from referee_robots import random_robot

from connections import referee

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


def audit_of(seed, precision):
    """The report on a random robot that is right."""
    robot, rng = random_robot(seed), np.random.default_rng([seed, 1])
    joints = free_joints(robot)
    plain = Plain(robot, precision)
    q, v = samples(robot.name, robot.base, len(joints))
    if robot.base == "fixed":
        layout = referee.fixed()
    else:
        axes = str(rng.choice(["body", "mixed", "world", "linear-world", "angular-world"]))
        point = tuple(rng.uniform(-0.3, 0.3, 3)) if axes != "world" else "frame"
        make = referee.euler if rng.random() < 0.3 else referee.floating
        layout = make(str(rng.choice(["vw", "wv"])), axes, point)
    size = len(joints) + {"fixed": 0, "floating": 7, "euler": 6}[layout.base]
    frame = layout.at(size)
    there = InLayout(plain, frame, precision)
    theirs_v = frame.coframe(q[0]) @ v[0]
    functions = there.mass_matrix, there.bias, there.coriolis, there.gravity
    return referee.audit_functions(*functions, frame=layout, q=frame.from_ours(q[0]), v=theirs_v)


def false_alarms(count):
    """Prints the rows that fail or are unknown."""
    for precision in PRECISIONS:
        alarms = unknown = 0
        largest = dict[str, float]()
        for seed in range(count):
            report = audit_of(seed, precision)
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
