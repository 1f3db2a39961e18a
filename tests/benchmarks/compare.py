"""Two checkouts by turns: is a recursion slower than it was?

    python tests/benchmarks/compare.py OLD NEW [--rounds 5] [--only WORDS ...]

OLD and NEW are roots of checkouts, run by this interpreter. Every round measures each in a process of its
own, the old one first in odd rounds, on one core and one thread: the public functions on trees and on closed
chains, one configuration and batches. Before times are compared, values are, to 1e-9.
Prints the ratio new / old of the least times of all rounds, those above 1.03 marked, and the rounds' spread.
"""

from __future__ import annotations

import argparse
import json
import os
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


def main() -> None:
    """Measure by turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="words of which what is measured has one")
    options = parser.parse_args()
    rounds: dict[Path, list[dict[str, tuple[float, float, float]]]] = {}
    checkouts = [options.old.resolve(), options.new.resolve()]
    for number in range(options.rounds):
        for checkout in checkouts if number % 2 == 0 else checkouts[::-1]:
            rounds.setdefault(checkout, []).append(measured(checkout, options.only))
    print(f"| {'what, configurations':44} | old [us] | new [us] | ratio | rounds |\n|---|---|---|---|---|")
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
        print(f"| {what:44} | {1e6 * old:8.2f} | {1e6 * new:8.2f} | {new / old:5.2f}{mark} | {spread} |")


if __name__ == "__main__":
    main()
