"""Nonholonomic systems: a constrained connection with potential, forces and inputs; the constraint forces.

In the basis X_k of the distribution vdot^k + Gamma~^k_ij v^i v^j = Y^k_a u^a, qdot = v^k X_k. The constraint
force is the residual of Newton's law, R = H (nabla_v v) + g - F. It vanishes on the distribution, so
R = W^T lambda.

Constraints may move: V = A vbar + v_0(t, q), W V = W v_0, of a turntable, of a conveyor. Their force still
vanishes on the distribution (d'Alembert's principle), so that its power is <R, v_0>, which is the rate of the
energy. Source: [Z] section 3, eqs. (4), (5); [FS].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike
from connections.affine.constrained import ConstrainedConnection
from connections.affine.distributions import DistributionFrame
from connections.affine.motions.flow import Flow, Record, State, Trajectories, as_times
from connections.affine.motions.motion import Motion
from connections.affine.motions.units import energy_of, motion_units
from connections.checks import (
    ConstraintError,
    NonFiniteError,
    ShapeError,
    as_result,
    raise_at,
    require_function,
    require_shape,
    require_type,
    takes,
)
from connections.coriolis.system import FORCES, Forces, MechanicalSystem, Potential, controlled_at
from connections.coriolis.variational import DiscreteSystem
from connections.coriolis.variational_motion import DiscreteSteps, is_variational, variational_motion
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.compilation import shape_of
from connections.evaluation.describing import Described
from connections.evaluation.parameters import Parametrized, PytreePartial
from connections.geometry.frames import PointFunction
from connections.geometry.metrics import Metric
from connections.geometry.numerics.definite import solve_definite
from connections.geometry.numerics.scales import inverse_lengths_of
from connections.integration.solver import Solver, StepOptions

_FEASIBLE = 1e-9  # the largest part of a velocity outside the distribution, relative to its length
DRIFT = "q -> velocity v_0 (n,), or of (t, q)"  # in an error
CONTROL = "(t, q, v) -> controls (a,)"  # in an error
TOLERANCE = 1e-11  # of a step; smaller than usual, because ambient components change faster than most others


@dataclass(frozen=True, eq=False, repr=False)
class NonholonomicSystem(Described, Parametrized):
    """A mechanical system whose velocity stays in a distribution, V = A vbar, or V = A vbar + v_0.

    Parameters
    ----------
    connection : the constrained connection; n and m are the dimensions of its ambient frame and of its
        distribution.
    potential : optional, q (nq,) -> V [J]; JAX-traceable.
    forces : optional, (t, q, vbar) -> F (n,), covector in the ambient metric's frame; JAX-traceable.
    inputs : optional, q -> (a, n), covectors that the controls u (a,) multiply; JAX-traceable.
    drift : optional, q (nq,) -> v_0 (n,), or (t, q) -> v_0, in the ambient metric's frame: the velocity for
        vbar = 0 where what constrains the system moves itself, as a turntable or a conveyor does;
        JAX-traceable. The forms W of the connection then mean W (V - v_0) = 0.

    Attributes
    ----------
    controls : a, the number of controls; n if no inputs are given.
    frame, metric : those of the connection.
    reduced : the system in the basis of the distribution, a `MechanicalSystem` with m velocities; there is
        none with a drift.

    Raises
    ------
    ShapeError : inputs or drift have the wrong shape. TypeError : an argument is of another kind.

    Source: [Z] section 3.

    Examples
    --------
    A skate on a conveyor belt, which moves along x with 0.5 m/s; it glides along the belt's x axis:

    >>> import connections as cn
    >>> from jax import numpy as jnp
    >>> space = cn.ConstantMetric(cn.CoordinateFrame(3), jnp.diag(jnp.array([2.0, 2.0, 0.3])))
    >>> across = lambda q: jnp.stack([-jnp.sin(q[2]), jnp.cos(q[2]), 0.0 * q[2]])[None]
    >>> nabla = cn.ConstrainedConnection(space, forms=across)
    >>> skate = cn.NonholonomicSystem(nabla, drift=lambda q: jnp.array([0.5, 0.0, 0.0]))
    >>> vbar = skate.components([0.0, 0.0, 0.0], [1.5, 0.0, 0.0])
    >>> skate.simulate([0.0, 0.0, 0.0], vbar, [0.0, 2.0]).q[-1].round(9)
    array([3., 0., 0.])
    """

    connection: ConstrainedConnection
    potential: Potential | None = None
    forces: Forces | None = None
    inputs: PointFunction | None = None
    drift: Callable[..., Any] | None = None
    controls: int = field(init=False)
    frame: DistributionFrame = field(init=False)
    _in_basis: MechanicalSystem = field(init=False)  # for vbar alone, without a drift
    _timed: bool = field(init=False)  # whether the drift is a function of (t, q)

    def __post_init__(self) -> None:
        call = "write NonholonomicSystem(ConstrainedConnection(metric, basis))"
        require_type("connection", self.connection, ConstrainedConnection, call)
        functions = {
            "potential": "q -> V",
            "forces": FORCES,
            "inputs": "q -> covectors (a, n)",
            "drift": DRIFT,
        }
        timed = callable(self.drift) and not takes(self.drift, 1) and takes(self.drift, 2)
        object.__setattr__(self, "_timed", timed)
        for name, form in functions.items():
            if getattr(self, name) is not None and not (timed and name == "drift"):
                require_function(name, getattr(self, name), form)
        nabla, n = self.connection, self.connection.ambient.frame.dim
        object.__setattr__(self, "frame", nabla.frame)
        shape = shape_of("inputs(q)", self.inputs_at, (nabla.frame.ambient_dim,))
        if len(shape) != 2 or shape[1] != n:
            raise ShapeError("inputs", ("a", n), shape)
        object.__setattr__(self, "controls", shape[0])
        shape = shape_of(self._drift_in_words, self.drift_at, (nabla.frame.ambient_dim,))
        if shape != (n,):
            raise ShapeError(self._drift_in_words, (n,), shape)

        def in_basis(t: Any, q: jax.Array, v: jax.Array) -> jax.Array:
            return nabla.basis_at(q).T @ self.forces_at(t, q, v)

        own = None if self.forces is None else in_basis
        object.__setattr__(self, "_in_basis", MechanicalSystem(self.metric, self.potential, own, nabla))

    @property
    def metric(self) -> Metric:
        """A^T H A in the basis of the distribution."""
        return self.connection.metric

    @property
    def reduced(self) -> MechanicalSystem:
        """The system in the basis of the distribution.

        Raises
        ------
        ConstraintError : the system has a drift, so that qdot is not X A vbar.
        """
        require_no_drift("reduced", self)
        return self._in_basis

    # --- the definition at one point ---------------------------------------------------------------------

    def forces_at(self, t: Any, q: jax.Array, v: jax.Array) -> jax.Array:
        """F(t, q, vbar), (n,); zero without forces."""
        n = self.connection.ambient.frame.dim
        if self.forces is None:
            return jnp.zeros(n)
        return require_shape("forces(t, q, v)", self.forces(t, q, v), (n,))

    def inputs_at(self, q: jax.Array) -> jax.Array:
        """The covectors that the controls multiply, (a, n); without inputs, the dual basis of the frame."""
        n = self.connection.ambient.frame.dim
        return jnp.eye(n) if self.inputs is None else as_result("inputs(q)", self.inputs(q))

    def potential_at(self, q: jax.Array) -> jax.Array:
        """V(q), a scalar; zero without a potential."""
        return self._in_basis.potential_at(q)

    def drift_at(self, q: jax.Array, t: Any = 0.0) -> jax.Array:
        """v_0(t, q), (n,); zero without a drift."""
        n = self.connection.ambient.frame.dim
        if self.drift is None:
            return jnp.zeros(n)
        return as_result(self._drift_in_words, self.drift(t, q) if self._timed else self.drift(q))

    def velocity_at(self, q: jax.Array, v: jax.Array, t: Any = 0.0) -> jax.Array:
        """A vbar + v_0, (n,)."""
        own: jax.Array = self.connection.basis_at(q) @ v
        return own if self.drift is None else own + self.drift_at(q, t)

    def energy_at(self, q: jax.Array, v: jax.Array, t: Any = 0.0) -> jax.Array:
        """(1/2) |A vbar + v_0|^2 + V, a scalar."""
        V = self.velocity_at(q, v, t)
        return 0.5 * self.connection.ambient_metric.inner_at(q, V, V) + self.potential_at(q)

    def forward_dynamics_at(self, q: jax.Array, v: jax.Array, u: jax.Array, t: Any = 0.0) -> jax.Array:
        """(A^T H A)^-1 A^T (F_a u^a + F - g - H (Adot vbar + v_0dot + Gamma(V, V))), (m,).

        Without a drift, (A^T H A)^-1 A^T (F_a u^a + F - g) - Gamma~(vbar, vbar).
        """
        if self.drift is None:
            return self._in_basis.forward_dynamics_at(q, v, self._pulled_at(q, u), t)
        V, turning = self._moved_at(q, v, t)
        return self.frame.components_at(q) @ (self._free_at(q, V, v, u, t) - turning)

    def acceleration_at(self, q: jax.Array, V: jax.Array, u: jax.Array, t: Any = 0.0) -> jax.Array:
        """dV/dt of a feasible V, (n,): P (H^-1 (F_a u^a + F - g) - Gamma(V, V)) - (L_V P_perp) V.

        With a drift, P (...) + P_perp (dv_0/dt + L_V v_0) - (L_V P_perp) (V - v_0). If the constraints are
        given as forms, no basis is used, so this is regular where a basis is singular.
        """
        free = self._free_at(q, V, self.components_at(q, V, t), u, t)
        if self.drift is None:
            rate: jax.Array = self.connection.feasible_rate_at(q, V, free)
            return rate
        now, direction = jnp.asarray(t, dtype=float), self.connection.ambient.frame.matrix_at(q) @ V
        along = jnp.ones_like(now), direction
        v_0, drift_rate = jax.jvp(lambda s, p: self.drift_at(p, s), (now, q), along)
        moved: jax.Array = drift_rate + self.connection.feasible_rate_at(
            q, V - v_0, free - drift_rate, along=V
        )
        return moved

    def components_at(self, q: jax.Array, V: jax.Array, t: Any = 0.0) -> jax.Array:
        """vbar of V = A vbar + v_0, (m,)."""
        return self._own_at(q, V - self.drift_at(q, t))

    def _excess_at(self, q: jax.Array, V: jax.Array, t: Any) -> jax.Array:
        """|V - A vbar - v_0| / |V| in the metric; 0 for V = 0."""
        H = self.connection.ambient_metric.matrix_at(q)
        outside = V - self.velocity_at(q, self.components_at(q, V, t), t)
        length = V @ H @ V
        return jnp.where(
            length > 0.0, jnp.sqrt(outside @ H @ outside / jnp.where(length > 0.0, length, 1.0)), 0.0
        )

    def _feasible_components_at(self, q: jax.Array, V: jax.Array, t: Any) -> jax.Array:
        """vbar, (m,); NaN where V violates the constraints."""
        return jnp.where(self._excess_at(q, V, t) <= _FEASIBLE, self.components_at(q, V, t), jnp.nan)

    def constraint_force_at(self, q: jax.Array, v: jax.Array, u: jax.Array, t: Any = 0.0) -> jax.Array:
        """H (Vdot + Gamma(V, V)) + g - F_a u^a - F for V = A vbar + v_0, (n,)."""
        V, turning = self._moved_at(q, v, t)
        a = self.connection.basis_at(q) @ self.forward_dynamics_at(q, v, u, t) + turning
        return self.connection.ambient_metric.matrix_at(q) @ (a - self._free_at(q, V, v, u, t))

    def constraint_power_at(self, q: jax.Array, v: jax.Array, u: jax.Array, t: Any = 0.0) -> jax.Array:
        """<R, v_0>, a scalar."""
        return self.drift_at(q, t) @ self.constraint_force_at(q, v, u, t)

    def multipliers_at(self, q: jax.Array, v: jax.Array, u: jax.Array, t: Any = 0.0) -> jax.Array:
        """lambda with W^T lambda = R, (p,)."""
        inverse = inverse_lengths_of(self.connection.ambient_metric.matrix_at(q))
        W = self.connection.forms_at(q) * inverse[None]
        return solve_definite(W @ W.T, W @ (inverse * self.constraint_force_at(q, v, u, t)))

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The connection is valid."""
        return self.connection.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """The connection's error."""
        self.connection.explain(q)

    # --- the public functions ----------------------------------------------------------------------------

    def velocity(self, q: ArrayLike, v: ArrayLike, t: ArrayLike | None = None) -> Array:
        """A vbar + v_0, (..., n): the velocity in the ambient metric's frame.

        Parameters
        ----------
        q : (..., nq) points.
        v : (..., m) components in the basis of the distribution.
        t : (...,) time of a drift that depends on it, which then has to be given [s].
        """
        return evaluate(self, self.velocity_at, *self._arguments(q, v, t=t))

    def components(self, q: ArrayLike, V: ArrayLike, t: ArrayLike | None = None) -> Array:
        """vbar with V = A vbar + v_0, (..., m): the inverse of `velocity`.

        Parameters
        ----------
        q : (..., nq) points.
        V : (..., n) velocities in the ambient metric's frame that satisfy the constraints.
        t : (...,) time of a drift that depends on it, which then has to be given [s].

        Raises
        ------
        ConstraintError : V violates the constraints by more than 1e-9 of its length in the metric; names the
            first such point. Inside `jit`, the components are NaN there.
        """
        point, at = Argument("q", q, (self.frame.ambient_dim,)), Argument("t", self._time(t), ())
        given = Argument("V", V, (self.connection.ambient.frame.dim,))
        try:
            return evaluate(self, self._feasible_components_at, point, given, at)
        except NonFiniteError:
            excess = np.asarray(evaluate(self, self._excess_at, point, given, at))
            if not (excess > _FEASIBLE).any():
                raise
            first = tuple(np.argwhere(excess > _FEASIBLE)[0])
            where = np.broadcast_to(np.asarray(q), (*excess.shape, self.frame.ambient_dim))[first]
            text = f"V violates the constraints by {excess[first]:.1e} of its length"
            raise_at(ConstraintError, text, where)

    def energy(self, q: ArrayLike, v: ArrayLike, t: ArrayLike | None = None) -> Array:
        """(1/2) |A vbar + v_0|^2 + V, (...,) [J].

        Parameters
        ----------
        q : (..., nq) points.
        v : (..., m) components in the basis of the distribution.
        t : (...,) time of a drift that depends on it, which then has to be given [s].
        """
        return evaluate(self, self.energy_at, *self._arguments(q, v, t=t))

    def forward_dynamics(self, q: ArrayLike, v: ArrayLike, u: ArrayLike, t: ArrayLike | None = None) -> Array:
        """vbardot = Y_a u^a - Gamma~(vbar, vbar) + projected forces, (..., m).

        Parameters
        ----------
        q : (..., nq) points.
        v : (..., m) components in the basis of the distribution.
        u : (..., a) controls, or (..., n) a covector if the system has no inputs.
        t : (...,) time at which the system's own forces are evaluated, by default 0, and a drift that depends
            on it, which then has to be given [s].

        Source: [Z] Theorem 3.2.
        """
        return evaluate(self, self.forward_dynamics_at, *self._arguments(q, v, u=u, t=t))

    def constraint_force(self, q: ArrayLike, v: ArrayLike, u: ArrayLike, t: ArrayLike | None = None) -> Array:
        """R, (..., n): the covector that keeps the velocity in the distribution; it does no work there.

        With a drift, its power is `constraint_power`.

        Parameters
        ----------
        q, v, u, t : as for `forward_dynamics`.

        Source: [Z] eq. (4), lowered.
        """
        return evaluate(self, self.constraint_force_at, *self._arguments(q, v, u=u, t=t))

    def constraint_power(self, q: ArrayLike, v: ArrayLike, u: ArrayLike, t: ArrayLike | None = None) -> Array:
        """<R, v_0>, (...,) [W]: the power of the constraint force, zero without a drift.

        The rate of the energy is this power and that of forces and controls.

        Parameters
        ----------
        q, v, u, t : as for `forward_dynamics`.

        Source: [FS] section 2.
        """
        return evaluate(self, self.constraint_power_at, *self._arguments(q, v, u=u, t=t))

    def multipliers(self, q: ArrayLike, v: ArrayLike, u: ArrayLike, t: ArrayLike | None = None) -> Array:
        """lambda, (..., p): R = W^T lambda with the rows of W the connection's `forms`.

        Parameters
        ----------
        q, v, u, t : as for `forward_dynamics`.

        Source: [Z] eq. (4).
        """
        return evaluate(self, self.multipliers_at, *self._arguments(q, v, u=u, t=t))

    def simulate(
        self,
        q0: ArrayLike,
        v0: ArrayLike,
        times: ArrayLike,
        control: Forces | None = None,
        *,
        method: str = "DOP853",
        step: float | None = None,
        order: int | None = None,
        **options: Unpack[StepOptions],
    ) -> Motion:
        """The motion from (q0, v0) under potential, forces and controls: ``q, vbar = system.simulate(...)``.

        Velocities in the ambient frame are integrated, so that the motion may pass points where the basis is
        singular and the constraints are not. At requested times the basis has to be regular. The energy is
        compared at every requested time if no forces and no control act; with a drift, less the work of the
        constraint force, which is integrated beside the motion, and returned as ``motion.work``.

        Parameters
        ----------
        q0 : (..., nq) initial points, at times[0].
        v0 : (..., m) initial velocities in the basis of the distribution.
        times : (T,) strictly monotone [s].
        control : optional, (t, q, vbar) -> u (a,), or a covector (n,) if the system has no inputs.
        method : "DOP853", with tolerances; "Radau", with tolerances, for what is stiff; or "variational",
            steps of one length by the discrete principle of Lagrange and d'Alembert, which keep the
            constraints, and neither energy nor a symplectic form.
        step : h [s], the length of variational steps; it divides each interval of `times`.
        order : of variational steps, 2 (by default) or 4.
        options : as for `geodesic`; times in seconds. Variational steps have none.

        Returns
        -------
        Motion : q (..., T, nq) and v, which is vbar (..., T, m); with a drift ``work`` (..., T), except of
            variational steps. Tolerances are those of `geodesic`, a tenth as large.

        Raises
        ------
        IntegrationError : the constraints lose rank on the way, the basis is singular at a requested time, or
            the motion blows up; names the time and the point. A variational step does not converge; names a
            step that would do.
        ValueError : an option is not positive, or the step does not divide the times. TypeError : there is no
            such option.

        Source: [CM], for variational steps.
        """
        arguments = (
            Argument("q0", q0, (self.frame.ambient_dim,)),
            Argument("v0", v0, (self.frame.dim,)),
        )
        if is_variational("simulate", method, step, order, options):
            if control is not None:
                require_function("control", control, CONTROL)
            kept = control is None and self.forces is None and self.drift is None
            steps = DiscreteSteps(DiscreteNonholonomic(self, control))
            return variational_motion("simulate", self, arguments, times, step, order, steps, kept)
        solver = Solver.of("simulate", {**options, "method": method}, TOLERANCE / 2.0)
        since = () if self.drift is None else (Argument("times[0]", as_times(times)[0], ()),)
        found: Motion = Trajectories.of(self).motion(
            "simulate", PytreePartial(self._flow, control), (*arguments, *since), times, solver
        )
        return found

    # --- private -------------------------------------------------------------------------------------------

    @property
    def _drift_in_words(self) -> str:
        return "drift(t, q)" if self._timed else "drift(q)"

    def _moved_at(self, q: jax.Array, v: jax.Array, t: Any) -> tuple[jax.Array, jax.Array]:
        """V = A vbar + v_0 and its rate for constant vbar, Adot vbar + v_0dot, (n,) each."""
        now, direction = jnp.asarray(t, dtype=float), self.connection.ambient.frame.matrix_at(q)
        along = jnp.ones_like(now), direction @ self.velocity_at(q, v, t)
        moved: tuple[jax.Array, jax.Array]
        moved = jax.jvp(lambda s, p: self.velocity_at(p, v, s), (now, q), along)
        return moved

    def _free_at(self, q: jax.Array, V: jax.Array, v: jax.Array, u: jax.Array, t: Any) -> jax.Array:
        """dV/dt without constraints, (n,): H^-1 (F_a u^a + F - g) - Gamma(V, V)."""
        nabla = self.connection
        given = self.inputs_at(q).T @ u + self.forces_at(t, q, v)
        slope = nabla.ambient.frame.lie_derivative_at(self.potential_at, q)
        raised = solve_definite(nabla.ambient_metric.matrix_at(q), given - slope)
        return raised - nabla.ambient.apply_at(q, V, V)

    def _flow(self, control: Forces | None) -> Flow[Any]:
        """The motions under `control`, by q and W = P V in the ambient frame, which no time projects.

        W is A vbar without a drift. A drift that jumps changes vbar and not W, because the impulse of the
        constraint force is orthogonal to the distribution.
        """
        base, metric = self.connection.ambient.frame, self.connection.ambient_metric
        if control is not None:
            require_function("control", control, CONTROL)

        def start(q0: jax.Array, v0: jax.Array, *since: jax.Array) -> tuple[jax.Array, jax.Array]:
            V = self.velocity_at(q0, v0, *since)
            return q0, V if self.drift is None else self.connection.feasible_at(q0, V)

        def free(t: Any, p: jax.Array, V: jax.Array) -> jax.Array:
            v = self.components_at(p, V, t)
            return self._free_at(p, V, v, controlled_at(control, t, p, v, self.controls), t)

        def rate(t: Any, state: Any, *given: jax.Array) -> tuple[jax.Array, jax.Array]:
            p, V = state[0], state[1] + self._across_at(state[0], t)
            return base.matrix_at(p) @ V, self.connection.feasible_rate_at(p, V, free(t, p, V))

        def power(t: Any, p: jax.Array, W: jax.Array) -> jax.Array:
            N = self._across_at(p, t)
            V = W + N
            bent = jax.jvp(metric.matrix_at, (p,), (base.matrix_at(p) @ V,))[1]
            a = free(t, p, V)
            change = self.connection.feasible_rate_at(p, V, a) - a
            found: jax.Array = metric.inner_at(p, N, change) - 0.5 * N @ bent @ N
            return found[None]

        def terms(t: Any, state: Any, *given: jax.Array) -> tuple[jax.Array, jax.Array]:
            p, V = state[0], state[1] + self._across_at(state[0], t)
            v, nabla = self.components_at(p, V, t), self.connection
            u = controlled_at(control, t, p, v, self.controls)
            slope, H = nabla.ambient.frame.lie_derivative_at(self.potential_at, p), metric.matrix_at(p)
            forces = self.inputs_at(p).T @ u, self.forces_at(t, p, v), slope
            own = (jnp.abs(solve_definite(H, force)) for force in forces)
            return jnp.abs(base.matrix_at(p) @ V), sum(own, jnp.abs(nabla.ambient.apply_at(p, V, V)))

        def units(t0: Any, s: Any, state: Any, *given: jax.Array) -> tuple[jax.Array, jax.Array]:
            return motion_units(base, metric, state[0])

        def record(t: Any, state: Any, *given: jax.Array) -> Record[State]:
            q, W = state
            return (q, self.components_at(q, W + self._across_at(q, t), t)), q, jnp.asarray(True)

        def project(state: Any) -> Any:
            q = self.frame.project_at(state[0])
            return q, self.connection.feasible_at(q, state[1])

        unforced = control is None and self.forces is None
        timed = not unforced or self._timed
        kept = energy_of(self.connection.ambient, metric, self.potential_at) if unforced else None
        more = terms if timed else None
        flow: Flow[Any]
        flow = Flow(start, rate, record, units, project=project, timed=timed, conserved=kept, terms=more)
        return flow if self.drift is None else self._with_work(flow, power)

    def _with_work(self, flow: Flow[Any], power: Callable[..., jax.Array]) -> Flow[Any]:
        """The flow with a third array (1,): the constraint force's work less <N, N> / 2, N = (1 - P) v_0.

        Its rate is <N, dW/dt - a> - N^T dH/dt N / 2, `a` without constraints, in which v_0 has no derivative:
        the work of an impulse is counted, too. The first time is one more argument. The array begins with
        the first kinetic energy, so that the round-off of a work that is zero is relative to it.
        """
        metric = self.connection.ambient_metric

        def across(q: jax.Array, t: Any) -> jax.Array:
            N = self._across_at(q, t)
            return 0.5 * metric.inner_at(q, N, N)

        def first(q0: jax.Array, v0: jax.Array, since: jax.Array) -> jax.Array:
            V = self.velocity_at(q0, v0, since)
            return 0.5 * metric.inner_at(q0, V, V)[None]

        def start(q0: jax.Array, v0: jax.Array, since: jax.Array) -> tuple[Any, ...]:
            return *flow.start(q0, v0, since), first(q0, v0, since)

        def rate(t: Any, state: Any, *given: jax.Array) -> tuple[Any, ...]:
            return *flow.rate(t, state[:2], *given), power(t, *state[:2])

        def terms(t: Any, state: Any, *given: jax.Array) -> tuple[Any, ...]:
            assert flow.terms is not None
            return *flow.terms(t, state[:2], *given), jnp.abs(power(t, *state[:2]))

        def units(t0: Any, s: Any, state: Any, *given: jax.Array) -> tuple[Any, ...]:
            return *flow.units(t0, s, state[:2], *given), jnp.ones(1)

        def record(t: Any, state: Any, *given: jax.Array) -> Record[Motion]:
            (q, v), point, ok = flow.record(t, state[:2], *given)
            work = (state[2] - first(*given))[0] + across(q, t) - across(given[0], given[2])
            return Motion(t, q, v, work=work), point, ok

        def project(state: Any) -> Any:
            assert flow.project is not None
            return *flow.project(state[:2]), state[2]

        def balance(t0: Any, s: Any, state: Any, *given: jax.Array) -> tuple[Any, Any]:
            assert flow.conserved is not None
            q, t = state[0], t0 + s
            value, scale = flow.conserved[1](t0, s, (q, state[1] + self._across_at(q, t)), *given)
            return value - state[2][0] - across(q, t), scale

        own: Any = {"start": start, "rate": rate, "record": record, "units": units, "project": project}
        if flow.terms is not None:
            own["terms"] = terms
        if flow.conserved is not None:
            own["conserved"] = "the energy less the work of the constraint", balance
        return replace(flow, **own)

    def _across_at(self, q: jax.Array, t: Any) -> jax.Array:
        """N = (1 - P) v_0, (n,): the part of V that the constraints determine; zero without a drift."""
        if self.drift is None:
            return jnp.zeros(self.connection.ambient.frame.dim)
        return self.connection.distribution.complement_at(q) @ self.drift_at(q, t)

    def _own_at(self, q: jax.Array, U: jax.Array) -> jax.Array:
        """vbar of U = A vbar, (m,)."""
        own: jax.Array = self.frame.components_at(q) @ U
        return own

    def _pulled_at(self, q: jax.Array, u: jax.Array) -> jax.Array:
        """A^T F_a u^a, (m,)."""
        return self.connection.basis_at(q).T @ (self.inputs_at(q).T @ u)

    def _arguments(self, q: Any, v: Any, **more: Any) -> list[Argument]:
        sizes: dict[str, tuple[int, ...]] = {"u": (self.controls,), "t": ()}
        more["t"] = self._time(more["t"])
        arguments = [Argument("q", q, (self.frame.ambient_dim,)), Argument("v", v, (self.frame.dim,))]
        return arguments + [Argument(name, value, sizes[name]) for name, value in more.items()]

    def _time(self, t: Any) -> Any:
        if t is None and self._timed:
            raise TypeError("t: the drift is a function of the time: give the time")
        return 0.0 if t is None else t


class DiscreteNonholonomic(DiscreteSystem):
    """A nonholonomic system under a control, for variational steps.

    Parameters
    ----------
    time : of the drift.
    """

    def __init__(self, system: NonholonomicSystem, control: Forces | None, time: Any = 0.0) -> None:
        self.system, self.control, self.time = system, control, time

    def timed_at(self, t: Any) -> DiscreteNonholonomic:
        """The system with the drift of the time t."""
        return DiscreteNonholonomic(self.system, self.control, t)

    @property
    def metric(self) -> Metric:
        """The ambient one."""
        return self.system.connection.ambient_metric

    def potential_at(self, q: jax.Array) -> jax.Array:
        """The system's."""
        return self.system.potential_at(q)

    def applied_at(self, t: Any, q: jax.Array, v: jax.Array) -> jax.Array:
        """Forces and inputs, (n,)."""
        u = controlled_at(self.control, t, q, v, self.system.controls)
        return self.system.forces_at(t, q, v) + self.system.inputs_at(q).T @ u

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The connection is valid."""
        return self.system.valid_at(q)

    def basis_at(self, q: jax.Array) -> jax.Array:
        """A, (n, m)."""
        return self.system.connection.basis_at(q)

    def drift_at(self, q: jax.Array) -> jax.Array:
        """v_0, (n,)."""
        return self.system.drift_at(q, self.time)


def require_no_drift(user: str, system: NonholonomicSystem) -> None:
    """Raise `ConstraintError` if the system has a drift: `user` needs qdot = X A vbar, without v_0."""
    if system.drift is not None:
        what = f"{user}: the system has a drift v_0, so that its motion is not qdot = X A vbar"
        raise ConstraintError(f"{what};\nwrite system.simulate(q0, v0, times) for its motion")
