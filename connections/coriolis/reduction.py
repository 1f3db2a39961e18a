"""Reduction: the equations of a symmetric system without its group variables, and their reconstruction.

In an invariant basis of an invariant system every coefficient of vdot = Y u - Gamma(v, v) + ... is a function
of the shape r alone (Lemma 3.3), so that (r, v) moves by itself, rdot = (dr . X A)(r) v; the group variables
follow from qdot = X(q) A(q) v. Source: [Z] 3.3, Lemma 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Unpack

import jax
import jax.numpy as jnp

from connections._jax import Array, ArrayLike
from connections.affine.motions.flow import Flow, Record, State, Trajectories
from connections.affine.motions.motion import Motion
from connections.affine.motions.units import Conserved, Momenta, energy_of, momenta_of, motion_units
from connections.affine.symmetry import TOL, GroupAction, compared
from connections.checks import (
    Check,
    ShapeError,
    SymmetryError,
    as_result,
    require_function,
    require_shape,
    require_type,
)
from connections.coriolis.nonholonomic import TOLERANCE, NonholonomicSystem, require_no_drift
from connections.coriolis.system import Forces, MechanicalSystem
from connections.evaluation.boundary import Argument, admit_at, evaluate, require_admissible
from connections.evaluation.compilation import shape_of
from connections.evaluation.parameters import Parametrized, PytreePartial
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.frames import FrameField, PointFunction
from connections.geometry.metrics import Metric
from connections.geometry.numerics.scales import worst_check
from connections.integration.solver import Options, Solver

# Forces are sampled at times of all sizes [s] and both signs, to find those that begin later or are periodic.
_TIMES = (0.0, 0.0, 1e-3, 0.0317, 0.377, 1.13, -2.71, 7.9, 31.3, 263.0, 3.1e3, 1.7e9)


@dataclass(frozen=True, eq=False)
class ReducedSystem(Parametrized):
    """A symmetric system in shape coordinates r and the velocities v of an invariant basis.

    The symmetry of the system is assumed; `checks` measures it, and `require` raises an error without it.

    Parameters
    ----------
    system : a mechanical system, with v in its frame, or a nonholonomic one, with v in its basis.
    action : the group.
    shape : q (nq,) -> r (s,), coordinates that are invariant under the group; JAX-traceable.
    section : r (s,) -> q (nq,), a point of shape r; JAX-traceable.

    Raises
    ------
    ShapeError : shape or section do not return a vector of the right length. There has to be at least one
        shape coordinate, so the action must not be transitive.
    ConstraintError : the system has a drift.

    Examples
    --------
    A particle in a central field: its shape is the distance r, its symmetry the turns.

    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections.systems import translations
    >>> polar = lambda q: jnp.diag(jnp.array([1.0, q[0] ** 2]))  # q = (r, phi)
    >>> metric = cn.MatrixMetric(cn.CoordinateFrame(2), polar)
    >>> system = cn.MechanicalSystem(metric, lambda q: -1 / q[0])
    >>> turns = translations(2, (1,))
    >>> section = lambda r: jnp.append(r, 0.0)
    >>> reduced = cn.ReducedSystem(system, turns, lambda q: q[:1], section)
    >>> all(check.ok for check in reduced.checks([1.0, 0.3], [0.2]))
    True

    Source: [Z] Lemma 3.3.
    """

    system: MechanicalSystem | NonholonomicSystem
    action: GroupAction
    shape: PointFunction
    section: PointFunction
    shape_dim: int = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.system, NonholonomicSystem):
            require_no_drift("ReducedSystem", self.system)
        else:
            require_type("system", self.system, MechanicalSystem)
        require_type("action", self.action, GroupAction)
        require_function("shape", self.shape, "q (nq,) -> r (s,)")
        require_function("section", self.section, "r (s,) -> q (nq,)")
        nq = (self.frame.ambient_dim,)
        shape = shape_of("shape(q)", self.shape_at, nq)
        if len(shape) != 1 or shape[0] == 0:  # a transitive action has no shape coordinates
            raise ShapeError("shape coordinates", ("s, at least one",), shape)
        object.__setattr__(self, "shape_dim", shape[0])
        back = shape_of("section(r)", self.section_at, shape)
        if back != nq:
            raise ShapeError("section", nq, back)

    @property
    def frame(self) -> FrameField:
        """The invariant basis."""
        system = self.system
        return system.frame if isinstance(system, NonholonomicSystem) else system.metric.frame

    @property
    def controls(self) -> int:
        """The number of components of u: a nonholonomic system's controls, or n generalized forces."""
        system = self.system
        return system.controls if isinstance(system, NonholonomicSystem) else self.frame.dim

    @cached_property
    def shapes(self) -> ShapeSpace:
        """The space of the shapes."""
        return ShapeSpace(self)

    # --- the definition at one point ---------------------------------------------------------------------

    def shape_at(self, q: jax.Array) -> jax.Array:
        """The shape r of q, (s,)."""
        return as_result("shape(q)", self.shape(q))

    def section_at(self, r: jax.Array) -> jax.Array:
        """A point of shape r, (nq,)."""
        return as_result("section(r)", self.section(r))

    def rates_at(self, r: jax.Array, v: jax.Array, u: jax.Array, t: Any = 0.0) -> tuple[jax.Array, jax.Array]:
        """(rdot, vdot) at the section, (s,) and (m,)."""
        q = self.section_at(r)
        r_dot = jax.jvp(self.shape_at, (q,), (self.frame.matrix_at(q) @ v,))[1]
        return r_dot, self.system.forward_dynamics_at(q, v, u, t)

    # --- public functions ----------------------------------------------------------------------------------

    def rates(self, r: ArrayLike, v: ArrayLike, u: ArrayLike, t: ArrayLike = 0.0) -> tuple[Array, Array]:
        """(rdot, vdot), (..., s) and (..., m), at any point of shape r, as the symmetry makes all alike.

        Parameters
        ----------
        r : (..., s) shapes.
        v : (..., m) velocities in the invariant basis.
        u : (..., a) controls.
        t : (...,) time at which the system's own forces are evaluated [s].
        """
        arguments = [*self._arguments(r, v), Argument("u", u, (self.controls,)), Argument("t", t, ())]
        return evaluate(self.shapes, self.rates_at, *arguments)

    def checks(self, q: ArrayLike, g: ArrayLike, tol: float = TOL) -> tuple[Check, ...]:
        """The conditions of reduction: an invariant shape with a section; invariant basis, metric and forces.

        Forces are measured at a dozen times from -2.7 s to 1.7e9 s, each time at another velocity.

        Parameters
        ----------
        q, g : (..., nq) points and (..., k) elements of the group.
        tol : relative to the largest term of each property.

        Raises
        ------
        SymmetryError : the action is not a left action.
        """
        action, system = self.action, self.system
        metric = system.metric
        if isinstance(system, NonholonomicSystem):
            metric = system.connection.ambient_metric
        measured = [
            self._check_section(q, tol),
            action.check_invariant_function(self.shape, q, g, "shape", tol),
            action.check_invariant_frame(self.frame, q, g, tol),
            action.check_invariant_metric(metric, q, g, tol),
        ]
        if system.potential is not None:
            measured.append(action.check_invariant_function(system.potential, q, g, "potential", tol))
        if isinstance(system, NonholonomicSystem) and system.inputs is not None:
            measured.append(action.check_invariant_forms(system.inputs, metric.frame, q, g, "inputs", tol))
        if system.forces is not None:
            measured.append(
                action.check_invariant_forms(self._sampled_forces, metric.frame, q, g, "forces", tol)
            )
        return tuple(measured)

    def require(self, q: ArrayLike, g: Any, tol: float = TOL) -> ReducedSystem:
        """The reduced system itself, or `SymmetryError` with the name of the check that fails.

        Parameters
        ----------
        q, g, tol : as for `checks`.
        """
        for check in self.checks(q, g, tol):
            if not check.ok:
                raise SymmetryError(f"the system cannot be reduced by this group: {check} fails")
        return self

    def simulate(
        self,
        r0: ArrayLike,
        v0: ArrayLike,
        times: ArrayLike,
        control: Forces | None = None,
        **options: Unpack[Options],
    ) -> Motion:
        """The reduced motion from (r0, v0): ``r, v = reduced.simulate(...)``.

        Parameters
        ----------
        r0 : (..., s) initial shapes, at times[0].
        v0 : (..., m) initial velocities.
        times : (T,) strictly monotone [s].
        control : optional, (t, r, v) -> u (a,); JAX-traceable.
        options : as for `geodesic`; times in seconds.

        Returns
        -------
        Motion : q, which are the shapes r (..., T, s), and v (..., T, m). Tolerances are those of
            `NonholonomicSystem.simulate`.

        Raises
        ------
        IntegrationError : the motion leaves the domain; names the time and the shape.
        ValueError : an option is not positive. TypeError : there is no such option.
        """
        if control is not None:
            require_function("control", control, "(t, r, v) -> u (a,)")
        arguments = self._arguments(r0, v0, names=("r0", "v0"))
        solver = Solver.of("simulate", options, TOLERANCE / 2.0)
        recipe = PytreePartial(self._flow, control)
        return Trajectories.of(self.shapes).motion("simulate", recipe, arguments, times, solver)

    def reconstruct(
        self,
        q0: ArrayLike,
        v0: ArrayLike,
        times: ArrayLike,
        control: Forces | None = None,
        **options: Unpack[Options],
    ) -> Motion:
        """The motion of the whole system: the reduced motion, and qdot = X(q) A(q) v along it.

        Parameters
        ----------
        q0 : (..., nq) initial points, at times[0]; the reduced motion begins at their shape.
        v0, times, control, options : as for `simulate`.

        Returns
        -------
        Motion : q (..., T, nq), v (..., T, m).
        """
        if control is not None:
            require_function("control", control, "(t, r, v) -> u (a,)")
        arguments = (
            Argument("q0", q0, (self.frame.ambient_dim,)),
            Argument("v0", v0, (self.frame.dim,)),
        )
        solver = Solver.of("reconstruct", options, TOLERANCE / 2.0)
        recipe = PytreePartial(self._whole_flow, control)
        return Trajectories.of(self.system).motion("reconstruct", recipe, arguments, times, solver)

    # --- private -------------------------------------------------------------------------------------------

    def _timed(self, control: Forces | None) -> bool:
        return control is not None or self.system.forces is not None

    def _flow(self, control: Forces | None) -> Flow[State]:
        """The equations of reduced motions under `control`; the state is (r, V = A v)."""

        def start(r0: jax.Array, v0: jax.Array) -> tuple[jax.Array, jax.Array]:
            return r0, self._lift_at(r0) @ v0

        def rate(t: Any, state: Any, *given: jax.Array) -> Any:
            return self._moving_at(t, state[0], state[1], control)[1:]

        def terms(t: Any, state: Any, *given: jax.Array) -> tuple[jax.Array, jax.Array]:
            return self._sizes_at(t, state[0], state[1], control)

        def units(t0: Any, s: Any, state: Any, *given: jax.Array) -> tuple[jax.Array, jax.Array]:
            return self._units(state[0])

        def record(t: Any, state: Any, *given: jax.Array) -> Record[State]:
            return (state[0], self._components_at(*state)), state[0], jnp.asarray(True)

        more: dict[str, Any] = {"timed": self._timed(control), "conserved": self._energy(control)}
        return Flow(start, rate, record, units, terms=terms, **more)

    def _whole_flow(self, control: Forces | None) -> Flow[State]:
        """The equations of the whole system under `control`; the state is (r, V = A v, q)."""

        def start(q0: jax.Array, v0: jax.Array) -> tuple[Any, Any, Any]:
            r = self.shape_at(q0)
            return r, self._lift_at(r) @ v0, q0

        def rate(t: Any, state: tuple[Any, Any, Any], *given: jax.Array) -> tuple[Any, Any, Any]:
            r, V, point = state
            v, r_dot, V_dot = self._moving_at(t, r, V, control)
            return r_dot, V_dot, self.frame.matrix_at(point) @ v

        def terms(t: Any, state: tuple[Any, Any, Any], *given: jax.Array) -> tuple[Any, Any, Any]:
            r, V, point = state
            sizes = self._sizes_at(t, r, V, control)
            return *sizes, jnp.abs(self.frame.matrix_at(point) @ self._components_at(r, V))

        def project(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            return state[0], state[1], self.frame.project_at(state[2])

        def units(t0: Any, s: Any, state: tuple[Any, Any, Any], *given: jax.Array) -> tuple[Any, Any, Any]:
            r, _, point = state
            shape, velocity = self._units(r)
            return shape, velocity, jnp.abs(self._base.matrix_at(point)) @ velocity

        def record(t: Any, state: Any, *given: jax.Array) -> Record[State]:
            r, V, point = state
            return (point, self._components_at(r, V)), point, jnp.asarray(True)

        return Flow(
            start,
            rate,
            record,
            units,
            points=(0, 2),
            project=project,
            timed=self._timed(control),
            conserved=self._energy(control),
            momenta=self._momenta(control),
            terms=terms,
        )

    def _energy(self, control: Forces | None) -> Conserved | None:
        """(name, function) of the energy at the section, for `Flow.conserved`; None if it may change.

        The first two arrays of the state are r and V. Reduced equations of a system that lacks the assumed
        symmetry do not conserve the energy.
        """
        if self._timed(control):
            return None
        system = self.system
        if isinstance(system, NonholonomicSystem):
            conserved = energy_of(system.connection.ambient, self._metric, system.potential_at)
        else:
            assert system.connection is not None  # its constructor sets it
            conserved = energy_of(system.connection, self._metric, system.potential_at)
        if conserved is None:
            return None
        name, whole = conserved

        def energy(t0: Any, s: Any, state: Any, *given: jax.Array) -> tuple[Any, Any]:
            at: tuple[Any, Any] = whole(t0, s, (self.section_at(state[0]), state[1]))
            return at

        return f"{name} of a system with this symmetry (`require` measures it)", energy

    def _momenta(self, control: Forces | None) -> Momenta | None:
        """state -> the momenta that whole motions conserve; None if constraints or time may change them."""
        system = self.system
        if self._timed(control) or isinstance(system, NonholonomicSystem) or self._energy(control) is None:
            return None
        assert system.connection is not None  # its constructor sets it
        momenta = momenta_of(system.connection, self._metric, self.action)
        return lambda state: momenta((state[2], state[1]))

    @property
    def _base(self) -> FrameField:
        """The frame of V, in which the metric is given."""
        return self._metric.frame

    @property
    def _metric(self) -> Metric:
        system = self.system
        return system.connection.ambient_metric if isinstance(system, NonholonomicSystem) else system.metric

    def _units(self, r: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Units of rdot (s,) and V (n,): units of V by the metric, and |dr X| times them."""
        q = self.section_at(r)
        velocity = motion_units(self._base, self._metric, q)[1]
        slopes = jax.jacfwd(self.shape_at)(q) @ self._base.matrix_at(q)
        return jnp.abs(slopes) @ velocity, velocity

    def _moving_at(
        self, t: Any, r: jax.Array, V: jax.Array, control: Forces | None
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(v, rdot, Vdot) at the section, V = A v; rdot and Vdot are finite where the basis is singular."""
        v = self._components_at(r, V)
        r_dot, v_dot = self.rates_at(r, v, self._control_at(control, t, r, v), t)
        A, A_dot = jax.jvp(self._lift_at, (r,), (r_dot,))
        return v, r_dot, A @ v_dot + A_dot @ v

    def _sizes_at(
        self, t: Any, r: jax.Array, V: jax.Array, control: Forces | None
    ) -> tuple[jax.Array, jax.Array]:
        """Sums of the sizes of the terms of rdot and Vdot: those without a control, and the rest."""
        r_dot, V_dot = self._moving_at(t, r, V, control)[1:]
        free = self._moving_at(t, r, V, None)[2]
        return jnp.abs(r_dot), jnp.abs(free) + jnp.abs(V_dot - free)

    def _lift_at(self, r: jax.Array) -> jax.Array:
        """A (n, m) at the section, with V = A v; the identity without constraints."""
        if isinstance(self.system, NonholonomicSystem):
            return self.system.connection.basis_at(self.section_at(r))
        return jnp.eye(self.frame.dim)

    def _components_at(self, r: jax.Array, V: jax.Array) -> jax.Array:
        """v (m,) at the section, for V = A v."""
        if isinstance(self.system, NonholonomicSystem):
            return self.system.components_at(self.section_at(r), V)
        return V

    def _control_at(self, control: Forces | None, t: Any, r: jax.Array, v: jax.Array) -> jax.Array:
        if control is None:
            return jnp.zeros(self.controls)
        return require_shape("control(t, r, v)", control(t, r, v), (self.controls,))

    def _sampled_forces(self, q: jax.Array) -> jax.Array:
        """The system's forces at the k times `_TIMES`, each at another velocity, as one-forms (k, n)."""
        m = self.frame.dim
        velocities = (jnp.sin(1.0 + k + (1.0 + k) * jnp.arange(m)) for k in range(len(_TIMES)))
        return jnp.stack([self.system.forces_at(t, q, v) for t, v in zip(_TIMES, velocities, strict=True)])

    def _check_section(self, q: Any, tol: float) -> Check:
        point = Argument("q", q, (self.frame.ambient_dim,))
        measured = evaluate(self, self._section_residual_at, point, checked=False)
        return worst_check("section has its shape", measured, tol)

    def _section_residual_at(self, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        return compared(lambda x: self.shape_at(self.section_at(self.shape_at(x))), self.shape_at, q)

    def _arguments(self, r: Any, v: Any, names: tuple[str, str] = ("r", "v")) -> tuple[Argument, Argument]:
        return Argument(names[0], r, (self.shape_dim,)), Argument(names[1], v, (self.frame.dim,))


@dataclass(frozen=True, eq=False)
class ShapeSpace(Parametrized):
    """The domain of the functions of a reduced system: its shapes r (s,), a chart.

    Parameters
    ----------
    reduced : the reduced system.
    """

    reduced: ReducedSystem

    @property
    def frame(self) -> FrameField:
        """The coordinate frame of the shapes."""
        return CoordinateFrame(self.reduced.shape_dim)

    def valid_at(self, r: jax.Array) -> jax.Array:
        """Whether the system is valid at the section; one boolean."""
        return admit_at(self.reduced.system, self.reduced.section_at(r))[1]

    def explain(self, r: Any) -> None:
        """Raise the error that says why the system is not valid at the section."""
        require_admissible(self.reduced.system, "section(r)", self.reduced.section_at(jnp.asarray(r)))
