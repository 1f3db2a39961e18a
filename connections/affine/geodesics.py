"""Geodesics, exponential and logarithm of any connection.

qdot = X(q) v, vdot^i = -Gamma^i_jk v^j v^k + F^i. Only Gamma's symmetric part enters: torsion does not.
The logarithm is found by shooting: continuation along a path from q0 to q1, Newton's method with the exact
derivative of the exponential at every stage, and a test that no conjugate point lies before q1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.connection import AffineConnection
from connections.affine.constrained import ConstrainedConnection
from connections.affine.integrate import MAX_STEPS, Trajectories, integrate
from connections.checks import ConvergenceError, as_array
from connections.geometry.evaluation import Argument, batch_shape, evaluate

LOG_TOLERANCE = 1e-10
_MIN_STAGE = 1.0 / 256.0
_NEWTON_STEPS = 12
_SHOT_STEPS = 2_000  # a shot that needs more has left the domain: Newton tries a shorter one

Force = Callable[[Any, jax.Array, jax.Array], jax.Array]


def geodesic(
    nabla: AffineConnection, q0: Any, v0: Any, times: Any, force: Force | None = None
) -> tuple[jax.Array, jax.Array]:
    """Points and velocities (q, v) of the geodesic of `nabla` through (q0, v0).

    Parameters
    ----------
    nabla : the connection.
    q0 : (..., nq) initial points, at times[0].
    v0 : (..., n) initial velocities, frame components.
    times : (T,) strictly monotone.
    force : optional (t, q, v) -> (n,) acceleration components added to the right-hand side; JAX-traceable.

    Returns
    -------
    q (..., T, nq), v (..., T, n); integrated to rtol = atol = 1e-10, points on the manifold.

    Raises
    ------
    IntegrationError : the curve leaves the chart, or the integration fails; names the time and the point.
    ShapeError, NonFiniteError, PointError, FrameError, MetricError.

    Source: [W] III-B.
    """

    def solve(q: jax.Array, v: jax.Array, clock: jax.Array) -> tuple[Any, Any, Any]:
        states = geodesic_at(nabla, q, v, clock, force)
        return states, states[0], jnp.ones(clock.shape[0], dtype=bool)

    arguments = (
        Argument("q0", q0, (nabla.frame.ambient_dim,)),
        Argument("v0", v0, (nabla.frame.dim,)),
    )
    return Trajectories.of(nabla).run(("geodesic", force), solve, arguments, times)


def geodesic_at(
    nabla: AffineConnection,
    q0: jax.Array,
    v0: jax.Array,
    times: jax.Array,
    force: Force | None = None,
    forward_mode: bool = False,
    max_steps: int = MAX_STEPS,
) -> tuple[jax.Array, jax.Array]:
    """One geodesic, JAX-traceable: (T, nq) and (T, n). A failed integration gives NaN."""
    options: dict[str, Any] = {"forward_mode": forward_mode, "max_steps": max_steps}
    if isinstance(nabla, ConstrainedConnection):
        return _feasible_geodesic_at(nabla, q0, v0, times, force, options)
    frame = nabla.frame

    def rhs(t: jax.Array, state: tuple[jax.Array, jax.Array], args: Any) -> tuple[jax.Array, jax.Array]:
        q, v = state
        v_dot = -nabla.apply_at(q, v, v)
        if force is not None:
            v_dot = v_dot + force(t, q, v)
        return frame.matrix_at(q) @ v, v_dot

    def project(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return frame.project_at(state[0]), state[1]

    return integrate(rhs, (q0, v0), times, project, **options)


def _feasible_geodesic_at(
    nabla: ConstrainedConnection, q0: Any, v0: Any, times: Any, force: Force | None, options: dict[str, Any]
) -> tuple[jax.Array, jax.Array]:
    """In ambient components, as the basis may be singular on the way where the constraints are not."""
    frame, base = nabla.frame, nabla.ambient.frame

    def rhs(t: Any, state: tuple[jax.Array, jax.Array], args: Any) -> tuple[jax.Array, jax.Array]:
        q, V = state
        free = -nabla.ambient.apply_at(q, V, V)
        if force is not None:
            free = free + nabla.basis_at(q) @ force(t, q, frame.components_at(q) @ V)
        return base.matrix_at(q) @ V, nabla.feasible_rate_at(q, V, free)

    def project(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        q = frame.project_at(state[0])
        return q, nabla.feasible_at(q, state[1])

    q, V = integrate(rhs, (q0, nabla.basis_at(q0) @ v0), times, project, **options)
    return q, jax.vmap(lambda p, w: frame.components_at(p) @ w)(q, V)


def exponential(nabla: AffineConnection, q0: Any, v0: Any) -> jax.Array:
    """exp_q0(v0), (..., nq): the geodesic of `nabla` after unit time.

    Parameters
    ----------
    nabla : the connection.
    q0 : (..., nq) points.
    v0 : (..., n) frame components.

    Raises
    ------
    IntegrationError : the geodesic does not reach unit time.
    """
    return geodesic(nabla, q0, v0, np.array([0.0, 1.0]))[0][..., -1, :]


def logarithm(nabla: AffineConnection, q0: Any, q1: Any) -> jax.Array:
    """The initial velocity of the geodesic of `nabla` that leads from q0 to q1 in unit time.

    Parameters
    ----------
    nabla : the connection.
    q0, q1 : (..., nq) points; of q1 and -q1, for unit quaternions, the nearer is taken.

    Returns
    -------
    (..., n) frame components at q0, with exp_q0 equal to q1 within 1e-10 and no conjugate point before q1.

    Raises
    ------
    ConvergenceError : no such geodesic was found, or it passes a conjugate point (beyond which another
        geodesic is shorter). Never a wrong answer in its place.
    """
    size = (nabla.frame.ambient_dim,)
    q0, q1 = as_array("q0", q0, size), as_array("q1", q1, size)
    shape = np.broadcast_shapes(batch_shape(q0, 1), batch_shape(q1, 1))
    starts, ends = (np.broadcast_to(q, shape + size).reshape(-1, *size) for q in (q0, q1))
    owner = Trajectories.of(nabla)
    ends = np.asarray(
        evaluate(
            owner,
            "logarithm: q1",
            lambda q, reference: nabla.frame.align_at(nabla.frame.project_at(q), reference),
            Argument("q1", ends, size),
            Argument("q0", starts, size),
        )
    )
    values = [_logarithm(nabla, owner, a, b) for a, b in zip(starts, ends, strict=True)]
    return jnp.asarray(values).reshape(shape + (nabla.frame.dim,))


# --- private -----------------------------------------------------------------------------------------------


def _logarithm(nabla: AffineConnection, owner: Trajectories, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
    """Continuation in the end point: stage s aims at the point s of the way from q0 to q1."""
    evaluate(owner, "logarithm: q0", lambda q: q, Argument("q0", q0, q0.shape))
    shoot = _compiled_shot(nabla, owner)
    done, stage, v = 0.0, 1.0, np.zeros(nabla.frame.dim)
    while done < 1.0:
        target = min(1.0, done + stage)
        guess = v * (target / done) if done > 0.0 else v
        trial = _newton(shoot, q0, q1, target, guess)
        if trial is None:
            stage /= 2.0
            if stage < _MIN_STAGE:
                raise ConvergenceError(_beyond(q0, q1, f"shooting stalls {done:.3f} of the way"))
        else:
            v, done, stage = trial, target, min(2.0 * stage, 1.0)
    if _passes_conjugate_point(nabla, owner, q0, v):
        raise ConvergenceError(_beyond(q0, q1, "the geodesic found passes a conjugate point"))
    return v


def _newton(shoot: Any, q0: np.ndarray, q1: np.ndarray, target: float, v: np.ndarray) -> np.ndarray | None:
    """Damped Newton for exp_q0(v) = the point `target` of the way to q1; None where it does not converge."""
    miss, jacobian, gap = (np.asarray(a) for a in shoot(q0, q1, target, v))
    for _ in range(_NEWTON_STEPS):
        if not np.isfinite(gap) or not np.isfinite(jacobian).all():
            return None
        if gap <= LOG_TOLERANCE:
            return v
        if np.linalg.cond(jacobian) > 1e9:
            return None
        step, damping = np.linalg.solve(jacobian, miss), 1.0
        while damping > 1e-3:
            new_miss, new_jacobian, new_gap = (
                np.asarray(a) for a in shoot(q0, q1, target, v - damping * step)
            )
            if np.isfinite(new_gap) and new_gap < max((1.0 - 0.25 * damping) * gap, LOG_TOLERANCE):
                break
            damping /= 2.0
        else:
            return None
        v, miss, jacobian, gap = v - damping * step, new_miss, new_jacobian, new_gap
    return v if gap <= LOG_TOLERANCE else None


def _compiled_shot(nabla: AffineConnection, owner: Trajectories) -> Any:
    """(q0, q1, s, v) -> the miss in frame components at the target, its Jacobian in v, the ambient gap."""
    frame = nabla.frame

    def shot(q0: jax.Array, q1: jax.Array, fraction: jax.Array, v: jax.Array) -> tuple[Any, Any, Any]:
        target = frame.project_at(q0 + fraction * (q1 - q0))
        dual = frame.dual_at(target)

        def miss(velocity: jax.Array) -> tuple[jax.Array, jax.Array]:
            end = geodesic_at(
                nabla, q0, velocity, jnp.array([0.0, 1.0]), forward_mode=True, max_steps=_SHOT_STEPS
            )[0][-1]
            difference = end - target
            return dual @ difference, difference

        columns = jax.vmap(lambda e: jax.jvp(miss, (v,), (e,))[1][0], out_axes=1)(jnp.eye(frame.dim))
        value, difference = miss(v)
        return value, columns, jnp.max(jnp.abs(difference))

    return owner.__dict__.setdefault("_shot", jax.jit(shot))


def _passes_conjugate_point(
    nabla: AffineConnection, owner: Trajectories, q0: np.ndarray, v: np.ndarray
) -> bool:
    """Whether det d exp_q0(t v) changes sign for t in (0, 1].

    d/dv of the geodesic at time t, over t, is the identity at t = 0; its determinant vanishes first at the
    first conjugate point.
    """
    frame = nabla.frame
    times = jnp.linspace(0.0, 1.0, 33)

    def determinants(start: jax.Array, velocity: jax.Array) -> jax.Array:
        def path(w: jax.Array) -> jax.Array:
            return geodesic_at(nabla, start, w, times, forward_mode=True, max_steps=_SHOT_STEPS)[0][1:]

        columns = jax.vmap(lambda e: jax.jvp(path, (velocity,), (e,))[1], out_axes=2)(jnp.eye(frame.dim))
        jacobians = jnp.einsum("tna,tam->tnm", jax.vmap(frame.dual_at)(path(velocity)), columns)
        return jnp.linalg.det(jacobians / times[1:, None, None])

    compiled = owner.__dict__.setdefault("_determinants", jax.jit(determinants))
    return not bool(np.all(np.asarray(compiled(q0, v)) > 1e-9))


def _beyond(q0: np.ndarray, q1: np.ndarray, reason: str) -> str:
    def text(q: np.ndarray) -> str:
        return np.array2string(q, precision=4, threshold=8)

    return f"logarithm: no minimizing geodesic from {text(q0)} to {text(q1)} was found ({reason})"
