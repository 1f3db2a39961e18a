"""A motion under JAX's tracing: the steps of `driver`, inside of a compiled function.

The lengths of the steps are found first, without derivatives. The steps with these lengths are then
differentiated, in forward and in reverse mode and to any order: each step is a few evaluations of the rate.
The state at every `BLOCK`-th step is stored, and the steps between are computed again from it. Compiling
takes most of the time of a first call, so the rate occurs once in the search for the steps, and once in the
derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.engines.internals.jax_names import eval_jaxpr, new_operation
from connections.integration.solver import Settings
from connections.integration.steps import step_at
from connections.integration.tolerances import (
    CLOCK,
    FIRST_STEP,
    LOOK,
    NO_LONGER,
    SHORTEST,
    SUSPECT,
    LayoutKey,
    StateLayout,
    across,
    at_beginning,
    clock_counts,
    is_taken,
    next_length,
    other_side,
    relative_drift,
    with_error_ratios,
)

BLOCK = 64  # reverse mode stores the state before every block of so many steps
DRIFTED, ASKS = 2, 3
MOST = 512 * BLOCK  # stored steps; a motion with more of them has no derivative

Function = Callable[[jax.Array, jax.Array], jax.Array]


class MotionInProgress(NamedTuple):
    """A motion at the beginning of a step."""

    s: jax.Array
    h: jax.Array  # of the next step
    state: jax.Array  # (STATE, k), as of `tolerances.STATE`; dy/ds is not known before the first step
    scale: jax.Array  # the largest scale of what is conserved so far
    first: jax.Array  # its first value
    target: jax.Array  # which requested time it goes to
    tried: jax.Array  # steps
    kept: jax.Array  # how many of those were accepted
    leaves_rest: jax.Array
    asks: jax.Array  # whether it ends where a short step has a large error
    ended: jax.Array  # 0 while it goes on, `DRIFTED`, `ASKS`, or 1 for any other reason
    states: jax.Array  # (T + 1, k) at the requested times; the last is for states that are not wanted
    drift: jax.Array  # (T + 1,) of what is conserved, there
    steps: Any  # marks and steps of `_StoredMotion`, or nothing


def solve(
    rate: Function,
    scales_at: Function,
    y0: jax.Array,
    scales: jax.Array,
    layout: StateLayout,
    clock: jax.Array,
    settings: Settings,
) -> tuple[jax.Array, jax.Array]:
    """States (T, k) of dy/ds = rate(s, y) with y(0) = y0, and the drift (T,) of what is conserved.

    Both are NaN from the first time that is not reached. The drift has no derivative.

    Parameters
    ----------
    rate, scales_at : the rate and the scales of `step_at`; they may contain what JAX is differentiating.
    y0 : (k,) where the motion begins.
    scales, layout : as of `tolerances.with_error_ratios`.
    clock : (T,) the requested times, monotone from zero.
    settings : of the steps.
    """
    plain_rate, rate_constants = _without_closure(rate, y0)
    plain_units, unit_constants = _without_closure(scales_at, y0)
    others = scales, unit_constants, Settings(*map(jnp.asarray, settings))
    functions = plain_rate, plain_units, LayoutKey.of(layout)
    found: tuple[jax.Array, jax.Array] = _solve(functions, y0, clock, rate_constants, others)
    return found


def _without_closure(function: Function, y: jax.Array) -> tuple[Callable[..., jax.Array], tuple[Any, ...]]:
    """(s, y, *constants) -> function(s, y), and the arrays that the function contains."""
    jaxpr = jax.make_jaxpr(function)(jnp.zeros(()), y)

    def plain(s: jax.Array, y: jax.Array, *constants: Any) -> jax.Array:
        value: jax.Array = eval_jaxpr(jaxpr.jaxpr, constants, s, y)[0]
        return value

    return plain, tuple(jaxpr.consts)


class StepControl(NamedTuple):
    """The scales, requested times and lengths of steps of a motion.

    Parameters
    ----------
    scales : as of `tolerances.with_error_ratios`.
    clock : (T,) the requested times.
    count : how many of them are real; the others fill up a length.
    whole, sign : how long the motion is, and the direction of time.
    first, longest : lengths of steps.
    settings : of the steps.
    """

    scales: Any
    clock: Any
    count: Any
    whole: Any
    sign: Any
    first: Any
    longest: Any
    settings: Settings


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solve(functions: Any, y0: Any, clock: Any, constants: Any, others: Any) -> tuple[jax.Array, jax.Array]:
    found = _by_steps(functions, y0, clock, constants, others, 0)
    return found.states, found.drift


@partial(_solve.defjvp, symbolic_zeros=True)
def _solve_jvp(functions: Any, primals: Any, tangents: Any) -> Any:
    kept = _stored_motion(functions, *primals)
    states = _tangents(functions[0], kept, primals, tangents)[0]
    return (kept.states, kept.drift), (states, jnp.zeros_like(kept.drift))


class _StoredMotion(NamedTuple):
    """A motion and the steps by which it was found.

    Parameters
    ----------
    states, drift : (T, k) and (T,) at the requested times.
    marks : (MOST / BLOCK, k) at the beginning of every `BLOCK`-th step.
    steps : (MOST, 4) when each begins, how long it is, which requested time it goes to: 2.0 if it ends at the
        third, -2.0 if it ends before; and how long before its begin the rate is that of all of it, if it
        goes over a breakpoint, else 0.0.
    total : how many steps there are.
    """

    states: jax.Array
    drift: jax.Array
    marks: jax.Array
    steps: jax.Array
    total: jax.Array


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _stored_motion(functions: Any, y0: Any, clock: Any, constants: Any, others: Any) -> _StoredMotion:
    found = _by_steps(functions, y0, clock, constants, others, MOST)
    marks, steps = found.steps
    return _StoredMotion(found.states, found.drift, marks, steps, found.kept)


@partial(_stored_motion.defjvp, symbolic_zeros=True)
def _kept_jvp(functions: Any, primals: Any, tangents: Any) -> tuple[_StoredMotion, _StoredMotion]:
    kept = _stored_motion(functions, *primals)
    states, marks = _tangents(functions[0], kept, primals, tangents)
    integer: Any = np.zeros((), jax.dtypes.float0)
    drift, steps = jnp.zeros_like(kept.drift), jnp.zeros_like(kept.steps)
    return kept, _StoredMotion(states, drift, marks, steps, integer)


def _by_steps(
    functions: Any, y0: jax.Array, clock: jax.Array, constants: Any, others: Any, room: int
) -> MotionInProgress:
    """The motion; if `room` is not zero, also its first `room` kept steps, as in `_StoredMotion`."""
    plain_rate, plain_units, key = functions
    scales, unit_constants, settings = others

    def rate(s: jax.Array, y: jax.Array) -> jax.Array:
        value: jax.Array = plain_rate(s, y, *constants)
        return value

    def units(s: jax.Array, y: jax.Array) -> jax.Array:
        value: jax.Array = plain_units(s, y, *unit_constants)
        return value

    whole = jnp.abs(clock[-1])
    first, longest = settings.lengths(whole, FIRST_STEP, jnp)
    course = StepControl(scales, clock, len(clock), whole, jnp.sign(clock[-1]), first, longest, settings)
    begin = beginning(y0, course, room, jnp)
    found = after_steps(rate, units, key.layout, course, begin, np.inf)
    steps = tuple(array[:-1] for array in found.steps)
    return found._replace(states=found.states[:-1], drift=found.drift[:-1], steps=steps)


def beginning(y0: Any, course: StepControl, room: int = 0, numpy: Any = np) -> MotionInProgress:
    """A motion before its first step.

    Parameters
    ----------
    y0 : (k,) where it begins.
    course : what it keeps to.
    room : how many steps are stored.
    numpy : NumPy, or a module with the same functions.
    """
    nothing, false = numpy.zeros((), dtype=numpy.int32), numpy.zeros((), dtype=bool)
    steps: Any = ()
    if room:
        steps = numpy.zeros((room // BLOCK + 1, len(y0))), numpy.zeros((room + 1, 4))
    later = numpy.full((len(course.clock), len(y0)), numpy.nan)
    return MotionInProgress(
        s=numpy.zeros(()),
        h=course.sign * course.first,
        state=at_beginning(y0, course.scales[0], numpy),
        scale=numpy.zeros(()),
        first=numpy.zeros(()),
        target=nothing + 1,
        tried=nothing - 1,  # a step of no length finds the first rate
        kept=nothing,
        leaves_rest=false,
        asks=false,
        ended=nothing,
        states=numpy.concatenate([y0[None], later]),
        drift=numpy.concatenate([numpy.zeros(1), numpy.full(len(later), numpy.nan)]),
        steps=steps,
    )


def after_steps(
    rate: Function,
    scales_at: Function,
    layout: StateLayout,
    course: StepControl,
    begin: MotionInProgress,
    until: Any,
) -> MotionInProgress:
    """A motion at its last requested time, where it ends, or after `until` steps; JAX-traceable.

    Parameters
    ----------
    rate, scales_at : the rate and the scales of `step_at`.
    layout : as of `tolerances.with_error_ratios`.
    course : what the motion keeps to.
    begin : where it is.
    until : the count of steps, of `MotionInProgress.tried`, at which it rests.
    """
    scales, clock, count, whole, sign, _, longest, settings = course
    last, room = len(clock), len(begin.steps[1]) - 1 if begin.steps else 0
    shortest = SHORTEST * whole

    def goes_on(at: MotionInProgress) -> jax.Array:
        going: jax.Array = (at.target < count) & (at.ended == 0) & (at.tried < until)
        return going

    def step(at: MotionInProgress) -> MotionInProgress:
        goal, first = clock[at.target], at.tried < 0
        beside = jnp.abs(goal - at.s) <= settings.gap
        crosses = beside & ~first
        ends = ((jnp.abs(at.h) >= NO_LONGER * jnp.abs(goal - at.s)) | crosses) & ~first
        h = jnp.where(first, 0.0, jnp.where(ends, goal - at.s, at.h))
        far = sign * other_side(jnp.abs(at.s), settings.gap, whole, jnp)
        begin, step = jnp.where(beside, far, at.s), jnp.where(crosses, 0.0, h)
        length, before = jnp.abs(h), at.state
        tried = step_at(rate, scales_at, begin, step, before[0], before[1])
        tried = jnp.where(crosses, across(tried, before, h, jnp), tried)
        clock_error = jnp.where(at.leaves_rest, CLOCK * whole, 0.0)
        tolerances = settings.rtol, settings.atol
        found = with_error_ratios(
            tried, before, scales, layout, jnp.abs(at.s + h), jnp.abs(step), clock_error, tolerances, jnp
        )
        counts = clock_counts(found, before, whole, jnp)
        # A step of length zero, to find the first rate or between two equal times, has no errors.
        error = jnp.where((length == 0.0) | crosses, 0.0, jnp.fmin(jnp.max(found[-1], initial=0.0), jnp.inf))
        known = jnp.all(jnp.isfinite(found[:2])) | ~(first | crosses)
        error, short = jnp.where(known, error, jnp.inf), length <= shortest
        scale, conserved = jnp.fmax(at.scale, found[5, -1]), found[5, 0]
        drift = relative_drift(conserved, scale, at.first, jnp)
        drifted = ~(drift <= settings.drift) & (ends | (at.tried % LOOK == 0)) & ~first
        leaving = at.leaves_rest & counts
        taken = (error >= 1.0) & short & is_taken(length, found, before, leaving, jnp)
        # Not where the motion would end: this has a reason of its own.
        asks = at.asks & (error >= 1.0) & (length <= SUSPECT * whole) & (taken | ~short)
        taken = taken & ~asks
        kept, longer = next_length(length, jnp.abs(at.h), ends, error, taken, (shortest, longest), jnp)
        longer = jnp.where(first, jnp.abs(at.h), longer)
        arrives, at_rest, steps = kept & ends & ~drifted, jnp.any(counts), at.steps
        recorded = jnp.where(arrives, at.target, last)
        if room:
            mark = jnp.where(at.kept % BLOCK == 0, at.kept // BLOCK, room)
            place = jnp.where(kept & ~first, at.kept, room)
            # Behind its begin if this is the first time: there is no time before.
            back = jnp.where(jnp.abs(at.s) < settings.gap, -settings.gap, settings.gap)
            row = jnp.stack([at.s, h, jnp.where(ends, at.target, -at.target), crosses * sign * back])
            steps = _with_row(at.steps[0], mark, before[0]), _with_row(at.steps[1], place, row)
        return MotionInProgress(
            s=jnp.where(kept, jnp.where(ends, goal, at.s + h), at.s),
            h=sign * longer,
            state=jnp.where(kept, found[:-1], before),
            scale=jnp.where(kept, scale, at.scale),
            first=jnp.where(first, conserved, at.first),
            target=at.target + arrives,
            tried=at.tried + 1,
            kept=at.kept + (kept & ~first),
            leaves_rest=jnp.where(kept, taken | (at.leaves_rest & at_rest), at.leaves_rest),
            asks=at.asks,
            ended=jnp.where(
                kept & drifted,
                DRIFTED,
                jnp.where(asks, ASKS, (~kept & short) | (at.tried >= settings.max_steps)),
            ).astype(jnp.int32),
            states=_with_row(at.states, recorded, found[0]),
            drift=_with_row(at.drift, recorded, drift),
            steps=steps,
        )

    found: MotionInProgress = jax.lax.while_loop(goes_on, step, begin)
    return found


def _with_row(array: jax.Array, place: Any, row: jax.Array) -> jax.Array:
    """The array with this row at `place`; the last place is for rows that are not used."""
    written: jax.Array = jax.lax.dynamic_update_index_in_dim(array, row, place, 0)
    return written


def _tangents(
    plain_rate: Any, kept: _StoredMotion, primals: Any, tangents: Any
) -> tuple[jax.Array, jax.Array]:
    """Tangents of `kept.states` and `kept.marks`: the same steps are differentiated, from mark to mark."""
    (_, clock, constants, _), (y0_dot, clock_dot, constants_dot, _) = primals, tangents
    (times, k), room = kept.states.shape, len(kept.steps)
    real = jnp.arange(room) < kept.total
    if _is_constant(y0_dot):
        y0_dot = jnp.zeros(k)
    moving = [i for i, rate in enumerate(constants_dot) if not _is_constant(rate)]
    instants, instants_dot = _instants(kept, real, clock), None
    if not _is_constant(clock_dot):
        instants, instants_dot = jax.jvp(partial(_instants, kept, real), (clock,), (clock_dot,))
    targets = kept.steps[:, 2].astype(int)
    place = jnp.where(targets > 0, targets, times + jnp.arange(room) % BLOCK)

    @jax.checkpoint
    def block(y: jax.Array, moved: Any, instants: Any) -> tuple[jax.Array, jax.Array]:
        """The state after `BLOCK` steps, and after each of them."""
        own = list(constants)
        for i, value in zip(moving, moved, strict=True):
            own[i] = value

        def step(y: jax.Array, instant: Any) -> tuple[jax.Array, jax.Array]:
            begin, length, gap = instant
            fixed = partial(jnp.where, gap == 0.0)  # times, but those of a step over a breakpoint
            rate = jax.checkpoint(lambda s, y: plain_rate(fixed(s, begin - gap), y, *own))
            new = step_at(rate, None, begin, length, y, None)[0]
            return new, new

        return jax.lax.scan(step, y, instants)

    def blocks(carried: Any, own: Any) -> Any:
        mark, instants, instants_dot, place, real = own

        def go_on(carried: Any) -> Any:
            y_dot, states_dot = carried
            point: Any = mark, [constants[i] for i in moving]
            direction: Any = y_dot, [constants_dot[i] for i in moving]
            if instants_dot is None:
                along, point, direction = lambda y, moved: block(y, moved, instants), point, direction
            else:
                along, point, direction = block, (*point, instants), (*direction, instants_dot)
            y_dot, ends_dot = jax.jvp(along, point, direction)[1]
            return y_dot, states_dot.at[place].set(ends_dot, unique_indices=True)

        return jax.lax.cond(anywhere_in_batch(real[0]), go_on, lambda same: same, carried), carried[0]

    begin = y0_dot, jnp.zeros((times + BLOCK, k)).at[0].set(y0_dot)
    rows = jax.tree_util.tree_map(lambda a: a.reshape(-1, BLOCK), (instants, instants_dot, place, real))
    (last, states_dot), marks_dot = jax.lax.scan(blocks, begin, (kept.marks, *rows))
    reached = jnp.isfinite(kept.states) & (kept.total <= room)
    lost = jnp.where(reached, 0.0, jnp.nan)  # times a tangent, so that further derivatives are NaN too
    return jnp.where(reached, states_dot[:times], 0.0) + lost * last[None], marks_dot


def _instants(
    kept: _StoredMotion, real: jax.Array, clock: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Begin and length of the steps, as functions of the clock: in proportion between requested times.

    The third are the last column of `_StoredMotion.steps`.
    """
    begins, lengths, targets, gaps = kept.steps.T
    ends = jax.lax.stop_gradient(begins + lengths)
    if len(clock) > 1:
        fixed, after = jax.lax.stop_gradient(clock), jnp.maximum(jnp.abs(targets).astype(int), 1)
        apart = fixed[after] - fixed[after - 1]
        # A breakpoint may be a requested time, too: nothing happens between them.
        stretch = jnp.where(apart == 0.0, 1.0, clock[after] - clock[after - 1]) / jnp.where(
            apart == 0.0, 1.0, apart
        )
        begins = clock[after - 1] + (begins - fixed[after - 1]) * stretch
        lengths = lengths * stretch
    # Steps beyond the last real one have length zero, at its end, with a rate that is defined.
    last = jnp.clip(kept.total - 1, 0, len(ends) - 1)
    return (
        jnp.where(real, begins, ends[last]),
        jnp.where(real, lengths, 0.0),
        jnp.where(real, gaps, gaps[last]),
    )


def _is_constant(tangent: Any) -> bool:
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero) or tangent.dtype == jax.dtypes.float0


# --- one condition for all members of a batch ------------------------------------------------------------


def anywhere_in_batch(flag: jax.Array) -> jax.Array:
    """`flag`; under `vmap`, whether it holds anywhere in the batch: then `cond` does not become `select`."""
    return _anywhere(flag)


_anywhere: Callable[..., jax.Array] = new_operation(
    "connections_anywhere",
    value=jnp.any,
    shape=lambda flag: jax.ShapeDtypeStruct((), flag.dtype),
    batched=lambda flags, _: (_anywhere(*flags), None),
    lowered=jnp.any,
)
