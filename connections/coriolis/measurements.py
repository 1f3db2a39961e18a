"""Measurements of one Coriolis matrix at one sample: residual, scale and noise floor of every property.

Black boxes are validated here, differentiated by `FrameDifferences`, and compared with the generalized
Christoffel symbols ([W] (8)), with Hamel's equations ([W] (6)) and with Hdot = C + C^T ([W] (3)).
`connections.coriolis.audit` turns the measurements of many samples into verdicts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connections.checks import MetricError, NonFiniteError, ShapeError, raise_at
from connections.coriolis.differences import NOISE_POINTS, NOISE_SPACING, FrameDifferences, function_noise

Array = NDArray[np.float64]
BlackBoxCoriolis = Callable[[Array, Array], Array]
BlackBoxMatrix = Callable[[Array], Array]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class BlackBoxes:
    """The user's functions with their results validated."""

    coriolis_function: BlackBoxCoriolis
    mass_matrix_function: BlackBoxMatrix
    dim: int

    def coriolis(self, q: Array, v: Array) -> Array:
        """C(q, v), (n, n), finite."""
        C = self._matrix("C(q, v)", self.coriolis_function(q.copy(), v.copy()))
        if not np.isfinite(C).all():
            raise_at(NonFiniteError, "C(q, v) is not finite", q)
        return C

    def mass_matrix_nearby(self, q: Array) -> Array:
        """H(q), (n, n); its shape is checked, its values are for the differences to judge."""
        H = self._matrix("H(q)", self.mass_matrix_function(q.copy()))
        return 0.5 * (H + H.T)

    def mass_matrix(self, q: Array) -> Array:
        """H(q), (n, n), symmetric positive definite."""
        H = self._matrix("H(q)", self.mass_matrix_function(q.copy()))
        if not np.isfinite(H).all():
            raise_at(NonFiniteError, "H(q) is not finite", q)
        if np.max(np.abs(H - H.T)) > 1e-8 * np.max(np.abs(H)):
            hint = "; only its upper triangle is filled" if not np.tril(H, -1).any() else ""
            raise_at(MetricError, f"H(q) is not symmetric{hint}", q)
        lowest = float(np.linalg.eigvalsh(0.5 * (H + H.T))[0])
        if lowest <= 0.0:
            raise_at(MetricError, f"H(q) is not positive definite (smallest eigenvalue {lowest:.3e})", q)
        return 0.5 * (H + H.T)

    def _matrix(self, name: str, value: Any) -> Array:
        # A copy: libraries return views of a buffer that their next call overwrites.
        array = np.array(value, dtype=np.float64)
        if array.shape != (self.dim, self.dim):
            raise ShapeError(name, (self.dim, self.dim), array.shape)
        return array


@dataclass(frozen=True, eq=False)
class Measurement:
    """A residual at one sample, the largest term before cancellation, the noise floor: all absolute."""

    residual: float
    scale: float
    noise: float


@dataclass(frozen=True, eq=False)
class Sample:
    """Everything measured at one sample."""

    measurements: dict[str, Measurement]
    contorsion: Array
    derivative_noise: float


def measure(
    boxes: BlackBoxes, differences: FrameDifferences, q: Array, v: Array, s: Array, rng: np.random.Generator
) -> Sample:
    """All residuals at one sample; s: (n, n, n) structure functions."""
    n, speed = len(v), float(np.linalg.norm(v))
    H = boxes.mass_matrix(q)
    *along_frame, along_v = differences.derivatives(
        boxes.mass_matrix_nearby, q, np.concatenate([np.eye(n), v[None] / speed])
    )
    dH = np.stack([derivative.value for derivative in along_frame])
    dH_noise = max(derivative.noise for derivative in along_frame)
    H_dot, H_dot_noise = speed * along_v.value, speed * along_v.noise
    C = boxes.coriolis(q, v)
    Gamma = np.stack([boxes.coriolis(q, e) for e in np.eye(n)], axis=1)
    relative = 8.0 * n * _EPS + _coriolis_noise(boxes, differences, q, v, C, rng)
    Gamma_noise = relative * max(_size(Gamma), _size(C) / speed)
    s_low = np.einsum("kl,lij->kij", H, s)
    D = _christoffel_symbols(dH, s_low) - Gamma
    scale = max(_size(H), _size(dH), _size(s_low), _size(Gamma))
    round_off = 8.0 * n * _EPS * scale
    torsion = Gamma - np.swapaxes(Gamma, 1, 2) - s_low
    measurements = {
        "linear": _linearity(boxes, q, v, Gamma, relative, _size(H), rng),
        "bias": _bias(H, dH, H_dot, s, C, v, (dH_noise, H_dot_noise, relative)),
        "skew": Measurement(
            _size(H_dot - C - C.T),
            max(_size(H) * speed, _size(H_dot), _size(C)),
            H_dot_noise + 2.0 * relative * _size(C) + round_off * speed,
        ),
        "metric_compatible": Measurement(
            _size(D + np.swapaxes(D, 0, 2)), scale, dH_noise + 2.0 * Gamma_noise + round_off
        ),
        "same_geodesics": Measurement(
            _size(D + np.swapaxes(D, 1, 2)), scale, 3.0 * dH_noise + 2.0 * Gamma_noise + round_off
        ),
        "torsion_free": Measurement(_size(torsion), scale, 2.0 * Gamma_noise + round_off),
    }
    return Sample(measurements, D, dH_noise)


def _christoffel_symbols(dH: Array, s_low: Array) -> Array:
    """Gamma*_ijk = 1/2 (X_k H_ij + X_j H_ik - X_i H_jk + s_kij + s_jik + s_ijk), [W] (8)."""
    metric_terms = np.einsum("kij->ijk", dH) + np.einsum("jik->ijk", dH) - dH
    bracket_terms = np.einsum("kij->ijk", s_low) + np.einsum("jik->ijk", s_low) + s_low
    return 0.5 * (metric_terms + bracket_terms)


def _coriolis_noise(
    boxes: BlackBoxes, differences: FrameDifferences, q: Array, v: Array, C: Array, rng: np.random.Generator
) -> float:
    """Relative noise of the black box C, in v along v (which crosses no sign change) and in q."""
    factors = 1.0 + NOISE_SPACING * (np.arange(NOISE_POINTS) - NOISE_POINTS // 2)
    in_v = function_noise(np.stack([boxes.coriolis(q, factor * v) for factor in factors]))
    in_q = differences.noise_along(lambda point: boxes.coriolis(point, v), q, rng.standard_normal(len(v)))
    size = _size(C)
    return max(in_v, in_q) / size if size > 0.0 else 0.0


def _linearity(
    boxes: BlackBoxes,
    q: Array,
    v: Array,
    Gamma: Array,
    relative: float,
    H_size: float,
    rng: np.random.Generator,
) -> Measurement:
    """C(q, w) against Gamma_ijk w^j for w = 0, v, -v, 2 v and two random velocities; the worst of them."""
    random = rng.standard_normal((2, len(v))) * np.linalg.norm(v) / np.sqrt(len(v))
    worst = Measurement(0.0, 0.0, 0.0)
    for w in (v, np.zeros_like(v), -v, 2.0 * v, *random):
        C = boxes.coriolis(q, w)
        residual = _size(C - np.einsum("ijk,j->ik", Gamma, w))
        reach = w if w.any() else v
        terms = max(_size(np.einsum("ijk,j->ik", np.abs(Gamma), np.abs(reach))), _size(C))
        floor = H_size * float(np.linalg.norm(reach))
        candidate = Measurement(residual, max(terms, floor), relative * terms + 8.0 * _EPS * floor)
        if residual * worst.noise >= worst.residual * candidate.noise:
            worst = candidate
    return worst


def _bias(
    H: Array, dH: Array, H_dot: Array, s: Array, C: Array, v: Array, noises: tuple[float, float, float]
) -> Measurement:
    """C v against Hamel, [W] (6), at zero acceleration: Hdot v + s^k_ij (H v)_k v^j - X_i (v^T H v) / 2."""
    dH_noise, H_dot_noise, relative = noises
    bracket = np.einsum("kij,k,j->i", s, H @ v, v)
    energy = 0.5 * np.einsum("ijk,j,k->i", dH, v, v)
    residual = _size(H_dot @ v + bracket - energy - C @ v)
    reach, speed = float(np.abs(v).sum()), float(np.linalg.norm(v))
    terms = [_size(np.abs(M) @ np.abs(v)) for M in (H_dot, C)] + [_size(bracket), _size(energy)]
    scale = max(*terms, _size(H) * speed**2)
    noise = (
        H_dot_noise * reach + 0.5 * dH_noise * reach**2 + relative * terms[1] + 8.0 * len(v) * _EPS * scale
    )
    return Measurement(residual, scale, noise)


def _size(array: Array) -> float:
    return float(np.max(np.abs(array))) if np.size(array) else 0.0
