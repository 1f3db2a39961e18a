"""The conditions of one loop at its configuration x, and their derivatives along the columns of its links.

All vectors are in the axes of the link that carries the loop, about its origin, because poses relative to
other clusters do not matter. With Delta the twist of body b relative to body a, u and w the directions and
p_a, p_b the points of the condition, r = p_b - p_a, the derivative of a condition is a wrench f on Delta,

    phi' = f . Delta,  POSITION: f = [p_b x u; u],  DIRECTION: f = [w x u; 0],  DISTANCE: f = [p_a x p_b; r].

So f = [x x y; l] with two arms x and y, each a point or a direction of a body, and l linear in them. TWIST is
the difference of two DIRECTION conditions; the directions of the second one are in place of the points.

Along column j of G link l moves with the twist P_lj; points and directions move with their bodies, and every
Phi_s with its link l_s. So with W_l[j, k] = sum_s (P_{l_s j} x Phi_s) G_sk over the columns s that move l,

    sum_s (L_j K)_s G_sk = fdot_j . (P_bk - P_ak) + f . (W_b - W_a)[j, k].

Source: [W] VI-C; Featherstone, Rigid Body Dynamics Algorithms, chapter 8.
"""

import math

from connections.engines.inlined.simd import (
    absolute,
    beyond,
    inlined,
    put,
    store,
    take,
    without_reassociation,
)
from connections.engines.inlined.twists import add6, dot6, motion_cross, scale6, subtract6
from connections.engines.inlined.vectors import (
    add3,
    cross3,
    dot3,
    product_columns,
    reduced_angle,
    rotate_columns,
    scale3,
    subtract3,
)
from connections.multibody.clusters import DISTANCE, LINEAR, POSITION, TWIST
from connections.multibody.kernels.elementary_joints import (
    bracket_column,
    displaced,
    is_wide,
    put_axes,
    put_bracket,
    put_columns,
)
from connections.multibody.kernels.layout import ARMS, CONDITION, IDENTITY, PLACEMENT, POSE

ROUND_OFF = 1e-5  # times `CLOSED`: the round-off of a point, relative to the lengths that lead to it


@without_reassociation
def place_loop(loop):
    """Poses (R row by row, p) of the loop's links at x, and Phi of its columns."""
    for i in range(loop.coordinates):
        store(loop.angles, i, reduced_angle(loop.x[i]))
    place_links(loop)


@without_reassociation
def place_links(loop):
    """`place_loop`, where `angles` are given, of one configuration or of several lanes."""
    put(loop.poses, 0, IDENTITY)
    for link in range(1, loop.links + 1):
        above, kind, at = POSE.size * loop.parent[link], loop.kind[link], loop.coordinate[link]
        pose, q = beyond(loop.poses, POSE.size * link), beyond(loop.x, at)
        k = beyond(loop.parameters, PLACEMENT.size * link)
        R, p = take(loop.poses, above, 9), take(loop.poses, above + POSE.position, 3)
        x, y, z = product_columns(R, take(k, PLACEMENT.rotation, 9))
        p = add3(p, rotate_columns(R, take(k, PLACEMENT.position, 3)))
        put(pose, POSE.position, displaced(kind, p, x, y, z, q, k))
        put_axes(kind, x, y, z, q, beyond(loop.angles, at), pose)
        put_columns(kind, pose, k, beyond(loop.Phi, 6 * loop.first[link]), 6)


@without_reassociation
def evaluate(loop):
    """Write phi, arms and wrenches of all conditions, and K (columns, rows) to `now`; after `place_loop`."""
    for r in range(loop.rows):
        if loop.row_kind[r] == LINEAR:
            _linear_condition(loop, r)
        else:
            _geometric_condition(loop, r)
    for s in range(loop.columns):
        Phi, first, stop = take(loop.Phi, 6 * s, 6), 0, loop.rows
        if loop.place[s] < 0:  # other rows are zero, and are not read
            j = -1 - loop.place[s]
            first, stop = loop.stairs[3 * j + 2], loop.stairs[3 * j + 1]
        for r in range(first, stop):
            i = s * loop.rows + r
            if loop.T[i] != 0.0 and loop.row_kind[r] != LINEAR:
                wrench = take(loop.arms, ARMS.size * r + ARMS.wrench, 6)
                store(loop.now, i, loop.T[i] * dot6(wrench, Phi))
            else:
                store(loop.now, i, loop.T[i])


@inlined
def _linear_condition(loop, r):
    """phi = sum_s T[s, r] x_s - constant, over links with one column; T[s, r] is zero for all others."""
    scale = loop.row_parameters[CONDITION.size * r + CONDITION.scale]
    constant = scale * loop.row_parameters[CONDITION.size * r + CONDITION.constant]
    store(loop.phi, r, -constant)
    store(loop.sizes, r, abs(constant))
    for link in range(1, loop.links + 1):
        s = loop.first[link]
        if loop.first[link + 1] == s + 1:
            term = loop.T[s * loop.rows + r] * loop.x[loop.coordinate[link]]
            store(loop.phi, r, loop.phi[r] + term)
            store(loop.sizes, r, loop.sizes[r] + absolute(term))


@inlined
def _geometric_condition(loop, r):
    """Write phi, and the arms x, y and the wrench f."""
    k, kind = beyond(loop.row_parameters, CONDITION.size * r), loop.row_kind[r]
    a, b = POSE.size * loop.link_a[r], POSE.size * loop.link_b[r]
    R_a, R_b = take(loop.poses, a, 9), take(loop.poses, b, 9)
    p_a = add3(take(loop.poses, a + POSE.position, 3), rotate_columns(R_a, take(k, CONDITION.point_a, 3)))
    p_b = add3(take(loop.poses, b + POSE.position, 3), rotate_columns(R_b, take(k, CONDITION.point_b, 3)))
    u, w = rotate_columns(R_a, take(k, CONDITION.u, 3)), rotate_columns(R_b, take(k, CONDITION.w, 3))
    constant, scale = k[CONDITION.constant], k[CONDITION.scale]
    distance = subtract3(p_b, p_a)
    doubt = ROUND_OFF * (loop.lengths[0] + _size3(p_a) + _size3(p_b))
    if kind == POSITION:
        x, y, value = p_b, u, dot3(u, distance)
        store(loop.sizes, r, scale * (loop.lengths[1] + doubt))
    elif kind == DISTANCE:
        x, y, value = p_a, p_b, 0.5 * dot3(distance, distance)
        store(loop.sizes, r, scale * (constant + math.sqrt(constant) * doubt))
        constant = 0.5 * constant
    else:
        x, y, value = w, u, dot3(u, w)
        store(loop.sizes, r, scale)
    turn = cross3(x, y)
    if kind == TWIST:
        second, first = _second_pair(loop, r)
        value = value - dot3(first, second)
        store(loop.sizes, r, 2.0 * scale)
        turn = subtract3(turn, cross3(second, first))
    arms = beyond(loop.arms, ARMS.size * r)
    put(arms, ARMS.x, x)
    put(arms, ARMS.y, y)
    put(arms, ARMS.wrench, (*turn, *_linear_part(kind, x, y)))
    store(loop.phi, r, scale * (value - constant))


@without_reassociation
def move_links(loop):
    """Write the twists P_lk of all links l along the columns k of G."""
    n = loop.independent
    for i in range(6 * n):
        store(loop.twists, i, 0.0)
    for link in range(1, loop.links + 1):
        own, above = 6 * n * link, 6 * n * loop.parent[link]
        for k in range(n):
            twist = take(loop.twists, above + 6 * k, 6)
            for s in range(loop.first[link], loop.first[link + 1]):
                twist = add6(twist, scale6(take(loop.Phi, 6 * s, 6), loop.G[s * n + k]))
            put(loop.twists, own + 6 * k, twist)


@without_reassociation
def vary_wrenches(loop, j):
    """Write the rates of all wrenches along column j of G; after `move_links`."""
    n = loop.independent
    for r in range(loop.rows):
        if loop.row_kind[r] != LINEAR:
            V_a = take(loop.twists, 6 * (n * loop.link_a[r] + j), 6)
            V_b = take(loop.twists, 6 * (n * loop.link_b[r] + j), 6)
            put(loop.arms, ARMS.size * r + ARMS.rate, wrench_rate(loop, r, V_a, V_b))


@without_reassociation
def vary_links(loop, j, k):
    """Write W_l[j, k] = W_p[j, k] + P_lj x (P_lk - P_pk) of all links l, of parents p; after `move_links`."""
    n = loop.independent
    for i in range(6):
        store(loop.rates, i, 0.0)
    for link in range(1, loop.links + 1):
        own, above = 6 * n * link, 6 * n * loop.parent[link]
        change = subtract6(take(loop.twists, own + 6 * k, 6), take(loop.twists, above + 6 * k, 6))
        turned = motion_cross(take(loop.twists, own + 6 * j, 6), change)
        put(loop.rates, 6 * link, add6(take(loop.rates, 6 * loop.parent[link], 6), turned))


@without_reassociation
def second_derivatives(loop, j, k):
    """Write sum_s (L_j K)_s G_sk of every condition to b; after `vary_wrenches` and `vary_links`."""
    n, a, b = loop.independent, 0, 0
    change = rate = take(loop.twists, 0, 6)  # of the ground, zero
    for r in range(loop.rows):
        if loop.row_kind[r] == LINEAR:
            store(loop.b, r, 0.0)
        else:
            if a != loop.link_a[r] or b != loop.link_b[r]:  # of other bodies than the last one
                a, b = loop.link_a[r], loop.link_b[r]
                at_a, at_b = 6 * (n * a + k), 6 * (n * b + k)
                change = subtract6(take(loop.twists, at_b, 6), take(loop.twists, at_a, 6))
                rate = subtract6(take(loop.rates, 6 * b, 6), take(loop.rates, 6 * a, 6))
            arms = beyond(loop.arms, ARMS.size * r)
            value = dot6(take(arms, ARMS.rate, 6), change) + dot6(take(arms, ARMS.wrench, 6), rate)
            store(loop.b, r, value * loop.row_parameters[CONDITION.size * r + CONDITION.scale])


@without_reassociation
def exchange(loop, j, k):
    """Make z = -LG[:, j, k] of the dependent columns -LG[:, k, j]; y is for numbers on the way.

    The columns X_j of G are vector fields on the configurations in which the loop closes, so that [X_j, X_k]
    is the field of the bracket of the independent velocities e_j and e_k,

        L_j G_sk - L_k G_sj + [G_j, G_k]_s = sum_m [e_j, e_k]_m G_sm.

    Brackets are those of the Lie groups of spherical and free joints; single joints have none.
    """
    n = loop.independent
    for link in range(1, loop.links + 1):
        kind, s = loop.kind[link], loop.first[link]
        if is_wide(kind):
            put_bracket(kind, beyond(loop.G, s * n + j), beyond(loop.G, s * n + k), n, beyond(loop.y, s))
        else:
            store(loop.y, s, 0.0)
    for link in range(1, loop.links + 1):
        s, place = loop.first[link], loop.place[loop.first[link]]
        width = loop.first[link + 1] - s
        if 0 <= place <= j < place + width and place <= k < place + width:  # its joint is independent
            m = bracket_column(j - place, k - place)
            if m >= 0:
                for t in range(loop.columns):
                    if loop.place[t] < 0:
                        store(loop.y, t, loop.y[t] - loop.y[s + m] * loop.G[t * n + place + m])
    for t in range(loop.columns):
        if loop.place[t] < 0:
            store(loop.z, -1 - loop.place[t], loop.z[-1 - loop.place[t]] - loop.y[t])


@inlined
def wrench_rate(loop, r, V_a, V_b):
    """The rate of f if body a moves with the twist V_a and body b with V_b."""
    kind = loop.row_kind[r]
    x, y = take(loop.arms, ARMS.size * r + ARMS.x, 3), take(loop.arms, ARMS.size * r + ARMS.y, 3)
    x_rate, y_rate = _arm_rates(kind, V_a, V_b, x, y)
    turn = add3(cross3(x_rate, y), cross3(x, y_rate))
    if kind == TWIST:
        x, y = _second_pair(loop, r)
        x_change, y_change = _arm_rates(kind, V_a, V_b, x, y)
        turn = subtract3(turn, add3(cross3(x_change, y), cross3(x, y_change)))
    return (*turn, *_linear_part(kind, x_rate, y_rate))


@inlined
def wrench_second_rate(loop, r, first, second, first_change):
    """The rate of `wrench_rate` at the twists `first`, if the bodies move with the twists `second`.

    first, second, first_change : (of a, of b); `first_change` is the rate of `first`.
    """
    kind = loop.row_kind[r]
    x, y = take(loop.arms, ARMS.size * r + ARMS.x, 3), take(loop.arms, ARMS.size * r + ARMS.y, 3)
    turn, force = _second_rate(kind, first, second, first_change, x, y)
    if kind == TWIST:
        x, y = _second_pair(loop, r)
        turn = subtract3(turn, _second_rate(kind, first, second, first_change, x, y)[0])
    return (*turn, *force)


@inlined
def _second_rate(kind, first, second, first_change, x, y):
    """The angular and the linear part of `wrench_second_rate`, of one pair of arms."""
    x_rate, y_rate = _arm_rates(kind, first[0], first[1], x, y)
    x_move, y_move = _arm_rates(kind, second[0], second[1], x, y)
    x_second, y_second = _arm_rates(kind, first_change[0], first_change[1], x, y)
    V_x, V_y = _movers(kind, first[0], first[1])
    x_second = add3(x_second, cross3((V_x[0], V_x[1], V_x[2]), x_move))
    y_second = add3(y_second, cross3((V_y[0], V_y[1], V_y[2]), y_move))
    turn = add3(cross3(x_second, y), cross3(x_rate, y_move))
    turn = add3(turn, add3(cross3(x_move, y_rate), cross3(x, y_second)))
    return turn, _linear_part(kind, x_second, y_second)


@inlined
def _second_pair(loop, r):
    """The second pair of directions of a TWIST condition, of b and of a."""
    k = beyond(loop.row_parameters, CONDITION.size * r)
    R_a = take(loop.poses, POSE.size * loop.link_a[r], 9)
    R_b = take(loop.poses, POSE.size * loop.link_b[r], 9)
    of_b = rotate_columns(R_b, take(k, CONDITION.point_b, 3))
    return of_b, rotate_columns(R_a, take(k, CONDITION.point_a, 3))


@inlined
def _linear_part(kind, x, y):
    """The linear part l of f = [x x y; l]."""
    if kind == POSITION:
        return y
    return subtract3(y, x) if kind == DISTANCE else scale3(y, 0.0)


@inlined
def _movers(kind, V_a, V_b):
    """The twists of the bodies that the arms x and y belong to."""
    return (V_b, V_a) if kind != DISTANCE else (V_a, V_b)


@inlined
def _arm_rates(kind, V_a, V_b, x, y):
    """The rates of the arms: p_b and u, w and u, or p_a and p_b."""
    V_x, V_y = _movers(kind, V_a, V_b)
    x_rate, y_rate = cross3((V_x[0], V_x[1], V_x[2]), x), cross3((V_y[0], V_y[1], V_y[2]), y)
    if kind == POSITION or kind == DISTANCE:  # x is a point
        x_rate = add3(x_rate, (V_x[3], V_x[4], V_x[5]))
    if kind == DISTANCE:
        y_rate = add3(y_rate, (V_y[3], V_y[4], V_y[5]))
    return x_rate, y_rate


@inlined
def _size3(x):
    return absolute(x[0]) + absolute(x[1]) + absolute(x[2])
