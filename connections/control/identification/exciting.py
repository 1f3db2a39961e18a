"""Periodic motions within limits from which inertial parameters are well determined.

    q_j(t) = c_j + s_j f_j(t),    f_j = sum_l A_jl sin(l w t) + B_jl cos(l w t),    w = 2 pi / duration,

with sum_l l A_jl = sum_l l^2 B_jl = 0, so that the motion begins and ends at rest. s_j is as large as the
limits allow: a trigonometric polynomial of degree L that is below b at T equidistant times is below
b / cos(pi L / T) everywhere. Torques are no polynomials; where they are too large, all s_j are lowered.

The search minimizes |R| |R^+|^2, R the regressor of the base parameters in units that all motions share:
|R| |R^+| = (sum_k sigma_k^2 sum_k 1 / sigma_k^2)^(1/2) is a smooth bound on the condition
sigma_1 / sigma_r, and standard errors are proportional to |R^+|. The condition alone does not ask for large
motions: with it alone, in units of each motion, a wrist hardly moved, and torques were predicted no better
than from random motions whose condition was ten times as large.
Source: Swevers, Ganseman, Tukel, De Schutter and Van Brussel 1997; Ehlich and Zeller 1964 for the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from connections._jax import ArrayLike
from connections.checks import (
    ModelError,
    ShapeError,
    as_array,
    as_number,
    require_finite,
    require_positive_int,
    require_type,
    require_untraced,
)
from connections.control.identification.base_parameters import base_of, sizes_of, triangle_of, units_of
from connections.multibody import Model, inverse_dynamics, regressor
from connections.multibody.joints import Limits
from connections.multibody.model import require_model

_DRAWN = 30  # random motions, from the best of which the search begins
_ATTEMPTS = 120  # random motions that are tried, because efforts may not hold their centre
_STEPS = 40  # iterations of the search; twice as many gain a tenth
_SAMPLES, _SEARCHED = 256, 64  # times in a period at which limits are kept: in the result, in the search
_MOST = 16  # harmonics, a quarter of the samples in the search
_FEW = 6  # samples for each harmonic, in the search
_DIFFERENCE = 1e-5
_TORQUE = 0.99  # largest share of an effort at the samples
_LITTLE = 1e-3  # least share of an effort for the motion, if the weight takes all
_COST = 10.0  # cost of an excess of the weight, for each multiple of the effort
_TRIES, _MORE = 10, 40  # tries to lower a motion until torques are within limits: in the search, at its end


@dataclass(frozen=True, eq=False, repr=False)
class ExcitingMotion:
    """The periodic motion that `exciting_motion` found, and the condition of its regressor.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> motion = control.exciting_motion(mb.example("four_bar"), mb.joints.Limits(-0.5, 0.5, velocity=2.0))
    >>> q, v, a = motion.at(np.linspace(0.0, motion.duration, 501))
    >>> q.shape, bool(np.abs(v).max() <= 2.0), np.abs(v[[0, -1]]).max().round(9)
    ((501, 1), True, np.float64(0.0))
    """

    duration: float  #: of one period, s
    center: np.ndarray  #: (nv,) c, rad and m
    sines: np.ndarray  #: (nv, L) s_j A_jl
    cosines: np.ndarray  #: (nv, L) s_j B_jl
    rank: int  #: number of base parameters
    condition: float  #: of the regressor, as `Identification.condition` measures it
    random: np.ndarray  #: (30,) or fewer, conditions of random motions within the limits, increasing

    def at(self, times: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q, v and a, (..., T, nv) each, at any times (..., T), s; the motion is periodic.

        Raises
        ------
        NonFiniteError, TypeError.
        """
        t = np.asarray(as_array("times", times, ()), dtype=np.float64)
        require_finite("times", t)
        coefficients = np.concatenate([self.sines, self.cosines], axis=1)
        q, v, a = (wave @ coefficients.T for wave in _waves(t, self.duration, self.sines.shape[1]))
        return self.center + q, v, a

    def __repr__(self) -> str:
        least, median = self.random[0], np.median(self.random)
        return (
            f"ExcitingMotion({self.duration:g} s, {self.sines.shape[1]} harmonics, condition "
            f"{self.condition:.3g} for {self.rank} base parameters; {len(self.random)} random motions within "
            f"the same limits: least {least:.3g}, median {median:.3g})"
        )


def exciting_motion(
    model: Model,
    limits: Limits | None = None,
    *,
    acceleration: ArrayLike | None = None,
    duration: float = 10.0,
    harmonics: int = 5,
    seed: int = 0,
) -> ExcitingMotion:
    """A motion q(t) within limits from which `identify` finds parameters well: small sigma_1 / sigma_r.

    It is periodic, a Fourier series for each joint, and begins and ends at rest. A search finds it, from the
    best of 30 random motions, whose conditions are in the result, too; there may be better motions. The same
    seed gives the same motion on one machine.

    Parameters
    ----------
    model : a robot on a fixed base whose joints have no quaternions. If it has closed loops, q and limits
        are those of the independent joints; limits of other joints are ignored.
    limits : `lower`, `upper` (nv,), rad and m, `velocity` (nv,), rad/s and m/s, `effort` (nv,), N m and N, or
        numbers for all; None for the model's. The effort is without friction, and by the model's inertias.
    acceleration : (nv,) largest sizes, rad/s^2 and m/s^2, or a number for all; None for no limit.
    duration : of one period, s.
    harmonics : L >= 2; the fastest wave has the frequency L / duration.
    seed : of the random motions.

    Positions, velocities and accelerations are within limits at all times, efforts at 256 times of a period.
    Collisions are not checked. For `identify`, repeat the motion, and choose the cutoff above
    L / duration.

    Raises
    ------
    ShapeError, NonFiniteError, TypeError.
    ValueError : a limit has the wrong sign or order; a joint has no limit at all, or cannot hold the robot's
        weight; the duration is not positive; the joint is named.
    ModelError : a joint has a quaternion; it is named.
    ClosureError : a loop does not close somewhere within the limits.

    Examples
    --------
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> motion = control.exciting_motion(mb.example("arm"), acceleration=10.0)
    >>> motion.rank, bool(motion.condition < motion.random[0])
    (36, True)

    Source: Swevers, Ganseman, Tukel, De Schutter and Van Brussel 1997.
    """
    require_model("exciting_motion", model)
    require_untraced(acceleration=acceleration, duration=duration)
    search = _ExcitingSearch.of(model, limits, acceleration, duration, harmonics)
    return search.found(np.random.default_rng(_seed(seed)))


# --- the search --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ExcitingSearch:
    """A search over x, (m,) = (nv, 2 L + 1): the coefficients A and B, and a measure of the centre c.

    Parameters
    ----------
    middle, half : (nv,) of the positions; half is infinite where there is no limit.
    speed, acceleration, effort : (nv,) largest sizes.
    """

    model: Model
    duration: float
    harmonics: int
    middle: np.ndarray
    half: np.ndarray
    speed: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray

    @classmethod
    def of(
        cls, model: Model, limits: Any, acceleration: Any, duration: Any, harmonics: Any
    ) -> _ExcitingSearch:
        names = _joint_of_each_velocity(model)
        limits = model.limits if limits is None else limits
        require_type("limits", limits, Limits)
        if np.isfinite(np.asarray(limits.angle, dtype=np.float64)).any():
            raise ValueError("limits: angle is of ball joints, which the robot has not; give lower and upper")
        bounds = {name: getattr(limits, name) for name in ("lower", "upper", "velocity", "effort")}
        bounds["acceleration"] = np.inf if acceleration is None else acceleration
        sizes = {name: _numbers(name, value, model.nv) for name, value in bounds.items()}
        lower, upper = sizes.pop("lower"), sizes.pop("upper")
        ordered = {"upper, which has to be above lower": upper - lower} | sizes
        for name, size in ordered.items():
            if not (size > 0.0).all():
                k = int(np.argmin(size > 0.0))
                raise ValueError(f"limits: joint '{names[k]}' cannot move: {name}: {size[k]:g}")
        half = np.where(np.isfinite(upper - lower), (upper - lower) / 2.0, np.inf)
        free = ~np.isfinite(half) & ~np.isfinite(sizes["velocity"]) & ~np.isfinite(sizes["acceleration"])
        if free.any():
            name = names[int(np.argmax(free))]
            raise ValueError(
                f"limits: joint '{name}' has neither lower and upper nor velocity nor acceleration: give one"
            )
        seconds = as_number("duration", duration)
        if not seconds > 0.0:
            raise ValueError(f"duration must be positive, got {seconds:g}")
        require_positive_int("harmonics", harmonics)
        if not 2 <= harmonics <= _MOST:
            raise ValueError(f"harmonics: expected 2 to {_MOST}, got {harmonics}")
        middle = np.where(np.isfinite(half), (lower + upper) / 2.0, 0.0)
        middle = np.where(np.isfinite(half), middle, np.clip(middle, lower, upper))
        return cls(
            model,
            seconds,
            harmonics,
            middle,
            half,
            sizes["velocity"],
            sizes["acceleration"],
            sizes["effort"],
        )

    def found(self, rng: np.random.Generator) -> ExcitingMotion:
        """The motion of least cost, by descent from the best of random motions."""
        from scipy.optimize import minimize

        drawn = self._drawn(rng)
        motions = [self._motion(x) for x in drawn]
        conditions = np.array([condition for _, _, condition, _ in motions])
        B, columns = motions[int(np.argmin(conditions))][3]
        weights = self._weights(drawn, columns, B)
        before = self._cost(drawn, columns, weights)
        start = drawn[int(np.argmin(before))]

        def cost_and_slope(x: np.ndarray) -> tuple[float, np.ndarray]:
            costs = self._cost(np.concatenate([x[None], x + _DIFFERENCE * np.eye(x.size)]), columns, weights)
            return float(costs[0]), (costs[1:] - costs[0]) / _DIFFERENCE

        options = {"maxiter": _STEPS, "maxls": 30}
        least = minimize(cost_and_slope, start, jac=True, method="L-BFGS-B", options=options).x
        center, coefficients, condition, _ = self._motion(least)
        sines, cosines = np.split(coefficients, 2, axis=1)
        rank = len(columns)
        return ExcitingMotion(self.duration, center, sines, cosines, rank, condition, np.sort(conditions))

    def _drawn(self, rng: np.random.Generator) -> np.ndarray:
        """Random x, (30 or fewer, m), with centres that the efforts can hold against the weight."""
        x = rng.standard_normal((_ATTEMPTS, self.model.nv, 2 * self.harmonics + 1))
        x[..., :-1] /= np.tile(np.arange(1, self.harmonics + 1), 2)
        x = x.reshape(_ATTEMPTS, -1)
        center, _, excess = self._within(x)
        held: np.ndarray = x[excess == 0.0][:_DRAWN]
        if not len(held):
            joint = int(np.argmax(np.min(np.abs(self._weight(center)) / self.effort, axis=0)))
            name = _joint_of_each_velocity(self.model)[joint]
            raise ValueError(
                f"limits: the effort {self.effort[joint]:g} of joint '{name}' does not hold the weight"
            )
        return held

    def _motion(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, tuple[np.ndarray, np.ndarray]]:
        """c (nv,), [s A, s B] (nv, 2 L), the condition, and (B, base columns) of `base_of`, for x (m,)."""
        center, coefficients, _ = (each[0] for each in self._within(x[None], _SAMPLES, _MORE))
        q, v, a = self._curves(center[None], coefficients[None], self._times(_SAMPLES))
        W = regressor(self.model, q[0], v[0], v[0], a[0])
        units = units_of(W)
        zero = np.zeros(len(units))
        R, _ = triangle_of(W / sizes_of(W, units)[:, None], np.zeros(W.shape[:2]), zero, units)
        B, columns, condition = base_of(R, units)
        return center, coefficients, condition, (B, columns)

    def _weights(self, drawn: np.ndarray, own: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights (nv, r) of the regressor in Z, and C (r, r), R^T R ~ C^T Z^T Z C: means over `drawn`."""
        center, coefficients, _ = self._within(drawn)
        q, v, a = self._curves(center, coefficients, self._times(_FEW * self.harmonics))
        W = regressor(self.model, q, v, v, a)
        units = np.exp(np.mean(np.log(units_of(W)), axis=0))
        sizes = np.exp(np.mean(np.log(sizes_of(W, np.broadcast_to(units, (len(W), len(units))))), axis=0))
        others = B * units / units[own, None]
        return units[own] / sizes[:, None], np.linalg.cholesky(others @ others.T)

    def _cost(self, x: np.ndarray, own: np.ndarray, weights: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """The logarithm of |R| |R^+|^2 plus `_COST` times the excess of the weight, (K,), for x (K, m)."""
        center, coefficients, excess = self._within(x)
        q, v, a = self._curves(center, coefficients, self._times(_FEW * self.harmonics))
        Z = (regressor(self.model, q, v, v, a)[..., own] * weights[0]).reshape(len(x), -1, len(own))
        squares = np.linalg.eigvalsh(weights[1].T @ (np.swapaxes(Z, 1, 2) @ Z) @ weights[1])
        squares = np.maximum(squares, 1e-14 * squares[:, -1:])
        costs = 0.5 * np.log(squares.sum(axis=1)) + np.log((1.0 / squares).sum(axis=1))
        return np.asarray(costs + _COST * excess)

    def _within(self, x: np.ndarray, samples: int = _SEARCHED, tries: int = _TRIES) -> tuple[np.ndarray, ...]:
        """c (K, nv), [s A, s B] (K, nv, 2 L), and the excess of the weight (K,), for x (K, m)."""
        L = self.harmonics
        x = x.reshape(len(x), -1, 2 * L + 1)
        waves, order = x[..., :-1].copy(), np.arange(1.0, L + 1.0)
        for part, rest in ((slice(0, L), order), (slice(L, 2 * L), order**2)):
            waves[..., part] -= (waves[..., part] @ rest)[..., None] * rest / (rest @ rest)
        bounded = np.isfinite(self.half)
        place = np.where(bounded, 0.9 * self.half, 0.0) * np.tanh(x[..., -1])
        times = self._times(samples)
        f, rate, second = (waves @ wave.T for wave in _waves(times, self.duration, L))
        least = np.cos(np.pi * L / samples)
        room = np.where(bounded, self.half, np.inf) * least
        sizes = [
            (room - place) / f.max(axis=-1),
            (room + place) / -f.min(axis=-1),
            self.speed * least / np.abs(rate).max(axis=-1),
            self.acceleration * least / np.abs(second).max(axis=-1),
        ]
        waves *= np.minimum.reduce(sizes)[..., None]
        center = self.middle + place
        excess = np.zeros(len(x))
        if np.isfinite(self.effort).any():
            share, excess = self._share(center, waves, times, tries)
            waves *= share[:, None, None]
        return center, waves, excess

    def _share(
        self, center: np.ndarray, waves: np.ndarray, times: np.ndarray, tries: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Factors of the waves that efforts allow, and relative excesses of the weight, (K,) each."""
        weight, most = self._weight(center)[:, None], _TORQUE * self.effort
        excess = np.max(np.abs(weight) / most - 1.0, axis=(1, 2))
        share = np.ones(len(center))
        for _ in range(tries):
            q, v, a = self._curves(center, waves * share[:, None, None], times)
            more = inverse_dynamics(self.model, q, v, a) - weight
            room = np.maximum(np.where(more > 0.0, most - weight, most + weight), _LITTLE * most)
            ratio = np.max(np.abs(more) / room, axis=(1, 2))
            if (ratio <= 1.0).all():
                break
            share = share / np.maximum(ratio, 1.0)
        return share, np.maximum(excess, 0.0)

    def _times(self, samples: int) -> np.ndarray:
        return np.arange(samples) / samples * self.duration

    def _weight(self, center: np.ndarray) -> np.ndarray:
        still = np.zeros_like(center)
        return np.asarray(inverse_dynamics(self.model, center, still, still))

    def _curves(
        self, center: np.ndarray, coefficients: np.ndarray, times: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """q, v and a, (K, T, nv)."""
        q, v, a = (
            np.swapaxes(coefficients @ wave.T, 1, 2) for wave in _waves(times, self.duration, self.harmonics)
        )
        return center[:, None] + q, v, a


def _waves(times: np.ndarray, duration: float, harmonics: int) -> tuple[np.ndarray, ...]:
    """The sines and cosines, their rates and second derivatives, (..., T, 2 L) each."""
    frequency = 2.0 * np.pi / duration * np.arange(1, harmonics + 1)
    angle = times[..., None] * frequency
    sine, cosine, twice = np.sin(angle), np.cos(angle), np.tile(frequency, 2)
    waves = np.concatenate([sine, cosine], axis=-1)
    return waves, np.concatenate([cosine, -sine], axis=-1) * twice, -waves * twice**2


# --- arguments ---------------------------------------------------------------------------------------------


def _joint_of_each_velocity(model: Model) -> list[str]:
    """The nv names of the velocities' joints; `ModelError` if coordinates cannot be Fourier series."""
    names: list[str] = []
    for name, element in zip(model.joint_names, model.kinematics.elements, strict=True):
        if element.joint.quaternion is not None:
            raise ModelError(
                f"joint '{name}': its coordinates are a quaternion, which cannot be a Fourier series; take "
                "the robot on a fixed base"
            )
        names += [name] * element.joint.nv
    return names


def _numbers(name: str, value: Any, size: int) -> np.ndarray:
    bounds = np.asarray(as_array(name, value, ()), dtype=np.float64)
    if bounds.shape not in ((), (size,)):
        raise ShapeError(name, (size,), bounds.shape)
    if np.isnan(bounds).any():
        raise ValueError(f"{name}: one of the limits is not a number")
    return np.array(np.broadcast_to(bounds, (size,)))


def _seed(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"seed: expected an integer that is not negative, got {value!r}")
    return value
