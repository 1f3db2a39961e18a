"""H and g of trees of hinges and slides, on a neutral base or on the ground, in sixty digits, by Jacobians.

Derivatives are central differences, whose error is 1e-38. Nothing is shared with the library but the numbers
of the model.
"""

import itertools

import mpmath as mp

DIGITS, STEP = 60, "1e-20"


def exact(robot, q):
    """H (n, n), g (n, 1) and the positions {body: (3, 1)} at q, numbers of any kind, (nq,)."""
    mp.mp.dps = DIGITS
    tree = robot.kinematics.tree
    free_fall = mp.matrix([mp.mpf(x) for x in robot.gravity])
    poses, columns = {}, {}
    H, g = mp.zeros(robot.nv), mp.zeros(robot.nv, 1)
    for body in range(len(tree.parents)):
        parent = int(tree.parents[body])
        pose = poses.get(parent, mp.eye(4)) * mp.matrix(robot.kinematics.placements[body].tolist())
        own = dict(columns.get(parent, {}))
        for element in robot.kinematics.chains[body]:
            for number, column in enumerate(element.joint.motion.T.tolist()):
                turns = any(column[:3])
                z = pose[:3, :3] * mp.matrix(column[:3] if turns else column[3:])
                own[element.v.start + number] = turns, z, pose[:3, 3]
            if element.joint.quaternion is None:  # others are neutral
                pose = pose * _moved(element.joint.motion[:, 0].tolist(), mp.mpf(q[element.q.start]))
        poses[body], columns[body] = pose, own
        inertia, R = mp.matrix(tree.inertias[body].tolist()), pose[:3, :3]
        twists = {at: _twist(R, pose[:3, 3], *column) for at, column in own.items()}
        momenta = {at: inertia * twist for at, twist in twists.items()}
        falling = mp.matrix([0, 0, 0, *(R.T * free_fall)])
        for row in twists:
            g[row] -= (momenta[row].T * falling)[0]
        for row, column in itertools.product(twists, repeat=2):
            H[row, column] += (twists[row].T * momenta[column])[0]
    for k in range(robot.nv):
        H[k, k] += mp.mpf(float(tree.armature[k]))
    return H, g, {body: pose[:3, 3] for body, pose in poses.items()}


def slopes(robot, q, places):
    """Derivatives of H and of g along the coordinates at places in q: lists of (n, n) and (n, 1)."""
    mp.mp.dps = DIGITS
    h, found = mp.mpf(STEP), ([], [])
    for place in places:
        ends = []
        for sign in (1, -1):
            moved = [mp.mpf(x) for x in q]
            moved[place] += sign * h
            ends.append(exact(robot, moved))
        for slope, one, other in zip(found, *ends, strict=False):  # without positions
            slope.append((one - other) / (2 * h))
    return found


def _twist(R, p, turns, z, origin):
    """[omega; v] in body axes of a body at p, as a joint with the axis z through an origin moves it."""
    if not turns:
        return mp.matrix([0, 0, 0, *(R.T * z)])
    r = p - origin
    u = mp.matrix([z[1] * r[2] - z[2] * r[1], z[2] * r[0] - z[0] * r[2], z[0] * r[1] - z[1] * r[0]])
    return mp.matrix([*(R.T * z), *(R.T * u)])


def _moved(column, angle):
    """The pose (4, 4) of the child of a hinge or a slide."""
    move, turns = mp.eye(4), any(column[:3])
    z = mp.matrix(column[:3] if turns else column[3:])
    K = mp.matrix([[0, -z[2], z[1]], [z[2], 0, -z[0]], [-z[1], z[0], 0]])
    R = mp.eye(3) + mp.sin(angle) * K + (1 - mp.cos(angle)) * K * K
    for i in range(3):
        move[i, 3] = mp.mpf(0) if turns else angle * z[i]
        for j in range(3) if turns else ():
            move[i, j] = R[i, j]
    return move
