"""The clusters of a closed chain written as the flat array `layout.CLUSTERS`.

P_lk is the twist of link l of a cluster, relative to the link of another cluster that supports it, per unit
of column k of its cluster. Such a pair (l, k) is an entry; entries whose P vanishes identically are left out.
`up` leads from an entry to the entry before: of the same link, or the last of its support. So a walk along
`up` to the ground meets all columns that move the link. A joint that is in no loop or coupling is alone in
its cluster; here each of its elementary links counts as one cluster, whose P is Phi.

A solution, [ q_s | G | LG ], holds the spanning configuration; then for each spanning column s its row of G
over the n columns of its cluster; then for each s LG[s, j, k], (n, n), the derivative of G[s, k] along
column j. Source: [W] VI-C.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from connections.multibody.dynamics.tree_packing import expand, has_inertia
from connections.multibody.kernels.layout import CLUSTERS, PAIR, TREE, clusters_work
from connections.multibody.loops.closed_kinematics import ClosedKinematics


class SolutionLayout(NamedTuple):
    """Where a solution holds G and LG: their first slots for every spanning column, (nv_s,), and its size."""

    G: np.ndarray
    LG: np.ndarray
    size: int


def solution_layout(closed: ClosedKinematics) -> SolutionLayout:
    """[ q_s | G | LG ]: n numbers of G and n^2 of LG for each spanning column of a cluster with n columns."""
    spanning = closed.spanning
    widths = np.diff(closed.column_starts)[closed.clusters.of_body[spanning.body_of]]
    G = spanning.nq + np.concatenate([[0], np.cumsum(widths)])
    LG = G[-1] + np.concatenate([[0], np.cumsum(widths**2)])
    return SolutionLayout(G[:-1], LG[:-1], int(LG[-1]))


def pack_clusters(closed: ClosedKinematics, tree: np.ndarray) -> np.ndarray:
    """The flat array of the clusters.

    Parameters
    ----------
    closed : the closed chains.
    tree : the flat array of their spanning tree.
    """
    links, layout = _links(closed), solution_layout(closed)
    of_velocity = closed.spanning.body_of
    varies = closed.implicit_clusters[closed.clusters.of_body[of_velocity]]
    varies &= ~closed.clusters.independent[of_velocity]
    G = closed.linear[0]
    integers = {"G_row": _rows_of_G(closed, links, layout), "LG_rows": np.where(varies, layout.LG, -1)}
    integers |= _cluster_tables(closed, links)
    entries, pairs = _entry_tables(links, _pattern(closed, G, varies), varies)
    integers |= entries
    integers |= _group_tables(links, entries)
    varying, constant, values = _parts(closed, layout, G, varies)
    G_size = int(layout.LG[0] - layout.G[0]) if layout.size > closed.spanning.nq else 0
    spanning = closed.spanning.nv, len(closed.tree.joints)
    work = clusters_work(layout.size, G_size, closed.nv, len(entries["column"]), pairs, spanning)
    begin = TREE.read(tree, "result")
    sizes = {
        "clusters": len(links.parents),
        "nv": closed.nv,
        "nq": closed.nq,
        "solution_size": layout.size,
        "G_size": G_size,
        "memory_size": len(tree) + begin + sum(work.values()),
        "varying_count": len(varying),
        "constant_count": len(constant),
    }
    integers |= {"varying": varying, "constant": constant}
    return CLUSTERS.pack(sizes, integers, {"constants": values}, work, begin)


def no_clusters() -> np.ndarray:
    """The array of a mechanism without bodies, for a trial call of a compiled function."""
    sizes = dict.fromkeys(CLUSTERS.sizes[1:], 0)
    return CLUSTERS.pack(sizes, dict.fromkeys(CLUSTERS.integers, np.zeros(2)), {"constants": ()})


class _Links(NamedTuple):
    """Elementary links, 0 the ground, (links + 1,) each, and the clusters that they form.

    A cluster of one free joint is split into one cluster per elementary link.
    """

    body: np.ndarray  # number of the body whose joint has the link, also for a massless link
    first: np.ndarray  # (links + 2,) first spanning column
    cluster: np.ndarray
    support: np.ndarray
    above: np.ndarray
    direct: np.ndarray
    massive: np.ndarray
    parents: np.ndarray  # (clusters,)
    column_first: np.ndarray  # (clusters + 1,)


def _links(closed: ClosedKinematics) -> _Links:
    spanning, clusters = closed.spanning, closed.clusters
    elements = expand(spanning)
    lengths = [len(joint.chain) for joint in spanning.tree.joints]
    body = np.concatenate([[-1], np.repeat(np.arange(len(lengths)), lengths)]).astype(np.int64)
    last = np.cumsum(lengths)  # of each body's links
    parent = np.array([0] + [element.parent for element in elements])
    widths = np.array([0] + [element.joint.nv for element in elements])
    massive = np.array([False] + [has_inertia(element.parameters) for element in elements])
    alone = np.bincount(clusters.of_body, minlength=clusters.count) == 1
    trivial = alone[clusters.of_body] & clusters.independent
    cluster, support, above = (np.zeros(len(body), dtype=np.int64) for _ in range(3))
    cluster[0] = -1
    parents: list[int] = []
    columns: list[int] = []
    for number in range(clusters.count):
        column = int(closed.column_starts[number])
        own = np.flatnonzero(np.isin(body, np.flatnonzero(clusters.of_body == number)))
        split = trivial[body[own[0]]]
        for link in own:
            carrier = clusters.supports[body[link]]
            support[link] = parent[link] if split else (last[carrier] if carrier >= 0 else 0)
            if split:
                cluster[link] = len(parents)
                parents.append(int(cluster[parent[link]]))
                columns.append(column)
                column += int(widths[link])
        if not split:
            cluster[own] = len(parents)
            parents.append(int(max(cluster[support[own]])))
            columns.append(column)
            above[own] = np.where(np.isin(parent[own], own), parent[own], 0)
    return _Links(
        body,
        np.concatenate([[0], np.cumsum(widths)]),
        cluster,
        support,
        above,
        np.concatenate([[False], trivial[body[1:]]]),
        massive,
        np.array(parents),
        np.array([*columns, closed.nv]),
    )


def _rows_of_G(closed: ClosedKinematics, links: _Links, layout: SolutionLayout) -> np.ndarray:
    """Where the row of G of every spanning column begins in a solution; if its P is Phi, where its 1 is."""
    of_column = np.repeat(np.arange(len(links.body)), np.diff(links.first))
    body = links.body[of_column]
    own = links.column_first[links.cluster[of_column]] + np.arange(len(body)) - links.first[of_column]
    start = closed.column_starts[closed.clusters.of_body[body]]
    rows: np.ndarray = layout.G + np.where(links.direct[of_column], own - start, 0)
    return rows


def _pattern(closed: ClosedKinematics, G: np.ndarray, varies: np.ndarray) -> np.ndarray:
    """Which entries of G are not identically zero, (nv_s, nv)."""
    of_column = np.repeat(np.arange(closed.clusters.count), np.diff(closed.column_starts))
    own = closed.clusters.of_body[closed.spanning.body_of][:, None] == of_column
    return np.where(varies[:, None], own, G != 0.0)


def _cluster_tables(closed: ClosedKinematics, links: _Links) -> dict[str, np.ndarray]:
    column_first, cluster = links.column_first, links.cluster
    before = np.arange(-1, closed.nv - 1)
    last: list[int] = []  # last column of each cluster; if it has none, of the nearest before it that has
    for number, parent in enumerate(links.parents):
        first, stop = column_first[number : number + 2]
        above = last[parent] if parent >= 0 else -1
        before[first:stop][:1] = above
        last.append(stop - 1 if stop > first else above)
    run = np.arange(closed.nv)
    for column in range(1, closed.nv):
        if before[column] == column - 1:
            run[column] = run[column - 1]
    return {
        "column_first": column_first,
        "support": links.support,
        "above": links.above,
        "direct": links.direct,
        "link_column": np.append(0, column_first[cluster[1:]]),
        "link_width": np.append(0, np.diff(column_first)[cluster[1:]]),
        "before": before,
        "run": run,
    }


def _entry_tables(
    links: _Links, pattern: np.ndarray, varies: np.ndarray
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


def _group_tables(links: _Links, entries: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tables of the members of every cluster, grouped by their supports."""
    carries = np.isin(np.arange(len(links.body)), links.support)
    column, first = entries["column"], entries["entry_first"]
    member_lists: list[list[int]] = []
    supports: list[int] = []
    group_first, many_members, many_groups = [0], [], []
    for number in range(len(links.parents)):
        own = np.flatnonzero((links.cluster == number) & (links.massive | carries))
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


def _parts(
    closed: ClosedKinematics, layout: SolutionLayout, G: np.ndarray, varies: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The slots of a solution, behind q_s, that vary with q; the slots of G that do not; and their values."""
    number = closed.clusters.of_body[closed.spanning.body_of]
    varying: list[int] = []
    constant: list[int] = []
    values: list[float] = []
    for s, cluster in enumerate(number):
        first, stop = closed.column_starts[cluster : cluster + 2]
        n = int(stop - first)
        row = range(layout.G[s], layout.G[s] + n)
        if varies[s]:
            varying += [*row, *range(layout.LG[s], layout.LG[s] + n * n)]
        else:
            constant += [*row]
            values += G[s, first:stop].tolist()
    return np.array(varying, dtype=np.int64), np.array(constant, dtype=np.int64), np.array(values)
