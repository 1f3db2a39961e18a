"""Reference velocities: what the passivity-based law follows.

A reference gives v_r, the frame components of a time-varying vector field, and vdot_r, the time derivative of
those components along the motion: ``vdot_r = d/dt v_r(q(t), t)`` with ``qdot = X(q) v``, by one
Jacobian-vector product in (t, q), hence exact. `attractors` has fields that drive an error to zero; the
reference of the acceleration level is integrated instead.
Source: [W] IV-A and Remark 6.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import Any

import jax
import jax.numpy as jnp

from connections._jax import Array, ArrayLike
from connections.checks import (
    ShapeError,
    as_result,
    require_finite,
    require_function,
    require_shape,
    require_type,
)
from connections.control.laws.gains import gain_matrix, one_vector
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.compilation import shape_of
from connections.evaluation.parameters import Parametrized, with_parameters
from connections.geometry import FrameField, Metric
from connections.geometry.curves import require_within
from connections.geometry.numerics.scales import inverse_lengths_of


class Reference(Parametrized, abc.ABC):
    """A reference velocity, its rate along the motion, and the state it integrates (possibly none).

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import control
    >>> frame = cn.CoordinateFrame(1)
    >>> reference = control.submanifold_reference(frame, lambda q: q - 1.0, gain=2.0)
    >>> isinstance(reference, control.Reference)
    True
    >>> reference.pair_at(0.0, np.array([0.5]), np.array([3.0]), np.zeros(0))  # v_r and its rate
    (Array([1.], dtype=float64), Array([-6.], dtype=float64))
    """

    frame: FrameField

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether q is a point at which the frame is valid; one boolean."""
        return self.frame.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
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

    def state_units_at(self, metric: Metric, q: jax.Array, state: jax.Array) -> jax.Array:
        """The units of the components of the state (m,): here as if all were of one unit."""
        return jnp.ones_like(state)

    def desired_at(self, t: jax.Array) -> jax.Array | None:
        """The desired configuration (nq,); None if what is followed is no trajectory of configurations."""
        return None

    def error_at(self, t: jax.Array, q: jax.Array) -> jax.Array | None:
        """The error (m,) that the reference drives to zero; None if it has no such function."""
        return None

    def require_times(self, name: str, times: ArrayLike) -> None:
        """Raise `PointError` for a time at which there is nothing to follow; here there is none.

        Parameters
        ----------
        name : how the caller calls the times.
        times : (...), s.
        """


@dataclass(frozen=True, eq=False)
class FieldReference(Reference):
    """A time-varying vector field v_r(t, q) as the reference.

    Parameters
    ----------
    frame : the frame of the components.
    field : (t, q (nq,)) -> v_r (n,) frame components; JAX-traceable.
    parameters : optional, the last argument of `field` (`ParametricFunction`).
    span : the first and the last time, s, if the field follows samples; None if there is no end.
    desired : optional, t -> q_d (nq,), the desired configuration. Motions of closed loops record it.
    error : optional, (t, q) -> (m,), what the field drives to zero. Motions of closed loops record it.

    Raises
    ------
    ShapeError : the field returns another shape than (n,), `desired` than (nq,), `error` no vector.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections import control
    >>> frame = cn.CoordinateFrame(2)
    >>> whirl = control.FieldReference(frame, lambda t, q: jnp.stack([-q[1], q[0]]))
    >>> whirl.field(0.0, jnp.array([1.0, 2.0]))
    Array([-2.,  1.], dtype=float64)

    Source: [W] IV-A, Remark 6.
    """

    frame: FrameField
    field: Callable[..., jax.Array]
    parameters: InitVar[Any] = None
    span: tuple[Any, Any] | None = None
    desired: Callable[..., jax.Array] | None = None
    error: Callable[..., jax.Array] | None = None

    def __post_init__(self, parameters: Any) -> None:
        require_type("frame", self.frame, FrameField)
        if self.span is not None:
            require_finite("span", require_shape("span", self.span, (2,)))
        object.__setattr__(self, "field", with_parameters(self.field, parameters))
        nq = (self.frame.ambient_dim,)
        require_output("field(t, q)", self.field, (self.frame.dim,), (), nq)
        if self.desired is not None:
            require_output("desired(t)", self.desired, nq, ())
        if self.error is not None:
            output_length("error(t, q)", self.error, None, (), nq)

    def desired_at(self, t: jax.Array) -> jax.Array | None:
        """q_d(t), (nq,)."""
        return None if self.desired is None else as_result("desired(t)", self.desired(t))

    def error_at(self, t: jax.Array, q: jax.Array) -> jax.Array | None:
        """The error (m,) that the field drives to zero; None if none was given."""
        return None if self.error is None else as_result("error(t, q)", self.error(t, q))

    def initial_state(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """No state: shape (0,)."""
        return jnp.zeros(0)

    def velocity_at(self, t: jax.Array, q: jax.Array, state: jax.Array) -> jax.Array:
        """v_r(t, q), (n,)."""
        return self._field_at(t, q)

    def acceleration_at(self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array) -> jax.Array:
        """d_t v_r + L_v v_r, (n,): the components' rate with qdot = X(q) v."""
        return self.pair_at(t, q, v, state)[1]

    def pair_at(
        self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """(v_r, vdot_r) by one Jacobian-vector product in (t, q)."""
        tangent = (jnp.ones_like(t), self.frame.matrix_at(q) @ v)
        return jax.jvp(self._field_at, (t, q), tangent)

    def state_rate_at(self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array) -> jax.Array:
        """No state: shape (0,)."""
        return jnp.zeros(0)

    def require_times(self, name: str, times: ArrayLike) -> None:
        """Raise `PointError` for a time outside of the trajectory's samples."""
        if self.span is not None:
            require_within(name, times, self.span, "the trajectory's samples")

    def velocity(self, t: ArrayLike, q: ArrayLike) -> Array:
        """v_r, (..., n) frame components.

        Parameters
        ----------
        t : (...) time, s.
        q : (..., nq) points.

        Raises
        ------
        ShapeError, NonFiniteError, the errors of the frame; PointError : a time outside of a trajectory's
        samples.
        """
        self.require_times("t", t)
        return evaluate(self, self._velocity_of_point_at, *self._at(t, q))

    def acceleration(self, t: ArrayLike, q: ArrayLike, v: ArrayLike) -> Array:
        """vdot_r along the motion, (..., n) frame components.

        Parameters
        ----------
        t : (...) time, s.
        q : (..., nq) points.
        v : (..., n) velocity of the motion, frame components.

        Raises
        ------
        As `velocity`.
        """
        self.require_times("t", t)

        return evaluate(
            self, self._acceleration_of_point_at, *self._at(t, q), Argument("v", v, (self.frame.dim,))
        )

    def _velocity_of_point_at(self, q: jax.Array, t: jax.Array) -> jax.Array:
        return self._field_at(t, q)

    def _field_at(self, t: jax.Array, q: jax.Array) -> jax.Array:
        return as_result("field(t, q)", self.field(t, q))

    def _acceleration_of_point_at(self, q: jax.Array, t: jax.Array, v: jax.Array) -> jax.Array:
        return self.acceleration_at(t, q, v, jnp.zeros(0))

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

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import control
    >>> frame = cn.CoordinateFrame(1)
    >>> spring = lambda t, q, v: 4.0 * (1.0 - q) - 2.0 * v
    >>> reference = control.AccelerationReference(frame, spring, gain=5.0)
    >>> reference.acceleration_at(0.0, np.array([0.5]), np.array([0.2]), np.array([0.4]))  # -5 * 0.2 + 1.6
    Array([0.6], dtype=float64)

    Source: [W] Remark 6.
    """

    frame: FrameField
    acceleration: Callable[..., jax.Array]
    gain: Any
    initial: Any = None
    parameters: InitVar[Any] = None

    def __post_init__(self, parameters: Any) -> None:
        require_type("frame", self.frame, FrameField)
        object.__setattr__(self, "acceleration", with_parameters(self.acceleration, parameters))
        n = self.frame.dim
        object.__setattr__(self, "gain", gain_matrix("gain", self.gain, n))
        require_output("acceleration(t, q, v)", self.acceleration, (n,), (), (self.frame.ambient_dim,), (n,))
        if self.initial is not None:
            object.__setattr__(self, "initial", one_vector("initial", self.initial, n))

    def initial_state(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """v_r at the start, (n,)."""
        return v if self.initial is None else self.initial

    def velocity_at(self, t: jax.Array, q: jax.Array, state: jax.Array) -> jax.Array:
        """v_r is the state, (n,)."""
        return state

    def acceleration_at(self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array) -> jax.Array:
        """-k (v_r - v) + a_d(t, q, v), (n,)."""
        pull: jax.Array = self.gain @ (state - v)
        return as_result("acceleration(t, q, v)", self.acceleration(t, q, v)) - pull

    def state_rate_at(self, t: jax.Array, q: jax.Array, v: jax.Array, state: jax.Array) -> jax.Array:
        """vdot_r, (n,)."""
        return self.acceleration_at(t, q, v, state)

    def state_units_at(self, metric: Metric, q: jax.Array, state: jax.Array) -> jax.Array:
        """The units 1 / |X_i| of v_r, (n,)."""
        return inverse_lengths_of(metric.matrix_at(q))


def require_output(
    name: str, function: Callable[..., Any], expected: tuple[Any, ...], *inputs: tuple[Any, ...]
) -> None:
    """Raise `ShapeError` unless `function` maps float64 arrays of the input shapes to the expected shape."""
    got = _output_shape(name, function, inputs)
    if got != expected:
        raise ShapeError(name, expected, got)


def output_length(
    name: str, function: Callable[..., Any], largest: int | None, *inputs: tuple[Any, ...]
) -> int:
    """Length m of a vector function with 1 <= m <= largest."""
    got = _output_shape(name, function, inputs)
    if len(got) != 1 or got[0] < 1 or (largest is not None and got[0] > largest):
        raise ShapeError(name, "(m,) with 1 <= m" + f" <= {largest}" * (largest is not None), got)
    return got[0]


def _output_shape(name: str, function: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[int, ...]:
    called, _, given = name.partition("(")
    require_function(called, function, f"of ({given}")
    return shape_of(name, function, *inputs)
