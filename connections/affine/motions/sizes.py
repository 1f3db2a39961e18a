"""What the components of a motion can be expected to be, in their own units."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from connections.geometry.frames import FrameField
from connections.geometry.metrics import Metric
from connections.geometry.numerics.scales import sizes_of_array, velocity_sizes


def motion_sizes(
    frame: FrameField, metric: Metric | None, elapsed: jax.Array, q: jax.Array, v: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """What the components of a motion can be expected to be, in their own units: (nq,) and (n,).

    Of v^i the speed over |X_i|, and of q what such velocities lead to in the time elapsed. They change with
    the units as q and v do. Where no metric is known, the components of v count as of one unit.

    Parameters
    ----------
    frame : the frame of v.
    metric : tells the lengths |X_i|; None where none is known.
    elapsed : time since the motion began.
    q, v : (nq,) and (n,) the state.
    """
    if metric is None:
        velocity = sizes_of_array(v)
    else:
        velocity = velocity_sizes(metric.matrix_at(q), v)
    return elapsed * (jnp.abs(frame.matrix_at(q)) @ velocity), velocity
