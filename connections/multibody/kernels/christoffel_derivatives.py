"""Derivatives of a tree's Christoffel symbols along the frame, in O(N d^3).

For columns x, y, m on one path, each at or before the next, with I the inertia of the subtree that column m
moves, all Christoffel symbols but for brackets are two numbers (`christoffel`),

    P = Gamma_xym = Gamma_xmy = T(x, m; y),
    Q = Gamma_yxm = Gamma_ymx = -Gamma_mxy = -Gamma_myx = T(y, m; x),

with T(a, b; c) = Phi_a . B(I, Phi_b) Phi_c. Along column d, every link that d moves turns rigidly, and with
it its columns and inertia. T does not change if all of its arguments turn. So

- if d is at or before the link of all of x, y, m: no change;
- if d is behind the link of m: T with (Phi_d x*) I_d - I_d Phi_d x in place of I, where I_d belongs to d;
- otherwise: minus the change of T by Phi_d x Phi_c for those columns c that are before the link of d.

To the symbols with brackets, Gamma_ikj = Gamma_ijk + c^m_kj H_im (`christoffel`), c^m_kj L_d H_im is added;
L_d H_im follows by the same three cases. So does the derivative of the contorsion D_ijk = Phi_i . N(I, Phi_j)
Phi_k, which is subtracted for the body-level factor (v x*) I.
Source: [W] Algorithm 2, differentiated; (27) for the symmetries of Gamma.
"""

from connections.engines.inlined.simd import beyond, inlined, put, store, take
from connections.engines.inlined.twists import dot6, force_cross, motion_cross, subtract6
from connections.engines.inlined.vectors import dot3
from connections.multibody.kernels.algebra import (
    body_factor,
    contorsion_factor,
    contorsion_times,
    factor_transpose_times,
    momentum,
    turned_inertia,
)
from connections.multibody.kernels.christoffel import add_bracket
from connections.multibody.kernels.layout import FORCE_CROSS, LEAST
from connections.multibody.kernels.layout import SYMBOL_RATE_COLUMN as COLUMN
from connections.multibody.kernels.layout import SYMBOL_RATE_LINK as LINK
from connections.multibody.kernels.least import subtract_antisymmetric, subtract_from_symbols
from connections.multibody.kernels.poses import add_to_parent, link_inertia, place_links, store_columns


@inlined
def christoffel_derivatives(tree, work, out, factor):
    """L_d Gamma_ijk, slots out[((i nv + j) nv + k) nv + d]; entries of different branches are not written.

    factor : which connection's, as in `layout`.
    """
    place_links(tree, work)
    links, columns = tree.per_link, tree.per_column
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, columns, COLUMN.size)
        put(work, links + i * LINK.size, link_inertia(tree, work, i))
    for link in range(tree.links, 0, -1):
        add_to_parent(tree, work, link, links, LINK.size, 0)
    for m in range(tree.nv):
        link = tree.link_of[m]
        inertia = take(work, links + link * LINK.size, 10)
        B = body_factor(inertia, take(work, columns + m * COLUMN.size, 6))
        _store_g(tree, work, B, m)
        d = tree.first[link + 1] - 1
        while d >= 0:
            _derivatives_between(tree, work, B, m, d, out)
            d = tree.up[d]
    for d in range(tree.nv):
        link = tree.link_of[d]
        Phi = take(work, columns + d * COLUMN.size, 6)
        turned = turned_inertia(take(work, links + link * LINK.size, 10), Phi)
        m = tree.up[tree.first[link]]
        while m >= 0:
            _store_g(tree, work, body_factor(turned, take(work, columns + m * COLUMN.size, 6)), m)
            _derivatives_behind(tree, work, m, d, out)
            m = tree.up[m]
    for number in range(tree.noncommuting_count):
        _add_brackets(tree, work, out, tree.noncommuting[number])
    if factor == FORCE_CROSS:
        _subtract_contorsion(tree, work, out)
    elif factor == LEAST:
        for number in range(tree.noncommuting_count):
            first = tree.first[tree.noncommuting[number]]
            columns = first, tree.first[tree.noncommuting[number] + 1] - first
            for d in range(tree.nv):
                subtract_from_symbols(tree.nv, tree.up, columns, beyond(out, d), tree.nv)


@inlined
def _store_g(tree, work, B, m):
    """Write g_x = B^T Phi_x of all columns x at or before m."""
    x = m
    while x >= 0:
        slot = tree.per_column + x * COLUMN.size
        put(work, slot + COLUMN.g, factor_transpose_times(B, take(work, slot, 6)))
        x = tree.up[x]


@inlined
def _derivatives_between(tree, work, B, m, d, out):
    """Write the derivatives along d, at or before the link of m, of the symbols with last column m."""
    columns, nv = tree.per_column, tree.nv
    Phi, top = take(work, columns + d * COLUMN.size, 6), tree.up[tree.first[tree.link_of[d]]]
    x = top
    while x >= 0:
        slot = columns + x * COLUMN.size
        Phi_x = take(work, slot, 6)
        turned = motion_cross(Phi, Phi_x)
        put(work, slot + COLUMN.turned_g, factor_transpose_times(B, turned))
        put(work, slot + COLUMN.turned_w, (turned[0], turned[1], turned[2]))
        x = tree.up[x]
    y = m
    while y >= 0:
        slot = columns + y * COLUMN.size
        w_y, g_y = take(work, slot, 3), take(work, slot + COLUMN.g, 3)
        before, x = y <= top, y
        if not before:
            x = top
        while x >= 0:
            at = columns + x * COLUMN.size
            P = -dot3(take(work, at + COLUMN.turned_g, 3), w_y)
            Q = -dot3(g_y, take(work, at + COLUMN.turned_w, 3))
            if before:
                P = P - dot3(take(work, at + COLUMN.g, 3), take(work, slot + COLUMN.turned_w, 3))
                Q = Q - dot3(take(work, slot + COLUMN.turned_g, 3), take(work, at, 3))
            _write(out, nv, (x, y, m, d), P, Q)
            x = tree.up[x]
        y = tree.up[y]


@inlined
def _derivatives_behind(tree, work, m, d, out):
    """Write the derivatives along d, behind the link of m, of the symbols with last column m."""
    columns, nv = tree.per_column, tree.nv
    y = m
    while y >= 0:
        slot = columns + y * COLUMN.size
        w_y, g_y = take(work, slot, 3), take(work, slot + COLUMN.g, 3)
        x = y
        while x >= 0:
            at = columns + x * COLUMN.size
            P, Q = dot3(take(work, at + COLUMN.g, 3), w_y), dot3(g_y, take(work, at, 3))
            _write(out, nv, (x, y, m, d), P, Q)
            x = tree.up[x]
        y = tree.up[y]


@inlined
def _write(out, nv, columns, P, Q):
    """Write the derivatives P of Gamma_xym and Q of Gamma_yxm, and what they are mirror images of."""
    x, y, m, d = columns
    xy, yx = x * nv + y, y * nv + x
    store(out, (xy * nv + m) * nv + d, P)
    store(out, ((x * nv + m) * nv + y) * nv + d, P)
    store(out, (yx * nv + m) * nv + d, Q)
    store(out, ((y * nv + m) * nv + x) * nv + d, Q)
    store(out, (m * nv * nv + yx) * nv + d, -Q)
    store(out, (m * nv * nv + xy) * nv + d, -Q)


# --- brackets -----------------------------------------------------------------------------------------------


@inlined
def _add_brackets(tree, work, out, link):
    """Add c^m_kj L_d H_im to L_d Gamma_ikj for columns j < k of `link` and all i and d related to it."""
    first, end = tree.first[link], tree.end[tree.first[link]]
    i = tree.up[first]
    while i >= 0:
        _add_row_of_brackets(tree, work, out, link, i)
        i = tree.up[i]
    for i in range(first, end):
        _add_row_of_brackets(tree, work, out, link, i)


@inlined
def _add_row_of_brackets(tree, work, out, link, i):
    """Add c^m_kj L_d H_im to L_d Gamma_ikj for one column i, columns j < k of `link`, and all d related."""
    d = tree.up[tree.first[link]]
    while d >= 0:
        _add_change_of_brackets(tree, work, out, link, i, d)
        d = tree.up[d]
    for d in range(tree.first[link], tree.end[tree.first[link]]):
        _add_change_of_brackets(tree, work, out, link, i, d)


@inlined
def _add_change_of_brackets(tree, work, out, link, i, d):
    """Add c^m_kj L_d H_im to L_d Gamma_ikj for one column i and one d, if H_im changes along d."""
    links, columns, nv, first = tree.per_link, tree.per_column, tree.nv, tree.first[link]
    near, far, of_l = tree.link_of[i], link, tree.link_of[d]
    if near > far:
        near, far = far, near
    Phi, Phi_i = take(work, columns + d * COLUMN.size, 6), take(work, columns + i * COLUMN.size, 6)
    if of_l > far:  # behind both
        if d < tree.end[tree.first[far]]:
            turned = turned_inertia(take(work, links + of_l * LINK.size, 10), Phi)
            force = momentum(turned, Phi_i)
            for m in range(first, tree.first[link + 1]):
                value = dot6(take(work, columns + m * COLUMN.size, 6), force)
                add_bracket(out, nv, (i, d, nv), first, m, value)
    elif of_l > near and tree.first[far] < tree.end[tree.first[of_l]]:
        inertia = take(work, links + far * LINK.size, 10)
        force = momentum(inertia, Phi_i)
        turned = momentum(inertia, motion_cross(Phi, Phi_i))
        for m in range(first, tree.first[link + 1]):
            Phi_m = take(work, columns + m * COLUMN.size, 6)
            value = -dot6(Phi_m, turned)
            if link == near:  # m is before d, and i is not
                value = -dot6(motion_cross(Phi, Phi_m), force)
            add_bracket(out, nv, (i, d, nv), first, m, value)


# --- torsion ------------------------------------------------------------------------------------------------


@inlined
def _subtract_contorsion(tree, work, out):
    """Subtract L_d D_ijk, columns i < j < k on one path; `out` has the rest of L_d Gamma."""
    links, columns = tree.per_link, tree.per_column
    for k in range(tree.nv):
        link = tree.link_of[k]
        inertia, Phi_k = take(work, links + link * LINK.size, 10), take(work, columns + k * COLUMN.size, 6)
        j = tree.up[k]
        while j >= 0:
            Phi_j = take(work, columns + j * COLUMN.size, 6)
            own = contorsion_times(contorsion_factor(inertia, Phi_j), Phi_k)
            d = tree.first[link + 1] - 1
            while d >= 0:  # what is before the link of d does not turn with the rest
                Phi_d, top = take(work, columns + d * COLUMN.size, 6), tree.up[tree.first[tree.link_of[d]]]
                force, i = force_cross(Phi_d, own), top
                if j <= top:
                    turned = contorsion_factor(inertia, motion_cross(Phi_d, Phi_j))
                    force, i = subtract6(force, contorsion_times(turned, Phi_k)), tree.up[j]
                _subtract_along_path(tree, work, out, (i, j, k, d), force)
                d = tree.up[d]
            j = tree.up[j]
    for d in range(tree.nv):  # behind the link of k
        link = tree.link_of[d]
        Phi_d = take(work, columns + d * COLUMN.size, 6)
        turned = turned_inertia(take(work, links + link * LINK.size, 10), Phi_d)
        k = tree.up[tree.first[link]]
        while k >= 0:
            Phi_k, j = take(work, columns + k * COLUMN.size, 6), tree.up[k]
            while j >= 0:
                N = contorsion_factor(turned, take(work, columns + j * COLUMN.size, 6))
                force = contorsion_times(N, Phi_k)
                _subtract_along_path(tree, work, out, (tree.up[j], j, k, d), force)
                j = tree.up[j]
            k = tree.up[k]


@inlined
def _subtract_along_path(tree, work, out, columns, force):
    """Subtract L_d D_ijk = Phi_i . force and its five mirror images, for i and all columns before it."""
    i, j, k, d = columns
    along = beyond(out, d)  # entries with d as their last index are nv slots apart
    while i >= 0:
        D = dot6(take(work, tree.per_column + i * COLUMN.size, 6), force)
        subtract_antisymmetric(along, tree.nv, (i, j, k), D, tree.nv)
        i = tree.up[i]
