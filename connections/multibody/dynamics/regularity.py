"""Whether every velocity of a mechanism moves something that has inertia: whether H is positive definite.

H = A^T diag(I_b) A is eliminated column by column from the last one, as the recursions do it. A pivot is
compared with the terms that its column had before anything cancelled,

    s_k = sum_b (|omega_bk| sqrt(tr Ibar_b) + |u_bk| sqrt(m_b))^2,    [omega; u] = A,

which is in the units of the pivot, whatever those of the velocity, and which its round-off is small against:
a pivot is positive above `SMALLEST_PIVOT` of s_k, negative below minus that, and not known between. It is run
once, at a generic configuration, when a model is built. Inertias that no body has may pass it and still make
H indefinite elsewhere. Source: Featherstone, Rigid Body Dynamics Algorithms, chapters 6 and 7.
"""

from __future__ import annotations

import numpy as np

from connections.checks import ModelError
from connections.multibody.host_kinematics import body_motions, is_length
from connections.multibody.kinematics import Kinematics
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.loops.residuals import residual_and_derivative
from connections.multibody.tolerances import SMALLEST_PIVOT


def require_regular(kinematics: Kinematics | ClosedKinematics) -> None:
    """Raise `ModelError` naming the joint and body along which the inertia is zero or negative.

    Parameters
    ----------
    kinematics : of a tree, tried at a random configuration with a fixed seed; or of closed chains, tried at
        their reference configuration.
    """
    if isinstance(kinematics, ClosedKinematics):
        A, sizes = _reduced_motions(kinematics)
    else:
        A, sizes = body_motions(kinematics, _generic(kinematics))
    found = first_irregular(kinematics.tree.inertias, A, sizes)
    if found is None:
        return
    column, negative = found
    body, tree = kinematics.body_of[column], kinematics.tree
    of_tree = f"joint '{tree.joint_names[body]}' moves body '{tree.body_names[body]}'"
    of_loops = f"the velocity of joint '{tree.joint_names[body]}' moves its cluster"
    what = of_loops if isinstance(kinematics, ClosedKinematics) else of_tree
    how = (
        "of negative inertia: the mass matrix is indefinite"
        if negative
        else "without inertia, or with one that is lost in round-off: the mass matrix is singular"
    )
    raise ModelError(f"{what} and what it carries in a direction {how}")


def first_irregular(inertias: np.ndarray, A: np.ndarray, sizes: np.ndarray) -> tuple[int, bool] | None:
    """The first column, from the last, whose pivot is not positive, and whether it is negative.

    Parameters
    ----------
    inertias : (N, 6, 6) of the bodies.
    A : (N, 6, nv) their twists.
    sizes : (N, 2, nv) bounds of the terms in the angular and in the linear parts of A.
    """
    H = np.einsum("nai,nab,nbj->ij", A, inertias, A)
    roots = np.sqrt(np.abs(np.einsum("naa->na", inertias[:, :3, :3])).sum(axis=1))
    energies = (sizes[:, 0] * roots[:, None] + sizes[:, 1] * np.sqrt(inertias[:, 5, 5])[:, None]) ** 2
    least = SMALLEST_PIVOT * energies.sum(axis=0)
    for column in reversed(range(len(H))):
        pivot = H[column, column]
        if not pivot > least[column]:
            return column, bool(pivot < -least[column])
        H[:column, :column] -= np.outer(H[:column, column], H[column, :column]) / pivot
    return None


def _generic(kinematics: Kinematics) -> np.ndarray:
    """A configuration (nq,) of any angles, its lengths as large as those of the tree."""
    inertias = kinematics.tree.inertias
    heavy = inertias[:, 5, 5] > 0.0
    arms = np.sqrt(np.linalg.norm(inertias[heavy, :3, :3], axis=(1, 2)) / inertias[heavy, 5, 5])
    size = max(np.linalg.norm(kinematics.tree.positions, axis=1).max(), arms.max(initial=0.0))
    rng = np.random.default_rng(0)
    q = np.concatenate([joint.random(rng) for joint in kinematics.joints])
    return np.where(is_length(kinematics.joints), (size if size > 0.0 else 1.0) * q, q)


def _reduced_motions(kinematics: ClosedKinematics) -> tuple[np.ndarray, np.ndarray]:
    """A (N, 6, nv) at the reference configuration, and bounds of its terms, (N, 2, nv)."""
    spanning, q = kinematics.spanning, kinematics.reference
    K = residual_and_derivative(spanning, kinematics.rows, kinematics.functions, q)[1]
    dependent = np.flatnonzero(~kinematics.clusters.independent[spanning.body_of])
    lengths = np.linalg.norm(K[:, dependent], axis=0)  # so that the units of the joints do not matter
    G = np.zeros((spanning.nv, kinematics.nv))
    G[kinematics.v_columns, np.arange(kinematics.nv)] = 1.0
    solved = np.linalg.lstsq(K[:, dependent] / lengths, K[:, kinematics.v_columns], rcond=None)[0]
    G[dependent] = -solved / lengths[:, None]
    A, sizes = body_motions(spanning, q)
    return A @ G, sizes @ np.abs(G)
