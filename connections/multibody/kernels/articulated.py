"""Forward dynamics by articulated bodies in O(N), and the inverse mass matrix by sparse elimination.

Columns are eliminated one at a time, as if massless bodies were between the columns of one link. With the
articulated inertia I_A and bias force p of the link that column j moves, and c_j = Phidot_j v_j,

    U = I_A Phi_j,   d = Phi_j . U,   u = tau_j - Phi_j . p,
    I_A <- I_A - U U^T / d,   p <- p + I_A c_j + U u / d,
    vdot_j = (u - U . a) / d,   a = a_before + c_j,   then a <- a + Phi_j vdot_j.

Armature a_j is added to d and to its terms, and C v of `armature` is subtracted from tau. H is singular if a
pivot d vanishes. How far it is from that is left in `pivots`: d divided by the terms of Phi_j . I Phi_j
before they cancel (`energy_scale`), with I the inertia of the subtree.

Source: Featherstone, Rigid Body Dynamics Algorithms, chapters 7 (articulated bodies) and 6 (factorization of
H along the branches).
"""

from connections.engines.inlined.elimination import invert_by_elimination
from connections.engines.inlined.simd import beyond, inlined, load, put, store, take
from connections.engines.inlined.twists import add6, dot6, force_cross, motion_cross, scale6
from connections.multibody.kernels import armature, coriolis
from connections.multibody.kernels.algebra import energy_scale, momentum
from connections.multibody.kernels.layout import ARTICULATED_COLUMN as COLUMN
from connections.multibody.kernels.layout import ARTICULATED_LINK as LINK
from connections.multibody.kernels.layout import MASS_COLUMN, MASS_LINK
from connections.multibody.kernels.origins import add_articulated, add_inertia, add_wrench, inherited
from connections.multibody.kernels.poses import joint_twist, link_inertia, place_links, store_columns


@inlined
def forward_dynamics(tree, work, acceleration):
    """vdot = H^-1 (tau - C v - g), slots acceleration[j]; v and tau are the first two vectors."""
    place_links(tree, work)
    links, columns, v = tree.per_link, tree.per_column, tree.vectors
    put(work, links, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, columns, COLUMN.size)
        slot = links + i * LINK.size
        own = joint_twist(tree, work, i, columns, COLUMN.size, v)
        twist = add6(inherited(tree, work, i, links + tree.parent[i] * LINK.size), own)
        for j in range(tree.first[i], tree.first[i + 1]):
            at = columns + j * COLUMN.size
            put(work, at + COLUMN.bias, scale6(motion_cross(twist, take(work, at, 6)), load(work, v + j)))
        inertia = link_inertia(tree, work, i)
        put(work, slot, twist)
        _store_articulated(work, slot + LINK.articulated, inertia)
        put(work, slot + LINK.bias, force_cross(twist, momentum(inertia, twist)))
        put(work, slot + LINK.inertia, inertia)
    armature.add_product(tree, work, v, v, -1.0, beyond(work, v + tree.nv))
    for i in range(tree.links, 0, -1):
        inertia = take(work, links + i * LINK.size + LINK.inertia, 10)
        for j in range(tree.first[i + 1] - 1, tree.first[i] - 1, -1):
            Phi = take(work, columns + j * COLUMN.size, 6)
            tau = load(work, v + tree.nv + j)
            a = tree.armature[j]
            d = _eliminate(work, links + i * LINK.size, columns + j * COLUMN.size, tau, a)
            store(work, tree.pivots + j, d / (energy_scale(inertia, Phi) + a))
        add_articulated(tree, work, i, links, LINK.size, LINK.articulated)
        add_wrench(tree, work, i, links, LINK.size, LINK.bias)
        add_inertia(tree, work, i, links, LINK.size, LINK.inertia)
    k = tree.parameters
    put(work, links, (0.0, 0.0, 0.0, -k[0], -k[1], -k[2]))
    for i in range(1, tree.links + 1):
        a = inherited(tree, work, i, links + tree.parent[i] * LINK.size)
        for j in range(tree.first[i], tree.first[i + 1]):
            at = columns + j * COLUMN.size
            a = add6(a, take(work, at + COLUMN.bias, 6))
            u, U = load(work, at + COLUMN.u), take(work, at + COLUMN.U, 6)
            rate = (u - dot6(U, a)) * load(work, at + COLUMN.inverse)
            a = add6(a, scale6(take(work, at, 6), rate))
            store(acceleration, j, rate)
        put(work, links + i * LINK.size, a)


@inlined
def inverse_mass_matrix(tree, work, inverse):
    """H^-1, slots inverse[i nv + j]."""
    coriolis.mass_matrix(tree, work, beyond(work, tree.scratch))
    store_scales(tree, work, (tree.per_link, MASS_LINK.size), MASS_COLUMN.size)
    invert_by_elimination(tree.nv, tree.up, tree.run, work, tree.scratch, tree.pivots, inverse)


@inlined
def store_scales(tree, work, inertias, stride):
    """Write `energy_scale` and the armature of every column to `pivots`.

    inertias : first slot of the composite inertias, and number of slots from one link to the next.
    stride : number of slots from one column to the next.
    """
    for i in range(1, tree.links + 1):
        inertia = take(work, inertias[0] + i * inertias[1], 10)
        for j in range(tree.first[i], tree.first[i + 1]):
            Phi = take(work, tree.per_column + j * stride, 6)
            store(work, tree.pivots + j, energy_scale(inertia, Phi) + tree.armature[j])


@inlined
def _store_articulated(work, slot, inertia):
    """The upper triangle of the (6, 6) matrix [[Ibar, h x], [(h x)^T, m 1]], row by row, 21 numbers."""
    m, hx, hy, hz, a, b, c, d, e, f = inertia
    zero = m - m  # 0 of the type of m, float64 or `lanes`
    put(work, slot, (a, b, c, zero, -hz, hy))
    put(work, slot + 6, (d, e, hz))
    put(work, slot + 9, (zero, -hx, f))
    put(work, slot + 12, (-hy, hx, zero))
    put(work, slot + 15, (m, zero, zero, m, zero, m))


@inlined
def _eliminate(work, link, column, tau, a):
    """Eliminate one column, of armature a, from the articulated inertia and bias force of its link.

    Returns the pivot d.
    """
    Phi, c = take(work, column, 6), take(work, column + COLUMN.bias, 6)
    p, slot = take(work, link + LINK.bias, 6), link + LINK.articulated
    U = _articulated_times(work, slot, Phi)
    d = dot6(Phi, U) + a
    inverse = 1.0 / d
    u = tau - dot6(Phi, p)
    put(work, column + COLUMN.U, U)
    store(work, column + COLUMN.inverse, inverse)
    store(work, column + COLUMN.u, u)
    for row in range(6):
        scaled = U[row] * inverse
        for entry in range(row, 6):
            store(work, slot, load(work, slot) - scaled * U[entry])
            slot += 1
    p = add6(p, _articulated_times(work, link + LINK.articulated, c))
    put(work, link + LINK.bias, add6(p, scale6(U, u * inverse)))
    return d


@inlined
def _articulated_times(work, slot, x):
    """The product with x of the symmetric (6, 6) matrix whose upper triangle begins at `slot`."""
    a = take(work, slot, 6)
    b1, b2, b3, b4, b5 = take(work, slot + 6, 5)
    c2, c3, c4, c5 = take(work, slot + 11, 4)
    d3, d4, d5 = take(work, slot + 15, 3)
    e4, e5, f5 = take(work, slot + 18, 3)
    return (
        dot6(a, x),
        a[1] * x[0] + b1 * x[1] + b2 * x[2] + b3 * x[3] + b4 * x[4] + b5 * x[5],
        a[2] * x[0] + b2 * x[1] + c2 * x[2] + c3 * x[3] + c4 * x[4] + c5 * x[5],
        a[3] * x[0] + b3 * x[1] + c3 * x[2] + d3 * x[3] + d4 * x[4] + d5 * x[5],
        a[4] * x[0] + b4 * x[1] + c4 * x[2] + d4 * x[3] + e4 * x[4] + e5 * x[5],
        a[5] * x[0] + b5 * x[1] + c5 * x[2] + d5 * x[3] + e5 * x[4] + f5 * x[5],
    )
