"""Inverse kinematics of a UR5 beside Pink (Pinocchio) and mink (MuJoCo), on the same poses and starts.

    python3 -m venv /tmp/ik && /tmp/ik/bin/pip install -e ".[robots,whole-body]" pin-pink mink
    /tmp/ik/bin/python tests/benchmarks/inverse_kinematics.py

200 poses are those of random configurations, 0.5 rad from the start or anywhere within the limits. Pink and
mink are differential inverse kinematics: the loop of full steps around them, to 1e-8 or 200 steps, is here;
all three solve for a step with DAQP where limits hold. The time is that of the processor, for one pose.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mink
import mujoco
import numpy as np
import pink
import pinocchio as pin

from connections import multibody as mb

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from robots import robot_path

COUNT, STEPS, TOLERANCE, FRAME = 200, 200, 1e-8, "tool0"
Found = tuple[np.ndarray, np.ndarray, float]  # whether solved, steps, seconds


def stepped(make: Callable[[np.ndarray, np.ndarray], tuple[Any, Any, Callable[[], Any]]]) -> Any:
    """The loop around a differential solver: (poses, starts) -> what `Found` holds."""

    def solve(poses: np.ndarray, starts: np.ndarray) -> Found:
        solved, steps, begin = np.zeros(len(poses), bool), np.zeros(len(poses), int), time.process_time()
        for row, (pose, start) in enumerate(zip(poses, starts, strict=True)):
            configuration, task, velocity = make(pose, start)
            while steps[row] < STEPS:
                solved[row] = np.abs(task.compute_error(configuration)).max() < TOLERANCE
                if solved[row]:
                    break
                try:
                    configuration.integrate_inplace(velocity(), 1.0)
                except (pink.exceptions.PinkError, mink.exceptions.MinkError, AssertionError):
                    break
                steps[row] += 1
        return solved, steps, (time.process_time() - begin) / len(poses)

    return solve


def by_pink(urdf: Path, limits: bool) -> Any:
    model = pin.buildModelFromUrdf(str(urdf))
    data = model.createData()
    held = [pink.limits.ConfigurationLimit(model, config_limit_gain=0.5)] if limits else []

    def make(pose: np.ndarray, start: np.ndarray) -> tuple[Any, Any, Any]:
        configuration = pink.Configuration(model, data, start.copy())
        task = pink.tasks.FrameTask(FRAME, 1.0, 1.0, lm_damping=1e-3)
        task.set_target(pin.SE3(pose))
        given = {"solver": "daqp", "limits": held, "damping": 1e-12, "safety_break": False}
        return configuration, task, lambda: pink.solve_ik(configuration, [task], 1.0, **given)

    return stepped(make)


def by_mink(urdf: Path, limits: bool) -> Any:
    text = re.sub(r"<(visual|collision)>.*?</\1>", "", urdf.read_text(), flags=re.DOTALL)
    options = '<mujoco><compiler fusestatic="false" boundmass="1e-6" boundinertia="1e-9"/></mujoco>'
    model = mujoco.MjModel.from_xml_string(re.sub(r"(<robot[^>]*>)", rf"\1{options}", text, count=1))
    held = [mink.ConfigurationLimit(model, gain=0.5)] if limits else []

    def make(pose: np.ndarray, start: np.ndarray) -> tuple[Any, Any, Any]:
        configuration = mink.Configuration(model, q=start.copy())
        task = mink.FrameTask(FRAME, "body", 1.0, 1.0, lm_damping=1e-3)
        task.set_target(mink.SE3.from_matrix(pose))
        given = {"solver": "daqp", "limits": held, "damping": 1e-12}
        return configuration, task, lambda: mink.solve_ik(configuration, [task], 1.0, **given)

    return stepped(make)


def ours(robot: mb.Model, limits: bool, batch: bool) -> Any:
    def solve(poses: np.ndarray, starts: np.ndarray) -> Found:
        begin = time.process_time()
        if batch:
            found = [mb.inverse_kinematics(robot, {FRAME: poses}, starts, limits=limits)]
        else:
            pairs = zip(poses, starts, strict=True)
            found = [mb.inverse_kinematics(robot, {FRAME: pose}, q, limits=limits) for pose, q in pairs]
        seconds = (time.process_time() - begin) / len(poses)
        solved, steps = (np.hstack([getattr(each, name) for each in found]) for name in ("solved", "steps"))
        return solved, steps, seconds

    return solve


def main() -> None:
    """Print the table."""
    logging.disable(logging.WARNING)  # Pink's, of steps beyond limits
    mb.set_num_threads(1)
    urdf = robot_path("ur5")
    robot, rng = mb.from_urdf(urdf), np.random.default_rng(1)
    lower, upper = np.maximum(robot.limits.lower, -3.0), np.minimum(robot.limits.upper, 3.0)
    inner = 0.2 * (upper - lower)
    starts = rng.uniform(lower + inner, upper - inner, (COUNT, robot.nq))
    goals = {
        "0.5 rad away": np.clip(starts + rng.uniform(-0.5, 0.5, starts.shape), lower, upper),
        "anywhere": rng.uniform(lower, upper, starts.shape),
    }
    print("| poses | limits | solver | solved | median steps | ms for one |\n|---|---|---|---|---|---|")
    for where, goal in goals.items():
        poses = mb.frame_pose(robot, goal, FRAME)
        for limits in (True, False):
            solvers = {
                "`inverse_kinematics`, one by one": ours(robot, limits, False),
                "`inverse_kinematics`, a batch": ours(robot, limits, True),
                "Pink": by_pink(urdf, limits),
                "mink": by_mink(urdf, limits),
            }
            for name, solve in solvers.items():
                solve(poses[:3], starts[:3])  # compiled, and imported
                solved, steps, seconds = solve(poses, starts)
                median = np.median(steps[solved])
                row = f"{solved.sum()} | {median:.0f} | {1e3 * seconds:.2f}"
                print(f"| {where} | {'yes' if limits else 'no'} | {name} | {row} |")


if __name__ == "__main__":
    main()
