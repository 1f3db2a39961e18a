"""The linear fit to a measurement: least squares of a prior and of residuals; JAX-traceable.

With P = L L^T, W = L^-1, rho = L_N^-1 r, B = L_N^-1 dh(x) J,

    K = P B^T (1 + B P B^T)^-1 = I^-1 B^T,  I = P^-1 + B^T B,

and P_e = I^-1, or (1 - K B) P (1 - K B)^T + K K^T (Joseph). One matrix is factorized. It is I, (k, k), or the
smaller 1 + B P B^T, (m, m), where that is as exact. The scales of P and N do not change the
round-off in Cholesky's factor of I, which grows only as correlations in P_e come close to 1. `Fit.lost`
estimates it. Source: docs/filters.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.estimation.spread import where
from connections.geometry.numerics.definite import inverse_factor
from connections.geometry.numerics.products import small_product as product
from connections.integration.traced import anywhere_in_batch

ROUNDINGS = 4.0  # of a coordinate, in units of its last digit
EPS = float(np.finfo(float).eps)
_KEPT, _LARGEST = 1e6, 1e20  # of 1 + B P B^T: largest diagonal entry, over its squared pivot and alone


class Seen(NamedTuple):
    """A measurement at a state, in units of the sensor's standard deviations."""

    rho: jax.Array
    """(m,) residuals, zero where y is missing."""
    B: jax.Array
    """(m, k) derivative of the prediction h by the error e of the state; the residuals' is -B."""


class Prior(NamedTuple):
    """Factors of the prior's covariance P = L L^T: L and W = L^-1, (k, k)."""

    L: jax.Array
    W: jax.Array


class Fit(NamedTuple):
    """The linear fit to a measurement."""

    root: jax.Array
    """(k, k) or (k, k + m) factor of the covariance P_e = root root^T."""
    nis: jax.Array
    """Normalized innovation squared, b^T (1 + B P B^T)^-1 b, of the residual b of `fitted`."""
    log_det: jax.Array
    """ln det(1 + B P B^T)."""
    lost: jax.Array
    """Estimate of the relative round-off in P_e."""


def step_at(prior: Prior, own: Seen, e: jax.Array) -> jax.Array:
    """The Gauss-Newton step from e: K (rho + B e) - e, (k,)."""

    def of_measured(A: jax.Array, scale: jax.Array) -> jax.Array:
        return prior.L @ (A.T @ (scale.T @ (scale @ (own.rho + own.B @ e)))) - e

    def of_errors(_: jax.Array, scale: jax.Array) -> jax.Array:
        return _step_by_information(prior, own, scale, e)

    step: jax.Array = _by_the_smaller(prior, own.B, of_measured, of_errors)
    return step


def fitted(prior: Prior, own: Seen, e: jax.Array) -> Fit:
    """The fit to the measurement's linearization at e, with the prior's residual b = rho + B e.

    NIS is b^T (1 + B P B^T)^-1 b, which is the least value of x^T P^-1 x + |b - B x|^2, at x = K b.
    """
    B, L, b = own.B, prior.L, own.rho + own.B @ e
    size = ROUNDINGS * EPS * jnp.sqrt(b @ b)

    def of_measured(A: jax.Array, scale: jax.Array) -> Fit:
        K = L @ product(product(scale, A).T, scale)
        u = scale @ b
        return Fit(jnp.concatenate([L - product(K, A), K], axis=1), u @ u, -2.0 * log_diagonal(scale), size)

    def of_errors(information: jax.Array, scale: jax.Array) -> Fit:
        p = _step_by_information(prior, own, scale, e)
        left, by_prior = own.rho - B @ p, prior.W @ (e + p)
        root = jnp.concatenate([scale.T, jnp.zeros((B.shape[1], B.shape[0] * _is_wide(B)))], axis=1)
        log_det = -2.0 * (log_diagonal(scale) + log_diagonal(prior.W))
        lost = size + lost_share(information, scale)
        return Fit(root, left @ left + by_prior @ by_prior, log_det, lost)

    fit: Fit = _by_the_smaller(prior, B, of_measured, of_errors)
    return fit


def lost_share(matrix: jax.Array, inverse_factor: jax.Array) -> jax.Array:
    """An estimate of relative round-off in M^-1, for M (k, k): eps k sum_i M_ii (M^-1)_ii."""
    inverse = jnp.sum(jnp.square(inverse_factor), axis=0)
    share: jax.Array = EPS * len(matrix) * jnp.sum(jnp.diagonal(matrix) * inverse)
    return jax.lax.stop_gradient(share)


def log_diagonal(factor: jax.Array) -> jax.Array:
    """ln of the determinant of a triangular matrix (k, k)."""
    return jnp.sum(jnp.log(jnp.diagonal(factor)))


# --- private -----------------------------------------------------------------------------------------------


def _by_the_smaller(prior: Prior, B: jax.Array, of_measured: Any, of_errors: Any) -> Any:
    """`of_measured(A, W_S)`, S = 1 + A A^T (m, m), A = B L; or `of_errors(I, W_I)`, I = P^-1 + B^T B (k, k).

    W_S and W_I are inverse factors of S and I. S is used if m < k and neither its pivots nor Joseph's form
    lose their digits.
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
    """The step of `step_at`, refined once, because residuals may be much smaller after it."""

    def solved(b: jax.Array) -> jax.Array:
        return scale.T @ (scale @ b)

    downhill = own.rho @ own.B - (prior.W @ e) @ prior.W
    p = solved(downhill)
    return p + solved((own.rho - own.B @ p) @ own.B - (prior.W @ (e + p)) @ prior.W)


def _is_wide(B: jax.Array) -> bool:
    m, k = B.shape
    return m < k
