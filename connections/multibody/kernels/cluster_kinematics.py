"""Poses, the centre of mass and Jacobians of a closed chain, by way of its spanning tree, in O(N).

With G of the loops' solution and the spanning tree's J_s, v_s = G v, and Gdot_sk = LG_sjk v^j,

    J = J_s G,    Jdot = Jdot_s G + J_s Gdot.

Source: [W] VI-C.
"""

from connections.engines.inlined.rows import clear
from connections.engines.inlined.simd import beyond, inlined, load, take
from connections.multibody.kernels import kinematics
from connections.multibody.kernels.cluster_columns import G_entry, columns_of, contract, deposit
from connections.multibody.kernels.cluster_dynamics import to_spanning
from connections.multibody.kernels.layout import CORIOLIS_COLUMN, MASS_COLUMN
from connections.multibody.kernels.poses import place_links, store_columns


@inlined
def forward_kinematics(tree, reduced, work, poses):
    """Homogeneous transforms of all bodies in the world, slots poses[16 b + 4 row + column]."""
    kinematics.forward_kinematics(tree, work, poses)


@inlined
def body_jacobians(tree, reduced, work, A):
    """A = A_s G (6N, nv), slots A[(6 b + row) nv + j]."""
    place_links(tree, work)
    clear(A, 0, 6 * tree.bodies * reduced.nv)
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, tree.per_column, MASS_COLUMN.size)
        if tree.body[i] >= 0:
            axes, rows = kinematics.body_axes(tree, work, i), beyond(A, 6 * tree.body[i] * reduced.nv)
            s = tree.first[i + 1] - 1
            while s >= 0:
                column = kinematics.body_column(tree, work, s, axes)
                first, count = columns_of(tree, reduced, s)
                for k in range(count):
                    kinematics.add_column(rows, first + k, reduced.nv, column, G_entry(reduced, work, s, k))
                axes = kinematics.axes_before(tree, work, s, axes)
                s = tree.up[s]


@inlined
def frame_pose(tree, reduced, work, pose, frame):
    """The homogeneous transform of a frame in the world, slots pose[4 row + column]."""
    kinematics.frame_pose(tree, work, pose, frame)


@inlined
def center_of_mass(tree, reduced, work, c):
    """c, the centre of mass of all bodies in the world, three slots."""
    kinematics.center_of_mass(tree, work, c)


@inlined
def center_of_mass_jacobian(tree, reduced, work, J):
    """J (3, nv) of the centre of mass, slots J[row nv + j]."""
    kinematics.center_of_mass_jacobian(tree, work, beyond(work, reduced.spanning))
    clear(J, 0, 3 * reduced.nv)
    for s in range(tree.nv):
        first, count = columns_of(tree, reduced, s)
        for k in range(count):
            factor = G_entry(reduced, work, s, k)
            for row in range(3):
                value = factor * load(work, reduced.spanning + row * tree.nv + s)
                deposit(J, row * reduced.nv + first + k, value, True)


@inlined
def frame_jacobian(tree, reduced, work, J, frame):
    """J of a frame, slots J[row nv + j]."""
    s = kinematics.place_frame(tree, work, frame)
    axes = kinematics.frame_axes(tree, work, frame)
    clear(J, 0, 6 * reduced.nv)
    while s >= 0:
        Phi = take(work, tree.per_column + s * MASS_COLUMN.size, 6)
        column = kinematics.frame_column(Phi, axes, frame)
        first, count = columns_of(tree, reduced, s)
        for k in range(count):
            kinematics.add_column(J, first + k, reduced.nv, column, G_entry(reduced, work, s, k))
        axes = kinematics.axes_before(tree, work, s, axes)
        s = tree.up[s]


@inlined
def frame_jacobian_rate(tree, reduced, work, rate, frame):
    """Jdot of a frame, slots rate[row nv + j]; v is the first vector."""
    v = reduced.vectors
    to_spanning(tree, reduced, work, v, tree.vectors)
    s = kinematics.move_frame(tree, work, frame)
    axes = kinematics.frame_axes(tree, work, frame)
    twist = kinematics.frame_twist(tree, work, frame, axes)
    clear(rate, 0, 6 * reduced.nv)
    while s >= 0:
        column = kinematics.frame_column(
            take(work, tree.per_column + s * CORIOLIS_COLUMN.size, 6), axes, frame
        )
        change = kinematics.frame_column_rate(tree, work, s, axes, twist, frame)
        first, count = columns_of(tree, reduced, s)
        for k in range(count):
            kinematics.add_column(rate, first + k, reduced.nv, change, G_entry(reduced, work, s, k))
            if reduced.LG_rows[s] >= 0:
                at = reduced.solution + reduced.LG_rows[s] + k
                G_rate = contract(work, at, count, v + first, count)
                kinematics.add_column(rate, first + k, reduced.nv, column, G_rate)
        axes = kinematics.axes_before(tree, work, s, axes)
        s = tree.up[s]
