"""The frame field of a chart: the coordinate fields, whose brackets vanish, with periods of coordinates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections._words import words_of
from connections.checks import (
    PointError,
    ShapeError,
    as_number,
    require_finite,
    require_positive_int,
    require_untraced,
)
from connections.geometry.frames import FrameField

#: Times m, the larger of |q| and |p|: a bound of the error of the representative of q next to p. With
#: eps = 2^-52 it is 4 eps: eps m / 2 from rounding q, and from rounding p, eps m from rounding the period
#: (there are 2 m / period of them at most), eps m from rounding their product, and eps m / 2 from q less it.
ROUNDED = 2.0**-50
#: Periods in a coordinate, beyond which float64 does not tell the point: this error is half a period there.
MOST_PERIODS = 0.5 / ROUNDED
#: Periods whose squares, and those of a thousandth of them, are floats.
SHORTEST, LONGEST = 1e-150, 1e150


@dataclass(frozen=True)
class CoordinateFrame(FrameField):
    """The coordinate fields d/dq^1 .. d/dq^n of a chart: X = identity, v = qdot, all brackets zero.

    Coordinates that differ by whole periods are one point. q counts the periods: motions are continuous
    and are not wrapped, and everything that compares two points (logarithms, means, closed curves, the errors
    of control laws and filters) takes the nearest representative.

    Parameters
    ----------
    dim : n.
    periods : n numbers from 1e-150 to 1e150, or None for a coordinate that is not periodic; None for no
        periods at all. Metrics, and fields, on the frame have to have these periods. q of 5.6e14 periods,
        2^49, or more does not tell which point it is, in 53 bits, and is refused: `PointError`.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> plane.matrix([0.3, 0.4])
    array([[1., 0.],
           [0., 1.]])
    >>> plane.bracket(lambda q: q[::-1], lambda q: 0 * q + 1.0, [0.3, 0.4])
    array([-1., -1.])

    A cylinder: from an angle of 3 rad to one of -3 rad it is 0.28 rad.

    >>> cylinder = cn.CoordinateFrame(2, periods=(None, 2 * np.pi))
    >>> nabla = cn.LeviCivita(cn.ConstantMetric(cylinder, np.eye(2)))
    >>> cn.logarithm(nabla, [0.0, 3.0], [1.0, -3.0]).round(4)
    array([1.    , 0.2832])
    """

    dim: int
    _periods: bytes = field(default=b"", init=False, repr=False)  # of float64, NaN for None; b"" without any

    def __init__(self, dim: int, periods: Any = None) -> None:
        require_positive_int("dim", dim)
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "_periods", _checked_periods(periods, dim))

    def __repr__(self) -> str:
        shown = [None if p is None else float(f"{p:.6g}") for p in self.periods]
        periods = f", periods=({', '.join(map(str, shown))}{',' * (self.dim == 1)})" if any(shown) else ""
        return f"CoordinateFrame(dim={self.dim}{periods})"

    @property
    def ambient_dim(self) -> int:  # type: ignore[override]
        """nq = n."""
        return self.dim

    @property
    def periods(self) -> tuple[float | None, ...]:
        """n periods, None for coordinates without one."""
        if not self._periods:
            return (None,) * self.dim
        return tuple(None if np.isnan(period) else float(period) for period in np.frombuffer(self._periods))

    @property
    def angles(self) -> tuple[int, ...]:
        """The coordinates with the period 2 pi."""
        return tuple(index for index, period in enumerate(self.periods) if period == 2.0 * np.pi)

    def align_at(self, q: jax.Array, reference: jax.Array) -> jax.Array:
        """q, by whole periods as near to `reference` as possible."""
        if not self._periods:
            return q
        given = np.frombuffer(self._periods)
        period = np.nan_to_num(given, nan=1.0)
        turns = jnp.where(np.isnan(given), 0.0, jnp.round((q - reference) / period))
        return q - period * turns

    def sample_at(self, x: jax.Array) -> jax.Array:
        """x, and half a period times x where there is one: the whole circle."""
        if not self._periods:
            return x
        given = np.frombuffer(self._periods)
        return jnp.where(np.isnan(given), 1.0, 0.5 * given) * x

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """The identity, (n, n)."""
        return jnp.eye(self.dim)

    def dual_at(self, q: jax.Array) -> jax.Array:
        """The identity, (n, n)."""
        return jnp.eye(self.dim)

    def velocity_at(self, q: jax.Array, q_dot: jax.Array) -> jax.Array:
        """q_dot itself."""
        return q_dot

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """Zero: coordinate fields commute."""
        return jnp.zeros((self.dim,) * 3)

    def near_at(self, q: jax.Array) -> jax.Array:
        """Whether float64 tells where on their circles the coordinates with periods are."""
        if not self._periods:
            return jnp.asarray(True)
        return jnp.all(jnp.abs(q) <= self._farthest)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Every finite q is a point of the chart, within `MOST_PERIODS`."""
        return self.near_at(q)

    def require_near(self, name: str, q: ArrayLike) -> np.ndarray:
        """q (nq,), or `PointError` that names a coordinate of too many periods."""
        q = np.asarray(q)
        for index in np.flatnonzero(np.abs(q) > self._farthest):
            gap, period = np.spacing(abs(float(q[index]))), float(self.periods[index] or np.nan)
            what = f"next to it floats are {gap:.3g} apart, of a period of {period:.6g}"
            raise PointError(f"{name}[{index}] = {q[index]:.6g} has no digits of a point: {what}")
        return q

    def explain(self, q: ArrayLike) -> None:
        """Raise `NonFiniteError` if q is not finite, `PointError` if it has too many periods."""
        require_finite("q", q)
        self.require_near("q", q)

    @property
    def _farthest(self) -> np.ndarray:
        """The largest |q|, (n,)."""
        if not self._periods:
            return np.full(self.dim, np.inf)
        return np.nan_to_num(MOST_PERIODS * np.frombuffer(self._periods), nan=np.inf)


def as_period(name: str, value: Any) -> float:
    """A period as a float.

    Raises
    ------
    TypeError, NonFiniteError; ValueError : it is not positive, or its square, as in lengths, is no float.
    """
    period = float(as_number(name, value))
    if not period > 0.0:
        raise ValueError(f"{name}: a period is a positive number, got {period:g}")
    if not SHORTEST <= period <= LONGEST:
        unit = f"between {SHORTEST:g} and {LONGEST:g}, so that squares of lengths are floats"
        raise ValueError(f"{name}: a period is {unit}, got {period:g}: take another unit")
    return period


def _checked_periods(periods: Any, dim: int) -> bytes:
    """The bits of n periods, NaN for None; nothing if there are none."""
    if periods is None:
        return b""
    require_untraced(periods=periods)
    if not isinstance(periods, tuple | list | np.ndarray):
        raise TypeError(f"periods: expected {dim} numbers or None, as a tuple, got {words_of(periods)}")
    if len(periods) != dim:
        raise ShapeError("periods", (dim,), (len(periods),))
    numbers = np.full(dim, np.nan)
    for index, period in enumerate(periods):
        if period is None:
            continue
        if isinstance(period, bool):
            raise TypeError(f"periods[{index}]: a period is a number, or None for none, got {period}")
        numbers[index] = as_period(f"periods[{index}]", period)
    return b"" if np.isnan(numbers).all() else numbers.tobytes()
