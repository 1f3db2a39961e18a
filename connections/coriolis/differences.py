"""Derivatives of a black box along a frame, by finite differences that know how good they are.

A function that is only a black box on NumPy arrays is differentiated along curves of the manifold,

    t -> f(retract(q, t xi)),   D_h f = [8 (f(h) - f(-h)) - (f(2 h) - f(-2 h))] / (12 h),

fourth order in h, on a ladder of steps h, 2h, 4h, ... that share their points. Round-off grows as 1/h,
truncation as h^4: the step is chosen where neighbouring rungs agree best, and their disagreement (never less
than eps |f| / h) is the noise floor of the result.

`function_noise` measures the noise of the black box itself from fourth differences at a tiny spacing, where
any smooth function has none left (J. J. More, S. M. Wild, Estimating computational noise, 2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import NDArray

from connections.geometry.frames import FrameField

Array = NDArray[np.float64]

#: Distances from the point at which the black box is sampled, in units of the frame's components.
OFFSETS = 2.0 ** np.arange(-13, -3)

#: Spacing and number of points for the noise of the black box itself.
NOISE_SPACING = 1e-6
NOISE_POINTS = 9

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Derivative:
    """A directional derivative, its noise floor (largest absolute error expected), and the step used."""

    value: Array
    noise: float
    step: float


class FrameDifferences:
    """Samples a black box along frame directions from one point, on the manifold.

    The retraction of the frame is compiled once per object.

    Parameters
    ----------
    frame : FrameField
    """

    def __init__(self, frame: FrameField) -> None:
        self.frame = frame
        self._retract = jax.jit(jax.vmap(frame.retract_at, in_axes=(None, 0)))

    def points(self, q: Array, steps: Array) -> Array:
        """Points retract(q, steps[a]), (a, nq); steps: (a, n) in frame components."""
        return np.asarray(self._retract(q, steps))

    def derivatives(
        self, function: Callable[[Array], Array], q: Array, directions: Array
    ) -> list[Derivative]:
        """L_xi f at q for every row xi of `directions`; fourth order.

        Parameters
        ----------
        function : black box, (nq,) -> array; a value that is not finite away from q only rules its step out
        q : (nq,) point
        directions : (d, n) frame components
        """
        offsets = np.concatenate([OFFSETS, -OFFSETS])
        steps = directions[:, None, :] * offsets[None, :, None]
        points = self.points(q, steps.reshape(-1, self.frame.dim))
        values = np.stack([np.asarray(function(point), dtype=np.float64) for point in points])
        values = values.reshape(len(directions), 2, len(OFFSETS), *values.shape[1:])
        return [_differentiate(forward, backward) for forward, backward in values]

    def noise_along(self, function: Callable[[Array], Array], q: Array, direction: Array) -> float:
        """Noise (standard deviation, largest entry) of a black box of q near q, along one direction."""
        steps = _noise_grid()[:, None] * direction[None, :]
        return function_noise(np.stack([function(point) for point in self.points(q, steps)]))


def function_noise(values: Array) -> float:
    """Noise of a function: rms fourth difference / sqrt(70) of values (k >= 5, ...) at tiny spacing."""
    differences = np.diff(values, n=4, axis=0)
    return float(np.sqrt(np.max(np.mean(differences**2, axis=0)) / 70.0))


def _noise_grid() -> Array:
    """Equally spaced parameters around zero."""
    return NOISE_SPACING * (np.arange(NOISE_POINTS, dtype=np.float64) - NOISE_POINTS // 2)


def _differentiate(forward: Array, backward: Array) -> Derivative:
    """The rung of the ladder on which neighbours agree best; forward, backward: (len(OFFSETS), ...)."""
    odd = (forward - backward).reshape(len(OFFSETS), -1)
    step = OFFSETS[:-1]
    with np.errstate(invalid="ignore", over="ignore"):
        ladder = (8.0 * odd[:-1] - odd[1:]) / (12.0 * step[:, None])
        size = np.max(np.abs(forward[:-1]).reshape(len(step), -1), axis=1)
        disagreement = np.max(np.abs(ladder[:-1] - ladder[1:]), axis=1)
        noise = disagreement + 2.0 * _EPS * size[:-1] / step[:-1]
    noise = np.where(np.isfinite(noise), noise, np.inf)
    best = int(np.argmin(noise))
    value = ladder[best].reshape(forward.shape[1:])
    return Derivative(value, _confirmed(ladder, noise, best), float(step[best]))


def _confirmed(ladder: Array, noise: Array, best: int) -> float:
    """Noise of the chosen rung, raised where a finer rung contradicts it beyond its own noise.

    Coarse rungs can agree with each other by aliasing; finer ones then do not. The noise of a finer rung is
    judged from three neighbours, as one disagreement may be small by chance; noise grows as 1/h.
    """
    floor = float(noise[best])
    for finer in range(best):
        if np.isfinite(noise[finer]):
            window = noise[finer : finer + 3]
            own = float(np.max(window * 2.0 ** np.arange(len(window))))
            floor = max(floor, float(np.max(np.abs(ladder[best] - ladder[finer]))) - 3.0 * own)
    return floor
