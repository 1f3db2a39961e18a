"""The closed loops of a mechanism written as the flat array `layout.CLOSURE`, with a `LOOP` for each.

Clusters without conditions, or with linear conditions only, have a constant G, which is found here, once. The
others are the loops. The array of a loop holds the links of its cluster as `tree_packing` expands them, in
the axes of the link that carries them, with columns s; its conditions r; and a table T[s, r], which gives K,

    K[r, s] = T[s, r] f_r . Phi_s   (geometric),    K[r, s] = T[s, r]   (linear),

with f_r the wrench of the condition (`loop_geometry`).
Source: [W] VI-C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from connections.checks import ModelError
from connections.engines.inlined.householder import staircase
from connections.engines.inlined.simd import LANES
from connections.engines.workspaces import with_workspace
from connections.multibody.clusters import LINEAR, TWIST, Clusters, Rows
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.kernels.layout import (
    BLOCK,
    CLOSURE,
    CONDITION,
    LINEAR_CLUSTER,
    LOOP,
    PARAMETERS,
    PLACEMENT,
)
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.program.solution_layout import SolutionLayout
from connections.multibody.program.tree_packing import Links

# Slots of a cache line. Workspaces of lanes begin at one: vectors that cross two lines take a third longer.
_LINE = 8


def pack_closure(closed: ClosedKinematics) -> np.ndarray:
    """The flat array of all loops with its workspace, which one thread at a time may use.

    Raises
    ------
    ModelError : the two ends of a loop are carried by different bodies outside of the loop's cluster.
    """
    rows, chains = closed.rows, _SpanningLinks.of(closed)
    layout = chains.layout
    template = np.zeros(layout.size)  # the numbers of a solution that are the same at all configurations
    template[layout.nq :][: layout.G_size] = closed.linear[0].ravel()[layout.in_G]
    template[-1] = 1.0  # the least pivot
    linear: list[np.ndarray] = []
    loops: list[np.ndarray] = []
    work = 0
    for cluster in [] if closed.functions else np.unique(rows.clusters):
        members = np.flatnonzero(rows.clusters == cluster)
        if (rows.kinds[members] == LINEAR).all():
            linear.append(_pack_linear(closed, chains, cluster))
        else:
            loop, slots = _pack_loop(closed, chains, cluster, members)
            loops.append(loop)
            work = max(work, slots)
    quaternions, own = ([at.start for _, at in of.quaternions] for of in (closed.spanning, closed))
    starts = np.cumsum([0, *map(len, linear), *map(len, loops)])[:-1]
    sizes = {
        "nq": len(closed.q_columns),
        "spanning_nq": closed.spanning.nq,
        "size": len(template),
        "functions": len(closed.functions),
        "quaternions": len(own),
        "spanning_quaternions": len(quaternions),
        "linear": len(linear),
        "loops": len(loops),
        "slots": work + -work % _LINE,
    }
    integers = {
        "columns": closed.q_columns,
        "quaternion_starts": own,
        "spanning_quaternion_starts": quaternions,
        "linear_starts": starts[: len(linear)],
        "loop_starts": starts[len(linear) :],
    }
    tables = np.concatenate([*linear, *loops, ()])
    numbers = {"template": template, "reference": closed.reference, "tables": tables, "work": ()}
    room = -len(CLOSURE.pack(sizes, integers, numbers)) % _LINE
    numbers["tables"] = np.concatenate([tables, np.zeros(room)])
    return with_workspace(CLOSURE.pack(sizes, integers, numbers), sizes["slots"])


def slots_of_rows(closure: np.ndarray, lanes: int = LANES) -> int:
    """How many slots rows of configurations need behind the array of all loops (`layout.CLOSURE`).

    Parameters
    ----------
    closure : that array.
    lanes : of a register, on another machine perhaps.
    """
    return lanes * (CLOSURE.read(closure, "slots") + BLOCK // LANES)


def slots_of_refinement(closure: np.ndarray) -> int:
    """How many slots solutions with more digits need there; less than rows of configurations do."""
    return 2 * CLOSURE.read(closure, "slots")


def pack_conditions(spanning: Kinematics, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The flat array of one loop that all links and all conditions of a mechanism belong to.

    Also the links (N + 1,) that are the bodies, the ground last, and E (N + 1, 3, 3), their axes in those of
    the bodies.
    """
    count = len(spanning.tree.joints)
    whole = Clusters(
        of_body=np.zeros(count, dtype=np.int64),
        parents=np.array([-1]),
        supports=np.full(count, -1),
        independent=np.ones(count, dtype=bool),
        sizes=np.ones(1),
    )
    rows = replace(rows, clusters=np.zeros_like(rows.clusters))
    closed = ClosedKinematics(spanning, whole, rows, (), (), spanning.neutral())
    chains = _SpanningLinks.of(closed)
    loop, work = _pack_loop(closed, chains, 0, np.arange(len(rows.kinds)))
    sizes = dict.fromkeys(CLOSURE.sizes, 0) | {"loops": 1}
    integers = dict.fromkeys(CLOSURE.integers, ()) | {"loop_starts": [0]}
    numbers = dict.fromkeys(CLOSURE.numbers, ()) | {"tables": loop}
    closure = with_workspace(CLOSURE.pack(sizes, integers, numbers), work)
    return closure, chains.links.carrier, np.stack([chains.E(body) for body in (*range(count), -1)])


class _SpanningLinks(NamedTuple):
    """The elementary links of the spanning tree, and its columns, numbered as in the tree."""

    links: Links
    layout: SolutionLayout
    place: np.ndarray  # (nv_s,) as `place` of `layout.LOOP`

    @classmethod
    def of(cls, closed: ClosedKinematics) -> _SpanningLinks:
        """The links and columns of the spanning tree of `closed`."""
        spanning, clusters = closed.spanning, closed.clusters
        place = np.empty(spanning.nv, dtype=np.int64)
        counts = np.zeros((clusters.count, 2), dtype=np.int64)
        for s, body in enumerate(spanning.body_of):
            cluster, free = clusters.of_body[body], int(clusters.independent[body])
            number = counts[cluster, free]
            place[s] = number if free else -1 - number
            counts[cluster, free] += 1
        return cls(Links.of(spanning), SolutionLayout(closed), place)

    def E(self, body: int) -> np.ndarray:
        """(3, 3), the axes of the link that is this body, in the axes of the body; -1 is the ground."""
        links = self.links
        return links.parameters[links.carrier[body], PARAMETERS.axes :].reshape(3, 3)


def _pack_linear(closed: ClosedKinematics, chains: _SpanningLinks, cluster: int) -> np.ndarray:
    """The array of a linear cluster, q_d = G q_i + g."""
    G, offset = closed.linear
    own = closed.clusters.of_body[closed.spanning.body_of] == cluster
    coordinate = closed.spanning.coordinate_of
    dependent = np.flatnonzero(own & (chains.place < 0))
    columns = np.arange(*closed.column_starts[cluster : cluster + 2])
    columns = columns[coordinate[closed.v_columns[columns]] >= 0]
    q_d, q_i = coordinate[dependent], coordinate[closed.v_columns[columns]]
    rows = np.column_stack([G[np.ix_(dependent, columns)], offset[q_d]])
    sizes = {"dependent": len(q_d), "independent": len(q_i)}
    return LINEAR_CLUSTER.pack(sizes, {"q_d": q_d, "q_i": q_i}, {"rows": rows})


def _pack_loop(
    closed: ClosedKinematics, chains: _SpanningLinks, cluster: int, members: np.ndarray
) -> tuple[np.ndarray, int]:
    """The array of a loop, and the number of workspace slots that it needs."""
    tree = chains.links
    links = np.flatnonzero(np.isin(tree.body, np.flatnonzero(closed.clusters.of_body == cluster)))
    local = np.zeros(len(tree.body), dtype=np.int64)
    local[links] = np.arange(1, len(links) + 1)
    widths = np.diff(tree.first)[links]
    columns = np.concatenate([np.arange(tree.first[link], tree.first[link + 1]) for link in links])
    nq = np.diff(tree.coordinate)[links]
    source = np.concatenate([tree.coordinate[link] + np.arange(n) for link, n in zip(links, nq, strict=True)])
    parent = np.concatenate([[0], local[tree.parent[links]]])
    link_a, link_b, conditions = _row_tables(closed, chains, members, local)
    T = _conditions_by_column(closed, chains, members, columns, (parent, link_a, link_b), widths)
    place, order = _order(chains.place[columns], np.repeat(np.arange(len(links)), widths), T)
    members, conditions, T = members[order], conditions[order], T[:, order]
    link_a, link_b = link_a[order], link_b[order]
    n, d = int((chains.place[columns] >= 0).sum()), int((chains.place[columns] < 0).sum())
    placements = tree.parameters[np.concatenate([[0], links]), : PLACEMENT.size]
    points = conditions[closed.rows.kinds[members] != TWIST, CONDITION.point_a : CONDITION.u].reshape(
        -1, 2, 3
    )
    reach = (
        np.linalg.norm(placements[:, PLACEMENT.position : PLACEMENT.pitch], axis=1).sum()
        + np.linalg.norm(points, axis=2).sum()
    )
    sizes = {
        "number": cluster,
        "links": len(links),
        "columns": len(columns),
        "independent": n,
        "dependent": d,
        "rows": len(members),
        "coordinates": len(source),
        "velocity": closed.column_starts[cluster],
    }
    packed = LOOP.pack(
        sizes,
        integers={
            "source": source,
            "follows": ~np.repeat(closed.clusters.independent[tree.body[links]], nq),
            "parent": parent,
            "kind": [-1, *tree.kind[links]],
            "coordinate": np.cumsum([0, 0, *nq])[:-1],
            "first": np.cumsum([0, 0, *widths]),
            "place": place,
            "G_at": chains.layout.G[columns],
            "LG_at": chains.layout.LG[columns],
            "row_kind": closed.rows.kinds[members],
            "link_a": link_a,
            "link_b": link_b,
            "stairs": staircase(T[np.argsort(np.where(place < 0, -1 - place, len(place)))[:d]].T != 0.0),
        },
        numbers={
            "parameters": placements,
            "row_parameters": conditions,
            "T": T,
            "lengths": [reach, closed.clusters.sizes[cluster]],
        },
    )
    return packed, LOOP.slots(sizes)


def _order(place: np.ndarray, link: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`place` (m,) and an order of the conditions (p,) by which zeros of K_d stand together.

    Dependent links that few conditions depend on come first, so that those of different loops are blocks of
    K_d; conditions are in the order of the first column that they depend on.
    """
    dependent, place = np.flatnonzero(place < 0), place.copy()
    of_link = {int(k): (T[link == k] != 0.0).any(axis=0) for k in link[dependent]}
    key = [(int(of_link[int(k)].sum()), int(np.argmax(of_link[int(k)])), int(k)) for k in link[dependent]]
    dependent = dependent[sorted(range(len(key)), key=key.__getitem__)]
    place[dependent] = -1 - np.arange(len(dependent))
    pattern = np.vstack([T[dependent] != 0.0, np.ones((1, T.shape[1]), dtype=bool)])
    return place, np.argsort(np.argmax(pattern, axis=0), kind="stable")


def _row_tables(
    closed: ClosedKinematics, chains: _SpanningLinks, members: np.ndarray, local: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The links of bodies a and b (0 if outside of the loop), and `CONDITION`, of each condition."""
    rows, clusters = closed.rows, closed.clusters
    ends: list[list[int]] = []
    parameters = np.zeros((len(members), CONDITION.size))
    for row, member in zip(parameters, members, strict=True):
        row[CONDITION.constant :] = rows.constants[member], rows.scales[member]
        if rows.kinds[member] == LINEAR:
            ends.append([0, 0])
            continue
        a, b = int(rows.bodies_a[member]), int(rows.bodies_b[member])
        own, carriers = [], []
        for body in (a, b):
            inside = body >= 0 and clusters.of_body[body] == rows.clusters[member]
            own.append(int(local[chains.links.carrier[body]]) if inside else 0)
            carriers.append(int(clusters.supports[body]) if inside else body)
        if carriers[0] != carriers[1]:
            raise ModelError(f"{_owners(closed, [member])} ties bodies that different bodies carry")
        ends.append(own)
        E_a, E_b = chains.E(a), chains.E(b)
        row[CONDITION.point_a : CONDITION.u] = *E_a.T @ rows.points_a[member], *E_b.T @ rows.points_b[member]
        row[CONDITION.u : CONDITION.constant] = *E_a.T @ rows.u[member], *E_b.T @ rows.w[member]
    link_a, link_b = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    return link_a, link_b, parameters


def _conditions_by_column(
    closed: ClosedKinematics,
    chains: _SpanningLinks,
    members: np.ndarray,
    columns: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray, np.ndarray],
    widths: np.ndarray,
) -> np.ndarray:
    """T[s, r], (m, p): the scale if column s moves b only, minus it if a only; or linear coefficients."""
    parent, link_a, link_b = ends
    moves = np.eye(len(parent), dtype=bool)
    for link in range(1, len(parent)):
        moves[link] |= moves[parent[link]]
    link_of = np.repeat(np.arange(1, len(parent)), widths)
    geometric = moves[link_b][:, link_of].astype(float) - moves[link_a][:, link_of]
    of_column = closed.spanning.coordinate_of[columns]
    linear = np.where(of_column >= 0, closed.rows.coefficients[members][:, of_column], 0.0)
    table = np.where((closed.rows.kinds[members] == LINEAR)[:, None], linear, geometric)
    scaled: np.ndarray = table * closed.rows.scales[members][:, None]
    return scaled.T


def _owners(closed: ClosedKinematics, members: Sequence[int]) -> str:
    names = dict.fromkeys(closed.names[owner] for owner in closed.rows.owners[members])
    return ", ".join(f"'{name}'" for name in names)
