"""The rate of a tree's C along a motion, in O(N d). Source: [W] Algorithm 1, differentiated.

Link l moves with the twist v_l, so that with its acceleration a_l, its inertia I_l and B of [W] (21)

    d/dt Phi_j = Phidot_j = v_j x Phi_j,    d/dt Phidot_j = Phiddot_j = a_j x Phi_j + v_j x Phidot_j,
    d/dt I_l = v_l x* I_l - I_l v_l x,      d/dt B(I_l, v_l) = B(d/dt I_l, v_l) + B(I_l, a_l),

where v_j and a_j belong to the link of column j. The rate of C is the product rule on the equations of
`coriolis`, with sums I, I', B, B' over the links that column j moves. For i before j,

    C'_ij = Phi_i . (I' Phidot_j + I Phiddot_j + B' Phi_j + B Phidot_j) + Phidot_i . (I Phidot_j + B Phi_j),
    C'_ji = Phiddot_i . I Phi_j + Phidot_i . (I' Phi_j + I Phidot_j + B^T Phi_j)
            + Phi_i . (B'^T Phi_j + B^T Phidot_j).

The contorsion of the factor (v x*) I is Phi_i . N Phi_j with N bilinear in I_l and v_l, as B is.
"""

from connections.engines.inlined.rows import accumulate
from connections.engines.inlined.simd import beyond, inlined, load, put, store, take
from connections.engines.inlined.twists import add6, dot6, force_cross, motion_cross
from connections.engines.inlined.vectors import add3, dot3
from connections.multibody.kernels import armature
from connections.multibody.kernels.algebra import (
    add_numbers,
    body_factor,
    contorsion_factor,
    contorsion_times,
    factor_times,
    factor_transpose_times,
    momentum,
    turned_inertia,
)
from connections.multibody.kernels.layout import CONTORSION_RATE as CONTORSION
from connections.multibody.kernels.layout import FORCE_CROSS, LEAST
from connections.multibody.kernels.layout import RATE_COLUMN as COLUMN
from connections.multibody.kernels.layout import RATE_LINK as LINK
from connections.multibody.kernels.least import subtract_by_rows
from connections.multibody.kernels.poses import (
    add_to_parent,
    joint_twist,
    link_inertia,
    place_links,
    store_columns,
)


@inlined
def coriolis_matrix_rate(tree, work, rate, factor):
    """d/dt C(q, v), slots rate[i nv + j], of the connection of `factor`; v and a are the vectors."""
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    move_links(tree, work)
    accelerate_links(tree, work)
    for link in range(tree.links, 0, -1):
        slot = links + link * LINK.size
        inertia, B = take(work, slot + LINK.inertia, 10), take(work, slot + LINK.factor, 12)
        turned, B_rate = take(work, slot + LINK.turned, 10), take(work, slot + LINK.factor_rate, 12)
        for j in range(tree.first[link + 1] - 1, tree.first[link] - 1, -1):
            at = columns + j * COLUMN.size
            Phi, own = take(work, at, 6), take(work, at + COLUMN.rate, 6)
            first = add6(momentum(inertia, own), factor_times(B, Phi))
            second = forces_of_rate(inertia, turned, B, B_rate, (Phi, own, take(work, at + COLUMN.second, 6)))
            store(rate, j * nv + j, dot6(Phi, second) + dot6(own, first))
            momentum_rate = add6(momentum(turned, Phi), momentum(inertia, own))
            back = factor_transpose_times(B, Phi)
            back_rate = add3(factor_transpose_times(B_rate, Phi), factor_transpose_times(B, own))
            p = momentum(inertia, Phi)
            i = tree.up[j]
            while i >= 0:
                before = columns + i * COLUMN.size
                Phi_i, rate_i = take(work, before, 6), take(work, before + COLUMN.rate, 6)
                store(rate, i * nv + j, dot6(Phi_i, second) + dot6(rate_i, first))
                value = dot6(take(work, before + COLUMN.second, 6), p) + dot6(rate_i, momentum_rate)
                value = value + dot3(rate_i, back) + dot3(Phi_i, back_rate)
                store(rate, j * nv + i, value)
                i = tree.up[i]
        if tree.parent[link] > 0:
            above = links + tree.parent[link] * LINK.size
            accumulate(work, above + LINK.inertia, slot + LINK.inertia, LINK.force - LINK.inertia)
    armature.add_to_coriolis_matrix(tree, work, tree.vectors + nv, rate)  # its symbols are constant
    if factor == FORCE_CROSS:
        _subtract_contorsion(tree, work, rate)
    elif factor == LEAST and tree.noncommuting_count:
        _subtract_least(tree, work, rate)


@inlined
def _subtract_least(tree, work, rate):
    """Subtract the rate of D_ijk v^j of the least C, bilinear in H and v: of Hdot and v, and of H and a."""
    nv, H, size = tree.nv, tree.scratch, tree.nv * tree.nv
    for j in range(nv):
        link, at = tree.per_link + tree.link_of[j] * LINK.size, tree.per_column + j * COLUMN.size
        inertia, turned = take(work, link + LINK.inertia, 10), take(work, link + LINK.turned, 10)
        Phi = take(work, at, 6)
        p = momentum(inertia, Phi)
        p_rate = add6(momentum(turned, Phi), momentum(inertia, take(work, at + COLUMN.rate, 6)))
        i = j
        while i >= 0:
            at = tree.per_column + i * COLUMN.size
            Phi = take(work, at, 6)
            value, value_rate = dot6(Phi, p), dot6(Phi, p_rate) + dot6(take(work, at + COLUMN.rate, 6), p)
            store(work, H + i * nv + j, value)
            store(work, H + j * nv + i, value)
            store(work, H + size + i * nv + j, value_rate)
            store(work, H + size + j * nv + i, value_rate)
            i = tree.up[i]
    armature.add_to_mass_matrix(tree, beyond(work, H))
    for number in range(tree.noncommuting_count):
        first = tree.first[tree.noncommuting[number]]
        columns, zero = (first, tree.first[tree.noncommuting[number] + 1] - first), load(work, tree.poses + 1)
        for part in range(2):
            given = H + (1 - part) * size, tree.vectors + part * nv
            subtract_by_rows(nv, tree.up, columns, work, given, zero, rate)


@inlined
def _subtract_contorsion(tree, work, rate):
    """Subtract the rate of Phi_i . N Phi_j, a skew matrix; the workspace is as the caller left it."""
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    factors = links + (tree.links + 1) * LINK.size
    for i in range(1, tree.links + 1):
        twist = take(work, links + i * LINK.size, 6)
        acceleration = take(work, links + i * LINK.size + LINK.acceleration, 6)
        inertia = link_inertia(tree, work, i)
        slot = factors + i * CONTORSION.size
        put(work, slot, contorsion_factor(inertia, twist))
        put(work, slot + CONTORSION.rate, contorsion_factor(turned_inertia(inertia, twist), twist))
        put(work, slot + CONTORSION.other, contorsion_factor(inertia, acceleration))
    for link in range(tree.links, 0, -1):
        slot = factors + link * CONTORSION.size
        N, other = take(work, slot, 15), take(work, slot + CONTORSION.other, 15)
        N_rate = take(work, slot + CONTORSION.rate, 15)
        for j in range(tree.first[link + 1] - 1, tree.first[link] - 1, -1):
            at = columns + j * COLUMN.size
            Phi = take(work, at, 6)
            first = contorsion_times(N, Phi)
            second = add6(contorsion_times(N_rate, Phi), contorsion_times(other, Phi))
            second = add6(second, contorsion_times(N, take(work, at + COLUMN.rate, 6)))
            i = tree.up[j]
            while i >= 0:
                before = columns + i * COLUMN.size
                D = dot6(take(work, before, 6), second) + dot6(take(work, before + COLUMN.rate, 6), first)
                store(rate, i * nv + j, load(rate, i * nv + j) - D)
                store(rate, j * nv + i, load(rate, j * nv + i) + D)
                i = tree.up[i]
        add_to_parent(tree, work, link, factors, CONTORSION.size, 0)


# --- parts, also for the curvature --------------------------------------------------------------------------


@inlined
def forces_of_rate(inertia, turned, B, B_rate, column):
    """I' Phidot + I Phiddot + B' Phi + B Phidot of a column, given as (Phi, Phidot, Phiddot)."""
    Phi, rate, second = column
    force = add6(momentum(turned, rate), momentum(inertia, second))
    return add6(force, add6(factor_times(B_rate, Phi), factor_times(B, rate)))


@inlined
def move_links(tree, work):
    """Twists, inertias, and body-level factors of all links, Phi and Phidot of all columns."""
    place_links(tree, work)
    links, columns = tree.per_link, tree.per_column
    put(work, links, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, columns, COLUMN.size)
        own = joint_twist(tree, work, i, columns, COLUMN.size, tree.vectors)
        twist = add6(take(work, links + tree.parent[i] * LINK.size, 6), own)
        slot, inertia = links + i * LINK.size, link_inertia(tree, work, i)
        put(work, slot, twist)
        put(work, slot + LINK.inertia, inertia)
        put(work, slot + LINK.factor, body_factor(inertia, twist))
        for j in range(tree.first[i], tree.first[i + 1]):
            at = columns + j * COLUMN.size
            put(work, at + COLUMN.rate, motion_cross(twist, take(work, at, 6)))


@inlined
def accelerate_links(tree, work):
    """Accelerations, forces, and rates of inertias and factors of all links, Phiddot; after `move_links`.

    The accelerations are those without gravity, for the second vector of the workspace. Sums of inertias and
    factors over subtrees may have replaced those of links.
    """
    links, columns, a = tree.per_link, tree.per_column, tree.vectors + tree.nv
    put(work, links + LINK.acceleration, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        slot, above = links + i * LINK.size, links + tree.parent[i] * LINK.size
        twist = take(work, slot, 6)
        own = joint_twist(tree, work, i, columns, COLUMN.size, tree.vectors)
        acceleration = add6(take(work, above + LINK.acceleration, 6), motion_cross(twist, own))
        acceleration = add6(acceleration, joint_twist(tree, work, i, columns, COLUMN.size, a))
        inertia = link_inertia(tree, work, i)
        turned = turned_inertia(inertia, twist)
        put(work, slot + LINK.acceleration, acceleration)
        put(work, slot + LINK.turned, turned)
        B_rate = add_numbers(body_factor(turned, twist), body_factor(inertia, acceleration))
        put(work, slot + LINK.factor_rate, B_rate)
        gyroscopic = force_cross(twist, momentum(inertia, twist))
        put(work, slot + LINK.force, add6(momentum(inertia, acceleration), gyroscopic))
        for j in range(tree.first[i], tree.first[i + 1]):
            at = columns + j * COLUMN.size
            second = motion_cross(acceleration, take(work, at, 6))
            put(work, at + COLUMN.second, add6(second, motion_cross(twist, take(work, at + COLUMN.rate, 6))))
