"""From independent coordinates to a solution [q_s | G | LG]: loops closed by continuation.

A loop is followed from a configuration that closes, the reference or a guess, along the straight path of its
independent coordinates (quaternions: the shorter arc). A step predicts the dependent ones along
dq_d = -K_d^+ K_i dq_i and corrects them by Newton's method, q_d <- q_d - K_d^+ phi, with least squares where
conditions depend on each other. It is accepted only if

- no joint turns by more than `LARGEST_TURN`, so that no step skips a turn;
- the corrections begin below `LARGEST_CORRECTION` of the loop's size and at least halve each time;
- K_d has changed little, |K_d(old)^+ K_d(new) - 1| <= `LARGEST_CHANGE` (Frobenius, columns scaled).

Else it is tried shorter. The last says why a step cannot end on another branch: as long as the norm is below
one on a convex region, K_d(old)^+ phi is injective in q_d there, so a path has one continuation in it; and
two configurations between which det K_d changes sign, as on the two sides of a fold, differ by at least one.
The norm is measured at the ends of a step, not between: what is excluded is a hop between branches of
opposite orientation; one between branches of the same would have to pass two folds within `LARGEST_TURN`.

At the end of the path Newton's method goes on until its steps no longer shrink. Then

    G_d = -K_d^+ K_i,    LG_d[:, j, k] = -K_d^+ sum_s (L_j K)_s G_sk.

The result depends on q and on where the path begins, on nothing else. Source: [W] VI-C; Deuflhard, Newton
Methods for Nonlinear Problems, chapter 5.
"""

import math

from connections.multibody.kernels.boundary import LARGEST, is_unit, unit_factor
from connections.multibody.kernels.layout import BAD_INPUT, unpack_closure, unpack_loop
from connections.multibody.kernels.least_squares import (
    column_length,
    factorize,
    routine,
    solve_least,
)
from connections.multibody.kernels.loop_geometry import (
    evaluate,
    move_links,
    place_loop,
    second_derivatives,
)
from connections.multibody.kernels.loop_motion import advance, move_dependent
from connections.multibody.kernels.simd import as_integers, beyond, store, take
from connections.multibody.kernels.stamp import STAMP
from connections.multibody.tolerances import (
    CLOSED,
    LARGEST_CHANGE,
    LARGEST_CORRECTION,
    LARGEST_TURN,
    SINGULAR,
)

USUAL_CHANGE = 0.35  # of K_d in one step: what is aimed at, below `LARGEST_CHANGE`
SMALLEST_STEP = 1e-12  # of the path, and of 1 rad or the loop's size; then the path is said to end
CLOSE = 1e-6  # rad, or of that size; with less to go a path ends where it should, and its goal is singular
# Corrections, relative to the loop's size: with which a path may begin, and a step of it end; at the end of
# the path, below which they should shrink, at which they need not, and the most that may be left.
SETTLED, SMALL = 1e-10, 1e-4
POLISHED, NO_MORE, DONE = 1e-9, 2e-15, 1e-8
LARGEST_RATE = 1e3  # of dependent coordinates to conditions, both scaled, away from the ends of paths
MOST_TRIALS = 1_000_000
LOOPS_REMAIN = BAD_INPUT + 2  # a status: nothing wrong, but not all is solved


@routine
def solve_linear(numbers, q, size, solution):
    """Fill `solution` from q (nq,), loops as in the reference.

    Returns 0; `LOOPS_REMAIN`; `BAD_INPUT` for other sizes, numbers that are not finite, quaternions that are
    not of unit length.
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


@routine
def solve_from(numbers, q, size, guess, guess_size, solution):
    """Fill `solution` from q by paths that begin at the reference, or at `guess` if it has numbers.

    Returns 0; 1 + c where a loop of cluster c cannot be closed; -(1 + c) where it is singular; and as
    `solve_linear`.
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


@routine
def _square(q, start):
    """|.|^2 of the quaternion that begins at `start`."""
    a, b, c, d = take(q, start, 4)
    return a * a + b * b + c * c + d * d


@routine
def _solve_linear(table, solution):
    """q_d = G q_i + g."""
    integers = as_integers(table)
    dependent, width = integers[0], integers[1]
    numbers = beyond(table, 2 + dependent + width)
    for i in range(dependent):
        row = i * (width + 1)
        total = numbers[row + width]
        for k in range(width):
            total += numbers[row + k] * solution[integers[2 + dependent + k]]
        store(solution, integers[2 + i], total)


@routine
def _solve_loop(loop, start, solution):
    """0, or 1 where the loop cannot be closed, -1 where it is singular."""
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


@routine
def _settle(loop):
    """Close the loop at the independent coordinates where the path begins; steps are limited."""
    for _ in range(50):
        pivot, length = newton(loop)
        if not pivot >= SINGULAR:
            return -1
        if length <= SETTLED:
            _keep(loop)
            return 0
        move_dependent(loop, min(1.0, LARGEST_CORRECTION / length))
    return 1


@routine
def _follow(loop):
    """Follow the path to its end, where x is close to a configuration that closes; 0, 1 or -1."""
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


@routine
def _try(loop, fraction):
    """A step to x, `fraction` of the way that is left.

    Returns the factor for the next step, its negative if this one is not accepted, and whether the rates of
    the dependent coordinates are bounded: they are not at the end of the path, but where branches cross.
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


@routine
def _polish(loop):
    """Newton's method from nearby until its steps no longer shrink; `now` is then that of x."""
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
    """At x: K, phi, the factorization of K_d, and into z the step -K_d^+ phi; pivot, and length of D z."""
    place_loop(loop)
    evaluate(loop)
    p, d = loop.rows, loop.dependent
    K_d = beyond(loop.now, loop.columns * p)
    for s in range(loop.columns):
        if loop.place[s] < 0:
            j = -1 - loop.place[s]
            for r in range(p):
                store(K_d, j * p + r, loop.now[s * p + r])
    pivot = factorize(K_d, p, d)
    if not pivot >= SINGULAR:
        return pivot, 0.0
    for r in range(p):
        store(loop.b, r, -loop.phi[r])
    return pivot, solve_least(K_d, p, d, loop.b, loop.z)


@routine
def _keep(loop):
    """Make x and `now` the last accepted point."""
    for i in range(loop.coordinates):
        store(loop.base, i, loop.x[i])
    for i in range(loop.columns * loop.rows + loop.dependent * (loop.rows + 4)):
        store(loop.old, i, loop.now[i])


@routine
def _change(loop):
    """|D (K_d(old)^+ K_d(new) - 1) D^-1|, D the lengths of the old columns."""
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


@routine
def _predict(loop):
    """Dependent coordinates of x along -K_d^+ K_i y from the last point.

    Returns the largest turn, rad, and whether the step is bounded by that of the conditions: near the end of
    a path, where K_d loses rank and K_i does not, it is not.
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


@routine
def _write_derivatives(loop, solution):
    """G and LG of the dependent columns."""
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
