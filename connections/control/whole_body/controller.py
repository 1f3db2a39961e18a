"""The whole-body law: torques with which tasks are passive, contacts hold, and limits are kept.

Every task asks for the acceleration with which it is passive (`task.py`). The robot's acceleration and the
contacts' forces are the unknowns, the torques follow from them:

    tau = H vdot + C v + g - J_c^T f,     zero where no motor is,     J_c vdot + Jdot_c v = -damping J_c v,

with f in the friction cones, and torques and joints within their limits. Deviations of tasks are measured by
r^T Lambda r, the kinetic metric, so that no choice of units or axes matters; so are the unknowns,

    y = (L^T vdot, f / M^(1/2)),      H = L L^T,

M being the robot's mass. What tasks leave open minimizes the forces |f|, moments being divided by the size of
their contact, and then tau^T H^-1 tau.
Source: [MP], for the tasks; derived here for the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np

from connections._jax import ArrayLike
from connections._words import no_such
from connections.checks import (
    Check,
    ConvergenceError,
    MetricError,
    ModelError,
    NonFiniteError,
    as_number,
    require_bool,
    require_names,
    require_type,
)
from connections.control.contacts import BodyContact, Contacts
from connections.control.whole_body.bounds import Bounds, bounds_of
from connections.control.whole_body.compiled import compiled
from connections.control.whole_body.hierarchy import InfeasibleError, Level, by_programs
from connections.control.whole_body.robot_state import Coriolis, RobotState, require_coriolis
from connections.control.whole_body.task import (
    RobotTask,
    Task,
    TaskError,
    TaskStack,
    TaskState,
    dependent_components,
)
from connections.evaluation.boundary import returns_input_kind
from connections.multibody import total_mass
from connections.multibody.applied_forces import require_whole
from connections.multibody.model import Model, require_model

_LIGHTEST = 1e-12  # of weights of one priority; squares of smaller ones are round-off
_SHARE = 1e-6  # of a row in another one, that makes an error name it


@dataclass(frozen=True, eq=False)
class WholeBodyCommand:
    """The forces that the law commands, with the acceleration, the tasks, and whether a bound changed them.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> posture = control.PostureTask(damping=10.0, stiffness=100.0, name="posture")
    >>> law = control.WholeBodyController(robot, [posture], torque_limits=np.inf, limit_time=None)
    >>> q, v = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0]), np.zeros(6)
    >>> command = law.command(q, v, {"posture": q + 0.01})
    >>> command.bounded, np.allclose(command.residuals["posture"], 0.0, atol=1e-9)
    (False, True)
    """

    tau: np.ndarray  #: (nv,) generalized forces, N m and N; zero where no motor is
    forces: np.ndarray  #: (k,) of the contacts, in their order and axes; zero of those that are lifted
    acceleration: np.ndarray  #: (nv,) vdot of the model
    tasks: tuple[TaskState, ...]  #: at this state
    bounded: bool  #: whether friction or a limit changes it
    holds: bool  #: whether the contacts that are not lifted hold; else they give way
    multipliers: tuple[np.ndarray, ...]  #: of the bounds, for the next call's guess

    def __getitem__(self, name: str) -> TaskState:
        """The task of that name."""
        for task in self.tasks:
            if task.of.name == name:
                return task
        raise KeyError(no_such("task", name, [task.of.name for task in self.tasks]))

    @property
    def residuals(self) -> dict[str, np.ndarray]:
        """{task: Lambda s' + (C_t + D) s + E^T K e}, (m,) forces: zero for tasks that are met."""
        return {task.of.name: task.residual(self.acceleration) for task in self.tasks}

    @property
    def storage(self) -> dict[str, float]:
        """{task: V = s^T Lambda s / 2 + e^T K e / 2}."""
        return {task.of.name: task.storage for task in self.tasks}

    def check_power_balance(self, tol: float = 1e-9) -> Check:
        """V' = -s^T D s - rate e^T K e + s^T residual, for the task with the largest gap.

        V' is computed from the rate of Lambda, without a Coriolis matrix, so that the balance fails if the
        one that the law uses is not skew, Hdot - 2C.
        """
        worst = Check("power balance of tasks", 0.0, 0.0, tol)
        for task in self.tasks:
            rate, given = task.storage_rate(self.acceleration), task.dissipation
            power = float(task.sliding @ task.residual(self.acceleration))
            swing = float(np.abs(task.sliding) @ np.abs(task.inertia_rate) @ np.abs(task.sliding))
            check = Check(
                worst.name, abs(rate + given - power), abs(rate) + abs(given) + abs(power) + swing, tol
            )
            if not check.relative <= worst.relative:
                worst = check
        return worst


class Support(NamedTuple):
    """The contacts that bear the robot, and the bounds of forces with them."""

    contacts: Contacts
    per_length: np.ndarray  #: factors from components to forces, which are made small (`Contact.per_length`)
    rows: np.ndarray  #: of its forces among those of all contacts
    bounds: Bounds
    loose: Bounds  #: without limits of joints


@dataclass(frozen=True, eq=False)
class WholeBodyController:
    """Torques of a robot for several tasks at once, each passive with its own inertia and Coriolis matrix.

    Parameters
    ----------
    model : the robot.
    tasks : what it is to do; those of a smaller priority number come first, and within a priority they have
        weights.
    contacts : what it stands on; they hold, and their forces are bounded by friction.
    actuated : names of the joints that have motors; None for all but a free first joint.
    torque_limits : (k,) of the motors' velocities, N m and N, in the order of ``actuated``; None for those of
        ``model.limits``.
    limit_time : T, s: coordinates with v = qdot approach the limits of ``model.limits`` as (q_max - q) / T^2
        - 2 v / T >= vdot, and all velocities theirs as (v_max - v) / T >= vdot; None leaves joint limits
        out. Largest angles of ball joints and limits of dependent joints are an error unless it is None.
    contact_damping : 1/s, at which velocities of contacts fall.
    give_way : what is done where no torques let the contacts hold within all bounds, or the solver fails:
        False raises the error; True lets the contacts give way, and leaves out the limits of joints.
        Friction and torques keep their bounds, and how far the contacts' accelerations miss is least (in
        the kinetic metric); tasks come after that.
    coriolis : whose Coriolis matrix tasks use: a body-level factor of `multibody.coriolis_matrix`, or a
        function (q, v) -> C (nv, nv), such as ``model.system(gamma, beta).coriolis_matrix``.
    trade_off : whether tasks of one priority may depend on each other, so that their weights decide.
    passive : whether `Model.passive_forces` act, too: motors give the rest. Springs and dampers of the robot
        then do not enter the tasks' own.

    Raises
    ------
    ModelError, TaskError, GainError, ShapeError, NonFiniteError, TypeError.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> posture = control.PostureTask(damping=10.0, stiffness=100.0, name="posture")
    >>> law = control.WholeBodyController(robot, [posture])
    >>> q, v = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0]), np.zeros(6)
    >>> np.allclose(law.torque(q, v, {"posture": q}), mb.gravity(robot, q))
    True

    Source: [MP]; [W] Remark 8.
    """

    model: Model
    tasks: Sequence[Task]
    contacts: Sequence[BodyContact] = ()
    actuated: Sequence[str] | None = None
    torque_limits: Any = None
    limit_time: float | None = 0.05
    contact_damping: float = 0.0
    give_way: bool = False
    coriolis: Coriolis = "christoffel"
    trade_off: bool = False
    passive: bool = False
    _stack: TaskStack = field(init=False, repr=False)
    _names: list[str] = field(init=False, repr=False)
    _supports: dict[tuple[str, ...], Support] = field(init=False, repr=False)
    _slices: list[slice] = field(init=False, repr=False)  #: rows of tasks of each priority
    _levels: np.ndarray = field(init=False, repr=False)  #: the first of them, and their number
    _weights: np.ndarray = field(init=False, repr=False)  #: (M,) the roots of the rows' weights
    _root_mass: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_model("WholeBodyController", self.model)
        require_bool("give_way", self.give_way)
        require_bool("trade_off", self.trade_off)
        require_bool("passive", self.passive)
        if self.passive:
            require_whole(self.model.kinematics)
        require_coriolis(self.coriolis)
        tasks = tuple(sorted(_checked(self.tasks), key=lambda task: task.priority))
        on_robot = tuple(task.on(self.model) for task in tasks)
        contacts = Contacts(self.model, self.contacts)
        damping = as_number("contact_damping", self.contact_damping)
        if not 0.0 <= damping < np.inf:
            raise ValueError(f"contact_damping must be at least zero, got {damping:g}")
        own = {"tasks": tasks, "contacts": contacts.contacts, "contact_damping": damping}
        own |= {"_stack": TaskStack(on_robot), "_supports": {}}
        slices, weights = _levels(on_robot)
        own |= {"_names": [task.name for task in tasks], "_slices": slices, "_weights": weights}
        own |= {"_levels": np.array([*(at.start for at in slices), len(weights)])}
        own |= {"_root_mass": float(np.sqrt(total_mass(self.model)))}
        for name, value in own.items():
            object.__setattr__(self, name, value)
        self._support(())  # which checks the bounds

    @returns_input_kind
    def torque(self, q: ArrayLike, v: ArrayLike, targets: Mapping[str, Any]) -> np.ndarray:
        """The forces tau, (nv,), of `command`."""
        return self.command(q, v, targets).tau

    def command(
        self,
        q: Any,
        v: ArrayLike,
        targets: Mapping[str, Any],
        guess: WholeBodyCommand | None = None,
        lifted: Sequence[str] = (),
    ) -> WholeBodyCommand:
        """Torques, forces of contacts and accelerations at one state.

        Parameters
        ----------
        q : (nq,) configuration, or `SolvedLoops`.
        v : (nv,) velocity in the model's frame.
        targets : {name of a task: `Target`, or the place alone, at rest}.
        guess : a command at a state nearby, whose active bounds are tried first; it saves time and changes
            the result by round-off.
        lifted : frames whose contacts do not touch now. They have no force and need not hold; what they do
            instead is a task's to say. The command may jump when this changes: what bounds allow does.

        Raises
        ------
        ShapeError, NonFiniteError, PointError : of q, v and targets.
        TaskError : tasks of one priority, or components of one, depend on each other; it names them. A task
            has no target, or a target no task.
        InfeasibleError : no torques keep the contacts within all bounds; it names the bounds that are in the
            way. There is no command then, unless `give_way`.
        ConvergenceError : the solver failed, which is no statement about the program.
        ModelError : no contact is on a frame that is lifted.

        Source: [MP].
        """
        require_type("targets", targets, Mapping, "write {name of a task: Target}")
        if guess is not None:
            require_type("guess", guess, WholeBodyCommand)
        state = RobotState(self.model, q, v, self.coriolis, self.passive)
        tasks = self._stack.at(state, self._places(targets))
        support = self._support(require_names("lifted", lifted))
        given = self._given(state, tasks, support)
        try:
            found = self._solved(state, tasks, support, support.bounds, given, True, guess)
        except (InfeasibleError, ConvergenceError):
            if not self.give_way or not self.contacts:
                raise
            found = self._solved(state, tasks, support, support.loose, given, False, None)
        tau, some, acceleration, holds, bounded, multipliers = found
        if lifted:
            forces = np.zeros(self._supports[()].contacts.rows)
            forces[support.rows] = some
            some = forces
        return WholeBodyCommand(tau, some, acceleration, tuple(tasks), bounded, holds, tuple(multipliers))

    def _places(self, targets: Mapping[str, Any]) -> list[Any]:
        for name in targets:
            if name not in self._names:
                raise TaskError(f"targets: {no_such('task', name, self._names)}")
        return [targets.get(name) for name in self._names]

    def _given(self, state: RobotState, tasks: Sequence[TaskState], support: Support) -> tuple[Any, ...]:
        """The first arguments of `compiled_law.best`, from H to the rates of the contacts' Jacobians."""
        contacts = support.contacts
        if contacts.contacts:
            J, J_dot = contacts.stacked(state.at), contacts.stacked(state.at, state.v)
        else:
            J = J_dot = np.zeros((0, len(state.v)))
        return (
            *(state.H, state.nonlinear_effects, state.v, state.C if tasks else state.H),
            *self._stack.given(tasks),
            *(self._levels, self._weights, not self.trade_off, J, J_dot),
        )

    def _solved(
        self,
        state: RobotState,
        tasks: Sequence[TaskState],
        support: Support,
        bounds: Bounds,
        given: tuple[Any, ...],
        holds: bool,
        guess: WholeBodyCommand | None,
    ) -> tuple[Any, ...]:
        """tau, forces and vdot; whether contacts hold, whether bounds act, and their multipliers."""
        from connections.control.whole_body.compiled_law import BOUNDED, FREE  # imports Numba

        root, J = self._root_mass, given[-2]
        (k, n), m, p = J.shape, len(self._weights), len(bounds.lower)
        lower, upper = np.empty((2, p))
        tau, acceleration, forces, y = np.empty(n), np.empty(n), np.empty(k), np.empty(n + k)
        L, W, A = np.empty((n, n)), np.empty((k, n)), np.empty((k + m, n + k))
        b, Z, sizes = np.empty(k + m), np.empty((n + k, n + k)), np.zeros(2, np.int64)
        on_tasks = np.empty((2, m, n))
        found = compiled.best(
            *given,
            *(self.contact_damping, holds, support.per_length, bounds.others, root),
            *(bounds.cone, bounds.motors, bounds.joints, bounds.places, bounds.limits, bounds.time),
            *(state.q, bounds.lower, bounds.upper, lower, upper, *on_tasks, b, A, L, W, y, Z),
            *(tau, forces, acceleration, sizes),
        )
        if found == FREE:
            return tau, forces, acceleration, holds, False, ()
        if found != BOUNDED:
            self._raise(found, tasks, on_tasks[1])
        d, first = sizes.tolist()
        Z, G, room = Z[:d], np.empty((p, d)), np.empty((2, p))
        size = compiled.bounded(
            *(y, Z, L, W, root, bounds.cone, bounds.motors, bounds.joints, tau, forces, acceleration),
            *(lower, upper, G, room),
        )
        rows = [slice(k - first, k)] * (not holds) + [slice(k + at.start, k + at.stop) for at in self._slices]
        levels = [Level(A[at], b[at]) for at in rows]
        solution = by_programs(levels, G, room, size, None if guess is None else guess.multipliers, y, Z)
        if solution is None:
            values = bounds.values(tau, forces, acceleration)
            raise InfeasibleError(
                "no torques and forces keep all bounds at this state; without bounds, the tasks ask for "
                f"more than {bounds.names(values, lower, upper)} can give"
            )
        compiled.outward(
            solution[0], state.nonlinear_effects, J, bounds.others, root, L, tau, forces, acceleration
        )
        return tau, forces, acceleration, holds, True, solution[1]

    def _raise(self, found: int, tasks: Sequence[TaskState], rows: np.ndarray) -> NoReturn:
        """The error for what `compiled_law.best` found."""
        from connections.control.whole_body import compiled_law

        if found == compiled_law.NOT_DEFINITE:
            raise MetricError("the mass matrix is singular at this configuration")
        if found == compiled_law.CONTRADICTS:
            raise InfeasibleError("the contacts, which repeat each other, move against each other")
        if found == compiled_law.NOT_FINITE:
            for task in tasks:
                error = task.error
                if not np.isfinite(error.e + error.u_d + error.a_d).all():
                    name = task.of.name
                    raise NonFiniteError(f"the target of '{name}' is NaN, infinite, or too far away")
            raise NonFiniteError("the accelerations that the tasks ask for are not finite")
        if found < compiled_law.OF_ROW:
            raise TaskError(dependent_components(tasks[found - compiled_law.OF_TASK].of.name))
        last = found - compiled_law.OF_ROW
        (start,) = (at.start for at in self._slices if at.start <= last < at.stop)
        shares = np.linalg.lstsq(rows[start:last].T, rows[last], rcond=None)[0]
        used = [*np.flatnonzero(np.abs(shares) > _SHARE), last - start]
        owners = np.repeat([task.of.name for task in tasks], [task.of.size for task in tasks])
        names = list(dict.fromkeys(owners[start + row] for row in used))
        raise TaskError(
            f"the tasks {', '.join(map(repr, map(str, names)))} depend on each other at this configuration, "
            "so that not all can be met: give them different priorities, or trade_off=True to weigh them"
        )

    def _support(self, lifted: tuple[str, ...]) -> Support:
        """The contacts that bear the robot while those of some frames are lifted; made once for each."""
        if lifted not in self._supports:
            frames = [contact.frame for contact in self.contacts]
            for name in lifted:
                if name not in frames:
                    touching = ", ".join(frames) or "none"
                    raise ModelError(f"lifted: no contact is on a frame {name!r}. Contacts are on {touching}")
            of_all = Contacts(self.model, self.contacts)
            parts = zip(of_all.slices, self.contacts, strict=True)
            rows = [np.arange(of_all.rows)[at] for at, contact in parts if contact.frame not in lifted]
            contacts = Contacts(self.model, [c for c in self.contacts if c.frame not in lifted])
            bounds, loose = (
                bounds_of(self.model, contacts, self.actuated, self.torque_limits, time)
                for time in (self.limit_time, None)
            )
            per_length = np.concatenate([np.zeros(0), *(c.per_length for c in contacts.contacts)])
            places = np.concatenate([np.zeros(0, int), *rows])
            self._supports[lifted] = Support(contacts, per_length, places, bounds, loose)
        return self._supports[lifted]


# --- private -----------------------------------------------------------------------------------------------


def _checked(tasks: Sequence[Task]) -> tuple[Task, ...]:
    require_type("tasks", tasks, Sequence, "write [task]")
    for number, task in enumerate(tasks):
        require_type(f"tasks[{number}]", task, Task)
    names = [task.name for task in tasks]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise TaskError(f"two tasks are called '{twice[0]}'; give one of them another name")
    return tuple(tasks)


def _levels(tasks: Sequence[RobotTask]) -> tuple[list[slice], np.ndarray]:
    """Where the rows of each priority lie, and the roots of the rows' weights, at most one."""
    levels, roots = list[slice](), [np.zeros(0)]
    for priority in sorted({task.task.priority for task in tasks}):
        members = [task for task in tasks if task.task.priority == priority]
        lightest, heaviest = (end(members, key=lambda task: task.task.weight) for end in (min, max))
        if lightest.task.weight < _LIGHTEST * heaviest.task.weight:
            raise TaskError(
                f"task '{lightest.name}' has less than {_LIGHTEST:g} of the weight of '{heaviest.name}': "
                "give it another priority"
            )
        weights = np.concatenate([np.full(task.size, task.task.weight) for task in members])
        start = levels[-1].stop if levels else 0
        levels.append(slice(start, start + len(weights)))
        roots.append(np.sqrt(weights / weights.max()))
    return levels, np.concatenate(roots)
