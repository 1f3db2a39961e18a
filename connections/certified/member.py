"""The member of the contorsion family with the smallest k_C over a box of postures, and how near it is to it.

Members are Gamma* - D with a 3-form D, here the same at all postures. Each posture with unit vectors z, v, y
gives a plane below the convex function k_C(D):

    k_C(D) >= Gamma*_ijk z_i v_j y_k - D_ijk z_i v_j y_k.

The least maximum of planes is a linear program, and its value is below k_C of **every** D. So is the norm of
the part of Gamma* that is symmetric in v and y, to which no D adds: |C(v) v| <= k_C |v|^2. In coordinates it
is Gamma* itself, and D = 0 is the best. Planes are added where ascent finds the largest values (Kelley's
cutting planes, in a region of trust); `coriolis_bound` proves the result's upper end.

Source: derived here; J. E. Kelley, J. SIAM 8, 703 (1960).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import linprog

from connections import multibody as mb
from connections.certified.coriolis import (
    CoriolisBound,
    Directions,
    Peaks,
    Symbols,
    coriolis_bound,
    require_positive,
)
from connections.certified.interval import Interval
from connections.certified.postures import Postures
from connections.certified.trilinear import attained

_OTHERS = 60  # local maxima from random directions, of the best postures together
_PLANES = 1500  # of the linear program: those that are highest at the last D
_FAR = 4.0  # where |D| entry by entry ends, relative to the first k_C: a D beyond this has a larger k_C


@dataclass(frozen=True, eq=False)
class SmallestCoriolis:
    """The contorsion whose k_C over a box is the smallest that was found, and what no contorsion goes below.

    Parameters
    ----------
    contorsion : D (n, n, n), a 3-form, the same at all postures; C is that of Gamma* - D.
    smallest : the infimum of k_C over all constant D: its lower end is the linear program's value.
    bound : k_C of this D.

    Examples
    --------
    The C of the result, of a ball of 2 kg, at a velocity.

    >>> import numpy as np
    >>> from connections import certified, multibody as mb
    >>> ball = mb.Mechanism()
    >>> ball.add_body("ball", 2.0, inertia=0.01 * np.eye(3))
    >>> ball.add_joint("base", "world", "ball", mb.Free())
    >>> robot, v = ball.build(), [0.0, 0.0, 3.0, 1.0, 0.0, 0.0]
    >>> D = certified.smallest_coriolis(robot).contorsion
    >>> C = mb.coriolis_matrix(robot, robot.neutral(), v) - np.einsum("ijk,j->ik", D, v)
    >>> np.round(C @ v, 2) + 0.0
    array([0., 0., 0., 0., 6., 0.])
    """

    contorsion: np.ndarray
    smallest: Interval
    bound: CoriolisBound


def smallest_coriolis(
    robot: mb.Model, limits: Any = None, *, rtol: float = 0.05, seconds: float = 120.0
) -> SmallestCoriolis:
    """The member Gamma* - D, D constant in the robot's frame, with the smallest k_C over all postures.

    Of a robot that floats, D has components of its base alone, and the search starts at the best D of one
    round body; the lower end holds for all D.

    Parameters
    ----------
    robot, limits : as in `coriolis_bound`.
    rtol : the gap of k_C of the result.
    seconds : for both, the search of D, which takes half of the time at most, and the proof, s.

    Raises
    ------
    ModelError, ValueError : as `coriolis_bound`.

    Examples
    --------
    A small ball: half of its mass, where Christoffel's matrix has its mass, 2 kg.

    >>> import numpy as np
    >>> from connections import certified, multibody as mb
    >>> ball = mb.Mechanism()
    >>> ball.add_body("ball", 2.0, inertia=0.01 * np.eye(3))
    >>> ball.add_joint("base", "world", "ball", mb.Free())
    >>> smallest = certified.smallest_coriolis(ball.build()).smallest
    >>> round(smallest.lower, 3), smallest.upper < 1.06
    (1.0, True)

    Source: derived here.
    """
    require_positive(rtol=rtol, seconds=seconds)
    start = time.monotonic()
    search = _Planes(Postures.of(robot, limits), start + seconds / 2.0)
    below = search.run(rtol / 3.0)
    D = search.best
    left = max(0.1, seconds - (time.monotonic() - start))
    bound = coriolis_bound(robot, limits, contorsion=D, rtol=rtol, seconds=left)
    smallest = Interval(
        min(below, bound.interval.upper), bound.interval.upper, reached=bound.interval.reached
    )
    return SmallestCoriolis(D, smallest, bound)


@dataclass(eq=False)
class _Planes:
    """Planes below k_C(D), D by its components (p,) of triples i < j < k."""

    postures: Postures
    deadline: float

    def __post_init__(self) -> None:
        self.n = self.postures.robot.nv
        self.base = _first_joint(self.postures)
        moving = self.base or range(self.n)
        self.triples = np.array(list(combinations(moving, 3)), dtype=int).reshape(-1, 3)
        self.heights, self.slopes = np.zeros(0), np.zeros((0, len(self.triples)))
        self.christoffel = Symbols.of(self.postures, "christoffel")
        self.best = np.zeros((self.n,) * 3)

    def run(self, rtol: float) -> float:
        """Find the best D; an end below k_C of every D."""
        peaks = self.peaks(self.best, None, 0)
        value, at, trust = peaks.value, np.zeros(len(self.triples)), 0.3
        symmetric = replace(self.christoffel, symmetric=True)
        floor = symmetric.climbed(deadline=self.deadline).value - self.christoffel.error
        first, below = value, floor
        if len(self.base) == 6 and value - floor > rtol * value:
            guess = _of_one_body(self.postures)
            others = self.peaks(guess, peaks, 1)
            if others.value < value:
                peaks, value, at, self.best = others, others.value, guess[tuple(self.triples.T)], guess
        for turn in range(1, 200):
            if value - floor > rtol * value:
                below = max(floor, self.program(np.zeros(len(at)), _FAR * first)[1] * (1.0 - 1e-6))
            if value - below <= rtol * value or time.monotonic() > self.deadline:
                break
            new, expected = self.program(at, trust * first)
            peaks = self.peaks(self.form(new), peaks, turn)
            if peaks.value < value:
                trust *= 1.5 if value - peaks.value > 0.5 * (value - expected) else 1.0
                value, at, self.best = peaks.value, new, self.form(new)
            else:
                trust *= 0.6
        return (below if len(self.base) in (0, self.n) else floor) * (1.0 - 1e-9)

    def peaks(self, D: np.ndarray, before: Peaks | None, seed: int) -> Peaks:
        """The largest values of Gamma* - D that ascent finds; they and others become planes."""
        symbols = Symbols.of(self.postures, "christoffel", D)
        peaks = symbols.climbed(600, 12, seed, self.deadline)
        if before is not None:
            z, v, y = (vectors[:12] for vectors in before.directions)
            peaks = _joined(
                peaks, symbols.climbed_from(before.points[:12], before.values[:12], (z, v, y), self.deadline)
            )
        # Of each posture other local maxima, too.
        points, rng = (
            peaks.points[np.resize(np.arange(len(peaks.points)), _OTHERS)],
            np.random.default_rng(seed),
        )
        starts = list(rng.standard_normal((2, _OTHERS, self.n)))
        peaks = _joined(peaks, Peaks(*_in_order(points, attained(symbols.at(points), 0, 40, given=starts))))
        z, v, y = peaks.directions
        heights = np.einsum("pijk,pi,pj,pk->p", self.christoffel.at(peaks.points), z, v, y, optimize=True)
        i, j, k = self.triples.T
        slopes = np.linalg.det(np.stack([w[:, [i, j, k]] for w in (z, v, y)], axis=1).transpose(0, 3, 1, 2))
        self.heights = np.append(self.heights, heights)
        self.slopes = np.concatenate([self.slopes, slopes])
        largest = np.argsort(-(self.heights - self.slopes @ D[i, j, k]))[:_PLANES]
        self.heights, self.slopes = self.heights[largest], self.slopes[largest]
        return peaks

    def program(self, centre: np.ndarray, radius: float) -> tuple[np.ndarray, float]:
        """The D within a distance of a centre with the least maximum of all planes, and this maximum."""
        p = len(centre)
        planes = np.hstack([-self.slopes, -np.ones((len(self.slopes), 1))])
        ends = [(c - radius, c + radius) for c in centre] + [(0.0, None)]
        found = linprog(
            np.append(np.zeros(p), 1.0), A_ub=planes, b_ub=-self.heights, bounds=ends, method="highs"
        )
        if not found.success:
            return centre, 0.0
        return found.x[:p], float(found.x[p])

    def form(self, components: np.ndarray) -> np.ndarray:
        """D (n, n, n) of its components (p,), antisymmetric to the last bit."""
        D = np.zeros((self.n,) * 3)
        i, j, k = self.triples.T
        for a, b, c in ((i, j, k), (j, k, i), (k, i, j)):
            D[a, b, c] = components
            D[a, c, b] = -components
        return D


def _first_joint(postures: Postures) -> list[int]:
    """The components of a first joint with rotations as coordinates; none without one."""
    for element in postures.robot.kinematics.elements:
        if element.joint.quaternion is not None:
            return list(range(element.v.start, element.v.stop))
    return []


def _of_one_body(postures: Postures) -> np.ndarray:
    """D (n, n, n) that is the best for a round body with the robot's mass and centre, without inertia."""
    robot, n = postures.robot, postures.robot.nv
    middle = np.where(
        np.isfinite(postures.upper - postures.lower), (postures.lower + postures.upper) / 2.0, 0.0
    )
    q = postures.configurations(middle[None])[0]
    D, mass, centre = np.zeros((n, n, n)), float(robot.kinematics.tree.mass), mb.center_of_mass(robot, q)
    epsilon = np.cross(np.eye(3)[:, None], np.eye(3)[None]).transpose(2, 0, 1)
    of_body = np.zeros((6, 6, 6))
    for a, b, c in ((0, 0, 0), (0, 3, 3), (3, 0, 3), (3, 3, 0)):
        of_body[a : a + 3, b : b + 3, c : c + 3] = 0.5 * mass * epsilon
    to_centre = np.eye(6)  # its velocity is v + omega x c
    to_centre[3:, :3] = np.cross(np.eye(3), centre).T
    D[:6, :6, :6] = np.einsum("ijk,ia,jb,kc->abc", of_body, to_centre, to_centre, to_centre)
    return D


def _joined(one: Peaks, other: Peaks) -> Peaks:
    """The peaks of both, largest first."""
    points = np.concatenate([one.points, other.points])
    z, v, y = (np.concatenate(two) for two in zip(one.directions, other.directions, strict=True))
    return Peaks(*_in_order(points, (np.concatenate([one.values, other.values]), (z, v, y))))


def _in_order(
    points: np.ndarray, found: tuple[np.ndarray, Directions]
) -> tuple[np.ndarray, np.ndarray, Directions]:
    """Values (P,), points (P, m) and directions, largest value first."""
    order = np.argsort(-found[0])
    z, v, y = (vector[order] for vector in found[1])
    return found[0][order], points[order], (z, v, y)
