"""Checks of [W] III-C: metric compatibility, geodesic agreement, torsion-free parts, dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine import CoefficientConnection, ContorsionFamily, torsion_free_part
from connections.coriolis import MechanicalSystem
from connections.verify.measurement import Proposition, Sample, stated
from connections.verify.numerics import (
    Array,
    constrained_tensor,
    largest,
    random_contorsion,
    spray_of,
    symmetrized,
)
from connections.verify.subjects import Subject

PROPOSITIONS: list[Proposition] = []
proposition = partial(stated, PROPOSITIONS)

FLOW_TIME = 0.4

Field = Callable[[Array], Array]  # of points
Spray = Callable[[Array, Array], Array]  # (q, v) -> Gamma(v, v)


def contorsion(subject: Subject, q: Array, symmetry: str | None, salt: str) -> Array:
    """A random contorsion of the size of the metric, constant in the frame."""
    return random_contorsion(subject.rng(salt), subject.n, float(np.max(np.abs(subject.H(q)))), symmetry)


def gentle_contorsion(subject: Subject, sample: Sample, symmetry: str | None, salt: str) -> Array:
    """A random contorsion of order one in an orthonormal frame at q, for which flows stay bounded.

    It is larger if the flow is shorter, so that controls fail clearly.
    """
    L = np.linalg.cholesky(subject.H(sample.q))
    size = FLOW_TIME / _flow_time(subject, sample) / np.sqrt(subject.n)
    d = random_contorsion(subject.rng(salt), subject.n, size, symmetry)
    D: Array = np.einsum("ia,jb,kc,abc->ijk", L, L, L, d, optimize=True)
    return D


def _unit_velocity(subject: Subject, sample: Sample) -> Array:
    """A velocity of length one, with components in an orthonormal frame that are equal up to signs."""
    signs = np.sign(subject.rng("flow" + str(sample.q)).normal(size=subject.n))
    return np.linalg.solve(np.linalg.cholesky(subject.H(sample.q)).T, signs / np.sqrt(subject.n))


def _flow_time(subject: Subject, sample: Sample) -> float:
    """FLOW_TIME, or less if the flow line would go farther than half of the subject's room."""
    return min(FLOW_TIME, 0.5 * subject.room / float(np.max(np.abs(_unit_velocity(subject, sample)))))


def inner_product_drift(subject: Subject, sample: Sample, Gamma: Field) -> tuple[float, float]:
    """The drift of inner products of transported vectors, orthonormal at first, along a flow line."""
    Z = np.linalg.inv(np.linalg.cholesky(subject.H(sample.q))).T
    time = _flow_time(subject, sample)
    end, carried = subject.numerics.flow(Gamma, sample.q, _unit_velocity(subject, sample), Z, time)
    return float(np.max(np.abs(carried.T @ subject.H(end) @ carried - np.eye(subject.n)))), 1.0


def geodesic_gap(subject: Subject, sample: Sample, spray: Spray, reference: Spray) -> tuple[float, float]:
    """The difference between the end points of the motions of two sprays (q, v) -> Gamma(v, v)."""
    start = (sample.q, _unit_velocity(subject, sample), _flow_time(subject, sample))
    return _end_gap(sample.q, *(subject.numerics.geodesic(field, *start) for field in (spray, reference)))


def hamel_spray(subject: Subject, D: Array | None = None) -> Spray:
    """(q, v) -> H^-1 (bias - D(v, v)), the bias by Hamel's equations, without a connection."""

    def spray(q: Array, v: Array) -> Array:
        rate = subject.hamel_acceleration(q, v)
        return rate if D is None else rate - np.linalg.solve(subject.H(q), np.einsum("ijk,j,k->i", D, v, v))

    return spray


def _end_gap(start: Array, end: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[float, float]:
    """Differences of points relative to the distance moved, and of velocities relative to the velocity."""
    (q, v), (p, w) = end, other
    return largest(largest(q - p) / largest(q - start, p - start), largest(v - w) / largest(v, w)), 1.0


@proposition("Prop III.1 if", "D_ijk = -D_kji: transport keeps all inner products")
def compatible_if(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: a contorsion without symmetry."""
    D = gentle_contorsion(subject, sample, None if wrong else "metric_compatible", "III.1 if")
    return inner_product_drift(subject, sample, subject.second_kind(D))


@proposition(
    "Prop III.1 only if", "the connection that makes an orthonormal frame parallel has D_ijk = -D_kji"
)
def compatible_only_if(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: a frame that is not orthonormal made parallel."""
    n, masses = subject.n, subject.masses
    skewing = 0.4 * subject.rng("III.1 only if").normal(size=(n, n)) if wrong else np.zeros((n, n))

    def parallel_fields(points: Array) -> Array:
        K = np.swapaxes(np.linalg.inv(np.linalg.cholesky(masses(points))), 1, 2)
        wobble = np.sin(points.sum(axis=1)[:, None] + np.arange(n))
        fields: Array = K @ (np.eye(n) + skewing * wobble[:, None, :])
        return fields

    dK = subject.numerics.derivative(parallel_fields, sample.q)  # [j, i, a]
    Gamma = -np.einsum("jia,ak->ijk", dK, np.linalg.inv(parallel_fields(sample.q[None])[0]))
    D = subject.first_kind(sample.q) - np.einsum("il,ljk->ijk", subject.H(sample.q), Gamma)
    return float(np.max(np.abs(D + np.transpose(D, (2, 1, 0))))), subject.scale(sample.q)


@proposition("Prop III.2 if", "D_ijk = -D_ikj: the geodesics are the motions of Hamel's equations")
def geodesics_if(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: a contorsion without symmetry."""
    D = gentle_contorsion(subject, sample, None if wrong else "same_geodesics", "III.2 if")
    return geodesic_gap(subject, sample, spray_of(subject.second_kind(D)), hamel_spray(subject))


@proposition("Prop III.2 only if", "the connection of C = (1/2) d(Cv)/dv, Hamel's: D_ijk = -D_ikj")
def geodesics_only_if(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: Hamel's bias altered."""
    low = subject.hamel_symbols(sample.q)
    if wrong:
        low = low + symmetrized(contorsion(subject, sample.q, None, "III.2 only if"))
    D = subject.first_kind(sample.q) - low
    return float(np.max(np.abs(D + np.swapaxes(D, 1, 2)))), subject.scale(sample.q)


@proposition("Thm III.2", "the torsion-free part of any connection keeps its geodesics and has no torsion")
def torsion_free(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the metric's own connection in place of the torsion-free part."""
    frame, rng, n = subject.metric.frame, subject.rng("III.2"), subject.n
    L = np.linalg.cholesky(subject.H(sample.q))  # of order one in an orthonormal frame at q
    size = 0.3 * FLOW_TIME / _flow_time(subject, sample) / np.sqrt(n)
    G = np.einsum("ai,mabc,jb,kc->mijk", np.linalg.inv(L), size * rng.normal(size=(2, n, n, n)), L, L)
    b = rng.normal(size=frame.ambient_dim)
    part = subject.compiled(_torsion_free_at)

    def original(q: Array) -> Array:
        Gamma: Array = G[0] + G[1] * np.sin(b @ q)
        return Gamma

    def repaired(q: Array) -> Array:
        return subject.second_kind()(q) if wrong else np.asarray(part(q, G, b))

    start = (sample.q, _unit_velocity(subject, sample), _flow_time(subject, sample))
    ends = [subject.numerics.geodesic(spray_of(g), *start) for g in (original, repaired)]
    Gamma, s = np.asarray(part(sample.q, G, b)), subject.s(sample.q)
    torsion = largest(Gamma - np.swapaxes(Gamma, 1, 2) - s) / largest(Gamma, s)
    return largest(_end_gap(sample.q, *ends)[0], torsion), 1.0


def _torsion_free_at(system: MechanicalSystem, q: jax.Array, G: jax.Array, b: jax.Array) -> jax.Array:
    """The torsion-free part of the connection G_0 + G_1 sin(b q), (n, n, n)."""
    base = CoefficientConnection(system.metric.frame, lambda p: G[0] + G[1] * jnp.sin(b @ p))
    return torsion_free_part(base).coefficients_at(q)


@proposition("Thm III.2 unique", "torsion and geodesics together are n^3 independent equations")
def torsion_free_unique(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the torsion left free; where n = 1, which has none, the geodesics."""
    n, zero = subject.n, np.zeros((subject.n,) * 3)
    torsion, geodesics = (None if wrong and n > 1 else zero), (None if wrong and n == 1 else zero)
    _, rank, _ = constrained_tensor(n, None, torsion, geodesics)
    return float(n**3 - rank), float(n**3)


@proposition(
    "Cor III.1", "compatible and same geodesics: the null space is the family of eq. (12)", lambda s: s.n >= 3
)
def totally_antisymmetric(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the null space without the geodesic equations."""
    zero = np.zeros((subject.n,) * 3)
    _, _, null = constrained_tensor(subject.n, zero, None, None if wrong else zero)
    family = ContorsionFamily(subject.metric)
    basis = np.asarray(family.contorsion_of(np.eye(family.dimension))).reshape(
        family.dimension, -1
    ) / np.sqrt(6.0)
    vectors = null.reshape(len(null), -1)
    overlap = vectors @ basis.T  # both bases are orthonormal
    outside, missing = vectors - overlap @ basis, basis - overlap.T @ vectors
    return largest(outside, missing), 1.0


@proposition("Cor III.2", "the freedom left has dimension C(n, 3): none for n <= 2")
def dimension_count(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: metric compatibility left out; where n = 1, no torsion as the only condition."""
    n, zero = subject.n, np.zeros((subject.n,) * 3)
    parts = (zero, None, zero) if not wrong else (None, None, zero) if n > 1 else (None, zero, None)
    _, rank, _ = constrained_tensor(n, *parts)
    dimension = ContorsionFamily(subject.metric).dimension
    return float(max(abs(n**3 - rank - count) for count in (math.comb(n, 3), dimension))), float(n**3)
