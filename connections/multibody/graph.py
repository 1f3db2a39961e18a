"""The tree of moving bodies of links and joints, and the tree of clusters of their loops, as integer arrays.

The graph of links (nodes) and joints (edges, parent to child) must be an arborescence: the spanning tree of
the mechanism. Links behind fixed joints are merged with the body that carries them, and their inertias added;
links that are fixed to the ground become part of the ground. Bodies are numbered depth first; joint i moves
body i relative to ``parents[i]``. Loops and couplings constrain bodies together; `cluster_bodies` groups the
bodies into the smallest clusters whose graph is an arborescence. networkx is used only in this file.
Source: [W] VI-B, VI-C.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
from scipy.spatial.transform import Rotation

from connections._shown import shown
from connections._words import no_such
from connections.checks import ModelError, is_traced
from connections.multibody.clusters import make_read_only
from connections.multibody.inertia import NO_INERTIA, BodyInertia, inertia_of_matrix, require_sums
from connections.multibody.joints import Fixed, Joint
from connections.multibody.joints.armature import armature_of
from connections.multibody.joints.keyframes import Keyframes
from connections.multibody.joints.limits import Limits
from connections.multibody.joints.motors import Motor, Passive

ClusterTree: TypeAlias = nx.DiGraph
GROUND = ("ground",)  # the node of the world; not a string, so that no link can have its name


@dataclass(frozen=True, eq=False)
class Link:
    """A rigid link as a robot description gives it.

    Parameters
    ----------
    name : unique.
    inertia : about the link frame, in link axes.
    """

    name: str
    inertia: BodyInertia


@dataclass(frozen=True, eq=False)
class Edge:
    """A joint between two links."""

    name: str  #: unique
    #: link names; the parent may be `GROUND`
    parent: Hashable
    child: str
    joint: Joint  #: the joint's type with its parameters
    #: (4, 4) homogeneous transform, m: the joint frame in the parent link frame. The child link frame
    #: coincides with the joint frame at the joint's neutral configuration
    placement: np.ndarray
    limits: Limits = Limits()
    armature: Any = 0.0  #: kg m^2 and kg, for all velocity components or (nv_J,) for each
    actuated: bool = False  #: whether it has a motor


@dataclass(frozen=True, eq=False)
class FixedJoint:
    """A joint that does not move, whose links are merged into one body."""

    name: str
    parent: Hashable  #: a link, or the ground
    child: Hashable  #: a link
    inertia: np.ndarray  #: (6, 6) spatial inertia of the child link alone, in its frame

    def inertia_in(self, tree: Tree) -> np.ndarray:
        """The inertia (6, 6) of the child link in the frame of the body that it is a part of."""
        pose = tree.placements[self.child][1]
        return inertia_of_matrix(self.inertia).seen_from(pose[:3, :3], pose[:3, 3]).matrix


def no_joint(tree: Tree, name: Any, names: Sequence[str], kind: str = "joint") -> str:
    """Why there is no joint of this name among those of these names, in words.

    Parameters
    ----------
    tree : of the robot; a fixed joint of it is told to be one.
    kind : of the joints, in the singular.
    """
    if any(joint.name == name for joint in tree.fixed):
        others = ", ".join(map(shown, names))
        return f"joint {shown(repr(name))} is fixed: it has no coordinates. The joints are {others}"
    return no_such(kind, name, names)


@dataclass(frozen=True, eq=False)
class Tree:
    """N moving bodies in depth-first order; joint i moves body i."""

    #: N each; a body has the name of the link that its joint moves
    body_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    joints: tuple[Joint, ...]
    #: N tuples, the names of the links merged into each body, its own first
    links: tuple[tuple[str, ...], ...]
    parents: np.ndarray  #: (N,) number of the parent body, -1 for the ground; parents[i] < i
    #: (N, 4) and (N, 3), m: joint frame i in the frame of its parent body
    quaternions: np.ndarray
    positions: np.ndarray
    inertias: np.ndarray  #: (N, 6, 6) spatial inertias in body frames, merged links included
    #: for each link, its body, -1 for the ground, and its frame in that body, (4, 4), m
    placements: Mapping[Hashable, tuple[int, np.ndarray]]
    limits: tuple[Limits, ...]  #: N, of the joints
    armature: np.ndarray  #: (nv,) of the joints' velocities, kg m^2 and kg
    actuated: np.ndarray  #: (N,) whether joint i has a motor; the assembly of loops prefers it as independent
    motors: tuple[Motor, ...] = ()
    passive: Passive = Passive()
    keyframes: Keyframes = field(default_factory=dict)
    carriers: tuple[Hashable, ...] = ()  #: N, the links, or the ground, on which the joints are
    fixed: tuple[FixedJoint, ...] = ()  #: in no order

    def __post_init__(self) -> None:
        make_read_only(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled; flags of arrays are not."""
        self.__dict__.update(state)
        make_read_only(self)

    @property
    def mass(self) -> float:
        """The mass of all bodies that move, kg."""
        mass = self.inertias[:, 5, 5].sum()
        return mass if is_traced(mass) else float(mass)

    @property
    def standing(self) -> tuple[Tree, ...]:
        """The trees that stand on the ground, in order: no joint of one moves a body of another."""
        starts = np.flatnonzero(self.parents < 0)
        placements: list[dict[Hashable, tuple[int, np.ndarray]]] = [{} for _ in starts]
        for link, (body, pose) in self.placements.items():
            if body >= 0:
                number = int(np.searchsorted(starts, body, side="right")) - 1
                placements[number][link] = body - int(starts[number]), pose
        columns = np.cumsum([0, *(joint.nv for joint in self.joints)])
        trees: list[Tree] = []
        for start, stop, links in zip(starts, [*starts[1:], len(self.parents)], placements, strict=True):
            bodies = slice(start, stop)
            trees.append(
                Tree(
                    body_names=self.body_names[bodies],
                    joint_names=self.joint_names[bodies],
                    joints=self.joints[bodies],
                    links=self.links[bodies],
                    parents=np.maximum(self.parents[bodies] - start, -1),
                    quaternions=self.quaternions[bodies],
                    positions=self.positions[bodies],
                    inertias=self.inertias[bodies],
                    placements=links,
                    limits=self.limits[bodies],
                    armature=self.armature[columns[start] : columns[stop]],
                    actuated=self.actuated[bodies],
                    carriers=self.carriers[bodies],
                    fixed=tuple(joint for joint in self.fixed if joint.child in placements[len(trees)]),
                )
            )
        return tuple(trees)

    @property
    def supports(self) -> np.ndarray:
        """Whether joint j moves body b, (N, N) booleans indexed [b, j]."""
        count = len(self.parents)
        moved = np.eye(count, dtype=bool)
        for body, parent in enumerate(self.parents):
            if parent >= 0:
                moved[body] |= moved[parent]
        return moved


def cluster_bodies(
    parents: np.ndarray, ties: Iterable[Iterable[int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The smallest clusters of bodies such that each tie is in one cluster and the clusters form a tree.

    Parameters
    ----------
    parents : (N,) number of the parent body in the spanning tree, -1 for the ground.
    ties : for each loop or coupling, the bodies that it constrains together.

    Returns
    -------
    of_body, parents, supports : as in `clusters.Clusters`.

    The bodies between two tied bodies belong to their cluster, too, because a cycle of clusters is merged. If
    several clusters carry a cluster, those of them that another one of them carries are merged into it; if
    there are none, the carriers are merged with each other. So each cluster has one parent.
    """
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(parents)))
    graph.add_edges_from((int(parent), body) for body, parent in enumerate(parents) if parent >= 0)
    for tie in ties:
        _tie(graph, sorted(tie))
    while True:
        of_body = _components(graph)
        carriers: dict[int, dict[int, int]] = {}  # cluster -> {cluster that carries it: a body there}
        for body, parent in enumerate(parents):
            if parent >= 0 and of_body[parent] != of_body[body]:
                carriers.setdefault(int(of_body[body]), {})[int(of_body[parent])] = int(parent)
        merged = [(cluster, found) for cluster, found in carriers.items() if len(found) > 1]
        if not merged:
            break
        clusters = nx.DiGraph((above, cluster) for cluster, found in carriers.items() for above in found)
        for cluster, found in merged:
            later = [number for number in found if nx.ancestors(clusters, number) & set(found)]
            inside = [int(np.flatnonzero(of_body == cluster)[0]), *(found[number] for number in later)]
            _tie(graph, sorted(inside if later else found.values()))
    above = np.full(of_body.max() + 1, -1)
    supports = np.full(len(parents), -1)
    for body, parent in enumerate(parents):
        if parent >= 0:
            own = of_body[parent] == of_body[body]
            supports[body] = supports[parent] if own else parent
            if not own:
                above[of_body[body]] = of_body[parent]
    return of_body, above, supports


def cluster_tree(
    tree: Tree, of_body: np.ndarray, parents: np.ndarray, independent: np.ndarray
) -> ClusterTree:
    """The arborescence of clusters, from the ground out.

    Nodes are tuples of body names, with the attributes ``bodies``, ``joints``, ``independent`` and
    ``dependent`` (names; the last two are parts of ``joints``). The root is `GROUND`, whose attributes are
    empty.
    """
    graph = ClusterTree()
    graph.add_node(GROUND, bodies=(), joints=(), independent=(), dependent=())
    nodes: list[Hashable] = []
    for number, parent in enumerate(parents):
        members = np.flatnonzero(of_body == number)
        bodies = tuple(tree.body_names[body] for body in members)
        names = {
            "joints": members,
            "independent": members[independent[members]],
            "dependent": members[~independent[members]],
        }
        joints = {key: tuple(tree.joint_names[body] for body in chosen) for key, chosen in names.items()}
        graph.add_node(bodies, bodies=bodies, **joints)
        graph.add_edge(GROUND if parent < 0 else nodes[parent], bodies)
        nodes.append(bodies)
    return graph


def _tie(graph: nx.DiGraph, bodies: Sequence[int]) -> None:
    """Add a cycle through the bodies to the graph, so that they are strongly connected."""
    if len(bodies) > 1:
        nx.add_cycle(graph, bodies)


def _components(graph: nx.DiGraph) -> np.ndarray:
    """The number of the strongly connected component of each body.

    A component has a larger number than those that carry it; otherwise the order is that of the first bodies.
    """
    condensed = nx.condensation(graph)
    members = condensed.nodes(data="members")
    order = nx.lexicographical_topological_sort(condensed, key=lambda node: min(members[node]))
    of_body = np.empty(len(graph), dtype=np.int64)
    for number, node in enumerate(order):
        of_body[list(members[node])] = number
    return of_body


def find_root(names: Sequence[Hashable], edges: Sequence[Edge]) -> Hashable:
    """The only root of the graph, after all checks that the graph is an arborescence.

    Parameters
    ----------
    names : the links, with `GROUND` if a joint has it as parent.
    edges : the joints.

    Raises
    ------
    ModelError : no links, a duplicate name, a joint to a link that does not exist, a cycle, a link with two
        parents, several roots; the message names the links and joints.
    """
    if not names:
        raise ModelError("there are no links")
    _require_unique("link", names)
    _require_unique("joint", [edge.name for edge in edges])
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(names)
    for edge in edges:
        for role, link in (("parent", edge.parent), ("child", edge.child)):
            if link not in graph:
                raise ModelError(f"joint '{edge.name}': its {role} link '{link}' does not exist")
        graph.add_edge(edge.parent, edge.child, key=edge.name)
    _require_no_cycle(graph)
    for link, count in graph.in_degree():
        if count > 1:
            joints = ", ".join(f"'{name}'" for _, _, name in graph.in_edges(link, keys=True))
            raise ModelError(
                f"link '{link}' has {count} parents (joints {joints}): cut the loop at one of them, and "
                "add a loop there"
            )
    roots: list[Hashable] = [link for link, count in graph.in_degree() if count == 0]
    if len(roots) > 1:
        raise ModelError("not connected, there are several root links: " + ", ".join(f"'{r}'" for r in roots))
    return roots[0]


def build_tree(links: Sequence[Link], edges: Sequence[Edge]) -> Tree:
    """The tree of moving bodies under the ground.

    Parameters
    ----------
    links : all links, without the ground.
    edges : all joints; every root link has a joint to `GROUND`. The joints of one parent are visited in the
        order of this argument, which decides the numbering of bodies.

    Raises
    ------
    ModelError : as `find_root`; or nothing moves.
    """
    find_root([GROUND, *(link.name for link in links)], edges)
    inertias = {link.name: link.inertia for link in links}
    leaving: dict[Hashable, list[Edge]] = {}
    for edge in edges:
        leaving.setdefault(edge.parent, []).append(edge)
    bodies: list[_Body] = []
    fixed: list[FixedJoint] = []
    placements: dict[Hashable, tuple[int, np.ndarray]] = {GROUND: (-1, np.eye(4))}
    # Each entry: the edge to follow, the body that carries it, and the placement of its parent link there.
    stack = [(edge, -1, np.eye(4)) for edge in reversed(leaving.get(GROUND, []))]
    while stack:
        edge, carrier, pose = stack.pop()
        with np.errstate(over="ignore", invalid="ignore"):
            pose = pose @ edge.placement
        if not np.isfinite(pose).all():
            raise ModelError(f"joint '{edge.name}': its position is too large: it overflows")
        if not isinstance(edge.joint, Fixed):
            bodies.append(_Body(edge, carrier, pose))
            carrier, pose = len(bodies) - 1, np.eye(4)
        else:
            fixed.append(FixedJoint(edge.name, edge.parent, edge.child, inertias[edge.child].matrix))
        placements[edge.child] = carrier, pose
        if carrier >= 0:
            bodies[carrier].merge(edge.child, inertias[edge.child], pose)
        stack.extend((after, carrier, pose) for after in reversed(leaving.get(edge.child, [])))
    if not bodies:
        raise ModelError("nothing moves: there is no joint but fixed ones")
    return _tree(bodies, placements, tuple(fixed))


def with_locked(tree: Tree, poses: Mapping[int, np.ndarray]) -> Tree:
    """The tree in which some joints do not move: bodies behind them are merged with those that carry them.

    Parameters
    ----------
    tree : of moving bodies.
    poses : {number of the joint: (4, 4) pose of its child frame in the joint frame, m}.

    Raises
    ------
    ModelError : nothing moves.
    """
    links, edges = _parts(tree)
    fixed = [
        replace(edge, joint=Fixed(), placement=edge.placement @ poses[body], limits=Limits(), armature=0.0)
        if body in poses
        else edge
        for body, edge in enumerate(edges)
    ]
    merged = build_tree(links, fixed)
    places = [merged.placements[name] for name in tree.body_names]
    placements = {
        name: (body, pose) if body < 0 else (places[body][0], places[body][1] @ pose)
        for name, (body, pose) in tree.placements.items()
    }
    names = dict(zip(tree.body_names, tree.links, strict=True))
    own_links = tuple(tuple(name for body in bodies for name in names[body]) for bodies in merged.links)
    carriers = dict(zip(tree.joint_names, tree.carriers, strict=True))
    locked = tuple(
        FixedJoint(
            tree.joint_names[body], tree.carriers[body], tree.body_names[body], _of_own_link(tree, body)
        )
        for body in poses
    )
    return replace(
        merged,
        links=own_links,
        placements=placements,
        carriers=tuple(carriers[name] for name in merged.joint_names),
        fixed=tree.fixed + locked,
    )


def _of_own_link(tree: Tree, body: int) -> np.ndarray:
    """The inertia (6, 6) of a body without the links that are fixed to its own one."""
    others = [joint.inertia_in(tree) for joint in tree.fixed if tree.placements[joint.child][0] == body]
    return np.asarray(tree.inertias[body] - sum(others, np.zeros((6, 6))))


def subtree(tree: Tree, link: str) -> Tree:
    """The tree of the bodies that a link carries; the link is the ground, and its frame the world's.

    Parameters
    ----------
    tree : of moving bodies.
    link : a link or frame. Links that are fixed to it belong to the ground, too.

    Raises
    ------
    ModelError : it carries nothing that moves.
    """
    base, pose = tree.placements[link]
    back = np.linalg.inv(pose)
    supports = tree.supports
    kept = [body for body in range(len(supports)) if base < 0 or (supports[body, base] and body != base)]
    if not kept:
        raise ModelError(f"link '{link}' carries no joint that moves")
    links, edges = _parts(tree)
    cut = [
        replace(edge, parent=GROUND, placement=back @ edge.placement) if tree.parents[body] == base else edge
        for body, edge in enumerate(edges)
        if body in kept
    ]
    part = build_tree([links[body] for body in kept], cut)
    numbers = {body: number for number, body in enumerate(kept)}
    placements: dict[Hashable, tuple[int, np.ndarray]] = {GROUND: (-1, np.eye(4))}
    for name, (body, own) in tree.placements.items():
        if body == base and name != GROUND:
            placements[name] = -1, back @ own
        elif body in numbers:
            placements[name] = numbers[body], own
    names = dict(zip(tree.joint_names, tree.carriers, strict=True))
    carriers = [
        GROUND if part.parents[number] < 0 else names[name] for number, name in enumerate(part.joint_names)
    ]
    return replace(
        part,
        links=tuple(tree.links[body] for body in kept),
        placements=placements,
        carriers=tuple(carriers),
        fixed=tuple(joint for joint in tree.fixed if tree.placements[joint.child][0] in numbers),
    )


def _parts(tree: Tree) -> tuple[list[Link], list[Edge]]:
    """The bodies of a tree as links, and its joints, both in its order."""
    links = [
        Link(name, inertia_of_matrix(inertia))
        for name, inertia in zip(tree.body_names, tree.inertias, strict=True)
    ]
    rotations, edges, start = Rotation.from_quat(tree.quaternions).as_matrix(), [], 0
    for body, joint in enumerate(tree.joints):
        placement, parent = np.eye(4), int(tree.parents[body])
        placement[:3, :3], placement[:3, 3] = rotations[body], tree.positions[body]
        edges.append(
            Edge(
                tree.joint_names[body],
                GROUND if parent < 0 else tree.body_names[parent],
                tree.body_names[body],
                joint,
                placement,
                tree.limits[body],
                tree.armature[start : start + joint.nv],
                bool(tree.actuated[body]),
            )
        )
        start += joint.nv
    return links, edges


class _Body:
    """A moving body while the links that are fixed to it are merged."""

    def __init__(self, edge: Edge, parent: int, placement: np.ndarray) -> None:
        self.edge, self.parent, self.placement = edge, parent, placement
        self.inertia = NO_INERTIA
        self.links: tuple[str, ...] = ()

    def merge(self, name: str, inertia: BodyInertia, pose: np.ndarray) -> None:
        """Add the link `name` whose frame is placed at `pose` (4, 4) in the body frame."""
        self.links = (*self.links, name)
        with np.errstate(over="ignore", invalid="ignore"):
            self.inertia = self.inertia + inertia.seen_from(pose[:3, :3], pose[:3, 3])
            finite = np.isfinite(self.inertia.matrix).all()
        if not finite:
            raise ModelError(f"link '{name}': mass, inertia or position are too large: they overflow")


def _tree(
    bodies: list[_Body], links: dict[Hashable, tuple[int, np.ndarray]], fixed: tuple[FixedJoint, ...]
) -> Tree:
    placements = np.stack([body.placement for body in bodies])
    names = tuple(body.edge.child for body in bodies)
    inertias = np.stack([body.inertia.matrix for body in bodies])
    require_sums(names, inertias)
    return Tree(
        body_names=names,
        joint_names=tuple(body.edge.name for body in bodies),
        joints=tuple(body.edge.joint for body in bodies),
        links=tuple(body.links for body in bodies),
        parents=np.array([body.parent for body in bodies]),
        quaternions=Rotation.from_matrix(placements[:, :3, :3]).as_quat(),
        positions=placements[:, :3, 3],
        inertias=inertias,
        placements=links,
        limits=tuple(_limits(body.edge) for body in bodies),
        armature=np.concatenate(
            [armature_of(body.edge.name, body.edge.joint, body.edge.armature) for body in bodies]
        ),
        actuated=np.array([body.edge.actuated for body in bodies]),
        carriers=tuple(body.edge.parent for body in bodies),
        fixed=fixed,
    )


def _limits(edge: Edge) -> Limits:
    """The limits as arrays; those that are arrays already have been checked, by `Mechanism.add_joint`."""
    of_joint = isinstance(edge.limits.angle, np.ndarray)
    return edge.limits if of_joint else edge.limits.for_joint(edge.name, edge.joint)


def _require_unique(kind: str, names: Sequence[Hashable]) -> None:
    seen: set[Hashable] = set()
    for name in names:
        if name in seen:
            raise ModelError(f"two {kind}s have the name '{name}'")
        seen.add(name)


def _require_no_cycle(graph: nx.MultiDiGraph) -> None:
    try:
        cycle = nx.find_cycle(graph)
    except nx.NetworkXNoCycle:
        return
    path = " -> ".join(f"'{parent}' -[{joint}]" for parent, _, joint in cycle)
    raise ModelError(f"the joints form a cycle: {path} -> '{cycle[-1][1]}'")
