"""Geodesics and the exponential of any connection.

qdot = X(q) v, vdot^i = -Gamma^i_jk v^j v^k + F^i. Only Gamma's symmetric part enters: torsion does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.connection import AffineConnection
from connections.affine.constrained import ConstrainedConnection
from connections.affine.integrate import MAX_STEPS, Trajectories, integrate, motion_sizes
from connections.geometry.evaluation import Argument

Force = Callable[[Any, jax.Array, jax.Array], jax.Array]


def geodesic(
    nabla: AffineConnection, q0: Any, v0: Any, times: Any, force: Force | None = None
) -> tuple[jax.Array, jax.Array]:
    """Points and velocities (q, v) of the geodesic of `nabla` through (q0, v0).

    Parameters
    ----------
    nabla : the connection.
    q0 : (..., nq) initial points, at times[0].
    v0 : (..., n) initial velocities, frame components.
    times : (T,) strictly monotone.
    force : optional (t, q, v) -> (n,) acceleration components added to the right-hand side; JAX-traceable.

    Returns
    -------
    q (..., T, nq), v (..., T, n); points on the manifold. A step's error is at most 1e-10, for every
    component of v relative to the largest that it has been, of q to how far it has moved; in any units.

    Raises
    ------
    IntegrationError : the curve leaves the chart, or the integration fails; names the time and the point.
    ShapeError, NonFiniteError, PointError, FrameError, MetricError.

    Source: [W] III-B.
    """

    def solve(q: jax.Array, v: jax.Array, clock: jax.Array) -> tuple[Any, Any, Any]:
        states = geodesic_at(nabla, q, v, clock, force)
        return states, states[0], jnp.ones(clock.shape[0], dtype=bool)

    arguments = (
        Argument("q0", q0, (nabla.frame.ambient_dim,)),
        Argument("v0", v0, (nabla.frame.dim,)),
    )
    return Trajectories.of(nabla).run(("geodesic", force), solve, arguments, times)


def geodesic_at(
    nabla: AffineConnection,
    q0: jax.Array,
    v0: jax.Array,
    times: jax.Array,
    force: Force | None = None,
    max_steps: int = MAX_STEPS,
) -> tuple[jax.Array, jax.Array]:
    """One geodesic, JAX-traceable: (T, nq) and (T, n). A failed integration gives NaN."""
    if isinstance(nabla, ConstrainedConnection):
        return _feasible_geodesic_at(nabla, q0, v0, times, force, max_steps)
    frame = nabla.frame

    def rhs(t: jax.Array, state: tuple[jax.Array, jax.Array], args: Any) -> tuple[jax.Array, jax.Array]:
        q, v = state
        v_dot = -nabla.apply_at(q, v, v)
        if force is not None:
            v_dot = v_dot + force(t, q, v)
        return frame.matrix_at(q) @ v, v_dot

    def project(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return frame.project_at(state[0]), state[1]

    def sizes(elapsed: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return motion_sizes(frame, nabla.known_metric, elapsed, *state)

    origin = q0, jnp.zeros_like(v0)
    return integrate(rhs, (q0, v0), times, project, max_steps=max_steps, sizes=sizes, origin=origin)


def _feasible_geodesic_at(
    nabla: ConstrainedConnection, q0: Any, v0: Any, times: Any, force: Force | None, max_steps: int
) -> tuple[jax.Array, jax.Array]:
    """In ambient components, as the basis may be singular on the way where the constraints are not."""
    frame, ambient = nabla.frame, nabla.ambient

    def rhs(t: Any, state: tuple[jax.Array, jax.Array], args: Any) -> tuple[jax.Array, jax.Array]:
        q, V = state
        free = -ambient.apply_at(q, V, V)
        if force is not None:
            free = free + nabla.basis_at(q) @ force(t, q, frame.components_at(q) @ V)
        return ambient.frame.matrix_at(q) @ V, nabla.feasible_rate_at(q, V, free)

    def project(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        q = frame.project_at(state[0])
        return q, nabla.feasible_at(q, state[1])

    def sizes(elapsed: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return motion_sizes(ambient.frame, ambient.known_metric, elapsed, *state)

    V0 = nabla.basis_at(q0) @ v0
    origin = q0, jnp.zeros_like(V0)
    q, V = integrate(rhs, (q0, V0), times, project, max_steps=max_steps, sizes=sizes, origin=origin)
    return q, jax.vmap(lambda p, w: frame.components_at(p) @ w)(q, V)


def exponential(nabla: AffineConnection, q0: Any, v0: Any) -> jax.Array:
    """exp_q0(v0), (..., nq): the geodesic of `nabla` after unit time.

    Parameters
    ----------
    nabla : the connection.
    q0 : (..., nq) points.
    v0 : (..., n) frame components.

    Raises
    ------
    IntegrationError : the geodesic does not reach unit time.
    """
    return geodesic(nabla, q0, v0, np.array([0.0, 1.0]))[0][..., -1, :]
