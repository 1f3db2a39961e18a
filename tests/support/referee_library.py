"""Dynamics as a library would give them: in its own layout and precision, with a mistake if asked."""

from __future__ import annotations

import numpy as np
from plain_dynamics import Plain
from referee_corpus import free_joints, kirchhoff, samples
from referee_robots import crafts, random_robot, robots

from connections import referee

ROBOTS = {robot.name: robot for robot in robots()}
CRAFTS = {craft.name: craft for craft in crafts()}


class InLayout:
    """`Plain` dynamics in a frame of `connections.referee`: nu = T v, so H' = A^T H A with A = T^-1."""

    def __init__(self, plain, frame, precision=np.float64):
        self.plain, self.frame, self.precision = plain, frame, precision

    def mass_matrix(self, q):
        q, A, _ = self._ours(q)
        return self._cast(A.T @ self.plain.mass_matrix(q) @ A)

    def bias(self, q, v):
        q, A, _ = self._ours(q)
        v = A @ v
        turning = self._rate(q, v) @ v
        H = A.T @ self.plain.mass_matrix(q) @ A
        return self._cast(A.T @ self.plain.bias(q, v) - H @ turning)

    def coriolis(self, q, v):
        q, A, _ = self._ours(q)
        v = A @ v
        H = A.T @ self.plain.mass_matrix(q) @ A
        return self._cast(A.T @ self.plain.coriolis(q, v) @ A - H @ self._rate(q, v) @ A)

    def gravity(self, q):
        q, A, _ = self._ours(q)
        return self._cast(A.T @ self.plain.gravity(q))

    def _ours(self, q):
        q = self.frame.to_ours(np.asarray(q))
        T = self.frame.coframe(q)
        return q, np.linalg.inv(T), T

    def _rate(self, q, v):
        return np.einsum("aij,a->ij", self.frame.coframe_slopes(q), v)

    def _cast(self, value):
        return np.asarray(value, self.precision)


class PlainCraft:
    """A craft: Kirchhoff's equations, restoring forces, and a current, with mistakes by name."""

    def __init__(self, craft, precision=np.float64, mistake=""):
        self.craft, self.precision, self.mistake = craft, precision, mistake
        self.n = len(craft.rigid)

    @property
    def M(self):
        M = self.craft.rigid + self.craft.added
        if self.mistake == "diagonal added mass":
            return self.craft.rigid + np.diag(np.diag(self.craft.added))
        return M

    def mass_matrix(self, q):
        return self.M.astype(self.precision)

    def bias(self, q, v):
        M = self.M
        if self.mistake == "C of the diagonal":
            M = np.diag(np.diag(M))
        if self.mistake == "no added Coriolis terms":
            M = self.craft.rigid
        if self.mistake == "no bias":
            return np.zeros(self.n, self.precision)
        if self.mistake == "yaw reversed":
            v = v * np.array([-1.0, *np.ones(self.n - 1)])
        return kirchhoff(M, np.asarray(v, float)).astype(self.precision)

    def coriolis(self, q, v):
        """The polar form in v: half of the bias' derivative."""
        e = np.eye(self.n)
        columns = [0.25 * (self.bias(q, v + x) - self.bias(q, v - x)) for x in e]
        return np.stack(columns, axis=1).astype(self.precision)

    def gravity(self, q):
        return np.zeros(self.n, self.precision)

    def current(self, q, v, u):
        """h with H vdot + h = tau, of the relative velocity."""
        R = _turn(q, self.n)
        flow, v = R.T @ u, np.asarray(v, float)
        relative = v - np.concatenate([np.zeros(self.n - len(u)), flow])
        if self.n == 3:
            rate = np.array([0.0, v[0] * flow[1], -v[0] * flow[0]])
        else:
            rate = np.concatenate([np.zeros(3), -np.cross(v[:3], flow)])
        if self.mistake == "no acceleration of the current":
            rate = 0.0 * rate
        return (self.bias(q, relative) - self.M @ rate).astype(self.precision)


def _turn(q, n):
    if n == 3:
        c, s = np.cos(q[2]), np.sin(q[2])
        return np.array([[c, -s], [s, c]])
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(q[3:7]).as_matrix()


def library(robot, layout=None, precision=np.float64, mistake=""):
    """The functions of a `CorpusRobot` in a layout; the plain one needs no change of frame."""
    if robot.name in CRAFTS:
        plain = PlainCraft(CRAFTS[robot.name], precision, mistake)
    else:
        plain = Plain(ROBOTS[robot.name], precision, mistake)
    if layout is None or layout == robot.layout:
        return plain
    return InLayout(plain, robot.frame_of(layout), precision)


def audit_of_random(seed, precision):
    """The report on a random robot that is right, in a layout drawn at random."""
    robot, rng = random_robot(seed), np.random.default_rng([seed, 1])
    joints = free_joints(robot)
    plain = Plain(robot, precision)
    q, v = samples(robot.name, robot.base, len(joints))
    if robot.base == "fixed":
        layout = referee.fixed()
    else:
        axes = str(rng.choice(["body", "mixed", "world", "linear-world", "angular-world"]))
        point = tuple(rng.uniform(-0.3, 0.3, 3)) if axes != "world" else "frame"
        make = referee.euler if rng.random() < 0.3 else referee.floating
        layout = make(str(rng.choice(["vw", "wv"])), axes, point)
    size = len(joints) + {"fixed": 0, "floating": 7, "euler": 6}[layout.base]
    frame = layout.at(size)
    there = InLayout(plain, frame, precision)
    theirs_v = frame.coframe(q[0]) @ v[0]
    functions = there.mass_matrix, there.bias, there.coriolis, there.gravity
    return referee.audit_functions(*functions, frame=layout, q=frame.from_ours(q[0]), v=theirs_v)
