"""Differences between a robot of MuJoCo and a model of ours, joint by joint and body by body.

Joints are found by their names, a body by the joint that moves it. In our neutral configuration, MuJoCo's
axes, anchors, masses, first moments and inertias in the world are compared with ours, and with what carries
each joint. These determine both robots' mass matrices and bias forces at every configuration.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from connections.control.plants.mujoco_coordinates import MuJoCoCoordinates, addresses_of, mujoco_names
from connections.geometry.rigid.host_groups import skew
from connections.multibody.description.mjcf import armatures_of, gravity_of, joint_name, refuse_couplings
from connections.multibody.description.mjcf_equality import chosen_equalities, targets
from connections.multibody.functions import forward_kinematics
from connections.multibody.joints import Free, Prismatic, Revolute, Spherical
from connections.multibody.model import Model

_KINDS = {Free: "free", Spherical: "ball", Prismatic: "slide", Revolute: "hinge"}


def differences(mujoco: ModuleType, model: Model, compiled: Any, tolerance: float) -> list[str]:
    """A line for each difference; none if the robots are the same.

    Parameters
    ----------
    mujoco : the module.
    model : ours, of joints that MuJoCo has.
    compiled : MuJoCo's.
    tolerance : relative to the largest mass, length, inertia and armature of our robot.

    Raises
    ------
    ModelError : MuJoCo's has armature or equality constraints that `multibody.from_mjcf` refuses.
    """
    refuse_couplings(mujoco, compiled)
    ours = _our_joints(model)
    theirs = {joint_name(compiled, k): k for k in range(compiled.njnt)}
    found = [f"joint '{name}': only the model has it" for name in ours if name not in theirs]
    found += [f"joint '{name}': only MuJoCo's has it" for name in theirs if name not in ours]
    for name in ours.keys() & theirs.keys():
        kind = mujoco.mjtJoint(compiled.jnt_type[theirs[name]]).name.removeprefix("mjJNT_").lower()
        if kind != ours[name][0]:
            found.append(f"joint '{name}': {ours[name][0]} in the model, {kind} in MuJoCo's")
    for number, name in chosen_equalities(mujoco, compiled).items():
        found.append(f"equality constraint '{name}' (number {number}): only MuJoCo's has it")
    found += targets(mujoco, compiled).values()
    if found:  # nothing else can be compared
        return found
    for name, (_, carrier) in ours.items():
        other = _carrier(compiled, theirs[name])
        if other != carrier:
            found.append(f"joint '{name}': '{carrier}' carries it in the model, '{other}' in MuJoCo's")
    if not np.allclose(model.gravity, gravity_of(compiled), rtol=tolerance, atol=0.0):
        found.append(f"gravity: {list(model.gravity)} in the model, {gravity_of(compiled).tolist()} m/s^2")
    return found + _numbers(mujoco, model, compiled, theirs, tolerance)


def _our_joints(model: Model) -> dict[str, tuple[str, str]]:
    """{MuJoCo's joint: (its type, the joint that carries it)}, by our model."""
    joints, last = {}, {-1: "world"}
    for body, chain in enumerate(model.kinematics.chains):
        carrier = last[int(model.kinematics.tree.parents[body])]
        for name, element in zip(mujoco_names(chain), chain, strict=True):
            joints[name] = _KINDS[type(element.joint)], carrier
            carrier = name
        last[body] = carrier
    return joints


def _carrier(compiled: Any, joint: int) -> str:
    """The name of the joint before this one, on its body or below."""
    body = compiled.jnt_bodyid[joint]
    if joint > compiled.body_jntadr[body]:
        return joint_name(compiled, joint - 1)
    body = compiled.body_parentid[body]
    while body and not compiled.body_jntnum[body]:
        body = compiled.body_parentid[body]
    if not body:
        return "world"
    return joint_name(compiled, compiled.body_jntadr[body] + compiled.body_jntnum[body] - 1)


def _numbers(
    mujoco: ModuleType, model: Model, compiled: Any, theirs: dict[str, int], tolerance: float
) -> list[str]:
    """Differences of axes, anchors, inertias and armatures, in our neutral configuration."""
    tree, q = model.kinematics.tree, model.neutral()
    data = mujoco.MjData(compiled)
    coordinates = MuJoCoCoordinates.of(model, addresses_of(compiled))
    coordinates.write(q, np.zeros(model.nv), data.qpos, data.qvel)
    mujoco.mj_kinematics(compiled, data)
    poses = np.asarray(forward_kinematics(model, q)).reshape(-1, 4, 4)
    lengths = np.linalg.norm(poses[:, :3, 3], axis=1)
    scales = {
        "axis": 1.0,
        "anchor [m]": float(lengths.max()) or 1.0,
        "mass [kg]": float(tree.inertias[:, 5, 5].max()),
        "armature": float(tree.armature.max()),
    }
    scales["first moment [kg m]"] = scales["mass [kg]"] * scales["anchor [m]"]
    scales["inertia [kg m^2]"] = float(np.abs(tree.inertias[:, :3, :3]).max())
    found: list[str] = []

    def compare(owner: str, what: str, our: Any, their: Any) -> None:
        our, their = np.asarray(our, dtype=float), np.asarray(their, dtype=float)
        if np.max(np.abs(our - their)) > tolerance * scales[what]:
            found.append(f"{owner}: {what} {our.tolist()} in the model, {their.tolist()} in MuJoCo's")

    armatures = armatures_of(compiled)
    for body, chain in enumerate(model.kinematics.chains):
        R, p = poses[body, :3, :3], poses[body, :3, 3]
        for name, element in zip(mujoco_names(chain), chain, strict=True):
            joint, number = element.joint, theirs[name]
            if isinstance(joint, Revolute | Prismatic):
                axis = R @ joint.axis
                compare(f"joint '{name}'", "axis", axis, data.xaxis[number])
            if isinstance(joint, Revolute):  # any point of the axis is an anchor
                away = data.xanchor[number] - p
                compare(f"joint '{name}'", "anchor [m]", p, p + away - axis * (axis @ away))
            if isinstance(joint, Spherical):
                compare(f"joint '{name}'", "anchor [m]", p, data.xanchor[number])
            inertia = np.full(joint.nv, armatures[number])
            compare(f"joint '{name}'", "armature", tree.armature[element.v], inertia)
        mass, moment, rotational = _their_inertia(compiled, data, number, p)
        ours = tree.inertias[body]
        owner = f"body '{tree.body_names[body]}'"
        compare(owner, "mass [kg]", ours[5, 5], mass)
        compare(owner, "first moment [kg m]", R @ [ours[2, 4], ours[0, 5], ours[1, 3]], moment)
        compare(owner, "inertia [kg m^2]", R @ ours[:3, :3] @ R.T, rotational)
    return found


def _their_inertia(
    compiled: Any, data: Any, joint: int, origin: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, first moment and inertia about a point of all that a joint moves rigidly, in world axes.

    Zero if another joint comes after it on its body, as on the bodies without mass of `from_mjcf`.
    """
    moved, first = compiled.jnt_bodyid[joint], compiled.body_jntadr[compiled.jnt_bodyid[joint]]
    mass, moment, rotational = 0.0, np.zeros(3), np.zeros((3, 3))
    if joint < first + compiled.body_jntnum[moved] - 1:
        return mass, moment, rotational
    for body in np.flatnonzero(compiled.body_weldid == moved):
        R, arm = data.ximat[body].reshape(3, 3), skew(data.xipos[body] - origin)
        mass += compiled.body_mass[body]
        moment += compiled.body_mass[body] * (data.xipos[body] - origin)
        rotational += R @ np.diag(compiled.body_inertia[body]) @ R.T - compiled.body_mass[body] * arm @ arm
    return mass, moment, rotational
