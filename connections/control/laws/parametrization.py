"""Systems linear in their parameters, and the regressor.

    H vdot_r + C v_r + g = known force + Y(q, v, v_r, vdot_r) pi

A law asks for the known force and the regressor of a `ParametrizedPlant`: of a family of systems, whose
regressor is the Jacobian in pi, exact because the force is linear in pi; or of a robot with `UnknownInertia`
(`payload.py`).
Source: Slotine and Li (1987); [W] IV-A.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from connections._jax import Array, ArrayLike
from connections.checks import Check, ShapeError, require_function, require_type
from connections.control.laws.gains import one_vector
from connections.coriolis import MechanicalSystem
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.parameters import Parametrized, unwrap
from connections.geometry import FrameField
from connections.geometry.numerics.scales import (
    FLOOR,
    inverse_lengths_of,
    lengths_of,
    worst,
    worst_check,
)


class ParametrizedPlant(abc.ABC):
    """A plant with p unknown parameters pi, as a law sees it: its frame, p, known force and regressor."""

    @property
    @abc.abstractmethod
    def frame(self) -> FrameField:
        """The frame of velocities and forces."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number p of parameters."""

    @abc.abstractmethod
    def regressor(self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike) -> Any:
        """Y, (..., n, p)."""

    def known_force(self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike) -> Any:
        """The part of the force that does not depend on pi, (..., n); here the whole force does."""
        return 0.0

    @abc.abstractmethod
    def regressor_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> jax.Array:
        """Y (n, p) at one point."""

    def known_force_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> Any:
        """The known force (n,) at one point."""
        return 0.0

    @abc.abstractmethod
    def plant(self, parameters: Any) -> MechanicalSystem:
        """The system with the parameters (p,)."""


@dataclass(frozen=True, eq=False)
class LinearlyParametrizedSystem(ParametrizedPlant, Parametrized):
    """A family of mechanical systems whose H, C and g are linear in p parameters.

    Parameters
    ----------
    make_system : pi (p,) -> MechanicalSystem, always in the same frame; JAX-traceable in pi.
    nominal : (p,) parameters at which the system is valid; the regressor does not depend on them.

    Raises
    ------
    ShapeError, NonFiniteError.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections import control
    >>> frame = cn.CoordinateFrame(2)
    >>> family = control.LinearlyParametrizedSystem(
    ...     lambda pi: cn.MechanicalSystem(cn.ConstantMetric(frame, jnp.diag(pi))), nominal=[1.0, 2.0]
    ... )
    >>> family.regressor([0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.5, 3.0])  # H = diag(pi)
    array([[0.5, 0. ],
           [0. , 3. ]])
    """

    make_system: Callable[[jax.Array], MechanicalSystem]
    nominal: Any
    _nominal_system: MechanicalSystem = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_function("make_system", self.make_system, "parameters (p,) -> MechanicalSystem")
        nominal = one_vector("nominal", self.nominal)
        if nominal.size == 0:
            raise ShapeError("nominal", "(p,) with p >= 1", nominal.shape)
        object.__setattr__(self, "nominal", nominal)
        object.__setattr__(self, "_nominal_system", self._made(self.nominal))

    @property
    def frame(self) -> FrameField:
        """The frame of every member."""
        return self._nominal_system.metric.frame

    @property
    def size(self) -> int:
        """The number p of parameters."""
        return int(self.nominal.size)

    def regressor_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> jax.Array:
        """Y (n, p) at one point: d/d pi of H a_r + C v_r + g."""
        Y: jax.Array = jax.jacfwd(self._force_at)(self.nominal, q, v, v_r, a_r)
        return Y

    def plant(self, parameters: Any) -> MechanicalSystem:
        """``make_system(parameters)``."""
        return self._made(one_vector("parameters", parameters, self.size))

    def _made(self, parameters: Any) -> MechanicalSystem:
        system: MechanicalSystem = unwrap(self.make_system)(parameters)
        require_type("make_system(parameters)", system, MechanicalSystem)
        return system

    def regressor(self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike) -> Array:
        """Y, (..., n, p), with H a_r + C(q, v) v_r + g = Y pi.

        Parameters
        ----------
        q : (..., nq) configurations.
        v, v_r, a_r : (..., n) velocity, reference velocity and its rate, frame components.

        Raises
        ------
        ShapeError, NonFiniteError, and the errors of frame and metric at q.

        Source: [W] IV-A, Slotine-Li regressor.
        """
        return evaluate(self, self.regressor_at, *self._arguments(q, v, v_r, a_r))

    def check_linear(
        self, q: ArrayLike, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike, tol: float = 1e-9
    ) -> Check:
        """Whether Y pi equals the force at the nominal parameters and at three times them.

        A force with a part that is constant in pi, or not linear, fails.
        """
        measured = evaluate(self, self._nonlinear_part_at, *self._arguments(q, v, v_r, a_r))
        return worst_check("linear in the parameters", measured, tol)

    def _nonlinear_part_at(self, q: jax.Array, *rest: jax.Array) -> tuple[jax.Array, jax.Array]:
        Y = self.regressor_at(q, *rest)
        scaled = [factor * self.nominal for factor in (1.0, 3.0)]
        gaps = jnp.stack([self._force_at(pi, q, *rest) - Y @ pi for pi in scaled])
        terms = jnp.abs(Y) @ jnp.abs(scaled[1])
        H = self._nominal_system.metric.matrix_at(q)
        allowed = lengths_of(H) * jnp.max(inverse_lengths_of(H) * terms)
        return worst(gaps, terms + FLOOR * allowed)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether frame and metric of the nominal system are valid at q; one boolean."""
        return self._nominal_system.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """Raise the error of the frame or the metric for a point that is not valid."""
        self._nominal_system.explain(q)

    def _force_at(
        self, pi: jax.Array, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array
    ) -> jax.Array:
        force: jax.Array = unwrap(self.make_system)(pi).reference_force_at(q, v, v_r, a_r)
        return force

    def _arguments(self, q: Any, v: Any, v_r: Any, a_r: Any) -> list[Argument]:
        n = self.frame.dim
        vectors = [Argument(name, x, (n,)) for name, x in (("v", v), ("v_r", v_r), ("a_r", a_r))]
        return [Argument("q", q, (self.frame.ambient_dim,)), *vectors]
