"""The whole-body law: torques with which tasks are passive, contacts hold, and limits are kept.

Every task asks for the acceleration with which it is passive (`task.py`). The robot's acceleration and the
contacts' forces are the unknowns, the torques follow from them:

    tau = H vdot + C v + g - J_c^T f,     zero where no motor is,     J_c vdot + Jdot_c v = -damping J_c v,

with f in the friction cones, and torques and joints within their limits. Deviations of tasks are measured by
r^T Lambda r, the kinetic metric, so that no choice of units or axes matters; so are the unknowns,

    y = (L^T vdot, f / M^(1/2)),      H = L L^T,

M being the robot's mass. What tasks leave open minimizes the forces |f|, moments being divided by the size of
their contact, and then tau^T H^-1 tau.
Source: Englsberger et al., MPTC, RSS 2020, for the tasks; derived here for the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dgeqrf, dpotrf, dtrtrs

from connections._words import no_such
from connections.checks import Check, ConvergenceError, ModelError, NonFiniteError, as_number, require_type
from connections.control.contacts import Contact, Contacts
from connections.control.whole_body.bounds import Bounds, bounds_of
from connections.control.whole_body.hierarchy import InfeasibleError, Level, by_nullspaces, by_programs, split
from connections.control.whole_body.robot_state import Coriolis, RobotState
from connections.control.whole_body.task import (
    RobotTask,
    Task,
    TaskError,
    TaskStack,
    TaskState,
)
from connections.evaluation.boundary import kind_kept
from connections.multibody import total_mass
from connections.multibody.model import Model, require_model

_DEPENDENT = 1e-7  # of unit rows, as for those of one task
_LIGHTEST = 1e-12  # of weights of one priority; squares of smaller ones are round-off
_SHARE = 1e-6  # of a row in another one, that makes an error name it
_CONTRADICTION = 1e-6  # of accelerations that dependent contacts ask for, relative to the largest


@dataclass(frozen=True, eq=False)
class WholeBodyCommand:
    """What the law commands, and why."""

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
    """What bears the robot."""

    contacts: Contacts
    forces: Level  #: the forces are to vanish
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
    limit_time : T, s: joints of one velocity approach the limits of ``model.limits`` as (q_max - q) / T^2 -
        2 v / T >= vdot, and their velocities as (v_max - v) / T >= vdot; None leaves joint limits out.
    contact_damping : 1/s, at which velocities of contacts fall.
    give_way : what is done where no torques let the contacts hold within all bounds, or the solver fails:
        False raises the error; True lets the contacts give way, and leaves out the limits of joints.
        Friction and torques keep their bounds, and how far the contacts' accelerations miss is least (in
        the kinetic metric); tasks come after that.
    coriolis : whose Coriolis matrix tasks use: a body-level factor of `multibody.coriolis_matrix`, or a
        function (q, v) -> C (nv, nv), such as ``model.system(gamma, beta).coriolis_matrix``.
    trade_off : whether tasks of one priority may depend on each other, so that their weights decide.

    Raises
    ------
    ModelError, TaskError, GainError, ShapeError, NonFiniteError, TypeError.

    Source: Englsberger et al., MPTC, RSS 2020; [W] Remark 8.
    """

    model: Model
    tasks: Sequence[Task]
    contacts: Sequence[Contact] = ()
    actuated: Sequence[str] | None = None
    torque_limits: Any = None
    limit_time: float | None = 0.05
    contact_damping: float = 0.0
    give_way: bool = False
    coriolis: Coriolis = "christoffel"
    trade_off: bool = False
    _stack: TaskStack = field(init=False, repr=False)
    _names: list[str] = field(init=False, repr=False)
    _weighted: bool = field(init=False, repr=False)
    _supports: dict[tuple[str, ...], Support] = field(init=False, repr=False)
    _levels: tuple[tuple[slice, np.ndarray], ...] = field(init=False, repr=False)
    _shared: tuple[tuple[slice, np.ndarray], ...] = field(init=False, repr=False)  #: levels of several tasks
    _root_mass: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_model("WholeBodyController", self.model)
        tasks = tuple(sorted(_checked(self.tasks), key=lambda task: task.priority))
        on_robot = tuple(task.on(self.model) for task in tasks)
        contacts = Contacts(self.model, self.contacts)
        damping = as_number("contact_damping", self.contact_damping)
        if not 0.0 <= damping < np.inf:
            raise ValueError(f"contact_damping must be at least zero, got {damping:g}")
        own = {"tasks": tasks, "contacts": contacts.contacts, "contact_damping": damping}
        own |= {"_stack": TaskStack(on_robot), "_supports": {}}
        own |= {"_names": [task.name for task in tasks], "_weighted": len({t.weight for t in tasks}) > 1}
        own |= {"_levels": _levels(on_robot, 1), "_shared": _levels(on_robot, 2)}
        own |= {"_root_mass": float(np.sqrt(total_mass(self.model)))}
        for name, value in own.items():
            object.__setattr__(self, name, value)
        self._support(())  # which checks the bounds

    @kind_kept
    def torque(self, q: Any, v: Any, targets: Mapping[str, Any]) -> np.ndarray:
        """The forces tau, (nv,), of `command`."""
        return self.command(q, v, targets).tau

    def command(
        self,
        q: Any,
        v: Any,
        targets: Mapping[str, Any],
        guess: WholeBodyCommand | None = None,
        lifted: Sequence[str] = (),
    ) -> WholeBodyCommand:
        """Torques, forces of contacts and accelerations at one state.

        Parameters
        ----------
        q : (nq,) configuration.
        v : (nv,) velocity in the model's frame.
        targets : {name of a task: `Target`, or the place alone, at rest}.
        guess : a command at a state nearby, whose active bounds are tried first; it saves time and changes
            the result by round-off only.
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

        Source: Englsberger et al., MPTC, RSS 2020.
        """
        state = RobotState(self.model, q, v, self.coriolis)
        tasks = self._stack.at(state, self._places(targets))
        support = self._support(tuple(lifted))
        J, W, wanted = self._held(state, support.contacts)
        levels = self._asked(tasks, len(wanted))
        try:
            start, holds = self._consistent(state, W, wanted), True
            found = self._solved(state, support, support.bounds, (J, W), start, levels, guess)
        except (InfeasibleError, ConvergenceError):
            if not self.give_way or not self.contacts:
                raise
            start, holds = self._consistent(state, W, wanted[:0]), False
            levels = [_as_held(W, wanted), *levels]
            found = self._solved(state, support, support.loose, (J, W), start, levels, None)
        (tau, some, acceleration), bounded, multipliers = found
        forces = np.zeros(self._supports[()].contacts.rows)
        forces[support.rows] = some
        return WholeBodyCommand(tau, forces, acceleration, tuple(tasks), bounded, holds, tuple(multipliers))

    def _solved(
        self,
        state: RobotState,
        support: Support,
        bounds: Bounds,
        of_contacts: tuple[np.ndarray, np.ndarray],
        start: tuple[np.ndarray, np.ndarray],
        levels: list[Level],
        guess: WholeBodyCommand | None,
    ) -> tuple[tuple[np.ndarray, ...], bool, Sequence[np.ndarray]]:
        """tau, forces and vdot; whether bounds act; their multipliers."""
        (J, W), h = of_contacts, state.whitened(state.bias)
        y, left = by_nullspaces([*levels, support.forces], *start)
        # What is left is motion, without forces: no torque along it.
        y[: len(h)] -= left[: len(h)] @ (
            left[: len(h)].T @ (y[: len(h)] + h - self._root_mass * (W @ y[len(h) :]))
        )
        found = self._of(state, J, y)
        lower, upper = bounds.at(state)
        values = bounds.values(*found)
        if (values >= lower).all() and (values <= upper).all():
            return found, False, ()
        if not np.isfinite(y).all():
            raise NonFiniteError("the accelerations that the tasks ask for are not finite")
        G = bounds.rows(state, W, self._root_mass)
        length = np.sqrt((G * G).sum(axis=1))
        shift = G @ y - values  # bounds of y are those of values, which are affine in y
        solution = by_programs(
            levels,
            G / length[:, None],
            (lower + shift) / length,
            (upper + shift) / length,
            None if guess is None else guess.multipliers,
            y,
            start[1],
        )
        if solution is None:
            raise InfeasibleError(
                "no torques and forces keep all bounds at this state; without bounds, the tasks ask for "
                f"more than {bounds.names(values, lower, upper)} can give"
            )
        return self._of(state, J, solution[0]), True, solution[1]

    def _support(self, lifted: tuple[str, ...]) -> Support:
        """What bears the robot while the contacts of some frames are lifted; made once for each."""
        if lifted not in self._supports:
            frames = [contact.frame for contact in self.contacts]
            for name in lifted:
                if name not in frames:
                    raise ModelError(f"lifted: {no_such('contact on a frame', name, frames)}")
            of_all = Contacts(self.model, self.contacts)
            parts = zip(of_all.slices, self.contacts, strict=True)
            rows = [np.arange(of_all.rows)[at] for at, contact in parts if contact.frame not in lifted]
            contacts = Contacts(self.model, [c for c in self.contacts if c.frame not in lifted])
            bounds, loose = (
                bounds_of(self.model, contacts, self.actuated, self.torque_limits, time)
                for time in (self.limit_time, None)
            )
            forces, places = _least_forces(contacts, self.model.nv), np.concatenate([np.zeros(0, int), *rows])
            self._supports[lifted] = Support(contacts, forces, places, bounds, loose)
        return self._supports[lifted]

    def _places(self, targets: Mapping[str, Any]) -> list[Any]:
        for name in targets:
            if name not in self._names:
                raise TaskError(f"targets: {no_such('task', name, self._names)}")
        return [targets.get(name) for name in self._names]

    def _held(self, state: RobotState, contacts: Contacts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """J of the contacts, L^-1 J^T, and the accelerations J vdot with which they hold."""
        if not contacts.contacts:
            return np.zeros((0, len(state.v))), np.zeros((len(state.v), 0)), np.zeros(0)
        J = contacts.jacobian(state.q)
        wanted = -(contacts.jacobian_rate(state.q, state.v) @ state.v)
        if self.contact_damping:
            wanted -= self.contact_damping * (J @ state.v)
        return J, state.whitened(J.T), wanted

    def _consistent(
        self, state: RobotState, W: np.ndarray, wanted: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """A y without forces where no motor is and with contacts that hold, and a basis of all others.

        Without `wanted`, contacts are free to move.
        """
        h, others, (n, m) = state.whitened(state.bias), self._supports[()].bounds.others, W.shape
        u, k = len(others), len(wanted)
        if u + k == 0:
            return np.zeros(n + m), np.eye(n + m)
        E, e = np.zeros((u + k, n + m)), np.empty(u + k)
        if u and others[-1] == u - 1:  # the first velocities: L is triangular
            E[:u, :u], E[:u, n:], e[:u] = np.eye(u), -self._root_mass * W[:u], -h[:u]
        else:  # rows of unit length that span those of L
            free = dtrtrs(dpotrf(state.H[np.ix_(others, others)], lower=1)[0], state.L[others], lower=1)[0]
            E[:u, :n], E[:u, n:], e[:u] = free, -self._root_mass * (free @ W), -(free @ h)
        E[u:, :n], e[u:] = W.T[:k], wanted
        parts = split(E, None)
        y = parts.least_squares(e)
        if parts.rank < len(e) and not np.abs(E @ y - e).max() <= _CONTRADICTION * (1.0 + np.abs(e).max()):
            raise InfeasibleError("the contacts, which repeat each other, move against each other")
        return y, parts.open

    def _asked(self, tasks: Sequence[TaskState], k: int) -> list[Level]:
        """The tasks' levels, with orthonormal rows for each task."""
        if not tasks:
            return []
        rows, b = self._stack.wishes(tasks)
        if not np.isfinite(b).all():
            bad = [task.of.name for task in tasks if not np.isfinite(task.wanted).all()]
            raise NonFiniteError(f"the target of '{bad[0]}' is NaN, infinite, or too far away")
        if not self.trade_off:
            for at, _ in self._shared:
                self._require_independent(rows, at)
        A = np.zeros((len(b), self.model.nv + k))
        A[:, : self.model.nv] = rows
        if not self._weighted:
            return [Level(A[at], b[at]) for at, _ in self._levels]
        return [Level(A[at] * weights[:, None], b[at] * weights) for at, weights in self._levels]

    def _require_independent(self, rows: np.ndarray, at: slice) -> None:
        """Raise `TaskError` with the names of tasks of one level whose rows depend on each other."""
        m, n = at.stop - at.start, rows.shape[1]
        found = np.abs(dgeqrf(rows[at].T)[0].diagonal()) <= _DEPENDENT
        if m <= n and not found.any():
            return
        last = int(np.argmax(found)) if found.any() else n
        before = rows[at.start : at.start + last]
        shares = np.linalg.lstsq(before.T, rows[at.start + last], rcond=None)[0]
        used = [*np.flatnonzero(np.abs(shares) > _SHARE), last]
        owners = np.repeat(
            [task.name for task in self._stack.tasks], [task.size for task in self._stack.tasks]
        )
        names = list(dict.fromkeys(owners[at.start + row] for row in used))
        raise TaskError(
            f"the tasks {', '.join(map(repr, map(str, names)))} depend on each other at this configuration, "
            "so that not all can be met: give them different priorities, or trade_off=True to weigh them"
        )

    def _of(self, state: RobotState, J: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """tau, forces and vdot of y."""
        n = len(state.v)
        acceleration, forces = state.velocities(y[:n]), self._root_mass * y[n:]
        tau = state.L @ y[:n] + state.bias - forces @ J
        tau[self._supports[()].bounds.others] = 0.0
        return tau, forces, acceleration


# --- private -----------------------------------------------------------------------------------------------


def _checked(tasks: Sequence[Task]) -> tuple[Task, ...]:
    tasks = tuple(tasks)
    for task in tasks:
        require_type("a task", task, Task)
    names = [task.name for task in tasks]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise TaskError(f"two tasks are called '{twice[0]}'; give one of them another name")
    return tasks


def _least_forces(contacts: Contacts, n: int) -> Level:
    """The forces of the contacts, all in N, which are to vanish."""
    per_length = np.concatenate([np.zeros(0), *(contact.per_length for contact in contacts.contacts)])
    A = np.zeros((len(per_length), n + len(per_length)))
    A[:, n:] = np.diag(per_length)
    return Level(A, np.zeros(len(per_length)))


def _as_held(W: np.ndarray, wanted: np.ndarray) -> Level:
    """W^T L^T vdot = wanted, the contacts hold, as well as possible in the kinetic metric."""
    n, m = W.shape
    parts = split(W.T, None)
    A = np.zeros((parts.rank, n + m))
    A[:, :n] = parts.Q[:, : parts.rank].T
    return Level(A, A[:, :n] @ parts.least_squares(wanted))


def _levels(tasks: Sequence[RobotTask], least: int) -> tuple[tuple[slice, np.ndarray], ...]:
    """Where rows of each priority of at least so many tasks lie, and the roots of weights, at most one."""
    levels, start = [], 0
    for priority in sorted({task.task.priority for task in tasks}):
        members = [task for task in tasks if task.task.priority == priority]
        lightest, heaviest = (end(members, key=lambda task: task.task.weight) for end in (min, max))
        if lightest.task.weight < _LIGHTEST * heaviest.task.weight:
            raise TaskError(
                f"task '{lightest.name}' has less than {_LIGHTEST:g} of the weight of '{heaviest.name}': "
                "give it another priority"
            )
        weights = np.concatenate([np.full(task.size, task.task.weight) for task in members])
        if len(members) >= least:
            levels.append((slice(start, start + len(weights)), np.sqrt(weights / weights.max())))
        start += len(weights)
    return tuple(levels)
