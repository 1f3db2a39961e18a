"""Measurements of one Coriolis matrix at one sample: residual, scale and noise floor of every property.

Black boxes are validated here, differentiated by `Differences`, and compared with the generalized
Christoffel symbols ([W] (8)), with Hamel's equations ([W] (6)) and with Hdot = C + C^T ([W] (3)).
`connections.coriolis.audit.audit` turns the measurements of many samples into verdicts.

Every component has its own tolerance. Row i of the equations has its own scale, the force F_i of its terms at
the sample's velocity, so that a light finger is not compared with the arm that carries it:

    F_i = max_jk |terms_ijk| w_j w_k + omega sum_j |H_ij| w_j,      omega = sum F_i w_i / sum |H_ij| w_i w_j,

w_j = |v_j|. The second part is the force that changes the velocities as fast as the terms do; it is the scale
of a row without terms. Noise of the black boxes is measured relative to the lengths |X_i| |X_k|.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from connections.checks import MetricError, NonFiniteError, as_copy, raise_at
from connections.coriolis.audit.differences import (
    EPS,
    NOISE_POINTS,
    NOISE_SPACING,
    Differences,
    function_noise,
)
from connections.geometry.metrics import asymmetry

Array = NDArray[np.float64]
BlackBoxCoriolis = Callable[[Array, Array], Array]
BlackBoxMatrix = Callable[[Array], Array]

#: A residual up to this many noise floors counts as zero.
MARGIN = 10.0
#: If MARGIN noise floors exceed this fraction of the scale, the verdict is "unknown".
LARGEST_TOLERANCE = 1e-3

_SYMMETRIC = 1e-8  # the largest |H_ij - H_ji|, relative to the lengths of X_i and X_j
_FAR = 1e6  # H counts as constant along a field if its reach takes so many times longer than the others
_MOVING = 1e-12  # a smaller component of v, relative to the speed, counts as at rest


class Dynamics(Protocol):
    """The functions that are differentiated: H and C with their results validated."""

    def mass_matrix(self, q: Array) -> Array:
        """H(q), (n, n), symmetric."""

    def mass_matrix_nearby(self, q: Array) -> Array:
        """H(q), (n, n), at a point of a finite difference; NaN outside the domain."""

    def coriolis(self, q: Array, v: Array) -> Array:
        """C(q, v), (n, n)."""


@dataclass(frozen=True)
class ValidatedBlackBoxes:
    """The user's functions with their results validated."""

    coriolis_function: BlackBoxCoriolis
    mass_matrix_function: BlackBoxMatrix
    dim: int

    def coriolis(self, q: Array, v: Array) -> Array:
        """C(q, v), (n, n), finite."""
        C = self._matrix("coriolis: C(q, v)", self.coriolis_function(q.copy(), v.copy()))
        if not np.isfinite(C).all():
            raise_at(NonFiniteError, "C(q, v) is not finite", q)
        return C

    def mass_matrix_nearby(self, q: Array) -> Array:
        """H(q), (n, n), not validated: the differences handle bad values; NaN if it raises an error."""
        try:
            H = self._matrix("mass_matrix: H(q)", self.mass_matrix_function(q.copy()))
        except (ValueError, ArithmeticError, RuntimeError):  # for example, a loop does not close so far away
            return np.full((self.dim, self.dim), np.nan)
        return 0.5 * (H + H.T)

    def mass_matrix(self, q: Array) -> Array:
        """H(q), (n, n), symmetric positive definite."""
        H = self._matrix("mass_matrix: H(q)", self.mass_matrix_function(q.copy()))
        if not np.isfinite(H).all():
            raise_at(NonFiniteError, "H(q) is not finite", q)
        if not asymmetry(jnp.asarray(H)) <= _SYMMETRIC:
            hint = "; only its upper triangle is filled" if not np.tril(H, -1).any() else ""
            raise_at(MetricError, f"H(q) is not symmetric{hint}", q)
        symmetric = 0.5 * (H + H.T)
        if not np.isfinite(np.asarray(jnp.linalg.cholesky(symmetric))).all():
            lowest = float(np.linalg.eigvalsh(symmetric)[0])
            raise_at(MetricError, f"H(q) is not positive definite (smallest eigenvalue {lowest:.3e})", q)
        return symmetric

    def _matrix(self, name: str, value: Any) -> Array:
        return as_copy(name, value, (self.dim, self.dim))


@dataclass(frozen=True, eq=False)
class Measurement:
    """The worst component at one sample: its residual, scale and noise floor, all absolute."""

    residual: float
    scale: float
    noise: float

    @property
    def tolerance(self) -> float:
        """MARGIN noise floors over the scale."""
        return MARGIN * self.noise / self.scale if self.scale > 0.0 else 0.0

    @property
    def relative(self) -> float:
        """Residual over scale."""
        return self.residual / self.scale if self.scale > 0.0 else 0.0

    @property
    def fails(self) -> bool:
        """Whether the residual is more than noise."""
        return not self.residual <= MARGIN * self.noise

    @property
    def vague(self) -> bool:
        """Whether the noise is too large for a small residual to count."""
        return self.tolerance > LARGEST_TOLERANCE


def worst_of(measurements: list[Measurement]) -> Measurement:
    """One that fails, else one that is vague, else the one with the largest residual."""
    failing = [item for item in measurements if item.fails]
    vague = [item for item in measurements if item.vague]
    if failing or not vague:
        return max(failing or measurements, key=lambda item: (item.relative, item.scale))
    return max(vague, key=lambda item: item.tolerance)


@dataclass(frozen=True, eq=False)
class AuditSample:
    """Everything measured at one sample."""

    measurements: dict[str, Measurement]
    contorsion: Array
    derivative_noise: float


@dataclass(frozen=True, eq=False)
class Terms:
    """H and C with their derivatives at a sample: q, v, H, dH, Hdot, s, C, Gamma, with noise and scales.

    Parameters
    ----------
    lengths : u (n,), |X_i|.
    speeds : w (n,), |v_j|; for a component at rest, the speed that it could have.
    reaches : (n,) distance along each field in which H varies.
    dH_noise, H_dot_noise : of dH and Hdot, entry by entry.
    relative : noise of C, relative to the largest |C_ik| / (u_i u_k).
    forces : F (n,), the scale of every row.
    """

    v: Array
    H: Array
    dH: Array
    H_dot: Array
    s: Array
    C: Array
    Gamma: Array
    lengths: Array
    speeds: Array
    reaches: Array
    dH_noise: Array
    H_dot_noise: Array
    relative: float
    forces: Array

    @property
    def implied_bias(self) -> Array:
        """The bias that H implies, [W] (6): Hdot v + s^k_ij (H v)_k v^j - X_i (v^T H v) / 2, (n,)."""
        bracket = np.einsum("kij,k,j->i", self.s, self.H @ self.v, self.v)
        bias: Array = self.H_dot @ self.v + bracket - 0.5 * np.einsum("ijk,j,k->i", self.dH, self.v, self.v)
        return bias

    @property
    def implied_noise(self) -> Array:
        """Noise of `implied_bias`, (n,)."""
        reach = np.abs(self.v)
        noise: Array = self.H_dot_noise @ reach
        noise = noise + 0.5 * np.einsum("ijk,j,k->i", self.dH_noise, reach, reach)
        return noise

    @property
    def areas(self) -> Array:
        """u_i u_j, (n, n)."""
        return np.asarray(np.outer(self.lengths, self.lengths))

    @property
    def s_low(self) -> Array:
        """H_kl s^l_ij."""
        s_low: Array = np.einsum("kl,lij->kij", self.H, self.s)
        return s_low

    @property
    def C_noise(self) -> Array:
        """Noise of C(q, v), (n, n)."""
        return self.relative * float(np.max(np.abs(self.C) / self.areas)) * self.areas

    @property
    def Gamma_noise(self) -> Array:
        """Noise of Gamma_ijk, (n, n, n)."""
        unit = self.areas[:, None, :] / self.speeds[None, :, None]
        largest = max(float(np.max(np.abs(self.Gamma) / unit)), float(np.max(np.abs(self.C) / self.areas)))
        return self.relative * largest * unit

    @property
    def scales(self) -> Array:
        """The scale of component (i, j, k), F_i / (w_j w_k), (n, n, n)."""
        return np.asarray(self.forces[:, None, None] / np.outer(self.speeds, self.speeds)[None])


def measure(
    boxes: ValidatedBlackBoxes,
    differences: Differences,
    q: Array,
    v: Array,
    s: Array,
    rng: np.random.Generator,
) -> AuditSample:
    """All residuals at one sample; s: (n, n, n) structure functions."""
    terms = terms_of(boxes, differences, q, v, s, rng)
    found = residuals(terms, 8.0 * len(v) * EPS)
    measurements = {
        "linear": worst_of([_measured(*entries) for entries in nonlinearity(boxes, q, terms, rng, EPS)]),
        "bias": _bias(terms),
        "least": _alternating_part(terms, 8.0 * len(v) * EPS),
    } | {name: _measured(*entries) for name, entries in found.items()}
    return AuditSample(measurements, contorsion(terms), float(np.max(terms.dH_noise)))


def _alternating_part(terms: Terms, round_off: float) -> Measurement:
    """Alt Gamma, which is zero for the least of all Gamma* - D with 3-forms D: it takes no derivatives."""
    orders = list(permutations(range(3)))
    scales = np.max([np.transpose(terms.scales, order) for order in orders], axis=0)
    noise = np.max([np.transpose(terms.Gamma_noise, order) for order in orders], axis=0)
    return _measured(alternated(terms.Gamma), scales, noise + round_off * scales)


def alternated(low: Array) -> Array:
    """Alt of a tensor (..., n, n, n): the mean of six permutations with their signs."""
    cyclic: Array = low + np.einsum("...ijk->...jki", low) + np.einsum("...ijk->...kij", low)
    found: Array = (cyclic - np.swapaxes(cyclic, -2, -1)) / 6.0
    return found


def contorsion(terms: Terms) -> Array:
    """D_ijk = Gamma*_ijk - Gamma_ijk, (n, n, n)."""
    return np.asarray(christoffel_symbols(terms.dH, terms.s_low) - terms.Gamma)


def residuals(terms: Terms, round_off: float) -> dict[str, tuple[Array, Array, Array]]:
    """{property: (entries that are zero if C has it, their scales, their noise)}.

    Parameters
    ----------
    round_off : of the black boxes, relative to the scales.
    """
    Gamma, C, scales, dH_noise = terms.Gamma, terms.C, terms.scales, terms.dH_noise
    D, Gamma_noise = contorsion(terms), terms.Gamma_noise
    torsion = Gamma - np.swapaxes(Gamma, 1, 2) - terms.s_low
    pairs, both = terms.forces[:, None] / terms.speeds, np.minimum(scales, np.swapaxes(scales, 0, 2))
    pairs = np.minimum(pairs, pairs.T)
    slopes = np.einsum("kij->ijk", dH_noise) + np.einsum("jik->ijk", dH_noise) + dH_noise
    return {
        "skew": (
            terms.H_dot - C - C.T,
            pairs,
            terms.H_dot_noise + 2.0 * terms.C_noise + round_off * pairs,
        ),
        "metric_compatible": (
            D + np.swapaxes(D, 0, 2),
            both,
            np.swapaxes(dH_noise, 0, 1) + 2.0 * Gamma_noise + round_off * both,
        ),
        "same_geodesics": (
            D + np.swapaxes(D, 1, 2),
            scales,
            slopes + 2.0 * Gamma_noise + round_off * scales,
        ),
        "torsion_free": (torsion, scales, 2.0 * Gamma_noise + round_off * scales),
    }


def terms_of(
    boxes: Dynamics, differences: Differences, q: Array, v: Array, s: Array, rng: np.random.Generator
) -> Terms:
    """Values and derivatives of the black boxes at a sample, with their noise; s: (n, n, n) brackets."""
    H, n = boxes.mass_matrix(q), len(v)
    lengths = np.sqrt(np.diag(H))
    areas, speed = np.outer(lengths, lengths), float(lengths @ np.abs(v))
    moving, nearby = lengths * np.abs(v) > _MOVING * speed, boxes.mass_matrix_nearby
    reaches = differences.reaches(nearby, q, np.eye(n), areas)
    speeds, reaches = _speeds_and_reaches(np.where(moving, np.abs(v), np.nan), speed / lengths, reaches)
    slopes = differences.derivatives(nearby, q, np.eye(n), reaches, areas)
    period = float(np.min(reaches / speeds))
    along = differences.derivatives(nearby, q, v[None], np.array([period]), areas)[0]
    C = boxes.coriolis(q, v)
    Gamma = np.stack([boxes.coriolis(q, w * e) / w for w, e in zip(speeds, np.eye(n), strict=True)], axis=1)
    noise = _coriolis_noise(boxes, differences, q, v, areas, period * speeds * rng.standard_normal(n))
    largest = float(np.max(np.abs(C) / areas))
    dH, dH_noise = (np.stack(a) for a in zip(*((each.value, each.noise) for each in slopes), strict=True))
    known = np.abs(dH) * (np.abs(dH) > MARGIN * dH_noise)
    return Terms(
        v=v,
        H=H,
        dH=dH,
        H_dot=along.value,
        s=s,
        C=C,
        Gamma=Gamma,
        lengths=lengths,
        speeds=speeds,
        reaches=reaches,
        dH_noise=dH_noise,
        H_dot_noise=along.noise,
        relative=8.0 * n * differences.eps + (noise / largest if largest > 0.0 else 0.0),
        forces=_forces(H, known, np.abs(s), np.abs(Gamma), speeds),
    )


def _speeds_and_reaches(moving: Array, allowed: Array, reaches: Array) -> tuple[Array, Array]:
    """The speed of every component, and the distance in which H varies along its field, both completed.

    A component at rest gets the speed that takes it through its reach in the time of the others, if the total
    speed allows it. A field along which H is constant, or varies by round-off of large coordinates, gets the
    distance that its component moves in that time.
    """
    times = reaches / moving
    known = np.isfinite(times)
    period = float(np.median(times[known])) if known.any() else 1.0
    speeds = np.where(np.isnan(moving), np.fmin(reaches / period, allowed), moving)
    return speeds, np.where(reaches <= _FAR * period * speeds, reaches, period * speeds)


def _forces(H: Array, dH: Array, s: Array, Gamma: Array, w: Array) -> Array:
    """F (n,), the scale of every row, from absolute values."""
    s_low = np.einsum("kl,lij->kij", np.abs(H), s)
    terms = christoffel_symbols(dH, s_low) + dH + Gamma  # with all signs plus
    forces: Array = np.max(terms * np.outer(w, w), axis=(1, 2))
    momenta: Array = np.abs(H) @ w
    return forces + momenta * (forces @ w) / (momenta @ w)


def _measured(residual: Array, scale: Array, noise: Array) -> Measurement:
    """The worst component, which is reported."""
    entries = (np.broadcast_to(np.abs(a), residual.shape).ravel() for a in (residual, scale, noise))
    residual, scale, noise = entries
    failing = ~(residual <= MARGIN * noise)
    vague = MARGIN * noise > LARGEST_TOLERANCE * scale
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(scale > 0.0, residual / scale, np.where(residual > 0.0, np.inf, 0.0))
        doubt = np.where(scale > 0.0, noise / scale, 0.0)
    if failing.any():
        place = int(np.argmax(np.where(failing, relative, -1.0)))
    elif (vague & (scale > 0.0)).any():
        place = int(np.argmax(doubt))
    else:
        place = int(np.argmax(relative)) if relative.any() else int(np.argmax(scale))
    return Measurement(float(residual[place]), float(scale[place]), float(noise[place]))


def christoffel_symbols(dH: Array, s_low: Array) -> Array:
    """Gamma*_ijk = 1/2 (X_k H_ij + X_j H_ik - X_i H_jk + s_kij + s_jik + s_ijk), [W] (8)."""
    metric_terms: Array = np.einsum("kij->ijk", dH) + np.einsum("jik->ijk", dH) - dH
    bracket_terms: Array = np.einsum("kij->ijk", s_low) + np.einsum("jik->ijk", s_low) + s_low
    return 0.5 * (metric_terms + bracket_terms)


def _coriolis_noise(
    boxes: Dynamics, differences: Differences, q: Array, v: Array, areas: Array, direction: Array
) -> float:
    """Noise of the black box C over u_i u_k, in v along v (which crosses no sign change) and in q."""
    factors = 1.0 + NOISE_SPACING * (np.arange(NOISE_POINTS) - NOISE_POINTS // 2)
    in_v = function_noise(np.stack([boxes.coriolis(q, factor * v) for factor in factors]) / areas)
    in_q = differences.noise_along(lambda point: boxes.coriolis(point, v), q, direction, areas)
    return max(in_v, in_q)


def nonlinearity(
    boxes: Dynamics, q: Array, terms: Terms, rng: np.random.Generator, eps: float
) -> list[tuple[Array, Array, Array]]:
    """C(q, w) - Gamma_ijk w^j for w = 0, v, -v, 2 v and two random velocities: entries, scales, noise."""
    found, v = [], terms.v
    for w in (v, np.zeros_like(v), -v, 2.0 * v, *rng.standard_normal((2, len(v))) * terms.speeds):
        C = boxes.coriolis(q, w)
        reach = np.abs(w) if w.any() else np.abs(v)
        sizes = np.maximum(np.einsum("ijk,j->ik", np.abs(terms.Gamma), reach), np.abs(C))
        floor = np.max(reach / terms.speeds) * terms.forces[:, None] / terms.speeds
        noise = terms.relative * float(np.max(sizes / terms.areas)) * terms.areas + 8.0 * eps * floor
        found.append((C - np.einsum("ijk,j->ik", terms.Gamma, w), sizes + floor, noise))
    return found


def _bias(terms: Terms) -> Measurement:
    """C v against Hamel at zero acceleration."""
    noise = terms.implied_noise + terms.C_noise @ np.abs(terms.v) + 8.0 * len(terms.v) * EPS * terms.forces
    return _measured(terms.implied_bias - terms.C @ terms.v, terms.forces, noise)
