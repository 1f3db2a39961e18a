"""Armature in closed chains: what the inertia of all joints' velocities v_s = G v adds to H, C and Gamma.

With the armature a_s of spanning column s, and the constant symbols of spherical and free joints
(`armature`), Gamma_stu, C_s[s, u] = Gamma_stu v_s^t,

    H_jk = sum_s a_s G_sj G_sk,    C_jk = sum_s a_s G_sj Gdot_sk + (G^T C_s G)_jk,
    Gamma_ijk = sum_s a_s G_si LG_sjk + sum_stu G_si G_tj G_uk Gamma_stu.

All columns are of the cluster of s. A column that does not move the link of s has no entry there, and G = 0;
what belongs to it may never be written by the kernels, so nothing is added to it either. Other recursions
need no more than those of the spanning tree. Source: [W] (17) and (19).
"""

from connections.engines.inlined.simd import inlined, load
from connections.multibody.kernels.armature import is_free, sign_of
from connections.multibody.kernels.cluster_columns import G_entry, columns_of, contract, deposit, find_entry


@inlined
def add_to_mass_matrix(tree, reduced, work, H):
    """Add G^T diag(a) G to H, slots H[i nv + j]."""
    if tree.armed:
        for s in range(tree.nv):
            if tree.armature[s] != 0.0:
                first, count = columns_of(tree, reduced, s)
                for j in range(count):
                    if _moves(tree, reduced, s, first + j):
                        factor = G_entry(reduced, work, s, j) * tree.armature[s]
                        for k in range(count):
                            if _moves(tree, reduced, s, first + k):
                                value = factor * G_entry(reduced, work, s, k)
                                deposit(H, (first + j) * reduced.nv + first + k, value, True)


@inlined
def add_to_scales(tree, reduced, work):
    """Add sum_s a_s G_sj^2 to the scales of the pivots of H."""
    if tree.armed:
        for s in range(tree.nv):
            first, count = columns_of(tree, reduced, s)
            for k in range(count):
                G = G_entry(reduced, work, s, k)
                deposit(work, reduced.pivots + first + k, G * G * tree.armature[s], True)


@inlined
def add_to_coriolis_matrix(tree, reduced, work, C):
    """Add what armature adds to C, slots C[i nv + j]; v is the first vector."""
    if tree.armed:
        for s in range(tree.nv):
            if tree.armature[s] != 0.0 and reduced.LG_rows[s] >= 0:
                first, count = columns_of(tree, reduced, s)
                for k in range(count):
                    if _moves(tree, reduced, s, first + k):
                        at = reduced.solution + reduced.LG_rows[s] + k
                        rate = contract(work, at, count, reduced.vectors + first, count) * tree.armature[s]
                        for j in range(count):
                            if _moves(tree, reduced, s, first + j):
                                value = rate * G_entry(reduced, work, s, j)
                                deposit(C, (first + j) * reduced.nv + first + k, value, True)
        for number in range(tree.noncommuting_count):
            link = tree.noncommuting[number]
            s = tree.first[link]
            for i in range(3):
                for k in range(3):
                    if i != k:
                        j = 3 - i - k
                        first, count = columns_of(tree, reduced, s + j)
                        at = reduced.solution + reduced.G_row[s + j]
                        omega = contract(work, at, 1, reduced.vectors + first, count)
                        entry = omega * float(sign_of(i, j, k))
                        half = entry * (0.5 * tree.armature[s])
                        _add_projected(tree, reduced, work, C, s + i, s + k, half)
                        if is_free(tree, link):
                            whole = entry * tree.armature[s + 3]
                            _add_projected(tree, reduced, work, C, s + 3 + i, s + 3 + k, whole)


@inlined
def add_to_symbols(tree, reduced, work, Gamma):
    """Add what armature adds to Gamma_ijk, slots Gamma[(i nv + j) nv + k]."""
    if tree.armed:
        nv = reduced.nv
        for s in range(tree.nv):
            if tree.armature[s] != 0.0 and reduced.LG_rows[s] >= 0:
                first, count = columns_of(tree, reduced, s)
                for i in range(count):
                    if _moves(tree, reduced, s, first + i):
                        factor = G_entry(reduced, work, s, i) * tree.armature[s]
                        for j in range(count):
                            for k in range(count):
                                if _moves(tree, reduced, s, first + j) and _moves(
                                    tree, reduced, s, first + k
                                ):
                                    at = reduced.solution + reduced.LG_rows[s] + j * count + k
                                    value = factor * load(work, at)
                                    slot = ((first + i) * nv + first + j) * nv + first + k
                                    deposit(Gamma, slot, value, True)
        for number in range(tree.noncommuting_count):
            link = tree.noncommuting[number]
            s = tree.first[link]
            for i in range(3):
                for k in range(3):
                    if i != k:
                        j = 3 - i - k
                        eps = float(sign_of(i, j, k))
                        half = 0.5 * eps * tree.armature[s]
                        _add_triple(tree, reduced, work, Gamma, (s + i, s + j, s + k), half)
                        if is_free(tree, link):
                            whole = eps * tree.armature[s + 3]
                            _add_triple(tree, reduced, work, Gamma, (s + 3 + i, s + j, s + 3 + k), whole)


@inlined
def _moves(tree, reduced, s, column):
    """Whether a column of the cluster of spanning column s moves the link of s."""
    return find_entry(reduced, tree.link_of[s], column) >= 0


@inlined
def _add_projected(tree, reduced, work, C, s, u, value):
    """Add G_sj G_uk value to C_jk for all columns j, k; s and u are of one link."""
    first, count = columns_of(tree, reduced, s)
    other, others = columns_of(tree, reduced, u)
    for j in range(count):
        if _moves(tree, reduced, s, first + j):
            factor = value * G_entry(reduced, work, s, j)
            for k in range(others):
                if _moves(tree, reduced, u, other + k):
                    at = (first + j) * reduced.nv + other + k
                    deposit(C, at, factor * G_entry(reduced, work, u, k), True)


@inlined
def _add_triple(tree, reduced, work, Gamma, columns, value):
    """Add G_si G_tj G_uk value to Gamma_ijk for all columns i, j, k; `columns` are s, t, u, of one link."""
    s, t, u = columns
    direction, count = columns_of(tree, reduced, t)
    for j in range(count):
        if _moves(tree, reduced, t, direction + j):
            first, rows = columns_of(tree, reduced, s)
            other, others = columns_of(tree, reduced, u)
            factor = G_entry(reduced, work, t, j) * value
            for i in range(rows):
                if _moves(tree, reduced, s, first + i):
                    along = factor * G_entry(reduced, work, s, i)
                    for k in range(others):
                        if _moves(tree, reduced, u, other + k):
                            at = ((first + i) * reduced.nv + direction + j) * reduced.nv + other + k
                            deposit(Gamma, at, along * G_entry(reduced, work, u, k), True)
