"""Curves as people have them: functions of time, and samples (times, points).

Samples are joined by a spline of degree 5 in the ambient coordinates, which is projected on the manifold
where it is evaluated; quaternions are brought to one sign before. With samples h apart of a smooth curve,

    |q(t) - curve(t)| = O(h^6),   |qdot - curve'| = O(h^5),   |qddot - curve''| = O(h^4),

up to the ends, because the spline ends "not a knot" and needs no derivatives there. In a chart, with evenly
spaced samples, the error of q is at most (h^6 / 73) max |d^6 q / dt^6| beside the ends, and
(h^6 / 8000) max |d^6 q / dt^6| six samples away from them. Fewer than six samples are joined by a polynomial
of degree 3 or 1, of order 4 or 2.
Source: C. de Boor, A Practical Guide to Splines (2001), chapter XIII.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import PointError, ShapeError, as_array, require_finite
from connections.geometry.compilation import compiled
from connections.geometry.evaluation import Argument, as_given, evaluate, require_admissible, the_point
from connections.geometry.frames import FrameField
from connections.geometry.parameters import Parametrized

Curve = Callable[[jax.Array], jax.Array]
SPLINE_DEGREE = 5
_ROUND_OFF = 1e-12  # of times, relative to the whole time


class SplinePath(Parametrized):
    """Splines on a manifold as a function of their numbers: (t, pieces, knots) -> q (nq,).

    Parameters
    ----------
    frame : the manifold; None for curves of vectors, which nothing projects.
    """

    def __init__(self, frame: FrameField | None) -> None:
        self.frame = frame

    def __call__(self, t: jax.Array, pieces: jax.Array, knots: jax.Array) -> jax.Array:
        """The point at time t, on the manifold; NaN outside of the samples.

        Parameters
        ----------
        t : a time.
        pieces : (k + 1, m, nq) coefficients between the knots, of the highest power first.
        knots : (m + 1,).
        """
        knots = jnp.asarray(knots)
        index = jnp.clip(jnp.searchsorted(knots, t, side="right") - 1, 0, knots.shape[0] - 2)
        offset = t - knots[index]
        value = jnp.zeros(pieces.shape[-1])
        for power in range(pieces.shape[0]):
            value = value * offset + pieces[power, index]
        q = value if self.frame is None else self.frame.project_at(value)
        slack = _slack(knots[0], knots[-1], jnp)
        return jnp.where((t >= knots[0] - slack) & (t <= knots[-1] + slack), q, jnp.nan)


class SampledCurve(Parametrized):
    """The curve through samples, t -> q: a spline of degree 5, accurate to O(h^6) for smooth curves.

    All functions that take a curve take this, a function t -> q, or a pair (times, points), from which they
    make it. Samples are numbers, not structure: other samples of the same number compile nothing.

    Parameters
    ----------
    frame : a frame of the manifold; None for curves of vectors, such as the components of a field.
    times : (S,) increasing, S >= 2, s.
    points : (..., S, nq), on the manifold to `POINT_TOLERANCE`; of quaternions the sign does not matter.

    Raises
    ------
    ShapeError, NonFiniteError, PointError (a sample is off the manifold), FrameError.

    Source: the text of the module, which states order and error.
    """

    def __init__(self, frame: FrameField | None, times: Any, points: Any) -> None:
        self.frame = frame
        self.knots, self.pieces = _knots_and_pieces(frame, "curve", times, points, None)

    @classmethod
    def through(cls, owner: Any, samples: Any, name: str = "curve", size: int | None = None) -> SampledCurve:
        """The curve through samples (times, points) at which `owner` is defined.

        Parameters
        ----------
        owner : object with a frame, as a connection; None for curves of vectors.
        samples : the pair, or a `SampledCurve`, which is returned.
        name : how the caller calls the curve.
        size : nq, if there is no owner.
        """
        expected = size if owner is None else owner.frame.ambient_dim
        if isinstance(samples, cls):
            if expected not in (None, samples.size):
                raise ShapeError(f"{name} points", ("...", "S", expected), ("...", "S", samples.size))
            return samples
        if not isinstance(samples, tuple | list) or len(samples) != 2:
            what = type(samples).__name__
            raise TypeError(f"{name}: expected a function of time or samples (times, points), got {what}")
        curve: SampledCurve = object.__new__(cls)
        curve.frame = None if owner is None else owner.frame
        times, points = samples
        curve.knots, curve.pieces = _knots_and_pieces(owner, name, times, points, size)
        return curve

    def __call__(self, t: Any) -> jax.Array:
        """The points at times t, JAX-traceable; NaN outside of the samples.

        Parameters
        ----------
        t : a number, or (T,).

        Returns
        -------
        (..., nq), or (..., T, nq): the leading axes are those of the points.
        """
        if any(isinstance(x, jax.core.Tracer) for x in (t, self.pieces, self.knots)):
            return self._points_at(jnp.asarray(t, dtype=jnp.float64))
        points: Callable[..., jax.Array] = compiled(self._points_at)
        return as_given(points(as_array("t", t, ())), t, self.pieces)

    @property
    def path(self) -> SplinePath:
        """The curve as a function of its numbers, (t, pieces, knots) -> q."""
        return SplinePath(self.frame)

    @property
    def size(self) -> int:
        """The length nq of a point."""
        return int(self.pieces.shape[-1])

    @property
    def span(self) -> tuple[Any, Any]:
        """The first and the last time, s."""
        return self.knots[0], self.knots[-1]

    def arguments(self, name: str = "curve") -> tuple[Argument, Argument]:
        """The numbers as arguments of what is compiled, in the order in which `path` takes them."""
        pieces = Argument(f"{name} points", self.pieces, self.pieces.shape[-3:])
        return pieces, Argument(f"{name} times", self.knots, self.knots.shape, batched=False)

    def require_times(self, name: str, times: Any, samples: str = "the curve's samples") -> None:
        """Raise `PointError` for times (T,) that the samples do not reach.

        Parameters
        ----------
        name, samples : how the caller calls the times and the samples.
        """
        require_within(name, times, self.span, samples)

    def _points_at(self, t: jax.Array) -> jax.Array:
        if t.ndim:
            return jnp.moveaxis(jax.vmap(self._points_at)(t), 0, -2)

        def at(pieces: jax.Array) -> jax.Array:
            return self.path(t, pieces, jnp.asarray(self.knots)) if pieces.ndim == 3 else jax.vmap(at)(pieces)

        return at(jnp.asarray(self.pieces))


def require_within(name: str, times: Any, span: tuple[Any, Any], samples: str) -> None:
    """Raise `PointError` for the first of `times` (...) outside of a span of samples.

    Parameters
    ----------
    name, samples : how the caller calls the times and the samples.
    span : the first and the last time. What JAX is tracing is not judged.
    """
    if any(isinstance(x, jax.core.Tracer) for x in (times, *span)):
        return
    times, (first, last) = np.ravel(times), map(float, span)
    slack = _slack(first, last, np)
    outside = times[(times < first - slack) | (times > last + slack)]
    if outside.size:
        raise PointError(f"{name}: {outside[0]:g} is outside {samples} [{first:g}, {last:g}]")


# --- private -----------------------------------------------------------------------------------------------


def _knots_and_pieces(
    owner: Any, name: str, times: Any, points: Any, size: int | None
) -> tuple[np.ndarray, Any]:
    """Knots and coefficients of the spline through samples, after all checks."""
    t = np.asarray(as_array(f"{name} times", times, (None,)))
    nq = size if owner is None else owner.frame.ambient_dim
    q = np.array(as_array(f"{name} points", points, (None, nq)))
    if t.ndim != 1 or t.shape[0] < 2 or q.shape[-2] != t.shape[0] or not np.all(np.diff(t) > 0.0):
        what = "t (S,) increasing with S >= 2, q (..., S, nq)"
        raise ShapeError(f"{name} samples (t, q)", what, f"{t.shape}, {q.shape}")
    for part, array in (("times", t), ("points", q)):
        require_finite(f"{name} {part}", array)
    if owner is not None:
        q = _aligned(owner.frame, _admitted(owner, f"{name} points", q))
    knots, pieces = _spline(t, q)
    return knots, jnp.asarray(pieces) if isinstance(points, jax.Array) else pieces  # of the kind given


def _slack(first: Any, last: Any, numpy: Any) -> Any:
    """How far beyond the samples a time may be by round-off."""
    largest = numpy.maximum(numpy.abs(first), numpy.abs(last))
    return _ROUND_OFF * (last - first) + 4.0 * np.finfo(np.float64).eps * largest


def _admitted(owner: Any, name: str, q: np.ndarray) -> np.ndarray:
    """The points (..., S, nq) that samples stand for, judged together; the error of the first bad one."""
    host = getattr(owner, "host", None)
    if host is not None:  # of a robot, nothing is compiled
        points = []
        for row in q.reshape(-1, q.shape[-1]):
            points.append(host.point(name, row))
            try:
                host.mass_matrix(points[-1])
            except ValueError:
                require_admissible(owner, name, row)
                raise
        return np.stack(points).reshape(q.shape)
    return np.asarray(evaluate(owner, the_point, Argument(name, q, q.shape[-1:])))


def _aligned(frame: FrameField, q: np.ndarray) -> np.ndarray:
    """Samples (..., S, nq), each in its representative next to the one before."""
    if frame.dim == frame.ambient_dim:
        return q

    rows = np.swapaxes(q.reshape(-1, *q.shape[-2:]), 0, 1)
    return np.swapaxes(np.asarray(compiled(_followed, frame)(rows)), 0, 1).reshape(q.shape)


def _spline(t: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knots (m + 1,) and coefficients (..., k + 1, m, nq) of the spline through samples."""
    from scipy.interpolate import make_interp_spline

    degree = min(SPLINE_DEGREE, (len(t) - 2) // 2 * 2 + 1)
    spline = make_interp_spline(t, np.moveaxis(q, -2, 0), k=degree)
    knots = np.unique(spline.t)
    pieces = [spline.derivative(m)(knots[:-1]) / math.factorial(m) for m in range(degree, 0, -1)]
    return knots, np.moveaxis(np.stack([*pieces, spline(knots[:-1])]), (0, 1), (-3, -2))


def _followed(frame: FrameField, points: jax.Array) -> jax.Array:
    """Points (S, rows, nq), each in its representative next to the one before."""

    def step(before: jax.Array, here: jax.Array) -> tuple[jax.Array, jax.Array]:
        here = jax.vmap(frame.align_at)(here, before)
        return here, here

    return jax.lax.scan(step, points[0], points)[1]
