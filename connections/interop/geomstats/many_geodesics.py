"""Geodesics of many points at once, for the many short calls of statistics.

Exponential and transport are computed by `affine/logarithms/shooting.py`, logarithms by `search.py` in the
same folder: all rows of a call together, and compiled once.
"""

from __future__ import annotations

import jax
import numpy as np

from connections.affine import (
    AffineConnection,
    ContorsionConnection,
    InducedConnection,
    LeviCivita,
    exponential,
)
from connections.affine.logarithms.search import logarithms
from connections.affine.logarithms.shooting import TIGHT, Shooting
from connections.checks import IntegrationError, MetricError
from connections.geometry import Metric
from connections.multibody import RecursiveConnection

__all__ = ["exponentials", "logarithms", "symbols", "transported"]


def exponentials(nabla: AffineConnection, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """exp_q(v) of rows: q (m, nq), v (m, n) -> (m, nq).

    Raises
    ------
    IntegrationError : a geodesic does not reach unit time; the error of `connections.exponential`.
    """
    shooting = Shooting.of(nabla)
    shots = shooting.geodesics(shooting.ground(q), v, TIGHT)
    ground = shooting.ground(shots.q)
    ends = np.array(ground.q)
    for row in np.flatnonzero(~(shots.ok & ground.ok)):
        ends[row] = np.asarray(exponential(nabla, q[row], v[row]))
    return ends


def transported(
    nabla: AffineConnection, q: np.ndarray, v: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """End points of the geodesics of v and the components of z there, transported: (m, nq), (m, n).

    Raises
    ------
    IntegrationError : a geodesic does not reach unit time.
    """
    shooting = Shooting.of(nabla)
    shots = shooting.carry(shooting.ground(q), v, z, TIGHT)
    ends = shooting.ground(shots.q)
    if not (shots.ok & ends.ok).all():
        raise IntegrationError("parallel_transport: a geodesic does not reach unit time")
    return ends.q, shots.linear[:, shooting.nq :, 0]


def has_geodesics_of(nabla: AffineConnection, metric: Metric) -> bool:
    """Whether the geodesics of `nabla` are the metric's by construction, as for a robot's connection."""
    if getattr(nabla, "metric", None) is not metric:
        return False
    if isinstance(nabla, InducedConnection):
        return has_geodesics_of(nabla.ambient, nabla.metric.ambient_metric)
    if isinstance(nabla, ContorsionConnection):
        return nabla.symmetry in ("same_geodesics", "admissible")
    return isinstance(nabla, (LeviCivita, RecursiveConnection))


def require_geodesics_of(
    nabla: AffineConnection, metric: Metric, own: AffineConnection, q: np.ndarray, v: np.ndarray
) -> None:
    """Check along geodesics of a metric that `nabla` has the same geodesics there, in all directions.

    Parameters
    ----------
    nabla : the connection.
    metric, own : the metric and its Levi-Civita connection, whose geodesics are followed for unit time.
    q, v : (m, nq) points and (m, n) initial velocities.

    Raises
    ------
    MetricError : it has other geodesics at a step of one of them.
    """
    shooting = Shooting.of(own)
    pieces = shooting.geodesics(shooting.ground(q), v, TIGHT, keep=True).pieces
    steps = shooting.ground(np.concatenate([q, *pieces.q.swapaxes(0, 1)])).q
    padded = np.resize(steps, (1 << len(steps).bit_length(), q.shape[1]))  # few sizes, as each is compiled
    check = nabla.check_same_geodesics(padded, metric)
    if not check.ok:
        raise MetricError(
            "a distance is the length of the metric's geodesic, and this connection has other geodesics "
            f"({check}): use LeviCivita(metric), or exp, log and norm"
        )


def symbols(nabla: AffineConnection, q: np.ndarray) -> np.ndarray | None:
    """Gamma (..., n, n, n), compiled for blocks of rows, as solvers change their mesh; None if not valid."""
    rows, shooting = q.reshape(-1, q.shape[-1]), Shooting.of(nabla)
    if not len(rows) or not shooting.ground(rows).ok.all():
        return None
    gamma = shooting.mapped(_coefficients_at, rows)
    return gamma.reshape(*q.shape[:-1], *gamma.shape[1:]) if np.isfinite(gamma).all() else None


def _coefficients_at(shooting: Shooting, q: jax.Array) -> jax.Array:
    return shooting.nabla.coefficients_at(q)
