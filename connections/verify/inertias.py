"""Checks of inertias as a manifold, and of natural adaptation, body by body ([LKP]).

The true body is the subject's, the estimate another one near it, T P T^T with a random T, and the covector
a = Y^T s is random. The formulas are written a second time here, by roots, inverses and determinants of
pseudo-inertias, and by spatial inertias (6, 6) that are seen from another frame.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from connections.control.laws.inertia_cone import InertiaCone
from connections.multibody.inertia import inertia_of, inertia_of_matrix, pseudo_inertia_basis
from connections.verify.bodies import cross
from connections.verify.coriolis import _worst
from connections.verify.measurement import Proposition, Sample, stated
from connections.verify.numerics import Array, largest
from connections.verify.subjects import Subject

PROPOSITIONS: list[Proposition] = []
proposition = partial(stated, PROPOSITIONS)

_REGULAR = 1e-9  # the smallest eigenvalue of a pseudo-inertia whose diagonal is 1
_LENGTH = 0.8  # of a step in the metric, less than the longest that the library takes
_STEP = 0.01  # of differences, on a line whose singularities are a length of 1 or more away
_STENCIL = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))  # of the first derivative, order 8


class _Pair(NamedTuple):
    """A body, an estimate of it, and a covector."""

    cone: InertiaCone
    truth: Array  # (10,) parameters, additions to nothing
    estimate: Array
    covector: Array
    P: Array  # (4, 4)
    Q: Array  # of the estimate


def has_regular_bodies(subject: Subject) -> bool:
    """Whether some body has a positive definite pseudo-inertia; a planar link and a point mass have not."""
    return subject.bodies is not None and any(_is_regular(inertia) for inertia in subject.bodies.inertias)


def _is_regular(inertia: Array) -> bool:
    P = _pseudo(_parameters(np.asarray(inertia)))
    sizes = np.sqrt(np.abs(np.diag(P)))
    if not sizes.all():
        return False
    return bool(np.linalg.eigvalsh(P / np.outer(sizes, sizes))[0] > _REGULAR)


def _parameters(inertia: Array) -> Array:
    body = inertia_of_matrix(inertia)
    return np.array([body.mass, *body.first_moment, *body.rotational[np.tril_indices(3)]])


def _pseudo(parameters: Array) -> Array:
    """P by blocks, (4, 4)."""
    body = inertia_of(parameters)
    Sigma = np.trace(body.rotational) / 2.0 * np.eye(3) - body.rotational
    return np.block([[Sigma, body.first_moment[:, None]], [body.first_moment[None], np.array([[body.mass]])]])


def _pairs(subject: Subject, salt: str) -> list[_Pair]:
    assert subject.bodies is not None
    rng, pairs, E = subject.rng(salt), [], pseudo_inertia_basis()
    for inertia in map(np.asarray, subject.bodies.inertias):
        if not _is_regular(inertia):
            continue
        truth = _parameters(inertia)
        P = _pseudo(truth)
        T = np.linalg.cholesky(P) @ (np.eye(4) + 0.3 * rng.normal(size=(4, 4)))
        Q = T @ T.T
        S = np.linalg.inv(T).T @ _symmetric(rng.normal(size=(4, 4))) @ np.linalg.inv(T)
        covector = np.einsum("ij,kij->k", S, E)
        body = np.array(
            [[Q[0, 0], Q[0, 1], Q[0, 2]], [Q[0, 1], Q[1, 1], Q[1, 2]], [Q[0, 2], Q[1, 2], Q[2, 2]]]
        )
        rotational = np.trace(body) * np.eye(3) - body
        estimate = np.array([Q[3, 3], *Q[:3, 3], *rotational[np.tril_indices(3)]])
        cone = InertiaCone(("body",), (), np.zeros(10), None)
        pairs.append(_Pair(cone, truth, estimate, covector, P, Q))
    return pairs


def _dual(covector: Array) -> Array:
    """S, (4, 4), entry by entry."""
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = covector
    rows = [[yy + zz, -xy / 2, -xz / 2, hx / 2], [0, xx + zz, -yz / 2, hy / 2], [0, 0, xx + yy, hz / 2]]
    upper = np.array([*rows, [0, 0, 0, m]])
    return np.asarray(upper + np.triu(upper, 1).T)


def _symmetric(X: Array) -> Array:
    return np.asarray((X + X.T) / 2.0)


def _root(P: Array) -> Array:
    eigenvalues, U = np.linalg.eigh(P)
    return np.asarray((U * np.sqrt(eigenvalues)) @ U.T)


def _divergence(P: Array, Q: Array) -> float:
    """tr(Q^-1 P) - log det P + log det Q - 4."""
    return float(np.trace(np.linalg.solve(Q, P)) - np.linalg.slogdet(P)[1] + np.linalg.slogdet(Q)[1] - len(P))


@proposition(
    "LKP cone", "L exp(-k L^T S L) L^T = P^1/2 exp(-k P^1/2 S P^1/2) P^1/2, positive", has_regular_bodies
)
def cone(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: Euler's step P - k P S P, far enough for a negative eigenvalue."""
    measured = []
    for pair in _pairs(subject, "LKP cone"):
        root, S = _root(pair.Q), _dual(pair.covector)
        X = root @ S @ root
        k = _LENGTH / np.linalg.norm(X)
        eigenvalues, U = np.linalg.eigh(X)
        formula = (U * np.exp(-k * eigenvalues)) @ U.T  # the end, seen from P^1/2
        if wrong:
            end = pair.Q - 4.0 * k * pair.Q @ S @ pair.Q
        else:
            free = np.array([np.inf])
            end = _pseudo(np.asarray(pair.cone.geodesic_step(pair.estimate, k * pair.covector, 1.0, free)))
        inverse = np.linalg.inv(root)
        seen = inverse @ end @ inverse
        outside = max(0.0, -float(np.linalg.eigvalsh(seen)[0]))
        measured.append((largest(seen - formula) + outside, largest(formula)))
    return _worst(measured)


@proposition(
    "LKP frames", "gamma P S P commutes with changes of the body's frame and unit", has_regular_bodies
)
def frames(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the constant gain of the estimate's frame and unit, which is another one elsewhere."""
    measured = []
    for pair in _pairs(subject, "LKP frames"):
        size = np.sqrt(np.trace(pair.Q[:3, :3]) / pair.Q[3, 3])  # a radius
        M = _change_of_frame(subject.rng("LKP frames, other"), size)
        covector = np.linalg.solve(M.T, pair.covector)
        here = np.asarray(pair.cone.direction(pair.estimate, pair.covector))
        other = M @ pair.estimate
        there = np.asarray(pair.cone.direction(other, covector))
        if wrong:
            here, there = pair.covector * here[0] / pair.covector[0], covector * there[0] / covector[0]
        units = np.asarray(pair.cone.units(other))
        expected = M @ here / units
        measured.append((largest(there / units - expected), largest(expected)))
    return _worst(measured)


def _change_of_frame(rng: np.random.Generator, size: float) -> Array:
    """M (10, 10): parameters in another frame, a distance of `size` away, and in twice the unit of length."""
    axis = rng.normal(size=3)
    angle = np.linalg.norm(axis)
    k = cross(axis / angle)
    R = np.eye(3) + np.sin(angle) * k + (1.0 - np.cos(angle)) * k @ k
    X = np.block([[R, np.zeros((3, 3))], [R @ cross(size * axis / angle), R]])  # to old axes, of twists
    columns = [_parameters(X.T @ inertia_of(row).matrix @ X) for row in np.eye(10)]
    units = np.array([1.0, *[0.5] * 3, *[0.25] * 6])
    return np.asarray(units[:, None] * np.stack(columns, axis=1))


@proposition(
    "LKP rate",
    "d/dt d(P || Phat) = -gamma a . (pihat - pi) along Phat' = -gamma Phat S Phat",
    has_regular_bodies,
)
def rate(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the divergence with its arguments exchanged."""
    measured = []
    for pair in _pairs(subject, "LKP rate"):
        change = -np.asarray(pair.cone.direction(pair.estimate, pair.covector))
        velocity = _pseudo(change)
        white = np.linalg.inv(np.linalg.cholesky(pair.Q))
        pace, apart = (float(np.linalg.norm(white @ X @ white.T)) for X in (velocity, pair.Q - pair.P))
        h = _STEP / pace

        slope = 0.0
        for n, weight in _STENCIL:
            forth, back = (pair.Q + sign * n * h * velocity for sign in (1.0, -1.0))
            if wrong:
                slope += weight / h * (_divergence(forth, pair.P) - _divergence(back, pair.P))
            else:
                slope += weight / h * (_divergence(pair.P, forth) - _divergence(pair.P, back))
        power = float(pair.covector @ (pair.estimate - pair.truth))
        measured.append((abs(slope + power), pace * apart))
    return _worst(measured)


@proposition("LKP dual", "d(P || Q) = d(Q^-1 || P^-1), d by determinants", has_regular_bodies)
def dual(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: the inverses in the order of P and Q."""
    measured = []
    for pair in _pairs(subject, "LKP dual"):
        P, Q = np.linalg.inv(pair.P), np.linalg.inv(pair.Q)
        other = _divergence(P, Q) if wrong else _divergence(Q, P)
        found = float(pair.cone.divergence(pair.truth, pair.estimate))
        measured.append((abs(found - other), abs(found) + abs(other)))
    return _worst(measured)
