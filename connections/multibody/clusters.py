"""The cluster tree of a mechanism with closed chains, as integer arrays. Source: [W] VI-C.

The loops are cut, which leaves a spanning tree of all N bodies. Bodies that a loop or a coupling constrains
together form one cluster; each cluster has one parent cluster, or the ground. Some joints of a cluster are
independent, the other ones depend on them. Independent coordinates and velocities are numbered cluster by
cluster, parents first, and within a cluster by the numbers of their bodies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

POSITION, DIRECTION, DISTANCE, LINEAR = range(4)


@dataclass(frozen=True, eq=False)
class Clusters:
    """M clusters of N bodies; joint b moves body b of the spanning tree.

    Parameters
    ----------
    of_body : (N,) the cluster of each body.
    parents : (M,) the parent cluster, -1 for the ground; parents[c] < c.
    supports : (N,) the nearest ancestor of each body that is in the parent cluster; -1 for the ground.
    independent : (N,) whether the configuration of joint b is independent.
    sizes : (M,) m, the characteristic length of each cluster (`loops/lengths.py`).
    """

    of_body: np.ndarray
    parents: np.ndarray
    supports: np.ndarray
    independent: np.ndarray
    sizes: np.ndarray

    @property
    def count(self) -> int:
        """Number of clusters, M."""
        return len(self.parents)


@dataclass(frozen=True, eq=False)
class Rows:
    """p scalar conditions phi_r = 0 on the spanning configuration.

    With (R, r) the pose of body b in body a, R the rotation, r the vector from point a to point b in the
    axes of a:

        POSITION:   phi = scale (u . r - constant)
        DIRECTION:  phi = scale (u . R w - constant)
        DISTANCE:   phi = scale (r . r - constant) / 2
        LINEAR:     phi = scale (coefficients . q - constant)

    Parameters
    ----------
    kinds : (p,) POSITION, DIRECTION, DISTANCE or LINEAR.
    owners : (p,) number of the loop or coupling that the row belongs to.
    clusters : (p,) the cluster whose joints the row constrains.
    bodies_a, bodies_b : (p,) bodies, -1 the ground; not used for LINEAR.
    points_a, points_b : (p, 3) m, in the body frames of a and of b (world axes for the ground).
    u : (p, 3) in the axes of body a.
    w : (p, 3) in the axes of body b.
    coefficients : (p, nq) over spanning coordinates, nonzero only for joints of one coordinate.
    constants, scales : (p,).
    """

    kinds: np.ndarray
    owners: np.ndarray
    clusters: np.ndarray
    bodies_a: np.ndarray
    bodies_b: np.ndarray
    points_a: np.ndarray
    points_b: np.ndarray
    u: np.ndarray
    w: np.ndarray
    coefficients: np.ndarray
    constants: np.ndarray
    scales: np.ndarray
