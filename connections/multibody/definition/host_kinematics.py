"""Joints and bodies in NumPy: twists of bodies, elementary motions, small steps.

Used a few times per model: there, compiling a function would take longer than it saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from connections.checks import ModelError, as_array, require_finite, require_untraced
from connections.geometry.groups import unit_quaternions
from connections.geometry.rigid.host_groups import skew
from connections.multibody.definition.kinematics import Coordinates, Kinematics
from connections.multibody.joints import Free, Helical, Joint, Prismatic, Revolute, Spherical


def body_motions(
    kinematics: Kinematics, q: np.ndarray, G: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """A (N, 6, nv), twists of the bodies in their own axes, and sizes of its terms (N, 2, nv), at q (nq,).

    If G (nv, n) is given, both are for the velocities G v.

    A is computed from body to body, so that no digits are lost if the mechanism is far from the world's
    origin. The sizes are bounds of the angular and of the linear part before terms cancel: sums of lengths
    from body to body.
    """
    tree, nv = kinematics.tree, kinematics.nv
    A, sizes = np.zeros((len(tree.joints), 6, nv)), np.zeros((len(tree.joints), 2, nv))
    for body, joint in enumerate(tree.joints):
        pose, parent = kinematics.placements[body], tree.parents[body]
        at, column = kinematics.q_starts[body], kinematics.v_starts[body]
        moved, size = (A[parent], sizes[parent]) if parent >= 0 else (A[body], sizes[body])
        for element in joint.chain:
            pose = pose @ elementary_pose(element, q[at : at + element.nq])
            R, p = pose[:3, :3].T, pose[:3, 3]
            moved = np.concatenate([R @ moved[:3], R @ (moved[3:] - skew(p) @ moved[:3])])
            size = np.stack([size[0], size[1] + np.linalg.norm(p) * size[0]])
            own = slice(column, column + element.nv)
            moved[:, own] = elementary_motion(element)
            size[:, own] = np.linalg.norm(moved[:, own].reshape(2, 3, -1), axis=1)
            pose, at, column = np.eye(4), at + element.nq, column + element.nv
        A[body], sizes[body] = moved, size
    return (A, sizes) if G is None else (A @ G, sizes @ np.abs(G))


def is_length(joints: Sequence[Joint]) -> np.ndarray:
    """(nq,) whether each coordinate of the joints is a length, not an angle or part of a quaternion."""
    kinds = {Prismatic: [True], Spherical: [False] * 4, Free: [True] * 3 + [False] * 4}
    elements = [element for joint in joints for element in joint.chain]
    return np.concatenate([kinds.get(type(element), [False]) for element in elements]).astype(bool)


def moved(kinematics: Kinematics, q: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The spanning configuration (nq,) after one unit of time at the velocity `step` (nv,), from q (nq,)."""
    q = q.copy()
    for joint, at_q, at_v in kinematics.slices():
        at, velocity = at_q.start, step[at_v]
        if isinstance(joint, Free | Spherical):
            if isinstance(joint, Free):
                R = Rotation.from_quat(q[at + 3 : at + 7])
                q[at : at + 3] += R.apply(velocity[3:])
                at += 3
            turned = Rotation.from_quat(q[at : at + 4]) * Rotation.from_rotvec(velocity[:3])
            quaternion = turned.as_quat()
            q[at : at + 4] = quaternion if quaternion @ q[at : at + 4] >= 0.0 else -quaternion
        else:
            q[at : at + joint.nq] += velocity
    return q


def elementary_pose(joint: Joint, q: np.ndarray) -> np.ndarray:
    """(4, 4), m: the child frame of an elementary joint in its joint frame."""
    pose = np.eye(4)
    match joint:
        case Revolute() | Helical():
            axis = np.array(joint.axis)
            across = skew(axis)
            pose[:3, :3] += np.sin(q[0]) * across + (1.0 - np.cos(q[0])) * across @ across
            if isinstance(joint, Helical):
                pose[:3, 3] = joint.pitch * q[0] * axis
        case Prismatic():
            pose[:3, 3] = q[0] * np.array(joint.axis)
        case Spherical():
            pose[:3, :3] = Rotation.from_quat(q).as_matrix()
        case Free():
            pose[:3, :3], pose[:3, 3] = Rotation.from_quat(q[3:]).as_matrix(), q[:3]
        case _:
            raise ModelError(f"loops cannot be assembled with the joint type {type(joint).__name__}")
    return pose


def elementary_motion(joint: Joint) -> np.ndarray:
    """Phi (6, nv) of an elementary joint, constant in the axes of its child."""
    if not isinstance(joint, Revolute | Helical | Prismatic):
        return np.eye(6, joint.nv)
    axis, slides = np.array(joint.axis), isinstance(joint, Prismatic)
    advance = 1.0 if slides else getattr(joint, "pitch", 0.0)
    twist: np.ndarray = np.concatenate([np.zeros(3) if slides else axis, advance * axis])
    return twist[:, None]


def configuration(kinematics: Coordinates, name: str, q: Any) -> np.ndarray:
    """A copy of q (..., nq), which must be finite, with its quaternions (nearly of norm one) normalized."""
    require_untraced(**{name: q})
    array = np.array(as_array(name, q, (kinematics.nq,)))
    require_finite(name, array)
    for (joint, at_q, _), joint_name in zip(kinematics.slices(), kinematics.joint_names, strict=True):
        if isinstance(joint, Spherical | Free):
            at = slice(at_q.stop - 4, at_q.stop)
            array[..., at] = unit_quaternions(f"{name}: joint '{joint_name}'", array[..., at])
    return array
