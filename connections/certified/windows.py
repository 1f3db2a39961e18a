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
from connections.multibody.joints import Free
from connections.multibody.joints.limits import Limits

_GROUP = 2  # joints


def windows(postures: Postures) -> Iterator[list[tuple[Quantities, np.ndarray]]]:
    """Parts whose H^-1 bounds the block of a group of a chain, and the rows of the group in them, by groups.

    Nothing comes of a tree, of a base that floats or of a chain that is no longer than a part.
    """
    tree = postures.kinematics.tree
    count = len(tree.parents)
    if (tree.parents != np.arange(-1, count - 1)).any() or postures.robot.kinematics.quaternions:
        return
    last = count
    while last > 0 and count > _GROUP + 1:
        first = max(last - _GROUP, 0)
        inner = first - 1 if first else -1
        ends = dict.fromkeys([(inner, last), (max(inner - 1, -1), last), (inner, min(last + 1, count))])
        yield [_window(postures, base, first, last, end) for base, end in ends]
        last = first


def _window(postures: Postures, base: int, first: int, last: int, end: int) -> tuple[Quantities, np.ndarray]:
    """Bodies base, ..., end - 1, the first of them on a free joint, from the ground if base is -1.

    The rows are those of the joints first, ..., last - 1.
    """
    kinematics = postures.kinematics
    tree, starts = kinematics.tree, kinematics.v_starts
    bodies = slice(max(base, 0), end)
    free = [] if base < 0 else [Free()]
    joints = (*free, *tree.joints[bodies][len(free) :])
    own = tree.armature[starts[bodies.start + len(free)] : starts[end]]
    places = [np.array(tree.quaternions[bodies]), np.array(tree.positions[bodies])]
    if free:
        places[0][0], places[1][0] = (0.0, 0.0, 0.0, 1.0), 0.0
    part = Tree(
        body_names=tree.body_names[bodies],
        joint_names=tree.joint_names[bodies],
        joints=joints,
        links=tree.links[bodies],
        parents=np.arange(-1, len(joints) - 1),
        quaternions=places[0],
        positions=places[1],
        inertias=tree.inertias[bodies],
        placements={},
        limits=(*[Limits().for_joint("base", joint) for joint in free], *tree.limits[bodies][len(free) :]),
        armature=np.concatenate([np.zeros(6 * len(free)), own]),
        actuated=tree.actuated[bodies],
    )
    model = Model.of(Kinematics(part))
    limits = {}
    for name in model.joint_names[len(free) :]:
        at = postures.robot.configuration_slice(name)
        of = (postures.places >= at.start) & (postures.places < at.stop)
        limits[name] = postures.lower[of], postures.upper[of]
    before = 6 * len(free) - int(starts[bodies.start + len(free)])
    return Quantities(Postures.of(model, limits)), np.arange(starts[first], starts[last]) + before
