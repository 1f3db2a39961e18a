"""The layout of every array that compiled code reads or writes: names, sizes and offsets of its parts.

A tree, its clusters and each of its loops are one flat array each, all with the same layout:

    [ sizes | starts of the tables | starts of the workspace's sections | tables ],

float64, with integers stored bit by bit. The start of a table counts from the beginning of the array, the
start of a section from the beginning of the workspace. `Layout` declares and writes the parts. The compiled
functions `unpack_tree`, `unpack_clusters`, `unpack_closure` and `unpack_loop` return them by name: sizes as
integers, tables as pointers, and sections of a workspace as first slots (for a loop, as pointers). The first
size is the fingerprint of the sources (`stamp`).

Numbers of a table or section that belong to one thing (one link, one column, one condition) are a `record`,
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
BAD_INPUT = 1 << 20  # status for a bad number, quaternion, shape or array; larger than any cluster's number


def record(name: str, **parts: int) -> Any:
    """A named tuple of offsets: where each part begins, one after the other, and the `size` of the whole."""
    starts = np.cumsum([0, *parts.values()]).tolist()
    return namedtuple(name, [*parts, "size"])(*starts)


# --- records ------------------------------------------------------------------------------------------------

# Constants of a link: placement in the link before (R row by row, p), mass, centre of mass, inertia about the
# centre of mass, pitch, and E, which turns the axes of the link into those of its body.
PARAMETERS = record("Parameters", rotation=9, position=3, mass=1, center=3, inertia=6, pitch=1, axes=9)
LOOP_PARAMETERS = record("LoopParameters", rotation=9, position=3, pitch=1)
# A condition of a loop, as in `clusters.Rows`, with points and directions in the axes of links.
CONDITION = record("Condition", point_a=3, point_b=3, u=3, w=3, constant=1, scale=1)

POSE = record("Pose", rotation=9, position=3)  # of a link, R row by row
# A condition at a configuration: its two arms and its wrench (`loop_geometry`).
ARMS = record("Arms", x=3, y=3, wrench=6)
# A link in `loop_bias_rates`; `pull` is sum_s Phi_s a_s, and the last three are changes along a column.
BIAS = record("Bias", twist=6, acceleration=6, pull=6, P=6, twist_change=6, acceleration_change=6)

# What a recursion stores for each link, and for each column (over clusters: for each entry). An inertia is 10
# numbers, a body-level factor 12, an articulated inertia 21.
MASS_LINK = record("MassLink", inertia=10)
MASS_COLUMN = record("MassColumn", Phi=6)
CORIOLIS_LINK = record("CoriolisLink", twist=6, inertia=10, factor=12)
CORIOLIS_COLUMN = record("CoriolisColumn", Phi=6, rate=6)
CONTORSION = record("Contorsion", N=15)  # for each link, behind all `CORIOLIS_LINK`
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
PAIR = record("Pair", E=6)  # for two entries of a link

PER_LINK = max(
    CORIOLIS_LINK.size + CONTORSION.size, FORCE_LINK.size, ARTICULATED_LINK.size, DERIVATIVES_LINK.size
)
PER_COLUMN = max(CORIOLIS_COLUMN.size, ARTICULATED_COLUMN.size, DERIVATIVES_COLUMN.size)
PER_ENTRY = max(CORIOLIS_COLUMN.size, CHRISTOFFEL_COLUMN.size)
# For a spanning column and a column of its cluster, in `cluster_dynamics`.
MOVED = record("Moved", G=1, along=1, with_acceleration=1, both=1)


# --- arrays -------------------------------------------------------------------------------------------------


class Layout:
    """The parts of a flat array, in order.

    Parameters
    ----------
    name : name of the named tuple that compiled code gets.
    sizes : names of the single integers; the fingerprint is put before them.
    integers, numbers : names of the tables of integers and of float64 numbers.
    work : names of the sections of the workspace.

    Attributes
    ----------
    counts : the numbers of sizes, integer tables, number tables, and sections.
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
        sizes : the single integers, without the fingerprint.
        integers, numbers : the tables, of any shape.
        work : sizes of the sections; the last one may be left out, if it extends to the end.
        begin : slot of the workspace at which the first section begins.
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
        "bodies",  # number of bodies, without the massless ones inside chains
        "shifted",  # whether the origin of any subtree is not at its root link
        "noncommuting_count",
    ),
    integers=(
        "parent",  # (links + 1,)
        "kind",  # (links + 1,)
        "coordinate",  # (links + 1,) where the link's slice of q begins
        "first",  # (links + 2,) first column of each link
        "origin",  # (links + 1,) the link at which the subtree's common origin lies
        "body",  # (links + 1,) number of the body, -1 for a massless link inside a chain
        "up",  # (nv,) column before this one on the way to the ground, -1 if there is none
        "run",  # (nv,) first of the consecutive columns, each before the next, that end at this one
        "end",  # (nv,) one past the last column of the subtree that this one moves; they are consecutive
        "link_of",  # (nv,)
        "noncommuting",  # (noncommuting_count,) spherical and free links, whose columns do not commute
    ),
    numbers=(
        "parameters",  # (links + 1, PARAMETERS); the ground's begin with the acceleration of free fall
        "work",  # the workspace for one configuration, behind everything else
    ),
    work=(
        "q",
        "angles",  # (nq,) the angles in q, reduced; other coordinates are not set
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
        "G_size",  # how many numbers of a solution are G
        "memory_size",  # numbers in the array of the spanning tree, all workspaces included
        "varying_count",
        "constant_count",
    ),
    integers=(
        "column_first",  # (clusters + 1,) first column of each cluster
        "group_first",  # (clusters + 1,) first group of each; a group is the members with one support
        "many_members",  # (clusters,) whether there are several members
        "many_groups",  # (clusters,) whether there are several groups
        "group_support",  # (groups,) the link that carries the group, 0 the ground
        "group_member",  # (groups + 1,) where the members of the group begin in `members`
        "group_seen",  # (groups + 1,) where the columns of the group begin in `seen`
        "members",  # links that have inertia or carry another cluster, group by group
        "seen",  # columns of the cluster that move a member, group by group
        "support",  # (links + 1,) the link of another cluster that carries this one, 0 the ground
        "above",  # (links + 1,) the link before in the same cluster, 0 if there is none
        "direct",  # (links + 1,) whether P is Phi: the link's joint is not in a loop or coupling
        "link_column",  # (links + 1,) first column of the link's cluster
        "link_width",  # (links + 1,) number of columns of its cluster
        "entry_first",  # (links + 2,) first entry
        "walk",  # (links + 1,) the entry at which a walk from this link to the ground begins, or -1
        "pairs",  # (links + 1,) first slot of the link's pairs, -1 if L_j P_k = P_j x P_k for all of them
        "table",  # (links + 1,) where the link's part of `entry_at` begins
        "entry_at",  # for each column of the link's cluster: the entry, -1 if there is none
        "column",  # (entries,)
        "home",  # (entries,) the link
        "up",  # (entries,) the entry before on the way to the ground, -1 if there is none
        "same",  # (entries,) the entry of the same column at the link above, -1 if there is none
        "G_row",  # (spanning columns,) where the row of G begins in a solution; if P is Phi, where its 1 is
        "LG_rows",  # (spanning columns,) where LG begins in a solution, -1 if it is zero
        "before",  # (nv,) the column before this one on the way to the ground, -1 if there is none
        "run",  # (nv,) first of the consecutive columns, each before the next, that end at this one
        "varying",  # places in a solution, behind q_s, of the numbers that vary with q
        "constant",  # places of the numbers of G that do not
    ),
    numbers=("constants",),  # the numbers at `constant`
    work=(
        "solution",
        "vector",  # (3, nv)
        "bias_rates",  # (G_size,) T of `cluster_dynamics`, laid out as G in a solution
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
    """Sizes of the sections of a workspace for clusters, which follow the sections of the spanning tree.

    solution, G : how many numbers a solution has, and how many of them are G.
    nv, entries, pairs : numbers of independent velocities, of entries, and of slots for pairs.
    spanning : numbers of velocities and of bodies of the spanning tree.
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
        "quaternions",  # number of quaternions in q
        "spanning_quaternions",  # number of quaternions in q_s
        "linear",  # number of clusters with linear conditions only
        "loops",  # number of the other clusters that have conditions
    ),
    integers=(
        "columns",  # spanning coordinate of each independent one
        "quaternion_starts",  # in q
        "spanning_quaternion_starts",
        "linear_starts",  # where the table of each linear cluster begins in `tables`
        "loop_starts",  # where the array of each loop begins in `tables`
    ),
    numbers=(
        "template",  # a solution with the numbers that are the same at all configurations
        "reference",  # a spanning configuration in which the loops close
        "tables",
        "work",  # the workspace of the loops, one at a time, behind everything else
    ),
)
LOOP = Layout(
    "LoopArrays",
    sizes=(
        "number",  # of the cluster
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
        "place",  # (columns,) k of an independent column, -1 - k of a dependent one; k counts each from 0
        "G_at",  # (columns,) where the row of G begins in a solution
        "LG_at",  # (columns,) where LG begins in a solution
        "row_kind",  # (rows,)
        "link_a",  # (rows,)
        "link_b",
    ),
    numbers=(
        "parameters",  # (links + 1, LOOP_PARAMETERS)
        "row_parameters",  # (rows, CONDITION)
        "T",  # (columns, rows) by which K is made from the wrenches (`dynamics/loop_packing.py`)
        "lengths",  # (2,) m: the sum of all lengths, and the characteristic length of the cluster
    ),
    work=(
        "x",  # (coordinates,) the configuration that is being corrected
        "base",  # (coordinates,) the configuration at the last accepted point of the path
        "goal",  # (coordinates,) the end of the path, for independent coordinates
        "poses",  # (links + 1, POSE)
        "Phi",  # (columns, 6)
        "arms",  # (rows, ARMS)
        "phi",  # (rows,) the conditions at x
        "sizes",  # (rows,) the sizes of their terms, relative to which phi has to vanish
        "now",  # K (columns, rows) at x, and the factorization of its dependent columns
        "old",  # the same at the last accepted point
        "y",  # (columns,) a step of the independent columns
        "z",  # (dependent,) a step of the dependent columns
        "b",  # (rows,) a right-hand side
        "G",  # (columns, independent)
        "twists",  # (links + 1, independent, 6)
        "rates",  # (links + 1, independent, independent, 6)
        "biases",  # (links + 1, BIAS)
    ),
)


def loop_work(links: int, m: int, n: int, d: int, p: int, nq: int) -> dict[str, int]:
    """Sizes of the sections of a loop's workspace.

    links : number of links. m, n, d : numbers of all, of independent, and of dependent columns.
    p : number of conditions. nq : number of coordinates.
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


# --- reading the arrays -------------------------------------------------------------------------------------

_Tree, _Clusters, _Closure, _Loop = TREE.view, CLUSTERS.view, CLOSURE.view, LOOP.view
# Numbers of parts, as global integers, which Numba compiles as constants (`take` needs literals).
_TREE_SIZES, _TREE_INTEGERS, _TREE_NUMBERS, _TREE_WORK = TREE.counts
_CLUSTER_SIZES, _CLUSTER_INTEGERS, _CLUSTER_NUMBERS, _CLUSTER_WORK = CLUSTERS.counts
_CLOSURE_SIZES, _CLOSURE_INTEGERS, _CLOSURE_NUMBERS, _ = CLOSURE.counts
_LOOP_SIZES, _LOOP_INTEGERS, _LOOP_NUMBERS, _LOOP_WORK = LOOP.counts


@inlined
def is_current(memory):
    """Whether this machine code and `memory` come from the same sources, by the fingerprint in `memory`."""
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
    """The parts of `CLOSURE`, from a pointer to the array's slots."""
    integers = as_integers(numbers)
    return _Closure(
        *take(integers, 0, _CLOSURE_SIZES),
        *beyond_each(integers, integers, _CLOSURE_SIZES, _CLOSURE_INTEGERS),
        *beyond_each(numbers, integers, _CLOSURE_SIZES + _CLOSURE_INTEGERS, _CLOSURE_NUMBERS),
    )


@inlined
def unpack_loop(closure, i):
    """The parts of `LOOP` for loop number i of an unpacked closure; all loops use the same workspace."""
    numbers = beyond(closure.tables, closure.loop_starts[i])
    integers, at = as_integers(numbers), _LOOP_SIZES + _LOOP_INTEGERS
    return _Loop(
        *take(integers, 0, _LOOP_SIZES),
        *beyond_each(integers, integers, _LOOP_SIZES, _LOOP_INTEGERS),
        *beyond_each(numbers, integers, at, _LOOP_NUMBERS),
        *beyond_each(closure.work, integers, at + _LOOP_NUMBERS, _LOOP_WORK),
    )
