"""Derivatives of a black box along a frame, by finite differences with an estimate of their errors.

A function that is only a black box on NumPy arrays is differentiated along curves of the manifold,

    t -> f(retract(q, t xi)),   D_h f = [8 (f(h) - f(-h)) - (f(2 h) - f(-2 h))] / (12 h),

fourth order in h, on a ladder of steps h, 2h, 4h, ... that share their points. Round-off grows as 1/h,
truncation as h^4. The step is chosen where neighbouring rungs agree best, and their disagreement (never less
than eps |f| / h) is the noise floor of the result. The ladder is scaled by the distance in which f varies, so
that the units of components do not matter.

`function_noise` measures the noise of the black box itself from fourth differences at a tiny spacing, where
those of a smooth function vanish (J. J. More, S. M. Wild, Estimating computational noise, 2011).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from connections.evaluation.compilation import compiled
from connections.geometry.frames import FrameField

Array = NDArray[np.float64]

#: Distances from the point at which the black box is sampled, over the distance in which it varies.
OFFSETS = 2.0 ** np.arange(-13, -1)

#: Candidates for that distance, in frame components.
REACHES = 16.0 ** np.arange(-13, 9)

#: For the noise of the black box: spacing over the distance in which it varies, and number of points.
NOISE_SPACING = 1e-6
NOISE_POINTS = 9

EPS = float(np.finfo(np.float64).eps)

_VARIED = 0.1
_FINEST = 3  # rungs


@dataclass(frozen=True, eq=False)
class Derivative:
    """A directional derivative, its noise floor (largest error expected) and the step used, per entry."""

    value: Array
    noise: Array
    step: Array


def _retracted_at(frame: FrameField, q: jax.Array, steps: jax.Array) -> jax.Array:
    """Points (m, nq) at steps (m, n) from q."""
    return jax.vmap(frame.retract_at, in_axes=(None, 0))(q, steps)


class Differences(ABC):
    """Samples a black box along frame directions from one point, on the manifold.

    Parameters
    ----------
    dim : n, the number of directions.
    eps : relative round-off of the black box, such as that of float32.
    """

    def __init__(self, dim: int, eps: float = EPS) -> None:
        self.dim, self.eps = dim, eps

    @abstractmethod
    def points(self, q: Array, steps: Array) -> Array:
        """Points retract(q, steps[a]), (a, nq); steps: (a, n) in frame components."""

    def derivatives(
        self,
        function: Callable[[Array], Array],
        q: Array,
        directions: Array,
        reaches: Array | None = None,
        sizes: Array | float = 1.0,
    ) -> list[Derivative]:
        """L_xi f at q for every row xi of `directions`; fourth order.

        Parameters
        ----------
        function : black box, (nq,) -> array; a step with a value that is not finite is left out
        q : (nq,) point
        directions : (d, n) frame components
        reaches : (d,) distance along each direction in which the function varies; by `reaches` if None
        sizes : scales of the function's entries, in which its noise is about the same for all of them
        """
        if reaches is None:
            reaches = self.reaches(function, q, directions, sizes)
        offsets = np.concatenate([OFFSETS, -OFFSETS])[None, :] * reaches[:, None]
        values = self._along(function, q, directions, offsets) / sizes
        values = values.reshape(len(directions), 2, len(OFFSETS), *values.shape[2:])
        found = [
            _differentiate(forward, backward, reach, self.eps)
            for (forward, backward), reach in zip(values, reaches, strict=True)
        ]
        return [Derivative(each.value * sizes, each.noise * sizes, each.step) for each in found]

    def reaches(
        self, function: Callable[[Array], Array], q: Array, directions: Array, sizes: Array | float
    ) -> Array:
        """The distance along directions (d, n) in which a function varies, (d,); infinite if constant."""
        here = np.asarray(function(q), dtype=np.float64)
        found = []
        for direction in directions:
            changes = []
            for distance in REACHES:
                sides = self._along(function, q, direction[None], np.array([[distance, -distance]]))[0]
                change = float(np.max(np.abs(sides - here) / sizes))
                changes.append(change)
                if not change <= _VARIED * 10.0:
                    break
            found.append(_reach(np.array(changes), self.eps))
        return np.array(found)

    def noise_along(
        self, function: Callable[[Array], Array], q: Array, direction: Array, sizes: Array | float = 1.0
    ) -> float:
        """Noise (standard deviation, largest entry over `sizes`) of a black box near q, along a direction.

        The direction's length is the distance in which the function varies.
        """
        steps = _noise_grid()[:, None] * direction[None, :]
        return function_noise(np.stack([function(point) for point in self.points(q, steps)]) / sizes)

    def _along(
        self, function: Callable[[Array], Array], q: Array, directions: Array, distances: Array
    ) -> Array:
        """Values at distances (d, a) along directions (d, n), (d, a, ...)."""
        steps = directions[:, None, :] * distances[:, :, None]
        points = self.points(q, steps.reshape(-1, self.dim))
        values = np.stack([np.asarray(function(point), dtype=np.float64) for point in points])
        return values.reshape(*distances.shape, *values.shape[1:])


class FrameDifferences(Differences):
    """Differences along a frame of this library, whose retraction is compiled once per object.

    Parameters
    ----------
    frame : FrameField
    eps : as for `Differences`.
    """

    def __init__(self, frame: FrameField, eps: float = EPS) -> None:
        super().__init__(frame.dim, eps)
        self._retract = compiled(_retracted_at, frame)

    def points(self, q: Array, steps: Array) -> Array:
        """Points retract(q, steps[a]), (a, nq); steps: (a, n) in frame components."""
        return np.asarray(self._retract(q, steps))


def function_noise(values: Array) -> float:
    """Noise of a function: rms fourth difference / sqrt(70) of values (k >= 5, ...) at tiny spacing."""
    differences = np.diff(values, n=4, axis=0)
    return float(np.sqrt(np.max(np.mean(differences**2, axis=0)) / 70.0))


def _noise_grid() -> Array:
    """Equally spaced parameters around zero."""
    return NOISE_SPACING * (np.arange(NOISE_POINTS, dtype=np.float64) - NOISE_POINTS // 2)


def _reach(changes: Array, eps: float) -> float:
    """Twice the first distance at which the change is a tenth of the largest, above noise; or infinity."""
    finite = changes[np.isfinite(changes)]
    noise = max(float(np.max(finite[:2], initial=0.0)), 4.0 * eps)
    varied = max(_VARIED * min(float(np.max(finite, initial=0.0)), 1.0), 30.0 * noise)
    beyond = np.flatnonzero(~(changes <= varied))
    return float(2.0 * REACHES[beyond[0]]) if beyond.size else np.inf


def _differentiate(forward: Array, backward: Array, reach: float, eps: float) -> Derivative:
    """The derivative of every entry, with the step at which neighbouring steps agree best."""
    odd = (forward - backward).reshape(len(OFFSETS), -1)
    step = (reach * OFFSETS[:-1])[:, None]
    with np.errstate(invalid="ignore", over="ignore"):
        ladder = (8.0 * odd[:-1] - odd[1:]) / (12.0 * step)
        disagreement = np.abs(ladder[:-1] - ladder[1:])
        step = step[:-1]
        sizes = np.max(np.abs(forward[:-2]).reshape(len(step), -1), axis=1, keepdims=True)
        noise = disagreement + 2.0 * np.maximum(eps * sizes, _ladder_noise(disagreement, step)) / step
    noise = np.where(np.isfinite(noise), noise, np.inf)
    floors = np.stack([_confirmed(ladder, noise, rung) for rung in range(len(noise))])
    best = np.argmin(floors, axis=0)[None]
    value, floor = (np.take_along_axis(a, best, 0).reshape(forward.shape[1:]) for a in (ladder, floors))
    return Derivative(value, floor, step[best[0], 0].reshape(forward.shape[1:]))


def _ladder_noise(disagreement: Any, step: Any) -> float:
    """The noise of the function itself, worst entry, from the finest rungs: they have no truncation."""
    finest = (disagreement * step)[:_FINEST]
    return float(np.max(np.where(np.isfinite(finest), finest, 0.0)))


def _confirmed(ladder: Array, noise: Array, rung: int) -> Array:
    """Noise of a rung, raised where a finer rung contradicts it beyond its own noise.

    Coarse rungs can agree with each other by aliasing; finer ones then do not. The noise of a finer rung is
    estimated from three neighbours, because one disagreement may be small by chance; noise grows as 1/h.
    """
    floor: Array = noise[rung]
    for finer in range(rung):
        window = noise[finer : finer + 3]
        own = np.max(window * (2.0 ** np.arange(len(window)))[:, None], axis=0)
        with np.errstate(invalid="ignore"):
            floor = np.fmax(floor, np.abs(ladder[rung] - ladder[finer]) - 3.0 * own)
    return floor
