"""Exciting motions beside random ones within the same limits, of several arms.

Accelerations up to 10 rad/s^2, 10 s, five harmonics. The robots' files come with the extra `robots`.
Run: python tests/benchmarks/exciting_motions.py
"""

import sys
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from robots import robot_path

from connections import control
from connections import multibody as mb

NAMES = ("arm", "ur5", "panda")


def main():
    """Print a row of Markdown for each robot."""
    print("| robot | base parameters | condition | random, least | random, median | s |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in NAMES:
        robot = mb.example("arm") if name == "arm" else mb.from_urdf(robot_path(name))
        begin = perf_counter()
        motion = control.exciting_motion(robot, acceleration=10.0)
        seconds, least, median = perf_counter() - begin, motion.random[0], np.median(motion.random)
        row = f"{motion.condition:.3g} | {least:.3g} | {median:.3g} | {seconds:.1f} |"
        print(f"| {name} | {motion.rank} | {row}", flush=True)


if __name__ == "__main__":
    main()
