"""q, v, accelerations and forces of a robot, ours and MuJoCo's.

| joint | ours | MuJoCo's |
|---|---|---|
| hinge, slide | coordinate and rate | the same |
| ball | quaternion (x, y, z, w), angular velocity in body axes | quaternion (w, x, y, z), the same velocity |
| free | pose in the joint frame; body twist [omega; u] | pose in the world; [pdot in world axes; omega] |

With R from body axes to the world's, a free joint has

    pdot = R u,    a_u = R^T pddot - omega x u,    force on qvel = [R f; m]  for ours, [m; f],

so that f . u + m . omega is the same power in both. Source: MuJoCo's documentation, Computation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from connections.geometry.rigid.host_groups import quaternion_product, rotation_matrix
from connections.multibody.definition.rotors import Element
from connections.multibody.description.mjcf import joint_name
from connections.multibody.joints import Free
from connections.multibody.model import Model

_WXYZ = np.array([1, 2, 3, 0])  # where x, y, z, w are in MuJoCo's quaternion
_TWIST = np.array([3, 4, 5, 0, 1, 2])  # where omega and the linear velocity are in MuJoCo's six


def mujoco_names(chain: Sequence[Element]) -> list[str]:
    """Names of MuJoCo's joints for the chain of one joint: its own, or its own with ``/1``, ``/2``, ..."""
    names = [element.name for element in chain]
    return names if len(names) == 1 else [f"{name}/{k}" for k, name in enumerate(names, 1)]


def addresses_of(compiled: Any) -> dict[str, tuple[int, int]]:
    """Where each joint of MuJoCo begins in qpos and in qvel, by name."""
    joints = range(compiled.njnt)
    return {joint_name(compiled, k): (compiled.jnt_qposadr[k], compiled.jnt_dofadr[k]) for k in joints}


@dataclass(frozen=True, eq=False)
class _FreeJoint:
    """A free joint: its slices of our q and v, its frame (quaternion, R, p), whether that is the world's."""

    q: slice
    v: slice
    quaternion: np.ndarray
    R: np.ndarray
    p: np.ndarray
    plain: bool

    def turned(self, q: np.ndarray) -> np.ndarray:
        """R (3, 3) from body axes to the world's, at the robot's q (nq,)."""
        R = rotation_matrix(q[self.q][3:])
        return R if self.plain else self.R @ R


@dataclass(frozen=True, eq=False)
class MuJoCoCoordinates:
    """The map between a model's q, v, a, tau and MuJoCo's qpos, qvel, qacc, qfrc.

    MuJoCo's arrays may be longer than ours, for example if they have motors; only the robot's entries are
    written. Nothing is validated.
    """

    in_qpos: np.ndarray  #: (nq,) where each entry of our q is in qpos
    in_qvel: np.ndarray  #: (nv,) where each entry of our v is in qvel, before free joints are turned
    free: tuple[_FreeJoint, ...]

    @classmethod
    def of(cls, model: Model, addresses: Mapping[str, tuple[int, int]]) -> MuJoCoCoordinates:
        """The map of a model.

        Parameters
        ----------
        model : a robot without closed loops.
        addresses : {name of MuJoCo's joint: where it begins in qpos and in qvel}; `mujoco_names` has the
            names.
        """
        kinematics = model.kinematics
        in_qpos, in_qvel = np.zeros(model.nq, dtype=int), np.zeros(model.nv, dtype=int)
        free = []
        for body, chain in enumerate(kinematics.chains):
            for name, element in zip(mujoco_names(chain), chain, strict=True):
                at_q, at_v = addresses[name]
                nq, nv, first = element.joint.nq, element.joint.nv, element.joint.quaternion
                places = np.arange(nq)
                if first is not None:
                    places[first:] = first + _WXYZ
                in_qpos[element.q] = at_q + places
                in_qvel[element.v] = at_v + (_TWIST if isinstance(element.joint, Free) else np.arange(nv))
                if isinstance(element.joint, Free):
                    tree = kinematics.tree
                    turn, at = tree.quaternions[body], tree.positions[body]
                    plain = not turn[:3].any() and not at.any()
                    free.append(_FreeJoint(element.q, element.v, turn, rotation_matrix(turn), at, plain))
        return cls(in_qpos, in_qvel, tuple(free))

    def write(self, q: np.ndarray, v: np.ndarray, qpos: Any, qvel: Any) -> None:
        """Write q (nq,) and v (nv,) into MuJoCo's arrays."""
        if self.free:
            q, v = q.copy(), v.copy()
            for joint in self.free:
                v[joint.v][3:] = joint.turned(q) @ v[joint.v][3:]
                if not joint.plain:
                    q[joint.q][:3] = joint.p + joint.R @ q[joint.q][:3]
                    q[joint.q][3:] = quaternion_product(joint.quaternion, q[joint.q][3:])
        qpos[self.in_qpos], qvel[self.in_qvel] = q, v

    def read(self, qpos: Any, qvel: Any) -> tuple[np.ndarray, np.ndarray]:
        """q (nq,) and v (nv,) out of MuJoCo's arrays, as new arrays."""
        q, v = qpos[self.in_qpos], qvel[self.in_qvel]
        for joint in self.free:
            if not joint.plain:
                back = joint.quaternion * np.array([-1.0, -1.0, -1.0, 1.0])
                q[joint.q][:3] = joint.R.T @ (q[joint.q][:3] - joint.p)
                q[joint.q][3:] = quaternion_product(back, q[joint.q][3:])
            v[joint.v][3:] = joint.turned(q).T @ v[joint.v][3:]
        return q, v

    def acceleration(self, q: np.ndarray, v: np.ndarray, qacc: Any) -> np.ndarray:
        """The rate (nv,) of our velocity components for MuJoCo's qacc, at our q (nq,) and v (nv,)."""
        a: np.ndarray = np.asarray(qacc)[self.in_qvel]
        for joint in self.free:
            omega, u = v[joint.v][:3], v[joint.v][3:]
            a[joint.v][3:] = joint.turned(q).T @ a[joint.v][3:] - np.cross(omega, u)
        return a

    def write_force(self, q: np.ndarray, tau: np.ndarray, qfrc: Any) -> None:
        """Write generalized forces tau (nv,) at q (nq,) into MuJoCo's array; v . tau = qvel . qfrc."""
        if self.free:
            tau = tau.copy()
            for joint in self.free:
                tau[joint.v][3:] = joint.turned(q) @ tau[joint.v][3:]
        qfrc[self.in_qvel] = tau
