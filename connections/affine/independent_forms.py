"""Linearly independent one-forms among several, for example among those of redundant contacts."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from connections._jax import ArrayLike
from connections.checks import (
    ConstraintError,
    ShapeError,
    as_array,
    as_result,
    raise_at,
    require_finite,
    require_function,
    require_items,
    require_whole,
)
from connections.evaluation.compilation import compiled
from connections.geometry.frames import PointFunction

_FORM = "q -> W (p, n)"
_RANK = 1e-7  # equilibrated rows are independent if their smallest singular value is above this


@dataclass(frozen=True, eq=False)
class SelectedForms:
    """Some rows of a function that returns one-forms; an instance is itself such a function.

    Parameters
    ----------
    forms : q (nq,) -> (p, n); JAX-traceable.
    rows : indices of the selected rows.

    Raises
    ------
    TypeError, ValueError : an argument of another kind. ShapeError : at the first use, there is no such row.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from connections import multibody as mb
    >>> forms = mb.SelectedForms(lambda q: jnp.eye(3), rows=(0, 2))
    >>> forms(jnp.zeros(3))
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float64)
    """

    forms: PointFunction
    rows: tuple[int, ...]

    def __post_init__(self) -> None:
        require_function("forms", self.forms, _FORM)
        given = require_items("rows", self.rows, int | np.integer, "indices of rows")
        rows = tuple(require_whole(f"rows[{number}]", row) for number, row in enumerate(given))
        object.__setattr__(self, "rows", rows)

    def __call__(self, q: jax.Array) -> jax.Array:
        """The selected rows, (len(rows), n)."""
        W = as_result("forms(q)", self.forms(q))
        if W.ndim != 2 or len(W) <= max(self.rows, default=-1):  # JAX would take the last row instead
            raise ShapeError("forms(q)", f"(p, n), with the rows {self.rows}", W.shape)
        return W[np.array(self.rows, dtype=int)]


def independent_forms(forms: PointFunction, q: ArrayLike) -> SelectedForms:
    """The first linearly independent rows of the forms, the same rows at all given points.

    Parameters
    ----------
    forms : q (nq,) -> W (p, n); JAX-traceable.
    q : (..., nq) typical points of the region where the forms will be used.

    Raises
    ------
    ShapeError, NonFiniteError : of q. TypeError : an argument of another kind.
    ConstraintError : a row depends on others at one point but not at another; or the forms are not finite at
        a point, because a wheel lies flat or a loop does not close. The message names the point.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from connections import multibody as mb
    >>> def forms(q):
    ...     return jnp.array([[1.0, q[0]], [2.0, 2.0 * q[0]]])  # the second is twice the first
    ...
    >>> mb.independent_forms(forms, [[0.5, 0.1], [0.2, 0.3]]).rows
    (0,)
    """
    require_function("forms", forms, _FORM)
    given = np.asarray(as_array("q", q, (None,)))
    if not given.size:
        raise ShapeError("q", "at least one point", given.shape)
    require_finite("q", given)
    points = given.reshape(-1, given.shape[-1])

    def rows_at(point: jax.Array) -> jax.Array:
        W = as_result("forms(q)", forms(point))
        if W.ndim != 2:
            raise ShapeError("forms(q)", ("p", "n"), W.shape)
        return W

    W = np.asarray(compiled(jax.vmap(rows_at))(points))
    finite = np.isfinite(W).all(axis=(1, 2))
    if not finite.all():
        raise_at(ConstraintError, "the forms are not finite", points[int(np.argmin(finite))])
    W = _equilibrated(W)
    kept: list[int] = []
    for row in range(W.shape[1]):
        smallest = np.linalg.svd(W[:, [*kept, row]], compute_uv=False)[:, -1]
        independent = (smallest > _RANK) & (len(kept) < W.shape[2])
        if independent.all():
            kept.append(row)
        elif independent.any():
            where = points[int(np.argmin(independent))]
            raise_at(ConstraintError, f"row {row} of the forms depends on others, but not everywhere:", where)
    return SelectedForms(forms, tuple(kept))


def _equilibrated(W: np.ndarray) -> np.ndarray:
    """W (m, p, n), with rows at every point and columns scaled so that their largest entries are about one.

    This does not change which rows depend on others, and removes the units of lengths, velocities and forms.
    Source: Ruiz 2001, A scaling algorithm to equilibrate both rows and columns norms in matrices.
    """
    for _ in range(20):
        rows, columns = np.abs(W).max(axis=2, keepdims=True), np.abs(W).max(axis=(0, 1), keepdims=True)
        W = W / np.sqrt(np.where(rows > 0.0, rows, 1.0) * np.where(columns > 0.0, columns, 1.0))
    W = W / np.where(rows > 0.0, np.linalg.norm(W, axis=2, keepdims=True), 1.0)
    return W
