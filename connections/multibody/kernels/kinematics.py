"""Poses, the centre of mass and Jacobians of a tree, in O(N).

A frame is fixed to a link, with axes R and origin p in the common frame. With Phi_j = [w_j; u_j] for every
column j that moves the link, V the link's twist, and Phidot = (v x) Phi,

    J_j = [w_j; u_j + w_j x p],
    Jdot_j = [wdot_j; udot_j + wdot_j x p + w_j x pdot],    pdot = V_u + V_w x p,

in world axes; in the axes of the frame both parts are turned by R^T, and Jdot loses V_w x J_j before.
The centre of mass c of all bodies, of mass M, moves per unit of column j by

    J_j = (m u_j + w_j x h) / M,

with the mass m and the first moment h of the subtree that the column moves.
Source: [W] VI-B; Featherstone, Rigid Body Dynamics Algorithms, chapters 2 and 4.
"""

from connections.engines.inlined.rows import clear
from connections.engines.inlined.simd import as_integers, beyond, inlined, load, put, store, take
from connections.engines.inlined.vectors import (
    add3,
    cross3,
    product_columns,
    rotate_columns,
    scale3,
    subtract3,
    transpose_times,
)
from connections.multibody.kernels.coriolis import outward_twist
from connections.multibody.kernels.layout import CORIOLIS_COLUMN, CORIOLIS_LINK, FRAME, PARAMETERS, POSE
from connections.multibody.kernels.layout import MASS_COLUMN as COLUMN
from connections.multibody.kernels.layout import MASS_POINT as POINT
from connections.multibody.kernels.origins import add_point, distance_before
from connections.multibody.kernels.poses import place_links, store_columns, way_from_root, world_shift


@inlined
def forward_kinematics(tree, work, poses):
    """Homogeneous transforms of all bodies in the world, slots poses[16 b + 4 row + column]."""
    place_links(tree, work)
    shift = take(work, tree.poses, 3)  # of the type of the other numbers
    for i in range(1, tree.links + 1):
        if tree.parent[i] == 0:
            shift = world_shift(tree, work, i)
        if tree.body[i] >= 0:
            x, y, z, p = body_axes(tree, work, i)
            p = add3(add3(p, shift), way_from_root(tree, work, i))
            _put_pose(poses, 16 * tree.body[i], x, y, z, p)


@inlined
def frame_pose(tree, work, pose, frame):
    """The homogeneous transform of a frame in the world, slots pose[4 row + column]."""
    place_links(tree, work)
    x, y, z, p = frame_axes(tree, work, frame)
    link = as_integers(frame)[FRAME.link]
    root = link
    while tree.parent[root] > 0:
        root = tree.parent[root]
    if root > 0:
        p = add3(add3(p, world_shift(tree, work, root)), way_from_root(tree, work, link))
    _put_pose(pose, 0, x, y, z, p)


@inlined
def frame_jacobian(tree, work, J, frame):
    """J of a frame, slots J[row nv + j]: its twist is J v."""
    j = place_frame(tree, work, frame)
    axes = frame_axes(tree, work, frame)
    clear(J, 0, 6 * tree.nv)
    while j >= 0:
        Phi = take(work, tree.per_column + j * COLUMN.size, 6)
        add_column(J, j, tree.nv, frame_column(Phi, axes, frame), 1.0)
        axes = axes_before(tree, work, j, axes)
        j = tree.up[j]


@inlined
def frame_jacobian_rate(tree, work, rate, frame):
    """Jdot of a frame, slots rate[row nv + j]; v is the first vector of the workspace."""
    j = move_frame(tree, work, frame)
    axes = frame_axes(tree, work, frame)
    twist = frame_twist(tree, work, frame, axes)
    clear(rate, 0, 6 * tree.nv)
    while j >= 0:
        add_column(rate, j, tree.nv, frame_column_rate(tree, work, j, axes, twist, frame), 1.0)
        axes = axes_before(tree, work, j, axes)
        j = tree.up[j]


@inlined
def body_jacobians(tree, work, A):
    """A (6N, nv), slots A[(6 b + row) nv + j]: the twist of body b, in its axes, is A_b v."""
    place_links(tree, work)
    clear(A, 0, 6 * tree.bodies * tree.nv)
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, tree.per_column, COLUMN.size)
        if tree.body[i] >= 0:
            axes, rows = body_axes(tree, work, i), beyond(A, 6 * tree.body[i] * tree.nv)
            j = tree.first[i + 1] - 1
            while j >= 0:
                add_column(rows, j, tree.nv, body_column(tree, work, j, axes), 1.0)
                axes = axes_before(tree, work, j, axes)
                j = tree.up[j]


@inlined
def center_of_mass(tree, work, c):
    """c, the centre of mass of all bodies in the world, three slots."""
    place_links(tree, work)
    k, mass, zero = tree.parameters, 0.0, load(work, tree.poses + 1)
    shift = total = (zero, zero, zero)
    for i in range(1, tree.links + 1):
        if tree.parent[i] == 0:
            shift = world_shift(tree, work, i)
        m = k[i * PARAMETERS.size + PARAMETERS.mass]
        point = add3(add3(shift, way_from_root(tree, work, i)), _center(tree, work, i))
        total = add3(total, scale3(point, m))
        mass += m
    put(c, 0, scale3(total, 1.0 / mass))


@inlined
def center_of_mass_jacobian(tree, work, J):
    """J (3, nv) of the centre of mass, slots J[row nv + j]: its velocity in world axes is J v."""
    place_links(tree, work)
    k, links, mass, zero = tree.parameters, tree.per_link, 0.0, load(work, tree.poses + 1)
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, tree.per_column, COLUMN.size)
        m = k[i * PARAMETERS.size + PARAMETERS.mass]
        put(work, links + i * POINT.size, (zero + m, *scale3(_center(tree, work, i), m)))
        mass += m
    for i in range(tree.links, 0, -1):
        m, h = load(work, links + i * POINT.size) / mass, take(work, links + i * POINT.size + POINT.moment, 3)
        h = scale3(h, 1.0 / mass)
        for j in range(tree.first[i], tree.first[i + 1]):
            Phi = take(work, tree.per_column + j * COLUMN.size, 6)
            u = add3(scale3((Phi[3], Phi[4], Phi[5]), m), cross3((Phi[0], Phi[1], Phi[2]), h))
            for row in range(3):
                store(J, row * tree.nv + j, u[row])
        add_point(tree, work, i, links, POINT.size)


# --- a body: also for closed chains -------------------------------------------------------------------------


@inlined
def body_axes(tree, work, i):
    """The axes x, y, z and the origin p of the body of link i, in the common frame."""
    R, E = take(work, tree.poses + i * POSE.size, 9), i * PARAMETERS.size + PARAMETERS.axes
    x, y = rotate_columns(R, take(tree.parameters, E, 3)), rotate_columns(R, take(tree.parameters, E + 3, 3))
    z = rotate_columns(R, take(tree.parameters, E + 6, 3))
    return x, y, z, take(work, tree.poses + i * POSE.size + POSE.position, 3)


@inlined
def body_column(tree, work, j, axes):
    """The twist [omega; v] of a body per unit of column j, in its axes."""
    Phi = take(work, tree.per_column + j * COLUMN.size, 6)
    x, y, z, p = axes
    w, R = (Phi[0], Phi[1], Phi[2]), (x[0], y[0], z[0], x[1], y[1], z[1], x[2], y[2], z[2])
    u = add3((Phi[3], Phi[4], Phi[5]), cross3(w, p))
    return (*transpose_times(R, w), *transpose_times(R, u))


@inlined
def axes_before(tree, work, j, axes):
    """Axes and origin of a body or frame in the frame of the column before column j."""
    x, y, z, p = axes
    return x, y, z, distance_before(tree, work, j, p)


# --- a frame: also for closed chains ------------------------------------------------------------------------


@inlined
def place_frame(tree, work, frame):
    """Place all links, and store the columns that move the frame. Returns the last of these, -1 if none."""
    place_links(tree, work)
    link = as_integers(frame)[FRAME.link]
    last = tree.first[link + 1] - 1
    while link > 0:
        store_columns(tree, work, link, tree.per_column, COLUMN.size)
        link = tree.parent[link]
    return last


@inlined
def move_frame(tree, work, frame):
    """Place all links with their twists, and store columns with their rates; v is the first vector.

    Returns the last column that moves the frame, -1 if none.
    """
    place_links(tree, work)
    put(work, tree.per_link, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        outward_twist(tree, work, i, tree.per_link, tree.per_column)
    return tree.first[as_integers(frame)[FRAME.link] + 1] - 1


@inlined
def frame_axes(tree, work, frame):
    """The axes x, y, z and the origin p of a frame, in the common frame."""
    slot = tree.poses + as_integers(frame)[FRAME.link] * POSE.size
    R = take(work, slot, 9)
    x, y, z = product_columns(R, take(frame, FRAME.rotation, 9))
    p = rotate_columns(R, take(frame, FRAME.position, 3))
    if as_integers(frame)[FRAME.link] > 0:
        p = add3(take(work, slot + POSE.position, 3), p)
    return x, y, z, p


@inlined
def frame_twist(tree, work, frame, axes):
    """The angular velocity of the frame's link and the velocity of its origin; after `move_frame`."""
    w = take(work, tree.per_link + as_integers(frame)[FRAME.link] * CORIOLIS_LINK.size, 3)
    u = take(work, tree.per_link + as_integers(frame)[FRAME.link] * CORIOLIS_LINK.size + 3, 3)
    return (*w, *add3(u, cross3(w, axes[3])))


@inlined
def frame_column(Phi, axes, frame):
    """J_j of a frame for the column Phi."""
    w = Phi[0], Phi[1], Phi[2]
    return _in_axes(w, add3((Phi[3], Phi[4], Phi[5]), cross3(w, axes[3])), axes, frame)


@inlined
def frame_column_rate(tree, work, j, axes, V, frame):
    """Jdot_j of a frame of twist V, `frame_twist`; after `move_frame`."""
    slot, p = tree.per_column + j * CORIOLIS_COLUMN.size, axes[3]
    w, u = take(work, slot, 3), take(work, slot + 3, 3)
    w_rate = take(work, slot + CORIOLIS_COLUMN.rate, 3)
    u_rate = take(work, slot + CORIOLIS_COLUMN.rate + 3, 3)
    omega, p_rate = (V[0], V[1], V[2]), (V[3], V[4], V[5])
    u_rate = add3(u_rate, add3(cross3(w_rate, p), cross3(w, p_rate)))
    if as_integers(frame)[FRAME.world] == 0:
        u_rate = subtract3(u_rate, cross3(omega, add3(u, cross3(w, p))))
        w_rate = subtract3(w_rate, cross3(omega, w))
    return _in_axes(w_rate, u_rate, axes, frame)


@inlined
def add_column(J, column, nv, twist, factor):
    """Add `factor` times a twist to a column of J (6, nv)."""
    for row in range(6):
        slot = row * nv + column
        store(J, slot, load(J, slot) + twist[row] * factor)


@inlined
def _in_axes(w, u, axes, frame):
    """The twist [w; u] in world axes or in those of the frame, as it says."""
    if as_integers(frame)[FRAME.world] != 0:
        return (*w, *u)
    x, y, z, _ = axes
    R = (x[0], y[0], z[0], x[1], y[1], z[1], x[2], y[2], z[2])
    return (*transpose_times(R, w), *transpose_times(R, u))


@inlined
def _center(tree, work, i):
    """The centre of mass of link i in the common frame."""
    slot = tree.poses + i * POSE.size
    center = take(tree.parameters, i * PARAMETERS.size + PARAMETERS.center, 3)
    return add3(take(work, slot + POSE.position, 3), rotate_columns(take(work, slot, 9), center))


@inlined
def _put_pose(out, slot, x, y, z, p):
    """Write [x y z p; 0 0 0 1] row by row."""
    put(out, slot, (x[0], y[0], z[0], p[0], x[1], y[1], z[1], p[1]))
    put(out, slot + 8, (x[2], y[2], z[2], p[2], 0.0, 0.0, 0.0, 1.0))
