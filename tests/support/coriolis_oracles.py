"""Other ways to compute the Coriolis matrix of the Levi-Civita connection, for trees and closed chains.

They share little code with the recursions and with each other, so that agreement is evidence for all:

    projection:       C = G^T (C_s G + H_s Gdot),                  s: the spanning tree, [W] (17) and VI-C,
    Jacobians:        C = sum_b J_b^T (C_b J_b + I_b Jdot_b),      [W] (20), with C_b of (18), (19),
    differentiation:  C = 1/2 (d(C v)/dv + H K),  K^i_k = s^i_jk v^j,    [W] (32).
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from connections import multibody as mb
from connections.multibody.definition.spatial import body_coriolis_blocks


def by_projection(model, q, v):
    """C(q, v), (..., nv, nv), from C and H of the spanning tree: G^T (C_s G + H_s Gdot); C_s for a tree."""
    if not model.closed:
        return mb.coriolis_matrix(model, q, v)
    q_s, G, LG = model.program.solution(q)
    tree = model.spanning_tree
    v_s, G_rate = (G @ v[..., None])[..., 0], np.einsum("...sjk,...j->...sk", LG, v)
    parts = mb.coriolis_matrix(tree, q_s, v_s) @ G + mb.mass_matrix(tree, q_s) @ G_rate
    return np.swapaxes(G, -1, -2) @ parts


def by_jacobians(model, q, v):
    """C(q, v), (..., nv, nv), from the Jacobians J_b of all bodies and their rates, by exact derivatives."""
    points, velocities = q.reshape(-1, model.nq), v.reshape(-1, model.nv)
    return np.asarray(_compiled(model)(points, velocities)).reshape(*v.shape, model.nv)


def by_differentiation(model, q, v):
    """C(q, v), (..., nv, nv), from the bias C v of inverse dynamics, H, and the brackets of the frame.

    The bias is quadratic in v, so central differences of it are exact, whatever their step.
    """
    weightless, n = model.weightless, model.nv
    H = mb.mass_matrix(model, q)
    energy = np.einsum("...i,...ij,...j->...", v, H, v)[..., None]
    # Each step has as much kinetic energy as v, so that neither of them is lost to round-off in their sum.
    step = np.sqrt(np.where(energy > 0.0, energy, 1.0) / np.diagonal(H, axis1=-2, axis2=-1))
    steps = step[..., None] * np.eye(n)
    q_all, nothing = q[..., None, :], np.zeros(n)
    ahead = mb.inverse_dynamics(weightless, q_all, v[..., None, :] + steps, nothing)
    behind = mb.inverse_dynamics(weightless, q_all, v[..., None, :] - steps, nothing)
    slope = np.swapaxes(ahead - behind, -1, -2) / (2.0 * step[..., None, :])  # [i, k] = d(C v)_i / dv^k
    K = np.einsum("...ijk,...j->...ik", np.asarray(model.frame.structure_functions(q)), v)
    return (slope + H @ K) / 2.0


#: Name: function of model, q (..., nq) and v (..., nv), with the same batch axes.
ROUTES = {"projection": by_projection, "Jacobians": by_jacobians, "differentiation": by_differentiation}


@cache
def _compiled(model):
    """`_by_jacobians_at` of one model on rows of points and velocities."""
    return jax.jit(jax.vmap(partial(_by_jacobians_at, model)))


def _by_jacobians_at(model, q, v):
    """sum_b J_b^T (C_b J_b + I_b Jdot_b) at q (nq,), v (nv,)."""
    inertias = jnp.asarray(model.kinematics.tree.inertias)

    def jacobians(q):
        return model.body_jacobians_at(q).reshape(-1, 6, model.nv)

    J, J_rate = jax.jvp(jacobians, (q,), (model.frame.matrix_at(q) @ v,))
    parts = body_coriolis_blocks(inertias, J @ v) @ J + inertias @ J_rate
    return jnp.einsum("nak,naj->kj", J, parts)


def largest_of_planar_arm() -> float:
    """sup |C(v) y| over unit vectors of C(v) v = (-2 v_1 v_2 - v_2^2, v_1^2): two links, 1 m and 1 kg.

    Symmetric bilinear maps attain their norm at v = y, so it is the largest value on a circle.
    """
    t = np.linspace(0.0, np.pi, 2_000_001)
    return float(np.sqrt((np.sin(2 * t) + np.sin(t) ** 2) ** 2 + np.cos(t) ** 4).max())
