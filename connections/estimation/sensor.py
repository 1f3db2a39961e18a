"""Sensors: what is measured of a state, with which noise, and on which manifold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import solve
from connections.affine import AffineConnection
from connections.checks import (
    ShapeError,
    as_array,
    is_traced,
    require_bool,
    require_finite,
    require_function,
    require_shape,
    require_type,
)
from connections.estimation.displacements import Displacements, displacements_of
from connections.estimation.estimate import require_covariance
from connections.evaluation.parameters import Parametrized

_STEPS = 4  # of geodesics between measurements


class Residual(NamedTuple):
    """r, H and N with zeros for what is missing, and one for its variance; and what is there."""

    r: jax.Array
    H: jax.Array
    N: jax.Array
    present: jax.Array


@dataclass(frozen=True, eq=False)
class Sensor(Parametrized):
    """y = h(q) + noise, or y = exp_h(q)(noise) on a manifold; noise ~ N(0, N).

    Parameters
    ----------
    h : q (nq,) -> y (m,), of a mechanical system (q, v) -> y; JAX-traceable. With a connection y is a point.
    N : (m, m) covariance, or y -> N; on a manifold in components of the frame.
    connection : of the manifold of y; None for numbers. A group's frame stands for its torsion-free
        `CartanSchoutenConnection`, a `SphereFrame` for that of the round metric.
    reported : whether N is in the frame at the measured point, as of a sensor that reports its own
        covariance; if not, at h(q). The first is moved to h(q) by the inverse of D exp.

    Raises
    ------
    ValueError : N is not symmetric positive definite. TypeError, ShapeError, NonFiniteError.

    Examples
    --------
    A camera that sees the direction of a star in body axes.

    >>> import numpy as np
    >>> from connections import estimation
    >>> from connections.geometry.rigid.rotations import rotation_matrix
    >>> star = np.array([0.0, 0.0, 1.0])
    >>> camera = estimation.Sensor(lambda q: rotation_matrix(q).T @ star, 0.01**2 * np.eye(3))
    >>> camera.N.shape
    (3, 3)

    Source: docs/filters.md.
    """

    h: Any
    N: Any
    connection: Any = None
    reported: bool = False

    def __post_init__(self) -> None:
        require_function("h", self.h, "q -> y")
        require_bool("reported", self.reported)
        if self.connection is not None:
            object.__setattr__(self, "connection", as_connection("connection", self.connection))
        elif self.reported:
            raise ValueError("reported: numbers have one frame; give the connection of their manifold")
        if callable(self.N):
            require_function("N", self.N, "y -> N (m, m)")
            return
        N = as_array("N", self.N, (None, None))
        require_finite("N", N)
        if N.shape[-1] != N.shape[-2]:
            raise ShapeError("N", ("m", "m"), N.shape)
        if not is_traced(N):
            require_covariance("N", np.asarray(N))
        object.__setattr__(self, "N", N)

    def residual_at(self, predicted: jax.Array, slope: jax.Array, y: jax.Array) -> Residual:
        """What is to be explained by an error at the state with this h, and its derivative (., k).

        Numbers that are NaN are missing; a point with any NaN is missing.
        """
        missing = jnp.isnan(y)
        if self.connection is None:
            present, H = ~missing, slope
            r = jnp.where(present, jnp.where(missing, 0.0, y) - predicted, 0.0)
            N = self._noise_at(predicted, len(y))
        else:
            n, frame = self.connection.frame.dim, self.connection.frame
            there = ~jnp.any(missing)
            present = jnp.full((n,), there)
            end = frame.project_at(jnp.where(there, y, jax.lax.stop_gradient(predicted)))
            r, H = self._displacements.difference_at(predicted, end), frame.dual_at(predicted) @ slope
            r = jnp.where(there, r, 0.0)
            N = self._noise_at(end if self.reported else predicted, n)
            if self.reported:
                D = self._displacements.moved_at(predicted, r)[1]
                N = solve(D, solve(D, N).T)
        both = present[:, None] & present[None, :]
        N = jnp.where(both, N, 0.0) + jnp.diag(jnp.where(present, 0.0, 1.0))
        return Residual(r, jnp.where(present[:, None], H, 0.0), N, present)

    @property
    def has_fixed_noise(self) -> bool:
        """Whether the noise of a measurement is the same at all predictions of it."""
        return not callable(self.N) and not self.reported

    @property
    def is_fixed(self) -> bool:
        """Whether the iteration minimizes a sum of squares: of numbers, with constant noise."""
        return self.connection is None and self.has_fixed_noise

    @property
    def _displacements(self) -> Displacements:
        return displacements_of(self.connection, _STEPS)

    def _noise_at(self, y: jax.Array, m: int) -> jax.Array:
        return require_shape("N", self.N(y) if callable(self.N) else self.N, (m, m))


def as_connection(name: str, given: Any) -> AffineConnection:
    """A connection, or that without torsion of a group's frame, or that of the sphere's metric."""
    from connections.affine import CartanSchoutenConnection, LeviCivita, ProductConnection
    from connections.geometry import FrameField, ProductFrame, SphereFrame
    from connections.geometry.sphere import RoundMetric

    if isinstance(given, SphereFrame):
        return LeviCivita(RoundMetric(given))
    if isinstance(given, ProductFrame) and _has_sphere(given):
        return ProductConnection(*(as_connection(name, factor) for factor in given.frames))
    if isinstance(given, FrameField):
        return CartanSchoutenConnection(given)
    require_type(name, given, AffineConnection)
    connection: AffineConnection = given
    return connection


def _has_sphere(frame: Any) -> bool:
    from connections.geometry import ProductFrame, SphereFrame

    if isinstance(frame, ProductFrame):
        return any(_has_sphere(factor) for factor in frame.frames)
    return isinstance(frame, SphereFrame)
