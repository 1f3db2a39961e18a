"""Two checkouts by turns: is a recursion slower than it was?

    python tests/benchmarks/compare.py OLD NEW [--rounds 5] [--only WORDS ...] [--keep OLD_NAME NEW_NAME]

OLD and NEW are roots of checkouts, run by this interpreter. Every round measures each in a process of its
own, the old one first in odd rounds, on one core and one thread: the public functions on trees and on closed
chains, one configuration and batches. Before times are compared, values are, to 1e-9.
Prints the ratio new / old of the least times of all rounds, those above 1.03 marked, and the rounds' spread.

Each change is compared with the commit before it, and three per cent can be lost many times. So `drift.json`,
beside this file, keeps the ratios of commits to the fastest one there was, ``"fastest"``. With the commits'
names, `--keep` adds those of NEW, if OLD is the fastest or is kept there, and the table has a column: the
ratio to the least that was ever kept, those above 1.05 marked. Run it before a release.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import functools, json, os, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.path[:0] = [sys.argv[1] + "/tests/support", sys.argv[1] + "/tests"]
import numpy as np
import closed_chains
from robots import robot_path
from connections import multibody as mb
assert mb.__file__.startswith(sys.argv[1]), mb.__file__
mb.set_num_threads(1)
words = sys.argv[2:]
robots = {"UR5": mb.from_urdf(robot_path("ur5"))}
for name in ("solo12", "anymal"):
    robots[name] = mb.from_urdf(robot_path(name), floating_base=True)
for plan in ("gear train", "four-bar", "legged robot"):
    robots[plan] = closed_chains.PLANS[plan]().build()
vectors = {
    "mass_matrix": 0, "coriolis_matrix": 1, "mass_matrix_rate": 1, "christoffel_symbols": 0,
    "coriolis_product": 2, "coriolis_transpose_product": 2, "inverse_dynamics": 2, "gravity": 0,
    "forward_dynamics": 2, "inverse_mass_matrix": 0, "regressor": 3, "inverse_dynamics_derivatives": 2,
    "forward_dynamics_derivatives": 2, "nonlinear_effects": 1, "forward_kinematics": 0, "frame_pose": 0,
    "frame_jacobian": 0, "frame_jacobian_rate": 1, "center_of_mass": 0, "center_of_mass_jacobian": 0,
}
found = {}
for robot, model in robots.items():
    rng = np.random.default_rng(0)
    few = np.stack([model.random(rng) for _ in range(8)])
    for name, count in vectors.items():
        function = getattr(mb, name, None)
        if function is None:
            continue
        if name.startswith("frame_"):
            function = functools.partial(function, frame=model.body_names[-1])
        for batch in ((), (64,)):
            what = f"{robot}, {name}, {batch[0] if batch else 1}"
            if words and not any(word in what for word in words):
                continue
            q = np.tile(few, (batch[0] // 8, 1)) if batch else few[0]
            arguments = [q, *rng.standard_normal((count, *batch, model.nv))]
            value = function(model, *arguments)
            value = np.stack(value) if isinstance(value, tuple) else value
            best, end, calls = np.inf, time.perf_counter() + 0.15, 20 if not batch else 2
            while time.perf_counter() < end:
                start = time.perf_counter()
                for _ in range(calls):
                    function(model, *arguments)
                best = min(best, (time.perf_counter() - start) / calls)
            found[what] = best, float(np.sum(value)), float(np.sum(np.abs(value)))
print(json.dumps(found))
"""


def measured(checkout: Path, words: list[str]) -> dict[str, tuple[float, float, float]]:
    """What is measured -> least seconds of a call, and two sums of the values, of one process."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OPENBLAS_NUM_THREADS": "1"}
    environment["NUMBA_CACHE_DIR"] = str(checkout / ".numba_cache")
    command = [sys.executable, "-c", PROGRAM, str(checkout), *words]
    done = subprocess.run(command, check=True, env=environment, cwd="/", capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


DRIFT = Path(__file__).with_name("drift.json")


class Drift:
    """Ratios of times to those of one commit, for the commits that were measured.

    Parameters
    ----------
    old, new : names of commits. The old one is the first of all, or one that was kept.
    """

    def __init__(self, old: str, new: str) -> None:
        self.kept = json.loads(DRIFT.read_text())
        if old != self.kept["fastest"] and old not in self.kept["ratios"]:
            raise SystemExit(
                f"{old}: compare with {self.kept['fastest']}, or one of {[*self.kept['ratios']]}"
            )
        self._old, self._new = self.kept["ratios"].get(old, {}), self.kept["ratios"].setdefault(new, {})

    def to_the_least(self, what: str, ratio: float) -> float:
        """Keep the ratio new / old; returns that of the new commit to the least one."""
        self._new[what] = round(ratio * self._old.get(what, 1.0), 3)
        return float(
            self._new[what] / min(1.0, *(each.get(what, 1.0) for each in self.kept["ratios"].values()))
        )

    def write(self) -> None:
        """Write the file."""
        DRIFT.write_text(json.dumps(self.kept, indent=1) + "\n")


def main() -> None:
    """Measure by turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="words of which what is measured has one")
    parser.add_argument("--keep", nargs=2, metavar=("OLD_NAME", "NEW_NAME"), help="commits of drift.json")
    options = parser.parse_args()
    drift = Drift(*options.keep) if options.keep else None
    rounds: dict[Path, list[dict[str, tuple[float, float, float]]]] = {}
    checkouts = [options.old.resolve(), options.new.resolve()]
    for number in range(options.rounds):
        for checkout in checkouts if number % 2 == 0 else checkouts[::-1]:
            rounds.setdefault(checkout, []).append(measured(checkout, options.only))
    title, rule = ("| to the least ", "---|") if drift else ("", "")
    print(
        f"| {'what, configurations':44} | old [us] | new [us] | ratio | rounds {title}|\n"
        f"|---|---|---|---|---|{rule}"
    )
    ratios = []
    for what, (_, total, size) in rounds[checkouts[0]][0].items():
        if what not in rounds[checkouts[1]][0]:
            continue
        other = rounds[checkouts[1]][0][what]
        if not abs(other[1] - total) <= 1e-9 * size:
            raise SystemExit(f"{what}: {other[1]} is not {total}")
        times = [[found[what][0] for found in rounds[checkout]] for checkout in checkouts]
        old, new = map(min, times)
        each = sorted(b / a for a, b in zip(*times, strict=True))
        mark = " slower" if new > 1.03 * old else ""
        spread = f"{each[0]:.2f} to {each[-1]:.2f}"
        ratios.append(new / old)
        end = ""
        if drift is not None:
            least = drift.to_the_least(what, new / old)
            end = f" {least:5.2f}{' slower' if least > 1.05 else ''} |"
        print(f"| {what:44} | {1e6 * old:8.2f} | {1e6 * new:8.2f} | {new / old:5.2f}{mark} | {spread} |{end}")
    print(f"\n{len(ratios)} cases: median {statistics.median(ratios):.3f}, largest {max(ratios):.2f}")
    if drift is not None:
        drift.write()


if __name__ == "__main__":
    main()
