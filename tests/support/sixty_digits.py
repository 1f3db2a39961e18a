"""Closed loops with 60 digits: q_s, G and its derivative LG, from the conditions alone (mpmath).

The conditions are evaluated at poses of the spanning tree, and differentiated by central differences, whose
error is 1e-50. Nothing is shared with the library but the numbers of the model.
"""

import mpmath as mp
import numpy as np

from connections.multibody.clusters import DIRECTION, DISTANCE, POSITION

DIGITS, STEP = 100, "1e-30"


class Closure:
    """The loops of a model without couplings and functions, near a solution.

    Parameters
    ----------
    model : a model with joints that are made of single, spherical and free ones.
    """

    def __init__(self, model):
        mp.mp.dps = DIGITS
        kinematics = model.kinematics
        self.spanning, self.rows = kinematics.spanning, kinematics.rows
        tree = self.spanning.tree
        self.placements = [
            _pose(_rotation([mp.mpf(x) for x in q.tolist()]), [mp.mpf(x) for x in p.tolist()])
            for q, p in zip(tree.quaternions, tree.positions, strict=True)
        ]
        independent = kinematics.clusters.independent[self.spanning.body_of]
        self.i, self.d = np.flatnonzero(independent), np.flatnonzero(~independent)
        self.count = self.spanning.nv

    def solution(self, q_s):
        """(q_s, G, LG) as float64, with the independent coordinates of q_s (nq_s,), near it."""
        q = self.closed([mp.mpf(float(x)) for x in q_s])
        G, h = self.G(q), mp.mpf("1e-25")
        LG = np.empty((self.count, len(self.i), len(self.i)))
        for j in range(len(self.i)):
            step = [h * G[r, j] for r in range(self.count)]
            plus, minus = (self.G(self.closed(self.moved(q, [s * x for x in step]))) for s in (1, -1))
            LG[:, j] = np.array(((plus - minus) / (2 * h)).tolist(), float)
        return np.array(q, float), np.array(G.tolist(), float), LG

    def closed(self, q):
        """The configuration with the same independent coordinates that closes the loops, by Newton."""
        for _ in range(12):
            phi, K = self.conditions(q), self.derivative(q)
            z = _least(self._columns(K, self.d), -phi)
            step = [mp.mpf(0)] * self.count
            for k, column in enumerate(self.d):
                step[column] = z[k]
            q = self.moved(q, step)
            if mp.norm(z) < mp.mpf("1e-55"):
                return q
        raise AssertionError("Newton's method has not converged")

    def G(self, q):
        """G (nv_s, nv) at q."""
        K = self.derivative(q)
        solved = _least(self._columns(K, self.d), -self._columns(K, self.i))
        G = mp.matrix(self.count, len(self.i))
        for k, column in enumerate(self.i):
            G[int(column), k] = mp.mpf(1)
        for k, column in enumerate(self.d):
            G[int(column), :] = solved[k, :]
        return G

    def derivative(self, q):
        """K (p, nv_s), the derivatives of the conditions along the velocities."""
        K, h = mp.matrix(len(self.rows.kinds), self.count), mp.mpf(STEP)
        for column in range(self.count):
            step = [mp.mpf(0)] * self.count
            step[column] = h
            plus = self.conditions(self.moved(q, step))
            step[column] = -h
            K[:, column] = (plus - self.conditions(self.moved(q, step))) / (2 * h)
        return K

    def conditions(self, q):
        """phi (p,)."""
        poses, rows, phi = self.poses(q), self.rows, mp.matrix(len(self.rows.kinds), 1)
        for r, kind in enumerate(rows.kinds):
            A, B = poses[rows.bodies_a[r]], poses[rows.bodies_b[r]]
            apart = _point(B, rows.points_b[r]) - _point(A, rows.points_a[r])
            u, w = A[:3, :3] * mp.matrix(rows.u[r].tolist()), B[:3, :3] * mp.matrix(rows.w[r].tolist())
            if kind == POSITION:
                value = _dot(u, apart) - mp.mpf(rows.constants[r])
            elif kind == DISTANCE:
                value = (_dot(apart, apart) - mp.mpf(rows.constants[r])) / 2
            else:
                assert kind == DIRECTION
                value = _dot(u, w) - mp.mpf(rows.constants[r])
            phi[r] = value * mp.mpf(rows.scales[r])
        return phi

    def poses(self, q):
        """The poses of all bodies, those of the ground last."""
        poses = []
        for body, joint in enumerate(self.spanning.joints):
            parent = self.spanning.tree.parents[body]
            pose = (poses[parent] if parent >= 0 else mp.eye(4)) * self.placements[body]
            at = self.spanning.q_starts[body]
            for element in joint.chain:
                pose = pose * _of_element(element, q[at : at + element.nq])
                at += element.nq
            poses.append(pose)
        return [*poses, mp.eye(4)]

    def moved(self, q, step):
        """q after a small step of the velocities."""
        q, v = list(q), 0
        for body, joint in enumerate(self.spanning.joints):
            at = self.spanning.q_starts[body]
            for element in joint.chain:
                if element.quaternion is None:
                    q[at] += step[v]
                else:
                    if element.nq == 7:
                        R = _rotation(q[at + 3 : at + 7])
                        slid = R * mp.matrix(step[v + 3 : v + 6])
                        q[at : at + 3] = [q[at + k] + slid[k] for k in range(3)]
                    place = at + element.quaternion
                    q[place : place + 4] = _turned(q[place : place + 4], step[v : v + 3])
                at, v = at + element.nq, v + element.nv
        return q

    def _columns(self, K, columns):
        part = mp.matrix(K.rows, len(columns))
        for k, column in enumerate(columns):
            part[:, k] = K[:, int(column)]
        return part


def _least(A, b):
    """The minimizer of |A x - b|, by the normal equations."""
    return mp.lu_solve(A.T * A, A.T * b) if b.cols == 1 else mp.inverse(A.T * A) * (A.T * b)


def _of_element(element, q):
    """The pose of the child of an elementary joint in its joint frame."""
    if element.quaternion is not None:
        return _pose(_rotation(q[element.quaternion :]), q[:3] if element.nq == 7 else [0, 0, 0])
    motion = [mp.mpf(float(x)) for x in element.motion[:, 0]]
    w, u = motion[:3], motion[3:]
    if element.turns[0]:
        half = q[0] / 2
        size = mp.sqrt(sum(x * x for x in w))
        R = _rotation([*(x / size * mp.sin(half * size) for x in w), mp.cos(half * size)])
        return _pose(R, [0, 0, 0])
    return _pose(mp.eye(3), [x * q[0] for x in u])


def _pose(R, p):
    pose = mp.eye(4)
    for i in range(3):
        pose[i, 3] = p[i]
        for k in range(3):
            pose[i, k] = R[i, k]
    return pose


def _rotation(q):
    """The rotation of a quaternion (x, y, z, w) of any length."""
    x, y, z, w = q
    n = x * x + y * y + z * z + w * w
    return mp.matrix(
        [
            [1 - 2 * (y * y + z * z) / n, 2 * (x * y - z * w) / n, 2 * (x * z + y * w) / n],
            [2 * (x * y + z * w) / n, 1 - 2 * (x * x + z * z) / n, 2 * (y * z - x * w) / n],
            [2 * (x * z - y * w) / n, 2 * (y * z + x * w) / n, 1 - 2 * (x * x + y * y) / n],
        ]
    )


def _turned(q, v):
    """q (v / 2, 1), scaled to length one."""
    a, b, c = (x / 2 for x in v)
    x, y, z, w = q
    product = [x + w * a + y * c - z * b, y + w * b + z * a - x * c, z + w * c + x * b - y * a]
    product.append(w - x * a - y * b - z * c)
    norm = mp.sqrt(sum(p * p for p in product))
    return [p / norm for p in product]


def _point(pose, p):
    return pose[:3, :3] * mp.matrix(p.tolist()) + pose[:3, 3]


def _dot(x, y):
    return (x.T * y)[0]
