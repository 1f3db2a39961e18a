"""Second derivatives of the dynamics beside the first ones, in one run on one thread.

    python tests/benchmarks/second_derivatives.py

Prints the table of docs/second_derivatives.md: the least microseconds of one call with `out=`, of each of a
batch of 256, and in brackets the ratio to the first derivatives, which take turns with them.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from kinematics import least

from connections import multibody as mb

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from robots import robot_path  # noqa: E402

ROBOTS = {"UR5": ("ur5", False), "ANYmal": ("anymal", True), "Talos": ("talos_reduced.urdf", True)}
PARTS = ("derivatives", "hessian_product", "second_derivatives")
BATCH = 256


def cells(robot: mb.Model, dynamics: str, batch: tuple[int, ...]) -> list[str]:
    """The times of the three functions, and what they are relative to the first."""
    rng, n = np.random.default_rng(0), robot.nv
    q = np.tile(robot.random(rng), (*batch, 1))
    vectors = rng.standard_normal((3, *batch, n))
    calls = []
    for part, count, axes in zip(PARTS, (2, 3, 2), ((3, n, n), (4, n, n), (4, n, n, n)), strict=True):
        function, out = getattr(mb, f"{dynamics}_dynamics_{part}"), np.empty((*batch, *axes))
        given = (q if batch else q.ravel(), *vectors[:count])
        calls.append(partial(function, robot, *given, out=out))
    for call in calls:
        call()
    times = least(calls, rounds=12, number=2 if batch else 50)
    micro = [1e6 * seconds / np.prod(batch, dtype=int) for seconds in times]
    return [f"{micro[0]:.1f}"] + [f"{t:.1f} ({t / micro[0]:.1f})" for t in micro[1:]]


def main() -> None:
    mb.set_num_threads(1)
    print("| | first | Hessian product | all second |\n|---|---:|---:|---:|")
    for name, (file, floating) in ROBOTS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mb.InertiaWarning)
            path = robot_path(f"talos_data/robots/{file}" if file.endswith(".urdf") else file)
            robot = mb.from_urdf(path, floating_base=floating)
        for dynamics in ("inverse", "forward"):
            for batch in ((), (BATCH,)):
                what = f"{name} ({robot.nv}), {dynamics}" + ", batch" * bool(batch)
                print("| " + " | ".join([what, *cells(robot, dynamics, batch)]) + " |", flush=True)


if __name__ == "__main__":
    main()
