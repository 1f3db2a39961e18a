"""MJCF files, compiled by MuJoCo, into a `Model`.

Joint types: free, ball, slide, hinge, several on one body, at any ``pos``. Bodies without a joint, also mocap
bodies, are fixed to their parents. Joints are numbered in MuJoCo's order. q is MuJoCo's ``qpos`` except for
quaternions, which are (x, y, z, w) here and (w, x, y, z) in MuJoCo. ``ref`` is respected: an angle or
displacement has the same meaning as in the file, and the file draws the body at q = ref, not at q = 0. v is
MuJoCo's ``qvel`` except for free joints: there ``qvel`` is [velocity in world axes; angular velocity in body
axes], and v is the body twist [omega; v].

Body axes are MuJoCo's. If a body has a hinge or ball, its origin is the anchor of the last one, which in
MuJoCo may be away from the origin. Of k joints on a body, the first k - 1 move bodies without mass, named
``body/joint``. Names that the reader makes are marked ``(unnamed)`` if the file has them. Sites, of the
world, too, are frames (`Model.frame_names`), marked ``(site)`` if a body has the same name. ``<key>`` is in
`Model.keyframes`.

Armature of joints, and of actuators on joints times the square of their gear ratio, is that of the model's
joints (`Mechanism.add_joint`). In MuJoCo it adds to the diagonal of the mass matrix, and nothing else.

H, C and g have no other forces than gravity. Actuators are ``model.motors``, and springs, dampers and dry
friction are ``model.passive`` (`mjcf_forces`). Contacts are not part of the model. Ranges of joints and their
``actuatorfrcrange`` (of its two sides the larger) are in ``model.limits``. Flags that switch gravity,
springs, dampers, friction, limits, equality constraints or actuators off do so here. What becomes of every
element and attribute is in ``formats/mjcf.toml``. Active equality constraints become loops and couplings
(`mjcf_equality`); the loops are assembled near MuJoCo's reference configuration ``qpos0``, in which a file is
drawn. Other elements that change or couple the motion itself raise an error that names them, such as armature
of tendons. Source: MuJoCo's documentation, Computation, and XML reference.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from connections._distribution import how_to_install
from connections._jax import ArrayLike
from connections._shown import shown
from connections.checks import ModelError
from connections.multibody.assembly.assembly import AssemblyWarning
from connections.multibody.assembly.whole_joints import Split, WholeJointError
from connections.multibody.description.files import Text, description_of, require_few_velocities
from connections.multibody.description.left_out import LeftOutWarning, sentence
from connections.multibody.description.mechanism import WORLD, Mechanism, built
from connections.multibody.description.mjcf_equality import (
    add_equalities,
    chosen_equalities,
    held_joints,
    targets,
    transform,
)
from connections.multibody.description.mjcf_forces import MJCFForces, disabled
from connections.multibody.description.mjcf_inventory import Places
from connections.multibody.description.mjcf_limits import files_for_mujoco, refusal, require_bounded
from connections.multibody.description.mjcf_names import name_of, unused
from connections.multibody.joints import (
    ElementaryJoint,
    Fixed,
    Free,
    Joint,
    Limits,
    Prismatic,
    Revolute,
    Spherical,
)
from connections.multibody.joints.keyframes import Keyframes
from connections.multibody.model import Model, with_keyframes


def from_mjcf(
    path: Any,
    gravity: ArrayLike | None = None,
    reference: Any = None,
    independent: Any = None,
    equality: Any = True,
    package_dirs: Any = (),
) -> Model:
    """The model of the robot described in an MJCF file.

    Parameters
    ----------
    path : the file; also its text (str or bytes), an open file, or ``package://package/path``. Files that a
        text names are relative to the current folder. Names in files that it includes are in UTF-8.
    gravity : (3,) acceleration of free fall in world axes, m/s^2; the file's gravity if None.
    reference : {joint name: configuration}, a guess of the assembly of closed loops, as for
        `Mechanism.build`; joints that it does not name are at their position in ``qpos0``.
    independent : names of independent joints, as for `Mechanism.build`. Joints with actuators are preferred
        if loops leave a choice.
    equality : which equality constraints are read: True for those that hold in the file, without those to a
        mocap body; False for none; or a list of their names (``number 0`` is the first, if it has no name).
    package_dirs : folders in which ROS packages are looked for, before those of the environment.

    Raises
    ------
    ImportError : MuJoCo is not installed; the message says how to install it.
    ModelError : the file is missing, no regular file, beyond the limits of `description.xml` and
        `description.mjcf_limits`, or not MJCF, or MuJoCo refuses it; nothing moves; an active equality
        constraint is neither connect nor weld nor joint, or contradicts others; the loops do not close near
        the reference; an actuator or tendon has an armature that couples joints. The message names the file
        and the constraint, actuator or tendon.

    Warns
    -----
    AssemblyWarning : the best choice of independent joints lets others move more than twenty times as fast;
        a constraint to a mocap body is left out.
    LeftOutWarning : the file has something that is not in the model, such as a spatial tendon; once, with the
        lines of each thing. No part of H is left out.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> text = '''<mujoco><worldbody><body name="rod"><joint name="hinge" axis="0 1 0"/>
    ...   <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.4"/></body></worldbody></mujoco>'''
    >>> robot = mb.from_mjcf(text)
    >>> robot, robot.joint_names
    (Model(1 bodies, nq=1, nv=1), ('hinge',))
    """
    path = description_of(path, package_dirs)
    mujoco = mujoco_for("from_mjcf")
    try:
        compiled, places = _compile(mujoco, path)
        refuse_couplings(mujoco, compiled)
        equalities = chosen_equalities(mujoco, compiled, equality)
        of_trees = np.bincount(compiled.dof_treeid).tolist()
        require_few_velocities(*([sum(of_trees)] if equalities else of_trees))
        left_out = targets(mujoco, compiled) if equality is True else {}
        held = held_joints(mujoco, compiled, equalities)
        mechanism, origins = _mechanism(mujoco, compiled, held)
        namers = partial(_body_name, compiled), partial(joint_name, compiled)
        add_equalities(mujoco, compiled, mechanism, equalities, origins, *namers)
        if len(equalities) > len(held) and (reference is None or isinstance(reference, Mapping)):
            reference = {**_drawn(mujoco, compiled, held, compiled.qpos0), **(reference or {})}
        try:
            gravity = gravity_of(compiled) if gravity is None else gravity
            model, notes = built(mechanism, gravity, reference, independent)
        except WholeJointError as error:
            raise ModelError(f"{error.reason}. {_instead(compiled, error.split, origins)}") from error
        sites, site_names = _sites(compiled, model.frame_names, origins)
        moving = {k: joint_name(compiled, k) for k in range(compiled.njnt) if k not in held}
        forces = MJCFForces(mujoco, compiled, moving, held, site_names, origins, places)
        model = model.with_frames(sites).with_motors(forces.motors()).with_passive(forces.passive())
        model = with_keyframes(model, _keyframes(mujoco, compiled, held))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    for note in notes:
        remedy = f". {_instead(compiled, note.split, origins)}" if note.split else ""
        warnings.warn(f"{path}: {note.reason}{remedy}", AssemblyWarning, stacklevel=2)
    for reason in left_out.values():
        warnings.warn(f"{path}: {reason}", AssemblyWarning, stacklevel=2)
    if forces.left_out:
        warnings.warn(f"{path}: {sentence(forces.left_out)}", LeftOutWarning, stacklevel=2)
    return model


def mujoco_for(what: str) -> ModuleType:
    """The module of MuJoCo; an `ImportError` that says what needs it, and how to install it."""
    try:
        import mujoco
    except ImportError as error:
        raise ImportError(f"{what} needs MuJoCo: {how_to_install('mjcf')}") from error
    if mujoco.get_mju_user_warning() is None:
        # MuJoCo would append its warnings to MUJOCO_LOG.TXT in the current folder, also where that is a link.
        mujoco.set_mju_user_warning(_log_warning)
    module: ModuleType = mujoco
    return module


def _log_warning(text: str) -> None:
    """No warning of Python's, which a filter may turn into an error that MuJoCo's C could not pass on."""
    logging.getLogger("connections").warning("MuJoCo: %s", shown(text))


def _compile(mujoco: ModuleType, path: Path | Text) -> tuple[Any, Places]:
    """MuJoCo's model, and where the file says what."""
    recoded, places = require_bounded(path)
    try:
        if isinstance(path, Text):
            return mujoco.MjModel.from_xml_string(recoded or path.content), places
        return mujoco.MjModel.from_xml_path(*files_for_mujoco(path, recoded)), places
    except ValueError as error:
        raise refusal(error) from error
    except (RuntimeError, MemoryError) as error:  # "Caught an unknown exception!", if memory runs out
        raise ModelError("MuJoCo cannot compile it; most likely its elements need too much memory") from error


def gravity_of(compiled: Any) -> np.ndarray:
    """The acceleration of free fall (3,), m/s^2, zero if the file disables it."""
    off = compiled.opt.disableflags & mujoco_for("from_mjcf").mjtDisableBit.mjDSBL_GRAVITY
    return np.zeros(3) if off else np.array(compiled.opt.gravity)


def _instead(compiled: Any, split: Split, origins: np.ndarray) -> str:
    """Advice: joints to write in place of a free or ball joint that equality constraints bind in part."""
    number = next(joint for joint in range(compiled.njnt) if joint_name(compiled, joint) == split.joint)
    body, anchor = int(compiled.jnt_bodyid[number]), compiled.jnt_pos[number]
    free = compiled.jnt_type[number] == mujoco_for("from_mjcf").mjtJoint.mjJNT_FREE
    old = ("<freejoint>" if free else "the ball joint") + f" of body '{_body_name(compiled, body)}'"
    if split.pin is not None:  # a connect
        loop, outward = split.pin
        frame = loop.placement_b if outward else loop.placement_a
        old += f" and of <connect> '{loop.name}'"
        joints, anchor = [f'name="{split.joint}" type="ball"'], frame[:3, 3] + origins[body]
    else:
        joints = [_element(single) for part in split.parts for single in part.chain]
    place = " ".join(f"{x:.12g}" for x in anchor)
    lines = "\n".join(f'<joint {joint} pos="{place}"/>' for joint in joints)
    if compiled.dof_armature[compiled.dof_jntid == number].any():
        lines += "\n<!-- without its armature, which belongs to the velocities of this joint -->"
    return f"In place of {old} write\n{lines}"


# --- what is not supported ---------------------------------------------------------------------------------


def refuse_couplings(mujoco: ModuleType, compiled: Any) -> None:
    """Raise `ModelError` for the first armature in the file that couples joints."""
    for number in np.flatnonzero(compiled.tendon_armature):
        name = name_of(compiled, "tendon", int(number))
        raise ModelError(
            f"tendon '{name}' has armature, which couples joints: not yet supported. Without it, or if\n"
            '<joint armature="..."/> of its joints stands for it, its <tendon> is written with armature="0"'
        )
    for number in np.flatnonzero(compiled.actuator_armature):
        if not _on_joint(mujoco, compiled, int(number)):
            name = name_of(compiled, "actuator", int(number))
            raise ModelError(
                f"actuator '{name}' has armature and does not act on a joint: couplings are not yet supported"
            )


def armatures_of(compiled: Any) -> np.ndarray:
    """The armature of each joint, (njnt,): its own, and that of actuators on it behind their first gear.

    In MuJoCo, both have one number for all components of a ball or free joint.
    """
    armatures = np.array(compiled.dof_armature[compiled.jnt_dofadr])
    for number in np.flatnonzero(compiled.actuator_armature):  # others than on joints are refused
        ratio = compiled.actuator_gear[number, 0]
        armatures[compiled.actuator_trnid[number, 0]] += compiled.actuator_armature[number] * ratio**2
    return armatures


def _on_joint(mujoco: ModuleType, compiled: Any, actuator: int) -> bool:
    kinds = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
    return mujoco.mjtTrn(compiled.actuator_trntype[actuator]) in kinds


# --- bodies and joints -------------------------------------------------------------------------------------


def _mechanism(
    mujoco: ModuleType, compiled: Any, held: Mapping[int, np.ndarray]
) -> tuple[Mechanism, np.ndarray]:
    """All bodies and joints in MuJoCo's order, which is depth first, and the origins of the bodies' frames.

    Parameters
    ----------
    held : configurations of the joints that do not move, by number.
    """
    mechanism, armatures = Mechanism(), armatures_of(compiled)
    bodies = {_body_name(compiled, body) for body in range(compiled.nbody)}
    joints = {joint_name(compiled, number) for number in range(compiled.njnt)}
    driven = {
        int(compiled.actuator_trnid[number, 0])
        for number in range(
            len(compiled.actuator_trntype)
        )  # nu counts controls, of which one may have several
        if _on_joint(mujoco, compiled, number)
    }
    origins = np.zeros((compiled.nbody, 3))  # m, the origin of our frame of each body in MuJoCo's frame
    for body in range(1, compiled.nbody):
        above = compiled.body_parentid[body]
        parent, name = _body_name(compiled, above), _body_name(compiled, body)
        pose = transform(compiled.body_pos[body] - origins[above], compiled.body_quat[body])
        last = compiled.body_jntadr[body] + compiled.body_jntnum[body] - 1
        for number in range(compiled.body_jntadr[body], last + 1):
            element, start, turns = _joint(mujoco, compiled, number)
            if isinstance(element, Free):  # its configuration is the pose in the world
                pose = np.eye(4)
            anchor = compiled.jnt_pos[number] if turns else origins[body]
            pose = pose @ transform(anchor - origins[body]) @ start
            origins[body] = anchor
            kind: Joint = element
            if number in held:
                pose, kind = pose @ element.pose(held[number]), Fixed()
            joint = joint_name(compiled, number)
            child = name if number == last else unused(f"{name}/{joint}", bodies)
            bodies.add(child)
            _add_body(mechanism, compiled, child, body if number == last else None, anchor)
            inertia = 0.0 if number in held else armatures[number]
            limits = _limits(mujoco, compiled, number, kind)
            mechanism.add_joint(joint, parent, child, kind, pose, limits, inertia, number in driven)
            parent, pose = child, np.eye(4)
        if not compiled.body_jntnum[body]:
            _add_body(mechanism, compiled, name, body, origins[body])
            mechanism.add_joint(unused(f"{name} (fixed)", joints), parent, name, Fixed(), pose)
    return mechanism, origins


def _element(joint: Joint) -> str:
    """The type and axis of a slide or hinge in a file."""
    assert isinstance(joint, Prismatic | Revolute)  # joints of one velocity that `whole_joints` writes
    kind, axis = (
        "slide" if isinstance(joint, Prismatic) else "hinge",
        " ".join(f"{x:.12g}" for x in joint.axis),
    )
    return f'type="{kind}" axis="{axis}"'


def _joint(mujoco: ModuleType, compiled: Any, number: int) -> tuple[ElementaryJoint, np.ndarray, bool]:
    """The joint, its pose (4, 4) at q = 0 relative to the file's, and whether it is a ball or hinge."""
    kind, axis = compiled.jnt_type[number], compiled.jnt_axis[number]
    back = -compiled.qpos0[compiled.jnt_qposadr[number] :][:1]
    match mujoco.mjtJoint(kind):
        case mujoco.mjtJoint.mjJNT_FREE:
            return Free(), np.eye(4), False
        case mujoco.mjtJoint.mjJNT_BALL:
            return Spherical(), np.eye(4), True
        case mujoco.mjtJoint.mjJNT_SLIDE:
            return Prismatic(axis), Prismatic(axis).pose(back), False
        case mujoco.mjtJoint.mjJNT_HINGE:
            return Revolute(axis), Revolute(axis).pose(back), True
    raise ModelError(f"joint '{joint_name(compiled, number)}': unknown type {kind}")


def _limits(mujoco: ModuleType, compiled: Any, number: int, kind: Joint) -> Limits:
    """The range of a joint, and the largest force of actuators on a hinge or slide."""
    limited = compiled.jnt_limited[number] and not disabled(mujoco, compiled, "LIMIT", "CONSTRAINT")
    if isinstance(kind, Spherical) and limited:
        return Limits(angle=compiled.jnt_range[number].max())
    if not isinstance(kind, Prismatic | Revolute):
        return Limits()
    lower, upper = compiled.jnt_range[number] if limited else (-np.inf, np.inf)
    limited = compiled.jnt_actfrclimited[number]
    effort = np.abs(compiled.jnt_actfrcrange[number]).max() if limited else np.inf
    return Limits(lower, upper, effort=effort)


def _sites(
    compiled: Any, taken: Collection[str], origins: np.ndarray
) -> tuple[dict[str, tuple[str, np.ndarray]], dict[int, str]]:
    """The frames of the sites on bodies and the world, their placements there, and their names by number.

    A name that is taken is marked.
    """
    frames: dict[str, tuple[str, np.ndarray]] = {}
    names: dict[int, str] = {}
    for number in range(compiled.nsite):
        body, name = int(compiled.site_bodyid[number]), name_of(compiled, "site", number)
        while name in taken or name in frames:
            name += " (site)"
        pose = transform(compiled.site_pos[number] - origins[body], compiled.site_quat[number])
        frames[name], names[number] = (_body_name(compiled, body), pose), name
    return frames, names


def _add_body(mechanism: Mechanism, compiled: Any, name: str, body: int | None, origin: np.ndarray) -> None:
    """Add a body with our origin at `origin` (3,), m, in MuJoCo's frame; without mass if `body` is None."""
    if body is None:
        mechanism.add_body(name)
        return
    R = transform(np.zeros(3), compiled.body_iquat[body])[:3, :3]
    inertia = R @ np.diag(compiled.body_inertia[body]) @ R.T
    mechanism.add_body(name, compiled.body_mass[body], compiled.body_ipos[body] - origin, inertia)


def _drawn(
    mujoco: ModuleType, compiled: Any, held: Collection[int], qpos: np.ndarray
) -> dict[str, np.ndarray]:
    """The configuration of every moving joint in a ``qpos``, unit quaternions as (x, y, z, w)."""
    configurations = {}
    for number in range(compiled.njnt):
        kind, start = mujoco.mjtJoint(compiled.jnt_type[number]), compiled.jnt_qposadr[number]
        size = {mujoco.mjtJoint.mjJNT_FREE: 7, mujoco.mjtJoint.mjJNT_BALL: 4}.get(kind, 1)
        q = np.array(qpos[start : start + size])
        if size > 1:
            q[-4:] = np.roll(q[-4:], -1) / np.linalg.norm(q[-4:])
        if number not in held:
            configurations[joint_name(compiled, number)] = q
    return configurations


def _keyframes(mujoco: ModuleType, compiled: Any, held: Collection[int]) -> Keyframes:
    """The keyframes of the file, by the moving joints' own coordinates and velocities."""
    found = {}
    for number in range(compiled.nkey):
        configurations = _drawn(mujoco, compiled, held, compiled.key_qpos[number])
        states = {}
        for joint in range(compiled.njnt):
            name, start = joint_name(compiled, joint), compiled.jnt_dofadr[joint]
            if name not in configurations:
                continue
            q = configurations[name]
            v = np.array(compiled.key_qvel[number, start : start + {7: 6, 4: 3}.get(len(q), 1)])
            if len(q) == 7:  # its linear part is in the axes of the world there
                v = np.concatenate([v[3:], Rotation.from_quat(q[3:]).as_matrix().T @ v[:3]])
            states[name] = q, v
        found[name_of(compiled, "keyframe", number)] = states
    return found


def _body_name(compiled: Any, number: int) -> str:
    return WORLD if number == 0 else name_of(compiled, "body", number)


def joint_name(compiled: Any, number: int) -> str:
    """The name of a joint, or ``joint`` and its number if the file gives none."""
    return name_of(compiled, "joint", number)
