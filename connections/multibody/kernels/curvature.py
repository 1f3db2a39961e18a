"""The curvature of a tree: the operator K(v) in O(N d) and one product of matrices, and all components.

K(v) a = R(a, v) v with a lower index. Let w = nabla_v v for constant components v, so that H w = C v, and let
all links move with velocity v and acceleration -w, along a geodesic. With P the derivative of the inverse
dynamics without gravity (`derivatives`), C' the rate of C (`coriolis_rate`), and S x = [x, v], S_w x = [x, w]
the brackets of the frame, which are zero but for columns of one spherical or free joint,

    K = P - C' + C^T H^-1 C + H S_w - 2 C S - H S S.

The sum without C^T H^-1 C is symmetric, too, so that for i before j, or of the same link, it is found from

    Phi_i . (2 B psi_j + I psi'_j - (I' Phidot_j + I Phiddot_j + B' Phi_j + B Phidot_j)
             + I (Phi_j x w_j) - 2 (I (v_j x sigma_j) + B sigma_j) - I (sigma_j x u_j))
    - Phidot_i . (I Phidot_j + B Phi_j)  [ + Phi_i . (Phi_j x* F) if i is before the link of j ],

with u_j and w_j the sums of Phi v and Phi w over the columns of the link of j, and sigma_j = Phi_j x u_j.

Components: with A_ijkl = L_k Gamma_ilj - Gamma_pki H^pq Gamma_qlj and s^p_kl of the brackets,
R_ijkl = A_ijkl - A_ijlk - s^p_kl Gamma_ipj. Its symmetries leave, for columns a, b, c, e on one path, each at
or before the next, two components whose derivatives of Gamma are short, because what turns rigidly does not
change them. Let T(x, y) z = x . B(I, y) z for the inertia I of the subtree of e. The derivatives and brackets
contribute

    to R_ceab    T(Phi_c, Phi_e) (Phi_b x Phi_a),
    to R_beac    T(Phi_b, Phi_e) (Phi_c x Phi_a),
                 and T(Phi_c x Phi_b, Phi_e) Phi_a if b is before the link of c;

the third one is R_bcae = R_beac - R_ceab, by the first Bianchi identity. For columns that are not on one path
they contribute nothing. Armature (`armature`) changes H, C and Gamma, and has brackets of its own.
Source: [W] (8) and (10); the formulas by differentiation of Algorithm 2, as docs/curvature.md derives.
"""

from connections.engines.inlined.elimination import eliminate, half_solve_rows, solve_by_elimination
from connections.engines.inlined.rows import accumulate, clear
from connections.engines.inlined.simd import beyond, inlined, load, store, take
from connections.engines.inlined.twists import add6, dot6, force_cross, motion_cross, scale6, subtract6
from connections.engines.inlined.vectors import add3, cross3, dot3
from connections.multibody.kernels import armature, christoffel
from connections.multibody.kernels.algebra import (
    body_factor,
    factor_times,
    factor_transpose_times,
    momentum,
)
from connections.multibody.kernels.articulated import store_scales
from connections.multibody.kernels.coriolis_rate import accelerate_links, forces_of_rate, move_links
from connections.multibody.kernels.layout import CHRISTOFFEL_COLUMN, CHRISTOFFEL_LINK
from connections.multibody.kernels.layout import RATE_COLUMN as COLUMN
from connections.multibody.kernels.layout import RATE_LINK as LINK
from connections.multibody.kernels.poses import joint_twist


@inlined
def curvature_operator(tree, work, K):
    """K, slots K[i nv + j]; v is the first vector of the workspace."""
    nv, links, a = tree.nv, tree.per_link, tree.vectors + tree.nv
    clear(K, 0, nv * nv)
    move_links(tree, work)
    _matrices(tree, work, K)  # C, in the place of K
    for i in range(nv):
        total = load(K, i * nv) * load(work, tree.vectors)
        for j in range(1, nv):
            total = total + load(K, i * nv + j) * load(work, tree.vectors + j)
        store(work, a + i, -total)
    store_scales(tree, work, (links + LINK.inertia, LINK.size), COLUMN.size)
    solve_by_elimination(nv, tree.up, tree.run, work, tree.scratch, tree.pivots, a)  # -w
    half_solve_rows(nv, tree.up, work, tree.scratch, K, nv)
    add_gram_product(nv, work, (tree.scratch, a + nv), K)
    accelerate_links(tree, work)
    _add_half(tree, work, K)
    armature.add_to_curvature_operator(tree, work, K)


@inlined
def _matrices(tree, work, C):
    """C, slots C[i nv + j], and H, in the scratch matrix; links then have sums over their subtrees."""
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    for link in range(tree.links, 0, -1):
        slot = links + link * LINK.size
        inertia, B = take(work, slot + LINK.inertia, 10), take(work, slot + LINK.factor, 12)
        for j in range(tree.first[link + 1] - 1, tree.first[link] - 1, -1):
            Phi = take(work, columns + j * COLUMN.size, 6)
            f1 = momentum(inertia, take(work, columns + j * COLUMN.size + COLUMN.rate, 6))
            f1 = add6(f1, factor_times(B, Phi))
            f2, f3 = momentum(inertia, Phi), factor_transpose_times(B, Phi)
            store(C, j * nv + j, dot6(Phi, f1))
            store(work, tree.scratch + j * nv + j, dot6(Phi, f2))
            i = tree.up[j]
            while i >= 0:
                Phi = take(work, columns + i * COLUMN.size, 6)
                rate = take(work, columns + i * COLUMN.size + COLUMN.rate, 6)
                store(C, i * nv + j, dot6(Phi, f1))
                store(C, j * nv + i, dot6(rate, f2) + dot3(Phi, f3))
                value = dot6(Phi, f2)
                store(work, tree.scratch + i * nv + j, value)
                store(work, tree.scratch + j * nv + i, value)
                i = tree.up[i]
        if tree.parent[link] > 0:
            above = links + tree.parent[link] * LINK.size
            accumulate(work, above + LINK.inertia, slot + LINK.inertia, LINK.turned - LINK.inertia)
    armature.add_to_coriolis_matrix(tree, work, tree.vectors, C)
    armature.add_to_mass_matrix(tree, beyond(work, tree.scratch))


@inlined
def add_gram_product(n, work, places, Y):
    """Replace Y (n, n), slots Y[p n + i], by Y^T d^-1 Y.

    places : slots of a matrix, as `eliminate` leaves it, with d^-1 on its diagonal, which is overwritten, and
        of n numbers.
    """
    matrix, inverses = places
    for p in range(n):
        store(work, inverses + p, load(work, matrix + p * n + p))
    clear(work, matrix, n * n)
    for p in range(n):
        for i in range(n):
            factor = load(Y, p * n + i) * load(work, inverses + p)
            for j in range(i + 1):
                slot = matrix + i * n + j
                store(work, slot, load(work, slot) + factor * load(Y, p * n + j))
    for i in range(n):
        for j in range(i + 1):
            value = load(work, matrix + i * n + j)
            store(Y, i * n + j, value)
            store(Y, j * n + i, value)


@inlined
def _add_half(tree, work, K):
    """Add to K all terms but C^T H^-1 C, for columns that are related; a = -w is the second vector."""
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    for link in range(tree.links, 0, -1):
        slot, above = links + link * LINK.size, links + tree.parent[link] * LINK.size
        inertia, B = take(work, slot + LINK.inertia, 10), take(work, slot + LINK.factor, 12)
        turned, B_rate = take(work, slot + LINK.turned, 10), take(work, slot + LINK.factor_rate, 12)
        force, twist = take(work, slot + LINK.force, 6), take(work, slot, 6)
        before, a_before = take(work, above, 6), take(work, above + LINK.acceleration, 6)
        first, stop = tree.first[link], tree.first[link + 1]
        for j in range(stop - 1, first - 1, -1):
            at = columns + j * COLUMN.size
            Phi, rate = take(work, at, 6), take(work, at + COLUMN.rate, 6)
            psi = motion_cross(before, Phi)
            psi_rate = add6(motion_cross(a_before, Phi), motion_cross(before, psi))
            f = add6(scale6(factor_times(B, psi), 2.0), momentum(inertia, psi_rate))
            f = subtract6(
                f, forces_of_rate(inertia, turned, B, B_rate, (Phi, rate, take(work, at + COLUMN.second, 6)))
            )
            if stop - first > 1:
                f = subtract6(f, _forces_of_brackets(tree, work, link, Phi, twist))
            g = add6(momentum(inertia, rate), factor_times(B, Phi))
            i = j
            while i >= first:
                before_i = columns + i * COLUMN.size
                value = dot6(take(work, before_i, 6), f) - dot6(take(work, before_i + COLUMN.rate, 6), g)
                _add_symmetric(K, nv, i, j, value)
                i -= 1
            f = add6(f, force_cross(Phi, force))
            i = tree.up[first]
            while i >= 0:
                before_i = columns + i * COLUMN.size
                value = dot6(take(work, before_i, 6), f) - dot6(take(work, before_i + COLUMN.rate, 6), g)
                _add_symmetric(K, nv, i, j, value)
                i = tree.up[i]
        if tree.parent[link] > 0:
            accumulate(work, above + LINK.turned, slot + LINK.turned, LINK.size - LINK.turned)


@inlined
def _forces_of_brackets(tree, work, link, Phi, twist):
    """I (Phi x a) + 2 (I (v x sigma) + B sigma) + I (sigma x u) of a column of a link, with a = -w_j."""
    slot = tree.per_link + link * LINK.size
    inertia, B = take(work, slot + LINK.inertia, 10), take(work, slot + LINK.factor, 12)
    own = joint_twist(tree, work, link, tree.per_column, COLUMN.size, tree.vectors)
    a = joint_twist(tree, work, link, tree.per_column, COLUMN.size, tree.vectors + tree.nv)
    sigma = motion_cross(Phi, own)
    twice = add6(momentum(inertia, motion_cross(twist, sigma)), factor_times(B, sigma))
    return add6(scale6(twice, 2.0), momentum(inertia, add6(motion_cross(Phi, a), motion_cross(sigma, own))))


@inlined
def _add_symmetric(K, nv, i, j, value):
    """Add to entries [i, j] and [j, i], which are equal."""
    total = load(K, i * nv + j) + value
    store(K, i * nv + j, total)
    store(K, j * nv + i, total)


# --- all components -----------------------------------------------------------------------------------------


@inlined
def curvature(tree, work, R):
    """R_ijkm, slots R[((i nv + j) nv + k) nv + m].

    L^-T Gamma_p.., with H = L^T d L, is kept in the blocks R_pp.., which are zero in the end.
    """
    nv = tree.nv
    square = nv * nv
    clear(R, 0, nv * square)
    christoffel.christoffel_symbols(tree, work, R, 0, True)
    _factorize(tree, work)
    half_solve_rows(nv, tree.up, work, tree.scratch, R, square)
    for p in range(nv - 1, 0, -1):
        for slot in range(square):
            store(R, p * (nv + 1) * square + slot, load(R, p * square + slot))
    for p in range(nv):
        store(work, tree.vectors + p, load(work, tree.scratch + p * nv + p))
    for k in range(nv):
        for i in range(nv):
            _write_products(tree, work, k, i, R)
        for m in range(k + 1, nv):
            _make_antisymmetric(nv, R, (k * nv + m) * square, (m * nv + k) * square)
    for p in range(nv):
        clear(R, p * (nv + 1) * square, square)
    for e in range(nv):
        _add_derivatives(tree, work, e, R)


@inlined
def _factorize(tree, work):
    """Factorize H in the scratch matrix, from columns and inertias as `christoffel` leaves them."""
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    for j in range(nv):
        inertia = take(work, links + tree.link_of[j] * CHRISTOFFEL_LINK.size, 10)
        force = momentum(inertia, take(work, columns + j * CHRISTOFFEL_COLUMN.size, 6))
        i = j
        while i >= 0:
            value = dot6(take(work, columns + i * CHRISTOFFEL_COLUMN.size, 6), force)
            store(work, tree.scratch + j * nv + i, value)
            i = tree.up[i]
    armature.add_to_mass_matrix(tree, beyond(work, tree.scratch))
    store_scales(tree, work, (links, CHRISTOFFEL_LINK.size), CHRISTOFFEL_COLUMN.size)
    eliminate(nv, tree.up, tree.run, work, tree.scratch, tree.pivots)


@inlined
def _write_products(tree, work, k, i, R):
    """Write Gamma_pki H^pq Gamma_qmj to R_kmij for all m > k and all j.

    It is the product of L^-T Gamma with itself in d^-1 (in the place of the vectors). Row p of L^-T Gamma is
    not zero only for columns that are related to p.
    """
    nv, up, end, row = tree.nv, tree.up, tree.end, tree.scratch
    last = max(k, i)
    clear(work, row + (k + 1) * nv, (nv - k - 1) * nv)
    if min(k, i) == last or last < end[min(k, i)]:
        p = last
        while p < end[last]:  # p moves with both columns
            two = p + 1 < end[last] and up[p + 1] == p and end[p + 1] == end[p]
            _add_row(tree, work, k, i, p, two, R)
            p += 2 if two else 1
        p = up[last]
        while p >= 0:  # p moves one of them, or both
            two = up[p] == p - 1 and p > 0 and end[p - 1] == end[p]
            if two:
                p -= 1
            _add_row(tree, work, k, i, p, two, R)
            p = up[p]
    for m in range(k + 1, nv):
        to = ((k * nv + m) * nv + i) * nv
        for j in range(nv):
            store(R, to + j, load(work, row + m * nv + j))


@inlined
def _add_row(tree, work, k, i, p, two, R):
    """Add the products of row p, and of row p + 1 if `two`, which is related to the same columns.

    The columns m > k that p is related to are consecutive behind p, and in runs before it.
    """
    nv, row = tree.nv, tree.scratch
    at = p * (nv + 1) * nv * nv
    own = load(R, at + k * nv + i) * load(work, tree.vectors + p)
    next_ = at
    other = own - own
    if two:
        next_ = at + (nv + 1) * nv * nv
        other = load(R, next_ + k * nv + i) * load(work, tree.vectors + p + 1)
    first, stop, m = max(k + 1, p), tree.end[p], tree.up[p]
    while first < stop:
        if two:
            for slot in range(first * nv, stop * nv):
                value = load(work, row + slot) + own * load(R, at + slot)
                store(work, row + slot, value + other * load(R, next_ + slot))
        else:
            for slot in range(first * nv, stop * nv):
                store(work, row + slot, load(work, row + slot) + own * load(R, at + slot))
        first, stop = 0, 0
        if m > k:
            first, stop = max(k + 1, tree.run[m]), m + 1
            m = tree.up[first]


@inlined
def _make_antisymmetric(nv, R, block, other):
    """Replace N, in the slots from `block` on, by N^T - N, and write the negative of that from `other` on."""
    for i in range(nv):
        for j in range(i):
            value = load(R, block + j * nv + i) - load(R, block + i * nv + j)
            store(R, block + i * nv + j, value)
            store(R, block + j * nv + i, -value)
        store(R, block + i * nv + i, 0.0)
    for slot in range(nv * nv):
        store(R, other + slot, -load(R, block + slot))


@inlined
def _add_derivatives(tree, work, e, R):
    """Complete the components of columns a, b, c at or before e, with the derivatives of Gamma.

    The products in R_ceab and R_beac were left in the mirror images R_abce and R_acbe.
    """
    nv, columns = tree.nv, tree.per_column
    inertia = take(work, tree.per_link + tree.link_of[e] * CHRISTOFFEL_LINK.size, 10)
    B = body_factor(inertia, take(work, columns + e * CHRISTOFFEL_COLUMN.size, 6))
    c = e
    while c >= 0:
        Phi_c = take(work, columns + c * CHRISTOFFEL_COLUMN.size, 6)
        g_c = factor_transpose_times(B, Phi_c)
        b = c
        while b >= 0:
            Phi_b = take(work, columns + b * CHRISTOFFEL_COLUMN.size, 6)
            first = cross3(g_c, (Phi_b[0], Phi_b[1], Phi_b[2]))
            second = cross3(factor_transpose_times(B, Phi_b), (Phi_c[0], Phi_c[1], Phi_c[2]))
            if tree.link_of[b] < tree.link_of[c]:
                second = add3(second, factor_transpose_times(B, motion_cross(Phi_c, Phi_b)))
            a = b
            while a >= 0:
                w = take(work, columns + a * CHRISTOFFEL_COLUMN.size, 3)
                ce_ab = load(R, ((a * nv + b) * nv + c) * nv + e) + dot3(first, w)
                be_ac = load(R, ((a * nv + c) * nv + b) * nv + e) + dot3(second, w)
                if tree.armed and tree.link_of[a] == tree.link_of[e]:
                    rotors = armature.brackets_with_symbols(tree, (a, b, c, e))
                    ce_ab, be_ac = ce_ab + rotors[0], be_ac + rotors[1]
                if c < e and a < b:  # others are zero already
                    _write_mirrored(R, nv, (c, e), (a, b), ce_ab)
                if b < e and a < c:
                    _write_mirrored(R, nv, (b, e), (a, c), be_ac)
                if b < c and a < e:
                    _write_mirrored(R, nv, (b, c), (a, e), be_ac - ce_ab)
                a = tree.up[a]
            b = tree.up[b]
        c = tree.up[c]


@inlined
def _write_mirrored(R, nv, one, other, value):
    """Write R_ijkm, (i, j) = one and (k, m) = other, and its seven mirror images."""
    (i, j), (k, m) = one, other
    ij, ji, kl, lk, square = i * nv + j, j * nv + i, k * nv + m, m * nv + k, nv * nv
    store(R, ij * square + kl, value)
    store(R, ji * square + lk, value)
    store(R, kl * square + ij, value)
    store(R, lk * square + ji, value)
    store(R, ij * square + lk, -value)
    store(R, ji * square + kl, -value)
    store(R, kl * square + ji, -value)
    store(R, lk * square + ij, -value)
