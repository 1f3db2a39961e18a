"""Curves as users give them: functions of time, and samples (times, points).

Samples are joined by a spline of degree 5 in the ambient coordinates, which is projected on the manifold
where it is evaluated; quaternions are brought to one sign before. The spline is cut at breakpoints, where the
curve may have corners. With samples h apart of a curve that is smooth between them,

    |q(t) - curve(t)| = O(h^6),   |qdot - curve'| = O(h^5),   |qddot - curve''| = O(h^4),

up to the ends, because the spline ends "not a knot" and needs no derivatives there. In a chart, with evenly
spaced samples, the error of q is at most (h^6 / 73) max |d^6 q / dt^6| beside ends and breakpoints, and
(h^6 / 8000) max |d^6 q / dt^6| six samples away from them. Fewer than six samples between breakpoints are
joined by a polynomial of degree 3 or 1, of order 4 or 2.
Source: C. de Boor, A Practical Guide to Splines (2001), chapter XIII.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections._words import words_of
from connections.checks import (
    PointError,
    ShapeError,
    as_array,
    is_traced,
    require_positive_int,
    require_same_frame,
    require_text,
    require_type,
)
from connections.evaluation.boundary import (
    Argument,
    as_given,
)
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import Parametrized, cache_of
from connections.geometry.frames import FrameField
from connections.geometry.samples import Joined, Samples, coarser, cut_again, joined, time_slack
from connections.geometry.splines import SPLINE_DEGREE as SPLINE_DEGREE

Curve = Callable[[jax.Array], jax.Array]
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
        slack = time_slack(knots[0], knots[-1], jnp)
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
        slack = time_slack(knots[0], knots[-1], np)
        outside = (times < knots[0] - slack) | (times > knots[-1] + slack)
        value[outside] = rate[outside] = np.nan
        return value, rate


class PiecePath(Parametrized):
    """Parts of single pieces, as a function of their data: (u, piece, window) -> q (nq,), u from 0 to 1.

    Parameters
    ----------
    frame : of the manifold; None for curves of vectors.
    """

    def __init__(self, frame: FrameField | None) -> None:
        self.frame = frame

    def __call__(self, u: jax.Array, piece: jax.Array, window: jax.Array) -> jax.Array:
        """The point at u, on the manifold.

        Parameters
        ----------
        u : the part of the window that has passed.
        piece : (6, nq) coefficients, of the highest power of the time since its knot first.
        window : (2,) the time from the knot to u = 0, and from there to u = 1.
        """
        value = jnp.zeros(piece.shape[-1])
        for power in range(piece.shape[0]):
            value = value * (window[0] + u * window[1]) + piece[power]
        return value if self.frame is None else self.frame.project_at(value)

    def values_and_rates(
        self, u: np.ndarray, piece: np.ndarray, window: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The piece in ambient coordinates at u (s,), (s, nq), and its rate by u, in NumPy."""
        offset, value = (window[0] + u * window[1])[:, None], np.zeros((len(u), piece.shape[-1]))
        rate = np.zeros_like(value)
        for coefficients in piece:
            rate = rate * offset + value
            value = value * offset + coefficients
        return value, rate * window[1]


class SampledCurve(Parametrized):
    """The curve through samples, t -> q: splines of degree 5, accurate to O(h^6), or straight lines.

    All functions that take a curve accept a `SampledCurve`, a function t -> q, or a pair (times, points),
    from which they make a `SampledCurve`. Samples are data, not structure: new samples compile nothing, also
    if their number changes, until there are more than 64, 256, 1024, ... Samples may be tracers: then their
    number is a shape, and invalid samples make the curve NaN instead of raising an error.

    Parameters
    ----------
    frame : a frame of the manifold; None for curves of vectors, such as the components of a field.
    times : (S,) increasing, S >= 2, s.
    points : (..., S, nq), on the manifold to `POINT_TOLERANCE`; the sign of a quaternion does not matter.
    breakpoints : (b,) of the times, at which the spline is cut: where the curve may have a corner, or begin
        or end a rest; ``[]`` for a smooth curve. None for those that samples show: corners with four to six
        samples on each side, and three or more samples that are the same point. If JAX traces the samples, a
        corner that they show makes the curve NaN, and rests are no breakpoints.
    kind : ``"spline"``, or ``"linear"`` for a polyline: straight in the frame's coordinates, then projected
        on the manifold. On a sphere these are arcs of great circles, and quaternions turn about fixed axes;
        they are not the geodesics of other metrics.

    Raises
    ------
    ShapeError, NonFiniteError, FrameError.
    PointError : a sample is off the manifold; there is a corner or a jump between two samples; a breakpoint
        is outside of the times; a straight line has ends on opposite sides of the manifold.
    ValueError : a breakpoint is not one of the times.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> t = np.linspace(0.0, 1.0, 21)
    >>> samples = np.stack([np.cos(t), np.sin(t)], axis=-1)
    >>> circle = cn.SampledCurve(cn.CoordinateFrame(2), t, samples)
    >>> np.round(circle(0.33), 6), np.round([np.cos(0.33), np.sin(0.33)], 6)
    (array([0.946042, 0.324043]), array([0.946042, 0.324043]))

    A corner is found, or given:

    >>> roof = np.stack([t, 0.3 - np.abs(t - 0.3)], axis=-1)
    >>> cn.SampledCurve(cn.CoordinateFrame(2), t, roof).breakpoints
    array([0.3])

    Source: the text of the module, which states order and error.
    """

    def __init__(
        self,
        frame: FrameField | None,
        times: ArrayLike,
        points: ArrayLike,
        breakpoints: ArrayLike | None = None,
        kind: str = "spline",
    ) -> None:
        if frame is not None:
            require_type("frame", frame, FrameField)
        self._join(frame, joined(frame, "curve", times, points, None, breakpoints, kind))

    @classmethod
    def through(
        cls,
        owner: Any,
        samples: Any,
        name: str = "curve",
        size: int | None = None,
        breakpoints: Any = None,
    ) -> SampledCurve:
        """The curve through samples (times, points) at which `owner` is defined.

        Parameters
        ----------
        owner : object with a frame, as a connection; None for curves of vectors.
        samples : the pair, or a `SampledCurve` in the owner's frame, which is returned.
        name : the curve's name in errors.
        size : nq, if there is no owner.
        breakpoints : as of `SampledCurve`; those of a `SampledCurve` are replaced, unless None.
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
            return samples if breakpoints is None else samples._cut_again(breakpoints, name)
        if not isinstance(samples, tuple | list) or len(samples) != 2:
            what = type(samples).__name__
            raise TypeError(f"{name}: expected a function of time or samples (times, points), got {what}")
        curve: SampledCurve = object.__new__(cls)
        frame = None if owner is None else owner.frame
        times, points = samples
        curve._join(frame, joined(owner, name, times, points, size, breakpoints))
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

    def require_times(self, name: str, times: ArrayLike, samples: str = "the curve's samples") -> None:
        """Raise `PointError` for times (T,) outside of the samples.

        Parameters
        ----------
        name, samples : names of the times and of the samples in errors.
        """
        require_within(name, times, self.span, samples)

    def between(self, times: Any) -> tuple[tuple[Any, Any], Any]:
        """The curve between times (T,) as pieces, each of them one polynomial, as data of `PiecePath`.

        Returns
        -------
        pieces, windows : (..., R, 6, nq) and (R, 2), one behind the other; NaN outside of the samples.
        places : (T,) how many pieces lie before each of the times.
        """
        traced = is_traced(times, self.pieces, self.knots)
        numpy: Any = jnp if traced else np
        times, knots, pieces = (numpy.asarray(array) for array in (times, self.knots, self.pieces))
        sign = numpy.sign(times[-1] - times[0])
        marks = numpy.clip(knots, numpy.minimum(times[0], times[-1]), numpy.maximum(times[0], times[-1]))
        ends = sign * numpy.sort(sign * numpy.concatenate([times, marks]))
        if not traced:
            ends = sign * np.unique(sign * ends)
        places = numpy.searchsorted(sign * ends, sign * times)
        middle = 0.5 * (ends[1:] + ends[:-1])
        index = numpy.maximum(numpy.searchsorted(knots[:-1], middle, side="right") - 1, 0)
        windows = numpy.stack([ends[:-1] - knots[index], ends[1:] - ends[:-1]], axis=1)
        room = time_slack(knots[0], knots[-1], numpy)
        inside = (middle >= knots[0] - room) & (middle <= knots[-1] + room)
        windows = numpy.where(inside[:, None], windows, np.nan)
        return (numpy.moveaxis(pieces[..., index, :], -2, -3), windows), places

    def step_for_derivatives(self) -> Any:
        """Half the length of the shortest piece if JAX traces the points; None if not.

        A smooth curve allows steps over many pieces, but its derivative in one sample has a kink at every
        knot.
        """
        if not is_traced(self.pieces):
            return None
        lengths = jnp.diff(jnp.asarray(self.knots))
        return 0.5 * jnp.min(jnp.where(lengths > 0.0, lengths, jnp.inf))

    def _join(self, frame: FrameField | None, found: Joined) -> None:
        """Become the curve that was found, in this frame; its samples are no part of the pytree."""
        self.frame, self.knots, self.pieces = frame, found.knots, found.pieces
        self.breakpoints = found.samples.breakpoints
        cache_of(self)[Samples] = found.samples

    def _cut_again(self, breakpoints: Any, name: str) -> SampledCurve:
        """The curve through the same samples with other breakpoints."""
        return self._other(cut_again(_samples_of(self, "breakpoints"), breakpoints, name))

    def _other(self, found: Joined) -> SampledCurve:
        """Another curve of this frame, of the same kind of arrays."""
        curve: SampledCurve = object.__new__(type(self))
        if isinstance(self.pieces, jax.Array):
            found = found._replace(pieces=jnp.asarray(found.pieces))
        curve._join(self.frame, found)
        return curve

    def _points_at(self, t: jax.Array) -> jax.Array:
        if t.ndim:
            return jnp.moveaxis(jax.vmap(self._points_at)(t), 0, -2)

        def at(pieces: jax.Array) -> jax.Array:
            return self.path(t, pieces, jnp.asarray(self.knots)) if pieces.ndim == 3 else jax.vmap(at)(pieces)

        return at(jnp.asarray(self.pieces))


def coarser_curves(curve: SampledCurve) -> list[SampledCurve]:
    """Four curves, each without a quarter of the samples, for an estimate; none for straight lines.

    Parameters
    ----------
    curve : made by `SampledCurve`, not one that JAX has made again from its arrays.

    Raises
    ------
    ValueError : the samples are lost, or there are only two between breakpoints.
    """
    return [curve._other(found) for found in coarser(_samples_of(curve, "estimate"))]


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
    slack = time_slack(first, last, np)
    outside = times[(times < first - slack) | (times > last + slack)]
    if outside.size:
        raise PointError(f"{name}: {outside[0]:.12g} is outside {samples} [{first:.12g}, {last:.12g}]")


# --- private -----------------------------------------------------------------------------------------------


def _samples_of(curve: SampledCurve, option: str) -> Samples:
    """The samples of a curve, or `ValueError` naming the option that needs them."""
    samples: Samples | None = cache_of(curve).get(Samples)
    if samples is None:
        raise ValueError(f"{option}: this SampledCurve came through JAX without its samples; make it there")
    return samples


def _frame_of(owner: Any) -> FrameField:
    """The frame of an object."""
    frame = getattr(owner, "frame", None)
    if not isinstance(frame, FrameField):
        raise TypeError(f"owner: expected an object with a frame, as a connection, got {words_of(owner)}")
    return frame
