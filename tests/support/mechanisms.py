"""Random mechanisms from a seed: every joint type, in any order, about any axis, at any placement.

A mechanism has several trees hung from the world, bodies without mass between others, joints whose frames
coincide, and links behind fixed joints. Beside it: the frame of its velocities in NumPy, for differences and
integration along a motion.
"""

from __future__ import annotations

import numpy as np
from oracles import EPSILON
from scipy.spatial.transform import Rotation

from connections import multibody as mb

MOVING = (
    mb.Revolute,
    mb.Prismatic,
    mb.Helical,
    mb.Cylindrical,
    mb.Planar,
    mb.Spherical,
    mb.Universal,
    mb.Free,
)

#: Joints with qdot != v.
QUATERNION = (mb.Spherical, mb.Free)

# A body without mass is legal where its joint and the next one move the next body in independent directions.
_SINGLE = (mb.Revolute, mb.Prismatic, mb.Helical)
_AFTER_MASSLESS = (*_SINGLE, mb.Cylindrical, mb.Universal)


def random_joint(rng, kind):
    """A joint of this class with random axes (two of them at 40 degrees or more)."""
    axis = rng.standard_normal(3)
    if kind is mb.Helical:
        return mb.Helical(axis, rng.uniform(-0.3, 0.3))
    if kind is mb.Universal:
        other = rng.standard_normal(3)
        while abs(axis @ other) > 0.75 * np.linalg.norm(axis) * np.linalg.norm(other):
            other = rng.standard_normal(3)
        return mb.Universal(axis, other)
    return kind(axis) if kind in (mb.Revolute, mb.Prismatic, mb.Cylindrical) else kind()


def random_placement(rng, length=0.3):
    """A rigid transform (4, 4): any rotation, a position of this size in m."""
    placement = np.eye(4)
    placement[:3, :3] = Rotation.random(rng=rng).as_matrix()
    placement[:3, 3] = length * rng.standard_normal(3)
    return placement


def random_body(rng):
    """Mass, centre of mass and inertia of a cloud of six points."""
    masses, points = rng.uniform(0.1, 0.5, 6), 0.3 * rng.standard_normal((6, 3))
    mass = masses.sum()
    center = masses @ points / mass
    arms = points - center
    inertia = np.einsum("n,na,nb->ab", masses, arms, arms)
    return {
        "mass": mass,
        "center_of_mass": center,
        "inertia": np.trace(inertia) * np.eye(3) - inertia,
    }


NO_BODY = {"mass": 0.0, "center_of_mass": np.zeros(3), "inertia": np.zeros((3, 3))}


def extend(
    mechanism, rng, kinds, parents, *, name="body", root="world", shift=0.0, massless=0.0, coincident=0.0
):
    """Add bodies `name` 0, 1, ... to a mechanism, with joints of the classes `kinds`; returns their names.

    Parameters
    ----------
    parents : numbers among these bodies; -1 for the body `root`.
    shift : (3,) m, added to the placements of joints under `root`.
    massless, coincident : probabilities that a body that may be without mass is, and that a joint frame
        coincides with the frame of its parent body.
    """
    names, bare = [f"{name} {body}" for body in range(len(kinds))], False
    for body, (kind, parent) in enumerate(zip(kinds, parents, strict=True)):
        followed = body + 1 < len(kinds) and parents[body + 1] == body and kinds[body + 1] in _AFTER_MASSLESS
        bare = kind in _SINGLE and followed and not bare and rng.random() < massless
        placement = np.eye(4) if rng.random() < coincident else random_placement(rng)
        if parent < 0:
            placement[:3, 3] += shift
        mechanism.add_body(names[body], **(NO_BODY if bare else random_body(rng)))
        above = root if parent < 0 else names[parent]
        mechanism.add_joint(f"to {names[body]}", above, names[body], random_joint(rng, kind), placement)
    return names


def assemble(rng, kinds, parents, *, gravity=(0.0, 0.0, -9.81), **options):
    """The model of bodies with joints of the classes `kinds` under `parents` (-1: the world)."""
    mechanism = mb.Mechanism()
    extend(mechanism, rng, kinds, parents, **options)
    return mechanism.build(gravity=gravity)


def random_mechanism(rng, bodies, joint_classes, branching=0.3, *, trees=1, **options):
    """A model of `bodies` links; joint classes are drawn in shuffled rounds, so that all of them occur.

    Parameters
    ----------
    branching : probability that a body hangs from any earlier one instead of the last.
    trees : the number of bodies that hang from the world.
    options : as in `extend` and `assemble`.
    """
    rounds = -(-bodies // len(joint_classes))
    kinds = [kind for _ in range(rounds) for kind in rng.permutation(np.array(joint_classes))][:bodies]
    parents = [
        int(rng.integers(0, body)) if body and rng.random() < branching else body - 1
        for body in range(bodies)
    ]
    for root in rng.choice(np.arange(1, bodies), trees - 1, replace=False) if trees > 1 else ():
        parents[root] = -1
    return assemble(rng, kinds, parents, **options)


def armed(model, rng, share=0.6):
    """The model with random armature on this share of its joints; on a free joint, one for each kind."""
    tree, chosen = model.kinematics.tree, {}
    for name, joint in zip(tree.joint_names, tree.joints, strict=True):
        if rng.random() < share:
            parts = {mb.Spherical: 1, mb.Free: 2}.get(type(joint), joint.nv)
            chosen[name] = np.repeat(rng.uniform(0.1, 1.0, parts), joint.nv // parts)
    return model.with_armature(chosen)


def every_ordered_pair(kinds):
    """A closed walk (len(kinds)**2 + 1,) in which each ordered pair of kinds stands once side by side."""
    left = {kind: list(kinds) for kind in kinds}
    stack, walk = [kinds[0]], []
    while stack:  # Hierholzer's algorithm on the complete digraph
        if left[stack[-1]]:
            stack.append(left[stack[-1]].pop())
        else:
            walk.append(stack.pop())
    return walk[::-1]


def mechanism_of_all_pairs(rng, kinds=MOVING, branch=8, **options):
    """A model in which every ordered pair (joint of the parent, joint of the child) of `kinds` occurs.

    The walk through all pairs is cut into branches of `branch` pairs, hung from the world and from earlier
    bodies.
    """
    walk, sequence, parents = every_ordered_pair(kinds), [], []
    for start in range(0, len(walk) - 1, branch):
        part = walk[start : start + branch + 1]
        above = int(rng.integers(-1, len(sequence)))
        parents.extend([above, *range(len(sequence), len(sequence) + len(part) - 1)])
        sequence.extend(part)
    return assemble(rng, sequence, parents, **options)


def pairs_of(model):
    """The ordered pairs (class of the parent's joint, class of the joint) that occur in a model."""
    tree = model.kinematics.tree
    return {
        (type(tree.joints[parent]), type(tree.joints[body]))
        for body, parent in enumerate(tree.parents)
        if parent >= 0
    }


def sample(model, rng, *batch):
    """Random q (..., nq) and v (..., nv)."""
    count = int(np.prod(batch, dtype=int))
    q = np.stack([model.random(rng) for _ in range(count)]).reshape(*batch, model.nq)
    return q, rng.standard_normal((*batch, model.nv))


# --- the frame of the velocities --------------------------------------------------------------------------


def _slices(model):
    """Per elementary joint of the independent joints: its class, its slice of q and its slice of v."""
    for joint, _, at_q, at_v in model.kinematics.elements:
        yield type(joint), at_q, at_v


def rotate(quaternion, u):
    """R(quaternion) u, batches; the quaternion is normalized first."""
    x = quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)
    t = 2.0 * np.cross(x[..., :3], u)
    return u + x[..., 3:] * t + np.cross(x[..., :3], t)


def multiply(a, b):
    """Hamilton's product of quaternions (x, y, z, w), batches."""
    vector = a[..., 3:] * b[..., :3] + b[..., 3:] * a[..., :3] + np.cross(a[..., :3], b[..., :3])
    scalar = a[..., 3:] * b[..., 3:] - np.sum(a[..., :3] * b[..., :3], axis=-1, keepdims=True)
    return np.concatenate([vector, scalar], axis=-1)


def configuration_rate(model, q, v):
    """qdot = X(q) v, (..., nq), joint by joint."""
    q_dot = np.zeros((*np.broadcast_shapes(q.shape[:-1], v.shape[:-1]), model.nq))
    for kind, at_q, at_v in _slices(model):
        x, u = q[..., at_q], v[..., at_v]
        if kind in QUATERNION:
            omega = np.concatenate([u[..., :3], np.zeros_like(u[..., :1])], axis=-1)
            rate = 0.5 * multiply(x[..., -4:], omega)
            u = rate if kind is mb.Spherical else np.concatenate([rotate(x[..., 3:], u[..., 3:]), rate], -1)
        q_dot[..., at_q] = u
    return q_dot


def normalized(model, q):
    """q with its quaternions scaled to unit norm."""
    q = q.copy()
    for kind, at_q, _ in _slices(model):
        if kind in QUATERNION:
            x = q[..., at_q][..., -4:]
            x /= np.linalg.norm(x, axis=-1, keepdims=True)
    return q


def move(model, q, xi):
    """A configuration on a smooth curve t -> move(q, t xi) that leaves q with velocity xi."""
    out = q + configuration_rate(model, q, xi)
    for kind, at_q, at_v in _slices(model):
        if kind in QUATERNION:
            angle = xi[..., at_v][..., :3]
            turn = Rotation.from_rotvec(angle.reshape(-1, 3)).as_quat().reshape(*angle.shape[:-1], 4)
            out[..., at_q][..., -4:] = multiply(q[..., at_q][..., -4:], turn)
    return out


def structure_functions(model):
    """s[k, i, j] of the frame, constant: [X_i, X_j] = X_i x X_j as twists for spherical and free joints."""
    s = np.zeros((model.nv,) * 3)
    for kind, _, at_v in _slices(model):
        if kind in QUATERNION:
            w = np.arange(at_v.start, at_v.start + 3)
            s[np.ix_(w, w, w)] = EPSILON
        if kind is mb.Free:
            s[np.ix_(w + 3, w, w + 3)] = s[np.ix_(w + 3, w + 3, w)] = EPSILON
    return s


_OFFSETS = np.array([-2.0, -1.0, 1.0, 2.0])
_WEIGHTS = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0


def derivative_along(model, f, q, v, h=1e-3):
    """d/dt f, (..., shape of f), along curves that leave q (nq,) with velocities v (..., nv); fourth order.

    Parameters
    ----------
    f : (..., nq) -> (..., shape of f).
    """
    points = move(model, q, h * np.multiply.outer(_OFFSETS, v))
    return np.tensordot(_WEIGHTS, f(points), axes=1) / h
