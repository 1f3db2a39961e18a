"""Generalized Christoffel symbols of a tree in O(N d^2). Source: [W] Algorithm 2, [E] Algorithm 2.

For columns i, j, k on one path, k the last, with I of the subtree that k carries and B = B(I, Phi_k),

    Gamma_ijk = Gamma_ikj = a1 = Phi_i . (B Phi_j),
    Gamma_jik = Gamma_jki = a2 = Phi_i . (B^T Phi_j),      Gamma_kij = Gamma_kji = -a2    ([W] (27)).

Columns of one spherical or free link do not commute; for j before k in such a link, and any i,

    Gamma_ikj = Gamma_ijk + Phi_i . I (Phi_k x Phi_j) = Gamma_ijk + c^m_kj H_im,

with constants c of so(3) or se(3) ([W] (28)). Joints whose columns depend on the configuration are chains of
links with constant columns, so that no other terms appear.
"""

from connections.multibody.recursions.algebra import (
    accumulate,
    body_factor,
    contorsion_factor,
    contorsion_times,
    dot6,
    factor_times,
    factor_transpose_times,
    load6,
    load_inertia,
    momentum,
    store_inertia,
)
from connections.multibody.recursions.forward import link_inertia, place_links, store_columns
from connections.multibody.recursions.lanes import inlined, load, store
from connections.multibody.recursions.layout import FREE, SPHERICAL


@inlined
def christoffel_symbols(tree, work, Gamma):
    """Gamma_low of the Levi-Civita connection, slots Gamma[(i nv + j) nv + k], j the direction."""
    place_links(tree, work)
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, columns, 6)
        store_inertia(work, links + i * 10, link_inertia(tree, work, i))
    for link in range(tree.links, 0, -1):
        inertia = load_inertia(work, links + link * 10)
        for k in range(tree.first[link + 1] - 1, tree.first[link] - 1, -1):
            B = body_factor(inertia, load6(work, columns + k * 6))
            j = k
            while j >= 0:
                Phi = load6(work, columns + j * 6)
                f1, f2 = factor_times(B, Phi), factor_transpose_times(B, Phi)
                i = j
                while i >= 0:
                    Phi = load6(work, columns + i * 6)
                    a1 = dot6(Phi, f1)
                    a2 = Phi[0] * f2[0] + Phi[1] * f2[1] + Phi[2] * f2[2]
                    store(Gamma, (i * nv + j) * nv + k, a1)
                    store(Gamma, (i * nv + k) * nv + j, a1)
                    store(Gamma, (j * nv + i) * nv + k, a2)
                    store(Gamma, (j * nv + k) * nv + i, a2)
                    store(Gamma, (k * nv + i) * nv + j, -a2)
                    store(Gamma, (k * nv + j) * nv + i, -a2)
                    i = tree.up[i]
                j = tree.up[j]
        if tree.parent[link] > 0:
            accumulate(work, links + tree.parent[link] * 10, links + link * 10, 10)
    for link in range(1, tree.links + 1):
        if tree.kind[link] == SPHERICAL or tree.kind[link] == FREE:
            _add_brackets(tree, work, Gamma, link)


@inlined
def subtract_contorsion(tree, work, Gamma):
    """Gamma of the factor (v x*) I from that of the Levi-Civita connection, whose workspace is still there.

    D_ijk = Phi_i . N(I, Phi_j) Phi_k is totally antisymmetric; N is `contorsion_factor`.
    """
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    for link in range(tree.links, 0, -1):
        inertia = load_inertia(work, links + link * 10)
        for k in range(tree.first[link + 1] - 1, tree.first[link] - 1, -1):
            j = tree.up[k]
            while j >= 0:
                N = contorsion_factor(inertia, load6(work, columns + j * 6))
                force = contorsion_times(N, load6(work, columns + k * 6))
                i = tree.up[j]
                while i >= 0:
                    D = dot6(load6(work, columns + i * 6), force)
                    _add(Gamma, (i * nv + j) * nv + k, -D)
                    _add(Gamma, (j * nv + k) * nv + i, -D)
                    _add(Gamma, (k * nv + i) * nv + j, -D)
                    _add(Gamma, (i * nv + k) * nv + j, D)
                    _add(Gamma, (k * nv + j) * nv + i, D)
                    _add(Gamma, (j * nv + i) * nv + k, D)
                    i = tree.up[i]
                j = tree.up[j]


@inlined
def _add_brackets(tree, work, Gamma, link):
    """Add c^m_kj H_im to Gamma_ikj for all columns j < k of `link` and all columns i related to it."""
    nv, links, columns, first = tree.nv, tree.per_link, tree.per_column, tree.first[link]
    last = tree.first[link + 1] - 1
    inertia = load_inertia(work, links + link * 10)
    for m in range(first, last + 1):
        force = momentum(inertia, load6(work, columns + m * 6))
        i = last
        while i >= 0:
            _add_bracket(Gamma, nv, i, first, m, dot6(load6(work, columns + i * 6), force))
            i = tree.up[i]
    for below in range(link + 1, tree.links + 1):
        above = tree.parent[below]
        while above > link:
            above = tree.parent[above]
        if above == link:
            inertia = load_inertia(work, links + below * 10)
            for i in range(tree.first[below], tree.first[below + 1]):
                force = momentum(inertia, load6(work, columns + i * 6))
                for m in range(first, last + 1):
                    _add_bracket(Gamma, nv, i, first, m, dot6(load6(work, columns + m * 6), force))


@inlined
def _add_bracket(Gamma, nv, i, first, m, H_im):
    """Add c^m_kj H_im to Gamma_ikj for the pairs j < k of one link with c^m_kj not zero.

    Phi_k x Phi_j = eps_kjm Phi_m among angular columns, and of a linear k and an angular j.
    """
    c = (m - first) % 3
    a, b = (c + 1) % 3, (c + 2) % 3  # eps_abc = 1
    if m - first < 3:
        k, j = first + max(a, b), first + min(a, b)
        if a > b:
            _add(Gamma, (i * nv + k) * nv + j, H_im)
        else:
            _add(Gamma, (i * nv + k) * nv + j, -H_im)
    else:
        _add(Gamma, (i * nv + first + 3 + a) * nv + first + b, H_im)
        _add(Gamma, (i * nv + first + 3 + b) * nv + first + a, -H_im)


@inlined
def _add(Gamma, slot, number):
    store(Gamma, slot, load(Gamma, slot) + number)
