"""Checks of certified constants of a robot: no posture of a box is outside their ends, and one attains them.

The box is around the sample. Three coordinates move, and the others rest. Its postures are random ones and
the one where an end is said to be attained. What is computed there does not use the library's derivatives.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from connections import multibody as mb
from connections.certified import constants as certified_constants
from connections.certified import coriolis_bound
from connections.certified.postures import Postures
from connections.checks import ModelError
from connections.verify.coriolis import _worst
from connections.verify.measurement import Proposition, Sample, stated
from connections.verify.numerics import Array
from connections.verify.subjects import Subject

PROPOSITIONS: list[Proposition] = []
proposition = partial(stated, PROPOSITIONS)

_MOVING, _FAR, _POSTURES = 3, 0.3, 24  # coordinates of the box; rad and m to both sides; random postures
_RTOL, _SECONDS = 0.1, 0.3  # of a search; ends hold whenever it stops
_MOST = 8  # velocities of a robot whose k_C is bounded: searches for others take longer


class _Surroundings(NamedTuple):
    """A robot, the ends of its coordinates, (nq,) each, and postures between them, (P, nq)."""

    robot: mb.Model
    limits: tuple[Array, Array]
    postures: Array


def has_constants(subject: Subject) -> bool:
    """Whether the subject is a robot whose constants can be certified: a tree without helical joints."""
    if subject.bodies is None or subject.bodies.robot is None:
        return False
    try:
        Postures.of(subject.bodies.robot)
    except ModelError:
        return False
    return True


def has_slope(subject: Subject) -> bool:
    """Whether it also has rates of coordinates as velocities, for which dg/dq is a matrix."""
    return has_constants(subject) and not _robot(subject).kinematics.quaternions


def is_small(subject: Subject) -> bool:
    """Whether k_C is bounded in a second."""
    return has_constants(subject) and subject.n <= _MOST


def _robot(subject: Subject) -> mb.Model:
    assert subject.bodies is not None and subject.bodies.robot is not None
    return subject.bodies.robot


def _around(subject: Subject, sample: Sample, salt: str) -> _Surroundings:
    robot, rng = _robot(subject), subject.rng(salt)
    moving = rng.permutation(Postures.of(robot).places)[:_MOVING]
    far = np.zeros(len(sample.q))
    far[moving] = _FAR
    postures = sample.q + far * rng.uniform(-1.0, 1.0, (_POSTURES, len(far)))
    return _Surroundings(robot, (sample.q - far, sample.q + far), postures)


def _compared(
    values: Array, there: float, attained: float, proved: float, size: float, wrong: bool
) -> list[tuple[float, float]]:
    """How far values are above the proved end, and how far the attained one is above the value there."""
    end = attained - 0.02 * abs(attained) if wrong else proved
    above = max(0.0, float(values.max()) - end, there - end)
    return [(above, abs(attained)), (max(0.0, attained - there), size)]


@proposition("sup H", "the eigenvalues of H are between the certified ends, at every posture", has_constants)
def eigenvalues(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: ends 2 % beyond the ones that are attained."""
    box = _around(subject, sample, "sup H")
    found = certified_constants(
        box.robot, box.limits, only=["lambda_max", "lambda_min"], rtol=_RTOL, seconds=2.0 * _SECONDS
    )
    largest, smallest = found["lambda_max"], found["lambda_min"]
    assert largest.posture is not None and smallest.posture is not None
    points = np.concatenate([box.postures, [largest.posture, smallest.posture]])
    values = np.linalg.eigvalsh(np.asarray(subject.masses(points)))
    size = abs(largest.lower)
    above = _compared(values[:, -1], float(values[-2, -1]), largest.lower, largest.upper, size, wrong)
    below = _compared(-values[:, 0], -float(values[-1, 0]), -smallest.upper, -smallest.lower, size, wrong)
    return _worst([*above, *below])


@proposition("sup dg", "|g(q) - g(p)| <= k_g |q - p|, at every two postures", has_slope)
def slopes(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: k_g 2 % below the one that is attained."""
    box = _around(subject, sample, "sup dg")
    k_g = certified_constants(box.robot, box.limits, only=["k_g"], rtol=_RTOL, seconds=_SECONDS)["k_g"]
    assert k_g.posture is not None
    gravity = partial(mb.gravity, box.robot)
    apart = np.linalg.norm(np.diff(box.postures, axis=0), axis=1)
    ratios = np.linalg.norm(np.diff(gravity(box.postures), axis=0), axis=1) / apart
    slope = subject.numerics.derivative(gravity, k_g.posture)
    there = float(np.linalg.norm(slope, 2))
    return _worst(_compared(ratios, there, k_g.lower, k_g.upper, abs(k_g.lower), wrong))


@proposition("sup C", "|C(q, v) y| <= k_C |v| |y|, at every posture", is_small)
def velocity_products(subject: Subject, sample: Sample, wrong: bool) -> tuple[float, float]:
    """Control: k_C 2 % below the one that is attained."""
    box, rng = _around(subject, sample, "sup C"), subject.rng("sup C, velocities")
    bound = coriolis_bound(box.robot, box.limits, rtol=_RTOL, seconds=_SECONDS)
    k_C, (z, v, y) = bound.interval, bound.directions
    sizes = [0.0]
    for q in (sample.q, box.postures[0]):
        C = np.einsum("ijk,pj->pik", subject.koszul(q), _unit(rng.standard_normal((50, subject.n))))
        sizes.append(float(np.linalg.norm(C, 2, axis=(1, 2)).max()))
    there = float(np.einsum("ijk,i,j,k->", subject.koszul(np.asarray(k_C.posture)), z, v, y))
    return _worst(_compared(np.array(sizes), there, k_C.lower, k_C.upper, abs(k_C.lower), wrong))


def _unit(v: Array) -> Array:
    return np.asarray(v / np.linalg.norm(v, axis=1, keepdims=True))
