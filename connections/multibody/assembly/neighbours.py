"""Closed configurations near a reference, and whether the velocities that K leaves there are motions.

At the reference q, K has the range U (p, rank); the other directions of the conditions are redundant there.
The conditions U^T phi = 0 alone are regular, and by the implicit function theorem their solutions near q are
a manifold, with one point beside q + v for each small velocity v of the kernel of K. If all conditions hold
on it, the reference is regular. If not, the redundant conditions bind velocities that K leaves: the rank is
higher nearby, or the velocities are no motions, as where an arm is stretched out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from connections.geometry.numerics.least_squares import RANK
from connections.multibody.assembly.mobility import Conditions
from connections.multibody.definition.host_kinematics import moved

NEARBY = 0.1  # rad, or of the size of a cluster: the length of the steps that are tried first
# Redundant conditions may bind a velocity at the fifth order only: then they are wrong by 1e-9 after steps of
# 0.1 rad, and by 1e-6 after these.
_FARTHER = 4 * NEARBY
_SMALLER, _STEPS = 0.25, 10.0  # steps that U^T phi = 0 cannot follow are made shorter, and so often
_DRAWS = 3  # velocities that are tried
_ITERATIONS, _ROUND_OFF = 8, 1e-12  # of Newton's method, and |U^T phi| at its end
_ASTRAY = 0.5  # the way from q + v, relative to v, beyond which it has left this manifold


@dataclass
class Neighbours:
    """Closed configurations about a tenth of a radian from a reference, and what they say about it."""

    points: list[np.ndarray] = field(default_factory=list)  #: (nq_s,) each
    #: for each cluster whose kernel has velocities that are no motions: how much its redundant conditions
    #: bind each velocity nearby, (nv_s,)
    stuck: dict[int, np.ndarray] = field(default_factory=dict)


def neighbours(conditions: Conditions, q: np.ndarray) -> Neighbours:
    """The closed configurations near q (nq_s,), at which the loops close.

    Parameters
    ----------
    conditions : of all loops and couplings.
    q : the reference.
    """
    rng, found, owners = np.random.default_rng(4), Neighbours(), conditions.owners[1]
    q = conditions.within_a_turn(q)
    split = {int(cluster): conditions.split(q, cluster) for cluster in conditions.tied}
    U = np.concatenate([along for along, _ in split.values()], axis=1)
    for _ in range(_DRAWS):
        v = np.zeros(conditions.spanning.nv)
        for _, kernel in split.values():
            along = rng.normal(size=len(kernel)) @ kernel
            v += along / max(np.abs(along).max(initial=0.0), RANK)
        followed = (
            _on_manifold(conditions, U, q, NEARBY * v * size) for size in _SMALLER ** np.arange(_STEPS)
        )
        point = next((point for point in followed if point is not None), None)
        if point is None:
            found.stuck.update(dict.fromkeys(split, np.abs(v)))
            break
        farther = _on_manifold(conditions, U, q, _FARTHER * v)
        for reached in (point, farther):
            if reached is None:
                continue
            phi, K = conditions.in_units(reached)
            wrong, redundant = np.abs(phi) > conditions.scales[2], K - U @ (U.T @ K)
            for cluster in np.unique(owners[wrong]).tolist():
                found.stuck[cluster] = np.linalg.norm(redundant[owners == cluster], axis=0)
            if reached is point and not wrong.any():
                found.points.append(point)
    return found


def _on_manifold(conditions: Conditions, U: np.ndarray, q: np.ndarray, step: np.ndarray) -> np.ndarray | None:
    """The point with U^T phi = 0 beside the configuration to which `step` (nv_s,) in units leads from q.

    None if Newton's method finds none near it.
    """
    spanning, columns = conditions.spanning, conditions.tied_columns
    tried, way = moved(spanning, q, conditions.units * step), 0.0
    most = _ASTRAY * np.abs(step).max(initial=0.0)
    for _ in range(_ITERATIONS):
        phi, K = conditions.in_units(tried)
        right = U.T @ phi
        if not np.isfinite(right).all():
            return None
        if np.abs(right).max(initial=0.0) < _ROUND_OFF:
            return tried
        back = np.zeros(spanning.nv)
        back[columns] = -np.linalg.lstsq(U.T @ K[:, columns], right, rcond=None)[0]
        way += float(np.abs(back).max())
        if not way <= most:
            return None
        tried = moved(spanning, tried, conditions.units * back)
    return None
