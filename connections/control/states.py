"""Validation of the start of a simulated motion, shared by the closed loops and the observer."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import ShapeError, as_array, require_finite
from connections.coriolis import MechanicalSystem


def start_of_motion(
    system: MechanicalSystem, q0: Any, v0: Any, times: Any
) -> tuple[jax.Array, jax.Array, jax.Array, tuple[int, ...]]:
    """q0 (B, nq), v0 (B, n), times (T,) and the broadcast batch shape, () for one motion.

    Raises
    ------
    ShapeError, NonFiniteError, the errors of frame and metric at q0; ValueError for times that do not increase.
    """
    q0 = np.asarray(as_array("q0", q0, (system.frame.ambient_dim,)))
    v0 = np.asarray(as_array("v0", v0, (system.frame.dim,)))
    times = np.asarray(as_array("times", times, (None,)))
    if times.ndim != 1:
        raise ShapeError("times", "(T,)", times.shape)
    for name, array in (("q0", q0), ("v0", v0), ("times", times)):
        require_finite(name, array)
    if times.size < 2 or not (np.diff(times) > 0.0).all():
        raise ValueError("times: at least two increasing times are needed")
    try:
        batch = np.broadcast_shapes(q0.shape[:-1], v0.shape[:-1])
    except ValueError as error:
        raise ShapeError("v0", f"batch axes that broadcast with q0 {q0.shape}", v0.shape) from error
    q0 = np.broadcast_to(q0, batch + q0.shape[-1:]).reshape(-1, q0.shape[-1])
    v0 = np.broadcast_to(v0, batch + v0.shape[-1:]).reshape(-1, v0.shape[-1])
    system.metric.matrix(q0)  # validates the points
    return jnp.asarray(q0), jnp.asarray(v0), jnp.asarray(times), batch
