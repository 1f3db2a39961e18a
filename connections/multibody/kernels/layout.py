"""The layout of every array that compiled code reads or writes: names, sizes and offsets of its parts.

A tree, its clusters and each of its loops are one flat array each (`engines/inlined/records.py`). The
compiled functions `unpack_tree`, `unpack_clusters`, `unpack_closure` and `unpack_loop` return the parts by
name: sizes as integers, tables as pointers, and sections of a workspace as first slots (for a loop, as
pointers).
"""

from connections.engines.inlined.householder import factorization_slots
from connections.engines.inlined.records import RecordLayout, record
from connections.engines.inlined.simd import LANES, as_integers, beyond, beyond_each, inlined, take
from connections.multibody.tolerances import NODES

BAD_INPUT = 1 << 20  # status for a bad number, quaternion, shape or array; larger than any cluster's number
REFINABLE = BAD_INPUT + 3  # status of a solution that has lost digits, because a loop is nearly singular
INDIRECT = BAD_INPUT + 1  # status of a loop that is not solved, because its straight path does not suffice


# --- records ------------------------------------------------------------------------------------------------

# Constants of a link's joint: its placement in the link before (R row by row, p), and its pitch.
PLACEMENT = record("Placement", rotation=9, position=3, pitch=1)
# Constants of a link, first those of its joint; then mass, centre of mass, inertia about the centre of mass,
# and E, which turns the axes of the link into those of its body.
PARAMETERS = record("Parameters", rotation=9, position=3, pitch=1, mass=1, center=3, inertia=6, axes=9)
# A condition of a loop, as in `clusters.Rows`, with points and directions in the axes of links.
CONDITION = record("Condition", point_a=3, point_b=3, u=3, w=3, constant=1, scale=1)

# A frame that is fixed to a link: the link's number and whether results are in world axes, both integers, and
# the frame's axes and origin in the axes of the link.
FRAME = record("Frame", link=1, world=1, rotation=9, position=3)

# Which connection C and Gamma belong to, an argument of their kernels; otherwise it is Levi-Civita's.
FORCE_CROSS = 1  # that of the body-level factor (v x*) I
LEAST = 2  # that of the least Gamma (`least`)

POSE = record("Pose", rotation=9, position=3)  # of a link, R row by row
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)  # the pose of the ground
# A condition at a configuration: its two arms, its wrench and a rate of the wrench (`loop_geometry`).
ARMS = record("Arms", x=3, y=3, wrench=6, rate=6)
# A link in `loop_bias_rates`; `pull` is sum_s Phi_s a_s, and the last three are changes along a column.
BIAS = record("Bias", twist=6, acceleration=6, pull=6, P=6, twist_change=6, acceleration_change=6)

# What a recursion stores for each link, and for each column (over clusters: for each entry). An inertia is 10
# numbers, a body-level factor 12, an articulated inertia 21.
MASS_LINK = record("MassLink", inertia=10)
MASS_COLUMN = record("MassColumn", Phi=6)
MASS_POINT = record("MassPoint", mass=1, moment=3)  # of a subtree, for each link
CORIOLIS_LINK = record("CoriolisLink", twist=6, inertia=10, factor=12)
CORIOLIS_COLUMN = record("CoriolisColumn", Phi=6, rate=6)
# Of a link that begins a group: from the origin of its parent's group to its own; and how far its own origin
# is from the link, while poses are made.
LEAP = record("Leap", d=3, origin=3)
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
MOMENTUM_LINK = record("MomentumLink", twist=6)
MOMENTUM_COLUMN = record("MomentumColumn", Phi=6, rate=6)
DERIVATIVES_LINK = record("DerivativesLink", twist=6, acceleration=6, inertia=10, factor=12, force=6)
DERIVATIVES_COLUMN = record("DerivativesColumn", Phi=6, rate=6, psi=6, psi_rate=6)
# Behind the records of `derivatives`, for each link and each column.
HESSIAN_LINK = record("HessianLink", twist=6, momentum=6, back=3, turned=10)
HESSIAN_COLUMN = record("HessianColumn", chi=6)
SECOND_COLUMN = record("SecondColumn", alpha=6, f=6, m=6)  # Phi x* of these wrenches
# In `coriolis_rate` and `curvature`; `turned` and `factor_rate` are rates of `inertia` and `factor`.
RATE_LINK = record(
    "RateLink", twist=6, acceleration=6, inertia=10, factor=12, turned=10, factor_rate=12, force=6
)
RATE_COLUMN = record("RateColumn", Phi=6, rate=6, second=6)
SYMBOL_RATE_LINK = record("SymbolRateLink", inertia=10)
SYMBOL_RATE_COLUMN = record("SymbolRateColumn", Phi=6, g=3, turned_g=3, turned_w=3)
CONTORSION_RATE = record("ContorsionRate", N=15, rate=15, other=15)  # for each link, behind all `RATE_LINK`
# In `variational`: the displacement of a link in a step and that of its own joint (`DISPLACEMENT`), the
# logarithm of the first, momentum and weight of the subtree, and Newton's matrix with its two vectors.
DISPLACEMENT = record("Displacement", turn=4, shift=3, way=1)
KEPT = 6  # variational steps whose velocities are remembered: the next one's are extrapolated
APART = 0.3  # of a step: velocities of steps whose middles are nearer to each other are not extrapolated
STEP_LINK = record(
    "StepLink", turn=4, shift=3, own=8, x=6, inertia=10, force=6, weight=6, K=36, bias=6, change=6
)
STEP_COLUMN = record("StepColumn", Phi=6, moved=6, U=6, W=6, inverse=1, u=1, target=1, change=1, outer=1)
PAIR = record("Pair", E=6)  # for two entries of a link

PER_LINK = max(
    CORIOLIS_LINK.size + CONTORSION.size,
    FORCE_LINK.size,
    ARTICULATED_LINK.size,
    DERIVATIVES_LINK.size + HESSIAN_LINK.size,
    RATE_LINK.size + CONTORSION_RATE.size,
    STEP_LINK.size,
)
PER_COLUMN = max(
    CORIOLIS_COLUMN.size,
    ARTICULATED_COLUMN.size,
    STEP_COLUMN.size,
    DERIVATIVES_COLUMN.size + max(HESSIAN_COLUMN.size, SECOND_COLUMN.size),
)
PER_ENTRY = max(CORIOLIS_COLUMN.size, CHRISTOFFEL_COLUMN.size)
# For a spanning column and a column of its cluster, in `cluster_dynamics`.
MOVED = record("Moved", G=1, along=1, with_acceleration=1, both=1)
# In `cluster_curvature`: G, (L_k G) v, Gdot_k and Gddot_k.
MOVED_RATE = record("MovedRate", G=1, along=1, rate=1, second=1)


# --- arrays -------------------------------------------------------------------------------------------------


TREE = RecordLayout(
    "TreeArrays",
    sizes=(
        "links",  # number of links without the ground, which is link 0
        "nv",
        "nq",
        "bodies",  # number of bodies, without the massless ones inside chains
        "quaternions",  # number of quaternions in q
        "shifted",  # whether the origin of any group is not at its first link, or any is `leaping`
        "leaping",  # whether any link `begins` a group
        "noncommuting_count",
        "armed",  # whether any column has armature
    ),
    integers=(
        "quaternion_starts",  # (quaternions,) where they begin in q
        "parent",  # (links + 1,)
        "kind",  # (links + 1,) as in `elementary_joints`
        "coordinate",  # (links + 1,) where the link's slice of q begins
        "first",  # (links + 2,) first column of each link
        "origin",  # (links + 1,) the link at which the origin of its group lies
        "group",  # (links + 1,) the first link of its group
        "begins",  # (links + 1,) whether the link begins a group, with another origin than its parent's group
        "body",  # (links + 1,) number of the body, -1 for a massless link inside a chain
        "up",  # (nv,) column before this one on the way to the ground, -1 if there is none
        "run",  # (nv,) first of the consecutive columns, each before the next, that end at this one
        "end",  # (nv,) one past the last column of the subtree that this one moves; they are consecutive
        "link_of",  # (nv,)
        "leap_of",  # (nv,) for the first column of a link that begins a group (`begins`), the link; else 0
        "noncommuting",  # (noncommuting_count,) links whose columns do not commute
    ),
    numbers=(
        "parameters",  # (links + 1, PARAMETERS); the ground's begin with the acceleration of free fall
        "armature",  # (nv,)
        "limit",  # (1,) if no number that is given is larger, results are finite (`program/tree_packing.py`)
        "work",  # the workspace for one configuration, behind everything else
    ),
    work={
        "q": lambda n: n.nq,  # at slot 0, which kernels know
        "angles": lambda n: n.nq,  # q, each number reduced as an angle
        "vectors": lambda n: 3 * n.nv,
        "pivots": lambda n: n.nv,  # of an elimination, relative to the terms before cancellation
        "poses": lambda n: POSE.size * (n.links + 1),
        "leaps": lambda n: LEAP.size * (n.links + 1) * n.leaping,
        "per_link": lambda n: PER_LINK * (n.links + 1),
        "per_column": lambda n: PER_COLUMN * n.nv,
        "scratch": lambda n: 4 * n.nv * n.nv,
        "result": lambda n: 0,  # of any length, behind everything else
    },
)
CLUSTERS = RecordLayout(
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
        "entry_count",
        "pair_count",  # the pairs of entries that have slots
        "spanning_nq",
        "spanning_nv",
        "bodies",
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
        "independent",  # (spanning columns,) the number of the column in v, -1 if it is dependent
        "before",  # (nv,) the column before this one on the way to the ground, -1 if there is none
        "run",  # (nv,) first of the consecutive columns, each before the next, that end at this one
        "varying",  # places in a solution, behind q_s, of the numbers that vary with q
        "constant",  # places of the numbers of G that do not
    ),
    numbers=("constants",),  # the numbers at `constant`
    work={  # behind the sections of the spanning tree
        "solution": lambda n: n.solution_size,
        "vectors": lambda n: 3 * n.nv,
        "bias_rates": lambda n: n.G_size,  # T of `cluster_dynamics`, laid out as G in a solution
        "entries": lambda n: PER_ENTRY * n.entry_count,
        "pair_slots": lambda n: PAIR.size * n.pair_count,
        "zero": lambda n: 1,  # holds 0
        "pivots": lambda n: n.nv,
        "scratch": lambda n: n.nv * n.nv,
        # Results of recursions of the spanning tree: Y_p and Y_e, or forces, derivatives and MOVED.
        "spanning": lambda n: max(
            20 * n.spanning_nv * n.bodies,
            n.spanning_nv + 3 * n.spanning_nv**2 + max(MOVED.size, MOVED_RATE.size) * n.G_size,
        ),
        # Of `loop_variational`: the solution where a step ends, q_s and P_s of the spanning tree, spatial
        # momenta of free bases, kinds of joints, and q with six vectors.
        "there": lambda n: n.solution_size,
        "state": lambda n: n.spanning_nq + n.spanning_nv,
        "base_momenta": lambda n: 2 * n.spanning_nv,
        "base_kinds": lambda n: n.spanning_nv + 1,
        "step": lambda n: n.nq + 6 * n.nv,
        "result": lambda n: 0,
    },
)
CLOSURE = RecordLayout(
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
        "slots",  # of the workspace of one loop
    ),
    integers=(
        "columns",  # spanning coordinate of each independent one
        "quaternion_starts",  # in q
        "spanning_quaternion_starts",
        "linear_starts",  # where the array of each linear cluster begins in `tables`
        "loop_starts",  # where the array of each loop begins in `tables`
    ),
    numbers=(
        "template",  # a solution with the numbers that are the same at all configurations
        "reference",  # a spanning configuration in which the loops close
        "tables",
        # The workspace of the loops, one at a time, behind everything else. For rows of configurations follow
        # a workspace for all lanes, and BLOCK numbers (`loop_lanes`), or one of `twofold` numbers
        # (`loop_refinement`).
        "work",
    ),
)
LINEAR_CLUSTER = RecordLayout(  # q_d = G q_i + g, one in `tables` for each linear cluster
    "LinearClusterArrays",
    sizes=("dependent", "independent"),
    integers=(
        "q_d",  # (dependent,) spanning coordinates
        "q_i",  # (independent,)
    ),
    numbers=("rows",),  # (dependent, independent + 1) rows of G, each followed by its entry of g
)
BLOCK = 16 * LANES  # rows of configurations whose loops are solved together

LOOP = RecordLayout(
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
        "kind",  # (links + 1,) as in `elementary_joints`
        "coordinate",  # (links + 1,) where its coordinates begin
        "first",  # (links + 2,) first column of each link
        "place",  # (columns,) k of an independent column, -1 - k of a dependent one; k counts each from 0
        "G_at",  # (columns,) where the row of G begins in a solution
        "LG_at",  # (columns,) where LG begins in a solution
        "row_kind",  # (rows,)
        "link_a",  # (rows,)
        "link_b",
        "stairs",  # (dependent, 3) where K_d has zeros (`householder.staircase`)
    ),
    numbers=(
        "parameters",  # (links + 1, PLACEMENT)
        "row_parameters",  # (rows, CONDITION)
        "T",  # (columns, rows) by which K is made from the wrenches (`program/loop_packing.py`)
        "lengths",  # (2,) m: the sum of all lengths, and the characteristic length of the cluster
    ),
    work={  # for all loops the same slots
        "x": lambda n: n.coordinates,  # the configuration that is being corrected
        "angles": lambda n: n.coordinates,  # x, each number reduced as an angle
        "base": lambda n: n.coordinates,  # the configuration at the last accepted point of the path
        "goal": lambda n: n.coordinates,  # the end of the path, for independent coordinates
        "control": lambda n: 15,  # numbers that decide about steps (`loop_path`, `loop_lanes`)
        "home": lambda n: n.coordinates,  # where a path of many turns began (`loop_branches`)
        "turns": lambda n: n.coordinates,  # of all joints, while the crank turns
        "clear": lambda n: n.coordinates,  # the last point of a path far from singular ones
        "cut": lambda n: n.coordinates,  # where a path was cut by a singular point
        "end": lambda n: n.coordinates,  # the end of a path that was cut
        "samples": lambda n: (NODES + 1) * n.coordinates,  # points before the cut, from which it is continued
        "poses": lambda n: POSE.size * (n.links + 1),
        "Phi": lambda n: 6 * n.columns,
        "arms": lambda n: ARMS.size * n.rows,
        "phi": lambda n: n.rows,  # the conditions at x
        "sizes": lambda n: n.rows,  # the sizes of their terms, relative to which phi has to vanish
        "now": lambda n: _state(n),  # K (columns, rows) at x, and the factorization of its dependent columns
        "old": lambda n: _state(n),  # the same at the last accepted point
        "y": lambda n: n.columns,  # a step of the independent columns
        "z": lambda n: n.dependent,  # a step of the dependent columns
        "b": lambda n: n.rows,  # a right-hand side
        "G": lambda n: n.columns * n.independent,
        "twists": lambda n: 6 * (n.links + 1) * n.independent,
        "rates": lambda n: 6 * (n.links + 1),
        "biases": lambda n: BIAS.size * (n.links + 1),
    },
)


def _state(n):
    """The slots of K and of the factorization of its dependent columns."""
    return n.columns * n.rows + factorization_slots(n.rows, n.dependent)


# --- reading the arrays -------------------------------------------------------------------------------------

unpack_tree, unpack_clusters, unpack_closure = TREE.unpacker(), CLUSTERS.unpacker(), CLOSURE.unpacker()
unpack_linear_cluster = LINEAR_CLUSTER.unpacker()
_Loop = LOOP.view
# Numbers of parts, as global integers, which Numba compiles as constants (`take` needs literals).
_LOOP_SIZES, _LOOP_INTEGERS, _LOOP_NUMBERS, _LOOP_WORK = LOOP.counts


@inlined
def unpack_loop(closure, i):
    """The parts of `LOOP` for loop number i of an unpacked closure; all loops use the same workspace."""
    return unpack_loop_at(closure, i, closure.work)


@inlined
def unpack_loop_at(closure, i, work):
    """`unpack_loop` with another workspace."""
    numbers = beyond(closure.tables, closure.loop_starts[i])
    integers, at = as_integers(numbers), _LOOP_SIZES + _LOOP_INTEGERS
    return _Loop(
        *take(integers, 0, _LOOP_SIZES),
        *beyond_each(integers, integers, _LOOP_SIZES, _LOOP_INTEGERS),
        *beyond_each(numbers, integers, at, _LOOP_NUMBERS),
        *beyond_each(work, integers, at + _LOOP_NUMBERS, _LOOP_WORK),
    )
