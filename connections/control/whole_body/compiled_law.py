"""The numbers of the whole-body law, compiled: what tasks ask for, and the best without bounds.

`controller.py` says what is computed. The unknowns are y = (L^T vdot, f / root_mass) with H = L L^T, all of
the unit kg^(1/2) m/s^2; no row that is compared with a threshold has a unit. Bases are orthonormal and stored
by rows. Matrices are small, so that one compiled function takes half the time of calls of LAPACK from Python;
`engines/inlined/householder.py` is for matrices of full rank.
Source: Golub and Van Loan, Matrix Computations, for ranks by pivots and bases by reflections.
"""

import math

import numpy as np

from connections.engines.inlined.simd import compiled_entry, inlined, routine

RANK = 1e-9  # relative to the longest row: the least part that counts as a direction of its own
DEPENDENT = 1e-7  # of unit rows; products of rows have no digits left for smaller parts
CONTRADICTION = 1e-8  # by which y may miss a row that depends on others, ten times what RANK leaves of it

# What `best` returns.
FREE, BOUNDED, NOT_DEFINITE, NOT_FINITE, CONTRADICTS = 0, 1, 2, 3, 4
OF_TASK = 1000  # + the task whose rows depend on each other
OF_ROW = 2000  # + the row that depends on other tasks of its priority


@inlined
def _dot(x, y, start, stop):
    total = 0.0
    for i in range(start, stop):
        total += x[i] * y[i]
    return total


@inlined
def _copy(x, y, start, stop):
    """x[start:stop] = y[start:stop], which Numba would compile together with the text of an error."""
    for i in range(start, stop):
        x[i] = y[i]


@inlined
def _add(x, factor, y, start, stop):
    for i in range(start, stop):
        x[i] += factor * y[i]


@routine
def products(A, B, found):
    """Write A B^T (m, k), the products of the rows of A (m, d) and B (k, d)."""
    for i in range(len(A)):
        for j in range(len(B)):
            found[i, j] = _dot(A[i], B[j], 0, A.shape[1])


@routine
def combined(A, B, found):
    """Write A B (m, d), by rows of B (k, d)."""
    for i in range(len(A)):
        for j in range(B.shape[1]):
            found[i, j] = 0.0
        for j in range(len(B)):
            _add(found[i], A[i, j], B[j], 0, B.shape[1])


@routine
def cholesky(H, L):
    """Write the lower triangular L, H = L L^T; returns whether H is positive definite."""
    n = len(H)
    L[:] = 0.0
    for i in range(n):
        for j in range(i):
            L[i, j] = (H[i, j] - _dot(L[i], L[j], 0, j)) / L[j, j]
        square = H[i, i] - _dot(L[i], L[i], 0, i)
        if not square > 0.0:
            return False
        L[i, i] = math.sqrt(square)
    return True


@routine
def forward(L, x):
    """Replace x (n,) by L^-1 x."""
    for i in range(len(L)):
        x[i] = (x[i] - _dot(L[i], x, 0, i)) / L[i, i]
    return True


@routine
def backward(L, x):
    """Replace x (n,) by L^-T x."""
    for i in range(len(L) - 1, -1, -1):
        x[i] /= L[i, i]
        _add(x, -x[i], L[i], 0, i)
    return True


@routine
def factorize(B, size, factors, diagonal, order):
    """Reflections of the rows of B (m, d), in place, the longest remaining row first; the rank.

    B^T P = Q R: row k, from entry k on, becomes the vector x of the reflection 1 - factor x x^T; what is
    before that, and `diagonal`, is column k of R. A row counts if it is longer than RANK times `size`, or
    times the longest if that is zero.
    """
    m, d = B.shape
    for j in range(m):
        order[j] = j
    for k in range(min(m, d)):
        largest, chosen = -1.0, k
        for j in range(k, m):
            square = _dot(B[j], B[j], k, d)
            if square > largest:
                largest, chosen = square, j
        pivot = math.sqrt(largest)
        if k == 0 and size == 0.0:
            size = pivot
        if not pivot > RANK * size:
            return k
        if chosen != k:
            order[k], order[chosen] = order[chosen], order[k]
            for i in range(d):
                B[k, i], B[chosen, i] = B[chosen, i], B[k, i]
        diagonal[k] = -pivot if B[k, k] > 0.0 else pivot
        B[k, k] -= diagonal[k]
        factors[k] = 2.0 / _dot(B[k], B[k], k, d)
        for j in range(k + 1, m):
            _add(B[j], -factors[k] * _dot(B[k], B[j], k, d), B[k], k, d)
    return min(m, d)


@routine
def reflect(B, factors, rank, x):
    """Replace x (d,) by Q x."""
    d = B.shape[1]
    for k in range(rank - 1, -1, -1):
        _add(x, -factors[k] * _dot(B[k], x, k, d), B[k], k, d)
    return True


@routine
def least(B, factors, diagonal, order, rank, r, z):
    """Write to z (d,) the coefficients Q^T of the shortest z that minimizes |B z - r|, B factorized."""
    m = len(B)
    z[:] = 0.0
    if rank == m:
        for k in range(m):
            z[k] = (r[order[k]] - _dot(B[k], z, 0, k)) / diagonal[k]
        return True
    # R (rank, m) is upper trapezoidal: x = (R R^T)^-1 R r
    R = np.zeros((rank, m))
    for j in range(m):
        for k in range(min(j, rank)):
            R[k, j] = B[j, k]
        if j < rank:
            R[j, j] = diagonal[j]
    normal, root, right = np.empty((rank, rank)), np.empty((rank, rank)), np.zeros(rank)
    for i in range(rank):
        for j in range(i + 1):
            normal[i, j] = _dot(R[i], R[j], i, m)
        for j in range(i, m):
            right[i] += R[i, j] * r[order[j]]
    good = cholesky(normal, root)
    forward(root, right)
    backward(root, right)
    _copy(z, right, 0, rank)
    return good


@routine
def complement(B, factors, rank):
    """An orthonormal basis, by rows (d - rank, d), of the vectors z with B z = 0, B factorized."""
    d = B.shape[1]
    basis = np.zeros((d - rank, d))
    for i in range(d - rank):
        basis[i, rank + i] = 1.0
        reflect(B, factors, rank, basis[i])
    return basis


@compiled_entry
def task_rows(L, v, C, J, J_dot, errors, D, K, E, rates, ends, W, rows, b):
    """Rows (M, n) and b (M,): tasks are passive if rows L^T vdot = b; the rows of each are orthonormal.

    Of one task they are R^-1 W and R^-1 times J vdot, with the rows W = J L^-T and R R^T = W W^T. With
    v_s = A s, J vdot is

        a_r - Jdot (v - v_s) - J H^-1 C v_s - Lambda^-1 (D s + E^T K e),

    in which Lambda itself does not occur. `errors` has e, the velocity relative to the target's, and the
    target's acceleration; `ends` the first row of each task, and M. W (M, n) is written.
    """
    n = len(L)
    s, force = np.empty(len(J)), np.zeros(len(J))
    for i in range(len(J)):
        _copy(W[i], J[i], 0, n)
        forward(L, W[i])
        _copy(rows[i], W[i], 0, n)
        s[i] = errors[1, i] + rates[i] * errors[0, i]
    for task in range(len(ends) - 1):
        at, end = ends[task], ends[task + 1]
        m = end - at
        G, R, share = np.empty((m, m)), np.empty((m, m)), np.empty(m)
        for i in range(m):
            for j in range(i + 1):
                G[i, j] = _dot(W[at + i], W[at + j], 0, n)
        definite = cholesky(G, R)
        for i in range(m):
            if not definite or not R[i, i] > DEPENDENT * math.sqrt(G[i, i]):
                return OF_TASK + task
        for i in range(m):
            row = rows[at + i]
            for j in range(i):
                _add(row, -R[i, j], rows[at + j], 0, n)
            for j in range(n):
                row[j] /= R[i, i]
            share[i] = s[at + i]
        forward(R, share)
        v_s, turned = np.zeros(n), np.empty(n)
        for i in range(m):
            _add(v_s, share[i], rows[at + i], 0, n)
        backward(L, v_s)
        for i in range(n):
            turned[i] = _dot(C[i], v_s, 0, n)
        forward(L, turned)
        for i in range(n):
            v_s[i] = v[i] - v_s[i]
        for i in range(at, end):
            force[i] += _dot(D[i], s, at, end)
            _add(force, _dot(K[i], errors[0], at, end), E[i], at, end)
            share[i - at] = (
                errors[2, i] - _dot(J_dot[i], v_s, 0, n) - rates[i] * _dot(E[i], errors[1], at, end)
            )
        forward(R, share)
        for i in range(m):
            b[at + i] = share[i] - _dot(rows[at + i], turned, 0, n)
            for j in range(i, m):
                b[at + i] -= R[j, i] * force[at + j]
    return 0


@routine
def independent(rows):
    """Whether rows, orthonormal by groups, are independent: -1, or the first that depends on those before."""
    m, d = rows.shape
    left = rows.copy()
    for j in range(m):
        length = math.sqrt(_dot(left[j], left[j], 0, d))
        if j >= d or not length > DEPENDENT:
            return j
        for i in range(j + 1, m):
            _add(left[i], -_dot(left[j], left[i], 0, d) / length**2, left[j], 0, d)
    return -1


@routine
def contact_rows(H, L, h, v, contact_J, contact_J_dot, damping, per_length, others, root_mass, contact_W,
                 rows, right):  # fmt: skip
    """Write rows (u + k, n + k) and right (u + k,): y is possible if rows y = right.

    No torque at the velocities `others`: with their rows L_o of L, R R^T = L_o L_o^T, and W_c = contact_W,

        R^-1 L_o (L^T vdot + h - W_c^T f) = 0,      h = L^-1 (C v + g),

    orthonormal in their first n columns. Then the contacts,

        J_c vdot = -Jdot_c v - damping J_c v,

    times root_mass and, where it is an angular acceleration, the length of the contact; as functions of
    L^T vdot these are the rows of W_c = J_c L^-T (k, n), which is written, too.
    """
    n, k, u = len(H), len(contact_J), len(others)
    for i in range(k):
        _copy(contact_W[i], contact_J[i], 0, n)
        forward(L, contact_W[i])
        factor = root_mass / per_length[i]
        _add(rows[u + i], factor, contact_W[i], 0, n)
        asked = -_dot(contact_J_dot[i], v, 0, n) - damping * _dot(contact_J[i], v, 0, n)
        right[u + i] = factor * asked
    passive, root = np.empty((u, u)), np.empty((u, u))
    for i in range(u):
        for j in range(u):
            passive[i, j] = H[others[i], others[j]]
    cholesky(passive, root)
    for i in range(u):
        row = rows[i]
        _copy(row, L[others[i]], 0, n)
        for j in range(i):
            _add(row, -root[i, j], rows[j], 0, n)
        for j in range(n):
            row[j] /= root[i, i]
        for j in range(k):
            row[n + j] = -root_mass * _dot(row, contact_W[j], 0, n)
        right[i] = -_dot(row, h, 0, n)
    return True


@routine
def missed(rows, right, count, y, h):
    """Whether y misses one of the first `count` rows by more than CONTRADICTION of the row's terms."""
    d = len(y)
    size = math.sqrt(_dot(y, y, 0, d)) + math.sqrt(_dot(h, h, 0, len(h)))
    for i in range(count):
        terms = size * math.sqrt(_dot(rows[i], rows[i], 0, d)) + abs(right[i])
        if not abs(_dot(rows[i], y, 0, d) - right[i]) <= CONTRADICTION * terms:
            return True
    return False


@routine
def giving_way(rows, right, A, b):
    """Write the level of contacts that give way to the end of the first k rows; returns how many it has.

    Its rows are an orthonormal basis of what `rows` (k, d) span, so that |A y - b| is how far the contacts'
    accelerations miss what they ask for, in the kinetic metric.
    """
    k, d = rows.shape
    factors, diagonal, order, miss = np.empty(k), np.empty(k), np.empty(k, np.int64), np.empty(d)
    rank = factorize(rows, 0.0, factors, diagonal, order)
    least(rows, factors, diagonal, order, rank, right, miss)
    for i in range(rank):
        row = A[k - rank + i]
        row[:] = 0.0
        row[i] = 1.0
        reflect(rows, factors, rank, row)
        b[k - rank + i] = miss[i]
    return rank


@routine
def best_of_levels(A, b, starts, per_length, y, basis):
    """Change y within `basis` to meet level by level as well as possible; returns what all leave open of it.

    Level i has the rows of A from starts[i] to starts[i + 1]. The last one has other rows: small forces.
    """
    d, k = len(y), len(per_length)
    for level in range(len(starts)):
        open_ = len(basis)
        if open_ == 0:
            break
        last = level == len(starts) - 1
        m = k if last else starts[level + 1] - starts[level]
        if m == 0:
            continue
        part, gap = np.empty((m, open_)), np.empty(m)
        for i in range(m):
            if last:
                gap[i] = -per_length[i] * y[d - k + i]
            else:
                at = starts[level] + i
                gap[i] = b[at] - _dot(A[at], y, 0, d)
            for j in range(open_):
                if last:
                    part[i, j] = per_length[i] * basis[j, d - k + i]
                else:
                    part[i, j] = _dot(A[at], basis[j], 0, d)
        factors, diagonal, order = np.empty(m), np.empty(m), np.empty(m, np.int64)
        rank, z = factorize(part, 1.0, factors, diagonal, order), np.empty(open_)
        least(part, factors, diagonal, order, rank, gap, z)
        reflect(part, factors, rank, z)
        for j in range(open_):
            _add(y, z[j], basis[j], 0, d)
        before, basis = basis, np.empty((open_ - rank, d))
        combined(complement(part, factors, rank), before, basis)
    return basis


@routine
def out_of_bounds(cone, motors, joints, places, limits, time, q, v, tau, forces, acceleration, lower, upper):
    """Whether a value is beyond its bounds; those of joints, the last, are written (`bounds.py`)."""
    c, e = len(cone), len(cone) + len(motors)
    beyond = False
    for i in range(e + len(joints)):
        if i < c:
            value = _dot(cone[i], forces, 0, len(forces))
        elif i < e:
            value = tau[motors[i - c]]
        else:
            j = i - e
            u, place = v[joints[j]] / time, q[places[j]] / time**2
            lower[i] = max(limits[0, j] / time**2 - place - 2.0 * u, -limits[2, j] / time - u)
            upper[i] = min(limits[1, j] / time**2 - place - 2.0 * u, limits[2, j] / time - u)
            value = acceleration[joints[j]]
        if not lower[i] <= value <= upper[i]:
            beyond = True
    return beyond


@compiled_entry
def best(H, bias, v, C, J, J_dot, errors, D, K, E, rates, ends, levels, weights, exclusive, contact_J,
         contact_J_dot, damping, held, per_length, others, root_mass, cone, motors, joints, places, limits,
         time, q, least_values, most_values, lower, upper, W, rows, b, A, L, contact_W, y, Z, tau, forces,
         acceleration, sizes):  # fmt: skip
    """The best y without bounds, and what a program within bounds starts from; returns what was found.

    Written are W and rows of the tasks; A (k + M, n + k) and b of all levels, weighted, with the level of
    contacts that give way first; L, contact_W; y, and Z, a basis of the y with contacts that hold; tau,
    forces, acceleration; lower and upper, the bounds, of which the last are those of joints. `sizes` gets the
    number of rows of Z, and that of the contacts' level.
    """
    n, k, M, u = len(H), len(contact_J), len(J), len(others)
    d = n + k
    if n == 0:
        return FREE
    if not cholesky(H, L):
        return NOT_DEFINITE
    h = bias.copy()
    forward(L, h)
    found = task_rows(L, v, C, J, J_dot, errors, D, K, E, rates, ends, W, rows, b[k:])
    if found > 0:
        return found
    for i in range(M):
        if not math.isfinite(b[k + i]):
            return NOT_FINITE
    if exclusive:
        for level in range(len(levels) - 1):
            row = independent(rows[levels[level] : levels[level + 1]])
            if row >= 0:
                return OF_ROW + levels[level] + row
    must, right = np.zeros((u + k, d)), np.empty(u + k)
    contact_rows(H, L, h, v, contact_J, contact_J_dot, damping, per_length, others, root_mass, contact_W,
                 must, right)  # fmt: skip
    count = u + k if held else u
    equal, factors, diagonal = must[:count].copy(), np.empty(count), np.empty(count)
    order = np.empty(count, np.int64)
    rank = factorize(equal, 0.0, factors, diagonal, order)
    least(equal, factors, diagonal, order, rank, right, y)
    reflect(equal, factors, rank, y)
    if rank < count and missed(must, right, count, y, h):
        return CONTRADICTS
    basis = complement(equal, factors, rank)
    for i in range(d - rank):
        _copy(Z[i], basis[i], 0, d)
    first = 0 if held or k == 0 else giving_way(must[u:], right[u:], A, b)
    sizes[0], sizes[1] = d - rank, first
    for i in range(M):
        for j in range(n):
            A[k + i, j] = weights[i] * rows[i, j]
        for j in range(n, d):
            A[k + i, j] = 0.0
        b[k + i] *= weights[i]
    starts = np.empty(len(levels) + 1, np.int64)
    starts[0] = k - first
    for i in range(len(levels)):
        starts[1 + i] = k + levels[i]
    basis = best_of_levels(A, b, starts, per_length, y, basis)
    # What is left is motion, without forces: no torque along it.
    torque = h
    _add(torque, 1.0, y, 0, n)
    for j in range(k):
        _add(torque, -root_mass * y[n + j], contact_W[j], 0, n)
    for i in range(len(basis)):
        _add(y, -_dot(basis[i], torque, 0, n), basis[i], 0, n)
    outward(y, bias, contact_J, others, root_mass, L, tau, forces, acceleration)
    for i in range(n):
        if not math.isfinite(tau[i]) or not math.isfinite(acceleration[i]):
            return NOT_FINITE
    _copy(lower, least_values, 0, len(lower))
    _copy(upper, most_values, 0, len(upper))
    if out_of_bounds(
        cone, motors, joints, places, limits, time, q, v, tau, forces, acceleration, lower, upper
    ):
        return BOUNDED
    return FREE


@compiled_entry
def outward(y, bias, contact_J, others, root_mass, L, tau, forces, acceleration):
    """Write tau (n,), forces (k,) and vdot (n,) of y."""
    n, k = len(L), len(contact_J)
    for i in range(n):
        tau[i] = bias[i] + _dot(L[i], y, 0, i + 1)
        acceleration[i] = y[i]
    backward(L, acceleration)
    for j in range(k):
        forces[j] = root_mass * y[n + j]
        _add(tau, -forces[j], contact_J[j], 0, n)
    for i in others:
        tau[i] = 0.0
    return True


@compiled_entry
def bounded(y, Z, L, contact_W, root_mass, cone, motors, joints, tau, forces, acceleration, lower, upper, G_z,
            room):  # fmt: skip
    """Bounds of z, lower <= G (y + Z^T z) <= upper, in rows of unit length: G_z (p, rows of Z), room (2, p).

    `room` is what y leaves upwards and downwards, divided by the size of the program, which is returned: the
    length of y, or how far y is beyond a bound at most if that is more. So the program has no unit.
    """
    n, k, c, e = len(L), len(contact_W), len(cone), len(cone) + len(motors)
    d, G = n + k, np.zeros((e + len(joints), n + k))
    size = math.sqrt(_dot(y, y, 0, d))
    for i in range(len(G)):
        row = G[i]
        if i < c:
            for j in range(k):
                row[n + j] = root_mass * cone[i, j]
            value = _dot(cone[i], forces, 0, k)
        elif i < e:
            _copy(row, L[motors[i - c]], 0, n)
            for j in range(k):
                row[n + j] = -root_mass * _dot(row, contact_W[j], 0, n)
            value = tau[motors[i - c]]
        else:
            row[joints[i - e]] = 1.0
            forward(L, row[:n])
            value = acceleration[joints[i - e]]
        length = math.sqrt(_dot(row, row, 0, d))
        for j in range(d):
            row[j] /= length
        room[0, i] = (upper[i] - value) / length
        room[1, i] = (lower[i] - value) / length
        size = max(size, -room[0, i], room[1, i])
    for i in range(len(G)):
        room[0, i] /= size
        room[1, i] /= size
    products(G, Z, G_z)
    return size


@compiled_entry
def program(A, b, y, Z, N, z, G_z, room, size, closeness, first, B, P, pull, G_n, now):
    """The program of one level: B = A Z^T N^T, P = B^T B + closeness, pull, G_n, and what room is left.

    N (rows, rows of Z) is a basis of what the levels before left open, z the step so far, over `size`. At the
    first level, N is the identity and z zero.
    """
    dimension, m, d, gap = len(N), len(A), A.shape[1], np.empty(len(A))
    A_z = B if first else np.empty((m, len(Z)))
    products(A, Z, A_z)
    for i in range(m):
        gap[i] = (b[i] - _dot(A[i], y, 0, d)) / size - _dot(A_z[i], z, 0, len(z))
    if not first:
        products(A_z, N, B)
        products(G_z, N, G_n)
    P[:] = 0.0
    pull[:] = 0.0
    for i in range(dimension):
        P[i, i] = closeness
    for i in range(m):
        _add(pull, gap[i], B[i], 0, dimension)
        for j in range(dimension):
            _add(P[j], B[i, j], B[i], 0, dimension)
    for i in range(len(G_z)):
        if first:
            _copy(G_n[i], G_z[i], 0, dimension)
        used = _dot(G_z[i], z, 0, len(z))
        now[0, i], now[1, i] = room[0, i] - used, room[1, i] - used
        if not first:  # what the levels before left is within the bounds, up to round-off
            now[0, i], now[1, i] = max(now[0, i], 0.0), min(now[1, i], 0.0)
    return True


@compiled_entry
def narrowed(B, N, out):
    """Write what rows B leave open of the basis N to `out`; returns the number of its rows."""
    m = len(B)
    left, factors, diagonal, order = B.copy(), np.empty(m), np.empty(m), np.empty(m, np.int64)
    rank = factorize(left, 1.0, factors, diagonal, order)
    combined(complement(left, factors, rank), N, out)
    return len(N) - rank
