"""Generalized Christoffel symbols of a tree in O(N d^2). Source: [W] Algorithm 2, [E] Algorithm 2.

A column belongs to an entry of v. The columns before it are those on the way from its link to the ground. For
a column k, with I the inertia of the subtree that it moves and B_k = B(I, Phi_k), and for columns x, y that
are k or before it,

    Gamma_xyk = Gamma_xky = Phi_x . B_k Phi_y = g_kx . w_y,      g_kx = (B_k^T Phi_x), w_y the angular part,
    Gamma_kxy = Gamma_kyx = -g_kx . w_y  if y is x or before it    ([W] (27)).

If two columns are equal, the lines agree, because g_kk . w_k = 0. The right half of B is zero, so that only
three numbers of B^T Phi and three of Phi enter.
Columns of one spherical or free link do not commute. For j before k in such a link, and any i,

    Gamma_ikj = Gamma_ijk + Phi_i . I (Phi_k x Phi_j) = Gamma_ijk + c^m_kj H_im,

with constants c of so(3) or se(3) ([W] (28)). Joints whose columns depend on the configuration are chains of
links with constant columns, so that no other terms appear.
"""

from connections.engines.inlined.simd import inlined, load, put, store, take
from connections.engines.inlined.twists import dot6
from connections.multibody.kernels import armature
from connections.multibody.kernels.algebra import (
    body_factor,
    contorsion_factor,
    contorsion_times,
    factor_transpose_times,
    momentum,
)
from connections.multibody.kernels.layout import CHRISTOFFEL_COLUMN as COLUMN
from connections.multibody.kernels.layout import CHRISTOFFEL_LINK as LINK
from connections.multibody.kernels.layout import FORCE_CROSS, LEAST
from connections.multibody.kernels.least import subtract_antisymmetric, subtract_from_symbols
from connections.multibody.kernels.origins import add_inertia, column_seen, distance_before, distance_to
from connections.multibody.kernels.poses import link_inertia, place_links, store_columns


@inlined
def christoffel_symbols(tree, work, Gamma, factor, all_of_them):
    """Gamma_low, slots Gamma[(i nv + j) nv + k], j the direction.

    factor : which connection's, as in `layout`.
    all_of_them : whether to write also the symbols Gamma_ijk, j > k, that equal Gamma_ikj.
    """
    _levi_civita_symbols(tree, work, Gamma, all_of_them)
    if factor == FORCE_CROSS:
        _subtract_contorsion(tree, work, Gamma)
    elif factor == LEAST:
        for number in range(tree.noncommuting_count):
            first = tree.first[tree.noncommuting[number]]
            columns = first, tree.first[tree.noncommuting[number] + 1] - first
            subtract_from_symbols(tree.nv, tree.up, columns, Gamma, 1)


@inlined
def _levi_civita_symbols(tree, work, Gamma, all_of_them):
    """Gamma_low of the Levi-Civita connection."""
    place_links(tree, work)
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, columns, COLUMN.size)
        put(work, links + i * LINK.size, link_inertia(tree, work, i))
    for link in range(tree.links, 0, -1):
        inertia = take(work, links + link * LINK.size, 10)
        for k in range(tree.first[link + 1] - 1, tree.first[link] - 1, -1):
            B = body_factor(inertia, take(work, columns + k * COLUMN.size, 6))
            zero = load(work, tree.poses + 1)
            x, d = k, (zero, zero, zero)
            while x >= 0:
                slot = columns + x * COLUMN.size
                Phi = column_seen(tree, take(work, slot, 6), d)
                put(work, slot + COLUMN.g, factor_transpose_times(B, Phi))
                d = distance_before(tree, work, x, d)
                x = tree.up[x]
            x = k
            while x >= 0:
                w_x = take(work, columns + x * COLUMN.size, 3)
                g_x = take(work, columns + x * COLUMN.size + COLUMN.g, 3)
                y = x
                while y >= 0:
                    w_y = take(work, columns + y * COLUMN.size, 3)
                    g_y = take(work, columns + y * COLUMN.size + COLUMN.g, 3)
                    xy = g_x[0] * w_y[0] + g_x[1] * w_y[1] + g_x[2] * w_y[2]
                    yx = g_y[0] * w_x[0] + g_y[1] * w_x[1] + g_y[2] * w_x[2]
                    store(Gamma, (x * nv + y) * nv + k, xy)
                    store(Gamma, (y * nv + x) * nv + k, yx)
                    store(Gamma, (k * nv + y) * nv + x, -xy)
                    if all_of_them:
                        store(Gamma, (x * nv + k) * nv + y, xy)
                        store(Gamma, (y * nv + k) * nv + x, yx)
                        store(Gamma, (k * nv + x) * nv + y, -xy)
                    y = tree.up[y]
                x = tree.up[x]
        add_inertia(tree, work, link, links, LINK.size, 0)
    for number in range(tree.noncommuting_count):
        _add_brackets(tree, work, Gamma, tree.noncommuting[number])
    armature.add_to_symbols(tree, Gamma)


@inlined
def _subtract_contorsion(tree, work, Gamma):
    """Turn Gamma of the Levi-Civita connection into that of the factor (v x*) I: subtract the contorsion D.

    The workspace must be as `_levi_civita_symbols` left it.
    D_ijk = Phi_i . N(I, Phi_j) Phi_k is totally antisymmetric; N is `contorsion_factor`.
    """
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    for k in range(nv):
        inertia = take(work, links + tree.link_of[k] * LINK.size, 10)
        last, zero = take(work, columns + k * COLUMN.size, 6), load(work, tree.poses + 1)
        j, d = tree.up[k], distance_before(tree, work, k, (zero, zero, zero))
        while j >= 0:
            N = contorsion_factor(inertia, column_seen(tree, take(work, columns + j * COLUMN.size, 6), d))
            force = contorsion_times(N, last)
            d = distance_before(tree, work, j, d)
            i, farther = tree.up[j], d
            while i >= 0:
                D = dot6(column_seen(tree, take(work, columns + i * COLUMN.size, 6), farther), force)
                subtract_antisymmetric(Gamma, nv, (i, j, k), D, 1)
                farther = distance_before(tree, work, i, farther)
                i = tree.up[i]
            j = tree.up[j]


@inlined
def _add_brackets(tree, work, Gamma, link):
    """Add c^m_kj H_im to Gamma_ikj for all columns j < k of `link` and all columns i related to it."""
    links, first, zero = tree.per_link, tree.first[link], load(work, tree.poses + 1)
    here = (zero, zero, zero)
    i, d = tree.up[first], distance_before(tree, work, first, here)
    while i >= 0:
        _add_row_of_brackets(tree, work, Gamma, link, i, links + link * LINK.size, d, here)
        d = distance_before(tree, work, i, d)
        i = tree.up[i]
    for i in range(first, tree.end[first]):
        inertia, d = links + tree.link_of[i] * LINK.size, distance_to(tree, work, tree.link_of[i], link)
        _add_row_of_brackets(tree, work, Gamma, link, i, inertia, here, d)


@inlined
def _add_row_of_brackets(tree, work, Gamma, link, i, inertia, to_i, to_link):
    """Add the brackets of `link` to the symbols of first index i.

    inertia : slot of the composite inertia of `link` or of the link of column i, whichever is farther out.
    to_i, to_link : the way to the origin of this inertia from that of column i and from that of `link`.
    """
    columns, nv, first = tree.per_column, tree.nv, tree.first[link]
    Phi = column_seen(tree, take(work, columns + i * COLUMN.size, 6), to_i)
    force = momentum(take(work, inertia, 10), Phi)
    for m in range(first, tree.first[link + 1]):
        Phi = column_seen(tree, take(work, columns + m * COLUMN.size, 6), to_link)
        add_bracket(Gamma, nv, (i, 0, 1), first, m, dot6(Phi, force))


@inlined
def add_bracket(out, nv, of, first, m, number):
    """Add c^m_kj times a number to Gamma_ikj for the pairs j < k of one link with c^m_kj not zero.

    Phi_k x Phi_j = eps_kjm Phi_m for two angular columns, and for a linear column k and an angular column j.
    of : (i, d, count), where `out` has `count` numbers for each symbol, and number d is the one.
    """
    c = (m - first) % 3
    a, b = (c + 1) % 3, (c + 2) % 3  # eps_abc = 1
    if m - first >= 3:
        _add_to_mirrored(out, nv, of, first + 3 + a, first + b, number)
        _add_to_mirrored(out, nv, of, first + 3 + b, first + a, -number)
    elif a > b:
        _add_to_mirrored(out, nv, of, first + a, first + b, number)
    else:
        _add_to_mirrored(out, nv, of, first + b, first + a, -number)


@inlined
def _add_to_mirrored(out, nv, of, k, j, number):
    """Gamma_ikj = Gamma_ijk + number, j < k."""
    i, d, count = of
    mirrored = load(out, ((i * nv + j) * nv + k) * count + d)
    store(out, ((i * nv + k) * nv + j) * count + d, mirrored + number)
