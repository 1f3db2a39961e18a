"""The regressors: dynamics and momentum, linear in ten inertial parameters pi per body.

    H(q) a_r + C(q, v) v_r + g(q) = Y pi,      H(q) v = Y_p pi,      C(q, v)^T v - g(q) = Y_e pi.

pi of a body is (m, h, Ixx, Ixy, Iyy, Ixz, Iyz, Izz) about the origin of its frame, in its axes. With the
body's twist (w, u), reference twist (w_r, u_r) and reference acceleration (alpha, a), in those axes,

    f = m s + alpha x h + (h x w) x w_r,                       s = a - u x w_r,
    n = h x s + Ibar (alpha - c) + tr(Ibar) c / 2 + w_r x (Ibar w),   c = w x w_r,

which is I a + B(I, v) v_r of [W] (21). The momentum is p = I (w, u). With the column Phi_j = (x, y) in the
same axes, its rate Phidot_j = (v_l x) Phi_j, v_l the twist of the link l to which it belongs, and gamma the
acceleration of free fall,

    (H v)_j = Phi_j . sum p,      (C^T v - g)_j = Phidot_j . sum p + Phi_j . sum (h x gamma, m gamma),
    (x, y) . p = m y . u + h . (u x x + y x w) + x . (Ibar w),

over the bodies that column j moves. This is C^T v of [W] (20), in which B(I, v)^T v = 0.
Source: [W] II, IV-A and VI-A; Slotine and Li 1987.
"""

from connections.engines.inlined.simd import inlined, put, store, take
from connections.engines.inlined.twists import add6, motion_cross
from connections.engines.inlined.vectors import (
    cross3,
    dot3,
    matrix_of,
    rotate_columns,
    scale3,
    subtract3,
    transpose_times,
)
from connections.multibody.kernels.layout import MOMENTUM_COLUMN, MOMENTUM_LINK, PARAMETERS, POSE
from connections.multibody.kernels.layout import REGRESSOR_COLUMN as COLUMN
from connections.multibody.kernels.layout import REGRESSOR_LINK as LINK
from connections.multibody.kernels.origins import distance_before, inherited
from connections.multibody.kernels.poses import joint_twist, place_links, store_columns


@inlined
def regressor(tree, work, Y):
    """Y, slots Y[j 10 N + 10 b + p]; v, v_r and a_r are the three vectors of the workspace."""
    place_links(tree, work)
    links, columns, v, nv, k = tree.per_link, tree.per_column, tree.vectors, tree.nv, tree.parameters
    put(work, links, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    put(work, links + LINK.reference, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    put(work, links + LINK.acceleration, (0.0, 0.0, 0.0, -k[0], -k[1], -k[2]))
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, columns, COLUMN.size)
        slot, above = links + i * LINK.size, links + tree.parent[i] * LINK.size
        twist = add6(inherited(tree, work, i, above), joint_twist(tree, work, i, columns, COLUMN.size, v))
        own = joint_twist(tree, work, i, columns, COLUMN.size, v + nv)
        rate = add6(
            inherited(tree, work, i, above + LINK.acceleration),
            joint_twist(tree, work, i, columns, COLUMN.size, v + 2 * nv),
        )
        put(work, slot, twist)
        put(work, slot + LINK.reference, add6(inherited(tree, work, i, above + LINK.reference), own))
        put(work, slot + LINK.acceleration, add6(rate, motion_cross(twist, own)))
        if tree.body[i] >= 0:
            _write_body(tree, work, i, Y)


@inlined
def _write_body(tree, work, i, Y):
    """Write the ten columns of Y of the body that is link i, in the rows of all velocities that move it."""
    slot = tree.per_link + i * LINK.size
    R, p = _body_axes(tree, work, i), take(work, tree.poses + i * POSE.size + POSE.position, 3)
    w, u = _in_body_axes(R, p, take(work, slot, 6))
    w_r, _ = _in_body_axes(R, p, take(work, slot + LINK.reference, 6))
    alpha, a = _in_body_axes(R, p, take(work, slot + LINK.acceleration, 6))
    c, s = cross3(w, w_r), subtract3(a, cross3(u, w_r))
    beta, half, ww = subtract3(alpha, c), scale3(c, 0.5), dot3(w, w_r)
    j = tree.first[i + 1] - 1
    while j >= 0:
        x, y = _in_body_axes(R, p, take(work, tree.per_column + j * COLUMN.size, 6))
        at = (j * tree.bodies + tree.body[i]) * 10
        # f . y = m s . y + h . (y x alpha + w_r (w . y) - (w . w_r) y),   n . x adds h . (s x x)
        wy = dot3(w, y)
        ya, sx = cross3(y, alpha), cross3(s, x)
        store(Y, at, dot3(s, y))
        store(Y, at + 1, ya[0] + w_r[0] * wy - ww * y[0] + sx[0])
        store(Y, at + 2, ya[1] + w_r[1] * wy - ww * y[1] + sx[1])
        store(Y, at + 3, ya[2] + w_r[2] * wy - ww * y[2] + sx[2])
        # n . x = x . Ibar beta + tr(Ibar) c . x / 2 + z . Ibar w,   z = x x w_r
        z = cross3(x, w_r)
        trace = dot3(half, x)
        store(Y, at + 4, x[0] * beta[0] + z[0] * w[0] + trace)
        store(Y, at + 5, x[0] * beta[1] + x[1] * beta[0] + z[0] * w[1] + z[1] * w[0])
        store(Y, at + 6, x[1] * beta[1] + z[1] * w[1] + trace)
        store(Y, at + 7, x[0] * beta[2] + x[2] * beta[0] + z[0] * w[2] + z[2] * w[0])
        store(Y, at + 8, x[1] * beta[2] + x[2] * beta[1] + z[1] * w[2] + z[2] * w[1])
        store(Y, at + 9, x[2] * beta[2] + z[2] * w[2] + trace)
        p = distance_before(tree, work, j, p)
        j = tree.up[j]


@inlined
def momentum_regressor(tree, work, Y):
    """Y_p and Y_e, slots Y[(e nv + j) 10 N + 10 b + p] with e = 0 for Y_p; v is the first vector."""
    place_links(tree, work)
    links, columns, v = tree.per_link, tree.per_column, tree.vectors
    put(work, links, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, columns, MOMENTUM_COLUMN.size)
        slot, above = links + i * MOMENTUM_LINK.size, links + tree.parent[i] * MOMENTUM_LINK.size
        own = joint_twist(tree, work, i, columns, MOMENTUM_COLUMN.size, v)
        twist = add6(inherited(tree, work, i, above), own)
        put(work, slot, twist)
        for j in range(tree.first[i], tree.first[i + 1]):
            at = columns + j * MOMENTUM_COLUMN.size
            put(work, at + MOMENTUM_COLUMN.rate, motion_cross(twist, take(work, at, 6)))
        if tree.body[i] >= 0:
            _write_momentum(tree, work, i, Y)


@inlined
def _write_momentum(tree, work, i, Y):
    """Write the ten columns of Y_p and Y_e of the body that is link i, in the rows of all that moves it."""
    R, p = _body_axes(tree, work, i), take(work, tree.poses + i * POSE.size + POSE.position, 3)
    w, u = _in_body_axes(R, p, take(work, tree.per_link + i * MOMENTUM_LINK.size, 6))
    k, effects = tree.parameters, tree.nv * tree.bodies * 10
    gamma = transpose_times(R, (k[0], k[1], k[2]))
    j = tree.first[i + 1] - 1
    while j >= 0:
        column = tree.per_column + j * MOMENTUM_COLUMN.size
        at = (j * tree.bodies + tree.body[i]) * 10
        x, y = _in_body_axes(R, p, take(work, column, 6))
        put(Y, at, _paired_with_momentum(x, y, w, u))
        xdot, ydot = _in_body_axes(R, p, take(work, column + MOMENTUM_COLUMN.rate, 6))
        row, turn = _paired_with_momentum(xdot, ydot, w, u), cross3(gamma, x)
        weight = (row[0] + dot3(y, gamma), row[1] + turn[0], row[2] + turn[1], row[3] + turn[2])
        put(Y, effects + at, (*weight, row[4], row[5], row[6], row[7], row[8], row[9]))
        p = distance_before(tree, work, j, p)
        j = tree.up[j]


@inlined
def _paired_with_momentum(x, y, w, u):
    """(x, y) . I (w, u), the coefficients of the ten parameters of I."""
    ux, yw = cross3(u, x), cross3(y, w)
    return (
        dot3(y, u),
        ux[0] + yw[0],
        ux[1] + yw[1],
        ux[2] + yw[2],
        x[0] * w[0],
        x[0] * w[1] + x[1] * w[0],
        x[1] * w[1],
        x[0] * w[2] + x[2] * w[0],
        x[1] * w[2] + x[2] * w[1],
        x[2] * w[2],
    )


@inlined
def _body_axes(tree, work, i):
    """R E^T, row by row: it turns components in the axes of the body that is link i into ground axes."""
    R = take(work, tree.poses + i * POSE.size, 9)
    E = take(tree.parameters, i * PARAMETERS.size + PARAMETERS.axes, 9)
    x, y, z = (E[0], E[1], E[2]), (E[3], E[4], E[5]), (E[6], E[7], E[8])
    return matrix_of(rotate_columns(R, x), rotate_columns(R, y), rotate_columns(R, z))


@inlined
def _in_body_axes(R, p, x):
    """The angular and linear part of a twist or acceleration x at the body's origin p, in body axes.

    They are R^T w and R^T (u + w x p).
    """
    u = (
        x[3] + x[1] * p[2] - x[2] * p[1],
        x[4] + x[2] * p[0] - x[0] * p[2],
        x[5] + x[0] * p[1] - x[1] * p[0],
    )
    return transpose_times(R, (x[0], x[1], x[2])), transpose_times(R, u)
