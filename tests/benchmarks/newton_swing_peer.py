"""The swing of examples/newton_swing.py with a UR5, by this library and by Crocoddyl, in one run on one core.

    python -m venv PEER && PEER/bin/pip install crocoddyl==3.2.1 pin==4.0.0
    python tests/benchmarks/newton_swing_peer.py PEER/bin/python

Crocoddyl is no dependence of this library, so it runs in an environment of its own: PEER/bin/python executes
this file, too, and receives the problem as JSON. All methods start from the same torques. Iterations are
those until the cost is within 1e-9 of the least that any method finds; times are the processor's, the
least of several runs. With Pinocchio 4.1, which pip chooses, Crocoddyl 3.2.1 ignores gravity; a check
notices.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
ENOUGH, RUNS = 1e-9, 5


def main() -> None:
    """Solve, and print the table of docs/second_derivatives.md."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from robots import robot_path

    path = str(robot_path("ur5"))
    with tempfile.TemporaryDirectory() as folder:
        sys.argv[1:], peer = [folder, path], sys.argv[1]
        example = runpy.run_path(str(ROOT / "examples" / "newton_swing.py"))
    start = np.tile(
        example["mb"].gravity(example["arm"], example["START"][: example["n"]]), (example["STEPS"], 1)
    )
    print("| weight of the torques | method | iterations | time | an iteration | cost |")
    print("|---:|---|---:|---:|---:|---:|")
    for weight in example["EFFORTS"]:
        effort = example["H"] * weight / example["arm"].limits.effort ** 2
        problem = {
            "path": path,
            "step": example["H"],
            "start": example["START"],
            "goal": example["GOAL"],
            "speed": example["SPEED"],
            "miss": example["MISS"],
            "effort": effort,
            "torques": start,
            "cost": example["cost"](example["rollout"](start)[0], start, effort),
        }
        found = {"iLQR": ours(example, False, weight), "DDP": ours(example, True, weight)}
        given = json.dumps(problem, default=lambda array: array.tolist())
        words = [peer, __file__, "--peer"]
        done = subprocess.run(words, input=given, stdout=subprocess.PIPE, text=True, check=True)
        found |= json.loads(done.stdout)
        least = min(min(costs) for costs, _ in found.values())
        for method, (costs, seconds) in found.items():
            count = 1 + int(np.argmax(np.array(costs) <= least * (1.0 + ENOUGH)))
            total, cost = 1e3 * seconds[count - 1], costs[count - 1]
            times = f"{total:.2f} ms | {total / count:.2f} ms"
            print(f"| {weight:g} | {method} | {count} | {times} | {cost:.9f} |", flush=True)


def ours(example: dict[str, Any], newton: bool, weight: float) -> tuple[list[float], list[float]]:
    """The cost after each iteration, and the least seconds until then of some runs."""
    histories = np.stack([example["solve"](newton, weight)[2] for _ in range(RUNS)])
    return list(histories[0, :, 0]), list(histories[..., 1].min(axis=0))


def peer(problem: dict[str, Any]) -> dict[str, tuple[list[float], list[float]]]:
    """The same by Crocoddyl's solvers, whose derivatives of dynamics are the first ones: iLQR."""
    import crocoddyl
    import pinocchio

    step, start, torques = problem["step"], np.array(problem["start"]), [*np.array(problem["torques"])]
    state = crocoddyl.StateMultibody(pinocchio.buildModelFromUrdf(problem["path"]))
    actuation = crocoddyl.ActuationModelFull(state)

    def action(weights: np.ndarray, goal: np.ndarray, effort: np.ndarray | None, length: float) -> Any:
        costs = crocoddyl.CostModelSum(state)
        activation = crocoddyl.ActivationModelWeightedQuad(weights)
        costs.addCost(
            "state",
            crocoddyl.CostModelResidual(state, activation, crocoddyl.ResidualModelState(state, goal)),
            1.0,
        )
        if effort is not None:
            activation = crocoddyl.ActivationModelWeightedQuad(effort)
            costs.addCost(
                "torques",
                crocoddyl.CostModelResidual(state, activation, crocoddyl.ResidualModelControl(state)),
                1.0,
            )
        dynamics = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)
        return crocoddyl.IntegratedActionModelEuler(dynamics, length)

    speed, effort = np.array(problem["speed"]) / step, np.array(problem["effort"]) / step
    running = action(speed, np.zeros(len(speed)), effort, step)
    last = action(np.array(problem["miss"]), np.array(problem["goal"]), None, 0.0)
    shooting = crocoddyl.ShootingProblem(start, [running] * len(torques), last)
    shooting.nthreads = 1
    states = [*shooting.rollout(torques)]
    assert abs(shooting.calc(states, torques) / problem["cost"] - 1.0) < 1e-9, "another problem"
    return {
        f"Crocoddyl's {name}": history(lambda name=name: getattr(crocoddyl, name)(shooting), states, torques)
        for name in ("SolverDDP", "SolverFDDP")
    }


def history(make: Callable[[], Any], states: list[np.ndarray], torques: list[np.ndarray]) -> Any:
    """The cost after each iteration, and the least seconds until then, without callbacks.

    The seconds are in proportion to the iterations until the cost is within `ENOUGH` of the last.
    """
    import crocoddyl

    solver, logger = make(), crocoddyl.CallbackLogger()
    solver.setCallbacks([logger])
    solver.th_stop = 1e-14
    solver.solve(states, torques, 200, True)
    costs = np.array(logger.costs)
    count, times = 1 + int(np.argmax(costs <= costs[-1] * (1.0 + ENOUGH))), []
    for _ in range(RUNS):
        solver = make()
        solver.th_stop = 1e-14
        begin = time.process_time()
        solver.solve(states, torques, count, True)
        times.append(time.process_time() - begin)
    return list(costs), list(min(times) * np.arange(1, len(costs) + 1) / count)


if __name__ == "__main__":
    if sys.argv[1] == "--peer":
        print(json.dumps(peer(json.load(sys.stdin))))
    else:
        main()
