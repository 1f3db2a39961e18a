"""Forces in joints: of closures, by multipliers, and of bearings, by what the bodies' motion needs.

The spanning tree of a closed chain moves as the chain does with forces tau_s of its joints and multipliers
of the conditions phi(q_s) = 0, whose derivative is K,

    H_s vdot_s + C_s v_s + g_s = tau_s + K^T lambda,    v_s = G v,    vdot_s = G vdot + Gdot v.

Motors drive the independent joints, so that tau_s is tau there and zero elsewhere; since K G = 0, this is
tau = G^T (H_s vdot_s + C_s v_s + g_s), and K^T lambda is what is left. A row of K is a wrench applied to the
relative twist of two bodies, so the closure's wrench is the sum of these by lambda. Where conditions are
redundant, as those of a revolute closure in a planar loop, only their sum in K^T lambda is determined: the
least multipliers are returned, in rad and the size of the cluster.

What body b needs is I_b Vdot_b + V_b x* I_b V_b - I_b [0; R_b^T g]; its joint transmits that, and what the
bodies that it carries need, less the wrenches of closures on them.
Source: [W] VI-C; Featherstone, Rigid Body Dynamics Algorithms, chapters 5 and 8.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.checks import require_untraced
from connections.engines.arguments import as_rows
from connections.geometry.rigid.host_groups import cross
from connections.multibody.clusters import LINEAR, TWIST
from connections.multibody.functions import (
    body_jacobians,
    forward_dynamics,
    forward_kinematics,
    frame_jacobian_rate,
    inverse_dynamics,
)
from connections.multibody.graph import FixedJoint
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.loops.condition_rows import FunctionLoop
from connections.multibody.loops.conditions import wrenches_of
from connections.multibody.loops.lengths import velocity_units
from connections.multibody.model import Model, close_loops, require_model, solved
from connections.multibody.program.closed import SolvedLoops, coordinates_of
from connections.multibody.program.closure_conditions import HostConditions

_RANK = 1e-9  # singular values of K^T below this, of the largest, are those of redundant conditions


def closure_forces(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    a: ArrayLike | None = None,
    *,
    tau: ArrayLike | None = None,
) -> dict[str, np.ndarray]:
    """The wrenches [n; f] in the closures of loops, and the multipliers of couplings, by name.

    Parameters
    ----------
    model : the robot; without loops and couplings there are none.
    q : (..., nq) configurations, or `SolvedLoops`, whose loops are solved.
    v : (..., nv) velocities in the model's frame, rad/s and m/s.
    a : (..., nv) accelerations vdot, rad/s^2 and m/s^2.
    tau : (..., nv) in place of a: forces of the motors, which are at the independent joints, N m and N.

    Returns
    -------
    {loop: (..., 6)}, the wrench that the body of frame a exerts on that of frame b, about the origin of frame
    b, in world axes, N m and N; the other body meets its opposite. {coupling: (..., k)}, multipliers: joint i
    meets the force coefficient_i lambda, or (dfunction / dq_i)^T lambda of a coupling by a function.

    Where the closures of a loop are redundant, as a revolute one in a planar loop, forces that do no work in
    any motion are not determined; these are zero, as far as they can be.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ClosureError : as `inverse_dynamics`.
    MetricError : tau is given, and H is singular.
    TypeError : neither a nor tau is given, or both; JAX traces an argument.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("four_bar")
    >>> forces = mb.closure_forces(robot, robot.neutral(), [1.0], tau=[0.0])
    >>> {loop: wrench.shape for loop, wrench in forces.items()}
    {'loop': (6,)}

    Source: [W] VI-C; Featherstone, Rigid Body Dynamics Algorithms, chapter 8.
    """
    motion = _Motion.of("closure_forces", model, q, v, a, tau)
    rows = _closures(model, motion)
    sizes = [len(force.components) for force in (rows or _closures(model, motion.at_rest(model)))[0]]
    return {
        name: np.array([row[owner].components for row in rows]).reshape(*motion.batch, sizes[owner])
        for owner, name in enumerate(_names(model))
    }


def joint_forces(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    a: ArrayLike | None = None,
    *,
    tau: ArrayLike | None = None,
) -> dict[str, np.ndarray]:
    """The wrenches [n; f] that joints transmit, by the names of all joints, fixed ones too.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations, or `SolvedLoops`, whose loops are solved.
    v : (..., nv) velocities in the model's frame, rad/s and m/s.
    a : (..., nv) accelerations vdot, rad/s^2 and m/s^2.
    tau : (..., nv) in place of a: forces of the motors, which are at the independent joints, N m and N.

    Returns
    -------
    {joint: (..., 6)}, the wrench that the parent exerts on the body that the joint moves, in the axes of that
    body, about its origin, N m and N; dependent joints of loops included. Its part along a joint's motion is
    the motor's force, less that which its own armature meets; closures are in `closure_forces`.

    Fixed joints of the description and joints that are locked follow: the wrench on their child link, in its
    axes, about its origin. The links behind it have the inertias of the description.

    Raises
    ------
    As `closure_forces`.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> at_rest = mb.joint_forces(robot, robot.neutral(), [0.0] * 6, [0.0] * 6)
    >>> weight = 9.81 * mb.total_mass(robot)
    >>> bool(abs(at_rest[robot.joint_names[0]][5] - weight) < 1e-9)
    True

    Source: [W] VI-C; Featherstone, Rigid Body Dynamics Algorithms, chapter 5.
    """
    motion = _Motion.of("joint_forces", model, q, v, a, tau)
    tree, q_s = model.spanning_tree, motion.q
    poses = forward_kinematics(tree, q_s)
    A = body_jacobians(tree, q_s).reshape(len(q_s), len(tree.body_names), 6, tree.nv)
    rates = np.stack([frame_jacobian_rate(tree, q_s, motion.v, name) for name in tree.body_names], axis=1)
    V = np.einsum("kbin,kn->kbi", A, motion.v)
    V_dot = np.einsum("kbin,kn->kbi", A, motion.a) + np.einsum("kbin,kn->kbi", rates, motion.v)
    V_dot[..., 3:] -= np.einsum("kbji,j->kbi", poses[:, :, :3, :3], model.gravity)
    f = _needed(model.kinematics.tree.inertias, V, V_dot)
    closures = _closures(model, motion)
    for row, forces in enumerate(closures):
        for force in forces:
            for body, sign in ((force.body_b, 1.0), (force.body_a, -1.0)):
                if body >= 0:
                    f[row, body] -= sign * _in_body(force, poses[row, body])
    parents = model.kinematics.tree.parents
    for body in reversed(range(len(parents))):
        if parents[body] >= 0:
            f[:, parents[body]] += _carried(f[:, body], poses[:, body], poses[:, parents[body]])
    found = {name: f[:, body] for body, name in enumerate(tree.joint_names)}
    for joint in model.kinematics.tree.fixed:
        found[joint.name] = _through(model, joint, (V, V_dot, f, poses), closures)
    return {name: wrench.reshape(*motion.batch, 6) for name, wrench in found.items()}


# --- private -----------------------------------------------------------------------------------------------


def _needed(inertias: np.ndarray, V: np.ndarray, V_dot: np.ndarray) -> np.ndarray:
    """I Vdot + V x* I V, (k, N, 6), of bodies with I (N, 6, 6), V and Vdot (k, N, 6)."""
    momentum = np.einsum("bij,kbj->kbi", inertias, V)
    f = np.einsum("bij,kbj->kbi", inertias, V_dot)
    f[..., :3] += cross(V[..., :3], momentum[..., :3]) + cross(V[..., 3:], momentum[..., 3:])
    f[..., 3:] += cross(V[..., :3], momentum[..., 3:])
    return np.asarray(f)


def _in_body(force: _Force, pose: np.ndarray) -> np.ndarray:
    """The wrench (6,) of a closure in the axes of a body at `pose` (4, 4), about its origin."""
    R, p = pose[:3, :3], pose[:3, 3]
    n, along = force.components[:3], force.components[3:]
    return np.concatenate([R.T @ (n + np.cross(force.point - p, along)), R.T @ along])


def _carried(wrench: np.ndarray, pose: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Wrenches (k, 6) of frames at `pose` (k, 4, 4) in the axes of others, about their origins."""
    back = np.swapaxes(other[:, :3, :3], 1, 2)
    turn = back @ pose[:, :3, :3]
    arm = np.einsum("kij,kj->ki", back, pose[:, :3, 3] - other[:, :3, 3])
    n, along = (np.einsum("kij,kj->ki", turn, part) for part in (wrench[:, :3], wrench[:, 3:]))
    return np.concatenate([n + cross(arm, along), along], axis=1)


def _through(
    model: Model,
    joint: FixedJoint,
    moving: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    closures: list[list[_Force]],
) -> np.ndarray:
    """The wrench (k, 6) through a fixed joint, of V, Vdot, f (k, N, 6) and poses (k, N, 4, 4) of the bodies.

    The links behind it need what their inertias do, and what the joints that are on them transmit.
    """
    (V, V_dot, f, poses), tree = moving, model.kinematics.tree
    body, placement = tree.placements[joint.child]
    behind = {joint.child}
    while more := {each.child for each in tree.fixed if each.parent in behind} - behind:
        behind |= more
    inertia = sum((each.inertia_in(tree) for each in tree.fixed if each.child in behind), np.zeros((6, 6)))
    if body >= 0:
        own, V, V_dot = poses[:, body], V[:, body], V_dot[:, body]
    else:
        own, V = np.broadcast_to(np.eye(4), (len(f), 4, 4)), np.zeros((len(f), 6))
        V_dot = np.broadcast_to(np.concatenate([np.zeros(3), np.negative(model.gravity)]), (len(f), 6))
    wrench = _needed(inertia[None], V[:, None], V_dot[:, None])[:, 0]
    for number, carrier in enumerate(tree.carriers):
        if carrier in behind:
            wrench += _carried(f[:, number], poses[:, number], own)
    ties = model.kinematics.ties if isinstance(model.kinematics, ClosedKinematics) else ()
    for owner, tie in enumerate(ties):
        for link, sign in (getattr(tie, "link_b", None), 1.0), (getattr(tie, "link_a", None), -1.0):
            if link in behind:
                wrench -= sign * np.array([_in_body(row[owner], own[k]) for k, row in enumerate(closures)])
    return _carried(wrench, own, own @ placement)


class _Motion(NamedTuple):
    """k motions of the spanning tree at one instant."""

    batch: tuple[int, ...]
    q: np.ndarray  #: (k, nq_s)
    v: np.ndarray  #: (k, nv_s)
    a: np.ndarray  #: (k, nv_s)
    excess: np.ndarray  #: (k, nv_s) K^T lambda: what the joints' forces do not explain

    @classmethod
    def of(cls, name: str, model: Model, q: Any, v: Any, a: Any, tau: Any) -> _Motion:
        """The motion with these accelerations, or with these forces of the motors."""
        require_model(name, model)
        if (a is None) == (tau is None):
            raise TypeError(f"{name}: give accelerations a, or tau=forces of the motors, one of them")
        require_untraced(q=coordinates_of(q, model.kinematics), v=v, a=a, tau=tau)
        closed = solved(model, q)
        if a is None:
            a = forward_dynamics(model, closed, v, tau)
        driven = np.asarray(inverse_dynamics(model, closed, v, a))
        batch = driven.shape[:-1]
        of_q, v, a, driven = (as_rows(np.asarray(x, float), batch) for x in (closed.q, v, a, driven))
        if not isinstance(model.kinematics, ClosedKinematics):
            return cls(batch, of_q, v, a, np.zeros_like(driven))
        q_s, G, LG = (np.asarray(part) for part in model.program.solution(closed))
        axes = len(closed.q.shape) - 1
        q_s, G, LG = (
            np.broadcast_to(part, (*batch, *part.shape[axes:])).reshape(len(v), *part.shape[axes:])
            for part in (q_s, G, LG)
        )
        v_s = np.einsum("ksn,kn->ks", G, v)
        a_s = np.einsum("ksn,kn->ks", G, a) + np.einsum("ksjn,kj,kn->ks", LG, v, v)
        excess = np.array(inverse_dynamics(model.spanning_tree, q_s, v_s, a_s))
        excess[:, model.kinematics.v_columns] -= driven
        return cls(batch, q_s, v_s, a_s, excess)

    def at_rest(self, model: Model) -> _Motion:
        """One motion, without forces: of an empty batch, no row says what sizes forces have."""
        q_s = np.asarray(close_loops(model, model.neutral()).spanning)[None]
        return self._replace(q=q_s, excess=np.zeros((1, model.spanning_tree.nv)))


class _Force(NamedTuple):
    """The force of a loop or coupling."""

    components: np.ndarray  #: (6,) the wrench on body b, about `point`, in world axes; (k,) multipliers
    #: bodies, -1 for the ground, and for both of a coupling
    body_a: int = -1
    body_b: int = -1
    point: np.ndarray = np.zeros(3)  #: (3,) m, in the world


def _names(model: Model) -> tuple[str, ...]:
    return model.kinematics.names if isinstance(model.kinematics, ClosedKinematics) else ()


def _closures(model: Model, motion: _Motion) -> list[list[_Force]]:
    """The forces of all loops and couplings, for each row."""
    kinematics = model.kinematics
    if not isinstance(kinematics, ClosedKinematics):
        return [[] for _ in motion.q]
    conditions = HostConditions(kinematics.spanning, kinematics.rows, kinematics.functions)
    units = velocity_units(kinematics.spanning, kinematics.clusters.of_body, kinematics.clusters.sizes)
    found = []
    for q, excess in zip(motion.q, motion.excess, strict=True):
        K = conditions.at(q)[1]
        multipliers = np.linalg.lstsq((K * units).T, excess * units, rcond=_RANK)[0]
        found.append(_of_owners(kinematics, conditions, q, multipliers))
    return found


def _of_owners(
    kinematics: ClosedKinematics, conditions: HostConditions, q: np.ndarray, multipliers: np.ndarray
) -> list[_Force]:
    """The forces of all loops and couplings at q (nq_s,), by the multipliers of the rows of K."""
    rows, placed = kinematics.rows, conditions.placed(q)
    T = placed.transforms
    own = multipliers[: len(rows.kinds)] * rows.scales
    wrenches = own[:, None] * np.asarray(wrenches_of(rows, jnp.asarray(T)))
    forces: dict[int, _Force] = {}
    for owner in dict.fromkeys(rows.owners.tolist()):
        mine = np.flatnonzero(rows.owners == owner)
        if rows.kinds[mine[0]] == LINEAR:
            forces[owner] = _Force(own[mine])
            continue
        first = mine[rows.kinds[mine] != TWIST][0]
        body_b = int(rows.bodies_b[first])
        point = T[body_b, :3, :3] @ rows.points_b[first] + T[body_b, :3, 3]
        wrench = _about(point, wrenches[mine].sum(axis=0))
        forces[owner] = _Force(wrench, int(rows.bodies_a[first]), body_b, point)
    start = len(rows.kinds)
    for function in kinematics.functions:
        size = function.size(kinematics.spanning)
        of_function = slice(start, start + size)
        start += size
        if not isinstance(function, FunctionLoop):
            forces[function.owner] = _Force(multipliers[of_function] * function.scale)
            continue
        moves = np.zeros((len(T), 6))  # of a tree whose six velocities are the twists of body b
        moves[function.body_b] = 1.0
        rates = function.residual_and_derivative(placed._replace(columns=np.eye(6)), moves, q)[1]
        point = (T[function.body_b] @ function.frame_b)[:3, 3]
        wrench = _about(point, multipliers[of_function] @ rates)
        forces[function.owner] = _Force(wrench, function.body_a, function.body_b, point)
    return [forces[owner] for owner in range(len(kinematics.names))]


def _about(point: np.ndarray, wrench: np.ndarray) -> np.ndarray:
    """A wrench (6,) about the world's origin, about this point instead."""
    return np.concatenate([wrench[:3] - np.cross(point, wrench[3:]), wrench[3:]])
