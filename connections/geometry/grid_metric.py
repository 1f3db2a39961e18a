"""A metric from samples on a grid of coordinates, positive definite between them, too.

At each sample H = M D M^T, with M lower triangular, ones on its diagonal, and D diagonal and positive. The
entries of M and log D are interpolated by splines in each coordinate, and

    H(q) = M(q) exp(log D(q)) M(q)^T

is symmetric positive definite whatever the splines do. Other units of the coordinates, and other bases
v' = T v with T lower triangular, change the result as they change a metric. With samples h apart of a smooth
metric, six or more along each axis,

    |H error| = O(h^6),   |Gamma error| = O(h^5),   |R error| = O(h^4),

up to the border, because the splines end "not a knot". H has four continuous derivatives; with four or five
samples along an axis the degree is 3, H has two, and the orders are two less.
Source: derived here; C. de Boor, A Practical Guide to Splines (2001), chapters XIII and XVII.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
    is_traced,
    require_finite,
    require_untraced,
)
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.metrics import SYMMETRY_TOLERANCE, Metric
from connections.geometry.splines import degree_of

_FEWEST = 4  # samples along an axis: of fewer no spline has two continuous derivatives
_MARGIN = 1e-9  # by so much of an axis' length a point may lie outside, where a motion ends at a border
_BEYOND = 0.125  # by so much splines are continued for searches that come to a border from outside


@dataclass(frozen=True, eq=False, repr=False)
class GridMetric(Metric):
    """A metric from samples on a grid, H(q) = M(q) D(q) M(q)^T, positive definite everywhere on it.

    The entries of M (lower triangular, ones on the diagonal) and log D (diagonal) are interpolated by splines
    of degree 5. Outside of the grid there is no metric: an error, inside of JAX's transformations NaN.

    Parameters
    ----------
    axes : n arrays (N_1,), ..., (N_n,): the coordinates of the samples, increasing, four or more of each.
    values : (N_1, ..., N_n, n, n) samples of H at these points, each symmetric positive definite, in the
        frame of the coordinates. JAX may trace them, so that motions have derivatives by the samples.

    Raises
    ------
    TypeError, ShapeError, NonFiniteError : an axis or `values` is none.
    ValueError : an axis does not increase.
    MetricError : a sample is not symmetric positive definite. Each names the entry.

    Examples
    --------
    The half plane, sampled; its curvature is -1.

    >>> import numpy as np
    >>> import connections as cn
    >>> x, y = np.linspace(0.0, 1.0, 6), np.linspace(1.0, 2.0, 21)
    >>> half_plane = cn.GridMetric([x, y], np.eye(2) / y[:, None, None] ** 2 * np.ones((6, 1, 1, 1)))
    >>> K = cn.LeviCivita(half_plane).sectional([0.3, 1.23], [1.0, 0.0], [0.0, 1.0])
    >>> float(np.round(K, 4))
    -1.0

    Source: the text of the module.
    """

    frame: CoordinateFrame = field(init=False)
    shape: tuple[int, ...] = field(init=False)
    _axes: tuple[np.ndarray, ...] = field(init=False)
    _knots: tuple[np.ndarray, ...] = field(init=False)
    _pieces: tuple[np.ndarray, ...] = field(init=False)
    _coefficients: Any = field(init=False)
    _margin: float = field(init=False)

    def __init__(self, axes: Any, values: ArrayLike) -> None:
        grid = _checked_axes(axes)
        shape = tuple(len(axis) for axis in grid)
        n = len(shape)
        H = _checked_values(values, (*shape, n, n))
        splines, parts = [_splines(axis) for axis in grid], _parts_of(H)
        by: Any = jnp if isinstance(parts, jax.Array) else np
        for number, along in enumerate(splines):
            parts = by.moveaxis(by.tensordot(along.operator, parts, (1, number)), 0, number)
        for name, value in (
            ("frame", CoordinateFrame(n)),
            ("shape", shape),
            ("_axes", grid),
            ("_knots", tuple(along.knots for along in splines)),
            ("_pieces", tuple(along.pieces for along in splines)),
            ("_coefficients", parts),
            ("_margin", _MARGIN),
        ):
            object.__setattr__(self, name, value)

    @property
    def axes(self) -> tuple[np.ndarray, ...]:
        """The coordinates of the samples."""
        return self._axes

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """M D M^T, (n, n); NaN outside of the grid."""
        n, block = len(self.shape), jnp.asarray(self._coefficients)
        weights, starts = [], []
        for x, knots, pieces in zip(q, map(jnp.asarray, self._knots), self._pieces, strict=True):
            piece = jnp.clip(jnp.searchsorted(knots, x, side="right") - 1, 0, len(pieces) - 1)
            u = (x - knots[piece]) / (knots[piece + 1] - knots[piece])
            u, powers = jnp.clip(u, -1.0, 2.0), [jnp.ones_like(x)]
            for _ in range(pieces.shape[-1] - 1):
                powers.append(powers[-1] * u)
            weights.append(jnp.asarray(pieces)[piece] @ jnp.stack(powers))
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
        for i, (x, axis) in enumerate(zip(np.asarray(q), self.axes, strict=True)):
            slack = _MARGIN * (axis[-1] - axis[0])
            if not axis[0] - slack <= x <= axis[-1] + slack:
                span = f"[{axis[0]:g}, {axis[-1]:g}] along this axis"
                raise PointError(f"q[{i}] = {x:g} is outside of the metric's grid, {span}")

    def _ends(self) -> tuple[jax.Array, jax.Array]:
        return jnp.stack([axis[0] for axis in self.axes]), jnp.stack([axis[-1] for axis in self.axes])

    def _inside(self, q: jax.Array, margin: Any) -> jax.Array:
        """Whether q is on the grid, or beside it by less than the margin, relative to the axes."""
        first, last = self._ends()
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


class _Axis(NamedTuple):
    """The splines along an axis of N samples, of degree k: P = N - k pieces.

    Parameters
    ----------
    knots : (P + 1,) where pieces begin, and where the last one ends.
    pieces : (P, k + 1, k + 1) coefficients by rising powers of u, from 0 to 1 over a piece, of the B-splines
        that are not zero there; those of piece p are number p, ..., p + k.
    operator : (N, N) the B-splines' coefficients of a unit at each sample.
    """

    knots: np.ndarray
    pieces: np.ndarray
    operator: np.ndarray


def _splines(t: np.ndarray) -> _Axis:
    from scipy.interpolate import BSpline, make_interp_spline

    k = degree_of(len(t))
    found = make_interp_spline(t, np.eye(len(t)), k=k)
    knots = found.t[k : len(t) + 1]
    each, lengths = BSpline(found.t, np.eye(len(t)), k), np.diff(knots)
    pieces = np.empty((len(lengths), k + 1, k + 1))
    numbers = np.arange(len(lengths))[:, None] + np.arange(k + 1)
    for power in range(k + 1):
        derivatives = each.derivative(power)(knots[:-1]) if power else each(knots[:-1])
        scaled = derivatives * (lengths**power / math.factorial(power))[:, None]
        pieces[:, :, power] = np.take_along_axis(scaled, numbers, axis=1)
    return _Axis(knots, pieces, found.c)
