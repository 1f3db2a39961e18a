"""Parallel transport of any connection along any curve, holonomy, covariant derivatives along curves.

zdot^i = -Gamma^i_jk v^j z^k with qdot = X v: the curve's velocity stands in the middle index.
Source: [W] III-B.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.connection import AffineConnection
from connections.affine.integrate import Trajectories, as_times, integrate
from connections.checks import PointError, ShapeError, as_array, require_finite
from connections.geometry.evaluation import Argument, require_admissible

Curve = Callable[[jax.Array], jax.Array]
SPLINE_DEGREE = 5
CLOSURE_TOLERANCE = 1e-8


def parallel_transport(
    nabla: AffineConnection, curve: Curve | tuple[Any, Any], z0: Any, times: Any
) -> jax.Array:
    """The vector(s) z0 transported parallelly along a curve, at every time.

    Parameters
    ----------
    nabla : the connection.
    curve : t -> q (nq,), JAX-traceable; or samples (t, q) with t (S,) increasing and q (..., S, nq), joined
        by a spline of degree 5 (fewer for fewer samples): compiled once for all curves of one shape.
    z0 : (..., n) frame components at times[0]; the identity (n, n) gives the transport operator, whose
        column a at time T is ``result[a, T]``.
    times : (T,) strictly monotone, within the samples.

    Returns
    -------
    (..., T, n) frame components at the points of the curve, to rtol = atol = 1e-10.

    Raises
    ------
    IntegrationError : the curve leaves the chart; names the time and the point.
    PointError : samples off the manifold.

    Source: [W] III-B.
    """
    frame, owner = nabla.frame, Trajectories.of(nabla)
    vector = Argument("z0", z0, (frame.dim,))
    if callable(curve):
        function = curve

        def solve(z: jax.Array, clock: jax.Array) -> tuple[Any, Any, Any]:
            return _transport(nabla, function, z, clock)

        return _Along(owner).run(("parallel_transport", curve), solve, (vector,), times)

    knots, pieces = _spline(nabla, curve, as_times(times))

    def solve_samples(z: jax.Array, pieces: jax.Array, knots: jax.Array, clock: jax.Array) -> Any:
        def path(t: jax.Array) -> jax.Array:
            return frame.project_at(_evaluate_spline(knots, pieces, t))

        return _transport(nabla, path, z, clock)

    arguments = (
        vector,
        Argument("curve", pieces, pieces.shape[-3:]),
        Argument("t", knots, knots.shape, batched=False),
    )
    return _Along(owner).run("parallel_transport", solve_samples, arguments, times)


def holonomy(nabla: AffineConnection, curve: Curve, t0: float, t1: float) -> jax.Array:
    """The transport operator P of `nabla` once around a closed curve: z(t1) = P z(t0).

    Parameters
    ----------
    nabla : the connection.
    curve : t -> q (nq,), JAX-traceable, with curve(t0) = curve(t1).
    t0, t1 : the parameter interval.

    Returns
    -------
    (n, n), in frame components at curve(t0).

    Raises
    ------
    PointError : the curve is not closed (angles that wrap: compare in an embedding, or use transport).
    """
    frame = nabla.frame
    start, end = (np.asarray(frame.project_at(_on(curve, jnp.asarray(float(t))))) for t in (t0, t1))
    end = np.asarray(frame.align_at(jnp.asarray(end), jnp.asarray(start)))
    gap = float(np.max(np.abs(frame.matrix_at(jnp.asarray(start)) - frame.matrix_at(jnp.asarray(end)))))
    if not max(gap, float(np.max(np.abs(start - end)))) <= CLOSURE_TOLERANCE:
        raise PointError(f"holonomy: the curve is not closed: curve({t0:g}) = {start}, curve({t1:g}) = {end}")
    return parallel_transport(nabla, curve, jnp.eye(frame.dim), np.array([t0, t1], dtype=float))[:, -1, :].T


def covariant_derivative_along(
    nabla: AffineConnection, curve: Curve, field: Callable[[jax.Array], jax.Array], times: Any
) -> jax.Array:
    """nabla_{qdot} Z along a curve: zdot^i + Gamma^i_jk v^j z^k, (T, n).

    Parameters
    ----------
    nabla : the connection.
    curve : t -> q (nq,); JAX-traceable.
    field : t -> z (n,), frame components at curve(t); JAX-traceable.
    times : (T,) at which to evaluate.

    Source: [W] III-B.
    """

    def solve(clock: jax.Array) -> tuple[Any, Any, Any]:
        def at(t: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            q, v, ok = _velocity(nabla, curve, t)
            z, z_dot = jax.jvp(field, (t,), (jnp.ones_like(t),))
            return z_dot + nabla.apply_at(q, v, z), _on(curve, t), ok

        return jax.vmap(at)(clock)

    return _Along(Trajectories.of(nabla)).run(("covariant_derivative_along", curve, field), solve, (), times)


# --- private -----------------------------------------------------------------------------------------------


class _Along(Trajectories):
    """Integrations whose first argument is not a point: the curve's own points are judged instead."""

    begin_at_a_point: ClassVar[bool] = False

    def __init__(self, trajectories: Trajectories) -> None:
        super().__init__(trajectories.owner)
        self.__dict__["_compiled"] = trajectories.__dict__.setdefault("_compiled_along", {})


def _on(curve: Curve, t: jax.Array) -> jax.Array:
    """The curve's own point, (nq,)."""
    return jnp.asarray(curve(t), dtype=jnp.float64)


def _velocity(nabla: AffineConnection, curve: Curve, t: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Point of the manifold, frame components of the velocity there, and whether the velocity is tangent."""
    q, q_dot = jax.jvp(lambda s: nabla.frame.project_at(_on(curve, s)), (t,), (jnp.ones_like(t),))
    v = nabla.frame.velocity_at(q, q_dot)
    off = jnp.max(jnp.abs(nabla.frame.matrix_at(q) @ v - q_dot))
    return q, v, off <= 1e-7 * (1.0 + jnp.max(jnp.abs(q_dot)))


def _transport(
    nabla: AffineConnection, curve: Curve, z0: jax.Array, times: jax.Array
) -> tuple[Any, Any, Any]:
    def rhs(t: jax.Array, z: jax.Array, args: Any) -> jax.Array:
        q, v, _ = _velocity(nabla, curve, t)
        return -nabla.apply_at(q, v, z)

    tangent = jax.vmap(lambda t: _velocity(nabla, curve, t)[2])(times)
    return integrate(rhs, z0, times), jax.vmap(lambda t: _on(curve, t))(times), tangent


def _spline(nabla: AffineConnection, samples: tuple[Any, Any], times: Any) -> tuple[np.ndarray, np.ndarray]:
    """Breakpoints (m + 1,) and polynomial coefficients (..., k + 1, m, nq) through the samples."""
    from scipy.interpolate import make_interp_spline

    frame = nabla.frame
    t = np.asarray(as_array("curve times", samples[0], (None,)))
    q = np.array(as_array("curve points", samples[1], (None, frame.ambient_dim)))
    if t.ndim != 1 or t.shape[0] < 2 or q.shape[-2] != t.shape[0] or not np.all(np.diff(t) > 0.0):
        raise ShapeError(
            "curve samples (t, q)", "t (S,) increasing with S >= 2, q (..., S, nq)", f"{t.shape}, {q.shape}"
        )
    for name, array in (("curve times", t), ("curve points", q)):
        require_finite(name, array)
    outside = [float(s) for s in np.asarray(times) if not t[0] - 1e-12 <= s <= t[-1] + 1e-12]
    if outside:
        raise PointError(f"times: {outside[0]:g} is outside the curve's samples [{t[0]:g}, {t[-1]:g}]")
    for point in q.reshape(-1, frame.ambient_dim):
        point[:] = require_admissible(nabla, "curve points", point)
    flat = q.reshape(-1, len(t), frame.ambient_dim)
    for index in range(1, len(t)):
        here, before = jnp.asarray(flat[:, index]), jnp.asarray(flat[:, index - 1])
        flat[:, index] = jax.vmap(frame.align_at)(here, before)
    degree = min(SPLINE_DEGREE, (len(t) - 2) // 2 * 2 + 1)
    spline = make_interp_spline(t, np.moveaxis(q, -2, 0), k=degree)
    knots = np.unique(spline.t)
    pieces = [spline.derivative(m)(knots[:-1]) / math.factorial(m) for m in range(degree, 0, -1)]
    return knots, np.moveaxis(np.stack([*pieces, spline(knots[:-1])]), (0, 1), (-3, -2))


def _evaluate_spline(knots: jax.Array, pieces: jax.Array, t: jax.Array) -> jax.Array:
    index = jnp.clip(jnp.searchsorted(knots, t, side="right") - 1, 0, knots.shape[0] - 2)
    offset = t - knots[index]
    value = jnp.zeros(pieces.shape[-1])
    for power in range(pieces.shape[0]):
        value = value * offset + pieces[power, index]
    return value
