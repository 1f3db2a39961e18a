"""A loop followed across points in which branches cross, and over many turns of a crank.

**Branches that cross.** A parallelogram is singular when it is flat: the branch on which its bars stay
parallel crosses the branch on which they are crossed. K_d loses rank there, but x(t), along the straight
path, is analytic on each branch. So where a path is cut, x(t) is computed at `NODES` equidistant points
before the cut, and extrapolated by their polynomial to a point as far beyond it, from which Newton's method
leads to the branch. It is taken only if the polynomial through one node less leads to the same point, and if
K_d changes by at most `LARGEST_JUMP` on the way there, in the norm of `loop_path`: within such a region
K_d^+ phi is injective, so there is no other solution. At a distance h from the crossing, other branches are
O(h) away, and the extrapolation errs by O(h^NODES). Therefore the result does not depend on h. Beyond a fold
there is no solution. For this code, branches cross if K_d is singular to `SINGULAR` on the way: for bars of
lengths that agree to about 1e-12. If they agree less, the path is followed around the narrow bend.

**Many turns.** Conditions other than linear couplings stay the same if a hinge turns by 2 pi. So if the crank
is the only independent coordinate, and after p turns the loop is back where it began, except that dependent
joints have turned by 2 pi m, and the numbers of turns meet the linear couplings, then it is back after every
p turns, because the path is unique. Whole multiples of p turns are taken off.

Source: Keller, Numerical Solution of Bifurcation and Nonlinear Eigenvalue Problems, 1977, for branches.
"""

import math

import numpy as np

from connections.engines.inlined.simd import beyond, inline_section, routine, store, without_reassociation
from connections.engines.inlined.vectors import FARTHEST_ANGLE
from connections.multibody.clusters import LINEAR
from connections.multibody.kernels.elementary_joints import (
    TURN,
    advance_joint,
    distance_within_turn,
    is_crank,
    whole_turns,
)
from connections.multibody.kernels.layout import INDIRECT
from connections.multibody.kernels.loop_motion import advance, move_dependent
from connections.multibody.kernels.loop_path import (
    ARRIVED,
    AT_SINGULAR_GOAL,
    CUT,
    approach,
    change_of_K,
    copy,
    keep,
    newton,
    polish,
)
from connections.multibody.tolerances import (
    EXTRAPOLATED,
    LARGEST_JUMP,
    LARGEST_REACH,
    MOST_TRIALS,
    NODES,
    SAME,
    SINGULAR,
    SMALLEST_REACH,
)

MOST_PERIOD = 4  # turns of a crank after which a loop has returned, if it does
COUNTED_TURNS = 1000.0  # turns that the angles of dependent joints count
SAME_RATIO = 1e-14  # of turns that a linear coupling ties, relative to its terms: round-off
EXACT_COUNT = 2.0**52  # numbers of turns beyond it may be rounded


@inline_section
def reach(loop):
    """`follow`, without what takes more than one path: `INDIRECT` is returned where it does."""
    if needs_turns(loop):
        return INDIRECT
    end = approach(loop, MOST_TRIALS)[0]
    if end == CUT:
        return INDIRECT
    return -1 if end == AT_SINGULAR_GOAL else polish(loop)


@inline_section
def follow(loop):
    """Follow the loop from `base` to its goal, at which it is left. Returns 0, 1 (open) or -1 (singular)."""
    if needs_turns(loop):
        return _follow_turns(loop, _lonely_crank(loop))
    return _follow_to_goal(loop, MOST_TRIALS)[0]


@without_reassociation
def needs_turns(loop):
    """Whether the goal is two turns away, or more, of a crank that is the only independent joint."""
    crank = _lonely_crank(loop)
    return crank >= 0 and abs(loop.goal[crank] - loop.base[crank]) >= 2.0 * TURN


@routine
def _follow_to_goal(loop, trials):
    """Follow the path across points in which branches cross. Returns the status and the trials left."""
    while True:
        end, trials = approach(loop, trials)
        if end == ARRIVED:
            return polish(loop), trials
        if end == AT_SINGULAR_GOAL:
            return -1, trials
        status, trials = _cross(loop, trials)
        if status != 0:
            return status, trials


# --- branches that cross ------------------------------------------------------------------------------------


@inline_section
def _cross(loop, trials):
    """Go on beyond the point `base`, at which a path was cut: `base` is then a point beyond.

    Returns 0, 1 if no smooth branch goes on, or -1 if it does and the goal is singular; and the trials left.
    """
    copy(loop, loop.base, loop.cut)
    copy(loop, loop.goal, loop.end)
    way = advance(loop, 1.0)[1]
    reach, status = LARGEST_REACH, 1
    while reach > SMALLEST_REACH and status == 1:
        _begin(loop, loop.clear)
        found, trials = _sample(loop, reach / way, trials)
        if found:
            status = _land(loop, reach / way)
        reach *= 0.2
    copy(loop, loop.end, loop.goal)
    if status != 0:
        copy(loop, loop.cut, loop.base)
    return status, trials


@inline_section
def _sample(loop, fraction, trials):
    """Write x at -k * fraction of the way from the cut to the end to row k - 1 of `samples`, for all nodes k.

    Returns whether the loop could be followed there, and the trials left.
    """
    for node in range(NODES - 1, -1, -1):
        _place(loop, -fraction * (node + 1), loop.goal)
        end, trials = approach(loop, trials)
        if end != ARRIVED or polish(loop) != 0:
            return False, trials
        keep(loop)
        copy(loop, loop.x, beyond(loop.samples, node * loop.coordinates))
    return True, trials


@inline_section
def _land(loop, fraction):
    """Find the branch at `fraction` of the way beyond the cut, or at the end. Returns as `_cross`."""
    target = min(fraction, 1.0)
    pivot = _extrapolate(loop, NODES - 1, target, fraction)
    if not pivot >= SINGULAR:
        return -1 if target == 1.0 and _closes(loop) else 1
    before = beyond(loop.samples, NODES * loop.coordinates)
    good = _correct(loop)
    copy(loop, loop.x, before)
    pivot = _extrapolate(loop, NODES, target, fraction)
    if not (good and pivot >= SINGULAR and _correct(loop) and _is_same(loop, before, SAME * pivot)):
        return 1
    keep(loop)
    return 0


@routine
def _extrapolate(loop, count, target, spacing):
    """Set x by the polynomial through `count` nodes, and evaluate the loop. Returns the last pivot of K_d."""
    for i in range(loop.coordinates):
        store(loop.x, i, 0.0)
    for node in range(count):
        weight = 1.0
        for other in range(count):
            if other != node:
                weight *= (target / spacing + (other + 1)) / (other - node)
        sample = beyond(loop.samples, node * loop.coordinates)
        for i in range(loop.coordinates):
            store(loop.x, i, loop.x[i] + weight * sample[i])
    _place(loop, target, loop.x)
    for i in range(loop.dependent):
        store(loop.z, i, 0.0)
    move_dependent(loop, 1.0)  # which makes quaternions of length one
    return newton(loop)[0]


@without_reassociation
def _correct(loop):
    """Correct x, at which the loop was evaluated. Returns whether Newton's method leads to a point nearby."""
    keep(loop)
    return polish(loop) == 0 and change_of_K(loop) <= LARGEST_JUMP


@inline_section
def _closes(loop):
    """Whether the conditions are met at x, up to the error of the extrapolation."""
    good = True
    for r in range(loop.rows):
        good &= abs(loop.phi[r]) <= EXTRAPOLATED * loop.sizes[r]
    return good


@without_reassociation
def _place(loop, fraction, out):
    """Write the independent coordinates at `fraction` of the way from the cut to the end to `out`."""
    for link in range(1, loop.links + 1):
        at = loop.coordinate[link]
        if not loop.follows[at]:
            here, cut, end = beyond(out, at), beyond(loop.cut, at), beyond(loop.end, at)
            advance_joint(loop.kind[link], here, cut, end, fraction, loop.lengths[1], loop.y)


# --- many turns ---------------------------------------------------------------------------------------------


@without_reassociation
def _lonely_crank(loop):
    """The coordinate of the crank that is the loop's only independent joint; -1 if there is none."""
    if loop.independent != 1:
        return -1
    for link in range(1, loop.links + 1):
        at = loop.coordinate[link]
        if not loop.follows[at] and is_crank(loop.kind[link]) and abs(loop.base[at]) <= FARTHEST_ANGLE:
            return at
    return -1


@inline_section
def _follow_turns(loop, crank):
    """Follow the loop turn by turn until it is back, then to the goal less turns. Returns as `follow`."""
    goal, start, trials = loop.goal[crank], loop.base[crank], MOST_TRIALS
    copy(loop, loop.base, loop.home)
    whole = abs(goal - start) / TURN
    turns = 0
    while turns < MOST_PERIOD and turns + 1 < whole:
        turns += 1
        store(loop.goal, crank, start + math.copysign(turns * TURN, goal - start))
        status, trials = _follow_to_goal(loop, trials)
        if status != 0:
            return status
        pivot = newton(loop)[0]
        keep(loop)
        if _is_same(loop, loop.home, SAME * pivot):
            _count_turns(loop, math.copysign(1.0, loop.base[crank] - start))
            if _turns_meet_couplings(loop):
                return _follow_rest(loop, crank, goal, turns, trials)
    store(loop.goal, crank, goal)
    return _follow_to_goal(loop, trials)[0]


@inline_section
def _turns_meet_couplings(loop):
    """Whether the whole turns meet the linear couplings, so that any number of them does.

    Without this, a ratio that is nearly a whole number would count as one.
    """
    for r in range(loop.rows):
        total, size = 0.0, 0.0
        if loop.row_kind[r] == LINEAR:
            for link in range(1, loop.links + 1):
                term = loop.turns[loop.coordinate[link]] * loop.T[loop.first[link] * loop.rows + r]
                total, size = total + term, size + abs(term)
        if abs(total) > SAME_RATIO * size:
            return False
    return True


@inline_section
def _follow_rest(loop, crank, goal, period, trials):
    """Follow the loop to its goal less multiples of `period` turns, then count these. Returns as `follow`."""
    start = loop.home[crank]
    within = math.atan2(math.sin(goal), math.cos(goal))
    whole, rest = np.rint((goal - within) / TURN), np.rint((start - within) / TURN)
    if period > 1:
        if abs(whole) > EXACT_COUNT:
            return 1
        while (whole - rest) % period != 0.0:
            rest += 1.0
    _begin(loop, loop.home)
    store(loop.goal, crank, within + rest * TURN)
    status = _follow_to_goal(loop, trials)[0]
    if status == 0:
        _add_turns(loop, (whole - rest) / period)
    return status


@inline_section
def _count_turns(loop, direction):
    """Write how often each joint turns from `home` to x to `turns`; direction is the crank's, 1 or -1."""
    for link in range(1, loop.links + 1):
        at = loop.coordinate[link]
        turns = whole_turns(loop.kind[link], beyond(loop.home, at), beyond(loop.x, at))
        store(loop.turns, at, direction * turns)


@inline_section
def _add_turns(loop, periods):
    """Add the whole turns of so many periods to the angles of dependent joints.

    More than `COUNTED_TURNS` are left out, because an angle would lose digits, except for joints of linear
    couplings, which count turns.
    """
    for link in range(1, loop.links + 1):
        at, column, counts = loop.coordinate[link], loop.first[link], False
        for r in range(loop.rows):
            counts |= loop.row_kind[r] == LINEAR and loop.T[column * loop.rows + r] != 0.0
        turns = periods * loop.turns[at]
        if turns != 0.0 and loop.follows[at] and (counts or abs(turns) <= COUNTED_TURNS):
            store(loop.x, at, loop.x[at] + turns * TURN)


# --- points of a path ---------------------------------------------------------------------------------------


@without_reassociation
def _begin(loop, point):
    """Let the path begin at a point."""
    copy(loop, point, loop.x)
    newton(loop)
    keep(loop)


@without_reassociation
def _is_same(loop, point, tolerance):
    """Whether x and a point differ by whole turns only."""
    for link in range(1, loop.links + 1):
        at = loop.coordinate[link]
        distance = distance_within_turn(
            loop.kind[link], beyond(loop.x, at), beyond(point, at), loop.lengths[1]
        )
        if not distance <= tolerance:
            return False
    return True
