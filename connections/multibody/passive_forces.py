"""Passive forces of a robot and their derivatives, over batches: in NumPy, and inside JAX where it traces.

The equations are those of `applied_forces`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import as_array, batch_axes, is_traced, require_finite
from connections.evaluation.boundary import Argument, as_given, evaluate
from connections.evaluation.content import ByContent
from connections.evaluation.parameters import PytreePartial
from connections.multibody.applied_forces import PassiveLaw, passive_forces_at
from connections.multibody.definition.host_kinematics import configuration
from connections.multibody.program.closed import SolvedLoops, coordinates_of
from connections.multibody.program.solution_layout import Solution


def passive_forces(model: Any, q: Any, v: Any) -> Any:
    """tau (..., nv), N m and N, at q (..., nq), or `SolvedLoops`, and v (..., nv)."""
    if is_traced(q, v):
        return evaluate(model, model.passive_forces_at, *_arguments(model, q, v))
    at, x, batch = _real(model, q, v)
    if model.closed:
        tau = reduced_forces(model.passive_law, model.program.solution(at), x)
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
        in_q, in_v = reduced_slopes(law, model.program.solution(at), x)
    else:
        in_q, in_v = law.slopes(at, x)
    if lifted is not None:
        still = np.zeros(model.nv)
        of_lift = lifted.program.functions["inverse_dynamics_derivatives"](at, still, still, (), None)
        in_q = in_q + of_lift[..., 0, :, :]
    shape = (*batch, model.nv, model.nv)
    return as_given((np.broadcast_to(in_q, shape), np.broadcast_to(in_v, shape)), *_arrays(q, v))


def reduced_forces(law: PassiveLaw, solution: Solution, v: Any, numbers: Any = np) -> Any:
    """G^T tau_s, (..., nv), of a closed chain at solutions of its loops and v (..., nv)."""
    q_s, G, _ = solution
    tau_s = law.forces(q_s, np.einsum("...si,...i->...s", G, v), numbers)
    return np.einsum("...si,...s->...i", G, tau_s)


def reduced_slopes(law: PassiveLaw, solution: Solution, v: Any, numbers: Any = np) -> tuple[Any, Any]:
    """The derivatives of `reduced_forces` along the frame fields and in v, (..., nv, nv) each."""
    q_s, G, LG = solution
    v_s = np.einsum("...si,...i->...s", G, v)
    K, D = law.slopes(q_s, v_s, numbers)
    along = K @ G + D @ np.einsum("...tjk,...k->...tj", LG, v)
    in_q = np.einsum("...sji,...s->...ij", LG, law.forces(q_s, v_s, numbers))
    transposed = np.swapaxes(G, -1, -2)
    return in_q + transposed @ along, transposed @ D @ G


def passive_slopes_at(model: Any, q: jax.Array, v: jax.Array) -> jax.Array:
    """The slopes by q and by v, (2, nv, nv), at one point."""
    along = model.frame.lie_derivative_at(lambda p: passive_forces_at(model, p, v), q).T
    return jnp.stack([along, jax.jacfwd(lambda v: passive_forces_at(model, q, v))(v)])


def passive_bends(model: Any, q: Any, v: Any, w: Any = None) -> Any:
    """Second derivatives of tau, (..., 3, nv, nv, nv), or of w . tau for w (..., nv), (..., 3, nv, nv).

    They are the blocks (q, q), (v, q) and (v, v), as those of `second_derivatives`, by JAX.

    Parameters
    ----------
    model : the robot; its numbers may be data.
    q, v, w : checked.
    """
    given = [*_arguments(model, q, v), *([] if w is None else [Argument("w", w, (model.nv,))])]
    if isinstance(model, ByContent):
        return evaluate(model, PytreePartial(_bends_at, model), *given)
    function, arrays = partial(_bends_at, model), [jnp.asarray(each.value) for each in given]
    batch = jnp.broadcast_shapes(*(array.shape[:-1] for array in arrays))
    for _ in batch:
        function = jax.vmap(function)
    return function(*(jnp.broadcast_to(array, (*batch, array.shape[-1])) for array in arrays))


def _bends_at(model: Any, q: jax.Array, v: jax.Array, w: Any = None) -> jax.Array:
    def force(q: jax.Array, v: jax.Array) -> jax.Array:
        tau = passive_forces_at(model, q, v)
        return tau if w is None else w @ tau

    def along(function: Any) -> Any:
        """The derivatives of a function of q and v along the frame fields, as its last axis."""
        of_q = model.frame.lie_derivative_at
        return lambda q, v: jnp.moveaxis(of_q(lambda p: function(p, v), q), 0, -1)

    in_v = jax.jacfwd(force, argnums=1)
    blocks = along(along(force)), along(in_v), jax.jacfwd(in_v, argnums=1)
    return jnp.stack([block(q, v) for block in blocks])


def _arguments(model: Any, q: Any, v: Any) -> tuple[Argument, Argument]:
    q = coordinates_of(q, model.kinematics)
    return Argument("q", q, (model.nq,)), Argument("v", v, (model.nv,))


def _real(model: Any, q: Any, v: Any) -> tuple[Any, np.ndarray, tuple[int, ...]]:
    """q, of a robot with loops `SolvedLoops`, and v, both checked, and their batch axes."""
    v = np.asarray(as_array("v", v, (model.nv,)), dtype=np.float64)
    require_finite("v", v)
    points = coordinates_of(q, model.kinematics)
    if not model.closed:
        q = points = configuration(model.kinematics, "q", points)
    elif not isinstance(q, SolvedLoops):
        q = model.program.close(points)
        points = q.q
    return q, v, batch_axes(("q", "v"), (points, v))


def _arrays(q: Any, v: Any) -> tuple[Any, Any]:
    """The arrays that say of which kind a result is."""
    return (q.q if isinstance(q, SolvedLoops) else q), v
