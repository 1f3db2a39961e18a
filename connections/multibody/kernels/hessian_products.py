"""Second derivatives of w . tau and of w . vdot, w held fixed, in O(N d): no tensor is formed.

In the notation of `derivatives`, v, a and w are the twist, acceleration and twist for w of the link before
that of a column; I, B and F are sums over the links that it moves, and so are P = sum I w_i and
Q = sum B^T w_i, with the twists w_i of these links, and J x = sum (w_i x* I x - I (w_i x x)). L_j is the
derivative along column j. With phi = w . tau and, for each column,

    chi = w x Phi,    psi = v x Phi,    psi' = a x Phi + v x psi,    e = Phidot + psi,
    alpha = Phi x* F + I psi' + 2 B psi,                      f = 2 B Phi + I e,
    beta = 2 Phi x* Q + 2 B^T chi + psi x* P - J psi,         gamma = Phi x* P + I chi,
    delta = Phi x* P - J Phi,

for a column k that is j, is before j, or is of the same link,

    L_k L_j phi = chi_k . alpha_j + psi_k . beta_j + psi'_k . gamma_j,
    L_k dphi/dv_j = chi_k . f_j + psi_k . delta_j,            L_k dphi/da_j = chi_k . I Phi_j,
    d2phi/dv_k dv_j = Phi_k . delta_j, and + (Phi_j x Phi_k) . P_j if they are of one link,

and for a column k that belongs to a link before that of j,

    L_j L_k phi = L_k L_j phi,
    L_j dphi/dv_k = Phi_k . beta_j + e_k . gamma_j,           L_j dphi/da_k = Phi_k . gamma_j.

This is because a displacement along k turns everything that j moves rigidly, which changes no inner product,
except that v, a and w of the link before k do not turn with it; that adds psi_k, psi'_k and chi_k to all
twists and accelerations behind. Columns on different branches give zero. Of Q, beta and delta only the
angular parts are not zero: the right half of B is zero, and psi x* I w - J psi = 2 B(I, psi)^T w.

For the forward dynamics, vdot is a, and w is replaced by H^-1 w. With R the derivatives
R_jk = L_k (H^-1 w)_j = -(H^-1 L_k H H^-1 w)_j, D_q = dtau/dq and D_v = dtau/dv,

    L_k L_j = -(L_k L_j phi + (D_q^T R)_jk + (D_q^T R)_kj),    L_k d/dv_j = -(L_k dphi/dv_j + (D_v^T R)_jk),
    d2/dv dv = -d2phi/dv dv,                                   L_k d/dtau_j = R_jk.

Source: derived for this package by differentiation of [B] Tables 4 to 8, in the common frame.
"""

from connections.engines.inlined.elimination import solve_by_elimination, solve_rows, subtract_row
from connections.engines.inlined.rows import clear
from connections.engines.inlined.simd import beyond, inlined, load, put, store, take
from connections.engines.inlined.twists import add6, dot6, force_cross, motion_cross, scale6
from connections.engines.inlined.vectors import add3, cross3, dot3, scale3
from connections.multibody.kernels import armature, articulated, derivatives
from connections.multibody.kernels.algebra import (
    factor_times,
    factor_transpose_times,
    momentum,
    turned_inertia,
)
from connections.multibody.kernels.layout import DERIVATIVES_COLUMN as COLUMN
from connections.multibody.kernels.layout import DERIVATIVES_LINK as LINK
from connections.multibody.kernels.layout import HESSIAN_COLUMN, HESSIAN_LINK
from connections.multibody.kernels.poses import add_to_parent, joint_twist


@inlined
def inverse_dynamics_hessian_product(tree, work, out):
    """L_k L_j phi, L_k dphi/dv_j, d2phi/dv_j dv_k and L_k dphi/da_j, slots out[(block nv + j) nv + k].

    v, a and w are the three vectors.
    """
    derivatives.outward(tree, work, True)
    _outward(tree, work)
    nv, columns = tree.nv, tree.per_column
    links, others = tree.per_link, tree.per_link + (tree.links + 1) * LINK.size
    turns = columns + nv * COLUMN.size
    in_v, in_vv, in_a = nv * nv, 2 * nv * nv, 3 * nv * nv
    for link in range(tree.links, 0, -1):
        slot, other = links + link * LINK.size, others + link * HESSIAN_LINK.size
        inertia, B = take(work, slot + LINK.inertia, 10), take(work, slot + LINK.factor, 12)
        F, P = take(work, slot + LINK.force, 6), take(work, other + HESSIAN_LINK.momentum, 6)
        Q, J = take(work, other + HESSIAN_LINK.back, 3), take(work, other + HESSIAN_LINK.turned, 10)
        first, stop = tree.first[link], tree.first[link + 1]
        for j in range(first, stop):
            at = columns + j * COLUMN.size
            Phi, e = take(work, at, 6), take(work, at + COLUMN.rate, 6)
            psi, psi_rate = take(work, at + COLUMN.psi, 6), take(work, at + COLUMN.psi_rate, 6)
            chi = take(work, turns + j * HESSIAN_COLUMN.size, 6)
            alpha = add6(momentum(inertia, psi_rate), scale6(factor_times(B, psi), 2.0))
            alpha = add6(alpha, force_cross(Phi, F))
            turned = add3(cross3(Phi, Q), factor_transpose_times(B, chi))
            beta = add3(scale3(turned, 2.0), moved_force(J, P, psi))
            gamma = add6(force_cross(Phi, P), momentum(inertia, chi))
            delta = moved_force(J, P, Phi)
            f = add6(scale6(factor_times(B, Phi), 2.0), momentum(inertia, e))
            f_a = momentum(inertia, Phi)
            for k in range(first, stop):
                slot_k, chi_k = columns + k * COLUMN.size, take(work, turns + k * HESSIAN_COLUMN.size, 6)
                Phi_k, psi_k = take(work, slot_k, 6), take(work, slot_k + COLUMN.psi, 6)
                psi_rate = take(work, slot_k + COLUMN.psi_rate, 6)
                value = dot6(chi_k, alpha) + dot3(psi_k, beta) + dot6(psi_rate, gamma)
                store(out, j * nv + k, value)
                store(out, in_v + j * nv + k, dot6(chi_k, f) + dot3(psi_k, delta))
                value = dot3(Phi_k, delta) + dot6(motion_cross(Phi, Phi_k), P)
                store(out, in_vv + j * nv + k, value)
                store(out, in_a + j * nv + k, dot6(chi_k, f_a))
            k = tree.up[first]
            while k >= 0:
                slot_k, chi_k = columns + k * COLUMN.size, take(work, turns + k * HESSIAN_COLUMN.size, 6)
                Phi_k, psi_k = take(work, slot_k, 6), take(work, slot_k + COLUMN.psi, 6)
                e_k, psi_rate = take(work, slot_k + COLUMN.rate, 6), take(work, slot_k + COLUMN.psi_rate, 6)
                value = dot6(chi_k, alpha) + dot3(psi_k, beta) + dot6(psi_rate, gamma)
                store(out, j * nv + k, value)
                store(out, k * nv + j, value)
                store(out, in_v + j * nv + k, dot6(chi_k, f) + dot3(psi_k, delta))
                store(out, in_v + k * nv + j, dot3(Phi_k, beta) + dot6(e_k, gamma))
                value = dot3(Phi_k, delta)
                store(out, in_vv + j * nv + k, value)
                store(out, in_vv + k * nv + j, value)
                store(out, in_a + j * nv + k, dot6(chi_k, f_a))
                store(out, in_a + k * nv + j, dot6(Phi_k, gamma))
                k = tree.up[k]
        add_to_parent(tree, work, link, links, LINK.size, LINK.inertia)
        add_to_parent(tree, work, link, others, HESSIAN_LINK.size, HESSIAN_LINK.momentum)
    armature.add_to_hessian_product(tree, work, tree.vectors + 2 * nv, in_vv, out)


@inlined
def forward_dynamics_hessian_product(tree, work, out):
    """Second derivatives of w . vdot, with tau in the place of a; v, tau and w are the three vectors."""
    nv, size, D = tree.nv, tree.nv * tree.nv, tree.scratch
    H, w = D + 2 * size, tree.vectors + 2 * nv
    articulated.forward_dynamics(tree, work, beyond(work, tree.vectors + nv))  # in the place of tau
    clear(work, D, 2 * size)
    derivatives.inverse_dynamics_derivatives(tree, work, beyond(work, D))
    articulated.store_scales(tree, work, (tree.per_link + LINK.inertia, LINK.size), COLUMN.size)
    solve_by_elimination(nv, tree.up, tree.run, work, H, tree.pivots, w)
    clear(out, 0, 4 * size)
    inverse_dynamics_hessian_product(tree, work, out)
    R, products = 3 * size, H + size
    solve_rows(nv, nv, tree.up, work, H, beyond(out, R))
    clear(work, products, size)
    for k in range(3 * size):
        store(out, k, -load(out, k))
    for i in range(nv):
        j = tree.up[i]
        while j >= 0:
            _add_products(nv, work, D, i, j, out, R, products)
            j = tree.up[j]
        for j in range(i, tree.end[i]):  # the columns behind i, and those of its link that follow
            _add_products(nv, work, D, i, j, out, R, products)
    for j in range(nv):
        for k in range(nv):
            value = load(work, products + j * nv + k) + load(work, products + k * nv + j)
            store(out, j * nv + k, load(out, j * nv + k) - value)


@inlined
def _add_products(nv, work, D, i, j, out, R, products):
    """Add the terms of D_q[i, j] R[i] to `products`, and subtract those of D_v[i, j] R[i] from `out`."""
    D_q, D_v = load(work, D + i * nv + j), load(work, D + (nv + i) * nv + j)
    for k in range(nv):
        value = load(out, R + i * nv + k)
        store(work, products + j * nv + k, load(work, products + j * nv + k) + D_q * value)
    subtract_row(out, D_v, (nv + j) * nv, R + i * nv, nv)


@inlined
def _outward(tree, work):
    """W, P, Q and J of links, and chi of columns, behind what `derivatives.outward` stored."""
    nv, columns, w = tree.nv, tree.per_column, tree.vectors + 2 * tree.nv
    links, others = tree.per_link, tree.per_link + (tree.links + 1) * LINK.size
    turns = columns + nv * COLUMN.size
    put(work, others, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        slot, other = links + i * LINK.size, others + i * HESSIAN_LINK.size
        before = take(work, others + tree.parent[i] * HESSIAN_LINK.size, 6)
        W = add6(before, joint_twist(tree, work, i, columns, COLUMN.size, w))
        inertia = take(work, slot + LINK.inertia, 10)
        put(work, other, W)
        put(work, other + HESSIAN_LINK.momentum, momentum(inertia, W))
        put(work, other + HESSIAN_LINK.back, factor_transpose_times(take(work, slot + LINK.factor, 12), W))
        put(work, other + HESSIAN_LINK.turned, turned_inertia(inertia, W))
        for j in range(tree.first[i], tree.first[i + 1]):
            chi = motion_cross(before, take(work, columns + j * COLUMN.size, 6))
            put(work, turns + j * HESSIAN_COLUMN.size, chi)


@inlined
def moved_force(J, P, x):
    """The angular part of x x* P - J x."""
    moved = momentum(J, x)
    turned = add3(cross3(x, P), cross3((x[3], x[4], x[5]), (P[3], P[4], P[5])))
    return turned[0] - moved[0], turned[1] - moved[1], turned[2] - moved[2]
