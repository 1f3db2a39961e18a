"""The outward pass that every recursion shares: poses, columns and inertias in the common frame.

The common frame has the axes of the ground. Its origin lies, for each subtree that hangs from the ground, at
a link of that subtree (`tree_packing`), because cancellation errors grow with the square of the distance from
the origin. Source: [W] VI-B in one frame: the transforms X disappear, and composite inertias are plain sums.
"""

from connections.engines.inlined.simd import inlined, load, put, sine_cosine, take
from connections.engines.inlined.vectors import matrix_of, rotate_columns
from connections.multibody.kernels.algebra import accumulate
from connections.multibody.kernels.layout import FREE, HELICAL, PARAMETERS, POSE, PRISMATIC


@inlined
def place_links(tree, work):
    """Rotation R and position P of every link from q; link 0 is the ground."""
    poses, k = tree.poses, tree.parameters
    _store_rotation(work, poses, (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    put(work, poses + POSE.position, (0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        slot, above, o = poses + i * POSE.size, poses + tree.parent[i] * POSE.size, i * PARAMETERS.size
        kind, at = tree.kind[i], tree.coordinate[i]
        R = take(work, above, 9)
        E = take(k, o + PARAMETERS.rotation, 9)
        x = rotate_columns(R, (E[0], E[3], E[6]))
        y = rotate_columns(R, (E[1], E[4], E[7]))
        z = rotate_columns(R, (E[2], E[5], E[8]))
        if kind <= HELICAL:
            s, c = sine_cosine(load(work, tree.angles + at))
            turned_x = (x[0] * c + y[0] * s, x[1] * c + y[1] * s, x[2] * c + y[2] * s)
            turned_y = (y[0] * c - x[0] * s, y[1] * c - x[1] * s, y[2] * c - x[2] * s)
            _store_rotation(work, slot, turned_x, turned_y, z)
        elif kind == PRISMATIC:
            _store_rotation(work, slot, x, y, z)
        else:
            _turn_by_quaternion(work, slot, x, y, z, at + (3 if kind == FREE else 0))
        if tree.parent[i] == 0:
            put(work, slot + POSE.position, (0.0, 0.0, 0.0))  # this link is the origin of its subtree
        else:
            t = rotate_columns(R, take(k, o + PARAMETERS.position, 3))
            p = take(work, above + POSE.position, 3)
            p = (p[0] + t[0], p[1] + t[1], p[2] + t[2])
            if kind == PRISMATIC or kind == HELICAL:
                d = load(work, at)
                if kind == HELICAL:
                    d = d * k[o + PARAMETERS.pitch]
                p = (p[0] + z[0] * d, p[1] + z[1] * d, p[2] + z[2] * d)
            elif kind == FREE:
                d = rotate_columns(matrix_of(x, y, z), take(work, at, 3))
                p = (p[0] + d[0], p[1] + d[1], p[2] + d[2])
            put(work, slot + POSE.position, p)
    if tree.shifted:
        _shift_origins(tree, work)


@inlined
def store_columns(tree, work, i, base, stride):
    """Write Phi of the columns of link i to slots base + column * stride."""
    pose, kind, column = tree.poses + i * POSE.size, tree.kind[i], tree.first[i]
    slot = base + column * stride
    if kind <= HELICAL:
        w = load(work, pose + 2), load(work, pose + 5), load(work, pose + 8)
        p = take(work, pose + POSE.position, 3)
        u = (p[1] * w[2] - p[2] * w[1], p[2] * w[0] - p[0] * w[2], p[0] * w[1] - p[1] * w[0])
        if kind == HELICAL:
            pitch = tree.parameters[i * PARAMETERS.size + PARAMETERS.pitch]
            u = (u[0] + w[0] * pitch, u[1] + w[1] * pitch, u[2] + w[2] * pitch)
        put(work, slot, (w[0], w[1], w[2], u[0], u[1], u[2]))
    elif kind == PRISMATIC:
        put(work, slot, (0.0, 0.0, 0.0))
        put(work, slot + 3, (load(work, pose + 2), load(work, pose + 5), load(work, pose + 8)))
    else:
        p = take(work, pose + POSE.position, 3)
        for axis in range(3):
            w = (load(work, pose + axis), load(work, pose + 3 + axis), load(work, pose + 6 + axis))
            u = (p[1] * w[2] - p[2] * w[1], p[2] * w[0] - p[0] * w[2], p[0] * w[1] - p[1] * w[0])
            put(work, slot + axis * stride, (w[0], w[1], w[2], u[0], u[1], u[2]))
            if kind == FREE:
                put(work, slot + (3 + axis) * stride, (0.0, 0.0, 0.0))
                put(work, slot + (3 + axis) * stride + 3, w)


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
    t = rotate_columns(R, take(k, o + PARAMETERS.center, 3))
    cx, cy, cz = p[0] + t[0], p[1] + t[1], p[2] + t[2]
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
def _store_rotation(work, slot, x, y, z):
    """Write the matrix with columns x, y, z to `slot`, row by row."""
    put(work, slot, (x[0], y[0], z[0]))
    put(work, slot + 3, (x[1], y[1], z[1]))
    put(work, slot + 6, (x[2], y[2], z[2]))


@inlined
def _turn_by_quaternion(work, slot, x, y, z, at):
    """R = [x y z] R(quaternion) for the quaternion (a, b, c, d) that begins at coordinate `at` of q."""
    a, b, c, d = load(work, at), load(work, at + 1), load(work, at + 2), load(work, at + 3)
    aa, bb, cc = a * a, b * b, c * c
    ab, ac, bc, ad, bd, cd = a * b, a * c, b * c, a * d, b * d, c * d
    M = matrix_of(x, y, z)
    turned_x = rotate_columns(M, ((bb + cc) * -2.0 + 1.0, (ab + cd) * 2.0, (ac - bd) * 2.0))
    turned_y = rotate_columns(M, ((ab - cd) * 2.0, (aa + cc) * -2.0 + 1.0, (bc + ad) * 2.0))
    turned_z = rotate_columns(M, ((ac + bd) * 2.0, (bc - ad) * 2.0, (aa + bb) * -2.0 + 1.0))
    _store_rotation(work, slot, turned_x, turned_y, turned_z)


@inlined
def _shift_origins(tree, work):
    """Move the origin of each subtree from its root link to the link that `tree_packing` chose."""
    o = take(work, tree.poses + POSE.position, 3)
    for i in range(1, tree.links + 1):
        if tree.parent[i] == 0:
            o = take(work, tree.poses + tree.origin[i] * POSE.size + POSE.position, 3)
        slot = tree.poses + i * POSE.size + POSE.position
        p = take(work, slot, 3)
        put(work, slot, (p[0] - o[0], p[1] - o[1], p[2] - o[2]))
