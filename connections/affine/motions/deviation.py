"""How neighbouring motions of vdot = -Gamma(v, v) + F separate: covariant and left-trivialized equations.

With eta the deviation of the point in frame components and dv that of v,

    etadot = dv + s(eta, v)                                                   in every frame,

and for every connection. With w = D_nabla v = dv + Gamma(eta, v) the same motion is, torsion included,

    D_t eta = w + T(v, eta),    D_t w = -R(eta, v) v + nabla_eta F + (dF/dv) w,

where D_t x = xdot + Gamma(v, x), and nabla_eta F transports v parallelly along eta. `deviation_map` maps
(eta, dv) to (eta, w). F is an acceleration, a force raised by H^-1.
Source: [B]; equality of mixed derivatives of a variation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Unpack

import jax
import jax.numpy as jnp

from connections._jax import Array, ArrayLike
from connections.affine.connection import AffineConnection
from connections.affine.constrained import ConstrainedConnection
from connections.affine.motions.flow import Flow, Record, Trajectories
from connections.affine.motions.geodesics import Acceleration
from connections.affine.motions.motion import Motion, motion_class
from connections.affine.motions.units import motion_units, speed_of
from connections.checks import require_function, require_shape, require_type
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.parameters import PytreePartial
from connections.geometry.numerics.scales import inverse_lengths_of, lengths_of
from connections.integration.solver import Options, Solver

Definition = Callable[..., jax.Array]
NOT_OF_FLOWS = "events", "allow_partial", "estimate"  # options


@motion_class
class GeodesicFlow(Motion):
    """A geodesic with its sensitivity, ``q, v, Phi = flow``, also at other times: ``flow.at(t)``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> half_plane = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
    >>> flow = cn.geodesic_flow(cn.LeviCivita(half_plane), [0.0, 1.0], [0.0, 1.0], [0.0, 1.0])
    >>> q, v, Phi = flow.at(0.5)
    >>> q.round(4), Phi.shape
    (array([0.    , 1.6487]), (4, 4))
    """

    Phi: Array
    """(..., T, 2n, 2n) the Phi of (eta, dv) = Phi (eta, dv) at times[0], at each time."""

    UNPACKED: ClassVar[tuple[str, ...]] = ("q", "v", "Phi")


@motion_class
class TransportFlow(Motion):
    """A vector carried along a geodesic, with its sensitivity, ``q, z, Z = flow``; ``flow.at(t)`` as well.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> half_plane = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla, times = cn.LeviCivita(half_plane), [0.0, 1.0]
    >>> flow = cn.transport_flow(nabla, [0.0, 1.0], [0.0, 1.0], [1.0, 0.0], times)
    >>> q, z, Z = flow.at(0.5)
    >>> z.round(4), Z.shape
    (array([1.6487, 0.    ]), (2, 4))
    """

    z: Array
    """(..., T, n) the vector, frame components."""
    Z: Array
    """(..., T, n, 2n) the Z of dz = Z (eta, dv), from times[0] to each time."""

    PANELS: ClassVar[tuple[tuple[str, str], ...]] = (*Motion.PANELS, ("z", "carried vector z"))
    UNPACKED: ClassVar[tuple[str, ...]] = ("q", "z", "Z")


def linearize(
    nabla: AffineConnection,
    q: ArrayLike,
    v: ArrayLike,
    acceleration: Acceleration | None = None,
    t: ArrayLike = 0.0,
) -> Array:
    """A (..., 2n, 2n) of d/dt (eta, dv) = A (eta, dv) about the motion vdot = -Gamma(v, v) + F at any state.

    Parameters
    ----------
    nabla : the connection.
    q : (..., nq) points.
    v : (..., n) velocities, frame components.
    acceleration : optional (t, q, v) -> F (n,), frame components H^-1 tau of a force tau; JAX-traceable.
    t : (...,) time.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, FrameError, MetricError.
    TypeError : of a ConstrainedConnection, because neighbours of a motion that satisfies constraints separate
        in directions that violate them; give its ``full`` connection.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> flat = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1)))
    >>> spring = lambda t, q, v: -4.0 * q
    >>> cn.linearize(flat, [0.2], [0.5], spring)[1, 0]
    np.float64(-4.0)
    """
    require_unconstrained("linearize", nabla)
    return _evaluate(linearization_at, nabla, q, v, acceleration, t)


def covariant_linearization(
    nabla: AffineConnection,
    q: ArrayLike,
    v: ArrayLike,
    acceleration: Acceleration | None = None,
    t: Any = 0.0,
) -> Array:
    """A (..., 2n, 2n) of d/dt (eta, w) = A (eta, w), w = dv + Gamma(eta, v): curvature, torsion, and F.

    Parameters
    ----------
    nabla, q, v, acceleration, t : as for `linearize`.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, FrameError, MetricError.
    TypeError : of a ConstrainedConnection, because neighbours of a motion that satisfies constraints separate
        in directions that violate them; give its ``full`` connection.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> from connections import affine
    >>> A = affine.covariant_linearization(nabla, [0.0, 1.0], [0.0, 1.0])
    >>> A[2, 0].round(6)  # minus the curvature, for a neighbour at the side
    np.float64(1.0)
    """
    require_unconstrained("covariant_linearization", nabla)
    return _evaluate(covariant_linearization_at, nabla, q, v, acceleration, t)


def deviation_map(nabla: AffineConnection, q: ArrayLike, v: ArrayLike) -> Array:
    """M (..., 2n, 2n) with (eta, dv + Gamma(eta, v)) = M (eta, dv).

    Parameters
    ----------
    nabla : the connection.
    q : (..., nq) points.
    v : (..., n) velocities, frame components.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> from connections import affine
    >>> affine.deviation_map(nabla, [0.0, 1.0], [0.0, 1.0])[2, 0].round(6)
    np.float64(-1.0)
    """
    require_type("nabla", nabla, AffineConnection)
    arguments = (Argument("q", q, (nabla.frame.ambient_dim,)), Argument("v", v, (nabla.frame.dim,)))
    return evaluate(nabla, PytreePartial(deviation_map_at, nabla), *arguments)


def geodesic_flow(
    nabla: AffineConnection,
    q0: ArrayLike,
    v0: ArrayLike,
    times: ArrayLike,
    acceleration: Acceleration | None = None,
    **options: Unpack[Options],
) -> GeodesicFlow:
    """The geodesic through (q0, v0) with its sensitivity: (eta, dv) at each time = Phi (eta, dv) at times[0].

    Parameters
    ----------
    nabla, q0, v0, times, acceleration, options : as for `geodesic`.

    Returns
    -------
    GeodesicFlow : unpacks as q (..., T, nq), v (..., T, n), Phi (..., T, 2n, 2n), integrated together; a
        step's error is at most 1e-10 of the largest value that a component, or an entry of Phi, has had.

    Raises
    ------
    As `geodesic`; TypeError as `linearize`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> q, v, Phi = cn.geodesic_flow(nabla, [0.0, 1.0], [0.0, 1.0], [0.0, 1.0])
    >>> Phi.shape
    (2, 4, 4)
    >>> Phi[-1, 0, ::2].round(4)  # of neighbours that start beside it, and aside
    array([1.    , 3.1945])
    """
    require_unconstrained("geodesic_flow", nabla)
    _require_acceleration(acceleration)
    frame = nabla.frame
    arguments = (Argument("q0", q0, (frame.ambient_dim,)), Argument("v0", v0, (frame.dim,)))
    solver = Solver.of("geodesic_flow", options, without=NOT_OF_FLOWS)
    return Trajectories.of(nabla).motion(
        "geodesic_flow", PytreePartial(_geodesic_flow, nabla, acceleration), arguments, times, solver
    )


def transport_flow(
    nabla: AffineConnection,
    q0: ArrayLike,
    v0: ArrayLike,
    z0: ArrayLike,
    times: ArrayLike,
    acceleration: Acceleration | None = None,
    **options: Unpack[Options],
) -> TransportFlow:
    """A vector transported along the geodesic through (q0, v0), with its sensitivity to q0 and v0.

    D_t (D_eta z) = R(v, eta) z, D_eta z = dz + Gamma(eta, z): curvature turns z from geodesic to geodesic.

    Parameters
    ----------
    nabla, q0, v0, times, acceleration, options : as for `geodesic`.
    z0 : (..., n) vectors at q0, frame components, held fixed.

    Returns
    -------
    TransportFlow : unpacks as q (..., T, nq), z (..., T, n) and Z (..., T, n, 2n), dz at each time =
        Z (eta, dv) at times[0].

    Raises
    ------
    As `geodesic`; TypeError as `linearize`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> q, z, Z = cn.transport_flow(nabla, [0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0])
    >>> z[-1, 0].round(4), Z.shape
    (np.float64(2.7183), (2, 2, 4))
    """
    require_unconstrained("transport_flow", nabla)
    _require_acceleration(acceleration)
    frame = nabla.frame
    n = frame.dim
    arguments = (
        Argument("q0", q0, (frame.ambient_dim,)),
        Argument("v0", v0, (n,)),
        Argument("z0", z0, (n,)),
    )
    solver = Solver.of("transport_flow", options, without=NOT_OF_FLOWS)
    return Trajectories.of(nabla).motion(
        "transport_flow", PytreePartial(_transport_flow, nabla, acceleration), arguments, times, solver
    )


def _require_acceleration(acceleration: Any) -> None:
    if acceleration is not None:
        require_function("acceleration", acceleration, "(t, q, v) -> acceleration (n,)")


def require_unconstrained(name: str, nabla: Any) -> None:
    """`TypeError` unless `nabla` is a connection whose frame spans all directions.

    Parameters
    ----------
    name : the function that is called.
    nabla : any object.
    """
    require_type("nabla", nabla, AffineConnection)
    if isinstance(nabla, ConstrainedConnection):
        why = "neighbours of its motions separate in directions that violate the constraints"
        raise TypeError(f"{name}: nabla is a ConstrainedConnection, and {why}; give its .full connection")


# --- at one point ----------------------------------------------------------------------------------------


def linearization_at(
    nabla: AffineConnection, q: jax.Array, v: jax.Array, acceleration: Acceleration | None, t: Any
) -> jax.Array:
    """[[s(., v), 1], [L_. a, da/dv]] with a = F - Gamma(v, v), (2n, 2n)."""
    frame = nabla.frame
    along, in_v = nabla.geodesic_slopes_at(q, v)
    if acceleration is not None:

        def force(p: jax.Array, w: jax.Array) -> jax.Array:
            return _acceleration_at(acceleration, t, p, w)

        along = along + frame.lie_derivative_at(lambda p: force(p, v), q).T
        in_v = in_v + jax.jacfwd(force, argnums=1)(q, v)
    turning = frame.structure_functions_at(q) @ v
    return _blocks(turning, jnp.eye(frame.dim), along, in_v)


def covariant_linearization_at(
    nabla: AffineConnection, q: jax.Array, v: jax.Array, acceleration: Acceleration | None, t: Any
) -> jax.Array:
    """[[T(v, .) - Gamma(v, .), 1], [-R(., v) v + nabla F, dF/dv - Gamma(v, .)]], (2n, 2n)."""
    n, Gamma = nabla.frame.dim, nabla.coefficients_at(q)
    carried = jnp.einsum("ijk,j->ik", Gamma, v)  # Gamma(v, .)
    torsion = jnp.einsum("ijk,j->ik", nabla.torsion_at(q), v)
    bending = -nabla.curvature_along_at(q, v)
    in_v = jnp.zeros((n, n))
    if acceleration is not None:
        F, in_v = _acceleration_at(acceleration, t, q, v), jax.jacfwd(acceleration, argnums=2)(t, q, v)
        along = nabla.frame.lie_derivative_at(lambda p: acceleration(t, p, v), q).T
        differentiated = jnp.einsum("ijk,k->ij", Gamma, F)  # Gamma(., F)
        bending = bending + along + differentiated - in_v @ jnp.einsum("ijk,k->ij", Gamma, v)
    return _blocks(torsion - carried, jnp.eye(n), bending, in_v - carried)


def deviation_map_at(nabla: AffineConnection, q: jax.Array, v: jax.Array) -> jax.Array:
    """[[1, 0], [Gamma(., v), 1]], (2n, 2n)."""
    n = nabla.frame.dim
    return _blocks(
        jnp.eye(n), jnp.zeros((n, n)), jnp.einsum("ijk,k->ij", nabla.coefficients_at(q), v), jnp.eye(n)
    )


# --- private ---------------------------------------------------------------------------------------------


def _geodesic_flow(nabla: AffineConnection, acceleration: Acceleration | None) -> Flow[GeodesicFlow]:
    frame = nabla.frame

    def start(q: jax.Array, v: jax.Array) -> Any:
        return q, v, jnp.eye(2 * frame.dim)

    def rate(t: jax.Array, state: Any, *given: jax.Array) -> Any:
        q, v, Phi = state
        total = -nabla.apply_at(q, v, v) + _acceleration_at(acceleration, t, q, v)
        return frame.matrix_at(q) @ v, total, linearization_at(nabla, q, v, acceleration, t) @ Phi

    def project(state: Any) -> Any:
        return frame.project_at(state[0]), state[1], state[2]

    def units(t0: jax.Array, s: jax.Array, state: Any, q: jax.Array, v: jax.Array) -> Any:
        return _flow_units(nabla, q, jnp.abs(s), *state)

    def record(t: jax.Array, state: Any, *given: jax.Array) -> Record[GeodesicFlow]:
        return GeodesicFlow(t, *state), state[0], jnp.asarray(True)

    return Flow(
        start,
        rate,
        record,
        units,
        project=project,
        **_acted_on(nabla, acceleration),
    )


def _transport_flow(nabla: AffineConnection, acceleration: Acceleration | None) -> Flow[TransportFlow]:
    frame = nabla.frame
    n = frame.dim

    def start(q: jax.Array, v: jax.Array, z: jax.Array) -> Any:
        turned = jnp.einsum("ijk,k->ij", nabla.coefficients_at(q), z)
        return q, v, z, jnp.eye(2 * n), jnp.concatenate([turned, jnp.zeros((n, n))], axis=1)

    def rate(t: jax.Array, state: Any, *given: jax.Array) -> Any:
        q, v, z, Phi, covariant = state
        Gamma, R = nabla.coefficients_at(q), nabla.curvature_at(q)
        total = -nabla.apply_at(q, v, v) + _acceleration_at(acceleration, t, q, v)
        carried = jnp.einsum("ijk,j->ik", Gamma, v)
        bent = jnp.einsum("lkij,k,i->lj", R, z, v) @ Phi[:n]
        Phi_dot = linearization_at(nabla, q, v, acceleration, t) @ Phi
        return frame.matrix_at(q) @ v, total, -carried @ z, Phi_dot, bent - carried @ covariant

    def project(state: Any) -> Any:
        return frame.project_at(state[0]), *state[1:]

    def units(t0: jax.Array, s: jax.Array, state: Any, q0: jax.Array, *given: jax.Array) -> Any:
        q, v, _, Phi, _ = state
        vector = motion_units(frame, nabla.known_metric, q)[1]
        of_q, of_v, of_Phi = _flow_units(nabla, q0, jnp.abs(s), q, v, Phi)
        return of_q, of_v, vector, of_Phi, of_Phi[: frame.dim]

    def record(t: jax.Array, state: Any, *given: jax.Array) -> Record[TransportFlow]:
        q, v, z, Phi, covariant = state
        turned = jnp.einsum("ijk,k->ij", nabla.coefficients_at(q), z)
        return TransportFlow(t, q, v, z, covariant - turned @ Phi[:n]), q, jnp.asarray(True)

    return Flow(
        start,
        rate,
        record,
        units,
        project=project,
        **_acted_on(nabla, acceleration),
    )


def _acceleration_at(acceleration: Acceleration | None, t: Any, q: jax.Array, v: jax.Array) -> jax.Array:
    """F(t, q, v), (n,); zero if none is given."""
    return (
        jnp.zeros_like(v)
        if acceleration is None
        else require_shape("acceleration(t, q, v)", acceleration(t, q, v), v.shape)
    )


def _flow_units(
    nabla: AffineConnection, q0: jax.Array, elapsed: jax.Array, q: jax.Array, v: jax.Array, Phi: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Units of (q, v, Phi) after the elapsed time; for Phi, ratios of the fields' lengths."""
    metric = nabla.known_metric
    if metric is None:
        flow = jnp.ones_like(Phi)
    else:
        now, then = metric.positive_at(q), metric.positive_at(q0)
        ratio = jnp.outer(inverse_lengths_of(now), lengths_of(then))
        flow = _blocks(ratio, ratio * elapsed, ratio / elapsed, ratio)
    return *motion_units(nabla.frame, metric, q), flow


def _acted_on(nabla: AffineConnection, acceleration: Acceleration | None) -> dict[str, Any]:
    """Arguments of `Flow`: without an acceleration <v, v> is conserved; one may depend on time."""
    return {"conserved": speed_of(nabla)} if acceleration is None else {"timed": True}


def _blocks(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> jax.Array:
    return jnp.concatenate([jnp.concatenate([a, b], axis=1), jnp.concatenate([c, d], axis=1)])


def _with_acceleration_at(
    at: Callable[..., jax.Array], acceleration: Acceleration | None, q: jax.Array, v: jax.Array, t: jax.Array
) -> jax.Array:
    return at(q, v, acceleration, t)


def _evaluate(
    at: Definition, nabla: AffineConnection, q: Any, v: Any, acceleration: Acceleration | None, t: Any
) -> jax.Array:
    _require_acceleration(acceleration)
    return evaluate(
        nabla,
        PytreePartial(_with_acceleration_at, PytreePartial(at, nabla), acceleration),
        Argument("q", q, (nabla.frame.ambient_dim,)),
        Argument("v", v, (nabla.frame.dim,)),
        Argument("t", t, ()),
    )
