"""MuJoCo as the plant of a control law: its dynamics and contacts, and what lies between the law and it.

At each multiple of the control period the law gets measured q and v, and returns the forces of the actuated
joints. They are cut to the limits, wait for the delay, and then act for one period, constant in time. The
physics makes some steps in each period. Nothing of ours is in the motion itself, so a law whose model is
ours is not judged by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, ClassVar

import numpy as np

from connections._jax import Array, ArrayLike
from connections._progress import Ticks
from connections._shown import Shown
from connections._words import words_of
from connections.affine.motions.motion import Motion, motion_class
from connections.checks import (
    IntegrationError,
    NonFiniteError,
    ShapeError,
    as_array,
    as_number,
    keep_motion,
    require_bool,
    require_choice,
    require_finite,
    require_function,
    require_indices,
    require_mapping,
    require_positive_int,
    require_text,
    require_type,
)
from connections.control.plants.mujoco_robots import MuJoCoRobot
from connections.control.plants.sampling import too_large_gain
from connections.multibody.definition.frames import body_of
from connections.multibody.definition.host_kinematics import configuration
from connections.multibody.joints import Free

Law = Callable[[float, np.ndarray, np.ndarray], Any]
_BEYOND = 1e4  # rad, m, rad/s, m/s: no robot gets there, and MuJoCo can still compute
INTEGRATORS = ("Euler", "RK4", "implicit", "implicitfast")  # of MuJoCo


@dataclass(frozen=True, eq=False)
class Push:
    """A constant force at the centre of mass of a body for some time.

    Parameters
    ----------
    body : name of a body of the model, with all links that are fixed to it.
    force : (3,) N, in world axes; the impulse is force times duration, N s.
    start, duration : s, multiples of the plant's control period.

    Examples
    --------
    >>> from connections import control
    >>> push = control.Push("trunk", force=(50.0, 0.0, 0.0), start=1.0, duration=0.1)
    >>> push.body, push.duration
    ('trunk', 0.1)
    """

    body: str
    force: Any
    start: float
    duration: float

    def __post_init__(self) -> None:
        require_text("body", self.body)
        for name in ("start", "duration"):
            object.__setattr__(self, name, as_number(name, getattr(self, name)))
        force = np.array(as_array("force", self.force, (3,)))
        if force.shape != (3,):
            raise ShapeError("force", (3,), force.shape)
        require_finite("force", force)
        object.__setattr__(self, "force", force)


@motion_class
class PlantMotion(Motion):
    """The motion of a plant at every control instant; forces of the last row never act.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = control.MuJoCoRobot.of(mb.example("arm"))
    >>> plant = control.MuJoCoPlant(robot, period=0.01, position_noise=1e-3)
    >>> motion = plant.simulate(lambda t, q, v: np.zeros(6), np.zeros(6), np.zeros(6), duration=0.1)
    >>> motion.q.shape, motion.tau.shape, float(motion.times[-1])
    ((11, 6), (11, 6), 0.1)
    >>> bool(np.abs(motion.measured_q - motion.q).max() < 0.01)
    True
    """

    tau: Array
    """(T, m) forces of the actuated joints, within their limits, before the delay; N m and N."""
    measured_q: Array
    """(T, nq) what the law was given."""
    measured_v: Array
    """(T, n) what the law was given."""
    motor_q: Array | None = None
    """(T, n) positions of the motors of elastic joints, rad and m; None if the joints are rigid."""
    motor_v: Array | None = None
    """(T, n) their rates."""

    PANELS: ClassVar[tuple[tuple[str, str], ...]] = (
        *Motion.PANELS,
        ("tau", "force of the actuators tau [N m, N]"),
    )


class FallenError(Shown, RuntimeError):
    """A robot has fallen: one of its bodies is below the height that was given.

    Parameters
    ----------
    body : its name.
    height : of its origin, m.
    motion : until then; the last row is the fall, without forces.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> dog = mb.example("quadruped")
    >>> plant = control.MuJoCoPlant(control.MuJoCoRobot.of(dog), fallen={"trunk": -0.1})
    >>> plant.simulate(lambda t, q, v: np.zeros(12), dog.neutral(), np.zeros(18), duration=1.0)
    Traceback (most recent call last):
        ...
    connections.control.plants.mujoco.FallenError: the robot has fallen: at t = 0.143 s 'trunk' is at
    a height of -0.101 m
    """

    def __init__(self, body: str, height: float, motion: PlantMotion) -> None:
        self.body, self.height, self.motion, self.time = body, height, motion, float(motion.times[-1])
        super().__init__(
            f"the robot has fallen: at t = {self.time:g} s '{body}' is at a height of {height:.3g} m"
        )


@dataclass(frozen=True, eq=False)
class MuJoCoPlant:
    """A robot in MuJoCo with its actuators and sensors.

    Parameters
    ----------
    robot : from `MuJoCoRobot.of` or `MuJoCoRobot.from_mjcf`.
    period : s, of the control.
    steps : MuJoCo's steps in each period.
    delay : s, from the measurement until the forces of the law act; a multiple of the physics step. Before
        the first ones act, there are none.
    limit : largest size of each actuated force, N m and N, a number or (m,); None for no limit.
    position_noise, velocity_noise : standard deviations of the measured q (along the frame fields) and v,
        rad, m, rad/s, m/s: numbers or (nv,).
    motor_side : whether the law is given the positions and velocities of the motors instead of the joints',
        if the joints are elastic.
    fallen : {body name: height of MuJoCo's origin of it, m, below which the robot has fallen}.
    integrator : one of MuJoCo's, Euler, RK4, implicit or implicitfast.

    All joints are actuated except free ones; m is the number of their velocity components.

    Raises
    ------
    ShapeError, NonFiniteError, TypeError; ValueError : a number is negative or zero that must not be, the
        delay is no multiple of the physics step, `motor_side` without elastic joints, an unknown integrator;
        ModelError : there is no such body.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> arm = mb.example("arm")
    >>> plant = control.MuJoCoPlant(control.MuJoCoRobot.of(arm), period=0.01)
    >>> q = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0])
    >>> motion = plant.simulate(lambda t, q, v: mb.gravity(arm, q), q, np.zeros(6), duration=0.1)
    >>> np.allclose(motion.q[-1], q, atol=1e-6)  # gravity is balanced
    True
    """

    robot: MuJoCoRobot
    period: float = 1e-3
    steps: int = 2
    delay: float = 0.0
    limit: Any = None
    position_noise: Any = 0.0
    velocity_noise: Any = 0.0
    motor_side: bool = False
    fallen: Mapping[str, float] = field(default_factory=dict)
    integrator: str = "implicitfast"
    _compiled: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_type("robot", self.robot, MuJoCoRobot, "write MuJoCoPlant(MuJoCoRobot.of(model))")
        require_positive_int("steps", self.steps)
        period = as_number("period", self.period)
        if not period > 0.0:
            raise ValueError(f"period must be positive, got {period:g}")
        _multiple("delay", self.delay, period / self.steps)
        require_bool("motor_side", self.motor_side)
        if self.motor_side and self.robot.motors is None:
            raise ValueError("motor_side: the joints are rigid, so there are no motors to measure")
        require_choice("integrator", self.integrator, INTEGRATORS)
        limit = np.inf if self.limit is None else as_array("limit", self.limit, ())
        sizes = {
            "limit": (limit, int(self.actuated.sum())),
            "position_noise": (self.position_noise, self.robot.model.nv),
            "velocity_noise": (self.velocity_noise, self.robot.model.nv),
        }
        for name, (value, size) in sizes.items():
            object.__setattr__(self, name, _sizes(name, value, size))
        require_mapping("fallen", self.fallen, "{body: height}")
        for body, height in self.fallen.items():
            require_text("fallen", body)
            self._body(body)
            as_number(f"fallen[{body!r}]", height)
        compiled = copy(self.robot.compiled)
        compiled.opt.timestep = period / self.steps
        import mujoco

        compiled.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{self.integrator.upper()}")
        compiled.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET  # a motion that diverges says so
        object.__setattr__(self, "_compiled", compiled)

    @property
    def actuated(self) -> np.ndarray:
        """(nv,) which velocity components have an actuator, all but those of free joints."""
        actuated = np.ones(self.robot.model.nv, dtype=bool)
        for element in self.robot.model.kinematics.elements:
            actuated[element.v] = not isinstance(element.joint, Free)
        return actuated

    def simulate(
        self,
        law: Law,
        q0: ArrayLike,
        v0: ArrayLike,
        duration: float,
        pushes: Sequence[Push] = (),
        seed: int = 0,
    ) -> PlantMotion:
        """The motion under a law; the same arguments give the same bits on one machine.

        Parameters
        ----------
        law : (t, q (nq,), v (nv,)) -> tau (m,) of the actuated joints, N m and N, in NumPy; once in each
            period, in order of time. q and v are new arrays. A law with a memory starts with what it has.
        q0, v0 : (nq,) and (nv,), where the motion begins. Springs of elastic joints begin relaxed, their
            motors at the velocity of the joints.
        duration : s, a multiple of the period.
        pushes : forces from outside.
        seed : of the noise.

        Raises
        ------
        FallenError : a body is below its height; it has the motion until then. NonFiniteError : the law
            returned a number that is not finite. IntegrationError : a position or velocity is beyond 1e4,
            because the loop is unstable; it says so if a gain is too large for the period. Each gives the
            time. ShapeError : q0, v0 or tau have another shape. PointError : a quaternion of norm other
            than one. ValueError : a time is no multiple of the period. IntegrationError, and Ctrl-C, have
            the motion until then, ``motion``.
        """
        require_function("law", law, "(t, q, v) -> tau (m,)")
        require_indices("seed", [seed])
        model = self.robot.model
        q, v = configuration(model.kinematics, "q0", q0), np.array(as_array("v0", v0, (model.nv,)))
        for name, array, size in (("q0", q, model.nq), ("v0", v, model.nv)):
            if array.shape != (size,):
                raise ShapeError(name, (size,), array.shape)
        require_finite("v0", v)
        count = _multiple("duration", duration, self.period)
        events = self._events(pushes)
        run = _PlantRun(self, q, v, count + 1, seed)
        forces, none, limit = run.tau, np.zeros(len(run.drives)), self.limit
        limited = bool(np.isfinite(limit).any())
        # Of a delay of `late` periods and `rest` steps, the older force acts for the first `rest` steps.
        late, rest = divmod(_multiple("delay", self.delay, self.period / self.steps), self.steps)
        plan = [(late + 1, rest)] * (rest > 0) + [(late, self.steps - rest)]
        k = 0
        try:
            with Ticks("simulate") as tick:
                for k in range(count + 1):
                    t = k * self.period
                    tau = law(t, *run.measured(k, t))
                    if type(tau) is not np.ndarray or tau.shape != none.shape or tau.dtype != none.dtype:
                        tau = _forces(tau, none.shape)
                    if not isfinite(tau @ tau) and not np.isfinite(tau).all():
                        raise NonFiniteError(f"law: tau is not finite at t = {t:g} s: {tau.tolist()}")
                    forces[k] = np.clip(tau, -limit, limit) if limited else tau
                    if k == count:
                        break
                    for body, force in events.get(k, ()):
                        run.data.xfrc_applied[body, :3] += force
                    for age, steps in plan:
                        run.advance(forces[k - age] if k >= age else none, steps)
                    tick(k / count)
        except (IntegrationError, KeyboardInterrupt) as error:
            keep_motion(error, run.motion(k))
            raise
        return run.motion(count + 1)

    def _body(self, name: str) -> int:
        """MuJoCo's number of a body."""
        tree = self.robot.model.kinematics.tree
        return self.robot.bodies[tree.body_names[body_of(tree, name)]]

    def _events(self, pushes: Sequence[Push]) -> dict[int, list[tuple[int, np.ndarray]]]:
        """{number of periods: what is then added to the forces on bodies}."""
        events: dict[int, list[tuple[int, np.ndarray]]] = {}
        if not isinstance(pushes, list | tuple):
            raise TypeError(f"pushes: expected a list of pushes, got {words_of(pushes)}")
        for push in pushes:
            require_type("pushes", push, Push)
            start = _multiple("start of a push", push.start, self.period)
            end = start + _multiple("duration of a push", push.duration, self.period)
            for part, share in self._parts(push.body):
                events.setdefault(start, []).append((part, share * push.force))
                events.setdefault(end, []).append((part, -share * push.force))
        return events

    def _parts(self, name: str) -> list[tuple[int, float]]:
        """MuJoCo's bodies that are fixed to a body, this included, and their shares of its mass.

        Forces in these shares at the centres of the parts are their sum at the centre of them all.
        """
        body, compiled = self._body(name), self.robot.compiled
        parts = np.flatnonzero(compiled.body_weldid == compiled.body_weldid[body])
        mass = compiled.body_mass[parts]
        if not mass.any():
            return [(body, 1.0)]
        return list(zip(parts.tolist(), (mass / mass.sum()).tolist(), strict=True))


class _PlantRun:
    """One motion: MuJoCo's data, what is recorded, and how it is measured."""

    def __init__(self, plant: MuJoCoPlant, q: np.ndarray, v: np.ndarray, rows: int, seed: int) -> None:
        import mujoco

        self.mujoco, self.compiled, self.period = mujoco, plant._compiled, plant.period
        robot, self.data = plant.robot, mujoco.MjData(plant._compiled)
        self.coordinates, self.motors, nv = robot.coordinates, robot.motors, robot.model.nv
        self.qpos, self.qvel, self.qfrc = self.data.qpos, self.data.qvel, self.data.qfrc_applied
        self.coordinates.write(q, v, self.qpos, self.qvel)
        if self.motors is not None:
            self.qpos[self.motors[0]], self.qvel[self.motors[1]] = q, v
        in_qvel = self.coordinates.in_qvel if self.motors is None else self.motors[1]
        self.drives = in_qvel[plant.actuated]
        self.heights = [
            (name, self.data.xpos[plant._body(name)], height) for name, height in plant.fallen.items()
        ]
        self.motor_side, self.model = plant.motor_side, robot.model
        self.q, self.measured_q = np.zeros((2, rows, robot.model.nq))
        self.v, self.measured_v = np.zeros((2, rows, nv))
        self.tau = np.zeros((rows, len(self.drives)))
        self.of_motors = None if self.motors is None else np.zeros((2, rows, nv))
        self.noise = None
        if plant.position_noise.any() or plant.velocity_noise.any():
            z = np.random.default_rng(seed).standard_normal((rows, 2, nv))
            self.noise = z * np.stack([plant.position_noise, plant.velocity_noise])
            elements = robot.model.kinematics.elements
            self.turning = [element for element in elements if element.joint.quaternion is not None]
            plain = [element for element in elements if element.joint.quaternion is None]  # of one coordinate
            self.straight = np.array([(element.q.start, element.v.start) for element in plain], int).T

    def measured(self, k: int, t: float) -> tuple[np.ndarray, np.ndarray]:
        """The measured q (nq,) and v (n,) of period k; an error after a fall, or if the motion diverges."""
        if not self.qvel @ self.qvel + self.qpos @ self.qpos < _BEYOND**2:  # also if it is NaN
            what = f"the motion diverges: at t = {t:g} s a position or velocity is beyond {_BEYOND:g}"
            raise IntegrationError(what + too_large_gain(self.v[:k], self.model))
        q, v = self.coordinates.read(self.qpos, self.qvel)
        self.q[k], self.v[k] = q, v
        if self.motors is not None and self.of_motors is not None:
            motor_q, motor_v = self.qpos[self.motors[0]], self.qvel[self.motors[1]]
            self.of_motors[0, k], self.of_motors[1, k] = motor_q, motor_v
            if self.motor_side:
                q, v = motor_q, motor_v
        if self.noise is not None:
            error, rate_error = self.noise[k]
            at_q, at_v = self.straight.reshape(2, -1)
            q[at_q] += error[at_v]
            for element in self.turning:
                q[element.q] = element.joint.displaced(q[element.q], error[element.v])
            v = v + rate_error
        self.measured_q[k], self.measured_v[k] = q, v
        if self.heights:
            self.mujoco.mj_kinematics(self.compiled, self.data)
            for name, place, least in self.heights:
                if place[2] < least:
                    raise FallenError(name, float(place[2]), self.motion(k + 1))
        return q, v

    def advance(self, force: np.ndarray, steps: int) -> None:
        """Some of MuJoCo's steps under a constant force (m,) of the actuators."""
        self.qfrc[self.drives] = force
        self.mujoco.mj_step(self.compiled, self.data, steps)

    def motion(self, rows: int) -> PlantMotion:
        """The motion in the first `rows` control instants."""
        motors = (None, None) if self.of_motors is None else self.of_motors[:, :rows]
        recorded = (self.q, self.v, self.tau, self.measured_q, self.measured_v)
        return PlantMotion(self.period * np.arange(rows), *(x[:rows] for x in recorded), *motors)


def _multiple(name: str, value: Any, unit: float) -> int:
    """How many units of time, s, a duration is; it must be a whole number of them, to round-off."""
    ratio = as_number(name, value) / unit
    number = round(ratio)
    if number < 0 or abs(ratio - number) > 1e-9 * max(1.0, ratio):
        raise ValueError(f"{name} must be a multiple of {unit:g} s that is not negative, got {value:g} s")
    return number


def _sizes(name: str, value: Any, size: int) -> np.ndarray:
    """Numbers (size,) that are not negative; infinite ones are no limits."""
    given = np.asarray(as_array(name, value, ()), dtype=np.float64)
    if given.shape not in ((), (size,)):
        raise ShapeError(name, f"() or ({size},)", given.shape)
    if not (given >= 0.0).all():  # also if it is NaN
        raise ValueError(f"{name}: expected numbers that are not negative, got {given.tolist()}")
    return np.array(np.broadcast_to(given, (size,)))


def _forces(tau: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The forces that a law returned; an error if they are not an array of this shape."""
    array = np.asarray(as_array("law(t, q, v)", tau, shape))
    if array.shape != shape:
        raise ShapeError("law(t, q, v)", shape, array.shape)
    return array
