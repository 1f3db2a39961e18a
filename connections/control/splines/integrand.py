"""The cost of a curve of effort at one instant, with derivatives by the curve's ambient coordinates.

A curve is P(t) in ambient coordinates, projected on the manifold: q = project(P). Its jet at an instant is
(P, Pdot, Pddot), which gives q, v and vdot, and

    L = (1/2) tau^T W tau + (sigma/2) v^T H v,    tau = H vdot + C v + g - F.

A variation of P is a tangent vector eta = X^+ delta q of q in frame components; D_t^2 eta is linear in the
variation's jet. Source: [W] eq. (1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from connections.coriolis import MechanicalSystem
from connections.evaluation.parameters import Parametrized
from connections.geometry.numerics.definite import orthonormal_basis, solve_definite


class Effort(Parametrized):
    """The integrand L of a system.

    Parameters
    ----------
    system : its metric, connection, potential and forces.
    weight : W (n, n), or q -> W (n, n); None for H^-1.
    tension : sigma, 1/s^2 if W is H^-1.
    """

    def __init__(self, system: MechanicalSystem, weight: Any, tension: Any) -> None:
        self.system, self.weight, self.tension = system, weight, tension

    def force_at(self, t: Any, q: jax.Array, v: jax.Array, a: jax.Array) -> jax.Array:
        """tau (n,) that the control has to add for vdot = a."""
        return self.system.inverse_dynamics_at(q, v, a, t)

    def weighted_at(self, q: jax.Array, tau: jax.Array) -> jax.Array:
        """W tau, (n, ...)."""
        if self.weight is None:
            return solve_definite(self.system.mass_matrix_at(q), tau)
        W = self.weight(q) if callable(self.weight) else self.weight
        return jnp.asarray(W) @ tau

    def value_at(self, t: Any, q: jax.Array, v: jax.Array, a: jax.Array) -> jax.Array:
        """L, a scalar."""
        tau = self.force_at(t, q, v, a)
        if self.weight is None:  # H^-1 tau, for robots by a recursion whose derivatives are recursions, too
            raised = a - self.system.forward_dynamics_at(q, v, jnp.zeros_like(v), t)
        else:
            raised = self.weighted_at(q, tau)
        squares: jax.Array = tau @ raised + self.tension * v @ self.system.momentum_at(q, v)
        return 0.5 * squares


def state_at(effort: Effort, jet: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """q (nq,), v (n,) and vdot (n,) of the jet (3, nq) of a curve."""
    frame = effort.system.frame

    def moving(s: jax.Array) -> tuple[jax.Array, jax.Array]:
        q, rate = jax.jvp(lambda s: frame.project_at(_moved(jet, s)), (s,), (jnp.ones(()),))
        return frame.dual_at(q) @ rate, q

    (v, q), (a, _) = jax.jvp(moving, (jnp.zeros(()),), (jnp.ones(()),))
    return q, v, a


def model_at(effort: Effort, t: jax.Array, jet: jax.Array) -> tuple[jax.Array, ...]:
    """L, its gradient (3, nq) and Hessian (3, nq, 3, nq) by the jet, |D_t^2 eta|^2 as such a matrix, |v|^2.

    Both squares are of vectors x that stand for accelerations: (H x)^T W (H x).
    """

    def slope(jet: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        value, gradient = jax.value_and_grad(lambda jet: effort.value_at(t, *state_at(effort, jet)))(jet)
        return gradient, (value, gradient)

    hessian, (value, gradient) = jax.jacfwd(slope, has_aux=True)(jet)
    q, v, _ = state_at(effort, jet)
    momentum = effort.system.momentum_at(q, v)
    square = momentum @ effort.weighted_at(q, momentum)
    return value, gradient, hessian, _reference_at(effort, t, jet), square


def instant_at(effort: Effort, t: jax.Array, jet: jax.Array) -> tuple[jax.Array, ...]:
    """q, v, vdot and tau."""
    state = state_at(effort, jet)
    return *state, effort.force_at(t, *state)


def node_at(effort: Effort, q: jax.Array, rate: jax.Array, bumps: jax.Array) -> tuple[jax.Array, ...]:
    """A point q (nq,), its rate (nq,) and bumps (2, nq) projected on the manifold; the frame X (nq, n)."""
    frame = effort.system.frame
    q, rate = jax.jvp(frame.project_at, (q,), (rate,))
    X = frame.matrix_at(q)
    return q, rate, X, bumps if frame.dim == frame.ambient_dim else bumps @ (X @ frame.dual_at(q)).T


def gap_at(effort: Effort, q: jax.Array, dv: jax.Array, dtau: jax.Array) -> tuple[jax.Array]:
    """(H dv)^T W (H dv) + dtau^T W dtau at q."""
    both = jnp.stack([effort.system.mass_matrix_at(q) @ dv, dtau], axis=1)
    return (jnp.sum(both * effort.weighted_at(q, both)),)


def bent_at(effort: Effort, q: jax.Array, xi: jax.Array) -> tuple[jax.Array]:
    """The point (nq,) to which xi (n,) leads from q, in an orthonormal basis of the metric there."""
    frame = effort.system.frame
    along = orthonormal_basis(effort.system.mass_matrix_at(q))[1] @ xi
    return (frame.retract_at(q, along),)


def costate_at(
    effort: Effort, t: Any, q: jax.Array, rate: jax.Array, by_q: jax.Array, by_rate: jax.Array
) -> tuple[jax.Array, ...]:
    """The state, control and costate at an instant, from the derivatives of the cost by point and rate (nq,).

    Returns
    -------
    v (n,), vdot (n,), tau (n,), the costate c_q (n,), c_v (n,), and c_q . v + c_v . vdot - L. The control tau
    is the one for which c_v . vdot - L is stationary: H W tau = c_v.
    """
    system = effort.system
    frame, v = system.frame, system.frame.dual_at(q) @ rate
    c_v = frame.matrix_at(q).T @ by_rate
    c_q = frame.lie_derivative_at(lambda p: by_q @ p + by_rate @ frame.matrix_at(p) @ v, q)
    if effort.weight is None:
        tau = c_v
    else:
        tau = solve_definite(
            effort.weighted_at(q, jnp.eye(frame.dim)), solve_definite(system.mass_matrix_at(q), c_v)
        )
    a = system.forward_dynamics_at(q, v, tau, t)
    running = 0.5 * tau @ effort.weighted_at(q, tau) + 0.5 * effort.tension * v @ system.momentum_at(q, v)
    return v, a, tau, c_q, c_v, c_q @ v + c_v @ a - running


def momentum_at(
    effort: Effort,
    field: Callable[[jax.Array], jax.Array],
    q: jax.Array,
    v: jax.Array,
    c_q: jax.Array,
    c_v: jax.Array,
) -> tuple[jax.Array]:
    """c_q . Y + c_v . dv, dv = L_v Y - s(Y, v) the change of v along the flow of Y; a scalar."""
    frame = effort.system.frame
    Y, rate = jax.jvp(field, (q,), (frame.matrix_at(q) @ v,))
    return (c_q @ Y + c_v @ (rate - frame.bracket_of_constants_at(q, Y, v)),)


# --- private -----------------------------------------------------------------------------------------------


def _moved(jet: jax.Array, s: jax.Array) -> jax.Array:
    """P after a time s, by the jet."""
    return jet[0] + s * (jet[1] + 0.5 * s * jet[2])


def _reference_at(effort: Effort, t: Any, jet: jax.Array) -> jax.Array:
    """The matrix (3, nq, 3, nq) of (|H D_t^2 eta|^2 + |D_eta tau|^2) / 2 in the jet of a variation of P.

    |.|^2 is x^T W x, and D_eta tau the covariant derivative of the force along the variation.
    """
    system = effort.system
    frame, nabla, one, now = system.frame, system.connection, jnp.ones(()), jnp.zeros(())
    assert nabla is not None  # a system without one has its metric's

    def point(s: jax.Array) -> jax.Array:
        return frame.project_at(_moved(jet, s))

    def force(jet: jax.Array) -> jax.Array:
        return effort.force_at(t, *state_at(effort, jet))

    def changed(variation: jax.Array) -> tuple[jax.Array, jax.Array]:
        def eta(s: jax.Array) -> jax.Array:
            return frame.velocity_at(*jax.jvp(frame.project_at, (_moved(jet, s),), (_moved(variation, s),)))

        def along(field: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
            def derivative(s: jax.Array) -> jax.Array:
                q, rate = jax.jvp(point, (s,), (one,))
                value, change = jax.jvp(field, (s,), (one,))
                derived: jax.Array = change + nabla.apply_at(q, frame.velocity_at(q, rate), value)
                return derived

            return derivative

        tau, change = jax.jvp(force, (jet,), (variation,))
        (turned,) = jax.vjp(lambda w: nabla.apply_at(point(now), eta(now), w), jnp.zeros_like(tau))[1](tau)
        return along(along(eta))(now), change - turned

    q = point(now)
    bends, changes = jax.vmap(changed)(jnp.eye(jet.size).reshape(-1, *jet.shape))
    bent, changed_force = (bends @ system.mass_matrix_at(q)).T, changes.T
    squares = bent.T @ effort.weighted_at(q, bent) + changed_force.T @ effort.weighted_at(q, changed_force)
    return squares.reshape(*jet.shape, *jet.shape) / 2.0
