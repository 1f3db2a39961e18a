"""Checks of curvature: identities of R, transport round small loops, neighbouring motions, centre of mass.

Tensors and vectors are compared in a frame that is orthonormal at the sample, so that no component is lost in
another's unit. A hat marks components there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import jax
import numpy as np

from connections.affine import CoefficientConnection
from connections.coriolis import MechanicalSystem
from connections.verify.coriolis import _worst
from connections.verify.families import FLOW_TIME
from connections.verify.measurement import Proposition, Sample, stated
from connections.verify.numerics import Array, largest, random_contorsion, spray_of
from connections.verify.riemannian import Fields
from connections.verify.subjects import Subject, _coefficients_at

PROPOSITIONS: list[Proposition] = []
proposition = partial(stated, PROPOSITIONS)

PointField = Callable[[Array], Array]  # q (nq,) -> components in the frame


def _can_turn(subject: Subject) -> bool:
    """Whether there are planes; a curve has no curvature of its own."""
    return subject.n >= 2


def _can_cycle(subject: Subject) -> bool:
    """Whether there are three directions; with two, Bianchi's sums vanish for every R."""
    return subject.n >= 3


class Sampled:
    """The connection under test less a contorsion, and a frame that is orthonormal at the sample.

    Parameters
    ----------
    subject, q : the system and the point.
    bent : whether a random contorsion without symmetry, constant in the frame, is subtracted; "symmetric"
        for one that adds no torsion.
    """

    def __init__(self, subject: Subject, q: Array, bent: bool | str) -> None:
        self.subject, self.q, n = subject, q, subject.n
        self.L = np.linalg.cholesky(subject.H(q))
        self.E = np.linalg.inv(self.L).T  # its columns are orthonormal
        low = np.einsum("ia,jb,kc,ijk->abc", *[self.E] * 3, subject.first_kind(q), optimize=True)
        self.size = largest(low, self.E)  # of symbols; on a flat space coordinates per unit of length
        rng = subject.rng("curvature" + str(q))
        vectors = rng.choice([-1.0, 1.0], size=(4, n)) * rng.uniform(0.5, 1.0, size=(4, n)) @ self.E.T
        steps = min(1.0, subject.room) / np.max(np.abs(vectors), axis=1, keepdims=True)
        self.vectors = steps * vectors  # within the reach of differences
        self.D = np.zeros((n, n, n))
        if bent:
            d = random_contorsion(rng, n, self.size / np.sqrt(n))
            d = 0.5 * (d + np.swapaxes(d, 1, 2)) if bent == "symmetric" else d
            self.D = np.einsum("ia,jb,kc,abc->ijk", *[self.L] * 3, d, optimize=True)
        self.Gamma = subject.second_kind(self.D)
        self._rates: dict[bytes, Array] = {}

    @classmethod
    def of(cls, subject: Subject, q: Array, bent: bool | str) -> Sampled:
        """The subject's at a sample, cached."""
        key = cls, q.tobytes(), bent
        if key not in subject._memory:
            subject._memory[key] = cls(subject, q, bent)
        sampled: Sampled = subject._memory[key]
        return sampled

    def hat(self, vector: Array) -> Array:
        """Components of a vector in the orthonormal frame."""
        return self.L.T @ vector

    def R(self, q: Array) -> Array:
        """R[l, k, i, j] of the connection, by the library."""
        return np.asarray(self.subject.compiled(_curvature_at)(q, self.D))

    @cached_property
    def R_here(self) -> Array:
        """R at the sample."""
        return self.R(self.q)

    @cached_property
    def R_hat(self) -> Array:
        """<<R(E_k, E_l) E_j, E_i>> at the sample."""
        R: Array = np.einsum("ia,ijkl,jb,kc,ld->abcd", self.L, self.R_here, *[self.E] * 3, optimize=True)
        return R

    @property
    def scale(self) -> float:
        """The largest term of `R_hat` before cancellation."""
        return largest(self.R_hat, self.size**2)

    def T(self, q: Array) -> Array:
        """T[i, j, k] from the coefficients, and brackets by differences."""
        Gamma = self.Gamma(q)
        torsion: Array = Gamma - np.swapaxes(Gamma, 1, 2) - self.subject.numerics.structure_functions(q)
        return torsion

    def covariant(self, tensor: PointField, x: Array, *vectors: Array) -> Array:
        """(nabla_x tensor)(*vectors) at the sample by differences, (n,); the first index is upper."""
        key = b"".join([tensor.__name__.encode(), x.tobytes(), *(vector.tobytes() for vector in vectors)])
        if key not in self._rates:
            self._rates[key] = self.subject.numerics.derivative_along(
                lambda points: np.stack([_of_vectors(tensor(p), *vectors) for p in points]), self.q, x
            )
        turning, here = np.einsum("ijk,j->ik", self.Gamma(self.q), x), tensor(self.q)
        rate: Array = self._rates[key] + turning @ _of_vectors(here, *vectors)
        for place, vector in enumerate(vectors):
            turned = (*vectors[:place], turning @ vector, *vectors[place + 1 :])
            rate = rate - _of_vectors(here, *turned)
        return rate


def _of_vectors(tensor: Array, *vectors: Array) -> Array:
    """The vector tensor(*vectors), (n,), from components whose first index is upper."""
    for vector in vectors:
        tensor = np.tensordot(tensor, vector, axes=(1, 0))
    return tensor


def _curvature_at(system: MechanicalSystem, q: jax.Array, D: jax.Array) -> jax.Array:
    """R[l, k, i, j] of the connection under test less the contorsion D."""

    def coefficients(p: jax.Array) -> jax.Array:
        return _coefficients_at(system, p, D)

    return CoefficientConnection(system.metric.frame, coefficients).curvature_at(q)


def _cyclic(terms: Callable[[Array, Array, Array], list[Array]], X: Array, Y: Array, Z: Array) -> list[Array]:
    """The terms of (X, Y, Z), (Y, Z, X) and (Z, X, Y)."""
    return terms(X, Y, Z) + terms(Y, Z, X) + terms(Z, X, Y)


def _sum_of(at: Sampled, terms: list[Array]) -> tuple[float, float]:
    """The size of a sum that should vanish, and of its largest term."""
    hats = [at.hat(term) for term in terms]
    return largest(sum(hats, np.zeros(at.subject.n))), largest(*hats)


@proposition(
    "Bianchi 1", "cyc R(X,Y)Z = cyc (nabla_X T)(Y,Z) + T(T(X,Y),Z), torsion T by differences", _can_cycle
)
def first_bianchi(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: T(T(X, Y), Z) forgotten."""
    at = Sampled.of(subject, sample.q, bent=True)
    T = at.T(sample.q)

    def terms(X: Array, Y: Array, Z: Array) -> list[Array]:
        twice = _of_vectors(T, _of_vectors(T, X, Y), Z)
        return [_of_vectors(at.R_here, Z, X, Y), -at.covariant(at.T, X, Y, Z), *([] if wrong else [-twice])]

    return _sum_of(at, _cyclic(terms, *at.vectors[:3]))


@proposition(
    "Bianchi 2", "cyc (nabla_X R)(Y,Z)W + R(T(X,Y),Z)W = 0 with torsion, nabla R by differences", _can_cycle
)
def second_bianchi(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: R(T(X, Y), Z) forgotten."""
    at = Sampled.of(subject, sample.q, bent=True)
    T, W = at.T(sample.q), at.vectors[3]

    def terms(X: Array, Y: Array, Z: Array) -> list[Array]:
        turned = _of_vectors(at.R_here, W, _of_vectors(T, X, Y), Z)
        return [at.covariant(at.R, X, W, Y, Z), *([] if wrong else [turned])]

    return _sum_of(at, _cyclic(terms, *at.vectors[:3]))


@proposition(
    "R symmetries", "R_ijkl = -R_jikl = -R_ijlk = R_klij, and cyc R_ijkl = 0", _can_turn, riemannian=True
)
def symmetries(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: R of the connection less a contorsion."""
    at = Sampled.of(subject, sample.q, bent=wrong)
    R = at.R_hat
    cyclic = R + np.transpose(R, (0, 2, 3, 1)) + np.transpose(R, (0, 3, 1, 2))
    gaps = (R + np.swapaxes(R, 0, 1), R + np.swapaxes(R, 2, 3), R - np.transpose(R, (2, 3, 0, 1)), cyclic)
    return largest(*gaps), at.scale


@proposition(
    "Ricci identity", "nabla2_X,Y Z - nabla2_Y,X Z = R(X,Y)Z - nabla_T(X,Y) Z, nested differences", _can_turn
)
def ricci_identity(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the term of the torsion forgotten."""
    at, fields = Sampled.of(subject, sample.q, bent=True), Fields.of(subject)
    q, X, Y = sample.q, at.vectors[0], at.vectors[1]

    def gradient(p: Array) -> Array:
        """(nabla Z)[i, j] = L_j Z^i + Gamma^i_jk Z^k."""
        slopes = subject.numerics.derivative(fields.on_batch("Z"), p).T
        field: Array = slopes + at.Gamma(p) @ fields.at("Z", p)
        return field

    terms = [at.covariant(gradient, X, Y), -at.covariant(gradient, Y, X)]
    terms.append(-_of_vectors(at.R_here, fields.at("Z", q), X, Y))
    torsion = gradient(q) @ _of_vectors(at.T(q), X, Y)
    return _sum_of(at, [*terms, *([] if wrong else [torsion])])


def _bending(subject: Subject, q: Array, v: Array) -> Array:
    """R(., v) v, (n, n): for a robot by `curvatures.curvature_operator`, else from the library's R."""
    if subject.bodies is not None and subject.bodies.curvature_operator is not None:
        return np.linalg.solve(subject.H(q), subject.bodies.curvature_operator(q, v))
    R = np.asarray(subject.compiled(_curvature_at)(q, np.zeros((subject.n,) * 3)))
    return _between(R, v)


def _between(R: Array, v: Array) -> Array:
    """R^l_kij v^k v^j, [l, i]."""
    bending: Array = np.einsum("lkij,k,j->li", R, v, v, optimize=True)
    return bending


@proposition(
    "sectional",
    "R(u,w)w, for sectional curvature, and the gap of w carried round small squares of u and w",
    _can_turn,
)
def sectional(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: transport by the connection less a contorsion."""
    at, q = Sampled.of(subject, sample.q, bent=wrong), sample.q
    u, w = at.vectors[:2]
    gap = subject.numerics.curvature_of_loops(at.Gamma, q, u, w, w) - _bending(subject, q, w) @ u
    size = np.linalg.norm(at.hat(u)) * np.linalg.norm(at.hat(w)) ** 2
    return largest(at.hat(gap)) / float(size), at.scale


@proposition(
    "Jacobi", "D_t D_t eta = -R(eta,v)v, eta from neighbouring geodesics", _can_turn, riemannian=True
)
def jacobi(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: R at the sample of the connection less a contorsion, whatever the point."""
    at, numerics = Sampled.of(subject, sample.q, bent=False), subject.numerics
    q, Gamma, (v, eta, w) = sample.q, at.Gamma, at.vectors[:3]
    other = Sampled.of(subject, q, bent=True)

    def bending(p: Array, velocity: Array) -> Array:
        return _between(other.R_here, velocity) if wrong else _bending(subject, p, velocity)

    start = w - _of_vectors(Gamma(q), eta, v)  # the velocity's change, if D_t eta = w
    p, velocity, parted, dv = numerics.neighbours(spray_of(Gamma), q, v, eta, start, FLOW_TIME)
    carried, rate = numerics.jacobi_field(Gamma, bending, q, v, eta, w, FLOW_TIME)
    L, turned = np.linalg.cholesky(subject.H(p)).T, _of_vectors(Gamma(p), parted, velocity)
    gaps = largest(L @ (parted - carried)), largest(L @ (dv + turned - rate))
    return _worst(list(zip(gaps, (largest(L @ parted), largest(L @ dv, L @ turned)), strict=True)))


def _floats(subject: Subject) -> bool:
    """Whether the centre of mass moves freely."""
    return subject.bodies is not None and subject.bodies.center_jacobian is not None


@proposition(
    "E (42)",
    "the centre of mass decouples: R(., s) = 0 and R(.,.) s = 0 if s moves only it",
    _floats,
    riemannian=True,
)
def centre_of_mass(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: a motion in which other parts have momentum."""
    assert subject.bodies is not None and subject.bodies.center_jacobian is not None
    at, q = Sampled.of(subject, sample.q, bent=False), sample.q
    s = at.E.T @ np.asarray(subject.bodies.center_jacobian(q)).T @ subject.rng("E (42)").normal(size=3)
    s = at.hat(at.vectors[0]) if wrong else s
    s = s / np.linalg.norm(s)
    K = at.E.T @ subject.H(q) @ _bending(subject, q, at.E @ s) @ at.E
    return largest(at.R_hat @ s, np.einsum("ijkl,j->ikl", at.R_hat, s), K), at.scale
