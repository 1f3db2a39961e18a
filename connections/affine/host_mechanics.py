"""Mechanics in NumPy, such as a robot by its recursions: JAX compiles nothing for its motions.

The motions of a connection or a system with such an object as ``host`` are computed by it. Under tracing, JAX
uses the definition instead.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class HostMechanics(Protocol):
    """A manifold with a metric and a connection, at one point (nq,), in NumPy.

    All functions raise the errors of the public functions where they are not defined.
    """

    nq: int

    def point(self, name: str, q: Array) -> Array:
        """The points of the manifold next to q (..., nq); `name` is the caller's name of q, for errors."""

    def require(self, q: Array) -> None:
        """Raise the error of a point (nq,) where the mechanics are not defined, if `point` does not."""

    def normalized(self, q: Array) -> Array:
        """The points of the manifold nearest to q (..., nq), at any distance."""

    def frame_matrix(self, q: Array) -> Array:
        """X(q), (nq, n)."""

    def mass_matrix(self, q: Array) -> Array:
        """H(q), (n, n)."""

    def mass_matrices(self, q: Array) -> Array:
        """H at points (..., nq), (..., n, n)."""

    def projected(self, points: Array, rates: Array) -> tuple[Array, Array]:
        """The points of the manifold next to points (s, nq), and rates (s, nq) scaled with them."""

    def velocity(self, q: Array, v: Array, out: Array) -> None:
        """Write qdot = X(q) v to `out` (nq,)."""

    def free_acceleration(self, q: Array, v: Array, out: Array) -> None:
        """Write -Gamma(v, v) to `out` (n,)."""

    def free_motion(self) -> Any:
        """The geodesics."""

    def along(self, points: Array, rates: Array) -> tuple[Array, Array]:
        """The points q (s, nq) of the manifold next to a curve's points, and its velocities v (s, n)."""

    def linear_step(self, h: float, A: Array, y: Array, rate: Array) -> Array:
        """A step of Pdot = A P, as `Attempt` without units; A (s, n, n) at the stages, P (n, n) is flat."""

    def judged(
        self, found: Array, state: Array, scales: Array, points: int, lengths: Array, tolerances: Any
    ) -> Array:
        """`integration.tolerances.with_error_ratios` of steps of w motions of one group, (7, w, k).

        Parameters
        ----------
        found, state, scales, tolerances : as there.
        points : how many of the first components are those of a point.
        lengths : (w, 3) of the time since the beginning, of the step, and by how much the clock may be wrong.
        """

    def carrying(self, q: Array, v: Array) -> Array:
        """Gamma(v, .) at points (s, nq), (s, n, n)."""
