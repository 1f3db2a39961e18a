"""The exponential of a matrix, in closed form where there is one, and its principal logarithm.

If all products of `degree` matrices of an algebra vanish,

    exp(A) = 1 + A + ... + A^(degree - 1) / (degree - 1)!

is exact. A matrix of two rows has, with a = tr A / 2, B = A - a and B^2 = s (Cayley and Hamilton),

    exp(A) = e^a (cosh(s^(1/2)) + sinh(s^(1/2)) / s^(1/2) B),

in which both functions are entire in s. All others are computed by Pade's approximation (JAX).
Source: N. J. Higham, Functions of Matrices (2008), chapters 10 and 11.
"""

from __future__ import annotations

import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np

_TERMS = 9  # of the series in s: for |s| < `_SERIES` the first one left out is below 1e-16
_SERIES = 0.5
_LOGARITHM = 1e-9  # the largest difference of exp(log(g)) and g, relative to g


def matrix_exponential(A: jax.Array, degree: int | None = None) -> jax.Array:
    """exp(A), (m, m).

    Parameters
    ----------
    A : (m, m).
    degree : the number of factors from which on all products of the algebra vanish; None if they do not.
    """
    if degree is not None:
        return _polynomial(A, degree)
    if len(A) == 2:
        return _of_two_rows(A)
    exponential: jax.Array = jax.scipy.linalg.expm(A)
    return exponential


def principal_logarithm(g: np.ndarray) -> np.ndarray | None:
    """The real matrix A (m, m) with exp(A) = g (m, m) whose eigenvalues turn by less than half a turn.

    None if there is none, which is so where an eigenvalue of g is negative or zero.
    """
    from scipy.linalg import expm, logm

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of singular matrices; what counts is the comparison below
        found = np.asarray(logm(g))
        if not np.isfinite(found).all() or np.abs(found.imag).max() > _LOGARITHM * max(
            np.abs(found).max(), 1
        ):
            return None
        A: np.ndarray = found.real
        A = A + logm(expm(-A) @ g).real  # SciPy's result has half of the digits where eigenvalues coincide
        gap = np.abs(expm(A) - g).max()
    return A if gap <= _LOGARITHM * np.abs(g).max() else None


# --- private -----------------------------------------------------------------------------------------------


def _polynomial(A: jax.Array, degree: int) -> jax.Array:
    total = power = jnp.eye(len(A))
    for k in range(1, degree):
        power = power @ A / k
        total = total + power
    return total


def _of_two_rows(A: jax.Array) -> jax.Array:
    half = 0.5 * (A[0, 0] + A[1, 1])
    B = A - half * jnp.eye(2)
    cosine, ratio = _even_functions(B[0, 0] ** 2 + B[0, 1] * B[1, 0])
    return jnp.exp(half) * (cosine * jnp.eye(2) + ratio * B)


def _even_functions(s: jax.Array) -> tuple[jax.Array, jax.Array]:
    """cosh(s^(1/2)) and sinh(s^(1/2)) / s^(1/2); series near zero, where a root has no derivative."""
    small = jnp.abs(s) < _SERIES
    near, above = jnp.where(small, s, 0.0), ~small & (s > 0.0)
    up = jnp.sqrt(jnp.where(above, s, 1.0))
    down = jnp.sqrt(jnp.where(~small & ~above, -s, 1.0))
    cosine = sum(near**k / math.factorial(2 * k) for k in range(_TERMS))
    ratio = sum(near**k / math.factorial(2 * k + 1) for k in range(_TERMS))
    return (
        jnp.where(small, cosine, jnp.where(above, jnp.cosh(up), jnp.cos(down))),
        jnp.where(small, ratio, jnp.where(above, jnp.sinh(up) / up, jnp.sin(down) / down)),
    )
