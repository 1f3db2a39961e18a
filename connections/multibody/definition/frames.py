"""Frames that are fixed to bodies: their poses and Jacobians, and the first moment of mass, in JAX.

A frame is a link of the robot's description, or a frame that `Model.with_frames` added. Several links may
have been merged into one body. A frame with the pose (R, p) in a body of twist [w; u] = A_b v has the twist

    [R^T w; R^T (u + w x p)] in the frame's axes.

Source: [W] VI-B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from connections._words import no_such, words_of
from connections.checks import ModelError, require_text
from connections.geometry.rigid.placements import rigid_transform
from connections.geometry.rigid.twists import adjoint
from connections.multibody.graph import Tree

AXES = ("body", "world")
WORLD = "world"  # the frame of the ground, unless a link has this name


class BodyKinematics(Protocol):
    """The kinematics of a tree or of closed chains, as far as this module needs it."""

    @property
    def tree(self) -> Tree:
        """The tree of bodies."""

    @property
    def nv(self) -> int:
        """Number of velocity components."""

    def world_transforms_at(self, q: jax.Array) -> jax.Array:
        """Homogeneous transforms (N, 4, 4), m, of the bodies in the world."""

    def body_jacobians_at(self, q: jax.Array) -> jax.Array:
        """Jacobians A (N, 6, nv) of the bodies: the twist [omega; v] of body b is A_b v, in its axes."""


def frame_of(tree: Tree, name: Any) -> tuple[int, np.ndarray]:
    """The body that carries a frame, -1 for the ground, and its placement in that body, (4, 4), m.

    Raises
    ------
    ModelError : there is no frame of this name. TypeError : `name` is not text.
    """
    if not isinstance(name, str):
        raise TypeError(f"frame: expected the name of a frame, got {words_of(name)}")
    try:
        return tree.placements[name]
    except KeyError:
        names = [each for each in tree.placements if isinstance(each, str)]
        raise ModelError("frame: " + no_such("frame", name, names)) from None


def body_of(tree: Tree, name: Any) -> int:
    """The index of the body of this name; names of frames that are fixed to bodies do not count.

    Raises
    ------
    ModelError : there is no body of this name; if a frame has it, the message names the frame's body.
    TypeError : `name` is not text.
    """
    require_text("body", name)
    if name in tree.body_names:
        return tree.body_names.index(name)
    text = no_such("body", name, tree.body_names)
    if name in tree.placements:
        carrier, _ = tree.placements[name]
        fixed = f"'{tree.body_names[carrier]}', which is one" if carrier >= 0 else "the ground"
        text = f"there is no body {name!r}: it is a frame fixed to {fixed}"
    raise ModelError(text)


def is_world(axes: Any) -> bool:
    """Whether `axes` are "world", not "body", the axes of a frame.

    Raises
    ------
    ValueError : `axes` is neither.
    """
    if not isinstance(axes, str) or axes not in AXES:
        raise ValueError(f"axes: expected one of {', '.join(AXES)}, got {axes!r}")
    return axes == "world"


def with_frames(tree: Tree, frames: Mapping[str, tuple[str, Any]]) -> Tree:
    """The tree with further frames, {name: (frame to which it is fixed or "world", placement in that frame)}.

    Raises
    ------
    ModelError : a name is taken or not a name, the frame to which one is fixed does not exist, or a placement
        is not a proper rigid transform.
    """
    placements = dict(tree.placements)
    for name, fixed in frames.items():
        if not isinstance(fixed, tuple | list) or len(fixed) != 2:
            raise TypeError(f"frames: expected (frame, placement) for {name!r}, got {words_of(fixed)}")
        carrier, placement = fixed
        if not isinstance(name, str) or not name or name in placements:
            raise ModelError(f"frame {name!r}: expected the name of a frame that there is not yet")
        on_ground = isinstance(carrier, str) and carrier == WORLD and WORLD not in tree.placements
        body, pose = (-1, np.eye(4)) if on_ground else frame_of(tree, carrier)
        placements[name] = body, pose @ rigid_transform(f"frame '{name}'", placement)
    return replace(tree, placements=placements)


def frame_pose_at(bodies: BodyKinematics, q: jax.Array, frame: str) -> jax.Array:
    """The homogeneous transform (4, 4), m, of a frame in the world, at q (nq,)."""
    return fixed_pose_at(bodies, q, *frame_of(bodies.tree, frame))


def fixed_pose_at(bodies: BodyKinematics, q: jax.Array, body: int, placement: Any) -> jax.Array:
    """The pose (4, 4), m, in the world, of a frame at `placement` in a body, -1 for the ground."""
    pose = jnp.asarray(placement)
    return pose if body < 0 else bodies.world_transforms_at(q)[body] @ pose


def frame_jacobian_at(bodies: BodyKinematics, q: jax.Array, frame: str, axes: str) -> jax.Array:
    """J (6, nv) of a frame at q (nq,): its twist [omega; v] is J v, in the frame's or the world's axes."""
    return fixed_jacobian_at(bodies, q, *frame_of(bodies.tree, frame), axes)


def fixed_jacobian_at(
    bodies: BodyKinematics, q: jax.Array, body: int, placement: Any, axes: str
) -> jax.Array:
    """J (6, nv), as of `frame_jacobian_at`, of a frame at `placement` in a body, -1 for the ground."""
    world = is_world(axes)
    if body < 0:
        return jnp.zeros((6, bodies.nv))
    R, p = placement[:3, :3], placement[:3, 3]
    J = adjoint(jnp.asarray(R.T), jnp.asarray(-R.T @ p)) @ bodies.body_jacobians_at(q)[body]
    if world:
        turn = fixed_pose_at(bodies, q, body, placement)[:3, :3]
        J = jnp.concatenate([turn @ J[:3], turn @ J[3:]])
    return J


def first_moment_at(bodies: BodyKinematics, q: jax.Array) -> jax.Array:
    """The first moment of mass, sum_b (m_b p_b + R_b h_b), (3,), kg m, in the world; h_b in body b."""
    inertias, transforms = bodies.tree.inertias, bodies.world_transforms_at(q)
    masses = inertias[:, 5, 5]
    moments = inertias[
        :, np.array([2, 0, 1]), np.array([4, 5, 3])
    ]  # h of (h x) = [[0, -h3, h2], [h3, 0, -h1], [-h2, h1, 0]]
    return jnp.asarray(masses) @ transforms[:, :3, 3] + jnp.einsum(
        "nab,nb->a", transforms[:, :3, :3], moments
    )
