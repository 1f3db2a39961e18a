"""Parallel transport of any connection along any curve, holonomy, covariant derivatives along curves.

zdot^i = -Gamma^i_jk v^j z^k with qdot = X v: the curve's velocity contracts the middle index. The equation is
linear, so the operator P is integrated: Pdot = -Gamma(v, .) P with P = 1 at the beginning, and z = P z0.
Source: [W] III-B.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike
from connections.affine.connection import AffineConnection
from connections.affine.host_mechanics import HostMechanics
from connections.affine.motions.flow import Flow, Record, Trajectories, as_times, readings
from connections.affine.motions.host_motions import HostReading, HostTransport
from connections.affine.periods import require_periodic
from connections.checks import (
    IntegrationError,
    NonFiniteError,
    PointError,
    ShapeError,
    as_array,
    as_number,
    as_result,
    batch_axes,
    finite_result,
    is_traced,
    require_finite,
    require_function,
    require_type,
)
from connections.evaluation.boundary import Argument, as_given
from connections.evaluation.compilation import compiled, shape_of
from connections.evaluation.content import by_identity
from connections.evaluation.parameters import PytreePartial
from connections.geometry.curves import Curve, PiecePath, SampledCurve, SplinePath, coarser_curves, kinks
from connections.geometry.frames import FrameField
from connections.geometry.numerics.scales import (
    inverse_lengths_of,
    lengths_of,
    sizes_of_array,
)
from connections.integration.pulses import LOOKS, pulse_breakpoints
from connections.integration.solver import Options, Solver
from connections.integration.tolerances import LONGEST

NOT_OF_CURVES = "events", "allow_partial"  # options
CURVE, FIELD = "t -> q (nq,)", "t -> components (n,) at curve(t)"  # in errors
CLOSURE_TOLERANCE = 1e-8  # the largest gap of a closed curve, relative to the range of its coordinates
_TANGENT = 1e-7  # the largest normal part of a curve's velocity, relative to its terms
_CLOSURE_SAMPLES, _MOST_CLOSURE_SAMPLES = 1025, 20_001
_ROUND_OFF = 1e-12  # of coordinates
_LOOKED_AT = 1001  # times at which a curve that could not be followed is looked at


@by_identity
class Estimated(NamedTuple):
    """A result of parallel transport, and an estimate of its error.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> line = lambda t: jnp.array([t, 1.0])
    >>> found = cn.parallel_transport(nabla, line, [1.0, 0.0], [0.0, 1.0], estimate=True)
    >>> found.value[-1].round(4), bool((found.error < 1e-8).all())
    (array([ 0.5403, -0.8415]), True)
    """

    value: Array
    """The result that is returned without an estimate."""
    error: Array
    """An array of the same shape: |value - value'|, where value' has a hundredth of the tolerances. For
    samples, its differences to four splines are added, each without a quarter of the samples."""


def parallel_transport(
    nabla: AffineConnection,
    curve: Curve | tuple[Any, Any],
    z0: ArrayLike,
    times: ArrayLike,
    **options: Unpack[Options],
) -> Any:
    """The vector(s) z0 transported parallelly along a curve, at every time.

    Parameters
    ----------
    nabla : the connection.
    curve : t -> q (nq,), JAX-traceable; or samples (t, q), t (S,) increasing and q (..., S, nq); or a
        `SampledCurve`, which says how they are joined. With samples h apart, of a curve that is smooth
        between breakpoints, the error is O(h^6). Inside `jit`, give breakpoints where samples have corners.
    z0 : (..., n) frame components at times[0]; the identity (n, n) gives the transport operator, whose
        column a at time T is ``result[a, T]``.
    times : (T,) strictly monotone, within the samples.
    options : ``rtol``, ``max_step``, ``breakpoints`` and others (`Options`, docs/motions.md). Breakpoints of
        samples are some of their times: corners, and the ends of rests, at which the spline is cut.

    Returns
    -------
    (..., T, n) frame components at the points of the curve, linear in z0 for every size of z0. With
    ``estimate=True`` an `Estimated`: its ``value`` are these components, and its ``error`` has their shape.
    The components z^i are as accurate as the operator's entries P^i_k. The error of one step in an entry is
    at most 1e-10 of the largest value that the entry has had, or 1e-15 of |X_k| / |X_i| if that is more.

    Raises
    ------
    IntegrationError : the curve leaves the chart; names the time and the point.
    NonFiniteError : a function is NaN or infinite, or its derivative is; names the time.
    PointError : samples off the manifold, a time outside of them, or a corner at none of them.
    ValueError : a breakpoint is no time of a sample; no estimate is possible from so few samples.

    Examples
    --------
    A vector on a sphere, carried along a circle of latitude at 60 degrees from the pole.

    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> def H(q):  # colatitude and longitude
    ...     return jnp.diag(jnp.array([1.0, jnp.sin(q[0]) ** 2]))
    >>> sphere = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), H))
    >>> circle = lambda t: jnp.array([jnp.pi / 3, t])
    >>> z = cn.parallel_transport(sphere, circle, [1.0, 0.0], [0.0, 2 * jnp.pi])
    >>> z[:, 0].round(6)  # after a turn, it points the other way
    array([ 1., -1.])

    Source: [W] III-B.
    """
    require_type("nabla", nabla, AffineConnection)
    path = _as_curve(nabla, curve, breakpoints=options.get("breakpoints"))
    vector = as_array("z0", z0, (nabla.frame.dim,))
    require_finite("z0", vector)
    solver = _solver_of("parallel_transport", options, path)

    def carried(path: Any, solver: Solver) -> Array:
        operator = _transport_operator(nabla, path, times, solver)
        batch_axes(("curve", "z0"), (operator[..., 0, 0, :], vector))
        by_jax = any(isinstance(array, jax.Array) for array in (operator, vector))
        vectors: jax.Array = (jnp if by_jax else np).einsum("...tij,...j->...ti", operator, vector)
        return vectors

    return _with_estimate(carried, path, solver)


def holonomy(
    nabla: AffineConnection,
    curve: Curve | tuple[Any, Any],
    t0: float | None = None,
    t1: float | None = None,
    **options: Unpack[Options],
) -> Any:
    """The transport operator P of `nabla` once around a closed curve: z(t1) = P z(t0).

    Parameters
    ----------
    nabla : the connection.
    curve : t -> q (nq,), JAX-traceable, with curve(t0) = curve(t1), or whole periods of the frame apart; or
        samples (t, q) as for `parallel_transport`, whose last point is the first, so understood. A corner
        where it closes does no harm.
    t0, t1 : the parameter interval; for samples, None is the first and the last time.
    options : as for `parallel_transport`.

    Returns
    -------
    (..., n, n), in frame components at curve(t0); with ``estimate=True``, ``value`` of an `Estimated`.

    Raises
    ------
    PointError : the curve is not closed (of angles that wrap the frame has to know the `periods`); a sample
        is off the manifold, or t0 or t1 outside of the samples. Where JAX traces, P is NaN instead.
    FrameError, MetricError : frame or metric have not the frame's periods.
    NonFiniteError : the function is NaN or infinite, or its derivative is; names the time.
    TypeError : the interval of a function is not given.

    Examples
    --------
    Around a small circle, a vector turns by about the area, because the curvature is 1.

    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> def H(q):  # colatitude and longitude
    ...     return jnp.diag(jnp.array([1.0, jnp.sin(q[0]) ** 2]))
    >>> sphere = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), H))
    >>> circle = lambda t: jnp.pi / 2 + 0.1 * jnp.array([jnp.cos(t), jnp.sin(t)])
    >>> P = cn.holonomy(sphere, circle, 0.0, 2 * jnp.pi)
    >>> P[1, 0].round(4), round(0.01 * jnp.pi, 4)
    (np.float64(0.0315), 0.0314)
    """
    require_type("nabla", nabla, AffineConnection)
    path = _as_curve(nabla, curve, breakpoints=options.get("breakpoints"))
    if isinstance(path, SampledCurve):
        t0, t1 = (end if t is None else t for t, end in zip((t0, t1), path.span, strict=True))
    if t0 is None or t1 is None:
        raise TypeError("holonomy: t0 and t1 are needed where the curve is a function")
    if is_traced(t0, t1):
        ends: Any = jnp.stack([as_array("t0", t0, ()), as_array("t1", t1, ())])
    else:
        ends = np.array([as_number("t0", t0), as_number("t1", t1)])
        finite_result("t1 - t0", ends[1] - ends[0])
    if isinstance(path, SampledCurve):
        path.require_times("holonomy", ends)
    solver = _solver_of("holonomy", options, path)
    closed = _require_closed(nabla, path, ends, solver)

    def around(path: Any, solver: Solver) -> Array:
        P: jax.Array = _transport_operator(nabla, path, ends, solver)[..., -1, :, :]
        return (
            P if closed is None else P * jnp.where(closed, 1.0, jnp.nan)
        )  # a factor: derivatives are NaN too

    return _with_estimate(around, path, solver)


def covariant_derivative_along(
    nabla: AffineConnection,
    curve: Curve | tuple[Any, Any],
    field: Curve | tuple[Any, Any],
    times: ArrayLike,
) -> Array:
    """nabla_{qdot} Z along a curve: zdot^i + Gamma^i_jk v^j z^k, (..., T, n).

    Parameters
    ----------
    nabla : the connection.
    curve : t -> q (nq,), JAX-traceable; or samples (t, q) with q (..., S, nq), as for `parallel_transport`.
    field : t -> z (n,), frame components at curve(t), JAX-traceable; or samples (t, z) with z (..., S, n),
        whose times need not be the curve's.
    times : (T,) at which to evaluate, within the samples.

    Returns
    -------
    (..., T, n) frame components. With samples h apart, velocities, zdot and the result have errors of O(h^5).
    At a breakpoint of samples, they are those of the piece that begins there.

    Raises
    ------
    IntegrationError : the curve leaves the chart; names the time and the point.
    NonFiniteError : a function is NaN or infinite, or its derivative is; names the time.
    PointError : samples off the manifold, or a time outside of them.

    Examples
    --------
    Along a circle of latitude, the field d/dlongitude is not parallel.

    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> def H(q):  # colatitude and longitude
    ...     return jnp.diag(jnp.array([1.0, jnp.sin(q[0]) ** 2]))
    >>> sphere = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), H))
    >>> circle = lambda t: jnp.array([jnp.pi / 6, t])
    >>> field = lambda t: jnp.array([0.0, 1.0])
    >>> cn.covariant_derivative_along(sphere, circle, field, [0.0, 1.0])[:, 0].round(4)
    array([-0.433, -0.433])

    Source: [W] III-B.
    """
    require_type("nabla", nabla, AffineConnection)
    clock = as_times(times)
    paths = _as_curve(nabla, curve), _as_curve(None, field, "field", nabla.frame.dim, FIELD)
    (on, points), (reading, values) = (_as_data(path, clock) for path in paths)
    recipe = PytreePartial(_reading_flow, nabla, on, reading, len(points))
    try:
        return _AlongCurve.of(nabla).run("covariant_derivative_along", recipe, (*points, *values), times)
    except IntegrationError:
        for name, path in zip(("curve", "field"), paths, strict=True):
            _require_finite_function("covariant_derivative_along", name, path, clock)
        raise


# --- private -----------------------------------------------------------------------------------------------


def _with_estimate(solve: Callable[[Any, Solver], Any], path: Any, solver: Solver) -> Any:
    """The solution along a path, and an estimate of its error if the options ask for it.

    To the difference to a more accurate solution are added those to curves through fewer samples.
    """
    others = coarser_curves(path) if solver.estimate and isinstance(path, SampledCurve) else []
    value = solve(path, solver)
    if not solver.estimate:
        return value
    error = abs(value - solve(path, solver.closer()))
    for other in others:
        error = error + abs(value - solve(other, solver))
    return Estimated(value, error)


def _solver_of(name: str, options: Any, path: Any) -> Solver:
    """The options of a call. Breakpoints of samples are the curve's: they have cut its spline."""
    solver = Solver.of(name, options, without=NOT_OF_CURVES)
    return replace(solver, breakpoints=np.zeros(0)) if isinstance(path, SampledCurve) else solver


class _AlongCurve(Trajectories):
    """Integrations whose first argument is not a point: the curve's own points are validated instead."""

    begin_at_a_point: ClassVar[bool] = False


def _point_on_curve(curve: Callable[..., jax.Array], t: jax.Array, *given: jax.Array) -> jax.Array:
    """The curve's own point, (nq,)."""
    return jnp.asarray(curve(t, *given), dtype=jnp.float64)


def _velocity(nabla: AffineConnection, curve: Curve, t: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Point of the manifold, frame components of the velocity there, and whether the velocity is tangent."""
    q, q_dot = jax.jvp(lambda s: nabla.frame.project_at(_point_on_curve(curve, s)), (t,), (jnp.ones_like(t),))
    X, dual = nabla.frame.matrix_at(q), nabla.frame.dual_at(q)
    v = dual @ q_dot
    terms = jnp.abs(X) @ (jnp.abs(dual) @ jnp.abs(q_dot)) + sizes_of_array(q_dot)
    return q, v, jnp.all(jnp.abs(X @ v - q_dot) <= _TANGENT * terms)


def _as_curve(
    owner: Any,
    curve: Any,
    name: str = "curve",
    size: int | None = None,
    kind: str = CURVE,
    breakpoints: Any = None,
) -> Any:
    """A function of time, or the curve through samples; `kind` is the function that is expected."""
    if isinstance(curve, tuple | list | SampledCurve):
        return SampledCurve.through(owner, curve, name, size, breakpoints)
    require_function(name, curve, kind, "write the samples as (t, q)")
    expected = (owner.frame.ambient_dim if size is None else size,)
    got = shape_of(
        f"{name}(t)", curve, ()
    )  # called before integrating, which takes a `ValueError` for the domain's end
    if got != expected:
        raise ShapeError(f"{name}(t)", expected, got)
    return curve


def _as_data(curve: Any, times: Any, name: str = "curve") -> tuple[Callable[..., Any], tuple[Argument, ...]]:
    """The curve as a function (t, *data) -> q, and its data: samples, or nothing for a user's function."""
    if not isinstance(curve, SampledCurve):
        return curve, ()
    curve.require_times("times", times)
    return curve.path, curve.arguments(name)


def _reading_flow(nabla: AffineConnection, curve: Any, field: Any, split: int) -> Flow[jax.Array]:
    """zdot + Gamma(v, z) along curve(t, *given[:split]) of field(t, *given[split:])."""

    def record(t: jax.Array, state: Any, *given: jax.Array) -> Record[jax.Array]:
        q, v, ok, own, z, z_dot = _moving(nabla, curve, field, split, t, *given)
        return z_dot + nabla.apply_at(q, v, z), own, ok

    flow, host = readings(record), nabla.host
    if host is None:
        return flow
    return replace(flow, host=HostReading(host, compiled(_moving, nabla, curve, field, split)))


def _moving(
    nabla: AffineConnection, curve: Any, field: Any, split: int, t: jax.Array, *given: jax.Array
) -> tuple[jax.Array, ...]:
    """The argument `moving` of `HostReading`."""
    along = _velocity(nabla, lambda s: curve(s, *given[:split]), t)
    z, z_dot = jax.jvp(lambda s: as_result("field(t)", field(s, *given[split:])), (t,), (jnp.ones_like(t),))
    return *along, _point_on_curve(curve, t, *given[:split]), z, z_dot


def _require_closed(nabla: AffineConnection, curve: Curve, ends: Any, solver: Solver) -> jax.Array | None:
    """`PointError` unless the curve ends where it begins; if JAX traces it, whether it does, (..., 1, 1)."""
    instants = _looks_at(ends, solver)
    points = compiled(_points_at, nabla.frame, curve)(instants)
    closed, start, end = compiled(_closed_at, nabla.frame)(points.reshape(len(points), -1, points.shape[-1]))
    if is_traced(closed, start, end):
        batch = curve.pieces.shape[:-3] if isinstance(curve, SampledCurve) else ()
        return jnp.asarray(closed).reshape(*batch, 1, 1)
    if not np.asarray(closed).all():
        _require_finite_function("holonomy", "curve", curve, ends)
    for row in np.flatnonzero(~np.asarray(closed)):
        gap = f"curve({ends[0]:g}) = {np.asarray(start)[row]}, curve({ends[1]:g}) = {np.asarray(end)[row]}"
        raise PointError(f"holonomy: the curve is not closed: {gap}")
    require_periodic(nabla, np.asarray(start))
    return None


def _looks_at(ends: Any, solver: Solver) -> jax.Array:
    """Times to look at a curve: no farther apart than half of a longest step, and between breakpoints."""
    if is_traced(ends):
        return jnp.linspace(ends[0], ends[1], _CLOSURE_SAMPLES)
    steps = 2.0 * (abs(ends[1] - ends[0]) / solver.settings.max_step)
    count = int(np.clip(steps, _CLOSURE_SAMPLES, _MOST_CLOSURE_SAMPLES))
    marks = np.concatenate([ends[:1], np.clip(solver.breakpoints, min(ends), max(ends)), ends[1:]])
    between = np.linspace(marks[:-1], marks[1:], 9).ravel() if len(marks) > 2 else marks
    return jnp.concatenate([jnp.linspace(ends[0], ends[1], count), jnp.asarray(between), ends[1:]])


def _closed_at(frame: FrameField, points: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Whether curves through points (S, rows, nq) end where they begin, to `CLOSURE_TOLERANCE`."""
    start, end = points[0], jax.vmap(frame.align_at)(points[-1], points[0])
    reach = jax.vmap(sizes_of_array)(jnp.max(jnp.abs(points - start[None]), axis=0))
    allowed = CLOSURE_TOLERANCE * reach + _ROUND_OFF * jnp.abs(start)
    return jnp.all(jnp.abs(start - end) <= allowed, axis=-1), start, end


def _transport_operator(nabla: AffineConnection, curve: Any, times: Any, solver: Solver) -> Any:
    """P (..., T, n, n) with z(t) = P z0, at every time; its batch axes are those of a sampled curve."""
    times = as_times(times)
    path, numbers = _as_data(curve, times)
    try:
        if isinstance(curve, SampledCurve) and curve.breakpoints.shape[0] and len(times) > 1:
            with suppress(IntegrationError):  # which names no time of the curve: that of all pieces does
                return _along_pieces(nabla, curve, times, solver)
        return _in_one_run(nabla, curve, times, solver, path, numbers)
    except IntegrationError:
        _require_finite_function("parallel_transport", "curve", curve, times)
        raise


def _in_one_run(
    nabla: AffineConnection, curve: Any, times: Any, solver: Solver, path: Any, numbers: tuple[Argument, ...]
) -> Any:
    """P (..., T, n, n) along a smooth curve: `path` as a function of time and the `numbers`."""
    since: Any = 0.0
    if isinstance(curve, SampledCurve):
        solver = replace(solver, settings=solver.settings.no_longer_than(curve.step_for_derivatives()))
        if not is_traced(times, curve.pieces, curve.knots):
            own, joints = np.asarray(times), kinks(curve)
            inside = (joints > own.min()) & (joints < own.max())
            solver = replace(solver, breakpoints=np.union1d(solver.breakpoints, joints[inside]))
    elif len(times) > 1:
        solver = _with_pulse_breakpoints(path, times, solver)
    if numbers:  # far from zero, floats are too coarse for the times of a step's stages
        (pieces, knots), since = numbers, times[0]
        numbers, times = (pieces, knots._replace(value=knots.value - since)), times - since
    recipe = PytreePartial(_transport_flow, nabla, path)
    return _AlongCurve.of(nabla).run("parallel_transport", recipe, numbers, times, solver, since)


def _along_pieces(nabla: AffineConnection, curve: SampledCurve, times: Any, solver: Solver) -> Any:
    """P (..., T, n, n) along a curve with corners: the product of the operators of its pieces.

    A piece ends at each knot and each requested time. All pieces are integrated together, each in a time from
    0 to 1, so that no step sees both sides of a corner.
    """
    (pieces, windows), places = curve.between(times)
    traced = is_traced(pieces, windows)
    numpy: Any = jnp if traced else np
    settings, whole, longest = solver.settings, abs(times[-1] - times[0]), numpy.max(abs(windows[:, 1]))
    first = min(1.0, settings.first_step / longest) if np.isfinite(settings.first_step) else np.inf
    most = numpy.minimum(settings.max_step, LONGEST * whole) / longest
    settings = settings._replace(first_step=first, max_step=most)
    recipe = PytreePartial(_transport_flow, nabla, PiecePath(curve.frame))
    data = Argument("curve points", pieces, pieces.shape[-2:]), Argument("curve times", windows, (2,))
    run = _AlongCurve.of(nabla).run
    steps = run("parallel_transport", recipe, data, np.array([0.0, 1.0]), replace(solver, settings=settings))
    return _products(steps[..., 1, :, :], traced)[..., places, :, :]


def _products(steps: Any, traced: bool) -> Any:
    """1, S_0, S_1 S_0, ..., (..., R + 1, n, n), of operators S (..., R, n, n)."""
    one, rows = np.eye(steps.shape[-1]), steps.shape[:-3]
    if traced:

        def step(before: jax.Array, here: jax.Array) -> tuple[jax.Array, jax.Array]:
            return here @ before, here @ before

        begin = jnp.broadcast_to(one, (*rows, *one.shape))
        after = jax.lax.scan(step, begin, jnp.moveaxis(steps, -3, 0))[1]
        return jnp.moveaxis(jnp.concatenate([begin[None], after]), 0, -3)
    found = [np.broadcast_to(one, (*rows, *one.shape))]
    for here in np.moveaxis(np.asarray(steps), -3, 0):
        found.append(here @ found[-1])
    return as_given(np.stack(found, axis=-3), steps)


def _with_pulse_breakpoints(curve: Curve, times: Any, solver: Solver) -> Solver:
    """The solver with breakpoints where the curve does something brief (`integration.pulses`)."""
    (t0, whole), looks = (times[0], times[-1] - times[0]), np.linspace(0.0, 1.0, LOOKS)
    values, rates = compiled(_points_and_rates_at, curve)(t0 + whole * looks)
    traced = is_traced(values, rates, whole)
    numpy: Any = jnp if traced else np
    values, rates = jax.lax.stop_gradient((values, rates)) if traced else map(np.asarray, (values, rates))
    at, found, longest = pulse_breakpoints(values, rates * whole, numpy)
    breakpoints = numpy.clip(t0 + whole * at, *(of(t0, times[-1]) for of in (numpy.minimum, numpy.maximum)))
    if traced:
        breakpoints = jnp.concatenate([jnp.asarray(solver.breakpoints), jax.lax.stop_gradient(breakpoints)])
    else:
        breakpoints = np.union1d(solver.breakpoints, breakpoints[found])
    return replace(
        solver, settings=solver.settings.no_longer_than(longest * abs(whole)), breakpoints=breakpoints
    )


def _require_finite_function(called: str, name: str, curve: Any, times: Any) -> None:
    """`NonFiniteError` if a user's function of time is not finite somewhere: then no chart has ended.

    It looks at the requested times and between them, and names the first time in the order of integration.
    """
    if isinstance(curve, SampledCurve):
        return
    own = np.asarray(times)
    instants = np.unique(np.concatenate([own, np.linspace(own[0], own[-1], _LOOKED_AT)]))
    if own[-1] < own[0]:
        instants = instants[::-1]
    for what, found in zip(
        (f"{name}(t)", f"the derivative of {name}(t)"),
        compiled(_points_and_rates_at, curve)(instants),
        strict=True,
    ):
        good = np.isfinite(np.asarray(found)).all(axis=-1)
        if not good.all():
            at = int(np.argmin(good))
            value = np.array2string(np.asarray(found)[at], precision=4, threshold=12)
            raise NonFiniteError(f"{called}: {what} is {value} at t = {instants[at]:.4g}")


def _points_at(frame: FrameField, curve: Curve, times: jax.Array) -> jax.Array:
    """The points of the manifold on a curve at times (T,), one or several for each."""

    def point(t: jax.Array) -> jax.Array:
        q = _point_on_curve(curve, t)
        return frame.project_at(q) if q.ndim == 1 else jax.vmap(frame.project_at)(q.reshape(-1, q.shape[-1]))

    return jax.vmap(point)(times)


def _points_and_rates_at(curve: Curve, times: jax.Array, *given: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Points (T, nq) of a curve at times (T,), and their rates (T, nq)."""
    return jax.vmap(
        lambda t: jax.jvp(lambda s: _point_on_curve(curve, s, *given), (t,), (jnp.ones_like(t),))
    )(times)


def _transport_flow(nabla: AffineConnection, curve: Callable[..., jax.Array]) -> Flow[jax.Array]:
    """Pdot = -Gamma(v, .) P, P (n, n), along curve(t, *given)."""
    n, metric = nabla.frame.dim, nabla.known_metric

    def start(*given: jax.Array) -> tuple[jax.Array]:
        return (jnp.eye(n),)

    def rate(t: jax.Array, state: tuple[jax.Array], *given: jax.Array) -> tuple[jax.Array]:
        q, v, _ = _velocity(nabla, lambda s: curve(s, *given), t)
        return (-jax.vmap(lambda z: nabla.apply_at(q, v, z), 1, 1)(state[0]),)

    def units(t0: jax.Array, s: jax.Array, state: tuple[jax.Array], *given: jax.Array) -> tuple[jax.Array]:
        if metric is None:
            return (jnp.ones_like(state[0]),)
        now, then = (
            metric.positive_at(nabla.frame.project_at(_point_on_curve(curve, t, *given)))
            for t in (t0 + s, t0)
        )
        return (jnp.outer(inverse_lengths_of(now), lengths_of(then)),)

    def record(t: jax.Array, state: tuple[jax.Array], *given: jax.Array) -> Record[jax.Array]:
        return state[0], _point_on_curve(curve, t, *given), _velocity(nabla, lambda s: curve(s, *given), t)[2]

    def products(t0: Any, s: Any, state: Any, *given: jax.Array) -> tuple[jax.Array, jax.Array]:
        # 1 + the largest change of an inner product of fields, over the lengths of both fields at the start.
        assert metric is not None
        end, begin = (nabla.frame.project_at(_point_on_curve(curve, t, *given)) for t in (t0 + s, t0))
        now, then = metric.matrix_at(end), metric.matrix_at(begin)
        length = inverse_lengths_of(metric.positive_at(begin))
        change = jnp.abs(state[0].T @ now @ state[0] - then) * jnp.outer(length, length)
        total = 1.0 + jnp.max(change)
        return total, total

    kept = None
    if metric is not None and nabla.compatible:
        kept = "the inner product of carried vectors", products
    host = nabla.host
    if host is None:
        return Flow(start, rate, record, units, points=(), timed=True, conserved=kept)

    points = compiled(_points_and_rates_at, curve)
    if isinstance(curve, SplinePath | PiecePath):
        points = partial(_spline_in_numpy, host, curve)
    motion = HostTransport(host, points, n)
    return Flow(start, rate, record, units, points=(), timed=True, conserved=kept, host=motion)


def _spline_in_numpy(
    host: HostMechanics, path: SplinePath | PiecePath, times: np.ndarray, *given: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points (T, nq) of a spline at times (T,), on the manifold, and their rates (T, nq), in NumPy."""
    return host.projected(*path.values_and_rates(times, *given))
