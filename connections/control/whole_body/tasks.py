"""The tasks: a point, an orientation, a pose, joints, the center of mass, the angular momentum.

Each says what its place is, how J and Jdot are computed, and what its error from a target is; the rest is the
same for every task (`task.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from connections._words import no_such
from connections.checks import ModelError, as_array, require_finite, require_names, require_text
from connections.control.centroidal import CentroidalCoordinates
from connections.control.whole_body.compiled import compiled
from connections.control.whole_body.robot_state import RobotState
from connections.control.whole_body.task import (
    Error,
    Motion,
    Target,
    Task,
    TaskError,
    target_motion,
    target_velocity,
)
from connections.multibody import (
    Free,
    Spherical,
    frame_jacobian,
    frame_jacobian_rate,
    frame_pose,
    total_mass,
)
from connections.multibody.graph import no_joint
from connections.multibody.model import Model


@dataclass(frozen=True, eq=False)
class PointTask(Task):
    """A point of a body: place, velocity and force in world axes, m, m/s, N. Place: (3,).

    Parameters
    ----------
    frame : the name of a frame of the robot.
    point : (3,) m, in the frame's axes.

    Examples
    --------
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> task = control.PointTask("tool", damping=10.0, stiffness=100.0)
    >>> task.on(mb.example("arm")).size
    3
    >>> control.PointTask("tol", damping=10.0).on(mb.example("arm"))
    Traceback (most recent call last):
        ...
    connections.checks.ModelError: task 'point of tol': there is no frame 'tol'; did you mean tool?
    The frames are base, shoulder, upper_arm, forearm, wrist, hand, tool
    """

    frame: str
    point: Sequence[float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        require_text("frame", self.frame)
        require_finite("point", as_array("point", self.point, (3,)))
        super().__post_init__()

    def _title(self) -> str:
        return f"point of {self.frame}"

    def _measured(self, model: Model) -> tuple[int, Motion]:
        placement = np.eye(4)
        placement[:3, 3] = as_array(f"point of task '{self.name}'", self.point, (3,))
        _require_frame(self, model)
        placed = model.with_frames({_POINT: (self.frame, placement)})

        def motion(state: RobotState) -> tuple[Any, np.ndarray, np.ndarray]:
            J = frame_jacobian(placed, state.at, _POINT, axes="world")
            J_dot = frame_jacobian_rate(placed, state.at, state.v, _POINT, axes="world")
            return frame_pose(placed, state.at, _POINT)[:3, 3], J[3:], J_dot[3:]

        return 3, motion


@dataclass(frozen=True, eq=False)
class OrientationTask(Task):
    """The orientation of a body: velocity, moment in its axes, rad/s, N m. Place: (3, 3), to the world.

    The error is the rotation vector of R_d^T R: no angles.

    Parameters
    ----------
    frame : the name of a frame of the robot.

    Examples
    --------
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> control.OrientationTask("tool", damping=10.0, stiffness=100.0).on(mb.example("arm")).size
    3
    """

    frame: str

    def __post_init__(self) -> None:
        require_text("frame", self.frame)
        super().__post_init__()

    def _title(self) -> str:
        return f"orientation of {self.frame}"

    def _measured(self, model: Model) -> tuple[int, Motion]:
        _require_frame(self, model)

        def motion(state: RobotState) -> tuple[Any, np.ndarray, np.ndarray]:
            T, J, J_dot = _body_motion(model, state, self.frame)
            return T[:3, :3], J[:3], J_dot[:3]

        return 3, motion

    def _error(self, place: Any, target: Target, u: np.ndarray) -> Error:
        return _group_error(self, place, target, u)


@dataclass(frozen=True, eq=False)
class PoseTask(Task):
    """The pose of a body: twist and wrench in its axes, [omega; v], [n; f]. Place: (4, 4), to the world, m.

    The error is the twist that leads from the target to the pose in a unit of time, the logarithm in SE(3).

    Parameters
    ----------
    frame : the name of a frame of the robot.

    Examples
    --------
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> control.PoseTask("tool", damping=10.0, stiffness=100.0).on(mb.example("arm")).size
    6
    """

    frame: str

    def __post_init__(self) -> None:
        require_text("frame", self.frame)
        super().__post_init__()

    def _title(self) -> str:
        return f"pose of {self.frame}"

    def _measured(self, model: Model) -> tuple[int, Motion]:
        _require_frame(self, model)
        return 6, lambda state: _body_motion(model, state, self.frame)

    def _error(self, place: Any, target: Target, u: np.ndarray) -> Error:
        return _group_error(self, place, target, u)


@dataclass(frozen=True, eq=False)
class PostureTask(Task):
    """Positions of joints, rad and m, their velocities and torques. Place: (m,).

    Parameters
    ----------
    joints : names of joints with v = qdot; None for all of them, in the order of ``model.joint_names``.

    A joint whose q contains a quaternion has an `OrientationTask` or a `PoseTask` instead.

    Examples
    --------
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> task = control.PostureTask(damping=10.0, stiffness=100.0).on(robot)
    >>> task.size
    6
    """

    joints: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.joints is not None:
            require_names("joints", self.joints)
        super().__post_init__()

    def _title(self) -> str:
        return "posture"

    def _measured(self, model: Model) -> tuple[int, Motion]:
        plain = plain_joints(model)
        for name in self.joints or ():
            if name not in model.joint_names:
                raise ModelError(
                    f"task '{self.name}': {no_joint(model.kinematics.tree, name, model.joint_names)}"
                )
            if name not in plain:
                raise ModelError(f"task '{self.name}': joint '{name}' has a quaternion; use OrientationTask")
        names = plain if self.joints is None else tuple(self.joints)
        if not names or len(set(names)) < len(names):
            raise TaskError(f"task '{self.name}': expected joints, each once, got {names}")
        at_q, at_v = slots(model.configuration_slice, names), slots(model.velocity_slice, names)
        J, zero = np.eye(model.nv)[at_v], np.zeros((len(at_v), model.nv))
        return len(at_v), lambda state: (state.q[at_q], J, zero)


@dataclass(frozen=True, eq=False)
class CenterOfMassTask(Task):
    """The centre of mass of a robot with a floating base, in world axes, m, m/s, N. Place: (3,).

    Examples
    --------
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> control.CenterOfMassTask(damping=10.0, stiffness=50.0).on(mb.example("quadruped")).size
    3
    """

    def _title(self) -> str:
        return "center of mass"

    def _measured(self, model: Model) -> tuple[int, Motion]:
        CentroidalCoordinates(model)  # which says what is missing
        mass = total_mass(model)

        def motion(state: RobotState) -> tuple[Any, np.ndarray, np.ndarray]:
            p, p_dot = state.linear_momentum
            return state.center_of_mass, p / mass, p_dot / mass

        return 3, motion


@dataclass(frozen=True, eq=False)
class AngularMomentumTask(Task):
    """The angular momentum about the centre of mass, world axes, kg m^2/s. It has no place: None.

    It is the rate of no position, so that stiffness and rate must be zero. Target: its value and rate.

    Examples
    --------
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> control.AngularMomentumTask(damping=5.0).on(mb.example("quadruped")).size
    3
    >>> control.AngularMomentumTask(damping=5.0, stiffness=1.0).on(mb.example("quadruped"))
    Traceback (most recent call last):
        ...
    connections.control.whole_body.task.TaskError: task 'angular momentum': the angular momentum has
    no place: no stiffness, no rate
    """

    has_place: ClassVar[bool] = False

    def _title(self) -> str:
        return "angular momentum"

    def _measured(self, model: Model) -> tuple[int, Motion]:
        if self.rate != 0.0 or np.any(np.asarray(self.stiffness) != 0.0):
            raise TaskError(f"task '{self.name}': the angular momentum has no place: no stiffness, no rate")
        CentroidalCoordinates(model)  # which says what is missing

        def motion(state: RobotState) -> tuple[Any, np.ndarray, np.ndarray]:
            return None, *state.angular_momentum

        return 3, motion

    def _error(self, place: Any, target: Target, u: np.ndarray) -> Error:
        if target.place is not None:
            raise TaskError(f"task '{self.name}': it has no place; give its value as the target's velocity")
        u_d, a_d = target_velocity(self, target, 3)
        return Error(np.zeros(3), np.zeros((3, 3)), u - u_d, u_d, a_d)


def plain_joints(model: Model) -> tuple[str, ...]:
    """Names of the joints of one or more velocities v = qdot."""
    quaternions = [type(joint) in (Free, Spherical) for joint in model.kinematics.joints]
    return tuple(name for name, other in zip(model.joint_names, quaternions, strict=True) if not other)


def slots(slice_of: Callable[[str], slice], joints: Sequence[str]) -> np.ndarray:
    """The indices of joints in a vector, in the order of the joints."""
    parts = [np.arange(at.start, at.stop) for at in map(slice_of, joints)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=int)


# --- private -----------------------------------------------------------------------------------------------

_POINT = "point of a task"


def _body_motion(model: Model, state: RobotState, frame: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pose of a frame, its Jacobian in its own axes, and the Jacobian's rate."""
    q, v = state.at, state.v
    return (
        frame_pose(model, q, frame),
        frame_jacobian(model, q, frame),
        frame_jacobian_rate(model, q, v, frame),
    )


def _group_error(task: Task, place: np.ndarray, target: Target, u: np.ndarray) -> Error:
    """The error e = log X_d^-1 X; the target's motion is given in the target's own axes."""
    X_d, u_d, a_d = target_motion(task, target, place.shape, len(u))
    m, now = len(u), np.ascontiguousarray(place)
    R, x, E, (e, difference, seen, rate) = np.empty((3, 3)), np.zeros(3), np.empty((m, m)), np.empty((4, m))
    if not compiled.group_error(now, X_d, u, u_d, a_d, R, x, E, e, difference, seen, rate):
        raise TaskError(f"task '{task.name}': the axes of its target are no rotation")
    return Error(e, E, difference, seen, rate)


def _require_frame(task: Any, model: Model) -> None:
    if task.frame not in model.frame_names:
        raise ModelError(f"task '{task.name}': {no_such('frame', task.frame, model.frame_names)}")
