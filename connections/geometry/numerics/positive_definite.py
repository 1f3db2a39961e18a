"""Symmetric positive definite matrices P, of the quotient GL(n) / O(n), by Cholesky's factor P = L L^T.

    product   tr(P^-1 A P^-1 B)
    geodesic  L exp(t L^-1 A L^-T) L^T
    distance  |log eig(P^-1 Q)|

Arrays of NumPy and of JAX with any batch axes, results in kind. Nothing is validated: where P is not positive
definite, NumPy's factor raises `LinAlgError`, and JAX's is NaN. Derivatives in JAX are exact where
eigenvalues coincide, too: those of f(X) = U f(l) U^T are U (f[l_i, l_j] (U^T dX U)_ij) U^T, with divided
differences f[,].
Source: [Pe] for the geometry; N. J. Higham, Functions of Matrices (2008), theorem 3.11.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def inner_products(P: Any, basis: Any) -> Any:
    """tr(P^-1 B_i P^-1 B_j), (..., p, p), of P (..., n, n) and B (p, n, n)."""
    by, inverse = _module_of(P), _inverse_factor(P)
    whitened = inverse[..., None, :, :] @ basis @ _transposed(inverse)[..., None, :, :]
    return by.einsum("...iab,...jab->...ij", whitened, whitened)


def exponential(P: Any, A: Any) -> Any:
    """L exp(L^-1 A L^-T) L^T, (..., n, n): where the geodesic from P with the velocity A is at time 1."""
    inverse = _inverse_factor(P)
    return exponential_in_factor(_module_of(P).linalg.cholesky(P), inverse @ A @ _transposed(inverse))


def exponential_in_factor(L: Any, X: Any, longest: float | None = None) -> Any:
    """L exp(X) L^T, (..., n, n), X symmetric: L exp(X / 2) times its transpose, so positive definite.

    X is shortened to the norm `longest`, which is the length of the geodesic, if it is longer.
    """
    if isinstance(X, jax.Array):
        if longest is not None:
            X = X * (longest / jnp.maximum(jnp.sqrt((X * X).sum((-2, -1), keepdims=True)), longest))
        half = L @ symmetric_exponential(X / 2.0)
        return half @ _transposed(half)
    eigenvalues, U = np.linalg.eigh(X)
    if longest is not None:
        lengths = np.sqrt((eigenvalues * eigenvalues).sum(-1, keepdims=True))
        eigenvalues = eigenvalues * (longest / np.maximum(lengths, longest))
    half = L @ (U * np.exp(eigenvalues / 2.0)[..., None, :])
    return half @ _transposed(half)


def logarithm(P: Any, Q: Any) -> Any:
    """L log(L^-1 Q L^-T) L^T, (..., n, n): the velocity at P of the geodesic that is at Q at time 1."""
    L = _module_of(P).linalg.cholesky(P)
    return L @ symmetric_logarithm(whitened(P, Q)) @ _transposed(L)


def whitened(P: Any, Q: Any) -> Any:
    """L^-1 Q L^-T, (..., n, n), symmetric."""
    inverse = _inverse_factor(P)
    return _symmetric(inverse @ Q @ _transposed(inverse))


def divergence(P: Any, Q: Any) -> Any:
    """d(P || Q) = tr(Q^-1 P) - log det(Q^-1 P) - n, (...,): sum of l - 1 - log l, l = eig(Q^-1 P).

    The eigenvalues l - 1 are those of Q^-1 (P - Q), so that P near Q loses no digits.
    """
    by = _module_of(P)
    excess = by.linalg.eigvalsh(whitened(Q, P - Q))
    return (excess - by.log1p(excess)).sum(-1)


def symmetric_exponential(X: Any) -> Any:
    """exp(X), (..., n, n), X symmetric."""
    return _of_eigenvalues("exp", X) if isinstance(X, jax.Array) else _values("exp", X)


def symmetric_logarithm(X: Any) -> Any:
    """log(X), (..., n, n), X symmetric positive definite."""
    return _of_eigenvalues("log", X) if isinstance(X, jax.Array) else _values("log", X)


# --- private -----------------------------------------------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _of_eigenvalues(name: str, X: jax.Array) -> jax.Array:
    value: jax.Array = _values(name, X)
    return value


@_of_eigenvalues.defjvp
def _differentiated(name: str, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (X,), (dX,) = primals, tangents
    eigenvalues, U = jnp.linalg.eigh(X)
    a, b = eigenvalues[..., :, None], eigenvalues[..., None, :]
    slopes = _exponential_slopes(a, b) if name == "exp" else _logarithm_slopes(a, b)
    change = U @ (slopes * (_transposed(U) @ dX @ U)) @ _transposed(U)
    return _of_eigenvalues(name, X), change


def _values(name: str, X: Any) -> Any:
    by = _module_of(X)
    eigenvalues, U = by.linalg.eigh(X)
    function = by.exp if name == "exp" else by.log
    return (U * function(eigenvalues)[..., None, :]) @ _transposed(U)


def _exponential_slopes(a: jax.Array, b: jax.Array) -> jax.Array:
    """(e^a - e^b) / (a - b) = e^b expm1(a - b) / (a - b)."""
    gap = a - b
    apart = jnp.where(gap == 0.0, 1.0, gap)
    return jnp.exp(b) * jnp.where(gap == 0.0, 1.0, jnp.expm1(apart) / apart)


def _logarithm_slopes(a: jax.Array, b: jax.Array) -> jax.Array:
    """(log a - log b) / (a - b) = log1p(x) / (x b), x = (a - b) / b."""
    x = (a - b) / b
    apart = jnp.where(x == 0.0, 1.0, x)
    return jnp.where(x == 0.0, 1.0, jnp.log1p(apart) / apart) / b


def _inverse_factor(P: Any) -> Any:
    by = _module_of(P)
    return by.linalg.inv(by.linalg.cholesky(P))


def _symmetric(X: Any) -> Any:
    return (X + _transposed(X)) / 2.0


def _transposed(X: Any) -> Any:
    return X.swapaxes(-1, -2)


def _module_of(X: Any) -> Any:
    return jnp if isinstance(X, jax.Array) else np
