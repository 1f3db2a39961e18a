"""Jacobi fields: how the geodesics next to one geodesic separate from it.

With the torsion T and the curvature R of the connection, and D_t x = xdot + Gamma(v, x), a Jacobi field
satisfies

    D_t^2 eta + D_t (T(eta, v)) + R(eta, v) v = 0.

It is integrated in the form that needs neither T nor R, as the derivative of the geodesics' equation
(`motions/deviation.py`): etadot = dv + s(eta, v), and the rate of dv is the derivative of -Gamma(v, v) along
(eta, dv). Because T(v, eta) contains the bracket, D_t eta = dv + Gamma(v, eta) + s(eta, v).
Source: [L] chapter 10; with torsion, equality of mixed derivatives of a variation.
"""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

import jax
import jax.numpy as jnp

from connections._jax import Array, ArrayLike
from connections.affine.connection import AffineConnection
from connections.affine.motions.deviation import require_unconstrained
from connections.affine.motions.flow import Flow, Record, Trajectories
from connections.affine.motions.motion import Motion, largest, motion_class
from connections.affine.motions.units import motion_units, speed_of
from connections.evaluation.boundary import Argument
from connections.evaluation.parameters import PytreePartial
from connections.integration.solver import Options, Solver


@motion_class
class JacobiField(Motion):
    """A geodesic with a Jacobi field along it: the field, and its covariant derivative along the geodesic.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> def H(q):  # colatitude and longitude
    ...     return jnp.diag(jnp.array([1.0, jnp.sin(q[0]) ** 2]))
    >>> sphere = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), H))
    >>> q, v, eta, deta = [jnp.pi / 2, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]
    >>> field = cn.jacobi_field(sphere, q, v, eta, deta, [0.0, 1.0])
    >>> field.eta.shape, field.deta[-1, 0].round(6)
    ((2, 2), np.float64(-0.841471))
    """

    eta: Array
    """(..., T, n) the field, frame components; in the units of v times seconds."""
    deta: Array
    """(..., T, n) D_t eta, frame components; in the units of v."""

    PANELS: ClassVar[tuple[tuple[str, str], ...]] = (
        *Motion.PANELS,
        ("eta", "Jacobi field eta [rad, m]"),
        ("deta", "D_t eta [rad/s, m/s]"),
    )

    def _summary(self) -> str:
        return f"largest |eta| {largest(self.eta)}, |D_t eta| {largest(self.deta)}, |v| {largest(self.v)}"


def jacobi_field(
    nabla: AffineConnection,
    q: ArrayLike,
    v: ArrayLike,
    eta0: ArrayLike,
    deta0: ArrayLike,
    times: ArrayLike,
    **options: Unpack[Options],
) -> JacobiField:
    """The Jacobi field with eta = eta0 and D_t eta = deta0 at times[0], along the geodesic through (q, v).

    It is the derivative at s = 0 of geodesics that begin along a curve of points with the velocity eta0, with
    the velocities v + s w, carried there by parallel transport, w = deta0 + T(eta0, v).

    Parameters
    ----------
    nabla : the connection, with or without torsion and metric.
    q : (..., nq) initial points, at times[0].
    v : (..., n) initial velocities, frame components.
    eta0, deta0 : (..., n) the field and its covariant derivative D_t eta, frame components; the batch axes of
        q, v, eta0 and deta0 broadcast, so that many fields along one geodesic are one call.
    times : (T,) strictly monotone.
    options : as for `geodesic`.

    Returns
    -------
    JacobiField : q (..., T, nq), v, eta and deta (..., T, n). A step's error is at most 1e-10 of the largest
        value that a component has had.

    Raises
    ------
    IntegrationError : the geodesic leaves the chart, or the integration fails; names the time and the point.
    TypeError : of a ConstrainedConnection, because neighbours of a motion that satisfies constraints separate
        in directions that violate them.
    ShapeError, NonFiniteError, PointError, FrameError, MetricError.

    Examples
    --------
    Neighbours on a sphere come together: the field is cos t.

    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> def H(q):  # colatitude and longitude
    ...     return jnp.diag(jnp.array([1.0, jnp.sin(q[0]) ** 2]))
    >>> sphere = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), H))
    >>> q, v, eta, deta = [jnp.pi / 2, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]
    >>> field = cn.jacobi_field(sphere, q, v, eta, deta, [0.0, 1.0])
    >>> field.eta[-1, 0].round(6), float(jnp.cos(1.0).round(6))
    (np.float64(0.540302), 0.540302)

    Source: [L] chapter 10; with torsion, docs/linearization.md.
    """
    require_unconstrained("jacobi_field", nabla)
    n = nabla.frame.dim
    arguments = (
        Argument("q", q, (nabla.frame.ambient_dim,)),
        Argument("v", v, (n,)),
        Argument("eta0", eta0, (n,)),
        Argument("deta0", deta0, (n,)),
    )
    solver = Solver.of("jacobi_field", options)
    return Trajectories.of(nabla).motion(
        "jacobi_field", PytreePartial(_jacobi_flow, nabla), arguments, times, solver
    )


def _jacobi_flow(nabla: AffineConnection) -> Flow[JacobiField]:
    frame = nabla.frame

    def start(q: jax.Array, v: jax.Array, eta: jax.Array, deta: jax.Array) -> Any:
        return q, v, eta, deta - turned(q, v, eta)

    def turned(q: jax.Array, v: jax.Array, eta: jax.Array) -> jax.Array:
        """D_t eta - dv."""
        return nabla.apply_at(q, v, eta) + frame.bracket_of_constants_at(q, eta, v)

    def rate(t: jax.Array, state: Any, *given: jax.Array) -> Any:
        q, v, eta, dv = state

        def acceleration(p: jax.Array, w: jax.Array) -> jax.Array:
            return -nabla.apply_at(p, w, w)

        X = frame.matrix_at(q)
        v_dot, along = jax.jvp(acceleration, (q, v), (X @ eta, dv))
        return X @ v, v_dot, dv + frame.bracket_of_constants_at(q, eta, v), along

    def project(state: Any) -> Any:
        return frame.project_at(state[0]), *state[1:]

    def units(t0: jax.Array, s: jax.Array, state: Any, *given: jax.Array) -> Any:
        of_q, of_v = motion_units(frame, nabla.known_metric, state[0], state[1])
        return of_q, of_v, of_v, of_v

    def record(t: jax.Array, state: Any, *given: jax.Array) -> Record[JacobiField]:
        q, v, eta, dv = state
        return JacobiField(t, q, v, eta, dv + turned(q, v, eta)), q, jnp.asarray(True)

    return Flow(start, rate, record, units, project=project, conserved=speed_of(nabla))
