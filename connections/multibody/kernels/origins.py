"""Quantities seen from another origin: where a link slides on its parent, the common frame has a new origin.

All quantities are in ground axes, about the origin of their group of links (`tree_packing`). A link that
slides on its parent, and may be far away, begins a group. With d from the parent's origin to its own, from
the parent to the link

    twist, acceleration, column:      (w, u) <- (w, u + w x d),

and from the link to the parent

    wrench, momentum:                 (n, f) <- (n + d x f, f),
    inertia (k = h + m d):            h <- k,  Ibar <- Ibar + (h + k) . d 1 - h d^T - d k^T,
    factor [[M, 0], [s x, 0]]:        M <- M + (d x)(s x) = M + s d^T - (d . s) 1,
    contorsion [[e x, F], [-F^T, g x]]:   e <- e - (tr F) d + F^T d + (d . g) d,  F <- F + (d x)(g x),
    articulated [[A, B], [B^T, D]]:   A <- A - B (d x) + (d x) B^T - (d x) D (d x),  B <- B + (d x) D.

The axes do not change, so no rotation is needed, and where no group begins, nothing is. Inner products
g . w of B^T Phi = (g, 0) with a column are the same about all origins.
"""

from connections.engines.inlined.rows import accumulate
from connections.engines.inlined.simd import inlined, load, store, take
from connections.engines.inlined.vectors import add3, cross3, dot3
from connections.multibody.kernels.layout import LEAP


@inlined
def leap(tree, work, link):
    """d (3,), m, of a link that begins a group: from the origin of its parent's group to that of its own."""
    return take(work, tree.leaps + link * LEAP.size, 3)


@inlined
def twist_seen(x, d):
    """A twist seen from an origin that is farther by d."""
    return (x[0], x[1], x[2], *add3((x[3], x[4], x[5]), cross3((x[0], x[1], x[2]), d)))


@inlined
def wrench_seen(f, d):
    """A wrench seen from an origin that is nearer by d."""
    return (*add3((f[0], f[1], f[2]), cross3(d, (f[3], f[4], f[5]))), f[3], f[4], f[5])


@inlined
def inherited(tree, work, link, slot):
    """The twist in a slot of the parent's record, seen from the origin of the link."""
    x = take(work, slot, 6)
    if tree.begins[link]:
        x = twist_seen(x, leap(tree, work, link))
    return x


@inlined
def wrench_before(tree, work, column, f):
    """A wrench in the frame of a column, seen from the origin of the column before it."""
    if tree.leap_of[column] > 0:
        f = wrench_seen(f, leap(tree, work, tree.leap_of[column]))
    return f


@inlined
def column_seen(tree, Phi, d):
    """A column seen from an origin that is farther by d, which is zero if no group begins below another."""
    if tree.leaping:
        Phi = twist_seen(Phi, d)
    return Phi


@inlined
def distance_to(tree, work, link, above):
    """The way to the origin of a link from that of the link `above`, which carries it."""
    zero = load(work, tree.poses + 1)
    d = (zero, zero, zero)
    if tree.leaping:
        while link != above:
            if tree.begins[link]:
                d = add3(d, leap(tree, work, link))
            link = tree.parent[link]
    return d


@inlined
def distance_before(tree, work, column, d):
    """d and the way to the origin of this column from that of the column before it."""
    if tree.leap_of[column] > 0:
        d = add3(d, leap(tree, work, tree.leap_of[column]))
    return d


# --- records of links, added to those of their parents ------------------------------------------------------
# links, size : first slot of the records of all links, and their size; at : offset of what is added.


@inlined
def add_wrench(tree, work, link, links, size, at):
    """Add the wrench of a link to that of its parent, unless that is the ground."""
    if tree.parent[link] > 0:
        above, own = links + tree.parent[link] * size + at, links + link * size + at
        if tree.begins[link]:
            _add(work, above, wrench_seen(take(work, own, 6), leap(tree, work, link)))
        else:
            accumulate(work, above, own, 6)


@inlined
def add_inertia(tree, work, link, links, size, at):
    """Add the inertia of a link, ten numbers, to that of its parent, unless that is the ground."""
    if tree.parent[link] > 0:
        above, own = links + tree.parent[link] * size + at, links + link * size + at
        if tree.begins[link]:
            m, hx, hy, hz, a, b, c, e, f, g = take(work, own, 10)
            x, y, z = leap(tree, work, link)
            kx, ky, kz = (
                hx + m * x,
                hy + m * y,
                hz + m * z,
            )  # so that Ibar gains k . d + h . d, - h d^T - d k^T
            along = (hx + kx) * x + (hy + ky) * y + (hz + kz) * z
            _add(
                work,
                above,
                (
                    m,
                    kx,
                    ky,
                    kz,
                    a + along - (hx + kx) * x,
                    b - hx * y - x * ky,
                    c - hx * z - x * kz,
                    e + along - (hy + ky) * y,
                    f - hy * z - y * kz,
                    g + along - (hz + kz) * z,
                ),
            )
        else:
            accumulate(work, above, own, 10)


@inlined
def add_factor(tree, work, link, links, size, at):
    """Add the body-level factor of a link, twelve numbers, to that of its parent."""
    if tree.parent[link] > 0:
        above, own = links + tree.parent[link] * size + at, links + link * size + at
        accumulate(work, above, own, 12)
        if tree.begins[link]:
            s, d = take(work, own + 9, 3), leap(tree, work, link)
            inner = dot3(s, d)
            _add(
                work,
                above,
                (
                    s[0] * d[0] - inner,
                    s[0] * d[1],
                    s[0] * d[2],
                    s[1] * d[0],
                    s[1] * d[1] - inner,
                    s[1] * d[2],
                    s[2] * d[0],
                    s[2] * d[1],
                    s[2] * d[2] - inner,
                ),
            )


@inlined
def add_contorsion(tree, work, link, links, size, at):
    """Add the contorsion factor of a link, fifteen numbers, to that of its parent."""
    if tree.parent[link] > 0:
        above, own = links + tree.parent[link] * size + at, links + link * size + at
        accumulate(work, above, own, 15)
        if tree.begins[link]:
            F, g, d = take(work, own + 3, 9), take(work, own + 12, 3), leap(tree, work, link)
            inner = dot3(g, d)
            factor = inner - (F[0] + F[4] + F[8])
            _add(
                work,
                above,
                (
                    d[0] * factor + F[0] * d[0] + F[3] * d[1] + F[6] * d[2],
                    d[1] * factor + F[1] * d[0] + F[4] * d[1] + F[7] * d[2],
                    d[2] * factor + F[2] * d[0] + F[5] * d[1] + F[8] * d[2],
                    g[0] * d[0] - inner,
                    g[0] * d[1],
                    g[0] * d[2],
                    g[1] * d[0],
                    g[1] * d[1] - inner,
                    g[1] * d[2],
                    g[2] * d[0],
                    g[2] * d[1],
                    g[2] * d[2] - inner,
                ),
            )


@inlined
def add_articulated(tree, work, link, links, size, at):
    """Add a link's articulated inertia to its parent's: the upper triangle of a (6, 6) matrix, by rows."""
    if tree.parent[link] > 0:
        above, own = links + tree.parent[link] * size + at, links + link * size + at
        accumulate(work, above, own, 21)
        if tree.begins[link]:
            b0, b1, b2 = take(work, own + 3, 3)
            b3, b4, b5 = take(work, own + 8, 3)
            b6, b7, b8 = take(work, own + 12, 3)
            xx, xy, xz, yy, yz, zz = take(work, own + 15, 6)
            x, y, z = leap(tree, work, link)
            # (d x) D, row by row, and half of its product with (d x)^T: with K = B + (d x) D / 2,
            # A <- A + K (d x)^T + (K (d x)^T)^T
            p0, p1, p2 = y * xz - z * xy, y * yz - z * yy, y * zz - z * yz
            p3, p4, p5 = z * xx - x * xz, z * xy - x * yz, z * xz - x * zz
            p6, p7, p8 = x * xy - y * xx, x * yy - y * xy, x * yz - y * xz
            k0, k1, k2 = b0 + p0 * 0.5, b1 + p1 * 0.5, b2 + p2 * 0.5
            k3, k4, k5 = b3 + p3 * 0.5, b4 + p4 * 0.5, b5 + p5 * 0.5
            k6, k7, k8 = b6 + p6 * 0.5, b7 + p7 * 0.5, b8 + p8 * 0.5
            # L = K (d x)^T: row i is (d cross K_i)
            l00, l01, l02 = y * k2 - z * k1, z * k0 - x * k2, x * k1 - y * k0
            l10, l11, l12 = y * k5 - z * k4, z * k3 - x * k5, x * k4 - y * k3
            l20, l21, l22 = y * k8 - z * k7, z * k6 - x * k8, x * k7 - y * k6
            _add(work, above, (l00 + l00, l01 + l10, l02 + l20, p0, p1, p2))
            _add(work, above + 6, (l11 + l11, l12 + l21, p3, p4, p5))
            _add(work, above + 11, (l22 + l22, p6, p7, p8))


@inlined
def add_point(tree, work, link, links, size):
    """Add the mass and first moment of a link, four numbers, to those of its parent."""
    if tree.parent[link] > 0:
        above, own = links + tree.parent[link] * size, links + link * size
        accumulate(work, above, own, 4)
        if tree.begins[link]:
            m, (x, y, z) = load(work, own), leap(tree, work, link)
            _add(work, above + 1, (m * x, m * y, m * z))


@inlined
def _add(work, slot, numbers):
    for k in range(len(numbers)):
        store(work, slot + k, load(work, slot + k) + numbers[k])
