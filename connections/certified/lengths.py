"""Second derivatives of a robot's matrices, bounded at every posture by lengths, masses and moments.

Body b has mass m_b, its centre is at most L_kb from the axis of the joint k that carries it, whatever the
joints between them do, and

    H_kl = sum_b m_b c_kb . c_lb + z_k . I_b z_l,    c_kb = z_k x (p_b - o_k) of a turn, z_k of a slide.

With the other coordinates held, what joint i carries turns rigidly: its own columns and those behind it turn
with it, the ones before it see p_b on a circle of radius rho <= L_ib, c_kb = a_k + z_k x (R rho). So H_kl is
a trigonometric polynomial in q_i, of degree 0 for i <= k, l, of degree 1 for k < i <= l, with an amplitude of
at most its supremum, and of degree 2 for k, l < i, where, with t_k the sine of the angle of z_k and z_i,

    |d^2 (c_kb . c_lb) / dq_i^2| <= (|a_k| + |a_l|) rho + 2 t_k t_l rho^2,
    |d^2 (z_k . I_b z_l) / dq_i^2| <= (2 t_k t_l + (t_k + t_l) / 2) (largest moment - least moment).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from connections.certified.postures import Postures
from connections.checks import ModelError
from connections.multibody.joints import ElementaryJoint

ROUND_UP = 1.0 + 1e-9  # sums and products of numbers that are not negative: far above their round-off


@dataclass(frozen=True, eq=False)
class Lengths:
    """Path lengths of a robot over a box of postures, in the order of the N bodies and n components of v.

    Parameters
    ----------
    turns : (n,) whether a component turns what it carries.
    carries : (N, n) whether a component moves a body.
    before : (n, n) [k, i] whether k's joint carries i's joint and is another one.
    tilts, cosines : (n, n) [k, i] the largest sine and cosine of the angle of two axes, k before i.
    origins : (n, n) m, [k, i], the farthest distance of the origin of i from the axis of k; 1 of a slide.
    heights : (N, n) m, the farthest distance of a body's centre from the plane of the origin across the axis.
    distances : (N, n) m, the farthest distance of a body's centre from the origin of a joint.
    levers : (N, n) m, L: the farthest distance of a body's centre from the axis of a component; 1 of a slide.
    reach : (N,) m, the farthest distance of a body's centre from the origin of its tree's first joint.
    centres : (N, 3) of the bodies, in their frames, m.
    masses : (N,) kg. moments : (N,) the largest principal moment about the centre, kg m^2.
    spreads : (N,) the difference of the largest and the least one.
    """

    turns: np.ndarray
    carries: np.ndarray
    before: np.ndarray
    tilts: np.ndarray
    cosines: np.ndarray
    origins: np.ndarray
    heights: np.ndarray
    distances: np.ndarray
    levers: np.ndarray
    reach: np.ndarray
    centres: np.ndarray
    masses: np.ndarray
    moments: np.ndarray
    spreads: np.ndarray

    @classmethod
    def of(cls, postures: Postures) -> Lengths:
        """The lengths of all paths."""
        return _lengths(postures)

    def limbs(self, components: np.ndarray, depends: np.ndarray) -> tuple[tuple[int, ...], ...]:
        """Indices (of 0 .. m - 1) of coordinates that carry no body together with those of another limb."""
        found: list[tuple[set[int], np.ndarray]] = []
        for i in np.flatnonzero(depends):
            limb, bodies = {int(i)}, self.carries[:, components[i]]
            apart = [(other, moved) for other, moved in found if not (moved & bodies).any()]
            for other, moved in found:
                if (moved & bodies).any():
                    limb, bodies = limb | other, bodies | moved
            found = [*apart, (limb, bodies)]
        return tuple(tuple(sorted(limb)) for limb, _ in found)

    def mass_matrix(self) -> np.ndarray:
        """(n, n) sup |H_kl| of what bodies contribute, armature left out."""
        both = self.turns[:, None] & self.turns
        found = np.einsum("b,bk,bl->kl", self.masses, self._levers, self._levers)
        found += np.einsum("b,bk,bl->kl", self.moments, self._carried, self._carried) * both
        return np.asarray(ROUND_UP * found)

    def bends_of_mass_matrix(self, components: np.ndarray) -> np.ndarray:
        """(m, n, n) sup |d^2 H_kl / dq_i^2| for the components i (m,) of v."""
        bends = [self._bend_of_mass_matrix(int(i)) for i in components]
        return np.array(bends).reshape(-1, len(self.turns), len(self.turns))

    def bends_of_slope(self, components: np.ndarray) -> np.ndarray:
        """(m, m, n, n) [i, j, k, l] sup |d^2 (d H_kl / dq_j) / dq_i^2|.

        Of h of degree d in an angle, |h'| <= d sup |h|, |h''| <= d^2 sup |h| and |h'| <= pi / 2 sup |h''|.
        Together H is of degree 2 in all slides.
        """
        bends, turns = self.bends_of_mass_matrix(components), self.turns[components]
        inner = self.before[:, components].T.astype(float)
        degrees = inner[:, :, None] + inner[:, None, :]  # (m, n, n)
        steep = np.pi / 2.0 * bends  # sup |dH_kl / dq_j|
        for row, j in enumerate(components):
            if not self.turns[j]:
                slid = np.outer(
                    (self.masses * self.carries[:, j]) @ self._levers, self.before[:, j] & self.turns
                )
                steep[row] = ROUND_UP * (slid + slid.T)
        first = degrees[None] * bends[:, None]
        other = degrees[:, None] ** 2 * steep[None]
        ways = turns[:, None, None, None], turns[None, :, None, None]
        found = np.where(ways[0] & ways[1], np.minimum(first, other), np.where(ways[0], other, first))
        return np.asarray(ROUND_UP * np.where(ways[0] | ways[1], found, 0.0))

    def bends_of_gravity(self, components: np.ndarray) -> np.ndarray:
        """(m, n) sup |d^2 g_k / dq_i^2| per m/s^2 of gravity, from the outermost lever."""
        return self.by_outermost(self.outermost(components, 1), self.levers)

    def bends_of_gravity_slope(self, components: np.ndarray) -> np.ndarray:
        """(m, n, n) sup |d^2 (d g_k / dq_l) / dq_i^2| per m/s^2 of gravity."""
        return self.by_outermost(self.outermost(components, 2), self.levers)

    def by_outermost(self, outermost: np.ndarray, levers: np.ndarray) -> np.ndarray:
        """(..., m, n, ...) sup |d^2 g / dq_i^2|, by moments about the outermost, of levers (..., N, n).

        The lever turns about its own axis and about all before it.
        """
        moments = np.einsum("b,bk,...bk->...k", self.masses, self._carried, levers) * ROUND_UP
        none = np.zeros((*moments.shape[:-1], 1))
        return np.asarray(np.concatenate([moments, none], axis=-1)[..., outermost])

    def gravity_depends(self, components: np.ndarray) -> np.ndarray:
        """(m,) whether g depends on a coordinate."""
        slid = ~self.turns[components] & (self.before & self.turns[:, None])[:, components].any(axis=0)
        return np.asarray(slid | self.bends_of_gravity(components).any(axis=1))

    def outermost(self, components: np.ndarray, axes: int) -> np.ndarray:
        """(m, n, ...) the outermost of i and the columns, which are in one path; -1 of others.

        If one of the others is a slide, only the outermost of all may be; if i is a slide, the function is
        linear in its coordinate.
        """
        n = len(self.turns)
        found = np.full((len(components), *(n,) * axes), -1)
        for row, i in enumerate(map(int, components)):
            if not self.turns[i]:
                continue
            for columns in itertools.product(range(n), repeat=axes):
                one = [i, *columns]
                outer = max(one, key=lambda k: self.before[:, k].sum())
                inner = [k for k in one if k != outer]
                if self.carries[:, one].all(axis=1).any() and all(self.turns[k] for k in inner):
                    found[(row, *columns)] = outer
        return found

    @property
    def _carried(self) -> np.ndarray:
        return self.carries.astype(float)

    @property
    def _levers(self) -> np.ndarray:
        return np.where(self.carries, self.levers, 0.0)

    def _bend_of_mass_matrix(self, i: int) -> np.ndarray:
        mass, moved = self.masses * self.carries[:, i], self._carried
        inner = self.before[:, i]  # columns k < i; the others that move these bodies are i and those behind
        turn = self.turns & inner
        two = np.outer(turn, turn)
        if not self.turns[i]:
            return np.asarray(ROUND_UP * 2.0 * mass.sum() * two)
        lever, rho = self._levers, self._levers[:, i]
        tilt, cosine = self.tilts[:, i] * self.turns, self.cosines[:, i] * self.turns
        height = np.minimum(self.heights[:, i] * rho, self.distances[:, i] ** 2 / 2.0)  # h rho, (N,)
        # Of degree 1: k < i <= l.
        one = np.einsum("b,bk,bl->kl", mass, lever, lever)
        moments = np.einsum("b,bk,bl->kl", self.moments * self.carries[:, i], moved, moved)
        one += moments * tilt[:, None] * self.turns
        at_axis = mass @ rho * np.where(self.turns, self.origins[:, i], 1.0) + mass @ height * tilt
        at_axis += (self.spreads * self.carries[:, i]).sum() * tilt / 2.0
        one[:, i] = np.minimum(one[:, i], at_axis)
        # Of degree 2: k, l < i.
        mean = np.where(
            self.turns, np.minimum(lever, self.origins[:, i] + self.heights[:, i, None] * tilt), 1.0
        )
        circle = np.einsum("b,bk,l->kl", mass * rho, mean, turn)
        apart = mass @ rho * np.outer(np.where(self.turns, self.origins[:, i], 1.0), turn)
        apart += mass @ height * np.outer(tilt, cosine)
        inward = np.minimum(circle + circle.T, apart + apart.T)
        inward += 2.0 * (mass * rho**2).sum() * np.outer(tilt, tilt)
        spread = (self.spreads * self.carries[:, i]).sum()
        inward += spread * (2.0 * np.outer(tilt, tilt) + (np.outer(tilt, turn) + np.outer(turn, tilt)) / 2.0)
        mixed = np.where(np.outer(inner, ~inner), one, 0.0)
        return ROUND_UP * np.where(np.outer(inner, inner), inward, mixed + mixed.T)


# --- paths ------------------------------------------------------------------------------------------


class PathStep(NamedTuple):
    """An elementary joint of a path: its velocity components, and its frame in that of the step before."""

    joint: ElementaryJoint
    at: range
    rotation: np.ndarray
    start: np.ndarray


def levers_of(postures: Postures, body: int, point: np.ndarray) -> tuple[np.ndarray, float]:
    """Distances, m, of a point of a body from the axes that carry it, (n,), 1 for slides, and from the first.

    Parameters
    ----------
    body : its number; -1 for the ground.
    point : (3,) in the frame of the body, m.
    """
    levers, _, _, far = _distances(postures, path_of(postures, body), point)
    return levers, far


def levers_between(postures: Postures) -> np.ndarray:
    """(3, n, n) levers, heights and distances, m, [., i, k], of the origin of i from the axes before it."""
    n = postures.robot.nv
    found = np.zeros((3, n, n))
    for body in range(len(postures.kinematics.tree.parents)):
        path = path_of(postures, body)
        for number, step in enumerate(path):
            found[:, list(step.at)] = np.stack(_distances(postures, path[:number], step.start)[:3])[:, None]
    return found


def _distances(
    postures: Postures, path: list[PathStep], point: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Levers, heights and distances (n,) of a point behind a path, and its distance from the first origin."""
    levers, heights, distances = np.zeros((3, postures.robot.nv))
    far = 0.0
    for step in reversed(path):
        for component, phi in zip(step.at, step.joint.motion.T, strict=True):
            turning = phi[:3].any()
            levers[component] = np.linalg.norm(np.cross(phi[:3], point)) + far if turning else 1.0
            heights[component] = abs(phi[:3] @ point) + far if turning else 0.0
            distances[component] = np.linalg.norm(point) + far
        ends = [point]
        if step.joint.quaternion is None and not step.joint.turns[0]:
            ends = [point + end * step.joint.motion[3:, 0] for end in _ends(postures, step.at.start)]
        far += max(float(np.linalg.norm(end)) for end in ends)
        point = step.start
    return levers * ROUND_UP, heights * ROUND_UP, distances * ROUND_UP, far * ROUND_UP


def _ends(postures: Postures, component: int) -> tuple[float, float]:
    """The ends of a slide, m; 0 in place of infinite ones: what depends on these is called unbounded."""
    at = int(np.flatnonzero(postures.components == component)[0])
    low, high = float(postures.lower[at]), float(postures.upper[at])
    return (low, high) if np.isfinite(high - low) else (0.0, 0.0)


def _lengths(postures: Postures) -> Lengths:
    kinematics = postures.kinematics
    tree, n = kinematics.tree, kinematics.nv
    masses, centres, moments, spreads = _bodies(tree.inertias, tree.body_names)
    turns, before = np.zeros(n, dtype=bool), np.zeros((n, n), dtype=bool)
    carries = np.zeros((len(masses), n), dtype=bool)
    tilts, cosines, origins = np.zeros((3, n, n))
    levers, heights, distances = np.zeros((3, len(masses), n))
    reach = np.zeros(len(masses))
    for body, centre in enumerate(centres):
        path = path_of(postures, body)
        levers[body], heights[body], distances[body], reach[body] = _distances(postures, path, centre)
        for number, step in enumerate(path):
            own = list(step.at)
            turns[own], carries[body, own] = step.joint.turns, True
            behind = [component for later in path[number + 1 :] for component in later.at]
            before[np.ix_(own, behind)] = True
            origins[:, own] = _distances(postures, path[:number], step.start)[0][:, None]
            tilts[:, own], cosines[:, own] = _tilts(n, path[: number + 1])
    angles, far = (turns, carries, before, tilts, cosines), (origins, heights, distances, levers, reach)
    return Lengths(*angles, *far, centres, masses, moments, spreads)


def _tilts(n: int, path: list[PathStep]) -> tuple[np.ndarray, np.ndarray]:
    """The largest sines and cosines (n, k) of the angles of the axes on a path and those of its last joint.

    The angle of the lines of two successive turns is fixed, and angles of lines obey the triangle inequality.
    """
    last = path[-1]
    found, cosines = np.zeros((2, n, len(last.at)))
    for column, phi in enumerate(last.joint.motion[:3].T):
        if not phi.any():
            continue
        axis, rotation, angle, fixed = phi, last.rotation, 0.0, True
        for step in reversed(path[:-1]):
            seen = rotation @ axis
            turning = [(c, z) for c, z in zip(step.at, step.joint.motion[:3].T, strict=True) if z.any()]
            for component, z in turning:
                sine = np.linalg.norm(np.cross(z, seen)) + 1e-15
                found[component, column] = np.sin(min(angle + np.arctan2(sine, abs(z @ seen)), np.pi / 2.0))
                cosines[component, column] = abs(z @ seen) + 1e-15 if fixed else 1.0
            if turning:  # of a ball joint nothing is before
                axis, rotation, fixed = turning[-1][1], step.rotation, False
                sine = np.linalg.norm(np.cross(axis, seen)) + 1e-15
                angle += float(np.arctan2(sine, abs(axis @ seen)))
            else:
                axis, rotation = seen, step.rotation
    return np.minimum(found * ROUND_UP, 1.0), np.minimum(cosines * ROUND_UP, 1.0)


def path_of(postures: Postures, body: int) -> list[PathStep]:
    """The elementary joints from the ground to a body."""
    kinematics = postures.kinematics
    found: list[PathStep] = []
    while body >= 0:
        place = kinematics.placements[body]
        own = [
            PathStep(element.joint, range(element.v.start, element.v.stop), rotation, start)
            for element, rotation, start in zip(
                kinematics.chains[body],
                itertools.chain([place[:3, :3]], itertools.repeat(np.eye(3))),
                itertools.chain([place[:3, 3]], itertools.repeat(np.zeros(3))),
                strict=False,
            )
        ]
        found = own + found
        body = int(kinematics.tree.parents[body])
    return found


def _bodies(inertias: np.ndarray, names: tuple[str, ...]) -> tuple[np.ndarray, ...]:
    """Masses (N,), centres (N, 3), largest moments about them and differences of moments, (N,) each."""
    masses, centres, moments, spreads = [], [], [], []
    for inertia, name in zip(np.asarray(inertias), names, strict=True):
        mass, first = inertia[5, 5], np.array([inertia[2, 4], inertia[0, 5], inertia[1, 3]])
        if mass == 0.0 and first.any():
            raise ModelError(f"body {name!r} has a first moment and no mass")
        centre = first / mass if mass else np.zeros(3)
        about = inertia[:3, :3] - mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
        values = np.linalg.eigvalsh(about)
        masses.append(abs(mass))
        centres.append(centre)
        moments.append(np.abs(values).max())
        spreads.append(values[-1] - values[0])
    return np.array(masses), np.array(centres).reshape(-1, 3), np.array(moments), np.array(spreads)
