"""Checks of [W] IV and VI-D: skew-symmetry, right dynamics, the family (12), Hamel, differentiation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine import ContorsionFamily, least_connection
from connections.checks import Check
from connections.coriolis import MechanicalSystem, connection_from_coriolis
from connections.coriolis.matrix import coriolis_matrix_at
from connections.multibody import coriolis_matrix
from connections.verify.families import (
    contorsion,
    gentle_contorsion,
    geodesic_gap,
    hamel_spray,
    inner_product_drift,
)
from connections.verify.measurement import Proposition, Sample, stated
from connections.verify.numerics import Array, constrained_tensor, largest, random_contorsion, spray_of
from connections.verify.subjects import Subject

PROPOSITIONS: list[Proposition] = []
proposition = partial(stated, PROPOSITIONS)


def coriolis(subject: Subject, sample: Sample, D: Array | None = None) -> Array:
    """C_ik = (Gamma_ijk - D_ijk) v^j of the connection under test."""
    low = subject.first_kind(sample.q) - (0.0 if D is None else D)
    C: Array = np.einsum("ijk,j->ik", low, sample.v)
    return C


def _mass_rate(subject: Subject, sample: Sample) -> Array:
    return subject.numerics.derivative_along(subject.masses, sample.q, sample.v)


def _scale(subject: Subject, sample: Sample) -> float:
    return subject.scale(sample.q) * float(np.sum(np.abs(sample.v)))


def _velocities(subject: Subject, sample: Sample) -> Array:
    """The sample's velocity, all e_j and e_j + e_k: a quadratic form in v that vanishes on these is zero."""
    e = np.eye(subject.n)
    pairs = [e[j] + e[k] for j in range(subject.n) for k in range(j)]
    return np.array([sample.v, *e, *pairs])


def _worst(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """The pair (residual, scale) with the largest relative residual; a NaN counts as the largest."""
    return pairs[int(np.argmax([Check("pair", residual, scale, 1.0).relative for residual, scale in pairs]))]


def _bias_gaps(
    subject: Subject, sample: Sample, D: Array | None, bias: Callable[[Array], Array]
) -> list[tuple[float, float]]:
    """C v minus a bias, for many velocities."""
    low, scale = subject.first_kind(sample.q) - (0.0 if D is None else D), subject.scale(sample.q)
    pairs = []
    for v in _velocities(subject, sample):
        gap = np.einsum("ijk,j,k->i", low, v, v) - bias(v)
        pairs.append((float(np.max(np.abs(gap))), scale * float(np.sum(np.abs(v)) * np.max(np.abs(v)))))
    return pairs


@proposition("(6)", "Hamel's equations give H a + C v + g, all samples")
def hamel(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: C of a generic contorsion.

    Gravity, inertia and bias are also compared one by one, because the largest term would hide errors of the
    others.
    """
    q, v, a = sample
    D = contorsion(subject, q, None, "(6)") if wrong else None
    zero, gravity = np.zeros(subject.n), np.zeros(subject.n)
    if subject.system.potential is not None:
        gravity = subject.numerics.derivative(subject.batch(MechanicalSystem.potential_at), q)

    def tau(v: Array, a: Array) -> Array:
        return np.asarray(subject.system.hamel(q, v, a))

    at_rest = tau(zero, zero)
    parts = (subject.H(q) @ a, coriolis(subject, sample, D) @ v, gravity)
    sizes = (*(float(np.max(np.abs(part))) for part in parts), subject.scale(q) * float(v @ v))
    pairs = [(float(np.max(np.abs(tau(v, a) - sum(parts)))), largest(*sizes))]
    pairs.append((float(np.max(np.abs(tau(zero, a) - at_rest - parts[0]))), sizes[0] + sizes[2]))
    pairs.append((float(np.max(np.abs(at_rest - gravity))), largest(sizes[2], subject.scale(q))))
    pairs += _bias_gaps(subject, sample, D, lambda w: tau(w, zero) - at_rest)
    pairs += _bias_gaps(subject, sample, D, lambda w: subject.hamel_bias(q, w))
    return _worst(pairs)


@proposition("Prop IV.1 if", "compatible connection: Hdot - 2C is skew, Hdot by differences along v")
def skew_if(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: a contorsion without symmetry."""
    C = coriolis(
        subject, sample, contorsion(subject, sample.q, None if wrong else "metric_compatible", "IV.1")
    )
    return float(np.max(np.abs(_mass_rate(subject, sample) - C - C.T))), _scale(subject, sample)


@proposition("Prop IV.1 only if", "C = Hdot / 2 + skew: transport by its connection keeps inner products")
def skew_only_if(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: a part that is not skew added."""
    D = gentle_contorsion(subject, sample, None if wrong else "metric_compatible", "IV.1 only if")
    Gamma = subject.compiled(_of_half_the_rate_at)
    return inner_product_drift(subject, sample, lambda q: np.asarray(Gamma(q, D)))


def _of_half_the_rate_at(system: MechanicalSystem, q: jax.Array, D: jax.Array) -> jax.Array:
    """Gamma^i_jk of the connection of C = Hdot / 2 - D v, (n, n, n)."""
    metric = system.metric

    def C(p: jax.Array, v: jax.Array) -> jax.Array:
        H_dot: jax.Array = jax.jvp(metric.matrix_at, (p,), (metric.frame.matrix_at(p) @ v,))[1]
        return 0.5 * H_dot - jnp.einsum("ijk,j->ik", D, v)

    return connection_from_coriolis(metric, C).coefficients_at(q)


@proposition("Prop IV.2 if", "connection with Riemannian geodesics: C v is Hamel's bias")
def dynamics_if(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: a contorsion without symmetry."""
    D = contorsion(subject, sample.q, None if wrong else "same_geodesics", "IV.2")
    return _worst(_bias_gaps(subject, sample, D, lambda v: subject.hamel_bias(sample.q, v)))


@proposition("Prop IV.2 only if", "C v = Hamel's bias: the geodesics of its connection are Riemannian")
def dynamics_only_if(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: C v altered."""
    D = gentle_contorsion(subject, sample, None if wrong else "same_geodesics", "IV.2 only if")
    return geodesic_gap(subject, sample, hamel_spray(subject, D), spray_of(subject.second_kind()))


@proposition("Cor IV.1", "skew and right dynamics: C - C* comes from a totally antisymmetric D")
def admissible(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: right dynamics only; where n = 1 and they determine C, dynamics altered."""
    metric_part, dynamics = None if wrong else subject.dH(sample.q), subject.hamel_symbols(sample.q)
    if wrong and subject.n == 1:
        dynamics = dynamics + subject.scale(sample.q)
    solved, _, null = constrained_tensor(subject.n, metric_part, None, dynamics)
    weights = subject.rng("IV.1 cor").normal(size=len(null)) * subject.scale(sample.q)
    D = subject.first_kind(sample.q) - solved - np.tensordot(weights, null, axes=1)
    gaps = [D + np.transpose(D, axes) for axes in ((1, 0, 2), (2, 1, 0), (0, 2, 1))]
    return largest(*gaps), subject.scale(sample.q)


@proposition("(12)", "C + sum beta S^T (S v x) S is the C of the family's connection", lambda s: s.n >= 3)
def family(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the sign of beta."""
    members = ContorsionFamily(subject.metric)
    beta = subject.rng("(12)").normal(size=members.dimension) * float(np.max(np.abs(subject.H(sample.q))))
    C = np.einsum("ijk,j->ik", subject.koszul(sample.q), sample.v)
    for value, triple in zip(beta, members.triples, strict=True):
        S = np.eye(subject.n)[list(triple)]
        x, y, z = S @ sample.v
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        C = C + (-value if wrong else value) * S.T @ cross @ S

    other = np.asarray(subject.compiled(_coriolis_of_member_at)(sample.q, sample.v, beta))
    return float(np.max(np.abs(C - other))), _scale(subject, sample) + float(np.max(np.abs(beta)))


def _coriolis_of_member_at(
    system: MechanicalSystem, q: jax.Array, v: jax.Array, beta: jax.Array
) -> jax.Array:
    member = ContorsionFamily(system.metric).connection(beta)
    return coriolis_matrix_at(member, system.metric, q, v)


@proposition(
    "least", "of all Gamma* - D with a 3-form D, that with D = Alt Gamma* is the least", lambda s: s.n >= 3
)
def least(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: another member of the family, to which 3-forms are not orthogonal."""
    q, n, scale = sample.q, subject.n, subject.scale(sample.q)
    star = subject.koszul(q)
    form = random_contorsion(subject.rng("least"), n, scale, "same_geodesics")
    form = form + np.transpose(form, (2, 0, 1)) + np.transpose(form, (1, 2, 0))
    Gamma = np.asarray(subject.compiled(_least_at)(q))
    gaps = [Gamma - star + np.transpose(Gamma - star, axes) for axes in ((1, 0, 2), (2, 1, 0), (0, 2, 1))]
    if subject.bodies is not None and subject.bodies.robot is not None:
        C = coriolis_matrix(subject.bodies.robot, q, sample.v, body_factor="least")
        gaps.append((C - np.einsum("ijk,j->ik", Gamma, sample.v)) / np.sum(np.abs(sample.v)))
    if wrong:
        Gamma = Gamma + form / 2.0
    D = Gamma - star + form  # |star - form|^2 = |Gamma|^2 + |D|^2 says that these two are orthogonal
    gaps.append(np.atleast_1d(np.sum(Gamma * D) / np.sqrt(np.sum(D**2))))
    return max(float(np.max(np.abs(gap))) for gap in gaps), scale


def _least_at(system: MechanicalSystem, q: jax.Array) -> jax.Array:
    Gamma = least_connection(system.metric).coefficients_at(q)
    low: jax.Array = jnp.einsum("il,ljk->ijk", system.metric.matrix_at(q), Gamma)
    return low


def _half_derivative(
    subject: Subject, sample: Sample, correction: Array, wrong: bool, salt: str
) -> tuple[float, float]:
    """C* against (1/2) d(Cv)/dv + correction, with d(Cv)/dv from Hamel's bias."""
    built = np.einsum("ijk,j->ik", subject.hamel_symbols(sample.q), sample.v) + correction
    D = random_contorsion(subject.rng(salt), subject.n, subject.scale(sample.q)) if wrong else None
    return float(np.max(np.abs(built - coriolis(subject, sample, D)))), _scale(subject, sample)


@proposition("(29)", "C* = (1/2) d(Cv)/dv + (1/2) s_ijk v^j, brackets by differences", riemannian=True)
def differentiation_29(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: C of a generic contorsion."""
    correction = 0.5 * np.einsum("ijk,j->ik", subject.s_low(sample.q), sample.v)
    return _half_derivative(subject, sample, correction, wrong, "(29)")


@proposition(
    "(30)", "C* = (1/2) d(Cv)/dv + (1/2) H_il s^l_jk v^j, the frame's structure functions", riemannian=True
)
def differentiation_30(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: C of a generic contorsion."""
    s = np.asarray(subject.compiled(_structure_functions_at)(sample.q))
    correction = 0.5 * np.einsum("il,ljk,j->ik", subject.H(sample.q), s, sample.v)
    return _half_derivative(subject, sample, correction, wrong, "(30)")


def _structure_functions_at(system: MechanicalSystem, q: jax.Array) -> jax.Array:
    return system.metric.frame.structure_functions_at(q)


@proposition("(31)", "C* = (1/2) d(Cv)/dv + (1/2) H_il X^l . [X_j, X_k] v^j, the dual basis", riemannian=True)
def differentiation_31(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: C of a generic contorsion."""
    numerics, q = subject.numerics, sample.q
    X = numerics.matrix(q[None])[0]
    dX = numerics.derivative(numerics.matrix, q)
    along_v = np.einsum("j,jak->ak", sample.v, dX) - np.einsum("kaj,j->ak", dX, sample.v)
    correction = 0.5 * subject.H(q) @ np.linalg.pinv(X) @ along_v
    return _half_derivative(subject, sample, correction, wrong, "(31)")
