"""The numbers of the whole-body law, compiled: what tasks ask for, and the best without bounds.

`controller.py` says what is computed. The unknowns are y = (L^T vdot, f / root_mass) with H = L L^T; bases
are orthonormal and stored by rows. Matrices are small, so that one compiled function is faster than the calls
of LAPACK from Python that it replaces.
Source: Golub and Van Loan, Matrix Computations, section 5.4, for ranks by pivots and bases by reflections.
"""

import math

import numpy as np

from connections.engines.inlined.simd import inlined, one

RANK = 1e-9  # of rows of unit length: the least part that counts as a direction of its own
DEPENDENT = 1e-7  # of unit rows; products of rows have no digits left for smaller parts
CONTRADICTION = 1e-6  # of accelerations that dependent contacts ask for, relative to the largest

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
def _add(x, factor, y, start, stop):
    for i in range(start, stop):
        x[i] += factor * y[i]


@one
def products(A, B):
    """A B^T, the products of the rows of A (m, d) and B (k, d)."""
    m, k, d = len(A), len(B), A.shape[1]
    found = np.empty((m, k))
    for i in range(m):
        for j in range(k):
            found[i, j] = _dot(A[i], B[j], 0, d)
    return found


@one
def combined(A, B):
    """A B, by rows of B (k, d)."""
    m, k, d = len(A), len(B), B.shape[1]
    found = np.zeros((m, d))
    for i in range(m):
        for j in range(k):
            _add(found[i], A[i, j], B[j], 0, d)
    return found


@one
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


@one
def forward(L, x):
    """Replace x (n,) by L^-1 x."""
    for i in range(len(L)):
        x[i] = (x[i] - _dot(L[i], x, 0, i)) / L[i, i]
    return True


@one
def backward(L, x):
    """Replace x (n,) by L^-T x."""
    for i in range(len(L) - 1, -1, -1):
        x[i] /= L[i, i]
        _add(x, -x[i], L[i], 0, i)
    return True


@one
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


@one
def reflect(B, factors, rank, x):
    """Replace x (d,) by Q x."""
    d = B.shape[1]
    for k in range(rank - 1, -1, -1):
        _add(x, -factors[k] * _dot(B[k], x, k, d), B[k], k, d)
    return True


@one
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
    z[:rank] = right
    return good


@one
def opened(B, factors, rank, Z):
    """A basis, by rows, of what rows B, factorized, leave open of the basis Z (d, columns)."""
    d, left = B.shape[1], B.shape[1] - rank
    basis = np.zeros((left, d))
    for i in range(left):
        basis[i, rank + i] = 1.0
        reflect(B, factors, rank, basis[i])
    return combined(basis, Z)


@one
def wishes(L, v, C, J, J_dot, errors, D, K, E, rates, ends, W, rows, b):
    """Rows (M, n) and b (M,): tasks are passive if rows L^T vdot = b; the rows of each are orthonormal.

    Of one task they are R^-1 W and R^-1 times J vdot, with the rows W = J L^-T and R R^T = W W^T. With
    v_s = A s, J vdot is

        a_r - Jdot (v - v_s) - J H^-1 C v_s - Lambda^-1 (D s + E^T K e),

    in which Lambda itself does not occur. `errors` has e, the velocity relative to the target's, and the
    target's acceleration; `ends` the first row of each task, and M. W (M, n) is written.
    """
    n = len(L)
    for i in range(len(J)):
        W[i] = J[i]
        forward(L, W[i])
        rows[i] = W[i]
    for task in range(len(ends) - 1):
        at, end = ends[task], ends[task + 1]
        m = end - at
        G, R, s, force = np.empty((m, m)), np.empty((m, m)), np.empty(m), np.zeros(m)
        for i in range(m):
            for j in range(i + 1):
                G[i, j] = _dot(W[at + i], W[at + j], 0, n)
        definite = cholesky(G, R)
        for i in range(m):
            if not definite or not R[i, i] > DEPENDENT * math.sqrt(G[i, i]):
                return OF_TASK + task
        v_s, turned, share = np.zeros(n), np.zeros(n), np.empty(m)
        for i in range(m):
            row = rows[at + i]
            for j in range(i):
                _add(row, -R[i, j], rows[at + j], 0, n)
            for j in range(n):
                row[j] /= R[i, i]
            s[i] = errors[1, at + i] + rates[at + i] * errors[0, at + i]
            share[i] = s[i]
        forward(R, share)
        for i in range(m):
            _add(v_s, share[i], rows[at + i], 0, n)
        backward(L, v_s)
        for i in range(n):
            turned[i] = _dot(C[i], v_s, 0, n)
        forward(L, turned)
        for i in range(n):
            v_s[i] = v[i] - v_s[i]
        for i in range(at, end):
            force[i - at] += _dot(D[i, at:end], s, 0, m)
            stretched = _dot(K[i, at:end], errors[0, at:end], 0, m)
            _add(force, stretched, E[i, at:end], 0, m)
            rate = rates[i] * _dot(E[i, at:end], errors[1, at:end], 0, m)
            b[i] = errors[2, i] - _dot(J_dot[i], v_s, 0, n) - rate
        forward(R, b[at:end])
        for i in range(m):
            b[at + i] -= _dot(rows[at + i], turned, 0, n)
            for j in range(i, m):
                b[at + i] -= R[j, i] * force[j]
    return 0


@one
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


@one
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
    found = wishes(L, v, C, J, J_dot, errors, D, K, E, rates, ends, W, rows, b[k:])
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
    # Contacts that hold, and no force where no motor is.
    count = u + k if held else u
    equal, right = np.zeros((count, d)), np.empty(count)
    wanted = np.empty(k)
    for i in range(k):
        contact_W[i] = contact_J[i]
        forward(L, contact_W[i])
        wanted[i] = -_dot(contact_J_dot[i], v, 0, n) - damping * _dot(contact_J[i], v, 0, n)
        if held:
            equal[u + i, :n] = contact_W[i]
            right[u + i] = wanted[i]
    passive, root = np.empty((u, u)), np.empty((u, u))
    for i in range(u):
        for j in range(u):
            passive[i, j] = H[others[i], others[j]]
    cholesky(passive, root)
    for i in range(u):
        row = equal[i]
        row[:n] = L[others[i]]
        for j in range(i):
            _add(row, -root[i, j], equal[j], 0, n)
        for j in range(n):
            row[j] /= root[i, i]
        for j in range(k):
            row[n + j] = -root_mass * _dot(row, contact_W[j], 0, n)
        right[i] = -_dot(row, h, 0, n)
    factors, diagonal, order = np.empty(count), np.empty(count), np.empty(count, np.int64)
    kept = equal.copy()
    rank = factorize(equal, 0.0, factors, diagonal, order)
    least(equal, factors, diagonal, order, rank, right, y)
    reflect(equal, factors, rank, y)
    if rank < count:
        gap, largest = 0.0, 0.0
        for i in range(count):
            gap = max(gap, abs(_dot(kept[i], y, 0, d) - right[i]))
            largest = max(largest, abs(right[i]))
        if not gap <= CONTRADICTION * (1.0 + largest):
            return CONTRADICTS
    dimension = d - rank
    basis = np.zeros((dimension, d))
    for i in range(dimension):
        basis[i, rank + i] = 1.0
        reflect(equal, factors, rank, basis[i])
    Z[:dimension] = basis
    # Levels: contacts that give way, tasks, least forces.
    first = 0
    if not held and k > 0:
        soft, factors, diagonal = contact_W.copy(), np.empty(k), np.empty(k)
        order, miss = np.empty(k, np.int64), np.empty(n)
        first = factorize(soft, 0.0, factors, diagonal, order)
        least(soft, factors, diagonal, order, first, wanted, miss)
        for i in range(first):
            A[k - first + i] = 0.0
            A[k - first + i, i] = 1.0
            reflect(soft, factors, first, A[k - first + i, :n])
            b[k - first + i] = miss[i]
    sizes[0], sizes[1] = dimension, first
    for i in range(M):
        A[k + i, n:] = 0.0
        for j in range(n):
            A[k + i, j] = weights[i] * rows[i, j]
        b[k + i] *= weights[i]
    for level in range(-1, len(levels)):
        if len(basis) == 0:
            break
        start, stop = k - first, k
        if level >= 0:
            start, stop = k + levels[level], k + levels[level + 1] if level + 1 < len(levels) else k + M
        if level == len(levels) - 1:  # forces are to vanish
            part, gap_ = np.empty((k, len(basis))), np.empty(k)
            for i in range(k):
                gap_[i] = -per_length[i] * y[n + i]
                for j in range(len(basis)):
                    part[i, j] = per_length[i] * basis[j, n + i]
        else:
            part, gap_ = products(A[start:stop], basis), np.empty(stop - start)
            for i in range(stop - start):
                gap_[i] = b[start + i] - _dot(A[start + i], y, 0, d)
        m = len(part)
        factors, diagonal, order = np.empty(m), np.empty(m), np.empty(m, np.int64)
        rank, z = factorize(part, 1.0, factors, diagonal, order), np.empty(len(basis))
        least(part, factors, diagonal, order, rank, gap_, z)
        reflect(part, factors, rank, z)
        for j in range(len(basis)):
            _add(y, z[j], basis[j], 0, d)
        basis = opened(part, factors, rank, basis)
    # What is left is motion, without forces: no torque along it.
    torque = h.copy()
    for i in range(n):
        torque[i] += y[i]
    for j in range(k):
        _add(torque, -root_mass * y[n + j], contact_W[j], 0, n)
    for i in range(len(basis)):
        _add(y, -_dot(basis[i], torque, 0, n), basis[i], 0, n)
    outward(y, bias, contact_J, others, root_mass, L, tau, forces, acceleration)
    for i in range(n):
        if not math.isfinite(tau[i]) or not math.isfinite(acceleration[i]):
            return NOT_FINITE
    lower[:], upper[:] = least_values, most_values
    at = len(lower) - len(joints)
    for i in range(len(joints)):  # what `bounds.py` says of joints
        u, place = v[joints[i]] / time, q[places[i]] / time**2
        lower[at + i] = max(limits[0, i] / time**2 - place - 2.0 * u, -limits[2, i] / time - u)
        upper[at + i] = min(limits[1, i] / time**2 - place - 2.0 * u, limits[2, i] / time - u)
    for i in range(len(cone)):
        if not _dot(cone[i], forces, 0, k) >= lower[i]:
            return BOUNDED
    at = len(cone)
    for i in range(len(motors)):
        if not lower[at + i] <= tau[motors[i]] <= upper[at + i]:
            return BOUNDED
    at += len(motors)
    for i in range(len(joints)):
        if not lower[at + i] <= acceleration[joints[i]] <= upper[at + i]:
            return BOUNDED
    return FREE


@one
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


@one
def bounded(Z, L, contact_W, root_mass, cone, motors, joints, tau, forces, acceleration, lower, upper, scale,
            G_z, room):  # fmt: skip
    """Bounds of z, lower <= G (y + Z^T z) <= upper, in rows of unit length: G_z (p, rows of Z), room (2, p).

    `room` is what y leaves upwards and downwards, divided by `scale`.
    """
    n, k, c, e = len(L), len(contact_W), len(cone), len(cone) + len(motors)
    d, G = n + k, np.zeros((e + len(joints), n + k))
    for i in range(len(G)):
        row = G[i]
        if i < c:
            for j in range(k):
                row[n + j] = root_mass * cone[i, j]
            value = _dot(cone[i], forces, 0, k)
        elif i < e:
            row[:n] = L[motors[i - c]]
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
        room[0, i] = (upper[i] - value) / (length * scale)
        room[1, i] = (lower[i] - value) / (length * scale)
    G_z[:] = products(G, Z)
    return True


@one
def program(A, b, y, Z, N, z, G_z, room, scale, closeness, first, B, P, pull, G_n, now):
    """The program of one level: B = A Z^T N^T, P = B^T B + closeness, pull, G_n, and what room is left.

    N (rows, rows of Z) is a basis of what the levels before left open, z the step so far, over `scale`.
    """
    dimension, m = len(N), len(A)
    d, A_z = A.shape[1], products(A, Z)
    gap = np.empty(m)
    for i in range(m):
        gap[i] = (b[i] - _dot(A[i], y, 0, d)) / scale - _dot(A_z[i], z, 0, len(z))
    B[:] = products(A_z, N)
    P[:] = 0.0
    pull[:] = 0.0
    for i in range(dimension):
        P[i, i] = closeness
    for i in range(m):
        _add(pull, gap[i], B[i], 0, dimension)
        for j in range(dimension):
            _add(P[j], B[i, j], B[i], 0, dimension)
    G_n[:] = products(G_z, N)
    for i in range(len(G_z)):
        used = _dot(G_z[i], z, 0, len(z))
        now[0, i], now[1, i] = room[0, i] - used, room[1, i] - used
        if not first:  # what the levels before left is within the bounds, up to round-off
            now[0, i], now[1, i] = max(now[0, i], 0.0), min(now[1, i], 0.0)
    return True


@one
def narrowed(B, N, out):
    """Write what rows B leave open of the basis N to `out`; returns the number of its rows."""
    m = len(B)
    left, factors, diagonal, order = B.copy(), np.empty(m), np.empty(m), np.empty(m, np.int64)
    rank = factorize(left, 1.0, factors, diagonal, order)
    out[: len(N) - rank] = opened(left, factors, rank, N)
    return len(N) - rank
