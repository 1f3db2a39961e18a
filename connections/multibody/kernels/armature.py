"""Armature: what the inertia of the joints' own velocities adds to the results of the other kernels.

A velocity v_j with armature a_j has the kinetic energy a_j v_j^2 / 2 besides that of the bodies. So H has a_j
more on its diagonal. If v = qdot, the metric diag(a) is constant in coordinates, and nothing is added to C
and Gamma. For a spherical joint, v = w, and a free one, v = (w, u), it is the left-invariant metric of a body
of inertia a 1 and mass m at the joint, whose connection is that of [W] (19),

    C = [[a/2 (w x), 0], [0, m (w x)]],    C w' = (a/2 w x w', m w x u'),    C^T = -C,    C v = (0, m w x u),
    Gamma_ijk = a/2 eps_ijk for three angular columns, m eps_ijk for linear i, k and angular j.

It is constant, so that derivatives along frame fields have no more terms. The factor (v x*) I is one of
bodies, so with it armature adds the same. Closed chains: `cluster_armature`.
Source: [W] (19), for the rotors of `definition/rotors.py`.
"""

from connections.engines.inlined.simd import inlined, load, store, take
from connections.engines.inlined.twists import add6, motion_cross
from connections.engines.inlined.vectors import cross3, scale3

# --- trees --------------------------------------------------------------------------------------------------


@inlined
def add_to_mass_matrix(tree, H):
    """Add diag(a) to H, slots H[i nv + j]."""
    if tree.armed:
        for j in range(tree.nv):
            store(H, j * tree.nv + j, load(H, j * tree.nv + j) + tree.armature[j])


@inlined
def add_momentum(tree, work, x, p):
    """Add a_j x_j to slots p[j], for the vector x that begins at slot `x`."""
    if tree.armed:
        for j in range(tree.nv):
            store(p, j, load(p, j) + load(work, x + j) * tree.armature[j])


@inlined
def add_product(tree, work, v, w, sign, product):
    """Add `sign` times C(v) w to slots product[j], for vectors that begin at slots `v` and `w`.

    C is skew, so with sign -1 this is C^T w.
    """
    if tree.armed:
        for number in range(tree.noncommuting_count):
            link = tree.noncommuting[number]
            first = tree.first[link]
            omega = take(work, v + first, 3)
            turned = cross3(omega, take(work, w + first, 3))
            for i in range(3):
                slot, half = first + i, 0.5 * sign * tree.armature[first]
                store(product, slot, load(product, slot) + turned[i] * half)
            if is_free(tree, link):
                turned = cross3(omega, take(work, w + first + 3, 3))
                for i in range(3):
                    slot = first + 3 + i
                    store(product, slot, load(product, slot) + turned[i] * (sign * tree.armature[slot]))


@inlined
def add_to_coriolis_matrix(tree, work, v, C):
    """Add C(v), for the vector that begins at slot `v`, to slots C[i nv + j]."""
    if tree.armed:
        for number in range(tree.noncommuting_count):
            link = tree.noncommuting[number]
            first = tree.first[link]
            for i in range(3):
                for k in range(3):
                    if i != k:
                        j = 3 - i - k
                        entry = load(work, v + first + j) * float(sign_of(i, j, k))
                        at = (first + i) * tree.nv + first + k
                        store(C, at, load(C, at) + entry * (0.5 * tree.armature[first]))
                        if is_free(tree, link):
                            at += 3 * tree.nv + 3
                            store(C, at, load(C, at) + entry * tree.armature[first + 3])


@inlined
def add_to_symbols(tree, Gamma):
    """Add Gamma_ijk, slots Gamma[(i nv + j) nv + k].

    It is added to the symbols of columns of one link that do not commute, which are all written, whether
    mirror images are or not.
    """
    if tree.armed:
        for number in range(tree.noncommuting_count):
            link = tree.noncommuting[number]
            first, nv = tree.first[link], tree.nv
            for i in range(3):
                for k in range(3):
                    if i != k:
                        j = 3 - i - k
                        eps = float(sign_of(i, j, k))
                        at = ((first + i) * nv + first + j) * nv + first + k
                        store(Gamma, at, load(Gamma, at) + 0.5 * eps * tree.armature[first])
                        if is_free(tree, link):
                            at += 3 * nv * nv + 3
                            store(Gamma, at, load(Gamma, at) + eps * tree.armature[first + 3])


@inlined
def add_to_derivatives(tree, work, v, in_v, in_a, out):
    """Add those of H a + C v: in v to slots out[in_v + i nv + j], and in a to slots out[in_a + i nv + j].

    v is the vector that begins at slot `v`; C v = (0, m w x u) has the derivatives m e_j x u and m w x e_j.
    """
    if tree.armed:
        nv = tree.nv
        for j in range(nv):
            at = in_a + j * nv + j
            store(out, at, load(out, at) + tree.armature[j])
        for number in range(tree.noncommuting_count):
            link = tree.noncommuting[number]
            if is_free(tree, link):
                first = tree.first[link]
                for i in range(3):
                    for k in range(3):
                        if i != k:
                            j = 3 - i - k
                            factor = float(sign_of(i, j, k)) * tree.armature[first + 3]
                            at = in_v + (first + 3 + i) * nv + first + 3 + k
                            store(out, at, load(out, at) + load(work, v + first + j) * factor)
                            at = in_v + (first + 3 + i) * nv + first + j
                            store(out, at, load(out, at) + load(work, v + first + 3 + k) * factor)


@inlined
def add_to_second_derivatives(tree, at, out):
    """Add those of C v in v to slots out[at + (i nv + j) nv + k]: m eps_ijk, i and one of j, k linear."""
    if tree.armed:
        nv = tree.nv
        for number in range(tree.noncommuting_count):
            link = tree.noncommuting[number]
            if is_free(tree, link):
                first = tree.first[link]
                for i in range(3):
                    for k in range(3):
                        if i != k:
                            j = 3 - i - k
                            m, row = float(sign_of(i, j, k)) * tree.armature[first + 3], first + 3 + i
                            slot = at + (row * nv + first + j) * nv + first + 3 + k
                            store(out, slot, load(out, slot) + m)
                            slot = at + (row * nv + first + 3 + k) * nv + first + j
                            store(out, slot, load(out, slot) + m)


@inlined
def add_to_hessian_product(tree, work, w, at, out):
    """Add the sum over i of w_i and `add_to_second_derivatives` to slots out[at + j nv + k]."""
    if tree.armed:
        nv = tree.nv
        for number in range(tree.noncommuting_count):
            link = tree.noncommuting[number]
            if is_free(tree, link):
                first = tree.first[link]
                for i in range(3):
                    for k in range(3):
                        if i != k:
                            j = 3 - i - k
                            m = float(sign_of(i, j, k)) * tree.armature[first + 3]
                            value = load(work, w + first + 3 + i) * m
                            slot = at + (first + j) * nv + first + 3 + k
                            store(out, slot, load(out, slot) + value)
                            slot = at + (first + 3 + k) * nv + first + j
                            store(out, slot, load(out, slot) + value)


@inlined
def add_to_curvature_operator(tree, work, K):
    """Add -C(a) + H S_w - 2 C S - H S S of `curvature`, with v and a = -w the first two vectors.

    Column k is -C(a) e_k - H (e_k x a) - 2 C(v) (e_k x v) - H ((e_k x v) x v), for the metric and the symbols
    of armature alone. It is not symmetric, but the sum of all terms is; so entries i <= k are added to both.
    """
    if tree.armed:
        for number in range(tree.noncommuting_count):
            link = tree.noncommuting[number]
            first, nv = tree.first[link], tree.nv
            count = tree.first[link + 1] - first
            v, a = _twist(tree, work, link, tree.vectors), _twist(tree, work, link, tree.vectors + nv)
            for k in range(count):
                unit = _unit(v, k)
                once = motion_cross(unit, v)
                twice = add6(motion_cross(unit, a), motion_cross(once, v))
                of_a, of_v = _product(tree, link, a, unit), _product(tree, link, v, once)
                for i in range(k + 1):
                    value = component(of_a, i) + 2.0 * component(of_v, i)
                    value = -(value + component(twice, i) * tree.armature[first + i])
                    total = load(K, (first + i) * nv + first + k) + value
                    store(K, (first + i) * nv + first + k, total)
                    store(K, (first + k) * nv + first + i, total)


@inlined
def brackets_with_symbols(tree, columns):
    """-s^p_ab Gamma_cpe and -s^p_ac Gamma_bpe for four columns of one link, each at or before the next.

    By eps_pab eps_pce = d_ac d_be - d_ae d_bc. They are not zero only if a and b, or a and c, are angular.
    """
    a, b, c, e = columns
    first = tree.first[tree.link_of[a]]
    one, other = 0.0, 0.0
    if tree.first[tree.link_of[a] + 1] - first > 1 and b < first + 3:
        shift = 3 if c >= first + 3 else 0  # the columns c and e are linear, and m in the place of a / 2
        size = tree.armature[first + 3] if shift else 0.5 * tree.armature[first]
        if shift or e < first + 3:
            one = _one_if(a == c - shift and b == e - shift) - _one_if(a == e - shift and b == c - shift)
            one = one * size
        if e < first + 3:
            other = (_one_if(a == b and c == e) - _one_if(a == e and c == b)) * size
    return one, other


@inlined
def _twist(tree, work, link, vector):
    """The components of the vector that begins at slot `vector`, of a spherical or free link, as a twist."""
    first = tree.first[link]
    w = take(work, vector + first, 3)
    zero = w[0] - w[0]
    u = zero, zero, zero
    if is_free(tree, link):
        u = take(work, vector + first + 3, 3)
    return (*w, *u)


@inlined
def _product(tree, link, x, y):
    """C(x) y = (a/2 w x w', m w x u') for the twists x = (w, u) and y = (w', u') of one link."""
    first = tree.first[link]
    half, m = 0.5 * tree.armature[first], 0.0
    if is_free(tree, link):
        m = tree.armature[first + 3]
    w = x[0], x[1], x[2]
    of_w = scale3(cross3(w, (y[0], y[1], y[2])), half)
    of_u = scale3(cross3(w, (y[3], y[4], y[5])), m)
    return (*of_w, *of_u)


@inlined
def _unit(like, k):
    """The twist of which component k is one, of the type of the twist `like`."""
    zero = like[0] - like[0]
    return (
        zero + _one_if(k == 0),
        zero + _one_if(k == 1),
        zero + _one_if(k == 2),
        zero + _one_if(k == 3),
        zero + _one_if(k == 4),
        zero + _one_if(k == 5),
    )


@inlined
def _one_if(condition):
    return 1.0 if condition else 0.0


@inlined
def component(x, k):
    """Component k of a twist."""
    value = x[5]
    if k == 0:
        value = x[0]
    elif k == 1:
        value = x[1]
    elif k == 2:
        value = x[2]
    elif k == 3:
        value = x[3]
    elif k == 4:
        value = x[4]
    return value


@inlined
def is_free(tree, link):
    """Whether a link whose columns do not commute has six of them, not three."""
    return tree.first[link + 1] - tree.first[link] > 3


@inlined
def sign_of(i, j, k):
    """eps_ijk of the permutation i, j, k of 0, 1, 2."""
    return (i - j) * (j - k) * (k - i) // 2
