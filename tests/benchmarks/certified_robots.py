"""Certified constants of twenty robots beside samples and a textbook's bounds: docs/certified_rows.json.

Each constant has a search of its own with the same time of the processor, so that a busy machine finds the
same table. Samples are random postures within limits, uniform: the extreme of the eigenvalues of H, of
|dg/dq|, and of |C(q, v)| with a random direction of v at each, which is how constants are found in papers.
The textbook's bounds are the largest entries at these postures times powers of n,

    lambda_max <= n max |H_ij|,    k_g <= n max |dg_i/dq_j|,    k_C <= n^2 max |Gamma_ijk|.

Source: R. Kelly, V. Santibanez and A. Loria, Control of Robot Manipulators in Joint Space (2005), chapter 4.
Run: python tests/benchmarks/certified_robots.py --seconds 15 (an hour; what is there is not measured again),
then python docs/certified_table.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

from core import CORES, ROOT, processor  # isort: skip  (first: one thread, before NumPy is imported)

import numpy as np

from connections import certified
from connections import multibody as mb
from connections.checks import ModelError

sys.path.insert(0, str(ROOT / "tests" / "support"))
from robots import robot_path

ROWS = ROOT / "docs" / "certified_rows.json"
FAMILIES = ("christoffel", "force_cross", "least")
SAMPLES, CHUNK = 20_000, 2**22  # postures; numbers of an array of symbols
RTOL = {"lambda_max": 0.02, "lambda_min": 0.05, "k_g": 0.02}  # 0.05 for k_C


@dataclass(frozen=True)
class Robot:
    """A robot of example-robot-data.

    Parameters
    ----------
    file : below robots/.
    floating : whether its root gets a free joint.
    locked : coupled joints that are held.
    """

    file: str
    floating: bool = False
    locked: tuple[str, ...] = ()

    def model(self) -> mb.Model:
        """The model; some files have links that no body can be, which does not matter here."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = mb.from_urdf(robot_path(self.file), floating_base=self.floating)
        return model.with_locked(dict.fromkeys(self.locked, 0.0)) if self.locked else model


ROBOTS = {
    "UR3": Robot("ur_description/urdf/ur3_robot.urdf"),
    "UR5": Robot("ur_description/urdf/ur5_robot.urdf"),
    "UR10": Robot("ur_description/urdf/ur10_robot.urdf"),
    "Kinova": Robot("kinova_description/robots/kinova.urdf"),
    "SO-101": Robot("so_arm_description/urdf/so101.urdf"),
    "Z1": Robot("z1_description/urdf/z1.urdf"),
    "Panda": Robot("panda_description/urdf/panda.urdf", locked=("panda_finger_joint1",)),
    "xArm 7": Robot("xarm_description/urdf/xarm7.urdf"),
    "Talos' left arm": Robot("talos_data/robots/talos_left_arm.urdf"),
    "Allegro hand": Robot("allegro_hand_description/urdf/allegro_left_hand.urdf"),
    "Hector": Robot("hector_description/robots/quadrotor_base.urdf", floating=True),
    "Iris": Robot("iris_description/robots/iris.urdf", floating=True),
    "Borinot": Robot("borinot_description/urdf/borinot_flying_arm_2.urdf", floating=True),
    "Hextilt": Robot("hextilt_description/urdf/hextilt_flying_arm_5.urdf", floating=True),
    "Bolt": Robot("bolt_description/robots/bolt.urdf", floating=True),
    "Solo 12": Robot("solo_description/robots/solo12.urdf", floating=True),
    "A1": Robot("a1_description/urdf/a1.urdf", floating=True),
    "ANYmal B": Robot("anymal_b_simple_description/robots/anymal.urdf", floating=True),
    "HyQ": Robot("hyq_description/robots/hyq_no_sensors.urdf", floating=True),
    "Alexander's legs": Robot("alexander_description/urdf/alexander_v1.lowerBodyOnly.urdf", floating=True),
}


def samples(model: mb.Model, count: int = SAMPLES) -> tuple[dict[str, float], dict[str, float]]:
    """The extremes of random postures within limits, and the textbook's bounds from their largest entries."""
    rng, n, fixed = np.random.default_rng(0), model.nv, not model.kinematics.quaternions
    below, H_most, g_most, symbol_most = {"lambda_min": np.inf}, 0.0, 0.0, 0.0
    chunk = max(1, min(count, CHUNK // n**3))
    for first in range(0, count, chunk):
        q = np.stack([np.asarray(model.random(rng)) for _ in range(min(chunk, count - first))])
        limited = model.limits.upper - model.limits.lower < 2.0 * np.pi
        ends = (end[limited] for end in (model.limits.lower, model.limits.upper))
        q[:, limited] = rng.uniform(*ends, (len(q), int(limited.sum())))
        v = rng.standard_normal((len(q), n))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        H = mb.mass_matrix(model, q)
        values = np.linalg.eigvalsh(H)
        below["lambda_min"] = min(below["lambda_min"], float(values[:, 0].min()))
        found = {"lambda_max": values[:, -1]}
        H_most = max(H_most, float(np.abs(H).max()))
        symbol_most = max(symbol_most, float(np.abs(mb.christoffel_symbols(model, q)).max()))
        for family in FAMILIES:
            C = mb.coriolis_matrix(model, q, v, body_factor=family)
            found[f"k_C:{family}"] = np.linalg.norm(C, 2, axis=(1, 2))
        if fixed:
            slope = mb.inverse_dynamics_derivatives(model, q, 0.0 * v, 0.0 * v)[0]
            g_most = max(g_most, float(np.abs(slope).max()))
            found["k_g"] = np.linalg.norm(slope, 2, axis=(1, 2))
        for name, sizes in found.items():
            below[name] = max(below.get(name, 0.0), float(sizes.max()))
    textbook = {"lambda_max": n * H_most, "k_C:christoffel": n**2 * symbol_most}
    return below, textbook | ({"k_g": n * g_most} if fixed else {})


def count_processor_time() -> None:
    """Let searches, which ask `time.monotonic`, end after processor time; compile what they call."""
    if CORES:
        os.sched_setaffinity(0, CORES)  # whichever core is free
    mb.set_num_threads(1)
    for floating in (False, True):
        small = Robot("double_pendulum_description/urdf/double_pendulum_continuous.urdf", floating).model()
        certified.constants(small, rtol=0.5, seconds=1.0)
    time.monotonic = time.process_time


def certify(model: mb.Model, name: str, seconds: float) -> dict[str, Any]:
    """One constant: its ends, why the search stopped, and what it took; or why there is none."""
    seconds *= 2.0 if name == "k_C:smallest" else 1.0  # half of it is for the search of D
    start = time.process_time()
    rtol, ends = RTOL.get(name, 0.05), {}
    if name == "k_C:smallest":
        try:
            smallest = certified.smallest_coriolis(model, rtol=rtol, seconds=seconds)
        except ModelError as error:
            return {"reason": str(error), "budget": seconds}
        interval, ends = smallest.bound.interval, {"below": smallest.smallest.lower}
    else:
        found = certified.constants(model, only=[name], rtol=rtol, seconds=seconds)
        if name in found.reasons:
            return {"reason": found.reasons[name], "budget": seconds}
        interval = found[name]
    ends |= {"lower": interval.lower, "upper": interval.upper}
    ends = {key: float(end) if np.isfinite(end) else None for key, end in ends.items()}
    times = {"budget": seconds, "seconds": round(time.process_time() - start, 2)}
    return (
        ends | times | {"reached": interval.reached, "gap": round(interval.gap, 5), "boxes": interval.boxes}
    )


def names_of(model: mb.Model) -> list[str]:
    """The constants that are asked for: of a fixed base the least C is Christoffel's, and nothing is less."""
    if model.kinematics.quaternions:
        return ["lambda_max", "lambda_min", *(f"k_C:{family}" for family in FAMILIES), "k_C:smallest"]
    return ["lambda_max", "lambda_min", "k_g", "k_C:christoffel", "k_C:force_cross"]


def measure(name: str, seconds: float, again: bool, wanted: list[str] | None) -> None:
    """All constants of a robot, or those that are wanted; the file of rows is written after each."""
    count_processor_time()
    model = ROBOTS[name].model()
    row = read().get(name, {})
    if "samples" not in row:
        below, textbook = samples(model)
        row |= {"file": ROBOTS[name].file, "nv": model.nv, "mass": float(model.kinematics.tree.mass)}
        row |= {"floating": ROBOTS[name].floating, "samples": below, "textbook": textbook, "constants": {}}
        write(name, row)
    for constant in names_of(model):
        if wanted is not None and constant not in wanted:
            continue
        known = row["constants"].get(constant, {})
        if not again and (known.get("reached") == "gap" or known.get("budget", 0.0) >= seconds):
            continue
        row["constants"][constant] = certify(model, constant, seconds)
        row |= {"date": time.strftime("%Y-%m-%d"), "processor": processor()}
        write(name, row)
        print(f"{name:16} {constant:16}", row["constants"][constant], flush=True)


def read() -> dict[str, Any]:
    """The rows that are known."""
    return json.loads(ROWS.read_text()) if ROWS.exists() else {}


def write(name: str, row: dict[str, Any]) -> None:
    """Replace a robot's row, at once or not at all."""
    rows = read() | {name: row}
    part = ROWS.with_suffix(".part")
    part.write_text(json.dumps({name: rows[name] for name in ROBOTS if name in rows}, indent=1) + "\n")
    part.replace(ROWS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=15.0, help="of the processor, for each constant")
    parser.add_argument("--only", metavar="NAME", choices=list(ROBOTS), help="one robot, in this process")
    parser.add_argument("--constants", metavar="NAME", nargs="+", help="these only, as k_C:christoffel")
    parser.add_argument("--again", action="store_true", help="also what has been measured")
    options = parser.parse_args()
    if options.only is not None:
        measure(options.only, options.seconds, options.again, options.constants)
        return
    for name in ROBOTS:  # a robot that fails or hangs takes no other with it
        words = [sys.executable, __file__, "--only", name, "--seconds", str(options.seconds)]
        words += ["--constants", *options.constants] if options.constants else []
        try:
            subprocess.run(words + ["--again"] * options.again, timeout=600.0 + 60.0 * options.seconds)
        except subprocess.TimeoutExpired:
            print(f"{name}: not finished")


if __name__ == "__main__":
    main()
