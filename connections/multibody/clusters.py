"""The cluster tree of a mechanism with closed chains, as integer arrays. Source: [W] VI-C.

The loops are cut, which leaves a spanning tree of all N bodies. Bodies that a loop or a coupling constrains
together form one cluster; each cluster has one parent cluster, or the ground. Some joints of a cluster are
independent, the other ones depend on them. Independent coordinates and velocities are numbered cluster by
cluster, parents first, and within a cluster by the numbers of their bodies.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

POSITION, DIRECTION, DISTANCE, LINEAR, TWIST = range(5)


def make_read_only(thing: Any) -> None:
    """Replace the arrays among the fields of a frozen dataclass by copies that nobody can write to.

    A model is immutable: what is derived from its arrays, such as the arrays of compiled code, is cached.
    """
    for field in fields(thing):
        value = getattr(thing, field.name)
        if isinstance(value, np.ndarray):
            value = value.copy()
            value.setflags(write=False)
            object.__setattr__(thing, field.name, value)


@dataclass(frozen=True, eq=False)
class Clusters:
    """M clusters of N bodies; joint b moves body b of the spanning tree."""

    of_body: np.ndarray  #: (N,) the cluster of each body
    parents: np.ndarray  #: (M,) the parent cluster, -1 for the ground; parents[c] < c
    #: (N,) the nearest ancestor of each body that is in the parent cluster; -1 for the ground
    supports: np.ndarray
    independent: np.ndarray  #: (N,) whether the configuration of joint b is independent
    sizes: np.ndarray  #: (M,) m, the characteristic length of each cluster (`loops/lengths.py`)

    def __post_init__(self) -> None:
        make_read_only(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled; flags of arrays are not."""
        self.__dict__.update(state)
        make_read_only(self)

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
        TWIST:      phi = scale (u . R w - point_a . R point_b - constant), whose points are directions
    """

    kinds: np.ndarray  #: (p,) POSITION, DIRECTION, DISTANCE, LINEAR or TWIST
    owners: np.ndarray  #: (p,) number of the loop or coupling that the row belongs to
    clusters: np.ndarray  #: (p,) the cluster whose joints the row constrains
    #: (p,) bodies, -1 the ground; not used for LINEAR
    bodies_a: np.ndarray
    bodies_b: np.ndarray
    #: (p, 3) m, in the body frames of a and of b (world axes for the ground); directions for TWIST
    points_a: np.ndarray
    points_b: np.ndarray
    u: np.ndarray  #: (p, 3) in the axes of body a
    w: np.ndarray  #: (p, 3) in the axes of body b
    coefficients: np.ndarray  #: (p, nq) over spanning coordinates, nonzero only for joints of one coordinate
    #: (p,)
    constants: np.ndarray
    scales: np.ndarray

    def __post_init__(self) -> None:
        make_read_only(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled; flags of arrays are not."""
        self.__dict__.update(state)
        make_read_only(self)
