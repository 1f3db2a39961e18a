"""Parallel transport of any connection along any curve, holonomy, covariant derivatives along curves.

zdot^i = -Gamma^i_jk v^j z^k with qdot = X v: the curve's velocity stands in the middle index. The equation
is linear, so what is integrated is the operator P of Pdot = -Gamma(v, .) P, P = 1 at first; z = P z0.
Source: [W] III-B.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.connection import AffineConnection
from connections.affine.flow import Flow, Trajectories, as_times, readings
from connections.affine.host_motion import HostReading, HostTransport
from connections.checks import (
    PointError,
    ShapeError,
    as_array,
    batch_axes,
    require_finite,
    require_function,
    require_type,
)
from connections.geometry.compilation import compiled, tracing
from connections.geometry.evaluation import Argument, require_admissible
from connections.geometry.parameters import Parametrized
from connections.geometry.scales import inverse_lengths_of, lengths_of, sizes_of_array, sizes_of_columns

Curve = Callable[[jax.Array], jax.Array]
CURVE = "t -> q (nq,)"  # in an error
SPLINE_DEGREE = 5
CLOSURE_TOLERANCE = 1e-8  # of a closed curve's gap, relative to how far its coordinates go
_TANGENT = 1e-7  # of a curve's velocity, relative to its terms
_CLOSURE_SAMPLES = 65
_ROUND_OFF = 1e-12  # of times, relative to the whole time, and of coordinates


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
    (..., T, n) frame components at the points of the curve: linear in z0, whatever its size. z^i is as
    accurate as the entries P^i_k of the operator, of which a step's error is at most 1e-10 of the largest
    that the entry has been (1e-15 of what the lengths of X_i and X_k make of it, where that is more).

    Raises
    ------
    IntegrationError : the curve leaves the chart; names the time and the point.
    PointError : samples off the manifold.

    Source: [W] III-B.
    """
    require_type("nabla", nabla, AffineConnection)
    if not isinstance(curve, tuple | list):
        require_function("curve", curve, CURVE, "write the samples as (t, q)")
    vector = as_array("z0", z0, (nabla.frame.dim,))
    if not isinstance(vector, jax.core.Tracer):
        require_finite("z0", vector)
    operator = _transport_operator(nabla, curve, times)
    batch_axes(("curve", "z0"), (operator[..., 0, 0, :], vector))
    by_jax = any(isinstance(array, jax.Array) for array in (operator, vector))
    carried: jax.Array = (jnp if by_jax else np).einsum("...tij,...j->...ti", operator, vector)
    return carried


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
    require_type("nabla", nabla, AffineConnection)
    require_function("curve", curve, CURVE)

    def point(t: jax.Array) -> jax.Array:
        return nabla.frame.project_at(_on(curve, t))

    with tracing():
        points = np.asarray(jax.vmap(point)(jnp.linspace(float(t0), float(t1), _CLOSURE_SAMPLES)))
    start, end = points[0], np.asarray(nabla.frame.align_at(jnp.asarray(points[-1]), jnp.asarray(points[0])))
    reach = np.asarray(sizes_of_array(jnp.max(jnp.abs(points - start), axis=0)))
    if not np.all(np.abs(start - end) <= CLOSURE_TOLERANCE * reach + _ROUND_OFF * np.abs(start)):
        raise PointError(f"holonomy: the curve is not closed: curve({t0:g}) = {start}, curve({t1:g}) = {end}")
    return _transport_operator(nabla, curve, np.array([t0, t1], dtype=float))[-1]


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
    require_type("nabla", nabla, AffineConnection)
    require_function("curve", curve, CURVE)
    require_function("field", field, "t -> components (n,) at curve(t)")
    host = nabla.host

    def record(t: jax.Array, state: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        q, v, ok = _velocity(nabla, curve, t)
        z, z_dot = jax.jvp(field, (t,), (jnp.ones_like(t),))
        return z_dot + nabla.apply_at(q, v, z), _on(curve, t), ok

    flow = readings(record)
    if host is not None:

        def moving(t: jax.Array) -> tuple[jax.Array, ...]:
            z, z_dot = jax.jvp(field, (t,), (jnp.ones_like(t),))
            return *_velocity(nabla, curve, t), _on(curve, t), z, z_dot

        flow = replace(flow, host=HostReading(host, compiled(moving)))
    return _Along.of(nabla).run(("covariant_derivative_along", curve, field), flow, (), times)


# --- private -----------------------------------------------------------------------------------------------


class _Along(Trajectories):
    """Integrations whose first argument is not a point: the curve's own points are judged instead."""

    begin_at_a_point: ClassVar[bool] = False


def _on(curve: Callable[..., jax.Array], t: jax.Array, *given: jax.Array) -> jax.Array:
    """The curve's own point, (nq,)."""
    return jnp.asarray(curve(t, *given), dtype=jnp.float64)


def _velocity(nabla: AffineConnection, curve: Curve, t: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Point of the manifold, frame components of the velocity there, and whether the velocity is tangent."""
    q, q_dot = jax.jvp(lambda s: nabla.frame.project_at(_on(curve, s)), (t,), (jnp.ones_like(t),))
    X, dual = nabla.frame.matrix_at(q), nabla.frame.dual_at(q)
    v = dual @ q_dot
    terms = jnp.abs(X) @ (jnp.abs(dual) @ jnp.abs(q_dot)) + sizes_of_array(q_dot)
    return q, v, jnp.all(jnp.abs(X @ v - q_dot) <= _TANGENT * terms)


def _transport_operator(nabla: AffineConnection, curve: Curve | tuple[Any, Any], times: Any) -> jax.Array:
    """P (..., T, n, n) with z(t) = P z0, at every time; its batch axes are those of a sampled curve."""
    owner = _Along.of(nabla)
    if callable(curve):
        return owner.run(("parallel_transport", curve), _transport_flow(nabla, curve), (), times)

    knots, pieces = _spline(nabla, curve, as_times(times))
    path = _SplinePath(nabla)
    arguments = (
        Argument("curve", pieces, pieces.shape[-3:]),
        Argument("t", knots, knots.shape, batched=False),
    )
    return owner.run("parallel_transport", _transport_flow(nabla, path), arguments, times)


class _SplinePath(Parametrized):
    """A curve that is given by samples: (t, pieces, knots) -> q."""

    def __init__(self, nabla: AffineConnection) -> None:
        self.nabla = nabla

    def __call__(self, t: jax.Array, pieces: jax.Array, knots: jax.Array) -> jax.Array:
        return self.nabla.frame.project_at(_evaluate_spline(knots, pieces, t))


def _transport_flow(nabla: AffineConnection, curve: Callable[..., jax.Array]) -> Flow:
    """Pdot = -Gamma(v, .) P, P (n, n), along curve(t, *given)."""
    n, metric = nabla.frame.dim, nabla.known_metric

    def start(*given: jax.Array) -> tuple[jax.Array]:
        return (jnp.eye(n),)

    def rate(t: jax.Array, state: tuple[jax.Array], *given: jax.Array) -> tuple[jax.Array]:
        q, v, _ = _velocity(nabla, lambda s: curve(s, *given), t)
        return (-jax.vmap(lambda z: nabla.apply_at(q, v, z), 1, 1)(state[0]),)

    def sizes(t0: jax.Array, t: jax.Array, state: tuple[jax.Array], *given: jax.Array) -> tuple[jax.Array]:
        if metric is None:
            return (sizes_of_columns(state[0]),)
        now, then = (metric.matrix_at(nabla.frame.project_at(_on(curve, s, *given))) for s in (t, t0))
        return (jnp.outer(inverse_lengths_of(now), lengths_of(then)),)

    def record(t: jax.Array, state: tuple[jax.Array], *given: jax.Array) -> tuple[jax.Array, ...]:
        return state[0], _on(curve, t, *given), _velocity(nabla, lambda s: curve(s, *given), t)[2]

    host = nabla.host
    if host is None:
        return Flow(start, rate, record, sizes, points=())

    def velocity(t: jax.Array, *given: jax.Array) -> tuple[jax.Array, ...]:
        return *_velocity(nabla, lambda s: curve(s, *given), t), _on(curve, t, *given)

    return Flow(start, rate, record, sizes, points=(), host=HostTransport(host, compiled(velocity), n))


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
    slack = _ROUND_OFF * (t[-1] - t[0])
    outside = [float(s) for s in np.asarray(times) if not t[0] - slack <= s <= t[-1] + slack]
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
