"""Every array of compiled code: names, sizes and offsets of what is in it, in one place.

A tree, its clusters and each of its loops are one flat array each, all of them laid out alike:

    [ sizes | starts of the tables | starts of the workspace's sections | tables ],

float64, integers stored bit by bit. Starts of tables count from the array's beginning, those of sections from
the workspace's. `Layout` declares the parts and writes them; `unpack_tree`, `unpack_clusters`,
`unpack_closure` and `unpack_loop` (compiled) give them under their names: sizes as integers, tables as
pointers, sections of a workspace as first slots, those of a loop as pointers. The first size is the
fingerprint of the sources (`stamp`).

Parts of a table or a section that belong together (of one link, one column, one condition) are a `record`,
whose fields are offsets: ``take(work, links + i * LINK.size + LINK.inertia, 10)`` are ten numbers of link i.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

import numpy as np

from connections.multibody.kernels.least_squares import factorization_slots
from connections.multibody.kernels.simd import as_integers, beyond, beyond_each, inlined, slots_of, take
from connections.multibody.kernels.stamp import STAMP

REVOLUTE, HELICAL, PRISMATIC, SPHERICAL, FREE = range(5)  # kinds of links; the ground is -1
BAD_INPUT = 1 << 20  # status of a number, a quaternion, a shape or an array that is not right


def record(name: str, **parts: int) -> Any:
    """Where parts of these sizes begin, one after the other, and the `size` of all of them together."""
    starts = np.cumsum([0, *parts.values()]).tolist()
    return namedtuple(name, [*parts, "size"])(*starts)


# --- records ------------------------------------------------------------------------------------------------

# Constant: placement in the link before (R row by row, p), mass, centre of mass, inertia about it, pitch, and
# E, from the axes of the link to those of its body.
PARAMETERS = record("Parameters", rotation=9, position=3, mass=1, center=3, inertia=6, pitch=1, axes=9)
LOOP_PARAMETERS = record("LoopParameters", rotation=9, position=3, pitch=1)
# A condition of a loop, as `clusters.Rows`, points and directions in the axes of links.
CONDITION = record("Condition", point_a=3, point_b=3, u=3, w=3, constant=1, scale=1)

POSE = record("Pose", rotation=9, position=3)  # of a link, R row by row
# Of a condition at a configuration: its two arms and its wrench (`loop_geometry`).
ARMS = record("Arms", x=3, y=3, wrench=6)
# Of a link in `loop_bias_rates`; the last three are changes along a column.
BIAS = record("Bias", twist=6, acceleration=6, pull=6, P=6, twist_change=6, acceleration_change=6)

# What a recursion keeps of each link, and of each column or, over clusters, of each entry: I as 10 numbers, a
# body-level factor as 12, an articulated inertia as 21.
MASS_LINK = record("MassLink", inertia=10)
MASS_COLUMN = record("MassColumn", Phi=6)
CORIOLIS_LINK = record("CoriolisLink", twist=6, inertia=10, factor=12)
CORIOLIS_COLUMN = record("CoriolisColumn", Phi=6, rate=6)
CONTORSION = record("Contorsion", N=15)  # of each link, behind its `CORIOLIS_LINK`
CHRISTOFFEL_LINK = record("ChristoffelLink", inertia=10)
CHRISTOFFEL_COLUMN = record("ChristoffelColumn", Phi=6, g=3)
FORCE_LINK = record("ForceLink", twist=6, second=6, rate=6, force=6)  # `rate`: also I times `second`
FORCE_COLUMN = record("ForceColumn", Phi=6)
PRODUCT_COLUMN = record("ProductColumn", Phi=6, rate=6)
ARTICULATED_LINK = record("ArticulatedLink", twist=6, articulated=21, bias=6, inertia=10)
ARTICULATED_COLUMN = record("ArticulatedColumn", Phi=6, bias=6, U=6, inverse=1, u=1)
REGRESSOR_LINK = record("RegressorLink", twist=6, reference=6, acceleration=6)
REGRESSOR_COLUMN = record("RegressorColumn", Phi=6)
DERIVATIVES_LINK = record("DerivativesLink", twist=6, acceleration=6, inertia=10, factor=12, force=6)
DERIVATIVES_COLUMN = record("DerivativesColumn", Phi=6, rate=6, psi=6, psi_rate=6)
PAIR = record("Pair", E=6)  # of two entries of a link

PER_LINK = max(
    CORIOLIS_LINK.size + CONTORSION.size, FORCE_LINK.size, ARTICULATED_LINK.size, DERIVATIVES_LINK.size
)
PER_COLUMN = max(CORIOLIS_COLUMN.size, ARTICULATED_COLUMN.size, DERIVATIVES_COLUMN.size)
PER_ENTRY = max(CORIOLIS_COLUMN.size, CHRISTOFFEL_COLUMN.size)
# Of a spanning column and a column that it meets, in `cluster_dynamics`.
MOVED = record("Moved", G=1, along=1, with_acceleration=1, both=1)


# --- arrays -------------------------------------------------------------------------------------------------


class Layout:
    """The parts of a flat array, in order.

    Parameters
    ----------
    name : of the named tuple that compiled code gets.
    sizes : names of integers, the first of which is the fingerprint.
    integers, numbers : names of tables.
    work : names of the sections of the workspace.

    Attributes
    ----------
    counts : how many of each there are.
    view : the named tuple.
    """

    def __init__(
        self,
        name: str,
        sizes: tuple[str, ...],
        integers: tuple[str, ...],
        numbers: tuple[str, ...],
        work: tuple[str, ...] = (),
    ) -> None:
        self.sizes, self.integers, self.numbers, self.work = ("stamp", *sizes), integers, numbers, work
        self._names = (*self.sizes, *integers, *numbers, *work)
        self.counts = len(self.sizes), len(integers), len(numbers), len(work)
        self.view: Any = namedtuple(name, self._names)  # type: ignore[misc]

    def pack(
        self,
        sizes: Mapping[str, int],
        integers: Mapping[str, Any],
        numbers: Mapping[str, Any],
        work: Mapping[str, int] | None = None,
        begin: int = 0,
    ) -> np.ndarray:
        """The flat array.

        Parameters
        ----------
        sizes : the integers but the first.
        integers, numbers : the tables, of any shape.
        work : sizes of the sections, but that of the last one if it has no end; they begin at slot `begin`.
        """
        tables = [bits(integers[name]) for name in self.integers]
        tables += [np.asarray(numbers[name], dtype=np.float64).ravel() for name in self.numbers]
        starts = len(self._names) + np.cumsum([0, *map(len, tables)])
        sections = begin + np.cumsum([0, *((work or {}).get(name, 0) for name in self.work)])
        head = [STAMP, *(sizes[name] for name in self.sizes[1:]), *starts[:-1], *sections[:-1]]
        return np.concatenate([bits(head), *tables])

    def read(self, array: np.ndarray, name: str) -> int:
        """A size, or the start of a table or a section, by its name."""
        return int(array.view(np.int64)[self._names.index(name)])


def bits(integers: Any) -> np.ndarray:
    """Integers of any shape as float64 numbers (k,) of the same bits."""
    return np.asarray(integers, dtype=np.int64).ravel().view(np.float64)


TREE = Layout(
    "TreeArrays",
    sizes=(
        "links",  # number of links without the ground, which is link 0
        "nv",
        "nq",
        "bodies",  # number of bodies, the massless ones of chains not among them
        "shifted",  # whether any subtree's origin is not at its root link
        "noncommuting_count",
    ),
    integers=(
        "parent",  # (links + 1,)
        "kind",  # (links + 1,)
        "coordinate",  # (links + 1,) where the link's slice of q begins
        "first",  # (links + 2,) first column of each link
        "origin",  # (links + 1,) the link at which the subtree's common origin lies
        "body",  # (links + 1,) number of the body, -1 for a massless one of a chain
        "up",  # (nv,) column before, on the way to the ground, -1 at the ground
        "run",  # (nv,) first of the consecutive columns, each before the next, that lead to this one
        "end",  # (nv,) one past the last of the columns that carry on from this one; they are consecutive
        "link_of",  # (nv,)
        "noncommuting",  # (noncommuting_count,) spherical and free links, whose columns do not commute
    ),
    numbers=(
        "parameters",  # (links + 1, PARAMETERS); those of the ground begin with the acceleration of free fall
        "work",  # the workspace for one configuration, behind everything else
    ),
    work=(
        "q",
        "angles",  # (nq,) of q those of turning links, reduced
        "vectors",  # (3, nv)
        "poses",  # (links + 1, POSE)
        "per_link",  # (links + 1, PER_LINK)
        "per_column",  # (nv, PER_COLUMN)
        "scratch",  # (nv, nv)
        "result",
    ),
)


def tree_work(links: int, nq: int, nv: int) -> dict[str, int]:
    """Sizes of the sections of a tree's workspace."""
    return {
        "q": nq,
        "angles": nq,
        "vectors": 3 * nv,
        "poses": POSE.size * (links + 1),
        "per_link": PER_LINK * (links + 1),
        "per_column": PER_COLUMN * nv,
        "scratch": nv * nv,
    }


CLUSTERS = Layout(
    "ClusterArrays",
    sizes=(
        "clusters",
        "nv",  # independent velocities
        "nq",  # independent coordinates
        "solution_size",
        "G_size",  # numbers of G in a solution
        "memory_size",  # numbers in the array of the spanning tree, all workspaces included
        "varying_count",
        "constant_count",
    ),
    integers=(
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
    ),
    numbers=("constants",),  # the numbers at `constant`
    work=(
        "solution",
        "vector",  # (3, nv)
        "bias_rates",  # (G_size,) T of `cluster_dynamics`, laid out as G
        "entries",  # (entries, PER_ENTRY)
        "pair_slots",  # (pairs, PAIR)
        "zero",  # one slot that holds 0
        "pivots",  # (nv,)
        "scratch",  # (nv, nv)
        "spanning",  # results of recursions of the spanning tree
        "result",
    ),
)


def clusters_work(
    solution: int, G: int, nv: int, entries: int, pairs: int, spanning: tuple[int, int]
) -> dict[str, int]:
    """Sizes of the sections of a workspace over clusters, which follow those of the spanning tree.

    solution, G : numbers in a solution, and of G there.
    entries, pairs : how many there are.
    spanning : velocities and bodies of the spanning tree.
    """
    m, bodies = spanning
    return {
        "solution": solution,
        "vector": 3 * nv,
        "bias_rates": G,
        "entries": PER_ENTRY * entries,
        "pair_slots": PAIR.size * pairs,
        "zero": 1,
        "pivots": nv,
        "scratch": nv * nv,
        "spanning": max(10 * m * bodies, m + 3 * m * m + MOVED.size * G),
    }


CLOSURE = Layout(
    "ClosureArrays",
    sizes=(
        "nq",  # independent coordinates
        "spanning_nq",
        "size",  # of a solution
        "functions",  # number of conditions that are functions of users, which only Python can call
        "quaternions",  # number of independent quaternions, then of all
        "spanning_quaternions",
        "linear",  # number of clusters with linear conditions only
        "loops",  # number of the others that have conditions
    ),
    integers=(
        "columns",  # spanning coordinate of each independent one
        "quaternion_starts",  # in q
        "spanning_quaternion_starts",
        "linear_starts",  # of the tables of each linear cluster, from the beginning of `tables` on
        "loop_starts",  # of the array of each loop
    ),
    numbers=(
        "template",  # what a solution holds at all configurations
        "reference",  # a spanning configuration that closes
        "tables",
        "work",  # the workspace of the loops, one at a time, behind everything else
    ),
)
LOOP = Layout(
    "LoopArrays",
    sizes=(
        "number",
        "links",
        "columns",
        "independent",
        "dependent",
        "rows",
        "coordinates",
        "velocity",  # the first column of the cluster
    ),
    integers=(
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
    ),
    numbers=(
        "parameters",  # (links + 1, LOOP_PARAMETERS)
        "row_parameters",  # (rows, CONDITION)
        "T",  # (columns, rows)
        "lengths",  # (2,) the sum of all lengths, m, and what one of them compares with
    ),
    work=(
        "x",  # (coordinates,) the configuration, and that at the last point of the path
        "base",
        "goal",  # (coordinates,) end of the path, where independent
        "poses",  # (links + 1, POSE)
        "Phi",  # (columns, 6)
        "arms",  # (rows, ARMS)
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
        "biases",  # (links + 1, BIAS)
    ),
)


def loop_work(links: int, m: int, n: int, d: int, p: int, nq: int) -> dict[str, int]:
    """Sizes of the sections of a loop's workspace.

    m, n, d : columns, and the independent and the dependent ones among them.
    p : conditions. nq : coordinates.
    """
    state = m * p + factorization_slots(p, d)
    return {
        "x": nq,
        "base": nq,
        "goal": nq,
        "poses": POSE.size * (links + 1),
        "Phi": 6 * m,
        "arms": ARMS.size * p,
        "phi": p,
        "sizes": p,
        "now": state,
        "old": state,
        "y": m,
        "z": d,
        "b": p,
        "G": m * n,
        "twists": 6 * (links + 1) * n,
        "rates": 6 * (links + 1) * n * n,
        "biases": BIAS.size * (links + 1),
    }


# --- reading them -------------------------------------------------------------------------------------------

_Tree, _Clusters, _Closure, _Loop = TREE.view, CLUSTERS.view, CLOSURE.view, LOOP.view
# How many parts there are: names of whole numbers are constants to the compiler.
_TREE_SIZES, _TREE_INTEGERS, _TREE_NUMBERS, _TREE_WORK = TREE.counts
_CLUSTER_SIZES, _CLUSTER_INTEGERS, _CLUSTER_NUMBERS, _CLUSTER_WORK = CLUSTERS.counts
_CLOSURE_SIZES, _CLOSURE_INTEGERS, _CLOSURE_NUMBERS, _ = CLOSURE.counts
_LOOP_SIZES, _LOOP_INTEGERS, _LOOP_NUMBERS, _LOOP_WORK = LOOP.counts


@inlined
def is_current(memory):
    """Whether this machine code and `memory` come from the same sources; the first number says it."""
    return as_integers(slots_of(memory))[0] == STAMP


@inlined
def unpack_tree(memory):
    """The parts of `TREE`."""
    numbers = slots_of(memory)
    integers, at = as_integers(numbers), _TREE_SIZES + _TREE_INTEGERS
    return _Tree(
        *take(integers, 0, _TREE_SIZES),
        *beyond_each(integers, integers, _TREE_SIZES, _TREE_INTEGERS),
        *beyond_each(numbers, integers, at, _TREE_NUMBERS),
        *take(integers, at + _TREE_NUMBERS, _TREE_WORK),
    )


@inlined
def unpack_clusters(clusters):
    """The parts of `CLUSTERS`."""
    numbers = slots_of(clusters)
    integers, at = as_integers(numbers), _CLUSTER_SIZES + _CLUSTER_INTEGERS
    return _Clusters(
        *take(integers, 0, _CLUSTER_SIZES),
        *beyond_each(integers, integers, _CLUSTER_SIZES, _CLUSTER_INTEGERS),
        *beyond_each(numbers, integers, at, _CLUSTER_NUMBERS),
        *take(integers, at + _CLUSTER_NUMBERS, _CLUSTER_WORK),
    )


@inlined
def unpack_closure(numbers):
    """The parts of `CLOSURE`, of slots."""
    integers = as_integers(numbers)
    return _Closure(
        *take(integers, 0, _CLOSURE_SIZES),
        *beyond_each(integers, integers, _CLOSURE_SIZES, _CLOSURE_INTEGERS),
        *beyond_each(numbers, integers, _CLOSURE_SIZES + _CLOSURE_INTEGERS, _CLOSURE_NUMBERS),
    )


@inlined
def unpack_loop(closure, i):
    """The parts of `LOOP`, of loop number i of an unpacked closure; all loops use the same workspace."""
    numbers = beyond(closure.tables, closure.loop_starts[i])
    integers, at = as_integers(numbers), _LOOP_SIZES + _LOOP_INTEGERS
    return _Loop(
        *take(integers, 0, _LOOP_SIZES),
        *beyond_each(integers, integers, _LOOP_SIZES, _LOOP_INTEGERS),
        *beyond_each(numbers, integers, at, _LOOP_NUMBERS),
        *beyond_each(closure.work, integers, at + _LOOP_NUMBERS, _LOOP_WORK),
    )
