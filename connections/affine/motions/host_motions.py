"""Motions in NumPy, such as those of a robot by its recursions: JAX compiles nothing for them.

The motions of a connection or a system with a `HostMechanics` as ``host`` are computed by it. Under tracing,
JAX uses the definition instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from connections.affine.host_mechanics import Array, HostMechanics
from connections.affine.motions.units import energy_and_scale
from connections.checks import as_copy
from connections.evaluation.compilation import compiled
from connections.integration.dop853 import C
from connections.integration.steps import Attempt, numpy_attempt, plain_layout
from connections.integration.tolerances import StateLayout

Acceleration = Callable[[float, Array, Array, Array], None]  # (t, q, v, out)


class _OneKind:
    """A motion whose state has no points."""

    def layout(self, k: int) -> StateLayout:
        """A layout of k components of one kind."""
        return plain_layout(k)


class _InNumPy(_OneKind):
    """A motion whose steps are computed from its rates."""

    rate: Callable[..., None]
    scales: Callable[..., Array]

    def attempt(self, t0: float, y0: Array, given: tuple[Any, ...]) -> Attempt:
        """The steps of one motion from the time t0; the time of a step is counted from t0."""
        return numpy_attempt(
            lambda s, y, out: self.rate(t0 + s, y, out, *given), lambda s, y: self.scales(s, y, *given)
        )


class HostMotion(_InNumPy):
    """vdot = acceleration(t, q, v) in NumPy; the functions are those of `OneMotion`.

    Parameters
    ----------
    host : the manifold.
    acceleration : (t, q, v, out) writes the acceleration to out (n,), the force included.
    steps : optional, (h, y, dy/dt) -> a whole step, as `Attempt`; and the same function for rows, (6, m, k),
        NaN where a step would raise an error.
    potential : optional, q (rows, nq) -> the potential energy V (rows,) of what acts besides the connection,
        if that is all; what steps call conserved is v^T H v.
    """

    def __init__(
        self,
        host: HostMechanics,
        acceleration: Acceleration,
        steps: tuple[Callable[..., Array], Callable[..., Array]] | None = None,
        potential: Callable[[Array], Array] | None = None,
    ) -> None:
        self.host, self._acceleration, self._potential = host, acceleration, potential
        self._step: Callable[..., Array] | None = None
        self.steps: Callable[..., Array] | None = None
        if steps is not None:
            self._step, self.steps = steps

    def attempt(self, t0: float, y0: Array, given: tuple[Any, ...]) -> Attempt:
        """The steps of one motion."""
        step = self._step
        if step is None:
            return super().attempt(t0, y0, given)
        return lambda s, h, y, f: step(h, y, f)

    def start(self, q0: Array, v0: Array) -> tuple[tuple[Array, Array], Array, Array, bool]:
        """(arguments, y, origin, True) at the start of a motion (`OneMotion`); an error if q0 is invalid."""
        given, y, origin, near = self.start_rows(np.asarray(q0)[None], np.asarray(v0)[None])
        return tuple(array[0] for array in given), y[0], origin[0], bool(near[0])

    def start_rows(self, q0: Array, v0: Array) -> tuple[tuple[Array, Array], Array, Array, Any]:
        """(arguments, y, origin, True ...) at the starts of motions from q0 (m, nq) and v0 (m, n)."""
        q = self.host.point("q0", q0)
        for row in q:
            self.host.require(row)
        y, origin = np.concatenate([q, v0], axis=1), np.concatenate([q, np.zeros_like(v0)], axis=1)
        return (q, v0), y, origin, np.ones(len(q), dtype=bool)

    def rate(self, t: float, y: Array, out: Array, *given: Array) -> None:
        """Write d/dt of (q, v) to `out` (k,)."""
        q, v = self._split(y, given)
        self.host.velocity(q, v, out[: len(q)])
        self._acceleration(t, q, v, out[len(q) :])

    def terms(self, t: float, y: Array, *given: Array) -> Array:
        """Sums of the sizes of the rate without forces that are functions of time, and of the rest, (k,)."""
        (q, v), (rate, free) = self._split(y, given), np.zeros((2, len(y)))
        self.rate(t, y, rate, *given)
        self.host.velocity(q, v, free[: len(q)])
        self.host.free_acceleration(q, v, free[len(q) :])
        return np.abs(free) + np.abs(rate - free)

    def scales(self, s: float, y: Array, *given: Array) -> Array:
        """Units of the components of (q, v) (`motion_units`), and v^T H v, (2, k)."""
        q, v = self._split(y, given)
        H, found = self.host.mass_matrix(q), np.zeros((2, len(y)))
        velocity = 1.0 / np.sqrt(np.diagonal(H))
        found[0, : len(q)], found[0, len(q) :] = np.abs(self.host.frame_matrix(q)) @ velocity, velocity
        found[1, 0] = found[1, -1] = v @ H @ v
        return found

    @property
    def falls(self) -> bool:
        """Whether there is a potential."""
        return self._potential is not None

    def energies(self, states: Array, squares: Array) -> tuple[Array, Array]:
        """The energies of states (..., k) and their scales (...,); NaN where a state is.

        Parameters
        ----------
        states : (..., k).
        squares : (2, ...) v^T H v, and the largest until then.
        """
        height, good = np.full(states.shape[:-1], np.nan), np.isfinite(states).all(axis=-1)
        assert self._potential is not None
        height[good] = self._potential(self.host.normalized(states[good][:, : self.host.nq]))
        kinetic, largest = 0.5 * squares
        return kinetic + height, energy_and_scale(largest, height)[1]

    def layout(self, k: int) -> StateLayout:
        """The first components are the point."""
        return StateLayout(np.arange(k) < self.host.nq, (slice(0, k),))

    def record(self, t: float, y: Array, *given: Array) -> tuple[tuple[Array, Array], Array, Any]:
        """(q, v), q, and whether both are finite, for states (..., k)."""
        q, v = self._split(y, given)
        return (q, v), q, np.isfinite(y).all(axis=-1)

    def instants(self, y: Array, *given: Array) -> tuple[Array, Array]:
        """q (w, nq) and v (w, n) of states (w, k)."""
        return self._split(y, given)

    def _split(self, y: Array, given: tuple[Array, ...]) -> tuple[Array, Array]:
        n = given[1].shape[-1]
        return self.host.normalized(y[..., :-n]), y[..., -n:]


class HostTransport(_OneKind):
    """Pdot = -Gamma(v, .) P, P (n, n), along a curve; the functions are those of `OneMotion`.

    Parameters
    ----------
    host : the manifold.
    curve : (times (s,), *given) -> points (s, nq) and their rates (s, nq).
    n : size of P.
    """

    def __init__(self, host: HostMechanics, curve: Callable[..., tuple[Any, ...]], n: int) -> None:
        self.host, self._curve, self._n = host, curve, n

    def attempt(self, t0: float, y0: Array, given: tuple[Any, ...]) -> Attempt:
        """The steps of one transport; Gamma(v, .) is computed for all stages of a step at once."""
        host = self.host
        first = host.mass_matrix(host.along(*self._at(t0 + 0.0 * C, given))[0][0])
        lengths = np.sqrt(np.diagonal(first))

        def attempt(s: float, h: float, y: Array, f: Array) -> Array:
            q, v = host.along(*self._at(t0 + (s + C * h), given))
            found = host.linear_step(h, -host.carrying(q, v), y, f)
            H = host.mass_matrix(q[-1])
            found[4] = np.divide.outer(lengths, np.sqrt(np.diagonal(H))).T.ravel()
            P = found[0].reshape(self._n, -1)
            change = np.abs(P.T @ H @ P - first) / np.multiply.outer(lengths, lengths)
            found[5] = 1.0 + change.max()
            return found

        return attempt

    def start(self, *given: Any) -> tuple[Any, Array, Array, bool]:
        """(arguments, P = 1 flattened, origin, True) at the start (`OneMotion`)."""
        one = np.eye(self._n).ravel()
        return given, one, np.zeros_like(one), True

    def record(self, t: float, y: Array, *given: Any) -> tuple[Array, Array, bool]:
        """P, the curve's point, and whether P and the curve's velocity are finite."""
        points, rates = self._at(t + 0.0 * C, given)
        q = self.host.point("q", points[0])
        self.host.mass_matrix(q)
        return y.reshape(self._n, -1), q, bool(np.isfinite(rates[0]).all() and np.isfinite(y).all())

    def _at(self, times: Array, given: tuple[Any, ...]) -> tuple[Array, Array]:
        """Points and rates of the curve, which is compiled for as many times as a step has stages."""
        points, rates = map(np.array, self._curve(times, *given))
        return points, rates  # writable, because compiled code is typed for writable arrays


class HostReading(_InNumPy):
    """zdot + Gamma(v, z) along a curve, with the functions of `OneMotion` and no state.

    Parameters
    ----------
    host : the manifold.
    moving : (t, *given) -> q, v, whether the curve's velocity is tangent, its own point (nq,), z and zdot.
    """

    def __init__(self, host: HostMechanics, moving: Callable[[Any], tuple[Any, ...]]) -> None:
        self.host, self._moving = host, moving

    def start(self, *given: Any) -> tuple[Any, Array, Array, bool]:
        """Nothing."""
        return given, np.zeros(0), np.zeros(0), True

    def rate(self, t: float, y: Array, out: Array, *given: Any) -> None:
        """Nothing, (0,)."""

    def scales(self, s: float, y: Array, *given: Any) -> Array:
        """Nothing, (2, 0)."""
        return np.stack([y, y])

    def record(self, t: float, y: Array, *given: Any) -> tuple[Array, Array, bool]:
        """The covariant derivative (n,), the curve's point, and whether all is finite and tangent."""
        q, v, tangent, own, z, z_dot = map(np.array, self._moving(np.float64(t), *given))
        q = self.host.point("q", own)
        value = z_dot + self.host.carrying(q[None], v[None])[0] @ z
        return value, q, bool(tangent) and bool(np.isfinite(value).all())


def on_host(function: Callable[..., Any], shape: tuple[int, ...], name: str) -> Callable[..., Array]:
    """A user's function for calls with NumPy arrays: called as it is if it does not use JAX, else compiled.

    Parameters
    ----------
    function : (t, q, v) -> an array of this shape.
    shape : of its values.
    name : the function's name in errors.
    """
    through_jax: list[Callable[..., Any]] = []

    def call(*arguments: Any) -> Array:
        value = through_jax[0](*arguments) if through_jax else function(*arguments)
        if isinstance(value, jax.Array) and not through_jax:
            through_jax.append(compiled(function))
        return as_copy(name, value, shape)

    return call


def numbers_on_host(
    function: Callable[..., Any], name: str
) -> Callable[[list[float], Array, Array], list[float]]:
    """A user's function with values that are numbers, for rows of NumPy arrays, called as by `on_host`.

    Parameters
    ----------
    function : (t, q, v) -> a number.
    name : the function's name in errors.
    """
    through_jax: list[Callable[..., Any]] = []

    def one(t: Any, q: Array, v: Array) -> float:
        value = function(t, q, v)
        if isinstance(value, jax.Array) and not through_jax:
            through_jax.append(compiled(_of_rows, function))
        return float(value if isinstance(value, float) else as_copy(name, value, ()))

    def call(times: list[float], q: Array, v: Array) -> list[float]:
        if not through_jax:
            return [one(*row) for row in zip(times, q, v, strict=True)]
        rows: tuple[Array, ...] = np.array(times), q, v
        found: list[float] = np.asarray(through_jax[0](*rows)).tolist() if len(times) == 2 else []
        for at in range(len(found), len(times), 2):  # pairs, so that it is compiled for one shape
            pair = [at, min(at + 1, len(times) - 1)]
            found += np.asarray(through_jax[0](*(row[pair] for row in rows))).tolist()
        return found[: len(times)]

    return call


def _of_rows(function: Callable[..., Any], *rows: jax.Array) -> Any:
    return jax.vmap(function)(*rows)
