"""A frame field given by its matrix, a function of the coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from connections._jax import ArrayLike
from connections.checks import (
    FrameError,
    raise_at,
    require_function,
    require_positive_int,
    require_shape,
)
from connections.evaluation.compilation import compiled_for
from connections.evaluation.parameters import with_parameters
from connections.geometry.frames import FrameField, PointFunction
from connections.geometry.numerics.scales import full_rank, sizes_of_columns

_LEAK = 1e-8  # the largest part of a bracket outside the span, relative to the bracket's terms


@dataclass(frozen=True)
class MatrixFrame(FrameField):
    """A frame given by its matrix.

    Parameters
    ----------
    matrix : q (nq,) -> X (nq, n); JAX-traceable.
    dim, ambient_dim : n and nq; nq > n is legal where the brackets stay in the span (checked).
    project : optional, q (nq,) -> the nearest point of the manifold; without it, motions stay on an embedded
        manifold only to the integrators' tolerance.
    parameters : optional, the last argument of `matrix` (`ParametricFunction`).

    Examples
    --------
    The frame (d/dx + y d/dz, d/dy, d/dz): its first two fields do not commute.

    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> fields = lambda q: jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [q[1], 0.0, 1.0]])
    >>> frame = cn.MatrixFrame(fields, 3, 3)
    >>> frame.structure_functions([0.1, 0.2, 0.3])[2, 0, 1]
    np.float64(-1.0)
    """

    matrix_function: PointFunction
    dim: int
    ambient_dim: int
    project: PointFunction | None = None

    def __init__(
        self,
        matrix: Callable[..., Any],
        dim: int,
        ambient_dim: int,
        project: PointFunction | None = None,
        parameters: Any = None,
    ) -> None:
        require_function("matrix", matrix, "q -> X (nq, n)", "write lambda q: X", parameters)
        if project is not None:
            require_function("project", project, "q -> the nearest point (nq,)")
        for name, value in (("dim", dim), ("ambient_dim", ambient_dim)):
            require_positive_int(name, value)
        if ambient_dim < dim:
            raise ValueError(f"ambient_dim: expected at least dim = {dim}, got {ambient_dim}")
        object.__setattr__(self, "matrix_function", with_parameters(matrix, parameters))
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "ambient_dim", ambient_dim)
        object.__setattr__(self, "project", project)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """The user's matrix X(q), (nq, n)."""
        return require_shape("frame matrix", self.matrix_function(q), (self.ambient_dim, self.dim))

    def project_at(self, q: jax.Array) -> jax.Array:
        """The user's projection, or q itself."""
        return q if self.project is None else require_shape("project(q)", self.project(q), q.shape)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Full rank, q on the manifold (if there is a projection), and brackets inside the span."""
        ok = self.near_at(q) & full_rank(self.matrix_at, q)
        if self.dim < self.ambient_dim:
            ok = ok & (self._bracket_leak_at(q) <= _LEAK)
        return ok

    def explain(self, q: ArrayLike) -> None:
        """Raise the error of an invalid point, such as `FrameError` where a bracket leaves the span."""
        super().explain(q)
        p = self.require_near("q", q)
        if self.dim < self.ambient_dim and not compiled_for(self, MatrixFrame._bracket_leak_at)(p) <= _LEAK:
            raise_at(FrameError, f"the brackets of {self} leave its span (it is not integrable)", q)

    def _bracket_leak_at(self, q: jax.Array) -> jax.Array:
        """The largest component of a bracket outside the span, relative to the terms of that component."""
        X, dual, terms = self.matrix_at(q), self.dual_at(q), self._ambient_bracket_terms_at(q)
        outside = self._ambient_brackets_at(q) - jnp.einsum("ak,kij->aij", X, self.structure_functions_at(q))
        terms += jnp.einsum("ak,kb,bij->aij", jnp.abs(X), jnp.abs(dual), terms)
        sizes = sizes_of_columns(terms.reshape(self.ambient_dim, -1)).reshape(terms.shape)
        return jnp.max(jnp.where(outside == 0.0, 0.0, jnp.abs(outside) / sizes))
