"""Generalized Christoffel symbols of a closed chain in O(N d^2). Source: [W] Algorithm 2 and VI-C.

P, E and I are as in `cluster_coriolis`; the second index is the direction. For columns k, k1, k2, k3 of a
cluster and columns x, y of clusters before it, with sums over the links l of the cluster that have one
support (in the last line, over all its links),

    B_k = sum B(I_l, P_lk),    F_k = sum I_l P_lk,    f_l[k1, k2] = B(I_l, P_lk1) P_lk2 + I_l E_l[k1, k2],

    Gamma_xyk = Gamma_xky = P_x . B_k P_y,
    Gamma_kyx = -P_x . B_k P_y + F_k . (E_p[y, x] - P_py x P_px)    if x, y are of one cluster, p its link,
    Gamma_kyx = Gamma_kxy = -P_x . B_k P_y                          if y is of a cluster before that of x,
    Gamma_{x k1 k2} = P_x . sum f_l[k1, k2],
    Gamma_{k2 k1 x} = Gamma_{k2 x k1} = P_x . sum B(I_l, P_lk1)^T P_lk2,
    Gamma_{k1 k2 k3} = sum P_lk1 . f_l[k2, k3].
"""

from connections.engines.inlined.simd import inlined, load, put, store, take
from connections.engines.inlined.twists import add6, dot6, motion_cross, scale6, subtract6
from connections.multibody.kernels import cluster_armature
from connections.multibody.kernels.algebra import (
    body_factor,
    contorsion_factor,
    contorsion_times,
    factor_times,
    factor_transpose_times,
    momentum,
)
from connections.multibody.kernels.cluster_columns import (
    deposit,
    distance_at_support,
    distance_before_entry,
    find_entry,
    group_columns,
    wrench_at_support,
    wrench_before_entry,
    zero6,
)
from connections.multibody.kernels.cluster_coriolis import add_inertias, store_entries
from connections.multibody.kernels.layout import CHRISTOFFEL_COLUMN as ENTRY
from connections.multibody.kernels.layout import CHRISTOFFEL_LINK as LINK
from connections.multibody.kernels.layout import FORCE_CROSS, LEAST, MASS_COLUMN, PAIR
from connections.multibody.kernels.least import subtract_antisymmetric, subtract_from_symbols
from connections.multibody.kernels.origins import column_seen
from connections.multibody.kernels.poses import link_inertia, place_links


@inlined
def christoffel_symbols(tree, reduced, work, Gamma, factor):
    """Gamma_low, slots Gamma[(i nv + j) nv + k], j the direction, of the connection that `factor` names."""
    _levi_civita_symbols(tree, reduced, work, Gamma)
    if factor == FORCE_CROSS:
        _subtract_contorsion(tree, reduced, work, Gamma)
    elif factor == LEAST:
        for number in range(tree.noncommuting_count):
            columns = group_columns(tree, reduced, number)
            if columns[0] >= 0:
                subtract_from_symbols(reduced.nv, reduced.before, columns, Gamma, 1)


@inlined
def _levi_civita_symbols(tree, reduced, work, Gamma):
    """Gamma_low of the Levi-Civita connection."""
    place_links(tree, work)
    store(work, reduced.zero, 0.0)
    links = tree.per_link
    for i in range(1, tree.links + 1):
        store_entries(tree, reduced, work, i, ENTRY.size)
        put(work, links + i * LINK.size, link_inertia(tree, work, i))
        if reduced.pairs[i] >= 0:
            _store_pairs(tree, reduced, work, i)
    for cluster in range(reduced.clusters - 1, -1, -1):
        if reduced.many_members[cluster]:
            _clear(reduced, Gamma, cluster, reduced.many_groups[cluster])
        for group in range(reduced.group_first[cluster], reduced.group_first[cluster + 1]):
            for at in range(reduced.group_seen[group], reduced.group_seen[group + 1]):
                k = reduced.seen[at]
                if reduced.group_support[group] > 0:
                    _with_two_before(tree, reduced, work, Gamma, links, cluster, group, k)
                for other in range(reduced.group_seen[group], reduced.group_seen[group + 1]):
                    own = k, reduced.seen[other]
                    _with_two_own(tree, reduced, work, Gamma, links, cluster, group, own)
            add_inertias(tree, reduced, work, group, links, LINK.size, 0)
    cluster_armature.add_to_symbols(tree, reduced, work, Gamma)


@inlined
def _subtract_contorsion(tree, reduced, work, Gamma):
    """Turn Gamma of the Levi-Civita connection into that of the factor (v x*) I: subtract the contorsion D.

    The workspace must be as `_levi_civita_symbols` left it.
    D_ijk = sum P_i . N(I_l, P_j) P_k over the links l is totally antisymmetric; N is `contorsion_factor`.
    """
    entries, column, up = reduced.entries, reduced.column, reduced.up
    for link in range(1, tree.links + 1):
        inertia, c, zero = link_inertia(tree, work, link), reduced.walk[link], load(work, reduced.zero)
        d_c = (zero, zero, zero)
        while c >= 0:
            last, b = column_seen(tree, take(work, entries + c * ENTRY.size, 6), d_c), up[c]
            d_c = distance_before_entry(tree, reduced, work, c, d_c)
            d_b = d_c
            while b >= 0:
                P = column_seen(tree, take(work, entries + b * ENTRY.size, 6), d_b)
                force = contorsion_times(contorsion_factor(inertia, P), last)
                d_b = distance_before_entry(tree, reduced, work, b, d_b)
                a, d_a = up[b], d_b
                while a >= 0:
                    D = dot6(column_seen(tree, take(work, entries + a * ENTRY.size, 6), d_a), force)
                    subtract_antisymmetric(Gamma, reduced.nv, (column[a], column[b], column[c]), D, 1)
                    d_a = distance_before_entry(tree, reduced, work, a, d_a)
                    a = up[a]
                b = up[b]
            c = up[c]


@inlined
def _with_two_before(tree, reduced, work, Gamma, links, cluster, group, k):
    """Add the symbols of column k and two columns of clusters before it, for the links of one group."""
    nv, entries, column = reduced.nv, reduced.entries, reduced.column
    adding, start = reduced.many_groups[cluster], reduced.walk[reduced.group_support[group]]
    zero = load(work, reduced.zero)
    F = zero6(reduced, work)
    B = (zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero)
    for member in range(reduced.group_member[group], reduced.group_member[group + 1]):
        link = reduced.members[member]
        e = find_entry(reduced, link, k)
        if e >= 0:
            inertia, P = take(work, links + link * LINK.size, 10), take(work, entries + e * ENTRY.size, 6)
            F = add6(F, momentum(inertia, P))
            B = _add12(B, body_factor(inertia, P))
    x, d = start, distance_at_support(tree, reduced, work, group)
    while x >= 0:
        slot = entries + x * ENTRY.size
        put(work, slot + ENTRY.g, factor_transpose_times(B, column_seen(tree, take(work, slot, 6), d)))
        d = distance_before_entry(tree, reduced, work, x, d)
        x = reduced.up[x]
    x, d = start, distance_at_support(tree, reduced, work, group)
    while x >= 0:
        X, home = column[x], reduced.home[x]
        w_x, g_x = take(work, entries + x * ENTRY.size, 3), take(work, entries + x * ENTRY.size + ENTRY.g, 3)
        first = reduced.entry_first[home]
        for y in range(first, reduced.entry_first[home + 1]):
            Y, w_y = column[y], take(work, entries + y * ENTRY.size, 3)
            xy = g_x[0] * w_y[0] + g_x[1] * w_y[1] + g_x[2] * w_y[2]
            yx = -xy
            if reduced.pairs[home] >= 0:
                yx = yx + dot6(F, column_seen(tree, _bend(reduced, work, home, y, x), d))
            deposit(Gamma, (X * nv + Y) * nv + k, xy, adding)
            deposit(Gamma, (X * nv + k) * nv + Y, xy, adding)
            deposit(Gamma, (k * nv + Y) * nv + X, yx, adding)
        y = reduced.up[first]
        while y >= 0:
            Y = column[y]
            w_y = take(work, entries + y * ENTRY.size, 3)
            g_y = take(work, entries + y * ENTRY.size + ENTRY.g, 3)
            xy = g_x[0] * w_y[0] + g_x[1] * w_y[1] + g_x[2] * w_y[2]
            yx = g_y[0] * w_x[0] + g_y[1] * w_x[1] + g_y[2] * w_x[2]
            deposit(Gamma, (X * nv + Y) * nv + k, xy, adding)
            deposit(Gamma, (X * nv + k) * nv + Y, xy, adding)
            deposit(Gamma, (Y * nv + X) * nv + k, yx, adding)
            deposit(Gamma, (Y * nv + k) * nv + X, yx, adding)
            deposit(Gamma, (k * nv + Y) * nv + X, -xy, adding)
            deposit(Gamma, (k * nv + X) * nv + Y, -xy, adding)
            y = reduced.up[y]
        d = distance_before_entry(tree, reduced, work, x, d)
        x = reduced.up[x]


@inlined
def _with_two_own(tree, reduced, work, Gamma, links, cluster, group, own):
    """Add the symbols of direction k1, field k2 and any third column, for the links of one group.

    own : k1 and k2.
    """
    (k1, k2), nv, entries, column = own, reduced.nv, reduced.entries, reduced.column
    many, adding = reduced.many_members[cluster], reduced.many_groups[cluster]
    f = zero6(reduced, work)
    h = (f[0], f[0], f[0])
    for member in range(reduced.group_member[group], reduced.group_member[group + 1]):
        link = reduced.members[member]
        e1, e2 = find_entry(reduced, link, k1), find_entry(reduced, link, k2)
        if e1 >= 0 and e2 >= 0:
            inertia = take(work, links + link * LINK.size, 10)
            P2 = take(work, entries + e2 * ENTRY.size, 6)
            B = body_factor(inertia, take(work, entries + e1 * ENTRY.size, 6))
            force = factor_times(B, P2)
            if k1 != k2 or reduced.pairs[link] >= 0:
                force = add6(force, momentum(inertia, _derivative(reduced, work, link, e1, e2)))
            t = factor_transpose_times(B, P2)
            f = add6(f, force)
            h = (h[0] + t[0], h[1] + t[1], h[2] + t[2])
            for a in range(reduced.entry_first[link], reduced.entry_first[link + 1]):
                value = dot6(take(work, entries + a * ENTRY.size, 6), force)
                deposit(Gamma, (column[a] * nv + k1) * nv + k2, value, many)
    f = wrench_at_support(tree, reduced, work, group, f)
    x = reduced.walk[reduced.group_support[group]]
    while x >= 0:
        X, P = column[x], take(work, entries + x * ENTRY.size, 6)
        value = h[0] * P[0] + h[1] * P[1] + h[2] * P[2]
        deposit(Gamma, (X * nv + k1) * nv + k2, dot6(P, f), adding)
        deposit(Gamma, (k2 * nv + k1) * nv + X, value, adding)
        deposit(Gamma, (k2 * nv + X) * nv + k1, value, adding)
        f = wrench_before_entry(tree, reduced, work, x, f)
        x = reduced.up[x]


@inlined
def _store_pairs(tree, reduced, work, i):
    """Write E_i[j, k] of all entries j, k of link i, from E of the link above."""
    start, stop = reduced.entry_first[i], reduced.entry_first[i + 1]
    entries, first, width = reduced.entries, reduced.link_column[i], reduced.link_width[i]
    slot = reduced.pair_slots + reduced.pairs[i]
    for j in range(start, stop):
        P = take(work, entries + j * ENTRY.size, 6)
        for k in range(start, stop):
            own = take(work, entries + k * ENTRY.size, 6)
            same_j, same_k = reduced.same[j], reduced.same[k]
            if same_k >= 0:
                own = subtract6(own, take(work, entries + same_k * ENTRY.size, 6))
            E = motion_cross(P, own)
            for s in range(tree.first[i], tree.first[i + 1]):
                if reduced.LG_rows[s] >= 0:
                    place = (reduced.column[j] - first) * width + reduced.column[k] - first
                    LG = load(work, reduced.solution + reduced.LG_rows[s] + place)
                    E = add6(E, scale6(take(work, tree.per_column + s * MASS_COLUMN.size, 6), LG))
            if same_j >= 0 and same_k >= 0:
                E = add6(E, _derivative(reduced, work, reduced.above[i], same_j, same_k))
            put(work, slot, E)
            slot += PAIR.size


@inlined
def _derivative(reduced, work, link, j, k):
    """E_l[j, k] = L_j P_lk of two entries of a link."""
    if reduced.pairs[link] < 0:
        P = take(work, reduced.entries + j * ENTRY.size, 6)
        return motion_cross(P, take(work, reduced.entries + k * ENTRY.size, 6))
    return take(work, _pair(reduced, link, j, k), 6)


@inlined
def _bend(reduced, work, link, j, k):
    """E_l[j, k] - P_lj x P_lk of two entries of a link that has pairs."""
    P = take(work, reduced.entries + j * ENTRY.size, 6)
    straight = motion_cross(P, take(work, reduced.entries + k * ENTRY.size, 6))
    return subtract6(take(work, _pair(reduced, link, j, k), 6), straight)


@inlined
def _pair(reduced, link, j, k):
    first = reduced.entry_first[link]
    number = (j - first) * (reduced.entry_first[link + 1] - first) + k - first
    return reduced.pair_slots + reduced.pairs[link] + PAIR.size * number


@inlined
def _clear(reduced, Gamma, cluster, all_of_them):
    """Set to zero the symbols to which a cluster of several members adds.

    They are those of its own columns; if it has several groups (`all_of_them`), also those of its columns and
    columns of clusters before it.
    """
    nv, first = reduced.nv, reduced.column_first[cluster]
    last = -1 if all_of_them else first - 1
    for k in range(first, reduced.column_first[cluster + 1]):
        x = k
        while x > last:
            y = x
            while y > last:
                _clear_permutations(Gamma, nv, k, x, y)
                y = reduced.before[y]
            x = reduced.before[x]


@inlined
def _clear_permutations(Gamma, nv, k, x, y):
    store(Gamma, (k * nv + x) * nv + y, 0.0)
    store(Gamma, (k * nv + y) * nv + x, 0.0)
    store(Gamma, (x * nv + k) * nv + y, 0.0)
    store(Gamma, (x * nv + y) * nv + k, 0.0)
    store(Gamma, (y * nv + k) * nv + x, 0.0)
    store(Gamma, (y * nv + x) * nv + k, 0.0)


@inlined
def _add12(x, y):
    return *add6(x[:6], y[:6]), *add6(x[6:], y[6:])
