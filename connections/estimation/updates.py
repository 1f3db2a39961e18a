"""Prediction, update and smoothing of one estimate; JAX-traceable.

Everything is in units of the standard deviations: with P = L L^T and N = L_N L_N^T the error is
e = L epsilon, and the measurement, at x_k = exp(e_k), with J = D exp(e_k),

    rho = L_N^-1 r,  A = L_N^-1 dh(x_k) J L,

so that epsilon and the noise are N(0, 1). Gauss and Newton's method for |epsilon|^2 + |rho|^2 is

    epsilon_k+1 = K (rho + A epsilon_k),  K = A^T (1 + A A^T)^-1 = (1 + A^T A)^-1 A^T;

then P_e = L ((1 - K A) (1 - K A)^T + K K^T) L^T (Joseph), and the reset,

    P+ = J P_e J^T,  J = D exp(e).

At the end epsilon solves epsilon = K (rho + A epsilon), of which its derivatives are those of the implicit
function. One matrix is factorized in each step, the smaller of 1 + A A^T and 1 + A^T A.
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

SETTLED = 1e-6  # standard deviations: a shorter step ends the iteration
_ROUND_OFF = 1e-10  # of what is minimized
_FALLS, _TURNED = 0.1, 0.8  # of the rules of Armijo, and of Hager and Zhang
_ROUNDINGS = 4.0  # of a coordinate, in units of its last digit


class Seen(NamedTuple):
    """A measurement at a state, in units of the standard deviations."""

    rho: jax.Array
    """(m,) residuals, zero where y is missing."""
    A: jax.Array
    """(m, k) their derivative by epsilon, with the sign of h."""


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
    L = lower_factor(P)
    predicted, slope = space.observed_at(sensor.value_at, x)
    first = sensor.residual_at(predicted, slope, y, space.steps)
    scale = inverse_factor(first.N)

    def seen(own: Residual, turn: jax.Array) -> Seen:
        by = scale if sensor.has_fixed_noise else inverse_factor(own.N)
        return Seen(by @ own.r, product(by, product(own.H, turn)))

    def moved(epsilon: jax.Array) -> tuple[Any, Residual, Seen]:
        found = space.moved_at(x, L @ epsilon)
        own = sensor.residual_at(*space.observed_at(sensor.value_at, found[0]), y, space.steps)
        return found, own, seen(own, _after(found[1], L))

    prior = seen(first, L)
    epsilon = _target(prior, jnp.zeros(k))
    if settings.iterations > 1:
        sizes = jnp.where(first.present, _sizes_at(space, sensor, x, predicted, slope), 0.0)
        lost = jnp.abs(scale) @ (_ROUNDINGS * np.finfo(sizes.dtype).eps * sizes)
        epsilon, (settled, steps) = _iterated(
            settings.iterations, sensor.is_fixed, prior, epsilon, lambda e: moved(e)[2], jnp.sqrt(lost @ lost)
        )
        (z, J, gap), own, last = moved(epsilon)
        at, scale = epsilon, scale if sensor.has_fixed_noise else inverse_factor(own.N)
    else:
        (z, J, gap), own, last, settled, steps = (
            space.moved_at(x, L @ epsilon),
            first,
            prior,
            jnp.asarray(True),
            jnp.asarray(1),
        )
        at = jnp.zeros(k)
    K, log_det = _gain(last)
    rest = jnp.concatenate([jnp.eye(k) - product(K, last.A), K], axis=1)
    root = product(_after(J, L), rest)
    P_z, size = product(root, root.T), jnp.zeros(())
    spread, exact = L @ rest, P_z
    off = larger(too_coarse(gap, P_z, spread @ root.T), first.off, own.off)
    if settings.reset is None or isinstance(settings.reset, AffineConnection):
        reset, gap = jnp.eye(k), None
        if settings.reset is not None:
            reset, gap = space.transport_with_gap_at(settings.reset, x, L @ epsilon)
        J = _after(J, jnp.eye(k))
        wrong = solve(J.T, (reset - J).T).T  # reset J^-1 - 1
        size = jnp.trace(solve_definite(exact, wrong @ exact @ wrong.T)) / k
        root = reset @ spread
        P_z = root @ root.T
        if gap is not None:
            columns = jnp.concatenate([jnp.zeros((k, 1)), gap], axis=1)
            off = larger(off, too_coarse(columns, P_z, spread @ root.T))
    said, inside = _innovation(first, last, at, K, log_det - 2.0 * _log_diagonal(scale), gate)
    missed, off = None if off is None else ~(off <= NEGLIGIBLE), jnp.zeros(()) if off is None else off
    # If x, P, h or N has a NaN, the first step is NaN, and NIS or z.
    failed = jnp.where((steps == 1) | jnp.isnan(off), Status.NOT_FINITE, Status.NOT_SETTLED)
    failed = jnp.where(settled & (off > NEGLIGIBLE), Status.GEODESIC_TOO_COARSE, failed)
    status = jnp.where(settled & (off <= NEGLIGIBLE), Status.SETTLED, failed)
    status = jnp.where(inside, status, Status.REFUSED)
    status = jnp.where(said["dimension"] > 0, status, Status.NOTHING_MEASURED)
    z, P_z = where(status == Status.SETTLED, (z, P_z), (x, P))
    finite = _is_finite(z, jnp.where(inside, said["nis"], 0.0))
    status = _first(estimate, jnp.where(finite | (status >= Status.NOT_SETTLED), status, Status.NOT_FINITE))
    good = status < Status.NOT_SETTLED
    z, P_z = where(good, (z, P_z), (x, P)) if settings.keeps else _unless(good, z, P_z)
    said["nis"], said["log_likelihood"] = _unless(good, said["nis"], said["log_likelihood"])
    ahead = product(first.H, L)
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
    P = estimate.P + gain @ (back - predicted.P) @ gain.T
    x, J, gap = space.moved_at(estimate.state, gain @ e_later)
    J = _after(J, one)
    turned = P @ J.T
    found = (x, P) = x, symmetric(J @ turned)
    off = larger(too_coarse(gap, P, turned), too_coarse(gap_later, later.P, back @ J_later.T))
    if e_gap is not None:
        off = larger(off, too_coarse(J @ (gain @ e_gap), P))
    status = jnp.where(_is_finite(found), estimate.status, Status.NOT_SETTLED)
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
    first: Residual, last: Seen, epsilon: jax.Array, K: jax.Array, log_det: jax.Array, gate: Any
) -> tuple[dict[str, jax.Array], jax.Array]:
    """The innovation's r, NIS, dimension and log-likelihood, and whether it is inside the gate.

    With the residual b = rho + A epsilon of the linearization at epsilon, b^T (1 + A A^T)^-1 b is the least
    value of |epsilon|^2 + |b - A epsilon|^2, at K b; an error of K changes it in second order.
    """
    b = last.rho + last.A @ epsilon
    best = K @ b
    left = b - last.A @ best
    nis, count = best @ best + left @ left, jnp.sum(first.present)
    log_likelihood = -0.5 * (nis + log_det + count * jnp.log(2.0 * jnp.pi))
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
    iterations: int, damped: bool, prior: Seen, epsilon: jax.Array, seen: Any, round_off: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The root of epsilon = K (rho + A epsilon); whether it is found, and how many steps there were.

    With p = K (rho + A epsilon) - epsilon and the product <a, b> = a^T (1 + A^T A) b, the slope of half the
    cost, |epsilon|^2 + |rho|^2, along d is -<p, d>, and |p|^2 = <p, p> is in standard deviations of the
    estimate after the update. A step goes along p less what the last step has not done of its own (Anderson's
    method with one step of memory), if that is downhill, and its length is halved, or less, until

    - the cost falls by a tenth of what its slope promises (Armijo's rule), or it does so up to round-off and
      the slope has not turned around by more than 0.8 of itself (Hager and Zhang's approximate Wolfe rule),
      or
    - |p| is half of the least so far.

    The first two can only be met again and again if slopes vanish, the last one some twenty times, so that
    nothing cycles. Without a cost, because the noise depends on the state, the slope alone is judged. The
    iteration ends where |p| is `SETTLED`, or what round-off makes of it.

    Parameters
    ----------
    round_off : standard deviations of the residuals.

    Source: D. G. Anderson, Iterative procedures for nonlinear integral equations, J. ACM 12 (1965); W. W.
    Hager, H. Zhang, A new conjugate gradient method, SIAM J. Optim. 16 (2005), section 2.
    """

    def root(_: Any, epsilon: jax.Array) -> Any:
        def goes_on(carried: tuple[jax.Array, jax.Array]) -> Any:
            numbers = carried[1]
            return (numbers[_SIZE] > enough) & (numbers[_STEPS] < iterations)

        def step(carried: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            (epsilon, last_p, last_d), numbers = carried
            last_size, last_slope, last_extent, length, last_cost, least, steps = numbers
            change = length * last_d
            epsilon = epsilon + change
            own = seen(epsilon)
            p = _target(own, epsilon) - epsilon
            gradient = epsilon - own.rho @ own.A
            size, by_p, turned = jnp.stack([-p, -last_p, last_d]) @ gradient
            downhill = turned <= -_TURNED * last_slope
            contracts = size <= 0.25 * least
            cost = epsilon @ epsilon + own.rho @ own.rho
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
            made = jnp.stack([size, slope, extent, one, cost, jnp.minimum(size, least), steps + 1.0])
            shorter = length * jnp.clip(
                jnp.where(turned > 0.0, last_slope / (last_slope - turned), 0.5), 0.1, 0.5
            )
            again = jnp.stack([last_size, last_slope, last_extent, shorter, last_cost, least, steps + 1.0])
            return jnp.where(good, jnp.stack([epsilon, p, d]), carried[0]), jnp.where(good, made, again)

        size, one = (prior.rho @ prior.A) @ epsilon, jnp.ones(())
        vectors = jnp.stack([jnp.zeros_like(epsilon), epsilon, epsilon])
        numbers = jnp.stack([size, -size, size, one, prior.rho @ prior.rho, size, one])
        (epsilon, p, _), numbers = jax.lax.while_loop(goes_on, step, (vectors, numbers))
        return epsilon + p, (numbers[_SIZE], numbers[_STEPS])

    def tangent(along: Any, b: jax.Array) -> jax.Array:
        return solve(jax.vmap(along, 0, 1)(jnp.eye(len(b))), b)

    enough = jax.lax.stop_gradient(SETTLED + round_off) ** 2
    found: tuple[jax.Array, tuple[jax.Array, jax.Array]] = jax.lax.custom_root(
        lambda e: _target(seen(e), e) - e, epsilon, root, tangent, has_aux=True
    )
    epsilon, (size, count) = found
    return epsilon, (size <= enough, count.astype(int))


_SIZE, _STEPS = 0, 6


def _sizes_at(space: Space, sensor: Sensor, x: State, predicted: jax.Array, slope: jax.Array) -> jax.Array:
    """How much residuals (m,) would change by a change of all coordinates, of x and of y, by themselves."""
    at = jnp.abs(space.frame.dual_at(x[0])) @ jnp.abs(x[0])
    sizes = jnp.abs(predicted) + jnp.abs(slope) @ jnp.concatenate([at, *map(jnp.abs, x[1:])])
    if sensor.connection is not None:
        sizes = jnp.abs(sensor.connection.frame.dual_at(predicted)) @ sizes
    return sizes


def _target(own: Seen, epsilon: jax.Array) -> jax.Array:
    """K (rho + A epsilon), (k,)."""
    A = own.A
    if _is_wide(A):
        scale = inverse_factor(jnp.eye(len(A)) + product(A, A.T))
        return A.T @ (scale.T @ (scale @ (own.rho + A @ epsilon)))
    scale = inverse_factor(jnp.eye(A.shape[1]) + product(A.T, A))
    return epsilon + scale.T @ (scale @ (own.rho @ A - epsilon))


def _gain(own: Seen) -> tuple[jax.Array, jax.Array]:
    """K (k, m), and ln det(1 + A A^T)."""
    A = own.A
    if _is_wide(A):
        scale = inverse_factor(jnp.eye(len(A)) + product(A, A.T))
        K = product(product(scale, A).T, scale)
    else:
        scale = inverse_factor(jnp.eye(A.shape[1]) + product(A.T, A))
        K = product(scale.T, product(scale, A.T))
    return K, -2.0 * _log_diagonal(scale)


def _is_wide(A: jax.Array) -> bool:
    m, k = A.shape
    return m <= k


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
