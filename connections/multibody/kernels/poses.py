"""The outward pass that every recursion shares: poses, columns and inertias in the common frame.

The common frame has the axes of the ground. Its origin lies, for each subtree that hangs from the ground, at
a link of that subtree (`tree_packing`), because cancellation errors grow with the square of the distance from
the origin. Source: [W] VI-B in one frame: the transforms X disappear, and composite inertias are plain sums.
"""

from connections.engines.inlined.rows import accumulate
from connections.engines.inlined.simd import inlined, load, put, sine_cosine, take
from connections.engines.inlined.vectors import (
    add3,
    cross3,
    matrix_of,
    product_columns,
    rotate_columns,
    scale3,
    subtract3,
    turned,
    turned_by_quaternion,
)
from connections.multibody.kernels.layout import FREE, HELICAL, IDENTITY, PARAMETERS, POSE, PRISMATIC


@inlined
def place_links(tree, work):
    """Rotation R and position P of every link from q; link 0 is the ground."""
    poses, k = tree.poses, tree.parameters
    put(work, poses, IDENTITY)
    for i in range(1, tree.links + 1):
        slot, above, o = poses + i * POSE.size, poses + tree.parent[i] * POSE.size, i * PARAMETERS.size
        kind, at = tree.kind[i], tree.coordinate[i]
        R = take(work, above, 9)
        x, y, z = product_columns(R, take(k, o + PARAMETERS.rotation, 9))
        if kind <= HELICAL:
            turned_x, turned_y = turned(x, y, *sine_cosine(load(work, tree.angles + at)))
            put(work, slot, matrix_of(turned_x, turned_y, z))
        elif kind == PRISMATIC:
            put(work, slot, matrix_of(x, y, z))
        else:
            quaternion = take(work, at + (3 if kind == FREE else 0), 4)
            put(work, slot, matrix_of(*turned_by_quaternion(x, y, z, quaternion)))
        if tree.parent[i] == 0:
            put(work, slot + POSE.position, (0.0, 0.0, 0.0))  # this link is the origin of its subtree
        else:
            t = rotate_columns(R, take(k, o + PARAMETERS.position, 3))
            p = add3(take(work, above + POSE.position, 3), t)
            put(work, slot + POSE.position, _displaced(tree, work, i, p, x, y, z))
    if tree.shifted:
        _shift_origins(tree, work)


@inlined
def _displaced(tree, work, i, p, x, y, z):
    """p, the origin of the joint frame of link i, moved by the joint along the axes x, y, z of that frame."""
    kind, at = tree.kind[i], tree.coordinate[i]
    if kind == PRISMATIC or kind == HELICAL:
        d = load(work, at)
        if kind == HELICAL:
            d = d * tree.parameters[i * PARAMETERS.size + PARAMETERS.pitch]
        p = add3(p, scale3(z, d))
    elif kind == FREE:
        p = add3(p, rotate_columns(matrix_of(x, y, z), take(work, at, 3)))
    return p


@inlined
def world_shift(tree, work, root):
    """From the origin of the common frame of a subtree, with this root link, to a position in the world."""
    k, o, zero = tree.parameters, root * PARAMETERS.size, load(work, tree.poses + 1)
    R = take(work, tree.poses, 9)  # of the ground
    x, y, z = product_columns(R, take(k, o + PARAMETERS.rotation, 9))
    p = add3((zero, zero, zero), take(k, o + PARAMETERS.position, 3))
    p = _displaced(tree, work, root, p, x, y, z)
    return subtract3(p, take(work, tree.poses + root * POSE.size + POSE.position, 3))


@inlined
def store_columns(tree, work, i, base, stride):
    """Write Phi of the columns of link i to slots base + column * stride."""
    pose, kind, column = tree.poses + i * POSE.size, tree.kind[i], tree.first[i]
    slot = base + column * stride
    if kind <= HELICAL:
        w = load(work, pose + 2), load(work, pose + 5), load(work, pose + 8)
        p = take(work, pose + POSE.position, 3)
        u = cross3(p, w)
        if kind == HELICAL:
            pitch = tree.parameters[i * PARAMETERS.size + PARAMETERS.pitch]
            u = add3(u, scale3(w, pitch))
        put(work, slot, (*w, *u))
    elif kind == PRISMATIC:
        z = load(work, pose + 2), load(work, pose + 5), load(work, pose + 8)
        put(work, slot, (0.0, 0.0, 0.0, *z))
    else:
        p = take(work, pose + POSE.position, 3)
        for axis in range(3):
            w = (load(work, pose + axis), load(work, pose + 3 + axis), load(work, pose + 6 + axis))
            put(work, slot + axis * stride, (*w, *cross3(p, w)))
            if kind == FREE:
                put(work, slot + (3 + axis) * stride, (0.0, 0.0, 0.0, *w))


@inlined
def add_to_parent(tree, work, link, links, size, first):
    """Add the record of a link, from offset `first` on, to that of its parent, unless that is the ground.

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
def _shift_origins(tree, work):
    """Move the origin of each subtree from its root link to the link that `tree_packing` chose."""
    o = take(work, tree.poses + POSE.position, 3)
    for i in range(1, tree.links + 1):
        if tree.parent[i] == 0:
            o = take(work, tree.poses + tree.origin[i] * POSE.size + POSE.position, 3)
        slot = tree.poses + i * POSE.size + POSE.position
        put(work, slot, subtract3(take(work, slot, 3), o))
