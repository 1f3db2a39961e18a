"""The rate of C and the curvature operator of a closed chain, by recursions of its spanning tree, in O(N d).

With v_s = G v, Gdot_k = (L_v G)_k, and the tree's C_s, H_s and C_s' for the motion (v_s, G a + Gdot v),

    C' = G^T (C_s' G + C_s Gdot + H_s' Gdot + H_s Gddot) + Gdot^T (C_s G + H_s Gdot),    H_s' = C_s + C_s^T,

where Gddot is the rate of Gdot. The tangent map of q_s(q) preserves brackets, so with [., .] those of the
tree's frame for given components, and [v, X_k] = s^m X_m those of the chain's own,

    L_j G_k - L_k G_j + [G_j, G_k] = G [X_j, X_k],

    Gddot_k = (L_a G)_k + T_k + s^m (L_m G v + Gdot_m) - [Gdot v, G_k] - [v_s, Gdot_k],

with T_k = L_k (L_v G) v of `loop_bias_rates`. The operator is the sum of `curvature`,

    K = P - C' + C^T H^-1 C + H S_w - 2 C S - H S S,

at a = -w = -H^-1 C v, with P of `cluster_dynamics` without gravity. P and C' both contain G^T H_s T, so K
does not depend on T: by the equation of Gauss, the curvature of a submanifold needs no second derivatives of
its tangent vectors. Source: differentiation of [W] (17).
"""

from connections.engines.inlined.elimination import half_solve_rows
from connections.engines.inlined.rows import clear
from connections.engines.inlined.simd import beyond, inlined, load, store
from connections.engines.inlined.twists import motion_cross
from connections.multibody.kernels import coriolis, coriolis_rate, derivatives, newton_euler
from connections.multibody.kernels.armature import component
from connections.multibody.kernels.cluster_columns import (
    G_entry,
    columns_of,
    contract,
    deposit,
    group_columns,
    zero6,
)
from connections.multibody.kernels.cluster_coriolis import coriolis_matrix, mass_matrix, solve_mass_matrix
from connections.multibody.kernels.cluster_dynamics import (
    add_drift,
    add_turned_force,
    move,
    project_slopes,
    spanning_motion,
)
from connections.multibody.kernels.curvature import add_gram_product
from connections.multibody.kernels.layout import FORCE_CROSS, LEAST, MOVED_RATE
from connections.multibody.kernels.least import local_twist, subtract_by_rows


@inlined
def coriolis_matrix_rate(tree, reduced, work, rate, factor):
    """d/dt C(q, v), slots rate[i nv + j], of the connection of `factor`; v and a are the vectors."""
    clear(rate, 0, reduced.nv * reduced.nv)
    spanning_motion(tree, reduced, work)
    _add_rate(tree, reduced, work, rate, 1.0, factor if factor == FORCE_CROSS else 0)
    if factor == LEAST and tree.noncommuting_count:
        for part in range(2):  # of Hdot and v, and of H and a
            _subtract_least(tree, reduced, work, rate, part == 0, reduced.vectors + part * reduced.nv)


@inlined
def curvature_operator(tree, reduced, work, K):
    """K, slots K[i nv + j]; v is the first vector of the workspace."""
    nv, v = reduced.nv, reduced.vectors
    a = v + nv
    C, H = beyond(work, reduced.spanning), beyond(work, reduced.spanning + nv * nv)
    clear(C, 0, nv * nv)
    coriolis_matrix(tree, reduced, work, C, 0)
    for i in range(nv):
        store(work, a + i, -contract(work, reduced.spanning + i * nv, 1, v, nv))
    solve_mass_matrix(tree, reduced, work, a)  # -w; the factors of H stay in the scratch matrix
    clear(K, 0, nv * nv)
    clear(work, reduced.bias_rates, reduced.G_size)  # T, of which K is independent
    spanning_motion(tree, reduced, work)
    _add_slopes(tree, reduced, work, K)
    spanning_motion(tree, reduced, work)
    _add_rate(tree, reduced, work, K, -1.0, 0)
    clear(work, reduced.spanning, 2 * nv * nv)
    coriolis_matrix(tree, reduced, work, C, 0)
    if tree.noncommuting_count:
        mass_matrix(tree, reduced, work, H)
        _add_brackets(tree, reduced, work, (C, H), K)
    half_solve_rows(nv, reduced.before, work, reduced.scratch, C, nv)
    add_gram_product(nv, work, (reduced.scratch, a + nv), C)
    for i in range(nv):
        for j in range(i + 1):
            value = (load(K, i * nv + j) + load(K, j * nv + i)) * 0.5 + load(C, i * nv + j)
            store(K, i * nv + j, value)
            store(K, j * nv + i, value)


@inlined
def _add_slopes(tree, reduced, work, K):
    """Add dtau/dq, without gravity, to K."""
    m, forces = tree.nv, reduced.spanning
    D, moved = forces + m, forces + m + 3 * m * m
    newton_euler.weightless_inverse_dynamics(tree, work, beyond(work, forces))
    clear(work, D, 3 * m * m)
    derivatives.weightless_derivatives(tree, work, beyond(work, D))
    for s in range(m):
        move(tree, reduced, work, s, moved)
        add_turned_force(tree, reduced, work, s, load(work, forces + s), K)
    for s in range(m):
        r = s
        while r >= 0:
            project_slopes(tree, reduced, work, D, moved, s, r, K)
            if r < s:
                project_slopes(tree, reduced, work, D, moved, r, s, K)
            r = tree.up[r]


# --- the rate of C ------------------------------------------------------------------------------------------


@inlined
def _add_rate(tree, reduced, work, rate, sign, factor):
    """Add `sign` times the rate of C; the tree's motion (`spanning_motion`) is in the workspace."""
    m = tree.nv
    C, moved = reduced.spanning + m, reduced.spanning + m + 3 * m * m
    C_rate, H = C + m * m, C + 2 * m * m
    clear(work, C, 3 * m * m)
    coriolis.mass_matrix(tree, work, beyond(work, H))
    coriolis.coriolis_matrix(tree, work, beyond(work, C), factor)
    coriolis_rate.coriolis_matrix_rate(tree, work, beyond(work, C_rate), factor)
    for s in range(m):
        _move(tree, reduced, work, s, moved)
    if tree.noncommuting_count:
        clear(work, tree.vectors + 2 * m, m)
        add_drift(tree, reduced, work, reduced.vectors, reduced.vectors, tree.vectors + 2 * m)
        for number in range(tree.noncommuting_count):
            _turn(tree, reduced, work, tree.noncommuting[number], moved)
    for s in range(m):
        r = s
        while r >= 0:
            _project_rate(tree, reduced, work, (C, moved), s, r, rate, sign)
            if r < s:
                _project_rate(tree, reduced, work, (C, moved), r, s, rate, sign)
            r = tree.up[r]


@inlined
def _subtract_least(tree, reduced, work, rate, moving, vector):
    """Subtract D_ijk x^j of `least`, made of H, or if `moving` of Hdot, and the vector x; after `_add_rate`.

    H = G^T H_s G, and Hdot = G^T H_s' G + Gdot^T H_s G + G^T H_s Gdot.
    """
    nv, m, zero = reduced.nv, tree.nv, load(work, reduced.zero)
    C, moved, H = reduced.spanning + m, reduced.spanning + m + 3 * m * m, reduced.scratch
    clear(work, H, nv * nv)
    for s in range(m):
        r = s
        while r >= 0:
            _project_mass(tree, reduced, work, (C, moved), s, r, H, moving)
            if r < s:
                _project_mass(tree, reduced, work, (C, moved), r, s, H, moving)
            r = tree.up[r]
    for number in range(tree.noncommuting_count):
        columns = group_columns(tree, reduced, number)
        if columns[0] >= 0:
            subtract_by_rows(nv, reduced.before, columns, work, (H, vector), zero, rate)


@inlined
def _project_mass(tree, reduced, work, places, s, r, H, moving):
    """Add the contribution of entries (s, r) to H, or if `moving` to Hdot; as `_project_rate`."""
    m, (C, moved) = tree.nv, places
    entry = load(work, C + 2 * m * m + s * m + r)
    entry_rate = load(work, C + s * m + r) + load(work, C + r * m + s)
    first, count = columns_of(tree, reduced, s)
    other, others = columns_of(tree, reduced, r)
    for j in range(others):
        slot = _slot(tree, reduced, moved, r, j)
        G, G_rate = load(work, slot + MOVED_RATE.G), load(work, slot + MOVED_RATE.rate)
        for k in range(count):
            own = _slot(tree, reduced, moved, s, k)
            value = load(work, own + MOVED_RATE.G) * entry * G
            if moving:
                value = load(work, own + MOVED_RATE.G) * (entry_rate * G + entry * G_rate)
                value = value + load(work, own + MOVED_RATE.rate) * entry * G
            deposit(work, H + (first + k) * reduced.nv + other + j, value, True)


@inlined
def _move(tree, reduced, work, s, moved):
    """Row s of G, of Gdot, and of Gddot without brackets, for each column of `columns_of`."""
    first, count = columns_of(tree, reduced, s)
    v, a = reduced.vectors + first, reduced.vectors + reduced.nv + first
    for k in range(count):
        at = _slot(tree, reduced, moved, s, k)
        store(work, at + MOVED_RATE.G, G_entry(reduced, work, s, k))
        if reduced.LG_rows[s] < 0:
            clear(work, at + MOVED_RATE.along, MOVED_RATE.size - MOVED_RATE.along)
        else:
            LG, T = reduced.solution + reduced.LG_rows[s], reduced.bias_rates + reduced.G_row[s] - tree.nq
            store(work, at + MOVED_RATE.along, contract(work, LG + k * count, 1, v, count))
            store(work, at + MOVED_RATE.rate, contract(work, LG + k, count, v, count))
            store(work, at + MOVED_RATE.second, load(work, T + k) + contract(work, LG + k, count, a, count))


@inlined
def _turn(tree, reduced, work, link, moved):
    """Add the terms of Gddot with brackets of a link: of the tree's frame, and of the chain's own."""
    first, stop = tree.first[link], tree.first[link + 1]
    column = reduced.independent[first]
    if column >= 0:
        own = local_twist(work, reduced.vectors + column, 1, stop - first, load(work, reduced.zero))
        for s in range(tree.nv):
            start, count = columns_of(tree, reduced, s)
            if reduced.LG_rows[s] >= 0 and start <= column < start + count:
                for k in range(stop - first):
                    bracket = motion_cross(own, _unit(reduced, work, k))  # [v, X_k]
                    to = _slot(tree, reduced, moved, s, column + k - start) + MOVED_RATE.second
                    for r in range(stop - first):
                        at = _slot(tree, reduced, moved, s, column + r - start)
                        sum_ = load(work, at + MOVED_RATE.along) + load(work, at + MOVED_RATE.rate)
                        store(work, to, load(work, to) + component(bracket, r) * sum_)
    if reduced.LG_rows[first] >= 0:
        start, count = columns_of(tree, reduced, first)
        velocity = local_twist(work, tree.vectors + first, 1, stop - first, load(work, reduced.zero))
        drift = local_twist(
            work, tree.vectors + 2 * tree.nv + first, 1, stop - first, load(work, reduced.zero)
        )
        for k in range(count):
            at = _slot(tree, reduced, moved, first, k)
            stride = MOVED_RATE.size * count
            G = local_twist(work, at + MOVED_RATE.G, stride, stop - first, load(work, reduced.zero))
            rate = local_twist(work, at + MOVED_RATE.rate, stride, stop - first, load(work, reduced.zero))
            one, other = motion_cross(drift, G), motion_cross(velocity, rate)
            for r in range(stop - first):
                to = at + r * stride + MOVED_RATE.second
                store(work, to, load(work, to) - component(one, r) - component(other, r))


@inlined
def _project_rate(tree, reduced, work, places, s, r, rate, sign):
    """Add the contribution of entries (s, r) of C_s, C_s' and H_s to the rate.

    places : first slots of these matrices, one after the other, and of what `_move` wrote.
    """
    nv, m, (C, moved) = reduced.nv, tree.nv, places
    at, square = C + s * m + r, m * m
    C_sr, C_rate, H = load(work, at), load(work, at + square), load(work, at + 2 * square)
    H_rate = C_sr + load(work, C + r * m + s)
    first, count = columns_of(tree, reduced, s)
    other, others = columns_of(tree, reduced, r)
    for j in range(others):
        slot = _slot(tree, reduced, moved, r, j)
        G, G_rate = load(work, slot + MOVED_RATE.G), load(work, slot + MOVED_RATE.rate)
        value = C_rate * G + (C_sr + H_rate) * G_rate + H * load(work, slot + MOVED_RATE.second)
        turned = C_sr * G + H * G_rate
        for k in range(count):
            own = _slot(tree, reduced, moved, s, k)
            G, G_rate = load(work, own + MOVED_RATE.G), load(work, own + MOVED_RATE.rate)
            deposit(rate, (first + k) * nv + other + j, (G * value + G_rate * turned) * sign, True)


@inlined
def _slot(tree, reduced, moved, s, k):
    return moved + MOVED_RATE.size * (reduced.G_row[s] - tree.nq + k)


# --- brackets -----------------------------------------------------------------------------------------------


@inlined
def _add_brackets(tree, reduced, work, matrices, K):
    """Add H S_w - 2 C S - H S S to K, for the matrices (C, H)."""
    nv, (C, H) = reduced.nv, matrices
    for number in range(tree.noncommuting_count):
        link = tree.noncommuting[number]
        first, count = reduced.independent[tree.first[link]], tree.first[link + 1] - tree.first[link]
        if first >= 0:
            v = local_twist(work, reduced.vectors + first, 1, count, load(work, reduced.zero))
            a = local_twist(work, reduced.vectors + nv + first, 1, count, load(work, reduced.zero))
            for k in range(count):
                unit = _unit(reduced, work, k)
                once = motion_cross(unit, v)
                twice, of_a = motion_cross(once, v), motion_cross(unit, a)
                for i in range(nv):
                    for r in range(count):
                        at = i * nv + first + r
                        value = load(H, at) * (component(of_a, r) + component(twice, r))
                        value = value + 2.0 * load(C, at) * component(once, r)
                        deposit(K, i * nv + first + k, -value, True)


@inlined
def _unit(reduced, work, k):
    """The twist of which component k is one."""
    x, y, z, a, b, c = zero6(reduced, work)
    if k == 0:
        x = x + 1.0
    elif k == 1:
        y = y + 1.0
    elif k == 2:
        z = z + 1.0
    elif k == 3:
        a = a + 1.0
    elif k == 4:
        b = b + 1.0
    else:
        c = c + 1.0
    return x, y, z, a, b, c
