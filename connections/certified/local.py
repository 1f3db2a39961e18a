"""Bounds of second derivatives within boxes, by the lengths and angles that robots have there."""

from __future__ import annotations

import numpy as np

from connections.certified.compiled import compiled
from connections.certified.lengths import Lengths, levers_between, path_of
from connections.certified.postures import Postures

_HINGE, _SLIDE, _HELD = 0, 1, 2


class LocalBends:
    """Second derivatives of H, bounded within boxes.

    Parameters
    ----------
    postures : all postures; slides are limited where H depends on them.
    lengths : of all postures.
    """

    def __init__(self, postures: Postures, lengths: Lengths) -> None:
        motions = np.zeros((len(lengths.turns), 6))
        steps: list[tuple[int, ...]] = []
        geometry: list[np.ndarray] = []
        last: list[int] = []
        numbers: dict[int, int] = {}  # of the steps, by their first components
        coordinate = {int(component): i for i, component in enumerate(postures.components)}
        for body in range(len(lengths.masses)):
            up = -1
            for step in path_of(postures, body):
                first = step.at.start
                if first not in numbers:
                    numbers[first] = len(steps)
                    single = step.joint.quaternion is None
                    kind = _HELD if not single else _HINGE if step.joint.turns[0] else _SLIDE
                    steps.append((up, kind, coordinate.get(first, 0), first, len(step.at)))
                    geometry.append(np.concatenate([step.start, step.rotation.ravel()]))
                    motions[list(step.at)] = step.joint.motion.T
                up = numbers[first]
            last.append(up)
        inertias = (lengths.masses, lengths.moments, lengths.spreads)
        self._bends = lengths.bends_of_mass_matrix(postures.components)
        self._tables = (
            np.array(steps, dtype=np.int64).reshape(-1, 5),
            np.array(geometry).reshape(-1, 12),
            motions,
            np.hstack([lengths.centres, np.stack(inertias, axis=1)]),
            np.array(last, dtype=np.int64),
            lengths.turns,
            lengths.carries,
            lengths.before,
            np.stack([lengths.levers, lengths.heights, lengths.distances]),
            levers_between(postures),
            np.stack([lengths.tilts, lengths.cosines, lengths.origins]),
            lengths.reach,
            self._bends,
            postures.components.astype(np.int64),
        )
        self._shape = lengths.levers.shape

    def __call__(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds (B, m, n, n) within boxes (B, m), and levers (B, N, n) of the bodies' centres, m."""
        bends, levers = np.empty((len(low), *self._bends.shape)), np.empty((len(low), *self._shape))
        middle, half = (low + high) / 2.0, (high - low) * (0.5 + 1e-15)
        compiled.local_bends_rows(*self._tables, middle, half, levers, bends)
        return bends, levers
