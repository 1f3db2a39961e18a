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
from connections.integration.steps import step_at
from connections.integration.tolerances import (
    FIRST_STEP,
    NO_LONGER,
    SHORTEST,
    clock_errors,
    errors_of,
    is_taken,
    next_length,
)

BLOCK = 64  # reverse mode stores the state before every block of so many steps
MOST = 512 * BLOCK  # stored steps; a motion with more of them has no derivative

Function = Callable[[jax.Array, jax.Array], jax.Array]


class Settings(NamedTuple):
    """The settings of step control.

    Parameters
    ----------
    rtol, atol : of a step (`tolerances`).
    max_steps : steps, accepted or not, after which the motion ends.
    max_step : no step is longer; None for any.
    """

    rtol: Any
    atol: Any
    max_steps: Any
    max_step: Any


class _State(NamedTuple):
    """The loop's state at the beginning of a step."""

    s: jax.Array
    h: jax.Array  # of the next step
    y: jax.Array
    f: jax.Array
    moved: jax.Array
    target: jax.Array  # which requested time it goes to
    tried: jax.Array  # steps
    kept: jax.Array  # how many of those were accepted
    leaves_rest: jax.Array
    ended: jax.Array
    states: jax.Array  # (T + 1, k) at the requested times
    steps: Any  # marks and steps of `_Kept`, or nothing


def solve(
    rate: Function, sizes: Function, y0: jax.Array, origin: jax.Array, clock: jax.Array, settings: Settings
) -> jax.Array:
    """States (T, k) of dy/ds = rate(s, y) with y(0) = y0; NaN from the first time that is not reached.

    Parameters
    ----------
    rate, sizes : as of `step_at`; they may contain what JAX is differentiating.
    y0, origin : (k,) where the motion begins, and from where components are measured.
    clock : (T,) the requested times, strictly monotone from zero.
    settings : of the steps.
    """
    plain_rate, rate_constants = _without_closure(rate, y0)
    plain_sizes, size_constants = _without_closure(sizes, y0)
    if settings.max_step is None:
        settings = settings._replace(max_step=jnp.inf)
    others = origin, size_constants, tuple(map(jnp.asarray, settings))
    found: jax.Array = _solve((plain_rate, plain_sizes), y0, clock, rate_constants, others)
    return found


def _without_closure(function: Function, y: jax.Array) -> tuple[Callable[..., jax.Array], tuple[Any, ...]]:
    """(s, y, *constants) -> function(s, y), and the arrays that the function contains."""
    jaxpr = jax.make_jaxpr(function)(jnp.zeros(()), y)

    def plain(s: jax.Array, y: jax.Array, *constants: Any) -> jax.Array:
        value: jax.Array = eval_jaxpr(jaxpr.jaxpr, constants, s, y)[0]
        return value

    return plain, tuple(jaxpr.consts)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solve(functions: Any, y0: Any, clock: Any, constants: Any, others: Any) -> jax.Array:
    return _followed(functions, y0, clock, constants, others, 0).states


@partial(_solve.defjvp, symbolic_zeros=True)
def _solve_jvp(functions: Any, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    kept = _kept(functions, *primals)
    return kept.states, _tangents(functions[0], kept, primals, tangents)[0]


class _Kept(NamedTuple):
    """A motion and the steps by which it was found.

    Parameters
    ----------
    states : (T, k) at the requested times.
    marks : (MOST / BLOCK, k) at the beginning of every `BLOCK`-th step.
    steps : (MOST, 3) when each begins, how long it is, and which requested time it goes to: 2.0 if it ends at
        the third, -2.0 if it ends before.
    total : how many steps there are.
    """

    states: jax.Array
    marks: jax.Array
    steps: jax.Array
    total: jax.Array


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _kept(functions: Any, y0: Any, clock: Any, constants: Any, others: Any) -> _Kept:
    found = _followed(functions, y0, clock, constants, others, MOST)
    marks, steps = found.steps
    return _Kept(found.states, marks, steps, found.kept)


@partial(_kept.defjvp, symbolic_zeros=True)
def _kept_jvp(functions: Any, primals: Any, tangents: Any) -> tuple[_Kept, _Kept]:
    kept = _kept(functions, *primals)
    states, marks = _tangents(functions[0], kept, primals, tangents)
    integer: Any = np.zeros((), jax.dtypes.float0)
    return kept, _Kept(states, marks, jnp.zeros_like(kept.steps), integer)


def _followed(
    functions: Any, y0: jax.Array, clock: jax.Array, constants: Any, others: Any, room: int
) -> _State:
    """The motion; if `room` is not zero, also its first `room` kept steps, as in `_Kept`."""
    plain_rate, plain_sizes = functions
    origin, size_constants, (rtol, atol, max_steps, max_step) = others
    count, whole, sign = len(clock), jnp.abs(clock[-1]), jnp.sign(clock[-1])
    longest = jnp.minimum(whole, max_step)
    shortest = SHORTEST * whole

    def rate(s: jax.Array, y: jax.Array) -> jax.Array:
        value: jax.Array = plain_rate(s, y, *constants)
        return value

    def sizes(s: jax.Array, y: jax.Array) -> jax.Array:
        value: jax.Array = plain_sizes(s, y, *size_constants)
        return value

    def goes_on(at: _State) -> jax.Array:
        return (at.target < count) & ~at.ended

    def step(at: _State) -> _State:
        goal, first = clock[at.target], at.tried < 0
        ends = (jnp.abs(at.h) >= NO_LONGER * jnp.abs(goal - at.s)) & ~first
        h = jnp.where(first, 0.0, jnp.where(ends, goal - at.s, at.h))
        length = jnp.abs(h)
        found = step_at(rate, sizes, at.s, h, at.y, at.f)
        new, f = found[0], found[1]
        farther = jnp.fmax(at.moved, jnp.abs(new - origin))
        allowed = clock_errors(at.f, f, whole, jnp)
        least = jnp.where(at.leaves_rest, allowed, 0.0)
        errors = errors_of(length, found, farther, least, rtol, atol, jnp)
        error, short = jnp.fmin(jnp.max(errors, initial=0.0), jnp.inf), length <= shortest
        leaving = least > rtol * at.moved
        taken = (error >= 1.0) & short & is_taken(length, errors, found, at.moved, at.f, leaving, jnp)
        kept, longer = next_length(length, jnp.abs(at.h), ends, error, taken, (shortest, longest), jnp)
        longer = jnp.where(first, jnp.abs(at.h), longer)
        arrives, at_rest, steps = kept & ends, jnp.any(allowed > rtol * farther), at.steps
        if room:
            mark = jnp.where(at.kept % BLOCK == 0, at.kept // BLOCK, room)
            place = jnp.where(kept & ~first, at.kept, room)
            row = jnp.stack([at.s, h, jnp.where(ends, at.target, -at.target)])
            steps = _written(at.steps[0], mark, at.y), _written(at.steps[1], place, row)
        return _State(
            s=jnp.where(kept, jnp.where(ends, goal, at.s + h), at.s),
            h=sign * longer,
            y=jnp.where(kept, new, at.y),
            f=jnp.where(kept, f, at.f),
            moved=jnp.where(kept, farther, at.moved),
            target=at.target + arrives,
            tried=at.tried + 1,
            kept=at.kept + (kept & ~first),
            leaves_rest=jnp.where(kept, taken | (at.leaves_rest & at_rest), at.leaves_rest),
            ended=(~kept & short) | (at.tried >= max_steps),
            states=_written(at.states, jnp.where(arrives, at.target, count), new),
            steps=steps,
        )

    nothing, false = jnp.zeros((), dtype=jnp.int32), jnp.zeros((), dtype=bool)
    steps = (jnp.zeros((room // BLOCK + 1, len(y0))), jnp.zeros((room + 1, 3))) if room else ()
    begin = _State(
        s=jnp.zeros(()),
        h=sign * jnp.minimum(FIRST_STEP * whole, longest),
        y=y0,
        f=jnp.zeros_like(y0),
        moved=jnp.abs(y0 - origin),
        target=nothing + 1,
        tried=nothing - 1,  # a step of no length finds the first rate
        kept=nothing,
        leaves_rest=false,
        ended=false,
        states=_written(jnp.full((count + 1, len(y0)), jnp.nan), 0, y0),
        steps=steps,
    )
    found: _State = jax.lax.while_loop(goes_on, step, begin)
    return found._replace(states=found.states[:-1], steps=tuple(array[:-1] for array in found.steps))


def _written(array: jax.Array, place: Any, row: jax.Array) -> jax.Array:
    """The array with this row at `place`; the last place is for rows that are not used."""
    written: jax.Array = jax.lax.dynamic_update_index_in_dim(array, row, place, 0)
    return written


def _tangents(plain_rate: Any, kept: _Kept, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
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
            rate = jax.checkpoint(lambda s, y: plain_rate(s, y, *own))
            new = step_at(rate, None, instant[0], instant[1], y, None)[0]
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

        return jax.lax.cond(anywhere(real[0]), go_on, lambda same: same, carried), carried[0]

    begin = y0_dot, jnp.zeros((times + BLOCK, k)).at[0].set(y0_dot)
    rows = jax.tree_util.tree_map(lambda a: a.reshape(-1, BLOCK), (instants, instants_dot, place, real))
    (last, states_dot), marks_dot = jax.lax.scan(blocks, begin, (kept.marks, *rows))
    reached = jnp.isfinite(kept.states) & (kept.total <= room)
    lost = jnp.where(reached, 0.0, jnp.nan)  # times a tangent, so that further derivatives are NaN too
    return jnp.where(reached, states_dot[:times], 0.0) + lost * last, marks_dot


def _instants(kept: _Kept, real: jax.Array, clock: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Begin and length of the steps, as functions of the clock: in proportion between requested times."""
    begins, lengths, targets = kept.steps.T
    ends = jax.lax.stop_gradient(begins + lengths)
    if len(clock) > 1:
        fixed, after = jax.lax.stop_gradient(clock), jnp.maximum(jnp.abs(targets).astype(int), 1)
        stretch = (clock[after] - clock[after - 1]) / (fixed[after] - fixed[after - 1])
        begins = clock[after - 1] + (begins - fixed[after - 1]) * stretch
        lengths = lengths * stretch
    # Steps beyond the last real one have length zero, at its end, where the rate is defined.
    end = ends[jnp.clip(kept.total - 1, 0, len(ends) - 1)]
    return jnp.where(real, begins, end), jnp.where(real, lengths, 0.0)


def _is_constant(tangent: Any) -> bool:
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero) or tangent.dtype == jax.dtypes.float0


# --- one condition for all members of a batch ------------------------------------------------------------


def anywhere(flag: jax.Array) -> jax.Array:
    """`flag`; under `vmap`, whether it holds anywhere in the batch: then `cond` does not become `select`."""
    return _anywhere(flag)


_anywhere: Callable[..., jax.Array] = new_operation(
    "connections_anywhere",
    value=jnp.any,
    shape=lambda flag: jax.ShapeDtypeStruct((), flag.dtype),
    batched=lambda flags, _: (_anywhere(*flags), None),
    lowered=jnp.any,
)
