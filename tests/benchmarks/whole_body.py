"""One cycle of whole-body control, from q and v to torques: an arm, a quadruped, a humanoid.

    python tests/benchmarks/whole_body.py [--parts] [--tsid PYTHON]

Prints microseconds of one cycle on one thread, the median and the 99.9th percentile: model, tasks, contacts
and program. "free" is a state at which neither friction nor a limit acts, "bounded" one at which they do,
with the last command as guess. The machine should have nothing else to do. `--parts` prints what the cycle
consists of, and `--tsid` the times of tsid, a peer, beside it (`whole_body_tsid.py`).
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

FEET = {
    "anymal": ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"),
    "talos": ("leg_left_6_link", "leg_right_6_link"),
}
PATHS = {"anymal": "anymal", "talos": "talos_data/robots/talos_reduced.urdf"}
TRUNK = {"anymal": "base", "talos": "torso_2_link"}
SOLE, SHIFT = (0.1, 0.06), (0.3, 0.1, 0.0)  # m: half lengths; how far the centre of mass is to go
BENT = {"anymal": {"HFE": 0.6, "KFE": -1.2}, "talos": {"_3_joint": -0.4, "_4_joint": 0.8, "_5_joint": -0.4}}


def measured(cycle: Callable[[], Any], number: int = 10_000, most: float = 6.0) -> tuple[float, float]:
    """Median and 99.9th percentile of a call, us, without collections of garbage."""
    for _ in range(200):
        cycle()
    gc.collect()
    gc.disable()
    times, start = [], time.perf_counter()
    while len(times) < number and time.perf_counter() - start < most:
        before = time.perf_counter_ns()
        cycle()
        times.append(time.perf_counter_ns() - before)
    gc.enable()
    return float(np.median(times)) / 1e3, float(np.quantile(times, 0.999)) / 1e3


def bent(name: str, joints: tuple[str, ...]) -> dict[str, float]:
    """Angles of a standing robot whose knees are bent; those of hind legs of a quadruped the other way."""
    found = {}
    for joint in joints:
        for end, angle in BENT[name].items():
            if joint.endswith(end) and (name == "anymal" or joint.startswith("leg_")):
                found[joint] = -angle if joint[1:2] == "H" and name == "anymal" else angle
    return found


def arm() -> dict[str, Callable[[], Any]]:
    """UR5: the pose of its tool, without contacts."""
    from robots import robot_path

    from connections import multibody as mb
    from connections.control import PoseTask, WholeBodyController

    robot = mb.from_urdf(robot_path("ur5"))
    q, v = np.array([0.3, -1.0, 1.2, 0.4, 0.8, 0.1]), np.full(6, 0.01)
    goal = mb.frame_pose(robot, q + 0.01, "tool0")
    task = PoseTask("tool0", damping=5.0, stiffness=20.0, name="tool")
    free = WholeBodyController(robot, [task])
    most = 0.95 * np.abs(free.torque(q, v, {"tool": goal})).max()
    bounded = WholeBodyController(robot, [task], torque_limits=most)
    return _cycles(q, v, {"free": (free, {"tool": goal}), "bounded": (bounded, {"tool": goal})})


def legged(name: str) -> dict[str, Callable[[], Any]]:
    """A robot on its feet: centre of mass and trunk first, then the posture."""
    from robots import robot_path

    from connections import control
    from connections import multibody as mb

    robot = mb.from_urdf(robot_path(PATHS[name]), floating_base=True)
    q, v = robot.neutral(), np.full(robot.nv, 1e-4)
    for joint, angle in bent(name, robot.joint_names).items():
        q[robot.configuration_slice(joint)] = angle
    q[7:] = np.clip(q[7:], robot.limits.lower[7:] + 0.1, robot.limits.upper[7:] - 0.1)
    point, sole = control.PointContact, control.SurfaceContact
    contacts = [point(f, 0.7) if name == "anymal" else sole(f, 0.7, SOLE) for f in FEET[name]]
    tasks = [
        control.CenterOfMassTask(damping=200.0, stiffness=1000.0, name="com"),
        control.OrientationTask(TRUNK[name], damping=20.0, stiffness=200.0, name="trunk"),
        control.PostureTask(damping=5.0, stiffness=50.0, priority=1, name="posture"),
    ]
    com = mb.center_of_mass(robot, q)
    targets = {
        "com": com,
        "trunk": mb.frame_pose(robot, q, TRUNK[name])[:3, :3],
        "posture": np.delete(q, range(7)),
    }
    law = control.WholeBodyController(robot, tasks, contacts)
    return _cycles(q, v, {"free": (law, targets), "bounded": (law, targets | {"com": com + SHIFT})})


def _cycles(q: np.ndarray, v: np.ndarray, cases: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    found = {}
    for case, (law, targets) in cases.items():
        guess = law.command(q, v, targets)
        if guess.bounded is not (case == "bounded"):
            print(f"# {case}: bounded is {guess.bounded}")
        found[case] = lambda law=law, targets=targets, guess=guess: law.command(q, v, targets, guess)
    return found


class Parts:
    """How long a cycle spends in compiled functions, us; the rest is Python."""

    RECURSIONS = (
        "center_of_mass",
        "coriolis_matrix",
        "frame_jacobian",
        "frame_jacobian_rate",
        "frame_pose",
        "mass_matrix",
        "mass_matrix_rate",
        "nonlinear_effects",
    )

    def __init__(self) -> None:
        import daqp

        from connections.control import contacts
        from connections.control.whole_body import robot_state, tasks
        from connections.control.whole_body.compiled import compiled
        from connections.geometry.numerics import quadratic_programs

        self._spent: dict[str, int] = {}
        for module in (robot_state, tasks, contacts):
            for name in self.RECURSIONS:
                if hasattr(module, name):
                    self._replace(module, name, "recursions")
        for name in ("group_error", "best"):
            self._replace(compiled, name, "law")
        for name in ("bounded", "program", "narrowed", "outward"):
            self._replace(compiled, name, "programs, without the solver")
        quadratic_programs._daqp.cache_clear()
        self._replace(daqp, "solve", "DAQP")

    def _replace(self, module: Any, name: str, label: str) -> None:
        function, clock = getattr(module, name), time.perf_counter_ns

        def timed(*args: Any, **more: Any) -> Any:
            before = clock()
            found = function(*args, **more)
            self._spent[label] = self._spent.get(label, 0) + clock() - before
            return found

        setattr(module, name, timed)

    def measured(self, cycle: Callable[[], Any], number: int = 2_000) -> dict[str, float]:
        """{part: median}, and the whole cycle."""
        for _ in range(100):
            cycle()
        rows = []
        for _ in range(number):
            self._spent.clear()
            before = time.perf_counter_ns()
            cycle()
            rows.append({"cycle": time.perf_counter_ns() - before, **self._spent})
        return {part: float(np.median([row[part] for row in rows])) / 1e3 for part in rows[0]}


def main() -> None:
    """Print a row for each robot and case."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", action="store_true", help="what a cycle consists of")
    parser.add_argument("--tsid", metavar="PYTHON", help="an interpreter that has tsid")
    options = parser.parse_args()
    cycles = {"ur5": arm(), "anymal": legged("anymal"), "talos": legged("talos")}
    for name, cases in cycles.items():
        for case, cycle in cases.items():
            median, most = measured(cycle)
            print(f"{name:8} {case:8} {median:7.1f} us, 99.9 %: {most:7.1f} us")
    if options.tsid:
        from robots import robot_path

        paths = [str(robot_path(path)) for path in PATHS.values()]
        subprocess.run([options.tsid, Path(__file__).with_name("whole_body_tsid.py"), *paths], check=True)
    if options.parts:
        parts = Parts()
        for name, cases in cycles.items():
            for case, cycle in cases.items():
                found = parts.measured(cycle)
                words = ", ".join(f"{part} {spent:.1f}" for part, spent in found.items())
                print(f"{name:8} {case:8} {words}, Python {2 * found['cycle'] - sum(found.values()):.1f}")


if __name__ == "__main__":
    main()
