"""Second derivatives of tau = H a + C v + g and of vdot, all components, in O(N d^2) entries.

In the notation of `hessian_products`, for the unit vector w = e_i: the twist w is Phi_i behind column i, and
zero elsewhere. Let c be the column that is farthest out among i, j and k, or one of its link, with the sums
I, B, F of this link, and

    alpha = Phi_c x* F + I psi'_c + 2 B psi_c,    f = 2 B Phi_c + I e_c,    m = I Phi_c,
    B_c = B(I, Phi_c),    I_c = Phi_c x* I - I (Phi_c x),    M_c = Phi_c x* B - B (Phi_c x) + B(I, psi_c).

If j = c, and i is c, is before c, or is of the same link,

    beta = 2 M_c^T Phi_i,    gamma = I_c Phi_i,    delta = 2 B_c^T Phi_i,

to which 2 B^T (Phi_c x Phi_i) and I (Phi_c x Phi_i) are added if i is of the link of c; and chi_k is
Phi_i x Phi_k if i belongs to a link before that of k, and otherwise zero. Since (x x y) . z = x . (y x* z),
these terms of `hessian_products` are products of Phi_i with the wrenches Phi_k x* alpha, Phi_k x* f and
Phi_k x* m. If i = c, and j belongs to a link before that of c, chi is zero, and

    beta = 2 Phi_j x* B^T Phi_c + psi_j x* m - I_c psi_j,
    gamma = Phi_j x* m,    delta = Phi_j x* m - I_c Phi_j.

Of beta and delta only the angular parts are not zero.

The second derivatives of the forward dynamics follow from tau(q, v, vdot) = tau. With the derivatives a_q and
a_v of vdot, and H_k = L_k H,

    L_k L_j vdot = -H^-1 (L_k L_j tau + H_j a_q,k + H_k a_q,j),    d2 vdot/dv dv = -H^-1 d2 tau/dv dv,
    L_k d vdot/dv_j = -H^-1 (L_k dtau/dv_j + H_k a_v,j),           L_k H^-1 = -H^-1 H_k H^-1.

Source: derived for this package by differentiation of [B] Tables 4 to 8, in the common frame.
"""

from connections.engines.inlined.elimination import eliminate, solve_rows
from connections.engines.inlined.rows import clear
from connections.engines.inlined.simd import beyond, inlined, load, put, store, take
from connections.engines.inlined.twists import add6, dot6, force_cross, motion_cross, scale6
from connections.engines.inlined.vectors import add3, cross3, dot3, scale3
from connections.multibody.kernels import armature, articulated, derivatives
from connections.multibody.kernels.algebra import (
    body_factor,
    factor_times,
    factor_transpose_times,
    momentum,
    turned_factor,
    turned_inertia,
)
from connections.multibody.kernels.hessian_products import moved_force
from connections.multibody.kernels.layout import DERIVATIVES_COLUMN as COLUMN
from connections.multibody.kernels.layout import DERIVATIVES_LINK as LINK
from connections.multibody.kernels.layout import SECOND_COLUMN
from connections.multibody.kernels.poses import add_to_parent


@inlined
def inverse_dynamics_second_derivatives(tree, work, out):
    """L_k L_j tau_i, L_k dtau_i/dv_j, d2tau_i/dv_j dv_k and L_k H_ij.

    Slots out[((block nv + i) nv + j) nv + k]; v and a are the first two vectors.
    """
    derivatives.outward(tree, work, True)
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    wrenches = columns + nv * COLUMN.size
    for link in range(tree.links, 0, -1):
        slot = links + link * LINK.size
        inertia, B = take(work, slot + LINK.inertia, 10), take(work, slot + LINK.factor, 12)
        F, first, stop = take(work, slot + LINK.force, 6), tree.first[link], tree.first[link + 1]
        for c in range(first, stop):
            at = columns + c * COLUMN.size
            Phi, e = take(work, at, 6), take(work, at + COLUMN.rate, 6)
            psi, psi_rate = take(work, at + COLUMN.psi, 6), take(work, at + COLUMN.psi_rate, 6)
            alpha = add6(momentum(inertia, psi_rate), scale6(factor_times(B, psi), 2.0))
            alpha = add6(alpha, force_cross(Phi, F))
            f = add6(scale6(factor_times(B, Phi), 2.0), momentum(inertia, e))
            m = momentum(inertia, Phi)
            for k in range(first, stop):
                _store_wrenches(work, columns, wrenches, k, alpha, f, m)
            k = tree.up[first]
            while k >= 0:
                _store_wrenches(work, columns, wrenches, k, alpha, f, m)
                k = tree.up[k]
            B_c, I_c = body_factor(inertia, Phi), turned_inertia(inertia, Phi)
            M_c = _sum(turned_factor(B, Phi), body_factor(inertia, psi))
            for i in range(first, stop):
                Phi_i = take(work, columns + i * COLUMN.size, 6)
                turned, own = motion_cross(Phi, Phi_i), momentum(inertia, Phi_i)
                back = add3(factor_transpose_times(M_c, Phi_i), factor_transpose_times(B, turned))
                beta, gamma = scale3(back, 2.0), add6(momentum(I_c, Phi_i), momentum(inertia, turned))
                delta = scale3(factor_transpose_times(B_c, Phi_i), 2.0)
                _store_own_link(tree, work, out, (i, c, first, stop), (beta, gamma, delta), own, False)
                _store_before(tree, work, out, (i, c, tree.up[first], -1), (beta, gamma, delta), False)
            i = tree.up[first]
            while i >= 0:
                Phi_i = take(work, columns + i * COLUMN.size, 6)
                own = momentum(inertia, Phi_i)
                beta, gamma = scale3(factor_transpose_times(M_c, Phi_i), 2.0), momentum(I_c, Phi_i)
                delta = scale3(factor_transpose_times(B_c, Phi_i), 2.0)
                last = tree.first[tree.link_of[i] + 1] - 1  # of the link of i
                _store_own_link(tree, work, out, (i, c, first, stop), (beta, gamma, delta), own, True)
                _store_before(tree, work, out, (i, c, tree.up[first], last), (beta, gamma, delta), True)
                _store_before(tree, work, out, (i, c, last, -1), (beta, gamma, delta), False)
                i = tree.up[i]
            back = factor_transpose_times(B, Phi)
            j = tree.up[first]
            while j >= 0:
                before = columns + j * COLUMN.size
                Phi_j, psi_j = take(work, before, 6), take(work, before + COLUMN.psi, 6)
                beta = add3(scale3(cross3(Phi_j, back), 2.0), moved_force(I_c, m, psi_j))
                gamma, delta = force_cross(Phi_j, m), moved_force(I_c, m, Phi_j)
                start = tree.first[tree.link_of[j]]
                end = tree.first[tree.link_of[j] + 1]
                _store_own_link(tree, work, out, (c, j, start, end), (beta, gamma, delta), m, False)
                _store_before(tree, work, out, (c, j, tree.up[start], -1), (beta, gamma, delta), False)
                j = tree.up[j]
        add_to_parent(tree, work, link, links, LINK.size, LINK.inertia)
    armature.add_to_second_derivatives(tree, 2 * nv * nv * nv, out)


@inlined
def forward_dynamics_second_derivatives(tree, work, out):
    """Second derivatives of vdot, with tau in the place of a; v and tau are the first two vectors."""
    nv, size, D, H = tree.nv, tree.nv * tree.nv, tree.scratch, tree.scratch + 2 * tree.nv * tree.nv
    cube, product = nv * size, H + size
    articulated.forward_dynamics(tree, work, beyond(work, tree.vectors + nv))  # in the place of tau
    clear(work, D, 2 * size)
    derivatives.inverse_dynamics_derivatives(tree, work, beyond(work, D))
    articulated.store_scales(tree, work, (tree.per_link + LINK.inertia, LINK.size), COLUMN.size)
    eliminate(nv, tree.up, tree.run, work, H, tree.pivots)
    for part in range(2):
        solve_rows(nv, nv, tree.up, work, H, beyond(work, D + part * size))
    clear(out, 0, 4 * cube)
    inverse_dynamics_second_derivatives(tree, work, out)
    for i in range(nv):
        _contract(tree, work, out, 3 * cube + i * size, i, D, product)
        for j in range(nv):
            for k in range(nv):
                value = load(work, product + j * nv + k) + load(work, product + k * nv + j)
                _add(out, i * size + j * nv + k, value)
        _contract(tree, work, out, 3 * cube + i * size, i, D + size, product)
        for j in range(nv):
            for k in range(nv):
                _add(out, cube + i * size + j * nv + k, load(work, product + k * nv + j))
    for part in range(4):
        solve_rows(nv, size, tree.up, work, H, beyond(out, part * cube))
    for i in range(nv):
        solve_rows(nv, nv, tree.up, work, H, beyond(out, 3 * cube + i * size))
    for c in range(3 * cube, 4 * cube):
        store(out, c, -load(out, c))


@inlined
def _contract(tree, work, out, H_k, i, a_x, product):
    """sum_j L_k H_ij a_x[j, j] to the slots product[k nv + j]; slots out[H_k + j nv + k] are L_k H_ij."""
    nv = tree.nv
    clear(work, product, nv * nv)
    j = tree.up[i]
    while j >= 0:
        _add_outer(tree, work, out, H_k + j * nv, j, a_x + j * nv, product)
        j = tree.up[j]
    for j in range(i, tree.end[i]):  # the columns behind i, and those of its link that follow
        _add_outer(tree, work, out, H_k + j * nv, j, a_x + j * nv, product)


@inlined
def _add_outer(tree, work, out, H_k, j, a_x, product):
    """Add L_k H_ij a_x[j, j] to the slots product[k nv + j], for all k that are related to j."""
    nv = tree.nv
    k = tree.up[j]
    while k >= 0:
        _add_row(work, product + k * nv, load(out, H_k + k), a_x, nv)
        k = tree.up[k]
    for k in range(j, tree.end[j]):
        _add_row(work, product + k * nv, load(out, H_k + k), a_x, nv)


@inlined
def _add_row(work, into, factor, source, count):
    for c in range(count):
        store(work, into + c, load(work, into + c) + factor * load(work, source + c))


@inlined
def _store_wrenches(work, columns, wrenches, k, alpha, f, m):
    """Phi_k x* alpha, Phi_k x* f and Phi_k x* m."""
    Phi, at = take(work, columns + k * COLUMN.size, 6), wrenches + k * SECOND_COLUMN.size
    put(work, at + SECOND_COLUMN.alpha, force_cross(Phi, alpha))
    put(work, at + SECOND_COLUMN.f, force_cross(Phi, f))
    put(work, at + SECOND_COLUMN.m, force_cross(Phi, m))


@inlined
def _store_own_link(tree, work, out, indices, terms, own, turned):
    """The entries [i, j, k] for all columns k = first, ..., stop - 1 of the link of j.

    terms : beta, gamma, delta for (i, j).
    own : sum I w of the link.
    turned : whether chi_k is not zero; a constant.
    """
    i, j, first, stop = indices
    beta, gamma, delta = terms
    nv, columns = tree.nv, tree.per_column
    cube, row = nv * nv * nv, (i * nv + j) * nv
    Phi = take(work, columns + j * COLUMN.size, 6)
    for k in range(first, stop):
        at = columns + k * COLUMN.size
        Phi_k, psi_k = take(work, at, 6), take(work, at + COLUMN.psi, 6)
        in_q = dot3(psi_k, beta) + dot6(take(work, at + COLUMN.psi_rate, 6), gamma)
        in_v = dot3(psi_k, delta)
        if turned:
            Phi_i = take(work, columns + i * COLUMN.size, 6)
            wrenches = columns + nv * COLUMN.size + k * SECOND_COLUMN.size
            in_q = in_q + dot6(Phi_i, take(work, wrenches + SECOND_COLUMN.alpha, 6))
            in_v = in_v + dot6(Phi_i, take(work, wrenches + SECOND_COLUMN.f, 6))
            store(out, 3 * cube + row + k, dot6(Phi_i, take(work, wrenches + SECOND_COLUMN.m, 6)))
        store(out, row + k, in_q)
        store(out, cube + row + k, in_v)
        store(out, 2 * cube + row + k, dot3(Phi_k, delta) + dot6(motion_cross(Phi, Phi_k), own))


@inlined
def _store_before(tree, work, out, indices, terms, turned):
    """The entries [i, j, k] and [i, k, j] for the columns k on the way from `start` to before `stop`.

    terms, turned : as in `_store_own_link`; k belongs to a link before that of j.
    """
    i, j, start, stop = indices
    beta, gamma, delta = terms
    nv, columns = tree.nv, tree.per_column
    cube, row, side = nv * nv * nv, (i * nv + j) * nv, i * nv * nv + j
    k = start
    while k > stop:
        at = columns + k * COLUMN.size
        Phi_k, psi_k = take(work, at, 6), take(work, at + COLUMN.psi, 6)
        in_q = dot3(psi_k, beta) + dot6(take(work, at + COLUMN.psi_rate, 6), gamma)
        in_v = dot3(psi_k, delta)
        if turned:
            Phi_i = take(work, columns + i * COLUMN.size, 6)
            wrenches = columns + nv * COLUMN.size + k * SECOND_COLUMN.size
            in_q = in_q + dot6(Phi_i, take(work, wrenches + SECOND_COLUMN.alpha, 6))
            in_v = in_v + dot6(Phi_i, take(work, wrenches + SECOND_COLUMN.f, 6))
            store(out, 3 * cube + row + k, dot6(Phi_i, take(work, wrenches + SECOND_COLUMN.m, 6)))
        both = dot3(Phi_k, delta)
        store(out, row + k, in_q)
        store(out, side + k * nv, in_q)
        store(out, cube + row + k, in_v)
        value = dot3(Phi_k, beta) + dot6(take(work, at + COLUMN.rate, 6), gamma)
        store(out, cube + side + k * nv, value)
        store(out, 2 * cube + row + k, both)
        store(out, 2 * cube + side + k * nv, both)
        store(out, 3 * cube + side + k * nv, dot6(Phi_k, gamma))
        k = tree.up[k]


@inlined
def _sum(B, M):
    """The sum of two body-level factors."""
    return (
        B[0] + M[0],
        B[1] + M[1],
        B[2] + M[2],
        B[3] + M[3],
        B[4] + M[4],
        B[5] + M[5],
        B[6] + M[6],
        B[7] + M[7],
        B[8] + M[8],
        B[9] + M[9],
        B[10] + M[10],
        B[11] + M[11],
    )


@inlined
def _add(out, slot, number):
    store(out, slot, load(out, slot) + number)
