"""Equations with a symmetric positive definite matrix, such as a metric, by Cholesky's factor: H = L L^T.

Up to `LARGEST` unknowns the factor is written out instead of calling LAPACK, because JAX imports
`scipy.linalg` before its first call of LAPACK, which takes as long as the rest of a first result. If H is not
positive definite, the result is NaN. If a row and the same column of H are scaled, all results scale with
them, so that units do not matter. Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms
(2002), chapter 10.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

LARGEST = 3  # unknowns; batches of larger systems are solved faster by LAPACK (docs/decisions.md)


def solve_definite(H: jax.Array, b: jax.Array) -> jax.Array:
    """H^-1 b, (n, ...); NaN where H is not positive definite.

    Parameters
    ----------
    H : (n, n), symmetric positive definite; only the entries on and below the diagonal are used.
    b : (n, ...).
    """
    H, columns = jnp.asarray(H, float), jnp.asarray(b, float).reshape(len(H), -1)
    solve = _written_out(H) if len(H) <= LARGEST else _by_lapack(H)
    solution: jax.Array = lax.custom_linear_solve(lambda x: H @ x, columns, solve, symmetric=True)
    return solution.reshape(b.shape)


def inverse_of_definite(H: jax.Array) -> jax.Array:
    """H^-1, (n, n); NaN where H (n, n) is not positive definite."""
    return solve_definite(H, jnp.eye(len(H)))


def is_definite(H: jax.Array) -> jax.Array:
    """Whether a symmetric H (n, n) is finite and positive definite, one boolean."""
    H = jnp.asarray(H, float)
    if len(H) > LARGEST:
        return jnp.all(jnp.isfinite(jnp.linalg.cholesky(H)))
    L = _factor(H)
    return jnp.all(jnp.isfinite(jnp.stack([L[i][i] for i in range(len(L))])))


def orthonormal_basis(H: jax.Array) -> tuple[jax.Array, jax.Array]:
    """R = L^T with ||R v||^2 = v^T H v, and R^-1, whose columns are orthonormal in H; both (n, n).

    NaN where H (n, n) is not positive definite.
    """
    H, one = jnp.asarray(H, float), jnp.eye(len(H))
    if len(H) > LARGEST:
        root = jnp.linalg.cholesky(H).T
        return root, jax.scipy.linalg.solve_triangular(root, one)
    L, nothing = _factor(H), jnp.zeros(())
    columns = [jnp.stack([*row, *[nothing] * (len(L) - len(row))]) for row in L]
    return jnp.stack(columns, axis=1), jnp.stack(_upper_solved(L, list(one)))


def lower_factor(H: jax.Array) -> jax.Array:
    """L (n, n), lower triangular, with L L^T = H; NaN where H (n, n) is not positive definite."""
    if len(H) > LARGEST:
        L: jax.Array = jnp.linalg.cholesky(H)
        return L
    return _lower(_factor(jnp.asarray(H, float)))


def inverse_factor(H: jax.Array) -> jax.Array:
    """W = L^-1 (n, n), lower triangular, with W H W^T = 1; NaN where H (n, n) is not positive definite.

    H^-1 b is W^T (W b): two products, which in a loop of small systems take less time than LAPACK's solution.
    """
    n = len(H)
    if n > LARGEST:
        inverse: jax.Array = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(H), jnp.eye(n), lower=True)
        return inverse
    L = _rows_of_rows(H)
    W: list[list[jax.Array]] = []
    scales: list[jax.Array] = []
    for i in range(n):
        for j in range(i + 1):
            x = L[i][j] - sum(L[i][k] * L[j][k] for k in range(j))
            L[i][j] = x * scales[j] if j < i else x
        scales.append(lax.rsqrt(jnp.where(L[i][i] > 0.0, L[i][i], jnp.nan)))
        sums = [sum(L[i][k] * W[k][j] for k in range(j, i)) for j in range(i)]
        W.append([*(-scales[i] * total for total in sums), scales[i]])
    return _lower(W)


# --- private -----------------------------------------------------------------------------------------------

Solve = Callable[[object, jax.Array], jax.Array]  # (an unused argument of JAX, b (n, k)) -> H^-1 b


def _by_lapack(H: jax.Array) -> Solve:
    L = jnp.linalg.cholesky(lax.stop_gradient(H))
    return lambda _, b: jax.scipy.linalg.cho_solve((L, True), b)


def _written_out(H: jax.Array) -> Solve:
    L = _factor(lax.stop_gradient(H))
    return lambda _, b: jnp.stack(_upper_solved(L, _lower_solved(L, _rows_of(b))))


def _factor(H: jax.Array) -> list[list[jax.Array]]:
    """L by its rows, each up to the diagonal; NaN from the first pivot that is not positive."""
    L: list[list[jax.Array]] = []
    for i, row in enumerate(_rows_of(H)):
        L.append(_rows_of(row)[: i + 1])
        for j, x in enumerate(L[i]):
            for k in range(j):
                x = x - L[i][k] * L[j][k]
            L[i][j] = x / L[j][j] if j < i else jnp.sqrt(jnp.where(x > 0.0, x, jnp.nan))
    return L


def _lower(rows: list[list[jax.Array]]) -> jax.Array:
    """The lower triangular matrix with these rows up to the diagonal."""
    nothing = jnp.zeros(())
    return jnp.stack([jnp.stack([*row, *[nothing] * (len(rows) - len(row))]) for row in rows])


def _lower_solved(L: list[list[jax.Array]], b: list[jax.Array]) -> list[jax.Array]:
    """L^-1 b, by rows."""
    x: list[jax.Array] = []
    for i, row in enumerate(b):
        for k in range(i):
            row = row - L[i][k] * x[k]
        x.append(row / L[i][i])
    return x


def _upper_solved(L: list[list[jax.Array]], b: list[jax.Array]) -> list[jax.Array]:
    """L^-T b, by rows."""
    x = list(b)
    for i in reversed(range(len(L))):
        for k in range(i + 1, len(L)):
            x[i] = x[i] - L[k][i] * x[k]
        x[i] = x[i] / L[i][i]
    return x


def _rows_of_rows(H: jax.Array) -> list[list[jax.Array]]:
    return [_rows_of(row) for row in _rows_of(jnp.asarray(H, float))]


def _rows_of(array: jax.Array) -> list[jax.Array]:
    """The rows of a matrix or the components of a vector; traced faster than by indexing one by one."""
    return [lax.index_in_dim(array, i, keepdims=False) for i in range(len(array))]
