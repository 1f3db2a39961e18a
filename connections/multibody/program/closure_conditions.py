"""Closure conditions and poses at one spanning configuration, by the kernel that also solves loops.

The assembly finds a configuration in which the loops close by them; other files test whether one is
regular. All conditions and all links are one `layout.LOOP` here, carried by the ground. Source: [W] VI-C.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from connections.multibody.clusters import Rows
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.kernels.layout import POSE
from connections.multibody.loops.condition_rows import FunctionCondition, Placed
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.loop_packing import pack_conditions


class HostConditions:
    """The conditions phi = 0 of a mechanism as functions of its spanning configuration.

    Parameters
    ----------
    kinematics : the spanning tree.
    rows, functions : the conditions.

    One thread at a time may use it. It does not look at whether numbers are finite: results for NaN are NaN.
    """

    def __init__(
        self, kinematics: Kinematics, rows: Rows, functions: Sequence[FunctionCondition] = ()
    ) -> None:
        self._kinematics, self._functions, self._conditions = kinematics, functions, len(rows.kinds)
        self._closure, self._carriers, self._axes = pack_conditions(kinematics, rows)
        none = np.zeros((1, kinematics.nv), dtype=bool)
        self._moves = np.concatenate([kinematics.moves, none]).astype(np.float64)

    def at(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """phi (p,) and K = L_X phi (p, nv) at the spanning configuration q (nq,); `functions` come last."""
        phi, K, *where = self._evaluate(q)
        if not self._functions:
            return phi, K
        placed = self._placed(*where)
        more = [function.residual_and_derivative(placed, self._moves, q) for function in self._functions]
        return (
            np.concatenate([phi, *(value for value, _ in more)]),
            np.concatenate([K, *(derivative for _, derivative in more)]),
        )

    def of(self, function: FunctionCondition, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """phi (k,) and K (k, nv) of one function at q (nq,)."""
        return function.residual_and_derivative(self.placed(q), self._moves, q)

    def terms_of(self, function: FunctionCondition, q: np.ndarray) -> np.ndarray:
        """The sizes of the terms of its K before cancellation, (k, nv), apart from its scale."""
        return function.terms(self.placed(q), self._moves, q)

    def slopes_of(self, function: FunctionCondition, q: np.ndarray) -> np.ndarray:
        """The largest absolute derivative of each component by the numbers the function is given, (k,)."""
        slopes = function.slopes(self.placed(q), q)
        return np.asarray(slopes.reshape(len(slopes), -1).max(axis=1))

    def placed(self, q: np.ndarray) -> Placed:
        """Poses of the bodies and columns of the velocities at q (nq,)."""
        return self._placed(*self._evaluate(q)[2:])

    def _evaluate(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """phi (p,) and K (p, nv) of all but functions, poses of the carriers and columns of velocities."""
        nv, p = self._kinematics.nv, self._conditions
        phi, K, columns = np.empty(p), np.empty((nv, p)), np.empty((nv, 6))
        poses = np.empty((int(self._carriers.max()) + 1, POSE.size))
        at = np.array(q, dtype=np.float64)
        if not compiled.conditions_at(self._closure, at, phi, K, poses, columns):
            raise RuntimeError(f"q {at.shape} or this closure does not fit the compiled code")
        return phi, K.T, poses, columns

    def _placed(self, poses: np.ndarray, columns: np.ndarray) -> Placed:
        of_bodies = poses[self._carriers]
        transforms = np.tile(np.eye(4), (len(of_bodies), 1, 1))
        R = of_bodies[:, : POSE.position].reshape(-1, 3, 3)
        transforms[:, :3, :3] = R @ self._axes.transpose(0, 2, 1)
        transforms[:, :3, 3] = of_bodies[:, POSE.position :]
        return Placed(self._kinematics, transforms, columns)
