"""A robot as a mechanical system whose functions are the recursions, so that JAX compiles nothing.

Where JAX traces, they are the recursions inside JAX (`in_jax`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
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
from connections.affine.motions.units import Momenta, energy_of, momenta_of
from connections.affine.symmetry import GroupAction
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
from connections.engines.arguments import InputRefused
from connections.evaluation.boundary import as_given
from connections.evaluation.content import ByContent, content
from connections.evaluation.parameters import Parametrized
from connections.multibody.as_geometry.host_robot import HostRobot
from connections.multibody.as_geometry.recursive_connection import Definitions, RecursiveConnection
from connections.multibody.as_geometry.robot_steps import RobotSteps
from connections.multibody.definition.recursions import body_contorsion_at
from connections.multibody.definition.robot_definition import Embedded

if TYPE_CHECKING:
    from connections.coriolis.system import Forces


class SystemRobot(Definitions, Embedded, Protocol):
    """The part of a `Model` that is used here."""

    @property
    def connection(self) -> RecursiveConnection:
        """The connection by recursion."""

    @property
    def gravity(self) -> tuple[float, float, float]:
        """(3,) m/s^2."""


class RobotSystem(ByContent, MechanicalSystem):
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

    model: SystemRobot
    gamma: float
    beta: np.ndarray | None

    def __init__(self, model: SystemRobot, gamma: float = 0.0, beta: Any = None) -> None:
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

    @cached_property
    def _content(self) -> Hashable:
        return tuple(map(content, (self.model, self.gamma, self.beta)))

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

    def inverse_dynamics(self, q: Any, v: Any, a: Any, t: Any = 0.0) -> Any:
        """tau = H a + C v + g, (..., n); see `MechanicalSystem`. It does not depend on time."""
        if not _is_time(t):
            return super().inverse_dynamics(q, v, a, t)
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

    # --- one point, JAX-traceable ---------------------------------------------------------------------------

    def coriolis_matrix_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """C(q, v), (n, n)."""
        C: jax.Array = self._at("coriolis_matrix", q, v) - self._of_beta("ijk,j->ik", v)
        return C

    def bias_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """C(q, v) v, (n,)."""
        return self.model.traced("coriolis_product", q, v, v)

    def gravity_at(self, q: jax.Array) -> jax.Array:
        """g(q), (n,)."""
        return self.model.traced("gravity", q)

    def inverse_dynamics_at(self, q: jax.Array, v: jax.Array, a: jax.Array, t: Any = 0.0) -> jax.Array:
        """H a + C v + g, (n,). It does not depend on time."""
        return self.model.traced("inverse_dynamics", q, v, a)

    def reference_force_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> jax.Array:
        """H a_r + C(q, v) v_r + g, (n,)."""
        force = self.model.traced("inverse_dynamics", q, jnp.zeros_like(a_r), a_r)
        product: jax.Array = self._at("coriolis_product", q, v, v_r) - self._of_beta("ijk,j,k->i", v, v_r)
        return force + product

    def momentum_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """p = H v, (n,)."""
        return self.model.traced.weightless("mass_product", q, v)

    def coriolis_transpose_product_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """C(q, v)^T v, (n,)."""
        return self.model.traced("coriolis_transpose_product", q, v, v)

    def forward_dynamics_at(self, q: jax.Array, v: jax.Array, tau: jax.Array, t: Any = 0.0) -> jax.Array:
        """vdot (n,) under generalized forces tau. It does not depend on time."""
        return self.model.traced("forward_dynamics", q, v, tau)

    def _at(self, name: str, *vectors: jax.Array) -> jax.Array:
        """A recursion that is linear in C, for C* + gamma (C_x - C*)."""
        star = self.model.traced(name, *vectors)
        if isinstance(self.connection, RecursiveConnection):  # gamma itself may be what JAX traces
            return star
        return star + self.gamma * (self.model.traced(name, *vectors, chosen=("force_cross",)) - star)

    def _of_beta(self, product: str, *vectors: jax.Array) -> Any:
        """D of beta times vectors."""
        return 0.0 if self.beta is None else jnp.einsum(product, self._beta_part, *vectors)

    def _variational_steps(self, control: Forces | None) -> RobotSteps:
        """The variational steps under gravity and control by the recursion."""
        return RobotSteps(self, self.model, control)

    def _momenta_of(self, symmetry: GroupAction) -> Momenta:
        """The momenta of a symmetry; the motion is that of the Levi-Civita connection, whatever C is."""
        return momenta_of(self.model.connection, self.metric, symmetry)

    def host_motion(self, control: Forces | None) -> HostMotion:
        """The motion under gravity and control by the recursions."""
        host = self._host
        if control is None:
            return host.free_motion()
        force = on_host(control, (self.model.kinematics.nv,), "control(t, q, v)")

        def driven(t: float, q: np.ndarray, v: np.ndarray, out: np.ndarray) -> None:
            tau = force(t, q, v)
            try:
                host.acceleration(q, v, tau, out)
            except InputRefused:
                if np.isfinite(tau).all():
                    raise
                out[:] = np.nan  # so that the step is shortened; the recursion does not know the control

        return HostMotion(host, driven)

    def _flow(self, control: Forces | None) -> Flow[State]:
        """The motions under `control`, by `forward_dynamics_at`."""
        flow = super()._flow(control)

        def rate(t: jax.Array, state: State, *given: jax.Array) -> State:
            q, v = state
            tau = jnp.zeros_like(v)
            if control is not None:
                tau = require_shape("control(t, q, v)", control(t, q, v), v.shape)
            return self.metric.frame.matrix_at(q) @ v, self.forward_dynamics_at(q, v, tau)

        # The motion is that of the Levi-Civita connection, whatever C is.
        free, kept = self.model.connection, None
        if control is None:
            kept = energy_of(free, free.metric, self._height_at)
        return replace(flow, rate=rate, conserved=kept)

    def _height_at(self, q: jax.Array) -> jax.Array:
        """The potential energy by recursion, not by its definition, which takes longer to compile."""
        if not self._weight.any():  # bodies without mass have no centre
            return jnp.zeros(())
        return -(jnp.asarray(self._weight) @ self.model.traced("center_of_mass", q))

    @cached_property
    def _host(self) -> HostRobot:
        return HostRobot(self.model.kinematics, self.model.program, self._weight)

    @cached_property
    def _weight(self) -> np.ndarray:
        """The weight of all bodies, (3,) N, in world axes."""
        return self.model.kinematics.tree.mass * np.array(self.model.gravity)

    @cached_property
    def _still(self) -> np.ndarray:
        return np.zeros(self.frame.dim)

    @cached_property
    def _beta_part(self) -> np.ndarray:
        """D (n, n, n) of beta; C contains -D_ijk v^j."""
        with jax.ensure_compile_time_eval():  # it is constant, also where JAX traces
            return np.asarray(ContorsionFamily(self.metric).contorsion_of(self.beta))

    def _bias(self, q: Any, v: Any) -> np.ndarray:
        return self._call("coriolis_product", q, v, v, chosen="christoffel")

    def _coriolis_matrix(self, q: Any, v: Any) -> np.ndarray:
        C = self._with_gamma("coriolis_matrix", q, v)
        if self.beta is not None:
            C -= np.einsum("ijk,...j->...ik", self._beta_part, v)
        return C

    def _reference_force(self, q: Any, v: Any, v_r: Any, a_r: Any) -> np.ndarray:
        q = self.model.program.solved_once(q)
        product = self._with_gamma("coriolis_product", q, v, v_r)
        if self.beta is not None:
            product -= np.einsum("ijk,...j,...k->...i", self._beta_part, v, v_r)
        force: np.ndarray = self._call("inverse_dynamics", q, self._still, a_r) + product
        return force

    def _momentum(self, q: Any, v: Any) -> np.ndarray:
        p: np.ndarray = self.model.weightless.program.functions["inverse_dynamics"](
            q, self._still, v, (), None
        )
        return p

    def _momentum_rate(self, q: Any, v: Any) -> np.ndarray:
        functions, q = self.model.program.functions, self.model.program.solved_once(q)
        product: np.ndarray = functions["coriolis_transpose_product"](q, v, v, "christoffel", None)
        product -= functions["gravity"](q, (), None)
        return product

    def _with_gamma(self, name: str, q: Any, *vectors: Any) -> np.ndarray:
        """The result of a recursion that is linear in C, for C* + gamma (C_x - C*)."""
        if self.gamma == 0.0:
            return self._call(name, q, *vectors, chosen="christoffel")
        q = self.model.program.solved_once(q)
        star = self._call(name, q, *vectors, chosen="christoffel")
        mixed: np.ndarray = star + self.gamma * (self._call(name, q, *vectors, chosen="force_cross") - star)
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

    def _call(self, name: str, *given: Any, chosen: Any = ()) -> np.ndarray:
        """A recursion of q, its vectors and what is chosen."""
        result: np.ndarray = self.model.program.functions[name](*given, chosen, None)
        return result


class _Contorsion(Parametrized):
    """The contorsion of C* + gamma (C_x - C*) + sum beta S^T (S v x) S, q (nq,) -> D (nv, nv, nv)."""

    def __init__(self, model: SystemRobot, gamma: float, beta: np.ndarray | None) -> None:
        self.model, self.gamma, self.beta = model, gamma, beta

    def __call__(self, q: jax.Array) -> jax.Array:
        """The 3-form of the bodies, and that of beta."""
        if self.model.closed:  # whose symbols have no short derivatives
            D = self.gamma * body_contorsion_at(self.model, q)
        else:
            symbols = partial(self.model.traced, "christoffel_symbols", q)
            D = self.gamma * (symbols() - symbols(chosen=("force_cross",)))
        if self.beta is None:
            return D
        return D + ContorsionFamily(self.model.connection.metric).contorsion_of_at(jnp.asarray(self.beta))


class PassiveForces(Parametrized):
    """The forces of a robot's springs and dampers, (t, q, v) -> tau (nv,)."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, t: Any, q: jax.Array, v: jax.Array) -> jax.Array:
        """`Model.passive_forces_at`."""
        found: jax.Array = self.model.passive_forces_at(q, v)
        return found


def _is_time(t: Any) -> bool:
    """Whether t is one finite number, on which nothing depends here; others are left to the definition."""
    return isinstance(t, int | float) and isfinite(t)


def _plain(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, jax.Array) else value
