"""The closed loops of a mechanism as one flat array, all that the compiled solver of `closure` reads.

`pack_closure` (Python) writes it, `unpack_loop` (compiled) reads one cluster of it. What does not depend on
the configuration (clusters without conditions, and with linear ones only) is solved here, once. The rest are
loops: the links of one cluster as `layout` expands them, in the axes of the link that carries them, columns
s, conditions r, and a table T[s, r] that makes the matrix of the conditions,

    K[r, s] = T[s, r] f_r . Phi_s   (geometric),    K[r, s] = T[s, r]   (linear),

with f_r the wrench of the condition (`loop_geometry`).

    closure = [ header | tables, integers stored bit by bit | workspace ]
    solution = [ q_s (nq_s) | G | LG ]

The header begins with the fingerprint of the sources; with only zeros behind, it is that of a mechanism
without joints. In a solution each spanning velocity s has the n_c
numbers G[s, :] of its cluster's independent velocities, and n_c x n_c numbers LG[s, j, k], direction j,
field k. Source: [W] VI-C.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from connections.checks import ModelError
from connections.multibody.clusters import LINEAR
from connections.multibody.recursions.cluster_layout import solution_layout
from connections.multibody.recursions.layout import (
    _KINDS,
    AXES,
    FREE,
    MASS,
    PITCH,
    POSE,
    POSITION,
    SPHERICAL,
    aligned,
    expand,
)
from connections.multibody.recursions.least_squares import factorization_slots
from connections.multibody.recursions.simd import as_integers, beyond, beyond_each, inlined, take
from connections.multibody.recursions.stamp import STAMP

if TYPE_CHECKING:
    from connections.multibody.closed_kinematics import ClosedKinematics

Header = namedtuple(
    "Header",
    [
        "stamp",
        "nq",  # independent coordinates
        "spanning_nq",
        "size",  # of a solution
        "functions",  # number of conditions that are functions of users, which only Python can call
        "quaternions",  # number of independent quaternions, then of all
        "spanning_quaternions",
        "linear",  # number of clusters with linear conditions only
        "loops",  # number of the others that have conditions
        "template",  # where the tables begin: what a solution holds at all configurations
        "reference",  # a spanning configuration that closes
        "columns",  # spanning coordinate of each independent one
        "quaternion_starts",  # in q
        "spanning_quaternion_starts",
        "linear_starts",  # of the tables of each linear cluster
        "loop_starts",  # of the integers of each loop
        "work",
    ],
)
Loop = namedtuple(
    "Loop",
    [
        # sizes
        "number",
        "links",
        "columns",
        "independent",
        "dependent",
        "rows",
        "coordinates",
        "velocity",  # the first column of the cluster
        # tables of integers
        "source",  # (coordinates,) number among the spanning coordinates
        "follows",  # (coordinates,) whether it is dependent
        "parent",  # (links + 1,) link 0 carries the others
        "kind",  # (links + 1,)
        "coordinate",  # (links + 1,) where its coordinates begin
        "first",  # (links + 2,) first column of each link
        "place",  # (columns,) number among the independent columns, or -1 minus that among the dependent ones
        "G_at",  # (columns,) where in a solution
        "LG_at",
        "row_kind",  # (rows,)
        "link_a",  # (rows,)
        "link_b",
        # tables of numbers
        "parameters",  # (links + 1, PARAMETERS) R of the placement, its position, pitch
        "row_parameters",  # (rows, ROW) point a, point b, u, w, constant, scale
        "T",  # (columns, rows)
        "lengths",  # (2,) the sum of all lengths, m, and what one of them compares with
        # sections of the workspace
        "x",  # (coordinates,) the configuration, and that at the last point of the path
        "base",
        "goal",  # (coordinates,) end of the path, where independent
        "poses",  # (links + 1, POSE)
        "Phi",  # (columns, 6)
        "geometry",  # (rows, GEOMETRY)
        "phi",  # (rows,) the conditions, and what they are compared with where the loop is to close
        "sizes",
        "now",  # K (columns, rows) and the factorization of its dependent columns; the same at the last point
        "old",
        "y",  # (columns,) a step
        "z",  # (dependent,)
        "b",  # (rows,)
        "G",  # (columns, independent)
        "twists",  # (links + 1, independent, 6)
        "rates",  # (links + 1, independent, independent, 6)
        "turns",  # (links + 1, TURN) of `loop_bias_rates`
    ],
)
HEADER, SIZES, INTEGERS, NUMBERS, SECTIONS = len(Header._fields), 8, 12, 4, 17  # of `Header` and of `Loop`
PARAMETERS, ROW, GEOMETRY, TURN = 13, 14, 12, 36
PITCH_IN_LOOP = 12  # where it stands in a link's parameters
# Where the parts of a condition's parameters begin.
POINT_A, POINT_B, U, W, CONSTANT, SCALE = 0, 3, 6, 9, 12, 13


def pack_closure(closed: ClosedKinematics) -> np.ndarray:
    """The flat array of all loops with its workspace, which one thread at a time may use.

    Raises
    ------
    ModelError : a loop that ties bodies which different bodies carry.
    """
    spanning, rows, functions = closed.spanning, closed.rows, len(closed.functions)
    tables, chains = _Tables(len(Header._fields)), _Chains.of(closed)
    template = chains.template.copy()
    linear, loops, work = [], [], 0
    for cluster in [] if functions else np.unique(rows.clusters):
        members = np.flatnonzero(rows.clusters == cluster)
        if (rows.kinds[members] == LINEAR).all():
            linear.append(_pack_linear(tables, closed, chains, members, template))
        else:
            start, slots = _pack_loop(tables, closed, chains, members)
            loops.append(start)
            work = max(work, slots)
    quaternions = chains.coordinate[chains.kind >= SPHERICAL] + np.where(
        chains.kind[chains.kind >= SPHERICAL] == FREE, 3, 0
    )
    own = np.flatnonzero(np.isin(closed.q_columns, quaternions))
    header = Header(
        stamp=STAMP,
        nq=len(closed.q_columns),
        spanning_nq=spanning.nq,
        size=len(template),
        functions=functions,
        quaternions=len(own),
        spanning_quaternions=len(quaternions),
        linear=len(linear),
        loops=len(loops),
        template=tables.add(template),
        reference=tables.add(closed.reference),
        columns=tables.add_integers(closed.q_columns),
        quaternion_starts=tables.add_integers(own),
        spanning_quaternion_starts=tables.add_integers(quaternions),
        linear_starts=tables.add_integers(linear),
        loop_starts=tables.add_integers(loops),
        work=tables.size,
    )
    closure = aligned(tables.size + work)
    closure[: tables.size] = np.concatenate([_bits(header), *tables.parts])
    return closure


def solution_size(closure: np.ndarray) -> int:
    """How many numbers a solution has."""
    count = len(Header._fields)
    return int(Header(*closure[:count].view(np.int64)).size)


@inlined
def unpack_header(closure):
    """The `Header` that `pack_closure` wrote to slots."""
    return Header(*take(as_integers(closure), 0, HEADER))


@inlined
def unpack_loop(closure, start, work):
    """The `Loop` whose integers begin at slot `start`; the workspace begins at slot `work`."""
    integers = as_integers(closure)
    return Loop(
        *take(integers, start, SIZES),
        *beyond_each(integers, integers, start + SIZES, INTEGERS),
        *beyond_each(closure, integers, start + SIZES + INTEGERS, NUMBERS),
        *beyond_each(beyond(closure, work), integers, start + SIZES + INTEGERS + NUMBERS, SECTIONS),
    )


class _Tables:
    """Tables one after the other behind a header of `start` numbers."""

    def __init__(self, start: int) -> None:
        self.size = start
        self.parts: list[np.ndarray] = []

    def add(self, numbers: Any) -> int:
        """Where these numbers begin."""
        part = np.asarray(numbers, dtype=np.float64).ravel()
        self.parts.append(part)
        self.size += len(part)
        return self.size - len(part)

    def add_integers(self, numbers: Any) -> int:
        """Where these integers begin, stored bit by bit."""
        return self.add(_bits(numbers))


class _Chains(NamedTuple):
    """Elementary links of the spanning tree, link 0 the ground, and columns; numbers of the whole tree."""

    body: np.ndarray  # (links + 1,) which the link's joint moves
    parent: np.ndarray
    kind: np.ndarray
    coordinate: np.ndarray  # (links + 1,) first coordinate
    first: np.ndarray  # (links + 2,) first column
    carrier: np.ndarray  # (bodies + 1,) link that is the body; the last number stands for the ground
    parameters: np.ndarray  # (links + 1, PARAMETERS) as `layout` writes them
    place: np.ndarray  # (nv_s,) as `Loop.place`
    G_at: np.ndarray  # (nv_s,)
    LG_at: np.ndarray
    template: np.ndarray  # a solution with the unit rows of G of the independent velocities, else zero

    @classmethod
    def of(cls, closed: ClosedKinematics) -> _Chains:
        """The links and columns of the spanning tree of `closed`."""
        spanning, clusters, layout = closed.spanning, closed.clusters, solution_layout(closed)
        links = expand(spanning)
        lengths = [len(joint.chain) for joint in spanning.tree.joints]
        ground = np.concatenate([np.zeros(AXES), np.eye(3).ravel()])
        place, template = np.empty(spanning.nv, dtype=np.int64), np.zeros(layout.size)
        counts = np.zeros((clusters.count, 2), dtype=np.int64)
        for s, body in enumerate(spanning.body_of):
            cluster, free = clusters.of_body[body], int(clusters.independent[body])
            number = counts[cluster, free]
            place[s] = number if free else -1 - number
            counts[cluster, free] += 1
            if free:
                template[layout.G[s] + number] = 1.0
        return cls(
            body=np.concatenate([[-1], np.repeat(np.arange(len(lengths)), lengths)]),
            parent=np.array([0] + [link.parent for link in links]),
            kind=np.array([-1] + [_KINDS[type(link.joint)] for link in links]),
            coordinate=np.concatenate([[0], np.cumsum([0] + [link.joint.nq for link in links])[:-1]]),
            first=np.concatenate([[0, 0], np.cumsum([link.joint.nv for link in links])]),
            carrier=np.append(np.cumsum(lengths), 0),
            parameters=np.stack([ground] + [link.parameters for link in links]),
            place=place,
            G_at=layout.G,
            LG_at=layout.LG,
            template=template,
        )

    def E(self, body: int) -> np.ndarray:
        """(3, 3), axes of the link that is this body, in those of the body; -1 is the ground."""
        return self.parameters[self.carrier[body], AXES:].reshape(3, 3)


def _pack_linear(
    tables: _Tables, closed: ClosedKinematics, chains: _Chains, members: np.ndarray, template: np.ndarray
) -> int:
    """Tables of q_d = G q_i + g; writes G into the template of solutions."""
    of_body, cluster = closed.clusters.of_body, closed.rows.clusters[members[0]]
    G, offset = closed.linear
    own = of_body[closed.spanning.body_of] == cluster
    coordinate = closed.spanning.coordinate_of
    dependent = np.flatnonzero(own & (chains.place < 0))
    first, stop = closed.column_starts[cluster : cluster + 2]
    columns = np.arange(first, stop)[coordinate[closed.v_columns[first:stop]] >= 0]
    rows, q_d, q_i = (
        G[np.ix_(dependent, columns)],
        coordinate[dependent],
        coordinate[closed.v_columns[columns]],
    )
    template[chains.G_at[dependent][:, None] + columns - first] = rows
    start = tables.add_integers([len(dependent), len(columns), *q_d, *q_i])
    tables.add(np.column_stack([rows, offset[q_d]]))  # behind the integers, its constant last in each row
    return start


def _pack_loop(
    tables: _Tables, closed: ClosedKinematics, chains: _Chains, members: np.ndarray
) -> tuple[int, int]:
    """Where the integers of a loop begin, and how many slots of workspace it needs."""
    cluster = closed.rows.clusters[members[0]]
    links = np.flatnonzero(np.isin(chains.body, np.flatnonzero(closed.clusters.of_body == cluster)))
    local = np.zeros(len(chains.body), dtype=np.int64)
    local[links] = np.arange(1, len(links) + 1)
    widths = [chains.first[link + 1] - chains.first[link] for link in links]
    columns = np.concatenate([np.arange(chains.first[link], chains.first[link + 1]) for link in links])
    nq = [{SPHERICAL: 4, FREE: 7}.get(kind, 1) for kind in chains.kind[links]]
    source = np.concatenate(
        [chains.coordinate[link] + np.arange(n) for link, n in zip(links, nq, strict=True)]
    )
    follows = ~np.repeat(closed.clusters.independent[chains.body[links]], nq)
    parent = np.concatenate([[0], local[chains.parent[links]]])
    link_a, link_b, parameters = _row_tables(closed, chains, members, local)
    T = _conditions_by_column(closed, chains, members, columns, (parent, link_a, link_b), widths)
    n, d = (chains.place[columns] >= 0).sum(), (chains.place[columns] < 0).sum()
    placements = chains.parameters[np.concatenate([[0], links])][:, [*range(MASS), PITCH]]
    points = parameters[:, POINT_A:U].reshape(-1, 2, 3)
    reach = (
        np.linalg.norm(placements[:, POSITION:PITCH_IN_LOOP], axis=1).sum()
        + np.linalg.norm(points, axis=2).sum()
    )
    integer_tables = [source, follows, parent, np.concatenate([[-1], chains.kind[links]])]
    integer_tables += [np.cumsum([0, 0, *nq])[:-1], np.cumsum([0, 0, *widths]), chains.place[columns]]
    integer_tables += [
        chains.G_at[columns],
        chains.LG_at[columns],
        closed.rows.kinds[members],
        link_a,
        link_b,
    ]
    starts = [tables.add_integers(table) for table in integer_tables]
    lengths = [reach, closed.clusters.sizes[cluster]]
    starts += [tables.add(table) for table in (placements, parameters, T, lengths)]
    velocity = closed.column_starts[cluster]
    sizes = np.array([cluster, len(links), len(columns), n, d, len(members), len(source), velocity])
    work = np.concatenate([[0], np.cumsum(_work_sizes(*sizes[1:-1].tolist()))])
    return tables.add_integers([*sizes, *starts, *work[:-1]]), int(work[-1])


def _work_sizes(links: int, m: int, n: int, d: int, p: int, nq: int) -> list[int]:
    """Numbers of slots of the sections of a loop's workspace."""
    state = m * p + factorization_slots(p, d)
    places = [nq, nq, nq, POSE * (links + 1), 6 * m, GEOMETRY * p]
    motion = [m * n, 6 * (links + 1) * n, 6 * (links + 1) * n * n, TURN * (links + 1)]
    return [*places, p, p, state, state, m, d, p, *motion]


def _row_tables(
    closed: ClosedKinematics, chains: _Chains, members: np.ndarray, local: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Links of the loop that the bodies of the conditions are, and points and directions in their axes."""
    rows, clusters = closed.rows, closed.clusters
    ends: list[list[int]] = []
    parameters = np.zeros((len(members), ROW))
    for row, member in zip(parameters, members, strict=True):
        row[CONSTANT:] = rows.constants[member], rows.scales[member]
        if rows.kinds[member] == LINEAR:
            ends.append([0, 0])
            continue
        a, b = int(rows.bodies_a[member]), int(rows.bodies_b[member])
        inside = [body >= 0 and clusters.of_body[body] == rows.clusters[member] for body in (a, b)]
        carriers = [
            int(clusters.supports[body]) if own else body for body, own in zip((a, b), inside, strict=True)
        ]
        if carriers[0] != carriers[1]:
            raise ModelError(f"{_owners(closed, [member])} ties bodies that different bodies carry")
        ends.append(
            [local[chains.carrier[body]] if own else 0 for body, own in zip((a, b), inside, strict=True)]
        )
        E_a, E_b = chains.E(a), chains.E(b)
        row[POINT_A:POINT_B], row[POINT_B:U] = E_a.T @ rows.points_a[member], E_b.T @ rows.points_b[member]
        row[U:W], row[W:CONSTANT] = E_a.T @ rows.u[member], E_b.T @ rows.w[member]
    link_a, link_b = np.array(ends).T
    return link_a, link_b, parameters


def _conditions_by_column(
    closed: ClosedKinematics,
    chains: _Chains,
    members: np.ndarray,
    columns: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray, np.ndarray],
    widths: list[int],
) -> np.ndarray:
    """T[s, r], (m, p): plus or minus the scale where column s moves b or a only, or linear coefficients."""
    parent, link_a, link_b = ends
    moves = np.eye(len(parent), dtype=bool)
    for link in range(1, len(parent)):
        moves[link] |= moves[parent[link]]
    link_of = np.repeat(np.arange(1, len(parent)), widths)
    geometric = moves[link_b][:, link_of].astype(float) - moves[link_a][:, link_of]
    of_column = closed.spanning.coordinate_of[columns]
    linear = np.where(of_column >= 0, closed.rows.coefficients[members][:, of_column], 0.0)
    table = np.where((closed.rows.kinds[members] == LINEAR)[:, None], linear, geometric)
    return (table * closed.rows.scales[members][:, None]).T


def _owners(closed: ClosedKinematics, members: Sequence[int]) -> str:
    names = dict.fromkeys(closed.names[owner] for owner in closed.rows.owners[members])
    return ", ".join(f"'{name}'" for name in names)


def _bits(integers: Any) -> np.ndarray:
    return np.asarray(integers, dtype=np.int64).ravel().view(np.float64)
