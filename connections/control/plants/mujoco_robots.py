"""A robot in MuJoCo: a model of ours turned into MuJoCo's, or an MJCF file whose robot is the same as ours.

Each of our bodies becomes a body of MuJoCo with the same frame, and each elementary joint of a chain
(universal, cylindrical, planar) a joint on it. The inertias and armatures are ours to round-off. No other
force acts on the joints than those that are applied, and, if they are asked for, passive ones: no limits of
positions, and no contact except of the given shapes with the floor. The shapes do not touch each other.

With series elastic actuators each joint has a motor: theta is the motor's position in units of the joint's,

    H a + C v + g = tau_s,    B thetaddot + tau_s = tau,    tau_s = K (theta - q) + D (thetadot - qdot),

the flexible-joint model without the gyroscopic terms of the rotor (Spong). In MuJoCo the motor is a body
without mass whose joint has the armature B, and the spring a tendon between the two joints.
Source: MuJoCo's documentation, Modeling and Computation; [Sp].
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from connections._words import words_of
from connections.checks import (
    ModelError,
    ShapeError,
    as_array,
    require_bool,
    require_finite,
    require_positive_int,
    require_type,
)
from connections.control.plants.mujoco_coordinates import MuJoCoCoordinates, addresses_of, mujoco_names
from connections.control.plants.mujoco_matching import differences
from connections.control.plants.mujoco_passive import (
    acting,
    add_passive,
    passive_differences,
    set_passive,
)
from connections.control.plants.shapes import BoxShape, SphereShape
from connections.geometry.rigid.host_groups import skew
from connections.multibody.definition.frames import frame_of
from connections.multibody.description.left_out import LeftOutWarning
from connections.multibody.description.mjcf import joint_name, mujoco_for
from connections.multibody.joints import ElementaryJoint, Free, Prismatic, Revolute, Spherical
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.model import Model, require_model

FLOOR, MOTOR = "floor", "{}/motor"  # names of what is not in our model
#: (3,) m, the centre of bodies without mass: at the origin, MuJoCo refuses one that slides on the world
_ASIDE = np.array([1.0, 0.0, 0.0])
_COMPILES = 1.0  # kg and kg m^2: MuJoCo compiles these, and then gets the inertias of the model
_ROBOT, _FLOOR = 2, 1  # bits of MuJoCo's contact masks: the robot touches the floor, not itself


@dataclass(frozen=True, eq=False)
class SeriesElastic:
    """Springs between the motors and the joints that they move.

    Parameters
    ----------
    stiffness : K, a number or one for each velocity component of the model; N m/rad or N/m, positive.
    damping : D, likewise; N m s/rad or N s/m.
    motor_inertia : B of the rotors times the square of the gear ratio, likewise; kg m^2 or kg, positive.

    Raises
    ------
    ShapeError, NonFiniteError, TypeError; ValueError : one has the wrong sign.

    Examples
    --------
    >>> from connections import control
    >>> control.SeriesElastic(stiffness=500.0, damping=1.0, motor_inertia=0.2).stiffness
    array(500.)
    >>> control.SeriesElastic(stiffness=-500.0, damping=1.0, motor_inertia=0.2)
    Traceback (most recent call last):
        ...
    ValueError: stiffness: expected positive numbers, got -500

    Source: [Sp].
    """

    stiffness: Any
    damping: Any
    motor_inertia: Any

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping", "motor_inertia"):
            value = np.array(as_array(name, getattr(self, name), ()))
            require_finite(name, value)
            if (value < 0.0).any() or (name != "damping" and (value == 0.0).any()):
                raise ValueError(f"{name}: expected positive numbers, got {value.min():g}")
            object.__setattr__(self, name, value)

    def of_size(self, count: int) -> np.ndarray:
        """K, D and B, (3, count).

        Raises
        ------
        ShapeError : one is neither a number nor (count,).
        """
        require_positive_int("count", count)
        rows = []
        for name in ("stiffness", "damping", "motor_inertia"):
            value = getattr(self, name)
            if value.shape not in ((), (count,)):
                raise ShapeError(name, f"() or ({count},)", value.shape)
            rows.append(np.broadcast_to(value, (count,)))
        return np.array(rows)


@dataclass(frozen=True, eq=False)
class MuJoCoRobot:
    """One robot, ours and MuJoCo's. Made by `of` and `from_mjcf`.

    Examples
    --------
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = control.MuJoCoRobot.of(mb.example("arm"))
    >>> robot.compiled.nv, sorted(robot.bodies)[:2]
    (6, ['forearm', 'hand'])
    """

    model: Model  #: ours
    compiled: Any  #: ``mujoco.MjModel``; fields such as the contacts' parameters may be changed before use
    coordinates: MuJoCoCoordinates
    bodies: dict[str, int]  #: our bodies' names -> MuJoCo's numbers
    #: where each motor is in qpos and in qvel, (2, nv); None if the joints are driven directly
    motors: np.ndarray | None
    elastic: SeriesElastic | None

    @classmethod
    def of(
        cls,
        model: Model,
        shapes: Sequence[SphereShape | BoxShape] = (),
        floor: bool = False,
        elastic: SeriesElastic | None = None,
        passive: bool | None = None,
    ) -> MuJoCoRobot:
        """The robot of a model.

        Parameters
        ----------
        model : a robot without closed loops. Errors of a controller's model are made by giving it another
            one, such as `with_payload` or `Model.with_inertial_parameters`.
        shapes : what touches the floor.
        floor : whether there is one, the plane z = 0.
        elastic : springs between motors and joints; None if there are none. All joints must be hinges or
            slides.
        passive : whether the model's springs, dampers, dry friction and lift act on it, friction as MuJoCo's
            own, which holds at rest. None is False, with a warning if the model has any.

        Raises
        ------
        ImportError : MuJoCo is not installed.
        ModelError : a loop, a screw, a free joint that is not on the ground, which MuJoCo's joints cannot
            represent; a shape's frame does not exist; a spherical or free joint shall be elastic; a lift is
            not at its body's centre of mass. The message names the loop or joint.

        Warns
        -----
        LeftOutWarning : the model has passive forces, and `passive` is not given.
        """
        require_model("MuJoCoRobot.of", model)
        if passive is None and acting(model):
            what = f"without the model's {acting(model)}; write passive=True to have them, False to have none"
            warnings.warn(f"MuJoCoRobot.of: {what}", LeftOutWarning, stacklevel=2)
        passive = False if passive is None else passive
        require_bool("passive", passive)
        require_bool("floor", floor)
        if not isinstance(shapes, list | tuple):
            raise TypeError(f"shapes: expected a list of shapes, got {words_of(shapes)}")
        mujoco = mujoco_for("MuJoCoRobot")
        _refuse(model)
        spec, tree = mujoco.MjSpec(), model.kinematics.tree
        spec.option.gravity = model.gravity
        made: list[Any] = []
        for number, chain in enumerate(model.kinematics.chains):
            parent = tree.parents[number]
            body = (made[parent] if parent >= 0 else spec.worldbody).add_body(name=tree.body_names[number])
            body.pos, body.quat = tree.positions[number], np.roll(tree.quaternions[number], 1)
            center, axes, _ = _principal(tree.inertias[number])
            _with_inertia(body, center, axes)
            made.append(body)
            for name, element in zip(mujoco_names(chain), chain, strict=True):
                _add_joint(mujoco, body, name, element.joint)
        _add_shapes(mujoco, spec, model, made, shapes, floor)
        if elastic is not None:
            _add_motors(mujoco, spec, model, elastic)
        if passive:
            add_passive(spec, model, made)
        compiled = spec.compile()
        bodies = {name: compiled.body(name).id for name in tree.body_names}
        for number, name in enumerate(tree.body_names):
            compiled.body_mass[bodies[name]] = tree.inertias[number][5, 5]
            compiled.body_inertia[bodies[name]] = _principal(tree.inertias[number])[2]
        robot = cls._compiled(mujoco, model, compiled, bodies, elastic)
        compiled.dof_armature[robot.coordinates.in_qvel] = tree.armature
        if passive:
            set_passive(model, compiled, robot.coordinates.in_qvel)
        mujoco.mj_setConst(compiled, mujoco.MjData(compiled))
        return robot

    @classmethod
    def from_mjcf(
        cls,
        path: str | os.PathLike[str],
        model: Model,
        elastic: SeriesElastic | None = None,
        tolerance: float = 1e-6,
        passive: bool | None = None,
    ) -> MuJoCoRobot:
        """The robot of an MJCF file, which is also that of `model`: joints are found by their names.

        Parameters
        ----------
        path : the file, with the geometry, contacts, friction and damping of MuJoCo's robot.
        model : ours, for example `multibody.from_mjcf` of the same file, or `from_urdf` of another one.
        elastic : as in `of`.
        tolerance : how far masses, centres of mass, inertias, axes, anchors and armatures may differ,
            relative to the largest mass, length or inertia of the robot.
        passive : whether springs, dampers, dry friction and lift have to be the model's, too. The file's act
            in any case; None warns if they differ.

        Raises
        ------
        ImportError : MuJoCo is not installed.
        ModelError : as in `of`; MuJoCo refuses the file; the robots differ. The message lists what does:
            joints that only one of them has, types of joints, what carries them, axes, anchors, armatures,
            masses, centres of mass, inertias, gravity, passive forces if `passive`.

        Warns
        -----
        LeftOutWarning : the passive forces differ, and `passive` is not given.
        """
        require_model("MuJoCoRobot.from_mjcf", model)
        mujoco = mujoco_for("MuJoCoRobot")
        _refuse(model)
        try:
            spec = mujoco.MjSpec.from_file(str(path))
            compiled = spec.compile()
        except ValueError as error:
            raise ModelError(f"{path}: MuJoCo refuses it: {' '.join(str(error).split())}") from error
        wrong = differences(mujoco, model, compiled, tolerance)
        if wrong:
            raise ModelError(f"{path}: its robot is not the model's:\n  " + "\n  ".join(wrong))
        if passive is not None:
            require_bool("passive", passive)
        if passive is not False:
            other = passive_differences(mujoco, model, compiled, tolerance)
            if other and passive:
                raise ModelError(f"{path}: its passive forces are not the model's:\n  " + "\n  ".join(other))
            if other:
                hint = "passive=True makes an error of it, False is silent"
                warnings.warn(f"{path}: {'; '.join(other)}; {hint}", LeftOutWarning, stacklevel=2)
        if elastic is not None:
            _add_motors(mujoco, spec, model, elastic)
            compiled = spec.compile()
        bodies, numbers = {}, {joint_name(compiled, k): k for k in range(compiled.njnt)}
        for name, chain in zip(model.body_names, model.kinematics.chains, strict=True):
            bodies[name] = int(compiled.jnt_bodyid[numbers[mujoco_names(chain)[-1]]])
        return cls._compiled(mujoco, model, compiled, bodies, elastic)

    @classmethod
    def _compiled(
        cls,
        mujoco: ModuleType,
        model: Model,
        compiled: Any,
        bodies: dict[str, int],
        elastic: SeriesElastic | None,
    ) -> MuJoCoRobot:
        """The robot whose joints have our names in a compiled model."""
        coordinates = MuJoCoCoordinates.of(model, addresses_of(compiled))
        motors = None
        if elastic is not None:
            names = [MOTOR.format(name) for chain in model.kinematics.chains for name in mujoco_names(chain)]
            found = [compiled.joint(name) for name in names]
            motors = np.array([[joint.qposadr[0] for joint in found], [joint.dofadr[0] for joint in found]])
            compiled.dof_armature[motors[1]] = elastic.of_size(model.nv)[2]
            still = [compiled.joint(name).bodyid[0] for name in names]
            compiled.body_mass[still], compiled.body_inertia[still] = 0.0, 0.0
            mujoco.mj_setConst(compiled, mujoco.MjData(compiled))
        return cls(model, compiled, coordinates, bodies, motors, elastic)


def _refuse(model: Model) -> None:
    """Raise `ModelError` for what MuJoCo's joints cannot represent."""
    if isinstance(model.kinematics, ClosedKinematics):
        name = model.kinematics.names[0]
        raise ModelError(
            f"'{name}' closes a loop or couples joints: MuJoCo's equality constraints are soft, so it has no "
            "robot that is the same"
        )
    for parent, chain in zip(model.kinematics.tree.parents, model.kinematics.chains, strict=True):
        for element in chain:
            kind = type(element.joint).__name__
            if not isinstance(element.joint, Revolute | Prismatic | Spherical | Free):
                raise ModelError(f"joint '{element.name}': MuJoCo has no {kind} joints")
            if isinstance(element.joint, Free) and parent >= 0:
                raise ModelError(
                    f"joint '{element.name}': MuJoCo's free joints are on bodies of the world only"
                )


def _principal(inertia: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centre of mass (3,), principal axes (3, 3) and moments (3,) of a spatial inertia (6, 6)."""
    mass, h = inertia[5, 5], np.array([inertia[2, 4], inertia[0, 5], inertia[1, 3]])
    center = h / mass if mass > 0.0 else _ASIDE
    across = skew(center)
    moments, axes = np.linalg.eigh(inertia[:3, :3] + mass * across @ across)
    axes[:, 2] *= np.linalg.det(axes)
    return center, axes, moments


def _with_inertia(body: Any, center: np.ndarray, axes: np.ndarray) -> None:
    """Give a body of a specification these principal axes, and moments that MuJoCo compiles."""
    body.explicitinertial, body.mass, body.inertia = True, _COMPILES, np.full(3, _COMPILES)
    body.ipos, body.iquat = center, np.roll(Rotation.from_matrix(axes).as_quat(), 1)


def _add_joint(mujoco: ModuleType, body: Any, name: str, joint: ElementaryJoint) -> None:
    """Add an elementary joint at the origin of a body."""
    kinds = {Revolute: "HINGE", Prismatic: "SLIDE", Spherical: "BALL", Free: "FREE"}
    added = body.add_joint(name=name, type=getattr(mujoco.mjtJoint, f"mjJNT_{kinds[type(joint)]}"))
    if isinstance(joint, Revolute | Prismatic):
        added.axis = joint.axis


def _add_shapes(
    mujoco: ModuleType,
    spec: Any,
    model: Model,
    bodies: Sequence[Any],
    shapes: Sequence[SphereShape | BoxShape],
    floor: bool,
) -> None:
    kinds = {SphereShape: mujoco.mjtGeom.mjGEOM_SPHERE, BoxShape: mujoco.mjtGeom.mjGEOM_BOX}
    for shape in shapes:
        if not isinstance(shape, SphereShape | BoxShape):
            raise TypeError(f"shapes: expected SphereShape(...) or BoxShape(...), got {words_of(shape)}")
        number, placement = frame_of(model.kinematics.tree, shape.frame)
        placement = placement @ shape.placement
        owner = bodies[number] if number >= 0 else spec.worldbody
        geom = owner.add_geom(type=kinds[type(shape)], size=shape.size, contype=_ROBOT, conaffinity=_FLOOR)
        geom.pos = placement[:3, 3]
        geom.quat = np.roll(Rotation.from_matrix(placement[:3, :3]).as_quat(), 1)
        geom.friction[0] = shape.friction
    if floor:
        ground = spec.worldbody.add_geom(name=FLOOR, type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 1.0])
        ground.contype, ground.conaffinity = _FLOOR, _ROBOT
        ground.friction[0] = 0.0  # MuJoCo takes the larger of two geometries' friction: the shape's


def _add_motors(mujoco: ModuleType, spec: Any, model: Model, elastic: SeriesElastic) -> None:
    """Add a motor for each joint, and a spring with a damper between them."""
    require_type("elastic", elastic, SeriesElastic)
    stiffness, damping, _ = elastic.of_size(model.nv)
    for chain in model.kinematics.chains:
        for name, element in zip(mujoco_names(chain), chain, strict=True):
            if not isinstance(element.joint, Revolute | Prismatic):
                kind = type(element.joint).__name__
                raise ModelError(f"joint '{element.name}': only hinges and slides can be elastic, not {kind}")
            motor = MOTOR.format(name)
            body = spec.worldbody.add_body(name=motor)
            _with_inertia(body, _ASIDE, np.eye(3))
            _add_joint(mujoco, body, motor, element.joint)
            spring = spec.add_tendon(name=motor)
            spring.wrap_joint(motor, 1.0)
            spring.wrap_joint(name, -1.0)
            spring.springlength = [0.0, 0.0]
            spring.stiffness[0], spring.damping[0] = stiffness[element.v.start], damping[element.v.start]
