"""H, C and Hdot of a tree in O(N d). Source: [W] Algorithm 1, [E] Algorithm 1, in the common frame.

For a column j and a column i before it on the way to the ground, with I and B the sums of the links' inertias
and body-level factors over the subtree that column j moves,

    H_ij = Phi_i . (I Phi_j),
    C_ij = Phi_i . (I Phidot_j + B Phi_j),
    C_ji = Phidot_i . (I Phi_j) + Phi_i . (B^T Phi_j),     Phidot = (v x) Phi.
"""

from connections.engines.inlined.simd import inlined, load, put, store, take
from connections.engines.inlined.twists import add6, dot6, motion_cross, scale6
from connections.multibody.kernels import armature
from connections.multibody.kernels.algebra import (
    body_factor,
    contorsion_factor,
    contorsion_times,
    factor_times,
    factor_transpose_times,
    momentum,
)
from connections.multibody.kernels.layout import CONTORSION, FORCE_CROSS, LEAST, MASS_COLUMN, MASS_LINK
from connections.multibody.kernels.layout import CORIOLIS_COLUMN as COLUMN
from connections.multibody.kernels.layout import CORIOLIS_LINK as LINK
from connections.multibody.kernels.least import subtract_from_matrix
from connections.multibody.kernels.origins import (
    add_contorsion,
    add_factor,
    add_inertia,
    inherited,
    wrench_before,
)
from connections.multibody.kernels.poses import link_inertia, place_links, store_columns


@inlined
def mass_matrix(tree, work, H):
    """H, slots H[i nv + j]; entries of two columns on different branches, which are zero, are not written."""
    place_links(tree, work)
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, columns, MASS_COLUMN.size)
        put(work, links + i * MASS_LINK.size, link_inertia(tree, work, i))
    for link in range(tree.links, 0, -1):
        inertia = take(work, links + link * MASS_LINK.size, 10)
        for j in range(tree.first[link + 1] - 1, tree.first[link] - 1, -1):
            force = momentum(inertia, take(work, columns + j * MASS_COLUMN.size, 6))
            i = j
            while i >= 0:
                value = dot6(take(work, columns + i * MASS_COLUMN.size, 6), force)
                store(H, i * nv + j, value)
                store(H, j * nv + i, value)
                force = wrench_before(tree, work, i, force)
                i = tree.up[i]
        add_inertia(tree, work, link, links, MASS_LINK.size, 0)
    armature.add_to_mass_matrix(tree, H)


@inlined
def coriolis_matrix(tree, work, C, factor):
    """C, slots C[i nv + j], of the connection that `factor` names (`layout`).

    v is the first vector of the workspace.
    """
    _levi_civita_matrix(tree, work, C)
    if factor == FORCE_CROSS:
        _subtract_contorsion(tree, work, C)
    elif factor == LEAST:
        subtract_from_matrix(tree, work, C)


@inlined
def _levi_civita_matrix(tree, work, C):
    """C of the Levi-Civita connection."""
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    _outward(tree, work)
    for link in range(tree.links, 0, -1):
        inertia = take(work, links + link * LINK.size + LINK.inertia, 10)
        B = take(work, links + link * LINK.size + LINK.factor, 12)
        for j in range(tree.first[link + 1] - 1, tree.first[link] - 1, -1):
            Phi = take(work, columns + j * COLUMN.size, 6)
            Phidot = take(work, columns + j * COLUMN.size + COLUMN.rate, 6)
            f1 = add6(momentum(inertia, Phidot), factor_times(B, Phi))
            f2 = momentum(inertia, Phi)
            f3 = factor_transpose_times(B, Phi)
            store(C, j * nv + j, dot6(Phi, f1))
            f1, f2 = wrench_before(tree, work, j, f1), wrench_before(tree, work, j, f2)
            i = tree.up[j]
            while i >= 0:
                Phi = take(work, columns + i * COLUMN.size, 6)
                Phidot = take(work, columns + i * COLUMN.size + COLUMN.rate, 6)
                store(C, i * nv + j, dot6(Phi, f1))
                store(C, j * nv + i, dot6(Phidot, f2) + (Phi[0] * f3[0] + Phi[1] * f3[1] + Phi[2] * f3[2]))
                f1, f2 = wrench_before(tree, work, i, f1), wrench_before(tree, work, i, f2)
                i = tree.up[i]
        add_inertia(tree, work, link, links, LINK.size, LINK.inertia)
        add_factor(tree, work, link, links, LINK.size, LINK.factor)
    armature.add_to_coriolis_matrix(tree, work, tree.vectors, C)


@inlined
def _subtract_contorsion(tree, work, C):
    """Turn C of the Levi-Civita connection into C of the factor (v x*) I.

    The difference is C_ij - C*_ij = -Phi_i . N Phi_j, with N = sum B(I_l, v_l) - (v_l x*) I_l over the links
    that both columns move; N is skew, fifteen numbers. The workspace must be as `_levi_civita_matrix` left
    it. Source: [E] (11), (12).
    """
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    factors = links + (tree.links + 1) * LINK.size
    for i in range(1, tree.links + 1):
        N = contorsion_factor(link_inertia(tree, work, i), take(work, links + i * LINK.size, 6))
        put(work, factors + i * CONTORSION.size, N)
    for link in range(tree.links, 0, -1):
        N = take(work, factors + link * CONTORSION.size, 15)
        for j in range(tree.first[link + 1] - 1, tree.first[link] - 1, -1):
            force = contorsion_times(N, take(work, columns + j * COLUMN.size, 6))
            force = wrench_before(tree, work, j, force)
            i = tree.up[j]
            while i >= 0:
                D = dot6(take(work, columns + i * COLUMN.size, 6), force)
                store(C, i * nv + j, load(C, i * nv + j) - D)
                store(C, j * nv + i, load(C, j * nv + i) + D)
                force = wrench_before(tree, work, i, force)
                i = tree.up[i]
        add_contorsion(tree, work, link, factors, CONTORSION.size, 0)


@inlined
def mass_matrix_rate(tree, work, rate):
    """Hdot = C + C^T, slots rate[i nv + j]; v is the first vector of the workspace."""
    _levi_civita_matrix(tree, work, rate)
    add_transpose(tree.nv, tree.up, rate)


@inlined
def add_transpose(nv, up, matrix):
    """Add its transpose to a matrix, for columns that are related: up[i] is the column before i."""
    for j in range(nv):
        i = j
        while i >= 0:
            value = load(matrix, i * nv + j) + load(matrix, j * nv + i)
            store(matrix, i * nv + j, value)
            store(matrix, j * nv + i, value)
            i = up[i]


@inlined
def _outward(tree, work):
    """Twists, columns and their rates, inertias and body-level factors of all links."""
    place_links(tree, work)
    links, columns = tree.per_link, tree.per_column
    put(work, links, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        twist = outward_twist(tree, work, i, links, columns)
        inertia = link_inertia(tree, work, i)
        put(work, links + i * LINK.size + LINK.inertia, inertia)
        put(work, links + i * LINK.size + LINK.factor, body_factor(inertia, twist))


@inlined
def outward_twist(tree, work, i, links, columns):
    """Store the columns of link i, its twist v_i = v_parent + Phi v, and Phidot = (v_i x) Phi; return v_i."""
    store_columns(tree, work, i, columns, COLUMN.size)
    twist = inherited(tree, work, i, links + tree.parent[i] * LINK.size)
    for j in range(tree.first[i], tree.first[i + 1]):
        twist = add6(twist, scale6(take(work, columns + j * COLUMN.size, 6), load(work, tree.vectors + j)))
    put(work, links + i * LINK.size, twist)
    for j in range(tree.first[i], tree.first[i + 1]):
        slot = columns + j * COLUMN.size
        put(work, slot + COLUMN.rate, motion_cross(twist, take(work, slot, 6)))
    return twist
