"""Sensors: what is measured of a state, with which noise, and on which manifold.

A component that is known modulo a period T has the residual r - T round(r / T), with r = y - h, or y on its
manifold moved by whole periods to the representative next to h; its derivative is that of r. Whole periods
are taken off y first, which is exact: y - h would be rounded at each iterate. What is left is off by up to
4 eps |y| (`ROUNDED`), and refused if this is more than half a period, or than the deviation of y.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike, solve
from connections._words import alternatives
from connections.affine import AffineConnection
from connections.checks import (
    PointError,
    ShapeError,
    as_array,
    as_result,
    is_traced,
    require_bool,
    require_finite,
    require_function,
    require_indices,
    require_shape,
    require_type,
    takes,
    wrong_arguments,
)
from connections.estimation.describing import line_of_sensor
from connections.estimation.displacements import FEW, displacements_of, larger, too_coarse
from connections.estimation.estimate import ASYMMETRY, require_covariance
from connections.evaluation.parameters import Parametrized, with_parameters
from connections.geometry.coordinate_frame import ROUNDED, as_period
from connections.geometry.group_maps import require_group

_ROUND_OFF = 1e-9  # of the difference of two values of h
_PARTS, _QUADRATURE = 64, 1e-3  # of the integral of a derivative over a turn, and its error
#: The arguments of h by their number: with a velocity or not, with inputs or not.
_FORMS = {1: "h(q)", 2: "h(q, v)", 3: "h(q, u, t)", 4: "h(q, v, u, t)"}


class Residual(NamedTuple):
    """r, H and N with zeros for what is missing, and one for its variance; and what is there."""

    r: jax.Array
    H: jax.Array
    N: jax.Array
    present: jax.Array
    off: jax.Array | None = None
    """How far r may be off in standard deviations, and N relative to itself; None in closed form."""


@dataclass(frozen=True, eq=False, repr=False)
class Sensor(Parametrized):
    """y = h(q) + noise, or y = exp_h(q)(noise) on a manifold; noise ~ N(0, N).

    Parameters
    ----------
    h : q (nq,) -> y (m,), or (q, u, t) -> y with the filter's input u and the time t, s; of a mechanical
        system (q, v) -> y, or (q, v, u, t) -> y. JAX-traceable. With a connection y is a point.
    N : (m, m) covariance, or y -> N; on a manifold in components of the frame. What a function returns is
        judged as a constant is, at the first prediction of y.
    connection : of the manifold of y; None for numbers. A group's frame stands for its torsion-free
        `CartanSchoutenConnection`, a `SphereFrame` for that of the round metric.
    reported : whether N is in the frame at the measured point, as of a sensor that reports its own
        covariance; if not, at h(q). The first is moved to h(q) by the inverse of D exp.
    turns : the components of y that are known modulo a full turn, 2 pi: indices, such as (2,), or periods by
        index, such as {2: 360.0}. The residual of such a component is within half of its period. None, of a
        connection: the angles of its frame, and of the robot whose frame it is. (): none, for sensors that
        count turns.
    parameters : optional, the last argument of h (`ParametricFunction`). Sensors that differ in these numbers
        and in N alone share compiled functions.

    Raises
    ------
    ValueError : N is not symmetric positive definite, or a period is not positive. TypeError, ShapeError,
        NonFiniteError.

    Examples
    --------
    A camera that sees the direction of a star in body axes.

    >>> import numpy as np
    >>> from connections import estimation
    >>> from connections.geometry.rigid.rotations import rotation_matrix
    >>> star = np.array([0.0, 0.0, 1.0])
    >>> camera = estimation.Sensor(lambda q: rotation_matrix(q).T @ star, 0.01**2 * np.eye(3))
    >>> camera.N.shape
    (3, 3)

    Source: docs/filters.md.
    """

    h: Any
    N: Any
    connection: Any = None
    reported: bool = False
    turns: Any = None
    parameters: InitVar[Any] = None

    def __post_init__(self, parameters: Any) -> None:
        if not callable(self.h):
            require_function("h", self.h, "q -> y")
        object.__setattr__(self, "h", with_parameters(self.h, parameters))
        _require_numbers("parameters", parameters)
        if not self._counts:
            raise _wrong_arguments(self.h, _FORMS)
        object.__setattr__(self, "turns", _periods(self.turns))
        require_bool("reported", self.reported)
        if self.connection is not None:
            object.__setattr__(self, "connection", as_connection("connection", self.connection))
        elif self.reported:
            raise ValueError("reported: numbers have one frame; give the connection of their manifold")
        if callable(self.N):
            require_function("N", self.N, "y -> N (m, m)")
            return
        N = as_array("N", self.N, (None, None))
        require_finite("N", N)
        if N.shape[-1] != N.shape[-2]:
            raise ShapeError("N", ("m", "m"), N.shape)
        if not is_traced(N):
            require_covariance("N", np.asarray(N))
        object.__setattr__(self, "N", N)

    def __repr__(self) -> str:
        return line_of_sensor(self)

    def residual_at(self, predicted: jax.Array, slope: jax.Array, y: jax.Array, steps: Any = FEW) -> Residual:
        """The residual of y beside the prediction h, its covariance, and its derivative by errors, (., k).

        Numbers that are NaN are missing; a point with any NaN is missing. `steps` are those of a geodesic.
        """
        missing, off, coarse = jnp.isnan(y), None, jnp.zeros_like(y)  # how far off angles may be
        for index, period in (self.turns or {}).items():
            if index >= len(y):
                raise ValueError(f"turns: y has {len(y)} components, and none of index {index}")
            own = predicted[index]
            known = jnp.where(missing[index], 0.0, y[index])
            far = jnp.where(missing[index], 0.0, jax.lax.rem(known, period * jnp.ones_like(known)) - own)
            rounded = ROUNDED * jnp.maximum(jnp.abs(known), jnp.abs(own))
            coarse = coarse.at[index].set(jnp.where(rounded > 0.5 * period, jnp.inf, rounded))
            y = y.at[index].set(own + (far - period * jnp.round(far / period)))
        if self.connection is None:
            present, H = ~missing, slope
            N = self._noise_at(predicted, len(y))
            r = jnp.where(present, jnp.where(missing, 0.0, y) - predicted, 0.0)
            r = jnp.where(present & (coarse > jnp.sqrt(jnp.diagonal(N))), jnp.nan, r)
        else:
            n, frame = self.connection.frame.dim, self.connection.frame
            there = ~jnp.any(missing)
            present = jnp.full((n,), there)
            end = frame.project_at(jnp.where(there, y, jax.lax.stop_gradient(predicted)))
            moving = displacements_of(self.connection, steps)
            r, gap = moving.difference_with_gap_at(predicted, end)
            r, H = (
                jnp.where(there, jnp.where(jnp.any(jnp.isinf(coarse)), jnp.nan, r), 0.0),
                frame.dual_at(predicted) @ slope,
            )
            N = self._noise_at(end if self.reported else predicted, n)
            off = too_coarse(gap, N)
            if self.reported:
                _, D, gap = moving.moved_at(predicted, r)
                reported, N = N, solve(D, solve(D, N).T)
                off = larger(off, too_coarse(gap, reported, N @ D.T))
            off = None if off is None else jnp.where(there, off, 0.0)
        both = present[:, None] & present[None, :]
        N = jnp.where(both, N, 0.0) + jnp.diag(jnp.where(present, 0.0, 1.0))
        return Residual(r, jnp.where(present[:, None], H, 0.0), N, present, off)

    def value_at(self, *state: Any) -> jax.Array:
        """h of the state, (m,); JAX-traceable."""
        return as_result("h(q)", self.h(*state))

    def require_noise(self, where: str, state: tuple[Any, ...], y: Any) -> None:
        """Raise the error that says why N, a function, returns no covariance for this measurement."""
        predicted, missing = self.value_at(*state), np.isnan(y)
        if not callable(self.N) or not np.isfinite(predicted).all():
            return
        at = self.connection.frame.project_at(jnp.asarray(y)) if self.reported else predicted
        N = np.asarray(self.N(at))
        if self.connection is None:
            N = np.where(missing[:, None] | missing, np.eye(len(missing)), N)
        require_finite(f"{where}: N", N)
        require_covariance(f"{where}: N", N)

    def takes_inputs(self, velocities: int) -> bool:
        """Whether h takes u and t, too.

        Parameters
        ----------
        velocities : 1 if the filter's state is (q, v), 0 if it is q.

        Raises
        ------
        TypeError : h takes other arguments than those of this state.
        """
        plain, with_input = 1 + velocities, 3 + velocities
        if not self._counts & {plain, with_input}:
            raise _wrong_arguments(self.h, (plain, with_input))
        return plain not in self._counts

    def seen_with(self, u: ArrayLike, t: Any) -> Sensor:
        """The sensor with h as a function of the state alone, for use while JAX traces."""
        seen, h = copy.copy(self), self.h
        seen.__dict__["h"] = lambda *state: h(*state, u, t)
        return seen

    def with_angles(self, angles: tuple[int, ...]) -> Sensor:
        """The sensor whose y has these coordinates modulo a full turn, unless the user said which have."""
        if self.turns is not None or self.connection is None or not angles:
            return self
        seen = copy.copy(self)
        seen.__dict__["turns"] = _periods(angles)
        return seen

    @property
    def has_fixed_noise(self) -> bool:
        """Whether the noise of a measurement is the same at all predictions of it."""
        return not callable(self.N) and not self.reported

    @property
    def is_fixed(self) -> bool:
        """Whether the iteration minimizes a sum of squares: of numbers, with constant noise."""
        return self.connection is None and self.has_fixed_noise

    @cached_property
    def _counts(self) -> frozenset[int]:
        """The numbers of arguments, beside its parameters, with which h can be called."""
        return frozenset(count for count in _FORMS if takes(self.h, count))

    def _noise_at(self, y: jax.Array, m: int) -> jax.Array:
        """N, with NaN where what a function returns is not symmetric, or has no positive variance."""
        N = require_shape("N", self.N(y) if callable(self.N) else self.N, (m, m))
        if not callable(self.N):
            return N
        variances = jnp.diagonal(N)
        sizes = jnp.sqrt(jnp.where(variances > 0.0, variances, jnp.nan))
        return jnp.where(jnp.abs(N - N.T) <= ASYMMETRY * sizes[:, None] * sizes, N, jnp.nan)


def require_angles(sensor: Sensor, name: str, y: np.ndarray) -> None:
    """Raise `PointError` for an angle of y (m,), NaN if missing, with less digits than the sensor has."""
    sharp = sensor.is_fixed and not is_traced(sensor.N)
    for index, period in (sensor.turns or {}).items():
        if index >= len(y) or is_traced(period):
            continue
        deviation = float(np.sqrt(np.asarray(sensor.N)[index, index])) if sharp else np.inf
        if ROUNDED * abs(y[index]) > min(0.5 * period, deviation):
            gap, known = np.spacing(abs(float(y[index]))), f", known to {deviation:.3g}" if sharp else ""
            what = f"{name}[{index}] = {y[index]:.6g} has no digits of an angle{known}: next to it floats are"
            raise PointError(f"{what} {gap:.3g} apart, of a period of {period:.6g}")


def turned_at(h: Any, state: tuple[Any, ...], angles: tuple[int, ...]) -> tuple[jax.Array, ...]:
    """h (m,), its changes by a full turn of each angle of the state, and integrals of its derivative.

    The last two are (angles, m). JAX-traceable.
    """
    q, *v = state
    own = h(q, *v)
    axes = jnp.zeros((len(angles), len(q))).at[jnp.arange(len(angles)), jnp.asarray(angles)].set(1.0)
    parts = 2.0 * np.pi * jnp.arange(_PARTS) / _PARTS

    def mean(axis: jax.Array) -> jax.Array:
        slopes: Any = jax.vmap(lambda p: jax.jvp(lambda p: h(p, *v), (p,), (axis,))[1])
        return jnp.mean(slopes(q + parts[:, None] * axis), axis=0)

    steps = jax.vmap(lambda axis: h(q + 2.0 * np.pi * axis, *v) - own)(axes)
    return own, steps, 2.0 * np.pi * jax.vmap(mean)(axes)


def turns_of(own: np.ndarray, steps: np.ndarray, integrals: np.ndarray) -> np.ndarray:
    """The full turn, 2 pi or 360, of each component of h (m,) that is an angle; infinite of all others.

    A full turn of an angle of the state leads back to the same place. A component that it changes by a full
    turn is an angle whose turns are counted. One that changes by a full turn less, or more, than the integral
    of its derivative is an angle that is cut somewhere, as between -pi and pi.

    Parameters
    ----------
    own, steps, integrals : as of `turned_at`.
    """
    turns = np.full(own.shape, np.inf)
    for step, integral in zip(steps, integrals, strict=True):
        cut = np.abs(integral - step)
        for turn in (2.0 * np.pi, 360.0):
            counts = np.abs(np.abs(step) - turn) <= _ROUND_OFF * (turn + np.abs(own))
            turns[counts | (np.abs(cut - turn) <= _QUADRATURE * turn)] = turn
    return turns


def _wrong_arguments(h: Any, forms: Iterable[int]) -> TypeError:
    return wrong_arguments("h", h, alternatives([_FORMS[count] for count in forms]))


def _require_numbers(name: str, parameters: Any) -> None:
    """Raise `NonFiniteError` for NaN; infinite is a limit, perhaps, that there is none."""
    for leaf in jax.tree_util.tree_leaves(parameters):
        is_float = not is_traced(leaf) and np.issubdtype(np.asarray(leaf).dtype, np.inexact)
        if is_float and np.isnan(leaf).any():
            require_finite(name, np.where(np.isinf(leaf), 0.0, leaf))


def _periods(turns: Any) -> Any:
    """Periods by index, or None; or the error that says why these are none."""
    if turns is None:
        return None
    given = turns if isinstance(turns, Mapping) else dict.fromkeys(_once(turns), 2.0 * np.pi)
    indices = require_indices("turns", list(given))
    if any(index < 0 for index in indices):
        raise ValueError(f"turns: expected indices of components of y, from 0 on, got {indices}")
    periods = {}
    for index, period in zip(indices, given.values(), strict=True):
        periods[index] = period if is_traced(period) else as_period(f"turns[{index}]", period)
    return periods


def _once(turns: Any) -> tuple[int, ...]:
    indices = require_indices("turns", turns)
    if len(set(indices)) < len(indices):
        twice = next(index for index in indices if indices.count(index) > 1)
        raise ValueError(f"turns: index {twice} is given twice")
    return indices


def as_connection(name: str, given: Any) -> AffineConnection:
    """A connection, or that without torsion of a group's frame, or that of the sphere's metric."""
    from connections.affine import CartanSchoutenConnection, LeviCivita, ProductConnection
    from connections.geometry import FrameField, ProductFrame, SphereFrame
    from connections.geometry.sphere import RoundMetric

    if isinstance(given, SphereFrame):
        return LeviCivita(RoundMetric(given))
    if isinstance(given, ProductFrame) and _has_sphere(given):
        return ProductConnection(*(as_connection(name, factor) for factor in given.frames))
    if isinstance(given, FrameField):
        require_group(name, given)
        return CartanSchoutenConnection(given)
    require_type(name, given, AffineConnection)
    connection: AffineConnection = given
    return connection


def _has_sphere(frame: Any) -> bool:
    from connections.geometry import ProductFrame, SphereFrame

    if isinstance(frame, ProductFrame):
        return any(_has_sphere(factor) for factor in frame.frames)
    return isinstance(frame, SphereFrame)
