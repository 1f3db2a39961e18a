"""Predictions to a tolerance: the state, Phi, and the covariance P of errors over a step.

The first try is one step, judged by the last term of Phi that it has. Where its error is larger than the
tolerance, steps with exponentials follow, whose lengths are chosen by how two halves differ from one; where
errors are differences of coordinates, a linear system's exact step is tried before. The errors are

    of the state, (dx^T P^-1 dx)^(1/2),    of the covariance, trace((P^-1 dP)^2)^(1/2),

so that no unit matters, and no direction in which P is small is lost beside others.
Source: docs/filters.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.estimation.estimate import Estimate
from connections.estimation.spaces import Course, Space, State
from connections.estimation.spread import (
    Spread,
    by_halves,
    by_nodes,
    carried,
    of_course,
    of_generator,
    where,
)
from connections.geometry.numerics.definite import inverse_of_definite, lower_factor, solve_definite
from connections.geometry.numerics.products import small_product as product
from connections.integration.traced import anywhere_in_batch

RTOL = 1e-3  # of P, relative to itself, and of the state in standard deviations
_EPS = float(np.finfo(float).eps)
_EVEN = 0.5  # x, beyond which Simpson's rule is not tried
_CLOCK = 16.0  # round-off of A, and of its exponential, is a clock that is wrong by so many times round-off
_BLOCKS, _BLOCK = 16, 16
MOST = _BLOCKS * _BLOCK  # steps that are tried
_PLACES = 0.29, 0.5, 0.83, 1.0  # of a linear system, where its rates are looked at
_PARTS = 32.0  # in which steps of chosen lengths begin
_SHORTER, _LONGER, _MARGIN = 0.2, 2.0, 0.9  # the next length of a step, relative to the last


class Predicted(NamedTuple):
    """A state and the covariance of its errors after a step."""

    state: State
    P: jax.Array
    Phi: jax.Array
    """(k, k) of errors."""
    gap: jax.Array
    """How far the state may be off, in the components of errors (k,)."""
    spread: jax.Array
    """How far P may be off, relative to P."""
    off: jax.Array
    """The larger of both, that of the state in standard deviations; NaN if P is not positive definite."""


def predicted_at(
    space: Space,
    estimate: Estimate,
    u: Any,
    t: Any,
    steps: int | None,
    rtol: Any = RTOL,
    goes_on: bool = True,
) -> tuple[Estimate, jax.Array, jax.Array]:
    """The estimate at the time t, Phi (k, k), and the error relative to the standard deviations.

    The estimate is NaN if the error is larger than `rtol`.

    Parameters
    ----------
    space, estimate, u : of the filter, and its input until t.
    steps : as many of one length, or None.
    goes_on : if steps is None, whether shorter steps follow a first one that is not good enough.
    """
    x, P, begin = estimate.state, estimate.P, estimate.t
    if steps is None or steps == 1:
        found = _step(space, x, P, u, begin, t - begin)
        if not space.has_constant_noise:  # of which three places say too little
            found = _compared(found, _equal_steps(space, x, P, u, begin, t - begin, 2))
        if steps is None and goes_on:
            missed = ~(found.off <= rtol) & jnp.isfinite(jnp.sum(P))
            found = jax.lax.cond(
                anywhere_in_batch(missed),
                lambda found: where(missed, _further(space, x, P, u, begin, t - begin, rtol), found),
                lambda found: found,
                found,
            )
    else:
        found = _equal_steps(space, x, P, u, begin, t - begin, steps)
    ok = (t >= begin) & (found.off <= rtol)
    x, P = where(ok, (found.state, found.P), _nothing((found.state, found.P)))
    return Estimate(x[0], P, x[1] if len(x) > 1 else None, jnp.asarray(t)), found.Phi, found.off


# --- private -----------------------------------------------------------------------------------------------


def _step(space: Space, x: State, P: jax.Array, u: Any, t: Any, h: Any) -> Predicted:
    """One step, as cheap as it can be judged."""
    even = space.even_course_at(x, u, h)
    if even is not None:
        # With x^2 = `turn`, Phi q Phi^T is between exp(-2 x) q and exp(2 x) q, and its fourth derivative is
        # smaller than (2 x)^4 times that. So Simpson's rule errs by x^4 exp(4 x) / 180, relative to S.
        turn = jax.lax.stop_gradient(even.turn)
        off = jnp.where(turn <= _EVEN**2, turn**2 * np.exp(4.0 * _EVEN) / 180.0, jnp.inf)
        off = jnp.where(jnp.min(jnp.diagonal(P)) > 0.0, off, jnp.nan)
        P_end, Phi = by_halves(P, even.half, even.q), product(even.half, even.half)
        return Predicted(even.end, P_end, Phi, jnp.zeros(len(P)), off, off)
    course = space.course_at(x, u, t, h)
    found, last = by_nodes(course.A, course.Q, h)
    first, middle, end = course.Q
    last, added = jax.lax.stop_gradient((_after(course, last), _inside(course, P) + h * middle))
    bent = jax.lax.stop_gradient(_outside(course, h / 6.0 * (first - 2.0 * middle + end)))

    def spread(inverse: jax.Array) -> jax.Array:
        # Four times the last term E of Phi, trace(P^-1 E (P + h Q) E^T)^(1/2); and how much the noise bends.
        of_last = jnp.sum(product(inverse, last) * product(last, added))
        return 4.0 * jnp.sqrt(of_last) + (0.0 if space.has_constant_noise else _relative(inverse, bent))

    return _judged(course.end, _in_frame(course, found), P, course.gap, spread)


def _exact_step(space: Space, x: State, P: jax.Array, u: Any, t: Any, h: Any) -> Predicted:
    """Two halves of a step with Phi and S that are exact for A and Q that do not change.

    They are judged by the whole step, which knows A and Q at every other place only.
    """
    even = space.even_course_at(x, u, h)
    if even is not None:
        exact = of_generator(even.a, even.q).spread
        late = _late(exact.after(P), even.a, even.q)
        return _judged(even.end, exact, P, None, lambda inverse: _relative(inverse, late))
    half = 0.5 * h
    first = space.course_at(x, u, t, half)
    second = space.course_at(first.end, u, t + half, half)
    both = second._replace(before=first.before)
    A, Q = ((*begin, *end[1:]) for begin, end in ((first.A, second.A), (first.Q, second.Q)))
    whole, early, later = of_course(A, Q, h)
    found, inner = early.then(later), _inside(both, P)
    end = found.after(inner)
    wrong = jax.lax.stop_gradient(_outside(both, end - whole.after(inner)))
    late = _outside(both, _late(end, h * second.A[2], h * second.Q[2]))
    gap = None
    if first.gap is not None and second.gap is not None:
        gap = _in_frame(second, later).Phi @ first.gap + second.gap

    def spread(inverse: jax.Array) -> jax.Array:
        return _relative(inverse, wrong) + _relative(inverse, late)

    return _judged(both.end, _in_frame(both, found), P, gap, spread)


def _linear_step(space: Space, x: State, P: jax.Array, u: Any, t: Any, h: Any) -> Predicted:
    """The exact step of a linear system, xdot = A x + b, judged by its rates at some places."""
    begin = space.rates_at(x, u, t)

    def node(part: jax.Array) -> Any:
        own = of_generator(part * h * begin.A, part * h * begin.Q)
        way = part * h * own.B @ begin.rate
        end = _shifted(x, way)
        there = space.rates_at(end, u, t + part * h)
        changes = there.A - begin.A, there.Q - begin.Q, there.rate - begin.rate - begin.A @ way
        return own, end, there, jax.lax.stop_gradient(changes)

    nodes = jax.vmap(node)(jnp.array(_PLACES))
    found, end, there = jax.tree_util.tree_map(lambda a: a[-1], nodes[:3])
    A, Q, rates = nodes[3]
    P_end = found.spread.after(P)
    factors = [lower_factor(jax.lax.stop_gradient(each)) for each in (P, P_end)]
    late = _late(P_end, h * there.A, h * there.Q)

    def spread(inverse: jax.Array) -> jax.Array:
        def of_node(A: jax.Array, Q: jax.Array) -> jax.Array:
            turned = [product(A, L) for L in factors]
            return _relative(inverse, Q) + sum(jnp.sqrt(jnp.sum(T * product(inverse, T))) for T in turned)

        size: jax.Array = _relative(inverse, late) + h * jnp.sum(jax.vmap(of_node)(A, Q))
        return size

    # What the rates miss is carried to the end, where fast modes have forgotten it.
    gap = h * jnp.abs(found.B) @ jnp.sum(jnp.abs(rates), axis=0)
    gap = gap + _EPS * (_CLOCK * jnp.abs(h * there.rate) + jnp.abs(jnp.concatenate(end)))
    return _judged(end, found.spread, P, gap, spread)


def _equal_steps(
    space: Space, x: State, P: jax.Array, u: Any, begin: Any, length: Any, steps: int
) -> Predicted:
    def one(number: Any, found: Predicted) -> Predicted:
        h = length / steps
        return _joined(found, _step(space, found.state, found.P, u, begin + number * h, h))

    done: Predicted = jax.lax.fori_loop(0, steps, one, _before(space, x, P))
    return done


def _compared(whole: Predicted, halves: Predicted) -> Predicted:
    """The halves, judged by the whole, too."""
    fixed = jax.lax.stop_gradient(halves.P)
    off = _relative(inverse_of_definite(fixed), fixed - jax.lax.stop_gradient(whole.P))
    return halves._replace(spread=halves.spread + off, off=jnp.maximum(halves.off, halves.spread + off))


class _UnderWay(NamedTuple):
    """A prediction between two steps."""

    found: Predicted
    s: jax.Array
    """How far it has come, s."""
    h: jax.Array
    """Length of the next step, s."""
    error: jax.Array
    """The error of the last step that was tried, over its tolerance."""


def _further(space: Space, x: State, P: jax.Array, u: Any, begin: Any, length: Any, rtol: Any) -> Predicted:
    """The prediction over `length`, in one exact step, or in steps whose lengths are chosen.

    `off` is infinite if too many steps are needed, and NaN if the last one is not finite.
    """
    if space.even_course_at(x, u, length) is not None:
        return _exact_step(space, x, P, u, begin, length)

    def tried(at: _UnderWay, _: Any) -> tuple[_UnderWay, None]:
        left = length - at.s
        ends = at.h >= left
        h = jnp.where(ends, left, at.h)
        own = _exact_step(space, at.found.state, at.found.P, u, begin + at.s, h)
        error = jax.lax.stop_gradient(own.off / (rtol * h / length))
        good = (error <= 1.0) & (left > 0.0)
        factor = jnp.clip(_MARGIN * error**-0.25, _SHORTER, _LONGER)
        h_next = h * jnp.where(jnp.isfinite(error), factor, _SHORTER)
        moved = _UnderWay(_joined(at.found, own), jnp.where(ends, length, at.s + h), h_next, error)
        stays = at._replace(
            h=jnp.where(left > 0.0, h_next, at.h), error=jnp.where(left > 0.0, error, at.error)
        )
        return where(good, moved, stays), None

    tried = jax.checkpoint(tried)

    def block(at: _UnderWay, _: Any) -> tuple[_UnderWay, None]:
        goes_on = anywhere_in_batch(at.s < length)
        return jax.lax.cond(
            goes_on, lambda at: jax.lax.scan(tried, at, None, _BLOCK)[0], lambda at: at, at
        ), None

    @jax.checkpoint
    def steps(first: Predicted, done: jax.Array) -> Predicted:
        start = _UnderWay(first, jnp.where(done, length, 0.0), length / _PARTS, jnp.zeros(()))
        end, _ = jax.lax.scan(block, start, None, _BLOCKS)
        failed = jnp.where(jnp.isnan(end.error), jnp.nan, jnp.inf)
        return end.found._replace(off=jnp.where(end.s < length, failed, end.found.off))

    nothing = _before(space, x, P)
    if not space.is_flat:
        found: Predicted = steps(nothing, jnp.asarray(False))
        return found
    linear = _linear_step(space, x, P, u, begin, length)
    done = linear.off <= rtol
    found = steps(where(done, linear, nothing), done)
    return found


def _judged(
    end: State,
    found: Spread,
    P: jax.Array,
    gap: jax.Array | None,
    spread: Callable[[jax.Array], jax.Array],
) -> Predicted:
    """A step whose state may be off by `gap`, and P by `spread` (of its inverse at the end)."""
    P = found.after(P)
    fixed = jax.lax.stop_gradient(P)
    inverse = inverse_of_definite(fixed)
    round_off = _EPS * len(P) * jnp.sum(jnp.diagonal(fixed) * jnp.diagonal(inverse))
    gap = jnp.zeros(len(P)) if gap is None else jax.lax.stop_gradient(gap)
    size = spread(inverse) + round_off
    return Predicted(end, P, found.Phi, gap, size, jnp.maximum(size, jnp.sqrt(gap @ inverse @ gap)))


def _late(P: jax.Array, a: jax.Array, q: jax.Array) -> jax.Array:
    """How much P changes while round-off of the clock passes."""
    along = product(a, P)
    return jax.lax.stop_gradient(_EPS * _CLOCK * (along + along.T + q))


def _relative(inverse: jax.Array, wrong: jax.Array) -> jax.Array:
    """trace((P^-1 dP)^2)^(1/2)."""
    relative = product(inverse, wrong)
    return jnp.sqrt(jnp.abs(jnp.sum(relative * relative.T)))


def _before(space: Space, x: State, P: jax.Array) -> Predicted:
    """A prediction that has not begun."""
    k, nothing = space.dim, jnp.zeros(())
    return Predicted(x, P, jnp.eye(k), jnp.zeros(k), nothing, nothing)


def _joined(before: Predicted, own: Predicted) -> Predicted:
    """A further step: errors of P that are relative to P add up."""
    gap, spread = own.Phi @ before.gap + own.gap, before.spread + own.spread
    gap = jax.lax.stop_gradient(gap)
    off = jnp.maximum(spread, jnp.sqrt(gap @ solve_definite(jax.lax.stop_gradient(own.P), gap)))
    return Predicted(own.state, own.P, product(own.Phi, before.Phi), gap, spread, off)


def _inside(course: Course, P: jax.Array) -> jax.Array:
    return P if course.before is None else carried(course.before, P)


def _outside(course: Course, P: jax.Array) -> jax.Array:
    return P if course.after is None else carried(course.after, P)


def _after(course: Course, Phi: jax.Array) -> jax.Array:
    return Phi if course.after is None else product(course.after, Phi)


def _in_frame(course: Course, found: Spread) -> Spread:
    """Phi and S in the components of errors at both ends."""
    Phi = found.Phi if course.before is None else product(found.Phi, course.before)
    return Spread(_after(course, Phi), _outside(course, found.S))


def _shifted(x: State, way: jax.Array) -> State:
    """Where errors are differences of coordinates."""
    return tuple(a + b for a, b in zip(x, jnp.split(way, len(x)), strict=True))


def _nothing(tree: Any) -> Any:
    return jax.tree_util.tree_map(lambda a: jnp.full_like(a, jnp.nan), tree)
