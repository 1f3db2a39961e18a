"""The outward pass that every recursion shares: poses, columns and inertias in the common frame.

The common frame has the axes of the ground. Its origin lies, for each group of links, at a link of that group
(`tree_packing`), because cancellation errors grow with the square of the distance from the origin; `origins`
leads from one to another. Source: [W] VI-B in one frame: the transforms X disappear, and composite inertias
are plain sums.
"""

from connections.engines.inlined.rows import accumulate
from connections.engines.inlined.simd import beyond, inlined, load, put, take
from connections.engines.inlined.twists import add6, scale6
from connections.engines.inlined.vectors import add3, product_columns, rotate_columns, subtract3
from connections.multibody.kernels.elementary_joints import displaced, put_axes, put_columns
from connections.multibody.kernels.layout import IDENTITY, LEAP, PARAMETERS, POSE


@inlined
def place_links(tree, work):
    """Rotation R and position P of every link from q; link 0 is the ground."""
    put(work, tree.poses, IDENTITY)
    for i in range(1, tree.links + 1):
        slot, above = tree.poses + i * POSE.size, tree.poses + tree.parent[i] * POSE.size
        k, q = beyond(tree.parameters, i * PARAMETERS.size), beyond(work, tree.coordinate[i])
        R = take(work, above, 9)
        x, y, z = product_columns(R, take(k, PARAMETERS.rotation, 9))
        put_axes(tree.kind[i], x, y, z, q, beyond(q, tree.angles), beyond(work, slot))
        if tree.parent[i] == 0:
            put(work, slot + POSE.position, (0.0, 0.0, 0.0))  # this link is the origin of its subtree
        else:
            t = rotate_columns(R, take(k, PARAMETERS.position, 3))
            p = displaced(tree.kind[i], add3(take(work, above + POSE.position, 3), t), x, y, z, q, k)
            if tree.begins[i]:
                put(work, tree.leaps + i * LEAP.size, p)
                put(work, slot + POSE.position, (0.0, 0.0, 0.0))
            else:
                put(work, slot + POSE.position, p)
    if tree.shifted:
        _shift_origins(tree, work)


@inlined
def world_shift(tree, work, root):
    """The vector from positions in a subtree's common frame to those in the world; `root` is its link."""
    k, zero = beyond(tree.parameters, root * PARAMETERS.size), load(work, tree.poses + 1)
    R = take(work, tree.poses, 9)  # of the ground
    x, y, z = product_columns(R, take(k, PARAMETERS.rotation, 9))
    p = add3((zero, zero, zero), take(k, PARAMETERS.position, 3))
    p = displaced(tree.kind[root], p, x, y, z, beyond(work, tree.coordinate[root]), k)
    return subtract3(p, take(work, tree.poses + root * POSE.size + POSE.position, 3))


@inlined
def store_columns(tree, work, i, base, stride):
    """Write Phi of the columns of link i to slots base + column * stride."""
    pose, k = beyond(work, tree.poses + i * POSE.size), beyond(tree.parameters, i * PARAMETERS.size)
    put_columns(tree.kind[i], pose, k, beyond(work, base + tree.first[i] * stride), stride)


@inlined
def joint_twist(tree, work, i, columns, stride, vector):
    """The sum of Phi_j x_j over the columns of link i, for the vector x that begins at slot `vector`."""
    j = tree.first[i]
    total = scale6(take(work, columns + j * stride, 6), load(work, vector + j))
    for j in range(tree.first[i] + 1, tree.first[i + 1]):
        total = add6(total, scale6(take(work, columns + j * stride, 6), load(work, vector + j)))
    return total


@inlined
def add_to_parent(tree, work, link, links, size, first):
    """Add the record of a link, from offset `first` on, to that of its parent, unless that is the ground.

    It is for trees with one origin for each subtree (`table.Recursion.one_origin`); see `origins` for others.
    links, size : first slot of the records of all links, and their size.
    """
    if tree.parent[link] > 0:
        above, own = links + tree.parent[link] * size, links + link * size
        accumulate(work, above + first, own + first, size - first)


@inlined
def link_inertia(tree, work, i):
    """I of link i, ten numbers: c = P + R c_b, Ibar = R I_c R^T + m (|c|^2 1 - c c^T)."""
    R = take(work, tree.poses + i * POSE.size, 9)
    p = take(work, tree.poses + i * POSE.size + POSE.position, 3)
    k, o = tree.parameters, i * PARAMETERS.size
    m = k[o + PARAMETERS.mass]
    cx, cy, cz = add3(p, rotate_columns(R, take(k, o + PARAMETERS.center, 3)))
    I_c = take(k, o + PARAMETERS.inertia, 6)
    x = rotate_columns(R, (I_c[0], I_c[1], I_c[2]))  # columns of R I_c
    y = rotate_columns(R, (I_c[1], I_c[3], I_c[4]))
    z = rotate_columns(R, (I_c[2], I_c[4], I_c[5]))
    hx, hy, hz = cx * m, cy * m, cz * m
    return (
        (cx - cx) + m,  # m with the type of the other numbers: `lanes` if there are several configurations
        hx,
        hy,
        hz,
        x[0] * R[0] + y[0] * R[1] + z[0] * R[2] + hy * cy + hz * cz,
        x[0] * R[3] + y[0] * R[4] + z[0] * R[5] - hx * cy,
        x[0] * R[6] + y[0] * R[7] + z[0] * R[8] - hx * cz,
        x[1] * R[3] + y[1] * R[4] + z[1] * R[5] + hx * cx + hz * cz,
        x[1] * R[6] + y[1] * R[7] + z[1] * R[8] - hy * cz,
        x[2] * R[6] + y[2] * R[7] + z[2] * R[8] + hx * cx + hy * cy,
    )


@inlined
def way_from_root(tree, work, link):
    """The vector from the origin of the first group of a subtree to the origin of the group of a link."""
    zero = load(work, tree.poses + 1)
    way = (zero, zero, zero)
    if tree.leaping:
        first = tree.group[link]
        while tree.parent[first] > 0:
            way = add3(way, take(work, tree.leaps + first * LEAP.size, 3))
            first = tree.group[tree.parent[first]]
    return way


@inlined
def _shift_origins(tree, work):
    """Move the origin of each group from its first link to the link that `tree_packing` chose."""
    o = take(work, tree.poses + POSE.position, 3)
    for i in range(1, tree.links + 1):
        first = tree.group[i]
        if first == i:
            o = take(work, tree.poses + tree.origin[i] * POSE.size + POSE.position, 3)
        if tree.leaping:
            leap = tree.leaps + first * LEAP.size
            if first == i:
                put(work, leap + LEAP.origin, o)
                if tree.begins[i]:
                    above = tree.leaps + tree.group[tree.parent[i]] * LEAP.size + LEAP.origin
                    put(work, leap, add3(take(work, leap, 3), subtract3(o, take(work, above, 3))))
            o = take(work, leap + LEAP.origin, 3)
        slot = tree.poses + i * POSE.size + POSE.position
        put(work, slot, subtract3(take(work, slot, 3), o))
