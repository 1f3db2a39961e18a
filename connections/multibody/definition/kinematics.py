"""Forward kinematics of a tree and A = X Phi, from which all other quantities of a robot are defined.

Body b has the pose (R_b, p_b) in the world, joint j has the columns Phi_j in the axes of its child body, and

    A[b, :, j] = [R_b^T w_j; R_b^T (u_j + w_j x (p_b - p_j))],   [w_j; u_j] = [R_j Phi_j^w; R_j Phi_j^v],

for every joint j that moves body b, and zero otherwise. Only differences of positions enter. They are not
computed from positions in the world, so that no digits are lost far from its origin: p_b - p_j is the sum of
the displacements s_k of the joints between j and b, and of what it would be without them. All bodies are
computed at once: first the joints, class by class; then the poses, composed over 1, 2, 4, ... generations,
so that the traced program grows with the logarithm of the depth. Source: [W] VI-B, A = X Phi.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

from connections.checks import ModelError, is_traced
from connections.evaluation.compilation import traced_once
from connections.evaluation.content import ByContent
from connections.geometry import CoordinateFrame, FrameField, ProductFrame, SE3Frame, SO3Frame
from connections.geometry.rigid.rotations import homogeneous, quaternion_product, rotation_matrix, skew
from connections.multibody.clusters import make_read_only
from connections.multibody.definition.rotors import Element, Rotors
from connections.multibody.graph import ClusterTree, Tree, cluster_tree
from connections.multibody.joints import ElementaryJoint, Joint


@dataclass(frozen=True, eq=False)
class _JointGroup:
    """All g joints of one class: where their coordinates lie in q, and their parameters."""

    kind: type[Joint]
    bodies: np.ndarray  # (g,)
    coordinates: np.ndarray  # (g, nq_J) indices into q
    parameters: np.ndarray  # (g, k)


class Coordinates(ByContent, abc.ABC):
    """The layout of q and v: a slice of each for every independent joint.

    Subclasses are frozen dataclasses; what follows from their fields is cached, and not pickled.
    """

    @property
    @abc.abstractmethod
    def joints(self) -> tuple[Joint, ...]:
        """The independent joints, in the order of their slices of q and v."""

    @property
    @abc.abstractmethod
    def joint_names(self) -> tuple[str, ...]:
        """The names of `joints`."""

    @property
    @abc.abstractmethod
    def frame(self) -> FrameField:
        """The frame in which v are components."""

    @cached_property
    def q_starts(self) -> np.ndarray:
        """Where the slice of q of each joint begins; the last entry is nq."""
        return np.cumsum([0, *(joint.nq for joint in self.joints)])

    @cached_property
    def v_starts(self) -> np.ndarray:
        """Where the slice of v of each joint begins; the last entry is nv."""
        return np.cumsum([0, *(joint.nv for joint in self.joints)])

    @cached_property
    def nq(self) -> int:
        """Number of coordinates."""
        return int(self.q_starts[-1])

    @cached_property
    def nv(self) -> int:
        """Number of velocity components."""
        return int(self.v_starts[-1])

    @cached_property
    def joint_frame(self) -> FrameField:
        """The product of the joints' frames."""
        return product_of_frames(self.joints, self.joint_names)

    def slices(self) -> Iterator[tuple[Joint, slice, slice]]:
        """The joints, and their slices of q and of v."""
        ends = [itertools.pairwise(starts.tolist()) for starts in (self.q_starts, self.v_starts)]
        for joint, of_q, of_v in zip(self.joints, *ends, strict=True):
            yield joint, slice(*of_q), slice(*of_v)

    @cached_property
    def chains(self) -> tuple[tuple[Element, ...], ...]:
        """The elementary joints of each of `joints`.

        Raises
        ------
        ModelError : a chain has another joint than elementary ones; the message names the joint.
        """
        return tuple(
            _elements(joint, name, at_q.start, at_v.start)
            for (joint, at_q, at_v), name in zip(self.slices(), self.joint_names, strict=True)
        )

    @cached_property
    def elements(self) -> tuple[Element, ...]:
        """The elementary joints of all chains, in the order of q and v."""
        return tuple(itertools.chain(*self.chains))

    @property
    def angles(self) -> tuple[int, ...]:
        """Indices in q of the angles of which a full turn brings the bodies back."""
        return tuple(element.q.start for element in self.elements if element.joint.is_angle)

    @cached_property
    def quaternions(self) -> tuple[tuple[str, slice], ...]:
        """The unit quaternions in q: the name of the joint, and its four coordinates."""
        found = [
            (element.name, element.q.start + element.joint.quaternion)
            for element in self.elements
            if element.joint.quaternion is not None
        ]
        return tuple((name, slice(start, start + 4)) for name, start in found)

    def neutral(self) -> np.ndarray:
        """The configuration (nq,) of zero angles and displacements."""
        return np.concatenate([joint.neutral() for joint in self.joints])

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """A configuration (nq,): angles in [-pi, pi), lengths in [-1, 1) m, rotations uniform."""
        return np.concatenate([joint.random(rng) for joint in self.joints])

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether q is a configuration; one boolean."""
        return self.frame.valid_at(q)

    def explain(self, q: Any) -> None:
        """Raise the error that says why q (nq,) is not a configuration."""
        self.frame.explain(q)

    def __getstate__(self) -> dict[str, Any]:
        """The fields, which are pickled."""
        return {field.name: getattr(self, field.name) for field in fields(cast("Any", self))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled; flags of arrays are not."""
        self.__dict__.update(state)
        make_read_only(self)


@dataclass(frozen=True, eq=False)
class Kinematics(Coordinates):
    """The kinematics of a tree at one configuration.

    Parameters
    ----------
    tree : the bodies.
    """

    tree: Tree

    @property
    def joints(self) -> tuple[Joint, ...]:
        """The joints, in the order of the bodies."""
        return self.tree.joints

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The names of `joints`."""
        return self.tree.joint_names

    @property
    def frame(self) -> FrameField:
        """The frame in which v are components: the product of the joints' frames."""
        return self.joint_frame

    @cached_property
    def body_of(self) -> np.ndarray:
        """(nv,) the body whose joint has this velocity component."""
        return np.repeat(np.arange(len(self.joints)), np.diff(self.v_starts))

    @cached_property
    def moves(self) -> np.ndarray:
        """(N, nv) whether this velocity component moves this body."""
        return self.tree.supports[:, self.body_of]

    @cached_property
    def placements(self) -> np.ndarray:
        """(N, 4, 4), m: joint frames in the frames of their parent bodies."""
        placements = np.tile(np.eye(4), (len(self.joints), 1, 1))
        placements[:, :3, :3] = Rotation.from_quat(self.tree.quaternions).as_matrix()
        placements[:, :3, 3] = self.tree.positions
        return placements

    @property
    def coordinate_of(self) -> np.ndarray:
        """The coordinate of which each velocity component is the rate, (nv,); -1 if there is none."""
        coordinates = np.full(self.nv, -1)
        for joint, _, at_q, at_v in self.elements:
            if joint.quaternion is None:
                coordinates[at_v] = np.arange(at_q.start, at_q.stop)
        return coordinates

    @cached_property
    def cluster_tree(self) -> ClusterTree:
        """The arborescence of clusters; in a tree every cluster is one body."""
        count = len(self.joints)
        return cluster_tree(self.tree, np.arange(count), self.tree.parents, np.ones(count, dtype=bool))

    @cached_property
    def rotors(self) -> Rotors:
        """Armature as rigid bodies."""
        return Rotors.of(self.elements, self.tree.armature)

    def rotor_jacobians_at(self, q: jax.Array) -> jax.Array:
        """S (R, 6, nv): the twists of the rotors, in their axes, are S v; the same at all q (nq,)."""
        return jnp.asarray(self.rotors.twists)

    def rotor_poses_at(self, q: jax.Array) -> jax.Array:
        """(R, 7) [position, m, quaternion] of the rotors, at q (nq,)."""
        return self.rotors.poses_at(q)

    def joint_poses_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Quaternions (N, 4) and positions (N, 3), m, of the bodies in their joint frames, at q (nq,)."""
        moved = [
            jax.vmap(group.kind.transform_with)(jnp.asarray(group.parameters), q[group.coordinates])
            for group in self._groups
        ]
        quaternions, positions = zip(*moved, strict=True)
        return self._in_body_order(quaternions), self._in_body_order(positions)

    @traced_once
    def world_transforms_at(self, q: jax.Array) -> jax.Array:
        """Homogeneous transforms (N, 4, 4), m, of the bodies in the world, at q (nq,)."""
        quaternions, positions = self.joint_poses_at(q)
        return self._composed(jnp.asarray(self.placements), quaternions, positions)

    @traced_once
    def levers_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Rotations (N, 3, 3) of the bodies, and p_b - p_j, (N, N, 3), m, in world axes, if j carries b."""
        quaternions, displacements = self.joint_poses_at(q)
        numbers: Any = jnp if is_traced(self.placements) else np
        on_ground = np.zeros((len(self.joints), 4, 4), dtype=bool)
        on_ground[self.tree.parents < 0, :3, 3] = True  # the same for all bodies of a subtree
        placements = numbers.where(on_ground, 0.0, self.placements)
        sliding = np.array([joint.nv > 0 and _slides(joint) for joint in self.joints])
        still = self._composed(jnp.asarray(placements), quaternions, jnp.zeros_like(displacements))
        rotation, position = still[:, :3, :3], still[:, :3, 3]
        placed = jnp.concatenate([rotation, jnp.eye(3)[None]])[self.tree.parents] @ placements[:, :3, :3]
        steps = jnp.einsum("kab,kb->ka", placed, displacements)[sliding]
        behind = jnp.asarray(self.tree.supports[:, sliding], dtype=steps.dtype)
        beyond = (1.0 - behind)[:, :, None] * steps[None]  # zero for joints that move the first body, too
        return rotation, position[:, None] - position[None] + jnp.einsum("bk,jka->bja", behind, beyond)

    def _composed(self, placements: jax.Array, quaternions: jax.Array, positions: jax.Array) -> jax.Array:
        """Transforms (N, 4, 4) in the world for joint frames (N, 4, 4) and poses of bodies in them."""
        transforms = placements @ homogeneous(rotation_matrix(quaternions), positions)
        transforms = jnp.concatenate([transforms, jnp.eye(4)[None]])  # the ground comes last
        for above in self._jumps:
            transforms = transforms[above] @ transforms
        return transforms[:-1]

    @traced_once
    def world_quaternions_at(self, q: jax.Array) -> jax.Array:
        """Orientations (N, 4) of the bodies in the world, at q (nq,): quaternion products, hence smooth."""
        quaternions = quaternion_product(jnp.asarray(self.tree.quaternions), self.joint_poses_at(q)[0])
        quaternions = jnp.concatenate([quaternions, jnp.array([[0.0, 0.0, 0.0, 1.0]])])
        for above in self._jumps:
            quaternions = quaternion_product(quaternions[above], quaternions)
        return quaternions[:-1]

    @traced_once
    def Phi_columns_at(self, q: jax.Array) -> jax.Array:
        """The columns of all Phi, (nv, 6): twists [omega; v] in the axes of the joint's child body."""
        columns = []
        for group in self._groups:
            Phi = jax.vmap(group.kind.motion_with)(jnp.asarray(group.parameters), q[group.coordinates])
            columns.append(jnp.swapaxes(Phi, 1, 2).reshape(-1, 6))
        widths = np.diff(self.v_starts)
        starts = [np.repeat(group.bodies, widths[group.bodies]) for group in self._groups]
        order = np.argsort(np.concatenate(starts), kind="stable")
        return jnp.concatenate(columns)[order]

    @traced_once
    def body_jacobians_at(self, q: jax.Array) -> jax.Array:
        """A = X Phi, (N, 6, nv), at q (nq,): body twists [omega; v] = A v, in body axes.

        Source: [W] VI-B.
        """
        (rotation, levers), columns = self.levers_at(q), self.Phi_columns_at(q)
        at_joint = rotation[self.body_of]
        w = jnp.einsum("jab,jb->ja", at_joint, columns[:, :3])
        u = jnp.einsum("jab,jb->ja", at_joint, columns[:, 3:])
        lever = levers[:, self.body_of]
        linear = u[None] + jnp.einsum("jab,njb->nja", skew(w), lever)
        back = jnp.swapaxes(rotation, 1, 2)
        twists = jnp.concatenate(
            [jnp.einsum("nab,jb->naj", back, w), jnp.einsum("nab,njb->naj", back, linear)], axis=1
        )
        return jnp.where(self.moves[:, None, :], twists, 0.0)

    @cached_property
    def _groups(self) -> tuple[_JointGroup, ...]:
        groups = []
        for kind in dict.fromkeys(type(joint) for joint in self.joints):
            bodies = np.array([b for b, joint in enumerate(self.joints) if type(joint) is kind])
            coordinates = self.q_starts[bodies][:, None] + np.arange(kind.nq)
            parameters = np.stack([self.joints[b].parameters for b in bodies])
            groups.append(_JointGroup(kind, bodies, coordinates, parameters))
        return tuple(groups)

    @cached_property
    def _jumps(self) -> tuple[np.ndarray, ...]:
        """Ancestors at distance 1, 2, 4, ..., (N + 1,) each; the ground is number N and its own ancestor."""
        ground = len(self.joints)
        above = np.append(np.where(self.tree.parents < 0, ground, self.tree.parents), ground)
        jumps = []
        while (above != ground).any():
            jumps.append(above)
            above = above[above]
        return tuple(jumps)

    def _in_body_order(self, by_group: Sequence[jax.Array]) -> jax.Array:
        order = np.argsort(np.concatenate([group.bodies for group in self._groups]))
        return jnp.concatenate(by_group)[order]


def _elements(joint: Joint, name: str, at_q: int, at_v: int) -> tuple[Element, ...]:
    """The chain of a joint whose coordinates and velocities begin at `at_q` and `at_v`."""
    found = []
    for element in joint.chain:
        if not isinstance(element, ElementaryJoint):
            raise ModelError(
                f"joint '{name}': its chain must consist of elementary joints, got {type(element).__name__}"
            )
        own = slice(at_q, at_q + element.nq), slice(at_v, at_v + element.nv)
        found.append(Element(element, name, *own))
        at_q, at_v = own[0].stop, own[1].stop
    return tuple(found)


def _slides(joint: Joint) -> bool:
    """Whether the joint may displace its child."""
    return any(element.motion[3:].any() for element in joint.chain)


def product_of_frames(joints: Sequence[Joint], names: Sequence[str]) -> FrameField:
    """The product of the joints' frames, neighbouring coordinate frames merged; errors name the joint."""
    frames: list[FrameField] = []
    for joint, name in zip(joints, names, strict=True):
        frame = joint.frame
        if isinstance(frame, SO3Frame | SE3Frame):
            frame = type(frame)(f"joint '{name}'")
        if isinstance(frame, CoordinateFrame) and frames and isinstance(frames[-1], CoordinateFrame):
            before = frames.pop()
            frame = CoordinateFrame(before.dim + frame.dim, before.periods + frame.periods)
        frames.append(frame)
    return frames[0] if len(frames) == 1 else ProductFrame(*frames)
