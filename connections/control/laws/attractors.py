"""References that drive an error phi(t, q) to zero: trajectories, submanifolds, tasks.

    d/dt phi = -Lambda phi   =>   v_r = J^+ (-Lambda phi - d_t phi) + (1 - J^+ J) w,     J = (d phi / d q) X,

with phi = q - q_d(t) for a trajectory (then v_r is [W]'s law with the sign that converges), phi(q) for a
submanifold, and x(q) - x_d(t) in task space.
Source: [W] IV-A and Remark 6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import solve
from connections.checks import ShapeError, require_finite, require_function, require_same_frame, require_type
from connections.control.laws.gains import gain_matrix, one_vector
from connections.control.laws.references import FieldReference, output_length, require_output
from connections.engines.internals.jax_names import trace_state_clean
from connections.evaluation.boundary import Argument, evaluate, projected_point
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import PytreePartial
from connections.geometry import (
    ChangedFrame,
    FrameField,
    Metric,
    ProductFrame,
    SampledCurve,
    SE3Frame,
    SO3Frame,
)
from connections.geometry.metrics import require_definite
from connections.geometry.numerics.definite import solve_definite
from connections.geometry.rigid.rotations import rotation_difference, rotation_matrix

TimeField = Callable[[jax.Array, jax.Array], jax.Array]
TimeCurve = Callable[[jax.Array], jax.Array]


def trajectory_reference(
    frame: FrameField,
    trajectory: TimeCurve | tuple[Any, Any],
    gain: Any,
    error: Callable[[jax.Array, jax.Array], jax.Array] | None = None,
) -> FieldReference:
    """v_r(t, q) under which the error e(q, q_d(t)) obeys edot = -Lambda e.

    In coordinates, e = q - q_d and qdot_r = qdot_d - Lambda (q - q_d) whatever the frame; on rotations and
    poses e is that of `configuration_error_at`.

    Parameters
    ----------
    frame : the frame of the components.
    trajectory : t -> q_d (nq,), a point of the manifold at every time, JAX-traceable; or samples (t, q_d)
        with t (S,) increasing, s, and q_d (S, nq), or a `SampledCurve`: with samples h apart, v_r is off by
        O(h^5) and its rate by O(h^4), and v_r jumps at breakpoints, which are found where samples have
        corners or rest. There is no reference before the first time and after the last.
    gain : Lambda, scalar, (n,) or (n, n), positive definite, 1/s.
    error : (q, q_d) -> (n,), zero where they agree and regular there; JAX-traceable.

    Raises
    ------
    ShapeError, NonFiniteError, GainError, TypeError; PointError if q_d(0) or a sample is off the manifold.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections import control
    >>> frame = cn.CoordinateFrame(1)
    >>> reference = control.trajectory_reference(frame, lambda t: jnp.stack([jnp.sin(t)]), gain=2.0)
    >>> reference.field(0.0, jnp.array([0.5]))  # cos(0) - 2 (0.5 - 0)
    Array([0.], dtype=float64)

    Source: [W] IV-A, with the sign of Lambda reversed: as printed, q_r = q_d + Lambda (q - q_d) diverges.
    """
    require_type("frame", frame, FrameField)
    goal, span = _as_trajectory(frame, trajectory, frame.ambient_dim)
    if span is None and trace_state_clean():
        start = np.asarray(compiled(goal)(0.0))
        require_finite("trajectory(0)", start)
        evaluate(frame, projected_point, Argument("trajectory(0)", start, (frame.ambient_dim,)))

    desired = PytreePartial(_desired_at, frame, goal)
    if error is None and frame.dim == frame.ambient_dim:
        return _in_coordinates(frame, desired, gain, span)
    if error is None:
        error = PytreePartial(_configuration_error_at, frame)
    nq = (frame.ambient_dim,)
    require_output("error(q, q_d)", error, (frame.dim,), nq, nq)
    phi = PytreePartial(_error_at, error, desired)
    return _attractor(frame, phi, frame.dim, gain, None, None, span, desired)


def submanifold_reference(
    frame: FrameField,
    constraint: Callable[[jax.Array], jax.Array],
    gain: Any,
    tangential: TimeField | None = None,
    metric: Metric | None = None,
) -> FieldReference:
    """v_r(t, q) under which phi(q) obeys phidot = -Lambda phi: attraction to the submanifold phi = 0.

    v_r = -J^+ Lambda phi + (1 - J^+ J) w, with J = (d phi / d q) X of full row rank.

    Parameters
    ----------
    frame : the frame of the components.
    constraint : phi, q (nq,) -> (m,), m <= n; JAX-traceable.
    gain : Lambda, scalar, (m,) or (m, m), positive definite, 1/s.
    tangential : w, (t, q) -> (n,); its part along the submanifold is followed (a limit cycle if the
        submanifold is a closed curve). None stays still on it.
    metric : J^+ = H^-1 J^T (J H^-1 J^T)^-1, the same vector field in every frame; None takes H = 1.

    Raises
    ------
    ShapeError, NonFiniteError, GainError, FrameError.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections import control
    >>> frame = cn.CoordinateFrame(2)
    >>> circle = control.submanifold_reference(frame, lambda q: jnp.stack([q @ q - 1.0]), gain=1.0)
    >>> circle.field(0.0, jnp.array([1.2, 1.6]))  # towards the circle
    Array([-0.45, -0.6 ], dtype=float64)

    Source: [W] Remark 6.
    """
    require_type("frame", frame, FrameField)
    size = output_length("constraint(q)", constraint, frame.dim, (frame.ambient_dim,))
    return _attractor(frame, PytreePartial(_constant_at, constraint), size, gain, tangential, metric)


def task_reference(
    frame: FrameField,
    task: Callable[[jax.Array], jax.Array],
    trajectory: TimeCurve | tuple[Any, Any],
    gain: Any,
    tangential: TimeField | None = None,
    metric: Metric | None = None,
) -> FieldReference:
    """v_r(t, q) under which x(q) - x_d(t) decays: J v_r = xdot_d - Lambda (x - x_d).

    Parameters
    ----------
    frame : the frame of the components.
    task : x, q (nq,) -> (m,), m <= n; JAX-traceable.
    trajectory : t -> x_d (m,), JAX-traceable; or samples (t, x_d) with x_d (S, m), as for
        `trajectory_reference`.
    gain : Lambda, scalar, (m,) or (m, m), positive definite, 1/s.
    tangential, metric : as for `submanifold_reference`.

    Raises
    ------
    ShapeError, NonFiniteError, GainError, FrameError, TypeError.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections import control
    >>> frame = cn.CoordinateFrame(2)
    >>> height = control.task_reference(frame, lambda q: q[1:], lambda t: jnp.stack([jnp.sin(t)]), gain=2.0)
    >>> round(float(height.field(0.0, jnp.array([3.0, 1.0]))[1]), 6)  # cos(0) - 2 (1 - 0)
    -1.0

    Source: [W] Remark 6.
    """
    require_type("frame", frame, FrameField)
    size = output_length("task(q)", task, frame.dim, (frame.ambient_dim,))
    goal, span = _as_trajectory(None, trajectory, size)
    return _attractor(frame, PytreePartial(_task_error_at, task, goal), size, gain, tangential, metric, span)


def configuration_error_at(frame: FrameField, q: jax.Array, q_d: jax.Array) -> jax.Array:
    """Error of `q` from `q_d`, (n,), zero where they are the same configuration.

    Coordinates: q - q_d (angles are not wrapped). Unit quaternions: the rotation vector of R_d^T R, in
    desired body axes, of length at most pi. Poses: that, then R_d^T (p - p_d). Products: factor by factor.
    Other frames with nq > n: X(q_d)^+ (q - q_d), the first-order error.

    Parameters
    ----------
    frame : the frame.
    q, q_d : (nq,) points.

    Raises
    ------
    TypeError, ShapeError, NonFiniteError.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections import control
    >>> control.configuration_error_at(cn.CoordinateFrame(2), jnp.array([1.0, 2.0]), jnp.array([0.5, 0.0]))
    Array([0.5, 2. ], dtype=float64)
    """
    require_type("frame", frame, FrameField)
    nq = frame.ambient_dim
    return _configuration_error_at(frame, one_vector("q", q, nq), one_vector("q_d", q_d, nq))


# --- private -----------------------------------------------------------------------------------------------


def _configuration_error_at(frame: FrameField, q: jax.Array, q_d: jax.Array) -> jax.Array:
    """`configuration_error_at` of points of the right shape."""
    if isinstance(frame, ChangedFrame):
        return _configuration_error_at(frame.base, q, q_d)
    if isinstance(frame, ProductFrame):
        factors = zip(frame.frames, frame.split_point(q), frame.split_point(q_d), strict=True)
        return jnp.concatenate([_configuration_error_at(*factor) for factor in factors])
    if isinstance(frame, SO3Frame):
        return rotation_difference(q_d, q)
    if isinstance(frame, SE3Frame):
        rotation = rotation_difference(q_d[3:], q[3:])
        return jnp.concatenate([rotation, rotation_matrix(q_d[3:]).T @ (q[:3] - q_d[:3])])
    if frame.dim == frame.ambient_dim:
        return frame.align_at(q, q_d) - q_d
    return frame.dual_at(q_d) @ (q - frame.align_at(q_d, q))


def _as_trajectory(frame: FrameField | None, trajectory: Any, size: int) -> tuple[Any, Any]:
    """A function of time, and the first and last time of samples; None for functions."""
    if not isinstance(trajectory, tuple | list | SampledCurve):
        kind = "of time or samples (t, q)"
        require_function("trajectory", trajectory, kind, "write the samples as (t, q)")
        require_output("trajectory(t)", trajectory, (size,), ())
        return trajectory, None
    curve = SampledCurve.through(frame, trajectory, "trajectory", size)
    if curve.pieces.ndim != 3:
        raise ShapeError("trajectory points", ("S", size), (*curve.pieces.shape[:-3], "S", size))
    return curve, curve.span


def _in_coordinates(
    frame: FrameField, desired: TimeCurve, gain: Any, span: tuple[Any, Any] | None
) -> FieldReference:
    """The field with qdot = qdot_d - Lambda (q - q_d)."""
    Lambda = gain_matrix("gain", gain, frame.dim)
    field, error = (
        PytreePartial(_field_in_coordinates_at, frame, desired, Lambda),
        PytreePartial(_difference_at, frame, desired),
    )
    return FieldReference(frame, field, span=span, desired=desired, error=error)


def _desired_at(frame: FrameField, trajectory: TimeCurve, t: jax.Array) -> jax.Array:
    """The point trajectory(t); NaN if it is off the manifold."""
    q_d = jnp.asarray(trajectory(t), dtype=jnp.float64)
    return jnp.where(frame.near_at(q_d), frame.project_at(q_d), jnp.nan)


def _error_at(error: Callable[..., jax.Array], desired: TimeCurve, t: jax.Array, q: jax.Array) -> jax.Array:
    return error(q, desired(t))


def _difference_at(frame: FrameField, desired: TimeCurve, t: jax.Array, q: jax.Array) -> jax.Array:
    q_d = desired(t)
    return frame.align_at(q, q_d) - q_d


def _constant_at(constraint: Callable[..., jax.Array], t: jax.Array, q: jax.Array) -> jax.Array:
    return constraint(q)


def _task_error_at(task: Callable[..., jax.Array], goal: TimeCurve, t: jax.Array, q: jax.Array) -> jax.Array:
    return task(q) - goal(t)


def _field_in_coordinates_at(
    frame: FrameField, desired: TimeCurve, Lambda: jax.Array, t: jax.Array, q: jax.Array
) -> jax.Array:
    q_d, drift = jax.jvp(desired, (t,), (jnp.ones_like(t),))
    return frame.velocity_at(q, drift - Lambda @ (frame.align_at(q, q_d) - q_d))


def _attractor(
    frame: FrameField,
    phi: TimeField,
    size: int,
    gain: Any,
    w: TimeField | None,
    metric: Metric | None,
    span: tuple[Any, Any] | None = None,
    desired: TimeCurve | None = None,
) -> FieldReference:
    """The field with d/dt phi = -Lambda phi along it, of least norm but for its part along w."""
    Lambda = gain_matrix("gain", gain, size)
    if w is not None:
        require_output("tangential(t, q)", w, (frame.dim,), (), (frame.ambient_dim,))
    if metric is not None:
        require_definite("metric", metric)
        require_same_frame(frame, "the reference", metric.frame, "the metric")
    field = PytreePartial(_attracting_field_at, frame, phi, Lambda, w, metric)
    return FieldReference(frame, field, span=span, desired=desired, error=phi)


def _attracting_field_at(
    frame: FrameField,
    phi: TimeField,
    Lambda: jax.Array,
    w: TimeField | None,
    metric: Metric | None,
    t: jax.Array,
    q: jax.Array,
) -> jax.Array:
    value, drift = jax.jvp(lambda time: phi(time, q), (t,), (jnp.ones_like(t),))
    J = jax.jacfwd(phi, argnums=1)(t, q) @ frame.matrix_at(q)
    rate = -Lambda @ value - drift
    if len(J) == frame.dim:
        return solve(J, rate)
    along = jnp.zeros(frame.dim) if w is None else w(t, q)
    weighted = J.T if metric is None else solve_definite(metric.matrix_at(q), J.T)
    return along + weighted @ solve_definite(J @ weighted, rate - J @ along)
