"""A metric of the user's own with two or three coordinates, as arrays to draw.

Geodesics from a point in all directions, the balls that they fill, and a frame that is carried along one of
them by two connections: the metric's own, Gamma* (of a system with constraints its constrained connection),
and a member of a family, Gamma = Gamma* - D. D is gamma times the contorsion of the connection that the file
gives, plus the torsion that a space of this dimension has and that keeps lengths: with three velocities c
times the volume form, D_ijk = -c sqrt(det H) eps_ijk, [W] (12), which turns what is carried by -c radians per
length; with two D_ijk = H_ij tau_k - H_jk tau_i, |tau| = t, which bends the geodesics. Arrays in, arrays out,
without a browser. All values of the sliders share one compilation. Source: [W] III.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import solve
from connections.affine import AffineConnection, LeviCivita
from connections.checks import SubjectError
from connections.geometry import Metric, PullbackMetric
from connections.verify import AnySubject, Subject

POINTS = 65  # samples of a geodesic
FRAMES = 13  # carried frames along it
_STEPS = 6  # Runge-Kutta steps between two samples, and half of them, to see the error
_WRONG = 1e-4  # of the picture: a curve ends where the two differ by more
_AROUND, _HEIGHTS = 192, 17  # directions: around, and from pole to pole if there are three velocities


@dataclass(frozen=True, eq=False)
class DrawnSpace:
    """The drawing of a space at one point: curves end where they leave the chart, and are NaN after.

    Parameters
    ----------
    curve : (POINTS, nq) the geodesic of the family's member.
    plain, twisted : (POINTS, n, n) the frame [t, vector, component] carried by Gamma* and by the member.
    spokes : (m, POINTS, nq) geodesics of the member in all directions, of the ball's radius.
    lengths : (POINTS,) length along the curve, in the metric.
    norms : (2, POINTS, n) lengths of the carried vectors in the metric, by Gamma* and by the member.
    angle : (POINTS,) rad, the largest angle between a vector that one carries and that of the other.
    """

    curve: np.ndarray
    plain: np.ndarray
    twisted: np.ndarray
    spokes: np.ndarray
    lengths: np.ndarray
    norms: np.ndarray
    angle: np.ndarray

    @property
    def reached(self) -> int:
        """The number of samples before the curve leaves the chart."""
        return int(np.isfinite(self.curve).all(axis=1).sum())


class Manifold:
    """A system of `verify` with two or three coordinates.

    Parameters
    ----------
    subject : as `verify.subject_from_file` reads it.

    Raises
    ------
    SubjectError : it has another number of coordinates.
    """

    def __init__(self, subject: AnySubject) -> None:
        system: Any = subject.system
        self.name, self.start = subject.name, np.asarray(subject.q[0])
        given: Any = system.connection
        self.constrained = not isinstance(subject, Subject)
        metric: Metric = given.metric if self.constrained else system.metric
        self.metric = metric
        self.plain: AffineConnection = given if self.constrained else LeviCivita(metric)
        self._given: AffineConnection = given
        self.nq, self.n = given.frame.ambient_dim, given.frame.dim
        if self.nq not in (2, 3) or self.n < 2:
            raise SubjectError(
                f"{subject.name} has {self.nq} coordinates and {self.n} velocities\n"
                "The explorer draws systems with two or three coordinates,\n"
                "and robots: connections explore --web ROBOT.urdf"
            )
        self.has_family, self.embedded = self._differs(), self._is_embedded()

    # --- what it is -------------------------------------------------------------------------------------

    def _differs(self) -> bool:
        """Whether the connection that was given differs from Gamma* at the first point."""
        if self.constrained:
            return False
        both = [np.asarray(nabla.coefficients(self.start)) for nabla in (self.plain, self._given)]
        return bool(np.abs(both[0] - both[1]).max() > 1e-9 * (1.0 + np.abs(both).max()))

    def _is_embedded(self) -> bool:
        """Whether points are drawn where the metric's embedding has them, and not by their coordinates."""
        if not isinstance(self.metric, PullbackMetric):
            return False
        shape = jnp.shape(self.metric.embedding(jnp.asarray(self.start)))
        return shape in ((2,), (3,))

    @cached_property
    def unit(self) -> float:
        """A power of ten: about the length of a coordinate's unit at the first point."""
        H = np.asarray(self.metric.matrix(self.start))
        return float(10.0 ** np.round(np.log10(np.linalg.det(H)) / (2.0 * self.n)))

    # --- what is seen at a point -------------------------------------------------------------------------

    def see(
        self,
        q: np.ndarray,
        heading: float = 0.0,
        rise: float = 0.0,
        length: float = 2.0,
        radius: float = 1.0,
        gamma: float = 0.0,
        torsion: float = 0.0,
    ) -> DrawnSpace:
        """Geodesics and carried frames from a point.

        Parameters
        ----------
        q : (nq,) the point.
        heading, rise : rad, in an orthonormal basis at q; the rise only with three velocities.
        length, radius : of the geodesic and of the ball, in the metric.
        gamma : factor of the given connection's contorsion.
        torsion : c, or t; 1 / length.

        Raises
        ------
        MetricError, FrameError, ... : the system is not valid at q.
        """
        H = np.asarray(self.metric.matrix(q))  # raises the error that says why
        basis = np.linalg.inv(np.linalg.cholesky(H)).T  # columns are orthonormal
        turned = basis @ _rotation(heading, rise, self.n)
        family = jnp.array([gamma, torsion])
        start = jnp.asarray(q)
        state = (start, jnp.asarray(turned[:, 0]), jnp.asarray(turned.T), jnp.asarray(turned.T))
        (curve, _, plain, twisted), gap = self._along(state, family, float(length))
        directions = jnp.asarray(_directions(self.n) @ basis.T)
        spokes, off = self._spokes(start, directions, family, float(radius))
        curve, spokes = _until(curve, gap), _until(spokes, off)
        Hs = np.asarray(self._matrices(jnp.asarray(np.where(np.isfinite(curve), curve, q))))
        carried = np.stack([np.asarray(plain), np.asarray(twisted)])
        norms = np.sqrt(np.abs(np.einsum("ctvi,tij,ctvj->ctv", carried, Hs, carried)))
        unit = carried / norms[..., None]
        size = [
            np.sqrt(np.abs(np.einsum("tvi,tij,tvj->tv", z, Hs, z))) for z in (unit[0] - unit[1], unit.sum(0))
        ]
        angle = 2.0 * np.arctan2(*size).max(axis=1)  # exact for small angles
        lengths = np.linspace(0.0, length, POINTS)
        return DrawnSpace(curve, carried[0], carried[1], spokes, lengths, norms, angle)

    def circumference(self, seen: DrawnSpace) -> float:
        """The length of the circle at the ends of the spokes (two velocities); NaN if it is not whole.

        Chords are lengthened as those of a circle, so that it is 2 pi r in a plane.
        """
        ends = seen.spokes[:, -1]
        steps, middles = np.roll(ends, -1, axis=0) - ends, 0.5 * (np.roll(ends, -1, axis=0) + ends)
        if not np.isfinite(ends).all():
            return float("nan")
        chords = np.asarray(self._lengths(jnp.asarray(middles), jnp.asarray(steps)))
        half = np.pi / len(ends)
        return float(chords.sum() * half / np.sin(half))

    def curvature(self, q: np.ndarray) -> float:
        """Gauss's curvature K of the metric's connection with two velocities, else the scalar curvature."""
        if self.n == 2:
            return float(self.plain.sectional(q, [1.0, 0.0], [0.0, 1.0], self.metric))
        return float(self.plain.scalar_curvature(q, metric=self.metric))

    def place(self, q: np.ndarray) -> np.ndarray:
        """(..., 3) where points (..., nq) are drawn: by the embedding, else by their coordinates."""
        found = np.asarray(self._places(jnp.asarray(q)))
        return np.concatenate([found, np.zeros((*found.shape[:-1], 3 - found.shape[-1]))], axis=-1)

    def arrow(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """(..., 3) tangent vectors with components v (..., n) at points q (..., nq), as they are drawn."""
        found = np.asarray(self._arrows(jnp.asarray(q), jnp.asarray(v)))
        return np.concatenate([found, np.zeros((*found.shape[:-1], 3 - found.shape[-1]))], axis=-1)

    def unit_circles(self, q: np.ndarray) -> np.ndarray:
        """(m, 25, nq) changes of q by unit vectors in all directions at points (m, nq), two velocities."""
        angles = np.linspace(0.0, 2.0 * np.pi, 25)
        around = jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], axis=-1))
        return np.asarray(self._circles(jnp.asarray(q), around))

    # --- private: definitions at one point -----------------------------------------------------------------

    def _apply_at(self, q: Any, v: Any, z: Any, family: Any) -> Any:
        """Gamma^i_jk v^j z^k of the family's member."""
        gamma, torsion = family
        H = self.metric.matrix_at(q)
        value = self.plain.apply_at(q, v, z)
        if self.has_family:
            value = value + gamma * (self._given.apply_at(q, v, z) - value)
        if self.n == 3:
            D = -torsion * jnp.sqrt(jnp.linalg.det(H)) * jnp.cross(v, z)  # eps_ijk v^j z^k
        else:
            tau = torsion * jnp.linalg.cholesky(H)[:, 0]  # the first covector of an orthonormal basis
            D = (H @ v) * (tau @ z) - (v @ H @ z) * tau
        return value - jnp.linalg.solve(H, D)

    def _rate(self, state: Any, family: Any) -> Any:
        q, v, plain, twisted = state
        by_member: Any = jax.vmap(lambda z: -self._apply_at(q, v, z, family))
        by_metric: Any = jax.vmap(lambda z: -self.plain.apply_at(q, v, z))
        q_dot = self.plain.frame.matrix_at(q) @ v
        return q_dot, -self._apply_at(q, v, v, family), by_metric(plain), by_member(twisted)

    @cached_property
    def _along(self) -> Any:
        def along(state: Any, family: Any, length: Any) -> Any:
            return _samples(lambda y: self._rate(y, family), state, length)

        return jax.jit(along)

    @cached_property
    def _spokes(self) -> Any:
        def rate(state: Any, family: Any) -> Any:
            q, v = state
            return self.plain.frame.matrix_at(q) @ v, -self._apply_at(q, v, v, family)

        def spoke(q: Any, v: Any, family: Any, radius: Any) -> Any:
            fine, gap = _samples(lambda y: rate(y, family), (q, v), radius)
            return fine[0], gap

        return jax.jit(jax.vmap(spoke, (None, 0, None, None)))

    @cached_property
    def _matrices(self) -> Any:
        return jax.jit(jax.vmap(self.metric.matrix_at))

    @cached_property
    def _lengths(self) -> Any:
        def length(q: Any, q_dot: Any) -> Any:
            v = self.plain.frame.velocity_at(q, q_dot)
            return jnp.sqrt(v @ self.metric.matrix_at(q) @ v)

        return jax.jit(jax.vmap(length))

    def _place_at(self, q: Any) -> Any:
        metric: Any = self.metric
        return metric.embedding(q) if self.embedded else q

    @cached_property
    def _places(self) -> Any:
        return jax.jit(jnp.vectorize(self._place_at, signature="(q)->(x)"))

    @cached_property
    def _arrows(self) -> Any:
        def arrow(q: Any, v: Any) -> Any:
            return jax.jvp(self._place_at, (q,), (self.plain.frame.matrix_at(q) @ v,))[1]

        return jax.jit(jnp.vectorize(arrow, signature="(q),(n)->(x)"))

    @cached_property
    def _circles(self) -> Any:
        def circle(q: Any, around: Any) -> Any:
            lower = jnp.linalg.cholesky(self.metric.matrix_at(q))
            vectors = solve(lower.T, around.T)
            return (self.plain.frame.matrix_at(q) @ vectors).T

        return jax.jit(jax.vmap(circle, (0, None)))


# --- private -----------------------------------------------------------------------------------------------

_STAGES = jnp.array([[0.0, 1.0 / 6.0], [0.5, 1.0 / 3.0], [0.5, 1.0 / 3.0], [1.0, 1.0 / 6.0]])


def _samples(rate: Any, state: Any, length: Any) -> tuple[Any, Any]:
    """The states at `POINTS` even times from 0 to `length`, and by how much q differs with half the steps.

    By the classical Runge-Kutta method, whose stages are a loop, so that XLA compiles the rate once.
    """

    def moved(y: Any, k: Any, by: Any) -> Any:
        return jax.tree_util.tree_map(lambda a, b: a + by * b, y, k)

    def by_steps(steps: Any) -> Any:
        h = length / ((POINTS - 1) * steps)

        def step(_: Any, y: Any) -> Any:
            def stage(carry: Any, node: Any) -> Any:
                k, total = carry
                slope = rate(moved(y, k, h * node[0]))
                return (slope, moved(total, slope, node[1])), None

            zero = jax.tree_util.tree_map(jnp.zeros_like, y)
            (_, total), _ = jax.lax.scan(stage, (zero, zero), _STAGES)
            return moved(y, total, h)

        def sample(y: Any, _: Any) -> Any:
            return jax.lax.fori_loop(0, steps, step, y), y

        last, samples = jax.lax.scan(sample, state, None, length=POINTS - 1)
        return jax.tree_util.tree_map(lambda a, b: jnp.concatenate([a, b[None]]), samples, last)

    both = jax.vmap(by_steps)(jnp.array([_STEPS, _STEPS // 2]))
    fine = jax.tree_util.tree_map(lambda a: a[0], both)
    return fine, jnp.abs(both[0][0] - both[0][1]).max(axis=-1)


def _until(curves: Any, gaps: Any) -> np.ndarray:
    """The curves (..., T, nq), NaN from where they are not finite, or differ from those of half the steps."""
    curves, gaps = np.array(curves), np.asarray(gaps)
    ended: np.ndarray = curves
    finite = curves[np.isfinite(curves).all(axis=-1)]
    size = float(np.ptp(finite, axis=0).max()) if len(finite) else 0.0
    bad = ~(np.isfinite(curves).all(axis=-1) & (gaps <= _WRONG * max(size, 1e-300)))
    ended[np.maximum.accumulate(bad, axis=-1)] = np.nan
    return ended


def _rotation(heading: float, rise: float, n: int) -> np.ndarray:
    """(n, n) whose first column has the heading in the first two axes, and the rise above them."""
    c, s = np.cos(heading), np.sin(heading)
    if n == 2:
        return np.array([[c, -s], [s, c]])
    up, out = np.sin(rise), np.cos(rise)
    return np.array([[c * out, -s, -c * up], [s * out, c, -s * up], [up, 0.0, out]])


def _directions(n: int) -> np.ndarray:
    """(m, n) unit vectors: around a circle, or a sphere's from pole to pole, (_HEIGHTS, _AROUND / 6)."""
    if n == 2:
        angles = 2.0 * np.pi * np.arange(_AROUND) / _AROUND
        return np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    polar, around = np.meshgrid(
        np.linspace(0.0, np.pi, _HEIGHTS),
        2.0 * np.pi * np.arange(_AROUND // 6) / (_AROUND // 6),
        indexing="ij",
    )
    found = np.stack([np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar)], axis=-1)
    return found.reshape(-1, 3)


def sphere_faces() -> np.ndarray:
    """(k, 3) triangles between the directions of a sphere."""
    count = _AROUND // 6
    rows, columns = np.meshgrid(np.arange(_HEIGHTS - 1), np.arange(count), indexing="ij")
    a = (rows * count + columns).ravel()
    b = (rows * count + (columns + 1) % count).ravel()
    return np.concatenate([np.stack([a, b, a + count], 1), np.stack([b, b + count, a + count], 1)])
