"""Variational steps of trees in O(N): momenta of bodies, gathered, and Newton's method by a recursion.

In a step the link l moves by g_l, x = log g_l, all in ground axes about the origin of its group. With
V = x / h, dtau^-1_x = 1 - ad/2 + a ad^2 + b ad^4, and the discrete Lagrangian (h/2) (sum V . I V - U - U'),

    p_l = (dtau^-1_x)^T I V,      J(q_k)^T p = P_k + (h/2) (tau_k - g_k),
    P_{k+1} = J(q_{k+1})^T p + (h/2) (tau_{k+1} - g_{k+1}).

In ground axes about an origin that stays, J(q_{k+1})^T takes the same p, because bodies without forces keep
their spatial momentum. The displacement of a link is that of its parent, followed by that of its own joint;
with quaternions, whose vector part is as small as the turn, nothing cancels, however small steps are.

Newton's matrix is sum J(q_k)^T K J(q_{k+1}), K = (d p / d x) dtau^-1_x: not symmetric, but as sparse as H.
Columns are eliminated one at a time, as in `articulated`, with the columns Phi at q_k on the left and the
moved ones Phi' on the right:

    U = K Phi',  W = K^T Phi,  d = Phi . U,   K <- K - U W^T / d,   bias <- bias + U u / d.

Terms of fourth order in x are left out of K, not of p. The momentum of a free base is not read from the
equations, which hold as far as Newton's method is followed: it is what the base sees of its spatial momentum.

The equations see angles up to whole turns, so that a long step has other solutions, far off. A step is the
one that goes on from where the search begins: no joint's angle changes by half a turn, no body turns by half
a turn, and Newton's method contracts. With two of its steps, a and b, |b| <= w |a|^2 / 2, and by
Kantorovich's theorem there is one solution near the beginning if w |a| <= 1/2; so |b| > |a| / 4 says that
there may be none, or several. Source: [LLPS], with [W] VI-B in one frame; [MW] section 3; [D] section 2.1.
"""

import math

from connections.engines.inlined.logarithms import logarithm_coefficients
from connections.engines.inlined.rows import accumulate, clear
from connections.engines.inlined.simd import (
    beyond,
    compiled_batch_entry,
    flat_slots_of,
    inlined,
    load,
    put,
    slots_of,
    store,
    take,
)
from connections.engines.inlined.twists import add6, dot6, force_cross, motion_cross, scale6, subtract6, unit6
from connections.engines.inlined.vectors import (
    add3,
    cross3,
    dot3,
    normalize,
    quaternion_product,
    rotate_columns,
    scale3,
    subtract3,
    turned_by,
    turned_off,
    vector_of,
)
from connections.multibody.kernels.algebra import momentum
from connections.multibody.kernels.armature import component, is_free
from connections.multibody.kernels.elementary_joints import (
    displace_coordinates,
    displace_further,
    displacement_velocities,
    is_wide,
    put_displacement,
    put_way,
    turn_of_displacement,
)
from connections.multibody.kernels.layout import APART, DISPLACEMENT, KEPT, PARAMETERS, POSE, unpack_tree
from connections.multibody.kernels.layout import STEP_COLUMN as COLUMN
from connections.multibody.kernels.layout import STEP_LINK as LINK
from connections.multibody.kernels.newton_euler import mass_product
from connections.multibody.kernels.origins import add_wrench, inherited, leap
from connections.multibody.kernels.poses import (
    link_inertia,
    place_links,
    store_columns,
    way_from_root,
    world_shift,
)
from connections.multibody.kernels.reading import is_unit, reduce_coordinates

MOST_ITERATIONS = 30
CLOSE = 1e-28  # the energy of the error that is left, over the kinetic energy; its root is relative to V
SLOW = 1e-9  # if more of the error's energy is left by a step, the next one has a matrix of its own
LEFT_OUT = 1 / 90  # of the largest turn's fourth power: bounds what K leaves out, relative to it
AWAY, LARGE = 1 / 16, 1e-3  # the error's energy that a step of a search near its solution leaves; over this
UNSOLVED, TURNED = 1.0, 2.0  # as in `coriolis.variational`


@inlined
def logarithm(turn, shift):
    """[omega; v] of a displacement, and a and b of dtau^-1 there."""
    w = vector_of(turn)
    c, a, b = logarithm_coefficients(dot3(w, w))
    once = cross3(w, shift)
    v = add3(subtract3(shift, scale3(once, 0.5)), scale3(cross3(w, once), c))
    return (*w, *v), a, b


@inlined
def discrete_momentum_of(x, y, a, b):
    """(dtau^-1_x)^T y."""
    once = force_cross(x, y)
    twice = force_cross(x, once)
    fourth = force_cross(x, force_cross(x, twice))
    return add6(add6(y, scale6(once, 0.5)), add6(scale6(twice, a), scale6(fourth, b)))


@inlined
def prepare_step(tree, work):
    """Columns and inertias at q_k, and the weights of the subtrees."""
    place_links(tree, work)
    links, k = tree.per_link, tree.parameters
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, tree.per_column, COLUMN.size)
        inertia = link_inertia(tree, work, i)
        put(work, links + i * LINK.size + LINK.inertia, inertia)
        first_moment = inertia[1], inertia[2], inertia[3]
        put(work, links + i * LINK.size + LINK.weight, _weight(k, inertia[0], first_moment))
    for i in range(tree.links, 0, -1):
        add_wrench(tree, work, i, links, LINK.size, LINK.weight)


@inlined
def _weight(k, m, h):
    """-(h x g, m g)."""
    g = k[0], k[1], k[2]
    return (*cross3(g, h), -m * g[0], -m * g[1], -m * g[2])


@inlined
def move_links(tree, work, h, sloped):
    """Displacements, moved columns and momenta of all links; with K of Newton's method if `sloped`.

    Returns twice the kinetic energy.
    """
    links, energy = tree.per_link, 0.0
    put(work, links + LINK.turn, (0.0, 0.0, 0.0, 1.0))
    put(work, links + LINK.shift, (0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        slot = links + i * LINK.size
        turn, shift = _displacement(tree, work, i)
        put(work, slot + LINK.turn, turn)
        put(work, slot + LINK.shift, shift)
        x, a, b = logarithm(turn, shift)
        inertia = take(work, slot + LINK.inertia, 10)
        y = momentum(inertia, x)
        p = scale6(discrete_momentum_of(x, y, a, b), 1.0 / h)
        put(work, slot + LINK.force, p)
        energy += dot6(p, x)
        for j in range(tree.first[i], tree.first[i + 1]):
            at = tree.per_column + j * COLUMN.size
            Phi = take(work, at, 6)
            w = turned_by(turn, (Phi[0], Phi[1], Phi[2]))
            u = add3(turned_by(turn, (Phi[3], Phi[4], Phi[5])), cross3(shift, w))
            put(work, at + COLUMN.moved, (*w, *u))
        put(work, slot + LINK.bias, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
        if sloped:
            _put_slope(work, slot + LINK.K, inertia, x, y, (a, 1.0 / h))
    return energy / h


@inlined
def _displacement(tree, work, i):
    """The displacement of link i, the parent's followed by the joint's, seen from its group's origin."""
    slot = tree.per_link + i * LINK.size
    above = tree.per_link + tree.parent[i] * LINK.size
    turn, shift = take(work, above + LINK.turn, 4), take(work, above + LINK.shift, 3)
    if tree.begins[i]:
        shift = add3(shift, turned_off(turn, leap(tree, work, i)))
    R = take(work, tree.poses + i * POSE.size, 9)
    o = take(work, tree.poses + i * POSE.size + POSE.position, 3)
    e = take(work, slot + LINK.own, 4)
    own = (*rotate_columns(R, (e[0], e[1], e[2])), e[3])
    moved = rotate_columns(R, take(work, slot + LINK.own + DISPLACEMENT.shift, 3))
    moved = subtract3(moved, turned_off(own, o))
    return quaternion_product(turn, own), add3(shift, turned_by(turn, moved))


@inlined
def _put_slope(work, slot, inertia, x, y, numbers):
    """Write K (6, 6), row by row: column k is the change of p along dtau^-1_x e_k."""
    a, by_h = numbers
    once = force_cross(x, y)
    for k in range(6):
        e = unit6(k)
        turned = motion_cross(x, e)
        dx = add6(e, add6(scale6(turned, -0.5), scale6(motion_cross(x, turned), a)))
        z = momentum(inertia, dx)
        first = add6(force_cross(dx, y), force_cross(x, z))
        second = add6(force_cross(dx, once), force_cross(x, first))
        column = scale6(add6(z, add6(scale6(first, 0.5), scale6(second, a))), by_h)
        put_column(work, slot + k, column)


@inlined
def put_column(work, slot, x):
    """Write a column of a matrix (6, 6) that is stored row by row; its first entry is in `slot`."""
    store(work, slot, x[0])
    store(work, slot + 6, x[1])
    store(work, slot + 12, x[2])
    store(work, slot + 18, x[3])
    store(work, slot + 24, x[4])
    store(work, slot + 30, x[5])


@inlined
def newton_step(tree, work, h, sloped):
    """Move the joints' displacements by a step of Newton's method. Returns its decrement, an energy.

    Its matrix is eliminated if `sloped`; otherwise it is that of an earlier step.
    """
    links, columns, decrement = tree.per_link, tree.per_column, 0.0
    for i in range(tree.links, 0, -1):
        slot = links + i * LINK.size
        force, K = take(work, slot + LINK.force, 6), slot + LINK.K
        for j in range(tree.first[i + 1] - 1, tree.first[i] - 1, -1):
            at = columns + j * COLUMN.size
            Phi, moved = take(work, at, 6), take(work, at + COLUMN.moved, 6)
            residual = dot6(Phi, force) + load(work, at + COLUMN.change) - load(work, at + COLUMN.target)
            if sloped:
                U, W = slope_times(work, K, moved), slope_transpose_times(work, K, Phi)
                inverse = 1.0 / (dot6(Phi, U) + tree.armature[j] / h)
                U = scale6(U, inverse)
                put(work, at + COLUMN.U, U)
                put(work, at + COLUMN.W, W)
                store(work, at + COLUMN.inverse, inverse)
                _subtract_product(work, K, U, W)
            bias = take(work, slot + LINK.bias, 6)
            u = -residual - dot6(Phi, bias)
            store(work, at + COLUMN.u, u)
            store(work, at + COLUMN.change, residual)
            put(work, slot + LINK.bias, add6(bias, scale6(take(work, at + COLUMN.U, 6), u)))
        add_wrench(tree, work, i, links, LINK.size, LINK.force)
        add_wrench(tree, work, i, links, LINK.size, LINK.bias)
        if sloped:
            _add_square(tree, work, i)
    put(work, links + LINK.change, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        change = inherited(tree, work, i, links + tree.parent[i] * LINK.size + LINK.change)
        for j in range(tree.first[i], tree.first[i + 1]):
            at = columns + j * COLUMN.size
            W = take(work, at + COLUMN.W, 6)
            way = (load(work, at + COLUMN.u) - dot6(W, change)) * load(work, at + COLUMN.inverse)
            change = add6(change, scale6(take(work, at + COLUMN.moved, 6), way))
            decrement -= way * load(work, at + COLUMN.change)
            store(work, tree.pivots + j, way)
        put(work, links + i * LINK.size + LINK.change, change)
        own, way = beyond(work, links + i * LINK.size + LINK.own), beyond(work, tree.pivots + tree.first[i])
        displace_further(tree.kind[i], beyond(tree.parameters, i * PARAMETERS.size), way, own)
    return decrement / h


@inlined
def slope_times(work, K, x):
    """K x for the matrix (6, 6) in slots K."""
    return (
        dot6(take(work, K, 6), x),
        dot6(take(work, K + 6, 6), x),
        dot6(take(work, K + 12, 6), x),
        dot6(take(work, K + 18, 6), x),
        dot6(take(work, K + 24, 6), x),
        dot6(take(work, K + 30, 6), x),
    )


@inlined
def slope_transpose_times(work, K, x):
    """K^T x."""
    first = add6(scale6(take(work, K, 6), x[0]), scale6(take(work, K + 6, 6), x[1]))
    second = add6(scale6(take(work, K + 12, 6), x[2]), scale6(take(work, K + 18, 6), x[3]))
    third = add6(scale6(take(work, K + 24, 6), x[4]), scale6(take(work, K + 30, 6), x[5]))
    return add6(add6(first, second), third)


@inlined
def _subtract_product(work, K, U, W):
    """K <- K - U W^T."""
    put(work, K, subtract6(take(work, K, 6), scale6(W, U[0])))
    put(work, K + 6, subtract6(take(work, K + 6, 6), scale6(W, U[1])))
    put(work, K + 12, subtract6(take(work, K + 12, 6), scale6(W, U[2])))
    put(work, K + 18, subtract6(take(work, K + 18, 6), scale6(W, U[3])))
    put(work, K + 24, subtract6(take(work, K + 24, 6), scale6(W, U[4])))
    put(work, K + 30, subtract6(take(work, K + 30, 6), scale6(W, U[5])))


@inlined
def _add_square(tree, work, i):
    """Add K of link i to that of its parent: S^T K S with S x = (w, u + w x d), where a group begins."""
    if tree.parent[i] > 0:
        own = tree.per_link + i * LINK.size + LINK.K
        above = tree.per_link + tree.parent[i] * LINK.size + LINK.K
        if tree.begins[i]:
            d = leap(tree, work, i)
            for row in range(6):
                a, b = take(work, own + 6 * row, 3), take(work, own + 6 * row + 3, 3)
                put(work, own + 6 * row, add3(a, cross3(d, b)))
            for column in range(6):
                at = own + column
                f = load(work, at + 18), load(work, at + 24), load(work, at + 30)
                turned = cross3(d, f)
                for row in range(3):
                    store(work, at + 6 * row, load(work, at + 6 * row) + component3(turned, row))
        accumulate(work, above, own, 36)


@inlined
def component3(x, k):
    """Component k of three numbers."""
    value = x[2]
    if k == 0:
        value = x[0]
    elif k == 1:
        value = x[1]
    return value


@inlined
def armature_momenta(tree, work, h):
    """Write the momenta of armature at q_k, of the joints' own displacements, to `COLUMN.change`."""
    for i in range(1, tree.links + 1):
        first, own = tree.first[i], tree.per_link + i * LINK.size + LINK.own
        at = tree.per_column + first * COLUMN.size + COLUMN.change
        if is_wide(tree.kind[i]):
            p = _armature_momentum(tree, work, i, h)
            for j in range(tree.first[i + 1] - first):
                store(work, at + j * COLUMN.size, component(p, j))
        else:
            store(work, at, tree.armature[first] * load(work, own + DISPLACEMENT.way) / h)


@inlined
def _armature_momentum(tree, work, i, h):
    """The armature's momentum in a spherical or free joint, as of a body of inertia a 1 and mass m."""
    first, own = tree.first[i], tree.per_link + i * LINK.size + LINK.own
    a, m = tree.armature[first], 0.0
    if is_free(tree, i):
        m = tree.armature[first + 3]
    shift = take(work, own + DISPLACEMENT.shift, 3)
    x, first_factor, second_factor = logarithm(take(work, own, 4), shift)
    y = x[0] * a, x[1] * a, x[2] * a, x[3] * m, x[4] * m, x[5] * m
    return scale6(discrete_momentum_of(x, y, first_factor, second_factor), 1.0 / h)


@inlined
def carried(turn, shift, p):
    """Ad_E^T p for a displacement E: the wrench p of its beginning, in the axes of its end."""
    back = -turn[0], -turn[1], -turn[2], turn[3]
    n, f = (p[0], p[1], p[2]), (p[3], p[4], p[5])
    return (*turned_by(back, subtract3(n, cross3(shift, f))), *turned_by(back, f))


@inlined
def end_step(tree, work, h, state, momenta, kinds):
    """Write q_{k+1} and P_{k+1} to `state`, after `move_links`.

    momenta : slots of the spatial momenta of free bases, as `begin_momenta`.
    kinds : as `is_base`.
    """
    links, k, P = tree.per_link, tree.parameters, tree.vectors
    for i in range(1, tree.links + 1):
        slot = links + i * LINK.size
        turn, shift = take(work, slot + LINK.turn, 4), take(work, slot + LINK.shift, 3)
        inertia = take(work, slot + LINK.inertia, 10)
        moved = add3(turned_by(turn, (inertia[1], inertia[2], inertia[3])), scale3(shift, inertia[0]))
        put(work, slot + LINK.weight, _weight(k, inertia[0], moved))
        displace_coordinates(tree.kind[i], beyond(state, tree.coordinate[i]), beyond(work, slot + LINK.own))
    for i in range(tree.links, 0, -1):
        slot = links + i * LINK.size
        force, weight = take(work, slot + LINK.force, 6), take(work, slot + LINK.weight, 6)
        first, wide = tree.first[i], is_wide(tree.kind[i])
        turn, shift = take(work, slot + LINK.own, 4), take(work, slot + LINK.own + 4, 3)
        arm = carried(turn, shift, _changes(tree, work, i)) if wide else force
        base = is_base(tree, kinds, i)
        if base:
            q, other = beyond(work, tree.coordinate[i]), beyond(state, tree.coordinate[i])
            own, reference = beyond(momenta, first), beyond(momenta, tree.nv + first)
            _push(tree, work, i, 0.5 * h, (q, own, reference))
            arm = _seen_from_base(other, own, reference)
        for j in range(first, tree.first[i + 1]):
            at = tree.per_column + j * COLUMN.size
            moved = take(work, at + COLUMN.moved, 6)
            p = component(arm, j - first) if wide else load(work, at + COLUMN.change)
            if not base:
                p += dot6(moved, force)
            outer = load(work, P + 2 * tree.nv + j) - dot6(moved, weight)
            store(work, at + COLUMN.outer, outer)
            store(state, tree.nq + j, p + 0.5 * h * outer)
        if base:
            _push(tree, work, i, 0.5 * h, (other, own, reference))
        add_wrench(tree, work, i, links, LINK.size, LINK.force)
        add_wrench(tree, work, i, links, LINK.size, LINK.weight)


@inlined
def excess_turn(tree, work):
    """A number that is negative unless a link, or the angle of a joint, turns by half a turn or more.

    It is for what `move_links` has left.
    """
    excess = -1.0
    for i in range(1, tree.links + 1):
        slot = tree.per_link + i * LINK.size
        angle = turn_of_displacement(tree.kind[i], beyond(work, slot + LINK.own))
        excess = max(max(excess, -load(work, slot + LINK.turn + 3)), angle - math.pi)
    return excess


@inlined
def _changes(tree, work, i):
    """The momentum of armature of a spherical or free joint, as a wrench; after `armature_momenta`."""
    at, size = tree.per_column + tree.first[i] * COLUMN.size + COLUMN.change, COLUMN.size
    n = load(work, at), load(work, at + size), load(work, at + 2 * size)
    zero = n[0] - n[0]
    f = zero, zero, zero
    if is_free(tree, i):
        f = load(work, at + 3 * size), load(work, at + 4 * size), load(work, at + 5 * size)
    return (*n, *f)


@inlined
def is_base(tree, kinds, i):
    """Whether a link moves freely on the ground.

    kinds : of the joints; where a loop holds a free joint, it is not named as free.
    """
    return is_wide(kinds[i]) and is_free(tree, i) and tree.parent[i] == 0


@inlined
def begin_momenta(tree, state, momenta, kinds):
    """Write the spatial momentum of each free base to slots momenta[j] of its columns.

    It is about the base's position, in the axes of its joint, which slots momenta[nv + j] are to remember.
    As long as nothing pushes a robot, this number stays, and P is what the base sees of it.
    """
    for i in range(1, tree.links + 1):
        if is_base(tree, kinds, i):
            q, first = beyond(state, tree.coordinate[i]), tree.first[i]
            put(momenta, tree.nv + first, take(q, 0, 3))
            turn, P = take(q, 3, 4), beyond(state, tree.nq + first)
            put(momenta, first, (*turned_by(turn, take(P, 0, 3)), *turned_by(turn, take(P, 3, 3))))


@inlined
def _push(tree, work, i, duration, where):
    """Add `duration` times the outer forces on a free base at q to its spatial momentum."""
    q, own, reference = where
    at, size = tree.per_column + tree.first[i] * COLUMN.size + COLUMN.outer, COLUMN.size
    n = load(work, at), load(work, at + size), load(work, at + 2 * size)
    f = load(work, at + 3 * size), load(work, at + 4 * size), load(work, at + 5 * size)
    turn = take(q, 3, 4)
    n, f = scale3(turned_by(turn, n), duration), scale3(turned_by(turn, f), duration)
    n = add3(n, cross3(subtract3(take(q, 0, 3), take(reference, 0, 3)), f))
    put(own, 0, (*add3(take(own, 0, 3), n), *add3(take(own, 3, 3), f)))


@inlined
def _seen_from_base(q, own, reference):
    """The momentum of a free base at q, in its axes, of its spatial momentum."""
    a, b, c, w = take(q, 3, 4)
    f = take(own, 3, 3)
    n = subtract3(take(own, 0, 3), cross3(subtract3(take(q, 0, 3), take(reference, 0, 3)), f))
    return (*turned_by((-a, -b, -c, w), n), *turned_by((-a, -b, -c, w), f))


@inlined
def begin_step(tree, work, kick, h, velocities):
    """Set targets, and the joints' displacements by h times the guessed velocities, slots velocities[j]."""
    P = tree.vectors
    for i in range(1, tree.links + 1):
        weight = take(work, tree.per_link + i * LINK.size + LINK.weight, 6)
        for j in range(tree.first[i], tree.first[i + 1]):
            at = tree.per_column + j * COLUMN.size
            outer = load(work, P + tree.nv + j) - dot6(take(work, at, 6), weight)
            store(work, at + COLUMN.outer, outer)
            store(work, at + COLUMN.target, load(work, P + j) + kick * outer)
            store(work, tree.pivots + j, h * velocities[j])
        own = beyond(work, tree.per_link + i * LINK.size + LINK.own)
        constants = beyond(tree.parameters, i * PARAMETERS.size)
        put_displacement(tree.kind[i], constants, beyond(work, tree.pivots + tree.first[i]), own)


@inlined
def step(tree, work, h, state, velocities, count, iterations):
    """A step from q, P in `state` and the workspace, or what else `count` asks for (`variational_rows`).

    iterations : the slot that counts them. Returns 0, `UNSOLVED` or `TURNED`; then `state` is undefined.
    """
    nv, stepping, kick = tree.nv, count > 0, 0.0
    prepare_step(tree, work)
    clear(work, tree.scratch, nv)
    if stepping:
        kick = 0.5 * h
        predict(work, tree.scratch, nv, h, velocities)
    begin_step(tree, work, kick, h, beyond(work, tree.scratch))
    if count < 0:
        put_ways(tree, work, velocities)
    more, sloped, done, last = count >= 0, True, 0, 0.0
    while True:
        armature_momenta(tree, work, h)
        energy = abs(move_links(tree, work, h, sloped))
        if not more:
            break
        decrement = abs(newton_step(tree, work, h, sloped))
        # How much of the error is left, and what the next step leaves: it is squared, but for what K leaves
        # out; with a matrix of an earlier step it falls as before.
        left = decrement / (last if done > 0 else energy) if decrement > 0.0 else 0.0
        least = (LEFT_OUT * widest_turn(tree, work) ** 2) ** 2
        further = max(left, least)
        if done > 0:
            further = min(left, max(left**2, least)) if sloped else left
        sloped, last, done = left > SLOW, decrement, done + 1
        more = decrement * further > CLOSE * energy and stepping
        away = done > 1 and left > AWAY and decrement > LARGE * energy
        if not (decrement < math.inf) or (more and done == MOST_ITERATIONS) or away:
            return UNSOLVED
        if not stepping:
            break
    result = 0.0
    if stepping:
        store(iterations, 0, load(iterations, 0) + done)
        if not (excess_turn(tree, work) < 0.0):
            return TURNED
        end_step(tree, work, h, state, beyond(velocities, KEPT * nv), tree.kind)
        read_velocities(tree, work, tree.scratch)
        remember(work, tree.scratch, nv, h, velocities)
    elif count == 0:
        for j in range(nv):
            store(velocities, j, load(work, tree.pivots + j))
        store(iterations, 0, potential_energy(tree, work))
    else:
        gather(tree, work, beyond(state, tree.nq))
        slope_product(tree, work, h, tree.vectors + nv, velocities)
        weights(tree, work, beyond(velocities, nv))
        store(iterations, 0, potential_energy(tree, work))
        if not (excess_turn(tree, work) < 0.0):
            result = TURNED
    return result


@inlined
def put_ways(tree, work, target):
    """Write the joints' displacements from q in the workspace to the configuration in slots `target`."""
    for i in range(1, tree.links + 1):
        own, constants = tree.per_link + i * LINK.size + LINK.own, i * PARAMETERS.size
        q, other = beyond(work, tree.coordinate[i]), beyond(target, tree.coordinate[i])
        put_way(tree.kind[i], beyond(tree.parameters, constants), q, other, beyond(work, own))


@inlined
def predict(work, sums, nv, h, history):
    """Extrapolate the velocities (nv,) of the last steps to the middle of one of length h, slots sums[j].

    By Newton's polynomial through at most `KEPT` of them: of each column until its terms become larger.
    Behind these slots, 3 nv others are used.
    """
    ago, reach, good, terms = (KEPT + 2) * nv, 1.0, True, sums + nv
    last, before = sums + 2 * nv, sums + 3 * nv  # sizes of terms; -1 at the end
    for j in range(nv):
        store(work, sums + j, history[j])
        store(work, last + j, math.inf)
    for degree in range(1, KEPT):
        for k in range(degree):
            good &= abs(history[ago + degree] - history[ago + k]) > APART * abs(h)
        good &= degree < history[ago + KEPT]
        if good:
            reach *= 0.5 * h + history[ago + degree - 1]
            clear(work, terms, nv)
            for i in range(degree + 1):
                weight = reach
                for k in range(degree + 1):
                    if k != i:
                        weight /= history[ago + k] - history[ago + i]
                for j in range(nv):
                    store(work, terms + j, load(work, terms + j) + weight * history[i * nv + j])
            for j in range(nv):
                term, most = load(work, terms + j), load(work, last + j)
                if degree > 1:
                    most = max(most, load(work, before + j)) if most >= 0.0 else most
                store(work, before + j, load(work, last + j))
                if abs(term) <= most:
                    store(work, sums + j, load(work, sums + j) + term)
                    store(work, last + j, abs(term))
                else:
                    store(work, last + j, -1.0)


@inlined
def read_velocities(tree, work, velocities):
    """Write the velocities of which the joints' displacements are made, for a unit of time, to slots."""
    for i in range(1, tree.links + 1):
        own = beyond(work, tree.per_link + i * LINK.size + LINK.own)
        displacement_velocities(tree.kind[i], own, beyond(work, velocities + tree.first[i]))


@inlined
def remember(work, ways, nv, h, history):
    """Put the velocities of the step that was made, slots ways[j] over h, before those of the last ones."""
    ago = (KEPT + 2) * nv
    for i in range(KEPT - 1, 0, -1):
        for j in range(nv):
            store(history, i * nv + j, history[(i - 1) * nv + j])
        store(history, ago + i, history[ago + i - 1] + h)
    for j in range(nv):
        store(history, j, load(work, ways + j) / h)
    store(history, ago, 0.5 * h)
    store(history, ago + KEPT, min(history[ago + KEPT] + 1.0, float(KEPT)))


@inlined
def gather(tree, work, p):
    """J(q_k)^T of the momenta, after `move_links`, slots p[j]."""
    for i in range(tree.links, 0, -1):
        force = take(work, tree.per_link + i * LINK.size + LINK.force, 6)
        for j in range(tree.first[i], tree.first[i + 1]):
            at = tree.per_column + j * COLUMN.size
            store(p, j, dot6(take(work, at, 6), force) + load(work, at + COLUMN.change))
        add_wrench(tree, work, i, tree.per_link, LINK.size, LINK.force)


@inlined
def weights(tree, work, g):
    """Gravity at q_k, slots g[j], after `prepare_step`."""
    for i in range(1, tree.links + 1):
        weight = take(work, tree.per_link + i * LINK.size + LINK.weight, 6)
        for j in range(tree.first[i], tree.first[i + 1]):
            store(g, j, dot6(take(work, tree.per_column + j * COLUMN.size, 6), weight))


@inlined
def widest_turn(tree, work):
    """The square of the largest turn, or a little more, after `move_links`; infinite from half a turn on."""
    widest = 0.0
    for i in range(1, tree.links + 1):
        a, b, c, w = take(work, tree.per_link + i * LINK.size + LINK.turn, 4)
        own = 4.0 * (a * a + b * b + c * c) / (w * w) if w > 0.0 else math.inf
        widest = max(widest, own)
    return widest


@inlined
def slope_product(tree, work, h, x, product):
    """The change of J(q_k)^T p where q_{k+1} is displaced by x, slots product[j]; after `move_links` with K.

    x : the first slot of the displacement.
    """
    links, columns = tree.per_link, tree.per_column
    put(work, links + LINK.change, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        slot = links + i * LINK.size
        change = inherited(tree, work, i, links + tree.parent[i] * LINK.size + LINK.change)
        for j in range(tree.first[i], tree.first[i + 1]):
            moved = take(work, columns + j * COLUMN.size + COLUMN.moved, 6)
            change = add6(change, scale6(moved, load(work, x + j)))
        put(work, slot + LINK.change, change)
        put(work, slot + LINK.bias, slope_times(work, slot + LINK.K, change))
    for i in range(tree.links, 0, -1):
        bias = take(work, links + i * LINK.size + LINK.bias, 6)
        for j in range(tree.first[i], tree.first[i + 1]):
            own = tree.armature[j] * load(work, x + j) / h
            store(product, j, dot6(take(work, columns + j * COLUMN.size, 6), bias) + own)
        add_wrench(tree, work, i, links, LINK.size, LINK.bias)


@inlined
def potential_energy(tree, work):
    """The potential energy of gravity, -sum m g . c, after `prepare_step`."""
    k, energy = tree.parameters, 0.0
    shift = world_shift(tree, work, 1)
    for i in range(1, tree.links + 1):
        if tree.parent[i] == 0:
            shift = world_shift(tree, work, i)
        inertia = take(work, tree.per_link + i * LINK.size + LINK.inertia, 10)
        way = add3(shift, way_from_root(tree, work, i))
        h = add3(scale3(way, inertia[0]), (inertia[1], inertia[2], inertia[3]))
        energy -= k[0] * h[0] + k[1] * h[1] + k[2] * h[2]
    return energy


@compiled_batch_entry
def variational_rows(memory, y, forces, before, lengths, plan, out):
    """Make `count` steps, each of `shares` of h, from rows y = (q, P), (m, k).

    forces : (m, 2 nv), at the beginning and at the end of a step.
    before : (m, n), n = (KEPT + 2) nv + KEPT + 1, from an earlier call: velocities of the last `KEPT` steps,
        the last one first, from which the next one begins its search; spatial momenta (`begin_momenta`); how
        long ago the middles of these steps were, and how many of them were made. All is zero if there is
        none; the first velocities may be a guess.
    lengths : (m, 1), h of each row.
    plan : count, and behind it the shares. The count is positive; zero for H^-1 P and the potential energy,
        -1 for J(q)^T p of the way to q1, -2 for H v of a velocity v in the place of P.
    out : (m, k + n + 3): q and P, or J^T p, or H v; as `before` of the last step, or H^-1 P; how many steps
        were made, why the next one failed, and the iterations of all, or the potential energy.

    Of zero and -1, h and shares are one, or a time. With -1, `before` is q1; in its place `out` has
    `slope_product` of the first half of `forces`, and gravity at q. Returns whether all q are good.
    """
    tree, good = unpack_tree(slots_of(memory)), True
    work, k, count, parts = tree.work, tree.nq + tree.nv, int(plan[0]), plan.shape[0] - 1
    known = (KEPT + 2) * tree.nv + KEPT
    for row in range(y.shape[0]):
        state = beyond(flat_slots_of(out), row * out.shape[1])
        velocities, about = beyond(state, k), beyond(state, k + known + 1)
        for i in range(k):
            store(state, i, y[row, i])
        for i in range(tree.quaternions):
            good &= is_unit(normalize(state, tree.quaternion_starts[i]))
        for i in range(known + 1):
            store(velocities, i, before[row, i])
        if count > 0 and velocities[known] == 0.0:
            begin_momenta(tree, state, beyond(velocities, KEPT * tree.nv), tree.kind)
        put(about, 0, (0.0, 0.0, 0.0))
        made, many, why = 0, max(count, 1) * parts, 0.0
        if count == -2:
            good &= _place(tree, work, state, forces, row)
            mass_product(tree, work, tree.vectors, beyond(state, tree.nq))
            made = many
        while made < many and why == 0.0:
            good &= _place(tree, work, state, forces, row)
            part = plan[1 + made % parts] * lengths[row, 0]
            why = step(tree, work, part, state, velocities, count, beyond(about, 2))
            for i in range(k):
                if not (abs(state[i]) < math.inf):
                    why = UNSOLVED
            if why == 0.0:
                made += 1
            elif why == UNSOLVED and velocities[known] > 1.0:
                # What was extrapolated may be far off: again, from the last velocities.
                store(velocities, known, 1.0)
                why = 0.0
        store(about, 0, float(made // parts))
        store(about, 1, why)
    return good


@inlined
def _place(tree, work, state, forces, row):
    """Copy q and P, and the forces of a row, into the workspace. Returns whether quaternions are units."""
    for i in range(tree.nq):
        store(work, i, state[i])
    for j in range(tree.nv):
        store(work, tree.vectors + j, state[tree.nq + j])
        store(work, tree.vectors + tree.nv + j, forces[row, j])
        store(work, tree.vectors + 2 * tree.nv + j, forces[row, tree.nv + j])
    return reduce_coordinates(tree, work, work)
