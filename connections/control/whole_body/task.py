"""Tasks of a robot: what is controlled, with its error, inertia and Coriolis matrix.

A task has a velocity u = J v, in axes that it defines, an error e of its place from a target, and

    Lambda = (J H^-1 J^T)^-1,    A = H^-1 J^T Lambda,    C_t = A^T C A - Lambda Jdot A,    e' = E (u - u_d),

the inertia and the Coriolis matrix of [W] Remark 8, A^T C A + A^T H Adot, with Adot written out by
J A = 1. With the reference u_r = u_d - rate e and s = u - u_r, the law of the task is

    Lambda s' + (C_t + D) s + E^T K e = 0,      V = s^T Lambda s / 2 + e^T K e / 2,
    V' = -s^T D s - rate e^T K e,

which holds for every C with Hdot - 2C skew: the task is passive whatever the others do.
Source: [W] Remark 8, eq. (17); [MP], which has rate = 0.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from connections._jax import ArrayLike
from connections.checks import as_array, as_number, is_whole, require_finite, require_text
from connections.control.laws.gains import gain_matrix
from connections.control.whole_body.compiled import compiled
from connections.control.whole_body.robot_state import Coriolis, RobotState, copied, require_coriolis
from connections.multibody.model import Model, require_model
from connections.multibody.program.closed import SolvedLoops

_DEPENDENT = 1e-7  # of unit rows; W^T W has no digits left for smaller parts

Motion = Callable[[RobotState], tuple[Any, np.ndarray, np.ndarray]]  # place, J (m, nv), Jdot (m, nv)


class TaskError(ValueError):
    """A task cannot be one, or tasks depend on each other; the message names them.

    Examples
    --------
    >>> from connections import control
    >>> control.PointTask("tool", damping=10.0, weight=-1.0)
    Traceback (most recent call last):
        ...
    connections.control.whole_body.task.TaskError: task 'point of tool': weight must be positive, got
    -1
    """


@dataclass(frozen=True, eq=False)
class Target:
    """Where a task is to be, and how it moves there.

    Parameters
    ----------
    place : the place in the task's own form (its class says which).
    velocity : (m,) of the target, in the task's axes; for orientations and poses in the target's own.
    acceleration : (m,), the rate of these components.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> control.Target(np.array([0.3, 0.2, 0.4]), velocity=np.zeros(3)).place
    array([0.3, 0.2, 0.4])
    """

    place: Any
    velocity: Any = None
    acceleration: Any = None

    def __post_init__(self) -> None:
        for name in ("place", "velocity", "acceleration"):
            value = getattr(self, name)
            if value is not None:  # NaN is refused with the name of the task
                as_array(name, value, ())


@dataclass(frozen=True, kw_only=True, eq=False)
class Task(abc.ABC):
    """A task of a robot, such as a pose that a frame is to have; m is its number of components.

    Parameters
    ----------
    damping : D, scalar, (m,) or (m, m), positive definite; the units of a force over a velocity of the task.
    stiffness : K, of the shapes of D, symmetric, or zero; the units of a force over an error of the task.
    rate : 1/s, at which the error falls while s = 0.
    weight : how much a deviation counts beside those of other tasks of the same priority.
    priority : a task gives way to those of smaller numbers.
    name : how targets and errors call it; made of the class and the frame if empty.
    """

    damping: Any
    stiffness: Any = 0.0
    rate: float = 0.0
    weight: float = 1.0
    priority: int = 0
    name: str = ""
    has_place: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_text("name", self.name)
        object.__setattr__(self, "name", self.name or self._title())
        for what in ("damping", "stiffness"):
            require_finite(what, as_array(what, getattr(self, what), ()))
        for what in ("rate", "weight"):
            object.__setattr__(self, what, as_number(what, getattr(self, what)))
        if not 0.0 <= self.rate < np.inf:
            raise TaskError(f"task '{self.name}': rate must be at least zero, got {self.rate:g}")
        if not 0.0 < self.weight < np.inf:
            raise TaskError(f"task '{self.name}': weight must be positive, got {self.weight:g}")
        if not is_whole(self.priority):
            raise TaskError(f"task '{self.name}': priority must be an integer, got {self.priority!r}")

    def on(self, model: Model) -> RobotTask:
        """The task of a robot, with its gains as matrices.

        Raises
        ------
        ModelError : the robot has no such frame or joint.
        GainError, ShapeError, TaskError : of the gains.
        """
        require_model("a task", model)
        size, motion = self._measured(model)
        label = f"of task '{self.name}'"
        D = gain_matrix(f"damping {label}", self.damping, size)
        K = np.zeros((size, size))
        if np.any(np.asarray(self.stiffness) != 0.0):
            K = gain_matrix(f"stiffness {label}", self.stiffness, size, symmetric=True)
        return RobotTask(self, model, motion, D, K)

    @abc.abstractmethod
    def _title(self) -> str:
        """The name of the task, if it is given none."""

    @abc.abstractmethod
    def _measured(self, model: Model) -> tuple[int, Motion]:
        """The number m of components, and how place, J and Jdot are computed."""

    def _error(self, place: Any, target: Target, u: np.ndarray) -> Error:
        """The error of a place that is a vector (m,)."""
        x_d, u_d, a_d = target_motion(self, target, place.shape, len(u))
        return Error(place - x_d, None, u - u_d, u_d, a_d)


class Error(NamedTuple):
    """The error of a task, and how it changes."""

    e: np.ndarray  #: (m,)
    E: np.ndarray | None  #: (m, m), edot = E difference; None for the identity
    difference: np.ndarray  #: (m,) the velocity relative to the target's
    u_d: np.ndarray  #: (m,) the target's velocity in the axes of u
    a_d: np.ndarray  #: (m,) its rate

    @property
    def rate(self) -> np.ndarray:
        """edot, (m,)."""
        return self.difference if self.E is None else self.E @ self.difference

    def pull(self, K: np.ndarray) -> np.ndarray:
        """E^T K e, the force of the potential e^T K e / 2."""
        return np.asarray(K @ self.e if self.E is None else (K @ self.e) @ self.E)


@dataclass(frozen=True, eq=False)
class RobotTask:
    """A task of a robot, `Task.on`.

    `at` gives its quantities at one state.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> task = control.PointTask("tool", damping=10.0).on(mb.example("arm"))
    >>> q, v = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0]), np.zeros(6)
    >>> task.name, task.size, task.at(q, v).jacobian.shape
    ('point of tool', 3, (3, 6))
    """

    task: Task
    model: Model
    motion: Motion
    D: np.ndarray
    K: np.ndarray

    def __reduce__(self) -> tuple[Any, ...]:
        return _on, (self.task, self.model)  # `motion` is a local function

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.name

    @property
    def size(self) -> int:
        """The number m of components."""
        return len(self.D)

    def at(
        self, q: ArrayLike | SolvedLoops, v: ArrayLike, target: Any = None, coriolis: Coriolis = "christoffel"
    ) -> TaskState:
        """The task at q (nq,) and v (nv,).

        Parameters
        ----------
        q : (nq,) configuration, or `SolvedLoops`.
        v : (nv,) velocity in the model's frame.
        target : `Target`, or the place alone, at rest; without it, there is no error.
        coriolis : as of `WholeBodyController`.

        Raises
        ------
        ShapeError, NonFiniteError, PointError; TaskError : the rows of J depend on each other.
        """
        require_coriolis(coriolis)
        found = TaskStack([self]).at(RobotState(self.model, q, v, coriolis), [target])[0]
        if target is not None:
            require_finite(f"the target of '{self.name}'", found.error.e + found.error.u_d + found.error.a_d)
        return found


def _on(task: Task, model: Model) -> RobotTask:
    return task.on(model)


class TaskStack:
    """Tasks of one robot that are computed together, M components in all."""

    def __init__(self, tasks: Sequence[RobotTask]) -> None:
        ends = np.cumsum([0, *(task.size for task in tasks)])
        self.tasks, self.ends = tuple(tasks), ends
        self.slices = [slice(*pair) for pair in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        self.rates, self.ones = np.zeros(ends[-1]), np.eye(ends[-1])
        self.D, self.K = np.zeros((2, ends[-1], ends[-1]))  #: what belongs to one task is a block
        for task, at in zip(tasks, self.slices, strict=True):
            self.D[at, at], self.K[at, at], self.rates[at] = task.D, task.K, task.task.rate

    def at(self, state: RobotState, targets: Sequence[Any]) -> list[TaskState]:
        """The tasks at one state of the robot."""
        pairs = zip(self.tasks, targets, strict=True)
        return [TaskState(task, state, *task.motion(state), target) for task, target in pairs]

    def given(self, states: Sequence[TaskState]) -> tuple[np.ndarray, ...]:
        """The arguments of `compiled_law.task_rows` from J to the first row of each task."""
        errors, E = np.empty((3, len(self.rates))), self.ones.copy()
        for at, one in zip(self.slices, states, strict=True):
            errors[0, at], bent, errors[1, at], _, errors[2, at] = one.error
            if bent is not None:
                E[at, at] = bent
        if not states:
            J = J_dot = np.zeros((0, 0))
        else:
            J = np.concatenate([one.jacobian for one in states])
            J_dot = np.concatenate([one.jacobian_rate for one in states])
        return J, J_dot, errors, self.D, self.K, E, self.rates, self.ends


@dataclass(frozen=True, eq=False)
class TaskState:
    """A task at one state of the robot.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> q, v = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0]), np.ones(6)
    >>> state = control.PointTask("tool", damping=10.0).on(robot).at(q, v)
    >>> np.allclose(state.velocity, state.jacobian @ v)
    True
    >>> H, C, H_dot = state.inertia, state.coriolis_matrix, state.inertia_rate
    >>> np.allclose(H_dot, C + C.T)
    True
    """

    of: RobotTask
    state: RobotState
    place: Any  #: in the form that the task's class says
    jacobian: np.ndarray  #: J (m, nv)
    jacobian_rate: np.ndarray  #: Jdot (m, nv)
    target: Any

    @cached_property
    def whitened(self) -> np.ndarray:
        """W = L^-1 J^T, (nv, m). Its columns are the rows of J in units of the mass matrix."""
        return self.state.whitened(self.jacobian.T)

    @cached_property
    def velocity(self) -> np.ndarray:
        """u = J v, (m,)."""
        return np.asarray(self.jacobian @ self.state.v)

    @cached_property
    def error(self) -> Error:
        """The error, and how it changes."""
        target = self.target if isinstance(self.target, Target) else Target(self.target)
        if target.place is None and self.of.task.has_place:
            raise TaskError(f"task '{self.of.name}': it has no target")
        return self.of.task._error(self.place, target, self.velocity)

    @cached_property
    def sliding(self) -> np.ndarray:
        """s = u - u_d + rate e, (m,)."""
        return np.asarray(self.error.difference + self.of.task.rate * self.error.e)

    @cached_property
    def root(self) -> np.ndarray:
        """The Cholesky factor of J H^-1 J^T = W^T W, lower triangular (m, m).

        Raises
        ------
        TaskError : the rows of J depend on each other.
        """
        G = self.whitened.T @ self.whitened
        R, info = dpotrf(G, lower=1, clean=1)
        if info or _dependent(R, G):
            raise TaskError(dependent_components(self.of.name))
        return np.asarray(R)

    @cached_property
    def inertia(self) -> np.ndarray:
        """Lambda = (J H^-1 J^T)^-1, (m, m)."""
        half = dtrtrs(self.root, np.eye(self.of.size), lower=1)[0]
        return np.asarray(half.T @ half)

    @cached_property
    def inclusion(self) -> np.ndarray:
        """A = H^-1 J^T Lambda, (nv, m). J A = 1, and A^T H A = Lambda."""
        return self.state.velocities(self.whitened @ self.inertia)

    @cached_property
    def coriolis_matrix(self) -> np.ndarray:
        """C_t = A^T C A - Lambda Jdot A, (m, m).

        Source: [W] Remark 8, eq. (17).
        """
        A = self.inclusion
        return np.asarray(A.T @ self.state.C @ A - self.inertia @ self.jacobian_rate @ A)

    @cached_property
    def inertia_rate(self) -> np.ndarray:
        """The derivative of Lambda along v, A^T Hdot A - Lambda Jdot A - (Lambda Jdot A)^T; without any C."""
        turned = self.inertia @ self.jacobian_rate @ self.inclusion
        return np.asarray(self.inclusion.T @ self.state.H_dot @ self.inclusion - turned - turned.T)

    @cached_property
    def wanted(self) -> np.ndarray:
        """The acceleration J vdot (m,) with which the task is passive."""
        m, state = self.of.size, self.state
        W, rows, b = np.empty((m, len(state.v))), np.empty((m, len(state.v))), np.empty(m)
        given = TaskStack([self.of]).given([self])
        found = compiled.task_rows(np.ascontiguousarray(state.L), state.v, state.C, *given, W, rows, b)
        if found > 0:
            raise TaskError(dependent_components(self.of.name))
        return np.asarray(self.root @ b)

    @property
    def storage(self) -> float:
        """V = s^T Lambda s / 2 + e^T K e / 2; of places in J."""
        y, e = dtrtrs(self.root, self.sliding, lower=1)[0], self.error.e
        return float(0.5 * (y @ y) + 0.5 * e @ self.of.K @ e)

    @property
    def dissipation(self) -> float:
        """s^T D s + rate e^T K e, the rate at which V falls while the task's law holds; of places in W."""
        s, e = self.sliding, self.error.e
        return float(s @ self.of.D @ s + self.of.task.rate * e @ self.of.K @ e)

    def residual(self, acceleration: np.ndarray) -> np.ndarray:
        """Lambda s' + (C_t + D) s + E^T K e, (m,), of accelerations vdot (nv,): the force that is missing."""
        return np.asarray(dpotrs(self.root, self.jacobian @ acceleration - self.wanted, lower=1)[0])

    def storage_rate(self, acceleration: np.ndarray) -> float:
        """The derivative of V while the robot accelerates at vdot (nv,), from Lambda's rate; without C."""
        s, e, error = self.sliding, self.error.e, self.error
        s_dot = self.jacobian @ acceleration + self.jacobian_rate @ self.state.v
        s_dot = s_dot - error.a_d + self.of.task.rate * error.rate
        kinetic = s @ self.inertia @ s_dot + 0.5 * s @ self.inertia_rate @ s
        return float(kinetic + e @ self.of.K @ error.rate)


def dependent_components(name: str) -> str:
    """The sentence of a `TaskError` about a task whose rows of J depend on each other."""
    return f"task '{name}': its components depend on each other at this q"


def target_motion(
    task: Task, target: Target, shape: tuple[int, ...], size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Place (shape), velocity and acceleration (size,) of a target."""
    place = copied(f"the place of '{task.name}'", target.place, shape)
    return place, *target_velocity(task, target, size)


def target_velocity(task: Task, target: Target, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Velocity and acceleration of a target, (size,) each."""
    u_d = a_d = np.zeros(size)
    if target.velocity is not None:
        u_d = copied(f"the velocity of the target of '{task.name}'", target.velocity, (size,))
    if target.acceleration is not None:
        a_d = copied(f"the acceleration of the target of '{task.name}'", target.acceleration, (size,))
    return u_d, a_d


# --- private -----------------------------------------------------------------------------------------------


def _dependent(R: np.ndarray, G: np.ndarray) -> bool:
    """Whether R_jj / G_jj^(1/2), the part of row j outside the span of those before it, vanishes."""
    return not (R.diagonal() > _DEPENDENT * np.sqrt(G.diagonal())).all()
