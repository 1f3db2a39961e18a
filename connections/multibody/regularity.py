"""Whether every joint of a tree moves something that has inertia: whether H is positive definite.

The blocks Phi^T I^A Phi of the articulated-body elimination are all positive definite exactly where H is. It
is run once, at a generic configuration, when a model is built. Inertias that no body has may pass it and
still make H indefinite elsewhere. Source: Featherstone, Rigid Body Dynamics Algorithms, chapter 7.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

from connections.checks import ModelError
from connections.multibody.closed_kinematics import ClosedKinematics
from connections.multibody.graph import Tree
from connections.multibody.inertia import skew
from connections.multibody.joints import Joint
from connections.multibody.posture import Posture, residual_and_derivative

SMALLEST_PIVOT = 1e-12  # of the articulated inertia along a joint, relative to the composite one


def require_regular(tree: Tree) -> None:
    """Raise `ModelError` naming the joint and body along which the inertia is zero or negative.

    Parameters
    ----------
    tree : the bodies; tried at a random configuration with a fixed seed.
    """
    rng = np.random.default_rng(0)
    articulated, composite = tree.inertias.copy(), tree.inertias.copy()
    for body in reversed(range(len(tree.joints))):
        joint = tree.joints[body]
        q = jnp.asarray(joint.random(rng))
        Phi = np.asarray(joint.Phi_at(q))
        force = articulated[body] @ Phi
        block, whole = Phi.T @ force, Phi.T @ composite[body] @ Phi
        smallest, scale = np.linalg.eigvalsh(block)[0], np.linalg.norm(whole)
        if not smallest > SMALLEST_PIVOT * scale:
            negative = smallest < -SMALLEST_PIVOT * scale
            kind, matrix = ("of negative", "indefinite") if negative else ("without", "singular")
            raise ModelError(
                f"joint '{tree.joint_names[body]}' moves body '{tree.body_names[body]}' and what it carries "
                f"in a direction {kind} inertia: the mass matrix is {matrix}"
            )
        parent = tree.parents[body]
        if parent >= 0:
            X = _motion_transform(*_pose_in_parent(tree, body, joint, q))
            left = articulated[body] - force @ np.linalg.solve(block, force.T)
            articulated[parent] += X.T @ left @ X
            composite[parent] += X.T @ composite[body] @ X


def require_regular_cluster(kinematics: ClosedKinematics) -> None:
    """Raise `ModelError` naming a closed chain's velocity along which H has no inertia, or a negative one.

    Parameters
    ----------
    kinematics : of the closed chain; tried at its reference configuration.
    """
    A = reduced_jacobians(kinematics)
    inertias = kinematics.tree.inertias
    H = np.einsum("nai,nab,nbj->ij", A, inertias, A)
    whole = np.einsum("nai,nab,nbi->i", np.abs(A), np.abs(inertias), np.abs(A))
    for column in reversed(range(len(H))):
        pivot = H[column, column]
        if not pivot > SMALLEST_PIVOT * whole[column]:
            negative = pivot < -SMALLEST_PIVOT * whole[column]
            kind, matrix = ("of negative", "indefinite") if negative else ("without", "singular")
            body = kinematics.body_of[column]
            raise ModelError(
                f"the velocity of joint '{kinematics.tree.joint_names[body]}' moves its cluster and what it "
                f"carries in a direction {kind} inertia: the mass matrix is {matrix}"
            )
        H[:column, :column] -= np.outer(H[:column, column], H[column, :column]) / pivot


def reduced_jacobians(kinematics: ClosedKinematics) -> np.ndarray:
    """A (N, 6, nv) at the reference configuration, on the host."""
    spanning, q = kinematics.spanning, kinematics.reference
    K = residual_and_derivative(spanning, kinematics.rows, kinematics.functions, q)[1]
    dependent = np.flatnonzero(~kinematics.clusters.independent[spanning.body_of])
    G = np.zeros((spanning.nv, kinematics.nv))
    G[kinematics.v_columns, np.arange(kinematics.nv)] = 1.0
    G[dependent] = -np.linalg.lstsq(K[:, dependent], K[:, kinematics.v_columns], rcond=None)[0]
    posture = Posture.at(spanning, q)
    to_body = np.stack([_motion_transform(T[:3, :3], T[:3, 3]) for T in posture.transforms[:-1]])
    moved = np.where(spanning.moves[:, None, :], posture.columns.T, 0.0)
    return np.asarray(to_body @ moved @ G)


def _pose_in_parent(tree: Tree, body: int, joint: Joint, q: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """Rotation (3, 3) and position (3,), m, of the body's frame in that of its parent."""
    quaternion, position = (np.asarray(part) for part in joint.transform_at(q))
    placement = Rotation.from_quat(tree.quaternions[body]).as_matrix()
    rotation = placement @ Rotation.from_quat(quaternion).as_matrix()
    return rotation, tree.positions[body] + placement @ position


def _motion_transform(rotation: np.ndarray, position: np.ndarray) -> np.ndarray:
    """(6, 6), twists of the parent's frame to those of a frame placed at this pose in it."""
    R = rotation.T
    return np.block([[R, np.zeros((3, 3))], [-R @ skew(position), R]])
