"""Parts of a chain by which the smallest eigenvalue of H is bounded: groups of joints with few coordinates.

Let G be some of the components of v. Then 1 / (u^T (H^-1)_GG u) is the least energy v^T H v of all v with
v_G in the direction u. It does not grow if bodies are left out, or if a body that carries the group is set
free, so that what is before it does not matter: (H^-1)_GG is at most that block of the part's own H^-1. A
part of two joints and the body that carries them, on a free joint, depends on two coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from connections.certified.postures import Postures
from connections.certified.quantities import Quantities
from connections.multibody import Model
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.graph import Tree
from connections.multibody.joints import Free, Joint
from connections.multibody.joints.limits import Limits

_GROUP = 2  # joints


def windows(postures: Postures) -> Iterator[list[tuple[Quantities, np.ndarray]]]:
    """Parts whose H^-1 bounds the block of a group of joints, and the rows of the group in them, by groups.

    The groups are paths of at most two bodies, which have all joints together; there are none of robots that
    are no larger than a part.
    """
    parents = [int(parent) for parent in postures.kinematics.tree.parents]
    left = set(range(len(parents))) if len(parents) > _GROUP + 1 else set()
    while left:
        group = [max(left)]
        while len(group) < _GROUP and parents[group[0]] in left and parents[parents[group[0]]] >= 0:
            group.insert(0, parents[group[0]])
        left -= set(group)
        carrying = [body for body in (parents[group[0]],) if body >= 0]
        before = [parents[body] for body in carrying if parents[body] >= 0]
        behind = [body for body, parent in enumerate(parents) if parent == group[-1]]
        paths = {(*carrying, *group): bool(carrying), (*before, *carrying, *group): bool(before)}
        if len(behind) == 1:
            paths[(*carrying, *group, *behind)] = bool(carrying)
        yield [_window(postures, path, free, group) for path, free in paths.items()]


def _window(
    postures: Postures, path: tuple[int, ...], free: bool, group: list[int]
) -> tuple[Quantities, np.ndarray]:
    """A path of bodies, the first of them on a free joint or on its own, and the rows of a group in it."""
    kinematics = postures.kinematics
    tree, bodies = kinematics.tree, list(path)
    joints: list[Joint] = [tree.joints[body] for body in bodies]
    armature = [tree.armature[kinematics.v_starts[body] : kinematics.v_starts[body + 1]] for body in bodies]
    quaternions, positions = np.array(tree.quaternions[bodies]), np.array(tree.positions[bodies])
    if free:
        joints[0], armature[0] = Free(), np.zeros(6)
        quaternions[0], positions[0] = (0.0, 0.0, 0.0, 1.0), 0.0
    names = tuple(tree.joint_names[body] for body in bodies)
    part = Tree(
        body_names=tuple(tree.body_names[body] for body in bodies),
        joint_names=names,
        joints=tuple(joints),
        links=tuple(tree.links[body] for body in bodies),
        parents=np.arange(-1, len(bodies) - 1),
        quaternions=quaternions,
        positions=positions,
        inertias=tree.inertias[bodies],
        placements={},
        limits=tuple(Limits().for_joint(*pair) for pair in zip(names, joints, strict=True)),
        armature=np.concatenate(armature),
        actuated=tree.actuated[bodies],
    )
    model = Model.of(Kinematics(part))
    limits = {}
    for name, joint in zip(names, joints, strict=True):
        if joint.chain[0].quaternion is None:
            at = postures.robot.configuration_slice(name)
            of = (postures.places >= at.start) & (postures.places < at.stop)
            limits[name] = postures.lower[of], postures.upper[of]
    rows = [
        np.arange(*model.kinematics.v_starts[[k, k + 1]]) for k, body in enumerate(bodies) if body in group
    ]
    return Quantities(Postures.of(model, limits)), np.concatenate(rows)
