"""The least C of a frame: the contorsion D = Alt Gamma* is subtracted from C* and Gamma*, Levi-Civita's.

The frame's brackets [X_j, X_k] = s^m_jk X_m are constant, and vanish unless j and k are columns of one
spherical or free link. With s_ijk = H_im s^m_jk = Gamma*_ijk - Gamma*_ikj,

    D_ijk = (s_ijk + s_jki + s_kij) / 6.

For columns of one such link, let x be its velocity as a twist in its own axes, e_k unit twists, h_i the row
H_im as a wrench, and p = sum of v_i h_i its momentum. Then a column i of any link and a column k of this one
have

    6 D_ijk v^j = -(x x* h_i)_k,        plus (x x* h_k)_i - p . (e_i x e_k) if i is of this link, too,

and D is skew. With y the link's velocity of w and r = sum of w_i h_i, the vector is

    6 D_ijk v^j w^k = (H b)_i, b = x x y in each such link,     plus (x x* r - y x* p)_i if i is of it.

The least C is C*_ik - D_ijk v^j. Among all connections with the same C v and Hdot = C + C^T,
Gamma* - D is the one with the least Gamma in the norm of any inner product, because Alt is an orthogonal
projection. Derivatives along the motion follow from bilinearity in (H, v).
"""

from connections.engines.inlined.simd import inlined, load, put, store, take
from connections.engines.inlined.twists import add6, dot6, force_cross, motion_cross, scale6, subtract6
from connections.engines.inlined.vectors import dot3, scale3
from connections.multibody.kernels.algebra import momentum
from connections.multibody.kernels.armature import component, is_free
from connections.multibody.kernels.layout import CORIOLIS_COLUMN, CORIOLIS_LINK, PRODUCT_COLUMN
from connections.multibody.kernels.layout import FORCE_LINK as LINK
from connections.multibody.kernels.origins import (
    add_wrench,
    distance_to,
    inherited,
    twist_seen,
    wrench_seen,
)
from connections.multibody.kernels.poses import joint_twist, link_inertia

# --- matrices -----------------------------------------------------------------------------------------------


@inlined
def subtract_from_matrix(tree, work, C):
    """Turn C* into the least C, with the workspace that `coriolis` left.

    (x x* h_i)_k = -f_i . (x x Phi_k), f_i = I Phi_i, with I the inertia of the subtree of column i or of the
    link, whichever is farther out. -(x x Phi_k) / 6 takes the place of the rate of the link's column k.
    """
    size = CORIOLIS_COLUMN.size
    for number in range(tree.noncommuting_count):
        link = tree.noncommuting[number]
        first = tree.first[link]
        x = joint_twist(tree, work, link, tree.per_column, size, tree.vectors)
        for k in range(first, tree.first[link + 1]):
            turned = motion_cross(x, take(work, tree.per_column + k * size, 6))
            put(work, tree.per_column + k * size + CORIOLIS_COLUMN.rate, scale6(turned, -1.0 / 6.0))
        for i in range(tree.end[first]):
            if i >= first or tree.end[i] > first:  # one is on the way from the other to the ground
                outer = link
                if i >= first:
                    outer = tree.link_of[i]
                Phi = take(work, tree.per_column + i * size, 6)
                if tree.leaping:
                    Phi = twist_seen(Phi, distance_to(tree, work, outer, tree.link_of[i]))
                force = momentum(take(work, _inertia(tree, outer), 10), Phi)
                if tree.leaping:
                    force = wrench_seen(force, distance_to(tree, work, outer, link))
                _add_row(tree, work, C, link, i, force)
        _add_momentum(tree, work, C, link)


@inlined
def _inertia(tree, link):
    """The first slot of the inertia of a link's subtree."""
    return tree.per_link + link * CORIOLIS_LINK.size + CORIOLIS_LINK.inertia


@inlined
def _add_row(tree, work, C, link, i, force):
    """Add -(x x Phi_k) . f / 6, f = `force`, to C[i, k], and subtract it from C[k, i], for the link's k."""
    nv, first, size = tree.nv, tree.first[link], CORIOLIS_COLUMN.size
    at = tree.per_column + first * size + CORIOLIS_COLUMN.rate
    _add_skew(nv, C, i, first, dot6(take(work, at, 6), force))
    _add_skew(nv, C, i, first + 1, dot6(take(work, at + size, 6), force))
    _add_skew(nv, C, i, first + 2, dot6(take(work, at + 2 * size, 6), force))
    if is_free(tree, link):  # its last three columns do not turn
        push = force[3], force[4], force[5]
        _add_skew(nv, C, i, first + 3, dot3(take(work, at + 3 * size + 3, 3), push))
        _add_skew(nv, C, i, first + 4, dot3(take(work, at + 4 * size + 3, 3), push))
        _add_skew(nv, C, i, first + 5, dot3(take(work, at + 5 * size + 3, 3), push))


@inlined
def _add_momentum(tree, work, C, link):
    """Add p . (e_i x e_k) / 6, and the terms of armature.

    The momentum of the subtree is in its body-level factor [[M, 0], [s x, 0]]: -s is the linear part, and
    -2 times the axial vector of M the angular one, by (Ibar w) x = tr(Ibar) w x - Ibar (w x) - (w x) Ibar.
    For H = diag(a, a, a, m, m, m) and the link's velocity (w, u), D v is a/2 (w x) in the angular block,
    m/3 (w x) in the linear one, and m/3 (u x) in the others.
    """
    nv, first, size = tree.nv, tree.first[link], CORIOLIS_COLUMN.size
    at, six = tree.per_column + first * size, 1.0 / 6.0
    B = take(work, tree.per_link + link * CORIOLIS_LINK.size + CORIOLIS_LINK.factor, 12)
    p = (B[5] - B[7], B[6] - B[2], B[1] - B[3], -B[9], -B[10], -B[11])
    _add_turn(nv, C, first, first, scale3(_pushed(work, at, size, p), six))
    if is_free(tree, link):
        _add_turn(nv, C, first, first + 3, scale3(_pushed(work, at + 3 * size, size, p), six))
    if tree.armed:
        w = take(work, tree.vectors + first, 3)
        _add_turn(nv, C, first, first, scale3(w, 0.5 * tree.armature[first]))
        if is_free(tree, link):
            m = tree.armature[first + 3] * (1.0 / 3.0)
            _add_turn(nv, C, first, first + 3, scale3(take(work, tree.vectors + first + 3, 3), m))
            _add_turn(nv, C, first + 3, first + 3, scale3(w, m))


@inlined
def _pushed(work, columns, size, force):
    """The products of a wrench with three columns, `size` slots apart."""
    return (
        dot6(take(work, columns, 6), force),
        dot6(take(work, columns + size, 6), force),
        dot6(take(work, columns + 2 * size, 6), force),
    )


@inlined
def _add_turn(nv, C, rows, columns, x):
    """Add -(x x) to the 3 x 3 blocks of C at (rows, columns) and (columns, rows), once if they are one."""
    for i in range(3):
        k = (i + 1) % 3
        value = x[2]
        if i == 1:
            value = x[0]
        elif i == 2:
            value = x[1]
        _add_skew(nv, C, rows + i, columns + k, value)
        if rows != columns:
            _add_skew(nv, C, rows + k, columns + i, -value)


@inlined
def subtract_by_rows(nv, up, columns, work, given, zero, C):
    """Subtract D_ijk x^j from C for one spherical or free link, with any symmetric matrix H in D.

    up : the next column on the way to the ground, for each column.
    columns : the first column of the link, and the number of its columns.
    given : first slots of H and of x in the workspace.
    """
    (first, count), (H, vector) = columns, given
    x = local_twist(work, vector + first, 1, count, zero)
    p = (zero, zero, zero, zero, zero, zero)
    for i in range(nv):
        near, far = min(i, first), max(i, first)
        while far > near:
            far = up[far]
        if far == near:  # one is on the way from the other to the ground
            h = local_twist(work, H + first * nv + i, nv, count, zero)
            _subtract_row(nv, C, first, count, i, x, h)
            p = add6(p, scale6(h, load(work, vector + i)))
    _add_turn(nv, C, first, first, scale3((p[0], p[1], p[2]), 1.0 / 6.0))
    if count > 3:
        _add_turn(nv, C, first, first + 3, scale3((p[3], p[4], p[5]), 1.0 / 6.0))


@inlined
def _subtract_row(nv, C, first, count, i, x, h):
    """Subtract -(x x* h)_k / 6 from C[i, first + k], and add it to C[first + k, i]."""
    row = scale6(force_cross(x, h), 1.0 / 6.0)
    _add_skew(nv, C, i, first, row[0])
    _add_skew(nv, C, i, first + 1, row[1])
    _add_skew(nv, C, i, first + 2, row[2])
    if count > 3:
        _add_skew(nv, C, i, first + 3, row[3])
        _add_skew(nv, C, i, first + 4, row[4])
        _add_skew(nv, C, i, first + 5, row[5])


@inlined
def _add_skew(nv, C, i, k, value):
    """Add `value` to C[i, k], and subtract it from C[k, i]."""
    store(C, i * nv + k, load(C, i * nv + k) + value)
    store(C, k * nv + i, load(C, k * nv + i) - value)


@inlined
def local_twist(work, slot, stride, count, zero):
    """The three or six components of a link, `stride` slots apart, as a twist or wrench in its axes."""
    w = load(work, slot), load(work, slot + stride), load(work, slot + 2 * stride)
    u = zero, zero, zero
    if count == 6:
        u = load(work, slot + 3 * stride), load(work, slot + 4 * stride), load(work, slot + 5 * stride)
    return (*w, *u)


# --- products -----------------------------------------------------------------------------------------------


@inlined
def subtract_from_product(tree, work, sign, product):
    """Subtract `sign` times D_ijk v^j w^k from slots product[i]; the sign is 1 for C w and -1 for C^T w.

    The workspace has twists and columns as the products of `newton_euler` left them.
    """
    links, columns = tree.per_link, tree.per_column
    put(work, links + LINK.rate, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        slot = links + i * LINK.size
        bracket = inherited(tree, work, i, links + tree.parent[i] * LINK.size + LINK.rate)
        if tree.first[i + 1] - tree.first[i] > 1:
            x = joint_twist(tree, work, i, columns, PRODUCT_COLUMN.size, tree.vectors)
            y = joint_twist(tree, work, i, columns, PRODUCT_COLUMN.size, tree.vectors + tree.nv)
            bracket = add6(bracket, motion_cross(x, y))
        inertia = link_inertia(tree, work, i)
        put(work, slot + LINK.rate, bracket)
        put(work, slot + LINK.force, momentum(inertia, bracket))
        put(work, slot, momentum(inertia, take(work, slot, 6)))
        put(work, slot + LINK.second, momentum(inertia, take(work, slot + LINK.second, 6)))
    factor = sign * (1.0 / 6.0)
    for i in range(tree.links, 0, -1):
        slot = links + i * LINK.size
        force = take(work, slot + LINK.force, 6)
        if tree.first[i + 1] - tree.first[i] > 1:
            x = joint_twist(tree, work, i, columns, PRODUCT_COLUMN.size, tree.vectors)
            y = joint_twist(tree, work, i, columns, PRODUCT_COLUMN.size, tree.vectors + tree.nv)
            moved = force_cross(x, take(work, slot + LINK.second, 6))
            force = add6(force, subtract6(moved, force_cross(y, take(work, slot, 6))))
        for j in range(tree.first[i], tree.first[i + 1]):
            value = dot6(take(work, columns + j * PRODUCT_COLUMN.size, 6), force) * factor
            store(product, j, load(product, j) - value)
        add_wrench(tree, work, i, links, LINK.size, LINK.force)
        add_wrench(tree, work, i, links, LINK.size, 0)
        add_wrench(tree, work, i, links, LINK.size, LINK.second)
    if tree.armed:
        for number in range(tree.noncommuting_count):
            _subtract_armature(tree, work, tree.noncommuting[number], factor, product)


@inlined
def _subtract_armature(tree, work, link, factor, product):
    """Subtract `factor` times the terms of armature, H = diag(a, a, a, m, m, m), of one link."""
    first, zero = tree.first[link], load(work, tree.poses + 1)
    count = tree.first[link + 1] - first
    x = local_twist(work, tree.vectors + first, 1, count, zero)
    y = local_twist(work, tree.vectors + tree.nv + first, 1, count, zero)
    force = _armature_times(tree, link, motion_cross(x, y))
    subtract_local(product, first, count, factor, add6(force, vector_terms(tree, link, x, y)))


@inlined
def _armature_times(tree, link, x):
    """The wrench H x of a link's armature, H = diag(a, a, a, m, m, m)."""
    first, m = tree.first[link], 0.0
    if is_free(tree, link):
        m = tree.armature[first + 3]
    return (*scale3((x[0], x[1], x[2]), tree.armature[first]), *scale3((x[3], x[4], x[5]), m))


@inlined
def vector_terms(tree, link, x, y):
    """The wrench x x* r - y x* p of a link's armature, r = H y, p = H x."""
    moved = force_cross(x, _armature_times(tree, link, y))
    return subtract6(moved, force_cross(y, _armature_times(tree, link, x)))


@inlined
def subtract_local(product, first, count, factor, x):
    """Subtract `factor` times the components of a wrench in a link's axes from slots product[first + k]."""
    for k in range(count):
        store(product, first + k, load(product, first + k) - component(x, k) * factor)


# --- symbols ------------------------------------------------------------------------------------------------


@inlined
def subtract_from_symbols(nv, up, columns, Gamma, stride):
    """Subtract D from Gamma of the Levi-Civita connection, for one spherical or free link.

    Every symbol has to be stored, also those that follow from others by symmetry. Arguments as in
    `subtract_by_rows`; entries are `stride` slots apart. This holds for derivatives of Gamma along the frame,
    too, as the brackets are constant.
    """
    first, count = columns
    for j in range(first, first + count):
        for k in range(j + 1, first + count):
            for i in range(nv):
                if i < first or i > k:
                    near, far = min(i, first), max(i, first)
                    while far > near:
                        far = up[far]
                    if far == near:
                        _alternate(nv, Gamma, i, j, k, stride, i >= first + count or i < first)


@inlined
def _alternate(nv, Gamma, i, j, k, stride, outside):
    """Subtract Alt Gamma in columns i, j, k, of which j and k are of one link, and i is not if `outside`."""
    D = _lowered(nv, Gamma, i, j, k, stride)
    if not outside:
        D = D + _lowered(nv, Gamma, j, k, i, stride) + _lowered(nv, Gamma, k, i, j, stride)
    subtract_antisymmetric(Gamma, nv, (i, j, k), D * (1.0 / 6.0), stride)


@inlined
def _lowered(nv, Gamma, i, j, k, stride):
    """s_ijk = Gamma_ijk - Gamma_ikj."""
    there = load(Gamma, ((i * nv + j) * nv + k) * stride)
    return there - load(Gamma, ((i * nv + k) * nv + j) * stride)


@inlined
def subtract_antisymmetric(Gamma, nv, columns, D, stride):
    """Subtract a totally antisymmetric tensor from the six entries of Gamma with three different indices.

    D is the tensor's component with the indices `columns`; entries of Gamma are `stride` slots apart.
    """
    i, j, k = columns
    _add(Gamma, ((i * nv + j) * nv + k) * stride, -D)
    _add(Gamma, ((j * nv + k) * nv + i) * stride, -D)
    _add(Gamma, ((k * nv + i) * nv + j) * stride, -D)
    _add(Gamma, ((i * nv + k) * nv + j) * stride, D)
    _add(Gamma, ((k * nv + j) * nv + i) * stride, D)
    _add(Gamma, ((j * nv + i) * nv + k) * stride, D)


@inlined
def _add(Gamma, slot, number):
    store(Gamma, slot, load(Gamma, slot) + number)
