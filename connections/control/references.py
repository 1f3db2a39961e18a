"""Reference velocities: what the passivity-based law is asked to follow.

A reference gives v_r, the frame components of a time-varying vector field, and vdot_r, the time derivative of
those components along the motion: ``vdot_r = d/dt v_r(q(t), t)`` with ``qdot = X(q) v``, by one
Jacobian-vector product in (t, q), hence exact. All field references drive an error phi(t, q) to zero,

    d/dt phi = -Lambda phi   =>   v_r = J^+ (-Lambda phi - d_t phi) + (1 - J^+ J) w,     J = (d phi / d q) X,

with phi = q - q_d(t) for a trajectory (then v_r is [W]'s law with the sign that converges), phi(q) for a
submanifold, and x(q) - x_d(t) in task space. The reference of the acceleration level is integrated instead.
Source: [W] IV-A and Remark 6.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import (
    ShapeError,
    as_array,
    require_finite,
    require_function,
    require_same_frame,
    require_type,
)
from connections.control.gains import gain_matrix
from connections.geometry import ChangedFrame, FrameField, Metric, ProductFrame, SE3Frame, SO3Frame
from connections.geometry.compilation import shape_of
from connections.geometry.evaluation import Argument, evaluate, require_admissible
from connections.geometry.parameters import Parametrized, with_parameters
from connections.geometry.rotations import quaternion_product, rotation_matrix
from connections.geometry.scales import sizes_of_array, velocity_sizes

TimeField = Callable[[jax.Array, jax.Array], jax.Array]
TimeCurve = Callable[[jax.Array], jax.Array]


class Reference(Parametrized, abc.ABC):
    """A reference velocity, its rate along the motion, and the state it integrates (possibly none)."""

    frame: FrameField

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether q is a point at which the frame is valid; one boolean."""
        return self.frame.valid_at(q)

    def explain(self, q: Any) -> None:
        """Raise the frame's error for a point that is not valid."""
        self.frame.explain(q)

    @abc.abstractmethod
    def initial_state(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """State (m,) of the reference when the motion starts at (q, v); m = 0 for a vector field."""

    @abc.abstractmethod
    def velocity_at(self, t: jax.Array, q: jax.Array, state: jax.Array) -> jax.Array:
        """v_r (n,), frame components."""

    @abc.abstractmethod
    def acceleration_at(self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array) -> jax.Array:
        """vdot_r (n,): time derivative of the components of v_r along the motion with velocity v."""

    def pair_at(
        self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """(v_r, vdot_r) at one instant."""
        return self.velocity_at(t, q, state), self.acceleration_at(t, q, v, state)

    @abc.abstractmethod
    def state_rate_at(self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array) -> jax.Array:
        """Time derivative of the state (m,)."""

    def state_sizes_at(self, metric: Metric, q: jax.Array, state: jax.Array) -> jax.Array:
        """What components of the state can be expected to be (m,): here as if all were of one unit."""
        return sizes_of_array(state)


@dataclass(frozen=True, eq=False)
class FieldReference(Reference):
    """A time-varying vector field v_r(t, q) as the reference.

    Parameters
    ----------
    frame : the frame of the components.
    field : (t, q (nq,)) -> v_r (n,) frame components; JAX-traceable.
    parameters : optional, the last argument of `field` (`ParametricFunction`).

    Raises
    ------
    ShapeError : the field returns another shape than (n,).

    Source: [W] IV-A, Remark 6.
    """

    frame: FrameField
    field: Callable[..., Any]
    parameters: InitVar[Any] = None

    def __post_init__(self, parameters: Any) -> None:
        require_type("frame", self.frame, FrameField)
        object.__setattr__(self, "field", with_parameters(self.field, parameters))
        _require_output("field(t, q)", self.field, (self.frame.dim,), (), (self.frame.ambient_dim,))

    def initial_state(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """No state: shape (0,)."""
        return jnp.zeros(0)

    def velocity_at(self, t: jax.Array, q: jax.Array, state: jax.Array) -> jax.Array:
        """v_r(t, q), (n,)."""
        return self.field(t, q)

    def acceleration_at(self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array) -> jax.Array:
        """d_t v_r + L_v v_r, (n,): the components' rate with qdot = X(q) v."""
        return self.pair_at(t, q, v, state)[1]

    def pair_at(
        self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """(v_r, vdot_r) by one Jacobian-vector product in (t, q)."""
        tangent = (jnp.ones_like(t), self.frame.matrix_at(q) @ v)
        return jax.jvp(self.field, (t, q), tangent)

    def state_rate_at(self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array) -> jax.Array:
        """No state: shape (0,)."""
        return jnp.zeros(0)

    def velocity(self, t: Any, q: Any) -> jax.Array:
        """v_r, (..., n) frame components.

        Parameters
        ----------
        t : (...) time, s.
        q : (..., nq) points.
        """
        return evaluate(self, "velocity", lambda p, time: self.field(time, p), *self._at(t, q))

    def acceleration(self, t: Any, q: Any, v: Any) -> jax.Array:
        """vdot_r along the motion, (..., n) frame components.

        Parameters
        ----------
        t : (...) time, s.
        q : (..., nq) points.
        v : (..., n) velocity of the motion, frame components.
        """

        def at_point(p: jax.Array, time: jax.Array, w: jax.Array) -> jax.Array:
            return self.acceleration_at(time, p, w, jnp.zeros(0))

        return evaluate(self, "acceleration", at_point, *self._at(t, q), Argument("v", v, (self.frame.dim,)))

    def _at(self, t: Any, q: Any) -> tuple[Argument, Argument]:
        return Argument("q", q, (self.frame.ambient_dim,)), Argument("t", t, ())


@dataclass(frozen=True, eq=False)
class AccelerationReference(Reference):
    """The reference integrated from a desired acceleration: vdot_r = -k (v_r - v) + a_d(t, q, v).

    Parameters
    ----------
    frame : the frame of the components.
    acceleration : (t, q (nq,), v (n,)) -> a_d (n,), rate of the frame components; JAX-traceable.
    gain : k, scalar, (n,) or (n, n), positive definite, 1/s.
    initial : v_r at the start (n,); None starts at v.
    parameters : optional, the last argument of `acceleration` (`ParametricFunction`).

    Raises
    ------
    ShapeError, NonFiniteError, GainError.

    Source: [W] Remark 6.
    """

    frame: FrameField
    acceleration: Callable[..., Any]
    gain: Any
    initial: Any = None
    parameters: InitVar[Any] = None

    def __post_init__(self, parameters: Any) -> None:
        require_type("frame", self.frame, FrameField)
        object.__setattr__(self, "acceleration", with_parameters(self.acceleration, parameters))
        n = self.frame.dim
        object.__setattr__(self, "gain", gain_matrix("gain", self.gain, n))
        _require_output("acceleration(t, q, v)", self.acceleration, (n,), (), (self.frame.ambient_dim,), (n,))
        if self.initial is not None:
            object.__setattr__(self, "initial", _vector("initial", self.initial, n))

    def initial_state(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """v_r at the start, (n,)."""
        return v if self.initial is None else self.initial

    def velocity_at(self, t: jax.Array, q: jax.Array, state: jax.Array) -> jax.Array:
        """v_r is the state, (n,)."""
        return state

    def acceleration_at(self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array) -> jax.Array:
        """-k (v_r - v) + a_d(t, q, v), (n,)."""
        return self.acceleration(t, q, v) - self.gain @ (state - v)

    def state_rate_at(self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array) -> jax.Array:
        """vdot_r, (n,)."""
        return self.acceleration_at(t, q, v, state)

    def state_sizes_at(self, metric: Metric, q: jax.Array, state: jax.Array) -> jax.Array:
        """Of v_r its speed over |X_i|, (n,)."""
        return velocity_sizes(metric.matrix_at(q), state)


def trajectory_reference(
    frame: FrameField,
    trajectory: TimeCurve,
    gain: Any,
    error: Callable[[jax.Array, jax.Array], jax.Array] | None = None,
) -> FieldReference:
    """v_r(t, q) under which the error e(q, q_d(t)) obeys edot = -Lambda e.

    In coordinates, e = q - q_d and qdot_r = qdot_d - Lambda (q - q_d) whatever the frame; on rotations and
    poses e is that of `configuration_error_at`.

    Parameters
    ----------
    frame : the frame of the components.
    trajectory : t -> q_d (nq,), a point of the manifold at every time; JAX-traceable.
    gain : Lambda, scalar, (n,) or (n, n), positive definite, 1/s.
    error : (q, q_d) -> (n,), zero where they agree and regular there; JAX-traceable.

    Raises
    ------
    ShapeError, NonFiniteError, GainError; PointError where q_d(0) is off the manifold.

    Source: [W] IV-A, with the sign of Lambda reversed: as printed, q_r = q_d + Lambda (q - q_d) diverges.
    """
    require_type("frame", frame, FrameField)
    _require_output("trajectory(t)", trajectory, (frame.ambient_dim,), ())
    with jax.ensure_compile_time_eval():
        start = trajectory(jnp.asarray(0.0))
        require_finite("trajectory(0)", start)
        require_admissible(frame, "trajectory(0)", np.asarray(start))

    def desired(t: jax.Array) -> jax.Array:
        """The point that trajectory(t) stands for; NaN where it is off the manifold."""
        q_d = jnp.asarray(trajectory(t), dtype=jnp.float64)
        return jnp.where(frame.near_at(q_d), frame.project_at(q_d), jnp.nan)

    if error is None:

        def error(q: jax.Array, q_d: jax.Array) -> jax.Array:
            return configuration_error_at(frame, q, q_d)

    nq = (frame.ambient_dim,)
    _require_output("error(q, q_d)", error, (frame.dim,), nq, nq)
    return _attractor(frame, lambda t, q: error(q, desired(t)), frame.dim, gain, None, None)


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
    tangential : w, (t, q) -> (n,); its part along the submanifold is followed (a limit cycle where the
        submanifold is a closed curve). None stays still on it.
    metric : J^+ = H^-1 J^T (J H^-1 J^T)^-1, the same vector field in every frame; None takes H = 1.

    Raises
    ------
    ShapeError, NonFiniteError, GainError, FrameError.

    Source: [W] Remark 6.
    """
    require_type("frame", frame, FrameField)
    size = _output_length("constraint(q)", constraint, frame.dim, (frame.ambient_dim,))
    return _attractor(frame, lambda t, q: constraint(q), size, gain, tangential, metric)


def task_reference(
    frame: FrameField,
    task: Callable[[jax.Array], jax.Array],
    trajectory: TimeCurve,
    gain: Any,
    tangential: TimeField | None = None,
    metric: Metric | None = None,
) -> FieldReference:
    """v_r(t, q) under which x(q) - x_d(t) decays: J v_r = xdot_d - Lambda (x - x_d).

    Parameters
    ----------
    frame : the frame of the components.
    task : x, q (nq,) -> (m,), m <= n; JAX-traceable.
    trajectory : t -> x_d (m,); JAX-traceable.
    gain : Lambda, scalar, (m,) or (m, m), positive definite, 1/s.
    tangential, metric : as for `submanifold_reference`.

    Raises
    ------
    ShapeError, NonFiniteError, GainError, FrameError.

    Source: [W] Remark 6.
    """
    require_type("frame", frame, FrameField)
    size = _output_length("task(q)", task, frame.dim, (frame.ambient_dim,))
    _require_output("trajectory(t)", trajectory, (size,), ())
    return _attractor(frame, lambda t, q: task(q) - trajectory(t), size, gain, tangential, metric)


def configuration_error_at(frame: FrameField, q: jax.Array, q_d: jax.Array) -> jax.Array:
    """Error of `q` from `q_d`, (n,), zero where they are the same configuration.

    Coordinates: q - q_d (angles are not wrapped). Unit quaternions: the rotation vector of R_d^T R, in
    desired body axes, of length at most pi. Poses: that, then R_d^T (p - p_d). Products: factor by factor.
    Other frames with nq > n: X(q_d)^+ (q - q_d), the first-order error.

    Parameters
    ----------
    frame : the frame.
    q, q_d : (nq,) points.
    """
    if isinstance(frame, ChangedFrame):
        return configuration_error_at(frame.base, q, q_d)
    if isinstance(frame, ProductFrame):
        factors = zip(frame.frames, frame.split_point(q), frame.split_point(q_d), strict=True)
        return jnp.concatenate([configuration_error_at(*factor) for factor in factors])
    if isinstance(frame, SO3Frame):
        return _rotation_vector(_relative_quaternion(q_d, q))
    if isinstance(frame, SE3Frame):
        rotation = _rotation_vector(_relative_quaternion(q_d[3:], q[3:]))
        return jnp.concatenate([rotation, rotation_matrix(q_d[3:]).T @ (q[:3] - q_d[:3])])
    if frame.dim == frame.ambient_dim:
        return q - q_d
    return frame.dual_at(q_d) @ (q - frame.align_at(q_d, q))


def _attractor(
    frame: FrameField, phi: TimeField, size: int, gain: Any, w: TimeField | None, metric: Metric | None
) -> FieldReference:
    """The field with d/dt phi = -Lambda phi along it, of least norm but for its part along w."""
    Lambda = gain_matrix("gain", gain, size)
    if w is not None:
        _require_output("tangential(t, q)", w, (frame.dim,), (), (frame.ambient_dim,))
    if metric is not None:
        require_type("metric", metric, Metric)
        require_same_frame(frame, "the reference", metric.frame, "the metric")

    def field(t: jax.Array, q: jax.Array) -> jax.Array:
        value, drift = jax.jvp(lambda time: phi(time, q), (t,), (jnp.ones_like(t),))
        J = jax.jacfwd(phi, argnums=1)(t, q) @ frame.matrix_at(q)
        rate = -Lambda @ value - drift
        if size == frame.dim:
            return jnp.linalg.solve(J, rate)
        along = jnp.zeros(frame.dim) if w is None else w(t, q)
        weighted = J.T if metric is None else jnp.linalg.solve(metric.matrix_at(q), J.T)
        return along + weighted @ jnp.linalg.solve(J @ weighted, rate - J @ along)

    return FieldReference(frame, field)


def _relative_quaternion(a: jax.Array, b: jax.Array) -> jax.Array:
    """a^-1 b for unit quaternions (x, y, z, w), the representative with w >= 0."""
    q = quaternion_product(a * jnp.array([-1.0, -1.0, -1.0, 1.0]), b)
    return q * jnp.where(q[3] < 0.0, -1.0, 1.0)


def _rotation_vector(q: jax.Array) -> jax.Array:
    """Logarithm of a unit quaternion with w >= 0, smooth at the identity, (3,)."""
    square = q[:3] @ q[:3]
    small = square < 1e-6
    sine = jnp.sqrt(jnp.where(small, 1.0, square))
    series = 2.0 + square / 3.0 + 3.0 * square**2 / 20.0  # of 2 asin(x) / x in x^2
    return jnp.where(small, series, 2.0 * jnp.arctan2(sine, q[3]) / sine) * q[:3]


def _require_output(
    name: str, function: Callable[..., Any], expected: tuple[Any, ...], *inputs: tuple[Any, ...]
) -> None:
    """Raise `ShapeError` unless `function` maps float64 arrays of the input shapes to the expected shape."""
    got = _output_shape(name, function, inputs)
    if got != expected:
        raise ShapeError(name, expected, got)


def _output_length(name: str, function: Callable[..., Any], largest: int, *inputs: tuple[Any, ...]) -> int:
    """Length m of a vector function with 1 <= m <= largest."""
    got = _output_shape(name, function, inputs)
    if len(got) != 1 or not 1 <= got[0] <= largest:
        raise ShapeError(name, f"(m,) with 1 <= m <= {largest}", got)
    return got[0]


def _output_shape(name: str, function: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    called, _, given = name.partition("(")
    require_function(called, function, f"of ({given}")
    return shape_of(function, *inputs)


def _vector(name: str, value: Any, dim: int) -> jax.Array:
    array = as_array(name, value, (dim,))
    if array.ndim != 1:
        raise ShapeError(name, (dim,), array.shape)
    require_finite(name, array)
    return jnp.asarray(array)
