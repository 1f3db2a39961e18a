"""A metric from samples on a grid of coordinates, positive definite between them, too.

At each sample H = M D M^T, with M lower triangular, ones on its diagonal, and D diagonal and positive. The
entries of M and log D are splines of degree 5 in each coordinate (`grid_splines`), and

    H(q) = M(q) exp(log D(q)) M(q)^T

is symmetric positive definite whatever the splines do. Other units of the coordinates, and other bases
v' = T v with T lower triangular, change the result as they change a metric. With samples h apart of a smooth
metric, without noise,

    |H error| = O(h^6),   |Gamma error| = O(h^5),   |R error| = O(h^4),

up to the border. H has four continuous derivatives. Errors s of the samples become errors of about s / h^2 of
the curvature, if splines go through the samples; `smoothing` and `noise` take fewer pieces.
Source: derived here; C. de Boor, A Practical Guide to Splines (2001), chapters XIII, XIV and XVII.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections._words import words_of
from connections.checks import (
    MetricError,
    PointError,
    ShapeError,
    as_array,
    as_number,
    is_traced,
    require_finite,
    require_untraced,
)
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.grid_splines import applied, chosen_counts, counts_of, of_counts, padded
from connections.geometry.metrics import SYMMETRY_TOLERANCE, Metric
from connections.geometry.splines import capacity

_FEWEST = 4  # samples along an axis: of fewer no spline has two continuous derivatives
_MARGIN = 1e-9  # by so much of an axis' length a point may lie outside, where a motion ends at a border
_ROUNDED = 1.001  # times the longest interval: the longest one across the end of a period
_BEYOND = 0.125  # by so much splines are continued for searches that come to a border from outside


@dataclass(frozen=True, eq=False, repr=False)
class GridMetric(Metric):
    """A metric from samples on a grid, H(q) = M(q) D(q) M(q)^T, positive definite everywhere on it.

    The entries of M (lower triangular, ones on the diagonal) and log D (diagonal) are splines of degree 5:
    through the samples, or smoother ones, because errors s of samples that are h apart are errors of about
    s / h^2 of the curvature then. Outside of the grid there is no metric: an error, inside of JAX's
    transformations NaN. Grids of similar sizes share compiled functions.

    Parameters
    ----------
    axes : n arrays (N_1,), ..., (N_n,): the coordinates of the samples, increasing, four or more of each.
    values : (N_1, ..., N_n, n, n) samples of H at these points, each symmetric positive definite, in the
        frame of the coordinates. JAX may trace them, so that motions have derivatives by the samples.
    smoothing : "gcv", or the length of the splines' pieces, in the coordinates' units, one for each axis or
        one for all: what is shorter counts as noise. 0, as by default, leads through the samples. "gcv"
        chooses numbers of pieces by generalized cross-validation, from a constant on.
    noise : instead of `smoothing`, the known standard deviation of the errors of samples: of the entries of
        H's error in a basis in which the sample is the unit matrix (0.01: errors of one percent).

    periods : as for `CoordinateFrame`: along such an axis the samples are those of one period, without the
        first one again, and the splines are periodic. From the last sample to the first one of the next
        period it is no farther than between two samples somewhere else on this axis.

    Raises
    ------
    TypeError, ShapeError, NonFiniteError : an axis, `periods` or `values` is none; or `values` are traced,
        and smoothing has to be chosen by them.
    ValueError : an axis does not increase, spans its period, or leaves a gap in it; smoothing is negative,
        noise not between 0 and 1, or both are given.
    MetricError : a sample is not symmetric positive definite. Each names the entry.

    Examples
    --------
    The half plane, sampled; its curvature is -1.

    >>> import numpy as np
    >>> import connections as cn
    >>> x, y = np.linspace(0.0, 1.0, 6), np.linspace(1.0, 2.0, 21)
    >>> H = np.eye(2) / y[:, None, None] ** 2 * np.ones((6, 1, 1, 1))
    >>> half_plane = cn.GridMetric([x, y], H)
    >>> K = cn.LeviCivita(half_plane).sectional([0.3, 1.23], [1.0, 0.0], [0.0, 1.0])
    >>> float(np.round(K, 4))
    -1.0

    Errors of one percent:

    >>> noisy = H * (1.0 + 0.01 * np.random.default_rng(0).standard_normal((6, 21, 1, 1)))
    >>> for smoothing in (0.0, "gcv"):
    ...     metric = cn.GridMetric([x, y], noisy, smoothing)
    ...     K = cn.LeviCivita(metric).sectional([0.3, 1.23], [1.0, 0.0], [0.0, 1.0])
    ...     print(bool(abs(K + 1.0) < 0.1))
    False
    True

    Source: the text of the module.
    """

    frame: CoordinateFrame = field(init=False)
    _axes: tuple[np.ndarray, ...] = field(init=False)
    _begins: tuple[np.ndarray, ...] = field(init=False)
    _lengths: tuple[np.ndarray, ...] = field(init=False)
    _pieces: tuple[np.ndarray, ...] = field(init=False)
    _coefficients: Any = field(init=False)
    _margin: float = field(init=False)

    def __init__(
        self,
        axes: Any,
        values: ArrayLike,
        smoothing: ArrayLike | str | None = None,
        noise: float | None = None,
        periods: Any = None,
    ) -> None:
        grid = _checked_axes(axes)
        n, sizes = len(grid), tuple(len(axis) for axis in grid)
        frame = CoordinateFrame(n, periods)
        _require_room(grid, frame.periods)
        H = _checked_values(values, (*sizes, n, n))
        parts = _parts_of(H)
        splines = of_counts(grid, _counts(grid, frame.periods, parts, smoothing, noise), frame.periods)
        by: Any = jnp if isinstance(parts, jax.Array) else np
        for number, along in enumerate(splines):
            parts = applied(along.operator, parts, number, by)
        begins, lengths, pieces = zip(*map(padded, splines), strict=True)
        more = [(0, len(b) - len(along.begins)) for b, along in zip(begins, splines, strict=True)]
        for name, value in (
            ("frame", frame),
            ("_axes", tuple(map(_with_ends, grid, frame.periods))),
            ("_begins", begins),
            ("_lengths", lengths),
            ("_pieces", pieces),
            ("_coefficients", by.pad(parts, [*more, (0, 0)])),
            ("_margin", _MARGIN),
        ):
            object.__setattr__(self, name, value)

    @property
    def axes(self) -> tuple[np.ndarray, ...]:
        """The coordinates of the samples."""
        return tuple(axis[1:][np.isfinite(axis[1:])] for axis in self._axes)

    @property
    def knots(self) -> tuple[np.ndarray, ...]:
        """The coordinates at which pieces of the splines begin, along each axis, and the last one ends."""
        pairs = zip(self._begins, self._axes, strict=True)
        return tuple(np.append(begins[begins < axis[0]], axis[0]) for begins, axis in pairs)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """M D M^T, (n, n); NaN outside of the grid."""
        n, block, q = self.frame.dim, jnp.asarray(self._coefficients), self._on_axes(q)
        weights, starts = [], []
        for x, *tables in zip(q, self._begins, self._lengths, self._pieces, strict=True):
            begins, lengths, pieces = map(jnp.asarray, tables)
            piece = jnp.maximum(jnp.searchsorted(begins, x, side="right") - 1, 0)
            u = jnp.clip((x - begins[piece]) / lengths[piece], -1.0, 2.0)
            powers = [jnp.ones_like(x)]
            for _ in range(pieces.shape[-1] - 1):
                powers.append(powers[-1] * u)
            weights.append(pieces[piece] @ jnp.stack(powers))
            starts.append(piece)
        sizes = [len(weight) for weight in weights]
        block = jax.lax.dynamic_slice(block, [*starts, jnp.zeros_like(starts[0])], [*sizes, block.shape[-1]])
        for weight in weights:
            block = jnp.tensordot(weight, block, 1)
        M = jnp.eye(n).at[np.tril_indices(n, -1)].set(block[n:])
        return jnp.where(self._inside(q, self._margin), (M * jnp.exp(block[None, :n])) @ M.T, jnp.nan)

    def sample_at(self, x: jax.Array) -> jax.Array:
        """A point of the middle half of each axis, (n,): what moves away from it has room."""
        first, last = self._ends()
        return 0.5 * (first + last) + 0.25 * x * (last - first)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether q is on the grid; H is positive definite there."""
        return self._inside(q, _MARGIN)

    def explain(self, q: ArrayLike) -> None:
        """Raise the error that names the coordinate outside of the grid; do nothing if there is none."""
        require_finite("q", q)
        here = np.asarray(self._on_axes(jnp.asarray(q)))
        for i, (x, first, last) in enumerate(zip(here, *self._ends(), strict=True)):
            slack = _MARGIN * (last - first)
            if not first - slack <= x <= last + slack:
                span = f"[{first:.12g}, {last:.12g}] along this axis"
                raise PointError(f"q[{i}] = {x:.12g} is outside of the metric's grid, {span}")

    def _on_axes(self, q: jax.Array) -> jax.Array:
        """q by whole periods on the axes."""
        if not any(self.frame.periods):
            return q
        first, last = self._ends()
        turning = np.array([period is not None for period in self.frame.periods])
        return q - (last - first) * jnp.where(turning, jnp.floor((q - first) / (last - first)), 0.0)

    def _ends(self) -> tuple[jax.Array, jax.Array]:
        return jnp.stack([axis[1] for axis in self._axes]), jnp.stack([axis[0] for axis in self._axes])

    def _inside(self, q: jax.Array, margin: Any) -> jax.Array:
        """Whether q is on the grid, or beside it by less than the margin, relative to the axes."""
        q, (first, last) = self._on_axes(q), self._ends()
        slack = margin * (last - first)
        inside: jax.Array = jnp.all((q >= first - slack) & (q <= last + slack))
        return inside


def continued(metric: Metric) -> Metric:
    """The metric, for a search that comes to a border from outside: on grids, splines go on beside the grid.

    They do by an eighth of its axes, where no point is valid.
    """
    if not isinstance(metric, GridMetric):
        return metric
    other = object.__new__(GridMetric)
    other.__setstate__({**metric.__getstate__(), "_margin": _BEYOND})
    return other


# --- private -----------------------------------------------------------------------------------------------


def _checked_axes(axes: Any) -> tuple[np.ndarray, ...]:
    require_untraced(axes=axes)
    if isinstance(axes, np.ndarray | jax.Array) and axes.ndim == 1:
        raise TypeError("axes: expected a list of arrays, one for each coordinate; write [axis]")
    if not isinstance(axes, list | tuple | np.ndarray | jax.Array):
        raise TypeError(f"axes: expected a list of arrays, one for each coordinate, got {words_of(axes)}")
    found = []
    for number, axis in enumerate(axes):
        name = f"axes[{number}]"
        t = np.asarray(as_array(name, axis, (None,)))
        if t.ndim != 1 or len(t) < _FEWEST:
            raise ShapeError(name, (f"N >= {_FEWEST}",), t.shape)
        require_finite(name, t)
        wrong = np.flatnonzero(np.diff(t) <= 0.0)
        if wrong.size:
            i = int(wrong[0])
            raise ValueError(f"{name} does not increase: {name}[{i + 1}] = {t[i + 1]:g} after {t[i]:g}")
        found.append(t)
    if not found:
        raise ShapeError("axes", "at least one array", "none")
    return tuple(found)


def _checked_values(values: Any, shape: tuple[int, ...]) -> Any:
    H = as_array("values", values, shape)
    if H.ndim != len(shape):
        raise ShapeError("values", shape, H.shape)
    if is_traced(H):
        return jnp.asarray(H)
    require_finite("values", H)
    H = np.asarray(H)
    lengths = np.sqrt(np.maximum(np.diagonal(H, axis1=-2, axis2=-1), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = H / (lengths[..., :, None] * lengths[..., None, :])  # so that units do not matter
    sound = np.isfinite(scaled).all(axis=(-2, -1))
    scaled = np.where(sound[..., None, None], scaled, 0.0)
    turned = np.swapaxes(scaled, -1, -2)
    definite = np.linalg.eigvalsh(0.5 * (scaled + turned))[..., 0] > shape[-1] * np.finfo(float).eps
    if not definite.all():
        place, sample = _first(~definite, H)
        smallest = float(np.linalg.eigvalsh(0.5 * (sample + sample.T))[0])
        raise MetricError(f"{place} is not positive definite (smallest eigenvalue {smallest:.2e})")
    symmetric = (np.abs(scaled - turned) <= SYMMETRY_TOLERANCE).all(axis=(-2, -1))
    if not symmetric.all():
        place, sample = _first(~symmetric, H)
        gap = float(np.max(np.abs(sample - sample.T)))
        raise MetricError(f"{place} is not symmetric (H - H^T has an entry of {gap:.2e})")
    return H


def _first(bad: np.ndarray, H: np.ndarray) -> tuple[str, np.ndarray]:
    """The name and the value of the first of the samples that are bad."""
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"values[{', '.join(map(str, index))}]", H[index]


def _parts_of(H: Any) -> Any:
    """log D and the entries of M below its diagonal, (..., n (n + 1) / 2)."""
    by: Any = jnp if isinstance(H, jax.Array) else np
    L = by.linalg.cholesky(H)
    diagonal = by.diagonal(L, axis1=-2, axis2=-1)
    rows, columns = np.tril_indices(H.shape[-1], -1)
    return by.concatenate([2.0 * by.log(diagonal), (L / diagonal[..., None, :])[..., rows, columns]], axis=-1)


def _with_ends(axis: np.ndarray, period: float | None) -> np.ndarray:
    """Where the axis ends, all coordinates, and NaN as padding: grids of similar sizes have one structure."""
    whole = np.full(capacity(len(axis)) + 1, np.nan)
    whole[0], whole[1 : len(axis) + 1] = axis[-1] if period is None else axis[0] + period, axis
    return whole


def _require_room(axes: tuple[np.ndarray, ...], periods: tuple[float | None, ...]) -> None:
    """Raise `ValueError` unless the samples of an axis with a period are within one, and sample all of it.

    What is between the last and the first of them is an interval as the others, and no longer than the
    longest of these: nothing says that the metric is resolved there. For a thousandth more, which rounded
    axes may have, the bound of errors, h^6, grows by 0.6 percent.
    """
    for i, (axis, period) in enumerate(zip(axes, periods, strict=True)):
        if period is not None and not axis[-1] - axis[0] < period * (1.0 - _MARGIN):
            what = f"spans {axis[-1] - axis[0]:g}, the period is {period:g}"
            raise ValueError(f"axes[{i}] {what}: leave out what is a period after the first sample")
        if period is not None and (gap := period - (axis[-1] - axis[0])) > _ROUNDED * np.diff(axis).max():
            what = (
                f"has a gap of {gap:g} from its last sample to its first one a period, {period:g}, later, and"
            )
            more = f"{np.diff(axis).max():g} at most between others: sample all of the period"
            raise ValueError(f"axes[{i}] {what} {more}, or give no period")


def _counts(
    axes: tuple[np.ndarray, ...], periods: tuple[float | None, ...], parts: Any, smoothing: Any, noise: Any
) -> tuple[int, ...]:
    """The numbers of the splines' coefficients along each axis; N where they lead through the samples."""
    if smoothing is not None and noise is not None:
        raise ValueError("noise: give smoothing or noise, not both")
    require_untraced(smoothing=smoothing, noise=noise)
    if noise is not None:
        noise = as_number("noise", noise)
        require_finite("noise", noise)
        if not 0.0 < noise < 1.0:  # a sample with errors of its own size is positive definite by chance
            raise ValueError(f"noise: expected a positive number below 1, relative to H, got {noise:g}")
    elif isinstance(smoothing, bool):
        raise TypeError(f'smoothing: expected "gcv" or a length >= 0, got {smoothing}')
    elif not isinstance(smoothing, str):
        lengths = np.asarray(as_array("smoothing", 0.0 if smoothing is None else smoothing, ()))
        require_finite("smoothing", lengths)
        if lengths.shape not in ((), (len(axes),)):
            raise ShapeError("smoothing", (len(axes),), lengths.shape)
        if (lengths < 0.0).any():
            raise ValueError(f"smoothing: expected lengths >= 0, got {lengths.min():g}")
        return tuple(map(counts_of, axes, np.broadcast_to(lengths, len(axes)).tolist(), periods))
    elif smoothing != "gcv":
        raise ValueError(f'smoothing: expected "gcv" or a length >= 0, got {smoothing!r}')
    require_untraced(values=parts)
    return chosen_counts(axes, periods, parts, _Whitening(parts, len(axes)), noise)


class _Whitening:
    """Residuals of log D and M -> the error of H in a basis in which the sample is the unit matrix.

    For H + L E L^T, with E symmetric and small, L the Cholesky factor of H: of log D_j it is E_jj, and of
    column j of M it is M D^(1/2) (the part of E below the diagonal)_j D_j^(-1/2).
    """

    def __init__(self, parts: np.ndarray, n: int) -> None:
        self._n, self._below = n, np.tril_indices(n, -1)
        M = np.zeros((*parts.shape[:-1], n, n)) + np.eye(n)
        M[..., *self._below] = parts[..., n:]
        self._inverse, self._roots = np.linalg.inv(M), np.exp(0.5 * parts[..., :n])

    def __call__(self, residuals: np.ndarray) -> np.ndarray:
        """(..., n (n + 1) / 2)."""
        n = self._n
        errors = np.zeros((*residuals.shape[:-1], n, n))
        errors[..., *self._below] = residuals[..., n:]
        scaled = self._inverse @ errors * self._roots[..., None, :] / self._roots[..., :, None]
        return np.concatenate([residuals[..., :n], scaled[..., *self._below]], axis=-1)
