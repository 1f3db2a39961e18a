"""Scales with which components are compared, so that no decision depends on their units.

Components in a frame are compared through the lengths |X_i| = H_ii^(1/2): v^i |X_i| and w_i / |X_i| have the
same unit for every i. Without a metric, the rows and columns of a matrix are balanced. In a balanced matrix
round-off cannot be recognized by its size; it is recognized because it changes if q changes by round-off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import SameArray
from connections.checks import Check, ShapeError, require_untraced

#: The scale of an entry whose own terms vanish, relative to the bound that follows from lengths.
FLOOR = 1e-4

# The largest distance of a point from its manifold at which it is replaced by the nearest point there,
# relative to its largest coordinate; for a quaternion, | |q| - 1 |. This is eight units in the last place of
# float32, so that quaternions pass that were normalized and multiplied in float32, or printed with six
# decimals.
POINT_TOLERANCE = 1e-6

_NOTHING = 1e-12  # an entry this small beside the largest of its unit has no size of its own
_DEPENDENT = 1e-7  # normalized columns are dependent if a pivot is below it
_NEARBY = 1e-9  # of q: an entry that changes by half of itself over this distance has no correct digits
_ROUNDS = 8  # of balancing


def sizes_of_array(x: jax.Array) -> jax.Array:
    """|x|; for entries that are round-off of the largest one, max |x|. All entries have one unit.

    Parameters
    ----------
    x : array of any shape.
    """
    size = jnp.abs(x)
    largest = jnp.max(size, initial=0.0)
    return jnp.where(size <= _NOTHING * largest, largest, size)


def is_near(p: jax.Array, q: jax.Array) -> jax.Array:
    """Whether q (nq,) is within `POINT_TOLERANCE` of p (nq,), the point of the manifold nearest to it."""
    return jnp.max(jnp.abs(p - q)) <= POINT_TOLERANCE * jnp.max(jnp.abs(p))


def sizes_of_columns(matrix: jax.Array) -> jax.Array:
    """`sizes_of_array` of every column: the entries of one column have one unit."""
    return jax.vmap(sizes_of_array, in_axes=1, out_axes=1)(matrix)


def lengths_of(H: SameArray) -> SameArray:
    """|X_i| = H_ii^(1/2), (n,); zero where H_ii is not positive. Computed by NumPy if H is a NumPy array."""
    by: Any = np if isinstance(H, np.ndarray) else jnp
    square = by.diagonal(H)
    positive = square > 0.0
    lengths: SameArray = by.where(positive, by.sqrt(by.where(positive, square, 1.0)), 0.0)
    return lengths


def inverse_lengths_of(H: jax.Array) -> jax.Array:
    """1 / |X_i|, (n,); zero where H_ii is not positive."""
    length = lengths_of(H)
    return jnp.where(length > 0.0, 1.0 / jnp.where(length > 0.0, length, 1.0), 0.0)


def velocity_sizes(H: jax.Array, v: jax.Array) -> jax.Array:
    """Expected sizes of the components of a velocity, its speed over |X_i|, (n,).

    Parameters
    ----------
    H : (n, n) the metric in the frame of v.
    v : (n,) velocity.
    """
    return inverse_lengths_of(H) * jnp.sum(lengths_of(H) * jnp.abs(v))


@jax.jit  # for `explain`, which calls it outside of `jit`: there the loop would be compiled at every call
def balance(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """r (m,) and c (n,) such that all rows of |matrix_ij| / (r_i c_j) have one norm, and all columns too.

    Source: Sinkhorn (1967), in the 2-norm; a row or column of zeros gets 1.
    """
    size = jnp.abs(matrix)

    def one_round(_: Any, units: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        r = _norms(size / units[1][None], 1)
        return r, _norms(size / r[:, None], 0)

    start = jnp.ones(matrix.shape[0]), jnp.ones(matrix.shape[1])
    units: tuple[jax.Array, jax.Array] = jax.lax.fori_loop(0, _ROUNDS, one_round, start)
    return units


def row_units(matrix: jax.Array) -> jax.Array:
    """Powers of 1e6 (m,) by which the units of rows differ; rows of about one unit have the same power."""
    r, _ = balance(matrix)
    return 10.0 ** (6.0 * jnp.round(jnp.log10(r / jnp.max(r)) / 6.0))


def independent(function: Callable[[jax.Array], jax.Array], q: jax.Array) -> jax.Array:
    """Whether the columns of function(q) (m, n) are independent and finite; the rows have one unit.

    They are dependent if a pivot of the normalized columns is below 1e-7. They are not finite if a column
    changes by half of its length when the coordinates change by 1e-9 of themselves: a pole is there.

    Parameters
    ----------
    function : q (nq,) -> (m, n); JAX-traceable.
    q : (nq,) point.
    """
    here = function(q)
    lengths = jnp.linalg.norm(here, axis=0)
    change = jnp.max(jnp.linalg.norm(_near(function, q) - here[None], axis=1), axis=0)
    return jnp.all((_pivots(here / lengths[None]) > _DEPENDENT) & (change <= 0.5 * lengths))


def full_rank(function: Callable[[jax.Array], jax.Array], q: jax.Array) -> jax.Array:
    """Whether the columns of function(q) (m, n) are independent, for any units of rows and columns.

    Entries that change by half of themselves when the coordinates change by 1e-9 of themselves are round-off
    and count as zero. Pivots of the balanced matrix below 1e-7 count as zero too.

    Parameters
    ----------
    function : q (nq,) -> (m, n); JAX-traceable.
    q : (nq,) point.
    """
    here = function(q)
    change = jnp.max(jnp.abs(_near(function, q) - here[None]), axis=0)
    known = jnp.where(change <= 0.5 * jnp.abs(here), here, 0.0)
    r, c = balance(known)
    return jnp.all(_pivots(known / (r[:, None] * c[None])) > _DEPENDENT)


def worst(residual: SameArray, terms: SameArray) -> tuple[SameArray, SameArray]:
    """|residual| and terms at the entry where their ratio is largest; a NaN counts as the largest.

    Computed by NumPy if the residual is a NumPy array.
    """
    by: Any = np if isinstance(residual, np.ndarray) else jnp
    size = by.abs(residual).reshape(-1)
    terms = by.broadcast_to(terms, by.shape(residual)).reshape(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = by.where(size == 0.0, 0.0, size / terms)
    place = by.where(by.max(ratio) == 0.0, by.argmax(terms), by.argmax(ratio))
    return size[place], terms[place]


def worst_check(name: str, measured: tuple[Any, Any], tol: float) -> Check:
    """The check of the point with the largest residual over scale; both are arrays (...,) over points.

    Raises
    ------
    ShapeError : there is no point. TypeError : the residuals are tracers.
    """
    require_untraced(**{f"what '{name}' measures": measured[0]})
    if np.size(measured[0]) == 0:
        raise ShapeError("q", "at least one point", np.shape(measured[0]))
    residual, scale = worst(*map(np.asarray, measured))
    return Check(name, float(residual), float(scale), tol)


def rank_of(matrix: np.ndarray) -> int:
    """The rank of the normalized columns, for errors."""
    return int(
        np.linalg.matrix_rank(matrix / np.maximum(np.linalg.norm(matrix, axis=0), 1e-300), tol=_DEPENDENT)
    )


def _near(function: Callable[[jax.Array], jax.Array], q: jax.Array) -> jax.Array:
    """Values at points whose coordinates differ from q by a billionth of themselves, (3, m, n)."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (3, q.shape[0]))
    return jax.vmap(lambda s: function(q * (1.0 + _NEARBY * s)))(jnp.asarray(signs))


def _pivots(unit: jax.Array) -> jax.Array:
    pivots: jax.Array = jnp.diagonal(jnp.linalg.cholesky(unit.T @ unit))
    return pivots


def _norms(matrix: jax.Array, axis: int) -> jax.Array:
    norm = jnp.linalg.norm(matrix, axis=axis)
    return jnp.where(norm > 0.0, norm, 1.0)
