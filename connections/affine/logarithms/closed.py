"""Logarithms and distances of metrics that have them in closed form, for NumPy and for JAX.

A velocity has components in the frame at q0 only, so that the frame may be singular at q1, and a distance
needs no frame at all if its formula has none (`ClosedFormMetric.reached_at`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike
from connections.affine.connection import AffineConnection
from connections.affine.logarithms.search import logarithms
from connections.checks import ConvergenceError, as_array, is_traced
from connections.engines.internals.jax_names import trace_state_clean
from connections.evaluation.boundary import (
    Argument,
    admit_at,
    as_given,
    batch_of,
    evaluate,
    projected_point,
    require_admissible,
)
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import Parametrized, kept
from connections.geometry.closed_forms import ClosedFormMetric


def velocities_in_closed_form(
    nabla: AffineConnection, closed: ClosedFormMetric, q0: Any, q1: Any, name: str | None = None
) -> Array:
    """The velocities (..., n) at q0 (..., nq) of the shortest geodesics to q1 (..., nq).

    Parameters
    ----------
    nabla, closed : the metric's connection, and the metric.
    name : the function, in errors, for which one of several velocities is good, also at a cut point; None
        for `logarithm`.
    """

    def searched(start: np.ndarray, end: np.ndarray) -> np.ndarray:
        if name is None:
            raise ConvergenceError(f"logarithm: {_pair(start, end)} a cut point")
        for q in end:
            require_admissible(nabla, "q1", q)  # a search needs the frame there
        v: np.ndarray = logarithms(nabla, start, end, name)
        return v

    return _of_pairs(closed, nabla, _velocities_of, name or "logarithm", q0, q1, searched)


def distances_in_closed_form(nabla: AffineConnection, closed: ClosedFormMetric, q0: Any, q1: Any) -> Array:
    """The lengths (...,) of the shortest geodesics between points (..., nq)."""

    def searched(start: np.ndarray, end: np.ndarray) -> np.ndarray:
        v = logarithms(nabla, start, end, "distance")
        lengths: np.ndarray = np.sqrt(np.asarray(closed.inner(start, v, v)))
        return lengths

    return _of_pairs(closed, _Ends.of(closed), _lengths_of, "distance", q0, q1, searched)


def _of_pairs(
    closed: ClosedFormMetric,
    starts: Any,
    rows_of: Callable[..., jax.Array],
    name: str,
    q0: Any,
    q1: Any,
    searched: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Array:
    """`rows_of` all pairs, those that are NaN by `searched` if cut points exist; NaN where JAX traces.

    Parameters
    ----------
    starts : what has to be valid at q0, as for `evaluate`.
    """
    size = (closed.frame.ambient_dim,)
    arguments = tuple(Argument(each, as_array(each, q, size), size) for each, q in (("q0", q0), ("q1", q1)))
    batch = batch_of(arguments, [argument.value for argument in arguments])
    owners = starts, _Ends.of(closed)
    if not trace_state_clean() or is_traced(q0, q1, closed):
        flat = [jnp.broadcast_to(q, batch + size).reshape(-1, *size) for _, q, *_ in arguments]
        start, end = (compiled(_admitted_at, owner)(q) for owner, q in zip(owners, flat, strict=True))
        # One point is one point, however JAX compiles the projection of either.
        same = jnp.all(flat[0] == flat[1], axis=1, keepdims=True)
        end = end + jax.lax.stop_gradient(jnp.where(same, start - end, 0.0))
        traced = rows_of(closed, start, end)
        return traced.reshape(batch + traced.shape[1:])
    points = [evaluate(*pair) for pair in zip(owners, [projected_point] * 2, arguments, strict=True)]
    start, end = (np.broadcast_to(np.asarray(q), batch + size).reshape(-1, *size) for q in points)
    rows = np.array(compiled(rows_of, closed)(start, end))
    missing = np.flatnonzero(~np.isfinite(rows).all(axis=tuple(range(1, rows.ndim))))
    if missing.size:
        _require_floats(closed, name, start[missing], end[missing])
        rows[missing] = searched(start[missing], end[missing])
    found: np.ndarray = rows.reshape(batch + rows.shape[1:])
    return as_given(found, q0, q1)


def _require_floats(closed: ClosedFormMetric, name: str, start: np.ndarray, end: np.ndarray) -> None:
    """Raise `ConvergenceError` where no search would help: without cut points, or without an H in floats."""
    H = np.asarray(compiled(_matrices_of, closed)(np.stack([start, end])))
    tiny = np.finfo(float).tiny
    bad = ~(np.isfinite(H).all(axis=(-1, -2)) & (np.diagonal(H, axis1=-2, axis2=-1) >= tiny).all(axis=-1))
    bad = bad.any(axis=0) | ~np.isfinite(closed.injectivity_radius)
    if bad.any():
        row = [int(np.argmax(bad))]
        sizes = np.abs(np.stack([start[row], end[row]]))
        sizes = sizes[sizes > 0.0] if sizes.any() else sizes
        raise ConvergenceError(
            f"{name}: {_pair(start[row], end[row])} numbers on the way are beyond the range of floats "
            f"(coordinates of {sizes.min():.3g} to {sizes.max():.3g}): take points that differ less in size, "
            "or other units"
        )


def _pair(start: np.ndarray, end: np.ndarray) -> str:
    first, last = (np.array2string(q[0], precision=4, threshold=8) for q in (start, end))
    return f"no shortest geodesic was found from {first} to {last}:"


class _Ends(Parametrized):
    """The points to which closed forms lead, as an owner for `evaluate`."""

    def __init__(self, closed: ClosedFormMetric) -> None:
        self.closed = closed

    @classmethod
    def of(cls, closed: ClosedFormMetric) -> _Ends:
        """The owner for a metric, cached with it, so that its compiled functions are found again."""
        return kept(closed, cls, (), lambda: cls(closed))

    @property
    def frame(self) -> Any:
        """The metric's."""
        return self.closed.frame

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether q is reached."""
        return self.closed.reached_at(q)

    def explain(self, q: ArrayLike) -> None:
        """The metric's error."""
        self.closed.explain_end(q)


def _velocities_of(closed: ClosedFormMetric, q0: jax.Array, q1: jax.Array) -> jax.Array:
    return jax.vmap(closed.logarithm_at)(q0, q1)


def _lengths_of(closed: ClosedFormMetric, q0: jax.Array, q1: jax.Array) -> jax.Array:
    return jax.vmap(closed.distance_at)(q0, q1)


def _matrices_of(closed: ClosedFormMetric, q: jax.Array) -> jax.Array:
    return jax.vmap(jax.vmap(closed.matrix_at))(q)


def _admitted_at(owner: Any, q: jax.Array) -> jax.Array:
    """Rows (m, nq) on the manifold; NaN where the owner is not valid."""

    def admitted(q: jax.Array) -> jax.Array:
        p, ok = admit_at(owner, q)
        return jnp.where(ok, p, jnp.nan)

    return jax.vmap(admitted)(q)
