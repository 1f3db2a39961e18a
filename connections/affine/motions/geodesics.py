"""Geodesics and the exponential of any connection.

qdot = X(q) v, vdot^i = -Gamma^i_jk v^j v^k + F^i. Torsion has no effect, because only the symmetric part of
Gamma enters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike
from connections.affine.connection import AffineConnection
from connections.affine.constrained import ConstrainedConnection
from connections.affine.motions.broken_symmetry import broken_symmetry_told
from connections.affine.motions.flow import (
    Flow,
    Record,
    State,
    Trajectories,
    recorded,
    require_untraced_symmetry,
)
from connections.affine.motions.host_motions import HostMotion, on_host
from connections.affine.motions.motion import Motion
from connections.affine.motions.units import energy_of, momenta_of, motion_units, speed_of
from connections.affine.symmetry import GroupAction
from connections.checks import (
    IntegrationError,
    NonFiniteError,
    require_finite,
    require_function,
    require_shape,
    require_type,
    text_of_point,
)
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import PytreePartial
from connections.geometry.closed_forms import ClosedFormMetric
from connections.integration.solver import Options, Solver

_HALVINGS = 40  # of the part of a geodesic that has no end
Acceleration = Callable[[Any, jax.Array, jax.Array], jax.Array]


def geodesic(
    nabla: AffineConnection,
    q0: ArrayLike,
    v0: ArrayLike,
    times: ArrayLike,
    acceleration: Acceleration | None = None,
    symmetry: GroupAction | None = None,
    **options: Unpack[Options],
) -> Motion:
    """The geodesic of `nabla` through (q0, v0): ``q, v = geodesic(...)``.

    Parameters
    ----------
    nabla : the connection.
    q0 : (..., nq) initial points, at times[0].
    v0 : (..., n) initial velocities, frame components.
    times : (T,) strictly monotone.
    acceleration : optional (t, q, v) -> (n,), added to the right-hand side: frame components H^-1 tau of a
        force tau; JAX-traceable.
    symmetry : optional, a group under which the metric is invariant: its momenta <v, xi_a>
        (`GroupAction.momenta`) are compared at every requested time, as <v, v> is.
    options : ``rtol``, ``max_step``, ``events`` and others (`Options`, docs/motions.md).

    Returns
    -------
    Motion : q (..., T, nq), points on the manifold, and v (..., T, n). A step's error is at most 1e-10 in any
        units: for a component of v relative to its largest value so far, for q relative to the distance
        moved, both as the chart shows them where the motion is.

    Raises
    ------
    IntegrationError : the curve leaves the chart, or the integration fails; names the time and the point.
    ShapeError, NonFiniteError, PointError, FrameError, MetricError.
    ValueError : an option is not positive, or no momenta are conserved. TypeError : there is no such option.

    Examples
    --------
    A geodesic of the half plane, until it has come down to the height 1/2.

    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> low = lambda t, q, v: q[1] - 0.5
    >>> low.terminal = True
    >>> motion = cn.geodesic(nabla, [0.0, 1.0], [1.0, 0.0], [0.0, 1.0, 2.0], events=low)
    >>> motion.q[1].round(4)
    array([0.7616, 0.6481])
    >>> motion.event_times[0].round(4)
    array([1.317])

    Source: [W] III-B.
    """
    require_type("nabla", nabla, AffineConnection)
    if acceleration is not None:
        require_function("acceleration", acceleration, "(t, q, v) -> acceleration (n,)")
    arguments = (
        Argument("q0", q0, (nabla.frame.ambient_dim,)),
        Argument("v0", v0, (nabla.frame.dim,)),
    )
    solver = Solver.of("geodesic", options, without=())
    recipe = PytreePartial(geodesic_flow_of, nabla, acceleration)
    if symmetry is not None:
        require_type("symmetry", symmetry, GroupAction)
        require_untraced_symmetry(q0, v0, times)
        if acceleration is not None:
            raise ValueError("symmetry: no momentum is conserved under an acceleration")
        recipe = PytreePartial(_symmetric_flow, nabla, symmetry)
        with broken_symmetry_told("geodesic", nabla.known_metric, None, symmetry, q0):
            return Trajectories.of(nabla).motion("geodesic", recipe, arguments, times, solver)
    return Trajectories.of(nabla).motion("geodesic", recipe, arguments, times, solver)


def geodesic_flow_of(nabla: AffineConnection, acceleration: Acceleration | None = None) -> Flow[State]:
    """The geodesics of `nabla` as a flow with the arguments q0 (nq,) and v0 (n,)."""
    if isinstance(nabla, ConstrainedConnection):
        return _feasible_flow(nabla, acceleration)
    frame = nabla.frame

    def rate(t: jax.Array, state: State, q0: jax.Array, v0: jax.Array) -> State:
        q, v = state
        v_dot = -nabla.apply_at(q, v, v)
        if acceleration is not None:
            v_dot = v_dot + require_shape("acceleration(t, q, v)", acceleration(t, q, v), v_dot.shape)
        return frame.matrix_at(q) @ v, v_dot

    def terms(t: jax.Array, state: State, *given: jax.Array) -> State:
        q, v = state
        added = jnp.zeros_like(v) if acceleration is None else acceleration(t, q, v)
        sizes = jnp.abs(nabla.apply_at(q, v, v)) + jnp.abs(jnp.asarray(added))
        return jnp.abs(frame.matrix_at(q) @ v), sizes

    def project(state: State) -> State:
        return frame.project_at(state[0]), state[1]

    def units(t0: jax.Array, s: jax.Array, state: State, *given: jax.Array) -> State:
        return motion_units(frame, nabla.known_metric, state[0], state[1] if acceleration is None else None)

    host = _on_host(nabla, acceleration)
    timed, kept = acceleration is not None, speed_of(nabla) if acceleration is None else None
    flow = Flow(
        start_at_given, rate, recorded, units, project=project, timed=timed, conserved=kept, host=host
    )
    return replace(flow, terms=terms) if timed else flow


def _symmetric_flow(nabla: AffineConnection, symmetry: GroupAction) -> Flow[State]:
    """The geodesics, with the momenta of a symmetry."""
    metric = nabla.known_metric
    if metric is None:
        raise ValueError("symmetry: the connection has no metric, and so no momenta")
    return replace(geodesic_flow_of(nabla), momenta=momenta_of(nabla, metric, symmetry))


def _on_host(nabla: AffineConnection, acceleration: Acceleration | None) -> HostMotion | None:
    """The geodesics in NumPy, if the connection has a ``host``; else None."""
    host = nabla.host
    if host is None:
        return None
    if acceleration is None:
        free: HostMotion = host.free_motion()
        return free
    extra = on_host(acceleration, (nabla.frame.dim,), "acceleration(t, q, v)")

    def forced(t: float, q: Any, v: Any, out: Any) -> None:
        host.free_acceleration(q, v, out)
        out += extra(t, q, v)

    return HostMotion(host, forced)


def start_at_given(*given: jax.Array) -> tuple[jax.Array, ...]:
    """The initial state of a flow whose arguments are its initial state."""
    return given


def _feasible_flow(nabla: ConstrainedConnection, acceleration: Acceleration | None) -> Flow[State]:
    """Integrated in ambient components, because the basis may be singular where the constraints are not."""
    frame, ambient = nabla.frame, nabla.ambient

    def start(q0: jax.Array, v0: jax.Array) -> State:
        return q0, nabla.basis_at(q0) @ v0

    def rate(t: jax.Array, state: State, q0: jax.Array, v0: jax.Array) -> State:
        q, V = state
        free = -ambient.apply_at(q, V, V)
        if acceleration is not None:
            given = acceleration(t, q, frame.components_at(q) @ V)
            free = free + nabla.basis_at(q) @ require_shape("acceleration(t, q, v)", given, (frame.dim,))
        return ambient.frame.matrix_at(q) @ V, nabla.feasible_rate_at(q, V, free)

    def terms(t: jax.Array, state: State, *given: jax.Array) -> State:
        q, V = state
        v = frame.components_at(q) @ V
        added = jnp.zeros_like(v) if acceleration is None else acceleration(t, q, v)
        sizes = jnp.abs(ambient.apply_at(q, V, V)) + jnp.abs(nabla.basis_at(q) @ jnp.asarray(added))
        return jnp.abs(ambient.frame.matrix_at(q) @ V), sizes

    def project(state: State) -> State:
        q = frame.project_at(state[0])
        return q, nabla.feasible_at(q, state[1])

    def units(t0: jax.Array, s: jax.Array, state: State, *given: jax.Array) -> State:
        V = state[1] if acceleration is None else None
        return motion_units(ambient.frame, ambient.known_metric, state[0], V)

    def record(t: jax.Array, state: State, *given: jax.Array) -> Record[State]:
        q, V = state
        return (q, frame.components_at(q) @ V), q, jnp.asarray(True)

    kept = None
    if acceleration is None:
        kept = energy_of(ambient, nabla.ambient_metric, lambda q: jnp.zeros(()))
    timed = acceleration is not None
    flow = Flow(start, rate, record, units, project=project, timed=timed, conserved=kept)
    return replace(flow, terms=terms) if timed else flow


def exponential(nabla: AffineConnection, q0: ArrayLike, v0: ArrayLike, **options: Unpack[Options]) -> Array:
    """exp_q0(v0), (..., nq): the geodesic of `nabla` after unit time.

    It is integrated, unless the metric of a `LeviCivita` has it in closed form (`geometry.ClosedFormMetric`).

    Parameters
    ----------
    nabla : the connection.
    q0 : (..., nq) points.
    v0 : (..., n) frame components.
    options : as for `geodesic`, without events and estimate; with one of them the geodesic is integrated.

    Raises
    ------
    IntegrationError : the geodesic does not reach unit time; a closed form names its length, and where it
        ends: the space does, or floats do not tell its points apart.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> cn.exponential(nabla, [0.0, 1.0], [0.0, 1.0])[1].round(6)  # straight up
    np.float64(2.718282)
    """
    Solver.of("exponential", options, without=("events", "estimate"))
    require_type("nabla", nabla, AffineConnection)
    closed = nabla.closed_form
    if closed is not None and not options:
        point = Argument("q0", q0, (nabla.frame.ambient_dim,))
        try:
            return evaluate(nabla, closed.end_at, point, Argument("v0", v0, (nabla.frame.dim,)))
        except NonFiniteError:
            require_finite("q0", q0)
            require_finite("v0", v0)
        raise _without_end(closed, q0, v0)
    end: Array = geodesic(nabla, q0, v0, np.array([0.0, 1.0]), **options).q[..., -1, :]
    return end


def _without_end(closed: ClosedFormMetric, q0: Any, v0: Any) -> IntegrationError:
    """The error of the first geodesic that has no end: its length, and where it cannot be followed beyond."""
    q, v = np.asarray(q0, dtype=float), np.asarray(v0, dtype=float)
    batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
    pairs = [np.broadcast_to(x, (*batch, x.shape[-1])).reshape(-1, x.shape[-1]) for x in (q, v)]
    ends = compiled(_ends_of, closed)
    bad = np.flatnonzero(~np.isfinite(np.asarray(ends(*pairs))).all(axis=1))
    q, v = (x[bad[:1]] for x in pairs)
    length = float(np.asarray(compiled(_size_of, closed)(q[0], v[0])))
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        t = 0.5 * (low + high)
        low, high = (t, high) if np.isfinite(np.asarray(ends(q, t * v))).all() else (low, t)
    error = IntegrationError(
        f"exponential: the geodesic of length {length:.6g} from q0 = {text_of_point(q[0])} with v0 = "
        f"{text_of_point(v[0])} cannot be followed beyond the length {low * length:.6g}: there the space "
        "ends, or floats do not tell its points apart"
    )
    error.failed = tuple(tuple(map(int, np.unravel_index(row, batch))) for row in bad)
    return error


def _size_of(closed: ClosedFormMetric, q: jax.Array, v: jax.Array) -> jax.Array:
    """|v|, a scalar; of the largest part of v if squares of v are no floats."""
    scale = jnp.max(jnp.abs(v))
    size, scaled = closed.inner_at(q, v, v), closed.inner_at(q, v / scale, v / scale)
    return jnp.where(jnp.isfinite(size) & (size > 0.0), jnp.sqrt(size), scale * jnp.sqrt(scaled))


def _ends_of(closed: ClosedFormMetric, q: jax.Array, v: jax.Array) -> jax.Array:
    return jax.vmap(lambda q, v: closed.end_at(closed.frame.project_at(q), v))(q, v)
