"""`SolvedLoops`: configurations of a robot at which its loops are solved."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, final

import jax
import numpy as np

from connections._moved import keep_old_names
from connections.checks import PointError, is_traced
from connections.engines.arguments import as_rows, base_ndarray
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.loops.closed_kinematics import ClosedKinematics


@final
@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False, repr=False)
class SolvedLoops:
    """Configurations of a robot with their loops solved: what `close_loops` returns.

    Every function of the robot takes it in place of q, and solves no loop again. So does a robot that differs
    in gravity, inertia, armature or frames only, and one that is equal: copied, pickled, or read again.

    ``closed[i]`` and ``len(closed)`` are those of its batch axes. For JAX, it is a pytree. Derivatives are
    those by q, of which the solution is a function.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("four_bar")
    >>> closed = mb.close_loops(robot, [[0.1], [0.2], [0.3]])
    >>> len(closed), closed[1].q
    (3, array([0.2]))
    >>> mb.mass_matrix(robot, closed).shape
    (3, 1, 1)
    """

    _kinematics: Kinematics | ClosedKinematics
    _q: Any  # (..., nq)
    _solution: Any  # (..., k) as in `SolutionLayout`; None of a robot without loops

    @property
    def q(self) -> Any:
        """(..., nq) the coordinates of the independent joints; read-only."""
        return _read_only(self._q)

    @property
    def spanning(self) -> Any:
        """(..., nq_s) the configurations of all joints, one after the other; read-only.

        Joints are in the order of ``model.spanning_tree.joint_names``.
        """
        kinematics = self._kinematics
        if not isinstance(kinematics, ClosedKinematics):
            return self.q
        q_s = self._solution[..., : kinematics.spanning.nq]
        if not is_traced(q_s, self._q):
            return _read_only(q_s)
        following: Any = kinematics.following
        for _ in self._q.shape[:-1]:
            following = jax.vmap(following)
        return following(self._q, q_s).astype(self._q.dtype)

    def __len__(self) -> int:
        if self._q.ndim == 1:
            raise TypeError("these SolvedLoops are of one configuration, which has no length")
        return len(self._q)

    def __iter__(self) -> Iterator[SolvedLoops]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, rows: Any) -> SolvedLoops:
        rows = rows if isinstance(rows, tuple) else (rows,)
        rows = (*rows, slice(None)) if any(row is ... for row in rows) else (*rows, ..., slice(None))
        found: SolvedLoops = jax.tree.map(lambda array: array[rows], self)
        return found

    def __repr__(self) -> str:
        return f"SolvedLoops(q={self._q!r})"

    def __array__(self, *options: Any, **named: Any) -> NoReturn:
        raise TypeError(
            "SolvedLoops are no array: write .q, or .spanning for the configurations of all joints"
        )

    def tree_flatten(self) -> tuple[tuple[Any, Any], Any]:
        """The arrays; and the robot's kinematics, which JAX must not keep."""
        return (self._q, self._solution), weakref.ref(self._kinematics)

    @classmethod
    def tree_unflatten(cls, kinematics: Any, arrays: Any) -> SolvedLoops:
        """The configurations of the same robot with other arrays."""
        found = kinematics()
        if found is None:
            raise ReferenceError("the robot of these SolvedLoops does not exist any more")
        return cls(found, *arrays)


def coordinates_of(q: Any, kinematics: Kinematics | ClosedKinematics, name: str = "q") -> Any:
    """q (..., nq) of `SolvedLoops`, whose array is writeable for compiled code; anything else as it is.

    Parameters
    ----------
    q : the `SolvedLoops`, or something else.
    kinematics : of the robot whose configurations they should be.
    name : of the argument in errors.

    Raises
    ------
    PointError : it is `SolvedLoops` of another robot.
    """
    if not isinstance(q, SolvedLoops):
        return q
    if q._kinematics is not kinematics:
        _require_same_loops(name, q._kinematics, kinematics)
    return q._q


def solution_of(closed: SolvedLoops, kinematics: Kinematics | ClosedKinematics) -> Any:
    """The solution (..., k) of `SolvedLoops`; `PointError` if it is of another robot."""
    if closed._kinematics is not kinematics:
        _require_same_loops("q", closed._kinematics, kinematics)
    return closed._solution


def with_numpy_arrays(closed: SolvedLoops) -> SolvedLoops:
    """The configurations and solutions as NumPy arrays that compiled code accepts."""
    found: SolvedLoops = jax.tree.map(lambda array: base_ndarray(np.asarray(array, np.float64)), closed)
    return found


def rows_of(closed: SolvedLoops, batch: tuple[int, ...] | None = None) -> SolvedLoops:
    """The configurations and solutions in NumPy, with one axis (m,) for the batch.

    They are broadcast to `batch`; by default it is their own.
    """
    batch = closed.q.shape[:-1] if batch is None else batch
    rows: SolvedLoops = jax.tree.map(lambda array: as_rows(array, batch), closed)
    return rows


def _require_same_loops(
    name: str, own: Kinematics | ClosedKinematics, kinematics: Kinematics | ClosedKinematics
) -> None:
    if _joints(own) is not _joints(kinematics) and own != kinematics:
        loops = "" if isinstance(kinematics, ClosedKinematics) else ", which has no loops"
        raise PointError(
            f"{name}: it is closed for another robot than this one{loops}; write close_loops(model, q)"
        )


def _joints(kinematics: Kinematics | ClosedKinematics) -> object:
    """The object that is the same for robots that differ in gravity, inertia, armature and frames only."""
    return kinematics.clusters if isinstance(kinematics, ClosedKinematics) else kinematics.tree.joints


def _read_only(array: Any) -> Any:
    """A view that is not writeable of an array of NumPy; others never are."""
    if isinstance(array, np.ndarray):
        array = array.view()
        array.flags.writeable = False
    return array


keep_old_names(__name__)
