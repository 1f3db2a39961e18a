"""Expected sizes of the components of a motion, in their own units."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from connections.geometry.frames import FrameField
from connections.geometry.metrics import Metric
from connections.geometry.numerics.scales import sizes_of_array, velocity_sizes


def motion_sizes(
    frame: FrameField, metric: Metric | None, elapsed: jax.Array, q: jax.Array, v: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Expected sizes of the components of a motion, in their own units: (nq,) and (n,).

    The size of v^i is the speed over |X_i|. The sizes of q are the distances that such velocities cover in
    the elapsed time. They change with the units as q and v do. Without a metric, all components of v count as
    having one unit.

    Parameters
    ----------
    frame : the frame of v.
    metric : gives the lengths |X_i|; None if there is none.
    elapsed : time since the motion began.
    q, v : (nq,) and (n,) the state.
    """
    if metric is None:
        velocity = sizes_of_array(v)
    else:
        velocity = velocity_sizes(metric.matrix_at(q), v)
    return elapsed * (jnp.abs(frame.matrix_at(q)) @ velocity), velocity
