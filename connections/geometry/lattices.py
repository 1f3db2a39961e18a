"""Lattices of periods: which of the images of a point are near, also where the coordinates are oblique."""

from __future__ import annotations

import numpy as np

MOST_IMAGES = 100_000  # among which the nearest is looked for


def nearby(vectors: np.ndarray, offset: np.ndarray, length: float) -> np.ndarray | None:
    """Whole turns (c, k), all those with |vectors @ turns + offset| <= length; None if there are too many.

    Parameters
    ----------
    vectors : (n, k) the lattice's basis, independent, in an orthonormal basis of the space.
    offset : (n,). length : of the ball.

    The basis is made short first, pair by pair (Lagrange's reduction), so that few turns have to be tried:
    turns = V^+ (x - offset) with |x| <= length, so each lies within |row of V^+| length of its part of
    -V^+ offset. Source: derived in this text.
    """
    short, change = _reduced(vectors)
    inverse = np.linalg.pinv(short)
    middle, reach = -inverse @ offset, np.linalg.norm(inverse, axis=1) * length
    slack = 1e-9 * (1.0 + np.abs(middle) + reach)
    low, high = np.ceil(middle - reach - slack), np.floor(middle + reach + slack)
    if np.prod(np.maximum(high - low + 1.0, 0.0)) > MOST_IMAGES:
        return None
    ranges = [np.arange(a, b + 1.0) for a, b in zip(low, high, strict=True)]
    turns = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(ranges))
    near = np.linalg.norm(turns @ short.T + offset, axis=1) <= length * (1.0 + 1e-9)
    found: np.ndarray = turns[near] @ change.T
    return found


def _reduced(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A shorter basis of the same lattice, (n, k), and the turns (k, k) of which it is made."""
    short, change = vectors.copy(), np.eye(vectors.shape[1])
    shorter = True
    while shorter:
        shorter = False
        for i in range(short.shape[1]):
            for j in range(short.shape[1]):
                if i == j:
                    continue
                turns = np.round(short[:, i] @ short[:, j] / (short[:, j] @ short[:, j]))
                reduced = short[:, i] - turns * short[:, j]
                if turns and reduced @ reduced < (1.0 - 1e-9) * (short[:, i] @ short[:, i]):
                    short[:, i], shorter = reduced, True
                    change[:, i] -= turns * change[:, j]
    return short, change
