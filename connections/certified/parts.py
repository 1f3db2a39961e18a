"""Parts of a tree by which the smallest eigenvalue of H is bounded: paths of bodies with few coordinates.

The energy v^T H v is a sum over bodies. Let each inertia be shared among parts, each a path of bodies whose
first one is on its own joint or set free, and let each joint belong to the one part that does not set its
body free. If in every part the energy is at least mu |v_p|^2 of its own joints, whatever the twist of the
body that is set free, then v^T H v >= mu |v|^2. So

    1 / lambda_min(H) <= max over the parts of |(H_p^-1)_pp|,

and a part of two joints and the body that carries them depends on two coordinates. Little is lost: what
carries a light wrist hardly moves more if a tenth of its inertia is left to what is before it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from connections import multibody as mb
from connections.certified.norms import EPS
from connections.certified.postures import Postures
from connections.certified.quantities import Quantities
from connections.multibody import Model
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.graph import Tree
from connections.multibody.joints import Free, Joint
from connections.multibody.joints.limits import Limits

SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)  # of a body's inertia that are tried, for what is before it
MOST = (2, 3, 4)  # joints of a part: more of them if fewer lose too much
_DRAWN = 256


class PathPart(NamedTuple):
    """A path of bodies.

    Parameters
    ----------
    bodies : from the innermost outward.
    shares : of their inertias.
    free : whether the first body is set free; then its joint is another part's.
    """

    bodies: tuple[int, ...]
    shares: tuple[float, ...]
    free: bool


class _Plan(NamedTuple):
    """Parts, and about the largest mu for which they hold."""

    least: float
    parts: tuple[PathPart, ...]


def plans_of(postures: Postures, best: np.ndarray) -> Iterator[tuple[float, tuple[PathPart, ...]]]:
    """Parts that cover a tree, and about their bound: of few joints at first, of more if these lose less.

    Which parts are taken decides how sharp the bound is, and proves nothing: it is seen at drawn postures.

    Parameters
    ----------
    best : (nq,) a posture at which lambda_min(H) is small.
    """
    sampled, least = _Sampled(postures, best), 0.0
    for most in MOST:
        plan = sampled.plan(most)
        if plan.least > 1.01 * least:
            least = plan.least
            yield plan


class _Sampled:
    """Bodies at drawn postures, in the axes of the world: what parts bound there."""

    def __init__(self, postures: Postures, best: np.ndarray) -> None:
        robot = postures.robot
        tree = postures.kinematics.tree
        self.parents = [int(parent) for parent in tree.parents]
        self.starts, self.armature = postures.kinematics.v_starts, tree.armature
        low, high = (np.where(np.isfinite(end), end, 0.0) for end in (postures.lower, postures.upper))
        points = low + (high - low) * np.random.default_rng(0).random((_DRAWN, len(low)))
        q = np.vstack([best, postures.configurations(points)])
        count = len(self.parents)
        twists = mb.body_jacobians(robot, q).reshape(len(q), count, 6, robot.nv)
        outward = np.stack([_twists_of(mb.frame_pose(robot, q, name)) for name in robot.body_names], axis=1)
        inward = np.linalg.inv(outward)
        self.twists = outward @ twists
        self.inertias = np.swapaxes(inward, -1, -2) @ np.asarray(tree.inertias) @ inward

    def plan(self, most: int) -> _Plan:
        """The best parts of at most so many joints."""

        @functools.cache
        def behind(carrier: int, share: float) -> _Plan:
            """The best parts behind a body, of which each path gets a share."""
            plans = [along((carrier,), body, share) for body in self._children(carrier)]
            return _Plan(min(plan.least for plan in plans), sum((plan.parts for plan in plans), ()))

        @functools.cache
        def along(carrier: tuple[int, ...], first: int, share: float) -> _Plan:
            """The best parts from a body on, behind a carrier that is set free, or none."""
            plans, path = [], [first]
            while True:
                bodies, children = (*carrier, *path), self._children(path[-1])
                before = (share,) * len(carrier) + (1.0,) * (len(path) - 1)
                for left in SHARES if children else (1.0,):
                    part = PathPart(bodies, (*before, left), bool(carrier))
                    plan = _Plan(self.least(part), (part,))
                    if children:
                        rest = behind(path[-1], (1.0 - left) / len(children))
                        plan = _Plan(min(plan.least, rest.least), plan.parts + rest.parts)
                    plans.append(plan)
                if len(children) != 1 or len(path) == most:
                    return max(plans, key=lambda plan: plan.least)
                path.append(children[0])

        plans = [along((), body, 1.0) for body in self._children(-1)]
        return _Plan(min(plan.least for plan in plans), sum((plan.parts for plan in plans), ()))

    def _children(self, body: int) -> list[int]:
        return [child for child, parent in enumerate(self.parents) if parent == body]

    def least(self, part: PathPart) -> float:
        """The smallest energy per |v_p|^2 of a part at the drawn postures; 0 where it is singular."""
        columns = [np.arange(*self.starts[[body, body + 1]]) for body in part.bodies[part.free :]]
        own = np.concatenate(columns)
        mass, mixed, energy = 0.0, 0.0, np.diag(self.armature[own])
        for number, (body, share) in enumerate(zip(part.bodies, part.shares, strict=True)):
            inertia = share * self.inertias[:, body]
            carried = np.isin(own, np.concatenate([own[:0], *columns[: number + 1 - part.free]]))
            twists = self.twists[:, body][:, :, own] * carried
            push = inertia @ twists
            mass, mixed = mass + inertia, mixed + push
            energy = energy + np.swapaxes(twists, 1, 2) @ push
        if part.free:
            try:
                energy = energy - np.swapaxes(mixed, 1, 2) @ np.linalg.solve(mass, mixed)
            except np.linalg.LinAlgError:
                return 0.0
        return max(0.0, float(np.linalg.eigvalsh(energy)[:, 0].min()))


def _twists_of(poses: np.ndarray) -> np.ndarray:
    """(P, 6, 6) twists in the world's axes, at its origin, of those in the axes of frames."""
    found = np.zeros((len(poses), 6, 6))
    R, p = poses[:, :3, :3], poses[:, :3, 3]
    found[:, :3, :3] = found[:, 3:, 3:] = R
    found[:, 3:, :3] = np.cross(p[:, :, None], R, axis=1)
    return found


def quantities_of_part(postures: Postures, part: PathPart) -> tuple[Quantities, np.ndarray]:
    """A part as a robot, and the rows of its own joints."""
    kinematics = postures.kinematics
    tree, bodies = kinematics.tree, list(part.bodies)
    joints: list[Joint] = [tree.joints[body] for body in bodies]
    armature = [tree.armature[kinematics.v_starts[body] : kinematics.v_starts[body + 1]] for body in bodies]
    quaternions, positions = np.array(tree.quaternions[bodies]), np.array(tree.positions[bodies])
    shared = list(zip(np.asarray(tree.inertias[bodies]), part.shares, strict=True))
    inertias = np.array([inertia if share == 1.0 else _less(share * inertia) for inertia, share in shared])
    if part.free:  # its velocity is that of the point where the next joint is: short levers, sharper bounds
        joints[0], armature[0] = Free(), np.zeros(6)
        there = np.eye(4)[None].copy()
        there[0, :3, 3] = positions[1]
        moved = _twists_of(there)[0]
        moment = float(np.abs(inertias[0, :3, :3]).max() + inertias[0, 5, 5] * (positions[1] @ positions[1]))
        inertias[0] = _less(moved.T @ inertias[0] @ moved, 4.0 * moment)
        quaternions[0], positions[:2] = (0.0, 0.0, 0.0, 1.0), 0.0
    names = tuple(tree.joint_names[body] for body in bodies)
    path = Tree(
        body_names=tuple(tree.body_names[body] for body in bodies),
        joint_names=names,
        joints=tuple(joints),
        links=tuple(tree.links[body] for body in bodies),
        parents=np.arange(-1, len(bodies) - 1),
        quaternions=quaternions,
        positions=positions,
        inertias=inertias,
        placements={},
        limits=tuple(Limits().for_joint(*pair) for pair in zip(names, joints, strict=True)),
        armature=np.concatenate(armature),
        actuated=tree.actuated[bodies],
    )
    model = Model.of(Kinematics(path))
    limits = {}
    for name, joint in zip(names, joints, strict=True):
        if joint.chain[0].quaternion is None:
            at = postures.robot.configuration_slice(name)
            of = (postures.places >= at.start) & (postures.places < at.stop)
            limits[name] = postures.lower[of], postures.upper[of]
    rows = np.arange(int(part.free) * 6, model.nv)
    return Quantities(Postures.of(model, limits)), rows


def _less(inertia: np.ndarray, size: float = 0.0) -> np.ndarray:
    """An inertia (6, 6) below the one that was rounded to this one, its moments of at most a size.

    Entries are off by some units of round-off of what they were computed from. About a centre of mass that is
    far from the origin, this can be more of a moment than the same share of it.
    """
    few = 64.0 * EPS
    found = inertia.copy()
    found[:3, :3] -= few * max(size, float(np.abs(inertia[:3, :3]).max())) * np.eye(3)
    found[3:, 3:] *= 1.0 - few
    return found
