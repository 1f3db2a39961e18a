"""Whether H is positive definite: whether every velocity of a mechanism moves something that has inertia.

H = A^T diag(I_b) A, rotors that armature stands for among the bodies, is eliminated column by column, from
the last to the first, as in the recursions. A pivot is compared with the terms of its diagonal entry before
they cancel,

    s_k = sum_b (|omega_bk| sqrt(tr Ibar_b) + |u_bk| sqrt(m_b))^2,    [omega; u] = A.

s_k has the unit of the pivot, whatever the unit of the velocity, and the round-off of the pivot is small
relative to s_k. So a pivot above `SMALLEST_PIVOT` s_k is positive, below -`SMALLEST_PIVOT` s_k negative, and
in between unknown. When a model is built, the test is run at one configuration, and only if a body has an
inertia that is not positive semidefinite, because only then is H indefinite anywhere. Such inertias may pass
it and still make H indefinite at other configurations. A singular H is legal: what is computed with its
inverse is refused at the call.

H is block diagonal, a block for each tree that stands on the ground, and A is computed and eliminated block
by block: time and memory of a scene grow linearly with the number of its robots. Source: Featherstone, Rigid
Body Dynamics Algorithms, chapters 6 and 7.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from connections.checks import ModelError
from connections.multibody.definition.host_kinematics import body_motions, is_length
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.inertia import is_semidefinite
from connections.multibody.joints.groups import Free
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.program.closure_conditions import HostConditions
from connections.multibody.tolerances import SMALLEST_PIVOT


def require_semidefinite(kinematics: Kinematics | ClosedKinematics) -> None:
    """Raise `ModelError` naming the joint and body along which the inertia is negative.

    Parameters
    ----------
    kinematics : of a tree, tested at a random configuration with a fixed seed; or of closed chains, tested at
        their reference configuration.
    """
    if is_semidefinite(kinematics.tree.inertias):
        return
    if isinstance(kinematics, ClosedKinematics):
        found = irregular(*_reduced(kinematics))
    else:
        found = irregular(kinematics, _generic(kinematics))
    if found is None or not found[1]:
        return
    body, tree = kinematics.body_of[found[0]], kinematics.tree
    of_tree = f"joint '{tree.joint_names[body]}' moves body '{tree.body_names[body]}'"
    of_loops = f"the velocity of joint '{tree.joint_names[body]}' moves its cluster"
    what = of_loops if isinstance(kinematics, ClosedKinematics) else of_tree
    raise ModelError(
        f"{what} and what it carries in a direction of negative inertia: the mass matrix is indefinite"
    )


def remedy(kinematics: Kinematics | ClosedKinematics, column: int) -> str:
    """Advice for a model whose H is singular along a velocity component."""
    body, tree = kinematics.body_of[column], kinematics.tree
    joint, moved = tree.joint_names[body], tree.body_names[body]
    if isinstance(tree.joints[body], Free) and tree.parents[body] < 0 and not tree.inertias[body].any():
        return (
            f"'{moved}' has no mass: give it an inertia, or fix it to the ground"
            " (from a file, floating_base=False)"
        )
    return f"give '{moved}' an inertia, or write model.with_armature({{{joint!r}: 0.01}})"


def irregular(kinematics: Kinematics, q: np.ndarray, G: np.ndarray | None = None) -> tuple[int, bool] | None:
    """`first_irregular` of a tree at q (nq,); if G (nv, n) is given, for the velocities G v."""
    for start, motions in massive_motions(kinematics, q, G):
        found = first_irregular(*motions)
        if found is not None:
            return start + found[0], found[1]
    return None


def massive_motions(
    kinematics: Kinematics, q: np.ndarray, G: np.ndarray | None = None
) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """The first column of each block of H at q (nq,), from the last to the first, and its motions.

    The motions are the arguments of `first_irregular`, those of bodies and of rotors. If G (nv, n) is given,
    they are for the velocities G v, which may move all trees together: a single block.
    """
    if G is not None:
        yield 0, _motions(kinematics, q, G)
        return
    q_stop, v_stop = kinematics.nq, kinematics.nv
    for tree in reversed(kinematics.tree.standing):
        part = Kinematics(tree)
        at_q = slice(q_stop - part.nq, q_stop)
        q_stop, v_stop = at_q.start, v_stop - part.nv
        yield v_stop, _motions(part, q[at_q], None)


def _motions(
    kinematics: Kinematics, q: np.ndarray, G: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rotors = kinematics.rotors
    A, sizes = body_motions(kinematics, q, G)
    S, lengths = rotors.twists, np.linalg.norm(rotors.twists.reshape(-1, 2, 3, kinematics.nv), axis=2)
    if G is not None:
        S, lengths = S @ G, lengths @ np.abs(G)
    inertias = np.concatenate([kinematics.tree.inertias, rotors.inertias])
    return inertias, np.concatenate([A, S]), np.concatenate([sizes, lengths])


def induced_matrix(inertias: np.ndarray, A: np.ndarray) -> np.ndarray:
    """A^T diag(I_b) A, (nv, nv), of inertias (N, 6, 6) and twists (N, 6, nv)."""
    nv = A.shape[2]
    return np.asarray(A.reshape(-1, nv).T @ (inertias @ A).reshape(-1, nv))


def first_irregular(inertias: np.ndarray, A: np.ndarray, sizes: np.ndarray) -> tuple[int, bool] | None:
    """The first column, counted from the last, whose pivot is not positive, and whether it is negative.

    Parameters
    ----------
    inertias : (N, 6, 6) of the bodies.
    A : (N, 6, nv) twists of the bodies.
    sizes : (N, 2, nv) bounds of the terms in the angular and in the linear parts of A.

    Returns None if all pivots are positive.
    """
    H = induced_matrix(inertias, A)
    roots = np.sqrt(np.abs(np.einsum("naa->na", inertias[:, :3, :3])).sum(axis=1))
    energies = (sizes[:, 0] * roots[:, None] + sizes[:, 1] * np.sqrt(inertias[:, 5, 5])[:, None]) ** 2
    least = SMALLEST_PIVOT * energies.sum(axis=0)
    pivots = np.zeros(len(H))
    for column in reversed(range(len(H))):  # H = U diag(pivots) U^T; columns of U replace those of H
        after = slice(column + 1, None)
        H[: column + 1, column] -= H[: column + 1, after] @ (pivots[after] * H[column, after])
        pivot = pivots[column] = H[column, column]
        if not pivot > least[column]:
            return column, bool(pivot < -least[column])
        H[:column, column] /= pivot
    return None


def _generic(kinematics: Kinematics) -> np.ndarray:
    """A random configuration (nq,), with lengths of the size of the tree's own lengths."""
    inertias = kinematics.tree.inertias
    heavy = inertias[:, 5, 5] > 0.0
    arms = np.sqrt(np.linalg.norm(inertias[heavy, :3, :3], axis=(1, 2)) / inertias[heavy, 5, 5])
    size = max(np.linalg.norm(kinematics.tree.positions, axis=1).max(), arms.max(initial=0.0))
    q = kinematics.random(np.random.default_rng(0))
    return np.where(is_length(kinematics.joints), (size if size > 0.0 else 1.0) * q, q)


def _reduced(kinematics: ClosedKinematics) -> tuple[Kinematics, np.ndarray, np.ndarray]:
    """The spanning tree of a closed chain, its reference configuration (nq,), and G (nv, n) there."""
    spanning, q = kinematics.spanning, kinematics.reference
    K = HostConditions(spanning, kinematics.rows, kinematics.functions).at(q)[1]
    dependent = np.flatnonzero(~kinematics.clusters.independent[spanning.body_of])
    lengths = np.linalg.norm(K[:, dependent], axis=0)  # so that the units of the joints do not matter
    G = np.zeros((spanning.nv, kinematics.nv))
    G[kinematics.v_columns, np.arange(kinematics.nv)] = 1.0
    solved = np.linalg.lstsq(K[:, dependent] / lengths, K[:, kinematics.v_columns], rcond=None)[0]
    G[dependent] = -solved / lengths[:, None]
    return spanning, q, G
