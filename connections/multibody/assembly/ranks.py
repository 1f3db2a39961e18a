"""Thresholds of zero in K = L_X phi: scales of conditions and velocities, and the ranks that follow.

A singular value, a column or an entry of K is small for one of two reasons: levers are short, or terms
cancel. Only the second one lowers a rank. So K is divided by the sizes that its entries have before terms
cancel, which `terms_of` finds from the geometry, once for a model. All decisions about ranks are stated in
`scales_of`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from connections.geometry.numerics.least_squares import RANK
from connections.multibody.clusters import DIRECTION, DISTANCE, LINEAR, POSITION, TWIST, Rows
from connections.multibody.definition.host_kinematics import is_length
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.loops.condition_rows import FunctionCondition

# Levers shorter than this are round-off, relative to the longest path from the world's origin to a body of
# the cluster: K is computed in world axes, with errors of about 1e-16 of that path.
_SHORT = 1e-8


def scales_of(terms: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """The sizes of the rows (p,) and columns (n,) of K, by which it is divided before ranks are decided.

    A row has the size of its longest lever, a column that of its longest lever among rows of size one. So a
    loop is not taken for round-off because it shares its cluster with another that is a thousand times
    larger, and of K over both sizes:

    - no entry is much larger than one. An entry that the geometry makes zero has the size of round-off, or of
      the error of a singular reference, to which Newton's method comes to about 1e-8: less than `RANK`;
    - the rank is the number of singular values above `RANK`. A condition that does not raise it is redundant;
    - columns are independent if each is longer than `RANK`, and has a sine of its angle to the span of those
      before it that is large enough, at least `SINGULAR` (`least_sine` with size 1);
    - a reference is regular if all velocities in the kernel are those of motions (`neighbours`). Where the
      rank is higher at closed configurations nearby, they are not.

    Parameters
    ----------
    terms : (p, n) sizes of the terms of the entries of K, with columns in their units (`terms_of`).
    least : the size below which a row is round-off.
    """
    rows = np.maximum(terms.max(axis=1, initial=0.0), least)
    columns = (terms / rows[:, None]).max(axis=0, initial=0.0)
    return rows, np.where(columns > RANK, columns, 1.0)


def paths_of(spanning: Kinematics, of_body: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The lengths (N,), m, of the paths from the world's origin to the bodies' origins, joint by joint.

    A slide counts as long as its cluster, so that they hold at all configurations. `sizes` (M,), m.
    """
    tree = spanning.tree
    slides = np.array([is_length([joint]).any() for joint in tree.joints])
    steps = np.linalg.norm(tree.positions, axis=1) + np.where(slides, sizes[of_body], 0.0)
    paths = np.zeros(len(steps))
    for body, parent in enumerate(tree.parents):
        paths[body] = steps[body] + (paths[parent] if parent >= 0 else 0.0)
    return paths


def terms_of(
    spanning: Kinematics,
    rows: Rows,
    functions: Sequence[FunctionCondition],
    paths: np.ndarray,
    sizes: np.ndarray,
    units: np.ndarray,
) -> np.ndarray:
    """Bounds (p, nv) of the terms of K, with columns in their units, before any of them cancel.

    A joint that turns moves the end of a loop by at most the length of the path between them, along which
    terms cancel: a rod that spins about its own axis does not move its end, whatever its length. The
    derivative of a user's function is a scaled one, whose terms are one.

    Parameters
    ----------
    spanning : the spanning tree.
    rows, functions : the conditions.
    paths : (N,) m, `paths_of`.
    sizes : (M,) m, of the clusters.
    units : (nv,) of the velocities.
    """
    turning = np.concatenate([element.joint.turns for element in spanning.elements])
    body_of, coordinate = spanning.body_of, spanning.coordinate_of
    pitches = np.array([max(abs(e.pitch_of_link) for e in joint.chain) for joint in spanning.joints])[body_of]
    moves = np.concatenate([spanning.moves, np.zeros((1, spanning.nv), dtype=bool)])
    paths = np.append(paths, 0.0)
    found = []
    for row, kind in enumerate(rows.kinds):
        if kind == LINEAR:
            numbers = np.where(coordinate >= 0, rows.coefficients[row, coordinate], 0.0)
            found.append(np.abs(numbers) * units * rows.scales[row])
            continue
        a, b = rows.bodies_a[row], rows.bodies_b[row]
        one = moves[a] ^ moves[b]
        if kind in (DIRECTION, TWIST):
            found.append(np.where(one & turning, 1.0, 0.0))
            continue
        gap, scale = _gap(rows, row, sizes), rows.scales[row]
        ends = np.linalg.norm(rows.points_a[row]) + gap, np.linalg.norm(rows.points_b[row])
        levers = np.where(moves[a], paths[a] + ends[0], paths[b] + ends[1]) - paths[body_of] + pitches
        along = gap if kind == DISTANCE else 1.0
        found.append(np.where(one, along * scale * np.where(turning, levers, units), 0.0))
    ones = [np.ones((function.size(spanning), spanning.nv)) for function in functions]
    return np.concatenate([np.reshape(found, (-1, spanning.nv)), *ones])


def _gap(rows: Rows, row: int, sizes: np.ndarray) -> float:
    """The distance of the two points of a row, m; the size of its cluster, if one of them slides."""
    if rows.kinds[row] == DISTANCE:
        return float(np.sqrt(rows.constants[row]))
    together = (rows.owners == rows.owners[row]) & (rows.kinds == POSITION)
    return 0.0 if together.sum() == 3 else float(sizes[rows.clusters[row]])


def least_size(paths: np.ndarray, size: float) -> float:
    """The size of a row that is round-off, in a cluster of this size, m, whose bodies have these `paths`."""
    return _SHORT * max(1.0, float(paths.max(initial=0.0)) / size)
