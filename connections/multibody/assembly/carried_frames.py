"""Loops whose frames are carried to each other, from where a reference draws them, on a short way.

Newton's method may close a weld with a frame that is turned away, by half a turn or a third, because the
conditions allow it: from frames that are drawn far apart, it mostly does. If frame b is carried from frame a,
where the loop is closed, to its place in its body, a closed configuration follows it step by step, and the
frames are never turned away. D is the pose of b in a where they are drawn; on the way b is at

    B(s) = B E(s),    E(s) = [exp((1 - s) log R, (1 - s) p],    [R, p] = D^-1,    0 <= s <= 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from connections.multibody.clusters import DIRECTION, DISTANCE, POSITION, TWIST, Rows
from connections.multibody.graph import Tree
from connections.multibody.loops.closures import Distance, Loop
from connections.multibody.loops.condition_rows import ends_of


class CarriedFrames:
    """The conditions while frames b are carried.

    Parameters
    ----------
    tree : the spanning tree.
    loops : the loops, whose owners are the first numbers. Rods (`Distance`) and functions remain as they are.
    rows : the conditions.
    transforms : (N + 1, 4, 4), m: the bodies where they are drawn, the ground the last one.
    """

    def __init__(self, tree: Tree, loops: Sequence[Loop], rows: Rows, transforms: np.ndarray) -> None:
        self._rows = rows
        self._ways: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        for owner, loop in enumerate(loops):
            if isinstance(loop.closure, Distance) or callable(loop.closure):
                continue
            (a, frame_a), (b, frame_b) = ends_of(tree, loop)
            back = np.linalg.inv(transforms[b] @ frame_b) @ transforms[a] @ frame_a  # D^-1
            self._ways[owner] = frame_b, Rotation.from_matrix(back[:3, :3]).as_rotvec(), back[:3, 3]

    def at(self, s: float) -> Rows:
        """The conditions at s: closed as drawn at 0, those of the loops at 1."""
        rows, points, w = self._rows, self._rows.points_b.copy(), self._rows.w.copy()
        for owner, (frame, turn, way) in self._ways.items():
            R = frame[:3, :3]
            turned = R @ Rotation.from_rotvec((1.0 - s) * turn).as_matrix() @ R.T
            for row in np.flatnonzero(rows.owners == owner):
                if rows.kinds[row] in (POSITION, DISTANCE):
                    points[row] = rows.points_b[row] + (1.0 - s) * R @ way
                if rows.kinds[row] in (DIRECTION, TWIST):
                    w[row] = turned @ rows.w[row]
                if rows.kinds[row] == TWIST:
                    points[row] = turned @ rows.points_b[row]
        return replace(rows, points_b=points, w=w)
