"""Poses, Jacobians of frames and the centre of mass beside Pinocchio, in one run on one thread.

    python tests/benchmarks/kinematics.py

Prints microseconds of one call, Pinocchio's time over ours, and of batches of 4096 the same for each
configuration. Pinocchio's `forwardKinematics` returns no arrays; a second row reads its poses into one, which
is what ours returns. A call from Python that makes an array and enters compiled code takes 0.4 us, whatever
it computes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from connections import multibody as mb

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from robots import robot_path  # noqa: E402

BATCH = 4096
Call = Callable[[], Any]


def least(calls: list[Call], rounds: int = 30, number: int = 100) -> list[float]:
    """The least seconds of each call, measured by turns."""
    found = [np.inf] * len(calls)
    for _ in range(rounds):
        for place, call in enumerate(calls):
            start = time.perf_counter()
            for _ in range(number):
                call()
            found[place] = min(found[place], (time.perf_counter() - start) / number)
    return found


def pairs(name: str, floating: bool) -> dict[str, tuple[Call, Call, Call]]:
    """What is measured: our call, Pinocchio's, and ours for a batch."""
    import pinocchio as pin

    path = str(robot_path(name))
    model = mb.from_urdf(path, floating_base=floating)
    theirs = pin.buildModelFromUrdf(path, *([pin.JointModelFreeFlyer()] if floating else []))
    data, frame = theirs.createData(), model.frame_names[-1]
    number = theirs.getFrameId(frame, pin.FrameType.BODY)
    q, v = model.random(0), np.random.default_rng(0).standard_normal(model.nv)
    many = np.stack([model.random(seed) for seed in range(BATCH)])
    speeds = np.random.default_rng(1).standard_normal((BATCH, model.nv))
    world = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED

    def pose() -> Any:
        pin.framesForwardKinematics(theirs, data, q)
        return data.oMf[number].homogeneous

    def poses() -> Any:
        pin.forwardKinematics(theirs, data, q)
        return np.array([placement.homogeneous for placement in data.oMi])

    def rate() -> Any:
        pin.computeJointJacobiansTimeVariation(theirs, data, q, v)
        pin.updateFramePlacements(theirs, data)
        return pin.getFrameJacobianTimeVariation(theirs, data, number, world)

    def ours(function: Any, *more: Any, moving: bool = False, **options: Any) -> tuple[Call, Call]:
        one, all_ = ((q, v), (many, speeds)) if moving else ((q,), (many,))
        return tuple(partial(function, model, *state, *more, **options) for state in (one, all_))  # type: ignore[return-value]

    def row(calls: tuple[Call, Call], other: Call) -> tuple[Call, Call, Call]:
        return calls[0], other, calls[1]

    jacobian = partial(pin.computeFrameJacobian, theirs, data, q, number, world)
    return {
        "nonlinear_effects": row(
            ours(mb.nonlinear_effects, moving=True), partial(pin.nonLinearEffects, theirs, data, q, v)
        ),
        "forward_kinematics": row(
            ours(mb.forward_kinematics), partial(pin.forwardKinematics, theirs, data, q)
        ),
        "forward_kinematics, array": row(ours(mb.forward_kinematics), poses),
        "frame_pose": row(ours(mb.frame_pose, frame), pose),
        "frame_jacobian": row(ours(mb.frame_jacobian, frame, axes="world"), jacobian),
        "frame_jacobian_rate": row(ours(mb.frame_jacobian_rate, frame, moving=True, axes="world"), rate),
        "center_of_mass": row(ours(mb.center_of_mass), partial(pin.centerOfMass, theirs, data, q)),
        "center_of_mass_jacobian": row(
            ours(mb.center_of_mass_jacobian), partial(pin.jacobianCenterOfMass, theirs, data, q)
        ),
    }


def main() -> None:
    """Measure, and print a table."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    mb.set_num_threads(1)
    print(f"| {'robot, function':32} | ours [us] | theirs [us] | ratio | batch | ratio |")
    print("|---|---|---|---|---|---|")
    for name, floating in (("ur5", False), ("solo12", True)):
        for what, (ours, theirs, batch) in pairs(name, floating).items():
            for call in (ours, theirs, batch):
                call()
            one, other = least([ours, theirs])
            each = least([batch], 7, 1)[0] / BATCH
            numbers = f"{1e6 * one:9.2f} | {1e6 * other:11.2f} | {other / one:5.2f}"
            together = f"{1e6 * each:5.3f} | {other / each:5.1f}"
            print(f"| {name + ', ' + what:32} | {numbers} | {together} |", flush=True)


if __name__ == "__main__":
    main()
