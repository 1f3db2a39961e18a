"""The symmetry groups of the named systems, as group actions.

Elements of SE(2) are g = (a, b, alpha): the turn by alpha, then the shift by (a, b).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.symmetry import GroupAction
from connections.checks import require_indices, require_positive_int


def planar_motions(turns: tuple[int, ...] = ()) -> GroupAction:
    """SE(2) on points (x, y, theta, ...), with turns of further angles.

    Parameters
    ----------
    turns : indices of angles in q; to each, one more entry of g is added. Other coordinates are unchanged.

    Examples
    --------
    Where a vehicle is, and where it heads, does not change its metric.

    >>> from connections import systems
    >>> motions = systems.planar_motions()
    >>> sleigh = systems.chaplygin_sleigh().numeric()
    >>> metric = sleigh.connection.ambient_metric
    >>> motions.check_invariant_metric(metric, [1.0, 2.0, 0.3], [0.5, 0.0, 0.7]).ok
    True
    """
    turns = require_indices("turns", turns)
    return GroupAction(partial(_planar_motion, turns), _planar_product, np.zeros(3 + len(turns)))


def translations(nq: int, axes: tuple[int, ...]) -> GroupAction:
    """Shifts of some coordinates: q[axes] + g.

    Parameters
    ----------
    nq : number of coordinates.
    axes : indices of the coordinates to which g is added.

    Examples
    --------
    The momenta of a particle of 2 kg that belong to shifts along x and along z.

    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import systems
    >>> shifts = systems.translations(3, (0, 2))
    >>> space = cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([2.0, 2.0, 2.0]))
    >>> shifts.momenta(space, [0.0, 1.0, 0.0], [3.0, 4.0, 5.0])
    array([ 6., 10.])
    """
    require_positive_int("nq", nq)
    axes = require_indices("axes", axes, nq)
    places = np.eye(nq)[:, list(axes)]
    return GroupAction(partial(_shifted, places), _sum, np.zeros(len(axes)))


def heisenberg_group() -> GroupAction:
    """The Heisenberg group on itself from the left: (a, b, c) (x, y, z) = (a + x, b + y, c + z + b x).

    The form dz - y dx is invariant, the Euclidean metric is not.

    Examples
    --------
    The order matters.

    >>> import numpy as np
    >>> from connections import systems
    >>> group = systems.heisenberg_group()
    >>> g, h = np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0])
    >>> group.product(g, h).tolist(), group.product(h, g).tolist()
    ([1.0, 1.0, 1.0], [1.0, 1.0, 0.0])
    """
    return GroupAction(_heisenberg_motion, _heisenberg_product, np.zeros(3))


ACTIONS: dict[str, Callable[[], GroupAction]] = {
    "snakeboard": lambda: planar_motions(turns=(3,)),
    "roller_racer": planar_motions,
    "rolling_disc": lambda: planar_motions(turns=(3,)),
    "heisenberg_particle": lambda: translations(3, (0, 2)),
    "chaplygin_sleigh": planar_motions,
    "trailer": planar_motions,
    "planar_body": planar_motions,
}


def _planar_motion(turns: tuple[int, ...], q: jax.Array, g: jax.Array) -> jax.Array:
    moved = q.at[:2].set(_turned(q[:2], g[2]) + g[:2]).at[2].add(g[2])
    return moved.at[jnp.array(turns, dtype=int)].add(g[3:])


def _planar_product(g: jax.Array, h: jax.Array) -> jax.Array:
    return (g + h).at[:2].set(g[:2] + _turned(h[:2], g[2]))


def _shifted(places: np.ndarray, q: jax.Array, g: jax.Array) -> jax.Array:
    return q + places @ g


def _sum(g: jax.Array, h: jax.Array) -> jax.Array:
    return g + h


def _heisenberg_product(g: jax.Array, h: jax.Array) -> jax.Array:
    return g + h + jnp.stack([0.0 * g[0], 0.0 * g[0], g[1] * h[0]])


def _heisenberg_motion(q: jax.Array, g: jax.Array) -> jax.Array:
    return _heisenberg_product(g, q)


def _turned(p: jax.Array, angle: jax.Array) -> jax.Array:
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([c * p[0] - s * p[1], s * p[0] + c * p[1]])
