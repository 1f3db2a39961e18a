"""Twists (w, u) = (wx, wy, wz, ux, uy, uz) and wrenches (n, f) as tuples of six numbers.

A number is a float64 or one `lanes` value. Source: [W] VI-A.
"""

from connections.engines.inlined.simd import inlined


@inlined
def unit6(k):
    """Six numbers, number k one and the others zero."""
    return (
        1.0 if k == 0 else 0.0,
        1.0 if k == 1 else 0.0,
        1.0 if k == 2 else 0.0,
        1.0 if k == 3 else 0.0,
        1.0 if k == 4 else 0.0,
        1.0 if k == 5 else 0.0,
    )


@inlined
def add6(x, y):
    """x + y."""
    return x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3], x[4] + y[4], x[5] + y[5]


@inlined
def subtract6(x, y):
    """x - y."""
    return x[0] - y[0], x[1] - y[1], x[2] - y[2], x[3] - y[3], x[4] - y[4], x[5] - y[5]


@inlined
def scale6(x, c):
    """x c."""
    return x[0] * c, x[1] * c, x[2] * c, x[3] * c, x[4] * c, x[5] * c


@inlined
def dot6(x, y):
    """x . y, the power of a wrench on a twist."""
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3] + x[4] * y[4] + x[5] * y[5]


@inlined
def motion_cross(v, x):
    """(v x) x: the rate of a twist x that is fixed to a body of twist v."""
    return (
        v[1] * x[2] - v[2] * x[1],
        v[2] * x[0] - v[0] * x[2],
        v[0] * x[1] - v[1] * x[0],
        v[1] * x[5] - v[2] * x[4] + v[4] * x[2] - v[5] * x[1],
        v[2] * x[3] - v[0] * x[5] + v[5] * x[0] - v[3] * x[2],
        v[0] * x[4] - v[1] * x[3] + v[3] * x[1] - v[4] * x[0],
    )


@inlined
def force_cross(v, f):
    """(v x*) f: the rate of a wrench f that is fixed to a body of twist v."""
    return (
        v[1] * f[2] - v[2] * f[1] + v[4] * f[5] - v[5] * f[4],
        v[2] * f[0] - v[0] * f[2] + v[5] * f[3] - v[3] * f[5],
        v[0] * f[1] - v[1] * f[0] + v[3] * f[4] - v[4] * f[3],
        v[1] * f[5] - v[2] * f[4],
        v[2] * f[3] - v[0] * f[5],
        v[0] * f[4] - v[1] * f[3],
    )
