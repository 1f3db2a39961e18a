"""Characteristic lengths of closed chains, so that results do not depend on the unit of length.

Each cluster has a characteristic length, its size. Angles are measured in rad, lengths in the size of their
cluster, and a condition is scaled such that it changes by about 1 if the joints move by 1 in these units.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from connections.multibody.definition.host_kinematics import is_length
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.graph import Tree
from connections.multibody.loops.closures import Coupling, Distance, Loop
from connections.multibody.loops.condition_rows import ends_of, tied_by_coupling, tied_by_loop


def cluster_sizes(
    tree: Tree, of_body: np.ndarray, loops: Sequence[Loop], couplings: Sequence[Coupling]
) -> np.ndarray:
    """The characteristic length of each cluster, (M,), m: the longest length in its geometry.

    Lengths are the distances from joint to joint and from a joint to an end of a loop, measured from where
    the cluster is mounted, pitches, and the lengths of rods. If all are zero, it is the displacement that a
    coupling assigns to a turn of 1 rad. If there is no such coupling either, the cluster has no length, and
    its size is 1 m.
    """
    found: list[list[float]] = [[0.0] for _ in range(int(of_body.max()) + 1)]
    mounts: dict[tuple[int, int], np.ndarray] = {}  # (cluster, carrier) -> the first joint there
    for body, joint in enumerate(tree.joints):
        cluster, parent, position = int(of_body[body]), int(tree.parents[body]), tree.positions[body]
        if parent < 0 or of_body[parent] != cluster:
            position = position - mounts.setdefault((cluster, parent), position)
        pitches = [element.pitch_of_link for element in joint.chain]
        found[cluster] += [float(np.linalg.norm(position)), *map(abs, pitches)]
    for loop in loops:
        cluster = int(of_body[tied_by_loop(tree, loop)[0]])
        for body, frame in ends_of(tree, loop):
            inside = body >= 0 and of_body[body] == cluster
            origin = np.zeros(3) if inside else mounts.get((cluster, body), frame[:3, 3])
            found[cluster].append(float(np.linalg.norm(frame[:3, 3] - origin)))
        found[cluster].append(loop.closure.length if isinstance(loop.closure, Distance) else 0.0)
    sizes = np.array([max(lengths) for lengths in found])
    return np.where(sizes > 0.0, sizes, _ratios(tree, of_body, couplings))


def _ratios(tree: Tree, of_body: np.ndarray, couplings: Sequence[Coupling]) -> np.ndarray:
    """The longest displacement, m, that a coupling assigns to 1 rad, by cluster, (M,); 1 m if none does."""
    ratios = np.zeros(int(of_body.max()) + 1)
    for coupling in couplings:
        bodies = tied_by_coupling(tree, coupling)
        if coupling.function is None:
            slides = is_length([tree.joints[body] for body in bodies])
            numbers = np.abs(coupling.coefficients)
            if slides.any() and not slides.all():
                ratio = numbers[~slides].max() / numbers[slides].max()
                ratios[of_body[bodies[0]]] = max(ratios[of_body[bodies[0]]], ratio)
    return np.where(ratios > 0.0, ratios, 1.0)


def coordinate_units(kinematics: Kinematics, of_body: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The unit of each spanning coordinate, (nq,): its cluster's size for a length, otherwise 1."""
    of_coordinate = np.repeat(of_body, np.diff(kinematics.q_starts))
    return np.where(is_length(kinematics.joints), sizes[of_coordinate], 1.0)


def velocity_units(kinematics: Kinematics, of_body: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The unit of each spanning velocity, (nv,): 1 if it turns a body, otherwise its cluster's size."""
    turning = np.concatenate([element.joint.turns for element in kinematics.elements])
    return np.where(turning, 1.0, sizes[of_body[kinematics.body_of]])
