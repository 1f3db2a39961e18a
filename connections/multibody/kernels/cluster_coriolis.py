"""H, C and Hdot of a closed chain in O(N d), and H^-1. Source: [W] VI-C, Algorithm 1.

In the common frame, P_lk is the twist of link l of a cluster, relative to the link of another cluster that
supports it, per unit of the cluster's column k. With sums over the spanning columns s of the cluster between
the support and l, and a direction j in the cluster,

    P_lk = sum_s Phi_s G_sk,    Pdot_lk = sum_s (v_s x Phi_s) G_sk + Phi_s Gdot_sk,
    E_l[j, k] = L_j P_lk = sum_s (P_sj x Phi_s) G_sk + Phi_s LG_sjk    (for `cluster_christoffel`),

where v_s and P_sj belong to the link that s moves. I_l and B_l are sums over l and all links of other
clusters that l carries. A column x of a cluster on the way to the ground moves l with P_x = P_px, where p is
the link of that cluster on the way from l to the ground. Sums over links with one support are formed first:

    H_xj = P_x . sum I_l P_lj,
    C_xj = P_x . sum (I_l Pdot_lj + B_l P_lj),    C_jx = Pdot_x . sum I_l P_lj + P_x . sum B_l^T P_lj.
"""

from connections.engines.inlined.elimination import invert_by_elimination, solve_by_elimination
from connections.engines.inlined.rows import accumulate, clear
from connections.engines.inlined.simd import beyond, inlined, load, put, store, take
from connections.engines.inlined.twists import add6, dot6, motion_cross, scale6, subtract6
from connections.multibody.kernels import cluster_armature
from connections.multibody.kernels.algebra import (
    body_factor,
    contorsion_factor,
    contorsion_times,
    energy_scale,
    factor_times,
    factor_transpose_times,
    momentum,
)
from connections.multibody.kernels.cluster_columns import (
    contract,
    deposit,
    find_entry,
    group_columns,
    wrench_at_support,
    wrench_before_entry,
    zero6,
)
from connections.multibody.kernels.coriolis import add_transpose
from connections.multibody.kernels.layout import CONTORSION, FORCE_CROSS, LEAST, MASS_COLUMN, MASS_LINK
from connections.multibody.kernels.layout import CORIOLIS_COLUMN as ENTRY
from connections.multibody.kernels.layout import CORIOLIS_LINK as LINK
from connections.multibody.kernels.least import subtract_by_rows
from connections.multibody.kernels.origins import add_contorsion, add_factor, add_inertia, inherited
from connections.multibody.kernels.poses import link_inertia, place_links, store_columns


@inlined
def mass_matrix(tree, reduced, work, H):
    """H, slots H[i nv + j]; entries of two columns on different branches, which are zero, are not written."""
    place_links(tree, work)
    store(work, reduced.zero, 0.0)
    for i in range(1, tree.links + 1):
        store_entries(tree, reduced, work, i, MASS_COLUMN.size)
        put(work, tree.per_link + i * MASS_LINK.size, link_inertia(tree, work, i))
    nv, links, entries, column = reduced.nv, tree.per_link, reduced.entries, reduced.column
    for cluster in range(reduced.clusters - 1, -1, -1):
        many, adding = reduced.many_members[cluster], reduced.many_groups[cluster]
        if many:
            _clear(reduced, H, cluster, adding)
        for group in range(reduced.group_first[cluster], reduced.group_first[cluster + 1]):
            support = reduced.group_support[group]
            for at in range(reduced.group_seen[group], reduced.group_seen[group + 1]):
                j = reduced.seen[at]
                force = zero6(reduced, work)
                for member in range(reduced.group_member[group], reduced.group_member[group + 1]):
                    link = reduced.members[member]
                    e = find_entry(reduced, link, j)
                    if e >= 0:
                        P = take(work, entries + e * MASS_COLUMN.size, 6)
                        own = momentum(take(work, links + link * MASS_LINK.size, 10), P)
                        force = add6(force, own)
                        for a in range(reduced.entry_first[link], e + 1):
                            value = dot6(take(work, entries + a * MASS_COLUMN.size, 6), own)
                            deposit(H, column[a] * nv + j, value, many)
                            if a < e:
                                deposit(H, j * nv + column[a], value, many)
                force = wrench_at_support(tree, reduced, work, group, force)
                a = reduced.walk[support]
                while a >= 0:
                    value = dot6(take(work, entries + a * MASS_COLUMN.size, 6), force)
                    deposit(H, column[a] * nv + j, value, adding)
                    deposit(H, j * nv + column[a], value, adding)
                    force = wrench_before_entry(tree, reduced, work, a, force)
                    a = reduced.up[a]
            add_inertias(tree, reduced, work, group, links, MASS_LINK.size, 0)
    cluster_armature.add_to_mass_matrix(tree, reduced, work, H)


@inlined
def coriolis_matrix(tree, reduced, work, C, factor):
    """C, slots C[i nv + j], of the connection that `factor` names (`layout`).

    v is the first vector of the workspace.
    """
    _levi_civita_matrix(tree, reduced, work, C)
    if factor == FORCE_CROSS:
        _subtract_contorsion(tree, reduced, work, C)
    elif factor == LEAST and tree.noncommuting_count:
        mass_matrix(tree, reduced, work, beyond(work, reduced.scratch))
        for number in range(tree.noncommuting_count):
            columns, zero = group_columns(tree, reduced, number), load(work, reduced.zero)
            if columns[0] >= 0:
                given = reduced.scratch, reduced.vectors
                subtract_by_rows(reduced.nv, reduced.before, columns, work, given, zero, C)


@inlined
def _levi_civita_matrix(tree, reduced, work, C):
    """C of the Levi-Civita connection."""
    _outward(tree, reduced, work)
    nv, links, entries, column = reduced.nv, tree.per_link, reduced.entries, reduced.column
    for cluster in range(reduced.clusters - 1, -1, -1):
        many, adding = reduced.many_members[cluster], reduced.many_groups[cluster]
        if many:
            _clear(reduced, C, cluster, adding)
        for group in range(reduced.group_first[cluster], reduced.group_first[cluster + 1]):
            support = reduced.group_support[group]
            for at in range(reduced.group_seen[group], reduced.group_seen[group + 1]):
                j = reduced.seen[at]
                f1, f2 = zero6(reduced, work), zero6(reduced, work)
                f3 = (f1[0], f1[0], f1[0])
                for member in range(reduced.group_member[group], reduced.group_member[group + 1]):
                    link = reduced.members[member]
                    e = find_entry(reduced, link, j)
                    if e >= 0:
                        slot = links + link * LINK.size
                        inertia = take(work, slot + LINK.inertia, 10)
                        B = take(work, slot + LINK.factor, 12)
                        P = take(work, entries + e * ENTRY.size, 6)
                        Pdot = take(work, entries + e * ENTRY.size + ENTRY.rate, 6)
                        own = add6(momentum(inertia, Pdot), factor_times(B, P))
                        f1 = add6(f1, own)
                        f2 = add6(f2, momentum(inertia, P))
                        h = factor_transpose_times(B, P)
                        f3 = (f3[0] + h[0], f3[1] + h[1], f3[2] + h[2])
                        for a in range(reduced.entry_first[link], reduced.entry_first[link + 1]):
                            value = dot6(take(work, entries + a * ENTRY.size, 6), own)
                            deposit(C, column[a] * nv + j, value, many)
                f1 = wrench_at_support(tree, reduced, work, group, f1)
                f2 = wrench_at_support(tree, reduced, work, group, f2)
                a = reduced.walk[support]
                while a >= 0:
                    i, P = column[a], take(work, entries + a * ENTRY.size, 6)
                    Pdot = take(work, entries + a * ENTRY.size + ENTRY.rate, 6)
                    deposit(C, i * nv + j, dot6(P, f1), adding)
                    value = dot6(Pdot, f2) + (P[0] * f3[0] + P[1] * f3[1] + P[2] * f3[2])
                    deposit(C, j * nv + i, value, adding)
                    f1 = wrench_before_entry(tree, reduced, work, a, f1)
                    f2 = wrench_before_entry(tree, reduced, work, a, f2)
                    a = reduced.up[a]
            add_inertias(tree, reduced, work, group, links, LINK.size, LINK.inertia)
            _add_factors(tree, reduced, work, group, links, LINK.size, LINK.factor)
    cluster_armature.add_to_coriolis_matrix(tree, reduced, work, C)


@inlined
def _subtract_contorsion(tree, reduced, work, C):
    """Turn C of the Levi-Civita connection into C of the factor (v x*) I.

    The difference, C_xj - C*_xj = -P_x . sum N_l P_lj with N = `contorsion_factor`, is skew. The workspace
    must be as `_levi_civita_matrix` left it.
    """
    nv, links, entries, column = reduced.nv, tree.per_link, reduced.entries, reduced.column
    factors = links + (tree.links + 1) * LINK.size
    for i in range(1, tree.links + 1):
        N = contorsion_factor(link_inertia(tree, work, i), take(work, links + i * LINK.size, 6))
        put(work, factors + i * CONTORSION.size, N)
    for cluster in range(reduced.clusters - 1, -1, -1):
        for group in range(reduced.group_first[cluster], reduced.group_first[cluster + 1]):
            support = reduced.group_support[group]
            for at in range(reduced.group_seen[group], reduced.group_seen[group + 1]):
                j = reduced.seen[at]
                force = zero6(reduced, work)
                for member in range(reduced.group_member[group], reduced.group_member[group + 1]):
                    link = reduced.members[member]
                    e = find_entry(reduced, link, j)
                    if e >= 0:
                        N = take(work, factors + link * CONTORSION.size, 15)
                        own = contorsion_times(N, take(work, entries + e * ENTRY.size, 6))
                        force = add6(force, own)
                        for a in range(reduced.entry_first[link], e):
                            _subtract_skew(
                                C, nv, column[a], j, dot6(take(work, entries + a * ENTRY.size, 6), own)
                            )
                force = wrench_at_support(tree, reduced, work, group, force)
                a = reduced.walk[support]
                while a >= 0:
                    _subtract_skew(C, nv, column[a], j, dot6(take(work, entries + a * ENTRY.size, 6), force))
                    force = wrench_before_entry(tree, reduced, work, a, force)
                    a = reduced.up[a]
            _add_contorsions(tree, reduced, work, group, factors, CONTORSION.size)


@inlined
def _subtract_skew(C, nv, i, j, D):
    """Subtract from C entries [i, j] and [j, i] of a skew matrix, D and -D."""
    deposit(C, i * nv + j, -D, True)
    deposit(C, j * nv + i, D, True)


@inlined
def mass_matrix_rate(tree, reduced, work, rate):
    """Hdot = C + C^T, slots rate[i nv + j]; v is the first vector of the workspace."""
    _levi_civita_matrix(tree, reduced, work, rate)
    add_transpose(reduced.nv, reduced.before, rate)


@inlined
def inverse_mass_matrix(tree, reduced, work, inverse):
    """H^-1, slots inverse[i nv + j]; the pivots of the elimination are left in the workspace."""
    _measured_mass_matrix(tree, reduced, work)
    invert_by_elimination(
        reduced.nv, reduced.before, reduced.run, work, reduced.scratch, reduced.pivots, inverse
    )


@inlined
def solve_mass_matrix(tree, reduced, work, x):
    """Replace x, a vector of the workspace, by H^-1 x; the pivots are left in the workspace."""
    _measured_mass_matrix(tree, reduced, work)
    solve_by_elimination(reduced.nv, reduced.before, reduced.run, work, reduced.scratch, reduced.pivots, x)


@inlined
def _measured_mass_matrix(tree, reduced, work):
    """Write H to the scratch matrix, and the sums of `energy_scale` over the links to `pivots`."""
    clear(work, reduced.scratch, reduced.nv * reduced.nv)
    mass_matrix(tree, reduced, work, beyond(work, reduced.scratch))
    clear(work, reduced.pivots, reduced.nv)
    for i in range(1, tree.links + 1):
        inertia = take(work, tree.per_link + i * MASS_LINK.size, 10)
        for e in range(reduced.entry_first[i], reduced.entry_first[i + 1]):
            scale = energy_scale(inertia, take(work, reduced.entries + e * MASS_COLUMN.size, 6))
            deposit(work, reduced.pivots + reduced.column[e], scale, True)
    cluster_armature.add_to_scales(tree, reduced, work)


@inlined
def store_entries(tree, reduced, work, i, stride):
    """Write P of the entries of link i, and if P is not Phi, also its Phi; after `place_links`."""
    start, first = reduced.entry_first[i], tree.first[i]
    if reduced.direct[i]:
        store_columns(tree, work, i, reduced.entries + (start - first) * stride, stride)
    else:
        store_columns(tree, work, i, tree.per_column, MASS_COLUMN.size)
        for e in range(start, reduced.entry_first[i + 1]):
            k = reduced.column[e] - reduced.link_column[i]
            P = own_part(tree, reduced, work, i, k)
            if reduced.same[e] >= 0:
                P = add6(P, take(work, reduced.entries + reduced.same[e] * stride, 6))
            put(work, reduced.entries + e * stride, P)


@inlined
def own_part(tree, reduced, work, i, k):
    """sum_s Phi_s G_sk over the spanning columns s of link i, for column k of its cluster."""
    total = zero6(reduced, work)
    for s in range(tree.first[i], tree.first[i + 1]):
        factor = load(work, reduced.solution + reduced.G_row[s] + k)
        total = add6(total, scale6(take(work, tree.per_column + s * MASS_COLUMN.size, 6), factor))
    return total


@inlined
def add_inertias(tree, reduced, work, group, links, size, at):
    """Add the inertias of a group's members to that of the link that carries them.

    links, size : first slot of the records of all links, and their size; at : offset of the inertias.
    """
    if reduced.group_support[group] > 0:
        above = links + reduced.group_support[group] * size + at
        for member in range(reduced.group_member[group], reduced.group_member[group + 1]):
            link = reduced.members[member]
            if tree.begins[link]:  # its cluster is this link, and its support the parent
                add_inertia(tree, work, link, links, size, at)
            else:
                accumulate(work, above, links + link * size + at, 10)


@inlined
def _add_factors(tree, reduced, work, group, links, size, at):
    """Add the body-level factors of a group's members to that of the link that carries them."""
    if reduced.group_support[group] > 0:
        above = links + reduced.group_support[group] * size + at
        for member in range(reduced.group_member[group], reduced.group_member[group + 1]):
            link = reduced.members[member]
            if tree.begins[link]:
                add_factor(tree, work, link, links, size, at)
            else:
                accumulate(work, above, links + link * size + at, 12)


@inlined
def _add_contorsions(tree, reduced, work, group, factors, size):
    """Add the contorsion factors of a group's members to that of the link that carries them."""
    if reduced.group_support[group] > 0:
        above = factors + reduced.group_support[group] * size
        for member in range(reduced.group_member[group], reduced.group_member[group + 1]):
            link = reduced.members[member]
            if tree.begins[link]:
                add_contorsion(tree, work, link, factors, size, 0)
            else:
                accumulate(work, above, factors + link * size, 15)


@inlined
def _clear(reduced, matrix, cluster, all_of_them):
    """Set to zero the entries to which a cluster of several members adds.

    They are its own block; if it has several groups (`all_of_them`), also those with all columns before it.
    """
    nv, first = reduced.nv, reduced.column_first[cluster]
    last = -1 if all_of_them else first - 1
    for j in range(first, reduced.column_first[cluster + 1]):
        i = j
        while i > last:
            store(matrix, i * nv + j, 0.0)
            store(matrix, j * nv + i, 0.0)
            i = reduced.before[i]


@inlined
def _outward(tree, reduced, work):
    """Write twists, entries and their rates, inertias and body-level factors of all links."""
    place_links(tree, work)
    store(work, reduced.zero, 0.0)
    links, entries = tree.per_link, reduced.entries
    put(work, links, zero6(reduced, work))
    for i in range(1, tree.links + 1):
        store_entries(tree, reduced, work, i, ENTRY.size)
        twist = inherited(tree, work, i, links + reduced.support[i] * LINK.size)
        for e in range(reduced.entry_first[i], reduced.entry_first[i + 1]):
            rate = load(work, reduced.vectors + reduced.column[e])
            twist = add6(twist, scale6(take(work, entries + e * ENTRY.size, 6), rate))
        put(work, links + i * LINK.size, twist)
        for e in range(reduced.entry_first[i], reduced.entry_first[i + 1]):
            slot = entries + e * ENTRY.size
            own = take(work, slot, 6)
            if reduced.direct[i]:
                put(work, slot + ENTRY.rate, motion_cross(twist, own))
            else:
                _store_rate(tree, reduced, work, i, e, twist, own)
        inertia = link_inertia(tree, work, i)
        put(work, links + i * LINK.size + LINK.inertia, inertia)
        put(work, links + i * LINK.size + LINK.factor, body_factor(inertia, twist))


@inlined
def _store_rate(tree, reduced, work, i, e, twist, P):
    """Write Pdot of entry e of link i: Pdot at the link above + v_i x (P - P above) + sum_s Phi_s Gdot_s."""
    width, k = reduced.link_width[i], reduced.column[e] - reduced.link_column[i]
    above = reduced.entries + reduced.same[e] * ENTRY.size
    if reduced.same[e] >= 0:
        rate = add6(
            take(work, above + ENTRY.rate, 6), motion_cross(twist, subtract6(P, take(work, above, 6)))
        )
    else:
        rate = motion_cross(twist, P)
    for s in range(tree.first[i], tree.first[i + 1]):
        if reduced.LG_rows[s] >= 0:
            slot, v = reduced.solution + reduced.LG_rows[s] + k, reduced.vectors + reduced.link_column[i]
            Gdot = contract(work, slot, width, v, width)
            rate = add6(rate, scale6(take(work, tree.per_column + s * MASS_COLUMN.size, 6), Gdot))
    put(work, reduced.entries + e * ENTRY.size + ENTRY.rate, rate)
