"""One cycle of tsid on the robots, feet, gains and targets of `whole_body.py`, which runs this file.

    python tests/benchmarks/whole_body.py --tsid /tmp/tsid/bin/python

with an interpreter of its own, because tsid needs an older Pinocchio than the package:

    python3 -m venv /tmp/tsid && /tmp/tsid/bin/pip install tsid==1.7.1 pin==3.4.0

Cones and limits are bounds as in the package; weights of 1 and 0.001 are in the place of priorities. Python
calls tsid three times in a cycle. Arguments: the URDF files of ANYmal and Talos.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

import numpy as np
import pinocchio as pin
from tsid import tsid_pywrap as tsid
from whole_body import FEET, SHIFT, SOLE, TRUNK, bent, measured

CONTACTS = {"anymal": FEET["anymal"], "talos": ("leg_left_6_joint", "leg_right_6_joint")}
UP, FRICTION, LIMIT_TIME = np.array([0.0, 0.0, 1.0]), 0.7, 0.05


def standing(robot: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Configuration and velocity."""
    model = robot.model()
    q, v = pin.neutral(model), np.full(robot.nv, 1e-4)
    for joint, angle in bent(name, tuple(model.names)).items():
        q[model.joints[model.getJointId(joint)].idx_q] = angle
    q[7:] = np.clip(q[7:], model.lowerPositionLimit[7:] + 0.1, model.upperPositionLimit[7:] - 0.1)
    return q, v


def contact(robot: Any, data: Any, foot: str, is_point: bool) -> Any:
    """A foot that holds where it is."""
    if is_point:
        made = tsid.ContactPoint(foot, robot, foot, UP, FRICTION, 0.0, 2000.0)
        made.useLocalFrame(False)
        place = robot.framePosition(data, robot.model().getFrameId(foot))
    else:
        X, Y = SOLE
        corners = np.array([[-X, -X, X, X], [-Y, Y, -Y, Y], [0.0] * 4])
        made = tsid.Contact6d(foot, robot, foot, corners, UP, FRICTION, 0.0, 3000.0)
        place = robot.position(data, robot.model().getJointId(foot))
    size = 3 if is_point else 6
    made.setKp(np.zeros(size))
    made.setKd(np.full(size, 10.0))
    made.setReference(place)
    return made


def still(value: np.ndarray, *sizes: int) -> Any:
    """A target at rest."""
    sample = tsid.TrajectorySample(*sizes)
    sample.value(value)
    sample.derivative(np.zeros(sizes[-1]))
    sample.second_derivative(np.zeros(sizes[-1]))
    return sample


def cycle_of(name: str, urdf: str, shift: np.ndarray) -> Any:
    """A function of one cycle, with the centre of mass to be moved by `shift`."""
    robot = tsid.RobotWrapper(urdf, [""], pin.JointModelFreeFlyer(), False)
    model, joints = robot.model(), robot.nv - 6
    q, v = standing(robot, name)
    program = tsid.InverseDynamicsFormulationAccForce("tsid", robot, False)
    program.computeProblemData(0.0, q, v)
    data = program.data()
    pin.framesForwardKinematics(model, data, q)
    kept = [contact(robot, data, foot, name == "anymal") for foot in CONTACTS[name]]
    for foot in kept:
        program.addRigidContact(foot, 1e-5, 1.0, 1)
    mass = sum(inertia.mass for inertia in model.inertias)
    com = tsid.TaskComEquality("com", robot)
    com.setKp(np.full(3, 1000.0 / mass))
    com.setKd(np.full(3, 200.0 / mass))
    com.setReference(still(robot.com(data) + shift, 3))
    program.addMotionTask(com, 1.0, 1, 0.0)
    trunk = tsid.TaskSE3Equality("trunk", robot, TRUNK[name])
    trunk.setMask(np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]))
    trunk.setKp(np.full(6, 200.0))
    trunk.setKd(np.full(6, 20.0))
    pose = robot.framePosition(data, model.getFrameId(TRUNK[name]))
    trunk.setReference(still(np.concatenate([pose.translation, pose.rotation.T.flatten()]), 12, 6))
    program.addMotionTask(trunk, 1.0, 1, 0.0)
    posture = tsid.TaskJointPosture("posture", robot)
    posture.setKp(np.full(joints, 50.0))
    posture.setKd(np.full(joints, 5.0))
    posture.setReference(still(q[7:], joints))
    program.addMotionTask(posture, 1e-3, 1, 0.0)
    torques, limits = tsid.TaskActuationBounds("tau", robot), model.effortLimit[6:]
    torques.setBounds(-limits, limits)
    program.addActuationTask(torques, 1.0, 0, 0.0)
    range_ = tsid.TaskJointPosVelAccBounds("joints", robot, LIMIT_TIME)
    range_.setPositionBounds(model.lowerPositionLimit[7:], model.upperPositionLimit[7:])
    range_.setVelocityBounds(model.velocityLimit[6:])
    program.addMotionTask(range_, 1.0, 0, 0.0)
    solver = tsid.SolverHQuadProgFast("fast")
    solver.resize(program.nVar, program.nEq, program.nIn)

    # tsid keeps pointers to these without owning them
    def cycle(owned: Any = (robot, kept, com, trunk, posture, torques, range_)) -> Any:
        found = solver.solve(program.computeProblemData(0.0, q, v))
        return found.status, program.getActuatorForces(found)

    return cycle


def main() -> None:
    """Print a row for each robot and case."""
    print("#", {package: version(package) for package in ("tsid", "pin", "eiquadprog", "numpy")})
    for name, urdf in zip(("anymal", "talos"), sys.argv[1:], strict=True):
        for case, shift in (("free", np.zeros(3)), ("bounded", np.array(SHIFT))):
            cycle = cycle_of(name, urdf, shift)
            status = cycle()[0]
            median, most = measured(cycle)
            print(f"{name:8} {case:8} {median:7.1f} us, 99.9 %: {most:7.1f} us, tsid, status {int(status)}")


if __name__ == "__main__":
    main()
