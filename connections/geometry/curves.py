"""Curves as users give them: functions of time, and samples (times, points).

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

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._words import words_of
from connections.checks import (
    PointError,
    ShapeError,
    as_array,
    is_traced,
    require_finite,
    require_positive_int,
    require_same_frame,
    require_text,
    require_type,
)
from connections.evaluation.boundary import (
    Argument,
    admit_at,
    as_given,
    evaluate,
    projected_point,
    require_admissible,
)
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import Parametrized
from connections.geometry.frames import FrameField
from connections.geometry.splines import SPLINE_DEGREE as SPLINE_DEGREE
from connections.geometry.splines import capacity, spline, traced_spline

Curve = Callable[[jax.Array], jax.Array]
_ROUND_OFF = 1e-12  # of times, relative to the span of the samples
_KINK = 1e-11  # by so much of its range two neighbours may differ over a piece to count as one polynomial


class SplinePath(Parametrized):
    """Splines on a manifold as a function of their coefficients: (t, pieces, knots) -> q (nq,).

    Parameters
    ----------
    frame : of the manifold; None for curves of vectors, which are not projected.
    """

    def __init__(self, frame: FrameField | None) -> None:
        self.frame = frame

    def __call__(self, t: jax.Array, pieces: jax.Array, knots: jax.Array) -> jax.Array:
        """The point at time t, on the manifold; NaN outside of the samples.

        Parameters
        ----------
        t : a time.
        pieces : (6, m, nq) coefficients between the knots, of the highest power first.
        knots : (m + 1,) times at which the pieces begin, and at which the last one ends.
        """
        knots = jnp.asarray(knots)
        index = jnp.maximum(jnp.searchsorted(knots[:-1], t, side="right") - 1, 0)
        offset = t - knots[index]
        value = jnp.zeros(pieces.shape[-1])
        for power in range(pieces.shape[0]):
            value = value * offset + pieces[power, index]
        q = value if self.frame is None else self.frame.project_at(value)
        slack = _slack(knots[0], knots[-1], jnp)
        return jnp.where((t >= knots[0] - slack) & (t <= knots[-1] + slack), q, jnp.nan)

    def values_and_rates(
        self, times: np.ndarray, pieces: np.ndarray, knots: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The spline in ambient coordinates at times (s,), (s, nq), and its rate, in NumPy; NaN outside."""
        index = np.maximum(np.searchsorted(knots[:-1], times, side="right") - 1, 0)
        offset, own = (times - knots[index])[:, None], pieces[:, index]
        value = np.zeros((len(times), pieces.shape[-1]))
        rate = np.zeros_like(value)
        for coefficients in own:
            rate = rate * offset + value
            value = value * offset + coefficients
        slack = _slack(knots[0], knots[-1], np)
        outside = (times < knots[0] - slack) | (times > knots[-1] + slack)
        value[outside] = rate[outside] = np.nan
        return value, rate


class SampledCurve(Parametrized):
    """The curve through samples, t -> q: a spline of degree 5, accurate to O(h^6) for smooth curves.

    All functions that take a curve accept a `SampledCurve`, a function t -> q, or a pair (times, points),
    from which they make a `SampledCurve`. Samples are data, not structure: new samples compile nothing, also
    if their number changes, until there are more than 64, 256, 1024, ... Samples may be tracers: then their
    number is a shape, and invalid samples make the curve NaN instead of raising an error.

    Parameters
    ----------
    frame : a frame of the manifold; None for curves of vectors, such as the components of a field.
    times : (S,) increasing, S >= 2, s.
    points : (..., S, nq), on the manifold to `POINT_TOLERANCE`; the sign of a quaternion does not matter.

    Raises
    ------
    ShapeError, NonFiniteError, PointError (a sample is off the manifold), FrameError.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> t = np.linspace(0.0, 1.0, 21)
    >>> samples = np.stack([np.cos(t), np.sin(t)], axis=-1)
    >>> circle = cn.SampledCurve(cn.CoordinateFrame(2), t, samples)
    >>> np.round(circle(0.33), 6), np.round([np.cos(0.33), np.sin(0.33)], 6)
    (array([0.946042, 0.324043]), array([0.946042, 0.324043]))

    Source: the text of the module, which states order and error.
    """

    def __init__(self, frame: FrameField | None, times: Any, points: Any) -> None:
        if frame is not None:
            require_type("frame", frame, FrameField)
        self.frame = frame
        self.knots, self.pieces = _knots_and_pieces(frame, "curve", times, points, None)

    @classmethod
    def through(cls, owner: Any, samples: Any, name: str = "curve", size: int | None = None) -> SampledCurve:
        """The curve through samples (times, points) at which `owner` is defined.

        Parameters
        ----------
        owner : object with a frame, as a connection; None for curves of vectors.
        samples : the pair, or a `SampledCurve` in the owner's frame, which is returned.
        name : the curve's name in errors.
        size : nq, if there is no owner.
        """
        require_text("name", name)
        if size is not None:
            require_positive_int("size", size)
        expected = size if owner is None else _frame_of(owner).ambient_dim
        if isinstance(samples, cls):
            if expected not in (None, samples.size):
                raise ShapeError(f"{name} points", ("...", "S", expected), ("...", "S", samples.size))
            if owner is not None and samples.frame is not None:
                require_same_frame(samples.frame, f"the {name}", owner.frame, f"this {type(owner).__name__}")
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
        if is_traced(t, self.pieces, self.knots):
            return self._points_at(jnp.asarray(t, dtype=jnp.float64))
        points: Callable[..., jax.Array] = compiled(self._points_at)
        return as_given(points(as_array("t", t, ())), t, self.pieces)

    @property
    def path(self) -> SplinePath:
        """The curve as a function of its coefficients, (t, pieces, knots) -> q."""
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
        """The coefficients and knots as arguments of a compiled function, in the order of `path`."""
        pieces = Argument(f"{name} points", self.pieces, self.pieces.shape[-3:])
        return pieces, Argument(f"{name} times", self.knots, self.knots.shape, batched=False)

    def require_times(self, name: str, times: Any, samples: str = "the curve's samples") -> None:
        """Raise `PointError` for times (T,) outside of the samples.

        Parameters
        ----------
        name, samples : names of the times and of the samples in errors.
        """
        require_within(name, times, self.span, samples)

    def step_for_derivatives(self) -> Any:
        """Half the length of the shortest piece if JAX traces the points; None if not.

        A smooth curve allows steps over many pieces, but its derivative in one sample has a kink at every
        knot.
        """
        if not is_traced(self.pieces):
            return None
        lengths = jnp.diff(jnp.asarray(self.knots))
        return 0.5 * jnp.min(jnp.where(lengths > 0.0, lengths, jnp.inf))

    def _points_at(self, t: jax.Array) -> jax.Array:
        if t.ndim:
            return jnp.moveaxis(jax.vmap(self._points_at)(t), 0, -2)

        def at(pieces: jax.Array) -> jax.Array:
            return self.path(t, pieces, jnp.asarray(self.knots)) if pieces.ndim == 3 else jax.vmap(at)(pieces)

        return at(jnp.asarray(self.pieces))


def kinks(curve: SampledCurve) -> np.ndarray:
    """The knots at which the fifth derivative jumps by more than steps may pass over, (k,), in NumPy.

    Within a piece the spline is a polynomial. Where samples are dense for the curve, neighbours are
    almost one polynomial: then steps need not end at their knot.

    Parameters
    ----------
    curve : through samples with values.
    """
    knots, pieces = np.asarray(curve.knots), np.asarray(curve.pieces)
    real = np.searchsorted(knots[:-1], knots[-1])  # pieces behind are padding
    lengths = np.diff(np.append(knots[:real], knots[-1]))
    jumps = np.abs(np.diff(pieces[..., 0, :real, :], axis=-2))
    longer = np.maximum(lengths[1:], lengths[:-1]) ** SPLINE_DEGREE
    points = pieces[..., -1, :real, :]
    reach = np.max(np.abs(points - points[..., :1, :]), axis=-2, keepdims=True)
    large = (jumps * longer[:, None] > _KINK * reach).any(axis=-1)
    found: np.ndarray = knots[1:real][large.any(axis=tuple(range(large.ndim - 1)))]
    return found


def require_within(name: str, times: Any, span: tuple[Any, Any], samples: str) -> None:
    """Raise `PointError` for the first of `times` (...) outside of a span of samples.

    Parameters
    ----------
    name, samples : names of the times and of the samples in errors.
    span : the first and the last time. Tracers are not tested.
    """
    if is_traced(times, span):
        return
    times, (first, last) = np.ravel(times), map(float, span)
    slack = _slack(first, last, np)
    outside = times[(times < first - slack) | (times > last + slack)]
    if outside.size:
        raise PointError(f"{name}: {outside[0]:g} is outside {samples} [{first:g}, {last:g}]")


# --- private -----------------------------------------------------------------------------------------------


def _knots_and_pieces(owner: Any, name: str, times: Any, points: Any, size: int | None) -> tuple[Any, Any]:
    """Knots and coefficients of the spline through samples, after all checks."""
    nq = size if owner is None else owner.frame.ambient_dim
    t, q = as_array(f"{name} times", times, (None,)), as_array(f"{name} points", points, (None, nq))
    increases = t.ndim == 1 and (is_traced(t) or bool(np.all(np.diff(np.asarray(t)) > 0.0)))
    if not increases or t.shape[0] < 2 or q.shape[-2] != t.shape[0]:
        what = "t (S,) increasing with S >= 2, q (..., S, nq)"
        raise ShapeError(f"{name} samples (t, q)", what, f"{t.shape}, {q.shape}")
    for part, array in (("times", t), ("points", q)):
        require_finite(f"{name} {part}", array)
    if owner is not None and (is_traced(q, owner.frame)):
        return traced_spline(t, _admitted_where_traced(owner, q))
    if is_traced(t, q):
        return traced_spline(t, q)
    with jax.ensure_compile_time_eval():  # the samples have values even if JAX is tracing something else
        t, q = np.asarray(t), np.array(q)
        if owner is not None:
            judge, count = owner.frame if is_traced(owner) else owner, len(t)
            room = [(0, 0)] * (q.ndim - 2) + [(0, capacity(count) - count), (0, 0)]
            q = _aligned(owner.frame, _admitted(judge, f"{name} points", np.pad(q, room, mode="edge")))
            q = q[..., :count, :]
        knots, pieces = spline(t, q)
        return knots, jnp.asarray(pieces) if isinstance(points, jax.Array) else pieces  # as the samples are


def _admitted_where_traced(owner: Any, q: Any) -> jax.Array:
    """Samples (..., S, nq) projected on the manifold, each next to the one before; NaN for invalid ones."""

    def point(q: jax.Array) -> jax.Array:
        p, ok = admit_at(owner, q)
        return jnp.where(ok, p, jnp.nan)

    q = jnp.asarray(q)
    points = jax.vmap(point)(q.reshape(-1, q.shape[-1])).reshape(-1, *q.shape[-2:])
    return jnp.swapaxes(_followed(owner.frame, jnp.swapaxes(points, 0, 1)), 0, 1).reshape(q.shape)


def _frame_of(owner: Any) -> FrameField:
    """The frame of an object."""
    frame = getattr(owner, "frame", None)
    if not isinstance(frame, FrameField):
        raise TypeError(f"owner: expected an object with a frame, as a connection, got {words_of(owner)}")
    return frame


def _slack(first: Any, last: Any, numpy: Any) -> Any:
    """How far a time may lie outside of the samples by round-off."""
    largest = numpy.maximum(numpy.abs(first), numpy.abs(last))
    return _ROUND_OFF * (last - first) + 4.0 * np.finfo(np.float64).eps * largest


def _admitted(owner: Any, name: str, q: np.ndarray) -> np.ndarray:
    """Samples (..., S, nq) projected on the manifold; the error of the first invalid one."""
    host = getattr(owner, "host", None)
    if host is not None:  # a robot validates them in NumPy, without compiling
        points: np.ndarray = host.point(name, q)
        try:
            host.mass_matrices(points)
        except ValueError:
            for row in q.reshape(-1, q.shape[-1]):
                require_admissible(owner, name, row)
            raise
        return points
    return np.asarray(evaluate(owner, projected_point, Argument(name, q, q.shape[-1:])))


def _aligned(frame: FrameField, q: np.ndarray) -> np.ndarray:
    """Samples (..., S, nq), each in its representative next to the one before."""
    if frame.dim == frame.ambient_dim:
        return q

    rows = np.swapaxes(q.reshape(-1, *q.shape[-2:]), 0, 1)
    return np.swapaxes(np.asarray(compiled(_followed, frame)(rows)), 0, 1).reshape(q.shape)


def _followed(frame: FrameField, points: jax.Array) -> jax.Array:
    """Points (S, rows, nq), each in its representative next to the one before."""

    def step(before: jax.Array, here: jax.Array) -> tuple[jax.Array, jax.Array]:
        here = jax.vmap(frame.align_at)(here, before)
        return here, here

    return jax.lax.scan(step, points[0], points)[1]
