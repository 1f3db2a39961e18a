"""Conjugate times of a geodesic: when d exp becomes singular, with multiplicities and the Morse index.

Two methods. If the geodesics are those of a metric, conjugate points are counted by the rotation of a
Lagrangian plane (`motions/lagrangian_plane.py`). The count at a time is an integer that follows from the
plane at that time, so two counts prove how many conjugate points lie between them, of even multiplicity and
of odd.

In two dimensions no count is needed: a Jacobi field across the geodesic vanishes at isolated times, and
changes its sign at each. The geodesic is proven free of conjugate points outside of short intervals
(`logarithms/conjugate.py`), and those on whose sides the determinant of d exp has opposite signs contain one.
No curvature is needed, whose round-off is large beside a pole of a chart.

For other connections there is no such plane, and the determinant of d exp may touch zero without passing it.
There, the geodesic is proven free of conjugate points outside of short intervals (`logarithms/conjugate.py`).
If the determinant has opposite signs at the ends of an interval, there is a conjugate point in it.
Source: as of these two files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from connections._jax import ArrayLike
from connections.affine.connection import AffineConnection
from connections.affine.logarithms.conjugate import unproven_intervals
from connections.affine.logarithms.shooting import TIGHT, Ground, Shooting
from connections.affine.motions.deviation import require_unconstrained
from connections.affine.motions.geodesics import geodesic
from connections.affine.motions.lagrangian_plane import turning_rate, turns
from connections.checks import (
    IntegrationError,
    ShapeError,
    as_array,
    as_number,
    require_finite,
    require_untraced,
)
from connections.evaluation.boundary import require_admissible

RESOLUTION = 1e-8  # of t_end: conjugate times that are closer are one, with the sum of their multiplicities
_PARTS, _PASSES = 32, 2  # each pass divides the intervals that contain conjugate times
_NARROW = 1e-6  # of t_end: the widest part without proof that is one conjugate point in two dimensions
_ASIDE = 2e-3  # of t_end: the sign behind the last part, next to the end, is that at half of this
_SINGULAR = 1e-6  # of the largest singular value of d exp: smaller ones count as zero


@dataclass(frozen=True, eq=False)
class ConjugateTimes:
    """The times in (0, t_end] at which a geodesic's point is conjugate to its start.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> def H(q):  # colatitude and longitude
    ...     return jnp.diag(jnp.array([1.0, jnp.sin(q[0]) ** 2]))
    >>> sphere = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), H))
    >>> found = cn.conjugate_times(sphere, [jnp.pi / 2, 0.0], [0.0, 1.0], t_end=4.0)
    >>> found.times.round(6), found.multiplicities, found.proven
    (array([3.141593]), array([1]), array([ True]))
    """

    times: np.ndarray
    """(k,), s, increasing."""
    multiplicities: np.ndarray
    """(k,) integers: the dimension of the space of Jacobi fields that vanish at the start and then."""
    errors: np.ndarray
    """(k,), s: how far each time may be from the conjugate times that it stands for."""
    proven: np.ndarray
    """(k,) booleans: whether there is certainly a conjugate point. True of a definite metric's geodesics."""
    index: int | None
    """The Morse index, the sum of the multiplicities before t_end; None without a definite metric."""
    nullity: int
    """The multiplicity of t_end itself, zero if it is not conjugate."""

    def __repr__(self) -> str:
        rows = zip(self.times, self.multiplicities, self.proven, strict=True)
        found = [f"{t:.7g} ({m}{'' if sure else ', not proven'})" for t, m, sure in rows]
        index = "no Morse index" if self.index is None else f"Morse index {self.index}"
        return f"ConjugateTimes: {', '.join(found) or 'none'}; {index}, nullity {self.nullity}"


def conjugate_times(nabla: AffineConnection, q: ArrayLike, v: ArrayLike, t_end: float) -> ConjugateTimes:
    """When the geodesic through (q, v) has conjugate points: a Jacobi field vanishes at 0 and then again.

    Parameters
    ----------
    nabla : the connection. Only its geodesics matter, and torsion does not change them.
    q : (nq,) the initial point.
    v : (n,) the initial velocity, frame components.
    t_end : s, positive; how long the geodesic is followed.

    Returns
    -------
    ConjugateTimes. If the geodesics are those of a metric by construction (LeviCivita, robots, members of a
    ContorsionFamily, and what is built of these), all conjugate times are found, of every multiplicity,
    unless the integration errs (by more than 1e-10 of a turn, as estimated for each step). Times have an
    error of about 1e-9 of t_end (behind the pole of a chart larger ones: ``errors``); those that are closer
    to each other than 1e-8 of t_end count as one.
    For other connections, and metrics that are not definite, nothing is missed either, as proven for the
    polynomials that interpolate the steps (with errors of about 1e-11). Times stand for intervals that
    are left without proof, mostly of 3e-8 of t_end, but wider if d exp is nearly singular over a longer
    time. ``proven`` says where a conjugate point certainly exists. It is False where the determinant of d
    exp has one sign on both sides: there may be a point of even multiplicity, two points, or only nearly
    one. Multiplicities are the numbers of singular values of d exp below 1e-6 of the largest.

    Raises
    ------
    IntegrationError : the geodesic leaves the domain before t_end; names the time and the point.
    ValueError : t_end is not positive.
    TypeError : of a ConstrainedConnection (`jacobi_field`), or where JAX traces.
    ShapeError (also for a batch of geodesics), NonFiniteError, PointError, FrameError, MetricError.

    Examples
    --------
    The geodesics from a point of a sphere meet at the opposite point, after half a turn.

    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> def H(q):  # colatitude and longitude
    ...     return jnp.diag(jnp.array([1.0, jnp.sin(q[0]) ** 2]))
    >>> sphere = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(2), H))
    >>> found = cn.conjugate_times(sphere, [jnp.pi / 2, 0.0], [0.0, 1.0], t_end=4.0)
    >>> found.times.round(6)
    array([3.141593])

    Source: [A]; [MT] section 15.
    """
    require_unconstrained("conjugate_times", nabla)
    require_untraced(q=q, v=v, t_end=t_end)
    q, v = _one("q", q, nabla.frame.ambient_dim), _one("v", v, nabla.frame.dim)
    duration = as_number("t_end", t_end)
    if not 0.0 < duration < np.inf:
        raise ValueError(f"t_end: expected a positive time, got {t_end}")
    q = require_admissible(nabla, "q", q)
    metrical = nabla.riemannian
    metric = None if metrical is None else metrical.known_metric
    if metrical is None or metric is None or metric.signature is not None:
        return _by_intervals(nabla, q, v, duration)
    found = _in_two_dimensions(metrical, q, v, duration) if metrical.frame.dim == 2 else None
    return found or _by_turns(metrical, q, v, duration)


# --- private ---------------------------------------------------------------------------------------------


def _one(name: str, value: Any, size: int) -> np.ndarray:
    array = np.asarray(as_array(name, value, (size,)))
    if array.ndim != 1:
        raise ShapeError(name, (size,), array.shape)
    require_finite(name, array)
    return array


def _by_turns(nabla: AffineConnection, q: np.ndarray, v: np.ndarray, t_end: float) -> ConjugateTimes:
    """Counts at the ends of ever shorter intervals; then what is missing to a turn at their beginnings.

    At a conjugate time t*, theta - 2 pi = 2 omega (t - t*) with an error of the third power of t - t*.
    """
    omega, times = turning_rate(nabla, q, v, t_end), np.linspace(0.0, t_end, 2 * _PARTS + 1)
    found = turns(nabla, q, v, omega, times)
    for _ in range(_PASSES):
        full = np.flatnonzero(np.diff(found.full))
        if not len(full):
            break
        ends = np.linspace(times[full], times[full + 1], _PARTS + 1)
        times = np.unique(np.concatenate([[0.0, t_end], ends.ravel()]))
        found = turns(nabla, q, v, omega, times)
    missing = times[:, None] + (2.0 * np.pi - found.angles) / (2.0 * omega)
    passed = np.append(np.diff(found.full), np.count_nonzero(missing[-1] < (1.0 + RESOLUTION) * t_end))
    crossings = [row[len(row) - m :] for row, m in zip(missing, passed, strict=True) if m]
    return _grouped(np.sort(np.concatenate([np.zeros(0), *crossings])), t_end)


def _in_two_dimensions(
    nabla: AffineConnection, q: np.ndarray, v: np.ndarray, t_end: float
) -> ConjugateTimes | None:
    """Changes of the sign of det d exp; None if they are not clear, or the geodesic does not arrive."""
    parts = _Parts.of(nabla, q, t_end * v)
    if parts is None or (np.diff(parts.ends) > _NARROW).any():
        return None
    begin, end = parts.ends.T
    # Signs half way between two parts, and behind the last one, are not those of errors.
    beside = 0.5 * (np.insert(end, 0, 0.0) + np.append(begin, max([1.0, *(end + _ASIDE)])))
    values = np.linalg.det(parts.derivatives(beside[:, None])[:, 0])
    within = np.linalg.det(parts.derivatives(parts.instants))
    passed, first, last = values[1:] * values[:-1] < 0.0, within[:, 0], within[:, 2]
    if not (np.isfinite(values).all() and values[0] > 0.0):
        return None
    share = np.where(first * last < 0.0, first / np.where(first == last, 1.0, first - last), 0.5)
    times, width = begin + share * (end - begin), end - begin
    errors = 4.0 * np.abs(within).max(axis=1) * np.diff(beside) / np.abs(np.diff(values))
    errors = np.where(errors <= 16.0 * width, RESOLUTION, errors)[passed]
    times = times[passed]
    if ((np.abs(times - 1.0) <= errors) & (errors > RESOLUTION)).any():
        return None
    kept = times < 1.0 + RESOLUTION
    return replace(_grouped(t_end * times[kept], t_end), errors=t_end * errors[kept])


def _grouped(crossings: np.ndarray, t_end: float) -> ConjugateTimes:
    """Conjugate times from crossings (m,), increasing, one for each multiplicity."""
    apart = np.append(True, np.diff(crossings) > RESOLUTION * t_end)[: len(crossings)]
    multiplicities = np.diff(np.append(np.flatnonzero(apart), len(crossings)))
    times = np.minimum(crossings[apart], t_end)
    last = times > (1.0 - RESOLUTION) * t_end
    errors, proven = np.full(len(times), RESOLUTION * t_end), np.ones(len(times), dtype=bool)
    index, nullity = (int(multiplicities[part].sum()) for part in (~last, last))
    return ConjugateTimes(times, multiplicities, errors, proven, index, nullity)


def _by_intervals(nabla: AffineConnection, q: np.ndarray, v: np.ndarray, t_end: float) -> ConjugateTimes:
    parts = _Parts.of(nabla, q, t_end * v)
    if parts is None:
        geodesic(nabla, q, v, [0.0, t_end])  # says when and where it leaves
        raise IntegrationError(f"conjugate_times: the geodesic leaves the domain by t = {t_end:.6g}")
    ends, (before, middle, after) = parts.ends, np.moveaxis(parts.derivatives(parts.instants), 1, 0)
    proven = np.sign(np.linalg.det(before)) * np.sign(np.linalg.det(after)) < 0.0
    sizes = np.linalg.svd(middle, compute_uv=False)
    multiplicities = np.maximum(np.count_nonzero(sizes <= _SINGULAR * sizes[:, :1], axis=1), 1)
    times, errors = np.minimum(ends.mean(axis=1), 1.0) * t_end, np.diff(ends)[:, 0] * t_end
    nullity = int(multiplicities[ends[:, 1] >= 1.0].sum())
    return ConjugateTimes(times, multiplicities, errors, proven, None, nullity)


class _Parts(NamedTuple):
    """The parts of a geodesic that are not proven free of conjugate points.

    Parameters
    ----------
    shooting, start : the geodesics, and the initial point (1, nq). whole : (n,) the velocity for unit time.
    ends : (k, 2) where each part begins and ends.
    """

    shooting: Shooting
    start: Ground
    whole: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, nabla: AffineConnection, q: np.ndarray, whole: np.ndarray) -> _Parts | None:
        """Parts of a geodesic without a proof, or None if it leaves the domain."""
        shooting = Shooting.of(nabla)
        start = shooting.ground(q[None])
        shots = shooting.spread(start, whole[None], TIGHT, keep=True)
        if not (shots.ok.all() and shooting.ground(shots.pieces.q[:, 1]).ok.all()):
            return None
        return cls(shooting, start, whole, unproven_intervals(shots.pieces))

    @property
    def instants(self) -> np.ndarray:
        """(k, 3), the beginning, the middle and the end of each."""
        return np.stack([self.ends[:, 0], self.ends.mean(axis=1), self.ends[:, 1]], axis=1)

    def derivatives(self, instants: np.ndarray) -> np.ndarray:
        """d exp at instants (k, m), in orthonormal bases of both points, (k, m, n, n)."""
        first = self.start.take(np.zeros(instants.size, dtype=int))
        shots = self.shooting.spread(first, instants.ravel()[:, None] * self.whole, TIGHT)
        there = self.shooting.ground(shots.q)
        found = there.root @ there.dual @ shots.linear[:, : self.shooting.nq]
        derivatives: np.ndarray = found.reshape(*instants.shape, *self.whole.shape, *self.whole.shape)
        return derivatives
