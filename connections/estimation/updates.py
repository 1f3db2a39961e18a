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

from connections._jax import solve
from connections.affine import AffineConnection
from connections.estimation.estimate import Estimate, Innovation
from connections.estimation.sensor import Residual, Sensor
from connections.estimation.spaces import Space, State
from connections.geometry.numerics.definite import inverse_factor, lower_factor, solve_definite
from connections.geometry.numerics.products import small_product as product

SETTLED = 1e-6  # standard deviations: a shorter step ends the iteration
_ROUND_OFF = 1e-10  # of what is minimized
NEGLIGIBLE = 1e-3  # standard deviations: larger errors of integration are errors


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


def updated_at(
    space: Space, settings: Settings, sensor: Sensor, estimate: Estimate, y: jax.Array, gate: Any
) -> tuple[Estimate, Innovation, jax.Array]:
    """The estimate after a measurement, what it said, and the geodesic's error in standard deviations."""
    x, P, k = estimate.state, estimate.P, space.dim
    L = lower_factor(P)
    first = sensor.residual_at(*space.observed_at(sensor.h, x), y)
    scale = inverse_factor(first.N)

    def seen(own: Residual, turn: jax.Array) -> Seen:
        by = scale if sensor.has_fixed_noise else inverse_factor(own.N)
        return Seen(by @ own.r, product(by, product(own.H, turn)))

    def moved(epsilon: jax.Array) -> tuple[Any, Residual, Seen]:
        found = space.moved_at(x, L @ epsilon)
        own = sensor.residual_at(*space.observed_at(sensor.h, found[0]), y)
        return found, own, seen(own, _after(found[1], L))

    prior = seen(first, L)
    epsilon = _target(prior, jnp.zeros(k))
    if settings.iterations > 1:
        damped = sensor.is_fixed
        epsilon, (length, steps) = _iterated(
            settings.iterations, damped, prior, epsilon, lambda e: moved(e)[2]
        )
        (z, J, gap), own, last = moved(epsilon)
        at, scale = epsilon, scale if sensor.has_fixed_noise else inverse_factor(own.N)
    else:
        (z, J, gap), last, length, steps = (
            space.moved_at(x, L @ epsilon),
            prior,
            jnp.zeros(()),
            jnp.asarray(1),
        )
        at = jnp.zeros(k)
    K, log_det = _gain(last)
    rest = jnp.concatenate([jnp.eye(k) - product(K, last.A), K], axis=1)
    root = product(_after(J, L), rest)
    P_z, size = product(root, root.T), jnp.zeros(())
    off = _deviations(gap, P_z)
    if settings.reset is None or isinstance(settings.reset, AffineConnection):
        exact = P_z
        reset = jnp.eye(k) if settings.reset is None else space.transport_at(settings.reset, x, L @ epsilon)
        J = _after(J, jnp.eye(k))
        wrong = solve(J.T, (reset - J).T).T  # reset J^-1 - 1
        size = jnp.trace(solve_definite(exact, wrong @ exact @ wrong.T)) / k
        root = reset @ (L @ rest)
        P_z = root @ root.T
    said, accepted = _innovation(first, last, at, K, log_det - 2.0 * _log_diagonal(scale), gate)
    ahead = product(first.H, L)
    converged = length <= SETTLED
    z, P_z = _where(accepted, (z, P_z), (x, P))
    good = converged if gap is None else converged & (off <= NEGLIGIBLE)
    z, P_z = _unless(~accepted | good, z, P_z)
    innovation = Innovation(
        S=product(ahead, ahead.T) + first.N,
        **said,
        accepted=accepted,
        converged=converged,
        steps=steps,
        reset_size=size,
    )
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
    J_later = _after(space.moved_at(predicted.state, e_later)[1], jnp.eye(space.dim))
    gain = solve_definite(predicted.P, Phi @ estimate.P).T
    back = solve(J_later, solve(J_later, later.P).T)
    P = estimate.P + gain @ (back - predicted.P) @ gain.T
    x, J, _ = space.moved_at(estimate.state, gain @ e_later)
    J = _after(J, jnp.eye(space.dim))
    return _estimate(x, _symmetric(J @ P @ J.T), estimate.t)


# --- private -----------------------------------------------------------------------------------------------


def _innovation(
    first: Residual, last: Seen, epsilon: jax.Array, K: jax.Array, log_det: jax.Array, gate: Any
) -> tuple[dict[str, jax.Array], jax.Array]:
    """What the measurement said, and whether it is accepted.

    With the residual b = rho + A epsilon of the linearization at epsilon, b^T (1 + A A^T)^-1 b is the least
    value of |epsilon|^2 + |b - A epsilon|^2, at K b; it errs in the second order of what K does.
    """
    b = last.rho + last.A @ epsilon
    best = K @ b
    left = b - last.A @ best
    nis, count = best @ best + left @ left, jnp.sum(first.present)
    log_likelihood = -0.5 * (nis + log_det + count * jnp.log(2.0 * jnp.pi))
    accepted = count > 0
    if gate is not None:
        inside = jax.scipy.special.gammainc(0.5 * jnp.maximum(count, 1), 0.5 * nis) <= gate
        accepted = accepted & inside
    return {
        "r": first.r,
        "nis": nis,
        "dimension": count,
        "log_likelihood": jnp.where(count > 0, log_likelihood, 0.0),
    }, accepted


def _iterated(
    iterations: int, damped: bool, prior: Seen, epsilon: jax.Array, seen: Any
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The root of epsilon = K (rho + A epsilon); the length of the last step, and how many there were.

    If `damped`, a step that raises |epsilon|^2 + |rho|^2 is halved. Lengths are in standard deviations of the
    estimate after the update, whose covariance is (1 + A^T A)^-1.
    """

    def length(change: jax.Array, own: Seen) -> jax.Array:
        along = own.A @ change
        size: jax.Array = jnp.sqrt(change @ change + along @ along)
        return size

    def root(_: Any, epsilon: jax.Array) -> Any:
        def goes_on(carried: Any) -> Any:
            *_, last, count = carried
            return (last > SETTLED) & (count < iterations)

        def step(carried: Any) -> Any:
            epsilon, before, change, last, count = carried
            tried = epsilon + change
            own = seen(tried)
            now = tried @ tried + own.rho @ own.rho
            next_change = _target(own, tried) - tried
            found = tried, now, next_change, length(next_change, own)
            if damped:
                good = now <= before + _ROUND_OFF * (1.0 + before)
                found = _where(good, found, (epsilon, before, 0.5 * change, last))
            return *found, count + 1

        start = jnp.zeros_like(epsilon), prior.rho @ prior.rho, epsilon, length(epsilon, prior), jnp.ones(())
        epsilon, _, change, last, count = jax.lax.while_loop(goes_on, step, start)
        return epsilon + change, (last, count)

    def tangent(along: Any, b: jax.Array) -> jax.Array:
        return solve(jax.vmap(along, 0, 1)(jnp.eye(len(b))), b)

    found: tuple[jax.Array, tuple[jax.Array, jax.Array]] = jax.lax.custom_root(
        lambda e: _target(seen(e), e) - e, epsilon, root, tangent, has_aux=True
    )
    epsilon, (last, count) = found
    return epsilon, (last, count.astype(int))


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


def _deviations(gap: jax.Array | None, P: jax.Array) -> jax.Array:
    """(gap^T P^-1 gap)^(1/2), zero if nothing is off."""
    return jnp.zeros(()) if gap is None else jnp.sqrt(gap @ solve_definite(P, gap))


def _estimate(x: State, P: jax.Array, t: Any) -> Estimate:
    return Estimate(x[0], P, x[1] if len(x) > 1 else None, t)


def _after(J: jax.Array | None, L: jax.Array) -> jax.Array:
    """J L; None is the identity, with which compilers know that J does not depend on the step."""
    return L if J is None else product(J, L)


def _symmetric(P: jax.Array) -> jax.Array:
    return 0.5 * (P + P.T)


def _where(condition: jax.Array, these: Any, those: Any) -> Any:
    return jax.tree_util.tree_map(lambda a, b: jnp.where(condition, a, b), these, those)


def _unless(ok: jax.Array, *things: Any) -> Any:
    """The things, or NaN."""
    return jax.tree_util.tree_map(lambda a: jnp.where(ok, a, jnp.nan), things)
