"""Curves through given points at which the effort of the control is stationary.

With W = H^-1 and no potential these are Riemannian cubics, in tension if sigma > 0:
D_t^2 a + R(a, v) v - sigma a = 0, a = D_t v. In general, with lambda = W tau,

    D_t lambda = p + H^-1 D^T lambda,    H D_t p = -H R(lambda, v) v - Hess U lambda - ... + sigma H D_t v,

which nothing here uses: the integral itself is made stationary, on pieces of polynomials. There may be
several such curves, so several starts are compared, and the second variation is tested.
Sources: [NHP]; [CL].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.affine.periods import PERIODIC, require_periodic
from connections.checks import (
    ConvergenceError,
    FrameError,
    ShapeError,
    as_array,
    as_number,
    raise_at,
    require_finite,
    require_function,
    require_positive_int,
    require_shape,
    require_type,
    require_untraced,
    text_of_point,
)
from connections.control.laws.gains import gain_matrix, one_vector
from connections.control.splines.effort_curve import EffortCurve
from connections.control.splines.integrand import Effort, bent_at
from connections.control.splines.pieces import Pieces, in_calls
from connections.control.splines.solutions import FIRST, CurveConditions, Start, solutions
from connections.coriolis import MechanicalSystem
from connections.evaluation.boundary import Argument, evaluate, projected_point
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import PytreePartial
from connections.geometry.curves import SampledCurve

_BEND = 0.5  # how far starts are bent, relative to the length of the spline between two points
_MODES = 3


def minimum_effort_curve(
    system: MechanicalSystem,
    points: ArrayLike,
    times: ArrayLike,
    *,
    start_velocity: ArrayLike | None = None,
    end_velocity: ArrayLike | None = None,
    weight: Any = None,
    tension: float = 0.0,
    starts: int | Sequence[Any] = 3,
    tolerance: float = 1e-6,
) -> EffortCurve:
    """A curve through points at which the integral of (1/2) tau^T W tau + (sigma/2) v^T H v is stationary.

    tau = H vdot + C v + g - F are the torques of the motion, none of which is limited; sigma is the tension.
    Without potential and forces, and with W = H^-1, the integrand is |D_t v|^2 / 2, and the curve is a
    Riemannian cubic between the points. The effort is least among neighbouring curves if the result's
    `positive` is True; nobody knows whether it is least among all curves.

    Parameters
    ----------
    system : such as `MechanicalSystem(metric)`, or `model.system()` of a robot, with gravity.
    points : (P, nq), P >= 2, in the order in which the curve goes through them. Of two quaternions q and -q,
        the one is taken that is nearer to the point before, and of points whole periods apart, too: metric,
        potential and forces have to have the frame's periods then.
    times : (P,) increasing, s: when the curve is at the points.
    start_velocity, end_velocity : (n,) frame components, or None if they are free. Velocities at the points
        between are free.
    weight : W: scalar, (n,), or (n, n) symmetric positive definite, or a function q -> W (n, n),
        JAX-traceable; None for H^-1, which makes the effort independent of the frame.
    tension : sigma >= 0, 1/s^2 if `weight` is None.
    starts : how many curves the search starts from, the natural or clamped spline through the points in the
        coordinates, and others bent away from it, the same in every call; or a list of curves, t -> q (nq,)
        JAX-traceable or samples (times, points), which need not go through the points.
    tolerance : of velocities and torques, root mean square, relative to those of a motion of this effort.

    Returns
    -------
    EffortCurve : the one of least cost that was found; `others` has the other ones.

    Raises
    ------
    ConvergenceError : no start leads to a stationary curve of this accuracy; says why.
    GainError : the weight is not positive definite, at a named point if it is a function.
    ShapeError, NonFiniteError, TypeError, PointError (off the manifold), MetricError, FrameError (also of a
    potential or a force without the frame's periods).
    ValueError : the tension is negative, or the tolerance not between 0 and 1.

    Examples
    --------
    >>> import connections as cn
    >>> from connections import control
    >>> flat = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), [[1.0]]))
    >>> rest = {"start_velocity": [0.0], "end_velocity": [0.0]}
    >>> curve = control.minimum_effort_curve(flat, [[0.0], [1.0]], [0.0, 1.0], **rest)
    >>> round(curve.cost, 6), curve.positive  # of 3 t^2 - 2 t^3
    (6.0, True)

    Source: [NHP]; [CL]; docs/minimum_effort.md.
    """
    require_type("system", system, MechanicalSystem)
    require_untraced(system=system, points=points, times=times, weight=weight, tension=tension)
    frame = system.frame
    q, t = _points_and_times(system, points, times)
    effort = Effort(system, _weight(weight, frame.dim, q), _not_negative("tension", tension))
    accuracy = as_number("tolerance", tolerance)
    if not 0.0 < accuracy < 1.0:
        raise ValueError(f"tolerance: expected a number between 0 and 1, got {tolerance}")
    velocities = (
        _velocity("start_velocity", start_velocity, frame.dim),
        _velocity("end_velocity", end_velocity, frame.dim),
    )
    task = CurveConditions(effort, t, q, velocities, accuracy)
    curves = _starts(task, starts)
    if callable(weight):
        _require_weight(weight, effort, task.pieces(curves[0], FIRST))
    with np.errstate(over="ignore", invalid="ignore"):  # a cost that is not finite is refused
        found, failed = solutions(task, curves)
    if not found:
        raise ConvergenceError(
            f"no stationary curve was found from {len(curves)} starts: {'; '.join(failed)}; give "
            "velocities at the ends, points between, starts of your own, a larger tolerance or less tension"
        )
    if callable(weight):
        for solution in found:
            _require_weight(weight, effort, solution.found.pieces)
    best, *others = found
    beside = tuple(EffortCurve.of(effort, solution) for solution in others)
    return EffortCurve.of(effort, best, beside, tuple(failed))


# --- arguments --------------------------------------------------------------------------------------------


def _points_and_times(system: MechanicalSystem, points: Any, times: Any) -> tuple[np.ndarray, np.ndarray]:
    """Points (P, nq) on the manifold, each next to the one before, and their times (P,)."""
    nq = system.frame.ambient_dim
    q, t = np.asarray(as_array("points", points, (None, nq))), np.asarray(as_array("times", times, (None,)))
    if q.ndim != 2 or len(q) < 2:
        raise ShapeError("points", ("P >= 2", nq), q.shape)
    if t.shape != (len(q),):
        raise ShapeError("times", (len(q),), t.shape)
    require_finite("times", t)
    if not (np.diff(t) > 0.0).all():
        raise ShapeError("times", "increasing times", t)
    given = np.array(evaluate(system, projected_point, Argument("points", q, (nq,))))
    q = given.copy()
    for k in range(1, len(q)):
        q[k] = system.frame.align_at(jnp.asarray(q[k]), jnp.asarray(q[k - 1]))
    if any(system.frame.periods) and (q != given).any():
        _require_periodic(system, t, q)
    return q, t


def _require_periodic(system: MechanicalSystem, t: np.ndarray, q: np.ndarray) -> None:
    """Raise an error unless metric, potential and forces are the same a period away from points (P, nq)."""
    nabla = system.connection
    assert nabla is not None  # of a system without another one it is Levi-Civita's
    require_periodic(nabla, q)
    for index, period in enumerate(system.frame.periods):
        if period is None:
            continue
        shift = period * np.eye(q.shape[1])[index]
        for row, point in enumerate(q):
            change, size = map(np.asarray, compiled(_changes_at, system)(t[row], point, shift))
            if not (change <= PERIODIC * size).all():
                what = f"potential and forces are others after the period {period:.6g} of q[{index}]"
                raise_at(FrameError, what, point)


def _changes_at(
    system: MechanicalSystem, t: jax.Array, q: jax.Array, shift: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """How g - F at rest changes by a shift, (n,), and terms of which its round-off is a part, (n,)."""
    rest = jnp.zeros(system.frame.dim)

    def torques(p: jax.Array) -> jax.Array:
        return system.inverse_dynamics_at(p, rest, rest, t)

    here = torques(q)
    terms = jnp.abs(here) + jnp.abs(jax.jacfwd(torques)(q)) @ (jnp.abs(q) + jnp.abs(shift))
    return jnp.abs(torques(q + shift) - here), terms


def _velocity(name: str, velocity: Any, n: int) -> np.ndarray | None:
    if velocity is None:
        return None
    require_untraced(**{name: velocity})
    return np.asarray(one_vector(name, velocity, n))


def _weight(weight: Any, n: int, points: np.ndarray) -> Any:
    """W as `Effort` takes it."""
    if weight is None:
        return None
    if not callable(weight):
        return np.asarray(gain_matrix("weight", weight, n, symmetric=True))
    require_function("weight", weight, "q -> W (n, n)")
    require_shape("weight(q)", weight(jnp.asarray(points[0])), (n, n))
    return weight


def _require_weight(weight: Callable[[jax.Array], Any], effort: Effort, pieces: Pieces) -> None:
    """Raise `GainError` for the first point, of those where L is evaluated, at which W is not definite."""
    q, v, *_ = pieces.instants(effort, pieces.gauss_times()[0])
    for point in np.concatenate([pieces.q, q]):
        name, W = f"weight at q = {text_of_point(point)}", np.asarray(weight(jnp.asarray(point)))
        gain_matrix(name, W, v.shape[1], symmetric=True)


def _not_negative(name: str, value: Any) -> float:
    number = as_number(name, value)
    if number < 0.0:
        raise ValueError(f"{name}: expected a number that is not negative, got {value}")
    return number


# --- starts -----------------------------------------------------------------------------------------------


def _starts(task: CurveConditions, starts: int | Sequence[Any]) -> list[Start]:
    if isinstance(starts, list | tuple):
        if not starts:
            raise ShapeError("starts", "at least one curve", "none")
        return [_given(task, curve, f"starts[{k}]") for k, curve in enumerate(starts)]
    require_positive_int("starts", starts)
    count: Any = starts
    rng = np.random.default_rng(0)
    spline = _spline(task)
    size = len(task.times) - 1, _MODES, task.effort.system.frame.dim
    bends = [rng.standard_normal(size) / np.arange(1.0, _MODES + 1.0)[:, None] for _ in range(1, count)]
    return [spline, *(partial(_bent, task, spline, bend) for bend in bends)]


def _spline(task: CurveConditions) -> Start:
    """The cubic spline through the points in the coordinates; natural where no velocity is given."""
    from scipy.interpolate import CubicSpline

    matrix = task.effort.system.frame.matrix
    ends = [
        (2, np.zeros_like(q)) if v is None else (1, np.asarray(matrix(q)) @ v)
        for q, v in zip(task.points[[0, -1]], task.velocities, strict=True)
    ]
    spline = CubicSpline(task.times, task.points, bc_type=ends)
    return lambda times: (spline(times), spline(times, 1))


def _bent(
    task: CurveConditions, spline: Start, bend: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The spline bent away between the points, by sines of random sizes."""
    effort, metric = task.effort, task.effort.system.metric
    span = np.clip(np.searchsorted(task.times, times, side="right") - 1, 0, len(task.times) - 2)
    lasting = np.diff(task.times)[span]
    q, rate = spline(times)
    near = np.asarray(jax.vmap(metric.frame.project_at)(jnp.asarray(q)))
    v = np.einsum("tna,ta->tn", np.asarray(jax.vmap(metric.frame.dual_at)(jnp.asarray(near))), rate)
    H = np.asarray(jax.vmap(metric.matrix_at)(jnp.asarray(near)))
    speed = np.sqrt(np.einsum("ti,tij,tj->t", v, H, v))
    length = np.mean(speed) * lasting * _BEND / np.sqrt(v.shape[1])
    modes = np.arange(1.0, _MODES + 1.0)

    def displaced(times: np.ndarray) -> np.ndarray:
        x = (times - task.times[span]) / lasting
        xi = length[:, None] * np.einsum("tk,tkn->tn", np.sin(np.pi * modes * x[:, None]), bend[span])
        return in_calls(bent_at, effort, near, xi)[0]

    step = 1e-4 * lasting
    moved = (displaced(times + step) - displaced(times - step)) / (2.0 * step[:, None])
    return displaced(times), rate + moved


def _given(task: CurveConditions, curve: Any, name: str) -> Start:
    """A curve of the caller's, a function of time or samples."""
    system = task.effort.system
    if not callable(curve):
        curve = SampledCurve.through(system, curve, name)
    if isinstance(curve, SampledCurve):
        curve.require_times(name, task.times[[0, -1]])

    def points_and_rates(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q, rate = compiled(_moving, PytreePartial(_called, curve))(jnp.asarray(times))
        shape = (len(times), system.frame.ambient_dim)
        if q.shape != shape:
            raise ShapeError(f"{name}(t)", shape[1:], q.shape[1:])
        return np.array(q), np.array(rate)

    return points_and_rates


def _called(curve: Callable[[jax.Array], jax.Array], t: jax.Array) -> jax.Array:
    return jnp.asarray(curve(t))


def _moving(curve: Callable[[jax.Array], jax.Array], times: jax.Array) -> tuple[jax.Array, jax.Array]:
    def at(t: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.jvp(curve, (t,), (jnp.ones(()),))

    return jax.vmap(at)(times)
