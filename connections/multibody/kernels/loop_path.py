"""A loop followed along the straight path of its independent coordinates, up to a singular point.

A path begins where the loop closes. It is the straight line of the independent coordinates (of quaternions:
the shorter arc). A step predicts the dependent coordinates along dq_d = -K_d^+ K_i dq_i and corrects them by
Newton's method, q_d <- q_d - K_d^+ phi; the pseudoinverse allows redundant conditions. A step is accepted
only if

- no joint turns by more than `LARGEST_TURN`, so that no step skips a turn;
- the first correction is at most `LARGEST_CORRECTION` of the loop's size, and each later correction is at
  most half of the one before;
- K_d has changed little, |K_d(old)^+ K_d(new) - 1| <= `LARGEST_CHANGE` (Frobenius, columns scaled).

Otherwise a shorter step is tried. The last condition prevents that a step ends on another branch. If the norm
is below one on a convex region, K_d(old)^+ phi is injective in q_d there, so the path has one continuation in
this region. And between two configurations for which det K_d has opposite signs, as on the two sides of a
fold, the norm is at least one. The norm is measured at the ends of a step only. So a jump between branches of
opposite sign is excluded. A jump between branches of the same sign would have to pass two folds within
`LARGEST_TURN`, or a point in which branches cross, where the sign may change on one and not on the other; of
23,859 paths across such points, none jumped. A path that would need ever shorter steps, because K_d becomes
singular, is cut.

Conditions are written such that NaN counts as failure: ``not pivot >= SINGULAR`` is true for it.
Source: [W] VI-C; Deuflhard, Newton Methods for Nonlinear Problems, chapter 5.
"""

from connections.engines.inlined.householder import (
    column_length,
    factorize,
    least_pivot,
    scaled_length,
    solve_column,
    solve_least,
)
from connections.engines.inlined.simd import (
    alike,
    beyond,
    chosen,
    inline_section,
    root,
    routine,
    smaller,
    store,
    without_reassociation,
)
from connections.multibody.kernels.elementary_joints import is_slide
from connections.multibody.kernels.loop_geometry import evaluate, place_loop
from connections.multibody.kernels.loop_motion import advance, largest_turn, move_dependent
from connections.multibody.tolerances import (
    CLEAR,
    CLOSE,
    CLOSED,
    LARGEST_CHANGE,
    LARGEST_CORRECTION,
    LARGEST_TURN,
    SINGULAR,
    SINGULAR_STEP,
    SMALLEST_STEP,
)

USUAL_CHANGE = 0.35  # the change of K_d that the length of a step aims at, below `LARGEST_CHANGE`
# Lengths of corrections, relative to the loop's size. The path begins after a correction of at most SETTLED,
# and a step ends after one of at most SMALL. At the end of the path, corrections are repeated until they are
# below POLISHED and no longer shrink, or below NO_MORE; the last one must be at most DONE.
SETTLED, SMALL = 1e-10, 1e-4
POLISHED, NO_MORE, DONE = 1e-9, 2e-15, 1e-8
MOST_CORRECTIONS = 6  # of one step; each is at most half as long as the one before
MOST_POLISHES = 20  # of those at the end
REFUSED = 0.5  # the factor for a step after one that was refused, other than for the change of K_d
ARRIVED, CUT, AT_SINGULAR_GOAL = 0, 1, 2  # what became of a path
CHANGE, PIVOT = 0, 1  # slots of `control`: the change of K_d, and its pivot


@inline_section
def settle(loop):
    """Close the loop at the beginning of the path, by limited Newton steps. Returns 0, 1 or -1."""
    for _ in range(50):
        pivot, length = newton(loop)
        if not pivot >= SINGULAR:
            return -1
        if length <= SETTLED:
            keep(loop)
            return 0
        move_dependent(loop, min(1.0, LARGEST_CORRECTION / length))
    return 1


@routine
def approach(loop, trials):
    """Follow the path from `base` to its end, after which x almost closes the loop.

    Returns what became of it (`ARRIVED`, ...), and how many trials are left. If it did not arrive, `base` is
    the last point that was reached.
    """
    length = max(advance(loop, 1.0)[1], 1.0)
    left, step = 1.0, 1.0
    copy(loop, loop.base, loop.clear)
    while trials > 0:
        trials -= 1
        fraction = step / left if step < 0.999 * left else 1.0
        factor, pivot = _try(loop, fraction)
        if factor > 0.0:  # accepted
            keep(loop)
            if fraction == 1.0:
                return ARRIVED, trials
            if pivot >= CLEAR:
                copy(loop, loop.base, loop.clear)
            left -= step
            step *= factor
        else:
            step = min(step, left) * max(-factor, 0.1)
        if step * length < (SMALLEST_STEP if pivot >= SINGULAR else SINGULAR_STEP):
            break
    return AT_SINGULAR_GOAL if left * length < CLOSE else CUT, trials


@inline_section
def _try(loop, fraction):
    """Try a step, `fraction` of the way that is left; x is where it ends.

    Returns the factor for the length of the next step, negative if this step is not accepted, and the least
    pivot of K_d.
    """
    turn = advance(loop, fraction)[0]
    turn = max(turn, predict(loop))
    if not turn <= LARGEST_TURN:
        return -0.9 * LARGEST_TURN / turn, 1.0
    pivot, previous, change = 0.0, 0.0, 0.0
    for trial in range(MOST_CORRECTIONS):
        pivot, length = newton(loop)
        if not pivot >= SINGULAR:
            return -REFUSED, pivot
        if trial == 0 or length <= SMALL:
            change = change_of_K(loop)
            if not change <= LARGEST_CHANGE:
                return -factor_after_too_much(change), pivot
        if not length <= (0.5 * previous if trial > 0 else LARGEST_CORRECTION):
            return -REFUSED, pivot
        move_dependent(loop, 1.0)
        if length <= SMALL:
            return factor_after(change), pivot
        previous = length
    return -REFUSED, pivot


@routine
def polish(loop):
    """Newton's method until its steps no longer shrink; `now` then belongs to x. Returns 0, 1 or -1."""
    previous = 1.0
    for _ in range(MOST_POLISHES):
        pivot, length = newton(loop)
        if not pivot >= SINGULAR:
            return -1
        if length <= POLISHED and length > 0.25 * previous:
            break
        move_dependent(loop, 1.0)
        previous = length
        if length <= NO_MORE:
            break
    return 0 if is_closed(loop, previous) else 1


@without_reassociation
def factor_after(change):
    """The factor for the length of the next step, after one in which K_d has changed so much."""
    return min(max(USUAL_CHANGE / (change + 1e-3), 0.5), 3.0)


@without_reassociation
def factor_after_too_much(change):
    """The factor for a step after one that was refused because K_d changed more than `LARGEST_CHANGE`."""
    return min(0.7, 0.8 * LARGEST_CHANGE / change)


@without_reassociation
def is_closed(loop, length):
    """Whether the last correction, of this length, and the conditions are round-off."""
    closed = length <= DONE
    for r in range(loop.rows):
        closed &= abs(loop.phi[r]) <= CLOSED * loop.sizes[r]
    return closed


@routine
def newton(loop):
    """Evaluate phi and K at x, factorize K_d, and write the step -K_d^+ phi to z.

    Returns the pivot of K_d and the length |D z| of the step, D the lengths of the columns of K_d.
    """
    place_loop(loop)
    K_d = evaluate_and_solve(loop)
    return pivot_of(loop, K_d), scaled_length(K_d, loop.rows, loop.dependent, loop.z)


@without_reassociation
def pivot_of(loop, K_d):
    """The least pivot of a factorized K_d, times the length of its shortest column if that is below one.

    Of one configuration, or of several lanes, to a slot of `control`, too. Zero if any pivot is NaN.

    Columns are measured in units: 1, or the loop's size for a joint that slides. Where a column vanishes, it
    keeps its angles with the others, but no longer determines its joint.
    """
    at = loop.dependent * (loop.rows + 2)
    shortest = alike(1.0, K_d[at])
    for link in range(1, loop.links + 1):
        for s in range(loop.first[link], loop.first[link + 1]):
            if loop.place[s] < 0:
                unit = loop.lengths[1] if is_slide(loop.kind[link], s - loop.first[link]) else 1.0
                shortest = smaller(shortest, K_d[at - 1 - loop.place[s]] * unit)
    pivot = shortest * least_pivot(K_d, loop.rows, loop.dependent)
    store(loop.control, PIVOT, pivot)
    return pivot


@without_reassociation
def evaluate_and_solve(loop):
    """`newton` for links that were placed, of one configuration or of several lanes. Returns K_d."""
    evaluate(loop)
    p, d = loop.rows, loop.dependent
    K_d = beyond(loop.now, loop.columns * p)
    for s in range(loop.columns):
        if loop.place[s] < 0:
            j = -1 - loop.place[s]
            for r in range(loop.stairs[3 * j + 2], loop.stairs[3 * j + 1]):
                store(K_d, j * p + r, loop.now[s * p + r])
    factorize(K_d, p, d, loop.stairs)
    for r in range(p):
        store(loop.b, r, -loop.phi[r])
    solve_least(K_d, p, d, loop.stairs, loop.b, loop.z)
    return K_d


@without_reassociation
def copy(loop, source, target):
    """Copy one configuration of the loop to another."""
    for i in range(loop.coordinates):
        store(target, i, source[i])


@without_reassociation
def keep(loop):
    """Make x the last accepted point: copy x to `base` and `now` to `old`."""
    copy(loop, loop.x, loop.base)
    keep_conditions(loop, 1.0)


@without_reassociation
def keep_conditions(loop, flag):
    """Copy what is needed of `now` to `old`, where flag > 0: K_i, and the factorization of K_d."""
    p, d, K_d = loop.rows, loop.dependent, loop.columns * loop.rows
    for s in range(loop.columns):
        if loop.place[s] >= 0:
            _keep_slots(loop, s * p, (s + 1) * p, flag)
    for k in range(d):
        _keep_slots(loop, K_d + k * p + loop.stairs[3 * k + 2], K_d + k * p + loop.stairs[3 * k + 1], flag)
    _keep_slots(loop, K_d + d * p, K_d + d * (p + 3), flag)


@without_reassociation
def _keep_slots(loop, first, stop, flag):
    for i in range(first, stop):
        store(loop.old, i, chosen(flag, loop.now[i], loop.old[i]))


@without_reassociation
def change_of_K(loop):
    """|D (K_d(old)^+ K_d(new) - 1) D^-1|, Frobenius, with D the lengths of the columns of K_d(old).

    Of one configuration, or of several lanes, to a slot of `control`, too.
    """
    p, d = loop.rows, loop.dependent
    K_d = beyond(loop.old, loop.columns * p)
    total = alike(0.0, K_d[0])
    for s in range(loop.columns):
        if loop.place[s] < 0:
            j = -1 - loop.place[s]
            first, stop = solve_column(K_d, p, d, loop.stairs, beyond(loop.now, s * p), j, loop.b, loop.y)
            scale = 1.0 / column_length(K_d, p, d, j)
            entry = loop.y[j] * scale - 1.0
            total = total + entry * entry
            for i in range(first, stop):
                if i != j:
                    entry = loop.y[i] * scale
                    total = total + entry * entry
    change = root(total)
    store(loop.control, CHANGE, change)
    return change


@without_reassociation
def predict(loop):
    """Move the dependent coordinates of x by -K_d^+ K_i y from the last accepted point.

    Returns the largest turn, rad.
    """
    for i in range(loop.coordinates):
        if loop.follows[i]:
            store(loop.x, i, loop.base[i])
    solve_for_prediction(loop)
    move_dependent(loop, 1.0)
    return largest_turn(loop, 1.0)


@without_reassociation
def solve_for_prediction(loop):
    """Write the step -K_d^+ K_i y of the dependent columns, at the last accepted point, to z."""
    p = loop.rows
    for r in range(p):
        store(loop.b, r, 0.0)
    for s in range(loop.columns):
        if loop.place[s] >= 0:
            for r in range(p):
                store(loop.b, r, loop.b[r] - loop.old[s * p + r] * loop.y[s])
    solve_least(beyond(loop.old, loop.columns * p), p, loop.dependent, loop.stairs, loop.b, loop.z)
