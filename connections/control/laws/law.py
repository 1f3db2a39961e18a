"""Control laws of a closed loop: the methods that a loop calls, and laws that are functions.

A law gives tau(q, v, v_r, a_r) at one point. Whatever it is, V of tracking and its rate are

    V = (1/2) s^T H s,        Vdot = s^T (tau + f - (H vdot_r + C v_r + g)),        s = v - v_r,

H, C, g, f of the plant, C of a connection that is compatible with H: s^T (Hdot - 2 C) s = 0. So a law says
nothing about them. Source: [W] IV-A, the steps before (14).
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import Any

import jax

from connections._jax import Array, ArrayLike
from connections.checks import as_result, require_type
from connections.control.laws.references import require_output
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.describing import Described
from connections.evaluation.parameters import Parametrized, with_parameters
from connections.geometry import FrameField


class ControlLaw(Described, Parametrized, abc.ABC):
    """A control law without a state of its own, tau(q, v, v_r, a_r).

    A law is a frozen dataclass, ``@dataclass(frozen=True, eq=False, repr=False)``, that derives from this
    class and gives `torque_at`, and `frame` as a field or a property. Its floats and arrays are data of JAX.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import connections as cn
    >>> from connections import control
    >>> @dataclass(frozen=True, eq=False, repr=False)
    ... class Damper(control.ControlLaw):
    ...     frame: cn.FrameField
    ...     gain: float
    ...     def torque_at(self, q, v, v_r, a_r):
    ...         return -self.gain * (v - v_r)
    ...
    >>> Damper(cn.CoordinateFrame(2), 3.0).torque([0.0, 0.0], [1.0, 2.0], [2.0, 0.0], [0.0, 0.0])
    array([ 3., -6.])

    Source: [W] IV-A, with any law in the place of (13).
    """

    @abc.abstractmethod
    def torque_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> jax.Array:
        """The force tau (n,) at one point, covector components; JAX-traceable."""

    def torque(self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike) -> Array:
        """The force tau, (..., n), covector components in the frame.

        Parameters
        ----------
        q : (..., nq) configurations.
        v : (..., n) velocities, frame components.
        v_r, a_r : (..., n) reference velocity and the rate of its components along the motion.

        Raises
        ------
        ShapeError, NonFiniteError, and the errors of the law at q.
        """
        n = self.frame.dim
        vectors = (Argument(name, x, (n,)) for name, x in (("v", v), ("v_r", v_r), ("a_r", a_r)))
        return evaluate(self, self.torque_at, Argument("q", q, (self.frame.ambient_dim,)), *vectors)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the law is defined at q; one boolean. Here, whether the frame is."""
        valid: jax.Array = self.frame.valid_at(q)
        return valid

    def explain(self, q: ArrayLike) -> None:
        """Raise the error for a point that is not valid; here the frame's."""
        self.frame.explain(q)

    def require_torques(self) -> None:
        """Raise `ShapeError` unless `torque_at` returns n components."""
        n = (self.frame.dim,)
        name = f"torque_at(q, v, v_r, a_r) of {type(self).__name__}"
        require_output(name, self.torque_at, n, (self.frame.ambient_dim,), n, n, n)


@dataclass(frozen=True, eq=False, repr=False)
class FunctionLaw(ControlLaw):
    """A control law that is a function.

    Parameters
    ----------
    frame : the frame of velocities and forces.
    function : (q (nq,), v (n,), v_r (n,), a_r (n,)) -> tau (n,), covector components; JAX-traceable.
    parameters : optional, the last argument of `function` (`ParametricFunction`).

    Raises
    ------
    ShapeError : the function returns another shape than (n,). TypeError.

    Examples
    --------
    >>> import connections as cn
    >>> from connections import control
    >>> law = control.FunctionLaw(cn.CoordinateFrame(2), lambda q, v, v_r, a_r: -3.0 * (v - v_r))
    >>> law.torque([0.0, 0.0], [1.0, 2.0], [2.0, 0.0], [0.0, 0.0])
    array([ 3., -6.])

    Source: [W] IV-A, with any law in the place of (13).
    """

    frame: FrameField
    function: Callable[..., jax.Array]
    parameters: InitVar[Any] = None

    def __post_init__(self, parameters: Any) -> None:
        require_type("frame", self.frame, FrameField, "write FunctionLaw(frame, function)")
        object.__setattr__(self, "function", with_parameters(self.function, parameters))
        n = (self.frame.dim,)
        require_output("function(q, v, v_r, a_r)", self.function, n, (self.frame.ambient_dim,), n, n, n)

    def torque_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> jax.Array:
        """The function's value (n,)."""
        return as_result("function(q, v, v_r, a_r)", self.function(q, v, v_r, a_r))
