"""Recursions inside JAX of a robot whose frames or joints have placements that are data.

A frame with the placement (R, p) in another one, whose twist is [w; u] = J v in its own axes, has

    Ad J,    Ad Jdot,    Ad = [R^T, 0; -R^T (p x), R^T]

in its axes; in world axes, with the rotation W of the frame, diag(W, W) J, whose rate is
diag(W, W) (Jdot + diag(w x, w x) J) with the frame's angular velocity w. Where joints are is no data of
compiled code: then the definition is computed, which JAX differentiates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from connections.geometry.rigid.rotations import quaternion_of, skew
from connections.geometry.rigid.twists import adjoint
from connections.multibody.definition.frames import fixed_jacobian_at, fixed_pose_at, is_world
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.definition.recursions import DEFINITIONS
from connections.multibody.program.table import BODY_FACTOR, BODY_FACTORS, RECURSIONS

#: What has the name of a frame.
FRAMES = {"frame_pose", "frame_jacobian", "frame_jacobian_rate"}


def placed_definition(
    robot: Any, name: str, chosen: tuple[Any, ...], fixed: tuple[int, Any] | None = None
) -> Callable[..., jax.Array]:
    """The definition of a recursion at one point, of q (nq,) and vectors (nv,); NaN at no configuration.

    Parameters
    ----------
    robot : a model whose numbers are data.
    name : a key of `RECURSIONS`.
    chosen : what the caller chooses; of frames, the axes if there are any.
    fixed : of frames, the body that carries the frame, -1 for the ground, and the placement in it (4, 4), m.

    Raises
    ------
    ValueError : a choice is none.
    """
    if RECURSIONS[name].choice is BODY_FACTOR:
        BODY_FACTORS[chosen[0]]  # raises

    def definition(q: jax.Array, *vectors: jax.Array) -> jax.Array:
        good = robot.frame.near_at(q)
        for vector in (q, *vectors):
            good &= jnp.isfinite(vector).all()
        if fixed is None:
            found = DEFINITIONS[name](robot, q, *vectors, *chosen)
        else:
            found = _of_frame(robot, name, fixed, q, *vectors, *chosen)
        return jnp.where(good, found, jnp.nan)

    return definition


def of_fixed_frame(
    recursions: Any, name: str, given: tuple[Any, ...], carrier: str, placement: jax.Array, axes: str = "body"
) -> jax.Array:
    """A recursion of a frame that is fixed to another, by those of the other.

    Parameters
    ----------
    recursions : `TracedRecursions` of the robot.
    name : one of `FRAMES`.
    given : q (..., nq), or `SolvedLoops`, and for the rate v (..., nv).
    carrier : the other frame.
    placement : (4, 4) m, of the frame in the other.
    axes : of a Jacobian and its rate.

    Raises
    ------
    ShapeError, TypeError; ValueError : there are no such axes.
    """
    world, R = is_world(axes), placement[:3, :3]
    q = given[0]
    pose: jax.Array
    if name == "frame_pose" or world:
        pose = recursions.evaluate("frame_pose", (q,), (carrier,)) @ placement
    if name == "frame_pose":
        return pose
    Ad = adjoint(R.T, -R.T @ placement[:3, 3])
    J: jax.Array = Ad @ recursions.evaluate("frame_jacobian", (q,), (carrier, "body"))
    if name == "frame_jacobian":
        return _turned(pose[..., :3, :3], J) if world else J
    rate: jax.Array = Ad @ recursions.evaluate(name, given, (carrier, "body"))
    if not world:
        return rate
    w = (J[..., :3, :] @ jnp.asarray(given[1])[..., None])[..., 0]
    return _turned(pose[..., :3, :3], rate + _turned(skew(w), J))


def with_traced_placements(kinematics: Kinematics, placements: jax.Array) -> Kinematics:
    """The kinematics of a tree with other placements of its joints, for its definition in JAX only.

    Parameters
    ----------
    kinematics : of a tree; its numbers may be data.
    placements : (N, 4, 4), m, of all joints in the frames of the bodies that carry them.
    """
    quaternions: Any = jax.vmap(quaternion_of)(placements[:, :3, :3])
    positions: Any = placements[:, :3, 3]
    tree = replace(kinematics.tree, quaternions=quaternions, positions=positions)
    placed = replace(kinematics, tree=tree)
    # Not made of the quaternions, and here: what is cached while JAX traces a method does not outlive it.
    placed.__dict__["placements"] = placements
    return placed


def _turned(matrices: jax.Array, J: jax.Array) -> jax.Array:
    """Twists J (..., 6, nv) whose halves are multiplied by matrices (..., 3, 3)."""
    return jnp.concatenate([matrices @ J[..., :3, :], matrices @ J[..., 3:, :]], axis=-2)


def _of_frame(robot: Any, name: str, fixed: tuple[int, Any], q: jax.Array, *rest: Any) -> jax.Array:
    """The definition of a recursion of what is fixed to a body."""
    kinematics = robot.kinematics
    if name == "frame_pose":
        return fixed_pose_at(kinematics, q, *fixed)
    *vectors, axes = rest
    if not vectors:
        return fixed_jacobian_at(kinematics, q, *fixed, axes)
    rate: jax.Array
    along = robot.frame.matrix_at(q) @ vectors[0]
    _, rate = jax.jvp(lambda p: fixed_jacobian_at(kinematics, p, *fixed, axes), (q,), (along,))
    return rate
