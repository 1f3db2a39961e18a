"""From independent coordinates to a solution [q_s | G | LG]: loops closed by continuation.

A loop is followed from a configuration in which it closes, the reference or a guess, along the straight path
of its independent coordinates (quaternions: the shorter arc). A step predicts the dependent coordinates along
dq_d = -K_d^+ K_i dq_i and corrects them by Newton's method, q_d <- q_d - K_d^+ phi; the pseudoinverse allows
redundant conditions. A step is accepted only if

- no joint turns by more than `LARGEST_TURN`, so that no step skips a turn;
- the first correction is at most `LARGEST_CORRECTION` of the loop's size, and each later correction is at
  most half of the one before;
- K_d has changed little, |K_d(old)^+ K_d(new) - 1| <= `LARGEST_CHANGE` (Frobenius, columns scaled).

Otherwise a shorter step is tried. The last condition prevents that a step ends on another branch. If the norm
is below one on a convex region, K_d(old)^+ phi is injective in q_d there, so the path has one continuation in
this region. And between two configurations for which det K_d has opposite signs, as on the two sides of a
fold, the norm is at least one. The norm is measured at the ends of a step only. So a jump between branches of
opposite sign is excluded; a jump between branches of the same sign would have to pass two folds within
`LARGEST_TURN`.

At the end of the path Newton's method is repeated until its steps no longer shrink. Then

    G_d = -K_d^+ K_i,    LG_d[:, j, k] = -K_d^+ sum_s (L_j K)_s G_sk.

The result depends only on q and on the configuration at which the path begins. Conditions are written such
that NaN counts as failure: ``not pivot >= SINGULAR`` is true for it. Source: [W] VI-C; Deuflhard, Newton
Methods for Nonlinear Problems, chapter 5.
"""

import math

from connections.engines.inlined.householder import column_length, factorize, solve_least
from connections.engines.inlined.rows import LARGEST
from connections.engines.inlined.simd import beyond, exact, routine, store, take
from connections.engines.inlined.vectors import unit_factor
from connections.multibody.kernels.kernel_fingerprint import STAMP
from connections.multibody.kernels.layout import BAD_INPUT, unpack_closure, unpack_linear_cluster, unpack_loop
from connections.multibody.kernels.loop_geometry import evaluate, move_links, place_loop, second_derivatives
from connections.multibody.kernels.loop_motion import advance, move_dependent
from connections.multibody.kernels.reading import is_unit
from connections.multibody.tolerances import (
    CLOSED,
    LARGEST_CHANGE,
    LARGEST_CORRECTION,
    LARGEST_TURN,
    SINGULAR,
)

USUAL_CHANGE = 0.35  # the change of K_d that the length of a step aims at, below `LARGEST_CHANGE`
SMALLEST_STEP = 1e-12  # rad, or of the loop's size; a path that needs shorter steps is given up
CLOSE = 1e-6  # rad, or of the loop's size; a path given up so close to its goal means a singular goal
# Lengths of corrections, relative to the loop's size. The path begins after a correction of at most SETTLED,
# and a step ends after one of at most SMALL. At the end of the path, corrections are repeated until they are
# below POLISHED and no longer shrink, or below NO_MORE; the last one must be at most DONE.
SETTLED, SMALL = 1e-10, 1e-4
POLISHED, NO_MORE, DONE = 1e-9, 2e-15, 1e-8
# |dq_d| / |K_i dq_i|, scaled, above which the rates of the dependent coordinates count as unbounded.
LARGEST_RATE = 1e3
MOST_TRIALS = 1_000_000
LOOPS_REMAIN = BAD_INPUT + 2  # a status: the input is good, but only the linear clusters are solved


@exact
def solve_linear(numbers, q, size, solution):
    """Fill `solution` from q (nq,), except for the dependent joints of loops.

    Returns 0 if there are no loops; `LOOPS_REMAIN` if there are; `BAD_INPUT` for other sizes, numbers that
    are not finite, and quaternions that are not of norm one.
    """
    closure = unpack_closure(numbers)
    if closure.stamp != STAMP:
        return BAD_INPUT
    if size != closure.nq or closure.functions != 0:
        return BAD_INPUT
    for i in range(closure.size):
        store(solution, i, closure.template[i])
    good = True
    for i in range(size):
        good &= abs(q[i]) <= LARGEST
        store(solution, closure.columns[i], q[i])
    for i in range(closure.quaternions):
        start = closure.quaternion_starts[i]
        square = _square(q, start)
        good &= is_unit(square)
        for k in range(start, start + 4):
            store(solution, closure.columns[k], q[k] * unit_factor(square))
    if not good:
        return BAD_INPUT
    for i in range(closure.linear):
        _solve_linear(beyond(closure.tables, closure.linear_starts[i]), solution)
    return 0 if closure.loops == 0 else LOOPS_REMAIN


@exact
def solve_from(numbers, q, size, guess, guess_size, solution):
    """Fill `solution` from q by paths that begin at the reference, or at `guess` if `guess_size` is not 0.

    Returns 0 for success; 1 + c if the loop of cluster c cannot be closed; -(1 + c) if it is singular;
    `BAD_INPUT` as `solve_linear`.
    """
    status = solve_linear(numbers, q, size, solution)
    if status != LOOPS_REMAIN:
        return status
    closure = unpack_closure(numbers)
    start = closure.reference
    if guess_size > 0:
        good = guess_size == closure.spanning_nq
        if good:
            for i in range(guess_size):
                good &= abs(guess[i]) <= LARGEST
            for i in range(closure.spanning_quaternions):
                good &= is_unit(_square(guess, closure.spanning_quaternion_starts[i]))
        if not good:
            return BAD_INPUT
        start = guess
    for i in range(closure.loops):
        loop = unpack_loop(closure, i)
        status = _solve_loop(loop, start, solution)
        if status != 0:
            return status * (1 + loop.number)
    return 0


@exact
def _square(q, start):
    """The squared norm of the quaternion in q that begins at `start`."""
    a, b, c, d = take(q, start, 4)
    return a * a + b * b + c * c + d * d


@exact
def _solve_linear(table, solution):
    """q_d = G q_i + g for one linear cluster, whose array begins at `table`."""
    cluster = unpack_linear_cluster(table)
    for i in range(cluster.dependent):
        row = i * (cluster.independent + 1)
        total = cluster.rows[row + cluster.independent]
        for k in range(cluster.independent):
            total += cluster.rows[row + k] * solution[cluster.q_i[k]]
        store(solution, cluster.q_d[i], total)


@exact
def _solve_loop(loop, start, solution):
    """Solve one loop. Returns 0, or 1 if the loop cannot be closed, or -1 if it is singular."""
    for i in range(loop.coordinates):
        store(loop.x, i, start[loop.source[i]])
        if not loop.follows[i]:
            store(loop.goal, i, solution[loop.source[i]])
    status = _settle(loop)
    if status == 0:
        status = _follow(loop)
    if status == 0:
        status = _polish(loop)
    if status != 0:
        return status
    for i in range(loop.coordinates):
        if loop.follows[i]:
            store(solution, loop.source[i], loop.x[i])
    _write_derivatives(loop, solution)
    return 0


@exact
def _settle(loop):
    """Close the loop at the beginning of the path, by limited Newton steps. Returns 0, 1 or -1."""
    for _ in range(50):
        pivot, length = newton(loop)
        if not pivot >= SINGULAR:
            return -1
        if length <= SETTLED:
            _keep(loop)
            return 0
        move_dependent(loop, min(1.0, LARGEST_CORRECTION / length))
    return 1


@exact
def _follow(loop):
    """Follow the path to its end, after which x almost closes the loop. Returns 0, 1 or -1."""
    length = max(advance(loop, 1.0)[1], 1.0)
    left, step = 1.0, 1.0
    bounded = True
    for _ in range(MOST_TRIALS):
        fraction = step / left if step < 0.999 * left else 1.0
        factor, bounded = _try(loop, fraction)
        if factor > 0.0:  # accepted
            _keep(loop)
            if fraction == 1.0:
                return 0
            left -= step
            step *= min(factor, 3.0)
        else:
            step = min(step, left) * max(-factor, 0.1)
        if step * length < SMALLEST_STEP:
            break
    return -1 if left * length < CLOSE or bounded else 1


@exact
def _try(loop, fraction):
    """Try a step, `fraction` of the way that is left; x is where it ends.

    Returns the factor for the length of the next step, negative if this step is not accepted; and whether the
    rates of the dependent coordinates are bounded. At a fold, beyond which the loop cannot close, they are
    unbounded; at a singularity in which branches cross they are bounded.
    """
    turn = advance(loop, fraction)[0]
    predicted_turn, bounded = _predict(loop)
    turn = max(turn, predicted_turn)
    if not turn <= LARGEST_TURN:
        return -0.9 * LARGEST_TURN / turn, bounded
    previous, change = 0.0, 0.0
    for trial in range(6):
        pivot, length = newton(loop)
        if not pivot >= SINGULAR:
            return -0.5, bounded
        if trial == 0 or length <= SMALL:
            change = _change(loop)
            if not change <= LARGEST_CHANGE:
                return -min(0.7, 0.8 * LARGEST_CHANGE / change), bounded
        if not length <= (0.5 * previous if trial > 0 else LARGEST_CORRECTION):
            return -0.5, bounded
        move_dependent(loop, 1.0)
        if length <= SMALL:
            return min(max(USUAL_CHANGE / (change + 1e-3), 0.5), 3.0), bounded
        previous = length
    return -0.5, bounded


@exact
def _polish(loop):
    """Newton's method until its steps no longer shrink; `now` then belongs to x. Returns 0, 1 or -1."""
    previous = 1.0
    for _ in range(20):
        pivot, length = newton(loop)
        if not pivot >= SINGULAR:
            return -1
        if length <= POLISHED and length > 0.25 * previous:
            break
        move_dependent(loop, 1.0)
        previous = length
        if length <= NO_MORE:
            break
    closed = previous <= DONE
    for r in range(loop.rows):
        closed &= abs(loop.phi[r]) <= CLOSED * loop.sizes[r]
    return 0 if closed else 1


@routine
def newton(loop):
    """Evaluate phi and K at x, factorize K_d, and write the step -K_d^+ phi to z.

    Returns the last pivot of K_d and the length |D z| of the step, D the lengths of the columns of K_d.
    """
    place_loop(loop)
    evaluate(loop)
    p, d = loop.rows, loop.dependent
    K_d = beyond(loop.now, loop.columns * p)
    for s in range(loop.columns):
        if loop.place[s] < 0:
            j = -1 - loop.place[s]
            for r in range(p):
                store(K_d, j * p + r, loop.now[s * p + r])
    pivot = factorize(K_d, p, d, SINGULAR)
    if not pivot >= SINGULAR:
        return pivot, 0.0
    for r in range(p):
        store(loop.b, r, -loop.phi[r])
    return pivot, solve_least(K_d, p, d, loop.b, loop.z)


@exact
def _keep(loop):
    """Make x the last accepted point: copy x to `base` and `now` to `old`."""
    for i in range(loop.coordinates):
        store(loop.base, i, loop.x[i])
    for i in range(loop.columns * loop.rows + loop.dependent * (loop.rows + 4)):
        store(loop.old, i, loop.now[i])


@exact
def _change(loop):
    """|D (K_d(old)^+ K_d(new) - 1) D^-1|, Frobenius, with D the lengths of the columns of K_d(old)."""
    p, d = loop.rows, loop.dependent
    K_d, square = beyond(loop.old, loop.columns * p), 0.0
    for s in range(loop.columns):
        if loop.place[s] < 0:
            j = -1 - loop.place[s]
            for r in range(p):
                store(loop.b, r, loop.now[s * p + r])
            solve_least(K_d, p, d, loop.b, loop.y)
            for i in range(d):
                scale = column_length(K_d, p, d, i) / column_length(K_d, p, d, j)
                entry = loop.y[i] * scale - (1.0 if i == j else 0.0)
                square += entry * entry
    return math.sqrt(square)


@exact
def _predict(loop):
    """Move the dependent coordinates of x by -K_d^+ K_i y from the last accepted point.

    Returns the largest turn, rad, and whether the step is bounded: at most `LARGEST_RATE` times K_i y. Near a
    fold it is not, because K_d loses rank and K_i does not.
    """
    p, d = loop.rows, loop.dependent
    for i in range(loop.coordinates):
        if loop.follows[i]:
            store(loop.x, i, loop.base[i])
    square = 0.0
    for r in range(p):
        total = 0.0
        for s in range(loop.columns):
            if loop.place[s] >= 0:
                total -= loop.old[s * p + r] * loop.y[s]
        store(loop.b, r, total)
        square += total * total
    length = solve_least(beyond(loop.old, loop.columns * p), p, d, loop.b, loop.z)
    turn = move_dependent(loop, 1.0)
    return turn, length <= LARGEST_RATE * math.sqrt(square)


@exact
def _write_derivatives(loop, solution):
    """Write G and LG of the dependent columns to the solution."""
    p, d, n, m = loop.rows, loop.dependent, loop.independent, loop.columns
    K_d = beyond(loop.now, m * p)
    for s in range(m):
        k = loop.place[s]
        for i in range(n):
            store(loop.G, s * n + i, 1.0 if i == k else 0.0)
    for s in range(m):
        k = loop.place[s]
        if k >= 0:
            for r in range(p):
                store(loop.b, r, -loop.now[s * p + r])
            solve_least(K_d, p, d, loop.b, loop.z)
            for t in range(m):
                if loop.place[t] < 0:
                    store(loop.G, t * n + k, loop.z[-1 - loop.place[t]])
                    store(solution, loop.G_at[t] + k, loop.z[-1 - loop.place[t]])
    move_links(loop)
    for i in range(n * n):
        second_derivatives(loop, i // n, i % n)
        solve_least(K_d, p, d, loop.b, loop.z)
        for t in range(m):
            if loop.place[t] < 0:
                store(solution, loop.LG_at[t] + i, -loop.z[-1 - loop.place[t]])
