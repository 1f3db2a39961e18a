"""The velocity of a free body in the frames of other libraries: nu = T(q) [omega; v].

A library's matrix in its frame is brought to ours by ``C = T^T C' T + T^T H' T_dot``. Source: [W] eq. (17).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from connections.interop.libraries.library import Array


class Change(NamedTuple):
    """T and its derivative along the motion, for velocities ``nu = T v``."""

    T: Array
    T_dot: Array


@dataclass(frozen=True, eq=False)
class FreeBody:
    """A free body with another frame and another representation of its velocity in a library.

    Parameters
    ----------
    offset : (4, 4) the library's frame in ours.
    """

    offset: Array = field(default_factory=lambda: np.eye(4))

    def pose(self, q: Array) -> Array:
        """The homogeneous transform (4, 4) of the library's frame at q = [p, quaternion] of ours."""
        ours = np.eye(4)
        ours[:3, :3], ours[:3, 3] = rotation(q[3:7]), q[:3]
        return ours @ self.offset

    def change(self, representation: str, q: Array, twist: Array) -> Change:
        """The change from our body twist [omega; v] to [v; omega] in a representation.

        Parameters
        ----------
        representation : "body" axes; "mixed": the velocity of the frame's origin and omega in world axes;
            "inertial": the velocity of the point at the world's origin and omega in world axes;
            "linear in world": v in world axes, omega in body axes.
        q, twist : of our frame.
        """
        R, p = self.offset[:3, :3], self.offset[:3, 3]
        moved = np.block([[R.T, np.zeros((3, 3))], [-R.T @ hat(p), R.T]])
        theirs, nu = self.pose(q), moved @ twist
        if representation == "inertial":
            change = _spatial(theirs, nu)
        else:
            blocks = {"body": (False, False), "mixed": (True, True), "linear in world": (False, True)}
            change = turned(theirs[:3, :3], nu, blocks[representation], linear_first=True)
        return Change(change.T @ moved, change.T_dot @ moved)


def hat(w: Array) -> Array:
    """The matrix of w x."""
    return np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])


def rotation(quaternion: Array) -> Array:
    """R (3, 3) of a quaternion (x, y, z, w)."""
    R: Array = Rotation.from_quat(quaternion).as_matrix()
    return R


def turned(R: Array, twist: Array, in_world: tuple[bool, bool], linear_first: bool) -> Change:
    """Angular and linear part of a body twist in world axes (True) or body axes, in either order."""
    w, T, T_dot = hat(twist[:3]), np.eye(6), np.zeros((6, 6))
    for block, turn in enumerate(in_world):
        if turn:
            at = slice(3 * block, 3 * block + 3)
            T[at, at], T_dot[at, at] = R, R @ w
    order = [3, 4, 5, 0, 1, 2] if linear_first else [0, 1, 2, 3, 4, 5]
    return Change(T[order], T_dot[order])


def _spatial(pose: Array, twist: Array) -> Change:
    R, p = pose[:3, :3], hat(pose[:3, 3])
    T = np.block([[p @ R, R], [R, np.zeros((3, 3))]])
    w, u = hat(twist[:3]), hat(twist[3:])
    return Change(T, T @ np.block([[w, np.zeros((3, 3))], [u, w]]))


def pulled_matrix(C: Array, H: Array, change: Change) -> Array:
    """T^T C T + T^T H T_dot: the same connection's Coriolis matrix in our frame."""
    return change.T.T @ (C @ change.T + H @ change.T_dot)


def pulled_bias(c: Array, H: Array, change: Change, v: Array) -> Array:
    """T^T (c + H T_dot v): the same forces in our frame."""
    return change.T.T @ (c + H @ (change.T_dot @ v))


def widened(parts: list[tuple[slice, Change]], size: int) -> Change:
    """The change of all velocities from changes of some joints; the identity elsewhere."""
    T, T_dot = np.eye(size), np.zeros((size, size))
    for at, change in parts:
        T[at, at], T_dot[at, at] = change
    return Change(T, T_dot)
