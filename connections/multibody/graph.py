"""From links and joints to a tree of moving bodies, as integer arrays.

The graph of links (nodes) and joints (edges, parent to child) must be an arborescence. Links behind fixed
joints are merged into the body that carries them, their inertias composed; what is fixed to the ground
disappears into it. Bodies are numbered depth first, joint i moving body i relative to ``parents[i]``.
networkx is used here and nowhere else. Source: [W] VI-B.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import networkx as nx
import numpy as np
from scipy.spatial.transform import Rotation

from connections.checks import ModelError
from connections.multibody.inertia import NO_INERTIA, BodyInertia
from connections.multibody.joints import Fixed, Joint

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
    """A joint between two links.

    Parameters
    ----------
    name : unique.
    parent, child : link names; the parent may be `GROUND`.
    joint : its type.
    placement : (4, 4) homogeneous transform, m: the joint frame in the parent link frame. The child link
        frame coincides with the joint frame at the joint's neutral configuration.
    """

    name: str
    parent: Hashable
    child: str
    joint: Joint
    placement: np.ndarray


@dataclass(frozen=True, eq=False)
class Tree:
    """N moving bodies in depth-first order; joint i moves body i.

    Parameters
    ----------
    body_names, joint_names, joints : N each; a body has the name of the link that its joint moves.
    links : N tuples, the names of the links merged into each body, its own first.
    parents : (N,) number of the parent body, -1 for the ground; parents[i] < i.
    quaternions, positions : (N, 4) and (N, 3), m: joint frame i in the frame of its parent body.
    inertias : (N, 6, 6) spatial inertias in body frames, merged links included.
    """

    body_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    joints: tuple[Joint, ...]
    links: tuple[tuple[str, ...], ...]
    parents: np.ndarray
    quaternions: np.ndarray
    positions: np.ndarray
    inertias: np.ndarray

    @property
    def supports(self) -> np.ndarray:
        """Whether joint j moves body b, (N, N) booleans indexed [b, j]."""
        count = len(self.parents)
        moved = np.eye(count, dtype=bool)
        for body, parent in enumerate(self.parents):
            if parent >= 0:
                moved[body] |= moved[parent]
        return moved

    def cluster_tree(self) -> ClusterTree:
        """The arborescence of clusters, from the ground out.

        Nodes are tuples of body names, here of one body each, with the attributes ``bodies`` and ``joints``
        (names); the root is `GROUND`, with neither.
        """
        graph = ClusterTree()
        graph.add_node(GROUND, bodies=(), joints=())
        for body, joint, parent in zip(self.body_names, self.joint_names, self.parents, strict=True):
            graph.add_node((body,), bodies=(body,), joints=(joint,))
            graph.add_edge(GROUND if parent < 0 else (self.body_names[parent],), (body,))
        return graph


def find_root(names: Sequence[Hashable], edges: Sequence[Edge]) -> Hashable:
    """The only root of the graph, after every check that it is an arborescence.

    Parameters
    ----------
    names : the links, `GROUND` among them where joints hang from it.
    edges : the joints.

    Raises
    ------
    ModelError : no links, a duplicate name, a joint to a link that is not there, a cycle, a link with two
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
                f"link '{link}' has {count} parents (joints {joints}): closed loops are not yet supported"
            )
    roots = [link for link, count in graph.in_degree() if count == 0]
    if len(roots) > 1:
        raise ModelError("not connected, there are several root links: " + ", ".join(f"'{r}'" for r in roots))
    return roots[0]


def build_tree(links: Sequence[Link], edges: Sequence[Edge]) -> Tree:
    """The tree of moving bodies under the ground.

    Parameters
    ----------
    links : all links, the ground not among them.
    edges : all joints; every root hangs from `GROUND`. The joints of one parent are visited in their order
        here, which decides the numbering of bodies.

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
    # Each entry: the edge to follow, the body that carries it, and the placement of its parent link there.
    stack = [(edge, -1, np.eye(4)) for edge in reversed(leaving.get(GROUND, []))]
    while stack:
        edge, carrier, pose = stack.pop()
        pose = pose @ edge.placement
        if not isinstance(edge.joint, Fixed):
            bodies.append(_Body(edge, carrier, pose))
            carrier, pose = len(bodies) - 1, np.eye(4)
        if carrier >= 0:
            bodies[carrier].merge(edge.child, inertias[edge.child], pose)
        stack.extend((after, carrier, pose) for after in reversed(leaving.get(edge.child, [])))
    if not bodies:
        raise ModelError("nothing moves: there is no joint but fixed ones")
    return _tree(bodies)


class _Body:
    """A moving body while its fixed links are being merged."""

    def __init__(self, edge: Edge, parent: int, placement: np.ndarray) -> None:
        self.edge, self.parent, self.placement = edge, parent, placement
        self.inertia = NO_INERTIA
        self.links: tuple[str, ...] = ()

    def merge(self, name: str, inertia: BodyInertia, pose: np.ndarray) -> None:
        """Add the link `name` whose frame is placed at `pose` (4, 4) in the body frame."""
        self.links = (*self.links, name)
        self.inertia = self.inertia + inertia.seen_from(pose[:3, :3], pose[:3, 3])


def _tree(bodies: list[_Body]) -> Tree:
    placements = np.stack([body.placement for body in bodies])
    return Tree(
        body_names=tuple(body.edge.child for body in bodies),
        joint_names=tuple(body.edge.name for body in bodies),
        joints=tuple(body.edge.joint for body in bodies),
        links=tuple(body.links for body in bodies),
        parents=np.array([body.parent for body in bodies]),
        quaternions=Rotation.from_matrix(placements[:, :3, :3]).as_quat(),
        positions=placements[:, :3, 3],
        inertias=np.stack([body.inertia.matrix for body in bodies]),
    )


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
