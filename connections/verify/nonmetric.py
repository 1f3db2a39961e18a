"""Checks of connections beyond contorsion: Weyl's, dual ones, the parts of T and Q, families of densities.

Forms and cubic forms are random, constant in the frame, and of order one in a frame that is orthonormal at
the sample. The rows of densities ([AN]) are about subjects whose metric is Fisher's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine import (
    ContorsionConnection,
    Decomposition,
    FisherMetric,
    StatisticalConnection,
    StatisticalModel,
    WeylConnection,
)
from connections.affine.decomposition import decompose_at
from connections.coriolis import MechanicalSystem
from connections.verify.families import FLOW_TIME, _flow_time, _unit_velocity
from connections.verify.measurement import Proposition, Sample, stated
from connections.verify.numerics import Array, largest, random_contorsion, spray_of
from connections.verify.subjects import Subject

PROPOSITIONS: list[Proposition] = []
proposition = partial(stated, PROPOSITIONS)

FLAT = 1e-9  # the largest curvature, in an orthonormal frame, of a connection that counts as flat


def _of_a_chart(subject: Subject) -> bool:
    """Whether the metric is not a robot's; a robot's connections are given by contorsions only."""
    return subject.bodies is None or subject.bodies.robot is None


def _bends(subject: Subject) -> bool:
    """Whether curvature can differ from zero, n >= 2, and the metric is not a robot's."""
    return subject.n >= 2 and _of_a_chart(subject)


class _Frame:
    """A frame that is orthonormal at a sample: its vectors are the columns of E (n, n), and L^T = E^-1."""

    def __init__(self, subject: Subject, q: Array) -> None:
        self.L = np.linalg.cholesky(subject.H(q))
        self.E = np.linalg.inv(self.L).T

    def lowered(self, tensor: Array) -> Array:
        """Low components (n, n, n) in the metric's frame, from those in this frame."""
        low: Array = np.einsum("ia,jb,kc,abc->ijk", *[self.L] * 3, tensor, optimize=True)
        return low

    def hat(self, tensor: Array, high: bool = False) -> Array:
        """Components (n, n, n) in this frame, from the metric's: low, or `high` in the first index."""
        first = self.L if high else self.E
        hat: Array = np.einsum("ia,jb,kc,ijk->abc", first, self.E, self.E, tensor, optimize=True)
        return hat


# --- Weyl's connections, and dual ones ----------------------------------------------------------------------


@proposition("Weyl", "nabla g = form * g: transport scales all inner products by exp int form", _of_a_chart)
def weyl(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the form of the other sign."""
    frame, v, time = _Frame(subject, sample.q), _unit_velocity(subject, sample), _flow_time(subject, sample)
    form = frame.L @ subject.rng("Weyl").normal(size=subject.n)
    compiled = subject.compiled(_weyl_at)
    end, Z = subject.numerics.flow(lambda q: np.asarray(compiled(q, form)), sample.q, v, frame.E, time)
    factor = np.exp((-1.0 if wrong else 1.0) * time * form @ v)
    products = Z.T @ subject.H(end) @ Z
    return largest(products - factor * np.eye(subject.n)), largest(products, factor)


def _weyl_at(system: MechanicalSystem, q: jax.Array, form: jax.Array) -> jax.Array:
    return WeylConnection(system.metric, lambda p: form).coefficients_at(q)


@proposition(
    "dual", "L_X<Y,Z> = <nabla_X Y,Z> + <Y,nabla*_X Z>: transports by both keep products", _of_a_chart
)
def dual(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: both vectors carried by one connection."""
    frame, v, time = _Frame(subject, sample.q), _unit_velocity(subject, sample), _flow_time(subject, sample)
    C, compiled = _cubic(subject, frame), subject.compiled(_statistical_at)
    carried = []
    for alpha in (1.0, 1.0 if wrong else -1.0):
        Gamma = partial(_coefficients, compiled, C, alpha)
        end, Z = subject.numerics.flow(Gamma, sample.q, v, frame.E, time)
        carried.append(Z)
    products = carried[0].T @ subject.H(end) @ carried[1]
    return largest(products - np.eye(subject.n)), 1.0


@proposition("dual R", "<R(X,Y)Z, W> = -<Z, R*(X,Y)W>, R* of the dual by differences", _bends)
def dual_curvature(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: alpha = -2 in place of -1, because alpha = 1 has the same R where all is constant."""
    q, frame = sample.q, _Frame(subject, sample.q)
    C, s = _cubic(subject, frame), subject.s(q)
    compiled, alpha = subject.compiled(_statistical_at), -2.0 if wrong else -1.0

    def coefficients(points: Array) -> Array:
        return np.stack([np.asarray(compiled(p, C, alpha)) for p in points])

    Gamma, dGamma = (
        coefficients(q[None])[0],
        subject.numerics.derivative(coefficients, q),
    )  # dGamma[i, l, j, k]
    half = np.transpose(dGamma, (1, 3, 0, 2)) + np.einsum("lim,mjk->lkij", Gamma, Gamma)
    other = half - np.swapaxes(half, 2, 3) - np.einsum("mij,lmk->lkij", s, Gamma)
    R = np.asarray(subject.compiled(_statistical_curvature_at)(q, C))
    first, second = (
        np.einsum("ia,ijkl,jb,kc,ld->abcd", frame.L, each, *[frame.E] * 3, optimize=True)
        for each in (R, other)
    )
    terms = frame.hat(Gamma, high=True)
    return largest(first + np.swapaxes(second, 0, 1)), largest(first, second, largest(terms) ** 2, frame.E**2)


def _coefficients(compiled: Callable[..., Any], C: Array, alpha: float, q: Array) -> Array:
    return np.asarray(compiled(q, C, alpha))


def _cubic(subject: Subject, frame: _Frame) -> Array:
    """A random totally symmetric tensor, constant in the frame, (n, n, n)."""
    n = subject.n
    part = random_contorsion(subject.rng("cubic"), n, 1.0 / np.sqrt(n))
    orders = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0), (1, 0, 2))
    return frame.lowered(np.sum([np.transpose(part, order) for order in orders], axis=0) / 2.0)


def _statistical(system: MechanicalSystem, C: jax.Array, alpha: Any) -> StatisticalConnection:
    return StatisticalConnection(system.metric, lambda p: C, alpha)


def _statistical_at(system: MechanicalSystem, q: jax.Array, C: jax.Array, alpha: jax.Array) -> jax.Array:
    return _statistical(system, C, alpha).coefficients_at(q)


def _statistical_curvature_at(system: MechanicalSystem, q: jax.Array, C: jax.Array) -> jax.Array:
    return _statistical(system, C, 1.0).curvature_at(q)


# --- the parts of torsion and non-metricity -----------------------------------------------------------------


@proposition(
    "parts", "T and Q in orthogonal parts, by least squares and permutations in the frame", _of_a_chart
)
def parts(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the parts of another connection."""
    q, frame, n = sample.q, _Frame(subject, sample.q), subject.n
    D = frame.lowered(random_contorsion(subject.rng("parts"), n, 1.0))
    other = frame.lowered(random_contorsion(subject.rng("parts control"), n, 1.0))
    decomposed: Decomposition = subject.compiled(_parts_at)(q, other if wrong else D)
    low = subject.koszul(q) - D
    T = frame.hat(low - np.swapaxes(low, 1, 2) - subject.s_low(q))
    Q = frame.hat(subject.dH(q) - np.einsum("kij->ijk", low) - np.einsum("jik->ijk", low))
    expected = _parts_of_torsion(T) + _parts_of_nonmetricity(Q)
    got = [frame.hat(np.asarray(part), high=index < 3) for index, part in enumerate(decomposed[:7])]
    gaps = [largest(a - b) for a, b in zip(got, expected, strict=True)]
    squares = [float(decomposed.squared_norms[name]) for name in Decomposition._fields[:7]]
    sizes = [abs(a - np.sum(b**2)) / (1.0 + np.sum(b**2)) for a, b in zip(squares, expected, strict=True)]
    return largest(np.array(gaps + sizes)), largest(T, Q, frame.hat(subject.koszul(q)), frame.hat(D), 1.0)


def _parts_at(system: MechanicalSystem, q: jax.Array, D: jax.Array) -> Decomposition:
    nabla = ContorsionConnection(system.metric, lambda p: D)
    return decompose_at(nabla, system.metric, q)


def _nearest(tensor: Array, basis: list[Array]) -> Array:
    """The orthogonal projection of a tensor onto the span of the tensors `basis`."""
    columns = np.stack([each.ravel() for each in basis], axis=1)
    nearest: Array = (columns @ np.linalg.lstsq(columns, tensor.ravel(), rcond=None)[0]).reshape(tensor.shape)
    return nearest


def _mean(tensor: Array) -> Array:
    """The mean over cyclic permutations of the indices."""
    mean: Array = (tensor + np.einsum("ijk->kij", tensor) + np.einsum("ijk->jki", tensor)) / 3.0
    return mean


def _parts_of_torsion(T: Array) -> list[Array]:
    """Trace, axial and tensor part of T in an orthonormal frame."""
    one = np.eye(len(T))
    spread = [np.einsum("ij,k->ijk", one, e) - np.einsum("ik,j->ijk", one, e) for e in one]
    trace, axial = _nearest(T, spread), _mean(T)
    return [trace, axial, T - trace - axial]


def _parts_of_nonmetricity(Q: Array) -> list[Array]:
    """Weyl's part, the other trace, the symmetric part and the rest of Q in an orthonormal frame."""
    one = np.eye(len(Q))
    scaling = [np.einsum("i,jk->ijk", e, one) for e in one]
    others = [np.einsum("j,ik->ijk", e, one) + np.einsum("k,ij->ijk", e, one) for e in one]
    weyl, traces = _nearest(Q, scaling), _nearest(Q, scaling + others)
    symmetric = _mean(Q - traces)
    return [weyl, traces - weyl, symmetric, Q - traces - symmetric]


# --- families of densities ----------------------------------------------------------------------------------


def _of_densities(subject: Subject) -> bool:
    """Whether the metric is Fisher's."""
    return isinstance(subject.metric, FisherMetric)


def _exponential(subject: Subject) -> bool:
    """Whether the connection of alpha = 1 is flat at the samples, so that the family is dually flat."""
    if not _of_densities(subject) or subject.n < 2:
        return False
    frames = [_Frame(subject, q) for q in subject.q]
    R = [np.asarray(subject.compiled(_alpha_curvature_at)(q)) for q in subject.q]
    hats = (
        np.einsum("ia,ijkl,jb,kc,ld->abcd", frame.L, each, *[frame.E] * 3)
        for frame, each in zip(frames, R, strict=True)
    )
    return all(largest(hat) < FLAT for hat in hats)


@proposition(
    "AN alpha", "E[(d_j d_k l + (1 - alpha) / 2 l_j l_k) l_i], by differences of log p", _of_densities
)
def alpha_connection(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: alpha of the other sign."""
    q, frame, alpha = sample.q, _Frame(subject, sample.q), 0.3 + subject.rng("alpha").uniform(0.2, 1.0)
    logarithms = subject.batch(_logarithms_at)

    def scores(points: Array) -> Array:
        return np.stack([subject.numerics.derivative(logarithms, p) for p in points])

    P, score, slope = (
        np.exp(logarithms(q[None])[0]),
        scores(q[None])[0],
        subject.numerics.derivative(scores, q),
    )
    bent = np.einsum("a,jka,ia->ijk", P, slope, score)
    cubic = np.einsum("a,ia,ja,ka->ijk", P, score, score, score)
    expected = bent + 0.5 * (1.0 + alpha if wrong else 1.0 - alpha) * cubic
    low = np.einsum("il,ljk->ijk", subject.H(q), np.asarray(subject.compiled(_alpha_at)(q, alpha)))
    return largest(frame.hat(low - expected)), largest(frame.hat(bent), frame.hat(cubic), 1.0)


@proposition(
    "AN flat", "R of alpha = -1 vanishes with that of alpha = 1: transport round squares", _exponential
)
def dually_flat(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: alpha = 0."""
    q, frame = sample.q, _Frame(subject, sample.q)
    u, w, z = subject.rng("flat" + str(q)).choice([-1.0, 1.0], size=(3, subject.n)) @ frame.E.T
    Gamma = _alpha_coefficients(subject, 0.0 if wrong else -1.0)
    gap = subject.numerics.curvature_of_loops(Gamma, q, u, w, z)
    return largest(frame.L.T @ gap), largest(frame.hat(Gamma(q), high=True), 1.0) ** 2


@proposition(
    "AN Pythagoras", "D(p,q) + D(q,r) = D(p,r), mixture geodesic to p, exponential to r", _exponential
)
def pythagoras(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the geodesics of the two connections exchanged."""
    q, frame = sample.q, _Frame(subject, sample.q)
    u, w = np.linalg.qr(subject.rng("Pythagoras" + str(q)).normal(size=(subject.n, 2)))[0].T @ frame.E.T
    alphas = (1.0, -1.0) if wrong else (-1.0, 1.0)
    p, r = (
        subject.numerics.geodesic(spray_of(_alpha_coefficients(subject, alpha)), q, v, 2.0 * FLOW_TIME)[0]
        for alpha, v in zip(alphas, (u, w), strict=True)
    )
    log_p, log_q, log_r = (subject.batch(_logarithms_at)(each[None])[0] for each in (p, q, r))
    legs = np.exp(log_p) @ (log_p - log_q), np.exp(log_q) @ (log_q - log_r)
    whole = np.asarray(subject.compiled(_divergence_at)(p, r))
    return abs(float(sum(legs) - whole)), largest(*legs)


def _alpha_coefficients(subject: Subject, alpha: float) -> Callable[[Array], Array]:
    compiled = subject.compiled(_alpha_at)
    return lambda q: np.asarray(compiled(q, alpha))


def _model(system: MechanicalSystem) -> StatisticalModel:
    assert isinstance(system.metric, FisherMetric)
    return StatisticalModel(system.metric)


def _alpha_at(system: MechanicalSystem, q: jax.Array, alpha: jax.Array) -> jax.Array:
    return _model(system).connection(alpha).coefficients_at(q)


def _alpha_curvature_at(system: MechanicalSystem, q: jax.Array) -> jax.Array:
    return _model(system).connection(1.0).curvature_at(q)


def _divergence_at(system: MechanicalSystem, p: jax.Array, q: jax.Array) -> jax.Array:
    return _model(system).divergence_at(p, q)


def _logarithms_at(system: MechanicalSystem, q: jax.Array) -> jax.Array:
    """The logarithms of the N outcomes' probabilities P_a at q, (N,)."""
    a = _model(system).metric.logarithms_at(q)
    return a - jnp.log(jnp.sum(jnp.exp(a)))
