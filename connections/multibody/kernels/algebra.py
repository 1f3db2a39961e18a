"""Inertias and body-level factors as tuples of numbers, in ground axes about the common origin of a subtree.

An inertia I is ten numbers (m, h, Ixx, Ixy, Ixz, Iyy, Iyz, Izz). The body-level factor B of eq. (21) is
twelve numbers: its right half is zero and its lower left block is skew,

    B = [[M, 0], [s x, 0]],    (M row by row, s).

Source: [W] VI-A.
"""

from connections.engines.inlined.simd import inlined


@inlined
def energy_scale(inertia, Phi):
    """|omega|^2 tr(Ibar) + |u|^2 m for a twist Phi: the size of the terms of Phi . I Phi before they cancel.

    It is at least half of Phi . I Phi, and the round-off of a pivot of H is relative to it. So a pivot that
    is only round-off relative to this number is unknown, even if the diagonal entry of H is as small.
    """
    w = Phi[0] * Phi[0] + Phi[1] * Phi[1] + Phi[2] * Phi[2]
    u = Phi[3] * Phi[3] + Phi[4] * Phi[4] + Phi[5] * Phi[5]
    return w * (inertia[4] + inertia[7] + inertia[9]) + u * inertia[0]


@inlined
def momentum(inertia, v):
    """I v = (Ibar w + h x u, m u - h x w)."""
    m, hx, hy, hz, a, b, c, d, e, f = inertia
    return (
        a * v[0] + b * v[1] + c * v[2] + hy * v[5] - hz * v[4],
        b * v[0] + d * v[1] + e * v[2] + hz * v[3] - hx * v[5],
        c * v[0] + e * v[1] + f * v[2] + hx * v[4] - hy * v[3],
        m * v[3] - (hy * v[2] - hz * v[1]),
        m * v[4] - (hz * v[0] - hx * v[2]),
        m * v[5] - (hx * v[1] - hy * v[0]),
    )


@inlined
def body_factor(inertia, v):
    """B(I, v) = [[(Sigma w) x - Ibar (w x) - (h x)(u x), 0], [(h x w) x - m (u x), 0]], twelve numbers.

    Sigma = tr(Ibar) / 2 - Ibar; (h x)(u x) = u h^T - (h . u) 1. Source: [W] eq. (21).
    """
    m, hx, hy, hz, a, b, c, d, e, f = inertia
    wx, wy, wz, ux, uy, uz = v
    trace = (a + d + f) * 0.5
    sx = trace * wx - (a * wx + b * wy + c * wz)
    sy = trace * wy - (b * wx + d * wy + e * wz)
    sz = trace * wz - (c * wx + e * wy + f * wz)
    hu = hx * ux + hy * uy + hz * uz
    return (
        hu - (b * wz - c * wy) - ux * hx,
        -sz - (c * wx - a * wz) - ux * hy,
        sy - (a * wy - b * wx) - ux * hz,
        sz - (d * wz - e * wy) - uy * hx,
        hu - (e * wx - b * wz) - uy * hy,
        -sx - (b * wy - d * wx) - uy * hz,
        -sy - (e * wz - f * wy) - uz * hx,
        sx - (f * wx - c * wz) - uz * hy,
        hu - (c * wy - e * wx) - uz * hz,
        hy * wz - hz * wy - m * ux,
        hz * wx - hx * wz - m * uy,
        hx * wy - hy * wx - m * uz,
    )


@inlined
def factor_times(B, x):
    """B x = (M w, s x w); it depends only on the angular part w of x."""
    return (
        B[0] * x[0] + B[1] * x[1] + B[2] * x[2],
        B[3] * x[0] + B[4] * x[1] + B[5] * x[2],
        B[6] * x[0] + B[7] * x[1] + B[8] * x[2],
        B[10] * x[2] - B[11] * x[1],
        B[11] * x[0] - B[9] * x[2],
        B[9] * x[1] - B[10] * x[0],
    )


@inlined
def factor_transpose_times(B, x):
    """B^T x = (M^T w - s x u, 0); the three numbers that are not zero."""
    return (
        B[0] * x[0] + B[3] * x[1] + B[6] * x[2] - (B[10] * x[5] - B[11] * x[4]),
        B[1] * x[0] + B[4] * x[1] + B[7] * x[2] - (B[11] * x[3] - B[9] * x[5]),
        B[2] * x[0] + B[5] * x[1] + B[8] * x[2] - (B[9] * x[4] - B[10] * x[3]),
    )


@inlined
def turned_inertia(inertia, v):
    """(v x*) I - I (v x): the rate of an inertia that is fixed to a body of twist v = (w, u).

    It is an inertia without mass: h' = w x h + m u, and
    Ibar' = (w x) Ibar - Ibar (w x) + 2 (h . u) 1 - u h^T - h u^T.
    """
    m, hx, hy, hz, a, b, c, d, e, f = inertia
    wx, wy, wz, ux, uy, uz = v
    x, y, z = hx * ux, hy * uy, hz * uz
    return (
        m - m,  # 0 of the type of m
        wy * hz - wz * hy + m * ux,
        wz * hx - wx * hz + m * uy,
        wx * hy - wy * hx + m * uz,
        2.0 * (wy * c - wz * b + y + z),
        wz * (a - d) + wy * e - wx * c - ux * hy - hx * uy,
        wy * (f - a) - wz * e + wx * b - ux * hz - hx * uz,
        2.0 * (wz * b - wx * e + x + z),
        wx * (d - f) + wz * c - wy * b - uy * hz - hy * uz,
        2.0 * (wx * e - wy * c + x + y),
    )


@inlined
def turned_factor(B, v):
    """(v x*) B - B (v x): the rate of a body-level factor that is fixed to a body of twist v = (w, u).

    By blocks, M' = (w x) M - M (w x) + (u x)(s x) and s' = w x s; (u x)(s x) = s u^T - (u . s) 1.
    """
    wx, wy, wz, ux, uy, uz = v
    sx, sy, sz = B[9], B[10], B[11]
    us = ux * sx + uy * sy + uz * sz
    return (
        wy * B[6] - wz * B[3] - (B[1] * wz - B[2] * wy) + sx * ux - us,
        wy * B[7] - wz * B[4] - (B[2] * wx - B[0] * wz) + sx * uy,
        wy * B[8] - wz * B[5] - (B[0] * wy - B[1] * wx) + sx * uz,
        wz * B[0] - wx * B[6] - (B[4] * wz - B[5] * wy) + sy * ux,
        wz * B[1] - wx * B[7] - (B[5] * wx - B[3] * wz) + sy * uy - us,
        wz * B[2] - wx * B[8] - (B[3] * wy - B[4] * wx) + sy * uz,
        wx * B[3] - wy * B[0] - (B[7] * wz - B[8] * wy) + sz * ux,
        wx * B[4] - wy * B[1] - (B[8] * wx - B[6] * wz) + sz * uy,
        wx * B[5] - wy * B[2] - (B[6] * wy - B[7] * wx) + sz * uz - us,
        wy * sz - wz * sy,
        wz * sx - wx * sz,
        wx * sy - wy * sx,
    )


@inlined
def contorsion_factor(inertia, v):
    """N = B(I, v) - (v x*) I = [[e x, F], [-F^T, g x]], fifteen numbers (e, F row by row, g); skew.

    e = u x h - tr(Ibar) w / 2, F = -(w x)(h x) - m (u x), g = -m w; (w x)(h x) = h w^T - (w . h) 1.
    Source: [W] eq. (21) minus [E] eq. (11).
    """
    m, hx, hy, hz = inertia[0], inertia[1], inertia[2], inertia[3]
    wx, wy, wz, ux, uy, uz = v
    half = (inertia[4] + inertia[7] + inertia[9]) * 0.5
    wh = wx * hx + wy * hy + wz * hz
    return (
        uy * hz - uz * hy - half * wx,
        uz * hx - ux * hz - half * wy,
        ux * hy - uy * hx - half * wz,
        wh - hx * wx,
        m * uz - hx * wy,
        -m * uy - hx * wz,
        -m * uz - hy * wx,
        wh - hy * wy,
        m * ux - hy * wz,
        m * uy - hz * wx,
        -m * ux - hz * wy,
        wh - hz * wz,
        -m * wx,
        -m * wy,
        -m * wz,
    )


@inlined
def contorsion_times(N, x):
    """N x = (e x w + F u, g x u - F^T w)."""
    return (
        N[1] * x[2] - N[2] * x[1] + N[3] * x[3] + N[4] * x[4] + N[5] * x[5],
        N[2] * x[0] - N[0] * x[2] + N[6] * x[3] + N[7] * x[4] + N[8] * x[5],
        N[0] * x[1] - N[1] * x[0] + N[9] * x[3] + N[10] * x[4] + N[11] * x[5],
        N[13] * x[5] - N[14] * x[4] - (N[3] * x[0] + N[6] * x[1] + N[9] * x[2]),
        N[14] * x[3] - N[12] * x[5] - (N[4] * x[0] + N[7] * x[1] + N[10] * x[2]),
        N[12] * x[4] - N[13] * x[3] - (N[5] * x[0] + N[8] * x[1] + N[11] * x[2]),
    )


@inlined
def add_numbers(x, y):
    """The sum of two factors of twelve numbers."""
    return (
        x[0] + y[0],
        x[1] + y[1],
        x[2] + y[2],
        x[3] + y[3],
        x[4] + y[4],
        x[5] + y[5],
        x[6] + y[6],
        x[7] + y[7],
        x[8] + y[8],
        x[9] + y[9],
        x[10] + y[10],
        x[11] + y[11],
    )
