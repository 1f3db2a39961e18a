"""Symmetric positive definite matrices P, of the quotient GL(n) / O(n), by Cholesky's factor P = L L^T.

    product   tr(P^-1 A P^-1 B)
    geodesic  L exp(t L^-1 A L^-T) L^T
    distance  |log eig(P^-1 Q)|

Arrays of NumPy and of JAX with any batch axes, results in kind. Nothing is validated: where P is not positive
definite, NumPy's factor raises `LinAlgError`, and JAX's is NaN. Derivatives in JAX are exact where
eigenvalues coincide, too, of any order: the first of f(X) = U f(l) U^T is U (f[l_i, l_j] (U^T dX U)_ij) U^T,
with divided differences f[,].
Source: [Pe] for the geometry; N. J. Higham, Functions of Matrices (2008), theorem 3.11 and section B.16.
"""

from __future__ import annotations

import string
from functools import partial
from itertools import pairwise, permutations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_BELOW, _ABOVE, _NODES = 37.0, 19.0, 256  # e^-37 and e^-38 are left out; steps of 1/2 reach ratios of e^71


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
    return L @ whitened_logarithm(P, Q) @ _transposed(L)


def whitened_logarithm(P: Any, Q: Any) -> Any:
    """log(L^-1 Q L^-T), (..., n, n): where Q is near P, by the difference, which loses no digits."""
    by, size, inverse = _module_of(P), P.shape[-1], _inverse_factor(P)
    change, whole = (_symmetric(inverse @ each @ _transposed(inverse)) for each in (Q - P, Q))
    near = (abs(change).max((-2, -1)) < 0.5 / size) * 1.0
    X = by.where(near[..., None, None] > 0.0, change, whole)
    return _of_eigenvalues("log", X, near) if by is jnp else _values("log", X, near)


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
    nothing = np.zeros(X.shape[:-2])
    return _of_eigenvalues("exp", X, nothing) if isinstance(X, jax.Array) else _values("exp", X, nothing)


# --- private -----------------------------------------------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _of_eigenvalues(name: str, X: jax.Array, one: jax.Array) -> jax.Array:
    """f(X + one), (..., n, n), of symmetric X and one (...,), 0 or 1."""
    value: jax.Array = _values(name, X, one)
    return value


@_of_eigenvalues.defjvp
def _differentiated(name: str, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (X, one), (dX, _) = primals, tangents
    change = jnp.einsum("...abcd,...cd->...ab", _derivative(name, 1, X, one), dX)
    return _of_eigenvalues(name, X, one), change


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _derivative(name: str, order: int, X: jax.Array, one: jax.Array) -> jax.Array:
    """D^k f(X + one), (..., n, n, n, n, ...), with two axes for each of k symmetric changes E.

    In the basis of eigenvectors it is the sum over all orders of the changes of

        f[l_a, l_b, ..., l_z] (E_1)_ab (E_2)_bc ... (E_k)_yz.

    An array, and not a function of the changes, so that JAX transposes what is linear in them and
    differentiates by X again.
    """
    eigenvalues, U = jnp.linalg.eigh(X)
    eigenvalues = eigenvalues + jnp.asarray(one)[..., None]
    inner, letters = string.ascii_lowercase[: order + 1], string.ascii_uppercase[: 2 * order + 2]
    left = f"...{letters[0]}{inner[0]},...{letters[1]}{inner[-1]}"
    factors = [U] * (2 * order + 2)
    total: Any = 0.0
    for places in permutations(range(order)):
        turns = "".join(
            f",...{letters[2 + 2 * place]}{first},...{letters[3 + 2 * place]}{second}"
            for place, (first, second) in zip(places, pairwise(inner), strict=True)
        )
        form = f"...{inner},{left}{turns}->...{letters}"
        total = total + jnp.einsum(form, _DIVIDED[name](eigenvalues, order), *factors)
    derivative: jax.Array = total
    return derivative


@_derivative.defjvp
def _next_derivative(name: str, order: int, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (X, one), (dX, _) = primals, tangents
    rate = jnp.einsum("...ab,...ab->...", _derivative(name, order + 1, X, one), _behind(dX, 2 * order + 2))
    return _derivative(name, order, X, one), rate


def _behind(dX: jax.Array, axes: int) -> jax.Array:
    """dX (..., n, n) with so many axes of length one before its last two."""
    return dX.reshape(dX.shape[:-2] + (1,) * axes + dX.shape[-2:])


def _values(name: str, X: Any, one: Any) -> Any:
    by = _module_of(X)
    eigenvalues, U = by.linalg.eigh(X)
    if name == "exp":
        values = by.exp(eigenvalues)
    else:
        near = one[..., None] > 0.0
        values = by.where(
            near,
            by.log1p(by.where(near, eigenvalues, 0.0)),
            by.log(by.where(near, 1.0, eigenvalues)),
        )
    return (U * values[..., None, :]) @ _transposed(U)


def _divided_exponential(eigenvalues: jax.Array, order: int) -> jax.Array:
    """exp[l_a, ..., l_z], order + 1 indices, (..., n, ..., n).

    Of order 1 it is e^b expm1(a - b) / (a - b); of others it stands at the end of the first row of the
    exponential of the matrix with the eigenvalues on its diagonal and ones above (Opitz).
    """
    if order == 1:
        a, b = eigenvalues[..., :, None], eigenvalues[..., None, :]
        gap = a - b
        apart = jnp.where(gap == 0.0, 1.0, gap)
        return jnp.exp(b) * jnp.where(gap == 0.0, 1.0, jnp.expm1(apart) / apart)
    n, largest = eigenvalues.shape[-1], eigenvalues.max(axis=-1, keepdims=True)
    rows = jnp.meshgrid(*[jnp.arange(n)] * (order + 1), indexing="ij")
    diagonal = jnp.stack([(eigenvalues - largest)[..., row] for row in rows], axis=-1)
    shape = (1,) * (diagonal.ndim - 1) + (order + 1,) * 2
    on, above = (jnp.eye(order + 1, k=k).reshape(shape) for k in (0, 1))
    matrices = diagonal[..., None] * on + above
    corner = jax.scipy.linalg.expm(matrices)[..., 0, -1]
    divided: jax.Array = corner * jnp.exp(largest).reshape(largest.shape[:-1] + (1,) * (order + 1))
    return divided


def _divided_logarithm(eigenvalues: jax.Array, order: int) -> jax.Array:
    """log[l_a, ..., l_z], order + 1 indices, (..., n, ..., n).

    Of order 1 it is log1p(x) / (x b), x = (a - b) / b; of all it is

        (-1)^(order + 1) times the integral over t > 0 of 1 / ((t + l_a) ... (t + l_z)),

    here by the trapezoidal rule in log t: the integrand is analytic to pi beside the real line and falls on
    both sides as an exponential, so that the error is exp(-2 pi^2 / step), below round-off for steps of 1/2.
    """
    if order == 1:
        a, b = eigenvalues[..., :, None], eigenvalues[..., None, :]
        x = (a - b) / b
        apart = jnp.where(x == 0.0, 1.0, x)
        return jnp.where(x == 0.0, 1.0, jnp.log1p(apart) / apart) / b
    first, last = jnp.log(eigenvalues.min(axis=-1)) - _BELOW, jnp.log(eigenvalues.max(axis=-1)) + _ABOVE
    t = jnp.exp(jnp.linspace(first, last, _NODES, axis=-1))
    factors = 1.0 / (t[..., :, None] + eigenvalues[..., None, :])
    weights = t * ((last - first) / (_NODES - 1))[..., None]
    letters = string.ascii_lowercase[: order + 1]
    form = f"...t,{','.join(f'...t{letter}' for letter in letters)}->...{letters}"
    divided: jax.Array = (-1.0) ** (order + 1) * jnp.einsum(form, weights, *[factors] * (order + 1))
    return divided


_DIVIDED = {"exp": _divided_exponential, "log": _divided_logarithm}


def _inverse_factor(P: Any) -> Any:
    by = _module_of(P)
    return by.linalg.inv(by.linalg.cholesky(P))


def _symmetric(X: Any) -> Any:
    return (X + _transposed(X)) / 2.0


def _transposed(X: Any) -> Any:
    return X.swapaxes(-1, -2)


def _module_of(X: Any) -> Any:
    return jnp if isinstance(X, jax.Array) else np
