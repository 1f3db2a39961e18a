"""Solutions of loops by their definition, in JAX: for users' functions as closures, and for traced code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import ClosureError
from connections.evaluation.compilation import compiled
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.loops.lost_digits import least_pivot
from connections.multibody.program.solution_layout import SolutionLayout

# Pivots of K_d below which float64 has lost the digits of solutions, and of their second derivatives.
_OF_SOLUTIONS, _OF_RATES = least_pivot("coriolis_matrix"), least_pivot("inverse_dynamics_derivatives")


class ClosedInputRefused(Exception):
    """The input was refused. The caller that catches this finds out why."""


class Definition:
    """The results of `loop_continuation` and `loop_bias_rates`, computed by JAX.

    Parameters
    ----------
    closed : the kinematics of the mechanism.
    layout : of its solutions.
    """

    def __init__(self, closed: ClosedKinematics, layout: SolutionLayout) -> None:
        self._closed, self._layout = closed, layout

    def packed_solution_at(self, q: jax.Array, start: jax.Array) -> jax.Array:
        """The solution (size,) at q (nq,) from `start` (nq_s,), NaN off the manifold; JAX-traceable."""
        frame, near = self._closed.joint_frame, self._closed.near(self._projected(start))
        closure = near.closure_at(frame.project_at(q))
        pivot = near.loops.pivot_at(closure[0])
        solution = jnp.concatenate(self._layout.pack(*closure, pivot))
        good = frame.near_at(q) & self._is_near(start) & (pivot >= _OF_SOLUTIONS)
        return jnp.where(good, solution, jnp.nan)

    def solve(self, q: np.ndarray, start: np.ndarray) -> np.ndarray:
        """The solutions (size,) or (m, size) at q (nq,) or (m, nq), followed from `start`.

        Raises
        ------
        InputRefused : q or `start` is not finite, or off the manifold.
        ClosureError : loops do not close, or are singular.
        """
        if q.ndim == 1:
            solution = _computed(self._one, q, start)
        elif not len(q):
            return np.zeros((0, self._layout.size))
        else:  # JAX compiles for each number of rows; with only powers of two, that is seldom
            count = len(q)
            rows = np.minimum(np.arange(1 << (count - 1).bit_length()), count - 1)
            starts = np.broadcast_to(start, (count, start.shape[-1]))
            solution = _computed(self._many, q[rows], starts[rows])[:count]
        self._require(q, solution, start)
        return solution

    def bias_rates(self, solution: np.ndarray, v: np.ndarray) -> np.ndarray:
        """L_j (L_v G) v for every j, laid out as G in a solution, (k,) or rows (m, k)."""
        rows = zip(np.atleast_2d(solution), np.atleast_2d(v), strict=True)
        if np.min(solution[..., -1], initial=1.0) < _OF_RATES:
            raise ClosureError(
                "the loops are so nearly singular that less than 6 digits are left of derivatives of the "
                "dynamics, because a closure that is a function is solved in float64"
            )
        found = [_computed(self._bias_rates, *row) for row in rows]
        return np.array(found).reshape(*v.shape[:-1], self._layout.G_size)

    def _require(self, q: np.ndarray, solution: np.ndarray, start: np.ndarray) -> None:
        """Raise the error of the first of the solutions that is not finite."""
        bad = ~np.isfinite(solution).reshape(-1, solution.shape[-1]).all(axis=1)
        if bad.any():
            origin = "the reference configuration" if start is self._closed.reference else "the guess"
            at = jnp.asarray(q.reshape(-1, q.shape[-1])[np.argmax(bad)])
            start = np.broadcast_to(start, (len(bad), start.shape[-1]))[np.argmax(bad)]
            frame = self._closed.joint_frame
            if not (frame.near_at(at) and np.isfinite(start).all() and self._is_near(start)):
                raise ClosedInputRefused
            point = np.asarray(frame.project_at(at))
            failure = self._closed.failure_from(point, np.asarray(self._projected(start)), _OF_SOLUTIONS)
            if failure is None:
                raise ClosedInputRefused
            self._closed.refuse(point, failure, origin)

    def _is_near(self, start: jax.Array | np.ndarray) -> jax.Array:
        return self._closed.spanning.frame.near_at(jnp.asarray(start))

    def _projected(self, start: jax.Array | np.ndarray) -> jax.Array:
        return self._closed.spanning.frame.project_at(jnp.asarray(start))

    @cached_property
    def _one(self) -> Callable[[np.ndarray, np.ndarray], jax.Array]:
        return compiled(self.packed_solution_at)

    @cached_property
    def _many(self) -> Callable[[np.ndarray, np.ndarray], jax.Array]:
        return compiled(jax.vmap(self.packed_solution_at))

    def bias_rates_at(self, solution: jax.Array, v: jax.Array) -> jax.Array:
        """`bias_rates` of one solution (size,), (G_size,), NaN where it has no digits; JAX-traceable."""
        q_s = solution[: self._layout.nq]
        closed = self._closed.near(q_s)
        rate = closed.joint_frame.lie_derivative_at(
            lambda q: closed.closure_at(q)[2] @ v @ v, q_s[closed.q_columns]
        )
        return jnp.where(solution[-1] >= _OF_RATES, rate.T.ravel()[self._layout.in_G], jnp.nan)

    @cached_property
    def _bias_rates(self) -> Callable[[np.ndarray, np.ndarray], jax.Array]:
        return compiled(self.bias_rates_at)


def _computed(function: Callable[..., jax.Array], *arrays: np.ndarray) -> np.ndarray:
    """A compiled function's result, computed now, also where JAX traces something else."""
    with jax.ensure_compile_time_eval():
        return np.array(function(*arrays))
