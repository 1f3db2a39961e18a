"""Dynamics of a closed chain by recursions of its spanning tree, in O(N d).

Velocities of the spanning tree are G v, and forces are projected by G^T. With the spanning
configuration q_s, v_s = G v, w_s = G w, and Gdot_sk = LG_sjk v^j,

    H a + C v + g = G^T ID_s(q_s, v_s, G a + Gdot v),           g = G^T g_s(q_s),
    C w = G^T (C_s w_s + H_s Gdot w),                           C^T w = G^T C_s^T w_s + Gdot^T H_s w_s,
    Y = G^T Y_s(q_s, v_s, G v_r, G a_r + Gdot v_r),             vdot = H^-1 (tau - C v - g),
    Y_p = G^T Y_ps,                                             Y_e = G^T Y_es + Gdot^T Y_ps,

and with D_q, D_v the derivatives of the tree's tau_s, T_j = L_j (L_v G) v, and a_s = G a + Gdot v,

    dtau/dq_j = G^T (D_q G_j + D_v (L_j G) v + H_s ((L_j G) a + T_j)) + (L_j G)^T tau_s,
    dtau/dv_j = G^T (D_v G_j + H_s ((L_j G) v + (L_v G)_j)),    H = G^T H_s G.

`reduced` is `layout.CLUSTERS`, unpacked; the solution [q_s | G | LG] and the vectors are in the workspace.
G is read as in `cluster_columns`. Source: [W] (17) and VI-C; the derivatives by differentiation of
tau = G^T tau_s.
"""

from connections.engines.inlined.elimination import solve_rows
from connections.engines.inlined.rows import clear
from connections.engines.inlined.simd import beyond, inlined, load, store
from connections.engines.inlined.twists import force_cross, motion_cross, subtract6
from connections.multibody.kernels import derivatives, newton_euler
from connections.multibody.kernels.armature import component
from connections.multibody.kernels.cluster_columns import (
    G_entry,
    columns_of,
    contract,
    deposit,
    group_columns,
)
from connections.multibody.kernels.cluster_coriolis import inverse_mass_matrix, solve_mass_matrix
from connections.multibody.kernels.layout import FORCE_CROSS, LEAST, MOVED
from connections.multibody.kernels.least import local_twist, subtract_local
from connections.multibody.kernels.regressor import momentum_regressor as momentum_regressor_of_tree
from connections.multibody.kernels.regressor import regressor as regressor_of_tree


@inlined
def inverse_dynamics(tree, reduced, work, tau):
    """tau = H a + C v + g, slots tau[j]; v and a are the first two vectors."""
    spanning_motion(tree, reduced, work)
    newton_euler.inverse_dynamics(tree, work, beyond(work, reduced.spanning))
    project(tree, reduced, work, reduced.spanning, tau)


@inlined
def nonlinear_effects(tree, reduced, work, tau):
    """C v + g, slots tau[j]; v is the first vector."""
    clear(work, reduced.vectors + reduced.nv, reduced.nv)
    inverse_dynamics(tree, reduced, work, tau)


@inlined
def gravity(tree, reduced, work, g):
    """g(q), slots g[j]."""
    newton_euler.gravity(tree, work, beyond(work, reduced.spanning))
    project(tree, reduced, work, reduced.spanning, g)


@inlined
def coriolis_product(tree, reduced, work, product, factor):
    """C(q, v) w, slots product[j], of the connection of `factor`; v and w are the first two vectors."""
    v, w, f = reduced.vectors, reduced.vectors + reduced.nv, reduced.spanning
    to_spanning(tree, reduced, work, v, tree.vectors)
    to_spanning(tree, reduced, work, w, tree.vectors + tree.nv)
    newton_euler.coriolis_product(tree, work, beyond(work, f), factor if factor == FORCE_CROSS else 0)
    clear(work, tree.vectors, tree.nv)
    add_drift(tree, reduced, work, v, w, tree.vectors)
    newton_euler.mass_product(tree, work, tree.vectors, beyond(work, f + tree.nv))
    for s in range(tree.nv):
        deposit(work, f + s, load(work, f + tree.nv + s), True)
    project(tree, reduced, work, f, product)
    if factor == LEAST and tree.noncommuting_count:
        _subtract_least(tree, reduced, work, 1.0 / 6.0, product)


@inlined
def coriolis_transpose_product(tree, reduced, work, product, factor):
    """C(q, v)^T w, slots product[j], as by `coriolis_product`."""
    v, w, f = reduced.vectors, reduced.vectors + reduced.nv, reduced.spanning
    to_spanning(tree, reduced, work, v, tree.vectors)
    to_spanning(tree, reduced, work, w, tree.vectors + tree.nv)
    newton_euler.coriolis_transpose_product(
        tree, work, beyond(work, f), factor if factor == FORCE_CROSS else 0
    )
    newton_euler.mass_product(tree, work, tree.vectors + tree.nv, beyond(work, f + tree.nv))
    project(tree, reduced, work, f, product)
    add_projected_rate(tree, reduced, work, v, f + tree.nv, product)
    if factor == LEAST and tree.noncommuting_count:
        _subtract_least(tree, reduced, work, -1.0 / 6.0, product)


@inlined
def _subtract_least(tree, reduced, work, factor, product):
    """Subtract 6 D_ijk v^j w^k of `least`, times `factor`, from slots product[i].

    With x and y the parts of v and w of each spherical or free joint that is independent, b is x x y; then
    H v, H w and H b are products of the spanning tree.
    """
    nv, v = reduced.nv, reduced.vectors
    w, b, momenta = v + nv, v + 2 * nv, reduced.spanning + tree.nv
    zero = load(work, reduced.zero)
    clear(work, b, nv)
    for number in range(tree.noncommuting_count):
        first, count = group_columns(tree, reduced, number)
        if first >= 0:
            x = local_twist(work, v + first, 1, count, zero)
            bracket = motion_cross(x, local_twist(work, w + first, 1, count, zero))
            for k in range(count):
                store(work, b + first + k, component(bracket, k))
    for vector in range(3):
        to_spanning(tree, reduced, work, v + vector * nv, tree.vectors)
        newton_euler.mass_product(tree, work, tree.vectors, beyond(work, reduced.spanning))
        project(tree, reduced, work, reduced.spanning, beyond(work, momenta + vector * nv))
    for j in range(nv):
        deposit(product, j, -factor * load(work, momenta + 2 * nv + j), True)
    for number in range(tree.noncommuting_count):
        first, count = group_columns(tree, reduced, number)
        if first >= 0:
            x = local_twist(work, v + first, 1, count, zero)
            y = local_twist(work, w + first, 1, count, zero)
            moved = force_cross(x, local_twist(work, momenta + nv + first, 1, count, zero))
            other = force_cross(y, local_twist(work, momenta + first, 1, count, zero))
            subtract_local(product, first, count, factor, subtract6(moved, other))


@inlined
def forward_dynamics(tree, reduced, work, vdot):
    """vdot = H^-1 (tau - C v - g), slots vdot[j]; v and tau are the first two vectors; vdot replaces tau."""
    v, tau = reduced.vectors, reduced.vectors + reduced.nv
    to_spanning(tree, reduced, work, v, tree.vectors)
    clear(work, tree.vectors + tree.nv, tree.nv)
    add_drift(tree, reduced, work, v, v, tree.vectors + tree.nv)
    newton_euler.inverse_dynamics(tree, work, beyond(work, reduced.spanning))
    project(tree, reduced, work, reduced.spanning, vdot)
    for j in range(reduced.nv):
        store(work, tau + j, load(work, tau + j) - load(vdot, j))
    solve_mass_matrix(tree, reduced, work, tau)
    for j in range(reduced.nv):
        store(vdot, j, load(work, tau + j))


@inlined
def regressor(tree, reduced, work, Y):
    """Y, slots Y[j 10 N + 10 b + p]; v, v_r and a_r are the three vectors."""
    v, v_r, a_r = reduced.vectors, reduced.vectors + reduced.nv, reduced.vectors + 2 * reduced.nv
    to_spanning(tree, reduced, work, v, tree.vectors)
    to_spanning(tree, reduced, work, v_r, tree.vectors + tree.nv)
    to_spanning(tree, reduced, work, a_r, tree.vectors + 2 * tree.nv)
    add_drift(tree, reduced, work, v, v_r, tree.vectors + 2 * tree.nv)
    regressor_of_tree(tree, work, beyond(work, reduced.spanning))
    width = 10 * tree.bodies
    clear(Y, 0, reduced.nv * width)
    for i in range(1, tree.links + 1):
        s = tree.first[i + 1] - 1 if tree.body[i] >= 0 else -1
        while s >= 0:  # the columns that move the body; entries of other columns were not written
            first, count = columns_of(tree, reduced, s)
            for k in range(count):
                factor = G_entry(reduced, work, s, k)
                for p in range(10 * tree.body[i], 10 * tree.body[i] + 10):
                    value = factor * load(work, reduced.spanning + s * width + p)
                    deposit(Y, (first + k) * width + p, value, True)
            s = tree.up[s]


@inlined
def momentum_regressor(tree, reduced, work, Y):
    """Y_p and Y_e, slots Y[(e nv + j) 10 N + 10 b + p] with e = 0 for Y_p; v is the first vector."""
    v, width = reduced.vectors, 10 * tree.bodies
    to_spanning(tree, reduced, work, v, tree.vectors)
    momentum_regressor_of_tree(tree, work, beyond(work, reduced.spanning))
    effects, effects_s = reduced.nv * width, tree.nv * width
    clear(Y, 0, 2 * effects)
    for i in range(1, tree.links + 1):
        s = tree.first[i + 1] - 1 if tree.body[i] >= 0 else -1
        while s >= 0:  # as in `regressor`
            first, count = columns_of(tree, reduced, s)
            for k in range(count):
                factor = G_entry(reduced, work, s, k)
                for p in range(10 * tree.body[i], 10 * tree.body[i] + 10):
                    at, to = reduced.spanning + s * width + p, (first + k) * width + p
                    deposit(Y, to, factor * load(work, at), True)
                    deposit(Y, effects + to, factor * load(work, at + effects_s), True)
            if reduced.LG_rows[s] >= 0:
                for k in range(count):
                    LG = reduced.solution + reduced.LG_rows[s] + k
                    rate = contract(work, LG, count, v + first, count)
                    for p in range(10 * tree.body[i], 10 * tree.body[i] + 10):
                        value = rate * load(work, reduced.spanning + s * width + p)
                        deposit(Y, effects + (first + k) * width + p, value, True)
            s = tree.up[s]


@inlined
def inverse_dynamics_derivatives(tree, reduced, work, out):
    """dtau/dq, dtau/dv and H, slots out[(p nv + i) nv + j]; v and a are the first two vectors."""
    nv, m = reduced.nv, tree.nv
    forces = reduced.spanning
    D, moved = forces + m, forces + m + 3 * m * m
    spanning_motion(tree, reduced, work)
    newton_euler.inverse_dynamics(tree, work, beyond(work, forces))
    clear(work, D, 3 * m * m)
    derivatives.inverse_dynamics_derivatives(tree, work, beyond(work, D))
    clear(out, 0, 3 * nv * nv)
    for s in range(m):
        move(tree, reduced, work, s, moved)
        add_turned_force(tree, reduced, work, s, load(work, forces + s), out)
    for s in range(m):
        r = s
        while r >= 0:  # for columns on different branches the derivatives are zero
            _project_pair(tree, reduced, work, D, moved, s, r, out)
            if r < s:
                _project_pair(tree, reduced, work, D, moved, r, s, out)
            r = tree.up[r]


@inlined
def forward_dynamics_derivatives(tree, reduced, work, out):
    """da/dq, da/dv and H^-1, slots out[(p nv + i) nv + j]; v and tau are the first two vectors."""
    nv, size = reduced.nv, reduced.nv * reduced.nv
    forward_dynamics(tree, reduced, work, out)
    inverse_dynamics_derivatives(tree, reduced, work, out)
    inverse_mass_matrix(tree, reduced, work, beyond(out, 2 * size))
    for part in range(2):
        solve_rows(nv, nv, reduced.before, work, reduced.scratch, beyond(out, part * size))


# --- between a closed chain's velocities and those of its spanning tree -------------------------------------


@inlined
def spanning_motion(tree, reduced, work):
    """Write v_s = G v and a_s = G a + Gdot v to the first two vectors of the spanning tree."""
    v, a = reduced.vectors, reduced.vectors + reduced.nv
    to_spanning(tree, reduced, work, v, tree.vectors)
    to_spanning(tree, reduced, work, a, tree.vectors + tree.nv)
    add_drift(tree, reduced, work, v, v, tree.vectors + tree.nv)


@inlined
def to_spanning(tree, reduced, work, x, x_s):
    """x_s = G x; the arguments x and x_s are the first slots of these vectors."""
    for s in range(tree.nv):
        first, count = columns_of(tree, reduced, s)
        store(work, x_s + s, 0.0)
        for k in range(count):
            deposit(work, x_s + s, G_entry(reduced, work, s, k) * load(work, x + first + k), True)


@inlined
def add_drift(tree, reduced, work, v, w, x_s):
    """Add Gdot(v) w to x_s."""
    for s in range(tree.nv):
        if reduced.LG_rows[s] >= 0:
            first, count = columns_of(tree, reduced, s)
            for j in range(count):
                at = reduced.solution + reduced.LG_rows[s] + j * count
                along = contract(work, at, 1, w + first, count)
                deposit(work, x_s + s, along * load(work, v + first + j), True)


@inlined
def project(tree, reduced, work, f_s, f):
    """G^T f_s, slots f[j]."""
    clear(f, 0, reduced.nv)
    for s in range(tree.nv):
        first, count = columns_of(tree, reduced, s)
        for k in range(count):
            deposit(f, first + k, G_entry(reduced, work, s, k) * load(work, f_s + s), True)


@inlined
def add_projected_rate(tree, reduced, work, v, p_s, f):
    """Add Gdot(v)^T p_s to f."""
    for s in range(tree.nv):
        if reduced.LG_rows[s] >= 0:
            first, count = columns_of(tree, reduced, s)
            for k in range(count):
                at = reduced.solution + reduced.LG_rows[s] + k
                rate = contract(work, at, count, v + first, count)
                deposit(f, first + k, rate * load(work, p_s + s), True)


# --- derivatives --------------------------------------------------------------------------------------------


@inlined
def move(tree, reduced, work, s, moved):
    """Row s of G, (L_j G) v, (L_j G) a + T_j and (L_j G) v + (L_v G)_j, for each column j of `columns_of`."""
    first, count = columns_of(tree, reduced, s)
    v, a = reduced.vectors + first, reduced.vectors + reduced.nv + first
    for j in range(count):
        at = _moved_slot(tree, reduced, moved, s, j)
        store(work, at + MOVED.G, G_entry(reduced, work, s, j))
        if reduced.LG_rows[s] < 0:
            clear(work, at + MOVED.along, MOVED.size - MOVED.along)
        else:
            LG, T = reduced.solution + reduced.LG_rows[s], reduced.bias_rates + reduced.G_row[s] - tree.nq
            along = contract(work, LG + j * count, 1, v, count)
            store(work, at + MOVED.along, along)
            with_acceleration = load(work, T + j) + contract(work, LG + j * count, 1, a, count)
            store(work, at + MOVED.with_acceleration, with_acceleration)
            store(work, at + MOVED.both, along + contract(work, LG + j, count, v, count))


@inlined
def _moved_slot(tree, reduced, moved, s, j):
    return moved + MOVED.size * (reduced.G_row[s] - tree.nq + j)


@inlined
def add_turned_force(tree, reduced, work, s, force, out):
    """Add the term of spanning column s in (L_j G)^T tau_s to dtau/dq_j; `force` is tau_s[s]."""
    if reduced.LG_rows[s] >= 0:
        first, count = columns_of(tree, reduced, s)
        LG = reduced.solution + reduced.LG_rows[s]
        for j in range(count):
            for k in range(count):
                value = load(work, LG + j * count + k) * force
                deposit(out, (first + k) * reduced.nv + first + j, value, True)


@inlined
def project_slopes(tree, reduced, work, D, moved, s, r, slopes):
    """`_project_pair` for dtau/dq alone."""
    at, square = D + s * tree.nv + r, tree.nv * tree.nv
    D_q, D_v, H = load(work, at), load(work, at + square), load(work, at + 2 * square)
    first, count = columns_of(tree, reduced, s)
    other, others = columns_of(tree, reduced, r)
    for j in range(others):
        slot = _moved_slot(tree, reduced, moved, r, j)
        value = D_q * load(work, slot + MOVED.G) + D_v * load(work, slot + MOVED.along)
        value = value + H * load(work, slot + MOVED.with_acceleration)
        for k in range(count):
            factor, to = G_entry(reduced, work, s, k), (first + k) * reduced.nv + other + j
            deposit(slopes, to, factor * value, True)


@inlined
def _project_pair(tree, reduced, work, D, moved, s, r, out):
    """Add the contribution of entries (s, r) of D_q, D_v and H_s to all three results.

    It is added in the rows k of `columns_of` of s, times G_sk, and the columns j of `columns_of` of r.
    """
    nv, size, at, square = reduced.nv, reduced.nv * reduced.nv, D + s * tree.nv + r, tree.nv * tree.nv
    D_q, D_v, H = load(work, at), load(work, at + square), load(work, at + 2 * square)
    first, count = columns_of(tree, reduced, s)
    other, others = columns_of(tree, reduced, r)
    for j in range(others):
        slot = _moved_slot(tree, reduced, moved, r, j)
        G, along = load(work, slot + MOVED.G), load(work, slot + MOVED.along)
        in_q = D_q * G + D_v * along + H * load(work, slot + MOVED.with_acceleration)
        in_v = D_v * G + H * load(work, slot + MOVED.both)
        in_a = H * G
        for k in range(count):
            factor, to = G_entry(reduced, work, s, k), (first + k) * nv + other + j
            deposit(out, to, factor * in_q, True)
            deposit(out, size + to, factor * in_v, True)
            deposit(out, 2 * size + to, factor * in_a, True)
