"""Derivatives of the discrete momentum m = J(q0)^T p of trees, along the frame at q0 and at q1, in O(N d).

In ground axes, a twist eta of a link at q1 changes the logarithm of its displacement by dx = dtau^-1_x eta,
and its momentum by K eta. The same twist at both ends turns everything: dp = eta x* p. So a twist at q0 alone
changes p by eta x* p - K eta. With Phi at q0, the moved columns Phi' at q1, and K and p summed over the links
that the lower of the columns i and j moves,

    dm_j along X_i at q1 = Phi_j . K Phi'_i,
    dm_j along X_i at q0 = -Phi_j . K Phi_i + Phi_j . (Phi_i x* p),

where the last term is absent unless i lies behind the link of j: the columns of j move with their link, which
cancels it. The columns of a wide joint move with their own link, because derivatives are left-trivialized.
Armature adds K of a body at the joint, in its axes. K is exact here; Newton's method leaves terms out.

Source: [LLPS] for the momenta; derived here, checked by differences.
"""

from connections.engines.inlined.logarithms import logarithm_rates
from connections.engines.inlined.rows import accumulate
from connections.engines.inlined.simd import (
    beyond,
    compiled_batch_entry,
    flat_slots_of,
    inlined,
    load,
    slots_of,
    store,
    take,
)
from connections.engines.inlined.twists import add6, dot6, force_cross, motion_cross, scale6, subtract6, unit6
from connections.engines.inlined.vectors import add3, cross3, dot3, turned_by
from connections.multibody.kernels.algebra import momentum
from connections.multibody.kernels.armature import is_free
from connections.multibody.kernels.elementary_joints import is_wide
from connections.multibody.kernels.layout import DISPLACEMENT, unpack_tree
from connections.multibody.kernels.layout import STEP_COLUMN as COLUMN
from connections.multibody.kernels.layout import STEP_LINK as LINK
from connections.multibody.kernels.reading import reduce_coordinates
from connections.multibody.kernels.variational import (
    logarithm,
    move_links,
    prepare_step,
    put_column,
    put_ways,
    slope_times,
    slope_transpose_times,
)


@inlined
def put_exact_slope(work, slot, inertia, x, factors):
    """Write K (6, 6), row by row: column k is the change of p if the link's pose moves by e_k at q1.

    factors : a and b of dtau^-1 at x, and 1 / h.
    """
    a, b, by_h = factors
    w = x[0], x[1], x[2]
    a_rate, b_rate = logarithm_rates(dot3(w, w))
    y = momentum(inertia, x)
    once = force_cross(x, y)
    twice = force_cross(x, once)
    third = force_cross(x, twice)
    turn = add6(scale6(twice, 2.0 * a_rate), scale6(force_cross(x, third), 2.0 * b_rate))
    for k in range(6):
        e = unit6(k)
        moved = motion_cross(x, e)
        moved_twice = motion_cross(x, moved)
        moved_fourth = motion_cross(x, motion_cross(x, moved_twice))
        dx = add6(add6(e, scale6(moved, -0.5)), add6(scale6(moved_twice, a), scale6(moved_fourth, b)))
        z = momentum(inertia, dx)
        first = add6(force_cross(dx, y), force_cross(x, z))
        second = add6(force_cross(dx, once), force_cross(x, first))
        third_change = add6(force_cross(dx, twice), force_cross(x, second))
        fourth = add6(force_cross(dx, third), force_cross(x, third_change))
        column = add6(add6(z, scale6(first, 0.5)), add6(scale6(second, a), scale6(fourth, b)))
        column = add6(column, scale6(turn, dot3(w, (dx[0], dx[1], dx[2]))))
        column = scale6(column, by_h)
        put_column(work, slot + k, column)


@compiled_batch_entry
def momentum_derivatives_rows(memory, q0, q1, lengths, out):
    """Write dm_j along X_i at q0, [j, i], and at q1 to out (m, 2 nv^2); q0, q1 (m, nq), times (m, 1).

    The tree has one origin for each subtree. Returns whether all quaternions are units.
    """
    tree, good = unpack_tree(slots_of(memory)), True
    work = tree.work
    for row in range(q0.shape[0]):
        for i in range(tree.nq):
            store(work, i, q1[row, i])
        good &= reduce_coordinates(tree, work, work)
        for i in range(tree.nq):
            store(work, tree.scratch + i, load(work, i))
            store(work, i, q0[row, i])
        good &= reduce_coordinates(tree, work, work)
        derivatives = beyond(flat_slots_of(out), row * out.shape[1])
        momentum_derivatives(tree, work, beyond(work, tree.scratch), lengths[row, 0], derivatives)
    return good


@inlined
def momentum_derivatives(tree, work, target, h, out):
    """`momentum_derivatives_rows` of one row: from q in the workspace to q1 in slots target."""
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    prepare_step(tree, work)
    put_ways(tree, work, target)
    move_links(tree, work, h, False)
    for k in range(2 * nv * nv):
        store(out, k, 0.0)
    for i in range(1, tree.links + 1):
        slot = links + i * LINK.size
        x, a, b = logarithm(take(work, slot + LINK.turn, 4), take(work, slot + LINK.shift, 3))
        put_exact_slope(work, slot + LINK.K, take(work, slot + LINK.inertia, 10), x, (a, b, 1.0 / h))
    for i in range(tree.links, 0, -1):
        slot, first, stop = links + i * LINK.size, tree.first[i], tree.first[i + 1]
        force, K = take(work, slot + LINK.force, 6), slot + LINK.K
        for j in range(first, stop):
            Phi = take(work, columns + j * COLUMN.size, 6)
            moved = take(work, columns + j * COLUMN.size + COLUMN.moved, 6)
            here, there = slope_times(work, K, Phi), slope_times(work, K, moved)
            back = slope_transpose_times(work, K, Phi)
            behind = subtract6(force_cross(Phi, force), here)
            k = stop - 1
            while k >= 0:
                above = take(work, columns + k * COLUMN.size, 6)
                above_moved = take(work, columns + k * COLUMN.size + COLUMN.moved, 6)
                own = k >= first
                store(out, k * nv + j, -dot6(above, here) if own else dot6(above, behind))
                store(out, (nv + k) * nv + j, dot6(above, there))
                if not own:
                    store(out, j * nv + k, -dot6(back, above))
                    store(out, (nv + j) * nv + k, dot6(back, above_moved))
                k = k - 1 if k > first else tree.up[k]
        _add_armature(tree, work, i, h, out)
        if tree.parent[i] > 0:
            above = links + tree.parent[i] * LINK.size
            accumulate(work, above + LINK.force, slot + LINK.force, 6)
            accumulate(work, above + LINK.K, slot + LINK.K, 36)


@inlined
def _add_armature(tree, work, i, h, out):
    """Add the derivatives of the momenta of armature of link i."""
    nv, first, stop = tree.nv, tree.first[i], tree.first[i + 1]
    own = tree.per_link + i * LINK.size + LINK.own
    a, m = tree.armature[first], 0.0
    if not is_wide(tree.kind[i]):
        _add(out, first * nv + first, -a / h)
        _add(out, (nv + first) * nv + first, a / h)
    else:
        if is_free(tree, i):
            m = tree.armature[first + 3]
        turn, shift = take(work, own, 4), take(work, own + DISPLACEMENT.shift, 3)
        x, factor, other = logarithm(turn, shift)
        K = tree.per_link + LINK.K  # of the ground, which has none
        put_exact_slope(work, K, (m, 0.0, 0.0, 0.0, a, 0.0, 0.0, a, 0.0, a), x, (factor, other, 1.0 / h))
        for column in range(stop - first):
            e = unit6(column)
            w = turned_by(turn, (e[0], e[1], e[2]))
            u = add3(turned_by(turn, (e[3], e[4], e[5])), cross3(shift, w))
            moved = w[0], w[1], w[2], u[0], u[1], u[2]
            for row in range(stop - first):
                of = take(work, K + 6 * row, 6)
                at = (first + row) * nv + first + column
                _add(out, at, -dot6(of, e))
                _add(out, nv * nv + at, dot6(of, moved))


@inlined
def _add(out, slot, number):
    store(out, slot, load(out, slot) + number)
