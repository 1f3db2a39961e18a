"""Other ways to compute the Coriolis matrix of the Levi-Civita connection, for trees and closed chains.

They share little code with the recursions and with each other, so that agreement is evidence for all:

    projection:       C = G^T (C_s G + H_s Gdot),                  s: the spanning tree,
    Jacobians:        C = sum_b J_b^T (C_b J_b + I_b Jdot_b),      [W] (20),
    differentiation:  C = 1/2 (d(C v)/dv + H K),  K^i_k = s^i_jk v^j,    [W] (32).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array
from connections.checks import as_array, batch_axes, require_finite, require_untraced
from connections.evaluation.boundary import Argument, evaluate
from connections.evaluation.parameters import Bound
from connections.multibody.definition.spatial import body_coriolis_blocks
from connections.multibody.functions import coriolis_matrix, documented, inverse_dynamics, mass_matrix
from connections.multibody.model import Model, require_model


@documented
def coriolis_matrix_by_projection(model: Model, q: Any, v: Any) -> np.ndarray:
    """C(q, v), (..., nv, nv), from C and H of the spanning tree: G^T (C_s G + H_s Gdot); C_s for a tree.

    Source: [W] (17) and VI-C.
    """
    require_model("coriolis_matrix_by_projection", model)
    if not model.closed:
        return coriolis_matrix(model, q, v)
    q, v = _broadcast(model, q, v)
    q_s, G, LG = model.program.solution(q)
    tree = model.spanning_tree
    v_s, G_rate = (G @ v[..., None])[..., 0], np.einsum("...sjk,...j->...sk", LG, v)
    parts = coriolis_matrix(tree, q_s, v_s) @ G + mass_matrix(tree, q_s) @ G_rate
    C: np.ndarray = np.swapaxes(G, -1, -2) @ parts
    return C


@documented
def coriolis_matrix_by_jacobians(model: Model, q: Any, v: Any) -> Array:
    """C(q, v), (..., nv, nv), from the Jacobians J_b of all bodies and their rates, by exact derivatives.

    Source: [W] (20), with C_b of (18), (19).
    """
    require_model("coriolis_matrix_by_jacobians", model)
    arguments = (Argument("q", q, (model.nq,)), Argument("v", v, (model.nv,)))
    return evaluate(model, Bound(_by_jacobians_at, model), *arguments)


@documented
def coriolis_matrix_by_differentiation(model: Model, q: Any, v: Any) -> np.ndarray:
    """C(q, v), (..., nv, nv), from the bias C v of inverse dynamics, H, and the brackets of the frame.

    The bias is quadratic in v, so central differences of it are exact, whatever their step.

    Source: [W] (32).
    """
    require_model("coriolis_matrix_by_differentiation", model)
    require_untraced(q=q, v=v)
    q, v = _broadcast(model, q, v)
    weightless, n = model.weightless, model.nv
    H = mass_matrix(model, q)
    energy = np.einsum("...i,...ij,...j->...", v, H, v)[..., None]
    # Each step has as much kinetic energy as v, so that neither of them is lost to round-off in their sum.
    step = np.sqrt(np.where(energy > 0.0, energy, 1.0) / np.diagonal(H, axis1=-2, axis2=-1))
    steps = step[..., None] * np.eye(n)
    q_all, nothing = q[..., None, :], np.zeros(n)
    ahead = inverse_dynamics(weightless, q_all, v[..., None, :] + steps, nothing)
    behind = inverse_dynamics(weightless, q_all, v[..., None, :] - steps, nothing)
    slope = np.swapaxes(ahead - behind, -1, -2) / (2.0 * step[..., None, :])  # [i, k] = d(C v)_i / dv^k
    K = np.einsum("...ijk,...j->...ik", np.asarray(model.frame.structure_functions(q)), v)
    C: np.ndarray = (slope + H @ K) / 2.0
    return C


def _by_jacobians_at(model: Model, q: jax.Array, v: jax.Array) -> jax.Array:
    """sum_b J_b^T (C_b J_b + I_b Jdot_b) at q (nq,), v (nv,)."""
    inertias = jnp.asarray(model.kinematics.tree.inertias)

    def jacobians(q: jax.Array) -> jax.Array:
        return model.body_jacobians_at(q).reshape(-1, 6, model.nv)

    J, J_rate = jax.jvp(jacobians, (q,), (model.frame.matrix_at(q) @ v,))
    parts = body_coriolis_blocks(inertias, J @ v) @ J + inertias @ J_rate
    return jnp.einsum("nak,naj->kj", J, parts)


def _broadcast(model: Model, q: Any, v: Any) -> tuple[np.ndarray, np.ndarray]:
    """q and v with the same batch axes."""
    vectors = [np.asarray(as_array("q", q, (model.nq,))), np.asarray(as_array("v", v, (model.nv,)))]
    batch = batch_axes(("q", "v"), vectors)
    require_finite("v", vectors[1])  # v is multiplied before a recursion checks it
    return np.broadcast_to(vectors[0], (*batch, model.nq)), np.broadcast_to(vectors[1], (*batch, model.nv))
