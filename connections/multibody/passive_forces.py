"""Passive forces of a robot and their derivatives, over batches: in NumPy, and inside JAX where it traces.

The equations are those of `applied_forces`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import as_array, batch_axes, is_traced, require_finite
from connections.evaluation.boundary import Argument, as_given, evaluate
from connections.multibody.applied_forces import passive_forces_at
from connections.multibody.definition.host_kinematics import configuration
from connections.multibody.program.closed import Closed, coordinates_of


def passive_forces(model: Any, q: Any, v: Any) -> Any:
    """tau (..., nv), N m and N, at q (..., nq), or a `Closed`, and v (..., nv)."""
    if is_traced(q, v):
        return evaluate(model, model.passive_forces_at, *_arguments(model, q, v))
    at, x, batch = _real(model, q, v)
    if model.closed:
        q_s, G, _ = model.program.solution(at)
        tau_s = model.passive_law.forces(q_s, np.einsum("...si,...i->...s", G, x))
        tau = np.einsum("...si,...s->...i", G, tau_s)
    else:
        tau = model.passive_law.forces(at, x)
    if model.lifted is not None:
        tau = tau + model.lifted.program.functions["gravity"](at, (), None)
    return as_given(np.broadcast_to(tau, (*batch, model.nv)), *_arrays(q, v))


def passive_slopes(model: Any, q: Any, v: Any) -> tuple[Any, Any]:
    """dtau/dq along the frame fields and dtau/dv, (..., nv, nv) each; [i, j] is the derivative along X_j."""
    if is_traced(q, v):
        stacked = evaluate(model, model.passive_slopes_at, *_arguments(model, q, v))
        return stacked[..., 0, :, :], stacked[..., 1, :, :]
    at, x, batch = _real(model, q, v)
    law, lifted = model.passive_law, model.lifted
    if model.closed:
        q_s, G, LG = model.program.solution(at)
        v_s = np.einsum("...si,...i->...s", G, x)
        K, D = law.slopes(q_s, v_s)
        in_q = np.einsum("...sji,...s->...ij", LG, law.forces(q_s, v_s))
        along = np.einsum("...st,...tj->...sj", K, G) + np.einsum("...st,...tjk,...k->...sj", D, LG, x)
        in_q += np.einsum("...si,...sj->...ij", G, along)
        in_v = np.einsum("...si,...st,...tj->...ij", G, D, G)
    else:
        in_q, in_v = law.slopes(at, x)
    if lifted is not None:
        still = np.zeros(model.nv)
        of_lift = lifted.program.functions["inverse_dynamics_derivatives"](at, still, still, (), None)
        in_q = in_q + of_lift[..., 0, :, :]
    shape = (*batch, model.nv, model.nv)
    return as_given((np.broadcast_to(in_q, shape), np.broadcast_to(in_v, shape)), *_arrays(q, v))


def passive_slopes_at(model: Any, q: jax.Array, v: jax.Array) -> jax.Array:
    """Both slopes (2, nv, nv) at one point."""
    along = model.frame.lie_derivative_at(lambda p: passive_forces_at(model, p, v), q).T
    return jnp.stack([along, jax.jacfwd(lambda v: passive_forces_at(model, q, v))(v)])


def _arguments(model: Any, q: Any, v: Any) -> tuple[Argument, Argument]:
    q = coordinates_of(q, model.kinematics)
    return Argument("q", q, (model.nq,)), Argument("v", v, (model.nv,))


def _real(model: Any, q: Any, v: Any) -> tuple[Any, np.ndarray, tuple[int, ...]]:
    """q, of a robot with loops a `Closed`, and v, both checked, and their batch axes."""
    v = np.asarray(as_array("v", v, (model.nv,)), dtype=np.float64)
    require_finite("v", v)
    points = coordinates_of(q, model.kinematics)
    if not model.closed:
        q = points = configuration(model.kinematics, "q", points)
    elif not isinstance(q, Closed):
        q = model.program.close(points)
        points = q.q
    return q, v, batch_axes(("q", "v"), (points, v))


def _arrays(q: Any, v: Any) -> tuple[Any, Any]:
    """The arrays that say of which kind a result is."""
    return (q.q if isinstance(q, Closed) else q), v
