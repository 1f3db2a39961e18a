"""Prediction, update and smoothing of one estimate; JAX-traceable.

With N = L_N L_N^T, at x_k = exp(e_k), with J = D exp(e_k),

    rho = L_N^-1 r,  B = L_N^-1 dh(x_k) J,  I = P^-1 + B^T B,

Gauss and Newton's method for e^T P^-1 e + |rho|^2 is

    e_k+1 = K (rho + B e_k),  K = P B^T (1 + B P B^T)^-1 = I^-1 B^T;

then P_e = I^-1, or (1 - K B) P (1 - K B)^T + K K^T (Joseph), and the reset,

    P+ = J P_e J^T,  J = D exp(e).

The fit is that of `fitting`, its iteration that of `iteration`. Source: docs/filters.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from connections._jax import solve
from connections.affine import AffineConnection
from connections.estimation.displacements import NEGLIGIBLE, larger, too_coarse, with_enough_steps
from connections.estimation.estimate import Estimate, Innovation
from connections.estimation.fitting import (
    EPS,
    ROUNDINGS,
    Fit,
    Prior,
    Seen,
    fitted,
    log_diagonal,
    lost_share,
    step_at,
)
from connections.estimation.iteration import iterated
from connections.estimation.sensor import Residual, Sensor
from connections.estimation.spaces import Space, State
from connections.estimation.spread import symmetric, where
from connections.estimation.status import Status
from connections.geometry.numerics.definite import inverse_factor, lower_factor, solve_definite
from connections.geometry.numerics.products import small_product as product


class UpdateSettings(NamedTuple):
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
    space: Space, settings: UpdateSettings, sensor: Sensor, estimate: Estimate, y: jax.Array, gate: Any
) -> tuple[Updated, jax.Array]:
    """The estimate after a measurement and what it said; and whether geodesics need more steps."""

    def made(steps: Any) -> tuple[Updated, jax.Array | None]:
        return _updated_at(space.with_steps(steps), settings, sensor, estimate, y, gate)

    found, missed = with_enough_steps(made, settings.geodesic_steps, settings.goes_on)
    return found, jnp.asarray(False) if missed is None else missed


def _updated_at(
    space: Space, settings: UpdateSettings, sensor: Sensor, estimate: Estimate, y: jax.Array, gate: Any
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
    e = step_at(known, prior, jnp.zeros(k))
    if settings.iterations > 1:
        sizes = jnp.where(
            first.present, jnp.abs(first.r) + _sizes_at(space, sensor, x, predicted, slope), 0.0
        )
        lost = jnp.abs(scale) @ (ROUNDINGS * EPS * sizes)
        e, (settled, steps) = iterated(
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
    fit = fitted(known, last, at)
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
    said, inside = _innovation(first, fit, -2.0 * log_diagonal(scale), gate)
    missed, off = None if off is None else ~(off <= NEGLIGIBLE), jnp.zeros(()) if off is None else off
    # If x, P, h or N has a NaN, the first step is NaN, and NIS or z.
    failed = jnp.where((steps == 1) | jnp.isnan(off), Status.NOT_FINITE, Status.NOT_SETTLED)
    failed = jnp.where(settled & (off > NEGLIGIBLE), Status.GEODESIC_TOO_COARSE, failed)
    status = jnp.where(settled & (off <= NEGLIGIBLE), Status.SETTLED, failed)
    of_given = lost_share(P, known.W) + lost_share(own.N, scale)
    given = _is_finite(known, prior) & (_is_finite(last) | ~_is_finite(e))
    why = jnp.where(given, Status.ROUND_OFF, jnp.where(status == Status.SETTLED, Status.NOT_FINITE, status))
    why = jnp.where((status == Status.NOT_SETTLED) & ~_is_finite(last), status, why)
    status = jnp.where(~(fit.lost + of_given <= NEGLIGIBLE) & ~(off > NEGLIGIBLE), why, status)
    # Round-off of P moves the estimate the more the farther it goes.
    lost = of_given * jnp.sqrt(1.0 + fit.nis) + lost_share(P_z, inverse_factor(P_z))
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
    settings: UpdateSettings,
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
    lost = EPS * len(P) * (jnp.diagonal(estimate.P) + jnp.diagonal(less)) @ inverse
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
    space: Space, settings: UpdateSettings, x: State, P: jax.Array, z: State
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


def _sizes_at(space: Space, sensor: Sensor, x: State, predicted: jax.Array, slope: jax.Array) -> jax.Array:
    """How much residuals (m,) would change by a change of all coordinates, of x and of y, by themselves."""
    at = jnp.abs(space.frame.dual_at(x[0])) @ jnp.abs(x[0])
    sizes = jnp.abs(predicted) + jnp.abs(slope) @ jnp.concatenate([at, *map(jnp.abs, x[1:])])
    if sensor.connection is not None:
        sizes = jnp.abs(sensor.connection.frame.dual_at(predicted)) @ sizes
    return sizes


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
