"""Errors of rotations and poses as matrices, compiled: logarithms, and how they change with the velocity.

    X = X_d^-1 X_now,      e = log X,      edot = E(e) xi,      xi = u - Ad_X^-1 u_d,

with the velocities u and u_d in the axes of the body and of its target: X moves with xi, Xdot = X xi. The
matrix is that of the derivative of the logarithm; E(e) e = e, and with the matrix ad of [e, .]

    E = 1 + ad / 2 + c_2 ad^2 + c_4 ad^4,

the series of `logarithms`.

With e = [w; p], twists [omega; v], W = (w x), P = (p x), s = |w|^2, these are blocks of three,

    E = [[R, 0], [Q, R]],    R = 1 + W / 2 + c W^2,    Q = P / 2 + c (W P + P W) - 2 c_4 (w . p) W^2,
    c = c_2 - s c_4,    W^2 = w w^T - s,    W P + P W = w p^T + p w^T - 2 (w . p),

the first of which is that of rotations.

A rotation of half a turn has two logarithms, between which the error jumps.
Source: Bullo and Murray, Proportional derivative control on the Euclidean group, 1995.
"""

import math

from connections.engines.inlined.logarithms import logarithm_coefficients
from connections.engines.inlined.simd import compiled_entry, inlined, routine

ROTATION = 1e-6  # the largest entry of R^T R - 1 of a target


@inlined
def _cross(x, a, y, b, i):
    """Component i of the vector product of three entries of x, from a on, and of y, from b on."""
    j, k = (i + 1) % 3, (i + 2) % 3
    return x[a + j] * y[b + k] - x[a + k] * y[b + j]


@inlined
def _dot(x, a, y, b):
    """The scalar product of the same entries."""
    return x[a] * y[b] + x[a + 1] * y[b + 1] + x[a + 2] * y[b + 2]


@inlined
def _of_columns(A, i, B, j):
    """Entry (i, j) of A^T B, with the first three rows of both."""
    return A[0, i] * B[0, j] + A[1, i] * B[1, j] + A[2, i] * B[2, j]


@routine
def is_rotation(R):
    """Whether R^T R = 1, and R does not mirror; R may be the beginning of a pose."""
    close = True
    for i in range(3):
        for j in range(3):
            close = close and abs(_of_columns(R, i, R, j) - (1.0 if i == j else 0.0)) <= ROTATION
    turn = R[0, 0] * (R[1, 1] * R[2, 2] - R[1, 2] * R[2, 1])
    turn += R[0, 1] * (R[1, 2] * R[2, 0] - R[1, 0] * R[2, 2])
    turn += R[0, 2] * (R[1, 0] * R[2, 1] - R[1, 1] * R[2, 0])
    return close and turn > 0.0


@routine
def rotation_logarithm(R, e):
    """Write the rotation vector (3,), rad, of at most half a turn, of R."""
    for i in range(3):  # the sine times the axis
        j, k = (i + 1) % 3, (i + 2) % 3
        e[i] = 0.5 * (R[k, j] - R[j, k])
    sine, cosine = math.sqrt(_dot(e, 0, e, 0)), 0.5 * (R[0, 0] + R[1, 1] + R[2, 2] - 1.0)
    angle = math.atan2(sine, cosine)
    if cosine > -0.9:
        for i in range(3):
            e[i] *= angle / sine if sine > 1e-8 else 1.0
        return True
    k = 0
    for i in range(1, 3):
        if R[i, i] > R[k, k]:
            k = i
    # Column k of (R + R^T) / 2 - cosine, which is 1 - cosine times the axis times its own component k, the
    # largest; with the sign of e.
    length = math.sqrt((R[k, k] - cosine) * (1.0 - cosine))
    if e[k] < 0.0:
        length = -length
    for i in range(3):
        e[i] = angle / length * (0.5 * (R[i, k] + R[k, i]) - (cosine if i == k else 0.0))
    return True


@routine
def pose_logarithm(x, e):
    """Write p of the twist e = [w; p] that leads in a unit of time to the place x (3,), with its w."""
    square, along = _dot(e, 0, e, 0), _dot(e, 0, x, 0)
    second = logarithm_coefficients(square)[0]
    for i in range(3):  # x - w x x / 2 + second w x (w x x)
        e[3 + i] = (1.0 - second * square) * x[i] - 0.5 * _cross(e, 0, x, 0, i) + second * along * e[i]
    return True


@routine
def logarithm_rate(e, E):
    """Write E (m, m): the logarithm e of X changes at E xi while Xdot = X xi."""
    square, m = _dot(e, 0, e, 0), len(e)
    c, _, c_4 = logarithm_coefficients(square)
    along = 0.0 if m == 3 else _dot(e, 0, e, 3)
    E[:] = 0.0
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        E[i, i], E[i, j], E[i, k] = 1.0 - c * square, -0.5 * e[k], 0.5 * e[j]
        if m == 6:
            E[3 + i, i] = 2.0 * along * (c_4 * square - c)
            E[3 + i, j], E[3 + i, k] = -0.5 * e[3 + k], 0.5 * e[3 + j]
        for j in range(3):
            E[i, j] += c * e[i] * e[j]
            if m == 6:
                E[3 + i, 3 + j] = E[i, j]
                E[3 + i, j] += c * (e[i] * e[3 + j] + e[3 + i] * e[j]) - 2.0 * c_4 * along * e[i] * e[j]
    return True


@routine
def seen_from(R, x, u, seen):
    """Write Ad_X^-1 u: the velocity u, in the axes of the target, in those of the body that X leads to."""
    seen[:] = 0.0
    for i in range(3):
        for j in range(3):
            seen[i] += R[j, i] * u[j]
            if len(u) == 6:
                seen[3 + i] += R[j, i] * (u[3 + j] + _cross(u, 0, x, 0, j))
    return True


@compiled_entry
def group_error(place, target, u, u_d, a_d, R, x, E, e, xi, seen, rate):
    """Write E (m, m), e, xi, Ad_X^-1 u_d and its rate, (m,); returns whether the target has a rotation.

    Places are rotations (3, 3), m = 3, or poses (4, 4), m = 6; the target's velocity u_d and its rate a_d are
    in the target's own axes. X is written to R (3, 3) and x (3,), which is zero before.
    """
    m = len(u)
    if m == 0:
        return True
    if not is_rotation(target):
        return False
    for i in range(3):
        for j in range(3):
            R[i, j] = _of_columns(target, i, place, j)
            if m == 6:
                x[i] += target[j, i] * (place[j, 3] - target[j, 3])
    rotation_logarithm(R, e)
    if m == 6:
        pose_logarithm(x, e)
    logarithm_rate(e, E)
    seen_from(R, x, u_d, seen)
    seen_from(R, x, a_d, rate)
    for i in range(m):
        xi[i] = u[i] - seen[i]
    for i in range(3):  # less the bracket of xi and what is seen
        rate[i] -= _cross(xi, 0, seen, 0, i)
        if m == 6:
            rate[3 + i] -= _cross(xi, 3, seen, 0, i) + _cross(xi, 0, seen, 3, i)
    return True
