"""Checks of filters on manifolds: displacements of estimates, resets, means, predictions, members of groups.

A hat marks components in a frame that is orthonormal at the sample.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import solve
from connections.affine import AffineConnection, CartanSchoutenConnection, CoefficientConnection
from connections.coriolis import MechanicalSystem
from connections.estimation.displacements import GeodesicDisplacements, GroupDisplacements
from connections.estimation.estimate import Estimate
from connections.estimation.spaces import Points
from connections.estimation.updates import predicted_at
from connections.evaluation.parameters import PytreePartial
from connections.geometry import CoordinateFrame
from connections.geometry.group_maps import require_group
from connections.verify.coriolis import _worst
from connections.verify.curvature import Sampled, _of_vectors
from connections.verify.measurement import Proposition, Sample, stated
from connections.verify.nonmetric import _bends, _of_a_chart
from connections.verify.numerics import (
    _OFFSETS,
    _SECOND_WEIGHTS,
    _WEIGHTS,
    STEP,
    Array,
    _solve,
    largest,
    random_contorsion,
    spray_of,
)
from connections.verify.riemannian import Fields, _field
from connections.verify.subjects import Subject, _coefficients_at

PROPOSITIONS: list[Proposition] = []
proposition = partial(stated, PROPOSITIONS)

_STEPS = 128  # of geodesics by the library
_LONG = 0.3  # the longest displacement, in units of those of differences
_TIME, _PARTS = 0.2, 32  # of a prediction
_BETA = 0.3


def _is_group(subject: Subject) -> bool:
    """Whether the frame is that of a group that does not commute."""
    frame = subject.metric.frame
    try:
        require_group("frame", frame)
    except TypeError:
        return False
    return subject.n >= 3 and not isinstance(frame, CoordinateFrame)


def _bent(system: MechanicalSystem, D: jax.Array) -> AffineConnection:
    """The connection under test less the contorsion D."""
    return CoefficientConnection(system.metric.frame, PytreePartial(_bent_coefficients_at, system, D))


def _bent_coefficients_at(system: MechanicalSystem, D: jax.Array, q: jax.Array) -> jax.Array:
    return _coefficients_at(system, q, D)


@proposition("F exp", "exp and D exp see no torsion: neighbouring geodesics of the torsion-free part", _bends)
def exponential(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: a contorsion that bends geodesics."""
    at, q, numerics = Sampled.of(subject, sample.q, bent=False), sample.q, subject.numerics
    e, w = _LONG * at.vectors[0], at.vectors[1]
    symmetry = "metric_compatible" if wrong else "same_geodesics"
    d = random_contorsion(subject.rng("F exp"), subject.n, 3.0 * at.size, symmetry)
    D = np.einsum("ia,jb,kc,abc->ijk", *[at.L] * 3, d, optimize=True)
    p, _, parted, _ = numerics.neighbours(spray_of(at.Gamma), q, e, 0.0 * e, w, 1.0)
    slope = np.asarray(subject.compiled(_slope_at)(q, e, D))
    L = np.linalg.cholesky(subject.H(p)).T
    return largest(L @ (slope @ w - parted)), largest(L @ parted)


def _slope_at(system: MechanicalSystem, q: jax.Array, e: jax.Array, D: jax.Array) -> jax.Array:
    return GeodesicDisplacements(_bent(system, D), _STEPS).moved_at(q, e)[1]


@proposition(
    "F reset", "D exp = Pi (1 - T_e/2 + T_e^2/6 - (nabla_e T)(.,e)/3 - R(.,e)e/6 + ..), T_e = T(.,e)", _bends
)
def reset(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the torsion of the other sign, and R forgotten."""
    at, q = Sampled.of(subject, sample.q, bent=True), sample.q
    e = at.vectors[0]
    found = subject.batch(_carried_back_at)(STEP * _OFFSETS[:, None], q, at.D, e)
    first = np.tensordot(_WEIGHTS, found, axes=1) / STEP
    second = 0.5 * np.tensordot(_SECOND_WEIGHTS, found - np.eye(subject.n), axes=1) / STEP**2
    T = at.T(q)
    T_e = np.einsum("ijk,k->ij", T, e)
    along = np.stack([at.covariant(at.T, e, x, e) for x in np.eye(subject.n)], axis=1)
    R_e = np.stack([_of_vectors(at.R_here, e, x, e) for x in np.eye(subject.n)], axis=1)
    terms = [T_e @ T_e / 6.0, -along / 3.0, *([] if wrong else [-R_e / 6.0])]

    def hat(matrix: Array) -> Array:
        transformed: Array = at.L.T @ matrix @ at.E
        return transformed

    sign = -1.0 if wrong else 1.0
    gaps = largest(hat(first + 0.5 * sign * T_e)), largest(hat(second - sum(terms, np.zeros_like(T_e))))
    return _worst([(gaps[0], largest(hat(T_e))), (gaps[1], largest(*map(hat, [*terms, R_e])))])


def _carried_back_at(
    system: MechanicalSystem, length: jax.Array, q: jax.Array, D: jax.Array, e: jax.Array
) -> jax.Array:
    nabla = _bent(system, D)
    own, step = GeodesicDisplacements(nabla, 4), length[0] * e
    return solve(own.transport_at(nabla, q, step), own.moved_at(q, step)[1])


@proposition("F mean", "E f(exp_q(e)) = f + P^ij (nabla_i df)_j / 2 to first order in P", _of_a_chart)
def mean(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: df differentiated without the connection."""
    at, q, numerics = Sampled.of(subject, sample.q, bent=True), sample.q, subject.numerics
    f, e = Fields.of(subject).on_batch("f"), at.vectors[0]
    points = subject.batch(_displaced_at)(STEP * _OFFSETS[:, None], q, at.D, e)
    bent = np.tensordot(_SECOND_WEIGHTS, f(points) - f(q[None]), axes=1) / STEP**2
    straight = e @ numerics.derivative_along(
        lambda many: np.stack([numerics.derivative(f, p) for p in many]), q, e
    )
    turned = np.einsum("ijk,j,k->i", at.Gamma(q), e, e) @ numerics.derivative(f, q)
    gap = bent - straight + (0.0 if wrong else turned)
    return abs(float(gap)), largest(bent, straight, turned)


def _displaced_at(
    system: MechanicalSystem, length: jax.Array, q: jax.Array, D: jax.Array, e: jax.Array
) -> jax.Array:
    return GeodesicDisplacements(_bent(system, D), 4).moved_at(q, length[0] * e)[0]


@proposition(
    "F spread", "etadot = A eta, A^i_j = L_j u^i + s^i_jk u^k: differences of the flow of u", _of_a_chart
)
def spread(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: backwards in time."""
    q, numerics, fields = sample.q, subject.numerics, Fields.of(subject)
    time = _TIME * min(1.0, subject.room)
    w = np.linalg.inv(np.linalg.cholesky(subject.H(q))).T @ subject.rng("F spread").choice(
        [-1.0, 1.0], subject.n
    )
    w = w / np.max(np.abs(w))

    def flow(start: Array) -> Array:
        def rhs(_: float, state: Array) -> Array:
            p, X = numerics._point(state)
            rate: Array = X @ fields.at("X", p)
            return rate

        return numerics._point(_solve(rhs, start, time))[0]

    ends = np.stack([flow(p) for p in numerics.retract(q, STEP * _OFFSETS[:, None] * w)])
    parted = np.asarray(numerics._dual(flow(q))) @ (np.tensordot(_WEIGHTS, ends, axes=1) / STEP)
    Phi = np.asarray(subject.compiled(_transition_at)(q, fields.numbers["X"], time))
    return largest((np.linalg.inv(Phi) if wrong else Phi) @ w - parted), largest(parted)


def _transition_at(system: MechanicalSystem, q: jax.Array, numbers: Any, time: Any) -> jax.Array:
    n = system.metric.frame.dim
    assert system.connection is not None
    velocity = PytreePartial(_velocity_at, n == 1)
    space = Points(system.connection, velocity, jnp.zeros((n, n)), 2)
    transition: jax.Array = predicted_at(space, Estimate(q, jnp.eye(n)), numbers, time, _PARTS)[1]
    return transition


def _velocity_at(alone: bool, q: jax.Array, numbers: Any, t: Any) -> Any:
    return _field(jnp, alone, q, *numbers)


@proposition("F members", "on a group D exp = (1 - exp(-ad_e))/ad_e, Pi = exp(-(1/2 + beta) ad_e)", _is_group)
def members(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: no reset, and the member of the other sign."""
    at, q, numerics = Sampled.of(subject, sample.q, bent=False), sample.q, subject.numerics
    e, w, s = at.vectors[0], at.vectors[1], subject.s(q)
    _, _, parted, _ = numerics.neighbours(lambda p, v: 0.0 * v, q, e, 0.0 * e, w, 1.0)
    _, carried = numerics.flow(lambda p: (0.5 + _BETA) * s, q, e, np.eye(subject.n), 1.0)
    slope, Pi = map(np.asarray, subject.compiled(_member_at)(q, e, -_BETA if wrong else _BETA))
    gaps = largest((np.eye(subject.n) if wrong else slope) @ w - parted), largest(Pi - carried)
    return _worst([(gaps[0], largest(parted)), (gaps[1], largest(carried))])


def _member_at(
    system: MechanicalSystem, q: jax.Array, e: jax.Array, beta: Any
) -> tuple[jax.Array, jax.Array]:
    own = GroupDisplacements(system.metric.frame)
    nabla = CartanSchoutenConnection(system.metric.frame, beta)
    return own.moved_at(q, e)[1], own.transport_at(nabla, q, e)
