"""All geodesics between two points up to a length, and distances.

`logarithms` searches in many directions for geodesics that meet q1, also behind conjugate points, with the
fan and Newton's method of `logarithm` (`logarithms/search.py`). Up to the cut point a geodesic is the
shortest one. A point is a cut point if two geodesics are the shortest there, or if it is the first conjugate
point of the only one. Source: M. P. do Carmo, Riemannian Geometry (1992), chapter 13, proposition 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import numpy as np

from connections._jax import Array, ArrayLike
from connections.affine.conjugate_times import conjugate_times
from connections.affine.connection import AffineConnection
from connections.affine.levi_civita import LeviCivita
from connections.affine.logarithms.closed import distances_in_closed_form
from connections.affine.logarithms.logarithm import logarithm, velocities_between
from connections.affine.logarithms.search import IMAGES, TIED, geodesics_between
from connections.checks import (
    as_array,
    as_number,
    is_traced,
    require_finite,
    require_member,
    require_positive_int,
    require_type,
    require_untraced,
)
from connections.engines.internals.jax_names import trace_state_clean
from connections.evaluation.boundary import require_admissible
from connections.geometry.closed_forms import ClosedFormMetric, root_of
from connections.geometry.metrics import Metric, require_definite

_RAYS = {1: 2, 2: 256}  # directions; of more dimensions 1,024
_PARTS = "v", "lengths", "indices", "nullities", "shifts"  # of `Logarithms`
_FILLERS = np.nan, np.inf, -1, -1, 0
_STAYS = 1e-12  # of the length that is searched: a shorter geodesic stays at the point


@dataclass(frozen=True, eq=False)
class Logarithms:
    """The geodesics that were found between two points, the shortest first; or between pairs of points.

    Pairs for which fewer were found than for another one are filled up: v is NaN, lengths are infinite.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> def H(q):  # colatitude and longitude
    ...     return jnp.diag(jnp.array([1.0, jnp.sin(q[0]) ** 2]))
    >>> frame = cn.CoordinateFrame(2, periods=(None, 2 * jnp.pi))
    >>> sphere = cn.LeviCivita(cn.MatrixMetric(frame, H))
    >>> found = cn.logarithms(sphere, [jnp.pi / 2, 0.0], [jnp.pi / 2, 1.0], 7.0)
    >>> found.lengths.round(6), found.indices
    (array([1.      , 5.283185]), array([0, 1]))
    >>> found.shifts[1], bool(found.is_cut)  # the other way round
    (array([ 0, -1]), False)
    """

    v: np.ndarray
    """(..., k, n) initial velocities, frame components at q0, each of which leads to q1 in unit time."""
    lengths: np.ndarray
    """(..., k), increasing; of a connection without a metric, by the frame's own measure of vectors."""
    indices: np.ndarray
    """(..., k) numbers of conjugate points before q1, with multiplicities, which is the Morse index."""
    nullities: np.ndarray
    """(..., k) multiplicities of q1 itself as a conjugate point, 0 if it is none."""
    shifts: np.ndarray
    """(..., k, nq) whole periods of the coordinates by which the geodesic's end is beyond q1."""
    length: float
    """The length up to which was searched."""
    rays: int
    """The number of even directions in which geodesics left q0; in two dimensions, more left between them."""
    images: int
    """The number of images of q1, by whole periods, at which lines were aimed."""

    @property
    def counts(self) -> np.ndarray:
        """(...,) numbers of geodesics."""
        return np.asarray(np.count_nonzero(np.isfinite(self.lengths), axis=-1))

    @property
    def ties(self) -> np.ndarray:
        """(...,) numbers of geodesics that are as short as the first one."""
        near = self.lengths <= self.lengths[..., :1] * (1.0 + TIED)
        return np.asarray(np.count_nonzero(near & np.isfinite(self.lengths), axis=-1))

    @property
    def is_cut(self) -> np.ndarray:
        """(...,) whether q1 is a cut point of q0: two geodesics are the shortest, or q1 is conjugate to q0.

        As far as was searched, and for geodesics of a metric.
        """
        conjugate = (self.nullities[..., :1] > 0).any(axis=-1)
        return np.asarray(conjugate | (self.ties > 1))

    def member(self, *index: int) -> Logarithms:
        """The geodesics between one of several pairs, those that were found.

        Parameters
        ----------
        index : one integer for each axis of the pairs.

        Raises
        ------
        IndexError : the index is beyond the pairs.
        """
        require_member(index, self.lengths.shape[:-1])
        found = np.isfinite(self.lengths[index])
        parts = (self.v, self.lengths, self.indices, self.nullities, self.shifts)
        return replace(self, **{name: part[index][found] for name, part in zip(_PARTS, parts, strict=True)})

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        lines = f" and at {self.images} images of q1" if self.images else ""
        searched = f"searched to the length {self.length:.6g} in {self.rays} directions{lines}"
        if self.lengths.ndim > 1:
            counts, cut = self.counts, int(np.count_nonzero(self.is_cut))
            least, most = (int(end(counts)) if counts.size else 0 for end in (np.min, np.max))
            return f"Logarithms: {least} to {most} geodesics of {counts.size} pairs, {cut} cut; {searched}"
        rows = zip(self.lengths, self.indices, self.nullities, strict=True)
        each = [f"{a:.7g} (index {i}{', to a conjugate point' if z else ''})" for a, i, z in rows]
        tied = f", {self.ties} of them equally short" if self.ties > 1 else ""
        return f"Logarithms: {len(self)} geodesics{tied}: {', '.join(each) or 'none'}; {searched}"


def logarithms(
    nabla: AffineConnection, q0: ArrayLike, q1: ArrayLike, length: float, rays: int | None = None
) -> Logarithms:
    """The geodesics from q0 to q1 that are not longer than `length`, as many as are found.

    Geodesics leave q0 in all directions; where one is as near to q1 as to the next of them, Newton's method
    leads it there. In two dimensions, the angles between those that may have q1 between them are halved, four
    times. One that is met by no ray is not found; more rays find more. Beside dense shooting on eleven random
    surfaces z = sum of Gaussians none was missed (35 lengths, 21 of them on a rough one). Geodesics may pass
    conjugate points.
    If q1 itself is conjugate to q0, infinitely many may lead there, of which some are found, or none. Where
    the frame has periods, geodesics may end at any image of q1, and lines to the nearest images are guesses,
    too; an angle without a period is taken as it is.

    Parameters
    ----------
    nabla : the connection.
    q0, q1 : (..., nq) points; unit quaternions q1 and -q1 are one point.
    length : of the longest geodesic, positive, in the metric of `nabla`.
    rays : the number of directions; by default 256 in two dimensions, and 1,024 in more.

    Returns
    -------
    Logarithms. Each geodesic ends at q1 within 1e-10 of its length. If `logarithm` finds a geodesic, the
    first one is as long, unless it is longer than `length`.

    Raises
    ------
    ValueError : length is not positive, or rays is not. TypeError : where JAX traces.
    ShapeError, NonFiniteError, PointError, FrameError, MetricError.

    Examples
    --------
    From a point of the rotation group to one a quarter of a turn away, and the long way round:

    >>> import numpy as np
    >>> import connections as cn
    >>> rotations = cn.LeviCivita(cn.ConstantMetric(cn.SO3Frame(), np.eye(3)))
    >>> quarter = [0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)]
    >>> found = cn.logarithms(rotations, [0.0, 0.0, 0.0, 1.0], quarter, 5.0, rays=64)
    >>> (found.lengths / np.pi).round(6), found.indices
    (array([0.5, 1.5]), array([0, 0]))

    Source: [MT] section 15 for the index.
    """
    require_type("nabla", nabla, AffineConnection)
    require_untraced(q0=q0, q1=q1, length=length)
    size = (nabla.frame.ambient_dim,)
    given = [np.asarray(as_array(name, q, size)) for name, q in (("q0", q0), ("q1", q1))]
    for name, q in zip(("q0", "q1"), given, strict=True):
        require_finite(name, q)
    batch = np.broadcast_shapes(given[0].shape[:-1], given[1].shape[:-1])
    longest = as_number("length", length)
    if not 0.0 < longest < np.inf:
        raise ValueError(f"length: expected a positive length, got {longest:g}")
    count = _RAYS.get(nabla.frame.dim, 1024) if rays is None else rays
    require_positive_int("rays", count)
    starts, ends = (np.broadcast_to(q, batch + size).reshape(-1, *size) for q in given)
    found = [_of_pair(nabla, *pair, longest, count) for pair in zip(starts, ends, strict=True)]
    most = max((len(one[1]) for one in found), default=0)
    shapes = (nabla.frame.dim,), (), (), (), size
    parts = {}
    for place, (name, filler, shape) in enumerate(zip(_PARTS, _FILLERS, shapes, strict=True)):
        whole = np.full((len(found), most, *shape), filler)
        for row, one in enumerate(found):
            whole[row, : len(one[place])] = one[place]
        parts[name] = whole.reshape(*batch, most, *shape)
    images = IMAGES if any(nabla.frame.periods) else 0
    return Logarithms(**parts, length=longest, rays=count, images=images)


def _of_pair(
    nabla: AffineConnection, q0: np.ndarray, q1: np.ndarray, length: float, rays: int
) -> tuple[np.ndarray, ...]:
    """v (k, n), lengths (k,), indices (k,), nullities (k,) and shifts (k, nq) between two points (nq,)."""
    start, end = (require_admissible(nabla, name, q) for name, q in (("q0", q0), ("q1", q1)))
    v, lengths, shifts, free = geodesics_between(nabla, start, end, length, rays)
    if not np.any(start != end) and not (lengths <= _STAYS * length).any():
        v, lengths = np.concatenate([np.zeros((1, nabla.frame.dim)), v]), np.append(0.0, lengths)
        shifts, free = np.concatenate([np.zeros((1, len(start)), dtype=int), shifts]), np.append(True, free)
    passed = [
        None if proven else conjugate_times(nabla, start, w, 1.0) for w, proven in zip(v, free, strict=True)
    ]
    nullities = np.array([0 if p is None else p.nullity for p in passed], dtype=int)
    whole = np.array([0 if p is None else int(p.multiplicities.sum()) for p in passed], dtype=int)
    return v, lengths, whole - nullities, nullities, shifts


def distance(metric: Metric, q0: ArrayLike, q1: ArrayLike) -> Array:
    """The length (...,) of the shortest geodesic that is found between two points.

    Also at cut points, where `logarithm` is one of several velocities, or none.

    JAX can differentiate it where points are apart. Where they are one, there is no derivative: the gradient
    is 0, a subgradient as of `jnp.abs`, and second derivatives are NaN. The squared distance as
    `metric.inner(q0, v, v)`, v = `logarithm`, has all of its derivatives there: 0, and the Hessian 2 H.

    Parameters
    ----------
    metric : the metric.
    q0, q1 : (..., nq) points.

    Raises
    ------
    The errors of `logarithm`, except for points that are conjugate; where JAX traces, it is NaN there, unless
    the metric has distances in closed form (`ClosedFormMetric.distance_at`).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> half_plane = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
    >>> float(cn.distance(half_plane, [0.0, 1.0], [0.0, jnp.e]).round(9))
    1.0
    """
    require_definite("metric", metric)
    if isinstance(metric, ClosedFormMetric):
        return distances_in_closed_form(LeviCivita(metric), metric, q0, q1)
    if not trace_state_clean() or is_traced(q0, q1, metric):
        v = logarithm(LeviCivita(metric), q0, q1)
    else:
        v = velocities_between(LeviCivita(metric), q0, q1, name="distance")
    square = metric.inner(q0, v, v)
    length: Array = root_of(square) if isinstance(square, jax.Array) else np.sqrt(square)
    return length
