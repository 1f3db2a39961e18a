"""Joints and bodies in NumPy: twists of bodies, small steps, configurations of users.

These functions are called only a few times per model, so compiling them would take longer than it saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from connections.checks import as_array, require_finite, require_untraced
from connections.geometry.groups import unit_quaternions
from connections.geometry.rigid.host_groups import skew
from connections.multibody.definition.kinematics import Coordinates, Kinematics
from connections.multibody.joints import Joint


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
    for body, chain in enumerate(kinematics.chains):
        pose, parent = kinematics.placements[body], tree.parents[body]
        moved, size = (A[parent], sizes[parent]) if parent >= 0 else (A[body], sizes[body])
        for joint, _, at, own in chain:
            pose = pose @ joint.pose(q[at])
            R, p = pose[:3, :3].T, pose[:3, 3]
            moved = np.concatenate([R @ moved[:3], R @ (moved[3:] - skew(p) @ moved[:3])])
            size = np.stack([size[0], size[1] + np.linalg.norm(p) * size[0]])
            moved[:, own] = joint.motion
            size[:, own] = np.linalg.norm(moved[:, own].reshape(2, 3, -1), axis=1)
            pose = np.eye(4)
        A[body], sizes[body] = moved, size
    return (A, sizes) if G is None else (A @ G, sizes @ np.abs(G))


def is_length(joints: Sequence[Joint]) -> np.ndarray:
    """(nq,) whether each coordinate of the joints is a length, not an angle or part of a quaternion."""
    return np.concatenate([element.lengths for joint in joints for element in joint.chain])


def moved(kinematics: Kinematics, q: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The spanning configuration (nq,) after one unit of time at the velocity `step` (nv,), from q (nq,)."""
    q = q.copy()
    for joint, _, at_q, at_v in kinematics.elements:
        q[at_q] = joint.retracted(q[at_q], step[at_v])
    return q


def configuration(kinematics: Coordinates, name: str, q: Any) -> np.ndarray:
    """A copy of q (..., nq), which must be finite, with its quaternions (nearly of norm one) normalized."""
    require_untraced(**{name: q})
    array = np.array(as_array(name, q, (kinematics.nq,)))
    require_finite(name, array)
    for joint_name, at in kinematics.quaternions:
        array[..., at] = unit_quaternions(f"{name}: joint '{joint_name}'", array[..., at])
    return array
