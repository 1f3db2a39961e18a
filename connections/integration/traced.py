"""A motion where JAX traces it: the steps of `driver`, inside of a compiled function.

How long the steps are is found out first, without derivatives. Derivatives are those of the steps themselves,
in forward and in reverse mode and of any order: each step is a few evaluations of the rate. Reverse mode
keeps the state at every `BLOCK`-th step and computes the others again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox.internal as eqxi
import jax
import jax.numpy as jnp

from connections.integration.steps import step_at
from connections.integration.tolerances import (
    FIRST_STEP,
    NO_LONGER,
    SHORTEST,
    clock_errors,
    errors_of,
    factor_of,
    is_taken,
)

BLOCK = 64  # steps, of which reverse mode keeps the first state
MOST = 512 * BLOCK  # steps that are kept, through which one can differentiate

Function = Callable[[jax.Array, jax.Array], jax.Array]


class Settings(NamedTuple):
    """What decides about steps.

    Parameters
    ----------
    rtol, atol : of a step (`tolerances`).
    max_steps : kept or not, after which the motion ends.
    max_step : no step is longer; None for any.
    """

    rtol: Any
    atol: Any
    max_steps: Any
    max_step: Any


class _State(NamedTuple):
    """Of a motion at the beginning of a step."""

    s: jax.Array
    h: jax.Array  # of the next step
    y: jax.Array
    f: jax.Array
    moved: jax.Array
    target: jax.Array  # which requested time it goes to
    tried: jax.Array  # steps
    kept: jax.Array  # how many of those were kept
    leaves_rest: jax.Array
    ended: jax.Array
    states: jax.Array  # (T, k) at the requested times
    steps: Any  # (begin, length, target) of all kept steps, or nothing


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
        value: jax.Array = jax.core.eval_jaxpr(jaxpr.jaxpr, constants, s, y)[0]
        return value

    return plain, tuple(jaxpr.consts)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solve(functions: Any, y0: Any, clock: Any, constants: Any, others: Any) -> jax.Array:
    return _followed(functions, y0, clock, constants, others, 0).states


@_solve.defjvp
def _solve_jvp(functions: Any, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    y0, clock, constants, others = jax.lax.stop_gradient(primals)
    found = _followed(functions, y0, clock, constants, others, MOST)
    values, slopes = jax.jvp(
        partial(_again, functions[0], found.steps, found.kept), primals[:3], tangents[:3]
    )
    return found.states, jnp.where(found.kept <= MOST, slopes, jnp.nan)


def _followed(
    functions: Any, y0: jax.Array, clock: jax.Array, constants: Any, others: Any, room: int
) -> _State:
    """The motion, and its first `room` kept steps if that is not zero."""
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
        goal = clock[at.target]
        ends = jnp.abs(at.h) >= NO_LONGER * jnp.abs(goal - at.s)
        h = jnp.where(ends, goal - at.s, at.h)
        length = jnp.abs(h)
        found = step_at(rate, sizes, at.s, h, at.y, at.f)
        new, f = found[0], found[1]
        farther = jnp.fmax(at.moved, jnp.abs(new - origin))
        allowed = clock_errors(at.f, f, whole, jnp)
        least = jnp.where(at.leaves_rest, allowed, 0.0)
        errors = errors_of(length, found, farther, least, rtol, atol, jnp)
        error, short = jnp.max(errors, initial=0.0), length <= shortest
        taken = (error >= 1.0) & short & is_taken(length, errors, found, at.moved, at.f, jnp)
        kept = (error < 1.0) | taken
        longer = length * factor_of(error, jnp)
        longer = jnp.where(ends & kept, jnp.maximum(longer, jnp.abs(at.h)), longer)
        longer = jnp.where(kept, longer, jnp.minimum(longer, length))
        arrives, at_rest = kept & ends, jnp.any(allowed > rtol * farther)
        steps = at.steps
        if room:
            place = jnp.where(kept, at.kept, room)  # what is out of bounds is not written
            steps = tuple(
                array.at[place].set(value, mode="drop")
                for array, value in zip(steps, (at.s, h, jnp.where(ends, at.target, 0)), strict=True)
            )
        return _State(
            s=jnp.where(kept, jnp.where(ends, goal, at.s + h), at.s),
            h=sign * jnp.minimum(jnp.maximum(longer, shortest), longest),
            y=jnp.where(kept, new, at.y),
            f=jnp.where(kept, f, at.f),
            moved=jnp.where(kept, farther, at.moved),
            target=at.target + arrives,
            tried=at.tried + 1,
            kept=at.kept + kept,
            leaves_rest=jnp.where(kept, taken | (at.leaves_rest & at_rest), at.leaves_rest),
            ended=(~kept & short) | (at.tried >= max_steps),
            states=at.states.at[jnp.where(arrives, at.target, count)].set(new, mode="drop"),
            steps=steps,
        )

    nothing, false = jnp.zeros((), dtype=jnp.int32), jnp.zeros((), dtype=bool)
    steps = (jnp.zeros(room), jnp.zeros(room), jnp.zeros(room, dtype=jnp.int32)) if room else ()
    begin = _State(
        s=jnp.zeros(()),
        h=sign * jnp.minimum(FIRST_STEP * whole, longest),
        y=y0,
        f=rate(jnp.zeros(()), y0),
        moved=jnp.abs(y0 - origin),
        target=nothing + 1,
        tried=nothing,
        kept=nothing,
        leaves_rest=false,
        ended=false,
        states=jnp.full((count, len(y0)), jnp.nan).at[0].set(y0),
        steps=steps,
    )
    found: _State = jax.lax.while_loop(goes_on, step, begin)
    return found


def _again(
    plain_rate: Any, steps: Any, count: jax.Array, y0: jax.Array, clock: jax.Array, constants: Any
) -> jax.Array:
    """The same states by the same steps, which JAX can differentiate."""
    times, room = len(clock), len(steps[0])
    begins, lengths, targets = steps
    fixed = jax.lax.stop_gradient(clock)
    real = jnp.arange(room) < count
    # Where a step is, relative to the two requested times around it, so that it moves with them.
    after = jnp.clip(jnp.searchsorted(jnp.abs(fixed), jnp.abs(begins), side="right"), 1, max(times - 1, 1))
    spans = (fixed[after] - fixed[after - 1], clock[after] - clock[after - 1]) if times > 1 else (1.0, 1.0)
    s = clock[after - 1] + (begins - fixed[after - 1]) / spans[0] * spans[1] if times > 1 else begins
    h = jnp.where(real, lengths / spans[0] * spans[1], 0.0)
    place = jnp.where(real & (targets > 0), targets, times + jnp.arange(room) % BLOCK)

    def rate(at: jax.Array, y: jax.Array) -> jax.Array:
        value: jax.Array = plain_rate(at, y, *constants)
        return value

    def step(at: tuple[jax.Array, jax.Array], own: Any) -> Any:
        found = step_at(rate, None, own[0], own[1], *at)
        return (found[0], found[1]), found[0]

    @jax.checkpoint
    def block(at: Any, own: Any) -> Any:
        return jax.lax.scan(step, at, own)

    def blocks(carried: Any, own: Any) -> Any:
        def go_on(carried: Any) -> Any:
            at, states = carried
            at, ends = block(at, own[:2])
            return at, states.at[own[2]].set(ends, unique_indices=True)

        return jax.lax.cond(eqxi.unvmap_any(own[3][0]), go_on, lambda same: same, carried), None

    states = jnp.full((times + BLOCK, len(y0)), jnp.nan).at[0].set(y0)
    rows = tuple(array.reshape(-1, BLOCK) for array in (s, h, place, real))
    ((last, _), states), _ = jax.lax.scan(blocks, ((y0, rate(jnp.zeros(()), y0)), states), rows)
    reached = jnp.isfinite(states[:times])
    lost = jnp.where(reached, 0.0, jnp.nan)  # times what is not constant: derivatives are not numbers, either
    return jnp.where(reached, states[:times], 0.0) + lost * last
