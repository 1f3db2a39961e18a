"""Dynamics of a tree of bodies in NumPy, from Jacobians in world axes, with places for mistakes.

It shares no function with the package: H = sum J^T M J over the bodies' centres of mass, the bias from the
accelerations at zero joint acceleration, C from the derivatives of the Jacobians. A mistake is the name of a
line in `Plain` that is done wrong. Everything is computed in one precision.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from referee_corpus import free_joints

GRAVITY = 9.81


class Plain:
    """A `Robot` of `referee_robots.py` in our layout: H, bias, C, gravity as functions of q and v.

    Parameters
    ----------
    robot : Robot
    precision : np.float64 or np.float32.
    mistake : one of the names in this file, or "".
    """

    def __init__(self, robot, precision=np.float64, mistake=""):
        self.robot, self.precision, self.mistake = robot, precision, mistake
        self.names = free_joints(robot)
        if mistake == "breadth first":
            self.names = sorted(self.names, key=lambda name: (self._depth(name), self.names.index(name)))
        self.base = {"fixed": 0, "planar": 3, "floating": 6}[robot.base]
        self.n = self.base + len(self.names)
        self.links = {link.name: link for link in robot.links}
        self.joints = list(robot.joints)
        if mistake == "a chain":  # each link on the one before it
            order = [robot.links[0].name, *(j.child for j in self.joints)]
            self.parents = {j.child: order[k] for k, j in enumerate(self.joints)}
        else:
            self.parents = {j.child: j.parent for j in self.joints}

    def _depth(self, name):
        joint = next(j for j in self.robot.joints if j.name == name)
        above = [j for j in self.robot.joints if j.child == joint.parent]
        return 0 if not above else 1 + self._depth(above[0].name)

    # --- what libraries give ----------------------------------------------------------------------

    def mass_matrix(self, q):
        """H."""
        H = np.zeros((self.n, self.n), self.precision)
        for body in self._bodies(q, np.zeros(self.n)):
            H += body.mass * body.Jv.T @ body.Jv + body.Jw.T @ body.inertia @ body.Jw
        for joint in self.robot.joints:
            if joint.armature and self.mistake != "no armature":
                at = self.base + self.names.index(joint.name)
                H[at, at] += self.precision(joint.armature)
        return self._wrong_matrix(H)

    def bias(self, q, v):
        """C v."""
        c = np.zeros(self.n, self.precision)
        for body in self._bodies(q, v):
            force = body.mass * body.a
            moment = body.inertia @ body.alpha
            if self.mistake != "no gyroscopic term":
                moment = moment + _cross(body.omega) @ (body.inertia @ body.omega)
            if self.mistake == "no centripetal force":
                force = 0.0 * force
            c += body.Jv.T @ force + body.Jw.T @ moment
        return self._wrong_vector(c, q, v)

    def coriolis(self, q, v):
        """C, with C v the bias and Hdot = C + C^T."""
        C = np.zeros((self.n, self.n), self.precision)
        for body in self._bodies(q, v):
            turn = _cross(body.omega).astype(self.precision) @ body.inertia
            C += body.mass * body.Jv.T @ body.Jv_dot
            C += body.Jw.T @ (body.inertia @ body.Jw_dot + turn @ body.Jw)
            if self.mistake == "C without skew":  # the same C v, because the second term annihilates v
                outer = _cross(body.inertia @ body.omega).astype(self.precision) @ body.Jw
                C += 0.5 * body.Jw.T @ (turn @ body.Jw + outer)
        if self.mistake == "C transposed":
            return C.T
        if self.mistake == "half of C":
            return self.precision(0.5) * C
        if self.mistake == "C of an outer product":
            return np.outer(self.bias(q, v), v / (v @ v + 1e-30)).astype(self.precision)
        return C

    def gravity(self, q):
        """g."""
        g = np.zeros(self.n, self.precision)
        size = {"gravity of 9.80665": 9.80665, "gravity upwards": -GRAVITY}.get(self.mistake, GRAVITY)
        for body in self._bodies(q, np.zeros(self.n)):
            up = np.array([0.0, 0.0, size], self.precision)
            if self.mistake == "gravity in body axes" and self.base:
                up = body.R @ up
            g += body.mass * body.Jv.T @ up
        return g

    def derivatives(self, q, v):
        """d bias / d v by its polar form, d bias along the fields and dH by central differences."""
        h, n = (1e-5 if self.precision is np.float64 else 1e-2), self.n
        d_v = np.stack([0.5 * (self.bias(q, v + e) - self.bias(q, v - e)) for e in np.eye(n)], axis=1)
        sides = [[self.moved(q, k * h * e) for k in (1, -1)] for e in np.eye(n)]
        d_q = np.stack([(self.bias(a, v) - self.bias(b, v)) / (2 * h) for a, b in sides], axis=1)
        dH = np.stack([(self.mass_matrix(a) - self.mass_matrix(b)) / (2 * h) for a, b in sides])
        found = {"mass_matrix": dH, "bias_q": d_q, "bias_v": d_v}
        wrong = {
            "derivative index last": ("mass_matrix", np.moveaxis(dH, 0, 2)),
            "C as derivative by v": ("bias_v", 0.5 * d_v),
            "derivative by q transposed": ("bias_q", d_q.T),
        }
        if self.mistake in wrong:
            name, value = wrong[self.mistake]
            found[name] = value
        return found

    def moved(self, q, xi):
        """The configuration moved by components xi, for robots on a fixed base."""
        assert not self.base
        return q + xi

    # --- mistakes of whole results ------------------------------------------------------------------

    def _wrong_matrix(self, H):
        if self.mistake == "lower triangle scaled":
            return H * np.where(np.tri(self.n, k=-1, dtype=bool), 0.67, 1.0).astype(self.precision)
        if self.mistake == "upper triangle only":
            return np.triu(H)
        if self.mistake == "negative diagonal":
            H = H.copy()
            H[-1, -1] *= -1
        if self.mistake == "no coupling":
            H = H.copy()
            H[0, 1:] = H[1:, 0] = 0.0
        if self.mistake == "large coupling":
            H = H.copy()
            H[0, -1] = H[-1, 0] = 1.3 * np.sqrt(H[0, 0] * H[-1, -1])
        return H

    def _wrong_vector(self, c, q, v):
        one = self.precision
        match self.mistake:
            case "no bias":
                return 0.0 * c
            case "bias reversed":
                return -c
            case "half of the bias":
                return one(0.5) * c
            case "bias with gravity":
                return c + self.gravity(q)
            case "bias with damping":
                return c + one(0.3) * np.asarray(v, one)
            case "bias of the speed":
                return c * np.sign(v[0]).astype(one)
            case "angular part first":
                return np.concatenate([c[3:6], c[:3], c[6:]])
            case "first row lost":
                return c * (np.arange(self.n) > 0)
        return c

    # --- kinematics -------------------------------------------------------------------------------

    def _bodies(self, q, v):
        """All bodies with mass, with Jacobians of their centres of mass in world axes."""
        q, v = np.asarray(q, self.precision), np.asarray(v, self.precision)
        frames = {self.robot.links[0].name: self._root(q, v)}
        found = []
        root = self.links[self.robot.links[0].name]
        if self.base and root.mass and self.robot.base != "planar":
            found.append(self._body(root, frames[root.name]))
        for joint in self._ordered():
            frames[joint.child] = self._moved_by(joint, frames[self.parents[joint.child]], q, v)
            link = self.links[joint.child]
            ignored = self.mistake == "fixed links without mass" and joint.kind == "fixed"
            if self.mistake == "a root needs inertia" and not root.mass:
                link = replace(link, mass=np.nan)
            if link.mass and not ignored:
                found.append(self._body(link, frames[joint.child]))
        return found

    def _ordered(self):
        done, left, out = {self.robot.links[0].name}, list(self.joints), []
        while left:
            joint = next(j for j in left if self.parents[j.child] in done)
            left.remove(joint)
            done.add(joint.child)
            out.append(joint)
        return out

    def _root(self, q, v):
        zero = np.zeros((3, self.n), self.precision)
        frame = _Frame(
            np.eye(3, dtype=self.precision), np.zeros(3, self.precision), zero, zero, zero, zero, v
        )
        if self.robot.base != "floating":
            return frame
        turn = np.roll(q[3:7], 1 if self.mistake == "quaternion misread" else 0)
        R = _rotation(turn).astype(self.precision)
        Jw, Jv, Jw_dot, Jv_dot = (zero.copy() for _ in range(4))
        if self.mistake == "base velocity in world axes":
            Jw[:, :3] = Jv[:, 3:6] = np.eye(3)
        else:
            Jw[:, :3], Jv[:, 3:6] = R, R
            spin = _cross(R @ v[:3]) @ R
            Jw_dot[:, :3], Jv_dot[:, 3:6] = spin, spin
        return _Frame(R, q[:3], Jw, Jv, Jw_dot, Jv_dot, v)

    def _moved_by(self, joint, above, q, v):
        if self.mistake == "slides refused" and joint.kind == "prismatic":
            raise NotImplementedError("no slides")
        one = self.precision
        rpy = (0.0, 0.0, 0.0) if self._drops_turn(joint) else joint.rpy
        R = above.R @ _rpy(rpy).astype(one)
        frame = above.at(above.R @ np.array(joint.xyz, one), R)
        if joint.kind == "fixed":
            return frame
        if joint.kind == "planar":
            return self._planar(q, v)
        leader, ratio, offset = joint.mimic or (joint.name, 1.0, 0.0)
        if self.mistake == "mimic without ratio" and joint.mimic:
            ratio = 1.0
        if self.mistake == "mimic without offset" and joint.mimic:
            offset = 0.0
        at = self.names.index(leader)
        shift = {"fixed": 0, "planar": 3, "floating": 7}[self.robot.base]
        value = one(ratio) * q[shift + at] + one(offset)
        return frame.along(
            self._axis(joint, above, R), joint.kind, value, self.base + at, ratio, self.mistake
        )

    def _drops_turn(self, joint):
        return self.mistake == "origins without turn" or (
            self.mistake == "fixed joints without turn" and joint.kind == "fixed"
        )

    def _axis(self, joint, above, R):
        axis = np.array(joint.axis, self.precision)
        if self.mistake != "axis not normalized":
            axis = axis / np.linalg.norm(axis)
        if self.mistake == "axis without sign":
            axis = np.abs(axis)
        if self.mistake == "axis snapped":
            axis = (np.abs(axis) == np.max(np.abs(axis))) * np.sign(axis)
        if self.mistake == "axis in parent's axes":
            return above.R @ axis
        if self.mistake == "slide not turned" and joint.kind == "prismatic":
            return axis
        return R @ axis

    def _planar(self, q, v):
        c, s = np.cos(q[2]), np.sin(q[2])
        R = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], self.precision)
        Jw, Jv, Jw_dot, Jv_dot = (np.zeros((3, self.n), self.precision) for _ in range(4))
        Jw[2, 0], Jv[:, 1:3] = 1.0, R[:, :2]
        Jv_dot[:, 1:3] = (_cross(np.array([0.0, 0.0, v[0]])) @ R)[:, :2]
        return _Frame(R, np.array([q[0], q[1], 0.0], self.precision), Jw, Jv, Jw_dot, Jv_dot, v)

    def _body(self, link, frame):
        one = self.precision
        com = np.array(link.com, one)
        if self.mistake == "centre of mass at the frame" and link is self.links.get("base"):
            com = 0.0 * com
        xx, yy, zz, xy, xz, yz = link.inertia
        if self.mistake == "no products of inertia":
            xy = xz = yz = 0.0
        if self.mistake == "products with other sign":
            xy, xz, yz = -xy, -xz, -yz
        I = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], one)  # noqa: E741
        turn = {"inertia not turned": (0, 0, 0), "inertia turned back": None, "inertia turned by ypr": None}
        rpy = turn.get(self.mistake, link.rpy)
        A = _rpy(link.rpy if rpy is None else rpy).astype(one)
        if self.mistake == "inertia turned back":
            A = A.T
        if self.mistake == "inertia turned by ypr":
            A = _rpy(link.rpy[::-1]).astype(one)
        I = A @ I @ A.T  # noqa: E741
        if self.mistake == "inertia about the frame":  # taken for that about the centre of mass
            I = I + one(link.mass) * ((com @ com) * np.eye(3, dtype=one) - np.outer(com, com))  # noqa: E741
        moved = frame.at(frame.R @ com, frame.R)
        return _Body(one(link.mass), frame.R @ I @ frame.R.T, moved)


class _Frame:
    """A frame with Jacobians of its angular velocity and of its origin, and their rates."""

    def __init__(self, R, p, Jw, Jv, Jw_dot, Jv_dot, v):
        self.R, self.p, self.Jw, self.Jv, self.Jw_dot, self.Jv_dot, self.v = R, p, Jw, Jv, Jw_dot, Jv_dot, v

    def at(self, arm, R):
        """The frame at an arm (world axes), with axes R, that turns with this one."""
        omega, one = self.Jw @ self.v, self.p.dtype
        arm_rate = _cross(omega) @ (arm)
        return _Frame(
            R,
            self.p + arm,
            self.Jw,
            self.Jv - (_cross(arm) @ self.Jw).astype(one),
            self.Jw_dot,
            self.Jv_dot - (_cross(arm_rate) @ self.Jw + _cross(arm) @ self.Jw_dot).astype(one),
            self.v,
        )

    def along(self, axis, kind, value, column, ratio, mistake):
        """The frame behind a joint whose axis (world axes) this frame carries."""
        one = self.p.dtype
        axis = axis.astype(one)
        rate = _cross(self.Jw @ self.v) @ (axis)
        if mistake == "axis at rest":
            rate = 0.0 * rate
        if kind == "prismatic":
            there = self.at((axis * value).astype(one), self.R)
            Jv, Jv_dot = there.Jv.copy(), there.Jv_dot.copy()
            Jv[:, column] += ratio * axis
            Jv_dot[:, column] += ratio * rate
            # the arm grows by axis * ratio * v: its own part in the rate of the arm's Jacobian
            growth = _cross(axis * (ratio * self.v[column]))
            Jv_dot -= (growth @ self.Jw).astype(one)
            return _Frame(self.R, there.p, self.Jw, Jv, self.Jw_dot, Jv_dot, self.v)
        Jw, Jw_dot = self.Jw.copy(), self.Jw_dot.copy()
        Jw[:, column] += ratio * axis
        Jw_dot[:, column] += ratio * rate
        R = (_about(axis, value) @ self.R).astype(one)
        return _Frame(R, self.p, Jw, self.Jv, Jw_dot, self.Jv_dot, self.v)


class _Body:
    """A body's mass, inertia in world axes, Jacobians, and what they give at the velocity."""

    def __init__(self, mass, inertia, frame):
        self.mass, self.inertia, self.R = mass, inertia, frame.R
        self.Jw, self.Jv, self.Jw_dot, self.Jv_dot = frame.Jw, frame.Jv, frame.Jw_dot, frame.Jv_dot
        self.omega = self.Jw @ frame.v
        self.a, self.alpha = self.Jv_dot @ frame.v, self.Jw_dot @ frame.v


def _cross(w):
    return np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])


def _rotation(q):
    x, y, z, w = q
    u = _cross([x, y, z])
    return np.eye(3) + 2 * w * u + 2 * u @ u


def _about(axis, angle):
    """The rotation; an axis of another length turns further, as the exponential of axis times angle."""
    u, size = _cross(axis), float(np.linalg.norm(axis))
    a = size * float(angle)
    return np.eye(3) + np.sin(a) / size * u + (1 - np.cos(a)) / size**2 * u @ u


@cache
def _rpy(rpy):
    turns = [_about(e, a) for e, a in zip(np.eye(3), rpy, strict=True)]
    return turns[2] @ turns[1] @ turns[0]
