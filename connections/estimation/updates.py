"""Prediction, update and smoothing of one estimate; JAX-traceable.

With N = L_N L_N^T, at x_k = exp(e_k), with J = D exp(e_k),

    rho = L_N^-1 r,  B = L_N^-1 dh(x_k) J,  I = P^-1 + B^T B,

Gauss and Newton's method for e^T P^-1 e + |rho|^2 is

    e_k+1 = K (rho + B e_k),  K = P B^T (1 + B P B^T)^-1 = I^-1 B^T;

then P_e = I^-1, or (1 - K B) P (1 - K B)^T + K K^T (Joseph), and the reset,

    P+ = J P_e J^T,  J = D exp(e).

At the end e solves e = K (rho + B e), of which its derivatives are those of the implicit function. One matrix
is factorized in each step. It is I, (k, k), or the smaller 1 + B P B^T, (m, m), where that is as exact. In
Cholesky's factor of I no variance is beside another one: scales of P and N do not matter, and the result is
as right as its own correlations can be written in floating-point numbers. How right that is, is judged.
Source: docs/filters.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import solve
from connections.affine import AffineConnection
from connections.estimation.displacements import NEGLIGIBLE, larger, too_coarse, with_enough_steps
from connections.estimation.estimate import Estimate, Innovation
from connections.estimation.sensor import Residual, Sensor
from connections.estimation.spaces import Space, State
from connections.estimation.spread import symmetric, where
from connections.estimation.status import Status
from connections.geometry.numerics.definite import inverse_factor, lower_factor, solve_definite
from connections.geometry.numerics.products import small_product as product
from connections.integration.traced import anywhere_in_batch

SETTLED = 1e-6  # standard deviations: a shorter step ends the iteration
_ROUND_OFF = 1e-10  # of what is minimized
_FEW_STEPS = 12  # after which the curvature of h is learned
_FALLS, _TURNED = 0.1, 0.8  # of the rules of Armijo, and of Hager and Zhang
_ROUNDINGS = 4.0  # of a coordinate, in units of its last digit
_EPS = float(np.finfo(float).eps)
_KEPT, _LARGEST = 1e6, 1e20  # of 1 + B P B^T: what pivots may lose, and what Joseph's form allows


class Seen(NamedTuple):
    """A measurement at a state, in units of the sensor's deviations."""

    rho: jax.Array
    """(m,) residuals, zero where y is missing."""
    B: jax.Array
    """(m, k) their derivative by e, with the sign of h."""


class Prior(NamedTuple):
    """P = L L^T, and W = L^-1; (k, k)."""

    L: jax.Array
    W: jax.Array


class Fit(NamedTuple):
    """The linear fit to a measurement."""

    root: jax.Array
    """(k, any), of P_e = root root^T."""
    nis: jax.Array
    log_det: jax.Array
    """ln det(1 + B P B^T)."""
    lost: jax.Array
    """How much of P_e may be lost in round-off, relative to itself."""


class Settings(NamedTuple):
    """How updates are made."""

    reset: Any
    """"exact", a connection, or None."""
    iterations: int
    keeps: bool = False
    """Whether the estimate is left as it was where the update fails, instead of NaN."""
    geodesic_steps: int | None = None
    """The number of steps of a geodesic; None for as many as it needs."""
    goes_on: bool = True
    """Whether more steps follow the first few, if their number is not given."""


class Updated(NamedTuple):
    """An update."""

    estimate: Estimate
    innovation: Innovation
    off: jax.Array
    """The error of geodesics in standard deviations, and of covariances relative to themselves."""


def updated_at(
    space: Space, settings: Settings, sensor: Sensor, estimate: Estimate, y: jax.Array, gate: Any
) -> tuple[Updated, jax.Array]:
    """The estimate after a measurement and what it said; and whether geodesics need more steps."""

    def made(steps: Any) -> tuple[Updated, jax.Array | None]:
        return _updated_at(space.with_steps(steps), settings, sensor, estimate, y, gate)

    found, missed = with_enough_steps(made, settings.geodesic_steps, settings.goes_on)
    return found, jnp.asarray(False) if missed is None else missed


def _updated_at(
    space: Space, settings: Settings, sensor: Sensor, estimate: Estimate, y: jax.Array, gate: Any
) -> tuple[Updated, jax.Array | None]:
    x, P, k = estimate.state, estimate.P, space.dim
    known = Prior(lower_factor(P), inverse_factor(P))
    predicted, slope = space.observed_at(sensor.value_at, x)
    first = sensor.residual_at(predicted, slope, y, space.steps)
    scale = inverse_factor(first.N)

    def seen(own: Residual, J: jax.Array | None) -> Seen:
        by = scale if sensor.has_fixed_noise else inverse_factor(own.N)
        return Seen(by @ own.r, product(by, own.H if J is None else product(own.H, J)))

    def moved(e: jax.Array) -> tuple[Any, Residual, Seen]:
        found = space.moved_at(x, e)
        own = sensor.residual_at(*space.observed_at(sensor.value_at, found[0]), y, space.steps)
        return found, own, seen(own, found[1])

    prior = seen(first, None)
    e = _step(known, prior, jnp.zeros(k))
    if settings.iterations > 1:
        sizes = jnp.where(
            first.present, jnp.abs(first.r) + _sizes_at(space, sensor, x, predicted, slope), 0.0
        )
        lost = jnp.abs(scale) @ (_ROUNDINGS * _EPS * sizes)
        e, (settled, steps) = _iterated(
            settings.iterations,
            sensor.is_fixed,
            known,
            prior,
            e,
            lambda e: moved(e)[2],
            jnp.sqrt(lost @ lost),
        )
        (z, J, gap), own, last = moved(e)
        at, scale = e, scale if sensor.has_fixed_noise else inverse_factor(own.N)
    else:
        (z, J, gap), own, last, settled, steps = (
            space.moved_at(x, e),
            first,
            prior,
            jnp.asarray(True),
            jnp.asarray(1),
        )
        at = jnp.zeros(k)
    fit = _fitted(known, last, at)
    spread, root = fit.root, _after(J, fit.root)
    P_z, size = product(root, root.T), jnp.zeros(())
    exact = P_z
    off = larger(too_coarse(gap, P_z, spread @ root.T), first.off, own.off)
    if settings.reset is None or isinstance(settings.reset, AffineConnection):
        reset, gap = jnp.eye(k), None
        if settings.reset is not None:
            reset, gap = space.transport_with_gap_at(settings.reset, x, e)
        J = _after(J, jnp.eye(k))
        wrong = solve(J.T, (reset - J).T).T  # reset J^-1 - 1
        size = jnp.trace(solve_definite(exact, wrong @ exact @ wrong.T)) / k
        root = reset @ spread
        P_z = root @ root.T
        if gap is not None:
            columns = jnp.concatenate([jnp.zeros((k, 1)), gap], axis=1)
            off = larger(off, too_coarse(columns, P_z, spread @ root.T))
    said, inside = _innovation(first, fit, -2.0 * _log_diagonal(scale), gate)
    missed, off = None if off is None else ~(off <= NEGLIGIBLE), jnp.zeros(()) if off is None else off
    # If x, P, h or N has a NaN, the first step is NaN, and NIS or z.
    failed = jnp.where((steps == 1) | jnp.isnan(off), Status.NOT_FINITE, Status.NOT_SETTLED)
    failed = jnp.where(settled & (off > NEGLIGIBLE), Status.GEODESIC_TOO_COARSE, failed)
    status = jnp.where(settled & (off <= NEGLIGIBLE), Status.SETTLED, failed)
    of_given = _lost(P, known.W) + _lost(own.N, scale)
    given = _is_finite(known, prior) & (_is_finite(last) | ~_is_finite(e))
    why = jnp.where(given, Status.ROUND_OFF, jnp.where(status == Status.SETTLED, Status.NOT_FINITE, status))
    why = jnp.where((status == Status.NOT_SETTLED) & ~_is_finite(last), status, why)
    status = jnp.where(~(fit.lost + of_given <= NEGLIGIBLE) & ~(off > NEGLIGIBLE), why, status)
    # Round-off of P moves the estimate the more the farther it goes.
    lost = of_given * jnp.sqrt(1.0 + fit.nis) + _lost(P_z, inverse_factor(P_z))
    status = jnp.where((status == Status.SETTLED) & inside & ~(lost <= NEGLIGIBLE), Status.ROUND_OFF, status)
    status = jnp.where(inside, status, Status.REFUSED)
    status = jnp.where(said["dimension"] > 0, status, Status.NOTHING_MEASURED)
    z, P_z = where(status == Status.SETTLED, (z, P_z), (x, P))
    finite = _is_finite(z, jnp.where(inside, said["nis"], 0.0))
    status = _first(estimate, jnp.where(finite | (status >= Status.NOT_SETTLED), status, Status.NOT_FINITE))
    good = status < Status.NOT_SETTLED
    z, P_z = where(good, (z, P_z), (x, P)) if settings.keeps else _unless(good, z, P_z)
    said["nis"], said["log_likelihood"] = _unless(good, said["nis"], said["log_likelihood"])
    ahead = product(first.H, known.L)
    innovation = Innovation(
        S=product(ahead, ahead.T) + first.N,
        **said,
        accepted=status == Status.SETTLED,
        converged=settled,
        steps=steps,
        reset_size=size,
        status=status,
    )
    found = Updated(_estimate(z, P_z, estimate.t, status), innovation, off)
    return found, None if missed is None else missed & _is_finite(x, P, predicted, slope)


def judged(predicted: Estimate, estimate: Estimate, off: jax.Array) -> Estimate:
    """A prediction from an estimate, with its status; `off` is its error in standard deviations."""
    failed = jnp.where(off > 0.0, Status.STEP_TOO_LONG, Status.NOT_FINITE)
    failed = jnp.where(predicted.t >= estimate.t, failed, Status.TIME_BACK)
    made = _is_finite(predicted.state, predicted.P)
    status = _first(estimate, jnp.where(made, Status.SETTLED, failed))
    return _estimate(predicted.state, predicted.P, predicted.t, status)


def smoothed_at(
    space: Space,
    settings: Settings,
    estimate: Estimate,
    predicted: Estimate,
    Phi: jax.Array,
    later: Estimate,
) -> tuple[Estimate, jax.Array]:
    """The estimate given all that came later, and whether geodesics need more steps.

    The step back of Rauch, Tung and Striebel.

    Parameters
    ----------
    estimate : after its measurement. predicted : of it, for the next time. Phi : (k, k) between the two.
    later : the smoothed estimate at the next time.
    """

    def made(steps: Any) -> tuple[Estimate, jax.Array | None]:
        return _smoothed_at(space.with_steps(steps), estimate, predicted, Phi, later)

    found, missed = with_enough_steps(made, settings.geodesic_steps, settings.goes_on)
    return found, jnp.asarray(False) if missed is None else missed


def _smoothed_at(
    space: Space, estimate: Estimate, predicted: Estimate, Phi: jax.Array, later: Estimate
) -> tuple[Estimate, jax.Array | None]:
    one = jnp.eye(space.dim)
    e_later, e_gap = space.difference_with_gap_at(predicted.state, later.state)
    _, J_later, gap_later = space.moved_at(predicted.state, e_later)
    J_later = _after(J_later, one)
    gain = solve_definite(predicted.P, Phi @ estimate.P).T
    back = solve(J_later, solve(J_later, later.P).T)
    less = gain @ predicted.P @ gain.T
    P = symmetric(estimate.P - less + gain @ back @ gain.T)
    # What is left is judged beside what is taken away.
    inverse = jnp.sum(jnp.square(inverse_factor(P)), axis=0)
    lost = _EPS * len(P) * (jnp.diagonal(estimate.P) + jnp.diagonal(less)) @ inverse
    x, J, gap = space.moved_at(estimate.state, gain @ e_later)
    J = _after(J, one)
    turned = P @ J.T
    found = (x, P) = x, symmetric(J @ turned)
    off = larger(too_coarse(gap, P, turned), too_coarse(gap_later, later.P, back @ J_later.T))
    if e_gap is not None:
        off = larger(off, too_coarse(J @ (gain @ e_gap), P))
    reason: Any = Status.NOT_SETTLED
    for given in (later, predicted, estimate):  # the first that failed
        reason = jnp.where(given.status >= Status.NOT_SETTLED, given.status, reason)
    status = jnp.where(_is_finite(found), estimate.status, reason)
    vague = _is_finite(found) & ~(lost <= NEGLIGIBLE)
    status = jnp.where(vague, Status.ROUND_OFF, status)
    x, P = _unless(~vague, x, P)
    missed = None
    if off is not None:
        missed = ~(off <= NEGLIGIBLE)
        good = _is_finite(estimate, predicted, later)
        coarse = missed & good & ~jnp.isnan(off)
        status = jnp.where(coarse, Status.GEODESIC_TOO_COARSE, status)
        x, P = _unless(~missed, x, P)
        missed = missed & good
    return _estimate(x, P, estimate.t, status), missed


def difference_at(
    space: Space, settings: Settings, x: State, P: jax.Array, z: State
) -> tuple[jax.Array, jax.Array]:
    """The error (k,) that displaces x to z, NaN if it is not found; and as `updated_at`.

    Parameters
    ----------
    P : (k, k), in standard deviations of which it has to be right.
    """

    def made(steps: Any) -> tuple[jax.Array, jax.Array | None]:
        e, gap = space.with_steps(steps).difference_with_gap_at(x, z)
        if gap is None:
            return e, None
        good = jnp.asarray(too_coarse(gap, P)) <= NEGLIGIBLE
        return jnp.where(good, e, jnp.nan), ~good

    found, missed = with_enough_steps(made, settings.geodesic_steps, settings.goes_on)
    return found, jnp.asarray(False) if missed is None else missed


# --- private -----------------------------------------------------------------------------------------------


def _innovation(
    first: Residual, fit: Fit, log_det: jax.Array, gate: Any
) -> tuple[dict[str, jax.Array], jax.Array]:
    """The innovation's r, NIS, dimension and log-likelihood, and whether it is inside the gate."""
    nis, count = fit.nis, jnp.sum(first.present)
    log_likelihood = -0.5 * (nis + fit.log_det + log_det + count * jnp.log(2.0 * jnp.pi))
    inside = jnp.asarray(True)
    if gate is not None:  # of NaN nothing is said
        inside = ~(jax.scipy.special.gammainc(0.5 * jnp.maximum(count, 1), 0.5 * nis) > gate)
    return {
        "r": first.r,
        "nis": nis,
        "dimension": count,
        "log_likelihood": jnp.where(count > 0, log_likelihood, 0.0),
    }, inside


def _iterated(
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
            p, by_prior = _step(known, own, e), known.W @ e
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
        lambda e: _step(known, seen(e), e), e, root, tangent, has_aux=True
    )
    e, (size, count) = found
    return e, (size <= enough, count.astype(int))


_SIZE, _SLOPE, _EXTENT, _LENGTH, _COST, _LEAST, _STEPS, _DAMPING, _GROWTH = range(9)


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


def _sizes_at(space: Space, sensor: Sensor, x: State, predicted: jax.Array, slope: jax.Array) -> jax.Array:
    """How much residuals (m,) would change by a change of all coordinates, of x and of y, by themselves."""
    at = jnp.abs(space.frame.dual_at(x[0])) @ jnp.abs(x[0])
    sizes = jnp.abs(predicted) + jnp.abs(slope) @ jnp.concatenate([at, *map(jnp.abs, x[1:])])
    if sensor.connection is not None:
        sizes = jnp.abs(sensor.connection.frame.dual_at(predicted)) @ sizes
    return sizes


def _step(prior: Prior, own: Seen, e: jax.Array) -> jax.Array:
    """K (rho + B e) - e, (k,)."""

    def of_measured(A: jax.Array, scale: jax.Array) -> jax.Array:
        return prior.L @ (A.T @ (scale.T @ (scale @ (own.rho + own.B @ e)))) - e

    def of_errors(_: jax.Array, scale: jax.Array) -> jax.Array:
        return _step_by_information(prior, own, scale, e)

    found: jax.Array = _by_the_smaller(prior, own.B, of_measured, of_errors)
    return found


def _fitted(prior: Prior, own: Seen, e: jax.Array) -> Fit:
    """The fit to the measurement's linearization at e.

    With the residual b = rho + B e of the prior, NIS is b^T (1 + B P B^T)^-1 b, or the least value of
    e^T P^-1 e + |b - B e|^2, at K b.
    """
    B, L, b = own.B, prior.L, own.rho + own.B @ e
    size = _ROUNDINGS * _EPS * jnp.sqrt(b @ b)

    def of_measured(A: jax.Array, scale: jax.Array) -> Fit:
        K = L @ product(product(scale, A).T, scale)
        u = scale @ b
        return Fit(jnp.concatenate([L - product(K, A), K], axis=1), u @ u, -2.0 * _log_diagonal(scale), size)

    def of_errors(information: jax.Array, scale: jax.Array) -> Fit:
        p = _step_by_information(prior, own, scale, e)
        left, by_prior = own.rho - B @ p, prior.W @ (e + p)
        root = jnp.concatenate([scale.T, jnp.zeros((B.shape[1], B.shape[0] * _is_wide(B)))], axis=1)
        log_det = -2.0 * (_log_diagonal(scale) + _log_diagonal(prior.W))
        lost = size + _lost(information, scale)
        return Fit(root, left @ left + by_prior @ by_prior, log_det, lost)

    found: Fit = _by_the_smaller(prior, B, of_measured, of_errors)
    return found


def _by_the_smaller(prior: Prior, B: jax.Array, of_measured: Any, of_errors: Any) -> Any:
    """The function of 1 + A A^T (m, m), A = B L, or of P^-1 + B^T B (k, k), at its inverse factor.

    The former is right while neither its pivots nor Joseph's form lose their digits.
    """

    def larger() -> Any:
        information = product(prior.W.T, prior.W) + product(B.T, B)
        return of_errors(information, inverse_factor(information))

    if not _is_wide(B):
        return larger()
    A = product(B, prior.L)
    S = jnp.eye(len(A)) + product(A, A.T)
    scale = inverse_factor(S)
    sizes = jax.lax.stop_gradient(jnp.diagonal(S))
    fine = jnp.all((sizes * jax.lax.stop_gradient(jnp.diagonal(scale)) ** 2 < _KEPT) & (sizes < _LARGEST))
    return jax.lax.cond(
        anywhere_in_batch(~fine),
        lambda: where(fine, of_measured(A, scale), larger()),
        lambda: of_measured(A, scale),
    )


def _step_by_information(prior: Prior, own: Seen, scale: jax.Array, e: jax.Array) -> jax.Array:
    """The step of `_step`, refined once, because the residuals may be large beside what is left of them."""

    def solved(b: jax.Array) -> jax.Array:
        return scale.T @ (scale @ b)

    downhill = own.rho @ own.B - (prior.W @ e) @ prior.W
    p = solved(downhill)
    return p + solved((own.rho - own.B @ p) @ own.B - (prior.W @ (e + p)) @ prior.W)


def _lost(matrix: jax.Array, inverse_factor: jax.Array) -> jax.Array:
    """How much of a matrix M (k, k) may be round-off, relative to M: by the diagonals of M and M^-1."""
    inverse = jnp.sum(jnp.square(inverse_factor), axis=0)
    share: jax.Array = _EPS * len(matrix) * jnp.sum(jnp.diagonal(matrix) * inverse)
    return jax.lax.stop_gradient(share)


def _is_wide(B: jax.Array) -> bool:
    m, k = B.shape
    return m < k


def _log_diagonal(factor: jax.Array) -> jax.Array:
    return jnp.sum(jnp.log(jnp.diagonal(factor)))


def _estimate(x: State, P: jax.Array, t: Any, status: Any = 0) -> Estimate:
    return Estimate(x[0], P, x[1] if len(x) > 1 else None, t, jnp.asarray(status, P.dtype))


def _first(estimate: Estimate, status: jax.Array) -> jax.Array:
    """The status; of what follows from an estimate that is NaN, the status that says why that is."""
    said = jnp.asarray(estimate.status, int)
    known = (status == Status.NOT_FINITE) & jnp.isnan(estimate.P[0, 0]) & (said >= Status.NOT_SETTLED)
    return jnp.where(known, said, status)


def _is_finite(*things: Any) -> jax.Array:
    return jnp.isfinite(jnp.sum(jnp.concatenate([a.ravel() for a in jax.tree_util.tree_leaves(things)])))


def _after(J: jax.Array | None, L: jax.Array) -> jax.Array:
    """J L; None is the identity, with which compilers know that J does not depend on the step."""
    return L if J is None else product(J, L)


def _unless(ok: jax.Array, *things: Any) -> Any:
    """The things, or NaN."""
    return jax.tree_util.tree_map(lambda a: jnp.where(ok, a, jnp.nan), things)
