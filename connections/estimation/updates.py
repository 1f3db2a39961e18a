"""Prediction, update and smoothing of one estimate; JAX-traceable.

Gauss and Newton's method for the error e of an estimate with covariance P, with x_k = exp(e_k),

    H_k = dh(x_k) J(e_k),  K_k = P H_k^T (H_k P H_k^T + N)^-1,  e_k+1 = K_k (r_k + H_k e_k),

r_k the residual at x_k; then P_e = (1 - K H) P (1 - K H)^T + K N K^T (Joseph), and the reset,

    P+ = J P_e J^T,  J = D exp(e).

At the end e solves e = K (r + H e), of which its derivatives are those of the implicit function.
Source: docs/filters.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from connections._jax import solve
from connections.affine import AffineConnection
from connections.estimation.estimate import Estimate, Innovation
from connections.estimation.sensor import Residual, Sensor
from connections.estimation.spaces import Space, State
from connections.geometry.numerics.definite import solve_definite

SETTLED = 1e-6  # standard deviations: a shorter step ends the iteration
_ROUND_OFF = 1e-10  # of what is minimized
NEGLIGIBLE = 1e-3  # standard deviations: larger errors of integration are errors


class Settings(NamedTuple):
    """How updates are made."""

    reset: Any
    """"exact", a connection, or None."""
    iterations: int


def predicted_at(space: Space, estimate: Estimate, u: Any, t: Any, steps: int) -> tuple[Any, ...]:
    """The estimate at the time t, Phi (k, k), and the error of integration in standard deviations."""
    step = (t - estimate.t) / steps

    def one(number: Any, carried: Any) -> Any:
        x, P, Phi, gap = carried
        found = space.predicted_at(x, P, u, estimate.t + number * step, step)
        return found.state, found.P, found.transition @ Phi, found.transition @ gap + found.gap

    k = space.dim
    begin = estimate.state, estimate.P, jnp.eye(k), jnp.zeros(k)
    x, P, Phi, gap = one(0, begin) if steps == 1 else jax.lax.fori_loop(0, steps, one, begin)
    size = jnp.sqrt(gap @ solve_definite(P, gap))
    ok = (step >= 0.0) & (size <= NEGLIGIBLE)
    x, P = _unless(ok, x, P)
    return _estimate(x, P, jnp.asarray(t)), Phi, size


def updated_at(
    space: Space, settings: Settings, sensor: Sensor, estimate: Estimate, y: jax.Array, gate: Any
) -> tuple[Estimate, Innovation, jax.Array]:
    """The estimate after a measurement, what it said, and the geodesic's error in standard deviations."""
    x, P, k = estimate.state, estimate.P, space.dim
    first = sensor.residual_at(*space.observed_at(sensor.h, x), y)
    e = _gain(P, first) @ first.r

    def residual(e: jax.Array) -> tuple[Residual, Any]:
        moved = space.moved_at(x, e)
        found = sensor.residual_at(*space.observed_at(sensor.h, moved[0]), y)
        return found._replace(H=found.H @ moved[1]), moved

    if settings.iterations > 1:
        e, (length, steps) = _iterated(
            settings.iterations, sensor.is_fixed, P, first, e, lambda e: residual(e)[0]
        )
        last, (z, J, gap) = residual(e)
    else:
        (z, J, gap), last, length, steps = space.moved_at(x, e), first, jnp.zeros(()), jnp.asarray(1)
    P_e = _joseph(P, last)
    exact = _symmetric(J @ P_e @ J.T)
    reset, size = J, jnp.zeros(())
    if settings.reset is None or isinstance(settings.reset, AffineConnection):
        reset = jnp.eye(k) if settings.reset is None else space.transport_at(settings.reset, x, e)
        wrong = solve(J.T, (reset - J).T).T  # reset J^-1 - 1
        size = jnp.trace(solve_definite(exact, wrong @ exact @ wrong.T)) / k
    off = jnp.sqrt(gap @ solve_definite(exact, gap))
    said, accepted = _innovation(first, last, e, P, gate)
    converged = length <= SETTLED
    z, P_z = _where(accepted, (z, _symmetric(reset @ P_e @ reset.T)), (x, P))
    z, P_z = _unless(~accepted | (converged & (off <= NEGLIGIBLE)), z, P_z)
    innovation = Innovation(**said, accepted=accepted, converged=converged, steps=steps, reset_size=size)
    return _estimate(z, P_z, estimate.t), innovation, off


def smoothed_at(
    space: Space, estimate: Estimate, predicted: Estimate, Phi: jax.Array, later: Estimate
) -> Estimate:
    """The estimate given all that came later: the step back of Rauch, Tung and Striebel.

    Parameters
    ----------
    estimate : after its measurement. predicted : of it, for the next time. Phi : (k, k) between the two.
    later : the smoothed estimate at the next time.
    """
    e_later = space.difference_at(predicted.state, later.state)
    J_later = space.moved_at(predicted.state, e_later)[1]
    gain = solve_definite(predicted.P, Phi @ estimate.P).T
    back = solve(J_later, solve(J_later, later.P).T)
    P = estimate.P + gain @ (back - predicted.P) @ gain.T
    x, J, _ = space.moved_at(estimate.state, gain @ e_later)
    return _estimate(x, _symmetric(J @ P @ J.T), estimate.t)


# --- private -----------------------------------------------------------------------------------------------


def _innovation(
    first: Residual, last: Residual, e: jax.Array, P: jax.Array, gate: Any
) -> tuple[dict[str, jax.Array], jax.Array]:
    """What the measurement said, and whether it is accepted.

    With the residual r' = r + H e of the linearization at the root e, r'^T S^-1 r' is the least value of
    e^T P^-1 e + r^T N^-1 r.
    """
    r, S = last.r + last.H @ e, _covariance(last, P)
    nis, count = r @ solve_definite(S, r), jnp.sum(first.present)
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(S))))
    log_likelihood = -0.5 * (nis + log_det + count * jnp.log(2.0 * jnp.pi))
    accepted = count > 0
    if gate is not None:
        inside = jax.scipy.special.gammainc(0.5 * jnp.maximum(count, 1), 0.5 * nis) <= gate
        accepted = accepted & inside
    return {
        "r": first.r,
        "S": _covariance(first, P),
        "nis": nis,
        "dimension": count,
        "log_likelihood": jnp.where(count > 0, log_likelihood, 0.0),
    }, accepted


def _iterated(
    iterations: int, damped: bool, P: jax.Array, first: Residual, e: jax.Array, residual: Any
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The root of e = K (r + H e), from the first step; the length of the last step, and their number.

    If `damped`, a step that raises e^T P^-1 e + r^T N^-1 r is halved.
    """

    def after(e: jax.Array) -> tuple[jax.Array, Residual]:
        own = residual(e)
        return _gain(P, own) @ (own.r + own.H @ e), own

    def length(change: jax.Array, own: Residual) -> jax.Array:
        """In standard deviations of P_e, of which P_e^-1 = P^-1 + H^T N^-1 H."""
        seen = own.H @ change
        square = change @ solve_definite(P, change) + seen @ solve_definite(own.N, seen)
        size: jax.Array = jnp.sqrt(square)
        return size

    def value(e: jax.Array, own: Residual) -> jax.Array:
        """e^T P^-1 e + r^T N^-1 r, which a step must not raise."""
        return e @ solve_definite(P, e) + own.r @ solve_definite(own.N, own.r)

    def root(_: Any, e: jax.Array) -> Any:
        def goes_on(carried: Any) -> Any:
            *_, last, count = carried
            return (last > SETTLED) & (count < iterations)

        def step(carried: Any) -> Any:
            e, before, change, last, count = carried
            tried = e + change
            target, own = after(tried)
            now = value(tried, own)
            good = (now <= before + _ROUND_OFF * (1.0 + before)) if damped else jnp.asarray(True)
            next_change = target - tried
            e, before, change, last = _where(
                good, (tried, now, next_change, length(next_change, own)), (e, before, 0.5 * change, last)
            )
            return e, before, change, last, count + 1

        start = jnp.zeros_like(e), value(jnp.zeros_like(e), first), e, length(e, first), jnp.ones(())
        e, _, change, last, count = jax.lax.while_loop(goes_on, step, start)
        return e + change, (last, count)

    def tangent(along: Any, b: jax.Array) -> jax.Array:
        return solve(jax.vmap(along, 0, 1)(jnp.eye(len(b))), b)

    found: tuple[jax.Array, tuple[jax.Array, jax.Array]] = jax.lax.custom_root(
        lambda e: after(e)[0] - e, e, root, tangent, has_aux=True
    )
    e, (last, count) = found
    return e, (last, count.astype(int))


def _covariance(own: Residual, P: jax.Array) -> jax.Array:
    """S = H P H^T + N, (m, m)."""
    return _symmetric(own.H @ P @ own.H.T + own.N)


def _gain(P: jax.Array, own: Residual) -> jax.Array:
    """K = P H^T S^-1, (k, m)."""
    return solve_definite(_covariance(own, P), own.H @ P).T


def _joseph(P: jax.Array, own: Residual) -> jax.Array:
    """(1 - K H) P (1 - K H)^T + K N K^T, (k, k)."""
    K = _gain(P, own)
    rest = jnp.eye(len(P)) - K @ own.H
    explained: jax.Array = rest @ P @ rest.T + K @ own.N @ K.T
    return explained


def _estimate(x: State, P: jax.Array, t: Any) -> Estimate:
    return Estimate(x[0], P, x[1] if len(x) > 1 else None, t)


def _symmetric(P: jax.Array) -> jax.Array:
    return 0.5 * (P + P.T)


def _where(condition: jax.Array, these: Any, those: Any) -> Any:
    return jax.tree_util.tree_map(lambda a, b: jnp.where(condition, a, b), these, those)


def _unless(ok: jax.Array, *things: Any) -> Any:
    """The things, or NaN."""
    return jax.tree_util.tree_map(lambda a: jnp.where(ok, a, jnp.nan), things)
