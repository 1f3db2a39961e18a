"""The clusters of a closed chain written as the flat array `layout.CLUSTERS`.

P_lk is the twist of link l of a cluster, relative to the link of another cluster that supports it, per unit
of column k of its cluster. Such a pair (l, k) is an entry; entries whose P vanishes identically are left out.
`up` leads from an entry to the entry before: of the same link, or the last of its support. So a walk along
`up` to the ground meets all columns that move the link. A joint that is in no loop or coupling is alone in
its cluster; here each of its elementary links counts as one cluster, whose P is Phi. Source: [W] VI-C.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from connections.multibody.kernels.layout import CLUSTERS, PAIR, TREE
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.program.solution_layout import SolutionLayout
from connections.multibody.program.tree_packing import Links, first_of_runs


def pack_clusters(closed: ClosedKinematics, tree: np.ndarray) -> np.ndarray:
    """The flat array of the clusters.

    Parameters
    ----------
    closed : the closed chains.
    tree : the flat array of their spanning tree.
    """
    links, layout = _links(closed), SolutionLayout(closed)
    of_velocity = closed.spanning.body_of
    varies = closed.implicit_clusters[closed.clusters.of_body[of_velocity]]
    varies &= ~closed.clusters.independent[of_velocity]
    G = closed.linear[0]
    integers = {"G_row": _rows_of_G(closed, links, layout), "LG_rows": np.where(varies, layout.LG, -1)}
    independent = np.full(closed.spanning.nv, -1)
    independent[closed.v_columns] = np.arange(closed.nv)
    integers["independent"] = independent
    integers |= _cluster_tables(closed, links)
    pattern = G != 0.0
    pattern.ravel()[layout.in_G] |= np.repeat(varies, layout.widths)
    entries, pairs = _entry_tables(links, pattern, varies)
    integers |= entries
    integers |= _group_tables(links, entries)
    G_varies, LG_varies = np.repeat(varies, layout.widths), np.repeat(varies, layout.widths**2)
    varying = layout.nq + np.flatnonzero(np.concatenate([G_varies, LG_varies]))
    constant, values = layout.nq + np.flatnonzero(~G_varies), G.ravel()[layout.in_G][~G_varies]
    begin = TREE.read(tree, "result")
    sizes = {
        "clusters": len(links.parents),
        "nv": closed.nv,
        "nq": closed.nq,
        "solution_size": layout.size,
        "G_size": layout.G_size,
        "varying_count": len(varying),
        "constant_count": len(constant),
        "entry_count": len(entries["column"]),
        "pair_count": pairs,
        "spanning_nq": closed.spanning.nq,
        "spanning_nv": closed.spanning.nv,
        "bodies": len(closed.tree.joints),
    }
    sizes["memory_size"] = len(tree) + begin + CLUSTERS.slots(sizes)
    integers |= {"varying": varying, "constant": constant}
    return CLUSTERS.pack(sizes, integers, {"constants": values}, begin)


def tied_bodies(closed: ClosedKinematics) -> np.ndarray:
    """(N,) whether a body's joint is in a loop or coupling; other bodies are clusters by themselves."""
    clusters = closed.clusters
    alone = np.bincount(clusters.of_body, minlength=clusters.count) == 1
    tied: np.ndarray = ~(alone[clusters.of_body] & clusters.independent)
    return tied


class _Clustered(NamedTuple):
    """Elementary links, 0 the ground, (links + 1,) each, and the clusters that they form.

    A cluster of one free joint is split into one cluster per elementary link.
    """

    body: np.ndarray  # number of the body whose joint has the link, also for a massless link
    first: np.ndarray  # (links + 2,) first spanning column
    inert: np.ndarray  # whether there is inertia or armature
    cluster: np.ndarray
    support: np.ndarray
    above: np.ndarray
    direct: np.ndarray
    parents: np.ndarray  # (clusters,)
    column_first: np.ndarray  # (clusters + 1,)


def _links(closed: ClosedKinematics) -> _Clustered:
    links, clusters, trivial = Links.of(closed.spanning), closed.clusters, ~tied_bodies(closed)
    body, parent, widths = links.body, links.parent, np.diff(links.first)
    armed = np.zeros(len(body), dtype=bool)
    armed[np.repeat(np.arange(len(body)), widths)[closed.tree.armature != 0.0]] = True
    cluster, support, above = (np.zeros(len(body), dtype=np.int64) for _ in range(3))
    cluster[0] = -1
    parents: list[int] = []
    columns: list[int] = []
    for number in range(clusters.count):
        column = int(closed.column_starts[number])
        own = np.flatnonzero(np.isin(body, np.flatnonzero(clusters.of_body == number)))
        if trivial[body[own[0]]]:
            for link in own:
                support[link] = parent[link]
                cluster[link] = len(parents)
                parents.append(int(cluster[parent[link]]))
                columns.append(column)
                column += int(widths[link])
        else:
            support[own] = links.carrier[clusters.supports[body[own]]]
            cluster[own] = len(parents)
            parents.append(int(max(cluster[support[own]])))
            columns.append(column)
            above[own] = np.where(np.isin(parent[own], own), parent[own], 0)
    return _Clustered(
        body,
        links.first,
        ~links.massless | armed,
        cluster,
        support,
        above,
        np.concatenate([[False], trivial[body[1:]]]),
        np.array(parents),
        np.array([*columns, closed.nv]),
    )


def _rows_of_G(closed: ClosedKinematics, links: _Clustered, layout: SolutionLayout) -> np.ndarray:
    """Where the row of G of every spanning column begins in a solution; if its P is Phi, where its 1 is."""
    of_column = np.repeat(np.arange(len(links.body)), np.diff(links.first))
    body = links.body[of_column]
    own = links.column_first[links.cluster[of_column]] + np.arange(len(body)) - links.first[of_column]
    start = closed.column_starts[closed.clusters.of_body[body]]
    rows: np.ndarray = layout.G + np.where(links.direct[of_column], own - start, 0)
    return rows


def _cluster_tables(closed: ClosedKinematics, links: _Clustered) -> dict[str, np.ndarray]:
    column_first, cluster = links.column_first, links.cluster
    before = np.arange(-1, closed.nv - 1)
    last: list[int] = []  # last column of each cluster; if it has none, of the nearest before it that has
    for number, parent in enumerate(links.parents):
        first, stop = column_first[number : number + 2]
        above = last[parent] if parent >= 0 else -1
        before[first:stop][:1] = above
        last.append(stop - 1 if stop > first else above)
    return {
        "column_first": column_first,
        "support": links.support,
        "above": links.above,
        "direct": links.direct,
        "link_column": np.append(0, column_first[cluster[1:]]),
        "link_width": np.append(0, np.diff(column_first)[cluster[1:]]),
        "before": before,
        "run": first_of_runs(before),
    }


def _entry_tables(
    links: _Clustered, pattern: np.ndarray, varies: np.ndarray
) -> tuple[dict[str, np.ndarray], int]:
    """The tables of the entries, and the number of their pairs that have slots."""
    entry_first, walk, pairs, table = [0, 0], [-1], [-1], [0]
    column: list[int] = []
    home: list[int] = []
    up: list[int] = []
    same: list[int] = []
    entry_at: list[int] = []
    seen: list[list[int]] = [[]]  # columns of each link
    count = 0
    for link in range(1, len(links.body)):
        own = slice(links.first[link], links.first[link + 1])
        above, first = int(links.above[link]), len(column)
        columns = sorted({*seen[above], *np.flatnonzero(pattern[own].any(axis=0)).tolist()})
        seen.append(columns)
        start, stop = links.column_first[links.cluster[link] : links.cluster[link] + 2]
        table.append(len(entry_at))
        entry_at += [first + columns.index(k) if k in columns else -1 for k in range(start, stop)]
        for k in columns:
            up.append(len(column) - 1 if len(column) > first else walk[links.support[link]])
            same.append(entry_first[above] + seen[above].index(k) if k in seen[above] else -1)
            column.append(k)
            home.append(link)
        entry_first.append(len(column))
        walk.append(len(column) - 1 if columns else walk[links.support[link]])
        straight = links.direct[link] or (above == 0 and not varies[own].any())
        pairs.append(-1 if straight else PAIR.size * count)
        count += 0 if straight else len(columns) ** 2
    names = ("entry_first", "walk", "pairs", "table", "column", "home", "up", "same", "entry_at")
    values = (entry_first, walk, pairs, table, column, home, up, same, entry_at)
    return {name: np.array(value) for name, value in zip(names, values, strict=True)}, count


def _group_tables(links: _Clustered, entries: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tables of the members of every cluster, grouped by their supports."""
    carries = np.isin(np.arange(len(links.body)), links.support)
    column, first = entries["column"], entries["entry_first"]
    member_lists: list[list[int]] = []
    supports: list[int] = []
    group_first, many_members, many_groups = [0], [], []
    for number in range(len(links.parents)):
        own = np.flatnonzero((links.cluster == number) & (links.inert | carries))
        own_supports = np.unique(links.support[own])
        for support in own_supports:
            member_lists.append(own[links.support[own] == support].tolist())
            supports.append(int(support))
        group_first.append(len(member_lists))
        many_members.append(len(own) > 1)
        many_groups.append(len(own_supports) > 1)
    seen = [
        sorted({int(k) for m in group for k in column[first[m] : first[m + 1]]}) for group in member_lists
    ]
    return {
        "group_first": np.array(group_first),
        "many_members": np.array(many_members),
        "many_groups": np.array(many_groups),
        "group_support": np.array(supports, dtype=np.int64),
        "group_member": np.cumsum([0, *map(len, member_lists)]),
        "group_seen": np.cumsum([0, *map(len, seen)]),
        "members": np.array([m for group in member_lists for m in group], dtype=np.int64),
        "seen": np.array([k for group in seen for k in group], dtype=np.int64),
    }
