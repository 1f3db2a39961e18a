"""Vectors, rotations and quaternions as tuples of numbers; a number is a float64 or one `lanes` value.

A matrix is nine numbers, row by row. A quaternion is (x, y, z, w), and turns body axes into the axes it is
measured in if it is of unit norm.
"""

import math

from connections.engines.inlined.simd import inlined, put, root, take, without_reassociation

FARTHEST_ANGLE = 1e5  # a larger angle is reduced before it is passed to `sine_cosine`


@inlined
def add3(x, y):
    """x + y."""
    return x[0] + y[0], x[1] + y[1], x[2] + y[2]


@inlined
def subtract3(x, y):
    """x - y."""
    return x[0] - y[0], x[1] - y[1], x[2] - y[2]


@inlined
def scale3(x, c):
    """x c."""
    return x[0] * c, x[1] * c, x[2] * c


@inlined
def dot3(x, y):
    """x . y."""
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]


@inlined
def cross3(x, y):
    """x cross y."""
    return x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]


@inlined
def rotate_columns(R, x):
    """R x."""
    return (
        R[0] * x[0] + R[1] * x[1] + R[2] * x[2],
        R[3] * x[0] + R[4] * x[1] + R[5] * x[2],
        R[6] * x[0] + R[7] * x[1] + R[8] * x[2],
    )


@inlined
def transpose_times(R, x):
    """R^T x."""
    return (
        R[0] * x[0] + R[3] * x[1] + R[6] * x[2],
        R[1] * x[0] + R[4] * x[1] + R[7] * x[2],
        R[2] * x[0] + R[5] * x[1] + R[8] * x[2],
    )


@inlined
def product_columns(R, E):
    """The columns of R E."""
    x = rotate_columns(R, (E[0], E[3], E[6]))
    y = rotate_columns(R, (E[1], E[4], E[7]))
    return x, y, rotate_columns(R, (E[2], E[5], E[8]))


@inlined
def matrix_of(x, y, z):
    """The matrix with columns x, y, z."""
    return x[0], y[0], z[0], x[1], y[1], z[1], x[2], y[2], z[2]


@inlined
def turned(x, y, sine, cosine):
    """The axes x and y after a turn about z."""
    first = add3(scale3(x, cosine), scale3(y, sine))
    return first, add3(scale3(y, cosine), scale3(x, -sine))


@inlined
def turned_by_quaternion(x, y, z, quaternion):
    """The axes x, y, z after a rotation by a quaternion in these axes: the columns of [x y z] R."""
    M, (first, second, third) = matrix_of(x, y, z), quaternion_columns(quaternion)
    return rotate_columns(M, first), rotate_columns(M, second), rotate_columns(M, third)


@inlined
def quaternion_columns(q):
    """The columns of the rotation matrix of q = (a, b, c, d)."""
    a, b, c, d = q
    return (
        (1.0 - 2.0 * (b * b + c * c), 2.0 * (a * b + c * d), 2.0 * (a * c - b * d)),
        (2.0 * (a * b - c * d), 1.0 - 2.0 * (a * a + c * c), 2.0 * (b * c + a * d)),
        (2.0 * (a * c + b * d), 2.0 * (b * c - a * d), 1.0 - 2.0 * (a * a + b * b)),
    )


@inlined
def quaternion_product(p, q):
    """p q."""
    return (
        p[3] * q[0] + p[0] * q[3] + p[1] * q[2] - p[2] * q[1],
        p[3] * q[1] + p[1] * q[3] + p[2] * q[0] - p[0] * q[2],
        p[3] * q[2] + p[2] * q[3] + p[0] * q[1] - p[1] * q[0],
        p[3] * q[3] - p[0] * q[0] - p[1] * q[1] - p[2] * q[2],
    )


@inlined
def unit_quaternion(q):
    """q scaled to norm one."""
    norm = root(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    return q[0] / norm, q[1] / norm, q[2] / norm, q[3] / norm


@inlined
def toward(a, b, fraction):
    """The unit quaternion `fraction` of the way from a to b, on the shorter arc, by linear interpolation."""
    nearer = fraction if a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3] >= 0.0 else -fraction
    left = 1.0 - fraction
    mixed = (
        left * a[0] + nearer * b[0],
        left * a[1] + nearer * b[1],
        left * a[2] + nearer * b[2],
        left * a[3] + nearer * b[3],
    )
    return unit_quaternion(mixed)


@inlined
def rotation_vector(q):
    """The rotation vector of q, rad, by the shorter way, and its length; of float64."""
    sine = math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2])
    angle = 2.0 * math.atan2(sine, abs(q[3]))
    scale = angle / sine if sine > 1e-150 else 2.0
    if q[3] < 0.0:
        scale = -scale
    return scale3(q, scale), angle


@inlined
def quaternion_of(x):
    """The unit quaternion of a rotation vector, rad; of float64. Its vector part has no cancellation."""
    angle = math.sqrt(dot3(x, x))
    scale = math.sin(0.5 * angle) / angle if angle > 1e-150 else 0.5
    return (*scale3(x, scale), math.cos(0.5 * angle))


@inlined
def vector_of(q):
    """The rotation vector of a unit quaternion, rad, by the way of less than a full turn; of float64."""
    sine = math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2])
    scale = 2.0 * math.atan2(sine, q[3]) / sine if sine > 1e-150 else 2.0
    return q[0] * scale, q[1] * scale, q[2] * scale


@inlined
def half_turn(q):
    """The unit quaternion of half the rotation of a unit quaternion."""
    return unit_quaternion((q[0], q[1], q[2], 1.0 + q[3]))


@inlined
def turned_off(q, x):
    """R x - x for the rotation R of a unit quaternion, without cancellation if it is small."""
    r = q[0], q[1], q[2]
    once = cross3(r, x)
    return add3(scale3(once, 2.0 * q[3]), scale3(cross3(r, once), 2.0))


@inlined
def turned_by(q, x):
    """R x for the rotation R of a unit quaternion."""
    return add3(x, turned_off(q, x))


@inlined
def unit_factor(square):
    """1 / |q| for a squared norm close to one, by its series; the next term would be at most 3e-18."""
    off = square - 1.0
    return off * (off * 0.375 - 0.5) + 1.0


@inlined
def normalize(work, at):
    """Normalize the quaternion in the four slots that begin at `at`. Returns its squared norm before."""
    a, b, c, d = take(work, at, 4)
    square = a * a + b * b + c * c + d * d
    scale = unit_factor(square)
    put(work, at, (a * scale, b * scale, c * scale, d * scale))
    return square


@without_reassociation
def reduced_angle(angle):
    """The angle itself, or if it is large, the angle in [-pi, pi] with the same sine and cosine."""
    if abs(angle) <= FARTHEST_ANGLE:
        return angle
    return math.atan2(math.sin(angle), math.cos(angle))
