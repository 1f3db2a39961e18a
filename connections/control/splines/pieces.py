"""A curve in pieces: polynomials of degree five in the ambient coordinates, projected on the manifold.

With x = (time - t_k) / h in [0, 1], Q and D the points and rates at the ends of piece k,

    P = Hermite(x; Q_k, h D_k, Q_{k+1}, h D_{k+1}) + x^2 (1 - x)^2 (B_0 + (2 x - 1) B_1),    q = project(P).

Neighbouring pieces have the same point and rate where they meet. The cost is computed by Gauss's rule with
four points on each piece. Its stationary values then have an error of O(h^8), and so have points, rates and
costates where pieces meet; between them the error of accelerations is O(h^4).
Source: [DD], for the order where pieces meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from connections.control.splines.integrand import Effort, instant_at, model_at, node_at
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import PytreePartial

PARTS = 6  # Q_k, D_k, Q_{k+1}, D_{k+1}, B_0, B_1
GAUSS, WEIGHTS = (
    (np.polynomial.legendre.leggauss(4)[0] + 1.0) / 2.0,
    np.polynomial.legendre.leggauss(4)[1] / 2.0,
)
_TOGETHER = 32  # instants in one call of a compiled function, whatever their number
#: Coefficients (6, 6) of the polynomials of the six parts, a row each, the constant first.
_POLYNOMIALS = np.array(
    [
        [1, 0, -3, 2, 0, 0],
        [0, 1, -2, 1, 0, 0],
        [0, 0, 3, -2, 0, 0],
        [0, 0, -1, 1, 0, 0],
        [0, 0, 1, -2, 1, 0],
        [0, 0, -1, 4, -5, 2],
    ],
    dtype=float,
)
_RATES = np.diag(np.arange(1.0, 6.0), -1)
_DERIVATIVES = (_POLYNOMIALS, _POLYNOMIALS @ _RATES, _POLYNOMIALS @ _RATES @ _RATES)


@dataclass(frozen=True)
class Pieces:
    """A curve in N pieces.

    Parameters
    ----------
    times : (N + 1,) where pieces meet, increasing.
    q, rate : (N + 1, nq) points and their rates there, on the manifold and tangent to it.
    X : (N + 1, nq, n) the frame there.
    bumps : (N, 2, nq) B_0 and B_1.
    held : (N + 1, 2) whether the point, and whether the velocity, is given.
    """

    times: np.ndarray
    q: np.ndarray
    rate: np.ndarray
    X: np.ndarray
    bumps: np.ndarray
    held: np.ndarray

    @classmethod
    def through(
        cls,
        effort: Effort,
        times: np.ndarray,
        q: np.ndarray,
        rate: np.ndarray,
        bumps: np.ndarray,
        held: np.ndarray,
    ) -> Pieces:
        """The curve whose parts are projected on the manifold, and on its tangent spaces."""
        q, rate, X, bumps = in_calls(node_at, effort, q, rate, np.concatenate([bumps, bumps[-1:]]))
        return cls(times, q, rate, X, bumps[:-1], held)

    @property
    def lengths(self) -> np.ndarray:
        """h of each piece, (N,)."""
        return np.diff(self.times)

    def moved(self, effort: Effort, z: np.ndarray) -> Pieces:
        """The curve after a change z (N + 1, 4, n) of points, velocities and bumps of each place.

        The bumps of the last place are not there.
        """
        change = np.einsum("kan,kpn->kpa", self.X, z)
        bumps = self.bumps + change[:-1, 2:]
        return Pieces.through(
            effort, self.times, self.q + change[:, 0], self.rate + change[:, 1], bumps, self.held
        )

    def halved(self, effort: Effort) -> Pieces:
        """The curve in 2 N pieces, in coordinates without constraints.

        On a manifold, bumps become tangent vectors at the new points, which moves the curve by O(h^5).
        """
        x, h = np.array([1.0 / 6.0, 1.0 / 3.0, 0.5, 2.0 / 3.0, 5.0 / 6.0]), self.lengths
        jets = self.jets(x)
        q, rate = (_between(end, jets[:, 2, m]) for m, end in enumerate((self.q, self.rate)))
        times = _between(self.times, self.times[:-1] + h / 2.0)
        held = _between(self.held, np.zeros((len(h), 2), dtype=bool))
        plain = Pieces.through(effort, times, q, rate, np.zeros((2 * len(h), 2, q.shape[1])), held)
        inside = jets[:, [0, 1, 3, 4], 0].reshape(2 * len(h), 2, -1)  # at thirds of the halves
        first, second = (
            np.moveaxis(inside - plain.jets(np.array([1.0, 2.0]) / 3.0)[:, :, 0], 1, 0) * 81.0 / 4.0
        )
        bumps = np.stack([(first + second) / 2.0, 1.5 * (second - first)], axis=1)
        return Pieces.through(effort, times, plain.q, plain.rate, bumps, held)

    def jets(self, x: np.ndarray) -> np.ndarray:
        """P, Pdot and Pddot at x (m,) of every piece, (N, m, 3, nq)."""
        jets: np.ndarray = np.einsum("kmrp,kpa->kmra", basis(x, self.lengths[:, None]), self._parts())
        return jets

    def instants(self, effort: Effort, times: np.ndarray) -> tuple[np.ndarray, ...]:
        """q (m, nq), v, vdot and tau (m, n) at times (m,) within the curve's."""
        return in_calls(instant_at, effort, times, self._jets_at(times))

    def points(self, effort: Effort, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q (m, nq) and its rate (m, nq) at times (m,)."""
        jets = self._jets_at(times)
        q, rate, *_ = in_calls(
            node_at, effort, jets[:, 0], jets[:, 1], np.zeros((len(times), 2, jets.shape[-1]))
        )
        return q, rate

    def gauss_times(self) -> tuple[np.ndarray, np.ndarray]:
        """Gauss's points of all pieces and their weights, (4 N,)."""
        h = self.lengths[:, None]
        return (self.times[:-1, None] + h * GAUSS).ravel(), (h * WEIGHTS).ravel()

    def _jets_at(self, times: np.ndarray) -> np.ndarray:
        """P, Pdot and Pddot at times (m,), (m, 3, nq)."""
        k = np.clip(np.searchsorted(self.times, times, side="right") - 1, 0, len(self.times) - 2)
        h = self.lengths[k]
        x = np.clip((times - self.times[k]) / h, 0.0, 1.0)
        jets: np.ndarray = np.einsum("mrp,mpa->mra", basis(x, h), self._parts()[k])
        return jets

    def model(self, effort: Effort) -> tuple[np.ndarray, ...]:
        """Cost (N,) of pieces, slope (N, 6, nq), Hessian and reference (N, 6, nq, 6, nq), int |v|^2."""
        h, weights = self.lengths, basis(GAUSS, self.lengths[:, None])
        times = self.times[:-1, None] + h[:, None] * GAUSS
        jets = self.jets(GAUSS)
        found = in_calls(model_at, effort, times.ravel(), jets.reshape(-1, *jets.shape[2:]))
        value, slope, hessian, reference, square = (x.reshape(*times.shape, *x.shape[1:]) for x in found)
        w = h[:, None] * WEIGHTS
        twice = (
            np.einsum("km,kmrp,kmraqb,kmqs->kpasb", w, weights, x, weights, optimize=True)
            for x in (hessian, reference)
        )
        by_parts = np.einsum("km,kmrp,kmra->kpa", w, weights, slope)
        return np.sum(w * value, axis=1), by_parts, *twice, np.sum(w * square)

    def _parts(self) -> np.ndarray:
        """Q_k, D_k, Q_{k+1}, D_{k+1}, B_0, B_1 of each piece, (N, 6, nq)."""
        ends = (self.q[:-1], self.rate[:-1], self.q[1:], self.rate[1:])
        return np.concatenate([np.stack(ends, axis=1), self.bumps], axis=1)


def basis(x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The factors of the six parts in P, Pdot and Pddot at x of pieces that last h, (..., 3, 6)."""
    x, h = np.broadcast_arrays(x, h)
    values = np.stack([x[..., None] ** np.arange(6) @ C.T for C in _DERIVATIVES], axis=-2)
    values[..., (1, 3)] *= h[..., None, None]  # the parts that are rates
    values *= h[..., None, None] ** -np.arange(3.0)[:, None]
    return values


def in_calls(
    definition: Any, effort: Effort, *arrays: np.ndarray, others: tuple[Any, ...] = ()
) -> tuple[np.ndarray, ...]:
    """The values of a definition at one instant for rows of arrays, in calls of one size.

    Parameters
    ----------
    definition : (effort, *others, *one row of each array) -> arrays.
    """
    function = compiled(_rows, PytreePartial(definition, effort, *others))
    count = len(arrays[0])
    room = -count % _TOGETHER
    padded = [np.concatenate([array, np.repeat(array[-1:], room, axis=0)]) for array in arrays]
    found = [
        function(*(array[k : k + _TOGETHER] for array in padded)) for k in range(0, count + room, _TOGETHER)
    ]
    return tuple(
        np.concatenate([np.asarray(part) for part in parts])[:count] for parts in zip(*found, strict=True)
    )


# --- private -----------------------------------------------------------------------------------------------


def _rows(definition: Any, *rows: jax.Array) -> Any:
    return jax.vmap(definition)(*rows)


def _between(ends: np.ndarray, middles: np.ndarray) -> np.ndarray:
    """Ends (N + 1, ...) and between them middles (N, ...), (2 N + 1, ...)."""
    joined = np.empty((len(ends) + len(middles), *ends.shape[1:]), dtype=ends.dtype)
    joined[::2], joined[1::2] = ends, middles
    return joined
