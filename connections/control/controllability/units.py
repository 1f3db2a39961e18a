"""Units in which a control system near a point is of size one: what ranks and round-off are judged in.

With a metric, a coordinate's unit is the distance in which the frame, the connection or the inputs change
by themselves; a field's is the time that it takes to move a coordinate by its unit, or itself to turn; an
input's makes its largest component one. Without a metric, the logarithms of all components and of their
slopes are as near zero as possible (least squares), which gives the same system in whatever units it was
written. Vectors, products and brackets are the same geometric objects in any units, so that words are made in
these, and their values are turned back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from connections.control.controllability.expansion import DISTURBANCE
from connections.control.controllability.ranks import ROUND_OFF
from connections.geometry.numerics.scales import balance

Array = np.ndarray[Any, Any]
_NOTHING = 1e-12  # a rate this small beside the largest is round-off


@dataclass(frozen=True, eq=False)
class Units:
    """Units at a point.

    Parameters
    ----------
    coordinates : c (nq,), of the coordinates.
    fields : l (m,): l_j X_j has unit size.
    inputs : b (a,): b_a Y_a has.
    """

    coordinates: Array
    fields: Array
    inputs: Array

    def scaled(self, X: Array, S: Array, Y: Array, exponents: Array) -> tuple[Array, Array, Array]:
        """Taylor coefficients of frame, symmetrized connection and inputs, (K, ...), in these units."""
        c, field = self.coordinates, self.fields
        powers = np.prod(c**exponents, axis=1)
        turned = S * field[:, None] * field / field[:, None, None]
        arrays = X * field / c[:, None], turned, Y * self.inputs / field[:, None]
        first, second, third = (a * powers[: len(a)].reshape(-1, *(1,) * (a.ndim - 1)) for a in arrays)
        return first, second, third

    def with_inputs(self, Y: Array) -> Units:
        """The units of coordinates and fields, with those of other inputs Y (m, a) at the point."""
        return Units(self.coordinates, self.fields, _input_units(Y, self.fields))


def units_near(
    X: Array, S: Array, Y: Array, lengths: Array | None, base: Array, base_lengths: Array | None
) -> Units:
    """The units of a system from its Taylor polynomials of degree one.

    Parameters
    ----------
    X, S, Y : (1 + nq, nq, m), (1 + nq, m, m, m), (1 + nq, m, a): values, and slopes along the coordinates.
    lengths : |X_j| (m,) in a metric, or None: then the columns of X are balanced.
    base : (nq, n) the frame of the whole tangent space at the point.
    base_lengths : (n,) the lengths of its fields, or None.
    """
    u = np.asarray(balance(jnp.asarray(X[0]))[1]) if lengths is None else lengths
    if base_lengths is not None:  # a computed basis has round-off where a coordinate does not move
        possible = np.max(np.abs(base) / base_lengths, axis=1)
        X = np.concatenate([np.where(np.abs(X[:1]) <= _NOTHING * np.outer(possible, u), 0.0, X[:1]), X[1:]])
    reach = np.max(np.abs(X[0]) / u, axis=1)  # of every coordinate, per length moved
    slopes, turning = _slopes(X, S, Y, u, reach)
    rates = slopes * reach
    largest = max(float(np.max(rates, initial=0.0)), turning)
    slopes = np.where(rates > _NOTHING * largest, slopes, 0.0)
    c = np.where(slopes > 0.0, 1.0 / np.where(slopes > 0.0, slopes, 1.0), np.nan)
    length = 1.0 / largest if largest > 0.0 else 1.0
    fields = _field_units(X[0], S[0], u, reach, c, length)
    by_fields = np.max(np.abs(X[0]) * fields, axis=1)
    if base_lengths is None:
        by_base = np.ones(len(c))
    else:
        by_base = length * np.max(np.abs(base) / base_lengths, axis=1)
    by_base = np.where(by_base > 0.0, by_base, 1.0)
    c = np.where(np.isnan(c), np.where(by_fields > 0.0, by_fields, by_base), c)
    return Units(c, fields, _input_units(Y[0], fields))


def balanced_units(X: Array, S: Array, Y: Array) -> Units:
    """The units in which components and slopes of X, S and Y, as in `units_near`, are nearest to one.

    Zeros are left out, so that round-off must be zero.
    """
    nq, m, a = X.shape[1], X.shape[2], Y.shape[2]
    count = nq + m + a
    rows, right = [], []
    for array, places in ((X, "ci lj"), (S, "li lj lk"), (Y, "li bj")):
        for index in np.argwhere(array != 0.0):
            slope, *where = (int(i) for i in index)
            row = np.zeros(count)
            for number, (place, i) in enumerate(zip(places.split(), where, strict=True)):
                start = {"c": 0, "l": nq, "b": nq + m}[place[0]]
                row[start + i] += -1.0 if number == 0 else 1.0
            if slope:
                row[slope - 1] += 1.0
            rows.append(row)
            right.append(-np.log(abs(array[tuple(index)])))
    found = np.exp(np.linalg.lstsq(np.array(rows), np.array(right), rcond=1e-10)[0])
    fields = found[nq : nq + m]
    return Units(found[:nq], fields, _input_units(Y[0], fields))


def without_round_off(arrays: Sequence[Array]) -> Array:
    """The first array with zeros for what is round-off, as the others, disturbed by 1e-8, show."""
    value, *others = arrays
    sizes = np.max([np.abs(other - value) for other in others], axis=0) / DISTURBANCE
    return np.where(np.abs(value) > ROUND_OFF * sizes, value, 0.0)


def steps_of(frame: Array, coordinates: Array) -> Array:
    """How far to follow fields (nq, n) until a coordinate has changed by its unit, (n,)."""
    speed = np.max(np.abs(frame) / coordinates[:, None], axis=0)
    return 1.0 / np.where(speed > 0.0, speed, 1.0)


def _slopes(X: Array, S: Array, Y: Array, u: Array, reach: Array) -> tuple[Array, float]:
    """How fast frame, connection and inputs change along the coordinates (nq,), and the connection's rate."""
    moved = reach > 0.0
    frame = np.abs(X[1:])[:, moved] / (u * reach[moved, None])
    volume = u[:, None, None] / (u[:, None] * u)
    turning, bending = float(np.max(np.abs(S[0]) * volume)), np.max(np.abs(S[1:]) * volume, axis=(1, 2, 3))
    whole = max(turning, float(np.sqrt(np.max(bending * reach, initial=0.0))))
    sizes = np.max(np.abs(Y[0]) * u[:, None], axis=0)
    inputs = np.abs(Y[1:]) * u[:, None] / np.where(sizes > 0.0, sizes, 1.0)
    slopes = np.maximum(np.max(frame, axis=(1, 2), initial=0.0), np.max(inputs, axis=(1, 2), initial=0.0))
    return np.maximum(slopes, bending / whole if whole > 0.0 else 0.0), whole


def _field_units(X: Array, S: Array, u: Array, reach: Array, c: Array, length: float) -> Array:
    """The least time to move a coordinate by its unit, or to turn; that for `length` if it does neither."""
    moves = np.isfinite(c)[:, None] & (np.abs(X) > _NOTHING * reach[:, None] * u)
    speed = np.max(np.where(moves, np.abs(X) / np.where(np.isfinite(c), c, 1.0)[:, None], 0.0), axis=0)
    turning = np.max(np.abs(S) * u[:, None, None] / u, axis=(0, 2))
    rate = np.maximum(speed, np.where(turning > _NOTHING * u / length, turning, 0.0))
    return np.where(rate > 0.0, 1.0 / np.where(rate > 0.0, rate, 1.0), length / u)


def _input_units(Y: Array, fields: Array) -> Array:
    sizes = np.max(np.abs(Y) / fields[:, None], axis=0)
    return 1.0 / np.where(sizes > 0.0, sizes, 1.0)
