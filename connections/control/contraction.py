"""Contraction: the rates at which neighbouring motions of a controlled mechanical system come together.

For H D_t v + dU = f(t, q, v), with the metric's Levi-Civita connection, the difference eta of two
neighbouring motions, and w = D_t eta = dv + Gamma(eta, v), satisfy

    H D_t w + S eta + D w = 0,    S = H R(., v) v + Hess U + K,
    K_ij = -(nabla_j f)_i, v transported parallelly along j,    D_ik = -df_i / dv^k,

R being the curvature. A hat is a matrix in an orthonormal frame, L^-1 . L^-T with H = L L^T. In a parallel
frame d/dt (eta, w) = M (eta, w), M = [[0, 1], [-S^, -D^]]. For constants kappa > delta^2,

    V = kappa |eta|^2 + 2 delta <eta, w> + |w|^2 = |x|^2 + |y|^2,    x = omega eta,   y = w + delta eta,

with omega^2 = kappa - delta^2, so that d/dt ln sqrt(V) is at most the largest eigenvalue of the symmetric
part of M in these variables, [[-delta, omega], [(delta D^ - S^ - delta^2) / omega, delta - D^]].
Source: [LS] for the question; docs/contraction.md derives the equations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from connections._jax import Array, ArrayLike
from connections.affine import AffineConnection, LeviCivita
from connections.checks import (
    ShapeError,
    as_array,
    batch_axes,
    require_finite,
    require_function,
    require_shape,
    require_type,
    require_untraced,
)
from connections.control.laws.gains import one_vector
from connections.coriolis import MechanicalSystem
from connections.coriolis.system import FORCES, Forces
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.parameters import PytreePartial
from connections.multibody import (
    Model,
    christoffel_symbols,
    gravity,
    inverse_dynamics_derivatives,
    mass_matrix,
)
from connections.multibody.as_geometry.robot_system import RobotSystem
from connections.multibody.curvatures import curvature_operator

_STEPS = 200  # of the search for kappa and delta, from which every step is a bound
_RANGE = 16.0  # of ln omega^2 about its start, outside which nothing is searched


@dataclass(frozen=True, eq=False)
class ContractionRates:
    """Rates of neighbouring motions at given states, in 1/s; negative if they come together.

    Attributes
    ----------
    bound : (...,) mu, an upper bound: sqrt(V)(t) <= sqrt(V)(0) exp(int mu dt) along a motion, for the
        distance V = kappa |eta|^2 + 2 delta <eta, w> + |w|^2 in the kinetic energy metric. It holds for every
        kappa and delta, but may be far above what happens.
    indicator : (..., 2n) complex, the roots of det(lambda^2 H + lambda D + S) = 0. They describe the motion
        only where H^-1 S and H^-1 D do not change in a parallel frame, as at an equilibrium. Elsewhere they
        neither bound nor estimate the rates.
    volume : (...,) the rate of volumes of sets of states, -tr(H^-1 D): it holds everywhere.
    kappa, delta : of V, in 1/s^2 and 1/s: the same for all states, as the bound needs along a motion.
    metric, stiffness, damping : (..., n, n) H, S and D.

    Examples
    --------
    >>> import connections as cn
    >>> from connections import control
    >>> mass = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), [[1.0]]))
    >>> rates = control.contraction_rates(mass, [0.0], [0.0], [[2.0]], [[3.0]])  # a spring and a damper
    >>> bool(rates.bound < 0.0), rates.stiffness, rates.damping
    (True, array([[2.]]), array([[3.]]))
    """

    bound: np.ndarray
    indicator: np.ndarray
    volume: np.ndarray
    kappa: float
    delta: float
    metric: np.ndarray
    stiffness: np.ndarray
    damping: np.ndarray


def contraction_rates(
    system: MechanicalSystem | Model,
    q: ArrayLike,
    v: ArrayLike,
    K: ArrayLike | None = None,
    D: ArrayLike | None = None,
    *,
    t: ArrayLike = 0.0,
    weight: tuple[float, float] | None = None,
) -> ContractionRates:
    """The rates at which neighbouring motions come together, a bound and an indicator: `ContractionRates`.

    Parameters
    ----------
    system : a mechanical system, whose potential and forces count, or a robot under gravity. Its motions must
        be the metric's; the Levi-Civita connection is used whatever the connection of its C.
    q : (..., nq) points.
    v : (..., n) velocities, frame components.
    K : (..., n, n) -(nabla_j f)_i of all other forces f(q, v), i the row; zero if None.
        `stiffness_and_damping` computes it. A damping force -D v adds (nabla_j D) v to K, and an open-loop
        force that is constant in the frame is a stiffness.
    D : (..., n, n) -df_i / dv^k of the same forces; zero if None.
    t : (...,) time at which the system's own forces are evaluated [s].
    weight : (kappa, delta) with kappa > delta^2 in 1/s^2 and 1/s; if None, that for which the largest bound
        over all states is least, as found by a search. Bounds along one motion need one weight: give all its
        states in one call.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, FrameError, MetricError, ClosureError.
    TypeError : no mechanical system or robot, or an argument that JAX traces.
    ValueError : kappa is not larger than delta^2.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import control
    >>> mass = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), [[1.0]]))
    >>> rates = control.contraction_rates(mass, [0.0], [0.0], [[2.0]], [[3.0]])  # a spring and a damper
    >>> np.sort(rates.indicator.real).round(6), float(rates.volume)
    (array([-2., -1.]), -3.0)

    Source: [LS]; docs/contraction.md.
    """
    require_untraced(q=q, v=v, K=K, D=D, t=t, weight=weight)
    require_finite("t", as_array("t", t, ()))
    if weight is not None:
        kappa, delta = map(float, one_vector("weight", weight, 2))
        if not kappa > delta**2:
            raise ValueError(f"weight: kappa {kappa} must be larger than delta^2 = {delta**2}")
    if isinstance(system, Model):
        terms = _of_robot(system, q, v)
    else:
        require_type("system", system, MechanicalSystem, "write contraction_rates(system, q, v), or a robot")
        robot = system.model if isinstance(system, RobotSystem) else None
        terms = _of_robot(robot, q, v) if isinstance(robot, Model) else _of_system(system, q, v, t)
    H, S, damping = (np.asarray(term) for term in terms)
    n = H.shape[-1]
    given = [
        np.zeros((n, n)) if x is None else np.asarray(as_array(m, x, (n, n))) for m, x in (("K", K), ("D", D))
    ]
    for name, value in zip("KD", given, strict=True):
        require_finite(name, value)
    batch_axes(("q", "K", "D"), (H[..., 0], given[0][..., 0], given[1][..., 0]))
    H, S, damping = np.broadcast_arrays(H, S + given[0], damping + given[1])
    inverse = np.linalg.inv(np.linalg.cholesky(H))
    S_hat, D_hat = (inverse @ x @ np.swapaxes(inverse, -1, -2) for x in (S, damping))
    if weight is None:
        if not S_hat.size:
            raise ShapeError("q", "one point or more, or a weight", np.shape(q))
        kappa, delta = _least_bound(S_hat, D_hat)
    zero, one = np.zeros(H.shape), np.broadcast_to(np.eye(n), H.shape)
    roots = np.linalg.eigvals(np.block([[zero, one], [-S_hat, -D_hat]]))
    volume = -np.einsum("...ii->...", D_hat)
    return ContractionRates(_bound(S_hat, D_hat, kappa, delta), roots, volume, kappa, delta, H, S, damping)


def stiffness_and_damping(
    nabla: AffineConnection, force: Forces, q: ArrayLike, v: ArrayLike, t: ArrayLike = 0.0
) -> tuple[Array, Array]:
    """(K, D) of a force f(t, q, v), (..., n, n) each, for `contraction_rates`.

    K_ij = -(L_j f_i - Gamma^l_ji f_l - (df_i / dv^k) Gamma^k_jl v^l) and D_ik = -df_i / dv^k.

    Parameters
    ----------
    nabla : the Levi-Civita connection of the kinetic energy, ``model.connection`` of a robot.
    force : (t, q, v) -> f (n,), paired with the frame; JAX-traceable.
    q : (..., nq) points.
    v : (..., n) velocities, frame components.
    t : (...,) time [s].

    Raises
    ------
    ShapeError, NonFiniteError, PointError, FrameError, MetricError, TypeError.

    Examples
    --------
    >>> import connections as cn
    >>> from connections import control
    >>> nabla = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(1), [[1.0]]))
    >>> control.stiffness_and_damping(nabla, lambda t, q, v: -2.0 * q - 3.0 * v, [0.5], [1.0])
    (array([[2.]]), array([[3.]]))

    Source: docs/contraction.md.
    """
    require_type("nabla", nabla, AffineConnection)
    require_function("force", force, FORCES)
    point, velocity = Argument("q", q, (nabla.frame.ambient_dim,)), Argument("v", v, (nabla.frame.dim,))
    return evaluate(
        nabla, PytreePartial(_stiffness_and_damping_at, nabla, force), point, velocity, Argument("t", t, ())
    )


def _stiffness_and_damping_at(
    nabla: AffineConnection, force: Forces, q: jax.Array, v: jax.Array, t: Any
) -> tuple[jax.Array, jax.Array]:
    def read(p: jax.Array, w: jax.Array) -> jax.Array:
        return require_shape("force(t, q, v)", force(t, p, w), v.shape)

    Gamma, f = nabla.coefficients_at(q), read(q, v)
    D = -jax.jacfwd(lambda w: read(q, w))(v)
    along = nabla.frame.lie_derivative_at(lambda p: read(p, v), q).T
    K = jnp.einsum("lji,l->ij", Gamma, f) - D @ jnp.einsum("kjl,l->kj", Gamma, v) - along
    return K, D


def _terms_at(
    system: MechanicalSystem, q: jax.Array, v: jax.Array, t: Any
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """H, S and D of potential and forces; Hess U is the stiffness of the force -dU."""
    nabla = LeviCivita(system.metric)

    def force(t: Any, p: jax.Array, w: jax.Array) -> jax.Array:
        return system.forces_at(t, p, w) - system.gravity_at(p)

    H, (K, D) = system.mass_matrix_at(q), _stiffness_and_damping_at(nabla, force, q, v, t)
    return H, H @ nabla.curvature_along_at(q, v) + K, D


def _of_system(system: MechanicalSystem, q: Any, v: Any, t: Any) -> tuple[Any, Any, Any]:
    frame = system.frame
    arguments = Argument("q", q, (frame.ambient_dim,)), Argument("v", v, (frame.dim,)), Argument("t", t, ())
    terms: tuple[Any, Any, Any] = evaluate(system, PytreePartial(_terms_at, system), *arguments)
    return terms


def _of_robot(model: Model, q: Any, v: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """H, S and D = 0 of a robot, by recursion; S contains Hess_ij = L_j g_i - Gamma_lji (H^-1 g)^l."""
    q, v, still = np.asarray(q), np.asarray(v), np.zeros(model.nv)
    bending, H = curvature_operator(model, q, v), mass_matrix(model, q)
    if not any(model.gravity):
        return H, bending, np.zeros(H.shape)
    rise = np.linalg.solve(H, gravity(model, q)[..., None])[..., 0]
    slope = inverse_dynamics_derivatives(model, q, still, still)[0]
    hessian = slope - np.einsum("...lji,...l->...ij", christoffel_symbols(model, q), rise)
    return H, bending + hessian, np.zeros(H.shape)


def _bound(S_hat: np.ndarray, D_hat: np.ndarray, kappa: float, delta: float) -> np.ndarray:
    """mu, (...,): the largest eigenvalue of the symmetric part of M in (omega eta, w + delta eta)."""
    one, omega = np.broadcast_to(np.eye(S_hat.shape[-1]), S_hat.shape), np.sqrt(kappa - delta**2)
    across = (delta * D_hat - S_hat - delta**2 * one) / omega
    rates = np.block([[-delta * one, omega * one], [across, delta * one - D_hat]])
    mu: np.ndarray = np.linalg.eigvalsh(0.5 * (rates + np.swapaxes(rates, -1, -2)))[..., -1]
    return mu


def _least_bound(S_hat: np.ndarray, D_hat: np.ndarray) -> tuple[float, float]:
    """(kappa, delta) for which the largest mu over all states is least.

    {P : M^T P + P M <= 2 mu P} is convex, so a local minimum of the largest mu is the least. The search
    starts with what is best if D^ = d 1: delta = d/2, kappa = max((s_min + s_max) / 2, d^2 / 2 - s_min).
    """
    s = np.linalg.eigvalsh(0.5 * (S_hat + np.swapaxes(S_hat, -1, -2)))
    start = 0.5 * float(np.mean(np.einsum("...ii->...", D_hat))) / S_hat.shape[-1]
    spread = max(float(s.min() + s.max()) / 2, 2 * start**2 - float(s.min())) - start**2
    size = np.sqrt(spread) if spread > 0.0 else 1.0

    def weight(x: np.ndarray) -> tuple[float, float]:
        delta = start + size * float(x[1])
        return (size * float(np.exp(0.5 * np.clip(x[0], -_RANGE, _RANGE)))) ** 2 + delta**2, delta

    def largest(x: np.ndarray) -> float:
        return float(_bound(S_hat, D_hat, *weight(x)).max())

    simplex = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.2]])
    options = {"initial_simplex": simplex, "maxfev": _STEPS, "xatol": 1e-6, "fatol": 1e-9}
    return weight(minimize(largest, simplex[0], method="Nelder-Mead", options=options).x)
