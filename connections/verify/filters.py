"""Checks of filters on manifolds: displacements, resets, means, predictions, groups, and the linear case.

A hat marks components in a frame that is orthonormal at the sample.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import expm
from scipy.stats import multivariate_normal

from connections._jax import solve
from connections.affine import AffineConnection, CartanSchoutenConnection, CoefficientConnection
from connections.coriolis import MechanicalSystem
from connections.estimation import Estimate, Sensor
from connections.estimation.displacements import GeodesicDisplacements, GroupDisplacements
from connections.estimation.predictions import predicted_at
from connections.estimation.spaces import Phase, Points, linearized_at
from connections.estimation.updates import UpdateSettings, updated_at
from connections.evaluation.parameters import PytreePartial
from connections.geometry import CoordinateFrame, MatrixFrame
from connections.geometry.group_maps import adjoint_of_exponential_at, logarithm_at, require_group
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
_SHORT_PARTS = 128  # of one whose error of third order counts
_BETA = 0.3
_THIRD_STEP = 3e-2  # of what grows with the third power of a step, by sixteen points
_NUMBERS = np.arange(1, 9)
_THIRD_OFFSETS = np.concatenate([_NUMBERS, -_NUMBERS]).astype(float)
_RICHARDSON = [np.prod([j**2 / (j**2 - k**2) for j in _NUMBERS if j != k]) for k in _NUMBERS]
_THIRD_WEIGHTS = np.tile(_RICHARDSON, 2) / (2.0 * (_THIRD_STEP * _THIRD_OFFSETS) ** 3)


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


@proposition(
    "F damped", "errors of vdot = -Gamma(v,v) - H^-1 D v spread by its own derivative", riemannian=True
)
def damped(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: half of H^-1 D taken for a part of Gamma(., v)."""
    at, q, numerics = Sampled.of(subject, sample.q, bent=False), sample.q, subject.numerics
    (v, eta, dv, _), n, spray = at.vectors, subject.n, spray_of(at.Gamma)
    time, R = 0.5 * _TIME * min(1.0, subject.room), subject.rng("F damped").normal(size=(n, n))
    D = at.L @ (np.eye(n) + R @ R.T / n) @ at.L.T / _TIME

    def slowed(p: Array, w: Array) -> Array:
        rate: Array = np.linalg.solve(subject.H(p), D @ w)
        return rate

    def carried(p: Array, w: Array, eta: Array, dv: Array) -> Array:
        """(eta, dv + Gamma(eta, w))."""
        turned = np.einsum("ijk,j,k->i", at.Gamma(p), eta, w)
        half = np.linalg.solve(subject.H(p), D @ eta) / 2.0 if wrong else 0.0
        return np.concatenate([eta, dv + turned + half])

    p, w, *ends = numerics.neighbours(lambda p, w: spray(p, w) + slowed(p, w), q, v, eta, dv, time)
    Phi = np.asarray(subject.compiled(_damped_at)(q, v, D, time))
    L = np.kron(np.eye(2), np.linalg.cholesky(subject.H(p)))
    expected = L.T @ carried(p, w, *ends)
    return largest(L.T @ Phi @ carried(q, v, eta, dv) - expected), largest(expected)


def _damped_at(system: MechanicalSystem, q: jax.Array, v: jax.Array, D: jax.Array, time: Any) -> jax.Array:
    slowed = MechanicalSystem(
        system.metric, forces=PytreePartial(_slowed_at, D), connection=system.connection
    )
    space = Phase(slowed, PytreePartial(linearized_at, slowed), jnp.zeros(D.shape))
    start = Estimate(q, jnp.eye(2 * len(D)), v)
    transition: jax.Array = predicted_at(space, start, None, time, 2 * _SHORT_PARTS)[1]
    return transition


def _slowed_at(D: jax.Array, t: Any, q: jax.Array, v: jax.Array) -> jax.Array:
    return -D @ v


@proposition("F members", "on a group D exp = (1 - exp(-ad_e))/ad_e, Pi = exp(-(1/2 + beta) ad_e)", _is_group)
def members(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: no reset, and the member of the other sign."""
    at, q, numerics = Sampled.of(subject, sample.q, bent=False), sample.q, subject.numerics
    e, w, s = at.vectors[0], at.vectors[1], subject.s(q)
    _, _, parted, _ = numerics.neighbours(lambda p, v: 0.0 * v, q, e, 0.0 * e, w, 1.0)
    _, carried = numerics.flow(lambda p: (0.5 + _BETA) * s, q, e, np.eye(subject.n), 1.0)
    slope = np.asarray(subject.compiled(_group_slope_at)(q, e))
    Pi = np.asarray(subject.compiled(_member_transport_at)(q, e, -_BETA if wrong else _BETA))
    gaps = largest((np.eye(subject.n) if wrong else slope) @ w - parted), largest(Pi - carried)
    return _worst([(gaps[0], largest(parted)), (gaps[1], largest(carried))])


def _group_slope_at(system: MechanicalSystem, q: jax.Array, e: jax.Array) -> jax.Array:
    return GroupDisplacements(system.metric.frame).moved_at(q, e)[1]


def _member_transport_at(system: MechanicalSystem, q: jax.Array, e: jax.Array, beta: Any) -> jax.Array:
    nabla = CartanSchoutenConnection(system.metric.frame, beta)
    return GroupDisplacements(system.metric.frame).transport_at(nabla, q, e)


@proposition("F affine", "on a group u + a right-invariant field turns errors of any size by Phi", _is_group)
def affine_flow(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the squares of the right-invariant field's components."""
    at, q, numerics = Sampled.of(subject, sample.q, bent=False), sample.q, subject.numerics
    (e, u, w, away), s = at.vectors, subject.s(q)

    def brought(p: Array, c: Array, along: Array) -> tuple[Array, Array]:
        """The point p exp(along), and the field of the value c at p there."""
        end, field = numerics.flow(lambda _: s, p, along, c[:, None], 1.0)
        return end, field[:, 0]

    def flow(p: Array, c: Array) -> Array:
        def rhs(_: float, state: Array) -> Array:
            X, c = numerics._point(state)[1], state[q.size :]
            v = u + (c**2 if wrong else c)
            return np.concatenate([X @ v, -np.einsum("ijk,j,k->i", s, v, c)])

        return numerics._point(_solve(rhs, np.concatenate([p, c]), _TIME))[0]

    first = brought(q, w, away)
    ends = flow(*first), flow(*brought(*first, e))
    Phi = np.asarray(subject.compiled(_affine_at)(q, u, w, 2.0 if wrong else 1.0, _TIME))
    parted = np.asarray(subject.compiled(_parted_at)(*ends))
    return largest(Phi @ e - parted), largest(parted)


def _affine_at(
    system: MechanicalSystem, q: jax.Array, u: jax.Array, w: jax.Array, power: Any, time: Any
) -> jax.Array:
    """Phi of a prediction from q, where the right-invariant field is w."""
    frame, n = system.metric.frame, system.metric.frame.dim
    velocity = PytreePartial(_affine_velocity_at, frame, q, w, power)
    space = Points(CartanSchoutenConnection(frame), velocity, jnp.zeros((n, n)), 2)
    transition: jax.Array = predicted_at(space, Estimate(q, jnp.eye(n)), u, time, _PARTS)[1]
    return transition


def _affine_velocity_at(frame: Any, q: Any, w: Any, power: Any, p: jax.Array, u: Any, t: Any) -> Any:
    return u + (adjoint_of_exponential_at(frame, -logarithm_at(frame, q, p)) @ w) ** power


def _parted_at(system: MechanicalSystem, q: jax.Array, p: jax.Array) -> jax.Array:
    return GroupDisplacements(system.metric.frame).difference_at(q, p)


@proposition(
    "F drift",
    "a flow moves the mean of errors by t/2 P^ij (L_X nabla)_ij, second order in P",
    _bends,
    riemannian=True,
)
def drift(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: in the other direction."""
    at, q, fields = Sampled.of(subject, sample.q, bent="symmetric"), sample.q, Fields.of(subject)
    e = _gentle(at, at.vectors[0])
    means = subject.batch(_drift_at)(_THIRD_STEP * _THIRD_OFFSETS[:, None], q, at.D, e, *fields.numbers["X"])

    def slope(p: Array) -> Array:
        """(nabla X)[i, j]."""
        return _slopes_of(subject, at, p)

    X = fields.at("X", q)
    terms = [at.covariant(slope, e, e), _of_vectors(at.R_here, e, X, e)]
    return _third_order(at, means, [0.5 * (-term if wrong else term) for term in terms], X, e, e)


def _slopes_of(subject: Subject, at: Sampled, p: Array) -> Array:
    """L_j X^i + Gamma^i_jk X^k of the field X at p, [i, j]."""
    fields = Fields.of(subject)
    slopes: Array = subject.numerics.derivative(fields.on_batch("X"), p).T + at.Gamma(p) @ fields.at("X", p)
    return slopes


def _gentle(at: Sampled, vector: Array) -> Array:
    """The vector, so long that it turns others by their own length, at most three times as long."""
    Gamma = at.Gamma(at.q)
    turned = (np.tensordot(part, vector, axes=(1, 0)) for part in (Gamma, np.swapaxes(Gamma, 1, 2)))
    turning = max(float(np.linalg.norm(at.L.T @ turn @ at.E, 2)) for turn in turned)
    return vector / max(turning, 1.0 / 3.0 if np.isinf(at.subject.room) else 1.0)


def _third_order(at: Sampled, means: Array, terms: list[Array], *lengths: Array) -> tuple[float, float]:
    """How far what grows as the third power of the step is from the terms' sum; its scale is R's, too."""
    found = np.tensordot(_THIRD_WEIGHTS, means, axes=1)
    hats = [at.hat(term) for term in terms]
    size = at.scale * float(np.prod([np.linalg.norm(at.hat(length)) for length in lengths]))
    return largest(at.hat(found) - sum(hats, np.zeros(at.subject.n))), largest(*hats, size)


def _drift_at(
    system: MechanicalSystem, length: jax.Array, q: jax.Array, D: jax.Array, e: jax.Array, W: Any, w: Any
) -> jax.Array:
    """The mean of two opposite errors after the time `length`, if both are `length` long."""
    n, nabla, step = system.metric.frame.dim, _bent(system, D), length[0]
    own = GeodesicDisplacements(nabla, 4)
    space = Points(nabla, PytreePartial(_velocity_at, n == 1), jnp.zeros((n, n)), 4)

    def flow(p: jax.Array) -> jax.Array:
        end: jax.Array = space.course_at((p,), (W, w), 0.0, step).end[0]
        return end

    def error(way: jax.Array) -> jax.Array:
        return own.difference_at(flow(q), flow(own.moved_at(q, step * way)[0]))

    return jnp.mean(jax.vmap(error)(jnp.stack([e, -e])), axis=0)


@proposition(
    "F shift",
    "after a reset the mean of errors is -R(w,e)w/3 off, second order in P = w w^T",
    _bends,
    riemannian=True,
)
def shift(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: in the other direction."""
    at, q = Sampled.of(subject, sample.q, bent="symmetric"), sample.q
    e, w = (_gentle(at, vector) for vector in at.vectors[:2])
    means = subject.batch(_shift_at)(_THIRD_STEP * _THIRD_OFFSETS[:, None], q, at.D, e, w)
    term = _of_vectors(at.R_here, w, w, e) / 3.0
    return _third_order(at, means, [term if wrong else -term], e, w, w)


def _shift_at(
    system: MechanicalSystem, length: jax.Array, q: jax.Array, D: jax.Array, e: jax.Array, w: jax.Array
) -> jax.Array:
    """The mean of the errors w and -w of an update by e, seen from where it ends, carried back."""
    nabla, step = _bent(system, D), length[0]
    own = GeodesicDisplacements(nabla, 4)
    end = own.moved_at(q, step * e)[0]

    def error(way: jax.Array) -> jax.Array:
        return own.difference_at(end, own.moved_at(q, step * (e + way))[0])

    mean = jnp.mean(jax.vmap(error)(jnp.stack([w, -w])), axis=0)
    return solve(own.transport_at(nabla, q, step * e), mean[:, None])[:, 0]


@proposition("F Kalman", "a linear flow and sensor with normal noise: Kalman's filter", _of_a_chart)
def kalman(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: no noise of the velocity."""
    n, m, rng = subject.n, max(1, subject.n - 1), subject.rng("F Kalman")
    E = Sampled.of(subject, sample.q, bent=False).E  # of the frame of errors, with units
    F, (A, B) = E @ rng.normal(size=(n, n)) / np.sqrt(n) @ np.linalg.inv(E), rng.normal(size=(2, n, n))
    P, Q = np.eye(n) + A @ A.T, np.eye(n) + B @ B.T
    x, u, y = E @ rng.normal(size=n), E @ rng.normal(size=n), 3.0 * rng.normal(size=m)
    C, R = rng.normal(size=(m, n)) @ np.linalg.inv(E), rng.normal(size=(m, m))
    N = np.eye(m) + R @ R.T
    found = subject.compiled(_kalman_at)(E, F, 0.0 * Q if wrong else Q, P, C, N, x, u, y)
    mean, spread = _van_loan(F, E @ Q @ E.T, x, E @ P @ E.T, u)
    seen = C.T @ np.linalg.inv(N)
    after = np.linalg.inv(np.linalg.inv(spread) + seen @ C)  # the information adds up
    best = after @ (np.linalg.solve(spread, mean) + seen @ y)
    density = multivariate_normal(C @ mean, C @ spread @ C.T + N).logpdf(y)
    back = np.linalg.inv(E)
    pairs = [(back @ best, back @ found[0]), (back @ after @ back.T, found[1]), (density, found[2])]
    return _worst([(largest(a - np.asarray(b)), largest(a)) for a, b in pairs])


def _van_loan(F: Array, Q: Array, x: Array, P: Array, u: Array) -> tuple[Array, Array]:
    """Mean and covariance after the prediction's time of xdot = F x + u + noise, by matrix exponentials."""
    n = len(x)
    ahead = expm(_TIME * np.block([[F, u[:, None]], [np.zeros((1, n + 1))]]))
    noise = expm(_TIME * np.block([[-F, Q], [np.zeros((n, n)), F.T]]))[:n, n:]
    Phi = ahead[:n, :n]
    return Phi @ x + ahead[:n, n], Phi @ P @ Phi.T + Phi @ noise


def _kalman_at(
    system: MechanicalSystem, E: Any, F: Any, Q: Any, P: Any, C: Any, N: Any, x: Any, u: Any, y: Any
) -> tuple[jax.Array, ...]:
    """Mean, covariance and log-likelihood after a prediction and an iterated update, in the frame E."""
    n = system.metric.frame.dim
    frame = MatrixFrame(PytreePartial(_constant_at, E), n, n)
    nabla = CoefficientConnection(frame, PytreePartial(_constant_at, jnp.zeros((n, n, n))))
    space = Points(nabla, PytreePartial(_linear_velocity_at, E, F), Q, 2)
    predicted = predicted_at(space, Estimate(x, P), u, _TIME, _SHORT_PARTS)[0]
    sensor = Sensor(PytreePartial(_linear_sensor_at, C), N)
    settings = UpdateSettings("exact", 4, geodesic_steps=2)
    (estimate, innovation, _), _ = updated_at(space, settings, sensor, predicted, y, None)
    return estimate.q, estimate.P, jnp.asarray(innovation.log_likelihood)


def _constant_at(value: jax.Array, q: jax.Array) -> jax.Array:
    return value


def _linear_velocity_at(E: jax.Array, F: jax.Array, q: jax.Array, u: Any, t: Any) -> jax.Array:
    return solve(E, (F @ q + u)[:, None])[:, 0]


def _linear_sensor_at(C: jax.Array, q: jax.Array) -> jax.Array:
    return C @ q
