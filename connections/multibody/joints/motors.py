"""Forces on joints besides gravity, as data: motors, and passive forces, of springs and dampers.

A robot's description gives them as data of its tree of joints; `applied_forces` makes forces of them. All are
pytrees of their numbers, which JAX may trace: then shapes and names are checked, and numbers are not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from connections._words import no_such, words_of
from connections.checks import (
    ModelError,
    ShapeError,
    as_array,
    as_number,
    as_scalar,
    is_traced,
    require_finite,
    require_mapping,
    require_names,
    require_text,
    require_type,
)
from connections.geometry.numerics.scales import POINT_TOLERANCE
from connections.multibody.joints.groups import Spherical
from connections.multibody.joints.joint import Joint


@dataclass(frozen=True, eq=False)
class Motor:
    """A motor with the force u, which gives the generalized force B u ([motors](robots.md)).

    Parameters
    ----------
    name : unique among motors.
    joints : {joint: ratio, or (nv of the joint,)}: u times the ratio acts on each velocity component; several
        joints for a motor on a tendon or a differential.
    frame : a frame of the robot, on which the wrench u w acts, such as the place of a propeller; None if the
        motor acts on joints only.
    wrench : (6,) w = [n; f] in the axes of the frame about its origin.
    force : (2,) the least and largest u.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> geared = mb.joints.Motor("elbow motor", {"bend": 50.0}, force=(-2.0, 2.0))
    >>> robot = mb.example("arm").with_motors([geared])
    >>> robot.motor_matrix(robot.neutral()).T
    array([[ 0.,  0., 50.,  0.,  0.,  0.]])
    """

    name: str
    joints: Mapping[str, Any] = field(default_factory=dict)
    frame: str | None = None
    wrench: Any = (0.0,) * 6
    force: Any = (-np.inf, np.inf)

    def __post_init__(self) -> None:
        require_text("name", self.name)
        require_mapping("joints", self.joints, "{joint: ratio}")
        for joint, ratio in self.joints.items():
            _array(f"motor '{self.name}': joint '{joint}'", "its ratio", ratio, ())
        if self.frame is not None:
            require_text("frame", self.frame)
        _array(f"motor '{self.name}'", "wrench", self.wrench, (6,))
        if is_traced(self.force):
            _array(f"motor '{self.name}'", "force", self.force, (2,))
            return
        least, largest = as_array("force", self.force, (2,)).tolist()
        if not least <= largest:
            what = f"motor '{self.name}': force"
            raise ModelError(f"{what}: the least, {least:g}, is above the largest, {largest:g}")


@dataclass(frozen=True, eq=False)
class Spring:
    """A spring and damper on the length L = sum_i a_i q_i: its tension is k (L - L_0) + d dL/dt.

    It is slack between the two rest lengths, if they differ. On a spherical joint, alone, it is the torque
    -k log(R_0^T R) - d v_J, MuJoCo's spring of a ball joint, which turns over at half a turn.

    Parameters
    ----------
    name : for messages.
    joints : {joint of one coordinate: a_i}; m/rad for a tendon, or one joint with 1, also a spherical one.
    stiffness : k, N/m or N m/rad; negative if the spring pushes away from its rest length.
    rest : L_0, m or rad: a number, or (2,) the least and the largest length without tension; of a spherical
        joint R_0, a unit quaternion (x, y, z, w), or 0 for its neutral configuration.
    damping : d, N s/m or N m s/rad.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> spring = mb.joints.Spring("return", {"bend": 1.0}, stiffness=20.0, rest=0.5, damping=0.1)
    >>> robot = mb.example("arm").with_passive(mb.joints.Passive((spring,)))
    >>> robot.passive_forces(robot.neutral(), [0.0] * 6)
    array([ 0.,  0., 10.,  0.,  0.,  0.])
    """

    name: str
    joints: Mapping[str, float]
    stiffness: float = 0.0
    rest: Any = 0.0
    damping: float = 0.0

    def __post_init__(self) -> None:
        require_text("name", self.name)
        require_mapping("joints", self.joints, "{joint: coefficient}")
        what = f"spring '{self.name}'"
        for joint, coefficient in self.joints.items():
            _array(f"{what}: joint '{joint}'", "its coefficient", coefficient, ())
        for name in ("stiffness", "damping"):
            _number(what, name, getattr(self, name))
        rest = _array(what, "rest", self.rest, ())
        if rest.shape not in ((), (2,), (4,)):
            raise ModelError(f"{what}: rest: expected a number, (2,) or a quaternion (4,), got {rest.shape}")

    @property
    def turns(self) -> bool:
        """Whether it is validated, and on a spherical joint."""
        return len(self.rest) == 4


@dataclass(frozen=True, eq=False)
class Passive:
    """Springs, dampers, friction and balancers of a robot.

    Parameters
    ----------
    springs : on joints, and on fixed tendons.
    damping : {joint: d, or (nv of the joint,)}, N m s/rad and N s/m: the force -d v_J on each component.
    friction : {joint: largest dry friction f, or (nv of the joint,)}, N m and N. At rest, dry friction
        depends on the other forces; so it is data for laws and for simulators, and no part of
        `Model.passive_forces`, unless there is a speed:
    friction_speed : w, rad/s and m/s: with it, friction is the force -f tanh(v_J / w), which creeps where
        dry friction would hold; None for none. The smaller it is, the shorter are the steps of motions.
    lift : {frame: (4,)} mass and first moment in the axes of the frame, kg and kg m, whose weight is carried,
        as by a balancer; MuJoCo's gravity compensation.
    left_out : what the description has besides, in words; with it, `Model.passive_forces` is an error.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> spring = mb.joints.Spring("return", {"bend": 1.0}, stiffness=20.0)
    >>> robot = mb.example("arm").with_passive(mb.joints.Passive((spring,), damping={"lift": 0.5}))
    >>> q, v = [0.0, 0.0, 0.1, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0, 0.0, 0.0]
    >>> robot.passive_forces(q, v) + 0.0
    array([ 0., -1., -2.,  0.,  0.,  0.])
    """

    springs: tuple[Spring, ...] = ()
    damping: Mapping[str, Any] = field(default_factory=dict)
    friction: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    friction_speed: float | None = field(default=None, kw_only=True)
    lift: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.springs, list | tuple):
            raise TypeError(f"springs: expected a list of springs, got {words_of(self.springs)}")
        for number, spring in enumerate(self.springs):
            require_type(f"springs[{number}]", spring, Spring)
        for name in ("damping", "friction"):
            require_mapping(name, getattr(self, name), "{joint: number}")
            for joint, value in getattr(self, name).items():
                _array(f"passive: joint {joint!r}", name, value, ())
        require_mapping("lift", self.lift, "{frame: (4,)}")
        for frame, value in self.lift.items():
            _array(f"passive: frame {frame!r}", "lift", value, (4,))
        speed = self.friction_speed
        if is_traced(speed):
            _number("passive", "friction_speed", speed)
        elif speed is not None and not as_number("friction_speed", speed) > 0.0:
            raise ModelError(f"friction_speed: expected a positive number, or None, got {speed:g}")
        object.__setattr__(self, "left_out", require_names("left_out", self.left_out))


def _register(kind: type, *numbers: str) -> None:
    """Let JAX take objects of this kind for pytrees of their fields `numbers`."""
    names = [each.name for each in fields(kind)]
    others = [name for name in names if name not in numbers]

    def flatten(thing: Any) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(thing, name) for name in numbers], tuple(getattr(thing, name) for name in others)

    def unflatten(rest: tuple[Any, ...], given: Any) -> Any:
        # JAX puts other things in the place of numbers, too.
        return _unchecked(kind, dict(zip((*numbers, *others), (*given, *rest), strict=True)))

    jax.tree_util.register_pytree_node(kind, flatten, unflatten)


def _unchecked(kind: type, values: Mapping[str, Any]) -> Any:
    """An object of this kind whose fields are not checked, or have been."""
    thing: Any = object.__new__(kind)
    thing.__dict__.update(values)
    return thing


_register(Motor, "joints", "wrench", "force")
_register(Spring, "joints", "stiffness", "rest", "damping")
_register(Passive, "springs", "damping", "friction", "friction_speed", "lift")

Joints = Mapping[str, Joint]


def motors_of(motors: Sequence[Motor], joints: Joints, frames: Collection[str]) -> tuple[Motor, ...]:
    """The motors of a robot, with their arrays, validated.

    Parameters
    ----------
    joints : the joints of the tree, by name.
    frames : names of the frames.

    Raises
    ------
    ModelError : a name is taken, there is no such joint or frame, or a number is not finite or of another
        shape. The message names the motor. TypeError : one is no `Motor`.
    """
    found: dict[str, Motor] = {}
    if not isinstance(motors, list | tuple):
        raise TypeError(f"motors: expected a list of motors, got {words_of(motors)}")
    for motor in motors:
        if not isinstance(motor, Motor):
            raise TypeError(f"motors: expected Motor(name, {{joint: ratio}}), got {motor!r}")
        what = f"motor '{motor.name}'"
        if motor.name in found:
            raise ModelError(f"there is a {what} already")
        if motor.frame is not None and motor.frame not in frames:
            raise ModelError(f"{what}: " + no_such("frame", motor.frame, tuple(frames)))
        ratios = _of_joints(what, "its ratio", motor.joints, joints)
        wrench = _array(what, "wrench", motor.wrench, (6,))
        if not ratios and (motor.frame is None or not (is_traced(wrench) or wrench.any())):
            raise ModelError(f"{what} acts on nothing; write Motor({motor.name!r}, {{joint: ratio}})")
        force: Any = _array(what, "force", motor.force, (2,), finite=False)
        force = force if is_traced(force) else tuple(force.tolist())
        checked = {"joints": ratios, "wrench": wrench, "force": force}
        found[motor.name] = _unchecked(Motor, {**vars(motor), **checked})
    return tuple(found.values())


def passive_of(passive: Passive, joints: Joints, frames: Collection[str]) -> Passive:
    """The passive forces with arrays, validated.

    Parameters
    ----------
    joints : the joints of the tree, by name.
    frames : names of the frames.

    Raises
    ------
    ModelError : there is no such joint or frame, a joint has several coordinates and a spring, a friction is
        negative, or a number is not finite or of another shape. The message names the joint or spring.
    """
    springs = tuple(_spring_of(spring, joints) for spring in passive.springs)
    damping = _of_joints("passive", "damping", passive.damping, joints)
    friction = _of_joints("passive", "friction", passive.friction, joints)
    for name, value in friction.items():
        if not is_traced(value) and (value < 0.0).any():
            raise ModelError(f"joint '{name}': friction is negative: {value.min():g}")
    lift = {name: _array("passive", "lift", value, (4,)) for name, value in passive.lift.items()}
    for name in lift:
        if name not in frames:
            raise ModelError("lift: " + no_such("frame", name, tuple(frames)))
    return replace(passive, springs=springs, damping=damping, friction=friction, lift=lift)


def motors_without(motors: Sequence[Motor], locked: Collection[str]) -> tuple[Motor, ...]:
    """The motors of a robot some of whose joints do not move; a motor that acts on nothing else is none."""
    found = []
    for motor in motors:
        moving = {name: ratio for name, ratio in motor.joints.items() if name not in locked}
        if moving or motor.frame is not None:
            found.append(replace(motor, joints=moving))
    return tuple(found)


def passive_without(passive: Passive, locked: Mapping[str, np.ndarray]) -> Passive:
    """Springs, dampers and friction of a robot some of whose joints do not move.

    Parameters
    ----------
    locked : {joint: (nq of the joint,)}, where they are.
    """
    springs = []
    for spring in passive.springs:
        moving = {name: a for name, a in spring.joints.items() if name not in locked}
        still = sum(a * float(locked[name][0]) for name, a in spring.joints.items() if name in locked)
        if spring.turns and moving:
            springs.append(spring)
        elif moving:
            springs.append(replace(spring, joints=moving, rest=tuple(np.asarray(spring.rest) - still)))
    damping, friction = (
        {name: value for name, value in given.items() if name not in locked}
        for given in (passive.damping, passive.friction)
    )
    return replace(passive, springs=tuple(springs), damping=damping, friction=friction)


def _spring_of(spring: Spring, joints: Joints) -> Spring:
    what = f"spring '{spring.name}'"
    ratios = _of_joints(what, "its coefficient", spring.joints, joints)
    numbers = {word: _number(what, word, getattr(spring, word)) for word in ("stiffness", "damping")}
    rest = _array(what, "rest", spring.rest, ())
    if [type(joints[name]) for name in ratios] == [Spherical]:
        return _spring_of_ball(what, spring, rest, **numbers)
    for name in ratios:
        if joints[name].nq != 1:
            raise ModelError(f"{what}: joint '{name}' has {joints[name].nq} coordinates, expected one")
    if rest.shape == (4,):
        raise ModelError(f"{what}: rest: a quaternion is for a spherical joint; expected a number or (2,)")
    lower, upper = jnp.broadcast_to(rest, (2,)) if is_traced(rest) else np.broadcast_to(rest, (2,)).tolist()
    if not is_traced(rest) and lower > upper:
        raise ModelError(f"{what}: rest: the least length, {lower:g}, is above the largest, {upper:g}")
    coefficients = {name: value[0] if is_traced(value) else float(value[0]) for name, value in ratios.items()}
    checked = {"joints": coefficients, "rest": (lower, upper), **numbers}
    return cast("Spring", _unchecked(Spring, {**vars(spring), **checked}))


def _spring_of_ball(what: str, spring: Spring, rest: Any, stiffness: Any, damping: Any) -> Spring:
    """A spring on one spherical joint, whose rest is a quaternion."""
    ((joint, coefficient),) = spring.joints.items()
    if is_traced(coefficient) or coefficient != 1.0:
        raise ModelError(f"{what}: joint '{joint}' is spherical, so its coefficient is 1")
    if not is_traced(rest):
        rest = np.array([0.0, 0.0, 0.0, 1.0]) if rest.shape == () and rest == 0.0 else rest
        if rest.shape != (4,) or abs(float(rest @ rest) - 1.0) > 2.0 * POINT_TOLERANCE:
            raise ModelError(
                f"{what}: rest: expected 0 or a unit quaternion (x, y, z, w), got {rest.tolist()}"
            )
    elif rest.shape != (4,):
        raise ModelError(f"{what}: rest: expected a unit quaternion (4,), got {rest.shape}")
    return Spring(spring.name, {joint: 1.0}, stiffness, rest / (rest @ rest) ** 0.5, damping)


def _of_joints(what: str, word: str, given: Mapping[str, Any], joints: Joints) -> dict[str, Any]:
    """A number or (nv of the joint,) for each named joint as (nv of the joint,)."""
    found = {}
    for name, value in given.items():
        if name not in joints:
            raise ModelError(f"{what}: " + no_such("joint", name, tuple(joints)))
        size = joints[name].nv
        array = _array(f"{what}: joint '{name}'", word, value, ())
        if array.shape not in ((), (size,)):
            raise ModelError(f"{what}: joint '{name}': {word}: expected () or ({size},), got {array.shape}")
        numbers = jnp if is_traced(array) else np
        found[name] = numbers.array(numbers.broadcast_to(array, (size,)))
    return found


def _number(what: str, name: str, value: Any) -> Any:
    try:
        return as_scalar(name, value) if is_traced(value) else as_number(name, value)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what}: {error}") from error


def _array(what: str, name: str, value: Any, shape: tuple[int, ...], finite: bool = True) -> Any:
    """`value` as an array of this shape, of any if it is (); of JAX if JAX traces it, and then not judged."""
    try:
        if is_traced(value):
            array: Any = as_array(name, jnp.asarray(value), shape)
        else:
            array = np.asarray(as_array(name, value, shape), dtype=np.float64)
        if shape and array.shape != shape:
            raise ShapeError(name, shape, array.shape)
        if finite:
            require_finite(name, array)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what}: {error}") from error
    return array
