"""Passive forces of a model in MuJoCo, and how those of a file differ from them.

Springs and their dampers become fixed tendons; those of spherical joints, dampers and dry friction become
those of MuJoCo's joints, and lift its gravity compensation.
Source: MuJoCo's documentation, Computation, Passive forces.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from connections.checks import ModelError
from connections.control.plants.mujoco_coordinates import MuJoCoCoordinates, addresses_of
from connections.multibody.applied_forces import lifted_inertias, passive_forces_at
from connections.multibody.model import Model

SPRING = "{}/spring"
_STATES = 4  # random ones, at which forces are compared
_ROUND_OFF = 1e-9  # of a first moment, relative to its mass and the size of the body


def acting(model: Model) -> str:
    """The kinds of a robot's passive forces, in words, besides gravity; an empty text if there are none."""
    passive = model.passive
    kinds = {
        "springs": passive.springs,
        "damping": [d for d in passive.damping.values() if np.any(d)],
        "dry friction": [f for f in passive.friction.values() if np.any(f)],
        "lift": passive.lift,
    }
    return ", ".join(name for name, given in kinds.items() if given)


def add_passive(spec: Any, model: Model, bodies: list[Any]) -> None:
    """Add springs and lift to a specification whose bodies are those of the model.

    Raises
    ------
    ModelError : a lift is not at the centre of mass of its body, where MuJoCo's acts.
    """
    for number, spring in enumerate(model.passive.springs):
        if spring.turns:
            continue  # those of spherical joints are of MuJoCo's joints
        tendon = spec.add_tendon(name=SPRING.format(f"{spring.name}/{number}"))
        for joint, coefficient in spring.joints.items():
            tendon.wrap_joint(joint, coefficient)
        tendon.springlength = list(np.broadcast_to(spring.rest, (2,)))
        tendon.stiffness[0], tendon.damping[0] = spring.stiffness, spring.damping
    lifted = lifted_inertias(model.kinematics.tree)
    if lifted is None:
        return
    for body, own, lift in zip(bodies, model.kinematics.tree.inertias, lifted, strict=True):
        mass, carried = own[5, 5], lift[5, 5]
        h, moment = own[:3, 3:], lift[:3, 3:]
        size = np.sqrt(np.trace(own[:3, :3]) / mass) if mass else 0.0
        if np.abs(moment * mass - h * carried).max() > _ROUND_OFF * mass * abs(carried) * size:
            name = model.body_names[bodies.index(body)]
            raise ModelError(
                f"lift of '{name}': MuJoCo's acts at the body's centre of mass, and this does not"
            )
        body.gravcomp = carried / mass if mass else 0.0


def set_passive(model: Model, compiled: Any, in_qvel: np.ndarray) -> None:
    """Set springs of spherical joints, dampers and dry friction; `in_qvel` are the places of v in qvel.

    Raises
    ------
    ModelError : a joint has springs of several rest orientations.
    """
    d, friction = np.zeros((2, model.nv))
    for into, given in ((d, model.passive.damping), (friction, model.passive.friction)):
        for name, value in given.items():
            into[model.velocity_slice(name)] = value
    for spring in [spring for spring in model.passive.springs if spring.turns]:
        (name,) = spring.joints
        joint = compiled.joint(name)
        if joint.stiffness[0] and np.any(spring.rest != joint.qpos_spring[[1, 2, 3, 0]]):
            raise ModelError(f"joint '{name}' has springs of several rest orientations, and MuJoCo has one")
        joint.stiffness[0] += spring.stiffness
        joint.qpos_spring[:] = spring.rest[[3, 0, 1, 2]]
        d[model.velocity_slice(name)] += spring.damping
    compiled.dof_damping[in_qvel], compiled.dof_frictionloss[in_qvel] = d, friction


def passive_differences(mujoco: ModuleType, model: Model, compiled: Any, tolerance: float) -> list[str]:
    """A line for springs, dampers and lift, and one for dry friction, where MuJoCo's are not the model's.

    Parameters
    ----------
    mujoco : the module.
    model : ours, whose joints are MuJoCo's.
    compiled : MuJoCo's.
    tolerance : relative to the largest force at some random states.
    """
    coordinates, data = MuJoCoCoordinates.of(model, addresses_of(compiled)), mujoco.MjData(compiled)
    rng, found = np.random.default_rng(0), []
    ours, theirs = np.zeros((2, _STATES, model.nv))
    columns = np.zeros((model.nv, compiled.nv))  # qvel = columns^T v
    for k in range(_STATES):
        q, v = model.random(rng), rng.standard_normal(model.nv)
        for column, e in zip(columns, np.eye(model.nv), strict=True):
            coordinates.write(q, e, data.qpos, column)
        coordinates.write(q, v, data.qpos, data.qvel)
        mujoco.mj_forward(compiled, data)
        ours[k], theirs[k] = passive_forces_at(model, q, v), columns @ data.qfrc_passive
    off = np.abs(ours - theirs).max(axis=0)
    if off.max() > tolerance * max(np.abs(ours).max(), np.abs(theirs).max()):
        joint = next(name for name in model.joint_names if off.argmax() in _range(model, name))
        found.append(f"springs, dampers or lift differ, most at joint '{joint}', by {off.max():.3g} N m or N")
    friction = np.zeros(model.nv)
    for name, value in model.passive.friction.items():
        friction[model.velocity_slice(name)] = value
    off = np.abs(friction - np.abs(columns) @ np.maximum(compiled.dof_frictionloss, 0.0))
    if off.max() > tolerance * max(friction.max(), compiled.dof_frictionloss.max()):
        joint = next(name for name in model.joint_names if off.argmax() in _range(model, name))
        found.append(f"dry friction differs, most at joint '{joint}', by {off.max():.3g} N m or N")
    return found


def _range(model: Model, joint: str) -> range:
    own = model.velocity_slice(joint)
    return range(own.start, own.stop)
