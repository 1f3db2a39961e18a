"""Whether what is defined on a frame has the frame's periods, so that a shift by one is no other point."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.connection import AffineConnection
from connections.checks import FrameError, MetricError, raise_at
from connections.evaluation.compilation import compiled

PERIODIC = 1e-8  # in units in which H_ii = 1


def require_periodic(nabla: AffineConnection, q: np.ndarray) -> None:
    """Raise an error unless the frame field and the metric are the same a period away from points.

    Parameters
    ----------
    nabla : the connection. q : (m, nq) valid points.

    Raises
    ------
    FrameError, MetricError : name the period, and the point.
    """
    for index, period in enumerate(nabla.frame.periods):
        if period is None:
            continue
        shift = period * np.eye(q.shape[1])[index]
        of_frame, of_metric = np.asarray(compiled(_changes_at, nabla)(q, shift)).T
        for row, point in enumerate(q):
            what = f"after the period {period:.6g} of q[{index}]"
            if not of_frame[row] <= PERIODIC:
                raise_at(FrameError, f"{nabla.frame} has other fields {what}", point)
            if not of_metric[row] <= PERIODIC:
                raise_at(MetricError, f"the metric is another one {what}", point)


def _changes_at(nabla: AffineConnection, q: jax.Array, shift: jax.Array) -> jax.Array:
    """The largest changes of X and H by a shift of points (m, nq), in units in which H_ii = 1, (m, 2)."""

    def change(p: jax.Array) -> jax.Array:
        there = p + shift
        H = nabla.gram_at(p)
        sizes = jnp.abs(jnp.diagonal(H))  # which may be negative, or zero, in a spacetime
        sizes = jnp.sqrt(jnp.where(sizes > 0.0, sizes, jnp.max(jnp.abs(H))))
        turn = nabla.frame.dual_at(p) @ nabla.frame.matrix_at(there) - jnp.eye(len(H))
        moved = (nabla.gram_at(there) - H) / jnp.outer(sizes, sizes)
        largest = jnp.stack([jnp.max(jnp.abs(turn * sizes[:, None] / sizes[None])), jnp.max(jnp.abs(moved))])
        return jnp.where(nabla.valid_at(p), largest, 0.0)  # of other points, who uses them says more

    return jax.vmap(change)(q)
