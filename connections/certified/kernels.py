"""Second derivatives of H bounded within a box, and eigenvalues of many corners, compiled.

Lengths of a box: a point p behind a joint k moves, seen from k, by at most the sum over the joints j between
them of h_j L_j, half the width of the box times j's lever of p. With r_k and z_k in the middle of the box

    L_k <= |z_k x r_k| + sum_j h_j L_j,    |z_k x z_i| <= |z_k x z_i| in the middle + sum_j h_j |z_j x z_i|,

and so on, from the outermost joint inward. None is larger than that of all postures.

Eigenvalues: all of a symmetric A are below t if the Cholesky factorization of t - A succeeds; in floating
point they are below t + (n + 2) u tr(t - A). Source: S. M. Rump, BIT 46, 433 (2006).
"""

import math

import numpy as np

from connections.engines.inlined.simd import unreassociated_batch_entry, without_reassociation

HINGE, SLIDE, HELD = 0, 1, 2  # kinds of steps: those that are held have coordinates that are no angles
PARENT, KIND, COORDINATE, COMPONENT, COUNT = 0, 1, 2, 3, 4  # columns of `steps`
START, AXES, MASS, MOMENT, SPREAD = 0, 3, 3, 4, 5  # of `geometry` and of `bodies`
_ROUNDING = 1e-12  # of lengths, relative to those of all postures: far above that of positions


@without_reassociation
def _cross_size(a, i, b, j):
    """The length of the vector product of rows of two arrays."""
    x = a[i, 1] * b[j, 2] - a[i, 2] * b[j, 1]
    y = a[i, 2] * b[j, 0] - a[i, 0] * b[j, 2]
    z = a[i, 0] * b[j, 1] - a[i, 1] * b[j, 0]
    return math.sqrt(x * x + y * y + z * z)


@without_reassociation
def _turned(R, s, angle, x, y, z):
    """Replace R[s] by R[s] exp(angle [axis x])."""
    c, d = math.cos(angle), math.sin(angle)
    e = 1.0 - c
    for i in range(3):
        a, b, f = R[s, i, 0], R[s, i, 1], R[s, i, 2]
        along = e * (a * x + b * y + f * z)
        R[s, i, 0] = c * a + d * (b * z - f * y) + along * x
        R[s, i, 1] = c * b + d * (f * x - a * z) + along * y
        R[s, i, 2] = c * f + d * (a * y - b * x) + along * z


@without_reassociation
def _place(steps, geometry, motions, middle, R, o, z, turns):
    """Rotations R (S, 3, 3) behind steps, origins o (S, 3) of their axes, and axes z (n, 3) in one frame."""
    ends = np.zeros((len(steps), 3))
    for s in range(len(steps)):
        up, kind, c = steps[s, PARENT], steps[s, KIND], steps[s, COMPONENT]
        for i in range(3):
            for j in range(3):
                total = 0.0
                if up < 0:
                    total = geometry[s, AXES + 3 * i + j]
                else:
                    for k in range(3):
                        total += R[up, i, k] * geometry[s, AXES + 3 * k + j]
                R[s, i, j] = total
            o[s, i] = 0.0
            if up >= 0:
                o[s, i] = ends[up, i]
                for k in range(3):
                    o[s, i] += R[up, i, k] * geometry[s, START + k]
        for a in range(steps[s, COUNT]):
            at = 0 if turns[c + a] else 3
            for i in range(3):
                z[c + a, i] = 0.0
                for k in range(3):
                    z[c + a, i] += R[s, i, k] * motions[c + a, at + k]
        for i in range(3):
            ends[s, i] = o[s, i]
            if kind == SLIDE:
                ends[s, i] += middle[steps[s, COORDINATE]] * z[c, i]
        if kind == HINGE:
            angle = middle[steps[s, COORDINATE]]
            _turned(R, s, angle, motions[c, 0], motions[c, 1], motions[c, 2])
    return ends


@without_reassociation
def _reach(steps, half, turns, o, z, p, s, known, slack, levers, heights, distances, row):
    """Levers, heights and distances of a point p (1, 3) that step s carries, in a row of each.

    `known` has those of all postures in its three tables.
    """
    apart, r = 0.0, np.zeros((1, 3))
    while s >= 0:
        for i in range(3):
            r[0, i] = p[0, i] - o[s, i]
        far = math.sqrt(r[0, 0] * r[0, 0] + r[0, 1] * r[0, 1] + r[0, 2] * r[0, 2]) + apart + slack
        most = 0.0
        for c in range(steps[s, COMPONENT], steps[s, COMPONENT] + steps[s, COUNT]):
            distances[row, c] = min(far, known[2, row, c])
            if turns[c]:
                levers[row, c] = min(_cross_size(z, c, r, 0) + apart + slack, known[0, row, c])
                high = abs(z[c, 0] * r[0, 0] + z[c, 1] * r[0, 1] + z[c, 2] * r[0, 2])
                heights[row, c] = min(high + apart + slack, known[1, row, c])
            else:
                levers[row, c], heights[row, c] = 1.0, 0.0
            most = levers[row, c]
        if steps[s, KIND] != HELD:
            apart += half[steps[s, COORDINATE]] * most
        s = steps[s, PARENT]


@without_reassociation
def _lengths(steps, geometry, motions, bodies, last, middle, half, turns, known, between, reach, local, axes):
    """Fill local, (3, N, n) levers, heights, distances, and axes, (3, n, n) tilts, cosines, origins."""
    n, S = len(turns), len(steps)
    R, o, z, p = np.zeros((S, 3, 3)), np.zeros((S, 3)), np.zeros((n, 3)), np.zeros((1, 3))
    ends = _place(steps, geometry, motions, middle, R, o, z, turns)
    for b in range(len(last)):
        s = last[b]
        if s < 0:
            continue
        for i in range(3):
            p[0, i] = ends[s, i]
            for k in range(3):
                p[0, i] += R[s, i, k] * bodies[b, k]
        _reach(steps, half, turns, o, z, p, s, known, _ROUNDING * reach[b], local[0], local[1], local[2], b)
    most = reach.max() if len(reach) else 0.0
    spare = np.zeros((2, 1, n))
    for s in range(S):
        if steps[s, PARENT] < 0:
            continue
        p[0, 0], p[0, 1], p[0, 2] = o[s, 0], o[s, 1], o[s, 2]
        lever = np.zeros((1, n))
        first, count = steps[s, COMPONENT], steps[s, COUNT]
        _reach(
            steps, half, turns, o, z, p, steps[s, PARENT], between[:, first : first + 1], _ROUNDING * most,
            lever, spare[0], spare[1], 0,
        )  # fmt: skip
        for i in range(first, first + count):
            for k in range(n):
                axes[2, k, i] = lever[0, k]
            up, apart = steps[s, PARENT], 0.0
            while up >= 0:
                largest = 0.0
                for k in range(steps[up, COMPONENT], steps[up, COMPONENT] + steps[up, COUNT]):
                    if turns[k] and turns[i]:
                        sine = _cross_size(z, k, z, i) + apart + _ROUNDING
                        cosine = abs(z[k, 0] * z[i, 0] + z[k, 1] * z[i, 1] + z[k, 2] * z[i, 2])
                        axes[0, k, i] = min(sine, axes[0, k, i])
                        axes[1, k, i] = min(cosine + apart + _ROUNDING, axes[1, k, i])
                        largest = axes[0, k, i]
                if steps[up, KIND] == HINGE:
                    apart += half[steps[up, COORDINATE]] * largest
                up = steps[up, PARENT]


@without_reassociation
def _centre(known, local, axes, b, k, i):
    """The distance from the axis of k of the centre of the circle on which i turns the centre of body b.

    On the whole circle that lever is at most the known one, and in the box it differs from it by the radius.
    """
    far = axes[2, k, i] + local[1, b, i] * axes[0, k, i]
    return min(far, known[0, b, k], local[0, b, k] + local[0, b, i])


@without_reassociation
def _bend(i, turns, carries, before, bodies, known, local, axes, out):
    """Lower the bounds (n, n) in out of second derivatives along the angle of component i (`lengths`).

    All that enters is independent of that angle. With the circle's centre seen as a, c_k = a + z_k x rho, and
    c_l, which turns with i, |d^2 (c_k . c_l)| = |a . c_l' + z_k . (rho x c_l'')|, c_l' and c_l'' the parts of
    c_l across the axis and along it.
    """
    n, N = len(turns), len(bodies)
    levers, heights, distances = local[0], local[1], local[2]
    tilts, cosines, origins = axes[0], axes[1], axes[2]
    rho = high = square = spread = 0.0
    for b in range(N):
        if carries[b, i]:
            mass, lever = bodies[b, MASS], levers[b, i]
            rho += mass * lever
            high += mass * min(heights[b, i] * lever, distances[b, i] ** 2 / 2.0)
            square += mass * lever * lever
            spread += bodies[b, SPREAD]
    for k in range(n):
        if not before[k, i]:
            continue
        tilt = tilts[k, i] if turns[k] else 0.0
        apart = origins[k, i] if turns[k] else 1.0
        at_axis = rho * apart + (high + spread / 2.0) * tilt
        for m in range(n):  # of degree 1
            if m != i and not before[i, m]:
                continue
            total = 0.0
            for b in range(N):
                if carries[b, i] and carries[b, m]:
                    one = 1.0
                    if turns[k]:
                        one = math.hypot(_centre(known, local, axes, b, k, i), tilt * levers[b, i])
                    total += bodies[b, MASS] * one * levers[b, m]
                    if turns[m]:
                        total += bodies[b, MOMENT] * tilt
            if m == i:
                total = min(total, at_axis)
            out[k, m] = out[m, k] = min(out[k, m], total * (1.0 + 1e-9))
        for m in range(k, n):  # of degree 2
            if not before[m, i]:
                continue
            other = tilts[m, i] if turns[m] else 0.0
            circle = 0.0
            for b in range(N):
                if carries[b, i]:
                    one = 1.0
                    if turns[k]:
                        one = _centre(known, local, axes, b, k, i)
                    two = 1.0
                    if turns[m]:
                        two = _centre(known, local, axes, b, m, i)
                    circle += (
                        bodies[b, MASS]
                        * levers[b, i]
                        * ((one if turns[m] else 0.0) + (two if turns[k] else 0.0))
                    )
            total = 0.0
            if turns[m]:
                total += rho * apart
            if turns[k]:
                total += rho * (origins[m, i] if turns[m] else 1.0)
            total += high * (tilt * (cosines[m, i] if turns[m] else 0.0))
            total += high * (other * (cosines[k, i] if turns[k] else 0.0))
            total = min(total, circle) + 2.0 * square * tilt * other
            total += spread * (2.0 * tilt * other)
            total += spread * ((tilt if turns[m] else 0.0) + (other if turns[k] else 0.0)) / 2.0
            out[k, m] = out[m, k] = min(out[k, m], total * (1.0 + 1e-9))


def local_bends(
    steps, geometry, motions, bodies, last, turns, carries, before, known, between, angles, reach,
    bends, components, middle, half, levers, out,
):  # fmt: skip
    """Bounds (B, m, n, n) of second derivatives of H within boxes, and levers (B, N, n) of the bodies.

    Parameters
    ----------
    steps : (S, 5) elementary joints: the step before, kind, coordinate, first component, number of these.
    geometry : (S, 12) starts, m, and rotations in the frame behind the step before.
    motions : (n, 6) twists of components.
    bodies : (N, 6) centres, m, masses, moments, spreads. last : (N,) the steps that carry them.
    turns, carries, before, reach : as in `Lengths`.
    known, between, angles : its levers, heights, distances (3, N, n) and (3, n, n), the same of origins;
        tilts, cosines, origins (3, n, n).
    bends : (m, n, n) at all postures. components : (m,) along which.
    middle, half : (B, m) the middles of boxes and half of their widths.
    """
    axes, local = np.empty_like(angles), np.empty_like(known)
    for box in range(len(middle)):
        axes[:], local[:] = angles, known
        _lengths(
            steps, geometry, motions, bodies, last, middle[box], half[box], turns, known, between, reach,
            local, axes,
        )  # fmt: skip
        levers[box] = local[0]
        for row in range(len(components)):
            out[box, row] = bends[row]
            if turns[components[row]]:
                _bend(components[row], turns, carries, before, bodies, known, local, axes, out[box, row])


local_bends_rows = unreassociated_batch_entry(local_bends)


@without_reassociation
def _factored(f, box, corner, sign, less, diagonal, A):
    """Whether sign f - less - diag(diagonal) has a Cholesky factorization, computed in A."""
    n = A.shape[0]
    for i in range(n):
        for j in range(i + 1):
            total = sign * f[box, corner, i, j] - less[i, j]
            if i == j:
                total -= diagonal[i]
            for k in range(j):
                total -= A[i, k] * A[j, k]
            if i > j:
                A[i, j] = total / A[j, j]
            elif total > 0.0:
                A[i, i] = math.sqrt(total)
            else:
                return False
    return True


@without_reassociation
def _largest_of(f, box, corner, sign, shift, both, x, y):
    """An eigenvalue of sign f + diag(shift) in a corner, as a rule the largest, and its vector, from x on.

    By powers; where the eigenvalue of the largest size is negative, again, of a matrix whose own is positive.
    If `both`, that of the largest size will do.
    """
    n, value, more = len(x), 0.0, 0.0
    for turn in range(60):
        size = along = 0.0
        for i in range(n):
            total = (shift[box, i] + more) * x[i]
            for j in range(n):
                total += sign * f[box, corner, i, j] * x[j]
            y[i] = total
            along += total * x[i]
            size += total * total
        still = abs(along - more - value) <= 1e-4 * abs(along)
        value = along - more
        size = math.sqrt(size)
        if size == 0.0:
            break
        for i in range(n):
            x[i] = y[i] / size
        if still and turn > 2:
            if both or value >= 0.0 or more > 0.0:
                break
            more = -value
            for i in range(n):
                x[i] = 1.0 / math.sqrt(n) + 0.1 * x[(i + 1) % n]
    return value


@without_reassociation
def _along(f, box, corner, x):
    """x^T f x / 2, f symmetric."""
    total = 0.0
    for i in range(len(x)):
        row = 0.5 * f[box, corner, i, i] * x[i]
        for j in range(i):
            row += f[box, corner, i, j] * x[j]
        total += row * x[i]
    return total


def largest(f, shift, both, enough, slack, ends, vectors, sizes, known):
    """Ends (B,) above all eigenvalues of f + diag(shift), f (B, C, n, n), and unit vectors (B, n).

    A guess by powers, from the vectors that are given, is raised until the factorizations of all corners
    succeed.

    Parameters
    ----------
    both : whether of -f + diag(shift), too; these are further corners.
    enough : an end that is below it need not be sharp.
    slack : of what shift adds in the direction of the vector, by which an end need not be sharp.
    sizes : (B,) the largest sums of |end|, |f_kk| and |shift_k| over k, by which rounding is bounded.
    known : (B,) whether an end was found; the ends of others are not proved.
    """
    boxes, corners, n = f.shape[0], f.shape[1], f.shape[2]
    A, nothing = np.zeros((n, n)), np.zeros((n, n))
    x, y, diagonal = np.zeros(n), np.zeros(n), np.zeros(n)
    count = 2 * corners if both else corners
    for box in range(boxes):
        x[:] = vectors[box]
        at, most = 0, -np.inf
        for corner in range(corners):
            total = _along(f, box, corner, x)
            if total > most:
                most, at = total, corner
            if both and -total > most:
                most, at = -total, corner + corners
        corner, lowest, step, end = 0, 0, 0.01, -np.inf
        known[box] = False
        for _ in range(60):
            sign = -1.0 if at >= corners else 1.0
            value = _largest_of(f, box, at % corners, sign, shift, False, x, y)
            spare = 0.0
            for k in range(n):
                spare += x[k] * x[k] * abs(shift[box, k])
            spare *= slack
            end = max(end, value + spare + 1e-12 * abs(value) + 1e-290)  # of the same, none is positive
            corner = lowest
            for k in range(n):
                diagonal[k] = shift[box, k] - end
            while corner < count:
                sign = 1.0 if corner >= corners else -1.0
                if not _factored(f, box, corner % corners, sign, nothing, diagonal, A):
                    break
                corner += 1
            if corner == count:
                known[box] = True
                break
            if corner == at and corner == lowest:  # powers converge slowly
                if step > 0.1:
                    break
                end += step * (spare / slack + 1e-9 * abs(end))
                step *= 2.0
            end = max(end, enough)
            lowest = at = corner
        ends[box] = end
        vectors[box] = x
        sizes[box] = 0.0
        for corner in range(corners):
            total = n * abs(end)
            for k in range(n):
                total += abs(f[box, corner, k, k]) + abs(shift[box, k])
            sizes[box] = max(sizes[box], total)


largest_rows = unreassociated_batch_entry(largest)


def directions(f, rest, both, x, vectors):
    """x (B, n) > 0 for which diag(rest x / x) adds little to the eigenvalue of corners f (B, C, n, n).

    Of the largest eigenvalue, or, if `both`, of the largest size. Only how sharp an end is depends on it.

    Parameters
    ----------
    rest : (B, n, n), not negative. vectors : (B, n) unit vectors near those of the eigenvalue.
    """
    boxes, corners, n = f.shape[0], f.shape[1], f.shape[2]
    mean, none = np.zeros((1, 1, n, n)), np.zeros((1, n))
    v, y = np.zeros(n), np.zeros(n)
    for box in range(boxes):
        mean[:] = 0.0
        for corner in range(corners):
            for i in range(n):
                for j in range(n):
                    mean[0, 0, i, j] += f[box, corner, i, j] / corners
        top = 0
        for i in range(n):
            if abs(mean[0, 0, i, i]) > abs(mean[0, 0, top, top]):
                top = i
        for i in range(n):
            v[i] = mean[0, 0, i, top] + (1e-3 if i == top else 0.0)
        value = _largest_of(mean, 0, 0, 1.0, none, both, v, y)
        sign = -1.0 if both and value < 0.0 else 1.0
        for i in range(n):
            vectors[box, i] = v[i]
            x[box, i] = abs(v[i]) + 1e-3
        for _ in range(12):
            most = 0.0
            for i in range(n):
                total = 0.0
                for j in range(n):
                    one = (
                        sign * mean[0, 0, i, j] if (v[i] < 0.0) == (v[j] < 0.0) else -sign * mean[0, 0, i, j]
                    )
                    total += (max(one, 0.0) + 2.0 * rest[box, i, j]) * x[box, j]
                y[i] = total
                most = max(most, total)
            if not most > 0.0:
                break
            for i in range(n):
                x[box, i] = y[i] / most
        for i in range(n):
            x[box, i] = max(x[box, i], 1e-9)


directions_rows = unreassociated_batch_entry(directions)


@without_reassociation
def _inverse_power(A, block, v, y):
    """The largest eigenvalue of a block of (A A^T)^-1, from below, v on it, and y = (A A^T)^-1 v."""
    n, value = len(v), 0.0
    for _ in range(40):
        for i in range(n):
            total = v[i]
            for k in range(i):
                total -= A[i, k] * y[k]
            y[i] = total / A[i, i]
        for i in range(n - 1, -1, -1):
            total = y[i]
            for k in range(i + 1, n):
                total -= A[k, i] * y[k]
            y[i] = total / A[i, i]
        along = size = 0.0
        for i in range(n):
            if block[i]:
                along += v[i] * y[i]
                size += y[i] * y[i]
        still = abs(along - value) <= 1e-6 * along
        value, size = along, math.sqrt(size)
        if still or size == 0.0:
            break
        for i in range(n):
            v[i] = y[i] / size if block[i] else 0.0
    return value


@without_reassociation
def _compared(f, rest, box, block, A, inverse, S, v, y, x, less, first, second):
    """Fill less (n, n), L diag(S x / x) L^T >= E for |E| <= rest, and vectors that tell what adds to it.

    L L^T is the mean of the corners where it is positive, and S = |L^-1| rest |L^-T|.
    """
    n, corners = len(x), f.shape[1]
    less[:] = 0.0
    for corner in range(corners):
        for i in range(n):
            for j in range(n):
                less[i, j] -= f[box, corner, i, j] / corners
    for i in range(n):
        x[i] = 0.0
    mean = _factored(np.zeros((1, 1, n, n)), 0, 0, 1.0, less, x, A)
    if not mean:
        most = 0.0
        for i in range(n):
            most = max(most, abs(less[i, i]))
        A[:] = 0.0
        for i in range(n):
            A[i, i] = math.sqrt(max(-less[i, i], 1e-9 * most, 1e-290))
    inverse[:] = 0.0
    for j in range(n):
        inverse[j, j] = 1.0 / A[j, j]
        for i in range(j + 1, n):
            total = 0.0
            for k in range(j, i):
                total -= A[i, k] * inverse[k, j]
            inverse[i, j] = total / A[i, i]
    most = 0.0
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(j + 1):
                total += rest[box, i, k] * abs(inverse[j, k])
            less[i, j] = total
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(i + 1):
                total += abs(inverse[i, k]) * less[k, j]
            S[i, j] = total
            most = max(most, total)
    for i in range(n):
        for j in range(n):
            S[i, j] = S[i, j] * (1.0 + 1e-9) + 1e-12 * most
    for i in range(n):
        v[i] = 1.0 if block[i] else 0.0
    _inverse_power(A, block, v, y)
    top = 0.0
    for i in range(n):
        total = 0.0
        for k in range(i, n):
            total += A[k, i] * y[k]
        first[i] = abs(total)  # |L^T y|
        top = max(top, abs(total))
    for i in range(n):
        first[i] /= top
        x[i] = first[i]
    for _ in range(6):  # the other components take more of what is left out
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += S[i, j] * x[j]
            second[i] = max(first[i], min(3.0 * total, 1.0), 1e-9)
        for i in range(n):
            x[i] = second[i]
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += S[i, j] * x[j]
        second[i] = total / x[i]
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(j + 1):
                total += A[i, k] * second[k] * A[j, k]
            less[i, j] = less[j, i] = total
    for i in range(n):
        y[i] = first[i] * first[i] / x[i]
    for i in range(n):
        first[i] = second[i] = 0.0
        for k in range(i, n):
            first[i] += abs(inverse[k, i]) * y[k]
            second[i] += abs(inverse[k, i]) * x[k]


def smallest(f, rest, block, error, enough, ends, first, second):
    """Ends (B,) with f + E >= end diag(block) for all corners f (B, C, n, n) and |E| <= rest (B, n, n); or 0.

    So 1 / end is above the largest eigenvalue of the block of each (f + E)^-1. A guess by powers is lowered
    until the factorizations of all corners succeed, less a multiple of the trace: Rump's bound, and rounding
    of the errors.

    Parameters
    ----------
    block : (n,) whether a row is in it.
    error : how far f may be from what it stands for, in the spectral norm.
    enough : an end that is above it need not be sharp.
    first, second : (B, n) filled; first . B_i second, of bounds B_i (n, n), tells what each adds to rest.
    """
    boxes, corners, n = f.shape[0], f.shape[1], f.shape[2]
    A, inverse, S, less = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    v, y, x, diagonal = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    for box in range(boxes):
        _compared(f, rest, box, block, A, inverse, S, v, y, x, less, first[box], second[box])
        spare = 0.0
        for corner in range(corners):
            total = 0.0
            for k in range(n):
                total += abs(f[box, corner, k, k])
            spare = max(spare, total)
        spare = 4.0 * (n + 4) * 2.3e-16 * spare + error
        end, corner, before, step, ends[box] = enough, 0, -1, 1e-10, 0.0
        while end > 0.0:
            for k in range(n):
                diagonal[k] = spare + (end if block[k] else 0.0)
            while corner < corners and _factored(f, box, corner, 1.0, less, diagonal, A):
                corner += 1
            if corner == corners:
                ends[box] = end
                break
            for k in range(n):
                diagonal[k] = spare
            if not _factored(f, box, corner, 1.0, less, diagonal, A):
                break
            if corner == before:
                step *= 8.0
            else:
                before, step = corner, 1e-10
            value = _inverse_power(A, block, v, y)
            guess = (1.0 - step) / value if value > 0.0 else 0.0
            end = min(guess, end * (1.0 - step))
            if step > 0.5:
                break


smallest_rows = unreassociated_batch_entry(smallest)
