"""Inverse dynamics, gravity, and products with C and C^T, in O(N), without forming a matrix.

With the twists v_l = J_l v and w_l = J_l w of link l for the vectors v, w, and J_l' w = sum_j Phidot_j w_j,

    H a + C v + g:  f_l = I a_l + v_l x* (I v_l),              tau_j = Phi_j . sum f,
    C w:            f_l = I J_l' w + B w_l,                    (C w)_j = Phi_j . sum f,
    C^T w:          f_l = B^T w_l,  p_l = I w_l,               (C^T w)_j = Phi_j . sum f + Phidot_j . sum p,

where sums are over the links that column j moves, and the ground accelerates by -g.
Source: [W] VI-A and (20), [E] (18).
"""

from connections.engines.inlined.simd import inlined, put, store, take
from connections.engines.inlined.twists import add6, dot6, force_cross, motion_cross, subtract6
from connections.multibody.kernels import armature
from connections.multibody.kernels.algebra import (
    body_factor,
    contorsion_factor,
    contorsion_times,
    factor_times,
    factor_transpose_times,
    momentum,
)
from connections.multibody.kernels.layout import FORCE_COLUMN as COLUMN
from connections.multibody.kernels.layout import FORCE_CROSS, LEAST, PRODUCT_COLUMN
from connections.multibody.kernels.layout import FORCE_LINK as LINK
from connections.multibody.kernels.least import subtract_from_product
from connections.multibody.kernels.origins import add_wrench, inherited
from connections.multibody.kernels.poses import joint_twist, link_inertia, place_links, store_columns


@inlined
def inverse_dynamics(tree, work, tau):
    """tau = H a + C v + g, slots tau[j]; v and a are the first two vectors of the workspace."""
    _newton_euler(tree, work, tau, True, True)


@inlined
def weightless_inverse_dynamics(tree, work, tau):
    """H a + C v, slots tau[j]; v and a are the first two vectors of the workspace."""
    _newton_euler(tree, work, tau, True, False)


@inlined
def nonlinear_effects(tree, work, tau):
    """C v + g, slots tau[j]; v is the first vector of the workspace."""
    _newton_euler(tree, work, tau, False, True)


@inlined
def _newton_euler(tree, work, tau, accelerated, falls):
    """H a + C v + g, without H a unless `accelerated`, and without g unless `falls`; both are constants."""
    place_links(tree, work)
    links, columns, v, a = tree.per_link, tree.per_column, tree.vectors, tree.vectors + tree.nv
    put(work, links, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    put(work, links + LINK.rate, ground_acceleration(tree, falls))
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, columns, COLUMN.size)
        slot, above = links + i * LINK.size, links + tree.parent[i] * LINK.size
        own = joint_twist(tree, work, i, columns, COLUMN.size, v)
        twist = add6(inherited(tree, work, i, above), own)
        acceleration = inherited(tree, work, i, above + LINK.rate)
        if accelerated:
            acceleration = add6(acceleration, joint_twist(tree, work, i, columns, COLUMN.size, a))
        acceleration = add6(acceleration, motion_cross(twist, own))
        put(work, slot, twist)
        put(work, slot + LINK.rate, acceleration)
        inertia = link_inertia(tree, work, i)
        gyroscopic = force_cross(twist, momentum(inertia, twist))
        put(work, slot + LINK.force, add6(momentum(inertia, acceleration), gyroscopic))
    collect_forces(tree, work, COLUMN.size, tau)
    armature.add_product(tree, work, v, v, 1.0, tau)
    if accelerated:
        armature.add_momentum(tree, work, a, tau)


@inlined
def gravity(tree, work, tau):
    """g(q), slots tau[j]; the wrench of a body of mass m and first moment h is -(h x g, m g)."""
    place_links(tree, work)
    links, columns, k = tree.per_link, tree.per_column, tree.parameters
    gx, gy, gz = k[0], k[1], k[2]
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, columns, COLUMN.size)
        inertia = link_inertia(tree, work, i)
        m, hx, hy, hz = inertia[0], inertia[1], inertia[2], inertia[3]
        moment = (hz * gy - hy * gz, hx * gz - hz * gx, hy * gx - hx * gy)
        put(work, links + i * LINK.size + LINK.force, (*moment, -m * gx, -m * gy, -m * gz))
    collect_forces(tree, work, COLUMN.size, tau)


@inlined
def coriolis_product(tree, work, product, factor):
    """C(q, v) w, slots product[j], of the connection of `factor`; v and w are the first two vectors."""
    links = tree.per_link
    _outward_pair(tree, work)
    for i in range(1, tree.links + 1):
        slot = links + i * LINK.size
        twist, second = take(work, slot, 6), take(work, slot + LINK.second, 6)
        rate = take(work, slot + LINK.rate, 6)
        inertia = link_inertia(tree, work, i)
        force = add6(momentum(inertia, rate), factor_times(body_factor(inertia, twist), second))
        if factor == FORCE_CROSS:
            force = subtract6(force, contorsion_times(contorsion_factor(inertia, twist), second))
        put(work, slot + LINK.force, force)
    collect_forces(tree, work, PRODUCT_COLUMN.size, product)
    armature.add_product(tree, work, tree.vectors, tree.vectors + tree.nv, 1.0, product)
    if factor == LEAST and tree.noncommuting_count:
        subtract_from_product(tree, work, 1.0, product)


@inlined
def coriolis_transpose_product(tree, work, product, factor):
    """C(q, v)^T w, slots product[j], as by `coriolis_product`."""
    links, columns = tree.per_link, tree.per_column
    _outward_pair(tree, work)
    for i in range(1, tree.links + 1):
        slot = links + i * LINK.size
        twist, second = take(work, slot, 6), take(work, slot + LINK.second, 6)
        inertia = link_inertia(tree, work, i)
        f = factor_transpose_times(body_factor(inertia, twist), second)
        zero = f[0] - f[0]  # 0 of the type of f[0], so that `force` has one type in both branches
        force = (f[0], f[1], f[2], zero, zero, zero)
        if factor == FORCE_CROSS:
            force = add6(force, contorsion_times(contorsion_factor(inertia, twist), second))
        put(work, slot + LINK.rate, momentum(inertia, second))
        put(work, slot + LINK.force, force)
    for i in range(tree.links, 0, -1):
        p = take(work, links + i * LINK.size + LINK.rate, 6)
        force = take(work, links + i * LINK.size + LINK.force, 6)
        for j in range(tree.first[i], tree.first[i + 1]):
            slot = columns + j * PRODUCT_COLUMN.size
            Phi, Phidot = take(work, slot, 6), take(work, slot + PRODUCT_COLUMN.rate, 6)
            store(product, j, dot6(Phi, force) + dot6(Phidot, p))
        add_wrench(tree, work, i, links, LINK.size, LINK.rate)
        add_wrench(tree, work, i, links, LINK.size, LINK.force)
    armature.add_product(tree, work, tree.vectors, tree.vectors + tree.nv, -1.0, product)
    if factor == LEAST and tree.noncommuting_count:
        subtract_from_product(tree, work, -1.0, product)


@inlined
def mass_product(tree, work, x, product):
    """H x, slots product[j], for the vector x that begins at slot `x`."""
    place_links(tree, work)
    links, columns = tree.per_link, tree.per_column
    put(work, links, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, columns, COLUMN.size)
        slot, above = links + i * LINK.size, links + tree.parent[i] * LINK.size
        twist = add6(inherited(tree, work, i, above), joint_twist(tree, work, i, columns, COLUMN.size, x))
        put(work, slot, twist)
        put(work, slot + LINK.force, momentum(link_inertia(tree, work, i), twist))
    collect_forces(tree, work, COLUMN.size, product)
    armature.add_momentum(tree, work, x, product)


@inlined
def ground_acceleration(tree, falls):
    """The ground's acceleration -g, for gravity as a fictitious force; zero unless `falls`, a constant."""
    k = tree.parameters
    if falls:
        return 0.0, 0.0, 0.0, -k[0], -k[1], -k[2]
    return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0


@inlined
def collect_forces(tree, work, stride, tau):
    """tau_j = Phi_j . (sum of the wrenches of the links that column j moves).

    stride : number of slots from one column to the next.
    """
    links, columns = tree.per_link, tree.per_column
    for i in range(tree.links, 0, -1):
        force = take(work, links + i * LINK.size + LINK.force, 6)
        for j in range(tree.first[i], tree.first[i + 1]):
            store(tau, j, dot6(take(work, columns + j * stride, 6), force))
        add_wrench(tree, work, i, links, LINK.size, LINK.force)


@inlined
def _outward_pair(tree, work):
    """Write each link's columns with their rates, its twists for v and for w, and the sum of Phidot_j w_j."""
    place_links(tree, work)
    links, columns, v, w = tree.per_link, tree.per_column, tree.vectors, tree.vectors + tree.nv
    put(work, links, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    put(work, links + LINK.second, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    put(work, links + LINK.rate, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, columns, PRODUCT_COLUMN.size)
        slot, above = links + i * LINK.size, links + tree.parent[i] * LINK.size
        own = joint_twist(tree, work, i, columns, PRODUCT_COLUMN.size, v)
        twist = add6(inherited(tree, work, i, above), own)
        own = joint_twist(tree, work, i, columns, PRODUCT_COLUMN.size, w)
        put(work, slot, twist)
        put(work, slot + LINK.second, add6(inherited(tree, work, i, above + LINK.second), own))
        rate = inherited(tree, work, i, above + LINK.rate)
        put(work, slot + LINK.rate, add6(rate, motion_cross(twist, own)))
        for j in range(tree.first[i], tree.first[i + 1]):
            at = columns + j * PRODUCT_COLUMN.size
            put(work, at + PRODUCT_COLUMN.rate, motion_cross(twist, take(work, at, 6)))
