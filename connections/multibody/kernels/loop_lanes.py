"""Loops closed for LANES configurations at once: `loop_path` in the lanes of vector registers.

Every lane follows a path of its own, by the same rules, and takes the next row when it has come to the end of
one. What costs time (poses, conditions, K, its factorization, its change, predictions, and the motion of
dependent joints) is computed for all lanes together, once for each correction; the rules decide lane by lane
by which factor a lane moves, and whether it keeps a point or begins a step. At the ends of their paths, rows
are polished and differentiated together, LANES at a time. Pivots are those of the given order, as for a
single configuration.

A row is given up that needs many turns of a crank, short steps, or more than `MOST_ROUNDS`, or whose loop is
open or singular. `loop_continuation` solves it then, or says why it cannot be solved.
"""

from connections.engines.inlined.householder import scaled_length
from connections.engines.inlined.simd import (
    LANES,
    as_lanes,
    beyond,
    chosen,
    in_lane,
    inline_section,
    inlined,
    routine,
    store,
    without_reassociation,
)
from connections.engines.inlined.vectors import FARTHEST_ANGLE
from connections.multibody.kernels.elementary_joints import is_angle
from connections.multibody.kernels.layout import unpack_loop_at
from connections.multibody.kernels.loop_branches import needs_turns
from connections.multibody.kernels.loop_continuation import write_derivatives
from connections.multibody.kernels.loop_geometry import place_links
from connections.multibody.kernels.loop_motion import advance, largest_turn, move_dependent
from connections.multibody.kernels.loop_path import (
    CHANGE,
    MOST_CORRECTIONS,
    MOST_POLISHES,
    NO_MORE,
    PIVOT,
    POLISHED,
    REFUSED,
    SETTLED,
    SMALL,
    change_of_K,
    evaluate_and_solve,
    factor_after,
    factor_after_too_much,
    is_closed,
    keep_conditions,
    pivot_of,
    solve_for_prediction,
)
from connections.multibody.tolerances import (
    LARGEST_CHANGE,
    LARGEST_CORRECTION,
    LARGEST_TURN,
    SINGULAR,
)

SHORTEST = 1e-3  # rad, or of the loop's size; a lane that needs shorter steps is given up
MOST_ROUNDS = 200  # of corrections of one path
# Slots of `control`, beside `CHANGE` and `PIVOT`: the length of the correction; by how much of it the lane
# moves, 0 if it stays; whether it keeps its point, or begins a step; then the numbers of its path.
LENGTH, FACTOR, KEEPS, BEGINS = 2, 3, 4, 5
PHASE, TRIAL, PREVIOUS, LEFT, STEP, WAY, FRACTION, ROUNDS, ROW = 6, 7, 8, 9, 10, 11, 12, 13, 14
# What a lane is doing.
SETTLING, STEPPING, ARRIVED, POLISHING, SOLVED, GIVEN_UP, IDLE = 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0


@inline_section
def solve_lanes(closure, i, starts, stride, good, solutions, size, count):
    """Fill the first `count` rows of `solutions` for loop i, from rows of `starts`.

    good : (count,) positive if the row is to be solved; zero is written for a row that is given up.
    """
    many = unpack_loop_at(closure, i, _work(closure))
    store(many.control, PHASE, IDLE)
    row, working = 0, True
    while working:
        for lane in range(LANES):
            loop = _lane(closure, i, lane)
            if loop.control[PHASE] == ARRIVED or loop.control[PHASE] == GIVEN_UP:
                _write_configuration(loop, good, solutions, size)
            while loop.control[PHASE] == IDLE and row < count:
                if good[row] > 0.0:
                    _begin(loop, beyond(starts, row * stride), beyond(solutions, row * size), row)
                row += 1
        working = _correct(closure, i, many)
    for first in range(0, count, LANES):
        _finish(closure, i, many, beyond(good, first), beyond(solutions, first * size), size, count - first)


@inlined
def _work(closure):
    """The workspace of all lanes."""
    return as_lanes(beyond(closure.work, closure.slots))


@inlined
def _lane(closure, i, lane):
    """Loop i with a lane of the workspace of all."""
    return unpack_loop_at(closure, i, in_lane(_work(closure), lane))


@inline_section
def _begin(loop, start, solution, row):
    """Let the lane of `loop` follow the path to a row."""
    _read(loop, start)
    for c in range(loop.coordinates):
        store(loop.base, c, loop.x[c])
        store(loop.goal, c, loop.x[c] if loop.follows[c] else solution[loop.source[c]])
    store(loop.control, PHASE, GIVEN_UP if needs_turns(loop) or _is_far(loop) else SETTLING)
    store(loop.control, TRIAL, 0.0)
    store(loop.control, ROUNDS, 0.0)
    store(loop.control, ROW, float(row))


@without_reassociation
def _read(loop, configuration):
    for c in range(loop.coordinates):
        store(loop.x, c, configuration[loop.source[c]])


@without_reassociation
def _is_far(loop):
    """Whether an angle may become so large on the path that it would have to be reduced."""
    far = False
    for link in range(1, loop.links + 1):
        if is_angle(loop.kind[link]):
            at = loop.coordinate[link]
            largest = max(abs(loop.base[at]), abs(loop.goal[at]))
            far |= not largest <= FARTHEST_ANGLE - MOST_ROUNDS * LARGEST_TURN
    return far


@inline_section
def _write_configuration(loop, good, solutions, size):
    """Write the end of a lane's path to its row; the lane is idle then."""
    row = int(loop.control[ROW])
    if loop.control[PHASE] == GIVEN_UP:
        store(good, row, 0.0)
    else:
        _write_dependent(loop, beyond(solutions, row * size))
    store(loop.control, PHASE, IDLE)


@without_reassociation
def _write_dependent(loop, solution):
    for c in range(loop.coordinates):
        if loop.follows[c]:
            store(solution, loop.source[c], loop.x[c])


@inline_section
def _correct(closure, i, many):
    """One correction of every lane, and the predictions of new steps. Returns whether a lane still works."""
    working, stepping = False, False
    for lane in range(LANES):
        phase = _lane(closure, i, lane).control[PHASE]
        working |= phase != IDLE
        stepping |= phase == STEPPING
    if not working:
        return False
    _newton(many)
    if stepping:
        change_of_K(many)
    keeping, beginning = False, False
    for lane in range(LANES):
        loop = _lane(closure, i, lane)
        _apply_rules(loop)
        keeping |= loop.control[KEEPS] > 0.0
        beginning |= loop.control[BEGINS] > 0.0
    _move(many)
    if keeping:
        _choose(many, many.control[KEEPS], many.x, many.base)
        keep_conditions(many, many.control[KEEPS])
    if beginning:
        _choose(many, many.control[BEGINS], many.base, many.x)
        for lane in range(LANES):
            loop = _lane(closure, i, lane)
            if loop.control[BEGINS] > 0.0:
                _begin_step(loop)
        solve_for_prediction(many)
        for lane in range(LANES):
            loop = _lane(closure, i, lane)
            store(loop.control, FACTOR, _part_of_prediction(loop) if loop.control[BEGINS] > 0.0 else 0.0)
        _move(many)
    return True


@routine
def _newton(many):
    """`newton` of `loop_path` in all lanes."""
    for c in range(many.coordinates):
        store(many.angles, c, many.x[c])
    place_links(many)
    K_d = evaluate_and_solve(many)
    pivot_of(many, K_d)
    store(many.control, LENGTH, scaled_length(K_d, many.rows, many.dependent, many.z))


@routine
def _move(many):
    """Move the dependent joints of each lane by its factor, and leave those whose factor is zero."""
    factor = many.control[FACTOR]
    for k in range(many.dependent):
        store(many.z, k, chosen(factor, many.z[k], 0.0))
    move_dependent(many, factor)


@without_reassociation
def _choose(many, flag, source, target):
    """Copy a configuration where flag > 0."""
    for c in range(many.coordinates):
        store(target, c, chosen(flag, source[c], target[c]))


@inline_section
def _apply_rules(loop):
    """Choose the next step of the path in each lane after a correction, as `settle` and `approach` do."""
    control = loop.control
    store(control, FACTOR, 0.0)
    store(control, KEEPS, 0.0)
    store(control, BEGINS, 0.0)
    phase, trial, pivot, length = control[PHASE], control[TRIAL], control[PIVOT], control[LENGTH]
    if phase == IDLE or phase == GIVEN_UP:
        return
    store(control, ROUNDS, control[ROUNDS] + 1.0)
    if control[ROUNDS] > MOST_ROUNDS or (phase == SETTLING and not pivot >= SINGULAR):
        store(control, PHASE, GIVEN_UP)
    elif phase == SETTLING:
        if length <= SETTLED:
            store(control, PHASE, STEPPING)
            store(control, LEFT, 1.0)
            store(control, STEP, 1.0)
            store(control, WAY, 0.0)
            _go_on(control)
        else:
            store(control, FACTOR, min(1.0, LARGEST_CORRECTION / length))
    elif not pivot >= SINGULAR:
        _reject(control, REFUSED)
    elif (trial == 0.0 or length <= SMALL) and not control[CHANGE] <= LARGEST_CHANGE:
        _reject(control, factor_after_too_much(control[CHANGE]))
    elif trial == MOST_CORRECTIONS or not length <= (
        0.5 * control[PREVIOUS] if trial > 0.0 else LARGEST_CORRECTION
    ):
        _reject(control, REFUSED)
    else:
        store(control, FACTOR, 1.0)
        store(control, PREVIOUS, length)
        store(control, TRIAL, trial + 1.0)
        if length <= SMALL and control[FRACTION] == 1.0:
            store(control, PHASE, ARRIVED)
        elif length <= SMALL:
            store(control, LEFT, control[LEFT] - control[STEP])
            store(control, STEP, control[STEP] * factor_after(control[CHANGE]))
            _go_on(control)


@without_reassociation
def _go_on(control):
    """Keep the point that is reached, and begin a step there."""
    store(control, KEEPS, 1.0)
    store(control, BEGINS, 1.0)


@without_reassociation
def _reject(control, factor):
    """Try a shorter step."""
    store(control, STEP, min(control[STEP], control[LEFT]) * max(factor, 0.1))
    store(control, BEGINS, 1.0)


@without_reassociation
def _begin_step(loop):
    """Move the independent coordinates, in a step that turns none of them too far."""
    control = loop.control
    if control[WAY] == 0.0:
        store(control, WAY, max(advance(loop, 1.0)[1], 1.0))
    store(control, TRIAL, 0.0)
    while control[STEP] * control[WAY] >= SHORTEST:
        step, left = control[STEP], control[LEFT]
        store(control, FRACTION, step / left if step < 0.999 * left else 1.0)
        turn = advance(loop, control[FRACTION])[0]
        if turn <= LARGEST_TURN:
            return
        store(control, STEP, min(step, left) * max(0.9 * LARGEST_TURN / turn, 0.1))
    store(control, PHASE, GIVEN_UP)


@without_reassociation
def _part_of_prediction(loop):
    """The share of the prediction by which the lane moves; a step that turns a joint too far is shortened."""
    turn, control = largest_turn(loop, 1.0), loop.control
    if turn <= LARGEST_TURN:
        return 1.0
    # Predictions are proportional to steps, apart from those of quaternions.
    shorter = max(0.9 * LARGEST_TURN / turn, 0.1)
    store(control, STEP, min(control[STEP], control[LEFT]) * shorter)
    store(control, FRACTION, control[STEP] / control[LEFT])
    advance(loop, control[FRACTION])
    if not largest_turn(loop, shorter) <= LARGEST_TURN:
        store(control, PHASE, GIVEN_UP)
    return shorter


@inline_section
def _finish(closure, i, many, good, solutions, size, count):
    """`polish` of `loop_path`, G and LG of the first LANES or `count` rows of `solutions`."""
    for lane in range(LANES):
        loop, row = _lane(closure, i, lane), min(lane, count - 1)
        _read(loop, beyond(solutions, row * size))
        store(loop.control, PHASE, POLISHING if good[row] > 0.0 else GIVEN_UP)
        store(loop.control, PREVIOUS, 1.0)
    polishing, trial = True, 0
    while polishing and trial < MOST_POLISHES:
        _newton(many)
        polishing = False
        for lane in range(LANES):
            control = _lane(closure, i, lane).control
            _polish(control)
            polishing |= control[PHASE] == POLISHING
        _move(many)
        trial += 1
    for lane in range(min(LANES, count)):
        loop = _lane(closure, i, lane)
        if loop.control[PHASE] != GIVEN_UP and is_closed(loop, loop.control[PREVIOUS]):
            _write_dependent(loop, beyond(solutions, lane * size))
            last = lane * size + closure.size - 1
            store(solutions, last, min(solutions[last], loop.control[PIVOT]))
        elif good[lane] > 0.0:
            store(good, lane, 0.0)
    write_derivatives(many, solutions, size, min(LANES, count))


@without_reassociation
def _polish(control):
    """Choose whether a lane makes another Newton step after a correction, as `polish` of `loop_path` does."""
    length = control[LENGTH]
    store(control, FACTOR, 0.0)
    if control[PHASE] == POLISHING:
        if not control[PIVOT] >= SINGULAR:
            store(control, PHASE, GIVEN_UP)
        elif length <= POLISHED and length > 0.25 * control[PREVIOUS]:
            store(control, PHASE, SOLVED)
        else:
            store(control, FACTOR, 1.0)
            store(control, PREVIOUS, length)
            store(control, PHASE, SOLVED if length <= NO_MORE else POLISHING)
