"""The clusters of a closed chain as one flat array, read by recursions beside that of the spanning tree.

Link l of a cluster moves by P_lk, relative to the link of another cluster that supports it, per unit of
column k of its cluster. Such a pair (l, k) is an entry; entries whose P vanishes identically are left out.
From an entry, `up` leads to the one before: of the same link, or the last of its support, so that a walk to
the ground meets the columns of all clusters on the way, as links of these see them. A joint that no
condition ties, alone in its cluster, counts as one cluster per elementary link, whose P is Phi.

    clusters = [ header | starts of the sections | sections, integers | constants of G ]

The header begins with the fingerprint of the sources. A solution, [ q_s | G | LG ], holds the spanning
configuration; for each spanning column s in order its row of G over the n columns of its cluster; and for
each s in order LG[s, j, k], (n, n), the derivative of G[s, k] along column j. The workspace of the cluster
recursions follows that of the spanning tree's recursions, in the same memory: solution, three vectors, T laid
out as G (`closed_dynamics`), entries, pairs of entries, pivots, nv x nv scratch matrix, what recursions of
the spanning tree give, result.
Source: [W] VI-C.
"""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

import numpy as np

from connections.multibody.closed_kinematics import ClosedKinematics
from connections.multibody.recursions.layout import MASS, PITCH, aligned, expand, pack, workspace_slots
from connections.multibody.recursions.simd import as_integers, beyond, beyond_each, inlined, slots_of
from connections.multibody.recursions.stamp import STAMP

HEADER = 13  # numbers before the starts of the sections, as `pack_clusters` writes them
MEMORY_SIZE = 6  # where among them the size of the tree's array stands, all workspaces included
PER_ENTRY, PER_PAIR = 12, 6
BAD_INPUT = 1 << 20  # status of a number, a quaternion, a shape or an array that is not right

_SECTIONS = (
    "column_first",  # (clusters + 1,) first column of each cluster
    "group_first",  # (clusters + 1,) first group of each; a group: the members that have one support
    "many_members",  # (clusters,) whether there are several members
    "many_groups",  # (clusters,) whether there are several groups
    "group_support",  # (groups,) the link that carries the group, 0 the ground
    "group_member",  # (groups + 1,) its first member
    "group_seen",  # (groups + 1,) first of the columns that it sees
    "members",  # links that have inertia or carry another cluster, group by group
    "seen",  # columns, group by group
    "support",  # (links + 1,) the link of another cluster that carries this one, 0 the ground
    "above",  # (links + 1,) the link before in the same cluster, 0 if there is none
    "direct",  # (links + 1,) whether P is Phi
    "link_column",  # (links + 1,) first column of the link's cluster
    "link_width",  # (links + 1,) number of columns of its cluster
    "entry_first",  # (links + 2,) first entry
    "walk",  # (links + 1,) where a walk from this link to the ground begins, an entry or -1
    "pairs",  # (links + 1,) first slot of the pairs, -1 where L_j P_k = P_j x P_k
    "table",  # (links + 1,) where `entry_at` begins
    "entry_at",  # by column of the link's cluster: the entry, -1 where there is none
    "column",  # (entries,)
    "home",  # (entries,) the link
    "up",  # (entries,) the entry before, -1 at the ground
    "same",  # (entries,) the entry of the same column at the link above, -1 if there is none
    "G_row",  # (spanning columns,) where the row of G begins in a solution; its 1 where P is Phi
    "LG_rows",  # (spanning columns,) where LG begins, -1 where it is zero
    "before",  # (nv,) the column before, on the way to the ground, -1 at the ground
    "run",  # (nv,) first of the consecutive columns, each before the next, that lead to this one
    "varying",  # where in a solution, behind q_s, there are numbers that vary with q
    "constant",  # where there are others
)
_SECTION_COUNT = len(_SECTIONS)
ClusterArrays = namedtuple(  # type: ignore[misc]
    "ClusterArrays",
    [
        "clusters",
        "nv",  # independent velocities
        "nq",  # independent coordinates
        "solution_size",
        "G_size",  # numbers of G in a solution
        "memory_size",  # numbers in the array of the spanning tree, all workspaces included
        "varying_count",
        "constant_count",
        *_SECTIONS,
        "constants",  # the numbers at `constant`
        "solution",  # first slots of the sections of the workspace
        "vector",  # the first of three
        "bias_rates",  # T
        "entries",
        "pair_slots",
        "zero",  # one slot that holds 0
        "pivots",
        "scratch",
        "spanning",  # results of recursions of the spanning tree
        "result",
    ],
)


class SolutionLayout(NamedTuple):
    """Where a solution holds G and LG: first slots of every spanning column, (nv_s,) each, and its size."""

    G: np.ndarray
    LG: np.ndarray
    size: int


def solution_layout(closed: ClosedKinematics) -> SolutionLayout:
    """[ q_s | G | LG ], row after row, n_c and n_c^2 numbers for a spanning column of a cluster of n_c."""
    spanning = closed.spanning
    widths = np.diff(closed.column_starts)[closed.clusters.of_body[spanning.body_of]]
    G = spanning.nq + np.concatenate([[0], np.cumsum(widths)])
    LG = G[-1] + np.concatenate([[0], np.cumsum(widths**2)])
    return SolutionLayout(G[:-1], LG[:-1], int(LG[-1]))


def pack_clusters(closed: ClosedKinematics) -> np.ndarray:
    """The flat array of the clusters, float64 with integers stored bit by bit.

    Parameters
    ----------
    closed : the closed chains.
    """
    links, layout = _links(closed), solution_layout(closed)
    of_velocity = closed.spanning.body_of
    varies = closed.implicit_clusters[closed.clusters.of_body[of_velocity]]
    varies &= ~closed.clusters.independent[of_velocity]
    G = closed.linear[0]
    sections = {"G_row": _rows_of_G(closed, links, layout), "LG_rows": np.where(varies, layout.LG, -1)}
    sections |= _cluster_sections(closed, links)
    sections |= _entry_sections(links, _pattern(closed, G, varies), varies)
    sections |= _group_sections(links, sections)
    varying, constant, values = _parts(closed, layout, G, varies)
    sections |= {"varying": varying, "constant": constant}
    starts = HEADER + len(_SECTIONS) + np.cumsum([0, *(len(sections[name]) for name in _SECTIONS)])
    entries, pairs = len(sections["column"]), int(sections.pop("pair_slots")[0])
    tree_size = len(pack(closed.spanning, (0.0, 0.0, 0.0))) + workspace_slots(
        closed.spanning, len(links.body) - 1
    )
    G_size, m = int(layout.LG[0] - layout.G[0]) if layout.size > closed.spanning.nq else 0, closed.spanning.nv
    given = max(10 * m * len(closed.tree.joints), m + 3 * m * m + 4 * G_size)  # as `closed_dynamics` has it
    own = layout.size + G_size + 4 * closed.nv + PER_ENTRY * entries + pairs + 1 + closed.nv**2 + given
    header = [STAMP, len(links.parents), closed.nv, closed.nq, layout.size, G_size, tree_size + own]
    header += [len(varying), len(constant), entries, pairs, given, int(starts[-1])]
    integers = np.concatenate([header, starts[:-1], *(sections[name] for name in _SECTIONS)])
    return np.concatenate([integers.astype(np.int64).view(np.float64), values])


def closed_memory(
    closed: ClosedKinematics, gravity: tuple[float, float, float], clusters: np.ndarray
) -> np.ndarray:
    """The array of the spanning tree with room for the recursions of the tree and of its clusters."""
    packed = pack(closed.spanning, gravity)
    memory = aligned(int(clusters.view(np.int64)[MEMORY_SIZE]))
    memory[: len(packed)] = packed
    return memory


def lane_slots(closed: ClosedKinematics, clusters: np.ndarray) -> int:
    """Number of slots before the result in a workspace of several configurations."""
    return int(clusters.view(np.int64)[MEMORY_SIZE]) - len(pack(closed.spanning, (0.0, 0.0, 0.0)))


def no_clusters() -> np.ndarray:
    """The array of a mechanism without bodies, for trying out compiled functions."""
    integers = np.zeros(HEADER + len(_SECTIONS) + 8, dtype=np.int64)
    integers[0], integers[12] = STAMP, HEADER + len(_SECTIONS)
    integers[HEADER : HEADER + len(_SECTIONS)] = HEADER + len(_SECTIONS)
    return integers.view(np.float64)


@inlined
def unpack_clusters(clusters, tree):
    """The `ClusterArrays` that `pack_clusters` wrote; its workspace is behind that of `tree`."""
    numbers = slots_of(clusters)
    integers = as_integers(numbers)
    nv, size, G_size, entries, pairs = integers[2], integers[4], integers[5], integers[9], integers[10]
    vector = tree.result + size
    bias_rates = vector + 3 * nv
    first_entry = bias_rates + G_size
    pair_slots = first_entry + PER_ENTRY * entries
    zero = pair_slots + pairs
    scratch = zero + 1 + nv
    spanning = scratch + nv * nv
    sizes = (integers[1], nv, integers[3], size, G_size, integers[6], integers[7], integers[8])
    sections = beyond_each(integers, integers, HEADER, _SECTION_COUNT)
    behind = (beyond(numbers, integers[12]), tree.result, vector, bias_rates, first_entry, pair_slots, zero)
    return ClusterArrays(
        *(sizes + sections + behind + (zero + 1, scratch, spanning, spanning + integers[11]))
    )


class _Links(NamedTuple):
    """Elementary links, 0 the ground, (links + 1,) each; and the clusters they form, trivial ones split."""

    body: np.ndarray  # number of the body, of the massless ones of a chain too
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
    massive = np.array([False] + [bool(element.parameters[MASS:PITCH].any()) for element in elements])
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
    """Where the row of G of every spanning column begins, or if its P is Phi, where its 1 stands."""
    of_column = np.repeat(np.arange(len(links.body)), np.diff(links.first))
    body = links.body[of_column]
    own = links.column_first[links.cluster[of_column]] + np.arange(len(body)) - links.first[of_column]
    start = closed.column_starts[closed.clusters.of_body[body]]
    return layout.G + np.where(links.direct[of_column], own - start, 0)


def _pattern(closed: ClosedKinematics, G: np.ndarray, varies: np.ndarray) -> np.ndarray:
    """Which entries of G are not identically zero, (nv_s, nv)."""
    of_column = np.repeat(np.arange(closed.clusters.count), np.diff(closed.column_starts))
    own = closed.clusters.of_body[closed.spanning.body_of][:, None] == of_column
    return np.where(varies[:, None], own, G != 0.0)


def _cluster_sections(closed: ClosedKinematics, links: _Links) -> dict[str, np.ndarray]:
    column_first, cluster = links.column_first, links.cluster
    before = np.arange(-1, closed.nv - 1)
    last: list[int] = []  # column of each cluster, or of the nearest one on the way to the ground with any
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


def _entry_sections(links: _Links, pattern: np.ndarray, varies: np.ndarray) -> dict[str, np.ndarray]:
    entry_first, walk, pairs, table, column, home, up, same, entry_at = (
        [0, 0],
        [-1],
        [-1],
        [0],
        *([] for _ in "12345"),
    )
    seen: list[list[int]] = [[]]  # columns of each link
    pair_slots = 0
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
        pairs.append(-1 if straight else pair_slots)
        pair_slots += 0 if straight else PER_PAIR * len(columns) ** 2
    names = ("entry_first", "walk", "pairs", "table", "column", "home", "up", "same", "entry_at")
    values = (entry_first, walk, pairs, table, column, home, up, same, entry_at)
    sections = {name: np.array(value, dtype=np.int64) for name, value in zip(names, values, strict=True)}
    return sections | {"pair_slots": np.array([pair_slots])}


def _group_sections(links: _Links, entries: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Members of every cluster, those of one support together."""
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
    """Slots of a solution behind q_s that vary, slots that do not, and what stands there."""
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
