"""The iteration of an update: Gauss and Newton's, damped, in narrow valleys by learned curvature.

JAX-traceable.

It minimizes e^T P^-1 e + |rho|^2 by the steps e_k+1 = K (rho + B e_k) of the linear fit (`fitting`). At the
end e solves e = K (rho + B e), of which its derivatives are those of the implicit function. Source:
docs/filters.md.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from connections._jax import solve
from connections.estimation.fitting import Prior, Seen, step_at
from connections.estimation.spread import where
from connections.geometry.numerics.definite import inverse_factor
from connections.geometry.numerics.products import small_product as product
from connections.integration.traced import anywhere_in_batch

SETTLED = 1e-6  # standard deviations: a shorter step ends the iteration
_ROUND_OFF = 1e-10  # of what is minimized
_FEW_STEPS = 12  # after which the curvature of h is learned
_FALLS, _TURNED = 0.1, 0.8  # of the rules of Armijo, and of Hager and Zhang
# Places in the numbers of the iteration.
_SIZE, _SLOPE, _EXTENT, _LENGTH, _COST, _LEAST, _STEPS, _DAMPING, _GROWTH = range(9)


def iterated(
    iterations: int,
    damped: bool,
    known: Prior,
    prior: Seen,
    e: jax.Array,
    seen: Any,
    round_off: jax.Array,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The root of e = K (rho + B e); whether it is found, and how many steps there were.

    With p = K (rho + B e) - e and the product <a, b> = a^T (P^-1 + B^T B) b, the slope of half the cost,
    e^T P^-1 e + |rho|^2, along d is -<p, d>, and |p|^2 = <p, p> is in standard deviations of the estimate
    after the update. A step goes along p less what the last step has not done of its own (Anderson's
    method with one step of memory), if that is downhill, and its length is halved, or less, until

    - the cost falls by a tenth of what its slope promises (Armijo's rule), or it does so up to round-off and
      the slope has not turned around by more than 0.8 of itself (Hager and Zhang's approximate Wolfe rule),
      or
    - |p| is half of the least so far.

    The first two can only be met again and again if slopes vanish, the last one some twenty times, so that
    nothing cycles. Without a cost, because the noise depends on the state, the slope alone is judged. After
    `_FEW_STEPS` of a sensor that has a cost, h's curvature is learned (`_further`). The iteration ends where
    |p| is `SETTLED`, or what round-off makes of it.

    Parameters
    ----------
    round_off : standard deviations of the residuals.

    Source: D. G. Anderson, Iterative procedures for nonlinear integral equations, J. ACM 12 (1965); W. W.
    Hager, H. Zhang, A new conjugate gradient method, SIAM J. Optim. 16 (2005), section 2; J. E. Dennis,
    D. M. Gay, R. E. Welsch, An adaptive nonlinear least-squares algorithm, ACM TOMS 7 (1981).
    """

    def root(_: Any, e: jax.Array) -> Any:
        def goes_on(carried: Any) -> Any:
            numbers = carried[1]
            return (numbers[_SIZE] > enough) & (numbers[_STEPS] < iterations)

        def step(carried: Any) -> Any:
            (e, last_p, last_d, _), numbers, matrices = carried
            last_size, last_slope, last_extent, length, last_cost, least, steps, damping, growth = numbers
            change = length * last_d
            e = e + change
            own = seen(e)
            p, by_prior = step_at(known, own, e), known.W @ e
            gradient = by_prior @ known.W - own.rho @ own.B
            size, by_p, turned = jnp.stack([-p, -last_p, last_d]) @ gradient
            downhill = turned <= -_TURNED * last_slope
            contracts = size <= 0.25 * least
            cost = by_prior @ by_prior + own.rho @ own.rho
            if damped:
                near = last_cost + _ROUND_OFF * (1.0 + last_cost) + 2.0 * jnp.sqrt(last_cost) * round_off
                falls = (cost <= last_cost + 2.0 * _FALLS * length * last_slope) | (downhill & (cost <= near))
                good, cost = falls | contracts, jnp.where(falls, jnp.minimum(cost, last_cost), cost)
            else:
                good = downhill | contracts
            gain = (size - by_p) / (size - 2.0 * by_p + last_size)
            own_part, rest = 1.0 - gain, last_size + length * (2.0 * last_slope + length * last_extent)
            along = by_p + length * turned  # <p, last_p - change>
            slope = -(own_part * size + gain * along)
            extent = own_part * (own_part * size + 2.0 * gain * along) + gain**2 * rest
            straight = (slope < 0.0) & (slope**2 >= _FALLS**2 * size * extent)
            d = jnp.where(straight, own_part * p + gain * (last_p - change), p)
            slope, extent = jnp.where(straight, slope, -size), jnp.where(straight, extent, size)
            made = jnp.stack(
                [size, slope, extent, one, cost, jnp.minimum(size, least), steps + 1.0, damping, growth]
            )
            shorter = length * jnp.clip(
                jnp.where(turned > 0.0, last_slope / (last_slope - turned), 0.5), 0.1, 0.5
            )
            again = numbers.at[_LENGTH].set(shorter).at[_STEPS].add(1.0)
            next = where(
                good, (jnp.stack([e, p, d, gradient]), made, matrices), (carried[0], again, matrices)
            )
            if not damped:
                return next
            far = steps >= _FEW_STEPS

            def on() -> Any:
                fits = jnp.where(damping > 0.0, falls, good)
                further = _further(known, own, carried, (jnp.stack([e, p, d, gradient]), made), fits)
                return where(far & ((damping > 0.0) | fits), further, next)

            return jax.lax.cond(anywhere_in_batch(far), on, lambda: next)

        size, one = (prior.rho @ prior.B) @ e, jnp.ones(())
        vectors = jnp.stack([jnp.zeros_like(e), e, e, -prior.rho @ prior.B])
        numbers = jnp.stack([size, -size, size, one, prior.rho @ prior.rho, size, one, 0.0 * one, one])
        begin = vectors, numbers, jnp.zeros((2, len(e), len(e)))
        (e, p, *_), numbers, _ = jax.lax.while_loop(goes_on, step, begin)
        return e + p, (numbers[_SIZE], numbers[_STEPS])

    deviations = jnp.sqrt(jnp.sum(jax.lax.stop_gradient(known.L) ** 2, axis=1))

    def tangent(along: Any, b: jax.Array) -> jax.Array:
        slope = jax.vmap(along, 0, 1)(jnp.diag(deviations)) / deviations[:, None]
        return deviations * solve(slope, b / deviations)

    enough = jax.lax.stop_gradient(SETTLED + round_off) ** 2
    found: tuple[jax.Array, tuple[jax.Array, jax.Array]] = jax.lax.custom_root(
        lambda e: step_at(known, seen(e), e), e, root, tangent, has_aux=True
    )
    e, (size, count) = found
    return e, (size <= enough, count.astype(int))


# --- private -----------------------------------------------------------------------------------------------


def _further(known: Prior, own: Seen, carried: Any, tried: Any, fits: jax.Array) -> Any:
    """The next step after the first few: the shorter, the worse the last one was foretold.

    With M = P^-1 + B^T B + S it is -(M + mu P^-1)^-1 g, by Levenberg and Marquardt's method, mu by Nielsen's
    rule. S is what the gradients g show of h's second derivative (`_bent`), or zero where the last step was
    foretold better without it.

    Parameters
    ----------
    carried : before the last step. tried : vectors and numbers after it. fits : whether it is taken.
    """
    vectors, numbers, matrices = carried
    new_vectors, new_numbers = tried
    damping, growth = numbers[_DAMPING], numbers[_GROWTH]
    begun = damping > 0.0
    metric = product(known.W.T, known.W)
    information = metric + product(own.B.T, own.B)
    change, turn = numbers[_LENGTH] * vectors[2], new_vectors[3] - vectors[3]
    bend = jnp.where(begun, _bent(information, matrices[1], change, turn), 0.0)
    ratio = (numbers[_COST] - new_numbers[_COST]) / numbers[_EXTENT]
    straight = (
        0.5 * (new_numbers[_COST] - numbers[_COST]) - numbers[_SLOPE] - 0.5 * change @ matrices[0] @ change
    )
    bends = jnp.abs(straight - 0.5 * change @ matrices[1] @ change) <= jnp.abs(straight)
    matrices = jnp.where(fits, jnp.stack([information, bend]), matrices)
    hidden = numbers[_EXTENT] < _ROUND_OFF * (1.0 + numbers[_COST])
    less = damping * jnp.maximum(1.0 / 3.0, jnp.where(hidden, 0.0, 1.0 - (2.0 * ratio - 1.0) ** 3))
    damping = jnp.where(begun, jnp.where(fits, less, damping * growth), 1.0)
    growth = jnp.where(begun & ~fits, 2.0 * growth, 2.0)
    vectors, numbers = where(fits, tried, (vectors, numbers.at[_STEPS].add(1.0)))
    scale = inverse_factor(matrices[0] + jnp.where(bends, 1.0, 0.0) * matrices[1] + damping * metric)
    d = -scale.T @ (scale @ vectors[3])
    slope, by_prior = vectors[3] @ d, known.W @ d
    expected = damping * by_prior @ by_prior - slope
    numbers = jnp.stack(
        [numbers[_SIZE], slope, expected, jnp.ones(()), *numbers[_COST:_DAMPING], damping, growth]
    )
    return vectors.at[2].set(d), numbers, matrices


def _bent(information: jax.Array, bend: jax.Array, change: jax.Array, turn: jax.Array) -> jax.Array:
    """S (k, k), so that M = P^-1 + B^T B + S is positive definite and M `change` is about `turn`.

    By the formula of Broyden, Fletcher, Goldfarb and Shanno with Powell's damping, after the last S is made
    smaller to what it should have been along the step.

    Parameters
    ----------
    information : P^-1 + B^T B, (k, k). bend : the last S. change, turn : of e and of the gradient, (k,).
    """
    shown, known = jnp.abs(change @ (turn - information @ change)), jnp.abs(change @ bend @ change)
    whole = information + jnp.where(shown < known, shown / known, 1.0) * bend
    whole = jnp.where(jnp.all(jnp.isfinite(inverse_factor(whole))), whole, information)
    along = whole @ change
    size, by_turn = change @ along, change @ turn
    share = jnp.where(by_turn >= 0.2 * size, 1.0, 0.8 * size / (size - by_turn))
    turn = share * turn + (1.0 - share) * along
    whole = whole - jnp.outer(along, along) / size + jnp.outer(turn, turn) / (change @ turn)
    return jnp.where(jnp.all(jnp.isfinite(inverse_factor(whole))), whole - information, 0.0)
