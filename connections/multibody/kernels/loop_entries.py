"""The compiled functions that close loops and differentiate them, for one configuration and for rows of them.

``guess`` is the spanning configuration at which the paths begin; if it is of size 0, that is the reference.
For rows it is one row, for all, or a row for each, and ``closure`` has the workspace of all lanes.
``closure_rows`` releases the interpreter's lock; every thread needs its own ``closure``, which contains the
workspace. Both functions return the status of `loop_continuation.solve_directly`, or `BAD_INPUT`, for rows
that of the first row that is not solved; such rows of ``out`` are NaN. Where it is `INDIRECT`,
``closure_rest`` solves the rows that are NaN in ``directly``, across points in which branches cross and over
many turns, and computes the digits that solutions have lost. ``closure_fine`` does only that: ``closure_at``
returns `REFINABLE` for such a solution, and of rows the last numbers say it. Both are rarely needed, so that
they are not compiled with the others.
``bias_rates_at`` and ``bias_rates_rows`` write L_j (L_v G) v at solutions, laid out as G in a solution,
and return whether no loop is singular. ``conditions_at`` evaluates the conditions of the first loop at any q.
"""

import math

from connections.engines.inlined.simd import (
    LANES,
    beyond,
    compiled_batch_entry,
    compiled_entry,
    flat_slots_of,
    inlined,
    load,
    store,
    unreassociated_batch_entry,
    unreassociated_entry,
)
from connections.multibody.kernels.layout import (
    BAD_INPUT,
    BLOCK,
    INDIRECT,
    POSE,
    REFINABLE,
    unpack_closure,
    unpack_loop,
)
from connections.multibody.kernels.loop_bias_rates import rates_of_loop
from connections.multibody.kernels.loop_continuation import (
    LOOPS_REMAIN,
    begin,
    digits_lost,
    solve_directly,
    solve_loops,
)
from connections.multibody.kernels.loop_geometry import evaluate, place_loop
from connections.multibody.kernels.loop_lanes import solve_lanes
from connections.multibody.kernels.loop_refinement import refine


@unreassociated_entry
def closure_at(closure, q, guess, out):
    slots, solution, start = flat_slots_of(closure), flat_slots_of(out), flat_slots_of(guess)
    loops = unpack_closure(slots)
    if out.shape[0] != loops.size:
        return BAD_INPUT
    status = begin(slots, flat_slots_of(q), q.shape[0], start, guess.shape[0], solution)
    if status == LOOPS_REMAIN:
        status = solve_directly(loops, start if guess.shape[0] > 0 else loops.reference, solution)
    return status


@unreassociated_batch_entry
def closure_rest(closure, q, guess, directly, out):
    slots, status = flat_slots_of(closure), 0
    loops = unpack_closure(slots)
    if not _have_shapes(loops, q, guess, out) or directly.shape != out.shape:
        return BAD_INPUT
    for row in range(q.shape[0]):
        for i in range(loops.size):
            out[row, i] = directly[row, i]
        solution, found = flat_slots_of(out[row]), 0
        if math.isnan(directly[row, 0]):
            start = flat_slots_of(guess[row if guess.shape[0] > 1 else 0])
            found = begin(slots, flat_slots_of(q[row]), q.shape[1], start, guess.shape[1], solution)
            if found == LOOPS_REMAIN:
                found = solve_loops(loops, start if guess.shape[1] > 0 else loops.reference, solution)
        if digits_lost(loops, solution) != 0:
            found = refine(loops, solution)
        if found != 0 and found != REFINABLE:
            status = found if status == 0 else status
            for i in range(loops.size):
                out[row, i] = math.nan
    return status


@unreassociated_batch_entry
def closure_fine(closure, coarse, out):
    slots, status = flat_slots_of(closure), 0
    loops = unpack_closure(slots)
    if out.shape[1] != loops.size or out.shape != coarse.shape:
        return BAD_INPUT
    for row in range(out.shape[0]):
        for i in range(loops.size):
            out[row, i] = coarse[row, i]
        solution = flat_slots_of(out[row])
        if digits_lost(loops, solution) != 0:
            found = refine(loops, solution)
            if found != 0:
                status = found if status == 0 else status
                for i in range(loops.size):
                    out[row, i] = math.nan
    return status


@inlined
def _have_shapes(loops, q, guess, out):
    """Whether rows of q, of guesses and of solutions have the sizes of `closure`."""
    rows_agree = out.shape[0] == q.shape[0] and (guess.shape[0] == 1 or guess.shape[0] == q.shape[0])
    return out.shape[1] == loops.size and rows_agree


@unreassociated_batch_entry
def closure_rows(closure, q, guess, out):
    slots, starts, status = flat_slots_of(closure), flat_slots_of(guess), 0
    loops = unpack_closure(slots)
    if not _have_shapes(loops, q, guess, out):
        return BAD_INPUT
    stride = guess.shape[1] if guess.shape[0] > 1 else 0
    good = beyond(loops.work, (1 + LANES) * loops.slots)
    for row in range(0, q.shape[0], BLOCK):
        count, lanes = min(BLOCK, q.shape[0] - row), False
        solutions = beyond(flat_slots_of(out), row * out.shape[1])
        own = beyond(starts, row * stride) if guess.shape[1] > 0 else loops.reference
        for lane in range(count):
            here, solution = (
                beyond(flat_slots_of(q), (row + lane) * q.shape[1]),
                beyond(solutions, lane * out.shape[1]),
            )
            found = begin(slots, here, q.shape[1], beyond(own, lane * stride), guess.shape[1], solution)
            store(good, lane, 1.0 if found == LOOPS_REMAIN else -1.0)
            lanes |= found == LOOPS_REMAIN
            if found != LOOPS_REMAIN and found != 0:
                status = found if status == 0 else status
                out[row + lane] = math.nan
        if lanes:
            for i in range(loops.loops):
                solve_lanes(loops, i, own, stride, good, solutions, out.shape[1], count)
            for lane in range(count):
                if good[lane] == 0.0:
                    status = INDIRECT if status == 0 else status
                    out[row + lane] = math.nan
    return status


@inlined
def _rates_of_loops(closure, solution, v, out):
    """Write the bias rates of all loops to `out`, zero before. Returns whether no loop is singular."""
    good, slots = True, flat_slots_of(solution)
    for i in range(closure.loops):
        loop = unpack_loop(closure, i)
        own = beyond(flat_slots_of(v), loop.velocity)
        good &= rates_of_loop(loop, slots, own, closure.spanning_nq, flat_slots_of(out)) == 0
    return good


@compiled_entry
def bias_rates_at(closure, solution, v, out):
    loops = unpack_closure(flat_slots_of(closure))
    if solution.shape[0] != loops.size:
        return False
    out[:] = 0.0
    return _rates_of_loops(loops, solution, v, out)


@compiled_batch_entry
def bias_rates_rows(closure, solution, v, out):
    loops, good = unpack_closure(flat_slots_of(closure)), True
    if solution.shape[1] != loops.size:
        return False
    out[:] = 0.0
    for row in range(out.shape[0]):
        good &= _rates_of_loops(loops, solution[row], v[row], out[row])
    return good


@compiled_entry
def conditions_at(closure, q, phi, K, poses, columns):
    """phi (p,), K^T (m, p), poses (links + 1, POSE) and columns Phi (m, 6) in the carrier's axes."""
    closed = unpack_closure(flat_slots_of(closure))
    if closed.loops == 0:
        return False
    loop = unpack_loop(closed, 0)
    if q.shape[0] != loop.coordinates or phi.shape[0] != loop.rows:
        return False
    for i in range(loop.coordinates):
        store(loop.x, i, q[i])
    place_loop(loop)
    evaluate(loop)
    for r in range(loop.rows):
        phi[r] = loop.phi[r]
    _copy(loop.now, loop.columns * loop.rows, K)
    _copy(loop.poses, (loop.links + 1) * POSE.size, poses)
    _copy(loop.Phi, loop.columns * 6, columns)
    return True


@inlined
def _copy(slots, count, out):
    numbers = flat_slots_of(out)
    for i in range(count):
        store(numbers, i, load(slots, i))
