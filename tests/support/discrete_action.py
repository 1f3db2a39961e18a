"""The discrete action of a robot in NumPy, and its derivatives by differences."""

import numpy as np
from scipy.spatial.transform import Rotation

from connections import multibody as mb


def poses(model, q):
    """Of all bodies, (N, 4, 4), from their joints' poses in NumPy."""
    kinematics, found = model.kinematics, []
    for body, chain in enumerate(kinematics.chains):
        pose, parent = kinematics.placements[body], kinematics.tree.parents[body]
        for joint, _, at, _ in chain:
            pose = pose @ joint.pose(q[at])
        found.append(pose if parent < 0 else found[parent] @ pose)
    return np.array(found)


def hat(w):
    return np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])


def logarithm(T):
    """[omega; v] with p = V v, V = 1 + (1 - cos t) / t^2 W + (t - sin t) / t^3 W^2."""
    w = Rotation.from_matrix(T[:3, :3]).as_rotvec()
    t, W = np.linalg.norm(w) + 1e-300, hat(w)
    V = np.eye(3) + 2.0 * (np.sin(0.5 * t) / t) ** 2 * W + (t - np.sin(t)) / t**3 * W @ W
    return np.concatenate([w, np.linalg.solve(V, T[:3, 3])])


def inertias(model):
    """(N, 6, 6) about the bodies' origins."""
    found = []
    for m, x, y, z, a, b, d, c, e, f in mb.inertial_parameters(model):
        h, moment = hat([x, y, z]), [[a, b, c], [b, d, e], [c, e, f]]
        found.append(np.block([[np.array(moment), h], [h.T, m * np.eye(3)]]))
    return np.array(found)


def potential(model, q):
    """-sum m g . c."""
    first = [
        inertia[5, 5] * T[:3, 3] + T[:3, :3] @ inertia[[2, 0, 1], [4, 5, 3]]
        for inertia, T in zip(inertias(model), poses(model, q), strict=True)
    ]
    return -np.array(model.gravity) @ np.sum(first, axis=0)


def action(model, q0, q1, h):
    """(h/2) (sum V . I V + armature) - (h/2) (U_0 + U_1)."""
    total = -0.5 * h * (potential(model, q0) + potential(model, q1))
    for inertia, T0, T1 in zip(inertias(model), poses(model, q0), poses(model, q1), strict=True):
        V = logarithm(np.linalg.inv(T0) @ T1) / h
        total += 0.5 * h * V @ inertia @ V
    way = mb.difference(model, q0, q1) / h
    return total + 0.5 * h * way @ (model.kinematics.tree.armature * way)


def slopes(model, q0, q1, h, e=1e-5, action=action):
    """-D_1 and D_2 of an action along the frame fields, by differences."""
    found = []
    for sign, end in ((-1.0, 0), (1.0, 1)):
        moved = []
        for x in e * np.eye(model.nv):
            ends = [[q0, q1], [q0, q1]]
            ends[0][end], ends[1][end] = (mb.displace(model, (q0, q1)[end], way) for way in (x, -x))
            moved.append((action(model, *ends[0], h) - action(model, *ends[1], h)) / (2.0 * e))
        found.append(sign * np.array(moved))
    return found
