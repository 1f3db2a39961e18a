"""A robot as a mechanical system whose functions are the recursions, so that JAX compiles nothing.

Under tracing, the recursions are operations inside JAX's compiled functions. The first derivatives of a
tree's accelerations are computed by recursion, all other derivatives by the definition
(`recursive_connection.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.contorsion import ContorsionConnection, ContorsionFamily
from connections.affine.motions.flow import Flow, State
from connections.affine.motions.host_motions import HostMotion, on_host
from connections.checks import (
    NonFiniteError,
    ShapeError,
    as_array,
    as_number,
    is_traced,
    require_finite,
    require_shape,
)
from connections.coriolis import MechanicalSystem
from connections.evaluation.boundary import as_given
from connections.evaluation.parameters import Parametrized
from connections.geometry.rigid.twists import force_cross, motion_cross
from connections.multibody.as_geometry.host_robot import HostRobot
from connections.multibody.as_geometry.recursive_connection import Definitions, forward_dynamics_of

if TYPE_CHECKING:
    from connections.coriolis.system import Forces
    from connections.multibody.as_geometry.recursive_connection import RecursiveConnection


class Robot(Definitions, Protocol):
    """The part of a `Model` that is used here."""

    @property
    def connection(self) -> RecursiveConnection:
        """The connection by recursion."""

    @property
    def gravity(self) -> tuple[float, float, float]:
        """(3,) m/s^2."""

    def potential_at(self, q: jax.Array) -> jax.Array:
        """Potential energy of gravity."""


class RobotSystem(MechanicalSystem):
    """A robot under gravity: H vdot + C v + g = tau, C = C* + gamma (C_x - C*) + sum beta S^T (S v x) S.

    C* belongs to the Levi-Civita connection, C_x to the body-level factor (v x*) I. All of these matrices are
    admissible: the difference of two is skew and vanishes on v, whatever inertias it is computed with.

    Parameters
    ----------
    model : the robot.
    gamma : the share of C_x - C*.
    beta : (C(nv, 3),) constant members of [W] (12) to add, i < j < k lexicographic; None for none.

    Raises
    ------
    ShapeError, NonFiniteError, TypeError.

    Source: [W] eq. (12); [E] eq. (11).
    """

    model: Robot
    gamma: float
    beta: np.ndarray | None

    def __init__(self, model: Robot, gamma: float = 0.0, beta: Any = None) -> None:
        nabla, gamma = model.connection, as_number("gamma", gamma)
        if beta is not None:
            family = ContorsionFamily(nabla.metric)
            beta = np.array(as_array("beta", beta, (family.dimension,)))
            if beta.ndim != 1:
                raise ShapeError("beta", (family.dimension,), beta.shape)
            require_finite("beta", beta)
        for name, value in (("model", model), ("gamma", gamma), ("beta", beta)):
            object.__setattr__(self, name, value)
        torsion = gamma != 0.0 or beta is not None
        connection = ContorsionConnection(nabla.metric, _Contorsion(model, gamma, beta)) if torsion else nabla
        super().__init__(nabla.metric, potential=model.potential_at, connection=connection)

    # --- the public functions; the recursions validate their arguments ------------------------------------

    def mass_matrix(self, q: Any) -> Any:
        """H(q), (..., n, n); see `MechanicalSystem`."""
        return self._by_recursion(partial(self._call, "mass_matrix"), super().mass_matrix, q)

    def coriolis_matrix(self, q: Any, v: Any) -> Any:
        """C(q, v), (..., n, n); see `MechanicalSystem`."""
        return self._by_recursion(self._coriolis_matrix, super().coriolis_matrix, q, v=v)

    def bias(self, q: Any, v: Any) -> Any:
        """C(q, v) v, (..., n), the same for all C of the robot; see `MechanicalSystem`."""
        return self._by_recursion(self._bias, super().bias, q, v=v)

    def gravity(self, q: Any) -> Any:
        """g(q), (..., n); see `MechanicalSystem`."""
        return self._by_recursion(partial(self._call, "gravity"), super().gravity, q)

    def inverse_dynamics(self, q: Any, v: Any, a: Any) -> Any:
        """tau = H a + C v + g, (..., n); see `MechanicalSystem`."""
        return self._by_recursion(
            partial(self._call, "inverse_dynamics"), super().inverse_dynamics, q, v=v, a=a
        )

    def reference_force(self, q: Any, v: Any, v_r: Any, a_r: Any) -> Any:
        """H a_r + C(q, v) v_r + g, (..., n), in O(N) without beta; see `MechanicalSystem`."""
        return self._by_recursion(self._reference_force, super().reference_force, q, v=v, v_r=v_r, a_r=a_r)

    def momentum(self, q: Any, v: Any) -> Any:
        """p = H v, (..., n), without forming H; see `MechanicalSystem`."""
        return self._by_recursion(self._momentum, super().momentum, q, v=v)

    def momentum_rate(self, q: Any, v: Any, t: Any = 0.0) -> Any:
        """C^T v - g, (..., n), the same for all C of the robot; see `MechanicalSystem`."""
        if not _is_time(t):
            return super().momentum_rate(q, v, t)
        return self._by_recursion(self._momentum_rate, super().momentum_rate, q, v=v)

    def forward_dynamics(self, q: Any, v: Any, tau: Any, t: Any = 0.0) -> Any:
        """vdot = H^-1 (tau - C v - g), (..., n); see `MechanicalSystem`. It does not depend on time."""
        if not _is_time(t):
            return super().forward_dynamics(q, v, tau, t)
        return self._by_recursion(
            partial(self._call, "forward_dynamics"), super().forward_dynamics, q, v=v, tau=tau
        )

    def forward_dynamics_at(self, q: jax.Array, v: jax.Array, tau: jax.Array, t: Any = 0.0) -> jax.Array:
        """vdot (n,) under generalized forces tau; for a tree by one recursion. It does not depend on time."""
        if self.model.closed:
            return super().forward_dynamics_at(q, v, tau, t)
        acceleration: jax.Array = self._accelerated(q, v, tau)
        return acceleration

    def host_motion(self, control: Forces | None) -> HostMotion:
        """The motion under gravity and control by the recursions."""
        host = self._host
        if control is None:
            return host.free_motion()
        force = on_host(control, (self.model.kinematics.nv,), "control(t, q, v)")
        return HostMotion(host, lambda t, q, v, out: host.acceleration(q, v, force(t, q, v), out))

    def _flow(self, control: Forces | None, max_step: Any) -> Flow[State]:
        """The motions under `control`; the rates of a tree are those of `forward_dynamics_at`."""
        flow = super()._flow(control, max_step)
        if self.model.closed:
            return flow

        def rate(t: jax.Array, state: State, *given: jax.Array) -> State:
            q, v = state
            tau = jnp.zeros_like(v)
            if control is not None:
                tau = require_shape("control(t, q, v)", control(t, q, v), v.shape)
            return self.metric.frame.matrix_at(q) @ v, self.forward_dynamics_at(q, v, tau)

        return replace(flow, rate=rate)

    @cached_property
    def _accelerated(self) -> Callable[..., jax.Array]:
        definition = self.model.definition.system.forward_dynamics_at
        return forward_dynamics_of(self.model, self.model.gravity, definition)

    @cached_property
    def _host(self) -> HostRobot:
        return HostRobot(self.model.kinematics, self.model.program)

    @cached_property
    def _still(self) -> np.ndarray:
        return np.zeros(self.frame.dim)

    @cached_property
    def _beta_part(self) -> np.ndarray:
        """D (n, n, n) of beta; C contains -D_ijk v^j."""
        return np.asarray(ContorsionFamily(self.metric).contorsion_of(self.beta))

    def _bias(self, q: Any, v: Any) -> np.ndarray:
        return self._call("coriolis_product", q, v, v, "christoffel")

    def _coriolis_matrix(self, q: Any, v: Any) -> np.ndarray:
        C = self._with_gamma("coriolis_matrix", q, v)
        if self.beta is not None:
            C -= np.einsum("ijk,...j->...ik", self._beta_part, v)
        return C

    def _reference_force(self, q: Any, v: Any, v_r: Any, a_r: Any) -> np.ndarray:
        product = self._with_gamma("coriolis_product", q, v, v_r)
        if self.beta is not None:
            product -= np.einsum("ijk,...j,...k->...i", self._beta_part, v, v_r)
        force: np.ndarray = self._call("inverse_dynamics", q, self._still, a_r) + product
        return force

    def _momentum(self, q: Any, v: Any) -> np.ndarray:
        p: np.ndarray = self.model.weightless.program.functions["inverse_dynamics"](q, self._still, v, None)
        return p

    def _momentum_rate(self, q: Any, v: Any) -> np.ndarray:
        functions = self.model.program.functions
        product: np.ndarray = functions["coriolis_transpose_product"](q, v, v, "christoffel", None)
        product -= functions["gravity"](q, None)
        return product

    def _with_gamma(self, name: str, *given: Any) -> np.ndarray:
        """The result of a recursion that is linear in C, for C* + gamma (C_x - C*)."""
        star = self._call(name, *given, "christoffel")
        if self.gamma == 0.0:
            return star
        mixed: np.ndarray = star + self.gamma * (self._call(name, *given, "force_cross") - star)
        return mixed

    def _by_recursion(
        self, recursion: Callable[..., Any], definition: Callable[..., Any], q: Any, **vectors: Any
    ) -> Any:
        """A recursion of arrays with values, the definition of tracers; arrays of JAX give arrays of JAX."""
        given = q, *vectors.values()
        try:
            for value in given:
                if type(value) is not np.ndarray:
                    break
            else:  # all are NumPy arrays, which control loops pass: there is nothing to convert
                return recursion(*given)
            if is_traced(*given):
                return definition(*given)
            return as_given(recursion(*map(_plain, given)), *given)
        except (ShapeError, NonFiniteError, TypeError):
            for name, value in vectors.items():  # recursions have other names for some of them
                require_finite(name, as_array(name, value, (self.frame.dim,)))
            raise

    def _call(self, name: str, *given: Any) -> np.ndarray:
        """A recursion of q, its vectors and what is chosen."""
        result: np.ndarray = self.model.program.functions[name](*given, None)
        return result


class _Contorsion(Parametrized):
    """The contorsion of C* + gamma (C_x - C*) + sum beta S^T (S v x) S, q (nq,) -> D (nv, nv, nv)."""

    def __init__(self, model: Robot, gamma: float, beta: np.ndarray | None) -> None:
        self.model, self.gamma, self.beta = model, gamma, beta

    def __call__(self, q: jax.Array) -> jax.Array:
        """C_x - C* of a body is 1/2 (I (v x w) + v x* I w - w x* I v), v and w columns of its Jacobian."""
        inertias = self.model.kinematics.tree.inertias
        A = jnp.swapaxes(self.model.kinematics.body_jacobians_at(q), -1, -2)  # (N, nv, 6)
        v, w = A[:, :, None], A[:, None]
        momenta = jnp.einsum("nab,njb->nja", inertias, A)
        moved = jnp.einsum("nab,njkb->njka", inertias, motion_cross(v, w))
        turned = force_cross(v, momenta[:, None]) - force_cross(w, momenta[:, :, None])
        D = -self.gamma / 2 * jnp.einsum("nia,njka->ijk", A, moved + turned)
        if self.beta is None:
            return D
        return D + ContorsionFamily(self.model.connection.metric).contorsion_of_at(jnp.asarray(self.beta))


def _is_time(t: Any) -> bool:
    """Whether t is one finite number, on which nothing depends here; others are left to the definition."""
    return isinstance(t, int | float) and isfinite(t)


def _plain(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, jax.Array) else value
