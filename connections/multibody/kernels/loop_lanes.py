"""Loops closed for LANES configurations at once: `loop_path` in the lanes of vector registers.

Every lane follows a path of its own, by the same rules, and takes the next row when it has solved one. What
costs time (poses, conditions, K, its factorization, its change, predictions, G and LG) is computed for all
lanes together, once for each correction; the rules are applied, and coordinates moved, lane by lane, in a
workspace of each lane's own. Pivots are those of the given order, as for a single configuration.

A row is given up that needs many turns of a crank, short steps, or more than `MOST_ROUNDS`, or whose loop is
open or singular. `loop_continuation` solves it then, or says why it cannot be solved.
"""

from connections.engines.inlined.householder import scaled_length
from connections.engines.inlined.simd import (
    LANES,
    as_lanes,
    as_numbers,
    beyond,
    exact,
    inlined,
    load_lane,
    part,
    routine,
    store,
)
from connections.engines.inlined.vectors import reduced_angle
from connections.multibody.kernels.layout import unpack_loop_at
from connections.multibody.kernels.loop_branches import needs_turns
from connections.multibody.kernels.loop_continuation import write_derivatives
from connections.multibody.kernels.loop_geometry import place_links
from connections.multibody.kernels.loop_motion import advance, move_dependent
from connections.multibody.kernels.loop_path import (
    NO_MORE,
    POLISHED,
    SETTLED,
    SMALL,
    change_of_K,
    evaluate_and_solve,
    factor_after,
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
MOST_ROUNDS = 200  # of corrections of one row
# The slots of `control` of a lane, and what a lane is doing. Of all lanes, slot 0 is the change of
# K_d, and slot 1 whether K is to be kept.
PHASE, TRIAL, PREVIOUS, LEFT, STEP, WAY, FRACTION, ROUNDS, ROW = 0, 1, 2, 3, 4, 5, 6, 7, 8
SETTLING, STEPPING, POLISHING, SOLVED, GIVEN_UP, IDLE = 0.0, 1.0, 2.0, 3.0, 4.0, 5.0
KEEP, PREDICT = 1, 2  # what is to be done for a lane, bit by bit


@part
def solve_lanes(closure, i, starts, stride, good, solutions, size, count):
    """Fill the first `count` rows of `solutions` for loop i, from rows of `starts`.

    good : (count,) positive if the row is to be solved; zero is written for a row that is given up.
    """
    many = unpack_loop_at(closure, i, as_lanes(beyond(closure.work, (1 + LANES) * closure.slots)))
    for lane in range(LANES):
        store(_lane(closure, i, lane).control, PHASE, IDLE)
    row, working = 0, True
    while working:
        for lane in range(LANES):
            loop = _lane(closure, i, lane)
            if loop.control[PHASE] == SOLVED or loop.control[PHASE] == GIVEN_UP:
                _write_configuration(loop, good, solutions, size)
            while loop.control[PHASE] == IDLE and row < count:
                if good[row] > 0.0:
                    _begin(loop, beyond(starts, row * stride), beyond(solutions, row * size), row)
                row += 1
        working = _correct(closure, i, many)
    for first in range(0, count, LANES):
        _write_derivatives(many, beyond(solutions, first * size), size, min(LANES, count - first))


@inlined
def _lane(closure, i, lane):
    """Loop i with the workspace of a lane's own."""
    return unpack_loop_at(closure, i, beyond(closure.work, (1 + lane) * closure.slots))


@part
def _begin(loop, start, solution, row):
    """Let the lane of `loop` follow the path to a row."""
    for c in range(loop.coordinates):
        store(loop.x, c, start[loop.source[c]])
        store(loop.base, c, loop.x[c])
        if not loop.follows[c]:
            store(loop.goal, c, solution[loop.source[c]])
    store(loop.control, PHASE, GIVEN_UP if needs_turns(loop) else SETTLING)
    store(loop.control, TRIAL, 0.0)
    store(loop.control, ROUNDS, 0.0)
    store(loop.control, ROW, float(row))


@part
def _write_configuration(loop, good, solutions, size):
    """Write what a lane has found to its row; the lane is idle then."""
    row = int(loop.control[ROW])
    if loop.control[PHASE] == GIVEN_UP:
        store(good, row, 0.0)
    else:
        for c in range(loop.coordinates):
            if loop.follows[c]:
                store(solutions, row * size + loop.source[c], loop.x[c])
    store(loop.control, PHASE, IDLE)


@part
def _correct(closure, i, many):
    """One correction of every lane, or the next prediction. Returns whether a lane still works."""
    working, stepping = False, False
    for lane in range(LANES):
        loop = _lane(closure, i, lane)
        working |= loop.control[PHASE] != IDLE
        stepping |= loop.control[PHASE] == STEPPING
        for c in range(loop.coordinates):
            _set_coordinate(many, c, lane, loop.x[c])
    if not working:
        return False
    _evaluate(many)
    if stepping:
        change_of_K(many)
    keeping, predicting = False, False
    for lane in range(LANES):
        loop = _lane(closure, i, lane)
        to_do = _apply_rules(loop, many, lane)
        _set(many.control, 1, lane, 1.0 if to_do & KEEP else 0.0)
        keeping |= to_do & KEEP != 0
        predicting |= to_do & PREDICT != 0
        for s in range(loop.columns):
            _set(many.y, s, lane, loop.y[s])
    if keeping:
        keep_conditions(many, many.control[1])
    if predicting:
        solve_for_prediction(many)
        for lane in range(LANES):
            loop = _lane(closure, i, lane)
            if loop.control[PHASE] == STEPPING and loop.control[TRIAL] == 0.0:
                _take_prediction(loop, many, lane)
    return True


@inlined
def _set_coordinate(many, c, lane, number):
    _set(many.x, c, lane, number)
    _set(many.angles, c, lane, reduced_angle(number))


@routine
def _evaluate(many):
    """`newton` of `loop_path` in all lanes."""
    place_links(many)
    evaluate_and_solve(many)


@part
def _apply_rules(loop, many, lane):
    """What `settle`, `approach` and `polish` of `loop_path` do after a correction was computed."""
    phase = loop.control[PHASE]
    if phase >= SOLVED:
        return 0
    store(loop.control, ROUNDS, loop.control[ROUNDS] + 1.0)
    if loop.control[ROUNDS] > MOST_ROUNDS:
        return _give_up(loop)
    p, d = many.rows, many.dependent
    K_d = beyond(many.now, many.columns * p)
    pivot, length = pivot_of(many, K_d, lane), scaled_length(K_d, p, d, many.z, lane)
    for k in range(loop.dependent):
        store(loop.z, k, load_lane(many.z, k, lane))
    if not pivot >= SINGULAR:
        return _reject(loop, 0.5) if phase == STEPPING else _give_up(loop)
    if phase == SETTLING:
        if length <= SETTLED:
            store(loop.control, LEFT, 1.0)
            store(loop.control, STEP, 1.0)
            store(loop.control, WAY, max(advance(loop, 1.0)[1], 1.0))
            return KEEP | _begin_step(loop)
        move_dependent(loop, min(1.0, LARGEST_CORRECTION / length))
        return 0
    if phase == POLISHING:
        previous = loop.control[PREVIOUS]
        if length <= POLISHED and length > 0.25 * previous:
            return _finish(loop, many, lane, previous)
        move_dependent(loop, 1.0)
        store(loop.control, PREVIOUS, length)
        return _finish(loop, many, lane, length) if length <= NO_MORE else 0
    trial, change = loop.control[TRIAL], load_lane(many.control, 0, lane)
    if trial == 0.0 or length <= SMALL:
        if not change <= LARGEST_CHANGE:
            return _reject(loop, min(0.7, 0.8 * LARGEST_CHANGE / change))
    if trial == 6.0 or not length <= (0.5 * loop.control[PREVIOUS] if trial > 0.0 else LARGEST_CORRECTION):
        return _reject(loop, 0.5)
    move_dependent(loop, 1.0)
    store(loop.control, PREVIOUS, length)
    store(loop.control, TRIAL, trial + 1.0)
    if length > SMALL:
        return 0
    for c in range(loop.coordinates):
        store(loop.base, c, loop.x[c])
    if loop.control[FRACTION] == 1.0:
        store(loop.control, PHASE, POLISHING)
        store(loop.control, PREVIOUS, 1.0)
        return KEEP
    store(loop.control, LEFT, loop.control[LEFT] - loop.control[STEP])
    store(loop.control, STEP, loop.control[STEP] * factor_after(change))
    return KEEP | _begin_step(loop)


@inlined
def _give_up(loop):
    store(loop.control, PHASE, GIVEN_UP)
    return 0


@exact
def _reject(loop, factor):
    """Try a shorter step."""
    store(loop.control, STEP, min(loop.control[STEP], loop.control[LEFT]) * max(factor, 0.1))
    return _begin_step(loop)


@exact
def _begin_step(loop):
    """Move the independent coordinates, in a step that turns none of them too far."""
    store(loop.control, PHASE, STEPPING)
    store(loop.control, TRIAL, 0.0)
    for c in range(loop.coordinates):
        store(loop.x, c, loop.base[c])
    while loop.control[STEP] * loop.control[WAY] >= SHORTEST:
        step, left = loop.control[STEP], loop.control[LEFT]
        store(loop.control, FRACTION, step / left if step < 0.999 * left else 1.0)
        turn = advance(loop, loop.control[FRACTION])[0]
        if turn <= LARGEST_TURN:
            return PREDICT
        store(loop.control, STEP, min(step, left) * max(0.9 * LARGEST_TURN / turn, 0.1))
    return _give_up(loop)


@exact
def _finish(loop, many, lane, length):
    """The end of a path, after a correction of this length."""
    store(loop.control, PHASE, SOLVED if is_closed(many, length, lane) else GIVEN_UP)
    return 0


@part
def _take_prediction(loop, many, lane):
    """Move the dependent coordinates as predicted; a step that turns one of them too far is shortened."""
    for c in range(loop.coordinates):
        if loop.follows[c]:
            store(loop.x, c, loop.base[c])
    for k in range(loop.dependent):
        store(loop.z, k, load_lane(many.z, k, lane))
    turn = move_dependent(loop, 1.0)
    if not turn <= LARGEST_TURN:  # predictions are proportional to steps, apart from those of quaternions
        shorter = 0.9 * LARGEST_TURN / turn
        store(loop.control, STEP, min(loop.control[STEP], loop.control[LEFT]) * max(shorter, 0.1))
        store(loop.control, FRACTION, loop.control[STEP] / loop.control[LEFT])
        advance(loop, loop.control[FRACTION])
        for c in range(loop.coordinates):
            if loop.follows[c]:
                store(loop.x, c, loop.base[c])
        if not move_dependent(loop, max(shorter, 0.1)) <= LARGEST_TURN:
            _give_up(loop)


@part
def _write_derivatives(many, solutions, size, count):
    """Write G and LG to the first `count` rows of `solutions`."""
    for lane in range(LANES):
        row = min(lane, count - 1) * size
        for c in range(many.coordinates):
            _set_coordinate(many, c, lane, solutions[row + many.source[c]])
    _evaluate(many)
    write_derivatives(many, solutions, size, count)


@inlined
def _set(slots, slot, lane, number):
    store(as_numbers(slots), slot * LANES + lane, number)
