"""Recursions inside JAX of a robot whose frames or joints have placements that are data.

A frame with the placement (R, p) in another one, whose twist is [w; u] = J v in its own axes, has

    Ad J,    Ad Jdot,    Ad = [R^T, 0; -R^T (p x), R^T]

in its axes; in world axes, with the rotation W of the frame, diag(W, W) J, whose rate is
diag(W, W) (Jdot + diag(w x, w x) J) with the frame's angular velocity w. Where joints are is no data of
compiled code: then the definition is computed, which JAX differentiates. In a closed chain, phi(q_s, p) = 0
defines q_s by q and the placements p; with the derivatives K of phi by velocities, dependent ones are

    v_d = G_d v - K_d^+ (dphi/dp) pdot.

Source: [W] VI-C, implicit constraints, whose parameters change, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from connections.geometry.rigid.rotations import quaternion_of, skew
from connections.geometry.rigid.twists import adjoint
from connections.multibody.definition.frames import fixed_jacobian_at, fixed_pose_at, is_world
from connections.multibody.definition.recursions import DEFINITIONS
from connections.multibody.loops.closed_kinematics import ClosedKinematics
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
        at_q = _solved_once(robot, q)
        good = at_q.frame.near_at(q)
        for vector in (q, *vectors):
            good &= jnp.isfinite(vector).all()
        if fixed is None:
            found = DEFINITIONS[name](at_q, q, *vectors, *chosen)
        else:
            found = _of_frame(at_q, name, fixed, q, *vectors, *chosen)
        return jnp.where(good, found, jnp.nan)

    return definition


def _solved_once(robot: Any, q: jax.Array) -> Any:
    """The robot with the loops solved at q: its definitions ask for the solution many times."""
    if not isinstance(robot.kinematics, ClosedKinematics):
        return robot
    q_s = jax.lax.stop_gradient(robot.kinematics.spanning_at(q))
    return replace(robot, kinematics=robot.kinematics.__dict__["with_solution"](q_s))


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


def with_traced_placements(kinematics: Any, placements: jax.Array) -> Any:
    """The kinematics with other placements of the joints, for its definition in JAX only.

    Parameters
    ----------
    kinematics : of a tree or a closed chain; its numbers may be data.
    placements : (N, 4, 4), m, of all joints in the frames of the bodies that carry them.
    """
    if isinstance(kinematics, ClosedKinematics):
        return _loops_elsewhere(kinematics, placements)
    quaternions: Any = jax.vmap(quaternion_of)(placements[:, :3, :3])
    positions: Any = placements[:, :3, 3]
    tree = replace(kinematics.tree, quaternions=quaternions, positions=positions)
    placed = replace(kinematics, tree=tree)
    # Not made of the quaternions, and here: what is cached while JAX traces a method does not outlive it.
    placed.__dict__["placements"] = placements
    return placed


def _loops_elsewhere(closed: ClosedKinematics, placements: jax.Array) -> ClosedKinematics:
    """A closed chain whose loops close at other placements p: phi(q_s, p) = 0 defines q_s(q, p).

    They close again at the reference, and are followed from it to q. Only the solution's value is used: its
    derivatives are those of the conditions, G v and, of dependent joints, -K_d^+ (dphi/dp) pdot.
    """

    def at(placements: jax.Array) -> ClosedKinematics:
        spanning = with_traced_placements(closed.spanning, placements)
        clusters = replace(closed.clusters)  # other ones: `SolvedLoops` of the model is not closed here
        placed = replace(closed, spanning=spanning, clusters=clusters, make_solver=None)
        placed.__dict__.update(linear=closed.linear, loops=replace(closed.loops, spanning=spanning))
        return placed

    @jax.custom_jvp
    def solved(q: jax.Array, placements: jax.Array, q_s: jax.Array) -> jax.Array:
        return q_s

    @partial(solved.defjvp, symbolic_zeros=True)
    def value_and_derivative(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        (q, p, _), (q_dot, p_dot, _) = primals, tangents
        q_s, placed, rate = solved(*primals), at(p), jnp.zeros(closed.spanning.nq)
        if not isinstance(q_dot, SymbolicZero):
            rate = placed.spanning_rate_at(q, q_s, q_dot)
        if not isinstance(p_dot, SymbolicZero):
            _, opening = jax.jvp(lambda p: at(p).loops.conditions_at(q_s)[0], (p,), (p_dot,))
            rate += placed.spanning.frame.matrix_at(q_s) @ placed.loops.closing_at(q_s, opening)
        return q_s, rate

    @jax.jit
    def followed(q: jax.Array, start: jax.Array, placements: jax.Array) -> jax.Array:
        return at(placements).followed_at(q, start)

    def spanning(q: jax.Array, start: jax.Array) -> jax.Array:
        q_s = followed(*map(jax.lax.stop_gradient, (q, start, placements)))
        return solved(q, placements, q_s)

    def with_solution(q_s: jax.Array) -> ClosedKinematics:
        """The closed chain at q_s (nq_s,), where loops are not solved again."""
        placed = at(placements)
        placed.__dict__["_spanning"] = lambda q, _: solved(q, placements, q_s)
        return placed

    placed = at(placements)
    placed.__dict__.update(_spanning=spanning, with_solution=with_solution)
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
