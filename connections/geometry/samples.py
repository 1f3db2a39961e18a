"""Samples of curves: what is checked, where they are cut, and the splines or straight lines through them.

A spline is cut at breakpoints, which the caller gives, or which `corners` finds. Its error is estimated by
four splines, each of which leaves out another quarter of the samples (`coarser`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import PointError, ShapeError, as_array, is_traced, require_choice, require_finite
from connections.evaluation.boundary import (
    Argument,
    admit_at,
    evaluate,
    projected_point,
    require_admissible,
)
from connections.evaluation.compilation import compiled
from connections.geometry.corners import breaks, resting
from connections.geometry.frames import FrameField
from connections.geometry.splines import capacity, on_knots, padded, parts, polyline, spline, traced_spline

KINDS = "spline", "linear"
_ROUND_OFF = 1e-12  # of times, relative to the span of the samples
_COARSER = 4
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
_OPPOSITE = 1e-6  # samples on opposite sides of a manifold, to so much, are joined by no straight line


class Samples(NamedTuple):
    """Samples on the manifold, each next to the one before, and where their curves are cut.

    Parameters
    ----------
    times : (S,) increasing, s.
    points : (..., S, nq).
    cuts : for each curve of the batch, the indices of the samples at which its spline is cut; or one entry
        for all curves.
    kind : of `KINDS`.
    """

    times: Any
    points: Any
    cuts: tuple[tuple[int, ...], ...]
    kind: str

    @property
    def breakpoints(self) -> Any:
        """The times (b,) at which one of the curves is cut."""
        return self.times[np.array(sorted({cut for row in self.cuts for cut in row}), dtype=int)]


class Joined(NamedTuple):
    """Curves through samples, as splines between knots (`splines.spline`), and the samples."""

    knots: Any
    pieces: Any
    samples: Samples


def joined(
    owner: Any,
    name: str,
    times: Any,
    points: Any,
    size: int | None = None,
    breakpoints: Any = None,
    kind: str = "spline",
) -> Joined:
    """The curves through samples at which `owner` is defined, after all checks.

    Parameters
    ----------
    owner : object with a frame; None for curves of vectors of this `size`.
    name : the curve's name in errors.
    times, points, breakpoints, kind : as for `SampledCurve`.
    """
    require_choice("kind", kind, KINDS)
    t, q = _checked(owner, name, times, points, size)
    given = None if breakpoints is None else cuts_at(f"{name} times", t, breakpoints)
    if is_traced(t, q, *([] if owner is None else [owner.frame])):
        q = jnp.asarray(q) if owner is None else _admitted_where_traced(owner, q)
        return _traced(jnp.asarray(t), q, t, given, kind)
    with jax.ensure_compile_time_eval():  # the samples have values even if JAX is tracing something else
        t, q = np.asarray(t), np.array(q)
        if owner is not None:
            judge, count = owner.frame if is_traced(owner) else owner, len(t)
            room = [(0, 0)] * (q.ndim - 2) + [(0, capacity(count) - count), (0, 0)]
            q = _aligned(owner.frame, _admitted(judge, f"{name} points", np.pad(q, room, mode="edge")))
            q = q[..., :count, :]
        if kind == "linear":
            _require_lines(owner, name, t, q)
            cuts: tuple[tuple[int, ...], ...] = (tuple(range(1, len(t) - 1)),)
        else:
            cuts = _found(name, t, q) if given is None else (given,)
        knots, pieces = _through(Samples(t, q, cuts, kind))
        pieces = jnp.asarray(pieces) if isinstance(points, jax.Array) else pieces  # as the samples are
        return Joined(knots, pieces, Samples(t, q, cuts, kind))


def cut_again(samples: Samples, breakpoints: Any, name: str) -> Joined:
    """The curves through the same samples, cut at other breakpoints."""
    cuts = cuts_at(f"{name} times", samples.times, breakpoints)
    if samples.kind == "linear":
        cuts = samples.cuts[0]
    again = samples._replace(cuts=(cuts,))
    return Joined(*_through(again), again)


def coarser(samples: Samples) -> list[Joined]:
    """Four curves, each without a quarter of the samples between breakpoints; none for straight lines.

    Sample i of a part is left out by curve floor(4 frac(i g)), g the golden ratio: each sample once, and
    never two neighbours together. The pattern has no period, because the errors at two corners may cancel
    where every second or third sample is left out.

    Raises
    ------
    ValueError : a part between breakpoints has two samples only, which say nothing about an error.
    """
    if samples.kind == "linear":
        return []
    t, q, cuts, _ = samples
    still = None if is_traced(t, q) else np.all(resting(q), axis=tuple(range(q.ndim - 2)))
    for part in (part for row in cuts for part in parts(len(t), row)):
        if part.stop - part.start == 2 and not (still is not None and still[part.start]):
            ends = "" if is_traced(t) else f" at t = {float(t[part.start]):g} and {float(t[part.stop - 1]):g}"
            why = f"two samples{ends} do not show how far the curve between them is from a straight line"
            raise ValueError(f"estimate: {why}; give more samples, or a SampledCurve of kind='linear'")
    return [Joined(*_through(samples, left_out), samples) for left_out in range(_COARSER)]


def cuts_at(name: str, t: Any, breakpoints: Any) -> tuple[int, ...]:
    """The indices of the samples at breakpoints, without the ends.

    Parameters
    ----------
    name : of the times, in errors.
    t : (S,) times of samples.
    breakpoints : (b,) of these times, in any order.

    Raises
    ------
    ShapeError, NonFiniteError; ValueError : one is no time of a sample; PointError : one is outside.
    """
    marks = np.atleast_1d(as_array("breakpoints", breakpoints, ()))
    if marks.ndim != 1:
        raise ShapeError("breakpoints", ("b",), marks.shape)
    require_finite("breakpoints", marks)
    if not marks.size:
        return ()
    if is_traced(t):
        raise ValueError(f"breakpoints: they are some of the {name}, so JAX must not trace these")
    t = np.asarray(t)
    room = time_slack(t[0], t[-1], np)
    for mark in marks:
        nearest = t[np.argmin(np.abs(t - mark))]
        if mark < t[0] - room or mark > t[-1] + room:
            span = f"[{t[0]:.12g}, {t[-1]:.12g}]"
            raise PointError(f"breakpoints: {mark:.12g} is outside the curve's samples {span}")
        if abs(mark - nearest) > room:
            what = f"{mark:.12g} is no time of a sample; the nearest is {nearest:.12g}"
            raise ValueError(f"breakpoints: {what}. Add the curve's point at {mark:g} to the samples")
    found = {int(np.argmin(np.abs(t - mark))) for mark in marks}
    return tuple(sorted(found - {0, len(t) - 1}))


def time_slack(first: Any, last: Any, numpy: Any) -> Any:
    """How far a time may lie outside of the samples by round-off."""
    largest = numpy.maximum(numpy.abs(first), numpy.abs(last))
    return _ROUND_OFF * (last - first) + 4.0 * np.finfo(np.float64).eps * largest


# --- private -----------------------------------------------------------------------------------------------


def _checked(owner: Any, name: str, times: Any, points: Any, size: int | None) -> tuple[Any, Any]:
    """Times and points of the right shapes, finite, in their order."""
    nq = size if owner is None else owner.frame.ambient_dim
    t, q = as_array(f"{name} times", times, (None,)), as_array(f"{name} points", points, (None, nq))
    what = "t (S,) increasing with S >= 2, q (..., S, nq)"
    if t.ndim != 1 or t.shape[0] < 2 or q.shape[-2] != t.shape[0]:
        raise ShapeError(f"{name} samples (t, q)", what, f"{t.shape}, {q.shape}")
    for part, array in (("times", t), ("points", q)):
        require_finite(f"{name} {part}", array)
    if not is_traced(t):
        late = np.flatnonzero(np.diff(np.asarray(t)) <= 0.0)
        if late.size:
            got = f"t[{late[0] + 1}] = {float(t[late[0] + 1]):g} after t[{late[0]}] = {float(t[late[0]]):g}"
            raise ShapeError(f"{name} samples (t, q)", what, got)
    return t, q


def _traced(t: jax.Array, q: jax.Array, times: Any, given: tuple[int, ...] | None, kind: str) -> Joined:
    """The curves through samples that JAX traces; NaN if they turn where no breakpoint is given."""
    if kind == "linear":
        samples = Samples(times, q, (tuple(range(1, len(t) - 1)),), kind)
        return Joined(*polyline(t, q, jnp), samples)
    cuts = given or ()
    knots, pieces = traced_spline(t, q, cuts)
    if given is None:
        found = breaks(*jax.lax.stop_gradient((t, q)), jnp)
        bad = jnp.any(found.corners, axis=-1) | jnp.any(found.between, axis=-1)
        pieces = pieces * jnp.where(bad, jnp.nan, 1.0)[..., None, None, None]
    return Joined(knots, pieces, Samples(times, q, (cuts,), kind))


def _found(name: str, t: np.ndarray, q: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """The samples at which each curve has a corner or begins or ends a rest; one entry if all agree."""
    found = breaks(t, q.reshape(-1, *q.shape[-2:]))
    if found.between.any():
        row, interval = np.argwhere(found.between)[0]
        batch = tuple(map(int, np.unravel_index(row, q.shape[:-2])))
        which = f"{name} points" + (f" {batch} of the batch" if batch else "")
        what = f"there is a corner or a jump between t = {t[interval]:g} and t = {t[interval + 1]:g}"
        way = "add it to the samples and to breakpoints=, or give breakpoints=[] if the curve is smooth there"
        raise PointError(f"{which}: {what}, at no sample; {way}")
    marks = (found.corners | found.rests)[:, 1:-1]
    rows = tuple(tuple((np.flatnonzero(row) + 1).tolist()) for row in marks)
    return rows if len(set(rows)) > 1 else rows[:1] or ((),)


def _through(samples: Samples, left_out: int | None = None) -> tuple[Any, Any]:
    """Knots and pieces of curves through samples, all, or without those of one of `coarser`.

    Curves of a batch that are cut at different samples have the knots of all of them.
    """
    t, q, cuts, kind = samples
    if is_traced(t, q):
        kept, own = _kept(len(t), cuts[0], left_out)
        return traced_spline(jnp.asarray(t)[kept], q[..., kept, :], own)
    if kind == "linear":
        return padded(*polyline(t, q), len(t))
    if len(cuts) == 1:
        kept, own = _kept(len(t), cuts[0], left_out)
        return padded(*spline(t[kept], q[..., kept, :], own), len(t))
    found = []
    for row, points in zip(cuts, q.reshape(-1, *q.shape[-2:]), strict=True):
        kept, own = _kept(len(t), row, left_out)
        found.append(spline(t[kept], points[kept], own))
    begins = np.unique(np.concatenate([knots[:-1] for knots, _ in found]))
    pieces = np.stack([on_knots(knots, pieces, begins) for knots, pieces in found])
    return padded(np.append(begins, t[-1]), pieces.reshape(*q.shape[:-2], *pieces.shape[1:]), len(t))


def _kept(count: int, cuts: Sequence[int], left_out: int | None) -> tuple[np.ndarray, Sequence[int]]:
    """Indices of samples, and the places of the cuts among them: all, or those of one of `coarser`."""
    if left_out is None:
        return np.arange(count), cuts
    keeps = np.ones(count, dtype=bool)
    for part in parts(count, cuts):
        numbers = np.arange(part.stop - part.start)
        keeps[part] = np.floor(_COARSER * (numbers * _GOLDEN % 1.0)) != left_out
    keeps[[0, *cuts, count - 1]] = True
    return np.flatnonzero(keeps), [int(np.sum(keeps[:cut])) for cut in cuts]


def _require_lines(owner: Any, name: str, t: np.ndarray, q: np.ndarray) -> None:
    """Raise `PointError` for neighbours on opposite sides of the manifold: no straight line is near it."""
    if owner is None or owner.frame.dim == owner.frame.ambient_dim:
        return
    middle = (0.5 * (q[..., 1:, :] + q[..., :-1, :])).reshape(-1, q.shape[-1])
    half = np.linalg.norm(0.5 * np.diff(q, axis=-2), axis=-1)
    nearest = np.asarray(compiled(_projected_rows, owner.frame)(middle))
    height = np.linalg.norm(nearest - middle, axis=-1).reshape(half.shape)
    apart = half > _OPPOSITE * np.max(np.linalg.norm(q, axis=-1))
    bad = np.argwhere(apart & ~(height < (1.0 - _OPPOSITE) * half))  # NaN, too
    if bad.size:
        i = bad[0][-1]
        what = f"those at t = {t[i]:g} and t = {t[i + 1]:g} are on opposite sides of the manifold"
        raise PointError(f"{name} points: {what}, and no line joins them; give points between them")


def _projected_rows(frame: FrameField, points: jax.Array) -> jax.Array:
    return jax.vmap(frame.project_at)(points)


def _admitted_where_traced(owner: Any, q: Any) -> jax.Array:
    """Samples (..., S, nq) projected on the manifold, each next to the one before; NaN for invalid ones."""

    def point(q: jax.Array) -> jax.Array:
        p, ok = admit_at(owner, q)
        return jnp.where(ok, p, jnp.nan)

    q = jnp.asarray(q)
    points = jax.vmap(point)(q.reshape(-1, q.shape[-1])).reshape(-1, *q.shape[-2:])
    return jnp.swapaxes(_followed(owner.frame, jnp.swapaxes(points, 0, 1)), 0, 1).reshape(q.shape)


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
    if frame.dim == frame.ambient_dim and not any(frame.periods):
        return q

    rows = np.swapaxes(q.reshape(-1, *q.shape[-2:]), 0, 1)
    return np.swapaxes(np.asarray(compiled(_followed, frame)(rows)), 0, 1).reshape(q.shape)


def _followed(frame: FrameField, points: jax.Array) -> jax.Array:
    """Points (S, rows, nq), each in its representative next to the one before."""

    def step(before: jax.Array, here: jax.Array) -> tuple[jax.Array, jax.Array]:
        here = jax.vmap(frame.align_at)(here, before)
        return here, here

    return jax.lax.scan(step, points[0], points)[1]
